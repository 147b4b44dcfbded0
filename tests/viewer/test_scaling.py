"""Models in a page: the numbers of `callgrove model` and `predict`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import callgrove
from callgrove.examples import example, gpu_example, study_example
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Scope
from callgrove.model.study.fill_missing_points import fill_missing_points
from callgrove.model.study.from_runs import of_scaling
from callgrove.model.study.series import Study
from callgrove.modeling.fitting import model_study
from callgrove.modeling.judgement import far_target
from callgrove.modeling.model_tables import model_tables
from callgrove.modeling.options import ModelOptions
from callgrove.modeling.prediction import Target, predict
from callgrove.modeling.stored_models import with_models
from callgrove.viewer.page import Choice, Detail, Limits, Panel
from callgrove.viewer.report import Input, report
from callgrove.viewer.summaries import scaling_maker
from tests.viewer.pages import two_runs


def panel_of(opened: Experiment | Study, share: float = 1.0, choice: Choice | None = None) -> Panel:
    maker = scaling_maker(opened, choice or Choice())
    assert maker is not None
    growth, panel = maker.panels(Detail(share))
    assert (growth.kind, growth.title, panel.kind, panel.title) == ("growth", "Overview", "scaling", "Scaling")
    assert growth.data is panel.data  # so that a page holds it once
    return panel


def value_at(functions: Any, m: int, point: list[float]) -> float:
    """The arithmetic of static/functions.js, from the data that it gets."""

    def term(power: float, log: float, x: float) -> float:
        return float((x**power if power else 1) * (np.log2(x) ** log if log else 1))

    def factor(one: list[Any], x: float) -> float:
        if not isinstance(one[0], dict):
            return term(one[0], one[1], x)
        piece = next(p for p in one if p["from"] <= x <= p["to"])
        return float(piece["constant"] + sum(c * term(power, log, x) for c, power, log in piece["terms"]))

    total = float(functions["constant"][m])
    for t in range(int(functions["bounds"][m]), int(functions["bounds"][m + 1])):
        numbers = np.asarray(functions["factor"])[t].tolist()
        factors = [factor(functions["factors"][f], x) for f, x in zip(numbers, point, strict=True) if f >= 0]
        total += float(functions["coefficient"][t]) * float(np.prod(factors))
    return total


def test_models_are_those_that_model_prints() -> None:
    study = study_example()
    data = panel_of(study).data
    (table,) = model_tables(model_study(study))
    for name in ("callpath", "function", "order"):
        assert list(data[name].values) == table.column(name).plain()
    for name in ("smape", "ar2", "re"):
        assert data[name].tolist() == table.column(name).plain()
    assert [data["metric_names"][m] for m in data["metric"].tolist()] == table.column("metric").plain()


def test_functions_have_the_values_that_predict_gives() -> None:
    study = study_example()
    data = panel_of(study).data
    at = [*map(float, far_target(study))]
    assert at == [4 * study.points[:, 0].max(), study.points[:, 1].max()]
    expected = predict(model_study(study), Target(np.array(at), study.points[0]))
    found = {path: value_at(data["functions"], m, at) for m, path in enumerate(data["callpath"].values)}
    for path, value in zip(expected.column("callpath").plain(), expected.column("prediction").plain(), strict=True):
        assert found[path] == pytest.approx(value, rel=1e-12)


def test_measured_values_are_those_of_the_study() -> None:
    study = study_example()
    data = panel_of(study).data
    series = study.series(study.callpaths[1], study.metrics[0])
    row = data["callpath"].values.index(series.callpath)
    for name, expected in (("value", series.mean), ("low", series.minimum), ("high", series.maximum)):
        assert np.array_equal(data[name][row][series.point], expected, equal_nan=True)


def test_functions_in_pieces() -> None:
    points = [(float(p),) for p in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10)]
    entries = [("f", "time", k, [p**2 if p <= 5 else 100.0 + p]) for k, (p,) in enumerate(points)]
    study = Study.from_values(["p"], points, entries)
    models = model_study(study, ModelOptions(modeler="segmented"))
    data = panel_of(with_models(study, models, "pieces")).data
    assert any(isinstance(part, dict) for factor in data["functions"]["factors"] for part in factor)
    for p in (2.0, 4.0, 8.0, 20.0):
        expected = float(models.predict(np.array([[p]]))[0, 0])
        assert value_at(data["functions"], 0, [p]) == pytest.approx(expected, rel=1e-12)


def test_stored_models_are_shown_as_they_are_stored() -> None:
    study = study_example()
    stored = with_models(study, model_study(study, ModelOptions(measure="maximum")), "kept")
    panel = panel_of(stored)
    assert "These models are stored in the input; `callgrove model --refit` makes new ones." in panel.notes
    assert list(panel.data["function"].values) == [model.function for model in stored.models]


def test_runs_with_parameters_are_folded_as_model_folds_them(shared: Path) -> None:
    opened = callgrove.open(str(shared / "data" / "own" / "scaling" / "runs"))
    panel = panel_of(opened, choice=Choice(metric="visits"))
    assert panel.data["parameters"] == ["p", "n"]
    assert panel.data["first_metric"] == "visits"
    assert len(panel.data["callpath"].values) == 104  # as `callgrove model` counts them
    row = panel.data["callpath"].values.index("mpiomp.sp->main->!$omp parallel @mpiomp.c:17->solve->smooth")
    assert panel.data["short"].values[row] == "930 + 60 * log2(p)^(1)"


def test_runs_are_combined_as_asked(shared: Path) -> None:
    opened = callgrove.open(str(shared / "data" / "own" / "scaling" / "runs"))
    assert isinstance(opened, Experiment)
    found = panel_of(opened, choice=Choice("visits", scaling="strong", scope=Scope.INCLUSIVE)).data
    study = fill_missing_points(opened.study(scope=Scope.INCLUSIVE, combination=of_scaling("strong")))
    (table,) = model_tables(model_study(study))
    assert list(found["function"].values) == table.column("function").plain()


def test_the_largest_shares_stay_and_it_says_so() -> None:
    points = [(float(p),) for p in (2, 4, 8, 16, 32)]
    entries = [(f"f{k}", "time", n, [(k + 1) * p]) for k in range(20) for n, (p,) in enumerate(points)]
    panel = panel_of(Study.from_values(["p"], points, entries), share=0.4)
    assert set(panel.data["callpath"].values) == {f"f{k}" for k in range(12, 20)}
    assert panel.notes == (
        "Of 20 models the 8 with the largest share at p = 128 are shown; "
        "shares are of all there, and of those shown at other points.",
    )


def test_costs_that_fall_are_pointed_out() -> None:
    points = [(float(p),) for p in (2, 4, 8, 16, 32)]
    study = Study.from_values(["p"], points, [("f", "time", n, [100 / p]) for n, (p,) in enumerate(points)])
    assert panel_of(study).notes[0].startswith("Costs fall as p grows")


def test_nothing_without_runs_that_differ() -> None:
    assert scaling_maker(example(), Choice()) is None
    assert scaling_maker(gpu_example(), Choice()) is None


def test_a_unit_that_is_not_known_is_none() -> None:
    points = [(float(p),) for p in (2, 4, 8)]
    entries = [(name, name, n, [p]) for name in "ab" for n, (p,) in enumerate(points)]
    study = replace(Study.from_values(["p"], points, entries), units={"a": "unknown", "b": "bytes"})
    assert panel_of(study).data["units"] == ["", "bytes"]


def reason_of(opened: Experiment | Study) -> str:
    (panel,) = scaling_maker(opened, Choice()).panels(Detail())  # type: ignore[union-attr]
    assert (panel.kind, panel.title) == ("unavailable", "Scaling")
    return str(panel.data["reason"])


def test_a_study_that_no_growth_shows_in_says_why() -> None:
    one = Study.from_values(["p"], [(4.0,)], [("f", "time", 0, [1.0])])
    assert reason_of(one) == "everything was measured at one point (p = 4); growth shows with two or more"


def test_runs_that_cannot_be_folded_say_why_and_leave_the_other_views_alone() -> None:
    heard: list[str] = []
    text = report([Input(two_runs(), ["runs"])], tell=heard.append)
    assert '"title":"Flame graph"' in text
    reason = reason_of(two_runs())
    assert "do not make a study" in reason
    assert "run b has the parameters none, the first run has p" in reason
    assert heard == [f"runs: there is no scaling view: {reason}"]


def test_shares_are_those_of_predict_above_the_limit_too() -> None:
    study = study_example()
    target = far_target(study)
    total = {}
    for limits in (Limits(), Limits(models=3)):
        maker = scaling_maker(study, Choice(), limits)
        assert maker is not None
        _, panel = maker.panels(Detail())
        data = panel.data
        values = np.array([value_at(data["functions"], m, target.tolist()) for m in range(len(data["metric"]))])
        positive = np.where(values > 0, values, 0.0)
        sums = np.bincount(data["metric"], positive, minlength=len(data["rest"])) + data["rest"]
        total[limits.models] = dict(zip(data["metric_names"], sums.tolist(), strict=True))
    complete, cut = total.values()
    assert cut == pytest.approx({name: complete[name] for name in cut})
