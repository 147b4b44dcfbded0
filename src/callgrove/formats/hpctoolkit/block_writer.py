"""Value blocks of profile.db and cct.db, packed many at a time.

    block    (minor, value) * n     padding to 4 bytes     (major, start) * m     padding to 4 bytes

`sparse` reads what is packed here. Both kinds of record have an even size and every block begins at a multiple of 4,
so blocks are put together as 16-bit words: one pass per word of a record, none per block.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from callgrove.formats.hpctoolkit.sparse import BlockLayout
from callgrove.model.arrays import Array, Bools, Floats, Ints

__all__ = ["PackedBlocks", "aligned", "pack"]

Words = npt.NDArray[np.uint16]
ALIGNMENT = 4


def aligned(offset: Any, to: int = ALIGNMENT) -> Any:
    """The next multiple of `to`; a number or an array of them."""
    return (offset + to - 1) // to * to


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


def pack(layout: BlockLayout, block: Array, major: Array, minor: Array, value: Floats, at: int) -> PackedBlocks:
    """Blocks from rows that are sorted by block, major id and minor id."""
    block_first = np.flatnonzero(_changes(block))
    entry_first = np.flatnonzero(_changes(block) | _changes(major))
    n_values = np.diff(np.append(block_first, len(value)))
    n_index = np.diff(np.append(np.searchsorted(entry_first, block_first), len(entry_first)))
    index_within = aligned(n_values * layout.value.itemsize)
    size = aligned(index_within + n_index * layout.index.itemsize)
    values_at = at + np.cumsum(size) - size
    words = np.zeros(int(size.sum()) // 2, np.uint16)

    records = np.empty(len(value), layout.value)
    records["id"], records["value"] = minor, value
    _scatter(words, values_at - at, n_values, records)
    entries = np.empty(len(entry_first), layout.index)
    entries["id"], entries["start"] = major[entry_first], entry_first - np.repeat(block_first, n_index)
    _scatter(words, values_at + index_within - at, n_index, entries)

    entry_count = np.diff(np.append(entry_first, len(value)))
    return PackedBlocks(
        words,
        block[block_first].astype(np.int64),
        n_values,
        values_at,
        n_index,
        values_at + index_within,
        major[entry_first].astype(np.int64),
        entry_count,
    )


def _changes(ids: Array) -> Bools:
    """True at the first of equal neighbours."""
    out = np.ones(len(ids), np.bool_)
    out[1:] = ids[1:] != ids[:-1]
    return out


def _scatter(words: Words, starts: Ints, counts: Ints, records: Array) -> None:
    """Put `counts[k]` records, one after the other, at byte `starts[k]`, for every k."""
    size = records.dtype.itemsize // 2
    before = np.cumsum(counts) - counts
    place = np.repeat(starts // 2 - before * size, counts) + np.arange(len(records)) * size
    source = records.view(np.uint16).reshape(len(records), size)
    for k in range(size):
        words[place + k] = source[:, k]
