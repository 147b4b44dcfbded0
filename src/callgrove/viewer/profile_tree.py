"""The call tree of a page, its smallest subtrees folded, the tables beside it, and what rows are called.

    nodes   |-- kept contexts, in preorder --|-- folded rows --|
    parent    -1  0  1  1  0 ...                1  4 ...           of folded rows, whose subtrees they stand for
    more                                       12  3 ...           how many contexts each of them stands for

`inclusive` is in the data only where it is not the sum over the subtree of `exclusive`. Signed costs (differences of
experiments) have a `weight` too: the sizes of all changes at and below a context. A context is as large as its
largest share in any of the metrics, or that of a context below it. So the largest ones are always connected to a root.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from callgrove.analysis.costs import Costs, Groups, Rows, costs, group
from callgrove.analysis.views import Folded, describe_contexts, describe_groups, exclusive_of, fold_lines, grow_callers
from callgrove.arrays import ABSENT, Array, Bools, Floats, Ids, Ints, combine_upwards, depths, levels
from callgrove.errors import NotEvaluated, UsageError
from callgrove.model.contexts import ContextKind, ContextTree
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Metrics
from callgrove.model.study.from_runs import OF_THE_USER
from callgrove.model.table import Table
from callgrove.viewer.page import Choice, Detail, Limits, Texts

__all__ = [
    "GROUPS",
    "CallTree",
    "Cut",
    "CutTree",
    "FlatTable",
    "Labels",
    "ShownCosts",
    "adds_up",
    "callers",
    "costs_to_show",
    "cut_rows",
    "describe_metric",
    "rows_of",
]


# -- which metrics are shown, and what rows are called -----------------------------------------------------------------


Label = tuple[str, str, str, int, str]
COLUMNS = ("name", "kind", "file", "line", "module")


class Labels:
    """Labels by number, in the order of first use."""

    def __init__(self, tree: ContextTree) -> None:
        self._tree = tree
        self._numbers: dict[Label, int] = {}

    def of_contexts(self, contexts: Ints) -> Ints:
        """Return the number of each context's label. Contexts of one region and kind have one label, unless they have
        parameters or no region."""
        tree = self._tree
        region, kind = tree.region[contexts].astype(np.int64), tree.kind[contexts].astype(np.int64)
        key = region * len(ContextKind) + kind
        with_parameters: Ints = np.array(list(tree.parameters), np.int64)
        alone = (region < 0) | np.isin(contexts, with_parameters)
        key = np.where(alone, -1 - contexts, key)
        _, first, row = np.unique(key, return_index=True, return_inverse=True)
        columns = describe_contexts(tree, contexts[first].tolist())
        numbers: Ints = self._numbers_of(Table(columns))[row.ravel()]
        return numbers

    def of_rows(self, table: Table) -> Ints:
        """Return the number of the label of each row of a view."""
        return self._numbers_of(table)

    def _numbers_of(self, table: Table) -> Ints:
        cells = (table.column(name).plain() for name in COLUMNS)
        rows = zip(*cells, strict=True)
        numbers = [
            self._numbers.setdefault(
                (name or "", kind or "", file or "", ABSENT if line is None else line, module or ""),
                len(self._numbers),
            )
            for name, kind, file, line, module in rows
        ]
        return np.array(numbers, np.int64)

    @property
    def data(self) -> dict[str, Any]:
        """All labels as columns."""
        name, kind, file, line, module = zip(*self._numbers, strict=True) if self._numbers else ((),) * 5
        return {
            "name": Texts(name),
            "kind": Texts(kind),
            "file": Texts(file),
            "line": np.array(line, np.int64),
            "module": Texts(module),
        }


# -- metrics of a page -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ShownCosts:
    """The metric that is shown first, and the others; `left_out` counts those beyond the most that a page shows,
    `unavailable` derived ones that have no values."""

    metrics: tuple[Costs, ...]
    left_out: int = 0
    unavailable: int = 0


def costs_to_show(experiment: Experiment, choice: Choice, limits: Limits) -> ShownCosts | None:
    """Return the metric chosen, or the default one, then those that the file wants shown: measured ones, formulas of
    the user, and those of the file. None where nothing has a cost. What is beyond the most that a page shows is not
    computed."""
    try:
        first = experiment.metrics.resolve(choice.metric) if choice.metric else experiment.default_metric
    except UsageError:
        if choice.metric:
            raise
        return None
    metrics = experiment.metrics
    names = dict.fromkeys((first, *sorted(metrics.shown, key=lambda name: _rank_metric(metrics, name))))
    shown: list[Costs] = []
    left_out, unavailable = 0, len(metrics.unavailable)
    room = {False: limits.metrics, True: limits.derived}
    for name in names:
        if (
            sum(one.metric.is_derived == metrics.first(name).is_derived for one in shown)
            >= room[name in metrics.derived]
        ):
            left_out += 1
            continue
        try:
            one = _compute_costs(experiment, name, choice, must=bool(choice.metric) and name == first)
        except NotEvaluated:
            if choice.metric and name == first:
                raise
            unavailable += 1
            continue
        shown += [one] if one is not None else []
    return ShownCosts(tuple(shown), left_out, unavailable) if shown else None


def _rank_metric(metrics: Metrics, name: str) -> int:
    """Return 0 of a measured metric, 1 of a formula of the user, 2 of one of the file."""
    derivation = metrics.first(name).derivation
    return 0 if derivation is None else 1 if derivation.language == OF_THE_USER else 2


def _compute_costs(experiment: Experiment, name: str, choice: Choice, must: bool) -> Costs | None:
    """Return the costs in one metric, if there are any that numbers can say."""
    try:
        cost = costs(experiment, name, choice.ranks, choice.threads)
    except NotEvaluated:
        raise
    except UsageError:  # composite values, or a metric that only formulas have
        if must or not _has_profiles(experiment, choice):
            raise
        return None
    return cost if cost.has(cost.inclusive).any() or cost.has(cost.exclusive).any() else None


def _has_profiles(experiment: Experiment, choice: Choice) -> bool:
    """Return whether the choice leaves any profile. Where not, that is the error to tell."""
    return len(experiment.profiles.where(choice.ranks, choice.threads)) > 0 or (
        choice.ranks is None and choice.threads is None
    )


def _combine_contexts(costs: Costs, rows: Rows) -> tuple[Array, Array]:
    """Return the costs of rows that may stand for many contexts. A formula that needs one context for each has no value
    there."""
    try:
        return costs.over(rows)
    except NotEvaluated:
        missing = np.full(rows.n, np.nan)
        return missing, missing


# -- the tree ----------------------------------------------------------------------------------------------------------


CLOSE = 1e-13  # relative; errors add up over the levels of a tree
TINY = 1e-12  # the share of what has a cost that is not part of a total


@dataclass(frozen=True)
class CutTree:
    """Some of a call tree. `share` is the largest share of what was folded, 0 where nothing was."""

    data: dict[str, Any]
    n_kept: int
    n_folded: int
    share: float


@dataclass(frozen=True)
class CallTree:
    """The whole call tree in some metrics."""

    metrics: tuple[Costs, ...]

    @cached_property
    def _folded(self) -> Folded:
        return fold_lines(self.metrics[0])

    @cached_property
    def _exclusive(self) -> tuple[Array, ...]:
        return tuple(exclusive_of(costs, self._folded.owner) for costs in self.metrics)

    @cached_property
    def _contexts(self) -> Ints:
        """Contexts with any cost, and those above them."""
        costly = np.zeros(len(self._folded.shown), np.bool_)
        for metric, exclusive in zip(self.metrics, self._exclusive, strict=True):
            costly |= metric.has(exclusive) | metric.has(metric.inclusive)
        costly &= self._folded.shown
        parent = self._folded.parent
        above = combine_upwards(costly.astype(np.int8), parent, levels(depths(parent)), np.maximum)
        return np.flatnonzero((above > 0) & self._folded.shown)

    @cached_property
    def _parent(self) -> Ids:
        """By position among `_contexts`."""
        position = np.full(len(self._folded.shown) + 1, -1, np.int32)
        position[self._contexts] = np.arange(len(self._contexts))
        out: Ids = position[self._folded.parent[self._contexts]]
        return out

    @cached_property
    def _size(self) -> Floats:
        """The largest share of a context or of what is below it, in any metric."""
        size = np.full(len(self._contexts), TINY)
        with np.errstate(invalid="ignore", over="ignore"):
            for number, costs in enumerate(self.metrics):
                if costs.is_additive and costs.whole:
                    np.fmax(size, np.abs(self._weight(number)) / abs(costs.whole), out=size)
        return combine_upwards(size, self._parent, levels(depths(self._parent)), np.maximum)

    def __len__(self) -> int:
        return len(self._contexts)

    def _weight(self, number: int) -> Floats:
        """Return what contexts are as large as: inclusive cost; of signed costs, the sizes of all changes at and below
        them, which do not cancel out."""
        costs = self.metrics[number]
        if not costs.is_signed:
            return costs.inclusive[self._contexts].astype(np.float64)
        sizes = np.abs(self._exclusive[number][self._contexts].astype(np.float64))
        return combine_upwards(sizes, self._parent, levels(depths(self._parent)), np.add)

    def cut(self, n_contexts: int, labels: Labels) -> CutTree:
        """Return the largest contexts, and rows for what lies below them."""
        return self._describe(cut_rows(self._parent, self._size, n_contexts), labels)

    def cut_around(self, context: int, share: float, labels: Labels) -> CutTree:
        """Return the contexts with at least a share of the whole, those below a context with at least that share of it,
        and what lies above it; a context below 0 stands above all."""
        kept = self._size >= share
        at = int(np.searchsorted(self._contexts, context))
        if context >= 0:
            if at >= len(self._contexts) or self._contexts[at] != context:
                raise UsageError("there is no such call")
            kept |= self._is_below(at) & (self._size >= share * self._size[at])
            while at >= 0:
                kept[at] = True
                at = int(self._parent[at])
        return self._describe(fold_rows(self._parent, self._size, kept), labels)

    def _is_below(self, at: int) -> Bools:
        """Return which contexts, by position, are one or lie below it."""
        end = self.metrics[0].tree.subtree_end[self._contexts[at]]
        below: Bools = (self._contexts >= self._contexts[at]) & (self._contexts < end)
        return below

    def _describe(self, cut: Cut, labels: Labels) -> CutTree:
        chosen = self._contexts[cut.kept]
        data = {
            "context": chosen,
            "parent": cut.parent,
            "label": labels.of_contexts(chosen),
            "more": cut.more,
            "metrics": [
                self._metric(number, cut.kept, cut.tops, cut.row_of_top, cut.parent)
                for number in range(len(self.metrics))
            ],
        }
        return CutTree(data, len(chosen), int(cut.more.sum()), cut.share)

    def _metric(self, number: int, kept: Array, tops: Ints, row: Ints, parent: Ints) -> dict[str, Any]:
        """Return one metric over kept contexts and folded rows. A folded row has no cost of its own that could be told
        from that of what it stands for: both columns say the same. Inclusive cost is left out where the page can add it
        up itself."""
        costs = self.metrics[number]
        inclusive = costs.inclusive[self._contexts]
        exclusive = self._exclusive[number][self._contexts]
        below = self._contexts[tops], row
        _, more = _combine_contexts(costs, Rows(len(parent) - int(kept.sum()), below, below))
        shown = np.concatenate([exclusive[kept], more]), np.concatenate([inclusive[kept], more])
        data = {**describe_metric(costs), "exclusive": shown[0]}
        if costs.is_signed:
            weight, folded = self._weight(number), np.zeros(len(more))
            np.add.at(folded, row, weight[tops])
            data["weight"] = np.concatenate([weight[kept], folded])
        return data if costs.is_additive and adds_up(parent, *shown) else {**data, "inclusive": shown[1]}


@dataclass(frozen=True)
class Cut:
    """Which rows of a tree are kept, and the folded rows that stand for the others.

    parent         of kept rows, then of folded ones
    more           how many rows each folded one stands for
    dropped, row   what is not kept, and which folded row it is part of
    tops           those of them whose parent is kept, or that have none
    """

    kept: Bools
    parent: Ints
    more: Ints
    dropped: Ints
    row: Ints
    tops: Ints
    row_of_top: Ints
    share: float


def cut_rows(parent: Ids, size: Floats, n_kept: int) -> Cut:
    """Keep the largest rows of a tree, in which no row is larger than its parent; `share` is the size of the largest
    one that is not kept."""
    order = np.argsort(-size, kind="stable")  # of equal ones the first, so that parents come first
    kept = np.zeros(len(parent), np.bool_)
    kept[order[:n_kept]] = True
    return fold_rows(parent, size, kept)


def fold_rows(parent: Ids, size: Floats, kept: Bools) -> Cut:
    """Keep some rows of a tree, with all that lie above them, and fold the others."""
    share = float(size[~kept].max()) if not kept.all() else 0.0
    above = _nearest_kept(parent, kept)
    dropped = np.flatnonzero(~kept)
    holders, row = np.unique(above[dropped], return_inverse=True)
    position = np.append(np.cumsum(kept) - 1, -1)  # of a kept row; the root of all is -1
    tops = np.flatnonzero(~kept & ((parent < 0) | kept[parent]))
    return Cut(
        kept,
        np.concatenate([position[parent[kept]], position[holders]]),
        np.bincount(row.ravel(), minlength=len(holders)),
        dropped,
        row.ravel(),
        tops,
        np.searchsorted(holders, above[tops]),
        share,
    )


def _nearest_kept(parent: Ids, kept: Bools) -> Ids:
    """Return the closest kept row above each one; -1 where there is none."""
    above = parent.copy()
    while True:
        lost = (above >= 0) & ~kept[above]
        if not lost.any():
            return above
        above[lost] = parent[above[lost]]


def adds_up(parent: Ints, exclusive: Array, inclusive: Array) -> bool:
    """Return whether inclusive cost is, to many more digits than a page shows, what is exclusive and what is inclusive
    below."""
    below = np.zeros(len(parent))
    with np.errstate(invalid="ignore", over="ignore"):
        np.add.at(below, parent[parent >= 0], inclusive[parent >= 0])
        differences = np.abs(inclusive - (exclusive + below))
        return bool((differences <= CLOSE * np.abs(inclusive)).all())


def describe_metric(costs: Costs) -> dict[str, Any]:
    """Return what a page needs to know of a metric to show its costs."""
    metric = costs.metric
    return {
        "name": metric.name,
        "unit": metric.unit,
        "description": metric.description,
        "additive": costs.is_additive,
        "missing": costs.has_missing,
        "derived": costs.metric.formula if costs.metric.is_derived else "",
        "total": float(costs.total),
        "whole": float(costs.whole),  # what shares are of
        "signed": costs.is_signed,
        "gain": costs.gain_and_loss[0],
        "loss": costs.gain_and_loss[1],
    }


# -- tables beside the call tree ---------------------------------------------------------------------------------------
# Their numbers are those of `top` and `tree --bottom-up`.


GROUPS = ("function", "line", "loop", "file", "module")


class FlatTable:
    """All groups of one kind in some metrics."""

    def __init__(self, metrics: tuple[Costs, ...], by: str) -> None:
        self._by, self._metrics = by, metrics
        tree = metrics[0].tree
        self.groups: Groups = group(tree, by)
        rows = self.groups.rows(np.arange(len(self.groups)), tree)
        pairs = [_combine_contexts(costs, rows) for costs in metrics]
        self._exclusive: list[Array] = [exclusive for exclusive, _ in pairs]
        self._inclusive: list[Array] = [inclusive for _, inclusive in pairs]
        size = np.full(len(self.groups), -1.0)
        for metric, exclusive, inclusive in zip(metrics, self._exclusive, self._inclusive, strict=True):
            there = metric.has(exclusive) | metric.has(inclusive)
            np.fmax(size, np.where(there, _compute_shares(metric, exclusive, inclusive), -1.0), out=size)
        costly = np.flatnonzero(size >= 0)
        self._order: Ints = costly[np.argsort(-size[costly], kind="stable")]

    def __len__(self) -> int:
        return len(self._order)

    @property
    def without_values(self) -> list[str]:
        """Metrics that have values in contexts, and none in what several of them make."""
        pairs = zip(self._metrics, self._exclusive, self._inclusive, strict=True)
        return [m.metric.name for m, *both in pairs if m.is_ratio and not any(m.has(one).any() for one in both)]

    def exclusive(self, metric: int) -> Array:
        """Return the exclusive cost of every group."""
        return self._exclusive[metric]

    def labels_of(self, groups: Ints, labels: Labels) -> Ints:
        """Return what some groups are called."""
        return labels.of_rows(Table(describe_groups(self._metrics[0], self._by, self.groups.first[groups].tolist())))

    def data(self, labels: Labels, detail: Detail, most: int) -> dict[str, Any]:
        """Return the groups with the largest share in any metric."""
        chosen = self._order[: detail.of(len(self), most, 10)]
        return {
            "by": self._by,
            "label": self.labels_of(chosen, labels),
            "left": len(self) - len(chosen),
            "rest": [self._rest(number, chosen) for number in range(len(self._metrics))],
            "exclusive": [exclusive[chosen] for exclusive in self._exclusive],
            "inclusive": [inclusive[chosen] for inclusive in self._inclusive],
        }

    def _rest(self, metric: int, chosen: Ints) -> float | None:
        """Return what the groups that are left out cost together; None where costs do not add up."""
        if not self._metrics[metric].is_additive:
            return None
        with np.errstate(invalid="ignore", over="ignore"):
            return float(np.delete(self._exclusive[metric], chosen).astype(np.float64).sum())


def _compute_shares(costs: Costs, exclusive: Array, inclusive: Array) -> Floats:
    """Return shares by exclusive cost; of groups without any, a little of the inclusive one, so that the largest
    stay."""
    if not costs.is_additive or not costs.whole:
        return np.zeros(len(exclusive))
    with np.errstate(invalid="ignore", over="ignore"):
        shares = np.abs(exclusive / costs.whole) + 1e-3 * np.abs(inclusive / costs.whole)
    return np.nan_to_num(shares)


def callers(costs: Costs, labels: Labels, detail: Detail, most: int) -> dict[str, Any] | None:
    """Return functions with their callers below them, and what those cost that are left out; None of a metric whose
    costs cannot be divided among callers."""
    if not costs.is_additive:
        return None
    grown = grow_callers(costs, detail.of(most, most, 20))
    left = {"left": grown.table.left, "functions_left": grown.functions_left, "rest": grown.rest}
    return {**(rows_of(grown.table, labels) or {}), **left}


def rows_of(table: Table | None, labels: Labels) -> dict[str, Any] | None:
    """Return rows with their depths, such as those of a hot path; None where there is none."""
    if table is None:
        return None
    return {
        "label": labels.of_rows(table),
        "depth": np.asarray(table.column("depth").values, np.int64),
        "exclusive": np.asarray(table.column("exclusive").values),
        "inclusive": np.asarray(table.column("inclusive").values),
    }
