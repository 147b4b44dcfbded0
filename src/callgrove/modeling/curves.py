"""What a plot of one model shows: the function as curves, and what was measured beside it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from callgrove.model.arrays import Bools, Floats
from callgrove.modeling.fitting import Models
from callgrove.modeling.notation import function_text

__all__ = ["Curve", "Curves", "curves_of"]

SAMPLES = 121
MOST_CURVES = 8


@dataclass(frozen=True, eq=False)
class Curve:
    """A function over one parameter, the others fixed as the label says, and the points measured there."""

    label: str
    x: Floats
    y: Floats
    measured_x: Floats
    measured_y: Floats
    low: Floats
    high: Floats


@dataclass(frozen=True, eq=False)
class Curves:
    """The curves of one model."""

    title: str
    function: str
    parameter: str
    metric: str  # with its unit
    curves: tuple[Curve, ...]


def curves_of(models: Models, number: int, at: Floats | None = None) -> Curves:
    """One parameter: one curve. Several: a curve over the first for each value of the second (at most eight), the rest
    at the values of the first point. `at` is a point that the curves should reach."""
    study, series = models.study, int(models.series[number])
    usable = study.present[series] & np.isfinite(study.measure(models.options.measure)[series])
    points = study.points[usable]
    if not len(points):
        points = study.points
    last = points[:, 0].max() if at is None else max(points[:, 0].max(), at[0])
    x = _samples(points[:, 0].min(), last)
    found = []
    for fixed in _fixed(points, at):
        there = np.column_stack([x, np.tile(fixed, (len(x), 1))])
        y = models.functions.take(np.array([number])).evaluate(there)[0]
        here = usable & (study.points[:, 1:] == fixed).all(axis=1)
        found.append(_curve(models, series, here, x, y, _label(study.parameters, fixed)))
    text = function_text(models.functions, number, "short")
    title = models.callpath(number)
    metric = models.metric(number)
    unit = study.units.get(metric, "")
    known = unit and unit != "unknown" and f"({unit})" not in metric
    return Curves(title, text, study.parameters[0], f"{metric} ({unit})" if known else metric, tuple(found))


def _samples(first: float, last: float) -> Floats:
    if first > 0 and last / first > 8:
        return np.geomspace(first, last, SAMPLES)
    return np.linspace(first, last, SAMPLES)


def _fixed(points: Floats, at: Floats | None) -> list[Floats]:
    """The other coordinates of the curves."""
    if points.shape[1] == 1:
        return [np.empty(0)]
    values = np.unique(points[:, 1])
    values = values[np.unique(np.linspace(0, len(values) - 1, MOST_CURVES).astype(int))]
    if at is not None and at[1] not in values:
        values = np.append(values[: MOST_CURVES - 1], at[1])
    return [np.array([value, *points[0, 2:]]) for value in values.tolist()]


def _label(parameters: tuple[str, ...], fixed: Floats) -> str:
    return ", ".join(f"{name} = {value:g}" for name, value in zip(parameters[1:], fixed.tolist(), strict=True))


def _curve(models: Models, series: int, here: Bools, x: Floats, y: Floats, label: str) -> Curve:
    study = models.study
    value = study.measure(models.options.measure)[series, here]
    low, high = study.minimum[series, here], study.maximum[series, here]
    return Curve(label, x, y, study.points[here, 0], value, np.fmin(low, value), np.fmax(high, value))
