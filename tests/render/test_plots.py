"""Plots of models as SVG: well-formed, whatever names and numbers they are made of."""

from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree

import pytest

from callgrove.model.study.builder import StudyBuilder
from callgrove.model.study.series import Study
from callgrove.modeling.fitting import model_study
from callgrove.modeling.prediction import curves_of
from callgrove.render.plots import axis_for, model_plot

SVG = "{http://www.w3.org/2000/svg}"


def plotted(values: list[float], x: list[float], name: str = "f") -> ElementTree.Element:
    builder = StudyBuilder(["p"])
    for at, value in zip(x, values, strict=True):
        builder.add_values(name, "time", builder.point([at]), [value, value * 1.1])
    return ElementTree.fromstring(model_plot(curves_of(model_study(builder.build()), 0)))


def test_measurements_are_dots_and_the_model_a_line() -> None:
    svg = plotted([9, 17, 33, 65, 129], [4, 8, 16, 32, 64])
    assert len([one for one in svg.findall(f"{SVG}circle") if one.get("fill") != "none"]) == 5
    assert len([one for one in svg.findall(f"{SVG}circle") if one.get("fill") == "none"]) == 10, "repetitions"
    (line,) = svg.findall(f"{SVG}polyline")
    points = [tuple(map(float, pair.split(","))) for pair in line.attrib["points"].split()]
    assert points == sorted(points)
    heights = [y for _, y in points]
    assert heights == sorted(heights, reverse=True)  # costs grow upwards
    texts = [text.text for text in svg.findall(f"{SVG}text")]
    assert "time" in texts
    assert "p" in texts


@pytest.mark.parametrize(
    ("metric", "unit", "shown"),
    [("time", "sec", "time (sec)"), ("T (sec)", "sec", "T (sec)"), ("x", "unknown", "x"), ("x", "", "x")],
)
def test_the_axis_has_its_unit(metric: str, unit: str, shown: str) -> None:
    points = [(float(p),) for p in (2, 4, 8)]
    study = Study.from_values(["p"], points, [("f", metric, k, [p]) for k, (p,) in enumerate(points)])
    plot = model_plot(curves_of(model_study(replace(study, units={metric: unit})), 0))
    assert shown in [text.text for text in ElementTree.fromstring(plot).findall(f"{SVG}text")]


@pytest.mark.parametrize("name", ['<script>"&', "a\x00b\x1b[31m", "µ" * 5000, "日本"])
def test_names_are_harmless(name: str) -> None:
    svg = plotted([1, 2, 3, 4, 5], [1, 2, 3, 4, 5], name)
    assert svg.find(f"{SVG}script") is None
    assert len(svg.findall(f"{SVG}text")[0].text or "") <= 100


@pytest.mark.parametrize("values", [[0, 0, 0], [5, 5, 5], [-1, 0, 1], [1e-300, 1, 1e300], [float("nan"), 1, 2]])
def test_any_numbers_can_be_drawn(values: list[float]) -> None:
    svg = plotted(values, [0, 1, 1000])
    for circle in svg.findall(f"{SVG}circle"):
        assert 0 <= float(circle.attrib["cy"]) <= 1000


def test_axes() -> None:
    wide = axis_for([1, 1e6], 0, 100)
    assert wide.logarithmic
    assert wide.marks() == [1, 10, 100, 1e3, 1e4, 1e5, 1e6]
    narrow = axis_for([20, 60], 0, 100)
    assert not narrow.logarithmic
    assert narrow.marks()[0] == 0
    assert axis_for([3, 3], 0, 100).place(3) == pytest.approx(50)
    assert axis_for([], 0, 100).marks()
