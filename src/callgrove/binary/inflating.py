"""Compressed bytes from strangers: inflated up to a limit and never beyond.

`inflate` takes one zlib stream that must hold exactly the size announced. `gunzip` inflates a whole gzip file into an
unnamed temporary file, which vanishes with the process. Both use isal where it is installed (the extra `fast`).
"""

from __future__ import annotations

import importlib
import mmap
import tempfile
import zlib
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import IO, Any

from callgrove.binary.filebytes import FileBytes
from callgrove.errors import CorruptFile, RefusedInput

__all__ = ["INFLATER", "gunzip", "gunzip_bytes", "gunzip_head", "inflate"]


def _fastest() -> ModuleType:
    with suppress(ImportError):  # the same interface as zlib's
        return importlib.import_module("isal.isal_zlib")
    return zlib


engine = _fastest()
INFLATER: str = engine.__name__.rpartition(".")[2]
_BROKEN: tuple[type[Exception], ...] = (zlib.error, engine.error)
GZIP = 31  # zlib's word for: a gzip header, 32 KiB of window
PIECE = 1 << 20


def inflate(stream: Any, size: int) -> bytes | str:
    """The bytes of one zlib stream, or, in words, what is wrong with it. At most one byte more than `size` is made."""
    machine = engine.decompressobj()
    try:
        found: bytes = machine.decompress(stream, size + 1)
        if len(found) == size and not machine.eof:  # the checksum may still be ahead
            found += machine.decompress(machine.unconsumed_tail, 1)
    except _BROKEN as error:
        return f"a broken stream ({error})"
    if len(found) > size:
        return f"a stream of more than {size} bytes"
    if len(found) < size:
        return f"a stream of {len(found)} bytes"
    return found if machine.eof else "a stream that has no end"


def gunzip_head(head: bytes, most: int) -> bytes:
    """What the first bytes of a gzip file inflate to, at most so many; empty where they are none."""
    try:
        found: bytes = engine.decompressobj(GZIP).decompress(head, most)
    except _BROKEN:
        return b""
    return found


def gunzip_bytes(path: Path, section: str, data: bytes, most: int) -> bytes:
    """All bytes of a gzip file, at most so many. A file of several parts is inflated whole."""
    with tempfile.SpooledTemporaryFile(max_size=1 << 26) as out:
        _pour(path, section, data, out, most)
        out.seek(0)
        return out.read()


def gunzip(file: FileBytes, section: str, most: int) -> FileBytes:
    """A gzip file, inflated into an unnamed temporary file of at most so many bytes."""
    with tempfile.TemporaryFile() as out:
        _pour(file.path, section, memoryview(file.buffer), out, most)
        out.flush()
        if not out.tell():
            return FileBytes.over(file.path, b"")
        return FileBytes.over(file.path, mmap.mmap(out.fileno(), 0, access=mmap.ACCESS_READ))


def _pour(path: Path, section: str, data: Any, out: IO[bytes], most: int) -> None:
    at, done = 0, 0
    machine = engine.decompressobj(GZIP)
    while at < len(data) or machine.unconsumed_tail:
        piece = machine.unconsumed_tail or data[at : at + PIECE]
        at += 0 if machine.unconsumed_tail else len(piece)
        try:
            found = machine.decompress(piece, PIECE)
        except _BROKEN as error:
            raise CorruptFile(path, section, offset=at, expected="gzip data", found=str(error)) from None
        done += len(found)
        if done > most:
            raise RefusedInput(f"{path}: {section}: inflates to more than {most} bytes, which are not read")
        out.write(found)
        if machine.eof:
            rest = bytes(machine.unused_data)
            at -= len(rest)
            while at < len(data) and not data[at]:  # padding between parts and at the end
                at += 1
            if bytes(data[at : at + 2]) != b"\x1f\x8b":
                return  # what follows the last part is no gzip data: gzip ignores it too
            machine = engine.decompressobj(GZIP)
    if not machine.eof and done:
        found_ = f"an end after {done} inflated bytes"
        raise CorruptFile(path, section, offset=len(data), expected="the end of the gzip data", found=found_)
