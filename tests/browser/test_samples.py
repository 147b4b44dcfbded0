"""`callgrove view` on a sample of every kind of file: each tab is drawn without an error, and has the numbers of the
verbs."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from callgrove.cli.main import main
from tests.browser.conftest import OpenView
from tests.browser.reading import downloaded, open_tab, shown_panel
from tests.exhaustive import exhaustive
from tests.viewer.serving import path_input

DRAWN = "canvas, .table, .card, table, [role=grid], [role=treegrid]"
SAMPLES = [
    "own/cube/mpi4/profile.cubex",
    "own/hpctoolkit-release/mpi4.d",
    "own/hpctoolkit-prerelease/pth4.d",
    "public/hatchet/hpctoolkit-cpi-database",
    "own/hpcrun-04.00/pth4.m",
    "own/rocpd/small",
    "public/extrap/nsight/concurrent_example/concurrent.s8/profile8.sqlite",
    "own/chrome/torch_cpu.json",
    "public/kineto/triton_example.json.gz",
    "own/perfetto/sdk_like.pftrace",
    "own/otf2/otf2_2/traces.otf2",
    "own/folded/pth8.folded",
    "own/perf/pth8.script.txt",
    "public/caliper/lulesh-annotation-profile.cali",
    "public/tau/cpi-mpi",
    "own/scaling/runs",
]


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """What a verb prints."""
    capsys.readouterr()
    assert main(list(words)) == 0
    return capsys.readouterr().out


def rows_of(text: str, *costs: str) -> list[tuple[str | float, ...]]:
    """Rows of CSV: what each is, and its costs."""
    return [
        (*(row[name] for name in ("name", "file", "line", "module")), *(float(row[name] or "nan") for name in costs))
        for row in csv.DictReader(text.splitlines())
    ]


@exhaustive
@pytest.mark.parametrize("sample", SAMPLES)
def test_every_kind_of_file(
    sample: str, open_view: OpenView, shared: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = shared / "data" / sample
    page = open_view(path_input(path))
    tabs = page.locator("main .tab").all_inner_texts()
    assert len(tabs) > 1
    for tab in tabs:
        open_tab(page, tab)
        expect(shown_panel(page).locator(DRAWN).first).to_be_visible()
        expect(shown_panel(page).locator("[role=alert]:visible", has_text=re.compile("."))).to_have_count(0)
    if "Explore" in tabs:
        check_costs(page, path, tmp_path, capsys)


def check_costs(page: Page, path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The flat table has the first rows of `top`, to the last digit."""
    open_tab(page, "Explore")
    page.get_by_role("radio", name="Flat").click()
    expect(shown_panel(page).locator(".row").first).to_be_visible()
    saved = downloaded(page, shown_panel(page).get_by_role("button", name="CSV").first, tmp_path).read_text("utf-8")
    exclusive, inclusive = saved.splitlines()[0].split(",")[-2:]
    metric = exclusive.removeprefix("exclusive ")
    seen = rows_of(saved, exclusive, inclusive)
    expected = rows_of(
        printed(capsys, "top", str(path), "-m", metric, "--limit", "all", "--format", "csv"), "exclusive", "inclusive"
    )
    assert seen
    assert set(map(repr, seen)) <= set(map(repr, expected))
