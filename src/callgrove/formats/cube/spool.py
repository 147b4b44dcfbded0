"""Values out of any order become rows: what waits is in temporary files, memory holds one band of rows.

matrices (contexts x all profiles)  ->  rows, encoded at once
anything else                       ->  (position, column, value), sorted now and then, merged into rows at the end
"""

from __future__ import annotations

import tempfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from callgrove.arrays import Array, Bools, Ids, Ints
from callgrove.formats.cube.vocabulary import ValueType
from callgrove.model.values import is_set

__all__ = ["Cells", "Rows", "worth_storing"]

WAITING = 1 << 20  # cells
BAND = 1 << 21  # cells of the rows that are made at once
COPY = 1 << 22  # bytes
LEVEL = 6


def worth_storing(values: Array, type_: ValueType) -> Bools:
    """Rows in which something is not absent."""
    if type_.composite is not None:
        there = is_set(values)
    else:
        there = np.empty(values.shape, np.bool_)
        np.not_equal(values, type_.absent, out=there)
    is_worth: Bools = np.logical_or.reduce(there, axis=1)
    return is_worth


class Rows:
    """Encoded rows of many metrics in one temporary file."""

    def __init__(self, compress: bool) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the writer
        self._compress = compress
        self._places: dict[int, list[tuple[Ints, Ints, Ints]]] = {}

    def add(self, metric: int, positions: Ids, values: Array, type_: ValueType) -> None:
        """Rows of one metric; those in which nothing is stored are left out."""
        kept = worth_storing(values, type_)
        if not kept.any():
            return
        raw = type_.encode(values[kept])
        at = self._file.tell()
        if self._compress:
            streams = [zlib.compress(row.tobytes(), LEVEL) for row in raw]
            sizes = np.array([len(s) for s in streams], np.int64)
            self._file.writelines(streams)
        else:
            sizes = np.full(len(raw), raw.shape[1], np.int64)
            self._file.write(np.ascontiguousarray(raw).data)
        starts = at + np.cumsum(sizes) - sizes
        self._places.setdefault(metric, []).append((positions[kept].astype(np.int64), starts, sizes))

    def of(self, metric: int) -> tuple[Ints, Ints, Ints]:
        """Positions of the rows of a metric in ascending order, where each begins and its size."""
        places = self._places.get(metric, [])
        if not places:
            none = np.empty(0, np.int64)
            return none, none, none
        position, start, size = (np.concatenate(part) for part in zip(*places, strict=True))
        order = np.argsort(position, kind="stable")
        return position[order], start[order], size[order]

    def read_bytes(self, start: Ints, size: Ints) -> Iterator[bytes]:
        """Yield the bytes of rows; rows that follow one another in the file are read at once."""
        if not len(start):
            return
        breaks = np.flatnonzero(start[1:] != (start + size)[:-1]) + 1
        for first, last in zip([0, *breaks.tolist()], [*breaks.tolist(), len(start)], strict=True):
            at, left = int(start[first]), int(size[first:last].sum())
            while left:
                self._file.seek(at)
                piece = self._file.read(min(left, COPY))
                at, left = at + len(piece), left - len(piece)
                yield piece
        self._file.seek(0, 2)

    def close(self) -> None:
        self._file.close()


@dataclass
class _Segment:
    """Cells of one metric, sorted by position, in the temporary file."""

    dtype: np.dtype[Any]
    count: int
    offset: int


@dataclass
class Cells:
    """Cells of many metrics that do not come as whole rows."""

    n_columns: int
    _file: Any = field(default_factory=tempfile.TemporaryFile)
    _waiting: dict[int, list[tuple[Ids, Ids, Array]]] = field(default_factory=dict)
    _n_waiting: int = 0
    _segments: dict[int, list[_Segment]] = field(default_factory=dict)

    def add(self, metric: int, position: Ids, column: Ids, value: Array) -> None:
        self._waiting.setdefault(metric, []).append((position, column, value))
        self._n_waiting += len(value)
        if self._n_waiting >= WAITING:
            self.flush()

    def flush(self) -> None:
        """What waits goes to the file, metric by metric and type by type."""
        for metric, parts in self._waiting.items():
            for dtype in dict.fromkeys(value.dtype for _, _, value in parts):
                same = [part for part in parts if part[2].dtype == dtype]
                position, column, value = (np.concatenate(part) for part in zip(*same, strict=True))
                order = np.argsort(position, kind="stable")
                self._segments.setdefault(metric, []).append(_Segment(dtype, len(order), self._file.tell()))
                for array in (position[order].astype(np.int32), column[order].astype(np.int32), value[order]):
                    self._file.write(array.tobytes())
        self._waiting, self._n_waiting = {}, 0

    def metrics(self) -> list[int]:
        self.flush()
        return sorted(self._segments)

    def fits(self, metric: int, type_: ValueType) -> bool:
        """Are all values of a metric such that its type holds them exactly?"""
        self.flush()
        if type_.composite is not None or type_.dtype.kind == "f":
            return True
        lowest, highest = np.iinfo(type_.dtype).min, np.iinfo(type_.dtype).max
        for segment in self._segments.get(metric, []):
            values = self._column(segment, 2)
            whole = segment.dtype.kind != "f" or bool((values == np.floor(values)).all())
            if not whole or (len(values) and not (lowest <= int(values.min()) and int(values.max()) <= highest)):
                return False
        return True

    def into_rows(self, metric: int, type_: ValueType, n_positions: int, add: Callable[[Ids, Array], None]) -> None:
        """The rows of a metric, band by band."""
        step = max(1, BAND // max(1, self.n_columns))
        segments = [(s, self._column(s, 0)) for s in self._segments.get(metric, [])]
        for first in range(0, n_positions, step):
            band = np.full((min(step, n_positions - first), self.n_columns), type_.absent or 0, type_.dtype)
            touched = False
            for segment, position in segments:
                part = slice(*np.searchsorted(position, [first, first + len(band)]).tolist())
                if part.start < part.stop:
                    band[position[part] - first, self._column(segment, 1, part)] = self._column(segment, 2, part)
                    touched = True
            if touched:
                add(np.arange(first, first + len(band), dtype=np.int32), band)

    def _column(self, segment: _Segment, number: int, part: slice = slice(None)) -> Array:
        """Positions, columns or values of a segment, or some of them."""
        dtype = segment.dtype if number == 2 else np.dtype(np.int32)
        first, last, _ = part.indices(segment.count)
        self._file.seek(segment.offset + number * 4 * segment.count + first * dtype.itemsize)
        column = np.frombuffer(self._file.read((last - first) * dtype.itemsize), dtype)
        self._file.seek(0, 2)
        return column

    def close(self) -> None:
        self._file.close()
