"""Workers on other machines: the processes of an MPI program, or those of a Dask cluster."""

from __future__ import annotations

import importlib
import logging
import re
from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from typing import Any

from callgrove._version import __version__
from callgrove.errors import CallgroveError, MissingExtra, Parameter, UsageError
from callgrove.execute.workers import Workers

__all__ = ["dask_workers", "mpi_workers"]

DASK_TIMEOUT = "30s"
MPI = Parameter("mpi", True)
DASK_ADDRESS = re.compile(r"([a-z]+://)?(\[[0-9a-fA-F:.%]+\]|[^:/\s]+):\d+")


def _imported(module: str) -> Any:
    """An optional package, untyped: whether it is installed must not matter to those who check types."""
    return importlib.import_module(module)


@contextmanager
def mpi_workers() -> Iterator[Workers]:
    try:
        world = _imported("mpi4py.MPI").COMM_WORLD
        comm_executor = _imported("mpi4py.futures").MPICommExecutor
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
        connect = _imported("distributed").Client
    except ImportError as error:
        raise MissingExtra("dask", Parameter("dask")) from error
    try:
        client = connect(address, timeout=DASK_TIMEOUT, set_as_default=False)
    except (OSError, ValueError) as error:  # ValueError: a protocol that Dask does not have
        raise CallgroveError(Parameter("dask", address), f": no scheduler answers there: {error}") from error
    pool = client.get_executor(pure=False)
    try:
        yield Workers(pool, _ready(client, pool, address))
    finally:
        logging.getLogger("tornado.application").addFilter(_is_news)
        pool.shutdown(wait=False)  # takes back what is not done
        client.close()


def _is_news(record: logging.LogRecord) -> bool:
    """Dask says of results that nobody waits for any more that their connection was closed, as it was meant to be."""
    return "CommClosedError" not in record.getMessage()


def _ready(client: Any, pool: Executor, address: str) -> int:
    """How many tasks the cluster runs at a time. Its workers must be there, and must be able to run what we send."""
    try:
        client.wait_for_workers(1, timeout=DASK_TIMEOUT)
    except TimeoutError as error:
        none = ": the scheduler has no workers; start some (`dask worker`)"
        raise CallgroveError(Parameter("dask", address), none) from error
    try:
        theirs = pool.submit(_our_version).result()
    except Exception as error:
        raise CallgroveError(Parameter("dask", address), f": its workers cannot run callgrove: {error}") from error
    if theirs != __version__:
        other = f": its workers have callgrove {theirs}, and this is {__version__}"
        raise CallgroveError(Parameter("dask", address), other)
    n_threads: int = sum(client.nthreads().values())
    return n_threads


def _our_version() -> str:
    return __version__
