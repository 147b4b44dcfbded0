"""Where the rows of a table stand, kept in few bytes for who reads the table again.

To find rows costs as much as to read columns of them: cells are looked up in their pages, row ids and headers taken
apart. A large file is read at least twice, once to see who took part and once for what happened.

    rows       first row id, as a rule the others count on   4 bytes each where a record begins   1 byte: its shape
    shapes     serial types and places of columns, as `Records` knows them

Only rows whose records stand in their pages are kept.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from callgrove.formats.gpu.pages import Bytes, RowBatch
from callgrove.formats.gpu.pages_records import Records, Shapes
from callgrove.model.arrays import Array, Ints

__all__ = ["FoundRows", "FoundTable"]


@dataclass(frozen=True)
class FoundRows:
    """Some rows that follow each other."""

    n: int
    first_rowid: int
    last_rowid: int
    _rowid: Ints | None  # where row ids do not count
    _base: int
    _start: Array  # from the base
    _shapes: Shapes
    _group: Array | None

    @classmethod
    def of(cls, records: Records) -> FoundRows | None:
        """None where records cannot be kept like this."""
        rows = records.rows
        if not len(rows) or not records.knows_all or not records.is_whole:
            return None
        first, last = int(rows.rowid[0]), int(rows.rowid[-1])
        base = int(rows.start.min())
        small = int(rows.start.max()) - base < 2**32
        shapes, group = records.shapes, None
        if len(shapes) > 1:
            group = records.group.astype(np.uint8 if len(shapes) <= 256 else np.uint16)
        return cls(
            len(rows),
            first,
            last,
            None if last - first + 1 == len(rows) else rows.rowid,
            base,
            (rows.start - base).astype(np.uint32 if small else np.int64),
            shapes,
            group,
        )

    @property
    def n_bytes(self) -> int:
        return sum(column.nbytes for column in (self._rowid, self._start, self._group) if column is not None)

    def records(self, data: Bytes) -> Records:
        """The same records again."""
        rowid = self.first_rowid + np.arange(self.n) if self._rowid is None else self._rowid
        unknown = np.broadcast_to(np.int64(0), self.n)  # sizes, which were looked at
        start = self._start.astype(np.int64)
        start += self._base
        group = np.broadcast_to(np.int64(0), self.n) if self._group is None else self._group.astype(np.int64)
        return Records.known(data, RowBatch(rowid, start, unknown, unknown), self._shapes, group)


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
