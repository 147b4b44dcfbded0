"""The rows of a table by columns, from the pages of a file, and where these rows stand.

Whose column a value of a record is, the schema tells (schema.py).
"""

from __future__ import annotations

import struct
import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from callgrove.arrays import ABSENT, Array, Bools, Floats, Ints
from callgrove.binary.sqlite.numbers import Bytes, check, varint
from callgrove.binary.sqlite.pages import DEEPEST, INTERIOR, LEAF, Leaves, PageReader, Pages, RowBatch, Window
from callgrove.binary.sqlite.records import NULL, ONE, REAL, SIZES, ZERO, Header, Records, Shapes, header_of, is_text

__all__ = [
    "FoundRows",
    "FoundTable",
    "FoundTables",
    "PageColumn",
    "PageRows",
    "PageTables",
    "Room",
    "SchemaRow",
    "TableLayout",
    "few_rows",
    "n_few",
    "schema_leaves",
    "schema_rows",
]


# -- tables of any size ------------------------------------------------------------------------------------------------


# Where the rows of a table stand, kept in few bytes for who reads the table again.
#
# To find rows costs as much as to read columns of them: cells are looked up in their pages, row ids and headers taken
# apart. A file is read at least twice, once to see who took part and once for what happened.
#
#     rows       row ids, as a rule counting on   2 bytes each where a record begins   1 byte: its shape
#     shapes     serial types and places of columns, as `Records` knows them
#
# Only rows whose records stand in their pages are kept, and of all files that are read one after the other only as much
# as there is room for.


ROOM_BYTES = 32 << 20  # for files that nobody reads at the moment


class Room:
    """A limit of memory for everything that is kept. What an owner has taken is free again when the owner is gone."""

    def __init__(self, n_bytes: int = ROOM_BYTES) -> None:
        self._left = n_bytes

    @property
    def left(self) -> int:
        return self._left

    def take(self, owner: object, n_bytes: int) -> bool:
        """Take room for what belongs to an owner, and return whether there was enough."""
        if n_bytes > self._left:
            return False
        self._left -= n_bytes
        weakref.finalize(owner, self._give_back, n_bytes).atexit = False
        return True

    def _give_back(self, n_bytes: int) -> None:
        self._left += n_bytes


@dataclass(frozen=True)
class Runs:
    """A column of runs of numbers that are equal or count up, stored as the first number and the row of each run."""

    n: int
    _first: Ints
    _rows: Ints

    @classmethod
    def of(cls, column: Ints, step: int) -> Runs:
        """Make runs of a column; `step` is 0 where numbers are equal, 1 where they count."""
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
    """Where records begin: the low 16 bits of each place, and the high bits, which change from page to page."""

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
    """Where some rows stand that follow each other."""

    n: int
    first_rowid: int
    last_rowid: int
    _rowid: Runs
    _start: Starts
    _shapes: Shapes
    _group: Array | None
    window: Window | None  # of the pages from whose first byte places are counted

    @classmethod
    def from_records(cls, records: Records, window: Window | None = None) -> FoundRows | None:
        """Return where records stand; None where they cannot be kept like this."""
        rows = records.rows
        if not len(rows) or not records.knows_all or not records.is_whole:
            return None
        first, last = int(rows.rowid[0]), int(rows.rowid[-1])
        shapes, group = records.shapes, None
        if len(shapes) > 1:
            group = records.group.astype(np.uint8 if len(shapes) <= 256 else np.uint16)
        return cls(len(rows), first, last, Runs.of(rows.rowid, 1), Starts.of(rows.start), shapes, group, window)

    @property
    def n_bytes(self) -> int:
        return self._rowid.n_bytes + self._start.n_bytes + (0 if self._group is None else self._group.nbytes)

    def records(self, data: Bytes) -> Records:
        """Return the records of rows that were looked at before."""
        unknown = np.broadcast_to(np.int64(0), self.n)  # sizes, which were looked at
        start = self._start.all()
        group = np.broadcast_to(np.int64(0), self.n) if self._group is None else self._group.astype(np.int64)
        return Records.restore(data, RowBatch(self._rowid.all(1), start, unknown, unknown), self._shapes, group)


@dataclass(frozen=True)
class FoundTable:
    """Where all rows of a table stand."""

    parts: tuple[FoundRows, ...]

    @property
    def n_rows(self) -> int:
        return sum(part.n for part in self.parts)

    @property
    def n_bytes(self) -> int:
        return sum(part.n_bytes for part in self.parts)

    def select_between(self, low: int, high: int) -> FoundTable:
        """Return the parts that may hold row ids from low to high."""
        return FoundTable(tuple(p for p in self.parts if p.first_rowid <= high and p.last_rowid >= low))


class FoundTables(dict[int, FoundTable]):
    """Where the rows of tables of one file stand, by the root page of the table."""

    n_bytes = _n_housed = 0

    def add(self, root: int, table: FoundTable) -> None:
        """Add a table that is not there yet. A file may have tens of thousands."""
        self[root] = table
        self.n_bytes += table.n_bytes

    def fit(self, place: Room) -> bool:
        """Take room for what was added since the last call, and return whether there was enough."""
        more = self.n_bytes - self._n_housed
        if not place.take(self, more):
            return False
        self._n_housed += more
        return True


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
            if column.has_default:
                is_older = any((part.serials(column.place) == ABSENT).any() for part, _ in self._parts)
                check(not is_older, "records from before a column was added that has a default")

    def __len__(self) -> int:
        return len(self.rowid)

    def _find_column(self, name: str) -> PageColumn:
        return self._layout.columns[name]

    @property
    def _single(self) -> Records | None:
        """Return all rows as one part, where all stand in their pages."""
        records, where = self._parts[0]
        return records if isinstance(where, slice) else None

    def integers(self, name: str, missing: int) -> tuple[Ints, Ints]:
        """Return values with `missing` for NULL, and the rows that hold no integer."""
        column = self._find_column(name)
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
        """Return values with NaN for NULL, and the rows that hold no number."""
        column = self._find_column(name)
        if column.place == ABSENT:
            return self.rowid.astype(np.float64), np.empty(0, np.int64)
        values, others = np.empty(len(self)), []
        for records, where in self._parts:
            values[where], other = records.reals(column.place)
            others.append(np.arange(len(self))[where][other])
        return values, np.sort(np.concatenate(others))

    def objects(self, name: str, rows: Ints | None = None) -> list[object]:
        """Return what SQLite would give, for all rows or some."""
        column = self._find_column(name)
        if column.place == ABSENT:
            every: list[object] = (self.rowid if rows is None else self.rowid[rows]).tolist()
            return every
        if self._single:
            values = self._single.objects(column.place, rows)
        else:
            out = np.empty(len(self), object)
            for records, where in self._parts:
                out[where] = _as_objects(records.objects(column.place))
            values = (out if rows is None else out[rows]).tolist()
        return [float(cell) if isinstance(cell, int) else cell for cell in values] if column.is_real else values

    def kinds(self, name: str) -> tuple[bool, bool]:
        """Return whether a column has any text, and whether it has anything else but NULL."""
        column = self._find_column(name)
        if column.place == ABSENT:
            return False, len(self) > 0
        serials = np.concatenate([records.serials(column.place) for records, _ in self._parts])
        text = is_text(serials)
        return bool(text.any()), bool((~text & (serials > NULL)).any())

    def equals(self, name: str, text: bytes) -> Bools:
        """Return which rows hold exactly this text in a column."""
        out = np.zeros(len(self), np.bool_)
        column = self._find_column(name)
        if column.place != ABSENT:
            for records, where in self._parts:
                out[where] = records.equals(column.place, text)
        return out


def _put_together(pages: Pages, records: Records, last: int) -> list[tuple[Records, Array | slice]]:
    """Return records joined with their overflow pages, up to the column `last`, and the rows of each part."""
    rows, end = records.rows, records.end(last)
    check((end <= rows.size).all(), "values that leave their record")
    spilled = end > rows.local
    if not spilled.any():
        return [(records, slice(None))]
    data, moved = pages.read_overflow(rows.take(spilled), end[spilled], records.base)
    parts: list[tuple[Records, Array | slice]] = [(Records(data, moved, last), np.flatnonzero(spilled))]
    if not spilled.all():
        parts.append((records.take(~spilled), np.flatnonzero(~spilled)))
    return parts


def _as_objects(cells: Sequence[object]) -> Array:
    out = np.empty(len(cells), object)
    out[:] = cells
    return out


class PageTables:
    """The tables of a file. Where rows stand is looked up once and kept, as far as memory is set aside for that;
    `found_tables` may come from an earlier reader of the same file."""

    def __init__(self, pages: Pages, found_tables: FoundTables | None = None) -> None:
        self.pages = pages
        self.found_tables = FoundTables() if found_tables is None else found_tables
        self._latest: dict[int, Records] = {}  # of tables of one batch

    def n_rows(self, root: int) -> int:
        if root in self.found_tables:
            return self.found_tables[root].n_rows
        return self.pages.n_rows(self.pages.leaves(root))

    def _records(self, root: int, last: int, between: tuple[int, int] | None) -> Iterator[Records]:
        latest = self._latest.get(root)
        if latest is not None and last < latest.n_known:
            yield latest
        elif root in self.found_tables:
            table, reader = self.found_tables[root], PageReader(self.pages)
            for part in (table if between is None else table.select_between(*between)).parts:
                yield part.records(reader.read(part.window).bytes)
        elif between is None:
            yield from self._all_records(root, self.pages.leaves(root), last)
        else:
            for pages, rows in self.pages.batches(self.pages.leaves(root).select_between(*between)):
                yield Records(pages.bytes, rows, last)

    def _all_records(self, root: int, leaves: Leaves, last: int) -> Iterator[Records]:
        """Yield all rows, and remember where they stand once they were read to the end."""
        parts: list[FoundRows] | None = []
        left = KEPT_BYTES - self.found_tables.n_bytes
        records: Records | None = None
        n_batches = 0
        for pages, rows in self.pages.batches(leaves):
            records = Records(pages.bytes, rows, last)
            n_batches += 1
            located = None if parts is None else FoundRows.from_records(records, pages.window)
            left -= 0 if located is None else located.n_bytes
            parts = None if parts is None or located is None or left < 0 else [*parts, located]
            yield records
        if parts is not None:
            self.found_tables.add(root, FoundTable(tuple(parts)))
        if n_batches == 1 and records is not None and len(leaves.page) * self.pages.size <= LATEST_BYTES:
            self._latest[root] = records

    def rows_of(
        self,
        layout: TableLayout,
        names: Sequence[str],
        between: tuple[int, int] | None = None,
        unlike: tuple[str, str] | None = None,
    ) -> Iterator[PageRows]:
        """Yield the rows of a table, some at a time: row ids in a range, without rows in which a column holds a
        text."""
        asked = names if unlike is None else [*names, unlike[0]]
        last = max((layout.columns[name].place for name in asked), default=ABSENT)
        for records in self._records(layout.root, last, between):
            selected, rowid = records, records.rows.rowid
            if between is not None and not (between[0] <= rowid[0] and rowid[-1] <= between[1]):
                first, end = np.searchsorted(rowid, between[0]), np.searchsorted(rowid, between[1], side="right")
                selected = records.take(np.arange(first, end))
            if unlike is not None and len(selected.rows):
                same = PageRows(self.pages, layout, selected, [unlike[0]]).equals(unlike[0], unlike[1].encode())
                selected = selected.take(np.flatnonzero(~same))
            if len(selected.rows):
                yield PageRows(self.pages, layout, selected, names)
            else:
                self.pages.forget()  # whoever takes rows gives their pages back


# -- tables of a few rows ----------------------------------------------------------------------------------------------
# The same rules as in pages.py and records.py, and the same `PageError`.


FIRST_BYTES = 100  # of page 1, which are the file's header
SIZE_OF = tuple(SIZES.tolist())
N_SCHEMA_COLUMNS = 5  # type, name, table, root page, SQL text
MOST_SCHEMA_ROWS = 1 << 16
SchemaRow = tuple[object, ...]


class _Row(NamedTuple):
    rowid: int
    header: Header
    record: bytes


def n_few(pages: Pages, root: int) -> int | None:
    """Return how many rows a table has if it is a single page, else None."""
    if not pages.is_single(root):
        return None
    begin = (root - 1) * pages.size
    return int.from_bytes(pages.buffer[begin + 3 : begin + 5], "big")


def few_rows(
    pages: Pages,
    layout: TableLayout,
    names: Sequence[str],
    between: tuple[int, int] | None = None,
    unlike: tuple[str, str] | None = None,
) -> list[tuple[object, ...]]:
    """Return the rows of a table of one page, as SQLite would give them."""
    columns = [layout.columns[name] for name in names]
    other = None if unlike is None else layout.columns[unlike[0]]
    out = []
    for row in _rows_of_page(pages, layout.root, 0):
        if between is not None and not between[0] <= row.rowid <= between[1]:
            continue
        if unlike is not None and other is not None and _value(row, other.place, False, other.has_default) == unlike[1]:
            continue
        out.append(tuple(_value(row, c.place, c.is_real, c.has_default) for c in columns))
    return out


def schema_leaves(pages: Pages) -> list[tuple[int, int]]:
    """Return the pages that hold the schema of a file, in order, and where in each its header stands."""
    leaves: list[tuple[int, int]] = []
    waiting = [(1, 0)]
    n_pages = 0
    while waiting:
        page, depth = waiting.pop()
        n_pages += 1
        check(depth <= DEEPEST and n_pages <= pages.count, "a tree without an end")
        at = FIRST_BYTES if page == 1 else 0
        check(1 <= page <= pages.count, "a page outside of the file")
        begin = (page - 1) * pages.size
        if pages.buffer[begin + at] == INTERIOR:
            children = [
                int.from_bytes(pages.buffer[cell : cell + 4], "big") for cell in _cells(pages, page, at + 12, at)
            ]
            children.append(int.from_bytes(pages.buffer[begin + at + 8 : begin + at + 12], "big"))
            waiting += [(child, depth + 1) for child in reversed(children)]
        else:
            leaves.append((page, at))
    return leaves


def schema_rows(pages: Pages, leaves: Sequence[tuple[int, int]]) -> tuple[list[SchemaRow], bool]:
    """Return type, name, table, root page and SQL text of everything in the schema, and whether all of it stands in
    these pages."""
    schema: list[SchemaRow] = []
    is_whole = True
    for page, header in leaves:
        for row in _rows_of_page(pages, page, header):
            is_whole = is_whole and pages.local(len(row.record)) == len(row.record)
            schema.append(tuple(_value(row, k, False, False) for k in range(N_SCHEMA_COLUMNS)))
        check(len(schema) <= MOST_SCHEMA_ROWS, "a tree without an end")
    return schema, is_whole


def _cells(pages: Pages, page: int, array: int, header: int) -> Iterator[int]:
    """Return where the cells of a page begin."""
    begin, data = (page - 1) * pages.size, pages.buffer
    n = int.from_bytes(data[begin + header + 3 : begin + header + 5], "big")
    check(array + 2 * n <= pages.usable, "more cells than a page has room for")
    for pointer in struct.unpack_from(f">{n}H", data, begin + array):
        check(array + 2 * n <= pointer <= pages.usable - 4, "a cell outside of its page")
        yield begin + pointer


def _rows_of_page(pages: Pages, page: int, header: int) -> Iterator[_Row]:
    begin, data = (page - 1) * pages.size, pages.buffer
    check(1 <= page <= pages.count and data[begin + header] == LEAF, "a page that belongs to no table")
    end, before = begin + pages.usable, None
    for cell in _cells(pages, page, header + 8, header):
        size, at = varint(data, cell)
        rowid, at = varint(data, at)
        rowid = rowid - (1 << 64) if rowid >= 1 << 63 else rowid
        check(before is None or rowid > before, "row ids that do not rise")
        before = rowid
        local = pages.local(size)
        check(at + local + 4 * (local < size) <= end, "a record that leaves its page")
        record = bytes(data[at : at + local]) if local == size else pages.chain(at, local, size)
        length, _ = varint(record, 0)
        check(length <= local, "a header that leaves its page")
        record_header = header_of(record[:length], pages.known_headers)
        check(record_header.end <= size, "values that leave their record")
        yield _Row(rowid, record_header, record)


def _value(row: _Row, column: int, is_real: bool, has_default: bool) -> object:
    """Return a value of a row, as SQLite would give it; the row id where the column stands for it."""
    if column == ABSENT:
        return row.rowid
    if column >= len(row.header.serial):
        check(not has_default, "records from before a column was added that has a default")
        return None
    serial, place = row.header.serial[column], row.header.place[column]
    if serial == NULL:
        return None
    if serial in (ZERO, ONE):
        return float(serial - ZERO) if is_real else serial - ZERO
    if serial > ONE:
        raw = row.record[place : place + (serial - 12) // 2]
        return raw.decode("utf-8", "replace") if serial % 2 else raw
    raw = row.record[place : place + SIZE_OF[serial]]
    if serial == REAL:
        (number,) = struct.unpack(">d", raw)
        return None if number != number else number
    whole = int.from_bytes(raw, "big", signed=True)
    return float(whole) if is_real else whole
