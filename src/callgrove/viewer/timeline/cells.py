"""Time by row, level, name and bin, added up chunk by chunk.

    key   ((row * n_bins + bin) * MOST_LEVELS + level) * n_names + name     ns of it

Events of a row come in the order of time, so keys are nearly in order when they come, which makes sorting them cheap.

They are kept in chunks of some rows each: none of them is large, however many cells there are.

Bins have a whole number of ns, so sums are exact. How many names there are need not be known before: there is room for
any number of them. Memory holds a bounded number of cells. Where there are more, names become fewer where that was
allowed; then every two bins become one. The work is bounded like that too: events that cover many bins each make bins
wider in the end. No time is ever lost, and none goes to another name but by the names that `fewer` gives.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from callgrove.model.arrays import Array, Ints
from callgrove.viewer.timeline.events import MOST_LEVELS, Events

__all__ = ["Cells", "Tally", "slices_of_rows", "sums_of_runs"]

MOST_CELLS = 4_000_000
PAIRS_AT_ONCE = 1 << 18  # of events and bins
MOST_PAIRS = 60_000_000
CELLS_AT_ONCE = 1 << 17
LARGEST_KEY = 1 << 62
LOOSE = 1.5  # times as many cells as there may be, of which some are to be added up

Chunk = tuple[Ints, Ints]  # keys in order, and sums


@dataclass(frozen=True)
class Tally:
    """Cells as columns: time by row, level, name and bin."""

    row: Array
    level: Array
    name: Array
    bin: Array
    ns: Ints

    def __len__(self) -> int:
        return len(self.row)

    def take(self, chosen: Array | slice) -> Tally:
        return Tally(*(getattr(self, name)[chosen] for name in self.__dataclass_fields__))

    def widen(self, factor: int) -> Tally:
        """The same in bins that are so many times as wide; cells of one bin and name may occur again."""
        return self if factor == 1 else replace(self, bin=self.bin // factor)

    @classmethod
    def joined(cls, parts: Sequence[Tally]) -> Tally:
        empty = np.empty(0, np.int64)
        fields = cls.__dataclass_fields__
        return cls(*(np.concatenate([getattr(part, name) for part in parts] or [empty]) for name in fields))


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
        self._radix, self._n_names, self._n_rows = self.n_bins, 1, 1
        self._most, self._most_pairs = most, most_pairs
        self._fewer, self.n_renamed = list(fewer), 0
        self._naming: Callable[[Ints], Ints] = lambda name: name
        self._chunks: list[Chunk] = []
        self._n_loose = self._n_pairs = 0
        self._tally: Tally | None = None

    @property
    def n_bins(self) -> int:
        return -(-(self.end - self.start) // self.bin_ns)

    def add(self, events: Events) -> None:
        """Add what of the events lies within; not after `tally` was asked for."""
        assert self._tally is None
        start, end = np.maximum(events.start, self.start), np.minimum(events.end, self.end)
        if not (lasting := end > start).all():
            events, start, end = events.take(lasting), start[lasting], end[lasting]
        if not len(events):
            return
        start, end = start - self.start, end - self.start
        self._make_room(int(events.row.max()) + 1, int(self._naming(events.name).max()) + 1)
        at = 0
        while at < len(start):  # events that cover a bounded number of bins together
            covered = np.cumsum((end[at:] - 1) // self.bin_ns - start[at:] // self.bin_ns + 1)
            part = _whole_rows(events.row, at, int(np.searchsorted(covered, PAIRS_AT_ONCE, side="right")))
            called = events.level[part].astype(np.int64) * self._n_names + self._naming(events.name[part])
            self._add(events.row[part].astype(np.int64), called, start[part], end[part])
            at = part.stop

    def _make_room(self, n_rows: int, n_names: int) -> None:
        """Give keys room for so many rows and names."""
        self._n_rows = max(self._n_rows, n_rows)
        wanted = self._n_names if n_names <= self._n_names else max(n_names, 2 * self._n_names)
        radix = self._radix
        while self._n_rows * MOST_LEVELS * wanted * radix > LARGEST_KEY and self.n_bins > 1:
            self._widen()
            radix = self.n_bins
        if (wanted, radix) == (self._n_names, self._radix):
            return
        for number, (keys, sums) in enumerate(self._chunks):
            row, bins, level, name = self._parts(keys)
            self._chunks[number] = ((row * radix + bins) * MOST_LEVELS + level) * wanted + name, sums
        self._n_names, self._radix = wanted, radix

    @property
    def _n_called(self) -> int:
        """How many keys a bin of a row has."""
        return MOST_LEVELS * self._n_names

    def _parts(self, keys: Ints) -> tuple[Ints, Ints, Ints, Ints]:
        """Row, bin, level and name of some keys."""
        at, called = _divided(keys, self._n_called)
        return *_divided(at, self._radix), *_divided(called, self._n_names)

    def _add(self, row: Ints, called: Ints, start: Ints, end: Ints) -> None:
        """Add events with a key each for every bin that they cover."""
        first, last = start // self.bin_ns, (end - 1) // self.bin_ns
        n_bins = last - first + 1
        after = np.cumsum(n_bins)
        ns = np.full(int(after[-1]), self.bin_ns, np.int64)
        ns[after - 1] = end - last * self.bin_ns
        ns[after - n_bins] -= start - first * self.bin_ns
        base = (row * self._radix + first - (after - n_bins)) * self._n_called + called
        keys = np.repeat(base, n_bins) + np.arange(len(ns)) * self._n_called
        self._chunks.append(_summed(keys, ns))
        self._n_loose += len(self._chunks[-1][0])
        self._n_pairs += len(ns)
        if self._n_loose > LOOSE * self._most:
            self._compact()
        if self._n_pairs > self._most_pairs:
            self._n_pairs = 0
            self._widen()

    def _compact(self) -> None:
        self._sum_up()
        while self._n_loose > self._most and self._fewer:
            self._rename(self._fewer.pop(0))
        while self._n_loose > self._most and self.n_bins > 1:
            self._widen()

    def _sum_up(self) -> None:
        """Add up cells of different chunks; none has a row of another afterwards."""
        row = self._radix * self._n_called
        if all(int(a[-1]) // row < int(b[0]) // row for (a, _), (b, _) in pairwise(self._chunks)):
            return
        keys, sums = _summed(*(np.concatenate(columns) for columns in zip(*self._chunks, strict=True)))
        self._chunks = [(keys[part], sums[part]) for part in slices_of_rows(keys // row)]
        self._n_loose = len(keys)

    def _change(self, changed: Callable[[Ints], Ints]) -> None:
        """Give all cells other keys, in the same rows."""
        self._sum_up()
        for number, (keys, sums) in enumerate(self._chunks):
            self._chunks[number] = _summed(changed(keys), sums)
        self._n_loose = sum(len(keys) for keys, _ in self._chunks)

    def _rename(self, naming: Callable[[Ints], Ints]) -> None:
        """Give what there is, and what is still to come, fewer names."""
        self._naming = naming
        self.n_renamed += 1

        def renamed(keys: Ints) -> Ints:
            called, name = _divided(keys, self._n_names)
            return called * self._n_names + naming(name)

        self._change(renamed)

    def _widen(self) -> None:
        """Every two bins become one."""
        if self.n_bins <= 1:
            return
        self.bin_ns *= 2

        def widened(keys: Ints) -> Ints:
            at, called = _divided(keys, self._n_called)
            row, bins = _divided(at, self._radix)
            return (row * self._radix + bins // 2) * self._n_called + called

        self._change(widened)

    def tally(self) -> Tally:
        """All cells, in the order of their keys."""
        if self._tally is None:
            self._compact()
            self._tally = Tally.joined([self._columns(*chunk) for chunk in self._chunks])
            self._chunks = []
        return self._tally

    def _columns(self, keys: Ints, sums: Ints) -> Tally:
        """Cells in columns of small types."""
        row, bins, level, name = self._parts(keys)
        small = row.astype(np.int32), level.astype(np.int8), name.astype(np.int32), bins.astype(np.int32)
        return Tally(*small, sums)


def _whole_rows(row: Array, first: int, n: int) -> slice:
    """About `n` events from the first on, without the last of them if others of their row come next."""
    last = first + max(n, 1)
    if last < len(row):
        ends = np.flatnonzero(row[first + 1 : last + 1] != row[first:last])
        last = first + int(ends[-1]) + 1 if len(ends) else last
    return slice(first, last)


def slices_of_rows(row: Array) -> list[slice]:
    """Slices of a bounded number of cells, none of which has a row of another; one where rows are not in order or have
    very many cells."""
    edges = [0, len(row)]
    if len(row) > CELLS_AT_ONCE and (row[1:] >= row[:-1]).all():
        edges += np.searchsorted(row, row[CELLS_AT_ONCE::CELLS_AT_ONCE]).tolist()
    return [slice(*part) for part in pairwise(sorted(set(edges)))]


def _divided(numbers: Ints, by: int) -> tuple[Ints, Ints]:
    """Quotients and remainders of numbers that are not negative; several times as fast as `np.divmod`."""
    quotient = numbers // by
    rest = quotient * by
    np.subtract(numbers, rest, out=rest)
    return quotient, rest


def _summed(keys: Ints, values: Ints) -> tuple[Ints, Ints]:
    """The different keys, in order, and the sum of the values of each."""
    steps = keys[1:] > keys[:-1]
    if steps.all():
        return keys, values
    if not (steps | (keys[1:] == keys[:-1])).all():
        order = np.argsort(keys, kind="stable")
        keys, values = keys[order], values[order]
        steps = keys[1:] != keys[:-1]
    first = np.flatnonzero(np.append(True, steps))
    return keys[first], sums_of_runs(values, first)


def sums_of_runs(values: Ints, first: Ints) -> Ints:
    """The sum of each run of values, which begin at `first`. For runs of a few values it is faster than `reduceat`."""
    total = np.cumsum(values)
    sums = np.append(total[first[1:] - 1], total[-1])
    sums[1:] -= sums[:-1].copy()
    return sums
