"""Spans as rows of the draft schema, and the processes, threads, devices and lanes that did them.

What the schema has no column for goes into the JSON of `additional_info`: schema.py lists it. A column of a side
table that is not even there is counted in `lost`. A launch gets the time and the thread of the call that it was made by
when all spans of its part were seen: until then, calls and launches of the part are held, some 40 bytes each.
"""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from callgrove.arrays import ABSENT, Array, Ints
from callgrove.formats.gpu.draft.schema import SIDE_DEVICES, SIDE_TEXTS, VERSION, insert
from callgrove.model.books import COPIED, COUNTED, Books
from callgrove.model.experiment import Experiment
from callgrove.model.profiles import PROFILER, ProfileKind
from callgrove.model.traces.events import (
    LABEL,
    PARENT,
    PLACES,
    Device,
    SideRows,
    SideTable,
    SpanChunk,
    SpanKind,
    Traces,
)
from callgrove.model.traces.pairing import launch_calls

__all__ = ["IN_COLUMNS", "DraftPlaces", "SpanRows", "Strings", "process_times", "thread_ids"]


# Who did it, for the writer of the draft schema: processes, threads, devices, and lanes that it has no table for.
#
# Streams, queues and whatever else is not a thread are listed in the metadata (`lanes`), as are the ranks and nodes of
# processes, and all devices with what the profiler says of them (`devices`), which rows name by their place there.


Facts = Mapping[str, tuple[tuple[str, int], ...]]

MHZ, MEGABYTE = 1_000_000, 1 << 20
GPU_FACTS: Facts = {  # of gpu_info: words of profilers, and what their number is multiplied by (or divided, below 0)
    "multiprocessor_count": (("cu_count", 1), ("multiprocessors", 1)),
    "clock_rate_hz": (("max_engine_clk_fcompute", MHZ), ("clock_rate", 1)),
    "memory_size_mb": (("memory", -MEGABYTE),),
}
CPU_FACTS: Facts = {"frequency_hz": (("max_engine_clk_ccompute", MHZ),)}
INFO_TABLES: Mapping[str, tuple[str, str, Facts]] = {
    "GPU": ("gpu_info", "device_name_id", GPU_FACTS),
    "CPU": ("cpu_info", "model_id", CPU_FACTS),
}

Times = tuple[int | None, int | None]


class Strings:
    """The table `strings`: every text once, its id from 1 on."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database
        self._ids: dict[str, int] = {}

    def __call__(self, text: str) -> int:
        safe = text.encode("utf-8", "replace").decode()  # a lone surrogate is not text
        if safe not in self._ids:
            self._ids[safe] = len(self._ids) + 1
            self._database.execute(insert("strings", "id", "value"), (self._ids[safe], safe))
        return self._ids[safe]


class DraftPlaces:
    """The ids of the rows of every profile: 0 is none for `thread` and `gpu`, -1 for `lane` and `queue`. `devices`
    gives, by part of the spans, the number of each of its devices in the list of all.

    `devices` gives, by part of the spans, the place of each of its devices in the list of all.
    """

    def __init__(self, database: sqlite3.Connection, strings: Strings, tables: Experiment) -> None:
        self._database, self._strings, self._tables = database, strings, tables
        n = len(tables.profiles)
        self.process, self.thread, self.gpu = (np.zeros(n, np.int64) for _ in range(3))
        self.queue, self.lane = (np.full(n, ABSENT, np.int64) for _ in range(2))
        self._processes: dict[tuple[int | None, int | None], int] = {}
        self._known: dict[tuple[int, str, int], int] = {}  # places of devices in their list
        self._gpu_rows: dict[int, int] = {}  # by place in that list
        self._rows: dict[str, int] = dict.fromkeys(INFO_TABLES, 0)  # of the tables of devices
        self._lists: dict[str, list[dict[str, object]]] = {"processes": [], "devices": [], "lanes": []}
        columns = ("node", "rank", "gpu_device", "gpu_stream")
        self._identity = {name: tables.profiles.identity_list(name) for name in columns}
        self._tids, self._times = thread_ids(tables), process_times(tables)
        measured = tables.profiles.measured.tolist()
        for profile in measured:
            self.process[profile] = self._process(profile)
        self.devices = [self._of_part(number, part) for number, part in enumerate(tables.traces.parts())]
        self.thread_rows: dict[tuple[int, int], int] = {}  # by process and thread id
        for profile in measured:
            self._add(profile)
        self._write_metadata()

    def _of_part(self, number: int, part: Ints) -> Ints:
        """Return the devices of a part; their process numbers count the processes of the part."""
        processes = list(dict.fromkeys(self.process[part].tolist())) or [1]
        devices = self._tables.traces.devices(number)
        return np.array([self._device(processes[min(d.process, len(processes) - 1)], d) for d in devices], np.int64)

    def _device(self, process: int, device: Device) -> int:
        """Return the number of a device in the list of all, adding it when it is new."""
        key = process, device.kind, device.index
        if key not in self._known:
            self._known[key] = len(self._lists["devices"])
            said = {"process": process, "kind": device.kind, "index": device.index, "name": device.name}
            more = {"attributes": dict(device.attributes)} if device.attributes else {}
            row = self._info(device)
            self._lists["devices"].append(said | more | row)
            self._gpu_rows[self._known[key]] = row.get("gpu_info", 0)
        return self._known[key]

    def _info(self, device: Device) -> dict[str, int]:
        """Insert a row about the device, where the schema has a table for its kind, and return its id by table."""
        if device.kind not in INFO_TABLES:
            return {}
        table, name, facts = INFO_TABLES[device.kind]
        self._rows[device.kind] = id_ = self._rows[device.kind] + 1
        known = {column: _fact(device, words) for column, words in facts.items()}
        if version := device.attributes.get("name", "") if device.kind == "GPU" else "":
            known["compute_capability_id"] = self._strings(version)
        row = {"id": id_, name: self._strings(device.name), **known}
        self._database.execute(insert(table, *row), tuple(row.values()))
        return {table: id_}

    def _add(self, profile: int) -> None:
        kind = ProfileKind(int(self._tables.profiles.kind[profile]))
        device = self._identity["gpu_device"][profile]
        process = int(self.process[profile])
        if device is not None:
            place = self._device(
                process, Device(process, "GPU", device, self._about(profile, "device").get("name", ""))
            )
            self.gpu[profile] = self._gpu_rows[place]
        if kind is ProfileKind.THREAD:
            self.thread[profile] = self.thread_rows[process, int(self._tids[profile])] = profile + 1
            name = self._strings(self._tables.profiles.name[profile])
            row = (profile + 1, int(self._tids[profile]), process, name)
            self._database.execute(insert("thread", "id", "tid", "process_id", "thread_name_id"), row)
            return
        stream = self._identity["gpu_stream"][profile]
        self.lane[profile], self.queue[profile] = len(self._lists["lanes"]), ABSENT if stream is None else stream
        lane: dict[str, object] = {
            "process": process,
            "kind": kind.word,
            "number": stream or 0,
            "name": self._tables.profiles.name[profile],
        }
        if self._tables.system.is_part_of(int(self._tables.profiles.system[profile]), PROFILER):
            lane["profiler"] = True  # what it tells of itself is no time of the program
        self._lists["lanes"].append(lane | ({"gpu": int(self.gpu[profile])} if device is not None else {}))

    def _about(self, profile: int, kind: str) -> Mapping[str, str]:
        """Return what the system tree says about the node, process or device of a profile."""
        system, leaf = self._tables.system, int(self._tables.profiles.system[profile])
        for place in system.path(leaf) if leaf >= 0 else []:
            if system.kind[place] == kind:
                return system.attributes.get(place, {})
        return {}

    def _process(self, profile: int) -> int:
        node, rank = self._identity["node"][profile], self._identity["rank"][profile]
        if (node, rank) not in self._processes:
            self._processes[node, rank] = id_ = len(self._processes) + 1
            about = self._about(profile, "process")
            pid, command = about.get("pid"), about.get("command") or self._tables.title
            row = (id_, int(pid) if pid else rank, self._strings(command), *self._times[profile])
            self._database.execute(insert("process", "id", "pid", "process_name_id", "start_time", "end_time"), row)
            machine = self._about(profile, "node").get("machine_id", "")
            said = {"id": id_, "command": command, "hostname": about.get("hostname", ""), "machine_id": machine}
            said |= {"guid": about["guid"]} if about.get("guid") else {}
            numbers = {"rank": rank, "node": node}
            self._lists["processes"].append(said | {k: n for k, n in numbers.items() if n is not None and n < 2**63})
        return self._processes[node, rank]

    def _write_metadata(self) -> None:
        tags = {"schema": VERSION, "command": self._tables.title, "grid_unit": "workitems"}
        if len(self._processes) == 1:
            only = self._lists["processes"][0]
            tags |= {word: str(only[word]) for word in ("hostname", "machine_id", "rank") if only.get(word, "") != ""}
        tags |= {name: json.dumps(items) for name, items in self._lists.items()}
        self._database.executemany(insert("metadata", "tag", "value"), tags.items())


def thread_ids(tables: Experiment) -> Ints:
    """Return the system's id of every thread, or its number where there is none."""
    values, present = tables.profiles.identifiers.pick("THREAD", "physical")
    return np.where(present & (values < 2**63), values, np.arange(len(values), dtype=np.uint64)).astype(np.int64)


def process_times(tables: Experiment) -> list[Times]:
    """Return when the process of each profile began and ended. A single process lasts as long as the traces; otherwise
    both are unknown."""
    told, n = tables.traces.tables, len(tables.profiles)
    if PLACES in told and "processes" in told:
        processes = told["processes"]()
        times = list(zip(processes.column("init").plain(), processes.column("fini").plain(), strict=True))
        return [times[process] for process in told[PLACES]().column("process").plain()]
    only = len({tuple(pair) for pair in zip(*map(tables.profiles.identity_list, ("node", "rank")), strict=True)}) == 1
    return [(only and tables.traces.time_range) or (None, None)] * n


def _fact(device: Device, words: tuple[tuple[str, int], ...]) -> int | None:
    """Return the first of some attributes that is a number, in the unit of the schema."""
    for word, factor in words:
        text = device.attributes.get(word, "")
        if text.isascii() and text.isdigit():
            return int(text) * factor if factor > 0 else int(text) // -factor
    return None


US = 1000  # nanoseconds
NONE = np.empty(0, np.int64)
REGION = insert(
    "instrumentation_regions",
    *("process_id", "thread_id", "region_name_id", "start_time", "end_time", "additional_info"),
)
KERNEL = insert(
    "gpu_kernel_launches",
    *("process_id", "thread_id", "kernel_id", "start_time", "end_time", "additional_info", "id", "gpu_id"),
    *("dispatch_id", "grid_size_x", "grid_size_y", "grid_size_z", "block_size_x", "block_size_y", "block_size_z"),
    "shared_mem_bytes",
)
MEMORY = insert(
    "memory_operations",
    *("process_id", "thread_id", "timestamp", "operation_type", "source_address", "destination_address"),
    *("size_bytes", "duration_us", "additional_info"),
)
ON_KERNEL = insert("hardware_counters", "process_id", "timestamp", "event_id", "value", "additional_info")
LAUNCH = "UPDATE gpu_kernel_launches SET launch_time = ?, thread_id = coalesce(thread_id, ?) WHERE id = ?"
SHAPE = ("dispatch", "grid_x", "grid_y", "grid_z", "workgroup_x", "workgroup_y", "workgroup_z", "lds")
REGISTERS = ("scratch", "vgpr", "accum_vgpr", "sgpr")
IN_MEMORY = (SpanKind.COPY, SpanKind.ALLOC)
CALLS = (SpanKind.API, SpanKind.MARKER, SpanKind.REGION)
IN_COLUMNS = {  # of side tables: what has a column, or a key of its own in the JSON
    "kernel": {*SHAPE, *REGISTERS, "thread"},
    "copy": {"bytes", "source_address", "destination_address"},
    "alloc": {"bytes", "address", "level"},
    "counter": {"name", "value"},
}

Info = Mapping[str, Sequence[object]]  # key -> what each row says; None: nothing


class SpanRows:
    """Writes spans chunk by chunk; `names` are those that spans refer to. What is read beside them and what is written
    goes into the books; bytes and counters that are in columns are added up when the file is complete."""

    def __init__(
        self,
        database: sqlite3.Connection,
        strings: Strings,
        places: DraftPlaces,
        traces: Traces,
        names: Sequence[str],
        books: Books,
    ) -> None:
        self._given, self._passed = books.given, books.passed
        self._database, self._strings, self._places, self._names = database, strings, places, names
        self._sides = {side: SideRows(traces, side, self._given.add_side) for side in ("kernel", "copy", "alloc")}
        self._counters = SideRows(traces, "counter", self._see_counters)
        self._n_kernels = 0
        self._json: dict[str, str] = {}
        self._part_of = {int(p): number for number, part in enumerate(traces.parts()) for p in part.tolist()}
        self._part = ABSENT
        self._calls: list[list[Ints]] = []
        self._launches: list[list[Ints]] = []
        self.lost: Counter[str] = Counter()

    def write(self, chunk: SpanChunk) -> None:
        if not len(chunk["span"]):
            return
        if (part := self._part_of[int(chunk["profile"][0])]) != self._part:
            self.finish()
            self._part = part
        kind = chunk["kind"]
        kernel, memory, call = kind == SpanKind.KERNEL, np.isin(kind, IN_MEMORY), np.isin(kind, CALLS)
        groups = ((kernel, self._kernels), (memory, self._memory), (~kernel & ~memory, self._regions))
        for rows, write in groups:
            if rows.any():
                write({name: column[rows] for name, column in chunk.items()})
        if not kernel.all():
            self._leave_out_counters({name: column[~kernel] for name, column in chunk.items()})
        if (call & (chunk["correlation"] >= 0)).any():
            self._calls.append(
                self._link_keys({name: c[call & (chunk["correlation"] >= 0)] for name, c in chunk.items()})
            )

    def finish(self) -> None:
        """Write when the kernels of a part were launched and by which thread, now that all its spans were seen."""
        if self._calls and self._launches:
            correlation, process, start, ids = map(np.concatenate, zip(*self._launches, strict=True))
            of_calls, in_process, began, thread = map(np.concatenate, zip(*self._calls, strict=True))
            call = launch_calls(correlation, process, of_calls, in_process, began, start)
            known = call >= 0
            threads = [number or None for number in thread[call[known]].tolist()]
            self._database.executemany(
                LAUNCH, zip(began[call[known]].tolist(), threads, ids[known].tolist(), strict=True)
            )
        self._calls, self._launches = [], []

    def _link_keys(self, chunk: SpanChunk, ids: Ints | None = None) -> list[Ints]:
        """Return the keys that link launches and calls: correlation, process, start, and the thread of a call or the id
        of a launch."""
        profile = chunk["profile"]
        last = self._places.thread[profile] if ids is None else ids
        return [chunk["correlation"].astype(np.int64), self._places.process[profile], chunk["start_ns"], last]

    def _regions(self, chunk: SpanChunk) -> None:
        sizes = self._side(chunk, "copy", "bytes")
        infos = self._infos(chunk, {"bytes": sizes, "side": self._others(chunk, "copy")})
        times = (chunk[name].tolist() for name in ("start_ns", "end_ns"))
        self._insert(REGION, chunk, self._ids(chunk), *times, infos)
        if any(size is not None for size in sizes):
            self._passed.add_amount(COPIED, np.array([size for size in sizes if size is not None], np.int64))

    def _kernels(self, chunk: SpanChunk) -> None:
        n = len(chunk["span"])
        ids = range(self._n_kernels + 1, self._n_kernels + n + 1)
        self._n_kernels += n
        more = {name: self._side(chunk, "kernel", name) for name in REGISTERS}
        infos = self._infos(chunk, {**more, "side": self._others(chunk, "kernel")})
        times = (chunk[name].tolist() for name in ("start_ns", "end_ns"))
        gpus = [gpu or None for gpu in self._places.gpu[chunk["profile"]].tolist()]
        shape = (self._side(chunk, "kernel", name) for name in SHAPE)
        self._insert(KERNEL, chunk, self._ids(chunk), *times, infos, ids, gpus, *shape, threads=self._launchers(chunk))
        self._counters_of(chunk, np.array(ids, np.int64))
        self._launches.append(self._link_keys(chunk, np.array(ids, np.int64)))

    def _launchers(self, chunk: SpanChunk) -> list[int | None]:
        """Return the threads that launched kernels, where the profiler says so."""
        tids = self._side(chunk, "kernel", "thread")
        who = zip(self._places.process[chunk["profile"]].tolist(), tids, strict=True)
        rows = [self._places.thread_rows.get((process, tid)) if isinstance(tid, int) else None for process, tid in who]
        if unknown := sum(row is None and tid is not None for row, tid in zip(rows, tids, strict=True)):
            self.lost["kernels whose thread is none of those that are listed"] += unknown
        return rows

    def _memory(self, chunk: SpanChunk) -> None:
        names = [self._text(number) for number in chunk["name"].tolist()]
        is_copy = (chunk["kind"] == SpanKind.COPY).tolist()
        types = [
            "COPY" if copy else "FREE" if "FREE" in (name or "").upper() else "ALLOC"
            for copy, name in zip(is_copy, names, strict=True)
        ]
        sizes, of_alloc = self._side(chunk, "copy", "bytes"), self._side(chunk, "alloc", "bytes")
        sizes = [size if copy else other for copy, size, other in zip(is_copy, sizes, of_alloc, strict=True)]
        lasting = chunk["end_ns"] - chunk["start_ns"]
        more: Info = {"duration_ns": lasting.tolist(), "name": names, "level": self._side(chunk, "alloc", "level")}
        others = zip(is_copy, self._others(chunk, "copy"), self._others(chunk, "alloc"), strict=True)
        more = {**more, "side": [of_copy if copy else other for copy, of_copy, other in others]}
        origin, to, allocated = (
            self._side(chunk, side, word, signed=True)
            for side, word in (("copy", "source_address"), ("copy", "destination_address"), ("alloc", "address"))
        )
        to = [
            destination if copy else address for copy, destination, address in zip(is_copy, to, allocated, strict=True)
        ]
        start, micro = chunk["start_ns"].tolist(), (np.maximum(lasting, 0) // US).tolist()
        self._insert(MEMORY, chunk, start, types, origin, to, sizes, micro, self._infos(chunk, more))

    def _counters_of(self, chunk: SpanChunk, ids: Ints) -> None:
        """Insert the counters of kernels, at the kernel's end and without a thread: the schema has no other place for
        them."""
        table, here, row = self._counters_beside(chunk)
        if table is None:
            return
        names = [self._strings(str(name)) for name in np.asarray(table.columns["name"])[here].tolist()]
        process, end = self._places.process[chunk["profile"][row]].tolist(), chunk["end_ns"][row].tolist()
        others = self._cells_as_json("counter", table, here)
        infos = [
            f'{{"kernel":{id_}' + (f',"side":{json.dumps(more)}}}' if more else "}")
            for id_, more in zip(ids[row].tolist(), others, strict=True)
        ]
        values = np.asarray(table.columns["value"])[here].tolist()
        self._database.executemany(ON_KERNEL, zip(process, end, names, values, infos, strict=True))

    def _counters_beside(self, chunk: SpanChunk) -> tuple[SideTable | None, Ints, Ints]:
        """Return the table of counters, its rows for the spans of the chunk, and the positions of these spans."""
        table, _ = self._counters.of(chunk)
        if table is None:
            return None, NONE, NONE
        order = np.argsort(chunk["span"], kind="stable")
        place = np.minimum(np.searchsorted(chunk["span"][order], table.span), len(order) - 1)
        here = np.flatnonzero(chunk["span"][order][place] == table.span)
        return table, here, order[place[here]]

    def _see_counters(self, _: str, table: SideTable) -> None:
        """Add up all counters, including those that were sampled while a span ran."""
        self._given.add_amount(COUNTED, np.asarray(table.columns["value"]))

    def _leave_out_counters(self, chunk: SpanChunk) -> None:
        """Count counters of spans that are not kernels: rows of counters name a kernel, or none."""
        table, here, _ = self._counters_beside(chunk)
        if table is not None and len(here):
            self.lost["counters of spans that are not kernels"] += len(here)
            self._given.add_amount(COUNTED, np.asarray(table.columns["value"])[here], times=-1)

    # -- columns -------------------------------------------------------------------------------------------------------

    def _insert(
        self,
        statement: str,
        chunk: SpanChunk,
        *columns: Sequence[object] | Iterator[object],
        threads: Sequence[int | None] | None = None,
    ) -> None:
        """Insert rows with the processes and threads of the profiles, unless other threads are given."""
        process, thread = (column[chunk["profile"]].tolist() for column in (self._places.process, self._places.thread))
        thread_ids = [number or None for number in thread] if threads is None else threads
        self._database.executemany(statement, zip(process, thread_ids, *columns, strict=True))
        self._passed.add_spans(chunk)

    def _ids(self, chunk: SpanChunk) -> list[int | None]:
        """Return the id of every name in the table `strings`."""
        known = {n: self._strings(self._names[n]) for n in np.unique(chunk["name"]).tolist() if n >= 0}
        return [known.get(number) for number in chunk["name"].tolist()]

    def _text(self, number: int) -> str | None:
        return self._names[number] if number >= 0 else None

    def _side(self, chunk: SpanChunk, side: str, column: str, *, signed: bool = False) -> list[object]:
        return self._sides[side].cells(chunk, column, signed=signed)

    def _others(self, chunk: SpanChunk, side: str) -> list[dict[str, object] | None]:
        """Return, for every span, what else a side table says of it, by word; None where that is nothing."""
        table, row = self._sides[side].of(chunk)
        if table is None:
            return [None] * len(row)
        known = np.flatnonzero(row >= 0)
        out: list[dict[str, object] | None] = [None] * len(row)
        for place, told in zip(known.tolist(), self._cells_as_json(side, table, row[known]), strict=True):
            out[place] = told or None
        return out

    def _cells_as_json(self, side: str, table: SideTable, rows: Ints) -> list[dict[str, object]]:
        """Return some rows of a side table without what has a column in the schema, and without empty cells."""
        out: list[dict[str, object]] = [{} for _ in range(len(rows))]
        for word in (word for word in table.columns if word not in IN_COLUMNS[side]):
            cells = _cells(table, word)[rows]
            if word in SIDE_DEVICES:
                devices = np.append(self._places.devices[self._part], ABSENT)
                cells = devices[np.where((cells >= 0) & (cells < len(devices) - 1), cells, ABSENT)]
            elif word not in SIDE_TEXTS and cells.dtype.kind not in "iu":
                self.lost[f"{word} of {side}s"] += len(rows)
                continue
            for told, cell in zip(out, cells.tolist(), strict=True):
                if cell not in (None, "", ABSENT):
                    told[word] = cell
        return out

    def _infos(self, chunk: SpanChunk, more: Info) -> Iterator[str]:
        """Return the JSON of every row."""
        told = {key: values for key, values in more.items() if any(value is not None for value in values)}
        columns = ("kind", "category", "name", "correlation", "profile")
        labels = chunk.get(LABEL, chunk["name"]).tolist()
        parents = chunk[PARENT].tolist() if PARENT in chunk else [ABSENT] * len(labels)
        rows = zip(*(chunk[name].tolist() for name in columns), labels, parents, strict=True)
        for k, (kind, category, name, correlation, profile, label, parent) in enumerate(rows):
            parts = [f'"kind":"{SpanKind(kind).word}"', f'"corr":{correlation if correlation >= 0 else "null"}']
            if category >= 0:
                parts.append(f'"category":{self._quote(self._names[category])}')
            if label != name and label >= 0:
                parts.append(f'"label":{self._quote(self._names[label])}')
            if parent >= 0:
                parts.append(f'"parent_corr":{parent}')
            parts.append(self._where(profile))
            parts += [f'"{key}":{self._quote(values[k])}' for key, values in told.items() if values[k] is not None]
            yield "{" + ",".join(filter(None, parts)) + "}"

    def _where(self, profile: int) -> str:
        """Return the lane of spans that are on no thread, with the words that readers without our metadata know."""
        lane, queue, gpu = (int(c[profile]) for c in (self._places.lane, self._places.queue, self._places.gpu))
        parts = [("lane", lane, ABSENT), ("queue", queue, ABSENT), ("gpu", gpu, 0)]
        return ",".join(f'"{key}":{number}' for key, number, none in parts if number != none)

    def _quote(self, value: object) -> str:
        if not isinstance(value, str):
            return json.dumps(value)
        if value not in self._json:
            self._json[value] = json.dumps(value)
        return self._json[value]


def _cells(table: SideTable, column: str) -> Array:
    cells = table.columns[column]
    return cells if isinstance(cells, np.ndarray) else np.array(cells, object)
