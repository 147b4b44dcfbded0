"""The timeline of a page: events as they are where they are few, sums that lose nothing where they are many."""

from __future__ import annotations

import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from callgrove.arrays import Ints
from callgrove.examples import example, gpu_example, study_example
from callgrove.formats.registry import open_path
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.contexts import ContextKind, Relation
from callgrove.model.experiment import Experiment
from callgrove.model.profiles import ProfileKind
from callgrove.model.traces import events as traces
from callgrove.model.traces.events import LABEL, ArraySamples, ArraySpans, Samples, SpanChunk, SpanKind, Window
from callgrove.model.traces.span_order import SpanOrder
from callgrove.viewer.page import Choice, Detail, Limits, Panel, encode
from callgrove.viewer.timeline import boxes as cells
from callgrove.viewer.timeline import events
from callgrove.viewer.timeline.boxes import INNERMOST, LINES, WHOLE, Cells, Tally, dominant
from callgrove.viewer.timeline.events import Events
from callgrove.viewer.timeline.maker import timeline_maker
from tests.exhaustive import try_examples
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


def panel_of(
    experiment: Experiment, share: float = 1.0, choice: Choice | None = None, limits: Limits | None = None
) -> Panel:
    maker = timeline_maker(experiment, choice or Choice(), limits)
    assert maker is not None
    (panel,) = maker.panels(Detail(share))
    return panel


def layer_of(data: dict[str, Any] | Any, shows: str) -> int:
    """The number of the first layer that shows something."""
    return [layer["shows"] for layer in data["layers"]].index(shows)


def boxes_of(
    data: dict[str, Any] | Any, layer: int = 0, lines: bool = False
) -> list[tuple[str, int, str, int, int, int]]:
    """(row, level, name, start, end, share), as the page works them out again from gaps and lengths; those of levels,
    or of lines."""
    one, names, rows = data["layers"][layer], data["names"]["text"].values, data["rows"]
    found, at = [], 0
    tracks = zip(*(one[name].tolist() for name in ("row", "level", "line", "count")), strict=True)
    for row, level, line, count in tracks:
        where = f"{rows['group'].values[row]} {rows['name'].values[row]}".strip()
        time = 0
        for i in range(at, at + count):
            start = time + int(one["gap"][i])
            time = start + int(one["length"][i])
            ends = (one["base_ns"] + t * one["tick_ns"] for t in (start, time))
            found.append((where, level, names[one["name"][i]], *ends, int(one["share"][i])))
        at += count
        found = found if line == lines else found[: len(found) - count]
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
    cells = Cells(500, 3_777, n_bins * 16, most)
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


def test_names_may_come_in_any_order_and_number() -> None:
    """How many there are is known to nobody before the last one was read: strings are read as spans are."""
    cells = Cells(0, 1_000, 16)
    rows = [(row, level, name, 10 * row, 5) for row, level, name in ((0, 0, 0), (3, 2, 9), (1, 1, 70_000), (2, 0, 4))]
    for row in rows:
        cells.add(events_of([row]))
    tally = cells.tally()
    found = sorted(zip(tally.row.tolist(), tally.level.tolist(), tally.name.tolist(), tally.ns.tolist(), strict=True))
    assert found == sorted((row, level, name, length) for row, level, name, _, length in rows)


@given(EVENTS, st.integers(1, 60))
def test_fewer_names_keep_the_time_of_those_they_stand_for(
    rows: list[tuple[int, int, int, int, int]], chunk: int
) -> None:
    cells = Cells(0, 4_900, 64, most=30, fewer=[lambda name: name // 2, lambda name: name * 0])
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
    cells = Cells(0, 100, 4)
    cells.add(events_of([(0, 0, 1, 10, 50)]))  # from 10 to 60, bins of 25
    tally = cells.tally()
    assert list(zip(tally.bin.tolist(), tally.ns.tolist(), strict=True)) == [(0, 15), (1, 25), (2, 10)]


def test_events_that_cover_everything_make_bins_wider_instead_of_taking_forever() -> None:
    cells = Cells(0, 10_000, 1000, most_pairs=10_000)
    for first in range(0, 500, 10):
        cells.add(events_of([(0, 0, name, 0, 10_000) for name in range(first, first + 10)]))
    assert cells.n_bins <= 32
    assert int(cells.tally().ns.sum()) == 500 * 10_000


def test_cells_of_one_database_after_the_other_are_not_held_twice() -> None:
    """A cell is a key and a sum, 16 bytes: to add up what has come takes no second copy of all of it."""
    most, n_rows, n = 200_000, 60, 5_000
    cells_ = Cells(0, 10 * n, n, most)
    tracemalloc.start()
    try:
        for row in range(n_rows):
            start = 10 * np.arange(n)
            for name in (0, 1):
                same = np.zeros(n, np.int64)
                cells_.add(Events(same + row, same, same + name, start, start + 5))
        tally = cells_.tally()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most / 2 < len(tally) <= most
    assert int(tally.ns.sum()) == n_rows * n * 2 * 5
    assert peak < 3 * 16 * most


def test_many_short_events_do_not_make_bins_wider() -> None:
    """Each of them lies in one bin: however many there are, the work for one stays the same."""
    cells_ = Cells(0, 10_000, 1000, most_pairs=100)
    for first in range(0, 10_000, 100):
        cells_.add(events_of([(0, 0, 0, at, 5) for at in range(first, first + 100, 10)]))
    assert cells_.n_bins == 1000
    assert cells_.tally().ns.tolist() == [5] * 1000


# -- what is largest ---------------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3), st.integers(0, 19), st.integers(1, 9)), max_size=50))
def test_a_bin_shows_the_name_with_the_most_time(cells: list[tuple[int, int, int, int]]) -> None:
    """Compared with counting by hand."""
    row, name, bins, ns = np.array(cells, np.int64).reshape(-1, 4).T
    boxes = dominant(Tally(row, row * 0, name, bins, ns), INNERMOST, 10, 195, 2)
    by_hand: dict[tuple[int, int], Counter[int]] = {}
    for r, n, b, time in cells:
        by_hand.setdefault((r, b // 2), Counter())[n] += time
    found: dict[tuple[int, int], int] = {}
    for r, n, start, end in zip(boxes.row, boxes.name, boxes.start, boxes.end, strict=True):
        found |= {(int(r), b): int(n) for b in range(int(start), int(end))}
    assert found == {at: min(c, key=lambda n: (-c[n], n)) for at, c in by_hand.items()}
    assert (boxes.share >= 1).all()
    assert (boxes.share <= boxes.busy).all()
    assert (boxes.busy <= WHOLE).all()


def test_the_share_is_of_the_part_of_a_bin_that_there_is() -> None:
    one = np.array([0])
    boxes = dominant(Tally(one, one, one, np.array([9]), np.array([5])), INNERMOST, 10, 95)  # the last bin has 5 ns
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
        ("rank 1 thread 0", 0, "a", 0, 100),  # what called them is not in the trace
        ("rank 1 thread 0", 0, "b", 100, 110),
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
        where = experiment.profiles.describe(profile)
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


def test_stacks_get_shorter_before_steps_get_wide() -> None:
    panel = panel_of(deep_stack(40, 2_000), limits=Limits(events=10, sums=6_000))
    assert any(note.startswith("Of call stacks the outermost 16 functions") for note in panel.notes)
    assert panel.data["legend"]["text"].values == ["f20", "f39"]  # innermost functions keep their names
    first = [box for box in boxes_of(panel.data, layer_of(panel.data, "levels")) if box[1] == 0]
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


def test_calls_nested_more_deeply_than_is_shown_are_on_the_last_level() -> None:
    panel = panel_of(traced([(0, k % 10, k, 200 - k, -1) for k in range(70)]))
    levels = [level for _, level, *_ in boxes_of(panel.data)]
    assert len(levels) == 70
    assert max(levels) == 63
    own = {"a": 0.0, **dict(zip(panel.data["legend"]["text"].values, panel.data["legend"]["share"], strict=True))}
    assert own["a"] == pytest.approx(14 / 200)  # one ns before and one after what each calls


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


def branching(n_rows: int, n_samples: int) -> Experiment:
    """Lines of different lengths, with samples at different depths of a tree and idle ones between them; profiles are
    not in the order of rows."""
    chance = np.random.default_rng(4)
    builder = ExperimentBuilder("made", title="made")
    for context in range(40):
        region = builder.region(ContextKind.FUNCTION, f"f{context % 17}")
        builder.add_context((context - 1) // 2 if context else -1, ContextKind.FUNCTION, region)
    lines = []
    for rank in chance.permutation(n_rows).tolist():
        builder.add_profile(ProfileKind.THREAD, [(RANK, rank, rank, 3)])
        time = np.cumsum(chance.integers(0, 90, n_samples // (1 + rank)))
        lines.append(Samples(time, chance.integers(-1, 40, len(time)).astype(np.int32)))
    every = np.arange(n_rows, dtype=np.int32)
    builder.set_traces(ArraySamples(every, np.full(n_rows, -1, np.int32), tuple(lines)))
    return builder.build()


@pytest.mark.parametrize("limits", [Limits(), Limits(events=500, bins=256), Limits(events=50, bins=256, sums=3_000)])
def test_lines_in_chunks_of_any_size_give_one_picture(limits: Limits, monkeypatch: pytest.MonkeyPatch) -> None:
    experiment = branching(9, 4_000)
    expected = panel_of(experiment, limits=limits)
    for size in (3, 100):
        monkeypatch.setattr(events, "SAMPLES_AT_ONCE", 7 * size)
        monkeypatch.setattr(traces, "SAMPLES_AT_ONCE", 11 * size)
        monkeypatch.setattr(cells, "PAIRS_AT_ONCE", 5 * size)
        monkeypatch.setattr(cells, "CELLS_AT_ONCE", size)
        found = panel_of(experiment, limits=limits)
        assert (encode(found.data), found.notes) == (encode(expected.data), expected.notes)


def test_more_rows_than_there_is_room_for_are_shown_together() -> None:
    """Of ranks 0 to 15 one does another thing; ranks 16 to 31 do it for half of the time."""
    spans: list[Span] = [(rank, int(rank == 3), 0, 1_000, 0) for rank in range(16)]
    spans += [(rank, 1, 0, 500, 0) for rank in range(16, 32)]
    experiment = traced(spans, 32)
    found = panel_of(experiment, limits=Limits(lines=16))
    assert list(found.data["rows"]["name"].values) == [
        "rank 0 thread 0 to rank 15 thread 0 (spans)",
        "rank 16 thread 0 to rank 31 thread 0 (spans)",
    ]
    layer = found.data["layers"][layer_of(found.data, "line")]
    n_bins = layer["length"].sum()
    assert layer["row"].tolist() == [0, 1]
    assert [found.data["names"]["text"].values[name] for name in layer["name"]] == ["a", "b"]
    assert layer["share"].tolist() == [round(15 / 16 * 255), 255]
    assert layer["busy"].tolist() == [255, 255]
    assert layer["length"].tolist() == [n_bins * 2 // 3, n_bins // 3]
    each = panel_of(experiment, limits=Limits(lines=32))
    assert len(each.data["rows"]["name"].values) == 32
    for word in ("legend", "kinds"):  # shares are those of all events
        assert encode(found.data[word]) == encode(each.data[word])
    assert any("32 rows are shown as 2: each stands for up to 16 neighbours" in note for note in found.notes)


@pytest.mark.parametrize("lines", [8, 16, 40])
def test_the_time_of_rows_that_are_shown_together_is_that_of_all(lines: int) -> None:
    experiment = many(40, 20)
    found = panel_of(experiment, limits=Limits(lines=lines, events=10))
    layer = found.data["layers"][layer_of(found.data, "line")]
    n_joined = 1 if lines == 40 else -(-40 // (lines // 8))
    row = np.repeat(layer["row"], layer["count"])
    n_rows = np.minimum((row + 1) * n_joined, 40) - row * n_joined
    busy = layer["length"] * layer["busy"] / 255 * n_rows
    assert busy.sum() * layer["tick_ns"] == pytest.approx(40 * 20 * 50, rel=0.02)


def test_a_trace_may_last_until_the_end_of_time() -> None:
    """As damaged traces do; whatever is exact in 63 bits, but not in the 53 of a double, is not lost."""
    builder = ExperimentBuilder("made", title="made")
    builder.add_context(-1, ContextKind.FUNCTION, builder.region(ContextKind.FUNCTION, "main"))
    builder.add_profile(ProfileKind.THREAD, [(RANK, 0, 0, 3)])
    lines = (Samples(np.array([2**63 - 9, 2**63 - 3, 2**63 - 1]), np.array([0, -1, 0], np.int32)),)
    builder.set_traces(ArraySamples(np.zeros(1, np.int32), np.full(1, -1, np.int32), lines))
    boxes = boxes_of(panel_of(builder.build()).data)
    assert [(start, end) for *_, start, end, _ in boxes] == [(0, 6), (8, 8)]


def test_many_events_become_steps_that_say_what_took_most() -> None:
    panel = panel_of(many(4, 3_000), limits=Limits(events=1_000, bins=512))
    (whole, levels, *closer) = panel.data["layers"]
    assert [whole["shows"], levels["shows"]] == ["line", "levels"]
    assert not whole["exact"]
    assert whole["tick_ns"] > 1
    assert closer
    assert all(one["tick_ns"] < whole["tick_ns"] for one in closer)
    assert closer[-1]["exact"]
    assert closer[-1]["start_ns"] == 0
    coarse = [box for box in boxes_of(panel.data, lines=True) if box[4] - box[3] >= 400]
    assert coarse
    assert {name for _, _, name, *_ in coarse} <= {"b"}
    assert "12,000 events are shown in steps of" in panel.notes[0]
    assert "event by event" in panel.notes[0]


def test_a_window_holds_the_events_that_touch_it() -> None:
    data = panel_of(many(4, 3_000), limits=Limits(events=1_000)).data
    one = data["layers"][-1]
    expected = [k * 100 for k in range(3_000) if k * 100 < one["end_ns"]]
    found = [start for where, _, _, start, _, _ in boxes_of(data, -1) if where == "rank 2 thread 0"]
    assert found == expected


@pytest.mark.parametrize("share", [1.0, 0.1, 0.001, 1e-6])
def test_boxes_keep_to_what_was_asked_for(share: float) -> None:
    panel = panel_of(many(200, 60), share, limits=Limits(events=100, boxes=20_000))
    n_boxes = sum(len(layer["gap"]) for layer in panel.data["layers"])
    assert 0 < n_boxes <= max(20_000 * share, 200) * 1.1
    if share <= 0.001:
        assert any("rows one in" in note for note in panel.notes)


def test_a_thousand_rows_fit_into_little() -> None:
    panel = panel_of(many(1_024, 60), limits=Limits(events=1_000))
    assert len(np.unique(panel.data["layers"][0]["row"])) == 1_024
    assert len(encode(panel.data)) < 1_500_000


def test_levels_that_say_least_go_first() -> None:
    spans: list[Span] = []
    for row in range(8):
        spans.append((row, 9, 0, 60_000, 0))
        spans += [(row, (k + row) % 7, k * 100, k * 100 + 99, 1) for k in range(600)]
    gathered = timeline_maker(traced(spans, 8), Choice(), Limits(events=10))
    assert gathered is not None
    layer = gathered._whole.levels_layer(20_000)
    assert set(layer.boxes.track.tolist()) == {0, 1, LINES, LINES + 1}
    assert layer.left_levels == 0
    layer = gathered._whole.levels_layer(1_400)
    assert set(layer.boxes.track.tolist()) == {1, LINES + 1}
    assert layer.left_levels == 1
    assert len(layer.boxes) <= 1_400


# -- shares ------------------------------------------------------------------------------------------------------------

FEW, MANY = Limits(), Limits(events=0, bins=16, boxes=2_000)  # below and above all thresholds
NAMES = "abcdef"
CALLS, OPERATIONS = (SpanKind.API, SpanKind.MARKER, SpanKind.SYNC), (SpanKind.KERNEL, SpanKind.COPY, SpanKind.MEMSET)
Drawn = tuple[int, int, int, int, SpanKind]  # profile, name, start, length, kind
DRAWN = st.lists(
    st.builds(
        lambda profile, name, start, length: (profile, name, start, length, (*CALLS, *OPERATIONS)[name]),
        st.integers(0, 2),
        st.integers(0, len(NAMES) - 1),
        st.integers(0, 150),
        st.integers(0, 60),
    ),
    min_size=1,
    max_size=20,
)


class ReadAsTheyCome:
    """Spans whose strings are known only once they were read, as those of databases are."""

    def __init__(self, columns: Mapping[str, Any]) -> None:
        self._spans = ArraySpans(columns, chunk_rows=7)
        self.strings: tuple[str, ...] = ()

    def chunks(self, columns: Sequence[str], window: Window | None, profiles: Ints | None) -> Iterator[Any]:
        for chunk in self._spans.chunks(columns, window, profiles):
            self.strings = tuple(NAMES)
            yield chunk

    def count(self) -> int:
        return self._spans.count()

    def side(self, name: str, part: int | None = None) -> None:
        return None

    def parts(self) -> Sequence[Ints]:
        return self._spans.parts()


class InParts(ArraySpans):
    """Spans of which those of each profile are a part, as of databases, and come one part after the other."""

    def chunks(self, columns: Sequence[str], window: Window | None, profiles: Ints | None) -> Iterator[Any]:
        for part in self.parts():
            yield from super().chunks(columns, window, part if profiles is None else np.intersect1d(part, profiles))

    def parts(self) -> Sequence[Ints]:
        return [np.array([profile]) for profile in np.unique(self.columns["profile"]).tolist()]


def in_parts(experiment: Experiment) -> Experiment:
    """The same spans, which can be read part by part."""
    backend = experiment.traces.spans_backend
    assert isinstance(backend, ArraySpans)
    parts = InParts(backend.columns, backend.strings, chunk_rows=backend.chunk_rows)
    return replace(experiment, traces=replace(experiment.traces, spans_backend=parts))


@pytest.mark.parametrize("limits", [Limits(), Limits(events=0, bins=256)], ids=["one by one", "in bins"])
@pytest.mark.parametrize("n_waiting", [1, 8, 100, 1 << 17])
def test_spans_in_parts_give_the_picture_of_spans_at_once(limits: Limits, n_waiting: int) -> None:
    chance = np.random.default_rng(n_waiting)
    start = chance.integers(0, 5_000, 400)
    rows = sorted(
        zip(chance.integers(0, 9, 400).tolist(), chance.integers(0, 9, 400).tolist(), start.tolist(), strict=True)
    )
    spans: list[Span] = [(rank, name, at, at + 1 + 7 * name**2, 0) for rank, name, at in rows]
    whole = traced(spans, 9)
    expected = panel_of(whole, limits=limits)
    sizes: list[int] = []

    class Counts(SpanOrder):
        def __init__(self, group: Ints) -> None:
            super().__init__(group, rows=n_waiting, block=2)
            sizes.append(0)

        def add(self, chunk: SpanChunk) -> None:
            sizes[-1] += len(chunk["span"])
            super().add(chunk)

    with mock.patch.object(events, "SpanOrder", Counts):
        found = panel_of(in_parts(whole), limits=limits)
    assert (encode(found.data), found.notes) == (encode(expected.data), expected.notes)
    largest = max(Counter(rank for rank, _, _ in rows).values())
    assert max(sizes) <= max(largest, n_waiting // 2 + largest), "parts are sorted some at a time"
    assert max(sizes) < len(spans) or n_waiting > len(spans)


def drawn_spans(spans: Sequence[Drawn]) -> Experiment:
    """Spans as drawn."""
    builder = ExperimentBuilder("made", title="made")
    for rank in range(3):
        builder.add_profile(ProfileKind.THREAD, [(RANK, rank, rank, 3), (THREAD, 0, 0, 3)])
    profile, name, start, length, kind = np.array(spans, np.int64).T
    columns = {"profile": profile, "name": name, "start_ns": start, "end_ns": start + length, "kind": kind}
    columns |= {column: np.full(len(spans), -1) for column in ("category", "correlation", "context", "depth")}
    builder.set_traces(None, ReadAsTheyCome(columns))
    return builder.build()


def own_time(spans: Sequence[Drawn], at: tuple[int, int], profile: int | None = None) -> Counter[str]:
    """Nanosecond by nanosecond: the call of each profile that started last, and every operation."""
    out: Counter[str] = Counter()
    for _, name, start, length, kind in spans if profile is None else [s for s in spans if s[0] == profile]:
        if kind in OPERATIONS:
            out[NAMES[name]] += max(min(start + length, at[1]) - max(start, at[0]), 0)
    for row in {span[0] for span in spans} if profile is None else {profile}:
        calls = [(s[2], -s[3], k, s) for k, s in enumerate(spans) if s[0] == row and s[4] in CALLS]
        for ns in range(*at):
            if open_ := [call for call in calls if call[3][2] <= ns < call[3][2] + call[3][3]]:
                out[NAMES[max(open_)[3][1]]] += 1
    return +out


def shares(legend: Any) -> dict[str, float]:
    return dict(zip(legend["text"].values, legend["share"].tolist(), strict=True))


@pytest.mark.parametrize("limits", [FEW, MANY], ids=["few", "many"])
@given(spans=DRAWN)
def test_the_legend_of_any_spans_is_exact(limits: Limits, spans: list[Drawn]) -> None:
    data = panel_of(drawn_spans(spans), limits=limits).data
    own = own_time(spans, (0, 210))
    assert shares(data["legend"]) == pytest.approx({name: ns / own.total() for name, ns in own.items()})
    assert sum(shares(data["kinds"]).values()) == pytest.approx(1 if own else 0)


@try_examples(40)
@given(spans=DRAWN)
def test_a_step_shows_the_name_with_the_most_own_time_and_how_much_that_is(spans: list[Drawn]) -> None:
    data = panel_of(drawn_spans(spans), limits=MANY).data
    origin, length = int(data["origin"]), data["length_ns"]
    tick, shown = data["layers"][0]["tick_ns"], 0
    for where, _, name, start, end, share in boxes_of(data, lines=True):
        profile = int(where.split()[1])
        end = min(end, length)
        own = own_time(spans, (origin + start, origin + end), profile)
        assert share / WHOLE == pytest.approx(min(own[name] / (end - start), 1), abs=0.003) or own[name] > end - start
        for at in range(start, end, tick):
            step = own_time(spans, (origin + at, origin + min(at + tick, end)), profile)
            assert step[name] == max(step.values())
            shown += 1
    busy = sum(
        bool(own_time(spans, (origin + at, origin + min(at + tick, length)), profile))
        for profile in range(3)
        for at in range(0, length, tick)
    )
    assert shown == busy, "nothing looks idle that is not"


@pytest.mark.parametrize("limits", [FEW, MANY], ids=["few", "many"])
@given(contexts=st.lists(st.lists(st.integers(-1, 7), min_size=2, max_size=25), min_size=1, max_size=3))
def test_the_legend_of_any_samples_is_exact_at_every_depth(limits: Limits, contexts: list[list[int]]) -> None:
    """A binary tree of eight functions, of which two have one name."""
    names = ["main", "a", "b", "a", "c", "d", "e", "f"]
    above = [-1, 0, 1, 2, 1, 0, 5, 5]
    builder = ExperimentBuilder("made", title="made")
    for name, parent in zip(names, above, strict=True):
        builder.add_context(parent, ContextKind.FUNCTION, builder.region(ContextKind.FUNCTION, name), Relation.CALL)
    for rank in range(len(contexts)):
        builder.add_profile(ProfileKind.THREAD, [(RANK, rank, rank, 3)])
    lines = tuple(Samples(np.cumsum(np.arange(len(one)) % 7), np.array(one, np.int32)) for one in contexts)
    each = np.arange(len(lines), dtype=np.int32)
    builder.set_traces(ArraySamples(each, np.full(len(lines), -1, np.int32), lines))
    data = panel_of(builder.build(), limits=limits).data

    def stack(context: int) -> list[str]:
        return [*(stack(above[context]) if above[context] >= 0 else ()), names[context]]

    for depth, legend in [(64, data["legend"]), *enumerate(one["legend"] for one in data["depths"])]:
        own: Counter[str] = Counter()
        for one, line in zip(contexts, lines, strict=True):
            for context, ns in zip(one, np.diff(line.time_ns).tolist(), strict=False):
                if context >= 0 and ns:
                    own[stack(context)[: depth + 1][-1]] += ns
        assert shares(legend) == pytest.approx({name: ns / own.total() for name, ns in own.items()})


def test_a_name_that_is_nowhere_the_largest_still_has_its_share() -> None:
    """Three functions by turns: one paints every step, the legend tells all."""
    context = np.tile(np.array([0, 1, 0, 2, 0, 1, 0, 1, 0, 2]), 2_000).astype(np.int32)
    builder = ExperimentBuilder("made", title="made")
    for name in ("leaf", "fib", "work"):
        builder.add_context(-1, ContextKind.FUNCTION, builder.region(ContextKind.FUNCTION, name))
    builder.add_profile(ProfileKind.THREAD, [(RANK, 0, 0, 3)])
    lines = (Samples(np.arange(len(context) + 1) * 10, np.append(context, np.int32(-1))),)
    builder.set_traces(ArraySamples(np.zeros(1, np.int32), np.full(1, -1, np.int32), lines))
    data = panel_of(builder.build(), limits=Limits(events=1_000, bins=256)).data
    assert {name for _, _, name, *_ in boxes_of(data, lines=True)} == {"leaf"}
    assert shares(data["legend"]) == pytest.approx({"leaf": 0.5, "fib": 0.3, "work": 0.2})
    assert all(share / WHOLE == pytest.approx(0.5, abs=0.01) for *_, share in boxes_of(data, lines=True))
    assert data["layers"][0]["busy"].tolist() == [WHOLE] * len(data["layers"][0]["busy"])


@pytest.mark.parametrize("limits", [FEW, MANY], ids=["few", "many"])
def test_what_the_profiler_did_is_on_rows_of_its_own_and_in_no_share(limits: Limits) -> None:
    """The profiler flushed for longer than everything else took, across calls and inside one."""
    spans: list[Drawn] = [
        (0, 0, 0, 100, SpanKind.API),
        (0, 1, 10, 30, SpanKind.API),
        (0, 2, 20, 400, SpanKind.OVERHEAD),
        (0, 2, 12, 5, SpanKind.OVERHEAD),
    ]
    panel = panel_of(drawn_spans(spans), limits=limits)
    assert shares(panel.data["legend"]) == pytest.approx({"a": 0.7, "b": 0.3})
    assert shares(panel.data["kinds"]) == {"api": 1.0}
    assert panel.data["overhead_ns"] == 405
    assert panel.data["length_ns"] == 100, "the time of the application"
    assert "The profiler worked for another 320 ns before or after the application: not shown." in panel.notes
    assert panel.data["rows"]["name"].values == ("thread 0 (spans)", "thread 0 (profiler)")


def test_a_larger_page_shows_finer_steps() -> None:
    """64 ranks that change what they do all the time."""
    experiment = many(64, 600)
    ticks = [
        panel_of(experiment, limits=Limits(events=10, boxes=4_000).for_size(size)).data["layers"][0]["tick_ns"]
        for size in (5_000_000, 30_000_000)
    ]
    assert ticks[0] > 2 * ticks[1]
    assert panel_of(experiment, limits=Limits(events=10_000).for_size(30_000_000)).data["layers"][0]["exact"]


def test_overhead_of_nsight_systems_is_no_time_of_the_application(shared: Path) -> None:
    """Its PROFILER_OVERHEAD rows last for 2.1 s, most of them after the last call; the application ran for 0.9 s."""
    path = shared / "data/public/extrap/nsight/concurrent_example/concurrent.s8/profile8.sqlite"
    experiment = open_path(path)
    assert isinstance(experiment, Experiment)
    data = panel_of(experiment).data
    assert not any("overhead" in text for text in data["legend"]["text"].values)
    assert data["length_ns"] < 1e9 < data["overhead_ns"]
    rows = [name for name in data["rows"]["name"].values if name.endswith("(profiler)")]
    assert rows
    assert {where.split(" ", 2)[2] for where, _, name, *_ in boxes_of(data) if "overhead" in name} <= set(rows)
