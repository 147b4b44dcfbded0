"""What devices did, as a reader meets it."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page

from callgrove.render.units import percent, si
from callgrove.viewer.report import Input, report
from tests.browser.commands import printed
from tests.browser.conftest import OpenPage
from tests.browser.genuine import genuine_page
from tests.browser.made import EVIL, spans_of
from tests.browser.reading import downloaded, open_tab, rows, shown_panel

PLACES = {"start_ns", "section", "name"}


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_numbers_are_those_of_the_summary(
    dark: bool,
    shared: Path,
    open_page: OpenPage,
    screenshot: Callable[[Page, str], None],
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    path = shared / "data" / "own" / "rocpd" / "small"
    page = open_page(genuine_page(path, tmp_path), dark=dark)
    open_tab(page, "GPU")
    screenshot(page, f"gpu-overview-{'dark' if dark else 'light'}")
    expected: dict[str, list[dict[str, Any]]] = {}
    for row in printed(capsys, "summary", path):
        expected.setdefault(row["section"], []).append(row)
    sections = shown_panel(page).get_by_role("radio").all_inner_texts()
    assert sections == ["overview", *expected]
    for section in sections[1:]:
        shown_panel(page).get_by_role("radio", name=section, exact=True).click()
        screenshot(page, f"gpu-{section}-{'dark' if dark else 'light'}")
        saved = downloaded(page, shown_panel(page).get_by_role("button", name="CSV"), tmp_path)
        found = list(csv.DictReader(io.StringIO(saved.read_text("utf-8"))))
        assert [row["name"] for row in found] == [row["name"] for row in expected[section]]
        for row, wanted in zip(found, expected[section], strict=True):
            for name, cell in row.items():
                assert (cell or None) == (None if wanted[name] is None else cell)
                if cell and name not in PLACES:
                    assert float(cell) == wanted[name]
            assert row.get("start_ns", "") == str(wanted.get("start_ns") or "")


def test_the_overview_says_what_devices_did(
    shared: Path, tmp_path: Path, open_page: OpenPage, capsys: pytest.CaptureFixture[str]
) -> None:
    path = shared / "data" / "own" / "rocpd" / "small"
    page = open_page(genuine_page(path, tmp_path))
    shares = {row["name"]: row["percent"] for row in printed(capsys, "summary", path) if row["section"] == "overlap"}
    legend = shown_panel(page).locator(".legend .key").all_inner_texts()
    assert set(legend) <= {f"{name} {percent(share / 100)}" for name, share in shares.items()}
    assert len(legend) >= 5
    shown_panel(page).get_by_role("button", name="More").click()
    assert page.get_by_role("tab", selected=True).inner_text() == "GPU"


def test_a_small_window_holds_everything(shared: Path, tmp_path: Path, open_page: OpenPage) -> None:
    page = open_page(genuine_page(shared / "data" / "own" / "rocpd" / "small", tmp_path))
    page.set_viewport_size({"width": 920, "height": 640})
    for tab in page.get_by_role("tab").all_inner_texts():
        open_tab(page, tab)
        assert page.evaluate("() => document.documentElement.scrollWidth") == 920, tab


def test_tables_sort_and_search(
    shared: Path, tmp_path: Path, open_page: OpenPage, capsys: pytest.CaptureFixture[str]
) -> None:
    path = shared / "data" / "own" / "rocpd" / "small"
    page = open_page(genuine_page(path, tmp_path))
    open_tab(page, "GPU")
    shown_panel(page).get_by_role("radio", name="kernels").click()
    expected = [row for row in printed(capsys, "summary", path) if row["section"] == "kernels"]
    row = expected[0]
    assert rows(page)[0][:4] == [
        row["name"],
        f"{row['count']:,}",
        si(row["total_ns"] / 1e9, "s"),
        percent(row["percent"] / 100),
    ]
    shown_panel(page).get_by_role("columnheader", name="max").click()
    assert [cells[0] for cells in rows(page)] == [r["name"] for r in sorted(expected, key=lambda r: -r["max_ns"])]
    page.get_by_role("searchbox").fill("gemm")
    assert [cells[0] for cells in rows(page)] == [r["name"] for r in expected if "gemm" in r["name"]]


def test_names_stay_text(tmp_path: Path, open_page: OpenPage) -> None:
    path = tmp_path / "evil.html"
    path.write_text(report([Input(spans_of(1, 6, (EVIL, "</script>")), ["evil"])]), encoding="utf-8")
    page = open_page(path)
    open_tab(page, "GPU")
    shown_panel(page).locator("canvas").nth(1).hover(position={"x": 10, "y": 10})
    assert page.locator(".tooltip-title").inner_text() in (EVIL, "</script>")
    shown_panel(page).get_by_role("radio", name="kernels").click()
    assert {cells[0] for cells in rows(page)} == {EVIL, "</script>"}
    assert page.locator("img").count() == 0


def test_a_bar_leads_to_the_timeline(shared: Path, tmp_path: Path, open_page: OpenPage) -> None:
    page = open_page(genuine_page(shared / "data" / "own" / "rocpd" / "small", tmp_path))
    open_tab(page, "GPU")
    shown_panel(page).get_by_label("Longest gaps by time").click(position={"x": 20, "y": 10})
    assert page.get_by_role("tab", selected=True).inner_text() == "Timeline"
    assert shown_panel(page).locator(".timeline-status").inner_text().startswith("27.8 us from ")  # three times 9.27 us
    open_tab(page, "GPU")
    kernels = shown_panel(page).get_by_label("Kernels by time")
    kernels.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert page.get_by_role("searchbox").input_value() == "attn_bwd_bf16_hd128"
    assert "attn_bwd_bf16_hd128" in shown_panel(page).locator(".timeline-status").inner_text()
