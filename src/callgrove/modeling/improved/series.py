"""Series of a study through the improved method: functions with the evidence for them, and intervals of the curves.

Functions are those of one parameter (`evidence.py`) or two (`evidence_grid.py`), of values above 0. Intervals are also
what predictions of Extra-P's functions are judged by, for which noise counts as symmetric: those are of the mean.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from callgrove.arrays import Bools, Floats, Ids, Ints, group_alike
from callgrove.model.study.series import Study
from callgrove.modeling.functions import FunctionBuilder, term_values
from callgrove.modeling.improved.evidence import choose_winners, weigh
from callgrove.modeling.improved.evidence_grid import choose_grid_winners, grid_quantiles, has_lines, weigh_grid
from callgrove.modeling.improved.intervals import BOUNDS, curve_quantiles
from callgrove.modeling.improved.repetitions import Observations, PooledSkew, Repetitions, observe, repetitions_of
from callgrove.modeling.least_squares import Costs, constant_costs, multi_costs
from callgrove.modeling.options import DETECTED

__all__ = [
    "ImprovedFits",
    "can_weigh",
    "fit_improved",
    "match_points",
    "observe_series",
    "pool_skew",
    "quantiles_at",
]

SERIES_AT_ONCE = 8_192
FEWEST_POINTS = 3


def can_weigh(points: Floats) -> bool:
    """Return whether the improved method knows functions of so many parameters at such points."""
    if points.shape[1] == 1:
        return len(points) >= FEWEST_POINTS and bool((points > 0).all())
    return has_lines(points) and bool((points > 0).all())


def match_points(study: Study, points: Floats) -> Ints:
    """Return which points of a study these are."""
    number = {tuple(point): k for k, point in enumerate(study.points.tolist())}
    return np.array([number[tuple(point)] for point in points.tolist()], np.int64)


def pool_skew(study: Study) -> Floats:
    """Return for each metric how one-sided the noise of all its series is; NaN where too few were repeated."""
    pool = PooledSkew.empty(len(study.metrics))
    for start in range(0, len(study), SERIES_AT_ONCE):
        series = np.arange(start, min(start + SERIES_AT_ONCE, len(study)))
        known = repetitions_of(study, series)
        usable = (known.count > 0) & (known.mean > 0) & (known.minimum > 0)
        for pattern, rows in group_alike(usable):
            if pattern.any():
                metric = study.series_metric[series[rows]].astype(np.int64)
                pool.add(_part(known, rows, np.flatnonzero(pattern)), metric)
    return pool.means()


def _part(known: Repetitions, rows: Ints, columns: Ints) -> Repetitions:
    place = np.ix_(rows, columns)
    return Repetitions(known.mean[place], known.minimum[place], known.std[place], known.count[place])


def observe_series(study: Study, series: Ints, columns: Ints, measure: str, skew: Floats | None) -> Observations:
    """Return series at some points, with their noise; all values there are above 0."""
    known = repetitions_of(study, series, "mean" if measure == DETECTED else measure)
    here = _part(known, np.arange(len(series)), columns)
    if skew is None:
        return observe(here, detect=False)
    return observe(here, pooled=skew[study.series_metric[series]])


# -- functions ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class ImprovedFits:
    """Functions of S series: constant + sum of coefficient * factor over the terms that are used."""

    constant: Floats
    coefficient: Floats  # [S, T]
    factor: Ids  # [S, T, parameters]: numbers in a builder
    predicted: Floats  # [S, points]
    is_known: Bools
    probability: Floats
    one_sided: Bools
    lacks_fit: Bools

    def put(self, rows: Ints, out: FunctionBuilder) -> None:
        """Put the functions that are known into a builder, as those of `rows`."""
        for pattern, members in group_alike(self.coefficient != 0):
            chosen = members[self.is_known[members]]
            columns = np.flatnonzero(pattern)
            place = np.ix_(chosen, columns)
            out.put(rows[chosen], self.constant[chosen], self.coefficient[place], self.factor[place])

    def costs(self, y: Floats) -> Costs:
        """Return the errors against values (points x series)."""
        n_factors = (self.factor >= 0).any(axis=2) & (self.coefficient != 0)
        return multi_costs(self.predicted.T, y, constant_costs(y)[1].rss, n_factors.sum(axis=1))


def fit_improved(points: Floats, observed: Observations, out: FunctionBuilder) -> Iterator[tuple[slice, ImprovedFits]]:
    """Yield the functions of series, some at a time, with their numbers."""
    if points.shape[1] == 1:
        yield from _fit_curves(points[:, 0], observed, out)
    else:
        yield from _fit_surfaces(points, observed, out)


def _fit_curves(x: Floats, observed: Observations, out: FunctionBuilder) -> Iterator[tuple[slice, ImprovedFits]]:
    for rows, evidence in weigh(x, observed):
        winners = choose_winners(evidence)
        numbers, row = out.numbers(evidence.terms), np.maximum(winners.term, 0)
        predicted = winners.c0[:, None] + winners.c1[:, None] * term_values(evidence.terms, x)[row]
        known = np.isfinite(winners.c0) & np.isfinite(winners.c1) & np.isfinite(predicted).all(axis=1)
        factor = np.where(winners.term >= 0, numbers[row], -1).astype(np.int32)[:, None, None]
        flags = (winners.probability, observed.one_sided[rows], evidence.lacks_fit)
        yield rows, ImprovedFits(winners.c0, winners.c1[:, None], factor, predicted, known, *flags)


def _fit_surfaces(points: Floats, observed: Observations, out: FunctionBuilder) -> Iterator[tuple[slice, ImprovedFits]]:
    for rows, evidence in weigh_grid(points, observed):
        winners = choose_grid_winners(evidence)
        factor = np.full((winners.term.shape[1], 3, 2), -1, np.int32)
        values = []
        for p in (0, 1):
            numbers = out.numbers(evidence.terms[p])[winners.term[p]]
            factor[:, p, p] = factor[:, 2, p] = numbers
            values.append(term_values(evidence.terms[p], points[:, p])[winners.term[p]])
        c = winners.coefficients[:, :, None]
        predicted = c[0] + c[1] * values[0] + c[2] * values[1] + c[3] * values[0] * values[1]
        known = winners.is_known & np.isfinite(predicted).all(axis=1)
        flags = (winners.probability, observed.one_sided[rows], np.zeros(len(known), np.bool_))
        coefficients = np.ascontiguousarray(winners.coefficients[1:].T)
        yield rows, ImprovedFits(winners.coefficients[0], coefficients, factor, predicted, known, *flags)


# -- intervals ---------------------------------------------------------------------------------------------------------


def quantiles_at(
    study: Study,
    series: Ints,
    points: Floats,
    measure: str = "mean",
    levels: Sequence[float] = BOUNDS,
    observe_as: Callable[[Observations], Observations] | None = None,
) -> Floats:
    """Return quantiles of the curves of series at points (levels x series x points); NaN where there are none.
    `observe_as` may change what is known of the noise."""
    out = np.full((len(levels), len(series), len(points)), np.nan)
    skew = pool_skew(study) if measure == DETECTED else None
    if not (points > 0).all():
        return out
    for start in range(0, len(series), SERIES_AT_ONCE):
        block = np.arange(start, min(start + SERIES_AT_ONCE, len(series)))
        values = study.measure("mean" if measure == DETECTED else measure)[series[block]]
        usable = study.present[series[block]] & np.isfinite(values)
        above_zero: Bools = np.asarray(((values > 0) | ~usable).all(axis=1))
        for pattern, members in group_alike(usable):
            columns = np.flatnonzero(pattern)
            chosen = block[members[above_zero[members]]]
            if len(chosen) and can_weigh(study.points[columns]):
                observed = observe_series(study, series[chosen], columns, measure, skew)
                observed = observed if observe_as is None else observe_as(observed)
                for part, quantiles in _weigh_quantiles(study.points[columns], observed, points, levels):
                    out[:, chosen[part]] = quantiles
    return out


def _weigh_quantiles(
    measured: Floats, observed: Observations, points: Floats, levels: Sequence[float]
) -> Iterator[tuple[slice, Floats]]:
    if measured.shape[1] == 1:
        for rows, evidence in weigh(measured[:, 0], observed):
            yield rows, curve_quantiles(evidence, points[:, 0], levels)
    else:
        for rows, surfaces in weigh_grid(measured, observed):
            yield rows, grid_quantiles(surfaces, points, levels)
