"""Books of studies: series, points, repetitions and values are written whole, or a message says why not."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import callgrove
from callgrove.analysis import tables
from callgrove.cli.main import main
from callgrove.formats.columnar import studies
from callgrove.formats.extrap import experiment as experiment_writer
from callgrove.formats.extrap import text as text_writer
from callgrove.formats.extrap.models import measurement
from callgrove.formats.extrap.study_format import Cells
from callgrove.formats.interface import LossReport, WriteOptions, WritesStudies
from callgrove.formats.registry import open_path, writer_of
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Scope
from callgrove.model.study import fill_missing_points as completing
from callgrove.model.study.books import StudyBooks
from callgrove.model.study.builder import StudyBuilder
from callgrove.model.study.fill_missing_points import fill_missing_points
from callgrove.model.study.run_values import Combination
from callgrove.model.study.series import RawValues, Statistics, StoredModel, Study
from tests.exhaustive import some_of
from tests.formats.cube.raw_cubes import Cube, Node, RawMetric
from tests.formats.extrap.extrap_files import plain_study, study_with_models
from tests.formats.samples import samples
from tests.model.study.test_folding import three_runs
from tests.requirements import SHARED

PLAIN = ("extrap-text", "extrap-talpas", "extrap-json", "extrap-json-old", "extrap-jsonl")
WRITERS = (*PLAIN, "extrap-experiment", "callgrove")
each_writer = pytest.mark.parametrize("to", WRITERS)


def write(study: Study, to: str) -> LossReport:
    """Write to a place that is gone afterwards."""
    format_ = writer_of(to)
    assert isinstance(format_, WritesStudies)
    with tempfile.TemporaryDirectory() as folder:
        return format_.write_study(study, Path(folder) / "out", WriteOptions())


def nested_study() -> Study:
    """Return repetitions with several values, and with different numbers of them."""
    values = [("f", "t", 0, [[1.0, 2.0], [3.0, 4.0]]), ("f", "t", 1, [[1.0], [2.0, 3.0]])]
    return Study.from_values(["p"], [[1], [2]], [*values, ("g", "t", 0, [1.0]), ("g", "t", 1, [math.inf, 2.0])])


def measured_in_part() -> Study:
    """Return a study with a complete series, one that lacks a point, one that was measured nowhere, and a point where
    nothing was measured."""
    builder = StudyBuilder(["p"])
    points = [builder.point([p]) for p in (1, 2, 4)]
    builder.add_values("f", "t", points[0], [1.0])
    builder.series("g", "t")
    for point in points[:2]:
        builder.add_values("h", "t", point, [2.0])
    return builder.build()


# -- nothing is missing ------------------------------------------------------------------------------------------------


@each_writer
@pytest.mark.parametrize("make", [plain_study, study_with_models, nested_study])
def test_studies_are_written_whole(make: Any, to: str) -> None:
    assert write(make(), to).unexplained == []


@each_writer
def test_statistics_without_values_are_written_whole(to: str) -> None:
    known = [Statistics(2.0, 1.5, 1.0, 4.0, 0.5, 3), Statistics(3.0, math.nan), Statistics(median=1.0)]
    study = Study.from_statistics(["p"], [[1], [2], [3]], [("f", "t", k, one) for k, one in enumerate(known)])
    report = write(study, to)
    assert report.unexplained == []
    said = "1 measurement without values and a mean, written as NaN"
    assert (said in report.losses) == (to in PLAIN)


def paths_of_studies() -> Iterator[tuple[str, Path]]:
    """All samples of studies, and all public files that Extra-P reads."""
    for sample in samples():
        if sample.format.startswith("extrap") or sample.name == "made/callgrove-study":
            yield sample.name, sample.path
    public = SHARED / "data" / "public" / "extrap"
    for path in sorted(public.rglob("*")) if public.is_dir() else ():
        if path.is_file() and path.parent.name != "oracle" and not {"cubeset", "nsight"} & set(path.parts):
            yield f"public/{path.relative_to(public)}", path


PATHS = dict(paths_of_studies())


@pytest.mark.parametrize("name", some_of(PATHS, lambda name: not name.startswith(("shared/", "public/"))))
def test_samples_are_written_whole(name: str) -> None:
    try:
        study = open_path(PATHS[name])
    except callgrove.CallgroveError:  # what damaged files say is tested elsewhere
        return
    assert isinstance(study, Study)
    for to in WRITERS:
        if to == "extrap-text" and not study.present.all(axis=1).any():
            continue  # refused
        assert write(study, to).unexplained == [], to


floats = st.floats(allow_nan=True, allow_infinity=True)
repetitions = st.lists(st.one_of(floats, st.lists(floats, min_size=1, max_size=3)), min_size=1, max_size=3)


@each_writer
@pytest.mark.parametrize("last", [-5e291, -9e307, 9e307])
def test_sums_beyond_the_largest_number_are_no_difference(to: str, last: float) -> None:
    half = 8.98846567431158e307  # twice this is not a number any more
    values: list[tuple[str, str, int, Sequence[object]]] = [
        *(("f", "t", 0, [half, -half]), ("f", "u", 0, [half, [0.0, 0.0]]), ("g", "u", 0, [half, [half, last]])),
        *(("f", "t", 1, [half, half]), ("f", "u", 1, [last]), ("g", "u", 1, [half, -half, half])),
    ]
    assert write(Study.from_values(["p"], [[1], [2]], values), to).unexplained == []


@each_writer
@settings(max_examples=30)
@given(data=st.data())
def test_any_study_is_written_whole(to: str, data: st.DataObject) -> None:
    builder = StudyBuilder(["p"])
    points = [builder.point([p]) for p in range(data.draw(st.integers(1, 3)))]
    for callpath in "fgh"[: data.draw(st.integers(1, 3))]:
        for metric in ("t", "u"):
            builder.series(callpath, metric)
            for point in points:
                values = data.draw(st.one_of(st.just([]), repetitions)) if callpath != "f" else data.draw(repetitions)
                builder.add_values(callpath, metric, point, values)
    assert write(builder.build(), to).unexplained == []


# -- what is left out is said ------------------------------------------------------------------------------------------

LEFT_OUT = {
    "extrap-json": {"1 point at which nothing was measured"},
    "extrap-json-old": {"1 series that was measured nowhere"},
    "extrap-jsonl": {"1 series that was measured nowhere", "1 point at which nothing was measured"},
    "extrap-talpas": {"1 series that was measured nowhere", "1 point at which nothing was measured"},
    "extrap-experiment": {"1 point at which nothing was measured"},
    "callgrove": set(),
}


@pytest.mark.parametrize("to", LEFT_OUT)
def test_what_was_measured_nowhere_is_kept_or_said(to: str, tmp_path: Path) -> None:
    study = measured_in_part()
    report = write(study, to)
    assert {loss for loss in report.losses if not loss.startswith("nothing here")} == LEFT_OUT[to]
    assert report.unexplained == []
    callgrove.write(study, tmp_path / "out", to)
    again = open_path(tmp_path / "out")
    assert isinstance(again, Study)
    assert len(again) == 3 - ("1 series that was measured nowhere" in report.losses)
    assert again.n_points == 3 - ("1 point at which nothing was measured" in report.losses)


@pytest.mark.parametrize("to", [*PLAIN, "extrap-experiment"])
def test_attributes_are_lost_with_a_word(to: str) -> None:
    assert "attributes of the study" in write(replace(plain_study(), attributes={"cluster": "a"}), to).losses


def test_statistics_that_values_contradict_are_said() -> None:
    builder = StudyBuilder(["p"])
    builder.add_values("f", "t", builder.point([1]), [1.0, 3.0])
    builder.add_statistics("f", "t", 0, Statistics(2.0, 2.5, 1.0, 3.0, 1.0, 2))
    study = builder.build()
    text = "stored statistics of 1 measurement, which are not those of the raw values"
    for to in WRITERS:
        assert (text in write(study, to).losses) == (to in PLAIN), to
    builder = StudyBuilder(["p"])
    builder.add_values("f", "t", builder.point([1]), [1.0, 3.0])
    builder.add_statistics("f", "t", 0, Statistics(2.0, 2.0, 1.0, 3.0, 1.0, 2))
    assert write(builder.build(), "extrap-text").losses == []


def test_models_that_share_a_series_are_said() -> None:
    study = plain_study()
    twice = replace(study, models=(StoredModel("main", "time", "1", 1.0), StoredModel("main", "time", "2", 2.0)))
    report = write(twice, "extrap-experiment")
    assert (report.losses, report.unexplained) == (["1 model of series that have another one in the same set"], [])


@pytest.mark.parametrize("to", ["extrap-json", "extrap-jsonl", "extrap-talpas"])
def test_repetitions_without_values_are_left_out(to: str, tmp_path: Path) -> None:
    study = Study.from_values(["p"], [[1]], [("f", "t", 0, [[], [1.0, 2.0]])])
    assert "repetitions without any value" in callgrove.write(study, tmp_path / "out", to)
    again = open_path(tmp_path / "out")
    assert isinstance(again, Study)
    assert again.mean.tolist() == [[1.5]]


# -- what is missing is said -------------------------------------------------------------------------------------------


def lose_value(monkeypatch: pytest.MonkeyPatch, to: str) -> None:
    """Make a writer lose the last repetition of every measurement."""
    if to == "extrap-text":
        monkeypatch.setattr(text_writer, "_flatten", lambda values: list(values)[:-1])
    elif to == "extrap-experiment":
        repetitions = RawValues.repetitions
        monkeypatch.setattr(RawValues, "repetitions", lambda self, cell: repetitions(self, cell)[:-1])
    elif to == "callgrove":
        columns = studies._raw_columns
        monkeypatch.setattr(studies, "_raw_columns", lambda *some: {k: v[1:] for k, v in columns(*some).items()})  # type: ignore[index]
    else:
        values = Cells.values
        monkeypatch.setattr(Cells, "values", lambda self, *cell: values(self, *cell)[:-1])


@each_writer
def test_lost_values_are_said(to: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lose_value(monkeypatch, to)
    told = write(plain_study(), to).unexplained
    lost = 1 if to == "callgrove" else 12
    assert f"time: 36 repetitions were given, {36 - lost} were passed on" in told


@each_writer
def test_lost_series_are_said(to: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = plain_study()
    short = replace(whole, present=whole.present & (np.arange(len(whole)) < len(whole) - 1)[:, None])
    made = StudyBooks.__init__

    def of_the_whole(self: StudyBooks, study: Study, **words: Any) -> None:
        made(self, whole, **words)

    monkeypatch.setattr(StudyBooks, "__init__", of_the_whole)
    if to == "extrap-text":
        monkeypatch.setattr(Cells, "complete", lambda self: [0, 1, 2])
    told = write(short, to).unexplained
    holds_names = to in ("extrap-json", "extrap-experiment", "callgrove")
    word, n = ("measurements", 12) if holds_names else ("series", 2)
    assert told == [f"visits: {n} {word} were given, {n // 2} were passed on"]


def test_wrong_values_and_statistics_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    values = Cells.values
    monkeypatch.setattr(Cells, "values", lambda self, *cell: [value * 2 for value in values(self, *cell)])
    told = write(plain_study(), "extrap-jsonl").unexplained
    assert [text.split(":")[0] for text in told] == ["time", "visits"]
    assert all(" was given, " in text for text in told)
    monkeypatch.setattr(experiment_writer, "measurement", lambda *some: measurement(*some) | {"median": 0.0})
    told = write(plain_study(), "extrap-experiment").unexplained
    assert all("in the column median, 0 was passed on" in text for text in told)
    assert len(told) == 2


def test_lost_models_and_points_are_said() -> None:
    books = StudyBooks(study_with_models())
    assert next(books.differences()).startswith("points: 6 were given, 0 ")
    assert "models: 1 were given, 0 were passed on" in list(books.differences())


def test_strict_ends_with_4(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    callgrove.write(plain_study(), tmp_path / "in.json", "extrap-json")
    words = ["convert", str(tmp_path / "in.json"), "--to", "extrap-jsonl", "--strict"]
    assert main([*words, str(tmp_path / "sound.jsonl")]) == 0
    lose_value(monkeypatch, "extrap-jsonl")
    assert main([*words, str(tmp_path / "short.jsonl")]) == 4
    assert "unexplained: time: 36 repetitions were given, 24 were passed on" in capsys.readouterr().err


# -- runs that become studies ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("combination", Combination)
@pytest.mark.parametrize("scope", [Scope.EXCLUSIVE, Scope.INCLUSIVE])
def test_runs_become_studies_whole(combination: Combination, scope: Scope) -> None:
    study = three_runs().build().study(scope=scope, combination=combination)
    assert study.unexplained == ()
    assert fill_missing_points(study, fold=scope == Scope.EXCLUSIVE).unexplained == ()


def test_what_a_study_of_runs_lacks_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add = StudyBuilder.add_values

    def without_g(self: StudyBuilder, callpath: str, *more: Any) -> None:
        if callpath != "m->g":
            add(self, callpath, *more)

    monkeypatch.setattr(StudyBuilder, "add_values", without_g)
    told = callgrove.write(three_runs().build(), tmp_path / "out.jsonl", "extrap-jsonl")
    assert "unexplained: time: the runs make 26, the study 19" in told


def test_what_is_lost_with_incomplete_series_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    study = three_runs().build().study()
    assert fill_missing_points(study).unexplained == ()
    monkeypatch.setattr(completing._Work, "fold", lambda self, series: self.kept.__setitem__(series, False))
    assert fill_missing_points(study).unexplained == (
        "time: means of 17 were given, 1 are left when series that lack points are added",
    )


def test_call_paths_that_a_file_does_not_list_have_no_series_and_that_is_said(tmp_path: Path) -> None:
    tree: list[Node] = [(0, "main", [(1, "send", [])])]
    for p in (1, 2):
        folder = tmp_path / "runs" / f"app.p{p}.r1"
        folder.mkdir(parents=True)
        Cube(tree, [RawMetric("bytes", "EXCLUSIVE", "UINT64", {1: (p, p, p, p)})]).write(folder / "profile.cubex")
    runs = open_path(tmp_path / "runs")
    assert isinstance(runs, Experiment)
    study = runs.study(scope=Scope.INCLUSIVE)
    assert study.callpaths == ("main->send",)  # as Extra-P has it
    assert any("bytes: call paths above those that the files store" in warning.text for warning in study.warnings)
    assert runs.study().warnings == ()
    assert study.unexplained == runs.study().unexplained == ()


def test_export_says_measurements_that_are_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    callgrove.write(plain_study(), tmp_path / "in.json", "extrap-json")
    words = ["export", str(tmp_path / "in.json"), "--table", "series", "--strict", "-o", str(tmp_path / "out.csv")]
    assert main(words) == 0
    whole = Study.table
    monkeypatch.setitem(tables._STUDY, "series", lambda study: whole(study).head(3))
    assert main(words) == 4
    assert "unexplained: series: there are 24, and 3 were printed" in capsys.readouterr().err
