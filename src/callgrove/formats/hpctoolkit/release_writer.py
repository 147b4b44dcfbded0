"""Writes released HPCToolkit databases: meta.db, profile.db, cct.db [, trace.db], metrics/default.yaml [, src/].

Specification: hpctoolkit-databases.md B.9. Chunks may come in any order and any size, a profile or a line in one or in
several; memory holds the tables and a bounded number of values:

    define    meta.db, metrics/default.yaml and copies of sources are written
    write     values wait until there are `WAITING_ROWS` of them, then go to profile.db, one block per profile (the
              profile that came last waits on: more of it may follow); samples go to trace.db
    close     profiles that came in several parts are put together; cct.db is made from profile.db, some contexts at a
              time (`context_major`), and with it the summary, last in profile.db; the folder is moved into place

A stored summary profile is not copied but computed anew, as sums. Values of zero are not stored; others are stored as
they are, also when they are not finite. Equal values (same profile, context and metric) are added up.

Everything is written into a folder beside the target, which is renamed at the end: a failure leaves what was there.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath

import numpy as np

from callgrove.errors import RefusedInput, UsageError
from callgrove.formats.hpctoolkit import release_records as rec
from callgrove.formats.hpctoolkit.columns_writer import columns_text
from callgrove.formats.hpctoolkit.context_major import write_context_major
from callgrove.formats.hpctoolkit.meta_db_writer import write_meta_db
from callgrove.formats.hpctoolkit.profile_writer import ProfileWriter
from callgrove.formats.hpctoolkit.release_losses import DESCRIPTION, losses_of
from callgrove.formats.hpctoolkit.release_plan import FileTree, MetricPlan
from callgrove.formats.hpctoolkit.release_rows import RowMaker
from callgrove.formats.hpctoolkit.release_words import COLUMNS_FILE
from callgrove.formats.hpctoolkit.trace_writer import TraceWriter
from callgrove.formats.interface import Chunk, LossReport, SampleChunk, WriteOptions
from callgrove.formats.targets import PendingFolder
from callgrove.model.arrays import ABSENT, Ids, Ints
from callgrove.model.contexts import ContextKind
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Metrics
from callgrove.model.values import Block, DenseBlock, SparseBlock

__all__ = ["ReleaseWriter"]

WAITING_ROWS = 1 << 18
NO_ACTIVITY = "<no activity>"  # the context that idle samples of pre-release databases are on
DATABASE_FILES = ("meta.db", "experiment.xml", "profile.db", "cct.db")
MOST_ID_NAMES = 0xFF


class ReleaseWriter:
    """A database in the making. A failure of any call removes everything that was written."""

    takes_spans = False

    def __init__(self, target: Path, options: WriteOptions) -> None:
        self.target, self._options = target, options
        if options.dialect:
            raise UsageError(f"released databases have no dialects; leave out {options.dialect!r}")
        self._pending = PendingFolder(target, options.overwrite, _is_database, "a database")
        self._folder = self._pending.place
        self._report = LossReport()
        self._profiles: ProfileWriter | None = None
        self._traces: TraceWriter | None = None
        self._waiting: list[SparseBlock] = []
        self._n_waiting = 0

    @contextmanager
    def _or_nothing(self) -> Iterator[None]:
        with self._pending.or_nothing(before=self.abort):
            yield

    def define(self, tables: Experiment) -> None:
        with self._or_nothing():
            if self._profiles is not None:
                raise UsageError(f"{self.target}: define was called twice")
            self._define(tables)

    def _define(self, tables: Experiment) -> None:
        tree, plan = FileTree.of(tables.contexts), MetricPlan.of(tables.metrics)
        profiles, measured = tables.profiles, tables.profiles.measured
        self._numbers: Ids = np.full(len(profiles), ABSENT, np.int32)
        self._numbers[measured] = np.arange(1, len(measured) + 1)
        self._rows = RowMaker(tables.metrics, self._numbers, tree, plan)
        self._sample_ids = _sample_ids(tree)
        self._sampled = np.zeros(tree.n_ids, np.bool_)
        self._listed = np.zeros(tree.n_ids, np.bool_)
        self._listed[tree.id[:-1][tree.listed]] = self._listed[0] = True
        for loss in losses_of(tables, tree, plan):
            self._report.add(loss)
        copies = self._copy_sources(tables)
        names = profiles.identifiers.names[:MOST_ID_NAMES]
        description = tables.attributes.get(DESCRIPTION, "")
        write_meta_db(self._folder / "meta.db", tables.title, description, names, plan, tree, copies)
        self._write_columns(plan, tables.metrics)
        self._profiles = ProfileWriter(self._folder / "profile.db", profiles.identifiers, measured, tree.n_ids)
        if tables.traces.samples is not None and (tables.traces.samples.metric < 0).any():
            self._trace_writer()

    def _write_columns(self, plan: MetricPlan, metrics: Metrics) -> None:
        text, lost = columns_text(plan, metrics)
        if lost:
            self._report.add(f"columns over what the database does not hold: {len(lost)}, the first is {lost[0]}")
        path = self._folder / COLUMNS_FILE
        path.parent.mkdir()
        path.write_bytes(text.encode())

    def _copy_sources(self, tables: Experiment) -> dict[int, str]:
        """Copies of source files into src/; gives where each lies. A copy that is not there is not promised."""
        out: dict[int, str] = {}
        for file in tables.sources.copies:
            parts = PurePosixPath(tables.contexts.regions.files.paths[file]).parts
            inside = [part for part in parts if part != "/"]
            try:
                copy = tables.sources.path(file)
            except RefusedInput as error:
                self._report.add(f"source file: {error}")
                continue
            if copy is None or ".." in inside:
                continue
            place = "/".join(["src", *inside])
            (self._folder / place).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(copy, self._folder / place)
            out[file] = place
        return out

    def write(self, chunk: Chunk) -> None:
        with self._or_nothing():
            self._defined()
            if isinstance(chunk, SampleChunk):
                self._write_samples(chunk)
            elif isinstance(chunk, SparseBlock | DenseBlock):
                self._write_values(chunk)
            else:
                self._report.add("spans: they are left out")

    def _write_values(self, block: Block) -> None:
        rows = self._rows.take(block)
        if len(rows):
            self._waiting.append(rows)
            self._n_waiting += len(rows)
        if self._n_waiting >= WAITING_ROWS:
            rows = SparseBlock.joined(self._waiting)
            last = rows.profile == rows.profile[-1]  # more of this profile may follow
            self._waiting = [rows.take(last)] if not last.all() else []
            self._n_waiting = sum(map(len, self._waiting))
            self._store(rows.take(~last) if self._waiting else rows)

    def _store_waiting(self) -> None:
        rows = SparseBlock.joined(self._waiting)
        self._waiting, self._n_waiting = [], 0
        self._store(rows)

    def _store(self, rows: SparseBlock) -> None:
        if len(rows):
            self._defined().store(self._rows.finish(rows))

    def _write_samples(self, chunk: SampleChunk) -> None:
        profile = int(self._numbers[chunk.profile])
        if chunk.metric >= 0 or profile < 0:
            self._report.add("samples of metrics: only samples of contexts are stored")
            return
        time = chunk.samples.time_ns
        if len(time) and int(time.min()) < 0:
            self._report.add("samples before time 0: they are moved to 0")
            time = np.maximum(time, 0)
        records = np.empty(len(time), rec.SAMPLE)
        records["time"], records["ctx"] = time, self._sample_ids[chunk.samples.context]
        self._sampled[records["ctx"]] = True
        self._trace_writer().store(profile, records)

    def _trace_writer(self) -> TraceWriter:
        if self._traces is None:
            self._traces = TraceWriter(self._folder / "trace.db", int(self._numbers.max(initial=0)) + 1)
        return self._traces

    def _defined(self) -> ProfileWriter:
        if self._profiles is None:
            raise UsageError(f"{self.target}: define comes first, and nothing after close")
        return self._profiles

    def flush(self) -> None:
        """What waits goes to the files. They are no database before `close`."""
        with self._or_nothing():
            self._defined()
            self._store_waiting()
            self._defined().flush()
            if self._traces is not None:
                self._traces.flush()

    def close(self) -> LossReport:
        with self._or_nothing():
            profiles, progress = self._defined(), self._options.progress
            self._store_waiting()
            blocks = profiles.seal()
            write_context_major(self._folder / "cct.db", blocks, profiles.n_per_context, profiles.add_totals, progress)
            profiles.finish()
            if self._traces is not None:
                self._traces.finish()
            self._report_late(profiles)
            self._pending.complete()
            self._profiles = self._traces = None
        return self._report

    def _report_late(self, profiles: ProfileWriter) -> None:
        """Losses that only values and samples show."""
        if self._rows.rounded:
            self._report.add("integers above 2^53: they are rounded")
        if self._traces is not None and self._traces.disordered:
            self._report.add("samples that were not in the order of time: they are sorted")
        nowhere = self._sampled & ~self._listed & (profiles.n_per_context == 0)
        if n_nowhere := int(nowhere.sum()):
            self._report.add(f"samples on {n_nowhere} contexts without place in the tree and values: they read as idle")

    def abort(self) -> None:
        for part in (self._profiles, self._traces):
            if part is not None:
                with suppress(OSError):  # a full disk refuses the last bytes once more
                    part.close()
        self._profiles = self._traces = None
        self._waiting = []
        self._pending.discard()


def _is_database(folder: Path) -> bool:
    return any((folder / name).exists() for name in DATABASE_FILES)


def _sample_ids(tree: FileTree) -> Ints:
    """The file's id of every context that a sample may be on; -1, idle, picks the last one, context 0."""
    ids, contexts = tree.id[: len(tree.contexts)].copy(), tree.contexts
    for context in np.flatnonzero((contexts.kind == ContextKind.PLACEHOLDER) & (contexts.parent < 0)).tolist():
        if contexts.label(context) == NO_ACTIVITY:
            ids[context] = 0
    return np.append(ids, 0)
