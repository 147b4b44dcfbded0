"""A pool of processes on this machine."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing.forkserver import ensure_running
from types import ModuleType
from typing import Any

from callgrove.execute.workers import Workers, keep_freed_memory

__all__ = ["process_workers", "usable_cores"]


def usable_cores() -> int:
    """Cores that this process may use, which may be fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextmanager
def process_workers(n: int, preload: Sequence[str]) -> Iterator[Workers]:
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
    keep_freed_memory()
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
