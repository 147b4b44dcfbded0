"""Spans and samples as they are kept in an index: line by line in the order of time, in blocks.

A block is some 256 items that follow each other. Its record has the full start and what is open then, so that any
window is answered from the blocks that it touches:

    items     |a---------------------------------|       block 1 begins with d; its stack is a, c
                |b-||c-----------------|
                        |d-||e-||f-|
    blocks    0         1                               start, first item, number of items, where its stack begins

The time of each name in a window [p, q), where spans nest: all items of blocks that the window touches, and the stack
of the first of them, cut to the window; each adds its time to its name, and takes it from the name of its parent.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from callgrove.analysis.timeline_index.answers import LineKind
from callgrove.analysis.timeline_index.layout import LINE, LONG, IndexWriter
from callgrove.analysis.timeline_index.nested import ancestors
from callgrove.arrays import ABSENT, Array, Ints

__all__ = ["BLOCK", "ItemWriter", "Items", "OpenLine"]

BLOCK = 256  # items
SHALLOW = 64  # levels; deeper stacks are written less often
BLOCK_COLUMNS = ("block_start", "block_item", "block_n", "block_stack", "block_open")
Blocks = tuple[Ints, ...]  # a column for each of these


@dataclass(frozen=True)
class Items:
    """Items by line and start. `end` is where they count up to, `whole_end` when they end; `parent` is the place of the
    parent among these items, -1 for none and -2 - k for the k-th of those that were open before."""

    line: Ints
    start: Ints
    end: Ints
    whole_end: Ints
    name: Ints
    row: Ints
    parent: Ints | None = None
    parent_name: Ints | None = None
    depth: Ints | None = None
    open_item: Ints = field(default_factory=lambda: np.empty(0, np.int64))  # numbers of what was open before

    def __len__(self) -> int:
        return len(self.line)


@dataclass
class OpenLine:
    """A line that is being written: its record, and the blocks of which it consists so far."""

    profile: int
    kind: LineKind
    lane: int
    base: int
    first_ns: int = 2**62
    last_ns: int = 0
    busy_ns: int = 0
    n_items: int = 0
    parent_shift: int = ABSENT
    row_shift: int = ABSENT
    blocks: list[Blocks] = field(default_factory=list)


class ItemWriter:
    """Appends items to the columns of an index."""

    def __init__(self, writer: IndexWriter) -> None:
        self._writer = writer
        self._long: dict[int, tuple[int, int, int]] = {}  # item -> start, ns, whole ns
        self._stack = 0
        self._blocks = 0

    def add(self, items: Items, lines: dict[int, OpenLine]) -> Ints:
        """Append items of lines; return their numbers."""
        n, first = len(items), self._writer.sizes["item_start"]
        number = np.arange(first, first + n)
        if not n:
            return number
        fresh = np.append(True, items.line[1:] != items.line[:-1])
        at = self._block_starts(items, fresh)
        start = items.start[at]
        count = np.diff(np.append(at, n))
        self._append_columns(items, number, items.start - np.repeat(start, count))
        stacks = self._append_stacks(items, at, number)
        self._note_lines(items, lines, np.flatnonzero(fresh), at, (start, number[at], count, *stacks), number)
        return number

    def _append_columns(self, items: Items, number: Ints, offset: Ints) -> None:
        ns, whole = items.end - items.start, items.whole_end - items.start
        is_long = (ns >= LONG) | (ns != whole)
        for place in np.flatnonzero(is_long).tolist():
            self._long[int(number[place])] = int(items.start[place]), int(ns[place]), int(whole[place])
        append = self._writer.append
        append("item_start", offset)
        append("item_ns", np.where(is_long, LONG, ns))
        append("item_name", items.name)
        if items.parent_name is not None:
            append("item_parent", items.parent_name)
        if len(items.row):
            append("item_row", items.row)

    @staticmethod
    def _block_starts(items: Items, fresh: Array) -> Ints:
        """Return the items that begin a block: the first of a line, every 256th, and where the upper half of the start
        changes, since items have the lower one. Where calls are deep, blocks are longer: stacks take room."""
        n = len(items)
        firsts = np.flatnonzero(fresh)
        ordinal = np.arange(n) - np.repeat(firsts, np.diff(np.append(firsts, n)))
        begins = ordinal % BLOCK == 0
        if items.depth is not None and int(items.depth.max()) > SHALLOW:
            sparse = np.exp2(np.ceil(np.log2(np.maximum(items.depth / SHALLOW, 1)))).astype(np.int64)
            begins &= (ordinal // BLOCK) % sparse == 0
        high = items.start >> 32
        begins[1:] |= high[1:] != high[:-1]
        return np.flatnonzero(begins | fresh)

    def _append_stacks(self, items: Items, at: Ints, number: Ints) -> tuple[Ints, Ints]:
        """Append what is open when blocks begin, as distances from their first items; return where each begins, and how
        deep it is."""
        if items.parent is None:
            return np.zeros(len(at), np.int64), np.zeros(len(at), np.int64)
        n_open = len(items.open_item)
        inner = np.where(items.parent <= -2, -2 - items.parent, np.where(items.parent >= 0, items.parent + n_open, -1))
        chain = np.append(np.arange(n_open) - 1, inner)  # what was open before, from the outside in, then the items
        owner, span = ancestors(chain, at + n_open)
        every = np.append(items.open_item, number)
        order = np.lexsort((span, owner))
        owner, span = owner[order], span[order]
        self._writer.append("stack_item", number[at][owner] - every[span])
        n = np.bincount(owner, minlength=len(at))
        places = self._stack + np.cumsum(n) - n
        self._stack += len(owner)
        return places, n

    def _note_lines(
        self,
        items: Items,
        lines: dict[int, OpenLine],
        firsts: Ints,
        at: Ints,
        blocks: Blocks,
        number: Ints,
    ) -> None:
        latest = np.maximum.reduceat(items.whole_end, firsts).tolist()
        bounds = np.append(np.searchsorted(at, firsts), len(at)).tolist()
        counts = np.diff(np.append(firsts, len(items))).tolist()
        first_parent = self._writer.sizes["item_parent"] - (len(items) if items.parent_name is not None else 0)
        first_row = self._writer.sizes["item_row"] - (len(items) if len(items.row) else 0)
        for k, place in enumerate(firsts.tolist()):
            line = lines[int(items.line[place])]
            line.first_ns = min(line.first_ns, int(items.start[place]))
            line.last_ns = max(line.last_ns, latest[k])
            line.n_items += counts[k]
            if items.parent_name is not None:
                line.parent_shift = int(number[0]) - first_parent
            if len(items.row):
                line.row_shift = int(number[0]) - first_row
            some = slice(bounds[k], bounds[k + 1])
            line.blocks.append(tuple(column[some] for column in blocks))

    def cut(self, item: int, start: int, ns: int, whole: int) -> None:
        """Say of an item that was written that it counts for less time than it lasts."""
        if item not in self._long:
            self._writer.replace("item_ns", np.array([item]), LONG)
        self._long[item] = start, ns, whole

    def finish(self, lines: list[OpenLine]) -> None:
        """Write the records of lines, which are complete, in their order."""
        records = np.zeros(len(lines), LINE)
        blocks: list[Blocks] = []
        for record, line in zip(records, lines, strict=True):
            n = sum(len(block[0]) for block in line.blocks)
            record["profile"], record["kind"], record["lane"], record["base"] = (
                line.profile,
                int(line.kind),
                line.lane,
                line.base,
            )
            record["first_ns"], record["last_ns"], record["busy_ns"] = line.first_ns, line.last_ns, line.busy_ns
            record["n_items"], record["parent_shift"], record["row_shift"] = (
                line.n_items,
                line.parent_shift,
                line.row_shift,
            )
            record["first_block"], record["n_blocks"] = self._blocks, n
            self._blocks += n
            blocks += line.blocks
        for place, name in enumerate(BLOCK_COLUMNS):
            if blocks:
                self._writer.append(name, np.concatenate([block[place] for block in blocks]))
        if self._long:
            long_items = sorted(self._long)
            self._writer.append("long_item", np.array(long_items, np.uint64))
            columns = zip(*(self._long[item] for item in long_items), strict=True)
            for name, column in zip(("long_start", "long_ns", "long_whole"), columns, strict=True):
                self._writer.append(name, np.array(column, np.int64))
        self._long = {}
        self._writer.append("lines", records)
