"""Protocol buffers, written: fields and messages one by one, and many messages of one shape at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from callgrove.arrays import Array, Ints

__all__ = [
    "WIDEST",
    "Bytes",
    "Shape",
    "fixed64_tag",
    "interleave",
    "message",
    "number",
    "packed",
    "tag",
    "text",
    "varint",
    "width_of",
]


# -- fields and messages -----------------------------------------------------------------------------------------------
# Types on the wire: 0 a number of variable length, 1 eight bytes, 2 a length and that many bytes.


ONE_BYTE = tuple(bytes((k,)) for k in range(0x80))


def varint(value: int) -> bytes:
    """Return a number, seven bits at a time; negative ones as 64-bit numbers."""
    if 0 <= value < 0x80:
        return ONE_BYTE[value]
    value &= 2**64 - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def tag(field: int) -> bytes:
    return varint(field << 3)


def fixed64_tag(field: int) -> bytes:
    return varint(field << 3 | 1)


def number(field: int, value: int) -> bytes:
    return tag(field) + varint(value)


def message(field: int, *parts: bytes) -> bytes:
    """Return a message inside another one, or a text."""
    content = b"".join(parts)
    return varint(field << 3 | 2) + varint(len(content)) + content


def text(field: int, value: str) -> bytes:
    return message(field, value.encode("utf-8", "replace"))


def packed(field: int, values: Iterable[int]) -> bytes:
    """Return many numbers as one field."""
    return message(field, *map(varint, values))


# -- many messages of one shape ----------------------------------------------------------------------------------------
# A number of variable length is padded to a fixed one, which decoders accept: every byte but the last has its high bit
# set. All rows are then alike but for some columns:
#
#     0a 22 | 40 tt tt tt tt tt tt tt tt tt | 50 01 | 68 02 | 5a .. 48 01 | 58 uu uu uu uu | 50 nn | 18 c
#
# `Shape` is put together from constants and columns; `rows` fills the matrix; `interleave` puts rows of several shapes
# into one sequence of bytes.


Bytes = npt.NDArray[np.uint8]
WIDEST = 10  # bytes of a number of 64 bits
WIDEST_WORD = 8  # bytes that are made at once


def width_of(largest: int) -> int:
    """Return how many bytes numbers up to this one need."""
    return max(1, -(-(largest & (2**64 - 1)).bit_length() // 7))


@dataclass
class Shape:
    """Bytes that all rows share, with gaps for columns: (offset, width, values); width 0: eight bytes as they are."""

    constant: bytearray = field(default_factory=bytearray)
    columns: list[tuple[int, int, Array]] = field(default_factory=list)

    def same(self, data: bytes) -> Shape:
        self.constant += data
        return self

    def number(self, values: Array, width: int) -> Shape:
        """Add a padded number; values are not negative, or have the width 10."""
        self.columns.append((len(self.constant), width, values))
        self.constant += b"\x80" * (width - 1) + b"\0"
        return self

    def eight(self, values: Array) -> Shape:
        """Add eight bytes: a double, or a number of fixed length."""
        self.columns.append((len(self.constant), 0, values))
        self.constant += bytes(8)
        return self

    def inside(self, tag: bytes, inner: Shape) -> Shape:
        """Add a message inside this one."""
        self.constant += tag + varint(len(inner.constant))
        shift = len(self.constant)
        self.columns += [(offset + shift, width, values) for offset, width, values in inner.columns]
        self.constant += inner.constant
        return self

    def rows(self, n: int) -> Bytes:
        """Return the matrix, n rows of `len(constant)` bytes."""
        length = len(self.constant)
        out = np.empty((n, length), np.uint8)
        out[:] = np.frombuffer(bytes(self.constant), np.uint8)
        for offset, width, values in self.columns:
            if width == 0:
                _column(out, offset, "<u8")[:] = np.ascontiguousarray(values).view(np.uint64)
            else:
                _fill(out, offset, width, values.astype(np.uint64, copy=False))
        return out


def _column(rows: Bytes, offset: int, type_: str) -> Array:
    """Return some bytes of every row as numbers."""
    return np.ndarray((len(rows),), type_, rows, offset, (rows.shape[1],))


def _fill(rows: Bytes, offset: int, width: int, values: Array) -> None:
    if width == 1:
        rows[:, offset] = values
        return
    spread = _spread(values, width)
    last = min(width, WIDEST_WORD)
    ends_here = width <= WIDEST_WORD
    spread |= np.uint64(sum(0x80 << 8 * k for k in range(last - 1 if ends_here else last)))
    for size in (8, 4, 2, 1):
        if last & size:
            _column(rows, offset, f"<u{size}")[:] = spread
            if size < last:
                spread = spread >> np.uint64(8 * size)
            offset += size
            last -= size
    if width == 9:
        rows[:, offset] = values >> np.uint64(56)
    elif width == WIDEST:
        rows[:, offset] = (values >> np.uint64(56)) & np.uint64(0x7F) | np.uint64(0x80)
        rows[:, offset + 1] = values >> np.uint64(63)


def _spread(values: Array, width: int) -> Array:
    """Return the lowest 56 bits, seven in each byte: first halves, where there are any, then quarters, then eighths."""
    x = values & np.uint64(0x00FFFFFFFFFFFFFF) if width > WIDEST_WORD else values
    for least, low, high, shift in (
        (5, 0x000000000FFFFFFF, 0x00FFFFFFF0000000, 4),
        (3, 0x00003FFF00003FFF, 0x0FFFC0000FFFC000, 2),
        (2, 0x007F007F007F007F, 0x3F803F803F803F80, 1),
    ):
        if width >= least:
            x = (x & np.uint64(low)) | ((x & np.uint64(high)) << np.uint64(shift))
    return x


def interleave(groups: Sequence[tuple[Ints, Bytes]], n: int) -> Bytes:
    """Return the rows of several shapes, (places, rows) each, in the order of their places 0 to n - 1."""
    if len(groups) == 1:
        return groups[0][1].reshape(-1)
    length = np.empty(n, np.int64)
    for places, rows in groups:
        length[places] = rows.shape[1]
    offset = np.cumsum(length) - length
    out = np.empty(int(length.sum()), np.uint8)
    for places, rows in groups:
        size = rows.shape[1]
        # every place where a row may begin, as one item of its length: they overlap, and only the right ones are used
        windows = np.ndarray((len(out) - size + 1,), f"V{size}", out, 0, (1,))
        windows[offset[places]] = rows.reshape(-1).view(f"V{size}")
    return out
