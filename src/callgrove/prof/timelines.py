"""The second pass: the trace of a file as samples of contexts, packed as the target stores them (hpcrun-and-prof.md 9).

Samples on nodes that the file does not have, or whose callers are not known, are left out. Of several idle samples one
after the other the first is kept, unless the target has a context for them.

A trace has far more samples than its file has nodes: what can be decided by node is decided there. Samples go through
in pieces that stay in the processor's cache; only the records are there as a whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from callgrove.formats.hpcrun.files import TRACE_SUFFIX
from callgrove.formats.hpcrun.hpctrace_records import CALL_TRACE, TraceFile
from callgrove.formats.interface import PackedSamples
from callgrove.model.arrays import ABSENT, Array, Bools, Ids, Ints
from callgrove.model.traces import Window
from callgrove.prof.costs import FileNodes
from callgrove.prof.plan import LEFT_OUT, Plan
from callgrove.prof.spool import Line

__all__ = ["packed_samples"]

NOWHERE = np.array([LEFT_OUT], np.int32)
PIECE = 1 << 15  # samples
Piece = tuple[Ints, Array]  # times and node ids


def packed_samples(plan: Plan, files: Iterable[tuple[int, FileNodes, int]]) -> Iterator[Line]:
    """The samples of profiles, their files, and at most so many of each, in the layout of the plan; and how many were
    left out. (A trace that is still being written has more by now than it had in the first pass.) The records of all
    lines use the same memory: a line is good until the next one is asked for."""
    records = np.empty(0, plan.layout.record)
    for profile, file, most in files:
        path = Path(file.file.path).with_suffix(TRACE_SUFFIX)
        trace = TraceFile.open(path, 1000 if file.measurement.is_old else 1)
        n = min(trace.n_records, most)
        if n > len(records):
            records = np.empty(n + n // 4, plan.layout.record)
        packing = _Packing(plan, file, trace, records[:n])
        if not packing.add(_in_pieces(trace, n)):
            packing = _Packing(plan, file, trace, records[:n])
            packing.add([_in_order(trace, n)])
        yield packing.line(profile)


def _in_pieces(trace: TraceFile, n: int) -> Iterator[Piece]:
    for first in range(0, n, PIECE):
        time, node, _ = trace.arrays(first, min(PIECE, n - first))
        yield time, node


def _in_order(trace: TraceFile, n: int) -> Piece:
    time, node, _ = trace.arrays(0, n)
    order = np.argsort(time, kind="stable")
    return time[order], node[order]


class _Packing:
    """Positions are those of the nodes of all epochs of a file; the last one stands for nodes that it does not have.
    `context` is what samples at each position are of, `n_at` how many there were."""

    def __init__(self, plan: Plan, file: FileNodes, trace: TraceFile, records: Array) -> None:
        self.file = file
        contexts_at = plan.contexts_at[bool(trace.flags & CALL_TRACE)]
        self.context: Ids = np.concatenate([*(contexts_at[nodes] for nodes in file.nodes), NOWHERE])
        self.n_at = np.zeros(len(self.context), np.int64)
        self.left_out: Bools = self.context == LEFT_OUT
        self.idle: Bools = (self.context == ABSENT) & (not plan.flavour.has_idle)
        self.gaps = np.flatnonzero(self.left_out | self.idle)
        self.ids = plan.layout.ids[np.maximum(self.context, ABSENT)].astype(plan.layout.record["ctx"])
        self.records = records
        self.n, self.ends_idle = 0, False
        self.measured: Window | None = None

    def add(self, pieces: Iterable[Piece]) -> bool:
        """False where a sample is earlier than the one before it."""
        times, ids, last = self.records["time"], self.records["ctx"], ABSENT
        for time, node in pieces:
            if time[0] < last or (time[1:] < time[:-1]).any():
                return False
            last, at = int(time[-1]), self._positions(node)
            self.measured = (self.measured or (int(time[0]), last))[0], last
            self.n_at += np.bincount(at, minlength=len(self.n_at))
            if self.n_at[self.gaps].any():
                kept = self._kept(at)
                time, at = time[kept], at[kept]
            part = slice(self.n, self.n + len(time))
            times[part], ids[part] = time, self.ids.take(at)
            self.n = part.stop
        return True

    def _positions(self, node: Array) -> Ids:
        """Node ids mean the last epoch that has them."""
        at: Ids | None = None
        start = 0
        for epoch in self.file.measurement.epochs:
            found = epoch.nodes.positions[node]
            at = found if at is None else np.where(found >= 0, found + start, at)
            start += len(epoch.nodes)
        if at is None:
            return np.zeros(len(node), np.int32)
        return np.where(at < 0, start, at) if at.min() < 0 else at

    def _kept(self, at: Ids) -> Bools:
        """Which samples are neither nowhere nor idle like the one before, which may be that of another piece."""
        kept: Bools = ~self.left_out[at]
        placed = np.flatnonzero(kept)
        idle = self.idle[at[placed]]
        again = idle & np.append(self.ends_idle, idle[:-1])
        kept[placed[again]] = False
        self.ends_idle = bool(idle[-1]) if len(idle) else self.ends_idle
        return kept

    def line(self, profile: int) -> Line:
        records = self.records[: self.n]
        ends = (int(records["time"][0]), int(records["time"][-1])) if self.n else None
        contexts = self.context[(self.n_at > 0) & ~self.left_out]
        packed = PackedSamples(profile, records, ends, contexts, self.measured)
        return Line(packed, int(self.n_at[self.left_out].sum()))
