"""cct.db, of both generations, made from profile.db by an external counting sort.

    pass 1    while profile blocks are written, the values of each context are counted
    pass 2    contexts are taken in batches, in the order of their ids; each profile's index is ascending too, so a
              cursor per profile finds the batch's values: one slice per profile and batch

A batch is all that memory holds of the values: an eighth of them, but not more than a million. Every value is read once
and written once, and the summary profile, statistics over all profiles, falls out of the same pass. One context with
more values than that is a batch by itself.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from callgrove.formats.hpctoolkit.block_writer import BlockPlaces, ValuesFile, pack
from callgrove.formats.hpctoolkit.sparse import SparseBlocks
from callgrove.formats.interface import Progress
from callgrove.model.arrays import Array, Ints
from callgrove.model.values import SparseBlock

__all__ = ["write_context_major"]

BATCHES = 8  # more where these would be larger, fewer where they would be smaller than that
SMALLEST_BATCH, LARGEST_BATCH = 1 << 16, 1 << 20  # values
BATCH_CONTEXTS = 1 << 16  # numbers of 16 bits are sorted by counting

Summarise = Callable[[SparseBlock], None]  # all values of some contexts


def write_context_major(
    path: Path,
    written: ValuesFile,
    profiles: SparseBlocks,
    n_per_context: Ints,
    summarise: Summarise,
    progress: Progress,
) -> None:
    """Write cct.db and hand on the values, context by context."""
    places, at = BlockPlaces(len(n_per_context), written.blocks_at), written.blocks_at
    reader, done, total = _ProfileCursors(profiles), 0, int(n_per_context.sum())
    with path.open("wb") as file:
        file.seek(at)
        for first, last in _batches(n_per_context):
            rows = reader.between(first, last)
            numbers = np.arange(first, last)
            packed = pack(written.layout, numbers, rows.context, rows.metric, rows.profile, rows.value, at)
            places.put(*packed.places)
            file.write(packed.words.data)
            at += packed.words.nbytes
            summarise(rows)
            done += len(rows)
            progress("writing cct.db", done, total)
        file.write(written.footer)
        file.seek(0)
        file.write(written.tables(places))


def _batches(n_per_context: Ints) -> Iterator[tuple[int, int]]:
    """Ranges of context ids that together cover all of them."""
    before = np.append(0, np.cumsum(n_per_context))
    n_values = min(max(int(before[-1]) // BATCHES, SMALLEST_BATCH), LARGEST_BATCH)
    first = 0
    while first < len(n_per_context):
        last = int(np.searchsorted(before, before[first] + n_values, side="right")) - 1
        last = min(max(last, first + 1), first + BATCH_CONTEXTS)
        yield first, last
        first = last


class _ProfileCursors:
    """How far each profile has been read. Contexts are asked for in ascending order."""

    def __init__(self, blocks: SparseBlocks) -> None:
        self._blocks = blocks
        self._index = [self._index_of(number) for number in range(len(blocks))]
        self._entry = np.zeros(len(blocks), np.int64)
        self._next_id = np.array([ids["id"][0] if len(ids) else _NEVER for ids in self._index], np.int64)

    def _index_of(self, number: int) -> Array:
        blocks = self._blocks
        at, n = int(blocks.index_at[number]), int(blocks.n_index[number])
        return blocks.file.array(blocks.layout.index, n, at if n else 0, blocks.section(number))

    def between(self, first: int, last: int) -> SparseBlock:
        """All values of contexts below `last` that were not given yet, sorted by context, metric and profile."""
        parts = [self._advance(number, last) for number in np.flatnonzero(self._next_id < last).tolist()]
        rows = SparseBlock.joined(parts)
        self._blocks.forget()
        if not len(rows):
            return rows
        order = np.argsort(rows.metric.astype(np.uint16), kind="stable")  # profiles were ascending and stay so
        offset = (rows.context - first).astype(np.uint16)
        return rows.take(order[np.argsort(offset[order], kind="stable")])

    def _advance(self, number: int, last: int) -> SparseBlock:
        blocks, index, entry = self._blocks, self._index[number], int(self._entry[number])
        ids = index["id"]
        end = bisect_left(ids, last, lo=entry)
        self._entry[number] = end
        self._next_id[number] = ids[end] if end < len(ids) else _NEVER
        starts = index["start"][entry : end + 1].astype(np.int64)
        if end == len(ids):
            starts = np.append(starts, int(blocks.n_values[number]))
        n, at = int(starts[-1] - starts[0]), int(blocks.values_at[number])
        at += int(starts[0]) * blocks.layout.value.itemsize
        values = blocks.file.array(blocks.layout.value, n, at, blocks.section(number))
        context = np.repeat(ids[entry:end].astype(np.int32), starts[1:] - starts[:-1])
        metric, value = values["id"].astype(np.int32), values["value"].astype(np.float64)
        return SparseBlock(np.full(n, number, np.int32), context, metric, value)


_NEVER = np.iinfo(np.int64).max
