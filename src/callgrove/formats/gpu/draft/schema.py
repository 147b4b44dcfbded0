"""The draft schema: its tables as we write them, its event columns, and the JSON in `additional_info`.

Specification: gpu-traces.md 2.2. `additional_info` at the end of `hardware_counters` and `gpu_kernel_launches`, and the
table `metadata`, are ours: readers do without them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import numpy as np

from callgrove.arrays import ABSENT, Array, Bools, Ints
from callgrove.binary.sqlite.cells import json_object
from callgrove.formats.events.dataset import OVERHEAD
from callgrove.formats.gpu.event_tables import EventTable
from callgrove.model.traces.events import SpanKind

__all__ = [
    "COUNTERS",
    "INFO",
    "KERNELS",
    "KIND_OF_CATEGORY",
    "MEMORY",
    "NAME_TABLES",
    "REGIONS",
    "SCHEMA",
    "SIDE_DEVICES",
    "SIDE_TEXTS",
    "STACKS",
    "TABLES",
    "VERSION",
    "Infos",
    "insert",
    "others_info",
    "parse_list",
    "whole_number",
]


VERSION = "callgrove-draft-1"

# table -> columns with what is more than INTEGER; `>t` is a reference to the id of t
SCHEMA: dict[str, tuple[str, ...]] = {
    "metadata": ("tag TEXT PRIMARY KEY", "value TEXT"),
    "strings": ("id PRIMARY KEY", "value TEXT UNIQUE"),
    "process": (
        *("id PRIMARY KEY", "pid", "process_name_id >strings", "executable_path_id >strings"),
        *("start_time", "end_time"),
    ),
    "thread": (
        *("id PRIMARY KEY", "tid", "process_id >process", "thread_name_id >strings"),
        *("start_time", "end_time"),
    ),
    "cpu_info": ("id PRIMARY KEY", "core_id", "socket_id", "frequency_hz", "model_id >strings", "cache_size_kb"),
    "gpu_info": (
        *("id PRIMARY KEY", "device_name_id >strings", "compute_capability_id >strings", "memory_size_mb"),
        *("multiprocessor_count", "clock_rate_hz"),
    ),
    "instrumentation_regions": (
        *("id PRIMARY KEY", "process_id >process", "thread_id >thread", "region_name_id >strings"),
        *("start_time", "end_time", "parent_region_id >instrumentation_regions"),
        "duration_ns GENERATED ALWAYS AS (end_time - start_time) STORED",
        *("file_id >strings", "line_number", "additional_info TEXT"),
    ),
    "call_stacks": (
        *("id PRIMARY KEY", "process_id >process", "thread_id >thread", "timestamp", "stack_depth"),
        *("function_id >strings", "file_id >strings", "line_number", "parent_sample_id >call_stacks"),
        *("call_site TEXT", "additional_info TEXT"),
    ),
    "hardware_counters": (
        *("id PRIMARY KEY", "process_id >process", "thread_id >thread", "timestamp", "event_id >strings"),
        *("value", "additional_info TEXT"),
    ),
    "memory_operations": (
        *("id PRIMARY KEY", "process_id >process", "thread_id >thread", "timestamp"),
        "operation_type TEXT CHECK (operation_type IN ('ALLOC', 'FREE', 'COPY'))",
        *("source_address", "destination_address", "size_bytes", "duration_us", "additional_info TEXT"),
    ),
    "gpu_kernel_launches": (
        *("id PRIMARY KEY", "process_id >process", "thread_id >thread", "gpu_id >gpu_info", "kernel_id >strings"),
        *("dispatch_id", "launch_time", "start_time", "end_time"),
        *("grid_size_x", "grid_size_y", "grid_size_z", "block_size_x", "block_size_y", "block_size_z"),
        "shared_mem_bytes",
        "duration_ns GENERATED ALWAYS AS (end_time - start_time) STORED",
        "additional_info TEXT",
    ),
    "binary_analysis_info": (
        *("id PRIMARY KEY", "process_id >process", "binary_name TEXT", "function_id >strings", "start_address"),
        *("end_address", "instruction_count", "file_id >strings", "line_number", "call_sites TEXT"),
        "additional_info TEXT",
    ),
}


def statements() -> list[str]:
    """Return a CREATE TABLE for every table, after those that it refers to."""
    return [f"CREATE TABLE {name} ({', '.join(map(_column, columns))})" for name, columns in SCHEMA.items()]


def _column(text: str) -> str:
    name, _, more = text.partition(" ")
    if more.startswith(">"):
        return f"{name} INTEGER REFERENCES {more[1:]}(id)"
    return text if more.startswith("TEXT") else f"{name} INTEGER {more}".rstrip()


def insert(table: str, *columns: str) -> str:
    """Return an INSERT statement for some columns of a table."""
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"


# The event tables of the draft schema: which of their columns an event is made of.
#
# Specification: gpu-traces.md 2.3. `additional_info` (JSON) holds what the schema has no column for:
#
#     kind, category, label    of the event; label is a marker's text where its name is only that of a call
#     corr                     the correlation; null: there is none
#     queue, gpu               where it ran; `lane` numbers the lanes that the metadata lists, which is exact
#     name, duration_ns        of memory operations, whose own column counts microseconds
#     bytes                    of operations that are stored as regions
#     parent_corr              the correlation of the call that a call was made by
#     side                     what else is known of kernels, copies, allocations and counters, by the words of the
#                              model; devices are places in the list of the metadata


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


# The JSON in `additional_info`, and lanes and processes as our metadata lists them.


SIDE_DEVICES = ("source", "destination", "device")
SIDE_TEXTS = ("value_type", "short_name", "demangled_name")

OURS = (  # what is made of these keys: see the event columns above
    *("kind", "category", "label", "corr", "queue", "gpu", "lane", "name", "duration_ns", "bytes", "level"),
    *("scratch", "vgpr", "accum_vgpr", "sgpr", "kernel", "idle", "parent_corr", "side"),
)


class Infos:
    """The objects of some cells: `which` gives the object of every row. Equal texts are parsed once."""

    def __init__(self, cells: Array) -> None:
        numbers: dict[str | None, int] = {}
        which = [numbers.setdefault(text, len(numbers)) for text in cells.tolist()]
        self.which = np.array(which, np.int64)
        self.objects = [json_object(text) for text in numbers]

    def number(self, key: str) -> Ints:
        """Return a whole number of each row; -1 where there is none."""
        return np.array([whole_number(info.get(key)) for info in self.objects] or [ABSENT], np.int64)[self.which]

    def read_signed(self, key: str, otherwise: Ints) -> Ints:
        """Return an integer of each row, of any sign; `otherwise` where there is none."""
        has = self._each([_is_integer(info.get(key)) for info in self.objects])
        values = [value if _is_integer(value := info.get(key)) else 0 for info in self.objects]
        return np.where(has, np.array(values or [0], np.int64)[self.which], otherwise)

    def texts(self, key: str) -> list[str | None]:
        """Return a text of each object."""
        return [str(info[key]) if info.get(key) is not None else None for info in self.objects]

    def has(self, key: str) -> Bools:
        """Return which rows have this key, even if its value is null."""
        return self._each([key in info for info in self.objects])

    def sides(self, n_devices: int) -> dict[str, Array]:
        """Return what the JSON holds under `side`, one column for each word. A cell that is not a number becomes -1, or
        a text if the word is one of `SIDE_TEXTS`; device numbers are below `n_devices`."""
        told = [side if isinstance(side := info.get("side"), dict) else {} for info in self.objects]
        words = dict.fromkeys(word for side_words in told for word in side_words)
        return {word: self._side(word, [side_words.get(word) for side_words in told], n_devices) for word in words}

    def _side(self, word: str, values: Sequence[object], n_devices: int) -> Array:
        if word in SIDE_TEXTS:
            texts = [value if isinstance(value, str) else "" for value in values]
            return np.array([*texts, None], object)[self.which]
        numbers = np.array([value if _is_integer(value) else ABSENT for value in values], np.int64)
        if word in SIDE_DEVICES:
            numbers[(numbers < 0) | (numbers >= n_devices)] = ABSENT
        return numbers[self.which]

    def _each(self, objects: Sequence[bool]) -> Bools:
        return np.array(objects or [False], np.bool_)[self.which]


def others_info(cells: Array) -> Array:
    """Return what other programs put into the JSON of some cells and this reader does not use; None where there is
    nothing."""
    infos = Infos(cells)
    left = [{key: value for key, value in info.items() if key not in OURS} for info in infos.objects]
    texts = [json.dumps(info) if info else None for info in left]
    return np.array([*texts, None], object)[infos.which]


def parse_list(text: str | None) -> list[Mapping[str, object]]:
    """Parse a list of objects in our metadata; anything else gives an empty list."""
    try:
        value = json.loads(text or "[]")
    except (ValueError, RecursionError):
        return []
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def whole_number(value: object) -> int:
    """Convert a value to a whole number, also from text; anything else becomes -1."""
    if _is_integer(value) and isinstance(value, int) and value >= 0:
        return value
    return int(value) if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 19 else ABSENT


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**63
