"""Spans, what only some of them have, and counters over time, into tables.

Spans of different parts (the files of a set) never share a row group, and side tables are written part by part: memory
holds one part's table.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from callgrove.errors import UsageError
from callgrove.formats.columnar.arrow import Cells, Words, table_of
from callgrove.formats.columnar.group_writer import GroupWriter
from callgrove.formats.columnar.index import IndexRows
from callgrove.formats.columnar.schema import EXPERIMENT, SIDE, TableColumn
from callgrove.formats.interface import LossReport
from callgrove.model.arrays import ABSENT, Array, Ids
from callgrove.model.experiment import Experiment
from callgrove.model.traces import LABEL, SIDE_TABLES, ArraySpans, Counters, SideTable, SpanChunk, SpanKind, Traces

__all__ = [
    "JSON",
    "KINDS",
    "TEXTS",
    "SidesWriter",
    "SpansWriter",
    "counter_columns",
    "counter_table",
    "parts_of",
    "side_columns",
]

KINDS = [kind.word for kind in SpanKind]
TEXT, TEXTS, JSON = "text", "texts", "json"


def parts_of(tables: Experiment) -> Ids:
    """The part of the spans that each profile belongs to, -1 where to none."""
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
        self._strings, self._parts, self._part = backend.strings, np.append(parts, ABSENT), ABSENT
        columns = EXPERIMENT["spans"]
        self._file = GroupWriter(folder, "spans", columns, self._encoded, index.table("spans"))

    def add(self, chunk: SpanChunk) -> None:
        part = int(self._parts[chunk["profile"]].max(initial=ABSENT))
        if part != self._part and part != ABSENT:
            self._file.end_group()
            self._part = part
        names = (column.name for column in EXPERIMENT["spans"])
        self._file.add({name: chunk[name] for name in names})

    def _encoded(self, rows: Mapping[str, Array]) -> Any:
        label = np.where(rows[LABEL] == rows["name"], ABSENT, rows[LABEL])
        cells: dict[str, Cells] = {**rows, "kind": Words(rows["kind"], KINDS)}
        for name, ids in (("category", rows["category"]), ("name", rows["name"]), (LABEL, label)):
            cells[name] = Words(ids, self._strings)
        return table_of(EXPERIMENT["spans"], cells)

    def close(self) -> int:
        return self._file.close()

    def strings(self) -> Mapping[str, Cells]:
        """The columns of `span_strings`: the texts in the order of their numbers."""
        return {"string": np.arange(len(self._strings)), "text": list(self._strings)}

    def abort(self) -> None:
        self._file.abort()


class SidesWriter:
    """The side tables of all parts."""

    def __init__(self, folder: Path, traces: Traces, report: LossReport) -> None:
        self._folder, self._traces, self._report = folder, traces, report
        self.described: dict[str, list[list[str]]] = {}  # table -> [column, type, container]
        self._rows: list[tuple[str, int, int, int]] = []  # side, part, first row, rows

    def write(self) -> Iterator[tuple[str, int]]:
        """Gives every table with its rows."""
        backend = self._traces.spans_backend
        more = [] if not isinstance(backend, ArraySpans) else [n for n in backend.sides if n not in SIDE_TABLES]
        for name in (*SIDE_TABLES, *more):
            file: GroupWriter | None = None
            for part in range(len(self._traces.parts())):
                file = self._write_part(file, name, part)
            if file is not None:
                yield file.name, file.close()

    def _write_part(self, file: GroupWriter | None, name: str, part: int) -> GroupWriter | None:
        """One part of one table, which is not kept any longer; the file is opened for the first part that has it."""
        side = self._traces.side(name, part)
        if side is None:
            return file
        file = file or self._file(name, side)
        self._rows.append((name, part, file.n_rows, len(side.span)))
        self._add(file, name, side)
        return file

    def _file(self, name: str, side: SideTable) -> GroupWriter:
        described = [[column, *_kind(cells)] for column, cells in side.columns.items()]
        self.described[SIDE + name] = described
        columns = side_columns(described)
        return GroupWriter(self._folder, SIDE + name, columns, lambda rows: table_of(columns, _listed(rows, columns)))

    def _add(self, file: GroupWriter, name: str, side: SideTable) -> None:
        described, n = self.described[SIDE + name], len(side.span)
        rows: dict[str, Array] = {"span": side.span}
        for column, kind, _ in described:
            cells = side.columns.get(column)
            if cells is None:
                fill: object = None if kind in (TEXT, TEXTS, JSON) else np.nan if kind == "double" else ABSENT
                rows[column] = np.full(n, fill, object if fill is None else None)
            else:
                rows[column] = _fitting(cells, kind)
        for column in side.columns.keys() - {column for column, *_ in described}:
            self._report.add(f"column {column} of the side table {name}: the first part that has the table lacks it")
        file.add(rows)
        file.end_group()

    def rows(self) -> Mapping[str, Cells]:
        """The columns of `span_sides`."""
        side, part, first, rows = zip(*self._rows, strict=True) if self._rows else ((), (), (), ())
        numbers = {"part": part, "first": first, "rows": rows}
        return {"side": list(side), **{name: np.array(cells, np.int64) for name, cells in numbers.items()}}


def side_columns(described: Sequence[Sequence[str]]) -> tuple[TableColumn, ...]:
    """The columns of a side table; -1 and NULL are the same for numbers."""
    own = (TableColumn(name, TEXT if kind == JSON else kind, True) for name, kind, _ in described)
    return (TableColumn("span", "int64"), *own)


def _kind(cells: Array | Sequence[object]) -> tuple[str, str]:
    """The type of a column of a side table, and what it is in memory."""
    container = "array" if isinstance(cells, np.ndarray) else "tuple"
    if isinstance(cells, np.ndarray) and cells.dtype.kind in "iuf":
        signed = cells.dtype.kind == "i" or cells.dtype == np.uint64
        return "double" if cells.dtype.kind == "f" else cells.dtype.name if signed else "int64", container
    if all(cell is None or isinstance(cell, str) for cell in cells):
        return TEXT, container
    if all(isinstance(cell, tuple | list) and all(isinstance(one, str) for one in cell) for cell in cells):
        return TEXTS, container
    return JSON, container


def _fitting(cells: Array | Sequence[object], kind: str) -> Array:
    """A column as the array that is collected."""
    if kind not in (TEXT, TEXTS, JSON):
        return np.asarray(cells).astype(np.float64 if kind == "double" else kind, copy=False)
    out = np.empty(len(cells), object)
    for number, cell in enumerate(cells):
        if kind == JSON:
            out[number] = json.dumps(cell, default=str)
        else:
            out[number] = cell if cell is None or kind == TEXTS else str(cell)
    return out


def _listed(rows: Mapping[str, Array], columns: Sequence[TableColumn]) -> dict[str, Cells]:
    """Texts as lists: those are what becomes text in Arrow."""
    texts = {column.name for column in columns if column.type in (TEXT, TEXTS)}
    return {name: cells.tolist() if name in texts else cells for name, cells in rows.items()}


def counter_table(dtype: str) -> tuple[TableColumn, ...]:
    """The table `counters`, whose values keep their type."""
    return tuple(replace(c, type=dtype) if c.name == "value" else c for c in EXPERIMENT["counters"])


def counter_columns(counters: Counters) -> tuple[str, Mapping[str, Cells]]:
    """The type of values, and the columns of `counters`."""
    value = np.asarray(counters.value)
    kind = {"i": "int64", "u": "uint64"}.get(value.dtype.kind, "double")
    return kind, {
        "profile": counters.profile,
        "name": Words(counters.name, counters.names),
        "time_ns": counters.time_ns,
        "value": value,
    }
