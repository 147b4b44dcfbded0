"""Conditions over the rows of a table that is shown: `percent > 5 and name !~ /^MPI_/`.

    keep_rows(table, ["time >= 5%"], {"time": ShownMetric("exclusive", "s", 224.0)})

A condition names columns, or metrics where the table shows one: `ShownMetric` says in which column, and of what a
percentage is. Columns whose name ends in `_ns` are times, and their name without that means the same. A table with a
column `depth` is a tree: what lies above a row that stays, stays as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from callgrove.arrays import Array, Bools, first_with_parents
from callgrove.errors import UsageError
from callgrove.model.table import Column, Table
from callgrove.patterns.conditions import Condition, NumberColumn, TextColumn

__all__ = ["ShownMetric", "TableColumns", "choose_rows", "keep_rows", "limit_tree", "take_rows"]

NANOSECONDS = "_ns"
OF_HUNDRED = ("percent",)
SCOPES = {"excl": "exclusive", "incl": "inclusive"}  # columns, by what conditions say


@dataclass(frozen=True)
class ShownMetric:
    """The column in which a table shows a metric, its unit, and the whole that percentages are of (None: nothing)."""

    column: str
    unit: str = ""
    whole: float | None = None


@dataclass(frozen=True)
class TableColumns:
    """The columns of a table as conditions see them."""

    table: Table
    metrics: Mapping[str, ShownMetric]

    @property
    def n_rows(self) -> int:
        return len(self.table)

    @property
    def names(self) -> Sequence[str]:
        return list(dict.fromkeys((*self.table.names, *self.metrics)))

    def find(self, name: str) -> Sequence[str]:
        """Return the columns or metrics that a name fits; an exact name fits nothing else."""
        if name in self.table.names or name in self.metrics:
            return [name]
        if name + NANOSECONDS in self.table.names:
            return [name + NANOSECONDS]
        return [metric for metric in self.metrics if metric.lower().startswith(name.lower())]

    def read(self, name: str, scope: str) -> NumberColumn | TextColumn:
        """Return a column, or that of a metric; `scope` chooses another column of the same metric, where there is
        one."""
        shown = self.metrics.get(name) or ShownMetric(name)
        column = self.table.column(self._choose_scope(name, shown.column, scope))
        numbers = _numbers(column)
        if numbers is None:
            return TextColumn.of([None if cell is None else str(cell) for cell in column.plain()])
        unit = "ns" if column.name.endswith(NANOSECONDS) else shown.unit
        whole = 100.0 if column.name.endswith(OF_HUNDRED) else shown.whole
        return NumberColumn(numbers, unit=unit, whole=whole)

    def _choose_scope(self, name: str, column: str, scope: str) -> str:
        """Return the column that shows a metric in a scope."""
        if not scope:
            return column
        other = SCOPES[scope]
        if column not in SCOPES.values() or other not in self.table.names:
            raise UsageError(f"{scope}({name}) is not in this table, which has {column!r} alone")
        return other

    def mark(self, word: str) -> Bools | None:
        """Return which rows of a tree are leaves or roots, among those that are shown."""
        if "depth" not in self.table.names:
            return None
        depth = np.array(self.table["depth"], np.int64)
        if word == "root":
            roots: Bools = depth == 0
            return roots
        leaves: Bools = np.append(depth[1:], -1) <= depth
        return leaves


def _numbers(column: Column) -> Array | None:
    """Return a column of numbers as floats, NaN where there is none; None where it holds texts. Integers that floats
    cannot hold are compared as what is nearest."""
    cells = column.plain()
    if any(isinstance(cell, str) for cell in cells):
        return None
    if cells and all(cell is None for cell in cells):
        return None if column.name in ("name", "kind", "file", "module", "path") else np.full(len(cells), np.nan)
    return np.array([np.nan if cell is None else float(cell) for cell in cells], np.float64)


def keep_rows(table: Table, conditions: Sequence[str], metrics: Mapping[str, ShownMetric] | None = None) -> Table:
    """Return the rows that fulfil any of some conditions; of a tree, with all that lies above them. Raises PatternError
    where a condition is wrong."""
    return take_rows(table, choose_rows(table, conditions, metrics))


def choose_rows(table: Table, conditions: Sequence[str], metrics: Mapping[str, ShownMetric] | None = None) -> Bools:
    """Return which rows `keep_rows` keeps."""
    columns = TableColumns(table, metrics or {})
    parsed = [Condition.parse(text) for text in conditions]
    chosen = np.zeros(len(table), np.bool_)
    for condition in parsed:
        chosen |= condition.choose(columns)
    if "depth" in table.names:
        chosen = _close_upwards(chosen, table["depth"])
    return chosen


def _close_upwards(chosen: Bools, depths: Sequence[int]) -> Bools:
    """Return rows of a tree in preorder with all that lies above them."""
    kept = chosen.copy()
    for row, above in reversed(list(enumerate(_parents(depths)))):
        if kept[row] and above >= 0:
            kept[above] = True
    return kept


def limit_tree(table: Table, sizes: Array, limit: int) -> Table:
    """Return the `limit` rows of a tree with the largest sizes, each with all that lies above it; where the first of
    them lies too deep, what is above it stays, from the root on."""
    if len(table) <= limit:
        return table
    parents = np.array(_parents(table["depth"]), np.int32)
    kept = first_with_parents(np.argsort(-sizes, kind="stable"), parents, limit)
    chosen = np.zeros(len(table), np.bool_)
    chosen[kept] = True
    return replace(take_rows(table, chosen), left=table.left + len(table) - len(kept))


def _parents(depths: Sequence[int]) -> list[int]:
    """Return the row above each row of a tree in preorder, -1 for roots. A row may lie deeper than one level below."""
    above: list[int] = []
    parents: list[int] = []
    for row, depth in enumerate(depths):
        while above and depths[above[-1]] >= depth:
            above.pop()
        parents.append(above[-1] if above else -1)
        above.append(row)
    return parents


def take_rows(table: Table, chosen: Bools) -> Table:
    """Return some rows of a table."""
    rows = np.flatnonzero(chosen)
    columns = (replace(column, values=_take(column.values, rows)) for column in table.columns)
    return replace(table, columns=tuple(columns))


def _take(values: Sequence[object] | Array, rows: Array) -> Sequence[object] | Array:
    if isinstance(values, np.ndarray):
        return values[rows]
    return [values[row] for row in rows.tolist()]
