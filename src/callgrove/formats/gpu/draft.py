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
column for (category, correlation, queue) is read from the JSON in `additional_info`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property

import numpy as np

from callgrove.errors import CorruptFile
from callgrove.formats.gpu.dataset import CounterRows, Device, Process, Stacks
from callgrove.formats.gpu.json_cells import json_object, json_strings
from callgrove.formats.gpu.lookup import Lookup
from callgrove.formats.gpu.sqlite_file import MISSING, Cells, SqliteFile, Type
from callgrove.formats.gpu.tables import EventTable, LaneList, TableData, or_absent
from callgrove.model.arrays import ABSENT, Array, Bools, Ids, Ints
from callgrove.model.intervals import enclosing
from callgrove.model.profiles import ProfileKind
from callgrove.model.traces import SideTable, SpanKind

__all__ = ["TABLES", "DraftData", "datasets"]

INTEGER, TEXT, TIME = Type.INTEGER, Type.TEXT, Type.TIME
TIMES = frozenset({"start_time", "end_time", "timestamp", "launch_time"})
WHO = ("process_id", "thread_id")
INFO = "additional_info"
US = 1000  # nanoseconds
KIND_OF_CATEGORY = dict.fromkeys(("HIP", "HSA", "RCCL", "ROCDECODE", "ROCJPEG", "OMPT", "CUDA"), SpanKind.API)
KIND_OF_CATEGORY["MARKER"] = KIND_OF_CATEGORY["NVTX"] = SpanKind.MARKER

REGIONS = EventTable(
    "instrumentation_regions",
    SpanKind.REGION,
    {
        "start_ns": ("start_time",),
        "end_ns": ("start_time", "end_time"),
        "name": ("region_name_id",),
        "label": ("region_name_id",),
        "lane": WHO,
        "kind": (INFO,),
        "category": (INFO,),
        "correlation": ("id", INFO),
    },
    frozenset({INFO}),
    TIMES,
)
KERNELS = EventTable(
    "gpu_kernel_launches",
    SpanKind.KERNEL,
    {
        "start_ns": ("start_time",),
        "end_ns": ("end_time",),
        "name": ("kernel_id",),
        "label": ("kernel_id",),
        "lane": ("process_id", "thread_id", "gpu_id", INFO),
        "category": (INFO,),
        "correlation": ("thread_id", "launch_time", INFO),
    },
    frozenset({INFO}),
    TIMES,
)
MEMORY = EventTable(
    "memory_operations",
    SpanKind.ALLOC,
    {
        "start_ns": ("timestamp",),
        "end_ns": ("timestamp", "duration_us"),
        "kind": ("operation_type",),
        "name": ("operation_type", INFO),
        "label": ("operation_type", INFO),
        "lane": (*WHO, INFO, "operation_type"),
        "category": (INFO,),
        "correlation": ("thread_id", "timestamp", INFO),
    },
    frozenset({INFO, "operation_type"}),
    TIMES,
)
TABLES = (REGIONS, KERNELS, MEMORY)
NAME_TABLES = {  # of the document's examples: table -> (id, text)
    "region_name_id": ("event_names", "event_id", "event_name"),
    "kernel_id": ("kernel_names", "kernel_id", "kernel_name"),
    "function_id": ("function_names", "function_id", "function_name"),
    "file_id": ("file_names", "file_id", "file_name"),
    "event_id": ("event_names", "event_id", "event_name"),
}


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
            self._read_places()

    def _rows(self, table: str, **columns: Type) -> dict[str, Array]:
        """A small table with its ids; ids that are NULL are those of the rows."""
        cells = dict(self._file.table(table, {"rowid": INTEGER, "id": INTEGER, **columns}))
        cells["id"] = np.where(cells["id"] == MISSING, cells["rowid"], cells["id"])
        return cells

    def _read_places(self) -> None:
        rows = self._rows("process", pid=INTEGER, process_name_id=INTEGER, start_time=TIME, end_time=TIME)
        names = self._named_ids("process_name_id", rows["process_name_id"]).tolist()
        host = self.metadata.get("hostname", "")
        only = len(rows["id"]) == 1
        uid = self.metadata.get("guid") or str(self.path)
        self.processes = [
            Process(
                uid if only else f"{uid}:{rows['id'][k]}",
                max(int(rows["pid"][k]), 0),
                host,
                self.metadata.get("machine_id", host),
                self.metadata.get("command", self._text(names[k])) if only else self._text(names[k]),
                _number(self.metadata.get("rank")) if only else ABSENT,
                int(rows["start_time"][k]),
                int(rows["end_time"][k]),
                json_strings(self.metadata.get("environment")) if only else {},
            )
            for k in range(len(rows["id"]))
        ] or [Process(uid, 0, host)]
        self._process = Lookup(rows["id"], np.arange(len(rows["id"])))
        gpus = self._rows("gpu_info", device_name_id=INTEGER)
        order = np.argsort(gpus["id"], kind="stable")
        names = self._named_ids("device_name_id", gpus["device_name_id"]).tolist()
        self.devices = [Device(0, "GPU", k, self._text(names[row])) for k, row in enumerate(order.tolist())]
        self._gpu = Lookup(gpus["id"][order], np.arange(len(order)))
        self._read_lanes()

    def _read_lanes(self) -> None:
        threads = self._rows("thread", tid=INTEGER, process_id=INTEGER, thread_name_id=INTEGER)
        owner = self._owners(threads["process_id"], "thread")
        names = self._named_ids("thread_name_id", threads["thread_name_id"]).tolist()
        lanes = LaneList()
        tids = np.where(threads["tid"] == MISSING, threads["id"], threads["tid"]).tolist()
        own = [
            lanes.add(process, ProfileKind.THREAD, tid, self._text(name))
            for process, tid, name in zip(owner.tolist(), tids, names, strict=True)
        ]
        self._thread = Lookup(threads["id"], np.array(own, np.int64))
        self._queues: dict[tuple[int, int, int], int] = {}
        for process, gpu, queue in sorted(self._queues_used()):
            self._queues[process, gpu, queue] = lanes.add(
                process, ProfileKind.QUEUE, max(queue, 0), f"queue {max(queue, 0)}", gpu
            )
        self._unknown = np.array([lanes.unknown(k) for k in range(len(self.processes))], np.int64)
        self.lanes = lanes.all

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
        """Kernels, and copies that say which queue they ran on."""
        if table is KERNELS:
            return np.ones(len(cells["rowid"]), np.bool_)
        on_queue: Bools = (self._operations(cells) == SpanKind.COPY) & (self._from_info(cells, "queue") != ABSENT)
        return on_queue

    def _queue_key(self, cells: Cells) -> tuple[Ints, Ints, Ints]:
        gpu = cells["gpu_id"] if "gpu_id" in cells else self._from_info(cells, "gpu")
        queue = np.maximum(self._from_info(cells, "queue"), 0)
        return self._owners(cells["process_id"], KERNELS.name).astype(np.int64), self._gpu[gpu].astype(np.int64), queue

    # -- names and JSON ------------------------------------------------------------------------------------------------

    @cached_property
    def _strings(self) -> Lookup:
        rows = self._rows("strings", value=TEXT)
        return Lookup(rows["id"], self._names.numbers(rows["value"].tolist()))

    def _named_ids(self, column: str, ids: Ints) -> Ids:
        return self.named(self._name_table(column), ids, "string")

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

    def _infos(self, cells: Cells) -> tuple[list[Mapping[str, object]], Ints]:
        """The different objects in `additional_info`, and which one each row has."""
        numbers: dict[str | None, int] = {}
        which = np.array([numbers.setdefault(text, len(numbers)) for text in cells[INFO].tolist()], np.int64)
        return [json_object(text) for text in numbers], which

    def _from_info(self, cells: Cells, key: str) -> Ints:
        """A whole number of the JSON; -1 where there is none."""
        infos, which = self._infos(cells)
        return np.array([_number(info.get(key)) for info in infos] or [ABSENT], np.int64)[which]

    def _categories(self, cells: Cells) -> Ids:
        infos, which = self._infos(cells)
        texts = [str(info["category"]) if info.get("category") else None for info in infos]
        return self._names.numbers(texts)[which]

    # -- events ------------------------------------------------------------------------------------------------------

    def made(self, table: EventTable, column: str, cells: Cells) -> Array:
        make: Mapping[str, Callable[[], Array]] = {
            "start_ns": lambda: cells[table.needs["start_ns"][0]],
            "end_ns": lambda: self._ends(table, cells),
            "kind": lambda: self._kinds(table, cells),
            "category": lambda: self._categories(cells),
            "name": lambda: self._name(table, cells),
            "label": lambda: self._name(table, cells),
            "lane": lambda: self._lane(table, cells),
            "correlation": lambda: self._correlations(table, cells),
            "parent_correlation": lambda: np.full(len(cells["rowid"]), ABSENT, np.int64),
        }
        return make[column]()

    def _ends(self, table: EventTable, cells: Cells) -> Ints:
        """Regions that are still open end with the last process."""
        if table is MEMORY:
            lasting: Ints = np.where(cells["duration_us"] == MISSING, 0, cells["duration_us"]) * US
            return np.asarray(cells["timestamp"] + lasting)
        end = cells["end_time"]
        if table is not REGIONS:
            return end
        last = max((p.end_ns for p in self.processes), default=MISSING)
        return np.where(end == MISSING, np.maximum(cells["start_time"], last), end)

    def _kinds(self, table: EventTable, cells: Cells) -> Ids:
        if table is MEMORY:
            return self._operations(cells)
        if table is KERNELS:
            return self.kinds(table, cells)
        categories = self._categories(cells)
        words = [text.partition("_")[0] for text in self._names.all] + [""]
        return np.array([KIND_OF_CATEGORY.get(word, SpanKind.REGION) for word in words], np.int32)[categories]

    def _operations(self, cells: Cells) -> Ids:
        copies = [(text or "").upper() == "COPY" for text in cells["operation_type"].tolist()]
        return np.where(copies, SpanKind.COPY, SpanKind.ALLOC).astype(np.int32)

    def _name(self, table: EventTable, cells: Cells) -> Ids:
        if table is REGIONS:
            return self._named_ids("region_name_id", cells["region_name_id"])
        if table is KERNELS:
            return self._named_ids("kernel_id", cells["kernel_id"])
        infos, which = self._infos(cells)
        names = self._names.numbers([str(info["name"]) if info.get("name") else None for info in infos])[which]
        types = self._names.numbers([(text or "OTHER").upper() for text in cells["operation_type"].tolist()])
        return np.where(names >= 0, names, types)

    def _lane(self, table: EventTable, cells: Cells) -> Ids:
        lane = self._thread[cells["thread_id"]].astype(np.int64)
        lane = np.where(lane >= 0, lane, self._unknown[self._owners(cells["process_id"], table.name)])
        if table is REGIONS:
            return lane.astype(np.int32)
        rows = np.flatnonzero(self._on_device(table, cells))
        keys = np.stack(self._queue_key(cells))[:, rows].T.tolist()
        lane[rows] = [self._queues[p, g, q] for p, g, q in keys]
        return lane.astype(np.int32)

    def _correlations(self, table: EventTable, cells: Cells) -> Ints:
        """What the JSON says; else a region's own id, and of operations the region that was open at the launch."""
        told = self._from_info(cells, "corr")
        if table is REGIONS:
            own = np.where(cells["id"] == MISSING, cells["rowid"], cells["id"])
            return np.where(told >= 0, told, own)
        when = cells["launch_time"] if table is KERNELS else cells["timestamp"]
        lacking = np.flatnonzero((told < 0) & (when != MISSING))
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
        with self._file.reading():
            if name == "kernel":
                return self._kernels()
            if name in ("copy", "alloc"):
                return self._memory(SpanKind.COPY if name == "copy" else SpanKind.ALLOC)
        return None

    def _kernels(self) -> SideTable | None:
        columns = {f"grid_{a}": f"grid_size_{a}" for a in "xyz"} | {f"workgroup_{a}": f"block_size_{a}" for a in "xyz"}
        table = self.side_of(KERNELS.name, columns | {"lds": "shared_mem_bytes", "dispatch": "dispatch_id"})
        if table is None or self.metadata.get("grid_unit") == "workitems":
            return table
        made = {name: np.asarray(cells) for name, cells in table.columns.items()}
        for axis in "xyz":  # the draft counts blocks
            blocks, items = made[f"grid_{axis}"], made[f"workgroup_{axis}"]
            made[f"grid_{axis}"] = np.where((blocks < 0) | (items < 0), ABSENT, blocks * items)
        return SideTable(table.span, made)

    def _memory(self, kind: SpanKind) -> SideTable | None:
        raw = ("operation_type", "size_bytes", "source_address", "destination_address")
        columns = {name: TEXT if name == "operation_type" else INTEGER for name in raw}
        cells = self._file.table(MEMORY.name, columns)
        rows = np.flatnonzero(self._operations(cells) == kind)
        if not len(rows):
            return None
        to, origin = cells["destination_address"][rows], cells["source_address"][rows]
        made = {"bytes": or_absent(cells["size_bytes"])[rows]}
        if kind == SpanKind.ALLOC:
            made["address"] = or_absent(np.where(to != MISSING, to, origin))
        return SideTable(rows + self.first(MEMORY.name), made)

    def counters(self) -> CounterRows | None:
        columns = {
            "process_id": INTEGER,
            "thread_id": INTEGER,
            "timestamp": TIME,
            "event_id": INTEGER,
            "value": Type.REAL,
        }
        with self._file.reading():
            rows = self._file.table("hardware_counters", columns)
            if not len(rows["value"]):
                return None
            lane = self._thread[rows["thread_id"]].astype(np.int64)
            lane = np.where(lane >= 0, lane, self._unknown[self._owners(rows["process_id"], "hardware_counters")])
            names = self._named_ids("event_id", rows["event_id"])
        different, number = np.unique(names, return_inverse=True)
        texts = tuple(self._text(name) for name in different.tolist())
        return CounterRows(lane.astype(np.int32), number.astype(np.int32), rows["timestamp"], rows["value"], texts)

    def stacks(self) -> Stacks | None:
        """Samples: rows that share process, thread and time are the frames of one."""
        columns = {"process_id": INTEGER, "thread_id": INTEGER, "timestamp": TIME, "stack_depth": INTEGER}
        columns |= {"function_id": INTEGER, "file_id": INTEGER, "line_number": INTEGER, "parent_sample_id": INTEGER}
        with self._file.reading():
            rows = self._rows("call_stacks", **columns)
            if not len(rows["id"]):
                return None
            lane = self._thread[rows["thread_id"]].astype(np.int64)
            lane = np.where(lane >= 0, lane, self._unknown[self._owners(rows["process_id"], "call_stacks")])
            function = self._named_ids("function_id", rows["function_id"])
            file = self._named_ids("file_id", rows["file_id"])
        depth = np.where(rows["stack_depth"] == MISSING, 0, rows["stack_depth"])
        depth = np.where(_grows_inwards(depth, rows["parent_sample_id"]), depth, -depth)
        order = np.lexsort((depth, rows["timestamp"], lane))
        when, where = rows["timestamp"][order], lane[order]
        first = np.flatnonzero(np.append(True, (np.diff(when) != 0) | (np.diff(where) != 0)))
        return Stacks(
            where[first].astype(np.int32),
            when[first],
            np.append(first, len(order)),
            function[order],
            file[order],
            or_absent(rows["line_number"])[order],
        )


def _grows_inwards(depth: Ints, parent: Ints) -> bool:
    """Is depth 0 the outermost frame? The document does not say; where parents are named, these do."""
    roots = parent == MISSING
    if roots.all() or not roots.any():
        return True
    return int(depth[roots].min()) == int(depth.min())


def _number(value: object) -> int:
    """A whole number, also as text; -1 for anything else."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63:
        return value
    return int(value) if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 19 else ABSENT
