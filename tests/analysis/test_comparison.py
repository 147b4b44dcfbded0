"""What differs between experiments, call path by call path."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from callgrove.algebra.cutting import part
from callgrove.analysis.comparison import Comparison, Question, compare
from callgrove.errors import UsageError
from callgrove.examples import example
from callgrove.formats.registry import open_path
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.contexts import ContextKind
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Aggregation, Metric, Metrics, Scope
from callgrove.model.profiles import ProfileKind
from tests.algebra.consistent import consistent, dense
from tests.algebra.reference import cube_a, cube_b
from tests.exhaustive import try_examples
from tests.formats.samples import CORPUS
from tests.model.strategies import experiments

A, B = cube_a(), cube_b()


def rows(found: Comparison, limit: int | None = None) -> list[dict[str, Any]]:
    table = found.table(limit)
    return [dict(zip(table.names, row, strict=True)) for row in table.rows()]


def by_path(found: Comparison) -> dict[str, dict[str, Any]]:
    return {row["path"]: row for row in rows(found)}


def test_the_reference_cubes() -> None:
    """Totals over four locations, computed from the table of the specification."""
    found = by_path(compare([A, B], Question("time")))
    main = found["main"]
    assert (main["left"], main["right"], main["difference"], main["ratio"]) == (26, 400, -374, 26 / 400)
    assert (found["main->foo"]["left"], found["main->foo"]["right"]) == (26, 200)
    assert (found["main->bar"]["left"], found["main->bar"]["right"]) == (8, 80)
    only = found["main->foo->new"]
    assert (only["left"], only["right"], only["difference"], only["ratio"], only["present"]) == (0, 4, -4, 0, "right")
    only = found["main->MPI_Barrier"]
    assert (only["left"], only["right"], only["difference"], only["ratio"], only["present"]) == (
        16,
        0,
        16,
        None,
        "left",
    )
    assert found["main"]["present"] == "both"


def test_inclusive_and_counters() -> None:
    found = by_path(compare([A, B], Question("time", Scope.INCLUSIVE)))
    assert (found["main"]["left"], found["main"]["right"]) == (128, 4 * 179)
    visits = by_path(compare([A, B], Question("visits")))
    assert (visits["main->foo"]["difference"], type(visits["main->foo"]["difference"])) == (100 - 4, int)
    assert visits["main"]["difference"] == 2 - 4  # counters do not wrap


def test_minima_that_are_not_there_are_empty() -> None:
    found = by_path(compare([A, B], Question("lo")))
    assert found["main"]["difference"] == 0.5 - 50
    only = found["main->foo->new"]
    assert (only["left"], only["right"], only["difference"], only["ratio"]) == (None, 0.5, None, None)


def test_a_change_in_many_places_is_said_to_be_spread() -> None:
    n = 400
    inputs = []
    for seconds in (1.0, 2.0):
        builder = ExperimentBuilder("test", path="t")
        root = builder.add_context(-1, ContextKind.FUNCTION, builder.region(ContextKind.FUNCTION, "main"))
        for k in range(n):
            builder.add_context(root, ContextKind.FUNCTION, builder.region(ContextKind.FUNCTION, f"f{k}"))
        builder.add_profile(ProfileKind.THREAD)
        row = builder.add_metric(Metric("time", Scope.EXCLUSIVE, "sec"))
        builder.add_values(0, np.arange(1, n + 1), row, np.full(n, seconds))
        inputs.append(builder.build())
    sentence = compare(inputs, Question("time")).sentence
    assert sentence.endswith(" is 100% slower: it is spread over 400 call paths, with 0.2% of it in the largest")


def test_extremes_are_more_or_less_and_have_no_parts() -> None:
    found = compare([A, B], Question("hi"))
    assert found.totals == (24.0, 200.0)
    assert found.sentence == "B.cubex has 733% more hi"
    assert found.count_only(1)["right"][0] == 1
    assert np.isnan(found.count_only(1)["right"][1])


def test_the_largest_difference_comes_first() -> None:
    found = rows(compare([A, B], Question("time")))
    weights = [abs(row["difference"]) for row in found]
    assert weights == sorted(weights, reverse=True)
    limited = compare([A, B], Question("time")).table(2)
    assert (len(limited), limited.left) == (2, len(found) - 2)


def test_selected_profiles_and_totals() -> None:
    found = compare([A, B], Question("time", ranks={1}, threads={0}))
    assert by_path(found)["main"]["left"] == 12
    assert found.totals == (39.0, 179.0)
    with pytest.raises(UsageError, match="no profile has rank"):
        compare([A, B], Question("time", ranks={9}))


def test_three_experiments() -> None:
    found = compare([A, B, A], Question("time"))
    table = found.table()
    assert table.names[-1] == "input"
    for row in rows(found):
        assert row["input"] in ("A.cubex", "B.cubex")
        if row["input"] == "A.cubex":
            assert row["difference"] == 0


def test_what_cannot_be_compared() -> None:
    with pytest.raises(UsageError, match="there is no metric 'onlyA'"):
        compare([A, B], Question("onlyA"))
    with pytest.raises(UsageError, match="needs two experiments"):
        compare([A])
    other = example()
    counted = replace(other, metrics=Metrics(tuple(m for m in other.metrics if m.name == "cycles")))
    unlike = r"share no metric: A.cubex has visits, time, .*, others have cycles; metric='LEFT=RIGHT'"
    with pytest.raises(UsageError, match=unlike):
        compare([A, counted])
    with pytest.raises(UsageError, match="time is not stored in scope 'point'"):
        compare([A, B], Question("time", Scope.POINT))


@try_examples(25)
@given(experiments(traces=False, aggregations=tuple(Aggregation)[:3]))
def test_nothing_differs_from_itself(e: Experiment) -> None:
    for name in e.metrics.quantities:
        for scope in (Scope.EXCLUSIVE, Scope.INCLUSIVE):
            assert all(row["difference"] == 0 for row in rows(compare([e, e], Question(name, scope))))


@try_examples(25)
@given(consistent(), consistent())
def test_exclusive_differences_add_up(a: Experiment, b: Experiment) -> None:
    for source in (False, True):
        found = compare([a, b], Question("time", source=source))
        total = dense(a, "time", Scope.EXCLUSIVE).sum() - dense(b, "time", Scope.EXCLUSIVE).sum()
        assert sum(row["difference"] for row in rows(found)) == pytest.approx(total)
        assert found.totals[0] - found.totals[1] == pytest.approx(total)


def opened(paths: Sequence[Path]) -> list[Experiment]:
    out = []
    for path in paths:
        e = open_path(path)
        assert isinstance(e, Experiment)
        out.append(e)
    return out


@pytest.mark.parametrize("scope", [Scope.EXCLUSIVE, Scope.INCLUSIVE, Scope.FUNCTION])
@pytest.mark.parametrize("name", ["mpi4.d", "pth4.d", "mpi4.foreign.d", "pth4.foreign.d"])
def test_one_run_in_two_formats(name: str, scope: Scope) -> None:
    """The generations of HPCToolkit nest lines and call sites differently and call roots by other names."""
    both = opened([CORPUS / "hpctoolkit" / generation / name for generation in ("prerelease", "release")])
    for quantity in both[0].metrics.quantities:
        found = rows(compare(both, Question(quantity, scope)))
        assert found
        assert {row["present"] for row in found} == {"both"}
        assert all(row["difference"] == 0 for row in found)


def test_runs_of_one_experiment() -> None:
    a = example()
    one, other = part(a, ranks=[0]), part(a, ranks=[3])
    found = by_path(compare([one, other]))
    waiting = next(row for path, row in found.items() if path.endswith("MPI_Waitall"))
    assert waiting["left"] > waiting["right"]  # quick ranks wait
    assert np.isfinite([row["difference"] for row in found.values()]).all()


def renamed(experiment: Experiment) -> Experiment:
    """The same values under other names; what was seconds are milliseconds."""
    made = [replace(m, name=f"other {m.name}") for m in experiment.metrics]
    rows = [replace(m, name="CPUTIME (ms)", unit="ms") if m.name == "other time" else m for m in made]
    return replace(experiment, metrics=Metrics(tuple(rows)))


def test_times_of_other_names_and_units_compare() -> None:
    other = renamed(B)
    found = compare([A, other], Question("time=CPUTIME"))
    plain = compare([A, B], Question("time"))
    assert found.metrics == ("time", "CPUTIME (ms)")
    assert found.totals[0] == plain.totals[0]
    assert found.totals[1] == pytest.approx(plain.totals[1] / 1000)
    assert by_path(found)["main"]["right"] == pytest.approx(0.4)
    with pytest.raises(UsageError, match=r"B.cubex: there is no metric 'onlyA'.*metric='LEFT=RIGHT' names one"):
        compare([A, other], Question("onlyA"))
    assert compare([A, other]).metrics == ("time", "CPUTIME (ms)")


def test_functions_whoever_called_them() -> None:
    """Of the tables of the specification: foo is called from main, and again from bar."""
    flat = by_path(compare([A, B], Question("time", flat=True)))
    deep = by_path(compare([A, B], Question("time")))
    for name in ("main", "foo", "bar"):
        for side in ("left", "right"):
            assert flat[name][side] == sum(row[side] for path, row in deep.items() if path.split("->")[-1] == name)
    inclusive = by_path(compare([A, B], Question("time", Scope.INCLUSIVE, flat=True)))
    assert (inclusive["main"]["left"], inclusive["main"]["right"]) == (128, 4 * 179)
    with pytest.raises(UsageError, match="exclusive or inclusive"):
        compare([A, B], Question("time", Scope.POINT, flat=True))


def test_measurements_and_their_database_have_the_same_call_paths() -> None:
    measured = open_path(CORPUS / "hpcrun" / "04.00" / "pth4.m")
    database = open_path(CORPUS / "hpctoolkit" / "release" / "pth4.foreign.d")
    assert isinstance(measured, Experiment)
    assert isinstance(database, Experiment)
    found = rows(compare([measured, database]))
    assert {row["present"] for row in found} == {"both"}
    assert {row["path"].split("->")[0] for row in found} == {"application thread"}
    assert all(row["difference"] == 0 for row in found)
