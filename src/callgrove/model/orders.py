"""Passes over a tree given by parents: preorder, depths, sums over subtrees.

    parent       -1  0  1  1  0        a root, its children, in preorder
    subtree_end   5  4  3  4  5        the subtree of c is the slice [c, subtree_end[c])

Depth is bounded by nothing (compilers nest more than a thousand levels), so nothing here recurses.
"""

from __future__ import annotations

import numpy as np

from callgrove.model.arrays import ABSENT, Array, Bools, Ids, Ints

__all__ = [
    "combine_upwards",
    "cycles",
    "depths",
    "levels",
    "nearest_above",
    "preorder",
    "subtract_children",
    "subtree_ends",
]

WIDE_ROWS = 64  # profiles


def depths(parent: Ids) -> Ids:
    """Distance to the root, 0 for roots, by pointer jumping: log(depth) passes over any order of contexts.

    Contexts on a cycle never reach a root and keep -1.
    """
    n = len(parent)
    jump = np.where(parent < 0, n, parent).astype(np.int64)  # n stands above every root
    steps = np.ones(n + 1, np.int64)
    steps[n] = 0
    jump = np.append(jump, n)
    for _ in range(max(1, n.bit_length() + 1)):
        if (jump == n).all():
            break
        steps += steps[jump]
        jump = jump[jump]
    out = steps[:n] - 1
    out[jump[:n] != n] = ABSENT
    return out.astype(np.int32)


def cycles(parent: Ids) -> Ints:
    """Contexts that are their own ancestor, or lie below one that is."""
    return np.flatnonzero(depths(parent) < 0)


def preorder(parent: Ids) -> Ints:
    """The order that puts every context before its children and keeps siblings as they were given.

    `parent` may be in any order but must be free of cycles.
    """
    n = len(parent)
    if _is_preorder(parent):
        return np.arange(n, dtype=np.int64)
    depth = depths(parent)
    size = np.ones(n, np.int64)
    for level in reversed(levels(depth)[1:]):
        np.add.at(size, parent[level], size[level])
    # position = sum over the ancestors of 1 + the sizes of their earlier siblings
    siblings = np.argsort(parent, kind="stable")
    before = np.cumsum(size[siblings]) - size[siblings]
    first = np.flatnonzero(np.diff(parent[siblings], prepend=-2))
    before -= np.repeat(before[first], np.diff(np.append(first, n)))
    position = np.empty(n, np.int64)
    position[siblings] = before
    for level in levels(depth)[1:]:
        position[level] += position[parent[level]] + 1
    order = np.empty(n, np.int64)
    order[position] = np.arange(n)
    return order


def _is_preorder(parent: Ids) -> bool:
    """One loop: each parent must be on the path from the root to the context before."""
    path: list[int] = []
    for context, above in enumerate(parent.tolist()):
        while path and path[-1] != above:
            path.pop()
        if above >= 0 and not path:
            return False
        path.append(context)
    return True


def subtree_ends(parent: Ids) -> Ids:
    """One past the last context of each subtree, for contexts in preorder."""
    ends = list(range(1, len(parent) + 1))
    above = parent.tolist()
    for context in range(len(ends) - 1, -1, -1):
        up = above[context]
        if up >= 0 and ends[up] < ends[context]:
            ends[up] = ends[context]
    return np.array(ends, np.int32)


def nearest_above(chosen: Bools, owner: Ids) -> Ids:
    """For each chosen context the nearest chosen one among its owners, their owners and so on; -1 where there is none,
    and for contexts that are not chosen."""
    out = np.where(chosen, owner, ABSENT)
    while len(climbing := np.flatnonzero((out >= 0) & ~chosen[out])):
        out[climbing] = owner[out[climbing]]
    return np.where(out >= 0, out, ABSENT).astype(np.int32)


def levels(depth: Ids) -> list[Ints]:
    """Contexts of each depth, roots first."""
    if not len(depth):
        return []
    order = np.argsort(depth, kind="stable")
    bounds = np.searchsorted(depth[order], np.arange(1, int(depth.max()) + 1))
    return np.split(order, bounds)


def combine_upwards(
    values: Array, parent: Ids, by_level: list[Ints], ufunc: np.ufunc = np.add, out: Array | None = None
) -> Array:
    """Each context's value combined with those of everything below it. Level by level: no cancellation, as a
    difference of running sums would have. `values` may be (contexts) or (contexts x profiles); `out` may be them."""
    if out is None:
        out = values.copy()
    with np.errstate(invalid="ignore", over="ignore"):  # values need not be finite
        if out.ndim > 1 and out.shape[1] >= WIDE_ROWS:
            _combine_rows(out, parent, by_level, ufunc)
            return out
        for level in reversed(by_level[1:]):
            ufunc.at(out, parent[level], out[level])
    return out


def _combine_rows(out: Array, parent: Ids, by_level: list[Ints], ufunc: np.ufunc) -> None:
    """The same, row by row: long rows are added faster one after the other than gathered first."""
    for level in reversed(by_level[1:]):
        for context, above in zip(level.tolist(), parent[level].tolist(), strict=True):
            ufunc(out[above], out[context], out=out[above])


def subtract_children(values: Array, owner: Ids) -> Array:
    """Each context's value less the values of the contexts that it owns (`owner` -1: owned by none).

    What remains of a difference of equal sums is rounding, not cost: it becomes zero.
    """
    owned = np.flatnonzero(owner >= 0)
    taken = np.zeros_like(values)
    with np.errstate(invalid="ignore", over="ignore"):  # values need not be finite
        if values.ndim > 1 and values.shape[1] >= WIDE_ROWS:
            for context, above in zip(owned.tolist(), owner[owned].tolist(), strict=True):
                taken[above] += values[context]
        else:
            np.add.at(taken, owner[owned], values[owned])
        out: Array = values - taken
        if np.issubdtype(out.dtype, np.floating):
            out[np.isfinite(out) & (np.abs(out) <= 1e-12 * np.maximum(np.abs(values), np.abs(taken)))] = 0
    return out
