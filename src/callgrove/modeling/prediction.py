"""Models of a study as a caller asks for them, stored or fitted, and what they say about other scales."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from callgrove.arrays import Bools, Floats, Ints
from callgrove.errors import Parameter, UsageError
from callgrove.execute import IN_PROCESS, Progress, Workers, silent
from callgrove.model.study.series import Study
from callgrove.model.table import Column, Table
from callgrove.modeling.fitting import Models, model_study
from callgrove.modeling.functions import Factor, FunctionBuilder, Functions, candidates
from callgrove.modeling.improved.series import quantiles_at
from callgrove.modeling.judgement import FAR, Apart, Judgements, Trust, judge, set_apart
from callgrove.modeling.least_squares import design
from callgrove.modeling.model_tables import function_text, judge_subtrees, order_text, subtree_orders, subtree_sums
from callgrove.modeling.near_equals import NEARLY
from callgrove.modeling.options import ModelOptions
from callgrove.modeling.scaling import along as only_along
from callgrove.modeling.scaling import efficiency, process_parameter, total_cost
from callgrove.modeling.single import all_scores, constants
from callgrove.modeling.stored_models import read_stored_models

__all__ = [
    "FAR",
    "NEARLY",
    "Curve",
    "Curves",
    "NearEquals",
    "Target",
    "choose_series",
    "curves_of",
    "far_from",
    "fit_beside",
    "models_of",
    "near_equals_of",
    "predict",
    "prepare",
    "runner_ups",
    "target_of",
]


# -- prediction --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Target:
    """A point to predict, and the measured point it is compared with: the one with the smallest coordinates."""

    at: Floats
    base: Floats


def target_of(study: Study, values: Mapping[str, float]) -> Target:
    """Return the point with these values of parameters; every parameter needs one."""
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
    """Return parameters whose target lies far beyond what was measured, in words."""
    sentences = []
    largest, smallest = study.points.max(axis=0), study.points.min(axis=0)
    for p, name in enumerate(study.parameters):
        if largest[p] > 0 and target.at[p] > FAR * largest[p]:
            times = target.at[p] / largest[p]
            sentences.append(f"{name} = {target.at[p]:g} is {times:.3g} times the largest measured ({largest[p]:g})")
        elif smallest[p] > 0 and target.at[p] * FAR < smallest[p]:
            sentences.append(f"{name} = {target.at[p]:g} is far below the smallest measured ({smallest[p]:g})")
    return sentences


@dataclass(frozen=True, eq=False)
class _Rows:
    """What a row of predictions is of: one model, or those of a subtree."""

    callpaths: tuple[str, ...]
    metrics: tuple[str, ...]
    functions: Functions
    low: Floats
    high: Floats
    trust: Ints
    apart: Ints
    measured: Floats  # share of the run at the largest point: what stands apart is ranked by it
    reasons: Callable[[int], str]
    counted: Floats  # what of the prediction counts for the share
    orders: tuple[str, ...]
    extra: tuple[Column, ...] = ()  # of single models


def predict(
    models: Models,
    target: Target,
    subtrees: bool = False,
    processes: str | None = None,
    noise_floor: float | None = None,
    beside: Models | None = None,
) -> Table:
    """Return all models at a target, the largest first: prediction with its interval of 90%, share of the metric's
    total, growth since the base point, speed-up and efficiency (where a parameter counts processes), order, function,
    and how far to trust it. What is not to be trusted, or is noise, comes last, by what was measured of it, and has no
    share. What does not add up is not a share of anything, and neither quick nor efficient. `beside` are models of
    another method, to compare with."""
    study = models.study
    judgements = judge(models, target.at)
    apart = set_apart(models, judgements, noise_floor)
    rows = _of_subtrees(models, judgements, apart) if subtrees else _of_models(models, judgements, apart, beside)
    metrics = rows.metrics
    at, base = rows.functions.evaluate(np.stack([target.at, target.base])).T
    totals = _totals(models, target.at, apart == Apart.NO)
    total = np.array([totals.get(metric, np.nan) for metric in metrics])
    ranked = _rank_rows(np.where(rows.apart == Apart.NO, at, rows.measured), metrics, rows.apart, study)
    with np.errstate(all="ignore"):
        share = np.where(rows.apart == Apart.NO, rows.counted / total * 100, np.nan)
        columns = {"prediction": at, "low": rows.low, "high": rows.high, "share": share, "base": base}
        ratios = {"growth": at / base} | _compute_efficiencies(study, target, base, at, processes)
    adds_up = np.array([metric not in study.ratios for metric in metrics], np.bool_)
    for name in ("speedup", "efficiency"):
        if name in ratios:
            ratios[name] = np.where(adds_up, ratios[name], np.nan)
    columns["share"] = np.where(adds_up, columns["share"], np.nan)
    sound = (base > 0) & (at >= 0)  # a function may fall below 0 at small points, where nothing can be compared with it
    columns |= {name: np.where(sound, ratio, np.nan) for name, ratio in ratios.items()}
    order = ranked.tolist()
    absent: dict[str, float | None] = {"prediction": None, "base": None}
    return Table(
        (
            Column("callpath", [rows.callpaths[n] for n in order]),
            Column("metric", [metrics[n] for n in order]),
            *(Column(name, values[ranked], absent.get(name, np.nan)) for name, values in columns.items()),
            Column("order", [rows.orders[n] or None for n in order]),
            Column("function", [function_text(rows.functions, n) for n in order]),
            Column("trust", [Trust(rows.trust[n]).word for n in order]),
            Column("reason", [rows.reasons(n) for n in order]),
            Column("apart", [APART[int(rows.apart[n])] for n in order]),
            *(replace(column, values=np.asarray(column.values)[ranked]) for column in rows.extra),
        )
    )


APART = {int(Apart.NO): None, int(Apart.UNTRUSTED): "not trusted", int(Apart.NOISE): "noise"}


def _of_models(models: Models, judged: Judgements, apart: Ints, beside: Models | None) -> _Rows:
    numbers = range(len(models))
    extra = [
        Column("noise", models.noise, np.nan),
        Column("run_share", judged.share, np.nan),
        Column("distance", judged.distance),
        Column("spread_low", judged.spread_low, np.nan),
        Column("spread_high", judged.spread_high, np.nan),
    ]
    if beside is not None:
        extra.insert(0, Column(f"prediction_{beside.options.method}", beside.predict(judged.at)[:, 0], np.nan))
    return _Rows(
        tuple(models.callpath(n) for n in numbers),
        tuple(models.metric(n) for n in numbers),
        models.functions,
        judged.low,
        judged.high,
        judged.trust,
        apart,
        judged.share,
        judged.reason,
        judged.prediction,
        tuple(order_text(models.functions, n) for n in numbers),
        tuple(extra),
    )


def _of_subtrees(models: Models, judged: Judgements, apart: Ints) -> _Rows:
    """Return sums over subtrees. What stands apart in a tenth of one or more sets all of it apart; elsewhere it has no
    part in the share, nor in how the sum is said to grow."""
    sums = subtree_sums(models)
    parts = judge_subtrees(sums, models, judged)
    standing = np.full(len(sums.callpaths), int(Apart.NO))
    np.maximum.at(standing, sums.owner[parts.matters], apart[sums.member][parts.matters])
    counted = np.where((apart == Apart.NO) & (judged.prediction > 0), judged.prediction, 0.0)
    return _Rows(
        sums.callpaths,
        sums.metrics,
        sums.functions,
        parts.low,
        parts.high,
        parts.trust,
        standing,
        parts.share,
        parts.reason,
        np.bincount(sums.owner, counted[sums.member], minlength=len(sums.callpaths)).astype(np.float64),
        subtree_orders(sums, models, apart == Apart.NO),
    )


def _compute_efficiencies(
    study: Study, target: Target, base: Floats, at: Floats, processes: str | None
) -> dict[str, Floats]:
    """Return the speed-up and efficiency, where it is known what counts processes."""
    parameter = process_parameter(study, processes)
    if parameter is None:
        return {}
    with np.errstate(all="ignore"):
        factor = float(target.at[parameter] / target.base[parameter])
    gained = efficiency(base, at, factor, study.scaling or "weak")
    return {"speedup": gained.speedup, "efficiency": gained.efficiency}


def _totals(models: Models, at: Floats, counted: Bools) -> dict[str, float]:
    """Return the sum of the predictions of each metric that count; what is predicted below 0 counts as nothing."""
    values = models.functions.evaluate(at[None])[:, 0]
    positive = np.where((values > 0) & counted, values, 0.0)
    sums = np.bincount(models.study.series_metric[models.series], positive, minlength=len(models.study.metrics))
    return {name: float(total) if total > 0 else np.nan for name, total in zip(models.study.metrics, sums, strict=True)}


def _rank_rows(size: Floats, metrics: tuple[str, ...], apart: Ints, study: Study) -> Ints:
    """Return the order: metric by metric as in the study, the largest first; then what stands apart, and what is
    undefined last."""
    position = {name: number for number, name in enumerate(study.metrics)}
    place = np.array([position[metric] for metric in metrics], np.int64)
    size = np.where(np.isnan(size), -np.inf, size)
    ranked: Ints = np.lexsort([-size, place, apart != Apart.NO])
    return ranked


# -- models that fit nearly as well as the chosen one ------------------------------------------------------------------
# Where they differ, a prediction is a guess.


@dataclass(frozen=True, eq=False)
class NearEquals:
    """Functions that fit a series nearly as well as the best of them, the best first, with their errors."""

    functions: Functions
    smape: Floats


def runner_ups(models: Models, number: int, at: Floats | None = None) -> Table:
    """Return all functions of one parameter whose SMAPE is at most 1.5 times that of the best, the best first, and what
    they say at a point (without one, at the largest measured)."""
    study, series = models.study, int(models.series[number])
    near = near_equals_of(models, number)
    usable = study.present[series] & np.isfinite(study.measure(models.options.statistic)[series])
    target = np.array([[study.points[usable, 0].max(initial=1.0)]]) if at is None else at.reshape(1, 1)
    numbers = range(len(near.functions))
    return Table(
        (
            Column("smape", near.smape.tolist()),
            Column("function", [function_text(near.functions, n) for n in numbers]),
            Column("order", [order_text(near.functions, n) for n in numbers]),
            Column("prediction", near.functions.evaluate(target)[:, 0].tolist()),
        )
    )


def near_equals_of(models: Models, number: int) -> NearEquals:
    """Return all functions of one parameter whose SMAPE is at most 1.5 times that of the best, the best first."""
    study, series = models.study, int(models.series[number])
    if len(study.parameters) > 1 or models.options.modeler != "default":
        known = "runner-ups are known for the default modeler and one parameter; use "
        raise UsageError(known, Parameter("along"), " to choose one")
    values = study.measure(models.options.statistic)[series]
    usable = study.present[series] & np.isfinite(values)
    x, y = study.points[usable, 0], values[usable]
    terms = candidates(x, models.options)
    smape, c0, c1 = np.empty(0), np.empty(0), np.empty(0)
    factors: list[Factor] = []
    if len(y):
        plain = constants(y[None])
        smape, c0, c1, factors = plain.costs.smape, plain.c0, np.zeros(1), [Factor()]
    if len(y) > 1 and terms and plain.costs.rss[0] != 0:
        made = design(x, terms)
        parts = all_scores(made, y[:, None], models.options)
        smape, c0, c1 = (np.append(one, np.ravel(other)) for one, other in zip((smape, c0, c1), parts, strict=True))
        factors += [Factor(term) for term in made.terms]
    best = np.min(smape[np.isfinite(smape)], initial=np.inf)
    order = [k for k in np.argsort(smape, kind="stable").tolist() if smape[k] <= NEARLY * best]
    builder = FunctionBuilder(study.parameters, len(order), 1)
    for row, k in enumerate(order):
        is_constant = factors[k] == Factor()
        factor = np.empty((1, 0, 1)) if is_constant else np.array([[[builder.factor_number(factors[k])]]])
        builder.put(np.array([row]), c0[k : k + 1], np.empty((1, 0)) if is_constant else c1[k : k + 1, None], factor)
    return NearEquals(builder.build(), smape[np.array(order, np.int64)])


# -- curves to plot ----------------------------------------------------------------------------------------------------


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
    band_low: Floats  # interval of 90% at x; NaN where there is none
    band_high: Floats
    repeated_x: Floats  # every value that is known
    repeated_y: Floats


@dataclass(frozen=True, eq=False)
class Curves:
    """The curves of one model."""

    title: str
    function: str
    parameter: str
    metric: str  # with its unit
    curves: tuple[Curve, ...]


def curves_of(models: Models, number: int, at: Floats | None = None) -> Curves:
    """Return the curves to plot. One parameter: one curve. Several: a curve over the first for each value of the second
    (at most eight), the rest at the values of the first point. `at` is a point that the curves should reach."""
    study, series = models.study, int(models.series[number])
    usable = study.present[series] & np.isfinite(study.measure(models.options.statistic)[series])
    points = study.points[usable]
    if not len(points):
        points = study.points
    last = points[:, 0].max() if at is None else max(points[:, 0].max(), at[0])
    x = _samples(points[:, 0].min(), last)
    curves = []
    for fixed in _choose_fixed_coordinates(points, at):
        there = np.column_stack([x, np.tile(fixed, (len(x), 1))])
        y = models.functions.take(np.array([number])).evaluate(there)[0]
        here = usable & (study.points[:, 1:] == fixed).all(axis=1)
        band = quantiles_at(study, models.series[[number]], there, models.options.measure)[:, 0]
        curves.append(_curve(models, series, here, x, y, _label(study.parameters, fixed), band))
    text = function_text(models.functions, number, "short")
    title = models.callpath(number)
    metric = models.metric(number)
    unit = study.units.get(metric, "")
    known = unit and unit != "unknown" and f"({unit})" not in metric
    return Curves(title, text, study.parameters[0], f"{metric} ({unit})" if known else metric, tuple(curves))


def _samples(first: float, last: float) -> Floats:
    if first > 0 and last / first > 8:
        return np.geomspace(first, last, SAMPLES)
    return np.linspace(first, last, SAMPLES)


def _choose_fixed_coordinates(points: Floats, at: Floats | None) -> list[Floats]:
    """Return the other coordinates of each curve."""
    if points.shape[1] == 1:
        return [np.empty(0)]
    values = np.unique(points[:, 1])
    values = values[np.unique(np.linspace(0, len(values) - 1, MOST_CURVES).astype(int))]
    if at is not None and at[1] not in values:
        values = np.append(values[: MOST_CURVES - 1], at[1])
    return [np.array([value, *points[0, 2:]]) for value in values.tolist()]


def _label(parameters: tuple[str, ...], fixed: Floats) -> str:
    return ", ".join(f"{name} = {value:g}" for name, value in zip(parameters[1:], fixed.tolist(), strict=True))


def _curve(models: Models, series: int, here: Bools, x: Floats, y: Floats, label: str, band: Floats) -> Curve:
    study = models.study
    value = study.measure(models.options.statistic)[series, here]
    low, high = study.minimum[series, here], study.maximum[series, here]
    measured = (study.points[here, 0], value, np.fmin(low, value), np.fmax(high, value))
    values = [study.values(series, point) for point in np.flatnonzero(here).tolist()]
    repeated_x = np.repeat(study.points[here, 0], [len(one) for one in values])
    return Curve(label, x, y, *measured, band[0], band[1], repeated_x, np.concatenate([*values, np.empty(0)]))


# -- models as a caller asks for them ----------------------------------------------------------------------------------


def prepare(study: Study, along: str | None = None, times: str | None = None) -> Study:
    """Return the study as if `along` were its only parameter, with values multiplied by the parameter `times`."""
    study = only_along(study, along) if along else study
    return total_cost(study, times) if times else study


def models_of(
    study: Study,
    options: ModelOptions,
    metric: str | None = None,
    callpath: str | None = None,
    stored: str | None = None,
    refit: bool = False,
    progress: Progress = silent,
    workers: Workers = IN_PROCESS,
) -> Models:
    """Return the models of some series: those that the study stores, or new ones where it has none or `refit` asks."""
    if stored is None and (refit or not study.models):
        return model_study(study, options, choose_series(study, metric, callpath), progress, workers)
    models = read_stored_models(study, stored)
    rows = np.flatnonzero(np.isin(models.series, choose_series(models.study, metric, callpath)))
    return models if len(rows) == len(models) else models.take(rows)


def fit_beside(models: Models, progress: Progress = silent) -> Models | None:
    """Return Extra-P's models of the same series, to show beside those of the improved method; None beside its own."""
    if not models.options.is_improved:
        return None
    options = replace(models.options, method="extrap", measure=models.options.statistic)
    return model_study(models.study, options, models.series, progress)


def choose_series(study: Study, metric: str | None, callpath: str | None) -> Ints:
    """Return the numbers of the series of a metric whose call paths contain a text; one that is equal counts alone."""
    if metric is None and callpath is None:
        return np.arange(len(study))
    number = None if metric is None else _metric(study, metric)
    pairs = zip(study.series_callpath.tolist(), study.series_metric.tolist(), strict=True)
    candidates = [
        series
        for series, (c, m) in enumerate(pairs)
        if (number is None or m == number) and (callpath is None or callpath in study.callpaths[c])
    ]
    if not candidates:
        wanted = " with that metric" if metric is not None else ""
        nothing = f"no call path{wanted} contains {callpath or ''!r}; "
        raise UsageError(nothing, Parameter('export("series")'), " lists them")
    exact = [series for series in candidates if study.callpaths[study.series_callpath[series]] == callpath]
    return np.array(exact or candidates, np.int64)


def _metric(study: Study, name: str) -> int:
    """Return the metric of that name, or the only one whose name contains it."""
    if name in study.metrics:
        return study.metrics.index(name)
    matches = [number for number, known in enumerate(study.metrics) if name and name.lower() in known.lower()]
    if len(matches) != 1:
        known = ", ".join(map(repr, study.metrics))
        raise UsageError(
            f"{'several metrics contain' if matches else 'there is no metric'} {name!r}; there are {known}"
        )
    return matches[0]
