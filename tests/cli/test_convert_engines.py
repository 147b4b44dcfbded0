"""`convert` writes the same trace, to the byte, whatever it runs on: one process, a pool, MPI, Dask."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.cli.commands import Capture, run
from tests.cli.test_summary_engines import process, said
from tests.execution.test_clusters import mpirun, scheduler
from tests.formats.gpu.gpu_databases import write_rocpd

__all__ = ["mpirun", "scheduler"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("databases")
    for number in range(5):
        write_rocpd(folder / f"{number}.db", [process(number, 200)])
    return folder


@pytest.fixture(scope="module")
def alone(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    target = tmp_path_factory.mktemp("alone") / "all.pftrace"
    said([sys.executable, "-m", "callgrove", "convert", str(folder), str(target), "-j", "1"])
    return target.read_bytes()


def test_a_pool(capsys: Capture, folder: Path, alone: bytes, tmp_path: Path) -> None:
    run(capsys, "convert", folder, tmp_path / "pool.pftrace", "-j", "2")
    assert (tmp_path / "pool.pftrace").read_bytes() == alone


def test_mpi(mpirun: str, folder: Path, alone: bytes, tmp_path: Path) -> None:
    verb = [sys.executable, "-m", "callgrove", "convert", str(folder), str(tmp_path / "mpi.pftrace"), "--mpi"]
    said([mpirun, "-n", "3", *verb])
    assert (tmp_path / "mpi.pftrace").read_bytes() == alone


def test_dask(capsys: Capture, scheduler: str, folder: Path, alone: bytes, tmp_path: Path) -> None:
    run(capsys, "convert", folder, tmp_path / "dask.pftrace", "--dask", scheduler)
    assert (tmp_path / "dask.pftrace").read_bytes() == alone
    assert [path.name for path in tmp_path.iterdir()] == ["dask.pftrace"]
