"""The time of each name in a window: whole cells of histograms, from the outside in, and items at the two edges.

    level h+4                      |-------------------------------|
    level h+2      |-------|-------|                               |-------|
    level h     |-|                                                        |-|-|
    items      .                                                                ..
               window ------------------------------------------------------------

Of every level at most three cells are taken on each side, since four make one of the next. Where the window reaches
beyond the first or last item of a line, it is rounded up to whole cells: nothing lies there.
"""

from __future__ import annotations

import numpy as np

from callgrove.analysis.timeline_index.answers import Legend
from callgrove.analysis.timeline_index.items import BLOCK
from callgrove.analysis.timeline_index.layout import Columns
from callgrove.analysis.timeline_index.levels import FIRST_HISTOGRAM, HISTOGRAM_STEP, NUMBER_BITS, keys_of
from callgrove.analysis.timeline_index.windows import BlockRange, ItemReader, join_ranges
from callgrove.arrays import Array, Ints, bundles

__all__ = ["LegendReader"]

ITEMS_AT_ONCE = 1 << 20


class LegendReader:
    """Adds up names of lines."""

    def __init__(self, columns: Columns, lines: Array, items: ItemReader, n_names: int) -> None:
        self._columns, self._items, self._n_names = columns, items, n_names
        self._base = lines["base"].astype(np.int64)
        self._first, self._last = lines["first_ns"].astype(np.int64), lines["last_ns"].astype(np.int64)
        self._top = columns.state.top

    def read(self, line: Ints, low: int, high: int, *, exact: bool) -> Legend:
        """Return the time of names on lines from `low` to `high`."""
        line = line[(self._first[line] < high) & (self._last[line] > low)]
        sums = np.zeros(self._n_names, np.int64)
        edges = self._add_cells(line, low, high, sums)
        missing = 0
        if exact:
            self._add_edges(*edges, sums)
        else:
            missing = int((edges[2] - edges[1]).sum())
        used = np.flatnonzero(sums)
        used = used[np.argsort(-sums[used], kind="stable")]
        return Legend(used.astype(np.int32), sums[used], missing)

    def _add_cells(self, line: Ints, low: int, high: int, sums: Ints) -> tuple[Ints, Ints, Ints]:
        """Add whole cells; return what is left: lines, and from when to when of each."""
        level = self._base[line] + FIRST_HISTOGRAM
        first, last = self._first[line], self._last[line]
        begin = np.where(low <= first, first >> level, -(-low >> level))
        end = np.where(high >= last, ((last - 1) >> level) + 1, high >> level)
        has_cells = (begin < end) & (level <= self._top)
        edges = _edges(line, level, begin, end, has_cells, np.maximum(first, low), np.minimum(last, high))
        line, level, begin, end = line[has_cells], level[has_cells], begin[has_cells], end[has_cells]
        mask = (1 << HISTOGRAM_STEP) - 1
        while len(line):
            is_last = level + HISTOGRAM_STEP > self._top
            left = np.where(is_last, end, np.minimum(end, (begin + mask) & ~mask))
            right = np.where(is_last, end, np.maximum(left, end & ~mask))
            for first_cell, n in ((begin, left - begin), (right, end - right)):
                self._add_histograms(np.repeat(line, n), np.repeat(level, n), join_ranges(first_cell, n), sums)
            begin, end = left >> HISTOGRAM_STEP, right >> HISTOGRAM_STEP
            goes_on = (begin < end) & ~is_last
            line, level, begin, end = line[goes_on], level[goes_on] + HISTOGRAM_STEP, begin[goes_on], end[goes_on]
        return edges

    def _add_histograms(self, line: Ints, level: Ints, cell: Ints, sums: Ints) -> None:
        if not len(line):
            return
        every, key = self._columns.whole("hist_key"), keys_of(line, level, cell)
        place = np.minimum(np.searchsorted(every, key), max(0, len(every) - 1))
        has_any = every[place] == key if len(every) else np.zeros(len(key), np.bool_)
        place, is_wide = place[has_any], level[has_any] >= NUMBER_BITS
        for rows, names, times in (
            (place[~is_wide], "entry_name", "entry_ns"),
            (place[is_wide], "wide_name", "wide_ns"),
        ):
            first = self._columns.gather("hist_first", rows).astype(np.int64)
            entry = join_ranges(first, self._columns.gather("hist_n", rows).astype(np.int64))
            ns = self._columns.gather(times, entry).astype(np.int64)
            np.add.at(sums, self._columns.gather(names, entry).astype(np.intp), ns)

    def _add_edges(self, line: Ints, low: Ints, high: Ints, sums: Ints) -> None:
        """Add items, cut to parts of windows; what a call takes is not its parent's."""
        blocks = self._items.blocks(line, low, high)
        for first, last in bundles(((blocks.last - blocks.first) * BLOCK).tolist(), ITEMS_AT_ONCE):
            some = slice(first, last)
            part = BlockRange(blocks.first[some], blocks.last[some])
            self._add_items(line[some], low[some], high[some], part, sums)

    def _add_items(self, line: Ints, low: Ints, high: Ints, blocks: BlockRange, sums: Ints) -> None:
        items = self._items.read(blocks)
        begin, end = low[items.owner], high[items.owner]
        ns = np.minimum(items.end, end) - np.maximum(items.start, begin)
        kept = np.flatnonzero(ns > 0)
        ns, item, of_line = ns[kept], items.item[kept], line[items.owner[kept]]
        name = self._items.names(item)
        busy = name >= 0
        np.add.at(sums, name[busy], ns[busy])
        inner, parent = self._items.parents(of_line, item)
        np.subtract.at(sums, parent, ns[inner])


def _edges(
    line: Ints, level: Ints, begin: Ints, end: Ints, has_cells: Array, low: Ints, high: Ints
) -> tuple[Ints, Ints, Ints]:
    """Return what whole cells leave of windows."""
    none = ~has_cells
    inner, outer = begin[has_cells] << level[has_cells], end[has_cells] << level[has_cells]
    lines = np.concatenate([line[none], line[has_cells], line[has_cells]])
    lows = np.concatenate([low[none], low[has_cells], outer])
    highs = np.concatenate([high[none], inner, high[has_cells]])
    kept = np.flatnonzero(highs > lows)
    return lines[kept], lows[kept], highs[kept]
