"""The rows of a table by columns, from the pages of a file.

Whose column a value of a record is, the schema tells (schema.py). What cannot be told for sure is `Unusual`, and SQLite
reads the table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from callgrove.formats.gpu.pages import Leaves, Pages, Unusual
from callgrove.formats.gpu.pages_found import FoundRows, FoundTable, FoundTables
from callgrove.formats.gpu.pages_records import NULL, Records, is_text
from callgrove.model.arrays import ABSENT, Array, Bools, Floats, Ints

__all__ = ["PageColumn", "PageRows", "PageTables", "TableLayout", "is_plain"]

KEPT_BYTES = 32 << 20  # that tell where rows stand; about 3 for each
LATEST_BYTES = 4 << 20  # of pages, of a table whose rows stay as they are


@dataclass(frozen=True)
class PageColumn:
    """A column; `place` in the record is -1 where the row id stands for it."""

    place: int
    is_real: bool  # whole numbers are stored as integers, and are doubles nevertheless
    has_default: bool


@dataclass(frozen=True)
class TableLayout:
    """Where a table begins and what its records hold."""

    root: int
    columns: Mapping[str, PageColumn]
    has_collations: bool


class PageRows:
    """Some rows of a table, column by column."""

    def __init__(self, pages: Pages, layout: TableLayout, records: Records, names: Sequence[str]) -> None:
        self._layout, self.rowid = layout, records.rows.rowid
        columns = [layout.columns[name] for name in names]
        last = max((column.place for column in columns), default=ABSENT)
        self._parts: list[tuple[Records, Array | slice]] = [(records, slice(None))]
        if not records.is_whole and last >= 0:
            self._parts = _put_together(pages, records, last)
        for column in columns:
            if column.has_default and any((part.serials(column.place) == ABSENT).any() for part, _ in self._parts):
                raise Unusual("records from before a column was added that has a default")

    def __len__(self) -> int:
        return len(self.rowid)

    def _stored_column(self, name: str) -> PageColumn:
        return self._layout.columns[name]

    @property
    def _single(self) -> Records | None:
        """All rows as they stand in the file."""
        records, where = self._parts[0]
        return records if isinstance(where, slice) else None

    def integers(self, name: str, missing: int) -> tuple[Ints, Ints]:
        """Values with `missing` for NULL, and rows that hold no integer."""
        column = self._stored_column(name)
        if column.place == ABSENT:
            return self.rowid, np.empty(0, np.int64)
        if self._single:
            return self._single.integers(column.place, missing)
        values, others = np.empty(len(self), np.int64), []
        for records, where in self._parts:
            values[where], other = records.integers(column.place, missing)
            others.append(np.arange(len(self))[where][other])
        return values, np.sort(np.concatenate(others))

    def reals(self, name: str) -> tuple[Floats, Ints]:
        """Values with NaN for NULL, and rows that hold no number."""
        column = self._stored_column(name)
        if column.place == ABSENT:
            return self.rowid.astype(np.float64), np.empty(0, np.int64)
        values, others = np.empty(len(self)), []
        for records, where in self._parts:
            values[where], other = records.reals(column.place)
            others.append(np.arange(len(self))[where][other])
        return values, np.sort(np.concatenate(others))

    def objects(self, name: str, rows: Ints | None = None) -> list[object]:
        """What SQLite would give, for all rows or some."""
        column = self._stored_column(name)
        if column.place == ABSENT:
            every: list[object] = (self.rowid if rows is None else self.rowid[rows]).tolist()
            return every
        if self._single:
            made = self._single.objects(column.place, rows)
        else:
            out = np.empty(len(self), object)
            for records, where in self._parts:
                out[where] = _as_objects(records.objects(column.place))
            made = (out if rows is None else out[rows]).tolist()
        return [float(cell) if isinstance(cell, int) else cell for cell in made] if column.is_real else made

    def kinds(self, name: str) -> tuple[bool, bool]:
        """Is there any text in a column, and is there anything else but NULL?"""
        column = self._stored_column(name)
        if column.place == ABSENT:
            return False, len(self) > 0
        serials = np.concatenate([records.serials(column.place) for records, _ in self._parts])
        text = is_text(serials)
        return bool(text.any()), bool((~text & (serials > NULL)).any())

    def equals(self, name: str, text: bytes) -> Bools:
        """Rows in which a column holds exactly this text."""
        out = np.zeros(len(self), np.bool_)
        column = self._stored_column(name)
        if column.place != ABSENT:
            for records, where in self._parts:
                out[where] = records.equals(column.place, text)
        return out


def _put_together(pages: Pages, records: Records, last: int) -> list[tuple[Records, Array | slice]]:
    """Records with what stands in overflow pages, as far as the column `last`, and which rows they are."""
    rows, end = records.rows, records.end(last)
    if (end > rows.size).any():
        raise Unusual("values that leave their record")
    spilled = end > rows.local
    if not spilled.any():
        return [(records, slice(None))]
    data, moved = pages.read_overflow(rows.take(spilled), end[spilled])
    parts: list[tuple[Records, Array | slice]] = [(Records(data, moved, last), np.flatnonzero(spilled))]
    if not spilled.all():
        parts.append((records.take(~spilled), np.flatnonzero(~spilled)))
    return parts


def _as_objects(cells: Sequence[object]) -> Array:
    out = np.empty(len(cells), object)
    out[:] = cells
    return out


class PageTables:
    """The tables of a file. Rows are found once, whatever is asked of them, as far as memory is meant for that; `found`
    may come from who has read the same file before."""

    def __init__(self, pages: Pages, found: FoundTables | None = None) -> None:
        self.pages = pages
        self.found = FoundTables() if found is None else found
        self._latest: dict[int, Records] = {}  # of tables of one batch

    def n_rows(self, root: int) -> int:
        if root in self.found:
            return self.found[root].n_rows
        return self.pages.n_rows(self.pages.leaves(root))

    def _records(self, root: int, last: int, between: tuple[int, int] | None) -> Iterator[Records]:
        latest = self._latest.get(root)
        if latest is not None and last < latest.n_known:
            yield latest
        elif root in self.found:
            found = self.found[root]
            for part in (found if between is None else found.between(*between)).parts:
                yield part.records(self.pages.bytes)
        elif between is None:
            yield from self._all_records(root, self.pages.leaves(root), last)
        else:
            for rows in self.pages.batches(self.pages.leaves(root).between(*between)):
                yield Records(self.pages.bytes, rows, last)

    def _all_records(self, root: int, leaves: Leaves, last: int) -> Iterator[Records]:
        """All rows; who reads them to the end need not look for them again."""
        parts: list[FoundRows] | None = []
        left = KEPT_BYTES - self.found.n_bytes
        records: Records | None = None
        n_batches = 0
        for rows in self.pages.batches(leaves):
            records = Records(self.pages.bytes, rows, last)
            n_batches += 1
            found = None if parts is None else FoundRows.of(records)
            left -= 0 if found is None else found.n_bytes
            parts = None if parts is None or found is None or left < 0 else [*parts, found]
            yield records
        if parts is not None:
            self.found[root] = FoundTable(tuple(parts))
        if n_batches == 1 and records is not None and len(leaves.page) * self.pages.size <= LATEST_BYTES:
            self._latest[root] = records

    def rows_of(
        self,
        layout: TableLayout,
        names: Sequence[str],
        between: tuple[int, int] | None = None,
        unlike: tuple[str, str] | None = None,
    ) -> Iterator[PageRows]:
        """The rows of a table, some at a time: row ids in a range, and without those in which a column holds a text."""
        if unlike is not None and not is_plain(unlike[1], layout):
            raise Unusual("a text that may equal others")
        asked = names if unlike is None else [*names, unlike[0]]
        last = max((layout.columns[name].place for name in asked), default=ABSENT)
        for records in self._records(layout.root, last, between):
            kept, rowid = records, records.rows.rowid
            if between is not None and not (between[0] <= rowid[0] and rowid[-1] <= between[1]):
                first, end = np.searchsorted(rowid, between[0]), np.searchsorted(rowid, between[1], side="right")
                kept = records.take(np.arange(first, end))
            if unlike is not None and len(kept.rows):
                same = PageRows(self.pages, layout, kept, [unlike[0]]).equals(unlike[0], unlike[1].encode())
                kept = kept.take(np.flatnonzero(~same))
            if len(kept.rows):
                yield PageRows(self.pages, layout, kept, names)


def is_plain(text: str, layout: TableLayout) -> bool:
    """Does the text equal nothing but itself, whatever the column is?"""
    return not layout.has_collations and not any(c.isalnum() or c.isspace() for c in text)
