"""What was opened: how far opening is, and whether its files are still those that were opened.

Inputs are opened on a thread while the page shows how far it is. Before every answer the files are looked at again, at
most once a second: numbers of a file that was replaced, removed or is still being written would be those of no file at
all, so that such an input answers nothing until it is opened again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, RLock, Thread
from time import monotonic

from callgrove.binary.file_states import FileStates, look_at_files
from callgrove.errors import CallgroveError, InputError, compose_text
from callgrove.model.experiment import Experiment
from callgrove.model.study.series import Study
from callgrove.viewer.commands import Given
from callgrove.viewer.page import Choice
from callgrove.viewer.server.looks import Looks
from callgrove.viewer.server.timelines import Timelines

__all__ = ["Input", "Progress", "StaleInput", "Wanted"]

LOOK_AGAIN_S = 1.0
RECENT_S = 10.0  # a file that changed so lately is probably still written

OF_NEITHER = "numbers would be those of neither file, so open it again"

Opened = Experiment | Study
Progress = Callable[[str, int, int | None], None]


class StaleInput(InputError):
    """The files of an input are not those that were opened."""


@dataclass(frozen=True)
class Wanted:
    """Something to open: its paths, and how; and what of it is shown first."""

    paths: tuple[str, ...]
    open: Callable[[Progress], Opened]
    choice: Choice = field(default_factory=Choice)
    reading: str = ""  # how: an index of a timeline is that of files and of how they are read
    given: Given = field(default_factory=Given)  # what commands need to see the same of it


# -- files as they were ------------------------------------------------------------------------------------------------


def say_difference(before: FileStates, now: FileStates, since: float) -> str:
    """Return what happened to files, and what to do about it; empty where nothing did. `since` is the time of now in
    seconds."""
    for path, state in before.items():
        if path not in now:
            return f"{path}: was removed since it was opened; put it back, then open it again"
        if now[path] != state:
            if now[path][0] != state[0]:
                return f"{path}: was replaced since it was opened; {OF_NEITHER}"
            recent = since - now[path][2] / 1e9 < RECENT_S
            return f"{path}: {'is still being written' if recent else 'was changed since it was opened'}; {OF_NEITHER}"
    if added := now.keys() - before.keys():
        return f"{min(added)}: was added since the input was opened; open it again to see it"
    return ""


# -- an input ----------------------------------------------------------------------------------------------------------


@dataclass
class Input:
    """One input of a viewer. Whoever computes something of it holds its lock: readers of files are not made for several
    threads at once."""

    wanted: Wanted
    spell: Callable[[str], str] = str  # how parameters that errors name are called here
    lock: RLock = field(default_factory=RLock)
    settled: Event = field(default_factory=Event)
    error: CallgroveError | None = None
    looks: Looks | None = None
    was_open: bool = False  # once at least: what cannot be opened again may come back
    _progress: tuple[str, int, int | None] = ("opening", 0, None)
    _files: FileStates = field(default_factory=dict)
    _looked: float = 0.0
    _difference: str = ""

    def start(self) -> None:
        """Open the input on a thread of its own."""
        self.settled.clear()
        Thread(target=self._open, daemon=True, name=f"open {self.name}").start()

    def _open(self) -> None:
        with self.lock:
            self.close()
            self.error, self.looks, self._difference = None, None, ""
            try:
                self._files = look_at_files(self.wanted.paths)
                opened = self.wanted.open(self._report)
                timelines = self._make_timelines(opened)
                wanted = self.wanted
                self.looks = Looks(opened, wanted.paths, self.spell, wanted.choice, timelines, wanted.given)
                self.was_open = True
            except CallgroveError as error:
                self.error = error
            except Exception as error:  # of a thread: whoever asks hears of it
                self.error = InputError(f"{self.name}: this is a bug in callgrove: {type(error).__name__}: {error}")
            finally:
                self.settled.set()

    def _make_timelines(self, opened: Opened) -> Timelines | None:
        """Return the timelines of what was opened. Their indexes are built of what is opened for them, where there are
        files: readers are not made for several threads."""
        if not isinstance(opened, Experiment):
            return None
        has_files = any(Path(path).exists() for path in self.wanted.paths)
        again = self._open_again if has_files else None
        return Timelines(opened, self.wanted.paths, self.wanted.reading, again, self.lock)

    def _open_again(self) -> Experiment:
        opened = self.wanted.open(lambda label, done, total: None)
        assert isinstance(opened, Experiment)
        return opened

    def close(self) -> None:
        """Let go of the indexes of timelines, and stop building any."""
        if self.looks is not None and self.looks.timelines is not None:
            self.looks.timelines.close()

    def _report(self, label: str, done: int, total: int | None) -> None:
        self._progress = (label, done, total)

    @property
    def name(self) -> str:
        first, *more = self.wanted.paths
        return f"{Path(first).name} and {len(more)} more" if more else Path(first).name

    @property
    def has_failed(self) -> bool:
        """Whether it could not be opened even once."""
        return self.settled.is_set() and self.error is not None and not self.was_open

    @property
    def status(self) -> dict[str, object]:
        """How far opening is, for the page to show."""
        label, done, total = self._progress
        state = "opening" if not self.settled.is_set() else "failed" if self.error is not None else "ready"
        return {
            "name": self.name,
            "state": state,
            "doing": label,
            "done": done,
            "total": total,
            "error": self.spell(compose_text(self.error)) if self.error is not None else "",
        }

    def demand(self) -> Looks:
        """Return the input once it is open; refuse where it could not be opened, or is not what it was."""
        if not self.settled.is_set():
            raise InputError(f"{self.name}: is still being opened")
        if self.error is not None:
            raise self.error
        self._check_files()
        assert self.looks is not None
        return self.looks

    def _check_files(self) -> None:
        if monotonic() - self._looked > LOOK_AGAIN_S:
            from time import time

            self._difference = say_difference(self._files, look_at_files(self.wanted.paths), time())
            self._looked = monotonic()
        if self._difference:
            raise StaleInput(self._difference)
