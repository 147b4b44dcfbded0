"""The file about devices: a row for each device of each process that says more of it than its number."""

from __future__ import annotations

import re

from callgrove.formats.rocprof_csv.cells import quoted
from callgrove.formats.rocprof_csv.places import Places
from callgrove.formats.rocprof_csv.tables import Layout
from callgrove.model.devices import Device
from callgrove.model.experiment import Experiment

__all__ = ["agent_rows"]

NUMBER = re.compile(r"-?[0-9.e+-]*", re.ASCII)  # or nothing


def agent_rows(tables: Experiment, places: Places, layout: Layout) -> bytes:
    """The whole file; empty where nothing is known of any device."""
    lines = []
    for number, part in enumerate(tables.traces.parts()):
        own = part.tolist()
        guids = list(dict.fromkeys(places.guid[profile] for profile in own))
        devices = [device for device in tables.traces.devices(number) if own and device.attributes.get("logical_index")]
        lines += [_row(guids[min(device.process, len(guids) - 1)], device, layout) for device in devices]
    if not lines:
        return b""
    headers = ["Guid", *(name for name, _, _ in layout.agents)]
    return b"\n".join([b",".join(map(quoted, headers)), *lines, b""])


def _row(guid: str, device: Device, layout: Layout) -> bytes:
    """The kind is a word, whatever number the profiler's JSON has for it."""
    told = {"name": device.name, **device.attributes, "type": device.kind}
    cells = [quoted(guid)]
    for _, word, is_text in layout.agents:
        cell = told.get(word, "")
        is_number = not is_text and NUMBER.fullmatch(cell)
        cells.append(cell.encode() if is_number else quoted(cell))
    return b",".join(cells)
