"""Values and points that leave little to model, or nothing. A model or a caution, never a crash."""

from __future__ import annotations

import numpy as np
import pytest

from callgrove.errors import UsageError
from callgrove.modeling.fitting import Caution, model_study
from callgrove.modeling.options import MODELERS, ModelOptions, parse_exponents
from tests.modeling.series import X, close, grid, model_of, study_of, study_of_many, terms_of

LINE = [9.0, 17.0, 33.0, 65.0, 129.0]  # 1 + 2 p
every_modeler = pytest.mark.parametrize("modeler", MODELERS)


@every_modeler
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite_are_left_out(bad: float, modeler: str) -> None:
    models = model_of([*LINE[:2], bad, *LINE[2:]], (4, 8, 12, 16, 32, 64), modeler=modeler)
    assert close(terms_of(models)["p^1"], 2.0)
    assert models.cautions[0] & Caution.NOT_FINITE
    assert models.n_points[0] == 5


@every_modeler
def test_nothing_finite_gives_no_model(modeler: str) -> None:
    models = model_study(study_of_many([[np.nan] * 5, LINE]), ModelOptions(modeler=modeler))
    assert np.isnan(models.functions.constant[0])
    assert models.cautions.tolist() == [Caution.NOTHING | Caution.NOT_FINITE, models.cautions[1]]
    assert close(terms_of(models, 1)["p^1"], 2.0)
    assert np.isnan(models.predict(np.array([[8.0]]))[0, 0])


@every_modeler
def test_a_series_without_any_value(modeler: str) -> None:
    models = model_study(study_of_many([[None] * 5, LINE]), ModelOptions(modeler=modeler))
    assert models.cautions[0] & Caution.NOTHING
    assert models.cautions[0] & Caution.MISSING


@every_modeler
def test_missing_cells_leave_the_others(modeler: str) -> None:
    holes: list[list[object]] = [list(LINE) for _ in range(4)]
    holes[1][2] = holes[2][0] = holes[3][4] = None
    models = model_study(study_of_many(holes), ModelOptions(modeler=modeler))
    assert [close(terms_of(models, k)["p^1"], 2.0) for k in range(4)] == [True] * 4
    assert models.n_points.tolist() == [5, 4, 4, 4]
    assert [bool(bits & Caution.MISSING) for bits in models.cautions] == [False, True, True, True]
    assert [bool(bits & Caution.FEW_POINTS) for bits in models.cautions] == [False, True, True, True]


@every_modeler
@pytest.mark.parametrize("values", [[7.0], [-7.0], [0.0]])
def test_one_point_is_a_constant(values: list[float], modeler: str) -> None:
    models = model_of(values, (4,), modeler=modeler)
    assert terms_of(models) == {"": values[0]}
    assert models.costs.rss[0] == 0


def test_one_point_of_two_parameters() -> None:
    assert terms_of(model_of([7.0], ((4, 10),), "pq")) == {"": 7.0}


@every_modeler
def test_two_points(modeler: str) -> None:
    models = model_of([3.0, 5.0], (2, 4), modeler=modeler)
    assert np.isfinite(models.functions.constant[0])
    assert models.cautions[0] & Caution.FEW_POINTS


@every_modeler
@pytest.mark.parametrize("value", [0.0, 5.0, 0.1, -3.0, 1e300, 1e-300])
def test_equal_values_are_a_constant(value: float, modeler: str) -> None:
    found = terms_of(model_of([value] * 5, modeler=modeler))
    assert found.keys() == {""}
    assert close(found[""], value, 1e-12)


@every_modeler
def test_points_that_vary_together_are_said(modeler: str) -> None:
    """On a diagonal the influence of two parameters cannot be told apart: a constant, and a caution."""
    models = model_of([1, 4, 16, 64, 256], [(x, x) for x in (1, 2, 4, 8, 16)], "pq", modeler=modeler)
    assert terms_of(models) == {"": 68.2}
    assert models.cautions[0] & Caution.NO_LINES


def test_a_plane_that_is_measured_along_one_parameter_only() -> None:
    points = [(4, 10), (8, 10), (16, 10), (32, 10), (64, 10)]
    assert close(terms_of(model_of(LINE, points, "pq"))["p^1"], 2.0)


@pytest.mark.parametrize(
    "x", [(0, 1, 2, 3, 4), (-2, -1, 0, 1, 2), (1e-3, 1e-2, 0.1, 1, 10), (0.0, 1e9, 1e15, 1e18, 1e20)]
)
@every_modeler
def test_coordinates_without_logarithms(x: tuple[float, ...], modeler: str) -> None:
    models = model_of([1.0, 3.0, 5.0, 8.0, 9.0], x, modeler=modeler)
    assert np.isfinite(models.functions.constant[0])
    assert models.cautions[0] & Caution.NO_LOGARITHMS
    assert not any("log2" in term for term in terms_of(models))


def test_negative_exponents_with_a_coordinate_of_zero() -> None:
    models = model_of([1.0, 3.0, 5.0, 8.0, 9.0], (0, 1, 2, 3, 4), negative=True)
    assert np.isfinite(models.functions.constant[0])


@pytest.mark.parametrize("scale", [1e-300, 1e-160, 1e160, 1e300])
@every_modeler
def test_enormous_and_tiny_values(scale: float, modeler: str) -> None:
    models = model_of([value * scale for value in (9, 17, 33, 65, 130)], modeler=modeler)
    assert np.isfinite(models.functions.constant[0])
    models = model_of([p * q * scale for p, q in grid(X, X)], grid(X, X), "pq", modeler=modeler)
    assert np.isfinite(models.functions.constant[0])


@pytest.mark.parametrize("values", [[0, 0, 0, 0, 5], [5, 0, 0, 0, 0], [0, 1, 0, 1, 0], [-1, 0, 1, 2, 3]])
@every_modeler
def test_zeros_and_signs(values: list[float], modeler: str) -> None:
    models = model_of(values, modeler=modeler)
    assert np.isfinite(models.functions.constant[0])
    assert np.isfinite(models.costs.smape[0])


def test_zeros_in_several_parameters() -> None:
    """Extra-P divides by them."""
    models = model_of(lambda p, q: max(0.0, p * q - 200), grid(X, (10, 20, 30, 40, 50)), "pq")
    assert np.isfinite(models.functions.constant[0])
    assert np.isfinite(models.costs.smape[0])


def test_many_points_are_no_matter_of_memory() -> None:
    n = 20_000
    x = np.arange(1.0, n + 1)
    models = model_of((3 + 0.5 * x * np.log2(x)).tolist(), x.tolist())
    assert close(terms_of(models)["p^1*log2(p)^1"], 0.5)


def test_measures_are_honoured() -> None:
    """Extra-P models the mean of one parameter whatever is asked for."""
    values = [[y, y + 1, y + 8] for y in LINE]
    found = {
        measure: terms_of(model_of(values, measure=measure))[""] for measure in ("mean", "median", "minimum", "maximum")
    }
    assert [round(found[name], 9) for name in ("mean", "median", "minimum", "maximum")] == [4.0, 2.0, 1.0, 9.0]


def test_noise_and_poor_fits_are_said() -> None:
    noisy = model_of([[y * 0.8, y * 1.2] for y in LINE])
    assert close(float(noisy.noise[0]), 0.4)
    assert noisy.cautions[0] == Caution.NOISE
    assert model_of([100, 52, 27, 14.5, 8.2]).cautions[0] == Caution.POOR


def test_few_points_along_a_parameter_and_for_segments() -> None:
    assert model_of(lambda p, q: p + q, grid(X, (1, 2, 3)), "pq").cautions[0] == Caution.FEW_ON_A_LINE
    assert model_of(LINE, modeler="segmented").cautions[0] == Caution.FEW_FOR_SEGMENTS


def test_options_that_do_not_exist_are_refused() -> None:
    for wrong in ({"modeler": "x"}, {"measure": "x"}, {"selection": "x"}, {"contribution": -1.0}):
        with pytest.raises(UsageError, match=r"there is no|a number from 0"):
            ModelOptions(**wrong)
    for text in ("a", "1/0", "1,,b", "1e9"):
        with pytest.raises(UsageError, match="exponent"):
            parse_exponents(text)
    assert [str(e) for e in parse_exponents("1/2, 1,1.5,")] == ["1/2", "1", "3/2"]


def test_series_that_do_not_exist_are_refused() -> None:
    with pytest.raises(UsageError, match="series 0 to 0"):
        model_study(study_of(LINE), series=np.array([3]))
