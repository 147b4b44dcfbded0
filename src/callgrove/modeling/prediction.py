"""What models say about a scale that was not measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from callgrove.errors import UsageError
from callgrove.model.arrays import Floats, Ints
from callgrove.model.study import Study
from callgrove.model.table import Column, Table
from callgrove.modeling.calltree import subtree_sums
from callgrove.modeling.fitting import Models
from callgrove.modeling.notation import function_text, order_text
from callgrove.modeling.scaling import efficiency, process_parameter

__all__ = ["FAR", "Target", "far_from", "predict", "target_of"]

FAR = 4.0  # times the largest value measured: beyond, terms that fit equally well part ways


@dataclass(frozen=True)
class Target:
    """A point to predict, and the measured point it is compared with: the one with the smallest coordinates."""

    at: Floats
    base: Floats


def target_of(study: Study, values: Mapping[str, float]) -> Target:
    """The point with these values of parameters; every parameter needs one."""
    unknown = [name for name in values if name not in study.parameters]
    missing = [name for name in study.parameters if name not in values]
    if unknown or missing:
        known = ", ".join(study.parameters)
        what = f"there is no parameter {unknown[0]!r}" if unknown else f"a value of {missing[0]!r} is missing"
        raise UsageError(f"{what}; name all parameters: {known}")
    at = np.array([values[name] for name in study.parameters], np.float64)
    if not np.isfinite(at).all():
        raise UsageError("coordinates of a prediction must be finite numbers")
    least = np.lexsort([*(study.points[:, p] for p in reversed(range(len(at)))), study.points.sum(axis=1)])[0]
    return Target(at, study.points[least])


@np.errstate(over="ignore")  # a value may be as large as numbers go
def far_from(study: Study, target: Target) -> list[str]:
    """Parameters whose target lies far beyond what was measured, in words."""
    found = []
    largest, smallest = study.points.max(axis=0), study.points.min(axis=0)
    for p, name in enumerate(study.parameters):
        if largest[p] > 0 and target.at[p] > FAR * largest[p]:
            times = target.at[p] / largest[p]
            found.append(f"{name} = {target.at[p]:g} is {times:.3g} times the largest measured ({largest[p]:g})")
        elif smallest[p] > 0 and target.at[p] * FAR < smallest[p]:
            found.append(f"{name} = {target.at[p]:g} is far below the smallest measured ({smallest[p]:g})")
    return found


def predict(models: Models, target: Target, subtrees: bool = False, processes: str | None = None) -> Table:
    """All models at a target, the largest first: prediction, share of the metric's total, growth since the base point,
    speed-up and efficiency (where a parameter counts processes), order and function."""
    study = models.study
    if subtrees:
        sums = subtree_sums(models)
        callpaths, metrics, functions = sums.callpaths, sums.metrics, sums.functions
    else:
        numbers = range(len(models))
        callpaths = tuple(models.callpath(n) for n in numbers)
        metrics, functions = tuple(models.metric(n) for n in numbers), models.functions
    values = functions.evaluate(np.stack([target.at, target.base]))
    at, base = values[:, 0], values[:, 1]
    totals = _totals(models, target.at)
    total = np.array([totals.get(metric, np.nan) for metric in metrics])
    ranked = _ranking(at, metrics, study)
    with np.errstate(all="ignore"):
        columns = {"prediction": at, "share": at / total * 100, "base": base}
        ratios = {"growth": at / base} | _efficiencies(study, target, base, at, processes)
    sound = (base > 0) & (at >= 0)  # a function may fall below 0 at small points, where nothing can be compared with it
    columns |= {name: np.where(sound, ratio, np.nan) for name, ratio in ratios.items()}
    order = ranked.tolist()
    return Table(
        (
            Column("callpath", [callpaths[n] for n in order]),
            Column("metric", [metrics[n] for n in order]),
            *(Column(name, column[ranked], np.nan if name in ratios else None) for name, column in columns.items()),
            Column("order", [order_text(functions, n) for n in order]),
            Column("function", [function_text(functions, n) for n in order]),
        )
    )


def _efficiencies(study: Study, target: Target, base: Floats, at: Floats, processes: str | None) -> dict[str, Floats]:
    """Speed-up and efficiency, where it is known what counts processes."""
    parameter = process_parameter(study, processes)
    if parameter is None:
        return {}
    with np.errstate(all="ignore"):
        factor = float(target.at[parameter] / target.base[parameter])
    gained = efficiency(base, at, factor, study.scaling or "weak")
    return {"speedup": gained.speedup, "efficiency": gained.efficiency}


def _totals(models: Models, at: Floats) -> dict[str, float]:
    """The sum of the predictions of each metric; what is predicted below 0 counts as nothing."""
    values = models.functions.evaluate(at[None])[:, 0]
    positive = np.where(values > 0, values, 0.0)
    sums = np.bincount(models.study.series_metric[models.series], positive, minlength=len(models.study.metrics))
    return {name: float(total) if total > 0 else np.nan for name, total in zip(models.study.metrics, sums, strict=True)}


def _ranking(at: Floats, metrics: tuple[str, ...], study: Study) -> Ints:
    """Metric by metric in the order of the study, the largest prediction first; what is undefined last."""
    position = {name: number for number, name in enumerate(study.metrics)}
    place = np.array([position[metric] for metric in metrics], np.int64)
    size = np.where(np.isnan(at), -np.inf, at)
    ranked: Ints = np.lexsort([-size, place])
    return ranked
