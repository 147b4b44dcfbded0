"""Every answer of a timeline index against brute force, on small traces of every shape."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callgrove.analysis.timeline_index import builder, items, levels, pictures, spool, tracks
from callgrove.analysis.timeline_index.answers import IndexOptions, LineKind
from callgrove.analysis.timeline_index.index import TimelineIndex
from callgrove.model.experiment import Experiment
from callgrove.model.traces.events import SpanKind
from tests.analysis.timeline_index.brute_force import Moments, legend_of, moments_of, named
from tests.analysis.traced import NAMES, Span, sampled, spanned

KINDS = st.sampled_from([SpanKind.REGION, SpanKind.API, SpanKind.KERNEL, SpanKind.COPY, SpanKind.OVERHEAD])
SIZES = {
    "chunk": 7,
    "batch": 5,
    "block": 3,
    "stretches": 1,
}  # so small that a few spans need all that large traces need


@contextmanager
def small_sizes() -> Iterator[None]:
    """Let parts, blocks and base cells be so small that a few spans are many."""
    with (
        mock.patch.object(builder, "BATCH", SIZES["batch"]),
        mock.patch.object(tracks, "BATCH", SIZES["batch"]),
        mock.patch.object(builder, "CELLS_AT_ONCE", 16),
        mock.patch.object(items, "BLOCK", SIZES["block"]),
        mock.patch.object(levels, "STRETCHES_OF_CELL", SIZES["stretches"]),
        mock.patch.object(levels, "FIRST_HISTOGRAM", 1),
        mock.patch("callgrove.analysis.timeline_index.legends.FIRST_HISTOGRAM", 1),
        mock.patch.object(spool.Spool.__init__, "__defaults__", (SIZES["chunk"], 4)),
        mock.patch.object(spool, "LEAST_BLOCK", 2),
    ):
        yield


def build(experiment: Experiment, **options: Any) -> TimelineIndex:
    return TimelineIndex.open(experiment, options=IndexOptions(**options), in_background=False)


@st.composite
def nested(draw: st.DrawFn, longest: int = 40, most: int = 40) -> list[Span]:
    """Any spans on two profiles: nested, crossing, touching, equal, of no length, and some that end too early."""
    time = st.integers(0, longest)
    out = []
    for _ in range(draw(st.integers(0, most))):
        start = draw(time)
        end = start + draw(st.one_of(st.integers(-1, 6), st.integers(0, longest)))
        out.append((draw(st.integers(0, 1)), draw(KINDS), draw(st.integers(0, len(NAMES) - 1)), start, end))
    return out


def check(index: TimelineIndex, moments: Moments, windows: list[tuple[int, int]]) -> None:
    lines = index.lines
    assert index.progress.is_complete
    for window in windows:
        truth = moments.sums(window)
        assert legend_of(index, index.legend(window)) == truth
        for kind in LineKind:
            some = np.flatnonzero(lines.kind == kind)
            tracks = [track for track in moments.pieces if track[1] == kind]
            assert legend_of(index, index.legend(window, some)) == moments.sums(window, tracks)
        rough = index.legend(window, exact=False)
        got = legend_of(index, rough)
        assert all(ns <= truth[name] for name, ns in got.items())
        assert sum(truth.values()) - sum(got.values()) <= rough.missing_ns
        check_picture(index, moments, window)


def check_picture(index: TimelineIndex, moments: Moments, window: tuple[int, int]) -> None:
    """Each cell has the name with the most time, and its share, of what a legend of that cell says."""
    lines, names = index.lines, index.names
    for columns in (1, 4, 64):
        picture = index.picture(window, columns)
        assert picture.name.shape[0] == len(lines)
        assert not picture.n_cells or picture.coarse.min(initial=1) == 1, "no cell is given twice in all rows"
        if window[1] > window[0] and picture.n_cells:
            assert picture.start_ns <= max(window[0], index.window[0])
            assert picture.start_ns + picture.n_cells * picture.cell_ns >= min(window[1], index.window[1])
        for line in range(len(lines)):
            coarse = int(picture.coarse[line])
            for cell in range(picture.n_cells):
                width = picture.cell_ns * coarse
                begin = index.window[0] + (picture.start_ns + cell * picture.cell_ns - index.window[0]) // width * width
                exact = legend_of(index, index.legend((begin, begin + width), np.array([line])))
                name = int(picture.name[line, cell])
                assert (name < 0) == (not exact)
                if exact:
                    assert exact[named(names, name)] == max(exact.values())
                    assert abs(int(picture.share[line, cell]) - 255 * max(exact.values()) / width) <= 0.51
                    assert abs(int(picture.busy[line, cell]) - 255 * sum(exact.values()) / width) <= 0.51


@settings(max_examples=15, deadline=None)
@given(nested(), st.lists(st.tuples(st.integers(-5, 60), st.integers(-5, 60)).map(sorted), min_size=1, max_size=3))
def test_spans_of_any_shape(spans: list[Span], windows: list[list[int]]) -> None:
    experiment = spanned(spans)
    with small_sizes(), build(experiment) as index:
        check(index, moments_of(experiment), [(low, high) for low, high in windows])
        assert index.n_left_out == sum(end < start for *_, start, end in spans)


@settings(max_examples=15, deadline=None)
@given(nested(), st.integers(1, 3))
def test_calls_deeper_than_asked_for_belong_to_their_callers(spans: list[Span], depth: int) -> None:
    experiment = spanned(spans)
    with small_sizes(), build(experiment, depth=depth) as index:
        check_legends(index, moments_of(experiment, depth), [(0, 50), (7, 21)])


def check_legends(index: TimelineIndex, moments: Moments, windows: list[tuple[int, int]]) -> None:
    for window in windows:
        assert legend_of(index, index.legend(window)) == moments.sums(window)


SAMPLES = st.lists(st.tuples(st.integers(0, 60), st.integers(-1, 9)), max_size=40)


@settings(max_examples=15, deadline=None)
@given(SAMPLES, SAMPLES, st.integers(-5, 60), st.integers(0, 60))
def test_samples_with_idle_time(one: list[Any], other: list[Any], low: int, length: int) -> None:
    experiment = sampled(one, other)
    with small_sizes(), build(experiment) as index:
        check(index, moments_of(experiment), [(low, low + length)])
        times = {time for line in (one, other) for time, _ in line}
        assert index.window == ((min(times), max(max(times), min(times) + 1)) if times else (0, 1))


def touches(span: Span, window: tuple[int, int]) -> bool:
    return span[3] < window[1] and (span[4] > window[0] or span[3] >= window[0])


@settings(max_examples=15, deadline=None)
@given(nested(), st.integers(-2, 45), st.integers(0, 45), st.integers(1, 50))
def test_spans_in_a_window_by_row(spans: list[Span], low: int, length: int, limit: int) -> None:
    window = low, low + length
    with small_sizes(), build(spanned(spans)) as index:
        rows = index.spans_in(window)
        expected = {k for k, span in enumerate(spans) if span[3] <= span[4] and touches(span, window)}
        assert sorted(rows.row.tolist()) == sorted(expected)
        assert rows.n == len(expected)
        for k, row in enumerate(rows.row.tolist()):
            profile, kind, name, start, end = spans[row]
            assert (rows.start_ns[k], rows.end_ns[k]) == (start, end)
            assert index.lines.profile[rows.line[k]] == profile
            assert named(index.names, int(rows.name[k])) == f"{NAMES[name]}/{kind.word}"
        few = index.spans_in(window, limit=limit)
        assert few.n == rows.n
        assert few.row.tolist() == rows.row.tolist()[:limit]


@settings(max_examples=15, deadline=None)
@given(nested(), st.integers(-2, 60))
def test_the_stack_at_a_time(spans: list[Span], time: int) -> None:
    """The innermost span is that of the pieces; each lies in the one before, as far as both count."""
    experiment = spanned(spans)
    moments = moments_of(experiment)
    with small_sizes(), build(experiment) as index:
        for line in range(len(index.lines)):
            stack = index.stack_at(line, time).spans
            kind, profile = LineKind(int(index.lines.kind[line])), int(index.lines.profile[line])
            assert all(start <= time < end for start, end in zip(stack.start_ns, stack.end_ns, strict=True))
            assert stack.depth.tolist() == list(range(len(stack)))
            if kind == LineKind.CALLS:
                inner = [name for start, end, name in moments.pieces[profile, kind] if start <= time < end]
                assert [named(index.names, n) for n in stack.name[-1:].tolist()] == inner
                assert (np.diff(stack.start_ns) >= 0).all()


@settings(max_examples=15, deadline=None)
@given(nested(), st.integers(-2, 45), st.booleans())
def test_the_next_span_of_a_name(spans: list[Span], time: int, forward: bool) -> None:
    with small_sizes(), build(spanned(spans)) as index:
        for number in range(len(index.names)):
            text = named(index.names, number)
            starts = [
                start
                for _, kind, name, start, end in spans
                if start <= end and f"{NAMES[name]}/{kind.word}" == text and (start > time if forward else start < time)
            ]
            place = index.search(number, time, forward=forward)
            assert (place is None) == (not starts)
            if place is not None:
                assert place.start_ns == (min(starts) if forward else max(starts))
                assert (spans[place.row][3], spans[place.row][4]) == (place.start_ns, place.end_ns)


def test_the_context_of_a_sample() -> None:
    with build(sampled([(0, 1), (10, 5), (20, 9), (30, -1), (40, 2), (50, 2)])) as index:
        stacks = {time: index.stack_at(0, time) for time in (-1, 0, 9, 10, 20, 30, 49, 50)}
        assert [stacks[time].context for time in stacks] == [-1, 1, 1, 5, -1, -1, 2, -1]
        assert stacks[10].spans.row.tolist() == [1]
        assert index.search(int(stacks[49].spans.name[0]), 0) is not None


@pytest.mark.parametrize("experiment", [spanned([]), sampled(), sampled([])])
def test_nothing_over_time(experiment: Experiment) -> None:
    with build(experiment) as index:
        assert index.progress.is_complete
        assert (index.window, len(index.lines), len(index.names)) == ((0, 1), 0, 0)
        assert index.picture((0, 100), 10).name.shape[0] == 0
        assert len(index.legend((0, 100)).name) == 0
        assert len(index.spans_in((0, 100))) == 0
        assert index.curves((0, 100), 10) == []


@pytest.mark.parametrize("seed", range(20))
def test_rows_of_few_lines_are_merged_as_those_of_many(seed: int) -> None:
    """Two ways to the name with the largest sum of shares: of equal sums it is the first name."""
    rng = np.random.default_rng(seed)
    n_lines = rng.integers(0, pictures.FEW_LINES + 1, int(rng.integers(1, 12)))
    shape = int(n_lines.sum()), int(rng.integers(1, 40))
    names = rng.integers(-1, 4, shape).astype(np.int32)
    shares = np.where(names >= 0, rng.integers(1, 6, shape), 0).astype(np.uint8)
    busies = (shares + rng.integers(0, 3, shape)).astype(np.uint8)
    few, many = (merge(names, shares, busies, n_lines) for merge in (pictures._add_few, pictures._add_many))
    for k in range(len(few)):
        assert np.array_equal(few[k], many[k])
