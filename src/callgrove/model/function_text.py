"""Functions of models in Extra-P's notation: `5 + 2.5 * p^(3/2) * log2(p)^(1) + -0.1 * n^(2)`."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import inf

from callgrove.model.study import Segment, Term

__all__ = ["bounds_text", "exponent_text", "factor_texts", "function_text", "segments_text"]


def exponent_text(value: float | str) -> str:
    """An exponent as a fraction in lowest terms; `2` for 2.0 and `3/2` for 1.5."""
    try:
        exact = Fraction(value) if isinstance(value, str) else Fraction(value).limit_denominator(1000)
    except (ValueError, ZeroDivisionError, OverflowError) as error:
        raise ValueError(f"{value!r} is no exponent") from error
    if isinstance(value, str) or float(exact) == float(value):
        return str(exact)
    return repr(float(value))


def function_text(constant: float, terms: Sequence[Term]) -> str:
    """A sum; the constant is left out where it is 0 and there are terms, a coefficient where it is exactly 1."""
    parts = [_term_text(term) for term in terms]
    if constant != 0 or not terms:
        parts.insert(0, repr(float(constant)))
    return " + ".join(parts)


def _term_text(term: Term) -> str:
    factors = [] if term.coefficient == 1 else [repr(float(term.coefficient))]
    for parameter, (power, logarithm) in term.exponents.items():
        factors += factor_texts(parameter, power, logarithm)
    return " * ".join(factors) or "1.0"


def factor_texts(parameter: str, power: str, logarithm: str) -> list[str]:
    """What a parameter contributes to a term; nothing for exponents of 0."""
    powers = [f"{parameter}^({power})"] if power != "0" else []
    return powers + ([f"log2({parameter})^({logarithm})"] if logarithm != "0" else [])


def segments_text(segments: Sequence[Segment], parameter: str) -> str:
    """The pieces of a segmented model, each with where it holds."""
    return "; ".join(f"{one.function} for {bounds_text(parameter, one.start, one.end)}" for one in segments)


def bounds_text(parameter: str, start: float, end: float) -> str:
    """Where a piece of a function holds."""
    above = [f"{parameter}>={start!r}"] if start != -inf else []
    below = [f"{parameter}<={end!r}"] if end != inf else []
    return " and ".join(above + below) or f"all {parameter}"
