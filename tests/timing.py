"""Time without a clock on the wall: what tests may say of it holds on every machine, quiet or busy.

Only the time of the processor is looked at, and only in proportion to other work on the same machine. What else runs
there only ever adds to it, so a comparison is repeated until it succeeds, a few times at most.
"""

from __future__ import annotations

import faulthandler
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache

__all__ = ["HANG_SEC", "assert_faster", "assert_linear", "bounded"]

HANG_SEC = 600.0  # a process that was started and does not end by then never will; nobody waits for this to pass
LONGEST = 500  # units: what a few kilobytes of input may take at most, a hundred times what they do take
TURNS = 6

Work = Callable[[], object]


def seconds(work: Work) -> float:
    """The time that the processor spends on it."""
    begin = time.process_time()
    work()
    return time.process_time() - begin


@cache
def unit() -> float:
    """Seconds of this machine for a fixed piece of work: a million steps of the interpreter."""

    def steps() -> None:
        for _ in range(1_000_000):
            pass

    return min(seconds(steps) for _ in range(3))


@contextmanager
def bounded(label: str) -> Iterator[None]:
    """Fail where the block takes much longer than any input deserves; a hang ends the process and shows where."""
    faulthandler.dump_traceback_later(HANG_SEC, exit=True)
    begin = time.process_time()
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()
    n_units = (time.process_time() - begin) / unit()
    assert n_units < LONGEST, f"{label}: took {n_units:.0f} times as long as a million steps"


def assert_linear(prepare: Callable[[int], Work], n: int, times: int = 4) -> None:
    """Check that `times` as much work takes about `times` as long, far less than its square. `prepare(n)` gives the
    work on n items; making them is not measured."""
    small, large = prepare(n), prepare(times * n)
    least = [float("inf"), float("inf")]
    for _ in range(TURNS):
        least = [min(before, seconds(work)) for before, work in zip(least, (small, large), strict=True)]
        if least[1] < 0.7 * times**2 * least[0]:
            return
    raise AssertionError(f"{times} times as much takes {least[1] / least[0]:.0f} times as long")


def assert_faster(work: Work, other: Work) -> None:
    """Check that one way takes less time than another one."""
    least = [float("inf"), float("inf")]
    for _ in range(TURNS):
        least = [min(before, seconds(way)) for before, way in zip(least, (work, other), strict=True)]
        if least[0] < least[1]:
            return
    raise AssertionError(f"takes {least[0] / least[1]:.1f} times as long as the other way")
