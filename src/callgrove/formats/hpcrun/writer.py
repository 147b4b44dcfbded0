"""Writes experiments as measurement files: one profile as one file, several as a folder of them, traces beside.

    define    where contexts and metrics go (`write_contexts`, `write_metrics`); the target is refused or taken
    write     values and samples wait on disk
    close     profile after profile: its nodes, values and samples; then everything is renamed into place

Contexts that no profile has values or samples for are written into the first file, so that none is lost.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from callgrove.errors import UsageError
from callgrove.formats.hpcrun.files import SUFFIX, TRACE_SUFFIX, file_name, measurement_bytes
from callgrove.formats.hpcrun.hpctrace_records import CALL_TRACE, MICROSECONDS, NANOSECONDS, write_trace
from callgrove.formats.hpcrun.spill import Spill
from callgrove.formats.hpcrun.write_contexts import NodePlan
from callgrove.formats.hpcrun.write_metrics import MetricPlan
from callgrove.formats.hpcrun.write_profile import ProfileWriter, Samples, number
from callgrove.formats.interface import Chunk, SampleChunk, WriteOptions
from callgrove.formats.targets import (
    FolderKind,
    PendingFile,
    PendingFolder,
    PendingTarget,
    PendingTogether,
    refuse_folder,
)
from callgrove.formats.writing import TargetWriter
from callgrove.model.arrays import ABSENT
from callgrove.model.books import SPANS, Books
from callgrove.model.experiment import Experiment
from callgrove.model.profiles import ProfileKind
from callgrove.model.values import Block, DenseBlock, SparseBlock

__all__ = ["DIALECTS", "MeasurementWriter", "refuse_other_targets"]

DIALECTS = {"04.00": ("04.00", ""), "02.00-a": ("02.00", "A"), "02.00-b": ("02.00", "B")}
VALUE = np.dtype([("context", "i4"), ("metric", "i4"), ("value", "u8")])
SAMPLE = np.dtype([("time", "i8"), ("context", "i4")])
LOST_TIME = "times: 02.00 counts microseconds, so nanoseconds are rounded down"


class MeasurementWriter(TargetWriter[PendingTogether, Experiment]):
    """Measurement files in the making. There is nothing to flush: none can be read before `close`."""

    def __init__(self, target: Path, options: WriteOptions) -> None:
        if options.dialect not in ("", *DIALECTS):
            raise UsageError(f"measurement files have the dialects {', '.join(DIALECTS)}, not {options.dialect!r}")
        super().__init__(PendingTogether(target))
        self._options = options
        self.version, self.dialect = DIALECTS[options.dialect or "04.00"]

    # -- taking ------------------------------------------------------------------------------------------------

    def _begin(self, tables: Experiment) -> None:
        measured = tables.profiles.measured
        if not len(measured):
            raise UsageError(f"{self.target}: there is no profile, and each measurement file is one")
        is_old = self.version < "04"
        self._plan = NodePlan.of(tables.contexts, str(self.target))
        self._metrics = MetricPlan.of(tables.metrics, tables.contexts, is_old)
        self._order = {profile: row for row, profile in enumerate(measured.tolist())}
        has_lines = tables.traces.samples is not None and len(tables.traces.samples.profile) > 0
        self._is_folder = len(measured) != 1
        for target in self._targets(has_lines):
            self._pending.parts.append(target)
        self._values, self._samples = (Spill(self.target.parent, kind) for kind in (VALUE, SAMPLE))
        self._open = tables
        self._used = np.zeros(len(self._plan.lm), np.bool_)
        self._profile = ProfileWriter(tables, self._plan, self._metrics, self.version, self.dialect)
        for loss in (*self._plan.losses(is_old), *self._metrics.losses(), *self._profile.losses()):
            self._report.add(loss)
        self._books = self._open_books(tables)

    def _open_books(self, tables: Experiment) -> Books:
        """Costs are compared: files hold exclusive values, whatever is stored."""
        books = Books.of(tables.metrics, tables.contexts)
        books.excuse(SPANS)
        books.excuse_rows([row for row in range(len(tables.metrics)) if row not in self._metrics.row_of])
        return books

    def _targets(self, has_lines: bool) -> Iterator[PendingTarget]:
        """One after the other: where the second is refused, the first one has to go."""
        overwrite = self._options.overwrite
        if not self._is_folder:
            trace = self.target.with_suffix(TRACE_SUFFIX)
            if self.target.suffix == TRACE_SUFFIX:
                raise UsageError(f"{self.target}: has the ending of a trace; name a file that ends with {SUFFIX}")
            if has_lines:
                yield PendingFile(trace, overwrite)
            yield PendingFile(self.target, overwrite)
            return
        if self.target.suffix == SUFFIX:
            n = len(self._order)
            raise UsageError(f"{self.target}: there are {n} profiles, each a file of its own; name a folder")
        yield PendingFolder(self.target, overwrite, FOLDER)

    def _take(self, tables: Experiment, chunk: Chunk) -> None:
        if isinstance(chunk, SampleChunk):
            self._take_samples(chunk)
        elif isinstance(chunk, SparseBlock | DenseBlock):
            self._take_values(tables, chunk)
        else:
            self._report.add("spans: they are left out")

    def _take_values(self, tables: Experiment, block: Block) -> None:
        rows = block.triples()
        if rows.value.dtype.names is not None:
            return  # named when the metrics were planned
        known = np.full(len(tables.metrics) + 1, ABSENT, np.int32)
        for stored, written in self._metrics.row_of.items():
            known[stored] = written
        metric = known[rows.metric]
        kept = (metric >= 0) & (rows.value != 0)
        rows, metric = rows.take(kept), metric[kept]
        for row in np.unique(metric).tolist():
            self._metrics.note(row, rows.value[metric == row])
        kind = np.float64 if rows.value.dtype.kind == "f" else np.uint64 if rows.value.dtype.kind == "u" else np.int64
        records = np.empty(len(rows), VALUE)
        records["context"], records["metric"] = rows.context, metric
        records["value"] = rows.value.astype(kind).view(np.uint64)
        self._used[self._plan.into[rows.context]] = True
        for profile in np.unique(rows.profile).tolist():
            self._values.add(profile, records[rows.profile == profile], np.dtype(kind).str)

    def _take_samples(self, chunk: SampleChunk) -> None:
        if chunk.metric >= 0 or chunk.profile not in self._order:
            self._report.add("samples of metrics: only samples of contexts are stored")
            if self._books is not None:
                self._books.given.n_samples -= len(chunk.samples)
            return
        records = np.empty(len(chunk.samples), SAMPLE)
        records["time"], records["context"] = chunk.samples.time_ns, chunk.samples.context
        if (records["time"] < 0).any():
            self._report.add("samples before time 0: they are moved to 0")
            records["time"] = np.maximum(records["time"], 0)
        if (records["context"] < 0).any():
            self._report.add("idle samples: they are on the context <no activity>")
            records["context"][records["context"] < 0] = self._plan.idle
        self._used[self._plan.into[records["context"]]] = True
        self._samples.add(chunk.profile, records)

    # -- finishing ---------------------------------------------------------------------------------------------

    def _finish(self, tables: Experiment) -> None:
        unused = self._plan.is_node & ~self._plan.with_ancestors(self._used)
        unused[len(self._plan.tree) :] = False  # the rows that were added
        names: set[str] = set()
        for profile, row in self._order.items():
            self._options.progress("writing profiles", row, len(self._order))
            self._write_profile(profile, unused if row == 0 else np.zeros_like(unused), names)
        assert self._books is not None
        for row, column in self._metrics.row_of.items():
            self._books.passed.totals.enter(row, self._metrics.written[column], int(self._metrics.n_written[column]))
        self._give_up(tables)

    def _write_profile(self, profile: int, more: np.ndarray[tuple[int], np.dtype[np.bool_]], names: set[str]) -> None:
        samples = self._samples_of(profile) if profile in self._samples else None
        values = [(np.dtype(mark), records) for mark, records in self._values.batches(profile)]
        made, ids = self._profile.measurement(profile, values, samples, more)
        path, trace_path = self._places(profile, names)
        path.write_bytes(measurement_bytes(made))
        if samples is None or trace_path is None:
            return
        if made.is_old and (samples.time % MICROSECONDS).any():
            self._report.add(LOST_TIME)
        scale = MICROSECONDS if made.is_old else NANOSECONDS
        kind = self._defined().profiles.kind[profile]
        flags = CALL_TRACE if kind == ProfileKind.GPU_STREAM else 0
        write_trace(trace_path, flags, samples.time, ids[samples.row], time_scale=scale)
        if self._books is not None:
            self._books.passed.n_samples += len(samples.time)

    def _samples_of(self, profile: int) -> Samples:
        records = np.concatenate([records for _, records in self._samples.batches(profile)])
        order = np.argsort(records["time"], kind="stable")
        return Samples(records["time"][order], self._plan.into[records["context"][order]])

    def _places(self, profile: int, names: set[str]) -> tuple[Path, Path | None]:
        """Where a profile and its trace are written."""
        if not self._is_folder:
            *trace, own = self._pending.parts
            return own.place, trace[0].place if trace else None
        pairs = self._profile.pairs(profile)
        host = number(pairs.get("host-id", ""), 16)
        fields = [number(pairs.get(word, ""), 10) for word in ("mpi-rank", "thread-id", "process-id")]
        generation = 0
        while (name := file_name(pairs["program-name"], fields[0], fields[1], host, fields[2], generation)) in names:
            generation += 1
        names.add(name)
        folder = self._pending.parts[0].place
        return folder / f"{name}{SUFFIX}", folder / f"{name}{TRACE_SUFFIX}"

    def _give_up(self, tables: Experiment) -> None:
        self._values.close()
        self._samples.close()


def _has_measurements(folder: Path) -> bool:
    return any(path.suffix == SUFFIX for path in folder.iterdir())


FOLDER = FolderKind("a folder of measurements", _has_measurements)


def refuse_other_targets(target: Path) -> None:
    """One profile is a file; how many there are is not known yet, unless the name says it."""
    if target.suffix == SUFFIX:
        refuse_folder(target)
    elif target.is_dir():
        FOLDER.refuse_others(target)
