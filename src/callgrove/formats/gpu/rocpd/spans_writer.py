"""Any trace as a rocprofv3 database of schema 3: spans become rows, and every process has tables of its own.

Specification: gpu-traces.md 3.1 to 3.4.

    span                    table                what tells its kind when it is read
    kernel, memset          kernel_dispatch      the table; rocprofv3 records fills as kernels as well
    copy                    memory_copy          the table
    alloc                   memory_allocate      the table
    call, marker, region    region               the category of its event: HIP_..., MARKER_..., anything else

Databases of rocprofv3 themselves are copied row by row instead (writer.py), so that nothing is lost. A rank is
written as PMIX_RANK of the recorded environment, which is where readers look for it.
"""

from __future__ import annotations

import json
import re
import sqlite3
import uuid
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from callgrove.arrays import ABSENT, Ints
from callgrove.errors import UsageError
from callgrove.formats.events.spans import DataSetSpans, refuse_input_as
from callgrove.formats.gpu.draft.rows import process_times, thread_ids
from callgrove.formats.gpu.rocpd.reader import RocpdData
from callgrove.formats.gpu.rocpd.tables import (
    COLUMNS,
    columns_of,
    create_table,
    create_view,
    kind_of_category,
    quote_with,
)
from callgrove.formats.gpu.rocpd.writer import RocpdWriter, create_data_views
from callgrove.formats.interface import Chunk, LossReport, SampleChunk, WriteOptions
from callgrove.formats.writing.targets import SqliteTarget, refuse_existing
from callgrove.formats.writing.writer import (
    TargetWriter,
    left_out_of,
    losses_of_runs,
    losses_of_sides,
    losses_of_tables,
)
from callgrove.model.books import ALLOCATED, COPIED, SAMPLES, VALUES, Books
from callgrove.model.experiment import Experiment
from callgrove.model.profiles import ProfileKind
from callgrove.model.traces.events import LABEL, PARENT, SIDE_TABLES, SideRows, SpanChunk, SpanKind
from callgrove.model.values import DenseBlock, SparseBlock

__all__ = ["RocpdAnyWriter", "RocpdSpansWriter"]

VERSION = "3"
DEVICE_KINDS = (SpanKind.KERNEL, SpanKind.MEMSET, SpanKind.COPY)
CATEGORIES = {  # of spans whose own would make another kind of them, or that have none
    SpanKind.KERNEL: "KERNEL_DISPATCH",
    SpanKind.MEMSET: "KERNEL_DISPATCH",
    SpanKind.COPY: "MEMORY_COPY",
    SpanKind.ALLOC: "MEMORY_ALLOCATION",
    SpanKind.API: "HIP_RUNTIME_API_EXT",
    SpanKind.MARKER: "MARKER_CORE_API",
}
BY_CATEGORY = (SpanKind.API, SpanKind.MARKER, SpanKind.REGION)
BECOME = {  # kinds that the schema does not have
    SpanKind.MEMSET: "fills of memory: {:,} become kernels, as rocprofv3 writes them",
    SpanKind.SYNC: "waits: {:,} become regions; the schema has no such kind",
    SpanKind.OVERHEAD: "overhead of the profiler: {:,} spans become regions; the schema has no such kind",
}
SHAPE = {f"grid_size_{axis}": f"grid_{axis}" for axis in "xyz"} | {
    **{f"workgroup_size_{axis}": f"workgroup_{axis}" for axis in "xyz"},
    "group_segment_size": "lds",
    "private_segment_size": "scratch",
}
REGISTERS = {"arch_vgpr_count": "vgpr", "accum_vgpr_count": "accum_vgpr", "sgpr_count": "sgpr"}
KEPT_SIDES = {  # columns of side tables that have a column there; agents and symbols are numbered anew
    "kernel": {*SHAPE.values(), *REGISTERS.values(), "dispatch", "queue", "thread", "agent", "kernel"},
    "copy": {"bytes", "source", "destination", "queue", "thread", "source_address", "destination_address"},
    "alloc": {"bytes", "address", "device", "level"},
}
WHY = "they are copied from rocprofv3 databases alone"
LAUNCHERS = (
    "CREATE TEMP TABLE launchers AS SELECT E.stack_id, min(R.tid) AS tid FROM {region} R "
    "JOIN {event} E ON E.id = R.event_id WHERE E.stack_id IS NOT NULL GROUP BY E.stack_id",
    "CREATE INDEX temp.launcher ON launchers (stack_id)",
    "UPDATE {kernel_dispatch} AS K SET tid = (SELECT L.tid FROM {event} E JOIN launchers L USING (stack_id) "
    "WHERE E.id = K.event_id) WHERE tid IS NULL",
    "UPDATE {memory_copy} AS K SET tid = (SELECT L.tid FROM {event} E JOIN launchers L USING (stack_id) "
    "WHERE E.id = K.event_id) WHERE tid IS NULL",
    "DROP TABLE launchers",
)

Row = Mapping[str, object]
Cells = Sequence[object]


@dataclass
class _Process:
    """The tables of one process that is being written."""

    guid: str
    nid: int
    pid: int
    first_ns: int | None = None
    last_ns: int | None = None
    strings: dict[str, int] = field(default_factory=lambda: {"": 1})
    kernels: dict[str, dict[str, object]] = field(default_factory=dict)  # symbols by name
    agents: dict[tuple[str, int], int] = field(default_factory=dict)  # by kind and index
    streams: dict[int, str] = field(default_factory=dict)
    threads: set[int] = field(default_factory=set)
    queues: set[int] = field(default_factory=lambda: {0})
    n_rows: Counter[str] = field(default_factory=Counter)
    n_strings: int = 0  # that were written

    @property
    def suffix(self) -> str:
        return "_" + self.guid.replace("-", "_")

    def table(self, base: str) -> str:
        return f"rocpd_{base}{self.suffix}"

    def string(self, text: str) -> int:
        return self.strings.setdefault(text.encode("utf-8", "replace").decode(), len(self.strings) + 1)

    def kernel(self, name: str) -> dict[str, object]:
        """Return the symbol of a kernel; its registers are those of the first launch that has them."""
        return self.kernels.setdefault(name, {"id": len(self.kernels) + 1})

    def number(self, base: str, n: int) -> range:
        """Take ids for further rows of a table."""
        first = self.n_rows[base] + 1
        self.n_rows[base] += n
        return range(first, first + n)

    def see(self, chunk: SpanChunk) -> None:
        """Extend the lifetime of the process to include all spans of a chunk."""
        first, last = int(chunk["start_ns"].min()), int(chunk["end_ns"].max())
        self.first_ns = first if self.first_ns is None else min(self.first_ns, first)
        self.last_ns = last if self.last_ns is None else max(self.last_ns, last)


class RocpdSpansWriter(TargetWriter[SqliteTarget, Experiment]):
    """Writes spans as a database of rocprofv3."""

    takes_spans = True
    holds_only_traces = True

    def __init__(self, target: Path, options: WriteOptions) -> None:
        super().__init__(SqliteTarget(target, options.overwrite, in_place=options.in_place))

    @property
    def _database(self) -> sqlite3.Connection:
        return self._pending.database

    def _begin(self, tables: Experiment) -> None:
        refuse_input_as(self.target, tables)
        if not tables.traces.n_spans or tables.traces.spans_backend is None:
            raise UsageError(
                f"{self.target}: rocpd holds events of GPU programs, and the input has none; "
                "rocpd-draft holds samples, and callgrove (OUT.cgrove) everything"
            )
        self._open, self._names = tables, tables.traces.spans_backend.strings
        self._books = Books.of(tables.metrics)
        self._books.excuse(VALUES, SAMPLES)
        self._lost: Counter[str] = Counter()
        self._become: Counter[int] = Counter()
        self._sides = {side: SideRows(tables.traces, side, self._books.given.add_side) for side in KEPT_SIDES}
        self._place_profiles(tables)
        self._report_losses(tables)

    def _report_losses(self, tables: Experiment) -> None:
        traces = tables.traces
        lines = [
            *losses_of_runs(tables.runs),
            *losses_of_sides(traces, [name for name in SIDE_TABLES if name not in KEPT_SIDES], WHY),
            *losses_of_tables(traces, WHY),
        ]
        further: Counter[str] = Counter()
        for part in range(len(traces.parts())):
            further.update(left_out_of(traces, part, KEPT_SIDES, KEPT_SIDES))
        why = "the schema has no column for them"
        lines += [f"more about {words}: {n:,} are left out; {why}" for words, n in further.items()]
        if traces.counters is not None and len(traces.counters):
            lines.append(f"counters over time: {len(traces.counters):,} values are left out; {WHY}")
        for text in lines:
            self._report.add(text)

    # -- who did it --------------------------------------------------------------------------------------------------

    def _place_profiles(self, tables: Experiment) -> None:
        """Write processes with their tables, threads, devices and streams, and note the place of every profile in
        these."""
        profiles, n = tables.profiles, len(tables.profiles)
        columns = ("node", "rank", "gpu_device", "gpu_stream")
        self._identity = {name: profiles.identity_list(name) for name in columns}
        self._tids, times = thread_ids(tables), process_times(tables)
        self._tid, self._stream, self._gpu = (np.full(n, ABSENT, np.int64) for _ in range(3))
        self._process_of = np.full(n, ABSENT, np.int64)
        self._processes: list[_Process] = []
        known: dict[tuple[int, int | None, int | None], int] = {}
        firsts: list[int] = []  # the first profile of every process
        guids: set[str] = set()
        for profile in profiles.measured.tolist():
            key = int(profiles.run[profile]), self._identity["node"][profile], self._identity["rank"][profile]
            if key not in known:
                known[key] = len(self._processes)
                firsts.append(profile)
                self._processes.append(self._new_process(profile, known[key], tables.title, guids))
                self._processes[-1].first_ns, self._processes[-1].last_ns = times[profile]
            self._process_of[profile] = known[key]
        self._pending.create_tables(_declare_tables(self._processes))
        self._database.execute("BEGIN")
        for process, profile in zip(self._processes, firsts, strict=True):
            self._describe_process(process, profile, tables.title)
        parts = tables.traces.parts()
        self._part_of = {int(profile): number for number, part in enumerate(parts) for profile in part.tolist()}
        self._agents = [self._list_devices(number, part) for number, part in enumerate(parts)]
        for profile in profiles.measured.tolist():
            self._place(profile, tables)

    def _new_process(self, profile: int, number: int, title: str, guids: set[str]) -> _Process:
        """Return a process, whose GUID is one that none of `guids` is; it joins these."""
        about = self._about(profile, "process")
        derived = str(uuid.uuid5(uuid.NAMESPACE_OID, f"callgrove {title} {number}"))  # the same in every conversion
        guid = told if (told := about.get("guid", "")) and told not in guids and _is_guid(told) else derived
        guids.add(guid)
        pid, (machine, _) = about.get("pid", ""), self._machine(profile)
        return _Process(guid, zlib.crc32(machine.encode()), int(pid) if pid.isdecimal() else number + 1)

    def _machine(self, profile: int) -> tuple[str, str]:
        """Return the machine that a profile is of, and its host name."""
        node = self._identity["node"][profile]
        host = self._about(profile, "process").get("hostname") or ("" if node is None else f"node{node}")
        return self._about(profile, "node").get("machine_id") or host, host

    def _describe_process(self, process: _Process, profile: int, title: str) -> None:
        """Write what the schema says of a process as a whole, to which a profile belongs."""
        rank, (machine, host) = self._identity["rank"][profile], self._machine(profile)
        tags = {"schema_version": VERSION, "uuid": process.suffix, "guid": process.guid}
        self._insert(process, "metadata", tag=list(tags), value=list(tags.values()))
        node_row = {"machine_id": machine, "hostname": host, "hash": process.nid, "domain_name": "(none)"}
        self._insert_row(process, "info_node", {"id": process.nid, "system_name": "Linux", **node_row})
        environment = json.dumps({} if rank is None else {"PMIX_RANK": str(rank)})
        command = self._about(profile, "process").get("command") or title
        more = {"command": command, "environment": environment, "extdata": "{}"}
        self._insert_row(process, "info_process", {"id": process.pid, "nid": process.nid, "pid": process.pid, **more})

    def _about(self, profile: int, kind: str) -> Mapping[str, str]:
        """Return what the system tree says about the node, process or device of a profile."""
        assert self._open is not None
        system, leaf = self._open.system, int(self._open.profiles.system[profile])
        for place in system.path(leaf) if leaf >= 0 else []:
            if system.kind[place] == kind:
                return system.attributes.get(place, {})
        return {}

    def _list_devices(self, number: int, part: Ints) -> Ints:
        """Make the devices of a part agents of its processes, and return their ids in the order of the list."""
        assert self._open is not None
        inside = [k for k in dict.fromkeys(self._process_of[part].tolist()) if k >= 0] or [0]
        ids = []
        for device in self._open.traces.devices(number):
            process = self._processes[inside[min(device.process, len(inside) - 1)]]
            ids.append(self._agent(process, device.kind, device.index, device.name, device.attributes))
        return np.array(ids, np.int64)

    def _agent(
        self, process: _Process, kind: str, index: int, name: str = "", told: Mapping[str, str] | None = None
    ) -> int:
        if (kind, index) not in process.agents:
            process.agents[kind, index] = id_ = len(process.agents)
            words = {key: value for key, value in (told or {}).items() if not key.endswith("_index")}
            numbers = {key: (told or {}).get(key, id_) for key in ("absolute_index", "logical_index")}
            names = {"name": words.get("name", name), "product_name": name}
            where = {"nid": process.nid, "pid": process.pid, "type": kind, "type_index": index}
            row = {"id": id_, **where, **numbers, **names, "extdata": json.dumps(words)}
            self._insert_row(process, "info_agent", row)
        return process.agents[kind, index]

    def _place(self, profile: int, tables: Experiment) -> None:
        process = self._processes[int(self._process_of[profile])]
        name, device = tables.profiles.name[profile], self._identity["gpu_device"][profile]
        self._agent(process, "CPU", 0)
        if device is not None:
            self._gpu[profile] = self._agent(process, "GPU", device, self._about(profile, "device").get("name", ""))
            stream = self._identity["gpu_stream"][profile]
            if stream is not None:
                self._stream[profile] = stream
                if process.streams.setdefault(stream, name) != name:
                    self._lost["names of streams that share a number with one of another device"] += 1
        elif tables.profiles.kind[profile] == ProfileKind.THREAD:
            tid = int(self._tids[profile])
            while tid in process.threads:  # two of one number are two nevertheless
                tid += 1 << 20
            process.threads.add(tid)
            self._tid[profile] = tid
            where = {"id": tid, "nid": process.nid, "pid": process.pid, "tid": tid}
            self._insert_row(process, "info_thread", {**where, "name": name or None, "extdata": "{}"})

    # -- what happened -----------------------------------------------------------------------------------------------

    def _take(self, tables: Experiment, chunk: Chunk) -> None:
        if isinstance(chunk, SampleChunk):
            self._report.add("samples: the schema has no place for call stacks; rocpd-draft has")
        elif isinstance(chunk, SparseBlock | DenseBlock):
            return  # of spans, values are made again when the file is read
        else:
            for number in np.unique(self._process_of[chunk["profile"]]).tolist():
                rows = np.flatnonzero(self._process_of[chunk["profile"]] == number)
                self._write_spans(self._processes[number], {name: column[rows] for name, column in chunk.items()})

    def _write_spans(self, process: _Process, chunk: SpanChunk) -> None:
        process.see(chunk)
        kinds = chunk["kind"]
        kernel, copy = np.isin(kinds, (SpanKind.KERNEL, SpanKind.MEMSET)), kinds == SpanKind.COPY
        alloc = kinds == SpanKind.ALLOC
        events = np.array(self._write_events(process, chunk), np.int64)
        groups = (
            (kernel, self._write_kernels),
            (copy, self._write_copies),
            (alloc, self._write_allocations),
            (~kernel & ~copy & ~alloc, self._write_regions),
        )
        for chosen, write in groups:
            if chosen.any():
                write(process, {name: column[chosen] for name, column in chunk.items()}, events[chosen].tolist())
        for kind, n in zip(*np.unique(kinds, return_counts=True), strict=True):
            self._become[int(kind)] += int(n)
        assert self._books is not None
        self._books.passed.add_spans(chunk)

    def _write_events(self, process: _Process, chunk: SpanChunk) -> range:
        ids = process.number("event", len(chunk["span"]))
        kinds = chunk["kind"].tolist()
        texts = [self._text(number) for number in chunk["category"].tolist()]
        categories = [process.string(self._category(kind, text)) for kind, text in zip(kinds, texts, strict=True)]
        stack = _or_null(chunk["correlation"])
        above = _or_null(np.where(np.isin(chunk["kind"], DEVICE_KINDS), chunk["correlation"], chunk[PARENT]))
        extdata = [self._message(kind, row) for kind, row in zip(kinds, _pairs(chunk, LABEL, "name"), strict=True)]
        same: dict[str, Cells] = {name: ["{}"] * len(ids) for name in ("call_stack", "line_info")}
        ties: dict[str, Cells] = {"stack_id": stack, "parent_stack_id": above, "correlation_id": [0] * len(ids)}
        self._insert(process, "event", id=ids, category_id=categories, extdata=extdata, **ties, **same)
        return ids

    def _category(self, kind: int, text: str) -> str:
        """Return the category of an event, from which readers derive its kind."""
        usual = CATEGORIES.get(SpanKind(kind), SpanKind(kind).word.upper())
        if kind in CATEGORIES and kind not in BY_CATEGORY:
            return text or usual
        wanted = kind if kind in BY_CATEGORY else SpanKind.REGION
        if text and kind_of_category(text) == wanted:
            return text
        if text:
            self._lost[f"categories of spans, which are {usual} now, as the schema tells kinds by them"] += 1
        return usual

    def _message(self, kind: int, label_and_name: tuple[int, int]) -> str:
        """Return the text of a marker as JSON, where its name is only that of a call."""
        label, name = label_and_name
        return json.dumps({"message": self._text(label)}) if kind == SpanKind.MARKER and label != name else "{}"

    def _write_regions(self, process: _Process, chunk: SpanChunk, events: Cells) -> None:
        """Write regions under the names by which they are shown; for markers these are the texts of their events."""
        shown = np.where((chunk["kind"] == SpanKind.MARKER) | (chunk[LABEL] < 0), chunk["name"], chunk[LABEL])
        if renamed := int((shown != chunk["name"]).sum()):
            self._lost["names of calls as the profiler has them; they are written as they are shown"] += renamed
        names = [process.string(self._text(number)) for number in shown.tolist()]
        self._insert(process, "region", name_id=names, **self._common(process, "region", chunk, events))

    def _write_kernels(self, process: _Process, chunk: SpanChunk, events: Cells) -> None:
        symbols = [process.kernel(self._text(number)) for number in chunk["name"].tolist()]
        for column, word in REGISTERS.items():
            for symbol, told in zip(symbols, self._side(chunk, "kernel", word), strict=True):
                symbol.setdefault(column, told)
        self._leave_out_sizes(chunk)
        common = self._common(process, "kernel_dispatch", chunk, events)
        told = self._side(chunk, "kernel", "dispatch")
        dispatch = [
            id_ if dispatch_id is None else dispatch_id for dispatch_id, id_ in zip(told, common["id"], strict=True)
        ]
        where = {**self._on_device(process, chunk, "kernel"), "agent_id": _or_null(self._gpu[chunk["profile"]])}
        shape = {column: self._side(chunk, "kernel", word) for column, word in SHAPE.items()}
        kernels = [symbol["id"] for symbol in symbols]
        columns: dict[str, Cells] = {**common, **where, **shape, "kernel_id": kernels, "dispatch_id": dispatch}
        self._insert(process, "kernel_dispatch", region_name_id=[1] * len(events), **columns)

    def _leave_out_sizes(self, chunk: SpanChunk) -> None:
        """Count the bytes of fills, which become kernels: these have no column for them."""
        sizes = [size for size in self._side(chunk, "copy", "bytes") if isinstance(size, int)]
        if sizes:
            assert self._books is not None
            self._books.given.add_amount(COPIED, np.array(sizes, np.int64), times=-1)
            self._lost["sizes of fills of memory, for which kernels have no column"] += len(sizes)

    def _write_copies(self, process: _Process, chunk: SpanChunk, events: Cells) -> None:
        names = [self._text(number) for number in chunk["name"].tolist()]
        told = {
            f"{end}_address": self._side(chunk, "copy", word, signed=True)
            for end, word in (("src", "source_address"), ("dst", "destination_address"))
        }
        where = self._on_device(process, chunk, "copy")
        to, origin = zip(*self._ends(process, chunk, names), strict=True)
        columns: dict[str, Cells] = {**self._common(process, "memory_copy", chunk, events), **where, **told}
        columns |= {"dst_agent_id": to, "src_agent_id": origin, "size": self._side(chunk, "copy", "bytes")}
        strings = list(map(process.string, names))
        self._insert(process, "memory_copy", name_id=strings, region_name_id=[1] * len(events), **columns)

    def _ends(self, process: _Process, chunk: SpanChunk, names: Sequence[str]) -> Iterator[tuple[int | None, int]]:
        """Yield destination and source of each copy, one of which is the profile's device: as the profiler says, or as
        the copy's name does."""
        cpu, gpus = process.agents["CPU", 0], {id_ for (kind, _), id_ in process.agents.items() if kind == "GPU"}
        told = zip(*(self._side(chunk, "copy", word) for word in ("destination", "source")), strict=True)
        profile_gpus = self._gpu[chunk["profile"]].tolist()
        agents = self._agents_of(chunk)
        for name, gpu, (to, origin) in zip(names, profile_gpus, told, strict=True):
            if isinstance(to, int) and isinstance(origin, int):
                ends = int(agents[to]), int(agents[origin])
                if gpu == (ends[0] if ends[0] in gpus else ends[1]):
                    yield ends
                    continue
                self._lost["ends of copies that are shown on another device"] += 1
            words = re.sub(r"[\W_]+", "_", name).upper()
            device = None if gpu < 0 else gpu
            if "DEVICE_TO_HOST" in words and device is not None:
                yield cpu, device
            else:
                yield device, device if "DEVICE_TO_DEVICE" in words and device is not None else cpu

    def _write_allocations(self, process: _Process, chunk: SpanChunk, events: Cells) -> None:
        agents, told = self._agents_of(chunk), self._side(chunk, "alloc", "device")
        columns: dict[str, Cells] = {
            **self._common(process, "memory_allocate", chunk, events),
            "type": [self._text(number) or None for number in chunk["name"].tolist()],
            "agent_id": [int(agents[device]) if isinstance(device, int) else None for device in told],
            "level": self._side(chunk, "alloc", "level"),
            "address": self._side(chunk, "alloc", "address", signed=True),
            "size": self._side(chunk, "alloc", "bytes"),
        }
        self._insert(process, "memory_allocate", **columns)

    def _agents_of(self, chunk: SpanChunk) -> Ints:
        """Return the ids of agents by the numbers that side tables use, for the part that a chunk belongs to."""
        return self._agents[self._part_of[int(chunk["profile"][0])]]

    # -- columns -----------------------------------------------------------------------------------------------------

    def _common(self, process: _Process, base: str, chunk: SpanChunk, events: Cells) -> dict[str, Cells]:
        """Return the columns that all tables of events have. Operations of devices get the thread that launched them at
        the end."""
        n = len(events)
        tids = _or_null(self._tid[chunk["profile"]])
        if base in ("region", "memory_allocate") and (homeless := tids.count(None)):
            self._lost["threads of spans that belong to none"] += homeless
        return {
            "id": process.number(base, n),
            "nid": [process.nid] * n,
            "pid": [process.pid] * n,
            "tid": tids,
            "start": chunk["start_ns"].tolist(),
            "end": chunk["end_ns"].tolist(),
            "event_id": events,
            "extdata": ["{}"] * n,
        }

    def _on_device(self, process: _Process, chunk: SpanChunk, side: str) -> dict[str, Cells]:
        """Return stream, queue and, where the profiler tells it, thread."""
        if homeless := int((self._gpu[chunk["profile"]] < 0).sum()):
            self._lost["devices of operations that are shown on none"] += homeless
        queues = [0 if queue is None else queue for queue in self._side(chunk, side, "queue")]
        process.queues.update(queue for queue in queues if isinstance(queue, int))
        tids = [tid if tid in process.threads else None for tid in self._side(chunk, side, "thread")]
        return {"stream_id": _or_null(self._stream[chunk["profile"]]), "queue_id": queues, "tid": tids}

    def _side(self, chunk: SpanChunk, side: str, column: str, *, signed: bool = False) -> list[object]:
        return self._sides[side].cells(chunk, column, signed=signed)

    def _text(self, number: int) -> str:
        return self._names[number] if number >= 0 else ""

    def _insert(self, process: _Process, base: str, **columns: Cells) -> None:
        names, marks = ", ".join(map(quote_with, columns)), ", ".join("?" * len(columns))
        statement = f"INSERT INTO {quote_with(process.table(base))} ({names}) VALUES ({marks})"
        self._database.executemany(statement, zip(*columns.values(), strict=True))

    def _insert_row(self, process: _Process, base: str, row: Row) -> None:
        self._insert(process, base, **{name: [cell] for name, cell in row.items()})

    # -- the end -----------------------------------------------------------------------------------------------------

    def _finish(self, tables: Experiment) -> None:
        for process in self._processes:
            self._finish_process(process)
            self._add_up(process)
        for base in COLUMNS:
            self._database.execute(create_view(base, [process.table(base) for process in self._processes]))
        for _, statement in create_data_views({base: columns_of(base) for base in COLUMNS}):
            self._database.execute(statement)
        self._database.execute("COMMIT")
        for kind, sentence in BECOME.items():
            if n := self._become[int(kind)]:
                self._report.add(sentence.format(n))
        for loss, n in self._lost.items():
            self._report.add(f"{loss}: {n:,}")

    def _store(self, tables: Experiment) -> None:
        """Commit what was written, with all that its rows refer to: others may read it."""
        for process in self._processes:
            self._write_names(process)
        self._database.execute("COMMIT")
        self._database.execute("BEGIN")

    def _write_names(self, process: _Process) -> None:
        """Write what rows refer to: names, symbols, streams and queues, as far as they are known."""
        where = {"nid": process.nid, "pid": process.pid, "extdata": "{}"}
        new = list(process.strings)[process.n_strings :]
        self._insert(process, "string", id=[process.strings[text] for text in new], string=new)
        process.n_strings = len(process.strings)
        for base in ("info_code_object", "info_kernel_symbol", "info_stream", "info_queue"):  # few, and they change
            self._database.execute(f"DELETE FROM {quote_with(process.table(base))}")
        if process.kernels:
            self._insert_row(process, "info_code_object", {"id": 1, **where})
        for name, symbol in process.kernels.items():
            names = {"kernel_name": f"{name}.kd" if name else None, "display_name": name or None}
            self._insert_row(process, "info_kernel_symbol", {**symbol, **names, "code_object_id": 1, **where})
        for stream, name in process.streams.items():
            self._insert_row(process, "info_stream", {"id": stream, "name": name or None, **where})
        for queue in sorted(process.queues):
            name = f"Queue {queue}" if queue else "Default Queue"
            self._insert_row(process, "info_queue", {"id": queue, "name": name, **where})

    def _finish_process(self, process: _Process) -> None:
        """Write what is known only at the end: names, when the process ran, and which thread launched what."""
        self._write_names(process)
        times = (process.first_ns, process.last_ns)
        self._database.execute(
            f'UPDATE {quote_with(process.table("info_process"))} SET init = ?, fini = ?, start = ?, "end" = ?',
            times * 2,
        )
        for statement in LAUNCHERS:
            self._database.execute(statement.format(**{base: quote_with(process.table(base)) for base in COLUMNS}))

    def _add_up(self, process: _Process) -> None:
        """Enter the bytes that the file holds into the books."""
        assert self._books is not None
        for base, amount in (("memory_copy", COPIED), ("memory_allocate", ALLOCATED)):
            query = f"SELECT count(size), total(size), total(abs(size)) FROM {quote_with(process.table(base))}"
            self._books.passed.amount(amount).enter(*self._database.execute(query).fetchone())

    def _give_up(self, tables: Experiment) -> None:
        """Do nothing: the target closes its own connection."""


class RocpdAnyWriter:
    """Copies databases of rocprofv3, and writes spans of everything else; the input decides which."""

    holds_only_traces = True

    def __init__(self, target: Path, options: WriteOptions) -> None:
        refuse_existing(target, options.overwrite)
        self._target, self._options = target, options
        self._chosen: RocpdWriter | RocpdSpansWriter | None = None

    @property
    def takes_spans(self) -> bool:
        return self._writer.takes_spans

    @property
    def books(self) -> Books | None:
        return self._writer.books

    @property
    def _writer(self) -> RocpdWriter | RocpdSpansWriter:
        if self._chosen is None:
            raise UsageError(f"{self._target}: define comes first, and nothing after close")
        return self._chosen

    def define(self, tables: Experiment) -> None:
        if self._chosen is None:
            backend = tables.traces.spans_backend
            datasets = backend.datasets if isinstance(backend, DataSetSpans) else []
            copied = bool(datasets) and all(isinstance(dataset, RocpdData) for dataset in datasets)
            self._chosen = (RocpdWriter if copied else RocpdSpansWriter)(self._target, self._options)
        self._chosen.define(tables)

    def write(self, chunk: Chunk) -> None:
        self._writer.write(chunk)

    def flush(self) -> None:
        self._writer.flush()

    def close(self) -> LossReport:
        return self._writer.close()

    def abort(self) -> None:
        if self._chosen is not None:
            self._chosen.abort()


def _declare_tables(processes: Sequence[_Process]) -> Iterator[tuple[str, str]]:
    """Yield name and statement of all tables, process by process."""
    for process in processes:
        for base in COLUMNS:
            table = process.table(base)
            yield table, create_table(table, base, columns_of(base), process.guid)


def _is_guid(text: str) -> bool:
    return re.fullmatch(r"[0-9A-Za-z][0-9A-Za-z-]*", text) is not None


def _pairs(chunk: SpanChunk, first: str, second: str) -> Iterator[tuple[int, int]]:
    return zip(chunk[first].tolist(), chunk[second].tolist(), strict=True)


def _or_null(numbers: Ints) -> list[int | None]:
    return [None if number < 0 else number for number in numbers.tolist()]
