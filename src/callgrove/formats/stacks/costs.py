"""What stacks cost: metrics that add up, exclusive costs over all profiles or in some, and whole numbers of them.

Targets hold whole numbers. Times become nanoseconds, integers stay what they are, other numbers are multiplied by a
power of ten. Rounding is done on running sums, so that the numbers add up to the rounded total however many there are:

    costs      0.4   0.4   0.4   0.4      1.6 in all
    sums       0.4   0.8   1.2   1.6
    rounded    0     1     1     2
    written    0     1     0     1        2 in all
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from callgrove.arrays import Array, Ints
from callgrove.errors import Parameter, UsageError
from callgrove.formats.interface import LossReport
from callgrove.formats.writing.writer import losses_of_formulas, losses_of_missing, some
from callgrove.model.books import is_equal
from callgrove.model.computed_values import recipe
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Aggregation, Scope, time_unit, unit_factor

__all__ = [
    "MOST_PROFILES",
    "Scale",
    "WholeCosts",
    "batches",
    "choose_metric",
    "choose_metrics",
    "choose_profiles",
    "choose_scale",
    "exclusive_costs",
    "name_profiles",
    "round_costs",
]


MOST_PROFILES = 256  # that are written each by itself
CELLS = 1 << 22  # contexts x profiles that are read at once
EXACT = float(2**53)  # whole numbers above it are not all doubles
LARGEST = float(2**63)
TIMES = (("nanoseconds", 1e-9), ("microseconds", 1e-6), ("milliseconds", 1e-3), ("seconds", 1.0))
POWERS = (9, 6, 3, 0)


# -- metrics -----------------------------------------------------------------------------------------------------------


def choose_metric(experiment: Experiment, target: object) -> str:
    """Return the one metric that a target holds: the default one, which must add up."""
    name = experiment.default_metric
    rule = experiment.metrics.first(name).aggregation
    if not _is_written(experiment, name):
        why = "is not a sum" if rule != Aggregation.SUM else "has no exclusive values"
        raise UsageError(f"{target}: costs of stacks add up, and {name} {why}; choose another metric with ", METRIC)
    return name


METRIC = Parameter("metric")


def choose_metrics(experiment: Experiment, report: LossReport) -> list[str]:
    """Return the metrics that add up, the default one first; the report says which do not."""
    names = [name for name in experiment.metrics.quantities if _is_written(experiment, name)]
    for loss in (
        *losses_of_formulas(m for m in experiment.metrics if m.name not in names),
        *losses_of_missing(experiment.metrics.missing),
    ):
        report.add(loss)
    gone = {*experiment.metrics.derived, *experiment.metrics.missing, *names}
    if others := [name for name in experiment.metrics.quantities if name not in gone]:
        report.add(f"metrics {some(others)}: they are not sums, and costs of stacks add up")
    if not names:
        raise UsageError(f"{experiment.path or experiment.title}: no metric adds up, so stacks have no costs")
    default = experiment.default_metric
    return sorted(names, key=lambda name: name != default)


def _is_written(experiment: Experiment, name: str) -> bool:
    """Return whether a metric adds up and has exclusive values."""
    metric = experiment.metrics.first(name)
    if metric.aggregation != Aggregation.SUM or metric.composite is not None or not metric.has_values:
        return False
    try:
        recipe(experiment.metrics, name, Scope.EXCLUSIVE)
    except UsageError:
        return False
    return True


# -- costs -------------------------------------------------------------------------------------------------------------


def exclusive_costs(experiment: Experiment, name: str, report: LossReport) -> Array:
    """Return the exclusive cost of every context of the tree over all profiles. Numbers that are not finite become 0;
    the report says so, and where costs do not add up to what the roots say."""
    costs = experiment.totals(name, Scope.EXCLUSIVE)[: experiment.contexts.n_listed]
    costs = make_finite(costs, name, report)
    written, total = float(costs.sum()), experiment.root_total(name)
    size = float(np.abs(costs.astype(np.float64)).sum())
    if not is_equal(written, total, size):
        report.add(f"{name} at the roots: they say {total:g}, and exclusive costs, which are written, {written:g}")
    return costs


def make_finite(costs: Array, name: str, report: LossReport) -> Array:
    """Return costs with 0 in place of numbers that are not finite."""
    if costs.dtype.kind in "iu" or bool(np.isfinite(costs).all()):
        return costs
    report.add(f"values of {name} that are not finite numbers: {int((~np.isfinite(costs)).sum()):,} are left out")
    return np.where(np.isfinite(costs), costs, 0.0)


def choose_profiles(experiment: Experiment, report: LossReport) -> Ints:
    """Return the profiles to write each by itself: all, or none where there are too many or only one."""
    known = experiment.values.known
    if len(known) > MOST_PROFILES:
        report.add(f"which of {len(known):,} profiles: up to {MOST_PROFILES} are told apart, more are added up")
        return known[:0]
    if len(known) < len(experiment.profiles.measured):
        report.add("costs of single profiles: only those of all together are known")
    return known


def name_profiles(experiment: Experiment) -> list[str]:
    """Return a name for each profile that no other has: every rank of a Score-P profile has its `Master thread`."""
    profiles = experiment.profiles
    names = [profiles.label(p) for p in range(len(profiles))]
    for tell in (
        profiles.describe,
        lambda p: f"run {profiles.run[p]}" if profiles.n_runs > 1 else names[p],
        lambda p: f"profile {p}",
    ):
        n_of = Counter(names)
        for p, name in enumerate(names):
            if n_of[name] > 1 and (more := tell(p)) != name:
                names[p] = f"{name}, {more}"
    return names


def batches(experiment: Experiment, profiles: Ints, n_metrics: int = 1) -> Iterator[Ints]:
    """Yield profiles that are read at once."""
    size = max(1, CELLS // max(1, len(experiment.contexts) * n_metrics))
    for first in range(0, len(profiles), size):
        yield profiles[first : first + size]


# -- whole numbers -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Scale:
    """How costs become whole numbers: times `factor`, which makes them so many `unit`. `metric_unit` is theirs."""

    factor: float
    unit: str
    metric_unit: str

    def say(self, name: str) -> str:
        """Return what the numbers are."""
        numbers = f"numbers are {self.unit} of {name}" if self.unit else f"numbers are those of {name}"
        return numbers if self.factor == 1 else f"{numbers}: {self.metric_unit or 'values'} times {self.factor:g}"


def choose_scale(unit: str, costs: Sequence[Array]) -> Scale:
    """Return how costs of a metric become whole numbers that doubles hold: times as nanoseconds, unless there is too
    much time for it; integers as they are; others with as many digits as there is room for."""
    size = max((float(np.abs(part.astype(np.float64)).sum()) for part in costs), default=0.0)
    seconds = time_unit(unit)
    if seconds is not None:
        for name, length in TIMES:
            factor = float(f"{seconds / length:.15g}")
            if size * factor < EXACT:
                return Scale(factor, name, unit)
    if all(part.dtype.kind in "iu" or bool((part == np.rint(part)).all()) for part in costs):
        factor, base = unit_factor(unit)
        is_plain = base.lower() in ("b", "byte", "bytes") and factor == 1
        return Scale(1.0, "bytes" if is_plain else unit, unit)
    power = next((k for k in POWERS if size * 10.0**k < EXACT), 0)
    return Scale(10.0**power, f"1e-{power} {unit}".strip() if power else unit, unit)


@dataclass(frozen=True)
class WholeCosts:
    """Costs as whole numbers, and what they have less than was measured, in units of the metric."""

    numbers: Ints
    rest: float = 0.0


def round_costs(costs: Array, scale: Scale) -> WholeCosts:
    """Return whole numbers that add up to the rounded total."""
    if costs.dtype.kind in "iu" and scale.factor == 1 and (not len(costs) or int(costs.max()) < 2**63):
        return WholeCosts(costs.astype(np.int64))
    scaled = costs.astype(np.float64) * scale.factor
    if float(np.abs(scaled).sum()) >= LARGEST:
        raise UsageError(f"costs are too large for whole numbers of 64 bits: {float(np.abs(scaled).sum()):g}")
    nearest = np.rint(scaled)
    if bool((np.abs(scaled - nearest) <= 1e-12 * np.abs(scaled)).all()):  # 0.1 s is 1e8 ns, but for the last bits
        return WholeCosts(nearest.astype(np.int64))
    sums = np.cumsum(scaled)
    rounded = np.rint(sums)
    return WholeCosts(np.diff(rounded, prepend=0.0).astype(np.int64), float(sums[-1] - rounded[-1]) / scale.factor)
