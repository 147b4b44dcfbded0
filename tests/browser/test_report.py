"""Reports as a reader meets them: opened from disk, without a network."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page

from callgrove.examples import example
from callgrove.viewer.report import Input, report
from tests.browser.conftest import OpenPage


@pytest.fixture(scope="session")
def stencil(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "stencil.html"
    path.write_text(report([Input(example(), ["stencil.d"])]), encoding="utf-8")
    return path


def open_tab(page: Page, name: str) -> None:
    page.get_by_role("tab", name=name, exact=True).click()


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_every_view_is_drawn(
    stencil: Path, open_page: OpenPage, screenshot: Callable[[Page, str], None], dark: bool
) -> None:
    page = open_page(stencil, dark=dark)
    tabs = page.get_by_role("tab").all_inner_texts()
    assert tabs[:4] == ["Overview", "Flame graph", "Call tree", "Spread"]
    for name in tabs:
        open_tab(page, name)
        page.wait_for_timeout(100)  # one frame to draw in
        screenshot(page, f"stencil-{name.lower().replace(' ', '-')}-{'dark' if dark else 'light'}")
