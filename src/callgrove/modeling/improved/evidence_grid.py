"""The improved method for two parameters: the best terms along the lines of points, and every sum of their products.

For fixed q every function considered is a + b * t(p) with the same t, so lines along p tell the terms of p apart. The
best few of both parameters are paired, and each of the 15 sums that can be made of {1, t1, t2, t1 * t2} is fitted with
all coefficients above 0. Evidence that a sum is the right one falls with the number of its coefficients.

Specification: modeling.md B2, and B4 for intervals. Arrays end with (pairs of terms x series).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from callgrove.arrays import Bools, Floats, Ints
from callgrove.modeling.functions import Exponents, term_values, usual_terms
from callgrove.modeling.improved.evidence import fit_affine
from callgrove.modeling.improved.intervals import (
    BOUNDS,
    FEWEST_POINTS,
    LARGEST_SD,
    WIDENING,
    Hypotheses,
    mixture_quantiles,
)
from callgrove.modeling.improved.repetitions import Observations

__all__ = [
    "COLUMNS",
    "GridEvidence",
    "GridWinners",
    "choose_grid_winners",
    "grid_hypotheses",
    "grid_quantiles",
    "has_lines",
    "weigh_grid",
]

COLUMNS = ((), (0,), (1,), (0, 1))  # parameters that are multiplied in each column of a fit
SUBSETS = tuple(subset for size in (1, 2, 3, 4) for subset in combinations(range(4), size))
FEWEST_ON_LINE = 3
N_FOR_MODEL, N_FOR_INTERVALS = 5, 8  # best terms of each parameter
MOST_CANDIDATES = 250
FLOOR, RIDGE = 1e-14, 1e-15
SERIES_AT_ONCE = 32


@dataclass(frozen=True, eq=False)
class _Candidates:
    """Fits of one subset of columns for some pairs of terms [pairs, S]; coefficients are of scaled columns."""

    subset: tuple[int, ...]
    pairs: Ints
    coefficients: Floats  # [columns of the subset, pairs, S]
    squares: Floats
    score: Floats  # -inf where a coefficient is not above 0


@dataclass(frozen=True, eq=False)
class GridEvidence:
    """What speaks for each sum of products, for S series at points (points x 2)."""

    points: Floats
    observed: Observations
    terms: tuple[tuple[Exponents, ...], tuple[Exponents, ...]]
    best: Ints  # [2, K, S]: the best terms of each parameter
    gram: Floats  # [4, 4, K * K, S]
    norm: Floats  # [4, K * K, S]
    candidates: tuple[_Candidates, ...]


@dataclass(frozen=True, eq=False)
class GridWinners:
    """The function of each series: the sum of coefficient * column; a coefficient of 0 where a column is not used."""

    coefficients: Floats  # [4, S]
    term: Ints  # [2, S]: numbers of terms of each parameter
    is_known: Bools  # some sum has only coefficients above 0
    probability: Floats


def has_lines(points: Floats) -> bool:
    """Return whether along both parameters some line has three points or more."""
    return points.shape[1] == 2 and all(_lines(points, p) for p in (0, 1))


def _lines(points: Floats, p: int) -> list[Ints]:
    """Return the points of each line along a parameter, the other one fixed; none where there are no points."""
    others, line = np.unique(points[:, 1 - p], return_inverse=True)
    groups = [np.flatnonzero(line.reshape(-1) == number) for number in range(len(others))]
    return [group for group in groups if len(group) >= FEWEST_ON_LINE]


def weigh_grid(points: Floats, observed: Observations) -> Iterator[tuple[slice, GridEvidence]]:
    """Yield the evidence for series at points of two parameters, some of them at a time, with their numbers."""
    terms = tuple(usual_terms(points[:, p]) for p in (0, 1))
    n_series = observed.y.shape[1]
    for start in range(0, n_series, SERIES_AT_ONCE):
        rows = slice(start, min(start + SERIES_AT_ONCE, n_series))
        with np.errstate(all="ignore"):
            yield rows, _weigh_chunk(points, (terms[0], terms[1]), observed.take(rows))


def _weigh_chunk(
    points: Floats, terms: tuple[tuple[Exponents, ...], tuple[Exponents, ...]], observed: Observations
) -> GridEvidence:
    best = np.stack([_rank_terms(points, p, terms[p], observed.y) for p in (0, 1)])
    values = [np.moveaxis(term_values(terms[p], points[:, p])[best[p]], 2, 1) for p in (0, 1)]  # [K, n, S]
    n_terms, n, n_series = values[0].shape
    shape = (n_terms, n_terms, n, n_series)
    first = np.broadcast_to(values[0][:, None], shape)
    second = np.broadcast_to(values[1][None], shape)
    columns = np.stack([np.ones(shape), first, second, first * second]) / observed.y
    columns = columns.reshape(4, n_terms**2, n, n_series)
    norm = np.sqrt((columns**2).sum(axis=2))
    columns = columns / norm[:, :, None]
    gram = np.einsum("apns,bpns->abps", columns, columns)
    right = columns.sum(axis=2)
    pairs = np.arange(n_terms**2)
    fits = tuple(_fit_subset(subset, pairs, columns, gram, right, observed) for subset in SUBSETS)
    return GridEvidence(points, observed, terms, best, gram, norm, fits)


def _rank_terms(points: Floats, p: int, terms: tuple[Exponents, ...], y: Floats) -> Ints:
    """Return the terms that fit best along the lines of a parameter [K, S]."""
    total: Floats = np.zeros((len(terms), y.shape[1]))
    for line in _lines(points, p):
        values, here = term_values(terms, points[line, p]), y[line]
        z = np.log(here)
        zc = z - z.mean(axis=0)
        log_t = np.log(values)
        pure = ((zc - (log_t - log_t.mean(axis=1, keepdims=True))[:, :, None]) ** 2).sum(axis=1)
        pure[~(values > 0).all(axis=1)] = np.inf
        c0, c1, affine = fit_affine(values[:, :, None], here, z)
        total += np.minimum(pure, np.where((c0 > 0) & (c1 > 0), affine, np.inf))
    total = np.where(np.isnan(total), np.inf, total)
    order: Ints = np.argsort(total, axis=0, kind="stable")
    return order[:N_FOR_INTERVALS]


def _choose_pairs(subset: tuple[int, ...], pairs: Ints) -> Ints:
    """Return the pairs of terms to try; a parameter that takes no part counts once, with its first term."""
    n_terms = round(len(pairs) ** 0.5)
    used = {parameter for column in subset for parameter in COLUMNS[column]}
    first, second = np.divmod(pairs, n_terms)
    chosen: Ints = pairs[(np.array(0 in used) | (first == 0)) & (np.array(1 in used) | (second == 0))]
    return chosen


def _fit_subset(
    subset: tuple[int, ...], pairs: Ints, columns: Floats, gram: Floats, right: Floats, observed: Observations
) -> _Candidates:
    chosen = _choose_pairs(subset, pairs)
    rows = np.array(subset)
    matrix = gram[rows[:, None], rows][:, :, chosen]
    coefficients = solve_small(matrix, right[rows][:, chosen])
    fit = np.einsum("cps,cpns->pns", coefficients, columns[rows][:, chosen])
    residual = np.log(fit)
    residual -= residual.mean(axis=1, keepdims=True)
    squares = (residual**2).sum(axis=1)
    n_values = len(observed.y) * observed.repetitions
    within = observed.within + FLOOR * n_values
    score = -(n_values - 1) / 2 * np.log(within + observed.repetitions * squares) - len(subset) / 2 * np.log(n_values)
    feasible = (coefficients > 0).all(axis=0) & np.isfinite(score)
    return _Candidates(subset, chosen, coefficients, squares, np.where(feasible, score, -np.inf))


def solve_small(matrix: Floats, right: Floats) -> Floats:
    """Return the solutions of many small symmetric systems: matrix [c, c, ...], right [c, ...]."""
    size = len(matrix)
    a, x = matrix.copy(), right.copy()
    for i in range(size):
        a[i, i] += RIDGE
    for i in range(size):
        for j in range(i + 1, size):
            factor = a[j, i] / a[i, i]
            a[j, i:] -= factor * a[i, i:]
            x[j] -= factor * x[i]
    for i in reversed(range(size)):
        for j in range(i + 1, size):
            x[i] -= a[i, j] * x[j]
        x[i] /= a[i, i]
    return x


# -- the best sum ------------------------------------------------------------------------------------------------------


def choose_grid_winners(evidence: GridEvidence) -> GridWinners:
    """Return the sum of products with the best score, fitted again with weights of its own."""
    n_terms, n_series = evidence.best.shape[1:]
    scores, subset_of, pair_of, values = [], [], [], []
    for number, fits in enumerate(evidence.candidates):
        first, second = np.divmod(fits.pairs, n_terms)
        near = np.flatnonzero((first < N_FOR_MODEL) & (second < N_FOR_MODEL))
        scores.append(fits.score[near])
        subset_of += [number] * len(near)
        pair_of += fits.pairs[near].tolist()
        padded = np.zeros((4, len(near), n_series))
        padded[list(fits.subset)] = fits.coefficients[:, near]
        values.append(padded)
    score = np.concatenate(scores)
    best, series = np.argmax(score, axis=0), np.arange(n_series)
    pair = np.array(pair_of)[best]
    with np.errstate(all="ignore"):
        weight = np.exp(score - score[best, series])
        probability = 1 / np.where(np.isfinite(weight), weight, 0.0).sum(axis=0)
        coefficients = np.concatenate(values, axis=1)[:, best, series] / evidence.norm[:, pair, series]
    first, second = np.divmod(pair, n_terms)
    term = np.stack([evidence.best[0, first, series], evidence.best[1, second, series]])
    known = np.isfinite(score[best, series])
    _refit(evidence, np.array(subset_of)[best], term, known, coefficients)
    return GridWinners(coefficients, term, known, probability)


def _refit(evidence: GridEvidence, subset: Ints, term: Ints, known: Bools, coefficients: Floats) -> None:
    """Fit the winners by QR, weighted by the values and then twice by the fit; what has no such fit stays as it is."""
    y = evidence.observed.y
    for number, columns in enumerate(SUBSETS):
        rows = np.flatnonzero(known & (subset == number))
        if not len(rows):
            continue
        table = _column_values(evidence.terms, term[:, rows], evidence.points)[list(columns)]  # [c, S, n]
        design, values = np.moveaxis(table, 0, 2), y[:, rows].T
        scale = values
        for _ in range(3):
            solution = _solve_by_qr(design / scale[:, :, None], values / scale)
            scale = (design @ solution[:, :, None])[:, :, 0]
        fits = np.isfinite(solution).all(axis=1) & (solution > 0).all(axis=1)
        place = np.ix_(np.array(columns), rows[fits])
        coefficients[place] = solution[fits].T


def _solve_by_qr(design: Floats, right: Floats) -> Floats:
    with np.errstate(all="ignore"):
        norm = np.sqrt((design**2).sum(axis=1, keepdims=True))
        scaled = np.nan_to_num(design / norm, posinf=0.0, neginf=0.0)
        q, r = np.linalg.qr(scaled)
        singular = (np.abs(np.diagonal(r, axis1=1, axis2=2)) < RIDGE).any(axis=1)
        r[singular] = np.eye(r.shape[1])
        projected = np.swapaxes(q, 1, 2) @ np.nan_to_num(right)[:, :, None]
        solution: Floats = np.linalg.solve(r, projected)[:, :, 0] / norm[:, 0]
    solution[singular] = np.nan
    return solution


def _column_values(terms: tuple[tuple[Exponents, ...], tuple[Exponents, ...]], term: Ints, points: Floats) -> Floats:
    """Return the four columns [4, S, n] of series with these terms [2, S] at points."""
    first, second = (term_values(terms[p], points[:, p])[term[p]] for p in (0, 1))
    return np.stack([np.ones_like(first), first, second, first * second])


# -- intervals ---------------------------------------------------------------------------------------------------------


def grid_quantiles(evidence: GridEvidence, points: Floats, levels: Sequence[float] = BOUNDS) -> Floats:
    """Return quantiles of the surfaces (levels x series x points); NaN where no sum is feasible."""
    out = np.full((len(levels), evidence.best.shape[2], len(points)), np.nan)
    enough = (evidence.observed.degrees > 0) | (len(evidence.points) >= FEWEST_POINTS)
    with np.errstate(all="ignore"):
        for number, at in enumerate(points):
            hypotheses = grid_hypotheses(evidence, at)
            known = enough & (hypotheses.mass.sum(axis=0) > 0)
            out[:, known, number] = np.exp(mixture_quantiles(hypotheses, levels)[:, known])
    return out


def grid_hypotheses(evidence: GridEvidence, at: Floats) -> Hypotheses:
    """Return what the surfaces may be at a point: the best candidates."""
    score = np.concatenate([fits.score for fits in evidence.candidates])
    rows = np.argsort(-score, axis=0, kind="stable")[:MOST_CANDIDATES]
    chosen = np.take_along_axis(score, rows, axis=0)
    with np.errstate(all="ignore"):
        mass = np.where(np.isfinite(chosen), np.exp(chosen - chosen[0]), 0.0)
        centre, sd = (np.take_along_axis(a, rows, axis=0) for a in _at(evidence, at))
        usable = np.isfinite(centre) & np.isfinite(sd) & (mass > 0)
        return Hypotheses(
            np.where(usable, centre, 0.0),
            np.minimum(np.where(usable, sd, 0.0) * WIDENING, LARGEST_SD),
            np.where(usable, mass, 0.0),
            len(evidence.points) * evidence.observed.repetitions - 1,
        )


def _at(evidence: GridEvidence, at: Floats) -> tuple[Floats, Floats]:
    """Return the logarithm of every candidate at a point, and its standard error [candidates, S]."""
    observed, n_terms = evidence.observed, evidence.best.shape[1]
    first, second = (term_values(evidence.terms[p], at[p : p + 1])[:, 0][evidence.best[p]] for p in (0, 1))
    shape = (n_terms, n_terms, first.shape[1])
    first, second = np.broadcast_to(first[:, None], shape), np.broadcast_to(second[None], shape)
    target = np.stack([np.ones(shape), first, second, first * second]).reshape(4, n_terms**2, -1) / evidence.norm
    degrees = len(evidence.points) * observed.repetitions - 1
    centres, errors = [], []
    for fits in evidence.candidates:
        rows = np.array(fits.subset)
        g = target[rows][:, fits.pairs]
        value = (fits.coefficients * g).sum(axis=0)
        spread = (g * solve_small(evidence.gram[rows[:, None], rows][:, :, fits.pairs], g)).sum(axis=0)
        variance = (observed.within + observed.repetitions * fits.squares) / degrees / observed.repetitions
        centres.append(np.log(value))
        errors.append(np.sqrt(spread * variance) / value)
    return np.concatenate(centres), np.concatenate(errors)
