"""Pictures of models of two parameters: colours, contours, surfaces, and where one function overtakes another."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from callgrove.errors import UsageError
from callgrove.model.study.series import Study
from callgrove.modeling.fitting import Models, model_study
from callgrove.modeling.surfaces import dominance_of, surface_of
from callgrove.render.surface_plots import draw_dominance, draw_heat_map, draw_surface
from tests.cli.commands import Capture, run, said
from tests.requirements import need

SVG = "{http://www.w3.org/2000/svg}"
GRID = [(p, n) for p in (2.0, 4.0, 8.0, 16.0, 32.0) for n in (10.0, 20.0, 40.0, 80.0, 160.0)]


def models() -> Models:
    """f is 5 + 3 p, g is 5 + n: they cross where n = 3 p."""
    entries = [("f", "t", k, [5 + 3 * p]) for k, (p, _) in enumerate(GRID)]
    entries += [("g", "t", k, [5 + n]) for k, (_, n) in enumerate(GRID)]
    return model_study(Study.from_values(["p", "n"], GRID, entries))


def elements(svg: str, tag: str) -> list[ElementTree.Element]:
    return list(ElementTree.fromstring(svg).iter(f"{SVG}{tag}"))


def test_values_on_the_grid_are_the_functions() -> None:
    surface = surface_of(models(), 0)
    assert surface.z.shape == (48, 48)
    np.testing.assert_allclose(surface.z, np.broadcast_to(5 + 3 * surface.grid.x, (48, 48)))
    assert surface.measured.shape == (25, 3)
    reaching = surface_of(models(), 1, np.array([64.0, 1000.0]))
    assert (reaching.grid.x[-1], reaching.grid.y[-1]) == (pytest.approx(64), pytest.approx(1000))


def test_heat_map() -> None:
    svg = draw_heat_map(surface_of(models(), 0))
    assert len({one.get("fill") for one in elements(svg, "rect")}) > 30
    assert len(elements(svg, "path")) == 7, "contours"
    assert len(elements(svg, "circle")) == 3 * 25, "measurements"
    for path in elements(svg, "path"):  # f does not depend on n: its contours are straight, from bottom to top
        x = [float(value) for value in re.findall(r"[ML]([\d.]+) ", path.get("d", ""))]
        assert max(x) - min(x) < 0.3


def test_surface() -> None:
    svg = draw_surface(surface_of(models(), 1))
    cells = [one for one in elements(svg, "polygon") if one.get("stroke") == "#ffffff"]
    assert len(cells) == 47 * 47
    assert len(elements(svg, "circle")) == 25


def test_where_one_overtakes_another() -> None:
    dominance = dominance_of(models(), [0, 1])
    rising = 3 * dominance.grid.x[None, :] - dominance.grid.y[:, None]
    assert ((dominance.largest == 0) == (rising > 0)).all()
    svg = draw_dominance(dominance)
    (line,) = elements(svg, "path")
    ends = [tuple(map(float, pair.split())) for pair in re.findall(r"[ML]([\d.]+ [\d.]+)", line.get("d", ""))]
    x = np.interp([a for a, _ in ends], [80, 600], np.log([2, 32]))
    y = np.interp([-b for _, b in ends], [-440, -70], np.log([10, 160]))
    np.testing.assert_allclose(np.exp(y - x), 3, rtol=0.02)
    assert {"f", "g"} <= {one.text for one in elements(svg, "text")}


def test_one_parameter_has_no_surface() -> None:
    study = Study.from_values(["p"], [[x] for x in (1, 2, 4, 8, 16)], [("f", "t", k, [1.0 + k]) for k in range(5)])
    with pytest.raises(UsageError, match="a surface needs two parameters"):
        surface_of(model_study(study), 0)


@pytest.mark.parametrize("ending", ["svg", "png", "pdf"])
@pytest.mark.parametrize("chart", ["heat", "surface", "curves"])
def test_files_of_all_kinds(chart: str, ending: str, tmp_path: Path, capsys: Capture) -> None:
    if ending != "svg":
        try:
            import cairosvg  # noqa: F401
        except (ImportError, OSError):
            need("plots", "cairosvg, or cairo, is not installed")
    text = "PARAMETER p\nPARAMETER n\nPOINTS " + " ".join(f"({p:g} {n:g})" for p, n in GRID)
    text += "\nREGION f\nMETRIC t\n" + "".join(f"DATA {5 + 3 * p + n}\n" for p, n in GRID)
    (tmp_path / "s.txt").write_text(text)
    target = tmp_path / f"plot.{ending}"
    run(capsys, "model", tmp_path / "s.txt", "--plot", target, "--chart", chart)
    begins = {"svg": b"<svg", "png": b"\x89PNG\r\n", "pdf": b"%PDF"}[ending]
    assert target.read_bytes().startswith(begins)


def test_a_map_of_what_costs_most(tmp_path: Path, capsys: Capture) -> None:
    text = "PARAMETER p\nPARAMETER n\nPOINTS " + " ".join(f"({p:g} {n:g})" for p, n in GRID) + "\nMETRIC t\n"
    for name, values in (("f", [5 + 3 * p for p, _ in GRID]), ("g", [5 + n for _, n in GRID])):
        text += f"REGION {name}\n" + "".join(f"DATA {value}\n" for value in values)
    (tmp_path / "s.txt").write_text(text)
    words = "model", tmp_path / "s.txt", "--rank-by", "share", "--plot", tmp_path / "map.svg"
    run(capsys, *words, "--chart", "heat")
    assert "overtakes another" in (tmp_path / "map.svg").read_text()
    assert "draws one model" in said(capsys, *words, "--chart", "surface", code=2)
