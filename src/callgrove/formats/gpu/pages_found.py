"""Where the rows of a table stand, kept in few bytes for who reads the table again.

To find rows costs as much as to read columns of them: cells are looked up in their pages, row ids and headers taken
apart. A file is read at least twice, once to see who took part and once for what happened.

    rows       row ids, as a rule counting on   2 bytes each where a record begins   1 byte: its shape
    shapes     serial types and places of columns, as `Records` knows them

Only rows whose records stand in their pages are kept, and of all files that are read one after the other only as much
as there is room for.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass

import numpy as np

from callgrove.formats.gpu.pages import Bytes, RowBatch
from callgrove.formats.gpu.pages_records import Records, Shapes
from callgrove.model.arrays import Array, Ints

__all__ = ["FoundRows", "FoundTable", "FoundTables", "Room", "room"]

ROOM_BYTES = 32 << 20  # for files that nobody reads at the moment


class Room:
    """Memory that all who keep something share. What somebody has taken is free again when that is forgotten."""

    def __init__(self, n_bytes: int = ROOM_BYTES) -> None:
        self._left = n_bytes

    @property
    def left(self) -> int:
        return self._left

    def take(self, owner: object, n_bytes: int) -> bool:
        """Is there room for what belongs to the owner?"""
        if n_bytes > self._left:
            return False
        self._left -= n_bytes
        weakref.finalize(owner, self._give_back, n_bytes).atexit = False
        return True

    def _give_back(self, n_bytes: int) -> None:
        self._left += n_bytes


room = Room()  # of this process


@dataclass(frozen=True)
class Runs:
    """A column in which numbers follow each other that are equal, or that count on: the first ones, and their rows."""

    n: int
    _first: Ints
    _rows: Ints

    @classmethod
    def of(cls, column: Ints, step: int) -> Runs:
        """`step` is 0 where they are equal, 1 where they count."""
        rows = np.append(0, np.flatnonzero(column[1:] != column[:-1] + step) + 1)
        return cls(len(column), column[rows], rows)

    @property
    def n_bytes(self) -> int:
        return self._first.nbytes + self._rows.nbytes

    def all(self, step: int) -> Ints:
        lengths = np.diff(self._rows, append=self.n)
        if not step:
            return np.repeat(self._first, lengths)
        out = np.arange(self.n)
        out += np.repeat(self._first - self._rows, lengths)
        return out


@dataclass(frozen=True)
class Starts:
    """Where records begin: the last 16 bits of each place, and the others, which change from page to page."""

    _low: Array
    _high: Runs

    @classmethod
    def of(cls, start: Ints) -> Starts:
        return cls(start.astype(np.uint16), Runs.of(start >> 16, 0))

    @property
    def n_bytes(self) -> int:
        return self._low.nbytes + self._high.n_bytes

    def all(self) -> Ints:
        out = self._high.all(0)
        out <<= 16
        out |= self._low
        return out


@dataclass(frozen=True)
class FoundRows:
    """Some rows that follow each other."""

    n: int
    first_rowid: int
    last_rowid: int
    _rowid: Runs
    _start: Starts
    _shapes: Shapes
    _group: Array | None

    @classmethod
    def of(cls, records: Records) -> FoundRows | None:
        """None where records cannot be kept like this."""
        rows = records.rows
        if not len(rows) or not records.knows_all or not records.is_whole:
            return None
        first, last = int(rows.rowid[0]), int(rows.rowid[-1])
        shapes, group = records.shapes, None
        if len(shapes) > 1:
            group = records.group.astype(np.uint8 if len(shapes) <= 256 else np.uint16)
        return cls(len(rows), first, last, Runs.of(rows.rowid, 1), Starts.of(rows.start), shapes, group)

    @property
    def n_bytes(self) -> int:
        return self._rowid.n_bytes + self._start.n_bytes + (0 if self._group is None else self._group.nbytes)

    def records(self, data: Bytes) -> Records:
        """The same records again."""
        unknown = np.broadcast_to(np.int64(0), self.n)  # sizes, which were looked at
        start = self._start.all()
        group = np.broadcast_to(np.int64(0), self.n) if self._group is None else self._group.astype(np.int64)
        return Records.known(data, RowBatch(self._rowid.all(1), start, unknown, unknown), self._shapes, group)


@dataclass(frozen=True)
class FoundTable:
    """All rows of a table."""

    parts: tuple[FoundRows, ...]

    @property
    def n_rows(self) -> int:
        return sum(part.n for part in self.parts)

    @property
    def n_bytes(self) -> int:
        return sum(part.n_bytes for part in self.parts)

    def between(self, low: int, high: int) -> FoundTable:
        """Parts that may hold row ids from low to high."""
        return FoundTable(tuple(p for p in self.parts if p.first_rowid <= high and p.last_rowid >= low))


class FoundTables(dict[int, FoundTable]):
    """Tables of one file, by their root page."""

    _n_housed = 0

    @property
    def n_bytes(self) -> int:
        return sum(table.n_bytes for table in self.values())

    def fit(self, place: Room) -> bool:
        """Is there room for all of them? It is taken, for what was added since the last time."""
        more = self.n_bytes - self._n_housed
        if not place.take(self, more):
            return False
        self._n_housed += more
        return True
