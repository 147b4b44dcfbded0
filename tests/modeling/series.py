"""Studies made of numbers, for tests of models."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np

from callgrove.model.study.builder import StudyBuilder
from callgrove.model.study.series import Statistics, Study
from callgrove.modeling.fitting import Models, model_study
from callgrove.modeling.options import ModelOptions

X = (4, 8, 16, 32, 64)


def study_of(values: Sequence[object], x: Sequence[object] = X, parameters: Sequence[str] = ("p",)) -> Study:
    """One series `f`, `t`; a value is a number or a list of repetitions, a point a number or a tuple."""
    return study_of_many([values], x, parameters)


def study_of_many(
    series: Sequence[Sequence[object]], x: Sequence[object] = X, parameters: Sequence[str] = ("p",)
) -> Study:
    """Series `f`, `f1`, `f2`, ... of the metric `t`; None is a point that was not measured."""
    builder = StudyBuilder(parameters)
    for at in x:
        builder.point(at if isinstance(at, tuple) else (at,))
    for number, values in enumerate(series):
        builder.series(f"f{number or ''}", "t")
        for point, value in enumerate(values):
            if value is not None:
                repetitions = list(value) if isinstance(value, list | tuple) else [value]
                builder.add_values(f"f{number or ''}", "t", point, repetitions)
    return builder.build()


def grid(*axes: Sequence[float]) -> list[tuple[float, ...]]:
    return list(product(*axes))


def model_of(
    values: Sequence[object] | Callable[..., float],
    x: Sequence[object] = X,
    parameters: Sequence[str] = ("p",),
    **options: Any,
) -> Models:
    """The model of one series, given as values or as a function of the coordinates."""
    if callable(values):
        function = values
        values = [function(*at) if isinstance(at, tuple) else function(at) for at in x]
    return model_study(study_of(values, x, parameters), ModelOptions(**options))


def study_of_oracle(oracle: dict[str, Any]) -> Study:
    """What Extra-P read, from its statistics."""
    builder = StudyBuilder(oracle["parameters"])
    for series in oracle["series"]:
        for at in series["points"]:
            known = Statistics(at["mean"], at["median"], at["min"], at["max"], at["std"], at["reps"] or -1)
            builder.add_statistics(series["callpath"], series["metric"], builder.point(at["x"]), known)
    return builder.build()


def terms_of(models: Models, number: int = 0) -> dict[str, float]:
    """`p^3/2*log2(p)^1` -> coefficient, the constant under the empty text."""
    functions = models.functions
    found = {"": float(functions.constant[number])}
    for term in functions.terms(number):
        factors = []
        for parameter, factor in term.factors:
            name, (power, log) = functions.parameters[parameter], factor.exponents
            factors += [f"{name}^{power}"] * bool(power) + [f"log2({name})^{log}"] * bool(log)
        found["*".join(factors)] = term.coefficient
    return found


def close(found: float, wanted: float, tolerance: float = 1e-9) -> bool:
    """Equal to `tolerance`; what is 0 but for rounding is below 1e-9."""
    return abs(found) < 1e-9 if abs(wanted) < 1e-12 else bool(np.isclose(found, wanted, rtol=tolerance, atol=0))
