"""Which ranks, threads, GPUs, nodes or runs an experiment has, and which profiles belong to each.

    rank     profiles of one rank: its threads and its GPU streams
    thread   one thread of a process; GPU streams are not threads
    gpu      one GPU as a process sees it: its streams
    node     profiles on one node, by its name
    run      one of several runs

Ranks, threads and GPUs of the same number in several runs are one entity, as everywhere else where runs are added up.
Several processes without ranks share their identifiers; they are told apart by their order, as `process 1`.
A profile belongs to one entity, or to none: a GPU stream to no thread.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from callgrove.arrays import ABSENT, Array, Bools, Ints, LazyColumn, distinct, distinct_rows, in_order
from callgrove.errors import UsageError
from callgrove.model.experiment import Experiment
from callgrove.model.profiles import ProfileKind

__all__ = ["ENTITIES", "Entities", "EntityNames", "choose_entities", "count", "entities_of"]

ENTITIES = ("rank", "thread", "gpu", "node", "run")
SYNONYMS = {"device": "gpu"}
THREADS = (ProfileKind.THREAD, ProfileKind.OTHER)


@dataclass(frozen=True)
class Entities:
    """The entities of some profiles, in the order of their numbers: what each is called, and the entity of every
    profile; -1 where a profile was not chosen or belongs to none."""

    over: str
    names: Sequence[str]
    of: Ints
    outside: Ints  # profiles that were chosen and belong to none

    def __len__(self) -> int:
        return len(self.names)

    @cached_property
    def profiles(self) -> Ints:
        """All profiles that belong to an entity, entity by entity."""
        members = np.flatnonzero(self.of >= 0)
        return members[np.argsort(self.of[members], kind="stable")]

    @cached_property
    def bounds(self) -> Ints:
        """Where the profiles of each entity begin in `profiles`, and the end of the last."""
        return np.searchsorted(self.of[self.profiles], np.arange(len(self) + 1))

    def members(self, first: int, end: int) -> Ints:
        """Return the profiles of entities that follow each other."""
        return self.profiles[self.bounds[first] : self.bounds[end]]

    def keep(self, kept: Bools) -> Entities:
        """Return some of the entities; profiles of the others are in none."""
        numbers = np.append(np.where(kept, np.cumsum(kept) - 1, ABSENT), ABSENT)
        rows = np.flatnonzero(kept)
        names = self.names.take(rows) if isinstance(self.names, LazyColumn) else [self.names[k] for k in rows.tolist()]
        return Entities(self.over, names, numbers[self.of], self.outside)

    def with_outside(self) -> Entities:
        """Return entities of which the last one has the profiles that belong to no other."""
        if not len(self.outside):
            return self
        of = self.of.copy()
        of[self.outside] = len(self)
        return Entities(self.over, (*self.names, f"(no {self.over})"), of, self.outside[:0])


def choose_entities(
    experiment: Experiment,
    over: str | None = None,
    profiles: Ints | None = None,
    has_cost: Callable[[Ints], bool] = lambda _: True,
) -> Entities:
    """Return the entities named, or the first kind of which there are several and whose profiles have any cost, of all
    measured profiles or those given. A kind that nothing has is refused."""
    if over is not None:
        return _demand(experiment, entities_of(experiment, over, profiles), profiles)
    only: Entities | None = None
    for kind in ENTITIES:
        found = entities_of(experiment, kind, profiles)
        if len(found) > 1 and (not len(found.outside) or has_cost(found.profiles)):
            return found
        only = only or (found if len(found) else None)
    assert only is not None  # every profile is of a run
    return only


def _demand(experiment: Experiment, entities: Entities, profiles: Ints | None) -> Entities:
    if not len(entities):
        counts = [(kind, n) for kind in ENTITIES if (n := len(entities_of(experiment, kind, profiles)))]
        there = ", ".join(count(n, kind) for kind, n in counts)
        verb = "is" if counts and counts[0][1] == 1 else "are"  # as the first of them wants it
        raise UsageError(f"{experiment.path}: no profile has a {entities.over}; there {verb} {there}")
    return entities


def count(n: int, kind: str) -> str:
    """Return `1 rank`, `16 threads`."""
    return f"{n:,} {kind}{'' if n == 1 else 's'}"


def entities_of(experiment: Experiment, over: str, profiles: Ints | None = None) -> Entities:
    """Return the entities of one kind, of all measured profiles or those given."""
    kind = SYNONYMS.get(over, over)
    if kind not in ENTITIES:
        raise UsageError(f"there is no {over!r} to compare; there are {', '.join(ENTITIES)}")
    chosen = experiment.profiles.measured if profiles is None else profiles
    if not len(chosen):
        raise UsageError(f"{experiment.path}: there are no profiles, so nothing is spread over any")
    if kind == "node":
        return _make(experiment, kind, chosen, *_find_nodes(experiment, chosen))
    columns, present = _identify(experiment, kind, chosen)
    members = chosen[present]
    rows, of = distinct_rows(*(column[present] for column in columns)) if len(members) else _none(len(columns))
    return _make(experiment, kind, chosen, members, of, EntityNames.of(kind, rows))


def _none(n_columns: int) -> tuple[Ints, Ints]:
    return np.empty((n_columns, 0), np.int64), np.empty(0, np.int64)


def _make(experiment: Experiment, over: str, chosen: Ints, members: Ints, of: Ints, names: Sequence[str]) -> Entities:
    every = np.full(len(experiment.profiles), ABSENT, np.int64)
    every[members] = of
    return Entities(over, names, every, chosen[every[chosen] < 0])


def _identify(experiment: Experiment, kind: str, chosen: Ints) -> tuple[list[Ints], Bools]:
    """Return the numbers that tell entities apart, from the outside in, and which profiles have one."""
    profiles = experiment.profiles
    everywhere = np.ones(len(chosen), np.bool_)
    if kind == "run":
        return [profiles.run[chosen].astype(np.int64)], everywhere
    rank, has_rank = _number(experiment, "rank", chosen)
    if kind == "rank":
        return [rank], has_rank
    inner, present = _number(experiment, "thread" if kind == "thread" else "gpu_device", chosen)
    if kind == "thread":
        present = np.isin(profiles.kind[chosen], THREADS)
        process = _number_processes(profiles.run[chosen], rank, np.where(present, inner, ABSENT - 1))
    else:
        process = np.zeros(len(chosen), np.int64)
    return [rank, process, inner], present


def _number(experiment: Experiment, column: str, chosen: Ints) -> tuple[Ints, Bools]:
    """Return the numbers of some profiles; -1 is none."""
    values, present = experiment.profiles.identity(column)
    numbers = np.where(present, values.astype(np.int64), ABSENT)
    return numbers[chosen], present[chosen]


def _number_processes(*columns: Array) -> Ints:
    """Return how many profiles before each one have the same run, rank and thread: 0 where identifiers are unique."""
    if not len(columns[0]):
        return np.empty(0, np.int64)
    _, same = distinct_rows(*columns)
    order = in_order(same)
    begins = np.flatnonzero(np.diff(same[order], prepend=-1))
    earlier = np.arange(len(order)) - np.repeat(begins, np.diff(np.append(begins, len(order))))
    out = np.empty(len(order), np.int64)
    out[order] = earlier
    return out


class EntityNames(LazyColumn[str]):
    """What entities are called, `rank 1 thread 0`, given a row of their numbers for each of the words. There may be a
    million of them: names are made when they are shown."""

    def __init__(self, kind: str, words: Sequence[str], rows: Ints) -> None:
        self._kind, self._words, self._rows = kind, words, rows

    @classmethod
    def of(cls, kind: str, rows: Ints) -> EntityNames:
        """Name entities by their numbers. Processes have a number where there are several."""
        if len(rows) == 1:
            return cls(kind, (kind,), rows)
        if rows.shape[1] and int(rows[1].max()) > 0:
            return cls(kind, ("rank", "process", kind), rows)
        return cls(kind, ("rank", kind), rows[[0, 2]])

    def __len__(self) -> int:
        return len(self._rows[0])

    def make_item(self, row: int) -> str:
        numbers = zip(self._words, self._rows[:, row].tolist(), strict=True)
        return " ".join(f"{word} {number}" for word, number in numbers if number >= 0) or self._kind

    def take(self, rows: Ints) -> EntityNames:
        return EntityNames(self._kind, self._words, self._rows[:, rows])


def _find_nodes(experiment: Experiment, chosen: Ints) -> tuple[Ints, Ints, list[str]]:
    """Return the profiles that are on a node, the number of each one's node, and the names of nodes. Places that the
    system tree does not have are known by their numbers."""
    system, (number, has_number) = experiment.system, experiment.profiles.identity("node")
    place = np.append(system.nearest("node"), ABSENT)[experiment.profiles.system[chosen]]
    places = distinct(place[place >= 0])
    texts = [system.name[k] for k in places.tolist()]
    code = np.where(place >= 0, np.searchsorted(places, place), ABSENT)
    code[np.array([*(not text for text in texts), False])[code]] = ABSENT  # places without a name
    unnamed = np.flatnonzero((code < 0) & has_number[chosen])
    numbers = distinct(number[chosen[unnamed]])
    code[unnamed] = len(texts) + np.searchsorted(numbers, number[chosen[unnamed]])
    texts += [f"node {k}" for k in numbers.tolist()]
    members = np.flatnonzero(code >= 0)
    earliest = np.full(len(texts), len(code), np.int64)
    earliest[code[members[::-1]]] = members[::-1]  # the first one is written last and stays
    nodes, node_of_text = dict[str, int](), np.full(len(texts), ABSENT, np.int64)
    for k in np.argsort(earliest, kind="stable")[: int((earliest < len(code)).sum())].tolist():
        node_of_text[k] = nodes.setdefault(texts[k], len(nodes))
    return chosen[members], node_of_text[code[members]], list(nodes)
