"""Functions of models in Extra-P's notation: `5 + 2.5 * p^(3/2) * log2(p)^(1) + -0.1 * n^(2)`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

from callgrove.model.study import Segment, Term

__all__ = ["exponent_text", "function_text", "segments_text"]


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
    factors += _factors(term.exponents)
    return " * ".join(factors) or "1.0"


def _factors(exponents: Mapping[str, tuple[str, str]]) -> list[str]:
    found = []
    for parameter, (power, logarithm) in exponents.items():
        if power != "0":
            found.append(f"{parameter}^({power})")
        if logarithm != "0":
            found.append(f"log2({parameter})^({logarithm})")
    return found


def segments_text(segments: Sequence[Segment], parameter: str) -> str:
    """The pieces of a segmented model, each with where it holds."""
    parts = []
    for segment in segments:
        below = f"{parameter}<={segment.end!r}" if segment.end != float("inf") else ""
        above = f"{parameter}>={segment.start!r}" if segment.start != float("-inf") else ""
        parts.append(f"{segment.function} for {' and '.join(filter(None, (above, below))) or f'all {parameter}'}")
    return "; ".join(parts)
