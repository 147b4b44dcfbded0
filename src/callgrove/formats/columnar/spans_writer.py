"""Spans and counters over time, into tables. Spans of different parts (the files of a set) never share a row group."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from callgrove.errors import UsageError
from callgrove.formats.columnar.arrow import Cells, Words, table_of
from callgrove.formats.columnar.group_writer import GroupWriter
from callgrove.formats.columnar.index import IndexRows
from callgrove.formats.columnar.schema import EXPERIMENT, TableColumn
from callgrove.model.arrays import ABSENT, Array, Ids
from callgrove.model.experiment import Experiment
from callgrove.model.traces import LABEL, Counters, SpanChunk, SpanKind

__all__ = ["KINDS", "SpansWriter", "counter_columns", "counter_table", "parts_of"]

KINDS = [kind.word for kind in SpanKind]


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
        """The columns of `span_strings`: the texts in the order of their numbers."""
        return {"string": np.arange(len(self._strings)), "text": list(self._strings)}

    def abort(self) -> None:
        self._file.abort()


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
