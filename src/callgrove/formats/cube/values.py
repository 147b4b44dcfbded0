"""Values of a Cube file in the model's ids. A metric is read when it is asked for, a band of rows at a time.

Score-P writes numbers where nothing was measured: 0, or the timer's largest value, into minima and maxima of cells
that were never visited, and counters that went below zero. They are given as they are stored; `measured_blocks`, of
which computed views are made, has the neutral element in their place.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from callgrove.errors import CallgroveError, CorruptFile
from callgrove.formats.cube.rows import StoredRows
from callgrove.formats.cube.value_types import LARGEST
from callgrove.model.arrays import Array, Bools, Ids, Ints
from callgrove.model.metrics import Aggregation
from callgrove.model.values import Block, DenseBlock, SparseBlock

__all__ = ["CubeValues", "MetricValues"]

BAND = 1 << 21  # values that are decoded at once
WRAPPED = 1 << 63


@dataclass
class MetricValues:
    """The rows of one metric, the context of each, and the column of each profile. `visits` and, for a minimum, the
    maximum as `partner` are the metrics that tell whether a cell was measured; -1 where there is none."""

    rows: StoredRows
    context: Ids
    column: Ints
    aggregation: Aggregation
    partner: int = -1
    visits: int = -1

    def row_of(self, n_contexts: int) -> Ids:
        """For every context its row, or -1."""
        out = np.full(n_contexts, -1, np.int32)
        out[self.context] = np.arange(len(self.context))
        return out


class CubeValues:
    """The values of all metrics; None stands for a metric without values."""

    def __init__(self, metrics: Sequence[MetricValues | None], n_profiles: int, n_contexts: int) -> None:
        self.metrics = tuple(metrics)
        self._n_profiles, self._n_contexts = n_profiles, n_contexts
        self._row_of: dict[int, Ids] = {}
        self.problems: list[CallgroveError] = []

    def n_stored(self) -> int | None:
        return sum(int(np.count_nonzero(m.rows.there)) * len(m.column) for m in self.metrics if m is not None)

    def summarises(self, metric: int) -> bool:
        return False

    def profile(self, profile: int, metrics: Ints | None = None) -> SparseBlock:
        """Every metric has to be read for it, at least those asked for."""
        return SparseBlock.joined([b.triples() for b in self.blocks(np.array([profile]), metrics)])

    def context(self, context: int) -> SparseBlock:
        """One row of every metric."""
        found = [
            self._block(metric, one, np.array([row]), None).triples()
            for metric, one in enumerate(self.metrics)
            if one is not None and (row := int(self._rows_of(metric)[context])) >= 0
        ]
        return SparseBlock.joined([block for block in found if len(block)])

    def blocks(self, profiles: Ints | None = None, metrics: Ints | None = None) -> Iterator[Block]:
        for metric, one in self._choose_metrics(metrics):
            for rows in self._bands(one):
                block = self._block(metric, one, rows, profiles)
                if len(block):
                    yield block

    def measured_blocks(self, profiles: Ints | None = None, metrics: Ints | None = None) -> Iterator[Block]:
        """Like `blocks`, with the neutral element where the file holds a number that nobody measured."""
        for metric, one in self._choose_metrics(metrics):
            for rows in self._bands(one):
                block = self._block(metric, one, rows, profiles)
                if len(block):
                    yield self._without_fillers(one, block, profiles)

    def _choose_metrics(self, metrics: Ints | None) -> Iterator[tuple[int, MetricValues]]:
        wanted = range(len(self.metrics)) if metrics is None else np.unique(metrics).tolist()
        for metric in wanted:
            if (one := self.metrics[metric]) is not None and len(one.rows):
                yield metric, one

    def _bands(self, one: MetricValues) -> Iterator[Ints]:
        step = max(1, BAND // max(1, one.rows.width * max(1, one.rows.type.item // 8)))
        for first in range(0, len(one.rows), step):
            yield np.arange(first, min(first + step, len(one.rows)))

    def _block(self, metric: int, one: MetricValues, rows: Ints, profiles: Ints | None) -> DenseBlock:
        matrix, context, ids = self._cells(one, rows, profiles)
        return DenseBlock(metric, context, ids, matrix, one.rows.type.absent)

    def _cells(self, one: MetricValues, rows: Ints, profiles: Ints | None) -> tuple[Array, Ids, Ids]:
        """Values of some rows, their contexts and the profiles of their columns."""
        matrix, readable = one.rows.decode(rows, self._met)
        context = one.context[rows]
        if not readable.all():
            matrix, context = matrix[readable], context[readable]
        ids = np.arange(len(one.column)) if profiles is None else profiles
        columns = one.column[ids]
        if len(columns) != matrix.shape[1] or not (columns == np.arange(len(columns))).all():
            matrix = matrix[:, columns]
        return matrix, context, ids.astype(np.int32)

    def _without_fillers(self, one: MetricValues, block: DenseBlock, profiles: Ints | None) -> DenseBlock:
        if one.aggregation == Aggregation.SUM and block.matrix.dtype == np.uint64:
            wrapped: Bools = block.matrix >= WRAPPED
            if not wrapped.any():
                return block
            return replace(block, matrix=np.where(wrapped, 0, block.matrix), neutral=0.0, fillers=wrapped)
        if one.aggregation not in (Aggregation.MINIMUM, Aggregation.MAXIMUM):
            return block
        neutral = one.aggregation.neutral
        values = block.matrix.astype(np.float64)
        if one.rows.type.absent:
            filler: Bools = np.abs(values) >= LARGEST
            if one.visits >= 0:
                filler |= (values == 0) & (self._beside(one.visits, block, profiles, 0.0) == 0)
            if one.partner >= 0:
                filler |= values > self._beside(one.partner, block, profiles, np.nan)
            values[filler] = neutral
        return DenseBlock(block.metric, block.contexts, block.profiles, values, neutral)

    def _beside(self, metric: int, block: DenseBlock, profiles: Ints | None, absent: float) -> Array:
        """Another metric in the cells of a block, `absent` in rows that it does not have."""
        one = self.metrics[metric]
        assert one is not None
        out = np.full(block.matrix.shape, absent)
        rows = self._rows_of(metric)[block.contexts]
        at = np.flatnonzero(rows >= 0)
        matrix, context, _ = self._cells(one, rows[at].astype(np.int64), profiles)
        place = np.full(self._n_contexts, -1, np.int64)
        place[block.contexts] = np.arange(len(block.contexts))
        out[place[context]] = matrix
        return out

    def _rows_of(self, metric: int) -> Ids:
        if metric not in self._row_of:
            one = self.metrics[metric]
            assert one is not None
            self._row_of[metric] = one.row_of(self._n_contexts)
        return self._row_of[metric]

    def _met(self, error: CorruptFile) -> None:
        if str(error) not in {str(known) for known in self.problems}:
            self.problems.append(error)
