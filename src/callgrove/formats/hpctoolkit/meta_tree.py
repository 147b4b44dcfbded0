"""The calling context tree of a released database's meta.db.

    entry point          32 bytes, with an array of children
    context              32 bytes, then flex words [pFunction] [pFile, line] [pModule, offset];
                         szChildren and pChildren lead to the next array

Contexts have variable length and are reached by pointers, so finding them is a walk, and nothing promises that it ends:
the number of contexts that fit into the file bounds it. What the walk finds are offsets; all fields are then decoded at
once, as columns.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

import numpy as np

from callgrove.binary.filebytes import FileBytes
from callgrove.errors import CorruptFile
from callgrove.formats.hpctoolkit import release_records as rec
from callgrove.formats.hpctoolkit.release_words import HAS_FUNCTION, HAS_PLACE, HAS_POINT
from callgrove.model.arrays import ABSENT, Array, Bools, Ids, Ints, Offsets
from callgrove.model.contexts import LAST_LINE

__all__ = ["PointerTable", "RawContexts", "TreePlaces", "decode", "entry_points", "walk"]

CHILDREN = struct.Struct("<QQ7xB")  # szChildren, pChildren, nFlexWords of rec.CONTEXT; a test compares the two
MOST_FLEX_WORDS = 5
FLEX_WORDS = np.dtype([("words", "<u8", (MOST_FLEX_WORDS,))])


@dataclass(frozen=True)
class PointerTable:
    """A table whose records are meant by pointers: where it begins, how far apart and how many records are."""

    name: str
    at: int
    stride: int
    n: int

    def numbers(self, pointers: Offsets, file: FileBytes) -> Ids:
        """The records that pointers mean; 0 is absent, a pointer to anything else is damage."""
        distance = pointers - np.uint64(self.at)  # wraps around below the table, and is too large then
        stride = np.uint64(max(self.stride, 1))
        number, rest = distance // stride, distance % stride
        wrong = (pointers != 0) & ((rest != 0) | (number >= np.uint64(self.n)))
        if wrong.any():
            pointer = int(pointers[wrong][0])
            expected = f"one of {self.n} records of {self.name} from byte {self.at}"
            raise CorruptFile(file.path, "Context", offset=pointer, expected=expected, found="none there")
        found: Ids = np.where(pointers != 0, number.astype(np.int32), np.int32(ABSENT))
        return found


@dataclass(frozen=True)
class TreePlaces:
    """Where contexts stand, in preorder; `parent` counts them. Entry points are contexts too."""

    at: Ints
    parent: Ids
    is_entry: Bools


@dataclass(frozen=True)
class RawContexts:
    """Contexts as stored, in preorder; -1 is absent. `entry` is the number of an entry point."""

    id: Ints
    parent: Ids
    entry: Ids
    relation: Ids
    lexical_type: Ids
    function: Ids
    file: Ids
    line: Ints
    module: Ids
    offset: Offsets

    def __len__(self) -> int:
        return len(self.id)


def entry_points(file: FileBytes, section_at: int) -> tuple[Array, Ints]:
    """The records of the entry points, and where they stand."""
    section = file.record(rec.CONTEXT_SECTION, section_at, "Context")
    n, stride, at = int(section["nEntryPoints"]), int(section["szEntryPoint"]), int(section["pEntryPoints"])
    if not n:
        return np.empty(0, rec.ENTRY_POINT), np.empty(0, np.int64)
    return file.read_strided(rec.ENTRY_POINT, stride, n, at, "Context"), at + stride * np.arange(n)


def walk(file: FileBytes, entries: Array, entries_at: Ints) -> TreePlaces:
    """Find every context: an explicit stack, no recursion, no more contexts than fit into the file."""
    places: list[int] = []
    parents: list[int] = []
    roots: list[int] = []
    for at, size, below in zip(
        entries_at.tolist(), entries["szChildren"].tolist(), entries["pChildren"].tolist(), strict=True
    ):
        roots.append(len(places))
        places.append(at)
        parents.append(ABSENT)
        if size:
            file.check(below, size, "Context")
            _below(file, below, below + size, places, parents)
    is_entry = np.zeros(len(places), np.bool_)
    is_entry[roots] = True
    return TreePlaces(np.array(places, np.int64), np.array(parents, np.int32), is_entry)


def _below(file: FileBytes, at: int, end: int, places: list[int], parents: list[int]) -> None:
    """Contexts of an array of children, and of all arrays below it, in preorder."""
    unpack, buffer, size_of = CHILDREN.unpack_from, file.buffer, rec.CONTEXT.itemsize
    most = file.size // size_of
    parent = len(places) - 1
    stack: list[tuple[int, int, int]] = []
    while True:
        if at >= end:
            if not stack:
                return
            at, end, parent = stack.pop()
        if at + size_of > end or len(places) > most:
            raise _broken(file, at, end, endless=len(places) > most)
        size, below, n_flex = unpack(buffer, at)
        following = at + size_of + 8 * n_flex
        if following > end:
            raise _broken(file, at, end, endless=False)
        places.append(at)
        parents.append(parent)
        if size:
            if below + size > file.size:
                file.check(below, size, "Context")
            if following < end:
                stack.append((following, end, parent))
            at, end, parent = below, below + size, len(places) - 1
        else:
            at = following


def _broken(file: FileBytes, at: int, end: int, *, endless: bool) -> CorruptFile:
    found = "children that contain their parents" if endless else f"one that ends at byte {end} inside a context"
    return CorruptFile(
        file.path, "Context", offset=at, expected="arrays of whole contexts, each reached once", found=found
    )


class _FlexWords:
    """The words behind the record of a context: [function] [file, line] [module, offset], of which its flags say what
    is there. Each column is 0 where there is nothing."""

    def __init__(self, file: FileBytes, at: Ints, records: Array) -> None:
        flags, n_words = records["flags"], records["nFlexWords"].astype(np.int64)
        self._words = _gather(file, at + rec.CONTEXT.itemsize, FLEX_WORDS)["words"]
        self._has = {bit: (flags & bit) != 0 for bit in (HAS_FUNCTION, HAS_PLACE, HAS_POINT)}
        self._place_at = self._has[HAS_FUNCTION].astype(np.int64)
        self._point_at = self._place_at + 2 * self._has[HAS_PLACE]
        needed = self._point_at + 2 * self._has[HAS_POINT]
        if (short := needed > n_words).any():
            wrong = int(np.flatnonzero(short)[0])
            expected, found = f"{int(needed[wrong])} flex words", str(int(n_words[wrong]))
            raise CorruptFile(file.path, "Context", offset=int(at[wrong]), expected=expected, found=found)

    def _column(self, bit: int, column: Ints) -> Offsets:
        rows, columns = np.arange(len(self._words)), np.minimum(column, MOST_FLEX_WORDS - 1)
        picked: Offsets = np.where(self._has[bit], self._words[rows, columns], 0)
        return picked.astype(np.uint64)

    @property
    def function(self) -> Offsets:
        return self._column(HAS_FUNCTION, np.zeros_like(self._place_at))

    @property
    def file(self) -> Offsets:
        return self._column(HAS_PLACE, self._place_at)

    @property
    def line(self) -> Ints:
        return (self._column(HAS_PLACE, self._place_at + 1) & np.uint64(0xFFFFFFFF)).astype(np.int64)

    @property
    def module(self) -> Offsets:
        return self._column(HAS_POINT, self._point_at)

    @property
    def offset(self) -> Offsets:
        return self._column(HAS_POINT, self._point_at + 1)


def decode(
    file: FileBytes, places: TreePlaces, functions: PointerTable, files: PointerTable, modules: PointerTable
) -> RawContexts:
    """All fields of all contexts, column by column."""
    n = len(places.at)
    inner = np.flatnonzero(~places.is_entry)
    records = _gather(file, places.at[inner], rec.CONTEXT)
    words = _FlexWords(file, places.at[inner], records)

    def spread(values: Array, fill: int) -> Array:
        """Values of inner contexts over all; entry points have none."""
        out = np.full(n, fill, values.dtype)
        out[inner] = values
        return out

    entries = np.full(n, ABSENT, np.int32)
    entries[places.is_entry] = np.arange(n - len(inner))
    ids = spread(records["ctxId"].astype(np.int64), 0)
    ids[places.is_entry] = _gather(file, places.at[places.is_entry], rec.ENTRY_POINT)["ctxId"]
    line = words.line
    return RawContexts(
        ids,
        places.parent,
        entries,
        spread(records["relation"].astype(np.int32), 1),
        spread(records["lexicalType"].astype(np.int32), 0),
        spread(functions.numbers(words.function, file), ABSENT),
        spread(files.numbers(words.file, file), ABSENT),
        spread(np.where(line <= LAST_LINE, line, ABSENT), ABSENT),
        spread(modules.numbers(words.module, file), ABSENT),
        spread(words.offset, 0),
    )


def _gather(file: FileBytes, at: Ints, record: np.dtype[np.void]) -> Array:
    """The record at each place; beyond the end of the file stand zeros."""
    out = np.zeros(len(at), record)
    last = file.size - record.itemsize
    inside = at <= last
    if last >= 0:
        anywhere: Array = np.ndarray((last + 1,), record, file.buffer, 0, (1,))
        out[inside] = anywhere[at[inside]]
    for k in np.flatnonzero(~inside).tolist():
        rest = bytes(file.buffer[int(at[k]) :]).ljust(record.itemsize, b"\0")
        out[k] = np.frombuffer(rest, record, 1)[0]
    return out
