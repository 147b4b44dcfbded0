"""The page of `callgrove view` as a reader meets it: opened, filtered, with metrics typed, with files that change."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from playwright.sync_api import Page, Route, expect

from callgrove.analysis.costs import costs
from callgrove.analysis.views import top, top_down
from callgrove.examples import example, gpu_example, study_example
from callgrove.formats.writing.transfer import write
from callgrove.model.experiment import Experiment
from callgrove.render.units import amount
from tests.analysis.programs import program
from tests.browser.conftest import OpenView, Screenshot
from tests.browser.made import EVIL, spans_of
from tests.browser.reading import downloaded, open_tab, picked, shown_panel
from tests.formats.cube.raw_cubes import r1
from tests.viewer.serving import made_input, path_input


def typed(page: Page, label: str, text: str) -> None:
    """Type a text into one of the boxes below the tabs, and Enter."""
    page.get_by_label(label, exact=True).fill(text)
    page.get_by_label(label, exact=True).press("Enter")


@pytest.mark.parametrize("dark", [False, True])
def test_every_tab_of_every_kind_is_drawn(open_view: OpenView, screenshot: Screenshot, dark: bool) -> None:
    page = open_view(made_input(example()), made_input(gpu_example()), made_input(study_example()), dark=dark)
    assert "token" not in page.url, "nobody needs to read it over a shoulder"
    for number, name in enumerate(("stencil", "gpu", "study")):
        page.locator("label.choice", has_text="Input").locator("select").select_option(str(number))
        for tab in page.locator("main .tab").all_inner_texts():
            open_tab(page, tab)
            expect(shown_panel(page).locator("canvas, .table, .card, table").first).to_be_visible()
            expect(shown_panel(page).get_by_text("There is nothing to show here")).to_have_count(0)
            screenshot(page, f"view-{name}-{tab.lower().replace(' ', '-')}{'-dark' if dark else ''}")


def test_a_metric_is_asked_for_when_it_is_chosen(open_view: OpenView) -> None:
    page = open_view(made_input(example()))
    for metric in ("cycles", "CPUTIME (sec)"):
        picked(page, "Metric", metric)
        one = costs(example(), metric)
        total = amount(one.metric.unit)(one.total)
        expect(shown_panel(page).get_by_text(f"{metric} in total")).to_be_visible()
        expect(shown_panel(page).get_by_text(total, exact=True).first).to_be_visible()


def test_a_filter_and_a_formula(open_view: OpenView) -> None:
    page = open_view(made_input(example()))
    typed(page, "Define", "ghz = cycles / nothing")
    expect(page.get_by_role("alert")).to_contain_text("there is no metric 'nothing' at character 16")
    selection = page.evaluate("() => [document.activeElement.selectionStart, document.activeElement.selectionEnd]")
    assert selection == [15, 16], "the character is marked"
    typed(page, "Define", "twice = 2 * cycles")
    expect(shown_panel(page).get_by_text("twice in total")).to_be_visible()
    expect(page.get_by_role("alert")).to_have_text("")
    typed(page, "Filter", "** -> MPI_*")
    names = [name for name in top(costs(example())).column("name").plain() if name.startswith("MPI_")]
    open_tab(page, "Explore")
    page.get_by_role("radio", name="Flat").click()
    rows = shown_panel(page).locator(".row")
    expect(rows.filter(has_text=names[0])).to_have_count(1)
    expect(rows.filter(has_text="kernel")).to_have_count(0)
    typed(page, "Filter", "nothing_like_it")
    expect(page.get_by_role("alert")).to_have_text(re.compile("^there is no context 'nothing_like_it'"))
    page.get_by_role("button", name="Clear").click()
    expect(rows.filter(has_text="kernel")).to_have_count(1)
    page.get_by_role("button", name="twice = 2 * cycles").click()
    expect(page.locator("label.choice:visible", has_text="Metric").locator("option", has_text="twice")).to_have_count(0)


def test_a_file_that_was_replaced_is_opened_again(open_view: OpenView, tmp_path: Path) -> None:
    path = tmp_path / "made.cubex"
    write(example(), path)
    page = open_view(path_input(path))
    other = tmp_path / "other"
    other.write_bytes(path.read_bytes())
    other.replace(path)
    page.wait_for_timeout(1100)  # files are looked at once a second
    with page.expect_response(lambda answer: answer.status == 409):
        open_tab(page, "Flame graph")
    expect(page.locator(".stale")).to_contain_text("was replaced since it was opened")
    page.get_by_role("button", name="Open again").click()
    page.wait_for_selector("html[data-ready]", state="attached")
    expect(page.locator(".stale")).to_have_count(0)


def test_script_in_names_is_shown_as_text(open_view: OpenView) -> None:
    made: Experiment = spans_of(2, 10, (EVIL, "</script><script>alert(2)</script>"))
    page = open_view(made_input(made, f"{EVIL}.d"))
    for tab in page.locator("main .tab").all_inner_texts():
        open_tab(page, tab)
        expect(shown_panel(page).locator("canvas, .table, .card").first).to_be_visible()
    assert page.locator("img").count() == 0


# -- coupled panes -----------------------------------------------------------------------------------------------------


def test_rows_open_and_couple_to_the_system(open_view: OpenView, screenshot: Screenshot) -> None:
    page = open_view(made_input(example()))
    open_tab(page, "Explore")
    rows = shown_panel(page).locator(".row")
    expect(rows).to_have_count(2)
    page.get_by_role("button", name="Hot path").click()
    table = top_down(costs(example()))
    write = amount("sec")
    costs_of = dict(zip(table.column("name").plain(), table.column("inclusive").plain(), strict=True))
    row = rows.filter(has_text="solve").first
    expect(row.locator(".cell-text").nth(1)).to_have_text(write(costs_of["solve"]))
    row.click()
    system = page.get_by_label("System")
    expect(system.get_by_role("heading")).to_have_text("solve")
    expect(system.get_by_role("status")).to_contain_text("inclusive CPUTIME (sec) over 4 ranks")
    for way, said in (("Box plot", "imbalance"), ("Map", "by rank and thread or stream, "), ("Bars", "imbalance")):
        page.get_by_role("radio", name=way).click()
        expect(system.get_by_role("status")).to_contain_text(said)
    picked(page, "over", "thread")
    expect(system.get_by_role("status")).to_contain_text("over 8 threads")
    expect(page.get_by_label("Source")).to_contain_text("no copy of this file is at hand")
    screenshot(page, "view-explore-chosen")
    page.get_by_label("Column of cycles").check()
    expect(page.get_by_role("columnheader", name="cycles inclusive")).to_be_visible()
    page.get_by_title("Show cycles").click()
    expect(page.get_by_title("Show cycles")).to_have_attribute("aria-selected", "true")
    page.get_by_role("radio", name="Callers").click()
    expect(rows.first).to_contain_text(top(costs(example(), "cycles")).column("name").plain()[0])


def test_what_is_clicked_fast_is_done_in_order(open_view: OpenView, tmp_path: Path) -> None:
    """The server answers slowly: rows that are sorted, saved or turned meanwhile are those that were asked for."""
    page = open_view(made_input(example()))
    open_tab(page, "Explore")
    rows = shown_panel(page).locator(".row")
    expect(rows).to_have_count(2)
    held: list[Route] = []

    def hold_first(route: Route) -> None:
        held.append(route)
        if len(held) > 1:
            route.continue_()

    page.route("**/api/rows?*", hold_first)
    with page.expect_request("**/api/rows?*"):
        page.get_by_role("button", name="Hot path").click()
    page.get_by_role("columnheader", name="name").click()
    assert len(held) == 1
    with page.expect_response(lambda answer: "sort=name" in answer.url):
        held[0].continue_()
    expect(shown_panel(page).locator(".match").first).to_have_text("2 rows")
    held.clear()
    with page.expect_request("**/api/rows?*"):
        page.get_by_role("radio", name="Flat").click()
    with page.expect_download() as waiting:
        shown_panel(page).get_by_role("button", name="CSV").first.click()
        held[0].continue_()
    waiting.value.save_as(tmp_path / "flat.csv")
    names = [line.split(",")[2] for line in (tmp_path / "flat.csv").read_text("utf-8").splitlines()[1:]]
    assert names == top(costs(example())).column("name").plain()[: len(names)]
    assert len(names) > 3


def test_rows_by_the_keyboard(open_view: OpenView) -> None:
    page = open_view(made_input(example()))
    open_tab(page, "Explore")
    rows = shown_panel(page).locator(".row")
    expect(rows).to_have_count(2)
    page.locator(".table:visible").focus()
    page.keyboard.press("ArrowRight")
    expect(rows).to_have_count(3)
    page.keyboard.press("ArrowDown")
    expect(page.get_by_label("System").get_by_role("heading")).to_have_text("main")


def test_a_tree_is_open_down_to_where_it_branches(open_view: OpenView, screenshot: Screenshot) -> None:
    one_root = program(((0, "start", (0,)), (1, "main", (1,)), (2, "init", (2,)), (2, "solve", (3,)), (3, "mul", (4,))))
    page = open_view(made_input(one_root), made_input(program([(k, f"f{k}", (1,)) for k in range(40)])))
    open_tab(page, "Explore")
    rows = shown_panel(page).locator(".row")
    expect(rows).to_have_count(4)
    expect(shown_panel(page).locator(".row[aria-expanded=true]")).to_have_count(2)
    expect(rows.nth(2)).to_contain_text("solve")
    expect(rows.nth(2)).to_have_attribute("aria-expanded", "false")
    screenshot(page, "view-explore-one-root")
    page.get_by_role("columnheader", name="name").click()
    expect(rows.nth(2)).to_contain_text("init")
    page.locator(".table:visible").focus()
    page.keyboard.press("ArrowLeft")
    expect(rows).to_have_count(1)
    page.keyboard.press("ArrowRight")
    expect(rows).to_have_count(4)
    page.keyboard.press("End")
    page.keyboard.press("ArrowRight")
    expect(rows).to_have_count(5)
    page.keyboard.press("ArrowDown")
    expect(page.get_by_label("System").get_by_role("heading")).to_have_text("mul")
    expect(page).to_have_url(re.compile(r"row=\d+"))
    page.reload()
    page.wait_for_selector("html[data-ready]", state="attached")
    expect(page.get_by_label("System").get_by_role("heading")).to_have_text("mul")
    expect(rows).to_have_count(5)
    page.locator("label.choice", has_text="Input").locator("select").select_option("1")
    open_tab(page, "Explore")
    expect(rows).to_have_count(11)  # so many are opened at once


def test_a_composed_unit_is_written_alike_everywhere(open_view: OpenView, tmp_path: Path) -> None:
    """160 visits of main took 128 s, or 0.8 sec/occ."""
    page = open_view(path_input(r1().write(tmp_path / "r1.cubex")))
    typed(page, "Define", "per = time / visits / 8000")
    open_tab(page, "Explore")
    page.get_by_title("Show per").click()
    rows = shown_panel(page).locator(".row")
    expect(rows.first).to_contain_text("main")
    cell = rows.first.locator(".cell.numeric").first
    expect(cell).to_have_attribute("title", re.compile(r"0\.0001 sec/occ *of per"))
    listed = shown_panel(page).locator(".metric.chosen span")
    expect(cell).to_have_text("0.0001 sec/occ")
    expect(listed).to_have_text("0.0001 sec/occ")
    expect(listed).to_have_attribute("title", "0.0001 sec/occ")
    typed(page, "Define", "long = time / visits / 7.0001e6")
    page.get_by_title("Show long").click()
    expect(listed).to_have_text(re.compile(r"^1\.1428e-07 sec/occ$"))
    expect(cell).to_have_text(re.compile(r"^1\.1428e-07 sec/occ$"))
    for place in (cell, page.get_by_title("Show long")):
        assert place.evaluate("one => one.scrollWidth <= one.clientWidth"), "nothing is cut off"


def test_long_labels_of_an_axis_have_room(open_view: OpenView, tmp_path: Path) -> None:
    page = open_view(path_input(r1().write(tmp_path / "r1.cubex")))
    typed(page, "Define", "long = time / visits / 7.0001e6")
    open_tab(page, "Explore")
    page.get_by_title("Show long").click()
    expect(shown_panel(page).locator(".metric.chosen span")).to_have_text(re.compile("sec/occ$"))
    expect(page.get_by_label("System").locator(".match")).to_contain_text("sec/occ")  # when it is drawn
    saved = downloaded(page, page.get_by_label("System").get_by_role("button", name="SVG"), tmp_path)
    labels = [
        one for one in ET.parse(saved).iter() if one.get("text-anchor") == "end" and "sec/occ" in (one.text or "")
    ]
    assert len(labels) == 3
    for label in labels:
        assert float(label.get("x", "0")) > 4.5 * len(label.text or "")  # letters of 11 pixels are wider than that


def test_a_search_opens_the_way_to_what_it_finds(open_view: OpenView) -> None:
    page = open_view(made_input(example()))
    open_tab(page, "Explore")
    page.get_by_role("searchbox").fill("MPI_")
    expect(page.get_by_text("“MPI_”: 3 calls, 21.7% of CPUTIME (sec)")).to_be_visible()
    expect(shown_panel(page).locator(".row.found")).to_contain_text("MPI_Waitall")
    page.get_by_role("searchbox").press("Enter")
    expect(shown_panel(page).locator(".row.found")).to_contain_text("MPI_Sendrecv")
    open_tab(page, "Flame graph")
    expect(page.get_by_text("“MPI_”: 21.7% of CPUTIME (sec) in 3 calls")).to_be_visible()


# -- links -------------------------------------------------------------------------------------------------------------


def test_the_address_holds_what_is_seen(open_view: OpenView) -> None:
    page = open_view(made_input(example()), made_input(gpu_example()))
    open_tab(page, "Explore")
    picked(page, "Metric", "cycles")
    typed(page, "Filter", "** -> MPI_*")
    expect(page).to_have_url(re.compile(r"tab=Explore&metric=cycles&filter="))
    address = page.url
    page.reload()
    page.wait_for_selector("html[data-ready]", state="attached")
    expect(page.get_by_role("tab", name="Explore")).to_have_attribute("aria-selected", "true")
    expect(page.get_by_label("Filter", exact=True)).to_have_value("** -> MPI_*")
    expect(page.get_by_title("Show cycles")).to_have_attribute("aria-selected", "true")
    assert page.url == address
    open_tab(page, "Spread")
    page.go_back()
    expect(page.get_by_role("tab", name="Explore")).to_have_attribute("aria-selected", "true")
    page.go_forward()
    expect(page.get_by_role("tab", name="Spread")).to_have_attribute("aria-selected", "true")


def test_what_is_seen_as_a_command_and_as_a_report(open_view: OpenView, tmp_path: Path) -> None:
    page = open_view(made_input(example(), "my runs/stencil.d"))
    open_tab(page, "Explore")
    typed(page, "Filter", "** -> MPI_*")
    page.get_by_role("button", name="Command").click()
    expected = "callgrove tree 'my runs/stencil.d' -m 'CPUTIME (sec)' --query '** -> MPI_*'"
    expect(page.locator(".lookbar code")).to_have_text(expected)
    saved = downloaded(page, page.get_by_role("button", name="Save report"), tmp_path)
    assert "<!DOCTYPE html>" in saved.read_text("utf-8")


def test_a_command_waits_for_the_filter_that_was_typed_before_it(open_view: OpenView) -> None:
    page = open_view(made_input(example(), "stencil.d"))
    open_tab(page, "Explore")
    held: list[Route] = []
    page.route(re.compile(r"/look\b"), lambda route: held.append(route))
    typed(page, "Filter", "** -> MPI_*")
    page.get_by_role("button", name="Command").click()
    page.wait_for_function("() => document.activeElement.textContent === 'Command'")
    expect(page.locator(".lookbar code")).to_have_count(0)
    for route in held:
        route.continue_()
    page.unroute(re.compile(r"/look\b"))
    expect(page.locator(".lookbar code")).to_contain_text("--query '** -> MPI_*'")
    page.get_by_role("button", name="Clear").click()
    expect(page.locator(".lookbar code")).to_have_count(0)
