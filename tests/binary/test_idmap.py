"""From a file's ids to dense numbers."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from callgrove.binary.files import IdMap

SMALL = st.integers(0, 60)
ANY = st.integers(-(2**63), 2**63 - 1)


def check(ids: list[int], asked: list[int], dtype: type[np.integer]) -> None:
    expected = [ids.index(one) if one in ids else -1 for one in asked]
    found = IdMap(np.array(ids, dtype))
    assert found[np.array(asked, dtype)].tolist() == expected
    assert found[np.array(asked, dtype)].dtype == np.int32
    assert [found.one(one) for one in asked] == expected
    assert len(found) == len(ids)


@given(st.lists(SMALL), st.lists(SMALL))
def test_dense_ids(ids: list[int], asked: list[int]) -> None:
    for dtype in (np.int64, np.uint64, np.uint32, np.int32):
        check(ids, asked, dtype)


@given(st.lists(SMALL | ANY), st.lists(SMALL | ANY))
def test_sparse_ids(ids: list[int], asked: list[int]) -> None:
    check(ids, asked + ids, np.int64)


@given(st.lists(SMALL | st.integers(2**52, 2**64 - 1)), st.lists(st.integers(0, 2**64 - 1)))
def test_unsigned_ids_beyond_the_precision_of_doubles(ids: list[int], asked: list[int]) -> None:
    near = [one + d for one in ids for d in (-1, 1) if 0 <= one + d < 2**64]
    check(ids, asked + ids + near, np.uint64)


def test_the_first_of_equal_ids_wins() -> None:
    for far in (0, 10**12):
        found = IdMap(np.array([5, 7, 5, far + 9]))
        assert found[np.array([5, 7, far + 9, 6])].tolist() == [0, 1, 3, -1]


def test_given_numbers() -> None:
    found = IdMap(np.array([10, 20]), np.array([7, 8]))
    assert found[np.array([20, 10, 11, -1])].tolist() == [8, 7, -1, -1]


@pytest.mark.parametrize("ids", [[], [3], [3, 10**18]])
def test_no_question_no_answer(ids: list[int]) -> None:
    assert IdMap(np.array(ids, np.int64))[np.array([], np.int64)].tolist() == []
    assert IdMap(np.array([], np.int64))[np.array([3, 4])].tolist() == [-1, -1]


def test_absurd_ids_ask_for_no_memory() -> None:
    tracemalloc.start()
    for absurd in (2**62, 2**32, -(2**63), 10**9):
        found = IdMap(np.array([0, 1, absurd]))
        assert found[np.array([absurd, absurd - 1 if absurd > 0 else 5, 1])].tolist() == [2, -1, 1]
        dense = IdMap(np.arange(100))
        assert dense[np.array([absurd, 99])].tolist() == [-1, 99]
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()


def test_nearly_dense_ids_use_a_table_of_their_size() -> None:
    n = 100_000
    tracemalloc.start()
    found = IdMap(np.arange(n) * 3)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.one(3 * (n - 1)) == n - 1
    assert peak < 64 * n
