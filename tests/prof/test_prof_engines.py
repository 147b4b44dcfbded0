"""The same bytes on every engine and for every split; nothing is left behind when a worker dies."""

from __future__ import annotations

import errno
import filecmp
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from callgrove.cli.main import main
from callgrove.errors import CallgroveError
from callgrove.execute import Engine, Progress, Workers, executor, silent
from callgrove.formats.hpcrun.hpctrace import write_trace
from callgrove.formats.interface import WriteOptions, Writes
from callgrove.formats.registry import writer_of
from callgrove.prof import conversion, spool, survey
from callgrove.prof import survey as inputs
from callgrove.prof.conversion import Request, Task, prepare, run_conversion
from callgrove.prof.experiment import Prepared
from callgrove.prof.spool import Done, Meeting
from callgrove.prof.survey import Batch, Inputs, Survey
from tests.execution.test_clusters import MPI_ENVIRONMENT, mpirun, scheduler
from tests.formats.hpcrun.hpcrun_bytes import File04
from tests.prof.making import IDLE, MAIN, measured, nodes, structure
from tests.prof.test_prof_rules import APP
from tests.requirements import ROOT
from tests.timing import HANG_SEC

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
            (22, 12, 0, IDLE, 1),
        )
        file = measured(folder, File04(tree, values=((20, ((0, 0.1 * rank),)), (18, ((0, 1 / (rank + 1)),)))), rank)
        sampled = [20, 18, 20, 20] if rank % 3 else [20, 22, 22, 22, 18]  # of which two are left out
        write_trace(file.with_suffix(".hpctrace"), 0, np.arange(len(sampled)) + rank, np.array(sampled))
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


@pytest.mark.parametrize("jobs", [1, 2])
def test_progress_is_in_files_and_ends(
    jobs: int, measurements: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inputs, "BATCH_FILES", 3)
    seen: dict[str, list[tuple[int, int | None]]] = {}

    def watch(label: str, done: int, total: int | None) -> None:
        seen.setdefault(label, []).append((done, total))

    made(measurements, tmp_path / "made.d", Engine(jobs), watch)
    n_files = len(list(measurements.glob("*.hpcrun")))
    for label in ("reading files", "attributing costs"):
        assert {total for _, total in seen[label]} == {n_files}
    assert all(steps == sorted(steps) and steps[-1][0] == steps[-1][1] for steps in seen.values())


@pytest.mark.parametrize("to", ["hpctoolkit-prerelease", "hpcrun", "cube"])
def test_other_targets(to: str, measurements: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those that have no layout of their own for samples, or do not take any."""
    monkeypatch.setattr(inputs, "BATCH_FILES", 3)
    for jobs in ("1", "2"):
        target = tmp_path / jobs / ("made.cubex" if to == "cube" else "made")
        target.parent.mkdir()
        assert main(["prof", str(measurements), str(target), "--to", to, "--foreign", "-j", jobs]) == 0
        nothing_beside(target)
    names = sorted(str(p.relative_to(tmp_path / "1")) for p in (tmp_path / "1").rglob("*") if p.is_file())
    assert names
    assert filecmp.cmpfiles(tmp_path / "1", tmp_path / "2", names, shallow=False)[0] == names


@pytest.mark.parametrize("n_processes", [2, 3])
def test_mpi(n_processes: int, mpirun: str, measurements: Path, alone: Path, tmp_path: Path) -> None:
    verb = [sys.executable, "-m", "callgrove", "prof", str(measurements), str(tmp_path / "made.d"), "--foreign"]
    done = subprocess.run(
        [mpirun, "-n", str(n_processes), *verb, "--mpi"],
        env={**os.environ, **MPI_ENVIRONMENT},
        capture_output=True,
        text=True,
        timeout=HANG_SEC,
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


def die_late(done: object, meeting: Meeting, number: int, places: object) -> None:
    """One that has begun to write."""
    (Path(meeting.folder) / f"{number}.spool").write_bytes(bytes(1000))
    os._exit(9)


def work_off_and_die(task: Task) -> Done:
    setattr(conversion, "spool", die_late)  # noqa: B010
    return conversion.work_off(task)


def never_seen(batch: Batch) -> Survey:
    """A worker on a node that does not see where the target is made."""
    setattr(spool.Meeting, "is_seen", lambda self: False)  # noqa: B010
    return survey.survey_batch(batch)


def made(folder: Path, target: Path, engine: Engine, progress: Progress = silent) -> None:
    """Both passes."""
    writes = writer_of("hpctoolkit-release")
    assert isinstance(writes, Writes)
    with executor(engine) as workers:
        writer = writes.open_writer(target, WriteOptions())
        run_conversion(Request(Inputs((folder,), is_foreign=True)), writer, workers, target, progress)


@pytest.mark.parametrize(("stage", "how"), [("survey_batch", die), ("work_off", die), ("work_off", work_off_and_die)])
def test_a_worker_that_dies(
    stage: str, how: Callable[..., object], measurements: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversion, stage, how)
    with pytest.raises(CallgroveError, match="a worker process died"):
        made(measurements, tmp_path / "made.d", Engine(2))
    assert list(tmp_path.iterdir()) == []


def full_disk(task: Task) -> Done:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_disk_that_is_full(measurements: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversion, "work_off", full_disk)
    with pytest.raises(
        CallgroveError, match=r"made.d: cannot be written: No space left on device; nothing was changed"
    ):
        made(measurements, tmp_path / "made.d", Engine(2))
    assert list(tmp_path.iterdir()) == []


def test_workers_that_do_not_see_the_target(
    measurements: Path, alone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They send what they make."""
    monkeypatch.setattr(conversion, "survey_batch", never_seen)
    monkeypatch.setattr(inputs, "BATCH_FILES", 3)
    made(measurements, tmp_path / "made.d", Engine(2))
    same(alone, tmp_path / "made.d")
    nothing_beside(tmp_path / "made.d")


def test_meetings(tmp_path: Path) -> None:
    """A folder of the same name elsewhere is not the same folder."""
    pool = Workers(ThreadPoolExecutor(1), 1)
    with spool.meeting(tmp_path / "made.d", pool) as place:
        assert place is not None
        assert place.is_seen()
        assert not Meeting(place.folder, "another word").is_seen()
        assert not Meeting(str(tmp_path / "elsewhere"), place.word).is_seen()
        task = Task(replace(place, word="another"), 0, (), ())
        with pytest.raises(CallgroveError, match="a worker does not see this folder"):
            conversion.work_off(task)
        (Path(place.folder) / "7.spool").write_bytes(b"what a worker left")
    assert list(tmp_path.iterdir()) == []
    with spool.meeting(tmp_path / "made.d", Workers(None, 1)) as place:
        assert place is None


@pytest.mark.parametrize("kept_bytes", [0, conversion.KEPT_BYTES])
def test_a_trace_that_vanishes_between_the_passes(
    kept_bytes: int, measurements: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Path(shutil.copytree(measurements, tmp_path / "m"))

    def vanish(request: Request, survey: Survey, progress: Progress) -> Prepared:
        for victim in folder.glob("*.hpctrace" if kept_bytes else "*.hpcrun"):
            victim.unlink()
        return prepare(request, survey)

    monkeypatch.setattr(conversion, "prepare", vanish)
    monkeypatch.setattr(conversion, "KEPT_BYTES", kept_bytes)
    with pytest.raises(CallgroveError, match="cannot be read"):
        made(folder, tmp_path / "made.d", Engine(1))
    assert [p.name for p in tmp_path.iterdir()] == ["m"]


def test_a_trace_that_grows_between_the_passes(
    measurements: Path, alone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is no room for more samples in the target: those are taken that were there first."""

    def grow(request: Request, survey: Survey, progress: Progress) -> Prepared:
        for victim in sorted(folder.glob("app-*.hpctrace"))[::2]:
            content = victim.read_bytes()
            victim.write_bytes(content + content[-12:] * 7)
        return prepare(request, survey)

    monkeypatch.setattr(conversion, "prepare", grow)
    monkeypatch.setattr(inputs, "BATCH_FILES", 3)
    for jobs in (1, 2):
        folder = Path(shutil.copytree(measurements, tmp_path / f"{jobs}.m"))
        made(folder, tmp_path / f"{jobs}.d", Engine(jobs))
    same(tmp_path / "1.d", tmp_path / "2.d")
    same(tmp_path / "1.d", alone)


def test_what_is_kept_between_the_passes_does_not_matter(
    measurements: Path, alone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for kept_bytes in (0, 100_000):
        monkeypatch.setattr(conversion, "KEPT_BYTES", kept_bytes)
        made(measurements, tmp_path / f"{kept_bytes}.d", Engine(1))
        same(alone, tmp_path / f"{kept_bytes}.d")
