"""The identifier tuples of profile.db, all of them at once: columns, without an object for a profile.

    at the pointer of a profile     a length, [spare bytes], then so many elements

Tuples need not lie one after the other, and several profiles may point to one. A tuple that does not lie in the file is
empty, and the damage is told; so are tuples that together are larger than the file, which lie in one another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from callgrove.arrays import Array, Bools, Ints
from callgrove.binary.files import FileBytes
from callgrove.errors import CorruptFile
from callgrove.model.profiles import IdentifierTuples

__all__ = ["TupleLayout", "read_tuples"]


@dataclass(frozen=True)
class TupleLayout:
    """The records of a tuple. `decode` gives kind, physical, logical and interpretation of elements; with
    `none_at_zero`, a pointer that is 0 means that there is no tuple."""

    section: str
    length: np.dtype[Any]
    header: int  # bytes before the first element
    element: np.dtype[Any]
    decode: Callable[[Array], tuple[Array, Array, Array, Array]]
    none_at_zero: bool = False


def read_tuples(
    file: FileBytes, pointers: Array, layout: TupleLayout, names: tuple[str, ...]
) -> tuple[IdentifierTuples, list[CorruptFile]]:
    """Return the tuple of every profile, and what is damaged."""
    lengths, broken = _read_lengths(file, pointers, layout)
    before = np.append(0, np.cumsum(lengths))[:-1]
    crowded = np.flatnonzero(before > file.size // layout.element.itemsize)
    if len(crowded):  # a small file could announce any number of identifiers
        lengths[crowded[0] :], broken[crowded[0] :] = 0, False
    damage = [*_describe_broken(file, pointers, layout, lengths, broken)]
    if len(crowded):
        expected, found = "a tuple for each profile", "tuples that lie in one another"
        damage.append(CorruptFile(file.path, "id tuples", expected=expected, found=found))
    return _gather_tuples(file, pointers, lengths, layout, names), damage


def _read_lengths(file: FileBytes, pointers: Array, layout: TupleLayout) -> tuple[Ints, Bools]:
    """Return the number of identifiers of each profile, and which tuples do not lie in the file."""
    lengths, ends = np.zeros(len(pointers), np.int64), np.zeros(len(pointers), np.int64)
    wanted = pointers != 0 if layout.none_at_zero else np.ones(len(pointers), np.bool_)
    room = file.size - layout.length.itemsize
    inside = wanted & (pointers <= np.uint64(max(0, room))) & (room >= 0)
    at = pointers[inside].astype(np.int64)
    lengths[inside] = file.gather(layout.length, at, layout.section)
    ends[inside] = at + layout.header + layout.element.itemsize * lengths[inside]
    broken = (wanted & ~inside) | ((lengths > 0) & (ends > file.size))
    lengths[broken] = 0
    return lengths, broken


def _describe_broken(
    file: FileBytes, pointers: Array, layout: TupleLayout, lengths: Ints, broken: Bools
) -> Iterator[CorruptFile]:
    """Yield what is wrong with broken tuples; of several in a row, with the first."""
    after_whole = np.append(True, lengths[:-1] > 0)[: len(lengths)]
    for profile in np.flatnonzero(broken & after_whole).tolist():
        pointer = int(pointers[profile])
        try:
            length = int(file.array(layout.length, 1, pointer, layout.section)[0])
            file.check(pointer + layout.header, length * layout.element.itemsize, layout.section)
        except CorruptFile as error:
            yield error


def _gather_tuples(
    file: FileBytes, pointers: Array, lengths: Ints, layout: TupleLayout, names: tuple[str, ...]
) -> IdentifierTuples:
    bounds = np.append(0, np.cumsum(lengths))
    some, size = lengths > 0, layout.element.itemsize
    first = pointers[some].astype(np.int64) + layout.header - size * bounds[:-1][some]
    at = np.repeat(first, lengths[some]) + size * np.arange(int(bounds[-1]))
    kind, physical, logical, interpretation = layout.decode(file.gather(layout.element, at, layout.section))
    return IdentifierTuples(
        bounds,
        kind.astype(np.int32),
        physical.astype(np.uint64),
        logical.astype(np.uint64),
        interpretation.astype(np.int32),
        names,
    )
