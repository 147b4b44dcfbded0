"""Where profiles live: machines, nodes, processes, threads, devices; and topologies over them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from callgrove.model.arrays import Bools, Ids, Ints
from callgrove.model.profiles import Profiles
from callgrove.model.renumbering import absent_stays, new_numbers

__all__ = ["System", "Topology", "system_of"]

# The identifiers that make a level of the tree, from the outside in; the innermost thing is the profile itself.
LEVELS = (("NODE", "node"), ("RANK", "process"), ("GPUDEVICE", "device"), ("GPUCONTEXT", "context"))


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
        """The same over nodes with other numbers; those without one (-1) are left out."""
        kept = new[self.system] >= 0
        return replace(self, system=new[self.system[kept]], coordinates=self.coordinates[kept])


@dataclass(frozen=True)
class System:
    """A tree of places; parents come before children, -1 is absent."""

    parent: Ids
    kind: tuple[str, ...]
    name: tuple[str, ...]
    rank: Ints
    attributes: Mapping[int, Mapping[str, str]] = field(default_factory=dict)
    topologies: tuple[Topology, ...] = ()
    source_id: Ints = field(default_factory=lambda: np.empty(0, np.int64))

    def __len__(self) -> int:
        return len(self.parent)

    def path(self, node: int) -> list[int]:
        """The node and everything above it, the outermost last."""
        out = [node]
        while (above := int(self.parent[out[-1]])) >= 0:
            out.append(above)
        return out

    def above(self, nodes: Ints | Ids) -> Bools:
        """True for these nodes and everything above them. Parents come first, so one pass from the end will do."""
        out = np.zeros(len(self), np.bool_)
        out[nodes] = True
        for node in range(len(self) - 1, -1, -1):
            if out[node] and self.parent[node] >= 0:
                out[self.parent[node]] = True
        return out

    def take(self, nodes: Ints) -> System:
        """Some of the nodes, in ascending order, with all above them."""
        new = absent_stays(new_numbers(nodes, len(self)))
        numbers = nodes.tolist()
        return System(
            new[self.parent[nodes]],
            tuple(self.kind[k] for k in numbers),
            tuple(self.name[k] for k in numbers),
            self.rank[nodes],
            {int(new[k]): a for k, a in self.attributes.items() if new[k] >= 0},
            tuple(topology.renumber(new) for topology in self.topologies),
            self.source_id[nodes] if len(self.source_id) else self.source_id,
        )


def system_of(profiles: Profiles) -> tuple[System, Ids]:
    """The system tree that identifier tuples describe, and the leaf of every profile.

    Groups are shared by equal prefixes; each profile is a leaf of its own, because tuples are not unique.
    """
    parent: list[int] = []
    kinds: list[str] = []
    names: list[str] = []
    ranks: list[int] = []
    known: dict[tuple[int, str, int], int] = {}
    leaves = np.full(len(profiles), -1, np.int32)

    def add(above: int, kind: str, name: str, rank: int) -> int:
        parent.append(above)
        kinds.append(kind)
        names.append(name)
        ranks.append(rank)
        return len(parent) - 1

    numbers = [(kind, profiles.identifiers.pick(name, "logical")) for name, kind in LEVELS]
    columns = [(kind, values.tolist(), present.tolist()) for kind, (values, present) in numbers]
    for profile in profiles.measured.tolist():
        above = -1
        for kind, values, present in columns:
            if present[profile]:
                key = (above, kind, values[profile])
                if key not in known:
                    known[key] = add(above, kind, f"{kind} {values[profile]}", _rank(values[profile]))
                above = known[key]
        leaves[profile] = add(above, "thread", profiles.label(profile), -1)
    return System(np.array(parent, np.int32), tuple(kinds), tuple(names), np.array(ranks, np.int64)), leaves


def _rank(number: int) -> int:
    return number if number < 2**63 else -1
