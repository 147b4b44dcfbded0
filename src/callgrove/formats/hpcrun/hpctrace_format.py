"""A single .hpctrace file as an experiment of one profile with samples, as fields and as text.

The tree is in the .hpcrun file beside it, so contexts are known by number only (`source_id`, kind elided), metrics of a
data-centric trace as well. Who executed is in the name of the file, counted from the right:

    PROGRAM-RANK-THREAD-HOST(hex)-PROCESS-GENERATION.hpctrace
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from callgrove.arrays import ABSENT, Array, Ids, Ints
from callgrove.binary.files import IdMap, Source
from callgrove.errors import CallgroveError, UsageError
from callgrove.formats.hpcrun.hpctrace import (
    CALL_TRACE,
    FLAGS,
    MAGIC,
    MICROSECONDS,
    START,
    TIME_UNIT,
    TraceFile,
    TraceWriter,
)
from callgrove.formats.interface import Field, Grade, Match, Problem, ReadOptions, WriteOptions, Writer
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.contexts import ContextKind
from callgrove.model.experiment import Experiment, Severity
from callgrove.model.metrics import Metric, Scope
from callgrove.model.profiles import DEFAULT_ID_NAMES, Identifier, Interpretation, ProfileKind
from callgrove.model.traces.events import Samples, Window

__all__ = [
    "FORMAT",
    "HpctraceFormat",
    "IdSet",
    "TraceSamples",
    "TraceScan",
    "fields",
    "json_text",
    "scan",
    "summary",
    "text",
]


# -- samples in the model's ids ----------------------------------------------------------------------------------------
# They are a line of contexts, or a line per metric of a data-centric trace.
#
# Node id 0 is not a node: idle. The ids that occur are found in one pass over the file, which also looks at the order
# of times; samples are converted when they are asked for.


CHUNK = 1 << 18  # records: small enough for the cache of the processor
TABLE_SIZE = 1 << 24  # ids below are noted in a table of bytes; node ids are running numbers, so nearly all are


class IdSet:
    """Ids that occurred, of any size up to 64 bits, in memory that grows with their number."""

    def __init__(self) -> None:
        self._seen = np.zeros(TABLE_SIZE, np.bool_)  # pages that stay untouched take no memory
        self._large = np.empty(0, np.int64)

    def add(self, ids: Array) -> None:
        if len(ids) and int(ids.max()) >= TABLE_SIZE:
            self._large = np.union1d(self._large, ids[ids >= TABLE_SIZE].astype(np.int64))
            ids = ids[ids < TABLE_SIZE]
        self._seen[ids] = True

    @property
    def ids(self) -> Ints:
        """Each once, ascending."""
        return np.concatenate([np.flatnonzero(self._seen), self._large])


@dataclass(frozen=True)
class TraceScan:
    """What one pass over a trace finds."""

    node_ids: Ints
    metric_ids: Ints
    time_range: Window | None
    disordered: int  # records that are earlier than the one before


def scan(trace: TraceFile) -> TraceScan:
    """Look at all records in one pass, with one chunk in memory."""
    nodes, metrics = IdSet(), IdSet()
    low, high, last, disordered = 2**63 - 1, 0, 0, 0
    for first in range(0, trace.n_records, CHUNK):
        time, node, metric = trace.arrays(first, CHUNK)
        nodes.add(node)
        if metric is not None:
            metrics.add(metric)
        disordered += int(time[0] < last) + int(np.count_nonzero(time[1:] < time[:-1]))
        low, high, last = min(low, int(time.min())), max(high, int(time.max())), int(time[-1])
    return TraceScan(nodes.ids, metrics.ids, (low, high) if trace.n_records else None, disordered)


class TraceSamples:
    """Sample lines of profile 0. Records that are not in the order of time are sorted; equal times keep their order."""

    def __init__(self, trace: TraceFile, overview: TraceScan, contexts: IdMap) -> None:
        self._trace, self._overview, self._contexts = trace, overview, contexts
        n_lines = len(overview.metric_ids) if trace.data_centric else 1
        self.profile: Ids = np.zeros(n_lines, np.int32)
        self.metric: Ids = np.arange(n_lines, dtype=np.int32) if trace.data_centric else np.full(1, -1, np.int32)

    @property
    def problems(self) -> list[CallgroveError]:
        return self._trace.problems

    @cached_property
    def count(self) -> Ints:
        if not self._trace.data_centric:
            return np.array([self._trace.n_records], np.int64)
        counts = np.zeros(len(self.metric), np.int64)
        for records in self._trace.chunks(CHUNK):
            metric = np.searchsorted(self._overview.metric_ids, records["metric"].astype(np.int64))
            counts += np.bincount(metric, minlength=len(counts))
        return counts

    def line(self, line: int, window: Window | None = None) -> Samples:
        time, node, metric = self._trace.arrays()
        if metric is not None:
            chosen = metric == self._overview.metric_ids[line]
            time, node = time[chosen], node[chosen]
        context = self._contexts[node]
        if self._overview.disordered:
            order = np.argsort(time, kind="stable")
            time, context = time[order], context[order]
        return Samples(time, context).within(window)


# -- a trace as fields and as text -------------------------------------------------------------------------------------
# In the order of the file and with the file's own numbers:
#
# hpctrace 01.01 big-endian flags=0x0
# TIME NODE [METRIC]                        one line per record, times in the unit of the file
# end


ROWS_AT_ONCE = 1 << 14  # records


def fields(trace: TraceFile) -> Iterator[Field]:
    """Yield every field; damage raises after what is intact was given."""
    name = trace.path.name
    if trace.version:
        yield Field(name, "header", -1, 0, "magic", MAGIC.decode())
        yield Field(name, "header", -1, len(MAGIC), "version", trace.version)
        yield Field(name, "header", -1, START - 1, "endian", "b")
    if trace.version == "01.01" and trace.records_at == START + 8:
        yield Field(name, "header", -1, START, "flags", f"{trace.flags:#x}")
    names = trace.record.names or ()
    places = [int(place) for _, place, *_ in (trace.record.fields or {}).values()]
    index, at = 0, trace.records_at
    for records in trace.chunks(ROWS_AT_ONCE):
        for record in records.tolist():
            for column, place, value in zip(names, places, record, strict=True):
                yield Field(name, "records", index, at + place, column, value)
            index, at = index + 1, at + trace.record.itemsize
    _damage(trace)


def text(trace: TraceFile, limit: int | None = None) -> Iterator[str]:
    """Yield pieces of text, each of whole lines, of at most `limit` records; damage raises after what is intact was
    given."""
    yield _head(trace)
    row = " ".join(["%d"] * len(trace.record.names or ()))
    for rows in _rows(trace, limit):
        yield "".join([f"{row % record}\n" for record in rows])
    if limit is not None and limit < trace.n_records:
        yield f"... and {trace.n_records - limit} more\n"
    _damage(trace)
    yield "end\n"


def json_text(trace: TraceFile, limit: int | None = None) -> Iterator[str]:
    """Yield a trace as the text of one JSON object."""
    yield f'{{"version": {json.dumps(trace.version)}, "flags": {trace.flags}, "records": ['
    row = ", ".join(f'"{name}": %d' for name in trace.record.names or ())
    comma = ""
    for rows in _rows(trace, limit):
        yield comma + ",\n ".join([f"{{{row % record}}}" for record in rows])
        comma = ",\n "
    yield "]}\n"
    _damage(trace)


def summary(trace: TraceFile, limit: int | None = None) -> Iterator[str]:
    """Yield counts and times. There is nothing of which `limit` could cut rows."""
    overview = scan(trace)
    yield _head(trace)
    yield f"records {trace.n_records} disordered={overview.disordered}\n"
    if overview.time_range is not None:
        first, last = (time // trace.time_scale for time in overview.time_range)
        yield f"time {first} to {last} {'us' if trace.time_scale == MICROSECONDS else 'ns'}\n"
    yield f"nodes {len(overview.node_ids)}\n"
    if trace.data_centric:
        yield f"metrics {len(overview.metric_ids)}\n"
    _damage(trace)
    yield "end\n"


def _head(trace: TraceFile) -> str:
    return f"hpctrace {trace.version} big-endian flags={trace.flags:#x}\n"


def _rows(trace: TraceFile, limit: int | None) -> Iterator[list[tuple[int, ...]]]:
    n = trace.n_records if limit is None else min(limit, trace.n_records)
    for first in range(0, n, ROWS_AT_ONCE):
        yield trace.records(first, min(ROWS_AT_ONCE, n - first)).tolist()


def _damage(trace: TraceFile) -> None:
    if trace.problems:
        raise trace.problems[0]


# -- the format --------------------------------------------------------------------------------------------------------


NAME = re.compile(r"(?P<program>.+)-(?P<rank>\d{6,})-(?P<thread>\d{3,})-(?P<host>[0-9a-f]+)-(?P<process>\d+)-\d+", re.A)
FIRST_STREAM = 500  # numbers of threads from here on are GPU streams
NODE, RANK, THREAD = (DEFAULT_ID_NAMES.index(name) for name in ("NODE", "RANK", "THREAD"))
ALONE = "is only the trace of one profile; open the folder that it came from to see names and the rest"


class HpctraceFormat:
    """Reads, prints, checks and writes single traces."""

    name = "hpctrace"
    title = "HPCToolkit trace of one thread or GPU stream (.hpctrace)"

    def match(self, source: Source) -> Match | None:
        """Recognise a trace by its magic."""
        return Match(Grade.EXACT, "it begins as a trace does") if source.head(len(MAGIC)) == MAGIC else None

    def read(self, source: Source, options: ReadOptions) -> Experiment:
        trace = TraceFile.open(source.path)
        options.progress("reading the trace", 0, trace.file.size)
        overview = scan(trace)
        builder = ExperimentBuilder(self.name, trace.version, source.path.name, str(source.path))
        builder.attributes.update({FLAGS: f"{trace.flags:#x}", TIME_UNIT: unit_of(trace)})
        builder.warn(Severity.MISSING, f"{source.path}: {ALONE}")
        for problem in trace.problems:
            builder.warn(Severity.DAMAGE, str(problem))
        _add_profile(builder, trace)
        for id_ in overview.metric_ids.tolist():
            builder.add_metric(Metric(f"metric#{id_}", Scope.NONE, source_id=id_))
        _add_samples(builder, trace, overview)
        return builder.build()

    def check(self, source: Source, options: ReadOptions) -> Iterator[Problem]:
        """Yield records that are cut off, or out of the order of time."""
        trace = TraceFile.open(source.path)
        options.progress("checking the trace", 0, trace.file.size)
        overview = scan(trace)
        for problem in trace.problems:
            yield Problem(Severity.DAMAGE, source.path.name, "trace", str(problem))
        if overview.disordered:
            late = f"{overview.disordered:,} records are earlier than the one before"
            yield Problem(Severity.NOTE, source.path.name, "records", f"{late}; they are sorted by time when read")

    def dump(self, source: Source) -> Iterator[Field]:
        """Yield every field of every record."""
        return fields(TraceFile.open(source.path))

    def dump_text(self, source: Source) -> Iterator[str]:
        """Yield the trace as lines of text."""
        return text(TraceFile.open(source.path))

    def dump_view(self, source: Source, view: str, limit: int | None = None) -> Iterator[str]:
        """Yield the text of at most `limit` records, the same as JSON, or a summary."""
        show = {"text": text, "json": json_text, "summary": summary}.get(view)
        if show is None:
            raise UsageError(f"{source.path}: a trace has no {view}: it names nodes of the .hpcrun file beside it")
        return show(TraceFile.open(source.path), limit)

    def open_writer(self, target: Path, options: WriteOptions) -> Writer:
        """Return the writer of a trace that appears at `target` when the writer is closed."""
        return TraceWriter(target, options)


FORMAT = HpctraceFormat()


def unit_of(trace: TraceFile) -> str:
    """Return the unit of the times in the file."""
    return "us" if trace.time_scale == MICROSECONDS else "ns"


def _add_profile(builder: ExperimentBuilder, trace: TraceFile) -> None:
    name = NAME.fullmatch(trace.path.name.removesuffix(".hpctrace"))
    is_stream = bool(trace.flags & CALL_TRACE) or (name is not None and int(name["thread"]) >= FIRST_STREAM)
    identifiers: list[Identifier] = []
    if name is not None:
        builder.title = name["program"]
        host = int(name["host"], 16) & (2**64 - 1)
        identifiers.append((NODE, host, 0, Interpretation.LOGICAL_LOCAL))
        for kind, number in ((RANK, int(name["rank"])), (THREAD, int(name["thread"]))):
            identifiers.append((kind, number, number, Interpretation.SINGLE))
        builder.attributes.update({"program-name": name["program"], "process-id": name["process"]})
    builder.add_profile(ProfileKind.GPU_STREAM if is_stream else ProfileKind.THREAD, identifiers)


def _add_samples(builder: ExperimentBuilder, trace: TraceFile, overview: TraceScan) -> None:
    ids = overview.node_ids[overview.node_ids > 0]
    none = np.full(len(ids), ABSENT)
    builder.add_contexts(parent=none, kind=none * 0 + ContextKind.ELIDED, source_id=ids)
    samples = TraceSamples(trace, overview, IdMap(ids, builder.order()))
    builder.set_traces(samples, time_range=overview.time_range)
