"""Names from binaries: where a module has no structure file but lies on this machine; kept in a cache on disk.

    debugging information (DWARF)   functions, inlined functions, lines (binary_names.py)
    .symtab, else .dynsym           functions

Debugging information is the binary's own, or that of /usr/lib/debug by build id or by the name in .gnu_debuglink. Only
units of it that have an address in question are read; a cache may keep what they say. A symbol covers
[value, value + size - 1): its last byte does not count, except for the first. What is not an ELF file, or is large and
has debugging information, is left alone.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import time
import zlib
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from callgrove._version import __version__
from callgrove.arrays import ABSENT, Offsets
from callgrove.binary.files import open_regular
from callgrove.errors import CallgroveError, CorruptFile, MissingExtra
from callgrove.formats.hpcrun.regions import readable
from callgrove.prof.binary_names import (
    BinaryNames,
    Described,
    Frame,
    Place,
    Symbol,
    UnitNames,
    chains,
    demangle,
    units_of,
)
from callgrove.prof.contexts import ScopeChains, ScopeTable

__all__ = ["NameCache", "binary_chains", "is_binary"]


# -- cache of names on disk --------------------------------------------------------------------------------------------
# Debugging information takes seconds to read, and programs are measured more than once.
#
#     $CALLGROVE_CACHE, else $XDG_CACHE_HOME/callgrove, else ~/.cache/callgrove
#       names/
#         3f0c...e1.names     one for each binary, by its build id and where its debugging information is
#                             a line that says what it is, a line with the sum of the rest, the rest: JSON, compressed
#
# Only addresses that occurred are there; others are added when they do. A file is written beside its place and
# renamed; who writes adds to what another process has written meanwhile. Files that are damaged, or are not what they
# say, are left aside with a note and written anew. That nothing can be written is not an error. The oldest files go
# when there is too much.


CACHE_MAGIC = f"callgrove names 1 {__version__}\n".encode()
SUFFIX, PARTIAL = ".names", ".partial"
SUM_SIZE = 64
LARGEST_CACHE_FILE = 64 << 20  # of one file, inflated
MOST_BYTES = 256 << 20  # of all files
STALE_SEC = 3600  # a file that was not finished by then never will be

Key = Mapping[str, str]


class NameCache:
    """Names of binaries in a folder. `notes` is what is wrong with its files."""

    def __init__(self, folder: Path, most_bytes: int = MOST_BYTES) -> None:
        self.folder, self._most_bytes = folder, most_bytes
        self.notes: list[str] = []

    def load(self, key: Key) -> BinaryNames:
        """Return what is known about a binary: nothing where there is no file, or none that can be used."""
        path = self._path(key)
        try:
            with open_regular(path) as file:
                content = file.read(LARGEST_CACHE_FILE + 1)
        except OSError:
            return BinaryNames()
        try:
            names = _unpack(content, key)
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
        content = _pack(together, key)
        if len(content) > LARGEST_CACHE_FILE:
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
        files: list[tuple[float, int, Path]] = []
        for path in self.folder.iterdir():
            with suppress(OSError):  # another process tidies too
                about = path.stat()
                if path.name.endswith(PARTIAL) and time.time() - about.st_mtime > STALE_SEC:
                    path.unlink()
                elif path.suffix == SUFFIX:
                    files.append((about.st_mtime, about.st_size, path))
        total = sum(size for _, size, _ in files)
        for _, size, path in sorted(files)[:-1]:
            if total > self._most_bytes:
                with suppress(OSError):
                    path.unlink()
                total -= size


def _text(key: Key) -> bytes:
    return json.dumps(key, sort_keys=True).encode()


# -- bytes -------------------------------------------------------------------------------------------------------------


def _pack(names: BinaryNames, key: Key) -> bytes:
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
    return CACHE_MAGIC + hashlib.sha256(rest).hexdigest().encode() + b"\n" + rest


def _unpack(content: bytes, key: Key) -> BinaryNames:
    """Unpack a file. Any exception means that it cannot be used; its text says why."""
    if not content.startswith(CACHE_MAGIC):
        raise ValueError("it is of another kind or version")
    total, rest = content[len(CACHE_MAGIC) :][:SUM_SIZE], content[len(CACHE_MAGIC) + SUM_SIZE + 1 :]
    if hashlib.sha256(rest).hexdigest().encode() != total:
        raise ValueError("it is damaged")
    inflater = zlib.decompressobj()
    plain = inflater.decompress(rest, LARGEST_CACHE_FILE)
    if not inflater.eof:
        raise ValueError("it is too large")
    stored = json.loads(plain)
    if stored["key"] != dict(key):
        raise ValueError("it is that of another binary")
    texts: list[str] = [str(one) for one in stored["texts"]]
    symbols = {int(a): Symbol(int(row), texts[name], int(at)) for a, row, name, at in stored["symbols"]}
    units = {int(at): _unit(files, functions, places, texts) for at, files, functions, places in stored["units"]}
    return BinaryNames({int(address) for address in stored["known"]}, symbols, units)


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


# -- binaries ----------------------------------------------------------------------------------------------------------


LARGEST = 100 << 20
MAGIC = b"\x7fELF"
DEBUG_ROOT = Path("/usr/lib/debug")


def binary_chains(
    path: Path, offsets: Offsets, scopes: ScopeTable, module: int, cache: NameCache | None = None
) -> ScopeChains | None:
    """Return the scopes around addresses; None where the file says nothing about them."""
    try:
        with ExitStack() as files:
            elf = files.enter_context(_elf(path))
            debugging = None if elf is None else _debugging_information(elf, path)
            if debugging is None:
                return None
            names = _names(elf, path, debugging, offsets, cache, files)
        return chains(names, offsets, scopes, module)
    except (CallgroveError, MemoryError):
        raise
    except Exception as error:  # the parser's own errors are of many kinds, and tell what it stumbled over
        reason = f"{type(error).__name__}: {error}"
        raise CorruptFile(path, "ELF", expected="symbols and debugging information", found=reason) from error


def is_binary(path: Path) -> bool:
    """Tell whether a file that may be read is a program or a library."""
    try:
        with open_regular(path) as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:  # not ours to read
        return False


@contextmanager
def _elf(path: Path) -> Iterator[Any]:
    """Yield an open binary, or None where there is none."""
    try:
        file = open_regular(path)
    except OSError:  # not ours to read
        yield None
        return
    with file:
        if file.read(len(MAGIC)) != MAGIC:
            yield None
            return
        try:
            from elftools.elf.elffile import ELFFile
        except ImportError as error:
            raise MissingExtra("elf", f"{path}: naming its functions") from error
        yield ELFFile(file)


@dataclass(frozen=True)
class _Debug:
    """Where debugging information is: in the binary itself, or in a file of its own, or nowhere."""

    is_own: bool
    path: Path | None

    @property
    def word(self) -> str:
        if self.path is None:
            return "own" if self.is_own else "none"
        about = self.path.stat()
        return f"{self.path} {about.st_size} {about.st_mtime_ns}"


def _debugging_information(elf: Any, path: Path) -> _Debug | None:
    if elf.get_section_by_name(".debug_info") is not None:
        return _Debug(True, None) if path.stat().st_size < LARGEST else None
    return _Debug(False, _debug_file(elf, path))


def _names(
    elf: Any, path: Path, debug: _Debug, offsets: Offsets, cache: NameCache | None, files: ExitStack
) -> BinaryNames:
    """Return what is known about addresses: from the cache, and about others from the binary."""
    key = _key(elf, path, debug) if cache is not None else {}
    names = cache.load(key) if cache is not None else BinaryNames()
    missing = names.missing(offsets)
    if len(missing):
        with_debug = elf if debug.is_own else None
        if debug.path is not None:
            with_debug = files.enter_context(_elf(debug.path))
        units = units_of(with_debug.get_dwarf_info(), missing) if with_debug is not None else {}
        names.add(BinaryNames(set(missing.tolist()), _symbols(elf, missing), units))
        if cache is not None:
            cache.store(key, names)
    return names


def _key(elf: Any, path: Path, debug: _Debug) -> dict[str, str]:
    """Return what a binary is known by, and all that names depend on."""
    about = path.stat()
    key = {"build id": _build_id(elf), "size": str(about.st_size), "debugging information": debug.word}
    if not key["build id"]:
        content = open_regular(path) if about.st_size < LARGEST else None
        if content is None:
            key["file"] = f"{path.resolve()} {about.st_mtime_ns}"
        else:
            with content:
                key["content"] = hashlib.file_digest(content, "sha256").hexdigest()
    return {**key, "parser": version("pyelftools"), "demangles": str(demangle("_Z1fv") != "_Z1fv")}


def _build_id(elf: Any) -> str:
    note = elf.get_section_by_name(".note.gnu.build-id")
    notes = note.iter_notes() if note is not None else ()
    return next((str(one["n_desc"]) for one in notes if one["n_type"] == "NT_GNU_BUILD_ID"), "")


def _debug_file(elf: Any, path: Path) -> Path | None:
    """Return where the debugging information of a stripped binary lies."""
    candidates: list[Path] = []
    if id_ := _build_id(elf):
        candidates.append(DEBUG_ROOT / ".build-id" / id_[:2] / f"{id_[2:]}.debug")
    if (link := elf.get_section_by_name(".gnu_debuglink")) is not None:
        name = Path(link.data().split(b"\0")[0].decode("utf-8", "replace")).name
        folder = path.resolve().parent
        candidates += [folder / name, folder / ".debug" / name, DEBUG_ROOT / folder.relative_to("/") / name]
    return next((where for where in candidates if where.is_file() and where.stat().st_size < LARGEST), None)


# -- symbols -----------------------------------------------------------------------------------------------------------


def _symbols(elf: Any, offsets: Offsets) -> dict[int, Symbol]:
    """Return the function that addresses lie in, by the symbol table."""
    table = elf.get_section_by_name(".symtab") or elf.get_section_by_name(".dynsym")
    out: dict[int, Symbol] = {}
    if table is None:
        return out
    value, size, name = _symbol_columns(elf, table)
    sized = np.flatnonzero(size > 0)
    order = sized[np.argsort(value[sized], kind="stable")]
    starts = value[order]
    reach = np.maximum.accumulate(starts + size[order]) if len(order) else starts
    for address in offsets.tolist():
        symbol = _covering(address, starts, reach, order, value, size)
        if symbol >= 0:
            text = table.stringtable.get_string(int(name[symbol]))
            out[address] = Symbol(symbol, demangle(readable(text)), int(value[symbol]))
    return out


def _symbol_columns(elf: Any, table: Any) -> tuple[Offsets, Offsets, Offsets]:
    endian = "<" if elf.little_endian else ">"
    if elf.elfclass == 64:
        fields = [("name", "u4"), ("info", "u1"), ("other", "u1"), ("shndx", "u2"), ("value", "u8"), ("size", "u8")]
    else:
        fields = [("name", "u4"), ("value", "u4"), ("size", "u4"), ("info", "u1"), ("other", "u1"), ("shndx", "u2")]
    dtype = np.dtype([(field, endian + kind) for field, kind in fields])
    data = table.data()
    rows = np.frombuffer(data, dtype, len(data) // dtype.itemsize)
    return rows["value"].astype(np.uint64), rows["size"].astype(np.uint64), rows["name"].astype(np.uint64)


def _covering(address: int, starts: Offsets, reach: Offsets, order: Any, value: Offsets, size: Offsets) -> int:
    """Return the first symbol, in the order of the table, that covers an address. Going back ends where none reaches
    it."""
    at = int(np.searchsorted(starts, np.uint64(address), side="right")) - 1
    symbols: list[int] = []
    while at >= 0 and int(reach[at]) > address:
        symbol = int(order[at])
        first, n = int(value[symbol]), int(size[symbol])
        if first == address or first <= address < first + n - 1:
            symbols.append(symbol)
        at -= 1
    return min(symbols, default=ABSENT)
