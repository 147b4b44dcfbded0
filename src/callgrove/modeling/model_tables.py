"""Models as tables, in chunks, and models summed along the call tree."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from math import isfinite

import numpy as np

from callgrove.arrays import Ids, Ints
from callgrove.model.table import MOST_ROWS, Column, Table
from callgrove.modeling.fitting import Models, texts
from callgrove.modeling.functions import Exponents, Factor, Functions, TermOf
from callgrove.modeling.least_squares import Costs
from callgrove.modeling.notation import function_text, order_text, piece_text

__all__ = ["Subtrees", "model_tables", "models_html", "subtree_sums", "subtree_table"]


# -- models summed along the call tree ---------------------------------------------------------------------------------


ARROW = "->"


@dataclass(frozen=True, eq=False)
class Subtrees:
    """Functions of call paths with all below them; a path that was not measured itself has those below."""

    callpaths: tuple[str, ...]
    metrics: tuple[str, ...]
    functions: Functions
    n_models: Ints  # how many models were added up


def subtree_sums(models: Models) -> Subtrees:
    """Sums of models over subtrees. They make sense for exclusive values, which add up to inclusive ones."""
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
    return Subtrees(tuple(p for p, _ in known), tuple(m for _, m in known), functions, count)


def _prefixes(callpath: str) -> Iterator[str]:
    parts = callpath.split(ARROW)
    for n in range(1, len(parts) + 1):
        yield ARROW.join(parts[:n])


def _add_functions(functions: Functions, owner: Ints, member: Ints, n: int) -> Functions:
    """Sums of functions: model member[k] is a part of sum owner[k]. Equal terms become one."""
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


# -- tables of models --------------------------------------------------------------------------------------------------


ROWS_AT_ONCE = 16_384
IN_NOTEBOOKS = ("callpath", "metric", "function", "order", "smape", "ar2")
Json = dict[str, object]


def model_tables(models: Models, styles: Sequence[str] = ()) -> Iterator[Table]:
    """callpath, metric, function, constant, terms, error measures, points, noise, order, warnings; `segments` where any
    model is in pieces; and one column for each further notation."""
    in_pieces = any(factor.pieces for factor in models.functions.factors) and len(models.study.parameters) == 1
    for start in range(0, max(len(models), 1), ROWS_AT_ONCE):
        yield _table(models, range(start, min(start + ROWS_AT_ONCE, len(models))), styles, in_pieces)


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
        Column("order", [order_text(functions, n) if ok else None for n, ok in zip(rows, known, strict=True)]),
        Column("warnings", [texts(int(bits)) for bits in models.cautions[part]]),
    ]
    if in_pieces:
        columns.append(Column("segments", [_segments(functions, n) for n in rows]))
    for style in styles:
        columns.append(Column(style, [function_text(functions, n, style) for n in rows]))
    return Table(tuple(columns))


def models_html(models: Models) -> str:
    """The first models, for notebooks."""
    first = models.take(np.arange(min(len(models), MOST_ROWS)))
    (table,) = model_tables(first, ["short"])
    function = Column("function", table.column("short").values)
    columns = [function if name == "function" else table.column(name) for name in IN_NOTEBOOKS]
    over = ", ".join(models.study.parameters)
    title = f"{len(models):,} models over {over}"
    return Table(tuple(columns), len(models) - len(first), title=title)._repr_html_()


def subtree_table(sums: Subtrees, styles: Sequence[str] = ()) -> Table:
    """callpath, metric, function, constant, terms, models (how many were added up), order."""
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
    ]
    return Table(tuple(columns))


def _whole_in_pieces(functions: Functions, number: int) -> Factor | None:
    """The factor that is the whole function, where it is one in pieces."""
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
