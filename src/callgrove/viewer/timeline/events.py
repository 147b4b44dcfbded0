"""Samples and spans as events, chunk by chunk.

A sample lasts until the next one of its line; the last one of a line says only when the trace ended. Where nothing ran
(context -1) there is no event. Spans that end before they start, or at times that no clock shows, are left out and
counted. Times are ns since the beginning of the timeline.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from callgrove.model.arrays import ABSENT, Array, Ints
from callgrove.model.experiment import Experiment
from callgrove.model.intervals import usable
from callgrove.model.traces import LABEL, SpanKind, Window
from callgrove.viewer.timeline.rows import Rows, rows_of

__all__ = ["MOST_LEVELS", "N_KINDS", "Events", "Survey", "sample_events", "span_events", "survey"]

N_KINDS = max(SpanKind) + 1
MOST_LEVELS = 64
COLUMNS = ("profile", "kind", LABEL, "start_ns", "end_ns", "depth")


@dataclass(frozen=True)
class Events:
    """Columns of events. The name of a sample is its context; that of a span is the number of its text times
    `N_KINDS`, and its kind."""

    row: Ints
    level: Ints
    name: Ints
    start: Ints
    end: Ints

    def __len__(self) -> int:
        return len(self.row)

    def take(self, chosen: Array) -> Events:
        return Events(*(getattr(self, name)[chosen] for name in self.__dataclass_fields__))

    @classmethod
    def joined(cls, parts: list[Events]) -> Events:
        empty = np.empty(0, np.int64)
        return cls(*(np.concatenate([empty, *(getattr(p, n) for p in parts)]) for n in cls.__dataclass_fields__))


@dataclass(frozen=True)
class Survey:
    """What there is: rows, the time from the first to the last moment, and what cannot be shown."""

    rows: Rows
    window: Window
    n_samples: int
    n_spans: int
    n_flagged: int  # spans with times that cannot be
    n_deep: int  # spans nested more deeply than is shown


def survey(experiment: Experiment, profiles: Ints) -> Survey | None:
    """One pass over all times of some profiles; None where there is nothing over time."""
    chosen = np.zeros(len(experiment.profiles), np.bool_)
    chosen[profiles] = True
    first: list[int] = []
    last: list[int] = []
    sampled: list[int] = []
    n_samples = n_spans = n_flagged = n_deep = 0
    for profile, metric, line in experiment.traces.lines():
        if metric < 0 and chosen[profile] and len(line):
            sampled.append(profile)
            n_samples += len(line)
            first.append(int(line.time_ns[0]))
            last.append(int(line.time_ns[-1]))
    spanned = np.zeros(len(experiment.profiles), np.bool_)
    for chunk in experiment.traces.spans(("profile", "start_ns", "end_ns", "depth")):
        own = chosen[chunk["profile"]]
        kept = own & usable(chunk["start_ns"], chunk["end_ns"])
        n_flagged += int(own.sum() - kept.sum())
        n_deep += int((kept & (chunk["depth"] >= MOST_LEVELS)).sum())
        if kept.any():
            n_spans += int(kept.sum())
            spanned[chunk["profile"][kept]] = True
            first.append(int(chunk["start_ns"][kept].min()))
            last.append(int(chunk["end_ns"][kept].max()))
    if not first:
        return None
    rows = rows_of(experiment, np.unique(np.array(sampled, np.int64)), np.flatnonzero(spanned))
    return Survey(rows, (min(first), max(max(last), min(first) + 1)), n_samples, n_spans, n_flagged, n_deep)


def sample_events(experiment: Experiment, rows: Rows, origin: int, window: Window) -> Iterator[Events]:
    """Samples that last into the window, line by line; the name is the context."""
    idle = np.append(experiment.contexts.idle, True)  # the last entry is for what is no context
    for profile, metric, line in experiment.traces.lines():
        row = int(rows.of_samples[profile])
        if metric >= 0 or row < 0 or not len(line):
            continue
        time = np.maximum.accumulate(line.time_ns.astype(np.int64))
        end = np.append(time[1:], time[-1])
        known = (line.context >= 0) & (line.context < len(experiment.contexts))
        kept = known & ~idle[np.where(known, line.context, ABSENT)] & (time < window[1]) & (end >= window[0])
        same = np.full(len(time), row, np.int64)
        yield Events(same, same * 0, line.context.astype(np.int64), time - origin, end - origin).take(kept)


def span_events(experiment: Experiment, rows: Rows, origin: int, window: Window) -> Iterator[Events]:
    """Spans that touch the window, in file order. What is nested too deeply is left out."""
    for chunk in experiment.traces.spans(COLUMNS, window):
        row = rows.of_spans[chunk["profile"]].astype(np.int64)
        level = np.maximum(chunk["depth"], 0).astype(np.int64)
        kept = (row >= 0) & (level < MOST_LEVELS) & usable(chunk["start_ns"], chunk["end_ns"])
        label, kind = chunk[LABEL].astype(np.int64), chunk["kind"].astype(np.int64)
        name = np.where(label < 0, ABSENT, label) + 1
        times = (chunk[column].astype(np.int64) - origin for column in ("start_ns", "end_ns"))
        yield Events(row, level, name * N_KINDS + kind, *times).take(kept)
