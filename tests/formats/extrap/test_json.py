"""Both of Extra-P's JSON formats, and how all of its formats are told apart."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from callgrove.binary.files import Source
from callgrove.errors import CallgroveError
from callgrove.formats.interface import ReadOptions
from callgrove.formats.registry import detect, open_path
from callgrove.model.study.series import Study


def read(folder: Path, content: object, strict: bool = False) -> Study:
    path = folder / "study"
    path.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
    found = open_path(path, options=ReadOptions(strict=strict))
    assert isinstance(found, Study)
    return found


def new(values: object = (1, 2), point: object = (1,), **more: object) -> dict[str, Any]:
    return {"parameters": ["p"], "measurements": {"f": {"t": [{"point": point, "values": values}]}}, **more}


def old(**changes: object) -> dict[str, Any]:
    found: dict[str, Any] = {
        "callpaths": [{"id": 7, "name": "f"}],
        "metrics": [{"id": 3, "name": "t"}],
        "parameters": [{"id": 9, "name": "q"}, {"id": 2, "name": "p"}],
        "coordinates": [
            {"id": 5, "parameter_value_pairs": [_pair(9, 10), _pair(2, 1)]},
            {"id": 4, "parameter_value_pairs": [_pair(2, "2"), _pair(9, 10)]},
        ],
        "measurements": [_value(5, 1.5, 1), _value(4, 2, 2), _value(5, "2.5", 3)],
    }
    return found | changes


def _pair(parameter: int, value: object) -> dict[str, object]:
    return {"parameter_id": parameter, "parameter_value": value}


def _value(coordinate: int, value: object, id_: int) -> dict[str, object]:
    return {"id": id_, "callpath_id": 7, "coordinate_id": coordinate, "metric_id": 3, "value": value}


@pytest.mark.parametrize(
    ("values", "expected", "repetitions"),
    [([1, 2.5], [1, 2.5], 2), (3, [3], 1), (["1.5", "2"], [1.5, 2], 2), ([[1, 2], [3]], [1, 2, 3], 2)],
)
def test_values(values: object, expected: list[float], repetitions: int, tmp_path: Path) -> None:
    study = read(tmp_path, new(values))
    assert study.values(0, 0).tolist() == expected
    assert study.repetitions.tolist() == [[repetitions]]


def test_points_and_other_keys(tmp_path: Path) -> None:
    assert read(tmp_path, new(point=4)).points.tolist() == [[4]]
    assert read(tmp_path, new(author="x", runs=[1])).attributes == {"author": "x", "runs": "[1]"}
    names = {"a->b": {'"': [{"point": [1], "values": [1]}]}, "größe; x": {"": [{"point": [1], "values": [2]}]}}
    study = read(tmp_path, {"parameters": ["p\nq"], "measurements": names})
    assert (study.parameters, study.callpaths, study.metrics) == (("p\nq",), ("a->b", "größe; x"), ('"', ""))


def test_a_point_twice(tmp_path: Path) -> None:
    series = [{"point": [1], "values": [1]}, {"point": [1.0], "values": [2, 3]}]
    content = {"parameters": ["p"], "measurements": {"f": {"t": series}}}
    assert read(tmp_path, content).repetitions.tolist() == [[3]]
    with pytest.raises(CallgroveError, match=r'measurements\["f"\]\["t"\]\[1\]\.point: .*strict=True'):
        read(tmp_path, content, strict=True)


def test_ids_of_the_old_form_are_looked_up(tmp_path: Path) -> None:
    study = read(tmp_path, old())
    assert (study.format, study.parameters) == ("extrap-json-old", ("p", "q"))
    assert study.points.tolist() == [[2, 10], [1, 10]]
    assert [v.tolist() for v in study.series("f", "t").values] == [[2], [1.5, 2.5]]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ('{"parameters": ["p"],\n "measurements": {"f": }}', ("line 2", "column 24")),
        ('{"parameters": ["p"], "measurements": {', ("line 1", "the text ends here")),
        ({"measurements": {"f": {}}}, ("top level", "'parameters'", "'measurements'")),
        ({"parameters": ["p"], "other": 1}, ("top level", "'measurements'")),
        ({"parameters": [], "measurements": {}}, ("parameters", "at least one")),
        ({"parameters": ["p", "p"], "measurements": {}}, ("parameters[1]", "not there yet")),
        ({"parameters": [1], "measurements": {}}, ("parameters[0]", "a text")),
        ({"parameters": ["p"], "measurements": {}}, ("no data",)),
        ({"parameters": ["p"], "measurements": {"f": []}}, ('measurements["f"]', "an object")),
        ({"parameters": ["p"], "measurements": {"f": {"t": {}}}}, ('measurements["f"]["t"]', "a list")),
        (new([]), ('measurements["f"]["t"][0].values', "at least one number")),
        (new(["x"]), ('measurements["f"]["t"][0].values', "'x'")),
        (new([None]), ('measurements["f"]["t"][0].values', "null")),
        (new(True), (".values", "true")),
        (new(point=[1, 2]), ('measurements["f"]["t"][0].point', "1 coordinates")),
        (new(point=["nan"]), (".point", "finite")),
        (new(point=[{}]), (".point", "numbers")),
        ({"parameters": ["p"], "measurements": {"f": {"t": [{"values": [1]}]}}}, ('["t"][0]', "'point'")),
        (old(callpaths=[{"id": 1, "name": "a"}, {"id": 1, "name": "b"}]), ("callpaths[1]", "callpaths[0]")),
        (old(callpaths=[{"name": "a"}]), ("callpaths[0]", "'id'")),
        (old(measurements=[_value(8, 1, 1)]), ("measurements[0].coordinate_id", "coordinates", "8")),
        (old(measurements=[{"id": 1}]), ("measurements[0]", "'coordinate_id'")),
        (old(measurements=[_value(5, None, 1)]), ("measurements[0].value", "null")),
        (old(coordinates=[{"id": 5, "parameter_value_pairs": [_pair(2, 1)]}]), ("coordinates[0]", "p, q")),
        (old(parameters=[{"id": 2, "name": "p"}, {"id": 9, "name": "p"}]), ("parameters", "differ")),
        ("{" * 100_000, ()),
        ('{"parameters": ' + "9" * 5000 + "}", ()),
    ],
)
def test_what_is_refused(content: object, words: tuple[str, ...], tmp_path: Path) -> None:
    with pytest.raises(CallgroveError) as error:
        read(tmp_path, content)
    assert error.value.exit_code == 3
    for word in words:
        assert word in str(error.value)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 600


@pytest.mark.parametrize(
    ("text", "format_name"),
    [
        ("  \n# x\nPARAMETER p\n", "extrap-text"),
        ("points (1)\n", "extrap-text"),
        ("\ufeffREGION f\n", "extrap-text"),
        ('{"callpaths": []', "extrap-json-old"),
        ('{"measurements": [{', "extrap-json-old"),
        ('{ "x": {"callpaths": 1}, "measurements" :\n {', "extrap-json"),
        ('{"parameters":["a"]', "extrap-json"),
        ('{"parameters":{"p":1};"metric":"callpaths\\":";"callpath":', "extrap-talpas"),
        ('# c\n\n{"value":1,"params":{"parameters":2}}\n{', "extrap-jsonl"),
        ('{"unknown": 1}', "extrap-json"),
    ],
)
def test_formats_are_told_apart_by_content(text: str, format_name: str, tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_text(text, "utf-8")
    assert detect(Source.of(path))[0].name == format_name


@pytest.mark.parametrize("content", [b"", b"{", b"PARAMETERS x", b"\0\1\2", b"PK\3\4 no member", b"[1, 2]", b"#"])
def test_what_is_none_of_them(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_bytes(content)
    with pytest.raises(CallgroveError) as error:
        open_path(path)
    assert error.value.exit_code == 3
