"""TaLPas and JSON Lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from callgrove.errors import CallgroveError
from callgrove.formats.interface import ReadOptions
from callgrove.formats.registry import open_path
from callgrove.model.study.series import Study


def read(folder: Path, text: str, format_name: str = "", strict: bool = False) -> Study:
    path = folder / "study"
    path.write_text(text, "utf-8")
    found = open_path(path, format_name, ReadOptions(strict=strict))
    assert isinstance(found, Study)
    return found


def talpas(value: str = "1", point: str = '"p":1', metric: str = '"m"', callpath: str = '"f"', sep: str = ";") -> str:
    return f'{{"parameters":{{{point}}}{sep}"metric":{metric}{sep}"callpath":{callpath}{sep}"value":{value}}}\n'


def test_talpas(tmp_path: Path) -> None:
    text = (
        "# a comment\n\n"
        + talpas("1.5", '"p":1;"n":"2"')
        + talpas("[2.5, 3]", '"n":2,"p":1', sep=",")
        + talpas("NaN", '"p":2;"n":2', callpath='"a;b \\" ; c"')
        + talpas("-Infinity", '"p":2;"n":2', callpath='"a;b \\" ; c"')
    )
    study = read(tmp_path, text)
    assert (study.format, study.parameters) == ("extrap-talpas", ("p", "n"))
    assert study.callpaths == ("f", 'a;b " ; c')
    assert study.series("f", "m").values[0].tolist() == [1.5, 2.5, 3]
    assert str(study.series('a;b " ; c', "m").values[0].tolist()) == "[nan, -inf]"


def test_json_lines(tmp_path: Path) -> None:
    study = read(tmp_path, '{"params": {"p": 4}, "value": 2}')
    assert (study.format, study.callpaths, study.metrics) == ("extrap-jsonl", ("<root>",), ("<default>",))
    text = '{"params":{"x":1},"callpath":"a->b;c","metric":"t","value":[1,[2,3]]}\n# note\n'
    text += '{"value":"7","params":{"x":2}}\n'
    study = read(tmp_path, text)
    first = study.series("a->b;c", "t")
    assert (first.values[0].tolist(), first.repetitions.tolist()) == ([1, 2, 3], [2])
    assert study.series("<root>", "<default>").mean.tolist() == [7]


def test_parameters_that_the_first_record_lacks(tmp_path: Path) -> None:
    text = talpas() + talpas("2", '"p":2;"q":7')
    study = read(tmp_path, text)
    assert study.points.tolist() == [[1], [2]]
    assert "line 2" in study.warnings[0].text
    assert "'q'" in study.warnings[0].text
    with pytest.raises(CallgroveError, match=r"line 2.*'q'"):
        read(tmp_path, text, strict=True)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ("no data",)),
        ("\n\n# nothing\n", ("no data",)),
        (talpas() + '{"parameters":{"p":1};"metric"\n', ("line 2", "column", '{"parameters"')),
        (talpas() + "{}{}\n", ("line 2",)),
        (talpas() + "[1]\n", ("line 2", "object")),
        (talpas() + '{"parameters":{"p":1}}\n', ("line 2", "'callpath'", "'parameters'")),
        ('{"metric":"m","callpath":"f","value":1}\n', ("line 1", "'parameters'", "'value'")),
        (talpas().replace(';"value":1', ""), ("line 1", "'value'")),
        (talpas() + talpas("1", '"q":2'), ("line 2", "'p'")),
        (talpas() + talpas("null"), ("line 2", "number", "null")),
        (talpas("true"), ("line 1", "true")),
        (talpas("[]"), ("line 1", "number")),
        (talpas("[[]]"), ("line 1", "number")),
        (talpas('"x"'), ("line 1", "'x'")),
        (talpas("1", '"p":null'), ("line 1", "'p'", "null")),
        (talpas("1", '"p":Infinity'), ("line 1", "finite")),
        (talpas("1", '"p":1e999'), ("line 1", "finite")),
        (talpas("1", ""), ("line 1", "at least one parameter")),
        (talpas(metric="7"), ("line 1", "text as metric")),
        (talpas("1", '"p":[1]'), ("line 1", "'p'")),
        (talpas() + talpas("9" * 5000), ("line 2",)),
        (talpas() + "[" * 100_000 + "\n", ("line 2",)),
    ],
)
def test_what_is_refused(text: str, words: tuple[str, ...], tmp_path: Path) -> None:
    with pytest.raises(CallgroveError) as error:
        read(tmp_path, text, "extrap-talpas")
    assert error.value.exit_code == 3
    for word in (str(tmp_path / "study"), *words):
        assert word in str(error.value)
    assert "\n" not in str(error.value)


def test_a_broken_line_among_thousands_is_named(tmp_path: Path) -> None:
    lines = [f'{{"params":{{"p":{k}}},"value":{k}}}' for k in range(5000)]
    lines[4321] = "garbage"
    with pytest.raises(CallgroveError, match=r"line 4322: .*'garbage'"):
        read(tmp_path, "\n".join(lines))


def test_many_records(tmp_path: Path) -> None:
    n = 20_000
    study = read(tmp_path, "".join(f'{{"params":{{"p":{k % 100}}},"value":{k}}}\n' for k in range(n)))
    assert (study.n_points, study.repetitions.tolist()) == (100, [[200] * 100])
    assert study.mean.sum() * 200 == n * (n - 1) / 2


def test_a_table_that_is_nearly_empty_is_refused(tmp_path: Path) -> None:
    """Every line another series at another point: 10^8 cells for 10^4 values."""
    text = "".join(f'{{"params":{{"p":{k}}},"callpath":"f{k}","value":1}}\n' for k in range(10_000))
    with pytest.raises(CallgroveError, match="10,000 series at 10,000 points"):
        read(tmp_path, text)
