"""What the scaling page knows beside functions: judgements at stops and at any point, near equals, repetitions."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from callgrove.examples import example, study_example
from callgrove.model.study.series import Study
from callgrove.modeling.fitting import model_study
from callgrove.modeling.improved.series import quantiles_at
from callgrove.modeling.judgement import far_target
from callgrove.modeling.model_tables import order_text
from callgrove.modeling.prediction import Target, predict, runner_ups
from callgrove.modeling.surfaces import contour_levels, find_contour
from callgrove.viewer.page import Choice, Detail
from callgrove.viewer.scaling_details import find_stops
from callgrove.viewer.server.running import Viewer
from callgrove.viewer.summaries import scaling_maker
from tests.requirements import need_module
from tests.viewer.serving import ask, made_input, serving


def noisy_study() -> Study:
    """Of one parameter, with repetitions; one point of one call path was measured once."""
    rng = np.random.default_rng(8)
    points = [(float(p),) for p in (2, 4, 8, 16, 32)]
    entries = [
        (f"main->f{k}", "time", at, list((k + p ** (k / 2)) * (1 + 0.05 * rng.random(1 if at == k == 0 else 4))))
        for k in range(4)
        for at, (p,) in enumerate(points)
    ]
    return Study.from_values(["p"], points, entries)


def data_of(study: Study) -> Any:
    maker = scaling_maker(study, Choice())
    assert maker is not None
    return [*maker.panels(Detail())][-1].data


def check(found: dict[str, Any], callpaths: list[str], column: int, n: int, study: Study, at: list[float]) -> None:
    """Judgements (models x n points) at one of the points are those of `predict`."""
    expected = predict(model_study(study), Target(np.array(at), study.points[0]))
    rows = {path: row for row, path in enumerate(expected.column("callpath").plain())}
    for k, path in enumerate(callpaths):
        row, here = rows[path], k * n + column
        for name in ("low", "high"):
            wanted = expected.column(name).plain()[row]
            assert found[name][here] == pytest.approx(np.nan if wanted is None else wanted, rel=1e-12, nan_ok=True)
        assert found["trust"][here] == expected.column("trust").plain()[row]
        assert found["reason"][here] == expected.column("reason").plain()[row]
        assert bool(found["apart"][here]) == (expected.column("apart").plain()[row] is not None)


@pytest.mark.parametrize("study", [study_example(), noisy_study()], ids=["two parameters", "one parameter"])
def test_judgements_at_stops_are_those_of_predict(study: Study) -> None:
    data = data_of(study)
    stops = data["stops"]
    assert stops["models"].tolist() == list(range(len(data["callpath"].values)))
    points = stops["points"]
    flat = {name: np.ravel(stops[name]).tolist() for name in ("low", "high", "apart")}
    flat |= {name: stops[name].values for name in ("trust", "reason")}
    for column in (0, len(points) // 2, len(points) - 1):
        check(flat, data["callpath"].values, column, len(points), study, points[column].tolist())


def test_stops_go_from_the_smallest_to_64_times_the_largest() -> None:
    stops = find_stops(noisy_study(), np.array([128.0]))[:, 0].tolist()
    assert stops == sorted({2, 4, 8, 16, *(32 * k for k in (1, 1.5, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64))})
    study = study_example()
    every = find_stops(study, far_target(study))
    assert far_target(study).tolist() in every.tolist()
    assert every.min(axis=0).tolist() == study.points.min(axis=0).tolist()
    assert every.max(axis=0).tolist() == (64 * study.points.max(axis=0)).tolist()
    assert len(every) == np.prod([len(np.unique(column)) for column in every.T])


def test_stops_of_many_parameters_lie_along_each() -> None:
    points = [tuple(float(one) for one in np.base_repr(k, 2).zfill(4)) for k in range(16)]
    points = [tuple(1 + one for one in point) for point in points]
    study = Study.from_values(list("abcd"), points, [("f", "time", k, [1.0]) for k in range(16)])
    target = np.array([8.0, 2.0, 2.0, 2.0])
    stops = find_stops(study, target)
    assert ((stops != target).sum(axis=1) <= 1).all()
    assert {len(np.unique(column)) for column in stops.T} == {5}  # 1, 2, 8, 32, 128


def test_near_equals_are_the_runner_ups_without_the_model() -> None:
    study = noisy_study()
    models, near = model_study(study), data_of(study)["near"]
    at = np.array([64.0])
    for row, m in enumerate(near["models"].tolist()):
        listed = runner_ups(models, m, at)
        others = [k for k, text in enumerate(listed["order"]) if text != order_text(models.functions, m)][:5]
        here = slice(int(near["bounds"][row]), int(near["bounds"][row + 1]))
        assert near["smape"][here].tolist() == [listed["smape"][k] for k in others]
    assert len(near["short"].values) == len(near["functions"]["constant"]) == near["bounds"][-1] > 0


def test_repetitions_are_the_values_measured_more_than_once() -> None:
    study = noisy_study()
    repeated = data_of(study)["repeated"]
    sizes = [b - a for a, b in pairwise(repeated["bounds"].tolist())]
    assert sizes == [0, *[4] * 19]
    assert repeated["values"][:4].tolist() == study.values(0, 1).tolist()


def test_a_contour_is_where_the_level_lies() -> None:
    z = np.add.outer(np.arange(4.0), np.arange(5.0))  # x + y
    pieces = find_contour(z, 2.5)
    assert len(pieces) > 0
    assert pieces[:, 0] + pieces[:, 1] == pytest.approx(2.5)
    assert pieces[:, 2] + pieces[:, 3] == pytest.approx(2.5)
    assert contour_levels(0.0, 8.0) == [1, 2, 3, 4, 5, 6, 7]
    assert contour_levels(1.0, 256.0) == pytest.approx([2, 4, 8, 16, 32, 64, 128])


# -- asked for ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def viewer() -> Iterator[Viewer]:
    need_module("starlette")
    with serving(made_input(noisy_study()), made_input(example())) as running:
        yield running


def test_judgements_of_any_point_are_those_of_predict(viewer: Viewer) -> None:
    study = noisy_study()
    status, found = ask(viewer, "judged", point="77.5", models=["1", "3"])
    assert status == 200
    check(found, [f"main->f{k}" for k in range(4)], 0, 1, study, [77.5])
    assert found["near"]["models"] == found["repeated"]["models"] == [1, 3]


def test_a_band_is_that_of_the_curve(viewer: Viewer) -> None:
    status, found = ask(viewer, "band", model=2, along=0, point="32", **{"from": "2", "to": "256"})
    assert status == 200
    assert found["x"] == pytest.approx(np.geomspace(2, 256, 33).tolist())
    models = model_study(noisy_study())
    low, high = quantiles_at(models.study, models.series[[2]], np.array(found["x"])[:, None])[:, 0]
    assert (found["low"], found["high"]) == (pytest.approx(low.tolist()), pytest.approx(high.tolist()))


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("judged", {"point": ""}),
        ("judged", {"point": "1,2"}),
        ("judged", {"point": "nan"}),
        ("judged", {"point": "1e999"}),
        ("judged", {"point": "4", "models": ["4"]}),
        ("judged", {"point": "4", "model": "1"}),
        ("judged", {"point": "4", "input": "1"}),
        ("band", {"model": "9", "along": "0", "point": "4", "from": "1", "to": "2"}),
        ("band", {"model": "0", "along": "1", "point": "4", "from": "1", "to": "2"}),
        ("band", {"model": "0", "along": "0", "point": "4", "from": "1", "to": "inf"}),
    ],
)
def test_questions_that_no_page_asks(viewer: Viewer, name: str, parameters: dict[str, Any]) -> None:
    assert ask(viewer, name, **parameters)[0] == 400
