"""Experiments of differences: costs below zero are costs, and the largest change comes first in every view."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from callgrove.algebra.operations import diff
from callgrove.analysis.costs import GROUPINGS, Costs, costs
from callgrove.analysis.overview import overview
from callgrove.analysis.views import bottom_up, hot_path, top, top_down
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.contexts import ContextKind
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Metric, Scope
from callgrove.model.profiles import ProfileKind
from callgrove.model.table import Column, Table
from callgrove.render.facts import facts_of
from callgrove.render.text_formats import Signed
from callgrove.render.text_table import Look, text_table
from callgrove.render.units import draw_signed_bar, percent
from tests.analysis.trees import costly_trees


def program(**own: float) -> Experiment:
    """main calls the others; each has its own cost."""
    builder = ExperimentBuilder("made")
    for number, name in enumerate(("main", *own)):
        region = builder.region(ContextKind.FUNCTION, name)
        builder.add_context(0 if number else -1, ContextKind.FUNCTION, region)
    builder.add_metric(Metric("time", Scope.EXCLUSIVE, unit="s"))
    builder.add_profile(ProfileKind.THREAD)
    builder.add_values(0, np.arange(1, len(own) + 1), 0, np.array(list(own.values())))
    return builder.build()


@given(costly_trees(least=-5), st.sampled_from(sorted(GROUPINGS)))
def test_the_largest_change_comes_first(found: Costs, by: str) -> None:
    table = top(found, by)
    sizes = [abs(value) for value in table.column("exclusive").plain()]
    assert sizes == sorted(sizes, reverse=True)
    assert sum(table.column("exclusive").plain()) == found.total
    shares = [abs(share) for share in table.column("percent").plain()]
    assert sum(shares) <= 100 + 1e-9
    if by == "context" and found.is_signed:
        assert sum(shares) == pytest.approx(100)


@given(costly_trees(least=-5), st.booleans())
def test_the_tree_has_every_change_and_what_lies_above(found: Costs, source: bool) -> None:
    table = top_down(found, source)
    assert sum(table.column("exclusive").plain()) == found.total
    above: list[float] = []
    siblings: dict[tuple[float, ...], float] = {}
    for depth, inclusive in zip(table.column("depth").plain(), table.column("inclusive").plain(), strict=True):
        del above[depth:]
        assert len(above) == depth, "a row without its parent"
        siblings = {key: value for key, value in siblings.items() if len(key) <= depth}
        assert abs(inclusive) <= siblings.get(tuple(above), np.inf)
        siblings[tuple(above)] = abs(inclusive)
        above.append(len(siblings) + inclusive)


@given(costly_trees(least=-5))
def test_the_hot_path_is_empty_only_where_nothing_changed(found: Costs) -> None:
    path = hot_path(found).column("context").plain()
    assert bool(path) == bool(found.exclusive.any()) or not found.is_signed
    if found.is_signed:
        weights = [abs(float(found.exclusive[c : found.tree.subtree_end[c]].sum())) for c in path]
        assert all(found.weights[c] >= weight - 1e-9 for c, weight in zip(path, weights, strict=True))
        assert all(b >= a / 2 for a, b in zip(found.weights[path[:-1]], found.weights[path[1:]], strict=True))


@given(costly_trees(least=-5), st.integers(0, 30) | st.none())
def test_callers_are_sorted_by_the_size_of_changes(found: Costs, limit: int | None) -> None:
    table = bottom_up(found, limit)
    first = [
        abs(cost)
        for depth, cost in zip(table.column("depth").plain(), table.column("exclusive").plain(), strict=True)
        if depth == 0
    ]
    assert first == sorted(first, reverse=True)


def test_a_caller_whose_calls_cancel_out_is_shown_all_the_same() -> None:
    found = costs(program(faster=-2.0, slower=2.0))
    assert top_down(found).column("name").plain() == ["main", "faster", "slower"]
    assert hot_path(found).column("name").plain() == ["main", "faster"]
    assert top(found).column("percent").plain() == [-50.0, 50.0]


@pytest.mark.parametrize(("below", "signed"), [(-0.0009, False), (-0.0012, True)])
def test_what_is_rounding_makes_no_difference_of_an_experiment(below: float, signed: bool) -> None:
    found = costs(program(solve=1.0, rest=below))
    assert found.is_signed == signed
    assert found.whole == pytest.approx(1 - below if signed else 1 + below)


def test_a_difference_is_told_as_one() -> None:
    left, right = program(solve=1.0, io=2.0), program(solve=4.0, io=1.5)
    made = diff(left, right)
    seen = overview(made).hottest
    assert seen is not None
    assert (seen.name, seen.exclusive, seen.total, seen.gain, seen.loss) == ("solve", -3.0, -2.5, 0.5, -3.0)
    assert seen.percent == pytest.approx(-100 * 3.0 / 3.5)
    told = dict(facts_of(overview(made)))["changed"]
    assert told == "solve: -3 s (85.7% of all changes of time, 500 ms more and 3 s less)"


def test_changes_have_two_colours_and_a_sign_without_any() -> None:
    table = Table((Column("name", ["a", "b"]), Signed("cost", ["-1.00 s", " 2.00 s"])))
    lines = "".join(text_table([table], Look(colour=True))).splitlines()[2:]
    colours = [re.findall(r"\x1b\[(\d+)m", line) for line in lines]
    assert colours == [["32", "0"], ["31", "0"]]
    assert "\x1b" not in "".join(text_table([table], Look(colour=False)))
    assert [draw_signed_bar(share, 2) for share in (-1.0, 0.5, 0.0)] == ["-██", "+█ ", "   "]
    assert [percent(share) for share in (-0.5, -0.0001, 0.0001, 0.0)] == ["-50.0%", "-<0.1%", "<0.1%", "0.0%"]
