"""The system: a tree of the places where profiles live, with attributes and topologies.

Where a file tells no tree, identifier tuples make one. Groups are shared by equal prefixes; each profile is a leaf of
its own, because tuples are not unique. A profile makes its new groups from the outside in, and then its leaf:

    profile            0: node 0, rank 0          1: node 0, rank 1     2: node 0, rank 1
    place              0 node   1 process  2 .    3 process  4 .        5 .
    parent            -1        0          1      0          3          3

All of it is columns; the name of a place is made when it is shown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from callgrove.arrays import (
    ABSENT,
    Array,
    Bools,
    Encoded,
    Ids,
    Ints,
    LazyColumn,
    Offsets,
    absent_stays,
    distinct,
    in_order,
    new_numbers,
    take_items,
)
from callgrove.model.profiles import Profiles

__all__ = ["System", "Topology", "follows_from_identifiers", "system_of", "take_system"]


@dataclass(frozen=True)
class Topology:
    """A Cartesian arrangement: coordinates of system nodes."""

    name: str
    sizes: tuple[int, ...]
    periodic: tuple[bool, ...]
    dimension_names: tuple[str, ...]
    system: Ids  # which node of the system tree
    coordinates: Ints  # (len(system) x dimensions)

    def renumber(self, new: Ids) -> Topology:
        """Return the topology over nodes with other numbers; those without one (-1) are left out."""
        kept = new[self.system] >= 0
        return replace(self, system=new[self.system[kept]], coordinates=self.coordinates[kept])


@dataclass(frozen=True)
class System:
    """A tree of places; parents come before children, -1 is absent."""

    parent: Ids
    kind: Sequence[str]
    name: Sequence[str]
    rank: Ints
    attributes: Mapping[int, Mapping[str, str]] = field(default_factory=dict)
    topologies: tuple[Topology, ...] = ()
    source_id: Ints = field(default_factory=lambda: np.empty(0, np.int64))

    def __len__(self) -> int:
        return len(self.parent)

    def path(self, node: int) -> list[int]:
        """Return the node and everything above it, the outermost last."""
        out = [node]
        while (above := int(self.parent[out[-1]])) >= 0:
            out.append(above)
        return out

    def is_part_of(self, node: int, kind: str) -> bool:
        """Return whether a node, or one above it, is of a kind; -1 is no node."""
        return node >= 0 and any(self.kind[place] == kind for place in self.path(node))

    def above(self, nodes: Ints | Ids) -> Bools:
        """Return True for these nodes and everything above them."""
        out = np.zeros(len(self), np.bool_)
        fresh: Array = nodes
        while len(fresh):
            out[fresh] = True
            parents = distinct(self.parent[fresh])
            fresh = parents[(parents >= 0) & ~out[parents]]
        return out

    def nearest(self, kind: str) -> Ids:
        """Return for every place the nearest one of a kind, itself or above it; -1 where there is none."""
        if isinstance(self.kind, Encoded):
            is_one = np.array([known == kind for known in self.kind.table], np.bool_)[self.kind.codes]
        else:
            is_one = np.fromiter((known == kind for known in self.kind), np.bool_, len(self))
        out = np.where(is_one, np.arange(len(self), dtype=np.int32), self.parent)
        while not np.array_equal(further := np.append(out, ABSENT)[out], out):  # twice as far each time
            out = further
        return out.astype(np.int32)

    def take(self, nodes: Ints) -> System:
        """Return some of the nodes, in ascending order, with all above them."""
        new = absent_stays(new_numbers(nodes, len(self)))
        return System(
            new[self.parent[nodes]],
            take_items(self.kind, nodes),
            take_items(self.name, nodes),
            self.rank[nodes],
            {int(new[k]): a for k, a in self.attributes.items() if new[k] >= 0},
            tuple(t for topology in self.topologies if len((t := topology.renumber(new)).system)),
            self.source_id[nodes] if len(self.source_id) else self.source_id,
        )


# -- the tree that identifiers make ------------------------------------------------------------------------------------


# The identifiers that make a level of the tree, from the outside in; the innermost thing is the profile itself.
LEVELS = (("NODE", "node"), ("RANK", "process"), ("GPUDEVICE", "device"), ("GPUCONTEXT", "context"))
LEAF = len(LEVELS)
KINDS = (*(kind for _, kind in LEVELS), "thread")


class PlaceNames(LazyColumn[str]):
    """Names of places that identifiers make: `process 3`, and the label of its profile for a leaf. `number` is the
    group's own, or the profile."""

    def __init__(self, level: Array, number: Offsets, profiles: Profiles) -> None:
        self._level, self._number, self._profiles = level, number, profiles

    def __len__(self) -> int:
        return len(self._level)

    def make_item(self, row: int) -> str:
        level, number = int(self._level[row]), int(self._number[row])
        return self._profiles.label(number) if level == LEAF else f"{KINDS[level]} {number}"

    def take(self, rows: Ints) -> PlaceNames:
        return PlaceNames(self._level[rows], self._number[rows], self._profiles)

    def are_of(self, profiles: Profiles, n_places: int) -> bool:
        """Tell whether these are all names that the identifiers of these very profiles make."""
        made = self._profiles
        same = made.identifiers is profiles.identifiers and made.name is profiles.name and made.kind is profiles.kind
        return same and len(self) == n_places


@dataclass(frozen=True)
class _Groups:
    """The groups of one level: the measured profile that comes first in each, its number and the group above."""

    level: int
    first: Ints
    number: Offsets
    above: Ints


def system_of(profiles: Profiles) -> tuple[System, Ids]:
    """Return the system tree that identifier tuples describe, and the leaf of every profile."""
    measured = profiles.measured
    groups, innermost = _group_levels(profiles)
    n_new = np.zeros(len(measured), np.int64)  # groups that a profile is the first of
    for one in groups:
        n_new[one.first] += 1
    leaf = np.cumsum(n_new + 1) - 1
    n_places = int(leaf[-1]) + 1 if len(leaf) else 0
    level, parent = np.full(n_places, LEAF, np.uint8), np.full(n_places, ABSENT, np.int32)
    number, rank = np.zeros(n_places, np.uint64), np.full(n_places, ABSENT, np.int64)
    place = np.empty(0, np.int64)  # of every group, those of all levels one after the other
    next_place = leaf - n_new
    for one in groups:
        at = next_place[one.first]
        next_place[one.first] += 1
        level[at], number[at] = one.level, one.number
        parent[at] = np.append(place, ABSENT)[one.above]
        rank[at] = np.where(one.number < 2**63, one.number, np.uint64(2**64 - 1)).view(np.int64)  # -1 is absent
        place = np.concatenate([place, at])
    parent[leaf] = np.append(place, ABSENT)[innermost]
    number[leaf] = measured
    leaves = np.full(len(profiles), ABSENT, np.int32)
    leaves[measured] = leaf
    return System(parent, Encoded(level, KINDS), PlaceNames(level, number, profiles), rank), leaves


def _group_levels(profiles: Profiles) -> tuple[list[_Groups], Ints]:
    """Return the groups of every level, and the innermost group of every measured profile; those of all levels are
    numbered one after the other, -1 is none."""
    measured = profiles.measured
    innermost = np.full(len(measured), ABSENT, np.int64)
    out: list[_Groups] = []
    n_groups = 0
    for level, (name, _) in enumerate(LEVELS):
        numbers, present = profiles.identifiers.pick(name, "logical")
        members = np.flatnonzero(present[measured])
        if not len(members):
            continue
        number, above = numbers[measured[members]], innermost[members]
        order = in_order(above, number)
        above, number = above[order], number[order]
        fresh = np.append(True, (np.diff(above) != 0) | (number[1:] != number[:-1]))
        out.append(_Groups(level, members[order[fresh]], number[fresh], above[fresh]))
        innermost[members[order]] = n_groups + np.cumsum(fresh) - 1
        n_groups += int(fresh.sum())
    return out, innermost


def follows_from_identifiers(system: System, profiles: Profiles) -> bool:
    """Tell whether a system tree says nothing beyond the identifier tuples of its profiles."""
    if system.attributes or system.topologies:
        return False
    if isinstance(system.name, PlaceNames) and system.name.are_of(profiles, len(system)):
        return True
    made = system_of(profiles)[0]
    return np.array_equal(made.parent, system.parent) and made.kind == system.kind and made.name == system.name


def take_system(system: System, profiles: Profiles, kept: Ints, taken: Profiles) -> tuple[System, Ids]:
    """Return the places of some profiles, `taken`, and the leaf of each; the whole tree where all measured ones are
    kept."""
    leaves = profiles.system[kept]
    if len(kept) >= len(profiles.measured) and np.isin(profiles.measured, kept).all():
        return system, leaves
    if follows_from_identifiers(system, profiles):
        return system_of(taken)
    nodes = np.flatnonzero(system.above(leaves[leaves >= 0]))
    return system.take(nodes), absent_stays(new_numbers(nodes, len(system)))[leaves]
