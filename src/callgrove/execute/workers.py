"""Workers: they map and reduce tasks, with the same results to the byte on every engine."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np

from callgrove.errors import CallgroveError, Parameter, compose_text

if TYPE_CHECKING:
    from concurrent.futures import Executor, Future

__all__ = ["IN_PROCESS", "LateWorkers", "Progress", "Workers", "keep_freed_memory", "silent"]

Item = TypeVar("Item")
Result = TypeVar("Result")
Progress = Callable[[str, int, int], None]  # label, done, total

TASKS_PER_WORKER = 3  # handed out at a time: one that runs, and some so that nobody waits
BLOCKS_PER_WORKER = 4  # into which a reduction is split, so that the last ones end together
LARGEST_BLOCK = 64
LARGEST_KEPT = (32 << 20) - (1 << 16)  # bytes: the largest block that glibc learns from, with room for its own


def silent(label: str, done: int, total: int) -> None:
    """Do nothing: nobody watches the progress."""


def keep_freed_memory() -> None:
    """Have this process use freed memory again instead of giving it back to the system.

    Work on columns makes and drops arrays all the time. Beyond a limit, glibc gives their pages back and asks for them
    again, and the system clears each one; the limit follows the largest block that was freed so far. This block is
    never written to, so it takes no memory. Where the C library has other rules, nothing happens. What it saves is
    in `bench/RESULTS.md` (`freed memory`): 3 to 12% of the time that GPU databases take.
    """
    np.empty(LARGEST_KEPT, np.uint8)


class Workers:
    """Those who do the work: the tasks of an executor, or this process where there is none."""

    def __init__(self, pool: Executor | None, n_workers: int, are_near: bool = False) -> None:
        """Take the executor; `are_near` says that all are on this machine, so that each sees files of the others."""
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
        """Yield `function` of every item, in their order. The first error, in that order, ends it; what was handed out
        by then may still be worked on."""
        self._get_ready(len(items))
        for done, result in enumerate(self.stream(function, items), 1):
            yield result
            progress(label, done, len(items))

    def stream(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """Yield `function` of every item, in their order, as `map` does, where nobody knows how many there will be.
        Items are asked for when there is somebody to work on them."""
        if self._pool is None:
            keep_freed_memory()
            yield from map(function, items)
            return
        handed_out: deque[Future[Result]] = deque()
        with _explain_deaths():
            for item in items:
                handed_out.append(self._pool.submit(function, item))
                if len(handed_out) > TASKS_PER_WORKER * self.n_workers:
                    yield handed_out.popleft().result()
            while handed_out:
                yield handed_out.popleft().result()

    def reduce(
        self,
        function: Callable[[Item], Result],
        combine: Callable[[Result, Result], Result],
        items: Sequence[Item],
        *,
        label: str = "working",
        progress: Progress = silent,
    ) -> Result | None:
        """Return `function` of every item, combined pair by pair, the left one always before the right one; None of
        none."""
        if not items:
            return None
        self._get_ready(len(items))
        if self._pool is None:
            keep_freed_memory()
            return _fold(function, combine, items, lambda done: progress(label, done, len(items)))
        return _Reduction(self._pool, self.n_workers, function, combine, items).run(
            lambda done: progress(label, done, len(items))
        )

    def _get_ready(self, n_items: int) -> None:
        """Get the workers ready, before work is handed out."""


IN_PROCESS = Workers(None, 1)


class LateWorkers(Workers):
    """Workers that are there when there is work for several, and not before."""

    def __init__(self, begin: Callable[[], Workers]) -> None:
        super().__init__(None, 1)
        self._begin: Callable[[], Workers] | None = begin

    def _get_ready(self, n_items: int) -> None:
        if self._begin is not None and n_items > 1:
            begun, self._begin = self._begin(), None
            super().__init__(begun._pool, begun.n_workers, begun.are_near)


def _fold(
    function: Callable[[Item], Result],
    combine: Callable[[Result, Result], Result],
    items: Sequence[Item],
    report: Callable[[int], None] | None = None,
) -> Result:
    """Reduce in one process, in the order of the tree in the package's docstring. At most log2(n) results are kept."""
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
        from concurrent.futures import FIRST_COMPLETED, wait  # which whoever made the pool has imported

        n_blocks, started, done = self._counts[0], 0, 0
        top = (len(self._counts) - 1, 0)
        with _explain_deaths():
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
                    self._receive(node, future.result())
                    if node[0] == 0:
                        done += len(self._items[node[1] * self._block : (node[1] + 1) * self._block])
                        report(done)
        return self._waiting.pop(top)

    def _start(self, block: int) -> None:
        items = self._items[block * self._block : (block + 1) * self._block]
        self._running[self._pool.submit(_fold, self._function, self._combine, items)] = (0, block)

    def _receive(self, node: Node, result: Result) -> None:
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
def _explain_deaths() -> Iterator[None]:
    """Turn the death of a worker, or of the scheduler of a cluster, into one error that says so."""
    from concurrent.futures import BrokenExecutor, CancelledError

    try:
        yield
    except BrokenExecutor as error:
        raise CallgroveError(DIED) from error
    except CancelledError as error:  # nobody here cancels what is waited for
        raise CallgroveError(GONE) from error
    except Exception as error:  # Dask's are known by name: it need not be there
        if type(error).__name__ == "KilledWorker":  # several workers died of the same task
            raise CallgroveError(DIED) from error
        if type(error).__name__ == "ClosedClientError":  # nothing can be handed out any more
            raise CallgroveError(GONE) from error
        raise


GONE = "the scheduler of the cluster went away, or the work was cancelled there, before it was done; run it again"
DIED = compose_text(
    "a worker process died before its work was done; if memory ran out, use fewer workers (",
    Parameter("jobs"),
    ") or more nodes",
)
