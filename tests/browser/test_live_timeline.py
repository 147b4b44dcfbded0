"""The timeline of `callgrove view` as a reader meets it: zoomed, merged, a range and a moment of it, linked to."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import FloatRect, Locator, Page, Route, expect

from bench.gpu_databases import GpuShape, make_gpu_database
from callgrove.analysis.timeline.statistics import Question, measure
from callgrove.cli.main import main
from callgrove.examples import example, gpu_example
from callgrove.model.experiment import Experiment
from callgrove.model.traces.events import Window
from tests.browser.conftest import OpenView, Screenshot
from tests.browser.made import EVIL, counted, slow_spans, spans_of
from tests.browser.reading import downloaded, open_tab, shown_panel, tooltip, wait_for_picture
from tests.viewer.serving import made_input, path_input

GUTTER, AXIS = 200, 26


def drawn(page: Page) -> Locator:
    """The picture of the timeline, once it is there with its legend."""
    open_tab(page, "Timeline")
    expect(shown_panel(page).locator(".legend .key").first).to_be_visible()
    wait_for_picture(page)
    return shown_panel(page).locator("canvas")


def box_of(canvas: Locator) -> FloatRect:
    box = canvas.bounding_box()
    assert box is not None
    return box


def at(canvas: Locator, share: float, y: float) -> tuple[float, float]:
    """A place of the picture: a share of its time, and pixels below its axis."""
    box = box_of(canvas)
    return box["x"] + GUTTER + share * (box["width"] - GUTTER), box["y"] + AXIS + y


def drag(page: Page, canvas: Locator, first: float, last: float) -> None:
    page.mouse.move(*at(canvas, first, 8))
    page.mouse.down()
    page.mouse.move(*at(canvas, last, 8), steps=4)
    page.mouse.up()


def in_address(page: Page, name: str) -> tuple[int, int]:
    """A pair of numbers in the address, once it is there."""
    expect(page).to_have_url(re.compile(rf"[#&]{name}=\d+-\d+"))
    pair = re.search(rf"[#&]{name}=(\d+)-(\d+)", page.url)
    assert pair is not None
    return int(pair[1]), int(pair[2])


def times_of(experiment: Experiment, window: Window) -> dict[tuple[str, str], int]:
    """What `timeline --exclusive --by name --by kind` has of a window."""
    table = measure(experiment, Question(window, ("name", "kind"), exclusive=True)).table()
    columns = (table.column(name).plain() for name in ("name", "kind", "time_ns"))
    return {(name, kind): ns for name, kind, ns in zip(*columns, strict=True) if kind and ns}


@pytest.mark.parametrize("made", [example, gpu_example])
def test_a_range_has_the_numbers_of_timeline(made: type, open_view: OpenView, tmp_path: Path) -> None:
    experiment = made()
    page = open_view(made_input(experiment))
    canvas = drawn(page)
    drag(page, canvas, 0.3, 0.55)
    pane = page.get_by_label("Range", exact=True).first
    expect(pane.get_by_role("grid")).to_be_visible()
    begin, end = in_address(page, "range")
    origin = int(re.search(r"origin=(\d+)", page.url)[1])  # type: ignore[index]
    saved = downloaded(page, pane.get_by_role("button", name="CSV"), tmp_path)
    with saved.open() as file:
        seen = {(row["name"], row["kind"]): int(row["time_ns"]) for row in csv.DictReader(file)}
    assert seen == times_of(experiment, (origin + begin, origin + end))
    assert len(seen) > 4


def test_what_else_a_range_has(open_view: OpenView, tmp_path: Path) -> None:
    experiment = gpu_example()
    page = open_view(made_input(experiment))
    canvas = drawn(page)
    drag(page, canvas, 0.3, 0.55)
    begin, end = in_address(page, "range")
    page.get_by_role("radio", name="Durations").click()
    pane = page.get_by_label("Range", exact=True).first
    expect(pane.get_by_role("status")).to_contain_text("spans begin here")
    saved = downloaded(page, pane.get_by_role("button", name="CSV"), tmp_path)
    (chunk,) = experiment.traces.spans(("start_ns", "end_ns"))
    origin = int(chunk["start_ns"].min())
    inside = (chunk["start_ns"] >= origin + begin) & (chunk["start_ns"] < origin + end)
    with saved.open() as file:
        rows = list(csv.DictReader(file))
    assert sum(int(row["count"]) for row in rows) == np.count_nonzero(inside)
    assert sum(int(row["total_ns"]) for row in rows) == (chunk["end_ns"] - chunk["start_ns"])[inside].sum()
    page.get_by_role("radio", name="Call tree").click()
    expect(pane.get_by_role("treegrid")).to_be_visible()
    expect(pane.get_by_role("status")).to_contain_text("gpu_time")
    canvas.focus()
    page.keyboard.press("Enter")
    assert in_address(page, "time") == (begin, end), "Enter shows the range alone"


def test_links_lead_back(open_view: OpenView) -> None:
    page = open_view(made_input(gpu_example(), "my runs/train.db"))
    canvas = drawn(page)
    status = page.locator(".timeline-status")
    expect(status).to_have_text("1.77 ms from 0 s")
    canvas.focus()
    for key in "wwd":
        page.keyboard.press(key)
    expect(status).to_contain_text(re.compile("44[23] us from"))
    window = in_address(page, "time")
    seen = status.inner_text()
    page.wait_for_timeout(800)  # what follows sooner is part of one step
    page.keyboard.press("Escape")
    expect(status).to_have_text("1.77 ms from 0 s")
    expect(page).not_to_have_url(re.compile("time="))
    page.go_back()
    expect(status).to_have_text(seen)
    page.go_forward()
    expect(status).to_have_text("1.77 ms from 0 s")
    page.go_back()
    in_address(page, "time")
    page.reload()
    page.wait_for_selector("html[data-ready]", state="attached")
    expect(status).to_have_text(seen)
    page.get_by_role("button", name="Command").click()
    origin = 10_000
    expected = f"--exclusive --by name --by kind --window @{origin + window[0]}:@{origin + window[1]}"
    remark = "# the page counts operations that overlap on a stream in full"
    expect(page.locator(".lookbar code")).to_have_text(f"callgrove timeline 'my runs/train.db' {expected} {remark}")


def test_the_command_prints_what_is_seen(
    open_view: OpenView, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever the options are called, the verb takes them."""
    from callgrove.formats.writing.transfer import write

    path = tmp_path / "stencil.d"
    write(example(), path)
    page = open_view(made_input(example(), str(path)))
    canvas = drawn(page)
    drag(page, canvas, 0.2, 0.4)
    in_address(page, "range")
    page.get_by_role("button", name="Command").click()
    words = page.locator(".lookbar code").inner_text().split()
    assert main([*words[1:], "--format", "csv"]) == 0
    printed = list(csv.DictReader(capsys.readouterr().out.splitlines()))
    pane = page.get_by_label("Range", exact=True).first
    saved = downloaded(page, pane.get_by_role("button", name="CSV"), tmp_path)
    with saved.open() as file:
        seen = {(row["name"], row["time_ns"]) for row in csv.DictReader(file)}
    assert seen <= {(row["name"], row["time_ns"]) for row in printed}


def test_many_rows_fit_and_tell_exact_shares(open_view: OpenView, screenshot: Screenshot) -> None:
    """1,500 rows of spans: `a` for 80 ns, then nothing, then `b`; merged rows are those of neighbours."""
    made = spans_of(1_500, 200)
    page = open_view(made_input(made))
    canvas = drawn(page)
    status = page.locator(".timeline-status")
    expect(status).to_contain_text("1,500 rows, up to")
    page.mouse.move(*at(canvas, 0.5, 100))
    expect(page.locator(".tooltip:not([hidden])")).to_be_visible()
    seen = tooltip(page)
    assert "more" in seen["where"]
    shares = {text: word for word, text in seen.items() if text in ("a", "b")}
    first, last = (float(text.removesuffix(" us")) for text in seen["time"].split(" to "))
    assert set(shares) == {"a", "b"}
    assert sum(float(share.removesuffix("%")) for share in shares.values()) == pytest.approx(80, abs=12), (first, last)
    screenshot(page, "live-many-rows")
    page.keyboard.press("Tab")
    canvas.focus()
    for _ in range(6):
        page.keyboard.press("Shift+W")
    expect(status).to_contain_text("of 1,500 rows")
    in_address(page, "rows")


def test_a_moment_has_its_stack_and_leads_to_the_tree(open_view: OpenView, screenshot: Screenshot) -> None:
    page = open_view(made_input(example()))
    canvas = drawn(page)
    page.mouse.click(*at(canvas, 0.4, 8))
    pane = page.get_by_label("Call stack")
    expect(pane.get_by_role("heading")).to_contain_text("rank 0 thread 0 at")
    names = pane.locator("li button").all_inner_texts()
    assert names[:2] == ["main thread", "main"]
    screenshot(page, "live-moment")
    pane.get_by_role("button", name="Show in call tree").click()
    expect(page.get_by_role("tab", name="Explore")).to_have_attribute("aria-selected", "true")
    chosen = shown_panel(page).locator(".row.found")
    expect(chosen).to_be_visible()
    row = chosen.locator(".cell-text").first.inner_text()
    assert row in names
    expect(page.get_by_label("System").get_by_role("heading")).to_have_text(row)


def test_spans_tell_what_launched_them(open_view: OpenView, screenshot: Screenshot) -> None:
    page = open_view(made_input(gpu_example()))
    canvas = drawn(page)
    page.mouse.move(*at(canvas, 0.05, 55))
    expect(page.locator(".tooltip:not([hidden])")).to_be_visible()
    assert tooltip(page)["kind"] == "kernel"
    page.mouse.click(*at(canvas, 0.05, 55))
    pane = page.get_by_label("Call stack")
    expect(pane.locator("dt", has_text="launched by")).to_be_visible()
    pane.get_by_role("button", name="hipLaunchKernel").click()
    expect(pane.get_by_role("heading")).to_contain_text("rank 0 main at")
    page.get_by_label("Launches").check()
    wait_for_picture(page)
    screenshot(page, "live-launches")


def test_search_and_depth(open_view: OpenView) -> None:
    page = open_view(made_input(gpu_example()))
    canvas = drawn(page)
    status = page.locator(".timeline-status")
    page.get_by_role("searchbox").fill("gemm")
    total = sum(ns for _, ns in times_of(gpu_example(), (0, 10**9)).items())
    gemm = sum(ns for (name, _), ns in times_of(gpu_example(), (0, 10**9)).items() if "gemm" in name)
    expect(status).to_contain_text(f"{100 * gemm / total:.1f}% of the time in sight")
    page.get_by_role("searchbox").press("Enter")
    expect(page.get_by_label("Call stack").get_by_role("heading")).to_contain_text("gpu 0 compute at")
    page.get_by_role("searchbox").press("Escape")
    slider = page.get_by_label("Depth")
    slider.focus()
    page.keyboard.press("Home")
    expect(slider).to_have_attribute("aria-valuetext", "1")
    expect(page.locator(".legend .key", has_text="step 0")).to_be_visible()
    expect(page.locator(".legend .key", has_text="hipLaunchKernel")).to_have_count(0)
    expect(page).to_have_url(re.compile("depth=1"))
    canvas.focus()


@pytest.mark.parametrize("dark", [False, True])
def test_the_keyboard_does_everything(open_view: OpenView, screenshot: Screenshot, dark: bool) -> None:
    page = open_view(made_input(gpu_example()), dark=dark)
    canvas = drawn(page)
    canvas.focus()
    page.keyboard.press("ArrowDown")
    expect(page.get_by_label("Call stack").get_by_role("heading")).to_contain_text("rank 0 gpu 0 compute at")
    for _ in range(6):
        page.keyboard.press("Shift+ArrowRight")
    begin, end = in_address(page, "range")
    assert end - begin == pytest.approx(1_770_000 * 6 / 40, abs=10)
    screenshot(page, f"live-keyboard{'-dark' if dark else ''}")
    for _ in range(2):
        page.keyboard.press("Escape")
    expect(page.get_by_label("Call stack")).to_be_hidden()
    expect(page.get_by_label("Range", exact=True).first).to_be_hidden()


def test_what_was_read_is_seen_while_the_rest_is(open_view: OpenView, screenshot: Screenshot) -> None:
    """It is marked, and nothing can be asked of it; what is complete takes its place by itself."""
    experiment, slow = slow_spans(8, 1_000, begins=False)
    page = open_view(made_input(experiment))
    open_tab(page, "Timeline")
    building, status = page.locator(".building"), page.locator(".timeline-status")
    expect(building).to_contain_text("Reading the trace")
    expect(page.locator(".live-timeline canvas")).to_be_visible()
    assert status.inner_text() == "", "no time is known before anything was read"
    slow.may_begin.set()
    expect(building).to_contain_text("Reading: 4,000 of 8,000 events; pale rows are preliminary")
    expect(building.locator("progress")).to_have_js_property("value", 0.25)
    expect(status).to_contain_text("100 us from 0 s")
    page.locator(".live-timeline canvas").focus()
    page.keyboard.press("w")
    screenshot(page, "live-reading")
    expect(status).to_contain_text("100 us from 0 s")
    slow.may_go_on.set()
    expect(building).to_be_hidden()
    expect(shown_panel(page).locator(".legend .key").first).to_be_visible()
    page.keyboard.press("w")
    expect(status).to_contain_text("50.0 us from 25.0 us")
    expect(page.locator(".live-timeline")).to_have_attribute("data-current", "true")


def test_moving_shows_what_is_there_until_the_answer_comes(open_view: OpenView) -> None:
    """The server does not answer; the picture moves nevertheless, and is exact once it does."""
    page = open_view(made_input(spans_of(120, 400)))
    canvas = drawn(page)
    frame = page.locator(".live-timeline")
    expect(frame).to_have_attribute("data-current", "true")
    asked: list[Route] = []

    def hold_first(route: Route) -> None:
        asked.append(route)
        if len(asked) > 1:
            route.continue_()

    page.route("**/api/timeline?*", hold_first)
    canvas.focus()
    before = canvas.screenshot()
    page.keyboard.press("w")
    expect(frame).to_have_attribute("data-current", "false")
    assert canvas.screenshot() != before
    for key in "dda":
        page.keyboard.press(key)
    expect(page.locator(".timeline-status")).to_contain_text("20.0 us from 15.0 us")
    assert len(asked) == 1, "the next is asked for when the first has come"
    with page.expect_response(lambda answer: "/timeline?" in answer.url and "from=1499" in answer.url):
        asked[0].continue_()
    expect(frame).to_have_attribute("data-current", "true")


# -- counters ----------------------------------------------------------------------------------------------------------

CURVE = 34
LINE = """(canvas, [x, top, bottom]) => {
    const probe = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
    probe.fillStyle = getComputedStyle(document.documentElement).getPropertyValue('--accent').trim();
    probe.fillRect(0, 0, 1, 1);
    const [red, green, blue] = probe.getImageData(0, 0, 1, 1).data;
    probe.clearRect(0, 0, 1, 1);
    probe.drawImage(canvas, x, top, 1, bottom - top, 0, 0, 1, bottom - top);
    const pixels = probe.getImageData(0, 0, 1, bottom - top).data;
    const off = (i) => Math.abs(pixels[i] - red) + Math.abs(pixels[i + 1] - green) + Math.abs(pixels[i + 2] - blue);
    return Array.from({ length: bottom - top }, (_, y) => y).filter((y) => pixels[4 * y + 3] && off(4 * y) < 60);
}"""


def height_of_line(canvas: Locator, share: float, top: float) -> float:
    """How far below the top of a curve its line is drawn, in pixels."""
    box = box_of(canvas)
    x = round(GUTTER + share * (box["width"] - GUTTER))
    seen: list[int] = canvas.evaluate(LINE, [x, round(top), round(top) + CURVE])
    assert seen, "there is a line"
    return sum(seen) / len(seen)


def test_counters_are_curves_below_the_rows(open_view: OpenView, screenshot: Screenshot) -> None:
    """Also those of ranks without rows; a value holds until the next, and zooming leaves it at its time."""
    page = open_view(made_input(counted()))
    canvas = drawn(page)
    status = page.locator(".timeline-status")
    expect(status).to_contain_text("4 of 5 counters")
    wait_for_picture(page)
    box = box_of(canvas)
    frame = box_of(page.locator(".live-timeline"))
    assert box["y"] + box["height"] <= frame["y"] + frame["height"], "nothing is cut off"
    top = box["height"] - 4 * CURVE
    low, high = (height_of_line(canvas, share, top) for share in (0.25, 0.75))
    assert low - high == pytest.approx((CURVE - 8) * 6 / 8, abs=1.5)

    def told(share: float, curve: int) -> dict[str, str]:
        page.mouse.move(box["x"] + GUTTER + share * (box["width"] - GUTTER), box["y"] + top + (curve + 0.5) * CURVE)
        return tooltip(page)

    assert [told(share, 0)["value"] for share in (0.25, 0.75)] == ["2, measured before", "8, measured before"]
    assert (told(0.5, 1)["title"], told(0.5, 1)["where"]) == ("a", "rank 2 process")
    screenshot(page, "live-counters")
    canvas.focus()
    for key in "ww":
        with page.expect_response("**/api/timecurves?*"):
            page.keyboard.press(key)
    wait_for_picture(page)
    assert [told(share, 0)["value"] for share in (0.4, 0.6)] == ["2, measured before", "8, measured before"]
    assert [height_of_line(canvas, share, top) for share in (0.4, 0.6)] == pytest.approx([low, high], abs=1)
    page.get_by_label("Counters").uncheck()
    expect(status).not_to_contain_text("counters")


def test_a_hidden_timeline_asks_for_no_curves(open_view: OpenView) -> None:
    """Its width is not known then; what it did not ask for comes when it is seen again."""
    page = open_view(made_input(counted()))
    canvas = drawn(page)
    expect(page.locator(".timeline-status")).to_contain_text("4 of 5 counters")
    expect(page.locator(".building")).to_be_hidden()
    asked: list[str] = []
    held: list[Route] = []
    page.on("request", lambda request: asked.append(request.url))
    page.route("**/api/timeline?*", lambda route: held.append(route))
    with page.expect_request("**/api/timeline?*"):
        canvas.press("w")
    open_tab(page, "Overview")
    with page.expect_response("**/api/timelegend?*"):
        held[-1].continue_()
    wait_for_picture(page)
    assert not [url for url in asked if "/timecurves?" in url and "from=0&" not in url], "none of what is zoomed to"
    page.unroute("**/api/timeline?*")
    with page.expect_response("**/api/timecurves?*"):
        open_tab(page, "Timeline")
    widths = [int(width) for url in asked for width in re.findall(r"[?&]width=(-?\d+)", url)]
    assert min(widths) > 400


def test_script_in_names_stays_text(open_view: OpenView) -> None:
    page = open_view(made_input(spans_of(2, 10, (EVIL, "</script><script>alert(2)</script>"))))
    canvas = drawn(page)
    page.mouse.click(*at(canvas, 0.01, 5))
    expect(page.get_by_label("Call stack").locator("li button")).to_have_text(EVIL)
    drag(page, canvas, 0.1, 0.9)
    expect(page.get_by_label("Range", exact=True).first.locator(".row").first).to_contain_text("onerror")
    assert page.locator("img").count() == 0


def test_rows_of_streams_differ_in_what_is_shown_of_their_names(open_view: OpenView, tmp_path: Path) -> None:
    page = open_view(path_input(make_gpu_database(tmp_path / "gpu.db", GpuShape(n_events=20000))))
    drawn(page)
    saved = downloaded(page, shown_panel(page).get_by_role("button", name="SVG"), tmp_path).read_text("utf-8")
    assert "gpu 0 Stream 0 lane 1<" in saved
    assert "gpu 1 Stream 3 lane 1<" in saved
