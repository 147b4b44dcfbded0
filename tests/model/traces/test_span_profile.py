"""Folding spans into a profile, against a walk over every nanosecond and every pair of spans."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from callgrove.arrays import ABSENT, Array, Ints, choose_rows
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Scope
from callgrove.model.profiles import ProfileKind
from callgrove.model.traces.events import ArraySpans, SideRows, SideTable, SpanBackend, SpanKind, Traces, find_rows
from callgrove.model.traces.intervals import usable
from callgrove.model.traces.pairing import find_launching_calls, launch_calls
from callgrove.model.traces.profile_from_spans import Folding, Part, fold

NAMES = ("a", "b", "c", "k1", "k2")


class Span(NamedTuple):
    kind: SpanKind
    name: int
    start: int
    end: int
    profile: int
    correlation: int


# Profiles 0 and 1 are threads of process 0, 2 and 3 streams of its devices 0 and 1; 4 is a thread of process 1.
PROCESS, DEVICE = np.array([0, 0, 0, 0, 1]), np.array([-1, -1, 0, 1, -1])
LENGTH = st.integers(-2, 9)


def drawn(kinds: list[SpanKind], names: st.SearchStrategy[int], profiles: list[int]) -> st.SearchStrategy[Span]:
    return st.builds(
        lambda kind, name, start, length, profile, corr: Span(kind, name, start, start + length, profile, corr),
        st.sampled_from(kinds),
        names,
        st.integers(0, 25),
        LENGTH,
        st.sampled_from(profiles),
        st.integers(-1, 6),
    )


HOSTS = drawn([SpanKind.API, SpanKind.MARKER, SpanKind.REGION], st.integers(0, 2), [0, 1, 4])
OPERATIONS = drawn([SpanKind.KERNEL, SpanKind.COPY, SpanKind.MEMSET], st.integers(3, 4), [2, 3])
SPANS = st.lists(st.one_of(HOSTS, OPERATIONS), min_size=1, max_size=14)


def add_folded(builder: ExperimentBuilder, backend: SpanBackend, process: Ints, device: Ints) -> Folding:
    """All spans as one part."""
    folding = Folding(builder)
    every = np.arange(len(process), dtype=np.int32)
    part = fold(Part(Traces(spans_backend=backend), every, process, device, device == ABSENT))
    if part is not None:
        folding.add(part)
    folding.finish()
    return folding


def folded(spans: list[Span], sides: dict[str, SideTable] | None = None) -> Experiment:
    columns: dict[str, Array] = {
        "kind": np.array([s.kind for s in spans], np.int32),
        "name": np.array([s.name for s in spans], np.int32),
        "start_ns": np.array([s.start for s in spans], np.int64),
        "end_ns": np.array([s.end for s in spans], np.int64),
        "profile": np.array([s.profile for s in spans], np.int32),
        "correlation": np.array([s.correlation for s in spans], np.int64),
    }
    backend = ArraySpans(columns, NAMES, sides or {}, chunk_rows=3)
    builder = ExperimentBuilder("made")
    for process, device in zip(PROCESS, DEVICE, strict=True):
        builder.add_profile(ProfileKind.THREAD if device < 0 else ProfileKind.GPU_STREAM, [(2, process, process, 3)])
    folding = add_folded(builder, backend, PROCESS, DEVICE)
    builder.set_traces(spans=backend, time_range=folding.time_range)
    return builder.build()


def total(experiment: Experiment, metric: str) -> float:
    return experiment.root_total(metric) if metric in experiment.metrics.quantities else 0.0


def nanoseconds(experiment: Experiment, metric: str) -> int:
    return round(total(experiment, metric) * 1e9)


def covered(spans: list[Span]) -> int:
    return len({t for s in spans for t in range(s.start, s.end)})


@given(SPANS)
def test_time_is_conserved(spans: list[Span]) -> None:
    experiment = folded(spans)
    ops = [s for s in spans if s.profile in (2, 3)]
    hosts = [s for s in spans if s.profile not in (2, 3)]
    assert nanoseconds(experiment, "gpu_time") == sum(max(s.end - s.start, 0) for s in ops)
    assert nanoseconds(experiment, "host_time") == sum(covered([s for s in hosts if s.profile == p]) for p in (0, 1, 4))
    assert nanoseconds(experiment, "gpu_busy") == sum(covered([s for s in ops if s.profile == p]) for p in (2, 3))
    assert total(experiment, "gpu_ops") == len(ops)
    assert total(experiment, "host_calls") == len(hosts)


@given(SPANS)
def test_times_are_from_the_first_to_the_last_moment(spans: list[Span]) -> None:
    """Of spans that do not end before they start."""
    good = [s for s in spans if s.start <= s.end]
    wanted = (min(s.start for s in good), max(s.end for s in good)) if good else None
    assert folded(spans).traces.time_range == wanted


@given(SPANS)
def test_every_operation_stands_below_its_call(spans: list[Span]) -> None:
    """Counts by (context above, own name): the call is that of its process with its correlation that started last
    before it, or first of all."""
    experiment = folded(spans)
    hosts = [s for s in spans if s.profile in (0, 1)]
    want: Counter[tuple[str, str]] = Counter()
    for op in (s for s in spans if s.profile in (2, 3)):
        calls = [s for s in hosts if s.correlation == op.correlation != -1]
        before = [s for s in calls if _started(s) <= _started(op)]
        last = max(before, key=_started) if before else min(calls, key=_started, default=None)
        tied = {NAMES[s.name] for s in calls if last and _started(s) == _started(last)}
        want["|".join(sorted(tied)) or "[unknown launch]", NAMES[op.name]] += 1
    tree, found = experiment.contexts, Counter[tuple[str, str]]()
    values = experiment.totals("gpu_ops", Scope.EXCLUSIVE).tolist() if sum(want.values()) else []
    for context, count in enumerate(values):
        if count:
            found[tree.label(int(tree.parent[context])), tree.label(context)] += int(count)
    for (above, name), n in found.items():
        assert sum(m for (names, own), m in want.items() if own == name and above in names.split("|")) >= n
    assert sum(found.values()) == sum(want.values())


def _started(span: Span) -> int:
    """Of what cannot be measured nobody knows when it began."""
    return span.start if span.end >= span.start else 1


def test_names_without_version_and_bytes_of_copies() -> None:
    spans = [
        Span(SpanKind.MARKER, 0, 0, 50, 0, -1),
        Span(SpanKind.API, 1, 5, 9, 0, 1),
        Span(SpanKind.COPY, 3, 10, 20, 2, 1),
        Span(SpanKind.COPY, 3, 30, 40, 2, 9),
    ]
    experiment = folded(spans, {"copy": SideTable(np.array([2, 3]), {"bytes": np.array([100, -1])})})
    tree = experiment.contexts
    assert [(tree.label(c), int(tree.parent[c])) for c in range(len(tree))] == [
        ("a", -1),
        ("b", 0),
        ("k1", 1),
        ("[unknown launch]", -1),
        ("k1", 3),
    ]
    assert total(experiment, "bytes") == 100
    assert nanoseconds(experiment, "launch_delay") == 5


def test_times_that_no_clock_shows() -> None:
    start = np.array([0, 5, -1, 0, 2**62, -(2**63)])
    end = np.array([0, 4, 3, 2**62 + 1, 2**62, 2**63 - 1])
    assert usable(start, end).tolist() == [True, False, False, False, True, False]
    spans = [Span(SpanKind.KERNEL, 3, -(2**63), 2**63 - 1, 2, -1), Span(SpanKind.KERNEL, 3, 0, 7, 2, -1)]
    experiment = folded(spans)
    assert nanoseconds(experiment, "gpu_time") == nanoseconds(experiment, "gpu_busy") == 7
    assert total(experiment, "gpu_ops") == 2


CALLS = st.lists(st.tuples(st.integers(-1, 3), st.integers(0, 1), st.integers(0, 9)), max_size=8)


@given(CALLS, CALLS)
def test_launching_calls_against_all_pairs(calls: list[tuple[int, int, int]], ops: list[tuple[int, int, int]]) -> None:
    def column(rows: list[tuple[int, int, int]], k: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        return np.array([row[k] for row in rows], np.int64)

    both = column(ops, 0), column(ops, 1), column(calls, 0), column(calls, 1), column(calls, 2)
    found, timed = launch_calls(*both), launch_calls(*both, column(ops, 2))
    for op, call, before in zip(ops, found.tolist(), timed.tolist(), strict=True):
        fitting = [k for k, c in enumerate(calls) if c[:2] == op[:2] and op[0] != -1]
        assert (call == -1) == (before == -1) == (not fitting)
        if fitting:
            assert {call, before} <= set(fitting)
            starts = [calls[k][2] for k in fitting]
            assert calls[call][2] == max(starts)
            assert calls[before][2] == max((t for t in starts if t <= op[2]), default=min(starts))


LINKED = st.lists(st.tuples(st.booleans(), st.integers(-1, 4), st.integers(0, 2)), max_size=12)


@given(LINKED, st.sampled_from([(0, 0, 0), (7, 7, 9)]))
def test_calls_of_operations(spans: list[tuple[bool, int, int]], process: tuple[int, ...]) -> None:
    """Masks and slices choose rows alike; an operation finds the last call of its process with its correlation."""
    is_operation = np.array([span[0] for span in spans], np.bool_)
    columns: dict[str, Array] = {
        "correlation": np.array([span[1] for span in spans], np.int64),
        "profile": np.array([span[2] for span in spans], np.int32),
        "start_ns": np.arange(len(spans)),
    }
    expected = []
    for number, (launched, correlation, profile) in enumerate(spans):
        fitting = [
            row
            for row, (other_launched, other, where) in enumerate(spans)
            if not other_launched and other == correlation != -1 and process[where] == process[profile]
        ]
        before = [row for row in fitting if row < number]
        expected.append((max(before) if before else min(fitting)) if launched and fitting else -1)
    operations, calls = np.flatnonzero(is_operation), np.flatnonzero(~is_operation)
    found = find_launching_calls(columns, np.array(process), operations, calls)
    assert found.tolist() == expected
    found = find_launching_calls(columns, np.array(process), choose_rows(is_operation), choose_rows(~is_operation))
    assert found.tolist() == expected


@given(st.lists(st.integers(0, 9), max_size=9), st.lists(st.integers(-1, 10), max_size=9), st.booleans())
def test_rows_of_wanted_spans(span: list[int], wanted: list[int], is_rising: bool) -> None:
    span = sorted(set(span)) if is_rising else span
    found = find_rows(np.array(span, np.int64), np.array(wanted, np.int64))
    assert found.tolist() == [span.index(one) if one in span else -1 for one in wanted]


@given(st.lists(st.integers(0, 30), max_size=10), st.integers(1, 4))
def test_side_rows_of_a_chunk(rows: list[int], chunk_rows: int) -> None:
    n = 12
    columns: dict[str, Array] = {"start_ns": np.arange(n), "end_ns": np.arange(n), "profile": np.zeros(n, np.int32)}
    table = SideTable(np.array(rows, np.int64), {"value": np.arange(len(rows))})
    traces = Traces(spans_backend=ArraySpans(columns, (), {"x": table}, chunk_rows))
    side = SideRows(traces, "x")
    for chunk in traces.spans(("profile",)):
        _, row = side.of(chunk)
        assert row.tolist() == [rows.index(s) if s in rows else -1 for s in chunk["span"].tolist()]
