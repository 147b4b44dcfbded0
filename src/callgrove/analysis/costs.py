"""One metric over the tree: what views show.

Costs may lie below zero: an experiment of differences has those that became less. Views put the largest change first,
whichever way it goes, and percentages are of all changes together, each counted by its size: they keep the sign, and
their sizes add up to 100 at most.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from callgrove.errors import Parameter, UsageError
from callgrove.model.arrays import Array, Bools, Floats
from callgrove.model.contexts import ContextTree
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Aggregation, Metric, Scope
from callgrove.model.orders import combine_upwards
from callgrove.model.runs import Numbers
from callgrove.model.selection import choose_profiles
from callgrove.model.table import Column

__all__ = ["Costs", "costs"]

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

    @cached_property
    def gain_and_loss(self) -> tuple[float, float]:
        """What all exclusive costs above zero add up to, and all below it."""
        if self.metric.aggregation != Aggregation.SUM:
            return 0.0, 0.0
        own: Floats = self.exclusive.astype(np.float64)
        with np.errstate(over="ignore", invalid="ignore"):  # a damaged input may hold any number
            return float(own[own > 0].sum()), float(own[own < 0].sum())

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
        found: Bools = values != self.metric.aggregation.neutral
        return found

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
