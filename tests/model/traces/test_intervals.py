"""Interval sweeps against brute force, and the worked examples of the specification."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from callgrove.arrays import Ints
from callgrove.model.traces import intervals
from callgrove.model.traces.intervals import (
    concurrency,
    enclosing,
    exclusive_length,
    fair_share,
    gaps,
    lanes,
    merge,
    nesting,
    overlap,
    overlap_length,
    union_length,
)
from tests.timing import assert_linear

Pairs = list[tuple[int, int]]

KERNELS: Pairs = [(0, 10), (4, 14), (20, 25)]
COPY: Pairs = [(8, 22)]
NESTED: Pairs = [(0, 100), (10, 40), (15, 20), (40, 60), (60, 60), (70, 100)]

# Small numbers meet often; some intervals end before they start.
PAIRS = st.lists(st.tuples(st.integers(0, 24), st.integers(-2, 12)).map(lambda p: (p[0], p[0] + p[1])), max_size=12)
TRACKED = st.lists(
    st.tuples(st.integers(0, 24), st.integers(-2, 12), st.integers(0, 2)).map(lambda p: (p[0], p[0] + p[1], p[2])),
    max_size=12,
)


def split(pairs: Pairs) -> tuple[list[int], list[int]]:
    return [a for a, _ in pairs], [b for _, b in pairs]


def covered(pairs: Pairs) -> set[int]:
    """Every unit of time in which an interval is open."""
    return {t for a, b in pairs for t in range(a, b)}


def as_pairs(found: intervals.Intervals) -> Pairs:
    return list(zip(found.start.tolist(), found.end.tolist(), strict=True))


def test_the_worked_example_of_union_and_overlap() -> None:
    assert as_pairs(merge(*split(KERNELS))) == [(0, 14), (20, 25)]
    assert union_length(*split(KERNELS)) == 19
    assert as_pairs(overlap(merge(*split(KERNELS)), merge(*split(COPY)))) == [(8, 14), (20, 22)]
    assert overlap_length(split(KERNELS), split(COPY)) == 8
    assert as_pairs(gaps(*split(KERNELS + COPY), window=(0, 30))) == [(25, 30)]
    assert concurrency(*split(KERNELS)).tolist() == [6, 13, 6]
    assert fair_share(*split(KERNELS)).tolist() == [7, 7, 5]
    assert lanes(*split(KERNELS)).tolist() == [0, 1, 0]


def test_the_worked_example_of_nesting() -> None:
    found = nesting(*split(NESTED))
    assert found.parent.tolist() == [-1, 0, 1, 0, 0, 0]
    assert found.depth.tolist() == [0, 1, 2, 1, 1, 1]
    assert exclusive_length(*split(NESTED)).tolist() == [20, 25, 5, 20, 0, 30]
    assert found.crossings == 0


def test_crossing_intervals_do_not_nest() -> None:
    found = nesting([0, 5], [10, 15])
    assert (found.parent.tolist(), found.crossings) == ([-1, -1], 1)
    assert exclusive_length([0, 5], [10, 15]).tolist() == [5, 10]


def test_the_worked_example_of_attribution() -> None:
    ranges = split([(0, 100), (10, 40), (40, 60)])
    assert enclosing(ranges, split([(12, 13), (39, 41), (40, 41), (100, 101)])).tolist() == [1, 0, 2, -1]


def test_nothing_in_nothing_out() -> None:
    none: list[int] = []
    assert len(merge(none, none)) == union_length(none, none) == overlap_length((none, none), (none, none)) == 0
    assert as_pairs(gaps(none, none)) == []
    assert as_pairs(gaps(none, none, (3, 7))) == [(3, 7)]
    assert concurrency(none, none).tolist() == [0]
    assert nesting(none, none).parent.tolist() == lanes(none, none).tolist() == exclusive_length(none, none).tolist()
    assert enclosing((none, none), ([1], [2])).tolist() == [-1]
    assert enclosing(([1], [2]), (none, none)).tolist() == []


def test_backward_intervals_are_excluded_and_counted() -> None:
    start, end = [5, 0, 9], [1, 4, 8]
    assert merge(start, end).excluded == gaps(start, end).excluded == nesting(start, end).excluded == 2
    assert union_length(start, end) == 4
    assert nesting(start, end).depth.tolist() == [-1, 0, -1]
    assert lanes(start, end).tolist() == [-1, 0, -1]
    assert fair_share(start, end).tolist() == exclusive_length(start, end).tolist() == [0, 4, 0]


def test_columns_of_different_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match="not two columns of one length"):
        merge([1, 2], [3])


def test_the_longest_possible_interval() -> None:
    low, high = -(2**63), 2**63 - 1
    assert union_length([low], [high]) == 2**64 - 1
    assert union_length([low, 0], [0, high]) == 2**64 - 1
    assert nesting([low, 0, high], [high, high, high]).parent.tolist() == [-1, 0, -1]


@given(PAIRS)
def test_merge_covers_the_same_time(pairs: Pairs) -> None:
    found = merge(*split(pairs))
    assert covered(as_pairs(found)) == covered(pairs)
    assert union_length(*split(pairs)) == found.length == len(covered(pairs))
    assert all(a < b for a, b in as_pairs(found))
    assert (found.start[1:] > found.end[:-1]).all()
    assert found.excluded == sum(b < a for a, b in pairs)


@given(PAIRS, PAIRS)
def test_overlap_is_the_intersection(left: Pairs, right: Pairs) -> None:
    found = overlap(merge(*split(left)), merge(*split(right)))
    assert covered(as_pairs(found)) == covered(left) & covered(right)
    assert overlap_length(split(left), split(right)) == overlap_length(split(right), split(left)) == found.length


@given(PAIRS, st.tuples(st.integers(-5, 40), st.integers(-5, 40)))
def test_gaps_are_the_complement(pairs: Pairs, window: tuple[int, int]) -> None:
    assert covered(as_pairs(gaps(*split(pairs), window))) == set(range(*window)) - covered(pairs)
    time_used = covered(pairs)
    inner = set(range(min(time_used), max(time_used))) - time_used if time_used else set()
    assert covered(as_pairs(gaps(*split(pairs)))) == inner


@given(PAIRS)
def test_concurrency_counts_what_is_open(pairs: Pairs) -> None:
    valid = [(a, b) for a, b in pairs if a <= b]
    open_at = Counter(t for a, b in valid for t in range(a, b))
    expected = Counter(open_at.values())
    found = concurrency(*split(pairs)).tolist()
    assert {level: n for level, n in enumerate(found) if level and n} == expected
    if valid:
        assert sum(found) == max(b for _, b in valid) - min(a for a, _ in valid)
    assert sum(level * n for level, n in enumerate(found)) == sum(b - a for a, b in valid)


@given(PAIRS)
def test_fair_share_divides_each_moment(pairs: Pairs) -> None:
    open_at = Counter(t for a, b in pairs for t in range(a, b))
    expected = [sum(1 / open_at[t] for t in range(a, b)) for a, b in pairs]
    np.testing.assert_allclose(fair_share(*split(pairs)), expected, atol=1e-9)


def brute_parent(rows: list[tuple[int, int, int]], of: int) -> int:
    """The last one, by start and decreasing end, that is open when `of` starts and ends no earlier."""
    key = {k: (a, -b, k) for k, (a, b, _) in enumerate(rows)}
    start, end, track = rows[of]
    fits = [
        k
        for k, (a, b, t) in enumerate(rows)
        if t == track and a <= b and key[k] < key[of] and b >= end and b > start >= a
    ]
    return max(fits, key=key.__getitem__, default=-1)


@given(TRACKED)
def test_nesting_finds_the_innermost_open_interval(rows: list[tuple[int, int, int]]) -> None:
    start, end, track = [a for a, _, _ in rows], [b for _, b, _ in rows], [t for _, _, t in rows]
    found = nesting(start, end, track)
    expected = [brute_parent(rows, k) if a <= b else -1 for k, (a, b, _) in enumerate(rows)]
    assert found.parent.tolist() == expected
    depth = found.depth.tolist()
    for k, parent in enumerate(expected):
        assert depth[k] == (-1 if end[k] < start[k] else 0 if parent < 0 else depth[parent] + 1)
    key = {k: (a, -b, k) for k, (a, b, _) in enumerate(rows)}
    outlasting = 0
    for k, parent in enumerate(expected):
        inside = [j for j in key if track[j] == track[k] and (key[parent] if parent >= 0 else (-99,)) < key[j] < key[k]]
        outlasting += any(start[j] < start[k] < end[j] < end[k] for j in inside)
    assert found.crossings == outlasting


@given(TRACKED)
def test_exclusive_time_belongs_to_what_started_last(rows: list[tuple[int, int, int]]) -> None:
    expected = [0] * len(rows)
    for track in {t for _, _, t in rows}:
        for moment in range(60):
            opened = [(a, -b, k) for k, (a, b, t) in enumerate(rows) if t == track and a <= moment < b]
            if opened:
                expected[max(opened)[2]] += 1
    start, end, tracks = [a for a, _, _ in rows], [b for _, b, _ in rows], [t for _, _, t in rows]
    assert exclusive_length(start, end, tracks).tolist() == expected
    assert exclusive_length(start, end, tracks, nesting(start, end, tracks)).tolist() == expected


@given(TRACKED, TRACKED)
def test_enclosing_finds_the_last_started_container(
    outer: list[tuple[int, int, int]], inner: list[tuple[int, int, int]]
) -> None:
    def container(start: int, end: int, track: int) -> int:
        fits = [(a, -b, k) for k, (a, b, t) in enumerate(outer) if t == track and a <= start <= end <= b]
        return max(fits)[2] if fits else -1

    columns = [[row[k] for row in outer] for k in range(3)], [[row[k] for row in inner] for k in range(3)]
    found = enclosing(
        (columns[0][0], columns[0][1]), (columns[1][0], columns[1][1]), outer_track=columns[0][2], track=columns[1][2]
    )
    assert found.tolist() == [container(*row) for row in inner]


@given(TRACKED)
def test_lanes_are_the_lowest_free_ones(rows: list[tuple[int, int, int]]) -> None:
    start, end, tracks = [a for a, _, _ in rows], [b for _, b, _ in rows], [t for _, _, t in rows]
    found = lanes(start, end, tracks).tolist()
    expected = [-1] * len(rows)
    for track in set(tracks):
        busy_until: list[int] = []
        for a, b, k in sorted((a, b, k) for k, (a, b, t) in enumerate(rows) if t == track and a <= b):
            lane = next((i for i, until in enumerate(busy_until) if until <= a), len(busy_until))
            busy_until[lane : lane + 1] = [b]
            expected[k] = lane
    assert found == expected


@given(TRACKED)
def test_following_a_stack_gives_the_same_nesting(rows: list[tuple[int, int, int]]) -> None:
    start, end, tracks = [a for a, _, _ in rows], [b for _, b, _ in rows], [t for _, _, t in rows]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(intervals, "JUMPS", 1)
        few = nesting(start, end, tracks)
    many = nesting(start, end, tracks)
    assert few.parent.tolist() == many.parent.tolist()


@given(TRACKED)
def test_some_tracks_at_a_time_give_the_same_nesting(rows: list[tuple[int, int, int]]) -> None:
    start, end, tracks = [a for a, _, _ in rows], [b for _, b, _ in rows], [t for _, _, t in rows]
    together = nesting(start, end, tracks)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(intervals, "MOST_TOGETHER", 2)
        apart = nesting(start, end, tracks)
    assert apart.parent.tolist() == together.parent.tolist()
    assert apart.depth.tolist() == together.depth.tolist()
    assert (apart.crossings, apart.excluded) == (together.crossings, together.excluded)


@pytest.mark.parametrize("shape", ["nested", "in a row", "nested, then in a row", "staircase", "random"])
def test_large_inputs_take_time_in_proportion(shape: str) -> None:
    assert_linear(lambda n: _nesting_of(shape, n), 25_000)


def _nesting_of(shape: str, n: int) -> Callable[[], None]:
    up = np.arange(n)
    shapes = {
        "nested": (up, 4 * n - up),
        "in a row": (2 * up, 2 * up + 1),
        "nested, then in a row": (
            np.concatenate([up[: n // 2], 4 * n + 2 * up[: n // 2]]),
            np.concatenate([2 * n - up[: n // 2], 4 * n + 2 * up[: n // 2] + 1]),
        ),
        "staircase": (up, up + n),
        "random": (up * 7919 % n, up * 7919 % n + up * 104729 % 50),
    }
    deepest = {"nested": n - 1, "in a row": 0, "nested, then in a row": n // 2 - 1, "staircase": 0}
    return partial(_nest, *shapes[shape], deepest.get(shape))


def _nest(start: Ints, end: Ints, deepest: int | None) -> None:
    found = nesting(start, end)
    assert exclusive_length(start, end).sum() == union_length(start, end)
    assert deepest is None or int(found.depth.max()) == deepest
    enclosing((start, end), (start, end))
