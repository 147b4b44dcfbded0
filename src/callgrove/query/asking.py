"""`sql`: find out which columns a query needs, load these, run it, and give its rows in chunks."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.util import find_spec
from types import TracebackType
from typing import Any

from callgrove.errors import UsageError
from callgrove.model.experiment import Experiment
from callgrove.model.study import Study
from callgrove.model.table import Column, Table
from callgrove.query.catalog import Catalog
from callgrove.query.cells import plain_cell
from callgrove.query.complaints import complaint
from callgrove.query.engines import ENGINES, Engine, Failed, Rows
from callgrove.query.relations import Relation, unique_names

__all__ = ["Answer", "default_engine", "engine_of", "sql", "table_list"]

Progress = Callable[[str, int, int | None], None]


class Answer:
    """The rows of a result, in chunks: `for table in answer`. They can be read once.

    The database behind it goes away with the last row, at the end of a `with`, or when it is closed.
    """

    def __init__(
        self, engine: Engine, names: Sequence[str], rows: Rows, loaded: dict[str, int], left_out: Sequence[str] = ()
    ) -> None:
        self._engine, self._rows = engine, rows
        self.names = unique_names([name or f"column_{k}" for k, name in enumerate(names, 1)])
        self.loaded = loaded  # how many rows of which table were read
        self.left_out = tuple(left_out)  # which metrics have no values in these tables, and why

    def __iter__(self) -> Iterator[Table]:
        """At least one chunk, so that an empty result has its columns."""
        empty = True
        try:
            for rows in self._rows:
                yield self._table(rows)
                empty = False
        finally:
            self.close()
        if empty:
            yield self._table([])

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """Row by row, as plain Python values; None is NULL."""
        for table in self:
            yield from table.rows()

    def table(self) -> Table:
        """All rows at once."""
        return Table.from_rows(self.names, self.rows())

    def _table(self, rows: Sequence[tuple[Any, ...]]) -> Table:
        columns: Iterable[Sequence[Any]] = zip(*rows, strict=True) if rows else [()] * len(self.names)
        return Table(
            tuple(
                Column(name, [plain_cell(cell) for cell in cells])
                for name, cells in zip(self.names, columns, strict=True)
            )
        )

    def close(self) -> None:
        self._engine.close()

    def __enter__(self) -> Answer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def sql(
    opened: Experiment | Study | Sequence[Experiment | Study],
    query: str,
    engine: str = "",
    progress: Progress | None = None,
) -> Answer:
    """Return the answer to one SELECT over the tables of one input or of several, in chunks or rows.

    Only what the query uses is loaded, into a temporary database. `engine` is duckdb or sqlite; without a word, DuckDB
    where it is installed.
    """
    inputs = (opened,) if isinstance(opened, Experiment | Study) else tuple(opened)
    if not inputs:
        raise UsageError("there is nothing to ask: name an experiment or a study")
    catalog = Catalog(inputs)
    if not query.strip():
        raise UsageError("the query is empty; write a SELECT")
    chosen = engine_of(engine)
    try:
        chosen.declare(_mentioned(catalog, query))
        used = chosen.uses(query)
        loaded = {}
        for name, columns in used.items():
            relation = catalog.relation(name)
            wanted = columns or frozenset(relation.names[:1])
            counted = _Counted(catalog.rows(name, wanted), f"reading {name}", catalog.n_rows(name), progress)
            chosen.load(relation, wanted, counted)
            loaded[name] = counted.n
        names, rows = chosen.ask(query)
        return Answer(chosen, names, _explained(rows, catalog, query), loaded, catalog.told)
    except Failed as failed:
        chosen.close()
        raise complaint(str(failed), catalog.relations, query) from None
    except BaseException:
        chosen.close()
        raise


def _mentioned(catalog: Catalog, query: str) -> list[Relation]:
    """Tables whose names stand in the query, be it as something else: to declare all takes longer than many a query."""
    words = set(re.findall(r"\w+", query.lower()))
    return [relation for name, relation in catalog.relations.items() if name in words]


def _explained(rows: Rows, catalog: Catalog, query: str) -> Rows:
    """The same rows; what fails on the way is said in our words."""
    try:
        yield from rows
    except Failed as failed:
        raise complaint(str(failed), catalog.relations, query) from None


class _Counted:
    """Chunks on their way, counted."""

    def __init__(self, tables: Iterable[Table], label: str, total: int | None, progress: Progress | None) -> None:
        self._tables, self._label, self._total, self._progress = tables, label, total, progress
        self.n = 0

    def __iter__(self) -> Iterator[Table]:
        for table in self._tables:
            self.n += len(table)
            if self._progress is not None:
                self._progress(self._label, self.n, self._total)
            yield table


def default_engine() -> str:
    """DuckDB where it is installed with what it takes data from, else SQLite."""
    return "duckdb" if find_spec("duckdb") and find_spec("pyarrow") else "sqlite"


def engine_of(name: str) -> Engine:
    """The engine of that name; each is imported when it is used."""
    chosen = name or default_engine()
    if chosen == "duckdb":
        from callgrove.query.duckdb_engine import DuckdbEngine

        return DuckdbEngine()
    if chosen == "sqlite":
        from callgrove.query.sqlite_engine import SqliteEngine

        return SqliteEngine()
    raise UsageError(f"there is no engine {name!r}; there are {' and '.join(ENGINES)}")


def table_list(inputs: Sequence[Experiment | Study]) -> Table:
    """Every column of every table that these inputs can be asked for."""
    catalog = Catalog(tuple(inputs))
    rows = []
    for number, relation in enumerate(catalog.relations.values()):
        if any(relation.has(one) for one in inputs):
            kind = "table" if number < catalog.n_own else "view"
            rows += [(relation.name, kind, f.name, f.type.value, relation.title) for f in relation.fields]
    return Table.from_rows(("table", "kind", "column", "type", "meaning"), rows)
