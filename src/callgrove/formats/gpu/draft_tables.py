"""The event tables of the draft schema: which of their columns an event is made of.

Specification: gpu-traces.md 2.3. `additional_info` (JSON) holds what the schema has no column for:

    kind, category, label    of the event; label is a marker's text where its name is only that of a call
    corr                     the correlation; null: there is none
    queue, gpu               where it ran; `lane` numbers the lanes that the metadata lists, which is exact
    name, duration_ns        of memory operations, whose own column counts microseconds
    bytes                    of operations that are stored as regions
    parent_corr              the correlation of the call that a call was made by
    side                     what else is known of kernels, copies, allocations and counters, by the words of the model;
                             devices are places in the list of the metadata
"""

from __future__ import annotations

from callgrove.formats.gpu.tables import OVERHEAD, EventTable
from callgrove.model.traces import SpanKind

__all__ = [
    "COUNTERS",
    "INFO",
    "KERNELS",
    "KIND_OF_CATEGORY",
    "MEMORY",
    "NAME_TABLES",
    "REGIONS",
    "STACKS",
    "TABLES",
]

TIMES = frozenset({"start_time", "end_time", "timestamp", "launch_time"})
WHO = ("process_id", "thread_id")
INFO = "additional_info"
KIND_OF_CATEGORY = dict.fromkeys(("HIP", "HSA", "RCCL", "ROCDECODE", "ROCJPEG", "OMPT", "CUDA"), SpanKind.API)
KIND_OF_CATEGORY[OVERHEAD] = SpanKind.OVERHEAD
KIND_OF_CATEGORY["MARKER"] = KIND_OF_CATEGORY["NVTX"] = SpanKind.MARKER

REGIONS = EventTable(
    "instrumentation_regions",
    SpanKind.REGION,
    {
        "start_ns": ("start_time",),
        "end_ns": ("start_time", "end_time"),
        "name": ("region_name_id",),
        "label": ("region_name_id", INFO),
        "lane": (*WHO, INFO),
        "kind": (INFO,),
        "category": (INFO,),
        "correlation": ("id", INFO),
        "parent_correlation": (INFO,),
    },
    frozenset({INFO}),
    TIMES,
)
KERNELS = EventTable(
    "gpu_kernel_launches",
    SpanKind.KERNEL,
    {
        "start_ns": ("start_time",),
        "end_ns": ("end_time",),
        "name": ("kernel_id",),
        "label": ("kernel_id", INFO),
        "lane": (*WHO, "gpu_id", INFO),
        "category": (INFO,),
        "correlation": ("thread_id", "launch_time", INFO),
        "parent_correlation": (INFO,),
    },
    frozenset({INFO}),
    TIMES,
)
MEMORY = EventTable(
    "memory_operations",
    SpanKind.ALLOC,
    {
        "start_ns": ("timestamp",),
        "end_ns": ("timestamp", "duration_us", INFO),
        "kind": ("operation_type",),
        "name": ("operation_type", INFO),
        "label": ("operation_type", INFO),
        "lane": (*WHO, INFO, "operation_type"),
        "category": (INFO,),
        "correlation": ("thread_id", "timestamp", INFO),
        "parent_correlation": (INFO,),
    },
    frozenset({INFO, "operation_type"}),
    TIMES,
)
TABLES = (REGIONS, KERNELS, MEMORY)
COUNTERS, STACKS = (  # no events, but they happen on threads as well
    EventTable(name, SpanKind.REGION, {"lane": (*WHO, INFO)}, frozenset({INFO}))
    for name in ("hardware_counters", "call_stacks")
)
NAME_TABLES = {  # of the document's examples: column -> (table, its id, its text)
    "region_name_id": ("event_names", "event_id", "event_name"),
    "kernel_id": ("kernel_names", "kernel_id", "kernel_name"),
    "function_id": ("function_names", "function_id", "function_name"),
    "file_id": ("file_names", "file_id", "file_name"),
    "event_id": ("event_names", "event_id", "event_name"),
}
