"""Odd numbers, and more than a page can hold."""

from __future__ import annotations

import csv
import io
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Page

from callgrove.analysis.costs import costs
from callgrove.analysis.views import top_down
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.contexts import ContextKind, Relation
from callgrove.model.metrics import Metric, Scope
from callgrove.model.profiles import ProfileKind
from callgrove.viewer.page import Choice
from callgrove.viewer.report import Input, report
from tests.browser.conftest import OpenPage, Screenshot
from tests.browser.made import large
from tests.browser.reading import downloaded, open_tab, picked, rows, shown_panel


def test_numbers_of_any_size_draw(tmp_path: Path, open_page: OpenPage, screenshot: Screenshot) -> None:
    """Damaged input may hold any number."""
    builder = ExperimentBuilder("made-up", title="odd numbers")
    values = [1.0, -3.0, np.inf, np.nan, 1e300, 1e-300, -np.inf]
    root = builder.add_context(-1, ContextKind.FUNCTION, builder.region(ContextKind.FUNCTION, "main"), Relation.CALL)
    for number in range(len(values)):
        region = builder.region(ContextKind.FUNCTION, f"f{number}")
        builder.add_context(root, ContextKind.FUNCTION, region, Relation.CALL)
    for name, numbers in (("any", values), ("finite", [1.0, -3.0, 0.0, 2.0, 1e300, 1e-300, 5.0])):
        builder.add_metric(Metric(name, Scope.EXCLUSIVE, unit="sec"))
        for _ in range(2):
            profile = builder.add_profile(ProfileKind.THREAD)
            builder.add_values(profile, np.arange(1, len(values) + 1), len(name) > 3, np.array(numbers))
    path = tmp_path / "odd.html"
    path.write_text(report([Input(builder.build(), ["odd.d"])]), encoding="utf-8")
    page = open_page(path)
    for metric in ("any", "finite"):
        open_tab(page, "Overview")  # not every view has metrics to choose from
        picked(page, "Metric", metric)
        for tab in page.get_by_role("tab").all_inner_texts():
            open_tab(page, tab)
            screenshot(page, f"odd-{metric}-{tab.lower().replace(' ', '-')}")
    open_tab(page, "Call tree")
    page.get_by_role("button", name="Expand all").click()
    assert {cells[0] for cells in rows(page)} == {"main", *(f"f{number}" for number in (0, 1, 3, 4, 5, 6))}
    assert page.locator(".row").count() == 7, "what costs something in the other metric only is not there"
    picked(page, "Metric", "any")
    open_tab(page, "Overview")
    assert page.locator(".tile").count() == 0, "what adds up to no number has no total"
    open_tab(page, "Spread")
    assert page.locator(".statistics b").all_inner_texts() == ["none in"], "each metric is of two of the profiles"
    saved = downloaded(page, shown_panel(page).get_by_role("button", name="SVG").last, tmp_path)
    assert "some values are not numbers" in saved.read_text("utf-8")


def pictured(page: Page, tab: str, folder: Path) -> str:
    """The last picture of a view, as SVG."""
    open_tab(page, tab)
    return downloaded(page, shown_panel(page).get_by_role("button", name="SVG").last, folder).read_text("utf-8")


def test_costs_below_zero_are_drawn_below_it(tmp_path: Path, open_page: OpenPage) -> None:
    """As differences of runs have them."""
    builder = ExperimentBuilder("made-up", title="less")
    builder.add_context(-1, ContextKind.FUNCTION, builder.region(ContextKind.FUNCTION, "main"), Relation.CALL)
    builder.add_metric(Metric("time", Scope.EXCLUSIVE, unit="sec"))
    for value in (-2.0, -4.0):
        builder.add_values(builder.add_profile(ProfileKind.THREAD), np.array([0]), 0, np.array([value]))
    path = tmp_path / "less.html"
    path.write_text(report([Input(builder.build(), ["less.d"])]), encoding="utf-8")
    page = open_page(path)
    assert page.locator(".tile strong").all_inner_texts() == ["-6 s", "0 s", "-6 s", "100.0%"]
    assert "less, -6 s in all" in pictured(page, "Flame graph", tmp_path)
    bars = [e for e in ET.fromstring(pictured(page, "Spread", tmp_path)).iter() if e.get("fill") == "#56b4e9"]
    (first, second) = [(float(bar.attrib["y"]), float(bar.attrib["height"])) for bar in bars]
    assert first[0] == second[0], "from zero down"
    assert second[1] == pytest.approx(2 * first[1], abs=0.02)


def test_nothing_to_draw_is_said(tmp_path: Path, open_page: OpenPage) -> None:
    path = tmp_path / "nothing.html"
    path.write_text(report([Input(ExperimentBuilder("made-up", title="none").build(), ["n.d"])]), encoding="utf-8")
    page = open_page(path)
    assert "There is nothing to draw" in page.locator(".reason").inner_text()


def test_long_names_keep_their_ends(tmp_path: Path, open_page: OpenPage) -> None:
    """Instances of one template often differ at their ends only."""
    builder = ExperimentBuilder("made-up", title="long")
    for number in range(3):
        name = f"void kernel<{'std::pair<int, long>, ' * 40}{number}>()"
        builder.add_context(-1, ContextKind.FUNCTION, builder.region(ContextKind.FUNCTION, name), Relation.CALL)
    builder.add_metric(Metric("time", Scope.EXCLUSIVE, unit="sec"))
    builder.add_values(builder.add_profile(ProfileKind.THREAD), np.arange(3), 0, np.ones(3))
    path = tmp_path / "long.html"
    path.write_text(report([Input(builder.build(), ["long.d"])]), encoding="utf-8")
    texts = [e.text or "" for e in ET.fromstring(pictured(open_page(path), "Flame graph", tmp_path)) if e.text]
    assert [(text[:11], text[-4:]) for text in texts[:3]] == [("void kernel", f"{n}>()") for n in range(3)]


def test_a_folded_page_says_so_and_is_no_larger(tmp_path: Path, open_page: OpenPage, screenshot: Screenshot) -> None:
    path, inputs = tmp_path / "folded.html", [Input(large(3_000, 16), ["large.d"])]
    largest = len(report(inputs)) - 50_000
    text = report(inputs, max_size=largest)
    assert largest * 0.9 < len(text) <= largest, "as much as there is room for"
    path.write_text(text, encoding="utf-8")
    page = open_page(path)
    open_tab(page, "Flame graph")
    assert "contexts are folded" in shown_panel(page).locator(".notes").inner_text()
    open_tab(page, "Call tree")
    screenshot(page, "folded-call-tree")
    saved = downloaded(page, page.get_by_role("button", name="CSV"), tmp_path)
    read = list(csv.DictReader(io.StringIO(saved.read_text("utf-8"))))
    folded = [row for row in read if row["kind"] == "folded"]
    n_folded = sum(int(row["name"].removeprefix("… ").removesuffix(" more").replace(",", "")) for row in folded)
    found = costs(large(3_000, 16))
    assert len(read) - len(folded) + n_folded == len(top_down(found))
    assert sum(float(row["exclusive"]) for row in read) == pytest.approx(found.total), "nothing is lost"


def test_many_profiles_and_contexts_draw(tmp_path: Path, open_page: OpenPage, screenshot: Screenshot) -> None:
    """100,000 contexts and 1,024 profiles stay under the bound."""
    path = tmp_path / "large.html"
    text = report([Input(large(), ["large.d"])], Choice())
    assert len(text) < 5_000_000
    path.write_text(text, encoding="utf-8")
    page = open_page(path)
    for tab in page.get_by_role("tab").all_inner_texts():
        open_tab(page, tab)
        screenshot(page, f"large-{tab.lower().replace(' ', '-')}")
    open_tab(page, "Call tree")
    page.get_by_role("button", name="Expand all").click()
    assert "rows" in page.locator(".panel-call-tree .match").inner_text()
    assert len(rows(page)) < 80, "only what is in sight exists"
