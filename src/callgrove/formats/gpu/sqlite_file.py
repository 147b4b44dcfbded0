"""A SQLite database that somebody else wrote: checked before it is opened, read-only, columns by name.

Specification: gpu-traces.md 1.1-1.3. Deviations that real files show:

    a write-ahead log beside the file      it may hold committed rows, so the file is not opened as immutable
    columns that are missing               they read as absent
    '' or text in a column of numbers      absent, and counted
    text that is not UTF-8                 decoded with replacement characters

Views, triggers and any other SQL of the file are never run. Where nobody writes, tables are read from the file's pages
(pages.py); what is unusual there, SQLite reads, from that row on.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from functools import cached_property
from pathlib import Path
from urllib.parse import quote

import numpy as np

from callgrove.binary.filebytes import FileBytes
from callgrove.errors import CorruptFile, InputError, NotRecognised
from callgrove.formats.gpu.pages import Pages, Unusual
from callgrove.formats.gpu.pages_tables import PageRows, TableLayout, layout_of, rows_of
from callgrove.model.arrays import Array, Floats, Ints
from callgrove.model.grouping import distinct

__all__ = ["MISSING", "Cells", "SqliteFile", "Type", "header_problem", "is_unfinished"]

MAGIC = b"SQLite format 3\0"
HEADER_BYTES = 100
CHUNK_ROWS = 1 << 16
FEW_PAGES = 4  # SQLite is faster with a table of fewer
SECONDS_TO_WAIT = 0.2  # for the lock of a writer
MISSING = int(np.iinfo(np.int64).min)  # an absent integer; no time, size or id is that small

Cells = Mapping[str, Array]


class Type(Enum):
    """How the cells of a column are wanted: int64 with `MISSING`, float64 with NaN, or objects that are str or None.

    A TIME is an integer, or text like `2024-09-27 10:00:00` (UTC), which becomes nanoseconds since the epoch; a column
    with both is damaged, because nobody knows what its integers count from.
    """

    INTEGER = "integer"
    REAL = "real"
    TEXT = "text"
    TIME = "time"


def header_problem(path: Path, head: bytes, size: int) -> InputError | None:
    """What is wrong with a file that should be a database, as far as its first 100 bytes show."""
    if not size:
        return InputError(f"{path}: the file is empty")
    if head.startswith(b"version https://git-lfs"):
        return NotRecognised(f"{path}: a Git LFS pointer, not the data; fetch the real file with `git lfs pull`")
    if head and not any(head):
        return CorruptFile(
            path, "SQLite header", offset=0, expected="a database", found="zeros: the export was interrupted"
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
        )
    return None


def is_unfinished(path: Path) -> bool:
    """Is there a write-ahead log or a journal, so that the file alone is not all?"""
    really = path.resolve()  # SQLite looks beside the file that a link leads to
    return any(really.with_name(really.name + suffix).exists() for suffix in ("-wal", "-journal"))


@dataclass
class SqliteFile:
    """A database, connected to while it is read: a thousand of them must not be open at once.

    `live`: another process may still be writing. Such a file stays connected, and all is read in one transaction.
    """

    path: Path
    live: bool
    strange: Counter[str] = field(default_factory=Counter)  # "table.column" -> cells that were no numbers
    _connection: sqlite3.Connection | None = field(default=None, repr=False)
    _readers: int = 0
    _textual: set[bool] = field(default_factory=set)  # whether times were seen that are text, or numbers
    _pages: Pages | None = field(default=None, repr=False)
    _layouts: dict[str, TableLayout] = field(default_factory=dict, repr=False)

    @classmethod
    def open(cls, path: Path) -> SqliteFile:
        """Check the header, and that SQLite can read the schema."""
        try:
            if path.exists() and not path.is_file():
                raise InputError(f"{path}: is no regular file, so no database")
            with path.open("rb") as file:
                head = file.read(HEADER_BYTES)
            size = path.stat().st_size
        except OSError as error:
            raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error
        if problem := header_problem(path, head, size):
            raise problem
        opened = cls(path, is_unfinished(path))
        if not opened.tables:
            raise NotRecognised(f"{path}: a SQLite database without any table")
        return opened

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """A connection for as long as somebody reads."""
        if self._connection is None:
            self._connection = self._connect()
        self._readers += 1
        try:
            yield self._connection
        finally:
            self._readers -= 1
            if not self._readers and not self.live:
                self.close()

    def _connect(self) -> sqlite3.Connection:
        uri = f"file:{quote(str(self.path.resolve()))}?mode=ro{'' if self.live else '&immutable=1'}"
        with self.errors("opening"):
            connection = sqlite3.connect(uri, SECONDS_TO_WAIT, uri=True, isolation_level=None, check_same_thread=False)
            connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
            for pragma in ("trusted_schema=OFF", "query_only=ON", "cell_size_check=ON"):
                connection.execute(f"PRAGMA {pragma}")
            connection.execute("BEGIN")
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        return connection

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = self._pages = None

    def __getstate__(self) -> dict[str, object]:
        """A worker makes its own connection."""
        return {**self.__dict__, "_connection": None, "_readers": 0, "_pages": None}

    def errors(self, section: str) -> _Errors:
        return _Errors(self.path, section)

    @cached_property
    def tables(self) -> dict[str, tuple[str, ...]]:
        """Every table that is stored, with the columns that are. Views, virtual tables and generated columns are not:
        these run code that the file brings."""
        with self.errors("sqlite_master"), self.reading() as connection:
            names = [
                name
                for (name,) in connection.execute(
                    "SELECT name FROM sqlite_master WHERE type = 'table' AND rootpage > 0"
                    " AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
                )
                if isinstance(name, str)
            ]
            return {
                name: tuple(
                    str(row[1]) for row in connection.execute(f"PRAGMA table_xinfo({quoted(name)})") if not row[6]
                )
                for name in names
            }

    def has(self, table: str, *columns: str) -> bool:
        return table in self.tables and set(columns) <= set(self.tables[table])

    def count(self, table: str) -> int:
        """The number of rows; 0 where the table is missing."""
        if table not in self.tables:
            return 0
        with self.errors(table), self.reading() as connection:
            try:
                return self._from_pages.n_rows(self._from_pages.leaves(self._layout(table).root))
            except Unusual:
                return int(connection.execute(f"SELECT count(*) FROM {quoted(table)}").fetchone()[0])

    @property
    def _from_pages(self) -> Pages:
        """The pages of the file, for as long as somebody reads."""
        if self.live:
            raise Unusual("somebody may be writing")
        if self._pages is None:
            self._pages = Pages(FileBytes(self.path))
        return self._pages

    def _layout(self, table: str) -> TableLayout:
        if table not in self._layouts:
            with self.reading() as connection:
                self._layouts[table] = layout_of(connection, table)
        return self._layouts[table]

    def distinct(self, table: str, *columns: str) -> set[tuple[int, ...]]:
        """The different combinations of some integer columns; columns that are missing read as absent."""
        if table not in self.tables:
            return set()
        found: set[tuple[int, ...]] = set()
        for cells in self.chunks(table, dict.fromkeys(columns, Type.INTEGER)):
            found |= set(zip(*distinct(*(cells[name] for name in columns))[0].tolist(), strict=True))
        return found

    def root_offsets(self) -> dict[str, int]:
        """Where the first page of every table lies."""
        with self.errors("sqlite_master"), self.reading() as connection:
            size = int(connection.execute("PRAGMA page_size").fetchone()[0])
            pages = connection.execute("SELECT name, rootpage FROM sqlite_master WHERE type = 'table'")
            return {name: (page - 1) * size for name, page in pages if name in self.tables}

    def first_rows(self, table: str, n: int) -> list[tuple[object, ...]]:
        """Some rows as they are stored."""
        wanted = ", ".join(map(quoted, self.tables[table])) or "NULL"
        with self.errors(table), self.reading() as connection:
            return connection.execute(f"SELECT {wanted} FROM {quoted(table)} LIMIT ?", (n,)).fetchall()

    def rows(self, table: str, columns: Sequence[str]) -> Iterator[list[tuple[object, ...]]]:
        """Columns that exist as they are stored, some rows at a time, for who copies them."""
        query = f"SELECT {', '.join(map(quoted, columns))} FROM {quoted(table)}"
        with self.errors(table), self.reading() as connection:
            cursor = connection.execute(query)
            while fetched := cursor.fetchmany(CHUNK_ROWS):
                yield fetched

    def chunks(
        self,
        table: str,
        columns: Mapping[str, Type],
        between: tuple[int, int] | None = None,
        unlike: tuple[str, str] | None = None,
    ) -> Iterator[Cells]:
        """The columns asked for, in the order of rows, some rows at a time; missing columns read as absent.

        The column `rowid` always exists. `between` keeps row ids from the first to the last, both included. Nothing is
        given for a missing or an empty table. `unlike` leaves out rows in which a column has a certain text.
        """
        if table not in self.tables:
            return
        if between is None:
            for name in columns:  # who reads a table again counts again
                self.strange.pop(f"{table}.{name}", None)
        last: int | None = None
        with self.errors(table), self.reading():
            try:
                for rows in self._page_rows(table, columns, between, unlike):
                    yield self._page_cells(table, columns, rows)
                    last = int(rows.rowid[-1])
                    self._from_pages.file.forget()
            except Unusual:
                if last is not None:
                    low, high = between or (-(2**63), 2**63 - 1)
                    between = max(low, last + 1), high
                if between is None or between[0] <= between[1]:
                    yield from self._sql_cells(table, columns, between, unlike)

    def _page_rows(
        self,
        table: str,
        columns: Mapping[str, Type],
        between: tuple[int, int] | None,
        unlike: tuple[str, str] | None,
    ) -> Iterator[PageRows]:
        layout, there = self._layout(table), {*self.tables[table], "rowid"}
        if unlike is not None and unlike[0] not in there:
            unlike = None
        known = [name for name in columns if name in there]
        if not {*known, *(unlike or ())[:1]} <= set(layout.columns):
            raise Unusual("a column that is not stored")
        if len(self._from_pages.leaves(layout.root).page) < FEW_PAGES:
            raise Unusual("a small table")
        yield from rows_of(self._from_pages, layout, known, between, unlike)

    def _page_cells(self, table: str, columns: Mapping[str, Type], rows: PageRows) -> Cells:
        known = {*self.tables[table], "rowid"}
        out: dict[str, Array] = {}
        for name, type_ in columns.items():
            place = f"{table}.{name}"
            if name not in known:
                out[name] = _absent(len(rows), type_)
            elif type_ is Type.TEXT or (type_ is Type.TIME and rows.kinds(name)[0]):
                out[name] = self._typed(place, rows.objects(name), type_)
            elif type_ is Type.REAL:
                out[name], other = rows.reals(name)
                if len(other):
                    out[name][other] = self._reals(place, rows.objects(name, other))
            else:
                if type_ is Type.TIME and rows.kinds(name)[1]:
                    self._note_times(table, {False})
                out[name], other = rows.integers(name, MISSING)
                if len(other):
                    out[name] = out[name].copy()
                    out[name][other] = self._integers(place, rows.objects(name, other))
        return out

    def _sql_cells(
        self,
        table: str,
        columns: Mapping[str, Type],
        between: tuple[int, int] | None,
        unlike: tuple[str, str] | None,
    ) -> Iterator[Cells]:
        known = {*self.tables[table], "rowid"}
        wanted = ", ".join(quoted(name) if name in self.tables[table] else name for name in columns if name in known)
        conditions: list[tuple[str, Sequence[int | str]]] = []
        if between is not None:
            conditions.append(("rowid BETWEEN ? AND ?", between))
        if unlike is not None and unlike[0] in known:
            conditions.append((f"{quoted(unlike[0])} IS NOT ?", unlike[1:]))
        where = " AND ".join(condition for condition, _ in conditions) or "TRUE"
        query = f"SELECT {wanted or 'NULL'} FROM {quoted(table)} WHERE {where} ORDER BY rowid"
        with self.reading() as connection:
            cursor = connection.execute(query, [value for _, values in conditions for value in values])
            while fetched := cursor.fetchmany(CHUNK_ROWS):
                yield self._cells(table, columns, known, fetched)

    def _cells(
        self, table: str, columns: Mapping[str, Type], known: set[str], fetched: Sequence[tuple[object, ...]]
    ) -> Cells:
        given = iter(zip(*fetched, strict=True))
        out: dict[str, Array] = {}
        for name, type_ in columns.items():
            if name in known:
                out[name] = self._typed(f"{table}.{name}", next(given), type_)
            else:
                out[name] = _absent(len(fetched), type_)
        return out

    def _typed(self, place: str, cells: Sequence[object], type_: Type) -> Array:
        if type_ is Type.TEXT:
            out = np.empty(len(cells), object)
            out[:] = [_text(cell) for cell in cells]
            return out
        if type_ is Type.REAL:
            return self._reals(place, cells)
        if type_ is Type.TIME:
            return self._times(place, cells)
        return self._integers(place, cells)

    def _integers(self, place: str, cells: Sequence[object]) -> Ints:
        if set(map(type, cells)) <= {int}:  # NumPy would also make numbers of other things
            return np.fromiter(cells, np.int64, len(cells))
        return np.array([self._integer(place, cell) for cell in cells], np.int64)

    def _times(self, place: str, cells: Sequence[object]) -> Ints:
        known = {isinstance(cell, str) for cell in cells if cell is not None}
        self._note_times(place.partition(".")[0], known)
        if True not in known:
            return self._integers(place, cells)
        return np.array([self._date(place, cell) for cell in cells], np.int64)

    def _note_times(self, table: str, known: set[bool]) -> None:
        """Whether times were met that are text, or that are not; never both."""
        if len(known | self._textual) > 1:
            raise CorruptFile(
                self.path, table, expected="times that are all numbers, or all dates", found="both in one file"
            )
        self._textual |= known

    def _date(self, place: str, cell: object) -> int:
        if cell is None:
            return MISSING
        try:
            when = datetime.fromisoformat(str(cell))
        except ValueError:
            self.strange[place] += 1
            return MISSING
        when = when if when.tzinfo else when.replace(tzinfo=UTC)
        since = when - datetime(1970, 1, 1, tzinfo=UTC)
        return (since.days * 86_400 + since.seconds) * 1_000_000_000 + since.microseconds * 1000

    def _integer(self, place: str, cell: object) -> int:
        if cell is None or cell == "":
            return MISSING
        if isinstance(cell, int):
            return cell
        number = _number(cell)
        if number is None or not -(2.0**63) < number < 2.0**63:
            self.strange[place] += 1
            return MISSING
        return int(number)

    def _reals(self, place: str, cells: Sequence[object]) -> Floats:
        if set(map(type, cells)) <= {float}:
            return np.fromiter(cells, np.float64, len(cells))
        out = np.full(len(cells), np.nan)
        for k, cell in enumerate(cells):
            number = _number(cell)
            if number is not None:
                out[k] = number
            elif cell is not None and cell != "":
                self.strange[place] += 1
        return out

    def table(self, table: str, columns: Mapping[str, Type]) -> Cells:
        """All rows at once, for the small tables."""
        parts = list(self.chunks(table, columns))
        if not parts:
            return {name: _absent(0, type_) for name, type_ in columns.items()}
        return {name: np.concatenate([part[name] for part in parts]) for name in columns}


class _Errors:
    """SQLite's errors inside become ours: they name the file and the table."""

    def __init__(self, path: Path, section: str) -> None:
        self._path, self._section = path, section

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, sqlite3.OperationalError) and "locked" in str(error):
            raise InputError(
                f"{self._path}: {self._section}: another process has locked it; wait until it has finished"
            ) from error
        if isinstance(error, sqlite3.Error | UnicodeDecodeError):  # the second: of SQLite's own message
            raise CorruptFile(
                self._path, self._section, expected="a readable database", found=f"SQLite says: {error}"
            ) from error


def quoted(name: str) -> str:
    """A name of the file's schema inside an SQL text."""
    return '"' + name.replace('"', '""') + '"'


def _absent(n: int, type_: Type) -> Array:
    """A column of a table that does not have it."""
    if type_ is Type.TEXT:
        return np.full(n, None, object)
    return np.full(n, np.nan) if type_ is Type.REAL else np.full(n, MISSING)


def _text(cell: object) -> str | None:
    if cell is None or isinstance(cell, str):
        return cell
    return cell.decode("utf-8", "replace") if isinstance(cell, bytes) else str(cell)


def _number(cell: object) -> float | None:
    try:
        return float(cell) if isinstance(cell, int | float | str) else None
    except ValueError:
        return None
