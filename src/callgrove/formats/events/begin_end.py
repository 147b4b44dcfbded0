"""Begins and ends that are recorded apart, as spans: on each track, an end closes what began last and is still open.

track 0    B  B  E  E     B  E  E           partners   3  2  1  0      5  4 -1
              |__|                          an end that nothing is open for stands alone, and so does
           |________|     |__|              a begin that nothing closes
"""

from __future__ import annotations

import numpy as np

from callgrove.arrays import ABSENT, Bools, Ints

__all__ = ["find_partners", "open_at"]


def find_partners(track: Ints, begins: Bools) -> Ints:
    """Return, for events in the order of tracks and then of time, the row of the begin or end that belongs to each, or
    -1."""
    n = len(track)
    out = np.full(n, ABSENT, np.int64)
    if not n:
        return out
    level, is_stray = _levels(track, begins)
    rows = np.flatnonzero(~is_stray)
    first = np.diff(track[rows], prepend=track[0]) != 0
    key = np.cumsum(first) * (int(level.max(initial=0)) + 1) + level[rows]
    if key.max(initial=0) < 1 << 16:  # which NumPy sorts by counting, in a fraction of the time
        key = key.astype(np.uint16)
    order = rows[np.argsort(key, kind="stable")]
    # on one level of a track, begins and ends take turns; only the last begin may lack its end
    left, right = order[:-1], order[1:]
    pairs = begins[left] & ~begins[right] & (track[left] == track[right]) & (level[left] == level[right])
    out[left[pairs]], out[right[pairs]] = right[pairs], left[pairs]
    return out


def open_at(track: Ints, begins: Bools, place: Ints) -> Ints:
    """Return the begin that was the innermost open one before the events at some places, or -1. All is of one track."""
    level, is_stray = _levels(track, begins)
    depth = np.append(0, np.where(is_stray, 0, np.where(begins, level, level - 1)))  # after each event
    wanted = depth[place]
    out = np.full(len(place), ABSENT, np.int64)
    inside = np.flatnonzero(wanted > 0)
    starts = np.flatnonzero(begins)
    # the last begin of that level before the place
    base = len(track) + 1
    keys = level[starts] * base + starts
    order = np.argsort(keys)
    at = np.searchsorted(keys[order], wanted[inside] * base + place[inside], side="left") - 1
    out[inside] = starts[order[at]]
    return out


def _levels(track: Ints, begins: Bools) -> tuple[Ints, Bools]:
    """Return how deep each begin and its end lie, from 1, and which ends close nothing."""
    step = np.where(begins, 1, -1)
    number = np.cumsum(np.diff(track, prepend=track[:1]) != 0)
    total = np.cumsum(step)
    firsts = np.flatnonzero(np.diff(number, prepend=-1))
    before = total[firsts] - step[firsts]
    total -= before[number]
    far = len(track) + 1  # tracks are kept apart by falling ever deeper
    lowest = np.minimum.accumulate(np.minimum(total, 0) - number * far) + number * far
    previous = np.append(0, lowest[:-1])
    previous[firsts] = 0
    is_stray = ~begins & (total < previous)
    depth = total - lowest
    return np.where(begins, depth, depth + 1), is_stray
