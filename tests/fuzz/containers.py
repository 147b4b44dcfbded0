"""Damage to tar, zip and compressed files: to their headers, and to what is inside, which is packed again."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import random
import zipfile
import zlib
from dataclasses import dataclass

from tests.fuzz.texts import Mutator, break_bytes, lie_at

__all__ = ["break_gzip", "break_tar", "break_zip", "compress"]

BLOCK = 512


# -- tar ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Member:
    header: int
    size: int

    @property
    def begin(self) -> int:
        return self.header + BLOCK


def _members(data: bytes) -> list[_Member]:
    members: list[_Member] = []
    at = 0
    while at + BLOCK <= len(data) and data[at] and len(members) < 500:
        digits = data[at + 124 : at + 136].strip(b"\0 ")
        if not digits or not all(48 <= digit <= 55 for digit in digits):
            break
        member = _Member(at, int(digits, 8))
        members.append(member)
        at = member.begin + -(-member.size // BLOCK) * BLOCK
        if data[at : at + 1] == b"\0":  # CubeLib adds a block after sizes that are multiples of 512
            at += BLOCK
    return members


def _sum_header(header: bytes) -> bytes:
    blank = header[:148] + b" " * 8 + header[156:]
    return header[:148] + b"%06o\0 " % (sum(blank) & 0o777777) + header[156:]


def _wrong_tar_header(data: bytes, rng: random.Random, members: list[_Member]) -> bytes:
    at = rng.choice(members).header
    header = bytearray(data[at : at + BLOCK])
    what = rng.randrange(5)
    if what == 0:
        header[124:136] = rng.choice(
            (
                b"%011o\0" % rng.randrange(1 << 33),
                b"77777777777\0",
                b"\xff" * 12,
                b"\x80" + b"\xff" * 11,
                b"-1".ljust(12),
                b"\0" * 12,
            )
        )
    elif what == 1:
        header[156] = rng.choice(b"0123456789LKxgSDV\0\xff")
    elif what == 2:
        header[0:100] = rng.choice((b"../../x", b"/etc/passwd", b"anchor.xml", b"\xff" * 100, b"", b"0.index")).ljust(
            100, b"\0"
        )
    else:
        header[rng.randrange(BLOCK)] = rng.randrange(256)
    whole = bytes(header)
    return data[:at] + (_sum_header(whole) if rng.random() < 0.7 else whole) + data[at + BLOCK :]


def break_tar(data: bytes, rng: random.Random, inside: Mutator) -> bytes:
    """Return an archive with a wrong header, or with a member that is missing, moved, or damaged by `inside`."""
    members = _members(data)
    if not members or rng.random() < 0.1:
        return break_bytes(data, rng)
    if rng.random() < 0.25:
        return _wrong_tar_header(data, rng, members)
    member = rng.choice(members)
    end = member.begin + -(-member.size // BLOCK) * BLOCK
    whole = data[member.header : end]
    if rng.random() < 0.1:
        return data[: member.header] + whole * rng.choice((0, 2)) + data[end:]
    content = inside(data[member.begin : member.begin + member.size], rng)
    header = bytearray(data[member.header : member.begin])
    header[124:136] = b"%011o\0" % len(content)
    return data[: member.header] + _sum_header(bytes(header)) + content + bytes(-len(content) % BLOCK) + data[end:]


# -- zip ---------------------------------------------------------------------------------------------------------------

# Signatures with the offsets and widths of the fields after them.
ZIP_FIELDS = {
    b"PK\x03\x04": ((4, 2), (6, 2), (8, 2), (14, 4), (18, 4), (22, 4), (26, 2), (28, 2)),
    b"PK\x01\x02": (
        (6, 2),
        (8, 2),
        (10, 2),
        (16, 4),
        (20, 4),
        (24, 4),
        (28, 2),
        (30, 2),
        (32, 2),
        (34, 2),
        (38, 4),
        (42, 4),
    ),
    b"PK\x05\x06": ((4, 2), (6, 2), (8, 2), (10, 2), (12, 4), (16, 4), (20, 2)),
}


def break_zip(data: bytes, rng: random.Random, inside: Mutator) -> bytes:
    """Return an archive with a wrong field of a header, or with a member that is missing, doubled or damaged."""
    if rng.random() < 0.35:
        signature, fields = rng.choice(list(ZIP_FIELDS.items()))
        places = [k for k in range(len(data)) if data.startswith(signature, k)] if signature in data else [0]
        offset, width = rng.choice(fields)
        return lie_at(data, min(rng.choice(places) + offset, len(data) - width), width, rng)
    if rng.random() < 0.1:
        return break_bytes(data, rng)
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = [(info.filename, archive.read(info)) for info in archive.infolist()]
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError, RuntimeError, EOFError, zlib.error):
        return break_bytes(data, rng)
    if not members:
        return break_bytes(data, rng)
    at = rng.randrange(len(members))
    name, content = members[at]
    if rng.random() < 0.1:
        del members[at]
    elif rng.random() < 0.1:
        members[at] = (rng.choice(("../x", "", members[rng.randrange(len(members))][0] + "x")), content)
    else:
        members[at] = (name, inside(content, rng))
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))) as archive:
        for member, content in members:
            archive.writestr(zipfile.ZipInfo(member or "x"), content)
    return packed.getvalue()


# -- compressed files --------------------------------------------------------------------------------------------------


def compress(data: bytes, rng: random.Random) -> bytes:
    """Return the content in one of the ways in which files are compressed; sometimes damaged after that."""
    packed = rng.choice(
        (lambda b: gzip.compress(b, 1, mtime=0), lambda b: bz2.compress(b, 1), lambda b: lzma.compress(b, preset=0))
    )(data)
    return break_bytes(packed, rng) if rng.random() < 0.5 else packed


def break_gzip(data: bytes, rng: random.Random, inside: Mutator) -> bytes:
    """Return a compressed file that is damaged, or holds damaged content."""
    if rng.random() < 0.3:
        return break_bytes(data, rng)
    try:
        return gzip.compress(inside(gzip.decompress(data), rng), 1, mtime=0)
    except (OSError, EOFError, zlib.error):
        return break_bytes(data, rng)
