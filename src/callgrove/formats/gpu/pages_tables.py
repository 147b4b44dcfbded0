"""Which values of a record belong to which column of a table, and the rows of a table by columns.

What a table's columns are is asked from SQLite, which has parsed the schema: place, type, default, whether generated.
Two things it does not say outright:

    INTEGER PRIMARY KEY   the row id stands for the column, whose stored value is NULL. It does so exactly where the
                          column is the whole primary key, is declared INTEGER, and the key has no index of its own
    ALTER TABLE ADD       older records end before the column: it has its default

What cannot be told for sure is `Unusual`, and SQLite reads the table.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from callgrove.formats.gpu.pages import Pages, RowBatch, Unusual
from callgrove.formats.gpu.pages_records import NULL, Records, is_text
from callgrove.model.arrays import ABSENT, Array, Bools, Floats, Ints

__all__ = ["PageColumn", "PageRows", "TableLayout", "layout_of", "rows_of"]

ROWID = "rowid"
ROWID_NAMES = ("rowid", "_rowid_", "oid")
VIRTUAL, HIDDEN = 2, 1


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


def layout_of(connection: sqlite3.Connection, table: str) -> TableLayout:
    """From SQLite's own view of the schema."""
    name = '"' + table.replace('"', '""') + '"'
    found = connection.execute(
        "SELECT rootpage, sql FROM sqlite_master WHERE type = 'table' AND name = ?", (table,)
    ).fetchall()
    if len(found) != 1 or not isinstance(found[0][0], int) or not isinstance(found[0][1], str):
        raise Unusual("a table that the schema has not once")
    root, sql = found[0]
    columns = connection.execute(f"PRAGMA table_xinfo({name})").fetchall()
    if any(hidden == HIDDEN or str(column).lower() in ROWID_NAMES for _, column, _, _, _, _, hidden in columns):
        raise Unusual("a column called rowid, or a virtual table")
    keys = [str(column) for _, column, _, _, _, key, _ in columns if key]
    indexed = any(row[3] == "pk" for row in connection.execute(f"PRAGMA index_list({name})"))
    out: dict[str, PageColumn] = {ROWID: PageColumn(ABSENT, False, False)}
    place = 0
    for _, column, type_, _, default, key, hidden in columns:
        if hidden == VIRTUAL:
            continue
        alias = bool(key) and len(keys) == 1 and str(type_).upper() == "INTEGER" and not indexed
        out[str(column)] = PageColumn(ABSENT if alias else place, _is_real(str(type_)), default is not None)
        place += 1
    return TableLayout(root, out, "collate" in sql.lower())


def _is_real(type_: str) -> bool:
    """Has a column of this declared type the affinity REAL? The rules are SQLite's, in their order."""
    upper = type_.upper()
    if "INT" in upper or any(word in upper for word in ("CHAR", "CLOB", "TEXT", "BLOB")):
        return False
    return any(word in upper for word in ("REAL", "FLOA", "DOUB"))


class PageRows:
    """Some rows of a table, column by column."""

    def __init__(self, pages: Pages, layout: TableLayout, rows: RowBatch, names: Sequence[str]) -> None:
        self._layout, self.rowid = layout, rows.rowid
        last = max((layout.columns[name].place for name in names), default=ABSENT)
        self._parts: list[tuple[Records, Array | slice]] = []
        if last < 0:
            return
        records = Records(pages.bytes, rows, last)
        if (records.end > rows.size).any():
            raise Unusual("values that leave their record")
        spilled = records.end > rows.local
        if not spilled.any():
            self._parts = [(records, slice(None))]
        else:
            data, moved = pages.spilled(rows.take(spilled), records.end[spilled])
            self._parts = [(Records(data, moved, last), np.flatnonzero(spilled))]
            if not spilled.all():
                self._parts.append((Records(pages.bytes, rows.take(~spilled), last), np.flatnonzero(~spilled)))
        for column in (layout.columns[name] for name in names):
            if column.has_default and any((part.serials(column.place) == ABSENT).any() for part, _ in self._parts):
                raise Unusual("records from before a column was added that has a default")

    def __len__(self) -> int:
        return len(self.rowid)

    def _stored(self, name: str) -> PageColumn:
        return self._layout.columns[name]

    @property
    def _single(self) -> Records | None:
        """All rows as they stand in the file."""
        records, where = self._parts[0]
        return records if isinstance(where, slice) else None

    def integers(self, name: str, missing: int) -> tuple[Ints, Ints]:
        """Values with `missing` for NULL, and rows that hold no integer."""
        column = self._stored(name)
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
        column = self._stored(name)
        if column.place == ABSENT:
            return self.rowid.astype(np.float64), np.empty(0, np.int64)
        values, others = np.empty(len(self)), []
        for records, where in self._parts:
            values[where], other = records.reals(column.place)
            others.append(np.arange(len(self))[where][other])
        return values, np.sort(np.concatenate(others))

    def objects(self, name: str, rows: Ints | None = None) -> list[object]:
        """What SQLite would give, for all rows or some."""
        column = self._stored(name)
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
        column = self._stored(name)
        if column.place == ABSENT:
            return False, len(self) > 0
        serials = np.concatenate([records.serials(column.place) for records, _ in self._parts])
        text = is_text(serials)
        return bool(text.any()), bool((~text & (serials > NULL)).any())

    def equals(self, name: str, text: bytes) -> Bools:
        """Rows in which a column holds exactly this text."""
        out = np.zeros(len(self), np.bool_)
        column = self._stored(name)
        if column.place != ABSENT:
            for records, where in self._parts:
                out[where] = records.equals(column.place, text)
        return out


def _as_objects(cells: Sequence[object]) -> Array:
    out = np.empty(len(cells), object)
    out[:] = cells
    return out


def rows_of(
    pages: Pages,
    layout: TableLayout,
    names: Sequence[str],
    between: tuple[int, int] | None = None,
    unlike: tuple[str, str] | None = None,
) -> Iterator[PageRows]:
    """The rows of a table, some at a time: row ids in a range, and without those in which a column holds a text."""
    leaves = pages.leaves(layout.root)
    if unlike is not None and not _is_plain(unlike[1], layout):
        raise Unusual("a text that may equal others")
    for rows in pages.batches(leaves if between is None else leaves.between(*between)):
        kept = rows
        if between is not None and not (between[0] <= rows.rowid[0] and rows.rowid[-1] <= between[1]):
            kept = rows.take((rows.rowid >= between[0]) & (rows.rowid <= between[1]))
        if unlike is not None and len(kept):
            kept = kept.take(~PageRows(pages, layout, kept, [unlike[0]]).equals(unlike[0], unlike[1].encode()))
        if len(kept):
            yield PageRows(pages, layout, kept, names)


def _is_plain(text: str, layout: TableLayout) -> bool:
    """Does the text equal nothing but itself, whatever the column is?"""
    return not layout.has_collations and not any(c.isalnum() or c.isspace() for c in text)
