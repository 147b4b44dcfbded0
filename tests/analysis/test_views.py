"""Four views of one metric give one total, and each row is what brute force says."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from callgrove.analysis.costs import GROUPINGS, Costs, _group_by_key, group
from callgrove.analysis.views import bottom_up, hot_path, top, top_down
from callgrove.errors import UsageError
from callgrove.examples import example
from callgrove.model.table import Table
from tests.analysis.trees import costly_trees, function_of, inclusive_of


def rows_of(table: Table) -> list[dict[str, object]]:
    return [dict(zip(table.names, row, strict=True)) for row in table.rows()]


@given(costly_trees(), st.sampled_from(sorted(GROUPINGS)))
def test_every_flat_view_adds_up_to_the_total(found: Costs, by: str) -> None:
    table = top(found, by)
    assert sum(table.column("exclusive").plain()) == found.total
    shares = table.column("percent").plain()
    assert shares == sorted(shares, reverse=True)
    if found.total:
        assert sum(shares) == pytest.approx(100)


KEYS = st.integers(-3, 5) | st.integers(0, 2**62) | st.integers(-(2**62), -1)  # places of lines need 64 bits


@given(st.lists(KEYS, max_size=40))
def test_groups_are_numbered_by_first_appearance(keys: list[int]) -> None:
    """Whether keys are few enough for a table of them or have to be sorted."""
    groups = _group_by_key(np.array(keys, np.int64))
    leaders = list(dict.fromkeys(keys))
    assert groups.of.tolist() == [leaders.index(key) for key in keys]
    assert groups.first.tolist() == [keys.index(key) for key in leaders]


@given(costly_trees())
def test_functions_have_the_cost_of_what_is_nested_in_them(found: Costs) -> None:
    exclusive: Counter[str] = Counter()
    inclusive: defaultdict[str, float] = defaultdict(float)
    tree = found.tree
    for context in range(tree.n_listed):
        owner = function_of(tree, context)
        exclusive[tree.label(owner)] += int(found.exclusive[context])
        names = [tree.label(function_of(tree, above)) for above in tree.ancestors(context)[1:]]
        if tree.label(owner) not in names:  # recursion counts once
            inclusive[tree.label(owner)] += inclusive_of(found, context)
    for row in rows_of(top(found)):
        assert row["exclusive"] == exclusive[str(row["name"])]
        assert row["inclusive"] == inclusive[str(row["name"])]


@given(costly_trees(), st.booleans())
def test_the_tree_adds_up_and_is_in_preorder(found: Costs, source: bool) -> None:
    rows = rows_of(top_down(found, source))
    assert sum(row["exclusive"] for row in rows) == found.total  # type: ignore[misc]
    assert sum(row["inclusive"] for row in rows if row["depth"] == 0) == found.total  # type: ignore[misc]
    path: list[dict[str, object]] = []
    for row in rows:
        del path[int(str(row["depth"])) :]
        assert len(path) == row["depth"], "a row without its parent"
        assert row["inclusive"] == inclusive_of(found, int(str(row["context"])))
        path.append(row)


@given(costly_trees(), st.integers(0, 30))
def test_a_limit_keeps_what_lies_above(found: Costs, limit: int) -> None:
    whole, cut = top_down(found), top_down(found, limit=limit)
    assert len(cut) <= limit or len(whole) <= limit
    assert len(cut) + cut.left == len(whole)
    assert len(cut) or not limit or not len(whole)
    shown = set(cut.column("context").plain())
    depths = cut.column("depth").plain()
    assert not depths or depths[0] == 0
    assert all(b <= a + 1 for a, b in itertools.pairwise(depths))
    assert shown <= set(whole.column("context").plain())


@given(costly_trees())
def test_callers_share_the_cost_of_what_they_call(found: Costs) -> None:
    rows = rows_of(bottom_up(found))
    assert sum(row["exclusive"] for row in rows if row["depth"] == 0) == found.total  # type: ignore[misc]
    suffixes: Counter[tuple[str, ...]] = Counter()
    tree = found.tree
    for context in range(tree.n_listed):
        owner, chain = function_of(tree, context), []
        while owner >= 0:
            chain.append(tree.label(owner))
            above = int(tree.parent[owner])
            owner = function_of(tree, above) if above >= 0 else -1
        for length in range(1, len(chain) + 1):
            suffixes[tuple(chain[:length])] += int(found.exclusive[context])
    path: list[str] = []
    for row in rows:
        del path[int(str(row["depth"])) :]
        path.append(str(row["name"]))
        assert row["exclusive"] == suffixes[tuple(path)]


@given(costly_trees(), st.integers(1, 30))
def test_a_limit_on_callers_keeps_the_costliest_rows(found: Costs, limit: int) -> None:
    whole, cut = bottom_up(found), bottom_up(found, limit)
    assert len(cut) == min(limit, len(whole))
    costs_of = sorted(whole.column("exclusive").plain(), reverse=True)
    assert sorted(cut.column("exclusive").plain(), reverse=True) == costs_of[: len(cut)]
    assert cut.left <= len(whole) - len(cut)


@given(costly_trees(), st.sampled_from([0.0, 0.3, 0.5, 0.9, 1.0]))
def test_the_hot_path_goes_on_while_one_call_dominates(found: Costs, share: float) -> None:
    rows = rows_of(hot_path(found, share))
    assert [row["depth"] for row in rows] == list(range(len(rows)))
    for above, below in itertools.pairwise(rows):
        assert float(str(below["inclusive"])) >= share * float(str(above["inclusive"]))
    if found.total:
        roots = [inclusive_of(found, int(root)) for root in found.tree.roots]
        assert rows[0]["inclusive"] == max(roots)


def test_an_unknown_grouping_names_the_known_ones() -> None:
    with pytest.raises(UsageError, match="function, line, loop"):
        group(example().contexts, "colour")
