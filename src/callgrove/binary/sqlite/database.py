"""A SQLite database that somebody else wrote: checked before it is opened, read-only, columns by name.

Specification: gpu-traces.md 1.1-1.3. Where nobody writes, tables are read from the file's pages (pages.py), and no
connection is made. What is unusual there, SQLite reads, from that row on; and all of a file with a write-ahead log or a
journal beside it, which may hold committed rows. Views, triggers and any other SQL of the file are never run.
"""

from __future__ import annotations

import os
import sqlite3
import stat
import threading
import weakref
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from callgrove.arrays import Array, distinct_rows
from callgrove.binary.files import FileBytes
from callgrove.binary.sqlite.cells import MISSING, CellReader, Cells, Type, absent
from callgrove.binary.sqlite.connection import PrivateCopies, PrivateCopy, SqliteErrors, connect
from callgrove.binary.sqlite.pages import Pages, Unusual
from callgrove.binary.sqlite.records import Header
from callgrove.binary.sqlite.schema import (
    HEADER_BYTES,
    KnownSchemas,
    Schema,
    header_problem,
    is_unfinished,
    quote_name,
)
from callgrove.binary.sqlite.small_tables import few_rows, n_few
from callgrove.binary.sqlite.tables import FoundTables, PageTables, Room
from callgrove.errors import CallgroveError, InputError, NotRecognised

if TYPE_CHECKING:
    from callgrove.binary.sqlite.batch import KnownTables

__all__ = ["MISSING", "Cells", "SqliteCache", "SqliteFile", "Type", "Version", "totals_of", "version_of"]

CHUNK_ROWS = 1 << 16
FEW_ROWS = 48  # for more of them arrays pay off
SMALL_FILE = 8 << 20  # bytes that are read at once, and kept until another file is read
SCHEMA = "SELECT type, name, tbl_name, rootpage, sql FROM sqlite_master"

Range = tuple[int, int] | None
Unlike = tuple[str, str] | None
Version = tuple[int, int, int]


class SqliteCache(threading.local):
    """What is kept of databases that are read one after the other: schemas and headers of records, which are alike, the
    latest private copy, room for what was found in files, and memory to read into. Whoever opens them makes one and
    passes it in, and it is gone with them. Threads do not share it, and a process that it is sent to has an empty one.
    """

    def __init__(self) -> None:
        self.copies = PrivateCopies()
        self.schemas = KnownSchemas()
        self.headers: dict[bytes, Header] = {}
        self.room = Room()
        self.spare: Array | None = None
        self._latest: weakref.ref[SqliteFile] | None = None

    @property
    def latest(self) -> SqliteFile | None:
        """The small file that was read last: it is likely to be read again, and is open no more."""
        return None if self._latest is None else self._latest()

    @latest.setter
    def latest(self, file: SqliteFile | None) -> None:
        self._latest = None if file is None else weakref.ref(file)

    def __reduce__(self) -> tuple[type[SqliteCache], tuple[()]]:
        return SqliteCache, ()


@dataclass(eq=False)
class SqliteFile:
    """A database, open while it is read: a thousand of them must not be open at once.

    `live`: another process may still be writing. Such a file stays connected, and all is read in one transaction.
    """

    path: Path
    live: bool
    cache: SqliteCache = field(default_factory=SqliteCache, repr=False)
    _connection: sqlite3.Connection | None = field(default=None, repr=False)
    _readers: int = 0
    _pages: PageTables | None = field(default=None, repr=False)
    _found: FoundTables | None = field(default=None, repr=False)  # where rows stand
    _version: Version = (0, 0, 0)  # of what these two were made from
    _given: Array | None = field(default=None, repr=False)  # its bytes, where somebody else has read them
    _copy: PrivateCopy | None = field(default=None, repr=False)  # what is read instead, where its writer has gone
    known_tables: KnownTables | None = field(default=None, repr=False)  # of this file and those that were read with it

    @classmethod
    def open(cls, path: Path, cache: SqliteCache | None = None) -> SqliteFile:
        """Check the header, and that the schema can be read. `cache`: what files that are read in a row share."""
        opened = cls.unread(path, cache)
        opened.require_tables()
        return opened

    @classmethod
    def unread(cls, path: Path, cache: SqliteCache | None = None) -> SqliteFile:
        """Check the header alone."""
        try:
            if not stat.S_ISREG(path.stat().st_mode):  # a pipe would be waited for
                raise InputError(f"{path}: is no regular file, so no database")
            with path.open("rb", buffering=0) as file:
                head = file.read(HEADER_BYTES)
                size = os.fstat(file.fileno()).st_size
        except OSError as error:
            raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error
        if problem := header_problem(path, head, size):
            raise problem
        return cls(path, is_unfinished(path), cache or SqliteCache())

    def require_tables(self) -> None:
        if not self.tables:
            raise NotRecognised(f"{self.path}: a SQLite database without any table")

    @cached_property
    def cells(self) -> CellReader:
        return CellReader(self.path)

    @property
    def strange(self) -> Counter[str]:
        """How many cells of which column were no numbers."""
        return self.cells.strange

    # -- open and closed -----------------------------------------------------------------------------------------------

    @contextmanager
    def reading(self) -> Iterator[None]:
        """What is open stays open for as long as somebody reads."""
        known = self._given is None and (self._pages is not None or self._found is not None)
        if not self._readers and known and self._version != version_of(self.path):
            self.close()  # somebody has changed the file
            self.__dict__.pop("schema", None)
        self._readers += 1
        try:
            yield
        finally:
            self._readers -= 1
            if not self._readers and not self.live:
                self._rest()

    def _rest(self) -> None:
        """Give back what keeps the file open, and what the file read before still has in memory."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        if self._given is not None:
            return  # who has read it tells when it is over
        before, self.cache.latest = self.cache.latest, self
        if before is not None and before is not self and not before._readers:
            before._close_but_found()
        if self._version[0] > SMALL_FILE and self._pages is not None:
            found = self._pages.found
            self.close()
            self._found, self.cache.latest = found, self

    def _close_but_found(self) -> None:
        """What was found stays, where there is room for it: the file is likely to be read again."""
        found = self._found if self._pages is None else self._pages.found
        self.close()
        if found and found.fit(self.cache.room):
            self._found = found

    @property
    def connection(self) -> sqlite3.Connection:
        """SQLite's own way; made when it is needed."""
        if self._connection is None:
            self._connection, self._copy = connect(self.path, self.live, self.cache.copies)
        return self._connection

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = self._pages = self._found = self._given = self._copy = None
        if self.cache.latest is self:
            self.cache.latest = None

    def __getstate__(self) -> dict[str, object]:
        """A worker opens the file itself."""
        state = {name: value for name, value in self.__dict__.items() if name != "schema"}
        return {
            **state,
            "_connection": None,
            "_readers": 0,
            "_pages": None,
            "_found": None,
            "_given": None,
            "_copy": None,
            "known_tables": None,
        }

    def errors(self, section: str) -> SqliteErrors:
        return SqliteErrors(self.path, section)

    @property
    def _tables(self) -> PageTables:
        """The tables as they stand in the pages of the file."""
        if self.live:
            raise Unusual("somebody may be writing")
        if self._pages is None:
            version = version_of(self.path) if self._given is None else self._version
            found = self._found if version == self._version else None
            self._version = version
            self._pages = PageTables(Pages(*self._bytes(), self.cache.headers), found)
        return self._pages

    def _bytes(self) -> tuple[Array, FileBytes | None]:
        """Those of a small file in memory: it may be changed meanwhile. Those of others are mapped."""
        if self._given is not None:
            return self._given, None
        try:
            if self._version[0] <= SMALL_FILE:
                return np.fromfile(self.path, np.uint8), None
            mapped = FileBytes(self.path)
            return mapped.array(np.uint8, mapped.size, 0, "SQLite pages"), mapped
        except (OSError, CallgroveError) as error:
            raise Unusual(str(error)) from error

    # -- the schema ----------------------------------------------------------------------------------------------------

    @cached_property
    def schema(self) -> Schema:
        with self.errors("sqlite_master"), self.reading():
            try:
                return Schema.of_pages(self._tables.pages, lambda: self.connection, self.cache.schemas)
            except Unusual:
                return Schema(self.connection.execute(SCHEMA).fetchall(), lambda: self.connection, self.cache.schemas)

    def is_as_read(self, version: Version) -> bool:
        """Is the file, which has this version now, still the one whose schema was read?"""
        return not self.live and ("schema" not in self.__dict__ or self._version == version)

    def give(self, data: Array, version: Version) -> None:
        """The bytes of the file, which somebody has read since it had this version; for as long as it is not closed."""
        self._given, self._version = data, version

    @cached_property
    def tables(self) -> dict[str, tuple[str, ...]]:
        """Every table that is stored, with the columns that are."""
        return self.schema.tables

    def has(self, table: str, *columns: str) -> bool:
        return table in self.tables and set(columns) <= set(self.tables[table])

    def root_offsets(self) -> dict[str, int]:
        """Where the first page of every table lies."""
        with self.errors("sqlite_master"), self.reading():
            size = int(self.connection.execute("PRAGMA page_size").fetchone()[0])
            return {name: (page - 1) * size for name, page in self.schema.roots.items()}

    # -- rows ----------------------------------------------------------------------------------------------------------

    def count(self, table: str) -> int:
        """The number of rows; 0 where the table is missing."""
        if table not in self.tables:
            return 0
        with self.errors(table), self.reading():
            try:
                root, pages = self.schema.layout(table).root, self._tables.pages
                few = n_few(pages, root)
                return self._tables.n_rows(root) if few is None else few
            except Unusual:
                return int(self.connection.execute(f"SELECT count(*) FROM {quote_name(table)}").fetchone()[0])

    def size_of(self, table: str) -> int:
        """The bytes of the pages that hold its rows; of the whole file where nobody knows, 0 without the table."""
        if table not in self.tables:
            return 0
        with self.errors(table), self.reading():
            try:
                pages = self._tables.pages
                return len(pages.leaves(self.schema.layout(table).root).page) * pages.size
            except Unusual:
                return self.path.stat().st_size

    def distinct(self, table: str, *columns: str) -> set[tuple[int, ...]]:
        """The different combinations of some integer columns; columns that are missing read as absent."""
        if table not in self.tables:
            return set()
        found: set[tuple[int, ...]] = set()
        for cells in self.chunks(table, dict.fromkeys(columns, Type.INTEGER)):
            found |= set(zip(*distinct_rows(*(cells[name] for name in columns))[0].tolist(), strict=True))
        return found

    def first_rows(self, table: str, n: int) -> list[tuple[object, ...]]:
        """Some rows as they are stored."""
        wanted = ", ".join(map(quote_name, self.tables[table])) or "NULL"
        with self.errors(table), self.reading():
            return self.connection.execute(f"SELECT {wanted} FROM {quote_name(table)} LIMIT ?", (n,)).fetchall()

    def rows(self, table: str, columns: Sequence[str]) -> Iterator[list[tuple[object, ...]]]:
        """Columns that exist as they are stored, some rows at a time, for who copies them."""
        query = f"SELECT {', '.join(map(quote_name, columns))} FROM {quote_name(table)}"
        with self.errors(table), self.reading():
            cursor = self.connection.execute(query)
            while fetched := cursor.fetchmany(CHUNK_ROWS):
                yield fetched

    def totals(self, table: str, expressions: Sequence[str]) -> Sequence[float]:
        """Compute aggregates over all rows of a table, such as `count(*)`, by SQL of our own."""
        with self.errors(table), self.reading():
            found: tuple[float, ...] = self.connection.execute(totals_of(table, expressions)).fetchone()
            return found

    def chunks(
        self, table: str, columns: Mapping[str, Type], between: Range = None, unlike: Unlike = None
    ) -> Iterator[Cells]:
        """The columns asked for, in the order of rows, some rows at a time; missing columns read as absent.

        The column `rowid` always exists. `between` keeps row ids from the first to the last, both included. Nothing is
        given for a missing or an empty table. `unlike` leaves out rows in which a column has a certain text.
        """
        if table not in self.tables:
            return
        known = {*self.tables[table], "rowid"}
        if between is None:
            self.cells.forget(table, columns)
        if unlike is not None and unlike[0] not in known:
            unlike = None
        last: int | None = None
        with self.errors(table), self.reading():
            try:
                for cells, reached in self._page_cells(table, columns, known, between, unlike):
                    yield cells
                    last = reached
                    self._tables.pages.forget()
            except Unusual:
                if last is not None:
                    low, high = between or (-(2**63), 2**63 - 1)
                    between = max(low, last + 1), high
                if between is None or between[0] <= between[1]:
                    yield from self._sql_cells(table, columns, known, between, unlike)

    def _page_cells(
        self, table: str, columns: Mapping[str, Type], known: set[str], between: Range, unlike: Unlike
    ) -> Iterator[tuple[Cells, int]]:
        """Cells from pages, and the last row id among them."""
        layout, tables = self.schema.layout(table), self._tables
        names = [name for name in columns if name in known]
        if not {*names, *(unlike or ())[:1]} <= set(layout.columns):
            raise Unusual("a column that is not stored")
        few = n_few(tables.pages, layout.root)
        if few is not None and few <= FEW_ROWS:
            rows = few_rows(tables.pages, layout, names, between, unlike)
            if rows:
                yield self.cells.of_rows(table, columns, known, rows), 2**63 - 1
            return
        for found in tables.rows_of(layout, names, between, unlike):
            yield self.cells.of_pages(table, columns, known, found), int(found.rowid[-1])

    def _sql_cells(
        self, table: str, columns: Mapping[str, Type], known: set[str], between: Range, unlike: Unlike
    ) -> Iterator[Cells]:
        wanted = ", ".join(
            quote_name(name) if name in self.tables[table] else name for name in columns if name in known
        )
        conditions: list[tuple[str, Sequence[int | str]]] = []
        if between is not None:
            conditions.append(("rowid BETWEEN ? AND ?", between))
        if unlike is not None:
            conditions.append((f"{quote_name(unlike[0])} IS NOT ?", unlike[1:]))
        where = " AND ".join(condition for condition, _ in conditions) or "TRUE"
        query = f"SELECT {wanted or 'NULL'} FROM {quote_name(table)} WHERE {where} ORDER BY rowid"
        cursor = self.connection.execute(query, [value for _, values in conditions for value in values])
        while fetched := cursor.fetchmany(CHUNK_ROWS):
            yield self.cells.of_rows(table, columns, known, fetched)

    def table(self, table: str, columns: Mapping[str, Type]) -> Cells:
        """All rows at once, for the small tables."""
        parts = list(self.chunks(table, columns))
        if not parts:
            return {name: absent(0, type_) for name, type_ in columns.items()}
        return parts[0] if len(parts) == 1 else {n: np.concatenate([part[n] for part in parts]) for n in columns}


def totals_of(table: str, expressions: Sequence[str]) -> str:
    """Return the query for aggregates over all rows of a table."""
    return f"SELECT {', '.join(expressions)} FROM {quote_name(table)}"


def version_of(path: Path) -> Version:
    """Size, time of the last change and identity of a file; of one that is gone, none."""
    try:
        found = path.stat()
    except OSError:
        return 0, 0, 0
    return found.st_size, found.st_mtime_ns, found.st_ino
