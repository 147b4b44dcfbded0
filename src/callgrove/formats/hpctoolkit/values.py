"""Values of a database by profile or by context, read from their own blocks when asked for.

profile.db answers for profiles, cct.db for contexts; where one of them is missing or broken the other answers for
both, more slowly. Context 0, the file's root above all entry points, is no context: its values are left out here and
given by `root` for checks and for rewriting.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np

from callgrove.arrays import Array, Bools, Ids, Ints
from callgrove.binary.files import IdMap
from callgrove.errors import CallgroveError, CorruptFile
from callgrove.formats.hpctoolkit.blocks import RawBlock, SparseBlocks
from callgrove.model.values import Block, SparseBlock

__all__ = ["DatabaseValues", "MetricTable", "summary_is_alone"]

N_METRIC_IDS = 1 << 16


class MetricTable:
    """From metric ids of the file (16 bits) to metric rows; -1 is unknown."""

    def __init__(self, rows: dict[int, int]) -> None:
        self._rows = np.full(N_METRIC_IDS, -1, np.int32)
        for id_, row in rows.items():
            if 0 <= id_ < N_METRIC_IDS:
                self._rows[id_] = row

    def __getitem__(self, ids: Array) -> Ids:
        rows: Ids = self._rows[ids]
        return rows

    def __contains__(self, row: int) -> bool:
        return bool((self._rows == row).any())


def summary_is_alone(profiles: SparseBlocks | None, is_summary: Bools) -> bool:
    """Does the summary have values, while none of a thread can be read? It is then all that is known."""
    if profiles is None:
        return False
    has_values = (profiles.n_values > 0) & ~profiles.broken
    return bool(has_values[is_summary].any() and not has_values[~is_summary].any())


class DatabaseValues:
    """The values of profile.db and cct.db in the model's ids. Profiles keep the numbers they have in the file.

    In a summary profile a metric id means another thing (a statistic), so it has a table of its own.
    `problems` collects the damage that streaming met and stepped over.
    """

    def __init__(
        self,
        by_profile: SparseBlocks | None,
        by_context: SparseBlocks | None,
        contexts: IdMap,
        context_ids: Ints,
        metrics: MetricTable,
        summary_metrics: MetricTable,
        is_summary: Bools,
    ) -> None:
        self.by_profile, self.by_context = by_profile, by_context
        self._contexts, self._context_ids = contexts, context_ids
        self._metrics, self._summary_metrics = metrics, summary_metrics
        self._is_summary = is_summary
        self.problems: list[CallgroveError] = []

    @cached_property
    def summary_is_alone(self) -> bool:
        return summary_is_alone(self.by_profile, self._is_summary)

    def n_stored(self) -> int | None:
        """Return what the headers announce, values of the file's root included."""
        blocks = self.by_profile or self.by_context
        return None if blocks is None else int(blocks.n_values[~blocks.broken].sum())

    def summarises(self, metric: int) -> bool:
        """A summary without any value says nothing: writers that leave it out, or were interrupted, make such."""
        if self.by_profile is None or not self.belongs_in_summary(metric):
            return False
        return bool((self.by_profile.n_values[self._is_summary] > 0).all())

    def belongs_in_summary(self, metric: int) -> bool:
        """Do the tables say that summaries hold this metric?"""
        return metric in self._summary_metrics

    def profile(self, profile: int, metrics: Ints | None = None) -> SparseBlock:
        if self.by_profile is None:
            parts = [b.take(b.profile == profile) for b in self._from_contexts() if profile in b.profile]
            return SparseBlock.concatenate(parts).of_metrics(metrics)
        block = self.by_profile.block(profile)
        if len(block.ids) and block.ids[0] == 0:
            block = block.without_first()
        return self._of_profile(profile, block).of_metrics(metrics)

    def root(self, profile: int) -> tuple[Ids, Array]:
        """Metric rows and values of the file's root in one profile."""
        if self.by_profile is None:
            return np.empty(0, np.int32), np.empty(0)
        block = self.by_profile.lookup(profile, 0)
        table = self._summary_metrics if self._is_summary[profile] else self._metrics
        return table[block.minor], block.value.astype(np.float64)

    def root_by_profile(self, profiles: Ints) -> SparseBlock:
        """Values of the file's root in some profiles, as profile.db has them; damaged profiles are left out."""
        parts = []
        for profile in [] if self.by_profile is None else profiles[~self.by_profile.broken[profiles]].tolist():
            try:
                rows, value = self.root(profile)
            except CorruptFile as error:
                self._record_problem(error)
                continue
            parts.append(SparseBlock(np.full(len(rows), profile, np.int32), np.zeros_like(rows), rows, value))
        return SparseBlock.concatenate(parts)

    def root_by_context(self) -> SparseBlock:
        """Return the values of the root as cct.db has them."""
        assert self.by_context is not None
        block = self.by_context.block(0)
        profile, metric = block.minor.astype(np.int32), block.major(self._metrics[block.ids])
        return SparseBlock(profile, np.zeros_like(metric), metric, block.value.astype(np.float64))

    def context(self, context: int) -> SparseBlock:
        id_ = int(self._context_ids[context])
        if self.by_context is None or self.summary_is_alone:
            return self.in_profiles(context)
        return (
            self._of_context(context, self.by_context.block(id_)) if id_ < len(self.by_context) else SparseBlock.empty()
        )

    def in_profiles(self, context: int) -> SparseBlock:
        """Return the values of one context in all measured profiles, as profile.db has them."""
        if self.by_profile is None:
            return SparseBlock.empty()
        id_ = int(self._context_ids[context])
        chosen = self._is_summary if self.summary_is_alone else ~self._is_summary
        blocks = (
            self._of_profile(p, self.by_profile.lookup(p, id_))
            for p in np.flatnonzero(chosen & ~self.by_profile.broken).tolist()
        )
        return SparseBlock.concatenate([b for b in blocks if len(b)])

    def blocks(self, profiles: Ints | None = None, metrics: Ints | None = None) -> Iterator[Block]:
        for block in self._from_profiles(profiles) if self.by_profile is not None else self._from_contexts():
            part = block.of_metrics(metrics)
            if self.by_profile is None and profiles is not None:
                part = part.take(np.isin(part.profile, profiles))
            if len(part):
                yield part

    def _from_profiles(self, profiles: Ints | None) -> Iterator[SparseBlock]:
        """Profile after profile in the order of their blocks: one sequential pass over the file."""
        assert self.by_profile is not None
        chosen = np.arange(len(self.by_profile)) if profiles is None else profiles
        for profile in chosen[np.argsort(self.by_profile.values_at[chosen], kind="stable")].tolist():
            if self.by_profile.broken[profile]:
                continue  # known since the file was opened
            try:
                yield self.profile(profile)
            except CorruptFile as error:
                self._record_problem(error)

    def _from_contexts(self) -> Iterator[SparseBlock]:
        if self.by_context is None:
            return
        known = np.flatnonzero(self._context_ids >= 0)
        for context in known[np.argsort(self._context_ids[known])].tolist():
            id_ = int(self._context_ids[context])
            if id_ >= len(self.by_context) or self.by_context.broken[id_]:
                continue
            try:
                yield self._of_context(context, self.by_context.block(id_))
            except CorruptFile as error:
                self._record_problem(error)

    def _record_problem(self, error: CorruptFile) -> None:
        if str(error) not in {str(known) for known in self.problems}:
            self.problems.append(error)

    def _of_profile(self, profile: int, block: RawBlock) -> SparseBlock:
        contexts = self._contexts[block.ids]
        triples = SparseBlock(
            np.full(len(block.value), profile, np.int32),
            block.major(contexts),
            (self._summary_metrics if self._is_summary[profile] else self._metrics)[block.minor],
            block.value.astype(np.float64),
        )
        return self._keep_known(triples, f"profile {profile}", self.by_profile)

    def _of_context(self, context: int, block: RawBlock) -> SparseBlock:
        profile = block.minor.astype(np.int64)
        inside = profile < len(self._is_summary)
        triples = SparseBlock(
            np.where(inside, profile, -1).astype(np.int32),
            np.full(len(profile), context, np.int32),
            block.major(self._metrics[block.ids]),
            block.value.astype(np.float64),
        )
        triples = self._keep_known(triples, f"context {int(self._context_ids[context])}", self.by_context)
        return triples.take(~self._is_summary[triples.profile]) if self._is_summary.any() else triples

    def _keep_known(self, block: SparseBlock, section: str, blocks: SparseBlocks | None) -> SparseBlock:
        """Return the values whose profile, context and metric some table names; the others are a problem, not a
        value."""
        for what, ids in (("profile", block.profile), ("context", block.context), ("metric", block.metric)):
            if len(ids) and int(ids.min()) < 0:
                kept = (block.profile >= 0) & (block.context >= 0) & (block.metric >= 0)
                found = f"{int((~kept).sum())} values with an unknown {what} id, which are left out"
                assert blocks is not None
                self._record_problem(
                    CorruptFile(blocks.file.path, section, expected=f"{what} ids that a table names", found=found)
                )
                return block.take(kept)
        return block
