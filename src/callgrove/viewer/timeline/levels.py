"""The cells of one kind of events, level by level and line by line. One track is made at a time: together they may be
many times as large."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property

import numpy as np

from callgrove.model.arrays import ABSENT, Array, Ids, Ints
from callgrove.viewer.timeline.boxes import INNERMOST, LINES
from callgrove.viewer.timeline.cells import Cells, Tally
from callgrove.viewer.timeline.stacks import FrameNames

__all__ = ["Levels", "SampleLevels", "SpanLevels"]


class Levels(ABC):
    """Whole times of calls by level (`whole`), and their own times (`own`)."""

    def __init__(self, whole: Cells, own: Cells) -> None:
        self.whole, self.own = whole.tally(), own.tally()
        self._whole_ns, self._own_ns = whole.bin_ns, own.bin_ns

    def __len__(self) -> int:
        return len(self.own)

    def bin_ns(self, track: int) -> int:
        """The width of the bins of a track."""
        return self._own_ns if track == INNERMOST else max(self._own_ns, self._whole_ns)

    def tally(self, track: int) -> Tally:
        """The cells of a level, or of a line: own times of what is less deep, and whole times where it is cut."""
        if track == INNERMOST:
            return self.own
        return self._level(track) if track < LINES else self._line(track - LINES)

    def is_level(self, track: int) -> bool:
        """Is this a line that shows what its level shows, since no call is less deep?"""
        return LINES <= track < INNERMOST and self._least_depth >= track - LINES

    def variety(self, level: int) -> float:
        """The entropy of time over names: a level that is `main` all along says little."""
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
    def _level(self, level: int) -> Tally: ...

    @abstractmethod
    def _line(self, level: int) -> Tally: ...

    @abstractmethod
    def _time_by_name(self, level: int) -> Array:
        """Whole time by number of a name, on one level."""


class SpanLevels(Levels):
    """Spans: every cell has its level and its name."""

    @cached_property
    def numbers(self) -> list[int]:
        found: list[int] = np.unique(self.whole.level).tolist()
        return found

    @cached_property
    def _least_depth(self) -> int:
        return int(self.own.level.min(initial=LINES))

    def _level(self, level: int) -> Tally:
        cells = self.whole.take(self.whole.level == level)
        return cells.widen(self.bin_ns(level) // self._whole_ns)

    def _line(self, level: int) -> Tally:
        above = self.own.take(self.own.level < level).widen(self.bin_ns(level) // self._own_ns)
        return Tally.joined([above, self._level(level)])

    def _time_by_name(self, level: int) -> Array:
        there = self.whole.level == level
        return np.bincount(self.whole.name[there], self.whole.ns[there].astype(np.float64))


class SampleLevels(Levels):
    """Samples: whole times are by context, so that they know what was innermost as well. Names are looked up for the
    contexts that occur, and then for the cells."""

    def __init__(self, whole: Cells, own: Cells, frames: FrameNames) -> None:
        super().__init__(whole, own)
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

    def _level(self, level: int) -> Tally:
        return self._named(self._stacks.at(self._used, level), level)

    def _line(self, level: int) -> Tally:
        return self._named(self._stacks.cut(self._used, level), level)

    def _named(self, frame: Ids | Ints, level: int) -> Tally:
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
