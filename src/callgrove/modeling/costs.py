"""How far functions are from measurements: the error measures, each one number per series.

They are Extra-P's, with their peculiarities: `re` of a constant is that of the last point that is not 0, `ar2` of a
constant is 1, `nrss` depends on the order of the points. `mean_relative_error` is the plain mean of |f - y| / |y| over
the points that are not 0, the same for all models.

Arrays are (points x series) throughout. Specification: modeling.md A3, A4, A6.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from callgrove.model.arrays import Bools, Floats, Ints

__all__ = ["Costs", "constant_costs", "in_sample_costs", "left_out_costs", "multi_costs", "smape_terms"]


@dataclass(frozen=True, eq=False)
class Costs:
    """Error measures of S models."""

    smape: Floats
    rss: Floats
    rrss: Floats
    nrss: Floats
    ar2: Floats
    re: Floats
    mean_relative_error: Floats

    @classmethod
    def unknown(cls, n: int) -> Costs:
        return cls(*(np.full(n, np.nan) for _ in fields(cls)))

    def take(self, rows: Ints) -> Costs:
        return Costs(*(getattr(self, field.name)[rows] for field in fields(self)))

    def put(self, rows: Ints | Bools, other: Costs) -> None:
        """Overwrites some rows; for results in the making."""
        for field in fields(self):
            getattr(self, field.name)[rows] = getattr(other, field.name)

    def where(self, chosen: Bools, other: Costs) -> Costs:
        """These where chosen, the others elsewhere."""
        return Costs(*(np.where(chosen, getattr(self, f.name), getattr(other, f.name)) for f in fields(self)))


def smape_terms(difference: Floats, predicted: Floats, y: Floats) -> Floats:
    """|d| / (|y| + |f|) at every point; 0 where both are 0. The first two arrays are used up."""
    np.abs(predicted, out=predicted)
    predicted += np.abs(y)
    np.abs(difference, out=difference)
    if not y.all():
        predicted[predicted == 0] = 1.0
    difference /= predicted
    return difference


def constant_costs(y: Floats) -> tuple[Floats, Costs]:
    """The mean of every series and its errors. `y` is (points x series)."""
    n = len(y)
    with np.errstate(all="ignore"):
        mean = np.ascontiguousarray(y.T).mean(axis=1)  # summed as Extra-P sums: along one series
        difference = mean - y
        rss = (difference * difference).sum(axis=0)
        relative, mean_error = _relative(difference, y)
        smape = (smape_terms(difference.copy(), np.broadcast_to(mean, y.shape).copy(), y) * 2).sum(axis=0) / n * 100
        last = n - 1 - np.argmax((y != 0)[::-1], axis=0)
        at_last = np.take_along_axis(y, last[None], axis=0)[0]
        re = np.where(at_last != 0, np.abs(mean - at_last) / at_last, 0.0)
        nrss = np.where(mean != 0, np.sqrt(rss) / mean, np.nan)
        rrss = (relative * relative).sum(axis=0)
    return mean, Costs(smape, rss, rrss, nrss, np.ones_like(rss), re, mean_error)


def left_out_costs(predicted: Floats, y: Floats, rss_constant: Floats, fitted: Floats) -> Costs:
    """From what is predicted for every point by the fit without it. `fitted` is the function with all points."""
    n = len(y)
    with np.errstate(all="ignore"):
        difference = predicted - y
        so_far = np.cumsum(difference * difference, axis=0)
        rss = so_far[-1]
        training = (~np.eye(n, dtype=np.bool_) @ y if n <= 64 else y.sum(axis=0) - y) / (n - 1)
        nrss = (np.sqrt(so_far) / training / n).sum(axis=0)
        relative, _ = _relative(difference, y)
        re = (np.abs(relative) / n).sum(axis=0)
        rrss = (relative * relative).sum(axis=0)
        smape = (smape_terms(difference.copy(), predicted.copy(), y) * 2 / n * 100).sum(axis=0)
        mean_error = _relative(fitted - y, y)[1]
    return Costs(smape, rss, rrss, nrss, adjusted(rss, rss_constant, n, 1), re, mean_error)


def in_sample_costs(predicted: Floats, y: Floats, rss_constant: Floats) -> Costs:
    """Without leaving points out. SMAPE is over the points where there is anything to compare."""
    n = len(y)
    with np.errstate(all="ignore"):
        difference = predicted - y
        rss = (difference * difference).sum(axis=0)
        nrss = np.sqrt(rss) / np.ascontiguousarray(y.T).mean(axis=1)
        ratio = difference / y
        rrss = (ratio * ratio).sum(axis=0)
        re = (np.abs(difference) / y).mean(axis=0)
        n_compared = ((np.abs(y) + np.abs(predicted)) != 0).sum(axis=0)
        smape = (smape_terms(difference.copy(), predicted.copy(), y) * 2).sum(axis=0) / n_compared * 100
        mean_error = _relative(predicted - y, y)[1]
    return Costs(smape, rss, rrss, nrss, adjusted(rss, rss_constant, n, 1), re, mean_error)


def multi_costs(predicted: Floats, y: Floats, rss_constant: Floats, n_factors: Ints | int) -> Costs:
    """Of functions of several parameters. An error at a point that is 0 counts as infinite, none as 0."""
    n = len(y)
    with np.errstate(all="ignore"):
        difference = predicted - y
        rss = (difference * difference).sum(axis=0)
        ratio = difference / y
        ratio[(difference == 0) & (y == 0)] = 0.0
        signed = np.abs(difference) / y
        signed[(difference == 0) & (y == 0)] = 0.0
        smape = (smape_terms(difference.copy(), predicted.copy(), y) * 2).sum(axis=0) / n * 100
        mean_error = _relative(difference, y)[1]
        rrss, re = (ratio * ratio).sum(axis=0), signed.sum(axis=0) / n
    return Costs(smape, rss, rrss, np.zeros_like(rss), adjusted(rss, rss_constant, n, n_factors), re, mean_error)


def adjusted(rss: Floats, rss_constant: Floats, n: int, n_factors: Ints | int) -> Floats:
    """The adjusted coefficient of determination."""
    with np.errstate(all="ignore"):
        explained = 1.0 - rss / rss_constant
        found: Floats = 1.0 - (1.0 - explained) * (n - 1.0) / (np.asarray(n - 1 - n_factors, np.float64))
        return found


def _relative(difference: Floats, y: Floats) -> tuple[Floats, Floats]:
    """difference / y with 0 where y is 0, and the mean of its size over the other points."""
    some = y != 0
    relative: Floats = np.divide(difference, y, out=np.zeros_like(difference), where=some)
    return relative, np.abs(relative).sum(axis=0) / some.sum(axis=0)
