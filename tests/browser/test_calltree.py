"""Tables of calls as a reader meets them: opened, sorted, turned upside down."""

from __future__ import annotations

from pathlib import Path

from callgrove.analysis.costs import costs
from callgrove.analysis.views import grow_callers, top, top_down
from callgrove.examples import example
from callgrove.render.units import amount
from callgrove.viewer.page import Limits
from callgrove.viewer.report import Input, report
from tests.browser.conftest import OpenPage, Screenshot
from tests.browser.reading import open_tab, picked, rows, shown_panel, tooltip


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


def test_functions_and_callers_without_room_are_counted(tmp_path: Path, open_page: OpenPage) -> None:
    """Functions say what they cost; callers divide a cost that is shown."""
    page = tmp_path / "page.html"
    page.write_text(report([Input(example(), ["stencil.d"])], limits=Limits(rows=2)), encoding="utf-8")
    shown = open_page(page)
    open_tab(shown, "Call tree")
    shown.get_by_role("radio", name="Bottom-up").click()
    found = grow_callers(costs(example()), 2)
    said = shown_panel(shown).locator(".match").inner_text()
    callers = found.table.left - found.functions_left
    assert f"{found.functions_left} more functions with less cost ({amount('sec')(found.rest)}, " in said
    assert said.endswith(f" together) and {callers} more callers are not in this page")


def test_a_search_leads_from_one_call_to_the_next(stencil: Path, open_page: OpenPage) -> None:
    page = open_page(stencil)
    open_tab(page, "Call tree")
    search = page.get_by_role("searchbox")
    search.fill("kernel")
    here = page.locator(".row.found.cursor")
    first = here.get_attribute("aria-rowindex")
    search.press("Enter")
    second = here.get_attribute("aria-rowindex")
    assert first != second
    search.press("Enter")
    assert here.get_attribute("aria-rowindex") == first, "round the end"
    search.press("Shift+Enter")
    assert here.get_attribute("aria-rowindex") == second
    open_tab(page, "Flame graph")
    contexts = []
    for _ in range(3):
        search.press("Enter")
        assert tooltip(page)["title"] == "kernel"
        contexts.append(tooltip(page)["context"])
    assert contexts[0] == contexts[2] != contexts[1]
