"""Writes spans, counters over time and the attributes of spans into tables, piece by piece."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from callgrove.arrays import ABSENT, Array, Ids
from callgrove.errors import UsageError
from callgrove.formats.columnar.row_groups import GroupWriter, IndexRows
from callgrove.formats.columnar.schema import EXPERIMENT, SIDE, Cells, TableColumn, Words, table_of
from callgrove.formats.columnar.span_tables import (
    Described,
    columns_of,
    describe_columns,
    fitting,
    texts_as_lists,
    widen_columns,
)
from callgrove.model.books import Books, Ledger
from callgrove.model.experiment import Experiment
from callgrove.model.traces.events import (
    LABEL,
    SIDE_TABLES,
    ArraySpans,
    Counters,
    SideTable,
    SpanChunk,
    SpanKind,
    Traces,
)

__all__ = ["KINDS", "SidesWriter", "SpansWriter", "counter_columns", "counter_table", "parts_of"]


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
        self._strings, self._parts, self._part = backend.strings, np.append(parts, ABSENT), ABSENT
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
        """Gives every table with its rows."""
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
        """False where all must be written again, now that the columns are known better."""
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
