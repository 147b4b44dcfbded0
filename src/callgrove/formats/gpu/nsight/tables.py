"""The event tables of Nsight Systems exports, and what their numbers mean where an export has no table of it.

Specification: gpu-traces.md 5.2 and 5.4.
"""

from __future__ import annotations

from callgrove.formats.gpu.event_tables import OVERHEAD, EventTable
from callgrove.model.traces.events import SpanKind

__all__ = [
    "CATEGORIES",
    "CHAIN_CLASS",
    "COPY_COLUMNS",
    "COPY_KINDS",
    "CUPTI",
    "DOMAIN_CREATE",
    "KERNEL_COLUMNS",
    "KNOWN",
    "MARK",
    "OLD_SYNC_KINDS",
    "PUSH_POP",
    "START_END",
    "STREAM",
    "SYNC_KINDS",
    "SYNC_TYPES",
    "TABLES",
    "TID_BITS",
    "sync_word",
]

CUPTI = "CUPTI_ACTIVITY_KIND_"
CHAIN_CLASS = 67  # a second row of a call, which only brings its call chain
TID_BITS = 24
PUSH_POP, START_END, MARK, DOMAIN_CREATE = (59, 70), (60, 71), 34, 75

COPY_KINDS = {  # CUpti_ActivityMemcpyKind, where the file has no table of it
    0: "Unknown",
    1: "HtoD",
    2: "DtoH",
    3: "HtoA",
    4: "AtoH",
    5: "AtoA",
    6: "AtoD",
    7: "DtoA",
    8: "DtoD",
    9: "HtoH",
    10: "PtoP",
    11: "UVM_HtoD",
    12: "UVM_DtoH",
    13: "UVM_DtoD",
}
SYNC_KINDS = {0: "Unknown", 1: "Event", 2: "StreamWaitEvent", 3: "Stream", 4: "Context"}
# as exports of schema 2.9 count, where cuCtxSynchronize has 1, cudaEventSynchronize 2 and cudaStreamSynchronize 3
OLD_SYNC_KINDS = {0: "Unknown", 1: "Context", 2: "Event", 3: "Stream", 4: "StreamWaitEvent"}
SYNC_TYPES = "ENUM_CUPTI_SYNC_TYPE"
SYNC_WORDS = {"wait": "StreamWaitEvent", "context": "Context", "stream": "Stream", "event": "Event"}

Needs = dict[str, tuple[str, ...]]
TIMES: Needs = {"start_ns": ("start",), "end_ns": ("end",)}
STREAM: Needs = {"lane": ("globalPid", "deviceId", "streamId"), "correlation": ("correlationId",)}


# calls of threads that more tracers than CUDA's record, each in tables of its own; the names are strings by this column
MORE_CALLS = {
    "MPI": ("textId", [f"MPI_{kind}_EVENTS" for kind in ("P2P", "COLLECTIVES", "START_WAIT", "OTHER")]),
    "UCX": ("textId", ["UCP_SUBMIT_EVENTS", "UCP_PROGRESS_EVENTS", "UCP_EVENTS"]),
    "CUDNN": ("nameId", ["CUDNN_EVENTS"]),
    "CUBLAS": ("nameId", ["CUBLAS_EVENTS"]),
    "OPENACC": ("nameId", [f"{CUPTI}OPENACC_{kind}" for kind in ("DATA", "LAUNCH", "OTHER")]),
    "OPENMP": (
        "nameId",
        [
            f"OPENMP_EVENT_KIND_{kind}"
            for kind in (
                *("THREAD", "PARALLEL", "SYNC_REGION", "SYNC_REGION_WAIT", "TASK", "MASTER", "REDUCTION", "CANCEL"),
                *("TASK_CREATE", "TASK_SCHEDULE", "MUTEX_WAIT", "MUTEX_RELEASED", "CRITICAL_SECTION", "LOCK_INIT"),
                *("LOCK_DESTROY", "WORKSHARE", "DISPATCH", "FLUSH"),
            )
        ],
    ),
}


def sync_word(label: str | None) -> str:
    """Our word for what an export calls a type of synchronization; none where that says nothing."""
    text = (label or "").lower()
    return next((word for key, word in SYNC_WORDS.items() if key in text), "")


def _name_columns(*columns: str) -> Needs:
    return {"name": columns, "label": columns}


TABLES = (
    EventTable(
        f"{CUPTI}RUNTIME",
        SpanKind.API,
        TIMES
        | _name_columns("nameId")
        | {"lane": ("globalTid",), "correlation": ("correlationId",), "kept": ("eventClass",)},
    ),
    EventTable(f"{CUPTI}KERNEL", SpanKind.KERNEL, TIMES | STREAM | _name_columns("demangledName", "shortName")),
    EventTable(f"{CUPTI}MEMCPY", SpanKind.COPY, TIMES | STREAM | _name_columns("copyKind")),
    EventTable(f"{CUPTI}MEMSET", SpanKind.MEMSET, TIMES | STREAM),
    EventTable(
        f"{CUPTI}SYNCHRONIZATION",
        SpanKind.SYNC,
        TIMES | _name_columns("syncType") | {"lane": ("globalPid", "correlationId"), "correlation": ("correlationId",)},
    ),
    EventTable(
        "NVTX_EVENTS",
        SpanKind.MARKER,
        TIMES
        | _name_columns("text", "textId", "domainId", "globalTid")
        | {"category": ("domainId", "globalTid"), "lane": ("globalTid", "eventType"), "kept": ("eventType",)},
        frozenset({"text"}),
    ),
    EventTable("OSRT_API", SpanKind.REGION, TIMES | _name_columns("nameId") | {"lane": ("globalTid",)}),
    EventTable("PROFILER_OVERHEAD", SpanKind.OVERHEAD, TIMES | _name_columns("nameId") | {"lane": ("globalTid",)}),
    EventTable(
        "CUDA_GPU_MEMORY_USAGE_EVENTS",
        SpanKind.ALLOC,
        TIMES
        | _name_columns("memoryOperationType")
        | {"end_ns": ("start",)}
        | {"lane": ("globalPid", "deviceId"), "correlation": ("correlationId",)},
    ),
    EventTable(f"{CUPTI}GRAPH_TRACE", SpanKind.KERNEL, TIMES | STREAM | _name_columns("graphId")),
    *(
        EventTable(name, SpanKind.REGION, TIMES | _name_columns(column) | {"lane": ("globalTid",)})
        for column, names in MORE_CALLS.values()
        for name in names
    ),
)
CATEGORIES = {
    f"{CUPTI}RUNTIME": "CUDA",
    f"{CUPTI}KERNEL": "KERNEL",
    f"{CUPTI}MEMCPY": "MEMCPY",
    f"{CUPTI}MEMSET": "MEMSET",
    f"{CUPTI}SYNCHRONIZATION": "SYNCHRONIZATION",
    "NVTX_EVENTS": "NVTX",
    "OSRT_API": "OSRT",
    "PROFILER_OVERHEAD": OVERHEAD,
    "CUDA_GPU_MEMORY_USAGE_EVENTS": "MEMORY",
    f"{CUPTI}GRAPH_TRACE": "GRAPH",
    **{name: category for category, (_, names) in MORE_CALLS.items() for name in names},
}
KERNEL_COLUMNS = {
    **{f"workgroup_{axis.lower()}": f"block{axis}" for axis in "XYZ"},
    **{f"blocks_{axis.lower()}": f"grid{axis}" for axis in "XYZ"},
    "static_shared": "staticSharedMemory",
    "dynamic_shared": "dynamicSharedMemory",
    "scratch": "localMemoryPerThread",
    "registers": "registersPerThread",
    "short_name": "shortName",
    "demangled_name": "demangledName",
}
COPY_COLUMNS = {
    "bytes": "bytes",
    "source": "srcDeviceId",
    "destination": "dstDeviceId",
    "source_kind": "srcKind",
    "destination_kind": "dstKind",
}
LISTED = """start end eventClass globalTid globalPid correlationId nameId returnValue callchainId deviceId contextId
    greenContextId streamId demangledName shortName mangledName launchType cacheConfig registersPerThread
    gridX gridY gridZ blockX blockY blockZ staticSharedMemory dynamicSharedMemory localMemoryPerThread localMemoryTotal
    gridId sharedMemoryExecuted graphNodeId sharedMemoryLimitConfig bytes copyKind deprecatedSrcId srcKind dstKind
    srcDeviceId srcContextId dstDeviceId dstContextId migrationCause virtualAddress copyCount value memKind syncType
    deprecatedSyncType eventId eventSyncId eventType rangeId category color text endGlobalTid textId domainId
    uint64Value int64Value doubleValue uint32Value int32Value floatValue jsonTextId jsonText nestingLevel address pc
    memoryOperationType name"""  # columns of event tables (5.2)
KNOWN = frozenset(LISTED.split())  # others are kept as they are
