"""Models of a study as a caller asks for them: those that a file stores, or new ones, of some series."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from fractions import Fraction

import numpy as np

from callgrove.arrays import Ints
from callgrove.errors import Parameter, UsageError
from callgrove.model.study.series import Segment, StoredModel, Study, Term
from callgrove.modeling.fitting import Models, Progress, model_study
from callgrove.modeling.functions import Exponents, Factor, FunctionBuilder, Functions, Piece, TermOf
from callgrove.modeling.least_squares import Costs
from callgrove.modeling.notation import function_text, piece_text
from callgrove.modeling.options import ModelOptions
from callgrove.modeling.scaling import along as only_along
from callgrove.modeling.scaling import total_cost

__all__ = ["NAME", "choose_series", "models_of", "prepare", "read_stored_models", "to_stored", "with_models"]


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
    """Terms of the one parameter that a function in pieces has."""
    return tuple(
        (term.coefficient, Exponents(Fraction(power), Fraction(log)))
        for term in terms
        for power, log in term.exponents.values()
    )


def to_stored(models: Models, name: str = NAME) -> tuple[StoredModel, ...]:
    """Models as a study stores them. Left out: series without a model, and functions of several parameters with a
    part in pieces, for which files have no place."""
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
