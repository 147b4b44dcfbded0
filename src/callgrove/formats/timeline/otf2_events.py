"""Slices as enter and leave events of locations, in the order that OTF2 wants.

Specification: trace-outputs.md 5. On every location time must not go back, and what is entered last is left first. At
one time come first the ends of what lasted, the innermost first; then begins, the outermost first; what lasts no time
is left right after it was entered:

    slices      A |---------|B|     Z (no time, at the end of A)
    events      enter A ... leave A, enter B, enter Z, leave Z, ... leave B

Slices come chunk after chunk. What ends later than the last one of its track begins stays open until more is known;
there is one such list for each track, as long as the track nests deep.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from callgrove.model.arrays import Array, Bools, Ints

__all__ = ["Events", "OpenSlices"]

NONE = np.empty(0, np.int64)


@dataclass(frozen=True)
class Events:
    """Events of one track in order. `slice` numbers those of the chunk; below 0 is what was open before, of which only
    `region` says what it is."""

    time: Ints
    enters: Bools
    slice: Ints
    region: Ints


@dataclass
class OpenSlices:
    """What is open on the tracks of a process: ends and regions, the outermost first."""

    _end: dict[int, Ints] = field(default_factory=dict)
    _region: dict[int, Ints] = field(default_factory=dict)

    def events(self, track: int, rows: Ints, start: Ints, end: Ints, region: Ints) -> Events:
        """Of slices of one track in the order (start, -end, number); `rows` are their numbers in the chunk."""
        before = self._end.get(track, NONE)
        n_before = len(before)
        ends, regions = np.append(before, end), np.append(self._region.get(track, NONE), region)
        slices = np.append(np.arange(-n_before, 0), rows)
        number = np.arange(len(ends))
        begins = number[n_before:]
        lasts = np.append(np.ones(n_before, np.bool_), end > start)
        closes = ends <= start[-1]  # what begins later begins no sooner than this
        closed, at_once = number[lasts & closes], number[~lasts]
        time = np.concatenate([ends[closed], start, ends[at_once]])
        kind = np.concatenate([np.zeros(len(closed), np.int8), np.ones(len(begins) + len(at_once), np.int8)])
        place = np.concatenate([-closed, 2 * begins, 2 * at_once + 1])
        order = np.lexsort((place, kind, time))
        which = np.concatenate([closed, begins, at_once])[order]
        enters = np.zeros(len(time), np.bool_)
        enters[len(closed) : len(closed) + len(begins)] = True
        left = lasts & ~closes
        self._end[track], self._region[track] = ends[left], regions[left]
        return Events(time[order], enters[order], slices[which], regions[which])

    def rest(self) -> Iterator[tuple[int, Events]]:
        """The ends of all that is still open."""
        for track, end in self._end.items():
            if len(end):
                order: Array = np.arange(len(end))[::-1]
                absent = np.full(len(end), -1)
                yield track, Events(end[order], np.zeros(len(end), np.bool_), absent, self._region[track][order])
        self._end, self._region = {}, {}
