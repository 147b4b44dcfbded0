"""Every verb prints and writes the same, to the byte, whatever it runs on; and what it says when the engine breaks."""

from __future__ import annotations

import importlib.util
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from callgrove.binary.files import Source
from callgrove.cli.main import VERBS, load_command
from callgrove.cli.messages import with_flags
from callgrove.cli.options import ExecutionOptions
from callgrove.cli.parser import Parser
from callgrove.execute import workers
from callgrove.formats.gpu.formats import ROCPD, GpuFormat
from callgrove.formats.interface import ReadOptions
from callgrove.modeling import fitting
from callgrove.render import text_formats
from tests.cli.commands import Capture, said
from tests.cli.commands import run as run_verb
from tests.cli.test_summary_engines import process
from tests.execution import work
from tests.execution.test_clusters import HERE, free_port, mpirun, run, scheduler, wait_for, wait_for_workers
from tests.execution.verbs import run_all
from tests.exhaustive import exhaustive, some_of
from tests.formats.gpu.gpu_databases import write_rocpd
from tests.formats.hpcrun.hpcrun_bytes import File04
from tests.prof.making import MAIN, measured, nodes
from tests.requirements import ROOT, need
from tests.test_docs import fenced_lines
from tests.timing import HANG_SEC

__all__ = ["mpirun", "scheduler"]

N_FILES = 4
# Verbs without an engine: they read no experiment, or read one file as it is, or wait for somebody.
ALONE = {"formats", "dump", "completion", "demo", "rocpd", "view", "explore", "help", "watch", "mcp"}


def test_every_heavy_verb_takes_every_engine() -> None:
    for verb in VERBS:
        command = load_command(verb)
        parser = Parser(verb.name)
        command.add_arguments(parser)
        flags = {"-j", "--mpi", "--dask"} & set(parser._option_string_actions)
        assert (flags == {"-j", "--mpi", "--dask"}) == (verb.name not in ALONE), verb.name
        assert issubclass(command.options, ExecutionOptions) or not flags


def test_scripts_of_the_documentation_have_the_options_of_their_verbs() -> None:
    verbs = {verb.name: verb for verb in VERBS}
    lines = [line for _, line in fenced_lines((ROOT / "docs" / "cluster.md").read_text(), "bash")]
    told = [shlex.split(line.partition("callgrove ")[2]) for line in lines if "callgrove " in line]
    for name, *words in told:
        command = load_command(verbs[name])
        parser = Parser(name)
        command.add_arguments(parser)
        numbers = [word.replace("$SLURM_CPUS_PER_TASK", "64") for word in words]
        options = parser.read(numbers, command.options)
        assert options.mpi or options.dask == "$scheduler" or options.jobs == 64
    heavy = {"summary", "top", "tree", "hot", "export", "convert", "sql", "model", "check", "report", "prof", "merge"}
    assert heavy <= {name for name, *_ in told}


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Databases, measurement files and a study."""
    folder = tmp_path_factory.mktemp("inputs")
    (folder / "gpu").mkdir()
    for number in range(N_FILES):
        write_rocpd(folder / "gpu" / f"{number}.db", [process(number, 60)])
    for rank in range(N_FILES):
        tree = nodes((14, 12, 0, MAIN, 1), (16, 14, 1, 0x1000 + rank % 2, 1))
        measured(folder / "measured.m", File04(tree, values=((16, ((0, 0.1 * (rank + 1)),)),)), rank)
    (folder / "study.txt").write_text(study(10))
    return folder


def study(n_series: int) -> str:
    """Series over p and n, each of which grows in its own way."""
    points = [(p, n) for p in (2, 4, 8, 16, 32) for n in (10, 20, 30, 40, 50)]
    lines = ["PARAMETER p", "PARAMETER n", "POINTS " + " ".join(f"( {p} {n} )" for p, n in points), "METRIC time"]
    for k in range(n_series):
        lines.append(f"REGION f{k}")
        lines += [f"DATA {(k + 1) * 0.3 + p ** (k % 3) * n / 7:.9g}" for p, n in points]
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def alone(inputs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What one process prints and writes."""
    out = tmp_path_factory.mktemp("alone")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fitting, "SERIES_AT_ONCE", fitting.SERIES_AT_ONCE)  # run_all changes it
        run_all(inputs, out, ["-j", "1"])
    return out


def compare(out: Path, want: Path) -> None:
    """Compare all files of two folders, byte by byte. What names the folder itself is made equal."""
    names = [sorted(str(path.relative_to(root)) for path in root.rglob("*")) for root in (out, want)]
    assert names[0] == names[1]
    for name in names[0]:
        if (want / name).is_file():
            assert (out / name).read_bytes() == (want / name).read_bytes(), name


@exhaustive
def test_a_pool(inputs: Path, alone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fitting, "SERIES_AT_ONCE", fitting.SERIES_AT_ONCE)
    run_all(inputs, tmp_path, ["-j", "3"])
    compare(tmp_path, alone)


def test_dask(inputs: Path, alone: Path, scheduler: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fitting, "SERIES_AT_ONCE", fitting.SERIES_AT_ONCE)
    run_all(inputs, tmp_path, ["--dask", scheduler])
    compare(tmp_path, alone)


def test_mpi(inputs: Path, alone: Path, mpirun: str, tmp_path: Path) -> None:
    words = [sys.executable, "-m", "tests.execution.verbs", str(inputs), str(tmp_path)]
    code, _, err = run([mpirun, "-n", "4", *words])
    assert code == 0, err
    compare(tmp_path, alone)


# -- when something breaks: one sentence, and nothing half written -----------------------------------------------------


def export(inputs: Path, out: Path, *engine: str) -> list[object]:
    return ["export", inputs / "gpu", "--table", "spans", "-o", out / "spans.csv", *engine]


def test_a_worker_that_dies(capsys: Capture, inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_formats, "_csv_rows", work.die)
    (tmp_path / "spans.csv").write_text("as it was")
    assert said(capsys, *export(inputs, tmp_path, "-j", "2"), code=1) == with_flags(workers.DIED)
    assert [path.name for path in tmp_path.iterdir()] == ["spans.csv"]
    assert (tmp_path / "spans.csv").read_text() == "as it was"


@pytest.mark.parametrize("verb", some_of(["summary", "convert", "export"], lambda verb: verb == "export"))
def test_a_file_that_vanishes(verb: str, capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was there when the input was opened, and is not when a worker comes to read it."""
    folder = tmp_path / "gpu"
    folder.mkdir()
    for number in range(N_FILES):
        write_rocpd(folder / f"{number}.db", [process(number, 60)])
    read = ROCPD.read

    def read_and_lose(source: Source, options: ReadOptions) -> object:
        opened = read(source, options)
        (folder / "2.db").unlink()
        return opened

    monkeypatch.setattr(GpuFormat, "read", lambda _, source, options: read_and_lose(source, options))
    target: dict[str, list[object]] = {
        "convert": [tmp_path / "all.pftrace"],
        "export": ["--table", "spans", "-o", tmp_path / "spans.csv"],
    }
    words: list[object] = [verb, folder, *target.get(verb, []), "-j", "2"]
    assert "2.db" in said(capsys, *words, code=3)
    assert [path.name for path in tmp_path.iterdir()] == ["gpu"]


Cluster = tuple[str, int]  # the address of a scheduler, and its process


@pytest.fixture
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A scheduler of its own that may die, with two workers; it gives work of a dead worker to another one."""
    if importlib.util.find_spec("distributed") is None:
        need("dask", "Dask is not installed")
    folder = tmp_path_factory.mktemp("cluster")
    address = f"tcp://127.0.0.1:{(port := free_port())}"
    with ExitStack() as stack:
        log = stack.enter_context((folder / "log").open("a"))

        def start(program: str, *words: str) -> int:
            begun = subprocess.Popen(
                [sys.executable, "-m", f"distributed.cli.{program}", *words, *HERE],
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                cwd=folder,
                stdout=log,
                stderr=log,
            )
            stack.callback(begun.wait, HANG_SEC)
            stack.callback(begun.kill)
            return begun.pid

        pid = start("dask_scheduler", "--port", str(port))
        wait_for(port)
        for _ in range(2):
            start("dask_worker", address, "--nthreads", "1", "--no-nanny")
        wait_for_workers(address)
        yield address, pid


@exhaustive
def test_dask_repeats_the_work_of_a_worker_that_died(
    capsys: Capture, inputs: Path, alone: Path, cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And when the scheduler dies as well, one sentence says so."""
    address, pid = cluster
    monkeypatch.setattr(text_formats, "_csv_rows", partial(work.die_once, tmp_path / "died"))
    (tmp_path / "out").mkdir()
    run_verb(capsys, *export(inputs, tmp_path / "out", "--dask", address))
    assert (tmp_path / "died").exists()
    assert (tmp_path / "out" / "spans.csv").read_bytes() == (alone / "spans.out").read_bytes()

    monkeypatch.setattr(text_formats, "_csv_rows", partial(work.kill_and_wait, pid))
    (tmp_path / "out" / "spans.csv").unlink()
    assert said(capsys, *export(inputs, tmp_path / "out", "--dask", address), code=1) == workers.GONE
    assert list((tmp_path / "out").iterdir()) == []
