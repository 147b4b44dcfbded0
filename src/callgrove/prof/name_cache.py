"""What binaries said about addresses, kept on disk: debugging information takes seconds to read, and programs are
measured more than once.

    $CALLGROVE_CACHE, else $XDG_CACHE_HOME/callgrove, else ~/.cache/callgrove
      names/
        3f0c...e1.names     one for each binary, by its build id and where its debugging information is
                            a line that says what it is, a line with the sum of the rest, the rest: JSON, compressed

Only addresses that occurred are there; others are added when they do. A file is written beside its place and renamed;
who writes adds to what another process has written meanwhile. Files that are damaged, or are not what they say, are
left aside with a note and written anew. That nothing can be written is no error. The oldest files go when there is too
much.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import time
import zlib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from callgrove._version import __version__
from callgrove.prof.binary_names import BinaryNames, Described, Frame, Place, Symbol, UnitNames

__all__ = ["NameCache", "default_folder"]

VARIABLE = "CALLGROVE_CACHE"
MAGIC = f"callgrove names 1 {__version__}\n".encode()
SUFFIX, PARTIAL = ".names", ".partial"
SUM_SIZE = 64
LARGEST = 64 << 20  # of one file, inflated
MOST_BYTES = 256 << 20  # of all files
STALE_SEC = 3600  # a file that was not finished by then never will be

Key = Mapping[str, str]


def default_folder() -> Path | None:
    """Where the cache is; None where there is no place for it."""
    if chosen := os.environ.get(VARIABLE):
        return Path(chosen).absolute() / "names"
    base = os.environ.get("XDG_CACHE_HOME", "")
    if base.startswith("/"):  # others are to be ignored
        return Path(base) / "callgrove" / "names"
    try:
        return Path.home() / ".cache" / "callgrove" / "names"
    except RuntimeError:  # nobody's home
        return None


class NameCache:
    """Names of binaries in a folder. `notes` is what is wrong with its files."""

    def __init__(self, folder: Path, most_bytes: int = MOST_BYTES) -> None:
        self.folder, self._most_bytes = folder, most_bytes
        self.notes: list[str] = []

    def load(self, key: Key) -> BinaryNames:
        """What is known about a binary: nothing where there is no file, or none that can be used."""
        path = self._path(key)
        try:
            with path.open("rb") as file:
                content = file.read(LARGEST + 1)
        except OSError:
            return BinaryNames()
        try:
            names = _unpacked(content, key)
        except (ValueError, KeyError, TypeError, IndexError, zlib.error, RecursionError) as error:
            self.notes.append(f"{path}: this file of the cache cannot be used ({error}); it is made anew")
            return BinaryNames()
        with suppress(OSError):
            os.utime(path)  # the oldest go first
        return names

    def store(self, key: Key, names: BinaryNames) -> None:
        """Keep what is known, and what others have come to know."""
        path = self._path(key)
        together = BinaryNames()
        together.add(NameCache(self.folder).load(key))
        together.add(names)
        content = _packed(together, key)
        if len(content) > LARGEST:
            return
        partial = path.with_name(f".{path.name}.{secrets.token_hex(4)}{PARTIAL}")
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            partial.write_bytes(content)
            partial.replace(path)
            self._tidy()
        except OSError:  # a home that cannot be written, a disk that is full
            with suppress(OSError):
                partial.unlink()

    def _path(self, key: Key) -> Path:
        return self.folder / f"{hashlib.sha256(_text(key)).hexdigest()[:40]}{SUFFIX}"

    def _tidy(self) -> None:
        """Remove the oldest files where there is too much, and what was never finished."""
        found: list[tuple[float, int, Path]] = []
        for path in self.folder.iterdir():
            with suppress(OSError):  # another process tidies too
                about = path.stat()
                if path.name.endswith(PARTIAL) and time.time() - about.st_mtime > STALE_SEC:
                    path.unlink()
                elif path.suffix == SUFFIX:
                    found.append((about.st_mtime, about.st_size, path))
        total = sum(size for _, size, _ in found)
        for _, size, path in sorted(found)[:-1]:
            if total > self._most_bytes:
                with suppress(OSError):
                    path.unlink()
                total -= size


def _text(key: Key) -> bytes:
    return json.dumps(key, sort_keys=True).encode()


# -- bytes -------------------------------------------------------------------------------------------------------------


def _packed(names: BinaryNames, key: Key) -> bytes:
    texts: dict[str, int] = {}

    def text(one: str) -> int:
        return texts.setdefault(one, len(texts))

    units = []
    for at, unit in sorted(names.units.items()):
        functions = [[o, text(d.name), text(d.file), d.line, d.entry] for o, d in sorted(unit.functions.items())]
        places = [
            [
                address,
                [[f.origin, int(f.is_inlined), text(f.call_file), f.call_line] for f in place.frames],
                place.row_at,
                [[text(file), line] for file, line in place.lines],
            ]
            for address, place in sorted(unit.places.items())
        ]
        units.append([at, [text(file) for file in unit.files], functions, places])
    symbols = [[address, s.row, text(s.name), s.address] for address, s in sorted(names.symbols.items())]
    content = {
        "key": dict(key),
        "known": sorted(names.known),
        "symbols": symbols,
        "units": units,
        "texts": list(texts),
    }
    rest = zlib.compress(json.dumps(content, separators=(",", ":")).encode(), 1)
    return MAGIC + hashlib.sha256(rest).hexdigest().encode() + b"\n" + rest


def _unpacked(content: bytes, key: Key) -> BinaryNames:
    """Any exception means that the file cannot be used; its text says why."""
    if not content.startswith(MAGIC):
        raise ValueError("it is of another kind or version")
    total, rest = content[len(MAGIC) :][:SUM_SIZE], content[len(MAGIC) + SUM_SIZE + 1 :]
    if hashlib.sha256(rest).hexdigest().encode() != total:
        raise ValueError("it is damaged")
    inflater = zlib.decompressobj()
    plain = inflater.decompress(rest, LARGEST)
    if not inflater.eof:
        raise ValueError("it is too large")
    found = json.loads(plain)
    if found["key"] != dict(key):
        raise ValueError("it is that of another binary")
    texts: list[str] = [str(one) for one in found["texts"]]
    symbols = {int(a): Symbol(int(row), texts[name], int(at)) for a, row, name, at in found["symbols"]}
    units = {int(at): _unit(files, functions, places, texts) for at, files, functions, places in found["units"]}
    return BinaryNames({int(address) for address in found["known"]}, symbols, units)


def _unit(files: list[int], functions: list[Any], places: list[Any], texts: list[str]) -> UnitNames:
    unit = UnitNames(tuple(texts[file] for file in files))
    for origin, name, file, line, entry in functions:
        unit.functions[int(origin)] = Described(texts[name], texts[file], int(line), int(entry))
    mentioned = set(unit.files)
    for address, frames, row_at, lines in places:
        made = tuple(Frame(int(o), bool(inlined), texts[file], int(line)) for o, inlined, file, line in frames)
        rows = tuple((texts[file], int(line)) for file, line in lines)
        if not all(frame.origin in unit.functions for frame in made) or not mentioned.issuperset(f for f, _ in rows):
            raise ValueError("it does not fit together")
        unit.places[int(address)] = Place(made, int(row_at), rows)
    return unit
