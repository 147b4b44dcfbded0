"""Metrics whose values cannot be combined, such as means that a file stores, in operations that add values up."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from callgrove.algebra.operations import diff, mean, merge
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.contexts import ContextKind
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Aggregation, Metric, Scope
from callgrove.model.profiles import DEFAULT_ID_NAMES, Interpretation, ProfileKind

RANK = DEFAULT_ID_NAMES.index("RANK")
LOST = "lost: metric size: what several profiles have of it cannot be made one value"


def make(times: Mapping[int, float]) -> Experiment:
    """A time, and a mean size of 4, of some ranks."""
    builder = ExperimentBuilder("made", path="made")
    time = builder.add_metric(Metric("time", Scope.EXCLUSIVE, "sec"))
    size = builder.add_metric(Metric("size", Scope.EXCLUSIVE, aggregation=Aggregation.NONE))
    main = builder.add_context(-1, ContextKind.FUNCTION, builder.region(ContextKind.FUNCTION, "main"))
    for rank, seconds in times.items():
        profile = builder.add_profile(ProfileKind.THREAD, [(RANK, rank, rank, Interpretation.SINGLE)])
        builder.add_values(profile, [main], time, [seconds])
        builder.add_values(profile, [main], size, [4.0])
    return builder.build()


def losses(experiment: Experiment) -> list[str]:
    return [warning.text for warning in experiment.warnings if "size" in warning.text]


@pytest.mark.parametrize(
    ("made", "total"),
    [
        (merge(make({0: 1, 1: 2}), make({0: 4, 1: 8}), conflict="sum"), 15),
        (merge(make({0: 1, 1: 2}), make({0: 4, 1: 8}), system="collapse"), 15),
        (diff(make({0: 1, 1: 2}), make({0: 4, 1: 8}), system="collapse"), 3 - 12),
        (mean(make({0: 1, 1: 2}), make({0: 4, 1: 8}), system="collapse"), 7.5),
    ],
)
def test_what_cannot_be_combined_is_left_out_and_named(made: Experiment, total: float) -> None:
    assert made.root_total("time") == total
    assert "size" not in made.metrics.quantities
    assert losses(made) == [LOST]


def test_what_need_not_be_combined_stays() -> None:
    """Other ranks, or inputs of one profile each whose values agree."""
    apart = merge(make({0: 1, 1: 2}), make({2: 4}), conflict="sum")
    alike = mean(make({0: 1}), make({0: 3}), system="collapse")
    for made, total in ((apart, 7), (alike, 2)):
        assert made.root_total("time") == total
        assert "size" in made.metrics.quantities
        assert not losses(made)
