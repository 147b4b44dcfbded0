"""Time by row, level, name and bin, added up chunk by chunk.

    key   ((row * MOST_LEVELS + level) * n_names + name) * n_bins + bin     ns of it

Bins have a whole number of ns, so sums are exact. How many names there are need not be known before: there is room for
any number of them. Memory holds a bounded number of cells. Where there are more, names become fewer where that was
allowed; then every two bins become one. The work is bounded like that too: events that cover many bins each make bins
wider in the end. No time is ever lost, and none goes to another name but by the names that `fewer` gives.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from callgrove.model.arrays import Array, Ints
from callgrove.viewer.timeline.events import MOST_LEVELS, Events

__all__ = ["Cells", "Tally"]

MOST_CELLS = 4_000_000
PAIRS_AT_ONCE = 1 << 20  # of events and bins
MOST_PAIRS = 60_000_000
LARGEST_KEY = 1 << 62


@dataclass(frozen=True)
class Tally:
    """Cells as columns: time by row, level, name and bin."""

    row: Ints
    level: Ints
    name: Ints
    bin: Ints
    ns: Ints

    def __len__(self) -> int:
        return len(self.row)

    def take(self, chosen: Array) -> Tally:
        return Tally(*(getattr(self, name)[chosen] for name in self.__dataclass_fields__))

    def widened(self, factor: int) -> Tally:
        """The same in bins that are so many times as wide; cells of one bin and name may occur again."""
        return self if factor == 1 else replace(self, bin=self.bin // factor)

    @classmethod
    def joined(cls, parts: Sequence[Tally]) -> Tally:
        empty = np.empty(0, np.int64)
        return cls(*(np.concatenate([empty, *(getattr(p, n) for p in parts)]) for n in cls.__dataclass_fields__))


class Cells:
    """Sums of the events of [start, end), in `n_bins` bins at first, or in bins so many times `wider`. Where there are
    more cells than `most`, the names that `fewer` gives take the place of names, one function after the other until
    there are few enough."""

    def __init__(
        self,
        start: int,
        end: int,
        n_bins: int,
        most: int = MOST_CELLS,
        fewer: Sequence[Callable[[Ints], Ints]] = (),
        most_pairs: int = MOST_PAIRS,
        wider: int = 1,
    ) -> None:
        self.start, self.end = start, end
        self.bin_ns = max(1, -(-(end - start) // n_bins)) * wider
        self._radix, self._n_names, self._n_tracks = self.n_bins, 1, 1
        self._most, self._most_pairs = most, most_pairs
        self._fewer, self.n_renamed = list(fewer), 0
        self._naming: Callable[[Ints], Ints] = lambda name: name
        self._keys: list[Ints] = []
        self._sums: list[Ints] = []
        self._n_loose = self._n_pairs = 0

    @property
    def n_bins(self) -> int:
        return -(-(self.end - self.start) // self.bin_ns)

    def add(self, events: Events) -> None:
        """Add what of the events lies within."""
        start, end = np.maximum(events.start, self.start), np.minimum(events.end, self.end)
        lasting = np.flatnonzero(end > start)
        if not len(lasting):
            return
        kept, start, end = events.take(lasting), start[lasting] - self.start, end[lasting] - self.start
        name, track = self._naming(kept.name), kept.row * MOST_LEVELS + kept.level
        self._make_room(int(track.max()) + 1, int(name.max()) + 1)
        at = 0
        while at < len(start):  # events that cover a bounded number of bins together
            covered = np.cumsum((end[at:] - 1) // self.bin_ns - start[at:] // self.bin_ns + 1)
            part = slice(at, at + max(1, int(np.searchsorted(covered, PAIRS_AT_ONCE, side="right"))))
            self._add(track[part] * self._n_names + self._naming(kept.name[part]), start[part], end[part])
            at = part.stop

    def _make_room(self, n_tracks: int, n_names: int) -> None:
        """Give keys room for so many tracks and names."""
        self._n_tracks = max(self._n_tracks, n_tracks)
        wanted = self._n_names if n_names <= self._n_names else max(n_names, 2 * self._n_names)
        radix = self._radix
        while self._n_tracks * wanted * radix > LARGEST_KEY and self.n_bins > 1:
            self._widen()
            radix = self.n_bins
        if (wanted, radix) == (self._n_names, self._radix):
            return
        for number, keys in enumerate(self._keys):
            track, name, bins = self._parts(keys)
            self._keys[number] = (track * wanted + name) * radix + bins
        self._n_names, self._radix = wanted, radix

    def _parts(self, keys: Ints) -> tuple[Ints, Ints, Ints]:
        """Track, name and bin of some keys."""
        track, bins = np.divmod(keys, self._radix)
        track, name = np.divmod(track, self._n_names)
        return track, name, bins

    def _add(self, named: Ints, start: Ints, end: Ints) -> None:
        first = start // self.bin_ns
        n_bins = (end - 1) // self.bin_ns - first + 1
        event = np.repeat(np.arange(len(named)), n_bins)
        bins = np.arange(len(event)) - np.repeat(np.cumsum(n_bins) - n_bins, n_bins) + first[event]
        left = bins * self.bin_ns
        ns = np.minimum(end[event], left + self.bin_ns) - np.maximum(start[event], left)
        keys, sums = _summed(named[event] * self._radix + bins, ns)
        self._keys.append(keys)
        self._sums.append(sums)
        self._n_loose += len(keys)
        self._n_pairs += len(event)
        if self._n_loose > 2 * self._most:
            self._compact()
        if self._n_pairs > self._most_pairs:
            self._n_pairs = 0
            self._widen()

    def _compact(self) -> None:
        self._replace(np.concatenate(self._keys), np.concatenate(self._sums))
        while self._n_loose > self._most and self._fewer:
            self._rename(self._fewer.pop(0))
        while self._n_loose > self._most and self.n_bins > 1:
            self._widen()

    def _replace(self, keys: Ints, sums: Ints) -> None:
        keys, sums = _summed(keys, sums)
        self._keys, self._sums, self._n_loose = [keys], [sums], len(keys)

    def _rename(self, naming: Callable[[Ints], Ints]) -> None:
        """Give what there is, and what is still to come, fewer names."""
        self._naming = naming
        self.n_renamed += 1
        track, name, bins = self._parts(self._keys[0])
        self._replace((track * self._n_names + naming(name)) * self._radix + bins, self._sums[0])

    def _widen(self) -> None:
        """Every two bins become one."""
        if self.n_bins <= 1:
            return
        self.bin_ns *= 2
        if self._keys:
            track, bins = np.divmod(np.concatenate(self._keys), self._radix)
            self._replace(track * self._radix + bins // 2, np.concatenate(self._sums))

    def tally(self) -> Tally:
        """All cells, in the order of their keys."""
        if not self._keys:
            return Tally.joined([])
        self._compact()
        track, name, bins = self._parts(self._keys[0])
        row, level = np.divmod(track, MOST_LEVELS)
        return Tally(row, level, name, bins, self._sums[0])


def _summed(keys: Ints, values: Ints) -> tuple[Ints, Ints]:
    """The different keys, in order, and the sum of the values of each."""
    if not len(keys):
        return keys, values
    order = np.argsort(keys, kind="stable")
    sorted_keys = keys[order]
    first = np.flatnonzero(np.append(True, sorted_keys[1:] != sorted_keys[:-1]))
    return sorted_keys[first], np.add.reduceat(values[order], first)
