"""Reports as a reader meets them: opened from disk, without a network."""

from __future__ import annotations

import csv
import io
import json
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Page

from callgrove.analysis.costs import costs
from callgrove.analysis.flat import top
from callgrove.analysis.trees import top_down
from callgrove.cli.main import main
from callgrove.examples import example, gpu_example, study_example
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.contexts import ContextKind, Relation
from callgrove.model.experiment import Experiment, Severity
from callgrove.model.metrics import Metric, Scope
from callgrove.model.profiles import ProfileKind
from callgrove.render.amounts import amount
from callgrove.render.units import duration_ns, percent
from callgrove.render.visible import visible
from callgrove.viewer.bundle import bundle, modules
from callgrove.viewer.panels import Choice
from callgrove.viewer.report import Input, report
from tests.browser.conftest import OpenPage
from tests.browser.reading import MAP, downloaded, flame, level_height, open_tab, picked, rows, shown_panel, tooltip
from tests.formats.samples import CORPUS

Screenshot = Callable[[Page, str], None]
PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture(scope="session")
def stencil(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "stencil.html"
    path.write_text(report([Input(example(), ["stencil.d"])]), encoding="utf-8")
    return path


def printed(capsys: pytest.CaptureFixture[str], *words: object) -> list[dict[str, Any]]:
    """What a command prints, as JSON."""
    capsys.readouterr()
    assert main([*map(str, words), "--format", "json"]) == 0
    found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    return found


# -- every kind of input -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_every_view_is_drawn(stencil: Path, open_page: OpenPage, screenshot: Screenshot, dark: bool) -> None:
    page = open_page(stencil, dark=dark)
    tabs = page.get_by_role("tab").all_inner_texts()
    assert tabs[:4] == ["Overview", "Flame graph", "Call tree", "Spread"]
    for name in tabs:
        open_tab(page, name)
        screenshot(page, f"stencil-{name.lower().replace(' ', '-')}-{'dark' if dark else 'light'}")
        sizes = page.evaluate("() => [document.documentElement.scrollWidth, document.documentElement.scrollHeight]")
        assert sizes == [1280, 720], "nothing may stick out"
        assert shown_panel(page).locator("canvas, .table").count() >= 1


def assert_like_top(page: Page, path: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    """The flat table begins with what `top` prints, in its words."""
    expected = printed(capsys, "top", path, "--limit", "15")
    facts = dict(
        zip(page.locator(".facts dt").all_inner_texts(), page.locator(".facts dd").all_inner_texts(), strict=True)
    )
    assert facts["format"].startswith(name)
    open_tab(page, "Call tree")
    page.get_by_role("radio", name="Flat").click()
    shown = rows(page)
    unit = printed(capsys, "info", path, "--metrics")
    units = {row["name"]: row["unit"] or "" for row in unit}
    selector = page.locator(".tabbar .choice select")
    metric = selector.input_value() if selector.count() else page.locator(".only-metric").inner_text()
    write = amount(units[metric])
    assert len(shown) >= min(len(expected), 3)
    for row, cells in zip(expected, shown, strict=False):
        assert cells[0].split("/")[-1] == row["name"].split("/")[-1]
        assert cells[1:4] == [write(row["inclusive"]), write(row["exclusive"]), percent(row["percent"] / 100)]


@pytest.mark.parametrize("path", ["release/mpi4.d", "prerelease/pth4.d", "legacy"], ids=str)
def test_hpctoolkit_databases(
    path: str, written: Callable[..., Path], open_page: OpenPage, capsys: pytest.CaptureFixture[str]
) -> None:
    database = CORPUS / "hpctoolkit" / path
    if path == "legacy":
        database = sorted(database.iterdir())[0]
    page = open_page(written(database))
    assert_like_top(page, database, capsys, "hpctoolkit-")


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("hpctoolkit-release/gxx_s.d", "hpctoolkit-release"),
        ("hpctoolkit-prerelease/mpi4.d", "hpctoolkit-prerelease"),
        ("hpcrun-04.00/mpi4.m", "hpcrun"),
        ("cube/mpi4/profile.cubex", "cube"),
        ("rocpd/small/rank00000_results.db", "rocpd"),
        ("scaling/runs", "runs"),
    ],
    ids=["release", "prerelease", "hpcrun", "cube", "rocpd", "runs"],
)
def test_genuine_data_of_every_kind(
    path: str,
    name: str,
    shared: Path,
    written: Callable[..., Path],
    open_page: OpenPage,
    screenshot: Screenshot,
    capsys: pytest.CaptureFixture[str],
) -> None:
    database = shared / "data" / "own" / path
    page = open_page(written(database))
    for tab in page.get_by_role("tab").all_inner_texts():
        open_tab(page, tab)
        screenshot(page, f"{name}-{tab.lower().replace(' ', '-')}")
    open_tab(page, "Overview")
    assert_like_top(page, database, capsys, name)


def test_a_study_and_several_inputs(tmp_path: Path, open_page: OpenPage, screenshot: Screenshot) -> None:
    path = tmp_path / "several.html"
    inputs = [Input(example(), ["a.d"]), Input(study_example(), ["scaling.txt"]), Input(gpu_example(), ["t.db"])]
    path.write_text(report(inputs, title="three inputs"), encoding="utf-8")
    page = open_page(path)
    assert page.locator("h1").inner_text() == page.title() == "three inputs"
    assert "8 threads" in page.locator(".facts").inner_text()
    picked(page, "Input", "2: stencil")
    assert "25" in page.locator(".facts").inner_text()
    screenshot(page, "study-overview")


# -- the flame graph ---------------------------------------------------------------------------------------------------


def box(page: Page, share: float, level: int) -> dict[str, float]:
    """Where a place of the flame graph is: a share of its width, and a level from the root."""
    width = flame(page).bounding_box()
    assert width is not None
    return {"x": share * width["width"], "y": MAP + (level + 0.5) * level_height(page)}


def test_hovering_tells_the_numbers_of_tree(stencil: Path, open_page: OpenPage) -> None:
    page = open_page(stencil)
    open_tab(page, "Flame graph")
    found = costs(example())
    table = top_down(found)
    names = table.column("name").plain()
    write = amount("sec")
    for share, level, name in ((0.01, 0, "main thread"), (0.01, 3, "solve"), (0.99, 1, "worker")):
        flame(page).hover(position=box(page, share, level))  # type: ignore[arg-type]
        row = names.index(name)
        inclusive, exclusive = table.column("inclusive").values[row], table.column("exclusive").values[row]
        told = tooltip(page)
        assert told["title"] == name
        assert told["inclusive"] == f"{write(inclusive)} ({percent(inclusive / found.total)})"
        assert told["exclusive"] == f"{write(exclusive)} ({percent(exclusive / found.total)})"
        assert told["context"] == str(table.column("context").plain()[row])


def crumbs(page: Page) -> list[str]:
    return page.locator(".crumbs button").all_inner_texts()


def test_zooming_with_the_mouse(stencil: Path, open_page: OpenPage, screenshot: Screenshot) -> None:
    page = open_page(stencil)
    open_tab(page, "Flame graph")
    flame(page).click(position=box(page, 0.99, 1))  # type: ignore[arg-type]
    assert crumbs(page) == ["everything", "application thread", "worker"]
    flame(page).hover(position=box(page, 0.01, 1))  # type: ignore[arg-type]
    assert tooltip(page)["title"] == "worker", "it fills the width"
    screenshot(page, "stencil-flame-zoomed")
    page.get_by_role("button", name="application thread").click()
    assert crumbs(page) == ["everything", "application thread"]
    page.get_by_role("button", name="Reset zoom").click()
    assert crumbs(page) == ["everything"]
    flame(page).hover(position=box(page, 0.64, 0))  # type: ignore[arg-type]
    assert tooltip(page)["title"] == "main thread"
    for _ in range(8):
        page.mouse.wheel(0, -100)
    page.wait_for_timeout(60)
    flame(page).hover(position=box(page, 0.99, 0))  # type: ignore[arg-type]
    assert tooltip(page)["title"] == "application thread", "its edge stays near the pointer"
    flame(page).hover(position=box(page, 0.3, 0))  # type: ignore[arg-type]
    assert tooltip(page)["title"] == "main thread"


def test_zooming_with_the_keyboard(stencil: Path, open_page: OpenPage) -> None:
    page = open_page(stencil)
    page.keyboard.press("2")
    assert page.get_by_role("tab", selected=True).inner_text() == "Flame graph"
    flame(page).focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowDown", "ArrowRight"):
        page.keyboard.press(key)
    assert tooltip(page)["title"] == "init"
    page.keyboard.press("Enter")
    assert crumbs(page) == ["everything", "main thread", "main", "init"]
    page.keyboard.press("Backspace")
    assert crumbs(page)[-1] == "main"
    page.keyboard.press("Escape")
    assert crumbs(page) == ["everything"]
    page.get_by_role("radio", name="Roots at top").focus()
    page.keyboard.press("ArrowRight")
    assert page.get_by_role("radio", name="Roots at bottom").get_attribute("aria-checked") == "true"
    area = flame(page).bounding_box()
    assert area is not None
    page.mouse.move(area["x"] + 5, area["y"] + area["height"] - 8)
    assert tooltip(page)["title"] == "main thread"


def test_searching_tells_the_share(stencil: Path, open_page: OpenPage, screenshot: Screenshot) -> None:
    page = open_page(stencil)
    open_tab(page, "Flame graph")
    page.keyboard.press("/")
    page.keyboard.type("mpi_")
    found = costs(example())
    table = top(found)
    rows_ = zip(table.column("name").plain(), table.column("inclusive").plain(), strict=True)
    cost = sum(inclusive for name, inclusive in rows_ if name.startswith("MPI_"))
    said = page.locator(".match").first.inner_text()
    assert said == f"“mpi_”: {percent(cost / found.total)} of CPUTIME (sec) ({amount('sec')(cost)}) in 3 calls"
    screenshot(page, "stencil-flame-search")
    page.locator("input[type=search]").fill("/^kern|^solve$/")
    page.wait_for_timeout(60)
    solve_and_worker = {"solve": 1, "kernel": 2}
    assert f"in {sum(solve_and_worker.values())} calls" in page.locator(".match").first.inner_text()
    open_tab(page, "Call tree")
    assert page.locator(".row.found").count() == 3
    page.locator("input[type=search]").press("Escape")
    assert page.locator(".row.found").count() == 0


def test_a_hot_function_is_found_in_the_flame_graph(stencil: Path, open_page: OpenPage) -> None:
    page = open_page(stencil)
    page.locator("canvas[aria-label^=Functions]").click(position={"x": 20, "y": 2 * 23 + 10})  # the third bar
    assert page.get_by_role("tab", selected=True).inner_text() == "Flame graph"
    assert page.locator("input[type=search]").input_value() == "MPI_Waitall"
    assert "in 1 call" in page.locator(".match").first.inner_text()


def test_the_metric_changes_every_view(stencil: Path, open_page: OpenPage) -> None:
    page = open_page(stencil)
    for tab in ("Overview", "Flame graph", "Call tree", "Spread"):
        open_tab(page, tab)
    picked(page, "Metric", "cycles")
    found = costs(example(), "cycles")
    write = amount("")
    open_tab(page, "Flame graph")
    flame(page).hover(position=box(page, 0.01, 0))  # type: ignore[arg-type]
    assert tooltip(page)["metric"] == "cycles"
    open_tab(page, "Call tree")
    assert rows(page)[0][1] == write(found.inclusive[0])
    open_tab(page, "Spread")
    per_profile = example().matrix("cycles", Scope.EXCLUSIVE).sum(axis=0)
    facts = page.locator(".statistics .fact").all_inner_texts()
    assert [fact.split("\n") for fact in facts][2] == ["max", write(per_profile.max())]


def test_colours_have_a_legend(stencil: Path, open_page: OpenPage, screenshot: Screenshot) -> None:
    page = open_page(stencil)
    open_tab(page, "Flame graph")
    assert page.locator(".legend").is_hidden()
    for by in ("module", "kind", "exclusive cost", "inclusive cost"):
        picked(page, "Colour by", by)
        assert page.locator(".legend .swatch").count() >= 3
        screenshot(page, f"stencil-flame-by-{by.replace(' ', '-')}")


# -- tables ------------------------------------------------------------------------------------------------------------


def test_the_call_tree_opens_and_closes(stencil: Path, open_page: OpenPage) -> None:
    page = open_page(stencil)
    open_tab(page, "Call tree")
    page.get_by_role("button", name="Collapse all").click()
    assert [cells[0] for cells in rows(page)] == ["main thread", "application thread"]
    page.get_by_role("button", name="Expand all").click()
    table = top_down(costs(example()))
    expected = [name.replace("/home/user/stencil/", "") for name in table.column("name").plain()]
    assert [cells[0] for cells in rows(page)][: len(expected)] == expected
    write = amount("sec")
    assert [cells[1] for cells in rows(page)] == [write(value) for value in table.column("inclusive").values]
    assert [cells[2] for cells in rows(page)] == [write(value) for value in table.column("exclusive").values]
    page.get_by_role("button", name="Collapse all").click()
    page.locator(".table:visible").focus()
    for key in ("ArrowRight", "ArrowDown", "Enter"):
        page.keyboard.press(key)
    assert [cells[0] for cells in rows(page)][:3] == ["main thread", "main", "loop at stencil.c:218"]
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    assert len(rows(page)) == 2


def test_sorting(stencil: Path, open_page: OpenPage) -> None:
    page = open_page(stencil)
    open_tab(page, "Call tree")
    page.get_by_role("radio", name="Flat").click()
    table = top(costs(example()))
    columns = zip(*(table.column(name).plain() for name in ("name", "exclusive", "inclusive")), strict=True)
    by_name = {name: (exclusive, inclusive) for name, exclusive, inclusive in columns}
    assert [cells[0] for cells in rows(page)] == table.column("name").plain()
    page.get_by_role("columnheader", name="inclusive").click()
    shown = [by_name[cells[0]][1] for cells in rows(page)]
    assert shown == sorted(shown, reverse=True)
    page.get_by_role("columnheader", name="inclusive").click()
    shown = [by_name[cells[0]][1] for cells in rows(page)]
    assert shown == sorted(shown)
    page.get_by_role("columnheader", name="name").click()
    assert [cells[0] for cells in rows(page)] == sorted(by_name)
    picked(page, "by", "module")
    modules = top(costs(example()), "module")
    expected = [name.split("/")[-1] for name in modules.column("name").plain()]
    assert [cells[0] for cells in rows(page)] == expected


def test_bottom_up(stencil: Path, open_page: OpenPage, screenshot: Screenshot) -> None:
    page = open_page(stencil)
    open_tab(page, "Call tree")
    page.get_by_role("radio", name="Top-down").focus()
    page.keyboard.press("ArrowRight")
    functions = top(costs(example())).column("name").plain()[:4]
    assert [cells[0] for cells in rows(page)][:4] == functions
    page.locator(".row", has_text="MPI_Waitall").click()
    cells = [row[0] for row in rows(page)]
    assert cells[cells.index("MPI_Waitall") + 1] == "exchange", "who calls it"
    screenshot(page, "stencil-bottom-up")


# -- saving ------------------------------------------------------------------------------------------------------------


# a browser asks before a page saves more than ten files
few_tabs = pytest.mark.parametrize("tabs", [("Overview", "Flame graph"), ("Call tree", "Spread")])


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


# -- hostile and large -------------------------------------------------------------------------------------------------

HOSTILE = (
    "<img src=x onerror=alert(1)>",
    "</script><script>alert(2)</script>",
    '"><svg onload=alert(3)>',
    "]]><!--",
    "javascript:alert(4)",
    "a\u202eb\u2028c\x00d",
    "${alert(5)} {{alert(6)}} &lt;b&gt;",
)


def hostile() -> Experiment:
    """A program whose every text is hostile."""
    builder = ExperimentBuilder(HOSTILE[0], HOSTILE[1], title=HOSTILE[0], path=HOSTILE[1])
    builder.warn(Severity.DAMAGE, HOSTILE[2])
    parent = -1
    for name in HOSTILE:
        region = builder.region(
            ContextKind.KERNEL, name, file=builder.file(name + ".c"), line=3, module=builder.module(name)
        )
        parent = builder.add_context(parent, ContextKind.KERNEL, region, Relation.CALL)
    builder.add_metric(Metric(HOSTILE[0], Scope.EXCLUSIVE, unit=HOSTILE[2], description=HOSTILE[1]))
    for rank in range(2):
        profile = builder.add_profile(ProfileKind.THREAD, [(2, rank, rank, 3)], name=HOSTILE[0])
        builder.add_values(profile, np.arange(len(HOSTILE)), 0, np.arange(1.0, len(HOSTILE) + 1))
    return builder.build()


@pytest.fixture
def hostile_page(tmp_path: Path) -> Path:
    path = tmp_path / "hostile.html"
    path.write_text(report([Input(hostile(), [HOSTILE[0]])], title=HOSTILE[1]), encoding="utf-8")
    return path


def test_hostile_names_are_texts_everywhere(hostile_page: Path, open_page: OpenPage, screenshot: Screenshot) -> None:
    page = open_page(hostile_page)
    assert page.title() == page.locator("h1").inner_text() == HOSTILE[1]
    assert HOSTILE[0] in page.locator(".facts").inner_text()
    assert HOSTILE[2] in page.locator(".warnings").inner_text()
    page.locator("input[type=search]").fill(HOSTILE[0])
    for tab in page.get_by_role("tab").all_inner_texts():
        open_tab(page, tab)
        screenshot(page, f"hostile-{tab.lower().replace(' ', '-')}")
    page.locator("input[type=search]").fill("")
    open_tab(page, "Flame graph")
    flame(page).hover(position={"x": 5, "y": MAP + 5})
    told = tooltip(page)
    assert (told["title"], told["metric"], told["module"]) == (HOSTILE[0], HOSTILE[0], HOSTILE[0])
    open_tab(page, "Call tree")
    page.get_by_role("button", name="Expand all").click()
    assert [cells[0] for cells in rows(page)] == [visible(name) for name in HOSTILE]
    assert page.locator("img, iframe, object, embed, script:not([type])").count() == 0
    assert page.locator("script").count() == 2


@few_tabs
def test_hostile_names_are_texts_in_files(
    tabs: tuple[str, ...], hostile_page: Path, open_page: OpenPage, tmp_path: Path
) -> None:
    page = open_page(hostile_page)
    names = [visible(name) for name in HOSTILE]
    for tab in tabs:
        open_tab(page, tab)
        for button in shown_panel(page).locator(".savers button").all():
            saved = downloaded(page, button, tmp_path)
            if saved.suffix == ".svg":
                elements = list(ET.parse(saved).getroot().iter())
                assert {e.tag.rpartition("}")[2] for e in elements} <= {"svg", "rect", "text", "polyline", "circle"}
                if saved.stem == "flame-graph":
                    assert [e.text for e in elements if e.tag.endswith("text")] == names
            elif saved.stem == "top-down":
                read = list(csv.DictReader(io.StringIO(saved.read_text("utf-8"))))
                assert [row["name"] for row in read] == [row["module"] for row in read] == names


def test_numbers_of_any_size_draw(tmp_path: Path, open_page: OpenPage, screenshot: Screenshot) -> None:
    """Damaged input may hold any number."""
    builder = ExperimentBuilder("made-up", title="odd numbers")
    values = [1.0, -3.0, np.inf, np.nan, 1e300, 1e-300, -np.inf]
    root = builder.add_context(-1, ContextKind.FUNCTION, builder.region(ContextKind.FUNCTION, "main"), Relation.CALL)
    for number in range(len(values)):
        region = builder.region(ContextKind.FUNCTION, f"f{number}")
        builder.add_context(root, ContextKind.FUNCTION, region, Relation.CALL)
    for name, numbers in (("any", values), ("finite", [1.0, -3.0, 0.0, 2.0, 1e300, 1e-300, 5.0])):
        builder.add_metric(Metric(name, Scope.EXCLUSIVE, unit="sec"))
        for _ in range(2):
            profile = builder.add_profile(ProfileKind.THREAD)
            builder.add_values(profile, np.arange(1, len(values) + 1), len(name) > 3, np.array(numbers))
    path = tmp_path / "odd.html"
    path.write_text(report([Input(builder.build(), ["odd.d"])]), encoding="utf-8")
    page = open_page(path)
    for metric in ("any", "finite"):
        picked(page, "Metric", metric)
        for tab in page.get_by_role("tab").all_inner_texts():
            open_tab(page, tab)
            screenshot(page, f"odd-{metric}-{tab.lower().replace(' ', '-')}")
    open_tab(page, "Call tree")
    page.get_by_role("button", name="Expand all").click()
    assert {cells[0] for cells in rows(page)} == {"main", *(f"f{number}" for number in (0, 1, 3, 4, 5, 6))}
    assert page.locator(".row").count() == 7, "what costs something in the other metric only is not there"


def test_a_folded_page_says_so_and_is_no_larger(tmp_path: Path, open_page: OpenPage, screenshot: Screenshot) -> None:
    path, inputs = tmp_path / "folded.html", [Input(large(3_000, 16), ["large.d"])]
    largest = len(report(inputs)) - 50_000
    text = report(inputs, max_size=largest)
    assert largest * 0.9 < len(text) <= largest, "as much as there is room for"
    path.write_text(text, encoding="utf-8")
    page = open_page(path)
    open_tab(page, "Flame graph")
    assert "contexts are folded" in shown_panel(page).locator(".notes").inner_text()
    open_tab(page, "Call tree")
    screenshot(page, "folded-call-tree")
    saved = downloaded(page, page.get_by_role("button", name="CSV"), tmp_path)
    read = list(csv.DictReader(io.StringIO(saved.read_text("utf-8"))))
    folded = [row for row in read if row["kind"] == "folded"]
    n_folded = sum(int(row["name"].removeprefix("… ").removesuffix(" more").replace(",", "")) for row in folded)
    found = costs(large(3_000, 16))
    assert len(read) - len(folded) + n_folded == len(top_down(found))
    assert sum(float(row["exclusive"]) for row in read) == pytest.approx(found.total), "nothing is lost"


def test_many_profiles_and_contexts_draw(tmp_path: Path, open_page: OpenPage, screenshot: Screenshot) -> None:
    """100,000 contexts and 1,024 profiles stay under the bound."""
    path = tmp_path / "large.html"
    text = report([Input(large(), ["large.d"])], Choice())
    assert len(text) < 5_000_000
    path.write_text(text, encoding="utf-8")
    page = open_page(path)
    for tab in page.get_by_role("tab").all_inner_texts():
        open_tab(page, tab)
        screenshot(page, f"large-{tab.lower().replace(' ', '-')}")
    open_tab(page, "Call tree")
    page.get_by_role("button", name="Expand all").click()
    assert "rows" in page.locator(".panel-call-tree .match").inner_text()
    assert len(rows(page)) < 80, "only what is in sight exists"


def large(n_contexts: int = 100_000, n_profiles: int = 1_024) -> Experiment:
    """A random tree of functions; each profile has some hundred values."""
    chance = np.random.default_rng(7)
    builder = ExperimentBuilder("made-up", title="large")
    regions = [
        builder.region(ContextKind.FUNCTION, f"function_{k}", file=builder.file(f"f{k % 99}.c")) for k in range(3000)
    ]
    parent = np.maximum(np.arange(n_contexts) - 1 - (chance.pareto(0.6, n_contexts)).astype(np.int64), -1)
    parent = np.where(np.arange(n_contexts) == 0, -1, np.maximum(parent, 0))
    region = np.array(regions)[chance.integers(0, len(regions), n_contexts)]
    builder.add_contexts(
        parent=parent, kind=np.full(n_contexts, int(ContextKind.FUNCTION)), region=region,
        relation=np.full(n_contexts, int(Relation.CALL)),
    )  # fmt: skip
    for name in ("time", "cycles", "instructions"):
        builder.add_metric(Metric(name, Scope.EXCLUSIVE, unit="sec" if name == "time" else ""))
    for rank in range(n_profiles):
        profile = builder.add_profile(ProfileKind.THREAD, [(2, rank, rank, 3), (3, 0, 0, 3)])
        chosen = np.unique(chance.integers(0, n_contexts, 300))
        for metric in range(3):
            builder.add_values(profile, chosen, metric, chance.pareto(1.2, len(chosen)))
    return builder.build()


# -- modules by themselves ---------------------------------------------------------------------------------------------


def test_numbers_are_written_as_on_the_command_line(browser: Any) -> None:
    numbers = [0, 1, -1, 0.5, 999.4, 999.6, 1000, 12345, 1e6, 123456789.0, 1e-9, 4.5e-5, 0.0451, 7e-14, 3.2e19, 99.95]
    shares = [0, 1e-9, 0.0004, 0.0005, 0.1234, 0.99949, 1, 1.5]
    units = ["", "sec", "ms", "ns", "bytes", "count"]
    script = bundle(modules(), "format.js")
    context = browser.new_context(offline=True)
    page = context.new_page()
    got = page.evaluate(
        f"(given) => {{ {script}; const [numbers, units, shares] = given;"
        "return [units.map(unit => numbers.map(format_js.amountOf(unit))), shares.map(format_js.percent),"
        " numbers.filter(number => number < 1e12).map(number => format_js.durationNs(number * 1e9))] }",
        [numbers, units, shares],
    )
    context.close()
    assert got[0] == [[amount(unit)(number) for number in numbers] for unit in units]
    assert got[1] == [percent(share) for share in shares]
    assert got[2] == [duration_ns(number * 1e9) for number in numbers if number < 1e12]
