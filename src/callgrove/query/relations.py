"""What a table is to SQL (columns with types, read in chunks), and spans with what belongs to them as such tables.

Nothing is read before a query needs it, and then only the columns that it uses. Ids are dense in every input; where
several inputs are asked at once, `Field.counts` says which ids a column holds, so that they can be numbered through.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from functools import partial
from typing import Any, Protocol

import numpy as np

from callgrove.analysis.summary_sections import ON_DEVICE, Places
from callgrove.arrays import ABSENT, Array
from callgrove.errors import CallgroveError, UsageError
from callgrove.model.experiment import Experiment
from callgrove.model.study.series import Study
from callgrove.model.table import Column, Table
from callgrove.model.traces.events import LABEL, PARENT, SideTable, SpanKind
from callgrove.model.traces.intervals import usable
from callgrove.model.traces.pairing import launch_calls

__all__ = [
    "ENGINES",
    "KIND_WORDS",
    "NOTHING",
    "READ_ONLY",
    "SIDES",
    "Coded",
    "Engine",
    "Failed",
    "Field",
    "Opened",
    "Relation",
    "Rows",
    "Type",
    "Wanted",
    "codes_and_texts",
    "fields_of",
    "numbers_and_nulls",
    "plain_cell",
    "plain_cells",
    "quote",
    "span_column",
    "span_relations",
    "strings_of",
    "unique_names",
]


# -- tables, engines and cells -----------------------------------------------------------------------------------------


NOTHING = int(np.iinfo(np.int64).min)  # an absent integer, in columns made here

Opened = Experiment | Study
Wanted = frozenset[str]


class Type(Enum):
    """What SQL may expect in a column; integers have 64 bits."""

    INTEGER = "INTEGER"
    REAL = "REAL"
    TEXT = "TEXT"


@dataclass(frozen=True)
class Field:
    """A column. `counts` names what its ids count (profile, context, metric, run, span), empty where it holds none."""

    name: str
    type: Type
    counts: str = ""


@dataclass(frozen=True)
class Relation:
    """A table that queries can name. `read` gives chunks that have at least the columns wanted."""

    name: str
    title: str
    fields: tuple[Field, ...]
    read: Callable[[Opened, Wanted], Iterator[Table]]
    of_experiments: bool = True
    of_studies: bool = False
    n_rows: Callable[[Opened], int | None] = lambda opened: None

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(field.name for field in self.fields)

    def has(self, opened: Opened) -> bool:
        """Return whether this input has such a table at all."""
        return self.of_studies if isinstance(opened, Study) else self.of_experiments


class Coded(Sequence[str | None]):
    """Texts by number; -1 is none. A column of names costs four bytes a row until it is printed."""

    def __init__(self, codes: Array, strings: Sequence[str | None]) -> None:
        self.codes, self.strings = codes, strings

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, index: int | slice) -> str | Coded | None:  # type: ignore[override]
        if isinstance(index, slice):
            return Coded(self.codes[index], self.strings)
        code = int(self.codes[index])
        return self.strings[code] if code >= 0 else None

    def compact(self) -> tuple[Array, list[str | None]]:
        """Return codes into a list of the texts that occur; such a list is short where the whole one may be long."""
        used, codes = np.unique(self.codes, return_inverse=True)
        return codes.reshape(-1), [self.strings[code] if code >= 0 else None for code in used.tolist()]


def fields_of(text: str, counts: dict[str, str] | None = None) -> tuple[Field, ...]:
    """Return the columns from words like `profile name:t value:r`: integers, texts and reals."""
    types = {"": Type.INTEGER, "t": Type.TEXT, "r": Type.REAL}
    words = [word.partition(":") for word in text.split()]
    return tuple(Field(name, types[letter], (counts or {}).get(name, "")) for name, _, letter in words)


def unique_names(names: Sequence[str]) -> tuple[str, ...]:
    """Number names where one was there before: to SQL, `n` and `N` are one."""
    taken: set[str] = set()
    out = []
    for name in names:
        new, number = name, 1
        while new.lower() in taken:
            number += 1
            new = f"{name}_{number}"
        taken.add(new.lower())
        out.append(new)
    return tuple(out)


# -- cells for an engine, and from it ----------------------------------------------------------------------------------
# In a column of integers, what does not fit into 64 bits is NULL; in one of real numbers, what is not a number is.


LARGEST = 2**63 - 1


def numbers_and_nulls(column: Column, type_: Type) -> tuple[Array, Array]:
    """Return an array of int64 or float64, and where there is nothing."""
    values = column.values
    if not isinstance(values, np.ndarray) or values.dtype.kind not in "biuf":
        return _from_cells(column.plain(), type_)
    missing: Array = np.zeros(len(values), np.bool_)
    if column.absent is not None:
        missing = np.isnan(values) if column.absent != column.absent else values == column.absent
    if type_ is Type.REAL:
        made = values.astype(np.float64, copy=False)
        return made, missing | np.isnan(made)
    if values.dtype.kind == "f":
        return _from_cells(column.plain(), type_)
    if values.dtype.kind == "u":
        missing = missing | (values > np.uint64(LARGEST))
    return values.astype(np.int64, copy=False), missing


def _from_cells(cells: Sequence[Any], type_: Type) -> tuple[Array, Array]:
    fits = _fits_integer if type_ is Type.INTEGER else _fits_real
    missing = np.array([not fits(cell) for cell in cells], np.bool_)
    zeroed = [0 if gone else cell for cell, gone in zip(cells, missing.tolist(), strict=True)]
    return np.array(zeroed, np.int64 if type_ is Type.INTEGER else np.float64), missing


def _fits_integer(cell: Any) -> bool:
    return isinstance(cell, int | float) and -LARGEST - 1 <= cell <= LARGEST and cell == int(cell)


def _fits_real(cell: Any) -> bool:
    return isinstance(cell, int | float) and cell == cell


def codes_and_texts(column: Column) -> tuple[Array, list[str | None]]:
    """Return numbers into a list of texts, which may hold None."""
    if isinstance(column.values, Coded):
        codes, texts = column.values.compact()
    else:
        number: dict[Any, int] = {}
        codes = np.array([number.setdefault(cell, len(number)) for cell in column.plain()], np.int64)
        texts = list(number)
    return codes, [None if text is None else _encodable(str(text)) for text in texts]


def _encodable(text: str) -> str:
    """Return a text with replacement characters for what is not Unicode."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()
    return text


def plain_cells(column: Column, type_: Type) -> list[Any]:
    """Return Python's own numbers and texts; None is NULL."""
    if type_ is Type.TEXT:
        codes, texts = codes_and_texts(column)
        return [texts[code] for code in codes.tolist()]
    values, missing = numbers_and_nulls(column, type_)
    cells: list[Any] = values.tolist()
    for row in np.flatnonzero(missing).tolist():
        cells[row] = None
    return cells


def plain_cell(cell: Any) -> Any:
    """Return a cell of a result: numbers, texts and None as they are, truth as 1 and 0, all else as text."""
    make = _CELLS.get(type(cell))
    if make is None:
        return str(cell)
    return make(cell)


def _same(cell: Any) -> Any:
    return cell


_CELLS: dict[type, Callable[[Any], Any]] = {
    **dict.fromkeys((int, float, str, type(None), list, dict), _same),
    bool: int,
    Decimal: float,
    bytes: bytes.hex,
}


# -- what an engine does -----------------------------------------------------------------------------------------------
# It knows tables by their columns, says which of these a query uses, takes them, and answers.


ENGINES = ("duckdb", "sqlite")
READ_ONLY = "only one SELECT can be asked: inputs are never modified, and no other file is read or written"
FETCHED = 1 << 14  # rows of one chunk of a result

Rows = Iterator[Sequence[tuple[Any, ...]]]


class Failed(CallgroveError):
    """What an engine says about a query, in its own words; sql.py makes a sentence of it."""


class Engine(Protocol):
    """A database of its own, on disk where it is large, that goes away when it is closed."""

    seconds: float | None  # that a query may take; None: any number

    @property
    def name(self) -> str: ...

    def declare(self, relations: Iterable[Relation]) -> None:
        """Declare tables that queries may name; they are empty so far."""

    def uses(self, query: str) -> Mapping[str, Wanted]:
        """Return the tables that a query reads, and which columns of each. What is not a SELECT, or not one, is
        refused."""

    def load(self, relation: Relation, wanted: Wanted, tables: Iterable[Table]) -> None:
        """Fill these columns of a table; all others are NULL."""

    def ask(self, query: str) -> tuple[Sequence[str], Rows]:
        """Return the names of the columns, and the rows in chunks."""

    def close(self) -> None:
        """Delete everything."""


def too_slow(seconds: float | None) -> UsageError:
    """Return what to say of a query that was stopped."""
    return UsageError(f"the query took longer than {seconds:g} s and was stopped; ask for less")


def refuse(reason: str) -> UsageError:
    return UsageError(f"{reason}: {READ_ONLY}")


def quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


# -- spans and their attributes ----------------------------------------------------------------------------------------
# The numbers of spans (`span`) join these tables.


KIND_WORDS = [kind.word for kind in SpanKind]
SPANS = f"profile kind:t category:t name:t start_ns end_ns depth correlation span duration_ns {LABEL}:t {PARENT}"
LAUNCHING = (SpanKind.API, SpanKind.MARKER, SpanKind.REGION)


@dataclass(frozen=True)
class Side:
    """A side table under its name in SQL."""

    table: str
    side: str
    title: str
    columns: str


SIDES = (
    Side(
        "span_kernels",
        "kernel",
        "of kernels: sizes in work-items, registers, memory",
        "grid_x grid_y grid_z workgroup_x workgroup_y workgroup_z lds scratch vgpr accum_vgpr sgpr dispatch kernel "
        "queue thread agent code_object static_lds static_scratch short_name:t demangled_name:t",
    ),
    Side(
        "span_copies",
        "copy",
        "of copies: bytes and devices",
        "bytes source destination queue thread source_address destination_address",
    ),
    Side(
        "span_allocations",
        "alloc",
        "of allocations: bytes, address, level",
        "bytes address device level:t queue stream",
    ),
    Side(
        "span_counters",
        "counter",
        "of kernels: counters, one row per value",
        "name:t value:r sample_id xcc shader_engine instance shader_array wgp",
    ),
    Side("arguments", "argument", "of calls: arguments", "position type:t name:t value:t"),
    Side("extras", "extra", "unknown columns of the file's event tables", "name:t value:t"),
)


def span_relations() -> list[Relation]:
    ids = {"profile": "profile", "span": "span", "call": "span", "operation": "span"}
    sides = [
        Relation(one.table, one.title, fields_of(f"span {one.columns}", ids), partial(_side, one)) for one in SIDES
    ]
    spans = Relation(
        "spans",
        "kernels, copies, calls, markers: all that has a start and an end",
        fields_of(SPANS, ids),
        _spans,
        n_rows=lambda opened: opened.traces.n_spans if isinstance(opened, Experiment) else None,
    )
    flows = Relation("flows", "which call launched which operation", fields_of("call operation", ids), _flows)
    return [spans, *sides, flows]


def strings_of(experiment: Experiment) -> Sequence[str]:
    """Return the texts that spans refer to, as far as they are known: more come with every chunk."""
    backend = experiment.traces.spans_backend
    assert backend is not None
    return backend.strings


def _spans(opened: Opened, wanted: Wanted) -> Iterator[Table]:
    assert isinstance(opened, Experiment)
    asked = {name for name in wanted if name not in ("span", "duration_ns")}
    asked |= {"start_ns", "end_ns"} if "duration_ns" in wanted or not asked else set()
    for chunk in opened.traces.spans(sorted(asked)):
        strings = strings_of(opened)
        yield Table(tuple(span_column(name, name, chunk, strings) for name in wanted or ("span",)))


def span_column(name: str, source: str, chunk: Mapping[str, Array], strings: Sequence[str]) -> Column:
    """Return a column called `name`, made of the spans' own column `source`."""
    if source == "duration_ns":  # spans that are in no sum have none
        start, end = chunk["start_ns"], chunk["end_ns"]
        return Column(name, np.where(usable(start, end), end - start, ABSENT), ABSENT)
    if source == "kind":
        return Column(name, Coded(chunk[source], KIND_WORDS))
    if source in ("category", "name", LABEL):
        return Column(name, Coded(chunk[source], strings))
    return Column(name, chunk[source], None if source.endswith("_ns") else ABSENT)


def _side(one: Side, opened: Opened, wanted: Wanted) -> Iterator[Table]:
    assert isinstance(opened, Experiment)
    fields = [field for field in fields_of(one.columns) if field.name in wanted]
    for part in range(len(opened.traces.parts())):
        table = opened.traces.side(one.side, part)
        if table is not None:
            yield Table((Column("span", table.span), *(side_column(field, field.name, table) for field in fields)))


def side_column(field: Field, source: str, table: SideTable, rows: Array | None = None) -> Column:
    """Return a column of a side table, or of some of its rows, where -1 is none."""
    n = len(table.span) if rows is None else len(rows)
    if source not in table.columns:
        return Column(field.name, [None] * n)
    cells: Array = np.asarray(table.columns[source])
    if field.type is Type.TEXT:
        cells = cells.astype(object)
    if rows is not None:
        cells = np.append(cells, [None] if field.type is Type.TEXT else np.array([ABSENT], cells.dtype))[rows]
    return Column(field.name, cells, None if field.type is not Type.INTEGER else ABSENT)


def _flows(opened: Opened, wanted: Wanted) -> Iterator[Table]:
    """Yield flows part by part: nothing links one to another."""
    assert isinstance(opened, Experiment)
    columns = ("profile", "kind", "correlation", "start_ns", "end_ns")
    process = Places.of(opened).process
    for part in opened.traces.parts():
        chunks = list(opened.traces.spans(columns, profiles=part))
        if not chunks:
            continue
        cells = {name: np.concatenate([chunk[name] for chunk in chunks]) for name in ("span", *columns)}
        valid = usable(cells["start_ns"], cells["end_ns"])
        device = np.flatnonzero(np.isin(cells["kind"], ON_DEVICE))
        calls = np.flatnonzero(np.isin(cells["kind"], LAUNCHING) & valid)
        process_of_span = process[cells["profile"]].astype(np.int64)
        call = launch_calls(
            cells["correlation"][device],
            process_of_span[device],
            cells["correlation"][calls],
            process_of_span[calls],
            cells["start_ns"][calls],
            cells["start_ns"][device],
        )
        known = call >= 0
        yield Table(
            (Column("call", cells["span"][calls[call[known]]]), Column("operation", cells["span"][device[known]]))
        )
