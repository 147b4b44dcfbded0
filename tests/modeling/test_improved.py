"""The improved method and its intervals: the numbers of modeling.md B5, coverage, and what it leaves to Extra-P's."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from bench.simulation import KINDS, disturb, plant, study_of_values
from callgrove.errors import UsageError
from callgrove.modeling.fitting import Caution, Models, model_study
from callgrove.modeling.improved.repetitions import PooledSkew, Repetitions, observe
from callgrove.modeling.improved.series import quantiles_at
from callgrove.modeling.options import DETECTED, ModelOptions
from callgrove.modeling.prediction import fit_beside, predict, target_of
from tests.modeling.series import X, grid, study_of, study_of_many, terms_of

IMPROVED = ModelOptions(method="improved", measure=DETECTED)
REPEATED = ((10.2, 9.8, 10.4), (14.1, 13.7, 14.6), (22.5, 21.9, 22.2), (38.0, 39.1, 38.3), (70.6, 69.9, 71.5))
ONE_SIDED = (
    (8.1, 8.2, 9.9, 8.0, 8.6),
    (16.3, 16.1, 16.0, 18.9, 16.4),
    (32.2, 33.0, 32.1, 38.5, 32.6),
    (64.9, 64.1, 70.3, 64.2, 66.6),
    (128.3, 128.9, 151.0, 130.2, 128.1),
)
FLAT = ((5.1, 4.9, 5.0), (4.9, 5.2, 5.0), (5.0, 5.1, 4.8), (5.2, 5.0, 4.9), (4.8, 5.0, 5.1))
FALLING = ((100, 101), (52, 51.5), (27, 27.2), (14.5, 14.4), (8.2, 8.25))
EXAMPLES = {
    "I1": ([(v, v) for v in (9, 17, 33, 65, 129)], {"": 1.0, "p^1": 2.0}, (257.0, 2049.0), None),
    "I2": (REPEATED, {"": 6.0814438, "p^1": 1.00948804}, (135.29591228, 1039.79719165), 0.48385),
    "I3": (FLAT, {"": 4.99991111}, (4.99991111, 4.99991111), 0.7986),
    "I4": (ONE_SIDED, {"p^1": 1.97855992}, (253.2556696, 2026.04535677), 0.98486),
    "I5": (FALLING, {"": 2.03952718, "p^-1": 397.110445}, (5.14195253, 2.42733035), None),
    "I6": ((10.2, 14.1, 22.5, 38.0, 70.6), {"": 6.16453056, "p^1": 1.00465327}, (134.76014954, 1034.92948237), 0.57546),
}


def improved(values: Sequence[object], measure: str = DETECTED) -> Models:
    return model_study(study_of(values), ModelOptions(method="improved", measure=measure))


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_examples_of_the_specification(name: str) -> None:
    values, terms, predictions, probability = EXAMPLES[name]
    models = improved(values)
    assert {key: value for key, value in terms_of(models).items() if value} == pytest.approx(terms, rel=1e-6)
    assert models.predict(np.array([[128.0], [1024.0]]))[0] == pytest.approx(predictions, rel=1e-6)
    assert models.probability is not None
    if probability is not None:
        assert models.probability[0] == pytest.approx(probability, abs=1e-4)


def test_noise_that_only_adds_is_taken_off_unless_the_mean_is_wanted() -> None:
    assert improved(ONE_SIDED).cautions[0] & Caution.UNDISTURBED
    forced = improved(ONE_SIDED, measure="mean")
    assert not forced.cautions[0] & Caution.UNDISTURBED
    assert forced.predict(np.array([[128.0]]))[0, 0] > improved(ONE_SIDED).predict(np.array([[128.0]]))[0, 0]


def test_intervals_are_those_of_the_specification() -> None:
    at = np.array([[128.0], [1024.0]])
    low, high = quantiles_at(study_of(REPEATED), np.arange(1), at)[:, 0]
    assert low == pytest.approx([126.94, 692.1], rel=1e-4)
    assert high == pytest.approx([137.07, 1054.8], rel=1e-4)
    assert quantiles_at(study_of(FLAT), np.arange(1), at)[:, 0, 0] == pytest.approx([4.91284, 5.08852], rel=1e-5)


def test_there_is_no_interval_where_none_is_known() -> None:
    at = np.array([[128.0]])
    sinking = [10 - x / 8 for x in X]
    for values in ([0.0, 1, 2, 3, 4], [1.0, 2.0, 3.0, None, None], sinking):
        assert np.isnan(quantiles_at(study_of(values), np.arange(1), at)).all()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("generator", [1, 2])
def test_intervals_cover_the_true_curve(generator: int, kind: str) -> None:
    """About 92% of them do in larger simulations (`bench trust`), which 150 series cannot tell that exactly."""
    rng = np.random.default_rng(71)
    at = np.array([128.0, 1024.0])
    covered = []
    for noise in (0.02, 0.1, 0.5):
        planted = plant(generator, 50, rng)
        study = study_of_values(disturb(planted.at(np.array(X, float)), noise, kind, 5, rng))
        low, high = quantiles_at(study, np.arange(len(study)), at[:, None], DETECTED)
        true = planted.at(at)
        covered.append((low <= true) & (true <= high))
    assert 0.83 <= np.concatenate(covered).mean() <= 0.98


def test_two_parameters() -> None:
    points = grid(X, (10, 20, 30, 40, 50))
    values = [[(5 + 2 * p + 0.25 * p * q) * (1 + e) for e in (0, 0.01, -0.01)] for p, q in points]
    models = model_study(study_of(values, points, ("p", "q")), IMPROVED)
    assert terms_of(models) == pytest.approx({"": 5, "p^1": 2, "p^1*q^1": 0.25}, rel=1e-6)
    at = np.array([[128.0, 100.0]])
    low, high = quantiles_at(models.study, models.series, at)[:, 0, 0]
    assert low < 5 + 2 * 128 + 0.25 * 12800 < high < 1.02 * low


def test_each_of_two_parameters_has_terms_of_its_own() -> None:
    points = grid(X, (10, 20, 30, 40, 50))
    values = [[(300 + 2 * p**2 + 500 * np.log2(q)) * (1 + e) for e in (0, 0.001, -0.001)] for p, q in points]
    models = model_study(study_of(values, points, ("p", "q")), IMPROVED)
    assert terms_of(models) == pytest.approx({"": 300, "p^2": 2, "log2(q)^1": 500}, rel=1e-3)


def test_series_of_few_repetitions_say_nothing_of_the_noise_of_others() -> None:
    """Three repetitions each: mean and minimum say nothing of the shape of noise, of any number of series."""
    shape = (8, 5)
    values = 100 + np.array([-1.0, -1.0, 2.0])

    def known(std: float, count: int) -> Repetitions:
        minimum = np.full(shape, values.min())
        return Repetitions(np.full(shape, 100.0), minimum, np.full(shape, std), np.full(shape, count))

    pooled = PooledSkew.empty(1)
    pooled.add(known(float(values.std()), 3), np.zeros(8, np.int64))
    assert pooled.n_series.tolist() == [0]
    pooled.add(known(1.0, 4), np.zeros(8, np.int64))
    assert pooled.n_series.tolist() == [8]
    assert pooled.means() == pytest.approx([np.sqrt(4 / 3)])  # 1% and 1% below the mean, of 4 repetitions


def test_the_errors_of_two_parameters_are_those_of_the_function() -> None:
    points = grid(X, (10, 20, 30, 40, 50))
    waves = np.resize([1.0, 1.02, 0.97, 1.01], len(points))
    values = [(5 + 2 * p + 0.25 * p * q) * wave for (p, q), wave in zip(points, waves, strict=True)]
    models = model_study(study_of(values, points, ("p", "q")), IMPROVED)
    assert set(terms_of(models)) == {"", "p^1", "p^1*q^1"}
    fitted, y = models.predict(np.array(points, np.float64))[0], np.array(values)
    assert models.costs.rss[0] == pytest.approx(((fitted - y) ** 2).sum())
    assert models.costs.smape[0] == pytest.approx((np.abs(fitted - y) / (fitted + y)).mean() * 200)


@pytest.mark.parametrize(
    ("deviations", "one_sided"),
    [([-2, -1, 0, 3], False), ([-2, -1.5, 0.5, 3], True), ([-1, -1, -1, 3], True), ([-3, 1, 1, 1], False)],
)
def test_noise_is_one_sided_beyond_the_limit_for_so_many_repetitions(deviations: list[float], one_sided: bool) -> None:
    """R is the standard deviation (of n - 1) over what the mean lies above the minimum: 1.080 and 1.137 for the first
    two. Of 4 normal numbers the largest is 1.02938 above their mean, as a rule: the limit is
    0.965 * sqrt(4 / (3 * 1.02938)) = 1.098."""
    values = 100 + np.array(deviations)
    shape = (1, 5)
    repetitions = Repetitions(
        np.full(shape, values.mean()), np.full(shape, values.min()), np.full(shape, values.std()), np.full(shape, 4)
    )
    assert observe(repetitions).one_sided.tolist() == [one_sided]


def test_what_it_cannot_fit_is_extra_ps_model() -> None:
    study = study_of_many([[0, 1, 2, 3, 4], [9, 17, 33, 65, 129]])
    models = model_study(study, IMPROVED)
    assert [bool(bits & Caution.NOT_IMPROVED) for bits in models.cautions] == [True, False]
    usual = model_study(study)
    assert models.predict(np.array([[99.0]]))[0] == usual.predict(np.array([[99.0]]))[0]
    diagonal = model_study(study_of([1, 4, 16], [(1, 1), (2, 2), (4, 4)], ("p", "q")), IMPROVED)
    assert diagonal.cautions[0] & Caution.NOT_IMPROVED


def test_both_predictions_stand_side_by_side() -> None:
    models = improved(REPEATED)
    table = predict(models, target_of(models.study, {"p": 128}), beside=fit_beside(models))
    usual = model_study(models.study)
    assert table["prediction_extrap"] == [usual.predict(np.array([[128.0]]))[0, 0]]
    assert table["prediction"] == [models.predict(np.array([[128.0]]))[0, 0]]
    assert fit_beside(usual) is None


def test_options_that_do_not_go_together_are_refused() -> None:
    with pytest.raises(UsageError, match="searches in its own way"):
        ModelOptions(method="improved", modeler="refining")
    with pytest.raises(UsageError, match="no measure 'detected'"):
        ModelOptions(measure=DETECTED)
    with pytest.raises(UsageError, match="no method 'best'"):
        ModelOptions(method="best")


def test_ranks_that_differ_are_no_noise() -> None:
    """A repetition with several values counts by their mean."""
    flat = study_of([[[x, 3 * x], [x, 3 * x]] for x in X])
    single = study_of([[2 * x, 2 * x] for x in X])
    at = np.array([[128.0]])
    assert quantiles_at(flat, np.arange(1), at) == pytest.approx(quantiles_at(single, np.arange(1), at))
