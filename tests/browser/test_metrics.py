"""The tree of metrics on a page: the numbers of `callgrove tree --metrics`, opened, closed and sorted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from callgrove.examples import example
from callgrove.render.cost_texts import amount_of
from callgrove.render.units import percent
from tests.browser.conftest import OpenPage, Screenshot
from tests.browser.reading import open_tab, rows, wait_for_picture
from tests.formats.cube.test_remapping import mini_cube, opened


@pytest.fixture
def mini(tmp_path: Path, written: Callable[..., Path]) -> Path:
    return written(mini_cube(tmp_path / "mini.cubex"), "--remap")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_rows_are_those_of_the_command_line(
    mini: Path, tmp_path: Path, open_page: OpenPage, screenshot: Screenshot, dark: bool
) -> None:
    page = open_page(mini, dark=dark)
    open_tab(page, "Metrics")
    screenshot(page, f"metrics-{'dark' if dark else 'light'}")
    table = opened(tmp_path / "mini.cubex").remap().metric_tree(limit=100)
    expected = []
    for row in table:
        write = amount_of(row["unit"], not row["kind"].startswith(("measured", "computed")))
        cells = [write(row[name]) for name in ("value", "without_children")]
        share = "" if row["percent"] is None else percent(row["percent"] / 100)
        expected.append([row["name"], *cells, share, row["kind"]])
    assert rows(page) == expected
    assert expected[3][:4] == ["mpi", "42 s", "16 s", "32.8%"]
    sizes = page.evaluate("() => [document.documentElement.scrollWidth, document.documentElement.scrollHeight]")
    assert sizes == [1280, 720], "nothing may stick out"


def test_rows_open_close_and_sort(mini: Path, open_page: OpenPage) -> None:
    page = open_page(mini)
    open_tab(page, "Metrics")
    names = [row[0] for row in rows(page)]
    assert names[:5] == ["time", "execution", "comp", "mpi", "p2p"]
    grid = page.get_by_role("treegrid", name="Metrics")
    assert grid.locator(".row").nth(3).get_attribute("aria-level") == "3"
    grid.focus()
    for key in ("ArrowDown", "ArrowLeft"):
        page.keyboard.press(key)
    wait_for_picture(page)
    assert [row[0] for row in rows(page)] == ["time", "execution", *names[5:]]
    page.keyboard.press("ArrowRight")
    page.get_by_role("columnheader", name="Metric").click()
    wait_for_picture(page)
    assert [row[0] for row in rows(page)] == [
        "bytes", "hi", "lo", "pervisit", "time", "execution", "comp", "mpi", "p2p", "visits",
    ]  # fmt: skip


def test_only_trees_have_the_view(open_page: OpenPage, tmp_path: Path, written: Callable[..., Path]) -> None:
    example().write(tmp_path / "stencil.d")
    assert "Metrics" not in open_page(written(tmp_path / "stencil.d")).get_by_role("tab").all_inner_texts()
    page = open_page(written(tmp_path / "stencil.d", "--remap"))
    open_tab(page, "Metrics")
    assert [row[0] for row in rows(page)][:3] == ["CPUTIME (sec)", "execution", "comp"]
