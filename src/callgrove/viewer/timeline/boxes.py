"""What a page draws: boxes, each from a start to an end on a level of a row.

Exact boxes are events: spans as they are, samples as the stretches in which a frame stayed. Boxes of bins say which
name took the largest part of each bin, how much of it, and how much of it was busy at all; neighbouring bins that say
the same are one box. A row has a track for every level of calls, and a line for every depth that calls may be cut at: a
line shows the innermost calls that are no deeper.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from callgrove.model.arrays import ABSENT, Array, Bools, Ids, Ints
from callgrove.model.grouping import packed
from callgrove.model.intervals import lanes, nesting
from callgrove.viewer.timeline.cells import Tally
from callgrove.viewer.timeline.events import MOST_LEVELS, Events, Names
from callgrove.viewer.timeline.stacks import Stacks

__all__ = ["INNERMOST", "LINES", "WHOLE", "Boxes", "dominant", "runs_of_frames", "span_boxes"]

WHOLE = 255  # the share of a box that is all of its time
LINES = MOST_LEVELS  # track LINES + d is the line of calls cut at depth d
INNERMOST = LINES + MOST_LEVELS  # the line of calls that are not cut
CLASSES = 5  # of shares: bins of one name whose shares are about equal are one box


@dataclass(frozen=True)
class Boxes:
    """Columns of boxes. `track` is a level or a line; `start` and `end` are in ticks: ns, or bins. `share` is the part
    of the time that the name took, and `busy` the part that any name took, of `WHOLE`."""

    row: Ints
    track: Ints
    name: Ints
    start: Ints
    end: Ints
    share: Ints
    busy: Ints

    def __len__(self) -> int:
        return len(self.row)

    @classmethod
    def joined(cls, parts: Iterable[Boxes]) -> Boxes:
        """All of them, in the order of rows, tracks and times; what encloses comes before what it contains."""
        empty = np.empty(0, np.int64)
        kept = list(parts)
        columns = [np.concatenate([empty, *(getattr(p, n) for p in kept)]) for n in cls.__dataclass_fields__]
        row, track, _, start, end, _, _ = columns
        order = np.lexsort([-end, start, track, row])
        return cls(*(column[order] for column in columns))

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
    row, bins, name, ns = _by_bin(tally, factor)
    if not len(row):
        return Boxes.joined([])
    new = np.append(True, (np.diff(row) != 0) | (np.diff(bins) != 0))
    first = np.flatnonzero(new)
    most = np.repeat(np.maximum.reduceat(ns, first), np.diff(np.append(first, len(row))))
    together = np.add.reduceat(ns, first)
    best = np.flatnonzero(ns == most)  # several, where names share the first place
    best = best[np.append(True, np.diff(np.cumsum(new)[best]) != 0)]
    row, bins, name, ns = row[best], bins[best], name[best], ns[best]
    width = np.minimum((bins + 1) * bin_ns * factor, range_ns) - bins * bin_ns * factor
    share, busy = (np.minimum(time / width, 1.0) for time in (ns, together))
    shade = [np.minimum((part * CLASSES).astype(np.int64), CLASSES - 1) for part in (share, busy)]
    goes_on = (np.diff(row) == 0) & (np.diff(bins) == 1) & (np.diff(name) == 0)
    goes_on &= (np.diff(shade[0]) == 0) & (np.diff(shade[1]) == 0)
    first = np.flatnonzero(np.append(True, ~goes_on))
    n_bins = np.diff(np.append(first, len(row)))
    parts = (np.add.reduceat(part, first) / n_bins for part in (share, busy))
    shares = [np.maximum(np.rint(part * WHOLE).astype(np.int64), 1) for part in parts]
    same = np.full(len(first), track, np.int64)
    return Boxes(row[first], same, name[first], bins[first], bins[first] + n_bins, *shares)


def _by_bin(tally: Tally, factor: int) -> tuple[Array, Array, Array, Array]:
    """Time by row, wide bin and name, in this order."""
    bins = tally.bin // factor
    key = packed(tally.row, bins, tally.name)
    order = np.lexsort([tally.name, bins, tally.row]) if key is None else np.argsort(key, kind="stable")
    row, bins, name, ns = tally.row[order], bins[order], tally.name[order], tally.ns[order]
    if not len(row):
        return row, bins, name, ns
    new = np.append(True, (np.diff(row) != 0) | (np.diff(bins) != 0) | (np.diff(name) != 0))
    first = np.flatnonzero(new)
    return row[first], bins[first], name[first], np.add.reduceat(ns, first)
