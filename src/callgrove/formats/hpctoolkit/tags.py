"""The tags of experiment.xml's tree, as rows: one for each context, and those that only complete one.

    PF X > C -X     around what X calls, where X is no call site itself
    PF X > S -X     below a frame that is no real function and calls nothing
    C -X > PF X     around a function that is nested in its parent; the file of the C says whether it was inlined

`experiment_xml` explains how they are read.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from callgrove.formats.hpctoolkit.prerelease_plan import Shape, TagTree
from callgrove.model.arrays import ABSENT, Bools, Ids, Ints, distinct
from callgrove.model.contexts import Relation
from callgrove.model.orders import depths, preorder

__all__ = ["Tag", "Tags"]


class Tag(IntEnum):
    """Names of elements."""

    PF = 0
    C = 1
    S = 2
    L = 3
    Pr = 4


TAG_OF_SHAPE = np.array([Tag.PF, Tag.C, Tag.S, Tag.S, Tag.L], np.int32)


@dataclass(frozen=True)
class Tags:
    """Every tag in the order of the file. `row` is the row of the tree that it belongs to; `completes` says whether it
    only completes the context of that row, so that its id is negative."""

    tag: Ids
    row: Ids
    depth: Ids
    completes: Bools
    has_children: Bools

    @classmethod
    def of(cls, tree: TagTree) -> Tags:
        n, rows = len(tree), np.flatnonzero(tree.listed)
        frame = (tree.shape == Shape.FRAME) & tree.listed
        called = frame & (tree.relation == Relation.CALL) & (tree.parent >= 0)
        nested = frame & (tree.relation != Relation.CALL) & (tree.parent >= 0)
        placed = nested & ((tree.relation == Relation.LEXICAL) | _has_call_place(tree))
        around = np.flatnonzero(placed)
        in_body = called & (tree.shape[tree.parent] != Shape.SITE) & ~placed[tree.parent]  # -X is used but once
        bodies = distinct(tree.parent[in_body])
        ends = np.setdiff1d(np.flatnonzero(tree.artificial & ~placed), bodies)

        row = np.concatenate([rows, bodies, ends, around])
        first_body, first_around = len(rows), len(rows) + len(bodies) + len(ends)
        own = np.full(n + 1, ABSENT)  # the tag of each row; the last one stands for the root
        own[rows] = np.arange(len(rows))
        body, outer = own.copy(), own.copy()
        body[bodies] = first_body + np.arange(len(bodies))
        outer[around] = first_around + np.arange(len(around))
        parent = np.full(len(row), ABSENT)
        parent[: len(rows)] = np.where(in_body, body[tree.parent], own[tree.parent])[rows]
        parent[own[around]] = outer[around]
        parent[first_body:first_around] = own[row[first_body:first_around]]
        parent[first_around:] = own[tree.parent[around]]

        sizes = (len(bodies), len(ends), len(around))
        tag = np.append(TAG_OF_SHAPE[tree.shape[rows]], np.repeat([Tag.C, Tag.S, Tag.C], sizes))
        tag[own[np.flatnonzero(nested & ~placed)]] = Tag.Pr
        order = _order(tree, row, parent, first_body, first_around)
        return cls._sort(tag, row, parent, np.arange(len(row)) >= first_body, order)

    @classmethod
    def _sort(cls, tag: Ints, row: Ints, parent: Ints, completes: Bools, order: Ints) -> Tags:
        depth = depths(parent.astype(np.int32))[order]
        has_children = np.append(depth[1:] > depth[:-1], False) if len(depth) else np.zeros(0, np.bool_)
        return cls(tag[order].astype(np.int32), row[order].astype(np.int32), depth, completes[order], has_children)

    def __len__(self) -> int:
        return len(self.tag)


def _has_call_place(tree: TagTree) -> Bools:
    """Is it known where something was inlined?"""
    n = len(tree.contexts)
    out = tree.line >= 0
    out[:n] |= tree.contexts.call_file >= 0
    return out


def _order(tree: TagTree, row: Ints, parent: Ints, first_body: int, first_around: int) -> Ints:
    """The order of the file: contexts as in the model, added call sites behind their line. What shows that a frame is
    an instruction comes first in it; what a real function calls without a call site, last."""
    n = len(tree.contexts)
    place = 2 * np.where(row < n, row, tree.line[row]) + (row >= n)
    bodies = row[first_body:first_around]
    place[first_body:first_around] = np.where(tree.artificial[bodies], -1, 2 * n + 2)
    by_place = np.argsort(place, kind="stable")
    rank = np.empty(len(row), np.int64)
    rank[by_place] = np.arange(len(row))
    sorted_parent = np.where(parent >= 0, rank[parent], ABSENT)[by_place]
    return by_place[preorder(sorted_parent.astype(np.int32))]
