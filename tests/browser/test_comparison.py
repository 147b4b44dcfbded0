"""Pages of comparisons in a browser: what they show and save is what `diff` says."""

from __future__ import annotations

import csv
import math
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page

from callgrove.algebra.cutting import part
from callgrove.analysis.comparison import Question, compare
from callgrove.examples import example
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Scope
from callgrove.viewer.report import report_comparison
from tests.analysis.programs import S, T, program
from tests.browser.conftest import OpenPage, Screenshot
from tests.browser.reading import (
    box,
    downloaded,
    flame,
    open_tab,
    picked,
    rows,
    shown_panel,
    tooltip,
    wait_for_picture,
)
from tests.browser.test_hostile import HOSTILE

# 12 s of main and what it calls on the left, 16 s on the right
LEFT = [(0, "main", (1.0,)), (1, "solve", (6.0,)), (1, "write", (4.0,)), (1, "old", (1.0,))]
NOT_THERE = "\u2013"
RIGHT = [(0, "main", (1.0,)), (1, "solve", (12.0,)), (1, "write", (1.0,)), (1, "new", (2.0,))]


def written(folder: Path, *sides: Experiment, question: Question | None = None, max_size: int = 5_000_000) -> Path:
    target = folder / "comparison.html"
    text = report_comparison(compare(sides, question), max_size=max_size)
    target.write_text(text, encoding="utf-8")
    return target


@pytest.fixture
def small(tmp_path: Path, open_page: OpenPage) -> Page:
    return open_page(written(tmp_path, program(LEFT, "before"), program(RIGHT, "after")))


@pytest.fixture(scope="module")
def ranks() -> tuple[Experiment, Experiment]:
    return part(example(), ranks=[0]), part(example(), ranks=[3])


def width_switch(page: Page, name: str) -> Locator:
    return page.get_by_role("radiogroup", name="Width").get_by_role("radio", name=name, exact=True)


def names_along(page: Page, level: int, middles: list[float]) -> list[str]:
    """What lies at some parts of the width of the flame graph."""
    found = []
    for middle in middles:
        flame(page).hover(position=box(page, middle, level))  # type: ignore[arg-type]
        found.append(tooltip(page)["title"])
    return found


# -- overview ----------------------------------------------------------------------------------------------------------


def test_the_overview_says_what_the_change_comes_to(small: Page, screenshot: Screenshot) -> None:
    screenshot(small, "comparison-overview")
    sentence = small.locator(".sentence").inner_text().replace("\u00a0", " ")
    assert sentence.startswith("after is 33% slower")
    tiles = [text.split("\n") for text in small.locator(".tile").all_inner_texts()]
    assert tiles == [
        ["12 s", "before: time"],
        ["16 s", "after: time"],
        ["-4 s", "difference: before \u2212 after"],
        ["0.75", "ratio: before / after"],
        ["1 s", "only in before: 1 call path"],
        ["2 s", "only in after: 1 call path"],
    ]
    assert small.get_by_role("heading", name="Largest changes").is_visible()


def test_metrics_are_chosen_in_all_views(
    ranks: tuple[Experiment, Experiment], tmp_path: Path, open_page: OpenPage
) -> None:
    page = open_page(written(tmp_path, *ranks))
    names = list(ranks[0].metrics.shown)
    assert page.locator("label.choice", has_text="Metric").locator("option").all_inner_texts() == names
    before = page.locator(".sentence").inner_text()
    picked(page, "Metric", names[1])
    assert page.locator(".sentence").inner_text() != before
    open_tab(page, "Call tree")
    wanted = {row["path"]: row["left"] for row in compare(ranks, Question(names[1], Scope.INCLUSIVE)).table()}
    cell = shown_panel(page).locator(".row", has_text="main thread").locator(".cell").nth(1)
    assert float((cell.get_attribute("title") or "").split()[0]) == pytest.approx(wanted["main thread"])


# -- the flame graph ---------------------------------------------------------------------------------------------------


def test_widths_are_those_of_a_side_of_both_or_of_changes(small: Page, screenshot: Screenshot) -> None:
    open_tab(small, "Flame graph")
    # right: solve 12, new 2, write 1 and 1 of main, of 16
    assert names_along(small, 1, [6 / 16, 13 / 16, 14.5 / 16]) == ["solve", "new", "write"]
    assert "1 only in before, 1 s" in small.locator(".unseen").inner_text()
    width_switch(small, "before").click()
    wait_for_picture(small)
    # left: solve 6, write 4, old 1, of 12
    assert names_along(small, 1, [3 / 12, 8 / 12, 10.5 / 12]) == ["solve", "write", "old"]
    assert "1 only in after, 2 s" in small.locator(".unseen").inner_text()
    width_switch(small, "Both").click()
    wait_for_picture(small)
    # both: solve 18, write 5, new 2, old 1, of 28
    assert names_along(small, 1, [9 / 28, 20.5 / 28, 24 / 28, 25.5 / 28]) == ["solve", "write", "new", "old"]
    assert small.locator(".unseen").inner_text() == ""
    width_switch(small, "Difference").click()
    wait_for_picture(small)
    screenshot(small, "comparison-flame-changes")
    # changes: solve 6, write 3, new 2, old 1, of 12
    assert names_along(small, 1, [3 / 12, 7.5 / 12, 10 / 12, 11.5 / 12]) == ["solve", "write", "new", "old"]


def test_two_colours_say_which_side_has_more(small: Page) -> None:
    open_tab(small, "Flame graph")
    width_switch(small, "Both").click()
    small.mouse.move(2, 2)
    wait_for_picture(small)
    places = {name: box(small, middle, 1) for name, middle in {"solve": 16 / 28, "write": 22 / 28}.items()}
    colours = flame(small).evaluate(
        """(canvas, places) => {
            const { data } = canvas.getContext("2d").getImageData(0, Math.round(places[0].y), canvas.width, 1);
            return places.map(({ x }) => [...data.slice(4 * Math.round(x), 4 * Math.round(x) + 3)]);
        }""",
        list(places.values()),
    )
    assert colours[0][0] > colours[0][2], "orange: solve takes longer"
    assert colours[1][2] > colours[1][0], "blue: write takes less"
    legend = shown_panel(small).locator(".legend").inner_text()
    for text in ("only in before", "only in after", "more in after", "less in after", "the same within 1%"):
        assert text in legend


def test_details_have_both_sides(small: Page) -> None:
    open_tab(small, "Flame graph")
    flame(small).hover(position=box(small, 6 / 16, 1))  # type: ignore[arg-type]
    told = tooltip(small)
    assert (told["title"], told["before"], told["after"]) == ("solve", "6 s (50.0%)", "12 s (75.0%)")
    assert (told["difference"], told["ratio"]) == ("-6 s, left less right", "0.5")
    flame(small).hover(position=box(small, 13 / 16, 1))  # type: ignore[arg-type]
    assert (tooltip(small)["title"], tooltip(small)["before"]) == ("new", "not there")


def test_searching_and_zooming(small: Page) -> None:
    open_tab(small, "Flame graph")
    small.locator("input[type=search]").fill("solve")
    assert "75.0% of time (12 s) in 1 call" in shown_panel(small).locator(".match").first.inner_text()
    small.locator("input[type=search]").fill("")
    flame(small).click(position=box(small, 6 / 16, 1))  # type: ignore[arg-type]
    wait_for_picture(small)
    assert shown_panel(small).locator(".crumbs button").last.inner_text() == "solve"
    width_switch(small, "before").click()
    wait_for_picture(small)
    assert shown_panel(small).locator(".crumbs button").last.inner_text() == "solve", "the same call in another width"


# -- tables ------------------------------------------------------------------------------------------------------------


def test_columns_stand_side_by_side_and_sort(small: Page, screenshot: Screenshot) -> None:
    open_tab(small, "Call tree")
    headings = shown_panel(small).locator(".heading").all_inner_texts()
    assert headings == ["name", "before", "after", "before \u2212 after", "ratio", "present"]
    assert rows(small) == [
        ["main", "12 s", "16 s", "-4 s", "0.75", "both"],
        ["solve", "6 s", "12 s", "-6 s", "0.5", "both"],
        ["write", "4 s", "1 s", "+3 s", "4", "both"],
        ["new", NOT_THERE, "2 s", "-2 s", "0", "only right"],
        ["old", "1 s", NOT_THERE, "+1 s", "", "only left"],
    ]
    screenshot(small, "comparison-tree")
    small.get_by_role("columnheader", name="ratio").click()
    assert [cells[0] for cells in rows(small)][1:3] == ["write", "solve"]
    small.get_by_role("columnheader", name="before", exact=True).click()
    assert [cells[0] for cells in rows(small)] == ["main", "solve", "write", "old", "new"]
    picked(small, "Show", "only in after")
    assert [cells[0] for cells in rows(small)] == ["main", "new"]
    picked(small, "Show", "everything")
    small.get_by_role("radio", name="Functions").click()
    small.get_by_role("radio", name="Exclusive").click()
    assert [cells[:4] for cells in rows(small)][-1] == ["main", "1 s", "1 s", "0 s"]


@pytest.mark.parametrize("scaling", ["weak", "strong"])
@pytest.mark.parametrize(("scope", "button"), [(Scope.EXCLUSIVE, "Exclusive"), (Scope.INCLUSIVE, "Inclusive")])
@pytest.mark.parametrize("way", ["Call tree", "Functions"])
def test_saved_tables_are_those_of_diff(
    tmp_path: Path, open_page: OpenPage, scaling: str, scope: Scope, button: str, way: str
) -> None:
    sides = program(S, "s"), program(T, "t")
    page = open_page(written(tmp_path, *sides, question=Question(scaling=scaling)))
    open_tab(page, "Call tree")
    page.get_by_role("radio", name=way).click()
    page.get_by_role("radio", name=button).click()
    target = downloaded(page, page.get_by_role("button", name="CSV"), tmp_path)
    saved = {row["path"]: row for row in csv.DictReader(target.read_text("utf-8").splitlines())}
    asked = Question(scope=scope, flat=way == "Functions", scaling=scaling)
    table = compare(sides, asked).table()
    assert {row["path"] for row in table} == set(saved)
    for row in table:
        for column in ("left", "right", "difference", "ratio", "loss", "speedup", "efficiency"):
            expected = row[column]
            shown = saved[row["path"]][column]
            assert (shown == "") == (expected is None or math.isnan(expected)), (row["path"], column)
            assert shown == "" or math.isclose(float(shown), expected, rel_tol=1e-12, abs_tol=1e-12)
        assert saved[row["path"]]["present"] == row["present"]


def test_folded_rows_are_shown_with_both_sides(tmp_path: Path, open_page: OpenPage) -> None:
    many = [(0, "main", (1.0,)), *((1, f"function {k * k}", (1.0 + 1 / (k + 1),)) for k in range(6_000))]
    sides = program(many, "left"), program(many, "right", {"function 100": 7})
    whole = len(written(tmp_path, *sides).read_bytes())
    page = open_page(written(tmp_path, *sides, max_size=whole - 60_000))
    assert "are folded into rows" in shown_panel(page).locator(".notes").inner_text()
    open_tab(page, "Call tree")
    target = downloaded(page, page.get_by_role("button", name="CSV"), tmp_path)
    saved = list(csv.DictReader(target.read_text("utf-8").splitlines()))
    assert any("more" in row["path"] for row in saved)
    root = next(row for row in saved if row["path"] == "main")
    for side, total in zip(("left", "right"), compare(sides).totals, strict=True):
        assert float(root[side]) == pytest.approx(total)
        assert 1 + sum(float(row[side]) for row in saved if row is not root) == pytest.approx(total)


# -- timelines, several inputs, hostile names --------------------------------------------------------------------------


def test_timelines_move_together(ranks: tuple[Experiment, Experiment], tmp_path: Path, open_page: OpenPage) -> None:
    page = open_page(written(tmp_path, *ranks))
    open_tab(page, "Timelines")
    status = shown_panel(page).locator(".timeline-status")
    assert status.count() == 2
    before = status.all_inner_texts()
    assert before[0].split(" · ")[0] == before[1].split(" · ")[0], "one scale"
    page.locator(".half canvas").first.press("+")
    wait_for_picture(page)
    after = status.all_inner_texts()
    assert after[0].split(" · ")[0] == after[1].split(" · ")[0] != before[0].split(" · ")[0]
    assert "Both begin at 0" in shown_panel(page).locator(".notes").inner_text()


def test_several_inputs_are_chosen_at_the_top(tmp_path: Path, open_page: OpenPage) -> None:
    page = open_page(written(tmp_path, program(LEFT, "a"), program(RIGHT, "b"), program(LEFT, "c")))
    assert page.locator(".top option").all_inner_texts() == ["1: b against a", "2: c against a"]
    page.locator(".top select").select_option("1")
    wait_for_picture(page)
    assert "the same" in page.locator(".sentence").inner_text()
    assert page.locator(".section .tile").first.inner_text().endswith("a: time")


def test_hostile_names_are_texts(tmp_path: Path, open_page: OpenPage) -> None:
    chain = [(depth, name, (float(depth + 1),)) for depth, name in enumerate(HOSTILE)]
    sides = program(chain, HOSTILE[0]), program(chain[:-1], HOSTILE[1])
    page = open_page(written(tmp_path, *sides))
    for tab in page.get_by_role("tab").all_inner_texts():
        open_tab(page, tab)
    page.get_by_role("button", name="Expand all").click()
    assert rows(page)[0][0] == HOSTILE[0]
    assert page.locator("img, iframe, object, embed, script:not([type])").count() == 0
    assert page.locator("script").count() == 2


def test_a_printed_page_says_what_it_shows(small: Page, screenshot: Screenshot) -> None:
    open_tab(small, "Flame graph")
    width_switch(small, "Both").click()
    small.emulate_media(media="print")
    screenshot(small, "comparison-printed")
    assert small.get_by_role("tab").all_inner_texts() == ["Flame graph"]
    assert small.get_by_role("radio").all_inner_texts() == ["Both", "Roots at top"]
    assert not small.get_by_role("button", name="Theme").is_visible()
