"""Studies compared with studies, at the points that they have in common."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from callgrove.analysis.comparison.studies import StudyQuestion, compare_studies
from callgrove.errors import UsageError
from callgrove.formats.registry import open_path
from callgrove.model.experiment import Experiment
from callgrove.model.study.series import Study

Entry = tuple[str, str, int, list[float]]


def study(name: str, points: list[tuple[float, ...]], *entries: Entry, parameters: tuple[str, ...] = ("p",)) -> Study:
    return replace(Study.from_values(parameters, points, entries), path=name)


def made(name: str, points: list[float], **costs: list[float]) -> Study:
    entries = [(path, "time", k, [cost]) for path, row in costs.items() for k, cost in enumerate(row)]
    return study(name, [(p,) for p in points], *entries)


A = made("a", [1, 2, 4], main=[1, 2, 4], solve=[10, 20, 40])
B = made("b", [2, 4, 8], main=[2, 5, 9], write=[1, 1, 1])


def test_common_points_are_compared() -> None:
    found = compare_studies([A, B])
    table = found.table()
    assert table.names == ("path", "metric", "p", "left", "right", "difference", "ratio", "present")
    rows = {(row["path"], row["p"]): row for row in table}
    assert (rows["main", 4]["left"], rows["main", 4]["right"], rows["main", 4]["difference"]) == (4, 5, -1)
    assert rows["main", 2]["ratio"] == 1
    assert (rows["solve", 4]["present"], rows["solve", 4]["right"], rows["solve", 4]["difference"]) == (
        "left",
        None,
        None,
    )
    assert rows["write", 2]["present"] == "right"
    assert len(rows) == 6
    assert found.notes == ("2 points are compared; only in a: p=1", "2 points are compared; only in b: p=8")
    assert found.sentence == ("time: 2 values, 1 larger in b, 0 smaller, 1 equal; the median of right by left is 1.12")


def test_order_and_choice() -> None:
    both = compare_studies([A, B], StudyQuestion(only="both"))
    assert both.table()["present"] == ["both", "both"]
    assert both.table(1).left == 1
    by_path = compare_studies([A, B], StudyQuestion(sort="path")).table()
    assert list(zip(by_path["path"], by_path["p"], strict=True)) == sorted(
        zip(by_path["path"], by_path["p"], strict=True)
    )
    for sort, says in (("loss", "there is no sort 'loss' of studies"), ("size", "there is no sort 'size'")):
        with pytest.raises(UsageError, match=says):
            compare_studies([A, B], StudyQuestion(sort=sort))
    three = compare_studies([A, B, A])
    assert set(three.table()["input"]) == {"a", "b"}


def test_parameters_in_another_order_and_units() -> None:
    one = study("a", [(1, 10), (2, 10)], ("f", "time", 0, [1.0]), ("f", "time", 1, [2.0]), parameters=("p", "n"))
    two = study("b", [(10, 2), (10, 1)], ("f", "time", 0, [2e6]), ("f", "time", 1, [1e6]), parameters=("n", "p"))
    one, two = replace(one, units={"time": "sec"}), replace(two, units={"time": "usec"})
    table = compare_studies([one, two]).table()
    assert (table["p"], table["left"], table["right"]) == ([2, 1], [2, 1], [2, 1])
    with pytest.raises(UsageError, match="is measured in sec and occ"):
        compare_studies([one, replace(two, units={"time": "occ"})])


def test_metrics_are_named_or_shared() -> None:
    one = study("a", [(1,)], ("f", "time", 0, [1.0]), ("f", "visits", 0, [3.0]))
    two = study("b", [(1,)], ("f", "time", 0, [2.0]), ("f", "wall", 0, [4.0]))
    found = compare_studies([one, two])
    assert found.metrics == ("time",)
    assert found.notes == ("metrics of a that are not compared: visits", "metrics of b that are not compared: wall")
    assert compare_studies([one, two], StudyQuestion("time=wall")).table()["right"] == [4]
    assert compare_studies([one, two], StudyQuestion("tim")).metrics == ("time",)
    with pytest.raises(UsageError, match="b: there is no metric 'visits'"):
        compare_studies([one, two], StudyQuestion("visits"))
    other = study("c", [(1,)], ("f", "wall", 0, [4.0]))
    with pytest.raises(UsageError, match=r"share no metric: a has time, visits, others have wall; metric='LEFT=RIGHT'"):
        compare_studies([one, other])


@pytest.mark.parametrize(
    ("other", "says"),
    [
        (
            made("c", [16], main=[1]),
            "a and c have no point in common: the first one of the left is p=1, of the right p=16",
        ),
        (
            made("c", [1], other=[1]),
            "a and c have no call path in common: the first one of the left is main, of the righ",
        ),
        (study("c", [(1,)], ("main", "time", 0, [1.0]), parameters=("n",)), "a has the parameters p, c has n"),
    ],
)
def test_nothing_in_common(other: Study, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        compare_studies([A, other])


def test_one_study_is_not_enough() -> None:
    with pytest.raises(UsageError, match="comparing needs two studies"):
        compare_studies([A])


@given(st.lists(st.lists(st.floats(-1e9, 1e9), min_size=3, max_size=3), min_size=1, max_size=4))
def test_nothing_differs_from_itself(costs: list[list[float]]) -> None:
    one = made("a", [1, 2, 4], **{f"f{k}": row for k, row in enumerate(costs)})
    table = compare_studies([one, one]).table()
    assert len(table) == 3 * len(costs)
    assert set(table["difference"]) == {0}
    assert set(table["present"]) == {"both"}


def test_folders_of_runs(shared: Path) -> None:
    """Of the method of a study that was made of runs, and of the runs themselves."""
    runs = open_path(shared / "data" / "own" / "scaling" / "runs")
    assert isinstance(runs, Experiment)
    series = runs.series("strong")
    comparison = series.compare(series, metric="time")
    assert repr(comparison).startswith("<StudyComparison of 2 studies, 625 values of time>")
    assert "<table>" in comparison._repr_html_()
    first = comparison.table(1)
    row = series.series(first["path"][0], "time")
    at = np.flatnonzero((row.points == [first["p"][0], first["n"][0]]).all(axis=1))
    assert first["left"] == row.mean[at].tolist()
