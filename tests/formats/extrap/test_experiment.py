"""`.extra-p` archives: measurements, raw values, models, and what hostile ones may not do."""

from __future__ import annotations

import io
import json
import math
import pickle
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from callgrove.errors import CallgroveError, CorruptFile
from callgrove.formats.extrap.experiment import INDEX_MAGIC, VALUES_MAGIC, ValueReader, ValueWriter
from callgrove.formats.registry import open_path
from callgrove.model.experiment import Severity
from callgrove.model.study.series import Study
from tests.formats.extrap.extrap_files import segmented_study, study_in_pieces, study_with_models, written


def measurement(x: float = 1, mean: float | str = 2.0, **more: object) -> dict[str, object]:
    return {"coordinate": [x], "mean": mean, "median": mean, **more}


def content(**more: object) -> dict[str, Any]:
    return {"Extra-P": "4.2.5", "parameters": ["p"], "measurements": {"f": {"t": [measurement()]}}, **more}


def archive(path: Path, json_content: object, **members: bytes) -> Path:
    with zipfile.ZipFile(path, "w") as file:
        for name, data in members.items():
            file.writestr(name.replace("__", "/").replace("_", "."), data)
        text = json_content if isinstance(json_content, bytes) else json.dumps(json_content).encode()
        file.writestr("experiment.json", text)
    return path


def read(path: Path) -> Study:
    found = open_path(path)
    assert isinstance(found, Study)
    return found


def hypothesis(function: dict[str, object], **costs: object) -> dict[str, object]:
    return {"hypothesis": {"function": function, "_use_median": False, **costs}}


def modelers(*models: dict[str, object]) -> list[dict[str, object]]:
    return [{"name": "m", "modeler": {"use_median": False}, "models": {"f": {"t": model}}} for model in models]


def test_old_files_without_most_statistics(tmp_path: Path) -> None:
    study = read(archive(tmp_path / "x", content()))
    assert (study.mean.tolist(), study.median.tolist(), study.repetitions.tolist()) == ([[2]], [[2]], [[-1]])
    assert math.isnan(study.std[0, 0])


def test_tags_scaling_and_numbers_as_text(tmp_path: Path) -> None:
    study = read(
        archive(
            tmp_path / "x",
            content(
                scaling="weak_threaded",
                callpaths={"f": {"tags": {"a__b": 1}}},
                metrics={"t": {"tags": {"gpu__idle": True}}, "u": {"tags": {}}},
                measurements={
                    "f": {"t": [measurement(1, "inf", std="nan"), measurement(2, "3/2")]},
                    'g\x03{"x__y": 2}': {"t": [measurement(2, 1)]},
                },
                future={"ignored": True},
            ),
        )
    )
    assert study.scaling == "weak_threaded"
    assert study.callpath_tags == {"f": {"a__b": 1}, "g": {"x__y": 2}}
    assert study.metric_tags == {"t": {"gpu__idle": True}}
    assert study.series("f", "t").mean.tolist() == [math.inf, 1.5]
    assert study.present.tolist() == [[True, True], [False, True]]
    assert study.warnings == ()


def test_a_newer_version_is_said(tmp_path: Path) -> None:
    assert "newer" in read(archive(tmp_path / "x", content(**{"Extra-P": "5.1"}))).warnings[0].text


def test_functions(tmp_path: Path) -> None:
    simple = [{"term_type": "polynomial", "exponent": "3/2"}, {"term_type": "logarithm", "exponent": 1.0}]
    function = {"constant_coefficient": 1, "compound_terms": [{"coefficient": -2.0, "simple_terms": simple}]}
    (model,) = read(archive(tmp_path / "a", content(modelers=modelers(hypothesis(function, SMAPE=1))))).models
    assert model.function == "1.0 + -2.0 * p^(3/2) * log2(p)^(1)"
    assert (model.constant, model.statistics, model.name) == (1.0, {"smape": 1.0}, "m")
    assert model.terms[0].exponents == {"p": ("3/2", "1")}
    constant = hypothesis({"constant_coefficient": "nan"}, RSS="inf")
    (model,) = read(archive(tmp_path / "b", content(modelers=modelers(constant)))).models
    assert (model.function, model.statistics["rss"], model.statistics["ar2"]) == ("nan", math.inf, 1.0)


def test_model_sets_of_one_name_and_models_of_nothing(tmp_path: Path) -> None:
    sets = modelers(*[hypothesis({"constant_coefficient": 1})] * 2)
    sets[1]["models"] = {"g": {"t": hypothesis({"constant_coefficient": 1})}}
    study = read(archive(tmp_path / "x", content(modelers=sets)))
    assert list(study.modelers) == ["m", "m #2"]
    assert len(study.models) == 1
    assert "1 model of series that do not exist" in study.warnings[0].text


def test_a_segmented_term_without_segments_is_refused(tmp_path: Path) -> None:
    term = {"coefficient": 1, "parameter_term_pairs": {"0": {"coefficient": 1, "segments": [], "intervals": []}}}
    model = hypothesis({"constant_coefficient": 1, "compound_terms": [term]})
    with pytest.raises(CorruptFile, match="an interval of two numbers for each segment"):
        read(archive(tmp_path / "x", content(modelers=modelers(model))))


def test_round_trips(tmp_path: Path) -> None:
    for number, study in enumerate((study_with_models(), segmented_study(), study_in_pieces())):
        assert written(study, "extrap-experiment", tmp_path / str(number)) == []
        again = read(tmp_path / str(number))
        assert again.models == study.models
        assert dict(again.modelers) == dict(study.modelers)
        assert (again.scaling, again.units, again.callpath_tags) == (study.scaling, study.units, study.callpath_tags)
        assert again.raw is not None
        assert study.raw is not None
        assert again.raw.values.tolist() == study.raw.values.tolist()


# -- raw values ------------------------------------------------------------------------------------------------------


def npy(array: np.typing.NDArray[Any], allow_pickle: bool = False) -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array(file, array, allow_pickle=allow_pickle)
    return file.getvalue()


def chunk(*arrays: bytes) -> dict[str, bytes]:
    offsets = np.cumsum([len(VALUES_MAGIC), *map(len, arrays)])[: len(arrays)]
    index = INDEX_MAGIC + struct.pack(f"<{len(arrays) + 1}Q", len(arrays), *offsets)
    return {"values__0_vals": VALUES_MAGIC + b"".join(arrays), "values__0_indx": index}


def with_values(path: Path, address: list[int], members: dict[str, bytes], mean: float = 2.0) -> Study:
    series = {"f": {"t": [measurement(1, mean, repetitions=2, values=address)]}}
    return read(archive(path, content(measurements=series), **members))


def test_raw_values(tmp_path: Path) -> None:
    study = with_values(tmp_path / "a", [0, 1], chunk(npy(np.array([9.0])), npy(np.array([1, 3]))))
    assert study.values(0, 0).tolist() == [1, 3]
    nested = with_values(tmp_path / "b", [0, 0], chunk(npy(np.array([[1.0, 2], [2, 3]]))))
    assert (nested.values(0, 0).tolist(), nested.repetitions.tolist()) == ([1, 2, 2, 3], [[2]])
    late = with_values(tmp_path / "c", [1, 0], chunk(npy(np.array([1.0, 3]))))
    assert late.values(0, 0).tolist() == [1, 3]
    assert late.warnings[0].severity == Severity.NOTE


BOMB = npy(np.array([1.0, 3])).replace(b"(2,), }", b"(99999999999,), }", 1)


@pytest.mark.parametrize(
    ("address", "members", "words"),
    [
        ([0, 5], chunk(npy(np.array([2.0]))), "no array 5"),
        ([3, 0], {}, "no array 0"),
        ([0, 0], {"values__0_vals": b"x" * 40, "values__0_indx": b"y" * 40}, "does not begin"),
        ([0, 0], chunk(npy(np.array([2.0]))[:-3]), "bytes are left"),
        ([0, 0], chunk(BOMB), "damaged"),
        ([0, 0], chunk(npy(np.array([1, "a"], object), True)), "numbers in the .npy format"),
        ([0, 0], chunk(npy(np.array([2.0])).replace(b"}", b"(", 1)), "numbers in the .npy format"),
        ([0, 0], chunk(npy(np.array([2.0])).replace(b"(1,)", b"(1L,)", 1)), "numbers in the .npy format"),
        ([0, 0], chunk(npy(np.array([2.0])).replace(b"(1,)", b"1" * 4000, 1)), "numbers in the .npy format"),
        ([0, 0], chunk(b"garbage"), "damaged"),
        ([0, 0], chunk(b""), "damaged"),
    ],
)
def test_broken_raw_values_leave_statistics(
    address: list[int], members: dict[str, bytes], words: str, tmp_path: Path
) -> None:
    study = with_values(tmp_path / "x", address, members)
    assert (study.mean.tolist(), study.raw) == ([[2]], None)
    texts = [w.text for w in study.warnings if w.severity == Severity.DAMAGE]
    assert any(words in text for text in texts), texts


def test_raw_values_that_contradict_their_mean_are_left_out(tmp_path: Path) -> None:
    study = with_values(tmp_path / "x", [0, 0], chunk(npy(np.array([7.0, 9]))))
    assert study.raw is None
    assert "contradict" in study.warnings[0].text


class Exploding:
    exploded = False

    def __reduce__(self) -> tuple[object, ...]:
        return exec, (f"import {__name__} as m; m.Exploding.exploded = True",)


def test_nothing_is_unpickled(tmp_path: Path) -> None:
    pickled = npy(np.array([Exploding()], object), True)
    assert b"Exploding" in pickle.dumps(Exploding())
    assert with_values(tmp_path / "x", [0, 0], chunk(pickled)).raw is None
    assert not Exploding.exploded


def test_chunks_follow_each_other(tmp_path: Path) -> None:
    arrays = [np.arange(n + 1.0) for n in range(20)]
    with zipfile.ZipFile(tmp_path / "x", "w") as file:
        writer = ValueWriter(file, chunk_size=700)
        addresses = [writer.add(array) for array in arrays]
        writer.flush()
    assert len({chunk for chunk, _ in addresses}) > 2
    with zipfile.ZipFile(tmp_path / "x") as file:
        reader = ValueReader(file, tmp_path / "x")
        for array, address in zip(arrays, addresses, strict=True):
            np.testing.assert_array_equal(reader.read(*address), array)
        assert reader.problems == {}


# -- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (b"{", ("experiment.json", "line 1")),
        (b"[]", ("top level", "an object")),
        (b"\xff", ("UTF-8",)),
        ({}, ("'parameters'",)),
        (content(scaling="sideways"), ("scaling", "'sideways'", "weak_threaded")),
        (content(parameters=[]), ("parameters", "at least one")),
        (content(measurements={}), ("no data",)),
        (content(measurements={"f": {"t": [{"coordinate": [1]}]}}), ('measurements["f"]["t"][0]', "'mean'")),
        (content(measurements={"f": {"t": [measurement() | {"coordinate": [1, 2]}]}}), (".coordinate", "p")),
        (content(measurements={"f": {"t": [measurement() | {"coordinate": ["inf"]}]}}), (".coordinate", "finite")),
        (content(measurements={"f": {"t": [measurement(std=-1)]}}), (".std", "negative")),
        (content(measurements={"f": {"t": [measurement(mean="1/0")]}}), (".mean", "'1/0'")),
        (content(measurements={"f": {"t": [measurement(values=[1])]}}), (".values", "[chunk, number]")),
        (content(modelers=[{"models": {}}]), ("modelers[0]", "'name'")),
        (content(modelers=modelers({})), ('models["f"]["t"]', "'hypothesis'")),
        (
            content(modelers=modelers(hypothesis({"compound_terms": [{"simple_terms": [{"term_type": "x"}]}]}))),
            ("term_type", "'x'", "polynomial"),
        ),
        (
            content(modelers=modelers(hypothesis({"compound_terms": [{"parameter_term_pairs": {"4": {}}}]}))),
            ("parameter_term_pairs", "0 to 0"),
        ),
        (content(modelers=modelers(hypothesis({"segments": [{}], "intervals": []}))), ("function", "interval")),
    ],
)
def test_what_is_refused(bad: object, words: tuple[str, ...], tmp_path: Path) -> None:
    with pytest.raises(CallgroveError) as error:
        read(archive(tmp_path / "x", bad))
    assert error.value.exit_code == 3
    for word in words:
        assert word in str(error.value)


def test_a_member_that_begins_before_the_file_is_told_without_words_of_the_system(tmp_path: Path) -> None:
    path = archive(tmp_path / "x", content())
    data = bytearray(path.read_bytes())
    end = data.rindex(b"PK\x05\x06")
    data[end + 16 : end + 20] = (int.from_bytes(data[end + 16 : end + 20], "little") + 50).to_bytes(4, "little")
    path.write_bytes(data)
    with pytest.raises(CorruptFile, match="expected an intact member, found none") as caught:
        read(path)
    assert "Errno" not in str(caught.value)


def test_an_archive_without_experiment(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x", "w") as file:
        file.writestr("other.json", "{}")
    with pytest.raises(CallgroveError, match=r"expected the member experiment\.json, found other\.json"):
        open_path(tmp_path / "x", "extrap-experiment")
    (tmp_path / "y").write_bytes(b"no archive")
    with pytest.raises(CallgroveError, match="ZIP archive"):
        open_path(tmp_path / "y", "extrap-experiment")


def test_a_small_file_that_inflates_to_much_is_refused(tmp_path: Path) -> None:
    with (
        zipfile.ZipFile(tmp_path / "x", "w", zipfile.ZIP_DEFLATED) as file,
        file.open("experiment.json", "w") as member,
    ):
        for _ in range(80):
            member.write(b" " * (1 << 20))
    with pytest.raises(CallgroveError, match=r"inflate to 83,886,080"):
        open_path(tmp_path / "x")
