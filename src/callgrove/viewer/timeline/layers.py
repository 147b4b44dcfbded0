"""A window of time in as many boxes as there is room for, level by level.

Few events stay as they are. Of many there are bins, which are made wider, then the levels that say least are left out,
then rows, until the boxes fit. What is innermost in each row is a layer of its own, in finer bins than all levels.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property, partial
from itertools import pairwise
from math import ceil, log2
from typing import Any

import numpy as np

from callgrove.arrays import ABSENT, Array, Ids, Ints, distinct
from callgrove.model.experiment import Experiment
from callgrove.model.traces.events import Window
from callgrove.viewer.page import Limits
from callgrove.viewer.timeline.boxes import (
    INNERMOST,
    LINES,
    Boxes,
    Cells,
    Tally,
    dominant,
    runs_of_frames,
    slices_of_rows,
    span_boxes,
)
from callgrove.viewer.timeline.events import (
    MOST_LEVELS,
    Events,
    FrameNames,
    NameTimes,
    Part,
    Rows,
    Survey,
    sample_events,
    span_events,
)

__all__ = ["Gathered", "Layer", "Levels", "SampleLevels", "Shows", "SpanLevels", "gather", "names_in_use"]


# -- levels of one kind of events --------------------------------------------------------------------------------------
# One track is made at a time: all of them may be many times as large.


class Levels(ABC):
    """Whole times of calls by level (`whole`), and their own times (`innermost`)."""

    def __init__(self, whole: Cells, innermost: Cells) -> None:
        self.whole, self.innermost = whole.tally(), innermost.tally()
        self._whole_ns, self._innermost_ns = whole.bin_ns, innermost.bin_ns

    def __len__(self) -> int:
        return len(self.innermost)

    def bin_ns(self, track: int) -> int:
        """Return the width of the bins of a track."""
        return self._innermost_ns if track == INNERMOST else max(self._innermost_ns, self._whole_ns)

    def tallies(self, track: int) -> Iterator[Tally]:
        """Yield the cells of a level, or of a line: own times of what is less deep, and whole times where it is cut.
        They come some rows at a time: a line of all rows has more cells than memory should hold at once."""
        if track == INNERMOST:
            yield from (self.innermost.take(part) for part in slices_of_rows(self.innermost.row))
        else:
            yield from self._levels(track) if track < LINES else self._lines(track - LINES)

    def is_level(self, track: int) -> bool:
        """Return whether this is a line that shows what its level shows, since no call is less deep."""
        return LINES <= track < INNERMOST and self._least_depth >= track - LINES

    def variety(self, level: int) -> float:
        """Return the entropy of time over names: a level that is `main` all along says little."""
        time = self._time_by_name(level)
        share: Array = time / max(float(time.sum()), 1.0)
        share = share[share > 0]
        return float(-(share * np.log2(share)).sum())

    @property
    @abstractmethod
    def numbers(self) -> list[int]:
        """The levels that there are."""

    @property
    @abstractmethod
    def _least_depth(self) -> int:
        """The least level of an innermost call."""

    @abstractmethod
    def _levels(self, level: int) -> Iterator[Tally]: ...

    @abstractmethod
    def _lines(self, level: int) -> Iterator[Tally]: ...

    @abstractmethod
    def _time_by_name(self, level: int) -> Array:
        """Return the whole time by number of a name, on one level."""


class SpanLevels(Levels):
    """Spans: every cell has its level and its name."""

    @cached_property
    def numbers(self) -> list[int]:
        levels: list[int] = np.unique(self.whole.level).tolist()
        return levels

    @cached_property
    def _least_depth(self) -> int:
        return int(self.innermost.level.min(initial=LINES))

    def _levels(self, level: int) -> Iterator[Tally]:
        yield from (self._level(self.whole.take(part), level) for part in slices_of_rows(self.whole.row))

    def _lines(self, level: int) -> Iterator[Tally]:
        for whole, innermost in self._same_rows:
            above = self.innermost.take(innermost)
            above = above.take(above.level < level).widen(self.bin_ns(level) // self._innermost_ns)
            yield Tally.concatenate([above, self._level(self.whole.take(whole), level)])

    @cached_property
    def _same_rows(self) -> list[tuple[slice, slice]]:
        """The cells of some rows at a time: of whole, and of own times."""
        both = self.whole.row, self.innermost.row
        ends = distinct(*(row[[part.stop - 1 for part in slices_of_rows(row)]] for row in both))
        bounds = ([0, *np.searchsorted(row, ends, side="right").tolist()] for row in both)
        of_whole, of_innermost = ([slice(*part) for part in pairwise(bound)] for bound in bounds)
        return list(zip(of_whole, of_innermost, strict=True))

    def _level(self, cells: Tally, level: int) -> Tally:
        """Return those of some cells that are on a level, in its bins."""
        return cells.take(cells.level == level).widen(self.bin_ns(level) // self._whole_ns)

    def _time_by_name(self, level: int) -> Array:
        there = self.whole.level == level
        return np.bincount(self.whole.name[there], self.whole.ns[there].astype(np.float64))


class SampleLevels(Levels):
    """Samples: whole times are by context, so that they know what was innermost as well. Names are looked up for the
    contexts that occur, and then for the cells."""

    def __init__(self, whole: Cells, innermost: Cells, frames: FrameNames) -> None:
        super().__init__(whole, innermost)
        self._stacks, self._names = frames.stacks, frames.names
        self._time = np.zeros(len(self._stacks.tree), np.int64)
        np.add.at(self._time, self.whole.name, self.whole.ns)
        self._used = np.flatnonzero(self._time)

    @cached_property
    def numbers(self) -> list[int]:
        return list(range(self._stacks.n_levels(self._used)))

    @cached_property
    def _least_depth(self) -> int:
        return int(self._stacks.depth(self._used).min(initial=LINES))

    def _levels(self, level: int) -> Iterator[Tally]:
        yield self._rename_cells(self._stacks.at(self._used, level), level)

    def _lines(self, level: int) -> Iterator[Tally]:
        yield self._rename_cells(self._stacks.cut(self._used, level), level)

    def _rename_cells(self, frame: Ids | Ints, level: int) -> Tally:
        """Return the cells of contexts that have a frame, under the name of this one."""
        number = np.full(len(self._time), ABSENT, np.int32)
        known = frame != ABSENT
        number[self._used[known]] = self._names.of(self._stacks.names(frame[known]))
        cells, name = self.whole, number[self.whole.name]
        if not known.all():
            there = np.flatnonzero(name != ABSENT)
            cells, name = cells.take(there), name[there]
        return Tally(cells.row, cells.level, name, cells.bin, cells.ns).widen(self.bin_ns(level) // self._whole_ns)

    def _time_by_name(self, level: int) -> Array:
        frame = self._stacks.at(self._used, level)
        known = frame != ABSENT
        names = self._names.of(self._stacks.names(frame[known]))
        return np.bincount(names, self._time[self._used[known]].astype(np.float64))


# -- layers ------------------------------------------------------------------------------------------------------------


FEW_BINS, FEWEST_BINS = 256, 32
BINS_PER_BOX = 16  # on average, where little changes
SHORTER = (31, 23, 15)  # levels of call stacks, where these are too many different ones
WIDER = 4  # bins of levels, of which there are many, than of innermost calls
BINS_AT_FIRST = 500  # times as many as `Limits.bins`, over all rows


class Shows(StrEnum):
    """What a layer is for."""

    ALL = "all"
    LINE = "line"  # what is innermost
    LEVELS = "levels"  # calls below each other, or cut at a depth


@dataclass(frozen=True)
class Layer:
    """Boxes of a window. `tick_ns` is 1 where they are exact, else the width of a bin. `left_levels` were left out, and
    of the rows only every `stride`-th is there."""

    window: Window  # since the beginning of the timeline
    base_ns: int  # where ticks begin
    tick_ns: int
    shows: Shows
    boxes: Boxes
    left_levels: int = 0
    stride: int = 1

    @property
    def exact(self) -> bool:
        return self.shows == Shows.ALL

    def data(self, number: Ids) -> dict[str, Any]:
        return {
            "start_ns": self.window[0],
            "end_ns": self.window[1],
            "base_ns": self.base_ns,
            "tick_ns": self.tick_ns,
            "exact": self.exact,
            "shows": str(self.shows),
            **self.boxes.data(number),
        }


@dataclass
class _Source:
    """Events of one kind: one by one while they are at most `most`, else in cells: whole times by level, own times by
    name."""

    whole: Cells
    innermost: Cells
    most: int
    parts: list[Part] | None = field(default_factory=list)
    n_events: int = 0

    def add(self, part: Part) -> None:
        self.n_events += len(part.events)
        waiting = [part]
        if self.parts is not None:
            self.parts.append(part)
            if self.n_events <= self.most:
                return
            waiting, self.parts = self.parts, None
        self._put_away(waiting)

    def _put_away(self, parts: list[Part]) -> None:
        for part in parts:
            self.whole.add(part.events)
            self.innermost.add(part.innermost)

    def settle(self) -> None:
        for cells in (self.whole, self.innermost):
            cells.settle()

    def cells(self) -> tuple[Cells, Cells]:
        """Return all events as cells: whole times, and own times."""
        self._put_away(self.parts or [])
        return self.whole, self.innermost

    def events(self) -> Events:
        return Events.concatenate([part.events for part in self.parts or ()])


def gather(
    experiment: Experiment,
    overview: Survey,
    frames: FrameNames,
    windows: Sequence[Window],
    limits: Limits,
    times: NameTimes | None = None,
) -> list[Gathered]:
    """Return what went on in windows of the timeline, in memory that does not grow with it; samples are read once for
    all of them. Everything is added to `times` as well."""
    origin = overview.window[0]
    gathered = [Gathered(window, frames, overview.rows, limits) for window in windows]
    outside = [(origin + start, origin + end + 1) for start, end in windows]  # with what has no length at its end
    for number, events in sample_events(experiment, overview.rows, origin, outside, frames.meet):
        gathered[number].add_samples(events)
        if times is not None:
            times.add_samples(events)
    for one, window in zip(gathered, outside, strict=True):
        for part in span_events(experiment, overview, window, frames.names):
            one.add_spans(part)
            if times is not None:
                times.add_spans(part)
        one.settle()
    return gathered


class Gathered:
    """A window, ready to be shown in any number of boxes."""

    def __init__(self, window: Window, frames: FrameNames, rows: Rows, limits: Limits) -> None:
        self.window, self._frames, self._rows = window, frames, rows
        self._n_rows = len(rows.name)
        self._too_deep, self._most_exact = False, limits.events
        at_once = limits.bins * BINS_AT_FIRST // max(len(rows), 1)
        n_bins = max(FEW_BINS, min(limits.bins, 2 ** int(log2(max(at_once, 2)))))
        shorter = [partial(frames.stacks.cut, depth=depth) for depth in SHORTER]
        most = limits.sums // 4  # of each: whole and own times, of samples and of spans
        self._samples, self._spans = (
            _Source(Cells(*window, n_bins, most, fewer, wider=WIDER), Cells(*window, n_bins, most), limits.events)
            for fewer in (shorter, ())
        )
        self._made: dict[tuple[int, int], tuple[int, Boxes]] = {}
        self._n_made: dict[tuple[int, int, int], int] = {}

    def add_samples(self, events: Events) -> None:
        """Add samples under their contexts, and what was innermost then."""
        stacks, events = self._frames.stacks, self._join(events)
        depth = stacks.depth(events.name)
        self._too_deep |= int(depth.max(initial=0)) >= MOST_LEVELS
        level = np.minimum(depth, MOST_LEVELS - 1).astype(np.int8)
        innermost = replace(events, name=self._frames.of(events.name), level=level)
        self._samples.add(Part(replace(events, name=stacks.cut(events.name, MOST_LEVELS - 1)), innermost))

    def add_spans(self, part: Part) -> None:
        """Add spans, and what was innermost then."""
        self._spans.add(Part(self._join(part.events), self._join(part.innermost)))

    def _join(self, events: Events) -> Events:
        """Return events on the lines of the picture."""
        return replace(events, row=self._rows.line[events.row]) if self._rows.are_joined else events

    def settle(self) -> None:
        """Give back memory that is only of use while something is added."""
        self._samples.settle()
        self._spans.settle()

    @property
    def n_events(self) -> int:
        return self._samples.n_events + self._spans.n_events

    def stack_depth(self, layer: Layer) -> int | None:
        """Return how many functions of a call stack there are at the most, where some stacks have more."""
        n_renamed = self._samples.whole.n_renamed
        if layer.exact or not n_renamed:
            return MOST_LEVELS if self._too_deep else None
        return SHORTER[n_renamed - 1] + 1

    @cached_property
    def _exact(self) -> Boxes | None:
        """All events as boxes; None where they are too many."""
        if self.n_events > self._most_exact or self._rows.are_joined:
            return None
        frames = runs_of_frames(self._samples.events(), self._frames.stacks, self._frames.names)
        return Boxes.merge([*frames, span_boxes(self._spans.events())])

    @cached_property
    def _kinds(self) -> tuple[Levels, Levels]:
        """Cells of samples, and of spans."""
        return SampleLevels(*self._samples.cells(), self._frames), SpanLevels(*self._spans.cells())

    @cached_property
    def levels(self) -> list[int]:
        """The levels of samples or spans."""
        return sorted({level for kind in self._kinds for level in kind.numbers})

    @cached_property
    def _telling(self) -> list[int]:
        """Levels, those first whose time is divided most among names."""
        variety = {level: max(kind.variety(level) for kind in self._kinds) for level in self.levels}
        return sorted(self.levels, key=lambda level: (-variety[level], level))

    @property
    def length(self) -> int:
        return self.window[1] - self.window[0]

    def exact_layer(self, most: int) -> Layer | None:
        """Return all events; None where there are too many."""
        boxes = self._exact
        return None if boxes is None or len(boxes) > most else Layer(self.window, 0, 1, Shows.ALL, boxes)

    def line_layer(self, most: int) -> Layer:
        """Return what is innermost in each row, in at most so many boxes."""
        return self._layer(Shows.LINE, most)

    def levels_layer(self, most: int) -> Layer:
        """Return calls level by level, and cut at each of these depths, in at most so many boxes."""
        return self._layer(Shows.LEVELS, most)

    def _layer(self, shows: Shows, most: int) -> Layer:
        """Return a layer of at most so many boxes, if that is possible at all."""
        levels = self.levels if shows == Shows.LEVELS else []
        bin_ns = self._bin_ns(shows)
        factor, stride = self._first_factor(bin_ns, most, max(2 * len(levels), 1)), 1
        while True:
            tracks = [track for level in levels for track in (level, LINES + level)] or [INNERMOST]
            n_boxes, n_bins = self._n_boxes(tracks, bin_ns * factor, stride), ceil(self.length / (bin_ns * factor))
            if n_boxes > most and n_bins > FEW_BINS:
                factor *= min(2 ** ceil(log2(n_boxes / most)), 2 ** ceil(log2(n_bins / FEW_BINS)))
            elif n_boxes > most and len(levels) > 1:
                levels = self._telling[: max(1, int(len(levels) * max(most / n_boxes, 0.5)))]
            elif n_boxes > most and n_bins > FEWEST_BINS:
                factor *= 2
            elif n_boxes > most and stride < self._n_rows:
                stride *= 2
            else:
                left = len(self.levels) - len(levels) if shows == Shows.LEVELS else 0
                tick_ns = bin_ns * factor
                boxes = Boxes.merge(self._boxes_of(tracks, tick_ns, stride))
                return Layer(self.window, self.window[0], tick_ns, shows, boxes, left, stride)

    def _bin_ns(self, shows: Shows) -> int:
        """Return the finest width that all bins can have: each kind's is a power of two times the same one."""
        track = INNERMOST if shows == Shows.LINE else 0
        return max((kind.bin_ns(track) for kind in self._kinds if len(kind)), default=1)

    def _first_factor(self, bin_ns: int, most: int, n_tracks: int) -> int:
        """Return how many bins to take together to begin with: there is no box without a cell, and not many cells to a
        box."""
        n_bins = ceil(self.length / bin_ns)
        factor = 1
        while self._n_rows * n_tracks * n_bins / factor > BINS_PER_BOX * most and n_bins / factor > FEW_BINS:
            factor *= 2
        return factor

    def _n_boxes(self, tracks: Sequence[int], tick_ns: int, stride: int) -> int:
        """Return how many boxes there are; those of all rows are counted only once."""
        keys = [(kind, track, tick_ns) for track in tracks for kind in (0, 1)]
        if stride == 1 and all(key in self._n_made for key in keys):
            return sum(self._n_made[key] for key in keys)
        return sum(map(len, self._boxes_of(tracks, tick_ns, stride)))

    def _boxes_of(self, tracks: Sequence[int], tick_ns: int, stride: int) -> Iterator[Boxes]:
        """Yield the boxes of some tracks, of samples and of spans, in every `stride`-th row."""
        for track in tracks:
            for kind in (0, 1):
                yield self._boxes(kind, track, tick_ns).of_rows(stride)

    def _boxes(self, kind: int, track: int, tick_ns: int) -> Boxes:
        """Return boxes. Those of one width are kept: it is the one that is wanted next, if any is."""
        made_ns, made = self._made.get((kind, track), (0, None))
        if made is None or made_ns != tick_ns:
            levels = self._kinds[kind]
            bin_ns = levels.bin_ns(track)
            if levels.is_level(track):
                made = self._boxes(kind, track - LINES, tick_ns).on(track)
            else:
                n_joined = self._rows.n_joined
                made = Boxes.concatenate(
                    [
                        dominant(tally, track, bin_ns, self.length, tick_ns // bin_ns, n_joined)
                        for tally in levels.tallies(track)
                    ]
                )
            self._made[kind, track] = tick_ns, made
            self._n_made[kind, track, tick_ns] = len(made)
        return made

    def busiest(self, n_parts: int) -> Window:
        """Return the part, of so many of the same length, in which most goes on."""
        counts = np.zeros(n_parts, np.int64)
        for kind in self._kinds:
            n_cells = np.bincount(kind.innermost.bin)
            part = np.arange(len(n_cells)) * kind.bin_ns(INNERMOST) * n_parts // max(self.length, 1)
            np.add.at(counts, np.minimum(part, n_parts - 1), n_cells)
        return self.part(int(np.argmax(counts)), n_parts)

    def part(self, number: int, n_parts: int) -> Window:
        """Return one of so many parts of the same length."""
        edges = [self.window[0] + self.length * k // n_parts for k in (number, number + 1)]
        return edges[0], max(edges[1], edges[0] + 1)


def names_in_use(layers: list[Layer]) -> Ints:
    """Return the different names of some layers."""
    names: Ints = np.unique(np.concatenate([np.empty(0, np.int64), *(layer.boxes.name for layer in layers)]))
    return names
