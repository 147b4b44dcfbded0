"""Tables of a few rows, one row after the other: for these, arrays cost more than they save.

The same rules as in pages.py and records.py, and the same `PageError`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from callgrove.arrays import ABSENT
from callgrove.binary.sqlite.pages import DEEPEST, INTERIOR, LEAF, Pages, check, varint
from callgrove.binary.sqlite.records import NULL, ONE, REAL, SIZES, ZERO, Header, header_of
from callgrove.binary.sqlite.tables import TableLayout

__all__ = ["SchemaRow", "few_rows", "n_few", "schema_leaves", "schema_rows"]

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
    """How many rows a table has, if it is a single page; else None."""
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
    """The rows of a table of one page, as SQLite would give them."""
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
    """The pages that tell what a file has, in order, and where in each its header stands."""
    found: list[tuple[int, int]] = []
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
            found.append((page, at))
    return found


def schema_rows(pages: Pages, leaves: Sequence[tuple[int, int]]) -> tuple[list[SchemaRow], bool]:
    """Type, name, table, root page and SQL text of everything that a file has, and whether all of it stands in these
    pages."""
    found: list[SchemaRow] = []
    is_whole = True
    for page, header in leaves:
        for row in _rows_of_page(pages, page, header):
            is_whole = is_whole and pages.local(len(row.record)) == len(row.record)
            found.append(tuple(_value(row, k, False, False) for k in range(N_SCHEMA_COLUMNS)))
        check(len(found) <= MOST_SCHEMA_ROWS, "a tree without an end")
    return found, is_whole


def _cells(pages: Pages, page: int, array: int, header: int) -> Iterator[int]:
    """Where the cells of a page begin."""
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
        found = header_of(record[:length], pages.known_headers)
        check(found.end <= size, "values that leave their record")
        yield _Row(rowid, found, record)


def _value(row: _Row, column: int, is_real: bool, has_default: bool) -> object:
    """A value of a row, as SQLite would give it; the row id where the column is its name."""
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
