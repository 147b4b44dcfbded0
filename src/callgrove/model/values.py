"""The sparse tensor (profile, context, metric) -> number.

Values are backed lazily: a backend answers one profile or one context from its own block and streams everything as
blocks. Two kinds of block exist, and `Block.triples` is the one helper through which consumers take either:

    SparseBlock   parallel arrays profile, context, metric, value
    DenseBlock    one metric, a matrix (contexts x profiles)

Absent is the aggregation's neutral element (0 for sums). Integers stay integers; composite values are structured.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from callgrove.arrays import Array, Bools, Floats, Ids, Ints, bundles, distinct, in_order, summable
from callgrove.errors import CallgroveError, CorruptFile, UsageError
from callgrove.model.contexts import ContextTree
from callgrove.model.metrics import Aggregation, Metrics
from callgrove.model.profiles import Profiles

__all__ = [
    "ArrayValues",
    "Block",
    "DenseBlock",
    "FillsColumns",
    "HasFillers",
    "NoValues",
    "SparseBlock",
    "ValueBackend",
    "Values",
    "blocks_without_fillers",
    "has_fillers",
    "is_set",
]

BLOCK_ROWS = 1 << 16  # of values in memory that come at once


@dataclass(frozen=True)
class SparseBlock:
    """Some values as parallel arrays. No order is promised across blocks; inside one, it is the file's. `fillers` are
    rows that have the neutral element in place of a number that nobody measured; None where there are none."""

    profile: Ids
    context: Ids
    metric: Ids
    value: Array
    fillers: Bools | None = None

    def __len__(self) -> int:
        return len(self.value)

    def triples(self) -> SparseBlock:
        return self

    def take(self, rows: Array | slice) -> SparseBlock:
        """Return some of the rows, by mask, by index or by slice."""
        if isinstance(rows, slice):
            fillers = None if self.fillers is None else self.fillers[rows]
            return SparseBlock(self.profile[rows], self.context[rows], self.metric[rows], self.value[rows], fillers)
        if rows.dtype == np.bool_:
            rows = np.flatnonzero(rows)  # a mask of scattered rows takes ten times as long
        fillers = None if self.fillers is None else self.fillers.take(rows)
        profile, context, metric = (column.take(rows) for column in (self.profile, self.context, self.metric))
        return SparseBlock(profile, context, metric, self.value.take(rows), fillers)

    def of_metrics(self, metrics: Ints | None) -> SparseBlock:
        """Return the rows of some metrics; None is all."""
        return self if metrics is None else self.take(np.isin(self.metric, metrics))

    @classmethod
    def empty(cls) -> SparseBlock:
        return cls.with_room(0)

    @classmethod
    def with_room(cls, n: int, kind: npt.DTypeLike = np.float64) -> SparseBlock:
        """Return columns that are to be filled, for values of a type."""
        profile, context, metric = (np.empty(n, np.int32) for _ in range(3))
        return cls(profile, context, metric, np.empty(n, kind))

    def put(self, at: int, part: SparseBlock) -> int:
        """Write a part to a place, and return where it ends."""
        to = slice(at, at + len(part))
        self.profile[to], self.context[to] = part.profile, part.context
        self.metric[to], self.value[to] = part.metric, part.value
        return to.stop

    @classmethod
    def concatenate(cls, blocks: Sequence[SparseBlock]) -> SparseBlock:
        """Return one block of many. Numbers of different types become doubles; composite values need one type."""
        if not blocks:
            return cls.empty()
        kinds = {b.value.dtype for b in blocks}
        if len(kinds) > 1 and any(kind.names is not None for kind in kinds):
            raise UsageError("values of these types do not fit into one column: ask for one metric at a time")
        parts = zip(*((b.profile, b.context, b.metric, b.value) for b in blocks), strict=True)
        return cls(*(np.concatenate(part) for part in parts))


@dataclass(frozen=True)
class DenseBlock:
    """One metric over (some contexts x some profiles). `fillers` are cells that have the neutral element in place of a
    number that nobody measured; None where there are none."""

    metric: int
    contexts: Ids
    profiles: Ids
    matrix: Array
    neutral: float = 0.0
    fillers: Bools | None = None

    def __len__(self) -> int:
        return int(self.matrix.size)

    def triples(self) -> SparseBlock:
        """Return what is not neutral, profile by profile."""
        kept = self.matrix.T != self.neutral if self.matrix.dtype.names is None else is_set(self.matrix.T)
        profile, context = np.nonzero(kept)
        metric = np.full(len(profile), self.metric, np.int32)
        return SparseBlock(self.profiles[profile], self.contexts[context], metric, self.matrix.T[kept])


def is_set(composite: Array) -> Bools:
    """Return where any field, or any number of a field that is an array, differs from 0."""
    out = np.zeros(composite.shape, np.bool_)
    for name in composite.dtype.names or ():
        values = composite[name]
        part = is_set(values) if values.dtype.names is not None else values != 0
        out |= part.any(axis=tuple(range(composite.ndim, part.ndim)))
    return out


Block = SparseBlock | DenseBlock
ReadBlocks = Callable[[Ints, Ints | None], Iterator[Block]]


class ValueBackend(Protocol):
    """Where values come from. Ids are the model's; blocks never mix value types."""

    @property
    def problems(self) -> list[CallgroveError]:
        """Damage that streaming met and stepped over; who steps over more adds to it."""

    def n_stored(self) -> int | None:
        """Return how many values the input announces, where that is known without reading them; `blocks` gives no
        more."""

    def summarises(self, metric: int) -> bool:
        """Return whether the stored summary holds this metric, so that what is absent in it is zero. This is known
        without reading."""

    def profile(self, profile: int, metrics: Ints | None = None) -> SparseBlock:
        """Return all values of one profile, or those of some metrics."""

    def context(self, context: int) -> SparseBlock:
        """Return the values of one context in all measured profiles; stored summaries are left out."""

    def blocks(self, profiles: Ints | None = None, metrics: Ints | None = None) -> Iterator[Block]:
        """Yield everything of these profiles and metrics, in the file's order; at most one block is in memory."""


@runtime_checkable
class HasFillers(Protocol):
    """A backend whose input holds numbers in places where nothing was measured."""

    def blocks_without_fillers(self, profiles: Ints | None = None, metrics: Ints | None = None) -> Iterator[Block]:
        """Yield `blocks` with the neutral element in place of such numbers."""


@runtime_checkable
class FillsColumns(Protocol):
    """A backend of doubles that writes them to where they are wanted."""

    def fill(self, out: SparseBlock) -> int:
        """Fill columns with what `blocks` yields of all profiles, and return how many values there are."""


def has_fillers(backend: ValueBackend) -> bool:
    """Return whether the input holds such numbers. A chain has them where one of its links does."""
    return isinstance(backend, HasFillers) and bool(getattr(backend, "has_fillers", True))


def blocks_without_fillers(backend: ValueBackend, profiles: Ints | None, metrics: Ints | None) -> Iterator[Block]:
    """Yield what computed views are made of: everything that is stored, without fillers."""
    if isinstance(backend, HasFillers):
        return backend.blocks_without_fillers(profiles, metrics)
    return backend.blocks(profiles, metrics)


class NoValues:
    """An experiment without values."""

    def __init__(self) -> None:
        self.problems: list[CallgroveError] = []

    def n_stored(self) -> int | None:
        return 0

    def summarises(self, metric: int) -> bool:
        return False

    def profile(self, profile: int, metrics: Ints | None = None) -> SparseBlock:
        return SparseBlock.empty()

    def context(self, context: int) -> SparseBlock:
        return SparseBlock.empty()

    def blocks(self, profiles: Ints | None = None, metrics: Ints | None = None) -> Iterator[Block]:
        yield from ()


class ArrayValues:
    """Values in memory. One value type only; `ChainedValues` combines several."""

    def __init__(self, block: SparseBlock, profiles: Profiles) -> None:
        self.problems: list[CallgroveError] = []
        self._rows = block.take(in_order(block.profile, block.context, block.metric))
        self._summary = profiles.is_summary
        self._bounds = np.searchsorted(self._rows.profile, np.arange(len(profiles) + 1))

    @cached_property
    def _by_context(self) -> Ints:
        """Return the rows in the order of their contexts."""
        return in_order(self._rows.context)

    def n_stored(self) -> int | None:
        return len(self._rows)

    def summarises(self, metric: int) -> bool:
        return bool((self._summary[self._rows.profile] & (self._rows.metric == metric)).any())

    def profile(self, profile: int, metrics: Ints | None = None) -> SparseBlock:
        return self._rows.take(slice(self._bounds[profile], self._bounds[profile + 1])).of_metrics(metrics)

    def context(self, context: int) -> SparseBlock:
        ids = self._rows.context[self._by_context]
        rows = self._by_context[np.searchsorted(ids, context) : np.searchsorted(ids, context, side="right")]
        return self._rows.take(rows[~self._summary[self._rows.profile[rows]]])

    def blocks(self, profiles: Ints | None = None, metrics: Ints | None = None) -> Iterator[Block]:
        """Yield blocks; small profiles that follow each other are in one, as there may be many thousands of them."""
        chosen = np.arange(len(self._bounds) - 1) if profiles is None else profiles
        begins = np.flatnonzero(np.diff(chosen) != 1) + 1
        for run in np.split(chosen, begins):
            sizes = np.diff(self._bounds[run[0] : run[-1] + 2]).tolist() if len(run) else []
            for first, end in bundles(sizes, BLOCK_ROWS):
                rows = slice(self._bounds[run[first]], self._bounds[run[end - 1] + 1])
                block = self._rows.take(rows).of_metrics(metrics)
                if len(block):
                    yield block


@dataclass(frozen=True)
class Values:
    """All values of an experiment, asked by profile, by context, by metric or in one stream."""

    backend: ValueBackend
    metrics: Metrics
    profiles: Profiles
    tree: ContextTree

    def n_stored(self) -> int | None:
        """Return how many values the input announces, where that is known without reading them."""
        return self.backend.n_stored()

    @property
    def problems(self) -> list[CallgroveError]:
        """Damage that was met, and stepped over, while values were read."""
        return self.backend.problems

    @cached_property
    def known(self) -> Ints:
        """Measured profiles whose values are known: all, unless an aggregate holds those of their run. Then the others
        have traces only; one that nevertheless has values came from another input, and its values count."""
        profiles, measured = self.profiles, self.profiles.measured
        if not len(profiles.aggregates):
            return measured
        known = ~np.isin(profiles.run, profiles.run[profiles.aggregates])
        known[profiles.aggregates] = True
        for block in self.backend.blocks(measured[~known[measured]]):
            known[block.triples().profile] = True
        return measured[known[measured]]

    def demand_known(self, profiles: Ints) -> None:
        """Raise a UsageError where the values of chosen profiles are in an aggregate that was not chosen with them."""
        aggregates = self.profiles.aggregates
        if not len(aggregates) or np.isin(aggregates, profiles).any():
            return
        unknown = np.setdiff1d(profiles, self.known)
        unknown = unknown[~self.profiles.is_summary[unknown]]
        if len(unknown):
            label = self.profiles.label(int(unknown[0]))
            more = f" and {len(unknown) - 1} more" if len(unknown) > 1 else ""
            raise UsageError(f"values of {label}{more} are not known, only those of all profiles together")

    def without_torn(self, profiles: Ints) -> Ints:
        """Return a choice of profiles without aggregates of which a part was not chosen: what is left of them is not
        known."""
        aggregates, run = self.profiles.aggregates, self.profiles.run
        if not len(aggregates):
            return profiles
        left_out = np.setdiff1d(self.profiles.measured, profiles)
        return np.setdiff1d(profiles, aggregates[np.isin(run[aggregates], run[left_out])])

    def loses_all(self, profiles: Ints) -> bool:
        """Return whether nothing is known of the values of these profiles, because an aggregate holds them."""
        return len(self.profiles.aggregates) > 0 and not np.isin(profiles, self.known).any()

    def profile(self, profile: int) -> SparseBlock:
        """Return all values of one profile; reads its block only."""
        return self.backend.profile(profile)

    def context(self, context: int) -> SparseBlock:
        """Return the values of one context in all measured profiles; reads its block only."""
        return self.backend.context(context)

    def metric(self, metric: int, profiles: Ints | None = None) -> SparseBlock:
        """Return all values of one metric, over the measured profiles or those given."""
        self.metrics.require_values(self.metrics[metric].name)
        return SparseBlock.concatenate([b.triples() for b in self.blocks(profiles, np.array([metric]))])

    def blocks(self, profiles: Ints | None = None, metrics: Ints | None = None) -> Iterator[Block]:
        """Yield everything that is stored, in the file's order, over the measured profiles or those given; memory holds
        one block. Derived metrics are computed where `metrics` names their rows, and only then."""
        chosen = self.profiles.measured if profiles is None else profiles
        return self._with_derived(self.backend.blocks, chosen, metrics)

    def blocks_without_fillers(self, profiles: Ints | None = None, metrics: Ints | None = None) -> Iterator[Block]:
        """Yield blocks without numbers that the input has in places where nothing was measured."""
        chosen = self.profiles.measured if profiles is None else profiles
        return self._with_derived(partial(blocks_without_fillers, self.backend), chosen, metrics)

    def _with_derived(self, read: ReadBlocks, profiles: Ints, metrics: Ints | None) -> Iterator[Block]:
        if metrics is None or not self.metrics.derived:
            return read(profiles, metrics)
        from callgrove.model.derived import derive_blocks

        is_derived = np.array([self.metrics[row].derivation is not None for row in metrics.tolist()], np.bool_)
        stored = read(profiles, metrics[~is_derived]) if not is_derived.all() else iter(())
        return chain(stored, derive_blocks(self, profiles, metrics[is_derived]))

    def dense(self, profile: int, metric: int) -> Array:
        """Return one metric of one profile over all contexts; absent is neutral."""
        self.metrics.require_values(self.metrics[metric].name)
        if self.metrics[metric].derivation is not None:
            parts = [block.triples() for block in self.blocks(np.array([profile]), np.array([metric]))]
            return self._spread(SparseBlock.concatenate(parts), metric)
        return self._spread(self.backend.profile(profile, np.array([metric])), metric)

    def totals(self, metric: int, profiles: Ints | None = None) -> Array:
        """Return one metric over all contexts, combined over the measured profiles or those given.

        Where a stored summary holds this very combination and nothing was selected, it answers alone.
        """
        row = self.metrics[metric]
        self.metrics.require_values(row.name)
        if row.derivation is not None:
            from callgrove.model.derived import TotalCells

            return TotalCells(self, row.scope, profiles).of(row.name)
        if profiles is not None:
            self.demand_known(profiles)
        elif (summary := self._summary_of(metric)) is not None:
            try:
                return self.dense(summary, metric)
            except CorruptFile as error:  # the profiles themselves still answer
                if str(error) not in map(str, self.problems):
                    self.problems.append(error)
        if row.composite is not None:
            return self._composite_totals(metric, profiles)
        out: Array | None = None
        for block in self.blocks_without_fillers(profiles, np.array([metric])):
            context, value = self._fold(metric, block)
            kind = self._wide(metric, value.dtype)
            if out is None:
                out = self._neutral(metric, kind)
            elif out.dtype != kind:  # the runs of one experiment may store a metric in different types
                out = out.astype(np.promote_types(out.dtype, kind))
            row.aggregation.combine_at(out, context, value)
        return self._neutral(metric, np.dtype(np.float64)) if out is None else out

    def _fold(self, metric: int, block: Block) -> tuple[Ids, Array]:
        """Return contexts and values of a block; a matrix is combined over its profiles."""
        if isinstance(block, SparseBlock):
            return block.context, block.value
        rule, matrix = self.metrics[metric].aggregation, block.matrix
        if block.neutral != rule.neutral:  # what stands for an absent minimum or maximum in the input
            matrix = np.where(matrix == block.neutral, rule.neutral, matrix)
        if rule.neutral == 0:
            matrix = summable(matrix)
        with np.errstate(invalid="ignore", over="ignore"):  # values need not be finite
            return block.contexts, rule.ufunc.reduce(matrix, axis=1)

    def columns(self, profiles: Ints | None = None) -> SparseBlock:
        """Return every value as four columns, stored summaries included unless profiles are given. Where the count is
        known, they are filled in place: nothing is held twice."""
        known = self.n_stored() if profiles is None else None
        if known is not None and isinstance(self.backend, FillsColumns):
            room = SparseBlock.with_room(known)
            return room.take(slice(self.backend.fill(room)))
        parts = (b.triples() for b in self.blocks(np.arange(len(self.profiles)) if profiles is None else profiles))
        if known is None:
            return SparseBlock.concatenate(list(parts))
        out: SparseBlock | None = None
        at = 0
        for part in parts:
            if out is None:
                out = SparseBlock.with_room(known, part.value.dtype)
            if part.value.dtype != out.value.dtype:
                out = replace(
                    out, value=out.value.astype(SparseBlock.concatenate([out.take(slice(0)), part]).value.dtype)
                )
            at = out.put(at, part)
        return SparseBlock.empty() if out is None else out.take(slice(at))

    def _summary_of(self, metric: int) -> int | None:
        """Return the stored summary profile, if there is exactly one, it covers all runs and carries this metric's
        sum."""
        summaries = self.profiles.summaries
        if len(summaries) != 1 or len(distinct(self.profiles.run)) > 1:
            return None
        is_sum = self.metrics[metric].aggregation == Aggregation.SUM
        return int(summaries[0]) if is_sum and self.backend.summarises(metric) else None

    def _wide(self, metric: int, dtype: np.dtype[Any]) -> np.dtype[Any]:
        """Return the type in which values of a metric are combined: small types would overflow, and only doubles have
        the infinity that stands for an absent minimum or maximum."""
        if self.metrics[metric].aggregation.neutral != 0:
            return np.dtype(np.float64)
        return np.dtype({"b": np.int64, "i": np.int64, "u": np.uint64, "f": np.float64}.get(dtype.kind, dtype))

    def _neutral(self, metric: int, dtype: np.dtype[Any]) -> Array:
        return np.full(len(self.tree), self.metrics[metric].aggregation.neutral, self._wide(metric, dtype))

    def _spread(self, block: SparseBlock, metric: int) -> Array:
        """Return the values of one profile over all contexts. A context may occur twice, where a chain made one of
        several."""
        row = self.metrics[metric]
        if block.value.dtype.names is not None:
            out: Array = np.zeros(len(self.tree), block.value.dtype)
            self._combine(metric, out, np.zeros(len(self.tree), np.bool_), block)
            return out
        out = self._neutral(metric, block.value.dtype)
        if row.aggregation == Aggregation.NONE:
            out[block.context] = block.value
        else:
            row.aggregation.combine_at(out, block.context, block.value)
        return out

    def _composite_totals(self, metric: int, profiles: Ints | None) -> Array:
        composite = self.metrics[metric].composite
        assert composite is not None
        out = np.zeros(len(self.tree), composite.dtype)
        seen = np.zeros(len(self.tree), np.bool_)
        for block in self.blocks_without_fillers(profiles, np.array([metric])):
            self._combine(metric, out, seen, self._composite_folded(metric, block))
        return out

    def _composite_folded(self, metric: int, block: Block) -> SparseBlock:
        """Return a block, with a matrix combined over its profiles: the right half into the left one, again and
        again."""
        composite = self.metrics[metric].composite
        if isinstance(block, SparseBlock) or composite is None or composite.combine is None:
            return block.triples()
        matrix = block.matrix
        while matrix.shape[1] > 1:
            half = matrix.shape[1] // 2
            rest = matrix[:, 2 * half :]
            matrix = np.concatenate([composite.combine(matrix[:, :half], matrix[:, half : 2 * half]), rest], axis=1)
        return DenseBlock(metric, block.contexts, block.profiles[:1], matrix, block.neutral).triples()

    def _combine(self, metric: int, out: Array, seen: Bools, block: SparseBlock) -> None:
        """Combine composite values into those seen so far. Rows of one context go one after the other."""
        composite = self.metrics[metric].composite
        while len(block):
            first = np.unique(block.context, return_index=True)[1]
            at, value = block.context[first], block.value[first]
            fresh = ~seen[at]
            out[at[fresh]] = value[fresh]
            if not fresh.all():
                if composite is None or composite.combine is None:
                    raise UsageError(f"values of {self.metrics[metric].name} cannot be combined: choose one profile")
                out[at[~fresh]] = composite.combine(out[at[~fresh]], value[~fresh])
            seen[at] = True
            block = block.take(np.delete(np.arange(len(block)), first))

    def scalar(self, metric: int, values: Array) -> Floats:
        """Return the scalar reading of values: themselves, or what their composite type says."""
        composite = self.metrics[metric].composite
        return values if composite is None else composite.scalar(values)
