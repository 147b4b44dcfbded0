"""Looks at a folder, one after the other: which files are new, growing, incomplete, complete or gone, and the totals.

    arrived --> growing --> settled --> complete      a file is read once it stayed the same from one look to the next,
                   ^           |            |         or, at the first look, for as long as looks are apart
                   |           v            |
                   +---- incomplete         +--> changed, replaced or removed: what it added is taken back

A file that did not change is not read again, whether it was complete or not. A look reads for no longer than its
caller allows: the rest waits for the next one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

import numpy as np

from callgrove.binary.file_states import FileState, look_at_files
from callgrove.errors import InputError
from callgrove.watch.contributions import Contribution, Incomplete, Names, Unknown, read_contribution

__all__ = ["Event", "Look", "State", "Totals", "Watch"]

LEVELS = 4  # of folders that are looked into
MOST_FILES = 100_000
BESIDE = ("-wal", "-shm", "-journal")  # what SQLite writes beside a database


class State(StrEnum):
    """How far a file is."""

    GROWING = "growing"  # it changed since the last look, or is too young to tell
    WAITING = "waiting"  # it may be read, and will be at the next look
    INCOMPLETE = "incomplete"
    COMPLETE = "complete"
    OTHER = "other"  # nothing that callgrove reads


@dataclass(frozen=True)
class Event:
    """What happened to a file since the last look: new, growing, complete, incomplete, changed, removed."""

    path: str
    what: str
    why: str = ""


@dataclass(frozen=True)
class Totals:
    """What all complete files come to: costs of functions by metric, the costliest first."""

    ranks: tuple[int, ...]
    n_profiles: int
    time_range: tuple[int, int] | None
    formats: dict[str, int]
    functions: dict[tuple[str, str], list[tuple[str, float]]]  # (metric, unit) -> (name, cost)
    costs: dict[tuple[str, str], float]


@dataclass(frozen=True)
class Look:
    """What a look found. `seconds` is the time of the look, since the first one."""

    seconds: float
    counts: dict[str, int]
    n_bytes: int
    events: tuple[Event, ...]
    incomplete: tuple[tuple[str, str], ...]  # path, what is missing
    totals: Totals
    is_cut: bool = False  # there are more files than are looked at

    @property
    def n_files(self) -> int:
        return sum(self.counts.values())

    @property
    def is_quiet(self) -> bool:
        """Whether nothing happened, and nothing is left to be read."""
        return not self.events and not self.counts.get(State.WAITING) and not self.counts.get(State.GROWING)


@dataclass
class _File:
    identity: tuple[int, int, int, bool]  # the state of the file, and whether a log lies beside it
    state: State
    why: str = ""
    added: Contribution | None = None


@dataclass
class Watch:
    """A folder that is watched. `clock` gives seconds, `now_ns` the time that files are dated by, `settle_s` is how
    long a file must have stayed the same at the first look."""

    folder: Path
    clock: Callable[[], float]
    now_ns: Callable[[], int]
    settle_s: float = 2.0
    read: Callable[[Path, Names], Contribution] = read_contribution
    names: Names = field(default_factory=Names)
    _files: dict[str, _File] = field(default_factory=dict)
    _began: float | None = None
    _n_looks: int = 0

    def look(self, seconds_to_read: float = float("inf"), most_functions: int = 10) -> Look:
        """Look at the folder once; files that may be read are read for at most so many seconds."""
        start = self.clock()
        self._began = start if self._began is None else self._began
        states = look_at_files([str(self.folder)], LEVELS, MOST_FILES)
        if not self.folder.is_dir():
            wrong = "is no folder; name the one that the job writes to" if self.folder.exists() else "no such folder"
            raise InputError(f"{self.folder}: {wrong}")
        events = [*self._note_removed(states), *self._note_changes(states)]
        events += self._read_settled(start + seconds_to_read)
        return self._sum_up(start - self._began, events, len(states) >= MOST_FILES, most_functions)

    def _note_removed(self, states: dict[str, FileState]) -> Iterator[Event]:
        for path in [path for path in self._files if path not in states]:
            if self._files.pop(path).state != State.OTHER:
                yield Event(self._shorten(path), "removed")

    def _note_changes(self, states: dict[str, FileState]) -> Iterator[Event]:
        """Move files between states by what the folder shows, without reading any."""
        for path, state in states.items():
            if path.endswith(BESIDE):
                continue
            identity = (*state, any(f"{path}{ending}" in states for ending in BESIDE))
            known = self._files.get(path)
            if known is None:
                self._files[path] = _File(identity, State.WAITING if self._is_settled(state) else State.GROWING)
                yield Event(self._shorten(path), "new")
            elif known.identity != identity:
                word = "growing" if known.added is None else "changed"
                self._files[path] = _File(identity, State.GROWING)
                yield Event(self._shorten(path), word)
            elif known.state == State.GROWING:
                known.state = State.WAITING
        self._n_looks += 1

    def _is_settled(self, state: FileState) -> bool:
        """Tell whether a file may be read at once. Later than at the first look its date says nothing: it may be that
        of a file which is just being copied here."""
        return not self._n_looks and self.now_ns() - state[2] >= self.settle_s * 1e9

    def _read_settled(self, deadline: float) -> Iterator[Event]:
        for path, file in self._files.items():
            if file.state != State.WAITING:
                continue
            if self.clock() > deadline:
                return
            try:
                file.added = self.read(Path(path), self.names)
                file.state, file.why = State.COMPLETE, ""
                yield Event(self._shorten(path), "complete", file.added.format)
            except Incomplete as error:
                file.state, file.why = State.INCOMPLETE, str(error)
                yield Event(self._shorten(path), "incomplete", str(error))
            except Unknown as error:
                file.state, file.why = State.OTHER, str(error)

    def _sum_up(self, seconds: float, events: list[Event], is_cut: bool, most: int) -> Look:
        counts = Counter(str(file.state) for file in self._files.values())
        incomplete = [
            (self._shorten(path), file.why) for path, file in self._files.items() if file.state == State.INCOMPLETE
        ]
        n_bytes = sum(file.identity[1] for file in self._files.values())
        totals = self._add_up(most)
        return Look(seconds, dict(counts), n_bytes, tuple(events), tuple(sorted(incomplete)), totals, is_cut)

    def _add_up(self, most: int) -> Totals:
        added = [file.added for file in self._files.values() if file.added is not None]
        times = [one.time_range for one in added if one.time_range is not None]
        sums: dict[tuple[str, str], np.ndarray] = {}
        for one in added:
            if one.metric:
                total = sums.setdefault((one.metric, one.unit), np.zeros(len(self.names.numbers)))
                np.add.at(total, one.functions, one.costs)
        names = list(self.names.numbers)
        functions = {}
        for metric, total in sums.items():
            order = np.argsort(-total[1:], kind="stable")[:most] + 1  # the first is the rest
            functions[metric] = [(names[k], float(total[k])) for k in order.tolist() if total[k] > 0]
        return Totals(
            tuple(sorted(frozenset[int]().union(*(one.ranks for one in added)))),
            sum(one.n_profiles for one in added),
            (min(t[0] for t in times), max(t[1] for t in times)) if times else None,
            dict(Counter(one.format for one in added)),
            functions,
            {metric: float(total.sum()) for metric, total in sums.items()},
        )

    def _shorten(self, path: str) -> str:
        return path.removeprefix(f"{self.folder}/")
