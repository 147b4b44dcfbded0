"""Small tables that stand beside the spans of several inputs (`Traces.tables`), as those of one.

Of an input whose profiles are all in the result every row stays; else those of processes that still have a profile, of
agents in parts of the traces that still have one, and of things that belong to such a process (`guid`). Rows follow
each other, input by input; what numbers them (`places`), or parts of the traces (`agents`), is counted anew.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import accumulate
from typing import Any

import numpy as np

from callgrove.model.arrays import ABSENT, Ids, Ints
from callgrove.model.table import Column, Table
from callgrove.model.traces import PLACES, Traces

__all__ = ["Beside", "chained_tables"]

PROCESSES, AGENTS = "processes", "agents"
NAMED_BY = {"process": PROCESSES, "agent": AGENTS}  # columns of `places`, and the table whose rows they number
PART, GUID = "part", "guid"


@dataclass(frozen=True, eq=False)
class Beside:
    """The tables of one input; `profiles` gives the number in the result of each of its profiles, or -1."""

    traces: Traces
    profiles: Ids

    @property
    def has_profiles(self) -> bool:
        return bool((self.profiles >= 0).any())

    @property
    def n_parts(self) -> int:
        return len(self.traces.parts())

    @cached_property
    def places(self) -> Table | None:
        make = self.traces.tables.get(PLACES)
        table = None if make is None else make()
        return table if table is not None and len(table) == len(self.profiles) else None

    def table(self, name: str) -> Table | None:
        """What stays of a table."""
        make = self.traces.tables.get(name) if self.has_profiles else None
        if make is None:
            return None
        table = make()
        rows = self._rows(name, table)
        return Table(tuple(Column(c.name, _taken(c.plain(), rows)) for c in table.columns))

    def _rows(self, name: str, table: Table) -> Ints:
        """The rows that stay."""
        every = np.arange(len(table))
        if (self.profiles >= 0).all() or self.places is None:
            return every
        if name == PROCESSES:
            here = np.flatnonzero(self.profiles >= 0)
            wanted = {row for row in _taken(self.places.column("process").plain(), here) if row is not None}
            return np.array([row for row in every.tolist() if row in wanted], np.int64)
        if name == AGENTS:
            parts = {k for k, own in enumerate(self.traces.parts()) if (self.profiles[own] >= 0).any()}
            return np.flatnonzero([part in parts for part in table.column(PART).plain()])
        if GUID in table.names and (processes := self.table(PROCESSES)) is not None:
            guids = {None, *processes.column(GUID).plain()}
            return np.flatnonzero([guid in guids for guid in table.column(GUID).plain()])
        return every

    def numbers(self, name: str) -> Ints:
        """The number that each row of a table has among those that stay, or -1."""
        make = self.traces.tables.get(name)
        table = Table(()) if make is None else make()
        rows = self._rows(name, table)
        out = np.full(len(table), ABSENT, np.int64)
        out[rows] = np.arange(len(rows))
        return out


def chained_tables(inputs: Sequence[Beside], n_profiles: int) -> Mapping[str, Callable[[], Table]]:
    """Each of them is made when it is asked for."""
    names = dict.fromkeys(name for one in inputs if one.has_profiles for name in one.traces.tables)
    make: dict[str, Callable[[], Table]] = {name: partial(_joined, inputs, name) for name in names}
    if PLACES in names:
        make[PLACES] = partial(_places, inputs, n_profiles)
    return make


def _joined(inputs: Sequence[Beside], name: str) -> Table:
    """The rows of all inputs; columns that only some have are empty elsewhere."""
    found = [one.table(name) for one in inputs]
    columns = dict.fromkeys(column for table in found if table is not None for column in table.names)
    cells: dict[str, list[object]] = {column: [] for column in columns}
    firsts = _offsets([one.n_parts for one in inputs])
    for table, first in zip(found, firsts, strict=True):
        if table is None:
            continue
        for column in columns:
            own: list[Any] = table.column(column).plain() if column in table.names else [None] * len(table)
            cells[column] += [_moved(part, first) for part in own] if (name, column) == (AGENTS, PART) else own
    return Table(tuple(Column(column, values) for column, values in cells.items()))


def _places(inputs: Sequence[Beside], n_profiles: int) -> Table:
    """A row for every profile of the result; empty for those whose input says nothing."""
    cells: dict[str, list[object]] = {column: [None] * n_profiles for column in (*NAMED_BY, "number")}
    firsts = dict.fromkeys(NAMED_BY, 0)
    for one in (one for one in inputs if one.has_profiles and one.places is not None):
        assert one.places is not None
        here = np.flatnonzero(one.profiles >= 0)
        for column in (column for column in one.places.columns if column.name in cells):
            own = _taken(column.plain(), here)
            if column.name in NAMED_BY:
                numbers = one.numbers(NAMED_BY[column.name])
                known = [int(numbers[row]) if row in range(len(numbers)) else None for row in own]
                own = [_moved(row, firsts[column.name]) for row in known]
                firsts[column.name] += int((numbers >= 0).sum())
            for profile, cell in zip(one.profiles[here].tolist(), own, strict=True):
                cells[column.name][profile] = cell
    return Table(tuple(Column(name, values) for name, values in cells.items()))


def _offsets(sizes: Sequence[int]) -> list[int]:
    """Where each begins if they follow each other."""
    return [0, *accumulate(sizes)][:-1]


def _moved(number: int | None, first: int) -> int | None:
    return None if number is None else number + first


def _taken(cells: Sequence[Any], rows: Ints) -> list[Any]:
    return [cells[row] for row in rows.tolist()]
