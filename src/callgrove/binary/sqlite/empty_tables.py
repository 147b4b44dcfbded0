"""A new database with very many tables, all of them empty: written as pages, for SQLite to fill.

Specification: sqlite.org/fileformat2.html. After each CREATE TABLE, SQLite searches the list of all tables for the new
one, so that n of them take time with the square of n: half a minute for 20,000. Here every table gets its empty page,
and the list is written along the way.

    page 1       the header of the file, and the root of the list: always an interior page
    then         for each table its root, which is an empty leaf; a leaf of the list as soon as it is full
    at the end   the last leaf, and interior pages between the leaves and page 1 where these are many

The list (sqlite_schema) has a row for each table: type, name, name of the table, number of its root, and statement.
What a page cannot hold of a row goes on in overflow pages.
"""

from __future__ import annotations

import sqlite3
import struct
from collections.abc import Iterable, Sequence
from typing import BinaryIO

from callgrove.binary.sqlite.pages import INTERIOR, LEAF

__all__ = ["write_empty_tables"]

PAGE = 4096  # bytes, as SQLite chooses itself
HEADER = 100  # bytes of the first page that are not its own
LEAF_HEADER, INTERIOR_HEADER, POINTER = 8, 12, 2
MOST_LOCAL = PAGE - 35  # bytes of a record that may stand in a leaf
LEAST_LOCAL = (PAGE - 12) * 32 // 255 - 23  # that do, of one which goes on elsewhere
EMPTY = struct.pack(">BHHHB", LEAF, 0, 0, PAGE, 0).ljust(PAGE, b"\0")
U32 = 4  # the serial type of integers of four bytes
TEXT = 13  # that of an empty text; each byte adds two

Child = tuple[int, int]  # a page of the list, and the last row id below it


def write_empty_tables(file: BinaryIO, tables: Iterable[tuple[str, str]]) -> None:
    """Write a database of tables without rows, each given by its name and the statement that creates it.

    `file` is empty. Names have to differ, and statements to be what SQLite would keep: `CREATE TABLE "name" (...)`.
    """
    pages = _Pages(file)
    children: list[Child] = []
    leaf, rowid = _Cells(LEAF_HEADER), 0
    for rowid, (name, statement) in enumerate(tables, 1):
        cell = pages.cell(rowid, _record(name, pages.add(EMPTY), statement))
        if not leaf.has_room_for(cell):
            children.append((pages.add(leaf.page(LEAF)), rowid - 1))
            leaf = _Cells(LEAF_HEADER)
        leaf.append(cell)
    if not rowid:  # only a root may be a leaf without rows
        pages.finish(_Cells(LEAF_HEADER, HEADER).page(LEAF))
        return
    children.append((pages.add(leaf.page(LEAF)), rowid))
    while len(root := _interior(children, HEADER)) > 1:
        children = [(pages.add(page), last) for page, last in _interior(children)]
    pages.finish(root[0][0])


class _Pages:
    """The pages of the file, one after the other; the first one comes last."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self._n = file, 1
        file.write(bytes(PAGE))

    def add(self, page: bytes) -> int:
        """Write a page and return its number."""
        self._file.write(page)
        self._n += 1
        return self._n

    def cell(self, rowid: int, record: bytes) -> bytes:
        """Return the cell of a row in a leaf, of which the rest is written to overflow pages if it is too long."""
        head = _varint(len(record)) + _varint(rowid)
        if len(record) <= MOST_LOCAL:
            return head + record
        here = LEAST_LOCAL + (len(record) - LEAST_LOCAL) % (PAGE - 4)
        n_local = here if here <= MOST_LOCAL else LEAST_LOCAL
        first = self._n + 1
        for begin in range(n_local, len(record), PAGE - 4):
            is_last = begin + PAGE - 4 >= len(record)
            following = 0 if is_last else self._n + 2
            self.add((struct.pack(">I", following) + record[begin : begin + PAGE - 4]).ljust(PAGE, b"\0"))
        return head + record[:n_local] + struct.pack(">I", first)

    def finish(self, root: bytes) -> None:
        """Write the first page."""
        major, minor, patch = sqlite3.sqlite_version_info
        head = struct.pack(
            ">16sH6B12I20xII",
            b"SQLite format 3\0",
            *(PAGE, 1, 1, 0, 64, 32, 32),  # without a log; fractions that are fixed
            *(1, self._n, 0, 0),  # changes, pages, and none that are free
            *(1, 4, 0, 0, 1, 0, 0, 0),  # version of the schema and its format; texts are UTF-8
            *(1, major * 1_000_000 + minor * 1000 + patch),  # changes when SQLite's version was noted, and that
        )
        self._file.seek(0)
        self._file.write(head + root)


class _Cells:
    """The cells of a page in the making, which stand at its end in reverse; `before` counts the bytes before the page's
    own header, `after` those of this header."""

    def __init__(self, header: int, before: int = 0) -> None:
        self._cells: list[bytes] = []
        self._header, self._before = header, before
        self._free = PAGE - before - header

    def has_room_for(self, cell: bytes) -> bool:
        return len(cell) + POINTER <= self._free

    def append(self, cell: bytes) -> None:
        self._cells.append(cell)
        self._free -= len(cell) + POINTER

    def page(self, kind: int, rightmost: int = 0) -> bytes:
        """Return the page, without the bytes before its header."""
        n, end = len(self._cells), PAGE
        pointers = [end := end - len(cell) for cell in self._cells]
        head = struct.pack(">BHHHB", kind, 0, n, end, 0) + struct.pack(">I", rightmost)[: self._header - LEAF_HEADER]
        content = b"".join(reversed(self._cells))
        return (head + struct.pack(f">{n}H", *pointers)).ljust(end - self._before, b"\0") + content


def _interior(children: Sequence[Child], before: int = 0) -> list[tuple[bytes, int]]:
    """Return the interior pages above some pages, and the last row id below each."""
    out: list[tuple[bytes, int]] = []
    cells = _Cells(INTERIOR_HEADER, before)
    for (page, last), following in zip(children, [*children[1:], None], strict=True):
        cell = struct.pack(">I", page) + _varint(last)
        if following is None or not cells.has_room_for(cell):  # the last one stands in the header
            out.append((cells.page(INTERIOR, page), last))
            cells = _Cells(INTERIOR_HEADER, before)
        else:
            cells.append(cell)
    return out


def _record(name: str, root: int, statement: str) -> bytes:
    """Return a row of the list of tables."""
    texts = [text.encode() for text in ("table", name, name, statement)]
    serials = [_varint(TEXT + 2 * len(text)) for text in texts]
    types = b"".join((*serials[:3], _varint(U32), serials[3]))
    size = 1 + len(types)  # fewer than 128: its own size is one byte
    return b"".join((_varint(size), types, *texts[:3], struct.pack(">I", root), texts[3]))


def _varint(number: int) -> bytes:
    """Return a number in SQLite's variable length: seven bits a byte, the highest first."""
    out = [number & 0x7F]
    while number := number >> 7:
        out.append(number & 0x7F | 0x80)
    return bytes(reversed(out))
