"""What only some events of rocprofv3's databases have: grids, bytes, arguments, counters."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from callgrove.formats.gpu.cells import Type
from callgrove.formats.gpu.dataset import CounterRows
from callgrove.formats.gpu.lookup import Lookup
from callgrove.formats.gpu.tables import or_absent
from callgrove.model.arrays import ABSENT, Array, Ints
from callgrove.model.traces import SideTable

if TYPE_CHECKING:
    from callgrove.formats.gpu.rocpd import RocpdData

__all__ = ["counter_rows", "side_table"]

INTEGER, REAL, TEXT = Type.INTEGER, Type.REAL, Type.TEXT
KERNEL_COLUMNS = {
    **{f"grid_{axis}": f"grid_size_{axis}" for axis in "xyz"},
    **{f"workgroup_{axis}": f"workgroup_size_{axis}" for axis in "xyz"},
    "lds": "group_segment_size",
    "scratch": "private_segment_size",
    "dispatch": "dispatch_id",
    "kernel": "kernel_id",
    "queue": "queue_id",
    "thread": "tid",
}
REGISTERS = {"vgpr": "arch_vgpr_count", "accum_vgpr": "accum_vgpr_count", "sgpr": "sgpr_count"}


def side_table(data: RocpdData, name: str) -> SideTable | None:
    read = {"kernel": _kernels, "copy": _copies, "alloc": _allocations}
    read |= {"argument": _arguments, "counter": _counter_values}
    return read[name](data) if name in read else None


def _kernels(data: RocpdData) -> SideTable | None:
    table = data.side_of(data.table_name("kernel_dispatch"), KERNEL_COLUMNS)
    if table is None:
        return None
    symbols = data.small("info_kernel_symbol", id=INTEGER, **dict.fromkeys(REGISTERS.values(), INTEGER))
    place = Lookup(symbols["id"], np.arange(len(symbols["id"])))[np.asarray(table.columns["kernel"])]
    registers = {new: np.append(or_absent(symbols[old]), ABSENT)[place] for new, old in REGISTERS.items()}
    return SideTable(table.span, {**table.columns, **registers})


def _copies(data: RocpdData) -> SideTable | None:
    columns = {"bytes": "size", "source": "src_agent_id", "destination": "dst_agent_id", "queue": "queue_id"}
    return _with_devices(data, data.side_of(data.table_name("memory_copy"), columns), "source", "destination")


def _allocations(data: RocpdData) -> SideTable | None:
    columns = {"bytes": "size", "address": "address", "device": "agent_id", "level": "level", "queue": "queue_id"}
    return _with_devices(data, data.side_of(data.table_name("memory_allocate"), columns, texts=("level",)), "device")


def _with_devices(data: RocpdData, table: SideTable | None, *names: str) -> SideTable | None:
    """Columns that hold ids of agents, as numbers of devices."""
    if table is None:
        return None
    devices = {name: data.devices_of(np.asarray(table.columns[name])) for name in names}
    return SideTable(table.span, {**table.columns, **devices})


def _arguments(data: RocpdData) -> SideTable:
    rows = data.small("arg", event_id=INTEGER, position=INTEGER, type=TEXT, name=TEXT, value=TEXT)
    span = data.span_of_event[rows["event_id"]].astype(np.int64)
    known = span >= 0
    return SideTable(span[known], {name: cells[known] for name, cells in rows.items() if name != "event_id"})


def _counter_values(data: RocpdData) -> SideTable:
    """Counters of kernels, one row per value; those of samples are counters over time."""
    rows = data.small("pmc_event", event_id=INTEGER, pmc_id=INTEGER, value=REAL)
    span = data.span_of_event[rows["event_id"]].astype(np.int64)
    samples = data.table_name("sample")
    end = data.first(samples) if samples in data.counts else data.count()
    known = (span >= 0) & (span < end)
    return SideTable(span[known], {"name": _counter_names(data, rows["pmc_id"][known]), "value": rows["value"][known]})


def _counter_names(data: RocpdData, ids: Ints) -> Array:
    rows = data.small("info_pmc", id=INTEGER, name=TEXT)
    place = Lookup(rows["id"], np.arange(len(rows["id"])))[ids]
    return np.append(rows["name"], "unknown counter")[place]


def counter_rows(data: RocpdData) -> CounterRows | None:
    """Counters over time: those of samples."""
    rows = data.small("pmc_event", event_id=INTEGER, pmc_id=INTEGER, value=REAL)
    samples = data.small("sample", track_id=INTEGER, timestamp=INTEGER, event_id=INTEGER)
    if not len(rows["value"]) or not len(samples["event_id"]):
        return None
    place = Lookup(samples["event_id"], np.arange(len(samples["event_id"])))[rows["event_id"]]
    known = place >= 0
    if not known.any():
        return None
    at = place[known]
    lane = data.lanes_of_tracks(samples["track_id"][at])
    texts, number = np.unique(_counter_names(data, rows["pmc_id"][known]).astype(str), return_inverse=True)
    times, values = samples["timestamp"][at], rows["value"][known]
    return CounterRows(lane, number.astype(np.int32), times, values, tuple(texts.tolist()))
