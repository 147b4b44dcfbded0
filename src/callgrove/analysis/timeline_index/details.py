"""Single spans and samples: those in a window, what is open at a time, the next of a name; counters as curves."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from callgrove.analysis.timeline_index.answers import Curve, LineKind, Occurrence, SpanRows
from callgrove.analysis.timeline_index.layout import Columns
from callgrove.analysis.timeline_index.nested import nest
from callgrove.analysis.timeline_index.windows import BlockRange, ItemReader, WindowItems, move_apart
from callgrove.arrays import Array, Floats, Ints
from callgrove.model.traces.events import Counters, Window, touch_window

__all__ = ["DetailReader", "curves_of"]

BLOCKS_AT_ONCE = 1 << 12  # that are searched for a name at a time
FIRST_BLOCKS = 1 << 4


class DetailReader:
    """Reads spans and samples one by one."""

    def __init__(self, columns: Columns, lines: Array, items: ItemReader) -> None:
        self._columns, self._items = columns, items
        self._kind = lines["kind"].astype(np.int64)

    def spans_in(self, line: Ints, low: int, high: int, limit: int, origin: int) -> SpanRows:
        """Return what touches a window, by line and start."""
        n = len(line)
        blocks = self._items.blocks(line, np.full(n, low), np.full(n, high))
        crossed = [self._items.find_outlasted(int(one), low, high) for one in line.tolist()]
        parts: list[SpanRows] = []
        n_given = total = 0
        for place in range(n):
            part = BlockRange(blocks.first[place : place + 1], blocks.last[place : place + 1])
            if n_given < limit:
                parts.append(self._spans_of(int(line[place]), part, crossed[place], low, high, origin))
                n_given += len(parts[-1])
                total += len(parts[-1])
            else:
                total += self._count(part, crossed[place], low, high)
        return _first_rows(parts, limit, total)

    def _touching(self, blocks: BlockRange, crossed: WindowItems, low: int, high: int) -> tuple[WindowItems, Array]:
        """Return items of one line and its blocks, and which of them touch a window."""
        items = self._items.read_all(blocks)
        new = ~np.isin(crossed.item, items.item)
        columns = ("owner", "item", "start", "end")
        items = WindowItems(*(np.concatenate([getattr(crossed, name)[new], getattr(items, name)]) for name in columns))
        items = items.take(np.argsort(items.item, kind="stable"))
        return items, touch_window(items.start, self._items.whole_ends(items), (low, high))

    def _count(self, blocks: BlockRange, crossed: WindowItems, low: int, high: int) -> int:
        """Return how many items touch a window: of blocks between the first and the last, all."""
        first, last = int(blocks.first[0]), int(blocks.last[0])
        if last - first <= 2:
            return int(self._touching(blocks, crossed, low, high)[1].sum())
        begin, end = (BlockRange(np.array([k]), np.array([k + 1])) for k in (first, last - 1))
        inside = self._columns.gather("block_n", np.arange(first + 1, last - 1)).sum()
        second = int(self._columns.gather("block_item", np.array([first + 1]))[0])
        early = crossed.take(np.flatnonzero(crossed.item < second))
        after = self._items.read(end)
        n_first = np.count_nonzero(self._touching(begin, early, low, high)[1])
        return int(n_first + inside + np.count_nonzero(after.start < high))

    def _spans_of(
        self, line: int, blocks: BlockRange, crossed: WindowItems, low: int, high: int, origin: int
    ) -> SpanRows:
        items, touching = self._touching(blocks, crossed, low, high)
        depth = np.zeros(len(items), np.int64)
        if self._kind[line] == LineKind.CALLS and len(items):
            start, _ = move_apart(items, 1)
            depth = nest(start, start + items.end - items.start).depth
            early = np.flatnonzero(np.isin(items.item, crossed.item))
            depth[early] = [len(self.open_at(line, int(items.start[k]), int(items.item[k]))) for k in early.tolist()]
        kept = np.flatnonzero(touching)
        some = items.take(kept)
        lines = np.full(len(kept), line, np.int64)
        return SpanRows(
            lines.astype(np.int32),
            some.start + origin,
            self._items.whole_ends(some) + origin,
            self._items.names(some.item).astype(np.int32),
            depth[kept].astype(np.int32),
            self._items.rows(lines, some.item),
            len(kept),
        )

    def open_at(self, line: int, time: int, before: int | None = None) -> WindowItems:
        """Return what is open on a line at a time, from the outside in, as far as it counts; or only what comes before
        an item."""
        one = np.array([line])
        items = self._items.read_all(self._items.blocks(one, np.array([time]), np.array([time + 1])))
        kept = (items.start <= time) & (items.end > time)
        if before is not None:
            kept &= items.item < before
        return items.take(np.flatnonzero(kept))

    def stack_at(self, line: int, time: int, origin: int) -> SpanRows:
        """Return what is open on a line at a time."""
        items = self.open_at(line, time)
        lines = np.full(len(items), line, np.int64)
        return SpanRows(
            lines.astype(np.int32),
            items.start + origin,
            self._items.whole_ends(items) + origin,
            self._items.names(items.item).astype(np.int32),
            np.arange(len(items), dtype=np.int32),
            self._items.rows(lines, items.item),
            len(items),
        )

    # -- the next of a name

    def search(self, name: int, time: int, lines: Ints, origin: int, *, forward: bool) -> Occurrence | None:
        """Return the occurrence of a name on any line that is next to a time."""
        best: tuple[int, int, int] | None = None  # start, line, item
        for line in lines.tolist():
            place = self._search_line(line, name, time, None if best is None else best[0], forward)
            if place is not None and (best is None or (place[0] < best[0] if forward else place[0] > best[0])):
                best = place[0], line, place[1]
        if best is None:
            return None
        start, line, item = best
        where = WindowItems(*(np.array([value]) for value in (0, item, start, start)))
        end = self._items.whole_ends(self._with_ends(where))
        row = self._items.rows(np.array([line]), where.item)
        return Occurrence(line, start + origin, int(end[0]) + origin, int(row[0]))

    def _with_ends(self, items: WindowItems) -> WindowItems:
        return WindowItems(items.owner, items.item, items.start, items.start + self._items.lengths(items.item))

    def _search_line(self, line: int, name: int, time: int, best: int | None, forward: bool) -> tuple[int, int] | None:
        """Return start and item of the next occurrence on a line; none where another line has one that is nearer."""
        begin = int(self._items.first_block[line])
        end = begin + int(self._items.n_blocks[line])
        here = (
            int(self._items.blocks(np.array([line]), np.array([time]), np.array([time])).first[0]) if end > begin else 0
        )
        n = FIRST_BLOCKS
        low, high = (here, here) if forward else (here + 1, here + 1)
        while (high < end) if forward else (low > begin):
            low, high = (high, min(end, high + n)) if forward else (max(begin, low - n), low)
            n = min(2 * n, BLOCKS_AT_ONCE)
            starts = self._columns.gather("block_start", np.array([low, high - 1]))
            if forward and best is not None and int(starts[0]) >= best:
                return None
            item, start = self._occurrences(line, name, low, high, begin)
            place = np.flatnonzero(start > time if forward else start < time)
            if len(place):
                chosen = int(place[0] if forward else place[-1])
                return int(start[chosen]), int(item[chosen])
            if not forward and best is not None and int(starts[0]) <= best:
                return None
        return None

    def _occurrences(self, line: int, name: int, low: int, high: int, begin: int) -> tuple[Ints, Ints]:
        """Return items of a name in blocks of a line; of samples, those before which there was another name."""
        items = self._items.read(BlockRange(np.array([low]), np.array([high])))
        is_name = self._items.names(items.item) == name
        if self._kind[line] == LineKind.SAMPLES:
            before = self._items.names(items.item[:1] - 1) == name if low > begin else np.array([False])
            is_name &= ~np.append(before, is_name[:-1])
        rows = np.flatnonzero(is_name)
        return items.item[rows], items.start[rows]


def _first_rows(parts: list[SpanRows], limit: int, total: int) -> SpanRows:
    """Return the first rows of several answers."""
    empty32, empty = np.empty(0, np.int32), np.empty(0, np.int64)
    nothing = SpanRows(empty32, empty, empty, empty32, empty32, empty, 0)
    columns = ("line", "start_ns", "end_ns", "name", "depth", "row")
    joined = {name: np.concatenate([getattr(part, name) for part in [nothing, *parts]])[:limit] for name in columns}
    return SpanRows(**joined, n=total)


# -- counters ---------------------------------------------------------------------------------------------------------


def curves_of(counters: Counters, window: Window, columns: int, profiles: Ints | None) -> list[Curve]:
    """Return the counters of profiles in columns of a window. What is not a number was not measured."""
    rows = np.flatnonzero(~np.isnan(counters.value.astype(np.float64)))
    if profiles is not None:
        rows = rows[np.isin(counters.profile[rows], profiles)]
    rows = rows[np.lexsort((counters.time_ns[rows], counters.name[rows], counters.profile[rows]))]
    profile, name = counters.profile[rows], counters.name[rows]
    fresh = np.append(True, (profile[1:] != profile[:-1]) | (name[1:] != name[:-1]))[: len(rows)]
    bounds = np.append(np.flatnonzero(fresh), len(rows)).tolist()
    low, length = window[0], window[1] - window[0]
    edges = np.array([low + length * k // columns for k in range(columns + 1)], np.int64)
    return [
        _curve(
            int(profile[first]),
            counters.names[int(name[first])],
            counters.time_ns[rows[first:last]],
            counters.value[rows[first:last]].astype(np.float64),
            edges,
        )
        for first, last in pairwise(bounds)
    ]


def _curve(profile: int, name: str, time: Ints, value: Floats, edges: Ints) -> Curve:
    """Return one counter, whose times rise, between edges."""
    place = np.searchsorted(time, edges)
    n = np.diff(place)
    some = np.flatnonzero(n)
    minimum, maximum, mean, last = (np.full(len(n), np.nan) for _ in range(4))
    if len(some):
        inside, firsts = value[: place[-1]], place[some]
        minimum[some], maximum[some] = np.minimum.reduceat(inside, firsts), np.maximum.reduceat(inside, firsts)
        mean[some] = np.add.reduceat(inside, firsts) / n[some]
        last[some] = value[place[some + 1] - 1]
    before = float(value[place[0] - 1]) if place[0] else float("nan")
    return Curve(profile, name, n, minimum, maximum, mean, last, before)
