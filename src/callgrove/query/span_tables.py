"""Spans as they are, what only some of them have, and which call launched which operation.

The numbers of spans (`span`) join these tables.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from callgrove.analysis.summary_sections import ON_DEVICE, Places
from callgrove.arrays import ABSENT, Array
from callgrove.model.experiment import Experiment
from callgrove.model.table import Column, Table
from callgrove.model.traces.events import LABEL, PARENT, SideTable, SpanKind
from callgrove.model.traces.intervals import usable
from callgrove.model.traces.pairing import launch_calls
from callgrove.query.relations import Coded, Field, Opened, Relation, Type, Wanted, fields_of

__all__ = ["KIND_WORDS", "SIDES", "span_column", "span_relations", "strings_of"]

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
    Side("extras", "extra", "columns of the file's tables of events that nobody knows", "name:t value:t"),
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
    """Part by part: nothing links one to another."""
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
