"""Groups and look-ups of large columns, against dictionaries."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from callgrove.arrays import Directory, distinct_rows, in_order, pack_columns

FAR = st.sampled_from([-(2**63), 2**63 - 1, 10**15, -(10**15)])
NUMBER = st.one_of(st.integers(-5, 5), st.integers(-(2**63), 2**63 - 1), FAR)


@given(st.lists(st.tuples(NUMBER, NUMBER, st.integers(0, 3)), max_size=30))
def test_distinct_rows(rows: list[tuple[int, int, int]]) -> None:
    columns = [np.array([row[k] for row in rows], np.int64) for k in range(3)]
    found, number = distinct_rows(*columns)
    assert [tuple(row) for row in found.T.tolist()] == sorted(set(rows))
    assert [tuple(found[:, k].tolist()) for k in number.tolist()] == rows


@given(st.lists(st.tuples(NUMBER, st.integers(-3, 3)), max_size=30))
def test_packed_keeps_the_order(rows: list[tuple[int, int]]) -> None:
    keys = pack_columns(*(np.array([row[k] for row in rows], np.int64) for k in range(2)))
    assert keys is not None
    assert [rows[k] for k in np.argsort(keys, kind="stable").tolist()] == sorted(rows)


def test_packing_leaves_columns_of_any_type_as_they_are() -> None:
    for kind in (np.int64, np.int32, np.uint32, np.uint64, np.int8, np.bool_):
        columns = [np.array([0, 1, 0, 1], kind), np.array([1, 0, 0, 1], kind)]
        before = [column.tolist() for column in columns]
        keys = pack_columns(*columns)
        assert keys is not None
        assert keys.tolist() == [1, 2, 0, 3]
        assert [column.tolist() for column in columns] == before


@given(st.lists(st.tuples(st.one_of(st.integers(0, 2), NUMBER), st.integers(-3, 2**45)), max_size=30))
def test_rows_in_order_keep_that_of_equal_ones(rows: list[tuple[int, int]]) -> None:
    found = in_order(*(np.array([row[k] for row in rows], np.int64) for k in range(2)))
    assert found.tolist() == sorted(range(len(rows)), key=lambda k: rows[k])


def test_what_does_not_fit_is_grouped_nevertheless() -> None:
    columns = [np.array([0, 2**39, 0, 5], np.int64)] * 2
    assert pack_columns(*columns) is None
    found, number = distinct_rows(*columns)
    assert (found.T.tolist(), number.tolist()) == ([[0, 0], [5, 5], [2**39, 2**39]], [0, 2, 0, 1])


@given(st.lists(NUMBER, max_size=30), st.lists(NUMBER, max_size=30))
def test_a_directory_is_a_dictionary(keys: list[int], asked: list[int]) -> None:
    first: dict[int, int] = {}
    for number, key in enumerate(keys):
        first.setdefault(key, number)
    directory = Directory(np.array(keys, np.int64), np.arange(len(keys)))
    wanted = np.array([*asked, *keys], np.int64)
    assert directory[wanted].tolist() == [first.get(key, -1) for key in wanted.tolist()]
    assert directory.is_unique == (len(first) == len(keys))
