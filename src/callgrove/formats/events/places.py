"""Where events happen, over all data sets: nodes, processes and their ranks, devices, lanes as profiles, tables beside
spans.

A profile's identifier tuple is (node, rank, thread) for threads and (node, rank, GPU device, GPU stream) for streams
and queues. Node numbers count machines in the order of their names; the system tree has the names themselves:

    node "node0003"  ->  process "rank 3, pid 1187"  ->  GPU 0 "MI300X"  ->  stream 2
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from pathlib import Path, PurePath

import numpy as np

from callgrove.arrays import ABSENT, MISSING, Array, Bools, Encoded, Ids, Ints, Offsets, find_first_of_equal
from callgrove.formats.events.dataset import DataSet, DeviceColumns, LaneColumns, Process, as_unsigned
from callgrove.formats.events.ranks import ranks_of
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.experiment import Severity
from callgrove.model.profiles import DEFAULT_ID_NAMES, PROFILER, IdentifierTuples, Interpretation, ProfileKind
from callgrove.model.system import System
from callgrove.model.table import Column, Table
from callgrove.model.traces.events import PLACES, Device

__all__ = [
    "add_places",
    "are_of_program",
    "process_and_device",
    "tables_beside",
]


NODE, RANK, THREAD, DEVICE, STREAM = (
    DEFAULT_ID_NAMES.index(name) for name in ("NODE", "RANK", "THREAD", "GPUDEVICE", "GPUSTREAM")
)
STREAMS = (ProfileKind.GPU_STREAM, ProfileKind.QUEUE)


def add_places(
    builder: ExperimentBuilder, datasets: Sequence[DataSet], rank_variable: str, runs: Sequence[int]
) -> list[Ids]:
    """Add profiles and the system tree; return for every data set the profile of each of its lanes. `runs` has the run
    of every process: each has ranks of its own."""
    processes = [process for dataset in datasets for process in dataset.processes]
    files = [dataset.path for dataset in datasets for _ in dataset.processes]
    ranks, notes = _ranks_in_runs(processes, files, rank_variable, runs)
    for note in notes:
        builder.warn(Severity.NOTE, note)
    places = Places.of(datasets)
    nodes, of_run = np.array(_node_numbers(processes), np.int64), np.array(runs, np.int32)
    first = _add_profiles(builder, places, nodes, np.array(ranks, np.int64), of_run)
    builder.set_system(*_make_system_tree(places, processes, nodes, np.array(ranks, np.int64)))
    bounds = (first + places.first_lane).tolist()
    return [np.arange(start, end, dtype=np.int32) for start, end in pairwise(bounds)]


@dataclass(frozen=True)
class Places:
    """The lanes and devices of all data sets, one after the other. Of each data set there is the number of its first
    process, lane and device, and at last of all of them. Lanes name processes and devices by their numbers over all
    data sets."""

    lanes: LaneColumns
    devices: DeviceColumns
    first_process: Ints
    first_lane: Ints
    first_device: Ints

    @classmethod
    def of(cls, datasets: Sequence[DataSet]) -> Places:
        """Return the places of data sets."""
        lanes, devices = [d.lane_columns() for d in datasets], [d.device_columns() for d in datasets]
        firsts = [_firsts([len(dataset.processes) for dataset in datasets])]
        firsts += [_firsts(list(map(len, parts))) for parts in (lanes, devices)]
        every = LaneColumns.join(lanes)
        n_lanes = np.diff(firsts[1])
        process = every.process + np.repeat(firsts[0][:-1], n_lanes)
        device = np.where(every.device == ABSENT, ABSENT, every.device + np.repeat(firsts[2][:-1], n_lanes))
        return cls(replace(every, process=process, device=device), DeviceColumns.join(devices), *firsts)


def _firsts(n: Sequence[int]) -> Ints:
    """Return where each of several lists begins when they follow each other, and where the last one ends."""
    return np.append(0, np.cumsum(np.array(n, np.int64)))


def _ranks_in_runs(
    processes: Sequence[Process], files: Sequence[Path], variable: str, runs: Sequence[int]
) -> tuple[list[int], list[str]]:
    """Return the rank of every process in its run, and notes about them."""
    ranks, said = [0] * len(processes), dict[str, None]()
    for run in dict.fromkeys(runs):
        members = [k for k, number in enumerate(runs) if number == run]
        run_ranks, notes = ranks_of([processes[k] for k in members], [files[k] for k in members], variable)
        said |= dict.fromkeys(notes)
        for k, rank in zip(members, run_ranks, strict=True):
            ranks[k] = rank
    return ranks, list(said)


def are_of_program(datasets: Sequence[DataSet]) -> Bools:
    """Return, by profile, whether it is of the program's own execution on a host: no device, nor the profiler."""
    lanes = LaneColumns.join([dataset.lane_columns() for dataset in datasets])
    return np.asarray((lanes.device == ABSENT) & ~lanes.of_profiler)


def process_and_device(datasets: Sequence[DataSet]) -> tuple[Ints, Ints]:
    """Return, by profile, the number of its process over all data sets and of its device in its data set."""
    parts = [dataset.lane_columns() for dataset in datasets]
    lanes, firsts = LaneColumns.join(parts), _firsts([len(dataset.processes) for dataset in datasets])
    return lanes.process + np.repeat(firsts[:-1], list(map(len, parts))), lanes.device


def _node_numbers(processes: Sequence[Process]) -> list[int]:
    """Return the node number of every process. Containers give one machine many host names, so machines are counted, in
    the order of their hosts."""
    if all(process.node != ABSENT for process in processes):
        return [process.node for process in processes]
    numbers: dict[str, int] = {}
    for host, machine in sorted({(p.host, p.machine) for p in processes}):
        numbers.setdefault(machine or host, len(numbers))
    return [numbers[p.machine or p.host] for p in processes]


def _add_profiles(builder: ExperimentBuilder, places: Places, nodes: Ints, ranks: Ints, runs: Ids) -> int:
    """Add the profile of every lane, given node, rank and run of every process; return the first one's number."""
    lanes = places.lanes
    if not len(lanes):
        return builder.n_profiles
    names = tuple(lanes.name) if any(lanes.name) else None
    identifiers = _identifiers(places, nodes, ranks)
    return builder.add_profiles(lanes.kind, identifiers, run=runs[lanes.process], names=names)[0]


def _identifiers(places: Places, nodes: Ints, ranks: Ints) -> IdentifierTuples:
    """Return node and rank of every lane; then the thread, or device and stream."""
    lanes = places.lanes
    is_thread, is_stream = lanes.kind == ProfileKind.THREAD, np.isin(lanes.kind, STREAMS)
    number = as_unsigned(lanes.number)
    device = np.append(as_unsigned(places.devices.index), np.uint64(2**64 - 1))[lanes.device]
    has_device = (lanes.device != ABSENT) & (device != np.uint64(2**64 - 1)) & ~is_thread
    everywhere = np.ones(len(lanes), np.bool_)
    columns = (  # kind, numbers, which lanes have one
        (NODE, as_unsigned(nodes)[lanes.process], everywhere),
        (RANK, as_unsigned(ranks)[lanes.process], everywhere),
        (THREAD, number, is_thread),
        (DEVICE, device, has_device),
        (STREAM, number, is_stream),
    )
    present = np.stack([has for _, _, has in columns], axis=1)
    kind = np.broadcast_to(np.array([kind for kind, _, _ in columns], np.int32), present.shape)[present]
    physical = np.stack([numbers for _, numbers, _ in columns], axis=1)[present]
    is_local = kind == THREAD
    logical = physical.copy()
    logical[is_local] = _number_threads(lanes)[is_thread]
    interpretation = np.where(is_local, Interpretation.LOGICAL_LOCAL, Interpretation.SINGLE).astype(np.int32)
    bounds = np.append(0, np.cumsum(present.sum(axis=1)))
    return IdentifierTuples(bounds, kind, physical, logical, interpretation)


def _number_threads(lanes: LaneColumns) -> Ints:
    """Return the logical number of every thread in its process, by thread id; 0 for what is not a thread."""
    threads = np.flatnonzero(lanes.kind == ProfileKind.THREAD)
    threads = threads[np.argsort(lanes.number[threads], kind="stable")]
    order = threads[np.argsort(lanes.process[threads], kind="stable")]
    process = lanes.process[order]
    out = np.zeros(len(lanes), np.int64)
    out[order] = np.arange(len(order)) - np.searchsorted(process, process)
    return out


# The system tree: everything stands below what is directly around it, which precedes it where it is the first there.
# Data sets come one after the other, of each the processes and then the lanes:
#
#     node 0   process 0   process 1   GPU 0   stream 1   stream 2   GPU 1   stream 1   process 2   GPU 0   ...
#
# Devices of one number in one process are one place.

KINDS = ("node", "process", "device", PROFILER, "thread")
GUID = re.compile(r"[0-9A-Za-z_-]+")
NODE_PLACE, PROCESS_PLACE, DEVICE_PLACE, PROFILER_PLACE, LEAF = range(len(KINDS))


@dataclass(frozen=True)
class _Order:
    """Where things stand in the tree: the node of every process, the process, what is above every lane, and the lane.
    `groups` are the lanes that come first below their device or below the profiler, `hosts` the processes that come
    first on their node."""

    node: Ints
    process: Ints
    above: Ints
    leaf: Ints
    groups: Ints
    hosts: Ints


def _order_tree(places: Places, nodes: Ints) -> _Order:
    lanes = places.lanes
    first_on_node, first_in_group = find_first_of_equal(nodes), _find_groups(places)
    is_host = first_on_node == np.arange(len(nodes))
    is_first = first_in_group == np.arange(len(lanes))
    entry_of_process = np.arange(len(nodes)) + np.repeat(places.first_lane[:-1], np.diff(places.first_process))
    entry_of_lane = np.arange(len(lanes)) + np.repeat(places.first_process[1:], np.diff(places.first_lane))
    n_places = np.ones(len(nodes) + len(lanes), np.int64)
    n_places[entry_of_process[is_host]] = n_places[entry_of_lane[is_first]] = 2
    last = np.cumsum(n_places) - 1
    process, leaf = last[entry_of_process], last[entry_of_lane]
    above = np.where(first_in_group >= 0, leaf[first_in_group] - 1, process[lanes.process])
    hosts, groups = np.flatnonzero(is_host), np.flatnonzero(is_first)
    return _Order((process - 1)[first_on_node], process, above, leaf, groups, hosts)


def _find_groups(places: Places) -> Ints:
    """Return for every lane the first one below the same device or profiler; -1 for lanes that are directly below
    their process."""
    lanes = places.lanes
    is_on_device = lanes.device != ABSENT
    kind = np.where(is_on_device, DEVICE_PLACE, np.where(lanes.of_profiler, PROFILER_PLACE, LEAF))
    number = np.where(is_on_device, np.append(_device_numbers(places), 0)[lanes.device], 0)
    return np.where(kind == LEAF, ABSENT, find_first_of_equal(lanes.process, kind, number))


def _device_numbers(places: Places) -> Ints:
    return as_unsigned(places.devices.index).view(np.int64)


class _SystemTree:
    """A system tree that is filled by kind of place."""

    def __init__(self, n: int) -> None:
        self._parent, self._kind = np.full(n, ABSENT, np.int32), np.zeros(n, np.uint8)
        self._name, self._rank = np.full(n, "", object), np.full(n, ABSENT, np.int64)
        self._attributes: dict[int, Mapping[str, str]] = {}

    def put(self, at: Ints, kind: int, names: Sequence[str], parent: Ints | int, number: Ints | int) -> None:
        """Set places of one kind."""
        self._kind[at], self._parent[at], self._rank[at] = kind, parent, number
        self._name[at] = names

    def describe(self, at: Ints, attributes: Iterable[Mapping[str, str]]) -> None:
        """Set attributes of places; those without any have none."""
        self._attributes |= {place: said for place, said in zip(at.tolist(), attributes, strict=True) if said}

    def finish(self) -> System:
        kinds = Encoded(self._kind, KINDS)
        return System(
            self._parent, kinds, tuple(self._name.tolist()), self._rank, dict(sorted(self._attributes.items()))
        )


def _make_system_tree(places: Places, processes: Sequence[Process], nodes: Ints, ranks: Ints) -> tuple[System, Ids]:
    """Return the system tree, and the leaf of every lane, given the node and rank of every process."""
    order = _order_tree(places, nodes)
    tree = _SystemTree(len(order.hosts) + len(processes) + len(order.groups) + len(places.lanes))
    _put_processes(tree, order, processes, nodes, ranks)
    _put_groups(tree, order, places)
    lanes = places.lanes
    kinds_and_numbers = zip(lanes.name, lanes.kind.tolist(), lanes.number.tolist(), strict=True)
    names = [name or f"{ProfileKind(kind).word} {number}" for name, kind, number in kinds_and_numbers]
    tree.put(order.leaf, LEAF, names, order.above, ABSENT)
    return tree.finish(), order.leaf.astype(np.int32)


def _put_processes(tree: _SystemTree, order: _Order, processes: Sequence[Process], nodes: Ints, ranks: Ints) -> None:
    hosts, numbers = [processes[k] for k in order.hosts.tolist()], nodes[order.hosts]
    names = [process.host or f"node {node}" for process, node in zip(hosts, numbers.tolist(), strict=True)]
    tree.put(order.node[order.hosts], NODE_PLACE, names, ABSENT, numbers)
    said = ({"hostname": process.host, "machine_id": process.machine} for process in hosts)
    tree.describe(order.node[order.hosts], map(_without_empty, said))
    tree.put(order.process, PROCESS_PLACE, [f"process {rank}" for rank in ranks.tolist()], order.node, ranks)
    tree.describe(order.process, map(_describe_process, processes))


def _describe_process(process: Process) -> Mapping[str, str]:
    return {
        "pid": str(process.pid),
        "command": process.command,
        "hostname": process.host,
        "guid": process.uid if GUID.fullmatch(process.uid) else PurePath(process.uid).name,  # some make it of a path
    }


def _without_empty(attributes: Mapping[str, str]) -> Mapping[str, str]:
    return {word: text for word, text in attributes.items() if text}


def _put_groups(tree: _SystemTree, order: _Order, places: Places) -> None:
    """Put devices, and the profiler, above the lanes that come first below them."""
    lanes, devices = places.lanes, places.devices
    at, device = order.above[order.groups], lanes.device[order.groups]
    process = order.process[lanes.process[order.groups]]
    is_device = device != ABSENT
    known = device[is_device].tolist()
    names = [f"{devices.kind[k]} {devices.index[k]}" for k in known]
    tree.put(at[is_device], DEVICE_PLACE, names, process[is_device], _device_numbers(places)[known])
    said = ({"name": devices.name[k], "label": devices.label[k]} for k in known)
    tree.describe(at[is_device], map(_without_empty, said))
    tree.put(at[~is_device], PROFILER_PLACE, [PROFILER] * int((~is_device).sum()), process[~is_device], 0)


# The small tables that stand beside spans (`Traces.tables`), over all data sets.


PROCESS = ("guid", "pid", "hostname", "machine_id", "command", "init", "fini")
AGENT = ("part", "type", "type_index", "name", "absolute_index", "logical_index")


def tables_beside(datasets: Sequence[DataSet]) -> Mapping[str, Callable[[], Table]]:
    """Return functions that make the tables beside spans when they are asked for, by name."""
    further = dict.fromkeys(name for dataset in datasets for name in dataset.tables())
    return {
        PLACES: partial(_places, datasets),
        "processes": partial(_processes, datasets),
        "agents": partial(_agents, datasets),
        **{name: partial(_join_tables, datasets, name) for name in further},
    }


def _places(datasets: Sequence[DataSet]) -> Table:
    """Return the table of places of profiles; devices are numbered over all data sets."""
    lanes = Places.of(datasets).lanes
    columns = (Column("process", lanes.process), Column("agent", lanes.device, ABSENT))
    return Table((*columns, Column("number", _lane_numbers(lanes.number))))


def _lane_numbers(numbers: Array) -> Ints | Offsets:
    """Return the numbers of lanes; where one is beyond 63 bits, all of them without a sign, as identifiers are."""
    return as_unsigned(numbers) if numbers.dtype == object else numbers


def _processes(datasets: Sequence[DataSet]) -> Table:
    rows = [
        (
            p.uid,
            p.pid,
            p.host or None,
            p.machine or None,
            p.command or None,
            _time_or_none(p.start_ns),
            _time_or_none(p.end_ns),
        )
        for dataset in datasets
        for p in dataset.processes
    ]
    return Table.from_rows(PROCESS, rows)


def _time_or_none(time_ns: int) -> int | None:
    return None if time_ns == MISSING else time_ns


def _agents(datasets: Sequence[DataSet]) -> Table:
    rows = [
        (
            part,
            d.kind,
            d.index,
            d.attributes.get("name") or d.name or None,
            *(_attribute_number(d, name) for name in AGENT[4:]),
        )
        for part, dataset in enumerate(datasets)
        for d in dataset.devices
    ]
    return Table.from_rows(AGENT, rows)


def _attribute_number(device: Device, attribute: str) -> int | None:
    text = device.attributes.get(attribute)
    return None if text is None else int(text)


def _join_tables(datasets: Sequence[DataSet], name: str) -> Table:
    """Join the tables of all data sets; each row gets its process."""
    parts = list(_with_process(datasets, name))
    names = parts[0].names
    return Table.from_rows(names, [row for part in parts for row in part.rows()])


def _with_process(datasets: Sequence[DataSet], name: str) -> Iterator[Table]:
    for dataset in datasets:
        if name in dataset.tables():
            table, process = dataset.tables()[name](), dataset.processes[0]
            n = len(table)
            yield Table((Column("guid", [process.uid] * n), Column("pid", [process.pid] * n), *table.columns))
