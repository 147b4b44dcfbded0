"""One metric over the tree: what views show."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

import numpy as np

from callgrove.errors import UsageError
from callgrove.model.arrays import Array, Bools, Floats, Ints
from callgrove.model.contexts import ContextTree
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Metric, Scope
from callgrove.model.table import Column

__all__ = ["Costs", "costs", "select"]


@dataclass(frozen=True)
class Costs:
    """Exclusive and inclusive cost of every context of the tree (elided ones are contained in them), over the
    chosen profiles. `total` is the cost of the roots: what percentages are of."""

    experiment: Experiment
    metric: Metric
    exclusive: Array
    inclusive: Array
    total: float

    @property
    def tree(self) -> ContextTree:
        return self.experiment.contexts

    def percent(self, values: Array) -> Array:
        """Shares of the total, in percent; nothing is a share of zero."""
        if not self.total:
            return np.zeros(len(values))
        with np.errstate(over="ignore", invalid="ignore"):  # a damaged input may hold any number
            return values * (100.0 / self.total) + 0.0  # -0.0 becomes 0.0

    def has(self, values: Array) -> Bools:
        """Which of some costs are there: not zero, or for a minimum or maximum, not absent."""
        found: Bools = values != self.metric.aggregation.neutral
        return found

    def rank(self, values: Array) -> Floats:
        """Costs to sort by; those that are absent are the lowest."""
        ranks: Floats = values.astype(np.float64)
        return np.where(self.has(values), ranks, -np.inf) if self.metric.aggregation.neutral else ranks

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


def select(experiment: Experiment, ranks: Container[int] | None, threads: Container[int] | None) -> Ints | None:
    """Profiles with these ranks and threads; None when nothing was selected. An empty choice is an error."""
    if ranks is None and threads is None:
        return None
    chosen = experiment.select(ranks, threads)
    if not len(chosen):
        parts = []
        for column, wanted in (("rank", ranks), ("thread", threads)):
            if wanted is not None:
                known = sorted({n for n in experiment.profiles.identity_list(column) if n is not None})
                span = f"{known[0]} to {known[-1]}" if known else "none"
                parts.append(f"{column} {wanted} (there are {span})")
        raise UsageError(f"{experiment.path}: no profile has {' and '.join(parts)}")
    return chosen


def costs(
    experiment: Experiment,
    metric: str | None = None,
    ranks: Container[int] | None = None,
    threads: Container[int] | None = None,
) -> Costs:
    """The cost of every context: of the metric named, or of the default one."""
    quantity = experiment.metrics.resolve(metric) if metric else experiment.default_metric
    profiles = select(experiment, ranks, threads)
    n = experiment.contexts.n_listed
    row = experiment.metrics.first(quantity)
    if row.composite is not None:
        raise UsageError(f"{quantity} has composite values ({row.dtype}); choose another metric with -m")
    return Costs(
        experiment,
        row,
        experiment.totals(quantity, Scope.EXCLUSIVE, profiles)[:n],
        experiment.totals(quantity, Scope.INCLUSIVE, profiles)[:n],
        experiment.root_total(quantity, profiles),
    )
