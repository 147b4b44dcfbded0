"""Spans that nest, as what was innermost at each time, for any number of tracks at once.

Spans come in the order (start, -end, number). Starts and ends are merged into one sequence of events by one sort:

    spans     |--f---------------|         depth of a span = starts before it - ends no later than its start
                 |-g-|  |-h-|              after an event, as many are open as starts - ends so far;
    events    f  g   g' h   h'   f'        what started or, after an end, the parent of what ended, is innermost
    pieces    |f-|-g-|f-|-h-|-f--|

The parent of a span is what started just before it or, where something ended just before it, the parent of that. Where
every parent lasts as long as its child and depths rise by one, spans nest. Where not, the earlier span is cut: to the
time at which the later one, which outlasts it, starts. From there on the later one is innermost, so that pieces stay
the same, and all spans nest. How long a span really was is kept beside.

    f  |-------|            |---|
    h      |-------|            |-------|

A track that is too long for memory comes in parts. What is open at the end of one goes into the next, where it starts
with it. Spans of no length are in no piece; they have a parent as others have.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from callgrove.arrays import ABSENT, Array, Bools, Ints

__all__ = ["FOREVER", "Nested", "ancestors", "nest"]

FOREVER = 2**62  # after every time
FREE_BITS = 63


@dataclass(frozen=True)
class Nested:
    """Spans, those that were open before in front, with the number of their parent and their depth; `end` where they
    are cut, if they are. Pieces are (start, end, number of the span), in order and none of no length."""

    start: Ints
    end: Ints
    parent: Ints
    depth: Ints
    piece_start: Ints
    piece_end: Ints
    piece_of: Ints


def nest(start: Ints, end: Ints, until: int = FOREVER) -> Nested:
    """Return what is innermost when, of spans in order; pieces go up to a time at which later spans start."""
    there = np.flatnonzero(end > start)
    ends = end[there] if len(there) < len(start) else end
    order = _by_end(ends)
    ends = ends[order]
    n_ended = np.searchsorted(ends, start, side="right")
    events = _Events(start, end, there, order, ends, n_ended)
    depth = events.depths()
    parent = events.parents()
    if events.crosses(depth, parent):
        return nest(start, _cut(start, end), until)
    return Nested(start, end, parent, depth, *events.pieces(parent, until))


def _by_end(end: Ints) -> Ints:
    """Return the order of ends; of equal ones the innermost, which has the largest number, comes first."""
    n = len(end)
    if not n:
        return np.empty(0, np.int64)
    low, bits = int(end.min()), n.bit_length()
    if (int(end.max()) - low).bit_length() + bits <= FREE_BITS:  # the number in the low bits: one sort of integers
        key = (end - low) << bits
        key |= np.arange(n - 1, -1, -1)
        key.sort(kind="stable")
        key &= (1 << bits) - 1
        return n - 1 - key
    return n - 1 - np.argsort(end[::-1], kind="stable")


@dataclass(frozen=True)
class _Events:
    """Starts and ends of spans as one sequence. `there` are the spans with a length, `order` their order by end, `ends`
    these ends; `n_ended` of these are over when each span starts."""

    start: Ints
    end: Ints
    there: Ints
    order: Ints
    ends: Ints
    n_ended: Ints

    def depths(self) -> Ints:
        """Return how many spans are open when each one starts."""
        return self._n_started - self.n_ended

    @property
    def _n_started(self) -> Ints:
        """Return how many spans with a length come before each one."""
        n = len(self.start)
        if len(self.there) == n:
            return np.arange(n)
        flag = np.zeros(n + 1, np.int64)
        flag[self.there + 1] = 1
        return np.cumsum(flag)[:-1]

    def parents(self) -> Ints:
        """Return the parent of each span, where spans nest. If a start comes before it, that is the parent. Else an end
        does, and both spans have one parent: it is looked for along the siblings, in steps that double."""
        n = len(self.there)
        n_ended = self.n_ended[self.there] if n < len(self.start) else self.n_ended
        parent = np.arange(-1, n - 1)  # as if nothing ended
        searching = np.flatnonzero(n_ended > np.append(0, n_ended[:-1]))
        sibling = np.full(n, ABSENT, np.int64)
        sibling[searching] = self.order[n_ended[searching] - 1]
        while len(searching):
            before = sibling[searching]
            further = sibling[before]
            known = further < 0
            parent[searching[known]] = parent[before[known]]
            sibling[searching] = further
            searching = searching[~known]
        if n == len(self.start):
            return parent
        return self._parents_of_all(parent, n_ended)

    def _parents_of_all(self, parent: Ints, n_ended: Ints) -> Ints:
        """Return parents with those of spans of no length: what is innermost when these start."""
        last = self._n_started - 1
        ended = self.n_ended > np.append(n_ended, 0)[last]
        ended |= (last < 0) & (self.n_ended > 0)
        top = np.where(ended, np.append(parent, ABSENT)[np.append(self.order, ABSENT)[self.n_ended - 1]], last)
        top[self.there] = parent
        return np.where(top >= 0, np.append(self.there, ABSENT)[top], ABSENT)

    def crosses(self, depth: Ints, parent: Ints) -> bool:
        """Tell whether any span outlasts its parent, or has not as many around it as are open."""
        inner = np.flatnonzero(parent >= 0)
        above = parent[inner]
        outlasts = (self.end[above] < self.end[inner]) | (depth[above] != depth[inner] - 1)
        return bool(outlasts.any() or (np.count_nonzero(depth) != len(inner)))

    def pieces(self, parent: Ints, until: int) -> tuple[Ints, Ints, Ints]:
        """Return the pieces: between neighbouring events, of what is innermost after the first of them."""
        n = len(self.there)
        begins, n_ended = self.start, self.n_ended
        if n < len(self.start):
            begins, n_ended = begins[self.there], n_ended[self.there]
        place = np.arange(n) + n_ended
        is_end: Bools = np.ones(2 * n, np.bool_)
        is_end[place] = False
        time, top = np.empty(2 * n, np.int64), np.empty(2 * n, np.int64)
        time[place], time[is_end] = begins, self.ends
        top[place], top[is_end] = self.there, parent[self.there[self.order]]
        if until < FOREVER:
            np.minimum(time, until, out=time)
        busy = np.flatnonzero((top[:-1] >= 0) & (time[1:] > time[:-1]))
        return time[busy], time[busy + 1], top[busy]


def _cut(start: Ints, end: Ints) -> Ints:
    """Return ends, those of spans that are outlasted by a later one set to where it starts; one span after the other
    where some hang together of which one does."""
    latest = np.maximum.accumulate(end)
    fresh = np.append(True, start[1:] >= latest[:-1])
    edges = np.append(np.flatnonzero(fresh), len(start))
    out = end.copy()
    for first, last in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        if last - first > 1:
            out[first:last] = _cut_group(start[first:last].tolist(), end[first:last].tolist())
    return out


def _cut_group(starts: list[int], ends: list[int]) -> list[int]:
    out, stack = list(ends), list[int]()
    for number, (begin, stop) in enumerate(zip(starts, ends, strict=True)):
        while stack and out[stack[-1]] <= begin:
            stack.pop()
        if stop > begin:
            while stack and out[stack[-1]] < stop:
                out[stack.pop()] = begin
            stack.append(number)
    return out


def ancestors(parent: Ints, of: Ints) -> tuple[Ints, Array]:
    """Return the spans that some spans lie in, from the inside out: which of `of` each belongs to, and the span."""
    owners, spans = [], []
    owner, at = np.arange(len(of)), parent[of]
    while True:
        kept = at >= 0
        owner, at = owner[kept], at[kept]
        if not len(at):
            break
        owners.append(owner)
        spans.append(at)
        at = parent[at]
    empty = np.empty(0, np.int64)
    return np.concatenate(owners or [empty]), np.concatenate(spans or [empty])
