"""Metrics that nest: what a metric has beyond its children."""

from __future__ import annotations

import numpy as np

from callgrove.errors import UsageError
from callgrove.model.arrays import Array, Ints
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Aggregation, Metric, Scope

__all__ = ["without_children"]


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
    found = [m.name for m in metrics if m.parent in rows and _counts(m)]
    return list(dict.fromkeys(found))


def _counts(child: Metric) -> bool:
    return child.is_derived or (child.aggregation == Aggregation.SUM and child.composite is None)
