"""The tables of rocprofv3's schema 3, as we write them.

Specification: gpu-traces.md 3.3. A column's type follows its name; it is INTEGER where nothing does. NOT NULL is left
out: an input that breaks it is copied as it is.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

__all__ = ["COLUMNS", "LATER", "columns_of", "create_table", "create_view", "quoted"]

COLUMNS: dict[str, str] = {  # `guid TEXT` follows `id` in all but metadata
    "metadata": "tag TEXT, value TEXT",
    "string": "string TEXT",
    "info_node": "hash, machine_id TEXT, system_name TEXT, hostname TEXT, release TEXT, version TEXT, "
    "hardware_name TEXT, domain_name TEXT",
    "info_process": "nid, ppid, pid, init, fini, start, end, command TEXT, environment TEXT, extdata TEXT",
    "info_thread": "nid, ppid, pid, tid, name TEXT, start, end, extdata TEXT",
    "info_agent": "nid, pid, type TEXT, absolute_index, logical_index, type_index, uuid, name TEXT, model_name TEXT, "
    "vendor_name TEXT, product_name TEXT, user_name TEXT, extdata TEXT",
    "info_queue": "nid, pid, name TEXT, extdata TEXT",
    "info_stream": "nid, pid, name TEXT, extdata TEXT",
    "info_pmc": "nid, pid, agent_id, target_arch TEXT, event_code, instance_id, name TEXT, symbol TEXT, "
    "description TEXT, long_description TEXT, component TEXT, units TEXT, value_type TEXT, block TEXT, "
    "expression TEXT, is_constant, is_derived, extdata TEXT",
    "info_code_object": "nid, pid, agent_id, uri TEXT, load_base, load_size, load_delta, storage_type TEXT, "
    "extdata TEXT",
    "info_kernel_symbol": "nid, pid, code_object_id, kernel_name TEXT, display_name TEXT, kernel_object, "
    "kernarg_segment_size, kernarg_segment_alignment, group_segment_size, private_segment_size, sgpr_count, "
    "arch_vgpr_count, accum_vgpr_count, extdata TEXT",
    "track": "nid, pid, tid, name_id, extdata TEXT",
    "event": "category_id, stack_id, parent_stack_id, correlation_id, call_stack TEXT, line_info TEXT, extdata TEXT",
    "arg": "event_id, position, type TEXT, name TEXT, value TEXT, extdata TEXT",
    "pmc_event": "event_id, pmc_id, value REAL, extdata TEXT",
    "region": "nid, pid, tid, start, end, name_id, event_id, extdata TEXT",
    "sample": "track_id, timestamp, event_id, extdata TEXT",
    "kernel_dispatch": "nid, pid, tid, agent_id, kernel_id, dispatch_id, queue_id, stream_id, start, end, "
    "private_segment_size, group_segment_size, workgroup_size_x, workgroup_size_y, workgroup_size_z, grid_size_x, "
    "grid_size_y, grid_size_z, region_name_id, event_id, extdata TEXT",
    "memory_copy": "nid, pid, tid, start, end, name_id, dst_agent_id, dst_address, src_agent_id, src_address, size, "
    "queue_id, stream_id, region_name_id, event_id, extdata TEXT",
    "memory_allocate": "nid, pid, tid, agent_id, type TEXT, level TEXT, start, end, address, size, queue_id, "
    "stream_id, event_id, extdata TEXT",
}
LATER: dict[str, tuple[str, ...]] = {  # columns of 3.0.2 to 3.0.5: made where an input has them
    "kernel_dispatch": ("graph_exec_id", "graph_node_id"),
    "memory_copy": ("graph_exec_id", "graph_node_id"),
    "pmc_event": ("sample_id", "xcc", "shader_engine", "instance", "shader_array", "wgp"),
    "info_pmc": ("spm_support",),
}


QUOTE = "'"
MOST_TERMS = 400  # of one UNION; SQLite takes 500


def columns_of(base: str) -> dict[str, str]:
    """Name -> type of every column that schema 3 begins with; empty for tables that it does not have."""
    if base not in COLUMNS:
        return {}
    out = {"id": "INTEGER PRIMARY KEY"} | ({} if base == "metadata" else {"guid": "TEXT"})
    for column in COLUMNS[base].split(","):
        name, _, type_ = column.strip().partition(" ")
        out[name] = type_ or "INTEGER"
    return out


def create_table(table: str, base: str, columns: Collection[str], guid: str) -> str:
    """The statement for a table with some columns, with the types that the schema gives them. Rows that do not say of
    which process they are, are of `guid`, as rocprofv3 declares it: views join by it."""
    types = columns_of(base)
    types |= {"guid": f"TEXT DEFAULT {quoted(guid, QUOTE)}"} if "guid" in types else {}
    made = ", ".join(f"{quoted(name)} {types.get(name, '')}".rstrip() for name in columns)
    return f"CREATE TABLE {quoted(table)} ({made})"


def create_view(base: str, tables: Sequence[str]) -> str:
    """All processes' rows of one table, under its name without suffix."""
    selects = [f"SELECT * FROM {quoted(table)}" for table in tables]
    while len(selects) > MOST_TERMS:
        groups = [selects[first : first + MOST_TERMS] for first in range(0, len(selects), MOST_TERMS)]
        selects = [f"SELECT * FROM ({' UNION ALL '.join(group)})" for group in groups]
    return f"CREATE VIEW {quoted(f'rocpd_{base}')} AS {' UNION ALL '.join(selects)}"


def quoted(name: str, mark: str = '"') -> str:
    return mark + name.replace(mark, mark + mark) + mark
