"""Timelines of the viewer's server: sums that are those of `timeline`, answers while one is built, and after."""

from __future__ import annotations

import gc
import random
import tracemalloc
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from time import monotonic
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from callgrove.algebra.window_costs import costs_in_window
from callgrove.analysis.costs import costs
from callgrove.analysis.timeline.statistics import Question, measure
from callgrove.analysis.timeline_index import builder
from callgrove.analysis.timeline_index.answers import SpanRows
from callgrove.analysis.timeline_index.index import TimelineIndex
from callgrove.analysis.views import top_down
from callgrove.examples import example, gpu_example
from callgrove.formats.registry import open_path
from callgrove.formats.writing.transfer import write
from callgrove.model.experiment import Experiment
from callgrove.viewer.server.inputs import Input, Wanted
from callgrove.viewer.server.running import Viewer
from callgrove.viewer.server.span_details import _side_facts
from callgrove.viewer.server.timeline_pictures import share_out
from tests.browser.made import slow_spans, spans_of
from tests.requirements import need_module
from tests.timing import HANG_SEC
from tests.viewer.serving import ask, made_input, path_input, serving
from tests.viewer.soak import Clicking

need_module("starlette")
need_module("uvicorn")


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALLGROVE_CACHE", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def viewer() -> Iterator[Viewer]:
    with serving(made_input(example()), made_input(gpu_example()), made_input(spans_of(700, 50))) as running_viewer:
        for number in range(3):
            complete(running_viewer, number)
        yield running_viewer


def complete(viewer: Viewer, number: int = 0, **how: Any) -> Any:
    """The picture of everything, once the index is complete."""
    began = monotonic()
    while True:
        status, picture = ask(viewer, "timeline", input=number, **how)
        assert status == 200, picture
        assert not picture["progress"]["error"]
        if picture["progress"]["complete"]:
            return picture
        assert monotonic() - began < HANG_SEC


# -- numbers -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("number", "made"), [(0, example), (1, gpu_example)])
def test_sums_are_those_of_timeline(viewer: Viewer, number: int, made: Callable[[], Experiment]) -> None:
    picture = complete(viewer, number)
    origin, length = int(picture["origin"]), picture["length_ns"]
    chance = random.Random(number)
    for _ in range(6):
        begin, end = sorted(chance.sample(range(length), 2))
        _, legend = ask(viewer, "timelegend", input=number, to=end, **{"from": begin})
        table = measure(made(), Question((origin + begin, origin + end), ("name", "kind"), exclusive=True)).table()
        columns = (table.column(name).plain() for name in ("name", "kind", "time_ns"))
        expected = {(name, kind): ns for name, kind, ns in zip(*columns, strict=True) if kind and ns}
        names = zip(legend["names"]["text"], legend["names"]["kind"], strict=True)
        assert dict(zip(names, map(int, legend["time_ns"]), strict=True)) == expected
        assert int(legend["total_ns"]) == sum(expected.values()) == sum(map(int, legend["kinds_ns"]))
        assert legend["missing_ns"] == "0"


def test_the_call_tree_of_a_window_is_that_of_the_verb(viewer: Viewer) -> None:
    picture = complete(viewer)
    origin, length = int(picture["origin"]), picture["length_ns"]
    window = origin + length // 5, origin + length // 2
    status, rows = ask(viewer, "rows", window=f"@{window[0]}:@{window[1]}")
    assert status == 200, rows
    table = top_down(costs(costs_in_window(example(), window)))
    columns = (table.column(one).plain() for one in ("name", "depth", "inclusive"))
    tops = {name: cost for name, depth, cost in zip(*columns, strict=True) if depth == 0}
    assert dict(zip(rows["name"], rows["metrics"][0]["inclusive"], strict=True)) == pytest.approx(tops)


def test_rows_are_merged_and_divided(viewer: Viewer) -> None:
    """Every row is in one group, and sums of groups are those of all."""
    picture = complete(viewer, 2, rows=100)
    bounds = picture["bounds"]
    assert (bounds[0], bounds[-1], len(bounds)) == (0, 700, 101)
    assert picture["is_merged"]
    assert picture["spans"] is None
    parts = [ask(viewer, "timelegend", input=2, top=a, bottom=b)[1] for a, b in ((0, 250), (250, 251), (251, 700))]
    _, whole = ask(viewer, "timelegend", input=2)
    assert sum(int(part["total_ns"]) for part in parts) == int(whole["total_ns"]) == 700 * 50 * 80
    _, few = ask(viewer, "timeline", input=2, top=3, bottom=5)
    assert len(few["spans"]["row"]) == 100
    assert set(few["spans"]["row"]) == {3, 4}


def test_rows_are_shared_out_evenly() -> None:
    assert share_out(2, 5, 10) == [2, 3, 4, 5]
    assert share_out(0, 10, 4) == [0, 2, 5, 7, 10]
    assert share_out(3, 3, 4) == [3]


def test_pictures_say_what_dominates(viewer: Viewer) -> None:
    picture = complete(viewer, 2, width=200, rows=300, top=0, bottom=1)
    cells = np.array(picture["cell"])
    assert len(cells) == picture["n_cells"]
    assert set(picture["names"]["text"]) <= {"a", "b"}
    weight = np.array(picture["weight"])
    assert ((weight >> 4) <= (weight & 15)).all(), "no name has more time than all of them"
    assert ((weight > 0) == (cells > 0)).all()


def test_spans_are_described(viewer: Viewer) -> None:
    picture = complete(viewer, 1)
    spans = picture["spans"]
    kernel = spans["names"]["number"][spans["names"]["text"].index("void gemm<float>(float const*, float*)")]
    i = spans["name"].index(kernel)
    _, stack = ask(viewer, "timestack", input=1, row=spans["row"][i], time=int(spans["start"][i]))
    place = {"span": spans["span"][i], "profile": stack["profile"], "time": int(spans["start"][i])}
    status, span = ask(viewer, "timespan", input=1, **place)
    assert status == 200, span
    assert ["kind", "kernel"] in span["facts"]
    assert [link["text"] for link in span["links"]] == ["hipLaunchKernel"]
    _, pairs = ask(viewer, "timelinks", input=1)
    assert (span["links"][0]["span"], spans["span"][i]) in set(zip(pairs["call"], pairs["operation"], strict=True))


def test_details_have_no_word_twice_and_no_empty_object() -> None:
    columns = {"event_id": np.array([16]), "call_stack": ["{}"], "line": ["a.c:3"]}
    table = SimpleNamespace(span=np.array([7]), columns=columns)
    traces: Any = SimpleNamespace(side=lambda name, part: table)
    assert list(_side_facts(traces, "event_text", 0, 7)) == [("event text id", "16"), ("event text line", "a.c:3")]
    assert list(_side_facts(traces, "event", 0, 7)) == [("event id", "16"), ("event line", "a.c:3")]


# -- while it is built -------------------------------------------------------------------------------------------------


def test_what_was_read_is_shown_at_once(tmp_path: Path) -> None:
    experiment, slow = slow_spans(8, 1_000)
    with serving(made_input(experiment)) as building:
        ask(building, "timeline")
        assert slow.has_begun.wait(HANG_SEC)
        began = monotonic()
        while not (picture := ask(building, "timeline", rows=8)[1])["n_rows"]:
            assert monotonic() - began < HANG_SEC
        assert picture["progress"]["reading"]
        assert not picture["progress"]["complete"]
        assert picture["pending"] == [1, 1, 1, 1], "four rows were read"
        assert picture["length_ns"] == 999 * 100 + 80
        cells = np.array(picture["cell"]).reshape(4, picture["n_cells"])
        numbers = {name: number + 1 for number, name in enumerate(picture["names"]["text"])}
        for cell in range(picture["n_cells"]):
            time = picture["start_ns"] + cell * picture["cell_ns"]
            name = ("a", "b")[time // 100 % 2] if time % 100 < 80 and time < picture["length_ns"] else None
            assert set(cells[:, cell].tolist()) == {0 if name is None else numbers[name]}
        assert ask(building, "timelegend")[1]["total_ns"] == "0", "sums are those of what is complete"
        status, refused = ask(building, "timestack", row=0, time=5)
        assert (status, "still being indexed" in refused["error"]) == (422, True)
        slow.may_go_on.set()
        whole = complete(building)
        assert (whole["n_rows"], whole["n_lines"], whole["pending"]) == (8, 8, [0] * 8)
        assert ask(building, "timelegend")[1]["total_ns"] == str(8 * 1_000 * 80)


def test_rows_that_are_not_complete_are_shown_by_what_was_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Building stops after the first rows until it may go on; what is not complete is marked, and is in no sum."""
    experiment, slow = slow_spans(6, 400)
    slow.may_go_on.set()
    is_waiting, may_finish = Event(), Event()
    finish = builder._Build._finish

    def finish_slowly(self: Any, lines: Any, n_steps: int, n_tracks: int) -> None:
        finish(self, lines, n_steps, n_tracks)
        if self._state.n_tracks_done == 2:
            is_waiting.set()
            assert may_finish.wait(HANG_SEC)

    monkeypatch.setattr(builder._Build, "_finish", finish_slowly)
    monkeypatch.setattr(builder, "COMMIT_SEC", -1.0)
    monkeypatch.setattr(builder, "BATCH", 500)
    with serving(made_input(experiment)) as building:
        ask(building, "timeline")
        assert is_waiting.wait(HANG_SEC)
        picture = ask(building, "timeline", rows=6)[1]
        assert not picture["progress"]["reading"]
        assert picture["n_lines"] == 2
        assert picture["pending"] == [0, 0, 1, 1, 1, 1]
        cells = np.array(picture["cell"]).reshape(6, picture["n_cells"])
        assert (cells[2:] > 0).any(axis=1).all()
        known = {"lines": picture["n_lines"]}
        assert ask(building, "timelegend", **known)[1]["total_ns"] == str(2 * 400 * 80)
        assert ask(building, "timelegend", top=2, **known)[1]["total_ns"] == "0"
        assert ask(building, "timestack", row=1, time=5, **known)[1]["text"] == ["a"]
        assert ask(building, "timestack", row=4, time=5, **known)[0] == 422
        merged = ask(building, "timeline", rows=2)[1]
        assert merged["pending"] == [0, 1], "a row with anything complete shows that"
        may_finish.set()
        whole = complete(building)
        assert (whole["n_lines"], whole["pending"]) == (6, [0] * 6)
        later = ask(building, "timelegend", top=4, **known)[1]
        assert later["total_ns"] == "0", "a page that knew two lines asks about those rows that it has"


def test_it_answers_while_the_index_is_built(tmp_path: Path) -> None:
    """The thread that builds opens the files again, here when it may; somebody else works with the input meanwhile."""
    path = tmp_path / "made.callgrove"
    write(spans_of(20, 400), path, to_format="callgrove")
    may_build, n_opened = Event(), 0

    def open_slowly(progress: object) -> Experiment:
        nonlocal n_opened
        n_opened += 1
        if n_opened > 1:
            assert may_build.wait(HANG_SEC)
        opened = open_path(str(path))
        assert isinstance(opened, Experiment)
        return opened

    one = Input(Wanted((str(path),), open_slowly))
    with serving(one) as building:
        ask(building, "timeline")
        with one.lock:  # held by whoever computes something else
            status, picture = ask(building, "timeline")
        assert status == 200
        assert not picture["progress"]["complete"]
        assert picture["bounds"] == [0]
        assert ask(building, "timelegend")[1]["total_ns"] == "0"
        may_build.set()
        assert complete(building)["n_lines"] == 20
    assert n_opened == 2


def test_two_viewers_share_an_index(tmp_path: Path) -> None:
    path = tmp_path / "made.callgrove"
    write(spans_of(20, 400), path, to_format="callgrove")
    inputs = [Input(Wanted((str(path),), lambda progress: open_path(str(path)))) for _ in range(2)]
    with serving(inputs[0]) as first, serving(inputs[1]) as second:
        with ThreadPoolExecutor(2) as pool:
            pictures = list(pool.map(complete, (first, second)))
        assert pictures[0] == pictures[1]
    complete_ones = [one for one in (tmp_path / "cache" / "timelines").iterdir() if one.is_dir()]
    assert len(complete_ones) == 1


@pytest.mark.parametrize("how", ["replaced", "removed", "grown"])
def test_a_file_that_changes_is_named(tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "made.cubex"
    write(example(), path)
    one = path_input(path)
    monkeypatch.setattr("callgrove.viewer.server.inputs.LOOK_AGAIN_S", 0.0)
    with serving(one) as changed:
        assert ask(changed, "timeline")[0] == 200
        if how == "replaced":
            other = tmp_path / "other"
            other.write_bytes(path.read_bytes())
            other.replace(path)
        elif how == "removed":
            path.unlink()
        else:
            path.write_bytes(path.read_bytes() + b"more")
        status, answer = ask(changed, "timelegend")
        assert status == 409
        assert "since it was opened" in answer["error"] or "still being written" in answer["error"]


# -- what nobody should ask --------------------------------------------------------------------------------------------

REQUESTS = (
    *("timeline", "timelegend", "timedurations", "timecurves", "timestack", "timefind", "timespan", "timelinks"),
)


@pytest.mark.parametrize("request_name", REQUESTS)
@pytest.mark.parametrize(
    "given",
    [
        {"from": "-1"},
        {"from": "9" * 19, "to": "1"},
        {"from": "10", "to": "10"},
        {"to": "1e3"},
        {"to": "٣"},
        {"depth": "65"},
        {"depth": "-1"},
        {"lines": "x"},
        {"top": "-5"},
        {"width": "0"},
        {"rows": "99999"},
        {"row": "99999999", "time": "0"},
        {"span": "99999999", "profile": "0", "time": "0"},
        {"text": "/(/"},
        {"strange": "1"},
        {"window": "10%:20%"},
    ],
)
def test_what_makes_no_sense_is_refused(viewer: Viewer, request_name: str, given: dict[str, str]) -> None:
    status, answer = ask(viewer, request_name, input=1, **given)
    assert status in (400, 422) or (status == 200 and given.keys() <= {"lines", "top"}), answer
    if status != 200:
        assert answer["error"]


def test_hundreds_of_pictures_at_once(viewer: Viewer) -> None:
    with ThreadPoolExecutor(100) as pool:
        pictures = list(pool.map(lambda k: ask(viewer, "timeline", input=2, width=50 + k, rows=20), range(100)))
    assert {status for status, _ in pictures} == {200}


def test_an_index_that_is_closed_while_it_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer is that of one index: of the next one, where others were asked for since; else it is refused."""
    with serving(made_input(gpu_example())) as closing:
        expected = complete(closing)
        looks = closing.inputs[0].looks
        assert looks is not None
        assert looks.timelines is not None
        read, n_left = TimelineIndex.spans_in, 1

        def read_and_close(index: TimelineIndex, *asked: Any) -> SpanRows:
            nonlocal n_left
            spans = read(index, *asked)
            if n_left:
                n_left -= 1
                assert looks is not None
                assert looks.timelines is not None
                looks.timelines.close()
            return spans

        monkeypatch.setattr(TimelineIndex, "spans_in", read_and_close)
        while (asked := ask(closing, "timeline"))[0] == 200 and not asked[1]["progress"]["complete"]:
            pass
        assert asked == (200, expected)
        assert not n_left


def test_an_index_that_changes_again_and_again_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    read = TimelineIndex.spans_in

    def lose(index: TimelineIndex, *asked: Any) -> SpanRows:
        index.n_lost += 1
        return read(index, *asked)

    with serving(made_input(gpu_example())) as changing:
        complete(changing)
        monkeypatch.setattr(TimelineIndex, "spans_in", lose)
        status, refused = ask(changing, "timeline")
    assert status == 409
    assert "ask again" in refused["error"]


def traced_memory() -> int:
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


def test_random_clicking_takes_no_memory() -> None:
    """What is kept is bounded, so that memory settles; by hand, `python -m tests.viewer.soak` clicks for hours."""
    with serving(made_input(example())) as viewer:
        clicking = Clicking(viewer)
        clicking.begin()
        tracemalloc.start()
        try:
            clicking.run(250)
            before = traced_memory()
            clicking.run(250)
            grown = traced_memory() - before
        finally:
            tracemalloc.stop()
    assert set(clicking.statuses) <= {200, 400, 422}, clicking.statuses
    assert clicking.statuses[200] > 250
    assert grown < 12e6, f"{grown / 1e6:.1f} MB more after 250 further requests"
