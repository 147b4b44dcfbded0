"""Traces of a legacy database: copied hpctrace files, or experiment.mt, which holds them one after the other.

Records are (time, node id); the id is the node's `it`, or `i` where no node has one. Times are microseconds or
nanoseconds since the epoch: the XML says which (`u`), or their size does (16 or 19 digits).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from callgrove.binary.filebytes import FileBytes
from callgrove.binary.idmap import IdMap
from callgrove.errors import CallgroveError, CorruptFile, UnsupportedVersion
from callgrove.formats.hpctoolkit import legacy_records as rec
from callgrove.model.arrays import ABSENT, Array, Ids, Ints
from callgrove.model.traces import Samples, Window

__all__ = ["LegacySamples", "TraceFile", "merged_traces", "open_trace", "ticks_to_ns"]

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
    """The checked header of an hpctrace, alone in a file or between two offsets of one."""
    file = FileBytes(path)
    stop = file.size if end is None else end
    if file.size == 0 and start == 0:
        return TraceFile(path, 0, 0, rec.SAMPLE)
    head = file.record(rec.TRACE, start, "trace header")
    magic = file.copy(start, 18, "trace header")
    if magic != rec.TRACE_MAGIC:
        raise CorruptFile(path, "trace header", offset=start, expected=f"{rec.TRACE_MAGIC!r}", found=f"{magic!r}")
    version = bytes(head["version"])
    if version not in rec.TRACE_VERSIONS or head["endian"] != b"b":
        known = " or ".join(v.decode() for v in rec.TRACE_VERSIONS)
        raise UnsupportedVersion(f"{path}: trace of version {version.decode('latin-1')!r}, not {known}, big-endian")
    at, flags = start + rec.TRACE.itemsize, 0
    if version != rec.TRACE_VERSIONS[0] and at + rec.TRACE_FLAGS.itemsize <= stop:
        flags = int(file.record(rec.TRACE_FLAGS, at, "trace header")["flags"])
        at += rec.TRACE_FLAGS.itemsize
    record = rec.SAMPLE_OF_METRIC if flags & rec.DATA_CENTRIC else rec.SAMPLE
    count, rest = divmod(max(0, stop - at), record.itemsize)
    return TraceFile(path, at, count, record, flags, rest=rest)


def merged_traces(path: Path) -> list[TraceFile]:
    """The traces in experiment.mt. They must not lie in one another, and end with a trailer."""
    file = FileBytes(path)
    n = int(file.record(rec.MT_HEADER, 0, "header")["nFiles"])
    entries = file.array(rec.MT_ENTRY, n, rec.MT_HEADER.itemsize, "table")
    first = rec.MT_HEADER.itemsize + n * rec.MT_ENTRY.itemsize
    trailer = file.size - 8
    file.check(first, max(0, trailer - first) + 8, "trailer")
    if int(file.array(">u8", 1, trailer, "trailer")[0]) != rec.MT_TRAILER:
        found = file.copy(trailer, 8, "trailer").hex()
        raise CorruptFile(path, "trailer", offset=trailer, expected=f"{rec.MT_TRAILER:x}", found=found)
    offsets = entries["offset"].astype(np.int64)
    bounds = np.append(np.sort(offsets), trailer)
    if n and (bounds[0] < first or (np.diff(bounds) < 0).any() or len(np.unique(offsets)) < n):
        expected = f"offsets from {first} to {trailer}, each once"
        raise CorruptFile(
            path, "table", offset=rec.MT_HEADER.itemsize, expected=expected, found=str(offsets[:3].tolist())
        )
    ends = bounds[np.searchsorted(bounds, offsets) + 1]
    traces = []
    for entry, start, end in zip(entries.tolist(), offsets.tolist(), ends.tolist(), strict=True):
        traces.append(replace(open_trace(path, start, end), rank=entry[0], thread=entry[1]))
    return traces


def ticks_to_ns(ticks_per_sec: int, largest: int) -> int:
    """Nanoseconds per tick; where the file does not say, by the size of a time."""
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
        """One line in time order; the rare trace that is not (an interrupted thread) is sorted."""
        trace = self._traces[line]
        if not trace.count:
            return Samples(np.empty(0, np.int64), np.empty(0, np.int32))
        records = trace.records()
        ticks = records["time"].astype(np.uint64)
        if trace.flags & rec.LCA_RECORDED:
            ticks &= DEPTH_BITS
        time_ns = (np.minimum(ticks, np.uint64(LAST_NS // self._ns)) * np.uint64(self._ns)).astype(np.int64)
        context = self._contexts[records["node"].astype(np.int64)]
        self.unknown += int((context < 0).sum())
        if (np.diff(time_ns) < 0).any():
            self.unordered.add(line)
            order = np.argsort(time_ns, kind="stable")
            time_ns, context = time_ns[order], context[order]
        return Samples(time_ns, context).within(window)
