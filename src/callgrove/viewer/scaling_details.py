"""What the scaling page knows of models beside their functions: judgements at some points, near equals, repetitions.

A page evaluates functions itself, at any point. Intervals and trust come of all the measurements, which a report does
not hold: it has them at stops, and says nothing about them elsewhere. The viewer asks for those of any point.

Functions are given as terms, so that a page can draw them over any range:

    constant [M]   bounds [M + 1]   coefficient [T]
    factor [T * P]: number among `factors`, -1 where a parameter takes no part; a factor is [power, logarithm], or
    pieces of {from, to, constant, terms: [[coefficient, power, logarithm]]}
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np

from callgrove.arrays import Floats, Ints
from callgrove.model.study.series import Study
from callgrove.modeling.fitting import Models
from callgrove.modeling.functions import Factor, FunctionBuilder, Functions
from callgrove.modeling.judgement import Apart, Judgements, Trust, judge_at, set_apart_at
from callgrove.modeling.model_tables import function_text
from callgrove.modeling.prediction import near_equals_of
from callgrove.modeling.surfaces import MOST_FUNCTIONS, N_CONTOURS, SIDE, SPAN, WIDE
from callgrove.viewer.page import Texts

__all__ = [
    "SURFACE_RULES",
    "describe_functions",
    "describe_judgements",
    "describe_near_equals",
    "describe_repetitions",
    "describe_stops",
    "find_stops",
]

REACH = 64.0  # times the largest value measured, up to which a point of prediction is moved
FINE = (1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 32.0, 48.0, REACH)  # times the largest, of one parameter
COARSE = (4.0, 16.0, REACH)  # of several
MOST_MEASURED = {1: 12}  # values measured that are stops, by the number of parameters; of several, these:
MOST_MEASURED_OF_SEVERAL = 4
MOST_STOPS = 64  # of several parameters; where all combinations are more, those along each parameter
N_JUDGEMENTS = 4_000  # models times stops
LEAST_JUDGED = 20  # models
MOST_NEAR = 5  # functions of a model, beside its own
SAME = 1e-9  # relative difference of coefficients of the same function

SURFACE_RULES = {"side": SIDE, "contours": N_CONTOURS, "span": SPAN, "wide": WIDE, "most": MOST_FUNCTIONS}


# -- points at which everything is known -------------------------------------------------------------------------------


def find_stops(study: Study, target: Floats) -> Floats:
    """Return points (stops x parameters) from the smallest measured to 64 times the largest: all combinations of some
    values, or those along each parameter, the others as in the target."""
    values = [_values_of(study, p, float(target[p])) for p in range(len(study.parameters))]
    if np.prod([len(one) for one in values]) <= MOST_STOPS:
        return np.array(list(product(*values)), np.float64).reshape(-1, len(values))
    along = [tuple(target.tolist())]
    for p, own in enumerate(values):
        along += [(*target[:p].tolist(), value, *target[p + 1 :].tolist()) for value in own]
    return np.array(list(dict.fromkeys(along)), np.float64)


def _values_of(study: Study, parameter: int, target: float) -> list[float]:
    """Return where a parameter stops: some of the values measured, multiples of the largest, and the target."""
    measured = np.unique(study.points[:, parameter])
    most = MOST_MEASURED.get(len(study.parameters), MOST_MEASURED_OF_SEVERAL)
    some = measured[np.unique(np.linspace(0, len(measured) - 1, most).round().astype(int))].tolist()
    largest = float(measured[-1])
    times = FINE if len(study.parameters) == 1 else COARSE
    with np.errstate(over="ignore"):
        further = [float(np.float64(largest) * factor) for factor in times] if largest > 0 else []
    return sorted({value for value in (*some, *further, target) if np.isfinite(value)})


def describe_stops(models: Models, ranked: Ints, target: Floats, floors: Floats) -> dict[str, Any]:
    """Return judgements of the first ranked models at stops: `models` are their numbers, points is [K, P], the others
    are [models, K]. The floors of noise are those of the whole study."""
    points = find_stops(models.study, target)
    n = max(LEAST_JUDGED, N_JUDGEMENTS // max(len(points), 1))
    chosen = np.sort(ranked[:n])
    some = models.take(chosen)
    columns = describe_judgements(some, judge_at(some, points), floors)
    return {"points": points, "models": chosen, **columns}


def describe_judgements(models: Models, judged: Sequence[Judgements], floors: Floats) -> dict[str, Any]:
    """Return intervals, trust with its reason, and what stands apart, model by model at each point."""
    apart = np.stack([one != Apart.NO for one in set_apart_at(models, judged, floors=floors)], axis=1)
    reasons = [[one.reason(n) for one in judged] for n in range(len(models))]
    return {
        "low": np.stack([one.low for one in judged], axis=1),
        "high": np.stack([one.high for one in judged], axis=1),
        "trust": Texts([Trust(word).word for word in np.stack([one.trust for one in judged], axis=1).ravel().tolist()]),
        "reason": Texts([text for row in reasons for text in row]),
        "apart": apart,
    }


# -- functions that fit nearly as well, repetitions --------------------------------------------------------------------


def describe_near_equals(models: Models, numbers: Ints) -> dict[str, Any]:
    """Return functions that fit nearly as well as some models (of one parameter): those of numbers[k] are
    bounds[k] .. bounds[k + 1]."""
    has_any = len(models.study.parameters) == 1 and models.options.modeler == "default"
    found: list[tuple[Functions, int, float]] = []
    bounds = [0]
    for number in numbers.tolist() if has_any else ():
        near = near_equals_of(models, number)
        others = [n for n in range(len(near.functions)) if not _is_same(near.functions, n, models.functions, number)]
        found += [(near.functions, n, float(near.smape[n])) for n in others[:MOST_NEAR]]
        bounds.append(len(found))
    functions = _join_functions(models.study.parameters, [(functions, n) for functions, n, _ in found])
    return {
        "models": numbers if has_any else numbers[:0],
        "bounds": np.array(bounds),
        "smape": np.array([smape for _, _, smape in found], np.float64),
        "short": Texts([function_text(functions, n, "short") for n in range(len(functions))]),
        "functions": describe_functions(functions),
    }


def _join_functions(parameters: tuple[str, ...], parts: Sequence[tuple[Functions, int]]) -> Functions:
    """Return single functions of one parameter and at most one term as one set."""
    builder = FunctionBuilder(parameters, len(parts), 1)
    for row, (functions, n) in enumerate(parts):
        terms = list(functions.terms(n))
        factor = [[builder.factor_number(term.factors[0][1])] for term in terms]
        coefficient = np.array([[term.coefficient for term in terms]], np.float64)
        builder.put(np.array([row]), functions.constant[n : n + 1], coefficient, np.array([factor]).reshape(1, -1, 1))
    return builder.build()


def _is_same(functions: Functions, n: int, others: Functions, m: int) -> bool:
    """Return whether two functions are one: the same terms, and coefficients but for rounding."""
    mine, theirs = list(functions.terms(n)), list(others.terms(m))
    if [term.factors for term in mine] != [term.factors for term in theirs]:
        return False
    numbers = [functions.constant[n], *(term.coefficient for term in mine)]
    return np.allclose(numbers, [others.constant[m], *(term.coefficient for term in theirs)], rtol=SAME, atol=0)


def describe_repetitions(models: Models, numbers: Ints) -> dict[str, Any]:
    """Return the values that were measured of some models where there are several: those of numbers[k] at point j are
    bounds[k * points + j] .. bounds[k * points + j + 1]."""
    study = models.study
    values = [
        study.values(series, point) if study.present[series, point] else np.empty(0)
        for series in models.series[numbers].tolist()
        for point in range(study.n_points)
    ]
    several = [one if len(one) > 1 else one[:0] for one in values]
    bounds = np.append(0, np.cumsum([len(one) for one in several]))
    return {"models": numbers, "bounds": bounds, "values": np.concatenate([*several, np.empty(0)])}


# -- functions ---------------------------------------------------------------------------------------------------------


def describe_functions(functions: Functions) -> dict[str, Any]:
    """Return functions as their terms."""
    return {
        "constant": functions.constant,
        "bounds": functions.bounds,
        "coefficient": functions.coefficient,
        "factor": functions.factor,
        "factors": [_describe_factor(factor) for factor in functions.factors],
    }


def _describe_factor(factor: Factor) -> list[Any]:
    if not factor.pieces:
        return [float(factor.exponents.power), float(factor.exponents.logarithm)]
    return [
        {
            "from": piece.start,  # what is not finite becomes null
            "to": piece.end,
            "constant": piece.constant,
            "terms": [[c, float(e.power), float(e.logarithm)] for c, e in piece.terms],
        }
        for piece in factor.pieces
    ]
