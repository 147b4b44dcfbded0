"""Panes of the viewer: flame graphs of functions, comparisons, SQL, topologies; links, files, keys; notebooks."""

from __future__ import annotations

import csv
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

import callgrove
from callgrove.analysis.costs import costs
from callgrove.analysis.views import bottom_up, top
from callgrove.cli.main import main
from callgrove.examples import example
from callgrove.formats.writing.transfer import write
from callgrove.model.experiment import Experiment
from callgrove.render.units import amount
from tests.browser.conftest import OpenView, Screenshot
from tests.browser.reading import box, downloaded, open_tab, picked, shown_panel, tooltip
from tests.requirements import ROOT, need_module
from tests.viewer.serving import made_input, path_input

METRIC = "CPUTIME (sec)"


def ready_again(page: Page) -> None:
    page.reload()
    page.wait_for_selector("html[data-ready]", state="attached")


def first_canvas(page: Page) -> Locator:
    return shown_panel(page).locator("canvas").first


def press(page: Page, *keys: str) -> None:
    """Press keys in the first picture."""
    first_canvas(page).focus()
    for key in keys:
        page.keyboard.press(key)


# -- flame graphs ------------------------------------------------------------------------------------------------------


def test_functions_with_their_callers(open_view: OpenView, screenshot: Screenshot) -> None:
    page = open_view(made_input(example()))
    open_tab(page, "Flame graph")
    page.get_by_role("radio", name="Bottom-up").click()
    expect(page).to_have_url(re.compile("shape=callers"))
    expect(page.get_by_role("radio", name="Bottom-up")).to_have_attribute("aria-checked", "true")
    table = bottom_up(costs(example()))
    names, exclusive = (table.column(name).plain() for name in ("name", "exclusive"))
    press(page, "ArrowDown")
    write_amount = amount("sec")
    for name, cost in zip(names[:2], exclusive[:2], strict=True):
        shown = tooltip(page)
        assert (shown["title"], shown["cost there"].split(" (")[0]) == (name, write_amount(cost))
        page.keyboard.press("ArrowDown")
    screenshot(page, "view-flame-callers")


def test_a_function_between_its_callers_and_calls(open_view: OpenView, screenshot: Screenshot) -> None:
    page = open_view(made_input(example()))
    open_tab(page, "Flame graph")
    first_canvas(page).click(position={"x": 300, "y": int(box(page, 0.3, 1)["y"])})
    called = page.locator(".crumbs button").last.inner_text()
    page.get_by_role("radio", name="Sandwich").click()
    expect(page.get_by_role("heading", name=f"Callers of {called}")).to_be_visible()
    expect(page.get_by_role("heading", name=f"What {called} calls")).to_be_visible()
    screenshot(page, "view-flame-sandwich")
    page.wait_for_timeout(800)  # what follows is a step of its own
    picked(page, "Function", "kernel")
    expect(page.get_by_role("heading", name="Callers of kernel")).to_be_visible()
    table = top(costs(example()))
    inclusive = dict(zip(table.column("name").plain(), table.column("inclusive").plain(), strict=True))
    press(page, "ArrowUp")
    shown = tooltip(page)
    assert (shown["title"], shown["cost from there"].split(" (")[0]) == ("kernel", amount("sec")(inclusive["kernel"]))
    address = page.url
    ready_again(page)
    expect(page.get_by_role("heading", name="Callers of kernel")).to_be_visible()
    assert page.url == address
    page.get_by_role("button", name="Command").click()
    expect(page.locator(".typed code")).to_contain_text("callgrove tree made.d -m 'CPUTIME (sec)' --query")
    page.go_back()
    expect(page.get_by_role("heading", name=f"Callers of {called}")).to_be_visible()


def test_a_key_opens_the_sandwich_of_a_call(open_view: OpenView) -> None:
    page = open_view(made_input(example()))
    open_tab(page, "Flame graph")
    press(page, "ArrowDown", "ArrowDown", "s")
    expect(page.get_by_role("heading", name="Callers of main")).to_be_visible()


def test_the_address_holds_the_zoom(open_view: OpenView) -> None:
    page = open_view(made_input(example()))
    open_tab(page, "Flame graph")
    press(page, "ArrowDown", "ArrowDown", "ArrowDown", "Enter")
    expect(page).to_have_url(re.compile(r"call=\d+"))
    zoomed = page.locator(".crumbs").inner_text()
    ready_again(page)
    expect(page.locator(".crumbs")).to_have_text(zoomed.replace("\n", ""))
    page.wait_for_timeout(800)  # what follows is a step of its own
    page.get_by_role("button", name="Reset zoom").click()
    expect(page).not_to_have_url(re.compile("call="))
    page.go_back()
    expect(page.locator(".crumbs")).to_have_text(zoomed.replace("\n", ""))


def test_calls_by_name_and_by_time(open_view: OpenView) -> None:
    page = open_view(made_input(example()))
    open_tab(page, "Flame graph")
    first = {}
    for order in ("largest first", "by name", "by time"):
        picked(page, "Order", order)
        page.wait_for_load_state("networkidle")
        press(page, *["ArrowUp"] * 9, "ArrowDown", "ArrowDown")
        first[order] = tooltip(page)["title"]
    assert first["by name"] == "init"
    assert first["by time"] == "init", "the program begins with it"
    assert first["largest first"].startswith("loop at")


# -- coupled panes -----------------------------------------------------------------------------------------------------


def test_the_address_holds_the_chosen_row(open_view: OpenView) -> None:
    page = open_view(made_input(example()))
    open_tab(page, "Explore")
    page.get_by_role("button", name="Hot path").click()
    shown_panel(page).locator(".row", has_text="solve").first.click()
    page.get_by_role("radio", name="Box plot").click()
    page.get_by_label("Column of cycles").check()
    expect(page).to_have_url(re.compile(r"column=cycles.*row=\d+.*drawn=box"))
    ready_again(page)
    system = page.get_by_label("System")
    expect(system.get_by_role("heading")).to_have_text("solve")
    expect(page.get_by_role("radio", name="Box plot")).to_have_attribute("aria-checked", "true")
    expect(page.get_by_role("columnheader", name="cycles inclusive")).to_be_visible()
    page.get_by_role("radio", name="Flat").click()
    picked(page, "by", "line")
    expect(page).to_have_url(re.compile(r"shows=flat\.line"))
    page.get_by_role("button", name="Command").click()
    expect(page.locator(".typed code")).to_have_text("callgrove top made.d -m 'CPUTIME (sec)' --by line")


def test_the_topology_of_a_file(open_view: OpenView, screenshot: Screenshot, shared: Path, tmp_path: Path) -> None:
    page = open_view(path_input(shared / "data/own/cube/mpi4/profile.cubex"))
    open_tab(page, "Explore")
    page.get_by_role("radio", name="Topology").click()
    system = page.get_by_label("System")
    saver = system.get_by_role("button", name="CSV")
    page.wait_for_load_state("networkidle")
    with downloaded(page, saver, tmp_path).open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 8
    opened = callgrove.open(shared / "data/own/cube/mpi4/profile.cubex")
    assert isinstance(opened, Experiment)
    total = costs(opened).total
    assert sum(float(row["mean"]) for row in rows) == pytest.approx(total)
    system.locator("canvas").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert "Process 1, Thread 0" in tooltip(page)["title"]
    page.keyboard.press("ArrowDown")
    assert "Process 1, Thread 1" in tooltip(page)["title"]
    screenshot(page, "view-topology")


# -- comparisons -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dark", [False, True])
def test_inputs_side_by_side(open_view: OpenView, screenshot: Screenshot, tmp_path: Path, dark: bool) -> None:
    half = example().select(ranks=[0, 1])
    page = open_view(made_input(example(), "a.d"), made_input(half, "b.d"), made_input(example(), "c.d"), dark=dark)
    open_tab(page, "Compare")
    for part in ("Overview", "Flame graph", "Call tree", "Timelines", "Side by side"):
        page.get_by_role("radio", name=part).click()
        expect(shown_panel(page).locator(".compare-body").locator("canvas, .table").first).to_be_visible()
        screenshot(page, f"view-compare-{part.lower().replace(' ', '-')}{'-dark' if dark else ''}")
    expect(page.get_by_role("columnheader")).to_have_count(4)
    rows = shown_panel(page).locator(".row")
    expect(rows.first).to_contain_text(top(costs(example())).column("name").plain()[0])
    page.get_by_role("button", name="Command").click()
    expect(page.locator(".typed code")).to_have_text("callgrove diff a.d b.d c.d -m 'CPUTIME (sec)' --flat")
    page.get_by_role("radio", name="Overview").click()
    saved = downloaded(page, page.get_by_role("button", name="Save report"), tmp_path)
    assert "callgrove-data" in saved.read_text("utf-8")


# -- SQL ---------------------------------------------------------------------------------------------------------------


def test_a_query_as_table_chart_and_file(
    open_view: OpenView, screenshot: Screenshot, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "stencil.d"
    write(example(), path, "callgrove")
    query = "SELECT name, line, context FROM contexts WHERE line > 0 ORDER BY context"
    page = open_view(path_input(path))
    open_tab(page, "SQL")
    page.get_by_label("SQL query").fill(query)
    page.keyboard.press("Control+Enter")
    expect(shown_panel(page).locator(".row").first).to_be_visible()
    saved = downloaded(page, shown_panel(page).get_by_role("button", name="CSV"), tmp_path).read_text("utf-8")
    capsys.readouterr()
    assert main(["sql", str(path), query, "--format", "csv"]) == 0
    assert saved == capsys.readouterr().out
    for way in ("Bars", "Points"):
        page.get_by_role("radio", name=way).click()
        expect(shown_panel(page).locator(".sql-answer canvas")).to_be_visible()
        screenshot(page, f"view-sql-{way.lower()}")
    press(page, "ArrowRight")
    assert "line" in tooltip(page)
    ready_again(page)
    expect(page.get_by_label("SQL query")).to_have_value(query)
    expect(shown_panel(page).locator(".sql-answer canvas")).to_be_visible()
    page.get_by_role("button", name="Command").click()
    expect(page.locator(".typed code")).to_have_text(f"callgrove sql {path} '{query}'")
    page.get_by_label("SQL query").fill("SELECT lne FROM contexts")
    page.get_by_role("button", name="Run").click()
    expect(shown_panel(page).get_by_role("alert")).to_contain_text("did you mean 'line'?")


# -- for everybody -----------------------------------------------------------------------------------------------------

NAMELESS = """() => [...document.querySelectorAll('button, input, select, textarea, canvas, [role=grid], [role=table]')]
    .filter((one) => one.checkVisibility())
    .filter((one) => !(one.getAttribute('aria-label') || one.textContent.trim() || one.title ||
        one.closest('label')?.textContent.trim()))
    .map((one) => one.outerHTML.slice(0, 120))"""


CUT = """() => [...document.querySelectorAll('.top > *, .tabbar > *, .lookbar > *, .toolbar > *, .panes > *')]
    .filter((one) => one.checkVisibility() && one.getBoundingClientRect().right > innerWidth)
    .map((one) => one.outerHTML.slice(0, 120))"""


OUTSIDE = """() => [...document.querySelectorAll('button, input, select, textarea')]
    .filter((one) => one.checkVisibility() && !one.closest('.table'))
    .filter((one) => one.getBoundingClientRect().right > innerWidth + 1)
    .map((one) => one.outerHTML.slice(0, 120))"""


@pytest.mark.parametrize("size", [(800, 600), (1280, 720), (1920, 1080)])
def test_everything_has_a_name_and_fits(open_view: OpenView, size: tuple[int, int]) -> None:
    width, height = size
    page = open_view(made_input(example()), made_input(example()), size={"width": width, "height": height})
    page.emulate_media(reduced_motion="reduce")
    for tab in page.locator("main .tab").all_inner_texts():
        open_tab(page, tab)
        expect(shown_panel(page).locator("canvas, .table, .card, table").first).to_be_visible()
        assert page.evaluate(NAMELESS) == []
        assert page.evaluate("() => document.documentElement.scrollWidth - innerWidth") <= 0, tab
        assert page.evaluate(CUT) == [], tab
        assert page.evaluate(OUTSIDE) == [], "what is to the right of the page cannot be reached"


# -- notebooks ---------------------------------------------------------------------------------------------------------


def test_a_notebook_shows_the_page(browser: Browser, screenshot: Screenshot, tmp_path: Path) -> None:
    for name in ("nbclient", "ipykernel"):
        need_module(name)
    code = "from callgrove.examples import example\\nexample().view(height=500)"
    script = f"""import nbformat, pathlib
from docs.notebooks import execute, settle
settle(pathlib.Path("jupyter"))
cell = nbformat.v4.new_code_cell("{code}")
done = execute(nbformat.v4.new_notebook(cells=[cell]), pathlib.Path("."))
pathlib.Path("shown.html").write_text("".join(done["cells"][0]["outputs"][0]["data"]["text/html"]), "utf-8")"""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", script], cwd=tmp_path, env=environment, check=True, capture_output=True)
    shown = (tmp_path / "shown.html").read_text("utf-8")
    page = browser.new_page(viewport={"width": 1000, "height": 620})
    problems: list[str] = []
    page.on("console", lambda said: problems.append(said.text) if said.type == "error" else None)
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.set_content(f"<h1>Notebook</h1>{shown}")
    frame = page.frame_locator("iframe")
    frame.locator("html[data-ready]").wait_for(state="attached")
    frame.get_by_role("tab", name="Flame graph").click()
    expect(frame.locator(".panel:not([hidden]) canvas")).to_be_visible()
    screenshot(page, "notebook")
    page.close()
    assert problems == []
