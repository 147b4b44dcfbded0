"""A place in a file that moves on with every read; every size is checked before anything is taken.

With `seen`, everything that is read is also noted with its place, which is how `dump` lists fields.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from callgrove.binary.filebytes import FileBytes
from callgrove.errors import CorruptFile
from callgrove.model.arrays import Array

__all__ = ["Cursor", "Seen", "remembered", "text_bytes"]

FORMATS = {"u1": struct.Struct(">B"), "u2": struct.Struct(">H"), "u4": struct.Struct(">I"), "u8": struct.Struct(">Q")}
TEXT_START = 4  # bytes of a string's length
LONGEST_TEXT = 16 << 20  # bytes
Result = TypeVar("Result")
MOST_REMEMBERED, LARGEST_REMEMBERED = 16, 1 << 18  # sections, and bytes of one
_remembered: dict[tuple[Callable[..., Any], bytes], Any] = {}


@dataclass(frozen=True)
class Seen:
    """Something that was read: a number, a text or a table of records."""

    section: str
    index: int
    offset: int
    name: str
    value: int | str | Array


class Cursor:
    """Reads one section of a file, which ends at byte `end` (the end of the file unless given)."""

    def __init__(
        self, file: FileBytes, section: str, at: int = 0, end: int | None = None, seen: list[Seen] | None = None
    ) -> None:
        self.file, self.section, self.at = file, section, at
        self.end = file.size if end is None else end
        self.index = -1  # of the record that is being read, for `seen`
        self.seen = seen

    def fail(self, expected: str, found: str, offset: int | None = None, remedy: str = "") -> CorruptFile:
        """The error for what stands here, or at `offset`."""
        where = self.at if offset is None else offset
        return CorruptFile(self.file.path, self.section, offset=where, expected=expected, found=found, remedy=remedy)

    def need(self, size: int, what: str) -> int:
        """Move on by `size` bytes; gives where they begin."""
        at = self.at
        if size > self.end - at:
            left = max(0, self.end - at)
            raise self.fail(f"{what} of {size} bytes", f"{left} bytes before the end", remedy="truncated or damaged")
        self.at = at + size
        return at

    def number(self, kind: str, name: str) -> int:
        """An unsigned number: `u1`, `u2`, `u4` or `u8`."""
        form = FORMATS[kind]
        at = self.need(form.size, name)
        value: int = form.unpack_from(self.file.buffer, at)[0]
        if self.seen is not None:
            self.seen.append(Seen(self.section, self.index, at, name, value))
        return value

    def count(self, kind: str, name: str, smallest: int) -> int:
        """How many things follow, of at least `smallest` bytes each: not more than there is room for."""
        at = self.at
        n = self.number(kind, name)
        if n * smallest > self.end - self.at:
            room = f"{self.end - self.at} bytes before the end"
            raise self.fail(f"room for {n} times {smallest} bytes ({name})", room, at, "truncated or damaged")
        return n

    def text(self, name: str) -> str:
        """A string. Bytes that are no UTF-8 are kept as lone surrogates, so that the same bytes can be written."""
        at = self.at
        if self.seen is None and at + TEXT_START <= self.end:  # the usual case at once: files have many strings
            last = at + TEXT_START + FORMATS["u4"].unpack_from(self.file.buffer, at)[0]
            if last <= min(self.end, at + LONGEST_TEXT):
                self.at = last
                return bytes(self.file.buffer[at + TEXT_START : last]).decode("utf-8", "surrogateescape")
        n = self.count("u4", f"{name} size", 1)
        if n > LONGEST_TEXT:
            raise self.fail(f"{name} of at most {LONGEST_TEXT} bytes", f"a size of {n}", at, "truncated or damaged")
        start = self.need(n, name)
        value = bytes(self.file.buffer[start : start + n]).decode("utf-8", "surrogateescape")
        if self.seen is not None:
            self.seen[-1] = Seen(self.section, self.index, at, name, value)
        return value

    def texts(self, count: int) -> list[str] | None:
        """The next strings at once; None, and nothing is taken, where they are to be noted or are not all there."""
        if self.seen is not None:
            return None
        buffer, at, end, size_of = self.file.buffer, self.at, self.end, FORMATS["u4"].unpack_from
        found: list[str] = []
        for _ in range(count):
            start = at + TEXT_START
            if start > end:
                return None
            at = start + size_of(buffer, at)[0]
            if at > end or at - start > LONGEST_TEXT:
                return None
            found.append(buffer[start:at].decode("utf-8", "surrogateescape"))
        self.at = at
        return found

    def tag(self, expected: bytes, name: str) -> None:
        """Bytes that must stand here."""
        at = self.need(len(expected), name)
        found = bytes(self.file.buffer[at : at + len(expected)])
        if found != expected:
            raise self.fail(repr(expected)[1:], repr(found)[1:], at)
        if self.seen is not None:
            self.seen.append(Seen(self.section, self.index, at, name, expected.decode("ascii")))

    def record(self, dtype: np.dtype[Any]) -> np.void:
        """One record."""
        found: np.void = self.table(dtype, 1)[0]
        return found

    def table(self, dtype: np.dtype[Any], count: int, name: str = "records") -> Array:
        """`count` records as they lie in the file."""
        at = self.need(count * dtype.itemsize, name)
        found = self.file.array(dtype, count, at, self.section)
        if self.seen is not None:
            self.seen.append(Seen(self.section, self.index, at, name, found))
        return found

    def finish(self) -> None:
        """The section must end here."""
        if self.at != self.end:
            raise self.fail(f"the end of the section at byte {self.end}", f"{self.end - self.at} more bytes")


def remembered(read: Callable[[Cursor], Result], cursor: Cursor) -> Result:
    """What `read` makes of a whole section. Thousands of files of one run have equal tables, which are read once."""
    size = cursor.end - cursor.at
    if cursor.seen is not None or size > LARGEST_REMEMBERED:
        return read(cursor)
    key = read, cursor.file.copy(cursor.at, size, cursor.section)
    if key not in _remembered:
        found = read(cursor)
        if cursor.at != cursor.end:
            return found
        if len(_remembered) >= MOST_REMEMBERED:
            _remembered.clear()
        _remembered[key] = found
    cursor.at = cursor.end
    result: Result = _remembered[key]
    return result


def text_bytes(text: str) -> bytes:
    """A string as it is written."""
    data = text.encode("utf-8", "surrogateescape")
    return len(data).to_bytes(TEXT_START, "big") + data
