"""Which profiles and runs of several experiments are the same, and where the profiles of the result live.

Two profiles are the same where their runs are and they have equal kind and identifiers, but for node and core: those
say where a process ran, not which one it was. A missing rank or thread counts as 0. Among several of one key the node
decides, then their order. Two runs are the same where parameters and repetition are.

    union          profiles that are the same become one, others are added
    strict         every input must have the same profiles
    side-by-side   nothing is the same: every input keeps its runs and profiles
    collapse       all profiles of an input become one, and so do those of all inputs

Stored summaries are left out: they would no longer be the sum of anything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

import numpy as np

from callgrove.arrays import ABSENT, Encoded, Ids, Ints
from callgrove.errors import Parameter, UsageError
from callgrove.model.experiment import Experiment
from callgrove.model.profiles import DEFAULT_ID_NAMES, IdentifierTuples, ProfileKind, Profiles
from callgrove.model.runs import Run
from callgrove.model.system import System, Topology, follows_from_identifiers

__all__ = ["MatchedProfiles", "Systems", "gather_tuples", "match_profiles", "unite_systems"]


PLACES = ("SUMMARY", "NODE", "CORE")  # where something ran
ALWAYS = ("RANK", "THREAD")  # formats that know of one process only do not number it

Key = tuple[object, ...]


class Systems(StrEnum):
    """What becomes of the profiles of several inputs."""

    UNION = "union"
    STRICT = "strict"
    SIDE_BY_SIDE = "side-by-side"
    COLLAPSE = "collapse"


@dataclass(frozen=True)
class MatchedProfiles:
    """The profiles of the result. Profile p is profile `input_profile[p]` of input `source[p]`, in run `run[p]`; `maps`
    give the profile of the result for each profile of an input, -1 for summaries."""

    maps: tuple[Ids, ...]
    source: Ids
    input_profile: Ids
    run: Ids
    runs: tuple[Run, ...]
    collapsed: bool = False

    def __len__(self) -> int:
        return len(self.input_profile)

    def of_input(self, number: int) -> Ints:
        """Return the profiles of the result that an input gives values to."""
        ids = np.unique(self.maps[number])
        return ids[ids >= 0].astype(np.int64)


def match_profiles(experiments: Sequence[Experiment], systems: Systems) -> MatchedProfiles:
    """Return the profiles and runs of the result."""
    if systems == Systems.COLLAPSE:
        return _collapse(experiments)
    matches = _Matches()
    maps = []
    for number, experiment in enumerate(experiments):
        if systems == Systems.SIDE_BY_SIDE:
            matches.forget()
        maps.append(matches.add(number, experiment))
    source, profile, run = (np.array(column, np.int32) for column in matches.columns)
    out = MatchedProfiles(tuple(maps), source, profile, run, tuple(matches.runs))
    if systems == Systems.STRICT:
        _demand_the_same(experiments, out)
    return out


def _demand_the_same(experiments: Sequence[Experiment], matched: MatchedProfiles) -> None:
    for number, experiment in enumerate(experiments):
        missing = np.setdiff1d(np.arange(len(matched)), matched.of_input(number))
        if len(missing):
            source, profile = int(matched.source[missing[0]]), int(matched.input_profile[missing[0]])
            label = experiments[source].profiles.label(profile)
            raise UsageError(
                f"{experiment.path}: has no profile {label!r}, which {experiments[source].path} has; ",
                Parameter("system", "union"),
                " takes profiles that only some inputs have",
            )


def _collapse(experiments: Sequence[Experiment]) -> MatchedProfiles:
    maps = []
    for experiment in experiments:
        all_to_first = np.full(len(experiment.profiles), ABSENT, np.int32)
        all_to_first[experiment.profiles.measured] = 0
        maps.append(all_to_first)
    zero = np.zeros(1, np.int32)
    return MatchedProfiles(tuple(maps), zero, zero - 1, zero, experiments[0].runs[:1], collapsed=True)


@dataclass
class _Matches:
    """Profiles and runs found so far, by key; `columns` are source, own and run of each."""

    columns: tuple[list[int], list[int], list[int]] = field(default_factory=lambda: ([], [], []))
    runs: list[Run] = field(default_factory=list)
    _runs: dict[Key, int] = field(default_factory=dict)
    _profiles: dict[Key, list[tuple[int, object]]] = field(default_factory=dict)  # profile, node

    def forget(self) -> None:
        """Treat what is added from here on as new."""
        self._runs, self._profiles = {}, {}

    def add(self, number: int, experiment: Experiment) -> Ids:
        """Add the profiles of an input, and return for each the profile of the result."""
        runs = [self._run(experiment.runs, k) for k in range(len(experiment.runs))]
        profiles = experiment.profiles
        nodes = profiles.identity_list("node")
        measured = profiles.measured.tolist()
        run_of_profile = [runs[run] for run in profiles.run[measured].tolist()]
        keys = [(run, *key) for run, key in zip(run_of_profile, _make_keys(profiles), strict=True)]
        groups: dict[Key, list[int]] = {}
        for profile, key in zip(measured, keys, strict=True):
            groups.setdefault(key, []).append(profile)
        out = np.full(len(profiles), ABSENT, np.int32)
        for key, group in groups.items():
            for profile, place in _pair(group, nodes, self._profiles.get(key, [])):
                out[profile] = place
        for profile, key, run in zip(measured, keys, run_of_profile, strict=True):
            if out[profile] < 0:
                out[profile] = self._add(number, profile, run)
                self._profiles.setdefault(key, []).append((int(out[profile]), nodes[profile]))
        return out

    def _add(self, number: int, profile: int, run: int) -> int:
        for column, value in zip(self.columns, (number, profile, run), strict=True):
            column.append(value)
        return len(self.columns[0]) - 1

    def _run(self, runs: tuple[Run, ...], number: int) -> int:
        point = (tuple(sorted(runs[number].parameters.items())), runs[number].repetition)
        alike = sum((tuple(sorted(r.parameters.items())), r.repetition) == point for r in runs[:number])
        known = self._runs.setdefault((*point, alike), len(self.runs))
        if known == len(self.runs):
            self.runs.append(runs[number])
        return known


def _pair(group: list[int], nodes: list[int | None], known: list[tuple[int, object]]) -> list[tuple[int, int]]:
    """Pair profiles of one key with those known: on the same node first, then in order."""
    free, left, out = list(known), [], []
    for profile in group:
        same = next((k for k, (_, node) in enumerate(free) if node is not None and node == nodes[profile]), None)
        if same is None:
            left.append(profile)
        else:
            out.append((profile, free.pop(same)[0]))
    return out + [(profile, place) for profile, (place, _) in zip(left, free, strict=False)]


def _make_keys(profiles: Profiles) -> list[Key]:
    """Return the kind and identifiers of every measured profile."""
    tuples = profiles.identifiers
    out: list[Key] = []
    for profile in profiles.measured.tolist():
        parts: dict[str, list[int]] = {name: [] for name in ALWAYS}
        for kind, _, logical, _ in tuples.rows(profile):
            if (name := tuples.name(kind)) not in PLACES:
                parts.setdefault(name, []).append(logical)
        for name in ALWAYS:
            parts[name] = parts[name] or [0]
        out.append((int(profiles.kind[profile]), *sorted((name, *numbers) for name, numbers in parts.items())))
    return out


def gather_tuples(experiments: Sequence[Experiment], matched: MatchedProfiles) -> IdentifierTuples:
    """Return the identifier tuples of the result's profiles. The first input's names of kinds stay; others are
    added."""
    if matched.collapsed:
        rank, thread = DEFAULT_ID_NAMES.index("RANK"), DEFAULT_ID_NAMES.index("THREAD")
        return IdentifierTuples.of([[(rank, 0, 0, 3), (thread, 0, 0, 3)]])
    names = list(experiments[0].profiles.identifiers.names)
    kinds = []
    for experiment in experiments:
        tuples = experiment.profiles.identifiers
        lookup = np.arange(max(len(tuples.names), int(tuples.kind.max(initial=0)) + 1), dtype=np.int32)
        for kind, name in enumerate(tuples.names):
            if name not in names:
                names.append(name)
            lookup[kind] = kind if kind < len(names) and names[kind] == name else names.index(name)
        kinds.append(lookup)
    parts = [
        experiment.profiles.identifiers.take(matched.input_profile[matched.source == number])
        for number, experiment in enumerate(experiments)
    ]
    parts = [replace(part, kind=lookup[part.kind]) for part, lookup in zip(parts, kinds, strict=True)]
    order = np.argsort(matched.source, kind="stable")  # one source after the other
    return IdentifierTuples.join(parts, tuple(names)).take(np.argsort(order))


def describe_profiles(experiments: Sequence[Experiment], matched: MatchedProfiles) -> tuple[Ids, Sequence[str]]:
    """Return the kind and name of each profile of the result."""
    if matched.collapsed:
        return np.array([ProfileKind.OTHER], np.int32), ("all profiles",)
    kinds = np.zeros(len(matched), np.int32)
    for number, experiment in enumerate(experiments):
        taken = matched.source == number
        kinds[taken] = experiment.profiles.kind[matched.input_profile[taken]]
    columns = [experiment.profiles.name for experiment in experiments]
    if not any(map(any, columns)):
        return kinds, Encoded.repeat("", len(matched))
    places = zip(matched.source.tolist(), matched.input_profile.tolist(), strict=True)
    return kinds, tuple(columns[source][profile] for source, profile in places)


# -- system trees of several inputs as one -----------------------------------------------------------------------------
# A profile keeps the place that it has in the input it was taken from. Groups (machines, nodes, processes) of several
# inputs are one where their parents are and kind, name and rank are equal, unless the inputs stand side by side. Of an
# input whose profiles are all taken, everything is kept; of others, what lies above their profiles.


def unite_systems(
    experiments: Sequence[Experiment], matched: MatchedProfiles, shared: bool
) -> tuple[System, Ids] | None:
    """Return the system tree and the leaf of every profile; None where identifier tuples say it all."""
    if matched.collapsed or all(follows_from_identifiers(e.system, e.profiles) for e in experiments):
        return None
    out = _Tree(np.full(len(matched), ABSENT, np.int32))
    for number, experiment in enumerate(experiments):
        if not shared:
            out.known = {}
        taken = np.flatnonzero(matched.source == number)
        out.add(experiment, dict(zip(matched.input_profile[taken].tolist(), taken.tolist(), strict=True)))
    return out.system(), out.leaves


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
        """Add the places of some profiles of an input, each with its number in the result."""
        system, profiles = experiment.system, experiment.profiles
        leaf_of = {int(profiles.system[p]): place for p, place in taken.items() if profiles.system[p] >= 0}
        leaves = set(profiles.system.tolist())
        wanted = system.above(np.array(list(leaf_of), np.int64)) | (len(taken) == len(profiles.measured))
        numbers = np.full(len(system) + 1, ABSENT, np.int32)  # -1 picks the last entry, which is absent
        alike: dict[Key, int] = {}
        for node in np.flatnonzero(wanted).tolist():
            row = (int(numbers[system.parent[node]]), system.kind[node], system.name[node], int(system.rank[node]))
            alike[row] = alike.get(row, 0) + 1
            is_leaf = node in leaves
            numbers[node] = len(self.parent) if is_leaf else self.known.setdefault((*row, alike[row]), len(self.parent))
            if numbers[node] == len(self.parent):
                self._append(row, system.attributes.get(node))
        for node, place in leaf_of.items():
            self.leaves[place] = numbers[node]
        self.topologies += [t for topology in system.topologies if len((t := topology.renumber(numbers)).system)]

    def _append(self, row: tuple[int, str, str, int], attributes: Mapping[str, str] | None) -> None:
        if attributes:
            self.attributes[len(self.parent)] = attributes
        for column, value in zip((self.parent, self.kind, self.name, self.rank), row, strict=True):
            column.append(value)  # type: ignore[attr-defined]

    def system(self) -> System:
        columns = np.array(self.parent, np.int32), tuple(self.kind), tuple(self.name), np.array(self.rank, np.int64)
        return System(*columns, self.attributes, tuple(self.topologies))
