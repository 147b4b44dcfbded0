"""DuckDB: tables are in memory as far as a limit allows, beyond that in a temporary folder, deleted at the end.

Which columns a query uses is read off its plan over empty tables, made with no optimiser but the one that drops unused
columns. Before the query runs, the engine is told to open no other file, and its configuration is locked.

Arithmetic is SQLite's: 5 / 2 is 2, nothing comes of dividing by zero, and NULL comes before all else.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any
from weakref import finalize

import numpy as np

from callgrove.errors import CallgroveError, MissingExtra
from callgrove.model.table import Table
from callgrove.query.cells import codes_and_texts, numbers_and_nulls
from callgrove.query.engines import FETCHED, Failed, Rows, quoted, refuse
from callgrove.query.relations import Field, Relation, Type, Wanted

__all__ = ["DuckdbEngine"]

MEMORY = "512MB"
BATCH_ROWS = 1 << 19
TYPES = {Type.INTEGER: "BIGINT", Type.REAL: "DOUBLE", Type.TEXT: "VARCHAR"}
LIKE_SQLITE = {  # not every version has all of them
    "integer_division": "true",
    "ieee_floating_point_ops": "false",
    "error_on_division_by_zero": "false",
    "default_null_order": "'nulls_first_on_asc_last_on_desc'",
}
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
        self._connection.execute("SET enable_progress_bar = false")  # it would go to stdout
        self._end = finalize(self, _delete, self._connection, folder)  # also where nobody closes it
        for name, value in LIKE_SQLITE.items():
            self._set_if_known(name, value)
        self._tables: set[str] = set()

    def _set_if_known(self, name: str, value: str) -> None:
        known = self._connection.execute("SELECT count(*) FROM duckdb_settings() WHERE name = ?", [name]).fetchone()
        if known is not None and known[0]:
            self._connection.execute(f"SET {name} = {value}")

    @_hear_ctrl_c()
    def declare(self, relations: Iterable[Relation]) -> None:
        self._connection.execute("BEGIN")  # one commit for all
        for relation in relations:
            columns = ", ".join(f"{quoted(field.name)} {TYPES[field.type]}" for field in relation.fields)
            self._connection.execute(f"CREATE TABLE {quoted(relation.name)} ({columns})")
            self._tables.add(relation.name)
        self._connection.execute("COMMIT")

    @_hear_ctrl_c()
    def uses(self, query: str) -> Mapping[str, Wanted]:
        connection = self._connection
        with self._told():
            statements = connection.extract_statements(query)
        if len(statements) != 1:
            raise refuse("there is more than one statement" if statements else "there is no statement")
        if statements[0].type.name != "SELECT":
            raise refuse("that is no query")
        names = [name for (name,) in connection.execute("SELECT name FROM duckdb_optimizers()").fetchall()]
        others = ",".join(name for name in names if name != "unused_columns")
        for name in ("autoinstall_known_extensions", "autoload_known_extensions", "enable_external_access"):
            connection.execute(f"SET {name} = false")  # a plan may look at files already
        connection.execute(f"SET disabled_optimizers = '{others}'")
        with self._told():
            plans = connection.execute(f"EXPLAIN (FORMAT JSON) {query}").fetchall()
        connection.execute("RESET disabled_optimizers")
        found: dict[str, set[str]] = {}
        for _, plan in plans:
            for table, columns in _scans(json.loads(plan)):
                if table in self._tables:
                    found.setdefault(table, set()).update(columns)
        return {name: frozenset(columns) for name, columns in found.items()}

    @_hear_ctrl_c()
    def load(self, relation: Relation, wanted: Wanted, tables: Iterable[Table]) -> None:
        """A table of these columns only, and a view over it with the others, in place of the empty table."""
        narrow, execute = quoted(f"loaded {relation.name}"), self._connection.execute
        columns = [f"{quoted(f.name)} {TYPES[f.type]}" for f in relation.fields if f.name in wanted]
        with self._told_as_room():
            execute("BEGIN")
            execute(f"CREATE TABLE {narrow} ({', '.join(columns)})")
            for batch in self._batches(tables, relation, wanted):
                self._connection.register("incoming", batch)
                execute(f"INSERT INTO {narrow} SELECT * FROM incoming")
                self._connection.unregister("incoming")
            execute(f"DROP TABLE {quoted(relation.name)}")
            shown = [_or_null(field, wanted) for field in relation.fields]
            execute(f"CREATE VIEW {quoted(relation.name)} AS SELECT {', '.join(shown)} FROM {narrow}")
            execute("COMMIT")

    def _batches(self, tables: Iterable[Table], relation: Relation, wanted: Wanted) -> Iterator[Any]:
        """Chunks put together, since every insertion costs something."""
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
        for name, value in SAFE.items():
            self._connection.execute(f"SET {name} = {value}")
        with self._told():
            self._wait_for(lambda: self._connection.execute(query))
        return [column[0] for column in self._connection.description], self._fetch()

    def _fetch(self) -> Rows:
        while True:
            with self._told():
                rows = self._wait_for(lambda: self._connection.fetchmany(FETCHED))
            if not rows:
                return
            yield rows

    def _wait_for(self, work: Callable[[], Any]) -> Any:
        """The work is done in a thread of its own: while DuckDB is busy, this one would not hear of Ctrl-C."""
        with ThreadPoolExecutor(1) as pool:
            future = pool.submit(work)
            try:
                return future.result()
            except KeyboardInterrupt:
                self._connection.interrupt()
                raise

    def close(self) -> None:
        self._end()

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            with self._told_as_room():
                yield
        except self._duckdb.Error as error:
            raise Failed(str(error)) from error

    @contextmanager
    def _told_as_room(self) -> Iterator[None]:
        try:
            yield
        except (self._duckdb.IOException, self._duckdb.OutOfMemoryException) as error:
            first = str(error).splitlines()[0]
            raise CallgroveError(
                f"the temporary database has no room ({first}); set TMPDIR to a folder with more, or ask for less"
            ) from error


def _or_null(field: Field, wanted: Wanted) -> str:
    name = quoted(field.name)
    return name if field.name in wanted else f"CAST(NULL AS {TYPES[field.type]}) AS {name}"


def _delete(connection: Any, folder: Path) -> None:
    connection.close()
    rmtree(folder, ignore_errors=True)


def _scans(plans: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, Sequence[str]]]:
    """Tables that a plan reads, with the columns; each may be read more than once."""
    pending = list(plans)
    while pending:
        node = pending.pop()
        pending += node.get("children", [])
        said = node.get("extra_info", {})
        if isinstance(said, Mapping) and "Table" in said:
            columns = said.get("Projections", [])
            names = [columns] if isinstance(columns, str) else list(columns)
            yield str(said["Table"]).rpartition(".")[2].strip('"'), [name for name in names if name]
