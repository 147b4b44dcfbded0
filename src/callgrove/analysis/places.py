"""One metric over the system tree: machines, nodes, processes, threads."""

from __future__ import annotations

import numpy as np

from callgrove.model.arrays import Array
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Scope
from callgrove.model.orders import combine_upwards, depths, levels

__all__ = ["over_system"]


def over_system(experiment: Experiment, quantity: str, scope: Scope, context: int) -> Array:
    """The metric at one context for every place of the system: what its profiles have, combined; absent is neutral."""
    rule, system = experiment.metrics.first(quantity).aggregation, experiment.system
    out = np.full(len(system), rule.neutral)
    measured = experiment.profiles.measured
    place = experiment.profiles.system[measured]
    values = experiment.matrix(quantity, scope)[context].astype(np.float64)
    rule.combine_at(out, place[place >= 0], values[place >= 0])
    return combine_upwards(out, system.parent, levels(depths(system.parent)), rule.ufunc)
