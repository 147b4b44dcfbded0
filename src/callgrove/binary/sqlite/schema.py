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
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from callgrove.arrays import ABSENT
from callgrove.binary.sqlite.pages import Pages
from callgrove.binary.sqlite.tables import PageColumn, SchemaRow, TableLayout, schema_leaves, schema_rows
from callgrove.errors import CorruptFile, InputError, NotRecognised

__all__ = [
    "HEADER_BYTES",
    "MAGIC",
    "UNFINISHED",
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
GUID = re.compile(rb"_[0-9a-f]{8}(?:_[0-9a-f]{4}){3}_[0-9a-f]{12}")
GUID_LENGTH = 37
ANY_GUID = re.compile(rb"[0-9a-f]{8}(?:[_-][0-9a-f]{4}){3}[_-][0-9a-f]{12}")
MARKS = tuple(f"<{secrets.token_hex(17)}>" for _ in range(2))  # as long as a GUID, and in no file
MARKS_IN_PAGES = tuple(mark.encode("ascii") for mark in MARKS)
ANY_MARK = re.compile(b"(" + b"|".join(MARKS_IN_PAGES) + b")")
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
    and whole schemas by their pages, which may differ by a GUID."""

    def __init__(self) -> None:
        self.declared: dict[str, Declared] = {}
        self.whole: list[KnownPages] = []

    def add_declared(self, text: str, declared: Declared) -> None:
        if len(self.declared) >= MOST_KNOWN:
            self.declared.clear()
        self.declared[text] = declared

    def add_whole(self, pages: KnownPages) -> None:
        if len(self.whole) >= MOST_SCHEMAS:
            self.whole.clear()
        self.whole.append(pages)

    def find(self, usable: int, raw: bytes) -> Schema | None:
        """Return the schema in these bytes of pages, if they are those of a known one but for the GUID."""
        return next((schema for known in self.whole if (schema := known.read(usable, raw)) is not None), None)


class KnownPages:
    """The pages of a schema that was read, cut where the GUID stands in them, with `_` or with `-`."""

    def __init__(self, usable: int, marked: bytes, declarations: Declarations) -> None:
        """Keep pages in which marks stand in the place of the GUID."""
        self._usable, self._size, self._declarations = usable, len(marked), declarations
        self._pieces = ANY_MARK.split(marked)  # text, mark, text, ...
        self._which = [MARKS_IN_PAGES.index(mark) for mark in self._pieces[1::2]]
        self._first = marked.index(MARKS_IN_PAGES[0])

    def read(self, usable: int, raw: bytes) -> Schema | None:
        """Return the schema in these bytes; None where they differ by more than the GUID."""
        if usable != self._usable or len(raw) != self._size:
            return None
        guid = raw[self._first : self._first + GUID_LENGTH - 1]
        texts = guid, guid.replace(b"_", b"-")
        pieces = list(self._pieces)
        pieces[1::2] = [texts[which] for which in self._which]
        if b"".join(pieces) != raw or not GUID.fullmatch(b"_" + guid):
            return None
        return Schema(self._declarations, (texts[0].decode("ascii"), texts[1].decode("ascii")))


@dataclass(frozen=True)
class Declarations:
    """What a schema declares, by the names of tables: columns, where tables begin and how texts are compared in them,
    and where their columns are stored, if that is known. Files of one run share it, with marks for the GUID in names.
    """

    declared: Mapping[str, Declared]
    stored: Mapping[str, list[tuple[int, bool]]]
    layouts: Mapping[str, TableLayout | None]
    views: frozenset[str]

    @classmethod
    def of_rows(cls, rows: Sequence[Row], connect: Connect, others: KnownSchemas) -> Declarations:
        """Read the rows of a file's table of tables."""
        stored: dict[str, list[tuple[int, bool]]] = {}
        texts: dict[str, str] = {}
        views = frozenset(str(name) for type_, name, *_ in rows if type_ == "view")
        for type_, name, _, root, sql in rows:
            if type_ != "table" or not isinstance(name, str) or name.lower().startswith("sqlite_"):
                continue
            if isinstance(root, int) and root > 0:
                text = sql if isinstance(sql, str) else ""
                stored.setdefault(name, []).append((root, "collate" in text.lower()))
                texts.setdefault(name, text)
        declared = {name: _declare(name, text, connect, others) for name, text in texts.items()}
        layouts = {name: _find_layout(declared[name], entries) for name, entries in stored.items()}
        return cls(declared, stored, layouts, views)

    def rename(self, renamed: Callable[[str], str]) -> Declarations:
        """Return the declarations with other names of tables and views."""
        return Declarations(
            {renamed(name): told for name, told in self.declared.items()},
            {renamed(name): told for name, told in self.stored.items()},
            {renamed(name): told for name, told in self.layouts.items()},
            frozenset(map(renamed, self.views)),
        )


def _find_layout(declared: Declared, stored: Sequence[tuple[int, bool]]) -> TableLayout | None:
    first, *others = stored
    return None if declared.stored is None or others else TableLayout(first[0], declared.stored, first[1])


class TablesOfSchema(Mapping[str, tuple[str, ...]]):
    """Every table with its columns."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema

    def __getitem__(self, table: str) -> tuple[str, ...]:
        return self._schema.declarations.declared[self._schema.marked(table)].names

    def __contains__(self, table: object) -> bool:
        return isinstance(table, str) and self._schema.marked(table) in self._schema.declarations.declared

    def __iter__(self) -> Iterator[str]:
        return map(self._schema.named, self._schema.declarations.declared)

    def __len__(self) -> int:
        return len(self._schema.declarations.declared)


class Schema:
    """The tables of one file, from the rows of its own table of tables: type, name, table, root page, SQL text.

    Views, virtual tables and generated columns are left out: these run code that the file brings. `guid` is what marks
    stand for in the names of `declarations`, spelled in two ways; files that differ in it alone share these. The marks
    belong to the schema: another process, to which it may be sent, has others.
    """

    def __init__(self, declarations: Declarations, guid: tuple[str, str] | None = None) -> None:
        self.declarations, self._guid, self._marks = declarations, guid, MARKS

    @classmethod
    def of_rows(cls, rows: Sequence[Row], connect: Connect, others: KnownSchemas) -> Schema:
        return cls(Declarations.of_rows(rows, connect, others))

    @classmethod
    def of_pages(cls, pages: Pages, connect: Connect, others: KnownSchemas) -> Schema:
        """Read the schema from the pages of a file; a known one that differs by a GUID alone is used instead."""
        leaves = schema_leaves(pages)
        begins = [((page - 1) * pages.size, header) for page, header in leaves]
        raw = b"".join(pages.buffer[begin + header : begin + pages.size] for begin, header in begins)
        if (known := others.find(pages.usable, raw)) is not None:
            return known
        rows, is_whole = schema_rows(pages, leaves)
        schema = cls.of_rows(rows, connect, others)
        match = GUID.search(raw)
        if match is not None and is_whole:
            schema._add_to(others, pages.usable, raw, rows, match[0][1:].decode("ascii"))
        return schema

    def _add_to(self, others: KnownSchemas, usable: int, raw: bytes, rows: Sequence[SchemaRow], guid: str) -> None:
        """Keep the schema for files that differ by the GUID alone, unless it stands elsewhere than in names and texts,
        or there are others."""
        spelled, marked = (guid, guid.replace("_", "-")), raw
        for text, mark in zip(spelled, MARKS_IN_PAGES, strict=True):
            marked = marked.replace(text.encode("ascii"), mark)
        n_marks = sum(marked.count(mark) for mark in MARKS_IN_PAGES)
        names = [column for declared in self.declarations.declared.values() for column in declared.names]
        if n_marks != _n_times(rows, spelled) or any(text in name for name in names for text in spelled):
            return
        if not ANY_GUID.search(marked):
            own = Schema(self.declarations, (spelled[0], spelled[1]))
            others.add_whole(KnownPages(usable, marked, self.declarations.rename(own.marked)))

    def marked(self, name: str) -> str:
        """Return a name as the declarations have it."""
        if self._guid is None:
            return name
        return name.replace(self._guid[0], self._marks[0]).replace(self._guid[1], self._marks[1])

    def named(self, marked: str) -> str:
        """Return a name of the declarations as it is in the file."""
        if self._guid is None:
            return marked
        return marked.replace(self._marks[0], self._guid[0]).replace(self._marks[1], self._guid[1])

    @property
    def tables(self) -> Mapping[str, tuple[str, ...]]:
        """Return every table with its columns."""
        return TablesOfSchema(self)

    @property
    def views(self) -> frozenset[str]:
        return frozenset(map(self.named, self.declarations.views))

    @property
    def roots(self) -> dict[str, int]:
        return {self.named(name): entries[0][0] for name, entries in self.declarations.stored.items()}

    def layout(self, table: str) -> TableLayout | None:
        """Return where a table is stored; None where this cannot be told."""
        return self.declarations.layouts.get(self.marked(table))


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
    it, and in quotes: double ones where rocprofv3 has written it, single ones where we have."""
    guid = name[-GUID_LENGTH:]
    if not GUID.fullmatch(guid.encode("ascii", "replace")):
        return sql
    text, told = sql.replace(guid, "\0"), guid[1:].replace("_", "-")
    return text.replace(f'"{told}"', "\1").replace(f"'{told}'", "\2")


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
UNFINISHED = ("-wal", "-journal")  # what lies beside a file that is not complete


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
    return any(os.path.exists(really + ending) for ending in UNFINISHED)  # noqa: PTH110
