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
column for (category, correlation, queue) is read from the JSON in `additional_info`: draft_tables.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property

import numpy as np

from callgrove.errors import CorruptFile
from callgrove.formats.gpu.dataset import CounterRows, Device, Process, Stacks
from callgrove.formats.gpu.draft_infos import Infos, listed, whole_number
from callgrove.formats.gpu.draft_samples import addresses, stacks_of, symbol_of
from callgrove.formats.gpu.draft_tables import INFO, KERNELS, KIND_OF_CATEGORY, MEMORY, NAME_TABLES, REGIONS, TABLES
from callgrove.formats.gpu.json_cells import json_strings
from callgrove.formats.gpu.lookup import Lookup
from callgrove.formats.gpu.sqlite_file import MISSING, Cells, SqliteFile, Type
from callgrove.formats.gpu.tables import EventTable, LaneList, TableData, or_absent
from callgrove.model.arrays import ABSENT, Array, Bools, Ids, Ints
from callgrove.model.experiment import Severity
from callgrove.model.intervals import enclosing
from callgrove.model.profiles import ProfileKind
from callgrove.model.traces import SideTable, SpanKind

__all__ = ["DraftData", "datasets"]

INTEGER, TEXT, TIME = Type.INTEGER, Type.TEXT, Type.TIME
US = 1000  # nanoseconds
KIND_OF_WORD = {kind.word: kind for kind in SpanKind}
LANE_KINDS = {kind.word: kind for kind in ProfileKind}
REGISTERS = ("scratch", "vgpr", "accum_vgpr", "sgpr")
COUNTERS, STACKS = (  # no events, but they happen on threads as well
    EventTable(name, SpanKind.REGION, {"lane": ("process_id", "thread_id", INFO)}, frozenset({INFO}))
    for name in ("hardware_counters", "call_stacks")
)


def datasets(file: SqliteFile) -> list[DraftData]:
    return [DraftData(file)]


class DraftData(TableData):
    """All tables of a file."""

    def __init__(self, file: SqliteFile) -> None:
        super().__init__(file, TABLES)
        with file.reading():
            tags = file.table("metadata", {"tag": TEXT, "value": TEXT})
            self.metadata = {str(t): str(v) for t, v in zip(tags["tag"], tags["value"], strict=True)}
            self.version = self.metadata.get("schema", "draft")
            self.require("strings", "value")
            self._read_places()

    def _rows(self, table: str, **columns: Type) -> dict[str, Array]:
        """A small table with its ids; ids that are NULL are those of the rows."""
        cells = dict(self._file.table(table, {"rowid": INTEGER, "id": INTEGER, **columns}))
        cells["id"] = np.where(cells["id"] == MISSING, cells["rowid"], cells["id"])
        return cells

    def _read_places(self) -> None:
        rows = self._rows("process", pid=INTEGER, process_name_id=INTEGER, start_time=TIME, end_time=TIME)
        names = self._named_ids("process", "process_name_id", rows["process_name_id"]).tolist()
        self._process = Lookup(rows["id"], np.arange(len(rows["id"])))
        only = len(rows["id"]) == 1
        told = {whole_number(item.get("id")): item for item in listed(self.metadata.get("processes"))}
        tags = self.metadata if only else {}
        uid = self.metadata.get("guid") or str(self.path)
        self.processes = []
        for k, id_ in enumerate(rows["id"].tolist()):
            own = {**tags, **told.get(id_, {})}
            host = str(own.get("hostname", self.metadata.get("hostname", "")))
            self.processes.append(
                Process(
                    uid if only else f"{uid}:{id_}",
                    max(int(rows["pid"][k]), 0),
                    host,
                    str(own.get("machine_id", self.metadata.get("machine_id", host))),
                    str(own.get("command", self._text(names[k]))),
                    whole_number(own.get("rank")),
                    int(rows["start_time"][k]),
                    int(rows["end_time"][k]),
                    json_strings(self.metadata.get("environment")) if only else {},
                    whole_number(own.get("node")),
                )
            )
        self.processes = self.processes or [Process(uid, 0, self.metadata.get("hostname", ""))]
        self._read_devices()
        self._read_lanes()

    def _read_devices(self) -> None:
        """GPUs; without our metadata nobody knows whose they are, and their order is their index."""
        gpus = self._rows("gpu_info", device_name_id=INTEGER)
        order = np.argsort(gpus["id"], kind="stable")
        names = self._named_ids("gpu_info", "device_name_id", gpus["device_name_id"]).tolist()
        told = {whole_number(item.get("id")): item for item in listed(self.metadata.get("gpus"))}
        self.devices = []
        for k, row in enumerate(order.tolist()):
            own = told.get(int(gpus["id"][row]), {})
            index, process = whole_number(own.get("index")), whole_number(own.get("process"))
            owner = max(int(self._process[np.array([process])][0]), 0)
            self.devices.append(Device(owner, "GPU", k if index < 0 else index, self._text(names[row])))
        self._gpu = Lookup(gpus["id"][order], np.arange(len(order)))
        cpus = self._rows("cpu_info", model_id=INTEGER)
        models = self._named_ids("cpu_info", "model_id", cpus["model_id"]).tolist()
        self.devices += [Device(0, "CPU", k, self._text(name)) for k, name in enumerate(models)]

    def _read_lanes(self) -> None:
        threads = self._rows("thread", tid=INTEGER, process_id=INTEGER, thread_name_id=INTEGER)
        owner = self._owners(threads["process_id"], "thread")
        names = self._named_ids("thread", "thread_name_id", threads["thread_name_id"]).tolist()
        lanes = LaneList()
        tids = np.where(threads["tid"] == MISSING, threads["id"], threads["tid"]).tolist()
        own = [
            lanes.add(process, ProfileKind.THREAD, tid, self._text(name))
            for process, tid, name in zip(owner.tolist(), tids, names, strict=True)
        ]
        self._thread = Lookup(threads["id"], np.array(own, np.int64))
        self._listed = np.array([*self._listed_lanes(lanes), ABSENT], np.int64)
        self._queues: dict[tuple[int, int, int], int] = {}
        for process, gpu, queue in sorted(self._queues_used()):
            self._queues[process, gpu, queue] = lanes.add(
                process, ProfileKind.QUEUE, max(queue, 0), f"queue {max(queue, 0)}", gpu
            )
        homeless = self._processes_with_homeless_rows()
        self._unknown = np.full(len(self.processes), ABSENT, np.int64)
        for process in sorted(homeless):
            self._unknown[process] = lanes.unknown(process)
        self.lanes = lanes.all

    def _listed_lanes(self, lanes: LaneList) -> Iterator[int]:
        """The lanes that our metadata lists."""
        for item in listed(self.metadata.get("lanes")):
            process = int(self._process[np.array([whole_number(item.get("process"))])][0])
            kind = LANE_KINDS.get(str(item.get("kind")), ProfileKind.OTHER)
            device = int(self._gpu[np.array([whole_number(item.get("gpu"))])][0])
            number = max(whole_number(item.get("number")), 0)
            yield lanes.add(max(process, 0), kind, number, str(item.get("name") or ""), device)

    def _processes_with_homeless_rows(self) -> set[int]:
        """Processes with rows that name no thread and no queue; these get a lane of their own."""
        found: set[int] = set()
        for table in (REGIONS, MEMORY, COUNTERS, STACKS):
            raw = table.raw(("lane",))
            for cells in self._file.chunks(table.name, raw):
                homeless = (self._thread[cells["thread_id"]] < 0) & (self._told_lanes(cells) < 0)
                homeless &= ~self._on_device(table, cells)
                owners = self._owners(cells["process_id"], table.name)[homeless]
                found |= set(np.unique(owners).tolist())
        return found

    def _owners(self, ids: Ints, table: str) -> Ids:
        """Processes by id; rows without one belong to the only process there is."""
        found = self._process[ids]
        if (found < 0).any():
            if len(self.processes) > 1:
                raise CorruptFile(
                    self.path, table, expected="rows that name their process", found="a row that names none of several"
                )
            found = np.maximum(found, 0)
        return found

    def _queues_used(self) -> set[tuple[int, int, int]]:
        found: set[tuple[int, int, int]] = set()
        for table in (KERNELS, MEMORY):
            for cells in self._file.chunks(table.name, table.raw(("lane",))):
                rows = self._on_device(table, cells)
                keys = np.stack(self._queue_key(cells))[:, rows]
                found |= {(p, g, q) for p, g, q in np.unique(keys, axis=1).T.tolist()}
        return found

    def _on_device(self, table: EventTable, cells: Cells) -> Bools:
        """Kernels, and copies that say which queue they ran on; not those whose lane is listed."""
        unlisted: Bools = self._told_lanes(cells) < 0
        if table is KERNELS:
            return unlisted
        if table is not MEMORY:
            return np.zeros(len(unlisted), np.bool_)
        on_queue: Bools = (self._operations(cells) == SpanKind.COPY) & (self._infos(cells).number("queue") != ABSENT)
        return on_queue & unlisted

    def _queue_key(self, cells: Cells) -> tuple[Ints, Ints, Ints]:
        infos = self._infos(cells)
        gpu = cells["gpu_id"] if "gpu_id" in cells else infos.number("gpu")
        queue = np.maximum(infos.number("queue"), 0)
        return self._owners(cells["process_id"], KERNELS.name).astype(np.int64), self._gpu[gpu].astype(np.int64), queue

    def _told_lanes(self, cells: Cells) -> Ints:
        """The lane by our metadata's list; -1 where the row names none."""
        number = self._infos(cells).number("lane")
        return self._listed[np.where(number < len(self._listed), number, ABSENT)]

    # -- names and JSON ------------------------------------------------------------------------------------------------

    @cached_property
    def _strings(self) -> Lookup:
        rows = self._rows("strings", value=TEXT)
        return Lookup(rows["id"], self._names.numbers(rows["value"].tolist()))

    def _named_ids(self, table: str, column: str, ids: Ints) -> Ids:
        return self.named(self._name_table(column), ids, "string", f"{table}.{column}")

    def _name_table(self, column: str) -> Lookup:
        table, id_, text = NAME_TABLES.get(column, ("", "", ""))
        if not self._file.has(table, id_, text):
            return self._strings
        if column not in self._name_tables:
            rows = self._file.table(table, {"rowid": INTEGER, id_: INTEGER, text: TEXT})
            ids = np.where(rows[id_] == MISSING, rows["rowid"], rows[id_])
            self._name_tables[column] = Lookup(ids, self._names.numbers(rows[text].tolist()))
        return self._name_tables[column]

    @cached_property
    def _name_tables(self) -> dict[str, Lookup]:
        return {}

    def _text(self, number: int) -> str:
        return self._names.all[number] if number >= 0 else ""

    def _infos(self, cells: Cells) -> Infos:
        """The JSON of a chunk; several columns ask for it, so the last one is kept."""
        if self._last_infos is None or self._last_infos[0] is not cells[INFO]:
            self._last_infos = cells[INFO], Infos(cells[INFO])
        return self._last_infos[1]

    _last_infos: tuple[Array, Infos] | None = None

    def _from_texts(self, cells: Cells, key: str) -> Ids:
        """A text of the JSON, as the number of a string."""
        infos = self._infos(cells)
        return np.append(self._names.numbers(infos.texts(key)), ABSENT).astype(np.int32)[infos.which]

    def _categories(self, cells: Cells) -> Ids:
        return self._from_texts(cells, "category")

    # -- events ------------------------------------------------------------------------------------------------------

    def made(self, table: EventTable, column: str, cells: Cells) -> Array:
        make: Mapping[str, Callable[[], Array]] = {
            "start_ns": lambda: cells[table.needs["start_ns"][0]],
            "end_ns": lambda: self._ends(table, cells),
            "kind": lambda: self._kinds(table, cells),
            "category": lambda: self._categories(cells),
            "name": lambda: self._name(table, cells),
            "label": lambda: self._label(table, cells),
            "lane": lambda: self._lane(table, cells),
            "correlation": lambda: self._correlations(table, cells),
            "parent_correlation": lambda: np.full(len(cells["rowid"]), ABSENT, np.int64),
        }
        return make[column]()

    def _ends(self, table: EventTable, cells: Cells) -> Ints:
        """Regions that are still open end with the last process."""
        if table is MEMORY:
            lasting: Ints = np.where(cells["duration_us"] == MISSING, 0, cells["duration_us"]) * US
            return np.asarray(cells["timestamp"] + self._infos(cells).signed("duration_ns", lasting))
        end = cells["end_time"]
        if table is not REGIONS:
            return end
        still_open = int((end == MISSING).sum())
        self.count_of_chunk(Severity.NOTE, f"{table.name}: {{}} have no end; they end with the process", still_open)
        last = max((p.end_ns for p in self.processes), default=MISSING)
        return np.where(end == MISSING, np.maximum(cells["start_time"], last), end)

    def _kinds(self, table: EventTable, cells: Cells) -> Ids:
        if table is MEMORY:
            return self._operations(cells)
        if table is KERNELS:
            return self.kinds(table, cells)
        categories = self._categories(cells)
        words = [text.partition("_")[0] for text in self._names.all] + [""]
        by_category = np.array([KIND_OF_CATEGORY.get(word, SpanKind.REGION) for word in words], np.int32)[categories]
        infos = self._infos(cells)
        told = np.array([KIND_OF_WORD.get(word or "", ABSENT) for word in infos.texts("kind")] or [ABSENT])[infos.which]
        return np.where(told >= 0, told, by_category).astype(np.int32)

    def _operations(self, cells: Cells) -> Ids:
        copies = [(text or "").upper() == "COPY" for text in cells["operation_type"].tolist()]
        return np.where(copies, SpanKind.COPY, SpanKind.ALLOC).astype(np.int32)

    def _name(self, table: EventTable, cells: Cells) -> Ids:
        if table is REGIONS:
            return self._named_ids(table.name, "region_name_id", cells["region_name_id"])
        if table is KERNELS:
            return self._named_ids(table.name, "kernel_id", cells["kernel_id"])
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
        """What the JSON says; else a region's own id, and of operations the region that was open at the launch."""
        infos = self._infos(cells)
        told, silent = infos.number("corr"), ~infos.has("corr")
        if table is REGIONS:
            own = np.where(cells["id"] == MISSING, cells["rowid"], cells["id"])
            return np.where(silent, own, told)
        when = cells["launch_time"] if table is KERNELS else cells["timestamp"]
        lacking = np.flatnonzero(silent & (when != MISSING))
        if len(lacking):
            start, end, thread, correlation = self._open_regions
            asked = when[lacking]
            found = enclosing((start, end), (asked, asked), thread, cells["thread_id"][lacking])
            told[lacking] = np.append(correlation, ABSENT)[found]
        return told

    @cached_property
    def _open_regions(self) -> tuple[Ints, Ints, Ints, Ints]:
        columns = ("start_ns", "end_ns", "correlation")
        parts = [
            (*(self.made(REGIONS, column, cells) for column in columns), cells["thread_id"])
            for cells in self._file.chunks(REGIONS.name, REGIONS.raw((*columns, "lane")))
        ]
        if not parts:
            none = np.empty(0, np.int64)
            return none, none, none, none
        start, end, correlation, thread = (np.concatenate(column) for column in zip(*parts, strict=True))
        return start, end, thread, correlation

    # -- what only some events have ------------------------------------------------------------------------------------

    def side(self, name: str) -> SideTable | None:
        read = {"kernel": self._kernels, "copy": self._copies, "alloc": self._allocations, "counter": self._on_kernels}
        with self._file.reading():
            return read[name]() if name in read else None

    def _kernels(self) -> SideTable | None:
        columns = {f"grid_{a}": f"grid_size_{a}" for a in "xyz"} | {f"workgroup_{a}": f"block_size_{a}" for a in "xyz"}
        table = self.side_of(KERNELS.name, columns | {"lds": "shared_mem_bytes", "dispatch": "dispatch_id"})
        if table is None:
            return None
        made = {name: np.asarray(cells) for name, cells in table.columns.items()}
        if self.metadata.get("grid_unit") != "workitems":
            for axis in "xyz":  # the draft counts blocks
                blocks, items = made[f"grid_{axis}"], made[f"workgroup_{axis}"]
                made[f"grid_{axis}"] = np.where((blocks < 0) | (items < 0), ABSENT, blocks * items)
        infos = Infos(self._file.table(KERNELS.name, {"rowid": INTEGER, INFO: TEXT})[INFO])
        registers = {name: infos.number(name) for name in REGISTERS if infos.has(name).any()}
        return SideTable(table.span, {**made, **registers})

    def _copies(self) -> SideTable | None:
        """Copies, and memsets, which are stored as regions."""
        rows, cells = self._memory(SpanKind.COPY)
        spans, sizes = rows + self.first(MEMORY.name), or_absent(cells["size_bytes"])[rows]
        regions = self._file.table(REGIONS.name, {"rowid": INTEGER, INFO: TEXT})
        infos = Infos(regions[INFO])
        stored = np.flatnonzero(infos.number("bytes") >= 0)
        if not len(stored) + len(rows):
            return None
        own = stored + (self.first(REGIONS.name) if REGIONS.name in self.counts else 0)
        made = {"bytes": np.append(infos.number("bytes")[stored], sizes)}
        return SideTable(np.append(own, spans), made)

    def _allocations(self) -> SideTable | None:
        rows, cells = self._memory(SpanKind.ALLOC)
        if not len(rows):
            return None
        to, origin = cells["destination_address"][rows], cells["source_address"][rows]
        made: dict[str, Array] = {"bytes": or_absent(cells["size_bytes"])[rows]}
        made["address"] = or_absent(np.where(to != MISSING, to, origin))
        infos = Infos(cells[INFO][rows])
        made["level"] = np.array([text or "REAL" for text in infos.texts("level")], object)[infos.which]
        return SideTable(rows + self.first(MEMORY.name), made)

    def _memory(self, kind: SpanKind) -> tuple[Ints, Cells]:
        """Rows of the memory operations of a kind, and the cells of all."""
        texts = ("operation_type", INFO)
        raw = (*texts, "size_bytes", "source_address", "destination_address")
        cells = self._file.table(MEMORY.name, {name: TEXT if name in texts else INTEGER for name in raw})
        if MEMORY.name not in self.counts:
            return np.empty(0, np.int64), cells
        return np.flatnonzero(self._operations(cells) == kind), cells

    # -- counters and samples ------------------------------------------------------------------------------------------

    def _counter_rows(self) -> tuple[dict[str, Array], Ids, Ints]:
        """Counters, their names, and the launch that each belongs to, which only we write; -1 elsewhere."""
        columns = dict.fromkeys(("process_id", "thread_id", "event_id"), INTEGER)
        rows = self._rows("hardware_counters", **columns, timestamp=TIME, value=Type.REAL, **{INFO: TEXT})
        return rows, self._named_ids(COUNTERS.name, "event_id", rows["event_id"]), Infos(rows[INFO]).number("kernel")

    def _on_kernels(self) -> SideTable | None:
        rows, names, kernel = self._counter_rows()
        if KERNELS.name not in self.counts or not (kernel >= 0).any():
            return None
        ids = self._rows(KERNELS.name)["id"]
        place = Lookup(ids, np.arange(len(ids)))[kernel]
        own = np.flatnonzero((place >= 0) & (kernel >= 0))
        texts = np.array([*self._names.all, ""], object)[names[own]]
        span = place[own].astype(np.int64) + self.first(KERNELS.name)
        return SideTable(span, {"name": texts, "value": rows["value"][own]})

    def counters(self) -> CounterRows | None:
        with self._file.reading():
            rows, names, kernel = self._counter_rows()
            own = np.flatnonzero(kernel < 0)
            if not len(own):
                return None
            lane = self._lane_or_unknown(COUNTERS, rows)[own]
        different, number = np.unique(names[own], return_inverse=True)
        texts = tuple(self._text(name) for name in different.tolist())
        when, value = rows["timestamp"][own], rows["value"][own]
        return CounterRows(lane.astype(np.int32), number.astype(np.int32), when, value, texts)

    def _symbolise(self, rows: dict[str, Array]) -> None:
        """Frames that are only an address get the function, file and line of the symbol around it."""
        columns = ("process_id", "start_address", "end_address", "function_id", "file_id", "line_number")
        symbols = self._rows("binary_analysis_info", **dict.fromkeys(columns, INTEGER))
        bare = np.flatnonzero(rows["function_id"] == MISSING)
        if not len(bare) or not len(symbols["id"]):
            return
        found = symbol_of(symbols, rows["process_id"][bare], addresses(rows["call_site"][bare]))
        known = found >= 0
        for column in ("function_id", "file_id", "line_number"):
            rows[column][bare[known]] = symbols[column][found[known]]

    def stacks(self) -> Stacks | None:
        columns = {"process_id": INTEGER, "thread_id": INTEGER, "timestamp": TIME, "stack_depth": INTEGER}
        columns |= {"function_id": INTEGER, "file_id": INTEGER, "line_number": INTEGER, "parent_sample_id": INTEGER}
        with self._file.reading():
            rows = self._rows("call_stacks", **columns, **{INFO: TEXT, "call_site": TEXT})
            if not len(rows["id"]):
                return None
            lane = self._lane_or_unknown(STACKS, rows)
            self._symbolise(rows)
            function = self._named_ids(STACKS.name, "function_id", rows["function_id"])
            file = self._named_ids(STACKS.name, "file_id", rows["file_id"])
        return stacks_of(rows, lane, function, file, self._infos(rows).has("idle"))
