"""The members of a tar archive by their headers. Nothing is extracted: a member is a place in the file.

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

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import numpy as np

from callgrove.binary.filebytes import FileBytes
from callgrove.errors import CorruptFile

__all__ = ["BLOCK", "HEADER", "Archive", "Member", "headers", "is_archive"]

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
        """A copy of what is there of a member."""
        return self.file.copy(member.offset, member.size - member.missing, member.name)


def is_archive(block: bytes) -> bool:
    """Does this look like the header of a member?"""
    return len(block) >= 262 and block[257:262] == MAGIC


def headers(file: FileBytes, notes: list[str], most: int | None = None) -> Iterator[Member]:
    """Every member in the file's order, `most` blocks at most; headers only are looked at."""
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
        header, kind = _checked(file.path, at, block, notes), block[156:157].strip(b"\0")
        length = (
            size
            if size is not None and kind not in (LONG_NAME, PAX, PAX_ALL)
            else _octal(file.path, at, header["size"])
        )
        start = at + BLOCK
        if kind == LONG_NAME:
            name = _text(file, start, length).rstrip("\0")
        elif kind == PAX:
            name, size = _extended(_text(file, start, length), name, size)
        elif kind in PLAIN:
            missing = max(0, start + length - file.size)
            yield Member(name or _name(header), at, start, length, missing)
        if kind not in (LONG_NAME, PAX, PAX_ALL):
            name, size = "", None
        at = start + (length + BLOCK - 1) // BLOCK * BLOCK


def _checked(path: Path, at: int, block: bytes, notes: list[str]) -> np.void:
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


def _extended(text: str, name: str, size: int | None) -> tuple[str, int | None]:
    """What a PAX header says of the member that follows: lines `LENGTH KEY=VALUE`."""
    for line in text.split("\n"):
        key, equals, value = line.partition(" ")[2].partition("=")
        if equals and key == "path":
            name = value.removeprefix("./")
        elif equals and key == "size" and value.isascii() and value.isdigit() and len(value) < 20:
            size = int(value)
    return name, size
