"""Samples of a trace: from nodes of a file to contexts, packed as the target stores them (hpcrun-and-prof.md 9).

Samples on nodes that the file does not have, or whose callers are not known, are left out. Of several idle samples
one after the other the first is kept, unless the target has a context for them.

A trace has far more samples than its file has nodes: what can be decided by node is decided there, and of most samples
nothing is asked but which number the target has for their node. Samples go through in pieces that stay in the
processor's cache; only the records are there as a whole. All traces go through the same memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path

import numpy as np

from callgrove.arrays import ABSENT, Array, Bools, Ids, Ints
from callgrove.binary.reading import FileReader, KeptMemory
from callgrove.formats.hpcrun.files import TRACE_SUFFIX
from callgrove.formats.hpcrun.hpctrace import CALL_TRACE, TraceFile
from callgrove.formats.hpcrun.measurement import NodeWords, Positions
from callgrove.formats.interface import PackedSamples
from callgrove.model.traces.events import Window
from callgrove.prof.second_pass import LEFT_OUT, FileNodes, Plan
from callgrove.prof.spool import Line

__all__ = ["pack_samples"]


PIECE = 1 << 15  # samples
Piece = tuple[Ints, Array]  # times and node ids


def pack_samples(plan: Plan, files: Iterable[tuple[int, FileNodes, int]]) -> Iterator[Line]:
    """Yield the samples of profiles, their files, and at most so many of each, in the layout of the plan; and how many
    were left out. (A trace that is still being written has more by now than it had in the first pass.) The records of
    all lines use the same memory: a line is good until the next one is asked for."""
    read, packed = KeptMemory(), KeptMemory()
    for profile, file, most in files:
        path = Path(file.file.path).with_suffix(TRACE_SUFFIX)
        with FileReader(path, read) as opened:
            trace = TraceFile(opened, 1000 if file.measurement.is_old else 1)
            n = min(trace.n_records, most)
            is_call_trace = bool(trace.flags & CALL_TRACE)
            records = packed.items(plan.layout.record, n)
            packing = _Packing(plan, file, is_call_trace, records)
            if not packing.add(_in_pieces(trace, n)):
                packing = _Packing(plan, file, is_call_trace, records)
                packing.add([_in_order(trace, n)])
        yield packing.line(profile)


def _in_pieces(trace: TraceFile, n: int) -> Iterator[Piece]:
    for first in range(0, n, PIECE):
        time, node, _ = trace.arrays(first, min(PIECE, n - first))
        yield time, node


def _in_order(trace: TraceFile, n: int) -> Piece:
    time, node = (np.concatenate(column) for column in zip(*_in_pieces(trace, n), strict=True))
    order = np.argsort(time, kind="stable")
    return time[order], node[order]


class _Packing:
    """The samples of one file in the making, in the order of time. `numbers` are those that the target has for node
    ids, where nothing else needs to be known."""

    def __init__(self, plan: Plan, file: FileNodes, is_call_trace: bool, records: Array) -> None:
        self.plan, self.file, self.records = plan, file, records
        self.time_kind = records.dtype["time"].newbyteorder("=")  # a conversion would take longer than the copy
        self.nodes = plan.samples_at[is_call_trace]
        positions, node = _positions_of(file)
        self.numbers = positions.give(self.nodes.number.take(node), self.nodes.unplaced)
        self.n, self.n_left_out = 0, 0
        self.has_idle, self.ends_idle = False, False
        self.measured: Window | None = None
        self.ends: Window | None = None

    @cached_property
    def contexts(self) -> NodeWords:
        """The context of samples by node id."""
        positions, node = _positions_of(self.file)
        return positions.give(self.nodes.context.take(node), LEFT_OUT)

    def add(self, pieces: Iterable[Piece]) -> bool:
        """Add pieces of a trace; return False where a sample is earlier than the one before it."""
        times, numbers, last = self.records["time"], self.records["ctx"], ABSENT
        for time, node in pieces:
            if time[0] < last or (time[1:] < time[:-1]).any():
                return False
            last = int(time[-1])
            self.measured = _extend(self.measured, time)
            number = self.numbers[node]
            if int(number.max()) == self.nodes.unplaced:
                time, number = self._choose(time, self.contexts[node])
            else:
                self.ends_idle = False
            if len(time):
                part = slice(self.n, self.n + len(time))
                times[part], numbers[part] = time.view(self.time_kind), number
                self.ends, self.n = _extend(self.ends, time), part.stop
        return True

    def _choose(self, time: Ints, context: Ids) -> tuple[Ints, Array]:
        """Return the samples that are kept of a piece, with their numbers in the target."""
        kept = context != LEFT_OUT
        self.n_left_out += len(kept) - int(np.count_nonzero(kept))
        if not self.plan.flavour.has_idle:
            self._drop_repeated_idle(context, kept)
        time, context = time[kept], context[kept]
        self.has_idle |= bool((context == ABSENT).any())
        return time, self.plan.layout.ids[context]  # the last one is that of idle

    def _drop_repeated_idle(self, context: Ids, kept: Bools) -> None:
        """Keep no idle sample that follows one, which may be that of another piece."""
        placed = np.flatnonzero(kept)
        idle = context[placed] == ABSENT
        kept[placed[idle & np.append(self.ends_idle, idle[:-1])]] = False
        self.ends_idle = bool(idle[-1]) if len(idle) else self.ends_idle

    def line(self, profile: int) -> Line:
        packed = PackedSamples(profile, self.records[: self.n], self.ends, self.has_idle, self.measured)
        return Line(packed, self.n_left_out)


def _extend(window: Window | None, time: Ints) -> Window:
    """Return a window that also has times which come later."""
    return int(time[0]) if window is None else window[0], int(time[-1])


def _positions_of(file: FileNodes) -> tuple[Positions, Ids]:
    """Return the positions of all node ids of a file, and the nodes there; an id means the last epoch that has it."""
    epochs = file.measurement.epochs
    if len(epochs) == 1:
        return epochs[0].nodes.positions, file.nodes[0]
    ids = np.concatenate([np.empty(0, np.uint32), *(epoch.nodes.id for epoch in epochs)])[::-1]
    distinct, first = np.unique(ids, return_index=True)
    nodes = np.concatenate([np.empty(0, np.int32), *file.nodes])[::-1]
    return Positions(distinct), nodes[first]
