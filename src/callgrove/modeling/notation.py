"""Functions as text: in Extra-P's notation, as Python, as LaTeX; and how fast they grow.

extrap   5.0 + 2.5 * p^(3/2) * log2(p)^(1)     in pieces: 2.0 * p^(1) for p<=5.0; 30.0 for p>=6.0
python   5.0 + 2.5 * p**(3/2) * log2(p)**(1)
latex    5 + 2.5 \\cdot p^{3/2} \\cdot \\log_2(p)
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf, isfinite

from callgrove.model.study.series import bounds_text, factor_texts
from callgrove.modeling.functions import FLAT, Exponents, Factor, Functions, Piece

__all__ = ["STYLES", "function_text", "order_text", "piece_text"]


@dataclass(frozen=True)
class Style:
    """How the parts of a function are written."""

    name: Callable[[str], str]
    number: Callable[[float], str]
    factors: Callable[[str, Exponents], list[str]]
    times: str
    plus: Callable[[list[str]], str]
    pieces: Callable[[list[str], Sequence[Piece], str], str]


def function_text(functions: Functions, number: int, style: str = "extrap") -> str:
    """Return one function. A constant of 0 is left out, and so is a coefficient of exactly 1."""
    how = STYLES[style]
    terms = list(functions.terms(number))
    constant = float(functions.constant[number])
    if len(terms) == 1 and constant == 0 and terms[0].coefficient == 1 and len(terms[0].factors) == 1:
        parameter, factor = terms[0].factors[0]
        if factor.pieces:
            return _pieces(how, factor, functions.parameters[parameter])
    texts = []
    for term in terms:
        factors = [text for p, factor in term.factors for text in _factor(how, factor, functions.parameters[p])]
        texts.append((term.coefficient, factors))
    return _sum(how, constant, texts)


def piece_text(piece: Piece, parameter: str, style: str = "extrap") -> str:
    """Return one part of a function in pieces."""
    return _piece(STYLES[style], piece, parameter)


def _sum(how: Style, constant: float, terms: list[tuple[float, list[str]]]) -> str:
    parts = [] if constant == 0 and terms else [how.number(constant)]
    for coefficient, factors in terms:
        first = [] if coefficient == 1 and factors else [how.number(coefficient)]
        parts.append(how.times.join([*first, *factors]))
    return how.plus(parts)


def _always_plus(parts: list[str]) -> str:
    """Join terms as Extra-P writes `+ -2.0`."""
    return " + ".join(parts)


def _plus_or_minus(parts: list[str]) -> str:
    return " + ".join(parts).replace("+ -", "- ")


def _factor(how: Style, factor: Factor, parameter: str) -> list[str]:
    if factor.pieces:
        pieces = _pieces(how, factor, parameter)
        return [f"{{{pieces}}}" if how is STYLES["extrap"] else pieces]
    return how.factors(how.name(parameter), factor.exponents)


def _pieces(how: Style, factor: Factor, parameter: str) -> str:
    return how.pieces([_piece(how, piece, parameter) for piece in factor.pieces], factor.pieces, how.name(parameter))


def _piece(how: Style, piece: Piece, parameter: str) -> str:
    name = how.name(parameter)
    return _sum(how, piece.constant, [(c, how.factors(name, exponents)) for c, exponents in piece.terms])


def _extrap_factors(name: str, exponents: Exponents) -> list[str]:
    power, log = exponents
    return factor_texts(name, str(power), str(log))


def _extrap_pieces(sums: list[str], pieces: Sequence[Piece], name: str) -> str:
    cases = zip(sums, pieces, strict=True)
    return "; ".join(f"{text} for {bounds_text(name, piece.start, piece.end)}" for text, piece in cases)


def _short_number(value: float) -> str:
    return f"{value:.4g}"


def _python_name(parameter: str) -> str:
    """Return a name that Python takes."""
    name = re.sub(r"\W", "_", parameter)
    return f"_{name}" if not name or name[0].isdigit() or keyword.iskeyword(name) else name


def _python_number(value: float) -> str:
    return repr(value) if isfinite(value) else f"float('{value!r}')"


def _python_factors(name: str, exponents: Exponents) -> list[str]:
    power, log = exponents
    return [f"{name}**({power})"] * bool(power) + [f"log2({name})**({log})"] * bool(log)


def _python_pieces(sums: list[str], pieces: Sequence[Piece], name: str) -> str:
    cases = []
    for text, piece in zip(sums, pieces, strict=True):
        bounds = [f"{piece.start!r} <= "] * (piece.start != -inf), [f" <= {piece.end!r}"] * (piece.end != inf)
        where = f"{''.join(bounds[0])}{name}{''.join(bounds[1])}"
        cases.append(f"{text} if {where if where != name else True} else ")
    return f"({''.join(cases)}float('nan'))"


def _latex_name(parameter: str) -> str:
    escaped = (
        re.sub(r"[#$%&_{}]", r"\\\g<0>", parameter.replace("\\", "/")).replace("^", r"\hat{}").replace("~", r"\sim ")
    )
    return escaped if len(parameter) == 1 else rf"\mathit{{{escaped}}}"


def _latex_number(value: float) -> str:
    digits, _, exponent = f"{value:.4g}".partition("e")
    return rf"{digits} \cdot 10^{{{int(exponent)}}}" if exponent else digits.replace("inf", r"\infty")


def _latex_factors(name: str, exponents: Exponents) -> list[str]:
    texts = []
    for base, exponent in zip((name, rf"\log_2({name})"), exponents, strict=True):
        if exponent:
            texts.append(base if exponent == 1 else f"{base}^{{{exponent}}}")
    return texts


def _latex_pieces(sums: list[str], pieces: Sequence[Piece], name: str) -> str:
    rows = []
    for text, piece in zip(sums, pieces, strict=True):
        where = bounds_text(name, piece.start, piece.end)
        where = where.replace(">=", r" \ge ").replace("<=", r" \le ").replace(" and ", r",\ ")
        rows.append(rf"{text} & {where}")
    return r"\begin{cases} " + r" \\ ".join(rows) + r" \end{cases}"


STYLES = {
    "extrap": Style(str, repr, _extrap_factors, " * ", _always_plus, _extrap_pieces),
    "short": Style(str, _short_number, _extrap_factors, " * ", _plus_or_minus, _extrap_pieces),
    "python": Style(_python_name, _python_number, _python_factors, " * ", _plus_or_minus, _python_pieces),
    "latex": Style(_latex_name, _latex_number, _latex_factors, r" \cdot ", _plus_or_minus, _latex_pieces),
}


def order_text(functions: Functions, number: int) -> str:
    """Return how the function grows: `O(p^(3/2) * log2(p))`. Of several parameters, all terms that no other one
    outgrows."""
    grown = _growths(functions, number)
    leading = [one for one in grown if not any(_outgrows(other, one) for other in grown)]
    texts = [_growth_text(growth, functions.parameters) for growth in dict.fromkeys(leading)]
    return f"O({' + '.join(texts) or '1'})"


Growth = tuple[Exponents, ...]  # one per parameter


def _growths(functions: Functions, number: int) -> list[Growth]:
    growths = [] if functions.constant[number] == 0 else [(FLAT,) * len(functions.parameters)]
    for term in functions.terms(number):
        if term.coefficient == 0:
            continue
        one = [FLAT] * len(functions.parameters)
        for parameter, factor in term.factors:
            one[parameter] = _growth_of(factor)
        growths.append(tuple(one))
    return growths


def _growth_of(factor: Factor) -> Exponents:
    if not factor.pieces:
        return factor.exponents
    last = factor.pieces[-1]  # what holds for large values
    terms = [exponents for coefficient, exponents in last.terms if coefficient]
    return max([*terms, FLAT] if last.constant or not terms else terms)


def _outgrows(one: Growth, other: Growth) -> bool:
    return one != other and all(a >= b for a, b in zip(one, other, strict=True))


def _growth_text(growth: Growth, names: Sequence[str]) -> str:
    factors = []
    for name, (power, log) in zip(names, growth, strict=True):
        for base, exponent in ((name, power), (f"log2({name})", log)):
            if exponent:
                factors.append(base if exponent == 1 else f"{base}^({exponent})")
    return " * ".join(factors) or "1"
