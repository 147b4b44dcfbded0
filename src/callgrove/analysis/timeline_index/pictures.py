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

FINE_ITEMS = 24_000  # that cells of a picture are made of, instead of showing wider ones
CELLS_AT_ONCE = 1 << 21  # of lines that are merged
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
        first = low >> level
        n_cells = ((high - 1) >> level) - first + 1
        if is_merged:
            name, share, busy, coarse = self._merge(rows, n_lines, level, first, n_cells)
        else:
            line = np.concatenate([np.empty(0, np.int64), *rows])
            raw, coarse = self._cells(line, level, first, n_cells)
            name, share, busy = self._decode(raw)
            if len(line) < len(rows):  # rows without lines
                name, share, busy, coarse = (_spread(part, n_lines) for part in (name, share, busy, coarse))
        return Picture(first << level, 1 << level, name, share, busy, coarse, is_merged)

    def _decode(self, raw: Array) -> tuple[Ids, Array, Array]:
        """Return names, shares and busy shares of cells."""
        raw = np.ascontiguousarray(raw)
        size = self._field_bytes
        parts = raw.view(np.uint8).reshape(*raw.shape, 2 * size)
        name = raw.view(f"<u{size}").reshape(*raw.shape, 2)[..., 0].astype(np.int32)
        name -= 1
        return name, parts[..., size], parts[..., size + 1]

    def _cells(self, line: Ints, level: int, first: int, n_cells: int) -> tuple[Array, Ints]:
        """Return the cells of lines as they are stored, and how many cells of the level each one covers."""
        type_ = self._columns.state.dtype("pages")
        own = np.maximum(self._base[line], level)
        levels = distinct(own).tolist()
        if levels == [level]:
            return self._pages(line, level, first, n_cells), np.ones(len(line), np.int64)
        out = np.zeros((len(line), n_cells), type_)
        coarse = 1 << (own - level)
        fine = self._add_fine(line, own > level, level, first, n_cells, out)
        coarse[fine] = 1
        for one in levels:
            rows = np.flatnonzero((own == one) & ~fine)
            if len(rows):
                above = one - level
                begin, end = first >> above, ((first + n_cells - 1) >> above) + 1
                place = ((first + np.arange(n_cells)) >> above) - begin
                cells = self._pages(line[rows], one, begin, end - begin)
                out[rows] = np.take(cells, place, axis=1) if above else cells
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

    def _add_fine(self, line: Ints, wanted: Bools, level: int, first: int, n_cells: int, out: Array) -> Bools:
        """Make cells of items where these are few; return the rows for which that was done."""
        rows = np.flatnonzero(wanted)
        low, high = first << level, (first + n_cells) << level
        blocks = self._items.blocks(line[rows], np.full(len(rows), low), np.full(len(rows), high))
        if int((blocks.last - blocks.first).sum()) * BLOCK > FINE_ITEMS:
            return np.zeros(len(line), np.bool_)
        ordered = distinct(line[rows])
        stretches = self._items.stretches(ordered, low, high)
        owner, cell, raw = dominant_cells(stretches, level, self._name_bits, 8 * self._field_bytes)
        made = np.zeros((len(ordered), n_cells), out.dtype)
        made[np.searchsorted(ordered, owner), cell - first] = raw
        out[rows] = made[np.searchsorted(ordered, line[rows])]
        return wanted

    # -- rows of several lines

    def _merge(
        self, rows: Sequence[Ints], n_lines: Ints, level: int, first: int, n_cells: int
    ) -> tuple[Ids, Array, Array, Ints]:
        """Return for each row and cell the name with the largest sum of shares."""
        parts = [
            self._merge_rows(rows[begin:end], n_lines[begin:end], level, first, n_cells)
            for begin, end in bundles((n_lines * n_cells).tolist(), CELLS_AT_ONCE)
        ]
        name, share, busy, coarse = (np.concatenate(column) for column in zip(*parts, strict=True))
        return name, share, busy, coarse

    def _merge_rows(
        self, rows: Sequence[Ints], n_lines: Ints, level: int, first: int, n_cells: int
    ) -> tuple[Ids, Array, Array, Ints]:
        raw, coarse_lines = self._cells(np.concatenate([np.empty(0, np.int64), *rows]), level, first, n_cells)
        names, shares, busies = self._decode(raw)
        owner = np.repeat(np.arange(len(rows)), n_lines)
        name = np.full((len(rows), n_cells), ABSENT, np.int32)
        share, busy = (np.zeros((len(rows), n_cells), np.int64) for _ in range(2))
        np.add.at(busy, owner, busies)
        coarse = np.ones(len(rows), np.int64)
        np.maximum.at(coarse, owner, coarse_lines)
        line, cell = np.nonzero(names >= 0)
        if len(line):
            group = owner[line] * n_cells + cell
            order = np.lexsort((names[line, cell], group))
            line, cell, group = line[order], cell[order], group[order]
            met = names[line, cell]
            at = np.flatnonzero(np.append(True, (group[1:] != group[:-1]) | (met[1:] != met[:-1])))
            total = np.add.reduceat(shares[line, cell].astype(np.int64), at)
            best = np.lexsort((met[at], -total, group[at]))
            best = best[np.append(True, group[at][best][1:] != group[at][best][:-1])]
            name.reshape(-1)[group[at][best]] = met[at][best]
            share.reshape(-1)[group[at][best]] = total[best]
        whole = np.maximum(n_lines, 1)[:, None]
        return (
            name,
            ((share + whole // 2) // whole).astype(np.uint8),
            ((busy + whole // 2) // whole).astype(np.uint8),
            coarse,
        )


def _spread(part: Array, n_lines: Ints) -> Array:
    """Return rows of a picture with empty ones where a row has no line."""
    out = np.full((len(n_lines), *part.shape[1:]), ABSENT if part.dtype == np.int32 else 0, part.dtype)
    out[n_lines > 0] = part
    return out
