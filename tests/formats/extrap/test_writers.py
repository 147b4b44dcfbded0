"""What the writers of Extra-P's formats keep, and what they say about the rest."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from callgrove.errors import UsageError
from callgrove.formats.interface import WriteOptions, WritesStudies
from callgrove.formats.registry import load, open_path
from callgrove.model.study.series import Statistics, Study
from tests.exhaustive import try_examples
from tests.formats.damage import scratch_folder
from tests.formats.extrap.extrap_files import AWKWARD, FILES, plain_study, study_with_models, written

PLAIN = [name for name in FILES if name != "extrap-experiment"]


def read_back(study: Study, format_name: str, path: Path) -> tuple[Study, list[str]]:
    losses = written(study, format_name, path)
    again = open_path(path)
    assert isinstance(again, Study)
    return again, losses


def cells(study: Study) -> dict[tuple[object, ...], list[list[float]]]:
    """Everything measured, by names and point."""
    found: dict[tuple[object, ...], list[list[float]]] = {}
    for number, series in enumerate(study.all_series()):
        for point, coordinates in zip(series.point.tolist(), series.points.tolist(), strict=True):
            assert study.raw is not None
            values = study.raw.repetitions(number * study.n_points + point)
            found[series.callpath, series.metric, tuple(coordinates)] = [v.tolist() for v in values]
    return found


@pytest.mark.parametrize("format_name", FILES)
def test_awkward_names_and_every_value(format_name: str, tmp_path: Path) -> None:
    study = plain_study(AWKWARD)
    again, losses = read_back(study, format_name, tmp_path / "study")
    assert cells(again) == cells(study)
    expected = ["comma for the semicolon"] if format_name == "extrap-talpas" else []
    assert len(losses) == len(expected)
    assert all(word in loss for word, loss in zip(expected, losses, strict=True))


names = st.text(st.characters(exclude_categories=("Cs", "Cc", "Z")), min_size=1, max_size=6).filter(
    lambda text: "\x03" not in text
)
floats = st.floats(allow_nan=False, allow_infinity=False)


@pytest.mark.parametrize("format_name", FILES)
@try_examples(40)
@given(
    callpaths=st.lists(names, min_size=1, max_size=3, unique=True),
    metrics=st.lists(names, min_size=1, max_size=2, unique=True),
    parameters=st.lists(names, min_size=1, max_size=3, unique=True),
    data=st.data(),
)
def test_any_study(
    format_name: str, callpaths: list[str], metrics: list[str], parameters: list[str], data: st.DataObject
) -> None:
    point = st.tuples(*[floats] * len(parameters))
    points = data.draw(st.lists(point, min_size=1, max_size=3, unique=True))
    values = st.lists(floats, min_size=1, max_size=3)
    entries = [(c, m, p, data.draw(values)) for c in callpaths for m in metrics for p in range(len(points))]
    study = Study.from_values(parameters, points, entries)
    with scratch_folder() as folder:
        again, _ = read_back(study, format_name, folder / "study")
    assert again.parameters == study.parameters
    assert cells(again) == cells(study)


@pytest.mark.parametrize("format_name", ["extrap-json", "extrap-jsonl", "extrap-talpas", "extrap-experiment"])
def test_repetitions_with_several_values(format_name: str, tmp_path: Path) -> None:
    study = Study.from_values(["p"], [[1]], [("f", "t", 0, [[1.0, 2.0], [3.0, 4.0]])])
    again, losses = read_back(study, format_name, tmp_path / "study")
    assert (cells(again), again.repetitions.tolist(), losses) == (cells(study), [[2]], [])


@pytest.mark.parametrize("format_name", ["extrap-text", "extrap-json-old"])
def test_where_values_are_flattened(format_name: str, tmp_path: Path) -> None:
    study = Study.from_values(["p"], [[1]], [("f", "t", 0, [[1.0, 2.0], [3.0, 4.0]])])
    again, losses = read_back(study, format_name, tmp_path / "study")
    assert (again.repetitions.tolist(), again.mean.tolist()) == ([[4]], [[2.5]])
    assert "repetition" in losses[0]


@pytest.mark.parametrize("format_name", PLAIN)
def test_models_and_tags_are_lost_with_a_word(format_name: str, tmp_path: Path) -> None:
    losses = " ".join(written(study_with_models(), format_name, tmp_path / "study"))
    for word in ("1 model", "weak_threaded", "tags", "units"):
        assert word in losses


@pytest.mark.parametrize("format_name", FILES)
def test_statistics_without_values(format_name: str, tmp_path: Path) -> None:
    given = Statistics(2.0, 1.5, 1.0, 4.0, 0.5, 3)
    study = Study.from_statistics(["p"], [[1]], [("f", "t", 0, given)])
    again, losses = read_back(study, format_name, tmp_path / "study")
    assert again.mean.tolist() == [[2.0]]
    if format_name == "extrap-experiment":
        assert (again.median.tolist(), again.std.tolist(), again.repetitions.tolist()) == ([[1.5]], [[0.5]], [[3]])
        assert losses == []
    else:
        assert any("mean" in loss for loss in losses)


@pytest.mark.parametrize("format_name", FILES)
def test_incomplete_series(format_name: str, tmp_path: Path) -> None:
    study = Study.from_values(["p"], [[1], [2]], [("f", "t", 0, [1.0]), ("g", "t", 0, [2.0]), ("g", "t", 1, [3.0])])
    again, losses = read_back(study, format_name, tmp_path / "study")
    if format_name == "extrap-text":
        assert again.callpaths == ("g",)
        assert "1 series without some points" in losses[0]
    else:
        assert cells(again) == cells(study)


@pytest.mark.parametrize("format_name", FILES)
def test_values_that_are_not_finite(format_name: str, tmp_path: Path) -> None:
    study = Study.from_values(["p"], [[1]], [("f", "t", 0, [math.inf, -math.inf, math.nan])])
    again, _ = read_back(study, format_name, tmp_path / "study")
    np.testing.assert_array_equal(again.values(0, 0), [math.inf, -math.inf, math.nan])


def test_names_that_text_cannot_hold(tmp_path: Path) -> None:
    broken = Study.from_values(["p"], [[1]], [("a\nb", "t", 0, [1.0])])
    with pytest.raises(UsageError, match=r"line break.*extrap-json"):
        written(broken, "extrap-text", tmp_path / "a")
    blank = Study.from_values(["my p"], [[1]], [("f", "t", 0, [1.0])])
    with pytest.raises(UsageError, match=r"'my p' has blanks.*extrap-json"):
        written(blank, "extrap-text", tmp_path / "b")
    folded = Study.from_values(["p"], [[1]], [("a  b\t", "t", 0, [1.0])])
    assert "blanks" in written(folded, "extrap-text", tmp_path / "c")[0]
    hole = Study.from_values(["p"], [[1], [2]], [("f", "t", 0, [1.0]), ("g", "t", 1, [1.0])])
    with pytest.raises(UsageError, match="no series has all points"):
        written(hole, "extrap-text", tmp_path / "d")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["c"]


@pytest.mark.parametrize("format_name", ["extrap-json", "extrap-jsonl", "extrap-talpas", "extrap-experiment"])
def test_line_breaks_survive_elsewhere(format_name: str, tmp_path: Path) -> None:
    study = Study.from_values(["p\nq"], [[1]], [("a\nb\u2028", "\tt ", 0, [1.0])])
    assert cells(read_back(study, format_name, tmp_path / "x")[0]) == cells(study)


def test_the_metric_without_a_name_comes_first(tmp_path: Path) -> None:
    study = Study.from_values(["p"], [[1]], [("f", "t", 0, [1.0]), ("f", "", 0, [2.0])])
    assert cells(read_back(study, "extrap-text", tmp_path / "x")[0]) == cells(study)


@pytest.mark.parametrize("format_name", FILES)
def test_a_target_is_replaced_only_if_asked(format_name: str, tmp_path: Path) -> None:
    target = tmp_path / "x"
    target.write_text("mine")
    with pytest.raises(UsageError, match="overwrite=True"):
        written(plain_study(), format_name, target)
    assert target.read_text() == "mine"
    format_ = load(format_name)
    assert isinstance(format_, WritesStudies)
    format_.write_study(plain_study(), target, WriteOptions(overwrite=True))
    assert isinstance(open_path(target), Study)
    assert [p.name for p in tmp_path.iterdir()] == ["x"]


def test_json_is_the_documented_one(tmp_path: Path) -> None:
    study = Study.from_values(["p"], [[1], [2.5]], [("f", "t", 0, [1.0, 2.5]), ("f", "t", 1, [3.0])])
    written(study, "extrap-json", tmp_path / "x")
    assert json.loads((tmp_path / "x").read_text()) == {
        "parameters": ["p"],
        "measurements": {"f": {"t": [{"point": [1], "values": [1, 2.5]}, {"point": [2.5], "values": [3]}]}},
    }
