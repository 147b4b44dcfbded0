"""The bytes of .hpctrace files, versions 01.00 and 01.01: what a thread or GPU stream was doing, read and written.

Specification: HPCToolkit's hpctrace format. Everything is big-endian; there are no name-value pairs in any version:

    magic      18  "HPCRUN-trace______"
    version     5  "01.00" | "01.01"
    endian      1  "b"
    flags       8  not in 01.00; bit 0: records have a metric, bit 1: times carry a depth, bit 2: a GPU's calls
    records        to the end of the file: time u64, node id u32 [, metric id u32]

Times count since the epoch, in nanoseconds beside hpcrun 04.00 and in microseconds beside hpcrun 02.00, and nothing in
the trace says which: both are 01.01. `time_scale_of` decides. Here times are always nanoseconds.

Deviations: a run that was killed leaves a file that ends inside its header (no samples) or inside a record (dropped,
with a problem). With bit 1 the upper 8 bits of a time hold a depth, which is taken off.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from callgrove.arrays import Array, Ids, Ints, distinct
from callgrove.binary.files import CheckedFile, FileBytes, open_regular
from callgrove.errors import (
    CallgroveError,
    CorruptFile,
    InvalidExperiment,
    NotRecognised,
    UnsupportedVersion,
    UsageError,
)
from callgrove.formats.interface import Chunk, SampleChunk, WriteOptions
from callgrove.formats.writing.targets import PendingFile
from callgrove.formats.writing.writer import TargetWriter
from callgrove.model.experiment import Experiment
from callgrove.model.profiles import ProfileKind
from callgrove.model.values import DenseBlock, SparseBlock

__all__ = [
    "CALL_TRACE",
    "DATA_CENTRIC",
    "DIALECTS",
    "FLAGS",
    "LCA_RECORDED",
    "MAGIC",
    "MICROSECONDS",
    "NANOSECONDS",
    "TIME_UNIT",
    "VERSIONS",
    "TraceFile",
    "TraceWriter",
    "header_bytes",
    "pack_records",
    "record_of",
    "time_scale_of",
    "write_trace",
]


# -- records -----------------------------------------------------------------------------------------------------------


MAGIC = b"HPCRUN-trace______"
PROFILE_MAGIC = b"HPCRUN-profile____"
VERSIONS = ("01.00", "01.01")
BIG_ENDIAN = b"b"
START = len(MAGIC) + 5 + 1  # bytes before the flags
FLAGS_SIZE = 8
DATA_CENTRIC, LCA_RECORDED, CALL_TRACE = 1, 2, 4
RECORD = np.dtype([("time", ">u8"), ("node", ">u4")])
DATA_CENTRIC_RECORD = np.dtype([("time", ">u8"), ("node", ">u4"), ("metric", ">u4")])
LCA_TIME_BITS = 56

TimeScale = Literal[1, 1000]  # nanoseconds in one unit of the file's times
NANOSECONDS: TimeScale = 1
MICROSECONDS: TimeScale = 1000
YEAR_1973 = 10**14  # in microseconds; the same number of nanoseconds after the epoch is its second day
YEAR_5138 = 10**17  # in microseconds; as nanoseconds it is 1973
LAST_NS = 2**63 - 1

Columns = tuple[Ints, Array, Array | None]  # time_ns, context_id, metric_id


def record_of(flags: int) -> np.dtype[Any]:
    """Return the layout of records under these flags."""
    return DATA_CENTRIC_RECORD if flags & DATA_CENTRIC else RECORD


class TraceFile:
    """One trace; records are converted when asked for. `problems` is what was stepped over."""

    def __init__(self, file: CheckedFile, time_scale: TimeScale | None = None) -> None:
        self.file, self.path = file, file.path
        self.problems: list[CallgroveError] = []
        start = file.copy(0, min(START + FLAGS_SIZE, file.size), "header")
        self.version = _version(self.path, start[:START])
        self.records_at = START if self.version == "01.00" else START + FLAGS_SIZE
        self.flags = 0
        if file.size < self.records_at:
            found, remedy = f"a file that ends at byte {file.size}", "the run ended before its first sample"
            self._problem(0, f"a header of {self.records_at} bytes", found, remedy)
            self.records_at = file.size
        elif self.version != "01.00":
            self.flags = int.from_bytes(start[START:], "big")
        self.record = record_of(self.flags)
        self.n_records, rest = divmod(file.size - self.records_at, self.record.itemsize)
        if rest:
            expected = f"records of {self.record.itemsize} bytes"
            self._problem(file.size - rest, expected, f"{rest} bytes at the end", "the partial last record is left out")
        self.time_scale: TimeScale = time_scale or time_scale_of(self)

    @classmethod
    def open(cls, path: Path, time_scale: TimeScale | None = None) -> TraceFile:
        """Return the mapped trace at `path`. Who knows the profile it belongs to also knows the unit of its times."""
        return cls(FileBytes(path), time_scale)

    def _problem(self, offset: int, expected: str, found: str, remedy: str) -> None:
        section = "records" if offset >= self.records_at else "header"
        self.problems.append(
            CorruptFile(self.path, section, offset=offset, expected=expected, found=found, remedy=remedy)
        )

    @property
    def data_centric(self) -> bool:
        """Do records have a metric?"""
        return bool(self.flags & DATA_CENTRIC)

    def records(self, first: int = 0, count: int | None = None) -> Array:
        """Return the file's own records; times in the file's unit."""
        first = min(max(first, 0), self.n_records)
        n = self.n_records - first if count is None else max(0, min(count, self.n_records - first))
        at = self.records_at + first * self.record.itemsize
        return self.file.array(self.record, n, at if n else 0, "records")

    def arrays(self, first: int = 0, count: int | None = None) -> Columns:
        """Return the times in nanoseconds, node ids and, in a data-centric trace, metric ids, in native byte order."""
        records = self.records(first, count)
        metric = records["metric"].astype(np.uint32) if self.data_centric else None
        return self._nanoseconds(records["time"]), records["node"].astype(np.uint32), metric

    def time_range(self, in_order: bool) -> tuple[int, int] | None:
        """Return the earliest and the latest time; where records are known to be in order, only two of them are looked
        at."""
        if not self.n_records:
            return None
        if in_order:
            ends = [self.records(row, 1)["time"][0] for row in (0, self.n_records - 1)]
            times = self._nanoseconds(np.array(ends)).tolist()
        else:
            parts = (self._nanoseconds(records["time"]) for records in self.chunks(CHUNK))
            times = [int(end) for part in parts for end in (part.min(), part.max())]
        return min(times), max(times)

    def _nanoseconds(self, stored: Array) -> Ints:
        time = stored.astype(np.uint64)
        if self.flags & LCA_RECORDED:
            time &= np.uint64(2**LCA_TIME_BITS - 1)
        last = np.uint64(LAST_NS // self.time_scale)
        if len(time) and time.max() > last:
            np.minimum(time, last, out=time)
            self._too_late()
        if self.time_scale != NANOSECONDS:
            time *= np.uint64(self.time_scale)
        return time.view(np.int64)

    def _too_late(self) -> None:
        error = CorruptFile(
            self.path,
            "records",
            expected=f"times of at most {LAST_NS} ns",
            found="later ones",
            remedy="they are taken for that time",
        )
        if str(error) not in map(str, self.problems):
            self.problems.append(error)

    def chunks(self, count: int) -> Iterator[Array]:
        """Yield the file's own records, `count` at a time."""
        for first in range(0, self.n_records, count):
            yield self.records(first, count)


def _version(path: Path, start: bytes) -> str:
    """Return the version; empty where the file ends before its byte order is said, which is a trace without samples."""
    if start[: len(MAGIC)] != MAGIC[: len(start)]:
        raise NotRecognised(f"{path}: not an hpctrace file: it begins with {start[: len(MAGIC)]!r}, not {MAGIC!r}")
    if len(start) < START:
        return ""
    version, endian = start[len(MAGIC) : -1].decode("ascii", "backslashreplace"), start[-1:]
    if version not in VERSIONS:
        raise UnsupportedVersion(
            f"{path}: hpctrace version {version!r} at byte {len(MAGIC)}; {' and '.join(VERSIONS)} can be read"
        )
    if endian != BIG_ENDIAN:
        found, where = repr(endian)[1:], START - 1
        raise CorruptFile(path, "header", offset=where, expected="'b', for big-endian numbers", found=found)
    return version


def time_scale_of(trace: TraceFile) -> TimeScale:
    """Return the unit of a trace's times: what the version of the profile beside it implies, else what makes a date.

    The oldest version knows microseconds only. Microseconds since the epoch have 16 digits for the next centuries,
    nanoseconds 19; a trace whose times are neither is taken for nanoseconds.
    """
    profile_version = _version_beside(trace.path)
    if profile_version:
        return NANOSECONDS if profile_version >= "04" else MICROSECONDS
    if trace.version == "01.00":
        return MICROSECONDS
    if not trace.n_records:
        return NANOSECONDS
    first = int(trace.records(0, 1)["time"][0])
    if trace.flags & LCA_RECORDED:
        first &= 2**LCA_TIME_BITS - 1
    return MICROSECONDS if YEAR_1973 <= first < YEAR_5138 else NANOSECONDS


def _version_beside(path: Path) -> str:
    """Return the version of the .hpcrun file of the same name; empty where there is none."""
    profile = path.with_suffix(".hpcrun")
    try:
        if path.suffix != ".hpctrace":
            return ""
        with open_regular(profile) as file:
            start = file.read(START)
    except OSError:  # none, or not ours to read: the times themselves decide
        return ""
    version = start[len(MAGIC) : len(MAGIC) + 5]
    return version.decode("ascii") if start.startswith(PROFILE_MAGIC) and version[:2].isdigit() else ""


def header_bytes(version: str, flags: int) -> bytes:
    """Return what stands before the records. Version 01.00 has no flags."""
    start = MAGIC + version.encode("ascii") + BIG_ENDIAN
    return start if version == "01.00" else start + flags.to_bytes(8, "big")


def pack_records(
    flags: int, time_ns: ArrayLike, context_id: ArrayLike, metric_id: ArrayLike | None, time_scale: TimeScale
) -> Array:
    """Return records of the file; times are rounded down to its unit."""
    time = np.asarray(time_ns, np.int64)
    records = np.zeros(len(time), record_of(flags))
    records["time"] = time if time_scale == NANOSECONDS else time // time_scale
    records["node"] = context_id
    if flags & DATA_CENTRIC:
        records["metric"] = 0 if metric_id is None else metric_id
    return records


def write_trace(
    path: Path,
    flags: int,
    time_ns: ArrayLike,
    context_id: ArrayLike,
    metric_id: ArrayLike | None = None,
    version: str = "01.01",
    time_scale: TimeScale | None = None,
) -> None:
    """Write a whole trace at once. Times are written in nanoseconds, by 01.00 in microseconds, unless `time_scale`
    says."""
    if version not in VERSIONS or (version == "01.00" and flags):
        raise InvalidExperiment([f"hpctrace {version} with flags {flags:#x}: there are 01.00 (no flags) and 01.01"])
    if (metric_id is not None) != bool(flags & DATA_CENTRIC):
        raise InvalidExperiment([f"hpctrace flags {flags:#x}: bit 0 must be set if, and only if, records have metrics"])
    scale = time_scale or (MICROSECONDS if version == "01.00" else NANOSECONDS)
    with path.open("wb") as file:
        file.write(header_bytes(version, flags))
        file.write(pack_records(flags, time_ns, context_id, metric_id, scale).data)


# -- writing the samples of one profile, as they come ------------------------------------------------------------------
# Dialects: `01.01` (times in nanoseconds, or in microseconds if the experiment came from such a trace), `01.01-us`
# (microseconds, as beside hpcrun 02.00) and `01.00` (microseconds, no flags).
#
# Node ids are the file's own ids of contexts where these are unique and fit, else running numbers; idle is 0. Lines
# that follow a metric make a data-centric trace: its records are put in the order of time when the writer is closed.


FLAGS, TIME_UNIT = "trace-flags", "trace-time-unit"  # attributes of an experiment that came from a trace
DIALECTS = {"01.01": "01.01", "01.01-us": "01.01", "01.00": "01.00"}  # -> version
LARGEST_ID = 2**32 - 1
CHUNK = 1 << 18


class TraceWriter(TargetWriter[PendingFile, IO[bytes]]):
    """One trace in the making."""

    holds_only_traces = True

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
