"""Prediction intervals: where the curve lies, given how much speaks for each function and how well each is known.

Every hypothesis is a distribution of the logarithm of the curve at a point: its own prediction, with a standard error
from the residuals. Intervals are quantiles of all of them, weighted by their masses.

Specification: modeling.md B4.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from callgrove.arrays import Bools, Floats
from callgrove.modeling.functions import term_values
from callgrove.modeling.improved.evidence import AFFINE, PURE, SIGNED, Evidence

__all__ = [
    "BOUNDS",
    "FEWEST_POINTS",
    "LARGEST_SD",
    "UNPREDICTABLE",
    "WIDENING",
    "Hypotheses",
    "curve_hypotheses",
    "curve_quantiles",
    "mixture_quantiles",
]

BOUNDS = (0.05, 0.95)  # quantiles: an interval of 90%
UNPREDICTABLE = 4.0  # upper by lower bound, beyond which nothing is predicted
WIDENING, LARGEST_SD = 1.25, 3.0  # of standard errors: found by looking at coverage, and a cap
N_NODES = 21  # of each hypothesis
FEWEST_DEGREES = 3.0
NEGLIGIBLE = 1e-6  # part of the mass
NODES = np.array([NormalDist().inv_cdf((j + 0.5) / N_NODES) for j in range(N_NODES)])
FEWEST_POINTS = 5  # without repetitions


@dataclass(frozen=True, eq=False)
class Hypotheses:
    """The curve of each hypothesis at one point (hypotheses x series): logarithms, their standard errors, masses."""

    centre: Floats
    sd: Floats
    mass: Floats
    degrees: Floats  # of freedom [S]


def curve_quantiles(evidence: Evidence, x: Floats, levels: Sequence[float] = BOUNDS) -> Floats:
    """Return quantiles of the curves (levels x series x coordinates). NaN where there is no interval: where the best
    function has coefficients of both signs, and for few points without repetitions."""
    out = np.full((len(levels), len(evidence.k), len(x)), np.nan)
    known = _has_interval(evidence)
    with np.errstate(all="ignore"):
        for number, at in enumerate(x.tolist()):
            out[:, known, number] = np.exp(mixture_quantiles(curve_hypotheses(evidence, at), levels)[:, known])
    return out


def _has_interval(evidence: Evidence) -> Bools:
    by_term = evidence.mass.sum(axis=0)
    term, series = np.argmax(by_term, axis=0), np.arange(by_term.shape[1])
    is_constant = evidence.constant > by_term[term, series]
    is_signed = np.argmax(evidence.mass[:, term, series], axis=0) == SIGNED
    known: Bools = (is_constant | ~is_signed) & ((evidence.observed.degrees > 0) | (len(evidence.x) >= FEWEST_POINTS))
    return known


def curve_hypotheses(evidence: Evidence, at: float) -> Hypotheses:
    """Return what the curves may be at a coordinate."""
    n, r = len(evidence.x), evidence.repetitions
    t = term_values(evidence.terms, np.array([at]))

    def variance(squares: Floats) -> Floats:
        part: Floats = (evidence.within + r * squares) / (2 * evidence.k) / r
        return part

    constant = np.log(evidence.observed.y).mean(axis=0)[None]
    constant_sd = np.sqrt(variance(evidence.ss_constant) / n)[None]
    pure, pure_sd = np.log(evidence.coefficient * t), np.sqrt(variance(evidence.ss_pure) / n)
    affine_value = evidence.c0 + evidence.c1 * t
    affine, affine_sd = np.log(affine_value), np.sqrt(_affine_variance(evidence, t) * variance(evidence.ss_affine))
    affine_sd /= affine_value
    mass = np.concatenate([evidence.constant[None], evidence.mass[PURE], evidence.mass[AFFINE] + evidence.mass[SIGNED]])
    centre = np.concatenate([constant, pure, affine])
    sd = np.concatenate([constant_sd, pure_sd, affine_sd])
    usable = np.isfinite(centre) & np.isfinite(sd)
    return Hypotheses(
        np.where(usable, centre, 0.0),
        np.minimum(np.where(usable, sd, 0.0) * WIDENING, LARGEST_SD),
        np.where(usable, mass, 0.0),
        2 * evidence.k,
    )


def _affine_variance(evidence: Evidence, t: Floats) -> Floats:
    """Return g'(X'X)^-1 g with rows (1, t) of X by the fit, and g = (1, t) at the point."""
    values = term_values(evidence.terms, evidence.x)[:, :, None]
    fit = evidence.c0[:, None] + evidence.c1[:, None] * values
    ones, scaled = 1 / fit, values / fit
    a, b, d = (ones * ones).sum(axis=1), (ones * scaled).sum(axis=1), (scaled * scaled).sum(axis=1)
    variance: Floats = (d - 2 * b * t + a * t**2) / (a * d - b * b)
    return np.maximum(variance, 0.0)


def student_nodes(degrees: Floats) -> Floats:
    """Return the middles of equal parts of Student's distribution (nodes x series)."""
    v, z = np.maximum(degrees, FEWEST_DEGREES), NODES[:, None]
    nodes: Floats = (
        z
        + (z**3 + z) / (4 * v)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * v**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * v**3)
    )
    return nodes


def mixture_quantiles(hypotheses: Hypotheses, levels: Sequence[float]) -> Floats:
    """Return quantiles (levels x series) of the weighted hypotheses; those that hardly weigh anything are left out."""
    mass = hypotheses.mass
    order = np.argsort(-mass, axis=0)
    ranked = np.take_along_axis(mass, order, axis=0)
    total = ranked.sum(axis=0)
    needed = int(((np.cumsum(ranked, axis=0) - ranked) < (1 - NEGLIGIBLE) * total).sum(axis=0).max(initial=1))
    rows = order[:needed]
    centre, sd = (np.take_along_axis(a, rows, axis=0).T for a in (hypotheses.centre, hypotheses.sd))
    nodes = student_nodes(hypotheses.degrees).T
    values = (centre[:, :, None] + sd[:, :, None] * nodes[:, None, :]).reshape(len(total), -1)
    weights = np.repeat(ranked[:needed].T / N_NODES, N_NODES, axis=1)
    places = np.argsort(values, axis=1)
    values = np.take_along_axis(values, places, axis=1)
    cumulated = np.cumsum(np.take_along_axis(weights, places, axis=1), axis=1)
    series = np.arange(len(total))
    last = values.shape[1] - 1
    chosen = [np.minimum((cumulated < level * total[:, None]).sum(axis=1), last) for level in levels]
    return np.stack([values[series, place] for place in chosen])
