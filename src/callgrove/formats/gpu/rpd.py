"""RPD databases (rocmProfileData): `rocpd_api` and `rocpd_op`, linked by `rocpd_api_ops`.

Specification: gpu-traces.md section 4.

    rocpd_api        calls of threads; `UserMarker` rows are ranges whose name is the text of their arguments
    rocpd_op         what ran on queues of GPUs: kernels, copies, fills, barriers
    rocpd_api_ops    op -> api; an api may have hundreds of ops
    rocpd_kernelapi, rocpd_copyapi     grid and sizes, by api
    rocpd_monitor    quantities over time, each valid from start to end
    rocpd_counter, rocpd_stackframe    since schema 3: counters of operations; who called an api, depth 0 the innermost

Since schema 3 an api also names its domain: `hip` and `cuda` are calls, `roctx` and `nvtx` have UserMarker rows as
before, `rpd_tracer` is the profiler itself, and any other one (`torch`, `miopen`) is what a library says of itself.
Types of operations depend on what recorded them: CopyHostToDevice (roctracer), MEMORY_COPY_HOST_TO_DEVICE
(rocprofiler-sdk), Memcpy (CUPTI, the HIP runtime; fills are Memcpy with the description Fill). Kernels are
KernelExecution, Task (roctracer, of HIP graphs), Kernel and ConcurrentKernel (CUPTI). Barriers and markers wait on a
queue and keep no device busy. An operation of any other type ran on a device, so it counts as a kernel, and a note
names the type.

The correlation of both is the id of the api. Ids of later sessions begin at multiples of 2^32. Grids are in blocks.

Files that were merged of several number GPUs and processes through: metadata gives `gpu_stride` and `pid_stride`, and
what is stored is the number of the file times the stride, plus the number that it was.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from functools import cached_property
from itertools import accumulate, pairwise

import numpy as np

from callgrove.arrays import ABSENT, Array, Bools, Ids, Ints
from callgrove.binary.sqlite.cells import MISSING, Cells, Lookup, Type
from callgrove.binary.sqlite.database import SqliteFile
from callgrove.errors import count_of
from callgrove.formats.events.dataset import OVERHEAD, CounterRows, LaneList, Process, Recorded
from callgrove.formats.gpu.event_tables import EventTable, TableData, or_absent
from callgrove.model.experiment import Severity
from callgrove.model.profiles import ProfileKind
from callgrove.model.traces.events import Device, SideTable, SpanKind

__all__ = ["RpdData", "datasets"]

INTEGER, TEXT = Type.INTEGER, Type.TEXT
API = EventTable(
    "rocpd_api",
    SpanKind.API,
    {
        "start_ns": ("start",),
        "end_ns": ("end",),
        "kind": ("apiName_id", "domain_id"),
        "category": ("apiName_id", "domain_id", "category_id"),
        "name": ("apiName_id", "args_id"),
        "label": ("apiName_id", "args_id"),
        "lane": ("pid", "tid"),
        "correlation": ("id",),
    },
)
OP = EventTable(
    "rocpd_op",
    SpanKind.KERNEL,
    {
        "start_ns": ("start",),
        "end_ns": ("end",),
        "kind": ("opType_id", "description_id"),
        "category": ("opType_id",),
        "name": ("opType_id", "description_id"),
        "label": ("opType_id", "description_id"),
        "lane": ("id", "gpuId", "queueId"),
        "correlation": ("id",),
    },
)
SESSION_BITS = 32  # the bits of an id beyond these count the sessions that wrote into a file
NEVER = 2**63 - 1
KERNEL_TYPES = ("KernelExecution", "Task", "Kernel", "ConcurrentKernel", "hcCommandKernel")
KIND_OF_BEGINNING = {  # how the types of all other operations begin
    **dict.fromkeys(("Copy", "Memcpy", "MEMORY_COPY"), SpanKind.COPY),
    **dict.fromkeys(("Fill", "Memset"), SpanKind.MEMSET),
    **dict.fromkeys(("Barrier", "Marker"), SpanKind.SYNC),
}
FILL = "Fill"
CALLS = ("", "hip", "cuda", "hsa")  # domains whose rows are calls of an API
OF_PROFILER = "rpd_tracer"  # the domain of the profiler itself
SHARED_SIZES = (
    "rocpd_copyapi: {} copies were made by several operations each, and only the bytes of all of these are known: "
    "they are divided by the times that the operations took"
)
FRAME = re.compile(r"(?:in )?(?P<function>.+) at .*")
KNOWN = ("sequenceId", "completionSignal")  # of operations; nothing is made of them
USER_MARKER = "UserMarker"
CALLS_OF_PROFILER = (
    *("hcc_activity_callback", "RocprofDataSource::buffer_callback", "rpdflush", "BLOCKING"),
    *(f"{table}Table::writeRows" for table in ("Api", "CopyApi", "KernelApi", "Monitor", "Op", "StackFrame")),
    *("StringTable::writeRows", "UStringTable::writeRows"),
)
READ = {
    *("rocpd_metadata", "rocpd_string", "rocpd_ustring", "rocpd_api", "rocpd_op", "rocpd_api_ops", "rocpd_kernelapi"),
    *("rocpd_copyapi", "rocpd_monitor", "rocpd_counter", "rocpd_stackframe"),
}
UNREAD = {
    "ext_callstack": "which call contains which, computed from the times of calls",
    "ext_autogradapi": "what PyTorch says about its operators",
    "rocpd_kernelcodeobject": "code objects of kernels",
    "rocpd_barrierop": "what barriers waited for",
    "rocpd_op_inputSignals": "what operations waited for",
}
KERNEL_COLUMNS = {
    **{f"workgroup_{axis.lower()}": f"workgroup{axis}" for axis in "XYZ"},
    "lds": "groupSegmentSize",
    "scratch": "privateSegmentSize",
}


def datasets(file: SqliteFile) -> list[RpdData]:
    """Return the one data set of a file, however many processes it holds."""
    return [RpdData(file)]


class RpdData(TableData):
    """A data set of RPD: all tables of a file."""

    def list_event_tables(self) -> Sequence[EventTable]:
        return API, OP

    def __init__(self, file: SqliteFile) -> None:
        super().__init__(file)
        with file.reading():
            tags = file.table("rocpd_metadata", {"tag": TEXT, "value": TEXT})
            metadata = dict(zip(tags["tag"].tolist(), tags["value"].tolist(), strict=True))
            self.version = str(metadata.get("schema_version") or "2")
            self.require("rocpd_string", "id", "string")
            self._gpu_stride, self._pid_stride = (_stride(metadata.get(f"{word}_stride")) for word in ("gpu", "pid"))
            self._read_places()
            self.name_unread((name for name in file.tables if name not in READ), UNREAD)

    def _read_places(self) -> None:
        """Read processes, devices and lanes, from all that calls and operations name."""
        threads = self._pairs("rocpd_api", "pid", "tid")
        pids = sorted({pid for pid, _ in threads}) or [0]
        self.processes = self._read_processes(pids)
        process_of = {pid: k for k, pid in enumerate(pids)}
        lanes = LaneList()
        self._threads = {
            (pid, tid): lanes.add(process_of[pid], ProfileKind.THREAD, tid, "" if tid >= 0 else "unknown thread")
            for pid, tid in sorted(threads)
        }
        self._process_of_pid = process_of
        self.devices = []
        self._queues: dict[tuple[int, int, int], int] = {}
        self._devices: dict[tuple[int, int], int] = {}
        for process, gpu, queue in sorted(self._queues_used()):
            device = self._device(process, gpu)
            self._queues[process, gpu, queue] = lanes.add(
                process, ProfileKind.QUEUE, max(queue, 0), f"queue {queue}" if queue >= 0 else "", device
            )
        self._monitored = {gpu: self._lane_of_monitor(lanes, gpu) for gpu in self._gpus_with_monitor()}
        self.lanes = lanes.all

    def _read_processes(self, pids: Sequence[int]) -> list[Process]:
        """Read the processes, each with its session and the time from its first call to the end of its last."""
        first = dict.fromkeys(pids, (MISSING, NEVER, -NEVER))  # the session, start and end
        for cells in self._file.chunks("rocpd_api", dict.fromkeys(("id", "pid", "start", "end"), INTEGER)):
            timed = (cells["start"] >= 0) & (cells["end"] >= cells["start"])
            for pid in np.unique(cells["pid"][timed]).tolist():
                rows = timed & (cells["pid"] == pid)
                session, start, end = first[pid]
                session = int(cells["id"][rows][0]) >> SESSION_BITS if session == MISSING else session
                starts, ends = cells["start"][rows], cells["end"][rows]
                first[pid] = session, min(start, int(starts.min())), max(end, int(ends.max()))
        return [self._process(pid, *told) for pid, told in first.items()]

    def _process(self, pid: int, session: int, start_ns: int, end_ns: int) -> Process:
        recorded = Recorded("", start_ns, end_ns) if start_ns <= end_ns else None
        uid, number = f"{self.path}:{pid:012}", _within(max(pid, 0), self._pid_stride)
        session = 0 if self._pid_stride else max(session, 0)  # what was merged of several files is one run
        return Process(uid, number, session=f"{self.path}:{session}", recorded=recorded)

    def _lane_of_monitor(self, lanes: LaneList, gpu: int) -> int:
        process, number = int(self._process_by_gpu(np.array([gpu]))[0]), _within(gpu, self._gpu_stride)
        return lanes.add(process, ProfileKind.GPU, number, f"GPU {number}", self._device(process, gpu))

    def _device(self, process: int, gpu: int) -> int:
        if (process, gpu) not in self._devices:
            self._devices[process, gpu] = len(self.devices)
            self.devices = [*self.devices, Device(process, "GPU", max(_within(gpu, self._gpu_stride), 0))]
        return self._devices[process, gpu]

    def _pairs(self, table: str, *columns: str) -> set[tuple[int, ...]]:
        pairs: set[tuple[int, ...]] = set()
        for cells in self._file.chunks(table, dict.fromkeys(columns, INTEGER)):
            pairs |= set(zip(*(cells[name].tolist() for name in columns), strict=True))
        return pairs

    def _queues_used(self) -> set[tuple[int, int, int]]:
        queues: set[tuple[int, int, int]] = set()
        types: Counter[int] = Counter()
        for cells in self._file.chunks("rocpd_op", dict.fromkeys(("id", "gpuId", "queueId", "opType_id"), INTEGER)):
            queues |= set(zip(*(column.tolist() for column in self._where(cells)), strict=True))
            ids, counts = np.unique(cells["opType_id"], return_counts=True)
            types.update(dict(zip(ids.tolist(), counts.tolist(), strict=True)))
        self._name_unknown_types(types)
        return queues

    def _name_unknown_types(self, types: Counter[int]) -> None:
        """Add a note about operations whose type is not known."""
        unknown: Counter[str] = Counter()
        for type_id, n in types.items():
            word = self._text(int(self._texts[np.array([type_id])][0]))
            if _kind_of_type(word) is None:
                unknown[repr(word) if word else "no type"] += n
        if unknown:
            ordered = sorted(unknown.items(), key=lambda item: (-item[1], item[0]))
            listed = ", ".join(f"{word} ({n:,})" for word, n in ordered)
            self.warn(Severity.NOTE, f"rocpd_op: operations of unknown types count as kernels: {listed}")

    def _where(self, cells: Cells) -> tuple[Ints, Ints, Ints]:
        """Return process, GPU and queue of operations; one without a call belongs to the process that its GPU tells."""
        process = self._process_of_api[self._api_of_op[cells["id"]].astype(np.int64)]
        told = self._process_by_gpu(cells["gpuId"])
        return np.where(process >= 0, process, told).astype(np.int64), cells["gpuId"], cells["queueId"]

    def _process_by_gpu(self, gpus: Ints) -> Ints:
        """Return the first process of the file that a GPU was merged from; the first of all where that is not known."""
        if not self._gpu_stride:
            return np.zeros(len(gpus), np.int64)
        pids = list(self._process_of_pid)
        files = [max(pid, 0) // self._pid_stride for pid in pids] if self._pid_stride else list(range(len(pids)))
        first = Lookup(np.array(files, np.int64), np.arange(len(files)))
        return np.maximum(first[np.maximum(gpus, 0) // self._gpu_stride], 0).astype(np.int64)

    @cached_property
    def _api_of_op(self) -> _Wide:
        rows = self._file.table("rocpd_api_ops", {"op_id": INTEGER, "api_id": INTEGER})
        return _Wide(rows["op_id"], rows["api_id"])

    @cached_property
    def _process_of_api(self) -> Lookup:
        if len(self.processes) == 1:
            return Lookup(np.empty(0, np.int64), np.empty(0, np.int64))
        rows = self._file.table("rocpd_api", {"id": INTEGER, "pid": INTEGER})
        return Lookup(rows["id"], np.array([self._process_of_pid[pid] for pid in rows["pid"].tolist()], np.int64))

    @cached_property
    def _texts(self) -> Lookup:
        rows = self._file.table("rocpd_string", {"id": INTEGER, "string": TEXT})
        return Lookup(rows["id"], self._names.numbers(rows["string"].tolist()))

    @cached_property
    def _argument_texts(self) -> Lookup:
        """Return the texts of arguments, which schema 3 keeps in a table of their own."""
        if not self._file.has("rocpd_ustring", "id", "string"):
            return self._texts
        rows = self._file.table("rocpd_ustring", {"id": INTEGER, "string": TEXT})
        return Lookup(rows["id"], self._names.numbers(rows["string"].tolist()))

    def _text(self, number: int) -> str:
        return self._names.all[number] if number >= 0 else ""

    # -- events ------------------------------------------------------------------------------------------------------

    def make_column(self, table: EventTable, column: str, cells: Cells) -> Array:
        make_for_table = self._api if table == API else self._op
        make: dict[str, Callable[[], Array]] = {
            "start_ns": lambda: cells["start"],
            "end_ns": lambda: cells["end"],
            "parent_correlation": lambda: np.full(len(cells["rowid"]), ABSENT, np.int64),
        }
        return make[column]() if column in make else make_for_table(column, cells)

    def _api(self, column: str, cells: Cells) -> Array:
        if column == "correlation":
            return or_absent(cells["id"])
        if column == "lane":
            return _by_pair(self._threads, cells["pid"], cells["tid"])
        names = self.look_up_names(self._texts, cells["apiName_id"], "string", "rocpd_api.apiName_id")
        marker = self._is(names, (USER_MARKER,))
        if column == "kind":
            domains = self._texts[cells["domain_id"]]
            is_call = (domains < 0) | self._is(domains, CALLS)
            kinds = np.where(marker | ~is_call, SpanKind.MARKER, SpanKind.API)
            return np.where(self._is_overhead(names, domains), SpanKind.OVERHEAD, kinds).astype(np.int32)
        if column == "category":
            categories = np.where(marker, self._names("MARKER"), self._categories(cells))
            overhead = self._is_overhead(names, self._texts[cells["domain_id"]])
            return np.where(overhead, self._names(OVERHEAD), categories).astype(np.int32)
        return np.where(marker, self._argument_texts[cells["args_id"]], names).astype(np.int32)

    def _is_overhead(self, names: Ids, domains: Ids) -> Bools:
        return self._is(names, CALLS_OF_PROFILER) | self._is(domains, (OF_PROFILER,))

    def _categories(self, cells: Cells) -> Ids:
        """Return categories: `HIP` for calls, `torch/function` for a library with its own domain and categories."""
        keys = np.stack([self._texts[cells["domain_id"]], self._texts[cells["category_id"]]])
        different, number = np.unique(keys, axis=1, return_inverse=True)
        texts = []
        for domain, category in different.T.tolist():
            domain_name, category_name = self._text(domain), self._text(category)
            texts.append(
                (domain_name or "hip").upper()
                if domain_name in CALLS
                else f"{domain_name}/{category_name}"
                if category_name
                else domain_name
            )
        return self._names.numbers(texts)[number.reshape(-1)]

    def _op(self, column: str, cells: Cells) -> Array:
        if column == "correlation":
            return self._api_of_op[cells["id"]]
        if column == "lane":
            keys = np.stack(self._where(cells))
            different, number = np.unique(keys, axis=1, return_inverse=True)
            lanes = np.array([self._queues[tuple(key)] for key in different.T.tolist()], np.int32)
            return lanes[number.reshape(-1)]
        types = self.look_up_names(self._texts, cells["opType_id"], "string", "rocpd_op.opType_id")
        if column == "category":
            return types
        names = self._texts[cells["description_id"]]
        if column == "kind":
            kinds = self._op_kinds(types)
            return np.where((kinds == SpanKind.COPY) & self._is(names, (FILL,)), SpanKind.MEMSET, kinds).astype(
                np.int32
            )
        return np.where(self._is(names, ("",)) | (names < 0), types, names).astype(np.int32)

    def _op_kinds(self, types: Ids) -> Ids:
        different, number = np.unique(types, return_inverse=True)
        known_kinds = [_kind_of_type(self._text(text)) for text in different.tolist()]
        kinds = [SpanKind.KERNEL if kind is None else kind for kind in known_kinds]
        return np.array(kinds, np.int32)[number]

    def _is(self, names: Ids, words: Sequence[str]) -> Array:
        return np.isin(names, [self._names(word) for word in words])

    # -- what only some events have ------------------------------------------------------------------------------------

    def find_known_columns(self, table: EventTable) -> Collection[str]:
        return {*super().find_known_columns(table), *KNOWN}

    def side(self, name: str) -> SideTable | None:
        if name == "extra":
            return self.extra()
        read = {"kernel": self._kernels, "copy": self._copies, "counter": self._counter_values, "stack": self._stacks}
        if name not in read or (API if name == "stack" else OP).name not in self.counts:
            return None
        with self._file.reading():
            return read[name]()

    def _ops_of(self, api_ids: Ints) -> tuple[Ints, Ints]:
        """Return the spans of operations whose call is among `api_ids`, and the position of that call."""
        ops = self._file.table("rocpd_op", {"id": INTEGER})["id"]
        row = Lookup(api_ids, np.arange(len(api_ids)))[self._api_of_op[ops]]
        return np.flatnonzero(row >= 0) + self.first(OP.name), row[row >= 0].astype(np.int64)

    def _kernels(self) -> SideTable | None:
        grid = {f"grid{axis}": INTEGER for axis in "XYZ"}
        raw = {"api_ptr_id": INTEGER, **grid, **dict.fromkeys(KERNEL_COLUMNS.values(), INTEGER)}
        rows = self._file.table("rocpd_kernelapi", raw)
        span, row = self._ops_of(rows["api_ptr_id"])
        if not len(span):
            return None
        columns = {new: or_absent(rows[old])[row] for new, old in KERNEL_COLUMNS.items()}
        for axis in "XYZ":  # from blocks to work-items, as everywhere
            blocks, items = or_absent(rows[f"grid{axis}"])[row], columns[f"workgroup_{axis.lower()}"]
            columns[f"grid_{axis.lower()}"] = np.where((blocks < 0) | (items < 0), ABSENT, blocks * items)
        return SideTable(span, columns)

    def _copies(self) -> SideTable | None:
        raw = dict.fromkeys(("api_ptr_id", "size", "srcDevice", "dstDevice"), INTEGER)
        rows = self._file.table("rocpd_copyapi", raw)
        span, row = self._ops_of(rows["api_ptr_id"])
        if not len(span):
            return None
        sizes, is_copy = self._sizes_of_copies(or_absent(rows["size"]), span, row)
        return SideTable(
            span[is_copy],
            {
                "bytes": sizes[is_copy],
                "source": self.gpus_called(rows["srcDevice"])[row[is_copy]],
                "destination": self.gpus_called(rows["dstDevice"])[row[is_copy]],
            },
        )

    def _sizes_of_copies(self, sizes: Ints, span: Ints, row: Ints) -> tuple[Ints, Bools]:
        """Return the bytes of every operation that a copying call launched, and whether it copies. A size is that of
        the call: where several operations did it, each gets a share by the time it took, so that nothing counts
        twice."""
        out, is_copy = sizes[row], np.ones(len(row), np.bool_)
        if np.bincount(row).max() < 2:
            return out, is_copy
        every = self._file.table(OP.name, dict.fromkeys(("start", "end", "opType_id"), INTEGER))
        cells = {name: column[span - self.first(OP.name)] for name, column in every.items()}
        copies = np.isin(self._op_kinds(self._texts[cells["opType_id"]]), (SpanKind.COPY, SpanKind.MEMSET))
        is_copy = copies | (np.bincount(row, copies)[row] == 0)
        length = np.maximum(cells["end"] - cells["start"], 0)
        order = np.flatnonzero(is_copy)[np.argsort(row[is_copy], kind="stable")]
        bounds = np.flatnonzero(np.diff(row[order])) + 1
        shared = [group for group in np.split(order, bounds) if len(group) > 1]
        for group in shared:
            out[group] = _shares(int(out[group[0]]), length[group].tolist())
        if shared:
            self._counted[Severity.NOTE, SHARED_SIZES] = {0: len(shared)}
        return out, is_copy

    def _counter_values(self) -> SideTable | None:
        """Return the counters of operations, one row per value."""
        rows = self._file.table("rocpd_counter", {"op_id": INTEGER, "name_id": INTEGER, "value": Type.REAL})
        if not len(rows["op_id"]):
            return None
        ops = self._file.table(OP.name, {"id": INTEGER})["id"]
        span = Lookup(ops, np.arange(len(ops)))[rows["op_id"]].astype(np.int64)
        known = span >= 0
        texts = self.look_up_names(self._texts, rows["name_id"][known], "string")
        names = np.array([self._text(text) for text in texts.tolist()], object)
        columns = {"name": names, "value": rows["value"][known], "value_type": np.full(len(names), "", object)}
        return SideTable(span[known] + self.first(OP.name), columns)

    def _stacks(self) -> SideTable | None:
        """Return the callers of calls, the outermost first, without frames that have no name."""
        rows = self._file.table("rocpd_stackframe", dict.fromkeys(("api_ptr_id", "depth", "name_id"), INTEGER))
        apis = self._file.table(API.name, {"id": INTEGER})["id"]
        span = Lookup(apis, np.arange(len(apis)))[rows["api_ptr_id"]].astype(np.int64)
        texts = self._texts[rows["name_id"]]
        different, number = np.unique(texts, return_inverse=True)
        functions = np.array([_function(self._text(text)) for text in different.tolist()], object)
        order = np.lexsort((-rows["depth"], span))
        order = order[(span[order] >= 0) & (functions[number[order]] != "")]
        if not len(order):
            return None
        spans, first = np.unique(span[order], return_index=True)
        frames = tuple(map(tuple, np.split(functions[number[order]], first[1:])))
        return SideTable(spans + self.first(API.name), {"frames": frames})

    # -- quantities over time ------------------------------------------------------------------------------------------

    def _gpus_with_monitor(self) -> list[int]:
        return sorted(max(gpu, 0) for (gpu,) in self._pairs("rocpd_monitor", "deviceId"))

    def counters(self) -> CounterRows | None:
        columns = {"deviceType": TEXT, "deviceId": INTEGER, "monitorType": TEXT, "start": INTEGER, "value": Type.REAL}
        with self._file.reading():
            rows = self._file.table("rocpd_monitor", columns)
        known = ~np.isnan(rows["value"]) & (rows["start"] != MISSING)
        if skipped := int((~known).sum()):
            said = count_of(skipped, "value is not a number", "values are not numbers")
            self.warn(Severity.NOTE, f"rocpd_monitor: {said}, and left out")
        if not known.any():
            return None
        names = np.array(
            [f"{d or ''} {m or ''}".strip() for d, m in zip(rows["deviceType"], rows["monitorType"], strict=True)]
        )
        texts, number = np.unique(names[known], return_inverse=True)
        lane = np.array([self._monitored[max(gpu, 0)] for gpu in rows["deviceId"][known].tolist()], np.int32)
        return CounterRows(
            lane, number.astype(np.int32), rows["start"][known], rows["value"][known], tuple(texts.tolist())
        )


class _Wide:
    """A mapping from ids to 64-bit ids; -1 for ids that have none."""

    def __init__(self, ids: Ints, values: Ints) -> None:
        self._place, self._values = Lookup(ids, np.arange(len(ids))), np.append(values, ABSENT)

    def __getitem__(self, ids: Ints) -> Ints:
        return self._values[self._place[ids]]


def _kind_of_type(word: str) -> SpanKind | None:
    """Return what an operation of a type is; None where nobody knows."""
    if word in KERNEL_TYPES:
        return SpanKind.KERNEL
    return next((kind for start, kind in KIND_OF_BEGINNING.items() if word.startswith(start)), None)


def _shares(size: int, lengths: Sequence[int]) -> list[int]:
    """Divide a size by lengths into whole numbers that add up to it; -1, which is unknown, stays that."""
    weights = lengths if any(lengths) else [1] * len(lengths)
    ends = [size * reached // sum(weights) for reached in accumulate(weights)]
    return [ABSENT] * len(lengths) if size < 0 else [end - start for start, end in pairwise((0, *ends))]


def _function(frame: str) -> str:
    """Return the function of a frame like `in f(int) at file.cpp:3:1`; empty for a frame that is an address."""
    match = FRAME.fullmatch(frame)
    name = match["function"] if match else frame
    return "" if name.startswith("0x") else name


def _by_pair(numbers: dict[tuple[int, int], int], left: Ints, right: Ints) -> Ids:
    different, number = np.unique(np.stack([left, right]), axis=1, return_inverse=True)
    return np.array([numbers[left, right] for left, right in different.T.tolist()], np.int32)[number.reshape(-1)]


def _within(number: int, stride: int) -> int:
    """Return the number that a number was before files were merged."""
    return number % stride if stride else number


def _stride(text: str | None) -> int:
    return int(text) if text is not None and text.isdigit() else 0
