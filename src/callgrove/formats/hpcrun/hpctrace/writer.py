"""Writes the samples of one profile as an .hpctrace file, as they come; see `records` for the layout.

Dialects: `01.01` (times in nanoseconds, or in microseconds if the experiment came from such a trace), `01.01-us`
(microseconds, as beside hpcrun 02.00) and `01.00` (microseconds, no flags).

Node ids are the file's own ids of contexts where these are unique and fit, else running numbers; idle is 0. Lines that
follow a metric make a data-centric trace: its records are put in the order of time when the writer is closed.
"""

from __future__ import annotations

from pathlib import Path
from typing import IO

import numpy as np

from callgrove.arrays import Array, Ids, Ints, distinct
from callgrove.binary.files import FileBytes
from callgrove.errors import UsageError
from callgrove.formats.hpcrun.hpctrace.records import (
    CALL_TRACE,
    DATA_CENTRIC,
    LCA_RECORDED,
    MICROSECONDS,
    NANOSECONDS,
    TimeScale,
    header_bytes,
    pack_records,
    record_of,
)
from callgrove.formats.interface import Chunk, SampleChunk, WriteOptions
from callgrove.formats.writing.targets import PendingFile
from callgrove.formats.writing.writer import TargetWriter
from callgrove.model.experiment import Experiment
from callgrove.model.profiles import ProfileKind
from callgrove.model.values import DenseBlock, SparseBlock

__all__ = ["DIALECTS", "FLAGS", "TIME_UNIT", "TraceWriter"]

FLAGS, TIME_UNIT = "trace-flags", "trace-time-unit"  # attributes of an experiment that came from a trace
DIALECTS = {"01.01": "01.01", "01.01-us": "01.01", "01.00": "01.00"}  # -> version
LARGEST_ID = 2**32 - 1
CHUNK = 1 << 18


class TraceWriter(TargetWriter[PendingFile, IO[bytes]]):
    """One trace in the making."""

    def __init__(self, target: Path, options: WriteOptions) -> None:
        super().__init__(PendingFile(target, options.overwrite))
        self._dialect = options.dialect or "01.01"
        self._version = DIALECTS[self._dialect]
        self._flags, self._scale = 0, NANOSECONDS
        self._ids = self._metric_ids = np.empty(0, np.int64)
        self._data_centric = False  # do all lines follow a metric?
        self._n_lines = 0

    def _begin(self, tables: Experiment) -> None:
        self._one_profile(tables)
        self._scale = self._time_scale(tables)
        metrics = _find_traced_lines(tables)[1]
        self._data_centric = bool(len(metrics)) and bool((metrics >= 0).all())
        self._flags = self._choose_flags(tables)
        self._ids = self._node_ids(tables)
        self._metric_ids = np.array([m.source_id for m in tables.metrics], np.int64)
        self._name_losses(tables)
        self._open = self._pending.place.open("wb")
        self._open.write(header_bytes(self._version, self._flags))

    def _one_profile(self, tables: Experiment) -> None:
        traced = np.unique(_find_traced_lines(tables)[0])
        if len(traced) > 1:
            many = f"has samples of {len(traced):,} profiles"
            raise UsageError(f"{self.target}: the input {many}, and an hpctrace file holds those of one")
        if not len(traced) and FLAGS not in tables.attributes:
            raise UsageError(f"{self.target}: the input has no samples, and an hpctrace file holds nothing else")

    def _time_scale(self, tables: Experiment) -> TimeScale:
        in_ns = self._dialect == "01.01" and tables.attributes.get(TIME_UNIT) != "us"
        return NANOSECONDS if in_ns else MICROSECONDS

    def _choose_flags(self, tables: Experiment) -> int:
        """Return the flags that the input had, less what the model does not keep; those of other inputs are made up."""
        had = _number(tables.attributes.get(FLAGS, ""))
        if had is None:
            is_stream = bool((tables.profiles.kind[_find_traced_lines(tables)[0]] == ProfileKind.GPU_STREAM).any())
            had = CALL_TRACE if is_stream else 0
        if had & LCA_RECORDED:
            self._report.add("the depth of the last common ancestor, with each sample")
        flags = had & ~(LCA_RECORDED | DATA_CENTRIC)
        if self._version == "01.00":
            if flags:
                self._report.add(f"the flags {flags:#x}: 01.00 has none")
            if self._data_centric:
                self._report.add("the metric of each sample: 01.00 has none")
            return 0
        return flags | DATA_CENTRIC if self._data_centric else flags

    def _node_ids(self, tables: Experiment) -> Ints:
        """Return the node id of every context, and 0 for idle, which is picked with -1."""
        ids = tables.contexts.source_id
        fit = len(ids) == 0 or (int(ids.min()) > 0 and int(ids.max()) <= LARGEST_ID and len(distinct(ids)) == len(ids))
        if not fit:
            self._report.add("the input's own ids of contexts: nodes are numbered from 1 on")
            ids = np.arange(1, len(ids) + 1)
        return np.append(ids, 0)

    def _name_losses(self, tables: Experiment) -> None:
        if tables.contexts.n_listed:
            self._report.add("the tree of contexts, with names and places")
        if len(tables.metrics) and not self._data_centric:
            self._report.add("the metrics")
        if tables.traces.n_spans:
            self._report.add("spans")

    def _take(self, file: IO[bytes], chunk: Chunk) -> None:
        if isinstance(chunk, SampleChunk):
            self._samples(file, chunk)
        elif isinstance(chunk, SparseBlock | DenseBlock) and len(chunk):
            self._report.add("the values")

    def _samples(self, file: IO[bytes], chunk: SampleChunk) -> None:
        time, n = chunk.samples.time_ns, len(chunk.samples)
        if not n:
            return
        if chunk.metric >= 0 and not self._data_centric:
            self._report.add("samples that follow a metric")
            return
        self._n_lines += 1
        if int(time[0]) < 0:
            self._report.add("times before 1970: they are written as 0")
            time = np.maximum(time, 0)
        metric = int(self._metric_ids[chunk.metric]) if chunk.metric >= 0 else 0
        for first in range(0, n, CHUNK):
            part = slice(first, first + CHUNK)
            if self._scale != NANOSECONDS and (time[part] % self._scale).any():
                self._report.add("parts of microseconds in the times")
            node = self._ids[chunk.samples.context[part]]
            file.write(pack_records(self._flags, time[part], node, np.uint32(metric & LARGEST_ID), self._scale).data)

    def _store(self, file: IO[bytes]) -> None:
        file.flush()

    def _finish(self, file: IO[bytes]) -> None:
        file.close()
        if self._n_lines > 1:
            self._merge()

    def _merge(self) -> None:
        """Put the records of several lines in the order of time."""
        start, record = len(header_bytes(self._version, self._flags)), record_of(self._flags)
        file = FileBytes(self._pending.place)
        records: Array = file.array(record, (file.size - start) // record.itemsize, start, "records")
        order = np.argsort(records["time"].astype(np.uint64), kind="stable")
        sorted_place = self._pending.place.with_suffix(".sorted")
        with sorted_place.open("wb") as out:
            out.write(header_bytes(self._version, self._flags))
            for first in range(0, len(order), CHUNK):
                out.write(records[order[first : first + CHUNK]].data)
        sorted_place.replace(self._pending.place)

    def _give_up(self, file: IO[bytes]) -> None:
        file.close()


def _find_traced_lines(tables: Experiment) -> tuple[Ids, Ids]:
    """Return the profiles and the metrics of the lines that have samples."""
    samples = tables.traces.samples
    if samples is None:
        return np.empty(0, np.int32), np.empty(0, np.int32)
    return samples.profile[samples.count > 0], samples.metric[samples.count > 0]


def _number(text: str) -> int | None:
    try:
        return int(text, 0) & (2**64 - 1)
    except ValueError:
        return None
