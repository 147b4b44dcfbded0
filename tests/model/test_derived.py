"""Derived metrics: what the engine computes equals what a scalar interpreter says, cell by cell, in every shape."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from callgrove.analysis.costs import RowCells, Rows, costs, group
from callgrove.analysis.views import top
from callgrove.arrays import Floats
from callgrove.errors import NotEvaluated, UsageError
from callgrove.model import derived
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.contexts import ContextKind, Relation
from callgrove.model.definitions import UserFormula, with_metric
from callgrove.model.derived import ProfileCells, TotalCells, Unavailable, When, derive_metric, over_batches
from callgrove.model.experiment import Experiment
from callgrove.model.formulas import Call, Expression, Number, Operand, OverProfiles, Total, fold, render
from callgrove.model.metrics import Aggregation, Metric, Scope
from callgrove.model.profiles import ProfileKind
from callgrove.model.values import Values
from tests.model.references import R1_TIME, r1

# -- random experiments ------------------------------------------------------------------------------------------------


METRICS = (
    Metric("a", Scope.EXCLUSIVE),
    Metric("b", Scope.INCLUSIVE, dtype="int64"),
    Metric("low", Scope.EXCLUSIVE, aggregation=Aggregation.MINIMUM),
    Metric("high", Scope.EXCLUSIVE, aggregation=Aggregation.MAXIMUM),
)
ADDITIVE = ("a", "b")
SCOPES = (Scope.EXCLUSIVE, Scope.INCLUSIVE)


@dataclass(frozen=True)
class Known:
    """An experiment, and all that was measured: exclusive values by (metric, context, profile); absent ones lack."""

    experiment: Experiment
    cells: dict[tuple[str, int, int], float]

    @property
    def children(self) -> list[list[int]]:
        tree = self.experiment.contexts
        return [tree.children(context) for context in range(tree.n_listed)]


@st.composite
def known_experiments(draw: Any, summary: bool = True) -> Known:
    """Functions that call one another, with small whole costs, of which many are absent or 0."""
    n, n_profiles = draw(st.integers(1, 7)), draw(st.integers(1, 4))
    parents = [draw(st.integers(-1, number - 1)) if number else -1 for number in range(n)]
    builder = ExperimentBuilder("random")
    for parent in parents:
        region = builder.region(ContextKind.FUNCTION, draw(st.sampled_from("fgh")))
        builder.add_context(parent, ContextKind.FUNCTION, region, Relation.CALL)
    elided = [builder.add_context(-1, ContextKind.ELIDED)] if draw(st.booleans()) else []
    for metric in METRICS:
        builder.add_metric(metric)
    first = int(summary and draw(st.booleans()))
    if first:
        builder.add_profile(ProfileKind.SUMMARY)
    for _ in range(n_profiles):
        builder.add_profile(ProfileKind.THREAD)
    order = builder.order()
    given = st.none() | st.integers(0, 5)
    cells: dict[tuple[str, int, int], float] = {}
    for metric in METRICS:
        for context in range(n):
            for profile in range(n_profiles):
                if (value := draw(given)) is not None:
                    cells[metric.name, int(order[context]), profile + first] = value
    for row, metric in enumerate(METRICS):
        _add_values(builder, row, metric, cells, [int(order[p]) if p >= 0 else -1 for p in parents], order, first)
    for context in elided:  # what it has is contained in contexts of the tree
        builder.add_values(first, context, 0, 9.0)
    return Known(builder.build(), cells)


def _add_values(
    builder: ExperimentBuilder,
    row: int,
    metric: Metric,
    cells: dict[tuple[str, int, int], float],
    parents: list[int],
    order: Any,
    first: int,
) -> None:
    """Add one metric as it is stored; the summary holds what adds up."""
    number_of = {int(final): number for number, final in enumerate(order.tolist())}
    above = {int(order[number]): parent for number, parent in enumerate(parents)}
    stored: dict[tuple[int, int], float] = {}
    for (name, context, profile), value in cells.items():
        targets = [context]
        while name == metric.name and metric.scope == Scope.INCLUSIVE and above[targets[-1]] >= 0:
            targets.append(above[targets[-1]])
        for target in targets if name == metric.name else ():
            stored[target, profile] = stored.get((target, profile), 0) + value
    if first and metric.aggregation == Aggregation.SUM:
        for (context, _), value in list(stored.items()):
            stored[context, 0] = stored.get((context, 0), 0) + value
    for (context, profile), value in stored.items():
        if value or metric.aggregation != Aggregation.SUM:
            kind = np.int64 if metric.dtype == "int64" else np.float64
            builder.add_values(profile, number_of[context], row, np.array([value], kind))


# -- a scalar interpreter ----------------------------------------------------------------------------------------------
# No value is None. A cell is what a row stands for (exclusive: its contexts; inclusive: its outermost ones and all
# below), some profiles, and a scope.


Number_ = float | None


@dataclass(frozen=True)
class Cell:
    known: Known
    contexts: tuple[int, ...]
    outermost: tuple[int, ...]
    profiles: tuple[int, ...]
    chosen: tuple[int, ...]
    scope: Scope

    def below(self, context: int) -> list[int]:
        return [context, *(c for child in self.known.children[context] for c in self.below(child))]

    def operand(self, name: str, scope: Scope) -> Number_:
        if name not in (metric.name for metric in METRICS):
            return value_of(self.known.experiment.metrics.first(name).derivation, self, scope)
        rule = self.known.experiment.metrics.first(name).aggregation
        reached = self.contexts if scope == Scope.EXCLUSIVE else [c for top in self.outermost for c in self.below(top)]
        values = [
            self.known.cells[name, context, profile]
            for context in reached
            for profile in self.profiles
            if (name, context, profile) in self.known.cells
        ]
        if rule == Aggregation.SUM:
            return float(sum(values))
        return float({"min": min, "max": max}[rule.value](values)) if values else None

    def leaf(self, node: Expression) -> Number_:
        if isinstance(node, Operand):
            return self.operand(node.quantity, node.scope or self.scope)
        if isinstance(node, Total):
            roots = tuple(self.known.experiment.contexts.roots.tolist())
            return self.moved(roots, roots, self.profiles, Scope.INCLUSIVE).operand(node.quantity, Scope.INCLUSIVE)
        assert isinstance(node, OverProfiles)
        scope = node.scope or self.scope
        values = [
            self.moved(self.contexts, self.outermost, (profile,), scope).operand(node.quantity, scope)
            for profile in self.chosen
        ]
        return statistic(node.statistic, values, node.quantity in ADDITIVE)

    def moved(self, contexts: Sequence[int], outermost: Sequence[int], profiles: Sequence[int], scope: Scope) -> Cell:
        return Cell(self.known, tuple(contexts), tuple(outermost), tuple(profiles), self.chosen, scope)


def statistic(name: str, values: list[Number_], adds_up: bool) -> Number_:
    there = [value for value in values if value is not None]
    if adds_up and len(there) < len(values):
        return None
    if name == "count":
        return float(sum(value != 0 for value in there))
    if not there:
        return None
    return {"mean": lambda: sum(there) / len(there), "min": lambda: min(there), "max": lambda: max(there)}[name]()


def compute(node: Expression, args: Sequence[Number_], cell: Cell, in_each: bool) -> Number_:
    if isinstance(node, Number):
        return node.value
    if not isinstance(node, Call):
        return cell.leaf(node)
    numbers = [arg for arg in args if arg is not None]
    if len(numbers) < len(args):
        return None
    if node.name == "/":
        if numbers[1]:
            return numbers[0] / numbers[1]
        return 0.0 if in_each and not numbers[0] else None
    functions: dict[str, Callable[..., Number_]] = {
        "+": lambda x, y: x + y,
        "-": lambda x, y: x - y,
        "*": lambda x, y: x * y,
        "neg": lambda x: -x,
        "abs": abs,
        "min": min,
        "max": max,
        "sqrt": lambda x: math.sqrt(x) if x >= 0 else None,
    }
    return functions[node.name](*numbers)


def value_of(formula: Any, cell: Cell, scope: Scope) -> Number_:
    """What a formula is worth in a cell."""

    def interpret(at: Cell) -> Number_:
        return fold(formula.tree, lambda node, args: compute(node, args, at, formula.when != When.AFTER))

    def add(values: Sequence[Number_]) -> Number_:
        there = [value for value in values if value is not None]
        return sum(there) if len(there) == len(values) else None

    if formula.when == When.AFTER:
        return interpret(cell.moved(cell.contexts, cell.outermost, cell.profiles, scope))
    below = [c for top in cell.outermost for c in cell.below(top)]
    if formula.when == When.EACH:
        contexts = list(cell.contexts) if scope == Scope.EXCLUSIVE else below
        cells = [cell.moved([c], [c], [p], Scope.EXCLUSIVE) for c in contexts for p in cell.profiles]
        return add([interpret(one) for one in cells])

    def inclusive(context: int) -> Number_:
        return add([interpret(cell.moved([context], [context], [p], Scope.INCLUSIVE)) for p in cell.profiles])

    if scope == Scope.INCLUSIVE:
        return add([inclusive(c) for c in cell.outermost])
    children = [child for c in cell.contexts for child in cell.known.children[c]]
    less = add([inclusive(c) for c in children])
    own = add([inclusive(c) for c in cell.contexts])
    return own - less if own is not None and less is not None else None


# -- formulas over random experiments ----------------------------------------------------------------------------------


def calls_over(inner: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    two = st.builds(Call, st.sampled_from(("+", "-", "*", "/", "min", "max")), st.tuples(inner, inner))
    return two | two | st.builds(Call, st.sampled_from(("neg", "abs", "sqrt")), st.tuples(inner))


NAMES = st.sampled_from([metric.name for metric in METRICS])
leaves = (
    st.builds(Operand, NAMES, st.sampled_from([None, None, None, *SCOPES]))
    | st.builds(Number, st.integers(-3, 3).map(float))
    | st.builds(Total, NAMES)
    | st.builds(OverProfiles, st.sampled_from(("mean", "max", "min", "count")), NAMES, st.sampled_from([None, *SCOPES]))
)
trees = st.recursive(leaves, calls_over, max_leaves=6)


def define(experiment: Experiment, tree: Expression, when: When) -> Experiment:
    word = {When.EACH: "each", When.EACH_INCLUSIVE: "each_incl"}.get(when, "")
    made = with_metric(experiment, f"x = {word}({render(tree)})")
    formula = made.metrics.first("x").derivation
    assert isinstance(formula, UserFormula)
    assert (formula.tree, formula.when) == (tree, when)
    return made


def matches(computed: Floats, expected: Sequence[Number_]) -> None:
    wanted = [math.nan if number is None else number for number in expected]
    np.testing.assert_allclose(computed, wanted, rtol=1e-12, atol=1e-9)


@pytest.mark.parametrize("most_cells", [1, 1 << 21])
@given(known=known_experiments(), tree=trees, when=st.sampled_from(When), choice=st.none() | st.integers(1, 15))
def test_every_cell_is_what_a_scalar_interpreter_says(
    most_cells: int, known: Known, tree: Expression, when: When, choice: int | None
) -> None:
    experiment = define(known.experiment, tree, when)
    known = Known(experiment, known.cells)
    measured = experiment.profiles.measured.tolist()
    chosen = None
    if choice is not None:
        chosen = np.array([p for k, p in enumerate(measured) if choice >> k & 1] or measured[:1], np.int64)
    profiles = tuple(measured if chosen is None else chosen.tolist())
    contexts = range(experiment.contexts.n_listed)
    formula = experiment.metrics.first("x").derivation

    def expect(groups: Sequence[tuple[Sequence[int], Sequence[int]]], of: Sequence[int], scope: Scope) -> list[Number_]:
        cells = [Cell(known, tuple(all_), tuple(outer), tuple(of), profiles, scope) for all_, outer in groups]
        return [value_of(formula, cell, scope) for cell in cells]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(derived, "MOST_CELLS", most_cells)
        alone = [((c,), (c,)) for c in contexts]
        by_function = group(experiment.contexts, "function")
        rows = by_function.rows(np.arange(len(by_function)), experiment.contexts)
        groups = [(members(rows.exclusive, row), members(rows.inclusive, row)) for row in range(rows.n)]
        for scope in SCOPES:
            n = len(contexts)
            matches(experiment.totals("x", scope, chosen)[:n], expect(alone, profiles, scope))
            matches(
                RowCells(TotalCells(experiment.values, scope, chosen), scope, rows).of("x"),
                expect(groups, profiles, scope),
            )
            matrix = experiment.matrix("x", scope, chosen)
            for column, profile in enumerate(profiles):
                matches(matrix[:n, column], expect(alone, [profile], scope))
            outside = experiment.totals("x", scope, chosen)[n:]
            assert (
                np.isnan(outside).all()
                if experiment.metrics.first("x").aggregation == Aggregation.NONE
                else not outside.any()
            )


def members(pairs: tuple[Any, Any], row: int) -> tuple[int, ...]:
    contexts, rows = pairs
    return tuple(contexts[rows == row].tolist())


@given(known=known_experiments(), factors=st.lists(st.integers(-3, 3), min_size=2, max_size=2))
def test_what_is_linear_adds_up(known: Known, factors: list[int]) -> None:
    """Derived then summed equals summed then derived: over profiles, over the tree, and over the rows of a view."""
    made = with_metric(known.experiment, f"x = {factors[0]} * a - b * {factors[1]}", "y = each(x)")
    exclusive, inclusive = (made.totals("x", scope) for scope in SCOPES)
    matches(exclusive, made.matrix("x", Scope.EXCLUSIVE).sum(axis=1).tolist())
    matches(made.totals("y", Scope.EXCLUSIVE), exclusive.tolist())
    matches(made.totals("y", Scope.INCLUSIVE), inclusive.tolist())
    n = made.contexts.n_listed
    below = [exclusive[c : made.contexts.subtree_end[c]].sum() for c in range(n)]
    matches(inclusive[:n], below)
    table = top(costs(made, "x"))
    assert sum(table["exclusive"]) == pytest.approx(made.root_total("x"))
    row = made.metrics.find("x", Scope.EXCLUSIVE)
    assert row is not None
    matches(made.values.totals(row), exclusive.tolist())


# -- statistics over profiles ------------------------------------------------------------------------------------------


SUM, MOST = Metric("t", Scope.EXCLUSIVE), Metric("t", Scope.EXCLUSIVE, aggregation=Aggregation.MAXIMUM)


@given(
    st.lists(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=5), min_size=1, max_size=4).map(np.concatenate),
    st.integers(1, 5),
)
def test_statistics_do_not_depend_on_batches(values: Floats, size: int) -> None:
    values = 1e12 + values
    parts = [values[None, start : start + size] for start in range(0, len(values), size)]
    found = {name: float(numbers[0]) for name, numbers in over_batches(SUM, iter(parts), 1).items()}
    assert found["mean"] == pytest.approx(values.mean(), rel=1e-12)
    assert found["std"] == pytest.approx(values.std(), rel=1e-6, abs=1e-3)
    assert (found["min"], found["max"], found["count"]) == (values.min(), values.max(), len(values))


def test_a_small_spread_of_large_numbers_is_no_rounding() -> None:
    values = np.array([[1e9, 1e9 + 1, 1e9 + 2]])
    assert over_batches(SUM, iter([values[:, :1], values[:, 1:]]), 1)["std"][0] == pytest.approx(math.sqrt(2 / 3))


def test_what_is_missing_in_one_profile() -> None:
    """A maximum that a profile lacks is that of the others; a sum that lacks a part is not known."""
    values = np.array([[3.0, np.nan, 5.0], [np.nan] * 3, [0.0, 0.0, 1.0]])
    most = over_batches(MOST, iter([values]), 3)
    np.testing.assert_equal(most["max"], [5.0, np.nan, 1.0])
    np.testing.assert_equal(most["mean"], [4.0, np.nan, 1 / 3])
    np.testing.assert_equal(most["count"], [2.0, 0.0, 1.0])
    parts = over_batches(SUM, iter([values]), 3)
    np.testing.assert_equal(parts["max"], [np.nan, np.nan, 1.0])
    np.testing.assert_equal(parts["count"], [np.nan, np.nan, 1.0])


def test_ratios_over_profiles_of_rows() -> None:
    """foo of R1, per location: 6/13, 9/23, 12/33, 15/43 s per visit."""
    made = with_metric(r1(), "tpv = time / visits", "x = profiles.max(tpv)", "spread = x / profiles.min(tpv)")
    rows = {row["name"]: row for row in made.top("spread")}
    assert rows["foo"]["exclusive"] == pytest.approx((6 / 13) / (15 / 43))
    assert made.totals("x", Scope.EXCLUSIVE)[1] == 0.5


# -- what is not known -------------------------------------------------------------------------------------------------


def aggregated() -> Experiment:
    builder = ExperimentBuilder("aggregate")
    builder.add_context(-1, ContextKind.FUNCTION, builder.region(ContextKind.FUNCTION, "main"))
    builder.add_metric(Metric("time", Scope.EXCLUSIVE, "sec"))
    builder.add_profile(ProfileKind.AGGREGATE)
    builder.add_values(0, 0, 0, 7.0)
    return builder.build()


def test_values_of_all_profiles_together_are_none_of_each() -> None:
    made = with_metric(aggregated(), "sum = 2 * time", "x = each(max(time, 3))", "y = profiles.max(time)")
    assert made.totals("sum", Scope.EXCLUSIVE).tolist() == [14.0]
    for name in ("x", "y"):
        with pytest.raises(UsageError, match="values of single profiles are not known"):
            made.totals(name, Scope.EXCLUSIVE)
    with pytest.raises(UsageError, match="values of single profiles are not known"):
        made.matrix("x", Scope.EXCLUSIVE)


def test_a_summary_without_profiles_has_none_of_each() -> None:
    builder = ExperimentBuilder("summary")
    builder.add_context(-1, ContextKind.FUNCTION, builder.region(ContextKind.FUNCTION, "main"))
    builder.add_metric(Metric("time", Scope.EXCLUSIVE, "sec"))
    builder.add_profile(ProfileKind.SUMMARY)
    builder.add_values(0, 0, 0, 7.0)
    made = with_metric(builder.build(), "double = 2 * time", "x = each(2 * time)")
    assert made.totals("double", Scope.EXCLUSIVE).tolist() == [14.0]
    with pytest.raises(UsageError, match="values of single profiles are not known"):
        made.totals("x", Scope.EXCLUSIVE)


def test_what_cannot_be_evaluated_says_why_wherever_it_is_asked_for() -> None:
    experiment = r1()
    broken = derive_metric("bad", Unavailable("a ~ b", When.EACH, "line 1, column 3: no '~'"), SUM, adds_up=False)
    metrics = type(experiment.metrics)((*experiment.metrics.rows, broken))
    made = replace(experiment, metrics=metrics, values=replace(experiment.values, metrics=metrics))
    assert made.metrics.unavailable == ("bad",)
    for ask in (
        lambda: made.totals("bad", Scope.EXCLUSIVE),
        lambda: made.matrix("bad", Scope.EXCLUSIVE),
        lambda: made.values.totals(len(metrics) - 1),
        lambda: made.top("bad"),
    ):
        with pytest.raises(NotEvaluated, match="line 1, column 3: no '~'"):
            ask()


def test_totals_of_maxima_need_no_value_in_every_root() -> None:
    builder = ExperimentBuilder("two roots")
    for name in "fg":
        builder.add_context(-1, ContextKind.FUNCTION, builder.region(ContextKind.FUNCTION, name))
    builder.add_metric(MOST)
    builder.add_profile(ProfileKind.THREAD)
    builder.add_values(0, 1, 0, -4.0)
    made = with_metric(builder.build(), "x = t / total(t)", "none = total(t) / 0")
    np.testing.assert_equal(made.totals("x", Scope.INCLUSIVE), [np.nan, 1.0])
    assert np.isnan(made.totals("none", Scope.INCLUSIVE)).all()


def test_nothing_is_read_that_no_formula_names(monkeypatch: pytest.MonkeyPatch) -> None:
    made = with_metric(r1(), "x = each(time / visits)", "y = each(hi)")
    asked: list[int] = []
    read = Values.blocks_without_fillers

    def count(values: Values, profiles: Any, metrics: Any) -> Any:
        asked.extend(metrics.tolist())
        return read(values, profiles, metrics)

    monkeypatch.setattr(Values, "blocks_without_fillers", count)
    made.totals("x", Scope.EXCLUSIVE)
    assert sorted(asked) == [0, 1]
    made.top("time")
    assert set(asked) == {0, 1}


def test_rows_of_contexts_have_what_contexts_have() -> None:
    made = with_metric(r1(), "x = time / visits")
    every = np.arange(7)
    rows = Rows.of_contexts(every, every.astype(np.int32))
    for cells in (
        TotalCells(made.values, Scope.EXCLUSIVE),
        ProfileCells(made.values, Scope.EXCLUSIVE, every[:4], every[:4]),
    ):
        for scope in SCOPES:
            np.testing.assert_array_equal(RowCells(cells, Scope.EXCLUSIVE, rows).of("x", scope), cells.of("x", scope))
    assert RowCells(cells, Scope.EXCLUSIVE, rows).of("time")[:, 1].tolist() == R1_TIME[:, 1].tolist()


@pytest.mark.parametrize(
    ("function", "n", "takes"),
    [
        ("sqrt", 2, "1 argument"),
        ("+", 1, "2 arguments"),
        ("log", 3, "1 or 2 arguments"),
        ("min", 0, "at least 1 argument"),
    ],
)
def test_calls_say_how_many_arguments_a_function_takes(function: str, n: int, takes: str) -> None:
    with pytest.raises(ValueError, match=re.escape(f"{function} takes {takes}, not {n}")):
        Call(function, (Number(1.0),) * n)
