"""What to run on, and workers of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from callgrove.errors import Parameter, UsageError
from callgrove.execute.clusters import dask_workers, mpi_workers
from callgrove.execute.processes import process_workers, usable_cores
from callgrove.execute.workers import IN_PROCESS, LateWorkers, Workers

__all__ = ["Engine", "executor", "executor_when_needed"]


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
    """Workers of an engine, for as long as the context is open. In the worker processes of MPI it raises SystemExit
    when the work is over. `preload` are modules with all that a pool of processes will need: they are imported once
    for all, while this process goes on, and the program that started all this is not imported again."""
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


@contextmanager
def executor_when_needed(engine: Callable[[], Engine], preload: Sequence[str] = ()) -> Iterator[Workers]:
    """The same for who does not know whether there will be work for several: the engine is asked for, and workers are
    started, with the first of it. Not for MPI."""
    with ExitStack() as started:
        yield LateWorkers(lambda: started.enter_context(executor(engine(), preload)))
