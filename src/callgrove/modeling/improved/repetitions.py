"""What repetitions say about the noise of series: how far they scatter, and whether noise only ever adds.

Noise of a machine is often one-sided: a run is disturbed or it is not, and never faster than undisturbed. Repetitions
show it, from four on: their mean lies far above their minimum for the scatter that they have. Then the undisturbed time
is estimated from the minima, and modelled instead of the mean.

    mean m_k, minimum a_k, standard deviation s_k of r repetitions at point k
    SSW = sum of r * (s_k / m_k)^2            scatter within the points, relative
    R   = sqrt(SSW / (n * (r - 1))) / mean of (m_k - a_k) / m_k          large: one-sided

Where a repetition has several values (one per rank of a run), the mean of these is what repeats: ranks that differ from
each other are not noise. Specification: modeling.md B1, step 1.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np

from callgrove.arrays import Bools, Floats, Ints
from callgrove.model.study.series import Study

__all__ = ["Observations", "PooledSkew", "Repetitions", "observe", "repetitions_of"]


@dataclass(frozen=True, eq=False)
class Repetitions:
    """Statistics of the repetitions of series (series x points); a count of 1 has no scatter, 0 is absent."""

    mean: Floats
    minimum: Floats
    std: Floats  # with ddof 0
    count: Ints


@dataclass(frozen=True, eq=False)
class Observations:
    """What S series have at the same n points, all of it positive."""

    y: Floats  # n x S
    within: Floats  # SSW
    repetitions: Floats  # r; the harmonic mean where points differ
    degrees: Floats  # n * (r - 1): all repetitions but one per point
    one_sided: Bools
    noise: Floats  # relative: a standard deviation, of one-sided noise its mean; NaN without repetitions

    def take(self, rows: slice | Ints | Bools) -> Observations:
        """Return some of the series."""
        return Observations(
            np.ascontiguousarray(self.y[:, rows]),
            self.within[rows],
            self.repetitions[rows],
            self.degrees[rows],
            self.one_sided[rows],
            self.noise[rows],
        )

    def expect_scatter(self, scatter: float, degrees: float) -> Observations:
        """Return the same with a relative scatter that is expected beforehand, worth so many repetitions."""
        return replace(self, within=self.within + degrees * scatter**2, degrees=self.degrees + degrees)


# -- statistics of repetitions -----------------------------------------------------------------------------------------


LOST = 0.5  # of the least standard deviation that values with such a mean and minimum can have


def repetitions_of(study: Study, series: Ints, measure: str = "mean") -> Repetitions:
    """Return the statistics of the repetitions of some series; `measure` is what stands for the mean."""
    mean, minimum = study.measure(measure)[series], study.minimum[series]
    std, count = study.std[series], study.repetitions[series]
    if study.raw is not None and len(study.raw.repetition_bounds) <= len(study.raw.values):
        minimum, std = _statistics_of_means(study, series)
    known = study.present[series] & np.isfinite(mean)
    with np.errstate(
        all="ignore"
    ):  # squares leave the range of numbers before values do: then half of the range bounds
        lost = (std == np.inf) | (LOST * (study.mean[series] - minimum) > std * np.sqrt(count))
        std = np.where(lost, study.maximum[series] / 2 - minimum / 2, std)
    repeated = known & (count > 1) & np.isfinite(std) & np.isfinite(minimum)
    return Repetitions(
        mean,
        np.where(repeated, np.fmin(minimum, mean), mean),
        np.where(repeated, std, 0.0),
        np.where(repeated, count, np.where(known, 1, 0)).astype(np.int64),
    )


def _statistics_of_means(study: Study, series: Ints) -> tuple[Floats, Floats]:
    """Return the minimum and standard deviation over the means of repetitions (series x points); NaN where unknown."""
    raw = study.raw
    assert raw is not None
    cells = (series[:, None] * study.n_points + np.arange(study.n_points)).reshape(-1)
    sizes = raw.cell_bounds[cells + 1] - raw.cell_bounds[cells]
    owner = np.repeat(np.arange(len(cells)), sizes)
    repetition = np.arange(len(owner)) + np.repeat(raw.cell_bounds[cells] - (np.cumsum(sizes) - sizes), sizes)
    n_values = raw.repetition_bounds[repetition + 1] - raw.repetition_bounds[repetition]
    value_owner = np.repeat(np.arange(len(owner)), n_values)
    shift = np.repeat(raw.repetition_bounds[repetition] - (np.cumsum(n_values) - n_values), n_values)
    values = raw.values[np.arange(len(value_owner)) + shift]
    with np.errstate(all="ignore"):
        means = np.bincount(value_owner, values, minlength=len(owner)) / n_values
        mean = np.bincount(owner, means, minlength=len(cells)) / sizes
        squares = np.bincount(owner, (means - mean[owner]) ** 2, minlength=len(cells)) / sizes
        minimum = np.full(len(cells), np.inf)
        np.minimum.at(minimum, owner, means)  # NaN where the mean of a repetition is
    shape = (len(series), study.n_points)
    return np.where(sizes > 0, minimum, np.nan).reshape(shape), np.sqrt(squares).reshape(shape)


# -- one-sided noise ---------------------------------------------------------------------------------------------------


FEWEST_FOR_SKEW = 4  # repetitions; of fewer, mean and minimum say nothing of the shape of noise
NO_SCATTER = 1e-18
LEAST_POOLED = 5  # series of a metric, from which on they are judged together
MARGIN = 0.965
LARGEST_NORMAL = {4: 1.02938, 5: 1.16296, 6: 1.26721, 7: 1.35218, 8: 1.42360, 9: 1.48501, 10: 1.53875}


def _skew_limit(r: int) -> float:
    """Return the R beyond which noise of r repetitions is one-sided."""
    largest = LARGEST_NORMAL.get(r) or NormalDist().inv_cdf((r - 0.375) / (r + 0.25))
    return MARGIN * float(np.sqrt(r / ((r - 1) * largest)))


def _measure_scatter(known: Repetitions) -> tuple[Floats, Floats, Floats, Floats]:
    """Return of each series SSW, all repetitions but one per point, the harmonic mean of their counts, and R."""
    n = known.mean.shape[1]
    with np.errstate(all="ignore"):
        within = (known.count * (known.std / known.mean) ** 2).sum(axis=1)
        degrees = (known.count - 1).sum(axis=1).astype(np.float64)
        r = n / (1 / known.count).sum(axis=1)
        skew = np.sqrt(within / degrees) / ((known.mean - known.minimum) / known.mean).mean(axis=1)
    return within, degrees, r, skew


@dataclass(frozen=True, eq=False)
class PooledSkew:
    """R of all series of a metric together; more series can be added."""

    total: Floats
    weight: Floats
    n_series: Ints

    @classmethod
    def empty(cls, n_metrics: int) -> PooledSkew:
        return cls(np.zeros(n_metrics), np.zeros(n_metrics), np.zeros(n_metrics, np.int64))

    def add(self, known: Repetitions, metric: Ints) -> None:
        """Add series at the same points, all measured and positive."""
        within, degrees, r, skew = _measure_scatter(known)
        with np.errstate(all="ignore"):
            usable = np.isfinite(skew) & (np.round(r) >= FEWEST_FOR_SKEW) & (within / degrees > NO_SCATTER)
        n = known.mean.shape[1]
        np.add.at(self.total, metric[usable], skew[usable] * n)
        np.add.at(self.weight, metric[usable], n)
        np.add.at(self.n_series, metric[usable], 1)

    def means(self) -> Floats:
        """Return the mean R of each metric, NaN for those with fewer than five series."""
        with np.errstate(all="ignore"):
            means: Floats = np.where(self.n_series >= LEAST_POOLED, self.total / self.weight, np.nan)
        return means


def observe(known: Repetitions, detect: bool = True, pooled: Floats | None = None) -> Observations:
    """Return series (series x points, all measured and positive) with their noise; `pooled` is the R of each series'
    metric, NaN where it has too few series. Without `detect` noise counts as symmetric."""
    n = known.mean.shape[1]
    within, degrees, r, skew = _measure_scatter(known)
    if pooled is not None:
        skew = np.where(np.isfinite(pooled), pooled, skew)
    whole = np.round(r).astype(np.int64)
    limit = np.array([_skew_limit(k) if k >= FEWEST_FOR_SKEW else np.inf for k in range(int(whole.max(initial=0)) + 1)])
    with np.errstate(all="ignore"):
        excess = (known.mean - known.minimum) / known.minimum
        u = excess.mean(axis=1)
        variance = within / degrees
        one_sided = (
            detect
            & (known.minimum > 0).all(axis=1)
            & (variance > NO_SCATTER)
            & (u < 0.9 * (r - 1))
            & (skew > limit[whole])
        )
        rate = r * u / (r - 1 - u)
        undisturbed = known.minimum / (1 + rate / r)[:, None]
        one_sided_within = n * (r - 1) * r * (rate / (r + rate)) ** 2
        noise = np.where(degrees > 0, np.where(one_sided, rate, np.sqrt(variance)), np.nan)
    y = np.where(one_sided[:, None], undisturbed, known.mean)
    return Observations(
        np.ascontiguousarray(y.T), np.where(one_sided, one_sided_within, within), r, degrees, one_sided, noise
    )
