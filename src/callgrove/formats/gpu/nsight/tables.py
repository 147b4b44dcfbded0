"""The event tables of Nsight Systems exports, what their numbers mean, call chains, and call paths in NVTX ranges.

Specification: gpu-traces.md 5.2 and 5.4.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import numpy as np

from callgrove.arrays import ABSENT, Ids, Ints, Names, distinct
from callgrove.binary.sqlite.cells import MISSING, Type
from callgrove.binary.sqlite.database import SqliteFile
from callgrove.formats.events.dataset import OVERHEAD
from callgrove.formats.gpu.event_tables import EventTable
from callgrove.model.traces.events import SpanKind
from callgrove.model.traces.pairing import strip_version

__all__ = [
    "ARROW",
    "CATEGORIES",
    "CHAIN_CLASS",
    "COPY_COLUMNS",
    "COPY_KINDS",
    "CUPTI",
    "DOMAIN_CREATE",
    "EXTRA_PROF",
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
    "CallChains",
    "CallsByCorrelation",
    "Domains",
    "Frames",
    "decode_path",
    "extra_prof_domain",
    "symbols",
    "sync_word",
]


# -- event tables ------------------------------------------------------------------------------------------------------


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
    """Return our word for what an export calls a type of synchronization; empty where that says nothing."""
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


# -- call chains and call paths ----------------------------------------------------------------------------------------
# Specification: gpu-traces.md 5.5.
#
#     CUDA_CALLCHAINS, OSRT_CALLCHAINS     id, symbol, unresolved, stackDepth (0 is the innermost frame)
#     RUNTIME.callchainId, OSRT_API.callchainId     -> id, or id - 1: files show both, so each table is looked at
#     SAMPLING_CALLCHAINS.id = COMPOSITE_EVENTS.id  (start, globalTid)
#
# Frames without a symbol are left out: a third to a half of them are.


Frames = tuple[str, ...]  # the outermost first
INTEGER = Type.INTEGER
LOOKED_AT = 3  # innermost frames among which the called function should be


class CallChains:
    """The chains of one table."""

    def __init__(self, file: SqliteFile, table: str) -> None:
        rows = file.table(table, dict.fromkeys(("id", "symbol", "unresolved", "stackDepth"), INTEGER))
        self.every: Ints = distinct(rows["id"])
        self.largest = int(rows["id"].max(initial=0))
        resolved = np.flatnonzero((rows["unresolved"] != 1) & (rows["symbol"] != MISSING))
        order = resolved[np.lexsort((-rows["stackDepth"][resolved], rows["id"][resolved]))]
        self.ids, first = np.unique(rows["id"][order], return_index=True)
        self.bounds = np.append(first, len(order))
        self.symbol: Ints = rows["symbol"][order]
        self._strings = file.table("StringIds", {"id": INTEGER, "value": Type.TEXT}) if len(order) else {}

    @cached_property
    def _names(self) -> dict[int, str]:
        rows = self._strings
        if not rows:
            return {}
        used = np.isin(rows["id"], self.symbol)
        pairs = zip(rows["id"][used].tolist(), rows["value"][used].tolist(), strict=True)
        return {id_: text for id_, text in pairs if text is not None}

    def frames(self, chain: int) -> Frames:
        """Return the frames of a chain by its id; empty where there is no such chain."""
        place = int(np.searchsorted(self.ids, chain))
        if place == len(self.ids) or self.ids[place] != chain:
            return ()
        symbols = self.symbol[self.bounds[place] : self.bounds[place + 1]].tolist()
        return tuple(self._names.get(symbol, f"<missing string {symbol}>") for symbol in symbols)

    def symbols_of(self, chains: Ints) -> tuple[Ints, Ints]:
        """Return the symbols of chains, one chain after the other, and where each begins; a chain without symbols gets
        an absent one."""
        place = np.minimum(np.searchsorted(self.ids, chains), max(len(self.ids) - 1, 0))
        has_symbols = self.ids[place] == chains if len(self.ids) else np.zeros(len(chains), np.bool_)
        first = np.where(has_symbols, self.bounds[place], 0)
        counts = np.where(has_symbols, np.append(np.diff(self.bounds), 1)[place], 1)
        bounds = np.append(0, np.cumsum(counts))
        at = np.arange(bounds[-1]) + np.repeat(first - bounds[:-1], counts)
        known = np.repeat(has_symbols, counts)
        symbols = np.where(known, np.append(self.symbol, MISSING)[np.where(known, at, -1)], MISSING)
        return symbols, bounds

    def offset(self, given: Ints, names: Ids, texts: list[str]) -> int:
        """Return the difference between the number of a chain and that of its call: 0 (then 0 means no chain) or 1.
        Where the largest numbers do not tell, choose the one with which more chains end in the called function."""
        known = given != MISSING
        largest = int(given[known].max(initial=0))
        if largest == self.largest:
            return 0
        if largest + 1 == self.largest:
            return 1
        pairs = np.unique(np.stack([given[known], names[known]]), axis=1).T.tolist() if known.any() else []
        direct, next_ = (
            sum(
                strip_version(texts[name]) in self.frames(chain + more)[-LOOKED_AT:]
                for chain, name in pairs
                if name != ABSENT
            )
            for more in (0, 1)
        )
        return int(next_ > direct)

    def above(self, given: Ints, names: Ids, texts: list[str]) -> tuple[Ints, tuple[Frames, ...]]:
        """Return the rows of calls that have a chain, and its frames without the called function itself."""
        more = self.offset(given, names, texts)
        rows = np.flatnonzero((given != MISSING) & ((given != 0) | bool(more)))
        keys, number = np.unique(np.stack([given[rows], names[rows]]), axis=1, return_inverse=True)
        stacks = [
            _without(self.frames(chain + more), texts[name] if name >= 0 else "") for chain, name in keys.T.tolist()
        ]
        frames_of_row = [stacks[k] for k in number.reshape(-1).tolist()]
        has_frames = np.array([bool(frames) for frames in frames_of_row], np.bool_)
        return rows[has_frames], tuple(frames for frames in frames_of_row if frames)


def _without(frames: Frames, name: str) -> Frames:
    return frames[:-1] if frames and frames[-1] == strip_version(name) else frames


# Ranges of Extra-Prof: whole call paths as the text of an NVTX range.
#
# Specification: gpu-traces.md section 9 a.
#
#     main->solve->step                plain
#     7f01a07f02b8             pointers to symbols, the outermost first
#     StringIds: EXTRA_PROF_SYMBOLS, EP7f01a0main, EP7f02b8solve, ..., EXTRA_PROF_SYMBOLS_END


EXTRA_PROF = "de.tu-darmstadt.parallel.extra_prof"
SEPARATOR = "\x1f"
ARROW = "->"
FIRST, LAST = "EXTRA_PROF_SYMBOLS", "EXTRA_PROF_SYMBOLS_END"


def extra_prof_domain(file: SqliteFile) -> int | None:
    """Return the NVTX domain of Extra-Prof's ranges, if it measured the run."""
    columns = {"eventType": Type.INTEGER, "domainId": Type.INTEGER, "text": Type.TEXT}
    for cells in file.chunks("NVTX_EVENTS", columns):
        for kind, domain, text in zip(
            cells["eventType"].tolist(), cells["domainId"].tolist(), cells["text"], strict=True
        ):
            if kind == DOMAIN_CREATE and text == EXTRA_PROF and domain != MISSING:
                return int(domain)
    return None


def symbols(strings: Mapping[int, str]) -> dict[str, str]:
    """Return names by pointer. An arrow inside a name would read as two names, so it is changed."""
    places = {text: id_ for id_, text in strings.items() if text in (FIRST, LAST)}
    if len(places) < 2:
        return {}
    names: dict[str, str] = {}
    for id_, text in strings.items():
        mark, _, rest = text.partition(SEPARATOR)
        if mark == "EP" and places[FIRST] <= id_ <= places[LAST]:
            pointer, _, name = rest.partition(SEPARATOR)
            names[pointer] = name.replace(ARROW, "- >")
    return names


def decode_path(text: str, names: Mapping[str, str]) -> str:
    """Return a range's text as a path; pointers without a name stay as they are."""
    if not text.startswith(SEPARATOR):
        return text
    pointers, arrow, call = text[1:].partition(ARROW)
    path = ARROW.join(names.get(pointer, f"<symbol {pointer}>") for pointer in pointers.split(SEPARATOR) if pointer)
    return path + arrow + call


# Keys of Nsight exports that hold in one process only: correlations and NVTX domains.
#
# Specification: gpu-traces.md 5.5.


class Domains:
    """The names of NVTX domains; the first one, 0, has none."""

    def __init__(self, file: SqliteFile, names: Names) -> None:
        self._name: dict[tuple[int, int], int] = {}
        columns = dict.fromkeys(("globalTid", "domainId", "eventType"), Type.INTEGER) | {"text": Type.TEXT}
        for cells in file.chunks("NVTX_EVENTS", columns):
            rows = np.flatnonzero(cells["eventType"] == DOMAIN_CREATE)
            keys = zip((cells["globalTid"][rows] >> TID_BITS).tolist(), cells["domainId"][rows].tolist(), strict=True)
            for key, text in zip(keys, cells["text"][rows].tolist(), strict=True):
                self._name.setdefault(key, names(text))

    def at(self, tids: Ints, domains: Ints) -> Ids:
        """Return the name of the domain of every event, given its thread; -1 where it has none."""
        if not self._name or not len(tids):
            return np.full(len(tids), ABSENT, np.int32)
        keys, number = np.unique(np.stack([tids >> TID_BITS, domains]), axis=1, return_inverse=True)
        names = [self._name.get((process, domain), ABSENT) for process, domain in keys.T.tolist()]
        return np.array(names, np.int32)[number.reshape(-1)]


class CallsByCorrelation:
    """Calls, to be found by process and correlation."""

    def __init__(self, thread: Ints, correlation: Ints) -> None:
        self.thread = thread
        self._order = np.lexsort((correlation, thread >> TID_BITS))
        self._process, self._correlation = (thread >> TID_BITS)[self._order], correlation[self._order]

    def find(self, process: Ints, correlation: Ints) -> Ints:
        """Return the number of the first call of each process and correlation; -1 where there is none."""
        out = np.full(len(process), ABSENT, np.int64)
        for number in np.unique(process).tolist():
            first, last = (
                np.searchsorted(self._process, number, "left"),
                np.searchsorted(self._process, number, "right"),
            )
            asked = np.flatnonzero(process == number)
            place = first + np.searchsorted(self._correlation[first:last], correlation[asked])
            inside = np.flatnonzero(place < last)
            inside = inside[self._correlation[place[inside]] == correlation[asked[inside]]]
            out[asked[inside]] = self._order[place[inside]]
        return out
