"""Writes profile.db as values come, and cct.db from it, for both generations; blocks are packed many at a time.

    block    (minor, value) * n   [padding]   (major, start) * m   [end pair]   [padding]

values.py reads what is packed here, and `BlockLayout` says what of it a generation has. All records have an even size
and every block begins at an even place, so blocks are put together as 16-bit words: values and index entries are each
one sequence in the order of the file, laid into the words that belong to them. Nothing is done per block, unless blocks
are long.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from callgrove.arrays import Array, Bools, Floats, Ids, Ints, bundles
from callgrove.binary.files import FileBytes
from callgrove.execute import Progress
from callgrove.formats.hpctoolkit.identifiers import TupleLayout
from callgrove.formats.hpctoolkit.statistics import LexicalLoops, Summarised, summarise
from callgrove.formats.hpctoolkit.stored_rows import combine_rows
from callgrove.formats.hpctoolkit.values import BlockLayout, RawBlock, SparseBlocks
from callgrove.model.profiles import IdentifierTuples
from callgrove.model.values import SparseBlock

__all__ = [
    "BlockPlaces",
    "PackedBlocks",
    "ProfileWriter",
    "ValuesFile",
    "align",
    "lay_out",
    "pack",
    "pack_tuples",
    "write_context_major",
]


Words = npt.NDArray[np.uint16]
WORD = 2  # bytes
LONG_BLOCK = 1 << 10  # bytes: so long ones are copied faster one by one


def align(offset: Any, to: int) -> Any:
    """Return the next multiple of `to`; a number or an array of them."""
    return (offset + to - 1) // to * to


class BlockPlaces:
    """Where the blocks of a file lie; blocks that were not written have no values and lie at the beginning."""

    def __init__(self, n_blocks: int, first_at: int) -> None:
        self.n_values, self.n_index = np.zeros(n_blocks, np.int64), np.zeros(n_blocks, np.int64)
        self.values_at, self.index_at = np.full(n_blocks, first_at), np.full(n_blocks, first_at)

    def put(self, block: Ints, n_values: Ints, values_at: Ints, n_index: Ints, index_at: Ints) -> None:
        self.n_values[block], self.values_at[block] = n_values, values_at
        self.n_index[block], self.index_at[block] = n_index, index_at


class ValuesFile(Protocol):
    """What a profile.db or cct.db of one generation has beside its blocks: tables before them, a footer behind."""

    layout: BlockLayout
    blocks_at: int
    footer: bytes

    def tables(self, places: BlockPlaces) -> bytes:
        """Return everything before the first block."""


@dataclass(frozen=True)
class PackedBlocks:
    """Blocks ready to be written at the offset they were packed for. `block` are their numbers, `entry_id` and
    `entry_count` the index entries of all of them."""

    words: Words
    block: Ints
    n_values: Ints
    values_at: Ints
    n_index: Ints
    index_at: Ints
    entry_id: Ints
    entry_count: Ints

    @property
    def places(self) -> tuple[Ints, Ints, Ints, Ints, Ints]:
        """Their numbers, and what tables say of them."""
        return self.block, self.n_values, self.values_at, self.n_index, self.index_at


def pack(
    layout: BlockLayout, numbers: Ints, block: Array, major: Array, minor: Array, value: Floats, at: int
) -> PackedBlocks:
    """Return blocks of these numbers, which ascend, from rows that are sorted by block, major id and minor id."""
    changes = _mark_changes(block)
    entry_first = np.flatnonzero(changes | _mark_changes(major))
    n_values = np.diff(np.searchsorted(block, numbers), append=len(value))
    n_index = np.diff(np.searchsorted(block[entry_first], numbers), append=len(entry_first))
    records = np.empty(len(value), layout.value)
    records["id"], records["value"] = minor, value
    entries, n_entries = _entries(layout, major[entry_first], entry_first, n_values, n_index)

    value_bytes, index_bytes = n_values * layout.value.itemsize, n_entries * layout.index.itemsize
    index_within = align(value_bytes, layout.alignment)
    size = align(index_within + index_bytes, layout.alignment)
    values_at = at + np.cumsum(size) - size
    lengths = np.stack([value_bytes, index_within - value_bytes, index_bytes, size - index_within - index_bytes])
    return PackedBlocks(
        lay_out([records, entries], lengths),
        numbers,
        n_values,
        values_at,
        n_index,
        values_at + index_within,
        major[entry_first].astype(np.int64),
        np.diff(entry_first, append=len(value)),
    )


def _mark_changes(ids: Array) -> Bools:
    """Return a mask that is True at the first of equal neighbours."""
    out = np.ones(len(ids), np.bool_)
    np.not_equal(ids[1:], ids[:-1], out=out[1:])
    return out


def _entries(layout: BlockLayout, ids: Array, first: Ints, n_values: Ints, n_index: Ints) -> tuple[Array, Ints]:
    """Return the index entries of all blocks, with the end pairs that the layout wants, and how many each block has."""
    within = first - np.repeat(np.cumsum(n_values) - n_values, n_index)
    ends = np.zeros(len(n_index), np.bool_)
    if layout.end_marker is not None:
        ends |= layout.ends_when_empty | (n_index > 0)
    n_entries = n_index + ends
    out = np.empty(int(n_entries.sum()), layout.index)
    is_end = np.zeros(len(out), np.bool_)
    is_end[np.cumsum(n_entries)[ends] - 1] = True
    out["id"][~is_end], out["start"][~is_end] = ids, within
    out["id"][is_end], out["start"][is_end] = layout.end_marker or 0, n_values[ends]
    return out, n_entries


def lay_out(sources: Sequence[Array], lengths: Ints) -> Words:
    """Return blocks as words: the next records of every source, each with zeros behind them. `lengths` has a row with
    the bytes of its records in each block for every source, and one for those of the zeros."""
    n_blocks = lengths.shape[1]
    if int(lengths.sum()) >= LONG_BLOCK * n_blocks:
        return _join_parts(sources, lengths)
    marks = [mark for number in range(len(sources)) for mark in (number + 1, 0)]
    owner = np.repeat(np.tile(np.array(marks, np.uint8), n_blocks), lengths.T.ravel() // WORD)
    words = np.zeros(len(owner), np.uint16)
    for number, records in enumerate(sources):
        words[owner == number + 1] = records.view(np.uint16)
    return words


def _join_parts(sources: Sequence[Array], lengths: Ints) -> Words:
    """Return long blocks as words: they are copied faster part by part than word by word."""
    parts: list[Iterator[bytes | memoryview]] = []
    for records, sizes, gaps in zip(sources, lengths[::2], lengths[1::2], strict=True):
        parts += [_split(records, sizes), map(bytes, gaps.tolist())]
    return np.frombuffer(bytearray().join(chain.from_iterable(zip(*parts, strict=True))), np.uint16)


def _split(records: Array, sizes: Ints) -> Iterator[memoryview]:
    """Yield the bytes of records in parts of these sizes."""
    whole, ends = records.view(np.uint8).data, np.cumsum(sizes)
    return (whole[first:end] for first, end in zip((ends - sizes).tolist(), ends.tolist(), strict=True))


# -- identifier tuples -------------------------------------------------------------------------------------------------


TUPLES_AT_ONCE = 1 << 14  # profiles
Encode = Callable[[IdentifierTuples], Array]  # the elements of tuples as records of a file


def pack_tuples(
    identifiers: IdentifierTuples, profiles: Ints, largest_kind: int, layout: TupleLayout, encode: Encode, at: int
) -> tuple[bytes, Ints]:
    """Return the tuples of profiles as bytes that begin at an offset, and where each of them does. Kinds beyond the
    largest have no place."""
    packed: list[bytes] = []
    lengths: list[Ints] = [np.empty(0, np.int64)]
    head = np.dtype([("length", layout.length), ("spare", f"V{layout.header - layout.length.itemsize}")])
    for first in range(0, len(profiles), TUPLES_AT_ONCE):
        chosen = identifiers.take(profiles[first : first + TUPLES_AT_ONCE])
        chosen = chosen.choose(chosen.kind <= largest_kind)
        lengths.append(np.diff(chosen.bounds))
        heads = np.zeros(len(chosen), head)
        heads["length"] = lengths[-1]
        elements = encode(chosen)
        sizes = np.zeros((4, len(chosen)), np.int64)
        sizes[0], sizes[2] = layout.header, lengths[-1] * elements.itemsize
        packed.append(lay_out([heads, elements], sizes).tobytes())
    n_bytes = layout.header + np.concatenate(lengths) * layout.element.itemsize
    return b"".join(packed), at + np.cumsum(n_bytes) - n_bytes


# -- profile.db, written as values come --------------------------------------------------------------------------------
#     header, infos, id tuples           their size is known from the start: room is left for them
#     blocks of the measured profiles    appended by `store`
#     block of the summary               appended by `summarise`, while cct.db is made
#     footer
#
# A profile may come in several parts. Each part becomes a block; `seal` then makes one block of them, in a second file,
# and throws the first one away. Whoever gives whole profiles saves that pass.


MERGED_ROWS = 1 << 17  # rows that are put together at a time, unless one profile has more


class ProfileWriter:
    """profile.db in the making. Profile 0 is the summary; `n_per_context` counts the values of each context id. `loops`
    says what the summary holds in lexical scope at loops, None where there is no such scope."""

    def __init__(
        self, path: Path, written: ValuesFile, n_profiles: int, n_ids: int, loops: LexicalLoops | None = None
    ) -> None:
        self._path, self._written, self._loops = path, written, loops
        self._n_profiles, self._n_ids = n_profiles, n_ids
        self._summary_index: list[tuple[Ids, Ints]] = []
        self._n_totals = 0
        self._begin()

    def _begin(self) -> None:
        self._file = self._path.open("wb")
        self._at = self._written.blocks_at
        self._file.seek(self._at)
        self._parts: list[Ints] = [np.empty((5, 0), np.int64)]  # profile, n_values, values_at, n_index, index_at
        self.n_per_context = np.zeros(self._n_ids, np.int64)
        if self._loops is not None:
            self._loops.forget()

    def store(self, rows: SparseBlock, last: bool = False) -> None:
        """Append rows in the file's ids, sorted by profile, context and metric. What comes last also brings the
        blocks of profiles that have no values."""
        numbers = rows.profile[np.flatnonzero(np.diff(rows.profile, prepend=-1))].astype(np.int64)
        if last:
            empty = np.ones(self._n_profiles, np.bool_)
            empty[self._table[0]] = empty[0] = False
            empty[numbers] = True
            numbers = np.union1d(np.flatnonzero(empty), numbers)
        packed = pack(self._written.layout, numbers, rows.profile, rows.context, rows.metric, rows.value, self._at)
        self._file.write(packed.words.data)
        self._at += packed.words.nbytes
        self._parts.append(np.stack(packed.places))
        self.n_per_context += np.bincount(packed.entry_id, packed.entry_count, self._n_ids).astype(np.int64)
        if self._loops is not None:
            self._loops.add(rows)

    def flush(self) -> None:
        self._file.flush()

    def seal(self) -> SparseBlocks:
        """Store one block per profile, ready to be read back: all measured values are there."""
        if len(np.unique(self._table[0])) < len(self._table[0]):
            self._merge()
        self._file.flush()
        columns = np.zeros((4, self._n_profiles), np.uint64)
        columns[:, self._table[0]] = self._table[1:]
        return SparseBlocks(FileBytes(self._path), self._written.layout, "profile", *columns)

    @property
    def _table(self) -> Ints:
        self._parts = [np.concatenate(self._parts, axis=1)]
        return self._parts[0]

    def _merge(self) -> None:
        """Write the file again with the parts of each profile together."""
        self._file.close()
        table, parts_path = self._table, self._path.with_suffix(".parts")
        self._path.rename(parts_path)
        parts = SparseBlocks(FileBytes(parts_path), self._written.layout, "part", *table[1:].astype(np.uint64))
        self._begin()
        waiting: list[SparseBlock] = []
        n_waiting = 0
        order = np.argsort(table[0], kind="stable").tolist()
        for part, following in zip(order, [*order[1:], -1], strict=True):
            profile = int(table[0][part])
            waiting.append(_rows(profile, parts.block(part)))
            n_waiting += len(waiting[-1])
            last_of_profile = following < 0 or table[0][following] != profile
            if last_of_profile and (n_waiting >= MERGED_ROWS or following < 0):
                merged = combine_rows(SparseBlock.concatenate(waiting))
                self.store(merged.take(merged.value != 0), last=following < 0)
                waiting, n_waiting = [], 0
        parts_path.unlink()

    def summarise(self, rows: SparseBlock, statistics: Mapping[str, Mapping[int, int]]) -> Summarised:
        """Append to the summary, and return what was; contexts come in ascending order."""
        context, metric, value = summarise(rows, statistics, self._loops)
        values = np.empty(len(value), self._written.layout.value)
        values["id"], values["value"] = metric, value
        self._file.write(values.data)
        ids, first = np.unique(context, return_index=True)
        self._summary_index.append((ids, first + self._n_totals))
        self._n_totals += len(values)
        return context, metric, value

    def finish(self) -> None:
        """Complete the summary, fill in the tables and close the file."""
        layout, at = self._written.layout, self._at
        n_index = sum(len(ids) for ids, _ in self._summary_index)
        index = np.empty(n_index + (layout.end_marker is not None), layout.index)
        for name, column in (("id", 0), ("start", 1)):
            parts = [np.empty(0, np.int64), *(part[column] for part in self._summary_index)]
            index[name][:n_index] = np.concatenate(parts)
        index[n_index:] = (layout.end_marker or 0, self._n_totals)
        index_at = align(at + self._n_totals * layout.value.itemsize, layout.alignment)
        self._file.seek(index_at)
        self._file.write(index.data)
        self._file.write(self._written.footer)
        places = BlockPlaces(self._n_profiles, self._written.blocks_at)
        places.put(*np.append(self._table, [[0], [self._n_totals], [at], [n_index], [index_at]], axis=1))
        self._file.seek(0)
        self._file.write(self._written.tables(places))
        self._file.close()

    def close(self) -> None:
        """Give the file up, whatever is in it."""
        self._file.close()


def _rows(profile: int, block: RawBlock) -> SparseBlock:
    return SparseBlock(
        np.full(len(block.value), profile, np.int32),
        block.major().astype(np.int32),
        block.minor.astype(np.int32),
        block.value.astype(np.float64),
    )


# -- cct.db, made from profile.db by an external counting sort ---------------------------------------------------------
#     pass 1    while profile blocks are written, the values of each context are counted: this divides contexts into
#               batches, in the order of their ids
#     pass 2    each profile's index is ascending too, so the values of a batch are one range in each profile; all
#               indices are read once, and where the ranges lie is noted
#     pass 3    batch by batch: the ranges of all profiles, sorted by context and metric
#
# A batch is all that memory holds of the values: an eighth of them, but not more than a million, or a few of each
# profile. Every value is read once and written once, and the summary profile, statistics over all profiles, falls out
# of the same pass. One context with more values than that is a batch by itself.


BATCHES = 8  # more where these would be larger, fewer where they would be smaller than that
SMALLEST_BATCH, LARGEST_BATCH = 1 << 16, 1 << 20  # values
VALUES_OF_PROFILE = 4  # of a batch at least: else there would be more ranges to note than values
BATCH_CONTEXTS = 1 << 16  # numbers of 16 bits are sorted by counting
ENTRIES_AT_ONCE = 1 << 16  # of indices

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
    bounds = _divide_contexts(n_per_context, len(profiles))
    reader, done, total = _ProfileRanges(profiles, bounds), 0, int(n_per_context.sum())
    with path.open("wb") as file:
        file.seek(at)
        for batch, (first, last) in enumerate(pairwise(bounds.tolist())):
            rows = reader.read_batch(batch)
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


def _divide_contexts(n_per_context: Ints, n_profiles: int) -> Ints:
    """Return the bounds of ranges of context ids that together cover all of them."""
    before = np.append(0, np.cumsum(n_per_context))
    most = max(LARGEST_BATCH, VALUES_OF_PROFILE * n_profiles)
    n_values = min(max(int(before[-1]) // BATCHES, SMALLEST_BATCH), most)
    bounds = [0]
    while bounds[-1] < len(n_per_context):
        first = bounds[-1]
        last = int(np.searchsorted(before, before[first] + n_values, side="right")) - 1
        bounds.append(min(max(last, first + 1), first + BATCH_CONTEXTS))
    return np.array(bounds)


class _ProfileRanges:
    """Where the values of each batch of contexts lie in each profile: `bounds` are those of the batches, which are read
    one after the other."""

    def __init__(self, blocks: SparseBlocks, bounds: Ints) -> None:
        self._blocks, self._bounds = blocks, bounds
        self._n_index, self._n_stored = (n.astype(np.int64) for n in (blocks.n_index, blocks.n_values))
        n_batches = len(bounds) - 1
        self._n_entries, self._n_values = (np.zeros((len(blocks), n_batches), np.int32) for _ in range(2))
        self._entries_read, self._values_read = (np.zeros(len(blocks), np.int64) for _ in range(2))
        batch_of = np.repeat(np.arange(n_batches), np.diff(bounds))
        for first, last in bundles(self._n_index.tolist(), ENTRIES_AT_ONCE):
            part = slice(first, last)
            ids, n_values = self._read_index(part, self._n_index[part], self._n_stored[part])
            shape = last - first, n_batches
            cell = np.repeat(np.arange(last - first) * n_batches, self._n_index[part]) + batch_of.take(ids)
            self._n_entries[part] = np.bincount(cell, minlength=shape[0] * n_batches).reshape(shape)
            self._n_values[part] = np.bincount(cell, n_values, shape[0] * n_batches).reshape(shape)
        blocks.forget()

    def _read_index(self, profiles: slice, count: Ints, end: Ints) -> tuple[Array, Ints]:
        """Return the next entries of profiles: ids, and how many values each has; those of a profile end at `end`."""
        blocks = self._blocks
        at = blocks.index_at[profiles].astype(np.int64)
        at += self._entries_read[profiles] * blocks.layout.index.itemsize
        pairs = blocks.file.gather_ranges(blocks.layout.index, at, count, blocks.what)
        starts = pairs["start"].astype(np.int64)
        n_values = np.diff(starts, append=0)
        last = np.cumsum(count)[count > 0] - 1
        n_values[last] = end[count > 0] - starts[last]
        return pairs["id"], n_values

    def read_batch(self, batch: int) -> SparseBlock:
        """Return the values of the next batch of contexts, by context, metric and profile."""
        blocks, (first, end) = self._blocks, self._bounds[batch : batch + 2].tolist()
        n_entries, n_values = (n[:, batch].astype(np.int64) for n in (self._n_entries, self._n_values))
        ids, counts = self._read_index(slice(None), n_entries, self._values_read + n_values)
        at = blocks.values_at.astype(np.int64) + self._values_read * blocks.layout.value.itemsize
        values = blocks.file.gather_ranges(blocks.layout.value, at, n_values, blocks.what)
        self._entries_read += n_entries
        self._values_read += n_values
        blocks.forget()
        offset, metric = np.repeat((ids - first).astype(np.uint16), counts), values["id"].astype(np.uint16)
        n_per_context = np.bincount(offset, minlength=end - first)
        order = _order_of_pairs(offset, metric, end - first)
        return SparseBlock(
            np.repeat(np.arange(len(blocks), dtype=np.int32), n_values).take(order),
            np.repeat(np.arange(first, end, dtype=np.int32), n_per_context),
            metric.take(order).astype(np.int32),
            values["value"][order].astype(np.float64, copy=False),
        )


def _order_of_pairs(offset: Array, metric: Array, n_offsets: int) -> Ints:
    """Return the order by two columns of 16 bits, equal ones as they were given. Numbers of 16 bits are sorted by
    counting; where the pairs fit into as many, once is enough."""
    n_metrics = int(metric.max(initial=0)) + 1
    if n_offsets * n_metrics < 1 << 16:
        return np.argsort(offset * np.uint16(n_metrics) + metric, kind="stable")
    order = np.argsort(metric, kind="stable")
    return order.take(np.argsort(offset.take(order), kind="stable"))
