"""Extra-P's text format: what is accepted, what is refused and in which words."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest

from callgrove.errors import CallgroveError, CorruptFile
from callgrove.formats.interface import ReadOptions
from callgrove.formats.registry import open_path
from callgrove.model.study.series import Study

HEAD = "PARAMETER p\nPOINTS 1 2\n"
BLOCK = "REGION f\nDATA 1\nDATA 2\n"


def read(folder: Path, text: str | bytes, strict: bool = False, format_name: str = "") -> Study:
    path = folder / "study"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    found = open_path(path, format_name, ReadOptions(strict=strict))
    assert isinstance(found, Study)
    return found


def refused(folder: Path, text: str | bytes, *words: str, strict: bool = False) -> None:
    with pytest.raises(CallgroveError) as error:
        read(folder, text, strict, "extrap-text")
    assert error.value.exit_code == 3
    assert str(folder / "study") in str(error.value)
    for word in words:
        assert word in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("points", "expected"),
    [
        ("1 2 4", [[1], [2], [4]]),
        ("(1) (2)", [[1], [2]]),
        ("((1)) ((2))", [[1], [2]]),
        ("( 1 )(2)", [[1], [2]]),
        ("(1) 2", [[1], [2]]),
        ("+1 -2e3 .5", [[1], [-2000], [0.5]]),
    ],
)
def test_points_of_one_parameter(points: str, expected: list[list[float]], tmp_path: Path) -> None:
    data = "DATA 1\n" * len(expected)
    assert read(tmp_path, f"PARAMETER p\nPOINTS {points}\nREGION f\n{data}").points.tolist() == expected


@pytest.mark.parametrize(
    "points",
    ["(1 2) (3 4)", "(1 2)(3 4)", "( 1  2 ) (3\t4)", "(1,2) (3, 4)", "((1) (2)) ((3) (4))", "((1)(2))((3),(4))"],
)
def test_points_of_two_parameters(points: str, tmp_path: Path) -> None:
    study = read(tmp_path, f"PARAMETER a b\nPOINTS {points}\nREGION f\nDATA 1\nDATA 2\n")
    assert study.points.tolist() == [[1, 2], [3, 4]]


def test_everything_at_once(tmp_path: Path) -> None:
    text = (
        "\ufeff# a comment\r\n\r\n  PARAMETER  p\tq\r\nPARAMETER r\n  # indented\nPOINTS (1 1 1)\nPOINTS (2 1 1)\n"
        "METRIC  wall   time # s\nREGION main->f  g\nDATA 1 2 3\nDATA 1e-3\nMETRIC flops\nDATA inf\nDATA nan\n"
        "REGION other\nMETRIC wall time # s\nDATA 4\nDATA 5"
    )
    study = read(tmp_path, text)
    assert study.parameters == ("p", "q", "r")
    assert study.points.tolist() == [[1, 1, 1], [2, 1, 1]]
    assert study.metrics == ("wall time # s", "flops")
    assert study.callpaths == ("main->f g", "other")
    assert study.series("main->f g", "wall time # s").values[0].tolist() == [1, 2, 3]
    assert study.series("other", "wall time # s").mean.tolist() == [4, 5]
    assert str(study.series("main->f g", "flops").mean.tolist()) == "[inf, nan]"


def test_without_a_metric_its_name_is_empty(tmp_path: Path) -> None:
    assert read(tmp_path, HEAD + BLOCK).metrics == ("",)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        (HEAD + "DATA 1\nDATA 2\n", "REGION"),
        ("PARAMETER a b c d e\nPOINTS (1 1 1 1 1)\nREGION f\nDATA 1\n", "at most 4"),
        (HEAD + BLOCK + BLOCK, "again"),
        ("PARAMETER p\nPOINTS 1 1\n" + BLOCK, "there already"),
        (HEAD + "REGION f\nDATA 1\n", "1 of 1 series lacks some"),
    ],
)
def test_what_only_strict_refuses(text: str, word: str, tmp_path: Path) -> None:
    assert len(read(tmp_path, text)) == 1
    refused(tmp_path, text, word, "strict=True", strict=True)


def test_equal_points_and_blocks_are_pooled(tmp_path: Path) -> None:
    study = read(tmp_path, "PARAMETER p\nPOINTS 1 2 1\nREGION f\nDATA 1\nDATA 2\nDATA 3 5\n")
    assert study.points.tolist() == [[1], [2]]
    assert [v.tolist() for v in study.series("f", "").values] == [[1, 3, 5], [2]]
    assert "equal" in study.warnings[0].text
    study = read(tmp_path, HEAD + BLOCK + BLOCK)
    assert study.repetitions.tolist() == [[2, 2]]
    assert "line 7" in study.warnings[0].text
    assert read(tmp_path, HEAD + "DATA 1\nDATA 2\n").callpaths == ("<root>",)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ("no data",)),
        ("# nothing\n", ("no data",)),
        (HEAD + "REGION f\n", ("no data",)),
        (HEAD + "SECTION f\n", ("line 3", "'SECTION'", "PARAMETER, POINTS, METRIC, REGION, DATA")),
        (HEAD + "region f\n", ("line 3", "'region'", "REGION in upper case")),
        ("POINTS 1\n", ("line 1", "PARAMETER must come first")),
        ("DATA 1\n", ("line 1", "PARAMETER must come first")),
        ("PARAMETER a b\nPOINTS (1 2) (3)\n", ("line 2", "(3)", "found 1", "2 coordinates", "a, b")),
        ("PARAMETER a b\nPOINTS 1 2\n", ("line 2", "2 coordinates")),
        ("PARAMETER a\nPOINTS (1 2)\n", ("line 2", "1 coordinate for")),
        ("PARAMETER a\nPOINTS 1 x\n", ("line 2", "'x'")),
        ("PARAMETER a\nPOINTS 1,5 2,5\n", ("line 2", "'1,5'", "decimal point")),
        ("PARAMETER a\nPOINTS (1) (x)\n", ("line 2", "'x'")),
        ("PARAMETER a b\nPOINTS (1 (2 3))\n", ("line 2", "one number")),
        ("PARAMETER a b\nPOINTS (1 2\n", ("line 2", "column 1", "never closed")),
        ("PARAMETER a b\nPOINTS (1 2)) (3 4)\n", ("line 2", "column 6")),
        ("PARAMETER a b\nPOINTS (((1)) 2)\n", ("line 2", "column 3")),
        ("PARAMETER a\nPOINTS nan\n", ("line 2", "finite")),
        ("PARAMETER a\nPOINTS (inf)\n", ("line 2", "finite")),
        (HEAD + "REGION f\nDATA 1,5\n", ("line 4", "'1,5'", "decimal point")),
        (HEAD + "REGION f\nDATA 1 2..3\n", ("line 4", "'2..3'")),
        (HEAD + "REGION f\nDATA\n", ("line 4", "at least one number")),
        (HEAD + "REGION\n", ("line 3", "a name after REGION")),
        (HEAD + "METRIC\n", ("line 3", "a name after METRIC")),
        ("PARAMETER p\nREGION f\nDATA 1\n", ("line 3", "POINTS before DATA", "'f'")),
        (HEAD + "METRIC m\n" + BLOCK + "DATA 3\n", ("line 7", "'f'", "'m'", "2 DATA lines", "found 3")),
        ("PARAMETER p p\n", ("line 1", "'p' twice")),
        (HEAD + "PARAMETER q\n" + BLOCK, ("line 3", "before the first POINTS")),
        (b"PARAMETER p\nPOINTS 1\nREGION \xff\nDATA 1\n", ("UTF-8", "byte 28", "line 3", "0xff")),
    ],
)
def test_what_is_refused(text: str | bytes, words: tuple[str, ...], tmp_path: Path) -> None:
    refused(tmp_path, text, *words)


def test_errors_know_their_line(tmp_path: Path) -> None:
    with pytest.raises(CorruptFile) as error:
        read(tmp_path, HEAD + "\n\nREGION f\nDATA x\n")
    assert (error.value.line, error.value.found) == (6, "'x'")


def test_one_point(tmp_path: Path) -> None:
    study = read(tmp_path, "PARAMETER p\nPOINTS 4\nREGION f\nDATA 1 2\n")
    assert (study.n_points, study.mean.tolist()) == (1, [[1.5]])


def test_many_points_and_values(tmp_path: Path) -> None:
    """One series at 30,000 points, and 30,000 repetitions of one: arithmetic says what they are."""
    n = 30_000
    lines = "".join(f"DATA {k}.5\n" for k in range(n))
    study = read(tmp_path, f"PARAMETER p\nPOINTS {' '.join(map(str, range(n)))}\nREGION f\n{lines}")
    assert study.mean.sum() == n * (n - 1) / 2 + 0.5 * n
    study = read(tmp_path, f"PARAMETER p\nPOINTS 1\nREGION f\nDATA {' '.join(map(str, range(n)))}\n")
    assert (study.repetitions.tolist(), study.mean.tolist()) == ([[n]], [[(n - 1) / 2]])


@pytest.mark.parametrize("line", ["POINTS" + " 1" * 1_500_000, "POINTS 1\nREGION r\nDATA" + "\t1" * 1_500_000])
def test_lines_of_millions_of_numbers_are_refused_in_little_memory(line: str, tmp_path: Path) -> None:
    path = tmp_path / "many.txt"
    path.write_text(f"PARAMETER p\n{line}\n")
    tracemalloc.start()
    try:
        with pytest.raises(CorruptFile, match=r"at most 1,000,000 numbers in a line, found 1,500,000"):
            open_path(path, "extrap-text")
        assert tracemalloc.get_traced_memory()[1] < 20 * path.stat().st_size
    finally:
        tracemalloc.stop()


def test_lines_that_add_parameters_or_points_without_end_take_no_longer_each(tmp_path: Path) -> None:
    """Each line is compared with what was there, not all with all."""
    with pytest.raises(CorruptFile, match=r"PARAMETER at line 1001: expected at most 1,000 parameters, found 1,001"):
        read(tmp_path, "".join(f"PARAMETER p{k}\n" for k in range(100_000)))
    n = 20_000
    points = "".join(f"POINTS {k}\n" for k in range(n))
    study = read(tmp_path, f"PARAMETER p\n{points}POINTS 3\nPOINTS 5 6\nPOINTS {n}\nREGION f\n" + "DATA 1\n" * (n + 4))
    assert study.n_points == n + 1
    [warning] = study.warnings
    assert f"line {n + 2}: some of the points {n + 1} to {n + 1} are equal, and so in 1 more lines" in str(warning.text)
