"""The timeline as a reader meets it: zoomed, moved, searched, saved."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Locator, Page

from callgrove.cli.main import main
from callgrove.examples import example, gpu_example
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.contexts import ContextKind
from callgrove.model.experiment import Experiment
from callgrove.model.profiles import ProfileKind
from callgrove.model.traces.events import ArraySamples, ArraySpans, Samples, SpanKind
from callgrove.render.units import duration_ns
from callgrove.viewer.page import Limits
from callgrove.viewer.report import Input, report
from tests.browser.conftest import OpenPage
from tests.browser.genuine import genuine_page
from tests.browser.made import EVIL, spans_of
from tests.browser.reading import downloaded, open_tab, shown_panel, tooltip, wait_for_picture

GUTTER, AXIS = 200, 26  # pixels of the picture beside and above the rows


def page_of(tmp_path: Path, experiment: Experiment, limits: Limits | None = None) -> Path:
    path = tmp_path / "report.html"
    path.write_text(report([Input(experiment, ["made"])], limits=limits), encoding="utf-8")
    return path


def timeline(page: Page) -> Locator:
    open_tab(page, "Timeline")
    return shown_panel(page).locator("canvas")


def status(page: Page) -> str:
    wait_for_picture(page)
    return shown_panel(page).locator(".timeline-status").inner_text()


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("made", [example, gpu_example], ids=["samples", "spans"])
def test_traces_are_drawn(
    made: Callable[[], Experiment],
    dark: bool,
    tmp_path: Path,
    open_page: OpenPage,
    screenshot: Callable[[Page, str], None],
) -> None:
    page = open_page(page_of(tmp_path, made()), dark=dark)
    picture = timeline(page)
    assert " from 0 s" in status(page)
    screenshot(page, f"timeline-{made.__name__}-{'dark' if dark else 'light'}")
    ways = page.get_by_role("radio", name="Calls below each other")
    if ways.count():
        ways.click()
        screenshot(page, f"timeline-{made.__name__}-levels-{'dark' if dark else 'light'}")
        page.get_by_role("radio", name="One line per row").click()
    shades = picture.evaluate(
        "canvas => new Set(new Uint32Array(canvas.getContext('2d').getImageData(180, 30, 600, 300).data.buffer)).size"
    )
    assert shades > 3


def test_genuine_traces(
    shared: Path, tmp_path: Path, open_page: OpenPage, screenshot: Callable[[Page, str], None]
) -> None:
    for path in ("hpctoolkit-release/mpi4.d", "hpctoolkit-prerelease/gxx_s.d", "rocpd/small"):
        page = open_page(genuine_page(shared / "data" / "own" / path, tmp_path))
        timeline(page)
        screenshot(page, f"timeline-{path.replace('/', '-')}")
        assert "from 0 s" in status(page)


def test_a_search_counts_what_the_summary_counts(
    shared: Path, tmp_path: Path, open_page: OpenPage, capsys: pytest.CaptureFixture[str]
) -> None:
    path = shared / "data" / "own" / "rocpd" / "small"
    page = open_page(genuine_page(path, tmp_path))
    timeline(page)
    capsys.readouterr()
    assert main(["summary", str(path), "--section", "kernels", "--format", "json"]) == 0
    rows: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    for row in rows[:3]:
        page.get_by_role("searchbox").fill(row["name"])
        assert f"{row['count']:,} boxes, {duration_ns(row['total_ns'])}" in status(page)


def test_a_box_says_what_it_is(tmp_path: Path, open_page: OpenPage) -> None:
    page = open_page(page_of(tmp_path, spans_of(2, 10)))
    picture = timeline(page)
    picture.focus()
    page.keyboard.press("ArrowRight")
    assert tooltip(page) == {
        "title": "a",
        "kind": "kernel",
        "where": "rank 0 process",
        "start": "0 s",
        "duration": "80.0 ns",
    }
    page.keyboard.press("ArrowRight")
    assert tooltip(page)["start"] == "100 ns"
    page.keyboard.press("ArrowDown")
    found = tooltip(page)
    assert (found["where"], found["start"], found["title"]) == ("rank 1 process", "100 ns", "b")
    box = picture.bounding_box()
    assert box is not None
    room = box["width"] - GUTTER
    page.mouse.move(box["x"] + GUTTER + room * 340 / 980, box["y"] + AXIS + 10)  # of 980 ns
    assert tooltip(page)["start"] == "300 ns"
    page.mouse.move(box["x"] + GUTTER + room * 390 / 980, box["y"] + AXIS + 10)
    assert page.locator(".tooltip").is_hidden()


def test_zooming_and_moving(tmp_path: Path, open_page: OpenPage) -> None:
    page = open_page(page_of(tmp_path, spans_of(2, 10)))
    picture = timeline(page)
    assert status(page) == "980 ns from 0 s"
    picture.focus()
    for key, expected in [
        ("+", "490 ns from 245 ns"),
        ("d", "490 ns from 367 ns"),
        ("Home", "490 ns from 0 s"),
        ("End", "490 ns from 490 ns"),
        ("-", "980 ns from 0 s"),
    ]:
        page.keyboard.press(key)
        assert status(page) == expected
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    assert status(page) == "104 ns from 0 s"  # 80 ns and a margin, as far as there is one
    page.keyboard.press("Escape")
    assert status(page) == "980 ns from 0 s"
    box = picture.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + GUTTER + (box["width"] - GUTTER) / 2, box["y"] + 100)
    page.mouse.wheel(0, -100)
    assert status(page) == "784 ns from 98.0 ns"
    page.mouse.down()
    page.mouse.move(box["x"] + GUTTER + 20, box["y"] + 100, steps=4)
    page.mouse.up()
    assert status(page) == "784 ns from 196 ns"
    page.get_by_role("button", name="Reset zoom").click()
    assert status(page) == "980 ns from 0 s"


def test_what_is_beyond_the_stored_detail_says_so(tmp_path: Path, open_page: OpenPage) -> None:
    page = open_page(page_of(tmp_path, spans_of(2, 20_000), Limits(events=3_000)))
    picture = timeline(page)
    assert "in steps of" in status(page)
    assert "40,000 events are shown in steps of" in shown_panel(page).locator(".notes").inner_text()
    picture.focus()
    for _ in range(9):
        page.keyboard.press("+")
    assert "no more detail is in this page: each step of" in status(page)
    page.keyboard.press("ArrowRight")
    assert "% of this time, the largest part" in tooltip(page)["share"]
    page.keyboard.press("Home")  # the beginning is there event by event
    assert "step" not in status(page)
    page.keyboard.press("ArrowRight")
    assert tooltip(page)["duration"] == "80.0 ns"


def test_a_thousand_rows_scroll(tmp_path: Path, open_page: OpenPage, screenshot: Callable[[Page, str], None]) -> None:
    page = open_page(page_of(tmp_path, spans_of(1_024, 20)))
    picture = timeline(page)
    assert status(page).endswith("1,024 rows, scroll for more")
    picture.focus()
    page.keyboard.press("PageDown")
    wait_for_picture(page)
    assert page.locator(".panel:not([hidden]) .flame-scroller").evaluate("e => e.scrollTop") > 100
    screenshot(page, "timeline-1024-rows")


def test_stacks_of_a_chosen_depth(tmp_path: Path, open_page: OpenPage) -> None:
    page = open_page(page_of(tmp_path, example()))
    timeline(page)
    legend = shown_panel(page).locator(".legend")
    innermost = legend.inner_text()
    page.locator("label.choice:visible", has_text="Depth").locator("select").select_option(label="1")
    wait_for_picture(page)
    assert legend.inner_text() != innermost
    assert "100.0%" in legend.inner_text() or len(legend.locator(".key").all()) > 1


@pytest.mark.parametrize(
    ("kind", "shares"), [(SpanKind.API, ["a 75.0%", "b 25.0%"]), (SpanKind.KERNEL, ["a 80.0%", "b 20.0%"])]
)
def test_calls_do_not_count_what_they_call_and_kernels_count_in_full(
    kind: SpanKind, shares: list[str], tmp_path: Path, open_page: OpenPage
) -> None:
    builder = ExperimentBuilder("made", title="made")
    builder.add_profile(ProfileKind.THREAD, [(2, 0, 0, 3)])
    columns = {name: np.full(2, -1) for name in ("category", "correlation", "context", "depth")}
    columns |= {"profile": np.zeros(2, int), "kind": np.full(2, int(kind)), "name": np.arange(2)}
    columns |= {"start_ns": np.array([0, 30]), "end_ns": np.array([100, 55])}
    builder.set_traces(None, ArraySpans(columns, ("a", "b")))
    page = open_page(page_of(tmp_path, builder.build()))
    timeline(page)
    assert shown_panel(page).locator(".legend .key").all_inner_texts() == shares


def test_the_legend_names_what_takes_the_time(tmp_path: Path, open_page: OpenPage) -> None:
    """Idle time has no strong colour; places lose their folders; a key of the keyboard searches a name."""
    builder = ExperimentBuilder("made", title="made")
    module = builder.module("/usr/lib/libc.so")
    regions = [
        builder.region(ContextKind.PLACEHOLDER, "<no activity>"),
        builder.region(ContextKind.INSTRUCTION, "", module=module, offset=16),
    ]
    for kind, region in zip((ContextKind.PLACEHOLDER, ContextKind.INSTRUCTION), regions, strict=True):
        builder.add_context(-1, kind, region)
    builder.add_profile(ProfileKind.THREAD, [(2, 0, 0, 3)])
    lines = (Samples(np.array([0, 90, 100]), np.array([0, 1, -1], np.int32)),)
    builder.set_traces(ArraySamples(np.zeros(1, np.int32), np.full(1, -1, np.int32), lines))
    page = open_page(page_of(tmp_path, builder.build()))
    timeline(page)
    legend = shown_panel(page).locator(".legend")
    assert legend.inner_text() == "libc.so+0x10 100.0%"
    legend.get_by_role("button").focus()
    page.keyboard.press("Enter")
    assert page.get_by_role("searchbox").input_value() == "/usr/lib/libc.so+0x10"


def test_names_stay_text(tmp_path: Path, open_page: OpenPage) -> None:
    page = open_page(page_of(tmp_path, spans_of(1, 4, (EVIL, "b\u202e"))))
    picture = timeline(page)
    assert EVIL in shown_panel(page).locator(".legend").inner_text()
    picture.focus()
    page.keyboard.press("ArrowRight")
    assert tooltip(page)["title"] == EVIL
    saved = downloaded(page, shown_panel(page).get_by_role("button", name="SVG"), tmp_path)
    texts = [element.text for element in ET.parse(saved).iter("{http://www.w3.org/2000/svg}text")]
    assert EVIL in texts
    assert page.locator("img").count() == 0
    png = downloaded(page, shown_panel(page).get_by_role("button", name="PNG"), tmp_path)
    assert png.read_bytes().startswith(b"\x89PNG")
