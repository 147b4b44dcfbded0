"""`summary` prints the same, to the byte, whatever it runs on: one process, a pool, MPI, Dask."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from callgrove.analysis import summary
from callgrove.analysis.summary import BUNDLE_BYTES
from callgrove.cli import options
from callgrove.cli.main import main
from callgrove.cli.options import ExecutionOptions, engine_for
from callgrove.execute import Engine
from tests.cli.commands import Capture, run
from tests.execution.test_clusters import MPI_ENVIRONMENT, mpirun, scheduler
from tests.formats.gpu.gpu_databases import Run, write_nsight, write_rocpd, write_rpd
from tests.timing import HANG_SEC

__all__ = ["mpirun", "scheduler"]

N_FILES = 9
OPTIONS = ("--by", "rank", "--format", "csv")


def process(number: int, n_calls: int) -> Run:
    made = Run.random(number, n_calls).without("memset")
    guid = f"018f{number:04x}-0000-7000-8000-0000000000ff"
    return replace(made, host=f"node{number}", machine=f"m{number}", guid=guid)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Small databases for two bundles, one that is spoiled, and one of another length."""
    folder = tmp_path_factory.mktemp("databases")
    for number in range(N_FILES):
        write_rocpd(folder / f"{number}.db", [process(number, 4000 if number else 80)])
    (folder / "broken.db").write_bytes(bytes(4096))
    assert sum(path.stat().st_size for path in folder.iterdir()) > BUNDLE_BYTES
    return folder


def said(words: Sequence[str], code: int = 0) -> str:
    done = subprocess.run(
        words, env={**os.environ, **MPI_ENVIRONMENT}, capture_output=True, text=True, timeout=HANG_SEC
    )
    assert done.returncode == code, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def alone(folder: Path) -> str:
    found = said([sys.executable, "-m", "callgrove", "summary", str(folder), *OPTIONS, "-j", "1"])
    assert found.count("\nkernels,") == 3 * N_FILES
    return found


def test_a_pool(capsys: Capture, folder: Path, alone: str) -> None:
    assert run(capsys, "summary", folder, *OPTIONS, "-j", "2") == alone


def test_mpi(mpirun: str, folder: Path, alone: str) -> None:
    verb = [sys.executable, "-m", "callgrove", "summary", str(folder), *OPTIONS, "--mpi"]
    assert said([mpirun, "-n", "3", *verb]) == alone


def test_dask(capsys: Capture, scheduler: str, folder: Path, alone: str) -> None:
    assert run(capsys, "summary", folder, *OPTIONS, "--dask", scheduler) == alone


@pytest.mark.parametrize("verb", ["top", "tree", "info"])
def test_verbs_that_fold_on_a_pool(capsys: Capture, monkeypatch: pytest.MonkeyPatch, folder: Path, verb: str) -> None:
    """They make a profile of the events first."""
    begun: list[int] = []
    submit = ProcessPoolExecutor.submit

    def counted(pool: ProcessPoolExecutor, *task: Any) -> Any:
        begun.append(1)
        return submit(pool, *task)

    monkeypatch.setattr(ProcessPoolExecutor, "submit", counted)
    here = run(capsys, verb, folder, "-j", "1", "--format", "csv")
    assert not begun
    assert run(capsys, verb, folder, "-j", "2", "--format", "csv") == here
    assert begun
    begun.clear()
    assert run(capsys, verb, folder, "--format", "csv") == here
    assert not begun  # it is small


def test_comparing_runs_on_a_pool(capsys: Capture, folder: Path) -> None:
    here = run(capsys, "diff", folder, folder, "-j", "1", "--format", "csv")
    assert run(capsys, "diff", folder, folder, "-j", "2", "--format", "csv") == here


def test_large_inputs_take_every_core(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = ExecutionOptions()
    assert engine_for(asked, [str(folder)]) == Engine(jobs=1)
    assert engine_for(asked, [str(folder)], per_file=options.WORTH_PROCESSES) == Engine()
    monkeypatch.setattr(options, "WORTH_PROCESSES", 1000)
    assert engine_for(asked, [str(folder)]) == Engine()
    assert engine_for(asked, [str(folder / "nowhere")]) == Engine(jobs=1)
    monkeypatch.setattr(options, "MOST_LOOKED_AT", 0)
    assert engine_for(asked, [str(folder)]) == Engine(jobs=1)


def write_draft(path: Path, made: Run) -> None:
    other = write_rpd(path.with_suffix(".made"), made)
    assert main(["convert", str(other), str(path), "--to", "rocpd-draft"]) == 0
    other.unlink()


FAMILIES: dict[str, Callable[[Path, Run], object]] = {
    "rpd": write_rpd,
    "sqlite": write_nsight,
    "db": write_draft,
}


def databases(folder: Path, ending: str) -> Path:
    for number in range(3):
        FAMILIES[ending](folder / f"{number}.{ending}", Run.random(number, 40))
    return folder


@pytest.mark.parametrize("ending", FAMILIES)
def test_every_family(ending: str, capsys: Capture, scheduler: str, tmp_path: Path) -> None:
    """Their data sets are read one by one, by whoever gets them."""
    folder = databases(tmp_path, ending)
    want = run(capsys, "summary", folder, *OPTIONS, "-j", "1")
    assert want.count("\nkernels,") >= 3
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(summary, "BUNDLE_BYTES", 0)
        assert run(capsys, "summary", folder, *OPTIONS, "-j", "2") == want
        assert run(capsys, "summary", folder, *OPTIONS, "--dask", scheduler) == want


def test_another_family_under_mpi(capsys: Capture, mpirun: str, tmp_path: Path) -> None:
    folder = databases(tmp_path, "rpd")
    verb = [sys.executable, "-m", "callgrove", "summary", str(folder), *OPTIONS, "--mpi"]
    assert said([mpirun, "-n", "2", *verb]) == run(capsys, "summary", folder, *OPTIONS, "-j", "1")
