"""Where profiles live: machines, nodes, processes, threads, devices; and topologies over them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from callgrove.model.arrays import Ids, Ints
from callgrove.model.profiles import Profiles

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
