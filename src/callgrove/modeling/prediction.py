"""Models of a study as a caller asks for them, stored or fitted, and what they say about other scales."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from fractions import Fraction

import numpy as np

from callgrove.arrays import Bools, Floats, Ints
from callgrove.errors import Parameter, UsageError
from callgrove.model.study.series import Segment, StoredModel, Study, Term
from callgrove.model.table import Column, Table
from callgrove.modeling.fitting import Models, Progress, model_study
from callgrove.modeling.functions import Exponents, Factor, FunctionBuilder, Functions, Piece, TermOf, candidates
from callgrove.modeling.least_squares import Costs, design
from callgrove.modeling.model_tables import function_text, order_text, piece_text, subtree_sums
from callgrove.modeling.options import ModelOptions
from callgrove.modeling.scaling import along as only_along
from callgrove.modeling.scaling import efficiency, process_parameter, total_cost
from callgrove.modeling.single import all_scores, constants

__all__ = [
    "FAR",
    "NAME",
    "NEARLY",
    "Curve",
    "Curves",
    "Target",
    "choose_series",
    "curves_of",
    "far_from",
    "models_of",
    "predict",
    "prepare",
    "read_stored_models",
    "runner_ups",
    "target_of",
    "to_stored",
    "with_models",
]


# -- prediction --------------------------------------------------------------------------------------------------------


FAR = 4.0  # times the largest value measured: beyond, terms that fit equally well part ways


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


def predict(models: Models, target: Target, subtrees: bool = False, processes: str | None = None) -> Table:
    """Return all models at a target, the largest first: prediction, share of the metric's total, growth since the base
    point, speed-up and efficiency (where a parameter counts processes), order and function. What does not add up is no
    share of anything, and neither quick nor efficient."""
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
    ranked = _rank_rows(at, metrics, study)
    with np.errstate(all="ignore"):
        columns = {"prediction": at, "share": at / total * 100, "base": base}
        ratios = {"growth": at / base} | _compute_efficiencies(study, target, base, at, processes)
    adds_up = np.array([metric not in study.ratios for metric in metrics], np.bool_)
    for name in ("speedup", "efficiency"):
        if name in ratios:
            ratios[name] = np.where(adds_up, ratios[name], np.nan)
    columns["share"] = np.where(adds_up, columns["share"], np.nan)
    sound = (base > 0) & (at >= 0)  # a function may fall below 0 at small points, where nothing can be compared with it
    columns |= {name: np.where(sound, ratio, np.nan) for name, ratio in ratios.items()}
    order, absent = ranked.tolist(), {*ratios, *(() if adds_up.all() else ("share",))}
    return Table(
        (
            Column("callpath", [callpaths[n] for n in order]),
            Column("metric", [metrics[n] for n in order]),
            *(Column(name, column[ranked], np.nan if name in absent else None) for name, column in columns.items()),
            Column("order", [order_text(functions, n) for n in order]),
            Column("function", [function_text(functions, n) for n in order]),
        )
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


def _totals(models: Models, at: Floats) -> dict[str, float]:
    """Return the sum of the predictions of each metric; what is predicted below 0 counts as nothing."""
    values = models.functions.evaluate(at[None])[:, 0]
    positive = np.where(values > 0, values, 0.0)
    sums = np.bincount(models.study.series_metric[models.series], positive, minlength=len(models.study.metrics))
    return {name: float(total) if total > 0 else np.nan for name, total in zip(models.study.metrics, sums, strict=True)}


def _rank_rows(at: Floats, metrics: tuple[str, ...], study: Study) -> Ints:
    """Return the order: metric by metric as in the study, the largest prediction first; what is undefined last."""
    position = {name: number for number, name in enumerate(study.metrics)}
    place = np.array([position[metric] for metric in metrics], np.int64)
    size = np.where(np.isnan(at), -np.inf, at)
    ranked: Ints = np.lexsort([-size, place])
    return ranked


# -- models that fit nearly as well as the chosen one ------------------------------------------------------------------
# Where they differ, a prediction is a guess.


NEARLY = 1.5  # times the error of the best


def runner_ups(models: Models, number: int, at: Floats | None = None) -> Table:
    """Return all functions of one parameter whose SMAPE is at most 1.5 times that of the best, the best first, and what
    they say at a point (without one, at the largest measured)."""
    study, series = models.study, int(models.series[number])
    if len(study.parameters) > 1 or models.options.modeler != "default":
        known = "runner-ups are known for the default modeler and one parameter; use "
        raise UsageError(known, Parameter("along"), " to choose one")
    values = study.measure(models.options.measure)[series]
    usable = study.present[series] & np.isfinite(values)
    x, y = study.points[usable, 0], values[usable]
    target = np.array([[x.max(initial=1.0)]]) if at is None else at.reshape(1, 1)
    builder = FunctionBuilder(study.parameters, 1, 1)
    terms = candidates(x, models.options)
    rows: list[tuple[float, str, str, float]] = []
    if len(y):
        plain = constants(y[None])
        builder.put(np.arange(1), plain.c0, np.empty((1, 0)), np.empty((1, 0, 1)))
        rows.append(_row(builder, target, float(plain.costs.smape[0])))
    if len(y) > 1 and terms and plain.costs.rss[0] != 0:
        made = design(x, terms)
        smape, c0, c1 = all_scores(made, y[:, None], models.options)
        for k in np.argsort(smape, kind="stable").tolist():
            factor = np.array([[[builder.factor_number(Factor(made.terms[k]))]]])
            builder.put(np.arange(1), c0[k : k + 1], c1[k : k + 1, None], factor)
            rows.append(_row(builder, target, float(smape[k])))
    best = min((row[0] for row in rows if np.isfinite(row[0])), default=np.nan)
    near = sorted((row for row in rows if row[0] <= NEARLY * best), key=lambda row: row[0])
    names = ("smape", "function", "order", "prediction")
    return Table(tuple(Column(name, [row[k] for row in near]) for k, name in enumerate(names)))


def _row(builder: FunctionBuilder, target: Floats, smape: float) -> tuple[float, str, str, float]:
    functions = builder.build()
    return smape, function_text(functions, 0), order_text(functions, 0), float(functions.evaluate(target)[0, 0])


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
    usable = study.present[series] & np.isfinite(study.measure(models.options.measure)[series])
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
        curves.append(_curve(models, series, here, x, y, _label(study.parameters, fixed)))
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


def _curve(models: Models, series: int, here: Bools, x: Floats, y: Floats, label: str) -> Curve:
    study = models.study
    value = study.measure(models.options.measure)[series, here]
    low, high = study.minimum[series, here], study.maximum[series, here]
    return Curve(label, x, y, study.points[here, 0], value, np.fmin(low, value), np.fmax(high, value))


# -- stored models, or new ones ----------------------------------------------------------------------------------------


NAME = "callgrove"  # of a set of models that was made here


def read_stored_models(study: Study, name: str | None = None) -> Models:
    """Return the models that a study was stored with: those of one set, the last one without a name."""
    names = list(dict.fromkeys(model.name for model in study.models))
    if not names:
        raise UsageError(f"{study.path or study.title or 'the study'}: has no stored models; fit some")
    if name is not None and name not in names:
        raise UsageError(f"there is no set of models {name!r}; there are {', '.join(map(repr, names))}")
    chosen = [model for model in study.models if model.name == (names[-1] if name is None else name)]
    builder = FunctionBuilder(study.parameters, len(chosen), max(1, *(len(m.terms) for m in chosen)))
    costs = Costs.make_unknown(len(chosen))
    series = np.empty(len(chosen), np.int64)
    for number, model in enumerate(chosen):
        series[number] = _number(study, model)
        _put(builder, number, model, study.parameters)
        for field in fields(Costs):
            getattr(costs, field.name)[number] = model.statistics.get(field.name, np.nan)
    n_points, noise = study.present[series].sum(axis=1), np.full(len(chosen), np.nan)
    cautions = np.zeros(len(chosen), np.int64)
    return Models(study, ModelOptions(), series, builder.build(), costs, n_points, noise, cautions)


def _number(study: Study, model: StoredModel) -> int:
    number = study.find(model.callpath, model.metric)
    assert number is not None  # an invariant of studies
    return number


def _put(builder: FunctionBuilder, number: int, model: StoredModel, parameters: tuple[str, ...]) -> None:
    row = np.array([number])
    if model.segments:
        pieces = tuple(Piece(s.start, s.end, s.constant, _exponents_of(s.terms)) for s in model.segments)
        table = np.full((1, 1, len(parameters)), -1)
        table[0, 0, 0] = builder.factor_number(Factor(pieces=pieces))
        builder.put(row, np.zeros(1), np.ones((1, 1)), table)
        return
    table = np.full((1, len(model.terms), len(parameters)), -1)
    for k, term in enumerate(model.terms):
        for parameter, (power, log) in term.exponents.items():
            factor = Factor(Exponents(Fraction(power), Fraction(log)))
            table[0, k, parameters.index(parameter)] = builder.factor_number(factor)
    builder.put(row, np.array([model.constant]), np.array([[term.coefficient for term in model.terms]]), table)


def _exponents_of(terms: Iterable[Term]) -> tuple[tuple[float, Exponents], ...]:
    """Return the terms of the one parameter that a function in pieces has."""
    return tuple(
        (term.coefficient, Exponents(Fraction(power), Fraction(log)))
        for term in terms
        for power, log in term.exponents.values()
    )


def to_stored(models: Models, name: str = NAME) -> tuple[StoredModel, ...]:
    """Return models as a study stores them. Left out: series without a model, and functions of several parameters with
    a part in pieces, for which files have no place."""
    all_models = (_as_stored(models, number, name) for number in range(len(models)))
    return tuple(model for model in all_models if model is not None)


def with_models(study: Study, models: Models, name: str = NAME) -> Study:
    """Return the study with these models instead of what it stored under that name."""
    kept = [model for model in study.models if model.name != name]
    modelers: dict[str, Mapping[str, object]] = {**study.modelers, name: _modeler(models)}
    return replace(study, models=(*kept, *to_stored(models, name)), modelers=modelers)


def _modeler(models: Models) -> dict[str, object]:
    """Return the options under Extra-P's names."""
    options = models.options
    options_of_all: dict[str, object] = {
        "use_measure": options.measure.upper(),
        "compare_with_RSS": options.compare_with_rss,
    }
    if len(models.study.parameters) == 1:
        return {
            **options_of_all,
            "allow_log_terms": options.logarithms,
            "use_crossvalidation": options.cross_validation,
        }
    return {
        **options_of_all,
        "single_parameter_point_selection": options.selection,
        "allow_combinations_of_sums_and_products": options.mixed,
    }


def _as_stored(models: Models, number: int, name: str) -> StoredModel | None:
    functions = models.functions
    constant = float(functions.constant[number])
    if np.isnan(constant):
        return None
    terms = tuple(functions.terms(number))
    statistics = {field.name: float(getattr(models.costs, field.name)[number]) for field in fields(Costs)}
    segments = tuple(_segments(functions, terms))
    if not segments and any(factor.pieces for term in terms for _, factor in term.factors):
        return None
    return StoredModel(
        models.callpath(number),
        models.metric(number),
        function_text(functions, number),
        constant,
        () if segments else tuple(_term(functions, term) for term in terms),
        statistics,
        name,
        segments,
    )


def _term(functions: Functions, term: TermOf) -> Term:
    exponents = {
        functions.parameters[p]: (str(factor.exponents.power), str(factor.exponents.logarithm))
        for p, factor in term.factors
    }
    return Term(term.coefficient, exponents)


def _segments(functions: Functions, terms: tuple[TermOf, ...]) -> Iterable[Segment]:
    if len(functions.parameters) > 1 or len(terms) != 1:
        return
    parameter = functions.parameters[0]
    for piece in terms[0].factors[0][1].pieces:
        piece_terms = tuple(Term(c, {parameter: (str(e.power), str(e.logarithm))}) for c, e in piece.terms)
        yield Segment(piece.start, piece.end, piece_text(piece, parameter), piece.constant, piece_terms)


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
    progress: Progress | None = None,
) -> Models:
    """Return the models of some series: those that the study stores, or new ones where it has none or `refit` asks."""
    if stored is None and (refit or not study.models):
        return model_study(study, options, choose_series(study, metric, callpath), progress)
    models = read_stored_models(study, stored)
    rows = np.flatnonzero(np.isin(models.series, choose_series(models.study, metric, callpath)))
    return models if len(rows) == len(models) else models.take(rows)


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
