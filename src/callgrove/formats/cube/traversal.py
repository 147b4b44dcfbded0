"""Row positions: which cnode a row belongs to.

    preorder   a cnode, then each child with all below it                              exclusive metrics
    wide       each root: itself; then all its children, then each child's children
               in turn, with all below them before the next child's                   inclusive and simple metrics

        0                    preorder   0 1 2 3 4 5 6
        |-- 1 -- 2, 3        wide       0 1 4 6 2 3 5
        |-- 4 -- 5
        `-- 6

Wide is not breadth-first: what lies below 1 comes whole before what lies below 4.
"""

from __future__ import annotations

import numpy as np

from callgrove.model.arrays import Ids, Ints

__all__ = ["wide_order"]


def wide_order(parent: Ids) -> Ints:
    """For every position in the wide order, the cnode that stands there; `parent` is in preorder.

    The children of x are emitted right after everything emitted for the earlier siblings of x and below them, that is:
    the list of emitted families is the preorder of the parents.
    """
    n = len(parent)
    roots = np.flatnonzero(parent < 0)
    # A family is the children of one cnode. Families follow one another in preorder of their parents; a root stands
    # before all families of its tree.
    tree = np.searchsorted(roots, np.arange(n), side="right") - 1
    is_root = parent < 0
    family = np.where(is_root, -1, parent)
    return np.lexsort((np.arange(n), family, tree))
