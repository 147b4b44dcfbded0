"""From the merged tree of nodes to the calling context tree.

Every node asks for its chain of scopes below the last context of its parent:

    node (module, address)     function -> loop -> line -> instruction       or the instruction alone
                               `first`                     `full`

Equal scopes below one parent are one context. All nodes of a level take a step together, so no loop touches a single
node. Context 0 is global: above all entries, and no context of the model.
"""

from __future__ import annotations

from array import array
from collections.abc import Hashable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from callgrove.arrays import ABSENT, Array, Bools, Ids, Ints, Offsets, depths, levels
from callgrove.formats.hpcrun import regions as placeholders
from callgrove.formats.hpcrun.regions import readable
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.contexts import LAST_LINE, ContextKind, Relation
from callgrove.prof.nodes import CODE, IDLE, MAIN, PARTIAL, ROOT, THREAD, UNKNOWN, RawTree

__all__ = ["ENTRY_NAMES", "Contexts", "ScopeChains", "ScopeTable", "concatenate", "contexts_of"]


# -- scopes: what contexts execute -------------------------------------------------------------------------------------
# Two contexts below one parent are one where their scopes and relations are equal. What makes scopes equal is not
# always what makes regions equal: two inlined copies of a function are two scopes of one region.


ENTRY_NAMES = {PARTIAL: "unknown entry", MAIN: "main thread", THREAD: "application thread"}
UNKNOWN_FUNCTION = "<unknown function>"


class ScopeChains(NamedTuple):
    """Scopes around some addresses, outermost first: those of address k are `scope[bounds[k]:bounds[k + 1]]`."""

    bounds: Ints
    scope: Ids
    relation: Ids

    @classmethod
    def none(cls, n: int) -> ScopeChains:
        """Return chains in which nothing is known about n addresses."""
        empty = np.empty(0, np.int32)
        return cls(np.zeros(n + 1, np.int64), empty, empty)


class ScopeTable:
    """All scopes that occur, with the kind and the region of each; there is always a number 0, for what is above all
    entries."""

    def __init__(self, builder: ExperimentBuilder) -> None:
        self.builder = builder
        self._known: dict[Hashable, int] = {}
        self._kind, self._region = array("i"), array("i")

    @property
    def kind(self) -> Ids:
        return np.array(self._kind or [ContextKind.UNKNOWN], np.int32)

    @property
    def region(self) -> Ids:
        return np.array(self._region or [ABSENT], np.int32)

    def add(self, identity: Hashable, kind: ContextKind, region: int) -> int:
        """Return the scope with that identity; what is said first about it stays."""
        number = self._known.setdefault(identity, len(self._kind))
        if number == len(self._kind):
            self._kind.append(kind)
            self._region.append(region)
        return number

    def function(self, identity: Hashable, name: str, file: int, line: int, module: int, offset: int | None) -> int:
        """Return the scope of a function, or of an inlined one: `identity` tells copies of it apart."""
        return self.add(
            identity, ContextKind.FUNCTION, self._place(ContextKind.FUNCTION, name, file, line, module, offset)
        )

    def line(self, file: int, line: int) -> int:
        return self.add(("line", file, line), ContextKind.LINE, self._place(ContextKind.LINE, "", file, line))

    def loop(self, file: int, line: int, module: int, offset: int | None) -> int:
        region = self._place(ContextKind.LOOP, "", file, line, module, offset)
        return self.add(("loop", file, line, module, offset), ContextKind.LOOP, region)

    def _place(
        self, kind: ContextKind, name: str, file: int, line: int, module: int = ABSENT, offset: int | None = None
    ) -> int:
        known = line if file >= 0 and line <= LAST_LINE else ABSENT
        return self.builder.region(kind, name, file=file, line=known, module=module, offset=offset)

    def entry(self, code: int) -> int:
        """Return the scope of an entry point."""
        name = ENTRY_NAMES[code]
        return self.add(("entry", code), ContextKind.ENTRY, self.builder.region(ContextKind.ENTRY, name))

    def placeholder(self, code: int) -> int:
        """Return what a node of module 0 stands for."""
        if code == UNKNOWN:
            region = self.builder.region(ContextKind.UNKNOWN, UNKNOWN_FUNCTION)
            return self.add("unknown", ContextKind.UNKNOWN, region)
        name = "<no activity>" if code == IDLE else placeholders.describe(code)[1]
        region = self.builder.region(ContextKind.PLACEHOLDER, readable(name))
        return self.add(("placeholder", code), ContextKind.PLACEHOLDER, region)

    def instructions(self, module: int, offset: Offsets) -> Ids:
        """Return the instructions of a module, which must not have been asked for before."""
        first = len(self._kind)
        regions = self.builder.addresses(ContextKind.INSTRUCTION, np.full(len(offset), module), offset)
        self._kind.frombytes(np.full(len(offset), ContextKind.INSTRUCTION, np.int32).tobytes())
        self._region.frombytes(np.asarray(regions, np.int32).tobytes())
        return np.arange(first, first + len(offset), dtype=np.int32)


def concatenate(parts: list[ScopeChains], last: Array, relation: Array) -> ScopeChains:
    """Return the chains of all parts, one after the other, each with one more scope at its end."""
    lengths = np.concatenate([np.diff(part.bounds) for part in parts]) if parts else np.empty(0, np.int64)
    bounds = np.append(0, np.cumsum(lengths + 1))
    ends = bounds[1:] - 1
    inner = np.ones(int(bounds[-1]), np.bool_)
    inner[ends] = False
    out = [np.empty(len(inner), np.int32) for _ in range(2)]
    for column, (one, final) in zip(out, (("scope", last), ("relation", relation)), strict=True):
        column[inner] = np.concatenate([getattr(part, one) for part in parts]) if parts else []
        column[ends] = final
    return ScopeChains(bounds, *out)


# -- the calling context tree ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Contexts:
    """Contexts level by level, children of one parent side by side; `first` and `full` of every node of the tree, -1
    for those that have none."""

    parent: Ids
    scope: Ids
    relation: Ids
    depth: Ids
    first: Ids
    full: Ids

    def __len__(self) -> int:
        return len(self.parent)

    def is_elided(self, kind: Ids) -> Bools:
        """Return which contexts are instructions inside of what is known about them; `kind` is that of scopes."""
        elided: Bools = (kind[self.scope] == ContextKind.INSTRUCTION) & (self.relation == Relation.LEXICAL)
        elided[0] = False
        return elided


def contexts_of(tree: RawTree, chains: ScopeChains, entry: Ids) -> Contexts:
    """Return the contexts of a tree. `chains` are those of the tree's regions; a region whose chain is -1 has no
    context. `entry` is the scope that a region has instead directly below the root, -1 for most."""
    grown = _Growth(tree, chains, entry)
    for level in levels(depths(tree.parent)):
        grown.add(level)
    return grown.put_in_order()


class _Growth:
    def __init__(self, tree: RawTree, chains: ScopeChains, entry: Ids) -> None:
        self.tree, self.chains, self.entry = tree, chains, entry
        self.parents: list[Ids] = [np.array([ABSENT], np.int32)]
        self.scopes: list[Ids] = [np.array([0], np.int32)]
        self.relations: list[Ids] = [np.array([Relation.CALL], np.int32)]
        self.n = 1
        self.first, self.full = (np.full(len(tree), ABSENT, np.int32) for _ in range(2))

    def add(self, level: Ints) -> None:
        tree, region = self.tree, self.tree.region[level]
        is_root = (tree.parent[level] < 0) & (tree.place[region] == CODE) & (tree.offset[region] == np.uint64(ROOT))
        self.first[level[is_root]] = self.full[level[is_root]] = 0
        above = np.where(tree.parent[level] >= 0, self.full[tree.parent[level]], ABSENT)
        start, end = self.chains.bounds[region], self.chains.bounds[region + 1]
        going = ~is_root & (above >= 0) & (self.chains.scope[start] >= 0)
        nodes, above, start, end = level[going], above[going], start[going], end[going]
        step = 0
        while len(nodes):
            scope, relation = self.chains.scope[start + step], self.chains.relation[start + step]
            if step == 0:
                entry = self.entry[tree.region[nodes]]
                scope = np.where((above == 0) & (entry >= 0), entry, scope)
            above = self._step(above, scope, relation)
            if step == 0:
                self.first[nodes] = above
            self.full[nodes] = above
            step += 1
            more = start + step < end
            nodes, above, start, end = nodes[more], above[more], start[more], end[more]

    def _step(self, above: Ids, scope: Ids, relation: Ids) -> Ids:
        """Return the child of each context with that scope and relation; new ones are made."""
        key = (above.astype(np.int64) << 32) | (relation.astype(np.int64) << 30) | scope
        keys, inverse = np.unique(key, return_inverse=True)
        self.parents.append((keys >> 32).astype(np.int32))
        self.relations.append(((keys >> 30) & 3).astype(np.int32))
        self.scopes.append((keys & (1 << 30) - 1).astype(np.int32))
        made: Ids = (self.n + inverse).astype(np.int32)
        self.n += len(keys)
        return made

    def put_in_order(self) -> Contexts:
        """Return contexts in the order of depth, then of parents, relations and scopes."""
        parent, scope, relation = (np.concatenate(c) for c in (self.parents, self.scopes, self.relations))
        depth = depths(parent)
        number = np.full(len(parent) + 1, ABSENT, np.int32)  # -1 picks the last
        sequence, n = [], 0
        for level in levels(depth):
            order = level[np.lexsort((scope[level], relation[level], number[parent[level]]))]
            number[order] = np.arange(n, n + len(order))
            sequence.append(order)
            n += len(order)
        order = np.concatenate(sequence)
        columns = (number[parent[order]], scope[order], relation[order], depth[order])
        return Contexts(*columns, number[self.first], number[self.full])
