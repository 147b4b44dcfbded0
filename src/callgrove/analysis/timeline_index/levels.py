"""Stretches of time added up into cells and histograms, level by level.

A cell of level L is [k * 2^L, (k + 1) * 2^L) ns after the first time of the index. Every line has a base level, at
which a cell holds about eight stretches. From there each level is made of the one below: cells k and k + 1 become one.

    level b+2   |-------------------------------|-----
    level b+1   |---------------|---------------|-----      a row of sums (cell, name, ns) for each level:
    level b     |-------|-------|-------|-------|-----      sort by cell and name, add up, halve the cell numbers

    pages        64 cells of a line and level: which name had the most time, its share and that of all names
    the pyramid  the top levels of a line, which have 32 cells and less, share one page: level `top` at 1, the next at
                 2 and 3, then 4 to 7, ...
    histograms   all names of a cell with their exact time, at levels b+7, b+9, b+11, ...

Lines come in batches of many, or a long line in parts. What belongs to cells that are not over yet waits on its level
(`_Waiting`), like the digits of an odometer: a cell is closed when time has passed its end, and its sums go up.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from callgrove.arrays import Array, Bools, Ints

__all__ = [
    "FIRST_HISTOGRAM",
    "HISTOGRAM_STEP",
    "NUMBER_BITS",
    "PAGE",
    "PAGE_BITS",
    "PYRAMID",
    "PYRAMID_LEVELS",
    "LevelSink",
    "Levels",
    "Stretches",
    "base_level",
    "dominant_cells",
    "is_pyramid",
    "keys_of",
    "split_keys",
]

STRETCHES_OF_CELL = 8
PAGE_BITS = 6
PAGE = 1 << PAGE_BITS  # cells
FIRST_HISTOGRAM, HISTOGRAM_STEP = 7, 2  # levels above the base
PYRAMID = 63  # stands for the levels that share a page
PYRAMID_LEVELS = 6  # 32 + 16 + 8 + 4 + 2 + 1 cells, one place is free
NUMBER_BITS = 32  # of pages and cells in keys
LEVEL_BITS = 6
CELL_BITS = NUMBER_BITS + PAGE_BITS  # of cell numbers
FREE_BITS = 63
SHARE_BITS = 48  # of a time, of which a share is made


def base_level(mean_ns: float, top: int) -> int:
    """Return the base level of a line by the mean length of its stretches. Page numbers have 32 bits."""
    level = round(np.log2(max(1.0, STRETCHES_OF_CELL * mean_ns)))
    return int(min(max(level, top - NUMBER_BITS - PAGE_BITS, 0), top))


def is_pyramid(level: int, top: int) -> bool:
    """Tell whether cells of a level lie in the page that top levels share."""
    return level > top - PYRAMID_LEVELS


def keys_of(line: Ints, level: Array | int, number: Ints) -> Array:
    """Return keys of pages or histograms, which sort by line, level and number."""
    high = (line.astype(np.uint64) << np.uint64(LEVEL_BITS)) | np.asarray(level).astype(np.uint64)
    out: Array = (high << np.uint64(NUMBER_BITS)) | number.astype(np.uint64)
    return out


@dataclass(frozen=True)
class Stretches:
    """(start, end, name) of lines, by line and time; none of no length, and no two of a line overlap."""

    line: Ints
    start: Ints
    end: Ints
    name: Ints

    def __len__(self) -> int:
        return len(self.line)

    def take(self, rows: Array) -> Stretches:
        return Stretches(self.line[rows], self.start[rows], self.end[rows], self.name[rows])


class LevelSink(Protocol):
    """Takes what is finished."""

    def add_pages(self, key: Array, cells: Array) -> None:
        """Take pages: a row of 64 cells for each key."""

    def add_histograms(self, key: Array, first: Ints, name: Array, ns: Array, *, is_wide: bool) -> None:
        """Take histograms: of each key, the entries from `first` up to that of the next. Wide ones have times of
        64 bits."""


@dataclass(frozen=True)
class _Sums:
    """Cells by line and number, and (cell, name) -> ns, where `group` is the place of the cell among them."""

    line: Ints
    cell: Ints
    group: Ints
    name: Ints
    ns: Ints

    @classmethod
    def of_keys(cls, key: Ints, first: int, name: Ints, ns: Ints) -> _Sums:
        """Return sums of entries, in order, whose keys have the line, less the first one, above the cell."""
        fresh = np.empty(len(key), np.bool_)
        fresh[:1] = True
        np.not_equal(key[1:], key[:-1], out=fresh[1:])
        group = np.cumsum(fresh, dtype=np.int64)
        group -= 1
        cells = key[fresh]
        return cls((cells >> CELL_BITS) + first, cells & ((1 << CELL_BITS) - 1), group, name, ns)

    def join(self, after: _Sums) -> _Sums:
        """Return both, by line; what is here comes first. A cell may be in both."""
        line, cell = np.concatenate([self.line, after.line]), np.concatenate([self.cell, after.cell])
        group = np.concatenate([self.group, after.group + len(self.line)])
        name, ns = np.concatenate([self.name, after.name]), np.concatenate([self.ns, after.ns])
        first = int(line.min())
        key = ((line - first) << CELL_BITS) | cell
        key = key[group]
        order = np.argsort(key >> CELL_BITS, kind="stable")
        return _Sums.of_keys(key[order], first, name[order], ns[order])

    def add_up(self, name_bits: int) -> _Sums:
        """Return the sums with one entry for each cell and name, by name."""
        n = len(self.group)
        bits = n.bit_length()
        key = self.group << name_bits
        key |= self.name
        if len(self.line).bit_length() + name_bits + bits <= FREE_BITS:  # the place in the low bits: a sort of integers
            key <<= bits
            key |= np.arange(n)
            key.sort(kind="stable")  # nearly in order: runs are merged
            order = key & ((1 << bits) - 1)
            key >>= bits
        else:
            order = np.argsort(key, kind="stable")
            key = key[order]
        at = np.flatnonzero(np.append(True, key[1:] != key[:-1]))
        key = key[at]
        ns = np.add.reduceat(self.ns[order], at)
        return _Sums(self.line, self.cell, key >> name_bits, key & ((1 << name_bits) - 1), ns)

    def divide(self, is_open: Bools) -> tuple[_Sums, _Sums]:
        """Return the sums of cells that are over, and those of cells that are not."""
        inside = is_open[self.group]
        return self._part(~is_open, ~inside), self._part(is_open, inside)

    def _part(self, cells: Bools, entries: Bools) -> _Sums:
        number = np.cumsum(cells) - 1
        return _Sums(
            self.line[cells], self.cell[cells], number[self.group[entries]], self.name[entries], self.ns[entries]
        )

    def go_up(self, kept: Bools) -> _Sums:
        """Return the sums as those of the next level, without cells that have none."""
        sums = self if kept.all() else self._part(kept, kept[self.group])
        cell = sums.cell >> 1
        fresh = np.append(True, (sums.line[1:] != sums.line[:-1]) | (cell[1:] != cell[:-1]))[: len(cell)]
        at, number = np.flatnonzero(fresh), np.cumsum(fresh) - 1
        return _Sums(sums.line[at], cell[at], number[sums.group], sums.name, sums.ns)


@dataclass
class _Cells:
    """Cells that are over and whose page is not: the key of the page, the place in it, and the cell."""

    key: list[Array] = field(default_factory=list)
    place: list[Ints] = field(default_factory=list)
    cell: list[Array] = field(default_factory=list)

    def add(self, key: Array, place: Ints, cell: Array) -> None:
        self.key.append(key)
        self.place.append(place)
        self.cell.append(cell)


class Levels:
    """Makes the levels of lines. `top` is the level at which one cell holds everything. Names are below 2^name_bits; in
    a cell, the name + 1 has the low `field_bits`, then come 8 bits for its share and 8 for that of all names."""

    def __init__(self, sink: LevelSink, top: int, name_bits: int, field_bits: int) -> None:
        self._sink, self._top, self._name_bits, self._field_bits = sink, top, name_bits, field_bits
        self._waiting: dict[int, _Sums] = {}  # by the number of levels above the base
        self._cells = _Cells()

    def add(self, stretches: Stretches, first: int, base: Ints, open_from: int, reached: int) -> None:
        """Add stretches of the lines from `first` on, whose base levels are given. Lines from `open_from` on go on
        later, from the time that was reached; all others are complete with this."""
        sums = _at_base(stretches, first, base)
        above = 0
        while len(sums.line) or any(level >= above for level in self._waiting):
            if (before := self._waiting.pop(above, None)) is not None:
                sums = before.join(sums)
            if len(sums.line):
                sums = self._close(sums, above, first, base, open_from, reached)
            above += 1
        self._finish_pages(first, base, open_from, reached)

    def _close(self, sums: _Sums, above: int, first: int, base: Ints, open_from: int, reached: int) -> _Sums:
        """Give what is over at one level, keep what is not, and return what goes to the next."""
        sums = sums.add_up(self._name_bits)
        level = base[sums.line - first] + above
        is_open = (sums.line >= open_from) & ((sums.cell + 1) << level > reached)
        if is_open.any():
            sums, self._waiting[above] = sums.divide(is_open)
            level = level[~is_open]
        if not len(sums.line):
            return sums
        self._add_cells(sums, level)
        if above >= FIRST_HISTOGRAM and (above - FIRST_HISTOGRAM) % HISTOGRAM_STEP == 0:
            self._add_histograms(sums, level)
        return sums.go_up(level < self._top)

    def _add_cells(self, sums: _Sums, level: Ints) -> None:
        cell = _encode(sums, level, self._name_bits, self._field_bits)
        in_pyramid = level > self._top - PYRAMID_LEVELS
        number = np.where(in_pyramid, 0, sums.cell >> PAGE_BITS)
        place = np.where(in_pyramid, (1 << (self._top - level)) + sums.cell, sums.cell & (PAGE - 1))
        self._cells.add(keys_of(sums.line, np.where(in_pyramid, PYRAMID, level), number), place, cell)

    def _add_histograms(self, sums: _Sums, level: Ints) -> None:
        """Give histograms with times of 32 bits, and those of levels whose times may need more."""
        wide = level >= NUMBER_BITS
        for is_wide in (False, True):
            cells = wide == is_wide
            if not cells.any():
                continue
            part = sums if cells.all() else sums._part(cells, cells[sums.group])
            at = np.flatnonzero(np.append(True, part.group[1:] != part.group[:-1]))
            key = keys_of(part.line, level[cells], part.cell)
            self._sink.add_histograms(key, at, part.name, part.ns, is_wide=is_wide)

    def _finish_pages(self, first: int, base: Ints, open_from: int, reached: int) -> None:
        """Give the pages that no further cell comes into."""
        cells = self._cells
        self._cells = _Cells()
        if not cells.key:
            return
        key, place, cell = (np.concatenate(column) for column in (cells.key, cells.place, cells.cell))
        order = np.argsort(key, kind="stable")
        key, place, cell = key[order], place[order], cell[order]
        fresh = np.append(True, key[1:] != key[:-1])
        at, number = np.flatnonzero(fresh), np.cumsum(fresh) - 1
        page_key = key[at]
        line, level, page = split_keys(page_key)
        is_open = line >= open_from
        if is_open.any():
            passed = np.zeros(len(line), np.int64)
            plain = level < PYRAMID
            passed[plain] = (page[plain] + 1) << (level[plain] + PAGE_BITS)
            is_open &= ~plain | (passed > reached)
            kept = is_open[number]
            self._cells.add(key[kept], place[kept], cell[kept])
            number, place, cell = (np.cumsum(~is_open) - 1)[number[~kept]], place[~kept], cell[~kept]
            page_key = page_key[~is_open]
        pages = np.zeros((len(page_key), PAGE), np.uint32 if self._field_bits == 16 else np.uint64)
        pages[number, place] = cell
        self._sink.add_pages(page_key, pages)


def split_keys(key: Array) -> tuple[Ints, Ints, Ints]:
    """Return line, level and number of keys."""
    number = (key & np.uint64((1 << NUMBER_BITS) - 1)).astype(np.int64)
    high = (key >> np.uint64(NUMBER_BITS)).astype(np.int64)
    return high >> LEVEL_BITS, high & ((1 << LEVEL_BITS) - 1), number


def dominant_cells(stretches: Stretches, level: int, name_bits: int, field_bits: int) -> tuple[Ints, Ints, Array]:
    """Return cells of one level, made of all stretches: line, number and cell of each that is not empty."""
    line = stretches.line
    if not len(line):
        return line, line, np.empty(0, np.uint64)
    first = int(line[0])
    base = np.full(int(line[-1]) - first + 1, level)
    sums = _at_base(stretches, first, base).add_up(name_bits)
    return sums.line, sums.cell, _encode(sums, np.full(len(sums.line), level), name_bits, field_bits)


def _encode(sums: _Sums, level: Ints, name_bits: int, field_bits: int) -> Array:
    """Return cells as they are stored: name + 1, its share, and that of all names."""
    at = np.flatnonzero(np.append(True, sums.group[1:] != sums.group[:-1]))
    most, name = _dominant(sums, at, name_bits)
    bits = np.uint64(field_bits)
    cell: Array = (name + 1).astype(np.uint64) | (_share(most, level) << bits)
    cell |= _share(np.add.reduceat(sums.ns, at), level) << (bits + np.uint64(8))
    return cell


def _at_base(stretches: Stretches, first: int, base: Ints) -> _Sums:
    """Return stretches divided at the cells of their base level."""
    line, level = stretches.line, base[stretches.line - first]
    low, high = stretches.start >> level, (stretches.end - 1) >> level
    n = high - low + 1
    key = ((line - first) << CELL_BITS) | low
    if not (n > 1).any():
        return _Sums.of_keys(key, first, stretches.name, stretches.end - stretches.start)
    after = np.cumsum(n)
    begins = after - n
    ns = np.repeat(1 << level, n)  # of cells between the first and the last
    ns[after - 1] = stretches.end - (high << level)
    ns[begins] = np.minimum(stretches.end, (low + 1) << level) - stretches.start
    keys = np.repeat(key - begins, n)
    keys += np.arange(len(keys))
    return _Sums.of_keys(keys, first, np.repeat(stretches.name, n), ns)


def _dominant(sums: _Sums, at: Ints, name_bits: int) -> tuple[Ints, Ints]:
    """Return the most time of a name in each cell, and the first name that has it."""
    if int(sums.ns.max()).bit_length() + name_bits <= FREE_BITS:
        last = (1 << name_bits) - 1
        best = np.maximum.reduceat((sums.ns << name_bits) | (last - sums.name), at)
        return best >> name_bits, last - (best & last)
    most = np.maximum.reduceat(sums.ns, at)
    largest = np.flatnonzero(sums.ns == most[sums.group])
    firsts = np.flatnonzero(np.append(True, np.diff(sums.group[largest]) != 0))
    return most, sums.name[largest[firsts]]


def _share(ns: Ints, level: Ints) -> Array:
    """Return times as parts of 255 of a cell, rounded."""
    spare = np.maximum(level - SHARE_BITS, 0)
    width = 1 << (level - spare)
    out: Array = (((ns >> spare) * 255 + (width >> 1)) // width).astype(np.uint64)
    return out
