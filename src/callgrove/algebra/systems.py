"""Where the profiles of a result live: the system trees of its inputs as one.

A profile keeps the place that it has in the input it was taken from. Groups (machines, nodes, processes) of several
inputs are one where their parents are and kind, name and rank are equal, unless the inputs stand side by side. Of an
input whose profiles are all taken, everything is kept; of others, what lies above their profiles.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from callgrove.algebra.profiles import MatchedProfiles
from callgrove.model.arrays import ABSENT, Ids
from callgrove.model.experiment import Experiment
from callgrove.model.system import System, Topology, system_of

__all__ = ["united_system"]

Key = tuple[object, ...]


def united_system(
    experiments: Sequence[Experiment], matched: MatchedProfiles, shared: bool
) -> tuple[System, Ids] | None:
    """The system tree and the leaf of every profile; None where identifier tuples say it all."""
    if matched.collapsed or all(_follows_from_identifiers(e) for e in experiments):
        return None
    out = _Tree(np.full(len(matched), ABSENT, np.int32))
    for number, experiment in enumerate(experiments):
        if not shared:
            out.known = {}
        taken = np.flatnonzero(matched.source == number)
        out.add(experiment, dict(zip(matched.own[taken].tolist(), taken.tolist(), strict=True)))
    return out.system(), out.leaves


def _follows_from_identifiers(experiment: Experiment) -> bool:
    made, own = system_of(experiment.profiles)[0], experiment.system
    same = np.array_equal(made.parent, own.parent) and (made.kind, made.name) == (own.kind, own.name)
    return same and not own.attributes and not own.topologies


@dataclass
class _Tree:
    leaves: Ids
    parent: list[int] = field(default_factory=list)
    kind: list[str] = field(default_factory=list)
    name: list[str] = field(default_factory=list)
    rank: list[int] = field(default_factory=list)
    attributes: dict[int, Mapping[str, str]] = field(default_factory=dict)
    topologies: list[Topology] = field(default_factory=list)
    known: dict[Key, int] = field(default_factory=dict)

    def add(self, experiment: Experiment, taken: Mapping[int, int]) -> None:
        """The places of some profiles of an input, each with its number in the result."""
        own, profiles = experiment.system, experiment.profiles
        leaf_of = {int(profiles.system[p]): place for p, place in taken.items() if profiles.system[p] >= 0}
        leaves = set(profiles.system.tolist())
        wanted = own.above(np.array(list(leaf_of), np.int64)) | (len(taken) == len(profiles.measured))
        numbers = np.full(len(own) + 1, ABSENT, np.int32)  # -1 picks the last entry, which is absent
        alike: dict[Key, int] = {}
        for node in np.flatnonzero(wanted).tolist():
            row = (int(numbers[own.parent[node]]), own.kind[node], own.name[node], int(own.rank[node]))
            alike[row] = alike.get(row, 0) + 1
            is_leaf = node in leaves
            numbers[node] = len(self.parent) if is_leaf else self.known.setdefault((*row, alike[row]), len(self.parent))
            if numbers[node] == len(self.parent):
                self._append(row, own.attributes.get(node))
        for node, place in leaf_of.items():
            self.leaves[place] = numbers[node]
        self.topologies += [t for topology in own.topologies if len((t := topology.renumber(numbers)).system)]

    def _append(self, row: tuple[int, str, str, int], attributes: Mapping[str, str] | None) -> None:
        if attributes:
            self.attributes[len(self.parent)] = attributes
        for column, value in zip((self.parent, self.kind, self.name, self.rank), row, strict=True):
            column.append(value)  # type: ignore[attr-defined]

    def system(self) -> System:
        columns = np.array(self.parent, np.int32), tuple(self.kind), tuple(self.name), np.array(self.rank, np.int64)
        return System(*columns, self.attributes, tuple(self.topologies))
