"""What a page draws: boxes, each from a start to an end on a level of a row.

Exact boxes are events: spans as they are, samples as the stretches in which a frame stayed. Boxes of bins say which
name took the largest part of each bin, how much of it, and how much of it was busy at all; neighbouring bins that say
the same are one box. A row has a track for every level of calls, and a line for every depth that calls may be cut at: a
line shows the innermost calls that are no deeper.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from callgrove.model.arrays import ABSENT, Array, Bools, Ids, Ints
from callgrove.model.grouping import distinct_rows, packed
from callgrove.model.intervals import lanes, nesting
from callgrove.viewer.timeline.cells import Tally, slices_of_rows, sums_of_runs
from callgrove.viewer.timeline.events import MOST_LEVELS, Events, Names
from callgrove.viewer.timeline.stacks import Stacks

__all__ = ["INNERMOST", "LINES", "WHOLE", "Boxes", "dominant", "runs_of_frames", "span_boxes"]

WHOLE = 255  # the share of a box that is all of its time
LINES = MOST_LEVELS  # track LINES + d is the line of calls cut at depth d
INNERMOST = LINES + MOST_LEVELS  # the line of calls that are not cut
FAR = 1 << 62  # no column is worth numbering
CLASSES = 5  # of shares: bins of one name whose shares are about equal are one box


@dataclass(frozen=True)
class Boxes:
    """Columns of boxes. `track` is a level or a line; `start` and `end` are in ticks: ns, or bins. `share` is the part
    of the time that the name took, and `busy` the part that any name took, of `WHOLE`."""

    row: Array
    track: Array
    name: Array
    start: Array
    end: Array
    share: Array
    busy: Array

    def __len__(self) -> int:
        return len(self.row)

    @classmethod
    def joined(cls, parts: Iterable[Boxes]) -> Boxes:
        """All of them, in the order of rows, tracks and times; what encloses comes before what it contains."""
        boxes = cls.concatenated([part for part in parts if len(part)])
        row, track, _, start, end, _, _ = columns = list(vars(boxes).values())
        key = packed(row, track, start, -end, far=FAR)
        order = np.lexsort([-end, start, track, row]) if key is None else np.argsort(key, kind="stable")
        return cls(*(column[order] for column in columns))

    @classmethod
    def concatenated(cls, parts: Sequence[Boxes]) -> Boxes:
        """All of them, part by part."""
        empty = np.empty(0, np.int64)
        fields = cls.__dataclass_fields__
        return cls(*(np.concatenate([getattr(part, name) for part in parts] or [empty]) for name in fields))

    def on(self, track: int) -> Boxes:
        """The same boxes on another track."""
        return replace(self, track=np.full(len(self), track, np.int16))

    def of_rows(self, stride: int) -> Boxes:
        """Those of every `stride`-th row."""
        return self if stride == 1 else Boxes(*(column[self.row % stride == 0] for column in vars(self).values()))

    def data(self, number: Ids) -> dict[str, Any]:
        """As a page has it: tracks of rows, and their boxes by the gap before each and its length. `number` is that of
        each name."""
        first = np.flatnonzero(np.append(True, (np.diff(self.row) != 0) | (np.diff(self.track) != 0)))
        first = first[: len(self)]  # none where there is nothing
        before = np.append(0, self.end[:-1])
        before[first] = 0
        track = self.track[first]
        return {
            "row": self.row[first],
            "level": np.where(track < LINES, track, track - LINES),
            "line": track >= LINES,
            "count": np.diff(np.append(first, len(self))),
            "gap": self.start - before,
            "length": self.end - self.start,
            "name": number,
            "share": self.share,
            "busy": self.busy,
        }


def span_boxes(events: Events) -> Boxes:
    """Spans as they are. Rows in which spans of one level overlap, since operations ran at once or since calls cross,
    get other levels: how deep spans lie in one another, or where even then some overlap, the lowest on which nothing
    is going on."""
    levels = events.level.copy()
    for other in (lambda *times: nesting(*times).depth, lanes):
        crowded = _crowded(events, levels)
        levels[crowded] = other(events.start[crowded], events.end[crowded], events.row[crowded])
    whole = np.full(len(events), WHOLE, np.int64)
    return Boxes(events.row, np.minimum(levels, MOST_LEVELS - 1), events.name, events.start, events.end, whole, whole)


def _crowded(events: Events, level: Ints) -> Bools:
    """Events of rows in which two of one level overlap."""
    order = np.lexsort([events.start, level, events.row])
    row = events.row[order]
    same = (np.diff(row) == 0) & (np.diff(level[order]) == 0)
    overlap = same & (events.start[order][1:] < events.end[order][:-1])
    crowded: Bools = np.isin(events.row, row[1:][overlap])
    return crowded


def runs_of_frames(events: Events, stacks: Stacks, names: Names) -> Iterator[Boxes]:
    """Samples by depth: a box for every stretch of one row in which one frame stayed. Events of a row are in order."""
    for depth in range(stacks.n_levels(events.name)):
        frame = stacks.at(events.name, depth)
        there = np.flatnonzero(frame != ABSENT)
        own, frame = events.take(there), frame[there]
        goes_on = (own.row[1:] == own.row[:-1]) & (frame[1:] == frame[:-1]) & (own.start[1:] == own.end[:-1])
        first = np.flatnonzero(np.append(True, ~goes_on))[: len(own)]
        last = np.append(first[1:] - 1, len(own) - 1)[: len(first)]
        level, whole = np.full(len(first), depth, np.int64), np.full(len(first), WHOLE, np.int64)
        name = names.of(stacks.names(frame[first]))
        yield Boxes(own.row[first], level, name, own.start[first], own.end[last], whole, whole)


def dominant(tally: Tally, track: int, bin_ns: int, range_ns: int, factor: int = 1) -> Boxes:
    """Of one track: in each `factor` bins the name with the most time (of equal ones the first), as boxes whose ticks
    are so many bins."""
    parts = slices_of_rows(tally.row)
    return Boxes.concatenated([_dominant(tally.take(part), track, bin_ns, range_ns, factor) for part in parts])


def _dominant(tally: Tally, track: int, bin_ns: int, range_ns: int, factor: int) -> Boxes:
    """The same of some rows, which have a cell at least."""
    cell, ns, together = _largest(tally, factor)
    row, bins, name = tally.row[cell], tally.bin[cell].astype(np.int64) // factor, tally.name[cell]
    width = np.minimum((bins + 1) * (bin_ns * factor), range_ns) - bins * (bin_ns * factor)
    share, busy = (np.minimum(time / width, 1.0) for time in (ns, together))
    shade = [np.minimum((part * CLASSES).astype(np.int8), CLASSES - 1) for part in (share, busy)]
    goes_on = bins[1:] == bins[:-1] + 1
    for column in (row, name, *shade):
        goes_on &= column[1:] == column[:-1]
    first = np.flatnonzero(np.append(True, ~goes_on))
    n_bins = np.diff(np.append(first, len(row)))
    parts = (np.add.reduceat(part, first) / n_bins for part in (share, busy))
    shares = [np.maximum(np.rint(part * WHOLE), 1).astype(np.uint8) for part in parts]
    same, start = np.full(len(first), track, np.int16), bins[first]
    return Boxes(row[first], same, name[first], start.astype(np.int32), (start + n_bins).astype(np.int32), *shares)


def _largest(tally: Tally, factor: int) -> tuple[Ints, Ints, Ints]:
    """In each `factor` bins of a row: a cell of the name with the most time, this time, and that of all names."""
    n_names = int(tally.name.max()) - int(tally.name.min()) + 1
    order, key, ns = _in_order(_key(tally.row, tally.bin // factor, tally.name), tally.ns)
    first = _starts(key)
    if len(first) < len(key):
        key, ns = key[first], sums_of_runs(ns, first)
    place = key // n_names
    begin = _starts(place)
    most, together = np.maximum.reduceat(ns, begin), sums_of_runs(ns, begin)
    best = np.flatnonzero(ns == np.repeat(most, np.diff(np.append(begin, len(ns)))))
    if len(best) > len(begin):  # names share the first place
        best = best[_starts(place[best])]
    return order[first[best]], most, together


def _key(row: Array, bins: Array, name: Array) -> Ints:
    """A number for each row, bin and name, in their order; those of one place follow each other."""
    key = packed(row, bins, name, far=FAR)
    if key is None:
        key = distinct_rows(row, bins)[1] * (int(name.max()) - int(name.min()) + 1) + (name - name.min())
    return key


def _in_order(key: Ints, ns: Ints) -> tuple[Ints, Ints, Ints]:
    """Rows in the order of their keys, with the keys and times in it."""
    if (key[1:] >= key[:-1]).all():
        return np.arange(len(key)), key, ns
    order = np.argsort(key, kind="stable")
    return order, key[order], ns[order]


def _starts(column: Array) -> Ints:
    """Where runs of equal numbers begin."""
    return np.flatnonzero(np.append(True, column[1:] != column[:-1]))
