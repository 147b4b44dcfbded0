"""A tar archive as CubeLib wants it: plain ustar, and no member whose size is a multiple of 512.

CubeLib expects one more block of zeros after such a member, and everything else stops there. What we make is filled
up by one byte instead; attachments are kept to the byte, with CubeLib's block where they have such a size.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import BinaryIO

from callgrove.binary.tar import BLOCK
from callgrove.errors import CallgroveError

__all__ = ["TarWriter"]

LARGEST = (1 << 33) - 1  # bytes of a member; more needs extensions that CubeLib was never seen to read
MAGIC, MODE = b"ustar\x0000", b"0000600\0"


class TarWriter:
    """Members one after the other; the size of each is written when it is known."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def add(self, name: str, pieces: Iterable[bytes], filling: bytes = b"\0", extra_block: bool = False) -> None:
        """A member. One byte of `filling` is added where its size would be a multiple of 512, or, if it must stay as
        it is, the block that CubeLib expects."""
        header = self._file.tell()
        self._file.write(bytes(BLOCK))
        size = sum(self._file.write(piece) for piece in pieces)
        if size % BLOCK == 0 and not extra_block and size:
            size += self._file.write(filling)
        if size > LARGEST:
            raise CallgroveError(f"{name}: {size} bytes are more than a member of a Cube archive holds ({LARGEST})")
        self._file.write(bytes(-size % BLOCK + (BLOCK if extra_block and size % BLOCK == 0 and size else 0)))
        end = self._file.tell()
        self._file.seek(header)
        self._file.write(_header(name, size))
        self._file.seek(end)

    def finish(self) -> None:
        self._file.write(bytes(2 * BLOCK))


def _header(name: str, size: int) -> bytes:
    encoded = name.encode("utf-8", "surrogateescape")
    if len(encoded) > 100:
        raise CallgroveError(f"{name}: the name of the attachment is longer than 100 bytes")
    out = bytearray(BLOCK)
    for at, text in (
        (0, encoded),
        (100, MODE),
        (108, b"0000000\0"),
        (116, b"0000000\0"),
        (124, b"%011o\0" % size),
        (136, b"00000000000\0"),
        (148, b" " * 8),
        (156, b"0"),
        (257, MAGIC),
    ):
        out[at : at + len(text)] = text
    out[148:156] = b"%06o\0 " % sum(out)
    return bytes(out)
