"""Values of a result, computed tile by tile when they are asked for, and its inputs in the ids of the result."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from callgrove.arrays import Array, Ids, Ints
from callgrove.errors import CallgroveError
from callgrove.model.books import KeepsBooks, Totals, select_counted_contexts
from callgrove.model.chained_values import Link
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Aggregation, Metric, Scope
from callgrove.model.scopes import Recipe
from callgrove.model.values import Block, DenseBlock, SparseBlock, ValueBackend, blocks_without_fillers

__all__ = ["TILE_VALUES", "Operand", "TiledValues", "is_by_metric", "matrix", "sparse"]


# -- values computed tile by tile --------------------------------------------------------------------------------------
# A tile is some profiles and some metric rows, and always all contexts: scopes and folds need whole trees. Where inputs
# are stored profile by profile a tile is a few profiles with all metrics; where they are stored metric by metric, it is
# one quantity over all profiles, so that every metric is unpacked once.


TILE_VALUES = 1 << 17  # about what a tile holds: more does not fit the caches
WHOLE_METRIC = 1 << 23  # cells of a metric that is unpacked at once


class TiledValues(ABC):
    """A backend over other backends. A subclass computes one tile; no profile and metric is in two tiles."""

    def __init__(
        self, sources: Sequence[ValueBackend], metrics: Sequence[Metric], n_profiles: int, n_cells: int
    ) -> None:
        """`n_cells` is the most that one profile can hold: contexts x metric rows."""
        self._sources = tuple(sources)
        self._metrics = tuple(metrics)
        self._n_profiles = n_profiles
        self._n_cells = max(1, n_cells)

        self._made: Totals | None = None

    def start_books(self) -> None:
        """Begin to add up what is read and what is made of it; a subclass says of what."""
        for source in self._sources:
            if isinstance(source, KeepsBooks):
                source.start_books()

    def differences(self) -> Iterator[str]:
        """Yield what inputs that are results themselves have lost; a subclass says what it has."""
        for source in self._sources:
            if isinstance(source, KeepsBooks):
                yield from source.differences()

    @abstractmethod
    def tile(self, profiles: Ints, rows: Ints) -> Iterator[SparseBlock]:
        """Yield all values of these profiles and metric rows."""

    @property
    def problems(self) -> list[CallgroveError]:
        """What every input met."""
        return [problem for source in self._sources for problem in source.problems]

    def n_stored(self) -> int | None:
        return None

    def summarises(self, metric: int) -> bool:
        return False

    def profile(self, profile: int, metrics: Ints | None = None) -> SparseBlock:
        rows = np.arange(len(self._metrics)) if metrics is None else metrics
        return SparseBlock.concatenate([b for b in self.tile(np.array([profile]), rows) if len(b)])

    def context(self, context: int) -> SparseBlock:
        parts = (block.triples() for block in self.blocks())
        return SparseBlock.concatenate([b for part in parts if len(b := part.take(part.context == context))])

    def blocks(self, profiles: Ints | None = None, metrics: Ints | None = None) -> Iterator[Block]:
        chosen = np.arange(self._n_profiles) if profiles is None else profiles
        rows = np.arange(len(self._metrics)) if metrics is None else metrics
        for some_profiles, some_rows in self._tiles(chosen, rows):
            for block in self.tile(some_profiles, some_rows):
                if len(block):
                    if self._made is not None:
                        self._made.add(block)
                    yield block

    @property
    def by_metric(self) -> bool:
        """Are the inputs stored metric by metric?"""
        return any(is_by_metric(source) for source in self._sources)

    def _tiles(self, profiles: Ints, rows: Ints) -> Iterator[tuple[Ints, Ints]]:
        if not len(profiles) or not len(rows):
            return
        groups = [rows]
        if len(np.unique(rows)) > 1 and len(profiles) > 1 and self.by_metric:
            names = np.array([self._metrics[row].name for row in rows.tolist()])
            groups = [rows[names == name] for name in dict.fromkeys(names.tolist())]
        for group in groups:
            per_profile = self._n_cells * len(group) // len(self._metrics)
            known = [source.n_stored() for source in self._sources]
            if all(count is not None for count in known) and len(groups) == 1:
                stored = sum(count for count in known if count is not None)
                per_profile = min(per_profile, stored // self._n_profiles)
            step = max(1, (TILE_VALUES if len(groups) == 1 else WHOLE_METRIC) // max(1, per_profile))
            for start in range(0, len(profiles), step):
                yield profiles[start : start + step], group


def is_by_metric(backend: ValueBackend) -> bool:
    """Does a backend give its values metric by metric? Its first block tells."""
    if isinstance(backend, TiledValues):
        return backend.by_metric
    return isinstance(next(iter(backend.blocks()), None), DenseBlock)


def sparse(matrix: Array, profiles: Array, row: int, neutral: float = 0.0) -> SparseBlock:
    """Return what is not neutral of a matrix (contexts x profiles)."""
    return DenseBlock(row, np.arange(len(matrix), dtype=np.int32), profiles.astype(np.int32), matrix, neutral).triples()


# -- inputs in the ids of the result -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Operand:
    """One input. The maps give the result's profile and context for each of its own, or -1; `ways` say how it gives
    the rows of the result. `collapsed`: all of its profiles are one."""

    experiment: Experiment
    profiles: Ids
    contexts: Ids
    ways: Mapping[int, Recipe]
    collapsed: bool = False
    reads_scalars: bool = False

    def empty_totals(self, n_rows: int) -> Totals:
        """Return totals for what the input gives to each row of the result: costs over the input's own tree."""
        none = Metric("", Scope.NONE, aggregation=Aggregation.NONE)
        metrics = [self.ways[row].metric if row in self.ways else none for row in range(n_rows)]
        return Totals(metrics, None, select_counted_contexts(self.experiment.contexts))

    def blocks(self, profiles: Ints, rows: Ints, given: Totals | None = None) -> Iterator[SparseBlock]:
        """Yield all values that the input has in these profiles and rows of the result; what is read is added to
        `given`."""
        ways = {row: self.ways[row] for row in rows.tolist() if row in self.ways}
        if not ways:
            return
        if self.collapsed:
            yield from self._totals(ways, given)
            return
        input_profiles = np.flatnonzero(np.isin(self.profiles, profiles) & (self.profiles >= 0))
        if not len(input_profiles):
            return
        yield from self._read_stored_blocks(
            {row: way.stored for row, way in ways.items() if way.is_stored}, input_profiles, given
        )
        for row, way in ways.items():
            if not way.is_stored:
                yield from self._compute_blocks(row, way, input_profiles, given)

    @cached_property
    def _n_measured(self) -> int:
        """Rows that profiles have: to ask for all of them is to ask for everything."""
        return sum(not metric.statistic for metric in self.experiment.metrics)

    def _read_stored_blocks(
        self, rows: Mapping[int, int], input_profiles: Ints, given: Totals | None
    ) -> Iterator[SparseBlock]:
        if not rows:
            return
        metrics = np.full(len(self.experiment.metrics), -1, np.int32)
        metrics[list(rows.values())] = list(rows)
        link = Link(self.experiment.values.backend, self.profiles, self.contexts, metrics)
        wanted = None if len(rows) == self._n_measured else np.array(sorted(rows.values()))
        for block in blocks_without_fillers(link.backend, input_profiles, wanted):
            part = block.triples()
            if self.reads_scalars and part.value.dtype.names is not None:
                part = SparseBlock(part.profile, part.context, part.metric, self._scalar(part))
            if given is not None:
                here = metrics[part.metric] >= 0
                given.add_rows(metrics[part.metric[here]], part.context[here], part.value[here])
            yield link.outward(part)

    def _scalar(self, block: SparseBlock) -> Array:
        out = np.zeros(len(block))
        for metric in np.unique(block.metric).tolist():
            rows = block.metric == metric
            out[rows] = self.experiment.values.scalar(metric, block.value[rows])
        return out

    def _compute_blocks(
        self, row: int, way: Recipe, input_profiles: Ints, given: Totals | None
    ) -> Iterator[SparseBlock]:
        """Compute a scope that is not stored, some profiles at a time."""
        tree, neutral = self.experiment.contexts, way.metric.aggregation.neutral
        step = max(1, TILE_VALUES // max(1, len(tree)))
        for start in range(0, len(input_profiles), step):
            some = input_profiles[start : start + step]
            stored = matrix(self.experiment, way.stored, some)
            if given is not None:
                given.add_matrix(row, np.arange(len(stored)), stored, neutral)
            values = way.apply(stored, tree)
            yield self._outward(sparse(values, some, row, neutral), row)

    def _totals(self, ways: Mapping[int, Recipe], given: Totals | None) -> Iterator[SparseBlock]:
        """Yield all profiles as one."""
        values = self.experiment.values
        for row, way in ways.items():
            stored = values.totals(way.stored)
            if given is not None:
                given.add_matrix(row, np.arange(len(stored)), stored[:, None], way.metric.aggregation.neutral)
            totals = way.apply(stored, self.experiment.contexts)
            neutral = 0.0 if way.metric.composite is not None else way.metric.aggregation.neutral
            if self.reads_scalars and way.metric.composite is not None:
                totals = values.scalar(way.stored, totals)
            block = sparse(totals[:, None], np.zeros(1), row, neutral)
            yield self._outward(block, row, np.zeros(1, np.int32))

    def _outward(self, block: SparseBlock, row: int, profiles: Ids | None = None) -> SparseBlock:
        metrics = np.full(row + 1, row, np.int32)
        numbers = self.profiles if profiles is None else profiles
        return Link(self.experiment.values.backend, numbers, self.contexts, metrics).outward(block)


def matrix(experiment: Experiment, row: int, profiles: Ints) -> Array:
    """Return one stored row as a matrix (contexts x profiles); absent is neutral. Integers stay integers."""
    metric = experiment.metrics[row]
    neutral = metric.aggregation.neutral
    place = np.full(len(experiment.profiles), -1)
    place[profiles] = np.arange(len(profiles))
    blocks = [b.triples() for b in experiment.values.blocks_without_fillers(profiles, np.array([row]))]
    kinds = [block.value.dtype for block in blocks]
    dtype = np.result_type(*kinds) if kinds else np.dtype(np.float64)
    if neutral:
        dtype = np.dtype(np.float64)
    elif dtype.kind in "biu":
        dtype = np.dtype(np.uint64 if dtype.kind == "u" else np.int64)
    out = np.full((len(experiment.contexts), len(profiles)), neutral, dtype)
    for block in blocks:
        metric.aggregation.combine_at(out, (block.context, place[block.profile]), block.value)  # type: ignore[arg-type]
    return out
