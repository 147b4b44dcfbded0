"""Where events happen, over all data sets: nodes, processes and their ranks, devices, lanes as profiles, tables beside
spans.

A profile's identifier tuple is (node, rank, thread) for threads and (node, rank, GPU device, GPU stream) for streams
and queues. Node numbers count machines in the order of their names; the system tree has the names themselves:

    node "node0003"  ->  process "rank 3, pid 1187"  ->  GPU 0 "MI300X"  ->  stream 2
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path, PurePath

import numpy as np

from callgrove.arrays import ABSENT, MISSING, Bools, Ids, Ints, Offsets
from callgrove.errors import Parameter, UsageError
from callgrove.formats.events.dataset import DataSet, Lane, Process
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.experiment import Severity
from callgrove.model.profiles import DEFAULT_ID_NAMES, PROFILER, IdentifierTuples, Interpretation, ProfileKind
from callgrove.model.system import System
from callgrove.model.table import Column, Table
from callgrove.model.traces.events import PLACES, Device

__all__ = [
    "RANK_VARIABLES",
    "add_places",
    "are_of_program",
    "process_and_device",
    "ranks_of",
    "read_claimed_ranks",
    "read_ranks_in_names",
    "tables_beside",
]


# Which rank a process is.
#
# Specification: gpu-traces.md 2.4. The first rule that answers for all processes wins:
#
#     1. the user names an environment variable (`ReadOptions.rank_env`)
#     2. the data says so (MPI_RANKS, metadata)
#     3. a launcher's variable in the environment that was recorded
#     4. a number in the path (rank3, .r3., _3.db), the last one if there are several, if all have one and all differ
#     5. the order of (host, start, pid, uid)
#
# Two processes that claim one rank make the claim worthless for all.


# Most specific first. MPI_LOCALRANKID counts within a node and is not a rank.
RANK_VARIABLES = (
    "PMIX_RANK",
    "OMPI_COMM_WORLD_RANK",
    "PMI_RANK",
    "MV2_COMM_WORLD_RANK",
    "MPT_MPI_RANK",
    "PALS_RANKID",
    "FLUX_TASK_RANK",
    "SLURM_PROCID",
    "JSM_NAMESPACE_RANK",
    "ALPS_APP_PE",
    "PMI_ID",
)
FILE_NUMBERS = tuple(
    map(re.compile, (r"rank[_-]?(\d+)", r"\.r(\d+)\.", r"[_-](\d+)\.(?:db|proto|pftrace|perfetto-trace)$"))
)

Claims = list[int]


def ranks_of(processes: Sequence[Process], paths: Sequence[Path], variable: str = "") -> tuple[list[int], list[str]]:
    """Return the rank of every process, and what a user should know about how it was found."""
    if variable:
        claims = [_parse_number(p.environment.get(variable)) for p in processes]
        if ABSENT in claims:
            unset = processes[claims.index(ABSENT)]
            raise UsageError(
                Parameter("rank_env", variable),
                f": the recorded environment of process {unset.pid} on {unset.host or 'its node'}"
                " does not have it as a number",
            )
        return claims, _twice(claims, variable)
    notes: list[str] = []
    for claim in (_told, _from_environment, lambda p: read_ranks_in_names(paths)):
        claims = claim(processes)
        if not claims or ABSENT in claims:
            continue
        if len(set(claims)) == len(claims):
            return claims, notes
        notes = ["two processes claim the same rank: ranks follow the order of host, start and process number"]
        break
    return _by_order(processes), notes


def read_claimed_ranks(processes: Sequence[Process]) -> Claims:
    """Return the ranks that the data itself tells, which may come twice; empty where not all processes have one."""
    return next((claims for claims in (_told(processes), _from_environment(processes)) if ABSENT not in claims), [])


def _twice(claims: Claims, variable: str) -> list[str]:
    if len(set(claims)) == len(claims):
        return []
    return [f"{variable} gives several processes the same rank"]


def _told(processes: Sequence[Process]) -> Claims:
    return [p.rank for p in processes]


def _from_environment(processes: Sequence[Process]) -> Claims:
    for variable in RANK_VARIABLES:
        claims = [_parse_number(p.environment.get(variable)) for p in processes]
        if ABSENT in claims:
            continue
        if variable == "SLURM_PROCID" and len(set(claims)) < len(claims) and not any(map(_many_tasks, processes)):
            continue  # every job step without tasks says 0
        return claims
    return []


def _many_tasks(process: Process) -> bool:
    return _parse_number(process.environment.get("SLURM_NTASKS")) > 1


def read_ranks_in_names(paths: Sequence[Path]) -> Claims:
    """Return the ranks that the names of files tell; empty where not all have one, or two have the same."""
    for pattern in FILE_NUMBERS:
        matches = [pattern.findall(path.as_posix()) for path in paths]
        claims = [int(numbers[-1]) for numbers in matches if numbers]
        if len(claims) == len(paths) and len(set(claims)) == len(claims):
            return claims
    return []


def _by_order(processes: Sequence[Process]) -> Claims:
    key: Callable[[int], tuple[str, int, int, str]] = lambda k: (  # noqa: E731
        processes[k].host,
        processes[k].start_ns,
        processes[k].pid,
        processes[k].uid,
    )
    ranks = [0] * len(processes)
    for rank, k in enumerate(sorted(range(len(processes)), key=key)):
        ranks[k] = rank
    return ranks


def _parse_number(text: str | None) -> int:
    return int(text) if text is not None and text.isascii() and text.isdigit() and len(text) < 10 else ABSENT


NODE, RANK, THREAD, DEVICE, STREAM = (
    DEFAULT_ID_NAMES.index(name) for name in ("NODE", "RANK", "THREAD", "GPUDEVICE", "GPUSTREAM")
)
STREAMS = (ProfileKind.GPU_STREAM, ProfileKind.QUEUE)


@dataclass(frozen=True)
class Place:
    """The number of a process's node, its rank and its run."""

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
    places = [Place(node, rank, run) for node, rank, run in zip(nodes, ranks, runs, strict=True)]
    owners, _ = process_and_device(datasets)
    first = _add_profiles(builder, datasets, places, owners)
    tree = _SystemTree()
    ends = iter(np.cumsum([len(dataset.processes) for dataset in datasets]).tolist())
    for dataset in datasets:
        end = next(ends)
        tree.add_lanes(dataset, places[end - len(dataset.processes) : end])
    builder.set_system(tree.finish(), np.array(tree.leaves, np.int32))
    bounds = first + np.cumsum([0, *(len(dataset.lanes) for dataset in datasets)])
    return [np.arange(start, end, dtype=np.int32) for start, end in pairwise(bounds.tolist())]


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
    lanes = [lane for dataset in datasets for lane in dataset.lanes]
    return np.array([lane.device == ABSENT and not lane.of_profiler for lane in lanes], np.bool_)


def process_and_device(datasets: Sequence[DataSet]) -> tuple[Ints, Ints]:
    """Return, by profile, the number of its process over all data sets and of its device in its data set."""
    lanes = [lane for dataset in datasets for lane in dataset.lanes]
    firsts = np.cumsum([0, *(len(dataset.processes) for dataset in datasets)])
    owner = np.repeat(firsts[:-1], [len(dataset.lanes) for dataset in datasets])
    local = np.array([lane.process for lane in lanes], np.int64)
    return owner + local, np.array([lane.device for lane in lanes], np.int64)


def _node_numbers(processes: Sequence[Process]) -> list[int]:
    """Return the node number of every process. Containers give one machine many host names, so machines are counted, in
    the order of their hosts."""
    if all(process.node != ABSENT for process in processes):
        return [process.node for process in processes]
    numbers: dict[str, int] = {}
    for host, machine in sorted({(p.host, p.machine) for p in processes}):
        numbers.setdefault(machine or host, len(numbers))
    return [numbers[p.machine or p.host] for p in processes]


def _add_profiles(
    builder: ExperimentBuilder, datasets: Sequence[DataSet], places: Sequence[Place], owners: Ints
) -> int:
    """Add the profile of every lane, given the number of its process over all data sets; return the first one's."""
    lanes = [lane for dataset in datasets for lane in dataset.lanes]
    if not lanes:
        return builder.n_profiles
    kinds = np.array([lane.kind for lane in lanes], np.int32)
    run = np.array([place.run for place in places], np.int32)[owners]
    names = [lane.name for lane in lanes]
    identifiers = _identifiers(datasets, lanes, kinds, places, owners)
    return builder.add_profiles(kinds, identifiers, run=run, names=tuple(names) if any(names) else None)[0]


def _identifiers(
    datasets: Sequence[DataSet], lanes: Sequence[Lane], kinds: Ids, places: Sequence[Place], owners: Ints
) -> IdentifierTuples:
    """Return node and rank of every lane; then the thread, or device and stream."""
    is_thread, is_stream = kinds == ProfileKind.THREAD, np.isin(kinds, STREAMS)
    number = _as_unsigned(lane.number for lane in lanes)
    devices = [
        dataset.devices[lane.device].index if lane.device != ABSENT else ABSENT
        for dataset in datasets
        for lane in dataset.lanes
    ]
    has_device = np.array([index != ABSENT for index in devices]) & ~is_thread
    everywhere = np.ones(len(lanes), np.bool_)
    columns = (  # kind, numbers, which lanes have one
        (NODE, _as_unsigned(place.node for place in places)[owners], everywhere),
        (RANK, _as_unsigned(place.rank for place in places)[owners], everywhere),
        (THREAD, number, is_thread),
        (DEVICE, _as_unsigned(devices), has_device),
        (STREAM, number, is_stream),
    )
    present = np.stack([has for _, _, has in columns], axis=1)
    kind = np.broadcast_to(np.array([kind for kind, _, _ in columns], np.int32), present.shape)[present]
    physical = np.stack([numbers for _, numbers, _ in columns], axis=1)[present]
    is_local = kind == THREAD
    logical = physical.copy()
    logical[is_local] = _number_threads(lanes, owners)[is_thread]
    interpretation = np.where(is_local, Interpretation.LOGICAL_LOCAL, Interpretation.SINGLE).astype(np.int32)
    bounds = np.append(0, np.cumsum(present.sum(axis=1)))
    return IdentifierTuples(bounds, kind, physical, logical, interpretation)


def _number_threads(lanes: Sequence[Lane], owners: Ints) -> Ints:
    """Return the logical number of every thread in its process, by thread id; 0 for what is not a thread."""
    threads = [
        (process, lane.number, k)
        for k, (process, lane) in enumerate(zip(owners.tolist(), lanes, strict=True))
        if lane.kind == ProfileKind.THREAD
    ]
    threads.sort()
    out = np.zeros(len(lanes), np.int64)
    order = np.array([k for _, _, k in threads], np.int64)
    process = owners[order]
    out[order] = np.arange(len(order)) - np.searchsorted(process, process)
    return out


def _as_unsigned(numbers: Iterable[int]) -> Offsets:
    return np.array([number & (2**64 - 1) for number in numbers], np.uint64)


@dataclass
class _SystemTree:
    """A system tree that grows; groups of one name below one parent are one."""

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
        """Return the group of a kind and number below a parent, adding it when it is new."""
        key = (parent, kind, number)
        if key not in self._known:
            self._known[key] = self.add(parent, kind, name, number)
            if said := {word: text for word, text in attributes.items() if text}:
                self.attributes[self._known[key]] = said
        return self._known[key]

    def add_lanes(self, dataset: DataSet, places: Sequence[Place]) -> None:
        """Add a leaf for every lane of a data set, and what is above it."""
        processes = [self.process(process, place) for process, place in zip(dataset.processes, places, strict=True)]
        groups: dict[tuple[int, int, bool], int] = {}
        for lane in dataset.lanes:
            key = lane.process, lane.device, lane.of_profiler
            if (above := groups.get(key)) is None:
                above = groups[key] = self._above(processes[lane.process], dataset, lane)
            self.leaves.append(self.add(above, "thread", lane.name or f"{lane.kind.word} {lane.number}"))

    def _above(self, process: int, dataset: DataSet, lane: Lane) -> int:
        """Return what a lane is directly below: its device, the profiler, or the process."""
        if lane.device != ABSENT:
            device = dataset.devices[lane.device]
            about = {"name": device.name, "label": device.label}
            return self.below(process, "device", f"{device.kind} {device.index}", device.index, about)
        return self.below(process, PROFILER, PROFILER, 0, {}) if lane.of_profiler else process

    def process(self, process: Process, place: Place) -> int:
        attributes = {"hostname": process.host, "machine_id": process.machine}
        node = self.below(ABSENT, "node", process.host or f"node {place.node}", place.node, attributes)
        number = self.add(node, "process", f"process {place.rank}", place.rank)
        self.attributes[number] = {
            "pid": str(process.pid),
            "command": process.command,
            "hostname": process.host,
            "guid": PurePath(process.uid).name,  # some readers make it of a path
        }
        return number

    def finish(self) -> System:
        return System(
            np.array(self.parent, np.int32),
            tuple(self.kind),
            tuple(self.name),
            np.array(self.rank, np.int64),
            self.attributes,
        )


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
    process, device = process_and_device(datasets)
    firsts = np.cumsum([0, *(len(dataset.devices) for dataset in datasets)])
    first = np.repeat(firsts[:-1], [len(dataset.lanes) for dataset in datasets])
    agent = np.where(device == ABSENT, ABSENT, device + first)
    number = _lane_numbers([lane.number for dataset in datasets for lane in dataset.lanes])
    return Table((Column("process", process), Column("agent", agent, ABSENT), Column("number", number)))


def _lane_numbers(numbers: Sequence[int]) -> Ints | Offsets:
    """Return the numbers of lanes; where one is beyond 63 bits, all of them without a sign, as identifiers are."""
    try:
        return np.array(numbers, np.int64)
    except OverflowError:
        return _as_unsigned(numbers)


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
