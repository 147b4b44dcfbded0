"""Protocol buffers, read: the fields of many messages at once, without classes and without a schema.

    read_fields(data, start, end)     every field of the messages at [start, end): number, type, value, place

All messages are read in step: the first field of each, then the second, and so on. When few messages have fields left,
these are read one by one, so that a message of a million fields costs no more than its bytes. A message that does not
parse (a field that reaches beyond its end, a type that does not exist) is named and gives no fields.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from callgrove.arrays import Array, Bools, Ints

__all__ = [
    "FIXED32",
    "FIXED64",
    "LENGTH",
    "PADDING",
    "VARINT",
    "Fields",
    "NotProtobuf",
    "Words",
    "read_fields",
    "read_varint",
    "scalar_fields",
    "skip_field",
]

VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5  # types on the wire
PADDING = 16  # bytes after the data, so that every number can be read as two words
MANY = 24  # messages for which a step with arrays is worth while

Words = npt.NDArray[np.uint64]


class NotProtobuf(ValueError):
    """Bytes that are not a message."""


@dataclass(frozen=True)
class Fields:
    """Fields of some messages; those of one message are in order. `value` is a number of 64 bits without a sign, or the
    length of what begins at `start`."""

    message: Ints
    number: Ints
    type: npt.NDArray[np.uint8]
    value: Words
    start: Ints
    n_messages: int
    broken: Bools  # by message

    def rows(self, number: int, *types: int) -> Ints:
        """Return the rows of one field that have one of these types."""
        rows = np.flatnonzero(self.number == number)
        return rows[np.isin(self.type[rows], types)] if types else rows

    def has(self, number: int) -> Bools:
        """Return, by message, whether it has a field."""
        out = np.zeros(self.n_messages, np.bool_)
        out[self.message[self.number == number]] = True
        return out

    def numbers(self, number: int, absent: int = 0, type_: int = VARINT) -> Words:
        """Return, by message, the last value of a field, or `absent`."""
        out = np.full(self.n_messages, absent, np.uint64)
        rows = np.flatnonzero((self.number == number) & (self.type == type_))
        out[self.message[rows]] = self.value[rows]
        return out

    def contents(self, number: int) -> tuple[Ints, Ints, Ints]:
        """Return the messages that have a field of bytes, and where it starts and ends, in the order of messages."""
        rows = self.rows(number, LENGTH)
        rows = rows[np.argsort(self.message[rows], kind="stable")]
        start = self.start[rows]
        return self.message[rows], start, start + self.value[rows].astype(np.int64)

    def repeated(self, number: int, data: Array, type_: int = VARINT) -> tuple[Ints, Words]:
        """Return the messages and the values of a repeated number, in order; packed ones too."""
        rows = self.rows(number, type_)
        message, value = self.message[rows], self.value[rows]
        owner, start, end = self.contents(number)
        if len(owner):
            parts = [
                _unpack(data, first, last, type_) for first, last in zip(start.tolist(), end.tolist(), strict=True)
            ]
            message = np.append(message, np.repeat(owner, [len(part) for part in parts]))
            value = np.concatenate([value, *parts])
        order = np.argsort(message, kind="stable")
        return message[order], value[order]


def read_fields(data: Array, start: Ints, end: Ints) -> Fields:
    """Return the fields of the messages at [start, end) of some bytes, which `PADDING` bytes follow."""
    words = np.ndarray((len(data) - 8,), "<u8", data, strides=(1,))
    broken = np.zeros(len(start), np.bool_)
    active = np.flatnonzero(start < end)
    position, limit = start[active].astype(np.int64), end[active].astype(np.int64)
    steps: list[tuple[Array, ...]] = []
    while len(active) >= MANY:
        tag, place = _varints(words, position)
        value, after = _varints(words, place)
        type_ = (tag & np.uint64(7)).astype(np.uint8)
        is_bytes = type_ == LENGTH
        if (wide := np.flatnonzero(type_ == FIXED64)).size:
            value[wide], after[wide] = words[place[wide]], place[wide] + 8
        if (short := np.flatnonzero(type_ == FIXED32)).size:
            value[short], after[short] = words[place[short]] & np.uint64(0xFFFFFFFF), place[short] + 4
        start_of = np.where(is_bytes, after, place)
        room = limit - after
        bad = (room < 0) | (is_bytes & (value > np.maximum(room, 0).astype(np.uint64)))
        bad |= ~is_bytes & (type_ != VARINT) & (type_ != FIXED64) & (type_ != FIXED32)
        bad |= (tag < 8) | (tag >= 1 << 32)
        steps.append((active, (tag >> np.uint64(3)).astype(np.int64), type_, value, start_of))
        after[is_bytes] += value[is_bytes].astype(np.int64)
        broken[active[bad]] = True
        goes_on = ~bad & (after < limit)
        active, position, limit = active[goes_on], after[goes_on], limit[goes_on]
    if len(active):
        steps.append(_read_rest(data, active, position, limit, broken))
    return _join(steps, broken)


def _varints(words: Words, position: Ints) -> tuple[Words, Ints]:
    """Return the numbers at some places, and where they end: seven bits of every byte up to the first one whose high
    bit is not set."""
    word = words[position]
    ends = ~word & np.uint64(0x8080808080808080)
    kept = ends ^ (ends - np.uint64(1))  # all bits up to the one that ends the number; of none, all
    length = np.frexp(kept.astype(np.float64))[1].astype(np.int64) >> 3  # 2 ** (8 k) - 1, which may round up
    x = word & kept & np.uint64(0x7F7F7F7F7F7F7F7F)
    x = (x & np.uint64(0x007F007F007F007F)) | ((x & np.uint64(0x7F007F007F007F00)) >> np.uint64(1))
    x = (x & np.uint64(0x00003FFF00003FFF)) | ((x & np.uint64(0x3FFF00003FFF0000)) >> np.uint64(2))
    x = (x & np.uint64(0x000000000FFFFFFF)) | ((x & np.uint64(0x0FFFFFFF00000000)) >> np.uint64(4))
    longer = np.flatnonzero(ends == 0)
    if len(longer):
        more = words[position[longer] + 8]
        ninth, tenth = more & np.uint64(0xFF), (more >> np.uint64(8)) & np.uint64(0xFF)
        goes_on = ninth >= 0x80
        x[longer] |= (ninth & np.uint64(0x7F)) << np.uint64(56)
        x[longer] |= np.where(goes_on, (tenth & np.uint64(1)) << np.uint64(63), np.uint64(0))
        length[longer] = np.where(goes_on, 10, 9)
    return x, position + length


def _read_rest(data: Array, active: Ints, position: Ints, limit: Ints, broken: Bools) -> tuple[Array, ...]:
    """Read the fields of few messages one by one."""
    rows: list[tuple[int, int, int, int, int]] = []
    for message, start, end in zip(active.tolist(), position.tolist(), limit.tolist(), strict=True):
        content = data[start:end].tobytes()
        try:
            rows += [(message, *field[:3], start + field[3]) for field in scalar_fields(content)]
        except NotProtobuf:  # what was read of it is dropped with it
            broken[message] = True
    columns = list(zip(*rows, strict=True)) or [()] * 5
    dtypes = (np.int64, np.int64, np.uint8, np.uint64, np.int64)
    return tuple(np.array(column, dtype) for column, dtype in zip(columns, dtypes, strict=True))


def _join(steps: Sequence[tuple[Array, ...]], broken: Bools) -> Fields:
    dtypes = (np.int64, np.int64, np.uint8, np.uint64, np.int64)
    if not steps:
        columns: list[Array] = [np.empty(0, dtype) for dtype in dtypes]
    else:
        columns = [np.concatenate(column) for column in zip(*steps, strict=True)]
    if broken.any():
        whole = ~broken[columns[0]]
        columns = [column[whole] for column in columns]
    message, number, type_, value, start = columns
    return Fields(message, number, type_, value, start, len(broken), broken)


def _unpack(data: Array, start: int, end: int, type_: int) -> Words:
    """Return the numbers of a packed field, those that are whole."""
    content = data[start:end].tobytes()
    if type_ == FIXED64:
        return np.frombuffer(content[: len(content) // 8 * 8], "<u8").astype(np.uint64)
    out, position = [], 0
    while position < len(content):
        try:
            value, position = read_varint(content, position)
        except (NotProtobuf, IndexError):
            break
        out.append(value)
    return np.array(out, np.uint64)


# -- one message -------------------------------------------------------------------------------------------------------


def scalar_fields(content: bytes) -> Iterator[tuple[int, int, int, int]]:
    """Yield number, type, value and start of every field of one message; of bytes, the value is their length."""
    position = 0
    while position < len(content):
        try:
            number, type_, value, start, after = _read_field(content, position)
        except IndexError:
            raise NotProtobuf("a number without its end") from None
        if after > len(content):
            raise NotProtobuf("a field beyond the end of its message")
        yield number, type_, value, start
        position = after


def skip_field(content: bytes, position: int) -> int:
    """Return where a field ends; raise IndexError where the bytes end before."""
    after = _read_field(content, position)[-1]
    if after > len(content):
        raise IndexError
    return after


def _read_field(content: bytes, position: int) -> tuple[int, int, int, int, int]:
    """Return number, type, value, start and end of the field at a place; it may end beyond the bytes."""
    tag, place = read_varint(content, position)
    number, type_ = tag >> 3, tag & 7
    if not 0 < number < 1 << 29:
        raise NotProtobuf(f"a field with the number {number}")
    if type_ == VARINT:
        value, after = read_varint(content, place)
        return number, type_, value, place, after
    if type_ == LENGTH:
        length, start = read_varint(content, place)
        return number, type_, length, start, start + length
    if type_ not in (FIXED64, FIXED32):
        raise NotProtobuf(f"a field of type {type_}")
    after = place + (8 if type_ == FIXED64 else 4)
    return number, type_, int.from_bytes(content[place:after], "little"), place, after


def read_varint(content: bytes, position: int) -> tuple[int, int]:
    """Return a number and where it ends; raise IndexError where the bytes end before."""
    value = 0
    for k in range(10):
        byte = content[position + k]
        value |= (byte & 0x7F) << 7 * k
        if byte < 0x80:
            return value & (2**64 - 1), position + k + 1
    raise NotProtobuf("a number of more than ten bytes")
