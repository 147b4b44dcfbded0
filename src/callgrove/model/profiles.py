"""Profiles: serial executions, each with its identifier tuple; which of them are meant.

A tuple is an ordered list of (kind, physical, logical, interpretation), of any length and with kinds that we may not
know; it survives reading and writing. Node, rank, thread, ... are read off it. Tuples are not unique: several
processes without MPI share one. The index of a profile is its key. There may be a million: all is columns, and a name
that nobody gave a profile is made when it is shown.

    profile            0            1                 2
    tuple_bounds    0  |---- 1 ----|------- 4 --------|--- ...
    id_kind         0    1  2  3     1  2  3
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from callgrove.arrays import ABSENT, Array, Bools, Encoded, Ids, Ints, LazyColumn, Offsets, distinct, take_items
from callgrove.errors import UsageError
from callgrove.model.runs import IntSet, Numbers, Run, Unmeasured, choose_runs, numbers_in

if TYPE_CHECKING:
    from callgrove.model.experiment import Experiment

__all__ = [
    "DEFAULT_ID_NAMES",
    "PROFILER",
    "Identifier",
    "IdentifierTuples",
    "Interpretation",
    "ProfileKind",
    "Profiles",
    "absent_system",
    "are_meant",
    "choose_profiles",
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

PROFILER = "profiler"  # the kind of places whose profiles are what a profiler tells of itself
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


WORDS = {  # of identifiers that descriptions of profiles have
    "RANK": "rank",
    "THREAD": "thread",
    "GPUDEVICE": "gpu",
    "GPUCONTEXT": "gpu context",
    "GPUSTREAM": "stream",
}
WORD_NUMBERS = {word: number for number, word in enumerate(WORDS.values())}


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


WIDE = 8  # identifiers of a tuple up to which the columns of tuples are looked at one by one


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

    @classmethod
    def empty(cls, n_profiles: int, names: tuple[str, ...] = DEFAULT_ID_NAMES) -> IdentifierTuples:
        """Return tuples without any identifier."""
        numbers, kinds = np.empty(0, np.uint64), np.empty(0, np.int32)
        return cls(np.zeros(n_profiles + 1, np.int64), kinds, numbers, numbers, kinds, names)

    @classmethod
    def join(cls, parts: Sequence[IdentifierTuples], names: tuple[str, ...]) -> IdentifierTuples:
        """Return the tuples of several parts, one after the other. Kinds have the same numbers in all of them."""
        if len(parts) == 1:
            return replace(parts[0], names=names)
        bounds = np.append(0, np.cumsum(np.concatenate([np.diff(part.bounds) for part in parts])))
        kind, interpretation = (
            np.concatenate([getattr(part, c) for part in parts]) for c in ("kind", "interpretation")
        )
        physical, logical = (np.concatenate([getattr(part, c) for part in parts]) for c in ("physical", "logical"))
        return cls(bounds, kind, physical, logical, interpretation, names)

    @cached_property
    def owner(self) -> Ids:
        """The profile of each row."""
        return np.repeat(np.arange(len(self), dtype=np.int32), np.diff(self.bounds))

    @cached_property
    def _width(self) -> int:
        """The number of identifiers of each profile, where all have as many; 0 where they differ."""
        width = len(self.kind) // max(1, len(self))
        return width if len(self) and not (self.bounds[1:] - self.bounds[:-1] != width).any() else 0

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

    def choose(self, kept: Bools) -> IdentifierTuples:
        """Return the tuples with some of their rows."""
        if kept.all():
            return self
        columns = (self.kind[kept], self.physical[kept], self.logical[kept], self.interpretation[kept])
        return IdentifierTuples(np.append(0, np.cumsum(kept))[self.bounds], *columns, self.names)

    def name(self, kind: int) -> str:
        return self.names[kind] if kind < len(self.names) and self.names[kind] else f"KIND{kind}"

    def pick(self, name: str, number: str) -> tuple[Offsets, Bools]:
        """Return the `logical` or `physical` number of the first identifier of that name, and where there is one."""
        of_name = np.zeros(len(self.kind), np.bool_)
        for kind in (k for k, known in enumerate(self.names) if known == name):
            of_name |= self.kind == kind
        numbers, n_profiles = getattr(self, number), len(self)
        values, present = np.zeros(n_profiles, np.uint64), np.zeros(n_profiles, np.bool_)
        if 0 < self._width <= WIDE:
            for column in reversed(range(self._width)):  # the first one is written last and stays
                is_one = of_name[column :: self._width]
                np.copyto(values, numbers[column :: self._width], where=is_one)
                present |= is_one
            return values, present
        rows = np.flatnonzero(of_name)[::-1]  # here too
        owner = self.owner[rows]
        values[owner] = numbers[rows]
        present[owner] = True
        return values, present


@dataclass(frozen=True)
class Profiles:
    """One row per profile. `system` is the leaf of the system tree, -1 where there is none."""

    run: Ids
    kind: Ids
    name: Sequence[str]
    system: Ids
    source_id: Ints
    identifiers: IdentifierTuples
    attributes: Sequence[tuple[tuple[str, str], ...]] = field(default=())
    unmeasured: Encoded[Unmeasured] | None = None  # of each profile; None where no run lacks any

    def __len__(self) -> int:
        return len(self.kind)

    def take(self, profiles: Ints) -> Profiles:
        """Return some of the profiles, in the order given."""
        return Profiles(
            self.run[profiles],
            self.kind[profiles],
            take_items(self.name, profiles),
            self.system[profiles],
            self.source_id[profiles],
            self.identifiers.take(profiles),
            take_items(self.attributes, profiles) if self.attributes else (),
            None if self.unmeasured is None else self.unmeasured.take(profiles),
        )

    def of_runs(self, runs: Sequence[Run]) -> Profiles:
        """Return the profiles with what their runs did not measure."""
        lacking = [Unmeasured(run.name, run.unmeasured) for run in runs]
        is_complete = not any(one.metrics for one in lacking)
        return replace(self, unmeasured=None if is_complete else Encoded(self.run, lacking))

    @cached_property
    def is_summary(self) -> Bools:
        summary: Bools = self.kind == ProfileKind.SUMMARY
        return summary

    @cached_property
    def measured(self) -> Ints:
        """Profiles that are executions, not stored summaries."""
        return np.flatnonzero(~self.is_summary)

    @cached_property
    def named(self) -> Ints:
        """Measured profiles that somebody gave a name."""
        if isinstance(self.name, Encoded) and not any(self.name.table):
            return np.empty(0, np.int64)
        has_name = np.fromiter(map(bool, self.name), np.bool_, len(self))
        return np.flatnonzero(has_name & ~self.is_summary)

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
            chosen = chosen[are_meant(self.run[chosen], runs)]
        by = {"rank": ranks, "thread": threads, "node": nodes, "gpu_device": gpus, "gpu_stream": streams}
        for column, wanted in by.items():
            if wanted is not None:
                have, present = self.identity(column)
                chosen = chosen[present[chosen]]
                chosen = chosen[are_meant(have[chosen], wanted)]
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

    def labels(self, profiles: Ints) -> LazyColumn[str]:
        """Return the labels of some profiles, each of which is made when it is asked for."""
        return _Labels(self, profiles)

    def describe(self, profile: int) -> str:
        """Return a name made from the identifier tuple: `rank 3 thread 1`."""
        if self.is_summary[profile]:
            return "summary"
        if self.kind[profile] == ProfileKind.AGGREGATE:
            return "all profiles"
        parts = [
            f"{word} {logical}"
            for kind, _, logical, _ in self.identifiers.rows(profile)
            if (word := self.word_of(kind))
        ]
        return " ".join(parts) or f"profile {profile}"

    def word_of(self, kind: int) -> str:
        """Return what descriptions call a kind of identifier; empty where they leave it out."""
        name = self.identifiers.name(kind)
        return name if name.startswith("KIND") else WORDS.get(name, "")

    @cached_property
    def description(self) -> Ints:
        """A number for each profile, the same for those of which `describe` says the same."""
        return _number_descriptions(self)

    @cached_property
    def lane(self) -> Ints:
        """A number for each profile, the same for those of which `describe` says the same beside a rank in front."""
        return _number_descriptions(self, within_rank=True)


class _Labels(LazyColumn[str]):
    """The labels of some profiles."""

    def __init__(self, profiles: Profiles, chosen: Ints) -> None:
        self._profiles, self._chosen = profiles, chosen

    def __len__(self) -> int:
        return len(self._chosen)

    def make_item(self, row: int) -> str:
        return self._profiles.label(int(self._chosen[row]))

    def take(self, rows: Ints) -> _Labels:
        return _Labels(self._profiles, self._chosen[rows])


def _number_descriptions(profiles: Profiles, within_rank: bool = False) -> Ints:
    tuples, fixed = profiles.identifiers, profiles.is_summary | (profiles.kind == ProfileKind.AGGREGATE)
    word = _number_words(profiles)
    rows = np.flatnonzero((word >= 0) & ~fixed[tuples.owner])
    length = np.bincount(tuples.owner[rows], minlength=len(profiles))
    place = np.arange(len(rows)) - np.repeat(np.cumsum(length) - length, length)  # of an identifier in its description
    if within_rank:
        in_front = (place == 0) & (word[rows] == WORD_NUMBERS["rank"])
        rows, place = rows[~in_front], place[~in_front]
    order = np.argsort(place, kind="stable")
    rows, ends = rows[order], np.cumsum(np.bincount(place)).tolist()
    alike = np.where(fixed, profiles.kind, len(ProfileKind)).astype(np.int64)
    n = len(ProfileKind) + 1
    for first, last in pairwise([0, *ends]):  # identifiers of all profiles, the outermost first
        here = rows[first:last]
        owner = tuples.owner[here]
        numbers = _number_rows(alike[owner], word[here], tuples.logical[here])
        alike[owner] = n + numbers
        n += int(numbers.max(initial=-1)) + 1
    silent = np.flatnonzero((length == 0) & ~fixed)  # each has a text of its own
    alike[silent] = n + np.arange(len(silent))
    return alike


def _number_words(profiles: Profiles) -> Ids:
    """Return for each identifier the number of the word that descriptions have for its kind; -1 for none."""
    kinds = distinct(profiles.identifiers.kind)
    numbers = dict(WORD_NUMBERS)
    words = [profiles.word_of(kind) for kind in kinds.tolist()]
    by_kind = [numbers.setdefault(word, len(numbers)) if word else ABSENT for word in words]
    lookup = np.full(int(kinds[-1]) + 1 if len(kinds) else 0, ABSENT, np.int32)
    lookup[kinds] = by_kind
    return lookup[profiles.identifiers.kind]


def _number_rows(*columns: Array) -> Ints:
    """Return a number for each row, the same for equal ones."""
    order = np.lexsort(columns[::-1])
    fresh = np.zeros(len(order), np.bool_)
    for column in columns:
        fresh[1:] |= column[order][1:] != column[order][:-1]
    out = np.empty(len(order), np.int64)
    out[order] = np.cumsum(fresh)
    return out


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
        chosen = chosen[are_meant(chosen, ids)]
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


def are_meant(numbers: Array, wanted: Numbers) -> Bools:
    """Return which numbers, none of them negative, are among those that a caller names."""
    if isinstance(wanted, int):
        return np.asarray(numbers == wanted)
    if isinstance(wanted, str):
        wanted = numbers_in(wanted)
    if isinstance(wanted, IntSet):
        return _are_in_ranges(numbers.astype(np.uint64), wanted)
    there = distinct(numbers)
    members = set(wanted.tolist()) if isinstance(wanted, np.ndarray) else wanted
    members = set(members) if isinstance(members, list | tuple) else members
    meant = np.fromiter((number in members for number in there.tolist()), np.bool_, len(there))
    return meant[np.searchsorted(there, numbers)]


def _are_in_ranges(numbers: Offsets, wanted: IntSet) -> Bools:
    highest = 2**64 - 1
    ranges = [(first, min(last, highest)) for first, last in wanted.ranges if first <= highest]
    first, last = (np.array([bounds[k] for bounds in ranges], np.uint64) for k in (0, 1))
    at = np.searchsorted(first, numbers, side="right") - 1
    return (at >= 0) & (numbers <= np.append(last, np.uint64(0))[at])


def _spell_numbers(numbers: Numbers) -> str:
    return ",".join(map(str, numbers)) if isinstance(numbers, tuple | list | set) else str(numbers)


def _describe_choice(profiles: Profiles, by: Mapping[str, Numbers | None]) -> Iterator[str]:
    """Yield what was asked for, and what there is."""
    for word, wanted in by.items():
        if wanted is not None:
            column = f"gpu_{'device' if word == 'gpu' else word}" if word in ("gpu", "stream") else word
            numbers, present = profiles.identity(column)
            known = distinct(numbers[present]).tolist()
            there = f"are {known[0]} to {known[-1]}" if known else "are none"
            yield f"{word} {wanted} (there {there if len(known) != 1 else f'is only {known[0]}'})"


def absent_system(n_profiles: int) -> Ids:
    """Return no system tree (-1) for any profile."""
    return np.full(n_profiles, ABSENT, np.int32)
