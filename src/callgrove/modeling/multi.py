"""Models of several parameters: the terms of the single parameters, combined in the sum of products that fits best.

Specification: modeling.md A6.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np

from callgrove.arrays import Bools, Floats, Ids, Ints
from callgrove.modeling.functions import FunctionBuilder
from callgrove.modeling.least_squares import (
    CentredColumn,
    Costs,
    centre,
    constant_costs,
    multi_costs,
    smape_terms,
    solve,
)
from callgrove.modeling.options import ModelOptions
from callgrove.modeling.single import chunks

__all__ = ["ParameterFits", "combine", "structures"]

LEAST_CONTRIBUTION = 0.0005
SAME = 1e-10  # errors that differ by less (relative) are equal but for rounding
Product = tuple[int, ...]  # numbers of the terms that are multiplied
Structure = tuple[Product, ...]  # products that are added

# Of three terms, in the order in which they are tried; the product and the sum of all come first.
_OF_THREE = (
    "xyz+x xyz+y xyz+z xyz+xy xyz+yz xyz+xz xyz+xy+z xyz+yz+x xyz+xz+y xyz+x+y xyz+x+z xyz+y+z "
    "xy+z xy+z+y xy+z+x xz+y xz+y+x xz+y+z yz+x yz+x+y yz+x+z"
)


@dataclass(frozen=True, eq=False)
class ParameterFits:
    """The models of one parameter: c0 + c1 * factor; no factor (-1) where the parameter has no influence."""

    factor: Ids
    c0: Floats
    c1: Floats


@cache
def structures(n_terms: int, mixed: bool) -> tuple[Structure, ...]:
    """Return the sums of products to try for so many terms."""
    every = tuple(range(n_terms))
    out: list[Structure] = [(every,), tuple((k,) for k in every)]
    if mixed and n_terms == 2:
        out += [((0,), (0, 1)), ((1,), (0, 1))]
    if mixed and n_terms == 3:
        out += [
            tuple(tuple("xyz".index(letter) for letter in product) for product in text.split("+"))
            for text in _OF_THREE.split()
        ]
    return tuple(out)


@dataclass(frozen=True, eq=False)
class _Chunk:
    """Series that depend on the same parameters, values (points x series)."""

    rows: Ints
    parameters: Ints
    points: Floats
    y: Floats
    constant: Floats
    constant_costs: Costs


def combine(
    rows: Ints, points: Floats, y: Floats, fits: list[ParameterFits], options: ModelOptions, out: FunctionBuilder
) -> tuple[Costs, Ints]:
    """Put the models of series `rows` (of the builder) with values y (series x points) into the builder.

    Return their errors, and which of them (numbers in `rows`) had no finite model but a constant.
    """
    costs = Costs.make_unknown(len(rows))
    influence = np.stack([f.factor >= 0 for f in fits], axis=1)
    kinds, kind = np.unique(influence, axis=0, return_inverse=True)
    failed: list[Ints] = []
    for number, pattern in enumerate(kinds):
        members = np.flatnonzero(kind.reshape(-1) == number)
        parameters = np.flatnonzero(pattern)
        fit = _FITTERS.get(len(parameters), _fit_structures)
        for part in chunks(len(members), len(points) * 8):
            chosen = members[part]
            values = np.ascontiguousarray(y[chosen].T)
            mean, constant = constant_costs(values)
            out.put(rows[chosen], mean, np.empty((len(chosen), 0)), np.empty((len(chosen), 0, out.factor.shape[2])))
            chunk = _Chunk(chosen, parameters, points, values, mean, constant)
            chunk_costs, bad = fit(chunk, rows, fits, options, out)
            costs.put(chosen, chunk_costs)
            failed.append(chosen[bad])
    return costs, np.concatenate(failed) if failed else np.empty(0, np.int64)


def _fit_constant(
    chunk: _Chunk, rows: Ints, fits: list[ParameterFits], options: ModelOptions, out: FunctionBuilder
) -> tuple[Costs, Ints]:
    return chunk.constant_costs, np.empty(0, np.int64)


def _fit_one_term(
    chunk: _Chunk, rows: Ints, fits: list[ParameterFits], options: ModelOptions, out: FunctionBuilder
) -> tuple[Costs, Ints]:
    """Return the coefficients of the single model, or new ones from all points if those fit better."""
    parameter = int(chunk.parameters[0])
    fit = fits[parameter]
    factor = fit.factor[chunk.rows]
    values = _values(out, factor, chunk.points[:, parameter])
    c0, c1 = fit.c0[chunk.rows], fit.c1[chunk.rows]
    column, y = centre(values), centre(chunk.y)
    new0, new1 = solve([column], y)
    if len(zeros := np.flatnonzero(_has_zero(chunk.y))):
        new0[zeros], new1[zeros] = solve([column.take(zeros)], y.take(zeros), singly=True)
    with np.errstate(all="ignore"):
        old = multi_costs(c0 + c1 * values, chunk.y, chunk.constant_costs.rss, 1)
        new = multi_costs(new0 + new1 * values, chunk.y, chunk.constant_costs.rss, 1)
        better = new.smape < old.smape
        if options.compare_with_rss:
            better |= new.rss < old.rss
    costs = new.where(better, old)
    coefficient = np.where(better, new1, c1)[:, None]
    table = np.full((len(chunk.rows), 1, len(fits)), -1, np.int32)
    table[:, 0, parameter] = factor
    bad = ~np.isfinite(costs.smape)
    good = np.flatnonzero(~bad)
    out.put(rows[chunk.rows[good]], np.where(better, new0, c0)[good], coefficient[good], table[good])
    return costs.where(~bad, chunk.constant_costs), np.flatnonzero(bad)


_Fitter = Callable[[_Chunk, Ints, list[ParameterFits], ModelOptions, FunctionBuilder], tuple[Costs, Ints]]
_FITTERS: dict[int, _Fitter] = {0: _fit_constant, 1: _fit_one_term}


def _fit_structures(
    chunk: _Chunk, rows: Ints, fits: list[ParameterFits], options: ModelOptions, out: FunctionBuilder
) -> tuple[Costs, Ints]:
    """Return the best structure of each series."""
    factors = [fits[p].factor[chunk.rows] for p in chunk.parameters.tolist()]
    single = [
        _values(out, factor, chunk.points[:, p]) for factor, p in zip(factors, chunk.parameters.tolist(), strict=True)
    ]
    tried = structures(len(single), options.mixed)
    choice = _Choice(chunk.y, single, options)
    for number, structure in enumerate(tried):
        choice.consider(number, structure)
    delicate = np.flatnonzero(choice.is_tie | _has_zero(chunk.y))
    if len(delicate):
        again = _Choice(chunk.y[:, delicate], [values[:, delicate] for values in single], options, singly=True)
        for number, structure in enumerate(tried):
            again.consider(number, structure)
        choice.put(delicate, again)
    n_factors = np.array([sum(map(len, structure)) for structure in tried])[choice.best]
    costs = multi_costs(choice.predicted, chunk.y, chunk.constant_costs.rss, n_factors)
    bad = ~np.isfinite(choice.error)
    for number, structure in enumerate(tried):
        chosen = np.flatnonzero((choice.best == number) & ~bad)
        if len(chosen):
            table = np.full((len(chosen), len(structure), len(fits)), -1, np.int32)
            for k, product in enumerate(structure):
                for position in product:
                    table[:, k, chunk.parameters[position]] = factors[position][chosen]
            coefficients = choice.coefficients[: len(structure) + 1, chosen]
            out.put(rows[chunk.rows[chosen]], coefficients[0], coefficients[1:].T, table)
    return costs.where(~bad, chunk.constant_costs), np.flatnonzero(bad)


class _Choice:
    """The best structure so far of every series.

    Structures with equal errors (on a cross of points many have) are told apart by rounding alone, and so are models
    that predict 0 or nearly 0 where 0 was measured. There coefficients come from lstsq and products are multiplied in
    Extra-P's order, which gives its choice.
    """

    def __init__(self, y: Floats, single: list[Floats], options: ModelOptions, singly: bool = False) -> None:
        self._y, self._single, self._by_rss, self._singly = centre(y), single, options.compare_with_rss, singly
        self._products: dict[Product, tuple[CentredColumn, Floats]] = {}
        n = y.shape[1]
        self.error, self.best = np.full(n, np.inf), np.zeros(n, np.int64)
        self.second = np.full(n, np.inf)  # the least error of the others
        self.coefficients = np.full((1 + max(3, len(single)), n), np.nan)
        self.predicted = np.full_like(y, np.nan)

    @property
    def is_tie(self) -> Bools:
        tie: Bools = (self.second <= self.error * (1 + SAME)) & np.isfinite(self.error)
        return tie

    def put(self, rows: Ints, other: _Choice) -> None:
        """Overwrite some series."""
        self.error[rows], self.best[rows] = other.error, other.best
        self.coefficients[:, rows], self.predicted[:, rows] = other.coefficients, other.predicted

    def consider(self, number: int, structure: Structure) -> None:
        """Take a structure where it is strictly better; the first is taken whatever its terms contribute."""
        parts = [self._product(product) for product in structure]
        coefficients = solve([column for column, _ in parts], self._y, singly=self._singly)
        y = self._y.values
        with np.errstate(all="ignore"):
            predicted = self._predict(structure, coefficients)
            difference = predicted - y
            if self._by_rss:
                error = (difference * difference).sum(axis=0)
            else:
                error = smape_terms(difference, predicted.copy(), y).sum(axis=0) * 2 / len(y) * 100
            possible = ~np.isnan(error)
            if number:
                for k, (_, reach) in enumerate(parts, 1):
                    possible &= (coefficients[k] != 0) & ~(np.abs(coefficients[k]) * reach < LEAST_CONTRIBUTION)
            better = possible & (error < self.error)
        self.second = np.where(possible, np.minimum(self.second, np.where(better, self.error, error)), self.second)
        self.error = np.where(better, error, self.error)
        self.best[better] = number
        self.coefficients[: len(coefficients), better] = coefficients[:, better]
        self.predicted[:, better] = predicted[:, better]

    def _predict(self, structure: Structure, coefficients: Floats) -> Floats:
        predicted = np.repeat(coefficients[:1], len(self._y.values), axis=0)
        for k, product in enumerate(structure, 1):
            if self._singly:
                values = coefficients[k]
                for position in product:
                    values = values * self._single[position]
                predicted += values
            else:
                predicted += coefficients[k] * self._product(product)[0].values
        return predicted

    def _product(self, product: Product) -> tuple[CentredColumn, Floats]:
        """Return the values of a product of terms, and the largest part of a measurement that it is."""
        if product not in self._products:
            with np.errstate(all="ignore"):
                values = self._single[product[0]]
                for position in product[1:]:
                    values = values * self._single[position]
                reach = np.abs(values / self._y.values).max(axis=0)
            self._products[product] = centre(values), reach
        return self._products[product]


def _has_zero(y: Floats) -> Bools:
    has_zero: Bools = (y == 0).any(axis=0)
    return has_zero


def _values(out: FunctionBuilder, factor: Ids, x: Floats) -> Floats:
    """Return (points x series): the factor of each series at coordinates."""
    used, back = np.unique(factor, return_inverse=True)
    table = np.stack([out.factor_at(f).at(x) for f in used.tolist()], axis=1)
    return np.ascontiguousarray(table[:, back.reshape(-1)])
