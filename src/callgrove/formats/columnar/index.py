"""Which profiles each row group has: the table `index`, as it is written and as it is asked.

A row for each profile of each row group: how many rows of the group are its own and, for spans, from when to when they
go. So the values or spans of one profile are read from the row groups that have any.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from callgrove.formats.columnar.arrow import Words
from callgrove.formats.columnar.folder import Folder
from callgrove.formats.columnar.stored_table import StoredTable
from callgrove.model.arrays import ABSENT, Array, Bools, Ids, Ints
from callgrove.model.traces import Window

__all__ = ["IndexRows", "TableIndex"]

START, END = "start_ns", "end_ns"


RowGroup = Mapping[str, Array]


class IndexRows:
    """The index in the making. `count` is told of every row group that was written, with the name of its table."""

    def __init__(self, count: Callable[[str, RowGroup], None] | None = None) -> None:
        self._count = count
        self._tables: list[str] = []
        self._parts: list[tuple[Array, ...]] = []

    def table(self, name: str) -> Callable[[int, RowGroup], None]:
        """What a writer tells of the row groups of a table."""
        number = len(self._tables)
        self._tables.append(name)

        def written(group: int, rows: RowGroup) -> None:
            self._add(number, group, rows)
            if self._count is not None:
                self._count(name, rows)

        return written

    def _add(self, table: int, group: int, rows: RowGroup) -> None:
        profiles, number, counts = np.unique(rows["profile"], return_inverse=True, return_counts=True)
        n = len(profiles)
        start, end = np.full(n, ABSENT, np.int64), np.full(n, ABSENT, np.int64)
        if START in rows:
            start[:], end[:] = np.iinfo(np.int64).max, np.iinfo(np.int64).min
            np.minimum.at(start, number, rows[START])
            np.maximum.at(end, number, np.maximum(rows[START], rows[END]))
        self._parts.append((np.full(n, table), np.full(n, group), profiles, counts, start, end))

    def columns(self) -> Mapping[str, Array | Words]:
        empty: tuple[Array, ...] = (np.empty(0, np.int64),) * 6
        table, group, profile, rows, start, end = (np.concatenate(c) for c in zip(empty, *self._parts, strict=True))
        return {
            "table": Words(table, self._tables),
            "row_group": group,
            "profile": profile,
            "rows": rows,
            START: start,
            END: end,
        }


class TableIndex:
    """The index of one table."""

    def __init__(self, group: Ints, profile: Ids, rows: Ints, start: Ints, end: Ints) -> None:
        self._group, self._profile, self._rows, self._start, self._end = group, profile, rows, start, end

    @classmethod
    def read_all(cls, folder: Folder) -> Callable[[StoredTable], TableIndex | None]:
        """The index of any table, None where it does not agree with that table."""
        rows = folder.table("index").whole()
        ids, names = rows.words("table")
        group, profile, count = (rows.numbers(name) for name in ("row_group", "profile", "rows"))
        start, end = rows.numbers(START), rows.numbers(END)

        def of(table: StoredTable) -> TableIndex | None:
            number = names.index(table.name) if table.name in names else -2
            own = np.flatnonzero(ids == number)
            sizes = np.diff(table.first_rows)
            inside = (group[own] >= 0) & (group[own] < len(sizes)) & (count[own] >= 0)
            if not inside.all() or not np.array_equal(
                np.bincount(group[own], count[own], len(sizes)).astype(np.int64), sizes
            ):
                folder.warn(
                    folder.table("index").damage("rows", f"the rows of {table.path.name}", "other numbers of rows")
                )
                return None
            return cls(group[own], profile[own], count[own], start[own], end[own])

        return of

    def only(self, profiles: Ints) -> TableIndex:
        """The rows of some profiles."""
        kept = np.isin(self._profile, profiles)
        ids, rows, times = (self._group[kept], self._profile[kept]), self._rows[kept], (self._start, self._end)
        return TableIndex(*ids, rows, times[0][kept], times[1][kept])

    def rows(self, n_profiles: int) -> Ints:
        """How many rows each profile has."""
        known = (self._profile >= 0) & (self._profile < n_profiles)
        return np.bincount(self._profile[known], self._rows[known], n_profiles).astype(np.int64)

    def groups(self, profiles: Ints | None, window: Window | None = None) -> Ints:
        """The row groups that have any row of these profiles that reaches into the window."""
        kept: Bools = np.ones(len(self._group), np.bool_)
        if profiles is not None:
            kept &= np.isin(self._profile, profiles)
        if window is not None:
            kept &= (self._start < window[1]) & (self._end >= window[0])
        return np.unique(self._group[kept]).astype(np.int64)
