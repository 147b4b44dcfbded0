"""The system tree of an experiment as a Cube file has it: nodes, location groups below them, locations below these.

    any tree of places            becomes
    leaves with a profile         location
    what stands right above one   locationgroup; a node is added above one that has none
    everything else               systemtreenode

Groups hold locations only: what else stands below one moves to the node above it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from callgrove.formats.cube.anchor import Level
from callgrove.formats.cube.plan import dense_ids
from callgrove.model.experiment import Experiment
from callgrove.model.profiles import ProfileKind

__all__ = ["Place", "Places"]

GROUPS = ("process", "metrics", "accelerator")
DEVICES = ("device", "context", "queue")
LOCATIONS = ("thread", "metric", "accelerator stream", "gpu")
STREAM = "accelerator stream"
LOCATION_TYPES = {
    ProfileKind.THREAD: "thread",
    ProfileKind.METRIC: "metric",
    ProfileKind.OTHER: "thread",
    ProfileKind.AGGREGATE: "thread",
}


@dataclass
class Place:
    """One element of the file; `source` is the node of the system tree, -1 where it was added."""

    level: Level
    name: str
    kind: str
    rank: int
    source: int = -1
    id: int = -1
    attributes: dict[str, str] = field(default_factory=dict)
    below: list[Place] = field(default_factory=list)


@dataclass(frozen=True)
class Places:
    """The trees of places, and the place of every node of the system that has one."""

    roots: tuple[Place, ...]
    of_source: dict[int, Place]
    n_added: int

    @property
    def has_accelerators(self) -> bool:
        """Accelerators need a newer version of the anchor."""
        return any(p.kind in ("accelerator", STREAM) for p in self.of_source.values())

    @classmethod
    def of(cls, experiment: Experiment) -> Places:
        return _Arranger(experiment).arrange()


class _Arranger:
    """Builds the places from the outside in; parents come before children in the system tree."""

    def __init__(self, experiment: Experiment) -> None:
        self.system, self.profiles = experiment.system, experiment.profiles
        measured = self.profiles.measured
        self.profile_of = {int(self.profiles.system[p]): p for p in measured.tolist() if self.profiles.system[p] >= 0}
        self.homeless = [p for p in measured.tolist() if self.profiles.system[p] < 0]
        self.location_of: dict[int, Place] = {}
        self.of_source: dict[int, Place] = {}
        self.roots: list[Place] = []
        self.added: dict[str, Place] = {}

    def arrange(self) -> Places:
        for source, level in enumerate(self._levels()):
            if level == Level.LOCATION:
                above = self._group_of(int(self.system.parent[source]))
                self._add_location(self.profile_of[source], above, source)
            else:
                self._add(source, level)
        for profile in self.homeless:
            self._add_location(profile, self._add_group(), -1)
        self._number()
        return Places(tuple(self.roots), self.of_source, len(self.added))

    def _levels(self) -> list[Level]:
        n = len(self.system)
        parent = self.system.parent
        is_leaf = np.isin(np.arange(n), list(self.profile_of))
        has_location, has_child = np.zeros(n, np.bool_), np.zeros(n, np.bool_)
        has_location[parent[is_leaf & (parent >= 0)]] = True
        has_child[parent[parent >= 0]] = True
        out = []
        for k, kind in enumerate(self.system.kind):
            is_group = has_location[k] or (not has_child[k] and kind in GROUPS)
            out.append(Level.LOCATION if is_leaf[k] else Level.GROUP if is_group else Level.NODE)
        return out

    def _add(self, source: int, level: Level) -> None:
        kind = self.system.kind[source]
        if level == Level.GROUP and kind not in GROUPS:
            kind = "accelerator" if kind in DEVICES else "process"
        rank = int(self.system.rank[source])
        attributes = dict(self.system.attributes.get(source, {}))
        place = Place(level, self.system.name[source], kind, rank, source, attributes=attributes)
        self.of_source[source] = place
        above = int(self.system.parent[source])
        while above >= 0 and self.of_source[above].level != Level.NODE:
            above = int(self.system.parent[above])
        if above >= 0:
            self.of_source[above].below.append(place)
        elif level == Level.GROUP:
            self._add_node().below.append(place)
        else:
            self.roots.append(place)

    def _add_node(self) -> Place:
        if "node" not in self.added:
            machine = Place(Level.NODE, "machine", "machine", -1)
            self.added["machine"], self.added["node"] = machine, Place(Level.NODE, "node", "node", -1)
            machine.below.append(self.added["node"])
            self.roots.append(machine)
        return self.added["node"]

    def _add_group(self) -> Place:
        if "group" not in self.added:
            self.added["group"] = Place(Level.GROUP, "process", "process", 0)
            self._add_node().below.append(self.added["group"])
        return self.added["group"]

    def _group_of(self, source: int) -> Place:
        return self.of_source[source] if source >= 0 else self._add_group()

    def _add_location(self, profile: int, group: Place, source: int) -> None:
        kind = self.system.kind[source] if source >= 0 else ""
        if kind not in LOCATIONS or kind == "thread":
            kind = LOCATION_TYPES.get(ProfileKind(int(self.profiles.kind[profile])), STREAM)
        rank = int(self.system.rank[source]) if source >= 0 else -1
        for column in ("thread", "gpu_stream"):
            values, present = self.profiles.identity(column)
            if rank < 0 and present[profile] and int(values[profile]) < 2**31:
                rank = int(values[profile])
        attributes = dict(self.system.attributes.get(source, {}))
        if len(self.profiles.attributes) > profile:
            attributes.update(self.profiles.attributes[profile])
        place = Place(Level.LOCATION, self.profiles.label(profile), kind, rank, source, attributes=attributes)
        self.location_of[profile] = place
        if source >= 0:
            self.of_source[source] = place
        group.below.append(place)

    def _number(self) -> None:
        """Locations are numbered as profiles are; others keep their numbers where these have no gaps."""
        for number, profile in enumerate(self.profiles.measured.tolist()):
            self.location_of[profile].id = number
        everything = _walk(self.roots)
        own = self.system.source_id
        for level in (Level.NODE, Level.GROUP):
            places = [place for place in everything if place.level == level]
            known = [int(own[p.source]) if p.source >= 0 and len(own) else None for p in places]
            for place, id_ in zip(places, dense_ids(known), strict=True):
                place.id = id_
        for place in everything:
            for number, child in enumerate(place.below):
                if child.level != Level.NODE and child.rank < 0:
                    child.rank = number


def _walk(roots: list[Place]) -> list[Place]:
    out, stack = [], list(reversed(roots))
    while stack:
        place = stack.pop()
        out.append(place)
        stack.extend(reversed(place.below))
    return out
