"""merge, mean, cut, part, common and diff as a user calls them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cli.commands import Capture, header, rows, run, said
from tests.formats.samples import CORPUS, databases
from tests.golden import assert_golden
from tests.requirements import SHARED

PTH4 = CORPUS / "hpctoolkit" / "release" / "pth4.d"
MPI4 = CORPUS / "hpctoolkit" / "release" / "mpi4.d"
OLD = CORPUS / "hpctoolkit" / "prerelease" / "mpi4.d"
UNWRITABLE = CORPUS / "hpctoolkit" / "legacy" / "plain20.d"
DATABASES = [*databases("prerelease"), *databases("release")]
every_database = pytest.mark.parametrize("path", DATABASES, ids=lambda p: f"{p.parent.name}/{p.name}")
TO = ("--to", "hpctoolkit-release")
COLUMNS = ["path", "left", "right", "difference", "ratio", "present"]


@pytest.fixture
def demo(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    run(capsys, "demo", "--keep", tmp_path)
    return tmp_path / "stencil.d"


def total(capsys: Capture, path: object) -> float:
    return float(sum(row["exclusive"] for row in rows(capsys, "top", path, "--limit", "all")))


def is_sound(capsys: Capture, path: object) -> bool:
    """Means have no traces, which `check` remarks; damage would be exit code 3."""
    return {row["severity"] for row in rows(capsys, "check", path)} <= {"missing"}


# -- experiments -----------------------------------------------------------------------------------------------------

WORDS: list[tuple[str, list[str], float]] = [
    ("merge", [], 1),
    ("mean", [], 1),
    ("mean", ["--missing", "skip"], 1),
    ("merge", ["--conflict", "sum"], 2),
    ("merge", ["--conflict", "last"], 1),
    ("merge", ["--system", "side-by-side"], 2),
    ("merge", ["--system", "collapse"], 2),
    ("common", [], 2),
]


@pytest.mark.parametrize(
    ("verb", "options", "factor"), WORDS, ids=lambda x: " ".join(x) if isinstance(x, list) else None
)
@every_database
def test_with_itself(path: Path, verb: str, options: list[str], factor: float, tmp_path: Path, capsys: Capture) -> None:
    target = tmp_path / "out.d"
    assert run(capsys, verb, path, path, target, *TO, *options) == ""
    assert is_sound(capsys, target)
    assert total(capsys, target) == pytest.approx(factor * total(capsys, path), rel=1e-9)


def test_cut(demo: Path, capsys: Capture) -> None:
    run(capsys, "cut", demo, "solve.d", "--root", "main->solve")
    assert rows(capsys, "tree", "solve.d")[1]["name"] == "solve"
    whole = {row["name"]: row for row in rows(capsys, "top", demo, "--limit", "all")}
    assert total(capsys, "solve.d") == pytest.approx(whole["solve"]["inclusive"])
    run(capsys, "cut", demo, "short.d", "--prune", "kernel", "--prune", "/^MPI_/")
    assert is_sound(capsys, "short.d")
    assert total(capsys, "short.d") == pytest.approx(total(capsys, demo))
    names = {row["name"] for row in rows(capsys, "tree", "short.d", "--limit", "all")}
    assert "kernel" not in names
    assert not any(name.startswith("MPI_") for name in names)


def test_parts_and_their_merge(demo: Path, capsys: Capture) -> None:
    run(capsys, "part", demo, "low.d", "--rank", "0-1")
    run(capsys, "part", demo, "high.d", "--rank", "2-")
    run(capsys, "part", demo, "same.d", "--rank", "0-1", "--invert")
    assert run(capsys, "diff", "high.d", "same.d", "--format", "csv", "--limit", "all").count(",both") > 5
    run(capsys, "merge", "low.d", "high.d", "whole.d")
    assert all(row["difference"] == 0 for row in rows(capsys, "diff", demo, "whole.d", "--limit", "all"))
    assert run(capsys, "export", "whole.d", "--table", "samples") == run(capsys, "export", demo, "--table", "samples")


REPORT = """{"data": [[%s, 0]], "columns": ["sum#time", "path"], "nodes": [{"label": "main", "column": "path"}],
"column_metadata": [{"is_value": true}, {"is_value": false}], "mpi.world.size": %d}"""


def test_files_that_open_as_one_are_matched_where_that_is_asked(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two reports of Caliper, with 2 and with 3.5 of a cost."""
    monkeypatch.chdir(tmp_path)
    for name, cost, n_processes in (("few.json", 2, 4), ("many.json", 3.5, 8)):
        (tmp_path / name).write_text(REPORT % (cost, n_processes))
    for words, n_profiles in (([], 2), (["--system", "collapse"], 1)):
        run(capsys, "merge", "few.json", "many.json", "out.cgrove", "--force", *words)
        assert total(capsys, "out.cgrove") == 2 + 3.5
        assert len(rows(capsys, "export", "out.cgrove", "--table", "profiles")) == n_profiles


def test_losses_are_said(demo: Path, capsys: Capture) -> None:
    from callgrove.cli.main import main

    assert main(["mean", str(demo), str(demo), "mean.d"]) == 0
    said_ = capsys.readouterr().err
    assert "callgrove: lost: traces of" in said_
    assert "callgrove: lost: attributes: operation, inputs" in said_


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (["merge", MPI4, "out.d", *TO], 2, "needs 2 inputs or more and an OUT"),
        (["cut", MPI4, PTH4, "out.d", *TO, "--root", "main"], 2, "needs one input and an OUT"),
        (["part", MPI4, "out.d", *TO], 2, "nothing is selected; choose with --rank, --thread or --run"),
        (["part", MPI4, "out.d", *TO, "--run", "0", "--invert"], 2, "every profile is of run 0, so nothing is left"),
        (["part", MPI4, "out.d", *TO, "--rank", "9"], 2, "no profile has rank 9 (there are 0 to 3)"),
        (["part", MPI4, "out.d", *TO, "--rank", "0-", "--invert"], 2, "every profile has rank 0- (there are 0 to 3)"),
        (["cut", MPI4, "out.d", *TO], 2, "nothing to cut: name contexts as roots"),
        (["cut", MPI4, "out.d", *TO, "--root", "sovle"], 2, "there is no context 'sovle'; did you mean 'solve'"),
        (["merge", MPI4, PTH4, "out.xyz", "--to", "hpctoolkit-relase"], 2, "did you mean hpctoolkit-release"),
        (["merge", UNWRITABLE, UNWRITABLE, "out.xyz"], 2, "choose one with --to"),
        (["merge", MPI4, PTH4, MPI4], 2, "is the input itself or a part of it"),
        (["mean", MPI4, "nowhere.d", "out.d", *TO], 3, "nowhere.d"),
        (["merge", MPI4, MPI4, "out.d", *TO, "--ignore", "colour"], 2, "'colour' cannot be ignored; choose from file"),
        (["merge", MPI4, MPI4, "out.d", *TO, "--dialect", "old"], 2, "has no dialects"),
        (["diff", MPI4], 2, "holds one run; name another input"),
        (["diff", MPI4, MPI4, "-m", "cylces"], 2, "there is no metric 'cylces'"),
        (["diff", MPI4, MPI4, MPI4, "--write", "out.d"], 2, "of two inputs, and 3 were given"),
        (
            ["merge", MPI4, MPI4.with_name("mpi4.foreign.d"), "out.d", *TO],
            2,
            "has none; --conflict first, last or sum decides, --system side-by-side keeps both runs",
        ),
    ],
    ids=lambda x: " ".join(str(getattr(w, "name", w)) for w in x) if isinstance(x, list) else "",
)
def test_wrong_usage(
    words: list[object], code: int, sentence: str, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert re.search(re.escape(sentence), said(capsys, *words, code=code))
    assert list(tmp_path.iterdir()) == []


def test_a_target_is_replaced_only_if_asked(demo: Path, capsys: Capture) -> None:
    run(capsys, "part", demo, "one.d", "--rank", "0")
    before = Path("one.d/profile.db").read_bytes()
    assert "one.d" in said(capsys, "part", demo, "one.d", "--rank", "1", code=2)
    assert Path("one.d/profile.db").read_bytes() == before
    run(capsys, "part", demo, "one.d", "--rank", "1", "--force")
    assert {row["rank"] for row in rows(capsys, "export", "one.d", "--table", "profiles")} == {None, 1}


def test_damaged_inputs(demo: Path, capsys: Capture) -> None:
    """What is intact is taken; --strict refuses."""
    (demo / "trace.db").write_bytes((demo / "trace.db").read_bytes()[:100])
    run(capsys, "part", demo, "one.d", "--rank", "0")
    assert total(capsys, "one.d") > 0
    capsys.readouterr()
    run(capsys, "merge", demo, demo, "strict.d", "--strict", code=3)
    assert not Path("strict.d").exists()


# -- the table of differences ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("format_", ["table", "csv", "json", "markdown"])
@every_database
def test_diff_with_itself(path: Path, format_: str, capsys: Capture) -> None:
    out = run(capsys, "diff", path, path, "--format", format_, "--limit", "all")
    if format_ == "csv":
        assert header(out) == COLUMNS
    if format_ == "json":
        found = rows(capsys, "diff", path, path, "--limit", "all")
        assert found
        assert all(row["difference"] == 0 and row["ratio"] == 1 and row["present"] == "both" for row in found)


def test_diff_across_formats(capsys: Capture) -> None:
    for scope in ("exclusive", "inclusive"):
        found = rows(capsys, "diff", OLD, MPI4, "--scope", scope, "--limit", "all")
        assert found
        assert all(row["difference"] == 0 for row in found)


def test_diff_of_ranks_and_of_several(demo: Path, capsys: Capture) -> None:
    run(capsys, "part", demo, "r0.d", "--rank", "0")
    found = rows(capsys, "diff", demo, "r0.d", "--rank", "0", "--limit", "all")
    assert all(row["difference"] == 0 for row in found)
    out = run(capsys, "diff", demo, "r0.d", demo, "--format", "csv")
    assert header(out) == [*COLUMNS, "input"]


def test_diff_says_the_totals(demo: Path, capsys: Capture) -> None:
    from callgrove.cli.main import main

    run(capsys, "part", demo, "r0.d", "--rank", "0")
    assert main(["diff", "r0.d", "stencil.d", "--limit", "1"]) == 0
    error = capsys.readouterr().err
    assert re.search(r"CPUTIME \(sec\): [\d.]+ s in r0.d, [\d.]+ s in stencil.d: difference -[\d.]+ s\n", error)
    assert re.search(
        r"stencil.d has \d+% more CPUTIME \(sec\) in all, with 4 processes instead of 1: \d+% of it in", error
    )


def test_diff_writes_an_experiment(demo: Path, capsys: Capture) -> None:
    run(capsys, "part", demo, "r0.d", "--rank", "0")
    assert run(capsys, "diff", demo, "r0.d", "--write", "d.d") == ""
    run(capsys, "part", demo, "rest.d", "--rank", "1-")
    assert all(row["difference"] == 0 for row in rows(capsys, "diff", "d.d", "rest.d", "--limit", "all"))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("diff", ["diff", "mpi4.d", "mpi4.foreign.d"]),
        ("diff-inclusive", ["diff", "mpi4.d", "mpi4.d", "--scope", "inclusive", "--format", "markdown"]),
        ("diff-source", ["diff", "pth4.d", "pth4.d", "--source", "--format", "csv"]),
    ],
)
def test_golden(name: str, words: list[str], capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(MPI4.parent)
    assert_golden(f"cli/release/{name}.txt", run(capsys, *words))


# -- Cube --------------------------------------------------------------------------------------------------------------


def cubes() -> list[Path]:
    return sorted((SHARED / "data" / "own" / "cube").glob("*/profile.cubex"))


def test_cube_files(shared: Path, tmp_path: Path, capsys: Capture) -> None:
    """Every verb on files of Score-P; that these are read as the reference tools do is for the format's own tests."""
    for path in cubes():
        found = rows(capsys, "diff", path, path, "--limit", "all")
        assert all(row["difference"] == 0 for row in found)
    path = shared / "data" / "own" / "cube" / "mpi4" / "profile.cubex"
    time = ("-m", "time", "--limit", "all")
    for name in ("mean.cubex", "merge.cubex"):
        run(capsys, name.removesuffix(".cubex"), path, path, tmp_path / name)
        assert all(row["difference"] == 0 for row in rows(capsys, "diff", path, tmp_path / name, *time))
    run(capsys, "part", path, tmp_path / "low.cubex", "--rank", "0-1")
    run(capsys, "part", path, tmp_path / "high.cubex", "--rank", "2-")
    run(capsys, "merge", tmp_path / "low.cubex", tmp_path / "high.cubex", tmp_path / "whole.cubex")
    assert all(row["difference"] == 0 for row in rows(capsys, "diff", path, tmp_path / "whole.cubex", *time))
