"""Rocprofv3's views of things (processes, threads, kernel symbols), of what spans have many of (arguments, counters),
and of what its summaries add up.

A counter that was measured in several instances has several rows in `pmc_events` and one in `counters_collection`: the
sum, or the mean where the tool says that it is not an amount (value_type RELATIVE).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from callgrove.analysis.summary import summarise, table
from callgrove.analysis.summary_sections import By
from callgrove.arrays import ABSENT, Array, Floats, Ints
from callgrove.model.experiment import Experiment
from callgrove.model.profiles import ProfileKind
from callgrove.model.table import Column, Table
from callgrove.model.traces.events import PARENT, SideTable, SpanChunk
from callgrove.query.relations import Field, Opened, Relation, Type, Wanted, fields_of, side_column
from callgrove.query.rocpd_views import (
    Cell,
    Lanes,
    ViewReader,
    as_column,
    event,
    event_text,
    lane,
    lane_column,
    pmc,
    product,
    region,
    side,
    span,
    stream,
)

__all__ = ["sum_relations", "thing_relations"]


CODE_OBJECTS = (
    "guid:t pid id agent_id uri:t load_base load_size load_delta code_object_size storage_type memory_base memory_size "
    "nid agent_abs_index storage_type_str:t"
)
KERNEL_SYMBOLS = (
    "guid:t pid id code_object_id kernel_name:t display_name:t kernel_object kernarg_segment_size "
    "kernarg_segment_alignment group_segment_size private_segment_size sgpr_count arch_vgpr_count accum_vgpr_count "
    "kernel_symbol_size formatted_kernel_name:t demangled_kernel_name:t truncated_kernel_name:t nid kernel_id "
    "kernel_code_entry_byte_offset kernel_address"
)
PMC_INFO = (
    "guid:t pid id agent_id is_constant is_derived name:t symbol:t description:t component:t units:t value_type:t "
    "block:t expression:t nid agent_abs_index"
)
SYSTEM = "ppid start end system_name:t system_release:t system_version:t"
PROCESSES = f"guid:t pid rank nid hostname:t machine_id:t command:t init fini {SYSTEM}"
THREADS = f"guid:t pid tid name:t rank nid hostname:t machine_id:t profile {SYSTEM}"
NO_AMOUNTS = ("RELATIVE",)  # rocprofv3 calls every counter ABS, and adds up its instances


def thing_relations() -> list[Relation]:
    return [
        Relation("processes", "processes, with rank and host", fields_of(PROCESSES), _processes),
        Relation("threads", "threads, each once", fields_of(THREADS, {"profile": "profile"}), _threads),
        _relation_of_table("code_objects", "files with kernels that were loaded", CODE_OBJECTS),
        _relation_of_table("kernel_symbols", "kernels as their files have them", KERNEL_SYMBOLS),
        _relation_of_table("pmc_info", "what counters mean", PMC_INFO),
        *(many.relation for many in MANY),
    ]


def _relation_of_table(name: str, title: str, columns: str) -> Relation:
    def read(opened: Opened, wanted: Wanted) -> Iterator[Table]:
        assert isinstance(opened, Experiment)
        if (make := opened.traces.tables.get(name)) is not None:
            made, nodes = make(), _group_by_process(Lanes(opened), "nid")
            yield Table((*made.columns, Column("nid", [nodes.get(guid) for guid in made.column("guid").plain()])))

    return Relation(name, title, fields_of(columns), read)


def _processes(opened: Opened, wanted: Wanted) -> Iterator[Table]:
    assert isinstance(opened, Experiment)
    lanes = Lanes(opened)
    if lanes.processes is None:
        return
    process = lanes.rows_of("process")
    known, first = np.unique(process[process >= 0], return_index=True)
    example = np.full(len(lanes.processes), ABSENT)
    example[known] = np.flatnonzero(process >= 0)[first]  # a profile of every process that has one
    places = {word: as_column(word, lanes.column(word)).plain() for word in ("rank", "nid")}
    place_columns = [
        Column(word, [cells[k] if k >= 0 else None for k in example.tolist()]) for word, cells in places.items()
    ]
    guids = lanes.processes.column("guid").plain()
    facts = _facts(lanes, "process_facts", [(guid,) for guid in guids])
    times = {"start": lanes.processes.column("init").plain(), "end": lanes.processes.column("fini").plain()}
    for name, usual in times.items():  # families that know one pair of times only
        facts[name] = [given if said is None else said for said, given in zip(facts[name], usual, strict=True)]
    yield Table((*lanes.processes.columns, *place_columns, *(Column(name, cells) for name, cells in facts.items())))


def _group_by_process(lanes: Lanes, word: str) -> dict[str | None, int | None]:
    """Return something about places, by the guid of their process."""
    columns = (as_column(name, lanes.column(name)).plain() for name in ("guid", word))
    return dict(zip(*columns, strict=True))


def _facts(lanes: Lanes, name: str, keys: Sequence[tuple[Any, ...]]) -> dict[str, list[Any]]:
    """Return the columns of SYSTEM that a table of facts has for keys (guid, or guid and thread number); None
    elsewhere."""
    words = [field.name for field in fields_of(SYSTEM)]
    table = lanes.table(name)
    if table is None:
        return {word: [None] * len(keys) for word in words}
    first = [table.column(word).plain() for word in ("guid", "tid") if word in table.names]
    rows = {key: row for row, key in enumerate(zip(*first, strict=True))}
    places = [rows.get(key) for key in keys]
    out: dict[str, list[Any]] = {}
    for word in words:
        cells = table.column(word).plain() if word in table.names else [None] * len(table)
        out[word] = [None if row is None else cells[row] for row in places]
    return out


def _threads(opened: Opened, wanted: Wanted) -> Iterator[Table]:
    assert isinstance(opened, Experiment)
    threads = np.flatnonzero(opened.profiles.kind == ProfileKind.THREAD)
    lanes = Lanes(opened)
    words = ("guid", "pid", "tid", "rank", "nid", "hostname", "machine_id")
    columns = [lane_column(word, lanes.column(word), threads) for word in words]
    guids, numbers = columns[0].plain(), columns[2].plain()
    facts = _facts(lanes, "process_facts", [(guid,) for guid in guids])
    times = _facts(lanes, "thread_facts", list(zip(guids, numbers, strict=True)))
    facts |= {name: times[name] for name in ("start", "end")}
    name = lane_column("name", lanes.column("stream"), threads)
    yield Table((*columns, name, Column("profile", threads), *(Column(word, facts[word]) for word in facts)))


# -- what spans have many of -------------------------------------------------------------------------------------------

Rows = tuple[Ints, SideTable]  # for every row the number of its span in the chunk, and the rows themselves


@dataclass(frozen=True)
class Many:
    """A side table with several rows per span, each with columns of its span."""

    name: str
    title: str
    side: str  # whose rows these are
    cells: tuple[Cell, ...]  # of the span
    row_cells: tuple[Cell, ...]  # of the row
    combined: Callable[[Experiment, SpanChunk, Rows], Rows] | None = None

    @property
    def relation(self) -> Relation:
        fields = tuple(cell.field for cell in (*self.cells, *self.row_cells))
        return Relation(self.name, self.title, fields, partial(_read, self))


def _read(many: Many, opened: Opened, wanted: Wanted) -> Iterator[Table]:
    assert isinstance(opened, Experiment)
    reader = ViewReader(opened, "kernel", [cell for cell in many.cells if cell.field.name in wanted])
    wanted_cells = [cell for cell in many.row_cells if cell.field.name in wanted or not wanted]
    for number, part in enumerate(opened.traces.parts()):
        table = opened.traces.side(many.side, number)
        if table is None:
            continue
        order = np.argsort(table.span, kind="stable")
        sorted_spans = table.span[order]
        for chunk in opened.traces.spans(sorted(reader.asked), profiles=part):
            rows_of_spans = _rows_of(chunk, table, order, sorted_spans)
            if many.combined is not None:
                rows_of_spans = many.combined(opened, chunk, rows_of_spans)
            owner, rows = rows_of_spans
            if len(owner):
                expanded = {name: cells[owner] for name, cells in chunk.items()}
                yield Table(
                    (*reader.columns(expanded), *(_read_column(cell, rows, expanded, reader) for cell in wanted_cells))
                )


def _read_column(cell: Cell, rows: SideTable, chunk: SpanChunk, reader: ViewReader) -> Column:
    """Return a column of the rows themselves, or of what they name."""
    if cell.origin == "side":
        return side_column(cell.field, cell.source, rows)
    ids = rows.columns.get(cell.source)
    return reader.thing(cell, np.full(len(rows.span), ABSENT) if ids is None else np.asarray(ids), chunk)


def _rows_of(chunk: SpanChunk, table: SideTable, order: Ints, spans: Ints) -> Rows:
    """Return the rows of a side table that belong to a chunk's spans."""
    first, last = (np.searchsorted(spans, chunk["span"], side=s) for s in ("left", "right"))
    n = last - first
    owner = np.repeat(np.arange(len(n)), n)
    place = np.arange(len(owner)) - np.repeat(np.cumsum(n) - n, n) + np.repeat(first, n)
    rows = order[place]
    return owner, SideTable(table.span[rows], {name: np.asarray(c)[rows] for name, c in table.columns.items()})


def _collect_counters(experiment: Experiment, chunk: SpanChunk, rows_of_spans: Rows) -> Rows:
    """Return one row per span and counter."""
    owner, table = rows_of_spans
    if not (whole := table.is_whole).all():
        owner, table = owner[whole], table.take(np.flatnonzero(whole))
    if not len(owner):
        return owner, SideTable(table.span, {**table.columns, "value_type": np.empty(0, object)})
    names, number = np.unique(np.asarray(table.columns["name"]).astype(str), return_inverse=True)
    groups, first, group = np.unique(owner * len(names) + number.reshape(-1), return_index=True, return_inverse=True)
    value: Floats = np.asarray(table.columns["value"], np.float64)
    sums = np.bincount(group.reshape(-1), value, len(groups))
    counts = np.bincount(group.reshape(-1), minlength=len(groups))
    at, which = groups // len(names), groups % len(names)
    known = _value_types(experiment)
    types: Array = np.array([known.get(name) for name in names.tolist()], object)[which]
    mean = np.isin(types.astype(str), NO_AMOUNTS)
    made = {"name": names[which].astype(object), "value": np.where(mean, sums / counts, sums), "value_type": types}
    if "pmc" in table.columns:
        made["pmc"] = np.asarray(table.columns["pmc"])[first]
    return at, SideTable(chunk["span"][at], made)


def _stream_arguments(experiment: Experiment, chunk: SpanChunk, rows_of_spans: Rows) -> Rows:
    """Return the arguments called `stream`, and the number of the stream, which is in their JSON."""
    owner, table = rows_of_spans
    rows = np.flatnonzero(np.asarray(table.columns["name"], object) == "stream")
    kept = table.take(rows)
    texts = np.asarray(kept.columns.get("extdata", np.full(len(rows), None, object)), object).tolist()
    numbers = np.array([_stream_number(text) for text in texts], np.int64)
    return owner[rows], SideTable(kept.span, {**kept.columns, "stream": numbers})


def _stream_number(text: str | None) -> int:
    try:
        arguments = json.loads(text or "{}")
    except ValueError:
        return ABSENT
    number = arguments.get("stream_id") if isinstance(arguments, dict) else None
    return number if isinstance(number, int) and 0 <= number < 2**63 else ABSENT


def _value_types(experiment: Experiment) -> dict[str, str | None]:
    make = experiment.traces.tables.get("pmc_info")
    info = None if make is None else make()
    return (
        {} if info is None else dict(zip(info.column("name").plain(), info.column("value_type").plain(), strict=True))
    )


PLACE = (*span("id=span"), *lane("guid:t nid pid rank"), *span("category:t"))
LINKS = span(f"stack_id=correlation parent_stack_id={PARENT}")
TIMES = span("start=start_ns end=end_ns duration=duration_ns")
COUNTED = (
    *(*PLACE, *side("dispatch_id=dispatch kernel_id=kernel tid=thread queue_id=queue"), *LINKS),
    *lane("agent_abs_index agent_log_index agent_type_index agent_type:t"),
    *(*span("kernel_name:t=name"), *TIMES),
    *side("grid_size_x=grid_x grid_size_y=grid_y grid_size_z=grid_z workgroup_size_x=workgroup_x"),
    *side("workgroup_size_y=workgroup_y workgroup_size_z=workgroup_z lds_block_size=lds scratch_size=scratch"),
    *side("vgpr_count=vgpr accum_vgpr_count=accum_vgpr sgpr_count=sgpr agent_id=agent code_object_id=code_object"),
    *(*event("event_id correlation_id"), *event_text("extdata:t"), *region("kernel_region:t=region")),
    *product("grid_size=grid workgroup_size=workgroup"),
)
COUNTER = pmc(
    "counter_symbol:t=pmc.symbol component:t=pmc.component description:t=pmc.description block:t=pmc.block "
    "expression:t=pmc.expression is_constant=pmc.is_constant is_derived=pmc.is_derived"
)
MANY = (
    Many(
        "region_args", "arguments of calls", "argument", (*PLACE, *span("region:t=name")), side("type:t name:t value:t")
    ),
    Many(
        "events_args",
        "arguments of everything that has some",
        "argument",
        (*PLACE, *LINKS, *event("event_id correlation_id"), *event_text("call_stack:t line_info:t")),
        side("arg_position=position arg_type:t=type arg_name:t=name arg_value:t=value extdata:t"),
    ),
    Many(
        "stream_args",
        "arguments of calls that are streams",
        "argument",
        (*PLACE, *event("event_id")),
        (
            *side("argument_id=argument arg_position=position arg_type:t=type arg_value:t=value stream_id=stream"),
            *stream("stream_name:t=stream.name extdata:t=stream.extdata"),
        ),
        _stream_arguments,
    ),
    Many(
        "pmc_events",
        "counters of kernels as they were measured",
        "counter",
        (*PLACE, *span("name:t"), *side("dispatch_id=dispatch"), *TIMES, *event("event_id")),
        side("counter_name:t=name counter_value:r=value pmc_id=pmc"),
    ),
    Many(
        "counters_collection",
        "counters of kernels, one row per kernel and counter",
        "counter",
        COUNTED,
        (*side("counter_name:t=name value:r value_type:t counter_id=pmc"), *COUNTER),
        _collect_counters,
    ),
)


# -- sums by name, by domain and by device -----------------------------------------------------------------------------
# Specification: gpu-traces.md 3.5. The tool's own views divide integers, add up means, share one hundred percent
# between host and GPU, and count overlapping operations twice. Here a mean is total / count, a percentage is of its
# domain, and busy is the length of a union. Spans that end before they start are in no sum.


TOP = "domain:t name:t total_calls total_duration:r average:r percentage:r total_ns min_ns max_ns std_ns:r"
SECTIONS = {  # of our own summary, under the tool's names of domains
    "kernels": "KERNELS",
    "copies": "MEMORY_COPIES",
    "allocations": "MEMORY_ALLOCATIONS",
    "markers": "MARKERS",
    "api": "API",
    "sync": "SYNCHRONIZATION",
    "regions": "REGIONS",
    "overhead": "OVERHEAD",
}
SUMMARY = tuple(
    Field(name, type_)
    for name, type_ in (
        ("Name", Type.TEXT),
        ("Calls", Type.INTEGER),
        ("DURATION (nsec)", Type.INTEGER),
        ("AVERAGE (nsec)", Type.REAL),
        ("PERCENT (INC)", Type.REAL),
        ("MIN (nsec)", Type.INTEGER),
        ("MAX (nsec)", Type.INTEGER),
        ("STD_DEV", Type.REAL),
    )
)
BUSY = (
    "rank agent_id agent_type_index type:t GpuTime WallTime Busy:r ProcessTime BusyOfProcess:r operations most_at_once"
)
Row = dict[str, Any]


def sum_relations() -> list[Relation]:
    one = partial(_relation, fields=SUMMARY)
    return [
        _relation("top", "calls and time by domain and name", _top, fields_of(TOP)),
        _relation("top_kernels", "calls and time by kernel", partial(_top, only="kernels"), fields_of(TOP)),
        _relation("busy", "for how long devices were busy: unions, never above 1", _busy, fields_of(BUSY)),
        one("kernel_summary", "by kernel", partial(_summary, "kernels")),
        one("memory_copy_summary", "by kind of copy", partial(_summary, "copies")),
        one("memory_allocation_summary", "by operation", partial(_summary, "allocations")),
        one("region_summary", "by call", partial(_summary, "api")),
        one("marker_summary", "by marker", partial(_summary, "markers")),
        one("domain_summary", "by domain: KERNELS, MEMORY_COPIES, HIP, HSA, ...", _read_domains),
    ]


def _relation(
    name: str, title: str, rows: Callable[[Experiment], Iterator[Row]], fields: tuple[Field, ...]
) -> Relation:
    def read(opened: Opened, wanted: Wanted) -> Iterator[Table]:
        assert isinstance(opened, Experiment)
        names = [field.name for field in fields]
        yield Table.from_rows(names, [[row[name] for name in names] for row in rows(opened)])

    return Relation(name, title, fields, read)


def _rows(experiment: Experiment, *by: By) -> Iterator[Row]:
    """Yield the rows of `callgrove summary` that belong to spans, with every column."""
    made = table(summarise(experiment, by), tuple(SECTIONS))
    names = made.names
    for cells in made.rows():
        yield {"std_ns": None, "min_ns": None, "max_ns": None, **dict(zip(names, cells, strict=True))}


def _top(experiment: Experiment, only: str = "") -> Iterator[Row]:
    for row in _rows(experiment):
        if not only or row["section"] == only:
            yield {
                "domain": SECTIONS[row["section"]],
                "name": row["name"],
                "total_calls": row["count"],
                "total_duration": row["total_ns"] / 1e3,
                "average": row["mean_ns"] / 1e3,
                "percentage": row["percent"],
                **{name: row[name] for name in ("total_ns", "min_ns", "max_ns", "std_ns")},
            }


def _summary(section: str, experiment: Experiment) -> Iterator[Row]:
    for row in _rows(experiment):
        if row["section"] == section:
            yield _as_summary(row["name"], row)


def _read_domains(experiment: Experiment) -> Iterator[Row]:
    """Yield calls by their library, all else by what it is."""
    for row in _rows(experiment, By.DOMAIN):
        library = row["domain"] if row["section"] in ("api", "regions") else None
        yield _as_summary(library or SECTIONS[row["section"]], row)


def _as_summary(name: str, row: Row) -> Row:
    columns = ("count", "total_ns", "mean_ns", "percent", "min_ns", "max_ns", "std_ns")
    return dict(zip((f.name for f in SUMMARY), (name, *(row[column] for column in columns)), strict=True))


def _busy(experiment: Experiment) -> Iterator[Row]:
    numbers = _agent_ids(experiment)
    for device in summarise(experiment).devices:
        rank, agent = (number if number >= 0 else None for number in (device.rank, device.agent))
        yield {
            "rank": rank,
            "agent_id": numbers.get((rank, agent), agent),
            "agent_type_index": agent,
            "type": "GPU",
            "GpuTime": device.busy_ns,
            "WallTime": device.span_ns,
            "Busy": _ratio(device.busy_ns, device.span_ns),
            "ProcessTime": device.process_ns,
            "BusyOfProcess": _ratio(device.busy_ns, device.process_ns),
            "operations": device.n_operations,
            "most_at_once": device.most_at_once,
        }


def _agent_ids(experiment: Experiment) -> dict[tuple[int | None, int | None], int]:
    """Return the tool's own number of an agent, by rank and number among the GPUs."""
    lanes = Lanes(experiment)
    words = [as_column(word, lanes.column(word)).plain() for word in ("rank", "agent_type_index", "agent_abs_index")]
    return {(rank, index): number for rank, index, number in zip(*words, strict=True) if number is not None}


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None
