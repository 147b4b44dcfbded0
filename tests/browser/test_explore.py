"""The panes of Explore: costs of a row in every rank, and what is said where there are none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from playwright.sync_api import Page, expect

import callgrove
from callgrove.errors import UsageError
from callgrove.examples import example
from callgrove.explore.session import Session
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.contexts import ContextKind
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Aggregation, Metric, Scope
from callgrove.model.profiles import ProfileKind
from tests.browser.conftest import OpenView, Screenshot
from tests.browser.reading import downloaded, open_tab, picked
from tests.viewer.serving import made_input, path_input

UNIT = "instructions/cycle"


def of_unit(unit: str, aggregation: Aggregation = Aggregation.SUM) -> Experiment:
    """Two ranks with costs of 1 and 2 in a metric."""
    builder = ExperimentBuilder("made", title="made")
    builder.add_context(-1, ContextKind.FUNCTION, builder.region(ContextKind.FUNCTION, "main"))
    builder.add_metric(Metric("made", Scope.EXCLUSIVE, unit=unit, aggregation=aggregation))
    for rank in range(2):
        profile = builder.add_profile(ProfileKind.THREAD, [(2, rank, rank, 3)])
        builder.add_values(profile, np.array([0]), 0, np.array([1.0 + rank]))
    return builder.build()


def drawn_texts(page: Page, folder: Path) -> list[tuple[float, str, str]]:
    """Where texts of the picture of ranks are anchored, how, and what they say."""
    saved = downloaded(page, page.locator(".system").get_by_role("button", name="SVG"), folder)
    texts = [one for one in ElementTree.parse(saved).iter() if one.tag.endswith("text")]
    return [(float(one.get("x", 0)), one.get("text-anchor", ""), one.text or "") for one in texts]


@pytest.mark.parametrize(("unit", "label"), [("sec", "2 s"), (UNIT, f"2 {UNIT}"), (UNIT * 4, "2")])
def test_labels_of_bars_are_not_cut(
    unit: str, label: str, open_view: OpenView, tmp_path: Path, screenshot: Screenshot
) -> None:
    """A label that ends at x takes less than x; a unit that would take more than the bars is left to the text below."""
    page = open_view(made_input(of_unit(unit)))
    open_tab(page, "Explore")
    expect(page.locator(".system .match")).to_contain_text(f"max 2 {unit}".replace(" sec", " s"))
    screenshot(page, f"explore-unit-{len(unit)}")
    ends = {text: x for x, anchor, text in drawn_texts(page, tmp_path) if anchor == "end"}
    assert label in ends
    measured: float = page.evaluate(
        "text => { const c = document.createElement('canvas').getContext('2d');"
        " c.font = '11px ' + getComputedStyle(document.body).fontFamily; return c.measureText(text).width; }",
        label,
    )
    assert measured <= ends[label] + 0.5


def test_what_cannot_be_compared_is_said_without_an_error(open_view: OpenView) -> None:
    """`imbalance` refuses minima; the page of one says why, and asks for nothing that is refused."""
    page = open_view(made_input(of_unit("sec", Aggregation.MINIMUM)))
    refused: list[str] = []
    page.on("response", lambda answer: refused.append(answer.url) if answer.status >= 400 else None)
    open_tab(page, "Explore")
    expect(page.locator(".system .match")).to_contain_text("made is a minimum")
    page.locator(".system").get_by_role("radio", name="Map").click()
    expect(page.locator(".system .match")).to_contain_text("made is a minimum")
    assert refused == []


def test_an_input_that_cannot_be_opened_says_why(open_view: OpenView, tmp_path: Path, screenshot: Screenshot) -> None:
    whole, cut = tmp_path / "whole.cubex", tmp_path / "cut.cubex"
    callgrove.write(example(), whole)
    cut.write_bytes(whole.read_bytes()[:600])
    page = open_view(path_input(whole), path_input(cut))
    picked(page, "Input", "2: cut.cubex")
    expect(page.locator(".overview .reason")).to_contain_text("cut.cubex")
    expect(page.locator(".overview .facts")).to_contain_text("cut.cubex")
    screenshot(page, "view-cut")


def test_the_command_names_every_path(open_view: OpenView) -> None:
    one = made_input(replace(example(), path="first.db"), "first.db")
    one.wanted = replace(one.wanted, paths=("first.db", "my second.db"))
    page = open_view(one)
    page.get_by_role("button", name="Command").click()
    expect(page.locator(".lookbar code")).to_contain_text("callgrove top first.db 'my second.db' -m")
    expect(page.locator(".explained code").first).to_contain_text("first.db 'my second.db'")


def test_sentences_stand_on_the_overview_once_pictures_do(open_view: OpenView) -> None:
    page = open_view(made_input(example()))
    wanted = example().explain().table()["sentence"]
    expect(page.locator(".explained p")).to_have_text(list(wanted))


def test_a_metric_without_a_rule_is_not_offered(open_view: OpenView) -> None:
    """Means of a profiler cannot be added up: every view of them is refused, so none is offered."""
    builder = ExperimentBuilder("made", title="made")
    builder.add_context(-1, ContextKind.FUNCTION, builder.region(ContextKind.FUNCTION, "main"))
    profile = builder.add_profile(ProfileKind.THREAD, [(2, 0, 0, 3)])
    for number, (name, rule) in enumerate((("time", Aggregation.SUM), ("mean", Aggregation.NONE))):
        builder.add_metric(Metric(name, Scope.EXCLUSIVE, aggregation=rule))
        builder.add_values(profile, np.array([0]), number, np.array([1.0]))
    experiment = builder.build()
    with pytest.raises(UsageError):
        experiment.top("mean")
    assert Session.of([experiment]).choices == ["time"]
    page = open_view(made_input(experiment))
    open_tab(page, "Explore")
    expect(page.locator(".only-metric")).to_have_text("time")
    expect(page.get_by_role("option", name="mean")).to_be_disabled()
