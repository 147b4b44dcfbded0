"""What did not scale: rankings, losses, and where costs cross."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from callgrove.errors import UsageError
from callgrove.model.study.series import Study
from callgrove.modeling.fitting import model_study
from callgrove.modeling.prediction import target_of
from callgrove.modeling.ranking import RANKINGS, find_crossings, make_ranked_curves, rank, tell_apart, whole_run
from tests.modeling.series import X

COSTS: dict[str, Callable[[float], float]] = {
    "main->solve": lambda p: 40.0,
    "main->MPI_Allreduce": lambda p: 0.01 * p,
    "main->io": lambda p: 1 + p**0.5,
}


def program() -> Study:
    return Study.from_values(
        ["p"],
        [[x] for x in X],
        [
            (path, "time", k, [cost(x) * (1 + e) for e in (-0.001, 0.0, 0.001)])
            for path, cost in COSTS.items()
            for k, x in enumerate(X)
        ],
    )


@pytest.mark.parametrize("by", RANKINGS)
def test_what_dominates_comes_first(by: str) -> None:
    study = program()
    table = rank(model_study(study), target_of(study, {"p": 65_536}), by)
    assert table["callpath"][0] == "main->MPI_Allreduce"
    assert table["loss"][0] == pytest.approx(0.01 * (65_536 - 4), rel=1e-3)


def test_rankings_differ() -> None:
    study = program()
    models, target = model_study(study), target_of(study, {"p": 256})
    assert rank(models, target, "share")["callpath"][0] == "main->solve"
    assert rank(models, target, "growth")["callpath"][0] == "main->MPI_Allreduce"
    assert rank(models, target, "loss")["callpath"][0] == "main->io"
    with pytest.raises(UsageError, match="no ranking by 'size'"):
        rank(models, target, "size")


def test_where_costs_cross() -> None:
    study = program()
    models = model_study(study)
    crossings = find_crossings(models, target_of(study, {"p": 100_000}), range(3))
    at = {(one.riser, one.other): one.value for one in crossings}
    assert at["main->MPI_Allreduce", "main->solve"] == pytest.approx(4000, rel=0.01)
    assert at["main->io", "main->solve"] == pytest.approx(39**2, rel=0.01)
    assert at["communication", "compute"] == pytest.approx(15_000, rel=0.3)  # 0.01 p = 41 + p^(1/2)
    assert find_crossings(models, target_of(study, {"p": 4}), range(3)) == []


def test_the_whole_run_and_its_curves() -> None:
    study = program()
    models, target = model_study(study), target_of(study, {"p": 256})
    ((metric, base, at),) = whole_run(models, target)
    assert metric == "time"
    assert base == pytest.approx(40 + 0.04 + 3, rel=1e-3)
    assert at == pytest.approx(40 + 2.56 + 17, rel=1e-3)
    curves = make_ranked_curves(models, [0, 1], target.at)
    assert [curve.label for curve in curves.curves] == ["solve", "MPI_Allreduce"]


def test_names_of_curves_tell_call_paths_apart() -> None:
    assert tell_apart(["main->f->wait", "main->g->wait", "main->h"]) == ["f->wait", "g->wait", "h"]
    assert tell_apart(["a->x->y", "b->x->y", "x->y"]) == ["a->x->y", "b->x->y", "x->y"]
    assert tell_apart(["same", "same"]) == ["same", "same"]
