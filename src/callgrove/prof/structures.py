"""Structure files: found in measurement directories or named, read where they describe a module that was measured.

A module is covered as soon as one file describes it: an address that lies in none of its ranges has no scopes, and
nothing else is asked. Files that cannot be read are treated as absent, and said.
"""

from __future__ import annotations

import mmap
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import unescape

import numpy as np

from callgrove.errors import CallgroveError
from callgrove.formats.hpcrun.hpcstruct_reader import read_structure
from callgrove.formats.hpcrun.hpcstruct_tables import ScopeKind, Structure
from callgrove.formats.hpcrun.regions import readable
from callgrove.model.arrays import ABSENT, NO_OFFSET, Ids, Offsets
from callgrove.model.contexts import Relation
from callgrove.prof.scopes import ScopeChains, ScopeTable

__all__ = ["Described", "Structures", "structure_files"]

FOLDER, SUFFIX = "structs", ".hpcstruct"
MODULE_NAME = re.compile(rb'<LM\s[^>]*?\bn="([^"]*)"')
ENTITIES = {"&quot;": '"', "&apos;": "'"}
INLINED, PROCEDURE, LOOP = int(ScopeKind.INLINED), int(ScopeKind.PROCEDURE), int(ScopeKind.LOOP)
NOWHERE = int(NO_OFFSET)


def structure_files(folders: Iterable[Path]) -> list[Path]:
    """The structure files of measurement directories."""
    return [path for folder in folders for path in sorted((folder / FOLDER).glob(f"*{SUFFIX}"))]


@dataclass(frozen=True)
class Described:
    """A module as a structure file describes it."""

    structure: Structure
    number: int  # of the module in the structure

    def chains(self, offsets: Offsets, scopes: ScopeTable, module: int) -> ScopeChains:
        """The scopes around each address, from the function to the line."""
        found = self.structure.chains(self.structure.lookup(self.number, offsets))
        rows, inverse = np.unique(found.scope, return_inverse=True)
        made = np.array([self._scope(row, scopes, module) for row in rows.tolist()], np.int32)
        kind = self.structure.scopes.kind[found.scope]
        relation = np.where(kind == INLINED, Relation.INLINED, Relation.LEXICAL).astype(np.int32)
        starts = found.bounds[:-1][np.diff(found.bounds) > 0]
        relation[starts] = Relation.CALL
        return ScopeChains(found.bounds, made[inverse] if len(made) else found.scope, relation)

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
        """The function that each address lies in; -1 where there is none."""
        found = self.structure.lookup(self.number, offsets)
        return np.where(found >= 0, self.structure.scopes.procedure[found], ABSENT).astype(np.int32)


class Structures:
    """What structure files say about the modules that were measured. `notes` are those that are of no use, `damage`
    those that cannot be read."""

    def __init__(self, files: Sequence[Path], named: Sequence[Path], modules: Mapping[str, Sequence[str]]) -> None:
        """`modules` maps the measured path of a module to all spellings that structure files may have for it."""
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
    """The modules that a file describes, without parsing it."""
    with file.open("rb") as opened:
        if not opened.seek(0, 2):
            return []
        with mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as content:
            found = [match[1] for match in MODULE_NAME.finditer(content)]
    return [unescape(name.decode("utf-8", "surrogateescape"), ENTITIES) for name in found]
