"""Makes rocprofv3 databases (rocpd, schema 3.0.0) of any size: `python -m bench.gpu_databases FILE [N_EVENTS]`.

Specification: gpu-traces.md 3.1-3.4. A database is what one process did: threads call the runtime, kernels and copies
follow on streams of two GPUs, markers lie around calls, memory comes and goes. Every event has its row in the event
table, by which operations and calls are linked. The same shape gives the same rows.

    thread    |- marker ---------------------------|
                |- hipLaunchKernel -|  |- hipMemcpyAsync -|
    stream                   |== kernel ==|     |= copy =|
"""

from __future__ import annotations

import sqlite3
import sys
import uuid
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["GpuShape", "make_gpu_database", "truth"]

KERNELS = ("gemm<float>(float*)", "softmax(float*)", "ncclDevKernel_AllReduce", "triad(double*)", "copyBuffer.kd")
CATEGORIES = ("HIP_RUNTIME_API_EXT", "KERNEL_DISPATCH", "MEMORY_COPY", "MARKER_CORE_API", "MEMORY_ALLOCATION")
CALLS = ("hipLaunchKernel", "hipMemcpyAsync", "hipMalloc", "hipFree", "roctxThreadRangeA")
COPIES = ("MEMORY_COPY_HOST_TO_DEVICE", "MEMORY_COPY_DEVICE_TO_HOST")
STRINGS = ("", *CATEGORIES, *CALLS, *COPIES)
STRING = {text: number for number, text in enumerate(STRINGS, 1)}
BOOT = 1_700_000_000_000_000_000
FIRST_GPU = 2  # agents 0 and 1 are CPUs

PLACE = "nid INTEGER NOT NULL, pid INTEGER NOT NULL"
TIMES = "start BIGINT NOT NULL, end BIGINT NOT NULL"
EXTRA = 'extdata JSONB DEFAULT "{}" NOT NULL'
TABLES = {  # after id and guid
    "info_node": "hash BIGINT NOT NULL, machine_id TEXT NOT NULL, system_name TEXT, hostname TEXT, release TEXT,"
    " version TEXT, hardware_name TEXT, domain_name TEXT",
    "info_process": "nid INTEGER NOT NULL, ppid INTEGER, pid INTEGER NOT NULL, init BIGINT, fini BIGINT, start BIGINT,"
    f' end BIGINT, command TEXT, environment JSONB DEFAULT "{{}}" NOT NULL, {EXTRA}',
    "info_thread": f"nid INTEGER NOT NULL, ppid INTEGER, pid INTEGER NOT NULL, tid INTEGER NOT NULL, name TEXT,"
    f" start BIGINT, end BIGINT, {EXTRA}",
    "info_agent": f"{PLACE}, type TEXT, absolute_index INTEGER, logical_index INTEGER, type_index INTEGER,"
    f" uuid INTEGER, name TEXT, model_name TEXT, vendor_name TEXT, product_name TEXT, user_name TEXT, {EXTRA}",
    "info_queue": f"{PLACE}, name TEXT, {EXTRA}",
    "info_stream": f"{PLACE}, name TEXT, {EXTRA}",
    "info_pmc": f"{PLACE}, agent_id INTEGER, target_arch TEXT, event_code INT, instance_id INTEGER, name TEXT NOT NULL,"
    f" symbol TEXT NOT NULL, description TEXT, value_type TEXT, {EXTRA}",
    "info_code_object": f"{PLACE}, agent_id INTEGER, uri TEXT, load_base BIGINT, load_size BIGINT, load_delta BIGINT,"
    f" storage_type TEXT, {EXTRA}",
    "info_kernel_symbol": f"{PLACE}, code_object_id INTEGER NOT NULL, kernel_name TEXT, display_name TEXT,"
    " kernel_object INTEGER, group_segment_size INTEGER, private_segment_size INTEGER, sgpr_count INTEGER,"
    f" arch_vgpr_count INTEGER, accum_vgpr_count INTEGER, {EXTRA}",
    "string": "string TEXT NOT NULL UNIQUE ON CONFLICT ABORT",
    "track": f"nid INTEGER NOT NULL, pid INTEGER, tid INTEGER, name_id INTEGER, {EXTRA}",
    "event": "category_id INTEGER, stack_id INTEGER, parent_stack_id INTEGER, correlation_id INTEGER,"
    f' call_stack JSONB DEFAULT "{{}}" NOT NULL, line_info JSONB DEFAULT "{{}}" NOT NULL, {EXTRA}',
    "arg": f"event_id INTEGER NOT NULL, position INTEGER NOT NULL, type TEXT NOT NULL, name TEXT NOT NULL, value TEXT,"
    f" {EXTRA}",
    "pmc_event": f"event_id INTEGER, pmc_id INTEGER NOT NULL, value REAL DEFAULT 0.0, {EXTRA}",
    "region": f"{PLACE}, tid INTEGER NOT NULL, {TIMES}, name_id INTEGER NOT NULL, event_id INTEGER, {EXTRA}",
    "sample": f"track_id INTEGER NOT NULL, timestamp BIGINT NOT NULL, event_id INTEGER, {EXTRA}",
    "kernel_dispatch": f"{PLACE}, tid INTEGER, agent_id INTEGER NOT NULL, kernel_id INTEGER NOT NULL,"
    f" dispatch_id INTEGER NOT NULL, queue_id INTEGER NOT NULL, stream_id INTEGER NOT NULL, {TIMES},"
    " private_segment_size INTEGER, group_segment_size INTEGER, workgroup_size_x INTEGER NOT NULL,"
    " workgroup_size_y INTEGER NOT NULL, workgroup_size_z INTEGER NOT NULL, grid_size_x INTEGER NOT NULL,"
    " grid_size_y INTEGER NOT NULL, grid_size_z INTEGER NOT NULL, region_name_id INTEGER, event_id INTEGER,"
    f" {EXTRA}",
    "memory_copy": f"{PLACE}, tid INTEGER, {TIMES}, name_id INTEGER NOT NULL, dst_agent_id INTEGER,"
    " dst_address INTEGER, src_agent_id INTEGER, src_address INTEGER, size INTEGER NOT NULL, queue_id INTEGER,"
    f" stream_id INTEGER, region_name_id INTEGER, event_id INTEGER, {EXTRA}",
    "memory_allocate": f"{PLACE}, tid INTEGER, agent_id INTEGER, type TEXT, level TEXT, {TIMES}, address INTEGER,"
    f" size INTEGER NOT NULL, queue_id INTEGER, stream_id INTEGER, event_id INTEGER, {EXTRA}",
}


@dataclass(frozen=True)
class GpuShape:
    """How much happens in one process. Of ten events four are kernels, one is a copy, five are host spans."""

    n_events: int = 2_000_000
    rank: int = 0
    n_ranks: int = 1
    n_threads: int = 4
    n_streams: int = 4
    page_size: int = 4096

    @property
    def name(self) -> str:
        return f"gpu-{self.n_events}-{self.page_size}-{self.rank:05}of{self.n_ranks}.db"

    @property
    def guid(self) -> str:
        return str(uuid.uuid5(uuid.NAMESPACE_OID, self.name))


@dataclass(frozen=True)
class Happened:
    """The events as columns: operations k were launched by call k."""

    thread: Any
    call_start: Any
    call_end: Any
    is_copy: Any
    kernel: Any
    agent: Any
    stream: Any
    start: Any
    end: Any
    size: Any
    marker_start: Any
    marker_end: Any


def happened(shape: GpuShape) -> Happened:
    random = np.random.default_rng([shape.rank, shape.n_events])
    n = max(1, shape.n_events // 2)
    per_marker = 10
    thread = np.arange(n) % shape.n_threads
    call_start = BOOT + 20_000 * np.arange(n) // shape.n_threads + random.integers(0, 900, n)
    call_end = call_start + random.integers(800, 3000, n)
    start = call_end + random.integers(-300, 9000, n)
    length = np.maximum(200, random.gamma(2.0, 4000.0, n)).astype(np.int64)
    kernel = random.choice(len(KERNELS), n, p=[0.5, 0.2, 0.05, 0.15, 0.1])
    firsts = np.arange(0, n, shape.n_threads * per_marker)
    marker_start = call_start[firsts] - 5
    marker_end = call_end[np.minimum(firsts + shape.n_threads * (per_marker - 1), n - 1)] + 5
    return Happened(
        thread,
        call_start,
        call_end,
        random.random(n) < 0.2,
        kernel,
        FIRST_GPU + random.integers(0, 2, n),
        1 + random.integers(0, shape.n_streams, n),
        start,
        start + length,
        4096 << random.integers(0, 12, n),
        marker_start,
        marker_end,
    )


def truth(shape: GpuShape) -> Mapping[str, tuple[int, int]]:
    """Count and total duration of every kernel, copy, call and marker."""
    was = happened(shape)
    length = was.end - was.start
    out = {}
    for number, name in enumerate(KERNELS):
        own = (was.kernel == number) & ~was.is_copy
        out[name.removesuffix(".kd")] = (int(own.sum()), int(length[own].sum()))
    for number, name in enumerate(COPIES):
        own = (was.agent == FIRST_GPU + number) & was.is_copy
        out[name] = (int(own.sum()), int(length[own].sum()))
    for copy, name in enumerate(CALLS[:2]):
        own = was.is_copy == copy
        out[name] = (int(own.sum()), int((was.call_end - was.call_start)[own].sum()))
    out["step"] = (len(was.marker_start), int((was.marker_end - was.marker_start).sum()))
    return {name: found for name, found in out.items() if found[0]}


def make_gpu_database(path: Path, shape: GpuShape) -> Path:
    """The database; one that is there is kept, its name says what is in it."""
    if path.exists():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".making")
    unfinished.unlink(missing_ok=True)
    with closing(sqlite3.connect(unfinished, isolation_level=None)) as connection:
        for pragma in (f"page_size={shape.page_size}", "synchronous=OFF", "journal_mode=OFF"):
            connection.execute(f"PRAGMA {pragma}")
        connection.execute("BEGIN")
        _fill(_Tables(connection, shape), shape, happened(shape))
        connection.execute("COMMIT")
    return unfinished.rename(path)


class _Tables:
    """Creates the tables of one process, and adds rows."""

    def __init__(self, connection: sqlite3.Connection, shape: GpuShape) -> None:
        self._connection, self._suffix = connection, "_" + shape.guid.replace("-", "_")
        key = "id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT"
        connection.execute(
            f'CREATE TABLE "rocpd_metadata{self._suffix}"({key}, tag TEXT NOT NULL, value TEXT NOT NULL)'
        )
        for base, columns in TABLES.items():
            guid = f'guid TEXT DEFAULT "{shape.guid}" NOT NULL'
            connection.execute(f'CREATE TABLE "rocpd_{base}{self._suffix}"({key}, {guid}, {columns})')
        tags = {"schema_version": "3.0.0", "uuid": self._suffix, "guid": shape.guid}
        self.add("metadata", ("tag", "value"), tags.items())

    def add(self, base: str, names: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        columns, marks = ", ".join(f'"{name}"' for name in names), ", ".join("?" * len(names))
        self._connection.executemany(f'INSERT INTO "rocpd_{base}{self._suffix}"({columns}) VALUES ({marks})', rows)

    def add_columns(self, base: str, columns: Mapping[str, Any]) -> None:
        """Arrays, or one value for all rows."""
        n = max(len(column) for column in columns.values() if isinstance(column, np.ndarray))
        for first in range(0, n, 1 << 16):
            part = [
                column[first : first + (1 << 16)].tolist()
                if isinstance(column, np.ndarray)
                else [column] * (min(n, first + (1 << 16)) - first)
                for column in columns.values()
            ]
            self.add(base, list(columns), zip(*part, strict=True))


def _fill(tables: _Tables, shape: GpuShape, was: Happened) -> None:
    pid, nid = 1000 + shape.rank % 3, 77 + shape.rank // 8  # process ids repeat on purpose
    _fill_small(tables, shape, was, pid, nid)
    tables.add("string", ("string",), [(text,) for text in STRINGS])
    place = {"nid": nid, "pid": pid}
    _fill_host(tables, was, place)
    _fill_kernels(tables, was, place)
    _fill_copies(tables, was, place)


def _fill_host(tables: _Tables, was: Happened, place: Mapping[str, int]) -> None:
    """Events: those of calls, then those of what they launched, then those of markers; and the calls and markers."""
    n, n_markers = len(was.start), len(was.marker_start)
    stack = np.arange(1, n + 1)
    category = np.where(was.is_copy, STRING["MEMORY_COPY"], STRING["KERNEL_DISPATCH"])
    event = {"parent_stack_id": 0, "correlation_id": 0, "call_stack": "{}", "line_info": "{}"}
    host = {"category_id": np.full(n, STRING["HIP_RUNTIME_API_EXT"]), "stack_id": stack}
    tables.add_columns("event", {**host, **event, "extdata": "{}"})
    tables.add_columns("event", {"category_id": category, "stack_id": stack, **event, "extdata": "{}"})
    marker = {"category_id": np.full(n_markers, STRING["MARKER_CORE_API"]), "stack_id": n + np.arange(n_markers) + 1}
    tables.add_columns("event", {**marker, **event, "extdata": '{"message":"step"}'})
    name = np.where(was.is_copy, STRING["hipMemcpyAsync"], STRING["hipLaunchKernel"])
    tid, calls = place["pid"] + was.thread, {"start": was.call_start, "end": was.call_end, "name_id": name}
    tables.add_columns("region", {**place, "tid": tid, **calls, "event_id": stack})
    times = {"start": was.marker_start, "end": was.marker_end, "name_id": STRING["roctxThreadRangeA"]}
    tables.add_columns("region", {**place, "tid": place["pid"], **times, "event_id": 2 * n + np.arange(n_markers) + 1})


def _fill_kernels(tables: _Tables, was: Happened, place: Mapping[str, int]) -> None:
    rows = np.flatnonzero(~was.is_copy)
    sizes = {f"workgroup_size_{axis}": size for axis, size in zip("xyz", (256, 1, 1), strict=True)}
    grid = {"grid_size_x": 256 * (1 + rows % 999), "grid_size_y": 1, "grid_size_z": 1}
    tables.add_columns(
        "kernel_dispatch",
        {
            **place,
            "tid": place["pid"] + was.thread[rows],
            "agent_id": was.agent[rows],
            "kernel_id": 1 + was.kernel[rows],
            "dispatch_id": 1 + np.arange(len(rows)),
            "queue_id": 1,
            "stream_id": was.stream[rows],
            "start": was.start[rows],
            "end": was.end[rows],
            "private_segment_size": 0,
            "group_segment_size": 512,
            **sizes,
            **grid,
            "region_name_id": 1,
            "event_id": len(was.start) + 1 + rows,
        },
    )


def _fill_copies(tables: _Tables, was: Happened, place: Mapping[str, int]) -> None:
    rows = np.flatnonzero(was.is_copy)
    if not len(rows):
        return
    to_device = was.agent[rows] == FIRST_GPU
    tables.add_columns(
        "memory_copy",
        {
            **place,
            "tid": place["pid"] + was.thread[rows],
            "start": was.start[rows],
            "end": was.end[rows],
            "name_id": np.where(to_device, STRING[COPIES[0]], STRING[COPIES[1]]),
            "dst_agent_id": np.where(to_device, was.agent[rows], 0),
            "src_agent_id": np.where(to_device, 0, was.agent[rows]),
            "size": was.size[rows],
            "queue_id": 1,
            "stream_id": was.stream[rows],
            "event_id": len(was.start) + 1 + rows,
        },
    )


def _fill_small(tables: _Tables, shape: GpuShape, was: Happened, pid: int, nid: int) -> None:
    """What describes node, process, threads, agents, streams and kernels."""
    end = int(max(was.end.max(), was.call_end.max())) + 1000
    node = ("id", "hash", "machine_id", "system_name", "hostname", "release", "version")
    machine = f"machine{nid}"
    tables.add("info_node", node, [(nid, nid * 31, machine, "Linux", f"node{nid}", "6.8.0", "#1 SMP")])
    process = ("id", "nid", "ppid", "pid", "init", "fini", "start", "end", "command", "environment")
    times = (BOOT - 1000, end, BOOT - 1000, end)
    environment = f'{{"SLURM_PROCID":"{shape.rank}","SLURM_NTASKS":"{shape.n_ranks}"}}'
    tables.add("info_process", process, [(pid, nid, 1, pid, *times, "./app", environment)])
    threads = [(pid + k, nid, pid, pid + k) for k in range(shape.n_threads)]
    tables.add("info_thread", ("id", "nid", "pid", "tid"), threads)
    agents = [(k, nid, pid, "CPU" if k < FIRST_GPU else "GPU", k, k, k % FIRST_GPU, "gfx942") for k in range(4)]
    agent = ("id", "nid", "pid", "type", "absolute_index", "logical_index", "type_index", "name")
    tables.add("info_agent", agent, agents)
    tables.add("info_queue", ("id", "nid", "pid", "name"), [(1, nid, pid, "Queue 0")])
    streams = [(1 + k, nid, pid, f"Stream {k}") for k in range(shape.n_streams)]
    tables.add("info_stream", ("id", "nid", "pid", "name"), streams)
    tables.add("info_code_object", ("id", "nid", "pid", "agent_id", "uri"), [(1, nid, pid, FIRST_GPU, "file:///app")])
    symbol = ("nid", "pid", "code_object_id", "kernel_name", "display_name", "sgpr_count", "arch_vgpr_count")
    kernels = [(nid, pid, 1, f"_Z{k}.kd", name.removesuffix(".kd"), 32, 64) for k, name in enumerate(KERNELS)]
    tables.add("info_kernel_symbol", symbol, kernels)


def main(path: str, n_events: str = "2000000") -> None:
    print(make_gpu_database(Path(path), GpuShape(int(n_events))))


if __name__ == "__main__":
    main(*sys.argv[1:])
