"""Views of the call tree: flat (`top`), from the roots down (`tree`), from costly functions up, and the hot path
(`hot`).
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from callgrove.analysis.costs import Costs, Groups, Rows, functions_of, group, nearest, outermost
from callgrove.arrays import (
    ABSENT,
    Array,
    Bools,
    Floats,
    Ids,
    Ints,
    absent_stays,
    combine_upwards,
    first_with_parents,
    new_numbers,
    preorder,
)
from callgrove.errors import UsageError
from callgrove.model.contexts import ContextKind, ContextTree
from callgrove.model.metrics import Aggregation
from callgrove.model.table import Column, Table

if TYPE_CHECKING:
    from callgrove.analysis.columns import ShownColumns

__all__ = [
    "CallerPlan",
    "Callers",
    "Folded",
    "bottom_up",
    "describe_contexts",
    "describe_groups",
    "exclusive_of",
    "find_reached",
    "fold_lines",
    "grow_callers",
    "hot_path",
    "order_groups",
    "plan_callers",
    "top",
    "top_down",
]


COMPUTED_FROM_SUMS = "is computed from sums and does not add up itself"


# -- columns that describe contexts ------------------------------------------------------------------------------------


def describe_contexts(tree: ContextTree, contexts: Sequence[int], parameters: bool = True) -> tuple[Column, ...]:
    """Return one row per context; absent cells are empty. A row that stands for a group is named without parameters.
    Functions that nothing but their mangled names tells apart have these in brackets: `f [_Z1fi]`."""
    chosen, numbers = list(contexts), np.asarray(contexts, np.int64)
    regions, owner = tree.regions, tree.region[numbers].tolist()
    special = tree.parameters if parameters else {}
    names = [
        regions.label(region) if region >= 0 and context not in special else _name_alone(tree, context, parameters)
        for context, region in zip(chosen, owner, strict=True)
    ]
    if regions.overloads:
        told_apart = [region in regions.overloads for region in owner]
        names = [
            f"{name} [{tree.mangled_name(c)}]" if apart else name
            for name, c, apart in zip(names, chosen, told_apart, strict=True)
        ]
    words = [kind.word for kind in ContextKind]
    kinds = [words[kind] for kind in tree.kind[numbers].tolist()]
    files, lines, modules = (tree.column(name)[numbers].tolist() for name in ("file", "line", "module"))
    return (
        Column("name", names),
        Column("kind", kinds),
        Column("file", [regions.files.paths[f] if f >= 0 else None for f in files]),
        Column("line", lines, ABSENT),
        Column("module", [regions.modules[m] if m >= 0 else None for m in modules]),
    )


def _name_alone(tree: ContextTree, context: int, parameters: bool) -> str:
    """Return the name of a context that has no region, or parameters of its own."""
    return tree.label(context) if parameters else tree.name(context)


# -- call tree, from the roots down ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Folded:
    """A tree in which lines and call sites are part of what they are nested in.

    `shown` are the contexts that remain, `owner` is the one that each became part of; `parent` and `depth` are theirs,
    for every context of the tree.
    """

    shown: Bools
    owner: Ids
    parent: Ids
    depth: Ids
    exclusive: Array
    inclusive: Array


def fold_lines(costs: Costs, source: bool = False) -> Folded:
    """Fold source lines, call sites and instructions into their functions and loops; `source` keeps them."""
    tree, n = costs.tree, costs.tree.n_listed
    shown = np.ones(n, np.bool_) if source else ~tree.folded[:n]
    owner = nearest(tree, shown)
    above = tree.parent[:n]
    parent = np.where(above >= 0, owner[np.maximum(above, 0)], -1).astype(np.int32)
    depth = tree.depth[:n] if shown.all() else _count_above(tree, shown)
    return Folded(shown, owner, parent, depth, exclusive_of(costs, owner), costs.inclusive)


def _count_above(tree: ContextTree, shown: Bools) -> Ids:
    """Return how many of those shown are at and above each context, less one: in preorder, those that have begun and
    not ended."""
    n = len(shown)
    ended = np.bincount(tree.subtree_end[:n][shown], minlength=n + 1)[:n]
    depth: Ids = np.cumsum(shown - ended, dtype=np.int32) - np.int32(1)
    return depth


def exclusive_of(costs: Costs, owner: Ids) -> Array:
    """Return the exclusive cost of contexts with all that became part of them; the same owners serve every metric."""
    every = np.arange(len(owner))
    same = every, every
    return costs.over(Rows(len(owner), same, (every, owner.astype(np.int64)), same))[0]


def top_down(
    costs: Costs, source: bool = False, limit: int | None = None, columns: ShownColumns | None = None
) -> Table:
    """Return the call tree in preorder, the costliest child first (by size, where costs are signed); percent is of
    inclusive cost.

    Contexts without any cost at or below them are left out. A limit keeps the contexts with the highest inclusive cost
    and all that lies above them; of a formula that does not add up, those with most of what it is computed from, as
    its own values say nothing about what lies above. `columns` are shown of the same rows.
    """
    folded = fold_lines(costs, source)
    costly = np.flatnonzero(folded.shown & find_reached(costs, folded))
    ranks = costs.rank(folded.inclusive)
    chosen, notes = costly, _say_none(costs, len(costly))
    if limit is not None and len(costly) > limit:
        guide, weights = costs.guide if costs.is_ratio else ("", ranks)
        chosen = _heaviest(folded, costly, weights, limit)
        notes = (f"rows are those with the most {guide}, as {costs.metric.name} does not add up",) if guide else ()
    order = _walk_tree(folded, chosen, ranks)
    return Table(
        (
            Column("context", order),
            Column("depth", folded.depth[order]),
            *describe_contexts(costs.tree, order.tolist()),
            *costs.columns(folded.exclusive[order], folded.inclusive[order], folded.inclusive[order]),
            *_source_text(costs, order, source),
            *(columns.of_rows(Rows.of_contexts(order, folded.owner)) if columns else ()),
        ),
        left=len(costly) - len(chosen),
        notes=notes,
    )


def _say_none(costs: Costs, n_rows: int) -> tuple[str, ...]:
    """Return what is said of a view of a formula that has no row."""
    return () if n_rows or costs.metric.derivation is None else (f"no row has a value of {costs.metric.name}",)


def find_reached(costs: Costs, folded: Folded) -> Bools:
    """Return which contexts have a cost at or below them. Above a ratio there may be contexts without one."""
    if costs.is_signed:
        return ~(costs.weights <= 0)  # a cost that is missing is there
    reached: Bools = costs.has(folded.exclusive) | costs.has(folded.inclusive)
    if not costs.is_ratio:
        return reached
    tree, n = costs.tree, costs.tree.n_listed
    below = np.zeros(len(tree), np.int64)
    below[:n] = reached
    return combine_upwards(below, tree.parent, tree.levels)[:n] > 0


def _heaviest(folded: Folded, costly: Ints, ranks: Floats, limit: int) -> Ints:
    """Return the `limit` contexts with the highest inclusive cost, each with everything above it. Where the first of
    them lies too deep, what is above it stays, from the root on."""
    return first_with_parents(costly[np.lexsort((costly, -ranks[costly]))], folded.parent, limit)


def _walk_tree(folded: Folded, chosen: Ints, ranks: Floats) -> Ints:
    """Return contexts in preorder, with the costliest sibling first."""
    siblings = chosen[np.lexsort((chosen, -ranks[chosen]))]
    place = new_numbers(siblings, len(folded.parent))
    above = folded.parent[siblings]
    while len(climbing := np.flatnonzero((above >= 0) & (place[above] < 0))):  # what cancels out has no row
        above[climbing] = folded.parent[above[climbing]]
    return siblings[preorder(absent_stays(place)[above])]


def _source_text(costs: Costs, order: Ints, source: bool) -> tuple[Column, ...]:
    """Return the text of each context's line, where a copy of the source is at hand."""
    if not source:
        return ()
    tree: ContextTree = costs.tree
    texts: dict[int, list[str]] = {}
    cells: list[str | None] = []
    for context in order.tolist():
        region = int(tree.region[context])
        file = int(tree.regions.file[region]) if region >= 0 else -1
        line = int(tree.regions.line[region]) if region >= 0 else -1
        if file not in texts:
            texts[file] = costs.experiment.sources.lines(file)
        cells.append(texts[file][line - 1].strip() if 0 < line <= len(texts[file]) else None)
    return (Column("source", cells),)


# -- callers, from costly functions up ---------------------------------------------------------------------------------
# A full tree of callers has a row for every suffix of every call path, which may be many more than there are contexts.
# It is grown from the costliest row on, so that a limit bounds the work and not only the print.


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
        """The sizes of all costs: what lies below zero does not cancel out what lies above. One that is missing comes
        last."""
        return _size(np.abs(self.exclusive).sum())


def _size(cost: float) -> float:
    return -1.0 if np.isnan(cost) else abs(float(cost))


def bottom_up(costs: Costs, limit: int | None = None) -> Table:
    """Return functions by exclusive cost, each with its callers below it; percent is of exclusive cost.

    A caller's cost is the part of the function's cost that was reached through it. At depth 0 the exclusive column
    adds up to the total. The metric must be additive.
    """
    return grow_callers(costs, limit).table


@dataclass(frozen=True)
class CallerPlan:
    """From which contexts callers are followed: `anchors` are those of functions, with the exclusive cost of all that
    is nested in them and the inclusive cost of outermost ones. `caller` is the anchor above each context, -1 for
    none."""

    groups: Groups
    owner: Ids
    anchors: Ints
    exclusive: Array
    inclusive: Array
    caller: Ids


def plan_callers(costs: Costs) -> CallerPlan:
    """Return what a view of callers starts from. The metric must be additive."""
    if costs.metric.aggregation != Aggregation.SUM:
        rule = f"is a {costs.metric.aggregation.name.lower()}, no sum"
        why = COMPUTED_FROM_SUMS if costs.is_ratio else rule
        raise UsageError(f"{costs.metric.name} {why}: it cannot be divided among callers")
    tree = costs.tree
    owner, groups = functions_of(tree), group(tree, "function")
    exclusive = np.zeros(tree.n_listed, costs.exclusive.dtype)
    np.add.at(exclusive, owner, costs.exclusive)
    anchors = np.flatnonzero(owner == np.arange(tree.n_listed))
    once = outermost(groups.of, tree)[anchors]
    above = tree.parent[: tree.n_listed]
    caller = np.where(above >= 0, owner[np.maximum(above, 0)], -1)
    return CallerPlan(groups, owner, anchors, exclusive[anchors], np.where(once, costs.inclusive[anchors], 0), caller)


@np.errstate(invalid="ignore", over="ignore")  # values need not be finite
def grow_callers(costs: Costs, limit: int | None = None) -> Callers:
    """Return the table of `bottom_up`, and what the functions cost that a limit leaves out of it."""
    tree, plan = costs.tree, plan_callers(costs)
    groups, caller = plan.groups, plan.caller
    rows = _split(groups.of, plan.anchors, plan.exclusive, plan.inclusive, 0)
    roots = [r for r in rows if r.exclusive.any()]
    taken, left = _grow(roots, groups.of, caller, limit)
    rows = _walk_callers(taken)
    columns = [_totals(rows)[:, k] for k in (0, 1)]
    table = Table(
        (
            Column("context", [-1] * len(rows), -1),
            Column("depth", [r.depth for r in rows]),
            *describe_contexts(tree, [int(groups.first[r.group]) for r in rows], parameters=False),
            *costs.columns(columns[0], columns[1], columns[0]),
        ),
        left=len(left),
    )
    functions = [row for row in left if row.depth == 0]
    return Callers(table, len(functions), float(sum(row.exclusive.sum() for row in functions)))


def _split(of: Ids, at: Ints, exclusive: Array, inclusive: Array, depth: int) -> list[Row]:
    """Return rows for the groups in which the contexts `at` lie."""
    if len(at) == 1:
        return [Row(int(of[at[0]]), depth, at, exclusive, inclusive)]
    order = np.argsort(of[at], kind="stable")
    names = of[at[order]]
    bounds = np.flatnonzero(np.diff(names)) + 1
    parts = (np.split(array[order], bounds) for array in (at, exclusive, inclusive))
    return [Row(int(of[a[0]]), depth, a, e, i) for a, e, i in zip(*parts, strict=True) if len(a)]


def _grow(roots: list[Row], of: Ids, caller: Ids, limit: int | None) -> tuple[list[Row], list[Row]]:
    """Take the costliest row again and again and put its callers up for choice; return the functions that were
    taken and the rows that were not. A caller never costs more than what it calls, so rows stay connected."""
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


def _walk_callers(roots: list[Row]) -> list[Row]:
    """Return rows in preorder, the largest cost first."""
    order: list[Row] = []
    stack = _largest_last(roots)
    while stack:
        row = stack.pop()
        order.append(row)
        stack.extend(_largest_last(row.children))
    return order


def _largest_last(rows: list[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: -_size(row.exclusive.sum()))[::-1]


def _totals(rows: list[Row]) -> Array:
    return np.array([row.totals() for row in rows]).reshape(len(rows), 2)


# -- flat profile ------------------------------------------------------------------------------------------------------


def top(costs: Costs, by: str = "function", limit: int | None = None, columns: ShownColumns | None = None) -> Table:
    """Return groups by exclusive cost, the costliest first; percent is of their exclusive cost.

    Groups without any cost are left out. Over all rows, the exclusive column adds up to the total. `columns` are shown
    of the same rows.
    """
    groups = group(costs.tree, by)
    exclusive, inclusive = groups.costs(costs)
    order = order_groups(costs, exclusive, inclusive)
    shown = order if limit is None else order[:limit]
    more = columns.of_rows(groups.rows(shown, costs.tree)) if columns else ()
    return Table(
        (
            *describe_groups(costs, by, groups.first[shown].tolist()),
            *costs.columns(exclusive[shown], inclusive[shown], exclusive[shown]),
            *more,
        ),
        left=len(order) - len(shown),
        notes=_say_none(costs, len(order)),
    )


def order_groups(costs: Costs, exclusive: Array, inclusive: Array) -> Ints:
    """Return the groups that have any cost, the costliest first."""
    costly = np.flatnonzero(costs.has(exclusive) | costs.has(inclusive))
    return costly[np.lexsort((costly, -costs.rank(inclusive[costly]), -costs.rank(exclusive[costly])))]


def describe_groups(costs: Costs, by: str, contexts: list[int]) -> tuple[Column, ...]:
    """Return what groups are called, each of which one of its contexts stands for."""
    columns = describe_contexts(costs.tree, contexts, parameters=by == "context")
    return _name_after(by, contexts, columns) if by in ("file", "module") else columns


def _name_after(by: str, contexts: list[int], columns: tuple[Column, ...]) -> tuple[Column, ...]:
    """Return the columns of rows that stand for a file or a module each: they are named after it and have no other
    place."""
    cells = {column.name: column.plain() for column in columns}
    n = len(contexts)
    names = [cell if cell is not None else f"<unknown {by}>" for cell in cells[by]]
    empty: list[str | None] = [None] * n
    return (
        Column("name", names),
        Column("kind", [by] * n),
        Column("file", cells["file"] if by == "file" else empty),
        Column("line", [ABSENT] * n, ABSENT),
        Column("module", cells["module"] if by == "module" else empty),
    )


# -- hot path ----------------------------------------------------------------------------------------------------------
# It leads from the costliest root along the costliest calls, as long as one call dominates.


def hot_path(costs: Costs, share: float = 0.5, columns: ShownColumns | None = None) -> Table:
    """Return contexts from a root down, each with at least `share` of its parent's inclusive cost; percent is of the
    total. Of signed costs, at least `share` of all changes below the parent, whichever way they go."""
    if costs.is_ratio:
        raise UsageError(f"{costs.metric.name} {COMPUTED_FROM_SUMS}: no call has a share of it to follow")
    if costs.has_missing:
        raise UsageError(f"{costs.metric.name} has no value in some contexts: nobody knows where most of it is")
    folded = fold_lines(costs)
    path = _walk_hot_path(folded, costs.weights, share)
    chosen = np.array(path, np.int64)
    return Table(
        (
            Column("context", chosen),
            Column("depth", folded.depth[chosen]),
            *describe_contexts(costs.tree, path),
            *costs.columns(folded.exclusive[chosen], folded.inclusive[chosen], folded.inclusive[chosen]),
            *(columns.of_rows(Rows.of_contexts(chosen, folded.owner)) if columns else ()),
        )
    )


def _walk_hot_path(folded: Folded, weights: Floats, share: float) -> list[int]:
    rows = np.flatnonzero(folded.shown & (weights > 0))
    rows = rows[np.argsort(folded.parent[rows], kind="stable")]
    parent = folded.parent[rows]
    path: list[int] = []
    above, floor = -1, 0.0
    while True:
        first, after = np.searchsorted(parent, above), np.searchsorted(parent, above, side="right")
        if first == after:
            return path
        best = int(rows[first + np.argmax(weights[rows[first:after]])])  # of equal ones the first
        if weights[best] < floor:
            return path
        path.append(best)
        above, floor = best, share * float(weights[best])
