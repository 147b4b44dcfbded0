"""Who did it in a database of the draft schema: processes, devices and lanes; names and JSON that all rows refer to.

Without our metadata the schema says little: the index of a GPU is its order, kernels run on queue 0 of their GPU.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

import numpy as np

from callgrove.arrays import ABSENT, Array, Bools, Ids, Ints
from callgrove.binary.sqlite.cells import MISSING, Cells, Lookup, Type, json_strings
from callgrove.binary.sqlite.database import SqliteFile
from callgrove.errors import CorruptFile
from callgrove.formats.events.dataset import Lane, LaneList, Process, Recorded
from callgrove.formats.gpu.draft.schema import (
    COUNTERS,
    INFO,
    KERNELS,
    MEMORY,
    NAME_TABLES,
    REGIONS,
    SCHEMA,
    STACKS,
    TABLES,
    Infos,
    parse_list,
    whole_number,
)
from callgrove.formats.gpu.event_tables import EventTable, TableData
from callgrove.model.profiles import ProfileKind
from callgrove.model.traces.events import Device, SpanKind

__all__ = ["DraftLanes"]

INTEGER, TEXT, TIME = Type.INTEGER, Type.TEXT, Type.TIME
READ = {*SCHEMA, *(table for table, _, _ in NAME_TABLES.values())}
LANE_KINDS = {kind.word: kind for kind in ProfileKind}


class DraftLanes(TableData):
    """A data set of the draft schema, as far as its small tables tell it: processes, devices and lanes."""

    def list_event_tables(self) -> Sequence[EventTable]:
        return TABLES

    def __init__(self, file: SqliteFile) -> None:
        super().__init__(file)
        with file.reading():
            tags = file.table("metadata", {"tag": TEXT, "value": TEXT})
            self.metadata = {str(t): str(v) for t, v in zip(tags["tag"], tags["value"], strict=True)}
            self.version = self.metadata.get("schema", "draft")
            self.require("strings", "value")
            self._read_places()
            self.name_unread((name for name in file.tables if name not in READ), {})

    def _rows(self, table: str, **columns: Type) -> dict[str, Array]:
        """Read a small table with its ids; where an id is NULL, the row id stands for it."""
        cells = dict(self._file.table(table, {"rowid": INTEGER, "id": INTEGER, **columns}))
        cells["id"] = np.where(cells["id"] == MISSING, cells["rowid"], cells["id"])
        return cells

    def _read_places(self) -> None:
        rows = self._rows("process", pid=INTEGER, process_name_id=INTEGER, start_time=TIME, end_time=TIME)
        names = self._look_up_column_names("process", "process_name_id", rows["process_name_id"]).tolist()
        self._process = Lookup(rows["id"], np.arange(len(rows["id"])))
        only = len(rows["id"]) == 1
        told = {whole_number(item.get("id")): item for item in parse_list(self.metadata.get("processes"))}
        tags = self.metadata if only else {}
        uid = self.metadata.get("guid") or str(self.path)
        self.processes = []
        for k, id_ in enumerate(rows["id"].tolist()):
            about = {**tags, **told.get(id_, {})}
            host = str(about.get("hostname", self.metadata.get("hostname", "")))
            machine = str(about.get("machine_id", self.metadata.get("machine_id", host)))
            start_ns, end_ns = int(rows["start_time"][k]), int(rows["end_time"][k])
            recorded = Recorded("", start_ns, end_ns) if not machine and MISSING != start_ns <= end_ns else None
            self.processes.append(
                Process(
                    str(about.get("guid") or (uid if only else f"{uid}:{id_}")),
                    max(int(rows["pid"][k]), 0),
                    host,
                    machine,
                    str(about.get("command", self._text(names[k]))),
                    whole_number(about.get("rank")),
                    start_ns,
                    end_ns,
                    json_strings(self.metadata.get("environment")) if only else {},
                    whole_number(about.get("node")),
                    "" if machine else str(self.path),  # of whom no more is known, all in a file are of one run
                    recorded,
                )
            )
        self.processes = self.processes or [Process(uid, 0, self.metadata.get("hostname", ""))]
        self._read_devices()
        self._read_lanes()

    def _read_devices(self) -> None:
        """Read the devices that our metadata lists. Without it, their owners are unknown and their order is their
        index."""
        gpus = self._rows("gpu_info", device_name_id=INTEGER)
        names = self._look_up_column_names("gpu_info", "device_name_id", gpus["device_name_id"]).tolist()
        if "devices" in self.metadata:
            told = parse_list(self.metadata["devices"])
            self.devices = [self._device_of_metadata(item) for item in told]
            self._gpu = Lookup(
                np.array([whole_number(item.get("gpu_info")) for item in told], np.int64), np.arange(len(told))
            )
            return
        order = np.argsort(gpus["id"], kind="stable")
        owners = {whole_number(item.get("id")): item for item in parse_list(self.metadata.get("gpus"))}
        self.devices = []
        for k, row in enumerate(order.tolist()):
            entry = owners.get(int(gpus["id"][row]), {})
            index = whole_number(entry.get("index"))
            self.devices.append(Device(self._owner(entry), "GPU", k if index < 0 else index, self._text(names[row])))
        self._gpu = Lookup(gpus["id"][order], np.arange(len(order)))
        cpus = self._rows("cpu_info", model_id=INTEGER)
        models = self._look_up_column_names("cpu_info", "model_id", cpus["model_id"]).tolist()
        self.devices += [Device(0, "CPU", k, self._text(name)) for k, name in enumerate(models)]

    def _device_of_metadata(self, item: Mapping[str, object]) -> Device:
        told = item.get("attributes")
        attributes = {str(k): str(v) for k, v in told.items()} if isinstance(told, dict) else {}
        kind, name = (str(item.get(word) or "") for word in ("kind", "name"))
        return Device(self._owner(item), kind, whole_number(item.get("index")), name, attributes)

    def _owner(self, item: Mapping[str, object]) -> int:
        """Return the process that an entry of our metadata names, or the first one."""
        return max(int(self._process[np.array([whole_number(item.get("process"))])][0]), 0)

    def _read_lanes(self) -> None:
        threads = self._rows("thread", tid=INTEGER, process_id=INTEGER, thread_name_id=INTEGER)
        owner = self._owners(threads["process_id"], "thread")
        names = self._look_up_column_names("thread", "thread_name_id", threads["thread_name_id"]).tolist()
        lanes = LaneList()
        tids = np.where(threads["tid"] == MISSING, threads["id"], threads["tid"]).tolist()
        thread_lanes = [
            lanes.add(process, ProfileKind.THREAD, tid, self._text(name))
            for process, tid, name in zip(owner.tolist(), tids, names, strict=True)
        ]
        self._thread = Lookup(threads["id"], np.array(thread_lanes, np.int64))
        self._listed = np.array([*self._lanes_of_metadata(lanes), ABSENT], np.int64)
        self._queues: dict[tuple[int, int, int], int] = {}
        for process, gpu, queue in sorted(self._queues_used()):
            self._queues[process, gpu, queue] = lanes.add(
                process, ProfileKind.QUEUE, max(queue, 0), f"queue {max(queue, 0)}", gpu
            )
        homeless = self._processes_with_homeless_rows()
        self._unknown = np.full(len(self.processes), ABSENT, np.int64)
        for process in sorted(homeless):
            self._unknown[process] = lanes.add_unknown(process)
        self.lanes = lanes.all

    def _lanes_of_metadata(self, lanes: LaneList) -> Iterator[int]:
        """Return the lanes that our metadata lists."""
        for item in parse_list(self.metadata.get("lanes")):
            kind = LANE_KINDS.get(str(item.get("kind")), ProfileKind.OTHER)
            device = int(self._gpu[np.array([whole_number(item.get("gpu"))])][0])
            number = max(whole_number(item.get("number")), 0)
            name, of_profiler = str(item.get("name") or ""), item.get("profiler") is True
            yield lanes.append(Lane(self._owner(item), kind, number, name, device, of_profiler))

    def _processes_with_homeless_rows(self) -> set[int]:
        """Return the processes that have rows without a thread or queue; these rows get a lane of their own."""
        processes: set[int] = set()
        for table in (REGIONS, MEMORY, COUNTERS, STACKS):
            raw = table.raw(("lane",))
            for cells in self._file.chunks(table.name, raw):
                homeless = (self._thread[cells["thread_id"]] < 0) & (self._told_lanes(cells) < 0)
                homeless &= ~self._on_device(table, cells)
                owners = self._owners(cells["process_id"], table.name)[homeless]
                processes |= set(np.unique(owners).tolist())
        return processes

    def _owners(self, ids: Ints, table: str) -> Ids:
        """Return processes by id; rows without an id belong to the only process of the file."""
        process = self._process[ids]
        if (process < 0).any():
            if len(self.processes) > 1:
                raise CorruptFile(
                    self.path, table, expected="rows that name their process", found="a row that names none of several"
                )
            process = np.maximum(process, 0)
        return process

    def _queues_used(self) -> set[tuple[int, int, int]]:
        queues: set[tuple[int, int, int]] = set()
        for table in (KERNELS, MEMORY):
            for cells in self._file.chunks(table.name, table.raw(("lane",))):
                rows = self._on_device(table, cells)
                keys = np.stack(self._queue_key(cells))[:, rows]
                queues |= {(p, g, q) for p, g, q in np.unique(keys, axis=1).T.tolist()}
        return queues

    def _on_device(self, table: EventTable, cells: Cells) -> Bools:
        """Return which rows are kernels, or copies that name their queue, except those whose lane is listed."""
        unlisted: Bools = self._told_lanes(cells) < 0
        if table == KERNELS:
            return unlisted
        if table != MEMORY:
            return np.zeros(len(unlisted), np.bool_)
        on_queue: Bools = (self._operations(cells) == SpanKind.COPY) & (self._infos(cells).number("queue") != ABSENT)
        return on_queue & unlisted

    def _queue_key(self, cells: Cells) -> tuple[Ints, Ints, Ints]:
        infos = self._infos(cells)
        gpu = cells["gpu_id"] if "gpu_id" in cells else infos.number("gpu")
        queue = np.maximum(infos.number("queue"), 0)
        return self._owners(cells["process_id"], KERNELS.name).astype(np.int64), self._gpu[gpu].astype(np.int64), queue

    def _told_lanes(self, cells: Cells) -> Ints:
        """Return the lane that each row names by its number in our metadata's list; -1 where it names none."""
        number = self._infos(cells).number("lane")
        return self._listed[np.where(number < len(self._listed), number, ABSENT)]

    # -- names and JSON ------------------------------------------------------------------------------------------------

    @cached_property
    def _strings(self) -> Lookup:
        rows = self._rows("strings", value=TEXT)
        return Lookup(rows["id"], self._names.numbers(rows["value"].tolist()))

    def _look_up_column_names(self, table: str, column: str, ids: Ints) -> Ids:
        return self.look_up_names(self._name_table(column), ids, "string", f"{table}.{column}")

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
        """Return the parsed JSON of a chunk. Several columns ask for it, so the last result is kept."""
        if self._last_infos is None or self._last_infos[0] is not cells[INFO]:
            self._last_infos = cells[INFO], Infos(cells[INFO])
        return self._last_infos[1]

    _last_infos: tuple[Array, Infos] | None = None

    def _from_texts(self, cells: Cells, key: str) -> Ids:
        """Return a text of the JSON of each row, as the number of a string."""
        infos = self._infos(cells)
        return np.append(self._names.numbers(infos.texts(key)), ABSENT).astype(np.int32)[infos.which]

    def _categories(self, cells: Cells) -> Ids:
        return self._from_texts(cells, "category")

    def _operations(self, cells: Cells) -> Ids:
        copies = [(text or "").upper() == "COPY" for text in cells["operation_type"].tolist()]
        return np.where(copies, SpanKind.COPY, SpanKind.ALLOC).astype(np.int32)
