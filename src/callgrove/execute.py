"""The same work on one core, on a pool of processes, on MPI or on Dask.

    with executor(Engine(jobs=4)) as workers:
        for tree in workers.map(read_tree, paths):                 results in the order of the items
            ...
        tree = workers.reduce(read_tree, merge_trees, paths)       merged on the workers, pair by pair

Functions and what they take and give are pickled, so functions are those of modules, and paths are absolute: workers
may have another current folder. Only a few tasks per worker are handed out at a time, however many items there are.

`reduce` combines in a tree whose shape depends on the number of items alone. So its result is the same, to the byte, on
every engine and for every number of workers, even where combining is not exactly associative (sums of doubles):

    items     0   1   2   3   4   5   6
               \\ /     \\ /     \\ /    |
                *       *       *    |
                 \\     /         \\  /
                    *              *
                      \\          /
                            *

Under MPI every process runs the whole program. Enter `executor` before anything else is done: the processes that are
workers stay inside until the work is over, and end there.
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
import re
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.forkserver import ensure_running
from types import ModuleType
from typing import Any, Generic, TypeVar

from callgrove._version import __version__
from callgrove.errors import CallgroveError, MissingExtra, UsageError

__all__ = ["IN_PROCESS", "Engine", "Progress", "Workers", "executor", "silent", "usable_cores"]

Item = TypeVar("Item")
Result = TypeVar("Result")
Progress = Callable[[str, int, int], None]  # label, done, total

TASKS_PER_WORKER = 3  # handed out at a time: one that runs, and some so that nobody waits
BLOCKS_PER_WORKER = 4  # into which a reduction is split, so that the last ones end together
LARGEST_BLOCK = 64
DASK_TIMEOUT = "30s"
DASK_ADDRESS = re.compile(r"([a-z]+://)?(\[[0-9a-fA-F:.%]+\]|[^:/\s]+):\d+")


def silent(label: str, done: int, total: int) -> None:
    """Progress that nobody watches."""


def usable_cores() -> int:
    """Cores that this process may use, which may be fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@dataclass(frozen=True)
class Engine:
    """What to run on: `jobs` processes (one for each usable core where it is None), MPI, or the Dask scheduler at an
    address."""

    jobs: int | None = None
    mpi: bool = False
    dask: str = ""

    def __post_init__(self) -> None:
        if self.jobs is not None and self.jobs < 1:
            raise UsageError(f"work needs at least one process, not {self.jobs} (-j)")
        if (self.jobs is not None) + self.mpi + bool(self.dask) > 1:
            raise UsageError("choose one of -j, --mpi and --dask: they are three ways to do the same work")


@contextmanager
def executor(engine: Engine, preload: Sequence[str] = ()) -> Iterator[Workers]:
    """Workers of an engine, for as long as the context is open. In the worker processes of MPI it raises SystemExit
    when the work is over. `preload` are modules with all that a pool of processes will need: they are imported once
    for all, while this process goes on, and the program that started all this is not imported again."""
    if engine.mpi:
        with _mpi() as workers:
            yield workers
    elif engine.dask:
        with _dask(engine.dask) as workers:
            yield workers
    elif (engine.jobs or usable_cores()) == 1:
        yield Workers(None, 1)
    else:
        with _processes(engine.jobs or usable_cores(), preload) as workers:
            yield workers


class Workers:
    """Those who do the work: the tasks of an executor, or this process where there is none."""

    def __init__(self, pool: Executor | None, n_workers: int, are_near: bool = False) -> None:
        """`are_near`: are they on this machine, so that what one writes into a file is there for all others?"""
        self._pool, self.n_workers, self.are_near = pool, n_workers, are_near

    @property
    def are_elsewhere(self) -> bool:
        """Is the work done in other processes, so that what it needs is pickled for every task?"""
        return self._pool is not None

    def map(
        self,
        function: Callable[[Item], Result],
        items: Sequence[Item],
        *,
        label: str = "working",
        progress: Progress = silent,
    ) -> Iterator[Result]:
        """`function` of every item, in their order. The first error, in that order, ends it; what was handed out by
        then may still be worked on."""
        if self._pool is None:
            for done, item in enumerate(items, 1):
                yield function(item)
                progress(label, done, len(items))
            return
        handed_out: deque[Future[Result]] = deque()
        with _deaths():
            for done, item in enumerate(items, 1 - TASKS_PER_WORKER * self.n_workers):
                handed_out.append(self._pool.submit(function, item))
                if done > 0:
                    yield handed_out.popleft().result()
                    progress(label, done, len(items))
            while handed_out:
                yield handed_out.popleft().result()
                progress(label, len(items) - len(handed_out), len(items))

    def reduce(
        self,
        function: Callable[[Item], Result],
        combine: Callable[[Result, Result], Result],
        items: Sequence[Item],
        *,
        label: str = "working",
        progress: Progress = silent,
    ) -> Result | None:
        """`function` of every item, combined pair by pair, the left one always before the right one; None of none."""
        if not items:
            return None
        if self._pool is None:
            return _fold(function, combine, items, lambda done: progress(label, done, len(items)))
        return _Reduction(self._pool, self.n_workers, function, combine, items).run(
            lambda done: progress(label, done, len(items))
        )


IN_PROCESS = Workers(None, 1)


def _fold(
    function: Callable[[Item], Result],
    combine: Callable[[Result, Result], Result],
    items: Sequence[Item],
    report: Callable[[int], None] | None = None,
) -> Result:
    """The tree of the module's docstring in one process. At most log2(n) results are kept."""
    pending: list[tuple[int, Result]] = []  # (height, result); heights fall from left to right
    for done, item in enumerate(items, 1):
        height, result = 0, function(item)
        while pending and pending[-1][0] == height:
            height, result = height + 1, combine(pending.pop()[1], result)
        pending.append((height, result))
        if report is not None:
            report(done)
    _, result = pending.pop()
    while pending:
        result = combine(pending.pop()[1], result)
    return result


Node = tuple[int, int]  # height, number at that height


class _Reduction(Generic[Item, Result]):
    """One reduction on a pool. A task folds an aligned block of 2^k items; then tasks combine pairs of results."""

    def __init__(
        self,
        pool: Executor,
        n_workers: int,
        function: Callable[[Item], Result],
        combine: Callable[[Result, Result], Result],
        items: Sequence[Item],
    ) -> None:
        self._pool, self._function, self._combine, self._items = pool, function, combine, items
        self._most = TASKS_PER_WORKER * n_workers
        self._block = 1
        while self._block < LARGEST_BLOCK and len(items) > 2 * self._block * BLOCKS_PER_WORKER * n_workers:
            self._block *= 2
        self._counts = [-(-len(items) // self._block)]  # nodes at each height, the blocks first
        while self._counts[-1] > 1:
            self._counts.append(-(-self._counts[-1] // 2))
        self._running: dict[Future[Result], Node] = {}
        self._waiting: dict[Node, Result] = {}  # results whose neighbour is not there yet
        self._pairs: deque[tuple[Node, Result, Result]] = deque()

    def run(self, report: Callable[[int], None]) -> Result:
        n_blocks, started, done = self._counts[0], 0, 0
        top = (len(self._counts) - 1, 0)
        with _deaths():
            while top not in self._waiting:
                while len(self._running) < self._most and (self._pairs or started < n_blocks):
                    if self._pairs:  # first: it frees memory
                        node, left, right = self._pairs.popleft()
                        self._running[self._pool.submit(self._combine, left, right)] = node
                    else:
                        self._start(started)
                        started += 1
                for future in wait(self._running, return_when=FIRST_COMPLETED).done:
                    node = self._running.pop(future)
                    self._arrived(node, future.result())
                    if node[0] == 0:
                        done += len(self._items[node[1] * self._block : (node[1] + 1) * self._block])
                        report(done)
        return self._waiting.pop(top)

    def _start(self, block: int) -> None:
        items = self._items[block * self._block : (block + 1) * self._block]
        self._running[self._pool.submit(_fold, self._function, self._combine, items)] = (0, block)

    def _arrived(self, node: Node, result: Result) -> None:
        height, number = node
        while height + 1 < len(self._counts) and number == self._counts[height] - 1 and number % 2 == 0:
            height, number = height + 1, number // 2  # the last one, without a neighbour
        neighbour = (height, number ^ 1)
        if neighbour in self._waiting:
            other = self._waiting.pop(neighbour)
            left, right = (other, result) if number % 2 else (result, other)
            self._pairs.append(((height + 1, number // 2), left, right))
        else:
            self._waiting[height, number] = result


@contextmanager
def _deaths() -> Iterator[None]:
    """A worker that died is one error that says so."""
    try:
        yield
    except BrokenExecutor as error:
        raise CallgroveError(DIED) from error
    except Exception as error:
        if type(error).__name__ == "KilledWorker":  # Dask's, which has given up after several workers died
            raise CallgroveError(DIED) from error
        raise


DIED = "a worker process died before its work was done; if memory ran out, use fewer workers (-j) or more nodes"


# -- engines ---------------------------------------------------------------------------------------------------------


@contextmanager
def _processes(n: int, preload: Sequence[str]) -> Iterator[Workers]:
    """Fresh processes, which inherit no threads, locks or open files of this one. After an error they are ended at
    once: they may be in the middle of something long. (Tasks are not cancelled before: the pool would stumble over
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
    """A server that has imported what is needed, and from which processes are forked; where there is none, each
    process imports everything by itself."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = _LeanContext() if preload else multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["numpy", *preload])
    with _deaf():
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
def _deaf() -> Iterator[None]:
    """What is started inside ignores interruptions from its first moment on; it ends with this process."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _begin_to_work() -> None:
    """An interruption reaches the workers of a terminal as well; they end without a word. They also end when the
    process that they work for is gone, however that came about: nobody else would end them."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _imported(module: str) -> Any:
    """An optional package, untyped: whether it is installed must not matter to those who check types."""
    return importlib.import_module(module)


@contextmanager
def _mpi() -> Iterator[Workers]:
    try:
        world = _imported("mpi4py.MPI").COMM_WORLD
        comm_executor = _imported("mpi4py.futures").MPICommExecutor
    except (ImportError, RuntimeError) as error:  # RuntimeError: no MPI library was found
        if isinstance(error, ModuleNotFoundError):
            raise MissingExtra("mpi", "--mpi") from error
        reason = str(error).splitlines()[0]
        raise CallgroveError(f"--mpi: mpi4py is installed, but there is no MPI that it can use: {reason}") from error
    if world.Get_size() < 2:
        raise UsageError(
            "--mpi needs two processes or more, and this is one by itself; start it with `mpirun -n 4 callgrove ...`"
            " (under srun, `--mpi=pmix` or another kind that the MPI library knows)"
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
def _dask(address: str) -> Iterator[Workers]:
    if not DASK_ADDRESS.fullmatch(address):
        raise UsageError(f"--dask {address}: is not the address of a scheduler, like tcp://node1:8786")
    try:
        connect = _imported("distributed").Client
    except ImportError as error:
        raise MissingExtra("dask", "--dask") from error
    try:
        client = connect(address, timeout=DASK_TIMEOUT, set_as_default=False)
    except (OSError, ValueError) as error:  # ValueError: a protocol that Dask does not have
        raise CallgroveError(f"--dask {address}: no scheduler answers there: {error}") from error
    pool = client.get_executor(pure=False)
    try:
        yield Workers(pool, _ready(client, pool, address))
    finally:
        pool.shutdown(wait=False)  # takes back what is not done
        client.close()


def _ready(client: Any, pool: Executor, address: str) -> int:
    """How many tasks the cluster runs at a time. Its workers must be there, and must be able to run what we send."""
    try:
        client.wait_for_workers(1, timeout=DASK_TIMEOUT)
    except TimeoutError as error:
        raise CallgroveError(f"--dask {address}: the scheduler has no workers; start some (`dask worker`)") from error
    try:
        theirs = pool.submit(_our_version).result()
    except Exception as error:
        raise CallgroveError(f"--dask {address}: its workers cannot run callgrove: {error}") from error
    if theirs != __version__:
        raise CallgroveError(f"--dask {address}: its workers have callgrove {theirs}, and this is {__version__}")
    n_threads: int = sum(client.nthreads().values())
    return n_threads


def _our_version() -> str:
    return __version__
