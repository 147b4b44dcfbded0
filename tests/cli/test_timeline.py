"""`callgrove timeline` as it is typed: rows, windows, formats, pictures, phases, and what is refused."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from xml.etree import ElementTree

import pytest

from callgrove.cli.main import main
from callgrove.render import Look
from tests.cli.commands import Capture, notes, rows, run, said
from tests.requirements import ROOT


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the demo leaves."""
    from callgrove.cli.verbs.demo import make_inputs

    folder = tmp_path_factory.mktemp("demo")
    make_inputs(folder)
    return folder


@pytest.fixture
def stencil(folder: Path) -> Path:
    return folder / "stencil.d"


@pytest.fixture
def train(folder: Path) -> Path:
    return folder / "train.db"


def test_rows_and_what_is_said_about_them(capsys: Capture, stencil: Path) -> None:
    text = run(capsys, "timeline", stencil)
    head, _, first, *_ = text.splitlines()
    assert head.split() == ["name", "time", "percent", "count", "profiles"]
    assert first.split()[0] == "kernel"
    said_about = notes(capsys, "timeline", stencil, "--by", "rank", "--by", "class")
    assert "8 profiles: compute" in said_about
    assert "communication efficiency" in said_about
    assert "communication efficiency" not in notes(capsys, "timeline", stencil)


def test_data_are_whole_and_exact(capsys: Capture, stencil: Path) -> None:
    found = rows(capsys, "timeline", stencil, "--by", "profile", "--by", "context")
    assert len(found) > 20
    assert set(found[0]) == {"name", "profile", "context", "time_ns", "percent", "count", "profiles"}
    sums: dict[int, int] = {}
    for row in found:
        assert isinstance(row["time_ns"], int)
        sums[row["profile"]] = sums.get(row["profile"], 0) + row["time_ns"]
    assert len(set(sums.values())) == 1
    text = run(capsys, "timeline", stencil, "--by", "profile", "--by", "context", "--format", "csv")
    assert len(list(csv.DictReader(io.StringIO(text)))) == len(found)
    assert run(capsys, "timeline", stencil, "--format", "markdown", "--limit", 2).count("\n") == 6


def test_windows_and_bins(capsys: Capture, stencil: Path) -> None:
    whole = rows(capsys, "timeline", stencil)
    parts = [rows(capsys, "timeline", stencil, "--window", w) for w in (":40%", "40%:")]
    times = [{row["name"]: row["time_ns"] for row in part} for part in (whole, *parts)]
    assert times[0] == {name: sum(part.get(name, 0) for part in times[1:]) for name in times[0]}
    bins = rows(capsys, "timeline", stencil, "--bins", 5, "--by", "class")
    assert len({row["from_ns"] for row in bins}) == 5
    assert sum(row["time_ns"] for row in bins) == sum(times[0].values())
    assert "from" in run(capsys, "timeline", stencil, "--bins", 2).splitlines()[0]


def test_ranks_depths_kinds_and_classes(capsys: Capture, stencil: Path, train: Path, tmp_path: Path) -> None:
    assert {row["rank"] for row in rows(capsys, "timeline", stencil, "--rank", "1-2", "--by", "rank")} == {1, 2}
    assert {row["name"] for row in rows(capsys, "timeline", stencil, "--thread", 0, "--depth", 1)} >= {"main"}
    kinds = rows(capsys, "timeline", train, "--kind", "kernel,copy", "--by", "kind")
    assert {row["kind"] for row in kinds} == {"kernel", "copy", None}
    classes = tmp_path / "classes"
    classes.write_text("kernel io\n")
    found = rows(capsys, "timeline", stencil, "--by", "class", "--classes", classes)
    assert next(row for row in found if row["class"] == "io")["time_ns"] > 0


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--by", "time"), "invalid choice: 'time'"),
        (("--window", "soon"), "is not a window"),
        (("--window", "50%:40%"), "--window 50%:40% is empty"),
        (("--depth", "0"), "is not a number from 1 to 16,777,216"),
        (("--bins", "many"), "is not a number from 1 to 16,777,216"),
        (("--rank", "9"), "no profile has rank 9"),
        (("--kind", "kern"), "there is no kind 'kern'"),
        (("-m", "CPUTIME"), "no line of samples follows CPUTIME (sec); leave out -m"),
        (("-m", "nothing"), "nothing"),
        (("--classes", "/nowhere/x"), "/nowhere/x"),
        (("--svg", "x.gif"), "plots are written as svg, png or pdf"),
        (("--picture", "--format", "json"), "--picture is drawn above a table"),
        (("--phases", "--bins", "3"), "--phases lists patterns, which --bins"),
        (("-o", "x.svg", "--format", "csv"), "-o x.svg draws a picture instead of a table; leave out --format csv"),
        (("-o", "x.svg", "--svg", "y.svg"), "-o x.svg draws a picture instead of a table; leave out --svg"),
        (("--phases", "--by", "rank"), "--phases lists patterns, which --by"),
        (("--phases", "--exclusive"), "--phases lists patterns, which --exclusive"),
        (("--ignore-digits",), "--ignore-digits is about names in --phases"),
        (("--phases", "-o", "x.svg"), "--phases lists patterns and draws nothing"),
    ],
)
def test_what_is_refused(capsys: Capture, stencil: Path, words: tuple[str, ...], why: str) -> None:
    capsys.readouterr()
    assert main(["timeline", str(stencil), *words]) in (1, 2)
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert why in err


def test_parts_of_a_program_have_no_communication_efficiency(capsys: Capture, stencil: Path) -> None:
    """Of `--name 'MPI_*'` no thread computes anything, which says nothing about the program."""
    for words, why in (
        ((), "communication efficiency 82.4%: the largest computation"),
        (("--name", "MPI_*"), "communication efficiency: not known: what was not selected reads as idle"),
        (("--kind", "function"), "communication efficiency: not known: functions of other kinds read as idle"),
    ):
        assert main(["timeline", str(stencil), "--by", "class", *words]) == 0
        assert why in capsys.readouterr().err


def test_inputs_without_traces_are_refused(capsys: Capture, folder: Path, tmp_path: Path) -> None:
    run(capsys, "convert", folder / "stencil.d", tmp_path / "plain.cubex")
    assert "has no traces, only sums" in said(capsys, "timeline", tmp_path / "plain.cubex", code=2)
    assert "holds series" in said(capsys, "timeline", folder / "scaling.txt", code=2)


def test_pictures(capsys: Capture, train: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = run(capsys, "timeline", train, "--picture", "--by", "class")
    picture, table = text.split("\n\n")
    assert picture.splitlines()[0].startswith("rank 0 thread 0        CC")
    assert table.startswith("name")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setattr("callgrove.cli.verbs.timeline.stdout_look", lambda: Look(60, True))
    assert "█" in run(capsys, "timeline", train)
    assert "█" not in run(capsys, "timeline", train, "--format", "csv")


def test_pictures_in_files(capsys: Capture, train: Path, tmp_path: Path) -> None:
    assert run(capsys, "timeline", train, "-o", tmp_path / "a.svg") == ""
    assert run(capsys, "timeline", train, "--svg", tmp_path / "b.svg").startswith("name")
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    ElementTree.parse(tmp_path / "a.svg")
    run(capsys, "timeline", train, "--svg", tmp_path / "c.png", "-o", tmp_path / "c.csv")
    assert (tmp_path / "c.png").read_bytes()[:4] == b"\x89PNG"
    assert (tmp_path / "c.csv").read_text().startswith("name,")
    assert "is an input" in said(capsys, "timeline", train, "--svg", train, code=2)


def test_the_picture_of_the_documentation_is_what_is_drawn(capsys: Capture, train: Path, tmp_path: Path) -> None:
    run(capsys, "timeline", train, "--by", "class", "-o", tmp_path / "a.svg")
    assert (tmp_path / "a.svg").read_text() == (ROOT / "docs" / "images" / "timeline.svg").read_text()


def test_phases(capsys: Capture, stencil: Path) -> None:
    words = ("timeline", stencil, "--phases", "--thread", 0)
    text = run(capsys, *words)
    assert text.splitlines()[0].split()[:4] == ["profile", "phase", "pattern", "count"]
    assert "phases at depth 2; the deepest is 4" in notes(capsys, *words)
    assert {row["pattern"] for row in rows(capsys, *words)} == {"solve -> exchange -> residual"}
    assert run(capsys, *words, "--depth", 1) == ""
    assert "at depth 1; try --depth 2" in notes(capsys, *words, "--depth", 1)
    assert rows(capsys, *words, "--depth", 1) == []
