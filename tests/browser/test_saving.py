"""Pictures and tables as files."""

from __future__ import annotations

import csv
import io
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.browser.commands import printed
from tests.browser.conftest import OpenPage, few_tabs
from tests.browser.reading import downloaded, open_tab, shown_panel
from tests.formats.samples import CORPUS

PNG = b"\x89PNG\r\n\x1a\n"


@few_tabs
def test_every_picture_and_table_can_be_saved(
    tabs: tuple[str, ...], stencil: Path, open_page: OpenPage, tmp_path: Path
) -> None:
    page = open_page(stencil)
    for tab in tabs:
        open_tab(page, tab)
        n_pictures = shown_panel(page).locator(".picture").count()
        buttons = shown_panel(page).locator(".savers button")
        kinds = [text.removeprefix("↓ ") for text in buttons.all_inner_texts()]
        assert kinds.count("SVG") == kinds.count("PNG") == n_pictures
        assert kinds.count("CSV") >= bool(shown_panel(page).locator(".table").count())
        for number, kind in enumerate(kinds):
            saved = downloaded(page, buttons.nth(number), tmp_path)
            assert saved.suffix == f".{kind.lower()}"
            if kind == "SVG":
                assert len(ET.parse(saved).getroot()) > 3
            elif kind == "PNG":
                assert saved.read_bytes().startswith(PNG)
            else:
                assert len(saved.read_text("utf-8").splitlines()) > 3


@pytest.mark.parametrize(("view", "options"), [("Top-down", ()), ("Bottom-up", ("--bottom-up",)), ("Flat", None)])
def test_saved_tables_are_those_of_the_command_line(
    view: str, options: tuple[str, ...] | None, written: Callable[..., Path], open_page: OpenPage, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    database = CORPUS / "hpctoolkit" / "release" / "mpi4.d"
    page = open_page(written(database))
    open_tab(page, "Call tree")
    page.get_by_role("radio", name=view).click()
    saved = downloaded(page, page.get_by_role("button", name="CSV"), tmp_path)
    got = list(csv.DictReader(io.StringIO(saved.read_text("utf-8"))))
    words = ("tree", database, *options) if options is not None else ("top", database)
    expected = printed(capsys, *words, "--limit", "all")
    assert list(got[0]) == list(expected[0])
    for ours, theirs in zip(got, expected, strict=True):
        for column, cell in theirs.items():
            if column in ("exclusive", "inclusive", "percent"):
                assert float(ours[column]) == pytest.approx(cell, rel=1e-12)
            else:
                assert ours[column] == ("" if cell is None else str(cell))
