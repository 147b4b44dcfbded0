"""Value blocks of profile.db and cct.db, of both generations, packed many at a time.

    block    (minor, value) * n   [padding]   (major, start) * m   [end pair]   [padding]

`sparse` reads what is packed here, and `BlockLayout` says what of it a generation has. All records have an even size
and every block begins at an even place, so blocks are put together as 16-bit words: values and index entries are each
one sequence in the order of the file, laid into the words that belong to them. Nothing is done per block.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from callgrove.formats.hpctoolkit.sparse import BlockLayout
from callgrove.model.arrays import Array, Bools, Floats, Ints

__all__ = ["BlockPlaces", "PackedBlocks", "ValuesFile", "aligned", "pack"]

Words = npt.NDArray[np.uint16]
WORD = 2  # bytes


def aligned(offset: Any, to: int) -> Any:
    """The next multiple of `to`; a number or an array of them."""
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
        """Everything before the first block."""


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
    """Blocks of these numbers, which ascend, from rows that are sorted by block, major id and minor id."""
    changes = _changes(block)
    entry_first = np.flatnonzero(changes | _changes(major))
    n_values = np.diff(np.searchsorted(block, numbers), append=len(value))
    n_index = np.diff(np.searchsorted(block[entry_first], numbers), append=len(entry_first))
    records = np.empty(len(value), layout.value)
    records["id"], records["value"] = minor, value
    entries, n_entries = _entries(layout, major[entry_first], entry_first, n_values, n_index)

    value_bytes, index_bytes = n_values * layout.value.itemsize, n_entries * layout.index.itemsize
    index_within = aligned(value_bytes, layout.alignment)
    size = aligned(index_within + index_bytes, layout.alignment)
    values_at = at + np.cumsum(size) - size
    return PackedBlocks(
        _laid_out(records, entries, value_bytes, index_within, index_bytes, size),
        numbers,
        n_values,
        values_at,
        n_index,
        values_at + index_within,
        major[entry_first].astype(np.int64),
        np.diff(entry_first, append=len(value)),
    )


def _changes(ids: Array) -> Bools:
    """True at the first of equal neighbours."""
    out = np.ones(len(ids), np.bool_)
    np.not_equal(ids[1:], ids[:-1], out=out[1:])
    return out


def _entries(layout: BlockLayout, ids: Array, first: Ints, n_values: Ints, n_index: Ints) -> tuple[Array, Ints]:
    """The index entries of all blocks, with the end pairs that the layout wants, and how many each block has."""
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


def _laid_out(
    records: Array, entries: Array, value_bytes: Ints, index_within: Ints, index_bytes: Ints, size: Ints
) -> Words:
    padding = index_within - value_bytes
    lengths = np.stack([value_bytes, padding, index_bytes, size - index_within - index_bytes], axis=1)
    owner = np.repeat(np.tile(np.array([1, 0, 2, 0], np.uint8), len(size)), lengths.ravel() // WORD)
    words = np.zeros(len(owner), np.uint16)
    words[owner == 1] = records.view(np.uint16)
    words[owner == 2] = entries.view(np.uint16)
    return words
