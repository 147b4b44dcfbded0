"""Derived metrics as columns of a database, and back.

A formula of a user over metrics, such as `ipc = instructions / cycles`, is a column for each scope, over ids of sums:

    ipc (I)   $5/$2        execution        ipc (E)   $4/$1        function

What a formula names that is derived itself is put in its place. Absolute values and powers of e are spelled with the
functions that HPCToolkit has. The value at the roots, statistics over profiles and what is computed before values are
added up have no equal there.

A column that is not a metric of the database, and is the same formula in both scopes, is a derived metric again; in one
scope, where something that it names is stored in no other.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from callgrove.errors import UsageError
from callgrove.model.definitions import UserFormula, read_formula
from callgrove.model.derived import When, derive_metric
from callgrove.model.formulas import (
    Call,
    Expression,
    FormulaError,
    Number,
    Operand,
    Variable,
    fold,
    parse,
    postorder,
    render,
)
from callgrove.model.metrics import Aggregation, Column, Metric, Metrics, Scope

__all__ = ["derive_from_columns", "formula_columns", "held_formulas"]

LARGEST = 10_000  # terms of a formula, with those of the metrics that it names
EXCLUSIVE = (Scope.FUNCTION, Scope.POINT)  # scopes that stand for exclusive values
SUMS = ("", "Sum")  # statistics of columns over sums


# -- from metrics to columns -------------------------------------------------------------------------------------------


class _NotThere(Exception):
    """HPCToolkit has no words for a part of a formula."""


def held_formulas(metrics: Metrics) -> dict[str, Expression]:
    """Return the derived metrics that a database can hold, as formulas over measured quantities that add up."""
    out: dict[str, Expression] = {}
    waiting = [name for name in metrics.derived if _is_after(metrics.first(name))]
    while True:
        left = []
        for name in waiting:
            formula = metrics.first(name).derivation
            assert isinstance(formula, UserFormula)
            if any(operand in waiting and operand not in out for operand in formula.operands):
                left.append(name)
            elif (tree := _expand(formula, metrics, out)) is not None:
                out[name] = tree
        left = [name for name in left if name not in out]
        if len(left) == len(waiting):
            return out
        waiting = left


def _is_after(metric: Metric) -> bool:
    return isinstance(metric.derivation, UserFormula) and metric.derivation.when == When.AFTER


def _expand(formula: UserFormula, metrics: Metrics, known: Mapping[str, Expression]) -> Expression | None:
    """Return a formula with those that it names in their places; None where it cannot be said."""

    def combine(node: Expression, args: Sequence[Expression]) -> Expression:
        if isinstance(node, Call):
            return _spell(node.name, tuple(args))
        if not isinstance(node, Operand):
            return _demand_number(node)
        if node.quantity in known:
            return _in_scope(known[node.quantity], node.scope)
        metric = metrics.first(node.quantity)
        if metric.aggregation != Aggregation.SUM or metric.composite is not None:
            raise _NotThere  # what does not add up is in no summary
        return node

    try:
        tree = fold(formula.tree, combine)
    except _NotThere:
        return None
    return tree if len(postorder(tree)) <= LARGEST else None


def _demand_number(node: Expression) -> Expression:
    if isinstance(node, Number):
        return node
    raise _NotThere


def _spell(name: str, args: tuple[Expression, ...]) -> Expression:
    if name == "abs":
        return Call("max", (args[0], Call("neg", args)))
    return Call("^", (Number(math.e), args[0])) if name == "exp" else Call(name, args)


def _in_scope(tree: Expression, scope: Scope | None) -> Expression:
    def combine(node: Expression, args: Sequence[Expression]) -> Expression:
        if isinstance(node, Call):
            return Call(node.name, tuple(args))
        return replace(node, scope=scope) if isinstance(node, Operand) and node.scope is None else node

    return tree if scope is None else fold(tree, combine)


Ids = Mapping[tuple[str, Scope], int]  # of the sum of a quantity in a scope


def formula_columns(metrics: Metrics, ids: Ids) -> Iterator[tuple[Column, Expression]]:
    """Yield the columns of derived metrics, with formulas over ids of sums. Of a formula whose operands are stored in
    one scope only there is one column."""
    for name, tree in held_formulas(metrics).items():
        metric = metrics.first(name)
        formulas = {scope: _number_operands(tree, scope, ids) for scope in (Scope.INCLUSIVE, *EXCLUSIVE, Scope.LEXICAL)}
        if formulas[Scope.FUNCTION] is not None or _names_scopes(tree):
            formulas.pop(Scope.POINT)
        if _names_scopes(tree) and None in (formulas[Scope.INCLUSIVE], formulas[Scope.FUNCTION]):
            continue  # a single column would not tell what the other one is
        for scope, formula in formulas.items():
            if formula is not None:
                column = Column(name, scope, "", metric.description, "", metric.visible)
                yield replace(column, show_percent=metric.show_percent, number_format=metric.number_format), formula


def _names_scopes(tree: Expression) -> bool:
    return any(isinstance(node, Operand) and node.scope is not None for node in postorder(tree))


def _number_operands(tree: Expression, cell: Scope, ids: Ids) -> Expression | None:
    words = {None: cell, Scope.INCLUSIVE: Scope.INCLUSIVE, Scope.EXCLUSIVE: Scope.FUNCTION}

    def combine(node: Expression, args: Sequence[Expression]) -> Expression:
        if isinstance(node, Call):
            return Call(node.name, tuple(args))
        return Variable(ids[node.quantity, words[node.scope]]) if isinstance(node, Operand) else node

    try:
        return fold(tree, combine)
    except KeyError:
        return None


# -- from columns to metrics -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Stored:
    """What an id of a file stands for."""

    quantity: str
    scope: Scope


def derive_from_columns(metrics: Metrics) -> Metrics:
    """Return metrics with a derived one for every column that is a formula over sums, and none of the metrics."""
    known = set(metrics.quantities)
    columns: dict[str, dict[Scope, Column]] = {}
    for column in metrics.columns:
        if column.name and column.name not in known and column.statistic in SUMS:
            columns.setdefault(column.name, {}).setdefault(column.scope, column)
    stored = _list_sums(metrics) if columns else {}
    for found in columns.values():
        metric = _derive(metrics, found, stored)
        if metric is not None:
            metrics = replace(metrics, rows=(*metrics.rows, metric))
    return metrics


def _list_sums(metrics: Metrics) -> dict[int, _Stored]:
    """Return what ids stand for in formulas of columns, but for statistics other than sums."""
    ids = ((row.source_id if row.summary_id is None else row.summary_id, row) for row in reversed(metrics.rows))
    return {id_: _Stored(row.name, row.scope) for id_, row in ids if id_ is not None and not row.statistic}


def _derive(metrics: Metrics, columns: Mapping[Scope, Column], stored: Mapping[int, _Stored]) -> Metric | None:
    """Return the metric that columns are, one of inclusive and one of exclusive values; None where they differ in more
    than the scope, or where units do not fit."""
    inclusive = columns.get(Scope.INCLUSIVE)
    exclusive = next((columns[scope] for scope in EXCLUSIVE if scope in columns), None)
    first = inclusive or exclusive
    if first is None:
        return None
    try:
        if inclusive is not None and exclusive is not None:
            tree = _pair_leaves(parse(inclusive.formula), parse(exclusive.formula), stored)
        else:
            tree = _read_lone(parse(first.formula), metrics, stored)
        formula = read_formula(metrics, render(tree))
    except (FormulaError, KeyError, UsageError):
        return None
    row = Metric(first.name, Scope.NONE, formula.unit, description=first.description)
    made = derive_metric(first.name, formula.derivation, row, formula.adds_up)
    return replace(made, visible=first.visible, number_format=first.number_format)


def _read_lone(tree: Expression, metrics: Metrics, stored: Mapping[int, _Stored]) -> Expression:
    """Return a formula over quantities from the only column that it has. A KeyError says that there could be another:
    all that it names is stored in both scopes."""
    named = [stored[id_] for id_ in tree.variables()]
    both = [{Scope.INCLUSIVE} < {*metrics.scopes(one.quantity)} - {Scope.LEXICAL} for one in named]
    _demand_same(len({one.scope for one in named}) == 1 and not all(both))

    def combine(node: Expression, args: Sequence[Expression]) -> Expression:
        if isinstance(node, Variable):
            return Operand(stored[-1 if node.id is None else node.id].quantity)
        return Call(node.name, tuple(args)) if isinstance(node, Call) else node

    return fold(tree, combine)


def _pair_leaves(one: Expression, other: Expression, stored: Mapping[int, _Stored]) -> Expression:
    """Return a formula over quantities from two that differ in the scopes of what they name. A KeyError says that they
    differ otherwise."""
    rest = iter(postorder(other))

    def combine(node: Expression, args: Sequence[Expression]) -> Expression:
        twin = next(rest)
        if isinstance(node, Call):
            _demand_same(isinstance(twin, Call) and (node.name, len(node.args)) == (twin.name, len(twin.args)))
            return Call(node.name, tuple(args))
        if isinstance(node, Variable) and isinstance(twin, Variable) and node.id is not None and twin.id is not None:
            return _pair_operands(stored[node.id], stored[twin.id])
        _demand_same(node == twin and isinstance(node, Number))
        return node

    _demand_same(len(postorder(one)) == len(postorder(other)))
    return fold(one, combine)


def _pair_operands(inclusive: _Stored, exclusive: _Stored) -> Operand:
    _demand_same(inclusive.quantity == exclusive.quantity)
    scopes = {
        (True, False): None,
        (True, True): Scope.INCLUSIVE,
        (False, False): Scope.EXCLUSIVE,
    }
    is_inclusive = [one.scope == Scope.INCLUSIVE for one in (inclusive, exclusive)]
    known = all(one.scope in (Scope.INCLUSIVE, *EXCLUSIVE) for one in (inclusive, exclusive))
    _demand_same(known)
    return Operand(inclusive.quantity, scopes[is_inclusive[0], is_inclusive[1]])


def _demand_same(is_same: bool) -> None:
    if not is_same:
        raise KeyError
