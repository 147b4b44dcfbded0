"""What killed processes left is removed where there is no doubt, and nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from callgrove.cli.main import main
from callgrove.examples import example
from callgrove.formats.interface import WriteOptions
from callgrove.formats.registry import writer_of
from callgrove.formats.writing import targets as leftovers
from callgrove.formats.writing.targets import (
    FolderKind,
    PendingFile,
    PendingFiles,
    PendingFolder,
    make_hidden_place,
    recover,
)
from callgrove.formats.writing.transfer import write_experiment
from tests.cli.commands import Capture
from tests.requirements import need

if leftovers._where() == leftovers.UNKNOWN:
    need("proc", "the system has no /proc")

KILLED = """
import os, signal, sys
from pathlib import Path
from callgrove.examples import example
from callgrove.formats.interface import WriteOptions
from callgrove.formats.registry import writer_of
writer = writer_of(sys.argv[1]).open_writer(Path(sys.argv[2]), WriteOptions(overwrite=True))
writer.define(example())
os.kill(os.getpid(), signal.SIGKILL)
"""


def gone() -> int:
    """The id of a process that no longer exists."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    return ended.pid


def left_by(pid: int, folder: Path, name: str, end: str = ".partial") -> Path:
    mine = make_hidden_place(folder, name).name.removesuffix(".partial")
    path = folder / (mine.replace(f"-{os.getpid()}-", f"-{pid}-") + end)
    path.mkdir()
    (path / "data").write_bytes(b"x")
    return path


@pytest.mark.parametrize(("format_name", "name"), [("hpctoolkit-release", "out.d"), ("cube", "out.cubex")])
def test_what_a_killed_process_left_goes_with_the_next_write(format_name: str, name: str, tmp_path: Path) -> None:
    target = tmp_path / name
    killed = subprocess.run([sys.executable, "-c", KILLED, format_name, str(target)])
    assert killed.returncode == -9
    (left,) = tmp_path.iterdir()
    assert left.name.startswith(f".{name}.")
    write_experiment(example(), writer_of(format_name), target, WriteOptions())
    assert list(tmp_path.iterdir()) == [target]


def test_parts_of_a_trace_go_as_well(tmp_path: Path) -> None:
    pid = gone()
    for end in (".partial", ".0.partial", ".17.partial"):
        left_by(pid, tmp_path, "t.pftrace", end)
    pending = PendingFile(tmp_path / "t.pftrace", overwrite=False)
    assert list(tmp_path.iterdir()) == [pending.place]
    pending.discard()
    assert list(tmp_path.iterdir()) == []


def test_tables_go_as_well(tmp_path: Path, capsys: Capture) -> None:
    left_by(gone(), tmp_path, "formats.csv")
    assert main(["formats", "--format", "csv", "-o", str(tmp_path / "formats.csv")]) == 0
    assert list(tmp_path.iterdir()) == [tmp_path / "formats.csv"]


def test_what_may_be_wanted_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of processes that run, of other machines and containers, of other targets, and what only looks like it."""
    pid = gone()
    kept = [
        left_by(os.getpid(), tmp_path, "out.d"),
        left_by(1, tmp_path, "out.d"),
        left_by(pid, tmp_path, "other.d"),
        left_by(pid, tmp_path, "out.d.d"),
        left_by(pid, tmp_path, "other.d", ".old"),
        left_by(pid, tmp_path, "out.d", ".partial.keep"),
        left_by(99999999999, tmp_path, "out.d"),
    ]
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(leftovers, "_where", lambda: "12345678")
        kept.append(left_by(pid, tmp_path, "out.d"))
    for name in (".out.d.0a1b2c3d.partial", ".out.d.partial", "out.d.part"):
        (tmp_path / name).touch()
        kept.append(tmp_path / name)
    recover(tmp_path, "out.d")
    assert sorted(tmp_path.iterdir()) == sorted(kept)


def test_a_process_that_died_between_two_renames_is_finished(tmp_path: Path) -> None:
    partial = left_by(gone(), tmp_path, "out.d")
    (partial / "data").write_bytes(b"new")
    partial.with_suffix(".old").mkdir()
    recover(tmp_path, "out.d")
    assert list(tmp_path.iterdir()) == [tmp_path / "out.d"]
    assert (tmp_path / "out.d" / "data").read_bytes() == b"new"


def test_what_was_set_aside_comes_back_where_the_new_one_is_gone(tmp_path: Path) -> None:
    left_by(gone(), tmp_path, "out.d", ".old")
    recover(tmp_path, "out.d")
    assert [path.name for path in tmp_path.iterdir()] == ["out.d"]


def test_what_was_set_aside_goes_where_the_new_one_is_in_place(tmp_path: Path) -> None:
    left_by(gone(), tmp_path, "out.d", ".old")
    (tmp_path / "out.d").mkdir()
    recover(tmp_path, "out.d")
    assert [path.name for path in tmp_path.iterdir()] == ["out.d"]
    assert not list((tmp_path / "out.d").iterdir())


# -- killed at every step ----------------------------------------------------------------------------------------------

REPLACING = """
import os, signal, sys
from pathlib import Path
from callgrove.formats.writing import targets
folder, kind, step, one_step = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4] == "one"
if not one_step:
    targets.exchange = lambda one, other: False
steps = 0

def count(real):
    def wrapped(*words):
        global steps
        if steps == step:
            os.kill(os.getpid(), signal.SIGKILL)
        steps += 1
        return real(*words)
    return wrapped

kind_of_folder = targets.FolderKind("data", lambda path: True)
names = ["a", "b", "c", "d"]
if kind == "folder":
    pending = targets.PendingFolder(folder / "out", True, kind_of_folder)
else:
    pending = targets.PendingFiles(folder / "out", True, names)
for name in ("b", "c"):
    (pending.place / name).write_text("new")
Path.rename, Path.replace = count(Path.rename), count(Path.replace)
targets.exchange, targets.remove = count(targets.exchange), count(targets.remove)
pending.complete()
"""


def write_old(folder: Path, kind: str) -> None:
    if kind == "folder":
        (folder / "out").mkdir()
    for name in ("a", "b"):
        (folder / "out" / name if kind == "folder" else folder / f"out_{name}").write_text("old")


def read_set(folder: Path, kind: str) -> dict[str, str]:
    files = (folder / "out").iterdir() if kind == "folder" else folder.glob("out_*")
    return {path.name.removeprefix("out_"): path.read_text() for path in files}


OLD_SET, NEW_SET = {"a": "old", "b": "old"}, {"b": "new", "c": "new"}


@pytest.mark.parametrize(("kind", "how"), [("folder", "one"), ("folder", "two"), ("files", "one")])
def test_a_replacement_that_is_killed_anywhere_is_the_old_or_the_new_one(kind: str, how: str, tmp_path: Path) -> None:
    ends = set()
    for step in range(20):
        folder = tmp_path / str(step)
        folder.mkdir()
        write_old(folder, kind)
        done = subprocess.run([sys.executable, "-c", REPLACING, str(folder), kind, str(step), how])
        if kind == "folder" and how == "one":  # nothing has to be recovered
            assert read_set(folder, kind) in (OLD_SET, NEW_SET)
        recover_set(folder, kind)
        ends.add(tuple(read_set(folder, kind).items()))
        assert read_set(folder, kind) in (OLD_SET, NEW_SET), step
        assert not [path for path in folder.iterdir() if path.name.startswith(".")], step
        if done.returncode == 0:
            break
    else:
        pytest.fail("it never came to its end")
    assert len(ends) >= 2, "both the old and the new one are seen"


def recover_set(folder: Path, kind: str) -> None:
    """Begin to write the same target again, and think better of it."""
    if kind == "folder":
        PendingFolder(folder / "out", True, FolderKind("data", lambda path: True)).discard()
    else:
        PendingFiles(folder / "out", True, ["a", "b", "c", "d"]).discard()


def test_files_of_somebody_else_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left = left_by(gone(), tmp_path, "out.d")
    monkeypatch.setattr(os, "geteuid", lambda: left.stat().st_uid + 1)
    recover(tmp_path, "out.d")
    assert left.is_dir()


def test_a_link_is_removed_and_not_what_it_leads_to(tmp_path: Path) -> None:
    left = left_by(gone(), tmp_path, "out.d")
    left.rename(tmp_path / "precious")
    left.symlink_to(tmp_path / "precious")
    recover(tmp_path, "out.d")
    assert list(tmp_path.iterdir()) == [tmp_path / "precious"]
    assert (tmp_path / "precious" / "data").is_file()


def test_nothing_is_removed_where_the_machine_is_not_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leftovers, "_where", lambda: leftovers.UNKNOWN)
    left = left_by(gone(), tmp_path, "out.d")
    recover(tmp_path, "out.d")
    assert left.is_dir()


@pytest.mark.parametrize("name", ["n" * 250, "ü" * 120 + ".db"])
def test_names_that_are_nearly_too_long(name: str, tmp_path: Path) -> None:
    left_by(gone(), tmp_path, name)
    pending = PendingFile(tmp_path / name, overwrite=False)
    pending.complete()
    assert list(tmp_path.iterdir()) == [tmp_path / name]
