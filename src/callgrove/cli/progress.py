"""A progress bar on stderr: on a terminal only, and only for what takes longer than half a second.

    opening databases ━━━━━━━━━━━━━━━━━━━━╺━━━━━━━━━━━━━━━━━━━ 1030/2000 0:00:07

Each label has a line of its own; all of them are drawn anew in place, and erased at the end.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic

from callgrove.model.table import visible

__all__ = ["ProgressCallback", "progress"]

ProgressCallback = Callable[[str, int, int | None], None]  # label, done, total (None: not known)

DELAY_S = 0.5
INTERVAL_S = 0.1  # between two drawings: the callback may come once per profile
BAR = 40  # cells
HIDE_CURSOR, SHOW_CURSOR = "\x1b[?25l", "\x1b[?25h"
ERASE_LINE, ERASE_BELOW = "\x1b[2K", "\x1b[J"
MAGENTA, GREEN, CYAN, DIM, PLAIN = (f"\x1b[{code}m" for code in (35, 32, 36, 2, 0))


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


@dataclass
class _Task:
    """What is known of one label, and since when."""

    label: str
    began: float
    first: int  # what was done by then
    done: int
    total: int | None

    def line(self, now: float, width: int, look: _Look) -> str:
        """Return a line of at most `width` cells, in which label and bar give way."""
        from callgrove.render.visible import shorten

        count = f"{self.done}/{'?' if self.total is None else self.total}"
        left = self._time_left(now)
        room = width - len(count) - len(left) - 4
        bar = min(BAR, max(room // 2, 0))
        label = shorten(self.label, max(room - bar, 1))
        share = min(self.done / self.total, 1.0) if self.total else 0.0
        return f"{label} {look.bar(share, bar)} {look.colour(GREEN, count)} {look.colour(CYAN, left)}"

    def _time_left(self, now: float) -> str:
        """Return how long the rest takes at the speed so far, as `0:01:30`."""
        if self.total is None or self.done <= self.first or now <= self.began:
            return "0:00:00" if self.done == self.total else "-:--:--"
        seconds = int((now - self.began) / (self.done - self.first) * max(self.total - self.done, 0) + 0.5)
        return f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}"


@dataclass(frozen=True)
class _Look:
    """What a terminal shows: colours unless nobody wants them, and lines where it has such characters."""

    has_colours: bool
    stroke: str

    @classmethod
    def of_terminal(cls) -> _Look:
        encoding = (getattr(sys.stderr, "encoding", None) or "utf-8").lower()
        return cls(not os.environ.get("NO_COLOR"), "━" if encoding.startswith("utf") else "-")

    def colour(self, code: str, text: str) -> str:
        return f"{code}{text}{PLAIN}" if self.has_colours else text

    def bar(self, share: float, width: int) -> str:
        filled = int(share * width)
        rest = self.stroke * (width - filled) if self.has_colours else " " * (width - filled)
        return self.colour(MAGENTA, self.stroke * filled) + self.colour(DIM, rest)


class _Bars:
    def __init__(self) -> None:
        self._next_drawing = monotonic() + DELAY_S
        self._tasks: dict[str, _Task] = {}
        self._n_lines = 0  # that stand on the terminal

    def update(self, label: str, done: int, total: int | None) -> None:
        now = monotonic()
        if now < self._next_drawing and (done != total or not self._n_lines):
            return
        self._next_drawing = max(self._next_drawing, now + INTERVAL_S)
        task = self._tasks.setdefault(label, _Task(visible(label), now, done, done, total))
        task.done, task.total = done, total
        self._draw(now)

    def _draw(self, now: float) -> None:
        size, look = _terminal_size(), _Look.of_terminal()
        shown = list(self._tasks.values())[-max(size.lines - 1, 1) :]
        lines = [f"{ERASE_LINE}{task.line(now, size.columns, look)}\n" for task in shown]
        self._put((self._up() or HIDE_CURSOR) + "".join(lines))
        self._n_lines = len(lines)

    def _up(self) -> str:
        """Return what leads back to the first line."""
        return f"\x1b[{self._n_lines}F" if self._n_lines else ""

    def stop(self) -> None:
        if self._n_lines:
            self._put(self._up() + ERASE_BELOW + SHOW_CURSOR)

    @staticmethod
    def _put(text: str) -> None:
        sys.stderr.write(text)
        sys.stderr.flush()


def _terminal_size() -> os.terminal_size:
    try:
        size = os.get_terminal_size(sys.stderr.fileno())
    except (OSError, ValueError):  # no file, as in a notebook
        return shutil.get_terminal_size()
    return size if size.columns and size.lines else shutil.get_terminal_size()  # some tell no size
