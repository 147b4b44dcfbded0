"""Efficiencies as a reader meets them: the numbers of `pop`, with colours that can be read and never stand alone."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from playwright.sync_api import Page

from callgrove.examples import example, gpu_example
from callgrove.viewer.report import Input, report
from tests.browser.commands import printed
from tests.browser.conftest import OpenPage, Screenshot
from tests.browser.genuine import genuine_page
from tests.browser.reading import downloaded, open_tab, shown_panel
from tests.browser.test_report import luminance


def cells_of(page: Page) -> dict[str, list[str]]:
    """The texts of the rows by the name of their figure."""
    found: list[list[str]] = page.evaluate(
        "() => [...document.querySelectorAll('.panel:not([hidden]) .efficiencies tbody tr')]"
        ".map(row => [...row.children].map(cell => cell.textContent))"
    )
    return {row[0]: row[1:] for row in found}


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_numbers_are_those_of_pop(
    dark: bool,
    shared: Path,
    open_page: OpenPage,
    screenshot: Screenshot,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    path = shared / "data" / "own" / "cube" / "mpi4" / "profile.cubex"
    page = open_page(genuine_page(path, tmp_path), dark=dark)
    open_tab(page, "Efficiency")
    screenshot(page, f"efficiency-{'dark' if dark else 'light'}")
    expected = {row["name"]: row["profile.cubex"] for row in printed(capsys, "pop", path)}
    cells = cells_of(page)
    assert list(cells) == [name for name, value in expected.items() if value is not None]
    assert cells["load balance"] == [f"{expected['load balance']:.3f} !!"]
    assert cells["MPI load balance"] == [f"{expected['MPI load balance']:.3f}"]
    assert cells["threads"] == ["8"]
    saved = downloaded(page, shown_panel(page).get_by_role("button", name="CSV"), tmp_path)
    rows = list(csv.DictReader(io.StringIO(saved.read_text("utf-8"))))
    assert {row["name"]: float(row["profile.cubex"]) for row in rows} == {
        name: value for name, value in expected.items() if value is not None
    }
    assert "serialisation efficiency" in shown_panel(page).locator(".notes").inner_text()


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_ink_can_be_read_on_every_grade(dark: bool, stencil: Path, open_page: OpenPage) -> None:
    page = open_page(stencil, dark=dark)
    open_tab(page, "Efficiency")
    found = page.evaluate(
        "() => [...document.querySelectorAll('.good, .fair, .poor')]"
        ".map(one => [one.className, getComputedStyle(one).backgroundColor, getComputedStyle(one).color])"
    )
    assert {word for name, _, _ in found for word in name.split()} >= {"good", "fair", "poor"}
    for name, fill, ink in found:
        light, low = sorted((luminance(fill), luminance(ink)), reverse=True)
        assert (light + 0.05) / (low + 0.05) > 7, name


def test_several_inputs_have_theirs(open_page: OpenPage, tmp_path: Path, screenshot: Screenshot) -> None:
    path = tmp_path / "both.html"
    path.write_text(report([Input(example(), ["stencil.d"]), Input(gpu_example(), ["train.db"])]), encoding="utf-8")
    page = open_page(path)
    open_tab(page, "Efficiency")
    assert "load balance" in cells_of(page)
    screenshot(page, "efficiency-stencil")
