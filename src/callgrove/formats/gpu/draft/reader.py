"""The draft schema of multi-node profiling data: 11 tables, one `strings` table for all names.

Specification: gpu-traces.md section 2.

    strings, process, thread, cpu_info, gpu_info          who
    instrumentation_regions, gpu_kernel_launches, memory_operations    what happened
    call_stacks                                           samples: one row per frame
    hardware_counters                                     quantities over time
    binary_analysis_info                                  symbols: where functions lie
    metadata                                              ours; files of others do without it

Deviations: files made from the document's own text have ids that are NULL (the row id stands for them), names in tables
of their own (`function_names`, `kernel_names`, ...), times that are dates, and no table of ours. What the schema has no
column for (category, correlation, queue) is read from the JSON in `additional_info`: schema.py.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cached_property

import numpy as np

from callgrove.arrays import ABSENT, Array, Bools, Ids, Ints
from callgrove.binary.sqlite.cells import MISSING, Cells, Lookup, Type
from callgrove.binary.sqlite.database import SqliteFile
from callgrove.formats.events.dataset import CounterRows, Stacks
from callgrove.formats.gpu.draft.lanes import DraftLanes
from callgrove.formats.gpu.draft.schema import (
    COUNTERS,
    INFO,
    KERNELS,
    KIND_OF_CATEGORY,
    MEMORY,
    REGIONS,
    SCHEMA,
    STACKS,
    TABLES,
    Infos,
    others_info,
)
from callgrove.formats.gpu.event_tables import EventTable, Extra, or_absent
from callgrove.model.experiment import Severity
from callgrove.model.traces.events import SideTable, SpanKind
from callgrove.model.traces.intervals import enclosing

__all__ = ["DraftData", "addresses", "datasets", "stacks_of", "symbol_of"]


# Samples of call stacks in the draft schema: one row per frame.
#
# Specification: gpu-traces.md 2.3. Rows that share process, thread and time are the frames of one sample. The document
# does not say which end of a stack is depth 0: where rows name their callers, these do. Depths that are missing in
# between are unknown frames. A row of ours with `{"idle": true}` is a sample in which nothing ran.


MOST_UNKNOWN = 1024  # frames that a hole in the depths may stand for


def stacks_of(rows: dict[str, Array], lane: Ints, function: Ids, file: Ids, idle: Bools) -> Stacks:
    """Return the samples by lane and time, with frames from the outermost to the innermost."""
    depth = np.where(rows["stack_depth"] == MISSING, 0, rows["stack_depth"])
    inwards = _grows_inwards(depth, rows["parent_sample_id"])
    depth = depth if inwards else -depth
    order = np.lexsort((depth, rows["timestamp"], lane))
    when, where, depth = rows["timestamp"][order], lane[order], depth[order]
    new = np.append(True, (np.diff(when) != 0) | (np.diff(where) != 0))
    # frame k stands behind as many unknown ones as depths are missing before it
    step = np.where(new, depth if inwards else 0, np.diff(depth, prepend=0) - 1)
    missing = np.clip(step, 0, MOST_UNKNOWN)
    present = np.cumsum(missing + 1) - 1
    n = int(present[-1]) + 1
    frames = {"function": np.full(n, ABSENT, np.int32), "file": np.full(n, ABSENT, np.int32)}
    line = np.full(n, ABSENT, np.int64)
    frames["function"][present], frames["file"][present] = function[order], file[order]
    line[present] = or_absent(rows["line_number"])[order]
    bounds = np.append((present - missing)[new], n)
    is_busy = np.ones(n, np.bool_)
    is_busy[present] = ~idle[order]
    before = np.append(0, np.cumsum(is_busy))
    return Stacks(
        where[new].astype(np.int32),
        when[new],
        before[bounds],
        frames["function"][is_busy],
        frames["file"][is_busy],
        line[is_busy],
    )


def _grows_inwards(depth: Ints, parent: Ints) -> bool:
    """Return whether depth 0 is the outermost frame: then no frame at depth 0 has a caller."""
    return not (parent[depth == depth.min()] != MISSING).any()


def addresses(texts: Array) -> Ints:
    """Parse addresses in text, such as 0x7f3a...; anything else becomes -1."""

    def number(text: str | None) -> int:
        try:
            address = int(text, 16) if text and text.lower().startswith("0x") else ABSENT
        except ValueError:
            return ABSENT
        return address if address < 2**63 else ABSENT

    return np.array([number(text) for text in texts.tolist()], np.int64)


def symbol_of(symbols: dict[str, Array], process: Ints, address: Ints) -> Ints:
    """Return, for each address, the symbol of its process that starts last at or before it and ends after it; -1 where
    there is none."""
    order = np.lexsort((symbols["start_address"], symbols["process_id"]))
    out = np.full(len(address), ABSENT, np.int64)
    for process_id in np.unique(process).tolist():
        rows = np.flatnonzero(process == process_id)
        here = order[symbols["process_id"][order] == process_id]
        place = np.searchsorted(symbols["start_address"][here], address[rows], side="right") - 1
        symbol = np.append(here, ABSENT)[place]
        inside = (place >= 0) & (address[rows] >= 0)
        inside &= np.append(symbols["end_address"], 0)[symbol] > address[rows]
        out[rows] = np.where(inside, symbol, ABSENT)
    return out


INTEGER, TEXT, TIME = Type.INTEGER, Type.TEXT, Type.TIME
US = 1000  # nanoseconds
KIND_OF_WORD = {kind.word: kind for kind in SpanKind}
REGISTERS = ("scratch", "vgpr", "accum_vgpr", "sgpr")


def datasets(file: SqliteFile) -> list[DraftData]:
    return [DraftData(file)]


class DraftData(DraftLanes):
    """A data set of the draft schema: all tables of a file."""

    # -- events ------------------------------------------------------------------------------------------------------

    def make_column(self, table: EventTable, column: str, cells: Cells) -> Array:
        make: Mapping[str, Callable[[], Array]] = {
            "start_ns": lambda: cells[table.needs["start_ns"][0]],
            "end_ns": lambda: self._ends(table, cells),
            "kind": lambda: self._kinds(table, cells),
            "category": lambda: self._categories(cells),
            "name": lambda: self._name(table, cells),
            "label": lambda: self._label(table, cells),
            "lane": lambda: self._lane(table, cells),
            "correlation": lambda: self._correlations(table, cells),
            "parent_correlation": lambda: self._infos(cells).number("parent_corr"),
        }
        return make[column]()

    def _ends(self, table: EventTable, cells: Cells) -> Ints:
        """Return the ends of events; regions that are still open end with the last process."""
        if table == MEMORY:
            lasting: Ints = np.where(cells["duration_us"] == MISSING, 0, cells["duration_us"]) * US
            return np.asarray(cells["timestamp"] + self._infos(cells).read_signed("duration_ns", lasting))
        end = cells["end_time"]
        if table != REGIONS:
            return end
        still_open = int((end == MISSING).sum())
        self.count_of_chunk(Severity.NOTE, f"{table.name}: {{}} have no end; they end with the process", still_open)
        last = max((p.end_ns for p in self.processes), default=MISSING)
        return np.where(end == MISSING, np.maximum(cells["start_time"], last), end)

    def _kinds(self, table: EventTable, cells: Cells) -> Ids:
        if table == MEMORY:
            return self._operations(cells)
        if table == KERNELS:
            return self.kinds(table, cells)
        categories = self._categories(cells)
        words = [text.partition("_")[0] for text in self._names.all] + [""]
        by_category = np.array([KIND_OF_CATEGORY.get(word, SpanKind.REGION) for word in words], np.int32)[categories]
        infos = self._infos(cells)
        told = np.array([KIND_OF_WORD.get(word or "", ABSENT) for word in infos.texts("kind")] or [ABSENT])[infos.which]
        return np.where(told >= 0, told, by_category).astype(np.int32)

    def _name(self, table: EventTable, cells: Cells) -> Ids:
        if table == REGIONS:
            return self._look_up_column_names(table.name, "region_name_id", cells["region_name_id"])
        if table == KERNELS:
            return self._look_up_column_names(table.name, "kernel_id", cells["kernel_id"])
        names = self._from_texts(cells, "name")
        types = self._names.numbers([(text or "OTHER").upper() for text in cells["operation_type"].tolist()])
        return np.where(names >= 0, names, types)

    def _label(self, table: EventTable, cells: Cells) -> Ids:
        told = self._from_texts(cells, "label")
        return np.where(told >= 0, told, self._name(table, cells)).astype(np.int32)

    def _lane(self, table: EventTable, cells: Cells) -> Ids:
        lane = self._lane_or_unknown(table, cells)
        rows = np.flatnonzero(self._on_device(table, cells))
        keys = np.stack(self._queue_key(cells))[:, rows].T.tolist()
        lane[rows] = [self._queues[p, g, q] for p, g, q in keys]
        return lane.astype(np.int32)

    def _lane_or_unknown(self, table: EventTable, cells: Cells) -> Ints:
        told, lane = self._told_lanes(cells), self._thread[cells["thread_id"]].astype(np.int64)
        unknown = self._unknown[self._owners(cells["process_id"], table.name)]
        return np.where(told >= 0, told, np.where(lane >= 0, lane, unknown))

    def _correlations(self, table: EventTable, cells: Cells) -> Ints:
        """Return correlations from the JSON. Without one, a region gets its id, and an operation that of the region
        that was open at its launch."""
        infos = self._infos(cells)
        told, silent = infos.number("corr"), ~infos.has("corr")
        if table == REGIONS:
            ids = np.where(cells["id"] == MISSING, cells["rowid"], cells["id"])
            return np.where(silent, ids, told)
        when = cells["launch_time"] if table == KERNELS else cells["timestamp"]
        lacking = np.flatnonzero(silent & (when != MISSING))
        if len(lacking):
            start, end, thread, correlation = self._open_regions
            asked = when[lacking]
            region = enclosing((start, end), (asked, asked), thread, cells["thread_id"][lacking])
            told[lacking] = np.append(correlation, ABSENT)[region]
        return told

    @cached_property
    def _open_regions(self) -> tuple[Ints, Ints, Ints, Ints]:
        columns = ("start_ns", "end_ns", "correlation")
        parts: list[tuple[Array, ...]] = []
        here, self._chunk = self._chunk, self.first(REGIONS.name) if REGIONS.name in self.counts else 0
        for cells in self._file.chunks(REGIONS.name, REGIONS.raw((*columns, "lane"))):
            parts.append((*(self.make_column(REGIONS, column, cells) for column in columns), cells["thread_id"]))
            self._chunk += len(cells["rowid"])
        self._chunk = here  # what is counted there is counted as when these regions themselves are read
        if not parts:
            none = np.empty(0, np.int64)
            return none, none, none, none
        start, end, correlation, thread = (np.concatenate(column) for column in zip(*parts, strict=True))
        return start, end, thread, correlation

    # -- what only some events have ------------------------------------------------------------------------------------

    def find_known_columns(self, table: EventTable) -> Collection[str]:
        return {column.partition(" ")[0] for column in SCHEMA[table.name]}

    def extras(self) -> Iterator[Extra]:
        """Yield the cells of unknown columns, the source places of regions, and the parts of the JSON that others
        wrote."""
        yield from super().extras()
        raw = {"rowid": INTEGER, "file_id": INTEGER, "line_number": TEXT, INFO: TEXT}
        for table in (table for table in TABLES if table.name in self.counts):
            first = self.first(table.name)
            for cells in self._file.chunks(table.name, raw):
                span = np.arange(first, first + len(cells["rowid"]))
                first += len(span)
                if table == REGIONS:
                    file = self._look_up_column_names(REGIONS.name, "file_id", cells["file_id"])
                    yield Extra("file", span, np.array([*self._names.all, None], object)[file])
                    yield Extra("line_number", span, cells["line_number"])
                yield Extra(INFO, span, others_info(cells[INFO]))

    def side(self, name: str) -> SideTable | None:
        if name == "extra":
            return self.extra()
        read = {"kernel": self._kernels, "copy": self._copies, "alloc": self._allocations, "counter": self._on_kernels}
        with self._file.reading():
            return read[name]() if name in read else None

    def _kernels(self) -> SideTable | None:
        columns = {f"grid_{a}": f"grid_size_{a}" for a in "xyz"} | {f"workgroup_{a}": f"block_size_{a}" for a in "xyz"}
        table = self.side_of(KERNELS.name, columns | {"lds": "shared_mem_bytes", "dispatch": "dispatch_id"})
        if table is None:
            return None
        values = {name: np.asarray(cells) for name, cells in table.columns.items()}
        if self.metadata.get("grid_unit") != "workitems":
            for axis in "xyz":  # the draft counts blocks
                blocks, items = values[f"grid_{axis}"], values[f"workgroup_{axis}"]
                values[f"grid_{axis}"] = np.where((blocks < 0) | (items < 0), ABSENT, blocks * items)
        rows = self._file.table(KERNELS.name, {"rowid": INTEGER, "thread_id": INTEGER, INFO: TEXT})
        infos = Infos(rows[INFO])
        registers = {name: infos.number(name) for name in REGISTERS if infos.has(name).any()}
        thread = self._thread[rows["thread_id"]]
        if (thread >= 0).any():
            values["thread"] = np.array([*(lane.number for lane in self.lanes), ABSENT], np.int64)[thread]
        return SideTable(table.span, {**infos.sides(len(self.devices)), **registers, **values})

    def _copies(self) -> SideTable | None:
        """Return the side table of copies, and of memsets, which are stored as regions."""
        rows, cells = self._memory(SpanKind.COPY)
        spans, sizes = rows + self.first(MEMORY.name), or_absent(cells["size_bytes"])[rows]
        regions = self._file.table(REGIONS.name, {"rowid": INTEGER, INFO: TEXT})
        infos = Infos(regions[INFO])
        stored = np.flatnonzero(infos.number("bytes") >= 0)
        if not len(stored) + len(rows):
            return None
        memset_spans = stored + (self.first(REGIONS.name) if REGIONS.name in self.counts else 0)
        columns = {"bytes": np.append(infos.number("bytes")[stored], sizes)}
        for word in ("source_address", "destination_address"):
            if (cells[word][rows] != MISSING).any():
                columns[word] = np.append(np.full(len(stored), ABSENT, np.int64), or_absent(cells[word][rows]))
        more = Infos(np.append(regions[INFO][stored], cells[INFO][rows])).sides(len(self.devices))
        return SideTable(np.append(memset_spans, spans), {**more, **columns})

    def _allocations(self) -> SideTable | None:
        rows, cells = self._memory(SpanKind.ALLOC)
        if not len(rows):
            return None
        to, origin = cells["destination_address"][rows], cells["source_address"][rows]
        columns: dict[str, Array] = {"bytes": or_absent(cells["size_bytes"])[rows]}
        columns["address"] = or_absent(np.where(to != MISSING, to, origin))
        infos = Infos(cells[INFO][rows])
        columns["level"] = np.array([text or "REAL" for text in infos.texts("level")], object)[infos.which]
        return SideTable(rows + self.first(MEMORY.name), {**infos.sides(len(self.devices)), **columns})

    def _memory(self, kind: SpanKind) -> tuple[Ints, Cells]:
        """Return the rows of memory operations of a kind, and the cells of all memory operations."""
        texts = ("operation_type", INFO)
        raw = (*texts, "size_bytes", "source_address", "destination_address")
        cells = self._file.table(MEMORY.name, {name: TEXT if name in texts else INTEGER for name in raw})
        if MEMORY.name not in self.counts:
            return np.empty(0, np.int64), cells
        return np.flatnonzero(self._operations(cells) == kind), cells

    # -- counters and samples ------------------------------------------------------------------------------------------

    def _counter_rows(self) -> tuple[dict[str, Array], Ids, Ints]:
        """Read counters, their names, and the launch of each, which only our writer stores; -1 elsewhere."""
        columns = dict.fromkeys(("process_id", "thread_id", "event_id"), INTEGER)
        rows = self._rows("hardware_counters", **columns, timestamp=TIME, value=Type.REAL, **{INFO: TEXT})
        return (
            rows,
            self._look_up_column_names(COUNTERS.name, "event_id", rows["event_id"]),
            Infos(rows[INFO]).number("kernel"),
        )

    def _on_kernels(self) -> SideTable | None:
        rows, names, kernel = self._counter_rows()
        if KERNELS.name not in self.counts or not (kernel >= 0).any():
            return None
        ids = self._rows(KERNELS.name)["id"]
        place = Lookup(ids, np.arange(len(ids)))[kernel]
        selected = np.flatnonzero((place >= 0) & (kernel >= 0))
        texts = np.array([*self._names.all, ""], object)[names[selected]]
        span = place[selected].astype(np.int64) + self.first(KERNELS.name)
        more = Infos(rows[INFO][selected]).sides(len(self.devices))
        return SideTable(span, {**more, "name": texts, "value": rows["value"][selected]})

    def counters(self) -> CounterRows | None:
        with self._file.reading():
            rows, names, kernel = self._counter_rows()
            selected = np.flatnonzero(kernel < 0)
            if not len(selected):
                return None
            lane = self._lane_or_unknown(COUNTERS, rows)[selected]
        different, number = np.unique(names[selected], return_inverse=True)
        texts = tuple(self._text(name) for name in different.tolist())
        when, value = rows["timestamp"][selected], rows["value"][selected]
        return CounterRows(lane.astype(np.int32), number.astype(np.int32), when, value, texts)

    def _symbolise(self, rows: dict[str, Array]) -> None:
        """Fill in function, file and line of frames that are only an address, from the symbol around it."""
        columns = ("process_id", "start_address", "end_address", "function_id", "file_id", "line_number")
        symbols = self._rows("binary_analysis_info", **dict.fromkeys(columns, INTEGER))
        bare = np.flatnonzero(rows["function_id"] == MISSING)
        if not len(bare) or not len(symbols["id"]):
            return
        symbol = symbol_of(symbols, rows["process_id"][bare], addresses(rows["call_site"][bare]))
        known = symbol >= 0
        for column in ("function_id", "file_id", "line_number"):
            rows[column][bare[known]] = symbols[column][symbol[known]]

    def stacks(self) -> Stacks | None:
        columns = {"process_id": INTEGER, "thread_id": INTEGER, "timestamp": TIME, "stack_depth": INTEGER}
        columns |= {"function_id": INTEGER, "file_id": INTEGER, "line_number": INTEGER, "parent_sample_id": INTEGER}
        with self._file.reading():
            rows = self._rows("call_stacks", **columns, **{INFO: TEXT, "call_site": TEXT})
            if not len(rows["id"]):
                return None
            lane = self._lane_or_unknown(STACKS, rows)
            self._symbolise(rows)
            function = self._look_up_column_names(STACKS.name, "function_id", rows["function_id"])
            file = self._look_up_column_names(STACKS.name, "file_id", rows["file_id"])
        return stacks_of(rows, lane, function, file, self._infos(rows).has("idle"))
