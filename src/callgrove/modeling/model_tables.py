"""Models as tables, in chunks, summed along the call tree; functions as text in Extra-P's notation, as Python and as
LaTeX.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from math import inf, isfinite

import numpy as np

from callgrove.arrays import Bools, Floats, Ids, Ints
from callgrove.errors import UsageError
from callgrove.model.study.series import bounds_text, factor_texts
from callgrove.model.table import MOST_ROWS, Column, Table
from callgrove.modeling.fitting import Models, texts
from callgrove.modeling.functions import FLAT, Exponents, Factor, Functions, Piece, TermOf
from callgrove.modeling.judgement import Judgements, Trust, far_target, judge
from callgrove.modeling.least_squares import Costs

__all__ = [
    "STYLES",
    "JudgedSubtrees",
    "Subtrees",
    "function_text",
    "judge_subtrees",
    "model_tables",
    "models_html",
    "order_text",
    "piece_text",
    "subtree_orders",
    "subtree_sums",
    "subtree_table",
]


# -- functions as text -------------------------------------------------------------------------------------------------
# extrap   5.0 + 2.5 * p^(3/2) * log2(p)^(1)     in pieces: 2.0 * p^(1) for p<=5.0; 30.0 for p>=6.0
# python   5.0 + 2.5 * p**(3/2) * log2(p)**(1)
# latex    5 + 2.5 \cdot p^{3/2} \cdot \log_2(p)


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
            return _text_pieces(how, factor, functions.parameters[parameter])
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
        pieces = _text_pieces(how, factor, parameter)
        return [f"{{{pieces}}}" if how is STYLES["extrap"] else pieces]
    return how.factors(how.name(parameter), factor.exponents)


def _text_pieces(how: Style, factor: Factor, parameter: str) -> str:
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
    outgrows. Empty where there is no model."""
    if not np.isfinite(functions.constant[number]):
        return ""
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


# -- tables ------------------------------------------------------------------------------------------------------------


# -- models summed along the call tree ---------------------------------------------------------------------------------


ARROW = "->"


@dataclass(frozen=True, eq=False)
class Subtrees:
    """Functions of call paths with all below them; a path that was not measured itself has those below."""

    callpaths: tuple[str, ...]
    metrics: tuple[str, ...]
    functions: Functions
    n_models: Ints  # how many models were added up
    owner: Ints  # sum owner[k] has model member[k] in it
    member: Ints


def subtree_sums(models: Models) -> Subtrees:
    """Return the sums of models over subtrees. They make sense for exclusive values, which add up to inclusive ones."""
    if ratios := [name for name in models.study.ratios if name in {models.metric(n) for n in range(len(models))}]:
        raise UsageError(f"{ratios[0]} does not add up: a subtree has no sum of what is in it")
    known: dict[tuple[str, str], int] = {}
    owners: list[int] = []
    members: list[int] = []
    for number in range(len(models)):
        if np.isnan(models.functions.constant[number]):
            continue
        metric = models.metric(number)
        for path in _prefixes(models.callpath(number)):
            owners.append(known.setdefault((path, metric), len(known)))
            members.append(number)
    owner, member = np.array(owners, np.int64), np.array(members, np.int64)
    functions = _add_functions(models.functions, owner, member, len(known))
    count = np.bincount(owner, minlength=len(known))
    return Subtrees(tuple(p for p, _ in known), tuple(m for _, m in known), functions, count, owner, member)


def _prefixes(callpath: str) -> Iterator[str]:
    parts = callpath.split(ARROW)
    for n in range(1, len(parts) + 1):
        yield ARROW.join(parts[:n])


def _add_functions(functions: Functions, owner: Ints, member: Ints, n: int) -> Functions:
    """Return sums of functions: model member[k] is a part of sum owner[k]. Equal terms become one."""
    constant = np.bincount(owner, functions.constant[member], minlength=n).astype(np.float64)
    sizes = np.diff(functions.bounds)[member]
    ends = np.cumsum(sizes)
    term = np.arange(ends[-1] if len(ends) else 0) + np.repeat(functions.bounds[member] - (ends - sizes), sizes)
    keys = np.column_stack([np.repeat(owner, sizes), functions.factor[term]])
    unique, back = np.unique(keys, axis=0, return_inverse=True)
    summed = np.bincount(back.reshape(-1), functions.coefficient[term], minlength=len(unique))
    coefficient = summed.astype(np.float64)
    factor: Ids = unique[:, 1:].astype(np.int32)
    bounds = np.searchsorted(unique[:, 0], np.arange(n + 1))
    return Functions(functions.parameters, constant, bounds, coefficient, factor, functions.factors)


MATTERS = 0.1  # part of a subtree's prediction, from which on a model decides how far the sum is trusted


@dataclass(frozen=True, eq=False)
class JudgedSubtrees:
    """What to think of sums over subtrees at a point. Bounds are the sums of the bounds, which is wider than need be;
    trust is that of the least trusted model that makes up a tenth or more."""

    prediction: Floats
    low: Floats
    high: Floats
    share: Floats  # percent of the metric at the largest point measured
    trust: Ints
    matters: Bools  # of each member: whether it makes up a tenth of its sum
    worst: Ints  # the model that trust is of
    models: Models
    judged: Judgements

    def reason(self, number: int) -> str:
        """Return why a sum is trusted so far: the model that decides, and its reason."""
        part = int(self.worst[number])
        name = self.models.callpath(part).rsplit(ARROW, 1)[-1]
        return f"{name}: {self.judged.reason(part)}" if part >= 0 else ""


def judge_subtrees(sums: Subtrees, models: Models, judged: Judgements) -> JudgedSubtrees:
    """Return how far to trust sums over subtrees, from what their models are worth."""
    owner, member, n = sums.owner, sums.member, len(sums.callpaths)
    total = sums.functions.evaluate(judged.at[None])[:, 0]
    with np.errstate(all="ignore"):
        matters: Bools = ~(np.abs(judged.prediction[member]) < MATTERS * np.abs(total[owner]))
    trust, worst = np.full(n, int(Trust.GOOD)), np.full(n, -1)
    np.minimum.at(trust, owner[matters], judged.trust[member][matters])
    decisive = matters & (judged.trust[member] == trust[owner])
    worst[owner[decisive]] = member[decisive]
    bounds = (judged.low, judged.high, np.nan_to_num(judged.share))
    low, high, share = (np.bincount(owner, one[member], minlength=n).astype(np.float64) for one in bounds)
    return JudgedSubtrees(total, low, high, share, trust, matters, worst, models, judged)


def subtree_orders(sums: Subtrees, models: Models, counted: Bools) -> tuple[str, ...]:
    """Return how each sum grows by those of its models that count; by all of them where none does."""
    n, chosen = len(sums.callpaths), counted[sums.member]
    some = _add_functions(models.functions, sums.owner[chosen], sums.member[chosen], n)
    has_any = np.bincount(sums.owner[chosen], minlength=n) > 0
    return tuple(order_text(some if has_any[k] else sums.functions, k) for k in range(n))


# -- tables of models --------------------------------------------------------------------------------------------------


ROWS_AT_ONCE = 16_384
IN_NOTEBOOKS = ("callpath", "metric", "function", "order", "smape", "ar2", "trust", "reason")
Json = dict[str, object]


def model_tables(
    models: Models, styles: Sequence[str] = (), at: Floats | None = None, beside: Models | None = None
) -> Iterator[Table]:
    """Yield tables of callpath, metric, function, constant, terms, error measures, points, noise, order, warnings;
    `segments` where any model is in pieces; one column for each further notation; and how far to trust each model at a
    point (by default, four times the processes that were measured). `beside` are models of another method."""
    at = far_target(models.study) if at is None else at
    in_pieces = any(factor.pieces for factor in models.functions.factors) and len(models.study.parameters) == 1
    for start in range(0, max(len(models), 1), ROWS_AT_ONCE):
        rows = range(start, min(start + ROWS_AT_ONCE, len(models)))
        table = _table(models, rows, styles, in_pieces)
        chosen = np.arange(rows.start, rows.stop)
        columns = _judgement_columns(judge(models.take(chosen), at))
        if models.probability is not None:
            columns.append(Column("probability", models.probability[chosen], np.nan))
        if beside is not None:
            style = "short" if "short" in styles else "extrap"
            functions = [function_text(beside.functions, n, style) for n in rows]
            columns.append(Column(f"function_{beside.options.method}", functions))
        yield Table((*table.columns, *columns))


def _judgement_columns(judged: Judgements) -> list[Column]:
    numbers = range(len(judged.trust))
    return [
        Column("run_share", judged.share, np.nan),
        Column("distance", judged.distance),
        Column("prediction", judged.prediction, np.nan),
        Column("low", judged.low, np.nan),
        Column("high", judged.high, np.nan),
        Column("spread_low", judged.spread_low, np.nan),
        Column("spread_high", judged.spread_high, np.nan),
        Column("trust", [Trust(judged.trust[n]).word for n in numbers]),
        Column("reason", [judged.reason(n) for n in numbers]),
    ]


def _table(models: Models, rows: range, styles: Sequence[str], in_pieces: bool) -> Table:
    part, functions = slice(rows.start, rows.stop), models.functions
    known = [not np.isnan(functions.constant[n]) for n in rows]
    columns = [
        Column("callpath", [models.callpath(n) for n in rows]),
        Column("metric", [models.metric(n) for n in rows]),
        Column("function", [function_text(functions, n) if ok else None for n, ok in zip(rows, known, strict=True)]),
        Column("constant", functions.constant[part], np.nan),
        Column("terms", [_terms(functions, n) for n in rows]),
    ]
    columns += [Column(f.name, getattr(models.costs, f.name)[part]) for f in fields(Costs)]
    columns += [
        Column("points", models.n_points[part]),
        Column("noise", models.noise[part], np.nan),
        Column("order", [order_text(functions, n) or None for n in rows]),
        Column("warnings", [texts(int(bits)) for bits in models.cautions[part]]),
    ]
    if in_pieces:
        columns.append(Column("segments", [_segments(functions, n) for n in rows]))
    for style in styles:
        columns.append(Column(style, [function_text(functions, n, style) for n in rows]))
    return Table(tuple(columns))


def models_html(models: Models) -> str:
    """Return the first models, for notebooks."""
    first = models.take(np.arange(min(len(models), MOST_ROWS)))
    (table,) = model_tables(first, ["short"])
    function = Column("function", table.column("short").values)
    columns = [function if name == "function" else table.column(name) for name in IN_NOTEBOOKS]
    over = ", ".join(models.study.parameters)
    title = f"{len(models):,} models over {over}"
    return Table(tuple(columns), len(models) - len(first), title=title)._repr_html_()


def subtree_table(models: Models, styles: Sequence[str] = (), at: Floats | None = None) -> Table:
    """Return a table of callpath, metric, function, constant, terms, models (how many were added up), order, and how
    far to trust each sum at a point (by default, four times the processes that were measured)."""
    sums = subtree_sums(models)
    judged = judge_subtrees(sums, models, judge(models, far_target(models.study) if at is None else at))
    functions = sums.functions
    rows = range(len(functions))
    columns = [
        Column("callpath", sums.callpaths),
        Column("metric", sums.metrics),
        Column("function", [function_text(functions, n) for n in rows]),
        Column("constant", functions.constant),
        Column("terms", [_terms(functions, n) for n in rows]),
        Column("models", sums.n_models),
        Column("order", [order_text(functions, n) for n in rows]),
        *(Column(style, [function_text(functions, n, style) for n in rows]) for style in styles),
        Column("run_share", judged.share, np.nan),
        Column("prediction", judged.prediction, np.nan),
        Column("low", judged.low, np.nan),
        Column("high", judged.high, np.nan),
        Column("trust", [Trust(judged.trust[n]).word for n in rows]),
        Column("reason", [judged.reason(n) for n in rows]),
    ]
    return Table(tuple(columns))


def _whole_in_pieces(functions: Functions, number: int) -> Factor | None:
    """Return the factor that is the whole function, where it is one in pieces."""
    terms = list(functions.terms(number))
    alone = len(functions.parameters) == 1 and len(terms) == 1 and len(terms[0].factors) == 1
    return terms[0].factors[0][1] if alone and terms[0].factors[0][1].pieces else None


def _terms(functions: Functions, number: int) -> list[Json]:
    if _whole_in_pieces(functions, number):
        return []
    return [_term(functions, term) for term in functions.terms(number)]


def _term(functions: Functions, term: TermOf) -> Json:
    exponents, pieces = {}, {}
    for parameter, factor in term.factors:
        name = functions.parameters[parameter]
        if factor.pieces:
            pieces[name] = _pieces(factor, name)
        else:
            exponents[name] = _pair(factor.exponents)
    entry: Json = {"coefficient": term.coefficient, "exponents": exponents}
    return entry | {"segments": pieces} if pieces else entry


def _pair(exponents: Exponents) -> list[str]:
    return [str(exponents.power), str(exponents.logarithm)]


def _segments(functions: Functions, number: int) -> list[Json] | None:
    factor = _whole_in_pieces(functions, number)
    return None if factor is None else _pieces(factor, functions.parameters[0])


def _pieces(factor: Factor, parameter: str) -> list[Json]:
    return [
        {
            "from": piece.start if isfinite(piece.start) else None,
            "to": piece.end if isfinite(piece.end) else None,
            "function": piece_text(piece, parameter),
            "constant": piece.constant,
            "terms": [{"coefficient": c, "exponents": {parameter: _pair(e)}} for c, e in piece.terms],
        }
        for piece in factor.pieces
    ]
