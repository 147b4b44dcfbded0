"""--run chooses among the runs of a folder; without it, views say that runs are added up."""

from __future__ import annotations

from pathlib import Path
from shutil import copytree

import pytest

import callgrove
from callgrove.analysis.costs import costs
from callgrove.cli.main import main
from callgrove.errors import UsageError
from callgrove.model.experiment import Experiment
from callgrove.model.profiles import choose_profiles
from tests.cli.commands import Capture, rows, run, said
from tests.formats.samples import databases

FOUND = {path.name: path for path in databases("release")}
ADDED_UP = "2 runs are added up; --run chooses one"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two runs that differ."""
    for point, name in ((4, "pth4.d"), (8, "mpi4.d")):
        copytree(FOUND[name], tmp_path / "runs" / f"app.p{point}.r1")
    return tmp_path / "runs"


def err(capsys: Capture, *words: object) -> str:
    capsys.readouterr()
    assert main([str(word) for word in words]) == 0
    return capsys.readouterr().err


@pytest.mark.parametrize("verb", ["top", "tree", "hot"])
@pytest.mark.parametrize("wanted", ["1", "p=8", "p=8,r=1", "app.p8.r1"])
def test_one_run_is_what_naming_it_gives(verb: str, wanted: str, folder: Path, capsys: Capture) -> None:
    alone = rows(capsys, verb, folder / "app.p8.r1")
    assert rows(capsys, verb, folder, "--run", wanted) == alone
    assert ADDED_UP not in err(capsys, verb, folder, "--run", wanted)
    assert rows(capsys, verb, folder) != alone


@pytest.mark.parametrize(
    "words",
    [("top",), ("top", "--format", "csv"), ("tree",), ("tree", "--bottom-up"), ("hot",)],
)
def test_what_is_added_up_is_said(words: tuple[str, ...], folder: Path, capsys: Capture) -> None:
    verb, *more = words
    assert f"callgrove: note: {ADDED_UP}" in err(capsys, verb, folder, *more)
    assert "added up" not in err(capsys, verb, folder / "app.p4.r1", *more)


def test_a_page_of_runs_that_are_added_up(folder: Path, tmp_path: Path, capsys: Capture) -> None:
    assert ADDED_UP in err(capsys, "report", folder, "-o", tmp_path / "all.html")
    assert "added up" not in err(capsys, "report", folder, "--run", "0", "-o", tmp_path / "one.html")


def test_info_says_it_beside_the_hottest(folder: Path, capsys: Capture) -> None:
    hottest = next(line for line in run(capsys, "info", folder).splitlines() if line.startswith("hottest"))
    assert hottest.endswith(", 2 runs added up")
    assert "added up" not in run(capsys, "info", folder, "--run", "0")


def test_an_unknown_run_lists_those_there_are(folder: Path, capsys: Capture) -> None:
    text = said(capsys, "top", folder, "--run", "p=5", code=2)
    assert text.endswith("there is no run p=5; there are 2 runs: 0 app.p4.r1 (p=4); 1 app.p8.r1 (p=8)")


def test_other_verbs(folder: Path, tmp_path: Path, capsys: Capture) -> None:
    alone = rows(capsys, "export", folder / "app.p4.r1", "--table", "values")
    assert rows(capsys, "export", folder, "--table", "values", "--run", "p=4") == alone
    assert "runs" not in run(capsys, "info", folder, "--run", "0").split()
    run(capsys, "convert", folder, tmp_path / "one.d", "--to", "hpctoolkit-release", "--run", "0")
    written, source = (rows(capsys, "top", path) for path in (tmp_path / "one.d", folder / "app.p4.r1"))
    assert [(row["name"], row["exclusive"]) for row in written] == [(row["name"], row["exclusive"]) for row in source]
    compared = run(capsys, "diff", folder, "--run", "0-1", "--format", "csv")
    assert compared == run(capsys, "diff", folder, "--format", "csv")
    run(capsys, "part", folder, tmp_path / "part.cubex", "--run", "p=4", "--to", "cube")


def test_the_library_chooses_runs_as_well(folder: Path) -> None:
    experiment, alone = callgrove.open(folder), callgrove.open(folder / "app.p8.r1")
    assert isinstance(experiment, Experiment)
    assert isinstance(alone, Experiment)
    for wanted in ("p=8", "1", {1}):
        assert costs(experiment, runs=wanted).total == pytest.approx(costs(alone).total)
        assert set(experiment.profiles.run[choose_profiles(experiment, runs=wanted)].tolist()) == {1}
        one = experiment.select(runs=wanted)
        assert ([run.name for run in one.runs], set(one.profiles.run.tolist())) == (["app.p8.r1"], {0})
    with pytest.raises(UsageError, match="there are 2 runs"):
        experiment.select(runs="p=5")


def test_runs_that_disagree_on_parameters_are_refused_in_one_sentence(tmp_path: Path, capsys: Capture) -> None:
    for name in ("app.p1", "app.q2"):
        copytree(databases("release")[0], tmp_path / "runs" / name)
    for words in (["export", "--table", "series"], ["model"]):
        text = said(capsys, words[0], tmp_path / "runs", *words[1:], code=3)
        assert "app.p1 has the parameters p, but app.q2 has q" in text
