"""An input's values in the ids of the result."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from callgrove.algebra.tiles import TILE_VALUES, sparse
from callgrove.model.arrays import Array, Ids, Ints
from callgrove.model.books import Totals, counted_contexts
from callgrove.model.chains import Link
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Aggregation, Metric, Scope
from callgrove.model.scopes import Recipe
from callgrove.model.values import SparseBlock, measured_blocks

__all__ = ["Operand", "matrix"]


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
        return Totals(metrics, None, counted_contexts(self.experiment.contexts))

    def blocks(self, profiles: Ints, rows: Ints, given: Totals | None = None) -> Iterator[SparseBlock]:
        """All values that the input has in these profiles and rows of the result; what is read is added to `given`."""
        ways = {row: self.ways[row] for row in rows.tolist() if row in self.ways}
        if not ways:
            return
        if self.collapsed:
            yield from self._totals(ways, given)
            return
        own = np.flatnonzero(np.isin(self.profiles, profiles) & (self.profiles >= 0))
        if not len(own):
            return
        yield from self._stored_blocks({row: way.stored for row, way in ways.items() if way.is_stored}, own, given)
        for row, way in ways.items():
            if not way.is_stored:
                yield from self._computed_blocks(row, way, own, given)

    @cached_property
    def _n_measured(self) -> int:
        """Rows that profiles have: to ask for all of them is to ask for everything."""
        return sum(not metric.statistic for metric in self.experiment.metrics)

    def _stored_blocks(self, rows: Mapping[int, int], own: Ints, given: Totals | None) -> Iterator[SparseBlock]:
        if not rows:
            return
        metrics = np.full(len(self.experiment.metrics), -1, np.int32)
        metrics[list(rows.values())] = list(rows)
        link = Link(self.experiment.values.backend, self.profiles, self.contexts, metrics)
        wanted = None if len(rows) == self._n_measured else np.array(sorted(rows.values()))
        for block in measured_blocks(link.backend, own, wanted):
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

    def _computed_blocks(self, row: int, way: Recipe, own: Ints, given: Totals | None) -> Iterator[SparseBlock]:
        """Another scope than the stored one, some profiles at a time."""
        tree, neutral = self.experiment.contexts, way.metric.aggregation.neutral
        step = max(1, TILE_VALUES // max(1, len(tree)))
        for start in range(0, len(own), step):
            some = own[start : start + step]
            stored = matrix(self.experiment, way.stored, some)
            if given is not None:
                given.add_matrix(row, np.arange(len(stored)), stored, neutral)
            values = way.apply(stored, tree)
            yield self._outward(sparse(values, some, row, neutral), row)

    def _totals(self, ways: Mapping[int, Recipe], given: Totals | None) -> Iterator[SparseBlock]:
        """All profiles as one."""
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
        own = self.profiles if profiles is None else profiles
        return Link(self.experiment.values.backend, own, self.contexts, metrics).outward(block)


def matrix(experiment: Experiment, row: int, profiles: Ints) -> Array:
    """One stored row as a matrix (contexts x profiles); absent is neutral. Integers stay integers."""
    metric = experiment.metrics[row]
    neutral = metric.aggregation.neutral
    place = np.full(len(experiment.profiles), -1)
    place[profiles] = np.arange(len(profiles))
    blocks = [b.triples() for b in experiment.values.measured_blocks(profiles, np.array([row]))]
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
