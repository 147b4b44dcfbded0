"""What ran at the same time on devices, counted as Extra-P counts it.

Specification: gpu-traces.md section 9 with its defects D2 and D4. All is int64 nanoseconds, and divisions truncate.

    activities   |-- a --------|        |-- c --|
                        |-- b -----|
    segments     [  1  )[  2   )[ 1)    [   1   )      between instants at which something starts or ends
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from callgrove.model.arrays import Ints

__all__ = ["Segments", "each_first", "joined", "pairs_ending_inside", "pairs_touching", "ranges_of", "segments_of"]

MOST_PAIRS = 1 << 20  # that are held at once; hostile files have as many as the square of their rows


@dataclass(frozen=True)
class Segments:
    """Stretches of time in which something ran, in order; `threads` is the sum over what ran."""

    start: Ints
    end: Ints
    running: Ints
    threads: Ints

    def within(self, start: Ints, end: Ints, *, covering: bool) -> Ints:
        """For how long something ran inside intervals. Unless `covering`, a segment counts only if it starts or ends
        inside: one that reaches beyond both ends is overlooked (D4)."""
        first = np.searchsorted(self.end, start, side="left")
        last = np.searchsorted(self.start, end, side="right")
        some = last > first
        until = np.append(0, np.cumsum(self.end - self.start))
        at_first, at_last = np.where(some, first, 0), np.where(some, last - 1, 0)
        before = np.maximum(start - _at(self.start, at_first), 0)
        after = np.maximum(_at(self.end, at_last) - end, 0)
        length = until[last] - until[np.minimum(first, last)] - before - after
        if not covering:
            some &= (before == 0) | (after == 0) | (at_first != at_last)
        return np.where(some, length, 0)

    def touching(self, start: Ints, end: Ints) -> tuple[Ints, Ints]:
        """Pairs (interval, segment) that have an instant in common."""
        found = list(ranges_of(np.searchsorted(self.end, start, "left"), np.searchsorted(self.start, end, "right")))
        return _columns(found)

    def touching_alone(self, start: Ints, end: Ints) -> Ints:
        """The part of `within` during which one thing ran alone in a segment that starts or ends with the interval."""
        out = np.zeros(len(start), np.int64)
        for edge, at in ((self.start, start), (self.end, end)):
            place = np.minimum(np.searchsorted(edge, at), max(len(edge) - 1, 0))
            hit = (_at(edge, place) == at) & (_at(self.running, place) <= 1) if len(edge) else np.zeros(len(at), bool)
            length = np.minimum(_at(self.end, place), end) - np.maximum(_at(self.start, place), start)
            if edge is self.end:  # a segment that is the interval itself was counted with its start
                hit &= _at(self.start, place) != start
            out += np.where(hit, length, 0)
        return out


def _at(values: Ints, place: Ints) -> Ints:
    return values[place] if len(values) else np.zeros(len(place), np.int64)


def segments_of(start: Ints, end: Ints, correlation: Ints, threads: Ints) -> Segments:
    """The segments of activities; an activity may be given several times (D2), once for every GPU there is.

    How many run after an instant is found as Extra-P finds it: all that include the instant, times the number of its
    events of one correlation, less its ends.
    """
    time, owner = np.concatenate([start, end]), np.tile(correlation, 2)
    ends, weight = np.repeat([0, 1], len(start)), np.tile(threads, 2)
    order = np.lexsort((ends, owner, time))
    time, owner, ends, weight = time[order], owner[order], ends[order], weight[order]
    new = np.append(len(time) > 0, (np.diff(time) != 0) | (np.diff(owner) != 0))[: len(time)]
    first = np.flatnonzero(new)  # the first event of every instant and correlation speaks for all of them
    events = np.diff(first, append=len(time))
    instant, begin = np.unique(time[first], return_index=True)
    ending = _sums(ends[first], begin)
    running = events[begin] * _including(start, end, np.ones(len(start), np.int64), instant)
    total = events[begin] * _including(start, end, threads, instant)
    total = np.where(ending > 0, total - _sums(weight[first], begin), total)
    kept = np.flatnonzero((running - ending)[:-1] > 0)
    return Segments(instant[kept], instant[kept + 1], (running - ending)[kept], total[kept])


def _sums(values: Ints, begin: Ints) -> Ints:
    return np.add.reduceat(values, begin) if len(begin) else np.zeros(0, np.int64)


def _including(start: Ints, end: Ints, weight: Ints, instant: Ints) -> Ints:
    """The weight of all intervals that include each instant, both ends counting."""
    out = np.zeros(len(instant), np.int64)
    for edge, side, sign in ((start, "right", 1), (end, "left", -1)):
        order = np.argsort(edge, kind="stable")
        until = np.append(0, np.cumsum(weight[order]))
        place = np.searchsorted(edge[order], instant, side="right" if side == "right" else "left")
        out += sign * until[place]
    return out


def pairs_ending_inside(start: Ints, end: Ints, other_end: Ints) -> Iterator[tuple[Ints, Ints]]:
    """Pairs (interval, other) of which the other one ends inside the interval, some at a time."""
    order = np.argsort(other_end, kind="stable")
    ends = other_end[order]
    for left, right in ranges_of(np.searchsorted(ends, start, "left"), np.searchsorted(ends, end, "right")):
        yield left, order[right]


def pairs_touching(start: Ints, end: Ints, other_start: Ints, other_end: Ints) -> Iterator[tuple[Ints, Ints]]:
    """Pairs (interval, other) that have an instant in common, some at a time."""
    order = np.argsort(other_start, kind="stable")
    starts = other_start[order]
    for left, right in ranges_of(np.searchsorted(starts, start, "left"), np.searchsorted(starts, end, "right")):
        yield left, order[right]
    order = np.argsort(start, kind="stable")
    starts = start[order]
    for left, right in ranges_of(
        np.searchsorted(starts, other_start, "right"), np.searchsorted(starts, other_end, "right")
    ):
        yield order[right], left


def ranges_of(first: Ints, last: Ints) -> Iterator[tuple[Ints, Ints]]:
    """Every (k, m) with first[k] <= m < last[k], in order, some at a time."""
    counts = np.maximum(last - first, 0)
    until = np.cumsum(counts)
    total = int(until[-1]) if len(until) else 0
    for begin in range(0, total, MOST_PAIRS):
        number = np.arange(begin, min(begin + MOST_PAIRS, total))
        left = np.searchsorted(until, number, side="right")
        yield left, first[left] + number - (until - counts)[left]


def joined(left: Ints, right: Ints) -> tuple[Ints, Ints]:
    """Rows of two tables with equal keys, every combination."""
    order = np.argsort(right, kind="stable")
    keys = right[order]
    one, other = _columns(list(ranges_of(np.searchsorted(keys, left, "left"), np.searchsorted(keys, left, "right"))))
    return one, order[other]


def _columns(pairs: Sequence[tuple[Ints, Ints]]) -> tuple[Ints, Ints]:
    if not pairs:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    return np.concatenate([one for one, _ in pairs]), np.concatenate([other for _, other in pairs])


def each_first(keys: Ints) -> tuple[Ints, Ints, Ints]:
    """The different keys in order, the first row of each, and how many rows it has: where Extra-P's grouping leaves
    open which row of a group is meant, SQLite takes the first."""
    different, first, counts = np.unique(keys, return_index=True, return_counts=True)
    return different, first, counts
