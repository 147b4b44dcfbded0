"""The small tables of rocprofv3's schema that describe things, under the names of its own views over them.

Specification: gpu-traces.md 3.3 and 3.5. Some columns of the views are fields of a JSON column; they are parsed here,
since the views cannot be run.
"""

from __future__ import annotations

from typing import Any

from callgrove.formats.gpu.json_cells import json_object
from callgrove.formats.gpu.sqlite_file import MISSING, SqliteFile, Type
from callgrove.model.table import Column, Table

__all__ = ["INFO_TABLES", "info_table"]

INFO_TABLES = {
    "queues": "info_queue",
    "code_objects": "info_code_object",
    "kernel_symbols": "info_kernel_symbol",
    "pmc_info": "info_pmc",
}
COLUMNS: dict[str, dict[str, Type]] = {
    name: {column: Type.TEXT if text else Type.INTEGER for text, group in groups for column in group.split()}
    for name, groups in {
        "queues": ((False, "id"), (True, "name")),
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
    },
}


def info_table(file: SqliteFile, table: str, name: str) -> Table:
    """All rows of one of these tables."""
    fields = FIELDS.get(name, {})
    raw = COLUMNS[name] | ({"extdata": Type.TEXT} if fields else {})
    with file.reading():
        cells = file.table(table, raw)
    columns = [Column(c, cells[c], MISSING if t is Type.INTEGER else None) for c, t in COLUMNS[name].items()]
    if fields:
        objects = [json_object(text) for text in cells["extdata"].tolist()]
        columns += [Column(c, [_plain(found.get(key)) for found in objects]) for c, key in fields.items()]
    return Table(tuple(columns))


def _plain(value: Any) -> Any:
    return value if isinstance(value, str | int | float | None) else str(value)
