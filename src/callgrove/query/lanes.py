"""Where the spans of a profile happened, in the words of rocprofv3's views: one column per word, one row per profile.

What the file itself says stands in `Traces.tables`; an experiment without these still has ranks, devices and streams.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np

from callgrove.model.arrays import ABSENT, Array, Ints
from callgrove.model.experiment import Experiment
from callgrove.model.profiles import ProfileKind
from callgrove.model.table import Column, Table
from callgrove.model.traces import PLACES
from callgrove.query.relations import NOTHING, Coded

__all__ = ["Lanes", "as_column", "lane_column", "numbers", "picked"]


class Lanes:
    """The lanes of one experiment."""

    def __init__(self, experiment: Experiment) -> None:
        self._experiment = experiment
        self._columns: dict[str, Array | Coded] = {}
        self._tables: dict[str, Table | None] = {}
        self._rows_by_id: dict[str, dict[tuple[str | None, int], int]] = {}

    def table(self, name: str) -> Table | None:
        """A table beside the spans, if there is one."""
        if name not in self._tables:
            make = self._experiment.traces.tables.get(name)
            self._tables[name] = None if make is None else make()
        return self._tables[name]

    @cached_property
    def places(self) -> Table | None:
        found = self.table(PLACES)
        return found if found is not None and len(found) == len(self._experiment.profiles) else None

    @cached_property
    def processes(self) -> Table | None:
        return self.table("processes")

    @cached_property
    def agents(self) -> Table | None:
        return self.table("agents")

    def agents_of(self, part: int) -> tuple[int, int]:
        """The row of the first agent of a part of the traces, and how many follow."""
        parts = [] if self.agents is None else self.agents.column("part").plain()
        return (parts.index(part), parts.count(part)) if part in parts else (0, 0)

    def rows_by_id(self, name: str, profile: int, ids: Ints) -> Ints:
        """Rows of `queues`, `streams` or `pmc_info`, by ids that the process of a profile gave; -1 is none."""
        known = self._ids_of(name)
        guid = lane_column("guid", self.column("guid"), np.array([profile])).plain()[0]
        different, number = np.unique(ids, return_inverse=True)
        found = np.array([known.get((guid, id_), ABSENT) for id_ in different.tolist()], np.int64)
        return found[number.reshape(-1)]

    def _ids_of(self, name: str) -> dict[tuple[str | None, int], int]:
        if name not in self._rows_by_id:
            table = self.table(name)
            columns = () if table is None else (table.column("guid").plain(), table.column("id").plain())
            self._rows_by_id[name] = {key: row for row, key in enumerate(zip(*columns, strict=True))}
        return self._rows_by_id[name]

    def rows_of(self, what: str) -> Ints:
        """Of every profile, the row of its `process` or `agent`; -1 is none."""
        if self.places is None:
            return np.full(len(self._experiment.profiles), ABSENT, np.int64)
        return np.array([ABSENT if row is None else row for row in self.places.column(what).plain()], np.int64)

    def column(self, word: str) -> Array | Coded:
        """One of the words below, by profile."""
        if word not in self._columns:
            self._columns[word] = self._made(word)
        return self._columns[word]

    def _made(self, word: str) -> Array | Coded:
        of_process = {"guid": "guid", "pid": "pid", "machine_id": "machine_id", "command": "command"}
        of_agent = {
            "agent_abs_index": "absolute_index",
            "agent_log_index": "logical_index",
            "agent_name": "name",
        }
        if word in of_process:
            return picked(self.processes, of_process[word], self.rows_of("process"))
        if word in of_agent:
            return picked(self.agents, of_agent[word], self.rows_of("agent"))
        make: dict[str, Callable[[], Array | Coded]] = {
            "agent_type": self._agent_types,
            "agent_type_index": lambda: self._identity("gpu_device"),
            "nid": lambda: self._identity("node"),
            "rank": lambda: self._identity("rank"),
            "stream_id": lambda: self._identity("gpu_stream"),
            "tid": self._thread_ids,
            "stream": self._names,
            "hostname": self._hosts,
        }
        return make[word]()

    def _identity(self, column: str) -> Ints:
        return numbers(self._experiment.profiles.identity_list(column))

    def _on_device(self) -> Array:
        return np.isin(self._experiment.profiles.kind, (ProfileKind.GPU_STREAM, ProfileKind.QUEUE, ProfileKind.GPU))

    def _agent_types(self) -> Coded:
        found = picked(self.agents, "type", self.rows_of("agent"))
        if isinstance(found, Coded):
            return found
        return Coded(np.where(self._on_device(), 0, ABSENT), ["GPU"])

    def _thread_ids(self) -> Ints:
        """The number that the system gave a thread."""
        profiles = self._experiment.profiles
        threads = profiles.kind == ProfileKind.THREAD
        if self.places is not None:
            return np.where(threads, numbers(self.places.column("number").plain()), NOTHING)
        values, present = profiles.identifiers.pick("THREAD", "physical")
        cells = [v if p else None for v, p in zip(values.tolist(), present.tolist(), strict=True)]
        return np.where(threads, numbers(cells), NOTHING)

    def _names(self) -> Coded:
        profiles = self._experiment.profiles
        return Coded(np.arange(len(profiles)), [name or None for name in profiles.name])

    def _hosts(self) -> Coded:
        found = picked(self.processes, "hostname", self.rows_of("process"))
        return found if isinstance(found, Coded) else Coded(np.full(len(found), ABSENT), [])


def picked(table: Table | None, column: str, rows: Ints) -> Array | Coded:
    """A column of some rows of a small table; -1 is no row. Texts stay numbers."""
    if table is None:
        return np.full(len(rows), NOTHING)
    cells = table.column(column).plain()
    if any(isinstance(cell, str) for cell in cells):
        return Coded(rows, [cell if cell is None else str(cell) for cell in cells])
    return np.append(numbers(cells), NOTHING)[rows]


def numbers(cells: Sequence[int | None]) -> Ints:
    """Integers of 64 bits; what is none, or does not fit, is NOTHING."""
    return np.array([NOTHING if c is None or not -(2**63) <= c < 2**63 else c for c in cells], np.int64)


def lane_column(name: str, by_profile: Array | Coded, profile: Array) -> Column:
    """What a lane is called, for the profile of every row."""
    if isinstance(by_profile, Coded):
        return Column(name, Coded(by_profile.codes[profile], by_profile.strings))
    return Column(name, by_profile[profile], NOTHING)


def as_column(name: str, cells: Array | Coded) -> Column:
    return Column(name, cells, None if isinstance(cells, Coded) else NOTHING)
