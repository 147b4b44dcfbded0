"""Names that would do harm if anything took them for more than text."""

from __future__ import annotations

import csv
import io
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest

from callgrove.model.builder import ExperimentBuilder
from callgrove.model.contexts import ContextKind, Relation
from callgrove.model.experiment import Experiment, Severity
from callgrove.model.metrics import Metric, Scope
from callgrove.model.profiles import ProfileKind
from callgrove.model.table import visible
from callgrove.viewer.report import Input, report
from tests.browser.conftest import OpenPage, Screenshot, few_tabs
from tests.browser.reading import MAP, downloaded, flame, open_tab, rows, shown_panel, tooltip

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
                    texts = [e.text for e in elements if e.tag.endswith("text")]
                    assert texts[: len(names)] == names
                    assert names[0] in (texts[-1] or ""), "the metric"
            elif saved.stem == "top-down":
                read = list(csv.DictReader(io.StringIO(saved.read_text("utf-8"))))
                assert [row["name"] for row in read] == [row["module"] for row in read] == names
