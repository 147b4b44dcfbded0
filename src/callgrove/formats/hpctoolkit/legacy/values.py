"""Values and traces of a legacy database: in the XML, in metric-db files, in hpctrace files.

A metric-db is a dense matrix (nodes x metrics); only what is not zero is a value. Files are opened for each question
and closed again: there may be more threads than a process may have open files.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from callgrove.arrays import ABSENT, Array, Floats, Ids, Ints
from callgrove.binary.files import FileBytes, IdMap
from callgrove.errors import CallgroveError, CorruptFile, UnsupportedVersion, count_of
from callgrove.formats.hpctoolkit.legacy.experiment_xml import ROOT_ID
from callgrove.model.profiles import DEFAULT_ID_NAMES, Identifier, Interpretation
from callgrove.model.traces.events import Samples, Window
from callgrove.model.values import Block, SparseBlock

__all__ = [
    "DATA_CENTRIC",
    "LCA_RECORDED",
    "METRIC_DB",
    "METRIC_DB_MAGIC",
    "MT_ENTRY",
    "MT_HEADER",
    "MT_TRAILER",
    "SAMPLE",
    "SAMPLE_OF_METRIC",
    "TRACE",
    "TRACE_FLAGS",
    "TRACE_MAGIC",
    "TRACE_VERSIONS",
    "VALUE",
    "LegacySamples",
    "LegacyValues",
    "MetricDbFile",
    "ThreadName",
    "TraceFile",
    "open_metric_db",
    "open_trace",
    "read_merged_traces",
    "ticks_to_ns",
]


# -- byte layouts of the files beside experiment.xml -------------------------------------------------------------------
#     *.metric-db      header, then numNodes * numMetrics doubles: row = node id - 1, column = `db-id` of the XML
#     *.hpctrace       header [+ flags since 01.01], then records (time, node id) to the end of the file
#     experiment.mt    header, a table of (rank, thread, offset), hpctrace files one after the other, a trailer
#
# All numbers are big-endian. The XML says that the header of a metric-db has 24 bytes (`db-header-sz`); in genuine
# files the numbers of nodes and metrics follow it, so that the values begin at byte 32.


METRIC_DB_MAGIC = b"HPCPROF-metricdb__"
METRIC_DB = np.dtype(
    [("magic", "S18"), ("version", "S5"), ("endian", "S1"), ("numNodes", ">u4"), ("numMetrics", ">u4")]
)
VALUE = np.dtype(">f8")

TRACE_MAGIC = b"HPCRUN-trace______"
TRACE_VERSIONS = (b"01.00", b"01.01")
TRACE = np.dtype([("magic", "S18"), ("version", "S5"), ("endian", "S1")])
TRACE_FLAGS = np.dtype([("flags", ">u8")])  # absent in 01.00
DATA_CENTRIC = 1  # flag: a metric id follows each record
LCA_RECORDED = 2  # flag: the top byte of a time is a depth
SAMPLE = np.dtype([("time", ">u8"), ("node", ">u4")])
SAMPLE_OF_METRIC = np.dtype([("time", ">u8"), ("node", ">u4"), ("metric", ">u4")])

MT_HEADER = np.dtype([("type", ">i4"), ("nFiles", ">i4")])
MT_ENTRY = np.dtype([("rank", ">i4"), ("thread", ">i4"), ("offset", ">i8")])
MT_TRAILER = 0xFFFFFFFFDEADF00D


# -- values and traces -------------------------------------------------------------------------------------------------


FILE_NAME = re.compile(
    r"(?:\d+\.)?(?P<program>.+)-(?P<rank>\d{1,9})-(?P<thread>\d{1,9})-(?P<host>[0-9a-fA-F]{1,16})-(?P<pid>\d{1,18})"
    r"-(?P<generation>\d{1,9})\.(?:metric-db|hpctrace)",
    re.DOTALL,
)
NODE, RANK, THREAD = (DEFAULT_ID_NAMES.index(name) for name in ("NODE", "RANK", "THREAD"))


@dataclass(frozen=True)
class ThreadName:
    """What a file's name says about the thread that it is of."""

    rank: int
    thread: int
    host: int = 0
    pid: int = 0
    generation: int = 0

    @classmethod
    def of(cls, file_name: str) -> ThreadName | None:
        """Parse `1.app-000003-001-a8c00270-160443-0.metric-db`, counted from the right; None where a name is
        another."""
        match = FILE_NAME.fullmatch(file_name)
        if match is None:
            return None
        rank, thread, pid, generation = (int(match[k]) for k in ("rank", "thread", "pid", "generation"))
        return cls(rank, thread, int(match["host"], 16), pid, generation)

    def identifiers(self, hosts: Mapping[int, int]) -> list[Identifier]:
        """Return the tuple of this thread; hosts are numbered in ascending order."""
        single = int(Interpretation.SINGLE)
        return [
            (NODE, self.host, hosts.get(self.host, 0), int(Interpretation.BOTH)),
            (RANK, self.rank, self.rank, single),
            (THREAD, self.thread, self.thread, single),
        ]


@dataclass(frozen=True)
class MetricDbFile:
    """A metric-db whose header is sound. `columns[k]` of its matrix is the metric row `rows[k]`."""

    path: Path
    n_nodes: int
    n_metrics: int
    columns: Ints
    rows: Ids

    def values(self, first: int, n: int) -> Floats:
        """Return the values of `n` nodes from node number `first` (counting from 0) on, of the columns that are
        known."""
        at = METRIC_DB.itemsize + first * self.n_metrics * VALUE.itemsize
        numbers = FileBytes(self.path).array(VALUE, n * self.n_metrics, at, "values")
        matrix: Floats = numbers.reshape(n, self.n_metrics)[:, self.columns].astype(np.float64)
        return matrix


def open_metric_db(path: Path, meanings: Sequence[tuple[int, int]]) -> MetricDbFile:
    """Return the checked header of a file; `meanings` are (column, metric row). Nothing is read but the header."""
    file = FileBytes(path)
    head = file.record(METRIC_DB, 0, "header")
    magic, version = file.copy(0, 18, "header"), bytes(head["version"])
    if magic != METRIC_DB_MAGIC:
        raise CorruptFile(path, "header", offset=0, expected=f"{METRIC_DB_MAGIC!r}", found=f"{magic!r}")
    if not version.startswith(b"00.") or head["endian"] != b"b":
        described = f"{version.decode('latin-1')} {head['endian'].decode('latin-1')!r}"
        raise UnsupportedVersion(f"{path}: metric-db of version {described}, not 00.x, big-endian ('b')")
    n, m = int(head["numNodes"]), int(head["numMetrics"])
    size = METRIC_DB.itemsize + n * m * VALUE.itemsize
    if size != file.size:
        expected = f"{n} nodes with {m} metrics, {size} bytes in all"
        raise CorruptFile(path, "values", offset=24, expected=expected, found=f"a file of {file.size} bytes")
    known = [(column, row) for column, row in meanings if 0 <= column < m]
    if len(known) < len(meanings):
        wrong = next(column for column, _ in meanings if not 0 <= column < m)
        raise CorruptFile(
            path, "header", offset=28, expected=f"a metric {wrong}, as the XML says", found=f"{m} metrics"
        )
    columns, rows = zip(*known, strict=True) if known else ((), ())
    return MetricDbFile(path, n if m else 0, m, np.array(columns, np.int64), np.array(rows, np.int32))


class LegacyValues:
    """Values in the model's ids. `inline[p]` are the values of profile p in the XML, `files[p]` its metric-db."""

    def __init__(
        self,
        inline: Mapping[int, SparseBlock],
        files: Mapping[int, MetricDbFile],
        contexts: IdMap,
        node_ids: Ints,
        summaries: Sequence[int],
        complete: bool,
    ) -> None:
        self._inline, self.files, self._contexts, self._node_ids = inline, files, contexts, node_ids
        self._summaries, self._complete = frozenset(summaries), complete
        self.problems: list[CallgroveError] = []

    def n_stored(self) -> int | None:
        """Return the number of values where everything is in the XML, else None: which cells of a matrix are zero is
        not known."""
        return None if self.files else sum(map(len, self._inline.values()))

    def summarises(self, metric: int) -> bool:
        """Return whether the stored summary answers for a metric. The XML has six digits: threads answer where all of
        them are there."""
        if self._complete and any(metric in file.rows for file in self.files.values()):
            return False
        return any(metric in self._inline[p].metric for p in self._summaries & self._inline.keys())

    def profile(self, profile: int, metrics: Ints | None = None) -> SparseBlock:
        parts = []
        if profile in self.files:
            file = self.files[profile]
            parts.append(self._of_file(profile, file, file.values(0, file.n_nodes), 0).of_metrics(metrics))
        if profile in self._inline:
            block = self._inline[profile].of_metrics(metrics)
            rows = ~np.isin(block.metric, self.files[profile].rows) if profile in self.files else slice(None)
            parts.append(block.take(rows))
        return SparseBlock.concatenate([part for part in parts if len(part)])

    def root(self, profile: int) -> tuple[Ids, Floats]:
        """Return the metric rows and values of the root in a metric-db."""
        file = self.files[profile]
        return file.rows, file.values(ROOT_ID - 1, 1)[0] if file.n_nodes else np.zeros(len(file.rows))

    def context(self, context: int) -> SparseBlock:
        id_ = int(self._node_ids[context])
        blocks = [
            self._of_file(profile, file, file.values(id_ - 1, 1), id_ - 1)
            for profile, file in self.files.items()
            if 0 < id_ <= file.n_nodes
        ]
        threads = (block for profile, block in self._inline.items() if profile not in self._summaries)
        blocks += [block.take(block.context == context) for block in threads]
        return SparseBlock.concatenate([block for block in blocks if len(block)])

    def blocks(self, profiles: Ints | None = None, metrics: Ints | None = None) -> Iterator[Block]:
        chosen = sorted(self._inline.keys() | self.files.keys()) if profiles is None else profiles.tolist()
        for profile in chosen:
            try:
                block = self.profile(profile, metrics)
            except CallgroveError as error:
                self._record_problem(error)
                continue
            if len(block):
                yield block

    def _of_file(self, profile: int, file: MetricDbFile, matrix: Array, first: int) -> SparseBlock:
        """Return what is not zero in some rows of a matrix, node by node; the root is not a context."""
        node, column = np.nonzero(matrix)
        ids = node + first + 1
        kept = ids != ROOT_ID
        node, column, context = node[kept], column[kept], self._contexts[ids[kept]]
        known = context >= 0
        if not known.all():
            expected, found = "nodes that the XML has", f"{count_of(int((~known).sum()), 'value')} of others, left out"
            self._record_problem(CorruptFile(file.path, "values", expected=expected, found=found))
        node, column, context = node[known], column[known], context[known]
        profiles = np.full(len(node), profile, np.int32)
        return SparseBlock(profiles, context, file.rows[column], matrix[node, column])

    def _record_problem(self, error: CallgroveError) -> None:
        if str(error) not in map(str, self.problems):
            self.problems.append(error)


# -- traces ------------------------------------------------------------------------------------------------------------
# They are copied hpctrace files, or experiment.mt, which holds them one after the other.
#
# Records are (time, node id); the id is the node's `it`, or `i` where no node has one. Times are microseconds or
# nanoseconds since the epoch: the XML says which (`u`), or their size does (16 or 19 digits).


NS_PER_SEC = 1_000_000_000
FIRST_NS = 10**17  # a time since the epoch that is larger is in nanoseconds, a smaller one in microseconds
DEPTH_BITS = np.uint64((1 << 56) - 1)
LAST_NS = 2**63 - 1


@dataclass(frozen=True)
class TraceFile:
    """Where the records of one trace lie."""

    path: Path
    start: int
    count: int
    record: np.dtype[Any]
    flags: int = 0
    rank: int = ABSENT  # known from experiment.mt; a file of its own has it in its name
    thread: int = ABSENT
    rest: int = 0  # bytes after the last whole record

    def records(self) -> Array:
        return FileBytes(self.path).array(self.record, self.count, self.start, "records")


def open_trace(path: Path, start: int = 0, end: int | None = None) -> TraceFile:
    """Return the checked header of an hpctrace, alone in a file or between two offsets of one."""
    file = FileBytes(path)
    stop = file.size if end is None else end
    if file.size == 0 and start == 0:
        return TraceFile(path, 0, 0, SAMPLE)
    head = file.record(TRACE, start, "trace header")
    magic = file.copy(start, 18, "trace header")
    if magic != TRACE_MAGIC:
        raise CorruptFile(path, "trace header", offset=start, expected=f"{TRACE_MAGIC!r}", found=f"{magic!r}")
    version = bytes(head["version"])
    if version not in TRACE_VERSIONS or head["endian"] != b"b":
        known = " or ".join(v.decode() for v in TRACE_VERSIONS)
        raise UnsupportedVersion(f"{path}: trace of version {version.decode('latin-1')!r}, not {known}, big-endian")
    at, flags = start + TRACE.itemsize, 0
    if version != TRACE_VERSIONS[0] and at + TRACE_FLAGS.itemsize <= stop:
        flags = int(file.record(TRACE_FLAGS, at, "trace header")["flags"])
        at += TRACE_FLAGS.itemsize
    record = SAMPLE_OF_METRIC if flags & DATA_CENTRIC else SAMPLE
    count, rest = divmod(max(0, stop - at), record.itemsize)
    return TraceFile(path, at, count, record, flags, rest=rest)


def read_merged_traces(path: Path) -> list[TraceFile]:
    """Return the traces in experiment.mt. They must not lie in one another, and end with a trailer."""
    file = FileBytes(path)
    n = int(file.record(MT_HEADER, 0, "header")["nFiles"])
    entries = file.array(MT_ENTRY, n, MT_HEADER.itemsize, "table")
    first = MT_HEADER.itemsize + n * MT_ENTRY.itemsize
    trailer = file.size - 8
    file.check(first, max(0, trailer - first) + 8, "trailer")
    if int(file.array(">u8", 1, trailer, "trailer")[0]) != MT_TRAILER:
        found = file.copy(trailer, 8, "trailer").hex()
        raise CorruptFile(path, "trailer", offset=trailer, expected=f"{MT_TRAILER:x}", found=found)
    offsets = entries["offset"].astype(np.int64)
    bounds = np.append(np.sort(offsets), trailer)
    if n and (bounds[0] < first or (np.diff(bounds) < 0).any() or len(np.unique(offsets)) < n):
        expected = f"offsets from {first} to {trailer}, each once"
        raise CorruptFile(path, "table", offset=MT_HEADER.itemsize, expected=expected, found=str(offsets[:3].tolist()))
    ends = bounds[np.searchsorted(bounds, offsets) + 1]
    traces = []
    for entry, start, end in zip(entries.tolist(), offsets.tolist(), ends.tolist(), strict=True):
        traces.append(replace(open_trace(path, start, end), rank=entry[0], thread=entry[1]))
    return traces


def ticks_to_ns(ticks_per_sec: int, largest: int) -> int:
    """Return the nanoseconds per tick; where the file does not say, by the size of a time."""
    if ticks_per_sec:
        return max(1, NS_PER_SEC // ticks_per_sec)
    return 1 if largest >= FIRST_NS else 1000


class LegacySamples:
    """Sample lines in the model's ids; -1 is an id that no node has. `unknown` counts samples of such ids."""

    def __init__(self, traces: Sequence[TraceFile], profile: Ids, contexts: IdMap, ns_per_tick: int) -> None:
        self._traces, self._contexts, self._ns = tuple(traces), contexts, ns_per_tick
        self.profile = profile
        self.metric: Ids = np.full(len(traces), ABSENT, np.int32)
        self.count: Ints = np.array([trace.count for trace in traces], np.int64)
        self.problems: list[CallgroveError] = []
        self.unknown = 0
        self.unordered: set[int] = set()

    def line(self, line: int, window: Window | None = None) -> Samples:
        """Return one line in time order; the rare trace that is not (an interrupted thread) is sorted."""
        trace = self._traces[line]
        if not trace.count:
            return Samples(np.empty(0, np.int64), np.empty(0, np.int32))
        records = trace.records()
        ticks = records["time"].astype(np.uint64)
        if trace.flags & LCA_RECORDED:
            ticks &= DEPTH_BITS
        time_ns = (np.minimum(ticks, np.uint64(LAST_NS // self._ns)) * np.uint64(self._ns)).astype(np.int64)
        context = self._contexts[records["node"].astype(np.int64)]
        self.unknown += int((context < 0).sum())
        if (np.diff(time_ns) < 0).any():
            self.unordered.add(line)
            order = np.argsort(time_ns, kind="stable")
            time_ns, context = time_ns[order], context[order]
        return Samples(time_ns, context).within(window)
