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

The modules, in the order to read them:

    workers.py  `map` and `reduce` on a pool, or in this process where there is none
    engines.py  what work is done on: this process, a pool of processes, MPI, Dask
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any

from callgrove.execute.workers import IN_PROCESS, LateWorkers, Progress, Workers, silent

if TYPE_CHECKING:
    from callgrove.execute.engines import Engine, executor, usable_cores

__all__ = ["IN_PROCESS", "Engine", "Progress", "Workers", "executor", "executor_when_needed", "silent", "usable_cores"]

_OF_ENGINES = ("Engine", "executor", "usable_cores")


def __getattr__(name: str) -> Any:
    """Return what starts workers, imported when first used: it needs much of the standard library, and few need it."""
    if name not in _OF_ENGINES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("callgrove.execute.engines"), name)


@contextmanager
def executor_when_needed(engine: Callable[[], Engine], preload: Sequence[str] = ()) -> Iterator[Workers]:
    """Give workers to a caller that does not know whether there will be work for several: the engine is asked for, and
    workers are started, with the first of it. Not for MPI."""
    with ExitStack() as started:

        def begin() -> Workers:
            from callgrove.execute.engines import executor

            return started.enter_context(executor(engine(), preload))

        yield LateWorkers(begin)
