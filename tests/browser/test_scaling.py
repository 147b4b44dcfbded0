"""Scaling models as a reader meets them."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page

from callgrove.examples import study_example
from callgrove.model.study import Study
from callgrove.viewer.report import Input, report
from tests.browser.conftest import OpenPage
from tests.browser.genuine import genuine_page
from tests.browser.reading import downloaded, open_tab, rows, shown_panel, tooltip
from tests.browser.test_report import printed
from tests.browser.test_timeline import EVIL


def choose(page: Page, label: str, value: str) -> None:
    shown_panel(page).locator(f'label.choice:has(span:text-is("{label}"))').locator("select").select_option(label=value)
    page.wait_for_timeout(60)


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
