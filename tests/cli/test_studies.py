"""Verbs on studies: Extra-P's files, and runs that become one."""

from __future__ import annotations

import json
import re
from pathlib import Path
from shutil import copytree

import pytest

from tests.cli.commands import Capture, facts, header, rows, run, said
from tests.formats.extrap.extrap_files import CORPUS
from tests.formats.samples import databases

STUDY = CORPUS / "experiment.extra-p"
TEXT = CORPUS / "text.txt"
DATABASE = next(path for path in databases("release") if path.name == "pth4.d")


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """A folder of two runs at different points."""
    for name in ("app.p4.r1", "app.p8.r1"):
        copytree(DATABASE, tmp_path / "runs" / name)
    return tmp_path / "runs"


def test_info(capsys: Capture) -> None:
    text = run(capsys, "info", STUDY)
    for line in ("parameter   p: 2, 4, 8", "points      6", "models      1 in Default Model", "12 raw values"):
        assert line in text
    said = dict(facts(capsys, TEXT))
    assert (said["series"], said["repetitions"]) == ("6 (3 call paths, 2 metrics)", "3")
    assert [row["name"] for row in rows(capsys, "info", TEXT, "--metrics")] == ["time", "visits"]


def test_export(capsys: Capture) -> None:
    text = run(capsys, "export", STUDY, "--table", "series")
    assert header(text)[:5] == ["callpath", "metric", "p", "n", "repetitions"]
    assert text.count("\n") == 7
    points = rows(capsys, "export", STUDY, "--table", "parameters")
    assert points[:2] == [{"run": 0, "name": "p", "value": 2.0}, {"run": 0, "name": "n", "value": 10.0}]
    assert "is a study" in said(capsys, "export", STUDY, "--table", "contexts", code=2)
    assert "--value and --scaling do not change" in _stderr(
        capsys, "export", STUDY, "--table", "series", "--scaling", "weak"
    )


def _stderr(capsys: Capture, *words: object) -> str:
    from callgrove.cli.main import main

    capsys.readouterr()
    assert main([str(word) for word in words]) == 0
    return capsys.readouterr().err


def test_convert_by_ending_and_back(tmp_path: Path, capsys: Capture) -> None:
    first = rows(capsys, "export", TEXT, "--table", "series")
    path = TEXT
    for name in ("a.talpas", "b.json", "c.jsonl", "d.extra-p", "e.txt"):
        run(capsys, "convert", path, tmp_path / name)
        path = tmp_path / name
    again = rows(capsys, "export", path, "--table", "series")
    assert sorted(map(json.dumps, again)) == sorted(map(json.dumps, first))


def test_check_and_dump(tmp_path: Path, capsys: Capture) -> None:
    for path in sorted(CORPUS.iterdir()):
        assert rows(capsys, "check", path) == []
        assert len(rows(capsys, "dump", path)) > 10
    (tmp_path / "x").write_text("PARAMETER p\nPOINTS 1 2\nREGION f\nDATA 1\n")
    (problem,) = rows(capsys, "check", tmp_path / "x")
    assert problem["severity"] == "missing"


def test_strict(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "x").write_text("PARAMETER p\nPOINTS 1 2\nREGION f\nDATA 1\n")
    assert "1 of 1 series lacks" in _stderr(capsys, "export", tmp_path / "x", "--table", "series")
    assert "--strict refuses" in said(capsys, "export", tmp_path / "x", "--table", "series", "--strict", code=3)


def test_verbs_for_executions_say_so(capsys: Capture) -> None:
    refused = said(capsys, "top", STUDY, code=2)
    assert "holds series over parameters" in refused
    assert "use `callgrove model`" in refused


def test_a_folder_of_runs(runs: Path, capsys: Capture) -> None:
    text = run(capsys, "info", runs)
    assert "runs       2 over p" in text
    first, second = re.findall(r"^ +(callgrove .*)", text, re.MULTILINE)[:2]
    assert (first, second) == (f"callgrove model {runs} -m 'CPUTIME (sec)'", f"callgrove export {runs} --table series")
    assert "a summary shows the events of one; --run chooses one of 2: 0 app.p4.r1 (p=4)" in _stderr(
        capsys, "summary", runs
    )
    weak = rows(capsys, "export", runs, "--table", "series")
    strong = rows(capsys, "export", runs, "--table", "series", "--scaling", "strong")
    assert {row["p"] for row in weak} == {4.0, 8.0}
    assert sum(row["mean"] for row in strong) > sum(row["mean"] for row in weak)
    assert rows(capsys, "export", runs, "--table", "parameters") == [
        {"run": 0, "name": "p", "value": 4.0},
        {"run": 1, "name": "p", "value": 8.0},
    ]
    run(capsys, "top", runs)
    assert rows(capsys, "check", runs, "--from", "runs") == []


def test_points_and_folders_agree(runs: Path, tmp_path: Path, capsys: Capture) -> None:
    points = ("--point", "p=4", runs / "app.p4.r1", "--point", "p=8", runs / "app.p8.r1")
    said_points = run(capsys, "export", *points, "--table", "series")
    assert said_points == run(capsys, "export", runs, "--table", "series")
    run(capsys, "convert", *points, tmp_path / "study.extra-p")
    assert "2 over p" in run(capsys, "info", *points)
    stored = rows(capsys, "export", tmp_path / "study.extra-p", "--table", "series")
    assert len(stored) == said_points.count("\n") - 1


def test_names_that_follow_another_rule(tmp_path: Path, capsys: Capture) -> None:
    for name in ("first", "second"):
        copytree(DATABASE, tmp_path / "runs" / name)
    assert "holds several inputs: first, second" in said(capsys, "info", tmp_path / "runs", code=3)
    (tmp_path / "points.csv").write_text("folder,p\nfirst,1\nsecond,2\n")
    assert "2 over p" in run(capsys, "info", tmp_path / "runs", "--points", tmp_path / "points.csv")
    assert "does not follow" in said(capsys, "info", tmp_path / "runs", "--folder-pattern", "run{n}", code=3)


def test_inclusive_values(runs: Path, capsys: Capture) -> None:
    totals = {
        way: sum(row["mean"] for row in rows(capsys, "export", runs, "--table", "series", "--scaling", "strong", *way))
        for way in ((), ("--inclusive",))
    }
    assert totals[("--inclusive",)] > totals[()]


def test_wrong_usage(runs: Path, capsys: Capture) -> None:
    assert "PATH is missing" in said(capsys, "export", "--table", "series", code=2)
    assert "not both" in said(capsys, "export", runs, "--point", "p=1", runs, "--table", "series", code=2)
    assert "is no point" in said(capsys, "export", "--point", "p", runs, "--table", "series", code=2)
    both = ("--point", "p=1", runs / "app.p4.r1")
    assert "is the input itself" in said(
        capsys, "convert", *both, runs / "app.p4.r1", "--to", "extrap-json", "--force", code=2
    )
    assert "carry no parameters" in said(capsys, "convert", DATABASE, "x.extra-p", code=2)


def test_the_inputs_are_never_modified(runs: Path, tmp_path: Path, capsys: Capture) -> None:
    from tests.formats.contract import fingerprint

    inputs = [runs, *sorted(CORPUS.iterdir())]
    before = [fingerprint(path) for path in inputs]
    for number, path in enumerate(inputs):
        run(capsys, "info", path)
        run(capsys, "export", path, "--table", "series")
        run(capsys, "convert", path, tmp_path / f"{number}.extra-p")
    assert [fingerprint(path) for path in inputs] == before
