"""Who did it, for the writer of the draft schema: processes, threads, devices, and lanes that it has no table for.

Streams, queues and whatever else is no thread are listed in the metadata (`lanes`), as are the ranks and nodes of
processes, and all devices with what the profiler says of them (`devices`), which rows name by their place there.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping

import numpy as np

from callgrove.formats.gpu.draft_schema import VERSION, insert
from callgrove.model.arrays import ABSENT, Ints
from callgrove.model.devices import Device
from callgrove.model.experiment import Experiment
from callgrove.model.profiles import ProfileKind
from callgrove.model.traces import PLACES

__all__ = ["DraftPlaces", "Strings", "process_times", "thread_ids"]

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
        safe = text.encode("utf-8", "replace").decode()  # a lone surrogate is no text
        if safe not in self._ids:
            self._ids[safe] = len(self._ids) + 1
            self._database.execute(insert("strings", "id", "value"), (self._ids[safe], safe))
        return self._ids[safe]


class DraftPlaces:
    """The rows for every profile, by number: 0 is none for `thread` and `gpu`, -1 for `lane` and `queue`.

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
        """The devices of a part; which of its processes they are of is told by their order."""
        own = list(dict.fromkeys(self.process[part].tolist())) or [1]
        found = self._tables.traces.devices(number)
        return np.array([self._device(own[min(d.process, len(own) - 1)], d) for d in found], np.int64)

    def _device(self, process: int, device: Device) -> int:
        """The place of a device in the list of all, where it is once."""
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
        """A row about the device, as far as the schema has a table for it."""
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
        lane = {
            "process": process,
            "kind": kind.word,
            "number": stream or 0,
            "name": self._tables.profiles.name[profile],
        }
        self._lists["lanes"].append(lane | ({"gpu": int(self.gpu[profile])} if device is not None else {}))

    def _about(self, profile: int, kind: str) -> Mapping[str, str]:
        """What the system tree says about the node, process or device that a profile belongs to."""
        system, leaf = self._tables.system, int(self._tables.profiles.system[profile])
        for place in system.path(leaf) if leaf >= 0 else []:
            if system.kind[place] == kind:
                return system.attributes.get(place, {})
        return {}

    def _process(self, profile: int) -> int:
        node, rank = self._identity["node"][profile], self._identity["rank"][profile]
        if (node, rank) not in self._processes:
            self._processes[node, rank] = id_ = len(self._processes) + 1
            own = self._about(profile, "process")
            pid, command = own.get("pid"), own.get("command") or self._tables.title
            row = (id_, int(pid) if pid else rank, self._strings(command), *self._times[profile])
            self._database.execute(insert("process", "id", "pid", "process_name_id", "start_time", "end_time"), row)
            machine = self._about(profile, "node").get("machine_id", "")
            said = {"id": id_, "command": command, "hostname": own.get("hostname", ""), "machine_id": machine}
            said |= {"guid": own["guid"]} if own.get("guid") else {}
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
    """What the system called every thread, or else its number."""
    values, present = tables.profiles.identifiers.pick("THREAD", "physical")
    return np.where(present & (values < 2**63), values, np.arange(len(values), dtype=np.uint64)).astype(np.int64)


def process_times(tables: Experiment) -> list[Times]:
    """When the process of each profile began and ended; of the only one, what the traces span. Else nobody knows."""
    told, n = tables.traces.tables, len(tables.profiles)
    if PLACES in told and "processes" in told:
        processes = told["processes"]()
        times = list(zip(processes.column("init").plain(), processes.column("fini").plain(), strict=True))
        return [times[process] for process in told[PLACES]().column("process").plain()]
    only = len({tuple(pair) for pair in zip(*map(tables.profiles.identity_list, ("node", "rank")), strict=True)}) == 1
    return [(only and tables.traces.time_range) or (None, None)] * n


def _fact(device: Device, words: tuple[tuple[str, int], ...]) -> int | None:
    """The first of some attributes that is told as a number, in the unit of the schema."""
    for word, factor in words:
        text = device.attributes.get(word, "")
        if text.isascii() and text.isdigit():
            return int(text) * factor if factor > 0 else int(text) // -factor
    return None
