"""The event tables of rocprofv3's databases, and which of their columns an event column is made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from callgrove.formats.gpu.cells import Type
from callgrove.formats.gpu.tables import EventTable
from callgrove.model.traces import SpanKind

__all__ = ["AGENT_NUMBERS", "LISTED", "ON_DEVICE", "ON_THREADS", "PLACE_COLUMNS", "kind_of_category", "tables_of"]

KIND_OF_CATEGORY = {  # by the word before the first underscore
    "HIP": SpanKind.API,
    "HSA": SpanKind.API,
    "RCCL": SpanKind.API,
    "ROCDECODE": SpanKind.API,
    "ROCJPEG": SpanKind.API,
    "OMPT": SpanKind.API,
    "MARKER": SpanKind.MARKER,
    "rocm": SpanKind.API,  # of rocprof-sys: rocm_hip_api, rocm_rccl_api, ... beside `host`, `mpi` and `pthread`
}
MARKERS_OF_ROCPROF_SYS = "rocm_marker"
ON_DEVICE = ("kernel_dispatch", "memory_copy")
ON_THREADS = ("region", "memory_allocate")
PLACE_COLUMNS = ("agent_id", "dst_agent_id", "src_agent_id", "stream_id")
AGENT_NUMBERS = ("absolute_index", "logical_index")


def _columns(integers: str, texts: str) -> dict[str, Type]:
    return {**dict.fromkeys(integers.split(), Type.INTEGER), **dict.fromkeys(texts.split(), Type.TEXT)}


# The tables that opening reads, and what of them.
LISTED: Mapping[str, Mapping[str, Type]] = {
    "metadata": _columns("", "tag value"),
    "info_node": _columns("id", "machine_id hostname"),
    "info_process": _columns("pid nid init fini", "command environment"),
    "info_agent": _columns(f"id type_index {' '.join(AGENT_NUMBERS)}", "type name product_name"),
    "info_thread": _columns("id tid", "name"),
    "info_stream": _columns("id", "name"),
}

Needs = Mapping[str, Sequence[str]]

EVENT: Needs = dict.fromkeys(("category", "correlation", "parent_correlation"), ("event_id",))
TIMES: Needs = {"start_ns": ("start",), "end_ns": ("end",)}
INSTANT: Needs = {"start_ns": ("timestamp",), "end_ns": ("timestamp",)}
HOST: Needs = {"kind": ("event_id",), "label": ("name_id", "event_id")}
TABLES: Mapping[str, tuple[SpanKind, Needs, frozenset[str]]] = {  # kind, needs, columns of text
    "region": (SpanKind.REGION, {**EVENT, **TIMES, **HOST, "name": ("name_id",), "lane": ("tid",)}, frozenset()),
    "kernel_dispatch": (
        SpanKind.KERNEL,
        {**EVENT, **TIMES, "name": ("kernel_id",), "label": ("kernel_id",), "lane": PLACE_COLUMNS},
        frozenset(),
    ),
    "memory_copy": (
        SpanKind.COPY,
        {**EVENT, **TIMES, "name": ("name_id",), "label": ("name_id",), "lane": PLACE_COLUMNS},
        frozenset(),
    ),
    "memory_allocate": (
        SpanKind.ALLOC,
        {**EVENT, **TIMES, "name": ("type",), "label": ("type",), "lane": ("tid",)},
        frozenset({"type"}),
    ),
    "sample": (
        SpanKind.MARKER,
        {
            **EVENT,
            **INSTANT,
            **HOST,
            **dict.fromkeys(("name", "label"), ("event_id", "track_id")),
            "lane": ("track_id",),
        },
        frozenset(),
    ),
}


def tables_of(suffix: str) -> tuple[EventTable, ...]:
    """The event tables of one set."""
    return tuple(EventTable(f"rocpd_{base}{suffix}", *what) for base, what in TABLES.items())


def kind_of_category(category: str) -> SpanKind:
    """What a region is whose event is of this category."""
    if category.startswith(MARKERS_OF_ROCPROF_SYS):
        return SpanKind.MARKER
    return KIND_OF_CATEGORY.get(category.partition("_")[0], SpanKind.REGION)
