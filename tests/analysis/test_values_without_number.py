"""Costs that are not finite numbers: views show them as they are, and warn of nothing."""

from __future__ import annotations

import numpy as np
import pytest

from callgrove.model.builder import ExperimentBuilder
from callgrove.model.contexts import ContextKind
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Metric, Scope
from callgrove.model.profiles import ProfileKind


def program(values: list[float]) -> Experiment:
    """Return main with as many calls as there are values, on two ranks."""
    builder = ExperimentBuilder("test", title="test", path="test")
    names = ["main", *"abcdefgh"[: len(values)]]
    for name in names:
        parent = -1 if name == "main" else 0
        builder.add_context(parent, ContextKind.FUNCTION, builder.region(ContextKind.FUNCTION, name))
    row = builder.add_metric(Metric("time", Scope.EXCLUSIVE, "sec", "DOUBLE"))
    for rank in range(2):
        builder.add_profile(ProfileKind.THREAD, [(2, rank, rank, 3), (3, 0, 0, 3)])
        builder.add_values(np.full(len(names), rank), np.arange(len(names)), row, np.array([1.0, *values]))
    return builder.build()


@pytest.mark.parametrize("values", [[np.inf], [np.nan], [np.inf, -np.inf], [np.nan, 2.0, -5.0, np.inf], [1.7e308] * 3])
def test_views_of_costs_that_are_not_finite(values: list[float]) -> None:
    e = program(values)
    finite = {name: value for name, value in zip("abcd", values, strict=False) if np.isfinite(value)}
    for by in ("function", "context"):
        sums = {row["name"]: row["sum"] for row in e.imbalance(by=by)}
        assert {name: sums[name] for name in finite} == {name: 2 * value for name, value in finite.items()}
    assert len(e.top()) >= 1
    assert len(e.tree()) >= 1
    changes = {row["path"]: row["difference"] for row in e.compare(program(values)).table()}
    assert changes["main"] == 0
    assert e.compare(e).sentence
