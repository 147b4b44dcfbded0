"""The same bytes from real MPI processes and from a real Dask cluster; what they say when something is wrong."""

from __future__ import annotations

import importlib.util
import logging
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace

import pytest

from callgrove.cli.messages import with_flags
from callgrove.errors import CallgroveError, CorruptFile, UsageError
from callgrove.execute import Engine, executor, workers
from callgrove.execute import engines as clusters
from tests.execution import work
from tests.exhaustive import some_of
from tests.requirements import ROOT, need
from tests.timing import HANG_SEC

VERB = [sys.executable, "-m", "tests.execution.work", "sums"]
# What Open MPI wants from root, and where there are fewer cores than processes; other MPIs ignore it.
MPI_ENVIRONMENT = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
}
HERE = ("--host", "127.0.0.1", "--no-dashboard")
Answer = tuple[int, str, str]


def run(command: list[str]) -> Answer:
    """Exit code, stdout, stderr."""
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, **MPI_ENVIRONMENT},
        capture_output=True,
        text=True,
        timeout=HANG_SEC,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


# -- MPI -------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def mpirun() -> str:
    """The mpirun that belongs to the MPI that mpi4py finds."""
    if importlib.util.find_spec("mpi4py") is None:
        need("mpi", "mpi4py is not installed")
    beside = Path(sys.executable).parent
    found = shutil.which("mpirun", path=f"{beside}{os.pathsep}{os.environ.get('PATH', '')}")
    if found is None:
        need("mpi", "there is no mpirun")
    code, out, err = run([found, "-n", "2", sys.executable, "-c", "from mpi4py import MPI; print(MPI.COMM_WORLD.size)"])
    if (code, out.split()) != (0, ["2", "2"]):
        need("mpi", f"mpirun and mpi4py do not work together: {(out + err).strip()[:300]}")
    return found


@pytest.mark.parametrize("n_processes", some_of([2, 3], lambda n: n == 3))
def test_mpi_gives_the_same_bytes(mpirun: str, n_processes: int) -> None:
    code, out, err = run([mpirun, "-n", str(n_processes), *VERB, "--mpi", "--items", "77"])
    assert (code, out, err) == (0, f"{work.expected(77)} {n_processes - 1}\n", "")


@pytest.mark.parametrize(
    ("what", "place"), [("broken", "b.hpcrun: footer at byte 1024"), ("refuse", "a.hpcrun: header")]
)
def test_an_error_under_mpi_is_said_once(mpirun: str, what: str, place: str) -> None:
    """On a worker, or in the one process that goes on."""
    code, out, err = run([mpirun, "-n", "3", *VERB, "--mpi", "--do", what])
    ours = [line for line in err.splitlines() if line.startswith("callgrove:")]
    assert (code, out, len(ours)) == (CorruptFile.exit_code, "", 1)
    assert place in ours[0]
    assert "Traceback" not in err


def test_mpi_without_mpirun_is_refused(mpirun: str) -> None:
    code, out, err = run([*VERB, "--mpi"])
    assert (code, out) == (2, "")
    assert "start it with `mpirun -n 4 callgrove ...`" in err
    assert len(err.splitlines()) == 1


def test_a_process_that_dies_ends_an_mpi_run(mpirun: str) -> None:
    code, out, _ = run([mpirun, "-n", "3", *VERB, "--mpi", "--do", "deadly"])
    assert code != 0
    assert out == ""


# -- Dask ------------------------------------------------------------------------------------------------------------


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
    return port


def started(stack: ExitStack, log: Path, *words: str) -> None:
    """A process of a cluster, which ends with the stack."""
    out = stack.enter_context(log.open("a"))
    # It gives up a task with the first worker that dies of it.
    settings = {"DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "0", "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(
        [sys.executable, "-m", "distributed.cli." + words[0], *words[1:]],
        env={**os.environ, **settings},
        cwd=log.parent,
        stdout=out,
        stderr=out,
    )
    stack.callback(process.wait, HANG_SEC)
    stack.callback(process.terminate)


@pytest.fixture(scope="module")
def scheduler(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a Dask scheduler with two workers, all of them processes of their own."""
    if importlib.util.find_spec("distributed") is None:
        need("dask", "Dask is not installed")
    folder = tmp_path_factory.mktemp("dask")
    address = f"tcp://127.0.0.1:{(port := free_port())}"
    with ExitStack() as stack:
        started(stack, folder / "scheduler.log", "dask_scheduler", "--port", str(port), *HERE)
        wait_for(port)
        for _ in range(2):
            own = ("--nthreads", "1", "--local-directory", str(folder))
            started(stack, folder / "worker.log", "dask_worker", address, *HERE, *own)
        wait_for_workers(address)
        yield address


def wait_for_workers(address: str) -> None:
    """On a busy machine they come long after the scheduler, later than anybody else would wait for them."""
    with importlib.import_module("distributed").Client(address, timeout=HANG_SEC, set_as_default=False) as client:
        client.wait_for_workers(2, timeout=HANG_SEC)


def wait_for(port: int) -> None:
    end = time.monotonic() + HANG_SEC
    while time.monotonic() < end:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise AssertionError("the Dask scheduler did not start")


def test_dask_gives_the_same_bytes(scheduler: str) -> None:
    code, out, err = run([*VERB, "--dask", scheduler, "--items", "77"])
    assert (code, out.split()[:1], err) == (0, [work.expected(77)], "")


def test_connections_that_were_closed_on_purpose_are_no_news() -> None:
    said = logging.LogRecord("tornado.application", logging.ERROR, "", 0, "Exception in callback %r", ("",), None)
    assert clusters._is_news(said)
    said.args = ("<Future finished exception=CommClosedError('in <TCP (closed) ConnectionPool.gather>')>",)
    assert not clusters._is_news(said)


def test_an_error_on_dask_comes_back_as_it_is(scheduler: str) -> None:
    code, out, err = run([*VERB, "--dask", scheduler, "--do", "broken"])
    assert (code, out) == (CorruptFile.exit_code, "")
    assert err == "callgrove: b.hpcrun: footer at byte 1024: expected a magic, found zeros\n"


def test_a_dask_worker_that_dies_is_one_clear_error(scheduler: str) -> None:
    code, out, err = run([*VERB, "--dask", scheduler, "--do", "deadly", "--items", "5"])
    assert (code, out) == (1, "")
    assert [line for line in err.splitlines() if line.startswith("callgrove:")] == [
        f"callgrove: {with_flags(workers.DIED)}"
    ]


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clusters, "DASK_TIMEOUT", "1s")


@pytest.mark.usefixtures("impatient")
def test_no_scheduler() -> None:
    if importlib.util.find_spec("distributed") is None:
        need("dask", "Dask is not installed")
    silent = pytest.raises(CallgroveError, match=r"dask=.*: no scheduler answers there")
    with silent, executor(Engine(dask=f"tcp://127.0.0.1:{free_port()}")):
        pass


@pytest.mark.parametrize("address", ["node1", "nonsense://x", "127.0.0.1:x", "tcp://", ":8786", "tcp://a b:1"])
def test_no_address(address: str) -> None:
    with pytest.raises(UsageError, match="is not the address of a scheduler"), executor(Engine(dask=address)):
        pass


@pytest.mark.usefixtures("impatient")
def test_a_scheduler_without_workers(tmp_path: Path) -> None:
    if importlib.util.find_spec("distributed") is None:
        need("dask", "Dask is not installed")
    port = free_port()
    with ExitStack() as stack:
        started(stack, tmp_path / "scheduler.log", "dask_scheduler", "--port", str(port), *HERE)
        wait_for(port)
        engine = Engine(dask=f"tcp://127.0.0.1:{port}")
        with pytest.raises(CallgroveError, match="the scheduler has no workers"), executor(engine):
            pass


def test_workers_of_another_version_are_refused(scheduler: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clusters, "__version__", "99.0")
    wrong = pytest.raises(CallgroveError, match=r"its workers have callgrove \S+, and this is 99.0")
    with wrong, executor(Engine(dask=scheduler)):
        pass


def test_one_worker_of_another_version_is_refused() -> None:
    """It need not be the one that answers first."""

    class Client:
        def wait_for_workers(self, n: int, timeout: str) -> None:
            pass

        def run(self, function: Callable[[], str]) -> dict[str, str]:
            return {"tcp://a:1": function(), "tcp://b:1": "98.0"}

    with pytest.raises(CallgroveError, match=r"some of its workers have callgrove 98\.0, and this is "):
        clusters._ready(Client(), "tcp://node1:8786")


def test_a_client_that_dask_has_closed_is_not_asked_for_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a minute after the scheduler went away it refuses to take back tasks, and to hand out new ones."""

    class ClosedClientError(Exception):
        pass

    class Client:
        status = "closed"

        def __init__(self, address: str, **settings: object) -> None:
            pass

        def get_executor(self, pure: bool) -> Client:
            return self

        def refuse(self, *words: object, wait: bool = False) -> None:
            raise ClosedClientError("Client is closed. Can't send cancel-keys message.")

        shutdown = submit = refuse

        def close(self) -> None:
            pass

    monkeypatch.setattr(clusters, "_import_optional", lambda name: SimpleNamespace(Client=Client))
    monkeypatch.setattr(clusters, "_ready", lambda client, address: 1)
    gone = pytest.raises(CallgroveError, match="the scheduler of the cluster went away")
    with gone, executor(Engine(dask="tcp://node1:8786")) as pool:
        list(pool.map(str, [1, 2]))
