"""One metric over the call tree, over its metric tree and over the system tree; groups of contexts and what they cost.

Costs may lie below zero: an experiment of differences has those that became less. Views put the largest change first,
whichever way it goes, and percentages are of all changes together, each counted by its size: they keep the sign, and
their sizes add up to 100 at most.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from callgrove.arrays import Array, Bools, Floats, Ids, Ints, combine_upwards, depths, levels, sort_stably
from callgrove.errors import Parameter, UsageError
from callgrove.model.computed_values import demand_operands, find_operands, recipe
from callgrove.model.contexts import ContextKind, ContextTree, Relation
from callgrove.model.derived import ProfileCells, TotalCells, When, evaluate, over_batches, without_infinite
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Aggregation, Metric, Scope
from callgrove.model.profiles import choose_profiles
from callgrove.model.runs import Numbers
from callgrove.model.table import Column
from callgrove.model.values import Block, DenseBlock, Values

__all__ = [
    "GROUPINGS",
    "Costs",
    "Groups",
    "RowCells",
    "Rows",
    "costs",
    "counts_as_child",
    "exclusive_by_profile",
    "functions_of",
    "group",
    "nearest",
    "outermost",
    "over_system",
    "without_children",
]


MOST_KEYS = 1 << 16  # that a table of all keys may have beyond two for each context
ROUNDING = 1e-3  # of all costs; what lies below zero and is less is not a difference of two runs


@dataclass(frozen=True)
class Costs:
    """Exclusive and inclusive cost of every context of the tree (elided ones are contained in them), over the
    chosen profiles; None is all. `total` is the cost of the roots. A formula over sums has none, and NaN for no
    value."""

    experiment: Experiment
    metric: Metric
    exclusive: Array
    inclusive: Array
    total: float
    cells: TotalCells  # what formulas can ask for, over the chosen profiles; all views of these costs share it
    profiles: Ints | None = None

    @property
    def tree(self) -> ContextTree:
        return self.experiment.contexts

    @property
    def is_additive(self) -> bool:
        """Whether costs add up to the total, so that parts of it can be shown."""
        return self.metric.aggregation == Aggregation.SUM

    @property
    def is_ratio(self) -> bool:
        """Whether this is a formula over sums, which is computed for each row of a view."""
        return self.metric.derivation is not None and self.metric.aggregation == Aggregation.NONE

    @property
    def neutral(self) -> float:
        """What stands for no cost."""
        return np.nan if self.is_ratio else self.metric.aggregation.neutral

    def over(self, rows: Rows) -> tuple[Array, Array]:
        """Return the exclusive and the inclusive cost of the rows of a view."""
        if self.is_ratio:
            cells = RowCells(self.cells, Scope.EXCLUSIVE, rows)
            return cells.of(self.metric.name), cells.of(self.metric.name, Scope.INCLUSIVE)
        rule = self.metric.aggregation
        pairs = (self.exclusive, Scope.EXCLUSIVE), (self.inclusive, Scope.INCLUSIVE)
        with np.errstate(over="ignore", invalid="ignore"):  # values need not be finite
            exclusive, inclusive = (rows.combine(values, scope, rule) for values, scope in pairs)
        if self.metric.derivation is not None:
            return without_infinite(exclusive), without_infinite(inclusive)
        return exclusive, inclusive

    @cached_property
    def gain_and_loss(self) -> tuple[float, float]:
        """What all exclusive costs above zero add up to, and all below it."""
        if not self.is_additive:
            return 0.0, 0.0
        exclusive: Floats = self.exclusive.astype(np.float64)
        with np.errstate(over="ignore", invalid="ignore"):  # a damaged input may hold any number
            return float(exclusive[exclusive > 0].sum()), float(exclusive[exclusive < 0].sum())

    @property
    def is_signed(self) -> bool:
        """Whether costs below zero matter, as they do in an experiment of differences; rounding alone does not."""
        gain, loss = self.gain_and_loss
        return -loss > ROUNDING * (gain - loss)

    @property
    def has_missing(self) -> bool:
        """Whether the exclusive cost of a context is not known: that of a formula without a value there."""
        return self.metric.derivation is not None and bool(np.isnan(self.exclusive).any())

    def say_no_total(self) -> str:
        """Return why there is no total; nothing where there is one."""
        if self.is_ratio:
            return f"computed for each row, as {self.metric.formula}"
        return "no total, as values are missing" if np.isnan(self.total) and self.metric.derivation is not None else ""

    @cached_property
    def whole(self) -> float:
        """What percentages are of: the total; of signed costs, the sizes of all of them together. Where contexts were
        selected, that of the experiment before. NaN where a part of it is missing."""
        if self.experiment.whole is not None:
            return _add_up(self.experiment.whole, self.metric.name, self.profiles).whole
        gain, loss = self.gain_and_loss
        if not self.is_signed:
            return self.total
        return np.nan if self.has_missing else gain - loss

    def percent(self, values: Array) -> Array:
        """Return the shares of the whole, in percent; nothing is a share of zero."""
        if not self.whole:
            return np.zeros(len(values))
        with np.errstate(over="ignore", invalid="ignore"):  # a damaged input may hold any number
            return values * (100.0 / self.whole) + 0.0  # -0.0 becomes 0.0

    @cached_property
    def weights(self) -> Floats:
        """What chooses among contexts: inclusive costs; of signed ones, the sizes of all changes at and below them,
        which do not cancel out."""
        if not self.is_signed:
            return self.rank(self.inclusive)
        tree, n = self.tree, self.tree.n_listed
        sizes = np.zeros(len(tree), np.float64)
        sizes[:n] = np.abs(self.exclusive.astype(np.float64))
        return combine_upwards(sizes, tree.parent, tree.levels, np.add)[:n]

    @cached_property
    def guide(self) -> tuple[str, Floats]:
        """What chooses among contexts where a formula does not add up: the name and the inclusive costs of the first
        metric it is computed from that does, else of the default one."""
        metrics, n = self.experiment.metrics, self.tree.n_listed
        operands = (metrics.first(name) for name in find_operands(metrics, self.metric.name))
        additive = (row.name for row in operands if row.aggregation == Aggregation.SUM and row.composite is None)
        name = next(additive, "") or self.experiment.default_metric
        return name, np.abs(np.nan_to_num(self.cells.of(name, Scope.INCLUSIVE)[:n]))

    def has(self, values: Array) -> Bools:
        """Return which of some costs are there: not zero, or where nothing adds up, not absent. A sum with a part that
        is missing is there: it is not zero."""
        has_value: Bools = ~np.isnan(values) if self.is_ratio else values != self.neutral
        return has_value

    def rank(self, values: Array) -> Floats:
        """Return the numbers to sort costs by: their sizes. Of a minimum, a maximum or a ratio, its value. Those that
        are absent or missing are the lowest."""
        ranks: Floats = values.astype(np.float64)
        if self.neutral:
            return np.where(self.has(values), ranks, -np.inf)
        return (
            np.where(np.isnan(ranks), -np.inf, np.abs(ranks)) if self.metric.derivation is not None else np.abs(ranks)
        )

    def columns(self, exclusive: Array, inclusive: Array, share: Array) -> tuple[Column, Column, Column]:
        """Return what every view shows of some rows; percent is of `share`. Where nothing adds up, an absent value is
        an empty cell, and none is a share of another."""
        neutral = self.neutral
        if not neutral:
            missing = None if self.metric.derivation is None else np.nan
            shares = self.percent(share)
            return (
                Column("exclusive", exclusive, missing),
                Column("inclusive", inclusive, missing),
                Column("percent", shares, missing),
            )
        pair = Column("exclusive", exclusive, neutral), Column("inclusive", inclusive, neutral)
        return *pair, Column("percent", [None] * len(share))


def costs(
    experiment: Experiment,
    metric: str | None = None,
    ranks: Numbers | None = None,
    threads: Numbers | None = None,
    runs: Numbers | None = None,
) -> Costs:
    """Return the cost of every context: of the metric named, or of the default one. What several runs cost is added up,
    unless `runs` names some of them."""
    quantity = experiment.metrics.resolve(metric) if metric else experiment.default_metric
    return _add_up(experiment, quantity, choose_profiles(experiment, ranks, threads, runs))


def _add_up(experiment: Experiment, quantity: str, profiles: Ints | None) -> Costs:
    n = experiment.contexts.n_listed
    row = experiment.metrics.first(quantity)
    if row.composite is not None:
        composite = f"{quantity} has composite values ({row.dtype}); choose another metric with "
        raise UsageError(composite, Parameter("metric"))
    cells, scopes = TotalCells(experiment.values, Scope.EXCLUSIVE, profiles), (Scope.EXCLUSIVE, Scope.INCLUSIVE)
    if experiment.is_computed(quantity):
        exclusive, inclusive = (cells.of(quantity, scope)[:n] for scope in scopes)
    else:
        exclusive, inclusive = (values[:n] for values in experiment.totals_in(scopes, quantity, profiles))
    adds_up = row.aggregation != Aggregation.NONE
    total = row.aggregation.combine_all(inclusive[experiment.contexts.roots]) if adds_up else np.nan
    total = np.nan if row.derivation is not None and np.isinf(total) else total
    return Costs(experiment, row, exclusive, inclusive, total, cells, profiles)


# -- metrics without their child metrics -------------------------------------------------------------------------------


def without_children(experiment: Experiment, quantity: str, scope: Scope, profiles: Ints | None = None) -> Array:
    """Return a metric in a scope over all contexts, less all its children: hidden ones and those of other units as
    well.

    A metric's value contains its children, derived ones too: a metric with a child whose formula cannot be evaluated is
    refused, as nobody knows its values. Where children have another unit, the difference means little.
    """
    row = experiment.metrics.first(quantity)
    if row.aggregation != Aggregation.SUM:
        raise UsageError(f"{quantity} is not a sum: its children cannot be taken from it")
    total = experiment.totals(quantity, scope, profiles).astype(np.float64)
    for child in _find_children(experiment, quantity):
        total = total - experiment.totals(child, scope, profiles)
    return total


def _find_children(experiment: Experiment, quantity: str) -> list[str]:
    """Return the names of the children that add up, and of those whose values are not known."""
    metrics = experiment.metrics
    rows = {k for k, metric in enumerate(metrics) if metric.name == quantity}
    names = [m.name for m in metrics if m.parent in rows and counts_as_child(m)]
    return list(dict.fromkeys(names))


def counts_as_child(child: Metric) -> bool:
    """Return whether the value of a metric is taken from that of its parent: it adds up, or is a formula, and somebody
    measured it."""
    if child.is_missing:
        return False
    return child.is_derived or (child.aggregation == Aggregation.SUM and child.composite is None)


# -- one metric over profiles, and over the system tree ----------------------------------------------------------------


def over_system(experiment: Experiment, quantity: str, scope: Scope, context: int) -> Array:
    """Return the metric at one context for every place of the system: what its profiles have, combined; absent is
    neutral."""
    rule, system = experiment.metrics.first(quantity).aggregation, experiment.system
    out = np.full(len(system), rule.neutral)
    measured = experiment.profiles.measured
    place = experiment.profiles.system[measured]
    values = experiment.matrix(quantity, scope)[context].astype(np.float64)
    rule.combine_at(out, place[place >= 0], values[place >= 0])
    return combine_upwards(out, system.parent, levels(depths(system.parent)), rule.ufunc)


# -- contexts grouped by what they belong to, and what such groups cost in each profile --------------------------------
#     function   a line, loop or instruction belongs to the function it is nested in; what no function encloses
#                stands by itself
#     line       contexts with a source line, by (file, line); others by function
#     loop       contexts inside a loop, by the innermost one; others by function
#     file       by source file, module by load module; contexts without one take that of their function
#     context    each by itself
#
# The cost of a group is the exclusive cost of its contexts; its inclusive cost is that of its outermost contexts, so
# that recursion counts once.


FUNCTIONS = (
    ContextKind.ENTRY,
    ContextKind.FUNCTION,
    ContextKind.INLINED,
    ContextKind.PLACEHOLDER,
    ContextKind.REGION,
    ContextKind.KERNEL,
    ContextKind.COPY,
    ContextKind.MARKER,
    ContextKind.UNKNOWN,
)
WITH_LINES = (ContextKind.LINE, ContextKind.CALL, ContextKind.INSTRUCTION)


Pairs = tuple[Ints, Ints]  # contexts, and the row of each
NESTED = (Scope.FUNCTION, Scope.LEXICAL)


@dataclass(frozen=True)
class Rows:
    """Of which contexts the rows of a view are made, by what is measured there.

    `inclusive`: contexts whose inclusive cost is a row's, `exclusive`: those whose exclusive cost is. `nested`: those
    whose cost in function scope is; None where rows are groups, of which the parts may lie in one another.
    """

    n: int
    inclusive: Pairs
    exclusive: Pairs
    nested: Pairs | None = None

    def combine(self, values: Array, scope: Scope, rule: Aggregation) -> Array:
        """Return values of contexts (x profiles) as those of rows, combined; absent is neutral. Integers stay such."""
        contexts, targets = self.pairs(scope)
        kind = np.dtype(np.float64) if rule.neutral else values.dtype
        out = np.full((self.n, *values.shape[1:]), rule.neutral, kind)
        rule.combine_at(out, targets, values[contexts])
        return out

    def pairs(self, scope: Scope) -> Pairs:
        """Return which contexts count in which row, in a scope."""
        if scope == Scope.INCLUSIVE:
            return self.inclusive
        return self.nested if scope in NESTED and self.nested is not None else self.exclusive

    @classmethod
    def of_contexts(cls, chosen: Ints, owner: Array) -> Rows:
        """Return a row for each context chosen; `owner` is the context that shows the exclusive cost of each one."""
        row = np.full(len(owner), -1, np.int64)
        row[chosen] = np.arange(len(chosen))
        measured = np.flatnonzero(row[owner] >= 0)
        same = (chosen, np.arange(len(chosen)))
        return cls(len(chosen), same, (measured, row[owner[measured]]), same)

    @classmethod
    def of_groups(cls, chosen: Ints, group: Array, outermost: Array, n_groups: int) -> Rows:
        """Return a row for each group chosen; `group` is that of every context."""
        row = np.full(n_groups, -1, np.int64)
        row[chosen] = np.arange(len(chosen))
        members = np.flatnonzero(row[group] >= 0)
        top = members[outermost[members]]
        return cls(len(chosen), (top, row[group[top]]), (members, row[group[members]]))


@dataclass(frozen=True)
class RowCells:
    """Cells of formulas that are rows of a view, each of one or many contexts: operands are combined over these. Of
    `whole` that has profiles, they are rows x profiles."""

    whole: TotalCells | ProfileCells
    scope: Scope
    rows: Rows
    over_all: RowCells | None = None  # the same rows over all chosen profiles, of cells of some
    cache: dict[tuple[str, Scope], Floats] = field(default_factory=dict)  # shared with cells of the other scope
    statistics: dict[tuple[str, Scope], dict[str, Floats]] = field(default_factory=dict)  # likewise

    @property
    def tree(self) -> ContextTree:
        return self.whole.tree

    @property
    def contexts(self) -> Ids | None:
        """The context of each row, where every row is one."""
        return None if self.rows.nested is None else self.rows.nested[0].astype(np.int32)

    @property
    def values(self) -> Values:
        return self.whole.values

    @property
    def profiles(self) -> Ints | None:
        return self.whole.profiles

    @property
    def chosen(self) -> Ints | None:
        return self.whole.chosen

    def of(self, quantity: str, scope: Scope | None = None) -> Floats:
        """Return an operand of each row."""
        key = quantity, scope or self.scope
        if key not in self.cache:
            self.cache[key] = self._read(*key)
        return self.cache[key]

    def _read(self, quantity: str, wanted: Scope) -> Floats:
        metric = self.whole.values.metrics.first(quantity)
        if metric.derivation is not None and metric.derivation.when == When.AFTER:
            shape = (self.rows.n,) if self.profiles is None else (self.rows.n, len(self.profiles))
            return evaluate(metric, replace(self, scope=wanted), shape)
        rule, values = metric.aggregation, self.whole.of(quantity, wanted)
        if not rule.neutral:
            combined = self.rows.combine(values, wanted, rule)
            return combined if metric.derivation is None else without_infinite(combined)
        out = self.rows.combine(np.where(np.isnan(values), rule.neutral, values), wanted, rule)
        return np.where(out == rule.neutral, np.nan, out)

    def total(self, quantity: str) -> Floats:
        """Return the inclusive value of all roots."""
        return self.whole.total(quantity)

    def of_all_profiles(self, quantity: str, scope: Scope | None = None) -> Floats:
        """Return an operand of each row over all chosen profiles."""
        wanted = scope or self.scope
        demand_operands(self.values, quantity, self.chosen)
        return self.of(quantity, wanted) if self.over_all is None else self.over_all.of(quantity, wanted)[:, None]

    def in_tree(self, quantity: str, scope: Scope | None = None) -> Floats:
        """Return an operand in every context of the tree."""
        return self.whole.in_tree(quantity, scope or self.scope)

    def over_profiles(self, statistic: str, quantity: str, scope: Scope | None = None) -> Floats:
        """Return a statistic of what each profile has in each row."""
        key = quantity, scope or self.scope
        if self.over_all is not None:
            return self.over_all.over_profiles(statistic, *key)[:, None]
        if key not in self.statistics:
            assert isinstance(self.whole, TotalCells)
            batches = self.whole.by_profile(key[1], quantity)
            parts = (RowCells(part, key[1], self.rows, self).of(quantity) for part in batches)
            self.statistics[key] = over_batches(self.whole.values.metrics.first(quantity), parts, self.rows.n)
        return self.statistics[key][statistic]


@dataclass(frozen=True)
class Groups:
    """`of[c]` is the group of context c; `first[g]` a context that stands for group g."""

    of: Ids
    first: Ints

    def __len__(self) -> int:
        return len(self.first)

    def costs(self, costs: Costs) -> tuple[Array, Array]:
        """Return the exclusive cost of each group, which adds up to the total over all of them, and the inclusive cost
        of its outermost contexts."""
        return costs.over(self.rows(np.arange(len(self)), costs.tree))

    def rows(self, chosen: Ints, tree: ContextTree) -> Rows:
        """Return some groups as rows of a view."""
        return Rows.of_groups(chosen, self.of, outermost(self.of, tree), len(self))


def nearest(tree: ContextTree, anchors: Bools) -> Ids:
    """Return the closest anchor at or above every context of the tree; roots are anchors always."""
    owner = np.arange(len(anchors), dtype=np.int32)
    if not anchors.all():
        for level in tree.levels[1:]:
            owner[level] = np.where(anchors[level], level, owner[tree.parent[level]])
    return owner


def functions_of(tree: ContextTree) -> Ids:
    """Return the context of the function that each context belongs to; what is called, not nested, stands by itself."""
    n = tree.n_listed
    anchors: Bools = np.isin(tree.kind[:n], FUNCTIONS) | (tree.relation[:n] != Relation.LEXICAL)
    return nearest(tree, anchors)


def outermost(group: Ids, tree: ContextTree) -> Bools:
    """Return a mask of the contexts without an ancestor of the same group. In preorder, a context lies below an earlier
    one of its group where that one's subtree ends after it; so the furthest end so far tells."""
    out = np.ones(len(group), np.bool_)
    order = sort_stably(group)
    first = group[order].astype(np.int64) * (len(group) + 1)  # ends of earlier groups are less than those of later ones
    ends = np.maximum.accumulate(first + tree.subtree_end[: len(group)][order])
    out[order[1:]] = ends[:-1] - first[1:] <= order[1:]
    return out


def _group_by_key(key: Array) -> Groups:
    """Return groups of equal keys, numbered by first appearance."""
    n = len(key)
    if n and (int(key.min()) < 0 or int(key.max()) >= 2 * n + MOST_KEYS):  # else they need not be sorted
        _, key = np.unique(key, return_inverse=True)
    place = np.empty(int(key.max(initial=0)) + 1, np.int64)
    place[key[::-1]] = np.arange(n - 1, -1, -1)  # of equal keys, the first one is written last
    leader = place[key]
    is_first = leader == np.arange(n)
    number = np.cumsum(is_first, dtype=np.int32) - np.int32(1)
    return Groups(number[leader], np.flatnonzero(is_first))


def _region_keys(tree: ContextTree, owner: Ids) -> Ints:
    """Return a key per context that is the region of its owner; owners without a region stand alone."""
    region = tree.region[owner].astype(np.int64)
    return np.where(region >= 0, region, len(tree.regions) + owner.astype(np.int64))


def by_function(tree: ContextTree) -> Groups:
    owner = functions_of(tree)
    groups = _group_by_key(_region_keys(tree, owner))
    return Groups(groups.of, owner[groups.first].astype(np.int64))


def by_context(tree: ContextTree) -> Groups:
    return Groups(np.arange(tree.n_listed, dtype=np.int32), np.arange(tree.n_listed))


def by_line(tree: ContextTree) -> Groups:
    n, region = tree.n_listed, tree.region[: tree.n_listed]
    file, line = tree.column("file")[:n].astype(np.int64), tree.column("line")[:n].astype(np.int64)
    has_line: Bools = np.isin(tree.kind[:n], WITH_LINES) & (file >= 0) & (line >= 0) & (region >= 0)
    owner = nearest(tree, has_line | np.isin(tree.kind[:n], FUNCTIONS) | (tree.relation[:n] != Relation.LEXICAL))
    places = (file << 32 | line)[owner]
    others = _region_keys(tree, owner)
    return _group_by_key(np.where(has_line[owner], places, -1 - others))


def by_loop(tree: ContextTree) -> Groups:
    n = tree.n_listed
    anchors: Bools = np.isin(tree.kind[:n], (*FUNCTIONS, ContextKind.LOOP)) | (tree.relation[:n] != Relation.LEXICAL)
    owner = nearest(tree, anchors)
    groups = _group_by_key(_region_keys(tree, owner))
    return Groups(groups.of, owner[groups.first].astype(np.int64))


def _by_column(column: str) -> Callable[[ContextTree], Groups]:
    def group_by_column(tree: ContextTree) -> Groups:
        n = tree.n_listed
        numbers = tree.column(column)[:n].astype(np.int64)
        inherited = numbers[functions_of(tree)]
        return _group_by_key(np.where(numbers >= 0, numbers, inherited))

    return group_by_column


GROUPINGS: dict[str, Callable[[ContextTree], Groups]] = {
    "function": by_function,
    "line": by_line,
    "loop": by_loop,
    "context": by_context,
    "file": _by_column("file"),
    "module": _by_column("module"),
}


def group(tree: ContextTree, by: str) -> Groups:
    """Return contexts grouped as asked."""
    if by not in GROUPINGS:
        raise UsageError(f"cannot group by {by!r}; there are {', '.join(GROUPINGS)}")
    return GROUPINGS[by](tree)


# -- costs of groups by profile ----------------------------------------------------------------------------------------
# Exclusive cost is a sum over stored values: each counts once, and once less where it is contained in another that
# counts (`Recipe.weights`). So values are read once and added up as they come, block by block; nothing is laid out as
# contexts x profiles.


@np.errstate(invalid="ignore", over="ignore")  # values need not be finite
def exclusive_by_profile(
    experiment: Experiment, quantity: str, groups: Sequence[Bools], profiles: Ints | None = None
) -> Floats:
    """Return the exclusive cost of each group (a mask over contexts) in each profile, the measured ones or those given:
    groups x profiles. The metric must be additive."""
    way = recipe(experiment.metrics, quantity, Scope.EXCLUSIVE)
    if way.metric.aggregation != Aggregation.SUM:
        raise UsageError(
            f"{quantity} is a {way.metric.aggregation.name.lower()}, no sum: parts of it cannot be added up"
        )
    chosen = experiment.profiles.measured if profiles is None else profiles
    experiment.values.demand_known(chosen)
    weights = np.stack([way.weights(mask, experiment.contexts) for mask in groups], axis=1)
    column = np.full(len(experiment.profiles), -1, np.int64)
    column[chosen] = np.arange(len(chosen))
    out = np.zeros((len(groups), len(chosen)))
    for block in experiment.values.blocks_without_fillers(chosen, np.array([way.stored])):
        _add(out, block, weights, column)
    return out


def _add(out: Floats, block: Block, weights: Floats, column: Ints) -> None:
    if isinstance(block, DenseBlock):
        matrix = np.where(block.matrix == block.neutral, 0, block.matrix) if block.neutral else block.matrix
        out[:, column[block.profiles]] += _weigh(weights[block.contexts], matrix.astype(np.float64))
        return
    order = np.argsort(block.profile, kind="stable") if len(block) and np.ptp(block.profile) else slice(None)
    rows = block.take(order)
    starts = np.flatnonzero(np.diff(rows.profile, prepend=-1))
    if len(starts):
        weight = weights[rows.context]
        parts = weight * rows.value[:, None].astype(np.float64)
        if not np.isfinite(rows.value).all():
            parts[weight == 0] = 0.0  # infinity times 0 is 0
        out[:, column[rows.profile[starts]]] += np.add.reduceat(parts, starts, axis=0).T


def _weigh(weights: Floats, values: Array) -> Floats:
    """Return groups x profiles, of weights (contexts x groups) and values (contexts x profiles). Infinity times 0 is
    0."""
    if np.isfinite(values).all():
        summed: Floats = weights.T @ values
        return summed
    parts = [(weights[rows, k, None] * values[rows]).sum(axis=0) for k, rows in enumerate(weights.T != 0)]
    return np.stack(parts)
