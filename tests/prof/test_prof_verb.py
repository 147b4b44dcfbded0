"""`callgrove prof`: what it says about bad input, and what its options do."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from callgrove.cli.main import main
from callgrove.cli.parser import Parser
from callgrove.cli.verbs.prof import add_arguments
from callgrove.formats.hpcrun.files import measurement_bytes, read_measurement
from callgrove.formats.hpcrun.hpctrace import write_trace
from callgrove.model.metrics import Scope
from tests.cli.commands import Capture, rows, run, said
from tests.formats.hpcrun.hpcrun_bytes import HEADER, File04
from tests.prof.making import STRUCTURE, measured, opened
from tests.requirements import ROOT

CORPUS = ROOT / "tests" / "corpus" / "hpcrun"
PTH4 = CORPUS / "04.00" / "pth4.m"


def messages(capsys: Capture, *words: object, code: int = 0) -> str:
    capsys.readouterr()
    assert main([str(word) for word in words]) == code
    out, err = capsys.readouterr()
    assert out == ""
    return err


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(PTH4, tmp_path / "pth4.m"))


def test_a_truncated_file_among_good_ones(folder: Path, tmp_path: Path, capsys: Capture) -> None:
    victim = sorted(folder.glob("*.hpcrun"))[2]
    victim.write_bytes(victim.read_bytes()[:-200])
    err = messages(capsys, "prof", folder, tmp_path / "made.d", "-j", "1")
    assert err.startswith(f"callgrove: skipped: {victim}: footer")
    assert "skipped: 1 of 5 measurement files in all" in err
    assert len(opened(tmp_path / "made.d").profiles.measured) == 4
    err = messages(capsys, "prof", folder, tmp_path / "strict.d", "-j", "1", "--strict", code=4)
    assert "strict.d: was written without what is damaged" in err
    assert (tmp_path / "strict.d" / "meta.db").is_file()


def test_folders_without_measurements(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "empty.m").mkdir()
    target = tmp_path / "made.d"
    assert "no measurements" in said(capsys, "prof", tmp_path / "empty.m", target, code=3)
    assert "no such file or folder" in said(capsys, "prof", tmp_path / "none", target, code=3)
    (tmp_path / "empty.m" / "a-0-0-0-0-0.hpcrun").write_bytes(b"no profile")
    assert "no measurement file can be read" in said(capsys, "prof", tmp_path / "empty.m", target, code=3)
    both = said(capsys, "prof", PTH4, tmp_path / "empty.m", target, code=3)
    assert both.startswith(f"{tmp_path / 'empty.m'}: none of its measurement files can be read")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["empty.m"]


def test_what_is_there_is_kept(folder: Path, tmp_path: Path, capsys: Capture) -> None:
    target = tmp_path / "made.d"
    run(capsys, "prof", folder, target, "-j", "1")
    assert "exists already" in said(capsys, "prof", folder, target, "-j", "1", code=2)
    run(capsys, "prof", folder, target, "-j", "1", "--force", "--title", "again")
    assert opened(target).title == "again"
    assert "is the input itself" in said(capsys, "prof", folder, folder, "--force", code=2)


def test_programs(tmp_path: Path, capsys: Capture) -> None:
    folder, target = tmp_path / "two.m", tmp_path / "made.d"
    for rank, name in enumerate(("driver", "worker")):
        header = (*(pair for pair in HEADER if pair[0] != "program-name"), ("program-name", name))
        measured(folder, File04(header=(*header, ("program-path", f"/bin/{name}"))), rank)
    err = messages(capsys, "prof", folder, target, "-j", "1")
    assert "note: measurements of 2 programs are put together: driver, worker" in err
    err = messages(capsys, "prof", folder, target, "-j", "1", "--force", "--only-exe", "worker")
    assert "measurements of other programs are left out: 1, of driver" in err
    assert opened(target).title == "worker"
    err = messages(capsys, "prof", folder, target, "-j", "1", "--force", "--only-exe", "worker", "--only-exe", "driver")
    assert "left out" not in err
    err = messages(capsys, "prof", folder, target, "--force", "--only-exe", "a", "--only-exe", "b", code=3)
    assert "no measurement of the program 'a' or 'b'; there are measurements of driver, worker" in err
    assert "no measurement of the program 'none'; there are measurements of driver, worker" in said(
        capsys, "prof", folder, tmp_path / "x", "--only-exe", "none", "-j", "1", code=3
    )


def test_single_files_and_the_default_name(
    folder: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = sorted(folder.glob("*.hpcrun"))[1]
    run(capsys, "prof", file, tmp_path / "one.d", "-j", "1")
    assert len(opened(tmp_path / "one.d").profiles.measured) == 1
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    err = messages(capsys, "prof", folder, "-j", "1", "--no-traces")
    assert "note: the database is pth4.m-database" in err
    made = opened(tmp_path / "here" / "pth4.m-database")
    assert (len(made.profiles.measured), made.traces.n_samples) == (5, 0)
    assert not (tmp_path / "here" / "pth4.m-database" / "trace.db").exists()


@pytest.mark.parametrize("to", ["hpctoolkit-prerelease", "cube"])
def test_other_targets(to: str, folder: Path, tmp_path: Path, capsys: Capture) -> None:
    target = tmp_path / ("made.cubex" if to == "cube" else "made.d")
    run(capsys, "prof", folder, target, "--to", to, "-j", "1")
    metric = json.loads(run(capsys, "export", target, "--table", "metrics", "--format", "jsonl").splitlines()[0])[
        "name"
    ]
    total = sum(row["exclusive"] for row in rows(capsys, "top", target, "-m", metric, "--limit", "all"))
    released = tmp_path / "released.d"
    run(capsys, "prof", folder, released, "-j", "1")
    wanted = sum(row["exclusive"] for row in rows(capsys, "top", released, "--limit", "all"))
    assert total == pytest.approx(wanted)
    assert wanted > 0


@pytest.mark.parametrize("vintage", ["2016.12", "2018.09"])
def test_old_measurements(vintage: str, tmp_path: Path, capsys: Capture) -> None:
    """The cost in the database is what the files hold."""
    source, target = CORPUS / vintage / "pth4.m", tmp_path / "made.d"
    run(capsys, "prof", source, target, "-j", "1")
    made = rows(capsys, "tree", target, "--limit", "all")
    stored = rows(capsys, "top", source, "--limit", "all", "--by", "context")
    assert sum(r["inclusive"] for r in made if r["depth"] == 0) == pytest.approx(sum(r["exclusive"] for r in stored))
    assert {r["name"] for r in made if r["depth"] == 0} <= {"main thread", "application thread", "unknown entry"}
    assert run(capsys, "check", target) == ""


@pytest.mark.parametrize("n_others", [0, 4])
def test_old_files_without_epochs(n_others: int, tmp_path: Path, capsys: Capture) -> None:
    """They have nothing but a header; traces beside them are on nodes that they do not have."""
    files = sorted((CORPUS / "2018.09" / "pth4.m").glob("*.hpcrun"))
    bare = tmp_path / "m" / files[0].name
    bare.parent.mkdir()
    bare.write_bytes(measurement_bytes(replace(read_measurement(files[0]), epochs=())))
    write_trace(bare.with_suffix(".hpctrace"), 0, [1, 2, 3], [1, 2, 3])
    for file in files[1 : 1 + n_others]:
        shutil.copy(file, bare.parent)
    err = messages(capsys, "prof", bare.parent, tmp_path / "made.d", "-j", "1")
    assert "left out: 3 samples of traces" in err
    made = opened(tmp_path / "made.d")
    assert len(made.profiles.measured) == 1 + n_others
    assert (len(made.contexts) > 0) == (n_others > 0)
    assert main(["check", str(tmp_path / "made.d")]) == 0


def test_wrong_options(folder: Path, tmp_path: Path, capsys: Capture) -> None:
    target = tmp_path / "made.d"
    assert "no such structure file" in said(capsys, "prof", folder, target, "-S", tmp_path / "no", code=3)
    assert "a folder, not a structure file" in said(capsys, "prof", folder, target, "-S", tmp_path, code=3)
    assert "FROM=TO" in said(capsys, "prof", folder, target, "-R", "x", code=2)
    assert "can be read, but not written" in said(capsys, "prof", folder, target, "--to", "hpcstruct", code=2)
    assert [p.name for p in tmp_path.iterdir()] == ["pth4.m"]


def test_statistics(tmp_path: Path, capsys: Capture) -> None:
    """Of three ranks with 1, 2 and 6 seconds."""
    for rank, seconds in enumerate((1.0, 2.0, 6.0)):
        measured(tmp_path / "m", File04(values=((21, ((0, seconds),)),)), rank)
    run(capsys, "prof", tmp_path / "m", tmp_path / "made.d", "-M", "normal,extrema", "-j", "1")
    made = opened(tmp_path / "made.d")
    [summary] = made.profiles.summaries.tolist()
    block = made.values.profile(summary)
    row = int(np.flatnonzero(made.contexts.column("offset") == 0x30)[0])
    found = {
        made.metrics[m].statistic or "sum": value
        for c, m, value in zip(block.context.tolist(), block.metric.tolist(), block.value.tolist(), strict=True)
        if c == row and made.metrics[m].scope == Scope.INCLUSIVE
    }
    assert found == {"count": 3, "sum": 9, "sum of squares": 1 + 4 + 36, "min": 1, "max": 6}
    words = {column.statistic for column in made.metrics.columns}
    assert words == {"Sum", "Mean", "StdDev", "CfVar", "Min", "Max"}
    run(capsys, "prof", tmp_path / "m", tmp_path / "none.d", "-M", "none", "-j", "1")
    assert "visible by default: false" in (tmp_path / "none.d" / "metrics" / "default.yaml").read_text()
    assert "is none of none, sum" in said(capsys, "prof", tmp_path / "m", tmp_path / "x", "-M", "most", code=2)


def names_in(target: Path) -> list[str]:
    made = opened(target)
    return [made.contexts.name(context) for context in range(made.contexts.n_listed)]


@pytest.fixture
def moved(tmp_path: Path) -> Path:
    """A measurement of a program that lay elsewhere, with its source; what it called is not known."""
    measured(
        tmp_path / "m", File04(modules=((1, "/build/17/bin/app"), (2, "/lib/libc.so")), values=((21, ((0, 1.0),)),))
    )
    source = tmp_path / "here" / "src" / "app.c"
    source.parent.mkdir(parents=True)
    source.write_text("int main() { return 0; }\n")
    return tmp_path / "m"


def described(path: Path, module: str, source: str) -> Path:
    """A structure file whose function covers everything."""
    text = STRUCTURE.format(
        modules=f"""<LM i="2" n="{module}" has-calls="0" v="{{}}">
<F i="3" n="{source}"><P i="4" n="everything" l="1" v="{{[0x0-0x1)}}"><S i="5" l="7" v="{{[0x0-0x10000)}}"/></P></F>
</LM>"""
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_a_structure_file_from_elsewhere(moved: Path, tmp_path: Path, capsys: Capture) -> None:
    target, other = tmp_path / "made.d", described(tmp_path / "other.hpcstruct", "/bin/other", "/o.c")
    named = described(tmp_path / "app.hpcstruct", "/build/17/bin/app", "/build/17/src/app.c")
    err = messages(capsys, "prof", moved, target, "-S", named, "-S", other, "-j", "1")
    assert f"note: {other}: describes /bin/other, in which nothing was measured; it is not used" in err
    assert "there are no structure files" not in err
    assert {"everything", "/build/17/src/app.c:7"} <= set(names_in(target))
    inside = described(moved / "structs" / "app.hpcstruct", "/build/17/bin/app", "/inside.c")
    run(capsys, "prof", moved, tmp_path / "inside.d", "-j", "1")
    assert "/inside.c:7" in names_in(tmp_path / "inside.d")
    run(capsys, "prof", moved, tmp_path / "named.d", "-S", named, "-j", "1")  # what is named goes first
    assert "/build/17/src/app.c:7" in names_in(tmp_path / "named.d")
    run(capsys, "prof", moved, tmp_path / "without.d", "--ignore-structs", "-j", "1")
    assert "everything" not in names_in(tmp_path / "without.d")
    assert inside.is_file()


def test_files_that_were_moved(moved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    """Sources are found where -R says, and copied; a structure file may know the binary by its new place."""
    named = described(tmp_path / "app.hpcstruct", f"{tmp_path}/here/bin/app", "/build/17/src/app.c")
    copy = "src/build/17/src/app.c"
    monkeypatch.chdir(tmp_path)
    for rule, is_found in (("/build/17=here", True), (f"/build/*={tmp_path}/here", True), ("/build/1=here", False)):
        target = tmp_path / f"{rule.count('*')}{len(rule)}.d"
        run(capsys, "prof", moved, target, "-S", named, "-R", rule, "-j", "1")
        assert ("everything" in names_in(target)) == is_found, rule
        assert (target / copy).is_file() == is_found
    with_copy = tmp_path / "without.d"
    run(capsys, "prof", moved, with_copy, "-S", named, "-R", f"/build/*={tmp_path}/here", "--no-source", "-j", "1")
    assert "everything" in names_in(with_copy)
    assert not (with_copy / "src").exists()
    run(capsys, "prof", moved, tmp_path / "f.d", "-S", named, "-R", f"/build/*={tmp_path}/here", "--foreign", "-j", "1")
    assert not (tmp_path / "f.d" / "src").exists()  # it lies outside of the measurement


def test_files_that_hold_nothing(folder: Path, tmp_path: Path, capsys: Capture) -> None:
    (folder / "app-000001-000-7f-1-0.hpcrun").touch()
    (folder / "app-000002-000-7f-1-0.hpcrun").symlink_to(tmp_path / "nowhere")
    (folder / "app-000003-000-7f-1-0.hpcrun").mkdir()
    err = messages(capsys, "prof", folder, tmp_path / "made.d", "-j", "1")
    assert "app-000001-000-7f-1-0.hpcrun: header at byte 0" in err
    assert "found an empty file" in err
    assert "app-000002-000-7f-1-0.hpcrun: cannot be read: No such file" in err
    assert "skipped: 2 of 7 measurement files in all" in err
    log = folder / "app-000000-000-7f-1-0.log"
    log.write_text("MEMORY: segment size")
    err = messages(capsys, "prof", log, tmp_path / "other.d", "-j", "1", code=3)
    assert err.count(str(log)) == 1
    assert "not an hpcrun profile" in err


def test_a_folder_that_nobody_may_read(
    folder: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(path: Path) -> Iterator[os.DirEntry[str]]:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(os, "scandir", denied)
    assert said(capsys, "prof", folder, tmp_path / "made.d", code=3) == f"{folder}: cannot be read: Permission denied"


def test_binaries_in_a_folder_that_nobody_may_read(
    folder: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    look = Path.is_file

    def denied(path: Path) -> bool:
        if str(path).startswith("/home/user/"):
            raise PermissionError(13, "Permission denied", str(path))
        return look(path)

    monkeypatch.setattr(Path, "is_file", denied)
    err = messages(capsys, "prof", folder, tmp_path / "made.d", "-j", "1", "--no-cache")
    assert "missing: binaries that are not here, or cannot be read: /home/user/perf/apps/pth" in err


def test_what_has_no_names(folder: Path, tmp_path: Path, capsys: Capture) -> None:
    target, inside = tmp_path / "made.d", tmp_path / "apps"
    inside.mkdir()
    (inside / "pth").write_text("#!/bin/sh\n")
    words = ["-j", "1", "--no-cache", "-R", f"/home/user/perf={tmp_path}", "-R", "/nowhere=/else"]
    err = messages(capsys, "prof", folder, target, *words)
    assert "binaries without a name for any address (stripped, or of another build): /home/user/perf/apps/pth" in err
    assert "note: -R /nowhere=/else: no binary and no source file has a path that begins like this" in err
    assert "-R /home/user" not in err
    err = messages(capsys, "prof", folder, target, "-j", "1", "--force", "--foreign")
    assert "binaries that no structure file describes: /home/user/perf/apps/pth; their addresses have no names" in err
    assert "cannot be read" not in err


def test_a_structure_file_that_cannot_be_used_is_damage(folder: Path, tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "a.hpcstruct").write_text("no XML")
    words = ["-S", tmp_path / "a.hpcstruct", "-j", "1", "--foreign", "--strict"]
    err = messages(capsys, "prof", folder, tmp_path / "made.d", *words, code=4)
    assert f"damaged: {tmp_path / 'a.hpcstruct'}" in err


def test_every_option_is_documented() -> None:
    parser = Parser("callgrove prof", "")
    add_arguments(parser)
    text = (ROOT / "docs" / "cli.md").read_text().partition("\n## prof\n")[2].partition("\n## ")[0]
    options = {option for action in parser._actions for option in action.option_strings} - {"-h", "--help", "--debug"}
    assert "--only-exe" in options
    assert [option for option in sorted(options) if not re.search(rf"`{option}[ `]", text)] == []
