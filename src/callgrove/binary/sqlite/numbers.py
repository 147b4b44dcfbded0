"""Numbers at many places of a file's bytes at once: words of 8 bytes, and numbers of variable length.

    varint    seven bits a byte, big-endian; the high bit says that there are more; the ninth byte counts in full

Specification: sqlite.org/fileformat2.html. Every place is checked before it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from callgrove.arrays import Array, Ints

if TYPE_CHECKING:
    from callgrove.binary.sqlite.records import Header

__all__ = ["Bytes", "PageError", "check", "varint"]

LAST_7 = np.uint8(0x7F)  # bits of a byte
WORD_BYTES = 8
MOST_OF_FIRST = 3  # bytes of the first of two numbers that are read at once: a record of two megabytes
# By how many bytes a number takes: the bits that say whether more bytes follow, and what they are then.
MARKS = [np.uint64(sum(0x80 << (56 - 8 * k) for k in range(n))) for n in range(WORD_BYTES + 1)]
MARKS_OF = [np.uint64(sum(0x80 << (56 - 8 * k) for k in range(n - 1))) for n in range(WORD_BYTES + 1)]


class PageError(Exception):
    """Raised for bytes that cannot be decoded here, whether SQLite can read them or not. `plan.decode` catches it."""


def check(is_sound: object, problem: str) -> None:
    """Go on decoding where bytes are as they should be."""
    if not is_sound:
        raise PageError(problem)


def varint(data: bytes | memoryview, at: int) -> tuple[int, int]:
    """Return an unsigned number of variable length, and where it ends."""
    value = 0
    try:
        for k in range(at, at + 8):
            byte = data[k]
            value = value << 7 | byte & 0x7F
            if byte < 0x80:
                return value, k + 1
        return value << 8 | data[at + 8], at + 9
    except IndexError:
        raise PageError("a number that leaves its place") from None


class Bytes:
    """Bytes that can be read as numbers of 8 bytes at any place. `known_headers` are those of records seen before, and
    `base` is where the first byte stands in the file."""

    def __init__(self, data: Array, known_headers: dict[bytes, Header], base: int = 0) -> None:
        check(len(data) >= 8, "fewer bytes than one number has")
        self.data, self.known_headers, self.base = data, known_headers, base
        self._last = len(data) - 8
        self._words = np.ndarray((len(data) - 7,), np.dtype("=u8"), data, 0, (1,))

    def __len__(self) -> int:
        return len(self.data)

    def words(self, at: Ints) -> Array:
        """Return the 8 bytes at each place as one big-endian number; zeros follow the end of all bytes."""
        if _furthest(at) > self._last:
            return self._words_at_the_end(at)
        return self._words[at].byteswap(inplace=True)

    def _words_at_the_end(self, at: Ints) -> Array:
        self._check_inside(at)
        near = np.minimum(at, self._last)
        return self._words[near].byteswap(inplace=True) << (8 * (at - near)).astype(np.uint64)

    def bytes(self, at: Ints) -> Array:
        """Return the byte at each place, which is much faster than 8 of them. Past the end the last byte is repeated:
        readers find out there that they have left their page."""
        if _furthest(at) >= len(self.data):
            at = np.minimum(at, len(self.data) - 1)
        return self.data.take(at)

    def varints(self, at: Ints) -> tuple[Ints, Ints]:
        """Return the numbers of variable length at these places, as signed ones, and how many bytes each takes."""
        self._check_inside(at)
        byte = self.data.take(at)
        if not (byte > LAST_7).any():
            return byte.astype(np.int64), np.ones(len(at), np.int64)
        value, length = _leading_varints(self.words(at))
        lengths = np.broadcast_to(length, len(at))
        nine = np.flatnonzero(lengths == 9)
        if len(nine):  # eight bytes say that there are more: the ninth counts in full
            value[nine] = (value[nine] << 8) | self.bytes(at[nine] + 8)
        return value, lengths

    def varint_pairs(self, at: Ints) -> tuple[Ints, Ints, Ints]:
        """Return the two numbers of variable length at each of these places, as signed ones, and where the second
        ends."""
        self._check_inside(at)
        words = self.words(at)
        first, length = _leading_varints(words)
        if int(np.max(length, initial=1)) > MOST_OF_FIRST:
            first, lengths = self.varints(at)
            second, more = self.varints(at + lengths)
            return first, second, at + lengths + more
        second, n_more = _leading_varints(words << np.asarray(8 * length, np.uint64))
        if int(np.max(length + n_more, initial=1)) > WORD_BYTES:  # more than the eight bytes that were read
            second, n_more = self.varints(at + length)
        return first, second, at + (length + n_more)

    def blocks(self, at: Ints, n_words: int) -> Array:
        """Return `n_words` times 8 bytes at each place, as rows of numbers in the machine's own order; zeros follow the
        end."""
        width = 8 * n_words
        last = len(self.data) - width
        kind = np.dtype((np.void, width))  # one item is copied at once, whatever its size
        self._check_inside(at)
        if last < 0 or _furthest(at) > last:
            padded = np.zeros((len(at), width), np.uint8)
            inside = at <= last
            padded[inside] = self.blocks(at[inside], n_words).view(np.uint8) if inside.any() else 0
            tail = np.append(self.data[max(last, 0) :], np.zeros(width, np.uint8))
            for k in np.flatnonzero(~inside).tolist():
                begin = int(at[k]) - max(last, 0)
                padded[k] = tail[begin : begin + width]
            return padded.view(np.uint64)
        items = np.ndarray((last + 1,), kind, self.data, 0, (1,))[at]
        return items.view(np.uint64).reshape(len(at), n_words)

    def u32(self, at: Ints) -> Ints:
        return (self.words(at) >> np.uint64(32)).astype(np.int64)

    def _check_inside(self, at: Ints) -> None:
        check(_furthest(at) < len(self.data), "a place outside of the file")


def _furthest(at: Ints) -> int:
    """Return the largest of some places. A negative one counts as further than all others, so that one look finds
    whatever is outside."""
    return int(at.view(np.uint64).max(initial=0))


def _leading_varints(words: Array) -> tuple[Ints, Ints | int]:
    """Return the number of variable length that each word of 8 bytes begins with, and how many bytes it takes: one
    number of bytes where it is that of all. Of those that take 9, the last byte is left out."""
    n = _n_bytes_of(int(words[0])) if len(words) else 9
    if n < 9 and ((words & MARKS[n]) == MARKS_OF[n]).all():
        return _without_marks(words >> np.uint64(64 - 8 * n), n), n
    byte = (words >> np.uint64(56)).astype(np.uint8)
    more = byte > LAST_7
    value, length = (byte & LAST_7).astype(np.int64), np.ones(len(words), np.uint8)
    for k in range(1, 8):
        byte = (words >> np.uint64(56 - 8 * k)).astype(np.uint8)
        value <<= 7
        value |= byte & LAST_7
        length += more
        more &= byte > LAST_7
        if not more.any():
            break
    n_read = int(length.max(initial=1))
    lengths = length.astype(np.int64)
    if (lengths != n_read).any():
        value >>= 7 * (n_read - lengths)  # bytes that are of what follows
    lengths[more] = 9
    return value, lengths


def _n_bytes_of(word: int) -> int:
    """Return how many bytes the number of variable length takes that a word of 8 bytes begins with."""
    return next((n for n in range(1, 9) if not word >> (64 - 8 * n) & 0x80), 9)


def _without_marks(value: Array, n: int) -> Ints:
    """Return the numbers that are in the low 7 bits of each of `n` bytes."""
    out = value & LAST_7
    for k in range(1, n):
        out |= (value >> np.uint64(k)) & np.uint64(0x7F << (7 * k))
    numbers: Ints = out.view(np.int64)
    return numbers
