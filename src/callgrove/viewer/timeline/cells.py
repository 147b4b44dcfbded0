"""Time by row, level, name and bin, added up chunk by chunk.

    key   ((row * n_levels + level) * n_names + name) * n_bins + bin     ns of it

Bins have a whole number of ns, so sums are exact. Memory holds a bounded number of cells. Where there are more, and
where that was allowed, names with little time in a bin are put together as `n_names`, a name of its own, or all names
become fewer ones; then every two bins become one. The work is bounded like that too: events that cover many bins each
make bins wider in the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from callgrove.model.arrays import Array, Ints
from callgrove.viewer.timeline.events import MOST_LEVELS, Events

__all__ = ["Cells", "Tally"]

MOST_CELLS = 1_000_000
MOST_TIME = 1 << 38  # ns: what lasts longer than four minutes in one bin is equally long here
PAIRS_AT_ONCE = 1 << 20  # of events and bins
MOST_PAIRS = 60_000_000
FEWEST_BINS = 16


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


class Cells:
    """Sums of the events of [start, end), in `n_bins` bins at first. Where there are too many cells, `kept` names of
    each bin stay apart (None: all of them), and those that `fewer` gives take the place of names, one after the other
    until there are few enough."""

    def __init__(
        self,
        start: int,
        end: int,
        n_bins: int,
        n_names: int,
        most: int = MOST_CELLS,
        kept: int | None = None,
        fewer: Sequence[Callable[[Ints], Ints]] = (),
    ) -> None:
        self.start, self.end = start, end
        self.bin_ns = max(1, -(-(end - start) // n_bins))
        self._radix, self._n_names = -(-(end - start) // self.bin_ns), n_names + 1
        self.others = n_names  # the name of what was put together
        self._most, self._kept = most, kept
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
        kept, start, end = events.take(lasting), start[lasting] - self.start, end[lasting] - self.start
        track = (kept.row * MOST_LEVELS + kept.level) * self._n_names + self._naming(kept.name)
        for first, last in self._portions(start, end):
            part = slice(first, last)
            self._add(track[part], start[part], end[part])

    def _portions(self, start: Ints, end: Ints) -> Iterator[tuple[int, int]]:
        """Events that cover a bounded number of bins together."""
        at = 0
        while at < len(start):
            covered = np.cumsum((end[at:] - 1) // self.bin_ns - start[at:] // self.bin_ns + 1)
            stop = at + max(1, int(np.searchsorted(covered, PAIRS_AT_ONCE, side="right")))
            yield at, stop
            at = stop

    def _add(self, track: Ints, start: Ints, end: Ints) -> None:
        first = start // self.bin_ns
        n_bins = (end - 1) // self.bin_ns - first + 1
        event = np.repeat(np.arange(len(track)), n_bins)
        bins = np.arange(len(event)) - np.repeat(np.cumsum(n_bins) - n_bins, n_bins) + first[event]
        left = bins * self.bin_ns
        ns = np.minimum(end[event], left + self.bin_ns) - np.maximum(start[event], left)
        keys, sums = _summed(track[event] * self._radix + bins, ns)
        self._keys.append(keys)
        self._sums.append(sums)
        self._n_loose += len(keys)
        self._n_pairs += len(event)
        if self._n_loose > 2 * self._most:
            self._compact()
        if self._n_pairs > MOST_PAIRS:
            self._n_pairs = 0
            self._widen()

    def _compact(self) -> None:
        keys, sums = _summed(np.concatenate(self._keys), np.concatenate(self._sums))
        self._keys, self._sums, self._n_loose = [keys], [sums], len(keys)
        self._pool()
        while self._n_loose > self._most and self._fewer:
            self._rename(self._fewer.pop(0))
        while self._n_loose > self._most and self.n_bins > FEWEST_BINS:
            self._widen()
            self._pool()

    def _pool(self) -> None:
        """Where there are too many cells, put together all but the names with the most time in each bin."""
        if self._n_loose <= self._most or self._kept is None:
            return
        track, bins = np.divmod(self._keys[0], self._radix)
        track, name = np.divmod(track, self._n_names)
        _, cell = np.unique(track * self._radix + bins, return_inverse=True)
        # the most time first, what was put together before last
        time = np.where(name == self.others, 0, np.minimum(self._sums[0], MOST_TIME) + 1)
        order = np.argsort(cell.reshape(-1) * (MOST_TIME + 2) - time, kind="stable")
        first = np.append(True, np.diff(cell.reshape(-1)[order]) != 0)
        place = np.arange(len(order)) - np.flatnonzero(first)[np.cumsum(first) - 1]
        name[order] = np.where(place < self._kept, name[order], self.others)
        keys, sums = _summed((track * self._n_names + name) * self._radix + bins, self._sums[0])
        self._keys, self._sums, self._n_loose = [keys], [sums], len(keys)

    def _rename(self, naming: Callable[[Ints], Ints]) -> None:
        """Give what there is, and what is still to come, fewer names."""
        self._naming = naming
        self.n_renamed += 1
        track, bins = np.divmod(self._keys[0], self._radix)
        track, name = np.divmod(track, self._n_names)
        keys, sums = _summed((track * self._n_names + naming(name)) * self._radix + bins, self._sums[0])
        self._keys, self._sums, self._n_loose = [keys], [sums], len(keys)

    def _widen(self) -> None:
        """Every two bins become one."""
        if self.n_bins <= FEWEST_BINS or not self._keys:
            return
        track, bins = np.divmod(np.concatenate(self._keys), self._radix)
        self.bin_ns *= 2
        keys, sums = _summed(track * self._radix + bins // 2, np.concatenate(self._sums))
        self._keys, self._sums, self._n_loose = [keys], [sums], len(keys)

    def tally(self) -> Tally:
        """All cells, in the order of their keys."""
        if not self._keys:
            return Tally(*(np.empty(0, np.int64) for _ in range(5)))
        self._compact()
        track, bins = np.divmod(self._keys[0], self._radix)
        track, name = np.divmod(track, self._n_names)
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
