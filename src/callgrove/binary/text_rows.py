"""Rows of text made of columns, many rows at once: numbers as digits, texts by number, literals.

A cell is a field of bytes of one width, filled up with NUL, which is not a character of any text here. A block of rows
is one array of such cells; taking the NULs out of its bytes leaves the text:

    join_fields(n, [integers(ids), b",", names.cells(numbers), b"\\n"])    -> b'17,"main"\\n4,"solve"\\n...'

Nothing here makes a Python object per cell; texts are encoded once each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

__all__ = [
    "BLOCK_BYTES",
    "Cells",
    "Texts",
    "blocks",
    "decimals",
    "fractions",
    "hexadecimals",
    "integers",
    "join_fields",
    "only",
    "where",
]

Array = npt.NDArray[np.generic]
Ints = npt.NDArray[np.int64]
Unsigned = npt.NDArray[np.uint64]
Cells = npt.NDArray[np.bytes_]
Bools = npt.NDArray[np.bool_]

BLOCK_BYTES = 1 << 23  # of the array that a block of rows is made in
NEAR_BYTES = 1 << 17  # rows are put together in a piece of memory that stays in the processor's cache
GROUP = 10_000  # four digits at a time
NOT_YET = -1
NARROWEST = 8  # bytes of a text


def _groups() -> npt.NDArray[np.uint32]:
    """Return the digits of 0 to 9999: first as what a number begins with, then as what follows other digits."""
    number = np.arange(GROUP)
    inner = (np.stack([number // 1000, number // 100 % 10, number // 10 % 10, number % 10], 1) + ord("0")).astype(
        np.uint8
    )
    first = np.where(number[:, None] >= [1000, 100, 10, 1], inner, np.uint8(0))
    return np.concatenate([first, inner]).view(np.uint32).reshape(-1)


_DIGITS = _groups()
_ZERO = np.frombuffer(b"\0\0\x000", np.uint32)[0]
_THREE = np.array([b"%03d" % n for n in range(1000)])
_HEX = np.frombuffer(b"".join(b"%02x" % n for n in range(256)), np.uint16)


def integers(values: Array) -> Cells:
    """Return whole numbers in decimal, as short as they can be."""
    numbers = np.asarray(values)
    if numbers.dtype.kind == "u":
        return _digits_of_unsigned(numbers.astype(np.uint64, copy=False))
    signed = numbers.astype(np.int64, copy=False)
    if not len(signed) or int(signed.min()) >= 0:
        return _digits_of_unsigned(signed.view(np.uint64))
    negative = signed < 0
    size = signed.view(np.uint64).copy()
    size[negative] = np.uint64(0) - size[negative]  # also right for the smallest one
    digits = _digits_of_unsigned(size)
    out = np.zeros((len(signed), 1 + digits.itemsize), np.uint8)
    out[:, 0] = np.where(negative, np.uint8(ord("-")), np.uint8(0))
    out[:, 1:] = digits.view(np.uint8).reshape(len(signed), -1)
    return _cells(out)


def _digits_of_unsigned(values: Unsigned) -> Cells:
    most = int(values.max()) if len(values) else 0
    n_groups = max(1, -(-len(str(most)) // 4))
    out = np.empty((len(values), n_groups), np.uint32)
    rest: npt.NDArray[np.unsignedinteger] = values.astype(np.uint32) if most < 1 << 32 else values
    for group in range(n_groups - 1, -1, -1):
        above = rest // rest.dtype.type(GROUP)
        low = (rest - above * rest.dtype.type(GROUP)).astype(np.int64)
        low[above > 0] += GROUP
        out[:, group] = _DIGITS[low]
        rest = above
    out[values == 0, -1] = _ZERO
    return _cells(out)


def decimals(thousandths: Ints) -> tuple[Cells, bytes, Cells]:
    """Return numbers of thousandths as decimals, exactly: `12.034`. They must not be negative."""
    whole = thousandths // 1000
    return integers(whole), b".", _THREE[thousandths - whole * 1000]


def fractions(values: npt.NDArray[np.float64], strange: Callable[[float], bytes]) -> Cells:
    """Return numbers as short as they can be without loss: `3`, `0.1`; `strange` makes a text of what is not finite."""
    different, number = np.unique(values, return_inverse=True)
    texts = [_fraction(value) if np.isfinite(value) else strange(value) for value in different.tolist()]
    out: Cells = np.array(texts or [b""], np.bytes_)[number.reshape(-1)]
    return out


def _fraction(value: float) -> bytes:
    return b"%d" % int(value) if value.is_integer() and abs(value) < 2**53 else repr(value).encode()


def hexadecimals(values: Array) -> Cells:
    """Return all 16 digits."""
    data = np.asarray(values).astype(np.int64, copy=False).astype(">i8").view(np.uint8).reshape(len(values), 8)
    return _cells(_HEX[data])


def _cells(matrix: Array) -> Cells:
    """Return the rows of a matrix as cells."""
    whole = np.ascontiguousarray(matrix)
    width = whole.shape[1] * whole.itemsize
    return whole.view(f"S{width}").reshape(len(matrix)) if len(matrix) else np.empty(0, "S1")


def where(kept: Bools, cells: Cells | bytes, other: bytes = b"") -> Cells:
    """Return the cells, or another text where they do not apply."""
    return np.where(kept, cells, np.bytes_(other))


class Texts:
    """Texts known by numbers, encoded when they are first asked for; the list may grow. -1 is `absent`.

    Those of similar length lie in one table, so that a few long ones do not make room for themselves in every row.
    """

    def __init__(self, strings: Sequence[str], encoded: Callable[[str], bytes], absent: bytes = b"") -> None:
        self._strings, self._encoded, self._absent = strings, encoded, absent
        self._width = np.full(1, NOT_YET, np.int64)  # by number, the table it is in; the last one is for none
        self._place = np.zeros(1, np.int64)
        self._tables: dict[int, list[bytes]] = {}
        self._arrays: dict[int, tuple[Cells, int]] = {}

    def cells(self, numbers: npt.NDArray[np.integer]) -> Cells:
        """Return the text of every row."""
        self._encode(numbers)
        width: Ints = self._width[numbers]
        widths = np.unique(width).tolist()
        place = self._place[numbers]
        if len(widths) == 1:
            alike: Cells = self._array(widths[0])[place]
            return alike
        out = np.zeros(len(numbers), f"S{max(widths, default=1)}")
        for one in widths:
            rows = np.flatnonzero(width == one)
            out[rows] = self._array(one)[place[rows]]
        return out

    def widths(self, numbers: npt.NDArray[np.integer]) -> Ints:
        """Return how much room the text of every row takes."""
        self._encode(numbers)
        out: Ints = self._width[numbers]
        return out

    def _encode(self, numbers: npt.NDArray[np.integer]) -> None:
        if len(self._strings) + 1 > len(self._width):
            n = len(self._width) - 1
            more = np.full(len(self._strings) + 1, NOT_YET, np.int64)
            place = np.zeros(len(more), np.int64)
            more[:n], place[:n] = self._width[:-1], self._place[:-1]
            more[-1], place[-1] = self._width[-1], self._place[-1]
            self._width, self._place = more, place
        for number in np.unique(np.asarray(numbers)[self._width[numbers] == NOT_YET]).tolist():
            text = self._absent if number < 0 else self._encoded(self._strings[number])
            step = max(NARROWEST, (1 << len(text).bit_length()) // 8)  # no text takes much more room than it needs
            width = max(1, -(-len(text) // step)) * step
            table = self._tables.setdefault(width, [])
            self._width[number], self._place[number] = width, len(table)
            table.append(text)

    def _array(self, width: int) -> Cells:
        """Return the table of one width, with room for more, so that adding texts stays cheap."""
        texts = self._tables[width]
        room, n = self._arrays.get(width, (np.zeros(16, f"S{width}"), 0))
        if n < len(texts):
            if len(room) < len(texts):
                room = np.append(room[:n], np.zeros(2 * len(texts) - n, room.dtype))
            room[n : len(texts)] = texts[n:]
            self._arrays[width] = room, len(texts)
        return room


def only(n: int, rows: Ints, fields: Sequence[Cells | bytes]) -> Cells:
    """Return fields that only some of n rows have, as one: nothing is computed for the others."""
    layout = _layout(fields)
    packed = np.zeros(len(rows), layout)
    for name, field in zip(layout.names or (), fields, strict=True):
        packed[name] = field
    out = np.zeros((n, layout.itemsize), np.uint8)
    out[rows] = packed.view(np.uint8).reshape(len(rows), layout.itemsize)
    return _cells(out)


def _layout(fields: Sequence[Cells | bytes]) -> np.dtype[np.void]:
    kinds = [f"S{max(1, len(field) if isinstance(field, bytes) else field.itemsize)}" for field in fields]
    return np.dtype([(f"f{k}", kind) for k, kind in enumerate(kinds)])


def join_fields(n: int, fields: Sequence[Cells | bytes]) -> bytes:
    """Return the text of n rows: their fields one after the other."""
    if not n:
        return b""
    layout = _layout(fields)
    room = np.zeros(max(1, min(n, NEAR_BYTES // layout.itemsize)), layout)
    parts = []
    for first in range(0, n, len(room)):
        rows = room[: min(len(room), n - first)]
        for name, field in zip(layout.names or (), fields, strict=True):
            rows[name] = field if isinstance(field, bytes) else field[first : first + len(rows)]
        parts.append(rows.tobytes().translate(None, b"\0"))
    return b"".join(parts)


def blocks(widths: Ints, fixed: int, most: int = BLOCK_BYTES) -> Iterator[slice]:
    """Yield slices of rows that fit into a block; a row takes `fixed` bytes and the widest of its slice's `widths`."""

    def split(first: int, last: int) -> Iterator[slice]:
        n = last - first
        if n <= 1 or n * (fixed + int(widths[first:last].max())) <= most:
            if n:
                yield slice(first, last)
            return
        middle = (first + last) // 2
        yield from split(first, middle)
        yield from split(middle, last)

    return split(0, len(widths))
