"""Nsight Systems exports of every generation, made by hand: tables appear with their first row, as Nsight makes them.

    N0a   before 2021: no meta table, TARGET_INFO_CUDA_GPU, no call chains
    N0b   before 2021 with backtraces: call chains, samples, two rows per call
    N1    schema 2.9: EXPORT_META_DATA, PROCESSES, TARGET_INFO_GPU with properties
    N2    schema 3.4: META_DATA_EXPORT, ENUM tables
    N3    schema 3.20: TARGET_INFO_CUDA_DEVICE, TARGET_INFO_CUDA_CONTEXT_INFO

Specification: gpu-traces.md 5.1 and 5.2. Nothing here is taken from the package.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

GENERATIONS = ("N0a", "N0b", "N1", "N2", "N3")
PID, TID = 77, 78
CUPTI = "CUPTI_ACTIVITY_KIND_"
STREAM = "start end deviceId contextId streamId correlationId globalPid"
COLUMNS = {
    "StringIds": "id value",
    "ThreadNames": "nameId priority globalTid",
    "ProcessStreams": "globalPid filenameId contentId",
    "PROCESSES": "globalPid pid name",
    "MPI_RANKS": "globalTid rank",
    "MPI_P2P_EVENTS": "start end globalTid textId commHandle tag remoteRank size requestHandle",
    "MPI_COLLECTIVES_EVENTS": "start end globalTid textId commHandle rootRank size recvSize requestHandle",
    "MPI_START_WAIT_EVENTS": "start end globalTid textId requestHandle",
    "MPI_OTHER_EVENTS": "start end globalTid textId",
    "UCP_EVENTS": "start end globalTid textId",
    "CUDNN_EVENTS": "start end eventClass globalTid nameId",
    "CUBLAS_EVENTS": "start end eventClass globalTid nameId",
    "OPENMP_EVENT_KIND_PARALLEL": "start end eventClass globalTid correlationId nameId eventKind parallelId",
    f"{CUPTI}GRAPH_TRACE": f"{STREAM} graphId graphExecId",
    "TARGET_INFO_SYSTEM_ENV": "globalVid devStateName name nameEnum value",
    f"{CUPTI}RUNTIME": "start end eventClass globalTid correlationId nameId returnValue callchainId",
    f"{CUPTI}KERNEL": f"{STREAM} demangledName shortName mangledName registersPerThread gridX gridY gridZ "
    "blockX blockY blockZ staticSharedMemory dynamicSharedMemory localMemoryPerThread",
    f"{CUPTI}MEMCPY": f"{STREAM} bytes copyKind srcKind dstKind srcDeviceId dstDeviceId",
    f"{CUPTI}MEMSET": f"{STREAM} value bytes memKind",
    f"{CUPTI}SYNCHRONIZATION": f"{STREAM} syncType eventId",
    "NVTX_EVENTS": "start end eventType rangeId category color text globalTid endGlobalTid textId domainId uint32Value",
    "OSRT_API": "start end eventClass globalTid nameId returnValue nestingLevel callchainId",
    "PROFILER_OVERHEAD": "start end globalTid correlationId nameId returnValue",
    "CUDA_CALLCHAINS": "id symbol module unresolved originalIP stackDepth",
    "OSRT_CALLCHAINS": "id symbol module unresolved originalIP stackDepth",
    "SAMPLING_CALLCHAINS": "id symbol module unresolved originalIP stackDepth",
    "COMPOSITE_EVENTS": "id start cpu threadState globalTid cpuCycles",
    "TARGET_INFO_CUDA_GPU": "id name numMultiprocessors numThreadsPerWarp maxWarpsPerMultiprocessor "
    "computeCapabilityMajor computeCapabilityMinor coreClockRate globalMemorySize",
    "TARGET_INFO_GPU": "id name cuDevice smCount threadsPerWarp maxWarpsPerSm computeMajor computeMinor clockRate "
    "totalMemory",
    "TARGET_INFO_CUDA_DEVICE": "gpuId cudaId pid",
    "TARGET_INFO_CUDA_NULL_STREAM": "streamId hwId vmId processId deviceId contextId",
    "TARGET_INFO_CUDA_CONTEXT_INFO": "nullStreamId hwId vmId processId deviceId contextId",
    "EXPORT_META_DATA": "name value",
    "META_DATA_EXPORT": "name value",
    "ENUM_CUDA_MEMCPY_OPER": "id name label",
    "ENUM_CUPTI_SYNC_TYPE": "id name label",
}
MISSING = {  # columns that a generation does not have yet
    "N0a": {f"{CUPTI}RUNTIME": {"callchainId"}, f"{CUPTI}KERNEL": {"mangledName"}},
    "N0b": {"TARGET_INFO_GPU": {"cuDevice", "smCount", "threadsPerWarp", "maxWarpsPerSm", "computeMajor"}},
}
SCHEMA_VERSION = {
    "N1": ("EXPORT_META_DATA", "2.9.1"),
    "N2": ("META_DATA_EXPORT", "3.4.0"),
    "N3": ("META_DATA_EXPORT", "3.20.2"),
}


def global_id(pid: int = PID, tid: int = 0) -> int:
    """Hardware 1, machine 0; threads are told by their number, processes by 0."""
    return 1 << 56 | pid << 24 | tid


class Export:
    """An export in the making; `write` puts it into a file. Values by name; what is not given is NULL."""

    def __init__(self, generation: str = "N1", pid: int = PID) -> None:
        self.generation, self.pid, self.tid = generation, pid, global_id(pid, TID)
        self.rows: dict[str, list[dict[str, object]]] = {}
        self._strings: dict[str, int] = {}
        self.string("")
        self.add("ThreadNames", nameId=self.string("worker"), globalTid=self.tid)
        self.add("ProcessStreams", globalPid=global_id(pid), filenameId=0, contentId=0)
        if generation in SCHEMA_VERSION:
            table, version = SCHEMA_VERSION[generation]
            self.add(table, name="EXPORT_SCHEMA_VERSION", value=version)

    def add(self, table: str, **values: object) -> None:
        known, missing = COLUMNS[table].split(), MISSING.get(self.generation, {}).get(table, set())
        assert set(values) <= set(known), set(values) - set(known)
        self.rows.setdefault(table, []).append({k: v for k, v in values.items() if k not in missing})

    def string(self, text: str) -> int:
        if text not in self._strings:
            self._strings[text] = len(self._strings)
            self.add("StringIds", id=self._strings[text], value=text)
        return self._strings[text]

    def call(self, name: str, start: int, end: int, correlation: int, **more: object) -> None:
        told = {"eventClass": 0, "globalTid": self.tid, **more}
        self.add(f"{CUPTI}RUNTIME", start=start, end=end, correlationId=correlation, nameId=self.string(name), **told)

    def kernel(self, name: str, start: int, end: int, correlation: int, **more: object) -> None:
        told = self._on_stream() | {f"{part}{axis}": 1 for part in ("grid", "block") for axis in "XYZ"} | more
        names = {"demangledName": self.string(f"{name}(int)"), "shortName": self.string(name)}
        self.add(f"{CUPTI}KERNEL", start=start, end=end, correlationId=correlation, **(names | told))

    def copy(self, kind: int | None, size: int | None, start: int, end: int, correlation: int, **more: object) -> None:
        told = self._on_stream() | {"copyKind": kind, "bytes": size, "srcKind": 1, "dstKind": 2} | more
        self.add(f"{CUPTI}MEMCPY", start=start, end=end, correlationId=correlation, **told)

    def memset(self, value: int, size: int, start: int, end: int, correlation: int) -> None:
        told = self._on_stream() | {"value": value, "bytes": size, "memKind": 2}
        self.add(f"{CUPTI}MEMSET", start=start, end=end, correlationId=correlation, **told)

    def sync(self, kind: int, start: int, end: int, correlation: int) -> None:
        told = self._on_stream() | {"syncType": kind}
        self.add(f"{CUPTI}SYNCHRONIZATION", start=start, end=end, correlationId=correlation, **told)

    def nvtx(self, text: str | None, start: int, end: int | None, **more: object) -> None:
        told = {"eventType": 59, "domainId": 0, "globalTid": self.tid, **more}
        self.add("NVTX_EVENTS", start=start, end=end, text=text, **told)

    def extra_prof(self, text: str, depth: int, start: int, end: int) -> None:
        """A range of Extra-Prof, in domain 1."""
        if not any(row["eventType"] == 75 for row in self.rows.get("NVTX_EVENTS", [])):
            self.nvtx("de.tu-darmstadt.parallel.extra_prof", 0, None, eventType=75, domainId=1)
        self.nvtx(text, start, end, domainId=1, uint32Value=depth)

    def chain(self, kind: str, number: int, *frames: str) -> None:
        """Frames from the innermost on; addresses are unresolved."""
        for depth, frame in enumerate(frames):
            unresolved = 1 if frame.startswith("0x") else None
            told = {"symbol": self.string(frame), "stackDepth": depth, "unresolved": unresolved}
            self.add(f"{kind}_CALLCHAINS", id=number, **told)

    def gpu(self, number: int, name: str, threads: int = 20480, major: int = 6) -> None:
        """A GPU that runs that many threads, in the table of the generation."""
        if self.generation in ("N0a", "N0b"):
            told = {"numMultiprocessors": threads // 2048, "numThreadsPerWarp": 32, "maxWarpsPerMultiprocessor": 64}
            self.add("TARGET_INFO_CUDA_GPU", id=number, name=name, computeCapabilityMajor=major, **told)
        if self.generation != "N0a":
            told = {"smCount": threads // 2048, "threadsPerWarp": 32, "maxWarpsPerSm": 64, "computeMajor": major}
            self.add("TARGET_INFO_GPU", id=number, name=name, cuDevice=number if major else 0, **told)

    def _on_stream(self) -> dict[str, object]:
        return {"deviceId": 0, "contextId": 1, "streamId": 7, "globalPid": global_id(self.pid)}

    def write(self, path: Path, without: str = "") -> Path:
        """The file; a table or a `table.column` may be left out."""
        path.parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(path)) as connection, connection:
            for table, rows in self.rows.items():
                if table == without:
                    continue
                missing = MISSING.get(self.generation, {}).get(table, set()) | {without.removeprefix(f"{table}.")}
                columns = [name for name in COLUMNS[table].split() if name not in missing]
                connection.execute(f"CREATE TABLE {table} ({', '.join(columns)})")
                marks = ", ".join("?" for _ in columns)
                cells = [[row.get(name) for name in columns] for row in rows]
                connection.executemany(f"INSERT INTO {table} VALUES ({marks})", cells)
        return path


def small(generation: str) -> Export:
    """A marker around a launch and a copy, a wait, and a kernel that nobody launched; all of a generation's tables."""
    export = Export(generation)
    export.gpu(0, "Tesla T", 81920, 7)
    if generation in ("N2", "N3"):
        export.add("ENUM_CUDA_MEMCPY_OPER", id=1, name="HTOD", label="Host-to-Device")
        export.add("ENUM_CUDA_MEMCPY_OPER", id=20, name="NEW", label="brand new")
    if generation == "N3":
        export.add("TARGET_INFO_CUDA_DEVICE", gpuId=0, cudaId=0, pid=PID)
        export.add("TARGET_INFO_CUDA_CONTEXT_INFO", nullStreamId=7, processId=PID, deviceId=0, contextId=1)
    elif generation != "N0a":
        export.add("TARGET_INFO_CUDA_NULL_STREAM", streamId=7, processId=PID, deviceId=0, contextId=1)
    if generation not in ("N0a", "N0b"):
        export.add("PROCESSES", globalPid=global_id(), pid=PID, name="./app")
    export.nvtx("step", 100, 1000)
    export.call("cudaLaunchKernel_v7000", 200, 250, 1)
    export.kernel("gemm", 300, 700, 1, gridX=4, blockX=128)
    export.call("cudaMemcpyAsync_v3020", 260, 280, 2)
    export.copy(1, 4096, 700, 760, 2)
    export.call("cudaStreamSynchronize_v3020", 290, 800, 3)
    export.sync(3, 300, 790, 3)
    export.kernel("orphan", 2000, 2010, 99)
    return export
