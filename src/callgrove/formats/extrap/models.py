"""Models as `experiment.json` stores them; read and written.

    modelers [{name, modeler {$type, options}, models {call path: {metric: model}}}]
    model       {hypothesis {$type, function, RSS, ..., AR2, RE}, annotations}
    segmented   {$type: SegmentedModel, hypothesis, segment_models [2], changing_points [1 or 2]}
                of several parameters: a factor {$variant: SegmentedTerm, segments [2], intervals [2]}
    function    {$type, constant_coefficient, compound_terms [...]}       see _read_terms

Specification: extrap.md section 10.2. Deviation: the type of a function is taken from what it has where `$type` is
missing, as it is in what Extra-P writes for refining models.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from callgrove.errors import CorruptFile
from callgrove.formats.extrap.study_format import Node
from callgrove.model.study.books import StudyBooks
from callgrove.model.study.series import (
    STATISTICS,
    Segment,
    StoredModel,
    Study,
    Term,
    bounds_text,
    factor_texts,
    read_exponent,
)

__all__ = [
    "COSTS",
    "ModelSet",
    "exponent_text",
    "function_text",
    "json_number",
    "measurement",
    "model_sets",
    "number_of",
    "read_model_sets",
    "segments_text",
]


COSTS = {"RSS": "rss", "rRSS": "rrss", "nRSS": "nrss", "SMAPE": "smape", "AR2": "ar2", "RE": "re"}
TERM_TYPES = ("polynomial", "logarithm")


@dataclass(frozen=True)
class ModelSet:
    """Models that were made together, and how."""

    name: str
    modeler: dict[str, object]
    models: list[StoredModel]
    left_out: list[str]  # what of it cannot be held, in words


def read_model_sets(root: Node, parameters: tuple[str, ...]) -> Iterator[ModelSet]:
    """Yield the sets of models of an experiment; names that come twice are numbered."""
    modelers = root.get("modelers")
    taken: set[str] = set()
    for one in modelers.elements() if modelers is not None else ():
        plain = name = one["name"].text()
        number = 1
        while name in taken:
            number += 1
            name = f"{plain} #{number}"
        taken.add(name)
        modeler = one.get("modeler")
        options = dict(modeler.members()) if modeler is not None else {}
        models, left_out = _models(one, name, parameters)
        yield ModelSet(name, options, models, left_out)


def _models(node: Node, name: str, parameters: tuple[str, ...]) -> tuple[list[StoredModel], list[str]]:
    stored_models: list[StoredModel] = []
    left_out: list[str] = []
    models = node.get("models")
    for callpath, metrics in models.items() if models is not None else ():
        for metric, model in metrics.items():
            made = _read_model(model, callpath.partition("\x03")[0], metric.partition("\x03")[0], name, parameters)
            stored_models.append(made)
            if (notes := model.get("annotations")) is not None and notes.value:
                left_out.append("annotations of models")
    return stored_models, left_out


def _read_model(node: Node, callpath: str, metric: str, name: str, parameters: tuple[str, ...]) -> StoredModel:
    hypothesis = node["hypothesis"]
    function = hypothesis["function"]
    statistics = _statistics(hypothesis)
    if "segments" in function.members():
        segments = tuple(_read_segments(function, parameters, node))
        text = segments_text(segments, parameters[0])
        return StoredModel(callpath, metric, text, 0.0, (), statistics, name, segments)
    terms = _read_terms(function, parameters)
    constant = _constant(function)
    if not terms:
        statistics.setdefault("ar2", 1.0)
    text = function_text(constant, terms, parameters)
    return StoredModel(callpath, metric, text, constant, terms, statistics, name)


def _statistics(hypothesis: Node) -> dict[str, float]:
    """Return the costs of a hypothesis; those that are not there are unknown."""
    costs = ((word, hypothesis.get(key)) for key, word in COSTS.items())
    return {word: number_of(node) for word, node in costs if node is not None}


def _read_segments(function: Node, parameters: tuple[str, ...], model: Node | None = None) -> Iterator[Segment]:
    """Yield the pieces of a function of the first parameter; their errors are those of a model, where there is one."""
    intervals = [[number_of(end) for end in pair.elements()] for pair in function["intervals"].elements()]
    pieces = list(function["segments"].elements())
    models = model.get("segment_models") if model is not None else None
    inner = list(models.elements()) if models is not None else []
    if len(intervals) != len(pieces) or any(len(pair) != 2 for pair in intervals) or not pieces:
        raise function.bad("an interval of two numbers for each segment")
    for number, (piece, (start, end)) in enumerate(zip(pieces, intervals, strict=True)):
        terms, constant = _read_terms(piece, parameters), _constant(piece)
        statistics = _statistics(inner[number]["hypothesis"]) if number < len(inner) else {}
        yield Segment(start, end, function_text(constant, terms), constant, terms, statistics)


def _constant(function: Node) -> float:
    node = function.get("constant_coefficient")
    return number_of(node) if node is not None else 0.0


def _read_terms(function: Node, parameters: tuple[str, ...]) -> tuple[Term, ...]:
    """Return the terms of a function."""
    terms = function.get("compound_terms")
    all_terms: list[Term] = []
    for term in terms.elements() if terms is not None else ():
        coefficient = term.get("coefficient")
        factor = number_of(coefficient) if coefficient is not None else 1.0
        exponents: dict[str, tuple[str, str]] = {}
        pieces: dict[str, tuple[Segment, ...]] = {}
        for parameter, compound in _read_factors(term, parameters):
            if "segments" in compound.members():
                pieces[parameter] = tuple(_read_segments(compound, (parameter,)))
                continue
            if compound is not term and (inner := compound.get("coefficient")) is not None:
                factor *= number_of(inner)
            exponents[parameter] = _read_exponents(compound)
        all_terms.append(Term(factor, exponents, pieces))
    return tuple(all_terms)


def _read_factors(term: Node, parameters: tuple[str, ...]) -> Iterator[tuple[str, Node]]:
    """Yield the factors of a term, by parameter; a term of one parameter is its own only factor."""
    pairs = term.get("parameter_term_pairs")
    if pairs is None:
        yield parameters[0], term
        return
    for key, compound in pairs.items():
        if not key.isdecimal() or int(key) >= len(parameters):
            raise pairs.bad(f"numbers of parameters from 0 to {len(parameters) - 1} as keys")
        yield parameters[int(key)], compound


def _read_exponents(compound: Node) -> tuple[str, str]:
    """Return the power and logarithm of a factor; simple terms of one kind are multiplied, so their exponents add
    up."""
    sums = {"polynomial": Fraction(0), "logarithm": Fraction(0)}
    for simple in compound["simple_terms"].elements():
        kind = simple["term_type"].text()
        if kind not in sums:
            raise simple["term_type"].bad(f"one of {', '.join(TERM_TYPES)}")
        exponent = simple["exponent"]
        value = exponent.value if isinstance(exponent.value, str) else number_of(exponent)
        try:
            sums[kind] += Fraction(exponent_text(value))
            float(sums[kind])
        except (ValueError, OverflowError):
            raise exponent.bad("an exponent") from None
    return str(sums["polynomial"]), str(sums["logarithm"])


def number_of(node: Node) -> float:
    """Return a number, which may be written as text: `nan`, `-inf`, `3/2`."""
    if isinstance(node.value, str) and "/" in node.value:
        try:
            return float(Fraction(node.value))
        except (ValueError, ZeroDivisionError, OverflowError):
            raise _no_number(node) from None
    return node.number()


def _no_number(node: Node) -> CorruptFile:
    return node.bad("a number or a fraction")


# -- measurements ------------------------------------------------------------------------------------------------------


def measurement(
    study: Study, series: int, point: int, addresses: Mapping[int, tuple[int, int]] | None = None
) -> dict[str, object]:
    """Return a measurement; statistics that are not known are left out, but for the median, which Extra-P needs."""
    address = (addresses or {}).get(series * study.n_points + point)
    out: dict[str, object] = {"coordinate": study.points[point].tolist()}
    for name in STATISTICS:
        value = float(getattr(study, name)[series, point])
        if name in ("mean", "median") or not math.isnan(value) or address is not None:
            out[name] = json_number(value)
    known = int(study.repetitions[series, point])
    return out | {"repetitions": known if known >= 0 else None, "values": address}


def json_number(value: float) -> float | str:
    """Return a number; what JSON has none for is a text, as Extra-P writes it."""
    return value if math.isfinite(value) else str(float(value))


# -- writing models ----------------------------------------------------------------------------------------------------
# `$type` is always written: Extra-P cannot load what it omits itself.


Json = dict[str, object]

SINGLE: Json = {
    "allow_log_terms": True,
    "use_crossvalidation": True,
    "compare_with_RSS": False,
    "$type": "SingleParameterModeler",
}
MULTI: Json = {
    "single_parameter_point_selection": "auto",
    "allow_combinations_of_sums_and_products": True,
    "compare_with_RSS": False,
    "$type": "MultiParameterModeler",
}


def model_sets(study: Study, books: StudyBooks) -> Iterator[str]:
    """Yield the sets of models as JSON, one after the other, separated by commas. `books` count the models."""
    names = dict.fromkeys([*study.modelers, *(model.name for model in study.models)])
    by_name: dict[str, list[StoredModel]] = {name: [] for name in names}
    for model in study.models:
        by_name[model.name].append(model)
    for number, (name, models) in enumerate(by_name.items()):
        modeler = _describe_modeler(study, name)
        measure = str(modeler["use_measure"])
        head = f'{{"name": {_text(name or "New Modeler")}, "modeler": {_text(modeler)}, "models": {{'
        yield f"{', ' * (number > 0)}{head}"
        by_callpath: dict[str, dict[str, Json]] = {}
        for model in models:
            by_callpath.setdefault(model.callpath, {})[model.metric] = _model_as_json(study, model, measure)
        yield ", ".join(
            f"{_text(callpath)}: {_text(models_of_path)}" for callpath, models_of_path in by_callpath.items()
        )
        yield "}}"
        books.passed.n_models += sum(map(len, by_callpath.values()))


def _describe_modeler(study: Study, name: str) -> Json:
    """Return the options of a set, with what Extra-P cannot do without."""
    given = dict(study.modelers.get(name, {}))
    if "$type" not in given:
        given = {**(SINGLE if len(study.parameters) == 1 else MULTI), **given}
    given.setdefault("use_measure", "MEDIAN" if given.get("use_median") else "MEAN")
    given["use_median"] = given["use_measure"] == "MEDIAN"
    return given


def _model_as_json(study: Study, model: StoredModel, measure: str) -> Json:
    if model.segments:
        return _two_piece_model_as_json(study, model, measure)
    function = _function(model.constant, model.terms, study.parameters)
    return {"hypothesis": _hypothesis(function, model.statistics, measure), "annotations": []}


def _hypothesis(function: Json, statistics: object, measure: str) -> Json:
    kind = {
        "ConstantFunction": "ConstantHypothesis",
        "MultiParameterFunction": "MultiParameterHypothesis",
    }.get(str(function["$type"]), "SingleParameterHypothesis")
    known: dict[str, float] = dict(statistics)  # type: ignore[call-overload]
    costs = {key: json_number(known.get(word, math.nan)) for key, word in COSTS.items()}
    if kind == "ConstantHypothesis":
        del costs["AR2"]
    return {
        "function": function,
        **costs,
        "_use_median": measure == "MEDIAN",
        "_use_measure": measure,
        "_costs_are_calculated": True,
        "$type": kind,
    }


def _function(constant: float, terms: Sequence[Term], parameters: Sequence[str]) -> Json:
    start: Json = {"constant_coefficient": json_number(constant)}
    if not terms:
        return start | {"$type": "ConstantFunction"}
    if len(parameters) == 1:
        only = parameters[0]
        compound = [{"coefficient": json_number(t.coefficient), "simple_terms": _simple(t, only)} for t in terms]
        return start | {"compound_terms": compound, "$type": "SingleParameterFunction"}
    several = [
        {
            "coefficient": json_number(term.coefficient),
            "parameter_term_pairs": {
                str(parameters.index(name)): _factor_as_json(term, name)
                for name in parameters
                if name in term.exponents or name in term.pieces
            },
        }
        for term in terms
    ]
    return start | {"compound_terms": several, "$type": "MultiParameterFunction"}


def _factor_as_json(term: Term, parameter: str) -> Json:
    """Return what one of several parameters contributes to a term."""
    if parameter not in term.pieces:
        return {"coefficient": 1.0, "simple_terms": _simple(term, parameter)}
    return {"coefficient": 1.0, **_pieces_as_json(term.pieces[parameter], parameter), "$variant": "SegmentedTerm"}


def _pieces_as_json(segments: Sequence[Segment], parameter: str) -> Json:
    pieces = [_function(one.constant, one.terms, [parameter]) for one in segments]
    return {
        "segments": [piece if "compound_terms" in piece else _as_segment(piece) for piece in pieces],
        "intervals": [[json_number(one.start), json_number(one.end)] for one in segments],
    }


def _simple(term: Term, parameter: str) -> list[Json]:
    power, logarithm = term.exponents.get(parameter, ("0", "0"))
    terms: list[Json] = []
    for kind, exponent in (("polynomial", power), ("logarithm", logarithm)):
        if exponent != "0":  # with a slash always: Extra-P makes a float of what has none, and shows p^(2.0)
            terms.append(
                {"term_type": kind, "exponent": f"{exponent}/1" if exponent.lstrip("-").isdigit() else exponent}
            )
    return terms


def _two_piece_model_as_json(study: Study, model: StoredModel, measure: str) -> Json:
    """Return a model of two pieces. The points where they meet are measurements of the series."""
    named: Json = {
        "callpath": {"name": model.callpath, "tags": dict(study.callpath_tags.get(model.callpath, {}))},
        "metric": {"name": model.metric, "tags": dict(study.metric_tags.get(model.metric, {}))},
    }
    pieces = [_function(one.constant, one.terms, study.parameters) for one in model.segments]
    function = _pieces_as_json(model.segments, study.parameters[0]) | {"$type": "SegmentedFunction"}
    inner = [
        {"hypothesis": _hypothesis(piece, one.statistics, measure), "annotations": [], **named}
        for piece, one in zip(pieces, model.segments, strict=True)
    ]
    return {
        "hypothesis": _hypothesis(function, model.statistics, measure),
        "annotations": [],
        **named,
        "segment_models": inner,
        "changing_points": [{**point, **named} for point in _changing_points(study, model)],
        "$type": "SegmentedModel",
    }


def _as_segment(piece: Json) -> Json:
    """Return a constant piece as a function of one parameter: Extra-P takes segments for such functions."""
    return {**piece, "compound_terms": [], "$type": "SingleParameterFunction"}


def _changing_points(study: Study, model: StoredModel) -> Iterator[Json]:
    ends = dict.fromkeys(x for one in model.segments for x in _ends(one) if math.isfinite(x))
    series = study.find(model.callpath, model.metric)
    assert series is not None
    for x in ends:
        for point in np.flatnonzero((study.points[:, 0] == x) & study.present[series])[:1].tolist():
            yield measurement(study, series, point)


def _ends(segment: Segment) -> tuple[float, float]:
    return segment.start, segment.end


def _text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


# Functions of models in Extra-P's notation: `5 + 2.5 * p^(3/2) * log2(p)^(1) + -0.1 * n^(2)`.


def exponent_text(value: float | str) -> str:
    """Return an exponent as a fraction in lowest terms; `2` for 2.0 and `3/2` for 1.5."""
    if isinstance(value, str):
        return str(read_exponent(value))
    try:
        exact = Fraction(value).limit_denominator(1000)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{value!r} is not an exponent") from error
    return str(exact) if float(exact) == float(value) else repr(float(value))


def function_text(constant: float, terms: Sequence[Term], parameters: Sequence[str] = ()) -> str:
    """Return a sum, the factors of a term in the order of `parameters`. The constant is left out where it is 0 and
    there are terms, a coefficient where it is exactly 1."""
    parts = [_term_text(term, parameters) for term in terms]
    if constant != 0 or not terms:
        parts.insert(0, repr(float(constant)))
    return " + ".join(parts)


def _term_text(term: Term, parameters: Sequence[str]) -> str:
    factors = [] if term.coefficient == 1 else [repr(float(term.coefficient))]
    for parameter in dict.fromkeys([*parameters, *term.exponents, *term.pieces]):
        factors += factor_texts(parameter, *term.exponents.get(parameter, ("0", "0")))
        if parameter in term.pieces:
            factors.append(f"{{{segments_text(term.pieces[parameter], parameter)}}}")
    return " * ".join(factors) or "1.0"


def segments_text(segments: Sequence[Segment], parameter: str) -> str:
    """Return the pieces of a segmented model, each with where it holds."""
    return "; ".join(f"{one.function} for {bounds_text(parameter, one.start, one.end)}" for one in segments)
