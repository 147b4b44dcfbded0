"""Pages of differences and of several runs: drawn by size, in two colours; no sum of runs without a word."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from playwright.sync_api import Page

from callgrove.algebra.operations import diff
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.contexts import ContextKind
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Metric, Scope
from callgrove.model.profiles import ProfileKind
from callgrove.model.runs import Run
from callgrove.viewer.report import Input, report
from tests.browser.conftest import OpenPage, Screenshot
from tests.browser.reading import flame, level_height, open_tab, rows, shown_panel, tooltip

TOP = 34  # pixels of the flame graph above its first box


def program(*costs: float) -> Experiment:
    """main calls a, b and c."""
    builder = ExperimentBuilder("made", title="program")
    for number, name in enumerate(("main", "a", "b", "c")):
        builder.add_context(0 if number else -1, ContextKind.FUNCTION, builder.region(ContextKind.FUNCTION, name))
    builder.add_metric(Metric("time", Scope.EXCLUSIVE, unit="sec"))
    profile = builder.add_profile(ProfileKind.THREAD, [(2, 0, 0, 3)])
    builder.add_values(profile, np.arange(1, 4), 0, np.array(costs))
    return builder.build()


def opened(tmp_path: Path, open_page: OpenPage, experiment: Experiment) -> Page:
    path = tmp_path / "report.html"
    path.write_text(report([Input(experiment, ["made"])]), encoding="utf-8")
    return open_page(path)


def test_differences_are_sorted_and_drawn_by_size(tmp_path: Path, open_page: OpenPage, screenshot: Screenshot) -> None:
    """a takes 1 s less, b 6 s more and c 13 s less: 20 s of changes, -8 s in total."""
    page = opened(tmp_path, open_page, diff(program(1.0, 8.0, 2.0), program(2.0, 2.0, 15.0)))
    screenshot(page, "differences-overview")
    tiles = [text.split("\n") for text in page.locator(".tile").all_inner_texts()]
    assert tiles == [["-8 s", "difference of time"], ["6 s", "more"], ["-14 s", "less"], ["65.0%", "in c"]]
    assert page.get_by_role("heading", name="Largest changes", exact=True).is_visible()
    open_tab(page, "Call tree")
    page.get_by_role("radio", name="Flat").click()
    shown = [(cells[0], cells[2], cells[3]) for cells in rows(page)]
    assert shown == [
        ("c", "-13 s", "-65.0%"),
        ("b", "6 s", "30.0%"),
        ("a", "-1 s", "-5.0%"),
        ("main", "0 s", "0.0%"),
    ]
    page.get_by_role("radio", name="Top-down").click()
    assert [cells[0] for cells in rows(page)] == ["main", "c", "b", "a"]
    open_tab(page, "Flame graph")
    screenshot(page, "differences-flame")
    assert shown_panel(page).locator(".legend .key").all_inner_texts() == [
        "more, 6 s in all",
        "less, -14 s in all",
        "paler where both are inside",
    ]
    box = flame(page).bounding_box()
    assert box is not None
    y = box["y"] + TOP + 1.5 * level_height(page)
    middles = {"c": 0.325, "b": 0.8, "a": 0.975}  # 13, 6 and 1 of 20
    for name, middle in middles.items():
        page.mouse.move(box["x"] + middle * box["width"], y)
        assert tooltip(page)["title"] == name
    less, more, less_too = flame(page).evaluate(
        """(canvas, [places, y]) => {
            const { data } = canvas.getContext("2d").getImageData(0, y, canvas.width, 1);
            return places.map((x) => [...data.slice(4 * Math.round(x), 4 * Math.round(x) + 3)]);
        }""",
        [[middle * box["width"] - 8 for middle in middles.values()], round(TOP + 1.2 * level_height(page))],
    )
    assert less[2] > less[0], "blue"
    assert more[0] > more[2], "orange"
    assert less_too == less


def test_runs_stand_side_by_side_and_are_said_to_be_added_up(
    tmp_path: Path, open_page: OpenPage, screenshot: Screenshot
) -> None:
    builder = ExperimentBuilder("made", title="runs")
    builder.add_context(-1, ContextKind.FUNCTION, builder.region(ContextKind.FUNCTION, "main"))
    builder.add_metric(Metric("time", Scope.EXCLUSIVE, unit="sec"))
    for run in range(25):
        builder.add_run(Run("", {"n": float(run + 1)}))
        profile = builder.add_profile(ProfileKind.THREAD, [(2, 0, 0, 3)], run=run)
        builder.add_values(profile, np.array([0]), 0, np.array([float(run + 1)]))
    page = opened(tmp_path, open_page, builder.build())
    assert "imbalance" not in page.locator(".tiles").inner_text()
    assert "time of 25 runs added up" in page.locator(".tiles").inner_text()
    assert "25 runs are added up here" in shown_panel(page).locator(".notes").inner_text()
    open_tab(page, "Spread")
    screenshot(page, "runs-spread")
    assert page.get_by_role("heading", name="Run by run").is_visible()
    assert "imbalance" not in shown_panel(page).locator(".statistics").inner_text()
