"""Times that can be compared although the machine is shared: repeats in turn, and the best of each.

What else runs on the machine only ever adds time, so the least is the closest to what the work itself takes; taking
turns lets every candidate meet the same disturbances.
"""

from __future__ import annotations

import gc
import resource
import time
from collections.abc import Callable, Hashable, Mapping
from typing import TypeVar

__all__ = ["Work", "best_processor_seconds", "best_seconds", "processor_clock", "processor_seconds"]

Name = TypeVar("Name", bound=Hashable)
Work = Callable[[], object]


def best_seconds(
    works: Mapping[Name, Callable[[], Work]], n_repeats: int, clock: Callable[[], float] = time.perf_counter
) -> dict[Name, float]:
    """The least time of each work, after one round that warms the system's cache of files.

    Every turn prepares the work anew, which is not timed: a file that was just opened has no page mapped. Works that
    write files are timed by `processor_clock`: by the clock on the wall they wait for a disk that others write to.
    """
    best = dict.fromkeys(works, float("inf"))
    for turn in range(n_repeats + 1):
        for name, prepare in works.items():
            work = prepare()
            gc.collect()
            start = clock()
            result = work()
            seconds = clock() - start
            del work, result
            if turn:
                best[name] = min(best[name], seconds)
    return best


def best_processor_seconds(work: Work, n_repeats: int) -> float:
    """The least processor time of a work, after once that warms up: a ratio of such times holds on a busy machine."""
    work()
    return min(processor_seconds(work) for _ in range(n_repeats))


def processor_seconds(work: Work) -> float:
    """The processor time that a work takes, that of the processes which it starts and waits for included."""
    before = processor_clock()
    work()
    return processor_clock() - before


def processor_clock() -> float:
    """The processor time of this process, the system's work for it included, and of processes that it waited for."""
    mine, theirs = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return mine.ru_utime + mine.ru_stime + theirs.ru_utime + theirs.ru_stime
