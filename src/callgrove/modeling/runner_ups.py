"""Models that fit nearly as well as the chosen one. Where they part ways, a prediction is a guess."""

from __future__ import annotations

import numpy as np

from callgrove.errors import Parameter, UsageError
from callgrove.model.arrays import Floats
from callgrove.model.table import Column, Table
from callgrove.modeling.designs import design
from callgrove.modeling.fitting import Models
from callgrove.modeling.functions import Factor, FunctionBuilder
from callgrove.modeling.notation import function_text, order_text
from callgrove.modeling.single import all_scores, constants
from callgrove.modeling.terms import candidates

__all__ = ["NEARLY", "runner_ups"]

NEARLY = 1.5  # times the error of the best


def runner_ups(models: Models, number: int, at: Floats | None = None) -> Table:
    """All functions of one parameter whose SMAPE is at most 1.5 times that of the best, the best first, and what they
    say at a point (without one, at the largest measured)."""
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
    found: list[tuple[float, str, str, float]] = []
    if len(y):
        plain = constants(y[None])
        builder.put(np.arange(1), plain.c0, np.empty((1, 0)), np.empty((1, 0, 1)))
        found.append(_row(builder, target, float(plain.costs.smape[0])))
    if len(y) > 1 and terms and plain.costs.rss[0] != 0:
        made = design(x, terms)
        smape, c0, c1 = all_scores(made, y[:, None], models.options)
        for k in np.argsort(smape, kind="stable").tolist():
            factor = np.array([[[builder.factor_number(Factor(made.terms[k]))]]])
            builder.put(np.arange(1), c0[k : k + 1], c1[k : k + 1, None], factor)
            found.append(_row(builder, target, float(smape[k])))
    best = min((row[0] for row in found if np.isfinite(row[0])), default=np.nan)
    near = sorted((row for row in found if row[0] <= NEARLY * best), key=lambda row: row[0])
    names = ("smape", "function", "order", "prediction")
    return Table(tuple(Column(name, [row[k] for row in near]) for k, name in enumerate(names)))


def _row(builder: FunctionBuilder, target: Floats, smape: float) -> tuple[float, str, str, float]:
    functions = builder.build()
    return smape, function_text(functions, 0), order_text(functions, 0), float(functions.evaluate(target)[0, 0])
