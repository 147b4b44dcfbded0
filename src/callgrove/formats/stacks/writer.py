"""The writer of all formats of this package: it reads costs itself when everything is defined."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from callgrove.arrays import Array
from callgrove.errors import Parameter, UsageError
from callgrove.formats.interface import Chunk, WriteOptions
from callgrove.formats.stacks.costs import Scale, WholeCosts
from callgrove.formats.writing.outputs import FileOutput
from callgrove.formats.writing.writer import TargetWriter, losses_of_events, losses_of_runs, some
from callgrove.model.books import Books
from callgrove.model.experiment import Experiment

__all__ = ["PIECES", "StackWriter", "in_pieces"]

PIECES = 1 << 12  # lines that are put together before they are written
ROUNDING = 1e-3  # of all costs: what lies below zero and is less is not a difference of two runs


def in_pieces(parts: Iterable[str]) -> Iterator[bytes]:
    """Yield many short texts as few longer ones."""
    waiting: list[str] = []
    for part in parts:
        waiting.append(part)
        if len(waiting) >= PIECES:
            yield "".join(waiting).encode("utf-8", "replace")
            waiting.clear()
    yield "".join(waiting).encode("utf-8", "replace")


class StackWriter(TargetWriter[FileOutput, Experiment]):
    """A file in the making. Values come from the experiment itself: several passes over them are needed, and scopes
    that may have to be computed."""

    reads_experiment = True

    def __init__(self, target: Path, options: WriteOptions, *, compressed: bool = False) -> None:
        super().__init__(FileOutput(target, options.overwrite, compressed=compressed))
        self._options = options
        self._ledgers: Books | None = None

    def _begin(self, tables: Experiment) -> None:
        self._open = tables
        self._ledgers = Books.of(tables.metrics)
        self._pending.open()

    def _take(self, tables: Experiment, chunk: Chunk) -> None:
        """Take nothing: all is read at the end."""

    def _finish(self, tables: Experiment) -> None:
        for data in self._make(tables):
            self._pending.write(data)
        self._books = self._ledgers

    def _give_up(self, tables: Experiment) -> None:
        """Leave it to the output, which closes its file."""

    @abstractmethod
    def _make(self, tables: Experiment) -> Iterator[bytes]:
        """Yield the bytes of the file, and say what is lost."""

    # -- books ---------------------------------------------------------------------------------------------------------

    def _give(self, what: str, costs: Array) -> None:
        """Add costs that are to be written to the books."""
        assert self._ledgers is not None
        numbers = costs.astype(np.float64, copy=False)
        self._ledgers.given.amount(what).enter(0, float(numbers.sum()), float(np.abs(numbers).sum()))

    def _pass_on(self, what: str, numbers: Array, scale: Scale, rest: float = 0.0) -> None:
        """Add whole numbers that were written to the books; `rest` is what a message accounts for."""
        assert self._ledgers is not None
        written = numbers.astype(np.float64) / scale.factor
        self._ledgers.passed.amount(what).enter(0, float(written.sum()) + rest, float(np.abs(written).sum()))

    # -- losses --------------------------------------------------------------------------------------------------------

    def _say_rounding(self, whole: WholeCosts, scale: Scale) -> None:
        if whole.rest:
            self._report.add(f"fractions of {scale.unit or 'numbers'}: whole numbers are written; their sum is rounded")

    def _say_losses(self, tables: Experiment, *, traces: bool = True) -> None:
        """Say what none of these formats holds; `traces`: what happened over time, too."""
        names = tables.metrics.quantities
        for loss in losses_of_runs(tables.runs, names):
            self._report.add(loss)
        if traces:
            if tables.traces.n_samples:
                self._report.add(f"samples over time: {tables.traces.n_samples:,} are left out")
            for loss in losses_of_events(tables.traces):
                self._report.add(loss)

    def _say_metrics(self, tables: Experiment, written: str) -> None:
        """Say which metrics a target with one number for each stack leaves out."""
        others = [name for name in tables.metrics.quantities if name != written]
        if others:
            self._report.add(f"metrics other than {written}: {some(others)}")

    def _without_negative(self, tables: Experiment, name: str, costs: Array) -> Array:
        """Return costs that are not below zero. Differences of runs are refused; what rounding left is written as 0."""
        below = costs < 0
        if not below.any():
            return costs
        loss, size = -float(costs[below].sum()), float(np.abs(costs.astype(np.float64)).sum())
        if loss > ROUNDING * size:
            raise UsageError(
                f"{self.target}: stacks cannot cost less than nothing, and {name} has costs below zero, as differences "
                "have; pprof and dot hold them (",
                Parameter("to_format", "pprof"),
                ")",
            )
        self._report.add(f"costs of {name} below zero: {int(below.sum()):,}, {-loss:g} in all, count as 0")
        return np.where(below, costs.dtype.type(0), costs)
