"""One metric over the tree: what views show."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

from callgrove.errors import UsageError
from callgrove.model.arrays import Array, Ints
from callgrove.model.contexts import ContextTree
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Metric, Scope

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
        return values * (100.0 / self.total) if self.total else values * 0.0


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
