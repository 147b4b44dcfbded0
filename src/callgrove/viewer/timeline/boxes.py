"""What a page draws: time by row, level, name and bin, added up chunk by chunk, as boxes.

Exact boxes are events: spans as they are, samples as the stretches in which a frame stayed. Boxes of bins say which
name took the largest part of each bin, how much of it, and how much of it was busy at all; neighbouring bins that say
the same are one box. A row has a track for every level of calls, and a line for every depth that calls may be cut at: a
line shows the innermost calls that are no deeper.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from callgrove.arrays import ABSENT, Array, Bools, Ids, Ints, distinct, distinct_rows, pack_columns
from callgrove.model.traces.intervals import lanes, nesting
from callgrove.viewer.timeline.events import MOST_LEVELS, Events, Names, Stacks

__all__ = [
    "INNERMOST",
    "LINES",
    "WHOLE",
    "Boxes",
    "Cells",
    "Tally",
    "dominant",
    "runs_of_frames",
    "slices_of_rows",
    "span_boxes",
    "sums_of_runs",
]


# -- cells: time by row, level, name and bin ---------------------------------------------------------------------------
#     key   ((row * n_bins + bin) * MOST_LEVELS + level) * n_names + name     ns of it
#
# Events of a row come in the order of time, so keys are nearly in order when they come, which makes sorting them cheap.
#
# They are kept in chunks of some rows each: none of them is large, however many cells there are.
#
# Bins have a whole number of ns, so sums are exact. How many names there are need not be known before: there is room
# for any number of them. Memory holds a bounded number of cells. Where there are more, names become fewer where that
# was allowed; then every two bins become one. The work is bounded like that too: events that cover many bins each make
# bins wider in the end. No time is ever lost, and none goes to another name but by the names that `fewer` gives.


MOST_CELLS = 4_000_000
PAIRS_AT_ONCE = 1 << 18  # of events and bins
MOST_PAIRS = 60_000_000  # beyond one for each event, between two times that bins are made wider
CELLS_AT_ONCE = 1 << 17
LARGEST_KEY = 1 << 62
LOOSE = 1.25  # times as many cells as there may be, of which some are to be added up

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

    @classmethod
    def make_room(cls, n: int) -> Tally:
        """Return a tally of so many cells that are to be put into it."""
        row, name, bins = (np.empty(n, np.int32) for _ in range(3))
        return cls(row, np.empty(n, np.int8), name, bins, np.empty(n, np.int64))

    def put(self, at: int, some: Tally) -> None:
        """Put cells into the room that was made for them."""
        for name in self.__dataclass_fields__:
            getattr(self, name)[at : at + len(some)] = getattr(some, name)

    def widen(self, factor: int) -> Tally:
        """Return the tally in bins that are so many times as wide; cells of one bin and name may occur again."""
        return self if factor == 1 else replace(self, bin=self.bin // factor)

    @classmethod
    def concatenate(cls, parts: Sequence[Tally]) -> Tally:
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
            part = _take_whole_rows(events.row, at, int(np.searchsorted(covered, PAIRS_AT_ONCE, side="right")))
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
        """Return the row, bin, level and name of some keys."""
        at, called = _divide(keys, self._n_called)
        return *_divide(at, self._radix), *_divide(called, self._n_names)

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
        self._chunks.append(_sum_by_key(keys, ns))
        self._n_loose += len(self._chunks[-1][0])
        self._n_pairs += len(ns) - len(row)
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
        self._chunks = list(_merge_chunks(self._chunks, self._radix * self._n_called))
        self._n_loose = sum(len(keys) for keys, _ in self._chunks)

    def _change(self, changed: Callable[[Ints], Ints]) -> None:
        """Give all cells other keys, in the same rows."""
        self._sum_up()
        for number, (keys, sums) in enumerate(self._chunks):
            self._chunks[number] = _sum_by_key(changed(keys), sums)
        self._n_loose = sum(len(keys) for keys, _ in self._chunks)

    def _rename(self, naming: Callable[[Ints], Ints]) -> None:
        """Give what there is, and what is still to come, fewer names."""
        self._naming = naming
        self.n_renamed += 1

        def rename_keys(keys: Ints) -> Ints:
            called, name = _divide(keys, self._n_names)
            return called * self._n_names + naming(name)

        self._change(rename_keys)

    def _widen(self) -> None:
        """Merge every two bins into one."""
        if self.n_bins <= 1:
            return
        self.bin_ns *= 2

        def widen_keys(keys: Ints) -> Ints:
            at, called = _divide(keys, self._n_called)
            row, bins = _divide(at, self._radix)
            return (row * self._radix + bins // 2) * self._n_called + called

        self._change(widen_keys)

    def settle(self) -> None:
        """Add up what can be, when nothing more is to come for now: until then there may be more cells than asked
        for."""
        if self._tally is None:
            self._compact()

    def tally(self) -> Tally:
        """Return all cells, in the order of their keys."""
        if self._tally is None:
            self._compact()
            chunks, self._chunks = self._chunks[::-1], []
            tally, at = Tally.make_room(self._n_loose), 0
            while chunks:  # memory is given back chunk by chunk
                keys, sums = chunks.pop()
                tally.put(at, self._columns(keys, sums))
                at += len(keys)
            self._tally = tally
        return self._tally

    def _columns(self, keys: Ints, sums: Ints) -> Tally:
        """Return cells in columns."""
        row, bins, level, name = self._parts(keys)
        return Tally(row, level, name, bins, sums)


def _take_whole_rows(row: Array, first: int, n: int) -> slice:
    """Return about `n` events from the first on, without the last of them if others of their row come next."""
    last = first + max(n, 1)
    if last < len(row):
        ends = np.flatnonzero(row[first + 1 : last + 1] != row[first:last])
        last = first + int(ends[-1]) + 1 if len(ends) else last
    return slice(first, last)


def slices_of_rows(row: Array) -> list[slice]:
    """Return slices of a bounded number of cells, none of which has a row of another; one where rows are not in order
    or have very many cells."""
    edges = [0, len(row)]
    if len(row) > CELLS_AT_ONCE and (row[1:] >= row[:-1]).all():
        edges += np.searchsorted(row, row[CELLS_AT_ONCE::CELLS_AT_ONCE]).tolist()
    return [slice(*part) for part in pairwise(sorted(set(edges)))]


def _merge_chunks(chunks: Sequence[Chunk], row: int) -> Iterator[Chunk]:
    """Yield chunks by row, none of which has a row of another; `row` is how many keys a row has. Those that share no
    row with any other stay as they are: what was added of one database after the other is not sorted again."""
    waiting: list[Chunk] = []
    last = ABSENT
    for chunk in sorted(chunks, key=lambda chunk: int(chunk[0][0])):
        if waiting and int(chunk[0][0]) // row > last:
            yield from _merge_rows(waiting, row)
            waiting = []
        waiting.append(chunk)
        last = max(last, int(chunk[0][-1]) // row)
    if waiting:
        yield from _merge_rows(waiting, row)


def _merge_rows(chunks: Sequence[Chunk], row: int) -> Iterator[Chunk]:
    """Yield the sums of some chunks, a bounded number of cells at a time: memory need not hold all of them twice."""
    if len(chunks) == 1:
        yield chunks[0]
        return
    step = max(1, CELLS_AT_ONCE >> 10)  # looked at one in so many cells, to find rows that divide them about evenly
    rows = np.sort(np.concatenate([keys[::step] for keys, _ in chunks])) // row
    edges = distinct(rows[CELLS_AT_ONCE // step :: CELLS_AT_ONCE // step]) * row
    bounds = [[0, *np.searchsorted(keys, edges).tolist(), len(keys)] for keys, _ in chunks]
    for number in range(len(edges) + 1):
        parts = [slice(*bound[number : number + 2]) for bound in bounds]
        keys, sums = (np.concatenate([c[k][part] for c, part in zip(chunks, parts, strict=True)]) for k in (0, 1))
        if len(keys):
            yield _sum_by_key(keys, sums)


def _divide(numbers: Ints, by: int) -> tuple[Ints, Ints]:
    """Return quotients and remainders of numbers that are not negative; several times as fast as `np.divmod`."""
    quotient = numbers // by
    rest = quotient * by
    np.subtract(numbers, rest, out=rest)
    return quotient, rest


def _sum_by_key(keys: Ints, values: Ints) -> tuple[Ints, Ints]:
    """Return the different keys, in order, and the sum of the values of each."""
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
    """Return the sum of each run of values, which begin at `first`. For runs of a few values it is faster than
    `reduceat`."""
    total = np.cumsum(values)
    sums = np.append(total[first[1:] - 1], total[-1])
    sums[1:] -= sums[:-1].copy()
    return sums


# -- boxes -------------------------------------------------------------------------------------------------------------


WHOLE = 255  # the share of a box that is all of its time
LINES = MOST_LEVELS  # track LINES + d is the line of calls cut at depth d
INNERMOST = LINES + MOST_LEVELS  # the line of calls that are not cut
FAR = 1 << 62  # no column is worth numbering
CLASSES = 5  # of shares: bins of one name whose shares are about equal are one box


@dataclass(frozen=True)
class Boxes:
    """Columns of boxes. `track` is a level or a line; `start` and `end` are in ticks: ns, or bins. `share` is the part
    of the time that the name took, and `busy` the part that any name took, of `WHOLE`."""

    row: Array
    track: Array
    name: Array
    start: Array
    end: Array
    share: Array
    busy: Array

    def __len__(self) -> int:
        return len(self.row)

    @classmethod
    def merge(cls, parts: Iterable[Boxes]) -> Boxes:
        """Return all boxes by row, track and time; an enclosing box comes before what it contains."""
        boxes = cls.concatenate([part for part in parts if len(part)])
        row, track, _, start, end, _, _ = columns = list(vars(boxes).values())
        key = pack_columns(row, track, start, -end, far=FAR)
        order = np.lexsort([-end, start, track, row]) if key is None else np.argsort(key, kind="stable")
        return cls(*(column[order] for column in columns))

    @classmethod
    def concatenate(cls, parts: Sequence[Boxes]) -> Boxes:
        """Return the boxes of all parts, one part after the other."""
        empty = np.empty(0, np.int64)
        fields = cls.__dataclass_fields__
        return cls(*(np.concatenate([getattr(part, name) for part in parts] or [empty]) for name in fields))

    def on(self, track: int) -> Boxes:
        """Return these boxes on another track."""
        return replace(self, track=np.full(len(self), track, np.int16))

    def of_rows(self, stride: int) -> Boxes:
        """Return the boxes of every `stride`-th row."""
        return self if stride == 1 else Boxes(*(column[self.row % stride == 0] for column in vars(self).values()))

    def data(self, number: Ids) -> dict[str, Any]:
        """Return boxes as a page has them: tracks of rows, and their boxes by the gap before each and its length.
        `number` is that of each name."""
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
    """Return spans as they are. Rows in which spans of one level overlap, since operations ran at once or since calls
    cross, get other levels: how deep spans lie in one another, or where even then some overlap, the lowest on which
    nothing is going on."""
    levels = events.level.copy()
    for other in (lambda *times: nesting(*times).depth, lanes):
        crowded = _find_crowded(events, levels)
        levels[crowded] = other(events.start[crowded], events.end[crowded], events.row[crowded])
    whole = np.full(len(events), WHOLE, np.int64)
    return Boxes(events.row, np.minimum(levels, MOST_LEVELS - 1), events.name, events.start, events.end, whole, whole)


def _find_crowded(events: Events, level: Ints) -> Bools:
    """Return events of rows in which two of one level overlap."""
    order = np.lexsort([events.start, level, events.row])
    row = events.row[order]
    same = (np.diff(row) == 0) & (np.diff(level[order]) == 0)
    overlap = same & (events.start[order][1:] < events.end[order][:-1])
    crowded: Bools = np.isin(events.row, row[1:][overlap])
    return crowded


def runs_of_frames(events: Events, stacks: Stacks, names: Names) -> Iterator[Boxes]:
    """Yield the samples by depth: a box for every stretch of one row in which one frame stayed. Events of a row are in
    order."""
    for depth in range(stacks.n_levels(events.name)):
        frame = stacks.at(events.name, depth)
        there = np.flatnonzero(frame != ABSENT)
        framed, frame = events.take(there), frame[there]
        goes_on = (
            (framed.row[1:] == framed.row[:-1]) & (frame[1:] == frame[:-1]) & (framed.start[1:] == framed.end[:-1])
        )
        first = np.flatnonzero(np.append(True, ~goes_on))[: len(framed)]
        last = np.append(first[1:] - 1, len(framed) - 1)[: len(first)]
        level, whole = np.full(len(first), depth, np.int64), np.full(len(first), WHOLE, np.int64)
        name = names.of(stacks.names(frame[first]))
        yield Boxes(
            framed.row[first],
            level,
            name,
            framed.start[first],
            framed.end[last],
            whole,
            whole,
        )


def dominant(
    tally: Tally, track: int, bin_ns: int, range_ns: int, factor: int = 1, n_joined: Ints | None = None
) -> Boxes:
    """Return of one track in each `factor` bins the name with the most time (of equal ones the first), as boxes whose
    ticks are so many bins. A row that stands for several has a part of the time of all of them."""
    lines = np.ones(int(tally.row.max(initial=0)) + 1, np.int64) if n_joined is None else n_joined
    parts = slices_of_rows(tally.row)
    return Boxes.concatenate([_dominant(tally.take(part), track, bin_ns, range_ns, factor, lines) for part in parts])


def _dominant(tally: Tally, track: int, bin_ns: int, range_ns: int, factor: int, lines: Ints) -> Boxes:
    """Return the boxes of some rows, which have a cell at least."""
    cell, ns, together = _find_largest(tally, factor)
    row, bins, name = tally.row[cell], tally.bin[cell].astype(np.int64) // factor, tally.name[cell]
    width = np.minimum((bins + 1) * (bin_ns * factor), range_ns) - bins * (bin_ns * factor)
    width *= lines[row]
    share, busy = (np.minimum(time / width, 1.0) for time in (ns, together))
    shade = [np.minimum((part * CLASSES).astype(np.int8), CLASSES - 1) for part in (share, busy)]
    goes_on = bins[1:] == bins[:-1] + 1
    for column in (row, name, *shade):
        goes_on &= column[1:] == column[:-1]
    first = np.flatnonzero(np.append(True, ~goes_on))
    n_bins = np.diff(np.append(first, len(row)))
    parts = (np.add.reduceat(part, first) / n_bins for part in (share, busy))
    shares = [np.maximum(np.rint(part * WHOLE), 1).astype(np.uint8) for part in parts]
    same, start = np.full(len(first), track, np.int16), bins[first]
    return Boxes(row[first], same, name[first], start.astype(np.int32), (start + n_bins).astype(np.int32), *shares)


def _find_largest(tally: Tally, factor: int) -> tuple[Ints, Ints, Ints]:
    """Return in each `factor` bins of a row a cell of the name with the most time, this time, and that of all names."""
    n_names = int(tally.name.max()) - int(tally.name.min()) + 1
    order, key, ns = _sort_rows(_key(tally.row, tally.bin // factor, tally.name), tally.ns)
    first = _starts(key)
    if len(first) < len(key):
        key, ns = key[first], sums_of_runs(ns, first)
    place = key // n_names
    begin = _starts(place)
    most, together = np.maximum.reduceat(ns, begin), sums_of_runs(ns, begin)
    best = np.flatnonzero(ns == np.repeat(most, np.diff(np.append(begin, len(ns)))))
    if len(best) > len(begin):  # names share the first place
        best = best[_starts(place[best])]
    return order[first[best]], most, together


def _key(row: Array, bins: Array, name: Array) -> Ints:
    """Return a number for each row, bin and name, in their order; those of one place follow each other."""
    key = pack_columns(row, bins, name, far=FAR)
    if key is None:
        key = distinct_rows(row, bins)[1] * (int(name.max()) - int(name.min()) + 1) + (name - name.min())
    return key


def _sort_rows(key: Ints, ns: Ints) -> tuple[Ints, Ints, Ints]:
    """Return the rows in the order of their keys, with the keys and times in it."""
    if (key[1:] >= key[:-1]).all():
        return np.arange(len(key)), key, ns
    order = np.argsort(key, kind="stable")
    return order, key[order], ns[order]


def _starts(column: Array) -> Ints:
    """Return where runs of equal numbers begin."""
    return np.flatnonzero(np.append(True, column[1:] != column[:-1]))
