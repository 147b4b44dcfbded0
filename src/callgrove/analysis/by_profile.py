"""What some groups of contexts cost in each profile.

Exclusive cost is a sum over stored values: each counts once, and once less where it is contained in another that counts
(`Recipe.weights`). So values are read once and added up as they come, block by block; nothing is laid out as contexts x
profiles.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from callgrove.errors import UsageError
from callgrove.model.arrays import Array, Bools, Floats, Ints
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Aggregation, Scope
from callgrove.model.scopes import recipe
from callgrove.model.values import Block, DenseBlock

__all__ = ["exclusive_by_profile"]


@np.errstate(invalid="ignore", over="ignore")  # values need not be finite
def exclusive_by_profile(
    experiment: Experiment, quantity: str, groups: Sequence[Bools], profiles: Ints | None = None
) -> Floats:
    """Exclusive cost of each group (a mask over contexts) in each profile, the measured ones or those given: groups x
    profiles. The metric must be additive."""
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
    for block in experiment.values.measured_blocks(chosen, np.array([way.stored])):
        _add(out, block, weights, column)
    return out


def _add(out: Floats, block: Block, weights: Floats, column: Ints) -> None:
    if isinstance(block, DenseBlock):
        matrix = np.where(block.matrix == block.neutral, 0, block.matrix) if block.neutral else block.matrix
        out[:, column[block.profiles]] += _weighed(weights[block.contexts], matrix.astype(np.float64))
        return
    order = np.argsort(block.profile, kind="stable") if len(block) and np.ptp(block.profile) else slice(None)
    rows = block.take(order)
    starts = np.flatnonzero(np.diff(rows.profile, prepend=-1))
    for start, end in zip(starts.tolist(), [*starts[1:].tolist(), len(rows)], strict=True):
        value = rows.value[start:end, None].astype(np.float64)
        out[:, column[rows.profile[start]]] += _weighed(weights[rows.context[start:end]], value)[:, 0]


def _weighed(weights: Floats, values: Array) -> Floats:
    """groups x profiles, of weights (contexts x groups) and values (contexts x profiles). Infinity times 0 is 0."""
    if np.isfinite(values).all():
        summed: Floats = weights.T @ values
        return summed
    parts = [(weights[rows, k, None] * values[rows]).sum(axis=0) for k, rows in enumerate(weights.T != 0)]
    return np.stack(parts)
