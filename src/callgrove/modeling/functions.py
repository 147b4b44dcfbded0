"""The terms x^i * log2(x)^j that models are made of, and fitted functions as columns of them.

    constant    [M]        c0
    bounds      [M + 1]    model m owns the terms bounds[m] .. bounds[m + 1]
    coefficient [T]        c
    factor      [T, P]     number in `factors`, -1 where the parameter takes no part

A factor is p^i * log2(p)^j, or a function in pieces (segmented models), undefined between them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache, lru_cache
from itertools import product
from typing import NamedTuple

import numpy as np

from callgrove.arrays import ABSENT, Array, Floats, Ids, Ints
from callgrove.modeling.options import ModelOptions

__all__ = [
    "FLAT",
    "Exponents",
    "Factor",
    "FunctionBuilder",
    "Functions",
    "Piece",
    "TermOf",
    "candidates",
    "list_improved_terms",
    "logs_are_possible",
    "term_values",
    "usual_terms",
]


# -- terms -------------------------------------------------------------------------------------------------------------
# The order decides ties. Specification: modeling.md A2.


ZERO = Fraction(0)

# power: exponents of the logarithm, as they take turns
_USUAL = (
    "0:1 0:2 1/4:0 1/3:0 1/4:1 1/3:1 1/4:2 1/3:2 1/2:0 1/2:1 1/2:2 2/3:0 3/4:0 2/3:1 3/4:1 4/5:0 2/3:2 "
    "3/4:2 1:0 1:1 1:2 5/4:0 5/4:1 4/3:0 4/3:1 3/2:0 3/2:1 3/2:2 5/3:0 7/4:0 2:0 2:1 2:2 9/4:0 7/3:0 "
    "5/2:0 5/2:1 5/2:2 8/3:0 11/4:0 3:0 3:1"
)


class Exponents(NamedTuple):
    """x^power * log2(x)^logarithm."""

    power: Fraction
    logarithm: Fraction


@cache
def _usual(logarithms: bool, negative: bool) -> tuple[Exponents, ...]:
    pairs = [Exponents(*map(Fraction, pair.split(":"))) for pair in _USUAL.split()]
    plain = [pair for pair in pairs if not pair.logarithm]
    terms = list(pairs if logarithms else plain)
    if negative:
        mirrored = [pair for pair in pairs if pair.logarithm] if logarithms else []
        terms += [Exponents(-pair.power, -pair.logarithm) for pair in (*mirrored, *plain)]
    return tuple(terms)


def _terms_of_options(options: ModelOptions) -> list[Exponents]:
    combinations = list(product(options.powers, options.logs))
    if not options.combined:
        combinations = [*product(options.powers, [ZERO]), *product([ZERO], options.logs), *combinations]
    return [Exponents(*pair) for pair in combinations if any(pair)]


@lru_cache(maxsize=8)
def _all_terms(options: ModelOptions) -> tuple[Exponents, ...]:
    usual = _usual(options.logarithms, options.negative)
    if not (options.powers or options.logs):
        return usual
    return (*_terms_of_options(options), *(usual if options.retain else ()))


def logs_are_possible(x: Floats, options: ModelOptions) -> bool:
    """Return whether logarithms can be used: log2 of coordinates below 1 is negative, and of 1 it is not a divisor."""
    return bool((x > 1).all() if options.negative else (x >= 1).all())


def candidates(x: Floats, options: ModelOptions) -> tuple[Exponents, ...]:
    """Return the terms to try at these coordinates."""
    terms = _all_terms(options)
    if logs_are_possible(x, options):
        return terms
    return tuple(term for term in terms if not term.logarithm)


def usual_terms(x: Floats) -> tuple[Exponents, ...]:
    """Return the terms that grow, without logarithms where a coordinate is below 1."""
    return _usual(bool((x >= 1).all()), False)


def list_improved_terms(x: Floats) -> tuple[Exponents, ...]:
    """Return the terms that the improved method weighs: the usual ones, and plain powers that fall."""
    return usual_terms(x) + tuple(Exponents(-power, log) for power, log in _usual(False, False))


def term_values(terms: Sequence[Exponents], x: Floats) -> Floats:
    """Return (terms x coordinates); not finite where a term has no value. A factor with exponent 0 is left out."""
    out = np.ones((len(terms), *x.shape))
    with np.errstate(all="ignore"):
        logarithm = np.log2(x) if any(term.logarithm for term in terms) else x
        for row, (power, log) in enumerate(terms):
            if power:
                out[row] *= x ** float(power)
            if log:
                out[row] *= logarithm ** float(log)
    return out


# -- functions as columns ----------------------------------------------------------------------------------------------


FLAT = Exponents(Fraction(0), Fraction(0))


@dataclass(frozen=True)
class Piece:
    """One part of a function in pieces: constant + sum of coefficient * exponents for start <= x <= end."""

    start: float
    end: float
    constant: float
    terms: tuple[tuple[float, Exponents], ...] = ()


@dataclass(frozen=True)
class Factor:
    """What a parameter contributes to a term."""

    exponents: Exponents = FLAT
    pieces: tuple[Piece, ...] = ()

    def at(self, x: Floats) -> Floats:
        if not self.pieces:
            values: Floats = term_values([self.exponents], x)[0]
            return values
        out = np.full(x.shape, np.nan)
        for piece in reversed(self.pieces):  # the first that contains a coordinate counts
            inside = (piece.start <= x) & (x <= piece.end)
            out[inside] = piece.constant
            for coefficient, exponents in piece.terms:
                out[inside] += coefficient * term_values([exponents], x[inside])[0]
        return out


@dataclass(frozen=True)
class TermOf:
    """One term of one function."""

    coefficient: float
    factors: tuple[tuple[int, Factor], ...]  # (number of the parameter, factor)


@dataclass(frozen=True, eq=False)
class Functions:
    """M functions of the same parameters."""

    parameters: tuple[str, ...]
    constant: Floats
    bounds: Ints
    coefficient: Floats
    factor: Ids
    factors: tuple[Factor, ...]

    def __len__(self) -> int:
        return len(self.constant)

    @property
    def owner(self) -> Ints:
        """The function of each term."""
        return np.repeat(np.arange(len(self)), np.diff(self.bounds))

    def terms(self, number: int) -> Iterator[TermOf]:
        for term in range(int(self.bounds[number]), int(self.bounds[number + 1])):
            parts = tuple((p, self.factors[f]) for p, f in enumerate(self.factor[term].tolist()) if f >= 0)
            yield TermOf(float(self.coefficient[term]), parts)

    def term_values(self, points: Floats) -> Floats:
        """Return (terms x points): every term with its coefficient."""
        values = np.repeat(self.coefficient[:, None], len(points), axis=1)
        with np.errstate(all="ignore"):
            for p in range(len(self.parameters)):
                used, back = np.unique(self.factor[:, p], return_inverse=True)
                table = np.ones((len(used), len(points)))
                for row, number in enumerate(used.tolist()):
                    if number >= 0:
                        table[row] = self.factors[number].at(points[:, p])
                values *= table[back.reshape(-1)]
        return values

    def evaluate(self, points: Floats) -> Floats:
        """Return (functions x points): the values of the functions."""
        out = np.repeat(self.constant[:, None], len(points), axis=1)
        values = self.term_values(points)
        n_terms = np.diff(self.bounds)
        with np.errstate(all="ignore"):
            for k in range(int(n_terms.max(initial=0))):  # added term by term, in their order
                rows = np.flatnonzero(n_terms > k)
                out[rows] += values[self.bounds[rows] + k]
        return out

    def take(self, rows: Ints) -> Functions:
        """Return some of the functions."""
        sizes = np.diff(self.bounds)[rows]
        bounds = np.append(0, np.cumsum(sizes))
        chosen = np.arange(bounds[-1]) + np.repeat(self.bounds[rows] - bounds[:-1], sizes)
        return Functions(
            self.parameters, self.constant[rows], bounds, self.coefficient[chosen], self.factor[chosen], self.factors
        )


def join_functions(parts: Sequence[Functions]) -> Functions:
    """Return the functions of several parts, one after the other; what is a factor in two of them is one factor."""
    if len(parts) == 1:
        return parts[0]
    numbers: dict[Factor, int] = {}
    factors = []
    for part in parts:
        place = np.array([*(numbers.setdefault(one, len(numbers)) for one in part.factors), ABSENT], np.int32)
        factors.append(place[part.factor])  # the last place is that of no factor, -1
    return Functions(
        parts[0].parameters,
        np.concatenate([part.constant for part in parts]),
        np.append(0, np.cumsum(np.concatenate([np.diff(part.bounds) for part in parts]))),
        np.concatenate([part.coefficient for part in parts]),
        np.concatenate(factors),
        tuple(numbers),
    )


@dataclass(eq=False)
class FunctionBuilder:
    """Collects the functions of n series, in any order, in a table with room for some terms each."""

    parameters: tuple[str, ...]
    n: int
    most_terms: int
    constant: Floats = field(init=False)
    coefficient: Floats = field(init=False)
    factor: Ids = field(init=False)
    n_terms: Ints = field(init=False)

    def __post_init__(self) -> None:
        shape = (self.n, self.most_terms)
        self.constant, self.coefficient = np.full(self.n, np.nan), np.zeros(shape)
        self.factor = np.full((*shape, len(self.parameters)), -1, np.int32)
        self.n_terms = np.zeros(self.n, np.int64)
        self._numbers: dict[Factor, int] = {}
        self._listed: list[Factor] = []

    def factor_number(self, factor: Factor) -> int:
        return self._numbers.setdefault(factor, len(self._numbers))

    def factor_at(self, number: int) -> Factor:
        if len(self._listed) < len(self._numbers):  # new ones come at the end
            self._listed = list(self._numbers)
        return self._listed[number]

    def numbers(self, terms: Sequence[Exponents]) -> Ids:
        return np.array([self.factor_number(Factor(term)) for term in terms], np.int32)

    def put(self, rows: Ints, constant: Floats, coefficient: Floats, factor: Array) -> None:
        """Add functions with the same number of terms: coefficient [rows, terms], factor [rows, terms, parameters]."""
        n_terms = coefficient.shape[1]
        self.constant[rows], self.n_terms[rows] = constant, n_terms
        self.coefficient[rows, :n_terms] = coefficient
        self.factor[rows, :n_terms] = factor

    def build(self) -> Functions:
        used = np.arange(self.most_terms) < self.n_terms[:, None]
        bounds = np.append(0, np.cumsum(self.n_terms))
        return Functions(
            self.parameters, self.constant, bounds, self.coefficient[used], self.factor[used], tuple(self._numbers)
        )
