"""Where events happen, over all data sets: nodes, processes, devices, and the lanes as profiles.

A profile's identifier tuple is (node, rank, thread) for threads and (node, rank, GPU device, GPU stream) for streams
and queues. Node numbers count machines in the order of their names; the system tree has the names themselves:

    node "node0003"  ->  process "rank 3, pid 1187"  ->  GPU 0 "MI300X"  ->  stream 2
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath

import numpy as np

from callgrove.formats.gpu.dataset import DataSet, Lane, Process
from callgrove.formats.gpu.ranks import ranks_of
from callgrove.model.arrays import ABSENT, Ids, Ints
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.experiment import Severity
from callgrove.model.profiles import DEFAULT_ID_NAMES, Identifier, Interpretation, ProfileKind
from callgrove.model.system import System

__all__ = ["add_places", "process_and_device"]

NODE, RANK, THREAD, DEVICE, STREAM = (
    DEFAULT_ID_NAMES.index(name) for name in ("NODE", "RANK", "THREAD", "GPUDEVICE", "GPUSTREAM")
)
STREAMS = (ProfileKind.GPU_STREAM, ProfileKind.QUEUE)


@dataclass(frozen=True)
class Place:
    """Where a process is among all of them."""

    node: int
    rank: int
    run: int


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
    nodes = _node_numbers(processes)
    places = iter([Place(node, rank, run) for node, rank, run in zip(nodes, ranks, runs, strict=True)])
    tree = _SystemTree()
    profiles = [
        _add_profiles(builder, tree, dataset, [next(places) for _ in dataset.processes]) for dataset in datasets
    ]
    builder.set_system(tree.finished(), np.array(tree.leaves, np.int32))
    return profiles


def _ranks_in_runs(
    processes: Sequence[Process], files: Sequence[Path], variable: str, runs: Sequence[int]
) -> tuple[list[int], list[str]]:
    """The rank of every process in its run, and what there is to say about them."""
    ranks, said = [0] * len(processes), dict[str, None]()
    for run in dict.fromkeys(runs):
        own = [k for k, number in enumerate(runs) if number == run]
        found, notes = ranks_of([processes[k] for k in own], [files[k] for k in own], variable)
        said |= dict.fromkeys(notes)
        for k, rank in zip(own, found, strict=True):
            ranks[k] = rank
    return ranks, list(said)


def process_and_device(datasets: Sequence[DataSet]) -> tuple[Ints, Ints]:
    """By profile: numbers of processes over all data sets, and of the device in its data set."""
    lanes = [lane for dataset in datasets for lane in dataset.lanes]
    firsts = np.cumsum([0, *(len(dataset.processes) for dataset in datasets)])
    owner = np.repeat(firsts[:-1], [len(dataset.lanes) for dataset in datasets])
    own = np.array([lane.process for lane in lanes], np.int64)
    return owner + own, np.array([lane.device for lane in lanes], np.int64)


def _node_numbers(processes: Sequence[Process]) -> list[int]:
    """Containers give one machine many host names: machines are what counts, hosts are what people know."""
    if all(process.node != ABSENT for process in processes):
        return [process.node for process in processes]
    numbers: dict[str, int] = {}
    for host, machine in sorted({(p.host, p.machine) for p in processes}):
        numbers.setdefault(machine or host, len(numbers))
    return [numbers[p.machine or p.host] for p in processes]


def _add_profiles(builder: ExperimentBuilder, tree: _SystemTree, dataset: DataSet, own: Sequence[Place]) -> Ids:
    """The profile of every lane."""
    threads = _threads_in_order(dataset.lanes)
    processes = [tree.process(process, place) for process, place in zip(dataset.processes, own, strict=True)]
    out = []
    for k, lane in enumerate(dataset.lanes):
        identifiers = _identifiers(dataset, lane, own[lane.process], threads[k])
        out.append(builder.add_profile(lane.kind, identifiers, run=own[lane.process].run, name=lane.name))
        above = processes[lane.process]
        if lane.device != ABSENT:
            device = dataset.devices[lane.device]
            about = {"name": device.name, "label": device.label}
            above = tree.below(above, "device", f"{device.kind} {device.index}", device.index, about)
        tree.leaves.append(tree.add(above, "thread", lane.name or f"{lane.kind.word} {lane.number}"))
    return np.array(out, np.int32)


def _threads_in_order(lanes: Sequence[Lane]) -> list[int]:
    """The logical number of every thread in its process, by thread id."""
    out = [0] * len(lanes)
    counts: dict[int, int] = {}
    for k in sorted(range(len(lanes)), key=lambda k: (lanes[k].process, lanes[k].number)):
        if lanes[k].kind == ProfileKind.THREAD:
            out[k] = counts.setdefault(lanes[k].process, 0)
            counts[lanes[k].process] += 1
    return out


def _identifiers(dataset: DataSet, lane: Lane, place: Place, thread: int) -> list[Identifier]:
    out = [_single(NODE, place.node), _single(RANK, place.rank)]
    if lane.kind == ProfileKind.THREAD:
        return [*out, (THREAD, _unsigned(lane.number), thread, Interpretation.LOGICAL_LOCAL)]
    if lane.device != ABSENT and dataset.devices[lane.device].index != ABSENT:
        out.append(_single(DEVICE, dataset.devices[lane.device].index))
    return [*out, _single(STREAM, lane.number)] if lane.kind in STREAMS else out


def _single(kind: int, number: int) -> Identifier:
    return kind, _unsigned(number), _unsigned(number), Interpretation.SINGLE


def _unsigned(number: int) -> int:
    return number & (2**64 - 1)


@dataclass
class _SystemTree:
    """The system tree in the making; groups of one name below one parent are one."""

    parent: list[int] = field(default_factory=list)
    kind: list[str] = field(default_factory=list)
    name: list[str] = field(default_factory=list)
    rank: list[int] = field(default_factory=list)
    attributes: dict[int, Mapping[str, str]] = field(default_factory=dict)
    leaves: list[int] = field(default_factory=list)
    _known: dict[tuple[int, str, int], int] = field(default_factory=dict)

    def add(self, parent: int, kind: str, name: str, rank: int = ABSENT) -> int:
        self.parent.append(parent)
        self.kind.append(kind)
        self.name.append(name)
        self.rank.append(rank)
        return len(self.parent) - 1

    def below(self, parent: int, kind: str, name: str, number: int, attributes: Mapping[str, str]) -> int:
        """The group of that kind and number below a parent."""
        key = (parent, kind, number)
        if key not in self._known:
            self._known[key] = self.add(parent, kind, name, number)
            if said := {word: text for word, text in attributes.items() if text}:
                self.attributes[self._known[key]] = said
        return self._known[key]

    def process(self, process: Process, place: Place) -> int:
        attributes = {"hostname": process.host, "machine_id": process.machine}
        node = self.below(ABSENT, "node", process.host or f"node {place.node}", place.node, attributes)
        own = self.add(node, "process", f"process {place.rank}", place.rank)
        self.attributes[own] = {
            "pid": str(process.pid),
            "command": process.command,
            "hostname": process.host,
            "guid": PurePath(process.uid).name,  # some readers make it of a path
        }
        return own

    def finished(self) -> System:
        return System(
            np.array(self.parent, np.int32),
            tuple(self.kind),
            tuple(self.name),
            np.array(self.rank, np.int64),
            self.attributes,
        )
