"""Data sets -> one experiment: every lane is a profile, events stay in their files."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import accumulate, pairwise
from pathlib import Path

import numpy as np

from callgrove.errors import UsageError
from callgrove.execute import IN_PROCESS
from callgrove.formats.gpu.aligning import aligned
from callgrove.formats.gpu.beside import tables_beside
from callgrove.formats.gpu.dataset import DataSet, Process
from callgrove.formats.gpu.files import size_of
from callgrove.formats.gpu.jobs import Runs, split_into_runs
from callgrove.formats.gpu.joined_files import BUNDLE_BYTES
from callgrove.formats.gpu.joined_spans import JoinedSpans
from callgrove.formats.gpu.places import add_places, process_and_device
from callgrove.formats.gpu.spans import DataSetSpans
from callgrove.formats.gpu.sqlite_file import MISSING
from callgrove.formats.gpu.stack_samples import StackSamples
from callgrove.formats.interface import ReadOptions
from callgrove.model.arrays import Ids
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.experiment import Experiment, InputWarning, Severity
from callgrove.model.grouping import bundles
from callgrove.model.runs import Run, choose_runs
from callgrove.model.selection import select, time_span
from callgrove.model.span_profile import Folding, Part, fold
from callgrove.model.traces import Counters, Traces

__all__ = ["experiment_of"]


def experiment_of(
    format_name: str,
    path: Path,
    datasets: Sequence[DataSet],
    options: ReadOptions,
    skipped: Sequence[InputWarning] = (),
) -> Experiment:
    """All data sets as one experiment, or those of the runs that are asked for; events stay in their files until asked
    for."""
    runs = split_into_runs(datasets)  # by the clocks as they are
    if not options.run or len(runs.runs) == 1:
        whole = _experiment_of(format_name, path, datasets, options, skipped, runs)
        if options.run:
            _choose(whole.runs, options.run, path)
        return whole
    chosen = _choose(runs.runs, options.run, path)
    kept, processes = _of_runs(datasets, runs, chosen)
    beside = sorted({runs.of_process[process] for process in processes} - set(chosen))  # in the same files
    own = runs.take([*chosen, *beside], processes)
    found = _experiment_of(format_name, _place(path, kept), kept, options, skipped, own)
    return _without(found, range(len(chosen))) if beside else found


def _choose(runs: Sequence[Run], wanted: str, path: Path) -> tuple[int, ...]:
    try:
        return choose_runs(runs, wanted)
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from None


def _of_runs(datasets: Sequence[DataSet], runs: Runs, numbers: Sequence[int]) -> tuple[list[DataSet], list[int]]:
    """The data sets with a process of these runs, and the numbers of all their processes."""
    kept: list[DataSet] = []
    processes: list[int] = []
    first = 0
    for dataset in datasets:
        own = range(first, first + len(dataset.processes))
        first = own.stop
        if any(runs.of_process[process] in numbers for process in own):
            kept.append(dataset)
            processes += own
    return kept, processes


def _place(path: Path, datasets: Sequence[DataSet]) -> Path:
    """The file that all data sets are in, or the folder, if that is not the whole."""
    files = {dataset.path for dataset in datasets}
    folder = Path(os.path.commonpath([file.parent for file in files]))
    return files.pop() if len(files) == 1 else folder if path in folder.parents else path


def _named(path: Path, datasets: Sequence[DataSet]) -> str:
    """How a message calls the input: the folder, or the first file of several."""
    others = len({dataset.path for dataset in datasets}) - 1
    return f"{path} and {others} more" if others and path.is_file() else str(path)


def _without(experiment: Experiment, runs: range) -> Experiment:
    """The experiment of the first runs alone, with the time that these took."""
    profiles = np.flatnonzero(np.isin(experiment.profiles.run, list(runs)))
    found = replace(select(experiment, profiles=profiles), runs=experiment.runs[: runs.stop])
    traces = replace(found.traces, time_range=None)
    return replace(found, traces=replace(traces, time_range=time_span(traces)))


def _experiment_of(
    format_name: str,
    path: Path,
    datasets: Sequence[DataSet],
    options: ReadOptions,
    skipped: Sequence[InputWarning],
    runs: Runs,
) -> Experiment:
    builder = ExperimentBuilder(format_name, ", ".join(sorted({d.version for d in datasets})), path=str(path))
    profiles = add_places(builder, datasets, options.rank_env, runs.of_process)  # may depend on the clocks as they are
    for run in runs.runs if len(runs.runs) > 1 else ():
        builder.add_run(run)
    jobs = runs.note(_named(path, datasets))
    datasets, notes = aligned(datasets, options.align)
    processes = [process for dataset in datasets for process in dataset.processes]
    builder.title = _title(processes) or path.name
    builder.warnings += [*skipped, *notes, *jobs, *_again(datasets)]
    spans, time_range = DataSetSpans(datasets, profiles), _time_range(processes)
    if options.fold:
        folding = _fold(builder, datasets, profiles, options)
        builder.warnings += folding.warnings
        time_range = time_range or folding.time_range
    stacks = StackSamples(builder)
    for dataset, own in zip(datasets, profiles, strict=True):
        stacks.add(dataset, own)
    builder.set_traces(
        samples=stacks.finish(),
        spans=spans,
        counters=_counters(datasets, profiles) if options.fold else partial(_counters, datasets, profiles),
        time_range=time_range,
        split=None if any(dataset.live for dataset in datasets) else partial(_part, datasets),
        tables=tables_beside(datasets),
        part_sizes=_sizes(datasets),
    )
    known = set(builder.warnings)
    for dataset in datasets:  # now that all was read: dangling ids and cells that are no numbers show only then
        builder.warnings += [warning for warning in dataset.warnings if warning not in known]
        if dataset.live:
            builder.warn(
                Severity.NOTE,
                f"{dataset.path}: a live database, or one whose writer did not finish: "
                "what was committed when it was opened is read",
            )
    return builder.build()


def _fold(
    builder: ExperimentBuilder, datasets: Sequence[DataSet], profiles: Sequence[Ids], options: ReadOptions
) -> Folding:
    """The calling-context profile of all events, small data sets some at a time."""
    process, device = process_and_device(datasets)
    firsts = [0, *accumulate(len(own) for own in profiles)]
    parts = []
    for first, end in bundles(_sizes(datasets), BUNDLE_BYTES):
        own = slice(firsts[first], firsts[end])
        lanes = np.concatenate(profiles[first:end])
        parts.append(Part(_part(datasets, first, end), lanes, process[own], device[own]))
    workers = IN_PROCESS if any(dataset.live for dataset in datasets) else options.workers
    folding = Folding(builder)
    for folded in workers.map(fold, parts, label="folding events", progress=options.progress):
        if folded is not None:
            folding.add(folded)
    folding.finish()
    return folding


def _again(datasets: Sequence[DataSet]) -> list[InputWarning]:
    """A note where one process is in two files: a copy, or one that was merged of others beside it."""
    files: dict[tuple[str, str, int, int], list[Path]] = {}
    for dataset in datasets:
        for process in dataset.processes:
            if process.start_ns != MISSING:
                key = (process.uid, process.machine, process.pid, process.start_ns)
                files.setdefault(key, []).append(dataset.path)
    twice = [paths for paths in files.values() if len(paths) > 1]
    if not twice:
        return []
    many = "1 process is" if len(twice) == 1 else f"{len(twice)} processes are"
    text = f"{many} in several databases, such as {twice[0][0]} and {twice[0][1]}: what they did counts more than once"
    return [InputWarning(Severity.NOTE, f"{text}; name only one of these")]


def _title(processes: Sequence[Process]) -> str:
    """The command that all processes ran, without its arguments where these differ."""
    commands = {process.command for process in processes}
    if len(commands) == 1:
        return commands.pop()
    programs = {command.split(" ")[0] for command in commands}
    return programs.pop() if len(programs) == 1 else ""


def _part(datasets: Sequence[DataSet], first: int, end: int | None = None) -> Traces:
    """The traces of some data sets; their lanes are the profiles."""
    own = datasets[first : first + 1 if end is None else end]
    bounds = [0, *accumulate(len(dataset.lanes) for dataset in own)]
    profiles = [np.arange(*ends, dtype=np.int32) for ends in pairwise(bounds)]
    if len(own) == 1:
        return Traces(None, DataSetSpans(own, profiles), partial(_counters, own, profiles))
    spans = JoinedSpans(own, profiles)
    return Traces(None, spans, partial(_joined_counters, spans, own, profiles))


def _joined_counters(spans: JoinedSpans, datasets: Sequence[DataSet], profiles: Sequence[Ids]) -> Counters | None:
    return _counters(datasets, profiles) if spans.has_counters else None


def _sizes(datasets: Sequence[DataSet]) -> list[int]:
    """Bytes that each data set takes of its file."""
    n = Counter(dataset.path for dataset in datasets)
    return [size_of(dataset.path) // n[dataset.path] for dataset in datasets]


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
    """From the begin of the first process to the end of the last, where the files say that."""
    known = [p for p in processes if p.lasted]
    return (min(p.start_ns for p in known), max(p.end_ns for p in known)) if known else None
