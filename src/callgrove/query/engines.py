"""The engines that run queries: Python's own SQLite, and DuckDB with the extra `sql`.

Which columns a query uses is read off the program that SQLite makes of it over empty tables; it makes the same one
later, since it knows nothing about the data. An authorizer is asked about everything that a statement does and denies
all but reading. (It does not hear of columns that joins have in common, so it cannot say what is used.) LIKE tells
capitals from small letters, as it does in DuckDB.
"""

from __future__ import annotations

import json
import math
import re
import sqlite3
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from shutil import rmtree
from statistics import median
from tempfile import mkdtemp
from time import monotonic
from typing import Any, cast
from weakref import finalize

import numpy as np

from callgrove.errors import CallgroveError, MissingExtra
from callgrove.model.table import Table
from callgrove.query.relations import (
    FETCHED,
    Failed,
    Field,
    Relation,
    Rows,
    Type,
    Wanted,
    codes_and_texts,
    numbers_and_nulls,
    plain_cells,
    quote,
    refuse,
    too_slow,
)

__all__ = ["DuckdbEngine", "SqliteEngine"]


CACHE_KIB = 1 << 16
STEPS = 100_000  # of SQLite's machine, after which Python may look for an interrupt
MOST_CHARACTERS = 1 << 16  # that a function makes of a short text
LONGEST_TEXT = 1 << 24  # bytes of one text or blob: what makes longer ones takes no notice of time while it does
ALLOWED = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE}
FORBIDDEN_FUNCTIONS = {"load_extension", "fts3_tokenizer"}
SQLITE_TYPES = {Type.INTEGER: "INTEGER", Type.REAL: "REAL", Type.TEXT: "TEXT"}
OUT_OF_ROOM = ("database or disk is full", "disk I/O error", "unable to open database file")
FIELD = re.compile(
    r"%[-+ #0,!]*(\*|\d{0,18})(?:\.(\*|\d{0,18}))?\d*l{0,2}(.)", re.ASCII | re.DOTALL
)  # of SQLite's printf
FUNCTIONS = {"sqrt": math.sqrt, "ln": math.log, "log2": math.log2, "log10": math.log10, "exp": math.exp}


class SqliteEngine:
    name = "sqlite"

    def __init__(self) -> None:
        self.seconds: float | None = None
        self._deadline = math.inf
        self._connection = sqlite3.connect("", isolation_level=None)
        for setting in ("journal_mode=OFF", "synchronous=OFF", "temp_store=FILE", "case_sensitive_like=ON"):
            self._connection.execute(f"PRAGMA {setting}").close()
        self._connection.execute(f"PRAGMA cache_size={-CACHE_KIB}").close()
        self._connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
        self._connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST_TEXT)
        if sys.version_info >= (3, 12):  # a name in double quotes that does not exist is not text
            self._connection.setconfig(sqlite3.SQLITE_DBCONFIG_DQS_DML, False)
        _add_functions(self._connection)
        self._refused = ""  # why, by a function of ours: SQLite would only say that one raised something
        self._plain = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        self._plain.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST_TEXT)
        for name in ("printf", "format"):
            self._connection.create_function(name, -1, self._print_formatted, deterministic=True)
        self._columns: dict[str, tuple[str, ...]] = {}
        self._denied = False

    def declare(self, relations: Iterable[Relation]) -> None:
        for relation in relations:
            columns = ", ".join(f"{quote(field.name)} {SQLITE_TYPES[field.type]}" for field in relation.fields)
            self._connection.execute(f"CREATE TABLE {quote(relation.name)} ({columns})").close()
            self._columns[relation.name] = relation.names

    def uses(self, query: str) -> Mapping[str, Wanted]:
        tables = {page: name for name, page in self._connection.execute("SELECT name, rootpage FROM sqlite_master")}
        with self._reading_only():
            program = self._connection.execute(f"EXPLAIN {query}").fetchall()
        opened = {one: tables[two] for _, what, one, two, *_ in program if what == "OpenRead" and two in tables}
        columns_of: dict[str, set[str]] = {name: set() for name in opened.values()}
        for _, what, one, two, *_ in program:
            if what in ("Column", "RowData") and one in opened:
                names = self._columns[opened[one]]
                columns_of[opened[one]].update(names[two : two + 1] if what == "Column" else names)
        return {name: frozenset(columns) for name, columns in columns_of.items()}

    def load(self, relation: Relation, wanted: Wanted, tables: Iterable[Table]) -> None:
        fields = [field for field in relation.fields if field.name in wanted]
        into = f"INSERT INTO {quote(relation.name)} ({', '.join(quote(f.name) for f in fields)})"
        statement = f"{into} VALUES ({', '.join('?' * len(fields))})"
        with _report_lack_of_room():
            self._connection.execute("BEGIN").close()
            for table in tables:
                cells = [plain_cells(table.column(field.name), field.type) for field in fields]
                self._connection.executemany(statement, zip(*cells, strict=True)).close()
            self._connection.execute("COMMIT").close()

    def ask(self, query: str) -> tuple[Sequence[str], Rows]:
        self._deadline = math.inf if self.seconds is None else monotonic() + self.seconds
        self._connection.set_progress_handler(self._is_late, STEPS)
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
        self._plain.close()

    def _print_formatted(self, *given: Any) -> Any:
        """Format values as SQLite's own printf does, but refuse wide fields: it hears of no interrupt while it fills
        them, and gives NULL in the end."""
        if given and isinstance(given[0], str) and (width := _find_widest(given[0], given[1:])) > MOST_CHARACTERS:
            self._refused = f"printf makes fields of at most {MOST_CHARACTERS:,} characters, not {width:,}"
            raise ValueError(self._refused)
        return self._plain.execute(f"SELECT printf({', '.join('?' * len(given))})", given).fetchone()[0]

    @contextmanager
    def _reading_only(self) -> Iterator[None]:
        self._denied, self._refused = False, ""
        self._connection.set_authorizer(self._authorise)
        try:
            with _report_lack_of_room():
                yield
        except sqlite3.Warning as error:  # two statements, before Python 3.12
            raise refuse("there is more than one statement") from error
        except sqlite3.Error as error:
            raise self._translate_error(error) from error
        finally:
            self._connection.set_authorizer(None)

    def _translate_error(self, error: sqlite3.Error) -> BaseException:
        text = str(error)
        if text == "interrupted":
            return too_slow(self.seconds) if self._is_late() else KeyboardInterrupt()
        if "one statement at a time" in text:
            return refuse("there is more than one statement")
        return refuse("that is not a query") if self._denied else Failed(self._refused or text)

    def _is_late(self) -> bool:
        """Return whether a query has to end. While it runs, Python sees here that somebody pressed Ctrl-C."""
        return monotonic() > self._deadline

    def _authorise(self, action: int, one: str | None, two: str | None, schema: str | None, by: str | None) -> int:
        if action in ALLOWED and not (action == sqlite3.SQLITE_FUNCTION and two in FORBIDDEN_FUNCTIONS):
            return sqlite3.SQLITE_OK
        self._denied = True
        return sqlite3.SQLITE_DENY


def _find_widest(text: str, values: Sequence[Any]) -> int:
    """Return the largest width or precision of a format's fields, which may be among the values."""
    left = iter(values)
    widest = 0
    for *sizes, kind in FIELD.findall(text):
        widest = max(widest, *(_leading_number(next(left, 0)) if size == "*" else int(size or 0) for size in sizes))
        if kind not in "%n":
            next(left, None)
    return widest


def _leading_number(value: Any) -> int:
    """Return the size of an integer as SQLite takes it from any value."""
    if isinstance(value, float):
        return int(min(abs(value), 1e18)) if value == value else 0
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    number = re.match(r"\s*[-+]?(\d{1,18})", str(value), re.ASCII)
    return int(number[1]) if number else 0


@contextmanager
def _report_lack_of_room() -> Iterator[None]:
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
    """Add functions that DuckDB has and SQLite may lack."""
    for name, function in FUNCTIONS.items():
        connection.create_function(name, 1, lambda x, f=function: None if x is None else f(x), deterministic=True)
    for name in ("stddev", "stddev_samp"):
        connection.create_aggregate(name, 1, cast(Any, _Deviation))
    connection.create_aggregate("median", 1, cast(Any, _Median))


# -- DuckDB ------------------------------------------------------------------------------------------------------------
# Tables are in memory as far as a limit allows, beyond that in a temporary folder, deleted at the end.
#
# Which columns a query uses is read off its plan over empty tables, made with no optimiser but the one that drops
# unused columns. Before the query runs, the engine is told to open no other file, and its configuration is locked.
#
# Arithmetic is SQLite's: 5 / 2 is 2, nothing comes of dividing by zero, and NULL comes before all else.
#
# A function that makes long texts or lists of little hears of no interrupt before it is done, and its memory does not
# count for the limit; up to 2,048 rows are computed at once. Macros of the same names, made where a query has them, say
# how long one may get. (In FROM, range and generate_series are other functions, which make rows a few at a time.)


MEMORY = "512MB"
BATCH_ROWS = 1 << 19
PRAGMA = re.compile(r"\s*PRAGMA\b", re.IGNORECASE)  # DuckDB 1.2 takes some for the SELECT that it makes of them
DUCKDB_TYPES = {Type.INTEGER: "BIGINT", Type.REAL: "DOUBLE", Type.TEXT: "VARCHAR"}
LIKE_SQLITE = {  # not every version has all of them
    "integer_division": "true",
    "ieee_floating_point_ops": "false",
    "error_on_division_by_zero": "false",
    "default_null_order": "'nulls_first_on_asc_last_on_desc'",
}
MOST_ITEMS = 1 << 13
TEXT_OR_LIST = f"CASE WHEN typeof(x) LIKE '%]' THEN {MOST_CHARACTERS // MOST_ITEMS} ELSE 1 END"
STEPS_BETWEEN = (  # of numbers, else of times
    "coalesce((try_cast(n::VARCHAR AS HUGEINT) - try_cast(a::VARCHAR AS HUGEINT))"
    " / nullif(try_cast(s::VARCHAR AS HUGEINT), 0),"
    " (epoch_us(try_cast(n::VARCHAR AS TIMESTAMP)) - epoch_us(try_cast(a::VARCHAR AS TIMESTAMP)))"
    " / nullif(1e6 * epoch(try_cast(s::VARCHAR AS INTERVAL)), 0))"
)
COUNTED = (("n", "n"), ("a, n", "n::HUGEINT - a"), ("a, n, s", STEPS_BETWEEN))
RESIZED = (("x, n", "n"), ("x, n, y", "n"))
# parameters, of which n says how many; how many items that makes
BOUNDED: Mapping[str, Sequence[tuple[str, str]]] = {
    "repeat": (("x, n", f"len(x)::HUGEINT * n * {TEXT_OR_LIST}"),),
    "lpad": (("x, n, y", "n"),),
    "rpad": (("x, n, y", "n"),),
    "range": COUNTED,
    "generate_series": COUNTED,
    "list_resize": RESIZED,
    "array_resize": RESIZED,
}
FORMATS = {"printf", "format"}
MOST_FORMATTED = 16  # values that a format takes
TOO_WIDE = r"%[-+ #0-9.,]*(\*|[0-9]{5,})|\{[^}]*:[^}]*([0-9]{5,}|\{)"
COUNT_TYPES = {"repeat": "BIGINT", "lpad": "INTEGER", "rpad": "INTEGER"}  # of n, where it has one only
SAFE = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "python_enable_replacements": "false",
    "enable_external_access": "false",
    "lock_configuration": "true",
}


@contextmanager
def _hear_ctrl_c() -> Iterator[None]:
    """Raise KeyboardInterrupt where DuckDB says of Ctrl-C in a RuntimeError, as it does while it answers something
    short."""
    try:
        yield
    except RuntimeError as error:
        if "interrupted" in str(error):
            raise KeyboardInterrupt from error
        raise


class DuckdbEngine:
    name = "duckdb"

    @_hear_ctrl_c()
    def __init__(self) -> None:
        self.seconds: float | None = None
        self._deadline = math.inf
        try:
            import duckdb
            import pyarrow
        except ImportError:
            raise MissingExtra("sql", "the engine duckdb") from None
        self._duckdb, self._arrow = duckdb, pyarrow
        folder = Path(mkdtemp(prefix="callgrove-sql-"))
        self._connection = duckdb.connect(
            ":memory:", config={"memory_limit": MEMORY, "temp_directory": str(folder / "spilled")}
        )
        if self._has_progress_bar():  # in notebooks without ipywidgets, where there is none, setting it is an error
            self._connection.execute("SET enable_progress_bar = false")  # it would go to stdout
        self._end = finalize(self, _delete, self._connection, folder)  # also where nobody closes it
        for name, value in LIKE_SQLITE.items():
            self._set_if_known(name, value)
        self._tables: set[str] = set()

    def _bound(self, name: str) -> None:
        """Let a function refuse to make what is too long. Its argument does so: conditions do not keep DuckDB from
        computing what is constant."""
        said, most = (
            (f"{MOST_CHARACTERS:,} characters, or {MOST_ITEMS:,} items of a list", MOST_CHARACTERS)
            if name in COUNT_TYPES
            else (f"{MOST_ITEMS:,} items of a list", MOST_ITEMS)
        )
        ways = []
        for parameters, length in BOUNDED[name]:
            n = f"(CASE WHEN {length} > {most} THEN error('{name} makes at most {said}') ELSE n END)"
            typed = f"{n}::{COUNT_TYPES[name]}" if name in COUNT_TYPES else n
            arguments = ", ".join(typed if parameter == "n" else parameter for parameter in parameters.split(", "))
            ways.append(f"({parameters}) AS system.main.{name}({arguments})")
        self._connection.execute(f"CREATE MACRO {name}{', '.join(ways)}")

    def _bound_format(self, name: str) -> None:
        """Let a function that formats values refuse wide fields."""
        error = f"error('{name} makes fields of at most 9,999 characters, whose width stands in the format')"
        checked = f"CASE WHEN regexp_matches(f, '{TOO_WIDE}') THEN {error} ELSE f END"
        values = [[f"v{k}" for k in range(n)] for n in range(MOST_FORMATTED + 1)]
        ways = [f"({', '.join(['f', *v])}) AS system.main.{name}({', '.join([checked, *v])})" for v in values]
        self._connection.execute(f"CREATE MACRO {name}{', '.join(ways)}")

    def _has_progress_bar(self) -> bool:
        setting = self._connection.execute("SELECT current_setting('enable_progress_bar')").fetchone()
        return bool(setting and setting[0])

    def _set_if_known(self, name: str, value: str) -> None:
        known = self._connection.execute("SELECT count(*) FROM duckdb_settings() WHERE name = ?", [name]).fetchone()
        if known is not None and known[0]:
            self._connection.execute(f"SET {name} = {value}")

    @_hear_ctrl_c()
    def declare(self, relations: Iterable[Relation]) -> None:
        self._connection.execute("BEGIN")  # one commit for all
        for relation in relations:
            columns = ", ".join(f"{quote(field.name)} {DUCKDB_TYPES[field.type]}" for field in relation.fields)
            self._connection.execute(f"CREATE TABLE {quote(relation.name)} ({columns})")
            self._tables.add(relation.name)
        self._connection.execute("COMMIT")

    @_hear_ctrl_c()
    def uses(self, query: str) -> Mapping[str, Wanted]:
        connection = self._connection
        words = set(re.findall(r"\w+", query.lower()))
        for name in BOUNDED.keys() & words:
            self._bound(name)
        for name in FORMATS & words:
            self._bound_format(name)
        with self._translate_errors():
            statements = connection.extract_statements(query)
        if len(statements) != 1:
            raise refuse("there is more than one statement" if statements else "there is no statement")
        if statements[0].type.name != "SELECT" or PRAGMA.match(query):
            raise refuse("that is not a query")
        names = [name for (name,) in connection.execute("SELECT name FROM duckdb_optimizers()").fetchall()]
        others = ",".join(name for name in names if name != "unused_columns")
        for name in ("autoinstall_known_extensions", "autoload_known_extensions", "enable_external_access"):
            connection.execute(f"SET {name} = false")  # a plan may look at files already
        connection.execute(f"SET disabled_optimizers = '{others}'")
        with self._translate_errors():
            plans = connection.execute(f"EXPLAIN (FORMAT JSON) {query}").fetchall()
        connection.execute("RESET disabled_optimizers")
        columns_of: dict[str, set[str]] = {}
        for _, plan in plans:
            for table, columns in _list_scans(json.loads(plan)):
                if table in self._tables:
                    columns_of.setdefault(table, set()).update(columns)
        return {name: frozenset(columns) for name, columns in columns_of.items()}

    @_hear_ctrl_c()
    def load(self, relation: Relation, wanted: Wanted, tables: Iterable[Table]) -> None:
        """Load a table of these columns only, and a view over it with the others, in place of the empty table."""
        narrow, execute = quote(f"loaded {relation.name}"), self._connection.execute
        columns = [f"{quote(f.name)} {DUCKDB_TYPES[f.type]}" for f in relation.fields if f.name in wanted]
        with self._report_lack_of_room():
            execute("BEGIN")
            execute(f"CREATE TABLE {narrow} ({', '.join(columns)})")
            for batch in self._batches(tables, relation, wanted):
                self._connection.register("incoming", batch)
                execute(f"INSERT INTO {narrow} SELECT * FROM incoming")
                self._connection.unregister("incoming")
            execute(f"DROP TABLE {quote(relation.name)}")
            shown = [_or_null(field, wanted) for field in relation.fields]
            execute(f"CREATE VIEW {quote(relation.name)} AS SELECT {', '.join(shown)} FROM {narrow}")
            execute("COMMIT")

    def _batches(self, tables: Iterable[Table], relation: Relation, wanted: Wanted) -> Iterator[Any]:
        """Yield chunks put together, since every insertion costs something."""
        held: list[Any] = []
        n = 0
        for table in chain(tables, [None]):
            if table is not None and len(table):
                held.append(self._record_batch(table, relation, wanted))
                n += len(table)
            if held and (table is None or n >= BATCH_ROWS):
                yield self._arrow.Table.from_batches(held)
                held, n = [], 0

    def _record_batch(self, table: Table, relation: Relation, wanted: Wanted) -> Any:
        pa = self._arrow
        columns = {}
        for field in relation.fields:
            if field.name not in wanted:
                continue
            column = table.column(field.name)
            if field.type is Type.TEXT:
                codes, texts = codes_and_texts(column)
                columns[field.name] = pa.array(texts, pa.string()).take(pa.array(codes, pa.int32()))
            else:
                values, missing = numbers_and_nulls(column, field.type)
                columns[field.name] = pa.array(np.ascontiguousarray(values), mask=missing)
        return pa.record_batch(list(columns.values()), names=list(columns))

    @_hear_ctrl_c()
    def ask(self, query: str) -> tuple[Sequence[str], Rows]:
        self._deadline = math.inf if self.seconds is None else monotonic() + self.seconds
        for name, value in SAFE.items():
            self._connection.execute(f"SET {name} = {value}")
        with self._translate_errors():
            self._wait_for(lambda: self._connection.execute(query))
        return [column[0] for column in self._connection.description], self._fetch()

    def _fetch(self) -> Rows:
        while True:
            with self._translate_errors():
                rows = self._wait_for(lambda: self._connection.fetchmany(FETCHED))
            if not rows:
                return
            yield rows

    def _wait_for(self, work: Callable[[], Any]) -> Any:
        """Return the result of work that is done in a thread of its own: while DuckDB is busy, this one would not hear
        of Ctrl-C, nor see how long it takes."""
        with ThreadPoolExecutor(1) as pool:
            future = pool.submit(work)
            try:
                return future.result(None if self._deadline == math.inf else max(self._deadline - monotonic(), 0.0))
            except KeyboardInterrupt:
                self._connection.interrupt()
                raise
            except TimeoutError:
                self._connection.interrupt()
                raise too_slow(self.seconds) from None

    def close(self) -> None:
        self._end()

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            with self._report_lack_of_room():
                yield
        except self._duckdb.Error as error:
            raise Failed(str(error)) from error

    @contextmanager
    def _report_lack_of_room(self) -> Iterator[None]:
        try:
            yield
        except (self._duckdb.IOException, self._duckdb.OutOfMemoryException) as error:
            first = str(error).splitlines()[0]
            raise CallgroveError(
                f"the temporary database has no room ({first}); set TMPDIR to a folder with more, or ask for less"
            ) from error


def _or_null(field: Field, wanted: Wanted) -> str:
    name = quote(field.name)
    return name if field.name in wanted else f"CAST(NULL AS {DUCKDB_TYPES[field.type]}) AS {name}"


def _delete(connection: Any, folder: Path) -> None:
    connection.close()
    rmtree(folder, ignore_errors=True)


def _list_scans(plans: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, Sequence[str]]]:
    """Yield tables that a plan reads, with the columns; each may be read more than once."""
    pending = list(plans)
    while pending:
        node = pending.pop()
        pending += node.get("children", [])
        said = node.get("extra_info", {})
        if isinstance(said, Mapping) and "Table" in said:
            columns = said.get("Projections", [])
            names = [columns] if isinstance(columns, str) else list(columns)
            yield str(said["Table"]).rpartition(".")[2].strip('"'), [name for name in names if name]
