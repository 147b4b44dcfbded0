"""Efficiencies in a page: the figures of `pop`, with how good they are."""

from __future__ import annotations

import pytest

from callgrove.analysis.efficiency import Question, pop
from callgrove.examples import example, gpu_example, study_example
from callgrove.model.experiment import Experiment
from callgrove.viewer.page import Choice, Detail, Limits, Panel
from callgrove.viewer.summaries import efficiency_maker, gpu_maker


def panel_of(experiment: Experiment, choice: Choice | None = None) -> Panel:
    """The panel of efficiencies, whoever makes it."""
    makers = [make(experiment, choice or Choice(), Limits()) for make in (efficiency_maker, gpu_maker)]
    panels = [panel for maker in makers if maker is not None for panel in maker.panels(Detail())]
    (panel,) = (panel for panel in panels if panel.kind == "efficiency")
    return panel


@pytest.mark.parametrize("experiment", [example(), gpu_example()], ids=["host", "devices"])
def test_figures_are_those_of_pop(experiment: Experiment) -> None:
    panel = panel_of(experiment)
    found = pop([experiment], Question())
    assert [figure["name"] for figure in panel.data["figures"]] == [row.name for row in found.rows(everything=False)]
    (run,) = panel.data["runs"]
    assert run["values"] == [found.runs[0].cell(row) for row in found.rows(everything=False)]
    for figure, value, grade in zip(panel.data["figures"], run["values"], run["grades"], strict=True):
        expected = "good" if value >= 0.8 else "fair" if value >= 0.6 else "poor"
        assert grade == (expected if figure["kind"] == "efficiency" else "")
    assert any("erialisation efficiency" in note for note in panel.notes)


def test_of_some_ranks() -> None:
    names = [figure["name"] for figure in panel_of(example(), Choice(ranks={0, 1})).data["figures"]]
    (run,) = panel_of(example(), Choice(ranks={0, 1})).data["runs"]
    assert run["values"][names.index("processes")] == 2


def test_a_metric_that_is_no_time_is_not_divided_up() -> None:
    assert panel_of(example(), Choice(metric="cycles")).data == panel_of(example()).data


def test_nothing_to_judge() -> None:
    assert efficiency_maker(study_example(), Choice()) is None
    assert efficiency_maker(example().select(ranks=0, threads=0), Choice()) is None
    assert efficiency_maker(example(), Choice(), Limits(values=1)) is None
    assert efficiency_maker(example().select(metrics=["cycles"]), Choice()) is None
