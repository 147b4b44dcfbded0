"""Made-up runs on GPUs, and databases of all four families that hold them.

A run is a list of events with everything that a reader should find; writers put the same run into the tables of each
family, after the column lists of the specification (gpu-traces.md 2 to 5). Nothing here is taken from the package.

    Run.random(7)                    two threads, markers around calls, calls that launch operations, allocations
    write_rocpd(path, [run, ...])    rocprofv3: one set of tables per run
    write_rpd(path, run)             RPD
    write_nsight(path, run)          Nsight Systems, schema 2.9
    write_draft(path, run)           the draft, settled; DRAFT_VERBATIM holds the document's own text
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random

SECOND = 1_000_000_000
KERNELS = ("void gemm<float>(float const*)", "reduce(double*)", "ncclKernel_AllReduce()")


@dataclass(frozen=True)
class Event:
    """What happened. `thread` numbers the run's threads, `device` and `stream` say where an operation ran."""

    kind: str  # api, marker, kernel, copy, memset, alloc, region
    name: str
    start: int
    end: int
    thread: int = 0
    corr: int = -1
    device: int = -1
    stream: int = 0
    size: int = -1
    label: str = ""
    grid: tuple[int, int, int] = (0, 0, 0)  # work-items
    block: tuple[int, int, int] = (1, 1, 1)

    @property
    def length(self) -> int:
        return self.end - self.start


@dataclass(frozen=True)
class Run:
    """One process."""

    events: tuple[Event, ...]
    pid: int = 4242
    host: str = "node0000"
    machine: str = "m0"
    guid: str = "018f0000-0000-7000-8000-000000000000"
    command: str = "./app -n 4"
    tids: tuple[int, ...] = (4242, 4250)
    n_devices: int = 2
    start: int = 1000
    environment: dict[str, str] = field(default_factory=dict)
    counters: tuple[tuple[int, str, float], ...] = ()  # number of an event, name, value

    @classmethod
    def random(cls, seed: int, n_calls: int = 40, **about: object) -> Run:
        """Calls below markers on two threads; every second one launches an operation, now and then two."""
        chance = Random(seed)
        events: list[Event] = []
        corr, device_free = 0, Counter[tuple[int, int]]()
        for thread in range(2):
            now = 2000 + thread * 17
            for step in range(n_calls // 8):
                begin, inside = now, []
                now += 5
                for _ in range(4):
                    corr += 1
                    start, now = now, now + chance.randrange(5, 60)
                    inside.append((corr, start, now))
                    now += chance.randrange(3)
                events.append(
                    Event("marker", "roctxRangePushA", begin, now, thread, corr=90_000 + corr, label=f"step {step}")
                )
                for number, start, end in inside:
                    events += cls._call(chance, thread, number, start, end, device_free)
                now += 10
        return cls(tuple(events), **about)  # type: ignore[arg-type]

    @staticmethod
    def _call(
        chance: Random, thread: int, corr: int, start: int, end: int, free: Counter[tuple[int, int]]
    ) -> list[Event]:
        what = chance.choice(("kernel", "kernel", "copy", "memset", "alloc", "nothing"))
        names = {"kernel": "hipLaunchKernel", "copy": "hipMemcpy", "memset": "hipMemset", "alloc": "hipMalloc"}
        out = [Event("api", names.get(what, "hipGetDevice"), start, end, thread, corr)]
        place = (chance.randrange(2), chance.randrange(2))
        if what == "alloc":
            out.append(Event("alloc", "ALLOC", start + 1, end, thread, corr, size=chance.randrange(1, 9999)))
        elif what != "nothing":
            begin = max(end + chance.randrange(20), free[place] - chance.randrange(2))
            last = free[place] = begin + chance.randrange(200)
            name = {"kernel": chance.choice(KERNELS), "copy": "MEMORY_COPY_HOST_TO_DEVICE", "memset": "memset"}[what]
            size = -1 if what == "kernel" else chance.randrange(1, 1 << 20)
            grid, block = ((256, 8, 1), (64, 2, 1)) if what == "kernel" else ((0, 0, 0), (1, 1, 1))
            out.append(Event(what, name, begin, last, thread, corr, *place, size, grid=grid, block=block))
        return out

    def without(self, *kinds: str) -> Run:
        return replace(self, events=tuple(event for event in self.events if event.kind not in kinds))

    @property
    def end(self) -> int:
        return max((event.end for event in self.events), default=self.start) + 100

    def totals(self, kind: str) -> dict[str, tuple[int, int]]:
        """By name: how many, and for how long in all."""
        found: dict[str, tuple[int, int]] = {}
        for event in self.events:
            if event.kind == kind:
                count, total = found.get(event.name, (0, 0))
                found[event.name] = count + 1, total + event.length
        return found

    @property
    def operations(self) -> list[Event]:
        return [event for event in self.events if event.device >= 0]


class Strings:
    """A table of texts in the making."""

    def __init__(self, first: int = 1) -> None:
        self._first = first
        self.ids: dict[str, int] = {}

    def __call__(self, text: str) -> int:
        return self.ids.setdefault(text, len(self.ids) + self._first)

    def rows(self) -> list[tuple[int, str]]:
        return [(id_, text) for text, id_ in self.ids.items()]


def execute(path: Path, *statements: str) -> None:
    """Change a database that was made here."""
    database = sqlite3.connect(path)
    for statement in statements:
        database.execute(statement)
    database.commit()
    database.close()


def _table(database: sqlite3.Connection, name: str, columns: str) -> None:
    """Names alone: SQLite needs no types, and readers must not."""
    database.execute(f'CREATE TABLE "{name}" ({columns})')


def _insert(database: sqlite3.Connection, table: str, rows: list[tuple[object, ...]]) -> None:
    if rows:
        database.executemany(f'INSERT INTO "{table}" VALUES ({", ".join("?" * len(rows[0]))})', rows)


# -- rocprofv3 -------------------------------------------------------------------------------------------------------

ROCPD = {
    "metadata": "id INTEGER PRIMARY KEY, tag, value",
    "string": "id INTEGER PRIMARY KEY, guid, string",
    "info_node": "id, guid, hash, machine_id, system_name, hostname, release, version, hardware_name, domain_name",
    "info_process": "id, guid, nid, ppid, pid, init, fini, start, end, command, environment, extdata",
    "info_thread": "id, guid, nid, ppid, pid, tid, name, start, end, extdata",
    "info_agent": "id, guid, nid, pid, type, absolute_index, logical_index, type_index, uuid, name, model_name, "
    "vendor_name, product_name, user_name, extdata",
    "info_queue": "id, guid, nid, pid, name, extdata",
    "info_stream": "id, guid, nid, pid, name, extdata",
    "info_pmc": "id, guid, nid, pid, agent_id, target_arch, event_code, instance_id, name, symbol, description, "
    "long_description, component, units, value_type, block, expression, is_constant, is_derived, extdata",
    "info_code_object": "id, guid, nid, pid, agent_id, uri, load_base, load_size, load_delta, storage_type, extdata",
    "info_kernel_symbol": "id, guid, nid, pid, code_object_id, kernel_name, display_name, kernel_object, "
    "kernarg_segment_size, kernarg_segment_alignment, group_segment_size, private_segment_size, sgpr_count, "
    "arch_vgpr_count, accum_vgpr_count, extdata",
    "track": "id, guid, nid, pid, tid, name_id, extdata",
    "event": "id INTEGER PRIMARY KEY, guid, category_id, stack_id, parent_stack_id, correlation_id, call_stack, "
    "line_info, extdata",
    "arg": "id, guid, event_id, position, type, name, value, extdata",
    "pmc_event": "id, guid, event_id, pmc_id, value, extdata",
    "region": "id, guid, nid, pid, tid, start, end, name_id, event_id, extdata",
    "sample": "id, guid, track_id, timestamp, event_id, extdata",
    "kernel_dispatch": "id, guid, nid, pid, tid, agent_id, kernel_id, dispatch_id, queue_id, stream_id, start, end, "
    "private_segment_size, group_segment_size, workgroup_size_x, workgroup_size_y, workgroup_size_z, grid_size_x, "
    "grid_size_y, grid_size_z, region_name_id, event_id, extdata",
    "memory_copy": "id, guid, nid, pid, tid, start, end, name_id, dst_agent_id, dst_address, src_agent_id, "
    "src_address, size, queue_id, stream_id, region_name_id, event_id, extdata",
    "memory_allocate": "id, guid, nid, pid, tid, agent_id, type, level, start, end, address, size, queue_id, "
    "stream_id, event_id, extdata",
}
CATEGORY = {
    "api": "HIP_RUNTIME_API_EXT",
    "marker": "MARKER_CORE_API",
    "kernel": "KERNEL_DISPATCH",
    "copy": "MEMORY_COPY",
    "alloc": "MEMORY_ALLOCATION",
    "region": "OTHER",
}


def suffix_of(run: Run) -> str:
    return "_" + run.guid.replace("-", "_")


def write_rocpd(
    path: Path,
    runs: list[Run],
    *,
    suffixes: list[str] | None = None,
    missing: tuple[str, ...] = (),
    version: str = "3",
) -> Path:
    """One set of tables per run. rocprofv3 records memsets as kernels, so runs for it have none."""
    database = sqlite3.connect(path)
    for number, run in enumerate(runs):
        _rocpd_set(database, run, suffix_of(run) if suffixes is None else suffixes[number], missing, version)
    database.commit()
    database.close()
    return path


def _rocpd_set(database: sqlite3.Connection, run: Run, suffix: str, missing: tuple[str, ...], version: str) -> None:
    strings, kernels = Strings(), Strings()
    g, nid, pid = run.guid, 7, run.pid
    rows: dict[str, list[tuple[object, ...]]] = {base: [] for base in ROCPD}
    rows["metadata"] = [(1, "schema_version", version), (2, "uuid", suffix), (3, "guid", g)]
    rows["info_node"] = [(nid, g, 1, run.machine, "Linux", run.host, "5", "1", "x86_64", "(none)")]
    environment = str(run.environment).replace("'", '"')
    rows["info_process"] = [
        (pid, g, nid, 1, pid, run.start, run.end, run.start, run.end, run.command, environment, "{}")
    ]
    rows["info_thread"] = [(t, g, nid, 1, pid, t, f"thread {k}", None, None, "{}") for k, t in enumerate(run.tids)]
    cpu = (0, g, nid, pid, "CPU", 0, 0, 0, 0, "EPYC", "", "", "EPYC", "", "{}")
    gpus = [
        (1 + k, g, nid, pid, "GPU", 1 + k, k, k, 0, "gfx942", "", "", "MI300X", "", "{}") for k in range(run.n_devices)
    ]
    rows["info_agent"] = [cpu, *gpus]
    rows["info_stream"] = [(k, g, nid, pid, f"Stream {k}", "{}") for k in range(2)]
    rows["info_pmc"] = [(5, g, nid, pid, 1, *[None] * 3, "SQ_WAVES", "SQ_WAVES", *[None] * 10)]
    strings("")
    for number, event in enumerate(run.events):
        id_ = number + 1
        message = f'{{"message":"{event.label}"}}' if event.label else "{}"
        category = strings(CATEGORY[event.kind])
        corr = event.corr if event.corr >= 0 else None
        rows["event"].append((id_, g, category, corr, 0, 0, "{}", "{}", message))
        who = (nid, pid, run.tids[event.thread])
        if event.kind in ("api", "marker", "region"):
            name = strings(event.name)
            rows["region"].append((id_, g, *who, event.start, event.end, name, id_, "{}"))
        elif event.kind == "kernel":
            times, kernel = (event.start, event.end), kernels(event.name)
            shape = (*event.block, *event.grid)
            rows["kernel_dispatch"].append(
                (id_, g, *who, 1 + event.device, kernel, id_, 0, event.stream, *times, 0, 512, *shape, 1, id_, "{}")
            )
        elif event.kind == "copy":
            places = (1 + event.device, None, 0, None)
            rows["memory_copy"].append(
                (
                    id_,
                    g,
                    *who,
                    event.start,
                    event.end,
                    strings(event.name),
                    *places,
                    event.size,
                    0,
                    event.stream,
                    1,
                    id_,
                    "",
                )
            )
        elif event.kind == "alloc":
            rows["memory_allocate"].append(
                (id_, g, *who, 1, event.name, "REAL", event.start, event.end, 64, event.size, None, None, id_, "{}")
            )
    rows["info_kernel_symbol"] = [
        (id_, g, nid, pid, 1, f"_Z{id_}.kd", text, *[0] * 5, 16, 24, 0, "{}") for id_, text in kernels.rows()
    ]
    rows["pmc_event"] = [(k, g, event + 1, 5, value, "{}") for k, (event, _, value) in enumerate(run.counters)]
    rows["string"] = [(id_, g, text) for id_, text in strings.rows()]
    for base, columns in ROCPD.items():
        if base not in missing:
            _table(database, f"rocpd_{base}{suffix}", columns)
            _insert(database, f"rocpd_{base}{suffix}", rows[base])


# -- RPD -------------------------------------------------------------------------------------------------------------

RPD = {
    "rocpd_metadata": "id, tag, value",
    "rocpd_string": "id, string",
    "rocpd_api": "id, pid, tid, start, end, apiName_id, args_id",
    "rocpd_op": "id, gpuId, queueId, sequenceId, completionSignal, start, end, description_id, opType_id",
    "rocpd_api_ops": "id, api_id, op_id",
    "rocpd_kernelapi": "api_ptr_id, stream, gridX, gridY, gridZ, workgroupX, workgroupY, workgroupZ, groupSegmentSize, "
    "privateSegmentSize, kernelArgAddress, aquireFence, releaseFence, codeObject_id, kernelName_id",
    "rocpd_copyapi": "api_ptr_id, stream, size, width, height, kind, dst, src, dstDevice, srcDevice, sync, pinned",
    "rocpd_monitor": "id, deviceType, deviceId, monitorType, start, end, value",
}
OP_TYPE = {"kernel": "KernelExecution", "copy": "CopyHostToDevice", "memset": "FillBuffer"}


def write_rpd(path: Path, run: Run, *, first_id: int = 1, monitor: tuple[tuple[int, str], ...] = ()) -> Path:
    """`first_id` lies beyond 2^32 for all sessions but the first; `monitor` gives times and clock rates."""
    strings = Strings()
    rows: dict[str, list[tuple[object, ...]]] = {name: [] for name in RPD}
    rows["rocpd_metadata"] = [(1, "schema_version", "2")]
    apis: dict[int, int] = {}
    for number, event in enumerate(run.without("alloc").events):
        id_ = first_id + number
        if event.device < 0:
            is_marker = event.kind == "marker"
            name, args = ("UserMarker", event.label) if is_marker else (event.name, "")
            row = (id_, run.pid, run.tids[event.thread], event.start, event.end, strings(name), strings(args))
            rows["rocpd_api"].append(row)
            apis[event.corr] = id_
            continue
        text = event.name if event.kind == "kernel" else ""
        place = (event.device, event.stream, 0, None, event.start, event.end)
        rows["rocpd_op"].append((id_, *place, strings(text), strings(OP_TYPE[event.kind])))
        rows["rocpd_api_ops"].append((id_, apis[event.corr], id_))
        if event.kind == "kernel":
            blocks = tuple(g // b for g, b in zip(event.grid, event.block, strict=True))
            rows["rocpd_kernelapi"].append((apis[event.corr], "", *blocks, *event.block, 512, 0, *[None] * 5))
        elif event.kind == "copy":
            rows["rocpd_copyapi"].append((apis[event.corr], "", event.size, 0, 0, 1, "", "", event.device, -1, 1, 0))
    rows["rocpd_monitor"] = [(k, "gpu", 0, "sclk", t, t + 10, value) for k, (t, value) in enumerate(monitor)]
    rows["rocpd_string"] = list(strings.rows())
    _write(path, RPD, rows)
    return path


def _write(path: Path, schema: dict[str, str], rows: dict[str, list[tuple[object, ...]]]) -> None:
    database = sqlite3.connect(path)
    for name, columns in schema.items():
        _table(database, name, columns)
        _insert(database, name, rows.get(name, []))
    database.commit()
    database.close()


# -- Nsight Systems --------------------------------------------------------------------------------------------------

OPERATION = "start, end, deviceId, contextId, streamId, correlationId, globalPid"
NSIGHT = {
    "EXPORT_META_DATA": "name, value",
    "StringIds": "id, value",
    "ThreadNames": "nameId, priority, globalTid",
    "ProcessStreams": "globalPid, filenameId, contentId",
    "PROCESSES": "globalPid, pid, name",
    "TARGET_INFO_SYSTEM_ENV": "globalVid, devStateName, name, nameEnum, value",
    "CUPTI_ACTIVITY_KIND_RUNTIME": "start, end, eventClass, globalTid, correlationId, nameId, returnValue, callchainId",
    "CUPTI_ACTIVITY_KIND_KERNEL": f"{OPERATION}, demangledName, shortName, mangledName, registersPerThread, gridX, "
    "gridY, gridZ, blockX, blockY, blockZ, staticSharedMemory, dynamicSharedMemory, graphNodeId",
    "CUPTI_ACTIVITY_KIND_MEMCPY": f"{OPERATION}, bytes, copyKind, srcKind, dstKind, graphNodeId",
    "CUPTI_ACTIVITY_KIND_MEMSET": f"{OPERATION}, value, bytes, graphNodeId, memKind",
    "NVTX_EVENTS": "start, end, eventType, rangeId, category, color, text, globalTid, endGlobalTid, textId, domainId, "
    "uint64Value, int64Value, doubleValue, uint32Value, int32Value, floatValue, jsonTextId, jsonText",
}


def write_nsight(path: Path, run: Run) -> Path:
    strings = Strings()
    process = run.pid << 24
    rows: dict[str, list[tuple[object, ...]]] = {name: [] for name in NSIGHT}
    rows["EXPORT_META_DATA"] = [("EXPORT_SCHEMA_VERSION", "2.9.1")]
    rows["PROCESSES"] = [(process, run.pid, run.command)]
    rows["TARGET_INFO_SYSTEM_ENV"] = [(0, "", "Hostname", 0, run.host)]
    rows["ThreadNames"] = [(strings(f"thread {k}"), 0, process | tid) for k, tid in enumerate(run.tids)]
    for event in run.without("alloc").events:
        thread = process | run.tids[event.thread]
        place = (event.start, event.end, event.device, 1, event.stream, event.corr, process)
        if event.kind == "marker":
            values = (59, None, 0, 0, event.label, thread, None, None, 0, *[None] * 8)
            rows["NVTX_EVENTS"].append((event.start, event.end, *values))
        elif event.kind == "api":
            name = strings(f"{event.name}_v3020")
            rows["CUPTI_ACTIVITY_KIND_RUNTIME"].append((event.start, event.end, 0, thread, event.corr, name, 0, None))
        elif event.kind == "kernel":
            blocks = tuple(g // b for g, b in zip(event.grid, event.block, strict=True))
            name = strings(event.name)
            rows["CUPTI_ACTIVITY_KIND_KERNEL"].append(
                (*place, name, name, name, 32, *blocks, *event.block, 0, 512, None)
            )
        elif event.kind == "copy":
            rows["CUPTI_ACTIVITY_KIND_MEMCPY"].append((*place, event.size, 1, 1, 2, None))
        elif event.kind == "memset":
            rows["CUPTI_ACTIVITY_KIND_MEMSET"].append((*place, 0, event.size, None, 2))
    rows["StringIds"] = list(strings.rows())
    _write(path, NSIGHT, rows)
    return path
