"""Data sets -> one experiment.

Every lane is a profile. A profile's identifier tuple is (node, rank, thread) for threads and (node, rank, GPU device,
GPU stream) for streams and queues; node numbers count machines in the order of their names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from callgrove.formats.gpu.dataset import DataSet, Lane, Process
from callgrove.formats.gpu.ranks import ranks_of
from callgrove.formats.gpu.spans import DataSetSpans
from callgrove.formats.gpu.sqlite_file import MISSING
from callgrove.formats.gpu.stack_samples import StackSamples
from callgrove.formats.interface import ReadOptions
from callgrove.model.arrays import ABSENT, Ids, Ints
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.experiment import Experiment, InputWarning, Severity
from callgrove.model.profiles import DEFAULT_ID_NAMES, Identifier, Interpretation, ProfileKind
from callgrove.model.span_profile import SpanFolding
from callgrove.model.traces import Counters

__all__ = ["experiment_of"]

NODE, RANK, THREAD, DEVICE, STREAM = (
    DEFAULT_ID_NAMES.index(name) for name in ("NODE", "RANK", "THREAD", "GPUDEVICE", "GPUSTREAM")
)


@dataclass(frozen=True)
class Place:
    """Where a process is among all of them."""

    node: int
    rank: int


def experiment_of(
    format_name: str,
    path: Path,
    datasets: Sequence[DataSet],
    options: ReadOptions,
    skipped: Sequence[InputWarning] = (),
) -> Experiment:
    """All data sets as one experiment; events stay in their files until asked for."""
    builder = ExperimentBuilder(format_name, ", ".join(sorted({d.version for d in datasets})), path=str(path))
    processes = [(process, dataset.path) for dataset in datasets for process in dataset.processes]
    places = _places(builder, [p for p, _ in processes], [file for _, file in processes], options.rank_env)
    builder.title = _title([process for process, _ in processes]) or path.name
    profiles = [_add_profiles(builder, dataset, places) for dataset in datasets]
    builder.warnings += skipped
    for dataset in datasets:
        builder.warnings += dataset.warnings
        if dataset.live:
            builder.warn(
                Severity.NOTE, f"{dataset.path}: a live database: what was committed when it was opened is read"
            )
    spans = DataSetSpans(datasets, profiles)
    samples = None
    if options.fold:
        SpanFolding(builder, spans, *_process_and_device(datasets)).fold()
        stacks = StackSamples(builder)
        for dataset, own in zip(datasets, profiles, strict=True):
            stacks.add(dataset, own)
        samples = stacks.finish()
    builder.set_traces(
        samples=samples,
        spans=spans,
        counters=_counters(datasets, profiles),
        time_range=_time_range([process for process, _ in processes]),
    )
    return builder.build()


def _process_and_device(datasets: Sequence[DataSet]) -> tuple[Ints, Ints]:
    """By profile: numbers of processes over all data sets, and of the device in its data set."""
    lanes = [lane for dataset in datasets for lane in dataset.lanes]
    firsts = np.cumsum([0, *(len(dataset.processes) for dataset in datasets)])
    owner = np.repeat(firsts[:-1], [len(dataset.lanes) for dataset in datasets])
    return owner + np.array([lane.process for lane in lanes]), np.array([lane.device for lane in lanes])


def _title(processes: Sequence[Process]) -> str:
    """The command that all processes ran, without its arguments where these differ."""
    commands = {process.command for process in processes}
    if len(commands) == 1:
        return commands.pop()
    programs = {command.split(" ")[0] for command in commands}
    return programs.pop() if len(programs) == 1 else ""


def _places(
    builder: ExperimentBuilder, processes: Sequence[Process], files: Sequence[Path], rank_variable: str
) -> dict[str, list[Place]]:
    """Places by data set and process, in order; keyed by the process's uid, which several may share."""
    ranks, notes = ranks_of(processes, files, rank_variable)
    for note in notes:
        builder.warn(Severity.NOTE, note)
    machines = sorted({(p.host, p.machine) for p in processes})
    # Containers give one machine many host names; machines are what counts, hosts are what people know.
    numbers: dict[str, int] = {}
    for host, machine in machines:
        numbers.setdefault(machine or host, len(numbers))
    out: dict[str, list[Place]] = {}
    for process, rank in zip(processes, ranks, strict=True):
        out.setdefault(process.uid, []).append(Place(numbers[process.machine or process.host], rank))
    return out


def _add_profiles(builder: ExperimentBuilder, dataset: DataSet, places: dict[str, list[Place]]) -> Ids:
    """The profile of every lane."""
    own = [places[process.uid].pop(0) for process in dataset.processes]
    threads = _threads_in_order(dataset.lanes)
    return np.array(
        [
            builder.add_profile(lane.kind, _identifiers(dataset, lane, own[lane.process], threads[k]), name=lane.name)
            for k, lane in enumerate(dataset.lanes)
        ],
        np.int32,
    )


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
    if lane.device != ABSENT:
        out.append(_single(DEVICE, dataset.devices[lane.device].index))
    return [*out, _single(STREAM, _unsigned(lane.number))]


def _single(kind: int, number: int) -> Identifier:
    return kind, number, number, Interpretation.SINGLE


def _unsigned(number: int) -> int:
    return number & (2**64 - 1)


def _counters(datasets: Sequence[DataSet], profiles: Sequence[Ids]) -> Counters | None:
    parts = [(d.counters(), own) for d, own in zip(datasets, profiles, strict=True)]
    rows = [(part, own) for part, own in parts if part is not None and len(part.time_ns)]
    if not rows:
        return None
    names: dict[str, int] = {}
    numbers = [np.array([names.setdefault(n, len(names)) for n in part.names], np.int32) for part, _ in rows]
    return Counters(
        np.concatenate([own[part.lane] for part, own in rows]),
        np.concatenate([number[part.name] for number, (part, _) in zip(numbers, rows, strict=True)]),
        np.concatenate([part.time_ns for part, _ in rows]),
        np.concatenate([part.value for part, _ in rows]),
        tuple(names),
    )


def _time_range(processes: Sequence[Process]) -> tuple[int, int] | None:
    known = [p for p in processes if MISSING not in (p.start_ns, p.end_ns)]
    return (min(p.start_ns for p in known), max(p.end_ns for p in known)) if known else None
