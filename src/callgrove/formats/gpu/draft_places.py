"""Who did it, for the writer of the draft schema: processes, threads, GPUs, and lanes that the schema has no table for.

Streams, queues and whatever else is no thread are listed in the metadata (`lanes`), as are the ranks and nodes of
processes and the index of every GPU among those of its process.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping

import numpy as np

from callgrove.formats.gpu.draft_schema import VERSION, insert
from callgrove.model.arrays import ABSENT, Ints
from callgrove.model.experiment import Experiment
from callgrove.model.profiles import ProfileKind

__all__ = ["DraftPlaces", "Strings"]


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
    """The rows for every profile, by number: 0 is none for `thread` and `gpu`, -1 for `lane` and `queue`."""

    def __init__(self, database: sqlite3.Connection, strings: Strings, tables: Experiment) -> None:
        self._database, self._strings, self._tables = database, strings, tables
        n = len(tables.profiles)
        self.process, self.thread, self.gpu = (np.zeros(n, np.int64) for _ in range(3))
        self.queue, self.lane = (np.full(n, ABSENT, np.int64) for _ in range(2))
        self._processes: dict[tuple[int | None, int | None], int] = {}
        self._gpus: dict[tuple[int, int], int] = {}
        self._lists: dict[str, list[dict[str, object]]] = {"processes": [], "gpus": [], "lanes": []}
        columns = ("node", "rank", "gpu_device", "gpu_stream")
        self._identity = {name: tables.profiles.identity_list(name) for name in columns}
        self._tids = _thread_ids(tables)
        for profile in tables.profiles.measured.tolist():
            self._add(profile)
        self._write_metadata()

    def _add(self, profile: int) -> None:
        kind = ProfileKind(int(self._tables.profiles.kind[profile]))
        device = self._identity["gpu_device"][profile]
        self.process[profile] = process = self._process(profile)
        if device is not None:
            self.gpu[profile] = self._gpu(profile, process, device)
        if kind is ProfileKind.THREAD:
            self.thread[profile] = profile + 1
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
            start, end = self._tables.traces.time_range or (None, None)
            row = (id_, int(pid) if pid else rank, self._strings(command), start, end)
            self._database.execute(insert("process", "id", "pid", "process_name_id", "start_time", "end_time"), row)
            machine = self._about(profile, "node").get("machine_id", "")
            said = {"id": id_, "command": command, "hostname": own.get("hostname", ""), "machine_id": machine}
            numbers = {"rank": rank, "node": node}
            self._lists["processes"].append(said | {k: n for k, n in numbers.items() if n is not None and n < 2**63})
        return self._processes[node, rank]

    def _gpu(self, profile: int, process: int, device: int) -> int:
        if (process, device) not in self._gpus:
            self._gpus[process, device] = id_ = len(self._gpus) + 1
            name = self._about(profile, "device").get("name", "")
            self._database.execute(insert("gpu_info", "id", "device_name_id"), (id_, self._strings(name)))
            self._lists["gpus"].append({"id": id_, "process": process, "index": device})
        return self._gpus[process, device]

    def _write_metadata(self) -> None:
        tags = {"schema": VERSION, "command": self._tables.title, "grid_unit": "workitems"}
        if len(self._processes) == 1:
            only = self._lists["processes"][0]
            tags |= {word: str(only[word]) for word in ("hostname", "machine_id", "rank") if only.get(word, "") != ""}
        tags |= {name: json.dumps(items) for name, items in self._lists.items()}
        self._database.executemany(insert("metadata", "tag", "value"), tags.items())


def _thread_ids(tables: Experiment) -> Ints:
    """What the system called every thread, or else its number."""
    values, present = tables.profiles.identifiers.pick("THREAD", "physical")
    return np.where(present & (values < 2**63), values, np.arange(len(values), dtype=np.uint64)).astype(np.int64)
