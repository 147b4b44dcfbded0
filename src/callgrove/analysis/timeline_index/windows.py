"""Items of lines in windows of time, taken from the blocks that the windows touch.

All lines of a question are looked up together: a binary search over their blocks, then one gather for each column.
Times are ns since the origin of the index.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from callgrove.analysis.timeline_index.answers import LineKind
from callgrove.analysis.timeline_index.items import BLOCK
from callgrove.analysis.timeline_index.layout import LONG, Columns
from callgrove.analysis.timeline_index.levels import Stretches
from callgrove.analysis.timeline_index.nested import nest
from callgrove.arrays import ABSENT, Array, Bools, Ints

__all__ = ["BlockRange", "ItemReader", "WindowItems", "join_ranges", "move_apart"]

MOST_COUNTED = 1 << 16  # blocks that are counted one by one; more are taken for full ones


def join_ranges(first: Ints, n: Ints) -> Ints:
    """Return the numbers of ranges, one range after the other."""
    total = int(n.sum())
    if not total:
        return np.empty(0, np.int64)
    steps = np.ones(total, np.int64)
    some = np.flatnonzero(n)
    starts = np.cumsum(n[some]) - n[some]
    steps[starts] = first[some]
    steps[starts[1:]] -= first[some[:-1]] + n[some[:-1]] - 1
    return np.cumsum(steps, out=steps)


@dataclass(frozen=True)
class BlockRange:
    """For each of some windows of lines, the blocks [first, last) that have all items that touch it, but for what is
    open when the first block begins."""

    first: Ints
    last: Ints


@dataclass(frozen=True)
class WindowItems:
    """Items; `owner` is the window that each was looked up for. Equal windows have them by start."""

    owner: Ints
    item: Ints
    start: Ints
    end: Ints

    def __len__(self) -> int:
        return len(self.owner)

    def take(self, rows: Array) -> WindowItems:
        return WindowItems(self.owner[rows], self.item[rows], self.start[rows], self.end[rows])


class ItemReader:
    """Reads items of an index."""

    def __init__(self, columns: Columns, lines: Array) -> None:
        self._columns = columns
        self.first_block = lines["first_block"].astype(np.int64)
        self.n_blocks = lines["n_blocks"].astype(np.int64)
        self._kind = lines["kind"].astype(np.int64)
        self._parent_shift = lines["parent_shift"].astype(np.int64)
        self._row_shift = lines["row_shift"].astype(np.int64)
        self._nothing = columns.state.dtype("item_name").type(-1 % (1 << (8 * columns.state.name_bytes)))

    def blocks(self, line: Ints, low: Ints, high: Ints) -> BlockRange:
        """Return the blocks of each line that its window [low, high) touches."""
        begin = self.first_block[line]
        end = begin + self.n_blocks[line]
        first = np.maximum(self._search(begin, end, low) - 1, begin)
        last = np.maximum(self._search(begin, end, high), np.minimum(first + 1, end))
        return BlockRange(first, last)

    def _search(self, begin: Ints, end: Ints, time: Ints) -> Ints:
        """Return for each range of blocks the first that does not start before a time."""
        low, high = begin.copy(), end.copy()
        while (open_ := low < high).any():
            middle = (low + high) // 2
            start = self._columns.gather("block_start", np.where(open_, middle, 0))
            goes_up = open_ & (start < time)
            low = np.where(goes_up, middle + 1, low)
            high = np.where(open_ & ~goes_up, middle, high)
        return low

    def count_blocks(self, line: Ints, low: int, high: int) -> int:
        """Return how many items are in the blocks that windows of lines touch: as many as `read` would give."""
        n = len(line)
        blocks = self.blocks(line, np.full(n, low), np.full(n, high))
        count = blocks.last - blocks.first
        if int(count.sum()) > MOST_COUNTED:
            return int(count.sum()) * BLOCK
        return int(self._columns.gather("block_n", join_ranges(blocks.first, count)).sum())

    def read(self, blocks: BlockRange) -> WindowItems:
        """Return all items of blocks."""
        n = blocks.last - blocks.first
        block = join_ranges(blocks.first, n)
        count = self._columns.gather("block_n", block).astype(np.int64)
        item = join_ranges(self._columns.gather("block_item", block).astype(np.int64), count)
        owner = np.repeat(np.repeat(np.arange(len(n)), n), count)
        start = np.repeat(self._columns.gather("block_start", block), count)
        start += self._columns.gather("item_start", item)
        return WindowItems(owner, item, start, start + self.lengths(item))

    def read_open(self, blocks: BlockRange) -> WindowItems:
        """Return what is open when the first block of each range begins, from the outside in."""
        some = np.flatnonzero(blocks.last > blocks.first)
        return self._stacks(blocks.first[some], some)

    def read_all(self, blocks: BlockRange) -> WindowItems:
        """Return all items of blocks, those that are open when the first of them begins in front."""
        opened, inside = self.read_open(blocks), self.read(blocks)
        if not len(opened):
            return inside
        columns = ("owner", "item", "start", "end")
        both = WindowItems(*(np.concatenate([getattr(opened, name), getattr(inside, name)]) for name in columns))
        return both.take(np.argsort(both.owner, kind="stable"))

    def _stacks(self, block: Ints, owner: Ints) -> WindowItems:
        """Return what is open when blocks begin. Starts are looked up in the block that each item is in."""
        first = self._columns.gather("block_stack", block).astype(np.int64)
        n = self._columns.gather("block_open", block).astype(np.int64)
        back = self._columns.gather("stack_item", join_ranges(first, n)).astype(np.int64)
        item = np.repeat(self._columns.gather("block_item", block).astype(np.int64), n) - back
        start = self.starts(item)
        return WindowItems(np.repeat(owner, n), item, start, start + self.lengths(item))

    def starts(self, item: Ints) -> Ints:
        """Return when items start. Blocks are by line, and their items rise from track to track."""
        if not len(item):
            return item
        first_items, order = self._items_by_block
        place = np.searchsorted(first_items, item.astype(np.uint64), side="right") - 1
        block = place if order is None else order[place]
        out: Ints = self._columns.gather("block_start", block) + self._columns.gather("item_start", item)
        return out

    @cached_property
    def _items_by_block(self) -> tuple[Array, Ints | None]:
        """First items of blocks, ascending, and the order of blocks where they are not so themselves."""
        items = self._columns.whole("block_item")
        if (items[1:] > items[:-1]).all():
            return items, None
        order = np.argsort(items, kind="stable")
        return items[order], order

    def lengths(self, item: Ints) -> Ints:
        """Return for how long items count."""
        ns = self._columns.gather("item_ns", item).astype(np.int64)
        is_long = np.flatnonzero(ns == LONG)
        if len(is_long):
            place = np.searchsorted(self._columns.whole("long_item"), item[is_long].astype(np.uint64))
            ns[is_long] = self._columns.gather("long_ns", place)
        return ns

    def whole_ends(self, items: WindowItems) -> Ints:
        """Return when items end, also those that count for less."""
        out = items.end.copy()
        every = self._columns.whole("long_item")
        if len(every):
            place = np.searchsorted(every, items.item.astype(np.uint64))
            known = np.flatnonzero(place < len(every))
            known = known[every[place[known]] == items.item[known]]
            out[known] = items.start[known] + self._columns.gather("long_whole", place[known])
        return out

    def names(self, item: Ints) -> Ints:
        """Return the names of items, -1 where nothing went on."""
        name = self._columns.gather("item_name", item)
        return np.where(name == self._nothing, ABSENT, name.astype(np.int64))

    def parents(self, line: Ints, item: Ints) -> tuple[Ints, Ints]:
        """Return which of some items, whose lines are given, have a parent, and its name."""
        shift = self._parent_shift[line]
        inner = np.flatnonzero(shift >= 0)
        name = self._columns.gather("item_parent", item[inner] - shift[inner])
        kept = name != self._nothing
        return inner[kept], name[kept].astype(np.int64)

    def rows(self, line: Ints, item: Ints) -> Ints:
        """Return the numbers of items in their source; of samples, their place in the line."""
        out = np.full(len(item), ABSENT, np.int64)
        shift = self._row_shift[line]
        has_row = np.flatnonzero(shift >= 0)
        out[has_row] = self._columns.gather("item_row", item[has_row] - shift[has_row]).astype(np.int64)
        sampled = np.flatnonzero(self._kind[line] == LineKind.SAMPLES)
        if len(sampled):
            first = self._columns.gather("block_item", self.first_block[line[sampled]]).astype(np.int64)
            out[sampled] = item[sampled] - first
        return out

    def nests(self, line: Ints) -> Bools:
        """Return on which lines items nest."""
        out: Bools = self._kind[line] == LineKind.CALLS
        return out

    def find_outlasted(self, line: int, low: int, high: int) -> WindowItems:
        """Return the items of a line that are outlasted by a later one, as far as they touch a window really."""
        empty = np.empty(0, np.int64)
        if not self.n_blocks[line] or self._kind[line] != LineKind.CALLS:
            return WindowItems(empty, empty, empty, empty)
        blocks = np.array([self.first_block[line], self.first_block[line] + self.n_blocks[line] - 1])
        items = self._columns.gather("block_item", blocks).astype(np.int64)
        last = int(items[1]) + int(self._columns.gather("block_n", blocks[1:])[0])
        every = self._columns.whole("long_item")
        first, after = np.searchsorted(every, np.array([items[0], last], np.uint64)).tolist()
        rows = np.arange(first, after)
        start, ns, whole = (self._columns.gather(name, rows) for name in ("long_start", "long_ns", "long_whole"))
        kept = np.flatnonzero((ns < whole) & (start < high) & (start + whole > low))
        item = every[rows[kept]].astype(np.int64)
        return WindowItems(np.zeros(len(kept), np.int64), item, start[kept], start[kept] + ns[kept])

    def stretches(self, line: Ints, low: int, high: int) -> Stretches:
        """Return what went on when in a window of lines, which rise, by line and time."""
        n = len(line)
        items = self.read_all(self.blocks(line, np.full(n, low), np.full(n, high)))
        name = self.names(items.item)
        calls = np.flatnonzero(self.nests(line)[items.owner])
        flat = np.flatnonzero(~self.nests(line)[items.owner] & (name >= 0))
        start, shift = move_apart(items.take(calls), n)
        nested = nest(start, items.end[calls] + shift[items.owner[calls]])
        owner = items.owner[calls][nested.piece_of]
        parts = [
            (owner, nested.piece_start - shift[owner], nested.piece_end - shift[owner], name[calls][nested.piece_of]),
            (items.owner[flat], items.start[flat], items.end[flat], name[flat]),
        ]
        owner, begin, end, names = (np.concatenate(column) for column in zip(*parts, strict=True))
        begin, end = np.maximum(begin, low), np.minimum(end, high)
        kept = np.flatnonzero(end > begin)
        kept = kept[np.argsort(owner[kept], kind="stable")]
        return Stretches(line[owner[kept]], begin[kept], end[kept], names[kept])


def move_apart(items: WindowItems, n: int) -> tuple[Ints, Ints]:
    """Return starts of items of several windows, moved so that they follow each other, and how far each was moved."""
    low, high = np.full(n, 2**62), np.zeros(n, np.int64)
    np.minimum.at(low, items.owner, items.start)
    np.maximum.at(high, items.owner, items.end)
    length = np.where(high >= low, high - low + 1, 0)
    shift = np.cumsum(length) - length - np.where(length > 0, low, 0)
    return items.start + shift[items.owner], shift
