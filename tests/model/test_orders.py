"""Passes over trees, against brute force on random forests in random order."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from callgrove.arrays import Ids, combine_upwards, cycles, depths, levels, preorder, subtract_children, subtree_ends
from tests.model.strategies import forests
from tests.timing import assert_linear

N_DEEP = 100_000


def ids(values: list[int]) -> Ids:
    return np.array(values, np.int32)


def ancestors(parents: list[int], node: int) -> list[int]:
    out = [node]
    while (above := parents[out[-1]]) >= 0:
        out.append(above)
    return out


def renumbered(parents: list[int], order: list[int]) -> list[int]:
    """The same forest with context `order[k]` called k."""
    place = {old: new for new, old in enumerate(order)}
    return [place[parents[old]] if parents[old] >= 0 else -1 for old in order]


@given(forests())
def test_depth_is_the_distance_to_the_root(parents: list[int]) -> None:
    assert depths(ids(parents)).tolist() == [len(ancestors(parents, k)) - 1 for k in range(len(parents))]


@given(forests())
def test_preorder_puts_parents_first_and_keeps_siblings(parents: list[int]) -> None:
    order = preorder(ids(parents)).tolist()

    def visit(node: int) -> list[int]:
        below = [one for child, parent in enumerate(parents) if parent == node for one in visit(child)]
        return [node, *below] if node >= 0 else below

    assert order == visit(-1)
    assert preorder(ids(renumbered(parents, order))).tolist() == list(range(len(parents)))


@given(forests())
def test_a_subtree_is_a_slice(parents: list[int]) -> None:
    sorted_parents = renumbered(parents, preorder(ids(parents)).tolist())
    ends = subtree_ends(ids(sorted_parents)).tolist()
    for node, end in enumerate(ends):
        below = [k for k in range(len(ends)) if node in ancestors(sorted_parents, k)]
        assert below == list(range(node, end))


@given(forests())
def test_levels_hold_every_context_once(parents: list[int]) -> None:
    depth = depths(ids(parents))
    found = [level.tolist() for level in levels(depth)]
    assert found == [np.flatnonzero(depth == d).tolist() for d in range(int(depth.max(initial=-1)) + 1)]


@given(forests(max_size=12), st.data())
def test_what_lies_on_or_below_a_cycle_is_found(parents: list[int], data: st.DataObject) -> None:
    assert cycles(ids(parents)).tolist() == []
    if not parents:
        return
    knot = data.draw(st.integers(0, len(parents) - 1))
    below = [k for k in range(len(parents)) if knot in ancestors(parents, k)]
    broken = list(parents)
    broken[knot] = data.draw(st.sampled_from(below))
    assert cycles(ids(broken)).tolist() == below
    assert (depths(ids(broken))[below] == -1).all()


@given(forests(), st.data())
def test_combining_upwards_covers_the_subtree(parents: list[int], data: st.DataObject) -> None:
    values = np.array(data.draw(st.lists(st.integers(-9, 9), min_size=len(parents), max_size=len(parents))), np.int64)
    by_level = levels(depths(ids(parents)))
    subtrees = [[k for k in range(len(parents)) if node in ancestors(parents, k)] for node in range(len(parents))]
    for ufunc in (np.add, np.minimum, np.maximum):
        found = combine_upwards(values, ids(parents), by_level, ufunc)
        assert found.tolist() == [int(ufunc.reduce(values[below])) for below in subtrees]
    two = np.stack([values, -values], axis=1)
    assert combine_upwards(two, ids(parents), by_level)[:, 1].tolist() == [-int(values[b].sum()) for b in subtrees]


@given(forests(), st.data())
def test_subtracting_children_undoes_combining(parents: list[int], data: st.DataObject) -> None:
    own = np.array(data.draw(st.lists(st.integers(0, 2**55), min_size=len(parents), max_size=len(parents))), np.int64)
    inclusive = combine_upwards(own, ids(parents), levels(depths(ids(parents))))
    assert subtract_children(inclusive, ids(parents)).tolist() == own.tolist()


def test_a_rest_of_rounding_is_no_cost() -> None:
    values = np.array([0.1 + 0.2, 0.1, 0.2, 5.0])
    assert values[0] - 0.1 - 0.2 != 0
    assert subtract_children(values, ids([-1, 0, 0, -1])).tolist() == [0, 0.1, 0.2, 5.0]


def test_no_context_at_all() -> None:
    none = ids([])
    assert [len(f(none)) for f in (depths, preorder, subtree_ends, cycles)] == [0, 0, 0, 0]
    assert levels(none) == []


@pytest.mark.parametrize("turned", [False, True], ids=["in preorder", "leaf first"])
def test_a_chain_of_a_hundred_thousand_levels(turned: bool) -> None:
    def chain(n: int) -> None:
        up = np.arange(n, dtype=np.int32)
        parents = np.append(up[1:], -1).astype(np.int32) if turned else up - 1
        order = preorder(parents)
        assert order.tolist() == (up[::-1] if turned else up).tolist()
        sorted_parents = (up - 1).astype(np.int32)
        assert (subtree_ends(sorted_parents) == n).all()
        by_level = levels(depths(sorted_parents))
        assert len(by_level) == n
        assert combine_upwards(np.ones(n), sorted_parents, by_level)[0] == n
        assert len(cycles(parents)) == 0

    assert_linear(lambda n: partial(chain, n), N_DEEP // 4)
