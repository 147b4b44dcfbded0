"""Propagation, merging and looking up against what a person would do with dictionaries."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from callgrove.model.metrics import Scope
from callgrove.prof.gpu_samples import Templates
from callgrove.prof.nodes import CODE, Flavour, Forest, RawTree, place_of
from callgrove.prof.second_pass import Cells, MetricPlan, Plan, load, plain_layout, propagate

Tree = list[tuple[int, int, int]]  # parent, place, offset


@st.composite
def trees(draw: st.DrawFn) -> Tree:
    n = draw(st.integers(1, 25))
    found = [(-1, CODE, 1)]
    for k in range(1, n):
        place = draw(st.sampled_from([CODE, place_of(0), place_of(1)]))
        found.append((draw(st.integers(0, k - 1)), place, draw(st.integers(0, 3))))
    return found


def paths(tree: Tree) -> list[tuple[tuple[int, int], ...]]:
    found: list[tuple[tuple[int, int], ...]] = []
    for parent, place, offset in tree:
        found.append((*(found[parent] if parent >= 0 else ()), (place, offset)))
    return found


def columns(tree: Tree) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    above, place, offset = zip(*tree, strict=True)
    return np.array(above, np.int32), np.array(place, np.int64), np.array(offset, np.uint64)


def paths_of(tree: RawTree) -> list[tuple[tuple[int, int], ...]]:
    rows = zip(tree.parent.tolist(), tree.place[tree.region].tolist(), tree.offset[tree.region].tolist(), strict=True)
    return paths(list(rows))


@given(st.lists(trees(), min_size=1, max_size=4))
def test_merging_in_any_order_gives_the_same_tree(given_trees: list[Tree]) -> None:
    modules = ("/a", "/b")
    whole = RawTree.of(modules, Forest.of([columns(tree) for tree in given_trees]))
    assert set(paths_of(whole)) == {path for tree in given_trees for path in paths(tree)}
    assert len(set(paths_of(whole))) == len(whole)
    for order in (given_trees, given_trees[::-1]):
        merged = RawTree.of(modules, Forest.of([columns(order[0])]))
        for tree in order[1:]:
            merged = merged.merge_with(RawTree.of(modules, Forest.of([columns(tree)])))
        for name in ("parent", "region", "place", "offset"):
            assert np.array_equal(getattr(merged, name), getattr(whole, name))
    for tree in given_trees:
        found = whole.find(*columns(tree)).tolist()
        assert [paths_of(whole)[node] for node in found] == paths(tree)


def test_modules_are_numbered_anew_when_trees_meet() -> None:
    root = (-1, CODE, 1)
    left = RawTree.of(("/b",), Forest.of([columns([root, (0, place_of(0), 7)])]))
    two = [root, (0, place_of(0), 7), (0, place_of(1, is_bare=True), 7)]
    right = RawTree.of(("/a", "/b"), Forest.of([columns(two)]))
    both = left.merge_with(right)
    assert both.modules == ("/a", "/b")
    assert set(paths_of(both)) == {
        ((CODE, 1),),
        ((CODE, 1), (place_of(0), 7)),
        ((CODE, 1), (place_of(1), 7)),
        ((CODE, 1), (place_of(1, is_bare=True), 7)),
    }
    nothing = both.find(*columns([root, (0, place_of(0), 8), (1, place_of(0), 7), (0, 99, 1)]))
    assert nothing.tolist() == [0, -1, -1, -1]


def plan_of(parent: list[int], lexical: list[bool]) -> Plan:
    """A plan of contexts alone: level by level, children of one parent together."""
    depth = [0]
    for above in parent[1:]:
        depth.append(depth[above] + 1)
    none = np.empty(0, np.int64)
    metrics = MetricPlan({}, {}, np.zeros(2, np.bool_), -1, -1, -1)
    ids = np.arange(len(parent), dtype=np.int32)
    return Plan(
        Flavour(),
        (),
        metrics,
        Templates({}),
        none,
        none.astype(np.uint64),
        *(none.astype(np.int32),) * 4,
        np.array(parent, np.int32),
        np.array(depth, np.int32),
        np.array(lexical, np.bool_),
        ids,
        ids,
        plain_layout(len(parent)),
    )


@given(st.data())
def test_scopes_are_sums_over_children(data: st.DataObject) -> None:
    n = data.draw(st.integers(2, 20))
    parent = [-1]
    while len(parent) < n:  # level by level: parents rise
        parent.append(data.draw(st.integers(max(parent[-1], 0), len(parent) - 1)))
    lexical = [False] + [data.draw(st.booleans()) for _ in range(n - 1)]
    cells = data.draw(
        st.lists(st.tuples(st.integers(0, 2), st.integers(1, n - 1), st.integers(0, 1), st.integers(1, 9)), min_size=1)
    )
    plan = plan_of(parent, lexical)
    file, context, quantity, value = (np.array(column) for column in zip(*cells, strict=True))
    quantities, levels = propagate(plan, Cells(file, context, quantity, value.astype(np.float64)))
    got: dict[tuple[str, int, int, int], float] = {}
    for level in levels:
        for word in ("point", "function", "inclusive"):
            for row, line in enumerate(getattr(level, word).tolist()):
                for q, number in zip(quantities.tolist(), line, strict=True):
                    if number:
                        got[word, int(level.file[row]), int(level.context[row]), q] = number
    want: dict[tuple[str, int, int, int], float] = {}
    for f, c, q, v in cells:
        up, nested = c, True
        want["point", f, c, q] = want.get(("point", f, c, q), 0) + v
        while up > 0:
            want["inclusive", f, up, q] = want.get(("inclusive", f, up, q), 0) + v
            if nested:
                want["function", f, up, q] = want.get(("function", f, up, q), 0) + v
            nested &= lexical[up]
            up = parent[up]
    assert got == want


def test_a_plan_survives_its_folder(tmp_path: Path) -> None:
    plan = plan_of([-1, 0, 0, 1], [False, True, False, True])
    plan.save(tmp_path / "plan")
    again = load(str(tmp_path / "plan"))
    assert again.above.tolist() == [-1, 0, 0, 1]
    assert again.metrics.rows == {}
    assert again.flavour == Flavour()
    with pytest.raises(ValueError, match="read-only"):
        again.above[0] = 1
    assert Scope.POINT not in again.metrics.rows
