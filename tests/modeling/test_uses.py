"""What is done with models: text, predictions, sums, strong scaling, stored models, runner-ups."""

from __future__ import annotations

from dataclasses import replace
from math import log2

import numpy as np
import pytest

from callgrove.errors import UsageError
from callgrove.model.study.builder import StudyBuilder
from callgrove.model.study.series import Study
from callgrove.modeling import surfaces
from callgrove.modeling.fitting import Models, model_study
from callgrove.modeling.model_tables import function_text, model_tables, order_text, subtree_sums
from callgrove.modeling.options import ModelOptions
from callgrove.modeling.prediction import curves_of, far_from, predict, runner_ups, target_of
from callgrove.modeling.scaling import along, falling_parameters, total_cost
from callgrove.modeling.stored_models import read_stored_models, to_stored, with_models
from tests.modeling.series import X, close, grid, model_of, study_of, terms_of

PQ = grid(X, (10, 20, 30, 40, 50))


def tree_study() -> Study:
    """main 10, main->a 2 p, main->b->c p^2 + 3, other 1 p; and bytes of main->a."""
    builder = StudyBuilder(["p"])
    for p in X:
        at = builder.point([p])
        for path, value in (("main", 10), ("main->a", 2 * p), ("main->b->c", p * p + 3), ("other", 1 * p)):
            builder.add_values(path, "time", at, [value])
        builder.add_values("main->a", "bytes", at, [p * 8])
    return builder.build()


# -- text ------------------------------------------------------------------------------------------------------------


def test_extra_ps_notation() -> None:
    assert function_text(model_of([3.5] * 5).functions, 0) == "3.5"
    falling = function_text(model_of([100, 52, 27, 14.5, 8.2]).functions, 0)
    constant, rest = falling.split(" + ")
    assert close(float(constant), 128.78)
    assert rest.startswith("-22.1")
    assert rest.endswith(" * log2(p)^(1)")
    stored = model_study(study_of([1, 2, 3, 4, 5]))
    assert " + " in function_text(stored.functions, 0)


@pytest.mark.parametrize("modeler", ["default", "segmented"])
def test_python_text_computes_what_the_model_predicts(modeler: str) -> None:
    values = [x if x <= 5 else x * x + 30 for x in range(1, 11)]
    models = model_of(values, range(1, 11), ["my param"], modeler=modeler)
    text = function_text(models.functions, 0, "python")
    for x in (1.0, 3.0, 7.0, 20.0):
        assert eval(text, {"log2": log2, "my_param": x}) == pytest.approx(models.predict(np.array([[x]]))[0, 0])


def test_python_text_of_several_parameters() -> None:
    models = model_of(lambda p, q: 5 - 2 * p + 0.25 * p * q * log2(q), PQ, ("p", "class"))
    text = function_text(models.functions, 0, "python")
    assert eval(text, {"log2": log2, "p": 7.0, "_class": 9.0}) == pytest.approx(5 - 14 + 0.25 * 63 * log2(9))


def test_latex() -> None:
    models = model_of(lambda p, q: 5 - 2 * p**1.5 + 1e-5 * p**1.5 * q**2, PQ, ("p", "n_x"))
    assert function_text(models.functions, 0, "latex") == (
        r"5 - 2 \cdot p^{3/2} + 1 \cdot 10^{-5} \cdot p^{3/2} \cdot \mathit{n\_x}^{2}"
    )
    pieces = model_of([x if x <= 5 else x * x + 30 for x in range(1, 11)], range(1, 11), modeler="segmented")
    assert r"30 + p^{2} & p \ge 6.0" in function_text(pieces.functions, 0, "latex").replace("1 \\cdot ", "")


def test_orders() -> None:
    assert order_text(model_of([3.5] * 5).functions, 0) == "O(1)"
    assert order_text(model_of(lambda p: 3 + p**1.5 * log2(p)).functions, 0) == "O(p^(3/2) * log2(p))"
    assert order_text(model_of([100, 52, 27, 14.5, 8.2], negative=True).functions, 0) == "O(1)"
    both = model_of(lambda p, q: 5 + 2 * p**2 + 3 * q, PQ, "pq")
    assert order_text(both.functions, 0) == "O(p^(2) + q)"
    above = model_of(lambda p, q: 5 + 2 * p + 0.25 * p * q, PQ, "pq")
    assert order_text(above.functions, 0) == "O(p * q)"
    assert order_text(model_of([x if x <= 5 else x * x for x in range(1, 11)], range(1, 11)).functions, 0).startswith(
        "O("
    )


# -- predictions -----------------------------------------------------------------------------------------------------


def test_predictions_are_ranked_by_share() -> None:
    models = model_study(tree_study())
    table = predict(models, target_of(models.study, {"p": 100}))
    paths = list(zip(table.column("metric").plain(), table.column("callpath").plain(), strict=True))
    assert paths == [
        ("time", "main->b->c"),
        ("time", "main->a"),
        ("time", "other"),
        ("time", "main"),
        ("bytes", "main->a"),
    ]
    assert table.column("prediction").plain() == pytest.approx([10003, 200, 100, 10, 800])
    assert table.column("share").plain() == pytest.approx([100 * v / 10313 for v in (10003, 200, 100, 10)] + [100])
    assert table.column("base").plain() == pytest.approx([19, 8, 4, 10, 32])
    assert table.column("growth").plain()[1] == pytest.approx(25)


@pytest.mark.parametrize(
    ("scaling", "speedup", "efficiency"),
    [("", 25 * 8 / 200, 8 / 200), ("weak", 25 * 8 / 200, 8 / 200), ("strong", 25 * 8 / 200, 8 / 200)],
)
def test_speed_up_and_efficiency(scaling: str, speedup: float, efficiency: float) -> None:
    """From p = 4 to 100 the cost of main->a grows from 8 to 200. Weak: the work done is 25 times that of the base in 25
    times its time. Strong: 25 times the total cost on 25 times the processes takes as long."""
    models = model_study(replace(tree_study(), scaling=scaling))
    table = predict(models, target_of(models.study, {"p": 100}))
    row = table.column("callpath").plain().index("main->a")
    assert table.column("speedup").plain()[row] == pytest.approx(speedup)
    assert table.column("efficiency").plain()[row] == pytest.approx(efficiency)


def test_nothing_is_compared_with_a_base_below_zero() -> None:
    """2 * p - 3 is -1 at p = 1: a prediction is not a multiple of that."""
    models = model_of(lambda p: 2 * p - 3, (1, 2, 4, 8, 16))
    table = predict(models, target_of(models.study, {"p": 100}))
    assert table.column("base").plain() == pytest.approx([-1])
    assert table.column("prediction").plain() == pytest.approx([197])
    assert [table.column(name).plain() for name in ("growth", "speedup", "efficiency")] == [[None]] * 3


def test_no_speed_up_where_nothing_counts_processes() -> None:
    models = model_of([1, 2, 3, 4, 5], parameters=["size"])
    target = target_of(models.study, {"size": 100})
    assert "speedup" not in predict(models, target).names
    assert "speedup" in predict(models, target, processes="size").names


def test_targets_name_every_parameter() -> None:
    study = model_of(lambda p, q: p * q, PQ, "pq").study
    assert target_of(study, {"q": 1, "p": 2}).at.tolist() == [2, 1]
    assert target_of(study, {"q": 1, "p": 2}).base.tolist() == [4, 10]
    for wrong, said in (({"p": 1.0}, "'q' is missing"), ({"p": 1.0, "q": 2.0, "r": 3.0}, "no parameter 'r'")):
        with pytest.raises(UsageError, match=said):
            target_of(study, wrong)


def test_far_targets_are_said() -> None:
    study = model_of(lambda p, q: p * q, PQ, "pq").study
    assert far_from(study, target_of(study, {"p": 200, "q": 40})) == []
    (said,) = far_from(study, target_of(study, {"p": 6400, "q": 40}))
    assert said == "p = 6400 is 100 times the largest measured (64)"


# -- sums along the call tree ----------------------------------------------------------------------------------------


def test_sums_along_the_call_tree() -> None:
    sums = subtree_sums(model_study(tree_study()))
    at = dict(
        zip(zip(sums.callpaths, sums.metrics, strict=True), sums.functions.evaluate(np.array([[100.0]])), strict=True)
    )
    assert at["main", "time"] == pytest.approx(10 + 200 + 10003)
    assert at["main->b", "time"] == pytest.approx(10003)  # was not measured itself
    assert at["main", "bytes"] == pytest.approx(800)
    assert at["other", "time"] == pytest.approx(100)
    number = list(zip(sums.callpaths, sums.metrics, strict=True)).index(("main", "time"))
    assert sums.n_models[number] == 3
    assert order_text(sums.functions, number) == "O(p^(2))"
    assert len(list(sums.functions.terms(number))) == 2


def test_equal_terms_are_added() -> None:
    builder = StudyBuilder(["p"])
    for p in X:
        for path in ("m->a", "m->b"):
            builder.add_values(path, "t", builder.point([p]), [1 + 2 * p])
    sums = subtree_sums(model_study(builder.build()))
    (term,) = sums.functions.terms(sums.callpaths.index("m"))
    assert close(term.coefficient, 4.0)
    assert close(float(sums.functions.constant[sums.callpaths.index("m")]), 2.0)


# -- strong scaling, one parameter of several ------------------------------------------------------------------------


def test_falling_costs_are_recognised_and_turned_into_totals() -> None:
    study = study_of([[100 / p + 2, 100 / p + 2.5] for p in X])
    assert falling_parameters(study) == ["p"]
    assert falling_parameters(study_of([1, 2, 3, 4, 5])) == []
    total = total_cost(study, "p")
    assert total.scaling == "strong"
    assert total.validate() == []
    assert total.mean[0].tolist() == pytest.approx([100 + 2.25 * p for p in X])
    assert total.values(0, 1).tolist() == pytest.approx([116, 120])
    assert close(terms_of(model_study(total))["p^1"], 2.25)
    with pytest.raises(UsageError, match="no parameter 'x'"):
        total_cost(study, "x")
    with pytest.raises(UsageError, match="negative"):
        total_cost(study_of([1, 2, 3], (-1, 1, 2)), "p")


def test_falling_is_found_in_one_of_two_parameters() -> None:
    study = study_of([q * 1000 / p for p, q in PQ], PQ, "pq")
    assert falling_parameters(study) == ["p"]


def test_points_on_a_diagonal_can_be_modelled_along_one_parameter() -> None:
    study = study_of([p * p for p in X], [(p, 3 * p) for p in X], "pq")
    assert terms_of(model_study(study)).keys() == {""}
    found = terms_of(model_study(along(study, "q")))
    assert close(found["q^2"], 1 / 9)
    with pytest.raises(UsageError, match="several points have p = 4"):
        along(study_of([p for p, _ in PQ], PQ, "pq"), "p")


# -- stored models ---------------------------------------------------------------------------------------------------


def again(models: Models) -> Models:
    return read_stored_models(with_models(models.study, models))


def test_models_survive_being_stored() -> None:
    pieces = model_of([x if x <= 5 else x * x + 30 for x in range(1, 11)], range(1, 11), modeler="segmented")
    of_two = model_of(lambda p, q: 5 + 2 * p + 0.25 * p * q, PQ, "pq")
    for models in (model_study(tree_study()), of_two, pieces, pieces_of_two_parameters()):
        stored = again(models)
        points = models.study.points
        assert np.array_equal(stored.predict(points), models.predict(points), equal_nan=True)
        assert stored.costs.smape.tolist() == models.costs.smape.tolist()
        texts = [function_text(m.functions, 0) for m in (stored, models)]
        assert texts[0] == texts[1]
        assert with_models(models.study, models).validate() == []


def pieces_of_two_parameters() -> Models:
    steps = grid(range(1, 11), (10, 20, 30, 40, 50))
    return model_of(lambda p, q: (p if p <= 5 else p * p + 30) * q, steps, "pq", modeler="segmented")


def test_pieces_of_a_function_of_two_parameters() -> None:
    models = pieces_of_two_parameters()
    assert "{" in function_text(models.functions, 0)
    assert np.allclose(models.predict(np.array([[3.0, 100], [8, 100]])), [[300, 9400]])


def test_what_cannot_be_stored_is_left_out() -> None:
    assert to_stored(model_of([np.nan] * 5)) == ()


def test_sets_of_models_have_names() -> None:
    study = tree_study()
    first = with_models(study, model_study(study), "first")
    both = with_models(first, model_study(study, ModelOptions(cross_validation=False)), "second")
    assert {m.name for m in both.models} == {"first", "second"}
    assert len(read_stored_models(both, "first")) == 5
    with pytest.raises(UsageError, match="'third'; there are 'first', 'second'"):
        read_stored_models(both, "third")
    with pytest.raises(UsageError, match="no stored models"):
        read_stored_models(study)


# -- runner-ups, tables, curves --------------------------------------------------------------------------------------


def test_runner_ups_show_what_the_data_cannot_tell_apart() -> None:
    """On five noisy points several functions fit alike, and part ways at 1024."""
    models = model_of([10.9, 13.6, 23.5, 36.0, 72.6])
    table = runner_ups(models, 0, np.array([1024.0]))
    assert table.column("order").plain()[0] == order_text(models.functions, 0)
    assert len(table) > 1
    assert max(table.column("prediction").plain()) > 1.2 * min(table.column("prediction").plain())
    errors = table.column("smape").plain()
    assert errors == sorted(errors)
    assert errors[-1] <= 1.5 * errors[0]
    assert table.column("prediction").plain()[0] == pytest.approx(models.predict(np.array([[1024.0]]))[0, 0])
    constant = runner_ups(model_of([3.5] * 5), 0)
    assert constant.column("function").plain() == ["3.5"]
    with pytest.raises(UsageError, match="one parameter"):
        runner_ups(model_of(lambda p, q: p * q, PQ, "pq"), 0)


def test_the_table_is_the_contract() -> None:
    (table,) = model_tables(model_of(lambda p: 4 + 3 * p**1.5 * log2(p)))
    row = dict(zip(table.names, next(table.rows()), strict=True))
    assert (row["callpath"], row["metric"]) == ("f", "t")
    assert row["constant"] == pytest.approx(4)
    assert row["terms"] == [{"coefficient": pytest.approx(3), "exponents": {"p": ["3/2", "1"]}}]
    assert {"function", "smape", "rss", "ar2", "re"} <= set(table.names)
    assert "segments" not in table.names


def test_the_table_of_a_function_in_pieces() -> None:
    (table,) = model_tables(
        model_of([x if x <= 5 else x * x + 30 for x in range(1, 11)], range(1, 11), modeler="segmented")
    )
    row = dict(zip(table.names, next(table.rows()), strict=True))
    left, right = row["segments"]
    assert (left["from"], left["to"], right["from"], right["to"]) == (None, 5.0, 6.0, None)
    assert right["terms"] == [{"coefficient": pytest.approx(1), "exponents": {"p": ["2", "0"]}}]
    assert row["terms"] == []


def test_curves_reach_the_target_and_keep_measurements() -> None:
    models = model_of(lambda p, q: p * q, PQ, "pq")
    plot = curves_of(models, 0, np.array([640.0, 60.0]))
    assert [c.label for c in plot.curves] == [f"q = {q}" for q in (10, 20, 30, 40, 50, 60)]
    assert all(c.x[-1] == pytest.approx(640) for c in plot.curves)
    assert plot.curves[0].measured_y.tolist() == [p * 10 for p in X]
    assert len(plot.curves[-1].measured_x) == 0
    assert np.allclose(plot.curves[1].y, plot.curves[1].x * 20)


def test_a_surface_holds_what_lies_beyond_two_parameters() -> None:
    models = model_of(lambda p, q, r: p + q + r, grid((1, 2, 4, 8, 16), (1, 2, 3, 4, 5), (7,)), ("p", "q", "r"))
    for at, third in ((None, 7.0), (np.array([64.0, 6.0, 9.0]), 9.0)):
        surface, points = surfaces._make_grid(models, at)
        assert surface.note == f"r = {third:g}"
        assert points.shape == (len(surface.x) * len(surface.y), 3)
        assert (points[:, 2] == third).all()
