"""Timelines of an input: an index for each depth and filter that was asked for, and the rows that its lines make.

Whoever asks for a picture waits for nobody: an index is read without the lock of the input, and built on a thread of
its own, of files that are opened a second time for it. Few indexes stay open; all of them stay in the cache folder.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock, RLock

import numpy as np

from callgrove.analysis.timeline_index.answers import IndexOptions, LineKind, Lines
from callgrove.analysis.timeline_index.cache import IndexCache
from callgrove.analysis.timeline_index.index import TimelineIndex
from callgrove.analysis.timeline_index.preview import Moments
from callgrove.arrays import ABSENT, Ints, distinct
from callgrove.model.experiment import Experiment
from callgrove.viewer.timeline.events import rows_of

__all__ = ["OpenTimeline", "TimelineRows", "Timelines"]

KEPT = 3  # indexes that stay open
KEPT_ROWS = 2


@dataclass(frozen=True)
class TimelineRows:
    """Lines in the order of the machine, each a row: its number, its profile, and what it is called. Tracks that are
    read but not complete have rows too: there `line` is -1, and `track` the number among the tracks of a preview.
    `n_lines` are complete."""

    line: Ints
    track: Ints
    profile: Ints
    group: tuple[str, ...]
    name: tuple[str, ...]
    n_lines: int

    def __len__(self) -> int:
        return len(self.line)

    def lines(self, top: int = 0, bottom: int | None = None) -> Ints:
        """Return the lines of some rows, of those that are complete."""
        line = self.line[top:bottom]
        return line[line >= 0]

    def find(self, line: int) -> int:
        """Return the row of a line."""
        return int(np.flatnonzero(self.line == line)[0])


def make_rows(experiment: Experiment, lines: Lines, moments: Moments | None = None) -> TimelineRows:
    """Return the rows of lines: by run, node, rank, device and thread; lanes of a device one after the other. Tracks of
    a preview that have no line yet are among them."""
    n, track = len(lines), np.empty(0, np.int64)
    if moments is not None:
        known = set(zip(lines.profile.tolist(), lines.kind.tolist(), strict=True))
        every = zip(moments.profile.tolist(), moments.kind.tolist(), strict=True)
        track = np.array([k for k, one in enumerate(every) if one not in known], np.int64)
        lines = _join_tracks(lines, moments.profile[track], moments.kind[track])
    is_samples, is_profiler = lines.kind == LineKind.SAMPLES, lines.kind == LineKind.PROFILER
    groups = (is_samples, ~is_samples & ~is_profiler, is_profiler)
    with_samples, with_spans, with_overhead = (distinct(lines.profile[chosen]) for chosen in groups)
    rows = rows_of(experiment, with_samples, with_spans, with_overhead)
    numbers = (rows.of_samples, rows.of_spans, rows.of_overhead)
    row = np.zeros(len(lines), np.int64)
    for chosen, number in zip(groups, numbers, strict=True):
        row[chosen] = number[lines.profile[chosen]]
    order = np.lexsort((lines.lane, lines.kind, row))
    n_lanes = np.bincount(row[lines.kind == LineKind.DEVICE], minlength=len(rows))
    names = tuple(
        f"{rows.name[place]} lane {lane + 1}" if kind == LineKind.DEVICE and n_lanes[place] > 1 else rows.name[place]
        for place, kind, lane in zip(*(column[order].tolist() for column in (row, lines.kind, lines.lane)), strict=True)
    )
    line = np.where(order < n, order, ABSENT)
    tracks = np.append(np.full(n, ABSENT), track)[order]
    groups_of = tuple(rows.group[place] for place in row[order].tolist())
    return TimelineRows(line, tracks, lines.profile[order], groups_of, names, n)


def _join_tracks(lines: Lines, profile: Ints, kind: Ints) -> Lines:
    """Return lines, and after them a line for each of some tracks."""
    nothing = np.zeros(len(profile), np.int64)
    more = (profile, kind, nothing, nothing, nothing, nothing)
    columns = (lines.profile, lines.kind, lines.lane, lines.first_ns, lines.last_ns, lines.count)
    return Lines(*(np.append(one, other) for one, other in zip(columns, more, strict=True)))


@dataclass
class OpenTimeline:
    """An index of an experiment. Its lines come one after the other while it is built; a page that knows the first
    `n_lines` of them asks for rows in their order."""

    index: TimelineIndex
    experiment: Experiment
    _rows: OrderedDict[int, TimelineRows] = field(default_factory=OrderedDict)
    _guard: Lock = field(default_factory=Lock)

    def rows(self, n_lines: int | None = None) -> TimelineRows:
        """Return the rows of the lines that are there, or of the first of them, and of tracks that will have some."""
        is_reading, lines = self.index.is_reading, self.index.lines
        n = len(lines) if n_lines is None else min(n_lines, len(lines))
        with self._guard:
            if n not in self._rows:
                moments = self.index.moments
                columns = (lines.profile, lines.kind, lines.lane, lines.first_ns, lines.last_ns, lines.count)
                self._rows[n] = make_rows(self.experiment, Lines(*(column[:n] for column in columns)), moments)
                if len(self._rows) > KEPT_ROWS:
                    self._rows.popitem(last=False)
            return self._rows.pop(n) if is_reading else self._rows[n]


@dataclass
class Timelines:
    """The indexes of an input. `lock` is held by whoever reads the experiment; `reopen` gives one for the thread that
    builds; `reading` tells how it was read."""

    opened: Experiment
    paths: Sequence[str]
    reading: str = ""
    reopen: Callable[[], Experiment] | None = None
    lock: AbstractContextManager[object] = field(default_factory=RLock)
    cache: IndexCache | None = None
    _open: OrderedDict[tuple[int | None, str], OpenTimeline] = field(default_factory=OrderedDict)
    _guard: Lock = field(default_factory=Lock)

    def get(self, depth: int | None, part: str, choose: Callable[[Experiment], Experiment]) -> OpenTimeline:
        """Return the timeline down to a depth of a part of the experiment, which is a text and what takes it."""
        key = depth, part
        with self._guard:
            if key in self._open:
                self._open.move_to_end(key)
                return self._open[key]
        with self.lock:  # and not inside of the guard: whoever holds the lock may be waiting for that
            experiment = choose(self.opened)
        with self._guard:
            if key not in self._open:
                self._open[key] = self._make(depth, part, experiment, choose)
                if len(self._open) > KEPT:
                    self._open.popitem(last=False)[1].index.close()
            return self._open[key]

    def adopt(self, timeline: OpenTimeline) -> None:
        """Take a timeline that is there already as that of everything, at all depths."""
        with self._guard:
            self._open[None, ""] = timeline

    def _make(
        self, depth: int | None, part: str, experiment: Experiment, choose: Callable[[Experiment], Experiment]
    ) -> OpenTimeline:
        files = [Path(path) for path in self.paths if Path(path).exists()]
        again = self.reopen
        index = TimelineIndex.open(
            experiment,
            files,
            f"{self.reading} {part}",
            IndexOptions(depth),
            self.cache,
            None if again is None else lambda: choose(again()),
        )
        return OpenTimeline(index, experiment)

    def close(self) -> None:
        """Stop building, and let go of all files."""
        with self._guard:
            for one in self._open.values():
                one.index.close()
            self._open.clear()
