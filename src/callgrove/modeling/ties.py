"""Terms with equal errors, told apart as Extra-P does: by the rounding of its own arithmetic.

At coordinates such as 1, 2, 4 some terms are multiples of each other. Which of them has the smaller error is decided by
the last bit, so for these series the errors are computed once more, number by number, in Extra-P's order.
"""

from __future__ import annotations

import numpy as np

from callgrove.model.arrays import Bools, Floats, Ints
from callgrove.modeling.least_squares import by_lstsq
from callgrove.modeling.options import ModelOptions
from callgrove.modeling.terms import Exponents, term_values

__all__ = ["break_ties"]

SAME, NOTHING = 1e-10, 1e-11  # errors (percent) that differ by less are equal but for rounding
CLEAN = 0.0005


def break_ties(
    x: Floats,
    y: Floats,
    terms: tuple[Exponents, ...],
    error: Floats,
    possible: Bools,
    best: Ints,
    options: ModelOptions,
) -> None:
    """Moves `best` to the winner where several terms share the least error; error is (terms x series)."""
    if options.compare_with_rss or not options.cross_validation:
        return
    least = error[best, np.arange(len(best))]
    tied = possible & (error <= least * (1 + SAME) + NOTHING) & (best >= 0)
    for series in np.flatnonzero(tied.sum(axis=0) > 1).tolist():
        rivals = np.flatnonzero(tied[:, series]).tolist()
        errors = [_left_out_smape(x, y[:, series], terms[term]) for term in rivals]
        best[series] = rivals[int(np.argmin(errors))]


def _left_out_smape(x: Floats, y: Floats, term: Exponents) -> float:
    n = len(x)
    t = term_values([term], x)[0]
    total = 0.0
    for k in range(n):
        kept = np.arange(n) != k
        c0, c1 = by_lstsq([t[kept]], y[kept])
        smallest = min(y[kept])
        if abs(c0 / (smallest or 1.0)) < CLEAN:
            c0 = 0.0
        predicted = c0 + _multiplied(c1, float(x[k]), term)
        size = abs(y[k]) + abs(predicted)
        if size != 0:
            total += (abs(predicted - y[k]) / size * 2) / n * 100
    return total


def _multiplied(coefficient: float, x: float, term: Exponents) -> float:
    """coefficient * x^i * log2(x)^j, from left to right."""
    if term.power:
        coefficient *= x ** float(term.power)
    if term.logarithm:
        coefficient *= np.log2(x) ** float(term.logarithm)
    return coefficient
