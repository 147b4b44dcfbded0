"""The call tree as targets see it: stacks of frames, each different stack once.

A frame is what a target shows of a context: its function or loop. Lines, call sites and instructions are not frames of
their own: they belong to the frame of their `owner`. Contexts whose stacks read the same become one node:

    contexts   main > main.c:3 > f      main > main.c:9 > f > f.c:2
    nodes      main > f                 the same
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from callgrove.arrays import ABSENT, Array, Ids, Ints, Names, depths, distinct_rows, levels, preorder
from callgrove.model.contexts import ContextTree
from callgrove.model.table import visible

__all__ = ["Frames", "Labels", "clean_name", "merge_stacks", "owners"]

UNNAMED = "<unnamed>"


def owners(tree: ContextTree, is_frame: Array) -> Ids:
    """Return the nearest frame at or above every context of the tree; roots are frames always."""
    out = np.arange(tree.n_listed, dtype=np.int32)
    for level in tree.levels[1:]:
        out[level] = np.where(is_frame[level], level, out[tree.parent[level]])
    return out


@dataclass(frozen=True)
class Labels:
    """What contexts are called: `of` numbers the names of all contexts, and `context` is one that has each name."""

    of: Ints
    context: Ints
    names: tuple[str, ...]

    @classmethod
    def short(cls, tree: ContextTree) -> Labels:
        """Return short labels. Contexts of one region share one, unless they have parameters or no region."""
        n = tree.n_listed
        special = tree.region[:n] < 0
        special[[context for context in tree.parameters if context < n]] = True
        key = np.where(special, len(tree.regions) + np.arange(n), tree.region[:n]).astype(np.int64)
        _, first, of = np.unique(key, return_index=True, return_inverse=True)
        return cls(of.reshape(-1), first, tuple(tree.short_label(context) for context in first.tolist()))

    def merge(self, names: list[str]) -> tuple[Ints, list[str]]:
        """Return the number of every context's name among other names for these, each once."""
        different = Names()
        numbers = different.numbers(names).astype(np.int64)
        return numbers[self.of], different.all


def clean_name(name: str, forbidden: str = "") -> str:
    """Return a name in one line that can be encoded, with : in place of a character that has a meaning."""
    text = visible(name) or UNNAMED
    return text.replace(forbidden, ":") if forbidden else text


@dataclass(frozen=True)
class Frames:
    """Different stacks as a tree, in preorder: `key` is what the innermost frame of each shows. `node` is that of every
    context of the call tree, `first` the first context of each node."""

    parent: Ids
    depth: Ids
    key: Ints
    first: Ints
    node: Ints

    def __len__(self) -> int:
        return len(self.parent)

    def add_up(self, costs: Array) -> Array:
        """Return the costs of contexts as those of nodes. Integers stay such."""
        out = np.zeros(len(self), costs.dtype)
        np.add.at(out, self.node, costs)
        return out


def merge_stacks(tree: ContextTree, owner: Ids, key: Ints) -> Frames:
    """Return the different stacks. `owner` is the frame that each context belongs to, `key` what is shown of the frame
    where this context is the innermost one."""
    above = tree.parent[owner]
    depth = np.zeros(tree.n_listed, np.int32)
    for level in tree.levels[1:]:
        depth[level] = np.where(above[level] >= 0, depth[above[level]] + 1, 0)
    node = np.full(tree.n_listed, ABSENT, np.int64)
    parents, keys, firsts, n = [np.empty(0, np.int64)], [np.empty(0, np.int64)], [np.empty(0, np.int64)], 0
    for contexts in levels(depth):
        higher = np.where(above[contexts] >= 0, node[above[contexts]], ABSENT)
        pairs, number = distinct_rows(higher, key[contexts])
        first = np.full(pairs.shape[1], tree.n_listed, np.int64)
        np.minimum.at(first, number, contexts)
        order = np.argsort(first, kind="stable")
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        node[contexts] = n + place[number]
        for column, cells in ((parents, pairs[0]), (keys, pairs[1]), (firsts, first)):
            column.append(cells[order])
        n += len(order)
    return _in_preorder(np.concatenate(parents).astype(np.int32), np.concatenate(keys), np.concatenate(firsts), node)


def _in_preorder(parent: Ids, key: Ints, first: Ints, node: Ints) -> Frames:
    order = preorder(parent)
    place = np.append(np.empty(len(order), np.int32), np.int32(ABSENT))
    place[order] = np.arange(len(order), dtype=np.int32)
    moved = place[parent[order]]
    return Frames(moved, depths(moved), key[order], first[order], place[node].astype(np.int64))
