"""The timeline of a page: events as they are where they are few, sums that lose nothing where they are many."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from callgrove.examples import example, gpu_example, study_example
from callgrove.formats.registry import open_path
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.contexts import ContextKind, Relation
from callgrove.model.experiment import Experiment
from callgrove.model.profiles import ProfileKind
from callgrove.model.traces import LABEL, ArraySamples, ArraySpans, Samples, SpanKind
from callgrove.viewer.encoding import encode
from callgrove.viewer.panels import Choice, Detail, Panel
from callgrove.viewer.timeline import layers
from callgrove.viewer.timeline.boxes import WHOLE, dominant
from callgrove.viewer.timeline.cells import Cells, Tally
from callgrove.viewer.timeline.events import Events
from callgrove.viewer.timeline.maker import timeline_maker
from tests.formats.samples import CORPUS

Span = tuple[int, int, int, int, int]  # profile, name, start, end, depth
RANK, THREAD = 2, 3
INSIDE = (ContextKind.LINE, ContextKind.INSTRUCTION, ContextKind.CALL)  # a function, where one is known


def traced(spans: Sequence[Span], n_profiles: int = 2, kind: SpanKind = SpanKind.API) -> Experiment:
    """An experiment with these spans, under the names a, b, c, ..."""
    builder = ExperimentBuilder("made", title="made")
    for rank in range(n_profiles):
        builder.add_profile(ProfileKind.THREAD, [(RANK, rank, rank, 3), (THREAD, 0, 0, 3)])
    columns = dict(zip(("profile", "name", "start_ns", "end_ns", "depth"), np.array(spans).T, strict=True))
    absent = np.full(len(spans), -1)
    columns |= {"category": absent, "correlation": absent, "context": absent}
    columns["kind"] = np.full(len(spans), int(kind))
    builder.set_traces(None, ArraySpans(columns, tuple("abcdefghij"), chunk_rows=64))
    return builder.build()


def panel_of(experiment: Experiment, share: float = 1.0, choice: Choice | None = None) -> Panel:
    maker = timeline_maker(experiment, choice or Choice())
    assert maker is not None
    (panel,) = maker.panels(Detail(share))
    return panel


def boxes_of(data: dict[str, Any] | Any, layer: int = 0) -> list[tuple[str, int, str, int, int, int]]:
    """(row, level, name, start, end, share), as the page works them out again from gaps and lengths."""
    one, names, rows = data["layers"][layer], data["names"]["text"].values, data["rows"]
    found, at = [], 0
    for row, level, count in zip(one["row"].tolist(), one["level"].tolist(), one["count"].tolist(), strict=True):
        where = f"{rows['group'].values[row]} {rows['name'].values[row]}".strip()
        time = 0
        for i in range(at, at + count):
            start = time + int(one["gap"][i])
            time = start + int(one["length"][i])
            ends = (one["base_ns"] + t * one["tick_ns"] for t in (start, time))
            found.append((where, level, names[one["name"][i]], *ends, int(one["share"][i])))
        at += count
    return found


# -- sums --------------------------------------------------------------------------------------------------------------

EVENTS = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(0, 5), st.integers(0, 4000), st.integers(0, 900)),
    max_size=60,
)


def events_of(rows: Sequence[tuple[int, int, int, int, int]]) -> Events:
    row, level, name, start, length = np.array(rows, np.int64).reshape(-1, 5).T
    return Events(row, level, name, start, start + length)


@given(EVENTS, st.integers(1, 60), st.integers(1, 12), st.sampled_from([1_000_000, 40, 5]))
def test_no_time_is_lost_in_any_number_of_chunks_bins_and_cells(
    rows: list[tuple[int, int, int, int, int]], chunk: int, n_bins: int, most: int
) -> None:
    cells = Cells(500, 3_777, n_bins * 16, 6, most)
    for first in range(0, len(rows), chunk):
        cells.add(events_of(rows[first : first + chunk]))
    expected: Counter[tuple[int, int, int]] = Counter()
    for row, level, name, start, length in rows:
        if (inside := min(start + length, 3_777) - max(start, 500)) > 0:
            expected[row, level, name] += inside
    tally = cells.tally()
    found: Counter[tuple[int, int, int]] = Counter()
    for row, level, name, ns in zip(tally.row, tally.level, tally.name, tally.ns, strict=True):
        found[int(row), int(level), int(name)] += int(ns)
    assert found == expected
    assert (tally.ns <= cells.bin_ns * len(rows)).all()
    assert (tally.bin >= 0).all()
    assert (tally.bin < cells.n_bins).all()


@given(EVENTS, st.integers(1, 60))
def test_names_that_are_put_together_keep_their_time(rows: list[tuple[int, int, int, int, int]], chunk: int) -> None:
    cells = Cells(0, 4_900, 64, 6, most=20, kept=2)
    for first in range(0, len(rows), chunk):
        cells.add(events_of(rows[first : first + chunk]))
    tally = cells.tally()
    assert int(tally.ns.sum()) == sum(length for *_, length in rows)
    assert len(tally) <= 20 or cells.n_bins <= 16


@given(EVENTS, st.integers(1, 60))
def test_fewer_names_keep_the_time_of_those_they_stand_for(
    rows: list[tuple[int, int, int, int, int]], chunk: int
) -> None:
    cells = Cells(0, 4_900, 64, 6, most=30, fewer=[lambda name: name // 2, lambda name: name * 0])
    for first in range(0, len(rows), chunk):
        cells.add(events_of(rows[first : first + chunk]))
    tally = cells.tally()
    divisor = (1, 2, 6)[cells.n_renamed]
    expected: Counter[int] = Counter()
    for _, _, name, _, length in rows:
        expected[name // divisor] += length
    found = np.bincount(tally.name, tally.ns, minlength=6)
    assert found.tolist() == [expected[name] for name in range(6)]


def test_a_cell_says_what_of_an_event_lies_in_its_bin() -> None:
    cells = Cells(0, 100, 4, 2)
    cells.add(events_of([(0, 0, 1, 10, 50)]))  # from 10 to 60, bins of 25
    tally = cells.tally()
    assert list(zip(tally.bin.tolist(), tally.ns.tolist(), strict=True)) == [(0, 15), (1, 25), (2, 10)]


def test_events_that_cover_everything_make_bins_wider_instead_of_taking_forever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("callgrove.viewer.timeline.cells.MOST_PAIRS", 10_000)
    monkeypatch.setattr("callgrove.viewer.timeline.cells.PAIRS_AT_ONCE", 2_000)
    cells = Cells(0, 10_000, 1000, 500)
    cells.add(events_of([(0, 0, name, 0, 10_000) for name in range(500)]))
    assert cells.n_bins <= 32
    assert int(cells.tally().ns.sum()) == 500 * 10_000


# -- what is largest ---------------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3), st.integers(0, 19), st.integers(1, 9)), max_size=50))
def test_a_bin_shows_the_name_with_the_most_time(cells: list[tuple[int, int, int, int]]) -> None:
    """Compared with counting by hand."""
    row, name, bins, ns = np.array(cells, np.int64).reshape(-1, 4).T
    boxes = dominant(Tally(row, row * 0, name, bins, ns), 10, 195, 2)
    by_hand: dict[tuple[int, int], Counter[int]] = {}
    for r, n, b, time in cells:
        by_hand.setdefault((r, b // 2), Counter())[n] += time
    found: dict[tuple[int, int], int] = {}
    for r, n, start, end in zip(boxes.row, boxes.name, boxes.start, boxes.end, strict=True):
        found |= {(int(r), b): int(n) for b in range(int(start), int(end))}
    assert found == {at: min(c, key=lambda n: (-c[n], n)) for at, c in by_hand.items()}
    assert (boxes.share >= 1).all()
    assert (boxes.share <= WHOLE).all()


def test_the_share_is_of_the_part_of_a_bin_that_there_is() -> None:
    one = np.array([0])
    boxes = dominant(Tally(one, one, one, np.array([9]), np.array([5])), 10, 95)  # the last bin has 5 ns
    assert boxes.share.tolist() == [WHOLE]


# -- few events --------------------------------------------------------------------------------------------------------

SPANS: list[Span] = [(1, 0, 1_000, 1_900, 0), (0, 1, 1_005, 1_500, 0), (0, 2, 1_100, 1_200, 1), (0, 2, 1_300, 1_300, 1)]


def test_few_spans_are_shown_as_they_are() -> None:
    panel = panel_of(traced(SPANS))
    assert panel.data["layers"][0]["exact"]
    assert panel.data["origin"] == "1000"
    assert panel.data["length_ns"] == 900
    assert boxes_of(panel.data) == [
        ("rank 0 thread 0", 0, "b", 5, 500, WHOLE),
        ("rank 0 thread 0", 1, "c", 100, 200, WHOLE),
        ("rank 0 thread 0", 1, "c", 300, 300, WHOLE),
        ("rank 1 thread 0", 0, "a", 0, 900, WHOLE),
    ]
    assert panel.notes == ()


def test_spans_that_overlap_are_put_on_levels_of_their_own() -> None:
    spans: list[Span] = [(0, 0, 0, 100, -1), (0, 1, 20, 40, -1), (0, 2, 30, 300, -1), (0, 3, 120, 130, -1)]
    spans += [(1, 0, 0, 100, 1), (1, 1, 100, 110, 1)]  # these only touch
    found = [
        (row, level, name, start, end) for row, level, name, start, end, _ in boxes_of(panel_of(traced(spans)).data)
    ]
    assert found == [
        ("rank 0 thread 0", 0, "a", 0, 100),
        ("rank 0 thread 0", 0, "d", 120, 130),
        ("rank 0 thread 0", 1, "b", 20, 40),
        ("rank 0 thread 0", 2, "c", 30, 300),
        ("rank 1 thread 0", 1, "a", 0, 100),
        ("rank 1 thread 0", 1, "b", 100, 110),
    ]


def test_spans_that_start_together_lie_in_the_longer_one() -> None:
    spans: list[Span] = [(0, 0, 0, 10, -1), (0, 1, 0, 100, -1), (0, 2, 20, 30, -1), (0, 3, 22, 25, -1)]
    found = [(level, name) for _, level, name, *_ in boxes_of(panel_of(traced(spans)).data)]
    assert found == [(0, "b"), (1, "a"), (1, "c"), (2, "d")]


def test_every_span_of_a_trace_is_there() -> None:
    experiment = gpu_example()
    data = panel_of(experiment).data
    assert data["layers"][0]["exact"]
    backend = experiment.traces.spans_backend
    assert backend is not None
    expected: Counter[tuple[str, int, int]] = Counter()
    wanted = ("kind", LABEL, "start_ns", "end_ns")
    for chunk in experiment.traces.spans(wanted):
        for kind, label, start, end in zip(*(chunk[name].tolist() for name in wanted), strict=True):
            name = backend.strings[label] if label >= 0 else SpanKind(kind).word
            expected[name, start - int(data["origin"]), end - int(data["origin"])] += 1
    assert Counter((name, start, end) for _, _, name, start, end, _ in boxes_of(data)) == expected


def measured() -> Experiment:
    """Of which no function is known, and which has idle time."""
    found = open_path(CORPUS / "hpcrun" / "04.00" / "pth4.m")
    assert isinstance(found, Experiment)
    return found


@pytest.mark.parametrize("made", [example, measured])
def test_samples_are_stacks_of_functions(made: Callable[[], Experiment]) -> None:
    """Every moment between two samples, compared with the tree itself."""
    experiment = made()
    data = panel_of(experiment).data
    tree, origin = experiment.contexts, int(data["origin"])
    boxes = boxes_of(data)
    for profile, _, line in experiment.traces.lines():
        where = experiment.profiles.described(profile)
        own = [box for box in boxes if box[0] == where]
        for at in range(0, len(line) - 1, 7):
            middle = (int(line.time_ns[at]) + int(line.time_ns[at + 1])) / 2 - origin
            context, stack = int(line.context[at]), []
            if context >= 0 and tree.name(context) != "<no activity>":
                outwards = [c for c in tree.ancestors(context)[::-1] if tree.kind[c] != ContextKind.LOOP]
                inside = [tree.kind[c] in INSIDE and tree.relation[c] == Relation.LEXICAL for c in outwards]
                stack = [tree.name(c) for c, nested in zip(outwards, inside, strict=True) if not nested]
            shown = [(level, name) for _, level, name, start, end, _ in own if start <= middle < end]
            assert shown == list(enumerate(stack))


def test_instructions_that_call_each_other_are_frames() -> None:
    """Without program structure there are no functions; a line inside an instruction is still none."""
    builder = ExperimentBuilder("made", title="made")
    module, parent = builder.module("/lib/libc.so"), -1
    for offset in (0x10, 0x20):
        region = builder.region(ContextKind.INSTRUCTION, "", module=module, offset=offset)
        parent = builder.add_context(parent, ContextKind.INSTRUCTION, region, Relation.CALL)
    line = builder.region(ContextKind.LINE, "", file=builder.file("a.c"), line=7)
    leaf = builder.add_context(parent, ContextKind.LINE, line, Relation.LEXICAL)
    builder.add_profile(ProfileKind.THREAD, [(RANK, 0, 0, 3)])
    lines = (Samples(np.array([0, 10, 20]), np.array([leaf, leaf, -1], np.int32)),)
    builder.set_traces(ArraySamples(np.zeros(1, np.int32), np.full(1, -1, np.int32), lines))
    data = panel_of(builder.build()).data
    assert {box[1:3] for box in boxes_of(data)} == {(0, "/lib/libc.so+0x10"), (1, "/lib/libc.so+0x20")}


def deep_stack(depth: int, n_samples: int) -> Experiment:
    """Samples in the middle and at the end of a chain of calls."""
    builder = ExperimentBuilder("made", title="made")
    parent = -1
    for level in range(depth):
        region = builder.region(ContextKind.FUNCTION, f"f{level}")
        parent = builder.add_context(parent, ContextKind.FUNCTION, region)
    builder.add_profile(ProfileKind.THREAD, [(RANK, 0, 0, 3)])
    context = np.where(np.arange(n_samples) % 2, depth - 1, depth // 2).astype(np.int32)
    lines = (Samples(np.arange(n_samples) * 10, context),)
    builder.set_traces(ArraySamples(np.zeros(1, np.int32), np.full(1, -1, np.int32), lines))
    return builder.build()


def test_stacks_that_are_too_deep_end_early_and_it_says_so() -> None:
    panel = panel_of(deep_stack(100, 5))
    assert max(level for _, level, *_ in boxes_of(panel.data)) == 63
    assert panel.notes == ("Of call stacks the outermost 64 functions are shown; what these call is part of them.",)


def test_stacks_get_shorter_before_steps_get_wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layers, "MOST_EXACT", 10)
    monkeypatch.setattr(layers, "MOST_CELLS", 3_000)
    panel = panel_of(deep_stack(40, 2_000))
    assert any(note.startswith("Of call stacks the outermost 16 functions") for note in panel.notes)
    first = [box for box in boxes_of(panel.data) if box[1] == 0]
    assert sum((end - start) * share / WHOLE for *_, start, end, share in first) == pytest.approx(19_990, rel=0.01)


def test_idle_rows_are_not_shown_and_counted() -> None:
    builder = ExperimentBuilder("made", title="made")
    builder.add_context(-1, ContextKind.FUNCTION, builder.region(ContextKind.FUNCTION, "main"))
    for rank in range(2):
        builder.add_profile(ProfileKind.THREAD, [(RANK, rank, rank, 3)])
    lines = (
        Samples(np.array([10, 20, 50]), np.array([0, -1, 0], np.int32)),
        Samples(np.array([15]), np.array([-1], np.int32)),
    )
    builder.set_traces(ArraySamples(np.arange(2, dtype=np.int32), np.full(2, -1, np.int32), lines))
    panel = panel_of(builder.build())
    assert boxes_of(panel.data) == [
        ("rank 0 process", 0, "main", 0, 10, WHOLE),
        ("rank 0 process", 0, "main", 40, 40, WHOLE),
    ]
    assert panel.notes == ("1 of 2 rows were idle all the time and are not shown.",)


# -- what cannot be shown ----------------------------------------------------------------------------------------------


def test_spans_without_a_possible_time_are_left_out_and_counted() -> None:
    panel = panel_of(traced([*SPANS, (0, 3, 900, 800, 0), (0, 3, -5, 2**62, 0)]))
    assert panel.data["length_ns"] == 900
    assert "d" not in panel.data["names"]["text"].values
    assert panel.notes == ("2 spans are left out: they end before they start, or at times that no clock shows.",)


def test_what_is_nested_too_deeply_is_left_out_and_counted() -> None:
    panel = panel_of(traced([(0, 0, 0, 10, 0), (0, 1, 1, 2, 64)]))
    assert [box[2] for box in boxes_of(panel.data)] == ["a"]
    assert panel.notes == ("1 spans nested more than 64 deep are left out.",)


def test_nothing_over_time_is_no_panel() -> None:
    assert timeline_maker(study_example(), Choice()) is None
    assert timeline_maker(ExperimentBuilder("made", title="made").build(), Choice()) is None


def test_only_the_ranks_that_were_chosen() -> None:
    panel = panel_of(traced(SPANS), choice=Choice(ranks={1}))
    assert boxes_of(panel.data) == [("rank 1 thread 0", 0, "a", 0, 900, WHOLE)]


def test_rows_that_say_the_same_of_themselves_are_told_apart() -> None:
    builder = ExperimentBuilder("made", title="made")
    for _ in range(2):
        builder.add_profile(ProfileKind.THREAD, [(THREAD, 0, 0, 3)])
    columns = {name: np.zeros(2, np.int64) for name in ("kind", "depth")}
    columns |= {name: np.full(2, -1) for name in ("category", "correlation", "context", "name")}
    columns |= {"profile": np.arange(2), "start_ns": np.array([5, 6]), "end_ns": np.array([7, 8])}
    builder.set_traces(None, ArraySpans(columns))
    panel = panel_of(builder.build())
    assert panel.data["rows"]["group"].values == ("process 0", "process 1")
    assert panel.data["rows"]["name"].values == ("thread 0", "thread 0")
    assert {box[2] for box in boxes_of(panel.data)} == {"kernel"}  # without a name, the kind


# -- many events -------------------------------------------------------------------------------------------------------


def many(n_rows: int, n_events: int) -> Experiment:
    """Rows that do the same: a, then b for twice as long, and nothing for as long as a; again and again."""
    at = np.tile(np.arange(n_events), n_rows) * 100
    spans = np.stack([np.repeat(np.arange(n_rows), n_events), np.tile(np.arange(n_events) % 2, n_rows), at, at, at * 0])
    spans[3] += np.where(spans[1] == 0, 25, 75)
    return traced(spans.T.tolist(), n_rows)


def test_many_events_become_steps_that_say_what_took_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layers, "MOST_EXACT", 1_000)
    panel = panel_of(many(4, 3_000))
    (whole, *closer) = panel.data["layers"]
    assert not whole["exact"]
    assert whole["tick_ns"] > 1
    assert closer
    assert all(one["tick_ns"] < whole["tick_ns"] for one in closer)
    assert closer[-1]["exact"]
    assert closer[-1]["start_ns"] == 0
    coarse = [box for box in boxes_of(panel.data) if box[4] - box[3] >= 400]
    assert {name for _, _, name, *_ in coarse} <= {"b"}
    assert "12,000 events are shown in steps of" in panel.notes[0]
    assert "event by event" in panel.notes[0]


def test_a_window_holds_the_events_that_touch_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layers, "MOST_EXACT", 1_000)
    data = panel_of(many(4, 3_000)).data
    one = data["layers"][-1]
    expected = [k * 100 for k in range(3_000) if k * 100 < one["end_ns"]]
    found = [start for where, _, _, start, _, _ in boxes_of(data, -1) if where == "rank 2 thread 0"]
    assert found == expected


@pytest.mark.parametrize("share", [1.0, 0.1, 0.001, 1e-6])
def test_boxes_keep_to_what_was_asked_for(monkeypatch: pytest.MonkeyPatch, share: float) -> None:
    monkeypatch.setattr(layers, "MOST_EXACT", 100)
    monkeypatch.setattr("callgrove.viewer.timeline.maker.MOST_BOXES", 20_000)
    monkeypatch.setattr("callgrove.viewer.timeline.maker.LEAST_BOXES", 50)
    panel = panel_of(many(200, 60), share)
    n_boxes = sum(len(layer["gap"]) for layer in panel.data["layers"])
    assert 0 < n_boxes <= max(20_000 * share, 50) * 1.1
    if share < 0.001:
        assert any("rows one in" in note for note in panel.notes)


def test_a_thousand_rows_fit_into_little(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layers, "MOST_EXACT", 1_000)
    panel = panel_of(many(1_024, 60))
    assert len(np.unique(panel.data["layers"][0]["row"])) == 1_024
    assert len(encode(panel.data)) < 1_500_000


def test_levels_that_say_least_go_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layers, "MOST_EXACT", 10)
    spans: list[Span] = []
    for row in range(8):
        spans.append((row, 9, 0, 60_000, 0))
        spans += [(row, (k + row) % 7, k * 100, k * 100 + 99, 1) for k in range(600)]
    gathered = timeline_maker(traced(spans, 8), Choice())
    assert gathered is not None
    layer = gathered._whole.layer(10_000)
    assert set(layer.boxes.level.tolist()) == {0, 1}
    assert layer.left_levels == 0
    layer = gathered._whole.layer(700)
    assert set(layer.boxes.level.tolist()) == {1}
    assert layer.left_levels == 1
    assert len(layer.boxes) <= 700
