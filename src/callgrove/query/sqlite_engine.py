"""Python's own SQLite: an unnamed database in a temporary file, which the system deletes.

Which columns a query uses is read off the program that SQLite makes of it over empty tables; it makes the same one
later, since it knows nothing about the data. An authorizer is asked about everything that a statement does and denies
all but reading. (It does not hear of columns that joins have in common, so it cannot say what is used.) LIKE tells
capitals from small letters, as it does in DuckDB.
"""

from __future__ import annotations

import math
import sqlite3
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from statistics import median
from typing import Any, cast

from callgrove.errors import CallgroveError
from callgrove.model.table import Table
from callgrove.query.cells import plain_cells
from callgrove.query.engines import FETCHED, Failed, Rows, quoted, refuse
from callgrove.query.relations import Relation, Type, Wanted

__all__ = ["SqliteEngine"]

CACHE_KIB = 1 << 16
STEPS = 100_000  # of SQLite's machine, after which Python may look for an interrupt
ALLOWED = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE}
FORBIDDEN_FUNCTIONS = {"load_extension", "fts3_tokenizer"}
TYPES = {Type.INTEGER: "INTEGER", Type.REAL: "REAL", Type.TEXT: "TEXT"}
OUT_OF_ROOM = ("database or disk is full", "disk I/O error", "unable to open database file")
FUNCTIONS = {"sqrt": math.sqrt, "ln": math.log, "log2": math.log2, "log10": math.log10, "exp": math.exp}


class SqliteEngine:
    name = "sqlite"

    def __init__(self) -> None:
        self._connection = sqlite3.connect("", isolation_level=None)
        for setting in ("journal_mode=OFF", "synchronous=OFF", "temp_store=FILE", "case_sensitive_like=ON"):
            self._connection.execute(f"PRAGMA {setting}").close()
        self._connection.execute(f"PRAGMA cache_size={-CACHE_KIB}").close()
        self._connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
        if sys.version_info >= (3, 12):  # a name in double quotes that does not exist is no text
            self._connection.setconfig(sqlite3.SQLITE_DBCONFIG_DQS_DML, False)
        _add_functions(self._connection)
        self._columns: dict[str, tuple[str, ...]] = {}
        self._denied = False

    def declare(self, relations: Iterable[Relation]) -> None:
        for relation in relations:
            columns = ", ".join(f"{quoted(field.name)} {TYPES[field.type]}" for field in relation.fields)
            self._connection.execute(f"CREATE TABLE {quoted(relation.name)} ({columns})").close()
            self._columns[relation.name] = relation.names

    def uses(self, query: str) -> Mapping[str, Wanted]:
        tables = {page: name for name, page in self._connection.execute("SELECT name, rootpage FROM sqlite_master")}
        with self._reading_only():
            program = self._connection.execute(f"EXPLAIN {query}").fetchall()
        opened = {one: tables[two] for _, what, one, two, *_ in program if what == "OpenRead" and two in tables}
        found: dict[str, set[str]] = {name: set() for name in opened.values()}
        for _, what, one, two, *_ in program:
            if what in ("Column", "RowData") and one in opened:
                names = self._columns[opened[one]]
                found[opened[one]].update(names[two : two + 1] if what == "Column" else names)
        return {name: frozenset(columns) for name, columns in found.items()}

    def load(self, relation: Relation, wanted: Wanted, tables: Iterable[Table]) -> None:
        fields = [field for field in relation.fields if field.name in wanted]
        into = f"INSERT INTO {quoted(relation.name)} ({', '.join(quoted(f.name) for f in fields)})"
        statement = f"{into} VALUES ({', '.join('?' * len(fields))})"
        with _told_as_room():
            self._connection.execute("BEGIN").close()
            for table in tables:
                cells = [plain_cells(table.column(field.name), field.type) for field in fields]
                self._connection.executemany(statement, zip(*cells, strict=True)).close()
            self._connection.execute("COMMIT").close()

    def ask(self, query: str) -> tuple[Sequence[str], Rows]:
        self._connection.set_progress_handler(_go_on, STEPS)
        with self._reading_only():
            cursor = self._connection.execute(query)
        return [column[0] for column in cursor.description], self._fetch(cursor)

    def _fetch(self, cursor: sqlite3.Cursor) -> Rows:
        while True:
            with self._reading_only():
                rows = cursor.fetchmany(FETCHED)
            if not rows:
                return
            yield rows

    def close(self) -> None:
        self._connection.close()

    @contextmanager
    def _reading_only(self) -> Iterator[None]:
        self._denied = False
        self._connection.set_authorizer(self._authorise)
        try:
            with _told_as_room():
                yield
        except sqlite3.Warning as error:  # two statements, before Python 3.12
            raise refuse("there is more than one statement") from error
        except sqlite3.Error as error:
            raise self._told(error) from error
        finally:
            self._connection.set_authorizer(None)

    def _told(self, error: sqlite3.Error) -> BaseException:
        text = str(error)
        if text == "interrupted":
            return KeyboardInterrupt()
        if "one statement at a time" in text:
            return refuse("there is more than one statement")
        return refuse("that is no query") if self._denied else Failed(text)

    def _authorise(self, action: int, one: str | None, two: str | None, schema: str | None, by: str | None) -> int:
        if action in ALLOWED and not (action == sqlite3.SQLITE_FUNCTION and two in FORBIDDEN_FUNCTIONS):
            return sqlite3.SQLITE_OK
        self._denied = True
        return sqlite3.SQLITE_DENY


def _go_on() -> int:
    """Where Python sees that somebody pressed Ctrl-C; the error ends the query."""
    return 0


@contextmanager
def _told_as_room() -> Iterator[None]:
    try:
        yield
    except sqlite3.OperationalError as error:
        if str(error) in OUT_OF_ROOM:
            raise CallgroveError(
                f"the temporary database could not be written ({error}); set SQLITE_TMPDIR to a folder with more room"
            ) from error
        raise


class _Deviation:
    """stddev_samp, as DuckDB has it: NULL of less than two numbers."""

    def __init__(self) -> None:
        self._n, self._mean, self._squares = 0, 0.0, 0.0

    def step(self, value: float | None) -> None:
        if value is not None:
            self._n += 1
            delta = value - self._mean
            self._mean += delta / self._n
            self._squares += delta * (value - self._mean)

    def finalize(self) -> float | None:
        return math.sqrt(self._squares / (self._n - 1)) if self._n > 1 else None


class _Median:
    def __init__(self) -> None:
        self._values: list[float] = []

    def step(self, value: float | None) -> None:
        if value is not None:
            self._values.append(value)

    def finalize(self) -> float | None:
        return float(median(self._values)) if self._values else None


def _add_functions(connection: sqlite3.Connection) -> None:
    """What DuckDB has and SQLite may lack."""
    for name, function in FUNCTIONS.items():
        connection.create_function(name, 1, lambda x, f=function: None if x is None else f(x), deterministic=True)
    for name in ("stddev", "stddev_samp"):
        connection.create_aggregate(name, 1, cast(Any, _Deviation))
    connection.create_aggregate("median", 1, cast(Any, _Median))
