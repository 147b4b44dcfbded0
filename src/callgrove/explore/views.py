"""Rows and what lies below each, as numbers: the call tree, the flat profile and the callers of functions.

A node is a number: of a context, of a group of contexts, or of a chain of callers. -1 stands above all rows. A view
knows the nodes below each node, what they are called and what they cost; in which order they are shown is up to
listing.py.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from callgrove.analysis.costs import Groups, group
from callgrove.analysis.views import (
    describe_contexts,
    describe_groups,
    exclusive_of,
    find_reached,
    fold_lines,
    plan_callers,
)
from callgrove.arrays import Array, Bools, Floats, Ids, Ints
from callgrove.errors import UsageError
from callgrove.explore.measures import Measures, Pairs
from callgrove.model.metrics import Scope
from callgrove.model.table import Column

__all__ = ["ABOVE", "FLAT", "CallTree", "CallerView", "FlatView", "Name", "View"]

ABOVE = -1  # the node above all rows
FLAT = ("function", "line", "loop", "file", "module")


@dataclass(frozen=True)
class Name:
    """What a row is called, and where it is in the source."""

    text: str
    kind: str
    file: str | None
    line: int | None
    module: str | None


class View(ABC):
    """A forest of nodes with costs. `scope` is what percentages and differences are of, `default` the column that rows
    are sorted by."""

    def __init__(self, measures: Measures, title: str, scope: Scope) -> None:
        self.measures, self.title, self.scope = measures, title, scope

    @property
    def default(self) -> str:
        return "difference" if self.measures.is_difference else self.scope.value

    @abstractmethod
    def children(self, node: int) -> Ints:
        """Return the nodes right below a node, in no particular order."""

    def children_of(self, nodes: Ints) -> tuple[Ints, Ints]:
        """Return the nodes right below some nodes, and below which of these each one lies, by its place there."""
        below = [self.children(node) for node in nodes.tolist()]
        sizes = [len(one) for one in below]
        return np.concatenate([np.empty(0, np.int64), *below]), np.repeat(np.arange(len(below)), sizes)

    @abstractmethod
    def have_children(self, nodes: Ints) -> Bools:
        """Return which nodes can be unfolded."""

    @abstractmethod
    def parent(self, node: int) -> int:
        """Return the node right above a node."""

    def has_row(self, node: int) -> bool:
        """Return whether a node is a row somewhere."""
        return node in self.children(ABOVE)

    @abstractmethod
    def pairs(self, nodes: Ints) -> Pairs:
        """Return the exclusive and inclusive costs of nodes, in each experiment."""

    @abstractmethod
    def names(self, nodes: Sequence[int]) -> list[Name]:
        """Return what nodes are called."""

    @abstractmethod
    def members(self, node: int) -> Bools:
        """Return the contexts whose cost, in the scope of the view, is that of a node."""

    def context(self, node: int) -> int:
        """Return a context that stands for a node."""
        return int(np.argmax(self.members(node)))

    def cells(self, nodes: Ints, scope: Scope | None = None) -> dict[str, Floats]:
        """Return every column of some nodes."""
        return self.measures.cells(self.pairs(nodes), scope or self.scope)

    def path(self, node: int) -> list[int]:
        """Return all nodes above a node, the outermost first, and the node itself."""
        out = [node]
        while (above := self.parent(out[-1])) != ABOVE:
            out.append(above)
        return out[::-1]


def _make_names(columns: Sequence[Column]) -> list[Name]:
    cells = [column.plain() for column in columns]
    return [Name(*row) for row in zip(*cells, strict=True)]


# -- the call tree -----------------------------------------------------------------------------------------------------


class CallTree(View):
    """Contexts with a cost at or below them, from the roots down: the rows of `callgrove tree`. `source` keeps source
    lines and call sites as rows of their own."""

    def __init__(self, measures: Measures, source: bool = False) -> None:
        super().__init__(measures, "call tree", Scope.INCLUSIVE)
        first, *others = measures.sides
        folded = fold_lines(first, source)
        sides = [folded] + [
            replace(folded, exclusive=exclusive_of(costs, folded.owner), inclusive=costs.inclusive) for costs in others
        ]
        self._costs = [(side.exclusive, side.inclusive) for side in sides]
        reached = np.zeros(len(folded.shown), np.bool_)
        for costs, side in zip(measures.sides, sides, strict=True):
            reached |= find_reached(costs, side)
        self.end = measures.tree.subtree_end[: len(reached)]
        counts = np.concatenate([[0], np.cumsum(reached)])
        self.shown: Bools = folded.shown & (counts[self.end] > counts[:-1])  # what leads to a cost is a row
        self._parent = folded.parent
        self._arrange()

    def _arrange(self) -> None:
        """Put the children of every context next to each other."""
        rows = np.flatnonzero(self.shown)
        parent = self._parent[rows]
        self._children = rows[np.argsort(parent, kind="stable")]
        self._bounds = np.concatenate([[0], np.cumsum(np.bincount(parent + 1, minlength=len(self.shown) + 1))])

    def children(self, node: int) -> Ints:
        return self._children[self._bounds[node + 1] : self._bounds[node + 2]]

    def children_of(self, nodes: Ints) -> tuple[Ints, Ints]:
        starts, sizes = self._bounds[nodes + 1], self._bounds[nodes + 2] - self._bounds[nodes + 1]
        before = np.cumsum(sizes) - sizes
        places = np.arange(int(sizes.sum())) + np.repeat(starts - before, sizes)
        return self._children[places], np.repeat(np.arange(len(nodes)), sizes)

    def have_children(self, nodes: Ints) -> Bools:
        has: Bools = self._bounds[nodes + 2] > self._bounds[nodes + 1]
        return has

    def has_row(self, node: int) -> bool:
        return 0 <= node < len(self.shown) and bool(self.shown[node])

    def parent(self, node: int) -> int:
        return int(self._parent[node])

    def pairs(self, nodes: Ints) -> Pairs:
        return [(exclusive[nodes], inclusive[nodes]) for exclusive, inclusive in self._costs]

    def names(self, nodes: Sequence[int]) -> list[Name]:
        return _make_names(describe_contexts(self.measures.tree, nodes))

    def members(self, node: int) -> Bools:
        out = np.zeros(len(self.shown), np.bool_)
        out[node] = True
        return out

    def context(self, node: int) -> int:
        return node


# -- the flat profile --------------------------------------------------------------------------------------------------


class FlatView(View):
    """Functions, lines, loops, files or modules, whoever called them: the rows of `callgrove top`."""

    def __init__(self, measures: Measures, by: str = "function") -> None:
        super().__init__(measures, f"flat, by {by}", Scope.EXCLUSIVE)
        self.by = by
        self._groups: Groups = group(measures.tree, by)
        rows = self._groups.rows(np.arange(len(self._groups)), measures.tree)
        self._costs = [costs.over(rows) for costs in measures.sides]
        has = np.zeros(len(self._groups), np.bool_)
        for costs, pair in zip(measures.sides, self._costs, strict=True):
            has |= costs.has(pair[0]) | costs.has(pair[1])
        self._shown = np.flatnonzero(has)

    def children(self, node: int) -> Ints:
        return self._shown if node == ABOVE else self._shown[:0]

    def have_children(self, nodes: Ints) -> Bools:
        return np.zeros(len(nodes), np.bool_)

    def parent(self, node: int) -> int:
        return ABOVE

    def pairs(self, nodes: Ints) -> Pairs:
        return [(exclusive[nodes], inclusive[nodes]) for exclusive, inclusive in self._costs]

    def names(self, nodes: Sequence[int]) -> list[Name]:
        first = self._groups.first[list(nodes)].tolist()
        return _make_names(describe_groups(self.measures.first, self.by, first))

    def members(self, node: int) -> Bools:
        out: Bools = self._groups.of == node
        return out

    def context(self, node: int) -> int:
        return int(self._groups.first[node])

    @property
    def rows(self) -> tuple[Ints, Ints]:
        """All rows, and a context that stands for each."""
        return self._shown, self._groups.first[self._shown]


# -- callers -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Batch:
    """Rows that were made at once: functions, or the callers of one row. `at` are the contexts where their chains stand
    now, `origin` those where they began, `costs` what each has; row k has those from bounds[k] to bounds[k + 1]."""

    parent: int
    group: Ints
    bounds: Ints
    at: Ints
    origin: Ints
    costs: Floats


class CallerView(View):
    """Functions by exclusive cost with their callers below them: the rows of `callgrove tree --bottom-up`. Callers are
    found when a row is unfolded: there may be many more chains of them than contexts."""

    def __init__(self, measures: Measures) -> None:
        super().__init__(measures, "callers", Scope.EXCLUSIVE)
        plans = [plan_callers(costs) for costs in measures.sides]
        self._of: Ids = plans[0].groups.of
        self._first, self._caller, self._owner = plans[0].groups.first, plans[0].caller, plans[0].owner
        self._batches: list[_Batch] = []
        self._starts: list[int] = []  # the first node of each batch
        self._totals = np.zeros((0, 2 * len(plans)))
        self._unfolds = np.zeros(0, np.bool_)
        self._below: dict[int, Ints] = {}
        anchors = plans[0].anchors
        costs = np.stack([one for plan in plans for one in (plan.exclusive, plan.inclusive)], axis=1)
        nodes = self._add(ABOVE, anchors, anchors, costs.astype(np.float64))
        batch = self._batches[0]
        own = (batch.costs[:, ::2] != 0).any(axis=1)  # what has no exclusive cost at all is not a row
        self._below[ABOVE] = nodes[np.logical_or.reduceat(own, batch.bounds[:-1])] if len(nodes) else nodes

    @np.errstate(invalid="ignore", over="ignore")  # values need not be finite
    def _add(self, parent: int, at: Ints, origin: Ints, costs: Floats) -> Ints:
        """Make rows of the groups in which contexts lie, and return their nodes."""
        order = np.argsort(self._of[at], kind="stable")
        at, origin, costs = at[order], origin[order], costs[order]
        starts = np.flatnonzero(np.diff(self._of[at], prepend=-1))
        first = len(self._totals)
        batch = _Batch(parent, self._of[at[starts]].astype(np.int64), np.append(starts, len(at)), at, origin, costs)
        self._batches.append(batch)
        self._starts.append(first)
        if len(starts):
            goes_on = (self._caller[at] >= 0) & (costs != 0).any(axis=1)
            self._totals = np.concatenate([self._totals, np.add.reduceat(costs, starts, axis=0)])
            self._unfolds = np.append(self._unfolds, np.logical_or.reduceat(goes_on, starts))
        return np.arange(first, first + len(starts))

    def _locate(self, node: int) -> tuple[_Batch, int]:
        number = int(np.searchsorted(self._starts, node, side="right")) - 1
        return self._batches[number], node - self._starts[number]

    def _rows(self, node: int) -> tuple[Ints, Ints, Floats]:
        batch, row = self._locate(node)
        part = slice(batch.bounds[row], batch.bounds[row + 1])
        return batch.at[part], batch.origin[part], batch.costs[part]

    def children(self, node: int) -> Ints:
        if node not in self._below:
            at, origin, costs = self._rows(node)
            above = self._caller[at].astype(np.int64)
            kept = (above >= 0) & (costs != 0).any(axis=1)
            self._below[node] = self._add(node, above[kept], origin[kept], costs[kept])
        return self._below[node]

    def have_children(self, nodes: Ints) -> Bools:
        return self._unfolds[nodes]

    def parent(self, node: int) -> int:
        return self._locate(node)[0].parent

    def pairs(self, nodes: Ints) -> Pairs:
        totals: Array = self._totals[nodes]
        return [(totals[:, k], totals[:, k + 1]) for k in range(0, totals.shape[1], 2)]

    def names(self, nodes: Sequence[int]) -> list[Name]:
        places = [self._locate(node) for node in nodes]
        contexts = [int(self._first[batch.group[row]]) for batch, row in places]
        return _make_names(describe_contexts(self.measures.tree, contexts, parameters=False))

    def members(self, node: int) -> Bools:
        chosen = np.zeros(len(self._owner), np.bool_)
        chosen[self._rows(node)[1]] = True
        out: Bools = chosen[self._owner]
        return out

    def context(self, node: int) -> int:
        batch, row = self._locate(node)
        return int(self._first[batch.group[row]])

    def group(self, node: int) -> int:
        """Return the number of the function that a row is of."""
        batch, row = self._locate(node)
        return int(batch.group[row])

    def find(self, groups: Sequence[int]) -> int:
        """Return the row of a function, of its caller, of the caller of that one, and so on."""
        node = ABOVE
        for group_ in groups:
            node = next((child for child in self.children(node).tolist() if self.group(child) == group_), ABOVE)
            if node == ABOVE:
                raise UsageError("no function has these callers")
        return node
