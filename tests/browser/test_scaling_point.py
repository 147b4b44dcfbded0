"""The scaling page as somebody works with it: the point of prediction, models together, two parameters, the address."""

from __future__ import annotations

import csv
import io
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Page, expect

import callgrove
from callgrove.arrays import Floats
from callgrove.model.study.series import Study
from callgrove.modeling.fitting import model_study
from callgrove.modeling.prediction import predict, runner_ups, target_of
from callgrove.modeling.surfaces import Dominance, contour_levels, dominance_of, find_contour, surface_of
from callgrove.viewer.report import Input, report
from tests.browser.conftest import OpenPage, OpenView, Screenshot
from tests.browser.reading import downloaded, open_tab, rows, shown_panel, tooltip, wait_for_picture
from tests.viewer.serving import made_input

SVG = "{http://www.w3.org/2000/svg}"


def one_parameter() -> Study:
    """Five call paths, measured five times with some noise; one of them is nothing but noise."""
    rng = np.random.default_rng(4)
    points = [(float(2**k),) for k in range(2, 8)]
    shapes = {"init": (3.0, 0.0), "solve": (20.0, 1.0), "exchange": (0.4, 0.5), "io": (0.01, 2.0), "odd": (1e-3, 0.3)}
    noise = {"odd": 0.9}
    entries = [
        (f"main->{name}", "time", k, list(c * p**power * (1 + noise.get(name, 0.03) * rng.random(5))))
        for name, (c, power) in shapes.items()
        for k, (p,) in enumerate(points)
    ]
    return Study.from_values(["p"], points, entries)


def two_parameters() -> Study:
    """Two call paths, of which the second overtakes the first."""
    points = [(float(2**k), float(n)) for k in range(2, 7) for n in (10, 20, 30, 40, 50)]
    entries = [
        (name, "time", k, [value])
        for k, (p, n) in enumerate(points)
        for name, value in (("main->steady", 5 * n), ("main->grows", p * n / 4))
    ]
    return Study.from_values(["p", "n"], points, entries)


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("scaling")
    for name, study in (("one", one_parameter()), ("two", two_parameters())):
        (folder / f"{name}.html").write_text(report([Input(study, [f"{name}.txt"])]), encoding="utf-8")
    return {name: folder / f"{name}.html" for name in ("one", "two")}


def table_of(page: Page, folder: Path) -> list[dict[str, str]]:
    """The table as it is saved."""
    saved = downloaded(page, shown_panel(page).get_by_role("button", name="CSV"), folder)
    return list(csv.DictReader(io.StringIO(saved.read_text("utf-8"))))


def picture_of(page: Page, folder: Path) -> ET.Element:
    wait_for_picture(page)
    return ET.parse(downloaded(page, shown_panel(page).get_by_role("button", name="SVG"), folder)).getroot()


def check_predictions(found: list[dict[str, str]], study: Study, **at: float) -> None:
    """Everything in a table equals what `predict` says there, in its order."""
    expected = predict(model_study(study), target_of(study, at))
    assert [row["callpath"] for row in found] == expected.column("callpath").plain()
    for name in ("prediction", "low", "high", "share"):
        values = [float(row[name] or "nan") for row in found]
        wanted = [np.nan if value is None else value for value in expected.column(name).plain()]
        assert values == pytest.approx(wanted, rel=1e-12, nan_ok=True)
    for name in ("trust", "reason"):
        assert [row[name] for row in found] == expected.column(name).plain()


def test_a_slider_moves_the_prediction(
    pages: dict[str, Path], open_page: OpenPage, tmp_path: Path, screenshot: Screenshot
) -> None:
    page = open_page(pages["one"])
    open_tab(page, "Scaling")
    slider = shown_panel(page).get_by_label("Move along p")
    check_predictions(table_of(page, tmp_path), one_parameter(), p=512)
    slider.press("End")
    assert slider.get_attribute("aria-valuetext") == "8192, 64 times the largest measured"
    expect(shown_panel(page).locator(".point-bar")).to_contain_text("p = 8192: 64 times the largest measured")
    screenshot(page, "scaling-point")
    check_predictions(table_of(page, tmp_path), one_parameter(), p=128 * 64)
    slider.press("Home")
    check_predictions(table_of(page, tmp_path), one_parameter(), p=4)
    expect(shown_panel(page).locator(".point-bar .match")).to_have_text("")


def test_a_report_says_what_it_does_not_know(pages: dict[str, Path], open_page: OpenPage, tmp_path: Path) -> None:
    page = open_page(pages["one"])
    open_tab(page, "Scaling")
    box = shown_panel(page).get_by_label("Predict at p")
    box.fill("1000")
    box.press("Enter")
    found = table_of(page, tmp_path)
    study = one_parameter()
    expected = predict(model_study(study), target_of(study, {"p": 1000.0}))
    predicted = dict(zip(expected.column("callpath").plain(), expected.column("prediction").plain(), strict=True))
    assert {row["callpath"]: float(row["prediction"]) for row in found} == pytest.approx(predicted, rel=1e-12)
    assert {row[name] for row in found for name in ("low", "high", "share", "trust", "reason")} == {""}
    words = shown_panel(page).locator(".point-bar .match")
    expect(words).to_contain_text("at the slider's stops; callgrove predict --at p=1000 tells them here")


def test_the_viewer_knows_every_point(open_view: OpenView, tmp_path: Path) -> None:
    page = open_view(made_input(one_parameter()))
    open_tab(page, "Scaling")
    box = shown_panel(page).get_by_label("Predict at p")
    box.fill("1000")
    box.press("Enter")
    expect(shown_panel(page).locator(".point-bar .match")).to_have_text("p = 1000: 7.81 times the largest measured")
    check_predictions(table_of(page, tmp_path), one_parameter(), p=1000)


def test_runner_ups_are_those_of_the_library(pages: dict[str, Path], open_page: OpenPage, tmp_path: Path) -> None:
    page = open_page(pages["one"])
    open_tab(page, "Scaling")
    shown_panel(page).locator(".row", has_text="odd").click()
    without = len(picture_of(page, tmp_path).findall(f"{SVG}polyline"))
    shown_panel(page).get_by_label("runner-ups").check()
    models = model_study(one_parameter())
    number = next(n for n in range(len(models)) if models.callpath(n) == "main->odd")
    at = np.array([[512.0]])
    listed = runner_ups(models, number, at[0])["prediction"]
    others = [value for value in listed if value != pytest.approx(float(models.predict(at)[number, 0]))][:5]
    assert len(others) == 5
    assert len(picture_of(page, tmp_path).findall(f"{SVG}polyline")) == without + 5
    canvas = shown_panel(page).locator("canvas")
    size = canvas.bounding_box()
    assert size is not None
    canvas.hover(position={"x": size["width"] - 26, "y": 150})
    said = tooltip(page)
    assert said["title"] == "p = 512"
    assert [float(text) for text in [*said.values()][-5:]] == pytest.approx(others, rel=1e-3)


def test_a_prediction_outside_its_interval_says_why(open_page: OpenPage, shared: Path, tmp_path: Path) -> None:
    study = callgrove.open(shared / "data/public/extrap/text/two_parameter_1.txt")
    assert isinstance(study, Study)
    path = tmp_path / "study.html"
    path.write_text(report([Input(study, ["study.txt"])]), encoding="utf-8")
    page = open_page(path)
    open_tab(page, "Scaling")
    table = predict(model_study(study), target_of(study, {"x": 240.0, "y": 5.0}))
    prediction, low, trust, reason = (table.column(one).plain()[0] for one in ("prediction", "low", "trust", "reason"))
    assert prediction < low
    assert trust == "poor"
    assert reason.startswith("says 2.37e+04; more likely from ")
    expect(shown_panel(page).get_by_title(f"{trust}: {reason}")).to_be_visible()
    page.get_by_role("radio", name="Curves").click()
    canvas = shown_panel(page).locator("canvas")
    size = canvas.bounding_box()
    assert size is not None
    canvas.hover(position={"x": size["width"] - 26, "y": 150})
    assert tooltip(page)["trust"] == f"{trust}: {reason}"


def test_repetitions_are_drawn(pages: dict[str, Path], open_page: OpenPage, tmp_path: Path) -> None:
    page = open_page(pages["one"])
    open_tab(page, "Scaling")
    dots = [one for one in picture_of(page, tmp_path).findall(f"{SVG}circle") if one.get("r") == "2.2"]
    assert len(dots) == 6 * 5


def test_models_are_drawn_together(pages: dict[str, Path], open_page: OpenPage, tmp_path: Path) -> None:
    """5 n and p n / 4 are equal at p = 20, wherever n is."""
    page = open_page(pages["two"])
    open_tab(page, "Scaling")
    table = shown_panel(page).locator(".table")
    table.focus()
    page.keyboard.press(" ")
    page.keyboard.press("ArrowDown")
    assert shown_panel(page).locator('.row[aria-selected="true"]').count() == 2
    texts = [text for text in picture_of(page, tmp_path).itertext() if text.strip()]
    assert {"main \u203a grows: 0.25·p·n", "main \u203a steady: 5·n"} <= {
        re.sub(r"^(.*: ).* \+ ", r"\1", text) for text in texts
    }
    expect(shown_panel(page)).to_contain_text("main \u203a grows overtakes main \u203a steady at p \u2248 20.0")
    shown_panel(page).get_by_title("Do not draw main \u203a grows").click()
    assert shown_panel(page).locator('.row[aria-selected="true"]').count() == 1


def lines_of(picture: ET.Element, width: str, stroke: str = "") -> Floats:
    """Straight lines of a width: x, y, x, y."""
    found = [
        [float(number) for number in re.split("[ ,]", line.get("points", ""))]
        for line in picture.findall(f"{SVG}polyline")
        if line.get("stroke-width") == width and stroke in line.get("stroke", "") and not line.get("stroke-dasharray")
    ]
    return np.array([line for line in found if len(line) == 4]).reshape(-1, 4)


def placed(pieces: Floats, side: int, frame: ET.Element) -> Floats:
    """Pieces of a line in steps of a grid, as pixels."""
    x, y, width, height = (float(frame.get(name, "")) for name in ("x", "y", "width", "height"))
    part = pieces / (side - 1)
    return np.column_stack(
        [
            x + part[:, 0] * width,
            y + height - part[:, 1] * height,
            x + part[:, 2] * width,
            y + height - part[:, 3] * height,
        ]
    )


def frame_of(picture: ET.Element) -> ET.Element:
    """The border around a map."""
    return next(one for one in picture.findall(f"{SVG}rect") if one.get("fill") == "none")


def test_contours_and_overtaking_lines_are_those_of_the_plots(
    pages: dict[str, Path], open_page: OpenPage, tmp_path: Path, screenshot: Screenshot
) -> None:
    models = model_study(two_parameters())
    grows = next(n for n in range(len(models)) if models.callpath(n) == "main->grows")
    at = np.array([256.0, 50.0])
    page = open_page(pages["two"], dark=True)
    open_tab(page, "Scaling")
    shown_panel(page).locator(".row", has_text="grows").click()
    shown_panel(page).get_by_role("radio", name="Heat map").click()
    picture = picture_of(page, tmp_path)
    surface = surface_of(models, grows, at)
    levels = contour_levels(float(surface.z.min()), float(surface.z.max()))
    expected = np.concatenate([find_contour(surface.z, level) for level in levels])
    found = lines_of(picture, "1")[: len(expected)]
    assert found == pytest.approx(placed(expected, 48, frame_of(picture)), abs=0.011)
    assert len([one for one in picture.findall(f"{SVG}circle") if one.get("r") == "3.5"]) == 25
    shown_panel(page).locator(".row-mark").nth(0).click()
    shown_panel(page).locator(".row-mark").nth(1).click()
    shown_panel(page).get_by_role("radio", name="Largest").click()
    screenshot(page, "scaling-largest-dark")
    picture = picture_of(page, tmp_path)
    border = border_of(dominance_of(models, range(2), at))
    assert lines_of(picture, "2") == pytest.approx(placed(border, 48, frame_of(picture)), abs=0.011)


def border_of(dominance: Dominance) -> Floats:
    """The line at which two functions are equal."""
    return find_contour(dominance.values[0] - dominance.values[1], 0.0)


def test_a_surface_turns(pages: dict[str, Path], open_page: OpenPage, tmp_path: Path, screenshot: Screenshot) -> None:
    page = open_page(pages["two"])
    open_tab(page, "Scaling")
    shown_panel(page).get_by_role("radio", name="Surface").click()
    screenshot(page, "scaling-surface")
    first = ET.tostring(picture_of(page, tmp_path))
    assert first.count(b"polygon") == 47 * 47 + 1
    canvas = shown_panel(page).locator("canvas")
    canvas.press("ArrowRight")
    second = ET.tostring(picture_of(page, tmp_path))
    canvas.press("Home")
    assert ET.tostring(picture_of(page, tmp_path)) == first != second
    box = canvas.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 300, box["y"] + 100)
    page.mouse.down()
    page.mouse.move(box["x"] + 310, box["y"] + 100)  # 5 degrees, as the key
    page.mouse.up()
    assert ET.tostring(picture_of(page, tmp_path)) == second


def test_the_address_holds_what_is_looked_at(open_view: OpenView, tmp_path: Path) -> None:
    page = open_view(made_input(two_parameters(), "study.txt"))
    open_tab(page, "Scaling")
    shown_panel(page).locator(".row", has_text="steady").locator(".row-mark").click()
    shown_panel(page).get_by_role("radio", name="Surface").click()
    shown_panel(page).get_by_label("Move along n").focus()
    page.keyboard.press("End")
    shown_panel(page).locator("canvas").focus()
    page.keyboard.press("ArrowUp")
    expect(page).to_have_url(re.compile(r"plot=surface.*point=p%3D256%2Cn%3D3200.*turn=35%2C30"))
    before = rows(page)
    picture = ET.tostring(picture_of(page, tmp_path))
    page.reload()
    page.wait_for_selector("html[data-ready]", state="attached")
    expect(shown_panel(page).get_by_role("radio", name="Surface")).to_have_attribute("aria-checked", "true")
    assert rows(page) == before
    assert ET.tostring(picture_of(page, tmp_path)) == picture
    page.get_by_role("button", name="Command").click()
    expect(page.locator(".lookbar code")).to_have_text("callgrove predict study.txt -m time --at p=256,n=3200")
    address = page.url
    page.go_back()
    expect(page).not_to_have_url(address)
    page.go_forward()
    expect(page).to_have_url(address)
    expect(shown_panel(page).get_by_label("Predict at n")).to_have_value("3200")


def test_values_that_pictures_fix_are_chosen(open_page: OpenPage, tmp_path: Path) -> None:
    """Of three parameters, a map is over two: p + 10 n + 100 k."""
    points = [(p, n, k) for p in (1.0, 2.0, 4.0, 8.0, 16.0) for n in (1.0, 2.0, 3.0, 4.0, 5.0) for k in (1.0, 2.0)]
    entries = [("f", "time", at, [p + 10 * n + 100 * k]) for at, (p, n, k) in enumerate(points)]
    path = tmp_path / "three.html"
    study = Study.from_values(["p", "n", "k"], points, entries)
    path.write_text(report([Input(study, ["three.txt"])]), encoding="utf-8")
    page = open_page(path)
    open_tab(page, "Scaling")
    shown_panel(page).get_by_role("radio", name="Heat map").click()
    ends = []
    for k in ("1", "2"):
        shown_panel(page).locator('label.choice:has(span:text-is("k")) select').select_option(label=k)
        canvas = shown_panel(page).locator("canvas")
        canvas.focus()
        page.keyboard.press("ArrowRight")
        ends.append((tooltip(page)["title"], float(tooltip(page)["model"])))
    models = model_study(study)
    assert ends[0][0] == "p = 1, n = 1, k = 1"
    wanted = models.predict(np.array([ends_at(title) for title, _ in ends]))[0]
    assert [value for _, value in ends] == pytest.approx(wanted.tolist(), rel=1e-3)
    assert ends[1][0].endswith("k = 2")


def ends_at(text: str) -> list[float]:
    """The point that a title names."""
    return [float(word.split(" = ")[1]) for word in text.split(", ")]
