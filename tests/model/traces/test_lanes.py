"""Lanes over chunks, against a scalar model of the rule; the order of spans, against sorting them all at once."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from callgrove.model.traces.span_order import Lanes, SpanOrder
from tests.exhaustive import try_examples

Span = tuple[int, int, int]  # track, start, end
SPANS = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 40) | st.integers(0, 400), st.integers(0, 12)).map(
        lambda s: (s[0], s[1], s[1] + s[2])
    ),
    max_size=60,
)


def in_order(spans: list[Span]) -> list[Span]:
    return sorted(spans, key=lambda span: (span[1], -span[2]))


def by_hand(spans: list[Span], nests: bool) -> list[int]:
    """The rule, word by word: the first lane that is empty after what has ended was closed, or whose innermost
    interval lasts as long (threads only)."""
    lanes: dict[int, list[list[int]]] = {}
    out = []
    for track, start, end in spans:
        own = lanes.setdefault(track, [])
        for stack in own:
            while stack and stack[-1] <= start:
                stack.pop()
        fits = [k for k, stack in enumerate(own) if not stack or (nests and stack[-1] >= end)]
        lane = fits[0] if fits else len(own)
        if lane == len(own):
            own.append([])
        own[lane].append(end)
        out.append(lane)
    return out


def assigned(spans: list[Span], nests: bool, size: int) -> list[int]:
    lanes, out = Lanes(), []
    for first in range(0, len(spans), size):
        track, start, end = (np.array(column, np.int64) for column in zip(*spans[first : first + size], strict=True))
        out += lanes.of(track, np.full(len(track), nests), start, end).tolist()
    return out


@try_examples(300)
@given(SPANS, st.booleans(), st.integers(1, 70))
def test_lanes_follow_the_rule_for_any_chunks(spans: list[Span], nests: bool, size: int) -> None:
    ordered = in_order(spans)
    assert assigned(ordered, nests, size) == by_hand(ordered, nests)


@pytest.mark.parametrize("nests", [False, True])
def test_thousands_of_crossing_intervals_take_as_many_lanes(nests: bool) -> None:
    n = 20_000
    stairs = [(0, k, n + k) for k in range(n)]
    assert assigned(stairs, nests, 8192) == list(range(n))


def test_touching_and_empty_intervals_stay_in_the_first_lane() -> None:
    spans = [(0, 0, 10), (0, 10, 20), (0, 15, 15), (0, 20, 20), (0, 20, 30)]
    assert assigned(in_order(spans), True, 5) == [0] * 5


@given(SPANS, st.integers(1, 30), st.integers(1, 9), st.integers(1, 40))
def test_spans_come_by_group_start_and_decreasing_end(spans: list[Span], rows: int, block: int, size: int) -> None:
    group = np.array([1, 0, 1])
    order = SpanOrder(group, rows, block)
    for chunk in chunked(spans, size):
        order.add(chunk)
    found = [
        (int(group[p]), s, -e, n)
        for chunk in order.chunks()
        for p, s, e, n in zip(*(chunk[c].tolist() for c in ("profile", "start_ns", "end_ns", "span")), strict=True)
    ]
    expected = sorted((int(group[track]), start, -end, k) for k, (track, start, end) in enumerate(spans))
    assert found == expected


def chunked(spans: list[Span], size: int) -> Iterator[dict[str, np.ndarray]]:
    for first in range(0, len(spans), size):
        part = spans[first : first + size]
        columns = {
            n: np.array(c) for n, c in zip(("profile", "start_ns", "end_ns"), zip(*part, strict=True), strict=True)
        }
        yield {"span": np.arange(first, first + len(part)), **columns}


def test_chunks_are_of_one_group_each() -> None:
    order = SpanOrder(np.array([0, 1]), rows=3, block=2)
    for chunk in chunked([(k % 2, k, k + 1) for k in range(20)], 4):
        order.add(chunk)
    assert [len(set((chunk["profile"] % 2).tolist())) for chunk in order.chunks()] == [1, 1]


def test_pairs_that_overlap_use_two_lanes() -> None:
    spans = [(0, 20, 71), (0, 105, 155), (0, 268, 317), (0, 268, 279), (0, 378, 399), (0, 380, 400)]
    assert assigned(spans, False, 6) == [0, 0, 0, 1, 0, 1]
    assert assigned(spans, False, 3) == [0, 0, 0, 1, 0, 1]
