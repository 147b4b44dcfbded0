"""Least squares for many series at once, with and without each point, and the error measures.

Columns are made orthogonal one after the other, together with the values (modified Gram-Schmidt), with all series side
by side. What could be singular is left to numpy.linalg.lstsq, as Extra-P does it: first with the usual cut-off, and
where that loses rank, with machine precision.

Arrays are (points x series). Specification: modeling.md A6, step 5.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields

import numpy as np

from callgrove.arrays import Bools, Floats, Ints
from callgrove.modeling.functions import Exponents, term_values

__all__ = [
    "MOST_DIRECT_POINTS",
    "CentredColumn",
    "Costs",
    "Design",
    "by_lstsq",
    "centre",
    "constant_costs",
    "design",
    "in_sample_costs",
    "least_norm",
    "left_out_costs",
    "multi_costs",
    "singular",
    "smape_terms",
    "solve",
]


# -- one term: c0 + c1 t -----------------------------------------------------------------------------------------------
# The fits with and without each point are prepared once for all series with the same coordinates.
#
# For every term: the matrix that turns values into (c0, c1), and the one for every point left out. They are what
# numpy.linalg.lstsq(A, y, rcond=None) would give for A = [1, t]: where the smaller singular value is below eps *
# max(rows, 2) of the larger, the solution of least norm. The two singular values follow from the sum of squares and
# the determinant, which is taken from deviations from the mean, so that nothing cancels.
#
# Specification: modeling.md A4, A9.


MOST_DIRECT_POINTS = 64  # the matrices grow with the square of the points; beyond, fits are updated point by point
EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, eq=False)
class Design:
    """Terms at coordinates. `values` is (terms x points); terms without a finite value everywhere are left out."""

    x: Floats
    terms: tuple[Exponents, ...]
    values: Floats
    full: Floats  # [terms, 2, points]
    without: Floats  # [terms, 2, left out, points]; empty for many points

    @property
    def n_points(self) -> int:
        return len(self.x)

    @property
    def is_direct(self) -> bool:
        return self.n_points <= MOST_DIRECT_POINTS


def design(x: Floats, terms: Sequence[Exponents], keep_all: bool = False) -> Design:
    """Return everything about coordinates that does not depend on values. Terms that are kept although they have no
    finite value everywhere have no finite error either."""
    values = term_values(terms, x)
    usable = np.flatnonzero(np.isfinite(values).all(axis=1) | np.bool_(keep_all))
    chosen = tuple(terms[k] for k in usable.tolist())
    values = values[usable]
    n = len(x)
    full = _projections(values, np.ones(n, np.bool_))
    direct = n <= MOST_DIRECT_POINTS
    without = np.empty((0, 2, 0, n))
    if direct:
        each = _projections(values[:, None, :], ~np.eye(n, dtype=np.bool_))
        without = np.ascontiguousarray(each.transpose(0, 2, 1, 3))
    return Design(x, chosen, values, full, without)


def _projections(t: Floats, kept: Bools) -> Floats:
    """Return [..., 2, n] for terms [..., n] at the points that are kept [..., n]."""
    rows = kept.sum(axis=-1)
    with np.errstate(all="ignore"):
        mean = np.where(kept, t, 0.0).sum(axis=-1) / rows
        deviation = np.where(kept, t - mean[..., None], 0.0)
        spread = (deviation**2).sum(axis=-1)
        squares = np.where(kept, t * t, 0.0).sum(axis=-1)
        largest, is_full = singular(rows, squares, spread)
        slope = deviation / spread[..., None]
        intercept = kept / rows[..., None] - mean[..., None] * slope
        first, second = _leading_vector(rows, mean * rows, squares, largest)
        image = np.where(kept, first[..., None] + second[..., None] * t, 0.0) / largest[..., None]
        least_norm = np.stack([first[..., None] * image, second[..., None] * image], axis=-2)
        fitted = np.stack([intercept, slope], axis=-2)
    return np.where(is_full[..., None, None], fitted, least_norm)


def singular(rows: Floats | int, squares: Floats, spread: Floats) -> tuple[Floats, Bools]:
    """Return the square of the larger singular value of [1, t], and whether the smaller one counts.

    The squares of both add up to rows + sum t^2; their product is the determinant, rows * sum of squared deviations.
    """
    total = rows + squares
    product = rows * spread
    largest = (total + np.sqrt(np.maximum(total * total - 4 * product, 0.0))) / 2
    is_full = np.sqrt(product) > EPS * np.maximum(rows, 2) * largest
    return largest, is_full


def _leading_vector(rows: Floats | int, total: Floats, squares: Floats, largest: Floats) -> tuple[Floats, Floats]:
    """Return the unit eigenvector of [[rows, total], [total, squares]] for its larger eigenvalue."""
    wide = np.asarray(rows >= squares)
    first = np.where(wide, largest - squares, total)
    second = np.where(wide, total, largest - rows)
    length = np.hypot(first, second)
    return first / length, second / length


def least_norm(rows: int, total: Floats, squares: Floats, y_total: Floats, ty_total: Floats) -> tuple[Floats, Floats]:
    """Return (c0, c1) of least norm where only the larger singular value counts, from sums over the points."""
    largest, _ = singular(rows, squares, np.zeros_like(squares))
    first, second = _leading_vector(rows, total, squares, largest)
    image = (first * y_total + second * ty_total) / largest
    return first * image, second * image


# -- several terms -----------------------------------------------------------------------------------------------------


SAFETY = 2.0  # singular values this close to the cut-off are left to lstsq


@dataclass(frozen=True, eq=False)
class CentredColumn:
    """A column without its mean."""

    values: Floats
    mean: Floats
    deviation: Floats
    norm: Floats  # of the values

    def take(self, rows: Ints) -> CentredColumn:
        return CentredColumn(self.values[:, rows], self.mean[rows], self.deviation[:, rows], self.norm[rows])


def centre(values: Floats) -> CentredColumn:
    with np.errstate(all="ignore"):
        mean = values.mean(axis=0)
        return CentredColumn(values, mean, values - mean, np.sqrt(_dot(values, values)))


def solve(columns: Sequence[CentredColumn], y: CentredColumn, singly: bool = False) -> Floats:
    """Return coefficients [1 + columns, series], the constant first; NaN where there is no solution. `singly` leaves
    everything to lstsq, for results that have to agree in the last bit."""
    n, n_series = y.values.shape
    if singly:
        coefficients = np.empty((len(columns) + 1, n_series))
        _solve_singly(columns, y, range(n_series), coefficients)
        return coefficients
    with np.errstate(all="ignore"):
        orthogonal: list[Floats] = []
        squares: list[Floats] = []
        upper: dict[tuple[int, int], Floats] = {}
        rest, projected = y.deviation.copy(), []
        for j, column in enumerate(columns):
            q = column.deviation.copy()
            for i, other in enumerate(orthogonal):
                upper[i, j] = _dot(other, q) / squares[i]
                q -= upper[i, j] * other
            orthogonal.append(q)
            squares.append(_dot(q, q))
            projected.append(_dot(q, rest) / squares[j])
            rest -= projected[j] * q
        coefficients = np.empty((len(columns) + 1, y.values.shape[1]))
        for i in reversed(range(len(columns))):
            coefficients[i + 1] = projected[i]
            for j in range(i + 1, len(columns)):
                coefficients[i + 1] -= upper[i, j] * coefficients[j + 1]
        coefficients[0] = y.mean - sum(coefficients[j + 1] * column.mean for j, column in enumerate(columns))
        cut_off = EPS * max(n, len(columns) + 1)
        unsure = np.flatnonzero(~_surely_regular(columns, squares, n, cut_off))
        if len(unsure):
            unsure = unsure[~_regular(columns, squares, upper, n, unsure, SAFETY * cut_off)]
    _solve_singly(columns, y, unsure.tolist(), coefficients)
    return coefficients


def _solve_singly(columns: Sequence[CentredColumn], y: CentredColumn, rows: Iterable[int], out: Floats) -> None:
    for series in rows:
        out[:, series] = by_lstsq([column.values[:, series] for column in columns], y.values[:, series])


def _surely_regular(columns: Sequence[CentredColumn], squares: Sequence[Floats], n: int, cut_off: float) -> Bools:
    """Return whether the smallest singular value is above the cut-off by a bound that needs no decomposition.

    With columns of norm 1 it is at least 0.6 of the determinant (at most 4 columns; less for more), and the scaling of
    the columns changes it by at most their smallest norm.
    """
    norms = np.stack([np.full_like(squares[0], np.sqrt(n)), *(column.norm for column in columns)])
    determinant = np.prod([np.sqrt(s) / c.norm for s, c in zip(squares, columns, strict=True)], axis=0)
    bound = 0.6 * determinant * norms.min(axis=0) / np.sqrt((norms * norms).sum(axis=0))
    sure: Bools = (bound > SAFETY * cut_off) & (len(columns) <= 3)
    return sure


def _regular(
    columns: Sequence[CentredColumn],
    squares: Sequence[Floats],
    upper: dict[tuple[int, int], Floats],
    n: int,
    rows: Ints,
    cut_off: float,
) -> Bools:
    """Tell which columns are regular, from the singular values of the triangular factor."""
    k = len(columns) + 1
    factor = np.zeros((len(rows), k, k))
    factor[:, 0, 0] = np.sqrt(n)
    for j, column in enumerate(columns, 1):
        factor[:, 0, j] = np.sqrt(n) * column.mean[rows]
        factor[:, j, j] = np.sqrt(squares[j - 1][rows])
        for i in range(1, j):
            factor[:, i, j] = upper[i - 1, j - 1][rows] * np.sqrt(squares[i - 1][rows])
    finite: Bools = np.asarray(np.isfinite(factor).all(axis=(1, 2)))
    factor[~finite] = 0.0
    values = np.linalg.svd(factor, compute_uv=False)
    regular: Bools = finite & (values[:, -1] > cut_off * values[:, 0]) & (n >= k)
    return regular


def by_lstsq(columns: Sequence[Floats], y: Floats) -> Floats:
    matrix = np.stack([np.ones(len(y)), *columns], axis=1)
    if not np.isfinite(matrix).all():
        return np.full(matrix.shape[1], np.nan)
    try:
        coefficients, _, rank, _ = np.linalg.lstsq(matrix, y, rcond=None)
        if rank < matrix.shape[1]:
            coefficients = np.linalg.lstsq(matrix, y, rcond=-1)[0]
    except np.linalg.LinAlgError:
        return np.full(matrix.shape[1], np.nan)
    return np.asarray(coefficients, np.float64)


def _dot(one: Floats, other: Floats) -> Floats:
    products: Floats = np.einsum("ns,ns->s", one, other)
    return products


# -- error measures ----------------------------------------------------------------------------------------------------
# Each is one number per series.
#
# They are Extra-P's, with their peculiarities: `re` of a constant is that of the last point that is not 0, `ar2` of a
# constant is 1, `nrss` depends on the order of the points. `mean_relative_error` is the plain mean of |f - y| / |y|
# over the points that are not 0, the same for all models.
#
# Arrays are (points x series) throughout. Specification: modeling.md A3, A4, A6.


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
    def make_unknown(cls, n: int) -> Costs:
        """Return measures of `n` models that are not known yet: NaN everywhere."""
        return cls(*(np.full(n, np.nan) for _ in fields(cls)))

    @classmethod
    def join(cls, parts: Sequence[Costs]) -> Costs:
        """Return the measures of several parts, one after the other."""
        return cls(*(np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(cls)))

    def take(self, rows: Ints) -> Costs:
        return Costs(*(getattr(self, field.name)[rows] for field in fields(self)))

    def put(self, rows: Ints | Bools, other: Costs) -> None:
        """Overwrite some rows; for results in the making."""
        for field in fields(self):
            getattr(self, field.name)[rows] = getattr(other, field.name)

    def where(self, chosen: Bools, other: Costs) -> Costs:
        """Return these where chosen, the others elsewhere."""
        return Costs(*(np.where(chosen, getattr(self, f.name), getattr(other, f.name)) for f in fields(self)))


def smape_terms(difference: Floats, predicted: Floats, y: Floats) -> Floats:
    """Return |d| / (|y| + |f|) at every point; 0 where both are 0. The first two arrays are used up."""
    np.abs(predicted, out=predicted)
    predicted += np.abs(y)
    np.abs(difference, out=difference)
    if not y.all():
        predicted[predicted == 0] = 1.0
    difference /= predicted
    return difference


def constant_costs(y: Floats) -> tuple[Floats, Costs]:
    """Return the mean of every series and its errors. `y` is (points x series)."""
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
    """Return the errors of what is predicted for every point by the fit without it. `fitted` is the function with all
    points."""
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
    return Costs(smape, rss, rrss, nrss, compute_adjusted_r2(rss, rss_constant, n, 1), re, mean_error)


def in_sample_costs(predicted: Floats, y: Floats, rss_constant: Floats) -> Costs:
    """Return the errors of a fit to all points. SMAPE is over the points where there is anything to compare."""
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
    return Costs(smape, rss, rrss, nrss, compute_adjusted_r2(rss, rss_constant, n, 1), re, mean_error)


def multi_costs(predicted: Floats, y: Floats, rss_constant: Floats, n_factors: Ints | int) -> Costs:
    """Return the errors of functions of several parameters. An error at a point that is 0 counts as infinite, none as
    0."""
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
    return Costs(
        smape, rss, rrss, np.zeros_like(rss), compute_adjusted_r2(rss, rss_constant, n, n_factors), re, mean_error
    )


def compute_adjusted_r2(rss: Floats, rss_constant: Floats, n: int, n_factors: Ints | int) -> Floats:
    """Return the adjusted coefficient of determination."""
    with np.errstate(all="ignore"):
        explained = 1.0 - rss / rss_constant
        adjusted: Floats = 1.0 - (1.0 - explained) * (n - 1.0) / (np.asarray(n - 1 - n_factors, np.float64))
        return adjusted


def _relative(difference: Floats, y: Floats) -> tuple[Floats, Floats]:
    """Return difference / y with 0 where y is 0, and the mean of its size over the other points."""
    some = y != 0
    relative: Floats = np.divide(difference, y, out=np.zeros_like(difference), where=some)
    return relative, np.abs(relative).sum(axis=0) / some.sum(axis=0)
