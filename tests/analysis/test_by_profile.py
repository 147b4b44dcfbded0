"""Cost by profile: added up as values come, it is what matrices say."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from callgrove.analysis.costs import exclusive_by_profile
from callgrove.errors import UsageError
from callgrove.examples import example
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.contexts import ContextKind
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Aggregation, Metric, Scope
from callgrove.model.profiles import ProfileKind
from tests.model.strategies import experiments


@given(experiments(traces=False, aggregations=(Aggregation.SUM,)), st.data())
def test_sums_are_those_of_the_matrix(experiment: Experiment, data: st.DataObject) -> None:
    n = experiment.contexts.n_listed
    for quantity in experiment.metrics.quantities:
        try:
            matrix = experiment.matrix(quantity, Scope.EXCLUSIVE)[:n].astype(np.float64)
        except UsageError:  # nothing to compute it from
            continue
        mask = np.zeros(len(experiment.contexts), np.bool_)
        mask[:n] = data.draw(st.lists(st.booleans(), min_size=n, max_size=n))
        everything = np.ones(len(experiment.contexts), np.bool_)
        got = exclusive_by_profile(experiment, quantity, [everything, mask])
        size = np.abs(matrix).sum() + 1
        assert np.abs(got[0] - matrix.sum(axis=0)).max(initial=0) <= 1e-9 * size
        assert np.abs(got[1] - matrix[mask[:n]].sum(axis=0)).max(initial=0) <= 1e-9 * size


def test_some_profiles_in_any_order() -> None:
    experiment = example()
    everything = np.ones(len(experiment.contexts), np.bool_)
    whole = exclusive_by_profile(experiment, "cycles", [everything])
    some = exclusive_by_profile(experiment, "cycles", [everything], np.array([5, 2]))
    assert some.tolist() == [[whole[0, 5], whole[0, 2]]]


def two_values(aggregation: Aggregation) -> Experiment:
    builder = ExperimentBuilder("made-up")
    for name in ("a", "b"):
        builder.add_context(-1, ContextKind.FUNCTION, builder.region(ContextKind.FUNCTION, name))
    builder.add_metric(Metric("x", Scope.EXCLUSIVE, aggregation=aggregation))
    profile = builder.add_profile(ProfileKind.THREAD)
    builder.add_values(profile, [0, 1], 0, [np.inf, 2.0])
    return builder.build()


def test_an_infinite_value_stays_in_its_group() -> None:
    experiment = two_values(Aggregation.SUM)
    first, second = np.array([True, False]), np.array([False, True])
    assert exclusive_by_profile(experiment, "x", [first, second]).tolist() == [[np.inf], [2.0]]


def test_what_is_no_sum_is_refused() -> None:
    with pytest.raises(UsageError, match="is a maximum, no sum"):
        exclusive_by_profile(two_values(Aggregation.MAXIMUM), "x", [np.array([True, True])])
