"""From (module, address) to the scopes around it: structure files, symbols of the kernel, binaries.

    logical files    names of files that begin with HPCLOGICAL
    kernel symbols   modules in kernel_symbols/
    structure files  also where an address lies in none of their ranges
    the binary       where it is here: debugging information, symbols
    nothing          the instruction alone

Specification: hpcrun-and-prof.md 6.2.
"""

from __future__ import annotations

import lzma
import mmap
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from xml.sax.saxutils import unescape

import numpy as np

from callgrove.arrays import ABSENT, NO_OFFSET, Ids, Offsets
from callgrove.binary.files import FileBytes, open_regular
from callgrove.errors import CallgroveError, CorruptFile, MissingExtra
from callgrove.execute import Progress, silent
from callgrove.formats.hpcrun.hpcstruct import ScopeKind, Structure, read_structure
from callgrove.formats.hpcrun.primitives import Cursor
from callgrove.formats.hpcrun.regions import readable
from callgrove.model.contexts import Relation
from callgrove.prof.binaries import NameCache
from callgrove.prof.contexts import ENTRY_NAMES, ScopeChains, ScopeTable, concatenate
from callgrove.prof.nodes import BARE, CODE, UNKNOWN, RawTree

__all__ = [
    "KERNEL_FOLDER",
    "LOGICAL_PREFIX",
    "Described",
    "Resolver",
    "Structures",
    "kernel_chains",
    "logical_chains",
    "resolve",
    "structure_files",
]


# -- kernel symbols and logical files ----------------------------------------------------------------------------------
# kernel_symbols/vmlinux.HOSTID    text, or xz of it: `address type name [module]` lines, as /proc/kallsyms has them
# HPCLOGICAL...                    stanzas {u32 id, str function, u8 mangling, str file, u32 line}, big-endian; an
#                                  address is the id, then a line in 32 bits each


KERNEL_FOLDER, LOGICAL_PREFIX = "kernel_symbols", "HPCLOGICAL"
XZ_MAGIC = b"\xfd7zXZ\x00"
MOST_BYTES = 256 << 20
TEXT_TYPES = ("t", "T")
SMALLEST_STANZA = 4 + 4 + 1 + 4 + 4


def kernel_chains(path: Path, offsets: Offsets, scopes: ScopeTable, module: int) -> ScopeChains:
    """Return the function around each address: the last that begins at or before it."""
    addresses, names = _kernel_symbols(path)
    at = np.searchsorted(addresses, offsets, side="right") - 1
    scope_of: dict[int, int] = {}
    for row in np.unique(at[at >= 0]).tolist():
        address = int(addresses[row])
        scope_of[row] = scopes.function(
            ("symbol", module, address), readable(names[row]), ABSENT, ABSENT, module, address
        )
    return _one_each([scope_of.get(row, ABSENT) for row in at.tolist()])


def _one_each(scope: list[int]) -> ScopeChains:
    """Return one scope, called, or none (-1), for each address."""
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
    """Return the function, and the line where there is one, of each address."""
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


# -- structure files ---------------------------------------------------------------------------------------------------
# They are found in measurement directories, or named by the user.
#
# A module is covered as soon as one file describes it: an address that lies in none of its ranges has no scopes, and
# nothing else is asked. Files that cannot be read are treated as absent, and said.


FOLDER, SUFFIX = "structs", ".hpcstruct"
MODULE_NAME = re.compile(rb'<LM\s[^>]*?\bn="([^"]*)"')
ENTITIES = {"&quot;": '"', "&apos;": "'"}
INLINED, PROCEDURE, LOOP = int(ScopeKind.INLINED), int(ScopeKind.PROCEDURE), int(ScopeKind.LOOP)
NOWHERE = int(NO_OFFSET)


def structure_files(folders: Iterable[Path]) -> list[Path]:
    """Return the structure files of measurement directories."""
    return [path for folder in folders for path in sorted((folder / FOLDER).glob(f"*{SUFFIX}"))]


@dataclass(frozen=True)
class Described:
    """A module as a structure file describes it."""

    structure: Structure
    number: int  # of the module in the structure

    def chains(self, offsets: Offsets, scopes: ScopeTable, module: int) -> ScopeChains:
        """Return the scopes around each address, from the function to the line."""
        chains = self.structure.chains(self.structure.lookup(self.number, offsets))
        rows, inverse = np.unique(chains.scope, return_inverse=True)
        made = np.array([self._scope(row, scopes, module) for row in rows.tolist()], np.int32)
        kind = self.structure.scopes.kind[chains.scope]
        relation = np.where(kind == INLINED, Relation.INLINED, Relation.LEXICAL).astype(np.int32)
        starts = chains.bounds[:-1][np.diff(chains.bounds) > 0]
        relation[starts] = Relation.CALL
        return ScopeChains(chains.bounds, made[inverse] if len(made) else chains.scope, relation)

    def _scope(self, row: int, scopes: ScopeTable, module: int) -> int:
        table, text = self.structure.scopes, self.structure.text
        kind, line, address = int(table.kind[row]), int(table.line[row]), int(table.address[row])
        file = scopes.builder.file(readable(text(int(table.file[row]))))
        if kind in (PROCEDURE, INLINED):
            offset = (address if address != NOWHERE else None) if kind == PROCEDURE else 0
            identity = ("function", module, row)
            return scopes.function(identity, readable(text(int(table.name[row]))), file, line, module, offset)
        if kind == LOOP:
            return scopes.loop(file, line, module, address if address != NOWHERE else None)
        return scopes.line(file, line)

    def procedures(self, offsets: Offsets) -> Ids:
        """Return the function that each address lies in; -1 where there is none."""
        rows = self.structure.lookup(self.number, offsets)
        return np.where(rows >= 0, self.structure.scopes.procedure[rows], ABSENT).astype(np.int32)


class Structures:
    """What structure files say about the modules that were measured. `notes` are those that are of no use, `damage`
    those that cannot be read."""

    def __init__(self, files: Sequence[Path], named: Sequence[Path], modules: Mapping[str, Sequence[str]]) -> None:
        """Take `modules`: the measured path of a module, and all spellings that structure files may have for it."""
        self.notes: list[str] = []
        self.damage: list[str] = []
        self._of_module: dict[str, Described] = {}
        spellings = {spelling: path for path, others in modules.items() for spelling in reversed(others)}
        for file in (*named, *files):
            self._add(file, spellings, is_named=file in named)

    def __getitem__(self, module: str) -> Described | None:
        return self._of_module.get(module)

    def __len__(self) -> int:
        return len(self._of_module)

    def _add(self, file: Path, spellings: Mapping[str, str], is_named: bool) -> None:
        try:
            names = _module_names(file)
            wanted = [name for name in names if name in spellings]
            if names and not wanted:
                if is_named:
                    self.notes.append(f"{file}: describes {names[0]}, in which nothing was measured; it is not used")
                return
            structure = read_structure(file)
        except (CallgroveError, OSError) as error:
            text = (
                str(error)
                if isinstance(error, CallgroveError)
                else f"{file}: cannot be read: {error.strerror or error}"
            )
            self.damage.append(f"{text}; the structure file is not used")
            return
        for number, name in enumerate(structure.modules.path):
            if name in spellings:
                self._of_module.setdefault(spellings[name], Described(structure, number))


def _module_names(file: Path) -> list[str]:
    """Return the modules that a file describes, without parsing it."""
    with open_regular(file) as opened:
        if not opened.seek(0, 2):
            return []
        with mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as content:
            names = [match[1] for match in MODULE_NAME.finditer(content)]
    return [unescape(name.decode("utf-8", "surrogateescape"), ENTITIES) for name in names]


# -- from addresses to scopes ------------------------------------------------------------------------------------------


Locate = Callable[[str], Path | None]


class Resolver:
    """What is known about modules. `locate` gives the file of a module, where it may be opened; `cache` keeps what
    binaries say; `notes` is what went wrong. Of modules that nothing else knows, `absent` are those without a file
    that can be read here, and `mute` those whose file has no name for any address."""

    def __init__(
        self, scopes: ScopeTable, described: Mapping[str, Described], locate: Locate, cache: NameCache | None = None
    ) -> None:
        self.scopes, self._described, self._locate, self._cache = scopes, described, locate, cache
        self.notes: list[str] = []
        self.absent: list[str] = []
        self.mute: list[str] = []
        self._lacks_parser = False

    def chains(self, path: str, offsets: Offsets) -> tuple[int, ScopeChains]:
        """Return the module's number in the model, and the scopes around addresses in it."""
        module = self.scopes.builder.module(readable(path))
        try:
            return module, self._chains(path, offsets, module)
        except CallgroveError as error:
            self.notes.append(f"{error}; its addresses have no names")
            return module, ScopeChains.none(len(offsets))

    def _chains(self, path: str, offsets: Offsets, module: int) -> ScopeChains:
        where = PurePosixPath(path)
        if where.name.startswith(LOGICAL_PREFIX) and (file := self._locate(path)) is not None:
            return logical_chains(file, offsets, self.scopes, module)
        if where.parent.name == KERNEL_FOLDER and (file := self._locate(path)) is not None:
            return kernel_chains(file, offsets, self.scopes, module)
        if path in self._described:
            return self._described[path].chains(offsets, self.scopes, module)
        return self._of_binary(path, offsets, module) or ScopeChains.none(len(offsets))

    def _of_binary(self, path: str, offsets: Offsets, module: int) -> ScopeChains | None:
        """Return what the module's own file says, where it is here."""
        file = self._locate(path)
        if file is None or not os.access(file, os.R_OK):
            self.absent.append(path)
            return None
        if self._lacks_parser:
            return None
        from callgrove.prof.binaries import binary_chains

        try:
            chains = binary_chains(file, offsets, self.scopes, module, self._cache)
        except MissingExtra as error:
            self._lacks_parser = True  # said once
            self.notes.append(str(error))
            return None
        if chains is None or not len(chains.scope):
            self.mute.append(path)
        return chains


def resolve(tree: RawTree, resolver: Resolver, progress: Progress = silent) -> tuple[ScopeChains, Ids]:
    """Return the chains of all regions of a tree, and the scopes of those that are entries directly below the root."""
    scopes, parts = resolver.scopes, list[ScopeChains]()
    last, relation = (np.zeros(len(tree.place), np.int32) for _ in range(2))
    entry = np.full(len(tree.place), ABSENT, np.int32)
    places = np.unique(tree.place).tolist()
    for done, place in enumerate(places):
        progress("looking up names", done, len(places))
        rows = slice(*np.searchsorted(tree.place, [place, place + 1]).tolist())
        offsets = tree.offset[rows]
        if place == CODE:
            codes = offsets.tolist()
            last[rows] = [scopes.placeholder(code) for code in codes]
            relation[rows] = Relation.CALL
            entry[rows] = [scopes.entry(code) if code in ENTRY_NAMES else ABSENT for code in codes]
            parts.append(ScopeChains.none(len(offsets)))
        elif place % 2 == BARE:
            parts.append(ScopeChains.none(len(offsets)))
            last[rows] = ABSENT
        else:
            module, chains = resolver.chains(tree.modules[place // 2 - 1], offsets)
            parts.append(chains)
            last[rows] = scopes.instructions(module, offsets)
            relation[rows] = np.where(np.diff(chains.bounds) > 0, Relation.LEXICAL, Relation.CALL)
    progress("looking up names", len(places), len(places))
    return concatenate(parts, last, relation), entry
