"""Least squares for many series at once, each with columns of its own: c0 + sum of coefficients times columns.

Columns are made orthogonal one after the other, together with the values (modified Gram-Schmidt), with all series side
by side. What could be singular is left to numpy.linalg.lstsq, as Extra-P does it: first with the usual cut-off, and
where that loses rank, with machine precision.

Arrays are (points x series). Specification: modeling.md A6, step 5.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from callgrove.model.arrays import Bools, Floats, Ints
from callgrove.modeling.designs import EPS

__all__ = ["CentredColumn", "by_lstsq", "centred", "solve"]

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


def centred(values: Floats) -> CentredColumn:
    with np.errstate(all="ignore"):
        mean = values.mean(axis=0)
        return CentredColumn(values, mean, values - mean, np.sqrt(_dot(values, values)))


def solve(columns: Sequence[CentredColumn], y: CentredColumn, singly: bool = False) -> Floats:
    """Coefficients [1 + columns, series], the constant first; NaN where there is no solution. `singly` leaves
    everything to lstsq, for results that have to agree in the last bit."""
    n, n_series = y.values.shape
    if singly:
        found = np.empty((len(columns) + 1, n_series))
        _solve_singly(columns, y, range(n_series), found)
        return found
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
        found = np.empty((len(columns) + 1, y.values.shape[1]))
        for i in reversed(range(len(columns))):
            found[i + 1] = projected[i]
            for j in range(i + 1, len(columns)):
                found[i + 1] -= upper[i, j] * found[j + 1]
        found[0] = y.mean - sum(found[j + 1] * column.mean for j, column in enumerate(columns))
        cut_off = EPS * max(n, len(columns) + 1)
        unsure = np.flatnonzero(~_surely_regular(columns, squares, n, cut_off))
        if len(unsure):
            unsure = unsure[~_regular(columns, squares, upper, n, unsure, SAFETY * cut_off)]
    _solve_singly(columns, y, unsure.tolist(), found)
    return found


def _solve_singly(columns: Sequence[CentredColumn], y: CentredColumn, rows: Iterable[int], out: Floats) -> None:
    for series in rows:
        out[:, series] = by_lstsq([column.values[:, series] for column in columns], y.values[:, series])


def _surely_regular(columns: Sequence[CentredColumn], squares: Sequence[Floats], n: int, cut_off: float) -> Bools:
    """Is the smallest singular value above the cut-off by a bound that needs no decomposition?

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
    """The same from the singular values of the triangular factor."""
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
        found, _, rank, _ = np.linalg.lstsq(matrix, y, rcond=None)
        if rank < matrix.shape[1]:
            found = np.linalg.lstsq(matrix, y, rcond=-1)[0]
    except np.linalg.LinAlgError:
        return np.full(matrix.shape[1], np.nan)
    return np.asarray(found, np.float64)


def _dot(one: Floats, other: Floats) -> Floats:
    found: Floats = np.einsum("ns,ns->s", one, other)
    return found
