"""Timelines against what happened nanosecond by nanosecond; windows, bins, depths, kinds, classes, places."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from callgrove.analysis.timeline.items import ClassRules, read_rules
from callgrove.analysis.timeline.statistics import Question, measure
from callgrove.analysis.timeline.sums import split_at
from callgrove.errors import UsageError
from callgrove.examples import example
from callgrove.model.experiment import Experiment
from callgrove.model.profiles import ProfileKind
from callgrove.model.table import Table
from callgrove.model.traces.events import ArraySamples, Samples, SpanKind
from tests.analysis.traced import (
    Span,
    cells,
    count_spans,
    sampled,
    spanned,
    watch_samples,
    watch_spans,
)

TIMES = st.integers(0, 40)
LINES = st.lists(st.lists(st.tuples(TIMES, st.integers(-1, 9)), max_size=8), min_size=1, max_size=3)
WINDOWS = st.tuples(st.integers(0, 45), st.integers(1, 20)).map(lambda pair: (pair[0], pair[0] + pair[1]))
SPANS = st.lists(
    st.tuples(
        st.integers(0, 1),
        st.sampled_from([SpanKind.API, SpanKind.KERNEL, SpanKind.MARKER]),
        st.integers(0, 2),
        TIMES,
        st.integers(-3, 30),
    ).map(lambda row: (*row[:4], row[3] + row[4])),
    min_size=1,
    max_size=12,
)
BY_NAME = ("name", "profile")
EMPTY: list[tuple[int, int]] = []


# -- samples -----------------------------------------------------------------------------------------------------------


@given(LINES, st.none() | WINDOWS, st.sampled_from([None, 1, 3, 7]))
def test_samples_stand_until_the_next_one(lines: Any, window: Any, bins: int | None) -> None:
    times = [time for line in lines for time, _ in line]
    if not times:
        with pytest.raises(UsageError, match="have no traces"):
            sampled(*lines).timeline()
        return
    whole = window or (min(times), max(times))
    table = sampled(*lines).timeline(window, BY_NAME, bins=bins)
    found: dict[tuple[int, str], int] = {}
    for row in table:
        found[row["profile"], row["name"]] = found.get((row["profile"], row["name"]), 0) + row["time_ns"]
    assert {key: ns for key, ns in found.items() if ns} == watch_samples(lines, whole)
    begun = [time for time in times if whole[0] <= time < whole[1] + (whole[1] == max(times))]
    assert sum(row["count"] or 0 for row in table) == len(begun)


def test_a_window_clips_what_went_on_before_it() -> None:
    experiment = sampled([(10, 5), (20, 2), (30, -1), (40, 5)], [(25, 1), (26, 1)])
    table = experiment.timeline((15, 35), BY_NAME)
    assert cells(table, "profile", "name") == {
        (0, "kernel"): 5,
        (0, "solve"): 10,
        (0, "idle"): 5,
        (1, "main"): 1,
        (1, "(no trace)"): 19,
    }
    rows = {(row["profile"], row["name"]): row for row in table}
    assert rows[0, "kernel"]["count"] == 0, "it began before the window"
    assert rows[0, "solve"]["count"] == 1
    assert rows[1, "(no trace)"]["count"] is None
    assert rows[0, "solve"]["percent"] == 100 * 10 / 40
    assert table.title == "2e-08 s of 2 profiles"


def test_windows_that_touch_samples_have_no_time_of_their_neighbours() -> None:
    experiment = sampled([(10, 5), (20, 2), (30, 1), (40, -1)])
    assert cells(experiment.timeline((20, 30)), "name") == {"solve": 10}
    assert cells(experiment.timeline((19, 31)), "name") == {"kernel": 1, "solve": 10, "main": 1}
    assert cells(experiment.timeline((40, 50)), "name") == {"(no trace)": 10}, "the last sample stands for nothing"
    assert cells(experiment.timeline((0, 10)), "name") == {"(no trace)": 10}


def test_of_equal_times_the_last_counts_and_order_does_not_matter() -> None:
    assert cells(sampled([(0, 5), (5, 1), (5, 2), (9, 5)]).timeline(), "name") == {"kernel": 5, "solve": 4}
    assert cells(sampled([(5, 2), (0, 5), (9, 5)]).timeline(), "name") == {"kernel": 5, "solve": 4}


def test_samples_of_a_part_last_until_its_end() -> None:
    whole = sampled([(0, 5), (10, 2), (20, 1), (30, 1)])
    part = whole.select(window=(5, 25))
    assert cells(part.timeline(), "name") == {"kernel": 5, "solve": 10, "main": 5}
    assert cells(part.timeline(), "name") == cells(whole.timeline((5, 25)), "name")


def test_texts_are_windows_and_the_last_moment_is_the_end() -> None:
    experiment = sampled([(100, 5), (200, 2), (300, 1), (400, 1)])
    for text in ("0%:100%", ":", "0:", "@100:@400"):
        assert list(experiment.timeline(text)) == list(experiment.timeline()), text
    assert cells(experiment.timeline("50%:"), "name") == {"solve": 50, "main": 100}
    assert cells(experiment.timeline("120ns:220ns"), "name") == {"solve": 80, "main": 20}
    assert cells(experiment.timeline("@400:@500"), "name") == {"(no trace)": 100}


@pytest.mark.parametrize("window", ["50%:50%", "9us:10us", (7, 7), (8, 3)])
def test_an_empty_window_is_refused(window: Any) -> None:
    with pytest.raises(UsageError, match="is empty"):
        sampled([(0, 5), (100, 2)]).timeline(window)


def test_a_trace_of_one_moment_has_events_and_no_time() -> None:
    (row,) = sampled([(7, 5)]).timeline()
    assert (row["name"], row["time_ns"], row["percent"], row["count"]) == ("kernel", 0, None, 1)


def test_depths_count_functions_from_the_root() -> None:
    line = [(0, 5), (10, 7), (20, 3), (30, 1), (40, 0), (50, -1), (60, -1)]
    by_depth = {depth: cells(sampled(line).timeline(depth=depth), "name") for depth in (1, 2, 3, 4, 9)}
    assert by_depth[1] == {"main": 40, "main thread": 10, "idle": 10}
    assert by_depth[2] == {"solve": 30, "main": 10, "main thread": 10, "idle": 10}
    assert by_depth[3]["MPI_Allreduce"] == by_depth[3]["kernel"] == 10
    assert by_depth[4] == by_depth[9]
    assert by_depth[4]["pthread_mutex_lock"] == 10
    found = cells(sampled(line).timeline(by="depth"), "name", "depth")
    assert found == {
        ("busy", 0): 10,
        ("busy", 1): 10,
        ("busy", 2): 10,
        ("busy", 3): 10,
        ("busy", 4): 10,
        ("idle", None): 10,
    }


def test_classes_are_those_of_callers() -> None:
    line = [(0, 5), (10, 7), (30, 8), (60, 9), (100, -1), (150, -1)]
    experiment = sampled(line)
    assert cells(experiment.timeline(by="class"), "name", "class") == {
        ("compute", "compute"): 10,
        ("communication", "communication"): 20,
        ("synchronisation", "synchronisation"): 30,
        ("idle", "idle"): 90,
    }
    assert (
        cells(experiment.timeline(by=("name", "class")), "name", "class")["pthread_mutex_lock", "communication"] == 20
    )


def test_kinds_of_functions_that_are_not_asked_for_are_idle() -> None:
    experiment = sampled([(0, 5), (10, 0), (30, -1), (40, -1)])
    table = experiment.timeline(kind="entry")
    assert cells(table, "name") == {"main thread": 20, "idle": 20}
    assert "count as idle" in table.notes[0]
    assert cells(experiment.timeline(by="kind"), "name", "kind") == {
        ("function", "function"): 10,
        ("entry", "entry"): 20,
        ("idle", None): 10,
    }
    with pytest.raises(UsageError, match="no function or span is of kind kernel"):
        experiment.timeline(kind=["kernel"])
    with pytest.raises(UsageError, match="there is no kind 'kern'"):
        experiment.timeline(kind="kern")


def test_contexts_and_places() -> None:
    experiment = sampled([(0, 5), (10, 4), (20, -1)], [(0, 5), (20, -1)], [(0, 9), (20, -1)], EMPTY)
    table = experiment.timeline(by=("context", "rank"))
    assert cells(table, "rank", "context", "name") == {
        (0, 5, "kernel"): 30,
        (0, 4, "kernel"): 10,
        (1, 9, "idle"): 20,
    }
    assert [row["profiles"] for row in table if row["context"] == 5] == [2]
    assert table.notes == ("1 of 4 profiles have no trace and are left out",)
    assert cells(experiment.timeline(by=("profile", "thread", "node")), "profile", "thread", "name") == {
        (0, 0, "busy"): 20,
        (1, 1, "busy"): 20,
        (2, 0, "idle"): 20,
    }
    assert cells(experiment.timeline(ranks=1), "name") == {"idle": 20}
    with pytest.raises(UsageError, match="profiles that were chosen have no traces"):
        experiment.timeline(ranks=1, threads=1)


def test_several_lines_of_a_profile_are_one() -> None:
    experiment = sampled([(0, 5), (20, 2), (30, -1)])
    samples = experiment.traces.samples
    assert isinstance(samples, ArraySamples)
    more = Samples(np.array([10, 25]), np.array([1, 1], np.int32))
    both = ArraySamples(np.array([0, 0], np.int32), np.array([-1, -1], np.int32), (samples.lines[0], more))
    joined = replace(experiment, traces=replace(experiment.traces, samples=both))
    assert cells(joined.timeline(), "name") == {"kernel": 10, "main": 15, "solve": 5}


def test_sums_beyond_64_bits_are_exact() -> None:
    """Ten profiles of 60 years each."""
    length = 60 * 365 * 86400 * 10**9
    timeline = measure(sampled(*[[(0, 5), (length, -1)]] * 10), Question())
    assert cells(timeline.table(), "name") == {"kernel": 10 * length}
    assert timeline.describe_shares() == [("busy", 1.0)]
    assert 10 * length > 2**63
    with pytest.raises(UsageError, match="too far apart"):
        sampled([(-(2**62), 5), (2**62, -1)]).timeline()


# -- spans -------------------------------------------------------------------------------------------------------------


@given(SPANS, st.none() | WINDOWS, st.booleans(), st.sampled_from([None, 2, 5]), st.booleans())
def test_spans_count_where_they_are_open(
    spans: list[Span], window: Any, exclusive: bool, bins: int | None, small: bool
) -> None:
    wrong = [span for span in spans if span[3] > span[4]]
    right = [span for span in spans if span[3] <= span[4]]
    with pytest.MonkeyPatch.context() as patch:
        if small:  # chunks of a few spans, sorted outside of memory
            patch.setattr("callgrove.analysis.timeline.stretches.SPANS_IN_MEMORY", 2)
            patch.setattr("callgrove.model.traces.span_order.GIVEN", 1)
        if not right:
            with pytest.raises(UsageError, match="have no traces"):
                spanned(spans).timeline()
            return
        table = spanned(spans).timeline(window, BY_NAME, exclusive=exclusive, bins=bins)
    last = max(span[4] for span in right)
    whole = window or (min(span[3] for span in right), last)
    found: dict[tuple[int, str], int] = {}
    counts: dict[tuple[int, str], int] = {}
    for row in table:
        key = row["profile"], row["name"]
        found[key] = found.get(key, 0) + row["time_ns"]
        counts[key] = counts.get(key, 0) + (row["count"] or 0)
    assert {key: ns for key, ns in found.items() if ns} == watch_spans(spans, whole, exclusive)
    assert {key: n for key, n in counts.items() if n} == count_spans(spans, whole, last)
    assert any(f"{len(wrong)} spans end before" in text for text in table.notes) == bool(wrong)
    if exclusive:
        assert sum(found.values()) == (whole[1] - whole[0]) * len({span[0] for span in right})


@given(SPANS, st.integers(1, 3))
def test_spans_that_lie_deeper_are_left_out(spans: list[Span], depth: int) -> None:
    right = [span for span in spans if span[3] <= span[4]]
    if not right:
        return
    experiment = spanned(spans)
    shown = measure(experiment, Question(by=("depth", "profile"), depth=depth, exclusive=True)).table()
    assert max((row["depth"] or 0) for row in shown) <= depth
    every = cells(experiment.timeline(by="profile"), "profile", "name")
    idle = ("idle", "(no trace)", "(between spans)")
    gaps = {key: ns for key, ns in every.items() if key[1] in idle}
    assert gaps == {
        key: ns
        for key, ns in cells(experiment.timeline(by="profile", depth=depth), "profile", "name").items()
        if key[1] in idle
    }


def test_recursion_counts_once_and_exclusive_time_once_in_all() -> None:
    """a [0, 100) holds a [10, 60), which holds b [20, 30)."""
    spans = [(0, SpanKind.API, 0, 0, 100), (0, SpanKind.API, 0, 10, 60), (0, SpanKind.API, 1, 20, 30)]
    experiment = spanned(spans)
    assert cells(experiment.timeline(), "name") == {"a": 100, "b": 10}
    assert cells(experiment.timeline(exclusive=True), "name") == {"a": 90, "b": 10}
    by_depth = cells(experiment.timeline(by=("name", "depth"), exclusive=True), "name", "depth")
    assert by_depth == {("a", 1): 50, ("a", 2): 40, ("b", 3): 10}
    assert cells(experiment.timeline(depth=1), "name") == {"a": 100}


def test_gaps_of_devices_are_idle_and_of_threads_not_known() -> None:
    spans = [(0, SpanKind.API, 0, 10, 20), (0, SpanKind.API, 0, 40, 50), (1, SpanKind.KERNEL, 1, 20, 30)]
    table = spanned(spans).timeline((0, 60), BY_NAME)
    assert cells(table, "profile", "name") == {
        (0, "a"): 20,
        (0, "(between spans)"): 20,
        (0, "(no trace)"): 20,
        (1, "b"): 10,
        (1, "idle"): 50,
    }
    assert cells(spanned(spans).timeline((22, 38), BY_NAME), "profile", "name") == {
        (0, "(between spans)"): 16,
        (1, "b"): 8,
        (1, "idle"): 8,
    }
    assert cells(spanned(spans).timeline((60, 70), BY_NAME), "profile", "name") == {
        (0, "(no trace)"): 10,
        (1, "idle"): 10,
    }


def test_classes_of_spans_add_up_and_are_those_of_calls_around() -> None:
    spans = [
        (0, SpanKind.MARKER, 3, 0, 100),  # step 1: compute
        (0, SpanKind.REGION, 5, 10, 40),  # MPI_Send, and what it calls
        (0, SpanKind.API, 6, 20, 30),  # hipMemcpy
        (0, SpanKind.API, 6, 50, 55),
        (0, SpanKind.OVERHEAD, 0, 60, 62),
        (1, SpanKind.KERNEL, 0, 0, 50),
        (1, SpanKind.KERNEL, 7, 50, 70),  # of NCCL
        (1, SpanKind.MEMSET, 0, 70, 71),
        (1, SpanKind.SYNC, 8, 71, 75),
    ]
    experiment = spanned(spans)
    assert cells(experiment.timeline(by=("class", "profile")), "profile", "class") == {
        (0, "compute"): 63,
        (0, "communication"): 30,
        (0, "copy"): 5,
        (0, "idle"): 2,
        (1, "compute"): 50,
        (1, "communication"): 20,
        (1, "copy"): 1,
        (1, "synchronisation"): 4,
        (1, "idle"): 25,
    }


def test_rows_of_kinds_and_spans_of_some_kinds() -> None:
    spans = [(0, SpanKind.MARKER, 3, 0, 100), (0, SpanKind.API, 0, 10, 40), (1, SpanKind.KERNEL, 1, 0, 50)]
    experiment = spanned(spans)
    assert cells(experiment.timeline(by="kind"), "kind", "name") == {
        ("marker", "marker"): 100,
        ("api", "api"): 30,
        ("kernel", "kernel"): 50,
        (None, "idle"): 50,
    }
    table = experiment.timeline(kind="marker", exclusive=True)
    assert cells(table, "name") == {"step 1": 100}
    assert table.notes == ("1 of 2 profiles have no span of these kinds and are left out",)
    with pytest.raises(UsageError, match="no span is of kind copy"):
        experiment.timeline(kind="copy")


# -- what is said ------------------------------------------------------------------------------------------------------


def test_the_largest_computation_of_a_thread_is_the_communication_efficiency() -> None:
    busy, waits = [(0, 5), (60, 6), (100, -1)], [(0, 5), (80, 6), (100, -1)]
    experiment = sampled(busy, busy, busy, waits)
    timeline = measure(experiment, Question(by=("rank", "class")))
    assert timeline.communication_efficiency() == (0.8, "")
    assert dict(timeline.describe_shares()) == {"compute": 0.65, "communication": 0.35}
    assert measure(experiment, Question()).communication_efficiency() == (None, "")
    spans = [(p, SpanKind.API, 0, 10 * p, 10 * p + 9) for p in range(4)] + [(0, SpanKind.API, 0, 30, 40)]
    traced = spanned(spans, [ProfileKind.THREAD] * 4)
    assert "not traced" in measure(traced, Question(by=("class",))).communication_efficiency()[1]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ({"by": "time"}, "there is no division 'time'"),
        ({"depth": 0}, "depth.* is 1 or more"),
        ({"bins": 0}, "bins.* is 1 or more"),
        ({"bins": 10**9}, "bins.* is 1,048,576 at the most"),
        ({"classes": {"a": "work"}}, "there is no class 'work'"),
        ({"classes": {"/(/": "io"}}, "is not a regular expression"),
        ({"window": "soon"}, "is not a window"),
    ],
)
def test_questions_without_an_answer_are_refused(words: dict[str, Any], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        sampled([(0, 5), (10, 2), (10**10, 1)]).timeline(**words)


def test_too_many_rows_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("callgrove.analysis.timeline.statistics.MOST_ROWS", 10)
    with pytest.raises(UsageError, match="12 rows are too many"):
        sampled([(0, 5), (10, 2), (100, 1)]).timeline(bins=4)


def test_an_experiment_without_traces_says_what_to_do() -> None:
    experiment = sampled([(0, 5), (10, 1)]).select(traces=False)
    with pytest.raises(UsageError, match=r"has no traces, only sums.*measure with traces"):
        experiment.timeline()


# -- rules -------------------------------------------------------------------------------------------------------------


def test_rules_of_a_file_come_first_and_count_for_callees(tmp_path: Path) -> None:
    file = tmp_path / "classes.txt"
    file.write_text("# ours\nsolve io\n/^ker/, copy\n\n  MPI_Bar*   idle\n")
    line = [(0, 5), (10, 3), (30, 7), (60, 8), (100, 1), (150, -1)]
    expected = {"copy": 10, "io": 20, "communication": 30, "idle": 40, "compute": 50}
    for rules in (file, {"solve": "io", "/^ker/": "copy", "MPI_Bar*": "idle"}):
        assert cells(sampled(line).timeline(by="class", classes=rules), "class") == expected
    spans = [(0, SpanKind.MARKER, 3, 0, 100), (0, SpanKind.API, 0, 10, 40), (1, SpanKind.KERNEL, 7, 0, 30)]
    found = cells(spanned(spans).timeline(by="class", classes=[("step ?", "io"), ("nccl*", "compute")]), "class")
    assert found == {"io": 100, "compute": 30, "idle": 70}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("main\n", "classes.txt:1: expected a pattern and a class"),
        ("a io\nb work\n", "classes.txt:2: there is no class"),
    ],
)
def test_wrong_rules_name_their_line(tmp_path: Path, text: str, why: str) -> None:
    file = tmp_path / "classes.txt"
    file.write_text(text)
    with pytest.raises(UsageError, match=why):
        read_rules(file)
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="is not text"):
        read_rules(file)


def test_globs_are_of_whole_names() -> None:
    rules = ClassRules.of_pairs([("a?c*", "io"), ("/x.z/i", "copy"), ("f(int*)", "idle")])
    assert [rules.of(name) for name in ("abc", "abcd", "xabc", "1XYZ2", "f(int*)", "f")] == [3, 3, -1, 4, 5, -1]


# -- bins --------------------------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.integers(0, 100), st.integers(0, 100)).map(sorted), max_size=20), st.integers(1, 13))
def test_bins_lose_nothing(pairs: list[list[int]], n_bins: int) -> None:
    edges = np.array([100 * k // n_bins for k in range(n_bins + 1)])
    start, end = np.array(pairs, np.int64).reshape(-1, 2).T
    row, bins, ns = split_at(edges, start, end)
    expected = [
        (k, b, min(e, edges[b + 1]) - max(s, edges[b]))
        for k, (s, e) in enumerate(pairs)
        for b in range(n_bins)
        if min(e, edges[b + 1]) > max(s, edges[b])
    ]
    assert [one for one in zip(row.tolist(), bins.tolist(), ns.tolist(), strict=True) if one[2]] == expected


def test_every_row_comes_in_every_bin() -> None:
    table = sampled([(0, 5), (7, 2), (10, 1)]).timeline(bins=3)
    assert [(row["name"], row["from_ns"], row["time_ns"], row["count"]) for row in table] == [
        ("kernel", 0, 3, 1),
        ("kernel", 3, 3, 0),
        ("kernel", 6, 1, 0),
        ("solve", 0, 0, 0),
        ("solve", 3, 0, 0),
        ("solve", 6, 3, 1),
        ("main", 0, 0, 0),
        ("main", 3, 0, 0),
        ("main", 6, 0, 1),
    ]


# -- two views of one quantity -----------------------------------------------------------------------------------------


def total(table: Table) -> int:
    return sum(row["time_ns"] for row in table)


@pytest.mark.parametrize("by", ["name", "class", "kind", "context", "depth", "rank", "profile"])
def test_rows_add_up_however_they_are_divided(by: str) -> None:
    experiment = sampled([(0, 5), (10, 7), (30, 8), (60, 9), (100, 3)], [(20, 1), (50, -1), (90, 0)])
    assert total(experiment.timeline(by=by)) == 200
    assert total(experiment.timeline(by=by, bins=7)) == 200
    assert total(experiment.timeline((33, 66), by=by)) == 66


def opened(path: Path) -> Experiment:
    import callgrove

    experiment = callgrove.open(path)
    assert isinstance(experiment, Experiment)
    return experiment


def test_devices_are_as_busy_as_a_summary_says(shared: Path) -> None:
    """Of devices with one stream; where there are several, a device is busy no longer than all of them."""
    experiment = opened(shared / "data" / "own" / "rocpd" / "small")
    span = measure(experiment, Question()).window
    window = (span[0] + 10**7, span[1] - 10**7)
    busy = experiment.summary("busy", window=window, window_mode="clip")
    device = {
        p: (r, d)
        for p, (r, d) in enumerate(
            zip(*(experiment.profiles.identity_list(n) for n in ("rank", "gpu_device")), strict=True)
        )
        if d is not None
    }
    timeline = cells(experiment.timeline(window, by="profile"), "profile", "name")
    streams: dict[Any, list[int]] = {}
    for profile, place in device.items():
        if (profile, "busy") in timeline:
            streams.setdefault(place, []).append(timeline[profile, "busy"])
    assert len(busy) == len(streams) > 0
    for row in busy:
        times = streams[row["rank"], row["agent"]]
        assert max(times) <= row["total_ns"] <= sum(times)
        assert len(times) > 1 or row["total_ns"] == times[0]


def test_kernels_take_as_long_as_a_summary_says(shared: Path) -> None:
    """Where kernels of one name do not overlap on a stream, their union is their sum."""
    experiment = opened(shared / "data" / "own" / "rocpd" / "same_pid")
    kernels = {row["name"]: (row["total_ns"], row["count"]) for row in experiment.summary("kernels")}
    table = experiment.timeline(by=("name", "kind"), kind="kernel")
    found = {row["name"]: (row["time_ns"], row["count"]) for row in table if row["kind"] == "kernel"}
    assert found.keys() == kernels.keys()
    assert {name: count for name, (_, count) in found.items()} == {name: count for name, (_, count) in kernels.items()}
    assert all(found[name][0] <= kernels[name][0] for name in kernels)
    assert sum(ns for ns, _ in found.values()) > 0


def test_the_communication_efficiency_is_that_of_pop() -> None:
    """As far as samples that stand for a period, and for the time until the next one, are the same."""
    experiment = example()
    share, _ = measure(experiment, Question(by=("class",))).communication_efficiency()
    assert share is not None
    (figure,) = [row["stencil"] for row in experiment.pop() if row["name"] == "communication efficiency"]
    assert share == pytest.approx(figure, abs=0.02)


@pytest.mark.parametrize("name", ["gxx_s.d", "mpi4.d", "pth4.d"])
def test_samples_of_a_database_fill_the_window(shared: Path, name: str) -> None:
    experiment = opened(shared / "data" / "own" / "hpctoolkit-release" / name)
    for by in ("name", "context", "class"):
        found = cells(experiment.timeline("10%:90%", by=("profile", by)), "profile", "name", by)
        sums: dict[int, int] = {}
        for (profile, *_), ns in found.items():
            sums[profile] = sums.get(profile, 0) + ns
        assert len(set(sums.values())) == 1
