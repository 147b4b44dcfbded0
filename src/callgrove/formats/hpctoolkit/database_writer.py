"""Writes HPCToolkit databases of both generations in a stream; trace.db as samples come.

Chunks may come in any order and any size, a profile or a line in one or in several; memory holds the tables and a
bounded number of values:

    define    where everything goes is decided, copies of sources are written
    write     values wait until there are `WAITING_ROWS` of them, then go to profile.db, one block per profile (the
              profile that came last waits on: more of it may follow); samples go to trace.db
    close     profiles that came in several parts are put together; cct.db is made from profile.db, some contexts at a
              time (value_writers.py), and with it the summary, last in profile.db; the folder is moved into place

A stored summary profile is not copied but computed anew (`statistics`). Values of zero are not stored; others are
stored as they are, also when they are not finite. Equal values (same profile, context and metric) are added up.

Everything is written into a folder beside the target, which is renamed at the end: a failure leaves what was there.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, Protocol

import numpy as np

from callgrove.arrays import ABSENT, Array, Ids, Ints
from callgrove.binary.files import FileBytes, FilePart
from callgrove.formats.hpctoolkit.column_formulas import held_formulas
from callgrove.formats.hpctoolkit.metric_plan import MetricPlan
from callgrove.formats.hpctoolkit.statistics import LexicalLoops
from callgrove.formats.hpctoolkit.stored_rows import PlacedTree, RowMaker, books_of
from callgrove.formats.hpctoolkit.value_writers import ProfileWriter, ValuesFile, align, write_context_major
from callgrove.formats.interface import Chunk, PackedSamples, SampleChunk, SampleLayout, SamplePlaces, WriteOptions
from callgrove.formats.writing.targets import FolderKind, PendingFolder
from callgrove.formats.writing.writer import TargetWriter, readable_sources
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Metric, Metrics
from callgrove.model.traces.events import Window
from callgrove.model.values import Block, DenseBlock, SparseBlock

__all__ = ["DATABASE", "DatabaseWriter", "Generation", "TraceWriter", "TracesFile", "Written"]


# -- trace.db ----------------------------------------------------------------------------------------------------------
#     header, one record per measured profile     also where it has no samples
#     lines                                       (time, context) records
#     [footer]
#
# Samples of one profile may come in several parts. Parts that follow each other, in the file and in time, are one line
# at once; otherwise `finish` writes the file again with the parts of each line together, in the order of time.
#
# Others may write lines where `places` says that they would lie if all their samples were there. When such a line comes
# in, it is where it belongs, or is moved towards the beginning, because one before it became shorter.


Part = tuple[int, int, int]  # profile, start, end


class TracesFile(Protocol):
    """What a trace.db of one generation has beside its lines."""

    sample: np.dtype[Any]
    lines_at: int
    alignment: int
    footer: bytes

    def tables(self, start: Ints, end: Ints, time_range: Window) -> bytes:
        """Return everything before the first line, for lines that begin and end there."""


class TraceWriter:
    """trace.db in the making. `disordered` says whether samples had to be sorted."""

    def __init__(self, path: Path, written: TracesFile, n_profiles: int) -> None:
        self._path, self._written, self._n_lines = path, written, n_profiles - 1
        self.time_range: Window | None = None
        self.disordered = False
        self._begin()

    def _begin(self) -> None:
        self._file = self._path.open("wb")
        self._at = self._written.lines_at
        self._file.seek(self._at)
        self._parts: list[Part] = []
        self._last_time = 0

    def store(self, profile: int, samples: Array) -> None:
        """Append samples of a profile, as records of the file."""
        if not len(samples):
            return
        time = samples["time"]
        if (time[1:] < time[:-1]).any():
            self.disordered = True
            samples = samples[np.argsort(time, kind="stable")]
        self.append(profile, samples, (int(samples["time"][0]), int(samples["time"][-1])))

    def append(self, profile: int, samples: Array | FilePart, ends: Window) -> None:
        """Write samples that are in order; `ends` are the first and the last of their times."""
        first, last = ends
        if self._parts and self._parts[-1][0] == profile and first >= self._last_time:
            start = self._parts.pop()[1]
        else:
            start = self._align()
        if isinstance(samples, FilePart):
            samples.append_to(self._file)
            self._at += samples.size
        else:
            self._file.write(samples.data)
            self._at += samples.nbytes
        self._parts.append((profile, start, self._at))
        self._last_time = last
        self.widen(ends)

    def places(self, counts: Ints) -> SamplePlaces:
        """Return where lines of so many samples would lie, as long as none is there yet."""
        self._file.flush()
        at, sizes = self._at, counts * self._written.sample.itemsize
        offsets = np.zeros(len(counts), np.int64)
        for line, size in enumerate(sizes.tolist()):
            if size:
                offsets[line] = at = align(at, self._written.alignment)
                at += size
        return SamplePlaces(str(self._path.absolute()), offsets, counts)

    def widen(self, measured: Window) -> None:
        """Widen the times that the file announces, so that they contain these."""
        low, high = self.time_range or measured
        self.time_range = min(low, measured[0]), max(high, measured[1])

    def _align(self) -> int:
        """Go to where a line may begin."""
        start: int = align(self._at, self._written.alignment)
        self._file.write(bytes(start - self._at))
        self._at = start
        return start

    @property
    def n_samples(self) -> int:
        """How many samples are in the file."""
        return sum(end - start for _, start, end in self._parts) // self._written.sample.itemsize

    def flush(self) -> None:
        self._file.flush()

    def finish(self) -> None:
        """Fill in the tables and close the file. Without a sample no times are announced."""
        if not self._parts:
            self.time_range = None
        if len({profile for profile, _, _ in self._parts}) < len(self._parts):
            self._merge()
        self._align()
        self._file.write(self._written.footer)
        size = self._file.tell()
        if self._file.seek(0, os.SEEK_END) > size:  # lines were written further on, and moved
            self._file.truncate(size)
        start, end = self._places()
        self._file.seek(0)
        self._file.write(self._written.tables(start, end, self.time_range or (0, 0)))
        self._file.close()

    def _places(self) -> tuple[Ints, Ints]:
        """Return where the samples of each line begin and end; a line without samples lies where the next one
        begins."""
        start = np.full(self._n_lines, self._at)
        end = start.copy()
        for profile, first, last in self._parts:
            start[profile - 1], end[profile - 1] = first, last
        following = np.minimum.accumulate(start[::-1])[::-1] if self._in_order else start
        empty = start == end
        start[empty] = end[empty] = following[empty]
        return start, end

    @property
    def _in_order(self) -> bool:
        numbers = [profile for profile, _, _ in self._parts]
        return numbers == sorted(numbers)

    def _merge(self) -> None:
        self._file.close()
        parts_path = self._path.with_suffix(".parts")
        self._path.rename(parts_path)
        file, by_profile = FileBytes(parts_path), dict[int, list[tuple[int, int]]]()
        for profile, start, end in self._parts:
            by_profile.setdefault(profile, []).append((start, end))
        self._begin()
        sample = self._written.sample
        for profile, places in sorted(by_profile.items()):
            parts = [file.array(sample, (end - start) // sample.itemsize, start, "trace line") for start, end in places]
            self.store(profile, np.concatenate(parts, dtype=sample))  # which would become native otherwise
        parts_path.unlink()

    def close(self) -> None:
        """Give the file up, whatever is in it."""
        self._file.close()


# -- the writer --------------------------------------------------------------------------------------------------------


WAITING_ROWS = 1 << 16
IDLE = np.array([ABSENT], np.int32)
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
        generation = opened.generation
        profile = int(opened.numbers[chunk.profile])
        if chunk.metric >= 0 or profile < 0:
            self._report.add("samples of metrics: only samples of contexts are stored")
            self._uncount(chunk)
            return
        time = chunk.samples.time_ns
        if not len(time):
            return  # a line without samples is none in either generation, and makes no trace.db
        if int(time.min()) < 0:
            self._report.add("samples before time 0: they are moved to 0")
            time = np.maximum(time, 0)
        records = np.empty(len(time), generation.sample)
        records["time"], records["ctx"] = time, generation.sample_ids(chunk.samples.context)
        self._traces(opened).store(profile, records)

    def _uncount(self, chunk: SampleChunk) -> None:
        """Leave samples that the report names out of the books."""
        if self._books is not None:
            self._books.given.n_samples -= len(chunk.samples)

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
