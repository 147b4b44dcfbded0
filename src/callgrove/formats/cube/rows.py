"""The stored rows of one metric: its index and its data, checked against each other before anything is allocated.

    N.index     CUBEX.INDEX | endian u4 = 1 | version u2 | format u1 | n u4 | position u4 * n    format 1, sparse
                                                                                                 format 3, dense: ends
    N.data      CUBEX.DATA  | row * n                          row = one value for each location
                ZCUBEX.DATA | n u8 | (raw_start u8, z_start u8, z_size u8) * n | zlib streams

A row is found by its raw_start, which is its number times its size; z_start counts from the end of the table. The
byte order of the index holds for the data as well. Rows that are cut off, or whose stream is broken, are missing;
everything else that is wrong makes the whole metric unreadable.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from callgrove.arrays import Array, Bools, Ints, distinct
from callgrove.binary.archives import Member, inflate
from callgrove.binary.files import FileBytes
from callgrove.errors import CorruptFile, count_of
from callgrove.formats.cube.vocabulary import ValueType

__all__ = [
    "DATA_MAGIC",
    "DENSE",
    "INDEX",
    "INDEX_MAGIC",
    "SPARSE",
    "ZDATA_MAGIC",
    "ZROW",
    "StoredRows",
    "byte_order",
    "read_rows",
]

INDEX_MAGIC, DATA_MAGIC, ZDATA_MAGIC = b"CUBEX.INDEX", b"CUBEX.DATA", b"ZCUBEX.DATA"
INDEX = np.dtype([("magic", "S11"), ("endian", "<u4"), ("version", "<u2"), ("format", "u1")])
ZROW = np.dtype([("raw_start", "<u8"), ("z_start", "<u8"), ("z_size", "<u8")])
SPARSE, DENSE = 1, 3
ENDIAN, ENDIAN_BIG = 1, 0x01000000
LARGEST_ROW = 1 << 40
MOST_INFLATED, LEAST_STREAM = 1032, 1 << 16  # deflate makes no more than 1032 bytes of one


def byte_order(big: bool) -> Literal["<", ">"]:
    """Return NumPy's word for a byte order."""
    return ">" if big else "<"


@dataclass
class StoredRows:
    """Rows 0..n-1 as the index lists them. `position[k]` is the place of row k in the traversal; rows that `there` does
    not name were cut off. `z_start` is absolute."""

    file: FileBytes
    section: str
    type: ValueType
    width: int
    big: bool
    position: Ints
    there: Bools
    offset: int = 0
    z_start: Ints | None = None
    z_size: Ints | None = None
    notes: list[str] = field(default_factory=list)
    damage: list[CorruptFile] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.position)

    @property
    def row_size(self) -> int:
        """Bytes of a row, inflated."""
        return self.width * self.type.item

    @property
    def is_compressed(self) -> bool:
        return self.z_start is not None

    def decode(self, rows: Ints, met: Callable[[CorruptFile], None]) -> tuple[Array, Bools]:
        """Return values (rows x locations) of some rows, and which of them could be read. Plain data is not copied
        where the rows follow one another; the values of rows that could not be read mean nothing."""
        readable = self.there[rows]
        if not self.width or not len(rows):
            return np.zeros((len(rows), self.width), self.type.dtype), readable
        if self.is_compressed:
            raw = self._inflate(rows, readable, met)
        else:
            raw = self._plain(rows, readable)
        try:
            return self.type.decode(raw, self.big), readable
        except ValueError as error:
            met(
                CorruptFile(self.file.path, self.section, expected=f"values of type {self.type.name}", found=str(error))
            )
            return np.zeros((len(rows), self.width), self.type.dtype), np.zeros(len(rows), np.bool_)

    def _plain(self, rows: Ints, readable: Bools) -> Array:
        n = int(np.count_nonzero(self.there))  # rows are cut off at the end only
        table = self.file.array(np.uint8, n * self.row_size, self.offset, self.section).reshape(n, self.row_size)
        first, last = int(rows[0]), int(rows[-1])
        if last < n and last - first + 1 == len(rows) and (np.diff(rows) == 1).all():
            return table[first : last + 1]
        out = np.zeros((len(rows), self.row_size), np.uint8)
        out[readable] = table[rows[readable]]
        return out

    def _inflate(self, rows: Ints, readable: Bools, met: Callable[[CorruptFile], None]) -> Array:
        assert self.z_start is not None
        assert self.z_size is not None
        out = np.empty((len(rows), self.row_size), np.uint8)
        buffer, size = memoryview(self.file.buffer), self.row_size
        for k, (row, start, length) in enumerate(
            zip(rows.tolist(), self.z_start[rows].tolist(), self.z_size[rows].tolist(), strict=True)
        ):
            if not readable[k]:
                continue
            self.file.bytes_viewed += length
            inflated = inflate(buffer[start : start + length], size)
            if isinstance(inflated, str):
                readable[k] = False
                met(
                    CorruptFile(
                        self.file.path,
                        self.section,
                        offset=start,
                        expected=f"row {row} of {size} bytes",
                        found=inflated,
                    )
                )
            else:
                out[k] = np.frombuffer(inflated, np.uint8)
        return out


@dataclass(frozen=True)
class _Index:
    """What an index says; `n` is the number of rows."""

    big: bool
    position: Ints
    notes: list[str]


def read_rows(
    file: FileBytes, index: Member, data: Member, type_: ValueType, n_cnodes: int, widths: tuple[int, ...]
) -> StoredRows:
    """Return where the rows of a metric lie. `widths` are the numbers of columns that a row may have, the likeliest
    first."""
    stored_index = _read_index(file, index, n_cnodes)
    size = data.size - data.missing
    head = file.copy(data.offset, min(size, len(ZDATA_MAGIC)), data.name)
    if head == ZDATA_MAGIC:
        return _read_compressed(file, data, type_, stored_index, widths)
    if head[: len(DATA_MAGIC)] != DATA_MAGIC:
        wanted = "CUBEX.DATA or ZCUBEX.DATA"
        raise CorruptFile(file.path, data.name, offset=data.offset, expected=wanted, found=repr(head))
    return _plain(file, data, type_, stored_index, widths)


def _read_index(file: FileBytes, member: Member, n_cnodes: int) -> _Index:
    size, end = member.size - member.missing, member.offset + member.size - member.missing
    if size < INDEX.itemsize:
        raise _wrong(file, member, 0, f"a header of {INDEX.itemsize} bytes", f"{size} bytes")
    header = file.record(INDEX, member.offset, member.name)
    if bytes(header["magic"]) != INDEX_MAGIC:
        raise _wrong(file, member, 0, "CUBEX.INDEX", repr(bytes(header["magic"])))
    endian = int(header["endian"])
    if endian not in (ENDIAN, ENDIAN_BIG):
        raise _wrong(file, member, 11, "1 in one of both byte orders", f"{endian:#010x}")
    order = byte_order(endian == ENDIAN_BIG)
    notes = []
    if version := int(header["version"]):
        notes.append(f"{file.path}: {member.name}: the version of the index is {version}, not 0")
    at, form = member.offset + INDEX.itemsize, int(header["format"])
    if form == DENSE:
        position = np.arange(n_cnodes, dtype=np.int64)
    elif form != SPARSE:
        raise _wrong(file, member, 17, "format 1 (sparse) or 3 (dense)", str(form))
    elif at == end:  # CubeLib writes this for a metric without rows
        position = np.empty(0, np.int64)
    else:
        file_order = np.dtype("u4").newbyteorder(order)
        if at + 4 > end:
            raise _wrong(file, member, INDEX.itemsize, "a count of 4 bytes", f"{end - at}")
        n = int(file.array(file_order, 1, at, member.name)[0])
        if at + 4 + 4 * n > end:
            raise _wrong(file, member, INDEX.itemsize, f"{n} positions", f"room for {(end - at - 4) // 4}")
        position = file.array(file_order, n, at + 4, member.name).astype(np.int64)
        at += 4 + 4 * n
    _check_positions(file, member, position, n_cnodes, notes)
    _check_rest(file, member, at, end, notes)
    return _Index(order == ">", position, notes)


def _check_positions(file: FileBytes, member: Member, position: Ints, n_cnodes: int, notes: list[str]) -> None:
    if not len(position):
        return
    if int(position.max()) >= n_cnodes:
        raise _wrong(file, member, 22, f"positions below {n_cnodes}", str(int(position.max())))
    steps = np.diff(position)
    if (steps <= 0).any():
        if len(distinct(position)) < len(position):
            raise _wrong(file, member, 22, "positions that differ", "the same one twice")
        notes.append(f"{file.path}: {member.name}: the positions are not in ascending order")


def _check_rest(file: FileBytes, member: Member, at: int, end: int, notes: list[str]) -> None:
    """Check the bytes after the last one that means something: zeros are filling."""
    if end > at and file.array(np.uint8, min(end - at, 1 << 16), at, member.name).any():
        rest = count_of(end - at, "byte at its end belongs", "bytes at its end belong")
        notes.append(f"{file.path}: {member.name}: {rest} to nothing")


def _plain(file: FileBytes, data: Member, type_: ValueType, index: _Index, widths: tuple[int, ...]) -> StoredRows:
    start, n = data.offset + len(DATA_MAGIC), len(index.position)
    room = data.offset + data.size - data.missing - start
    width = next((w for w in widths[1:] if n and n * w * type_.item <= room < n * w * type_.item + 2), widths[0])
    size = width * type_.item
    _check_size(file, data, size)
    complete = min(n, room // size) if size else n
    out = StoredRows(file, data.name, type_, width, index.big, index.position, np.arange(n) < complete, start)
    out.notes += index.notes
    if complete < n:
        out.damage.append(_wrong(file, data, len(DATA_MAGIC), f"{n} rows of {size} bytes", f"{room} bytes"))
    else:
        _check_rest(file, data, start + n * size, start + room, out.notes)
    return out


def _read_compressed(
    file: FileBytes, data: Member, type_: ValueType, index: _Index, widths: tuple[int, ...]
) -> StoredRows:
    end, at = data.offset + data.size - data.missing, data.offset + len(ZDATA_MAGIC)
    order = byte_order(index.big)
    if at + 8 > end:
        raise _wrong(file, data, len(ZDATA_MAGIC), "a count of 8 bytes", f"{end - at}")
    n = int(file.array(np.dtype("u8").newbyteorder(order), 1, at, data.name)[0])
    if n * ZROW.itemsize > end - at - 8:
        raise _wrong(
            file, data, len(ZDATA_MAGIC), f"a table of {n} rows", f"room for {(end - at - 8) // ZROW.itemsize}"
        )
    table = file.array(ZROW.newbyteorder(order), n, at + 8, data.name)
    body = at + 8 + n * ZROW.itemsize
    raw, z_start, z_size = (_small(file, data, table[name]) for name in ("raw_start", "z_start", "z_size"))
    width = widths[0]
    if len(widths) > 1 and n > 1 and int(distinct(raw)[1]) == widths[1] * type_.item:
        width = widths[1]
    size = width * type_.item
    _check_size(file, data, size)
    row = raw // size if size else np.arange(n)
    _check_table(file, data, raw, z_start, z_size, size, len(index.position), end - body)
    out = StoredRows(file, data.name, type_, width, index.big, index.position, np.zeros(len(index.position), np.bool_))
    out.notes += index.notes
    out.there[row] = True
    out.z_start, out.z_size = (np.zeros(len(index.position), np.int64) for _ in range(2))
    out.z_start[row], out.z_size[row] = z_start + body, z_size
    if n < len(index.position):
        out.damage.append(_wrong(file, data, len(ZDATA_MAGIC), f"{len(index.position)} rows", f"{n}"))
    return out


def _check_table(
    file: FileBytes, data: Member, raw: Ints, z_start: Ints, z_size: Ints, size: int, n_rows: int, room: int
) -> None:
    """Check that every row is there once, at a multiple of its size, in streams that lie in the member and not in one
    another."""
    at = len(ZDATA_MAGIC) + 8
    if size and (raw % size).any():
        raise _wrong(file, data, at, f"rows of {size} bytes", f"a row at {int(raw[np.flatnonzero(raw % size)[0]])}")
    if len(distinct(raw)) < len(raw):
        raise _wrong(file, data, at, "every row once", "a row that is there twice")
    if size and len(raw) and int(raw.max()) // size >= n_rows:
        raise _wrong(file, data, at, f"{n_rows} rows", f"row {int(raw.max()) // size}")
    outside = np.flatnonzero((z_start > room) | (z_size > room) | (z_start + z_size > room))
    if len(outside):
        k = int(outside[0])
        found = f"a stream from {int(z_start[k])} to {int(z_start[k] + z_size[k])}"
        raise _wrong(file, data, at, f"streams within {room} bytes", found)
    if (z_size * MOST_INFLATED + LEAST_STREAM < size).any():
        raise _wrong(
            file, data, at, f"rows of {size} bytes", f"a stream of {int(z_size.min())}, which holds no such row"
        )
    order = np.argsort(z_start, kind="stable")
    if (z_start[order][1:] < (z_start + z_size)[order][:-1]).any():
        raise _wrong(file, data, at, "streams that follow one another", "streams that lie in one another")


def _small(file: FileBytes, data: Member, numbers: Array) -> Ints:
    if len(numbers) and int(numbers.max()) >= 1 << 62:
        raise _wrong(file, data, len(ZDATA_MAGIC) + 8, "places in the file", str(int(numbers.max())))
    return numbers.astype(np.int64)


def _check_size(file: FileBytes, data: Member, size: int) -> None:
    if size > LARGEST_ROW:
        raise _wrong(file, data, 0, f"rows of at most {LARGEST_ROW} bytes", str(size))


def _wrong(file: FileBytes, member: Member, at: int, expected: str, found: str) -> CorruptFile:
    return CorruptFile(file.path, member.name, offset=member.offset + at, expected=expected, found=found)
