"""Nsight Systems exports (SQLite), of every generation: tables and columns come and go, so none is taken for granted.

Specification: gpu-traces.md section 5.

    StringIds                        every name, by id
    CUPTI_ACTIVITY_KIND_RUNTIME      calls of threads; one call may have two rows (class 67 carries the call chain)
    CUPTI_ACTIVITY_KIND_KERNEL, _MEMCPY, _MEMSET      operations of streams
    CUPTI_ACTIVITY_KIND_SYNCHRONIZATION               waits, on the thread whose call has the same correlation
    NVTX_EVENTS                      ranges (59, 60, 70, 71) and marks (34) of threads
    OSRT_API, PROFILER_OVERHEAD      calls of the system's libraries, and of the profiler itself
    CUDA_GPU_MEMORY_USAGE_EVENTS     allocations
    CUPTI_ACTIVITY_KIND_GRAPH_TRACE  executions of CUDA graphs, where their kernels are not recorded one by one
    MPI_*_EVENTS, UCP_*_EVENTS, CUDNN_EVENTS, CUBLAS_EVENTS, CUPTI_ACTIVITY_KIND_OPENACC_*, OPENMP_EVENT_KIND_*
                                     calls of threads, as the user guide of Nsight Systems has them
    MPI_RANKS                        the rank of a thread's process
    CUDA_CALLCHAINS, OSRT_CALLCHAINS, SAMPLING_CALLCHAINS     who called, see tables.py

    globalTid = hardware (8 bits) | machine (8) | process (24) | thread (24); globalPid is the same with thread 0

A correlation is unique in its process. Grids are in blocks. Tables that Extra-P left behind
(EXTRAP_*) are not looked at.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cached_property

import numpy as np

from callgrove.arrays import ABSENT, Array, Bools, Ids, Ints
from callgrove.binary.sqlite.cells import MISSING, Cells, Type
from callgrove.binary.sqlite.database import SqliteFile
from callgrove.formats.events.dataset import Stacks
from callgrove.formats.gpu.event_tables import EventTable, or_absent
from callgrove.formats.gpu.nsight.places import NsightPlaces
from callgrove.formats.gpu.nsight.tables import (
    ARROW,
    CATEGORIES,
    CHAIN_CLASS,
    COPY_COLUMNS,
    COPY_KINDS,
    CUPTI,
    EXTRA_PROF,
    KERNEL_COLUMNS,
    KNOWN,
    MARK,
    OLD_SYNC_KINDS,
    PUSH_POP,
    START_END,
    STREAM,
    SYNC_KINDS,
    SYNC_TYPES,
    TABLES,
    TID_BITS,
    CallChains,
    CallsByCorrelation,
    Domains,
    Frames,
    decode_path,
    symbols,
    sync_word,
)
from callgrove.model.experiment import Severity
from callgrove.model.traces.events import SideTable
from callgrove.model.traces.pairing import strip_version

__all__ = ["NsightData", "datasets"]

INTEGER, TEXT = Type.INTEGER, Type.TEXT


DESCRIPTIVE = re.compile(r"(?:ENUM|META_DATA|EXPORT_META_DATA|TARGET_INFO|ANALYSIS|EXTRAP)(?:_.*)?|UnwindMethodType")
READ = {
    *(table.name for table in TABLES),
    *("StringIds", "ThreadNames", "ProcessStreams", "PROCESSES", "MPI_RANKS"),
    *("CUDA_CALLCHAINS", "OSRT_CALLCHAINS", "SAMPLING_CALLCHAINS"),
}
UNREAD = {
    "GPU_METRICS": "samples of hardware counters",
    "SCHED_EVENTS": "which thread ran when on which core",
    f"{CUPTI}CUDA_EVENT": "events recorded in streams",
    f"{CUPTI}OVERHEAD": "what CUPTI itself did",
    "GPU_MEMORY_BUDGET_EVENTS": "memory of GPUs that processes may use",
    "GPU_MEMORY_USAGE_EVENTS": "memory of GPUs in use",
    "OSRT_FILE_ACCESS_EVENTS": "accesses to files",
    "DIAGNOSTIC_EVENT": "messages of the profiler",
    "COMPOSITE_EVENTS": "samples without call chains",
}


def datasets(file: SqliteFile) -> list[NsightData]:
    """Return the one data set of a file, however many processes it holds."""
    return [NsightData(file)]


class NsightData(NsightPlaces):
    """A data set of Nsight Systems: all tables of an export."""

    def list_event_tables(self) -> Sequence[EventTable]:
        return TABLES

    def __init__(self, file: SqliteFile) -> None:
        super().__init__(file)
        with file.reading():
            self.version = self._read_version()
            self._read_places()
            if not self._tables:
                self.warn(Severity.MISSING, "a trace without events")
            self.name_unread(self._unread_tables(), UNREAD)

    def _unread_tables(self) -> Iterator[str]:
        """Yield tables that are not read, without those that describe the export; samples are read only with call
        chains."""
        read = READ | ({"COMPOSITE_EVENTS"} if "SAMPLING_CALLCHAINS" in self._file.tables else set())
        for name in self._file.tables:
            if name not in read and not DESCRIPTIVE.fullmatch(name):
                yield name

    def _read_version(self) -> str:
        for table in ("META_DATA_EXPORT", "EXPORT_META_DATA"):
            rows = self._file.table(table, {"name": TEXT, "value": TEXT})
            known = dict(zip(rows["name"].tolist(), rows["value"].tolist(), strict=True))
            if version := known.get("EXPORT_SCHEMA_VERSION"):
                return str(version)
        return "0"

    # -- events ------------------------------------------------------------------------------------------------------

    def make_column(self, table: EventTable, column: str, cells: Cells) -> Array:
        make: Mapping[str, Callable[[], Array]] = {
            "start_ns": lambda: cells["start"],
            "end_ns": lambda: self._ends(table, cells),
            "kind": lambda: self.kinds(table, cells),
            "category": lambda: self._category(table, cells),
            "name": lambda: self._name(table, cells),
            "label": lambda: self._label(table, cells),
            "lane": lambda: self._lane(table, cells),
            "correlation": lambda: self._correlation(cells),
            "parent_correlation": lambda: np.full(len(cells["rowid"]), ABSENT, np.int64),
        }
        return make[column]()

    def select_rows(self, table: EventTable, cells: Cells) -> Bools | None:
        """Return which rows are events: not the second row of a call, nor the definitions among the NVTX events."""
        if "eventClass" in cells:
            return np.asarray(cells["eventClass"] != CHAIN_CLASS)
        if "eventType" in cells and "kept" in table.needs:
            return np.isin(cells["eventType"], (*PUSH_POP, *START_END, MARK))
        return None

    def _category(self, table: EventTable, cells: Cells) -> Ids:
        """Return the category of the table; for NVTX events, the name of their domain."""
        usual = self._names(CATEGORIES[table.name])
        if "domainId" not in cells:
            return np.full(len(cells["rowid"]), usual, np.int32)
        domain = self._domains.at(cells["globalTid"], cells["domainId"])
        return np.where(domain >= 0, domain, usual).astype(np.int32)

    @cached_property
    def _domains(self) -> Domains:
        return Domains(self._file, self._names)

    def _ends(self, table: EventTable, cells: Cells) -> Ints:
        """Return the ends of events. Marks take no time; ranges that are still open end with the trace."""
        end = cells[table.needs["end_ns"][0]]
        open_ = end == MISSING
        if not open_.any():
            return end
        marks = cells["eventType"] == MARK if "eventType" in cells else np.zeros(len(end), np.bool_)
        return np.where(open_, np.where(marks, cells["start"], np.maximum(self._last, cells["start"])), end)

    @cached_property
    def _last(self) -> int:
        """Return the end of the trace."""
        last = 0
        for table in self._tables:
            raw = table.needs["end_ns"][0]
            for cells in self._file.chunks(table.name, {raw: INTEGER}):
                last = max(last, int(cells[raw].max()))
        return last

    def _name(self, table: EventTable, cells: Cells) -> Ids:
        if "nameId" in cells:
            return self.look_up_names(self._strings, cells["nameId"], "string")
        if "demangledName" in cells:
            return self._kernel_names(cells)
        if "text" in cells:
            names = self._names.numbers(cells["text"].tolist())
            return self._last_names(np.where(names >= 0, names, self._strings[cells["textId"]]), cells)
        if "textId" in cells:
            return self.look_up_names(self._strings, cells["textId"], "string")
        if "graphId" in cells:
            different, number = np.unique(or_absent(cells["graphId"]), return_inverse=True)
            texts = ["graph" if graph == ABSENT else f"graph {graph}" for graph in different.tolist()]
            return self._names.numbers(texts)[number]
        if "copyKind" in cells:
            return self._decode_enum(cells["copyKind"], COPY_KINDS, "copy ", "ENUM_CUDA_MEMCPY_OPER")
        if "syncType" in cells:
            return self._sync_names(cells["syncType"])
        if "memoryOperationType" in cells:
            return self._decode_enum(cells["memoryOperationType"], {0: "ALLOC", 1: "FREE"}, "")
        return np.full(len(cells["rowid"]), self._names("memset"), np.int32)

    def _kernel_names(self, cells: Cells) -> Ids:
        """Return the demangled names, by which nsys groups, unless short ones are asked for; where there is none, the
        other."""
        short = self._strings[cells["shortName"]]
        if self.kernel_names == "short":
            return np.where(short >= 0, short, self.look_up_names(self._strings, cells["demangledName"], "string"))
        demangled = self._strings[cells["demangledName"]]
        return np.where(demangled >= 0, demangled, self.look_up_names(self._strings, cells["shortName"], "string"))

    def _label(self, table: EventTable, cells: Cells) -> Ids:
        """Return the name; for calls, without the version of the interface."""
        names = self._name(table, cells)
        if table.name != f"{CUPTI}RUNTIME":
            return names
        different, number = np.unique(names, return_inverse=True)
        texts = [None if name < 0 else strip_version(self._names.all[name]) for name in different.tolist()]
        return self._names.numbers(texts)[number.reshape(-1)]

    def _sync_names(self, values: Ints) -> Ids:
        """Return what was waited for. Exports that list the types use CUPTI's numbers, and say so; older ones do
        not."""
        rows = self._file.table(SYNC_TYPES, {"id": INTEGER, "label": TEXT})
        told = dict(zip(rows["id"].tolist(), rows["label"].tolist(), strict=True))
        usual = (
            SYNC_KINDS if told or self._file.has(f"{CUPTI}SYNCHRONIZATION", "deprecatedSyncType") else OLD_SYNC_KINDS
        )
        different, number = np.unique(values, return_inverse=True)
        words = [sync_word(told.get(value)) or usual.get(value, "Unknown") for value in different.tolist()]
        return self._names.numbers([f"sync {word}" for word in words])[number.reshape(-1)]

    def _last_names(self, names: Ids, cells: Cells) -> Ids:
        """Return the last name of each path: the texts of Extra-Prof's ranges are whole call paths."""
        is_extra_prof = (self._domains.at(cells["globalTid"], cells["domainId"]) == self._names(EXTRA_PROF)) & (
            names >= 0
        )
        if not is_extra_prof.any():
            return names
        different, number = np.unique(names[is_extra_prof], return_inverse=True)
        paths = [decode_path(self._names.all[name], self._symbols) for name in different.tolist()]
        out = names.copy()
        out[is_extra_prof] = self._names.numbers([path.rpartition(ARROW)[2] for path in paths])[number]
        return out

    @cached_property
    def _symbols(self) -> dict[str, str]:
        rows = self._file.table("StringIds", {"id": INTEGER, "value": TEXT})
        return symbols(
            {k: text for k, text in zip(rows["id"].tolist(), rows["value"], strict=True) if text is not None}
        )

    def _decode_enum(self, values: Ints, words: Mapping[int, str], prefix: str, table: str = "") -> Ids:
        """Replace numbers by words: our own for known numbers, so that all generations agree, else the export's."""
        rows = self._file.table(table, {"id": INTEGER, "label": TEXT})
        told = dict(zip(rows["id"].tolist(), rows["label"].tolist(), strict=True))
        different, number = np.unique(values, return_inverse=True)
        texts = [prefix + (words.get(value) or told.get(value) or "Unknown") for value in different.tolist()]
        return self._names.numbers(texts)[number]

    def _correlation(self, cells: Cells) -> Ints:
        if "correlationId" not in cells:
            return np.full(len(cells["rowid"]), ABSENT, np.int64)
        return or_absent(cells["correlationId"])

    def _lane(self, table: EventTable, cells: Cells) -> Ids:
        if table.needs["lane"] == STREAM["lane"]:
            keys = np.stack([cells[name] for name in STREAM["lane"]])
            different, number = np.unique(keys, axis=1, return_inverse=True)
            lanes = [self._stream_lane[p, d, s] for p, d, s in different.T.tolist()]
            return np.array(lanes, np.int32)[number.reshape(-1)]
        if "eventType" in cells:
            apart = np.isin(cells["eventType"], START_END)
            return np.where(
                apart, self._threads(cells["globalTid"], self._ranges_lane), self._threads(cells["globalTid"])
            )
        if "globalTid" in cells:
            return self._threads(cells["globalTid"])
        return self._caller(cells)

    def _threads(self, tids: Ints, lanes: Mapping[int, int] | None = None) -> Ids:
        known = self._thread_lane if lanes is None else lanes
        different, number = np.unique(tids, return_inverse=True)
        thread_lanes = [known.get(tid, self._unknown_lane[self._owner(tid)]) for tid in different.tolist()]
        return np.array(thread_lanes, np.int32)[number]

    def _caller(self, cells: Cells) -> Ids:
        """Return the thread whose call has the correlation; where there is none, the unknown thread of the process."""
        if "correlationId" not in cells:
            return self._nobody(cells["globalPid"])
        process, calls = cells["globalPid"] >> TID_BITS, self._calls
        place = calls.find(process, cells["correlationId"])
        thread = np.append(calls.thread, MISSING)[place]
        return np.where(place >= 0, self._threads(thread), self._nobody(cells["globalPid"])).astype(np.int32)

    def _nobody(self, pids: Ints) -> Ids:
        different, number = np.unique(pids, return_inverse=True)
        lanes = [self._unknown_lane[self._process.get(pid, 0)] for pid in different.tolist()]
        return np.array(lanes, np.int32)[number]

    @cached_property
    def _calls(self) -> CallsByCorrelation:
        columns = {"globalTid": INTEGER, "correlationId": INTEGER}
        rows = self._file.table(f"{CUPTI}RUNTIME", columns)
        return CallsByCorrelation(rows["globalTid"], rows["correlationId"])

    # -- call stacks --------------------------------------------------------------------------------------------------

    def _stacks_of_calls(self) -> SideTable | None:
        """Return the callers of calls; of a call with two rows, the other one has the chain."""
        parts = [part for part in (self._callers("CUDA"), self._callers("OSRT")) if part is not None]
        if not parts:
            return None
        frames = tuple(stack for _, stacks in parts for stack in stacks)
        return SideTable(np.concatenate([span for span, _ in parts]), {"frames": frames})

    def _callers(self, kind: str) -> tuple[Ints, tuple[Frames, ...]] | None:
        table = f"{CUPTI}RUNTIME" if kind == "CUDA" else "OSRT_API"
        if not self._file.has(table, "callchainId") or f"{kind}_CALLCHAINS" not in self._file.tables:
            return None
        columns = ("nameId", "callchainId", "eventClass", "globalTid", "correlationId")
        rows = self._file.table(table, dict.fromkeys(columns, INTEGER))
        given, is_call = rows["callchainId"].copy(), rows["eventClass"] != CHAIN_CLASS
        if kind == "CUDA":
            other = np.flatnonzero(~is_call & (given != MISSING))
            alone = np.flatnonzero(is_call & (given == MISSING))
            second = CallsByCorrelation(rows["globalTid"][other], rows["correlationId"][other])
            caller = second.find(rows["globalTid"][alone] >> TID_BITS, rows["correlationId"][alone])
            given[alone] = np.append(given[other], MISSING)[caller]
        names = self._strings[rows["nameId"][is_call]]
        span, frames = CallChains(self._file, f"{kind}_CALLCHAINS").above(given[is_call], names, self._names.all)
        return span + self.first(table), frames

    def stacks(self) -> Stacks | None:
        """Return samples of what threads executed; where no frame has a name, one unknown frame stands for all."""
        if not self._file.has("SAMPLING_CALLCHAINS", "id") or not self._file.has("COMPOSITE_EVENTS", "id", "start"):
            return None
        with self._file.reading():
            chains = CallChains(self._file, "SAMPLING_CALLCHAINS")
            rows = self._file.table("COMPOSITE_EVENTS", dict.fromkeys(("id", "start", "globalTid"), INTEGER))
            known = np.flatnonzero(np.isin(rows["id"], chains.every) & (rows["start"] != MISSING))
            function, bounds = chains.symbols_of(rows["id"][known])
            function = np.where(function == MISSING, ABSENT, self.look_up_names(self._strings, function, "string"))
            lane = self._threads(rows["globalTid"][known])
        absent = np.full(len(function), ABSENT)
        return Stacks(lane, rows["start"][known], bounds, function.astype(np.int32), absent.astype(np.int32), absent)

    # -- what only some events have ------------------------------------------------------------------------------------

    def find_known_columns(self, table: EventTable) -> Collection[str]:
        return KNOWN

    def side(self, name: str) -> SideTable | None:
        if name == "extra":
            return self.extra()
        with self._file.reading():
            if name == "kernel":
                return self._kernels()
            if name == "copy":
                return self._copies()
            if name == "stack":
                return self._stacks_of_calls()
            if name == "alloc":
                columns = {"bytes": "bytes", "address": "address", "device": "deviceId"}
                return self._with_devices(self.side_of("CUDA_GPU_MEMORY_USAGE_EVENTS", columns), "device")
        return None

    def _kernels(self) -> SideTable | None:
        table = self.side_of(f"{CUPTI}KERNEL", KERNEL_COLUMNS)
        if table is None:
            return None
        columns = {name: np.asarray(cells) for name, cells in table.columns.items()}
        texts = np.array([*self._names.all, None], object)
        for name in ("short_name", "demangled_name"):
            columns[name] = texts[self._strings[columns[name]]]
        for axis in "xyz":  # from blocks to work-items, as everywhere
            blocks, items = columns.pop(f"blocks_{axis}"), columns[f"workgroup_{axis}"]
            columns[f"grid_{axis}"] = np.where((blocks < 0) | (items < 0), ABSENT, blocks * items)
        shared = columns.pop("static_shared"), columns.pop("dynamic_shared")
        columns["lds"] = np.maximum(shared[0], 0) + np.maximum(shared[1], 0)
        return SideTable(table.span, columns)

    def _with_devices(self, table: SideTable | None, *names: str) -> SideTable | None:
        """Replace CUDA's numbers in some columns by the numbers of devices."""
        if table is None:
            return None
        devices = {name: self.gpus_called(np.asarray(table.columns[name])) for name in names}
        return SideTable(table.span, {**table.columns, **devices})

    def _copies(self) -> SideTable | None:
        copies = self._with_devices(self.side_of(f"{CUPTI}MEMCPY", COPY_COLUMNS), "source", "destination")
        sets = self.side_of(f"{CUPTI}MEMSET", {"bytes": "bytes"})
        tables = [table for table in (copies, sets) if table is not None]
        if not tables:
            return None
        absent = {k: np.full(len(t.span), ABSENT, np.int64) for k, t in enumerate(tables)}
        return SideTable(
            np.concatenate([table.span for table in tables]),
            {
                name: np.concatenate([np.asarray(t.columns.get(name, absent[k])) for k, t in enumerate(tables)])
                for name in COPY_COLUMNS
            },
        )
