"""From the merged tree of nodes to the calling context tree.

Every node asks for its chain of scopes below the last context of its parent:

    node (module, address)     function -> loop -> line -> instruction       or the instruction alone
                               `first`                     `full`

Equal scopes below one parent are one context. All nodes of a level take a step together, so no loop touches a single
node. Context 0 is global: above all entries, and no context of the model.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from callgrove.model.arrays import ABSENT, Bools, Ids, Ints
from callgrove.model.contexts import ContextKind, Relation
from callgrove.model.orders import depths, levels
from callgrove.prof.nodes import ROOT
from callgrove.prof.raw_tree import CODE, RawTree
from callgrove.prof.scopes import ScopeChains

__all__ = ["Contexts", "contexts_of"]


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
        """Instructions inside of what is known about them; `kind` is that of scopes."""
        found: Bools = (kind[self.scope] == ContextKind.INSTRUCTION) & (self.relation == Relation.LEXICAL)
        found[0] = False
        return found


def contexts_of(tree: RawTree, chains: ScopeChains, entry: Ids) -> Contexts:
    """`chains` are those of the tree's regions; a region whose chain is -1 has no context. `entry` is the scope that a
    region has instead directly below the root, -1 for most."""
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
        """The child of each context with that scope and relation; new ones are made."""
        key = (above.astype(np.int64) << 32) | (relation.astype(np.int64) << 30) | scope
        found, inverse = np.unique(key, return_inverse=True)
        self.parents.append((found >> 32).astype(np.int32))
        self.relations.append(((found >> 30) & 3).astype(np.int32))
        self.scopes.append((found & (1 << 30) - 1).astype(np.int32))
        made: Ids = (self.n + inverse).astype(np.int32)
        self.n += len(found)
        return made

    def put_in_order(self) -> Contexts:
        """Contexts in the order of depth, then of parents, relations and scopes."""
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
