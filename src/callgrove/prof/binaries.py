"""Names from binaries: where a module has no structure file but lies on this machine (hpcrun-and-prof.md 6.4).

    debugging information (DWARF)   functions, inlined functions, lines; `dwarf`
    .symtab, else .dynsym           functions

Debugging information is the binary's own, or that of /usr/lib/debug by build id or by the name in .gnu_debuglink. Only
units of it that have an address in question are read. A symbol covers [value, value + size - 1): its last byte does not
count, except for the first. What is no ELF file, or is large and has debugging information, is left alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from callgrove.errors import CallgroveError, CorruptFile, MissingExtra
from callgrove.formats.hpcrun.regions import readable
from callgrove.model.arrays import ABSENT, Ids, Offsets
from callgrove.model.contexts import Relation
from callgrove.prof.demangling import demangled
from callgrove.prof.dwarf import Units
from callgrove.prof.scopes import ScopeChains, ScopeTable

__all__ = ["binary_chains"]

LARGEST = 100 << 20
MAGIC = b"\x7fELF"
DEBUG_ROOT = Path("/usr/lib/debug")


def binary_chains(path: Path, offsets: Offsets, scopes: ScopeTable, module: int) -> ScopeChains | None:
    """The scopes around addresses; None where the file says nothing about them."""
    try:
        with ExitStack() as files:
            elf = files.enter_context(_elf(path))
            return None if elf is None else _chains(elf, path, offsets, scopes, module, files)
    except (CallgroveError, MemoryError):
        raise
    except Exception as error:  # the parser's own errors are of many kinds, and tell what it stumbled over
        found = f"{type(error).__name__}: {error}"
        raise CorruptFile(path, "ELF", expected="symbols and debugging information", found=found) from error


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


def _chains(
    elf: Any, path: Path, offsets: Offsets, scopes: ScopeTable, module: int, files: ExitStack
) -> ScopeChains | None:
    with_debug = elf if elf.get_section_by_name(".debug_info") is not None else None
    if with_debug is not None and path.stat().st_size >= LARGEST:
        return None
    if with_debug is None:
        where = _debug_file(elf, path)
        with_debug = files.enter_context(_elf(where)) if where is not None else None
    bounds, scope, relation = [0], list[int](), list[int]()
    units = Units(with_debug.get_dwarf_info(), scopes, module) if with_debug is not None else None
    found = units.chains(offsets) if units is not None else [()] * len(offsets)
    symbols = _symbols(elf, offsets, scopes, module)
    for chain, symbol in zip(found, symbols.tolist(), strict=True):
        steps = chain or (((symbol, int(Relation.CALL)),) if symbol >= 0 else ())
        scope += [one for one, _ in steps]
        relation += [one for _, one in steps]
        bounds.append(len(scope))
    return ScopeChains(np.array(bounds, np.int64), np.array(scope, np.int32), np.array(relation, np.int32))


def _debug_file(elf: Any, path: Path) -> Path | None:
    """Where the debugging information of a stripped binary lies."""
    candidates: list[Path] = []
    if (note := elf.get_section_by_name(".note.gnu.build-id")) is not None:
        for one in note.iter_notes():
            if one["n_type"] == "NT_GNU_BUILD_ID":
                id_ = str(one["n_desc"])
                candidates.append(DEBUG_ROOT / ".build-id" / id_[:2] / f"{id_[2:]}.debug")
    if (link := elf.get_section_by_name(".gnu_debuglink")) is not None:
        name = Path(link.data().split(b"\0")[0].decode("utf-8", "replace")).name
        folder = path.resolve().parent
        candidates += [folder / name, folder / ".debug" / name, DEBUG_ROOT / folder.relative_to("/") / name]
    return next((where for where in candidates if where.is_file() and where.stat().st_size < LARGEST), None)


# -- symbols -----------------------------------------------------------------------------------------------------------


def _symbols(elf: Any, offsets: Offsets, scopes: ScopeTable, module: int) -> Ids:
    """The function that each address lies in, by the symbol table; -1 where there is none."""
    table = elf.get_section_by_name(".symtab") or elf.get_section_by_name(".dynsym")
    out = np.full(len(offsets), ABSENT, np.int32)
    if table is None:
        return out
    value, size, name = _symbol_columns(elf, table)
    sized = np.flatnonzero(size > 0)
    order = sized[np.argsort(value[sized], kind="stable")]
    starts = value[order]
    reach = np.maximum.accumulate(starts + size[order]) if len(order) else starts
    for row, address in enumerate(offsets.tolist()):
        symbol = _covering(address, starts, reach, order, value, size)
        if symbol >= 0:
            text = table.stringtable.get_string(int(name[symbol]))
            identity = ("symbol", module, symbol)
            out[row] = scopes.function(identity, demangled(readable(text)), ABSENT, ABSENT, module, int(value[symbol]))
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
