"""Fits of many series at once against numpy.linalg.lstsq, one by one; and what must not change a model."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from callgrove.arrays import Floats
from callgrove.modeling import fitting, single
from callgrove.modeling import least_squares as designs
from callgrove.modeling.fitting import model_study
from callgrove.modeling.functions import Exponents, candidates
from callgrove.modeling.least_squares import centre, design, multi_costs, solve
from callgrove.modeling.options import ModelOptions
from callgrove.modeling.scaling import lines_of
from callgrove.modeling.single import fit_series
from tests.exhaustive import try_examples
from tests.modeling.series import X, study_of_many, terms_of

GRIDS = [(4, 8, 16, 32, 64), (1, 2, 4), (1, 10, 1e3, 1e6, 1e9), (2, 3), (1e5, 2e5, 3e5, 4e5)]


@pytest.mark.parametrize("x", GRIDS)
def test_projections_are_those_of_lstsq(x: tuple[float, ...]) -> None:
    """With every point left out, and terms so large that the constant is lost in them."""
    at = np.array(x, np.float64)
    y = np.random.default_rng(3).uniform(1, 100, len(x))
    made = design(at, candidates(at, ModelOptions()))
    for row, t in enumerate(made.values):
        matrix = np.column_stack([np.ones_like(t), t])
        for k in range(len(x)):
            kept = np.arange(len(x)) != k
            wanted = np.linalg.lstsq(matrix[kept], y[kept], rcond=None)[0]
            found = made.without[row, :, k] @ y
            predicted = matrix @ found, matrix @ wanted
            assert np.allclose(*predicted, rtol=1e-6, atol=1e-6 * np.abs(y).max()), (row, k)
        assert np.allclose(
            matrix @ (made.full[row] @ y),
            matrix @ np.linalg.lstsq(matrix, y, rcond=None)[0],
            atol=1e-8 * np.abs(y).max(),
        )


def test_many_points_give_the_same_as_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond 64 points fits are updated instead of prepared."""
    x = np.linspace(2, 70, 40)
    y = 3 + x**1.5 * np.random.default_rng(1).uniform(0.9, 1.1, (30, 40))
    direct = fit_series(x, y, ModelOptions())
    monkeypatch.setattr(designs, "MOST_DIRECT_POINTS", 10)
    updated = fit_series(x, y, ModelOptions())
    assert direct.term.tolist() == updated.term.tolist()
    assert np.allclose(direct.costs.smape, updated.costs.smape, rtol=1e-10)


def test_chunks_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    y = np.random.default_rng(1).uniform(1, 9, (50, 1)) * np.array(X) ** 1.3
    whole = fit_series(np.array(X, np.float64), y, ModelOptions())
    monkeypatch.setattr(single, "CELLS_AT_ONCE", 1000)
    pieces = fit_series(np.array(X, np.float64), y, ModelOptions())
    assert whole.term.tolist() == pieces.term.tolist()
    assert np.allclose(whole.c1, pieces.c1, rtol=1e-12)


@pytest.mark.parametrize("n_columns", [1, 2, 3, 4])
def test_combined_fits_are_those_of_lstsq(n_columns: int) -> None:
    random = np.random.default_rng(n_columns)
    columns = [random.uniform(1, 10.0 ** (k + 1), (25, 7)) for k in range(n_columns)]
    y = random.uniform(1, 100, (25, 7))
    found = solve([centre(column) for column in columns], centre(y))
    for series in range(7):
        matrix = np.column_stack([np.ones(25), *(column[:, series] for column in columns)])
        assert np.allclose(found[:, series], np.linalg.lstsq(matrix, y[:, series], rcond=None)[0], rtol=1e-9)


def test_singular_columns_have_the_solution_of_least_norm() -> None:
    t = np.arange(1.0, 10)[:, None]
    found = solve([centre(t), centre(2 * t)], centre(3 + 5 * t))
    assert np.allclose(found[:, 0], [3, 1, 2])  # of all a + 2 b = 5
    assert np.isnan(solve([centre(t * np.nan)], centre(t))).all()


values = st.lists(st.floats(0.01, 1e6), min_size=5, max_size=5)


@try_examples(40)
@given(st.lists(values, min_size=1, max_size=4), st.integers(-20, 20))
def test_units_and_the_company_of_a_series_do_not_matter(rows: list[list[float]], power: int) -> None:
    """Values times a power of two (exact) give the same term and error, and so does a series alone."""
    models = model_study(study_of_many(rows))
    scaled = model_study(study_of_many([[v * 2.0**power for v in row] for row in rows]))
    for k, row in enumerate(rows):
        assert terms_of(scaled, k).keys() == terms_of(models, k).keys()
        assert scaled.costs.smape[k] == pytest.approx(models.costs.smape[k], rel=1e-9, abs=1e-9)
        alone = model_study(study_of_many([row]))
        assert terms_of(alone) == pytest.approx(terms_of(models, k), rel=1e-9)


@try_examples(25)
@given(
    st.sampled_from([t for t in candidates(np.array(X, np.float64), ModelOptions()) if t.power]),
    st.floats(0.5, 1e3),
    st.floats(0.05, 5),
)
def test_exact_functions_are_found(term: Exponents, c0: float, ratio: float) -> None:
    """A constant below 1/2000 of the smallest value would be taken for 0."""
    c1 = c0 * ratio
    x = np.array((2, 4, 8, 16, 32, 64), np.float64)
    y = c0 + c1 * x ** float(term.power) * np.log2(x) ** float(term.logarithm)
    models = model_study(study_of_many([y.tolist()], x.tolist()))
    assert models.costs.smape[0] < 1e-8
    assert np.allclose(
        models.predict(np.array([[512.0]])), c0 + c1 * 512 ** float(term.power) * 9 ** float(term.logarithm)
    )


def test_own_exponents() -> None:
    own = ModelOptions(powers=(Fraction(7, 5),), logs=(Fraction(3),))
    names = [(str(t.power), str(t.logarithm)) for t in candidates(np.array(X, np.float64), own)]
    assert names == [("7/5", "0"), ("0", "3"), ("7/5", "3")]
    products = ModelOptions(powers=(Fraction(1),), logs=(Fraction(3), Fraction(0)), combined=True, retain=True)
    names = [(str(t.power), str(t.logarithm)) for t in candidates(np.array(X, np.float64), products)]
    assert names[:3] == [("1", "3"), ("1", "0"), ("0", "1")]
    assert len(names) == 2 + 42


@pytest.mark.parametrize("modeler", ["default", "refining", "segmented"])
def test_progress_is_told_block_by_block_and_blocks_change_nothing(
    modeler: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = study_of_many([[k + p * (k % 3) for p in X] for k in range(10)])
    whole = model_study(study, ModelOptions(modeler=modeler))
    monkeypatch.setattr(fitting, "SERIES_AT_ONCE", 4)
    told: list[tuple[str, int, int]] = []
    models = model_study(study, ModelOptions(modeler=modeler), progress=lambda *words: told.append(words))
    assert told == [("fitting models", done, 10) for done in (4, 8, 10)]
    assert np.array_equal(models.predict(study.points), whole.predict(study.points))


def test_only_columns_that_depend_on_each_other_are_solved_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four columns are beyond the bound that needs no decomposition: their singular values decide."""
    asked: list[int] = []
    lstsq = designs.by_lstsq

    def watch(columns: Sequence[Floats], y: Floats) -> Floats:
        asked.append(len(columns))
        return lstsq(columns, y)

    monkeypatch.setattr(designs, "by_lstsq", watch)
    rng = np.random.default_rng(5)
    columns, y = rng.uniform(1, 9, (4, 12, 20)), rng.uniform(1, 9, (12, 20))
    columns[3, :, 7] = columns[0, :, 7] + 2 * columns[1, :, 7]
    found = solve([centre(column) for column in columns], centre(y))
    assert len(asked) == 1
    for series in range(20):
        matrix = np.column_stack([np.ones(12), *columns[:, :, series]])
        assert np.allclose(found[:, series], np.linalg.lstsq(matrix, y[:, series], rcond=None)[0])


def test_an_error_at_a_point_that_is_0_is_infinite_and_none_is_0() -> None:
    y = np.array([[0.0, 0.0], [2.0, 2.0], [4.0, 4.0]])
    costs = multi_costs(np.array([[0.0, 1.0], [3.0, 3.0], [4.0, 4.0]]), y, np.array([8.0, 8.0]), 1)
    assert costs.re.tolist() == [pytest.approx(0.5 / 3), np.inf]
    assert costs.rrss.tolist() == [0.25, np.inf]
    assert costs.smape.tolist() == pytest.approx([200 / 3 * 1 / 5, 200 / 3 * (1 + 1 / 5)])


def test_the_smallest_line_of_a_parameter_is_that_where_all_others_are_smallest() -> None:
    points = np.array([(x, q, r) for q in (20.0, 10.0) for r in (3.0, 1.0) for x in (4.0, 8.0, 16.0)])
    first, second, third = lines_of(points, "smallest")
    assert (first.x.tolist(), [group.tolist() for group in first.groups]) == ([4, 8, 16], [[9], [10], [11]])
    assert (second.x.tolist(), [group.tolist() for group in second.groups]) == ([20, 10], [[3], [9]])
    assert (third.x.tolist(), [group.tolist() for group in third.groups]) == ([3, 1], [[6], [9]])
