"""Tables to stdout or to a file."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from callgrove.cli.main import main
from callgrove.cli.options import TABLE_FORMATS, TableOutput
from callgrove.cli.output import emit, emit_text, replacing, stdout_look
from callgrove.errors import UsageError
from callgrove.model.table import UNCOUNTED, Table, first_rows
from callgrove.render import Look


def numbers(*values: int) -> Table:
    return Table.from_rows(["n"], [(value,) for value in values])


def to(output: str | None = None, format: str = "csv", limit: int | None = None) -> TableOutput:
    return TableOutput(formats=TABLE_FORMATS, given_format=format, output=output, limit=limit)


def test_to_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    emit([numbers(1), numbers(2, 3)], to())
    assert capsys.readouterr() == ("n\n1\n2\n3\n", "")


@pytest.mark.parametrize(
    ("format", "out", "err"),
    [
        ("csv", "n\n1\n", "callgrove: 2 more rows were left out by --limit\n"),
        ("json", '[\n{"n": 1}\n]\n', "callgrove: 2 more rows were left out by --limit\n"),
        ("table", "n\n-\n1\n… and 2 more\n", ""),
        ("markdown", "| n |\n| ---: |\n| 1 |\n\nand 2 more\n", ""),
    ],
)
def test_a_limit_says_what_it_left(format: str, out: str, err: str, capsys: pytest.CaptureFixture[str]) -> None:
    emit(numbers(1, 2, 3), to(format=format, limit=1))
    assert capsys.readouterr() == (out, err)


def test_what_a_verb_cut_itself_is_said_too(capsys: pytest.CaptureFixture[str]) -> None:
    emit(numbers(1, 2, 3).head(1), to())
    assert capsys.readouterr().err == "callgrove: 2 more rows were left out by --limit\n"


def test_an_uncounted_rest_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    emit([numbers(1, 2), numbers(3), numbers(4)], to(limit=1))
    assert capsys.readouterr() == ("n\n1\n", "callgrove: more rows were left out by --limit\n")


def test_a_known_rest_is_counted_without_reading_it(capsys: pytest.CaptureFixture[str]) -> None:
    def chunks() -> Iterator[Table]:
        yield numbers(1, 2)
        raise AssertionError("read further than the limit")

    emit(chunks(), to(limit=1), n_rows=7)
    assert capsys.readouterr() == ("n\n1\n", "callgrove: 6 more rows were left out by --limit\n")


@pytest.mark.parametrize(
    ("chunks", "limit", "expected", "left"),
    [
        ([(1, 2), (3,)], 5, [1, 2, 3], 0),
        ([(1, 2), (3,)], 3, [1, 2, 3], 0),
        ([(1, 2), (3,), ()], 3, [1, 2, 3], 0),
        ([(1, 2), (3, 4)], 3, [1, 2, 3], 1),
        ([(1, 2), (3, 4)], 2, [1, 2], 2),
        ([(1, 2), (3, 4), (5,)], 2, [1, 2], UNCOUNTED),
        ([(1, 2)], 0, [], 2),
        ([()], 0, [], 0),
        ([], 3, [], 0),
    ],
)
def test_limited(chunks: list[tuple[int, ...]], limit: int, expected: list[int], left: int) -> None:
    tables = list(first_rows([numbers(*chunk) for chunk in chunks], limit))
    assert [row[0] for table in tables for row in table.rows()] == expected
    assert sum(table.left for table in tables) == left


def test_a_limit_does_not_read_the_rest() -> None:
    def endless() -> Iterator[Table]:
        while True:
            yield numbers(1, 2)

    assert [len(table) for table in first_rows(endless(), 3)] == [2, 1]


def test_to_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "out.csv"
    emit(numbers(1), to(str(target)))
    assert target.read_bytes() == b"n\n1\n"
    assert capsys.readouterr() == ("", "")
    assert [path.name for path in tmp_path.iterdir()] == ["out.csv"]


def test_a_file_is_utf8_without_width_or_colours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", FakeTerminal())
    target = tmp_path / "out.txt"
    emit(Table.from_rows(["name"], [("ö" * 100,), ("\udcff",)]), to(str(target), "table"))
    assert target.read_text("utf-8").splitlines()[2:] == ["ö" * 100, r"\udcff"]
    assert "\x1b" not in target.read_text("utf-8")


def test_half_characters_do_not_end_an_export(tmp_path: Path) -> None:
    target = tmp_path / "out.csv"
    emit(Table.from_rows(["name"], [("a\udcffb",)]), to(str(target)))
    assert target.read_text("utf-8") == "name\na\\udcffb\n"


def failing_tables() -> Iterator[Table]:
    yield numbers(1)
    raise RuntimeError("the input ends early")


def test_an_error_leaves_the_old_file(tmp_path: Path) -> None:
    target = tmp_path / "out.csv"
    target.write_text("old")
    with pytest.raises(RuntimeError):
        emit(failing_tables(), to(str(target)))
    assert target.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["out.csv"]


def test_a_file_keeps_its_mode_and_a_link_its_target(tmp_path: Path) -> None:
    real = tmp_path / "real.csv"
    real.touch(mode=0o640)
    real.chmod(0o640)
    link = tmp_path / "link.csv"
    link.symlink_to(real)
    emit(numbers(1), to(str(link)))
    assert link.is_symlink()
    assert real.read_text() == "n\n1\n"
    assert real.stat().st_mode & 0o777 == 0o640


def test_a_new_file_has_the_usual_mode(tmp_path: Path) -> None:
    (tmp_path / "other").touch()
    emit(numbers(1), to(str(tmp_path / "new")))
    assert (tmp_path / "new").stat().st_mode == (tmp_path / "other").stat().st_mode


def test_a_device_is_written_directly() -> None:
    emit(numbers(1), to(os.devnull))
    assert not Path(os.devnull).is_file()


@pytest.mark.parametrize("name", ["missing/out.csv", "."])
def test_an_error_names_the_target(name: str, tmp_path: Path) -> None:
    target = tmp_path / name
    with pytest.raises(OSError, match=r"No such file|Is a directory") as caught:
        emit(numbers(1), to(str(target)))
    assert caught.value.filename == str(target)


def test_a_full_disk_names_the_target(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="out") as caught, replacing(tmp_path / "out"):
        raise OSError(28, "No space left on device")
    assert caught.value.filename == str(tmp_path / "out")


def test_a_device_that_fails_is_said_of_the_target(tmp_path: Path) -> None:
    """An error of closing a file has no name."""
    with pytest.raises(OSError, match="Input/output") as caught, replacing(tmp_path / "out"):
        raise OSError(errno.EIO, "Input/output error")
    assert caught.value.filename == str(tmp_path / "out")


def test_what_is_in_place_is_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with replacing(tmp_path / "out") as place:
        place.write_text("new")

        def fail(self: Path, missing_ok: bool = False) -> None:
            raise OSError(errno.EIO, "Input/output error")

        monkeypatch.setattr(Path, "unlink", fail)
    assert (tmp_path / "out").read_text() == "new"


class FakeTerminal:
    encoding = "UTF-8"

    def isatty(self) -> bool:
        return True

    def writelines(self, lines: Any) -> None:
        raise AssertionError("not to be written to")


@pytest.mark.parametrize(
    ("environment", "colour"),
    [({}, True), ({"NO_COLOR": "1"}, False), ({"NO_COLOR": ""}, True), ({"TERM": "dumb"}, False)],
)
def test_the_look_of_a_terminal(environment: dict[str, str], colour: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", FakeTerminal())
    monkeypatch.setattr(os, "environ", {"COLUMNS": "77", "TERM": "xterm", **environment})
    assert stdout_look() == Look(77, colour, unicode=True)


def test_the_look_of_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    assert stdout_look() == Look(width=None, colour=False, unicode=True)


def test_the_look_of_an_old_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", FakeTerminal())
    monkeypatch.setattr(FakeTerminal, "encoding", "ISO-8859-1")
    assert not stdout_look().unicode


HOSTILE = "clear\x1b[2J\x1b]0;title\x07"


@pytest.mark.parametrize("format", ["csv", "json", "jsonl", "markdown", "latex", "html", "table"])
def test_names_do_nothing_to_a_terminal(
    format: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = Table.from_rows(["name", "n"], [(HOSTILE, 1)])
    formats = (*TABLE_FORMATS, "jsonl")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    emit(table, TableOutput(formats=formats, given_format=format, output=None))
    shown = capsys.readouterr().out
    assert "\x1b" not in shown
    assert "\x07" not in shown
    assert "clear" in shown


def test_texts_do_nothing_to_a_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sentences, dumps and reports that are not tables."""
    path = tmp_path / f"{HOSTILE}.folded"
    path.write_text(f"main;{HOSTILE};f 5\nmain;{HOSTILE} 9\n")
    study = tmp_path / "study.txt"
    study.write_text(f"PARAMETER p\nPOINTS 1 2 4 8 16\nMETRIC t\nREGION {HOSTILE}\n" + "DATA 1\n" * 5)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    for words in (
        ["explain", str(path)],
        ["explain", str(path), "--format", "markdown"],
        ["why", str(path), str(path)],
        ["dump", str(path)],
        ["dump", str(path), "--format", "text"],
        ["model", str(study), "--print", "all"],
        ["info", str(path), "--format", "json"],
        ["completion", "--metrics", str(path)],
    ):
        main(words)
        said = capsys.readouterr()
        for text in (said.out, said.err):
            assert "\x1b" not in text, words
            assert "\x07" not in text, words
    monkeypatch.undo()
    emit_text([HOSTILE], None)
    assert capsys.readouterr().out == HOSTILE  # of a pipe


def test_files_and_pipes_get_names_as_they_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = Table.from_rows(["name", "n"], [(HOSTILE, 1)])
    emit(table, to())
    assert capsys.readouterr().out == f"name,n\n{HOSTILE},1\n"
    emit(table, to(str(tmp_path / "t.csv")))
    assert (tmp_path / "t.csv").read_text("utf-8") == f"name,n\n{HOSTILE},1\n"


def test_csv_for_spreadsheets(capsys: pytest.CaptureFixture[str]) -> None:
    safe = TableOutput(formats=TABLE_FORMATS, given_format="csv", output=None, safe_csv=True)
    emit(Table.from_rows(["name"], [("=cmd()",)]), safe)
    assert capsys.readouterr().out == "name\n'=cmd()\n"
    with pytest.raises(UsageError, match="--safe-csv is for CSV, and this is json"):
        TableOutput(formats=TABLE_FORMATS, given_format="json", output=None, safe_csv=True)
