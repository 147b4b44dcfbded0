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
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from callgrove.model.arrays import ABSENT, Bools, Ints
from callgrove.model.intervals import Intervals, merge, overlap

__all__ = ["CAUSES", "CLASSES", "Activity", "DeviceUse", "Latency", "device_use", "latency"]

CLASSES = ("compute", "communication", "copy")
CAUSES = ("host late", "launching", "queued", "unknown")


@dataclass(frozen=True)
class Activity:
    """Operations of one device, and the host calls that launched them; -1 in `call_start_ns` where none is known.

    `klass` numbers CLASSES. Operations that end before they start are left out by whoever makes this.
    """

    start_ns: Ints
    end_ns: Ints
    klass: Ints
    call_start_ns: Ints
    call_end_ns: Ints

    def __len__(self) -> int:
        return len(self.start_ns)

    def in_order(self) -> Activity:
        """By start, which makes what follows faster."""
        if (self.start_ns[1:] >= self.start_ns[:-1]).all():
            return self
        order = np.argsort(self.start_ns, kind="stable")
        return Activity(*(getattr(self, name)[order] for name in self.__dataclass_fields__))

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

    @property
    def going_on(self) -> dict[str, int]:
        """The device's time by what went on at once, idle included."""
        alone = {f"{CLASSES[k]} only": length for k, length in enumerate(self.alone_ns)}
        together = {" and ".join(classes): length for classes, length in self.together_ns.items()}
        return {**alone, **together, "idle": self.idle_ns}


def device_use(activity: Activity) -> DeviceUse:
    """Busy time, overlap of compute, communication and copies, and the gaps."""
    unions = [merge(activity.start_ns[activity.klass == k], activity.end_ns[activity.klass == k]) for k in range(3)]
    whole = merge(activity.start_ns, activity.end_ns)
    span = int(whole.end[-1] - whole.start[0]) if len(whole) else 0
    alone, together = _exclusive_lengths(unions)
    gap_start, gap_end = whole.end[:-1], whole.start[1:]
    return DeviceUse(
        len(activity),
        span,
        whole.length,
        alone,
        together,
        _most_at_once(activity),
        gap_end - gap_start,
        gap_start,
        _causes(activity, gap_start, gap_end),
    )


def _exclusive_lengths(unions: list[Intervals]) -> tuple[tuple[int, ...], dict[tuple[str, ...], int]]:
    """For how long exactly these classes were open, for every set of classes."""
    one, two = [u.length for u in unions], {}
    all_three = overlap(overlap(unions[0], unions[1]), unions[2]).length
    for a, b in ((0, 1), (0, 2), (1, 2)):
        two[a, b] = overlap(unions[a], unions[b]).length - all_three
    alone = tuple(
        one[k] - all_three - sum(length for pair, length in two.items() if k in pair) for k in range(len(unions))
    )
    together = {tuple(CLASSES[k] for k in pair): length for pair, length in two.items()}
    return alone, {**together, CLASSES: all_three}


def _causes(activity: Activity, gap_start: Ints, gap_end: Ints) -> dict[str, Ints]:
    """How much of each gap was before, during and after the call that launched the operation which ends it."""
    ends_gap = _first_at(activity, gap_end)
    begins, ends = activity.call_start_ns[ends_gap], activity.call_end_ns[ends_gap]
    linked = activity.linked[ends_gap]
    length = gap_end - gap_start
    late = np.clip(begins, gap_start, gap_end) - gap_start
    launched = np.clip(ends, gap_start, gap_end) - gap_start
    parts = (late, launched - late, length - launched)
    out = {cause: np.where(linked, part, 0) for cause, part in zip(CAUSES, parts, strict=False)}
    return {**out, "unknown": np.where(linked, 0, length)}


def _most_at_once(activity: Activity) -> int:
    """How many operations went on at once; those that end when others start are over by then."""
    lasting = activity.end_ns > activity.start_ns
    starts, ends = np.sort(activity.start_ns[lasting], kind="stable"), np.sort(activity.end_ns[lasting], kind="stable")
    open_ = np.arange(1, len(starts) + 1) - np.searchsorted(ends, starts, side="right")
    return int(open_.max(initial=0))


def _first_at(activity: Activity, times: Ints) -> Ints:
    """The first operation that starts at each of these times; one does."""
    lasting = np.flatnonzero(activity.end_ns > activity.start_ns)  # empty ones end no gap
    order = lasting[np.argsort(activity.start_ns[lasting], kind="stable")]
    return order[np.searchsorted(activity.start_ns[order], times, side="left")]


@dataclass(frozen=True)
class Latency:
    """Of operations whose call is known: the call itself, from its end to the operation's start (negative where the
    operation starts during the call), and both."""

    call_ns: Ints
    delay_ns: Ints
    total_ns: Ints


def latency(activity: Activity) -> Latency:
    known = activity.linked
    start, begin, end = activity.start_ns[known], activity.call_start_ns[known], activity.call_end_ns[known]
    return Latency(end - begin, start - end, start - begin)
