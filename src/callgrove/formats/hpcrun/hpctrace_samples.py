"""The samples of one trace in the model's ids: a line of contexts, or a line per metric of a data-centric trace.

Node id 0 is no node: idle. The ids that occur are found in one pass over the file, which also looks at the order of
times; samples are converted when they are asked for.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from callgrove.binary.idmap import IdMap
from callgrove.errors import CallgroveError
from callgrove.formats.hpcrun.hpctrace_records import TraceFile
from callgrove.model.arrays import Array, Ids, Ints
from callgrove.model.traces import Samples, Window

__all__ = ["IdSet", "TraceSamples", "TraceScan", "scan"]

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
    """One pass over all records, a chunk in memory."""
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

    def __init__(self, trace: TraceFile, found: TraceScan, contexts: IdMap) -> None:
        self._trace, self._found, self._contexts = trace, found, contexts
        n_lines = len(found.metric_ids) if trace.data_centric else 1
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
            metric = np.searchsorted(self._found.metric_ids, records["metric"].astype(np.int64))
            counts += np.bincount(metric, minlength=len(counts))
        return counts

    def line(self, line: int, window: Window | None = None) -> Samples:
        time, node, metric = self._trace.arrays()
        if metric is not None:
            chosen = metric == self._found.metric_ids[line]
            time, node = time[chosen], node[chosen]
        context = self._contexts[node]
        if self._found.disordered:
            order = np.argsort(time, kind="stable")
            time, context = time[order], context[order]
        return Samples(time, context).within(window)
