"""The terms x^i * log2(x)^j that models are made of, in the order in which they are tried.

The order decides ties. Specification: modeling.md A2.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from itertools import product
from typing import NamedTuple

import numpy as np

from callgrove.model.arrays import Floats
from callgrove.modeling.options import ModelOptions

__all__ = ["Exponents", "candidates", "logs_are_possible", "term_values"]

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
    found = list(pairs if logarithms else plain)
    if negative:
        mirrored = [pair for pair in pairs if pair.logarithm] if logarithms else []
        found += [Exponents(-pair.power, -pair.logarithm) for pair in (*mirrored, *plain)]
    return tuple(found)


def _own(options: ModelOptions) -> list[Exponents]:
    combinations = list(product(options.powers, options.logs))
    if not options.combined:
        combinations = [*product(options.powers, [ZERO]), *product([ZERO], options.logs), *combinations]
    return [Exponents(*pair) for pair in combinations if any(pair)]


@cache
def _all_terms(options: ModelOptions) -> tuple[Exponents, ...]:
    usual = _usual(options.logarithms, options.negative)
    if not (options.powers or options.logs):
        return usual
    return (*_own(options), *(usual if options.retain else ()))


def logs_are_possible(x: Floats, options: ModelOptions) -> bool:
    """log2 of coordinates below 1 is negative, and of 1 it is no divisor."""
    return bool((x > 1).all() if options.negative else (x >= 1).all())


def candidates(x: Floats, options: ModelOptions) -> tuple[Exponents, ...]:
    """The terms to try at these coordinates."""
    terms = _all_terms(options)
    if logs_are_possible(x, options):
        return terms
    return tuple(term for term in terms if not term.logarithm)


def term_values(terms: Sequence[Exponents], x: Floats) -> Floats:
    """(terms x coordinates); not finite where a term has no value. A factor with exponent 0 is left out."""
    out = np.ones((len(terms), *x.shape))
    with np.errstate(all="ignore"):
        logarithm = np.log2(x) if any(term.logarithm for term in terms) else x
        for row, (power, log) in enumerate(terms):
            if power:
                out[row] *= x ** float(power)
            if log:
                out[row] *= logarithm ** float(log)
    return out
