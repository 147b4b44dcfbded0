"""Derived metrics on the page: values without shares where nothing adds up, and a sentence where a view cannot show
them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page

from tests.browser.conftest import OpenPage, Screenshot
from tests.browser.reading import open_tab, picked, rows, shown_panel
from tests.formats.cube.raw_cubes import r1

DASH = "\N{EN DASH}"
FORMULAS = ("tpv = time / visits", "twice = 2 * time", "lacking = each(time / visits)")


@pytest.fixture
def page(tmp_path: Path, written: Callable[..., Path], open_page: OpenPage) -> Page:
    words = [word for formula in FORMULAS for word in ("--derive", formula)]
    return open_page(written(r1().write(tmp_path / "r1.cubex"), *words))


def choose(page: Page, metric: str, tab: str) -> None:
    picked(page, "Metric", metric)
    open_tab(page, tab)


def said(page: Page) -> str:
    return " ".join(shown_panel(page).locator(".match").all_inner_texts())


def test_the_chooser_lists_them_behind_measured_ones(page: Page) -> None:
    listed = page.locator("label.choice:visible", has_text="Metric").locator("option").all_inner_texts()
    assert listed[0] == "time"
    assert set(listed[-3:]) == {"tpv", "twice", "lacking"}


def test_a_ratio_has_values_and_no_shares(page: Page, screenshot: Screenshot) -> None:
    """Of main: 128 s in 160 visits."""
    choose(page, "tpv", "Call tree")
    assert rows(page)[0][:4] == ["main", "0.8 sec/occ", "13 sec/occ", ""]
    assert page.locator(".panel:not([hidden]) .bar:visible").count() == 0
    screenshot(page, "derived-calltree")
    shown_panel(page).get_by_text("Bottom-up").click()
    assert said(page) == "tpv has no parts that callers could share"
    shown_panel(page).get_by_text("Top-down").click()
    picked(page, "Metric", "twice")
    assert rows(page)[0][:4] == ["main", "256 s", "52 s", "100.0%"]


def test_the_flame_graph_says_why_it_shows_another_metric(page: Page, screenshot: Screenshot) -> None:
    choose(page, "tpv", "Flame graph")
    assert said(page) == "tpv has no parts that add up: this is time"
    screenshot(page, "derived-flame")
    picked(page, "Metric", "lacking")
    assert said(page) == "lacking lacks values, so that nothing adds up: this is time"
    picked(page, "Metric", "twice")
    assert said(page) == ""


def test_a_missing_value_is_a_dash(page: Page) -> None:
    """MPI_Barrier took time on threads that never visited it, so that it has no value, nor has main with all in it."""
    choose(page, "lacking", "Call tree")
    assert rows(page)[0][:4] == ["main", DASH, DASH, ""]


def test_the_overview_and_the_spread_of_a_ratio(page: Page, screenshot: Screenshot) -> None:
    choose(page, "tpv", "Overview")
    assert page.get_by_role("heading", name="Highest values").is_visible()
    choose(page, "tpv", "Spread")
    facts = page.locator(".statistics .fact:visible").all_inner_texts()
    assert [text.split() for text in facts][:1] == [["min", "0.61111", "sec/occ"]]  # 33 s in 54 visits
    screenshot(page, "derived-spread")
