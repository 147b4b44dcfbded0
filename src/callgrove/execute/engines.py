"""Engines, on which work is done: this process, a pool of processes on this machine, MPI, Dask."""

from __future__ import annotations

import importlib
import logging
import multiprocessing
import os
import re
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.forkserver import ensure_running
from types import ModuleType
from typing import Any

from callgrove._version import __version__
from callgrove.errors import CallgroveError, MissingExtra, Parameter, UsageError
from callgrove.execute.workers import IN_PROCESS, Workers, keep_freed_memory

__all__ = [
    "Engine",
    "dask_workers",
    "executor",
    "mpi_workers",
    "process_workers",
    "usable_cores",
]


# -- a pool of processes on this machine -------------------------------------------------------------------------------


def usable_cores() -> int:
    """Return cores that this process may use, which may be fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextmanager
def process_workers(n: int, preload: Sequence[str]) -> Iterator[Workers]:
    """Yield fresh processes, which inherit no threads, locks or open files of this one. After an error they are ended
    at once: they may be in the middle of something long. (Tasks are not cancelled before: the pool would stumble over
    them.)"""
    pool = ProcessPoolExecutor(n, _start_of_processes(preload), initializer=_begin_to_work)
    try:
        yield Workers(pool, n, are_near=True)
    except BaseException:
        for process in list((pool._processes or {}).values()):
            process.terminate()
        pool.shutdown(wait=True)
        raise
    pool.shutdown(wait=True, cancel_futures=True)


def _start_of_processes(preload: Sequence[str]) -> Any:
    """Return a server that has imported what is needed, and from which processes are forked; where there is none, each
    process imports everything by itself."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = _LeanContext() if preload else multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["numpy", *preload])
    with _ignore_interruptions():
        ensure_running()
    return context


if sys.platform != "win32":
    from multiprocessing.context import ForkServerContext, ForkServerProcess

    class _LeanProcess(ForkServerProcess):
        """A process that does not import the main program. By default every worker does, before anything else: that
        may take long, and a script that does not ask for `__name__` would begin its work anew."""

        @staticmethod
        def _Popen(process_obj: Any) -> Any:  # noqa: N802
            program = sys.modules["__main__"]
            sys.modules["__main__"] = ModuleType("__main__")  # which came from nowhere
            try:
                return ForkServerProcess._Popen(process_obj)
            finally:
                sys.modules["__main__"] = program

    class _LeanContext(ForkServerContext):
        Process = _LeanProcess


@contextmanager
def _ignore_interruptions() -> Iterator[None]:
    """Ignore interruptions inside, so that processes started there do so from their first moment on; they end with this
    process."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _begin_to_work() -> None:
    """Prepare a worker process. An interruption reaches the workers of a terminal as well; they end without a word.
    They also end when the process that they work for is gone, however that came about: nobody else would end them."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    keep_freed_memory()
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


# -- workers on other machines: MPI, Dask ------------------------------------------------------------------------------


DASK_TIMEOUT = "30s"
MPI = Parameter("mpi", True)
DASK_ADDRESS = re.compile(r"([a-z]+://)?(\[[0-9a-fA-F:.%]+\]|[^:/\s]+):\d+")


def _import_optional(module: str) -> Any:
    """Return an optional package, untyped: whether it is installed must not matter to those who check types."""
    return importlib.import_module(module)


@contextmanager
def mpi_workers() -> Iterator[Workers]:
    try:
        world = _import_optional("mpi4py.MPI").COMM_WORLD
        comm_executor = _import_optional("mpi4py.futures").MPICommExecutor
    except (ImportError, RuntimeError) as error:  # RuntimeError: no MPI library was found
        if isinstance(error, ModuleNotFoundError):
            raise MissingExtra("mpi", MPI) from error
        reason = str(error).splitlines()[0]
        raise CallgroveError(MPI, f": mpi4py is installed, but there is no MPI that it can use: {reason}") from error
    if world.Get_size() < 2:
        raise UsageError(
            MPI,
            " needs two processes or more, and this is one by itself; start it with `mpirun -n 4 callgrove ...`"
            " (under srun, `--mpi=pmix` or another kind that the MPI library knows)",
        )
    with comm_executor(world, root=0) as pool:
        if pool is not None:
            try:
                yield Workers(pool, world.Get_size() - 1)
            finally:
                pool.shutdown(wait=True, cancel_futures=True)
    if pool is None:
        raise SystemExit(0)  # a worker: its part is done


@contextmanager
def dask_workers(address: str) -> Iterator[Workers]:
    if not DASK_ADDRESS.fullmatch(address):
        raise UsageError(Parameter("dask", address), ": is not the address of a scheduler, like tcp://node1:8786")
    try:
        connect = _import_optional("distributed").Client
    except ImportError as error:
        raise MissingExtra("dask", Parameter("dask")) from error
    try:
        client = connect(address, timeout=DASK_TIMEOUT, set_as_default=False)
    except (OSError, ValueError) as error:  # ValueError: a protocol that Dask does not have
        raise CallgroveError(Parameter("dask", address), f": no scheduler answers there: {error}") from error
    logging.getLogger("distributed.client").setLevel(logging.CRITICAL)  # of a scheduler that went away, we tell
    pool = client.get_executor(pure=False)
    try:
        yield Workers(pool, _ready(client, address))
    finally:
        logging.getLogger("tornado.application").addFilter(_is_news)
        if client.status != "closed":  # as it is some time after the scheduler went away
            pool.shutdown(wait=False)  # takes back what is not done
        client.close()


def _is_news(record: logging.LogRecord) -> bool:
    """Return whether a message of Dask is news. It says of results that nobody waits for any more that their connection
    was closed, as it was meant to be."""
    return "CommClosedError" not in record.getMessage()


def _ready(client: Any, address: str) -> int:
    """Return how many tasks the cluster runs at a time. Its workers must be there, and all must be able to run what we
    send."""
    try:
        client.wait_for_workers(1, timeout=DASK_TIMEOUT)
    except TimeoutError as error:
        none = ": the scheduler has no workers; start some (`dask worker`)"
        raise CallgroveError(Parameter("dask", address), none) from error
    try:
        versions: set[str] = set(client.run(_our_version).values())
    except Exception as error:
        raise CallgroveError(Parameter("dask", address), f": its workers cannot run callgrove: {error}") from error
    if others := sorted(versions - {__version__}):
        whose = "its workers have" if len(versions) == len(others) else "some of its workers have"
        other = f": {whose} callgrove {', '.join(others)}, and this is {__version__}"
        raise CallgroveError(Parameter("dask", address), other)
    n_threads: int = sum(client.nthreads().values())
    return n_threads


def _our_version() -> str:
    return __version__


# -- engines -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Engine:
    """What to run on: `jobs` processes (one for each usable core where it is None), MPI, or the Dask scheduler at an
    address."""

    jobs: int | None = None
    mpi: bool = False
    dask: str = ""

    def __post_init__(self) -> None:
        if self.jobs is not None and self.jobs < 1:
            raise UsageError(f"work needs at least one process, not {self.jobs} (", Parameter("jobs"), ")")
        if (self.jobs is not None) + self.mpi + bool(self.dask) > 1:
            three = Parameter("jobs"), ", ", Parameter("mpi"), " and ", Parameter("dask")
            raise UsageError("choose one of ", *three, ": they are three ways to do the same work")


@contextmanager
def executor(engine: Engine, preload: Sequence[str] = ()) -> Iterator[Workers]:
    """Yield the workers of an engine, for as long as the context is open. In the worker processes of MPI it raises
    SystemExit when the work is over. `preload` are modules with all that a pool of processes will need: they are
    imported once for all, while this process goes on, and the program that started all this is not imported again."""
    if engine.mpi:
        with mpi_workers() as workers:
            yield workers
    elif engine.dask:
        with dask_workers(engine.dask) as workers:
            yield workers
    elif (engine.jobs or usable_cores()) == 1:
        yield IN_PROCESS
    else:
        with process_workers(engine.jobs or usable_cores(), preload) as workers:
            yield workers
