"""SQL over the raw tables of rocprofv3's databases, as somebody would write it who knows their traps: all joins stay
inside one process's tables and are LEFT joins, so that no row is lost or multiplied."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

__all__ = ["RAW", "raw_rows"]

CATEGORY = "(SELECT string FROM {string} WHERE id = e.category_id)"
TIMES = 'x.start, x."end", x."end" - x.start'
AGENT = "{0}.absolute_index, {0}.logical_index, {0}.type_index, {0}.type"

# view -> columns of ours, and the SQL that gives the same of one process
RAW: dict[str, tuple[str, str]] = {
    "kernels": (
        "guid, pid, tid, category, name, agent_abs_index, agent_log_index, agent_type_index, agent_type, kernel_id, "
        'dispatch_id, stream_id, stream, queue_id, queue, start, "end", duration, grid_x, grid_y, grid_z, workgroup_x, '
        "workgroup_y, workgroup_z, lds_size, scratch_size, vgpr_count, accum_vgpr_count, sgpr_count, stack_id, "
        "parent_stack_id",
        f"""SELECT x.guid, x.pid, x.tid, {CATEGORY}, s.display_name, {AGENT.format("a")}, x.kernel_id, x.dispatch_id,
            x.stream_id, st.name, x.queue_id, q.name, {TIMES}, x.grid_size_x, x.grid_size_y, x.grid_size_z,
            x.workgroup_size_x, x.workgroup_size_y, x.workgroup_size_z, x.group_segment_size, x.private_segment_size,
            s.arch_vgpr_count, s.accum_vgpr_count, s.sgpr_count, e.stack_id, e.parent_stack_id
        FROM {{kernel_dispatch}} x LEFT JOIN {{event}} e ON e.id = x.event_id
        LEFT JOIN {{info_kernel_symbol}} s ON s.id = x.kernel_id LEFT JOIN {{info_agent}} a ON a.id = x.agent_id
        LEFT JOIN {{info_queue}} q ON q.id = x.queue_id LEFT JOIN {{info_stream}} st ON st.id = x.stream_id""",
    ),
    "regions": (
        'guid, pid, tid, category, name, start, "end", duration, stack_id, parent_stack_id',
        f"""SELECT x.guid, x.pid, x.tid, {CATEGORY}, s.string, {TIMES}, e.stack_id, e.parent_stack_id
        FROM {{region}} x LEFT JOIN {{event}} e ON e.id = x.event_id LEFT JOIN {{string}} s ON s.id = x.name_id""",
    ),
    "sample_regions": (
        'guid, pid, tid, category, start, "end", duration, stack_id',
        f"""SELECT x.guid, t.pid, t.tid, {CATEGORY}, x.timestamp, x.timestamp, 0, e.stack_id
        FROM {{sample}} x LEFT JOIN {{event}} e ON e.id = x.event_id LEFT JOIN {{track}} t ON t.id = x.track_id""",
    ),
    "memory_copies": (
        'guid, pid, category, name, start, "end", duration, size, stream_id, queue_id, dst_device, '
        "dst_agent_abs_index, dst_agent_log_index, dst_agent_type_index, dst_agent_type, src_device, "
        "src_agent_abs_index, src_agent_log_index, src_agent_type_index, src_agent_type, stack_id",
        f"""SELECT x.guid, x.pid, {CATEGORY}, s.string, {TIMES}, x.size, x.stream_id, x.queue_id,
            d.name, {AGENT.format("d")}, o.name, {AGENT.format("o")}, e.stack_id
        FROM {{memory_copy}} x LEFT JOIN {{event}} e ON e.id = x.event_id LEFT JOIN {{string}} s ON s.id = x.name_id
        LEFT JOIN {{info_agent}} d ON d.id = x.dst_agent_id LEFT JOIN {{info_agent}} o ON o.id = x.src_agent_id""",
    ),
    "memory_allocations": (
        'guid, pid, tid, category, type, start, "end", duration, level, agent_name, agent_abs_index, '
        "agent_log_index, agent_type_index, agent_type, address, size, queue_id, stack_id",
        f"""SELECT x.guid, x.pid, x.tid, {CATEGORY}, x.type, {TIMES}, x.level, a.name, {AGENT.format("a")}, x.address,
            x.size, x.queue_id, e.stack_id
        FROM {{memory_allocate}} x LEFT JOIN {{event}} e ON e.id = x.event_id
        LEFT JOIN {{info_agent}} a ON a.id = x.agent_id""",
    ),
    "scratch_memory": (
        "guid, pid, tid, operation, start, size, address",
        "SELECT x.guid, x.pid, x.tid, x.type, x.start, x.size, x.address FROM {memory_allocate} x"
        " WHERE x.level = 'SCRATCH'",
    ),
    "events_args": (
        "guid, category, stack_id, parent_stack_id, arg_position, arg_type, arg_name, arg_value",
        f"""SELECT x.guid, {CATEGORY}, e.stack_id, e.parent_stack_id, x.position, x.type, x.name, x.value
        FROM {{arg}} x LEFT JOIN {{event}} e ON e.id = x.event_id""",
    ),
    "pmc_events": (
        "guid, pid, name, dispatch_id, start, counter_name, counter_value",
        """SELECT x.guid, k.pid, s.display_name, k.dispatch_id, k.start, i.name, x.value
        FROM {pmc_event} x LEFT JOIN {info_pmc} i ON i.id = x.pmc_id
        JOIN {kernel_dispatch} k ON k.event_id = x.event_id LEFT JOIN {info_kernel_symbol} s ON s.id = k.kernel_id""",
    ),
    "counters_collection": (
        "guid, dispatch_id, kernel_name, grid_size_x, workgroup_size_x, lds_block_size, counter_name, value_type, "
        "value",
        """SELECT x.guid, k.dispatch_id, s.display_name, k.grid_size_x, k.workgroup_size_x, k.group_segment_size,
            i.name, i.value_type, CASE i.value_type WHEN 'RELATIVE' THEN avg(x.value) ELSE sum(x.value) END
        FROM {pmc_event} x LEFT JOIN {info_pmc} i ON i.id = x.pmc_id
        JOIN {kernel_dispatch} k ON k.event_id = x.event_id LEFT JOIN {info_kernel_symbol} s ON s.id = k.kernel_id
        GROUP BY x.guid, k.id, i.name""",
    ),
    "processes": (
        "guid, pid, hostname, machine_id, command, init, fini",
        """SELECT x.guid, x.pid, n.hostname, n.machine_id, x.command, x.init, x.fini
        FROM {info_process} x LEFT JOIN {info_node} n ON n.id = x.nid""",
    ),
    "threads": (
        "guid, pid, tid, name, hostname, machine_id",
        """SELECT x.guid, x.pid, x.tid, x.name, n.hostname, n.machine_id
        FROM {info_thread} x LEFT JOIN {info_node} n ON n.id = x.nid""",
    ),
    "kernel_symbols": (
        "guid, pid, id, code_object_id, kernel_name, display_name, sgpr_count, formatted_kernel_name",
        """SELECT guid, pid, id, code_object_id, kernel_name, display_name, sgpr_count,
            json_extract(extdata, '$.formatted_kernel_name') FROM {info_kernel_symbol}""",
    ),
    "code_objects": (
        "guid, pid, id, uri, load_base, load_size, load_delta, code_object_size, storage_type",
        """SELECT guid, pid, id, uri, load_base, load_size, load_delta, json_extract(extdata, '$.size'),
            json_extract(extdata, '$.storage_type') FROM {info_code_object}""",
    ),
    "pmc_info": (
        "guid, pid, id, name, description, block, value_type, is_constant",
        "SELECT guid, pid, id, name, description, block, value_type, is_constant FROM {info_pmc}",
    ),
}


def raw_rows(files: Iterable[Path], statement: str) -> list[tuple[Any, ...]]:
    """The rows of all files."""
    found: list[tuple[Any, ...]] = []
    for path in files:
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
            names = [n for (n,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            suffix = next(n for n in names if n.startswith("rocpd_metadata")).removeprefix("rocpd_metadata")
            tables = {n.removeprefix("rocpd_").removesuffix(suffix): f'"{n}"' for n in names if n.endswith(suffix)}
            found += database.execute(statement.format(**tables)).fetchall()
    return found
