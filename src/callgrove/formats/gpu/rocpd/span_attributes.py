"""What only some events of rocprofv3's databases have: grids, bytes, arguments, counters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial, reduce
from typing import TYPE_CHECKING

import numpy as np

from callgrove.arrays import ABSENT, Array, Ints
from callgrove.binary.sqlite.cells import MISSING, Cells, Lookup, Type, json_object, json_scalars
from callgrove.formats.events.dataset import CounterRows
from callgrove.formats.gpu.event_tables import Extra, or_absent
from callgrove.formats.gpu.rocpd.tables import LATER, PHASES, TRACK, columns_of
from callgrove.model.traces.events import SideTable

if TYPE_CHECKING:
    from callgrove.formats.gpu.rocpd.reader import RocpdData

__all__ = [
    "FROM_EVENTS",
    "OF_EVENTS",
    "counter_rows",
    "event_extras",
    "region_names",
    "side_pieces",
    "side_table",
    "unusual_phases",
]

INTEGER, REAL, TEXT = Type.INTEGER, Type.REAL, Type.TEXT
KERNEL_COLUMNS = {
    **{f"grid_{axis}": f"grid_size_{axis}" for axis in "xyz"},
    **{f"workgroup_{axis}": f"workgroup_size_{axis}" for axis in "xyz"},
    "lds": "group_segment_size",
    "scratch": "private_segment_size",
    "dispatch": "dispatch_id",
    "kernel": "kernel_id",
    "queue": "queue_id",
    "thread": "tid",
    "agent": "agent_id",
}
COPY_COLUMNS = {
    "bytes": "size",
    "source": "src_agent_id",
    "destination": "dst_agent_id",
    "queue": "queue_id",
    "thread": "tid",
    "source_address": "src_address",
    "destination_address": "dst_address",
}
ALLOCATION_COLUMNS = {
    "bytes": "size",
    "address": "address",
    "device": "agent_id",
    "level": "level",
    "queue": "queue_id",
    "stream": "stream_id",
    "flags": "extdata",
}
PLACES = {"thread": "tid", "agent": "agent_id", "device": "agent_id", "queue": "queue_id", "stream": "stream_id"}
TEXTS = ("level", "extdata")
OF_EVENTS = {  # side tables that are columns of event tables
    "kernel": ("kernel_dispatch", KERNEL_COLUMNS),
    "copy": ("memory_copy", COPY_COLUMNS),
    "alloc": ("memory_allocate", ALLOCATION_COLUMNS),
}
GRAPH_COLUMNS = {"graph_exec": "graph_exec_id", "graph_node": "graph_node_id"}  # of kernels and copies, since 3.0.2
OF_SYMBOLS = {  # what a kernel has of its symbol
    "vgpr": "arch_vgpr_count",
    "accum_vgpr": "accum_vgpr_count",
    "sgpr": "sgpr_count",
    "code_object": "code_object_id",
    "static_lds": "group_segment_size",
    "static_scratch": "private_segment_size",
}
EVENT_JSON = ("call_stack", "line_info", "extdata")  # `{}` in all that rocprofv3 itself wrote so far, but for markers
REGION_NAMES = ("kernel_dispatch", "memory_copy", "memory_allocate")  # tables that may name a range
PHASE_NAMES = {1: "begin", 2: "end"}
UNKNOWN = "[unknown]"
Finish = Callable[[SideTable], SideTable]


def side_table(data: RocpdData, name: str) -> SideTable | None:
    if name in OF_EVENTS:
        base, columns = _columns_of(data, name)
        table = data.side_of(data.table_name(base), columns, TEXTS)
        return None if table is None else _finishing(data, name)(table)
    read: dict[str, Callable[[RocpdData], SideTable | None]] = {
        "argument": _arguments,
        "counter": _counter_values,
        "stack": _stacks,
    }
    if name in FROM_EVENTS:
        return _join_pieces(list(side_pieces(data, name)))
    return read[name](data) if name in read else None


def _join_pieces(pieces: Sequence[SideTable]) -> SideTable | None:
    if not pieces:
        return None
    columns = {name: np.concatenate([np.asarray(p.columns[name]) for p in pieces]) for name in pieces[0].columns}
    return SideTable(np.concatenate([piece.span for piece in pieces]), columns)


def side_pieces(data: RocpdData, name: str) -> Iterator[SideTable]:
    """Yield a side table of `OF_EVENTS` or `FROM_EVENTS`, some rows at a time."""
    if name in FROM_EVENTS:
        yield from FROM_EVENTS[name](data)
        return
    base, columns = _columns_of(data, name)
    finish = _finishing(data, name)
    for piece in data.side_pieces(data.table_name(base), columns, TEXTS):
        yield finish(piece)


def _columns_of(data: RocpdData, name: str) -> tuple[str, Mapping[str, str]]:
    """Return the event table that a side table is made of, and its columns, with those of later schemas where they
    exist."""
    base, columns = OF_EVENTS[name]
    has_graphs = data.file.has(data.table_name(base), *GRAPH_COLUMNS.values())
    is_on_tracks = data.file.has(data.table_name(base), TRACK)
    return base, {**columns, **(GRAPH_COLUMNS if has_graphs else {}), **({TRACK: TRACK} if is_on_tracks else {})}


def _finishing(data: RocpdData, name: str) -> Finish:
    """Return the function that converts cells of the file to those of the side table."""
    _, columns = _columns_of(data, name)
    steps: list[Finish] = [partial(_with_tracks, data)] if TRACK in columns else []
    if "thread" in columns:
        steps.append(_with_numbers_of_threads(data))
    if name == "kernel":
        steps.append(_with_symbols(data))
    elif name == "copy":
        steps.append(lambda table: _with_devices(data, table, "source", "destination"))
    else:
        steps.append(lambda table: _with_devices(data, _with_flags(table), "device"))
    return lambda table: reduce(lambda made, step: step(made), steps, table)


def _with_tracks(data: RocpdData, table: SideTable) -> SideTable:
    """Return the table without its column of tracks, and with what these say where rows say nothing themselves."""
    cells = {name: np.asarray(column) for name, column in table.columns.items()}
    tracks = cells.pop(TRACK)
    for name, raw in PLACES.items():
        if name in cells:
            cells[name] = np.where(cells[name] == ABSENT, or_absent(data.column_of_tracks(raw, tracks)), cells[name])
    return SideTable(table.span, cells)


def _with_numbers_of_threads(data: RocpdData) -> Finish:
    """Return the function that replaces ids of threads by the numbers that these have in their process. In rocprofv3's
    files of schema 3 both are equal."""
    threads = data.small("info_thread", id=INTEGER, tid=INTEGER)
    if (threads["id"] == threads["tid"]).all():
        return lambda table: table
    known, tids = Lookup(threads["id"], np.arange(len(threads["id"]))), np.append(or_absent(threads["tid"]), ABSENT)

    def finish(table: SideTable) -> SideTable:
        ids = np.asarray(table.columns["thread"])
        number = tids[known[ids]]
        return SideTable(table.span, {**table.columns, "thread": np.where(number == ABSENT, ids, number)})

    return finish


def _with_symbols(data: RocpdData) -> Finish:
    symbols = data.small("info_kernel_symbol", id=INTEGER, **dict.fromkeys(OF_SYMBOLS.values(), INTEGER))
    known = Lookup(symbols["id"], np.arange(len(symbols["id"])))
    columns = {new: np.append(or_absent(symbols[old]), ABSENT) for new, old in OF_SYMBOLS.items()}

    def finish(table: SideTable) -> SideTable:
        place = known[np.asarray(table.columns["kernel"])]
        return SideTable(table.span, {**table.columns, **{name: column[place] for name, column in columns.items()}})

    return finish


def _with_devices(data: RocpdData, table: SideTable, *names: str) -> SideTable:
    """Replace ids of agents in some columns by the numbers of devices."""
    devices = {name: data.devices_of(np.asarray(table.columns[name])) for name in names}
    return SideTable(table.span, {**table.columns, **devices})


def _with_flags(table: SideTable) -> SideTable:
    """Add the flags that the JSON of scratch memory has."""
    texts = np.asarray(table.columns["flags"], object).tolist()
    flags = {text: json_scalars(text).get("flags", "") for text in set(texts)}
    numbers = [int(flags[text]) if flags[text].isdecimal() else ABSENT for text in texts]
    return SideTable(table.span, {**table.columns, "flags": np.array(numbers, np.int64)})


def _arguments(data: RocpdData) -> SideTable | None:
    texts = dict.fromkeys(("type", "name", "value", "extdata"), TEXT)
    rows = dict(data.small("arg", id=INTEGER, event_id=INTEGER, position=INTEGER, **texts))
    if not len(rows["event_id"]):
        return None
    span = data.span_of_event[rows.pop("event_id")].astype(np.int64)
    known = span >= 0
    rows["argument"] = or_absent(rows.pop("id"))
    same: dict[str | None, str | None] = {}  # nearly all of these texts are equal
    rows["extdata"] = np.array([same.setdefault(text, text) for text in rows["extdata"].tolist()], object)
    return SideTable(span[known], {name: cells[known] for name, cells in rows.items()})


def _event_numbers(data: RocpdData) -> Iterator[SideTable]:
    """Yield the event that each span names, and its correlation."""
    for piece, ids, between in _events_named(data):
        rows = _table_between(data, {"id": INTEGER, "correlation_id": INTEGER}, between)
        place = Lookup(rows["id"], np.arange(len(rows["id"])))[ids]
        correlation = np.append(or_absent(rows["correlation_id"]), ABSENT)[place]
        yield SideTable(piece.span, {"event_id": ids, "correlation_id": correlation})


def _event_texts(data: RocpdData) -> Iterator[SideTable]:
    """Yield the JSON of the event that each span names."""
    for piece, ids, between in _events_named(data):
        rows = _table_between(data, {"id": INTEGER, **dict.fromkeys(EVENT_JSON, TEXT)}, between)
        place = Lookup(rows["id"], np.arange(len(rows["id"])))[ids]
        yield SideTable(piece.span, {name: np.append(rows[name], [None])[place] for name in EVENT_JSON})


def _events_named(data: RocpdData) -> Iterator[tuple[SideTable, Ints, tuple[int, int]]]:
    """Yield spans, some at a time, with the ids of their events and the range of these ids; spans without an event are
    left out."""
    if data.table_name("event") not in data.file.tables:
        return
    for table in data.event_tables:
        for every in data.side_pieces(table, {"event_id": "event_id"}):
            piece = every.take(np.flatnonzero(np.asarray(every.columns["event_id"]) >= 0))
            if len(piece.span):
                ids = np.asarray(piece.columns["event_id"])
                yield piece, ids, (int(ids.min()), int(ids.max()))


def _table_between(data: RocpdData, columns: Mapping[str, Type], between: tuple[int, int]) -> Cells:
    """Return columns of the event table for the rows in a range."""
    parts = list(data.file.chunks(data.table_name("event"), columns, between))
    nothing: dict[str, Array] = {name: np.empty(0, object if t is TEXT else np.int64) for name, t in columns.items()}
    return {name: np.concatenate([nothing[name], *(part[name] for part in parts)]) for name in columns}


def _regions_of_operations(data: RocpdData) -> Iterator[SideTable]:
    """Yield the ranges that kernels and copies belong to according to the file."""
    for extra in region_names(data):
        yield SideTable(extra.span, {"region": extra.value})


FROM_EVENTS: Mapping[str, Callable[[RocpdData], Iterator[SideTable]]] = {
    "event": _event_numbers,
    "event_text": _event_texts,
    "region": _regions_of_operations,
}


def _counter_values(data: RocpdData) -> SideTable | None:
    """Return the counters of kernels, one row per value; those of samples are counters over time."""
    instance = [name for name in LATER["pmc_event"] if data.file.has(data.table_name("pmc_event"), name)]
    raw = dict.fromkeys(instance, INTEGER)
    rows = data.small("pmc_event", event_id=INTEGER, pmc_id=INTEGER, value=REAL, **raw)
    if not len(rows["event_id"]):
        return None
    span = data.span_of_event[rows["event_id"]].astype(np.int64)
    samples = data.table_name("sample")
    end = data.first(samples) if samples in data.counts else data.count()
    known = (span >= 0) & (span < end)
    names, types = _counter_texts(data, rows["pmc_id"][known])
    columns = {
        "name": names,
        "value": rows["value"][known],
        "value_type": types,
        "pmc": or_absent(rows["pmc_id"])[known],
    }
    return SideTable(span[known], {**columns, **{name: or_absent(rows[name])[known] for name in instance}})


def _counter_texts(data: RocpdData, ids: Ints) -> tuple[Array, Array]:
    """Return the names of counters, and whether their values add up (ACCUM) or not (ABS, RELATIVE)."""
    rows = data.small("info_pmc", id=INTEGER, name=TEXT, value_type=TEXT)
    place = Lookup(rows["id"], np.arange(len(rows["id"])))[ids]
    return np.append(rows["name"], "unknown counter")[place], np.append(rows["value_type"], "")[place]


def _stacks(data: RocpdData) -> SideTable | None:
    """Return the callers of events, where events tell them, or where schema 4 has a table of them."""
    parts = [*_stacks_in_json(data), *_listed_stacks(data)]
    every, frames = np.concatenate([np.empty(0, np.int64), *(spans for spans, _ in parts)]), [f for _, f in parts]
    stacks = [stack for some in frames for stack in some]
    if not stacks:
        return None
    return SideTable(every, {"frames": tuple(_above(stacks, data.names_of_spans(every)))})


def _stacks_in_json(data: RocpdData) -> Iterator[tuple[Ints, Sequence[tuple[str, ...]]]]:
    """Yield spans with the frames in the JSON of their events: `{"0": {"name": "main", ...}, "1": ...}`."""
    table = data.table_name("event")
    if not data.file.has(table, "call_stack"):
        return
    for cells in data.file.chunks(table, {"id": INTEGER, "call_stack": TEXT}, unlike=("call_stack", "{}")):
        span = data.span_of_event[cells["id"]].astype(np.int64)
        stacks = [tuple(stack_frames(text)) for text in cells["call_stack"].tolist()]
        known = [k for k, frames in enumerate(stacks) if frames and span[k] >= 0]
        yield span[known], [stacks[k] for k in known]


def _listed_stacks(data: RocpdData) -> Iterator[tuple[Ints, Sequence[tuple[str, ...]]]]:
    """Yield spans with the frames of schema 4's table of call stacks, the outermost first; its depth 0 is the innermost
    frame. A frame whose place in the program is not listed is `[unknown]`."""
    rows = data.small("call_stack", event_id=INTEGER, pc_id=INTEGER, depth=INTEGER)
    if not len(rows["event_id"]):
        return
    span = data.span_of_event[rows["event_id"]].astype(np.int64)
    order = np.lexsort((-rows["depth"], span))
    order = order[span[order] >= 0]
    if len(order):
        spans, firsts = np.unique(span[order], return_index=True)
        functions, _, _ = _places_in_program(data, rows["pc_id"][order])
        parts = np.split(functions, firsts[1:])
        yield spans, [tuple(name or UNKNOWN for name in part.tolist()) for part in parts]


def _places_in_program(data: RocpdData, ids: Ints) -> tuple[Array, Array, Array]:
    """Return function, file and line of program counters by id."""
    rows = data.small("info_pc", id=INTEGER, function=TEXT, file=TEXT, line=INTEGER)
    place = Lookup(rows["id"], np.arange(len(rows["id"])))[ids]
    function, file = (np.append(rows[name], [None])[place] for name in ("function", "file"))
    return function, file, np.append(rows["line"], MISSING)[place]


def _lines_of_events(data: RocpdData) -> Iterator[Extra]:
    """Yield where in the source code events come from, according to schema 4's table of it."""
    rows = data.small("line_info", event_id=INTEGER, source_code_id=INTEGER, pc_id=INTEGER)
    if not len(rows["event_id"]):
        return
    span = data.span_of_event[rows["event_id"]].astype(np.int64)
    known = np.flatnonzero(span >= 0)
    if not len(known):
        return
    sources = data.small("info_source_code", id=INTEGER, file=TEXT, line_number=INTEGER)
    place = Lookup(sources["id"], np.arange(len(sources["id"])))[rows["source_code_id"][known]]
    _, pc_file, pc_line = _places_in_program(data, rows["pc_id"][known])
    file, line = np.append(sources["file"], [None])[place], np.append(sources["line_number"], MISSING)[place]
    cells = zip(file.tolist(), line.tolist(), pc_file.tolist(), pc_line.tolist(), strict=True)
    texts = [_line_text(*((f, n) if f is not None else (pf, pn))) for f, n, pf, pn in cells]
    yield Extra("event.line_info", span[known], np.array(texts, object))


def _line_text(file: str | None, line: int) -> str | None:
    return file if file is None or line == MISSING else f"{file}:{line}"


def stack_frames(text: str | None) -> list[str]:
    """Return the names of numbered frames, by number; empty where the JSON is something else."""
    frames = json_object(text)
    if not all(key.isdecimal() for key in frames):
        return []
    cells = [frames[key] for key in sorted(frames, key=int)]
    names = [cell.get("name") if isinstance(cell, dict) else cell for cell in cells]
    return [str(name) for name in names if name is not None]


def _above(stacks: Sequence[tuple[str, ...]], names: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Yield the frames above each span, the outermost first. The format does not say which end of a stack is number 0;
    an end that is the span itself is taken as the innermost frame, and left out."""
    for stack, name in zip(stacks, names, strict=True):
        if stack and name == stack[0] and name != stack[-1]:
            stack = stack[::-1]
        yield stack[:-1] if stack and stack[-1] == name else stack


def region_names(data: RocpdData) -> Iterator[Extra]:
    """Yield the names that rocprofv3 shows instead of the kernel's when it is told to rename; most are empty."""
    strings = data.small("string", id=INTEGER, string=TEXT)
    known, texts = Lookup(strings["id"], np.arange(len(strings["id"]))), np.append(strings["string"], [None])
    for base in REGION_NAMES:
        if not data.file.has(data.table_name(base), "region_name_id"):
            continue
        for piece in data.side_pieces(data.table_name(base), {"region_name": "region_name_id"}):
            yield Extra("region_name", piece.span, texts[known[np.asarray(piece.columns["region_name"])]])


def unusual_phases(data: RocpdData) -> Iterator[Extra]:
    """Yield what 4.0.0 says of the beginning and the end of events, where it is not that they begin and end; of
    samples, where they are one of the two."""
    for table in data.event_tables:
        names = [name for name in PHASES if data.file.has(table, name)]
        for piece in data.side_pieces(table, {name: name for name in names}) if names else ():
            for name in names:
                phase = np.asarray(piece.columns[name])
                rows = np.flatnonzero((phase > 0) & (phase != PHASES[name]))
                texts = [PHASE_NAMES.get(number, str(number)) for number in phase[rows].tolist()]
                yield Extra(name, piece.span[rows], np.array(texts, object))


def event_extras(data: RocpdData) -> Iterator[Extra]:
    """Yield the JSON of events, unless it is empty or only a marker's text, and unknown columns of the event table."""
    table = data.table_name("event")
    columns = data.file.tables.get(table, ())
    unknown = [name for name in columns if name not in columns_of("event")]
    for column in (*(name for name in EVENT_JSON if name in columns), *unknown):
        for cells in data.file.chunks(table, {"id": INTEGER, column: TEXT}, unlike=(column, "{}")):
            span, value = data.span_of_event[cells["id"]].astype(np.int64), cells[column]
            if column == "extdata":
                only_text = {text for text in set(value.tolist()) if set(json_object(text)) == {"message"}}
                value = np.array([None if text in only_text else text for text in value.tolist()], object)
            yield Extra(f"event.{column}", span[span >= 0], value[span >= 0])
    yield from _lines_of_events(data)


def counter_rows(data: RocpdData) -> CounterRows | None:
    """Return counters over time: those of samples, which share the event or, since 3.0.3, are named by it."""
    rows = data.small("pmc_event", event_id=INTEGER, pmc_id=INTEGER, value=REAL, sample_id=INTEGER)
    samples = data.small("sample", id=INTEGER, track_id=INTEGER, timestamp=INTEGER, event_id=INTEGER)
    if not len(rows["value"]) or not len(samples["event_id"]):
        return None
    each = np.arange(len(samples["event_id"]))
    named = rows["sample_id"] != MISSING
    by_name, by_event = Lookup(samples["id"], each), Lookup(samples["event_id"], each)
    place = np.where(named, by_name[rows["sample_id"]], by_event[rows["event_id"]])
    known = place >= 0
    if not known.any():
        return None
    at = place[known]
    lane = data.lanes_of_tracks(samples["track_id"][at])
    texts, number = np.unique(_counter_texts(data, rows["pmc_id"][known])[0].astype(str), return_inverse=True)
    times, values = samples["timestamp"][at], rows["value"][known]
    return CounterRows(lane, number.astype(np.int32), times, values, tuple(texts.tolist()))
