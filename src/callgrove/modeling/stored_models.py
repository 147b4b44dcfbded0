"""Models as a study stores them: read from files of Extra-P, and made of models that were fitted here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from fractions import Fraction

import numpy as np

from callgrove.errors import UsageError
from callgrove.model.study.series import Segment, StoredModel, Study, Term
from callgrove.modeling.fitting import Models
from callgrove.modeling.functions import Exponents, Factor, FunctionBuilder, Functions, Piece, TermOf
from callgrove.modeling.least_squares import Costs
from callgrove.modeling.model_tables import function_text, piece_text
from callgrove.modeling.options import ModelOptions

__all__ = ["NAME", "read_stored_models", "remove_models", "rename_models", "to_stored", "with_models"]

NAME = "callgrove"  # of a set of models that was made here


def read_stored_models(study: Study, name: str | None = None) -> Models:
    """Return the models that a study was stored with: those of one set, the last one without a name."""
    names = _list_sets(study)
    if name is not None:
        _demand_set(study, name)
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


def _list_sets(study: Study) -> list[str]:
    """Return the names of the sets of models, in their order. Raises UsageError where there is none."""
    names = list(dict.fromkeys(model.name for model in study.models))
    if not names:
        raise UsageError(f"{study.path or study.title or 'the study'}: has no stored models; fit some")
    return names


def _demand_set(study: Study, name: str) -> None:
    names = _list_sets(study)
    if name not in names:
        raise UsageError(f"there is no set of models {name!r}; there are {', '.join(map(repr, names))}")


def rename_models(study: Study, name: str, new: str) -> Study:
    """Return the study with a set of models under another name, which no other set has."""
    _demand_set(study, name)
    if new != name and new in _list_sets(study):
        raise UsageError(f"there is a set of models {new!r} already")
    models = tuple(replace(model, name=new) if model.name == name else model for model in study.models)
    modelers = {new if known == name else known: how for known, how in study.modelers.items()}
    return replace(study, models=models, modelers=modelers)


def remove_models(study: Study, name: str) -> Study:
    """Return the study without a set of models."""
    _demand_set(study, name)
    modelers = {known: how for known, how in study.modelers.items() if known != name}
    return replace(study, models=tuple(model for model in study.models if model.name != name), modelers=modelers)


def _number(study: Study, model: StoredModel) -> int:
    number = study.find(model.callpath, model.metric)
    assert number is not None  # an invariant of studies
    return number


def _put(builder: FunctionBuilder, number: int, model: StoredModel, parameters: tuple[str, ...]) -> None:
    row = np.array([number])
    if model.segments:
        table = np.full((1, 1, len(parameters)), -1)
        table[0, 0, 0] = builder.factor_number(_factor_in_pieces(model.segments))
        builder.put(row, np.zeros(1), np.ones((1, 1)), table)
        return
    table = np.full((1, len(model.terms), len(parameters)), -1)
    for k, term in enumerate(model.terms):
        for parameter, (power, log) in term.exponents.items():
            factor = Factor(Exponents(Fraction(power), Fraction(log)))
            table[0, k, parameters.index(parameter)] = builder.factor_number(factor)
        for parameter, segments in term.pieces.items():
            table[0, k, parameters.index(parameter)] = builder.factor_number(_factor_in_pieces(segments))
    builder.put(row, np.array([model.constant]), np.array([[term.coefficient for term in model.terms]]), table)


def _factor_in_pieces(segments: Iterable[Segment]) -> Factor:
    return Factor(pieces=tuple(Piece(s.start, s.end, s.constant, _exponents_of(s.terms)) for s in segments))


def _exponents_of(terms: Iterable[Term]) -> tuple[tuple[float, Exponents], ...]:
    """Return the terms of the one parameter that a function in pieces has."""
    return tuple(
        (term.coefficient, Exponents(Fraction(power), Fraction(log)))
        for term in terms
        for power, log in term.exponents.values()
    )


def to_stored(models: Models, name: str = NAME) -> tuple[StoredModel, ...]:
    """Return models as a study stores them. Series without a model are left out."""
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
        "use_measure": options.statistic.upper(),
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
        if not factor.pieces
    }
    pieces = {
        functions.parameters[p]: tuple(_segments_of(factor, functions.parameters[p]))
        for p, factor in term.factors
        if factor.pieces
    }
    return Term(term.coefficient, exponents, pieces)


def _segments(functions: Functions, terms: tuple[TermOf, ...]) -> Iterable[Segment]:
    if len(functions.parameters) == 1 and len(terms) == 1:
        yield from _segments_of(terms[0].factors[0][1], functions.parameters[0])


def _segments_of(factor: Factor, parameter: str) -> Iterable[Segment]:
    for piece in factor.pieces:
        piece_terms = tuple(Term(c, {parameter: (str(e.power), str(e.logarithm))}) for c, e in piece.terms)
        yield Segment(piece.start, piece.end, piece_text(piece, parameter), piece.constant, piece_terms)
