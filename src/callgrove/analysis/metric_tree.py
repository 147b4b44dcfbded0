"""The tree of metrics with what each comes to over the whole call tree: time > execution > mpi > ...

A metric's value contains those of its children, so that a tree of metrics divides its root as a call tree does:

    name              value  without_children  percent
    time              128 s               0 s    100%
      execution       128 s               0 s    100%
        comp           86 s              86 s   67.2%
        mpi            42 s              16 s   32.8%
          p2p          26 s              26 s   20.3%

Percent is of the root above, where both add up and have one unit. A formula over sums is computed once, of sums over
the whole call tree; it has no share. A metric that nobody measured is empty, and its kind says so. What cannot be
computed is empty and named in a note. So is a metric that is less than its children, as files may nest metrics that are
no parts of one another.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from callgrove.analysis.costs import RowCells, Rows, counts_as_child
from callgrove.arrays import Ints
from callgrove.errors import NotEvaluated, UsageError, compose_text
from callgrove.model.derived import TotalCells
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Aggregation, Metric, Metrics, Scope
from callgrove.model.table import Column, Table

__all__ = ["metric_tree"]

NO_VALUE = float("nan")
MOST_NOTES = 5
ROUNDING = 1e-12  # of a value, as where the children of a context are taken from it


@dataclass
class _Node:
    """A metric in its tree. Values are NaN where there is none."""

    metric: Metric
    depth: int
    root: int  # the number of the node at the root
    children: list[int] = field(default_factory=list)
    value: float = NO_VALUE
    without_children: float = NO_VALUE
    percent: float = NO_VALUE

    @property
    def adds_up(self) -> bool:
        return self.metric.aggregation == Aggregation.SUM and self.metric.composite is None


class _Whole:
    """Values of metrics over the whole call tree and the profiles chosen; `told` says what has none, and why."""

    def __init__(self, experiment: Experiment, profiles: Ints | None) -> None:
        tree = experiment.contexts
        every, roots = np.flatnonzero(tree.listed), tree.roots
        rows = Rows(1, (roots, np.zeros_like(roots)), (every, np.zeros_like(every)))
        self.experiment, self.profiles, self.told = experiment, profiles, list[str]()
        self.exceeded: list[tuple[_Node, float]] = []  # nodes that are less than their children, and what these are
        self._sums = TotalCells(experiment.values, Scope.INCLUSIVE, profiles)
        self._row = RowCells(self._sums, Scope.INCLUSIVE, rows)

    def value(self, metric: Metric) -> float:
        """Return what a metric comes to; NaN where that cannot be computed, or nobody measured it."""
        if metric.is_missing:
            return NO_VALUE
        try:
            self.experiment.metrics.require_values(metric.name)
            return self._compute(metric)
        except NotEvaluated as error:
            self.told.append(compose_text(error))
        except UsageError as error:
            self.told.append(compose_text(error))
        return NO_VALUE

    def base(self, root: _Node) -> float:
        """Return what percentages are of: the metric at the root, before contexts were selected."""
        before = self.experiment.whole
        return root.value if before is None else _Whole(before, self.profiles).value(root.metric)

    def _compute(self, metric: Metric) -> float:
        if metric.composite is not None:
            raise UsageError(f"its values are composite ({metric.dtype})")
        if metric.derivation is None:
            return self.experiment.root_total(metric.name, self.profiles)
        if metric.aggregation == Aggregation.NONE:
            roots = self.experiment.contexts.roots
            return float(self._sums.of(metric.name)[roots[0]] if len(roots) == 1 else self._row.of(metric.name)[0])
        return metric.aggregation.combine_all(self._sums.of(metric.name)[self.experiment.contexts.roots])


def _fill_in(nodes: Sequence[_Node], chosen: range, whole: _Whole) -> None:
    """Compute what some nodes and their roots come to; a node is among them with all below it."""
    for number in sorted({*chosen, *(nodes[number].root for number in chosen)}):
        nodes[number].value = whole.value(nodes[number].metric)
    bases = {number: whole.base(nodes[number]) for number in {nodes[number].root for number in chosen}}
    for number in chosen:
        node, root = nodes[number], nodes[nodes[number].root]
        children = [nodes[child] for child in node.children if counts_as_child(nodes[child].metric)]
        parts = [child.value for child in children]
        if node.adds_up or not children:
            node.without_children = _subtract(node.value, parts)
        if odd := [child.metric.name for child in children if child.metric.unit != node.metric.unit]:
            whole.told.append(f"{node.metric.name} without its children means little: {odd[0]} has another unit")
        elif node.without_children < 0 <= min(node.value, *parts, np.inf):  # differences may be less
            whole.exceeded.append((node, sum(parts)))
        if node.adds_up and root.adds_up and node.metric.unit == root.metric.unit and bases[node.root]:
            node.percent = 100.0 * node.value / bases[node.root]


def _subtract(value: float, parts: Sequence[float]) -> float:
    """Return what is left of a value. What remains of a difference of equal sums is rounding: it becomes zero."""
    rest = value - sum(parts)
    return 0.0 if parts and abs(rest) <= ROUNDING * max(abs(value), abs(sum(parts))) else rest


def _list_nodes(metrics: Metrics) -> list[_Node]:
    """Return the metrics in preorder, a node for all scopes of a quantity."""
    below: dict[str, list[str]] = {}
    for name in metrics.quantities:
        above = metrics.first(name).parent
        below.setdefault(metrics[above].name if above >= 0 else "", []).append(name)
    nodes: list[_Node] = []
    waiting = [(name, -1) for name in reversed(below.get("", []))]
    while waiting:
        name, above = waiting.pop()
        number = len(nodes)
        depth, root = (nodes[above].depth + 1, nodes[above].root) if above >= 0 else (0, number)
        nodes.append(_Node(metrics.first(name), depth, root))
        if above >= 0:
            nodes[above].children.append(number)
        waiting += [(child, number) for child in reversed(below.get(name, []))]
    return nodes


def metric_tree(
    experiment: Experiment, metric: str | None = None, profiles: Ints | None = None, limit: int | None = None
) -> Table:
    """Return the tree of metrics in preorder, or one of them with what lies below it. A limit leaves out hidden ones at
    the root, metrics that are 0 with all below them, and what comes after so many rows."""
    nodes, whole = _list_nodes(experiment.metrics), _Whole(experiment, profiles)
    first, end = 0, len(nodes)
    if metric:
        quantity = experiment.metrics.resolve(metric)
        first = next(number for number, node in enumerate(nodes) if node.metric.name == quantity)
        end = _find_end(nodes, first)
    _fill_in(nodes, range(first, end), whole)
    shown = nodes[first:end]
    if limit is not None:
        cost = _with_cost(nodes, first, end)
        shown = [node for node in cost if metric or nodes[node.root].metric.visible][:limit]
        shown = shown or nodes[first : first + 1 if metric else first][:limit]  # what was asked for, though it is 0
    base = nodes[first].depth if metric else 0
    columns = (
        Column("name", [node.metric.name for node in shown]),
        Column("depth", [node.depth - base for node in shown]),
        Column("unit", [node.metric.unit for node in shown]),
        Column("value", np.array([node.value for node in shown], np.float64), NO_VALUE),
        Column("without_children", np.array([node.without_children for node in shown], np.float64), NO_VALUE),
        Column("percent", np.array([node.percent for node in shown], np.float64), NO_VALUE),
        Column("kind", [_describe(node.metric) for node in shown]),
    )
    more = len(whole.told) - MOST_NOTES
    notes = (*whole.told[:MOST_NOTES], *([f"{more} more metrics have no value"] if more > 0 else ()))
    return Table(columns, left=end - first - len(shown), notes=(*notes, *_explain_exceeded(whole.exceeded)))


def _explain_exceeded(nodes: Sequence[tuple[_Node, float]]) -> Iterator[str]:
    """Yield a note where metrics are less than their children."""
    if nodes:
        node, parts = nodes[0]
        others = f"; the same holds for {len(nodes) - 1} more" if len(nodes) > 1 else ""
        yield (
            f"{node.metric.name} is less than its children, {node.value:.6g} of {parts:.6g}: these are not parts of "
            f"it, and their shares say nothing{others}"
        )


def _find_end(nodes: Sequence[_Node], first: int) -> int:
    """Return the number after the last node below one."""
    after = (number for number in range(first + 1, len(nodes)) if nodes[number].depth <= nodes[first].depth)
    return next(after, len(nodes))


def _with_cost(nodes: Sequence[_Node], first: int, end: int) -> list[_Node]:
    """Return the nodes that have a value other than 0, or none that is known, at or below them."""
    has_cost = [node.value != 0 and not node.metric.is_missing for node in nodes]
    for number in reversed(range(first, end)):
        has_cost[number] |= any(has_cost[child] for child in nodes[number].children)
    return [nodes[number] for number in range(first, end) if has_cost[number]]


def _describe(metric: Metric) -> str:
    """Return how a metric came about, and whether it is hidden."""
    return metric.kind if metric.visible else f"{metric.kind}, hidden"
