"""Least squares for c0 + c1 t with and without each point, prepared once for all series with the same coordinates.

For every term: the matrix that turns values into (c0, c1), and the one for every point left out. They are what
numpy.linalg.lstsq(A, y, rcond=None) would give for A = [1, t]: where the smaller singular value is below
eps * max(rows, 2) of the larger, the solution of least norm. The two singular values follow from the sum of squares and
the determinant, which is taken from deviations from the mean, so that nothing cancels.

Specification: modeling.md A4, A9.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from callgrove.model.arrays import Bools, Floats
from callgrove.modeling.terms import Exponents, term_values

__all__ = ["MOST_DIRECT_POINTS", "Design", "design", "least_norm", "singular"]

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
    """Everything about coordinates that does not depend on values. Terms that are kept although they have no finite
    value everywhere have no finite error either."""
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
    """[..., 2, n] for terms [..., n] at the points that are kept [..., n]."""
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
    """The square of the larger singular value of [1, t], and whether the smaller one counts.

    The squares of both add up to rows + sum t^2; their product is the determinant, rows * sum of squared deviations.
    """
    total = rows + squares
    product = rows * spread
    largest = (total + np.sqrt(np.maximum(total * total - 4 * product, 0.0))) / 2
    is_full = np.sqrt(product) > EPS * np.maximum(rows, 2) * largest
    return largest, is_full


def _leading_vector(rows: Floats | int, total: Floats, squares: Floats, largest: Floats) -> tuple[Floats, Floats]:
    """The unit eigenvector of [[rows, total], [total, squares]] for its larger eigenvalue."""
    wide = np.asarray(rows >= squares)
    first = np.where(wide, largest - squares, total)
    second = np.where(wide, total, largest - rows)
    length = np.hypot(first, second)
    return first / length, second / length


def least_norm(rows: int, total: Floats, squares: Floats, y_total: Floats, ty_total: Floats) -> tuple[Floats, Floats]:
    """(c0, c1) of least norm where only the larger singular value counts, from sums over the points."""
    largest, _ = singular(rows, squares, np.zeros_like(squares))
    first, second = _leading_vector(rows, total, squares, largest)
    image = (first * y_total + second * ty_total) / largest
    return first * image, second * image
