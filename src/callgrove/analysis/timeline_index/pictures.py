"""Pictures: cells of any level for a window, from pages or, zoomed in below the base level, from items.

A picture takes the level that has one to two cells for each column of pixels. There every line has the pages it needs:

    level L       |......|......|......|......|         pages of 64 cells, copied as they are
    base > L      |..........a.........|...b..|         cells of the base level, repeated; or, where a window has few
                                                        items, cells that are made of these

Rows of several lines show the name with the largest sum of shares over the lines in which it dominates. How much time
each name really had there, a legend of that cell tells.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from callgrove.analysis.timeline_index.answers import Picture
from callgrove.analysis.timeline_index.items import BLOCK
from callgrove.analysis.timeline_index.layout import Columns
from callgrove.analysis.timeline_index.levels import (
    PAGE,
    PAGE_BITS,
    PYRAMID,
    dominant_cells,
    is_pyramid,
    keys_of,
    split_keys,
)
from callgrove.analysis.timeline_index.windows import ItemReader, join_ranges
from callgrove.arrays import ABSENT, Array, Bools, Ids, Ints, bundles, distinct

__all__ = ["PictureReader", "level_for"]

FINE_ITEMS = 16_000  # that cells of a picture are made of, instead of showing wider ones
ROWS_CELLS = 1 << 18  # cells that are copied at a time
CELLS_AT_ONCE = 1 << 21  # of lines that are merged
FEW_LINES = 8  # of a row, up to which all are compared with each other
MERGED_CELLS = 1 << 23  # of lines that are merged in a picture; beyond that cells are wider


def level_for(length: int, columns: int, top: int) -> int:
    """Return the lowest level with at most two cells a column."""
    return min(max(0, (-(-length // max(1, 2 * columns)) - 1).bit_length()), top)


class PictureReader:
    """Reads cells of lines."""

    def __init__(self, columns: Columns, lines: Array, items: ItemReader, n_names: int) -> None:
        self._columns, self._items = columns, items
        self._base = lines["base"].astype(np.int64)
        self._top = columns.state.top
        self._name_bits = max(1, (n_names - 1).bit_length())
        self._field_bytes = columns.state.name_bytes

    def read(self, low: int, high: int, columns: int, rows: Sequence[Ints]) -> Picture:
        """Return cells for a window of rows of lines; `low` is inside the index, and `high` not beyond its end."""
        n_lines = np.array([len(row) for row in rows], np.int64)
        is_merged = bool((n_lines > 1).any())
        level = level_for(high - low, columns, self._top)
        while is_merged and int(n_lines.sum()) * ((high - low) >> level) > MERGED_CELLS and level < self._top:
            level += 1
            if (high - low) >> level < columns // 2:
                break
        line = np.concatenate([np.empty(0, np.int64), *rows])
        is_fine = self._has_few_items(line, level, low >> level, ((high - 1) >> level) - (low >> level) + 1)
        if len(line) and not is_fine:  # cells of which all rows have several would be repeated
            level = max(level, int(self._base[line].min(initial=self._top)))
        first = low >> level
        n_cells = ((high - 1) >> level) - first + 1
        draw = self._merge if is_merged else self._rows
        name, share, busy, coarse = draw(rows, n_lines, level, first, n_cells, is_fine)
        return Picture(first << level, 1 << level, name, share, busy, coarse, is_merged)

    def _rows(
        self, rows: Sequence[Ints], n_lines: Ints, level: int, first: int, n_cells: int, is_fine: bool
    ) -> tuple[Ids, Array, Array, Ints]:
        """Return the cells of rows of one line each, some rows at a time: what is copied then stays in the cache of a
        core, and its memory is used again."""
        name = np.full((len(rows), n_cells), ABSENT, np.int32)
        share, busy = (np.zeros((len(rows), n_cells), np.uint8) for _ in range(2))
        coarse = np.ones(len(rows), np.int64)
        line, place = np.concatenate([np.empty(0, np.int64), *rows]), np.flatnonzero(n_lines)
        step = max(1, ROWS_CELLS // n_cells)
        for begin in range(0, len(line), step):
            raw, wider = self._cells(line[begin : begin + step], level, first, n_cells, is_fine)
            some = place[begin : begin + step]
            coarse[some] = wider
            name[some], share[some], busy[some] = self._decode(raw)
        return name, share, busy, coarse

    def _decode(self, raw: Array) -> tuple[Ids, Array, Array]:
        """Return names, shares and busy shares of cells."""
        raw = np.ascontiguousarray(raw)
        size = self._field_bytes
        parts = raw.view(np.uint8).reshape(*raw.shape, 2 * size)
        name = raw.view(f"<u{size}").reshape(*raw.shape, 2)[..., 0].astype(np.int32)
        name -= 1
        return name, parts[..., size], parts[..., size + 1]

    def _cells(self, line: Ints, level: int, first: int, n_cells: int, is_fine: bool) -> tuple[Array, Ints]:
        """Return the cells of lines as they are stored, and how many cells of the level each one covers."""
        type_ = self._columns.state.dtype("pages")
        own = np.maximum(self._base[line], level)
        levels = distinct(own).tolist()
        if levels == [level]:
            return self._pages(line, level, first, n_cells), np.ones(len(line), np.int64)
        out = np.zeros((len(line), n_cells), type_)
        coarse = 1 << (own - level)
        fine = self._add_fine(line, (own > level) & is_fine, level, first, n_cells, out)
        coarse[fine] = 1
        for one in levels:
            rows = np.flatnonzero((own == one) & ~fine)
            if len(rows):
                above = one - level
                begin, end = first >> above, ((first + n_cells - 1) >> above) + 1
                place = ((first + np.arange(n_cells)) >> above) - begin
                cells = self._pages(line[rows], one, begin, end - begin)
                out[rows] = cells[:, place] if above else cells
        return out, coarse

    def _pages(self, line: Ints, level: int, first: int, n: int) -> Array:
        """Return cells of one level from their pages."""
        if is_pyramid(level, self._top):
            page = self._some_pages(line, PYRAMID, 0, 1)
            begin = (1 << (self._top - level)) + first
            return page[:, begin : begin + n]
        begin, end = first >> PAGE_BITS, ((first + n - 1) >> PAGE_BITS) + 1
        cells = self._some_pages(line, level, begin, end - begin)
        return cells[:, first - begin * PAGE : first - begin * PAGE + n]

    def _some_pages(self, line: Ints, level: int, first: int, n: int) -> Array:
        """Return pages that follow each other, of each line; those that are not there are empty."""
        every = self._columns.whole("page_key")
        low = np.searchsorted(every, keys_of(line, level, np.full(len(line), first)))
        high = np.searchsorted(every, keys_of(line, level, np.full(len(line), first + n - 1)), side="right")
        place = join_ranges(low, high - low)
        pages = self._columns.gather("pages", self._columns.gather("page_at", place).astype(np.int64))
        if len(place) == len(line) * n:
            return pages.reshape(len(line), n * PAGE)
        out = np.zeros((len(line), n, PAGE), pages.dtype)
        number = split_keys(every[place])[2] - first
        out[np.repeat(np.arange(len(line)), high - low), number] = pages
        return out.reshape(len(line), n * PAGE)

    def _has_few_items(self, line: Ints, level: int, first: int, n_cells: int) -> bool:
        """Tell whether lines whose cells are wider than asked for have so few items that finer ones can be made."""
        coarse = line[self._base[line] > level]
        low, high = np.full(len(coarse), first << level), np.full(len(coarse), (first + n_cells) << level)
        if len(coarse) * BLOCK > FINE_ITEMS:
            return False
        blocks = self._items.blocks(coarse, low, high)
        return int((blocks.last - blocks.first).sum()) * BLOCK <= FINE_ITEMS

    def _add_fine(self, line: Ints, wanted: Bools, level: int, first: int, n_cells: int, out: Array) -> Bools:
        """Make cells of items; return the rows for which that was done."""
        rows = np.flatnonzero(wanted)
        if not len(rows):
            return wanted
        low, high = first << level, (first + n_cells) << level
        ordered = distinct(line[rows])
        stretches = self._items.stretches(ordered, low, high)
        owner, cell, raw = dominant_cells(stretches, level, self._name_bits, 8 * self._field_bytes)
        made = np.zeros((len(ordered), n_cells), out.dtype)
        made[np.searchsorted(ordered, owner), cell - first] = raw
        out[rows] = made[np.searchsorted(ordered, line[rows])]
        return wanted

    # -- rows of several lines

    def _merge(
        self, rows: Sequence[Ints], n_lines: Ints, level: int, first: int, n_cells: int, is_fine: bool
    ) -> tuple[Ids, Array, Array, Ints]:
        """Return for each row and cell the name with the largest sum of shares."""
        parts = [
            self._merge_rows(rows[begin:end], n_lines[begin:end], level, first, n_cells, is_fine)
            for begin, end in bundles((n_lines * n_cells).tolist(), CELLS_AT_ONCE)
        ]
        name, share, busy, coarse = (np.concatenate(column) for column in zip(*parts, strict=True))
        return name, share, busy, coarse

    def _merge_rows(
        self, rows: Sequence[Ints], n_lines: Ints, level: int, first: int, n_cells: int, is_fine: bool
    ) -> tuple[Ids, Array, Array, Ints]:
        line = np.concatenate([np.empty(0, np.int64), *rows])
        raw, coarse_lines = self._cells(line, level, first, n_cells, is_fine)
        names, shares, busies = self._decode(raw)
        owner = np.repeat(np.arange(len(rows)), n_lines)
        coarse = np.ones(len(rows), np.int64)
        np.maximum.at(coarse, owner, coarse_lines)
        add_up = _add_few if int(n_lines.max(initial=0)) <= FEW_LINES else _add_many
        name, share, busy = add_up(names, shares, busies, n_lines)
        whole = np.maximum(n_lines, 1)[:, None]
        return (
            name,
            ((share + whole // 2) // whole).astype(np.uint8),
            ((busy + whole // 2) // whole).astype(np.uint8),
            coarse,
        )


# -- sums of shares over the lines of rows; all names of rows by line and cell -----------------------------------------


Merged = tuple[Ids, Ints, Ints]  # the name with the largest sum of shares, that sum, and that of all names


def _add_few(names: Ids, shares: Array, busies: Array, n_lines: Ints) -> Merged:
    """Merge rows of few lines: each line is compared with each other one."""
    most, n_cells = max(1, int(n_lines.max(initial=0))), names.shape[1]
    line = np.cumsum(n_lines) - n_lines
    one, is_there = line[:, None] + np.arange(most), np.arange(most) < n_lines[:, None]
    name, share, busy = (np.zeros((most, len(n_lines), n_cells), kind) for kind in (np.int32, np.int32, np.int32))
    for k in range(most):
        rows = np.flatnonzero(is_there[:, k])
        name[k], share[k, rows], busy[k, rows] = ABSENT, shares[one[rows, k]], busies[one[rows, k]]
        name[k, rows] = names[one[rows, k]]
    best = np.full((len(n_lines), n_cells), -1, np.int64)
    for k in range(most):
        total = share[k].copy()
        for other in range(most):
            if other != k:
                total += np.where(name[other] == name[k], share[other], 0)
        score = (total.astype(np.int64) << 32) - name[k]  # of equal sums the first name
        np.maximum(best, np.where(name[k] >= 0, score, -1), out=best)
    total = (best + (1 << 32) - 1) >> 32
    winner = np.where(best >= 0, (total << 32) - best, ABSENT).astype(np.int32)
    return winner, np.where(best >= 0, total, 0), busy.sum(axis=0, dtype=np.int64)


def _add_many(names: Ids, shares: Array, busies: Array, n_lines: Ints) -> Merged:
    """Merge rows of any number of lines: sums of equal names lie side by side when they are sorted."""
    n_cells = names.shape[1]
    owner = np.repeat(np.arange(len(n_lines)), n_lines)
    name = np.full((len(n_lines), n_cells), ABSENT, np.int32)
    share, busy = (np.zeros((len(n_lines), n_cells), np.int64) for _ in range(2))
    np.add.at(busy, owner, busies)
    line, cell = np.nonzero(names >= 0)
    if len(cell):
        group, met = owner[line] * n_cells + cell, names[line, cell]
        order = np.lexsort((met, group))
        group, met, shares_of = group[order], met[order], shares[line, cell][order]
        at = np.flatnonzero(np.append(True, (group[1:] != group[:-1]) | (met[1:] != met[:-1])))
        total = np.add.reduceat(shares_of.astype(np.int64), at)
        best = np.lexsort((met[at], -total, group[at]))
        best = best[np.append(True, group[at][best][1:] != group[at][best][:-1])]
        name.reshape(-1)[group[at][best]] = met[at][best]
        share.reshape(-1)[group[at][best]] = total[best]
    return name, share, busy
