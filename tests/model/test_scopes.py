"""Exclusive and inclusive, against definitions that recurse."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from callgrove.errors import UsageError
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.computed_values import recipe
from callgrove.model.contexts import ContextKind, ContextTree, Relation
from callgrove.model.metrics import Aggregation, Metric, Metrics, Scope
from callgrove.model.profiles import ProfileKind
from tests.model.strategies import ATOMIC_TYPE, experiments, trees

NUMBERS = st.integers(0, 2**55)
E, I, F, P, L = Scope.EXCLUSIVE, Scope.INCLUSIVE, Scope.FUNCTION, Scope.POINT, Scope.LEXICAL  # noqa: E741


def children(tree: ContextTree, context: int) -> list[int]:
    return np.flatnonzero(tree.parent == context).tolist()


def inclusive_of(tree: ContextTree, own: list[int], context: int) -> int:
    """By definition: the context and everything below."""
    return own[context] + sum(inclusive_of(tree, own, child) for child in children(tree, context))


def function_of(tree: ContextTree, own: list[int], context: int) -> int:
    """By definition: the context and what is reached by lexical nesting only."""
    nested = [c for c in children(tree, context) if tree.relation[c] == Relation.LEXICAL]
    return own[context] + sum(function_of(tree, own, child) for child in nested)


def stored_as(scope: Scope, tree: ContextTree, own: list[int]) -> list[int]:
    """What a file that stores this scope would hold."""
    n = tree.n_listed
    if scope == I:
        found = [inclusive_of(tree, own, c) for c in range(n)]
    elif scope == F:
        found = [function_of(tree, own, c) for c in range(n)]
    else:
        found = own[:n]
    return found + [123] * (len(tree) - n)  # elided contexts repeat cost that the tree has already


def draw_own(data: st.DataObject, tree: ContextTree) -> list[int]:
    n = tree.n_listed
    return [*data.draw(st.lists(NUMBERS, min_size=n, max_size=n)), *[0] * (len(tree) - n)]


@pytest.mark.parametrize("stored", [E, I, F, P])
@pytest.mark.parametrize("kind", ["f8", "i8", "u8"])
@given(tree=trees(), data=st.data())
def test_both_scopes_follow_from_any_stored_one(
    stored: Scope, kind: str, tree: ContextTree, data: st.DataObject
) -> None:
    own = draw_own(data, tree)
    metrics = Metrics((Metric("m", stored),))
    values = np.array(stored_as(stored, tree, own), kind)
    n = tree.n_listed
    expected = {E: own[:n], I: [inclusive_of(tree, own, c) for c in range(n)]}
    for wanted, numbers in expected.items():
        way = recipe(metrics, "m", wanted)
        found = way.apply(values, tree)
        if kind == "f8":
            largest = max([1.0, *map(float, expected[I])])
            np.testing.assert_allclose(found[:n], np.array(numbers, "f8"), rtol=0, atol=1e-11 * largest)
        else:
            assert found[:n].tolist() == numbers, "integers are exact"
        assert found[n:].tolist() == ([123] if stored == wanted else [0]) * (len(tree) - n)
        assert (way.is_stored, way.row.scope) == (stored == wanted, wanted)


@given(trees(elided=False), st.data())
def test_a_function_scope_metric_is_never_summed_over_a_subtree(tree: ContextTree, data: st.DataObject) -> None:
    own = draw_own(data, tree)
    values = np.array(stored_as(F, tree, own), np.int64)
    found = recipe(Metrics((Metric("m", F),)), "m", I).apply(values, tree)
    assert int(found[tree.roots].sum()) == sum(own)


@given(trees(), st.data())
def test_matrices_are_columns_side_by_side(tree: ContextTree, data: st.DataObject) -> None:
    columns = [np.array(draw_own(data, tree), np.float64) for _ in range(3)]
    for stored in (E, I, F, P):
        way = recipe(Metrics((Metric("m", stored),)), "m", I if stored != I else E)
        found = way.apply(np.stack(columns, axis=1), tree)
        for k, column in enumerate(columns):
            np.testing.assert_array_equal(found[:, k], way.apply(column, tree))


@pytest.mark.parametrize("aggregation", [Aggregation.MINIMUM, Aggregation.MAXIMUM])
@pytest.mark.parametrize("stored", [E, P, F])
@given(tree=trees(), data=st.data())
def test_minima_and_maxima_are_taken_over_the_subtree(
    aggregation: Aggregation, stored: Scope, tree: ContextTree, data: st.DataObject
) -> None:
    own = np.array(draw_own(data, tree), np.float64)
    found = recipe(Metrics((Metric("m", stored, aggregation=aggregation),)), "m", I).apply(own, tree)
    for context in range(tree.n_listed):
        below = own[context : tree.subtree_end[context]]
        assert found[context] == (below.min() if aggregation == Aggregation.MINIMUM else below.max())
    assert (found[tree.n_listed :] == aggregation.neutral).all()


def test_within_says_what_function_scope_contains() -> None:
    """The pre-release XML lists the call sites of a line beside the line, whose cost contains theirs."""
    builder = ExperimentBuilder("test")
    function = builder.add_context(-1, ContextKind.FUNCTION)
    line = builder.add_context(function, ContextKind.LINE, relation=Relation.LEXICAL)
    builder.add_context(function, ContextKind.CALL, relation=Relation.LEXICAL, within=line)
    tree = builder.build().contexts
    found = recipe(Metrics((Metric("m", F),)), "m", E).apply(np.array([10.0, 8.0, 3.0]), tree)
    assert found.tolist() == [2, 5, 3]


@pytest.mark.parametrize(
    ("stored", "wanted", "source"),
    [
        ([I, E], E, E),
        ([F, I], E, F),
        ([P, I], E, I),  # points of elided contexts are outside of the tree
        ([I], E, I),
        ([E, F, I], I, I),
        ([P, F], I, F),
        ([P, L], L, L),
        ([P, F], P, P),
    ],
)
def test_the_best_source_is_taken(stored: list[Scope], wanted: Scope, source: Scope) -> None:
    way = recipe(Metrics(tuple(Metric("m", scope, source_id=k) for k, scope in enumerate(stored))), "m", wanted)
    assert (way.metric.scope, way.stored) == (source, stored.index(source))
    assert way.row.source_id == (way.stored if way.is_stored else None)


@pytest.mark.parametrize(("stored", "wanted"), [([L], E), ([L], I), ([E], L), ([I], P)])
def test_what_cannot_be_computed_is_refused(stored: list[Scope], wanted: Scope) -> None:
    metrics = Metrics(tuple(Metric("m", scope) for scope in stored))
    with pytest.raises(UsageError, match=r"m .*(there is|\(stored:) (lexical|exclusive|inclusive)"):
        recipe(metrics, "m", wanted)


def test_a_metric_that_is_not_there_is_refused() -> None:
    with pytest.raises(UsageError, match="there is no metric 'm'; there are none"):
        recipe(Metrics(), "m", E)


def test_composite_values_combine_upwards_and_never_downwards() -> None:
    builder = ExperimentBuilder("test")
    root = builder.add_context(-1, ContextKind.FUNCTION)
    for _ in range(2):
        builder.add_context(root, ContextKind.FUNCTION)
    tree = builder.build().contexts
    values = np.zeros(3, ATOMIC_TYPE.dtype)
    metrics = Metrics((Metric("m", E, aggregation=Aggregation.COMPOSITE, composite=ATOMIC_TYPE),))
    assert recipe(metrics, "m", E).apply(values, tree) is values
    apart = replace(ATOMIC_TYPE, combine=None)
    stored = Metrics((Metric("m", I, composite=ATOMIC_TYPE), Metric("n", E, composite=apart)))
    for name, wanted in (("m", E), ("n", I)):
        way = recipe(stored, name, wanted)
        assert not way.is_possible
        with pytest.raises(UsageError, match=r"composite values are stored (inclusive|exclusive) only"):
            way.apply(values, tree)


@given(experiments(traces=False, summary=False, aggregations=(Aggregation.SUM,)))
def test_the_roots_hold_the_whole_cost(experiment: Any) -> None:
    for quantity in experiment.metrics.quantities:
        own = experiment.totals(quantity, E)[: experiment.contexts.n_listed]
        if experiment.metrics.scopes(quantity)[0] == I and len(experiment.metrics.scopes(quantity)) == 1:
            continue  # random inclusive values contradict each other
        if I in experiment.metrics.scopes(quantity):
            continue
        assert experiment.root_total(quantity) == pytest.approx(float(own.sum()), rel=1e-9, abs=1e4)


def test_integers_beyond_doubles_keep_their_last_digit() -> None:
    builder = ExperimentBuilder("test")
    root = builder.add_context(-1, ContextKind.FUNCTION)
    builder.add_context(root, ContextKind.FUNCTION)
    builder.add_context(-1, ContextKind.ELIDED)
    builder.add_profile(ProfileKind.THREAD)
    builder.add_metric(Metric("m", E))
    builder.add_values(0, [0, 1, 2], 0, np.array([1, 2**53, 5], np.int64))
    experiment = builder.build()
    assert experiment.totals("m", I).tolist() == [2**53 + 1, 2**53, 0]
