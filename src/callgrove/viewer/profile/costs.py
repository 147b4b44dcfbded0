"""Which metrics a page shows, and what each context costs in them."""

from __future__ import annotations

from dataclasses import dataclass

from callgrove.analysis.costs import Costs, costs
from callgrove.errors import UsageError
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Aggregation
from callgrove.viewer.panels import Choice, Limits

__all__ = ["ShownCosts", "is_additive", "shown_costs"]


@dataclass(frozen=True)
class ShownCosts:
    """The metric that is shown first, and the others; `left_out` counts those beyond the most that a page shows,
    `derived` those whose formulas are not evaluated."""

    metrics: tuple[Costs, ...]
    left_out: int = 0
    derived: int = 0


def is_additive(found: Costs) -> bool:
    """Do costs add up to the total, so that parts of it can be drawn?"""
    return found.metric.aggregation == Aggregation.SUM


def shown_costs(experiment: Experiment, choice: Choice, limits: Limits) -> ShownCosts | None:
    """The metric chosen, or the default one, then those that the file wants shown; None where nothing has a cost."""
    try:
        first = experiment.metrics.resolve(choice.metric) if choice.metric else experiment.default_metric
    except UsageError:
        if choice.metric:
            raise
        return None
    names = dict.fromkeys((first, *experiment.metrics.shown))
    found: list[Costs] = []
    left_out = 0
    for name in names:
        if len(found) >= limits.metrics:
            left_out += 1
        elif (one := _costs(experiment, name, choice, must=bool(choice.metric) and name == first)) is not None:
            found.append(one)
    return ShownCosts(tuple(found), left_out, len(experiment.metrics.derived)) if found else None


def _costs(experiment: Experiment, name: str, choice: Choice, must: bool) -> Costs | None:
    """The costs in one metric, if there are any that numbers can say."""
    try:
        found = costs(experiment, name, choice.ranks, choice.threads)
    except UsageError:  # composite values, or a metric that only formulas have
        if must or not _has_profiles(experiment, choice):
            raise
        return None
    return found if found.has(found.inclusive).any() or found.has(found.exclusive).any() else None


def _has_profiles(experiment: Experiment, choice: Choice) -> bool:
    """Does the choice leave any profile? Where not, that is the error to tell."""
    return len(experiment.profiles.where(choice.ranks, choice.threads)) > 0 or (
        choice.ranks is None and choice.threads is None
    )
