"""Profiles: serial executions, each with its identifier tuple, and the system tree that they live in.

A tuple is an ordered list of (kind, physical, logical, interpretation), of any length and with kinds that we may not
know; it survives reading and writing. Node, rank, thread, ... are read off it. Tuples are not unique: several
processes without MPI share one. The index of a profile is its key.

    profile            0            1                 2
    tuple_bounds    0  |---- 1 ----|------- 4 --------|--- ...
    id_kind         0    1  2  3     1  2  3
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from callgrove.arrays import ABSENT, Bools, Ids, Ints, Offsets, absent_stays, distinct, new_numbers
from callgrove.errors import UsageError
from callgrove.model.runs import Numbers, Run, Unmeasured, choose_runs, numbers_in

if TYPE_CHECKING:
    from callgrove.model.experiment import Experiment

__all__ = [
    "DEFAULT_ID_NAMES",
    "Identifier",
    "IdentifierTuples",
    "Interpretation",
    "ProfileKind",
    "Profiles",
    "System",
    "Topology",
    "choose_profiles",
    "follows_from_identifiers",
    "system_of",
    "take_system",
]


DEFAULT_ID_NAMES: tuple[str, ...] = (
    "SUMMARY",
    "NODE",
    "RANK",
    "THREAD",
    "GPUDEVICE",
    "GPUCONTEXT",
    "GPUSTREAM",
    "CORE",
)

Identifier = tuple[int, int, int, int]  # kind, physical, logical, interpretation

# column -> (identifier kind, which of its two numbers)
IDENTITY = {
    "node": ("NODE", "physical"),
    "rank": ("RANK", "logical"),
    "thread": ("THREAD", "logical"),
    "gpu_device": ("GPUDEVICE", "logical"),
    "gpu_context": ("GPUCONTEXT", "logical"),
    "gpu_stream": ("GPUSTREAM", "logical"),
    "core": ("CORE", "logical"),
}


class ProfileKind(IntEnum):
    """What executed."""

    SUMMARY = 0  # stored by the profiler over all others; never added to them
    THREAD = 1
    GPU_STREAM = 2
    GPU = 3
    METRIC = 4  # a location that only carries a metric (Score-P)
    QUEUE = 5
    ACCELERATOR = 6
    OTHER = 7
    AGGREGATE = 8  # several together, where the values of each are not known

    @property
    def word(self) -> str:
        return self.name.lower().replace("_", " ")


class Interpretation(IntEnum):
    """Which numbers of an identifier mean something."""

    BOTH = 0
    LOGICAL_LOCAL = 1  # the logical number was generated, unique within the enclosing prefix
    LOGICAL_GLOBAL = 2  # generated, unique in the whole database
    SINGLE = 3  # both numbers are the same one


@dataclass(frozen=True)
class IdentifierTuples:
    """The identifier tuples of all profiles, one after the other."""

    bounds: Ints  # profile p owns rows [bounds[p], bounds[p + 1])
    kind: Ids
    physical: Offsets
    logical: Offsets
    interpretation: Ids
    names: tuple[str, ...] = DEFAULT_ID_NAMES

    def __len__(self) -> int:
        return len(self.bounds) - 1

    @classmethod
    def of(cls, tuples: Sequence[Sequence[Identifier]], names: tuple[str, ...] = DEFAULT_ID_NAMES) -> IdentifierTuples:
        """Return tuples from lists of (kind, physical, logical, interpretation)."""
        rows = [element for one in tuples for element in one]
        columns = list(zip(*rows, strict=True)) if rows else [(), (), (), ()]
        return cls(
            np.cumsum([0, *map(len, tuples)]),
            np.array(columns[0], np.int32),
            np.array(columns[1], np.uint64),
            np.array(columns[2], np.uint64),
            np.array(columns[3], np.int32),
            names,
        )

    def rows(self, profile: int) -> list[Identifier]:
        """Return the tuple of one profile as (kind, physical, logical, interpretation)."""
        part = slice(int(self.bounds[profile]), int(self.bounds[profile + 1]))
        columns = (self.kind, self.physical, self.logical, self.interpretation)
        return list(zip(*(c[part].tolist() for c in columns), strict=True))

    def take(self, profiles: Ints) -> IdentifierTuples:
        """Return the tuples of some profiles."""
        lengths = np.diff(self.bounds)[profiles]
        bounds = np.append(0, np.cumsum(lengths))
        rows = np.repeat(self.bounds[profiles] - bounds[:-1], lengths) + np.arange(int(bounds[-1]))
        columns = (self.kind[rows], self.physical[rows], self.logical[rows], self.interpretation[rows])
        return IdentifierTuples(bounds, *columns, self.names)

    def name(self, kind: int) -> str:
        return self.names[kind] if kind < len(self.names) and self.names[kind] else f"KIND{kind}"

    def pick(self, name: str, number: str) -> tuple[Offsets, Bools]:
        """Return the `logical` or `physical` number of the first identifier of that name, and where there is one."""
        kinds = [k for k, known in enumerate(self.names) if known == name]
        rows = np.flatnonzero(np.isin(self.kind, kinds))[::-1]  # the first one is written last and stays
        owner = np.searchsorted(self.bounds, rows, side="right") - 1
        values, present = np.zeros(len(self), np.uint64), np.zeros(len(self), np.bool_)
        values[owner] = getattr(self, number)[rows]
        present[owner] = True
        return values, present


@dataclass(frozen=True)
class Profiles:
    """One row per profile. `system` is the leaf of the system tree, -1 where there is none."""

    run: Ids
    kind: Ids
    name: tuple[str, ...]
    system: Ids
    source_id: Ints
    identifiers: IdentifierTuples
    attributes: tuple[tuple[tuple[str, str], ...], ...] = field(default=())
    unmeasured: tuple[Unmeasured, ...] = field(default=())  # one for each; none where no run lacks any

    def __len__(self) -> int:
        return len(self.kind)

    def take(self, profiles: Ints) -> Profiles:
        """Return some of the profiles, in the order given."""
        return Profiles(
            self.run[profiles],
            self.kind[profiles],
            tuple(self.name[p] for p in profiles.tolist()),
            self.system[profiles],
            self.source_id[profiles],
            self.identifiers.take(profiles),
            tuple(self.attributes[p] for p in profiles.tolist()) if self.attributes else (),
            tuple(self.unmeasured[p] for p in profiles.tolist()) if self.unmeasured else (),
        )

    def of_runs(self, runs: Sequence[Run]) -> Profiles:
        """Return the profiles with what their runs did not measure."""
        lacking = [Unmeasured(run.name, run.unmeasured) for run in runs]
        numbers = self.run.tolist() if any(one.metrics for one in lacking) else []
        return replace(self, unmeasured=tuple(lacking[run] for run in numbers))

    @cached_property
    def is_summary(self) -> Bools:
        summary: Bools = self.kind == ProfileKind.SUMMARY
        return summary

    @cached_property
    def measured(self) -> Ints:
        """Profiles that are executions, not stored summaries."""
        return np.flatnonzero(~self.is_summary)

    @property
    def n_runs(self) -> int:
        """How many runs have any measured profile."""
        return len(distinct(self.run[self.measured]))

    @property
    def summaries(self) -> Ints:
        return np.flatnonzero(self.is_summary)

    @cached_property
    def aggregates(self) -> Ints:
        """Profiles that hold the values of all others of their run, which have traces only, or are not there.

        A summary that an input stores without the values of its threads is such a profile: it is all that was measured,
        so it counts as measured. `Values.known` are the profiles whose values can be asked for.
        """
        return np.flatnonzero(self.kind == ProfileKind.AGGREGATE)

    def where(
        self,
        ranks: Numbers | None = None,
        threads: Numbers | None = None,
        runs: Numbers | None = None,
        *,
        nodes: Numbers | None = None,
        gpus: Numbers | None = None,
        streams: Numbers | None = None,
    ) -> Ints:
        """Return the measured profiles with these ranks, threads and so on, of these runs; None is all.

        Numbers are given one by one, as a text like "0-3,7", or as anything with `in`. All that is given must hold.
        """
        chosen = self.measured
        if runs is not None:
            numbers = numbers_in(runs)
            chosen = np.array([p for p in chosen.tolist() if int(self.run[p]) in numbers], np.int64)
        by = {"rank": ranks, "thread": threads, "node": nodes, "gpu_device": gpus, "gpu_stream": streams}
        for column, wanted in by.items():
            if wanted is not None:
                have, numbers = self.identity_list(column), numbers_in(wanted)
                kept = [p for p in chosen.tolist() if (number := have[p]) is not None and number in numbers]
                chosen = np.array(kept, np.int64)
        return chosen

    def identity(self, column: str) -> tuple[Offsets, Bools]:
        """Return `node`, `rank`, `thread`, ... of every profile, and where there is one."""
        return self.identifiers.pick(*IDENTITY[column])

    def identity_list(self, column: str) -> list[int | None]:
        """Return a column of identities as plain numbers; None is absent."""
        values, present = self.identity(column)
        return [v if p else None for v, p in zip(values.tolist(), present.tolist(), strict=True)]

    def label(self, profile: int) -> str:
        """Return the name of a profile, or a description where it has none."""
        return self.name[profile] or self.describe(profile)

    def describe(self, profile: int) -> str:
        """Return a name made from the identifier tuple: `rank 3 thread 1`."""
        if self.is_summary[profile]:
            return "summary"
        if self.kind[profile] == ProfileKind.AGGREGATE:
            return "all profiles"
        words = {
            "RANK": "rank",
            "THREAD": "thread",
            "GPUDEVICE": "gpu",
            "GPUCONTEXT": "gpu context",
            "GPUSTREAM": "stream",
        }
        parts = []
        for kind, _, logical, _ in self.identifiers.rows(profile):
            name = self.identifiers.name(kind)
            if name in words or name.startswith("KIND"):
                parts.append(f"{words.get(name, name)} {logical}")
        return " ".join(parts) or f"profile {profile}"


def choose_profiles(
    experiment: Experiment,
    ranks: Numbers | None = None,
    threads: Numbers | None = None,
    runs: Numbers | None = None,
    ids: Container[int] | None = None,
    invert: bool = False,
    *,
    nodes: Numbers | None = None,
    gpus: Numbers | None = None,
    streams: Numbers | None = None,
) -> Ints | None:
    """Return the profiles with these ranks, threads and ids, of these runs, or all others; None where nothing is said.
    An empty choice is an error that says what there is."""
    by = {"rank": ranks, "thread": threads, "node": nodes, "gpu": gpus, "stream": streams}
    if all(numbers is None for numbers in by.values()) and runs is None and ids is None and not invert:
        return None
    profiles = experiment.profiles
    numbers = None if runs is None else choose_runs(experiment.runs, runs)
    chosen = profiles.where(ranks, threads, numbers, nodes=nodes, gpus=gpus, streams=streams)
    if ids is not None:
        if isinstance(ids, Collection) and (unknown := [p for p in ids if not 0 <= p < len(profiles)]):
            raise UsageError(f"{experiment.path}: there is no profile {unknown[0]}; ids are 0 to {len(profiles) - 1}")
        chosen = np.array([p for p in chosen.tolist() if p in ids], np.int64)
    if invert:
        chosen = np.setdiff1d(profiles.measured, chosen)
    if not len(chosen):
        have = " and ".join(_describe_choice(profiles, by))
        have = have or ("one of these ids" if ids is not None else "")
        of = f" of run {_spell_numbers(runs)}" if runs is not None else ""
        what = f"{of} has {have}" if have else f" is{of}" if of else " is chosen"
        who, why = ("every", ", so nothing is left") if invert else ("no", "")
        raise UsageError(f"{experiment.path}: {who} profile{what}{why}")
    return chosen


def _spell_numbers(numbers: Numbers) -> str:
    return ",".join(map(str, numbers)) if isinstance(numbers, tuple | list | set) else str(numbers)


def _describe_choice(profiles: Profiles, by: Mapping[str, Numbers | None]) -> Iterator[str]:
    """Yield what was asked for, and what there is."""
    for word, wanted in by.items():
        if wanted is not None:
            column = f"gpu_{'device' if word == 'gpu' else word}" if word in ("gpu", "stream") else word
            known = sorted({n for n in profiles.identity_list(column) if n is not None})
            there = f"are {known[0]} to {known[-1]}" if known else "are none"
            yield f"{word} {wanted} (there {there if len(known) != 1 else f'is only {known[0]}'})"


def absent_system(n_profiles: int) -> Ids:
    """Return no system tree (-1) for any profile."""
    return np.full(n_profiles, ABSENT, np.int32)


# -- the system tree, and topologies over it ---------------------------------------------------------------------------


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
        """Return the topology over nodes with other numbers; those without one (-1) are left out."""
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
        """Return the node and everything above it, the outermost last."""
        out = [node]
        while (above := int(self.parent[out[-1]])) >= 0:
            out.append(above)
        return out

    def above(self, nodes: Ints | Ids) -> Bools:
        """Return True for these nodes and everything above them. Parents come first, so one pass from the end will
        do."""
        out = np.zeros(len(self), np.bool_)
        out[nodes] = True
        for node in range(len(self) - 1, -1, -1):
            if out[node] and self.parent[node] >= 0:
                out[self.parent[node]] = True
        return out

    def take(self, nodes: Ints) -> System:
        """Return some of the nodes, in ascending order, with all above them."""
        new = absent_stays(new_numbers(nodes, len(self)))
        numbers = nodes.tolist()
        return System(
            new[self.parent[nodes]],
            tuple(self.kind[k] for k in numbers),
            tuple(self.name[k] for k in numbers),
            self.rank[nodes],
            {int(new[k]): a for k, a in self.attributes.items() if new[k] >= 0},
            tuple(t for topology in self.topologies if len((t := topology.renumber(new)).system)),
            self.source_id[nodes] if len(self.source_id) else self.source_id,
        )


def system_of(profiles: Profiles) -> tuple[System, Ids]:
    """Return the system tree that identifier tuples describe, and the leaf of every profile.

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


def follows_from_identifiers(system: System, profiles: Profiles) -> bool:
    """Tell whether a system tree says nothing beyond the identifier tuples of its profiles."""
    made = system_of(profiles)[0]
    same = np.array_equal(made.parent, system.parent) and (made.kind, made.name) == (system.kind, system.name)
    return same and not system.attributes and not system.topologies


def take_system(system: System, profiles: Profiles, kept: Ints) -> tuple[System, Ids]:
    """Return the places of some profiles, and the leaf of each; the whole tree where all measured ones are kept."""
    leaves = profiles.system[kept]
    if np.isin(profiles.measured, kept).all():
        return system, leaves
    if follows_from_identifiers(system, profiles):
        return system_of(profiles.take(kept))
    nodes = np.flatnonzero(system.above(leaves[leaves >= 0]))
    return system.take(nodes), absent_stays(new_numbers(nodes, len(system)))[leaves]


def _rank(number: int) -> int:
    return number if number < 2**63 else -1
