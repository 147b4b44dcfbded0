"""The same bytes on every engine and for every split; nothing is left behind when a worker dies."""

from __future__ import annotations

import filecmp
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from callgrove.cli.main import main
from callgrove.errors import CallgroveError
from callgrove.execute import Engine, executor
from callgrove.formats.interface import WriteOptions, Writes
from callgrove.formats.registry import writer_of
from callgrove.prof import conversion, inputs
from callgrove.prof.conversion import Request, convert, prepare, survey_of
from callgrove.prof.inputs import Inputs
from tests.execution.test_clusters import MPI_ENVIRONMENT, mpirun, scheduler
from tests.formats.hpcrun_bytes import File04
from tests.prof.making import MAIN, measured, nodes, structure
from tests.prof.test_prof_rules import APP
from tests.requirements import ROOT

__all__ = ["mpirun", "scheduler"]

CORPUS = ROOT / "tests" / "corpus" / "hpcrun" / "04.00" / "pth4.m"
N_FILES = 11


@pytest.fixture(scope="module")
def measurements(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The corpus, and more ranks with trees of their own and a structure file."""
    folder = tmp_path_factory.mktemp("engines") / "many.m"
    shutil.copytree(CORPUS, folder)
    structure(folder, "app", APP)
    for rank in range(N_FILES):
        tree = nodes(
            (14, 12, 0, MAIN, 1),
            (16, 14, 1, 0x1000 + rank, 1),
            (18, 16, 1, 0x1010 + rank % 3, 1),
            (20, 18, 2, rank % 5, 1),
        )
        measured(folder, File04(tree, values=((20, ((0, 0.1 * rank),)), (18, ((0, 1 / (rank + 1)),)))), rank)
    return folder


@pytest.fixture(scope="module")
def alone(measurements: Path) -> Path:
    """What one process makes of it."""
    target = measurements.parent / "alone.d"
    assert main(["prof", str(measurements), str(target), "--foreign", "-j", "1"]) == 0
    return target


def same(left: Path, right: Path) -> None:
    names = sorted(str(p.relative_to(left)) for p in left.rglob("*") if p.is_file())
    assert names == sorted(str(p.relative_to(right)) for p in right.rglob("*") if p.is_file())
    assert filecmp.cmpfiles(left, right, names, shallow=False)[0] == names
    assert len(names) > 4


def nothing_beside(target: Path) -> None:
    assert [p.name for p in target.parent.iterdir() if p.name.startswith(".")] == []


@pytest.mark.parametrize("files", [1, 2, 5, 100])
def test_every_split(
    files: int, measurements: Path, alone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inputs, "BATCH_FILES", files)
    assert main(["prof", str(measurements), str(tmp_path / "made.d"), "--foreign", "-j", "1"]) == 0
    same(alone, tmp_path / "made.d")


def test_a_pool_of_processes(measurements: Path, alone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "BATCH_FILES", 3)
    assert main(["prof", str(measurements), str(tmp_path / "made.d"), "--foreign", "-j", "2"]) == 0
    same(alone, tmp_path / "made.d")
    nothing_beside(tmp_path / "made.d")


@pytest.mark.parametrize("n_processes", [2, 3])
def test_mpi(n_processes: int, mpirun: str, measurements: Path, alone: Path, tmp_path: Path) -> None:
    verb = [sys.executable, "-m", "callgrove", "prof", str(measurements), str(tmp_path / "made.d"), "--foreign"]
    done = subprocess.run(
        [mpirun, "-n", str(n_processes), *verb, "--mpi"],
        env={**os.environ, **MPI_ENVIRONMENT},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    same(alone, tmp_path / "made.d")
    nothing_beside(tmp_path / "made.d")


def test_dask(scheduler: str, measurements: Path, alone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "BATCH_FILES", 4)
    assert main(["prof", str(measurements), str(tmp_path / "made.d"), "--foreign", "--dask", scheduler]) == 0
    same(alone, tmp_path / "made.d")
    nothing_beside(tmp_path / "made.d")


def die(task: object) -> None:
    """A worker that is killed in the middle of its work."""
    os._exit(9)


def converted(folder: Path, target: Path, engine: Engine, meanwhile: Callable[[], None] = lambda: None) -> None:
    """Both passes; something may happen between them."""
    request = Request(Inputs((folder,), is_foreign=True))
    writes = writer_of("hpctoolkit-release")
    assert isinstance(writes, Writes)
    with executor(engine) as workers:
        ready = prepare(request, survey_of(request, workers))
        meanwhile()
        convert(ready, writes.open_writer(target, WriteOptions()), workers, target)


@pytest.mark.parametrize("stage", ["surveyed", "work_off"])
def test_a_worker_that_dies(stage: str, measurements: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversion, stage, die)
    with pytest.raises(CallgroveError, match="a worker process died"):
        converted(measurements, tmp_path / "made.d", Engine(2))
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_vanishes_between_the_passes(measurements: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(measurements, tmp_path / "m"))
    victim = next(folder.glob("*.hpcrun"))
    with pytest.raises(CallgroveError, match="cannot be read"):
        converted(folder, tmp_path / "made.d", Engine(1), victim.unlink)
    assert [p.name for p in tmp_path.iterdir()] == ["m"]
