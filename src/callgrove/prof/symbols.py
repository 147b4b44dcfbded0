"""Functions of the operating system's kernel, and of interpreted programs.

kernel_symbols/vmlinux.HOSTID    text, or xz of it: `address type name [module]` lines, as /proc/kallsyms has them
HPCLOGICAL...                    stanzas {u32 id, str function, u8 mangling, str file, u32 line}, big-endian; an address
                                 is the id, then a line in 32 bits each
"""

from __future__ import annotations

import lzma
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from callgrove.binary.filebytes import FileBytes
from callgrove.errors import CorruptFile
from callgrove.formats.hpcrun.cursor import Cursor
from callgrove.formats.hpcrun.regions import readable
from callgrove.model.arrays import ABSENT, Offsets
from callgrove.model.contexts import Relation
from callgrove.prof.nodes import UNKNOWN
from callgrove.prof.scopes import ScopeChains, ScopeTable

__all__ = ["KERNEL_FOLDER", "LOGICAL_PREFIX", "kernel_chains", "logical_chains"]

KERNEL_FOLDER, LOGICAL_PREFIX = "kernel_symbols", "HPCLOGICAL"
XZ_MAGIC = b"\xfd7zXZ\x00"
MOST_BYTES = 256 << 20
TEXT_TYPES = ("t", "T")
SMALLEST_STANZA = 4 + 4 + 1 + 4 + 4


def kernel_chains(path: Path, offsets: Offsets, scopes: ScopeTable, module: int) -> ScopeChains:
    """The function around each address: the last that begins at or before it."""
    addresses, names = _kernel_symbols(path)
    at = np.searchsorted(addresses, offsets, side="right") - 1
    found: dict[int, int] = {}
    for row in np.unique(at[at >= 0]).tolist():
        address = int(addresses[row])
        found[row] = scopes.function(("symbol", module, address), readable(names[row]), ABSENT, ABSENT, module, address)
    return _one_each([found.get(row, ABSENT) for row in at.tolist()])


def _one_each(scope: list[int]) -> ScopeChains:
    """One scope, called, or none (-1), for each address."""
    column = np.array(scope, np.int32)
    known = column >= 0
    relation = np.full(int(known.sum()), Relation.CALL, np.int32)
    return ScopeChains(np.append(0, np.cumsum(known)), column[known], relation)


def _kernel_symbols(path: Path) -> tuple[Offsets, list[str]]:
    rows = sorted(_symbol_lines(path), key=lambda row: row[0])
    return np.array([row[0] for row in rows], np.uint64), [row[1] for row in rows]


def _symbol_lines(path: Path) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(_text(path).splitlines(), 1):
        words = line.split()
        if len(words) < 3 or words[1] not in TEXT_TYPES:
            continue
        try:
            address = int(words[0], 16)
        except ValueError:
            raise CorruptFile(
                path, "symbols", line=number, expected="a hexadecimal address", found=repr(words[0])
            ) from None
        if address < 2**64:
            yield address, " ".join([words[2], *words[3:4], "[vmlinux]"])


def _text(path: Path) -> str:
    file = FileBytes(path)
    if file.size > MOST_BYTES:
        raise CorruptFile(path, "symbols", expected=f"at most {MOST_BYTES} bytes", found=str(file.size))
    content = file.copy(0, file.size, "symbols")
    if content.startswith(XZ_MAGIC):
        try:
            content = lzma.LZMADecompressor().decompress(content, MOST_BYTES)
        except lzma.LZMAError as error:
            raise CorruptFile(path, "symbols", expected="symbols compressed with xz", found=str(error)) from error
    return content.decode("utf-8", "backslashreplace")


def logical_chains(path: Path, offsets: Offsets, scopes: ScopeTable, module: int) -> ScopeChains:
    """The function, and the line where there is one, of each address."""
    functions = {id_: (name, file, line) for id_, name, file, line in _stanzas(path)}
    bounds, scope, relation = [0], list[int](), list[int]()
    for offset in offsets.tolist():
        id_, line = offset >> 32, offset & 0xFFFF_FFFF
        if id_ not in functions or id_ == 0:
            scope.append(scopes.placeholder(UNKNOWN))
            relation.append(Relation.CALL)
        else:
            name, file_name, first_line = functions[id_]
            file = scopes.builder.file(file_name)
            identity = ("logical", module, id_)
            scope.append(scopes.function(identity, name, file, first_line, module if file < 0 else ABSENT, None))
            relation.append(Relation.CALL)
            if file >= 0 and line:
                scope.append(scopes.line(file, line))
                relation.append(Relation.LEXICAL)
        bounds.append(len(scope))
    return ScopeChains(np.array(bounds, np.int64), np.array(scope, np.int32), np.array(relation, np.int32))


def _stanzas(path: Path) -> Iterator[tuple[int, str, str, int]]:
    cursor = Cursor(FileBytes(path), "stanzas")
    while cursor.end - cursor.at >= SMALLEST_STANZA:
        id_, name = cursor.number("u4", "id"), cursor.text("function")
        cursor.number("u1", "mangling")
        yield id_, readable(name), readable(cursor.text("file")), cursor.number("u4", "line")
