"""The database of rocprofv3 (rocpd, schema 3): one set of suffixed tables per process, several in a merged file.

Specification: gpu-traces.md section 3.

    rocpd_metadata<suffix>     schema_version, uuid, guid; its name tells the suffix, nothing else does
    rocpd_info_*<suffix>       node, process, thread, agent, queue, stream, pmc, code_object, kernel_symbol
    rocpd_event<suffix>        category and correlation (stack_id) of what refers to it
    rocpd_region, _kernel_dispatch, _memory_copy, _memory_allocate, _sample<suffix>      what happened

All look-ups stay inside one suffix. Event ids rise with the rows that refer to them, so a chunk needs a range of the
event table, not all of it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from callgrove.errors import UnsupportedVersion
from callgrove.formats.gpu.dataset import CounterRows, Device, Events, Lane, Names, Process
from callgrove.formats.gpu.lookup import Lookup
from callgrove.formats.gpu.sqlite_file import MISSING, Cells, SqliteFile, Type
from callgrove.model.arrays import ABSENT, Array, Ids, Ints
from callgrove.model.experiment import InputWarning
from callgrove.model.profiles import ProfileKind
from callgrove.model.traces import SideTable, SpanKind

__all__ = ["RocpdData", "datasets", "suffixes"]

METADATA = re.compile(r"rocpd_metadata([0-9A-Za-z_]*)")
INTEGER, REAL, TEXT = Type.INTEGER, Type.REAL, Type.TEXT
KIND_OF_CATEGORY = {  # by the word before the first underscore
    "HIP": SpanKind.API,
    "HSA": SpanKind.API,
    "RCCL": SpanKind.API,
    "ROCDECODE": SpanKind.API,
    "ROCJPEG": SpanKind.API,
    "OMPT": SpanKind.API,
    "MARKER": SpanKind.MARKER,
}
EVENT_NEEDED = {"category", "correlation", "parent_correlation", "kind", "label"}
PLACE_COLUMNS = ("agent_id", "dst_agent_id", "src_agent_id", "stream_id", "tid")


KERNEL_COLUMNS = {
    **{f"grid_{axis}": f"grid_size_{axis}" for axis in "xyz"},
    **{f"workgroup_{axis}": f"workgroup_size_{axis}" for axis in "xyz"},
    "lds": "group_segment_size",
    "scratch": "private_segment_size",
    "dispatch": "dispatch_id",
    "kernel": "kernel_id",
    "queue": "queue_id",
    "thread": "tid",
}
REGISTERS = {"vgpr": "arch_vgpr_count", "accum_vgpr": "accum_vgpr_count", "sgpr": "sgpr_count"}


def suffixes(file: SqliteFile) -> list[str]:
    """The suffix of every set of tables."""
    found = [METADATA.fullmatch(name) for name in file.tables]
    return [match[1] for match in found if match]


def datasets(file: SqliteFile) -> list[RocpdData]:
    """Every process of a file."""
    return [RocpdData(file, suffix) for suffix in suffixes(file)]


@dataclass(frozen=True)
class EventTable:
    """A table whose rows are events: where their name and their times come from."""

    base: str
    kind: SpanKind
    name: str
    on_device: bool = False
    start: str = "start"
    end: str = "end"


TABLES = (
    EventTable("region", SpanKind.REGION, "name_id"),
    EventTable("kernel_dispatch", SpanKind.KERNEL, "kernel_id", on_device=True),
    EventTable("memory_copy", SpanKind.COPY, "name_id", on_device=True),
    EventTable("memory_allocate", SpanKind.ALLOC, "type"),
    EventTable("sample", SpanKind.MARKER, "", start="timestamp", end="timestamp"),
)


class RocpdData:
    """One process's tables."""

    def __init__(self, file: SqliteFile, suffix: str) -> None:
        self._file, self._suffix, self.path = file, suffix, file.path
        self.warnings: list[InputWarning] = []
        self._names = Names()
        tags = self._small("metadata", tag=TEXT, value=TEXT)
        self.metadata = dict(zip(tags["tag"].tolist(), tags["value"].tolist(), strict=True))
        self.version = str(self.metadata.get("schema_version") or "3")
        self._refuse_unknown()
        with file.reading():
            self._read_tables()

    def _read_tables(self) -> None:
        self.processes = self._read_processes()
        self.devices, self._agents = self._read_devices()
        self._is_gpu = np.array([device.kind == "GPU" for device in self.devices] + [False])
        self.lanes = self._read_lanes()

    def _refuse_unknown(self) -> None:
        if not re.fullmatch(r"3(\.\d+)*", self.version):
            raise UnsupportedVersion(f"{self.path}: a rocpd database of schema {self.version}; schema 3 can be read")
        if compression := self.metadata.get("compression"):
            raise UnsupportedVersion(f"{self.path}: its columns are compressed ({compression}), which cannot be read")

    # -- the small tables --------------------------------------------------------------------------------------------

    def _table(self, base: str) -> str:
        return f"rocpd_{base}{self._suffix}"

    def _small(self, base: str, **columns: Type) -> Cells:
        return self._file.table(self._table(base), columns)

    def _read_processes(self) -> tuple[Process, ...]:
        nodes = self._small("info_node", id=INTEGER, machine_id=TEXT, hostname=TEXT)
        row = self._small(
            "info_process", pid=INTEGER, nid=INTEGER, init=INTEGER, fini=INTEGER, command=TEXT, environment=TEXT
        )
        uid = str(self.metadata.get("guid") or self._suffix)
        if not len(row["pid"]):
            return (Process(uid, 0),)
        node = np.flatnonzero(nodes["id"] == row["nid"][0])
        at = int(node[0]) if len(node) else ABSENT
        return (
            Process(
                uid,
                int(row["pid"][0]),
                host=(nodes["hostname"][at] or "") if at >= 0 else "",
                machine=(nodes["machine_id"][at] or "") if at >= 0 else "",
                command=row["command"][0] or "",
                start_ns=int(row["init"][0]),
                end_ns=int(row["fini"][0]),
                environment=_strings_of(row["environment"][0]),
            ),
        )

    def _read_devices(self) -> tuple[tuple[Device, ...], Lookup]:
        """Agents as devices, and the device of an agent's id."""
        agents = self._small("info_agent", id=INTEGER, type=TEXT, type_index=INTEGER, name=TEXT, product_name=TEXT)
        seen: dict[str, int] = {}
        devices: list[Device] = []
        for k in range(len(agents["id"])):
            kind = agents["type"][k] or "GPU"
            index = int(agents["type_index"][k])
            seen[kind] = seen.get(kind, -1) + 1
            name = agents["product_name"][k] or agents["name"][k] or ""
            devices.append(Device(0, kind, seen[kind] if index == MISSING else index, name))
        return tuple(devices), Lookup(agents["id"], np.arange(len(devices)))

    def _read_lanes(self) -> tuple[Lane, ...]:
        """The threads that are listed, then the streams that kernels and copies ran on.

        A stream's number is unique on a device only; a copy belongs to the device it goes to or, if that is a CPU or
        unknown, comes from.
        """
        threads = self._small("info_thread", id=INTEGER, tid=INTEGER, name=TEXT)
        lanes = [
            Lane(0, ProfileKind.THREAD, id_ if tid == MISSING else tid, name or "")
            for id_, tid, name in zip(*(threads[c].tolist() for c in ("id", "tid", "name")), strict=True)
        ]
        self._threads = Lookup(threads["id"], np.arange(len(lanes)))
        streams = self._small("info_stream", id=INTEGER, name=TEXT)
        names = dict(zip(streams["id"].tolist(), streams["name"].tolist(), strict=True))
        self._streams: dict[tuple[int, int], int] = {}
        for device, stream in sorted(self._streams_used()):
            self._streams[device, stream] = len(lanes)
            name = names.get(stream) or ("" if stream == MISSING else f"stream {stream}")
            lanes.append(Lane(0, ProfileKind.GPU_STREAM, max(stream, 0), name, device))
        self._nowhere = len(lanes)
        lanes.append(Lane(0, ProfileKind.OTHER, 0, "unknown thread"))
        return tuple(lanes)

    def _streams_used(self) -> set[tuple[int, int]]:
        used: set[tuple[int, int]] = set()
        for table in TABLES:
            if table.on_device:
                for chunk in self._file.chunks(self._table(table.base), dict.fromkeys(PLACE_COLUMNS, INTEGER)):
                    device, stream = self._device(chunk), chunk["stream_id"]
                    used |= set(zip(device.tolist(), stream.tolist(), strict=True))
        return used

    def _device(self, chunk: Cells) -> Ints:
        """The device that an event ran on: the agent, or for copies the GPU at either end."""
        own, to, origin = (self._agents[chunk[name]] for name in ("agent_id", "dst_agent_id", "src_agent_id"))
        out = np.where(own >= 0, own, np.where(self._is_gpu[to], to, np.where(self._is_gpu[origin], origin, to)))
        return out.astype(np.int64)

    @cached_property
    def _kernel_names(self) -> Lookup:
        rows = self._small("info_kernel_symbol", id=INTEGER, display_name=TEXT, kernel_name=TEXT)
        names = [
            display or (mangled or "").removesuffix(".kd") or f"kernel #{id_}"
            for id_, display, mangled in zip(
                rows["id"].tolist(), rows["display_name"], rows["kernel_name"], strict=True
            )
        ]
        return Lookup(rows["id"], self._names.numbers(names))

    @cached_property
    def _string_names(self) -> Lookup:
        rows = self._small("string", id=INTEGER, string=TEXT)
        return Lookup(rows["id"], self._names.numbers(rows["string"].tolist()))

    # -- events ------------------------------------------------------------------------------------------------------

    @property
    def strings(self) -> Sequence[str]:
        return self._names.all

    @property
    def live(self) -> bool:
        return self._file.live

    @cached_property
    def _counts(self) -> tuple[int, ...]:
        return tuple(self._file.count(self._table(table.base)) for table in TABLES)

    def count(self) -> int:
        return sum(self._counts)

    def events(self, columns: Sequence[str]) -> Iterator[Events]:
        with self._file.reading():
            yield from self._events(columns)

    def _events(self, columns: Sequence[str]) -> Iterator[Events]:
        first = 0
        for table in TABLES:
            for chunk in self._file.chunks(self._table(table.base), self._needed(table, columns)):
                n = len(chunk["rowid"])
                yield {"span": np.arange(first, first + n), **self._columns(table, columns, chunk)}
                first += n

    def _needed(self, table: EventTable, columns: Sequence[str]) -> Mapping[str, Type]:
        needed: dict[str, Type] = {"rowid": INTEGER}
        if EVENT_NEEDED & set(columns) or ("name" in columns and not table.name):
            needed["event_id"] = INTEGER
        if "start_ns" in columns:
            needed[table.start] = INTEGER
        if "end_ns" in columns:
            needed[table.end] = INTEGER
        if {"name", "label"} & set(columns) and table.name:
            needed[table.name] = TEXT if table.name == "type" else INTEGER
        if "lane" in columns:
            names = PLACE_COLUMNS if table.on_device else ("track_id",) if table.base == "sample" else ("tid",)
            needed.update(dict.fromkeys(names, INTEGER))
        return needed

    def _columns(self, table: EventTable, columns: Sequence[str], chunk: Cells) -> Events:
        event = self._event(chunk["event_id"]) if "event_id" in chunk else {}
        make: dict[str, Callable[[], Array]] = {
            "start_ns": lambda: chunk[table.start],
            "end_ns": lambda: chunk[table.end],
            "name": lambda: self._name(table, chunk, event),
            "label": lambda: self._label(table, chunk, event),
            "category": lambda: self._string_names[event["category_id"]],
            "correlation": lambda: _or_absent(event["stack_id"]),
            "parent_correlation": lambda: _or_absent(event["parent_stack_id"]),
            "kind": lambda: self._kind(table, event),
            "lane": lambda: self._lane(table, chunk),
        }
        return {name: make[name]() for name in columns}

    def _event(self, ids: Ints) -> Cells:
        """The rows of the event table with these ids; absent where there is none."""
        columns = {"id": INTEGER, "category_id": INTEGER, "stack_id": INTEGER, "parent_stack_id": INTEGER}
        known = ids[ids != MISSING]
        span = (int(known.min()), int(known.max())) if len(known) else (0, -1)
        rows = [dict(part) for part in self._file.chunks(self._table("event"), columns, between=span)]
        found = {name: np.concatenate([part[name] for part in rows] or [np.empty(0, np.int64)]) for name in columns}
        place = Lookup(found.pop("id"), np.arange(len(found["stack_id"])))[ids]
        return {name: np.append(cells, MISSING)[place] for name, cells in found.items()}

    def _name(self, table: EventTable, chunk: Cells, event: Cells) -> Ids:
        if table.base == "kernel_dispatch":
            return self._kernel_names[chunk[table.name]]
        if table.name == "type":
            return self._names.numbers(chunk[table.name].tolist())
        return self._string_names[chunk[table.name] if table.name else event["category_id"]]

    def _label(self, table: EventTable, chunk: Cells, event: Cells) -> Ids:
        """The name; of markers, the message that the event carries."""
        names = self._name(table, chunk, event)
        if table.base not in ("region", "sample"):
            return names
        rows = np.flatnonzero(self._kind(table, event) == SpanKind.MARKER)
        if not len(rows):
            return names
        ids = chunk["event_id"][rows]
        columns, between = {"id": INTEGER, "extdata": TEXT}, (int(ids.min()), int(ids.max()))
        for part in self._file.chunks(self._table("event"), columns, between, unlike=("extdata", "{}")):
            messages = self._names.numbers([_strings_of(text).get("message") for text in part["extdata"]])
            found = Lookup(part["id"], messages)[ids]
            names[rows] = np.where(found >= 0, found, names[rows])
        return names

    def _kind(self, table: EventTable, event: Cells) -> Ids:
        """Regions and samples are what their category says."""
        if table.base not in ("region", "sample"):
            return np.full(len(event["stack_id"]), table.kind, np.int32)
        category = self._string_names[event["category_id"]]
        return self._kind_of_category[category]

    @property
    def _kind_of_category(self) -> Ids:
        """By the number of a string; the last one is for none."""
        words = [text.partition("_")[0] for text in self._names.all]
        return np.array([KIND_OF_CATEGORY.get(word, SpanKind.REGION) for word in [*words, ""]], np.int32)

    def _lane(self, table: EventTable, chunk: Cells) -> Ids:
        if table.on_device:
            device, stream = self._device(chunk), chunk["stream_id"]
            pairs, where = np.unique(np.stack([device, stream]), axis=1, return_inverse=True)
            lanes = np.array([self._streams[int(d), int(s)] for d, s in pairs.T], np.int32)
            return lanes[where.reshape(-1)]
        lane = self._track_lanes[chunk["track_id"]] if table.base == "sample" else self._threads[chunk["tid"]]
        return np.where(lane >= 0, lane, self._nowhere).astype(np.int32)

    @cached_property
    def _track_lanes(self) -> Lookup:
        rows = self._small("track", id=INTEGER, tid=INTEGER)
        return Lookup(rows["id"], self._threads[rows["tid"]])

    def side(self, name: str) -> SideTable | None:
        read = {"kernel": self._kernels, "copy": self._copies, "alloc": self._allocations}
        read |= {"argument": self._arguments, "counter": self._counter_values}
        if name not in read:
            return None
        with self._file.reading():
            table = read[name]()
        return table if len(table.span) else None

    def _first(self, base: str) -> int:
        """The number of the first event of a table."""
        return sum(self._counts[: [table.base for table in TABLES].index(base)])

    def _side(self, base: str, columns: Mapping[str, tuple[str, Type]]) -> SideTable:
        """Columns of an event table as they are: new name -> old name."""
        cells = self._small(base, rowid=INTEGER, **dict(columns.values()))
        return SideTable(
            np.arange(len(cells["rowid"])) + self._first(base),
            {new: _or_absent(cells[old]) if type_ is INTEGER else cells[old] for new, (old, type_) in columns.items()},
        )

    def _kernels(self) -> SideTable:
        table = self._side("kernel_dispatch", {new: (old, INTEGER) for new, old in KERNEL_COLUMNS.items()})
        symbols = self._small("info_kernel_symbol", id=INTEGER, **dict.fromkeys(REGISTERS.values(), INTEGER))
        place = Lookup(symbols["id"], np.arange(len(symbols["id"])))[np.asarray(table.columns["kernel"])]
        registers = {new: np.append(_or_absent(symbols[old]), ABSENT)[place] for new, old in REGISTERS.items()}
        return SideTable(table.span, {**table.columns, **registers})

    def _copies(self) -> SideTable:
        columns = {"bytes": "size", "source": "src_agent_id", "destination": "dst_agent_id", "queue": "queue_id"}
        table = self._side("memory_copy", {new: (old, INTEGER) for new, old in columns.items()})
        ends = {end: self._agents[np.asarray(table.columns[end])] for end in ("source", "destination")}
        return SideTable(table.span, {**table.columns, **ends})

    def _allocations(self) -> SideTable:
        table = self._side(
            "memory_allocate",
            {
                "bytes": ("size", INTEGER),
                "address": ("address", INTEGER),
                "device": ("agent_id", INTEGER),
                "level": ("level", TEXT),
                "queue": ("queue_id", INTEGER),
            },
        )
        device = self._agents[np.asarray(table.columns["device"])]
        return SideTable(table.span, {**table.columns, "device": device})

    @cached_property
    def _span_of_event(self) -> Lookup:
        """The number of the span that refers to each row of the event table."""
        ids = [self._small(table.base, rowid=INTEGER, event_id=INTEGER)["event_id"] for table in TABLES]
        every = np.concatenate(ids)
        return Lookup(every, np.arange(len(every)))

    def _arguments(self) -> SideTable:
        rows = self._small("arg", event_id=INTEGER, position=INTEGER, type=TEXT, name=TEXT, value=TEXT)
        span = self._span_of_event[rows["event_id"]].astype(np.int64)
        known = span >= 0
        return SideTable(span[known], {name: cells[known] for name, cells in rows.items() if name != "event_id"})

    def _counter_values(self) -> SideTable:
        """Counters of kernels, one row per value; those of samples are counters over time."""
        rows = self._small("pmc_event", event_id=INTEGER, pmc_id=INTEGER, value=REAL)
        span = self._span_of_event[rows["event_id"]].astype(np.int64)
        known = (span >= 0) & (span < self._first("sample"))
        return SideTable(
            span[known], {"name": self._counter_names(rows["pmc_id"][known]), "value": rows["value"][known]}
        )

    def _counter_names(self, ids: Ints) -> Array:
        rows = self._small("info_pmc", id=INTEGER, name=TEXT)
        place = Lookup(rows["id"], np.arange(len(rows["id"])))[ids]
        return np.append(rows["name"], "unknown counter")[place]

    def counters(self) -> CounterRows | None:
        with self._file.reading():
            rows = self._small("pmc_event", event_id=INTEGER, pmc_id=INTEGER, value=REAL)
            samples = self._small("sample", track_id=INTEGER, timestamp=INTEGER, event_id=INTEGER)
            if not len(rows["value"]) or not len(samples["event_id"]):
                return None
            place = Lookup(samples["event_id"], np.arange(len(samples["event_id"])))[rows["event_id"]]
            known = place >= 0
            if not known.any():
                return None
            at = place[known]
            lane = self._track_lanes[samples["track_id"][at]]
            texts, number = np.unique(self._counter_names(rows["pmc_id"][known]).astype(str), return_inverse=True)
        lane = np.where(lane >= 0, lane, self._nowhere).astype(np.int32)
        values = rows["value"][known]
        return CounterRows(lane, number.astype(np.int32), samples["timestamp"][at], values, tuple(texts.tolist()))

    def close(self) -> None:
        self._file.close()


def _or_absent(cells: Ints) -> Ints:
    return np.where(cells == MISSING, ABSENT, cells)


def _strings_of(text: str | None) -> Mapping[str, str]:
    """A JSON object of strings; anything else is empty."""
    try:
        found = json.loads(text or "{}")
    except ValueError:
        return {}
    return {str(k): str(v) for k, v in found.items()} if isinstance(found, dict) else {}
