"""Spans under the names of rocprofv3's own views, with its column names, and where they happened in its words.

Specification: gpu-traces.md 3.5. Nothing is joined here that could multiply or drop rows: a view is a choice of spans,
and every cell is looked up for the span itself. So rows without event, thread or agent stay, and a thread meets its
own process only. They work for all families of GPU databases; what a family does not know is NULL.

    id           the number of the span, unique over all inputs (rocpd's ids are unique in one process only)
    nid          the number of the node; `hostname` and `processes.machine_id` tell which one it is
    start, end   nanoseconds, as everywhere
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from callgrove.arrays import ABSENT, Array, Ints
from callgrove.model.experiment import Experiment
from callgrove.model.profiles import ProfileKind
from callgrove.model.table import Column, Table
from callgrove.model.traces.events import PARENT, PLACES, SideRows, SideTable, SpanChunk, SpanKind
from callgrove.query.relations import (
    NOTHING,
    Coded,
    Field,
    Opened,
    Relation,
    Wanted,
    fields_of,
    side_column,
    span_column,
    strings_of,
)

__all__ = [
    "Cell",
    "Lanes",
    "View",
    "ViewReader",
    "as_column",
    "event",
    "event_text",
    "lane",
    "lane_column",
    "numbers",
    "pick",
    "pmc",
    "product",
    "region",
    "side",
    "span",
    "stream",
    "view_relations",
]


# -- lanes: where the spans of a profile happened ----------------------------------------------------------------------
# One column per word of rocprofv3's views, one row per profile.
#
# What the file itself says stands in `Traces.tables`; an experiment without these still has ranks, devices and streams.


class Lanes:
    """The lanes of one experiment."""

    def __init__(self, experiment: Experiment) -> None:
        self._experiment = experiment
        self._columns: dict[str, Array | Coded] = {}
        self._tables: dict[str, Table | None] = {}
        self._rows_by_id: dict[str, dict[tuple[str | None, int], int]] = {}

    def table(self, name: str) -> Table | None:
        """Return a table beside the spans, if there is one."""
        if name not in self._tables:
            make = self._experiment.traces.tables.get(name)
            self._tables[name] = None if make is None else make()
        return self._tables[name]

    @cached_property
    def places(self) -> Table | None:
        table = self.table(PLACES)
        return table if table is not None and len(table) == len(self._experiment.profiles) else None

    @cached_property
    def processes(self) -> Table | None:
        return self.table("processes")

    @cached_property
    def agents(self) -> Table | None:
        return self.table("agents")

    def agents_of(self, part: int) -> tuple[int, int]:
        """Return the row of the first agent of a part of the traces, and how many follow."""
        parts = [] if self.agents is None else self.agents.column("part").plain()
        return (parts.index(part), parts.count(part)) if part in parts else (0, 0)

    def rows_by_id(self, name: str, profile: int, ids: Ints) -> Ints:
        """Return the rows of `queues`, `streams` or `pmc_info`, by ids that the process of a profile gave; -1 is
        none."""
        known = self._ids_of(name)
        guid = lane_column("guid", self.column("guid"), np.array([profile])).plain()[0]
        different, number = np.unique(ids, return_inverse=True)
        rows = np.array([known.get((guid, id_), ABSENT) for id_ in different.tolist()], np.int64)
        return rows[number.reshape(-1)]

    def _ids_of(self, name: str) -> dict[tuple[str | None, int], int]:
        if name not in self._rows_by_id:
            table = self.table(name)
            columns = () if table is None else (table.column("guid").plain(), table.column("id").plain())
            self._rows_by_id[name] = {key: row for row, key in enumerate(zip(*columns, strict=True))}
        return self._rows_by_id[name]

    def rows_of(self, what: str) -> Ints:
        """Return for every profile the row of its `process` or `agent`; -1 is none."""
        if self.places is None:
            return np.full(len(self._experiment.profiles), ABSENT, np.int64)
        return np.array([ABSENT if row is None else row for row in self.places.column(what).plain()], np.int64)

    def column(self, word: str) -> Array | Coded:
        """Return one of the words below, by profile."""
        if word not in self._columns:
            self._columns[word] = self._make_column(word)
        return self._columns[word]

    def _make_column(self, word: str) -> Array | Coded:
        of_process = {"guid": "guid", "pid": "pid", "machine_id": "machine_id", "command": "command"}
        of_agent = {
            "agent_abs_index": "absolute_index",
            "agent_log_index": "logical_index",
            "agent_name": "name",
        }
        if word in of_process:
            return pick(self.processes, of_process[word], self.rows_of("process"))
        if word in of_agent:
            return pick(self.agents, of_agent[word], self.rows_of("agent"))
        make: dict[str, Callable[[], Array | Coded]] = {
            "agent_type": self._agent_types,
            "agent_type_index": lambda: self._identity("gpu_device"),
            "nid": lambda: self._identity("node"),
            "rank": lambda: self._identity("rank"),
            "stream_id": lambda: self._identity("gpu_stream"),
            "tid": self._thread_ids,
            "stream": self._names,
            "hostname": self._hosts,
        }
        return make[word]()

    def _identity(self, column: str) -> Ints:
        return numbers(self._experiment.profiles.identity_list(column))

    def _on_device(self) -> Array:
        return np.isin(self._experiment.profiles.kind, (ProfileKind.GPU_STREAM, ProfileKind.QUEUE, ProfileKind.GPU))

    def _agent_types(self) -> Coded:
        types = pick(self.agents, "type", self.rows_of("agent"))
        if isinstance(types, Coded):
            return types
        return Coded(np.where(self._on_device(), 0, ABSENT), ["GPU"])

    def _thread_ids(self) -> Ints:
        """Return the number that the system gave a thread."""
        profiles = self._experiment.profiles
        threads = profiles.kind == ProfileKind.THREAD
        if self.places is not None:
            return np.where(threads, numbers(self.places.column("number").plain()), NOTHING)
        values, present = profiles.identifiers.pick("THREAD", "physical")
        cells = [v if p else None for v, p in zip(values.tolist(), present.tolist(), strict=True)]
        return np.where(threads, numbers(cells), NOTHING)

    def _names(self) -> Coded:
        profiles = self._experiment.profiles
        return Coded(np.arange(len(profiles)), [name or None for name in profiles.name])

    def _hosts(self) -> Coded:
        names = pick(self.processes, "hostname", self.rows_of("process"))
        return names if isinstance(names, Coded) else Coded(np.full(len(names), ABSENT), [])


def pick(table: Table | None, column: str, rows: Ints) -> Array | Coded:
    """Return a column of some rows of a small table; -1 is not a row. Texts stay numbers."""
    if table is None:
        return np.full(len(rows), NOTHING)
    cells = table.column(column).plain()
    if any(isinstance(cell, str) for cell in cells):
        return Coded(rows, [cell if cell is None else str(cell) for cell in cells])
    return np.append(numbers(cells), NOTHING)[rows]


def numbers(cells: Sequence[int | None]) -> Ints:
    """Return integers of 64 bits; what is none, or does not fit, is NOTHING."""
    return np.array([NOTHING if c is None or not -(2**63) <= c < 2**63 else c for c in cells], np.int64)


def lane_column(name: str, by_profile: Array | Coded, profile: Array) -> Column:
    """Return what a lane is called, for the profile of every row."""
    if isinstance(by_profile, Coded):
        return Column(name, Coded(by_profile.codes[profile], by_profile.strings))
    return Column(name, by_profile[profile], NOTHING)


def as_column(name: str, cells: Array | Coded) -> Column:
    return Column(name, cells, None if isinstance(cells, Coded) else NOTHING)


# -- views of spans ----------------------------------------------------------------------------------------------------


HOST = (SpanKind.API, SpanKind.MARKER, SpanKind.REGION, SpanKind.SYNC, SpanKind.OVERHEAD)


@dataclass(frozen=True)
class Cell:
    """A column of a view and where it comes from: the `span` itself, its `lane`, its row of a `side` table (that of the
    view, or one of OWN_SIDES), the `product` of three cells of such a row, or the `agent`, `queue`, `stream` or `pmc`
    that such a row names (`detail` is then what is wanted of it)."""

    field: Field
    origin: str
    source: str
    detail: str = ""


def _cells(origin: str, words: str) -> tuple[Cell, ...]:
    """Return cells from words like `lds_size=lds name:t`: a column, and its source where that is called otherwise."""
    pairs = [word.partition("=") for word in words.split()]
    fields = fields_of(" ".join(name for name, _, _ in pairs), {"id": "span", "profile": "profile"})
    sources = [source or field.name for field, (_, _, source) in zip(fields, pairs, strict=True)]
    return tuple(Cell(f, origin, *s.partition(".")[::2]) for f, s in zip(fields, sources, strict=True))


span, lane, side = (partial(_cells, origin) for origin in ("span", "lane", "side"))
agent, queue, stream, pmc, product = (
    partial(_cells, origin) for origin in ("agent", "queue", "stream", "pmc", "product")
)
event, event_text, region = (partial(_cells, origin) for origin in ("event", "event_text", "region"))
OWN_SIDES = ("event", "event_text", "region")  # side tables that spans of every kind may have
THINGS = {"queue": "queues", "stream": "streams", "pmc": "pmc_info"}  # what side tables name by an id of its process

PLACE = lane("guid:t nid pid rank hostname:t")
FIRST = (*span("id=span"), *PLACE, *span("profile category:t"))
TIMES = span("start=start_ns end=end_ns duration=duration_ns")
LINKS = span(f"stack_id=correlation parent_stack_id={PARENT}")
AGENT = lane("agent_abs_index agent_log_index agent_type_index agent_type:t")
CORRELATION = event("corr_id=correlation_id")
EVENT = (*event("event_id"), *CORRELATION, *event_text("extdata:t call_stack:t line_info:t"))
REGION = (*FIRST, *lane("tid"), *span("name:t label:t"), *TIMES, *span("depth"), *LINKS, *EVENT)
KERNEL_CELLS = (
    *side("tid=thread kernel_id=kernel dispatch_id=dispatch"),
    *lane("stream_id stream:t"),
    *side("queue_id=queue"),
    *queue("queue:t=queue.name"),
    *AGENT,
)
SIZES = side(
    "grid_x grid_y grid_z workgroup_x workgroup_y workgroup_z lds_size=lds scratch_size=scratch vgpr_count=vgpr "
    "accum_vgpr_count=accum_vgpr sgpr_count=sgpr static_lds_size=static_lds static_scratch_size=static_scratch "
    "code_object_id=code_object"
)
ENDS = {"dst": "destination", "src": "source"}
COPIED = (
    "{end}_device:t={side}.name {end}_agent_abs_index={side}.absolute_index {end}_agent_log_index={side}.logical_index"
)
COPIED += " {end}_agent_type_index={side}.type_index {end}_agent_type:t={side}.type"
NAMES = side("short_name:t demangled_name:t")
ALLOCATED = (
    *lane("tid"),
    *TIMES,
    *side("level:t"),
    *agent(
        "agent_name:t=device.name agent_abs_index=device.absolute_index agent_log_index=device.logical_index "
        "agent_type_index=device.type_index agent_type:t=device.type"
    ),
    *side("address size=bytes queue_id=queue"),
    *queue("queue_name:t=queue.name"),
    *side("stream_id=stream"),
    *stream("stream_name:t=stream.name"),
    *LINKS,
    *CORRELATION,
)
SCRATCH = (*side("alloc_flags=flags"), *event("correlation_id"), *event_text("event_extdata:t=extdata"))


@dataclass(frozen=True)
class View:
    """Some kinds of spans, and the columns that the view of that name has."""

    name: str
    title: str
    cells: tuple[Cell, ...]
    kinds: tuple[SpanKind, ...]
    side: str = ""  # the side table of these spans
    instants: bool | None = None  # only markers that are moments (True), or all but these (False)
    level: str = ""  # of allocations, only those of that level

    @property
    def relation(self) -> Relation:
        return Relation(self.name, self.title, tuple(cell.field for cell in self.cells), partial(_read, self))


VIEWS = (
    View("regions", "calls, markers and regions of threads", REGION, HOST, instants=False),
    View("sample_regions", "markers that are moments", REGION, HOST, instants=True),
    View("regions_and_samples", "both", REGION, HOST),
    View(
        "kernels",
        "kernels, with sizes and registers",
        (*FIRST, *span("name:t"), *KERNEL_CELLS, *TIMES, *SIZES, *LINKS, *region("region:t"), *CORRELATION, *NAMES),
        (SpanKind.KERNEL,),
        "kernel",
    ),
    View(
        "memory_copies",
        "copies, with bytes and both ends",
        (
            *(*FIRST, *span("name:t"), *TIMES, *side("size=bytes"), *lane("stream_id stream_name:t=stream")),
            *(*side("queue_id=queue"), *queue("queue_name:t=queue.name")),
            *(cell for end, name in ENDS.items() for cell in agent(COPIED.format(end=end, side=name))),
            *(*LINKS, *side("tid=thread dst_address=destination_address src_address=source_address")),
            *(*region("region_name:t=region"), *CORRELATION),
        ),
        (SpanKind.COPY, SpanKind.MEMSET),
        "copy",
    ),
    View(
        "memory_allocations",
        "what was allocated and freed",
        (*FIRST, *span("type:t=name"), *ALLOCATED),
        (SpanKind.ALLOC,),
        "alloc",
    ),
    View(
        "scratch_memory",
        "what was allocated and freed of scratch memory",
        (*FIRST, *span("operation:t=name"), *ALLOCATED, *SCRATCH),
        (SpanKind.ALLOC,),
        "alloc",
        level="SCRATCH",
    ),
)


def view_relations() -> list[Relation]:
    return [view.relation for view in VIEWS]


def _read(view: View, opened: Opened, wanted: Wanted) -> Iterator[Table]:
    """Yield the rows of a view, chunk by chunk."""
    assert isinstance(opened, Experiment)
    reader = ViewReader(opened, view.side, [c for c in view.cells if c.field.name in wanted] or [view.cells[0]])
    times = {"start_ns", "end_ns"} if view.instants is not None else set()
    for chunk in opened.traces.spans(sorted(reader.asked | {"kind"} | times)):
        rows = _choose_spans(view, chunk)
        if view.level and len(rows):
            rows = rows[reader.levels(_take(chunk, rows)) == view.level]
        if len(rows):
            yield Table(tuple(reader.columns(_take(chunk, rows))))


def _take(chunk: SpanChunk, rows: Ints) -> SpanChunk:
    return {name: cells[rows] for name, cells in chunk.items()}


def _choose_spans(view: View, chunk: SpanChunk) -> Ints:
    kept = np.isin(chunk["kind"], view.kinds)
    if view.instants is not None:
        moment = (chunk["kind"] == SpanKind.MARKER) & (chunk["start_ns"] == chunk["end_ns"])
        kept &= moment == view.instants
    return np.flatnonzero(kept)


class ViewReader:
    """Some columns, for the spans of any chunk of one experiment."""

    def __init__(self, experiment: Experiment, side: str, cells: list[Cell]) -> None:
        self._experiment, self._cells = experiment, cells
        self._lanes = Lanes(experiment)
        self._side_name = side
        self._sides: dict[str, SideRows] = {}
        spans = {cell.source for cell in cells if cell.origin == "span"} - {"span"}
        spans |= {"start_ns", "end_ns"} if "duration_ns" in spans else set()
        self.asked = (spans | {"profile"}) - {"duration_ns"}

    def _side_rows(self, name: str) -> SideRows:
        if name not in self._sides:
            self._sides[name] = SideRows(self._experiment.traces, name)
        return self._sides[name]

    @cached_property
    def _part_of(self) -> dict[int, int]:
        return {p: k for k, part in enumerate(self._experiment.traces.parts()) for p in part.tolist()}

    def levels(self, chunk: SpanChunk) -> Array:
        """Return the level of every allocation."""
        table, rows = self._side_rows(self._side_name).of(chunk)
        if table is None or "level" not in table.columns:
            return np.full(len(rows), "", object)
        known: Array = np.append(np.asarray(table.columns["level"], object), [""])
        return known[rows]

    def columns(self, chunk: SpanChunk) -> Iterator[Column]:
        """Yield the columns of the view for the spans of a chunk, in order."""
        strings = strings_of(self._experiment)
        for cell in self._cells:
            name = cell.field.name
            if cell.origin == "span":
                yield span_column(name, cell.source, chunk, strings)
            elif cell.origin == "lane":
                yield lane_column(name, self._lanes.column(cell.source), chunk["profile"])
            else:
                yield self._of_side(cell, chunk)

    def _of_side(self, cell: Cell, chunk: SpanChunk) -> Column:
        table, rows = self._side_rows(cell.origin if cell.origin in OWN_SIDES else self._side_name).of(chunk)
        if cell.origin == "product":
            return _product(cell, table, rows)
        if table is None or cell.source not in table.columns:
            return Column(cell.field.name, [None] * len(rows))
        if cell.origin == "side" or cell.origin in OWN_SIDES:
            return side_column(cell.field, cell.source, table, rows)
        number = np.append(np.asarray(table.columns[cell.source]), ABSENT)[rows]
        if cell.origin == "agent":
            return as_column(cell.field.name, pick(self._lanes.agents, cell.detail, self._agents(number, chunk)))
        return self.thing(cell, number, chunk)

    def thing(self, cell: Cell, ids: Ints, chunk: SpanChunk) -> Column:
        """Return what is to be known of queues, streams or counters, given their ids in the process of a chunk's
        spans."""
        name = THINGS[cell.origin]
        rows = self._lanes.rows_by_id(name, int(chunk["profile"][0]), ids)
        return as_column(cell.field.name, pick(self._lanes.table(name), cell.detail, rows))

    def _agents(self, number: Ints, chunk: SpanChunk) -> Ints:
        """Return the rows of agents, of which side tables have the number in their part."""
        part = self._part_of[int(chunk["profile"][0])]
        first, n = self._lanes.agents_of(part)
        return np.where((number >= 0) & (number < n), number + first, ABSENT)


def _product(cell: Cell, table: SideTable | None, rows: Ints) -> Column:
    """Return the product over three axes: how many work-items a grid has."""
    names = [f"{cell.source}_{axis}" for axis in "xyz"]
    if table is None or any(name not in table.columns for name in names):
        return Column(cell.field.name, [None] * len(rows))
    sizes = [np.append(np.asarray(table.columns[name], np.int64), ABSENT)[rows] for name in names]
    known = np.all([size >= 0 for size in sizes], axis=0)
    return Column(cell.field.name, np.where(known, sizes[0] * sizes[1] * sizes[2], ABSENT), ABSENT)
