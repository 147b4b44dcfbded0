"""The raw structure of an archive: what its anchor says, its definitions, and what its locations hold."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from callgrove.errors import InputError
from callgrove.formats.interface import Field
from callgrove.formats.timeline.otf2.archive import read_raw_definitions
from callgrove.formats.timeline.otf2.decoder import Frame
from callgrove.formats.timeline.otf2.events import Task, read_locations

__all__ = ["dump_archive"]

COLUMNS = {  # of definitions, after their number
    "String": ("text",),
    "Attribute": ("name", "description", "type"),
    "SystemTreeNode": ("name", "class", "parent"),
    "LocationGroup": ("name", "type", "system_tree_parent", "creating_location_group"),
    "Location": ("name", "type", "number_of_events", "location_group"),
    "Region": (
        *("name", "canonical_name", "description", "role", "paradigm", "flags", "source_file"),
        *("begin_line", "end_line"),
    ),
    "MetricMember": ("name", "description", "type", "mode", "value_type", "base", "exponent", "unit"),
    "MetricClass": ("members", "occurrence", "recorder_kind"),
    "MetricInstance": ("metric_class", "recorder", "scope_kind", "scope"),
    "Group": ("name", "type", "paradigm", "flags", "members"),
    "Comm": ("name", "group", "parent", "flags"),
    "InterComm": ("name", "group_a", "group_b", "common_communicator", "flags"),
    "Parameter": ("name", "type"),
    "SourceCodeLocation": ("file", "line"),
    "CallingContext": ("region", "source_code_location", "parent"),
    "SystemTreeNodeProperty": ("name", "type", "value"),
    "LocationGroupProperty": ("name", "type", "value"),
    "LocationProperty": ("name", "type", "value"),
}
CLOCK = ("resolution", "global_offset", "trace_length", "realtime_timestamp")
SHOWN = 20  # members of a group that are shown


def dump_archive(anchor: Path) -> Iterator[Field]:
    """Yield the fields of an archive."""
    raw, problem = read_raw_definitions(anchor)
    for name, value in raw["about"].items():
        for key, cell in value.items() if isinstance(value, dict) else [(name, value)]:
            yield Field(anchor.name, "anchor", -1, 0, key, cell)
    definitions = anchor.with_suffix(".def").name
    for row in raw["Clock"]:
        for name, value in zip(CLOCK, row, strict=False):
            yield Field(definitions, "ClockProperties", -1, 0, name, value)
    for section, columns in COLUMNS.items():
        for number, *cells in raw[section]:
            for name, cell in zip(columns, cells, strict=False):
                yield Field(definitions, section, number, 0, name, _show(cell))
    for location, _, _, announced, _ in raw["Location"]:
        yield from _dump_location(anchor, location, announced, raw["about"]["chunk_size"])
    if problem:
        raise InputError(f"{anchor}: {problem}")


def _show(cell: int | str | list[int]) -> int | str:
    if not isinstance(cell, list):
        return cell
    return ", ".join(map(str, cell[:SHOWN])) + f", ... ({len(cell)})" * (len(cell) > SHOWN)


def _dump_location(anchor: Path, location: int, announced: int, chunk_size: int) -> Iterator[Field]:
    for events in read_locations(Task(anchor, [(location, announced)], chunk_size)):
        counts = {"Enter": len(events.start), **{_title(code): len(rows) for code, rows in events.tables.items()}}
        for name, n in (counts | dict(events.counts)).items():
            yield Field(f"{location}.evt", "events", location, 0, name, n)
        if events.problem:
            raise InputError(f"{anchor}: location {location}: {events.problem}")


def _title(code: int) -> str:
    names = {
        Frame.MESSAGES: "messages",
        Frame.COLLECTIVES: "collectives",
        Frame.ATTRIBUTES: "attributes",
        Frame.PARAMETERS: "parameters",
        Frame.METRICS: "values of metrics",
        Frame.SAMPLES: "samples",
    }
    return names[code]
