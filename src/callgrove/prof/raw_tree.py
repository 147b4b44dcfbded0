"""Trees of nodes that are known by a module and an address, and one tree of many.

    place     0                      nodes that are no addresses: `offset` is their code
              2 * (module + 1)       addresses in a module, numbered in the order of the modules' paths
              2 * (module + 1) + 1   the same, where the tool could not see who called (`BARE`)

Nodes stand level by level, those of a level by parent and region, so (parent, region) rises over the whole tree and a
node is found by binary search. The tree does not depend on the order in which it was merged.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from callgrove.formats.hpcrun.merging import merge
from callgrove.formats.hpcrun.regions import Region, Regions
from callgrove.model.arrays import ABSENT, Ids, Ints, Offsets
from callgrove.model.orders import depths, levels

__all__ = ["BARE", "CODE", "RawTree", "place_of", "place_table", "translated"]

CODE = 0  # the place of placeholders
BARE = 1  # added to the place of addresses whose callers are not known


def place_of(module: int, is_bare: bool = False) -> int:
    """The place of addresses in a module."""
    return 2 * (module + 1) + is_bare


def place_table(modules: Iterable[str], others: Sequence[str]) -> Ints:
    """From places where modules are numbered in one order to those where they are numbered in another."""
    number = {path: k for k, path in enumerate(others)}
    return np.array([CODE, *(place_of(number[path]) for path in modules)], np.int64)


def translated(place: Ints, table: Ints) -> Ints:
    """The same places where modules are numbered otherwise."""
    moved: Ints = table[place >> 1] + (place & 1)
    return moved


@dataclass(frozen=True)
class RawTree:
    """`parent` and `region` of each node; regions are sorted by place and offset. Paths of modules are sorted."""

    modules: tuple[str, ...]
    place: Ints
    offset: Offsets
    parent: Ids
    region: Ids

    def __len__(self) -> int:
        return len(self.parent)

    @classmethod
    def of(cls, modules: tuple[str, ...], trees: Sequence[tuple[Ids, Ints, Offsets]]) -> RawTree:
        """Of trees given by parents (in any order), places and offsets; `modules` are those that places name."""
        regions = Regions()
        own = [regions.add(place, offset) for _, place, offset in trees]
        known, maps = regions.all()
        merged = merge([(above, maps[k][own[k]]) for k, (above, _, _) in enumerate(trees)])
        return cls(modules, known.place, known.offset, merged.parent, merged.region)

    def merged(self, other: RawTree) -> RawTree:
        """One tree of two."""
        modules = tuple(sorted({*self.modules, *other.modules}))
        regions = Regions()
        for tree in (self, other):
            regions.add_known(Region(translated(tree.place, place_table(tree.modules, modules)), tree.offset))
        known, maps = regions.all()
        merged = merge([(tree.parent, own[tree.region]) for tree, own in zip((self, other), maps, strict=True)])
        return RawTree(modules, known.place, known.offset, merged.parent, merged.region)

    @cached_property
    def keys(self) -> Ints:
        """(parent, region) of each node as one number, ascending."""
        return (self.parent.astype(np.int64) + 1 << 32) | self.region

    @cached_property
    def _bounds(self) -> Ints:
        """Where the regions of each place begin."""
        last = int(self.place[-1]) if len(self.place) else -1
        return np.searchsorted(self.place, np.arange(last + 2))

    def regions_of(self, place: Ints, offset: Offsets) -> Ints:
        """The region of each (place, offset); -1 where there is none."""
        out = np.full(len(place), ABSENT, np.int64)
        for one in np.unique(place).tolist():
            if one + 1 >= len(self._bounds):
                continue
            first, last = int(self._bounds[one]), int(self._bounds[one + 1])
            rows = np.flatnonzero(place == one)
            at = first + np.searchsorted(self.offset[first:last], offset[rows])
            inside = at < last
            rows, at = rows[inside], at[inside]
            same = self.offset[at] == offset[rows]
            out[rows[same]] = at[same]
        return out

    def find(self, above: Ids, place: Ints, offset: Offsets) -> Ids:
        """The node of this tree that each node of another one is; -1 where there is none."""
        region = self.regions_of(place, offset)
        out = np.full(len(above) + 1, ABSENT, np.int32)  # -1 picks the last: above a root is nothing
        for number, level in enumerate(levels(depths(above))):
            up = out[above[level]]
            at = self.search(up, region[level])
            out[level] = np.where((up >= 0) | (number == 0), at, ABSENT)
        return out[:-1]

    def search(self, parent: Ids, region: Ints) -> Ids:
        """The child of each parent (-1: a root) with that region; -1 where there is none."""
        wanted = (parent.astype(np.int64) + 1 << 32) | np.maximum(region, 0)
        at = np.minimum(np.searchsorted(self.keys, wanted), len(self) - 1)
        found = (region >= 0) & (self.keys[at] == wanted) if len(self) else np.zeros(len(region), np.bool_)
        return np.where(found, at, ABSENT).astype(np.int32)
