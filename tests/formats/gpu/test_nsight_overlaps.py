"""What ran at the same time: against counting every nanosecond, and every pair."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from callgrove.formats.gpu.nsight.extrap_paths import (
    each_first,
    join_on_keys,
    pairs_ending_inside,
    pairs_touching,
    segments_of,
)

LAST = 40
Pairs = list[tuple[int, int]]
intervals = st.lists(
    st.tuples(st.integers(0, LAST - 12), st.integers(1, 12)).map(lambda p: (p[0], p[0] + p[1])), max_size=8
)


def columns(pairs: Pairs) -> tuple[np.ndarray, np.ndarray]:
    return np.array([a for a, _ in pairs], np.int64), np.array([b for _, b in pairs], np.int64)


def running(pairs: Pairs) -> list[int]:
    return [sum(a <= t < b for a, b in pairs) for t in range(LAST)]


@given(intervals)
def test_segments_hold_how_many_run_at_every_instant(pairs: Pairs) -> None:
    start, end = columns(pairs)
    found = segments_of(start, end, np.arange(len(pairs)), np.ones(len(pairs), np.int64))
    counts = [0] * LAST
    for first, last, level in zip(found.start.tolist(), found.end.tolist(), found.running.tolist(), strict=True):
        for t in range(first, last):
            counts[t] += level
    assert counts == running(pairs)


@given(intervals, intervals)
def test_time_within_intervals_is_counted_by_nanoseconds(pairs: Pairs, asked: Pairs) -> None:
    start, end = columns(pairs)
    segments = segments_of(start, end, np.arange(len(pairs)), np.ones(len(pairs), np.int64))
    busy = [n > 0 for n in running(pairs)]
    covering = segments.within(*columns(asked), covering=True).tolist()
    assert covering == [sum(busy[a:b]) for a, b in asked]
    overlooked = [  # one segment reaches beyond both ends
        any(s < a and b < e for s, e in zip(segments.start.tolist(), segments.end.tolist(), strict=True))
        for a, b in asked
    ]
    expected = [0 if hidden else whole for hidden, whole in zip(overlooked, covering, strict=True)]
    assert segments.within(*columns(asked), covering=False).tolist() == expected


@given(intervals, intervals)
def test_pairs_are_all_there_and_none_twice(one: Pairs, other: Pairs) -> None:
    found = [pair for a, b in pairs_touching(*columns(one), *columns(other)) for pair in zip(a, b, strict=True)]
    wanted = [(i, j) for i, (a, b) in enumerate(one) for j, (c, d) in enumerate(other) if a <= d and c <= b]
    assert sorted((int(i), int(j)) for i, j in found) == wanted
    ends = columns(other)[1]
    found = [pair for a, b in pairs_ending_inside(*columns(one), ends) for pair in zip(a, b, strict=True)]
    wanted = [(i, j) for i, (a, b) in enumerate(one) for j, (_, d) in enumerate(other) if a <= d <= b]
    assert sorted((int(i), int(j)) for i, j in found) == wanted


keys = st.lists(st.integers(-3, 3), max_size=8)


@given(keys, keys)
def test_joins_give_every_combination_of_equal_keys(left: list[int], right: list[int]) -> None:
    rows = join_on_keys(np.array(left, np.int64), np.array(right, np.int64))
    wanted = [(i, j) for i, a in enumerate(left) for j, b in enumerate(right) if a == b]
    assert sorted(zip(*(r.tolist() for r in rows), strict=True)) == wanted


@given(keys)
def test_the_first_row_of_each_key(given_keys: list[int]) -> None:
    different, first, counts = each_first(np.array(given_keys, np.int64))
    assert [given_keys.index(key) for key in different.tolist()] == first.tolist()
    assert [given_keys.count(key) for key in different.tolist()] == counts.tolist()
