"""Messages, tables of several inputs, and how cost tables look on narrow terminals."""

from __future__ import annotations

import json
from pathlib import Path
from shutil import copytree
from tempfile import TemporaryDirectory

import pytest

from callgrove.cli import output as viewing
from callgrove.cli.main import main
from callgrove.errors import count_of
from callgrove.examples import example
from callgrove.formats.interface import WriteOptions
from callgrove.formats.registry import writer_of
from callgrove.formats.writing.transfer import write_experiment
from callgrove.render.cost_texts import indent_name
from callgrove.render.text_table import Look, shorten
from callgrove.render.units import si
from tests.formats.cube.raw_cubes import r1
from tests.formats.samples import CORPUS
from tests.permissions import as_nobody

DATABASE = CORPUS / "hpctoolkit" / "release" / "pth4.d"
Capture = pytest.CaptureFixture[str]
PARTS = (("small", 0.1), ("big", 0.3))  # what a process more costs


def test_several_inputs_are_one_table(capsys: Capture) -> None:
    command = ["--metrics", "--format", "json"]
    assert main(["info", str(DATABASE), str(DATABASE), *command]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert {row["path"] for row in rows} == {str(DATABASE)}
    assert main(["info", str(DATABASE), *command]) == 0
    assert [{"path": str(DATABASE), **row} for row in json.loads(capsys.readouterr().out)] * 2 == rows


@pytest.mark.parametrize(("part", "said"), [("meta.db", "is only the meta.db"), ("trace.db", "there is no metric")])
def test_a_part_without_costs_says_why(part: str, said: str, capsys: Capture) -> None:
    main(["top", str(DATABASE / part)])
    err = capsys.readouterr().err
    assert said in err
    assert str(DATABASE / part) in err


def test_a_database_without_its_tables_says_why_there_is_no_cost(tmp_path: Path, capsys: Capture) -> None:
    folder = copytree(DATABASE, tmp_path / "x")
    (folder / "meta.db").unlink()
    for verb in ("top", "tree", "hot"):
        assert main([verb, str(folder)]) == 3
        assert f"callgrove: {folder}: there is no meta.db" in capsys.readouterr().err
    assert main(["top", str(folder), "-m", "metric#0"]) == 2  # somebody chose it


def test_a_metric_that_has_no_shares(tmp_path: Path, capsys: Capture) -> None:
    """Of a minimum, nothing is a percentage."""
    cube = r1()
    cube.metrics = [metric for metric in cube.metrics if metric.dtype == "MINDOUBLE"]
    path = cube.write(tmp_path / "least.cubex")
    assert main(["info", str(path)]) == 0
    hottest = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("hottest"))
    assert hottest.endswith(" lo")
    assert "%" not in hottest


def test_one_damage_is_one_place(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "meta.db").write_bytes(b"HPCTOOLKITmeta\x04\x00")
    assert main(["check", str(tmp_path)]) == 3
    assert "1 damaged place\n" in capsys.readouterr().err


@pytest.mark.parametrize(("width", "has_bars"), [(None, True), (120, True), (80, False)])
def test_names_get_the_room_of_bars_on_narrow_terminals(
    width: int | None, has_bars: bool, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setattr(viewing, "stdout_look", lambda: Look(width))
    assert main(["tree", str(DATABASE)]) == 0
    assert ("share" in capsys.readouterr().out.splitlines()[0]) == has_bars


def test_the_folders_of_a_place_are_left_out() -> None:
    assert indent_name("/home/my files/a.c:3", "line", 1) == "  a.c:3"
    assert indent_name("loop at /home/my files/a.c:3", "loop", 0) == "loop at a.c:3"
    assert indent_name("operator/(a, b)", "function", 0) == "operator/(a, b)"


def test_an_indentation_is_kept_when_a_name_is_cut() -> None:
    assert shorten("    application thread", 16) == "    applic…hread"
    assert shorten(" " * 40 + "solve", 45) == " " * 40 + "solve"
    assert shorten(" " * 40 + "solve", 20) == "   (20) solve"
    assert shorten(" " * 40 + "application thread", 20) == "   (20) applic…hread"
    assert shorten(" " * 40 + "(57) application thread", 20) == "        (57) a…hread"


@pytest.mark.parametrize("value", [1.7976931348623157e308, -1.7976931348623157e308, 5e-324])
@pytest.mark.parametrize("unit", ["", "s", "B", "x"])
def test_the_largest_and_smallest_numbers_have_a_text(value: float, unit: str) -> None:
    assert si(value, unit)


def test_help_of_export_says_what_naming_no_metric_means(capsys: Capture) -> None:
    assert main(["export", "--help"]) == 0
    assert "only values of this metric (default: all metrics)" in " ".join(capsys.readouterr().out.split())


def test_convert_never_replaces_its_input(capsys: Capture, tmp_path: Path) -> None:
    target = tmp_path / "run.d"
    write_experiment(example(), writer_of("hpctoolkit-release"), target, WriteOptions())
    before = {path: path.read_bytes() for path in target.rglob("*") if path.is_file()}
    (tmp_path / "link.d").symlink_to(target)
    for source, out in (
        (target, tmp_path / "." / "run.d"),
        (target, target / "inside.d"),
        (target / "profile.db", target),
        (target, tmp_path / "link.d"),
    ):
        assert main(["convert", str(source), str(out), "--to", "hpctoolkit-release", "--force"]) == 2
        assert "which is never modified; name another OUT" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in target.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("words", [["--table", "samples", "-m", "cycles"], ["--table", "contexts", "--scope", "point"]])
def test_choices_of_values_are_refused_for_other_tables(words: list[str], capsys: Capture) -> None:
    assert main(["export", "anything", *words]) == 2
    assert "choose values" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("n", "words", "text"),
    [
        (1, ("row",), "1 row"),
        (0, ("entry",), "0 entries"),
        (1200, ("value is", "values are"), "1,200 values are"),
        (1, ("value is", "values are"), "1 value is"),
        (1, ("series", "series"), "1 series"),
    ],
)
def test_a_number_has_its_noun(n: int, words: tuple[str, ...], text: str) -> None:
    assert count_of(n, *words) == text


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("info",), "PATH is missing; see 'callgrove --help'"),
        (("convert", "run.d"), "needs one input or more and an OUT, found run.d"),
        (("convert", "run.d", "--force"), "needs one input or more and an OUT, found run.d"),
        (("why", "run.d"), "two inputs are compared, before and after, and 1 is named"),
        (("top", "run.d", "--run", "3"), "run.d: there is no run 3; there is 1 run: 0 "),
        (("tree", "run.d", "--depth", "3"), "unknown argument '--depth'; see 'callgrove tree --help'"),
        (("watch", "nowhere"), "nowhere: no such folder"),
        (("watch", "run.d/meta.db"), "run.d/meta.db: is no folder; name the one that the job writes to"),
        (("dump", "run.d", "--section", "nosuch"), "run.d: no section has 'nosuch' in its name; there are header, "),
    ],
)
def test_wrong_calls_are_answered_with_what_to_do(
    arguments: tuple[str, ...], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    copytree(DATABASE, tmp_path / "run.d")
    monkeypatch.chdir(tmp_path)
    assert main(list(arguments)) in (2, 3)
    assert capsys.readouterr().err.startswith(f"callgrove: {said}")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["run.d"]
    assert (tmp_path / "run.d" / "meta.db").is_file()


def test_a_folder_whose_files_may_not_be_read_says_so(capsys: Capture) -> None:
    with TemporaryDirectory() as folder:  # the folders above pytest's are closed to others
        for name in ("a.txt", "b.db"):
            (Path(folder) / name).write_text("some notes")
        (Path(folder) / "b.db").chmod(0)
        Path(folder).chmod(0o755)
        with as_nobody():
            assert main(["info", folder]) == 3
    assert "in this folder: it holds a.txt, b.db; you may not read b.db; see" in capsys.readouterr().err


def test_the_end_of_a_hot_path_is_named_as_in_the_table(tmp_path: Path, capsys: Capture) -> None:
    example().write(tmp_path / "run.d")
    capsys.readouterr()
    assert main(["hot", str(tmp_path / "run.d")]) == 0
    out, err = capsys.readouterr()
    last = out.rstrip().splitlines()[-1].split("  ")
    assert f"no call of {next(word for word in last if word)} has 50%" in err


def test_a_dash_is_stdout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["top", str(DATABASE), "--format", "csv"]) == 0
    expected = capsys.readouterr().out
    assert main(["top", str(DATABASE), "--format", "csv", "-o", "-"]) == 0
    assert capsys.readouterr().out == expected
    assert main(["report", str(DATABASE), "-o", "-"]) == 2
    assert capsys.readouterr().err == "callgrove: -: a page is written to a file; name it like report.html\n"
    assert list(tmp_path.iterdir()) == []


def test_shares_of_predictions_are_percentages(tmp_path: Path, capsys: Capture) -> None:
    """0.1 * p and 0.3 * p: a quarter and three quarters."""
    values = "".join(f"REGION {name}\n" + "".join(f"DATA {k * p:g}\n" for p in (2, 4, 8, 16, 32)) for name, k in PARTS)
    (tmp_path / "scaling.txt").write_text(f"PARAMETER p\nPOINTS 2 4 8 16 32\nMETRIC time\n{values}")
    assert main(["predict", str(tmp_path / "scaling.txt"), "--at", "p=64"]) == 0
    rows = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in rows[2:]] == ["big", "small"]
    assert " 75% " in rows[2]
    assert " 25% " in rows[3]
