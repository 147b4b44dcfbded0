"""Copied source files: shown from inside of the database, and never from anywhere else."""

from __future__ import annotations

from pathlib import Path

import pytest

from callgrove.cli.main import main
from tests.formats.comparing import GENERATIONS
from tests.formats.hpctoolkit.databases import File, copied, edit, edit_text
from tests.formats.hpctoolkit.legacy_databases import Program
from tests.formats.written import read

COPY = "src/home/user/perf/apps/pth.c"
SECRET = "SECRET_OUTSIDE_OF_THE_DATABASE"


@pytest.fixture(params=GENERATIONS)
def with_secret(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Path]:
    """A database, and beside it a file that is none of its business; nine lines, so that line 8 exists."""
    (tmp_path / "secret").write_text(f"{SECRET}\n" * 9)
    return str(request.param), copied(str(request.param), tmp_path)


def show_sources(path: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    code = main(["tree", str(path), "--source", "--limit", "all"])
    return code, *capsys.readouterr()


def test_sources_are_shown(with_secret: tuple[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = show_sources(with_secret[1], capsys)
    assert code == 0
    assert "pthread_mutex_unlock" in out


@pytest.mark.parametrize("climb", ["src/../../secret", "src/home/../../../secret"])
def test_a_source_that_climbs_out(
    climb: str, with_secret: tuple[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    generation, path = with_secret
    if generation == "release":
        edit(path / "meta.db", lambda file: file.replace(COPY.encode(), climb.encode()))
    else:
        edit_text(path / "experiment.xml", (f"./{COPY}", f"./{climb}"))
    code, out, err = show_sources(path, capsys)
    assert SECRET not in out + err
    assert code == 3
    assert "lies outside of the folder" in err
    assert main(["check", str(path)]) == 3
    assert "lies outside of the folder" in capsys.readouterr().out


def test_a_source_that_is_a_link_to_elsewhere(
    with_secret: tuple[str, Path], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = with_secret[1]
    (path / COPY).unlink()
    (path / COPY).symlink_to(tmp_path / "secret")
    code, out, err = show_sources(path, capsys)
    assert SECRET not in out + err
    assert code == 3
    assert main(["check", str(path)]) == 3
    assert "lies outside of the folder" in capsys.readouterr().out


def test_a_folder_of_sources_that_is_a_link_to_elsewhere(
    with_secret: tuple[str, Path], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = with_secret[1]
    elsewhere = tmp_path / "home" / "user" / "perf" / "apps"
    elsewhere.mkdir(parents=True)
    (elsewhere / "pth.c").write_text(f"{SECRET}\n" * 9)
    (path / "src").rename(path / "gone")
    (path / "src").symlink_to(tmp_path)
    code, out, err = show_sources(path, capsys)
    assert SECRET not in out + err
    assert code == 3


def test_a_source_that_is_an_absolute_path(with_secret: tuple[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    """A path that is not marked as a copy is a name, and is never opened."""
    generation, path = with_secret
    target = "/etc/hostname"
    if generation == "release":

        def change(file: File) -> None:
            file.replace(COPY.encode(), target.encode())
            file.put(file.one("flags", "Files").offset, 0, 4)

        edit(path / "meta.db", change)
    else:
        edit_text(path / "experiment.xml", (f"./{COPY}", target))
    code, out, _ = show_sources(path, capsys)
    assert code == 0
    hostname = Path(target)
    assert not hostname.is_file() or hostname.read_text().strip() not in out


def test_a_source_that_is_missing(with_secret: tuple[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    (with_secret[1] / COPY).unlink()
    code, out, _ = show_sources(with_secret[1], capsys)
    assert code == 0
    assert "leaf" in out


@pytest.mark.parametrize("is_there", [True, False])
def test_info_counts_copies_that_are_there(is_there: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = Program().write(tmp_path / "old")
    [copied_to] = read(folder).sources.copies.values()
    copy = folder / copied_to
    if is_there:
        copy.parent.mkdir(parents=True)
        copy.write_text("int main;")
    assert main(["info", str(folder)]) == 0
    [line] = [line for line in capsys.readouterr().out.splitlines() if line.startswith("sources")]
    assert line.split(maxsplit=1)[1] == (
        "1 copied file" if is_there else "1 copied file that the input names, but does not hold"
    )
    assert read(folder).sources.n_present == int(is_there)
