"""Small things about columns of numbers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from callgrove.arrays import choose_rows, distinct, fill_runs

NUMBERS = st.lists(st.integers(-3, 10))


@given(st.lists(NUMBERS, min_size=1, max_size=3))
def test_distinct_numbers_are_ascending(parts: list[list[int]]) -> None:
    found = distinct(*(np.array(part, np.int64) for part in parts))
    assert found.tolist() == sorted({number for part in parts for number in part})


@pytest.mark.parametrize("dtype", [np.int32, np.uint64, ">u4"])
def test_the_type_stays(dtype: str) -> None:
    given_ = np.array([7, 3, 7], dtype)
    assert distinct(given_).tolist() == [3, 7]
    assert distinct(given_).dtype == given_.dtype
    assert given_.tolist() == [7, 3, 7]


@given(st.lists(st.tuples(st.integers(-(2**31), 2**31 - 1), st.integers(0, 9))), st.integers(0, 40))
def test_runs_are_filled_like_repeated_numbers(runs: list[tuple[int, int]], longer: int) -> None:
    """Short ones and long ones, and such without room; differences of numbers may wrap around."""
    numbers, counts = np.array(runs, np.int64).reshape(-1, 2).T
    counts = counts + longer * (counts > 0)
    out = np.full(int(counts.sum()), 77, np.int32)
    fill_runs(out, numbers.astype(np.int32), np.cumsum(counts) - counts)
    assert out.tolist() == np.repeat(numbers, counts).tolist()


@given(st.lists(st.booleans()))
def test_rows_of_a_mask(mask: list[bool]) -> None:
    """Rows that follow each other are a slice."""
    rows = [row for row, is_chosen in enumerate(mask) if is_chosen]
    found = choose_rows(np.array(mask, np.bool_))
    assert np.arange(len(mask))[found].tolist() == rows
    assert isinstance(found, slice) == (not rows or rows[-1] - rows[0] < len(rows))
