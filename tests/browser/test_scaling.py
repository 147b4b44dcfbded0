"""Scaling models as a reader meets them."""

from __future__ import annotations

import csv
import io
import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from playwright.sync_api import Page

from callgrove.examples import study_example
from callgrove.model.study.series import Study
from callgrove.viewer.report import Input, report
from tests.browser.commands import printed
from tests.browser.conftest import OpenPage
from tests.browser.genuine import genuine_page
from tests.browser.made import EVIL
from tests.browser.reading import downloaded, open_tab, picked, rows, shown_panel, tooltip, wait_for_picture
from tests.viewer.pages import two_runs


def choose(page: Page, label: str, value: str) -> None:
    shown_panel(page).locator(f'label.choice:has(span:text-is("{label}"))').locator("select").select_option(label=value)
    wait_for_picture(page)


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_models_and_predictions_are_those_of_the_command_line(
    dark: bool,
    shared: Path,
    open_page: OpenPage,
    screenshot: Callable[[Page, str], None],
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    path = shared / "data" / "own" / "scaling" / "runs"
    page = open_page(genuine_page(path, tmp_path), dark=dark)
    open_tab(page, "Scaling")
    screenshot(page, f"scaling-{'dark' if dark else 'light'}")
    saved = downloaded(page, shown_panel(page).get_by_role("button", name="CSV"), tmp_path)
    found = list(csv.DictReader(io.StringIO(saved.read_text("utf-8"))))
    models = {
        row["callpath"]: row
        for row in printed(capsys, "model", path, "-m", "time", "--limit", "1000")
        if row["metric"] == "time"
    }
    predictions = printed(capsys, "predict", path, "-m", "time", "--at", "p=64,n=16000", "--limit", "1000")
    predicted = [row for row in predictions if row["metric"] == "time"]
    assert [row["callpath"] for row in found] == [row["callpath"] for row in predicted]
    for row, wanted in zip(found, predicted, strict=True):
        model = models[row["callpath"]]
        assert row["function"] == model["function"]
        assert float(row["smape"]) == model["smape"]
        assert float(row["prediction"]) == pytest.approx(wanted["prediction"], rel=1e-12)
        assert (row["trust"], row["reason"]) == (wanted["trust"], wanted["reason"])
        if wanted["share"] is None:
            assert row["share"] == ""
        else:
            assert float(row["share"]) == pytest.approx(wanted["share"], rel=1e-9)
    assert rows(page)[0][0] == " \u203a ".join(found[0]["callpath"].split("->")[-2:])


def test_a_plot_shows_what_was_measured(
    tmp_path: Path, open_page: OpenPage, screenshot: Callable[[Page, str], None]
) -> None:
    study = study_example()
    path = tmp_path / "study.html"
    path.write_text(report([Input(study, ["study.txt"])]), encoding="utf-8")
    page = open_page(path)
    open_tab(page, "Scaling")
    table = shown_panel(page).locator(".row")
    table.nth(1).click()
    chosen = shown_panel(page).locator(".scaling-title").get_attribute("title")
    assert chosen in study.callpaths
    choose(page, "Along", "n")
    choose(page, "p", "16")
    canvas = shown_panel(page).locator("canvas")
    canvas.focus()
    page.keyboard.press("ArrowRight")
    series = study.series(str(chosen), "time")
    low = min(n for p, n in series.points.tolist() if p == 16)
    at = next(k for k, point in enumerate(series.points.tolist()) if point == [16, low])
    found = tooltip(page)
    assert found["title"] == f"p = 16, n = {low:g}"
    assert found["mean"] == str(float(f"{series.mean[at]:.4g}"))  # no unit is known, so four digits
    for box in shown_panel(page).get_by_role("checkbox").all():
        box.set_checked(not box.is_checked())
    screenshot(page, "scaling-study-log")
    target = shown_panel(page).get_by_label("Predict at p")
    before = [cells[-1] for cells in rows(page)]
    target.fill("1000000")
    target.press("Enter")
    assert [cells[-1] for cells in rows(page)] != before


def test_a_plot_begins_where_most_was_measured(tmp_path: Path, open_page: OpenPage) -> None:
    """Points that lie on a cross have no measurement at the largest values of all parameters."""
    points = [(p, 1.0) for p in (2.0, 4.0, 8.0, 16.0, 32.0)] + [(2.0, n) for n in (2.0, 3.0)]
    study = Study.from_values(["p", "n"], points, [("f", "time", k, [p * n]) for k, (p, n) in enumerate(points)])
    path = tmp_path / "cross.html"
    path.write_text(report([Input(study, ["cross.txt"])]), encoding="utf-8")
    page = open_page(path)
    open_tab(page, "Scaling")
    canvas = shown_panel(page).locator("canvas")
    canvas.focus()
    page.keyboard.press("ArrowRight")
    assert tooltip(page)["title"] == "p = 2, n = 1"
    choose(page, "Along", "n")
    picture = shown_panel(page).get_by_role("button", name="SVG")
    assert "nothing was measured" not in downloaded(page, picture, tmp_path).read_text("utf-8")
    choose(page, "p", "16")  # n = 1 alone was measured there
    assert "nothing was measured" not in downloaded(page, picture, tmp_path).read_text("utf-8")


def test_a_plot_without_measurements_says_so(tmp_path: Path, open_page: OpenPage) -> None:
    points = [(2.0, 1.0, 1.0), (4.0, 1.0, 1.0), (2.0, 3.0, 1.0), (2.0, 1.0, 3.0)]
    study = Study.from_values(["p", "n", "k"], points, [("f", "time", k, [sum(at)]) for k, at in enumerate(points)])
    path = tmp_path / "sparse.html"
    path.write_text(report([Input(study, ["sparse.txt"])]), encoding="utf-8")
    page = open_page(path)
    open_tab(page, "Scaling")
    choose(page, "n", "3")
    choose(page, "k", "3")
    saved = downloaded(page, shown_panel(page).get_by_role("button", name="SVG"), tmp_path)
    assert "nothing was measured at n = 3, k = 3" in saved.read_text("utf-8")


def test_the_overview_says_what_is_costly_and_what_grows(
    tmp_path: Path, open_page: OpenPage, screenshot: Callable[[Page, str], None]
) -> None:
    points = [(float(p),) for p in (2, 4, 8, 16, 32)]
    entries = [
        (name, "time", k, [value])
        for k, (p,) in enumerate(points)
        for name, value in (("main->steady", 500.0), ("main->grows", p), ("main->tiny", p * p / 1e6))
    ]
    path = tmp_path / "study.html"
    path.write_text(report([Input(Study.from_values(["p"], points, entries), ["study.txt"])]), encoding="utf-8")
    page = open_page(path)
    screenshot(page, "study-growth")
    saved = downloaded(page, shown_panel(page).get_by_role("button", name="SVG").first, tmp_path)
    texts = [text for text in ET.parse(saved).getroot().itertext() if text.strip()]
    assert texts[:4] == ["main \u203a steady", "500  79.6%", "main \u203a grows", "128  20.4%"]  # 500 / (500 + 128)
    growing = page.get_by_label("Grows most from p = 32 to p = 128")
    growing.hover(position={"x": 20, "y": 10})
    assert tooltip(page)["at p = 128"] == "128 (20.4%)"
    growing.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert page.get_by_role("tab", selected=True).inner_text() == "Scaling"
    assert shown_panel(page).locator(".scaling-title").inner_text() == "main \u203a grows"
    assert shown_panel(page).locator(".hint.mono").inner_text().endswith("1·p")


def test_ratios_on_the_overview_have_no_shares(tmp_path: Path, open_page: OpenPage) -> None:
    points = [(float(p),) for p in (2, 4, 8, 16, 32)]
    entries = [
        (f"main->{name}", metric, k, [factor * p])
        for k, (p,) in enumerate(points)
        for metric in ("time", "per visit")
        for name, factor in (("a", 1.0), ("b", 3.0))
    ]
    study = replace(Study.from_values(["p"], points, entries), ratios=("per visit",))
    path = tmp_path / "study.html"
    path.write_text(report([Input(study, ["study.txt"])]), encoding="utf-8")
    page = open_page(path)
    hints = shown_panel(page).locator(".card-head .hint")
    assert hints.all_inner_texts()[-2:] == [
        "what the models predict, and its share of them all",
        "of all with 1.0% or more there",
    ]
    picked(page, "Metric", "per visit")
    assert hints.all_inner_texts()[-2:] == ["what the models predict", ""]
    saved = downloaded(page, shown_panel(page).get_by_role("button", name="SVG").first, tmp_path)
    texts = [text for text in ET.parse(saved).getroot().itertext() if text.strip()]
    assert texts[:4] == ["main \u203a b", "384", "main \u203a a", "128"]


def test_runs_that_make_no_study_say_why(
    tmp_path: Path, open_page: OpenPage, screenshot: Callable[[Page, str], None]
) -> None:
    path = tmp_path / "runs.html"
    path.write_text(report([Input(two_runs(), ["runs"])]), encoding="utf-8")
    page = open_page(path)
    open_tab(page, "Scaling")
    screenshot(page, "scaling-unavailable")
    assert shown_panel(page).locator(".reason").inner_text().startswith("the runs do not make a study: ")


def test_the_keyboard_goes_from_model_to_model(tmp_path: Path, open_page: OpenPage) -> None:
    path = tmp_path / "study.html"
    path.write_text(report([Input(study_example(), ["study.txt"])]), encoding="utf-8")
    page = open_page(path)
    open_tab(page, "Scaling")
    title = shown_panel(page).locator(".scaling-title")
    first = title.inner_text()
    shown_panel(page).locator(".table").focus()
    page.keyboard.press("ArrowDown")
    assert title.inner_text() == rows(page)[1][0] != first


def test_names_stay_text(tmp_path: Path, open_page: OpenPage) -> None:
    points = [(float(p),) for p in (2, 4, 8, 16, 32)]
    study = Study.from_values([EVIL], points, [(EVIL, EVIL, n, [p, 2 * p]) for n, (p,) in enumerate(points)])
    path = tmp_path / "evil.html"
    path.write_text(report([Input(study, [EVIL])]), encoding="utf-8")
    page = open_page(path)
    open_tab(page, "Scaling")
    assert shown_panel(page).locator(".scaling-title").inner_text() == EVIL
    assert rows(page)[0][0] == EVIL
    shown_panel(page).locator("canvas").focus()
    page.keyboard.press("ArrowRight")
    assert tooltip(page)["title"] == f"{EVIL} = 2"
    assert page.locator("img").count() == 0
