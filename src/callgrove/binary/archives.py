"""Members of tar archives, found by their headers, and compressed bytes, inflated up to a limit. Nothing is extracted.

    header (512 bytes) | bytes of the member, filled up to 512 | header | ... | blocks of zeros

    0     name          100 bytes
    124   size           12 bytes, octal
    148   checksum        8 bytes, octal: the sum of the header with blanks in this place
    156   type            1 byte
    257   magic           5 bytes, `ustar`
    345   prefix        155 bytes, before the name

Blocks of zeros are skipped wherever they stand: some writers put one after a member whose size is a multiple of 512.
A megabyte of them is the end.
A wrong checksum is told, and forgiven where the magic and the size are sound; CubeW counts one blank too few.
"""

from __future__ import annotations

import importlib
import mmap
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import IO, Any

import numpy as np

from callgrove.binary.files import FileBytes
from callgrove.errors import CorruptFile, RefusedInput

__all__ = [
    "BLOCK",
    "HEADER",
    "INFLATER",
    "Archive",
    "Member",
    "gunzip",
    "gunzip_bytes",
    "gunzip_head",
    "headers",
    "inflate",
    "is_archive",
]


BLOCK = 512
HEADER = np.dtype(
    [
        ("name", "S100"),
        ("mode", "S8"),
        ("uid", "S8"),
        ("gid", "S8"),
        ("size", "S12"),
        ("mtime", "S12"),
        ("checksum", "S8"),
        ("type", "S1"),
        ("linkname", "S100"),
        ("magic", "S6"),
        ("version", "S2"),
        ("uname", "S32"),
        ("gname", "S32"),
        ("devmajor", "S8"),
        ("devminor", "S8"),
        ("prefix", "S155"),
        ("rest", "V12"),
    ]
)
MAGIC = b"ustar"
PLAIN, LONG_NAME, PAX, PAX_ALL = (b"0", b"", b"7"), b"L", b"x", b"g"
ZEROS = bytes(BLOCK)
MOST_ZEROS = 1 << 20  # bytes
MOST_TEXT = 1 << 20  # bytes of a long name or of extended headers
BLANK_CHECKSUM = slice(148, 156)


@dataclass(frozen=True)
class Member:
    """Where a member lies. `missing` bytes of it lie beyond the end of the file."""

    name: str
    header: int
    offset: int
    size: int
    missing: int = 0


@dataclass
class Archive:
    """The members of one archive by name; of several with one name the last counts. `notes` are harmless, `damage` is
    what made the walk stop or a member incomplete."""

    file: FileBytes
    members: dict[str, Member] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    damage: list[CorruptFile] = field(default_factory=list)

    @classmethod
    def of(cls, file: FileBytes) -> Archive:
        archive = cls(file)
        try:
            for member in headers(file, archive.notes):
                if member.name in archive.members:
                    archive.notes.append(f"{file.path}: {member.name} is there twice; the last one counts")
                archive.members[member.name] = member
                if member.missing:
                    found = f"{member.size - member.missing}, where the file ends"
                    archive.damage.append(
                        CorruptFile(
                            file.path, member.name, offset=member.offset, expected=f"{member.size} bytes", found=found
                        )
                    )
        except CorruptFile as error:
            archive.damage.append(error)
        return archive

    def bytes_of(self, member: Member) -> bytes:
        """Return a copy of what is there of a member."""
        return self.file.copy(member.offset, member.size - member.missing, member.name)


def is_archive(block: bytes) -> bool:
    """Return whether this looks like the header of a member."""
    return len(block) >= 262 and block[257:262] == MAGIC


def headers(file: FileBytes, notes: list[str], most: int | None = None) -> Iterator[Member]:
    """Yield every member in the file's order, `most` blocks at most; headers only are looked at."""
    at, name, size, n_zeros = 0, "", None, 0
    for _ in islice(iter(int, 1), most):
        if at + BLOCK > file.size:
            break
        block = file.copy(at, BLOCK, "tar header")
        if block == ZEROS:
            at, n_zeros = at + BLOCK, n_zeros + BLOCK
            if n_zeros < MOST_ZEROS:
                continue
            if at < file.size:
                notes.append(f"{file.path}: tar header at byte {at - n_zeros}: the archive ends here; zeros follow")
            break
        n_zeros = 0
        header, kind = _check_header(file.path, at, block, notes), block[156:157].strip(b"\0")
        length = (
            size
            if size is not None and kind not in (LONG_NAME, PAX, PAX_ALL)
            else _octal(file.path, at, header["size"])
        )
        start = at + BLOCK
        if kind == LONG_NAME:
            name = _text(file, start, length).rstrip("\0")
        elif kind == PAX:
            name, size = _apply_extension(_text(file, start, length), name, size)
        elif kind in PLAIN:
            missing = max(0, start + length - file.size)
            yield Member(name or _name(header), at, start, length, missing)
        if kind not in (LONG_NAME, PAX, PAX_ALL):
            name, size = "", None
        at = start + (length + BLOCK - 1) // BLOCK * BLOCK


def _check_header(path: Path, at: int, block: bytes, notes: list[str]) -> np.void:
    header: np.void = np.frombuffer(block, HEADER)[0]
    if not is_archive(block):
        found = repr(block[257:262])
        raise CorruptFile(
            path, "tar header", offset=at, expected="the magic ustar", found=found, remedy="the archive is damaged here"
        )
    plain = bytearray(block)
    plain[BLANK_CHECKSUM] = b" " * 8
    total = sum(plain)
    signed = sum(byte - 256 if byte > 127 else byte for byte in plain)
    try:
        stored = int(bytes(header["checksum"]).strip(b" \0") or b"0", 8)
    except ValueError:
        stored = -1
    if stored not in (total, total - 32, signed):
        notes.append(f"{path}: tar header at byte {at}: the checksum is wrong")
    return header


def _octal(path: Path, at: int, field_: bytes) -> int:
    text = bytes(field_).strip(b" \0")
    try:
        if text.startswith((b"-", b"+")) or b"_" in text:
            raise ValueError
        return int(text or b"0", 8)
    except ValueError:
        found = repr(bytes(field_))
        raise CorruptFile(path, "tar header", offset=at + 124, expected="an octal size", found=found) from None


def _name(header: np.void) -> str:
    parts = [bytes(header[part]).decode("utf-8", "backslashreplace") for part in ("prefix", "name")]
    if bytes(header["magic"]) != MAGIC:  # GNU's header, `ustar  `, has other things in the prefix's place
        parts = parts[1:]
    return "/".join(part for part in parts if part).removeprefix("./")


def _text(file: FileBytes, start: int, length: int) -> str:
    if length > MOST_TEXT:
        wanted = f"at most {MOST_TEXT} bytes"
        raise CorruptFile(
            file.path, "tar header", offset=start, expected=wanted, found=f"an extended header of {length}"
        )
    return file.copy(start, length, "tar header").decode("utf-8", "backslashreplace")


def _apply_extension(text: str, name: str, size: int | None) -> tuple[str, int | None]:
    """Return what a PAX header says of the member that follows: lines `LENGTH KEY=VALUE`."""
    for line in text.split("\n"):
        key, equals, value = line.partition(" ")[2].partition("=")
        if equals and key == "path":
            name = value.removeprefix("./")
        elif equals and key == "size" and value.isascii() and value.isdigit() and len(value) < 20:
            size = int(value)
    return name, size


# -- compressed bytes --------------------------------------------------------------------------------------------------
# They are inflated up to a limit and never beyond.
#
# `inflate` takes one zlib stream that must hold exactly the size announced. `gunzip` inflates a whole gzip file into an
# unnamed temporary file, which vanishes with the process. Both use isal where it is installed (the extra `fast`).


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
    """Return the bytes of one zlib stream, or, in words, what is wrong with it. At most one byte more than `size` is
    made."""
    machine = engine.decompressobj()
    try:
        content: bytes = machine.decompress(stream, size + 1)
        if len(content) == size and not machine.eof:  # the checksum may still be ahead
            content += machine.decompress(machine.unconsumed_tail, 1)
    except _BROKEN as error:
        return f"a broken stream ({error})"
    if len(content) > size:
        return f"a stream of more than {size} bytes"
    if len(content) < size:
        return f"a stream of {len(content)} bytes"
    return content if machine.eof else "a stream that has no end"


def gunzip_head(head: bytes, most: int) -> bytes:
    """Return what the first bytes of a gzip file inflate to, at most so many; empty where they are none."""
    try:
        content: bytes = engine.decompressobj(GZIP).decompress(head, most)
    except _BROKEN:
        return b""
    return content


def gunzip_bytes(path: Path, section: str, data: bytes, most: int) -> bytes:
    """Return all bytes of a gzip file, at most so many. A file of several parts is inflated whole."""
    with tempfile.SpooledTemporaryFile(max_size=1 << 26) as out:
        _pour(path, section, data, out, most)
        out.seek(0)
        return out.read()


def gunzip(file: FileBytes, section: str, most: int) -> FileBytes:
    """Return a gzip file, inflated into an unnamed temporary file of at most so many bytes."""
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
            content = machine.decompress(piece, PIECE)
        except _BROKEN as error:
            raise CorruptFile(path, section, offset=at, expected="gzip data", found=str(error)) from None
        done += len(content)
        if done > most:
            raise RefusedInput(f"{path}: {section}: inflates to more than {most} bytes, which are not read")
        out.write(content)
        if machine.eof:
            rest = bytes(machine.unused_data)
            at -= len(rest)
            while at < len(data) and not data[at]:  # padding between parts and at the end
                at += 1
            if bytes(data[at : at + 2]) != b"\x1f\x8b":
                return  # what follows the last part is not gzip data: gzip ignores it too
            machine = engine.decompressobj(GZIP)
    if not machine.eof and done:
        found_ = f"an end after {done} inflated bytes"
        raise CorruptFile(path, section, offset=len(data), expected="the end of the gzip data", found=found_)
