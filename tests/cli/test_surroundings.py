"""What surrounds a command: closed streams, a full disk, folders that vanish, names that are not text, paths that are
no files. Nothing of this is a bug, so nothing of it may be called one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from callgrove.cli.main import main
from tests.cli.commands import Capture, run, said
from tests.formats.damage import scratch_folder
from tests.formats.samples import CORPUS
from tests.permissions import as_nobody
from tests.requirements import need, need_module
from tests.timing import HANG_SEC

DATABASE = CORPUS / "hpctoolkit" / "release" / "pth4.d"
REMOVED = "callgrove: the current folder was removed; change to another one\n"
STUDY = CORPUS / "extrap" / "text.txt"


def in_a_shell(command: str, folder: Path) -> tuple[int, str, str]:
    """The exit code, stdout and stderr of a line in which `callgrove` stands for this one."""
    line = f'callgrove() {{ "{sys.executable}" -m callgrove "$@"; }}; {command}'
    done = subprocess.run(
        ["/bin/sh", "-c", line], cwd=folder, capture_output=True, text=True, check=False, timeout=HANG_SEC
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    ("command", "code", "out", "err"),
    [
        ("callgrove info nowhere >&-", 3, "", "callgrove: nowhere: No such file or directory\n"),
        ("callgrove info nowhere 2>&-", 3, "", ""),
        ("callgrove formats >&-", 1, "", "callgrove: stdout: is closed\n"),
        ("callgrove formats >/dev/full", 1, "", "callgrove: stdout: No space left on device\n"),
        ("callgrove formats -o /dev/full", 1, "", "callgrove: /dev/full: No space left on device\n"),
        ("rmdir ../gone; callgrove formats -o x", 1, "", REMOVED),
    ],
)
def test_streams_and_folders(command: str, code: int, out: str, err: str, tmp_path: Path) -> None:
    if "/dev/full" in command and not Path("/dev/full").exists():
        need("/dev/full", "this system has no device that is always full")
    folder = tmp_path / "gone"
    folder.mkdir()
    assert in_a_shell(command, folder) == (code, out, err)


def test_files_do_not_get_the_numbers_of_closed_streams(tmp_path: Path) -> None:
    code, _, _ = in_a_shell(f'callgrove export "{STUDY}" --table series -o out.csv <&- >&- 2>&-', tmp_path)
    assert code == 0
    assert (tmp_path / "out.csv").read_text().startswith("callpath,")


@pytest.fixture
def odd(tmp_path: Path) -> Path:
    """A folder whose name is not UTF-8 and has a line end."""
    folder = tmp_path / os.fsdecode(b"\xff\n\xfe")
    try:
        folder.mkdir()
    except OSError:
        need("names", "this file system takes names in UTF-8 only")
    return folder


@pytest.mark.parametrize("to", ["callgrove", "cube", "hpctoolkit-prerelease", "perfetto", "chrome-json", "rocpd-draft"])
def test_targets_whose_names_are_no_text(to: str, odd: Path, capsys: Capture) -> None:
    run(capsys, "convert", DATABASE, odd / "out", "--to", to)
    assert os.listdir(odd) == ["out"]  # noqa: PTH208
    if to != "perfetto" and to != "chrome-json":
        run(capsys, "info", odd / "out")


def test_tables_and_archives_whose_names_are_no_text(odd: Path, capsys: Capture) -> None:
    run(capsys, "export", DATABASE, "--table", "profiles", "-o", odd / "p.parquet", "--format", "parquet")
    assert (odd / "p.parquet").read_bytes()[:4] == b"PAR1"
    need_otf2()
    assert "must be UTF-8; choose another name" in said(capsys, "convert", DATABASE, odd / "o", "--to", "otf2", code=2)


def need_otf2() -> None:
    need_module("otf2")


@pytest.fixture
def strange(tmp_path: Path) -> Path:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "circle").symlink_to("circle")
    (tmp_path / "nowhere").symlink_to("there/is/nothing")
    return tmp_path


@pytest.mark.parametrize(
    ("name", "words"),
    [("pipe", "is a device, a pipe or the like; save"), ("circle", "Too many levels"), ("nowhere", "No such file")],
)
def test_what_is_no_file(name: str, words: str, strange: Path, capsys: Capture) -> None:
    path, out = strange / name, strange / "out"
    for command in (
        ["info", path],
        ["check", path],
        ["report", path, "-o", out],
        ["convert", path, out, "--to", "cube"],
    ):
        sentence = said(capsys, *command, code=3)
        assert sentence.startswith(f"{path}: ")
        assert words in sentence
    assert said(capsys, "prof", path, out, code=3).startswith(f"{path}: ")
    assert not out.exists()


def test_an_empty_name_is_not_the_current_folder(capsys: Capture) -> None:
    assert said(capsys, "info", "", code=2) == "the name of an input is empty; name a file or folder"


def test_results_into_links_that_go_round_in_circles(strange: Path, capsys: Capture) -> None:
    assert main(["formats", "-o", str(strange / "circle")]) == 0  # a link that leads nowhere is replaced
    assert (strange / "circle").read_text().startswith("name")


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_what_may_not_be_read(kind: str, capsys: Capture) -> None:
    with scratch_folder() as scratch:
        scratch.chmod(0o755)
        path = scratch / "closed"
        path.mkdir() if kind == "folder" else path.write_text("PARAMETER p\n")
        said(capsys, "info", path, code=3)  # imports what is needed while everything may be read
        path.chmod(0)
        with as_nobody():
            assert said(capsys, "info", path, code=3) == f"{path}: Permission denied"
        path.chmod(0o755)


def test_names_that_look_like_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    (tmp_path / "-study.txt").write_bytes(STUDY.read_bytes())
    monkeypatch.chdir(tmp_path)
    told = said(capsys, "info", "-study.txt", code=2)
    assert told.startswith("unknown argument '-study.txt' (the file of that name is ./-study.txt)")
    plain = run(capsys, "model", "./-study.txt")
    assert run(capsys, "model", "--", "-study.txt") == plain
    run(capsys, "convert", "--", "-study.txt", "-copy.json")
    assert (tmp_path / "-copy.json").exists()
