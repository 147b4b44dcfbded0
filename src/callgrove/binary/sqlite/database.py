"""A SQLite database that somebody else wrote: checked before it is opened, read-only, columns by name.

Specification: gpu-traces.md 1.1-1.3. Where nobody writes, tables are read from the file's pages (pages.py), and no
connection is made. What plan.py leaves to SQLite, SQLite reads: a whole file, a table, or a table from the row on that
could not be decoded. Views, triggers and any other SQL of the file are never run.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import weakref
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from callgrove.arrays import Array, distinct_rows
from callgrove.binary.files import ReadableBytes, open_regular, read_into
from callgrove.binary.sqlite.cells import MISSING, CellReader, Cells, Type, absent
from callgrove.binary.sqlite.connection import PrivateCopies, PrivateCopy, SqliteErrors, connect
from callgrove.binary.sqlite.pages import LAST_ROWID, Pages
from callgrove.binary.sqlite.plan import FileFacts, Slow, decode, plan, plan_table
from callgrove.binary.sqlite.records import Header
from callgrove.binary.sqlite.schema import HEADER_BYTES, KnownSchemas, Schema, header_problem, is_unfinished, quote_name
from callgrove.binary.sqlite.tables import FoundTables, PageTables, Room, TableLayout, few_rows, n_few
from callgrove.errors import CallgroveError, InputError, NotRecognised

if TYPE_CHECKING:
    from callgrove.binary.sqlite.batch import KnownTables

__all__ = [
    "CHANGED",
    "MISSING",
    "Cells",
    "SqliteCache",
    "SqliteFile",
    "Type",
    "Version",
    "totals_of",
    "version_from",
    "version_of",
]

CHUNK_ROWS = 1 << 16
FEW_ROWS = 48  # for more of them arrays pay off
SMALL_FILE = 8 << 20  # bytes that are read at once, and kept until another file is read
CHANGED = "a file that was changed"
SCHEMA = "SELECT type, name, tbl_name, rootpage, sql FROM sqlite_master"

Range = tuple[int, int] | None
Unlike = tuple[str, str] | None
Version = tuple[int, int, int]
Planned = tuple[PageTables, TableLayout]
Piece = tuple[Cells, int] | None  # cells and the last row id among them; None: no more


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
    """A database, open while it is read, as a thousand of them must not be open at once.

    `live`: another process may still be writing. Such a file stays connected, and all is read in one transaction.
    """

    path: Path
    live: bool
    cache: SqliteCache = field(default_factory=SqliteCache, repr=False)
    _connection: sqlite3.Connection | None = field(default=None, repr=False)
    _readers: int = 0
    _pages: PageTables | None = field(default=None, repr=False)
    _found_tables: FoundTables | None = field(default=None, repr=False)  # where rows stand
    _version: Version = (0, 0, 0)  # of what these two were made from
    _given: Array | None = field(default=None, repr=False)  # its bytes, where somebody else has read them
    _head: tuple[Version, bytes] | None = field(default=None, repr=False)  # its first bytes, and of which version
    _copy: PrivateCopy | None = field(default=None, repr=False)  # what is read instead, where its writer has gone
    known_tables: KnownTables | None = field(default=None, repr=False)  # of this file and those that were read with it
    _former_tables: frozenset[str] = field(default=frozenset(), repr=False)  # that it had before it was replaced

    @classmethod
    def open(cls, path: Path, cache: SqliteCache | None = None) -> SqliteFile:
        """Open a file after checking its header, and that its schema can be read. `cache` is shared by files that are
        read in a row."""
        opened = cls.unread(path, cache)
        opened.require_tables()
        return opened

    @classmethod
    def unread(cls, path: Path, cache: SqliteCache | None = None, live: bool | None = None) -> SqliteFile:
        """Open a file after checking its header alone. `live` is given where the caller knows whether it may still be
        written."""
        try:
            version, head = _read_head(path)
        except OSError as error:
            if path.exists() and not path.is_file():
                raise InputError(f"{path}: is not a regular file, so no database") from error
            raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error
        if problem := header_problem(path, head, version[0]):
            raise problem
        live = is_unfinished(path) if live is None else live
        return cls(path, live, cache or SqliteCache(), _head=(version, head))

    @property
    def latest_version(self) -> Version:
        """Return the version that the file had when somebody looked last."""
        return version_of(self.path) if self._head is None else self._head[0]

    def require_tables(self) -> None:
        if not self.tables:
            raise NotRecognised(f"{self.path}: a SQLite database without any table")

    @cached_property
    def cells(self) -> CellReader:
        return CellReader(self.path)

    @property
    def strange(self) -> Counter[str]:
        """Return how many cells of each column were not numbers."""
        return self.cells.strange

    # -- open and closed -----------------------------------------------------------------------------------------------

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Keep what is open for as long as this context lasts."""
        if not self._readers and self._is_stale():
            self.close()
            self.__dict__.pop("schema", None)
            self._former_tables |= frozenset(self.__dict__.pop("tables", ()))
        self._readers += 1
        try:
            yield
        finally:
            self._readers -= 1
            if not self._readers and not self.live:
                self._rest()

    def _is_stale(self) -> bool:
        """Return whether the file has changed since its schema or its pages were read."""
        if self.live or self._given is not None:
            return False
        is_known = "schema" in self.__dict__ or self._pages is not None or self._found_tables is not None
        return is_known and self._version != version_of(self.path)

    def is_as_read(self) -> bool:
        """Return whether the file is the one that was read last."""
        return self._given is not None or (not self.live and self._version == version_of(self.path))

    def _rest(self) -> None:
        """Give back what keeps the file open, and what the file read before still has in memory."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        if self._given is not None:
            return  # who has read it tells when it is over
        before, self.cache.latest = self.cache.latest, self
        if before is not None and before is not self and not before._readers:
            before._close_but_keep_found_tables()
        if self._version[0] > SMALL_FILE and self._pages is not None:
            found_tables = self._pages.found_tables
            self.close()
            self._found_tables, self.cache.latest = found_tables, self

    def _close_but_keep_found_tables(self) -> None:
        """Close the file, but remember where rows stand if there is room: it is likely to be read again."""
        found_tables = self._found_tables if self._pages is None else self._pages.found_tables
        self.close()
        if found_tables and found_tables.fit(self.cache.room):
            self._found_tables = found_tables

    @property
    def connection(self) -> sqlite3.Connection:
        """Return a connection of SQLite, made when it is first needed."""
        if self._connection is None:
            self._connection, self._copy = connect(self.path, self.live, self.cache.copies)
        return self._connection

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = self._pages = self._found_tables = self._given = self._copy = None
        if self.cache.latest is self:
            self.cache.latest = None

    def __getstate__(self) -> dict[str, object]:
        """Leave out what is open: a worker opens the file itself."""
        state = {name: value for name, value in self.__dict__.items() if name != "schema"}
        return {
            **state,
            "_connection": None,
            "_readers": 0,
            "_pages": None,
            "_found_tables": None,
            "_given": None,
            "_copy": None,
            "known_tables": None,
        }

    def errors(self, section: str) -> SqliteErrors:
        return SqliteErrors(self.path, section, self._find_damage)

    def _find_damage(self) -> str:
        """Return the first thing that SQLite finds wrong with the file, if any."""
        try:
            (found,) = self.connection.execute("PRAGMA quick_check(1)").fetchone()
        except (sqlite3.Error, MemoryError):
            return "damage that cannot be told"
        return "" if found == "ok" else str(found).rpartition("\n")[2]

    # -- the way to its rows -------------------------------------------------------------------------------------------

    def facts(self, version: Version) -> FileFacts:
        """Return what a plan has to know of the file, whose current version is given. A schema that was read must be of
        the same version."""
        if self.live:
            return FileFacts(obstacle="somebody may be writing")
        if "schema" in self.__dict__ and self._version != version:
            return FileFacts(obstacle=CHANGED)
        if self._head is None or self._head[0] != version:
            try:
                self._head = _read_head(self.path)
            except OSError as error:
                return FileFacts(obstacle=str(error))
        return FileFacts(self._head[1], version[0], "" if self._head[0] == version else CHANGED)

    @property
    def _tables(self) -> PageTables | Slow:
        """Return the tables as they stand in the pages of the file, if these can be decoded."""
        if self._pages is not None:
            return self._pages
        version = version_of(self.path) if self._given is None else self._version
        facts = self.facts(version)
        page_format = plan([facts])
        found_tables = self._found_tables if version == self._version else None
        if "schema" not in self.__dict__:
            self._version = version
        if isinstance(page_format, Slow):
            return page_format
        data = self._bytes(facts)
        if isinstance(data, Slow):
            return data
        self._pages = PageTables(Pages(data[0], page_format, data[1], self.cache.headers), found_tables)
        return self._pages

    def _bytes(self, facts: FileFacts) -> tuple[Array, ReadableBytes | None] | Slow:
        """Return the bytes of the file: a small one is read, as it may be changed meanwhile, others are mapped."""
        if self._given is not None:
            return self._given, None
        try:
            if facts.size <= SMALL_FILE:
                with open_regular(self.path, 0) as file:
                    data, mapped = np.fromfile(file, np.uint8), None
            else:
                mapped = ReadableBytes(self.path)
                data = mapped.array(np.uint8, mapped.size, 0, "SQLite pages")
        except (OSError, CallgroveError) as error:
            return Slow(str(error))
        return (data, mapped) if data[:HEADER_BYTES].tobytes() == facts.head else Slow(CHANGED)

    def _plan(self, table: str, unlike: Unlike = None) -> Planned | Slow:
        """Return where the rows of a table stand, if they can be decoded."""
        layout = plan_table([self.schema.layout(table)], unlike)
        if isinstance(layout, Slow):
            return layout
        tables = self._tables
        return tables if isinstance(tables, Slow) else (tables, layout)

    # -- the schema ----------------------------------------------------------------------------------------------------

    @cached_property
    def schema(self) -> Schema:
        with self.errors("sqlite_master"), self.reading():
            decoded = decode(
                self._tables, lambda tables: Schema.of_pages(tables.pages, lambda: self.connection, self.cache.schemas)
            )
            if isinstance(decoded, Slow):
                rows = self.connection.execute(SCHEMA).fetchall()
                return Schema.of_rows(rows, lambda: self.connection, self.cache.schemas)
            return decoded

    def give(self, data: Array, version: Version) -> None:
        """Use these bytes of the file, which the caller has read in this version, until it is closed."""
        self._given, self._version = data, version

    @cached_property
    def tables(self) -> Mapping[str, tuple[str, ...]]:
        """Return every stored table with its stored columns."""
        return self.schema.tables

    def has(self, table: str, *columns: str) -> bool:
        return table in self.tables and set(columns) <= set(self.tables[table])

    def root_offsets(self) -> dict[str, int]:
        """Return the offset of the first page of every table."""
        with self.errors("sqlite_master"), self.reading():
            size = int(self.connection.execute("PRAGMA page_size").fetchone()[0])
            return {name: (page - 1) * size for name, page in self.schema.roots.items()}

    # -- rows ----------------------------------------------------------------------------------------------------------

    def _has_table(self, table: str) -> bool:
        """Return whether there is such a table. One that was there is refused: who knows it, knows another file."""
        if table in self._former_tables and table not in self.tables:
            raise InputError(
                f"{self.path}: was replaced after it was opened, and has no table {table} now; open it again"
            )
        return table in self.tables

    def count(self, table: str) -> int:
        """Return the number of rows; 0 where the table is missing."""
        with self.errors(table), self.reading():
            if not self._has_table(table):
                return 0
            n_rows = decode(self._plan(table), _n_rows)
            if isinstance(n_rows, Slow):
                return int(self.connection.execute(f"SELECT count(*) FROM {quote_name(table)}").fetchone()[0])
            return n_rows

    def size_of(self, table: str) -> int:
        """Return the bytes of the pages that hold a table's rows: those of the whole file where that is not known, 0
        without the table."""
        with self.errors(table), self.reading():
            if not self._has_table(table):
                return 0
            n_bytes = decode(self._plan(table), _n_bytes)
            return self.path.stat().st_size if isinstance(n_bytes, Slow) else n_bytes

    def distinct(self, table: str, *columns: str) -> set[tuple[int, ...]]:
        """Return the different combinations of some integer columns; missing columns read as absent."""
        stored = [name for name in columns if self.has(table, name)] or columns[:1]
        combinations: set[tuple[int, ...]] = set()
        for cells in self.chunks(table, dict.fromkeys(stored, Type.INTEGER)):
            different, _ = distinct_rows(*(cells[name] for name in stored))
            of_column = dict(zip(stored, different.tolist(), strict=True))
            others = [MISSING] * different.shape[1]
            combinations |= set(zip(*(of_column.get(name, others) for name in columns), strict=True))
        return combinations

    def first_rows(self, table: str, n: int) -> list[tuple[object, ...]]:
        """Return some rows as they are stored."""
        wanted = ", ".join(map(quote_name, self.tables[table])) or "NULL"
        with self.errors(table), self.reading():
            return self.connection.execute(f"SELECT {wanted} FROM {quote_name(table)} LIMIT ?", (n,)).fetchall()

    def rows(self, table: str, columns: Sequence[str]) -> Iterator[list[tuple[object, ...]]]:
        """Yield existing columns as they are stored, some rows at a time, for callers that copy them."""
        query = f"SELECT {', '.join(map(quote_name, columns))} FROM {quote_name(table)}"
        with self.errors(table), self.reading():
            cursor = self.connection.execute(query)
            while fetched := cursor.fetchmany(CHUNK_ROWS):
                yield fetched

    def totals(self, table: str, expressions: Sequence[str]) -> Sequence[float]:
        """Compute aggregates over all rows of a table, such as `count(*)`, by SQL of our own."""
        with self.errors(table), self.reading():
            sums: tuple[float, ...] = self.connection.execute(totals_of(table, expressions)).fetchone()
            return sums

    def chunks(
        self, table: str, columns: Mapping[str, Type], between: Range = None, unlike: Unlike = None
    ) -> Iterator[Cells]:
        """Yield the columns asked for, in the order of rows, some rows at a time; missing columns read as absent.

        The column `rowid` always exists. `between` keeps row ids from the first to the last, both included. Nothing is
        given for a missing or an empty table. `unlike` leaves out rows in which a column has a certain text.
        """
        with self.errors(table), self.reading():
            if not self._has_table(table):
                return
            known = {*self.tables[table], "rowid"}
            if between is None:
                self.cells.forget(table, columns)
            if unlike is not None and unlike[0] not in known:
                unlike = None
            pieces = decode(
                self._plan(table, unlike), partial(self._page_cells, table, columns, known, between, unlike)
            )
            while not isinstance(piece := decode(pieces, _next_piece), Slow):
                if piece is None:
                    return
                cells, last = piece
                yield cells
                between = last + 1, LAST_ROWID if between is None else between[1]
            if between is None or between[0] <= between[1]:
                yield from self._sql_cells(table, columns, known, between, unlike)

    def _page_cells(
        self,
        table: str,
        columns: Mapping[str, Type],
        known: set[str],
        between: Range,
        unlike: Unlike,
        planned: Planned,
    ) -> Iterator[Piece]:
        """Yield cells from pages, and the last row id among them."""
        tables, layout = planned
        names = [name for name in columns if name in known]
        few = n_few(tables.pages, layout.root)
        if few is not None and few <= FEW_ROWS:
            rows = few_rows(tables.pages, layout, names, between, unlike)
            if rows:
                yield self.cells.of_rows(table, columns, known, rows), LAST_ROWID
            return
        for batch in tables.rows_of(layout, names, between, unlike):
            yield self.cells.of_pages(table, columns, known, batch), int(batch.rowid[-1])
            tables.pages.forget()

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
        """Return all rows at once, for small tables."""
        parts = list(self.chunks(table, columns))
        if not parts:
            return {name: absent(0, type_) for name, type_ in columns.items()}
        return parts[0] if len(parts) == 1 else {n: np.concatenate([part[n] for part in parts]) for n in columns}


def _n_rows(planned: Planned) -> int:
    tables, layout = planned
    few = n_few(tables.pages, layout.root)
    return tables.n_rows(layout.root) if few is None else few


def _n_bytes(planned: Planned) -> int:
    tables, layout = planned
    return len(tables.pages.leaves(layout.root).page) * tables.pages.size


def _next_piece(pieces: Iterator[Piece]) -> Piece:
    return next(pieces, None)


def _read_head(path: Path) -> tuple[Version, bytes]:
    """Return the version of a file, and its first bytes."""
    head = bytearray(HEADER_BYTES)
    n_read, status = read_into(path, memoryview(head))
    return version_from(status), bytes(head[:n_read])


def totals_of(table: str, expressions: Sequence[str]) -> str:
    """Return the query for aggregates over all rows of a table."""
    return f"SELECT {', '.join(expressions)} FROM {quote_name(table)}"


def version_of(path: Path) -> Version:
    """Return size, time of the last change and identity of a file; zeros if it is gone."""
    try:
        return version_from(path.stat())
    except OSError:
        return 0, 0, 0


def version_from(status: os.stat_result) -> Version:
    """Return the version that the system's answer about a file tells."""
    return status.st_size, status.st_mtime_ns, status.st_ino
