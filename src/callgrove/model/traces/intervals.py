"""Sweeps over intervals of time: union, overlap, gaps, concurrency, nesting, lanes.

Specification: gpu-traces.md section 7. Intervals are half-open, [start, end), int64. Intervals of length 0 add nothing
to lengths but keep their place in trees and lanes. At equal times ends come before starts. Intervals that end before
they start are left out of everything; results say how many these were.

    K      |=====|   |==|      merge: 2 intervals
             |======|
    C          |=======|       overlap of the unions of K and C

`track` numbers the thread, stream or queue that an interval belongs to; without it there is one. Nothing recurses, and
all but `lanes` is a fixed number of passes over arrays, also where a million intervals nest or none does.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike

from callgrove.arrays import ABSENT, Bools, Floats, Ids, Ints, depths, in_order

__all__ = [
    "Intervals",
    "Nesting",
    "Segments",
    "concurrency",
    "enclosing",
    "exclusive_length",
    "fair_share",
    "gaps",
    "innermost",
    "lanes",
    "merge",
    "nesting",
    "overlap",
    "overlap_length",
    "union_length",
    "usable",
]

MOST_TOGETHER = 1 << 20  # intervals of several tracks that are looked at together
MOST_GROUPS = 16
JUMPS = 64  # rounds of jumping after which deep nesting is cheaper to follow with a stack
Pair = tuple[ArrayLike, ArrayLike]  # starts and ends of any intervals


LATEST = 2**62  # 146 years in nanoseconds: no clock shows more


def usable(start: Ints, end: Ints) -> Bools:
    """Return which intervals can be measured: those that do not end before they start, at times that a clock can
    show."""
    kept: Bools = (start >= 0) & (start <= end) & (end <= LATEST)
    return kept


@dataclass(frozen=True)
class Intervals:
    """Disjoint intervals in order, none of length 0 and no two that touch; `excluded` ended before they started."""

    start: Ints
    end: Ints
    excluded: int = 0

    def __len__(self) -> int:
        return len(self.start)

    @property
    def length(self) -> int:
        # as unsigned numbers: the distance of two int64 always fits
        return int((self.end.astype(np.uint64) - self.start.astype(np.uint64)).sum())


@dataclass(frozen=True)
class Nesting:
    """The interval that each one lies in, -1 for outermost ones, and how deep; excluded ones have depth -1.

    `crossings` counts intervals that outlast another one, inside the same parent, that was open when they started.
    """

    parent: Ints
    depth: Ids
    crossings: int = 0
    excluded: int = 0


@dataclass(frozen=True)
class Segments:
    """Pieces of time by track and start, none of length 0; `index` is the interval that each one belongs to."""

    start: Ints
    end: Ints
    index: Ints


def merge(start: ArrayLike, end: ArrayLike) -> Intervals:
    """Return the union: what overlaps or touches becomes one."""
    begins, ends = _arrays(start, end)
    excluded = int((ends < begins).sum())
    kept = np.flatnonzero(ends > begins)
    if not len(kept):
        return Intervals(begins[:0], ends[:0], excluded)
    kept = kept[np.argsort(begins[kept], kind="stable")]
    begins, latest = begins[kept], np.maximum.accumulate(ends[kept])
    first = np.flatnonzero(np.append(True, begins[1:] > latest[:-1]))
    return Intervals(begins[first], latest[np.append(first[1:], len(begins)) - 1], excluded)


def union_length(start: ArrayLike, end: ArrayLike) -> int:
    """Return for how long at least one interval was open: the busy time."""
    return merge(start, end).length


def overlap(left: Intervals, right: Intervals) -> Intervals:
    """Return where both unions are open."""
    if not len(left) or not len(right):
        return Intervals(left.start[:0], left.end[:0], left.excluded + right.excluded)
    low = np.searchsorted(right.end, left.start, side="right")
    n_partners = np.maximum(np.searchsorted(right.start, left.end, side="left") - low, 0)
    left_row = np.repeat(np.arange(len(left)), n_partners)
    partner = np.arange(len(left_row)) - np.repeat(np.cumsum(n_partners) - n_partners, n_partners) + low[left_row]
    start = np.maximum(left.start[left_row], right.start[partner])
    return Intervals(start, np.minimum(left.end[left_row], right.end[partner]), left.excluded + right.excluded)


def overlap_length(left: Pair, right: Pair) -> int:
    """Return for how long an interval of each side was open at once."""
    return overlap(merge(*left), merge(*right)).length


def gaps(start: ArrayLike, end: ArrayLike, window: tuple[int, int] | None = None) -> Intervals:
    """Return when no interval was open: inside the window, or between the first start and the last end."""
    union = merge(start, end)
    if window is None:
        return Intervals(union.end[:-1], union.start[1:], union.excluded)
    inside = overlap(union, merge([window[0]], [window[1]]))
    starts, ends = np.append(np.int64(window[0]), inside.end), np.append(inside.start, np.int64(window[1]))
    kept = starts < ends
    return Intervals(starts[kept], ends[kept], union.excluded)


def concurrency(start: ArrayLike, end: ArrayLike) -> Ints:
    """Return for how long exactly 0, 1, 2, ... intervals were open, from the first start to the last end.

    The times from level 1 on add up to the union; weighted with their level, to the sum of all lengths.
    """
    time, level, _ = _levels(start, end)
    out = np.zeros(int(level.max(initial=0)) + 1, np.int64)
    np.add.at(out, level[:-1], np.diff(time))
    return out


def fair_share(start: ArrayLike, end: ArrayLike) -> Floats:
    """Return the union's length divided over the intervals: whatever is open at a time shares that time equally."""
    begins, ends = _arrays(start, end)
    time, level, place = _levels(begins, ends)
    steps = np.zeros(len(time))
    np.divide(np.diff(time), level[:-1], out=steps[1:], where=level[:-1] > 0)
    clock = np.cumsum(steps)
    out = np.zeros(len(begins))
    valid = np.flatnonzero(ends >= begins)
    out[valid] = clock[place[len(valid) :]] - clock[place[: len(valid)]]
    return out


def nesting(start: ArrayLike, end: ArrayLike, track: ArrayLike | None = None) -> Nesting:
    """Return the innermost interval of the same track that was open and did not end before each one did.

    Of intervals that start together the longer is outside, of equal ones the first.
    """
    begins, ends = _arrays(start, end)
    tracks = _track(track, len(begins))
    groups = _divide_tracks(tracks)
    if len(groups) == 1:
        return _nest(begins, ends, tracks)
    parent, depth = np.full(len(begins), ABSENT, np.int64), np.empty(len(begins), np.int32)
    crossings = excluded = 0
    for rows in map(np.flatnonzero, groups):
        part = _nest(begins[rows], ends[rows], tracks[rows])
        parent[rows], depth[rows] = np.append(rows, ABSENT)[part.parent], part.depth
        crossings, excluded = crossings + part.crossings, excluded + part.excluded
    return Nesting(parent, depth, crossings, excluded)


def _divide_tracks(track: Ints) -> list[Bools]:
    """Return masks of intervals: of some tracks each, so that columns of those that are looked at together stay small.
    One mask where there are few intervals, or where numbers of tracks lie far apart."""
    lowest, highest = (int(track.min()), int(track.max())) if len(track) else (0, 0)
    if len(track) <= MOST_TOGETHER or highest - lowest > len(track):
        return [np.ones(len(track), np.bool_)]
    number = np.bincount(track - lowest)
    group = (np.cumsum(number) - number) // max(MOST_TOGETHER, len(track) // MOST_GROUPS)
    firsts = np.flatnonzero(np.append(True, np.diff(group) > 0)) + lowest
    return [(track >= first) & (track < end) for first, end in pairwise([*firsts.tolist(), highest + 1])]


def _nest(begins: Ints, ends: Ints, tracks: Ints) -> Nesting:
    """Return what `nesting` does, for all intervals at once."""
    order, first = _by_start(begins, ends, tracks)
    starts, stops = begins[order], ends[order]
    link = _links(stops, stops == starts, first)
    parent = np.full(len(begins), ABSENT, np.int64)
    parent[order] = np.where(link >= 0, order[link], ABSENT)
    depth = np.full(len(begins), ABSENT, np.int32)
    depth[order] = depths(link.astype(np.int32))
    crossings = _crossings(starts, stops, link, first)
    return Nesting(parent, depth, crossings, len(begins) - len(order))


def exclusive_length(
    start: ArrayLike, end: ArrayLike, track: ArrayLike | None = None, nest: Nesting | None = None
) -> Ints:
    """Return for how long each interval was the one, of those open on its track, that started last.

    Adds up to the tracks' unions for any input; where intervals nest, it is the length less that of the children. Who
    has their nesting need not have it looked for again.
    """
    begins, ends = _arrays(start, end)
    if nest is not None and not nest.crossings:
        return _less_children(begins, ends, nest)
    pieces = innermost(begins, ends, track)
    out = np.zeros(len(begins), np.int64)
    np.add.at(out, pieces.index, pieces.end - pieces.start)
    return out


def innermost(start: ArrayLike, end: ArrayLike, track: ArrayLike | None = None) -> Segments:
    """Divide the union of every track: each piece belongs to the interval, of those open then, that started last."""
    begins, ends = _arrays(start, end)
    order, first = _by_start(begins, ends, track)
    n = len(order)
    starts, stops = begins[order], ends[order]
    link = _links(stops, stops == starts, first)
    # Starts and ends in one sequence, starts first: after its last event at a time, `top` is right for what follows.
    time, is_end = np.concatenate([starts, stops]), np.repeat([False, True], n)
    sequence = np.lexsort((is_end, time, np.tile(np.cumsum(first), 2)))
    time, is_end = time[sequence], is_end[sequence]
    last_started = np.cumsum(~is_end) - 1
    top = np.where(is_end, ABSENT, last_started)
    at_end = np.flatnonzero(is_end)
    top[at_end] = _climb(link, stops, last_started[at_end], time[at_end], np.ones(n, np.bool_))
    # a track's last event ends it: nothing reaches into the next track
    busy = np.flatnonzero((top[:-1] >= 0) & (time[1:] > time[:-1]))
    return Segments(time[busy], time[busy + 1], order[top[busy]])


def _less_children(start: Ints, end: Ints, nest: Nesting) -> Ints:
    """Return the length of intervals that nest, without that of those inside."""
    out = np.where(nest.depth >= 0, end - start, 0)
    inner = np.flatnonzero(nest.parent >= 0)
    np.subtract.at(out, nest.parent[inner], out[inner].copy())
    return out


def enclosing(outer: Pair, inner: Pair, outer_track: ArrayLike | None = None, track: ArrayLike | None = None) -> Ints:
    """Return for each inner interval the outer one of its track that started last and contains it, both ends counting;
    -1 where there is none or the inner one ends before it starts."""
    begins, ends = _arrays(*outer)
    starts, stops = _arrays(*inner)
    order, first = _by_start(begins, ends, outer_track)
    begins, ends = begins[order], ends[order]
    link = _links(ends, ends == begins, first)
    tracks = np.concatenate([_track(outer_track, len(begins), order), _track(track, len(starts))])
    time, is_inner = np.concatenate([begins, starts]), np.repeat([False, True], [len(begins), len(starts)])
    sequence = np.lexsort((is_inner, time, tracks))
    last_started = np.empty(len(sequence), np.int64)
    last_started[sequence] = np.cumsum(~is_inner[sequence]) - 1
    at = last_started[len(begins) :]
    known = np.append(tracks[: len(begins)], ABSENT)[at] == tracks[len(begins) :]
    at = np.where(known & (at >= 0) & (stops >= starts), at, ABSENT)
    encloser = _climb(link, ends, at, stops, np.zeros(len(starts), np.bool_))
    return np.where(encloser >= 0, np.append(order, ABSENT)[encloser], ABSENT)


def lanes(start: ArrayLike, end: ArrayLike, track: ArrayLike | None = None) -> Ids:
    """Return the row in which to draw each interval: the lowest one that is free; as few rows as possible. Excluded:
    -1."""
    begins, ends = _arrays(start, end)
    order = np.flatnonzero(ends >= begins)
    tracks = _track(track, len(begins))
    order = order[np.lexsort((ends[order], begins[order], tracks[order]))]
    out = np.full(len(begins), ABSENT, np.int32)
    out[order] = 0
    for group in _clusters(begins[order], ends[order], tracks[order]):
        _fill_lanes(begins, ends, order[group], out)
    return out


def _fill_lanes(start: Ints, end: Ints, rows: Ints, out: Ids) -> None:
    free: list[int] = []
    busy: list[tuple[int, int]] = []
    for row, begin, stop in zip(rows.tolist(), start[rows].tolist(), end[rows].tolist(), strict=True):
        while busy and busy[0][0] <= begin:
            heapq.heappush(free, heapq.heappop(busy)[1])
        lane = heapq.heappop(free) if free else len(busy)
        heapq.heappush(busy, (stop, lane))
        out[row] = lane


def _clusters(start: Ints, end: Ints, track: Ints) -> list[slice]:
    """Return the runs of two or more intervals that hang together by overlaps; the others stand alone."""
    n = len(start)
    if not n:
        return []
    first = np.append(True, np.diff(track) != 0)
    alone = first.copy()
    for bounds in np.split(np.arange(n), np.flatnonzero(first)[1:]):
        latest = np.maximum.accumulate(end[bounds])
        alone[bounds[1:]] |= start[bounds[1:]] >= latest[:-1]
    edges = np.append(np.flatnonzero(alone), n)
    return [slice(a, b) for a, b in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True) if b - a > 1]


def _arrays(start: ArrayLike, end: ArrayLike) -> tuple[Ints, Ints]:
    begins, ends = np.asarray(start, np.int64), np.asarray(end, np.int64)
    if begins.shape != ends.shape or begins.ndim != 1:
        raise ValueError(f"starts {begins.shape} and ends {ends.shape} are not two columns of one length")
    return begins, ends


def _track(track: ArrayLike | None, n: int, rows: Ints | None = None) -> Ints:
    given = np.zeros(n, np.int64) if track is None else np.asarray(track, np.int64)
    return given if rows is None or track is None else given[rows]


def _by_start(start: Ints, end: Ints, track: ArrayLike | None) -> tuple[Ints, Bools]:
    """Return the rows of valid intervals by track, start and decreasing end; and which of them begin a track."""
    tracks = _track(track, len(start))
    valid = np.flatnonzero(end >= start)
    rows = valid[in_order(tracks[valid], start[valid])]  # much faster than by three columns
    first = np.append(True, np.diff(tracks[rows]) != 0)[: len(rows)]
    together = np.flatnonzero((start[rows[1:]] == start[rows[:-1]]) & ~first[1:])
    if (end[rows[together + 1]] > end[rows[together]]).any():
        rows = valid[np.lexsort((~end[valid], start[valid], tracks[valid]))]
    return rows, first


def _levels(start: ArrayLike, end: ArrayLike) -> tuple[Ints, Ints, Ints]:
    """Return all starts and ends of valid intervals in order, how many are open after each, and the place of each
    event: first those of the starts, then those of the ends."""
    begins, ends = _arrays(start, end)
    valid = ends >= begins
    time = np.concatenate([begins[valid], ends[valid]])
    change = np.repeat(np.array([1, -1]), int(valid.sum()))
    # An interval of length 0 would end before it starts: whatever the order, its level lasts no time.
    order = np.lexsort((change, time))
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    return time[order], np.maximum(np.cumsum(change[order]), 0), place


def _covers(outer_end: Ints, end: Ints, strict: Bools) -> Bools:
    covers: Bools = (outer_end > end) | ((outer_end == end) & ~strict)
    return covers


def _links(end: Ints, empty: Bools, first: Bools) -> Ints:
    """Return for intervals, which are in order, the nearest one before that does not end earlier; for empty ones, that
    ends later.

    Each looks at its neighbour and then, together with all others, at where that one has got to: few rounds, as
    distances double where nothing nests and levels are few where something does.
    """
    link = np.arange(len(end), dtype=np.int64) - 1
    link[first] = ABSENT
    searching = np.flatnonzero(link >= 0)
    for _ in range(JUMPS):
        searching = searching[~_covers(end[link[searching]], end[searching], empty[searching])]
        link[searching] = link[link[searching]]
        searching = searching[link[searching] >= 0]
        if not len(searching):
            return link
    return _links_by_stack(end, empty, first)


def _links_by_stack(end: Ints, empty: Bools, first: Bools) -> Ints:
    link, stack = [], list[tuple[int, int]]()
    for row, (stop, strict, fresh) in enumerate(zip(end.tolist(), empty.tolist(), first.tolist(), strict=True)):
        if fresh:
            stack.clear()
        while stack and stack[-1][0] < stop + strict:
            stack.pop()
        link.append(stack[-1][1] if stack else ABSENT)
        stack.append((stop, row))
    return np.array(link, np.int64)


def _climb(link: Ints, end: Ints, at: Ints, bound: Ints, strict: Bools) -> Ints:
    """Climb from `at` outwards along the links to the first interval that covers `bound`. Ends never decrease on the
    way, so steps of 2^k levels, from large to small, find it."""
    n = len(link)
    ends, up = np.append(end, np.iinfo(np.int64).max), [np.append(np.where(link >= 0, link, n), n)]
    for _ in range(int(depths(link.astype(np.int32)).max(initial=0)).bit_length()):
        up.append(up[-1][up[-1]])
    at = np.where(at >= 0, at, n)
    falls_short = (at < n) & ~_covers(ends[at], bound, strict)
    for step in reversed(up):
        further = step[at]
        at = np.where(falls_short & (further < n) & ~_covers(ends[further], bound, strict), further, at)
    at = np.where(falls_short, up[0][at], at)
    return np.where(at < n, at, ABSENT)


def _crossings(start: Ints, end: Ints, link: Ints, first: Bools) -> int:
    """Count the intervals before whose end, but after whose start, an earlier sibling ends."""
    n = len(start)
    group = np.where(link >= 0, link, n + np.cumsum(first))  # outermost intervals are siblings on their track
    siblings = np.argsort(group, kind="stable")
    group = group[siblings]
    before = np.flatnonzero(group[1:] == group[:-1])
    if not (end[siblings[before]] > start[siblings[before + 1]]).any():
        return 0  # every one has ended when the next begins
    ends, rank = np.unique(end[siblings], return_inverse=True)
    number = np.cumsum(np.append(True, np.diff(group) != 0)[:n])
    latest = np.maximum.accumulate(number * n + rank) - number * n  # the latest end so far, inside each group
    return int((ends[latest[before]] > start[siblings[before + 1]]).sum())
