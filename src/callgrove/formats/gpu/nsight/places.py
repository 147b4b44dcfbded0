"""Where things happen according to an Nsight Systems export: processes, GPUs, and the lanes of each.

Specification: gpu-traces.md section 5.

    globalTid = hardware (8 bits) | machine (8) | process (24) | thread (24); globalPid is the same with thread 0
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from callgrove.arrays import ABSENT
from callgrove.binary.sqlite.cells import MISSING, Lookup, Type
from callgrove.binary.sqlite.database import SqliteFile
from callgrove.formats.events.dataset import UTC_CLOCK, LaneList, Process, Recorded
from callgrove.formats.gpu.event_tables import TableData
from callgrove.formats.gpu.nsight.tables import START_END, STREAM, TID_BITS
from callgrove.model.profiles import ProfileKind
from callgrove.model.traces.events import Device

__all__ = ["Gpu", "Gpus", "NsightPlaces", "null_streams"]


# GPUs of Nsight exports: every generation tells them by other tables and columns.
#
# Specification: gpu-traces.md 5.3.
#
#     TARGET_INFO_GPU          id, name, cuDevice, smCount, threadsPerWarp, ...          since 2022
#     TARGET_INFO_CUDA_DEVICE  gpuId, cudaId, pid: CUDA's number in a process -> id      since 2025
#     TARGET_INFO_CUDA_GPU     id, name, numMultiprocessors, numThreadsPerWarp, ...      before 2021
#     TARGET_INFO_CUDA_NULL_STREAM, TARGET_INFO_CUDA_CONTEXT_INFO (nullStreamId)         which stream is the default one


PROPERTIES = {  # ours: since 2022, before 2021
    "multiprocessors": ("smCount", "numMultiprocessors"),
    "threads_per_warp": ("threadsPerWarp", "numThreadsPerWarp"),
    "warps_per_multiprocessor": ("maxWarpsPerSm", "maxWarpsPerMultiprocessor"),
    "compute_major": ("computeMajor", "computeCapabilityMajor"),
    "compute_minor": ("computeMinor", "computeCapabilityMinor"),
    "clock_rate": ("clockRate", "coreClockRate"),
    "memory": ("totalMemory", "globalMemorySize"),
}


@dataclass(frozen=True)
class Gpu:
    name: str = ""
    attributes: Mapping[str, str] = field(default_factory=dict)


class Gpus:
    """The properties of GPUs, by CUDA's numbers."""

    def __init__(self, file: SqliteFile) -> None:
        self._of_process = _numbers_by_process(file)
        self._by_id: dict[int, Gpu] = {}
        self._by_number: dict[int, Gpu] = {}
        for table, generation, numbers in (
            ("TARGET_INFO_CUDA_GPU", 1, ("id", "deviceId")),
            ("TARGET_INFO_GPU", 0, ("cuDevice", "id", "deviceId")),
        ):
            self._read(file, table, generation, next((n for n in numbers if file.has(table, n)), ""))

    def _read(self, file: SqliteFile, table: str, generation: int, number: str) -> None:
        """Read the GPUs that run CUDA; others have CUDA's number 0 as well. The first row of a number counts, and a
        table with properties takes precedence over one with only names."""
        if not number:
            return
        columns = {ours: names[generation] for ours, names in PROPERTIES.items()}
        rows = file.table(
            table, {"id": INTEGER, number: INTEGER, "name": TEXT, **dict.fromkeys(columns.values(), INTEGER)}
        )
        for row in range(len(rows["name"])):
            if rows[columns["compute_major"]][row] == 0:
                continue
            known = {ours: int(rows[column][row]) for ours, column in columns.items()}
            gpu = Gpu(rows["name"][row] or "", {ours: str(n) for ours, n in known.items() if n != MISSING})
            for by, key in ((self._by_id, int(rows["id"][row])), (self._by_number, int(rows[number][row]))):
                if key not in by or (gpu.attributes and not by[key].attributes):
                    by[key] = gpu

    def find(self, pid: int, number: int) -> Gpu:
        """Return the GPU that a process knows by a number."""
        told = self._of_process.get((pid, number))
        return self._by_id.get(told, Gpu()) if told is not None else self._by_number.get(number, Gpu())


def _numbers_by_process(file: SqliteFile) -> dict[tuple[int, int], int]:
    rows = file.table("TARGET_INFO_CUDA_DEVICE", dict.fromkeys(("gpuId", "cudaId", "pid"), INTEGER))
    keys = zip(rows["pid"].tolist(), rows["cudaId"].tolist(), strict=True)
    return dict(zip(keys, rows["gpuId"].tolist(), strict=True))


def null_streams(file: SqliteFile) -> set[tuple[int, int]]:
    """Return (process number, stream) of the streams that are used where a program names none."""
    for table, stream in (
        ("TARGET_INFO_CUDA_NULL_STREAM", "streamId"),
        ("TARGET_INFO_CUDA_CONTEXT_INFO", "nullStreamId"),
    ):
        if file.has(table, stream, "processId"):
            rows = file.table(table, {stream: INTEGER, "processId": INTEGER})
            return set(zip(rows["processId"].tolist(), rows[stream].tolist(), strict=True))
    return set()


INTEGER, TEXT = Type.INTEGER, Type.TEXT


class NsightPlaces(TableData):
    """The processes, devices and lanes of an export."""

    def _read_places(self) -> None:
        sampled = ["COMPOSITE_EVENTS"] if "SAMPLING_CALLCHAINS" in self._file.tables else []
        threads = self._values_in_use(
            "globalTid", [t.name for t in self._tables if "globalTid" in t.needs["lane"]] + sampled
        )
        streams = self._streams_used()
        owners = {tid >> TID_BITS << TID_BITS for tid in threads} | {pid for pid, _, _ in streams}
        owners |= self._values_in_use("globalPid", [t.name for t in self._tables if "globalPid" in t.needs["lane"]])
        pids = sorted(owner for owner in owners if owner != MISSING) or [0]
        names, host = self._process_names(pids), self._host()
        ranks, session, recorded = self._ranks(), str(self.path), self._read_session_time()
        self._process = {pid: k for k, pid in enumerate(pids)}
        self.processes = [
            Process(
                f"{self.path}:{pid}",
                _pid(pid),
                host,
                host,
                names[pid],
                ranks.get(pid, ABSENT),
                session=session,
                recorded=recorded,
            )
            for pid in pids
        ]
        self.devices = []
        self._gpus, self._null_streams = Gpus(self._file), null_streams(self._file)
        self._device_number: dict[tuple[int, int], int] = {}
        self._make_lanes(sorted(threads), sorted(streams))

    def _make_lanes(self, threads: list[int], streams: list[tuple[int, int, int]]) -> None:
        names, lanes = self._thread_names(), LaneList()
        self._thread_lane = {
            tid: lanes.add(self._owner(tid), ProfileKind.THREAD, _tid(tid), names.get(tid, f"tid {_tid(tid)}"))
            for tid in threads
            if tid != MISSING
        }
        self._ranges_lane = {
            tid: lanes.add(self._owner(tid), ProfileKind.OTHER, _tid(tid), f"ranges of tid {_tid(tid)}")
            for tid in sorted(self._range_threads())
        }
        self._stream_lane = {
            key: lanes.add(
                self._process.get(key[0], 0),
                ProfileKind.GPU_STREAM,
                max(key[2], 0),
                self._stream_name(_pid(key[0]), key[2]),
                self._device(self._process.get(key[0], 0), key[1]),
            )
            for key in streams
        }
        self._unknown_lane = {k: lanes.add_unknown(k) for k in range(len(self.processes))}
        self.lanes = lanes.all

    def _stream_name(self, pid: int, stream: int) -> str:
        if stream == MISSING:
            return ""
        return f"default stream {stream}" if (pid, stream) in self._null_streams else f"stream {stream}"

    def _owner(self, tid: int) -> int:
        return self._process.get(tid >> TID_BITS << TID_BITS, 0)

    def _device(self, process: int, ordinal: int) -> int:
        key = (process, max(ordinal, 0))
        if key not in self._device_number:
            self._device_number[key] = len(self.devices)
            gpu = self._gpus.find(self.processes[process].pid, key[1])
            self.devices = [*self.devices, Device(process, "GPU", key[1], gpu.name, gpu.attributes)]
        return self._device_number[key]

    def _values_in_use(self, column: str, tables: list[str]) -> set[int]:
        """Return the different values of a column over some tables."""
        values: set[int] = set()
        for table in tables:
            for cells in self._file.chunks(table, {column: INTEGER}):
                values |= set(np.unique(cells[column]).tolist())
        return values - {MISSING}

    def _streams_used(self) -> set[tuple[int, int, int]]:
        streams: set[tuple[int, int, int]] = set()
        for table in self._tables:
            if table.needs["lane"] == STREAM["lane"]:
                for cells in self._file.chunks(table.name, dict.fromkeys(STREAM["lane"], INTEGER)):
                    different = np.unique(np.stack([cells[name] for name in STREAM["lane"]]), axis=1)
                    streams |= {(p, d, s) for p, d, s in different.T.tolist()}
        return streams

    def _range_threads(self) -> set[int]:
        """Return the threads with start/end ranges. These need not nest, so they get a lane of their own."""
        threads: set[int] = set()
        for cells in self._file.chunks("NVTX_EVENTS", {"globalTid": INTEGER, "eventType": INTEGER}):
            threads |= set(cells["globalTid"][np.isin(cells["eventType"], START_END)].tolist())
        return threads - {MISSING}

    def _process_names(self, pids: Sequence[int]) -> dict[int, str]:
        """Return names of processes: from the export, else from the first thread, else by number."""
        rows = self._file.table("PROCESSES", {"globalPid": INTEGER, "name": TEXT})
        told = dict(zip(rows["globalPid"].tolist(), rows["name"].tolist(), strict=True))
        threads = self._thread_names()
        return {pid: told.get(pid) or threads.get(pid | _pid(pid)) or f"pid {_pid(pid)}" for pid in pids}

    def _thread_names(self) -> dict[int, str]:
        rows = self._file.table("ThreadNames", {"globalTid": INTEGER, "nameId": INTEGER})
        texts = self._strings[rows["nameId"]].tolist()
        named = zip(rows["globalTid"].tolist(), texts, strict=True)
        return {tid: self._names.all[text] for tid, text in named if text >= 0}

    def _host(self) -> str:
        rows = self._file.table("TARGET_INFO_SYSTEM_ENV", {"name": TEXT, "value": TEXT})
        return next((str(v) for n, v in zip(rows["name"], rows["value"], strict=True) if n == "Hostname" and v), "")

    def _read_session_time(self) -> Recorded | None:
        """Return when the session was recorded, where the export tells it; times count from its start."""
        began = self._file.table("TARGET_INFO_SESSION_START_TIME", {"utcEpochNs": INTEGER})["utcEpochNs"]
        times = self._file.table("ANALYSIS_DETAILS", {"startTime": INTEGER, "stopTime": INTEGER})
        known = (times["startTime"] != MISSING) & (times["stopTime"] >= times["startTime"])
        if not len(began) or began[0] <= 0:
            return None
        if not known.any():
            return self._find_time_of_events(int(began[0]))
        start, end = int(times["startTime"][known].min()), int(times["stopTime"][known].max())
        return Recorded(UTC_CLOCK, int(began[0]) + start, int(began[0]) + end)

    def _find_time_of_events(self, began: int) -> Recorded | None:
        """Return the time from the first event to the end of the last one."""
        first: list[int] = []
        last: list[int] = []
        for table in (table for table in self._tables if self._file.has(table.name, "start", "end")):
            for cells in self._file.chunks(table.name, {"start": INTEGER, "end": INTEGER}):
                timed = (cells["start"] >= 0) & (cells["end"] >= cells["start"])
                if timed.any():
                    first.append(int(cells["start"][timed].min()))
                    last.append(int(cells["end"][timed].max()))
        return Recorded(UTC_CLOCK, began + min(first), began + max(last)) if first else None

    def _ranks(self) -> dict[int, int]:
        """Return the ranks of processes; Nsight names the thread that started MPI."""
        rows = self._file.table("MPI_RANKS", {"globalTid": INTEGER, "globalPid": INTEGER, "rank": INTEGER})
        of_thread = rows["globalTid"] >> TID_BITS << TID_BITS
        owners = np.where(rows["globalTid"] == MISSING, rows["globalPid"], of_thread)
        return dict(zip(owners.tolist(), rows["rank"].tolist(), strict=True))

    @cached_property
    def _strings(self) -> Lookup:
        rows = self._file.table("StringIds", {"id": INTEGER, "value": TEXT})
        return Lookup(rows["id"], self._names.numbers(rows["value"].tolist()))


def _pid(global_pid: int) -> int:
    return (global_pid >> TID_BITS) & 0xFFFFFF


def _tid(global_tid: int) -> int:
    return global_tid & 0xFFFFFF
