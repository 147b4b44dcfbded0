"""Small things about columns of numbers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from callgrove.arrays import distinct

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
