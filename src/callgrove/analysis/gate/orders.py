"""Labels of runs permuted, and the largest t over all functions in every order.

y is (functions x runs): logarithms of costs. A t compares the right side of a function with its left one:

    t = (m_R - m_L) / (se + s0)
    m     the mean without the largest fifth of a side: disturbances slow runs down, they do not speed them up
    se    Yuen's standard error of that difference: what is left out counts as the largest value that is not
    s0    a quarter of the lower quartile over functions of the pooled standard deviation, times sqrt(1/n_L + 1/n_R):
          with few runs some variance is small by chance, which must not decide

If nothing changed, every division of the runs into sides was as likely as the one that was measured. So t is computed
for all of them, or for some that are drawn, always with all functions of a run together, and the largest t over the
functions is kept (Westfall and Young). The share of orders whose largest t reaches that of a function is its p: it
needs no correction for the number of functions, keeps what functions of a run have in common, and assumes nothing
about how costs are distributed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from math import comb, floor, sqrt

import numpy as np

from callgrove.arrays import Array, Bools, Floats

__all__ = [
    "N_DRAWN",
    "Extremes",
    "Sides",
    "compare_orders",
    "count_orders",
    "pool_deviations",
    "trim_means",
]

MOST_ORDERS = 20_000  # all of them are looked at, up to so many
N_DRAWN = 9_999  # else so many are drawn, and the measured one is added
SEED = 20_260
CELLS = 1 << 20  # orders x runs of a batch
SHARE_OF_DEVIATION, QUARTILE = 0.25, 0.25
ROUNDING = 1e-10  # of a logarithm: constant costs have no deviation, and sums of them are not exact
NEAR = 1e-9  # relative; less between two t is rounding


@dataclass(frozen=True)
class Sides:
    """How many runs each side has, and how many of the largest are trimmed."""

    n_left: int
    n_right: int

    @property
    def trimmed(self) -> tuple[int, int]:
        return self.n_left // 5, self.n_right // 5

    @property
    def root(self) -> float:
        """The standard error of a difference of means, where the deviation is 1."""
        return sqrt(1 / self.n_left + 1 / self.n_right)


@dataclass(frozen=True)
class Extremes:
    """What the orders say. `t` and `error` (se + s0) are those of the measured order, by function, and last of
    the whole program; `highest` and `lowest` are the largest and the smallest t over the functions, by order, of which
    `others` are all but the measured one; `whole_t` is that of the whole program in each of them."""

    t: Floats
    error: Floats
    highest: Floats
    lowest: Floats
    whole_t: Floats
    others: Bools

    @property
    def n_orders(self) -> int:
        return len(self.highest)

    def p_values(self) -> Floats:
        """Return the share of orders that reach the t of each function, in the direction of that t."""
        t = self.t[:-1]
        return np.where(t >= 0, _reach(t, self.highest), _reach(-t, -self.lowest))

    def p_of_whole(self) -> float:
        """Return the share of orders where a function or the whole reaches the t of the whole."""
        t = float(self.t[-1])
        t_of_orders = np.maximum(self.highest, self.whole_t) if t >= 0 else -np.minimum(self.lowest, self.whole_t)
        return float(_reach(np.array([abs(t)]), t_of_orders)[0])

    def critical_t(self, alpha: float) -> float:
        """Return what a t has to exceed for a p of at most `alpha`: so many of the other orders may reach it."""
        n_rarer = max(1, floor(alpha * self.n_orders * (1 + NEAR)))
        others = np.sort(self.highest[self.others])
        return float(others[max(0, len(others) - n_rarer)]) if len(others) else float("inf")


def _reach(t: Floats, of_orders: Floats) -> Floats:
    """Return the share of orders whose t is at least as large as each of these."""
    least = t - NEAR * (1 + np.abs(t))
    return (len(of_orders) - np.searchsorted(np.sort(of_orders), least)) / len(of_orders)


def count_orders(n_left: int, n_right: int) -> int:
    """Return how many orders are looked at: all, or those that are drawn and the measured one."""
    n_all = comb(n_left + n_right, n_right)
    return n_all if n_all <= MOST_ORDERS else N_DRAWN + 1


def compare_orders(y: Floats, whole: Floats, n_left: int, n_drawn: int = N_DRAWN) -> Extremes:
    """Compare the runs from `n_left` on with those before them, in all orders or in drawn ones. What is drawn does not
    depend on the order in which runs are given, nor on which side is called the left one."""
    n_runs = y.shape[1]
    runs = np.lexsort((*y[::-1], whole))
    is_right = (np.arange(n_runs) >= n_left)[runs]
    table = np.vstack([y, whole[None]])[:, runs]
    table = table - table.mean(axis=1, keepdims=True)
    sides, first_is_right = Sides(n_left, n_runs - n_left), bool(is_right[0])
    t, error = (part[:, 0] for part in _compare(table, is_right[:, None], sides))
    batches = [np.empty((3, 0))]
    others = [np.empty(0, np.bool_)]
    for drawn in _draw(is_right == first_is_right, n_drawn):
        labels = drawn if first_is_right else ~drawn
        every = _compare(table, labels, sides)[0]
        batches.append(np.stack([every[:-1].max(axis=0), every[:-1].min(axis=0), every[-1]]))
        others.append((labels != is_right[:, None]).any(axis=0))
    highest, lowest, whole_t = np.concatenate(batches, axis=1)
    return Extremes(t, error, highest, lowest, whole_t, np.concatenate(others))


def _draw(measured: Bools, n_drawn: int) -> Iterator[Bools]:
    """Yield which runs are on the side of the first run, (runs x orders), some orders at a time."""
    n_runs, n_chosen = len(measured), int(measured.sum())
    step = max(1, CELLS // n_runs)
    if comb(n_runs, n_chosen) <= MOST_ORDERS:
        chosen = np.array(list(combinations(range(n_runs), n_chosen)))
        for start in range(0, len(chosen), step):
            yield _mark(chosen[start : start + step], n_runs)
        return
    yield measured[:, None]
    random = np.random.default_rng(SEED)
    for start in range(0, n_drawn, step):
        keys = random.random((min(step, n_drawn - start), n_runs))
        yield _mark(np.argpartition(keys, n_chosen - 1, axis=1)[:, :n_chosen], n_runs)


def _mark(chosen: Array, n_runs: int) -> Bools:
    marks = np.zeros((n_runs, len(chosen)), np.bool_)
    marks[chosen.T, np.arange(len(chosen))] = True
    return marks


def _compare(table: Floats, labels: Bools, sides: Sides) -> tuple[Floats, Floats]:
    """Return t and se + s0, (functions x orders); labels are (runs x orders). The last row of the table is the whole
    program, which scatters less than functions do, so that its s0 is made of its own deviation."""
    deviations = _deviations(table, labels, sides)
    usual = np.quantile(deviations[:-1], QUARTILE, axis=0)
    t, error = np.empty((2, len(table), labels.shape[1]))
    s0 = np.broadcast_to(usual, t.shape).copy()
    s0[-1] = deviations[-1]
    s0 *= SHARE_OF_DEVIATION * sides.root
    for row, values in enumerate(table):
        falling = np.argsort(-values, kind="stable")
        difference, variance = _differ(values[falling], labels[falling], sides)
        error[row] = np.sqrt(variance) + s0[row] + ROUNDING
        t[row] = difference / error[row]
    return t, error


def _deviations(y: Floats, labels: Bools, sides: Sides) -> Floats:
    """Return the pooled standard deviation within sides, (functions x orders)."""
    is_right = labels.astype(np.float64)
    squares, right = (y * y).sum(axis=1, keepdims=True), _multiply(y, is_right)
    left = y.sum(axis=1, keepdims=True) - right
    within = squares - right**2 / sides.n_right - left**2 / sides.n_left
    deviations: Floats = np.sqrt(np.maximum(within, 0) / max(1, sides.n_left + sides.n_right - 2))
    return deviations


def _differ(values: Floats, labels: Bools, sides: Sides) -> tuple[Floats, Floats]:
    """Return the difference of the trimmed means, right less left, and its variance, of values that fall."""
    n_right_so_far = np.cumsum(labels, axis=0, dtype=np.int32)
    rank = np.arange(1, len(values) + 1, dtype=np.int32)[:, None]
    cut_left, cut_right = sides.trimmed
    right, of_right = _trim(values, labels, n_right_so_far, cut_right, sides.n_right)
    left, of_left = _trim(values, ~labels, rank - n_right_so_far, cut_left, sides.n_left)
    return right - left, of_right + of_left


def _trim(values: Floats, labels: Bools, so_far: Array, n_cut: int, n: int) -> tuple[Floats, Floats]:
    """Return the mean of a side without its largest values, and Yuen's variance of it. `so_far` counts the runs of the
    side from the largest on."""
    is_cut = so_far <= n_cut
    largest = values[np.minimum(is_cut.sum(axis=0), len(values) - 1)]  # that is kept: the first one that is not cut
    kept = (labels & ~is_cut).astype(np.float64)
    total, squares = _multiply(np.stack([values, values**2]), kept)
    n_kept = n - n_cut
    mean = (total + n_cut * largest) / n
    winsorised = np.maximum(squares + n_cut * largest**2 - n * mean**2, 0)
    return total / n_kept, winsorised / max(1, n_kept * (n_kept - 1))


def _multiply(rows: Floats, columns: Floats) -> Floats:
    """Return the product of two matrices on one core: a BLAS takes all for products that are too small for that."""
    product: Floats = np.einsum("fr,ro->fo", rows, columns, optimize=False)
    return product


def trim_means(values: Floats) -> Floats:
    """Return the mean of each row without its largest fifth."""
    n_kept = values.shape[1] - values.shape[1] // 5
    means: Floats = np.sort(values, axis=1)[:, :n_kept].mean(axis=1)
    return means


def pool_deviations(y: Floats, n_left: int) -> Floats:
    """Return the standard deviation of each function within sides."""
    sides = Sides(n_left, y.shape[1] - n_left)
    centred = y - y.mean(axis=1, keepdims=True)
    return _deviations(centred, (np.arange(y.shape[1]) >= n_left)[:, None], sides)[:, 0]
