"""Data sets -> one experiment: every lane is a profile, events stay in their files; small data sets are read several at
once.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np

from callgrove.arrays import ABSENT, MISSING, Array, Ids, Ints, Names, bundles
from callgrove.binary.files import size_of
from callgrove.errors import UsageError, count_of
from callgrove.execute import IN_PROCESS
from callgrove.formats.events.columns import RegionFacts
from callgrove.formats.events.dataset import DataSet, Events, Process, Stacks
from callgrove.formats.events.places import add_places, are_of_program, process_and_device, tables_beside
from callgrove.formats.events.runs import Runs, split_into_runs
from callgrove.formats.events.spans import (
    NESTED_COLUMNS,
    DataSetSpans,
    align_clocks,
    find_depths,
    refuse_unknown_columns,
    select_events,
)
from callgrove.formats.interface import ReadOptions
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.contexts import ContextKind
from callgrove.model.experiment import Experiment, InputWarning, Severity
from callgrove.model.metrics import Metric, Scope
from callgrove.model.runs import Run, choose_runs
from callgrove.model.selection import select, time_span
from callgrove.model.traces.events import ArraySamples, Counters, Samples, SideTable, SpanChunk, Traces, Window
from callgrove.model.traces.profile_from_spans import Folding, Part, fold

__all__ = ["BundledSpans", "JoinedSpans", "StackSamples", "experiment_of"]


# The spans of several small data sets, read at once where these are of a kind that allows it.
#
# The same spans as `DataSetSpans` gives, under the same numbers; chunks mix data sets, and come table by table.


SIZES = ("copy", "alloc")
STACK = "stack"
BUNDLE_BYTES = 8 << 20  # of small files whose events are read at once


class JoinedEvents(Protocol):
    """The events of several data sets, read at once: chunks mix data sets, span numbers run through all of them."""

    @property
    def obstacle(self) -> str:
        """Return why each data set has to be read by itself after all; empty where nothing hinders."""

    @property
    def has_samples(self) -> bool:
        """Return whether a data set may have quantities over time."""

    @property
    def has_stacks(self) -> bool:
        """Return whether a data set may have the side table `stack`."""

    def count(self) -> int: ...
    def events(self, columns: Sequence[str]) -> Sequence[Events]: ...

    def sizes(self, name: str) -> SideTable | None:
        """Return the side table `copy` or `alloc` of all data sets."""

    def give_back(self) -> None:
        """Release the memory of what was read."""


@runtime_checkable
class JoinsDataSets(Protocol):
    """A data set that knows how to read several of its kind at once."""

    def join(self, datasets: Sequence[DataSet], names: Names) -> JoinedEvents | None:
        """Return the events of these data sets with names numbered in `names`; None where some are of another kind."""


class JoinedSpans(DataSetSpans):
    """Spans of data sets whose lanes, one after the other, are the profiles."""

    def __init__(self, datasets: Sequence[DataSet], profiles: Sequence[Ids], names: Names | None = None) -> None:
        super().__init__(datasets, profiles, names)
        # both ways of reading number the same list of names: one may follow the other
        first = datasets[0]
        self._events = first.join(datasets, self._names) if isinstance(first, JoinsDataSets) else None

    @property
    def joined(self) -> JoinedEvents | None:
        """Return the reader of all data sets at once; None where each has to be read by itself."""
        return None if self._events is None or self._events.obstacle else self._events

    def count(self) -> int:
        joined = self.joined
        return super().count() if joined is None else joined.count()

    def chunks(self, columns: Sequence[str], window: Window | None, profiles: Ints | None) -> Iterator[SpanChunk]:
        chunks = self.read_at_once(columns, window, profiles)
        yield from super().chunks(columns, window, profiles) if chunks is None else chunks

    def read_at_once(
        self, columns: Sequence[str], window: Window | None, profiles: Ints | None
    ) -> list[SpanChunk] | None:
        """Read the spans of all data sets at once; None where each data set has to be read by itself."""
        joined = self.joined
        if joined is None:
            return None
        depths = find_depths(joined.count(), joined.events(NESTED_COLUMNS)) if "depth" in columns else None
        asked = {"lane" if name == "profile" else name for name in columns} - {"context", "depth"}
        if window is not None:
            asked |= {"start_ns", "end_ns"}
        if profiles is not None:
            asked.add("lane")
        lanes = np.concatenate(self._profiles)
        out = []
        for chunk in joined.events(sorted(asked)):
            selected = select_events(chunk, window, lanes, profiles)
            spans: dict[str, Array] = {"span": selected["span"]}
            for name in columns:
                if name == "context":
                    spans[name] = np.full(len(spans["span"]), ABSENT, np.int32)
                elif name == "depth" and depths is not None:
                    spans[name] = depths[spans["span"]]
                else:
                    spans[name] = lanes.take(selected["lane"]) if name == "profile" else selected[name]
            out.append(spans)
        return [chunk for chunk in out if len(chunk["span"])]

    def divide(self, columns: Sequence[str]) -> Sequence[DataSetSpans] | None:
        """Read columns of all data sets at once, and return the spans of each with these at hand; None where each has
        to be read by itself."""
        chunks = self.read_at_once(columns, None, None)
        if chunks is None:
            return None
        out: list[list[SpanChunk]] = [[] for _ in self._datasets]
        for chunk in chunks:
            bounds = np.searchsorted(chunk["span"], self.firsts).tolist()
            for number, (begin, end) in enumerate(pairwise(bounds)):
                if begin < end:
                    out[number].append({name: column[begin:end] for name, column in chunk.items()})
        return [self._keep(number, of_part) for number, of_part in enumerate(out)]

    def _keep(self, number: int, chunks: Sequence[SpanChunk]) -> DataSetSpans:
        """Return the spans of a data set by itself, with chunks of them, whose spans and profiles are numbered anew."""
        first, lanes = self.firsts[number], int(self._profiles[number][0]) if len(self._profiles[number]) else 0
        kept = [{**c, "span": c["span"] - first, "profile": c["profile"] - lanes} for c in chunks]
        missing = () if self._events is None or self._events.has_stacks else (STACK,)
        return SpansAtHand(self._datasets[number], len(self._profiles[number]), self._names, kept, missing)

    def release(self) -> None:
        super().release()
        if self._events is not None:
            self._events.give_back()

    def side(self, name: str, part: int | None = None) -> SideTable | None:
        joined = self.joined if part is None and name in (*SIZES, STACK) else None
        if joined is None or (name == STACK and joined.has_stacks):
            return super().side(name, part)
        return joined.sizes(name) if name in SIZES else None

    @property
    def has_counters(self) -> bool:
        """Return whether there may be quantities over time; these belong to samples."""
        joined = self.joined
        return joined is None or joined.has_samples


class SpansAtHand(DataSetSpans):
    """Spans of a data set of which some columns were read, `profile` among them; others are read when asked for.
    `missing` are side tables that it is known not to have."""

    def __init__(
        self, dataset: DataSet, n_lanes: int, names: Names, chunks: Sequence[SpanChunk], missing: Collection[str]
    ) -> None:
        super().__init__([dataset], [np.arange(n_lanes, dtype=np.int32)], names)
        self._chunks, self._missing = chunks, missing

    def side_chunks(self, name: str, part: int) -> Iterator[SideTable]:
        if name not in self._missing:
            yield from super().side_chunks(name, part)

    def chunks(self, columns: Sequence[str], window: Window | None, profiles: Ints | None) -> Iterator[SpanChunk]:
        is_at_hand = all(name in chunk for chunk in self._chunks for name in columns)
        if not is_at_hand or window is not None or profiles is not None:
            yield from super().chunks(columns, window, profiles)
            return
        for chunk in self._chunks:
            yield {name: chunk[name] for name in ("span", *columns)}


class BundledSpans(DataSetSpans):
    """Spans of data sets of which small ones are read several at once, where that is possible. They come as they do
    elsewhere: data set after data set, by number."""

    def chunks(self, columns: Sequence[str], window: Window | None, profiles: Ints | None) -> Iterator[SpanChunk]:
        refuse_unknown_columns(columns)
        asked = list(self._data_sets_with(profiles))
        sizes = _sizes([self._datasets[number] for number, _ in asked])
        for first, end in bundles(sizes, BUNDLE_BYTES):
            some = asked[first:end]
            read = self._read_together([number for number, _ in some], columns, window, profiles)
            for number, wanted in some if read is None else ():
                yield from self._chunks_of(number, columns, window, wanted)
            yield from read or ()

    def _read_together(
        self, numbers: Sequence[int], columns: Sequence[str], window: Window | None, profiles: Ints | None
    ) -> list[SpanChunk] | None:
        """Return the spans of some data sets, a chunk for each that has any; None where each has to be read alone."""
        if len(numbers) < 2:
            return None
        joined = JoinedSpans([self._datasets[k] for k in numbers], [self._profiles[k] for k in numbers], self._names)
        try:
            chunks = joined.read_at_once(columns, window, profiles)
        finally:
            joined.release()
        if not chunks:
            return chunks
        together = {name: np.concatenate([chunk[name] for chunk in chunks]) for name in chunks[0]}
        order = np.argsort(together["span"], kind="stable")
        firsts = np.append(0, np.cumsum([self.firsts[k + 1] - self.firsts[k] for k in numbers]))
        bounds = np.searchsorted(together["span"][order], firsts).tolist()
        out: list[SpanChunk] = []
        for k, number in enumerate(numbers):
            rows = order[bounds[k] : bounds[k + 1]]
            if len(rows):
                chunk = {name: column[rows] for name, column in together.items()}
                out.append({**chunk, "span": chunk["span"] + (self.firsts[number] - firsts[k])})
        return out


# Samples of call stacks -> contexts, sample lines and a count of samples.


UNKNOWN_FRAME = "[unknown]"


class StackSamples:
    """The stacks of all data sets: equal frames below one context are one context."""

    def __init__(self, builder: ExperimentBuilder) -> None:
        self._builder = builder
        self._contexts: dict[tuple[int, str, str, int], int] = {}
        self._lines: list[tuple[int, Samples]] = []

    def add(self, dataset: DataSet, profiles: Ids) -> None:
        """Add the samples of one data set. Contexts are those of the builder before it orders them."""
        stacks = dataset.stacks()
        if stacks is None:
            return
        leaf = self._leaves(stacks, dataset.strings)
        for lane in np.unique(stacks.lane).tolist():
            samples = np.flatnonzero(stacks.lane == lane)
            samples = samples[np.argsort(stacks.time_ns[samples], kind="stable")]
            self._lines.append((int(profiles[lane]), Samples(stacks.time_ns[samples], leaf[samples])))

    def _leaves(self, stacks: Stacks, strings: Sequence[str]) -> Ids:
        """Return the context of the innermost frame of every sample; contexts are made level by level, the outermost
        first."""
        first, last = stacks.bounds[:-1], stacks.bounds[1:]
        above = np.full(len(first), ABSENT, np.int64)
        for level in range(int((last - first).max(initial=0))):
            deep = np.flatnonzero(last - first > level)
            frame = first[deep] + level
            keys = np.stack([above[deep], stacks.function[frame], stacks.file[frame], stacks.line[frame]])
            different, number = np.unique(keys, axis=1, return_inverse=True)
            contexts = [self._context(p, f, place, line, strings) for p, f, place, line in different.T.tolist()]
            above[deep] = np.array(contexts, np.int64)[number.reshape(-1)]
        return above.astype(np.int32)

    def _context(self, parent: int, function: int, file: int, line: int, strings: Sequence[str]) -> int:
        name = strings[function] if function >= 0 else UNKNOWN_FRAME
        path = strings[file] if file >= 0 else ""
        key = (parent, name, path, line)
        if key not in self._contexts:
            place = self._builder.file(path) if path else ABSENT
            region = self._builder.region(ContextKind.FUNCTION, name, file=place, line=line)
            self._contexts[key] = self._builder.add_context(parent, ContextKind.FUNCTION, region)
        return self._contexts[key]

    def finish(self) -> ArraySamples | None:
        """Return the sample lines with final contexts, and add a count of samples to the builder. Nothing may be added
        afterwards."""
        if not self._lines:
            return None
        row = self._builder.add_metric(Metric("samples", Scope.EXCLUSIVE, "occ", "int64", description="Stack samples"))
        final = np.append(self._builder.order(), ABSENT)
        for profile, samples in self._lines:
            context, count = np.unique(samples.context[samples.context >= 0], return_counts=True)
            self._builder.add_values(profile, context, row, count)
        return ArraySamples(
            np.array([profile for profile, _ in self._lines], np.int32),
            np.full(len(self._lines), ABSENT, np.int32),
            tuple(Samples(samples.time_ns, final[samples.context].astype(np.int32)) for _, samples in self._lines),
        )


def experiment_of(
    format_name: str,
    path: Path,
    datasets: Sequence[DataSet],
    options: ReadOptions,
    skipped: Sequence[InputWarning] = (),
) -> Experiment:
    """Return all data sets, or those of the runs that are asked for, as one experiment. Events stay in their files
    until they are needed."""
    runs = split_into_runs(datasets)  # by the clocks as they are
    if not options.run or len(runs.runs) == 1:
        whole = _experiment_of(format_name, path, datasets, options, skipped, runs)
        if options.run:
            _choose(whole.runs, options.run, path)
        return whole
    chosen = _choose(runs.runs, options.run, path)
    selected, processes = _of_runs(datasets, runs, chosen)
    beside = sorted({runs.of_process[process] for process in processes} - set(chosen))  # in the same files
    selected_runs = runs.take([*chosen, *beside], processes)
    experiment = _experiment_of(format_name, _place(path, selected), selected, options, skipped, selected_runs)
    return _without(experiment, range(len(chosen))) if beside else experiment


def _choose(runs: Sequence[Run], wanted: str, path: Path) -> tuple[int, ...]:
    try:
        return choose_runs(runs, wanted)
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from None


def _of_runs(datasets: Sequence[DataSet], runs: Runs, numbers: Sequence[int]) -> tuple[list[DataSet], list[int]]:
    """Return the data sets with a process of these runs, and the numbers of all their processes."""
    selected: list[DataSet] = []
    processes: list[int] = []
    first = 0
    for dataset in datasets:
        members = range(first, first + len(dataset.processes))
        first = members.stop
        if any(runs.of_process[process] in numbers for process in members):
            selected.append(dataset)
            processes += members
    return selected, processes


def _place(path: Path, datasets: Sequence[DataSet]) -> Path:
    """Return the only file of the data sets, the folder that they share if it lies below the input, or else the
    input."""
    files = {dataset.path for dataset in datasets}
    folder = Path(os.path.commonpath([file.parent for file in files]))
    return files.pop() if len(files) == 1 else folder if path in folder.parents else path


def _name_of_input(path: Path, datasets: Sequence[DataSet]) -> str:
    """Return what a message calls the input: the folder, or the first of several files."""
    others = len({dataset.path for dataset in datasets}) - 1
    return f"{path} and {others} more" if others and path.is_file() else str(path)


def _without(experiment: Experiment, runs: range) -> Experiment:
    """Return the experiment reduced to the first runs, with the time that these took."""
    profiles = np.flatnonzero(np.isin(experiment.profiles.run, list(runs)))
    reduced = replace(select(experiment, profiles=profiles), runs=experiment.runs[: runs.stop])
    traces = replace(reduced.traces, time_range=None)
    return replace(reduced, traces=replace(traces, time_range=time_span(traces)))


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
    jobs = runs.note(_name_of_input(path, datasets))
    datasets, notes = align_clocks(datasets, options.align)
    processes = [process for dataset in datasets for process in dataset.processes]
    builder.title = _title(processes) or path.name
    builder.warnings += [*skipped, *notes, *jobs, *_again(datasets)]
    spans, time_range = BundledSpans(datasets, profiles), _time_range(processes)
    if options.fold:
        folding = _fold(builder, datasets, profiles, options)
        builder.warnings += folding.warnings
        time_range = time_range or folding.time_range
    stacks = StackSamples(builder)
    for dataset, lane_profiles in zip(datasets, profiles, strict=True):
        stacks.add(dataset, lane_profiles)
    builder.set_traces(
        samples=stacks.finish(),
        spans=spans,
        counters=_counters(datasets, profiles) if options.fold else partial(_counters, datasets, profiles),
        time_range=time_range,
        split=partial(_part, datasets, list(map(len, profiles)))
        if all(dataset.is_shareable for dataset in datasets)
        else None,
        tables=tables_beside(datasets),
        part_sizes=_sizes(datasets),
    )
    known = set(builder.warnings)
    for dataset in datasets:  # now that all was read: dangling ids and cells that are not numbers show only then
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
    """Return the calling-context profile of all events, folding small data sets several at a time."""
    process, device = process_and_device(datasets)
    is_program = are_of_program(datasets)
    n_lanes = list(map(len, profiles))
    firsts = [0, *accumulate(n_lanes)]
    parts = []
    for first, end in bundles(_sizes(datasets), BUNDLE_BYTES):
        bundle = slice(firsts[first], firsts[end])
        lanes = np.concatenate(profiles[first:end])
        parts.append(
            Part(_part(datasets, n_lanes, first, end), lanes, process[bundle], device[bundle], is_program[bundle])
        )
    workers = options.workers if all(dataset.is_shareable for dataset in datasets) else IN_PROCESS
    folding = Folding(builder, partial(_region, builder, _regions_of(datasets)))
    for folded in workers.map(fold, parts, label="folding events", progress=options.progress):
        if folded is not None:
            folding.add(folded)
    folding.finish()
    return folding


def _regions_of(datasets: Sequence[DataSet]) -> dict[str, RegionFacts]:
    """Return what data sets say of regions, by their names."""
    facts: dict[str, RegionFacts] = {}
    for dataset in datasets:
        facts |= getattr(dataset, "regions", {})
    return facts


def _region(builder: ExperimentBuilder, known: Mapping[str, RegionFacts], kind: ContextKind, name: str) -> int:
    facts = known.get(name)
    if facts is None:
        return builder.region(kind, name)
    file = builder.file(facts.file) if facts.file else ABSENT
    return builder.region(
        kind,
        name,
        file=file,
        line=facts.line,
        end_line=facts.end_line,
        role=facts.role.lower(),
        paradigm=facts.paradigm.lower(),
    )


def _again(datasets: Sequence[DataSet]) -> list[InputWarning]:
    """Return notes about processes that are in two files: copies, or a file that was merged from others beside it."""
    files: dict[tuple[str, str, int, int], list[Path]] = {}
    for dataset in datasets:
        for process in dataset.processes:
            if process.start_ns != MISSING:
                key = (process.uid, process.machine, process.pid, process.start_ns)
                files.setdefault(key, []).append(dataset.path)
    twice = [paths for paths in files.values() if len(paths) > 1]
    if not twice:
        return []
    many = count_of(len(twice), "process is", "processes are")
    text = f"{many} in several databases, such as {twice[0][0]} and {twice[0][1]}: what they did counts more than once"
    return [InputWarning(Severity.NOTE, f"{text}; name only one of these")]


def _title(processes: Sequence[Process]) -> str:
    """Return the command that all processes ran, without its arguments where these differ."""
    commands = {process.command for process in processes}
    if len(commands) == 1:
        return commands.pop()
    programs = {command.split(" ")[0] for command in commands}
    return programs.pop() if len(programs) == 1 else ""


def _part(datasets: Sequence[DataSet], n_lanes: Sequence[int], first: int, end: int | None = None) -> Traces:
    """Return the traces of some data sets, whose lanes are the profiles."""
    some = slice(first, first + 1 if end is None else end)
    selected, bounds = datasets[some], [0, *accumulate(n_lanes[some])]
    profiles = [np.arange(*ends, dtype=np.int32) for ends in pairwise(bounds)]
    if len(selected) == 1:
        return Traces(None, DataSetSpans(selected, profiles), partial(_counters, selected, profiles))
    spans = JoinedSpans(selected, profiles)
    return Traces(None, spans, partial(_join_counters, spans, selected, profiles))


def _join_counters(spans: JoinedSpans, datasets: Sequence[DataSet], profiles: Sequence[Ids]) -> Counters | None:
    return _counters(datasets, profiles) if spans.has_counters else None


def _sizes(datasets: Sequence[DataSet]) -> list[int]:
    """Return the bytes that each data set takes of its file."""
    n = Counter(dataset.path for dataset in datasets)
    return [size_of(dataset.path) // n[dataset.path] for dataset in datasets]


def _counters(datasets: Sequence[DataSet], profiles: Sequence[Ids]) -> Counters | None:
    parts = [(d.counters(), lane_profiles) for d, lane_profiles in zip(datasets, profiles, strict=True)]
    rows = [(part, lane_profiles) for part, lane_profiles in parts if part is not None and len(part.time_ns)]
    if not rows:
        return None
    names: dict[str, int] = {}
    numbers = [np.array([names.setdefault(n, len(names)) for n in part.names], np.int32) for part, _ in rows]
    return Counters(
        np.concatenate([lane_profiles[part.lane] for part, lane_profiles in rows]),
        np.concatenate([number[part.name] for number, (part, _) in zip(numbers, rows, strict=True)]),
        np.concatenate([part.time_ns for part, _ in rows]),
        np.concatenate([part.value for part, _ in rows]),
        tuple(names),
    )


def _time_range(processes: Sequence[Process]) -> tuple[int, int] | None:
    """Return the time from the begin of the first process to the end of the last, where the files tell it."""
    known = [p for p in processes if p.lasted]
    return (min(p.start_ns for p in known), max(p.end_ns for p in known)) if known else None
