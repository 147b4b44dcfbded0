"""What functions that fit nearly as well as the chosen one say at a point: the spread of their predictions.

One parameter: all terms whose error at points left out is at most 1.5 times that of the best. Several: the best terms
of each parameter along its lines, in every sum of products, judged by the error at all points.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np

from callgrove.arrays import Floats, Ints
from callgrove.modeling.functions import Exponents, candidates, term_values
from callgrove.modeling.least_squares import centre, constant_costs, design, smape_terms, solve
from callgrove.modeling.multi import Product, Structure, structures
from callgrove.modeling.options import ModelOptions
from callgrove.modeling.scaling import Line, lines_of
from callgrove.modeling.single import chunks, score_terms

__all__ = ["NEARLY", "spread_at"]

NEARLY = 1.5  # times the error of the best
N_ALTERNATIVES = 3  # best terms of each parameter
EXACT = 1e-6  # percent: errors below are rounding, and equal


def spread_at(points: Floats, y: Floats, at: Floats, options: ModelOptions) -> tuple[Floats, Floats]:
    """Return the least and the largest prediction (series x targets) of functions that fit series (series x points)
    nearly as well as the best one, at targets (targets x parameters)."""
    low, high = np.full((len(y), len(at)), np.nan), np.full((len(y), len(at)), np.nan)
    spread = _spread_along_line if points.shape[1] == 1 else _spread_over_points
    with np.errstate(all="ignore"):
        for rows in chunks(len(y), len(points) * 64 + len(at)):
            predicted, error = spread(points, np.ascontiguousarray(y[rows].T), at, options)
            low[rows], high[rows] = _range(predicted, error)
    return low, high


def _range(predicted: Floats, error: Floats) -> tuple[Floats, Floats]:
    """Return the range of predictions (functions x series x targets) whose error (functions x series) is near the
    least of those that have one there."""
    usable = np.isfinite(predicted) & np.isfinite(error)[:, :, None]
    least = np.where(usable, error[:, :, None], np.inf).min(axis=0)
    near = usable & (error[:, :, None] <= np.maximum(NEARLY * least, EXACT))
    known = near.any(axis=0)
    low = np.where(near, predicted, np.inf).min(axis=0)
    high = np.where(near, predicted, -np.inf).max(axis=0)
    return np.where(known, low, np.nan), np.where(known, high, np.nan)


def _spread_along_line(points: Floats, y: Floats, at: Floats, options: ModelOptions) -> tuple[Floats, Floats]:
    """Return predictions and errors of the constant and of all terms."""
    x = points[:, 0]
    mean, constant = constant_costs(y)
    always = np.repeat(mean[None, :, None], len(at), axis=2)
    terms = candidates(x, options)
    if len(x) < 2 or not terms:
        return always, constant.smape[None]
    made = design(x, terms)
    scores = score_terms(made, y, options)
    coefficients = made.full @ y
    there = term_values(made.terms, at[:, 0])[:, None]
    predicted = coefficients[:, 0, :, None] + coefficients[:, 1, :, None] * there
    error = np.where(constant.rss == 0, np.inf, scores.smape)
    return np.concatenate([always, predicted]), np.concatenate([constant.smape[None], error])


# -- several parameters ------------------------------------------------------------------------------------------------


def _spread_over_points(points: Floats, y: Floats, at: Floats, options: ModelOptions) -> tuple[Floats, Floats]:
    """Return predictions and errors of the constant and of sums of products of the best terms."""
    mean, constant = constant_costs(y)
    predicted, errors = [np.repeat(mean[:, None], len(at), axis=1)], [constant.smape]
    lines = lines_of(points, options.selection)
    best = [_best_terms(line, y, options) for line in lines]
    usable = [p for p, choice in enumerate(best) if choice is not None]
    centred = centre(y)
    values = [_values_of_terms(choice, points[:, p], at[:, p]) for p, choice in enumerate(best)]
    for chosen, structure in _combinations(usable, options.mixed):
        columns, target = [], []
        for product in structure:
            here, there = np.ones_like(y), np.ones((y.shape[1], len(at)))
            for p, rank in (chosen[position] for position in product):
                fits, predictions = values[p]
                row = min(rank, len(fits) - 1)
                here, there = here * fits[row], there * predictions[row]
            columns.append(here)
            target.append(there)
        coefficients = solve([centre(column) for column in columns], centred)
        fit = coefficients[0] + sum(c * column for c, column in zip(coefficients[1:], columns, strict=True))
        terms = zip(coefficients[1:], target, strict=True)
        predicted.append(coefficients[0][:, None] + sum(c[:, None] * value for c, value in terms))
        errors.append(smape_terms(fit - y, fit.copy(), y).sum(axis=0) * 2 / len(y) * 100)
    return np.stack(predicted), np.stack(errors)


def _values_of_terms(
    choice: tuple[tuple[Exponents, ...], Ints] | None, x: Floats, at: Floats
) -> tuple[list[Floats], list[Floats]]:
    """Return the best terms of each series by rank: their values at points (points x series) and at targets (series x
    targets)."""
    terms, order = choice or ((), np.empty((0, 0), np.int64))
    here, there = term_values(terms, x), term_values(terms, at)
    return [here[row].T for row in order], [there[row] for row in order]


def _best_terms(line: Line, y: Floats, options: ModelOptions) -> tuple[tuple[Exponents, ...], Ints] | None:
    """Return the terms along a line, and for each series the numbers of the best of them; None where nothing varies."""
    terms = candidates(line.x, options)
    if len(line.x) < 2 or not terms:
        return None
    made = design(line.x, terms)
    values = np.ascontiguousarray(line.values(np.ascontiguousarray(y.T)).T)
    smape = score_terms(made, values, options).smape
    order: Ints = np.argsort(np.where(np.isnan(smape), np.inf, smape), axis=0, kind="stable")[:N_ALTERNATIVES]
    return made.terms, order


Choice = tuple[int, int]  # parameter, rank of its term


def _combinations(parameters: Sequence[int], mixed: bool) -> Iterator[tuple[tuple[Choice, ...], Structure]]:
    """Yield terms, by parameter and rank, with sums of their products: every subset of up to three parameters with the
    best terms, and all parameters also with one of the terms replaced by its next best."""
    sizes = range(1, len(parameters)) if len(parameters) <= 3 else (1,)
    for size in sizes:
        for subset in combinations(parameters, size):
            best = tuple((p, 0) for p in subset)
            for structure in _structures(size, mixed):
                yield best, structure
    every = tuple((p, 0) for p in parameters)
    variants = [every]
    for position, p in enumerate(parameters):
        variants += [(*every[:position], (p, rank), *every[position + 1 :]) for rank in range(1, N_ALTERNATIVES)]
    for chosen in variants if every else ():
        for structure in _structures(len(every), mixed):
            yield chosen, structure


def _structures(n_terms: int, mixed: bool) -> tuple[Structure, ...]:
    single: Product = (0,)
    return ((single,),) if n_terms == 1 else structures(n_terms, mixed)
