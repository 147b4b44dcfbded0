"""How far models are trusted: on series with planted behaviour and noise, and in the tables of predictions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from bench.noisy_runs import count_noise_ranked_first
from bench.simulation import disturb, plant, study_of_values
from callgrove.arrays import Floats
from callgrove.model.study.series import Study
from callgrove.modeling.fitting import model_study
from callgrove.modeling.improved.repetitions import repetitions_of
from callgrove.modeling.judgement import Trust, judge, misfit_floors, noise_floors
from callgrove.modeling.near_equals import NEARLY, spread_at
from callgrove.modeling.options import ModelOptions
from callgrove.modeling.prediction import near_equals_of, predict, runner_ups, target_of
from callgrove.modeling.ranking import RANKINGS, rank
from tests.modeling.series import X, grid, study_of, study_of_many

AT = np.array([256.0])


@pytest.mark.parametrize("noise", [0.01, 0.05, 0.2])
def test_what_is_called_good_predicts_well(noise: float) -> None:
    """At four times the largest scale 95% are within 20%, on seeds that the rule was not set on."""
    rng = np.random.default_rng(2718)
    good, right = 0, 0
    for generator in (1, 2):
        planted = plant(generator, 150, rng)
        study = study_of_values(disturb(planted.at(np.array(X, float)), noise, "uniform", 5, rng))
        judged = judge(model_study(study), AT)
        trusted = judged.trust == Trust.GOOD
        good += int(trusted.sum())
        right += int((np.abs(judged.prediction / planted.at(AT)[:, 0] - 1) <= 0.2)[trusted].sum())
    assert right >= 0.95 * good
    assert good >= {0.01: 220, 0.05: 110, 0.2: 25}[noise]


def test_what_is_called_good_without_repetitions_predicts_well() -> None:
    """Of series of five points that were called good without this rule, 83% were right at 20% noise; now
    98% of 149 are (docs/modeling.md), which a dozen shows less exactly."""
    rng = np.random.default_rng(2719)
    good, right = 0, 0
    for generator in (1, 2):
        planted = plant(generator, 600, rng)
        study = study_of_values(disturb(planted.at(np.array(X, float)), 0.2, "uniform", 1, rng))
        judged = judge(model_study(study), AT)
        trusted = judged.trust == Trust.GOOD
        good += int(trusted.sum())
        right += int((np.abs(judged.prediction / planted.at(AT)[:, 0] - 1) <= 0.2)[trusted].sum())
    assert good >= 5
    assert right >= 0.9 * good


def test_a_series_that_was_never_measured_has_no_model() -> None:
    """Of two parameters, too; the others keep theirs."""
    points = grid((2, 4, 8, 16, 32), (10, 20, 30, 40, 50))
    study = study_of_many([[p * n for p, n in points], [None] * len(points)], points, ("p", "n"))
    models = model_study(study)
    assert judge(models, np.array([64.0, 100.0])).text(1) == "poor: there is no model"
    predictions = predict(models, target_of(study, {"p": 64.0, "n": 100.0}))
    assert list(predictions["order"]) == ["O(p * n)", None]


def test_a_close_fit_may_be_luck_without_repetitions() -> None:
    values = [10.1, 10.0, 9.7, 10.2, 9.9]  # a constant, but steep terms may hide in 1.5%
    assert judge(model_study(study_of(values)), AT).text(0) == "fair: 5 points without repetitions may fit by luck"
    repeated = [[value * e for e in (0.99, 1.0, 1.01)] for value in (10.02, 10.0, 9.99, 10.01, 10.0)]
    assert judge(model_study(study_of(repeated)), AT).trust[0] == Trust.GOOD


@pytest.mark.parametrize("scale", [1.0, 1e300, 1e-170])
def test_scatter_whose_squares_leave_the_range_of_numbers(scale: float) -> None:
    models = model_study(study_of([[scale, 1.2 * scale] for _ in X]))
    judged = judge(models, AT)
    assert 1.05 < judged.high[0] / judged.low[0] < 1.3
    assert "0.0%" not in judged.text(0)
    assert noise_floors(models.study)[0] == pytest.approx(100 * 0.1 / 1.1)
    single = model_study(study_of([scale * (1 + 0.1 * (-1) ** k) for k in range(5)]))
    assert misfit_floors(single)[0] == pytest.approx(float(single.costs.smape[0]))


def noisy_program(seed: int = 5) -> Study:
    """A solver that grows and a wait that grows faster, both repeated; and ten tiny functions that are only noise."""
    rng = np.random.default_rng(seed)
    clean = np.array([[10 + 0.5 * p for p in X], [0.01 * p**1.5 for p in X]])
    noise = np.full((10, len(X)), 2e-5)[:, :, None] * rng.exponential(1.0, (10, len(X), 3))
    values = np.concatenate([clean[:, :, None] * rng.normal(1, 0.01, (2, len(X), 3)), noise])
    return study_of_values(values)


def test_noise_is_never_ranked_first() -> None:
    study = noisy_program()
    models = model_study(study)
    table = predict(models, target_of(study, {"p": 1024}))
    assert table["callpath"][:2] == ["f0", "f1"]
    assert sum(table["share"][:2]) == pytest.approx(100)
    assert set(table["apart"][2:]) <= {"noise", "not trusted"}
    assert table["share"][2:] == [None] * 10
    everything = predict(models, target_of(study, {"p": 1024}), noise_floor=100.0)
    assert set(everything["apart"]) == {"noise"}
    assert noise_floors(study)[0] == pytest.approx(0.7, abs=0.5)


def test_repetitions_that_are_no_numbers_say_nothing_about_noise() -> None:
    """Values of a rank that a damaged file lost are NaN: the point is unknown, the others keep their noise."""
    repeated = [[10.0, 12.0], [14.0, 16.0]]  # by repetition and rank
    points = [repeated, [[10.0, np.nan], [14.0, 16.0]], repeated]
    study = Study.from_values(["p"], [[2.0], [4.0], [8.0]], [("f", "time", k, v) for k, v in enumerate(points)])
    known = repetitions_of(study, np.array([0]))
    assert known.count.tolist() == [[2, 0, 2]]
    assert (known.std.tolist(), known.minimum[0, ::2].tolist()) == ([[2.0, 0.0, 2.0]], [11.0, 11.0])
    assert noise_floors(study)[0] == pytest.approx(100 * 2 / 13)


@pytest.mark.parametrize("seed", range(5))
def test_noise_is_never_first_in_any_ranking(seed: int) -> None:
    study = noisy_program(seed)
    models = model_study(study)
    for by in RANKINGS:
        table = rank(models, target_of(study, {"p": 1024}), by)
        assert table["callpath"][0] in ("f0", "f1"), by
        noisy = [
            apart for path, apart in zip(table["callpath"], table["apart"], strict=True) if path not in ("f0", "f1")
        ]
        assert None not in noisy, by


@pytest.mark.parametrize("n_repetitions", [1, 3])
@pytest.mark.parametrize("noise", [0.01, 0.05, 0.2])
def test_simulated_rankings_begin_with_a_cost(noise: float, n_repetitions: int) -> None:
    """`bench trust` does so for more runs; before the floor came from misfits too, 20 of 92 began with noise."""
    wrong, total = count_noise_ranked_first(8 if n_repetitions == 1 else 2, noise, n_repetitions, seed=7)
    assert wrong == 0
    assert total > 0


def test_without_repetitions_the_floor_is_what_models_are_missed_by() -> None:
    """Four series cost 1 and are missed by e: together by 2 * e, of 4."""
    off = (1.1, 0.9, 1.1, 0.9, 1.1)
    entries = [(f"f{n}", "time", k, [off[k]]) for n in range(4) for k in range(len(X))]
    study = Study.from_values(
        ["p"], [[x] for x in X], [*entries, *(("tiny", "time", k, [1e-4]) for k in range(len(X)))]
    )
    models = model_study(study)
    assert np.isnan(noise_floors(study)).all()
    smape = float(models.costs.smape[0])
    assert misfit_floors(models)[0] == pytest.approx(smape * 2 / 4, rel=1e-3)


def test_subtrees_are_as_good_as_what_they_consist_of() -> None:
    study = Study.from_values(
        ["p"],
        [[x] for x in X],
        [
            (path, "time", k, [value(x) * (1 + e) for e in (-0.01, 0, 0.01)])
            for path, value in (("main", lambda x: 3.0), ("main->f", lambda x: 2.0 * x))
            for k, x in enumerate(X)
        ],
    )
    table = predict(model_study(study), target_of(study, {"p": 256}), subtrees=True)
    assert table["callpath"] == ["main", "main->f"]
    assert table["prediction"][0] == pytest.approx(515)
    assert table["low"][0] < 515 < table["high"][0]
    assert table["trust"] == ["good", "good"]


@pytest.mark.parametrize(
    ("values", "word", "reason"),
    [
        ([9, 17, 33, 65, 129], "good", "within 0.0%"),
        ([10 - x / 8 for x in X], "poor", "falls below 0 there"),
        ([0.0] * 5, "good", "0 everywhere"),
        ([-x for x in X], "poor", "no interval is known of values below 0"),
        ([5.0, 1.0, 7.0, 0.5, 9.0], "poor", "misses its measurements by"),
        ([10.2, 14.1, 22.5], "poor", ""),
        ([None] * 5, "poor", "there is no model"),
    ],
)
def test_reasons(values: list[float | None], word: str, reason: str) -> None:
    judged = judge(model_study(study_of(values)), AT)
    assert judged.text(0).startswith(f"{word}: {reason}")


def test_two_values_say_nothing_of_a_third() -> None:
    """Of simulated series at two points, half of the predictions at four times the scale missed by more than 20%."""
    two = model_study(study_of([[1.0, 1.1], [2.0, 2.1]]))
    assert judge(two, AT).text(0) == "poor: fewer than 3 values to go beyond: any function fits them"
    assert judge(two, np.array([6.0])).text(0) == "fair: only 2 points"
    one = model_study(study_of([[1.0, 1.1]]))
    assert judge(one, AT).trust[0] == Trust.POOR
    assert judge(one, np.array([4.0])).text(0) == "fair: only 1 point"
    assert judge(model_study(study_of([[1.0, 1.01], [2.0, 2.01], [4.0, 4.01]])), AT).text(0) == "fair: only 3 points"


def test_a_parameter_of_two_values_is_not_gone_beyond() -> None:
    points = grid(X, (1, 2))
    models = model_study(study_of([[(p + q) * e for e in (0.99, 1.01)] for p, q in points], points, ("p", "q")))
    beyond, inside = (judge(models, np.array(at)) for at in ([64.0, 8.0], [256.0, 2.0]))
    assert beyond.reason(0).startswith("fewer than 3 values")
    assert "fewer than" not in inside.reason(0)


def test_noise_in_a_subtree_has_no_part_in_its_share_and_order() -> None:
    rng = np.random.default_rng(3)
    costs = {"main": [3.0] * 5, "main->f": [2.0 * x for x in X]}
    entries = [
        (path, "time", k, [value * e for e in (0.99, 1, 1.01)])
        for path, values in costs.items()
        for k, value in enumerate(values)
    ]
    entries += [("main->tiny", "time", k, (1e-6 * x**2.5 * rng.uniform(0.1, 2, 3)).tolist()) for k, x in enumerate(X)]
    models = model_study(Study.from_values(["p"], [[x] for x in X], entries))
    single = predict(models, target_of(models.study, {"p": 256}))
    assert dict(zip(single["callpath"], single["apart"], strict=True))["main->tiny"] is not None
    table = predict(models, target_of(models.study, {"p": 256}), subtrees=True)
    assert table["callpath"][:2] == ["main", "main->f"]
    assert table["share"][0] == pytest.approx(100)
    assert table["order"][0] == "O(p)"
    assert table["order"][2] != "O(1)"  # by itself it is said as it is
    assert table["prediction"][0] == pytest.approx(sum(single["prediction"]))


def test_the_spread_is_that_of_the_runner_ups() -> None:
    values = [10.2, 14.1, 22.5, 38.0, 70.6]
    models = model_study(study_of(values))
    listed = runner_ups(models, 0, AT)["prediction"]
    low, high = (one[:, 0] for one in spread_at(models.study.points, np.array([values]), AT[None], ModelOptions()))
    assert (low[0], high[0]) == pytest.approx((min(listed), max(listed)))


def spread_of_surface(values: Floats, parameters: tuple[str, ...], points: list[tuple[float, ...]]) -> float:
    at = np.full((1, len(parameters)), 256.0)
    low, high = (one[:, 0] for one in spread_at(np.array(points), values[None], at, ModelOptions()))
    return float(high[0] / low[0])


@pytest.mark.parametrize("n_parameters", [2, 3])
def test_several_parameters_have_a_spread_that_grows_with_noise(n_parameters: int) -> None:
    points = grid(*[(4.0, 8.0, 16.0, 32.0, 64.0)] * n_parameters)
    clean = np.array([3 + np.prod(point) ** 0.5 for point in points])
    rng = np.random.default_rng(3)
    noisy = clean * rng.normal(1, 0.1, len(clean))
    names = ("p", "q", "r")[:n_parameters]
    assert spread_of_surface(clean, names, points) == pytest.approx(1, abs=1e-6)
    assert spread_of_surface(noisy, names, points) > 1.02


def test_three_parameters_are_trusted_no_further_than_fair() -> None:
    points = grid((4, 8, 16, 32, 64), (1, 2, 3, 4, 5), (1, 2, 3, 4, 5))
    study = study_of_many([[p + q * r for p, q, r in points]], points, ("p", "q", "r"))
    judged = judge(model_study(study), np.array([128.0, 5.0, 5.0]))
    assert judged.text(0) == "fair: no interval is known"
    far = judge(model_study(study), np.array([1024.0, 5.0, 5.0]))
    assert far.text(0) == "poor: no interval is known, 16 times beyond what was measured"


def test_nothing_measured_has_no_near_equals() -> None:
    models = model_study(study_of([np.inf, np.inf]), ModelOptions())
    assert len(near_equals_of(models, 0).smape) == 0
    assert len(runner_ups(models, 0)) == 0


def test_the_constant_is_a_near_equal_up_to_one_and_a_half_times_the_least_error() -> None:
    """With one term for each parameter, every function is fitted here by numpy.linalg.lstsq. The wave that the two
    parameters add to is so strong that the ratio of errors goes through 1.5 in small steps."""
    points = np.array(grid((1, 2, 3, 4), (1, 2, 3, 4)), np.float64)
    p, q = points.T
    at = np.array([[40.0, 40.0]])
    options = ModelOptions(powers=(Fraction(1),), logs=(Fraction(0),))
    columns = {"": [], "p": [p], "q": [q], "pq": [p * q], "p+q": [p, q], "p+pq": [p, p * q], "q+pq": [q, p * q]}
    wave = np.resize([3.0, -3.0, -3.0, 3.0], 16) * np.repeat([1.0, -1.0, -1.0, 1.0], 4)
    ratios = []
    for slope in np.linspace(2.95, 3.05, 11).tolist():
        y = 100 + slope * (p + q) + wave
        errors, predicted = {}, {}
        for name, terms in columns.items():
            there = [1.0, *({"p": 40.0, "q": 40.0, "pq": 1600.0}[term] for term in name.split("+") if term)]
            matrix = np.column_stack([np.ones(16), *terms])
            solution = np.linalg.lstsq(matrix, y, rcond=None)[0]
            errors[name] = float((np.abs(matrix @ solution - y) / (np.abs(matrix @ solution) + y)).mean() * 200)
            predicted[name] = float(solution @ there)
        least = min(errors.values())
        near = [predicted[name] for name in columns if errors[name] <= NEARLY * least]
        found = [float(one[0, 0]) for one in spread_at(points, y[None], at, options)]
        assert found == pytest.approx([min(near), max(near)]), slope
        ratios.append(errors[""] / least)
    assert any(NEARLY < ratio < 1.01 * NEARLY for ratio in ratios)
    assert any(NEARLY / 1.01 < ratio < NEARLY for ratio in ratios)
