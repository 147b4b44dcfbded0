"""The draft schema as we write it: the document's tables, with ids that SQLite can use and references that exist.

Specification: gpu-traces.md 2.2. `additional_info` at the end of `hardware_counters` and `gpu_kernel_launches`, and the
table `metadata`, are ours: readers do without them.
"""

from __future__ import annotations

__all__ = ["SCHEMA", "VERSION", "insert"]

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
    """One CREATE TABLE for every table, those that are referred to first."""
    return [f"CREATE TABLE {name} ({', '.join(map(_column, columns))})" for name, columns in SCHEMA.items()]


def _column(text: str) -> str:
    name, _, more = text.partition(" ")
    if more.startswith(">"):
        return f"{name} INTEGER REFERENCES {more[1:]}(id)"
    return text if more.startswith("TEXT") else f"{name} INTEGER {more}".rstrip()


def insert(table: str, *columns: str) -> str:
    """The text of an INSERT for some columns of a table."""
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"
