"""Reports as a reader meets them: opened from disk, without a network."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page

from callgrove.algebra.cutting import part
from callgrove.analysis.costs import costs
from callgrove.analysis.views import top
from callgrove.examples import example, gpu_example, study_example
from callgrove.model.metrics import Scope
from callgrove.render.units import amount, duration_ns, percent
from callgrove.viewer.page import bundle, modules
from callgrove.viewer.report import Input, report
from tests.browser.commands import printed
from tests.browser.conftest import OpenPage, Screenshot
from tests.browser.reading import box, flame, open_tab, picked, rows, shown_panel, tooltip
from tests.formats.gpu.gpu_databases import Run, write_rocpd
from tests.formats.samples import CORPUS


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_every_view_is_drawn(stencil: Path, open_page: OpenPage, screenshot: Screenshot, dark: bool) -> None:
    page = open_page(stencil, dark=dark)
    tabs = page.get_by_role("tab").all_inner_texts()
    assert tabs[:4] == ["Overview", "Flame graph", "Call tree", "Spread"]
    for name in tabs:
        open_tab(page, name)
        screenshot(page, f"stencil-{name.lower().replace(' ', '-')}-{'dark' if dark else 'light'}")
        sizes = page.evaluate("() => [document.documentElement.scrollWidth, document.documentElement.scrollHeight]")
        assert sizes == [1280, 720], "nothing may stick out"
        assert shown_panel(page).locator("canvas, .table, table").count() >= 1


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_every_view_of_a_comparison_is_drawn(
    tmp_path: Path, open_page: OpenPage, screenshot: Screenshot, dark: bool
) -> None:
    path = tmp_path / "comparison.html"
    part(example(), ranks=[0]).compare(part(example(), ranks=[3])).report(path)
    page = open_page(path, dark=dark)
    tabs = page.get_by_role("tab").all_inner_texts()
    assert tabs == ["Overview", "Flame graph", "Call tree", "Timelines"]
    for name in tabs:
        open_tab(page, name)
        screenshot(page, f"comparison-{name.lower().replace(' ', '-')}-{'dark' if dark else 'light'}")
        sizes = page.evaluate("() => [document.documentElement.scrollWidth, document.documentElement.scrollHeight]")
        assert sizes == [1280, 720], "nothing may stick out"
        assert shown_panel(page).locator("canvas, .table").count() >= 1


def test_the_overview_says_what_it_is_and_where_the_time_goes(stencil: Path, open_page: OpenPage) -> None:
    page = open_page(stencil)
    found = costs(example())
    per_profile = example().matrix("CPUTIME (sec)", Scope.EXCLUSIVE).sum(axis=0)
    hottest = top(found)
    share = hottest.column("exclusive").plain()[0] / found.total
    tiles = page.locator(".tile").all_inner_texts()
    assert [tile.split("\n")[0] for tile in tiles] == [
        amount("sec")(found.total),
        percent(share),
        f"+{percent(per_profile.max() / per_profile.mean() - 1)}",
    ]
    assert f"in {hottest.column('name').plain()[0]}" in tiles[1]
    hot = page.get_by_label("Hot path")
    hot.focus()
    page.keyboard.press("ArrowDown")
    assert tooltip(page)["title"] == "main thread"
    page.keyboard.press("Enter")
    assert page.get_by_role("tab", selected=True).inner_text() == "Flame graph"
    page.get_by_role("tab", name="Overview").click()
    page.get_by_role("button", name="imbalance of profiles").click()
    assert page.get_by_role("tab", selected=True).inner_text() == "Spread"


def assert_like_top(page: Page, path: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    """The flat table begins with what `top` prints, in its words."""
    expected = printed(capsys, "top", path, "--limit", "15")
    facts = dict(
        zip(page.locator(".facts dt").all_inner_texts(), page.locator(".facts dd").all_inner_texts(), strict=True)
    )
    assert facts["format"].startswith(name)
    open_tab(page, "Call tree")
    page.get_by_role("radio", name="Flat").click()
    shown = rows(page)
    unit = printed(capsys, "info", path, "--metrics")
    units = {row["name"]: row["unit"] or "" for row in unit}
    selector = page.locator(".tabbar .choice select")
    metric = selector.input_value() if selector.count() else page.locator(".only-metric").inner_text()
    write = amount(units[metric])
    assert len(shown) >= min(len(expected), 3)
    for row, cells in zip(expected, shown, strict=False):
        assert cells[0].split("/")[-1] == row["name"].split("/")[-1]
        assert cells[1:4] == [write(row["inclusive"]), write(row["exclusive"]), percent(row["percent"] / 100)]


@pytest.mark.parametrize("path", ["release/mpi4.d", "prerelease/pth4.d", "legacy"], ids=str)
def test_hpctoolkit_databases(
    path: str, written: Callable[..., Path], open_page: OpenPage, capsys: pytest.CaptureFixture[str]
) -> None:
    database = CORPUS / "hpctoolkit" / path
    if path == "legacy":
        database = sorted(database.iterdir())[0]
    page = open_page(written(database))
    assert_like_top(page, database, capsys, "hpctoolkit-")


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("hpctoolkit-release/gxx_s.d", "hpctoolkit-release"),
        ("hpctoolkit-prerelease/mpi4.d", "hpctoolkit-prerelease"),
        ("hpcrun-04.00/mpi4.m", "hpcrun"),
        ("cube/mpi4/profile.cubex", "cube"),
        ("rocpd/small/rank00000_results.db", "rocpd"),
        ("scaling/runs", "runs"),
    ],
    ids=["release", "prerelease", "hpcrun", "cube", "rocpd", "runs"],
)
def test_genuine_data_of_every_kind(
    path: str,
    name: str,
    shared: Path,
    written: Callable[..., Path],
    open_page: OpenPage,
    screenshot: Screenshot,
    capsys: pytest.CaptureFixture[str],
) -> None:
    database = shared / "data" / "own" / path
    page = open_page(written(database))
    for tab in page.get_by_role("tab").all_inner_texts():
        open_tab(page, tab)
        screenshot(page, f"{name}-{tab.lower().replace(' ', '-')}")
    open_tab(page, "Overview")
    assert_like_top(page, database, capsys, name)


def test_a_study_and_several_inputs(tmp_path: Path, open_page: OpenPage, screenshot: Screenshot) -> None:
    path = tmp_path / "several.html"
    inputs = [Input(example(), ["a.d"]), Input(study_example(), ["scaling.txt"]), Input(gpu_example(), ["t.db"])]
    path.write_text(report(inputs, title="three inputs"), encoding="utf-8")
    page = open_page(path)
    assert page.locator("h1").inner_text() == page.title() == "three inputs"
    assert "8 threads" in page.locator(".facts").inner_text()
    picked(page, "Input", "2: stencil")
    assert "25" in page.locator(".facts").inner_text()
    screenshot(page, "study-overview")


def test_the_metric_changes_every_view(stencil: Path, open_page: OpenPage) -> None:
    page = open_page(stencil)
    for tab in ("Overview", "Flame graph", "Call tree", "Spread"):
        open_tab(page, tab)
    picked(page, "Metric", "cycles")
    found = costs(example(), "cycles")
    write = amount("")
    open_tab(page, "Flame graph")
    flame(page).hover(position=box(page, 0.01, 0))  # type: ignore[arg-type]
    assert tooltip(page)["metric"] == "cycles"
    open_tab(page, "Call tree")
    assert rows(page)[0][1] == write(found.inclusive[0])
    open_tab(page, "Spread")
    per_profile = example().matrix("cycles", Scope.EXCLUSIVE).sum(axis=0)
    facts = page.locator(".statistics .fact").all_inner_texts()
    assert [fact.split("\n") for fact in facts][2] == ["max", write(per_profile.max())]


def test_a_metric_is_chosen_where_it_is_shown(
    tmp_path: Path, written: Callable[..., Path], open_page: OpenPage, screenshot: Screenshot
) -> None:
    """A timeline, efficiencies and the tables of a GPU are the same whichever metric is chosen."""
    page = open_page(written(write_rocpd(tmp_path / "run.db", [Run.random(1).without("memset")])))
    tabs = page.get_by_role("tab").all_inner_texts()
    assert {"Timeline", "GPU"} < set(tabs)
    chooser = page.locator(".tabbar label.choice")
    for name in (*tabs, tabs[0]):
        open_tab(page, name)
        screenshot(page, f"metric-{name.lower().replace(' ', '-')}")
        assert chooser.is_visible() == (name not in ("Efficiency", "Timeline", "GPU"))


def test_numbers_are_written_as_on_the_command_line(browser: Any) -> None:
    numbers = [0, 1, -1, 0.5, 999.4, 999.6, 1000, 12345, 1e6, 123456789.0, 1e-9, 4.5e-5, 0.0451, 7e-14, 3.2e19, 99.95]
    shares = [0, 1e-9, 0.0004, 0.0005, 0.1234, 0.99949, 1, 1.5]
    units = ["", "sec", "ms", "ns", "bytes", "count"]
    script = bundle(modules(), "format.js")
    context = browser.new_context(offline=True)
    page = context.new_page()
    got = page.evaluate(
        f"(given) => {{ {script}; const [numbers, units, shares] = given;"
        "return [units.map(unit => numbers.map(format_js.amountOf(unit))), shares.map(format_js.percent),"
        " numbers.filter(number => number < 1e12).map(number => format_js.durationNs(number * 1e9))] }",
        [numbers, units, shares],
    )
    context.close()
    assert got[0] == [[amount(unit)(number) for number in numbers] for unit in units]
    assert got[1] == [percent(share) for share in shares]
    assert got[2] == [duration_ns(number * 1e9) for number in numbers if number < 1e12]


def luminance(colour: str) -> float:
    """Relative luminance as WCAG 2 defines it."""
    if colour.startswith("#"):
        parts = [int(colour[at : at + 2], 16) for at in (1, 3, 5)]
    else:
        parts = [int(part) for part in colour.removeprefix("rgb(").removesuffix(")").split(",")]
    linear = [c / 12.92 if (c := part / 255) <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_ink_can_be_read_on_every_colour(browser: Any) -> None:
    script = bundle(modules(), "colours.js")
    context = browser.new_context(offline=True)
    got = context.new_page().evaluate(
        f"() => {{ {script}; const {{ CATEGORIES, mixed, inkOn }} = colours_js;"
        "const fills = CATEGORIES.flatMap(one => [0, 0.12, 0.25, 0.4, 0.57]"
        ".flatMap(share => [mixed(one, '#ffffff', share), mixed(one, '#1a2027', share)]));"
        "return fills.map(fill => [fill, inkOn(fill)]) }"
    )
    context.close()
    for fill, ink in got:
        light, dark = sorted((luminance(fill), luminance(ink)), reverse=True)
        assert (light + 0.05) / (dark + 0.05) > 4.1, (fill, ink)
