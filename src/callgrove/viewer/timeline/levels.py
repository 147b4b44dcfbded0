"""Cells level by level: those of spans are on levels already, those of samples are on the levels of their frames."""

from __future__ import annotations

import numpy as np

from callgrove.model.arrays import ABSENT, Array
from callgrove.viewer.timeline.cells import Cells, Tally
from callgrove.viewer.timeline.stacks import Stacks

__all__ = ["Levels"]


class Levels:
    """The cells of one kind of events. One level is made at a time: together they may be many times as large."""

    def __init__(self, cells: Cells, stacks: Stacks | None) -> None:
        whole = cells.tally()
        self.bin_ns, self._stacks = cells.bin_ns, stacks
        self.whole = whole.take(whole.name != cells.others)
        self._used, back = np.unique(self.whole.name, return_inverse=True)
        self._back = back.reshape(-1)

    @property
    def numbers(self) -> list[int]:
        if self._stacks is None:
            found: list[int] = np.unique(self.whole.level).tolist()
            return found
        return list(range(self._stacks.n_levels(self._used)))

    def tally(self, level: int) -> Tally:
        """The cells of one level, those of samples under the names of their frames there."""
        if self._stacks is None:
            return self.whole.take(self.whole.level == level)
        frame = self._stacks.at(self._used, level)
        name = np.where(frame != ABSENT, self._stacks.names(frame), 0)
        there = np.flatnonzero((frame != ABSENT)[self._back])
        own = self.whole.take(there)
        return Tally(own.row, np.full(len(own), level, np.int64), name[self._back[there]], own.bin, own.ns)

    def variety(self, level: int) -> float:
        """The entropy of time over names: a level that is `main` all along says little."""
        tally = self.tally(level)
        _, name = np.unique(tally.name, return_inverse=True)
        time: Array = np.bincount(name.reshape(-1), tally.ns.astype(np.float64))
        share: Array = time / max(float(time.sum()), 1.0)
        share = share[share > 0]
        return float(-(share * np.log2(share)).sum())
