"""What goes to stderr (messages and progress), what an error means for the exit code, and what a signal that ends the
program leaves behind.

Messages of the library name its parameters; here they are spelled as flags. Every message is one line
`callgrove: ...`; what comes from files is made visible first, so that a hostile name cannot move the cursor or forge a
second line.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from shlex import quote
from time import monotonic
from types import FrameType
from typing import TYPE_CHECKING, Any

from callgrove.errors import CallgroveError, IncompleteResult, Parameter, PluginWarning, compose_text, spell
from callgrove.model.table import visible

if TYPE_CHECKING:
    from callgrove.formats.interface import LossReport

__all__ = [
    "Ended",
    "ProgressCallback",
    "exit_code_of",
    "flag",
    "note",
    "progress",
    "say_losses",
    "say_unexplained",
    "saying_broken_plugins",
    "settle_stdout",
    "tidy_ending",
    "with_flags",
]


# -- messages ----------------------------------------------------------------------------------------------------------


# A batch system that ends a job, or a terminal that closes, is like Ctrl-C: what was begun is taken back first.
#
# By default these signals end the program on the spot, and hidden folders and worker processes would stay behind.


SIGNALS = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]


class Ended(KeyboardInterrupt):
    """Somebody wants the program to end."""

    def __init__(self, number: int) -> None:
        super().__init__(f"ended by {signal.Signals(number).name}")
        self.exit_code = 128 + number  # as a shell reports it


@contextmanager
def tidy_ending() -> Iterator[None]:
    """Raise `Ended` when one of the signals arrives inside. Those that somebody handles or ignores already (nohup) are
    left alone."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    ours = [number for number in SIGNALS if signal.getsignal(number) == signal.SIG_DFL]
    for number in ours:
        signal.signal(number, _end)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)


def _end(number: int, frame: FrameType | None) -> None:
    signal.signal(number, signal.SIG_IGN)  # once is enough: taking back must not be cut short
    raise Ended(number)


WHEN_WRITING = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
INTERRUPTED = 130  # as a shell reports a program that Ctrl-C ended

# How the command line spells the parameters and methods of the library that messages name.
FLAGS = {
    "align": "--align",
    "along": "--along",
    "annotations": "--annotations",
    "bins": "--bins",
    "by": "--by",
    "conflict": "--conflict",
    "dask": "--dask",
    "depth": "--depth",
    "extrap_compat": "--extrap-compat",
    "flat": "--flat",
    "folder_pattern": "--folder-pattern",
    "from_format": "--from",
    "idle_threads": "--idle-threads",
    "is_foreign": "--foreign",
    "jobs": "-j",
    "kernel_names": "--kernel-names",
    "kernel_rename": "--kernel-rename",
    "limit": "--limit",
    "match": "--match",
    "metric": "-m",
    "mpi": "--mpi",
    "overwrite": "--force",
    "points_file": "--points",
    "processes": "--processes",
    "prunes": "--prune",
    "query": "--query",
    "rank_env": "--rank-env",
    "ranks": "--rank",
    "roots": "--root",
    "rules": "-R",
    "runs": "--run",
    "salvage": "--salvage",
    "chart": "--chart",
    "scaling": "--scaling",
    "scope": "--scope",
    "source_dirs": "--source-dir",
    "specification": "--spec",
    "strict": "--strict",
    "system": "--system",
    "to_format": "--to",
    "window": "--window",
    'export("contexts")': "`callgrove export --table contexts`",
    'export("series")': "`callgrove export --table series`",
    "sql_tables()": "`callgrove sql PATH --tables`",
    'summary(section="markers")': "`callgrove summary --section markers`",
}
PHRASES = {  # parameters with a value that have more than a flag
    Parameter("assume_noise", 0.01): "--assume-noise 1%",
    Parameter("dialect", "extended"): "--extended",
    Parameter("percentiles", False): "--no-percentiles",
    Parameter("points", ("p=4", "p=8")): "--point p=4 RUN",
    Parameter("ignore", ("unit",)): "--ignore unit",
}
QUOTED = ("folder_pattern",)  # whose values a shell would take for something else


def flag(parameter: Parameter) -> str:
    """Return what the command line calls a parameter of the library, with its value."""
    if parameter in PHRASES:
        return PHRASES[parameter]
    word = FLAGS.get(parameter.name, f"--{parameter.name.replace('_', '-')}")
    if parameter.value in (True, ...):
        return word
    return f"{word} {quote(str(parameter.value)) if parameter.name in QUOTED else parameter.value}"


def with_flags(text: str) -> str:
    """Return a text of the library as the command line says it."""
    return spell(text, flag)


def note(message: str) -> None:
    print(f"callgrove: {visible(with_flags(message))}", file=sys.stderr)


@contextmanager
def saying_broken_plugins() -> Iterator[None]:
    """Say what is wrong with plug-ins as everything else is said, whatever Python is told to do with warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", PluginWarning)
        show = warnings.showwarning

        def say(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
            if issubclass(category, PluginWarning):
                note(str(message))
            else:
                show(message, category, *where, **more)

        warnings.showwarning = say
        yield


def say_losses(report: LossReport, target: str, *, strict: bool) -> None:
    """Say what a target does not hold; with `strict`, what nothing explains is an error."""
    for loss in report.lines:
        note(compose_text("lost: ", loss))
    for hint in report.hints:
        note(hint)
    say_unexplained(report.unexplained)
    if strict and report.unexplained:
        raise IncompleteResult(f"{target}: was written, but does not hold all that it was given")


def say_unexplained(differences: Sequence[str]) -> None:
    """Say what should be equal and is not, though nothing is known to be lost."""
    for difference in differences:
        note(f"unexplained: {difference}; the input contradicts itself, or this is a bug: please report it")


def exit_code_of(error: BaseException, *, debug: bool) -> int:
    """Say on stderr what went wrong (with a traceback when debugging), and return the exit code."""
    if isinstance(error, BrokenPipeError):  # the reader of a pipe has seen enough: `callgrove ... | head`
        return 0
    if debug:
        import traceback

        traceback.print_exception(error)
    note(_describe_error(error))
    if isinstance(error, KeyboardInterrupt):
        return error.exit_code if isinstance(error, Ended) else INTERRUPTED
    return error.exit_code if isinstance(error, CallgroveError) else 1


def _describe_error(error: BaseException) -> str:
    if isinstance(error, CallgroveError):
        return error.message
    if isinstance(error, KeyboardInterrupt):
        return str(error) or "interrupted"
    if isinstance(error, MemoryError):
        return "not enough memory; choose fewer profiles (--rank, --thread) or use a larger node"
    if isinstance(error, OSError):
        return _sentence_of_system(error)
    text = f"{type(error).__name__}: {error}"
    if plugin := _plugin_at_fault(error):
        return f"this is a bug in the plug-in {plugin}: {text}; run again with --debug and report it to its authors"
    return f"this is a bug in callgrove: {text}; run again with --debug and report it"


def _plugin_at_fault(error: BaseException) -> str:
    """Return the package of the plug-in in whose code an error came up; where none was looked for, none is at fault."""
    if "callgrove.formats.plugins" not in sys.modules:
        return ""
    from callgrove.formats.plugins import package_at_fault
    from callgrove.formats.registry import plugins

    return package_at_fault(error, plugins())


def _sentence_of_system(error: OSError) -> str:
    reason = error.strerror or str(error) or type(error).__name__
    if error.filename is not None:
        return f"{os.fsdecode(error.filename)}: {reason}"
    if error.errno == errno.ENOENT:
        return "the current folder was removed; change to another one"
    if error.errno == errno.EBADF:
        return "stdout: is closed"
    return f"stdout: {reason}" if error.errno in WHEN_WRITING else reason  # files that are written have names


def settle_stdout() -> None:
    """Write what stdout still holds, or drop it: the interpreter would fail on it again when it ends."""
    try:
        sys.stdout.flush()
    except OSError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


# -- progress ----------------------------------------------------------------------------------------------------------
#     opening databases ━━━━━━━━━━━━━━━━━━━━╺━━━━━━━━━━━━━━━━━━━ 1030/2000 0:00:07
#
# Each label has a line of its own; all of them are drawn anew in place, and erased at the end.


ProgressCallback = Callable[[str, int, int | None], None]  # label, done, total (None: not known)

DELAY_S = 0.5
INTERVAL_S = 0.1  # between two drawings: the callback may come once per profile
BAR = 40  # cells
HIDE_CURSOR, SHOW_CURSOR = "\x1b[?25l", "\x1b[?25h"
ERASE_LINE, ERASE_BELOW = "\x1b[2K", "\x1b[J"
MAGENTA, GREEN, CYAN, DIM, PLAIN = (f"\x1b[{code}m" for code in (35, 32, 36, 2, 0))


@contextmanager
def progress() -> Iterator[ProgressCallback]:
    """Yield `progress(label, done, total)`; each label has its own bar. All bars vanish at the end.

    Leave the context before printing to stdout: both may be the same terminal.
    """
    if not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        yield _ignore_progress
        return
    bars = _Bars()
    try:
        yield bars.update
    finally:
        bars.stop()


def _ignore_progress(label: str, done: int, total: int | None) -> None:
    """Do nothing: stderr is not a terminal."""


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
        from callgrove.render.text_table import shorten

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
    """Return the size of the terminal, or the usual one if it tells none."""
    try:
        size = os.get_terminal_size(sys.stderr.fileno())
    except (OSError, ValueError):  # no file, as in a notebook
        size = os.terminal_size((0, 0))
    if size.columns and size.lines:
        return size
    import shutil  # it imports what archives need, and help needs none of it

    return shutil.get_terminal_size()
