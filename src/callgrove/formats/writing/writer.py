"""What writers of experiments have in common: the order of calls, and that a failure of any of them leaves nothing.

call               what a format says
define   once      `_begin`: what is open from now on becomes `_open`
write    often     `_take`: what becomes of a chunk
flush    often     `_store`: what can be made durable before the end
close    once      `_finish`: all that is missing; then the target is moved into place
abort              `_give_up`: what is open is closed; then what was written is removed

Where `_begin` opens `_books`, what the writer is given is added up here; the writer adds up what it passes on, as late
as it can.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Generic, TypeVar

from callgrove.binary.sources import Source
from callgrove.errors import RefusedInput, UsageError
from callgrove.formats.interface import Chunk, LossReport, Match, ReadOptions, SampleChunk
from callgrove.formats.writing.targets import Pending
from callgrove.model.books import Books
from callgrove.model.experiment import Experiment
from callgrove.model.values import DenseBlock, SparseBlock

__all__ = ["TargetWriter", "WrittenOnly", "readable_sources"]

Place = TypeVar("Place", bound=Pending)
Opened = TypeVar("Opened")


class TargetWriter(ABC, Generic[Place, Opened]):
    """A target in the making. `_pending` is where it is made; `_open` is what is open between `define` and `close`."""

    takes_spans = False

    def __init__(self, pending: Place) -> None:
        self.target, self._pending = pending.target, pending
        self._report = LossReport()
        self._open: Opened | None = None
        self._books: Books | None = None

    @property
    def books(self) -> Books | None:
        """What was given and what was passed on, where the writer adds it up."""
        return self._books

    @contextmanager
    def _or_nothing(self) -> Iterator[None]:
        with self._pending.or_nothing(before=self._close_open):
            yield

    def _require_open(self) -> Opened:
        if self._open is None:
            raise UsageError(f"{self.target}: define comes first, and nothing after close")
        return self._open

    def define(self, tables: Experiment) -> None:
        with self._or_nothing():
            if self._open is not None:
                raise UsageError(f"{self.target}: define was called twice")
            self._begin(tables)

    def write(self, chunk: Chunk) -> None:
        with self._or_nothing():
            opened = self._require_open()
            if self._books is not None:
                _enter(self._books, chunk)
            self._take(opened, chunk)

    def flush(self) -> None:
        with self._or_nothing():
            self._store(self._require_open())

    def close(self) -> LossReport:
        with self._or_nothing():
            self._finish(self._require_open())
            self._pending.complete()
            self._open = None
        if self._books is not None:
            self._report.unexplained.extend(self._books.differences())
        return self._report

    def abort(self) -> None:
        self._close_open()
        self._pending.discard()

    def _close_open(self) -> None:
        opened, self._open = self._open, None
        if opened is not None:
            with suppress(OSError):  # a full disk refuses the last bytes once more
                self._give_up(opened)

    @abstractmethod
    def _begin(self, tables: Experiment) -> None:
        """Sets `_open` before anything is written to it, so that a failure closes it."""

    @abstractmethod
    def _take(self, opened: Opened, chunk: Chunk) -> None:
        """Values, samples or spans; what has no place goes into the report."""

    def _store(self, opened: Opened) -> None:
        """Nothing, where a target is complete or of no use."""

    @abstractmethod
    def _finish(self, opened: Opened) -> None:
        """The rest of the target; nothing is open afterwards."""

    @abstractmethod
    def _give_up(self, opened: Opened) -> None:
        """Closes what is open; some of it may be closed already."""


def _enter(books: Books, chunk: Chunk) -> None:
    """Add up what a writer is given."""
    if isinstance(chunk, SampleChunk):
        books.given.n_samples += len(chunk.samples)
    elif isinstance(chunk, SparseBlock | DenseBlock):
        books.given.totals.add(chunk)
    else:
        books.given.add_spans(chunk)


class WrittenOnly:
    """A format that nothing is recognised as: what it was made of holds more."""

    name: str
    title: str

    def match(self, source: Source) -> Match | None:
        return None

    def read(self, source: Source, options: ReadOptions) -> Experiment:
        raise UsageError(f"{source.path}: {self.name} can be written, but not read; open what it was made of")


def readable_sources(tables: Experiment, report: LossReport) -> Iterator[tuple[int, Path]]:
    """Yield the source files that lie as copies in the input, and where; what is refused goes into the report."""
    for file in tables.sources.copies:
        try:
            copy = tables.sources.path(file)
        except RefusedInput as error:
            report.add(f"source file: {error}")
            continue
        if copy is not None:
            yield file, copy
