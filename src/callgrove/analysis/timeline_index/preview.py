"""What is there before an index is: what was innermost at some moments, of what was read so far.

While a trace is read, nobody knows from when to when it goes, nor what else a track has. So a preview holds single
moments, which are right as far as the file was read, instead of sums, which would be those of nothing. Moments are a
power of two ns apart; where the time that was seen does not fit any more, every second one is forgotten:

    0       8       16      24               256 moments, of up to 128 profiles: every k-th of them
    |---f---|---g---|-------|
    0               16              32       after a span that ends at 30

Of what is open at a moment, what started last is innermost, as everywhere. Whoever builds adds spans and samples;
others ask from their threads.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock

import numpy as np

from callgrove.analysis.timeline_index.answers import LineKind, NameTable
from callgrove.analysis.timeline_index.sources import KIND_OF_TRACK, N_CLASSES, NameNumbers
from callgrove.analysis.timeline_index.spool import TrackSpans
from callgrove.analysis.timeline_index.windows import join_ranges
from callgrove.arrays import ABSENT, Ids, Ints, distinct
from callgrove.model.traces.events import Window

__all__ = ["Moments", "Preview"]

MOMENTS = 256
MOST_PROFILES = 128


@dataclass(frozen=True)
class Moments:
    """What was innermost when: `name[k, m]` of the track whose profile and kind are `profile[k]` and `kind[k]`, at the
    moment (first + m) * 2^shift ns; -1 where nothing that was read went on."""

    profile: Ints
    kind: Ints
    name: Ids
    first: int
    shift: int
    window: Window
    names: NameTable

    def at(self, track: Ints, times: Ints) -> Ids:
        """Return the names of tracks at the latest moments that are not after some times."""
        moment = (times >> self.shift) - self.first
        is_there = (moment >= 0) & (moment < MOMENTS)
        found = self.name[np.ix_(track, np.clip(moment, 0, MOMENTS - 1))]
        return np.where(is_there, found, np.int32(ABSENT))


class Preview:
    """Moments of tracks while they are read."""

    def __init__(self, n_profiles: int) -> None:
        self._step = max(1, -(-n_profiles // MOST_PROFILES))
        self._guard = Lock()
        self._numbers: dict[tuple[int, int], int] = {}  # of tracks, by profile and kind
        self._first = self._shift = 0
        self._low, self._high = 2**63 - 1, 0
        self._start, self._end = (np.full((0, MOMENTS), ABSENT, np.int64) for _ in range(2))
        self._name = np.full((0, MOMENTS), ABSENT, np.int32)

    def add_spans(self, spans: TrackSpans) -> None:
        """Add spans, in any order."""
        if self._step > 1:
            spans = spans.take(np.flatnonzero(spans.track // N_CLASSES % self._step == 0))
        if not len(spans):
            return
        with self._guard:
            self._fit(int(spans.start.min()), int(spans.end.max()))
            every = distinct(spans.track)
            numbers = np.array([self._number(*divmod(track, N_CLASSES)) for track in every.tolist()])
            round_up = (1 << self._shift) - 1
            first, after = (spans.start + round_up) >> self._shift, (spans.end + round_up) >> self._shift
            hit = np.flatnonzero(after > first)
            n = after[hit] - first[hit]
            moment, span = join_ranges(first[hit], n) - self._first, np.repeat(hit, n)
            track = numbers[np.searchsorted(every, spans.track[span])]
            self._keep(track * MOMENTS + moment, spans.start[span], spans.end[span], spans.name[span])

    def add_samples(self, profile: int, start: Ints, end: Ints, name_of: Callable[[Ints], Ints]) -> None:
        """Add the samples of a profile, which are in order; `name_of` gives the names of some of them."""
        if profile % self._step or not len(start):
            return
        with self._guard:
            self._fit(int(start[0]), int(end[-1]))
            times = (self._first + np.arange(MOMENTS)) << self._shift
            place = np.searchsorted(start, times, side="right") - 1
            moment = np.flatnonzero((place >= 0) & (times < end[place]))
            place = place[moment]
            track = self._number(profile, ABSENT)
            self._keep(track * MOMENTS + moment, start[place].astype(np.int64), end[place], name_of(place))

    def _number(self, profile: int, kind: int) -> int:
        """Return the number of a track; make room for one that is new."""
        number = self._numbers.setdefault((profile, kind), len(self._numbers))
        if number == len(self._name):
            room = max(8, number)
            self._start, self._end, self._name = (
                np.concatenate([one, np.full((room, MOMENTS), ABSENT, one.dtype)])
                for one in (self._start, self._end, self._name)
            )
        return number

    def _keep(self, cell: Ints, start: Ints, end: Ints, name: Ints) -> None:
        """Keep what is innermost at each moment: what started last, and of that what ends first."""
        order = np.lexsort((-end, start, cell))
        order = order[np.append(cell[order][1:] != cell[order][:-1], True)[: len(order)]]
        cell, start, end, name = cell[order], start[order], end[order], name[order]
        place = np.divmod(cell, MOMENTS)
        known, until = self._start[place], self._end[place]
        is_inner = (start > known) | ((start == known) & (end <= until))
        place = place[0][is_inner], place[1][is_inner]
        self._start[place], self._end[place], self._name[place] = start[is_inner], end[is_inner], name[is_inner]

    def _fit(self, low: int, high: int) -> None:
        """Make moments cover a time as well."""
        self._low, self._high = min(self._low, low), max(self._high, high)
        shift = self._shift
        while ((self._window[1] - 1) >> shift) - (self._low >> shift) >= MOMENTS:
            shift += 1
        first = self._low >> shift
        if (first, shift) == (self._first, self._shift):
            return
        before = ((first + np.arange(MOMENTS)) << (shift - self._shift)) - self._first
        is_there = (before >= 0) & (before < MOMENTS)
        self._start, self._end, self._name = (
            np.where(is_there, one[:, np.clip(before, 0, MOMENTS - 1)], one.dtype.type(ABSENT))
            for one in (self._start, self._end, self._name)
        )
        self._first, self._shift = first, shift

    @property
    def _window(self) -> Window:
        """Return from when to when there are moments: a nanosecond at the least, also where nothing takes any time."""
        return self._low, max(self._high, self._low + 1)

    def moments(self, names: NameNumbers) -> Moments:
        """Return what is there by now, with the names so far."""
        with self._guard:
            n = len(self._numbers)
            profile, kind = np.array(list(self._numbers), np.int64).reshape(-1, 2).T
            kinds = np.array([*KIND_OF_TRACK, LineKind.SAMPLES], np.int64)[kind]  # -1, the last: samples
            window = self._window if n else (0, 1)
            name, first, shift = self._name[:n].copy(), self._first, self._shift
        return Moments(profile, kinds, name, first, shift, window, NameTable(*names.tables))
