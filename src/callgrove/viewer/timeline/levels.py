"""The cells of one kind of events, level by level and line by line."""

from __future__ import annotations

import numpy as np

from callgrove.model.arrays import ABSENT, Array
from callgrove.viewer.timeline.boxes import INNERMOST, LINES
from callgrove.viewer.timeline.cells import Cells, Tally
from callgrove.viewer.timeline.events import Names
from callgrove.viewer.timeline.stacks import Stacks

__all__ = ["Levels"]


class Levels:
    """Whole times of calls by level (`whole`; those of samples by context), and their own times (`own`). One track is
    made at a time: together they may be many times as large."""

    def __init__(self, whole: Cells, own: Cells, stacks: Stacks | None, names: Names) -> None:
        self._cells, self._own_cells, self._stacks, self._names = whole, own, stacks, names
        self._whole, self.own = whole.tally(), own.tally()
        self._used, back = np.unique(self._whole.name, return_inverse=True)
        self._back = back.reshape(-1)

    def __len__(self) -> int:
        return len(self.own)

    @property
    def numbers(self) -> list[int]:
        """The levels that there are."""
        if self._stacks is None:
            found: list[int] = np.unique(self._whole.level).tolist()
            return found
        return list(range(self._stacks.n_levels(self._used)))

    def bin_ns(self, track: int) -> int:
        """The width of the bins of a track."""
        return self._own_cells.bin_ns if track == INNERMOST else max(self._own_cells.bin_ns, self._cells.bin_ns)

    def tally(self, track: int) -> Tally:
        """The cells of a level, or of a line: own times of what is less deep, and whole times where it is cut."""
        if track == INNERMOST:
            return self.own
        bin_ns, level = self.bin_ns(track), track if track < LINES else track - LINES
        whole = self._level(level).widened(bin_ns // self._cells.bin_ns)
        if track < LINES:
            return whole
        above = self.own.take(self.own.level < level).widened(bin_ns // self._own_cells.bin_ns)
        return Tally.joined([above, whole])

    def _level(self, level: int) -> Tally:
        """The cells of one level, those of samples under the names of their frames there."""
        if self._stacks is None:
            return self._whole.take(self._whole.level == level)
        frame = self._stacks.at(self._used, level)
        known = np.flatnonzero(frame != ABSENT)
        name = np.zeros(len(frame), np.int64)
        name[known] = self._names.of(self._stacks.names(frame[known]))
        there = np.flatnonzero((frame != ABSENT)[self._back])
        own = self._whole.take(there)
        return Tally(own.row, np.full(len(own), level, np.int64), name[self._back[there]], own.bin, own.ns)

    def variety(self, level: int) -> float:
        """The entropy of time over names: a level that is `main` all along says little."""
        tally = self._level(level)
        _, name = np.unique(tally.name, return_inverse=True)
        time: Array = np.bincount(name.reshape(-1), tally.ns.astype(np.float64))
        share: Array = time / max(float(time.sum()), 1.0)
        share = share[share > 0]
        return float(-(share * np.log2(share)).sum())
