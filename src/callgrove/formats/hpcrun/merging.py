"""One tree of many: contexts with equal region below equal parents are one.

All trees are gone through together, level by level: a level is sorted once by (parent in the merged tree, region), so
that the work is that of sorting all nodes and no loop touches a single one. Siblings come out in the order of their
regions, so the merged tree does not depend on the order of the files.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from callgrove.model.arrays import ABSENT, Ids
from callgrove.model.orders import depths, levels

__all__ = ["Merged", "merge"]


@dataclass(frozen=True)
class Merged:
    """The tree, level by level, parents first; `contexts[k]` maps the nodes of tree k to it."""

    parent: Ids
    region: Ids
    contexts: list[Ids]


def merge(trees: Sequence[tuple[Ids, Ids]]) -> Merged:
    """Of trees given by the position of each node's parent (-1: none) and by its region."""
    sizes = [len(above) for above, _ in trees]
    starts = np.cumsum([0, *sizes])
    n = int(starts[-1])
    above, region = np.empty(n, np.int32), np.empty(n, np.int64)
    for start, (own, regions) in zip(starts.tolist(), trees, strict=False):
        part = slice(start, start + len(own))
        above[part] = np.where(own < 0, ABSENT, own + start)
        region[part] = regions
    number = np.empty(n, np.int64)
    parents: list[Ids] = []
    kinds: list[Ids] = []
    n_contexts = 0
    for level in levels(depths(above)):
        up = above[level]
        key = (np.where(up < 0, ABSENT, number[up]) + 1 << 32) | region[level]
        found, inverse = np.unique(key, return_inverse=True)
        number[level] = n_contexts + inverse
        parents.append(((found >> 32) - 1).astype(np.int32))
        kinds.append((found & 0xFFFF_FFFF).astype(np.int32))
        n_contexts += len(found)
    none = [np.empty(0, np.int32)]
    own_maps = np.split(number.astype(np.int32), starts[1:-1])
    return Merged(np.concatenate(parents or none), np.concatenate(kinds or none), own_maps)
