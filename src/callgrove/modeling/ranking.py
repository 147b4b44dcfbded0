"""What did not scale: the call paths that will dominate, what they lose, and where one cost overtakes another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from callgrove.arrays import Floats, Ints
from callgrove.errors import UsageError
from callgrove.model.activities import ACTIVITIES, ActivityClass, classify_call
from callgrove.model.study.series import Study
from callgrove.model.table import Column, Table
from callgrove.modeling.fitting import Models
from callgrove.modeling.prediction import Curves, Target, curves_of, predict
from callgrove.modeling.scaling import process_parameter

__all__ = ["RANKINGS", "Crossing", "find_crossings", "make_ranked_curves", "rank", "tell_apart", "whole_run"]

RANKINGS = ("growth", "share", "loss")
N_CURVES = 6
SAMPLES = 400  # along the parameter, between which costs are compared
MATTERS = 0.01  # part of the metric at the point where costs cross, from which on it is worth a word


def rank(
    models: Models,
    target: Target,
    by: str,
    subtrees: bool = False,
    processes: str | None = None,
    noise_floor: float | None = None,
) -> Table:
    """Return predictions with a column `loss`, ranked by growth since the base point, by share at the target, or by
    loss: what a call path costs there beyond what perfect scaling from the base point would leave. What is set apart
    comes last."""
    if by not in RANKINGS:
        raise UsageError(f"there is no ranking by {by!r}; there are {', '.join(RANKINGS)}")
    table = predict(models, target, subtrees, processes, noise_floor)
    loss = _loss(table, models.study, target, processes)
    table = Table((*table.columns, Column("loss", loss, np.nan)), notes=table.notes)
    key = np.array([-np.inf if value is None else value for value in table[by]], np.float64)
    apart = np.array([word is not None for word in table["apart"]], np.bool_)
    order = np.lexsort([np.arange(len(key)), -key, apart])
    return Table(tuple(_take(column, order) for column in table.columns))


def _take(column: Column, order: Ints) -> Column:
    cells = column.plain()
    return Column(column.name, [cells[n] for n in order.tolist()])


def _loss(table: Table, study: Study, target: Target, processes: str | None) -> Floats:
    """Return what is lost against perfect scaling: time that should stay (or fall, where values are times of a problem
    that stays the same) and does not."""
    prediction = np.array(table["prediction"], np.float64)
    base = np.array(table["base"], np.float64)
    if study.scaling == "time" and (parameter := process_parameter(study, processes)) is not None:
        base = base * float(target.base[parameter] / target.at[parameter])
    ratios = np.array([name in study.ratios for name in table["metric"]], np.bool_)
    with np.errstate(invalid="ignore"):  # what is infinite at both points grows by nobody knows what
        loss: Floats = np.where(ratios, np.nan, prediction - base)
    return loss


def whole_run(models: Models, target: Target) -> Iterator[tuple[str, float, float]]:
    """Yield each metric that adds up, with the sum of all models at the base point and at the target."""
    values = models.functions.evaluate(np.stack([target.base, target.at]))
    metric = models.study.series_metric[models.series]
    for number, name in enumerate(models.study.metrics):
        rows = (metric == number) & np.isfinite(values).all(axis=1)
        if name not in models.study.ratios and rows.any():
            base, at = values[rows].sum(axis=0).tolist()
            yield name, base, at


# -- where costs cross -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Crossing:
    """At `value` of the parameter, `riser` begins to cost more than `other`."""

    parameter: str
    value: float
    riser: str
    other: str
    metric: str

    def __str__(self) -> str:
        return f"at {self.parameter} = {self.value:.4g} {self.riser} overtakes {self.other} ({self.metric})"


def find_crossings(models: Models, target: Target, numbers: Sequence[int]) -> list[Crossing]:
    """Return where one of these models overtakes another, and one class of activities another, along the parameter that
    counts processes (else the first), from the smallest value measured to the target; the others are as in it."""
    study = models.study
    parameter = process_parameter(study) or 0
    first, last = float(study.points[:, parameter].min()), float(target.at[parameter])
    if not 0 < first < last < np.inf:
        return []
    x = np.geomspace(first, last, SAMPLES)
    points = np.tile(target.at, (SAMPLES, 1))
    points[:, parameter] = x
    crossings: list[Crossing] = []
    for metric, names, values in _groups(models, numbers, points):
        crossings += _cross(x, study.parameters[parameter], metric, names, values)
    return sorted(dict.fromkeys(crossings), key=lambda one: one.value)


def _groups(models: Models, numbers: Sequence[int], points: Floats) -> Iterator[tuple[str, list[str], Floats]]:
    """Yield, by metric, the costs of classes of activities, and those of some models."""
    metric_of = models.study.series_metric[models.series]
    for metric, name in enumerate(models.study.metrics):
        if name in models.study.ratios:
            continue
        rows = np.flatnonzero(metric_of == metric)
        values = np.nan_to_num(models.functions.evaluate(points)[rows])
        kinds = [_class_of(models.callpath(int(row))) for row in rows]
        known = list(dict.fromkeys(kinds))
        if len(known) > 1:
            sums = [values[np.array([kind == one for kind in kinds])].sum(axis=0) for one in known]
            yield name, known, np.stack(sums)
        chosen = [k for k, row in enumerate(rows.tolist()) if row in set(numbers)]
        if len(chosen) > 1:
            yield name, [models.callpath(int(rows[k])) for k in chosen], values[chosen]


def _class_of(callpath: str) -> str:
    """Return the class of the nearest part of a call path that is known by its name; the rest computes."""
    for part in reversed(callpath.split("->")):
        activity = classify_call(part)
        if activity >= 0:
            return ACTIVITIES[activity].klass.value
    return ActivityClass.COMPUTE.value


def _cross(x: Floats, parameter: str, metric: str, names: Sequence[str], values: Floats) -> Iterator[Crossing]:
    total = np.abs(values).sum(axis=0)
    for a in range(len(names)):
        for b in range(len(names)):
            difference = values[a] - values[b]
            rises = np.flatnonzero((difference[:-1] < 0) & (difference[1:] > 0))
            for k in rises.tolist():
                part = difference[k] / (difference[k] - difference[k + 1])
                if values[a, k] > MATTERS * total[k]:
                    at = float(x[k] * (x[k + 1] / x[k]) ** part)
                    yield Crossing(parameter, at, names[a], names[b], metric)


def tell_apart(callpaths: Sequence[str]) -> list[str]:
    """Return the last part of each call path, with as many of its callers as others of that name make necessary."""
    parts = [path.split("->") for path in callpaths]
    lengths = [1] * len(parts)
    while True:
        labels = ["->".join(part[-n:]) for part, n in zip(parts, lengths, strict=True)]
        longer = [
            labels.count(label) > 1 and n < len(part) for label, n, part in zip(labels, lengths, parts, strict=True)
        ]
        if not any(longer):
            return labels
        lengths = [n + more for n, more in zip(lengths, longer, strict=True)]


def make_ranked_curves(models: Models, numbers: Sequence[int], at: Floats) -> Curves:
    """Return the curves of several models in one plot, over the first parameter with the others as in the target."""
    from dataclasses import replace

    shown = [curves_of(models, number, at) for number in list(numbers)[:N_CURVES]]
    labels = tell_apart([models.callpath(number) for number in list(numbers)[:N_CURVES]])
    curves = tuple(replace(one.curves[-1], label=label) for one, label in zip(shown, labels, strict=True))
    point = ", ".join(f"{name} = {x:g}" for name, x in zip(models.study.parameters, at.tolist(), strict=True))
    return Curves(f"What will cost most at {point}", "", shown[0].parameter, shown[0].metric, curves)
