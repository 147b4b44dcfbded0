"""`callgrove diff` as a user calls it: sentences, scaling, studies, and what is written shown by every verb."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from callgrove.cli.main import main
from callgrove.formats.writing.transfer import write
from tests.analysis.programs import S, T, program, renamed
from tests.cli.commands import Capture, notes, rows, run, said

SLOW = {"kernel": 1.3, "MPI_Allreduce": 0.5}
DIFFERENCES = {"kernel": -34.8, "MPI_Allreduce": 20.0}
TARGETS = {"d.cubex": "cube", "r.d": "hpctoolkit-release", "p.d": "hpctoolkit-prerelease", "d.cgrove": "callgrove"}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with T, a slower T, and the same program on two ranks."""
    monkeypatch.chdir(tmp_path)
    for name, rows_, factors in (("t", T, {}), ("slow", T, SLOW), ("s", S, {})):
        write(program(rows_, name, factors), tmp_path / f"{name}.cubex")
    return tmp_path


# -- tables and sentences ----------------------------------------------------------------------------------------------


def test_sentences_are_said_beside_data(here: Path, capsys: Capture) -> None:
    for format_ in ("json", "csv", "markdown", "table"):
        told = notes(capsys, "diff", "t.cubex", "slow.cubex", "--format", format_)
        assert "slow.cubex is 6.6% slower: main/solve/kernel 30 s more, solve/MPI_Allreduce 16 s less, " in told
    out = run(capsys, "diff", "t.cubex", "slow.cubex", "--format", "json")
    assert json.loads(out)[0]["difference"] == -30


def test_what_one_side_has_alone_stands_apart(here: Path, capsys: Capture) -> None:
    write(program([row for row in T if row[1] != "exp"], "other"), here / "other.cubex")
    blocks = run(capsys, "diff", "t.cubex", "other.cubex", "--limit", "2").split("\n\n")
    assert [block.split("\n")[0].split() for block in blocks] == [
        ["left", "right", "difference", "ratio", "present", "path"],
        ["left", "present", "path"],
    ]
    assert "… and 9 more" in blocks[0]
    assert "20 s" in blocks[1]
    assert "only in t.cubex: 1 call path with 20 s" in notes(capsys, "diff", "t.cubex", "other.cubex")
    alone = rows(capsys, "diff", "t.cubex", "other.cubex", "--only", "left")
    assert [row["path"] for row in alone] == ["main->solve->kernel->exp"]
    empty = run(capsys, "diff", "t.cubex", "other.cubex", "--only", "right")
    assert empty.split()[:3] == ["right", "present", "path"]


def test_scaling(here: Path, capsys: Capture) -> None:
    pair = ("diff", "s.cubex", "t.cubex", "--scope", "inclusive")
    hint = (
        "processes (ranks): 2 in s.cubex, 4 in t.cubex; --scaling weak or strong shows losses, speed-up and efficiency"
    )
    assert hint in notes(capsys, *pair)
    words = (*pair, "--scaling", "strong", "--sort", "loss")
    assert "processes (ranks): 2 in s.cubex, 4 in t.cubex\n" in notes(capsys, *words)
    assert re.search(r"22\.3% +1\.55 +0\.777 +both +main\n", run(capsys, *words))
    assert "processes: 1 in s.cubex, 8 in t.cubex" in notes(capsys, *words, "--processes", "1,8")
    assert rows(capsys, *words)[0]["loss"] == pytest.approx(100 * 50 / 224)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--sort", "loss"], "sorting by them needs --scaling strong"),
        (["--processes", "2,4"], "are used by scaling alone; say which: --scaling"),
        (["--scaling", "weak", "--processes", "2"], "1 numbers of processes were given for 2 inputs"),
        (["--scaling", "weak", "--processes", "2,x"], "'2,x' is not a list of numbers of processes like 4,8"),
        (["--match", "none.csv"], "none.csv: cannot be read"),
        (["--match", "empty.csv"], "empty.csv: says of no names that they are the same; write two names on each line"),
        (["--write", "x.cubex", "--scaling", "weak"], "--scaling is for tables, and --write writes an experiment"),
        (["--write", "x.cubex", "--match", "f"], "--match is for tables"),
        (["--write", "x.cubex", "--where", "left > 1"], "--where is for tables"),
        (["--write", "x.cubex", "--limit", "3"], "--limit is for tables"),
        (["--write", "x.cubex", "--scope", "inclusive"], "--scope is for tables"),
        (["--write", "x.cubex", "-o", "x.csv"], "-o is for tables"),
        (["--force"], "--force is for experiments that --write writes"),
    ],
)
def test_what_is_refused(here: Path, words: list[str], says: str, capsys: Capture) -> None:
    (here / "empty.csv").write_text("left,right\n# nothing yet\n")
    assert says in said(capsys, "diff", "s.cubex", "t.cubex", *words, code=2)


def test_inputs_without_a_common_path(here: Path, capsys: Capture) -> None:
    write(program([(0, "start", (0,) * 4), *((d + 1, name, cost) for d, name, cost in T)], "x"), here / "x.cubex")
    told = said(capsys, "diff", "t.cubex", "x.cubex", code=2)
    assert told == (
        "t.cubex and x.cubex have no call paths in common: the first one of the left is main, of the right start; "
        "--flat compares functions, whoever called them"
    )
    assert run(capsys, "diff", "t.cubex", "x.cubex", "--flat")
    assert "t.cubex and x.cubex have no call paths in common" in notes(capsys, "diff", "t.cubex", "s.cubex", "x.cubex")


def test_names_from_a_file(here: Path, capsys: Capture) -> None:
    write(program(renamed(T, {"kernel": "stencil"}), "x"), here / "x.cubex")
    (here / "names.csv").write_text("kernel,stencil\nkernl,none\n")
    words = ("diff", "t.cubex", "x.cubex", "--match", "names.csv")
    assert {row["present"] for row in rows(capsys, *words)} == {"both"}
    assert "--match: kernl, none is in no input that it is given for" in notes(capsys, *words)


def test_where_knows_the_unit_of_costs(here: Path, capsys: Capture) -> None:
    kept = rows(capsys, "diff", "t.cubex", "slow.cubex", "--where", "left > 99s and difference < 0ms")
    assert [row["path"] for row in kept] == ["main->solve->kernel"]


def test_how_much_of_each_side_is_selected_is_said(here: Path, capsys: Capture) -> None:
    told = notes(capsys, "diff", "t.cubex", "slow.cubex", "--name", "MPI_*")
    assert "t.cubex: selected 48 s of 224 s (21.4%)" in told
    assert "slow.cubex: selected 28 s of 239 s (11.7%)" in told


# -- what --write writes -----------------------------------------------------------------------------------------------


def test_ranks_and_the_metric_choose_what_is_written(here: Path, capsys: Capture) -> None:
    run(capsys, "diff", "t.cubex", "slow.cubex", "--write", "some.cubex", "--rank", "1", "-m", "time")
    shown = rows(capsys, "diff", "t.cubex", "slow.cubex", "--rank", "1", "-m", "time")
    written = rows(capsys, "top", "some.cubex", "-m", "time", "--limit", "all")
    total = sum(row["difference"] or 0 for row in shown)
    assert total
    assert sum(row["exclusive"] for row in written) == pytest.approx(total)
    assert "no profile has rank 77" in said(
        capsys, "diff", "t.cubex", "slow.cubex", "--write", "other.cubex", "--rank", "77", code=2
    )


@pytest.mark.parametrize(("target", "format_"), TARGETS.items())
def test_every_verb_shows_written_differences(here: Path, target: str, format_: str, capsys: Capture) -> None:
    """14.8 s less in all: 34.8 s in kernel, and 20 s more in MPI_Allreduce. Percent is of 54.8 s, the sizes of both."""
    run(capsys, "diff", "t.cubex", "slow.cubex", "--write", target, "--to", format_)
    flat = {row["name"]: row for row in rows(capsys, "top", target, "--limit", "all") if row["exclusive"]}
    assert {name: row["exclusive"] for name, row in flat.items()} == pytest.approx(DIFFERENCES)
    assert flat["kernel"]["percent"] == pytest.approx(-100 * 34.8 / 54.8)
    assert list(flat) == ["kernel", "MPI_Allreduce"]
    tree = rows(capsys, "tree", target, "--limit", "all")
    assert (tree[0]["inclusive"], tree[0]["percent"]) == pytest.approx((-14.8, -100 * 14.8 / 54.8))
    assert sum(row["exclusive"] for row in tree) == pytest.approx(-14.8)
    callers = rows(capsys, "tree", target, "--bottom-up", "--limit", "all")
    assert [row["name"] for row in callers if row["depth"] == 0] == ["kernel", "MPI_Allreduce"]
    assert [row["name"] for row in rows(capsys, "hot", target)][-3:] == ["main", "solve", "kernel"]
    values = rows(capsys, "export", target, "--table", "values", "--scope", "exclusive")
    measured = {
        row["profile"] for row in rows(capsys, "export", target, "--table", "profiles") if row["kind"] != "summary"
    }
    assert sum(row["value"] for row in values if row["profile"] in measured) == pytest.approx(-14.8)
    assert "kernel: -34.8" in run(capsys, "info", target)
    run(capsys, "report", target, "-o", "page.html")
    assert "-34.8" in Path("page.html").read_text("utf-8")
    assert all(row["difference"] == 0 for row in rows(capsys, "diff", target, target))
    if format_ == "cube":  # HPCToolkit's databases have no units, and `pop` finds no time in them
        assert "below zero, as in an experiment of differences, which has no efficiencies" in notes(
            capsys, "pop", target
        )


def test_formats_without_profiles_refuse_differences(here: Path, capsys: Capture) -> None:
    for format_ in ("perfetto", "chrome-json", "otf2", "rocpd", "rocpd-draft", "extrap-text"):
        assert main(["diff", "t.cubex", "slow.cubex", "--write", "out", "--to", format_]) != 0
        assert not Path("out").exists()
        assert "out: " in capsys.readouterr().err


# -- studies -----------------------------------------------------------------------------------------------------------


def text_study(name: str, points: list[int], **costs: list[float]) -> str:
    lines = ["PARAMETER p", "POINTS " + " ".join(map(str, points)), "METRIC time"]
    for region, values in costs.items():
        lines += [f"REGION {region}", *(f"DATA {value}" for value in values)]
    Path(name).write_text("\n".join(lines) + "\n")
    return name


def test_studies(here: Path, capsys: Capture) -> None:
    one = text_study("one.txt", [1, 2, 4], main=[1, 2, 4], solve=[5, 5, 5])
    two = text_study("two.txt", [2, 4, 8], main=[2, 5, 9])
    found = rows(capsys, "diff", one, two)
    assert [(row["path"], row["p"], row["present"]) for row in found[:1]] == [("main", 4, "both")]
    told = notes(capsys, "diff", one, two)
    assert "2 points are compared; only in one.txt: p=1" in told
    assert "2 values, 1 larger in two.txt" in told
    table = run(capsys, "diff", one, two, "--only", "both")
    assert table.split("\n")[0].split() == ["metric", "p", "left", "right", "difference", "ratio", "present", "path"]
    assert "--flat is not for series" in said(capsys, "diff", one, two, "--flat", code=2)
    assert "compare it with another study" in said(capsys, "diff", one, "t.cubex", code=2)
    assert "compare it with another study" in said(capsys, "diff", one, code=2)
    assert "are shown, and not written" in said(capsys, "diff", one, two, "--write", "x.cubex", code=2)


def test_folders_of_runs(here: Path, capsys: Capture) -> None:
    """At a point, the comparison of folders is that of the two runs there."""
    for side, factors in (("old", {}), ("new", SLOW)):
        (here / side).mkdir()
        for ranks, rows_ in ((2, S), (4, T)):
            write(program(rows_, "app", factors), here / side / f"app.p{ranks}.r1.cubex")
    together = rows(capsys, "diff", "old", "new", "-m", "time", "--limit", "all")
    alone = rows(capsys, "diff", "old/app.p4.r1.cubex", "new/app.p4.r1.cubex", "-m", "time", "--limit", "all")
    at_four = {row["path"]: (row["left"], row["right"]) for row in together if row["p"] == 4}
    assert at_four == {row["path"]: (row["left"], row["right"]) for row in alone}
    assert run(capsys, "diff", "old", "new").startswith("A value of a run is the sum over everything in it")
    one = rows(capsys, "diff", "old", "new", "--run", "p=4", "-m", "time", "--limit", "all")
    assert one == alone
    scaled = rows(capsys, "diff", "old", "--scope", "inclusive", "--scaling", "strong")
    assert scaled[0]["loss"] == pytest.approx(100 * 50 / 224)
    assert main(["diff", "old", "t.cubex", "--scaling", "weak"]) == 2
    assert "old: 2 runs are added up, and scaling is of one; choose it (--run)" in capsys.readouterr().err
