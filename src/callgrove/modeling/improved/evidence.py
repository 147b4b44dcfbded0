"""The improved method for one parameter: how much the measurements speak for every function, not only which is best.

Three families compete for each term t, and the constant with all of them:

    constant   c
    pure       c * t                 one coefficient, so a line in the logarithm of the values
    affine     c0 + c1 * t           both above 0; evidence is added up over a grid of their ratio
    signed     c0 + c1 * t           one of them below 0, the sum above 0 wherever it was measured

Residuals are those of logarithms: noise is relative. The mass of a hypothesis is its part of all evidence; the function
of the term with the largest mass is the model, and the others say how far it may be wrong (`intervals.py`).

Specification: modeling.md B1. Arrays are (terms x series), or (terms x points x series).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from callgrove.arrays import Bools, Floats, Ints
from callgrove.modeling.functions import Exponents, list_improved_terms, term_values
from callgrove.modeling.improved.repetitions import Observations

__all__ = ["AFFINE", "CONSTANT", "PURE", "SIGNED", "Evidence", "Winners", "choose_winners", "fit_affine", "weigh"]

CONSTANT, PURE, AFFINE, SIGNED = -1, 0, 1, 2  # families
SHAPES = np.arange(-8.0, 8.0 + 0.125, 0.25)  # logarithms of c1 * t / c0 at the middle of the points
FLOOR = 1e-14  # relative squares below which residuals are rounding
LACK_OF_FIT = 4.0  # scatter around the best function by that of repetitions: beyond, they are blind to some noise
LOG_PURE, LOG_SIGNED, LOG_FALLING = np.log(0.5), np.log(0.05), np.log(0.5)
SERIES_AT_ONCE = 32  # what stays in the cache, with 61 terms and 65 shapes


@dataclass(frozen=True, eq=False)
class Evidence:
    """The mass of every hypothesis for S series at coordinates x, and the fits behind it."""

    x: Floats
    terms: tuple[Exponents, ...]
    observed: Observations
    constant: Floats  # mass of the constant [S]
    mass: Floats  # families x terms x S: pure, affine, signed
    coefficient: Floats  # pure: c [H, S]
    c0: Floats  # affine and signed [H, S]
    c1: Floats
    ss_constant: Floats
    ss_pure: Floats
    ss_affine: Floats
    within: Floats  # SSW, r and k as they are after a lack of fit
    repetitions: Floats
    k: Floats
    lacks_fit: Bools


@dataclass(frozen=True, eq=False)
class Winners:
    """The function of each series: constant + coefficient * terms[term]."""

    family: Ints
    term: Ints  # -1: constant
    c0: Floats
    c1: Floats
    probability: Floats  # of the term, whatever its family


@dataclass(frozen=True, eq=False)
class _Shapes:
    """The terms at some coordinates, and what the grid of shapes needs of them."""

    terms: tuple[Exponents, ...]
    t: Floats  # terms x points
    is_positive: Bools  # [H]
    log_t: Floats  # centred [H, n]; 0 where a term is not positive
    grid: Floats  # centred logarithms of 1 + e^shape * t / t_ref [H * G, n]
    grid_squares: Floats  # [H * G, 1]
    falls: Bools  # [H]: negative exponents


def _prepare(x: Floats) -> _Shapes:
    terms = list_improved_terms(x)
    t = term_values(terms, x)
    usable: Bools = np.asarray(np.isfinite(t).all(axis=1))
    terms, t = tuple(term for term, ok in zip(terms, usable.tolist(), strict=True) if ok), t[usable]
    is_positive: Bools = np.asarray((t > 0).all(axis=1))
    with np.errstate(all="ignore"):
        log_t = np.where(is_positive[:, None], np.log(np.where(t > 0, t, 1.0)), 0.0)
        reference = np.where(is_positive, np.exp(log_t.mean(axis=1)), np.abs(t).max(axis=1))
        shapes = np.log1p(np.exp(SHAPES)[None, :, None] * (t / reference[:, None])[:, None, :])
    centred = (shapes - shapes.mean(axis=2, keepdims=True)).reshape(-1, len(x))
    falls = np.array([term.power < 0 for term in terms], np.bool_)
    return _Shapes(
        terms,
        t,
        is_positive,
        log_t - log_t.mean(axis=1, keepdims=True),
        np.ascontiguousarray(centred),
        (centred**2).sum(axis=1)[:, None],
        falls,
    )


def weigh(x: Floats, observed: Observations) -> Iterator[tuple[slice, Evidence]]:
    """Yield the evidence for series at coordinates x, some of them at a time, with their numbers."""
    shapes = _prepare(x)
    n_series = observed.y.shape[1]
    for start in range(0, n_series, SERIES_AT_ONCE):
        rows = slice(start, min(start + SERIES_AT_ONCE, n_series))
        with np.errstate(all="ignore"):
            yield rows, _weigh_chunk(x, shapes, observed.take(rows))


def _weigh_chunk(x: Floats, shapes: _Shapes, observed: Observations) -> Evidence:
    y, n = observed.y, len(x)
    z = np.log(y)
    zc = z - z.mean(axis=0)
    ss_constant = (zc**2).sum(axis=0)
    ss_pure = ((zc - shapes.log_t[:, :, None]) ** 2).sum(axis=1)
    ss_pure[~shapes.is_positive] = np.inf
    c0, c1, ss_affine = fit_affine(shapes.t[:, :, None], y, z)
    feasible = (c0 > 0) & (c1 > 0) & np.isfinite(ss_affine)
    signed = ~feasible & np.isfinite(ss_affine)
    ss_grid, least = _square_grid(shapes, zc, ss_constant, np.where(feasible, ss_affine, np.inf))
    best = np.minimum(ss_constant, least.min(axis=0))
    best = np.minimum(best, np.minimum(ss_pure.min(axis=0), np.where(signed, ss_affine, np.inf).min(axis=0)))
    within, r, degrees, lacks_fit = _admit_lack_of_fit(observed, best, n)
    k = (degrees + n - 1) / 2
    score = _Score(within, r, k, FLOOR * n * r)
    log_affine = _add_up_shapes(score, ss_grid, least)
    log_constant, log_pure = score.of(ss_constant), score.of(ss_pure) + LOG_PURE
    log_signed = np.where(signed, score.of(ss_affine) - np.log(len(SHAPES)) + LOG_SIGNED, -np.inf)
    logs = np.stack([log_pure, log_affine, log_signed]) + np.where(shapes.falls, LOG_FALLING, 0.0)[:, None]
    constant, mass = _normalise(log_constant, logs, shapes.is_positive, feasible, c1)
    return Evidence(
        x,
        shapes.terms,
        observed,
        constant,
        mass,
        _fit_pure(shapes.t[:, :, None], y),
        c0,
        c1,
        ss_constant,
        ss_pure,
        ss_affine,
        within,
        r,
        k,
        lacks_fit,
    )


def fit_affine(t: Floats, y: Floats, z: Floats) -> tuple[Floats, Floats, Floats]:
    """Return relative least squares with both coefficients, weighted by the values and then twice by the fit, and the
    squared residuals of logarithms; not finite where a fit is not above 0."""
    weight = 1 / y**2
    for _ in range(3):
        total = weight.sum(axis=-2, keepdims=True)
        t_mean = (weight * t).sum(axis=-2, keepdims=True) / total
        y_mean = (weight * y).sum(axis=-2, keepdims=True) / total
        deviation = t - t_mean
        weighted = weight * deviation
        c1 = (weighted * (y - y_mean)).sum(axis=-2, keepdims=True) / (weighted * deviation).sum(axis=-2, keepdims=True)
        c0 = y_mean - c1 * t_mean
        fit = c0 + c1 * t
        weight = 1 / fit**2
    residual = z - np.log(fit)
    residual -= residual.mean(axis=1, keepdims=True)
    squares = (residual**2).sum(axis=1)
    return c0[:, 0], c1[:, 0], np.where((fit > 0).all(axis=1), squares, np.inf)


def _fit_pure(t: Floats, y: Floats) -> Floats:
    relative = t / y
    c: Floats = relative.sum(axis=1) / (relative**2).sum(axis=1)
    for _ in range(2):
        c = c * (y / (c[:, None] * t)).mean(axis=1)
    return c


def _square_grid(shapes: _Shapes, zc: Floats, ss_constant: Floats, ss_exact: Floats) -> tuple[Floats, Floats]:
    """Return the squared residuals of every shape [H, G, S], moved so that the best one is that of the exact fit, and
    this least one of each term. The grid is most of the work: everything is done where it lies."""
    squares: Floats = shapes.grid @ (-2 * zc)
    squares += shapes.grid_squares
    squares += ss_constant
    np.maximum(squares, 0.0, out=squares)
    squares = squares.reshape(len(shapes.terms), len(SHAPES), -1)
    least = squares.min(axis=1)
    moved = least - np.minimum(least, ss_exact)
    squares -= moved[:, None]
    return squares, least - moved


def _add_up_shapes(score: _Score, squares: Floats, least: Floats) -> Floats:
    """Return the logarithm of the mean evidence of the shapes of each term; `squares` is overwritten."""
    largest = score.of(least)
    log_grid = score.write_over(squares)
    log_grid -= largest[:, None]
    np.exp(log_grid, out=log_grid)
    log_affine: Floats = largest + np.log(log_grid.sum(axis=1)) - np.log(len(SHAPES))
    return log_affine


def _admit_lack_of_fit(observed: Observations, best: Floats, n: int) -> tuple[Floats, Floats, Floats, Bools]:
    """Return SSW, r and its degrees of freedom. Where the best function leaves much more scatter than repetitions have,
    these do not explain it, and count as one."""
    r, degrees, within = observed.repetitions, observed.degrees, observed.within
    repeated = degrees > 0
    lacks_fit = repeated & ((r * best / max(n - 2, 1)) / (within / np.maximum(degrees, 1) + FLOOR) > LACK_OF_FIT)
    single = lacks_fit | ~repeated
    return np.where(single, 0.0, within), np.where(single, 1.0, r), np.where(single, 0.0, degrees), lacks_fit


@dataclass(frozen=True, eq=False)
class _Score:
    """The logarithm of the evidence of squared residuals."""

    within: Floats
    repetitions: Floats
    k: Floats
    floor: Floats

    def of(self, squares: Floats) -> Floats:
        return self.write_over(squares.copy())

    def write_over(self, score: Floats) -> Floats:
        """Return the same in the place of the squares."""
        score *= self.repetitions
        score += self.within + self.floor
        np.log(score, out=score)
        score *= -self.k
        return score


def _normalise(
    log_constant: Floats, logs: Floats, is_positive: Bools, feasible: Bools, c1: Floats
) -> tuple[Floats, Floats]:
    """Return masses that add up to 1. Affine shapes whose exact fit has no such coefficients count for what they come
    close to: the constant where the term would be taken off, the term alone where the constant would."""
    largest = np.maximum(log_constant, np.nan_to_num(logs, nan=-np.inf).max(axis=(0, 1)))
    constant = np.exp(log_constant - largest)
    mass = np.nan_to_num(np.exp(logs - largest))
    homeless = np.where(feasible, 0.0, mass[AFFINE])
    flat = ~(c1 > 0)
    constant += np.where(flat, homeless, 0.0).sum(axis=0)
    mass[PURE] += np.where(~flat & is_positive[:, None], homeless, 0.0)
    mass[AFFINE] -= homeless
    total = constant + mass.sum(axis=(0, 1))
    return constant / total, mass / total


def choose_winners(evidence: Evidence) -> Winners:
    """Return the function of each series: that of the term with the largest mass, or the constant where it has more."""
    by_term = evidence.mass.sum(axis=0)
    term = np.argmax(by_term, axis=0)
    series = np.arange(len(term))
    is_constant = evidence.constant > by_term[term, series]
    family = np.argmax(evidence.mass[:, term, series], axis=0)
    is_pure = family == PURE
    c0 = np.where(is_pure, 0.0, evidence.c0[term, series])
    c1 = np.where(is_pure, evidence.coefficient[term, series], evidence.c1[term, series])
    mean = np.exp(np.log(evidence.observed.y).mean(axis=0))
    return Winners(
        np.where(is_constant, CONSTANT, family),
        np.where(is_constant, -1, term),
        np.where(is_constant, mean, c0),
        np.where(is_constant, 0.0, c1),
        np.where(is_constant, evidence.constant, by_term[term, series]),
    )
