"""Targets in the making: complete or as before, whatever happens."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from callgrove.errors import CallgroveError, InputError, UsageError
from callgrove.formats.writing.targets import FolderKind, PendingFile, PendingFiles, PendingFolder, PendingTarget


def new_folder(target: Path, overwrite: bool = False) -> PendingFolder:
    return PendingFolder(target, overwrite, FolderKind("a database", lambda folder: (folder / "ours").exists()))


def write(pending: PendingTarget, text: str) -> None:
    place = pending.place / "ours" if isinstance(pending, PendingFolder) else pending.place
    place.write_text(text)


def read(target: Path) -> str:
    return (target / "ours" if target.is_dir() else target).read_text()


MAKERS: list[Callable[[Path, bool], PendingTarget]] = [new_folder, PendingFile]


@pytest.fixture(params=MAKERS, ids=["folder", "file"])
def make(request: pytest.FixtureRequest) -> Callable[[Path, bool], PendingTarget]:
    maker: Callable[[Path, bool], PendingTarget] = request.param
    return maker


def test_nothing_is_there_before_it_is_complete(make: Callable[[Path, bool], PendingTarget], tmp_path: Path) -> None:
    target = tmp_path / "out"
    pending = make(target, False)
    write(pending, "new")
    assert not target.exists()
    pending.complete()
    assert read(target) == "new"
    assert list(tmp_path.iterdir()) == [target]


def test_an_old_one_is_replaced_only_when_asked(make: Callable[[Path, bool], PendingTarget], tmp_path: Path) -> None:
    target = tmp_path / "out"
    for text in ("old", "new"):
        pending = make(target, True)
        write(pending, text)
        pending.complete()
    assert read(target) == "new"
    with pytest.raises(UsageError, match="exists already"):
        make(target, False)
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
def test_a_failure_leaves_what_was_there(
    make: Callable[[Path, bool], PendingTarget], error: BaseException, tmp_path: Path
) -> None:
    target, closed = tmp_path / "out", []
    pending = make(target, False)
    write(pending, "old")
    pending.complete()
    again = make(target, True)
    expected = CallgroveError if isinstance(error, OSError) else KeyboardInterrupt
    write(again, "half")
    with pytest.raises(expected), again.or_nothing(before=lambda: closed.append(True)):
        raise error
    assert closed == [True]
    assert read(target) == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_one_that_appeared_in_the_meantime_is_not_replaced(
    make: Callable[[Path, bool], PendingTarget], tmp_path: Path
) -> None:
    target = tmp_path / "out"
    pending = make(target, False)
    target.write_text("somebody else's")
    with pytest.raises(UsageError, match="exists already"), pending.or_nothing():
        pending.complete()
    assert target.read_text() == "somebody else's"
    assert list(tmp_path.iterdir()) == [target]


def test_a_folder_of_other_things_stays(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.tex").touch()
    with pytest.raises(UsageError, match="other things than a database"):
        new_folder(tmp_path / "out", overwrite=True)


def test_file_and_folder_do_not_replace_each_other(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="is a folder"):
        PendingFile(tmp_path / "folder", overwrite=True)
    with pytest.raises(UsageError, match="is a file"):
        new_folder(tmp_path / "file", overwrite=True)


def test_a_parent_that_does_not_exist(make: Callable[[Path, bool], PendingTarget], tmp_path: Path) -> None:
    with pytest.raises(CallgroveError, match="cannot be written: No such file or directory"):
        make(tmp_path / "nowhere" / "out", False)


@pytest.mark.parametrize("overwrite", [False, True])
def test_devices_and_pipes_are_never_replaced(
    make: Callable[[Path, bool], PendingTarget], overwrite: bool, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    (tmp_path / "stdout").symlink_to("/proc/self/fd/1")
    for name in ("pipe", "link", "stdout"):
        with pytest.raises(UsageError, match=f"{name}: is a device, a pipe or the like"):
            make(tmp_path / name, overwrite)
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "pipe", "stdout"]


def test_stdout_is_no_name(
    make: Callable[[Path, bool], PendingTarget], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="cannot go to stdout"):
        make(Path("-"), True)
    assert not list(tmp_path.iterdir())


def test_a_part_that_cannot_be_read_again_is_one_of_the_target(tmp_path: Path) -> None:
    """Writers look at what they wrote; whoever asked for the target knows nothing of hidden places."""
    pending = new_folder(tmp_path / "out")
    with pytest.raises(CallgroveError) as caught, pending.or_nothing():
        raise InputError(f"{pending.place}/profile.db: cannot be read: Input/output error")
    reason = "profile.db: cannot be read: Input/output error; nothing was changed"
    assert str(caught.value) == f"{tmp_path}/out: cannot be written: {reason}"
    assert caught.value.exit_code == 1
    assert list(tmp_path.iterdir()) == []


def test_an_input_that_cannot_be_read_is_named_itself(tmp_path: Path) -> None:
    pending = new_folder(tmp_path / "out")
    with pytest.raises(InputError, match=r"^in\.d: cannot be read$"), pending.or_nothing():
        raise InputError("in.d: cannot be read")


def test_a_set_whose_list_cannot_be_written_leaves_nothing_hidden(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "out_a").write_text("old")
    pending = PendingFiles(tmp_path / "out", True, ["a"])
    (pending.place / "a").write_text("new")
    rename = Path.rename

    def fail(self: Path, target: Path) -> Path:
        if target.name == ".new":
            raise OSError(errno.ENOSPC, "No space left on device")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", fail)
    with pytest.raises(CallgroveError, match="No space left on device; nothing was changed"), pending.or_nothing():
        pending.complete()
    assert list(tmp_path.iterdir()) == [tmp_path / "out_a"]
    assert (tmp_path / "out_a").read_text() == "old"
