"""Writes spans, counters over time, attributes of spans, devices and the small tables beside spans."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from callgrove.arrays import ABSENT, Array, Ids
from callgrove.errors import CorruptFile, UsageError
from callgrove.formats.columnar.folder import REMEDY, Folder, StoredTable
from callgrove.formats.columnar.row_groups import GroupWriter, IndexRows, write_table
from callgrove.formats.columnar.schema import (
    BESIDE,
    EXPERIMENT,
    MANIFEST,
    SIDE,
    TEXT,
    Cells,
    TableColumn,
    Words,
    table_of,
)
from callgrove.model.books import Books, Ledger
from callgrove.model.experiment import Experiment
from callgrove.model.table import Column, Table
from callgrove.model.traces.events import (
    LABEL,
    SIDE_TABLES,
    ArraySpans,
    Counters,
    Device,
    SideTable,
    SpanChunk,
    SpanKind,
    Traces,
)

__all__ = [
    "JSON",
    "KINDS",
    "TEXTS",
    "Described",
    "SidesWriter",
    "SpansWriter",
    "StoredDevices",
    "columns_of",
    "counter_columns",
    "counter_table",
    "describe_columns",
    "device_columns",
    "fitting",
    "parts_of",
    "read_beside",
    "texts_as_lists",
    "widen_columns",
    "write_beside",
]


# -- small tables beside spans, devices, and types of attribute columns ------------------------------------------------
# Columns are as the profiler has them, so the manifest tells their types; cells of mixed types are JSON.


# -- types of attribute columns ----------------------------------------------------------------------------------------
# A side table comes in pieces, and a later one may have a column, or a kind of cell, that no piece before it had: then
# the type that holds both is the one of the column.


TEXTS, JSON = "texts", "json"
NOTHING = "nothing"  # objects of which there was none yet
INTEGERS = ("int8", "int16", "int32", "int64")  # each holds those before it
OBJECTS = (NOTHING, TEXT, TEXTS, JSON)
Described = Mapping[str, tuple[str, str]]  # column -> type, and what it is in memory: an array or a tuple


def widen_columns(known: Described, piece: SideTable) -> Described:
    """Return the columns that hold what they held, and this piece too."""
    out = dict(known)
    for name, cells in piece.columns.items():
        kind, container = _kind(cells)
        old = known.get(name, (kind, container))
        out[name] = _wider(old[0], kind), old[1]
    return out


def _wider(one: str, other: str) -> str:
    if one == other or other == NOTHING:
        return one
    if one == NOTHING and other in OBJECTS:
        return other
    if one in INTEGERS and other in INTEGERS:
        return max(one, other, key=INTEGERS.index)
    return JSON if one in OBJECTS or other in OBJECTS or "double" not in (one, other) else "double"


def _kind(cells: Array | Sequence[object]) -> tuple[str, str]:
    """Return the type of some cells, and what they are in memory."""
    container = "array" if isinstance(cells, np.ndarray) else "tuple"
    if isinstance(cells, np.ndarray) and cells.dtype.kind in "iuf":
        signed = cells.dtype.kind == "i" or cells.dtype == np.uint64
        return "double" if cells.dtype.kind == "f" else cells.dtype.name if signed else "int64", container
    if not len(cells):
        return NOTHING, container
    if all(cell is None or isinstance(cell, str) for cell in cells):
        return TEXT, container
    if all(isinstance(cell, tuple | list) and all(isinstance(one, str) for one in cell) for cell in cells):
        return TEXTS, container
    return JSON, container


def describe_columns(known: Described) -> list[list[str]]:
    """Return column, type, and what it is in memory, for the manifest."""
    return [[name, TEXT if kind == NOTHING else kind, container] for name, (kind, container) in known.items()]


def columns_of(told: Sequence[Sequence[str]]) -> tuple[TableColumn, ...]:
    """Return the columns of a side table as the manifest tells them; -1 and NULL are the same for numbers."""
    columns = (TableColumn(name, TEXT if kind == JSON else kind, True) for name, kind, _ in told)
    return (TableColumn("span", "int64"), *columns)


def fitting(piece: SideTable, told: Sequence[Sequence[str]]) -> dict[str, Array]:
    """Return a piece as the arrays that are collected; what it lacks is absent."""
    n = len(piece.span)
    out: dict[str, Array] = {"span": piece.span}
    for name, kind, _ in told:
        cells = piece.columns.get(name)
        if cells is not None:
            out[name] = _as(cells, kind)
        elif kind in OBJECTS:
            out[name] = np.full(n, None, object)
            if kind == TEXTS:
                out[name][:] = [()] * n
        else:
            out[name] = np.full(n, np.nan if kind == "double" else ABSENT, np.float64 if kind == "double" else np.int64)
    return out


def _as(cells: Array | Sequence[object], kind: str) -> Array:
    if kind not in OBJECTS:
        return np.asarray(cells).astype(np.float64 if kind == "double" else kind, copy=False)
    plain = cells.tolist() if isinstance(cells, np.ndarray) else cells
    out = np.empty(len(plain), object)
    for number, cell in enumerate(plain):
        if kind == JSON:
            out[number] = json.dumps(cell, default=str)
        else:
            out[number] = cell if cell is None or kind == TEXTS else str(cell)
    return out


def texts_as_lists(rows: Mapping[str, Array], columns: Sequence[TableColumn]) -> dict[str, Cells]:
    """Return texts as lists: those are what becomes text in Arrow."""
    texts = {column.name for column in columns if column.type in (TEXT, TEXTS)}
    return {name: cells.tolist() if name in texts else cells for name, cells in rows.items()}


# -- tables beside spans -----------------------------------------------------------------------------------------------


TYPES = ("int64", "double", TEXT, JSON)
Told = list[tuple[str, str]]  # column and type


def write_beside(folder: Path, traces: Traces, n_rows: dict[str, int]) -> dict[str, list[list[str]]]:
    """Write all tables beside spans; return what the manifest says of their columns."""
    told: dict[str, list[list[str]]] = {}
    for name, make in traces.tables.items():
        columns = {column.name: column.plain() for column in make().columns}
        told[name] = [[column, _type(cells)] for column, cells in columns.items()]
        table_cells = {column: _cells(columns[column], kind) for column, kind in told[name]}
        n_rows[BESIDE + name] = write_table(folder, BESIDE + name, _schema(told[name]), table_cells)
    return told


def _type(cells: Sequence[object]) -> str:
    kinds = {type(cell) for cell in cells if cell is not None}
    if kinds == {int} and all(-(2**63) <= cell < 2**63 for cell in cells if isinstance(cell, int)):
        return "int64"
    return {frozenset({float}): "double", frozenset({str}): TEXT, frozenset(): TEXT}.get(frozenset(kinds), JSON)


def _cells(cells: Sequence[object], kind: str) -> Sequence[object]:
    if kind != JSON:
        return cells
    return [None if cell is None else json.dumps(cell, default=str) for cell in cells]


def _schema(told: Sequence[Sequence[str]]) -> tuple[TableColumn, ...]:
    return tuple(TableColumn(name, TEXT if kind == JSON else kind, True) for name, kind in told)


def read_beside(folder: Folder) -> Mapping[str, Callable[[], Table]]:
    """Return the side tables. Each of them is read when it is asked for; those whose columns are not told are left
    out."""
    told: dict[str, Any] = folder.or_warn(lambda: folder.manifest.get(folder.path, "beside", dict, {}), {})
    out: dict[str, Callable[[], Table]] = {}
    for name, columns in told.items():
        table = folder.or_warn(partial(_open_stored, folder, name, columns), None)
        if table is not None:
            out[name] = partial(_read, *table)
    return out


def _open_stored(folder: Folder, name: str, columns: Any) -> tuple[StoredTable, Told]:
    try:
        told = [(str(column), str(kind)) for column, kind in columns]
    except (TypeError, ValueError):
        told = []
    if not told or any(kind not in TYPES for _, kind in told) or len(dict(told)) < len(told):
        path, found = folder.path / MANIFEST, repr(columns)[:80]
        raise CorruptFile(path, f"beside {name}", expected="columns with types", found=found, remedy=REMEDY)
    return folder.table(BESIDE + name, _schema(told)), told


def _read(table: StoredTable, told: Told) -> Table:
    rows = table.whole()
    columns = []
    for name, kind in told:
        cells: list[Any] = rows.texts(name) if kind in (TEXT, JSON) else rows.cells(name)
        if kind == JSON:
            cells = [None if cell is None else _parse_cell(table, name, cell) for cell in cells]
        columns.append(Column(name, cells))
    return Table(tuple(columns))


def _parse_cell(table: StoredTable, column: str, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise table.damage(f"column {column}", "JSON", repr(text[:60])) from error


# -- devices -----------------------------------------------------------------------------------------------------------


def device_columns(traces: Traces) -> Mapping[str, Cells]:
    """Return the table `devices`, part by part."""
    rows = [
        (part, number, device)
        for part in range(len(traces.parts()))
        for number, device in enumerate(traces.devices(part))
    ]
    return {
        "part": np.array([part for part, *_ in rows], np.int64),
        "device": np.array([number for _, number, _ in rows], np.int64),
        "process": np.array([device.process for *_, device in rows], np.int64),
        "kind": [device.kind for *_, device in rows],
        "index": np.array([device.index for *_, device in rows], np.int64),
        "name": [device.name for *_, device in rows],
        "attributes": [json.dumps(dict(device.attributes)) for *_, device in rows],
    }


class StoredDevices:
    """The devices of parts; the JSON of their attributes is parsed when it is asked for."""

    def __init__(self, folder: Folder, n_parts: int) -> None:
        self._table = folder.table("devices")
        self._parts: dict[int, list[tuple[int, str, int, str, str]]] = {}
        rows = self._table.whole()
        parts = folder.ids(self._table, rows, "part", n_parts, lowest=0).tolist()
        process, index, numbers = (rows.numbers(name).tolist() for name in ("process", "index", "device"))
        kind, name, attributes = (rows.names(name) for name in ("kind", "name", "attributes"))
        cells = zip(process, kind, index, name, attributes, strict=True)
        for part, number, row in zip(parts, numbers, cells, strict=True):
            rows_of_part = self._parts.setdefault(part, [])
            if number != len(rows_of_part):
                raise self._table.damage("column device", f"the number {len(rows_of_part)} of part {part}", str(number))
            rows_of_part.append(row)

    def only(self, parts: range) -> StoredDevices:
        """Return the devices of some parts: less to send."""
        part_devices = StoredDevices.__new__(StoredDevices)
        part_devices._table, part_devices._parts = (
            self._table,
            {part: self._parts[part] for part in parts if part in self._parts},
        )
        return part_devices

    def of(self, part: int) -> Iterator[Device]:
        for process, kind, index, name, text in self._parts.get(part, ()):
            attributes = _parse_cell(self._table, "attributes", text)
            if not isinstance(attributes, dict) or not all(isinstance(value, str) for value in attributes.values()):
                raise self._table.damage("column attributes", "an object of texts", repr(text[:60]))
            yield Device(process, kind, index, name, attributes)


# -- spans, counters and attributes ------------------------------------------------------------------------------------


KINDS = [kind.word for kind in SpanKind]


def parts_of(tables: Experiment) -> Ids:
    """Return the part of the spans that each profile belongs to, -1 where to none."""
    out = np.full(len(tables.profiles), ABSENT, np.int32)
    for number, part in enumerate(tables.traces.parts()):
        out[part] = number
    return out


class SpansWriter:
    """Spans chunk by chunk; their names are those of the experiment that they belong to."""

    def __init__(self, folder: Path, tables: Experiment, parts: Ids, index: IndexRows) -> None:
        backend = tables.traces.spans_backend
        if backend is None:
            raise UsageError("spans can only be written of an experiment that has some")
        self._strings, self._parts, self._part = backend.strings, parts, ABSENT
        columns = EXPERIMENT["spans"]
        self._file = GroupWriter(folder, "spans", columns, self._encode, index.table("spans"))

    def add(self, chunk: SpanChunk) -> None:
        part = int(self._parts[chunk["profile"]].max(initial=ABSENT))
        if part != self._part and part != ABSENT:
            self._file.end_group()
            self._part = part
        names = (column.name for column in EXPERIMENT["spans"])
        self._file.add({name: chunk[name] for name in names})

    def _encode(self, rows: Mapping[str, Array]) -> Any:
        label = np.where(rows[LABEL] == rows["name"], ABSENT, rows[LABEL])
        cells: dict[str, Cells] = {**rows, "kind": Words(rows["kind"], KINDS)}
        for name, ids in (("category", rows["category"]), ("name", rows["name"]), (LABEL, label)):
            cells[name] = Words(ids, self._strings)
        return table_of(EXPERIMENT["spans"], cells)

    def close(self) -> int:
        return self._file.close()

    def strings(self) -> Mapping[str, Cells]:
        """Return the columns of `span_strings`: the texts in the order of their numbers."""
        return {"string": np.arange(len(self._strings)), "text": list(self._strings)}

    def abort(self) -> None:
        self._file.abort()


def counter_table(dtype: str) -> tuple[TableColumn, ...]:
    """Return the table `counters`, whose values keep their type."""
    return tuple(replace(c, type=dtype) if c.name == "value" else c for c in EXPERIMENT["counters"])


def counter_columns(counters: Counters) -> tuple[str, Mapping[str, Cells]]:
    """Return the type of values, and the columns of `counters`."""
    value = np.asarray(counters.value)
    kind = {"i": "int64", "u": "uint64"}.get(value.dtype.kind, "double")
    return kind, {
        "profile": counters.profile,
        "name": Words(counters.name, counters.names),
        "time_ns": counters.time_ns,
        "value": value,
    }


# -- attributes of spans -----------------------------------------------------------------------------------------------
# Each kind of them has a table, which is written piece by piece: memory holds a row group.
#
# Rows of different parts never share a row group, and those of a part rise with their spans.


Place = tuple[str, int, int, int]  # side, part, first row, rows


class SidesWriter:
    """The side tables of all parts. What is read and what is written goes into the books."""

    def __init__(self, folder: Path, traces: Traces, books: Books) -> None:
        self._folder, self._traces, self._books = folder, traces, books
        self.described: dict[str, list[list[str]]] = {}  # table -> [column, type, container]
        self._places: list[Place] = []

    def write(self) -> Iterator[tuple[str, int]]:
        """Write the tables, and yield each with its rows."""
        backend = self._traces.spans_backend
        more = [] if not isinstance(backend, ArraySpans) else [n for n in backend.sides if n not in SIDE_TABLES]
        for name in (*SIDE_TABLES, *more):
            columns: Described = {}
            while True:  # once more for every piece that had something new: hardly ever
                attempt = _Attempt(self._folder, name, columns)
                if attempt.write(self._traces):
                    break
                columns = attempt.columns
            if attempt.file is not None:
                self._places += attempt.places
                self.described[SIDE + name] = describe_columns(attempt.columns)
                yield SIDE + name, attempt.file.close()
                self._books.given.merge(attempt.given)
                self._books.passed.merge(attempt.passed)

    def rows(self) -> Mapping[str, Cells]:
        """Return the columns of `span_sides`."""
        side, part, first, rows = zip(*self._places, strict=True) if self._places else ((), (), (), ())
        numbers = {"part": part, "first": first, "rows": rows}
        return {"side": list(side), **{name: np.array(cells, np.int64) for name, cells in numbers.items()}}


class _Attempt:
    """One side table with columns that may turn out to be too narrow for a piece; there is no file before the first."""

    def __init__(self, folder: Path, name: str, columns: Described) -> None:
        self._folder, self._name, self.columns = folder, name, columns
        self.file: GroupWriter | None = None
        self.places: list[Place] = []
        self.given, self.passed = Ledger(), Ledger()

    def write(self, traces: Traces) -> bool:
        """Write rows; return False where all must be written again, now that the columns are known better."""
        try:
            return all(self._part(traces, part) for part in range(len(traces.parts())))
        except BaseException:
            self._abort()
            raise

    def _part(self, traces: Traces, part: int) -> bool:
        first = None
        for piece in traces.side_chunks(self._name, part):
            wider = widen_columns(self.columns, piece)
            if self.file is not None and describe_columns(wider) != describe_columns(self.columns):
                self.columns = wider
                self._abort()
                return False
            self.columns = wider
            self.file = self.file or self._open()
            self._count(piece, self.given)
            first = self.file.n_rows if first is None else first
            self.file.add(fitting(piece, describe_columns(self.columns)))
        if self.file is not None and first is not None:
            self.file.end_group()
            self.places.append((self._name, part, first, self.file.n_rows - first))
        return True

    def _open(self) -> GroupWriter:
        columns = columns_of(describe_columns(self.columns))
        return GroupWriter(
            self._folder,
            SIDE + self._name,
            columns,
            lambda rows: table_of(columns, texts_as_lists(rows, columns)),
            lambda _, rows: self._count(SideTable(rows["span"], rows), self.passed),
        )

    def _count(self, rows: SideTable, ledger: Ledger) -> None:
        """Add up rows, and what they say of bytes or counters."""
        ledger.amount(f"rows of the side table {self._name}").enter(len(rows.span), 0, 0)
        ledger.add_side(self._name, rows)

    def _abort(self) -> None:
        if self.file is not None:
            self.file.abort()
        self.file = None
