"""What a user's `-m` means, and which metric is shown by default."""

from __future__ import annotations

import numpy as np
import pytest

from callgrove.errors import UsageError
from callgrove.model.metrics import Aggregation, Metric, Metrics, Scope, composite_named, time_unit

E, I, F = Scope.EXCLUSIVE, Scope.INCLUSIVE, Scope.FUNCTION  # noqa: E741

METRICS = Metrics(
    (
        Metric("PAPI_TOT_CYC", E, "cycles", visible=False),
        Metric("CPUTIME (sec)", F, "sec"),
        Metric("CPUTIME (sec)", I, "sec"),
        Metric("CPUTIME (sec)", I, "sec", statistic="mean"),
        Metric("GPU time", E, "ns"),
        Metric("GPU bytes", E, "bytes"),
    )
)


@pytest.mark.parametrize(
    ("asked", "name"),
    [
        ("CPUTIME (sec)", "CPUTIME (sec)"),
        ("cputime", "CPUTIME (sec)"),
        ("bytes", "GPU bytes"),
        ("tot_cyc", "PAPI_TOT_CYC"),
        ("gpu t", "GPU time"),
        ("papi", "PAPI_TOT_CYC"),
    ],
)
def test_a_part_of_the_name_is_enough(asked: str, name: str) -> None:
    assert METRICS.resolve(asked) == name


def test_the_exact_name_wins_over_longer_ones() -> None:
    assert Metrics((Metric("time2", E), Metric("time", E))).resolve("time") == "time"


def test_a_beginning_wins_over_a_middle() -> None:
    assert Metrics((Metric("wall time", E), Metric("Time in MPI", E))).resolve("time") == "Time in MPI"


@pytest.mark.parametrize("asked", ["time", "gpu"])
def test_several_that_fit_are_named(asked: str) -> None:
    with pytest.raises(UsageError, match=r"fits several metrics: .*GPU time"):
        METRICS.resolve(asked)


def test_what_there_is_is_named() -> None:
    with pytest.raises(UsageError, match=r"no metric 'x'; there are PAPI_TOT_CYC, CPUTIME"):
        METRICS.resolve("x")
    with pytest.raises(UsageError, match="there are none"):
        Metrics().resolve("x")
    many = Metrics(tuple(Metric(f"m{k}", E) for k in range(40)))
    with pytest.raises(UsageError, match=r"m11, \.\.\.$"):
        many.resolve("x")


def test_quantities_scopes_and_rows() -> None:
    assert METRICS.quantities == ("PAPI_TOT_CYC", "CPUTIME (sec)", "GPU time", "GPU bytes")
    assert METRICS.scopes("CPUTIME (sec)") == (F, I)
    assert (METRICS.find("CPUTIME (sec)", I), METRICS.find("CPUTIME (sec)", E)) == (2, None)
    assert METRICS.first("CPUTIME (sec)").scope == F


def test_the_default_is_the_first_visible_time() -> None:
    assert METRICS.default() == "CPUTIME (sec)"
    assert METRICS.default(lambda name: name == "GPU time") == "GPU time"
    assert METRICS.default(lambda name: name == "GPU bytes") == "GPU bytes"
    assert METRICS.default(lambda _: False) == "CPUTIME (sec)"


def test_what_is_called_a_time_comes_before_other_metrics_without_a_unit() -> None:
    count, named = Metric("Node order", E), Metric("inclusive#sum#time.duration", E)
    assert Metrics((count, named)).default() == named.name
    assert Metrics((count, named, Metric("gpu", E, "ns"))).default() == "gpu"
    assert Metrics((count, Metric("timesteps", E))).default() == count.name
    assert Metrics((count, Metric("time", E, "steps"))).default() == count.name


def test_without_any_time_the_first_visible_one() -> None:
    assert Metrics((Metric("hidden", E, visible=False), Metric("bytes", E, "bytes"))).default() == "bytes"
    assert Metrics((Metric("a", E, visible=False), Metric("b", E, visible=False))).default() == "a"
    with pytest.raises(UsageError, match="no metric"):
        Metrics().default()


@pytest.mark.parametrize(("unit", "seconds"), [("sec", 1), (" NS ", 1e-9), ("us", 1e-6), ("", None), ("bytes", None)])
def test_units_of_time(unit: str, seconds: float | None) -> None:
    assert time_unit(unit) == seconds


def test_aggregations() -> None:
    assert [a.neutral for a in Aggregation] == [0, np.inf, -np.inf, 0, 0]
    assert [Aggregation.SUM.ufunc, Aggregation.MINIMUM.ufunc, Aggregation.MAXIMUM.ufunc] == [
        np.add,
        np.minimum,
        np.maximum,
    ]
    for without in (Aggregation.COMPOSITE, Aggregation.NONE):
        with pytest.raises(UsageError, match="cannot be combined"):
            _ = without.ufunc


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("TAU_ATOMIC", ("n", "min", "max", "sum", "sum2")),
        (" tau_atomic ", ("n", "min", "max", "sum", "sum2")),
        ("HISTOGRAM(3)", ("min", "max", "bins")),
        ("ndoubles ( 2 )", ("values",)),
        ("HISTOGRAM(0)", None),
        ("HISTOGRAM(9999999)", None),
        ("DOUBLE", None),
    ],
)
def test_composite_types_are_known_by_their_names(name: str, fields: tuple[str, ...] | None) -> None:
    found = composite_named(name)
    assert (None if found is None else found.dtype.names) == fields
