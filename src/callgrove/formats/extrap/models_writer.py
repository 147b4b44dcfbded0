"""Models as Extra-P 4.2.5 loads them; the layout is that of stored_models.py. `$type` is always written: Extra-P cannot
load what it omits itself."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence

import numpy as np

from callgrove.formats.extrap.measurement_json import json_number, measurement
from callgrove.formats.extrap.stored_models import COSTS
from callgrove.model.study import Segment, StoredModel, Study, Term
from callgrove.model.study_books import StudyBooks

__all__ = ["model_sets"]

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
    """The sets of models as JSON, one after the other, separated by commas. `books` count the models."""
    names = dict.fromkeys([*study.modelers, *(model.name for model in study.models)])
    by_name: dict[str, list[StoredModel]] = {name: [] for name in names}
    for model in study.models:
        by_name[model.name].append(model)
    for number, (name, models) in enumerate(by_name.items()):
        modeler = _modeler(study, name)
        measure = str(modeler["use_measure"])
        head = f'{{"name": {_text(name or "New Modeler")}, "modeler": {_text(modeler)}, "models": {{'
        yield f"{', ' * (number > 0)}{head}"
        by_callpath: dict[str, dict[str, Json]] = {}
        for model in models:
            by_callpath.setdefault(model.callpath, {})[model.metric] = _model(study, model, measure)
        yield ", ".join(f"{_text(callpath)}: {_text(own)}" for callpath, own in by_callpath.items())
        yield "}}"
        books.passed.n_models += sum(map(len, by_callpath.values()))


def _modeler(study: Study, name: str) -> Json:
    """The options of a set, with what Extra-P cannot do without."""
    given = dict(study.modelers.get(name, {}))
    if "$type" not in given:
        given = {**(SINGLE if len(study.parameters) == 1 else MULTI), **given}
    given.setdefault("use_measure", "MEDIAN" if given.get("use_median") else "MEAN")
    given["use_median"] = given["use_measure"] == "MEDIAN"
    return given


def _model(study: Study, model: StoredModel, measure: str) -> Json:
    if model.segments:
        return _segmented(study, model, measure)
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
                str(parameters.index(name)): {"coefficient": 1.0, "simple_terms": _simple(term, name)}
                for name in term.exponents
            },
        }
        for term in terms
    ]
    return start | {"compound_terms": several, "$type": "MultiParameterFunction"}


def _simple(term: Term, parameter: str) -> list[Json]:
    power, logarithm = term.exponents.get(parameter, ("0", "0"))
    found: list[Json] = []
    if power != "0":
        found.append({"term_type": "polynomial", "exponent": power})
    if logarithm != "0":
        found.append({"term_type": "logarithm", "exponent": logarithm if "/" in logarithm else float(logarithm)})
    return found


def _segmented(study: Study, model: StoredModel, measure: str) -> Json:
    """A model of two pieces. The points where they meet are measurements of the series, which Extra-P looks up."""
    named: Json = {
        "callpath": {"name": model.callpath, "tags": dict(study.callpath_tags.get(model.callpath, {}))},
        "metric": {"name": model.metric, "tags": dict(study.metric_tags.get(model.metric, {}))},
    }
    pieces = [_function(one.constant, one.terms, study.parameters) for one in model.segments]
    function: Json = {
        "segments": [piece if "compound_terms" in piece else _without_terms(piece) for piece in pieces],
        "intervals": [[json_number(one.start), json_number(one.end)] for one in model.segments],
        "$type": "SegmentedFunction",
    }
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


def _without_terms(piece: Json) -> Json:
    """A constant piece as a function of one parameter: Extra-P takes segments for such functions."""
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
