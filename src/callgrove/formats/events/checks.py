"""What `check` says about recorded events: all that reading warns of, and how many events are strange."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from callgrove.arrays import ABSENT, Ints
from callgrove.formats.events.spans import HOST_KINDS
from callgrove.formats.interface import Problem
from callgrove.model.experiment import Experiment, Severity
from callgrove.model.traces.events import PLACES, SpanChunk, SpanKind
from callgrove.model.traces.intervals import usable
from callgrove.model.traces.pairing import launch_calls

__all__ = ["find_problems"]

ON_DEVICE = (SpanKind.KERNEL, SpanKind.COPY, SpanKind.MEMSET)
COLUMNS = ("profile", "kind", "start_ns", "end_ns", "correlation")


def find_problems(experiment: Experiment) -> Iterator[Problem]:
    """Yield warnings first, then the numbers of flagged events and of operations without a call."""
    for warning in experiment.warnings:
        file, _, text = warning.text.partition(": ")
        about_file = text and (Path(file).suffix or file == experiment.path)
        yield Problem(warning.severity, *((file, "", text) if about_file else (experiment.path, "", warning.text)))
    events = _Events(experiment)
    for chunk in experiment.traces.spans(COLUMNS):
        events.add(chunk)
    events.finish_part()
    for n, text in (
        (events.flagged, "end before they start or have no usable time; they are in no sum"),
        (events.nameless, "are operations of devices that name no launching call"),
        (events.dangling, "are operations of devices whose correlation leads to no call"),
    ):
        if n:
            yield Problem(Severity.NOTE, experiment.path, "events", f"{n} of {events.read} {text}")


class _Events:
    """Counts of strange events. Memory holds the correlations of one part, which contains a call and what it
    launches."""

    def __init__(self, experiment: Experiment) -> None:
        self.read = self.flagged = self.nameless = self.dangling = 0
        traces, n = experiment.traces, len(experiment.profiles)
        places = traces.tables[PLACES]()
        self._process = np.array(places.column("process").plain(), np.int64)
        self._part_of = np.full(n, ABSENT, np.int64)
        for number, profiles in enumerate(traces.parts()):
            self._part_of[profiles] = number
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
