"""MessagePack, read: one value of a file as lists, texts and numbers.

    0x00-0x7f  a number          0x90-0x9f, dc, dd   an array           0xca, cb   a floating-point number
    0xe0-0xff  a negative one    0x80-0x8f, de, df   a map              0xcc-0xcf  an unsigned number
    0xc0, c2, c3  nil, false, true                   0xc4-c6  bytes     0xd0-0xd3  a signed number
    0xa0-0xbf, d9-db  a text                         0xc7-c9, d4-d8     extension types, refused

Specification: that of MessagePack. Numbers are big-endian. A count is compared with the bytes that are left, as every
element takes one at least; nesting is followed without recursion, down to a limit.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

from callgrove.binary.files import FileBytes
from callgrove.errors import CorruptFile

__all__ = ["read_value"]

SECTION = "MessagePack"
DEEPEST = 20_000  # arrays inside of each other
NUMBERS = {
    code: struct.Struct(f">{kind}")
    for code, kind in zip((0xCA, 0xCB, *range(0xCC, 0xD0), *range(0xD0, 0xD4)), "fdBHIQbhiq", strict=True)
}
CONSTANTS: dict[int, object] = {0xC0: None, 0xC2: False, 0xC3: True}
TEXTS = {0xD9: 1, 0xDA: 2, 0xDB: 4}  # code: bytes of the length
BINARY = {0xC4: 1, 0xC5: 2, 0xC6: 4}
ARRAYS, MAPS = {0xDC: 2, 0xDD: 4}, {0xDE: 2, 0xDF: 4}


def read_value(path: Path) -> tuple[Any, int]:
    """Return the first value of a file, and where it ends. A map is a list of keys and values by turns."""
    reader = _Reader(FileBytes(path))
    open_lists: list[tuple[list[Any], int]] = []  # lists that lack elements, and how many elements they have in all
    while True:
        value, count = reader.read_one()
        if count > 0:
            if len(open_lists) >= DEEPEST:
                raise reader.bad(f"at most {DEEPEST:,} arrays inside of each other", "more")
            open_lists.append((value, count))
            continue
        while open_lists:
            elements, count = open_lists[-1]
            elements.append(value)
            if len(elements) < count:
                break
            value = open_lists.pop()[0]
        else:
            return value, reader.at


class _Reader:
    """Reads one value after the other."""

    def __init__(self, file: FileBytes) -> None:
        self._file, self.at = file, 0

    def bad(self, expected: str, actual: str) -> CorruptFile:
        return CorruptFile(self._file.path, SECTION, offset=self.at, expected=expected, found=actual)

    def read_one(self) -> tuple[Any, int]:
        """Return the next value, and how many elements of it follow."""
        code = self._take(1)[0]
        if code < 0x80 or code >= 0xE0:
            return code if code < 0x80 else code - 256, 0
        if code < 0x90:
            return [], self._check_count(2 * (code & 15))
        if code < 0xA0:
            return [], self._check_count(code & 15)
        if code < 0xC0:
            return self._text(code & 31), 0
        if code in CONSTANTS:
            return CONSTANTS[code], 0
        if code in NUMBERS:
            return NUMBERS[code].unpack(self._take(NUMBERS[code].size))[0], 0
        if code in TEXTS:
            return self._text(self._length(TEXTS[code])), 0
        if code in BINARY:
            return self._take(self._length(BINARY[code])), 0
        if code in ARRAYS:
            return [], self._check_count(self._length(ARRAYS[code]))
        if code in MAPS:
            return [], self._check_count(2 * self._length(MAPS[code]))
        raise self.bad("a number, a text, an array or a map", f"the type 0x{code:02x}")

    def _take(self, size: int) -> bytes:
        piece = self._file.copy(self.at, size, SECTION)
        self.at += size
        return piece

    def _length(self, size: int) -> int:
        return int.from_bytes(self._take(size), "big")

    def _text(self, size: int) -> str:
        return self._take(size).decode("utf-8", "backslashreplace")

    def _check_count(self, count: int) -> int:
        if count > self._file.size - self.at:
            raise self.bad(f"{count} elements", f"{self._file.size - self.at} bytes")
        return count
