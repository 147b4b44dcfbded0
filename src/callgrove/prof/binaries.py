"""Names from binaries: where a module has no structure file but lies on this machine (hpcrun-and-prof.md 6.4).

    debugging information (DWARF)   functions, inlined functions, lines; `dwarf`
    .symtab, else .dynsym           functions

Debugging information is the binary's own, or that of /usr/lib/debug by build id or by the name in .gnu_debuglink. Only
units of it that have an address in question are read; a cache may keep what they say. A symbol covers
[value, value + size - 1): its last byte does not count, except for the first. What is no ELF file, or is large and has
debugging information, is left alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from callgrove.errors import CallgroveError, CorruptFile, MissingExtra
from callgrove.formats.hpcrun.regions import readable
from callgrove.model.arrays import ABSENT, Offsets
from callgrove.prof.binary_names import BinaryNames, Symbol, chains
from callgrove.prof.demangling import demangled
from callgrove.prof.dwarf import units_of
from callgrove.prof.name_cache import NameCache
from callgrove.prof.scopes import ScopeChains, ScopeTable

__all__ = ["binary_chains"]

LARGEST = 100 << 20
MAGIC = b"\x7fELF"
DEBUG_ROOT = Path("/usr/lib/debug")


def binary_chains(
    path: Path, offsets: Offsets, scopes: ScopeTable, module: int, cache: NameCache | None = None
) -> ScopeChains | None:
    """The scopes around addresses; None where the file says nothing about them."""
    try:
        with ExitStack() as files:
            elf = files.enter_context(_elf(path))
            found = None if elf is None else _debugging_information(elf, path)
            if found is None:
                return None
            names = _names(elf, path, found, offsets, cache, files)
        return chains(names, offsets, scopes, module)
    except (CallgroveError, MemoryError):
        raise
    except Exception as error:  # the parser's own errors are of many kinds, and tell what it stumbled over
        reason = f"{type(error).__name__}: {error}"
        raise CorruptFile(path, "ELF", expected="symbols and debugging information", found=reason) from error


@contextmanager
def _elf(path: Path) -> Iterator[Any]:
    """An open binary, or None where there is none."""
    try:
        file = path.open("rb")
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
    """What is known about addresses: from the cache, and about others from the binary."""
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
    """What a binary is known by, and all that names depend on."""
    about = path.stat()
    key = {"build id": _build_id(elf), "size": str(about.st_size), "debugging information": debug.word}
    if not key["build id"]:
        content = path.open("rb") if about.st_size < LARGEST else None
        if content is None:
            key["file"] = f"{path.resolve()} {about.st_mtime_ns}"
        else:
            with content:
                key["content"] = hashlib.file_digest(content, "sha256").hexdigest()
    return {**key, "parser": version("pyelftools"), "demangles": str(demangled("_Z1fv") != "_Z1fv")}


def _build_id(elf: Any) -> str:
    note = elf.get_section_by_name(".note.gnu.build-id")
    notes = note.iter_notes() if note is not None else ()
    return next((str(one["n_desc"]) for one in notes if one["n_type"] == "NT_GNU_BUILD_ID"), "")


def _debug_file(elf: Any, path: Path) -> Path | None:
    """Where the debugging information of a stripped binary lies."""
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
    """The function that addresses lie in, by the symbol table."""
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
            out[address] = Symbol(symbol, demangled(readable(text)), int(value[symbol]))
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
    """The first symbol, in the order of the table, that covers an address. Going back ends where none reaches it."""
    at = int(np.searchsorted(starts, np.uint64(address), side="right")) - 1
    found: list[int] = []
    while at >= 0 and int(reach[at]) > address:
        symbol = int(order[at])
        first, n = int(value[symbol]), int(size[symbol])
        if first == address or first <= address < first + n - 1:
            found.append(symbol)
        at -= 1
    return min(found, default=ABSENT)
