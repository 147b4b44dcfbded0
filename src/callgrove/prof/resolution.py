"""From (module, address) to the scopes around it; the first that knows a module answers for it.

    logical files    names of files that begin with HPCLOGICAL
    kernel symbols   modules in kernel_symbols/
    structure files  also where an address lies in none of their ranges
    the binary       where it is here: debugging information, symbols
    nothing          the instruction alone

hpcrun-and-prof.md 6.2.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath

import numpy as np

from callgrove.errors import CallgroveError, MissingExtra
from callgrove.formats.hpcrun.regions import readable
from callgrove.formats.interface import Progress, silent
from callgrove.model.arrays import ABSENT, Ids, Offsets
from callgrove.model.contexts import Relation
from callgrove.prof.name_cache import NameCache
from callgrove.prof.raw_tree import BARE, CODE, RawTree
from callgrove.prof.scopes import ENTRY_NAMES, ScopeChains, ScopeTable, concatenated
from callgrove.prof.structures import Described
from callgrove.prof.symbols import KERNEL_FOLDER, LOGICAL_PREFIX, kernel_chains, logical_chains

__all__ = ["Resolver", "resolved"]

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
        """The module's number in the model, and the scopes around addresses in it."""
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
        """What the module's own file says, where it is here."""
        file = self._locate(path)
        if file is None or not os.access(file, os.R_OK):
            self.absent.append(path)
            return None
        if self._lacks_parser:
            return None
        from callgrove.prof.binaries import binary_chains

        try:
            found = binary_chains(file, offsets, self.scopes, module, self._cache)
        except MissingExtra as error:
            self._lacks_parser = True  # said once
            self.notes.append(str(error))
            return None
        if found is None or not len(found.scope):
            self.mute.append(path)
        return found


def resolved(tree: RawTree, resolver: Resolver, progress: Progress = silent) -> tuple[ScopeChains, Ids]:
    """The chains of all regions of a tree, and the scopes of those that are entries directly below the root."""
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
    return concatenated(parts, last, relation), entry
