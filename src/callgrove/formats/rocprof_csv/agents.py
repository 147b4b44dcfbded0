"""The file about devices: a row for each device of each process that says more of it than its number."""

from __future__ import annotations

import re

from callgrove.formats.rocprof_csv.cells import quoted
from callgrove.formats.rocprof_csv.places import Places
from callgrove.formats.rocprof_csv.tables import AGENT_INFO, agent_columns
from callgrove.model.devices import Device
from callgrove.model.experiment import Experiment

__all__ = ["agent_rows"]

NUMBER = re.compile(r"-?[0-9.e+-]*", re.ASCII)  # or nothing


def agent_rows(tables: Experiment, places: Places) -> bytes:
    """The whole file; empty where nothing is known of any device."""
    lines = []
    for number, part in enumerate(tables.traces.parts()):
        own = part.tolist()
        guids = list(dict.fromkeys(places.guid[profile] for profile in own))
        devices = [device for device in tables.traces.devices(number) if own and device.attributes.get("logical_index")]
        lines += [_row(guids[min(device.process, len(guids) - 1)], device) for device in devices]
    if not lines:
        return b""
    return b"\n".join([b",".join(map(quoted, AGENT_INFO)), *lines, b""])


def _row(guid: str, device: Device) -> bytes:
    told = {"type": device.kind, "name": device.name, **device.attributes}
    cells = [quoted(guid)]
    for _, word, is_text in agent_columns():
        cell = told.get(word, "")
        is_number = not is_text and NUMBER.fullmatch(cell)
        cells.append(cell.encode() if is_number else quoted(cell))
    return b",".join(cells)
