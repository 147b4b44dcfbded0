"""What writers of experiments have in common: the order of calls, cleaning up after a failure, and losses in the same
words.

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
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import zip_longest
from pathlib import Path
from typing import Generic, TypeVar

import numpy as np

from callgrove.arrays import ABSENT, Array, Bools
from callgrove.binary.files import Source
from callgrove.errors import Parameter, RefusedInput, UsageError, compose_text
from callgrove.formats.interface import Chunk, LossReport, Match, ReadOptions, SampleChunk
from callgrove.formats.writing.targets import Pending
from callgrove.model.books import Books
from callgrove.model.derived import Refused
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Metric
from callgrove.model.runs import Run
from callgrove.model.traces.events import SideTable, Traces
from callgrove.model.values import DenseBlock, SparseBlock

__all__ = [
    "NOTHING_RENAMED",
    "NoPlace",
    "TargetWriter",
    "WrittenOnly",
    "group_lines",
    "is_told",
    "left_out_of",
    "losses_of_events",
    "losses_of_formulas",
    "losses_of_missing",
    "losses_of_runs",
    "losses_of_sides",
    "losses_of_tables",
    "n_devices_with_facts",
    "readable_sources",
    "some",
]


# -- the writer --------------------------------------------------------------------------------------------------------


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
        """Begin the target. Set `_open` before anything is written to it, so that a failure closes it."""

    @abstractmethod
    def _take(self, opened: Opened, chunk: Chunk) -> None:
        """Take values, samples or spans; what has no place goes into the report."""

    def _store(self, opened: Opened) -> None:
        """Write what waits; where nothing can wait, do nothing."""

    @abstractmethod
    def _finish(self, opened: Opened) -> None:
        """Write the rest of the target; nothing is open afterwards."""

    @abstractmethod
    def _give_up(self, opened: Opened) -> None:
        """Close what is open; some of it may be closed already."""


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


# -- losses that several formats have ----------------------------------------------------------------------------------


SHOWN = 5  # names in one sentence, and lines of one kind
LOST = "lost: "  # how notes about losses begin
NOTHING_RENAMED = compose_text(
    Parameter("kernel_rename", True),
    ": changes nothing, as no kernel here tells the range that it was launched in",
)


def some(names: Iterable[str]) -> str:
    """Return the first few of some names, each once."""
    different = list(dict.fromkeys(names))
    more = f" and {len(different) - SHOWN} more" if len(different) > SHOWN else ""
    return ", ".join(different[:SHOWN]) + more


def group_lines(lines: Iterable[str]) -> list[str]:
    """Return lines with one instead of more than a few of one kind. `WHAT NAME: TEXT` are of one kind where only the
    name differs: it lists some names and counts the others. `WHAT: TEXT` are where only the text does: it counts
    them and gives the first."""
    out = list(dict.fromkeys(lines))
    return _merge(_merge(out, _sentence, _merge_names), _subject, _merge_texts)


def _merge(lines: list[str], key: Callable[[str], object], merge: Callable[[list[str]], str]) -> list[str]:
    """Merge lines with equal keys into one, at the place of the first, where there are more than a few."""
    groups: dict[object, list[str]] = {}
    for line in lines:
        groups.setdefault(key(line) if ": " in line else line, []).append(line)
    return [
        line
        for group in groups.values()
        for line in ([merge(group)] if len(group) > SHOWN and ": " in group[0] else group)
    ]


def _parts(line: str) -> tuple[list[str], str]:
    """Return the words before the colon, and the text behind it."""
    head, _, text = line.removeprefix(LOST).partition(": ")
    return head.split(" "), text


def _sentence(line: str) -> object:
    words, text = _parts(line)
    return line.startswith(LOST), words[0], text


def _subject(line: str) -> object:
    return line.startswith(LOST), tuple(_parts(line)[0])


def _merge_names(lines: list[str]) -> str:
    heads, text = [_parts(line)[0] for line in lines], _parts(lines[0])[1]
    n_shared = next(k for k, words in enumerate(zip_longest(*heads)) if len(set(words)) > 1)
    names = some(" ".join(head[n_shared:]) for head in heads)
    prefix = LOST if lines[0].startswith(LOST) else ""
    return f"{prefix}{' '.join([*heads[0][:n_shared], names])}: {text}"


def _merge_texts(lines: list[str]) -> str:
    prefix = LOST if lines[0].startswith(LOST) else ""
    head, text = _parts(lines[0])
    return f"{prefix}{' '.join(head)}: {len(lines)} of them, the first is {text}"


def losses_of_runs(runs: tuple[Run, ...], metrics: Collection[str] = ()) -> Iterator[str]:
    """Yield losses of formats that hold one run and not its parameters. Of `metrics` that are written, they cannot say
    that a run did not measure them."""
    if len(runs) > 1:
        yield f"runs: {len(runs)} become one"
    if any(run.parameters for run in runs):
        yield "parameters of runs"
    if gaps := sorted({name for run in runs for name in run.unmeasured if name in metrics}):
        yield f"which runs did not measure {some(gaps)}: absent reads as 0"


def losses_of_formulas(metrics: Iterable[Metric], what_it_has: str = "no place there") -> Iterator[str]:
    """Yield losses of derived metrics whose formulas a format cannot hold, and which have no values that could be
    written instead."""
    groups: dict[str, list[str]] = {}
    for metric in metrics:
        if metric.is_derived:
            groups.setdefault(_why_lost(metric, what_it_has), []).append(metric.name)
    for why, names in groups.items():
        different = dict.fromkeys(names)
        what = "derived metric" if len(different) == 1 else f"{len(different)} derived metrics"
        yield f"{what} {some(names)}: left out, as {why}"


def losses_of_missing(names: Sequence[str]) -> Iterator[str]:
    """Yield losses of metrics that nobody measured, in formats that would say they are 0."""
    if names:
        several, them = ("s", "them") if len(names) > 1 else ("", "it")
        yield f"metric{several} {some(names)}: left out, as nobody measured {them}"


def _why_lost(metric: Metric, what_it_has: str) -> str:
    if metric.has_values or isinstance(metric.derivation, NoPlace):
        return f"formulas of this kind have {what_it_has}, and values that do not add up cannot be stored"
    if isinstance(metric.derivation, Refused):
        return metric.derivation.reason
    return "formulas are not evaluated and have no place there"


class NoPlace(Refused):
    """A formula that a target cannot hold."""


def losses_of_events(traces: Traces) -> Iterator[str]:
    """Yield losses of formats that hold neither spans nor quantities over time."""
    if traces.n_spans:
        yield f"spans: {traces.n_spans:,} are left out"
    if traces.counters is not None and len(traces.counters):
        yield f"counters over time: {len(traces.counters):,} values are left out"


SIDES = {  # side tables, as a sentence names their rows
    "kernel": "grids, registers, numbers and queues of kernels",
    "copy": "ends and queues of copies",
    "alloc": "addresses, levels and devices of allocations",
    "argument": "arguments of calls",
    "stack": "call chains of calls",
    "counter": "counters of kernels",
    "flow": "flows that the input names",
    "message": "messages that calls send and receive",
    "extra": "values that no reader here knows (extras)",
    "event": "further columns of events",
    "event_text": "further texts of events",
    "region": "further columns of regions",
}
REST = {"flow": "names of flows"}  # what the columns that formats keep do not say
NOTHING: Mapping[str, Collection[str]] = {}
NAMES = ("name", "model_name", "vendor_name", "product_name", "user_name")  # what a device is known by
NUMBERS = ("absolute_index", "logical_index", "type_index")
BESIDE = {  # small tables that stand beside spans
    "queues": "names of queues",
    "code_objects": "code objects",
    "kernel_symbols": "symbols of kernels",
    "pmc_info": "descriptions of counters",
}


def losses_of_sides(traces: Traces, names: Collection[str], why: str) -> Iterator[str]:
    """Yield losses of formats that leave out side tables of spans: how many rows of each there are."""
    left_out: Counter[str] = Counter()
    for part in range(len(traces.parts())):
        left_out.update(left_out_of(traces, part, names))
    for words, n in left_out.items():
        yield f"{words}: {n:,} are left out; {why}"


def left_out_of(
    traces: Traces, part: int, names: Collection[str], kept: Mapping[str, Collection[str]] = NOTHING
) -> dict[str, int]:
    """Return how many rows of side tables of one part say something beside the columns that are `kept`."""
    n_rows = {
        name: sum(_n_told(piece, kept.get(name, ())) for piece in traces.side_chunks(name, part)) for name in names
    }
    words = {**SIDES, **{name: REST[name] for name in REST.keys() & kept.keys()}}
    return {words.get(name, f"rows of the table {name}"): n for name, n in n_rows.items() if n}


def _n_told(table: SideTable, kept: Collection[str]) -> int:
    """Return how many rows say something in other columns."""
    if not kept:
        return len(table.span)
    told = np.zeros(len(table.span), np.bool_)
    for cells in (cells for name, cells in table.columns.items() if name not in kept):
        told |= is_told(cells)
    return int(told.sum())


def is_told(cells: Array | Sequence[object]) -> Bools:
    """Return which cells of a side table say something: not -1, not empty."""
    array = cells if isinstance(cells, np.ndarray) else np.array([*cells, None], object)[:-1]
    if array.dtype.kind in "iuf":
        return np.asarray(array != ABSENT)
    return np.array([cell not in (None, "") for cell in array.tolist()], np.bool_)


def losses_of_tables(traces: Traces, why: str) -> Iterator[str]:
    """Yield losses of formats that have no place for what profilers say of queues, symbols and counters."""
    for name, words in BESIDE.items():
        if name in traces.tables and (n := len(traces.tables[name]())):
            yield f"{words}: {n:,} are left out; {why}"


def n_devices_with_facts(traces: Traces, part: int) -> int:
    """Return how many devices there are of which more is known than names and numbers."""
    known = {*NAMES, *NUMBERS}
    return sum(any(word not in known for word in device.attributes) for device in traces.devices(part))
