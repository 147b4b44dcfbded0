"""Digests of files, taken while they are known to be sound, and what differs from them later.

Few formats have checksums, and a flipped bit in a value is a value. A manifest is a JSON file beside the data:

    {"callgrove manifest": 1, "block": 1048576,
     "files": {"profile.db": {"size": 1234, "sha256": "...", "blocks": ["...", ...]}}}

`sha256` is that of the file; `blocks` are BLAKE2b digests of 16 bytes, one for each block, which say where it differs.
Names are relative to the folder; a file by itself has its own name.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from callgrove.binary.files import open_regular
from callgrove.errors import InputError

__all__ = ["Difference", "Digests", "compare_with_manifest", "read_manifest", "take_digests", "write_manifest"]

VERSION_KEY, VERSION = "callgrove manifest", 1
BLOCK = 1 << 20
MOST_SHOWN = 20  # damaged blocks of one file that are listed; the others are counted


@dataclass(frozen=True)
class Digests:
    """What is known of one file."""

    size: int
    sha256: str
    blocks: tuple[str, ...]


@dataclass(frozen=True)
class Difference:
    """What differs from a manifest: in which file, where in it, and how. A file that is new is not damage."""

    file: str
    place: str
    text: str
    is_damage: bool = True


def take_digests(path: Path) -> dict[str, Digests]:
    """Return the digests of a file, or of all files below a folder, by name. Links are followed as readers follow
    them."""
    if path.is_dir():
        files = {file.relative_to(path).as_posix(): file for file in sorted(path.rglob("*")) if file.is_file()}
    else:
        files = {path.name: path}
    return {name: _digest(file, BLOCK) for name, file in files.items()}


def _digest(file: Path, block: int) -> Digests:
    whole, size, blocks = hashlib.sha256(), 0, []
    try:
        with open_regular(file) as content:
            while piece := content.read(block):
                whole.update(piece)
                size += len(piece)
                blocks.append(hashlib.blake2b(piece, digest_size=16).hexdigest())
    except OSError as error:
        raise InputError(f"{file}: cannot be read: {error.strerror or error}") from error
    return Digests(size, whole.hexdigest(), tuple(blocks))


def write_manifest(digests: dict[str, Digests], place: Path) -> None:
    """Write digests to a file."""
    files = {name: asdict(one) for name, one in digests.items()}
    place.write_text(json.dumps({VERSION_KEY: VERSION, "block": BLOCK, "files": files}, indent=1) + "\n", "utf-8")


def read_manifest(file: Path) -> tuple[int, dict[str, Digests]]:
    """Return the size of blocks and the digests by name."""
    try:
        with open_regular(file) as content:
            known = json.loads(content.read())
        if known[VERSION_KEY] != VERSION:
            raise InputError(f"{file}: is a manifest of version {known[VERSION_KEY]}, and {VERSION} is known here")
        files = {name: _read_digests(one) for name, one in known["files"].items()}
        block = known["block"]
    except OSError as error:
        raise InputError(f"{file}: cannot be read: {error.strerror or error}") from error
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise InputError(f"{file}: is not a manifest that callgrove wrote") from error
    if type(block) is not int or not 0 < block <= 1 << 30:
        raise InputError(f"{file}: is not a manifest that callgrove wrote")
    return block, files


def _read_digests(one: dict[str, object]) -> Digests:
    size, sha256, blocks = one["size"], one["sha256"], one["blocks"]
    if type(size) is not int or type(sha256) is not str or type(blocks) is not list:
        raise TypeError
    return Digests(size, sha256, tuple(map(str, blocks)))


def compare_with_manifest(path: Path, manifest: Path) -> Iterator[Difference]:
    """Yield what differs from a manifest, file by file: sizes, blocks, files that are missing or new."""
    block, known = read_manifest(manifest)
    there = {path.name: path} if not path.is_dir() else {name: path / name for name in _names_below(path)}
    if not path.is_dir() and len(known) == 1:  # a file may have been renamed
        known = {path.name: next(iter(known.values()))}
    for name, digests in known.items():
        if name not in there:
            yield Difference(name, "", "is missing; it was there when the manifest was made")
        else:
            yield from _compare_file(name, _digest(there[name], block), digests, block)
    for name in sorted(there.keys() - known.keys()):
        if there[name].resolve() != manifest.resolve():
            yield Difference(name, "", "was not there when the manifest was made", is_damage=False)


def _names_below(folder: Path) -> list[str]:
    return [file.relative_to(folder).as_posix() for file in sorted(folder.rglob("*")) if file.is_file()]


def _compare_file(name: str, now: Digests, before: Digests, block: int) -> Iterator[Difference]:
    if now.sha256 == before.sha256 and now.size == before.size:
        return
    if now.size != before.size:
        yield Difference(name, "size", f"has {now.size:,} bytes; there were {before.size:,}")
    pairs = zip(now.blocks, before.blocks, strict=False)
    wrong = [number for number, (one, other) in enumerate(pairs) if one != other]
    for number in wrong[:MOST_SHOWN]:
        last = min((number + 1) * block, now.size) - 1
        yield Difference(name, f"bytes {number * block:,} to {last:,}", "are not what they were")
    if len(wrong) > MOST_SHOWN:
        yield Difference(
            name, "", f"{len(wrong) - MOST_SHOWN} further blocks of {block:,} bytes are not what they were"
        )
    if not wrong and now.size == before.size:
        yield Difference(
            name, "", "is not what it was, or the manifest is damaged itself: its digests contradict each other"
        )
