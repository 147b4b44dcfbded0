"""`sql`: find out which columns a query needs, load these, run it, give its rows in chunks, explain errors."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from importlib.util import find_spec
from types import TracebackType
from typing import Any

from callgrove.errors import Parameter, UsageError, compose_text
from callgrove.model.experiment import Experiment
from callgrove.model.study.series import Study
from callgrove.model.table import Column, Table
from callgrove.query.catalog import Catalog
from callgrove.query.relations import ENGINES, Engine, Failed, Relation, Rows, plain_cell, unique_names

__all__ = ["Answer", "complaint", "default_engine", "engine_of", "meant", "sql", "table_list"]


# -- error messages of engines -----------------------------------------------------------------------------------------
# Each becomes one sentence, with the name that was probably meant.


NO_TABLE = re.compile(r"no such table: (?:main\.|temp\.)?(.+)|Table with name (\S+) does not exist")
NO_COLUMN = re.compile(
    r'no such column: (.+)|Referenced column "([^"]+)" (?:was )?not found|'
    r'(?:Table|Values list) "[^"]*" does not have a column named "([^"]+)"'
)
AMBIGUOUS = re.compile(r'ambiguous column name: (.+)|Ambiguous reference to column name "([^"]+)"')
NO_ACCESS = re.compile(r"file system operations are disabled|Permission Error|not authorized")
RESERVED = {  # words of SQL that are names here: as a bare word an engine may take them for something else
    "values": 'write "values" with its quotes, or stored_values',
    "end": 'write "end" with its quotes',
    "offset": 'write "offset" with its quotes',
}
SYNTAX = re.compile(r"syntax error")
TABLES = compose_text(Parameter("sql_tables()"), " lists them all")
MOST_OWNERS = 4  # tables that are named where many have a column


def complaint(text: str, relations: Mapping[str, Relation], query: str) -> UsageError:
    """Return the error to raise for what an engine said about a query."""
    first = next((line.strip() for line in text.splitlines() if line.strip()), "it failed")
    if match := NO_TABLE.search(first):
        name = match[1] or match[2]
        return UsageError(f"there is no table {name!r}; ", meant(name, relations))
    if hint := _missing_quotes(relations, query):
        return UsageError(f"the query cannot be run: {_without_class(first)}; {hint}")
    if match := NO_COLUMN.search(first):
        name = (match[1] or match[2] or match[3]).rpartition(".")[2].strip('"')
        return UsageError(_no_column(name, relations, query))
    if match := AMBIGUOUS.search(first):
        name = (match[1] or match[2]).rpartition(".")[2]
        return UsageError(f"several tables of the query have a column {name!r}; write which one, like t.{name}")
    if NO_ACCESS.search(first):
        return UsageError("a query reads the tables of its inputs only: no other file can be read or written")
    remedy = f"; {hint}" if SYNTAX.search(first) and (hint := _find_reserved_word(query)) else ""
    return UsageError(f"the query cannot be run: {_without_class(first)}{remedy}")


def meant(name: str, known: Iterable[str]) -> str:
    """Return a question after the nearest other name, or where to find them all."""
    near = _nearest(name, known)
    return f"did you mean {near!r}?" if near else TABLES


def _nearest(name: str, known: Iterable[str]) -> str:
    """Return the nearest name that is not the same one; empty where none is near."""
    others = {other.lower(): other for other in known if other.lower() != name.lower()}
    near = get_close_matches(name.lower(), list(others), 1)
    return others[near[0]] if near else ""


def _no_column(name: str, relations: Mapping[str, Relation], query: str) -> str:
    """Say where a column is missing, and what is near: one of the same tables, else a table that has it."""
    words = _words(query)
    used = [relation for relation in relations.values() if relation.name in words]
    where = f" in {_list_names([one.name for one in used], ' or ')}" if used else ""
    owners = [one.name for one in relations.values() if name.lower() in map(str.lower, one.names)]
    near = _nearest(name, {column: None for one in used or relations.values() for column in one.names})
    said = f"there is no column {name!r}{where}"
    if any(one.name in owners for one in used):  # another table of the query has it
        tables = [one.name for one in used if one.name in owners]
        return f"there is no column {name!r} where it is asked for; it is one of {_list_names(tables)}"
    if near:
        return f"{said}; did you mean {near!r}?"
    if f'"{name}"' in query:
        return f"{said}; a text is written in single quotes: '{name}'"
    return compose_text(f"{said}; ", f"it is one of {_list_names(owners)}" if owners else TABLES)


def _list_names(names: Sequence[str], last: str = " and ") -> str:
    """Return names as a list in words, shortened where there are many."""
    if len(names) > MOST_OWNERS:
        names = [*names[:MOST_OWNERS], f"{len(names) - MOST_OWNERS} more"]
    return last.join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _words(query: str) -> set[str]:
    return set(re.findall(r"\w+", query.lower()))


def _without_class(text: str) -> str:
    """Return `Parser Error: syntax error ...` without its first words."""
    return re.sub(r"^[A-Z][A-Za-z ]* Error: ", "", text).rstrip(".!")


def _missing_quotes(relations: Mapping[str, Relation], query: str) -> str:
    """Say that a name of several words, like `AVERAGE (nsec)`, needs quotes, where a query has it without."""
    bare = _strip_quoted(query)
    names = {name for relation in relations.values() for name in relation.names if not name.isidentifier()}
    return next((f'write "{name}" with its quotes' for name in sorted(names) if name.lower() in bare), "")


def _find_reserved_word(query: str) -> str:
    """Say that a word of SQL which is a name here needs quotes, where a query has it without."""
    return next((RESERVED[word] for word in re.findall(r"\w+", _strip_quoted(query)) if word in RESERVED), "")


def _strip_quoted(query: str) -> str:
    """Return a query in small letters without its quoted names and texts."""
    return re.sub(r"""\"[^\"]*\"|'[^']*'""", "", query.lower())


# -- queries -----------------------------------------------------------------------------------------------------------


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
        """Yield at least one chunk, so that an empty result has its columns."""
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
        """Yield row by row, as plain Python values; None is NULL."""
        for table in self:
            yield from table.rows()

    def table(self) -> Table:
        """Return all rows at once."""
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
    seconds: float | None = None,
) -> Answer:
    """Return the answer to one SELECT over the tables of one input or of several, in chunks or rows.

    Only what the query uses is loaded, into a temporary database. `engine` is duckdb or sqlite; without a word, DuckDB
    where it is installed. A query that takes more than `seconds` is stopped, which is an error.
    """
    inputs = (opened,) if isinstance(opened, Experiment | Study) else tuple(opened)
    if not inputs:
        raise UsageError("there is nothing to ask: name an experiment or a study")
    catalog = Catalog(inputs)
    if not query.strip():
        raise UsageError("the query is empty; write a SELECT")
    chosen = engine_of(engine)
    chosen.seconds = seconds
    try:
        chosen.declare(_find_tables(catalog, query))
        used = chosen.uses(query)
        loaded = {}
        for name, columns in used.items():
            relation = catalog.relation(name)
            wanted = columns or frozenset(relation.names[:1])
            counted = _Counted(catalog.rows(name, wanted), f"reading {name}", catalog.n_rows(name), progress)
            chosen.load(relation, wanted, counted)
            loaded[name] = counted.n
        names, rows = chosen.ask(query)
        return Answer(chosen, names, _explain_errors(rows, catalog, query), loaded, catalog.told)
    except Failed as failed:
        chosen.close()
        raise complaint(str(failed), catalog.relations, query) from None
    except BaseException:
        chosen.close()
        raise


def _find_tables(catalog: Catalog, query: str) -> list[Relation]:
    """Return tables whose names stand in the query, be it as something else: to declare all takes longer than many a
    query."""
    words = set(re.findall(r"\w+", query.lower()))
    return [relation for name, relation in catalog.relations.items() if name in words]


def _explain_errors(rows: Rows, catalog: Catalog, query: str) -> Rows:
    """Yield rows, and say in our words what fails on the way."""
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
    """Return the engine to use: DuckDB where it is installed with what it takes data from, else SQLite."""
    return "duckdb" if find_spec("duckdb") and find_spec("pyarrow") else "sqlite"


def engine_of(name: str) -> Engine:
    """Return the engine of that name; each is imported when it is used."""
    chosen = name or default_engine()
    if chosen == "duckdb":
        from callgrove.query.engines import DuckdbEngine

        return DuckdbEngine()
    if chosen == "sqlite":
        from callgrove.query.engines import SqliteEngine

        return SqliteEngine()
    raise UsageError(f"there is no engine {name!r}; there are {' and '.join(ENGINES)}")


def table_list(inputs: Sequence[Experiment | Study]) -> Table:
    """Return every column of every table that these inputs can be asked for."""
    catalog = Catalog(tuple(inputs))
    rows = []
    for number, relation in enumerate(catalog.relations.values()):
        if any(relation.has(one) for one in inputs):
            kind = "table" if number < catalog.n_own else "view"
            rows += [(relation.name, kind, f.name, f.type.value, relation.title) for f in relation.fields]
    return Table.from_rows(("table", "kind", "column", "type", "meaning"), rows)
