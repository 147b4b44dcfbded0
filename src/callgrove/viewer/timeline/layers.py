"""A window of time in as many boxes as there is room for.

Few events stay as they are. Of many there are bins, which are made wider, then the levels that say least are left out,
then rows, until the boxes fit.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from math import ceil, log2
from typing import Any

import numpy as np

from callgrove.model.arrays import Ids, Ints
from callgrove.model.experiment import Experiment
from callgrove.model.traces import Window
from callgrove.viewer.timeline.boxes import Boxes, dominant, runs_of_frames, span_boxes
from callgrove.viewer.timeline.cells import MOST_CELLS, Cells
from callgrove.viewer.timeline.events import MOST_LEVELS, N_KINDS, Events, Survey, sample_events, span_events
from callgrove.viewer.timeline.levels import Levels
from callgrove.viewer.timeline.stacks import Stacks

__all__ = ["MOST_EXACT", "Gathered", "Layer", "gather", "used_names"]

MOST_EXACT = 150_000  # events that are kept one by one
MOST_BINS, FEW_BINS, FEWEST_BINS = 4096, 256, 32
BINS_PER_BOX = 16  # on average, where little changes
SHORTER = (31, 23, 15)  # levels of call stacks, where these are too many different ones
NAMES_KEPT = 4  # of the spans in a bin, where there are too many different ones
MOST_AT_ONCE = 2_000_000  # rows times bins to begin with

Level = tuple[int, int]  # of samples (0) or of spans (1), and how deep


@dataclass(frozen=True)
class Layer:
    """Boxes of a window. `tick_ns` is 1 where they are exact, else the width of a bin. `left_levels` were left out, and
    of the rows only every `stride`-th is there."""

    window: Window  # since the beginning of the timeline
    base_ns: int  # where ticks begin
    tick_ns: int
    exact: bool
    boxes: Boxes
    left_levels: int = 0
    stride: int = 1

    def data(self, number: Ids) -> dict[str, Any]:
        return {
            "start_ns": self.window[0],
            "end_ns": self.window[1],
            "base_ns": self.base_ns,
            "tick_ns": self.tick_ns,
            "exact": self.exact,
            **self.boxes.data(number),
        }


@dataclass
class _Source:
    """Events of one kind: one by one while they are few, else in cells."""

    cells: Cells
    stacks: Stacks | None
    events: list[Events] | None = field(default_factory=list)
    n_events: int = 0

    def add(self, events: Events) -> None:
        self.n_events += len(events)
        if self.events is not None:
            self.events.append(events)
            if self.n_events <= MOST_EXACT:
                return
            waiting, self.events = self.events, None
        else:
            waiting = [events]
        for one in waiting:
            self.cells.add(one)

    def levels(self) -> Levels:
        for one in self.events or ():
            self.cells.add(one)
        return Levels(self.cells, self.stacks)

    def exact(self) -> list[Boxes]:
        events = Events.joined(self.events or [])
        return [span_boxes(events)] if self.stacks is None else list(runs_of_frames(events, self.stacks))


def gather(experiment: Experiment, found: Survey, stacks: Stacks, window: Window) -> Gathered:
    """What went on in a window of the timeline, in memory that does not grow with it."""
    origin = found.window[0]
    n_rows = max(len(found.rows), 1)
    n_bins = max(FEW_BINS, min(MOST_BINS, 2 ** int(log2(max(MOST_AT_ONCE // n_rows, 2)))))
    backend = experiment.traces.spans_backend
    n_texts = len(backend.strings) + 1 if backend is not None else 1
    outside = origin + window[0], origin + window[1] + 1  # with what has no length at its end
    shorter = [partial(stacks.cut, depth=depth) for depth in SHORTER]
    samples = _Source(Cells(*window, n_bins, len(experiment.contexts), MOST_CELLS // 2, fewer=shorter), stacks)
    spans = _Source(Cells(*window, n_bins, n_texts * N_KINDS, kept=NAMES_KEPT), None)
    too_deep = False
    for part in sample_events(experiment, found.rows, origin, outside):
        too_deep |= bool((stacks.depth(part.name) >= MOST_LEVELS).any())
        samples.add(replace(part, name=stacks.cut(part.name, MOST_LEVELS - 1)))
    for part in span_events(experiment, found.rows, origin, outside):
        spans.add(part)
    return Gathered(window, samples, spans, len(found.rows), too_deep)


class Gathered:
    """A window, ready to be shown in any number of boxes."""

    def __init__(self, window: Window, samples: _Source, spans: _Source, n_rows: int, too_deep: bool) -> None:
        self.window, self._sources, self._n_rows = window, (samples, spans), n_rows
        self._too_deep = too_deep
        self._made: dict[tuple[Level, int], Boxes] = {}

    @property
    def n_events(self) -> int:
        return sum(source.n_events for source in self._sources)

    def stack_depth(self, layer: Layer) -> int | None:
        """How many functions of a call stack there are at the most, where some stacks have more."""
        n_renamed = self._sources[0].cells.n_renamed
        if layer.exact or not n_renamed:
            return MOST_LEVELS if self._too_deep else None
        return SHORTER[n_renamed - 1] + 1

    @cached_property
    def _exact(self) -> Boxes | None:
        """All events as boxes; None where they are too many."""
        if any(source.events is None for source in self._sources) or self.n_events > MOST_EXACT:
            return None
        return Boxes.joined(boxes for source in self._sources for boxes in source.exact())

    @cached_property
    def _kinds(self) -> tuple[Levels, Levels]:
        """Cells of samples, and of spans."""
        samples, spans = self._sources
        return samples.levels(), spans.levels()

    @cached_property
    def _levels(self) -> list[Level]:
        return [(kind, level) for kind, levels in enumerate(self._kinds) for level in levels.numbers]

    @cached_property
    def _telling(self) -> list[Level]:
        """Levels, those first whose time is divided most among names."""
        variety = {(kind, level): self._kinds[kind].variety(level) for kind, level in self._levels}
        return sorted(self._levels, key=lambda level: (-variety[level], level))

    @cached_property
    def bin_ns(self) -> int:
        """The finest width that all bins can have: each kind's is a power of two times the same one."""
        return max(levels.bin_ns for levels in self._kinds if len(levels.whole)) if self._levels else 1

    @property
    def length(self) -> int:
        return self.window[1] - self.window[0]

    def layer(self, most: int) -> Layer:
        """At most so many boxes, if that is possible at all."""
        if self._exact is not None and len(self._exact) <= most:
            return Layer(self.window, 0, 1, True, self._exact)
        factor, stride, levels = self._first_factor(most), 1, self._levels
        while True:
            boxes = Boxes.joined(self._boxes(level, factor) for level in levels)
            if stride > 1:
                boxes = Boxes(*(column[boxes.row % stride == 0] for column in vars(boxes).values()))
            n_bins = ceil(self.length / (self.bin_ns * factor))
            if len(boxes) > most and n_bins > FEW_BINS:
                factor *= min(2 ** ceil(log2(len(boxes) / most)), 2 ** ceil(log2(n_bins / FEW_BINS)))
            elif len(boxes) > most and len(levels) > 1:
                levels = self._telling[: max(1, int(len(levels) * max(most / len(boxes), 0.5)))]
            elif len(boxes) > most and n_bins > FEWEST_BINS:
                factor *= 2
            elif len(boxes) > most and stride < self._n_rows:
                stride *= 2
            else:
                left = len(self._levels) - len(levels)
                return Layer(self.window, self.window[0], self.bin_ns * factor, False, boxes, left, stride)

    def _first_factor(self, most: int) -> int:
        """How many bins to take together to begin with: there is no box without a cell, and not many cells to a box."""
        n_bins = ceil(self.length / self.bin_ns)
        factor = 1
        while self._n_rows * n_bins / factor > BINS_PER_BOX * most and n_bins / factor > FEW_BINS:
            factor *= 2
        return factor

    def _boxes(self, level: Level, factor: int) -> Boxes:
        if (level, factor) not in self._made:
            own, (_, number) = self._kinds[level[0]], level
            wide = factor * (self.bin_ns // own.bin_ns)
            self._made[level, factor] = dominant(own.tally(number), own.bin_ns, self.length, wide)
        return self._made[level, factor]

    def busiest(self, n_parts: int) -> Window:
        """The part, of so many of the same length, in which most goes on."""
        counts = np.zeros(n_parts, np.int64)
        for levels in self._kinds:
            part = np.minimum(levels.whole.bin * levels.bin_ns * n_parts // max(self.length, 1), n_parts - 1)
            counts += np.bincount(part, minlength=n_parts)
        return self.part(int(np.argmax(counts)), n_parts)

    def part(self, number: int, n_parts: int) -> Window:
        """One of so many parts of the same length."""
        edges = [self.window[0] + self.length * k // n_parts for k in (number, number + 1)]
        return edges[0], max(edges[1], edges[0] + 1)


def used_names(layers: list[Layer]) -> Ints:
    """The different names of some layers."""
    found: Ints = np.unique(np.concatenate([np.empty(0, np.int64), *(layer.boxes.name for layer in layers)]))
    return found
