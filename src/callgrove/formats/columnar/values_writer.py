"""Values into tables, one for each type of value, as they come.

Which table the next rows are in is kept as runs (`value_order`), so that they come back in the order in which they were
given; which profiles each row group has goes to the index.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from callgrove.formats.columnar.group_writer import GroupWriter
from callgrove.formats.columnar.index import IndexRows
from callgrove.formats.columnar.metric_tables import described_dtype
from callgrove.formats.columnar.value_types import ValueLayout
from callgrove.model.arrays import Array, Bools
from callgrove.model.values import Block, DenseBlock, SparseBlock, Values, has_fillers, is_set

__all__ = ["Measured", "ValuesWriter"]

NATIVE = frozenset("biuf")


class ValuesWriter:
    """Tables in the making. `fillers`: rows say whether they are numbers that nobody measured."""

    def __init__(self, folder: Path, values: Values, index: IndexRows, fillers: bool) -> None:
        self._folder, self._values, self._index, self._fillers = folder, values, index, fillers
        self._files: dict[tuple[str, int | None], tuple[ValueLayout, GroupWriter]] = {}
        self._runs = tuple(array("q") for _ in range(3))  # file, first row, rows
        self._file(np.dtype(np.float64), None)  # the table `values` is there even if there is none

    def add(self, block: SparseBlock, filler: Bools | None = None) -> None:
        if block.value.dtype.names is None:
            self._add(block, filler, None)
            return
        for metric in np.unique(block.metric).tolist():
            rows = np.flatnonzero(block.metric == metric)
            self._add(block.take(rows), None if filler is None else filler[rows], metric)

    def _add(self, block: SparseBlock, filler: Bools | None, metric: int | None) -> None:
        if not len(block):
            return
        value = _native(block.value)
        number, layout, file = self._file(value.dtype, metric)
        rows: dict[str, Array] = {
            "profile": block.profile,
            "context": block.context,
            "metric": block.metric,
            "value": value,
        }
        if metric is not None:
            rows["scalar"] = self._values.scalar(metric, value)
        if layout.fillers:
            rows["filler"] = np.zeros(len(block), np.bool_) if filler is None else filler
        files, _, lengths = self._runs
        if files and files[-1] == number:
            lengths[-1] += len(block)
        else:
            for column, cell in zip(self._runs, (number, file.n_rows, len(block)), strict=True):
                column.append(cell)
        file.add(rows)

    def _file(self, dtype: np.dtype[Any], metric: int | None) -> tuple[int, ValueLayout, GroupWriter]:
        key = (str(described_dtype(dtype)), metric)
        if key not in self._files:
            layout = ValueLayout(dtype, metric, self._fillers)
            written = self._index.table(layout.table)
            file = GroupWriter(self._folder, layout.table, layout.columns, layout.encode, written)
            self._files[key] = layout, file
        return list(self._files).index(key), *self._files[key]

    def close(self) -> Iterator[tuple[str, int]]:
        """Finishes the tables; gives the rows of each."""
        for layout, file in self._files.values():
            yield layout.table, file.close()

    def abort(self) -> None:
        for _, file in self._files.values():
            file.abort()

    @property
    def described(self) -> list[dict[str, Any]]:
        """For the manifest: every table of values and the type of what it holds."""
        return [
            {"table": layout.table, "dtype": described_dtype(layout.dtype), "metric": layout.metric}
            for layout, _ in self._files.values()
        ]

    @property
    def order(self) -> dict[str, Array]:
        """The columns of `value_order`."""
        names = ("file", "first", "rows")
        return {name: np.array(column, np.int64) for name, column in zip(names, self._runs, strict=True)}


def _native(value: Array) -> Array:
    """Values in a type that Parquet has, in this machine's order of bytes."""
    if value.dtype.names is not None:
        return value
    fits = value.dtype.kind in NATIVE and value.dtype.itemsize <= 8 and value.dtype != np.float16
    return np.ascontiguousarray(value, value.dtype.newbyteorder("=") if fits else np.float64)


class Measured:
    """Which of the values that are given are only fillers: the same stream of blocks once more, without them.

    Blocks must come as `Values.blocks` gives them; for others, nothing is known.
    """

    def __init__(self, values: Values) -> None:
        self._blocks: Iterator[Block] | None = None
        if has_fillers(values.backend):
            self._blocks = values.measured_blocks()
        self._neutral = np.array([metric.aggregation.neutral for metric in values.metrics] or [0.0])

    @property
    def knows(self) -> bool:
        return self._blocks is not None

    def triples(self, block: Block) -> tuple[SparseBlock, Bools | None]:
        """The values of a block, and which of them nobody measured."""
        found = block.triples()
        other = None if self._blocks is None else next(self._blocks, None)
        if other is None:
            return found, None
        if isinstance(block, DenseBlock) and isinstance(other, DenseBlock) and _is_like(block, other):
            kept = block.matrix.T != block.neutral if block.matrix.dtype.names is None else is_set(block.matrix.T)
            measured = other.matrix.T[kept]
            absent = measured == other.neutral if measured.dtype.names is None else ~is_set(measured)
            return found, absent
        if isinstance(block, SparseBlock) and isinstance(other, SparseBlock) and _is_same(block, other):
            if block.value.dtype.names is not None:
                return found, None
            neutral = self._neutral[block.metric]
            return found, (other.value == neutral) & (block.value != neutral)
        return found, None


def _is_same(block: SparseBlock, other: SparseBlock) -> bool:
    pairs = ((block.profile, other.profile), (block.context, other.context), (block.metric, other.metric))
    return all(np.array_equal(own, theirs) for own, theirs in pairs)


def _is_like(block: DenseBlock, other: DenseBlock) -> bool:
    same = block.metric == other.metric and np.array_equal(block.contexts, other.contexts)
    return same and np.array_equal(block.profiles, other.profiles)
