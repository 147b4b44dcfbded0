"""Models of one parameter that may change once along the way (Extra-P's segmented modeller).

A window of five points slides along the coordinates. Where the model of a window fits much worse than the others, or
than the one before, the series is split there and each part gets a model of its own.

Specification: modeling.md A8.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from callgrove.model.arrays import Bools, Floats, Ints
from callgrove.modeling.costs import Costs, constant_costs, in_sample_costs
from callgrove.modeling.options import ModelOptions
from callgrove.modeling.single import SingleFits, fit_series
from callgrove.modeling.terms import term_values

__all__ = ["POINTS_FOR_SEGMENTS", "SegmentedFits", "Split", "fit_segmented"]

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
    """The models of series (series x points) at coordinates x; all values are finite."""
    order = np.argsort(x, kind="stable")
    x, y = x[order], np.ascontiguousarray(y[:, order])
    whole = fit_series(x, y, options)
    if len(x) < WINDOW:
        return SegmentedFits(whole, ())
    n_windows = len(x) - WINDOW + 1
    windows = [fit_series(x[w : w + WINDOW], y[:, w : w + WINDOW], options) for w in range(n_windows)]
    nrss = np.abs(np.stack([fits.costs.nrss for fits in windows]))
    split, ends, starts = _splits(nrss)
    found = []
    for end, start in sorted(set(zip(ends[split].tolist(), starts[split].tolist(), strict=True))):
        rows = np.flatnonzero(split & (ends == end) & (starts == start))
        found.append(_split(x, y, rows, end, start, whole, options))
    return SegmentedFits(whole, tuple(found))


def _splits(nrss: Floats) -> tuple[Bools, Ints, Ints]:
    """Which series are split, and the last point of the left and the first of the right part.

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
    """(series x coordinates)."""
    found = np.repeat(fits.c0[:, None], len(x), axis=1)
    if len(fits.terms):
        values = term_values(fits.terms, x)[np.maximum(fits.term, 0)]
        with np.errstate(all="ignore"):
            found = np.where((fits.term >= 0)[:, None], found + fits.c1[:, None] * values, found)
    return found
