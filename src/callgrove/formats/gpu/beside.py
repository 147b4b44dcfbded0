"""The small tables that stand beside spans (`Traces.tables`), over all data sets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

import numpy as np

from callgrove.formats.gpu.dataset import DataSet, Device
from callgrove.formats.gpu.places import process_and_device
from callgrove.formats.gpu.sqlite_file import MISSING
from callgrove.model.arrays import ABSENT
from callgrove.model.table import Column, Table
from callgrove.model.traces import PLACES

__all__ = ["tables_beside"]

PROCESS = ("guid", "pid", "hostname", "machine_id", "command", "init", "fini")
AGENT = ("part", "type", "type_index", "name", "absolute_index", "logical_index")


def tables_beside(datasets: Sequence[DataSet]) -> Mapping[str, Callable[[], Table]]:
    """Each of them is made when it is asked for."""
    further = dict.fromkeys(name for dataset in datasets for name in dataset.tables())
    return {
        PLACES: partial(_places, datasets),
        "processes": partial(_processes, datasets),
        "agents": partial(_agents, datasets),
        **{name: partial(_joined, datasets, name) for name in further},
    }


def _places(datasets: Sequence[DataSet]) -> Table:
    """Where profiles are; devices are counted through over all data sets."""
    process, own = process_and_device(datasets)
    firsts = np.cumsum([0, *(len(dataset.devices) for dataset in datasets)])
    first = np.repeat(firsts[:-1], [len(dataset.lanes) for dataset in datasets])
    agent = np.where(own == ABSENT, ABSENT, own + first)
    number = np.array([lane.number for dataset in datasets for lane in dataset.lanes], np.int64)
    return Table((Column("process", process), Column("agent", agent, ABSENT), Column("number", number)))


def _processes(datasets: Sequence[DataSet]) -> Table:
    rows = [
        (p.uid, p.pid, p.host or None, p.machine or None, p.command or None, _known(p.start_ns), _known(p.end_ns))
        for dataset in datasets
        for p in dataset.processes
    ]
    return Table.from_rows(PROCESS, rows)


def _known(time_ns: int) -> int | None:
    return None if time_ns == MISSING else time_ns


def _agents(datasets: Sequence[DataSet]) -> Table:
    rows = [
        (part, d.kind, d.index, d.attributes.get("name") or d.name or None, *(_number(d, name) for name in AGENT[4:]))
        for part, dataset in enumerate(datasets)
        for d in dataset.devices
    ]
    return Table.from_rows(AGENT, rows)


def _number(device: Device, attribute: str) -> int | None:
    text = device.attributes.get(attribute)
    return None if text is None else int(text)


def _joined(datasets: Sequence[DataSet], name: str) -> Table:
    """The tables of all data sets, each row with the process it belongs to."""
    parts = list(_with_process(datasets, name))
    names = parts[0].names
    return Table.from_rows(names, [row for part in parts for row in part.rows()])


def _with_process(datasets: Sequence[DataSet], name: str) -> Iterator[Table]:
    for dataset in datasets:
        if name in dataset.tables():
            table, process = dataset.tables()[name](), dataset.processes[0]
            n = len(table)
            yield Table((Column("guid", [process.uid] * n), Column("pid", [process.pid] * n), *table.columns))
