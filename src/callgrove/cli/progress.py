"""A progress bar on stderr: on a terminal only, and only for what takes longer than half a second."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING

from callgrove.model.table import visible

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

__all__ = ["ProgressCallback", "progress"]

ProgressCallback = Callable[[str, int, int | None], None]  # label, done, total (None: not known)

DELAY_S = 0.5
INTERVAL_S = 0.1  # between two drawings: the callback may come once per profile


@contextmanager
def progress() -> Iterator[ProgressCallback]:
    """Gives `progress(label, done, total)`; each label has its own bar. All bars vanish at the end.

    Leave the context before printing to stdout: both may be the same terminal.
    """
    if not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        yield _silent
        return
    bars = _Bars()
    try:
        yield bars.update
    finally:
        bars.stop()


def _silent(label: str, done: int, total: int | None) -> None:
    """Nobody watches."""


class _Bars:
    def __init__(self) -> None:
        self._next_drawing = monotonic() + DELAY_S
        self._display: Progress | None = None  # rich is imported when there is something to show
        self._tasks: dict[str, TaskID] = {}

    def update(self, label: str, done: int, total: int | None) -> None:
        now = monotonic()
        if now < self._next_drawing and done != total:
            return
        if self._display is None:
            if now < self._next_drawing:
                return
            self._display = _start_display()
        self._next_drawing = max(self._next_drawing, now + INTERVAL_S)
        if label not in self._tasks:
            self._tasks[label] = self._display.add_task(visible(label), total=total)
        self._display.update(self._tasks[label], completed=done, total=total)

    def stop(self) -> None:
        if self._display is not None:
            self._display.stop()


def _start_display() -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    # rich would otherwise send what verbs print on stdout through its own console, to stderr
    display = Progress(
        *columns, console=Console(stderr=True), transient=True, redirect_stdout=False, redirect_stderr=False
    )
    display.start()
    return display
