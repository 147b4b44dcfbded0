"""Writes HPCToolkit databases of both generations in a stream.

Chunks may come in any order and any size, a profile or a line in one or in several; memory holds the tables and a
bounded number of values:

    define    where everything goes is decided, copies of sources are written
    write     values wait until there are `WAITING_ROWS` of them, then go to profile.db, one block per profile (the
              profile that came last waits on: more of it may follow); samples go to trace.db (trace_writer.py)
    close     profiles that came in several parts are put together; cct.db is made from profile.db, some contexts at a
              time (value_writers.py), and with it the summary, last in profile.db; the folder is moved into place

A stored summary profile is not copied but computed anew (`statistics`). Values of zero are not stored; others are
stored as they are, also when they are not finite. Equal values (same profile, context and metric) are added up.

Everything is written into a folder beside the target, which is renamed at the end: a failure leaves what was there.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, Protocol

import numpy as np

from callgrove.arrays import ABSENT, Bools, Ids, Ints
from callgrove.formats.hpctoolkit.column_formulas import held_formulas
from callgrove.formats.hpctoolkit.metric_plan import MetricPlan
from callgrove.formats.hpctoolkit.statistics import LexicalLoops
from callgrove.formats.hpctoolkit.stored_rows import PlacedTree, RowMaker, books_of
from callgrove.formats.hpctoolkit.trace_writer import TracesFile, TraceWriter
from callgrove.formats.hpctoolkit.value_writers import ProfileWriter, ValuesFile, write_context_major
from callgrove.formats.interface import Chunk, PackedSamples, SampleChunk, SampleLayout, SamplePlaces, WriteOptions
from callgrove.formats.writing.targets import FolderKind, PendingFolder
from callgrove.formats.writing.writer import TargetWriter, readable_sources
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Metric, Metrics
from callgrove.model.traces.events import LineBatch, Window
from callgrove.model.values import Block, DenseBlock, SparseBlock

__all__ = ["DATABASE", "DatabaseWriter", "Generation", "Written"]


WAITING_ROWS = 1 << 16
IDLE = np.array([ABSENT], np.int32)
REFUSED = "samples of metrics: only samples of contexts are stored"
EARLY = "samples before time 0: they are moved to 0"
DATABASE_FILES = ("meta.db", "experiment.xml", "profile.db", "cct.db")


@dataclass(frozen=True)
class Written:
    """What is known when all values and samples are written. `copies` maps files to where their copies lie in the
    database; `n_per_context` counts the values of each context id."""

    copies: dict[int, str]
    time_range: Window | None
    n_per_context: Ints


class Generation(Protocol):
    """What one generation decides about an experiment, and how it writes its tables."""

    always_traces: bool  # is there a trace.db even without samples?
    sample: np.dtype[Any]

    @property
    def tree(self) -> PlacedTree:
        """Where contexts go."""

    @property
    def plan(self) -> MetricPlan:
        """Where metrics go."""

    @property
    def n_ids(self) -> int:
        """One more than the highest context id."""

    def losses(self) -> Iterator[str]:
        """Yield what the database cannot hold."""

    def lexical_loops(self) -> LexicalLoops | None:
        """Return what the summary holds in lexical scope at loops; None where there is no such scope, or no loop."""

    def profiles_file(self) -> ValuesFile:
        """Return what profile.db has beside its blocks."""

    def contexts_file(self) -> ValuesFile:
        """Return what cct.db has beside its blocks; asked when all samples are there."""

    def traces_file(self) -> TracesFile:
        """Return what trace.db has beside its lines."""

    @property
    def ids_of_samples(self) -> Ints:
        """The id of every context that a sample may be on, and last that of idle samples."""

    def sample_ids(self, contexts: Ids) -> Ints:
        """Return the ids of contexts that samples are on; -1 is idle. The tables will have them."""

    def write_tables(self, folder: Path, written: Written) -> Iterator[str]:
        """Write all that is not values and samples, and yield the losses that only they show."""


@dataclass
class _Open:
    """What is there between `define` and `close`."""

    generation: Generation
    numbers: Ids  # of the model's profiles; ABSENT for stored summaries
    copies: dict[int, str]
    rows: RowMaker
    profiles: ProfileWriter
    traces: TraceWriter | None = None


class DatabaseWriter(TargetWriter[PendingFolder, _Open]):
    """A database in the making."""

    def __init__(self, target: Path, options: WriteOptions, generation: Callable[[Experiment], Generation]) -> None:
        super().__init__(PendingFolder(target, options.overwrite, DATABASE))
        self._progress, self._generation = options.progress, generation
        self._folder = self._pending.place
        self._waiting: list[SparseBlock] = []
        self._n_waiting = 0

    def keeps_formula(self, metric: Metric, metrics: Metrics) -> bool:
        """Return whether the formula can be a column over what a database stores."""
        return metric.name in held_formulas(metrics)

    def _begin(self, tables: Experiment) -> None:
        generation = self._generation(tables)
        measured = tables.profiles.measured
        numbers: Ids = np.full(len(tables.profiles), ABSENT, np.int32)
        numbers[measured] = np.arange(1, len(measured) + 1)
        for loss in generation.losses():
            self._report.add(loss)
        copies = self._copy_sources(tables)
        rows = RowMaker(tables.metrics, numbers, generation.tree, generation.plan)
        path, n_profiles = self._folder / "profile.db", len(measured) + 1
        file, loops = generation.profiles_file(), generation.lexical_loops()
        profiles = ProfileWriter(path, file, n_profiles, generation.n_ids, loops)
        self._open = _Open(generation, numbers, copies, rows, profiles)
        self._books = books_of(tables, generation.tree, generation.plan, generation.n_ids)
        samples = tables.traces.samples
        if generation.always_traces or (samples is not None and (samples.count[samples.metric < 0] > 0).any()):
            self._traces(self._open)

    def _copy_sources(self, tables: Experiment) -> dict[int, str]:
        """Copy source files into src/, and return where each lies. A copy that is not there is not promised."""
        out: dict[int, str] = {}
        for file, copy in readable_sources(tables, self._report):
            parts = PurePosixPath(tables.contexts.regions.files.paths[file]).parts
            inside = [part for part in parts if part != "/"]
            if ".." in inside:
                continue
            place = "/".join(["src", *inside])
            (self._folder / place).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(copy, self._folder / place)
            out[file] = place
        return out

    def _take(self, opened: _Open, chunk: Chunk) -> None:
        if isinstance(chunk, SampleChunk):
            self._take_samples(opened, chunk)
        elif isinstance(chunk, SparseBlock | DenseBlock):
            self._take_values(opened, chunk)
        else:
            self._report.add("spans: they are left out")

    def _take_values(self, opened: _Open, block: Block) -> None:
        rows = opened.rows.take(block)
        if len(rows):
            if self._books is not None and self._books.n_taken is not None:
                self._books.n_taken += np.bincount(rows.metric, minlength=len(self._books.n_taken))
            self._waiting.append(rows)
            self._n_waiting += len(rows)
        if self._n_waiting >= WAITING_ROWS:
            rows = SparseBlock.concatenate(self._waiting)
            others = np.flatnonzero(rows.profile != rows.profile[-1])
            end = int(others[-1]) + 1 if len(others) else len(rows)  # more of the last profile may follow
            self._waiting = [rows.take(np.arange(end, len(rows)))]
            self._n_waiting = len(rows) - end
            self._store_rows(opened, rows.take(slice(end)))

    def _store_waiting(self, opened: _Open, last: bool = False) -> None:
        rows = SparseBlock.concatenate(self._waiting)
        self._waiting, self._n_waiting = [], 0
        self._store_rows(opened, rows, last)

    def _store_rows(self, opened: _Open, rows: SparseBlock, last: bool = False) -> None:
        if len(rows) or last:
            opened.profiles.store(opened.rows.finish(rows), last)

    def _take_samples(self, opened: _Open, chunk: SampleChunk) -> None:
        line = np.array([chunk.profile], np.int32), np.array([chunk.metric], np.int32)
        self._take_lines(opened, LineBatch(*line, np.array([0, len(chunk.samples)]), chunk.samples))

    def write_lines(self, lines: LineBatch) -> None:
        with self._or_nothing():
            opened = self._require_open()
            if self._books is not None:
                self._books.given.n_samples += len(lines.samples)
            self._take_lines(opened, lines)

    def _take_lines(self, opened: _Open, lines: LineBatch) -> None:
        """Take whole lines. One without samples is none in either generation, and makes no trace.db."""
        profile, count = opened.numbers.take(lines.profile), lines.count
        refused = (lines.metric >= 0) | (profile < 0)
        kept = ~refused & (count > 0)
        time, context, early = lines.samples.time_ns, lines.samples.context, np.zeros(len(kept), np.bool_)
        if refused.any():
            chosen = np.repeat(kept, count)
            time, context = time[chosen], context[chosen]
            self._uncount(int(count[refused].sum()))
        before = np.append(0, np.cumsum(count[kept]))
        if len(time) and int(time.min()) < 0:
            early[kept] = np.minimum.reduceat(time, before[:-1]) < 0
            time = np.maximum(time, 0)
        self._report_lines((refused, REFUSED), (early, EARLY))
        if len(time):
            records = np.empty(len(time), opened.generation.sample)
            records["time"], records["ctx"] = time, opened.generation.sample_ids(context)
            self._traces(opened).store(profile[kept].astype(np.int64), before, records)

    def _report_lines(self, *losses: tuple[Bools, str]) -> None:
        """Report what is lost of some lines, by the first of them."""
        for _, text in sorted((int(np.argmax(lines)), text) for lines, text in losses if lines.any()):
            self._report.add(text)

    def _uncount(self, n_samples: int) -> None:
        """Leave samples that the report names out of the books."""
        if self._books is not None:
            self._books.given.n_samples -= n_samples

    def sample_layout(self) -> SampleLayout:
        generation = self._require_open().generation
        return SampleLayout(generation.sample, generation.ids_of_samples)

    def sample_places(self, counts: Ints) -> SamplePlaces | None:
        opened = self._require_open()
        return None if opened.traces is None else opened.traces.places(counts)

    def write_packed(self, samples: PackedSamples) -> None:
        with self._or_nothing():
            opened = self._require_open()
            if self._books is not None:
                size = samples.records.nbytes if isinstance(samples.records, np.ndarray) else samples.records.size
                self._books.given.n_samples += size // opened.generation.sample.itemsize
            profile = int(opened.numbers[samples.profile])
            if samples.has_idle:
                opened.generation.sample_ids(IDLE)
            if samples.ends is not None:
                self._traces(opened).append(profile, samples.records, samples.ends)
            if samples.measured is not None:
                self._traces(opened).widen(samples.measured)

    def _traces(self, opened: _Open) -> TraceWriter:
        if opened.traces is None:
            n_profiles = int(opened.numbers.max(initial=0)) + 1
            opened.traces = TraceWriter(self._folder / "trace.db", opened.generation.traces_file(), n_profiles)
        return opened.traces

    def _store(self, opened: _Open) -> None:
        """Write what waits to the files. They are not a database before `close`."""
        self._store_waiting(opened)
        opened.profiles.flush()
        if opened.traces is not None:
            opened.traces.flush()

    def _finish(self, opened: _Open) -> None:
        profiles, generation = opened.profiles, opened.generation
        self._store_waiting(opened, last=True)
        summarise = partial(self._summarise, opened)
        blocks, path = profiles.seal(), self._folder / "cct.db"
        counts = np.append(profiles.n_per_context, np.zeros(generation.n_ids - len(profiles.n_per_context), int))
        write_context_major(path, generation.contexts_file(), blocks, counts, summarise, self._progress)
        self._finish_tables(opened, counts)

    def _summarise(self, opened: _Open, rows: SparseBlock) -> None:
        """Write the summary of some contexts. It is made of what profile.db holds, so this is what was passed on."""
        context, metric, value = opened.profiles.summarise(rows, opened.generation.plan.statistics)
        assert self._books is not None
        self._books.passed.totals.add_rows(metric, context, value)

    def _finish_tables(self, opened: _Open, n_per_context: Ints) -> None:
        """Write the trace, and the tables, which say from when to when it goes and what only values and samples
        show."""
        opened.profiles.finish()
        traces = opened.traces
        if traces is not None:
            traces.finish()
            assert self._books is not None
            self._books.passed.n_samples = traces.n_samples
            if traces.disordered:
                self._report.add("samples that were not in the order of time: they are sorted")
        if opened.rows.rounded:
            self._report.add("integers above 2^53: they are rounded")
        written = Written(opened.copies, None if traces is None else traces.time_range, n_per_context)
        for loss in opened.generation.write_tables(self._folder, written):
            self._report.add(loss)

    def _give_up(self, opened: _Open) -> None:
        for part in (opened.profiles, opened.traces):
            if part is not None:
                with suppress(OSError):  # a full disk refuses the last bytes once more
                    part.close()
        self._waiting = []


def _is_database(folder: Path) -> bool:
    return any((folder / name).exists() for name in DATABASE_FILES)


DATABASE = FolderKind("a database", _is_database)
