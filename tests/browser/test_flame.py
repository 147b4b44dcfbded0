"""The flame graph as a reader meets it: zoomed, searched, coloured."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Page

from callgrove.analysis.costs import costs
from callgrove.analysis.views import top, top_down
from callgrove.examples import example
from callgrove.render.units import amount, percent
from tests.browser.conftest import OpenPage, Screenshot
from tests.browser.reading import box, downloaded, flame, open_tab, picked, shown_panel, tooltip, wait_for_picture


def test_hovering_tells_the_numbers_of_tree(stencil: Path, open_page: OpenPage) -> None:
    page = open_page(stencil)
    open_tab(page, "Flame graph")
    found = costs(example())
    table = top_down(found)
    names = table.column("name").plain()
    write = amount("sec")
    for share, level, name in ((0.01, 0, "main thread"), (0.01, 3, "solve"), (0.99, 1, "worker")):
        flame(page).hover(position=box(page, share, level))  # type: ignore[arg-type]
        row = names.index(name)
        inclusive, exclusive = table.column("inclusive").values[row], table.column("exclusive").values[row]
        told = tooltip(page)
        assert told["title"] == name
        assert told["inclusive"] == f"{write(inclusive)} ({percent(inclusive / found.total)})"
        assert told["exclusive"] == f"{write(exclusive)} ({percent(exclusive / found.total)})"
        assert told["context"] == str(table.column("context").plain()[row])


def crumbs(page: Page) -> list[str]:
    return page.locator(".crumbs button").all_inner_texts()


def test_zooming_with_the_mouse(stencil: Path, open_page: OpenPage, screenshot: Screenshot) -> None:
    page = open_page(stencil)
    open_tab(page, "Flame graph")
    flame(page).click(position=box(page, 0.99, 1))  # type: ignore[arg-type]
    assert crumbs(page) == ["everything", "application thread", "worker"]
    flame(page).hover(position=box(page, 0.01, 1))  # type: ignore[arg-type]
    assert tooltip(page)["title"] == "worker", "it fills the width"
    screenshot(page, "stencil-flame-zoomed")
    page.get_by_role("button", name="application thread").click()
    assert crumbs(page) == ["everything", "application thread"]
    page.get_by_role("button", name="Reset zoom").click()
    assert crumbs(page) == ["everything"]
    flame(page).hover(position=box(page, 0.64, 0))  # type: ignore[arg-type]
    assert tooltip(page)["title"] == "main thread"
    for _ in range(8):
        page.mouse.wheel(0, -100)
    wait_for_picture(page)
    flame(page).hover(position=box(page, 0.99, 0))  # type: ignore[arg-type]
    assert tooltip(page)["title"] == "application thread", "its edge stays near the pointer"
    flame(page).hover(position=box(page, 0.3, 0))  # type: ignore[arg-type]
    assert tooltip(page)["title"] == "main thread"


def test_zooming_with_the_keyboard(stencil: Path, open_page: OpenPage) -> None:
    page = open_page(stencil)
    page.keyboard.press("2")
    assert page.get_by_role("tab", selected=True).inner_text() == "Flame graph"
    flame(page).focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowDown", "ArrowRight"):
        page.keyboard.press(key)
    assert tooltip(page)["title"] == "init"
    page.keyboard.press("Enter")
    assert crumbs(page) == ["everything", "main thread", "main", "init"]
    page.keyboard.press("Backspace")
    assert crumbs(page)[-1] == "main"
    page.keyboard.press("Escape")
    assert crumbs(page) == ["everything"]
    page.get_by_role("radio", name="Roots at top").focus()
    page.keyboard.press("ArrowRight")
    assert page.get_by_role("radio", name="Roots at bottom").get_attribute("aria-checked") == "true"
    area = flame(page).bounding_box()
    assert area is not None
    page.mouse.move(area["x"] + 5, area["y"] + area["height"] - 8)
    assert tooltip(page)["title"] == "main thread"


def test_searching_tells_the_share(stencil: Path, open_page: OpenPage, screenshot: Screenshot) -> None:
    page = open_page(stencil)
    open_tab(page, "Flame graph")
    page.keyboard.press("/")
    page.keyboard.type("mpi_")
    found = costs(example())
    table = top(found)
    rows_ = zip(table.column("name").plain(), table.column("inclusive").plain(), strict=True)
    cost = sum(inclusive for name, inclusive in rows_ if name.startswith("MPI_"))
    said = page.locator(".match").first.inner_text()
    assert said == f"“mpi_”: {percent(cost / found.total)} of CPUTIME (sec) ({amount('sec')(cost)}) in 3 calls"
    screenshot(page, "stencil-flame-search")
    page.locator("input[type=search]").fill("/^kern|^solve$/")
    wait_for_picture(page)
    solve_and_worker = {"solve": 1, "kernel": 2}
    assert f"in {sum(solve_and_worker.values())} calls" in page.locator(".match").first.inner_text()
    open_tab(page, "Call tree")
    assert page.locator(".row.found").count() == 3
    page.locator("input[type=search]").press("Escape")
    assert page.locator(".row.found").count() == 0


def test_a_hot_function_is_found_in_the_flame_graph(stencil: Path, open_page: OpenPage) -> None:
    page = open_page(stencil)
    page.locator("canvas[aria-label^=Functions]").click(position={"x": 20, "y": 2 * 23 + 10})  # the third bar
    assert page.get_by_role("tab", selected=True).inner_text() == "Flame graph"
    assert page.locator("input[type=search]").input_value() == "MPI_Waitall"
    assert "in 1 call" in page.locator(".match").first.inner_text()


def test_colours_have_a_legend(stencil: Path, open_page: OpenPage, screenshot: Screenshot, tmp_path: Path) -> None:
    page = open_page(stencil)
    open_tab(page, "Flame graph")
    assert page.locator(".legend").is_hidden()
    for by in ("module", "kind", "exclusive cost", "inclusive cost"):
        picked(page, "Colour by", by)
        assert page.locator(".legend .swatch").count() >= 3
        screenshot(page, f"stencil-flame-by-{by.replace(' ', '-')}")
        if by == "module":
            saved = downloaded(page, shown_panel(page).get_by_role("button", name="SVG"), tmp_path).read_text("utf-8")
            keys = page.locator(".legend .key").all_inner_texts()
            assert "main thread" not in keys
            for text in (*keys, f"inclusive CPUTIME (sec), {amount('sec')(costs(example()).total)} in total"):
                assert f">{text}</text>" in saved, "a saved picture explains itself"
            area = flame(page).bounding_box()
            assert area is not None
            assert float(ET.fromstring(saved).attrib["height"]) < area["height"], "without the room below it"


def test_a_metric_without_parts_is_not_passed_off_as_another(
    shared: Path, written: Callable[..., Path], open_page: OpenPage
) -> None:
    page = open_page(written(shared / "data" / "own" / "cube" / "mpi4" / "profile.cubex"))
    assert page.locator("h1").inner_text() == "mpi4/profile.cubex"
    open_tab(page, "Flame graph")
    picked(page, "Metric", "min_time")
    assert page.locator(".match").first.inner_text() == "min_time has no parts that add up: this is time"
    picked(page, "Metric", "time")
    assert page.locator(".match").first.inner_text() == ""
