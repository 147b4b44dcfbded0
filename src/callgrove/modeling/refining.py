"""Models of one parameter whose exponents are found by bisection between neighbours (Extra-P's refining modeller).

Exponents are searched along slices: the power with a fixed exponent of the logarithm, and the exponent of the logarithm
alone. A slice keeps three exponents left < centre < right; each round tries the mediants beside the centre. All series
take their rounds together; those that improve no more leave.

Specification: modeling.md A7.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from callgrove.arrays import Bools, Floats, Ints
from callgrove.modeling.functions import ZERO, Exponents
from callgrove.modeling.least_squares import MOST_DIRECT_POINTS, Design, constant_costs, design
from callgrove.modeling.options import ModelOptions
from callgrove.modeling.single import SingleFits, chunks, constants, contribution, fit_chosen, score_chosen

__all__ = ["fit_refining"]

POWERS, LOGS = range(6), range(3)
MOST_ROUNDS = 10
ACCEPTANCE, TERMINATION, NOT_CONSTANT = 1.5, 2.0, 1.3
LEAST_CONTRIBUTION = 0.0005


@dataclass(frozen=True)
class Slice:
    """One exponent varies: the power, with that logarithm, or (without one) the logarithm."""

    logarithm: Fraction | None

    @property
    def start(self) -> range:
        return LOGS if self.logarithm is None else POWERS

    def term(self, exponent: Fraction) -> Exponents:
        return Exponents(ZERO, exponent) if self.logarithm is None else Exponents(exponent, self.logarithm)


@dataclass(eq=False)
class Best:
    """The best term so far of each series; no term has an infinite error."""

    term: Ints  # in the pool of terms; -1: none
    smape: Floats
    error: Floats  # what is compared: SMAPE or RSS

    @classmethod
    def nothing(cls, n: int) -> Best:
        return cls(np.full(n, -1), np.full(n, np.inf), np.full(n, np.inf))

    def take(self, rows: Ints | Bools) -> Best:
        return Best(self.term[rows], self.smape[rows], self.error[rows])

    def put(self, rows: Ints | Bools, other: Best) -> None:
        self.term[rows], self.smape[rows], self.error[rows] = other.term, other.smape, other.error


class Pool:
    """Terms and exponents with numbers, so that states are arrays."""

    def __init__(self) -> None:
        self.exponents: list[Fraction] = []
        self.terms: list[Exponents] = []
        self._of_exponent: dict[Fraction, int] = {}
        self._of_term: dict[Exponents, int] = {}

    def exponent(self, value: Fraction) -> int:
        if value not in self._of_exponent:
            self._of_exponent[value] = len(self.exponents)
            self.exponents.append(value)
        return self._of_exponent[value]

    def term(self, term: Exponents) -> int:
        if term not in self._of_term:
            self._of_term[term] = len(self.terms)
            self.terms.append(term)
        return self._of_term[term]

    def map_rows(self, numbers: Ints, function: Callable[..., int]) -> Ints:
        """Return the function of each row of numbers, called once for equal rows."""
        unique, back = np.unique(numbers.reshape(len(numbers), -1), axis=0, return_inverse=True)
        return np.array([function(*row) for row in unique.tolist()], np.int64)[back.reshape(-1)]

    def mediants(self, left: Ints, right: Ints) -> Ints:
        def mediant(a: int, b: int) -> int:
            one, other = self.exponents[a], self.exponents[b]
            return self.exponent(Fraction(one.numerator + other.numerator, one.denominator + other.denominator))

        return self.map_rows(np.stack([left, right], axis=1), mediant)


def fit_refining(x: Floats, y: Floats, options: ModelOptions) -> SingleFits:
    """Return the models of series (series x points) at coordinates x; all values are finite."""
    if len(x) < 2:
        return constants(y)
    pool = Pool()
    term = np.full(len(y), -1)
    fits = SingleFits.empty((), len(y))
    cells = 3 * len(x) * (len(x) * 2 if len(x) <= MOST_DIRECT_POINTS else 4)
    for rows in chunks(len(y), cells):
        search = _Search(x, np.ascontiguousarray(y[rows].T), options, pool)
        part = search.result()
        fits.put(rows, part)
        term[rows] = part.term
    return SingleFits(tuple(pool.terms), term, fits.c0, fits.c1, fits.costs)


class _Search:
    """The refinement of one chunk of series, values (points x series)."""

    def __init__(self, x: Floats, y: Floats, options: ModelOptions, pool: Pool) -> None:
        self.x, self.y, self.options, self.pool = x, y, options, pool
        self.mean, self.constant = constant_costs(y)
        self.rows = np.flatnonzero(self.constant.rss != 0)
        logs = options.logarithms and bool((x >= 1).all())
        self.slices = [Slice(Fraction(log)) for log in (LOGS if logs else LOGS[:1])] + ([Slice(None)] if logs else [])

    def result(self) -> SingleFits:
        n = self.y.shape[1]
        fits = SingleFits((), np.full(n, -1), self.mean, np.zeros(n), self.constant)
        if not len(self.rows):
            return fits
        best = self._refine()
        chosen = best.term >= 0
        rows, term, smape = self.rows[chosen], best.term[chosen], best.smape[chosen]
        if not len(rows):
            return fits
        y, constant = self.y[:, rows], self.constant.take(rows)
        made, row = self._design(term)
        c0, c1, costs = fit_chosen(made, row, y, constant, self.options)
        with np.errstate(all="ignore"):
            small = contribution(made.values[row].T, c1, y) < LEAST_CONTRIBUTION
            kept = ~((constant.smape / smape < NOT_CONSTANT) | small)
        rows, term = rows[kept], term[kept]
        fits.put(rows, SingleFits((), term, c0[kept], c1[kept], costs.take(np.flatnonzero(kept))))
        return fits

    def _refine(self) -> Best:
        n = len(self.rows)
        states, previous = [], []
        for part in self.slices:
            state, best = self._start(part)
            states.append(state)
            previous.append(best)
        accepted = _least(previous)
        threshold, active = np.full(n, ACCEPTANCE), np.ones(n, np.bool_)
        for _ in range(MOST_ROUNDS):
            step = [self._step(part, states[k], active) for k, part in enumerate(self.slices)]
            now = _least(step)
            with np.errstate(all="ignore"):
                better = active & (accepted.smape / now.smape >= threshold)
            taken = better & (now.error < accepted.error)
            accepted.put(taken, now.take(taken))
            threshold = np.where(better, ACCEPTANCE, threshold * ACCEPTANCE)
            active &= _improvement(previous, step) >= TERMINATION
            if not active.any():
                break
            previous = step
        return accepted

    def _start(self, part: Slice) -> tuple[Ints, Best]:
        """Return the best of the coarse exponents, and its neighbours."""
        numbers = np.array([self.pool.exponent(Fraction(e)) for e in part.start])
        every = np.repeat(numbers[:, None], len(self.rows), axis=1)
        index, best = self._best_of(part, every, self.rows)
        centre = np.maximum(index, 0)
        around = np.clip(centre + np.array([[-1], [0], [1]]), 0, len(numbers) - 1)
        return numbers[around], best

    def _step(self, part: Slice, state: Ints, active: Bools) -> Best:
        """Do one round of a slice; `state` [3, series] is moved."""
        rows = np.flatnonzero(active)
        left, centre, right = state[:, rows]
        tried = np.stack([self.pool.mediants(left, centre), centre, self.pool.mediants(centre, right)])
        index, best = self._best_of(part, tried, self.rows[rows])
        down = np.stack([left, tried[0], centre])
        up = np.stack([centre, tried[2], right])
        state[:, rows] = np.where(index == 0, down, np.where(index == 2, up, tried))
        whole = Best.nothing(state.shape[1])
        whole.put(rows, best)
        return whole

    def _best_of(self, part: Slice, tried: Ints, rows: Ints) -> tuple[Ints, Best]:
        """Return which of the exponents [choices, series] is best. The first that is valid is taken as it is, later
        ones must contribute and be better."""
        exponents = self.pool.exponents

        def number(exponent: int) -> int:
            term = part.term(exponents[exponent])
            return self.pool.term(term) if any(term) else -1

        terms = self.pool.map_rows(tried.reshape(-1, 1), number).reshape(tried.shape)
        is_term = terms >= 0
        usable = np.where(is_term, terms, terms.max())
        made, row = self._design(usable.reshape(-1))
        y = self.y[:, rows]
        scores, values = score_chosen(made, row.reshape(tried.shape), y, self.options)
        slope = scores.c1
        if self.options.cross_validation:
            slope = np.einsum("qsp,ps->qs", made.full[row.reshape(tried.shape)][:, :, 1], y)
        valid = is_term & np.isfinite(scores.rss)
        error = scores.rss if self.options.compare_with_rss else scores.smape
        enough = (slope != 0) & ~(contribution(values, slope[:, None], y) < self.options.contribution)
        index = _first_then_better(error, valid, enough)
        series = np.arange(len(rows))
        at = np.maximum(index, 0)
        none = index < 0
        best = Best(
            np.where(none, -1, usable[at, series]),
            np.where(none, np.inf, scores.smape[at, series]),
            np.where(none, np.inf, error[at, series]),
        )
        return index, best

    def _design(self, terms: Ints) -> tuple[Design, Ints]:
        unique, back = np.unique(terms, return_inverse=True)
        made = design(self.x, [self.pool.terms[t] for t in unique.tolist()], keep_all=True)
        return made, back.reshape(-1)


def _first_then_better(error: Floats, valid: Bools, enough: Bools) -> Ints:
    first = np.argmax(valid, axis=0)
    series = np.arange(error.shape[1])
    order = np.arange(len(error))[:, None]
    allowed = (order == first) | ((order > first) & valid & enough)
    index = np.argmin(np.where(allowed & ~np.isnan(error), error, np.inf), axis=0)
    index = np.where(np.isnan(error[first, series]), first, index)
    return np.where(valid.any(axis=0), index, -1)


def _least(bests: Sequence[Best]) -> Best:
    """Return the first of the least of several."""
    best = bests[0].take(np.arange(len(bests[0].term)))
    for other in bests[1:]:
        better = other.error < best.error
        best.put(better, other.take(better))
    return best


def _improvement(previous: Sequence[Best], step: Sequence[Best]) -> Floats:
    """Return the largest improvement of a slice; one that is undefined at first hides the others, as Python's max
    does."""
    with np.errstate(all="ignore"):
        ratios = [before.smape / now.smape for before, now in zip(previous, step, strict=True)]
        largest = ratios[0]
        for ratio in ratios[1:]:
            largest = np.where(ratio > largest, ratio, largest)
    return largest
