"""The small tables of rocprofv3's schema that describe things, under the names of its own views over them.

Specification: gpu-traces.md 3.3 and 3.5. Some columns of the views are fields of a JSON column; they are parsed here,
since the views cannot be run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from callgrove.formats.gpu.json_cells import json_object
from callgrove.formats.gpu.lookup import Lookup
from callgrove.formats.gpu.sqlite_file import MISSING, SqliteFile, Type
from callgrove.model.arrays import Ints
from callgrove.model.table import Column, Table

__all__ = ["INFO_TABLES", "info_table"]

INFO_TABLES = {
    "queues": "info_queue",
    "streams": "info_stream",
    "process_facts": "info_process",
    "thread_facts": "info_thread",
    "code_objects": "info_code_object",
    "kernel_symbols": "info_kernel_symbol",
    "pmc_info": "info_pmc",
}
COLUMNS: dict[str, dict[str, Type]] = {
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
    """All rows of one of these tables."""
    fields, suffix = FIELDS.get(name, {}), table.removeprefix(f"rocpd_{INFO_TABLES[name]}")
    raw = COLUMNS[name] | ({"extdata": Type.TEXT} if fields else {})
    with file.reading():
        cells = file.table(table, raw)
        columns = [Column(c, cells[c], MISSING if t is Type.INTEGER else None) for c, t in COLUMNS[name].items()]
        if "agent_id" in raw:
            columns.append(_agent_numbers(file, suffix, cells["agent_id"]))
        if name == "process_facts":
            columns = [*columns[1:], *_facts_of_nodes(file, suffix, cells["nid"])]
        if name == "code_objects":
            columns.append(Column("storage_type_str", file.table(table, {"storage_type": Type.TEXT})["storage_type"]))
    if fields:
        objects = [json_object(text) for text in cells["extdata"].tolist()]
        columns += [Column(c, [_plain(_field(found, key)) for found in objects]) for c, key in fields.items()]
    return Table(tuple(columns))


def _agent_numbers(file: SqliteFile, suffix: str, ids: Ints) -> Column:
    """The number of each agent on its node."""
    agents = file.table(f"rocpd_info_agent{suffix}", {"id": Type.INTEGER, "absolute_index": Type.INTEGER})
    place = Lookup(agents["id"], np.arange(len(agents["id"])))[ids]
    return Column("agent_abs_index", np.append(agents["absolute_index"], MISSING)[place], MISSING)


def _facts_of_nodes(file: SqliteFile, suffix: str, ids: Ints) -> list[Column]:
    """What system each node runs."""
    raw = {"id": Type.INTEGER, **dict.fromkeys(OF_NODES.values(), Type.TEXT)}
    nodes = file.table(f"rocpd_info_node{suffix}", raw)
    place = Lookup(nodes["id"], np.arange(len(nodes["id"])))[ids]
    return [Column(new, np.append(nodes[old], [None])[place]) for new, old in OF_NODES.items()]


def _field(found: Mapping[str, Any], path: str) -> Any:
    """A field of JSON, or one of an object in it, such as `kernel_address.handle`."""
    name, _, rest = path.partition(".")
    value = found.get(name)
    if not rest:
        return value
    return _field(value, rest) if isinstance(value, dict) else None


def _plain(value: Any) -> Any:
    return value if isinstance(value, str | int | float | None) else str(value)
