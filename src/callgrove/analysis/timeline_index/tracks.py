"""Tracks on their way to lines: several nested side by side, long ones in parts with what is open carried on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from callgrove.analysis.timeline_index.items import Items
from callgrove.analysis.timeline_index.levels import Stretches
from callgrove.analysis.timeline_index.nested import FOREVER, Nested
from callgrove.analysis.timeline_index.spool import TrackSpans
from callgrove.arrays import ABSENT, Ints

__all__ = [
    "BATCH",
    "NOTHING",
    "OpenCalls",
    "TrackCalls",
    "divide_time",
    "join_equal",
    "join_lines",
    "side_by_side",
    "with_next",
]

BATCH = 1 << 16  # spans or samples that are looked at together: arrays of these stay in the cache of a core
NOTHING = Stretches(*(np.empty(0, np.int64) for _ in range(4)))


@dataclass(frozen=True)
class OpenCalls:
    """Calls that go on after a part, from the outside in. Times are ns since the origin."""

    start: Ints
    end: Ints
    whole: Ints
    name: Ints
    item: Ints

    def __len__(self) -> int:
        return len(self.start)

    def take(self, rows: Ints) -> OpenCalls:
        return OpenCalls(self.start[rows], self.end[rows], self.whole[rows], self.name[rows], self.item[rows])

    @classmethod
    def nothing(cls) -> OpenCalls:
        return cls(*(np.empty(0, np.int64) for _ in range(5)))


@dataclass(frozen=True)
class TrackCalls:
    """Calls of several tracks, nested with their times moved: by `shift` of each track, which includes the origin."""

    spans: TrackSpans
    track: Ints
    nested: Nested
    shift: Ints
    origin: int

    def pieces(self, first_line: Ints) -> Stretches:
        """Return what was innermost when, on the line of each track."""
        track, nested = self.track[self.nested.piece_of], self.nested
        back, name = self.shift[track], self.spans.name[nested.piece_of]
        return Stretches(first_line[track], nested.piece_start - back, nested.piece_end - back, name)

    def items(self, first_line: Ints, rows: Ints) -> Items:
        """Return the calls as items."""
        start, end = self.spans.start - self.origin, self.nested.end - self.shift[self.track]
        parent = self.nested.parent
        parents = np.where(parent >= 0, self.spans.name[parent], ABSENT) if len(parent) else parent
        columns = start, end, self.spans.end - self.origin, self.spans.name, rows
        return Items(first_line[self.track], *columns, parent, parents, self.nested.depth)


def join_equal(stretches: Stretches) -> Stretches:
    """Return stretches, with neighbours of one name as one."""
    line, name = stretches.line, stretches.name
    fresh = np.append(True, (line[1:] != line[:-1]) | (name[1:] != name[:-1]))
    fresh[1:] |= stretches.start[1:] != stretches.end[:-1]
    at = np.flatnonzero(fresh)
    last = np.append(at[1:], len(line)) - 1
    return Stretches(line[at], stretches.start[at], stretches.end[last], name[at])


def join_lines(one: Stretches, other: Stretches) -> Stretches:
    """Return both, by line."""
    if not len(one) or not len(other):
        return one if len(one) else other
    columns = ("line", "start", "end", "name")
    both = Stretches(*(np.concatenate([getattr(one, name), getattr(other, name)]) for name in columns))
    return both.take(np.argsort(both.line, kind="stable"))


def side_by_side(spans: TrackSpans, track: Ints, n_tracks: int) -> tuple[TrackSpans, Ints]:
    """Return spans of several tracks with times that are one after the other, and how far each track was moved."""
    low, high = np.full(n_tracks, 2**62), np.zeros(n_tracks, np.int64)
    np.minimum.at(low, track, spans.start)
    np.maximum.at(high, track, spans.end)
    length = np.where(high >= low, high - low + 1, 0)
    shift = np.cumsum(length) - length - np.where(length > 0, low, 0)
    moved = shift[track]
    return TrackSpans(spans.track, spans.start + moved, spans.end + moved, spans.name, spans.row), shift


def with_next(parts: Iterator[TrackSpans]) -> Iterator[tuple[TrackSpans, int]]:
    """Yield each part with the first start of the next one, FOREVER after the last."""
    here = next(parts, None)
    while here is not None:
        ahead = next(parts, None)
        yield here, FOREVER if ahead is None else int(ahead.start[0])
        here = ahead


def divide_time(
    start: Ints, end: Ints, longest: int, low: int | None = None, high: int | None = None
) -> Iterator[tuple[int, int, int]]:
    """Yield the first and last row of parts of limited length and number of rows, and until when they go."""
    n = len(start)
    now = int(start[0]) if low is None and n else low or 0
    last = max(int(end[-1]), now) if high is None else high
    row = 0
    while True:
        until = min(last, max(now, int(start[row]) if row < n else now) + longest)
        after = n if until == last else int(np.searchsorted(start, until))
        if after - row > BATCH:
            until = int(start[row + BATCH])
            after = int(np.searchsorted(start, until))
            if after <= row:  # all of them start together
                after = int(np.searchsorted(start, until, side="right"))
                until = last if after >= n else int(start[after])
        yield row, after, until
        row, now = after, until
        if row >= n and until >= last:
            return
