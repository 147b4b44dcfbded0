"""Which names take how much of the time: exact sums over all events, however few of them a page shows.

A name has the time in which it was innermost. Where stacks are cut at some depth, what is deeper belongs to the call at
that depth. What the profiler did is added up apart: it is no time of the application.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from callgrove.arrays import Array, Ints
from callgrove.viewer.page import Texts
from callgrove.viewer.timeline.events import Events, Names, Part, Stacks

__all__ = ["Legend", "NameTimes", "legend_of"]


class NameTimes:
    """Time by name: of samples by context, of spans by level and name."""

    def __init__(self, stacks: Stacks, names: Names) -> None:
        self._stacks, self._names = stacks, names
        self._contexts = np.zeros(len(stacks.tree), np.int64)
        self._own = np.zeros((0, 0), np.int64)  # levels x names
        self._whole = np.zeros((0, 0), np.int64)

    def add_samples(self, events: Events) -> None:
        """Add samples under their contexts."""
        np.add.at(self._contexts, events.name, events.end - events.start)

    def add_spans(self, part: Part) -> None:
        """Add spans: own time, and the whole one, which counts where deeper calls are not looked at."""
        self._own = _add_events(self._own, part.own)
        self._whole = _add_events(self._whole, part.events)

    @property
    def n_levels(self) -> int:
        """How deep calls are nested, as far as it is shown."""
        return max(self._stacks.n_levels(np.flatnonzero(self._contexts)), len(self._whole))

    def at(self, depth: int | None = None) -> Ints:
        """Time by number of a name; calls deeper than `depth` belong to what is there."""
        used = np.flatnonzero(self._contexts)
        frames = self._stacks.frames(used) if depth is None else self._stacks.cut(used, depth)
        numbers = self._names.of(self._stacks.names(frames))
        out = np.zeros(len(self._names), np.int64)
        np.add.at(out, numbers, self._contexts[used])
        spans = self._own[:depth].sum(axis=0)
        if depth is not None and depth < len(self._whole):
            spans = _sum(spans, self._whole[depth])
        return _sum(out, spans)[: len(out)]


def _sum(one: Ints, other: Ints) -> Ints:
    """Two columns of any lengths, added up."""
    out = np.zeros(max(len(one), len(other)), np.int64)
    out[: len(one)] += one
    out[: len(other)] += other
    return out


def _add_events(sums: Ints, events: Events) -> Ints:
    """Sums by level and name with room for all that occur, and the time of some events added."""
    if not len(events):
        return sums
    n_levels, n_names = int(events.level.max()) + 1, int(events.name.max()) + 1
    if n_levels > sums.shape[0] or n_names > sums.shape[1]:
        larger = np.zeros((max(n_levels, sums.shape[0]), max(2 * n_names, sums.shape[1])), np.int64)
        larger[: sums.shape[0], : sums.shape[1]] = sums
        sums = larger
    np.add.at(sums, (events.level, events.name), events.end - events.start)
    return sums


@dataclass(frozen=True)
class Legend:
    """Names with the largest shares of all time, `n` with any, and the share of those that are not listed."""

    text: Sequence[str]
    share: Array
    n: int
    rest: float

    @property
    def data(self) -> dict[str, Any]:
        return {"text": Texts(self.text), "share": self.share, "n": self.n, "rest": self.rest}


def legend_of(times: Ints, texts: Sequence[str], most: int) -> Legend:
    """Return the shares of names; those of one text are one."""
    sums: dict[str, int] = {}
    for number in np.flatnonzero(times).tolist():
        sums[texts[number]] = sums.get(texts[number], 0) + int(times[number])
    order = sorted(sums, key=lambda text: (-sums[text], text))
    total = sum(sums.values()) or 1
    share = np.array([sums[text] / total for text in order[:most]], np.float64)
    return Legend(order[:most], share, len(order), sum(sums[text] for text in order[most:]) / total)
