"""One metric over the call tree, over its metric tree, and over the system tree: what views show.

Costs may lie below zero: an experiment of differences has those that became less. Views put the largest change first,
whichever way it goes, and percentages are of all changes together, each counted by its size: they keep the sign, and
their sizes add up to 100 at most.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from callgrove.arrays import Array, Bools, Floats, Ints, combine_upwards, depths, levels
from callgrove.errors import Parameter, UsageError
from callgrove.model.contexts import ContextTree
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Aggregation, Metric, Scope
from callgrove.model.profiles import choose_profiles
from callgrove.model.runs import Numbers
from callgrove.model.table import Column

__all__ = ["Costs", "costs", "over_system", "spread_statistics", "without_children"]


ROUNDING = 1e-3  # of all costs; what lies below zero and is less is no difference of two runs


@dataclass(frozen=True)
class Costs:
    """Exclusive and inclusive cost of every context of the tree (elided ones are contained in them), over the
    chosen profiles. `total` is the cost of the roots."""

    experiment: Experiment
    metric: Metric
    exclusive: Array
    inclusive: Array
    total: float

    @property
    def tree(self) -> ContextTree:
        return self.experiment.contexts

    @property
    def is_additive(self) -> bool:
        """Whether costs add up to the total, so that parts of it can be shown."""
        return self.metric.aggregation == Aggregation.SUM

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
    def whole(self) -> float:
        """What percentages are of: the total; of signed costs, the sizes of all of them together."""
        gain, loss = self.gain_and_loss
        return gain - loss if self.is_signed else self.total

    def percent(self, values: Array) -> Array:
        """Shares of the whole, in percent; nothing is a share of zero."""
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

    def has(self, values: Array) -> Bools:
        """Which of some costs are there: not zero, or for a minimum or maximum, not absent."""
        has_value: Bools = values != self.metric.aggregation.neutral
        return has_value

    def rank(self, values: Array) -> Floats:
        """Costs to sort by: their sizes. Of a minimum or maximum, what it is; those that are absent are the lowest."""
        ranks: Floats = values.astype(np.float64)
        return np.where(self.has(values), ranks, -np.inf) if self.metric.aggregation.neutral else np.abs(ranks)

    def columns(self, exclusive: Array, inclusive: Array, share: Array) -> tuple[Column, Column, Column]:
        """What every view shows of some rows; percent is of `share`. An absent minimum or maximum is an empty cell, and
        none is a share of another."""
        neutral = self.metric.aggregation.neutral
        if not neutral:
            return (
                Column("exclusive", exclusive),
                Column("inclusive", inclusive),
                Column("percent", self.percent(share)),
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
    """The cost of every context: of the metric named, or of the default one. What several runs cost is added up, unless
    `runs` names some of them."""
    quantity = experiment.metrics.resolve(metric) if metric else experiment.default_metric
    profiles = choose_profiles(experiment, ranks, threads, runs)
    n = experiment.contexts.n_listed
    row = experiment.metrics.first(quantity)
    if row.composite is not None:
        composite = f"{quantity} has composite values ({row.dtype}); choose another metric with "
        raise UsageError(composite, Parameter("metric"))
    return Costs(
        experiment,
        row,
        experiment.totals(quantity, Scope.EXCLUSIVE, profiles)[:n],
        experiment.totals(quantity, Scope.INCLUSIVE, profiles)[:n],
        experiment.root_total(quantity, profiles),
    )


# -- metrics without their child metrics -------------------------------------------------------------------------------


def without_children(experiment: Experiment, quantity: str, scope: Scope, profiles: Ints | None = None) -> Array:
    """A metric in a scope over all contexts, less all its children: hidden ones and those of other units as well.

    A metric's value contains its children, derived ones too: a metric that has such children is refused, as nobody
    knows their values. Where children have another unit, the difference means little.
    """
    row = experiment.metrics.first(quantity)
    if row.aggregation != Aggregation.SUM:
        raise UsageError(f"{quantity} is no sum: its children cannot be taken from it")
    total = experiment.totals(quantity, scope, profiles).astype(np.float64)
    for child in _children(experiment, quantity):
        total = total - experiment.totals(child, scope, profiles)
    return total


def _children(experiment: Experiment, quantity: str) -> list[str]:
    """Names of the children that add up, and of those whose values are not known."""
    metrics = experiment.metrics
    rows = {k for k, metric in enumerate(metrics) if metric.name == quantity}
    names = [m.name for m in metrics if m.parent in rows and _counts(m)]
    return list(dict.fromkeys(names))


def _counts(child: Metric) -> bool:
    return child.is_derived or (child.aggregation == Aggregation.SUM and child.composite is None)


# -- one metric over profiles, and over the system tree ----------------------------------------------------------------


def spread_statistics(values: Array) -> dict[str, float]:
    """Return the least, mean and most over profiles, their deviation, how much more the most is than the mean, and how
    many profiles have no cost."""
    with np.errstate(invalid="ignore", over="ignore"):
        mean = float(values.mean())
        return {
            "min": float(values.min()),
            "mean": mean,
            "max": float(values.max()),
            "std": float(values.std()),
            "imbalance": float(values.max()) / mean - 1 if mean else 0.0,
            "none": int(np.count_nonzero(values == 0)),
        }


def over_system(experiment: Experiment, quantity: str, scope: Scope, context: int) -> Array:
    """The metric at one context for every place of the system: what its profiles have, combined; absent is neutral."""
    rule, system = experiment.metrics.first(quantity).aggregation, experiment.system
    out = np.full(len(system), rule.neutral)
    measured = experiment.profiles.measured
    place = experiment.profiles.system[measured]
    values = experiment.matrix(quantity, scope)[context].astype(np.float64)
    rule.combine_at(out, place[place >= 0], values[place >= 0])
    return combine_upwards(out, system.parent, levels(depths(system.parent)), rule.ufunc)
