"""Models of one parameter: the constant, the best term, or two parts where the behaviour changes.

All series with the same coordinates are fitted together, in chunks that stay in the processor's cache: one product with
the prepared matrices gives the coefficients for every term and every point left out.

Specification: modeling.md A3 to A5, A9.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from callgrove.arrays import Bools, Floats, Ints
from callgrove.modeling.functions import Exponents, candidates, term_values
from callgrove.modeling.least_squares import (
    Costs,
    Design,
    by_lstsq,
    constant_costs,
    design,
    in_sample_costs,
    least_norm,
    left_out_costs,
    singular,
    smape_terms,
)
from callgrove.modeling.options import ModelOptions

__all__ = [
    "POINTS_FOR_SEGMENTS",
    "Scores",
    "SegmentedFits",
    "SingleFits",
    "Split",
    "all_scores",
    "break_ties",
    "chunks",
    "constants",
    "contribution",
    "fit_chosen",
    "fit_segmented",
    "fit_series",
    "score_chosen",
    "score_terms",
]


# -- terms with equal errors -------------------------------------------------------------------------------------------
# They are told apart as Extra-P does, by the rounding of its own arithmetic.
#
# At coordinates such as 1, 2, 4 some terms are multiples of each other. Which of them has the smaller error is decided
# by the last bit, so for these series the errors are computed once more, number by number, in Extra-P's order.


SAME, NOTHING = 1e-10, 1e-11  # errors (percent) that differ by less are equal but for rounding


def break_ties(
    x: Floats,
    y: Floats,
    terms: tuple[Exponents, ...],
    error: Floats,
    possible: Bools,
    best: Ints,
    options: ModelOptions,
) -> None:
    """Move `best` to the winner where several terms share the least error; error is (terms x series)."""
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
        predicted = c0 + _multiply(c1, float(x[k]), term)
        size = abs(y[k]) + abs(predicted)
        if size != 0:
            total += (abs(predicted - y[k]) / size * 2) / n * 100
    return total


def _multiply(coefficient: float, x: float, term: Exponents) -> float:
    """Return coefficient * x^i * log2(x)^j, from left to right."""
    if term.power:
        coefficient *= x ** float(term.power)
    if term.logarithm:
        coefficient *= np.log2(x) ** float(term.logarithm)
    return coefficient


# -- the constant, or the best term ------------------------------------------------------------------------------------


CELLS_AT_ONCE = 100_000  # terms x points x series of a chunk: what stays in the cache
ROUNDING = 1e-12
CLEAN, CLEAN_IN_SAMPLE = 0.0005, 0.001  # a constant below this part of the smallest value is taken for 0


@dataclass(frozen=True, eq=False)
class SingleFits:
    """S models of one parameter: c0 + c1 * terms[term], or c0 alone where term is -1."""

    terms: tuple[Exponents, ...]
    term: Ints
    c0: Floats
    c1: Floats
    costs: Costs

    def put(self, rows: slice | Ints, other: SingleFits) -> None:
        """Overwrite some rows; both have the same terms."""
        for name in ("term", "c0", "c1"):
            getattr(self, name)[rows] = getattr(other, name)
        self.costs.put(np.arange(len(self.term))[rows], other.costs)

    @classmethod
    def empty(cls, terms: tuple[Exponents, ...], n: int) -> SingleFits:
        return cls(terms, np.full(n, -1), np.full(n, np.nan), np.zeros(n), Costs.make_unknown(n))


@dataclass(frozen=True, eq=False)
class Scores:
    """Errors of every term for every series, and the fits that gave them: without each point, or in sample."""

    smape: Floats
    rss: Floats
    c0: Floats
    c1: Floats


def fit_series(x: Floats, y: Floats, options: ModelOptions) -> SingleFits:
    """Return the models of series (series x points) at coordinates x; all values are finite."""
    terms = candidates(x, options)
    if len(x) < 2 or not terms:
        return constants(y, terms)
    made = design(x, terms)
    fits = SingleFits.empty(made.terms, len(y))
    for rows in chunks(len(y), len(made.terms) * len(x)):
        fits.put(rows, _fit_chunk(made, np.ascontiguousarray(y[rows].T), options))
    return fits


def constants(y: Floats, terms: tuple[Exponents, ...] = ()) -> SingleFits:
    mean, costs = constant_costs(np.ascontiguousarray(y.T))
    return SingleFits(terms, np.full(len(y), -1), mean, np.zeros(len(y)), costs)


def chunks(n_series: int, cells: int) -> Iterator[slice]:
    size = max(1, CELLS_AT_ONCE // max(cells, 1))
    for start in range(0, n_series, size):
        yield slice(start, start + size)


def _fit_chunk(made: Design, y: Floats, options: ModelOptions) -> SingleFits:
    """Return the best term of each series, with its coefficients and errors; `y` is (points x series)."""
    mean, constant = constant_costs(y)
    scores = score_terms(made, y, options)
    slope = made.full[:, 1] @ y if options.cross_validation else scores.c1
    best = choose(made, slope, scores, y, constant, options)
    c0, c1, costs = fit_chosen(made, np.maximum(best, 0), y, constant, options)
    has_term = best >= 0
    return SingleFits(
        made.terms, best, np.where(has_term, c0, mean), np.where(has_term, c1, 0.0), costs.where(has_term, constant)
    )


def score_terms(made: Design, y: Floats, options: ModelOptions) -> Scores:
    """Return the errors of every term."""
    if not options.cross_validation:
        coefficients = (made.full.reshape(-1, made.n_points) @ y).reshape(len(made.terms), 2, -1)
        return in_sample_scores(coefficients[:, 0], coefficients[:, 1], made.values[:, :, None], y)
    values = made.values[:, :, None]
    if not made.is_direct:
        return left_out_scores(*_fit_without_each(values, y), values, y)
    # one small product per term: a large one would be spread over threads, which costs more than it gains
    coefficients = made.without.reshape(len(made.terms), -1, made.n_points) @ y
    c0, c1 = coefficients[:, : made.n_points], coefficients[:, made.n_points :]
    return left_out_scores(c0, c1, values, y)


def all_scores(made: Design, y: Floats, options: ModelOptions) -> tuple[Floats, Floats, Floats]:
    """Return SMAPE, c0 and c1 of every term, of one series (points x 1)."""
    scores = score_terms(made, y, options)
    if not options.cross_validation:
        return scores.smape[:, 0], scores.c0[:, 0], scores.c1[:, 0]
    coefficients = made.full @ y[:, 0]
    return scores.smape[:, 0], coefficients[:, 0], coefficients[:, 1]


def score_chosen(made: Design, rows: Ints, y: Floats, options: ModelOptions) -> tuple[Scores, Floats]:
    """Return the errors of some terms of each series, rows [choices, series], and their values [choices, points,
    series]."""
    values = np.ascontiguousarray(made.values[rows].transpose(0, 2, 1))
    if not options.cross_validation:
        coefficients = np.einsum("qscj,js->cqs", made.full[rows], y)
        return in_sample_scores(coefficients[0], coefficients[1], values, y), values
    if not made.is_direct:
        return left_out_scores(*_fit_without_each(values, y), values, y), values
    coefficients = np.einsum("qsckj,js->cqks", made.without[rows], y)
    return left_out_scores(coefficients[0], coefficients[1], values, y), values


def fit_chosen(
    made: Design, row: Ints, y: Floats, constant: Costs, options: ModelOptions
) -> tuple[Floats, Floats, Costs]:
    """Return coefficients and errors of one term per series."""
    scores, values = score_chosen(made, row[None], y, options)
    with np.errstate(all="ignore"):
        if not options.cross_validation:
            c0, c1 = scores.c0[0], scores.c1[0]
            return c0, c1, in_sample_costs(c0 + c1 * values[0], y, constant.rss)
        c0, c1 = _full_fit(made, row, y)
        left_out = scores.c0[0] + scores.c1[0] * values[0]
        return c0, c1, left_out_costs(left_out, y, constant.rss, c0 + c1 * values[0])


def _full_fit(made: Design, row: Ints, y: Floats) -> tuple[Floats, Floats]:
    """Return the fit with all points. Where 0 was measured and the constant is 0 but for rounding, errors depend on
    that rounding: there it is Extra-P's."""
    c0, c1 = np.einsum("scp,ps->cs", made.full[row], y)
    unclear = (np.abs(c0) < ROUNDING * np.abs(y).max(axis=0)) & (y == 0).any(axis=0)
    for series in np.flatnonzero(unclear).tolist():
        c0[series], c1[series] = by_lstsq([made.values[row[series]]], y[:, series])
    return c0, c1


def left_out_scores(c0: Floats, c1: Floats, t: Floats, y: Floats) -> Scores:
    """Return scores from fits without each point [terms, points, series], whose c0 is cleaned in place."""
    n = len(y)
    with np.errstate(all="ignore"):
        predicted = np.abs(c0)
        c0 *= predicted >= _clean_limit(smallest_left(y), CLEAN)
        np.multiply(c1, t, out=predicted)
        predicted += c0
        difference = predicted - y
        rss = np.einsum("hks,hks->hs", difference, difference)
        errors = smape_terms(difference, predicted, y)
        errors /= n  # in this order, as Extra-P adds them up: equal errors must stay equal
        errors *= 100
        smape = errors.sum(axis=1) * 2
    return Scores(smape, rss, c0, c1)


def in_sample_scores(c0: Floats, c1: Floats, t: Floats, y: Floats) -> Scores:
    """Return scores from fits with all points [terms, series]."""
    with np.errstate(all="ignore"):
        c0 = c0 * (np.abs(c0) >= _clean_limit(y.min(axis=0), CLEAN_IN_SAMPLE))
        predicted = c1[:, None, :] * t + c0[:, None, :]
        difference = predicted - y
        rss = (difference * difference).sum(axis=1)
        n_compared = ((np.abs(y) + np.abs(predicted)) != 0).sum(axis=1)
        smape = (smape_terms(difference, predicted, y) * 2).sum(axis=1) / n_compared * 100
    return Scores(smape, rss, c0, c1)


def _clean_limit(smallest: Floats, part: float) -> Floats:
    return part * np.where(smallest == 0, 1.0, np.abs(smallest))


def smallest_left(y: Floats) -> Floats:
    """Return for every point the smallest of the other values (points x series)."""
    two = np.partition(y, 1, axis=0)[:2]
    smallest = np.broadcast_to(two[0], y.shape).copy()
    at = np.argmin(y, axis=0)
    smallest[at, np.arange(y.shape[1])] = two[1]
    return smallest


def choose(made: Design, slope: Floats, scores: Scores, y: Floats, constant: Costs, options: ModelOptions) -> Ints:
    """Return the first of the best terms of every series, -1 where none is better than the constant.

    `slope` [terms, series] are the coefficients of the fits with all points. A best term that contributes too little is
    rare, so that all terms are looked at only for such series.
    """
    error, limit = (scores.rss, constant.rss) if options.compare_with_rss else (scores.smape, constant.smape)
    possible = np.isfinite(scores.rss) & (error < limit) & (constant.rss != 0) & (slope != 0)
    t = made.values
    best = _first_best(error, possible)
    series = np.arange(len(best))
    part = contribution(t[best].T, slope[best, series], y)
    small = np.flatnonzero((best >= 0) & (part < options.contribution))
    if len(small):
        parts = contribution(t[:, :, None], slope[:, None, small], y[:, small])
        possible[:, small] &= ~(parts < options.contribution)
        best[small] = _first_best(error[:, small], possible[:, small])
    break_ties(made.x, y, made.terms, error, possible, best, options)
    return best


def _first_best(error: Floats, possible: Bools) -> Ints:
    best = np.argmin(np.where(possible, error, np.inf), axis=0)
    return np.where(possible.any(axis=0), best, -1)


def contribution(t: Floats, slope: Floats, y: Floats) -> Floats:
    """Return the largest part that a term has in a measurement; a measurement of 0 makes it infinite or undefined."""
    with np.errstate(all="ignore"):
        largest: Floats = np.abs(slope * t / y).max(axis=-2)
        return largest


def _fit_without_each(t: Floats, y: Floats) -> tuple[Floats, Floats]:
    """Return fits without each point, from the fit with all: for many points, where matrices would be too large."""
    n = len(y)
    with np.errstate(all="ignore"):
        total, squares = t.sum(axis=1, keepdims=True), (t * t).sum(axis=1, keepdims=True)
        mean = total / n
        deviation = t - mean
        spread = (deviation**2).sum(axis=1, keepdims=True)
        slope = (deviation * y).sum(axis=1, keepdims=True) / spread
        intercept = y.mean(axis=0) - slope * mean
        influence = deviation / spread
        residual = (y - intercept - slope * t) / (1 - 1 / n - deviation * influence)
        c1 = slope - influence * residual
        c0 = intercept - (1 / n - mean * influence) * residual
        _, is_full = singular(n - 1, squares - t * t, spread - deviation**2 * (n / (n - 1)))
        if not is_full.all():
            y_total, ty_total = y.sum(axis=0) - y, (t * y).sum(axis=1, keepdims=True) - t * y
            norm0, norm1 = least_norm(n - 1, total - t, squares - t * t, y_total, ty_total)
            c0, c1 = np.where(is_full, c0, norm0), np.where(is_full, c1, norm1)
    return c0, c1


# -- segmented models --------------------------------------------------------------------------------------------------
# The behaviour may change once along the parameter (Extra-P's segmented modeller).
#
# A window of five points slides along the coordinates. Where the model of a window fits much worse than the others, or
# than the one before, the series is split there and each part gets a model of its own.
#
# Specification: modeling.md A8.


WINDOW = 5
POINTS_FOR_SEGMENTS = 2 * WINDOW - 1
POOR_FIT, FLAGGED_FIT, JUMP = 0.5, 0.1, 4.0
TINY = 1e-16
SHARED_POINT = 3  # as many flagged windows mean that both parts meet in one point


@dataclass(frozen=True, eq=False)
class Split:
    """Series that are split alike: the left part ends at `end`, the right one begins at `start`."""

    rows: Ints
    end: float
    start: float
    left: SingleFits
    right: SingleFits


@dataclass(frozen=True, eq=False)
class SegmentedFits:
    """Models of series; those in `splits` have two parts instead of the one in `whole`, which has their errors."""

    whole: SingleFits
    splits: tuple[Split, ...]


def fit_segmented(x: Floats, y: Floats, options: ModelOptions) -> SegmentedFits:
    """Return the models of series (series x points) at coordinates x; all values are finite."""
    order = np.argsort(x, kind="stable")
    x, y = x[order], np.ascontiguousarray(y[:, order])
    whole = fit_series(x, y, options)
    if len(x) < WINDOW:
        return SegmentedFits(whole, ())
    n_windows = len(x) - WINDOW + 1
    windows = [fit_series(x[w : w + WINDOW], y[:, w : w + WINDOW], options) for w in range(n_windows)]
    nrss = np.abs(np.stack([fits.costs.nrss for fits in windows]))
    split, ends, starts = _splits(nrss)
    splits = []
    for end, start in sorted(set(zip(ends[split].tolist(), starts[split].tolist(), strict=True))):
        rows = np.flatnonzero(split & (ends == end) & (starts == start))
        splits.append(_split(x, y, rows, end, start, whole, options))
    return SegmentedFits(whole, tuple(splits))


def _splits(nrss: Floats) -> tuple[Bools, Ints, Ints]:
    """Return which series are split, and the last point of the left and the first of the right part.

    `nrss` is (windows x series). Undefined errors compare as false.
    """
    jump = np.full_like(nrss, -np.inf)
    with np.errstate(all="ignore"):
        jump[1:] = nrss[1:] / (nrss[:-1] + TINY)
        is_split = (nrss.max(axis=0) > POOR_FIT) | (np.where(np.isnan(jump), -np.inf, jump).max(axis=0) > JUMP)
    flagged = (nrss >= FLAGGED_FIT) | (jump > JUMP)
    count = flagged.sum(axis=0)
    middle = np.argmax(np.cumsum(flagged, axis=0) > count // 2, axis=0)  # the flagged window number count // 2
    shared = count == SHARED_POINT
    window = np.where(shared, middle, (middle - 1) % len(nrss))  # before the first comes the last, as in Extra-P
    third = window + WINDOW // 2
    return is_split, third, np.where(shared, third, third + 1)


def _split(x: Floats, y: Floats, rows: Ints, end: int, start: int, whole: SingleFits, options: ModelOptions) -> Split:
    left = fit_series(x[: end + 1], y[rows, : end + 1], options)
    right = fit_series(x[start:], y[rows, start:], options)
    predicted = np.concatenate([predictions(left, x[: end + 1]), predictions(right, x[end + 1 :])], axis=1)
    values = np.ascontiguousarray(y[rows].T)
    costs: Costs = in_sample_costs(np.ascontiguousarray(predicted.T), values, constant_costs(values)[1].rss)
    whole.costs.put(rows, costs)
    return Split(rows, float(x[end]), float(x[start]), left, right)


def predictions(fits: SingleFits, x: Floats) -> Floats:
    """Return the predictions (series x coordinates)."""
    predicted = np.repeat(fits.c0[:, None], len(x), axis=1)
    if len(fits.terms):
        values = term_values(fits.terms, x)[np.maximum(fits.term, 0)]
        with np.errstate(all="ignore"):
            predicted = np.where((fits.term >= 0)[:, None], predicted + fits.c1[:, None] * values, predicted)
    return predicted
