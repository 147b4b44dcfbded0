"""Lanes: rows that show spans of one track which would hide each other in one.

    stream          |==A==|  |=C=|         lane 0 is the track itself
                       |==B==|             lane 1
    thread          |---- f ------|        a thread keeps its nesting: what lies inside stays in the lane
                      |-g-| |-- h --|      h crosses f, so it goes to lane 1

Spans come chunk after chunk, in the order (start, -end, number) on every track. On devices an interval takes the lowest
lane that is free; touching ones share a lane. On threads it takes the first lane in which nothing is open that ends
before it does. Most tracks need no second lane, which is found out with a few passes over arrays; only intervals that
hang together with one that does are looked at one by one.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Sequence

import numpy as np

from callgrove.arrays import Bools, Ids, Ints

__all__ = ["Lanes"]

ALL, NOTHING = 2**63 - 1, -1  # what fits into an empty lane, and into one that is taken
MANY = 16  # lanes that are looked through one by one
Stack = list[int]  # ends of what is open in a lane, the outermost first


class Lanes:
    """The lanes of any number of tracks. `nests[t]`: spans of track t nest, as those of threads do."""

    def __init__(self) -> None:
        self._open: dict[int, list[Stack]] = {}

    def of(self, track: Ints, nests: Bools, start: Ints, end: Ints) -> Ids:
        """Return the lane of every span of a chunk, which are in order on each track; none ends before it starts."""
        out = np.zeros(len(track), np.int32)
        if not len(track):
            return out
        order = np.argsort(track.astype(np.uint16) if int(track.max()) < 1 << 16 else track, kind="stable")
        sorted_track = track[order]
        edges = [0, *(np.flatnonzero(np.diff(sorted_track)) + 1).tolist(), len(sorted_track)]
        for first, last in itertools.pairwise(edges):
            rows = order[first:last]
            out[rows] = self._of_track(int(sorted_track[first]), bool(nests[rows[0]]), start[rows], end[rows])
        return out

    def _of_track(self, track: int, nests: bool, start: Ints, end: Ints) -> Ids:
        begin = int(start[0])
        state = [[stop for stop in stack if stop > begin] for stack in self._open.get(track, [])]
        latest = max((stop for stack in state for stop in stack), default=begin)
        before = np.maximum.accumulate(np.append(latest, end))[:-1]
        fresh: Bools = start >= before  # nothing is open
        out = np.zeros(len(start), np.int32)
        if fresh.all():
            self._open[track] = [[int(end[-1])]]
            return out
        cluster = np.cumsum(fresh, dtype=np.int64)  # 0: what hangs together with what was open before
        apart = self._needs_other_lanes(state, nests, start, end, cluster)
        if not nests:  # in clusters of two, the second one takes the second lane
            pairs = np.flatnonzero(np.bincount(cluster, minlength=1)[cluster] == 2)
            pairs = pairs[(cluster[pairs] > 0) & apart[pairs]]
            out[pairs[1::2]] = 1
            apart[pairs[cluster[pairs] < cluster[-1]]] = False  # the last cluster may still be open: it leaves a state
        rows = np.flatnonzero(apart)
        if len(rows) and cluster[rows[0]] > 0:
            state = []
        out[rows] = _fill_lanes(state, start[rows].tolist(), end[rows].tolist(), nests)
        if not apart[-1]:  # the last cluster is all in lane 0
            ends_of_last = end[cluster == cluster[-1]]
            carried = state[0] if state and cluster[-1] == 0 else []
            now = int(start[-1])
            state = [[*(stop for stop in carried if stop > now), *ends_of_last[ends_of_last > now].tolist()]]
        self._open[track] = state
        return out

    @staticmethod
    def _needs_other_lanes(state: Sequence[Stack], nests: bool, start: Ints, end: Ints, cluster: Ints) -> Bools:
        """Return the rows of clusters in which some interval needs another lane than the first."""
        n_carried = len(state[0]) if state else 0
        needs_more = np.zeros(int(cluster[-1]) + 1, np.bool_)
        if nests:
            whole_start = np.append(np.full(n_carried, start[0]), start)
            whole_end = np.append(np.array(state[0] if state else [], np.int64), end)
            needs_more[cluster[np.maximum(np.flatnonzero(_crosses(whole_start, whole_end)) - n_carried, 0)]] = True
        else:
            needs_more[np.bincount(cluster, minlength=1) > 1] = True
            needs_more[0] = True
        if any(state[1:]):  # lanes beside the first are still open: the first cluster goes on with them
            needs_more[0] = True
        return needs_more[cluster]


def _crosses(start: Ints, end: Ints) -> Bools:
    """Return which intervals, of some in order, end while a later one is open that ends after them; at least one of
    those that hang together, if any does. When an interval ends, as many should be open as when it began."""
    out = np.zeros(len(start), np.bool_)
    rows = np.flatnonzero(end > start)  # the others never reach beyond anything
    begins, ends = start[rows], end[rows]
    n = len(rows)
    by_end = n - 1 - np.argsort(ends[::-1], kind="stable")  # of equal ends the innermost one, which began last, first
    rank = np.empty(n, np.int64)
    rank[by_end] = np.arange(n)
    depth = np.arange(n) - np.searchsorted(ends[by_end], begins, side="right")
    open_after = np.searchsorted(begins, ends, side="left") - rank - 1
    out[rows] = open_after != depth
    return out


def _fill_lanes(lanes: list[Stack], starts: list[int], ends: list[int], nests: bool) -> list[int]:
    """Return the lane of every interval, one after the other; `lanes` is changed."""
    out: list[int] = []
    for start, end in zip(starts, ends, strict=True):
        for lane, stack in enumerate(lanes):
            while stack and stack[-1] <= start:
                stack.pop()
            if not stack or (nests and stack[-1] >= end):
                stack.append(end)
                out.append(lane)
                break
        else:
            if len(lanes) >= MANY:
                break
            out.append(len(lanes))
            lanes.append([end])
    room = _Room(lanes, nests) if len(out) < len(starts) else None
    for start, end in zip(starts[len(out) :], ends[len(out) :], strict=True):
        assert room is not None
        room.pass_to(start)
        out.append(room.first_for(end))
        room.put(out[-1], end)
    return out


class _Room:
    """What fits into which lane: `_most[k]`, over a binary tree of lanes, is the latest end that fits into one of them.
    So the first lane is found in log2(lanes) steps, also where thousands of intervals cross."""

    def __init__(self, lanes: list[Stack], nests: bool) -> None:
        self._lanes, self._nests = lanes, nests
        self._ends = [(stack[-1], lane) for lane, stack in enumerate(lanes) if stack]  # when a lane changes
        heapq.heapify(self._ends)
        self._grow()

    def _grow(self) -> None:
        self._size = 1 << (len(self._lanes) + 1).bit_length()
        self._most = [ALL] * (2 * self._size)
        for lane in range(len(self._lanes)):
            self._most[self._size + lane] = self._fits(lane)
        for place in range(self._size - 1, 0, -1):
            self._most[place] = max(self._most[2 * place], self._most[2 * place + 1])

    def _fits(self, lane: int) -> int:
        stack = self._lanes[lane]
        return ALL if not stack else stack[-1] if self._nests else NOTHING

    def _note_change(self, lane: int) -> None:
        place = self._size + lane
        self._most[place] = self._fits(lane)
        while place > 1:
            place //= 2
            self._most[place] = max(self._most[2 * place], self._most[2 * place + 1])

    def pass_to(self, now: int) -> None:
        """Close what has ended."""
        while self._ends and self._ends[0][0] <= now:
            _, lane = heapq.heappop(self._ends)
            stack = self._lanes[lane]
            while stack and stack[-1] <= now:
                stack.pop()
            if stack:
                heapq.heappush(self._ends, (stack[-1], lane))
            self._note_change(lane)

    def first_for(self, end: int) -> int:
        place = 1
        while place < self._size:
            place = 2 * place if self._most[2 * place] >= end else 2 * place + 1
        return place - self._size

    def put(self, lane: int, end: int) -> None:
        if lane == len(self._lanes):
            self._lanes.append([])
            if len(self._lanes) >= self._size:
                self._grow()
        self._lanes[lane].append(end)
        heapq.heappush(self._ends, (end, lane))
        self._note_change(lane)
