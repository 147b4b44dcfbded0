"""The header of a SQLite file, the tables it declares, and which values of a record belong to which column.

What a table's columns are is asked from SQLite, which parses the text that declares it: place, type, default, whether
generated. Two things it does not say outright:

    INTEGER PRIMARY KEY   the row id stands for the column, whose stored value is NULL. It does so exactly where the
                          column is the whole primary key, is declared INTEGER, and the key has no index of its own
    ALTER TABLE ADD       older records end before the column: it has its default

The same text declares the same columns in every file, so it is asked once. The databases of one run differ by a GUID at
the end of all names of tables, which is also the default of a column; texts that differ in nothing else are the same,
and files whose pages of texts do have the same tables under other names.
"""

from __future__ import annotations

import os
import re
import secrets
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from callgrove.arrays import ABSENT
from callgrove.binary.sqlite.pages import Pages
from callgrove.binary.sqlite.tables import PageColumn, SchemaRow, TableLayout, schema_leaves, schema_rows
from callgrove.errors import CorruptFile, InputError, NotRecognised

__all__ = [
    "HEADER_BYTES",
    "MAGIC",
    "Declared",
    "KnownSchemas",
    "Schema",
    "header_problem",
    "is_unfinished",
    "quote_name",
]


ROWID = "rowid"
ROWID_NAMES = ("rowid", "_rowid_", "oid")
VIRTUAL, HIDDEN = 2, 1
GUID = re.compile(r"_[0-9a-f]{8}(?:_[0-9a-f]{4}){3}_[0-9a-f]{12}")
GUID_LENGTH = 37
GUID_IN_PAGES = re.compile(rb"(?<=_)[0-9a-f]{8}(?:_[0-9a-f]{4}){3}_[0-9a-f]{12}")
MARKS = tuple(f"<{secrets.token_hex(17)}>" for _ in range(2))  # as long as a GUID, and in no file
MOST_KNOWN, MOST_SCHEMAS = 1 << 12, 64

Connect = Callable[[], sqlite3.Connection]
Row = Sequence[object]


def quote_name(name: str) -> str:
    """Quote a name of the file's schema for an SQL text."""
    return '"' + name.replace('"', '""') + '"'


@dataclass(frozen=True)
class Declared:
    """What a text declares: the columns that can be asked for, and, unless it is unusual, where they are stored."""

    names: tuple[str, ...]
    stored: Mapping[str, PageColumn] | None


class KnownSchemas:
    """The schemas of files that were read before, as those of one run are alike: tables by the text that declares them,
    and whole schemas by their pages, with marks in the place of the GUID."""

    def __init__(self) -> None:
        self.declared: dict[str, Declared] = {}
        self.whole: dict[tuple[int, bytes], Schema] = {}

    def add_declared(self, text: str, declared: Declared) -> None:
        if len(self.declared) >= MOST_KNOWN:
            self.declared.clear()
        self.declared[text] = declared

    def add_whole(self, pages: tuple[int, bytes], schema: Schema) -> None:
        if len(self.whole) >= MOST_SCHEMAS:
            self.whole.clear()
        self.whole[pages] = schema


class Schema:
    """The tables of one file, from the rows of its own table of tables: type, name, table, root page, SQL text.

    Views, virtual tables and generated columns are left out: these run code that the file brings.
    """

    def __init__(self, rows: Sequence[Row], connect: Connect, others: KnownSchemas) -> None:
        self._declared: dict[str, Declared] = {}
        self._stored: dict[str, list[tuple[int, bool]]] = {}  # root page, and whether texts are compared in other ways
        texts: dict[str, str] = {}
        self.views = frozenset(str(name) for type_, name, *_ in rows if type_ == "view")
        for type_, name, _, root, sql in rows:
            if type_ != "table" or not isinstance(name, str) or name.lower().startswith("sqlite_"):
                continue
            if isinstance(root, int) and root > 0:
                text = sql if isinstance(sql, str) else ""
                self._stored.setdefault(name, []).append((root, "collate" in text.lower()))
                texts.setdefault(name, text)
        for name, text in texts.items():
            self._declared[name] = _declare(name, text, connect, others)
        self._layouts = {name: self._find_layout(name) for name in self._stored}

    @classmethod
    def of_pages(cls, pages: Pages, connect: Connect, others: KnownSchemas) -> Schema:
        """Read the schema from the pages of a file; a known file that differs by a GUID alone is used instead."""
        leaves = schema_leaves(pages)
        begins = [((page - 1) * pages.size, header) for page, header in leaves]
        raw = b"".join(pages.buffer[begin + header : begin + pages.size] for begin, header in begins)
        match = GUID_IN_PAGES.search(raw)
        if match is None:
            return cls(schema_rows(pages, leaves)[0], connect, others)
        guid = match[0].decode("ascii"), match[0].decode("ascii").replace("_", "-")
        for text, mark in zip(guid, MARKS, strict=True):
            raw = raw.replace(text.encode("ascii"), mark.encode("ascii"))
        key = pages.usable, raw
        known = others.whole.get(key)
        if known is not None:
            return known._rename(MARKS, guid)
        rows, is_whole = schema_rows(pages, leaves)
        schema = cls(rows, connect, others)
        n_marks = sum(raw.count(mark.encode("ascii")) for mark in MARKS)
        if is_whole and n_marks == _n_times(rows, guid) and not schema._has_columns_like(guid):
            others.add_whole(key, schema._rename(guid, MARKS))
        return schema

    def _rename(self, old: Sequence[str], new: Sequence[str]) -> Schema:
        """Return the schema with other texts in the names of its tables."""
        renamed = Schema.__new__(Schema)
        renamed.views = frozenset(name.replace(old[0], new[0]).replace(old[1], new[1]) for name in self.views)
        names = [name.replace(old[0], new[0]).replace(old[1], new[1]) for name in self._stored]
        renamed._stored = dict(zip(names, self._stored.values(), strict=True))
        renamed._declared = dict(zip(names, self._declared.values(), strict=True))
        renamed._layouts = dict(zip(names, self._layouts.values(), strict=True))
        return renamed

    def _has_columns_like(self, texts: Sequence[str]) -> bool:
        names = [column for declared in self._declared.values() for column in declared.names]
        return any(text in name for name in names for text in texts)

    @property
    def tables(self) -> dict[str, tuple[str, ...]]:
        """Return every table with its columns."""
        return {name: declared.names for name, declared in self._declared.items()}

    @property
    def roots(self) -> dict[str, int]:
        return {name: entries[0][0] for name, entries in self._stored.items()}

    def layout(self, table: str) -> TableLayout | None:
        """Return where a table is stored; None where this cannot be told."""
        return self._layouts.get(table)

    def _find_layout(self, table: str) -> TableLayout | None:
        stored, (first, *others) = self._declared[table].stored, self._stored[table]
        return None if stored is None or others else TableLayout(first[0], stored, first[1])


def _n_times(rows: Sequence[SchemaRow], texts: Sequence[str]) -> int:
    """Count how often some texts occur in the cells of rows."""
    return sum(cell.count(text) for row in rows for cell in row if isinstance(cell, str) for text in texts)


def _declare(name: str, sql: str, connect: Connect, others: KnownSchemas) -> Declared:
    """Return what is known of a declaration, or ask SQLite."""
    key = _without_guid(name, sql)
    declared = others.declared.get(key)
    if declared is None:
        declared = _ask_sqlite(connect(), name) if sql else Declared(_ask_sqlite(connect(), name).names, None)
        if not any(name[-GUID_LENGTH:] in column for column in declared.names) and sql:
            others.add_declared(key, declared)
    return declared


def _without_guid(name: str, sql: str) -> str:
    """Return the text without the GUID that the table's name ends with: inside of names, where an underscore precedes
    it, and in quotes."""
    guid = name[-GUID_LENGTH:]
    if not GUID.fullmatch(guid):
        return sql
    return sql.replace(guid, "\0").replace(f'"{guid[1:].replace("_", "-")}"', "\1")


def _ask_sqlite(connection: sqlite3.Connection, table: str) -> Declared:
    columns = connection.execute(f"PRAGMA table_xinfo({quote_name(table)})").fetchall()
    indexes = connection.execute(f"PRAGMA index_list({quote_name(table)})").fetchall()
    names = tuple(str(column) for _, column, _, _, _, _, hidden in columns if not hidden)
    if any(hidden == HIDDEN or str(column).lower() in ROWID_NAMES for _, column, _, _, _, _, hidden in columns):
        return Declared(names, None)  # a column called rowid, or a virtual table
    keys = [str(column) for _, column, _, _, _, key, _ in columns if key]
    indexed = any(row[3] == "pk" for row in indexes)
    out: dict[str, PageColumn] = {ROWID: PageColumn(ABSENT, False, False)}
    place = 0
    for _, column, type_, _, default, key, hidden in columns:
        if hidden == VIRTUAL:
            continue
        alias = bool(key) and len(keys) == 1 and str(type_).upper() == "INTEGER" and not indexed
        out[str(column)] = PageColumn(ABSENT if alias else place, _is_real(str(type_)), default is not None)
        place += 1
    return Declared(names, out)


def _is_real(type_: str) -> bool:
    """Return whether a column of this declared type has the affinity REAL, by SQLite's rules in their order."""
    upper = type_.upper()
    if "INT" in upper or any(word in upper for word in ("CHAR", "CLOB", "TEXT", "BLOB")):
        return False
    return any(word in upper for word in ("REAL", "FLOA", "DOUB"))


# What the first bytes of a file say about the database that it should be.
#
# Specification: gpu-traces.md 1.1.


MAGIC = b"SQLite format 3\0"
HEADER_BYTES = 100


def header_problem(path: Path, head: bytes, size: int) -> InputError | None:
    """Return what is wrong with a file that should be a database, as far as its first 100 bytes show."""
    if not size:
        return InputError(f"{path}: the file is empty; export it again")
    if head.startswith(b"version https://git-lfs"):
        return NotRecognised(f"{path}: a Git LFS pointer, not the data; fetch the real file with `git lfs pull`")
    if head and not any(head):
        return CorruptFile(
            path,
            "SQLite header",
            offset=0,
            expected="a database",
            found="zeros: the export was interrupted",
            remedy="export it again",
        )
    if not head.startswith(MAGIC):
        return NotRecognised(f"{path}: not a SQLite database: it begins with {head[:16]!r}")
    if len(head) < HEADER_BYTES:
        return CorruptFile(path, "SQLite header", expected=f"{HEADER_BYTES} bytes", found=f"{len(head)}")
    page = int.from_bytes(head[16:18], "big")
    page = 65536 if page == 1 else page
    pages = int.from_bytes(head[28:32], "big")
    if pages * page > size and head[24:28] == head[92:96] and not is_unfinished(path):
        return CorruptFile(
            path,
            "SQLite pages",
            offset=size,
            expected=f"{pages} pages of {page} bytes",
            found=f"a file of {size} bytes: it is truncated",
            remedy="copy it again",
        )
    return None


def is_unfinished(path: Path) -> bool:
    """Return whether there is a write-ahead log or a journal, so that the file alone is incomplete. Asked of very many
    files: no paths are made."""
    really = str(path)
    if os.path.islink(really):  # noqa: PTH114
        really = os.path.realpath(really)  # SQLite looks beside what a link leads to
    return any(os.path.exists(really + ending) for ending in ("-wal", "-journal"))  # noqa: PTH110
