"""Samples and spans: windows, projections, filters; against plain loops."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from callgrove.errors import UsageError
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.experiment import Experiment
from callgrove.model.traces.events import (
    PARENT,
    SPAN_COLUMNS,
    ArraySamples,
    ArraySpans,
    Counters,
    Samples,
    SideTable,
    SpanKind,
    Traces,
)
from tests.model.strategies import experiments

WINDOWS = st.tuples(st.integers(-5, 70), st.integers(-5, 70))


def samples(*times: int) -> Samples:
    return Samples(np.array(times, np.int64), np.arange(len(times), dtype=np.int32))


@pytest.mark.parametrize(
    ("window", "contexts"),
    [
        ((0, 100), [0, 1, 2, 3]),
        ((10, 11), [0]),
        ((15, 25), [0, 1, 2]),
        ((20, 21), [1, 2]),
        ((21, 30), [2]),
        ((21, 31), [2, 3]),
        ((40, 50), [3]),
        ((0, 10), []),
        ((0, 5), []),
        ((30, 20), []),
    ],
)
def test_a_window_begins_with_what_was_going_on(window: tuple[int, int], contexts: list[int]) -> None:
    assert samples(10, 20, 20, 30).within(window).context.tolist() == contexts


@given(st.lists(st.integers(0, 60)), WINDOWS)
def test_windows_of_samples(times: list[int], window: tuple[int, int]) -> None:
    times.sort()
    found = samples(*times).within(window)
    inside = [k for k, t in enumerate(times) if window[0] <= t < window[1]]
    before = [k for k, t in enumerate(times) if t < min(window)][-1:]
    on_the_edge = window[0] in times
    expected = inside if on_the_edge or window[1] <= window[0] else before + inside
    if window[0] < window[1]:
        assert found.context.tolist() == expected
    else:
        assert len(found) <= 1
    assert samples(*times).within(None).context.tolist() == list(range(len(times)))


@given(experiments(n_contexts=5), WINDOWS)
def test_lines_by_profile(experiment: Experiment, window: tuple[int, int]) -> None:
    traces = experiment.traces
    lines = list(traces.lines())
    assert len(lines) == traces.n_lines
    assert sum(len(line) for _, _, line in lines) == traces.n_samples
    for profile in range(len(experiment.profiles)):
        own = [line for p, _, line in traces.lines(np.array([profile]), window)]
        expected = [line.within(window) for p, _, line in lines if p == profile]
        assert [one.time_ns.tolist() for one in own] == [one.time_ns.tolist() for one in expected]
    assert list(traces.lines(np.array([], np.int64))) == []


@given(experiments(n_contexts=5), WINDOWS, st.lists(st.sampled_from(SPAN_COLUMNS), unique=True), st.data())
def test_spans_are_projected_and_filtered(
    experiment: Experiment, window: tuple[int, int], columns: list[str], data: st.DataObject
) -> None:
    backend = experiment.traces.spans_backend
    if backend is None:
        assert list(experiment.traces.spans(columns)) == []
        return
    assert isinstance(backend, ArraySpans)
    table = {name: backend.columns[name].tolist() for name in SPAN_COLUMNS}
    wanted = data.draw(st.none() | st.lists(st.integers(0, len(experiment.profiles) - 1), unique=True))
    window = (min(window), max(window) + 1)
    chosen = [
        k
        for k, (start, end, profile) in enumerate(
            zip(table["start_ns"], table["end_ns"], table["profile"], strict=True)
        )
        if (wanted is None or profile in wanted)
        and start < window[1]
        and (end > window[0] or start == end == window[0])
    ]
    profiles = None if wanted is None else np.array(wanted, np.int64)
    chunks = list(experiment.traces.spans(columns, window, profiles))
    assert [k for chunk in chunks for k in chunk["span"].tolist()] == chosen
    for name in columns:
        assert [v for chunk in chunks for v in chunk[name].tolist()] == [table[name][k] for k in chosen]
    assert all(set(chunk) == {"span", *columns} for chunk in chunks)
    assert all(0 < len(chunk["span"]) <= backend.chunk_rows for chunk in chunks)


def test_a_span_that_ends_where_the_window_begins_is_outside() -> None:
    columns = {"start_ns": np.array([0, 10, 10, 20]), "end_ns": np.array([10, 10, 15, 30])}
    found = list(ArraySpans(columns).chunks(["start_ns"], (10, 20), None))
    assert found[0]["span"].tolist() == [1, 2]


def test_unknown_columns_are_named() -> None:
    columns = {"start_ns": np.array([0]), "end_ns": np.array([10])}
    with pytest.raises(UsageError, match="no column 'colour'; there are start_ns, end_ns"):
        list(ArraySpans(columns).chunks(["colour"], None, None))


def test_the_call_around_a_span_may_be_asked_for() -> None:
    columns = {"start_ns": np.array([0, 5]), "end_ns": np.array([1, 9])}
    known = ArraySpans({**columns, PARENT: np.array([7, -1])})
    for spans, expected in ((ArraySpans(columns), [-1, -1]), (known, [7, -1])):
        (chunk,) = spans.chunks([PARENT], None, None)
        assert chunk[PARENT].tolist() == expected


def test_side_tables_belong_to_spans() -> None:
    columns = {"start_ns": np.array([0, 5]), "end_ns": np.array([1, 9])}
    spans = ArraySpans(columns, sides={"kernel": SideTable(np.array([1]), {"grid": np.array([64])})})
    kernel = spans.side("kernel")
    assert kernel is not None
    assert (kernel.span.tolist(), spans.side("copy")) == ([1], None)


def test_counters_are_a_table() -> None:
    counters = Counters(
        np.array([0, 0], np.int32),
        np.array([0, 1], np.int32),
        np.array([3, 4]),
        np.array([1.5, 2]),
        ("power", "memory"),
    )
    builder = ExperimentBuilder("test")
    builder.add_profile(1)  # type: ignore[arg-type]
    builder.set_traces(counters=counters, time_range=(0, 10))
    traces = builder.build().traces
    assert traces.counters is counters
    assert (len(counters), traces.time_range) == (2, (0, 10))


def test_no_traces_at_all() -> None:
    traces = Traces()
    assert (traces.n_lines, traces.n_samples, traces.n_spans) == (0, 0, 0)
    assert (list(traces.lines()), list(traces.spans())) == ([], [])


def test_counts_of_lines() -> None:
    none = np.array([-1, -1], np.int32)
    backend = ArraySamples(np.array([0, 1], np.int32), none, (samples(1, 2, 3), samples()))
    traces = Traces(backend)
    assert (traces.n_lines, traces.n_samples, backend.count.tolist()) == (2, 3, [3, 0])


def test_words_of_kinds() -> None:
    words = ["kernel", "copy", "alloc", "memset", "api", "marker", "region", "sync", "overhead"]
    assert [kind.word for kind in SpanKind] == words
