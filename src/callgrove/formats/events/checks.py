"""What `check` says about recorded events: all that reading warns of, and how many events are strange."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from callgrove.arrays import ABSENT, Ints
from callgrove.execute import IN_PROCESS, Workers
from callgrove.formats.events.spans import HOST_KINDS
from callgrove.formats.interface import Problem
from callgrove.model.experiment import Experiment, Severity
from callgrove.model.traces.events import PLACES, SpanChunk, SpanKind, Traces
from callgrove.model.traces.intervals import usable
from callgrove.model.traces.pairing import launch_calls

__all__ = ["find_problems"]

ON_DEVICE = (SpanKind.KERNEL, SpanKind.COPY, SpanKind.MEMSET)
BUNDLE_BYTES = 8 << 20  # of small parts that are looked at together
COLUMNS = ("profile", "kind", "start_ns", "end_ns", "correlation")


def find_problems(experiment: Experiment, workers: Workers = IN_PROCESS) -> Iterator[Problem]:
    """Yield warnings first, then the numbers of flagged events and of operations without a call, which workers count
    where events can be read part by part."""
    for warning in experiment.warnings:
        file, _, text = warning.text.partition(": ")
        about_file = text and (Path(file).suffix or file == experiment.path)
        yield Problem(warning.severity, *((file, "", text) if about_file else (experiment.path, "", warning.text)))
    tasks = list(_tasks(experiment))
    counts = map(_count, tasks) if len(tasks) < 2 else workers.map(_count, tasks, label="looking at events")
    read, flagged, nameless, dangling = np.array([*counts, (0, 0, 0, 0)], np.int64).sum(axis=0).tolist()
    for n, text in (
        (flagged, "end before they start or have no usable time; they are in no sum"),
        (nameless, "are operations of devices that name no launching call"),
        (dangling, "are operations of devices whose correlation leads to no call"),
    ):
        if n:
            yield Problem(Severity.NOTE, experiment.path, "events", f"{n} of {read} {text}")


Task = tuple[Traces, Ints, Ints]  # the process and the part of every profile
Counts = tuple[int, int, int, int]  # events read, flagged, without a call, with one that is not there


def _tasks(experiment: Experiment) -> Iterator[Task]:
    """Yield bundles of parts that can be read by themselves; else all events as one."""
    traces = experiment.traces
    process = np.array(traces.tables[PLACES]().column("process").plain(), np.int64)
    parts = traces.parts()
    bundles = [(0, len(parts))] if traces.split is None else traces.bundles(BUNDLE_BYTES)
    for first, end in bundles:
        numbers = np.repeat(np.arange(end - first), [len(part) for part in parts[first:end]])
        profiles = np.concatenate([np.empty(0, np.int64), *parts[first:end]]).astype(np.int64)
        if traces.split is not None:
            yield traces.split(first, end), process[profiles], numbers
        else:
            part_of = np.full(len(experiment.profiles), ABSENT, np.int64)
            part_of[profiles] = numbers
            yield Traces(spans_backend=traces.spans_backend), process, part_of


def _count(task: Task) -> Counts:
    traces, process, part_of = task
    events = _Events(process, part_of)
    for chunk in traces.spans(COLUMNS):
        events.add(chunk)
    events.finish_part()
    return events.read, events.flagged, events.nameless, events.dangling


class _Events:
    """Counts of strange events. Memory holds the correlations of one part, which contains a call and what it
    launches."""

    def __init__(self, process: Ints, part_of: Ints) -> None:
        self.read = self.flagged = self.nameless = self.dangling = 0
        self._process, self._part_of = process, part_of
        self._part = ABSENT
        self._calls: list[Ints] = []  # (process, correlation) of host events of the part
        self._operations: list[Ints] = []

    def add(self, chunk: SpanChunk) -> None:
        """Count the events of a chunk; chunks of one part must follow each other."""
        part = int(self._part_of[chunk["profile"][0]])
        if part != self._part:
            self.finish_part()
            self._part = part
        kind, correlation = chunk["kind"], chunk["correlation"]
        keys = np.stack([self._process[chunk["profile"]], correlation])
        on_device = np.isin(kind, ON_DEVICE)
        self.read += len(kind)
        self.flagged += int((~usable(chunk["start_ns"], chunk["end_ns"])).sum())
        self.nameless += int((on_device & (correlation < 0)).sum())
        self._calls.append(keys[:, np.isin(kind, HOST_KINDS) & (correlation >= 0)])
        self._operations.append(keys[:, on_device & (correlation >= 0)])

    def finish_part(self) -> None:
        if self._operations:
            (process, asked), (theirs, calls) = np.hstack(self._operations), np.hstack(self._calls)
            callers = launch_calls(asked, process, calls, theirs, np.zeros(len(calls), np.int64))
            self.dangling += int((callers == ABSENT).sum())
        self._calls, self._operations = [], []
