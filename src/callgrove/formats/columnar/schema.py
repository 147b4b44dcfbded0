"""The tables of a folder: their columns, types and what stands for absent. Specification: docs/callgrove-format.md.

Columns that only people and other tools need (`shown`) repeat what ids already say; our reader leaves them alone.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = [
    "BESIDE",
    "EXPERIMENT",
    "FIELD",
    "FILLER",
    "FORMAT_MINOR",
    "FORMAT_NAME",
    "FORMAT_VERSION",
    "MANIFEST",
    "SIDE",
    "SOURCES",
    "STUDY",
    "VALUES",
    "TableColumn",
    "value_columns",
]

FORMAT_NAME, FORMAT_VERSION = "callgrove", 1
FORMAT_MINOR = 1  # what was added since: such folders are read by older programs, and older folders here
MANIFEST, SOURCES = "callgrove.json", "sources"
VALUES, SIDE, BESIDE = "values", "span_", "trace_"  # how the names of tables begin of which there are several
FIELD, FILLER = "field_", "filler"  # further columns of values


@dataclass(frozen=True)
class TableColumn:
    """One column. Types: int32, int64, uint64, double, bool, text, binary; `word` is a text with few different ones.
    `since` is the minor version that has it first."""

    name: str
    type: str
    nullable: bool = False
    shown: bool = False
    since: int = 0


def _columns(text: str) -> tuple[TableColumn, ...]:
    """From `name:type` with `?` for NULL where absent, in brackets what is only shown, `+1` since minor version 1."""
    out = []
    for word in text.split():
        told, _, since = word.strip("[]").partition("+")
        name, _, type_ = told.partition(":")
        shown = word.startswith("[")
        out.append(TableColumn(name, type_.rstrip("?"), type_.endswith("?"), shown, int(since or 0)))
    return tuple(out)


EXPERIMENT: dict[str, tuple[TableColumn, ...]] = {
    name: _columns(text)
    for name, text in {
        "strings": "string:int32 text:text",
        "files": "file:int32 path:text copy:text?",
        "modules": "module:int32 name:text",
        "regions": "region:int32 kind:word [name:word?] [file:word?] line:int32? end_line:int32? [module:word?] "
        "offset:uint64? [role:word?] [paradigm:word?] name_id:int32? file_id:int32? module_id:int32? role_id:int32? "
        "paradigm_id:int32?",
        "contexts": "context:int32 parent:int32? subtree_end:int32 [depth:int32] kind:word relation:word [name:word] "
        "[file:word?] [line:int32?] [module:word?] [offset:uint64?] region:int32? within:int32? [call_file:word?] "
        "call_line:int32? source_id:int64? call_file_id:int32?",
        "context_parameters": "context:int32 name:text text:text? number:double? integer:int64?",
        "runs": "run:int32 name:text? repetition:int64 source:text?",
        "parameters": "run:int32 name:text value:double",
        "profiles": "profile:int32 source_id:int64? run:int32 kind:word name:text? [label:text] [node:uint64?] "
        "[rank:uint64?] [thread:uint64?] [gpu_device:uint64?] [gpu_context:uint64?] [gpu_stream:uint64?] "
        "[core:uint64?] place:int32? part:int32?",
        "identifiers": "profile:int32 [kind:word] physical:uint64 logical:uint64 interpretation:int32 kind_id:int32",
        "places": "place:int32 parent:int32? kind:word? name:text? rank:int64? source_id:int64?",
        "topologies": "topology:int32 name:text? dimension:int32? dimension_name:text? size:int64? periodic:bool?",
        "coordinates": "topology:int32 place:int32 dimension:int32 coordinate:int64",
        "metrics": "metric:int32 source_id:int64? name:text unit:text? scope:word? dtype:text aggregation:word "
        "parent:int32? description:text? url:text? visible:bool show_percent:bool number_format:text? formula:text? "
        "statistic:text? id_of_quantity:bool composite:text? summary_id:int64?",
        "metric_columns": "name:text scope:word? formula:text? description:text? statistic:text? visible:bool "
        "show_percent:bool number_format:text? source_id:int64? partner:int64?",
        "attributes": "owner:word number:int64 name:text value:text",
        "attachments": "name:text size:int64 data:binary",
        "value_order": "file:int32 first:int64 rows:int64",
        "samples": "line:int32 profile:int32 metric:int32? time_ns:int64 context:int32?",
        "sample_lines": "line:int32 profile:int32 metric:int32? samples:int64",
        "spans": "span:int64 profile:int32? kind:word category:word? name:word? label:word? start_ns:int64 "
        "end_ns:int64 depth:int32? correlation:int64? context:int32? parent_correlation:int64?+1",
        "span_strings": "string:int32 text:text",
        "span_sides": "side:word part:int32 first:int64 rows:int64",
        "devices": "part:int32 device:int32 process:int32 kind:word index:int64 name:text attributes:word",
        "counters": "profile:int32 name:word time_ns:int64 value:double",
        "index": "table:word row_group:int32 profile:int32? rows:int64 start_ns:int64? end_ns:int64?",
    }.items()
}

STUDY: dict[str, tuple[TableColumn, ...]] = {
    name: _columns(text)
    for name, text in {
        "points": "point:int32 parameter:word value:double",
        "callpaths": "callpath_id:int32 callpath:text",
        "metric_names": "metric_id:int32 metric:text",
        "series": "series:int32 [callpath:word] [metric:word] callpath_id:int32 metric_id:int32",
        "measurements": "series:int32 point:int32 repetitions:int64? mean:double? median:double? minimum:double? "
        "maximum:double? std:double?",
        "raw_values": "series:int32 point:int32 repetition:int64 value:double?",
        "models": "name:text? callpath:text metric:text function:text constant:double terms:text statistics:text "
        "segments:text",
    }.items()
}


def value_columns(type_: str, fillers: bool) -> tuple[TableColumn, ...]:
    """The columns of a table of values whose values are of one type; what composite ones have beside is not here."""
    more = f" {FILLER}:bool" if fillers else ""
    return _columns(f"profile:int32 context:int32 metric:int32 value:{type_}{more}")
