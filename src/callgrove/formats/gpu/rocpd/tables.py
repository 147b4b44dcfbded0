"""The tables of rocprofv3's schemas 3 and 4: events, what describes things, and those of schema 3 as we write them.

Specifications: gpu-traces.md 3.3, more-inputs.md 7. In schema 3 a row of an event table says itself which thread,
agent, queue and stream it belongs to. In schema 4 it names a track, whose row says so. Columns decide, not the version:
what a row does not say itself is looked up in its track.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from callgrove.arrays import Ints
from callgrove.binary.sqlite.cells import MISSING, Lookup, Type, json_object
from callgrove.binary.sqlite.database import SqliteFile
from callgrove.formats.gpu.event_tables import EventTable
from callgrove.model.table import Column, Table
from callgrove.model.traces.events import SpanKind

__all__ = [
    "AGENT_COLUMNS",
    "AGENT_NUMBERS",
    "CATEGORIES",
    "COLUMNS",
    "INFO_TABLES",
    "LATER",
    "LISTED",
    "NEWER",
    "ON_DEVICE",
    "ON_THREADS",
    "PHASES",
    "PLACE_COLUMNS",
    "TABLES",
    "TRACK",
    "TRACK_COLUMNS",
    "columns_of",
    "create_table",
    "create_view",
    "info_table",
    "kind_of_category",
    "known_columns",
    "quote_with",
    "tables_of",
]


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
AGENT_COLUMNS = ("agent_id", "dst_agent_id", "src_agent_id")
PLACE_COLUMNS = (*AGENT_COLUMNS, "stream_id")
TRACK = "track_id"
TRACK_COLUMNS = ("tid", "agent_id", "queue_id", "stream_id")  # what a track says of the events on it
CATEGORIES = "info_category"  # the table of schema 4; in schema 3 categories are strings
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
    "region": (SpanKind.REGION, {**EVENT, **TIMES, **HOST, "name": ("name_id",), "lane": ("tid", TRACK)}, frozenset()),
    "kernel_dispatch": (
        SpanKind.KERNEL,
        {**EVENT, **TIMES, "name": ("kernel_id",), "label": ("kernel_id",), "lane": (*PLACE_COLUMNS, TRACK)},
        frozenset(),
    ),
    "memory_copy": (
        SpanKind.COPY,
        {**EVENT, **TIMES, "name": ("name_id",), "label": ("name_id",), "lane": (*PLACE_COLUMNS, TRACK)},
        frozenset(),
    ),
    "memory_allocate": (
        SpanKind.ALLOC,
        {**EVENT, **TIMES, **dict.fromkeys(("name", "label"), ("type", "name_id")), "lane": ("tid", TRACK)},
        frozenset({"type"}),
    ),
    "sample": (
        SpanKind.MARKER,
        {
            **EVENT,
            **INSTANT,
            **HOST,
            **dict.fromkeys(("name", "label"), ("event_id", "name_id", TRACK)),
            "lane": (TRACK,),
        },
        frozenset(),
    ),
}


def tables_of(suffix: str) -> tuple[EventTable, ...]:
    """Return the event tables of one set."""
    return tuple(EventTable(f"rocpd_{base}{suffix}", *description) for base, description in TABLES.items())


def kind_of_category(category: str) -> SpanKind:
    """Return the kind of a region whose event has this category."""
    if category.startswith(MARKERS_OF_ROCPROF_SYS):
        return SpanKind.MARKER
    return KIND_OF_CATEGORY.get(category.partition("_")[0], SpanKind.REGION)


# The tables of rocprofv3's schema 3, as we write them.
#
# Specification: gpu-traces.md 3.3. A column's type follows its name; it is INTEGER where nothing does. NOT NULL is left
# out: an input that breaks it is copied as it is.


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
NEWER: dict[str, str] = {  # tables that schema 4 adds
    CATEGORIES: "name TEXT, extdata TEXT",
    "info_address_range": "nid, pid, address_base, address_low, address_high, extdata TEXT",
    "info_source_code": "nid, pid, address_id, file TEXT, line_number, lines TEXT, instructions TEXT, extdata TEXT",
    "info_pc": "nid, pid, function TEXT, address_id, file TEXT, line, extdata TEXT",
    "call_stack": "event_id, pc_id, depth, extdata TEXT",
    "line_info": "event_id, source_code_id, pc_id, extdata TEXT",
}
PHASES = {"start_phase": 1, "end_phase": 2, "phase": 0}  # columns of 4.0.0 alone, and what they hold as a rule
OF_SCHEMA_4: dict[str, tuple[str, ...]] = {  # columns that event tables have there, and not in schema 3
    "region": (TRACK, *PHASES),
    "sample": ("name_id", *PHASES),
    "kernel_dispatch": (TRACK, *PHASES),
    "memory_copy": (TRACK, *PHASES),
    "memory_allocate": (TRACK, "name_id", "region_name_id", *PHASES),
}


QUOTE = "'"
MOST_TERMS = 400  # of one UNION; SQLite takes 500


def columns_of(base: str) -> dict[str, str]:
    """Return name and type of every column that schema 3 begins with, or of a table that schema 4 adds; empty for other
    tables."""
    columns = COLUMNS.get(base) or NEWER.get(base)
    if columns is None:
        return {}
    out = {"id": "INTEGER PRIMARY KEY"} | ({} if base == "metadata" else {"guid": "TEXT"})
    for column in columns.split(","):
        name, _, type_ = column.strip().partition(" ")
        out[name] = type_ or "INTEGER"
    return out


def known_columns(base: str) -> set[str]:
    """Return the columns of a table that the reader knows, of schema 3 or 4."""
    return {*columns_of(base), *OF_SCHEMA_4.get(base, ())}


def create_table(table: str, base: str, columns: Collection[str], guid: str) -> str:
    """Return the statement that creates a table with some columns, of the types in the schema. Rows that do not name
    their process belong to `guid`, as rocprofv3 declares it: views join by it."""
    types = columns_of(base)
    types |= {"guid": f"TEXT DEFAULT {quote_with(guid, QUOTE)}"} if "guid" in types else {}
    definitions = ", ".join(f"{quote_with(name)} {types.get(name, '')}".rstrip() for name in columns)
    return f"CREATE TABLE {quote_with(table)} ({definitions})"


def create_view(base: str, tables: Sequence[str]) -> str:
    """Return the statement that creates a view of all processes' rows of one table, under its name without suffix."""
    selects = [f"SELECT * FROM {quote_with(table)}" for table in tables]
    while len(selects) > MOST_TERMS:
        groups = [selects[first : first + MOST_TERMS] for first in range(0, len(selects), MOST_TERMS)]
        selects = [f"SELECT * FROM ({' UNION ALL '.join(group)})" for group in groups]
    return f"CREATE VIEW {quote_with(f'rocpd_{base}')} AS {' UNION ALL '.join(selects)}"


def quote_with(name: str, mark: str = '"') -> str:
    return mark + name.replace(mark, mark + mark) + mark


# The small tables of rocprofv3's schema that describe things, under the names of its own views over them.
#
# Specification: gpu-traces.md 3.3 and 3.5. Some columns of the views are fields of a JSON column; they are parsed here,
# since the views cannot be run.


INFO_TABLES = {
    "queues": "info_queue",
    "streams": "info_stream",
    "process_facts": "info_process",
    "thread_facts": "info_thread",
    "code_objects": "info_code_object",
    "kernel_symbols": "info_kernel_symbol",
    "pmc_info": "info_pmc",
}
INFO_COLUMNS: dict[str, dict[str, Type]] = {
    name: {column: Type.TEXT if text else Type.INTEGER for text, group in groups for column in group.split()}
    for name, groups in {
        "queues": ((False, "id"), (True, "name")),
        "streams": ((False, "id"), (True, "name extdata")),
        "process_facts": ((False, "nid ppid start end"),),
        "thread_facts": ((False, "tid start end"),),
        "code_objects": ((False, "id agent_id"), (True, "uri"), (False, "load_base load_size load_delta")),
        "kernel_symbols": (
            (False, "id code_object_id"),
            (True, "kernel_name display_name"),
            (False, "kernel_object kernarg_segment_size kernarg_segment_alignment group_segment_size"),
            (False, "private_segment_size sgpr_count arch_vgpr_count accum_vgpr_count"),
        ),
        "pmc_info": (
            (False, "id agent_id is_constant is_derived"),
            (True, "name symbol description component units value_type block expression"),
        ),
    }.items()
}
FIELDS = {  # column -> field of the JSON
    "code_objects": {"code_object_size": "size", **{n: n for n in ("storage_type", "memory_base", "memory_size")}},
    "kernel_symbols": {
        "kernel_symbol_size": "size",
        **{n: n for n in ("formatted_kernel_name", "demangled_kernel_name", "truncated_kernel_name")},
        **{n: n for n in ("kernel_id", "kernel_code_entry_byte_offset")},
        "kernel_address": "kernel_address.handle",
    },
}
OF_NODES = {"system_name": "system_name", "system_release": "release", "system_version": "version"}


def info_table(file: SqliteFile, table: str, name: str) -> Table:
    """Return all rows of one of the tables of `INFO_TABLES`."""
    fields, suffix = FIELDS.get(name, {}), table.removeprefix(f"rocpd_{INFO_TABLES[name]}")
    raw = INFO_COLUMNS[name] | ({"extdata": Type.TEXT} if fields else {})
    with file.reading():
        cells = file.table(table, raw)
        columns = [Column(c, cells[c], MISSING if t is Type.INTEGER else None) for c, t in INFO_COLUMNS[name].items()]
        if "agent_id" in raw:
            columns.append(_agent_numbers(file, suffix, cells["agent_id"]))
        if name == "process_facts":
            columns = [*columns[1:], *_facts_of_nodes(file, suffix, cells["nid"])]
        if name == "code_objects":
            columns.append(Column("storage_type_str", file.table(table, {"storage_type": Type.TEXT})["storage_type"]))
    if fields:
        objects = [json_object(text) for text in cells["extdata"].tolist()]
        columns += [Column(c, [_plain(_field(json_value, key)) for json_value in objects]) for c, key in fields.items()]
    return Table(tuple(columns))


def _agent_numbers(file: SqliteFile, suffix: str, ids: Ints) -> Column:
    """Return the number of each agent on its node."""
    agents = file.table(f"rocpd_info_agent{suffix}", {"id": Type.INTEGER, "absolute_index": Type.INTEGER})
    place = Lookup(agents["id"], np.arange(len(agents["id"])))[ids]
    return Column("agent_abs_index", np.append(agents["absolute_index"], MISSING)[place], MISSING)


def _facts_of_nodes(file: SqliteFile, suffix: str, ids: Ints) -> list[Column]:
    """Return the system that each node runs."""
    raw = {"id": Type.INTEGER, **dict.fromkeys(OF_NODES.values(), Type.TEXT)}
    nodes = file.table(f"rocpd_info_node{suffix}", raw)
    place = Lookup(nodes["id"], np.arange(len(nodes["id"])))[ids]
    return [Column(new, np.append(nodes[old], [None])[place]) for new, old in OF_NODES.items()]


def _field(json_value: Mapping[str, Any], path: str) -> Any:
    """Return a field of JSON, or one of an object in it, such as `kernel_address.handle`."""
    name, _, rest = path.partition(".")
    value = json_value.get(name)
    if not rest:
        return value
    return _field(value, rest) if isinstance(value, dict) else None


def _plain(value: Any) -> Any:
    return value if isinstance(value, str | int | float | None) else str(value)
