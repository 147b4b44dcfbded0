"""What devices did over time: busy, overlapping, idle and why.

Specification: gpu-traces.md section 7. Busy is the length of a union of intervals, never a sum of durations: kernels
overlap, and a device cannot be busy for more than all of the time.

    compute         |=====|   |==|
    copy               |====|
    device          |#######|.|##|        # busy    . idle: a gap, ended by the operation that comes next

A gap's cause is read off the call that launched that operation:

    gap        |..........................|op
    call             |launch()|
               host late   launching  queued

Many devices are swept over at once: their times are moved so that each device begins when the one before has ended.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np

from callgrove.arrays import ABSENT, Array, Bools, Ints, in_order

__all__ = [
    "CAUSES",
    "CLASSES",
    "Activity",
    "DeviceUse",
    "DeviceUses",
    "Latency",
    "device_use",
    "device_uses",
    "latency",
]

CLASSES = ("compute", "communication", "copy")
CAUSES = ("host late", "launching", "queued", "unknown")
SETS = tuple(chosen for n in (1, 2, 3) for chosen in combinations(range(len(CLASSES)), n))
ALONE = tuple(f"{name} only" for name in CLASSES)
TOGETHER = tuple(" and ".join(CLASSES[k] for k in chosen) for chosen in SETS[len(CLASSES) :])
SET_NAMES = (*ALONE, *TOGETHER, "idle")
FURTHEST = 1 << 62
PIECE = 1 << 15  # operations that are swept over at once
FEW_AT_ONCE = 16  # operations at once that are counted one after the other


@dataclass(frozen=True)
class Activity:
    """Operations of devices, and the host calls that launched them; -1 in `call_start_ns` where none is known.

    `klass` numbers CLASSES. Operations that end before they start are left out by whoever makes this.
    """

    start_ns: Ints
    end_ns: Ints
    klass: Array
    call_start_ns: Ints
    call_end_ns: Ints

    def __len__(self) -> int:
        return len(self.start_ns)

    def take(self, rows: Ints | Bools) -> Activity:
        return Activity(*(getattr(self, name)[rows] for name in self.__dataclass_fields__))

    @property
    def linked(self) -> Bools:
        known: Bools = self.call_start_ns != ABSENT
        return known


@dataclass(frozen=True)
class DeviceUse:
    """For how long a device did what, in nanoseconds, from its first operation to the end of its last, as far as these
    take any time."""

    n_operations: int
    span_ns: int
    busy_ns: int
    alone_ns: tuple[int, ...]  # by class: nothing of another class was going on
    together_ns: dict[tuple[str, ...], int]  # two or three classes at once
    most_at_once: int
    gap_ns: Ints  # length of every gap
    gap_start_ns: Ints
    cause_ns: dict[str, Ints] = field(default_factory=dict)  # by cause, for every gap

    @property
    def idle_ns(self) -> int:
        return self.span_ns - self.busy_ns


@dataclass(frozen=True)
class DeviceUses:
    """The same of several devices, as columns by device; gaps come device by device."""

    n_operations: Ints
    span_ns: Ints
    busy_ns: Ints
    exactly_ns: dict[tuple[int, ...], Ints]  # by set of classes: these went on, and no other
    most_at_once: Ints
    gap_device: Ints
    gap_ns: Ints
    gap_start_ns: Ints
    cause_ns: dict[str, Ints]

    def going_on(self) -> list[dict[str, int]]:
        """Return the time of every device by what went on at once, idle included."""
        columns = [*(self.exactly_ns[chosen].tolist() for chosen in SETS), (self.span_ns - self.busy_ns).tolist()]
        return [dict(zip(SET_NAMES, times, strict=True)) for times in zip(*columns, strict=True)]

    def __getitem__(self, k: int) -> DeviceUse:
        gaps = self.gap_device == k
        exactly = {tuple(CLASSES[c] for c in chosen): int(length[k]) for chosen, length in self.exactly_ns.items()}
        return DeviceUse(
            int(self.n_operations[k]),
            int(self.span_ns[k]),
            int(self.busy_ns[k]),
            tuple(exactly[name,] for name in CLASSES),
            {names: length for names, length in exactly.items() if len(names) > 1},
            int(self.most_at_once[k]),
            self.gap_ns[gaps],
            self.gap_start_ns[gaps],
            {cause: length[gaps] for cause, length in self.cause_ns.items()},
        )

    @classmethod
    def concatenate(cls, parts: Iterable[DeviceUses]) -> DeviceUses:
        """Return the devices of all parts, one part after the other."""
        every = list(parts)
        firsts = np.cumsum([0, *(len(part.span_ns) for part in every)])
        columns = {
            name: np.concatenate([getattr(part, name) for part in every])
            for name in ("n_operations", "span_ns", "busy_ns", "most_at_once", "gap_ns", "gap_start_ns")
        }
        device = [part.gap_device + first for part, first in zip(every, firsts[:-1], strict=True)]
        return cls(
            **columns,
            exactly_ns={c: np.concatenate([part.exactly_ns[c] for part in every]) for c in SETS},
            gap_device=np.concatenate(device),
            cause_ns={cause: np.concatenate([part.cause_ns[cause] for part in every]) for cause in CAUSES},
        )


def device_use(activity: Activity) -> DeviceUse:
    """Return the busy time, overlap of compute, communication and copies, and the gaps."""
    return device_uses(activity, np.zeros(len(activity), np.int64), 1)[0]


def device_uses(activity: Activity, device: Array, n_devices: int) -> DeviceUses:
    """Return how devices, numbered from 0, were used; `device` has the one of every operation."""
    n_operations = np.bincount(device, minlength=n_devices)
    rows = _sort_operations(activity, device)
    start, end, klass = (column.take(rows) for column in (activity.start_ns, activity.end_ns, activity.klass))
    sweep = _Sweep.over(start, end, klass, device.take(rows), n_devices)
    if sweep is None:  # times that lie too far apart
        parts = (device_uses(activity.take(device == k), np.zeros(n, np.int64), 1) for k, n in enumerate(n_operations))
        return DeviceUses.concatenate(parts)
    covered = sweep.measure_coverage()
    ends_gap = sweep.ends_gap
    gap_device = sweep.device[ends_gap]
    moved = sweep.moves.take(gap_device)
    gap_end, gap_start = sweep.start[ends_gap], sweep.latest[ends_gap - 1]
    gap_end -= moved
    gap_start -= moved
    ending = rows[ends_gap]  # the operations that end gaps
    call = activity.call_start_ns[ending], activity.call_end_ns[ending]
    return DeviceUses(
        n_operations,
        sweep.span_ns,
        covered[SETS[-1]],
        _measure_exact_sets(covered),
        sweep.most_at_once(),
        gap_device,
        gap_end - gap_start,
        gap_start,
        _causes(*call, gap_start, gap_end),
    )


def _sort_operations(activity: Activity, device: Array) -> Ints:
    """Return the operations that take any time, by device and start."""
    lasting = activity.end_ns > activity.start_ns
    rows = None if lasting.all() else np.flatnonzero(lasting)
    start, device_of_row = (activity.start_ns, device) if rows is None else (activity.start_ns[rows], device[rows])
    order = in_order(device_of_row, start)
    return order if rows is None else rows[order]


@dataclass(frozen=True)
class _Sweep:
    """Operations in order, with times that rise from device to device: `moves` was added to those of each."""

    start: Ints
    end: Ints
    klass: Array
    device: Array
    first: Ints  # by device: its first operation, and the end of all
    span_ns: Ints
    moves: Ints
    latest: Ints  # the last end so far

    @classmethod
    def over(cls, start: Ints, end: Ints, klass: Array, device: Array, n_devices: int) -> _Sweep | None:
        first = np.searchsorted(device, np.arange(n_devices + 1))
        used = np.flatnonzero(first[:-1] < first[1:])
        span = np.zeros(n_devices, np.int64)
        if len(used):
            span[used] = np.maximum.reduceat(end, first[used]) - start[first[used]]
        if n_devices > 1 and int((span.astype(np.float64) + 1).sum()) >= FURTHEST:
            return None
        moves = np.cumsum(span + 1) - (span + 1)
        moves[used] -= start[first[used]]
        for k in used.tolist():
            part = slice(first[k], first[k + 1])
            start[part] += moves[k]
            end[part] += moves[k]
        return cls(start, end, klass, device, first, span, moves, np.maximum.accumulate(end))

    @property
    def ends_gap(self) -> Ints:
        """Operations before which their device was idle."""
        after = 1 + np.flatnonzero(self.start[1:] > self.latest[:-1])
        rows: Ints = after[self.device[after] == self.device[after - 1]]
        return rows

    def measure_coverage(self) -> dict[tuple[int, ...], Ints]:
        """Return for each device, by set of classes, for how long any of them went on."""
        present = tuple(k for k in range(len(CLASSES)) if (self.klass == k).any())
        sets = dict.fromkeys(tuple(k for k in chosen if k in present) for chosen in SETS)
        coverage = {some: np.zeros(len(self.span_ns), np.int64) for some in sets}
        latest = {some: self.start[0] for some in sets if some}
        used = np.flatnonzero(self.first[:-1] < self.first[1:])
        for begin in range(0, len(self.start), PIECE):
            piece = slice(begin, begin + PIECE)
            low, high = np.searchsorted(self.first[used], [begin, min(begin + PIECE, len(self.start)) - 1], "right")
            devices = used[low - 1 : high]
            bounds = np.maximum(self.first[devices] - begin, 0)
            for some, reached in self._reach(piece, present, latest):
                lengths = np.maximum(reached[:-1], self.start[piece])
                np.subtract(reached[1:], lengths, out=lengths)
                coverage[some][devices] += np.add.reduceat(lengths, bounds)
                latest[some] = reached[-1]
        return {chosen: coverage[tuple(k for k in chosen if k in present)] for chosen in SETS}

    def _reach(
        self, piece: slice, present: Sequence[int], latest: Mapping[tuple[int, ...], np.int64]
    ) -> Iterator[tuple[tuple[int, ...], Ints]]:
        """Yield for each set of classes the last end so far, before a piece and at each of its operations. Pieces are
        small, so that what is computed of them fits into caches."""
        start, end, klass = self.start[piece], self.end[piece], self.klass[piece]
        reach: dict[tuple[int, ...], Ints] = {}
        for some in latest:  # smaller sets come first
            if len(some) > 1:
                reach[some] = np.maximum(reach[some[:-1]], reach[some[-1:]])
            else:
                ends = end if len(present) == 1 else np.where(klass == some[0], end, start)  # what else lasts no time
                reach[some] = np.maximum.accumulate(np.append(latest[some], ends))
            yield some, reach[some]

    def most_at_once(self) -> Ints:
        """Return how many operations went on at once; those that end when others start are over by then.

        When operation j starts there are more than m at once if the end j - m, of all ends in order, comes later.
        """
        out = (self.span_ns > 0).astype(np.int64)
        ends, start = np.sort(self.end, kind="stable"), self.start
        rows = 1 + np.flatnonzero(ends[:-1] > start[1:])
        for m in range(2, FEW_AT_ONCE):
            if not len(rows):
                return out
            out[self.device[rows]] = m
            rows = rows[rows >= m]
            rows = rows[ends[rows - m] > start[rows]]
        n_open = rows + 1 - np.searchsorted(ends, start[rows], side="right")
        np.maximum.at(out, self.device[rows], n_open)
        return out


def _measure_exact_sets(covered: dict[tuple[int, ...], Ints]) -> dict[tuple[int, ...], Ints]:
    """Return for how long exactly these classes went on, for every set of classes."""
    whole = covered[SETS[-1]]
    out: dict[tuple[int, ...], Ints] = {}
    for chosen in SETS:  # smaller sets come first
        others = tuple(k for k in range(len(CLASSES)) if k not in chosen)
        among = whole - covered[others] if others else whole  # nothing else went on
        out[chosen] = among - sum(length for some, length in out.items() if set(some) < set(chosen))
    return out


def _causes(call_start: Ints, call_end: Ints, gap_start: Ints, gap_end: Ints) -> dict[str, Ints]:
    """Return how much of each gap was before, during and after the call that launched the operation which ends it."""
    linked = call_start != ABSENT
    late, launched = np.clip(call_start, gap_start, gap_end), np.clip(call_end, gap_start, gap_end)
    parts = [late - gap_start, launched - late, gap_end - launched]
    unknown: Ints = np.zeros(len(linked), np.int64)
    if not linked.all():
        unknown = np.where(linked, 0, gap_end - gap_start)
        parts = [np.where(linked, part, 0) for part in parts]
    return dict(zip(CAUSES, [*parts, unknown], strict=True))


@dataclass(frozen=True)
class Latency:
    """Of operations whose call is known: the call itself, from its end to the operation's start (negative where the
    operation starts during the call), and both."""

    call_ns: Ints
    delay_ns: Ints
    total_ns: Ints


def latency(activity: Activity) -> Latency:
    known = activity.linked
    start, begin, end = activity.start_ns, activity.call_start_ns, activity.call_end_ns
    if not known.all():
        start, begin, end = start[known], begin[known], end[known]
    return Latency(end - begin, start - end, start - begin)
