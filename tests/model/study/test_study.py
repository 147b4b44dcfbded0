"""Studies: statistics of repetitions, absent and unknown cells, the series table, invariants."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from callgrove.arrays import Floats, Ints
from callgrove.errors import InvalidExperiment, UsageError
from callgrove.model.experiment import Severity
from callgrove.model.study import books
from callgrove.model.study.builder import StudyBuilder
from callgrove.model.study.series import STATISTICS, RawValues, Statistics, StoredModel, Study, Term, lookup_tag

VALUES = st.floats(-1e9, 1e9)
ENTRIES = st.lists(
    st.tuples(
        st.sampled_from(["main", "main->f", "g"]),
        st.sampled_from(["time", "visits"]),
        st.integers(0, 3),
        st.lists(VALUES, min_size=1, max_size=12),
    ),
    min_size=1,
    max_size=20,
)
POINTS = [(4.0,), (8.0,), (16.0,), (4.0,)]  # the last repeats the first


def small() -> Study:
    """Two series over three points of p and n; one point is missing, one has raw values of unequal number."""
    points = [(4, 10), (8, 10), (16, 10)]
    entries = [
        ("main->f", "time", 0, [1.0, 3.0]),
        ("main->f", "time", 1, [2.0]),
        ("main", "time", 2, [5.0, 6.0, 10.0]),
        ("main->f", "time", 0, [5.0]),
    ]
    return Study.from_values(["p", "n"], points, entries)


def test_a_small_study() -> None:
    study = small()
    assert (study.callpaths, study.metrics, len(study), study.n_points) == (("main->f", "main"), ("time",), 2, 3)
    assert study.present.tolist() == [[True, True, False], [False, False, True]]
    assert study.repetitions.tolist() == [[3, 1, 0], [0, 0, 3]]
    series = study.series("main->f", "time")
    assert (series.mean.tolist(), series.median.tolist()) == ([3, 2], [3, 2])
    assert (series.minimum.tolist(), series.maximum.tolist()) == ([1, 2], [5, 2])
    np.testing.assert_allclose(series.std, [np.sqrt(8 / 3), 0])
    assert [values.tolist() for values in series.values] == [[1, 3, 5], [2]]
    assert (series.points.tolist(), series.point.tolist(), len(series)) == ([[4, 10], [8, 10]], [0, 1], 2)
    assert np.isnan(study.mean[0, 2])
    assert study.find("main", "time") == 1
    assert study.find("main", "visits") is None
    assert study.values(0, 2).tolist() == []
    assert [s.callpath for s in study.all_series()] == ["main->f", "main"]
    assert study.measure("minimum")[1, 2] == 5


@pytest.mark.parametrize(
    ("callpath", "metric", "message"),
    [
        ("x", "time", "no call path 'x'; there are 'main->f', 'main'"),
        ("main", "x", "no metric 'x'; there are 'time', 'visits'"),
        ("main", "visits", "'visits' was not measured for 'main'"),
    ],
)
def test_what_there_is_is_named(callpath: str, metric: str, message: str) -> None:
    entries = [("main->f", "time", 0, [1.0]), ("main", "time", 0, [1.0]), ("main->f", "visits", 0, [1.0])]
    with pytest.raises(UsageError, match=message):
        Study.from_values(["p"], [(1,)], entries).series(callpath, metric)
    with pytest.raises(UsageError, match="no measure 'std'; there are mean, median"):
        small().measure("std")


@given(ENTRIES)
def test_statistics_are_those_of_all_repetitions(entries: list[tuple[str, str, int, list[float]]]) -> None:
    study = Study.from_values(["p"], POINTS, entries)
    assert study.validate() == []
    assert study.callpaths == tuple(dict.fromkeys(entry[0] for entry in entries))
    assert study.metrics == tuple(dict.fromkeys(entry[1] for entry in entries))
    assert list(study._series_of) == list(dict.fromkeys(entry[:2] for entry in entries))
    cells: dict[tuple[str, str, int], list[float]] = {}
    for callpath, metric, point, values in entries:
        cells.setdefault((callpath, metric, point % 3), []).extend(values)
    assert int(study.present.sum()) == len(cells)
    for (callpath, metric, point), values in cells.items():
        number = study.find(callpath, metric)
        assert number is not None
        assert study.values(number, point).tolist() == values
        assert study.repetitions[number, point] == len(values)
        expected = [f(np.array(values)) for f in (np.mean, np.median, np.min, np.max, np.std)]
        assert [getattr(study, name)[number, point] for name in STATISTICS] == expected, "to the last bit"


def test_a_repetition_may_have_many_values() -> None:
    """Two runs of 2 and 3 locations: repetitions count runs, statistics all values."""
    study = Study.from_values(["p"], [(1,)], [("f", "t", 0, [[1.0, 2.0], np.array([[3.0], [6.0]]), (8,)])])
    assert (study.repetitions[0, 0], study.mean[0, 0]) == (3, 4)
    assert study.raw is not None
    assert [r.tolist() for r in study.raw.repetitions(0)] == [[1, 2], [3, 6], [8]]
    assert study.values(0, 0).tolist() == [1, 2, 3, 6, 8]


def test_values_that_are_no_numbers_stay() -> None:
    study = Study.from_values(["p"], [(1,), (2,)], [("f", "t", 0, [np.inf, 1.0]), ("f", "t", 1, [np.nan])])
    assert study.mean[0, 0] == np.inf
    assert np.isnan(study.std[0, 0])
    assert study.present.tolist() == [[True, True]]
    assert study.validate() == []


def test_unknown_statistics_are_absent() -> None:
    given_ = [("f", "t", 0, Statistics(mean=2.0, median=1.5)), ("f", "t", 1, Statistics(3, 3, 1, 5, 0.5, 4))]
    study = Study.from_statistics(["p"], [(1,), (2,), (3,)], given_)
    assert study.raw is None
    assert study.values(0, 0).tolist() == []
    assert study.repetitions.tolist() == [[-1, 4, 0]]
    assert study.present.tolist() == [[True, True, False]]
    assert np.isnan(study.minimum[0, 0])
    assert study.std[0, 1] == 0.5


def test_what_a_file_says_goes_before_what_its_values_say() -> None:
    builder = StudyBuilder(["p"])
    point = builder.point([1])
    assert builder.add_statistics("f", "t", point, Statistics(mean=7.0))
    assert not builder.add_statistics("f", "t", point, Statistics(mean=8.0))
    builder.add_values("f", "t", point, [1.0, 3.0])
    study = builder.build()
    assert (study.mean[0, 0], study.median[0, 0], study.repetitions[0, 0]) == (7, 2, 2)


def test_the_series_table() -> None:
    table = small().table()
    assert table.names == (
        *("callpath", "metric", "p", "n", "repetitions", "mean", "median", "minimum", "maximum", "std"),
    )
    assert list(table.rows())[1] == ("main->f", "time", 8, 10, 1, 2, 2, 2, 2, 0)
    assert table.column("p").plain() == [4, 8, 16]


def test_unknown_is_an_empty_cell() -> None:
    study = Study.from_statistics(["p"], [(1,)], [("f", "t", 0, Statistics(mean=2.0))])
    assert list(study.table().rows()) == [("f", "t", 1, None, 2, None, None, None, None)]


def test_parameters_called_like_columns_are_renamed() -> None:
    parameters = ["mean", "metric", "param.mean", "p"]
    study = Study.from_values(parameters, [(1, 2, 3, 4)], [("f", "t", 0, [1.0])])
    names = study.table().names
    assert names[:6] == ("callpath", "metric", "param.param.mean", "param.metric", "param.mean", "p")
    assert study.table().column("param.mean").plain() == [3]


def test_incomplete_series_and_their_tags() -> None:
    builder = StudyBuilder(["p"])
    points = [builder.point([p]) for p in (1, 2)]
    for callpath in ("whole", "half", "tagged", "by metric"):
        builder.add_values(callpath, "u" if callpath == "by metric" else "t", points[0], [1.0])
    builder.add_values("whole", "t", points[1], [1.0])
    builder.callpath_tags["tagged"] = {"validation__ignore": True}
    builder.metric_tags["u"] = {"validation__ignore__num_measurements": True}
    study = builder.build()
    assert [study.at(s).callpath for s in study.incomplete().tolist()] == ["half"]
    assert study.validate() == [], "a missing point breaks nothing"


@pytest.mark.parametrize(
    ("key", "value"), [("a__b__c", 1), ("a__b__d", 2), ("a__b__d__e", 2), ("a__b", 2), ("a__x", None), ("a", 3)]
)
def test_tags_are_looked_up_by_prefix_but_never_by_the_first_part(key: str, value: object) -> None:
    assert lookup_tag({"a__b__c": 1, "a__b": 2, "a": 3}, key) == value


def test_points_are_counted_in_parameters() -> None:
    builder = StudyBuilder(["p", "n"])
    assert [builder.point((1, 2)), builder.point([2, 2]), builder.point((1.0, 2.0))] == [0, 1, 0]
    with pytest.raises(UsageError, match=r"has 1 coordinates for 2 parameters \(p, n\)"):
        builder.point([1])


def test_the_other_parts_arrive() -> None:
    builder = StudyBuilder(["p"], "extrap-text", "1", "title", "path")
    builder.add_values("f", "t", builder.point([1]), [1.0])
    model = StoredModel("f", "t", "2 * p", 0.0, (Term(2.0, {"p": ("1", "0")}),), {"smape": 0.1}, "set")
    builder.models.append(model)
    builder.modelers["set"] = {"use_median": False}
    builder.scaling, builder.units["t"], builder.attributes["host"] = "weak_threaded", "sec", "x"
    builder.warn(Severity.NOTE, "fine")
    study = builder.build()
    assert (study.models, study.modelers, study.scaling) == ((model,), {"set": {"use_median": False}}, "weak_threaded")
    assert (study.format, study.title, study.path, study.units) == ("extrap-text", "title", "path", {"t": "sec"})
    assert [w.text for w in study.warnings] == ["fine"]
    assert not study.mean.flags.writeable


NAN = np.full((2, 3), np.nan)
BROKEN: dict[str, tuple[dict[str, Any], str]] = {
    "no parameter": ({"parameters": (), "points": np.zeros((3, 0))}, "there is no parameter"),
    "parameter twice": ({"parameters": ("p", "p")}, "the parameter 'p' occurs twice"),
    "call path twice": ({"callpaths": ("a", "a")}, "the call path 'a' occurs twice"),
    "metric twice": ({"metrics": ("time", "time")}, "the metric 'time' occurs twice"),
    "scaling": ({"scaling": "odd"}, "the scaling 'odd' is not one of weak, weak_threaded, strong"),
    "coordinates": ({"points": np.zeros((3, 1))}, r"points are \(3, 1\), expected 2 coordinates each"),
    "infinite": ({"points": np.array([[1, 2], [3, np.inf], [5, 6]])}, "the coordinates of point 1 are not finite"),
    "point twice": ({"points": np.array([[1, 2], [3, 4], [1, 2.0]])}, "a point occurs twice"),
    "series": ({"series_metric": np.array([0])}, "2 series have a call path, but 1 a metric"),
    "series call path": ({"series_callpath": np.array([0, 2])}, "series 1 has the call path 2, which is not one of 2"),
    "series metric": ({"series_metric": np.array([-1, 0])}, "series 0 has the metric -1"),
    "series twice": ({"series_callpath": np.array([0, 0])}, "a call path and metric have two series"),
    "shape": ({"std": np.zeros((2, 2))}, r"std is \(2, 2\), expected \(2, 3\)"),
    "absent statistic": ({"median": np.ones((2, 3))}, "an absent cell has a statistic: series 0 at point 2"),
    "absent repetitions": ({"repetitions": np.full((2, 3), 2)}, "an absent cell has repetitions: series 0 at point 2"),
    "no repetitions": (
        {"repetitions": np.zeros((2, 3), int)},
        "a measured cell has no repetitions: series 0 at point 0",
    ),
    "repetitions": ({"repetitions": np.array([[-2, 1, 0], [0, 0, 3]])}, "repetitions are below -1"),
    "std": ({"std": np.array([[-1, 0, np.nan], [np.nan, np.nan, 0]])}, "a standard deviation is negative"),
    "cell bounds": (
        {"raw": RawValues(np.ones(1), np.array([0, 1]), np.array([0, 1]))},
        "the bounds of cells do not divide",
    ),
    "repetition bounds": (
        {"raw": RawValues(np.ones(2), np.array([0, 1]), np.array([0, 1, 1, 1, 1, 1, 1]))},
        "the bounds of repetitions do not divide 2 rows into 1",
    ),
    "absent raw": (
        {"raw": RawValues(np.ones(1), np.array([0, 1]), np.array([0, 0, 0, 1, 1, 1, 1]))},
        "an absent cell has raw values: series 0 at point 2",
    ),
    "model": ({"models": (StoredModel("x", "time", "1", 1.0),)}, "a model is for 'x', 'time', which was not measured"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_every_invariant_is_checked(name: str) -> None:
    changes, problem = BROKEN[name]
    problems = replace(small(), **changes).validate()
    assert len(problems) == 1
    with pytest.raises(AssertionError, match=problem):
        raise AssertionError(problems[0])


def test_all_broken_invariants_are_listed_at_once() -> None:
    broken = {"scaling": "odd", "points": np.zeros((3, 1)), "std": np.zeros((2, 2)), "series_metric": np.array([0])}
    assert len(replace(small(), **broken).validate()) == 4  # type: ignore[arg-type]


def test_an_empty_study_is_none() -> None:
    with pytest.raises(InvalidExperiment) as caught:
        Study.from_values([], [], [])
    assert caught.value.problems == [f"there is no {word}" for word in ("parameter", "call path", "metric", "point")]


def test_books_add_up_many_cells_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """One by one it takes a hundred times as long."""
    monkeypatch.setattr(books, "AT_ONCE", 3)
    study = Study.from_values(["p"], [(x,) for x in range(8)], [("f", "t", x, [1.0, float(x)]) for x in range(8)])
    totals = books.StudyTotals(study)
    added: list[list[int]] = []
    add = totals.add

    def watch(cell: Ints, n_repetitions: Ints, n_values: Ints, values: Floats) -> None:
        added.append(cell.tolist())
        add(cell, n_repetitions, n_values, values)

    monkeypatch.setattr(totals, "add", watch)
    for x in range(8):
        totals.enter(0, x, [1.0, float(x)])
    assert added == [[0, 1, 2], [3, 4, 5]]
    totals.settle()
    assert added[2:] == [[6, 7]]
    assert (totals.n_repetitions.tolist(), totals.total.tolist()) == ([16], [8 + 28])
