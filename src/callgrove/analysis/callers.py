"""The call tree from the costly functions up: who called them, and how much of their cost came that way.

A full tree of callers has a row for every suffix of every call path, which may be many more than there are contexts.
It is grown from the costliest row on, so that a limit bounds the work and not only the print.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field

import numpy as np

from callgrove.analysis.costs import Costs
from callgrove.analysis.groups import functions_of, group, outermost
from callgrove.analysis.rows import described
from callgrove.errors import UsageError
from callgrove.model.arrays import Array, Ids, Ints
from callgrove.model.metrics import Aggregation
from callgrove.model.table import Column, Table

__all__ = ["Callers", "bottom_up", "grow_callers"]


@dataclass(frozen=True)
class Callers:
    """A table of functions with their callers. `functions_left` functions are not in it, which have `rest` of the
    exclusive cost; what else is left are callers of those that are: their cost is in the table."""

    table: Table
    functions_left: int
    rest: float


@dataclass
class Row:
    """A function or a chain of callers. `at` are the contexts where the chain stands now, one per origin."""

    group: int
    depth: int
    at: Ints
    exclusive: Array
    inclusive: Array
    children: list[Row] = field(default_factory=list)

    def totals(self) -> tuple[float, float]:
        return self.exclusive.sum(), self.inclusive.sum()

    @property
    def weight(self) -> float:
        """The sizes of all costs: what lies below zero does not cancel out what lies above."""
        return float(np.abs(self.exclusive).sum())


def bottom_up(costs: Costs, limit: int | None = None) -> Table:
    """Functions by exclusive cost, each with its callers below it; percent is of exclusive cost.

    A caller's cost is the part of the function's cost that was reached through it. At depth 0 the exclusive column
    adds up to the total. The metric must be additive.
    """
    return grow_callers(costs, limit).table


@np.errstate(invalid="ignore", over="ignore")  # values need not be finite
def grow_callers(costs: Costs, limit: int | None = None) -> Callers:
    """Return the table of `bottom_up`, and what the functions cost that a limit leaves out of it."""
    if costs.metric.aggregation != Aggregation.SUM:
        word = costs.metric.aggregation.name.lower()
        raise UsageError(f"{costs.metric.name} is a {word}, no sum: it cannot be divided among callers")
    tree = costs.tree
    owner, groups = functions_of(tree), group(tree, "function")
    own = np.zeros(tree.n_listed, costs.exclusive.dtype)
    np.add.at(own, owner, costs.exclusive)
    anchors = np.flatnonzero(owner == np.arange(tree.n_listed))
    once = outermost(groups.of, tree)[anchors]
    reached = np.where(once, costs.inclusive[anchors], 0)
    caller = np.where(tree.parent[: tree.n_listed] >= 0, owner[np.maximum(tree.parent[: tree.n_listed], 0)], -1)
    roots = [r for r in _split(groups.of, anchors, own[anchors], reached, 0) if r.exclusive.any()]
    taken, left = _grow(roots, groups.of, caller, limit)
    rows = _walk(taken)
    columns = [_totals(rows)[:, k] for k in (0, 1)]
    table = Table(
        (
            Column("context", [-1] * len(rows), -1),
            Column("depth", [r.depth for r in rows]),
            *described(tree, [int(groups.first[r.group]) for r in rows], parameters=False),
            *costs.columns(columns[0], columns[1], columns[0]),
        ),
        left=len(left),
    )
    functions = [row for row in left if row.depth == 0]
    return Callers(table, len(functions), float(sum(row.exclusive.sum() for row in functions)))


def _split(of: Ids, at: Ints, exclusive: Array, inclusive: Array, depth: int) -> list[Row]:
    """Rows for the groups in which the contexts `at` lie."""
    if len(at) == 1:
        return [Row(int(of[at[0]]), depth, at, exclusive, inclusive)]
    order = np.argsort(of[at], kind="stable")
    names = of[at[order]]
    bounds = np.flatnonzero(np.diff(names)) + 1
    parts = (np.split(array[order], bounds) for array in (at, exclusive, inclusive))
    return [Row(int(of[a[0]]), depth, a, e, i) for a, e, i in zip(*parts, strict=True) if len(a)]


def _grow(roots: list[Row], of: Ids, caller: Ids, limit: int | None) -> tuple[list[Row], list[Row]]:
    """Take the costliest row again and again and put its callers up for choice; gives the functions that were taken
    and the rows that were not. A caller never costs more than what it calls, so rows stay connected."""
    taken: list[Row] = []
    count = 0
    heap = [(-row.weight, number, row, taken) for number, row in enumerate(roots)]
    heapq.heapify(heap)
    pushed = len(heap)
    while heap and (limit is None or count < limit):
        _, _, row, siblings = heapq.heappop(heap)
        siblings.append(row)
        count += 1
        for child in _callers(row, of, caller):
            heapq.heappush(heap, (-child.weight, pushed, child, row.children))
            pushed += 1
    return taken, [row for _, _, row, _ in heap]


def _callers(row: Row, of: Ids, caller: Ids) -> list[Row]:
    above = caller[row.at]
    kept = (above >= 0) & ((row.exclusive != 0) | (row.inclusive != 0))
    if not kept.any():
        return []
    return _split(of, above[kept], row.exclusive[kept], row.inclusive[kept], row.depth + 1)


def _walk(roots: list[Row]) -> list[Row]:
    """Rows in preorder, the largest cost first."""
    order: list[Row] = []
    stack = _largest_last(roots)
    while stack:
        row = stack.pop()
        order.append(row)
        stack.extend(_largest_last(row.children))
    return order


def _largest_last(rows: list[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: -abs(float(row.exclusive.sum())))[::-1]


def _totals(rows: list[Row]) -> Array:
    return np.array([row.totals() for row in rows]).reshape(len(rows), 2)
