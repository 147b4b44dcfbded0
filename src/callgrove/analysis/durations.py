"""Exact statistics of durations, group by group, gathered in parts.

Durations repeat: nanoseconds of one kernel take few different values, however often it runs. So a group keeps how often
each duration occurred, which gives every statistic exactly, the median included, and adds up in any order.

    group      0     0     1     ...     rising
    duration   120   125   40            rising inside a group
    times      310   17    9

Short durations of the first groups are counted in a table with a cell for each; all others are sorted, from time to
time, and equal ones put together.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from callgrove.model.arrays import Floats, Ints

__all__ = ["Durations", "Statistics"]

SHORT = 1 << 15  # nanoseconds that are counted in cells instead of sorted
MOST_BINNED = 64  # groups, whose cells take 128 KiB each
MANY = 1 << 15  # rows for which such a table is made
PIECE = 1 << 15  # rows that are counted at once
Counted = tuple[Ints, Ints, Ints]  # group, duration, how often
COMPACT_ROWS = 1 << 16  # rows that wait before equal ones are put together


@dataclass(frozen=True)
class Statistics:
    """One row per group that occurred. `std` is that of a sample, NaN for a single duration."""

    group: Ints
    count: Ints
    total: Ints
    mean: Floats
    median: Floats
    minimum: Ints
    maximum: Ints
    std: Floats
    p95: Ints  # the shortest duration that 95 % of all do not exceed

    def __len__(self) -> int:
        return len(self.group)


class Durations:
    """How often each duration occurred in each group."""

    def __init__(self) -> None:
        self._waiting: list[Counted] = []
        self._n_waiting = 0
        self._n_sorted = 0  # of the first one that waits, in which equal ones are put together
        self._bins = np.zeros((0, SHORT), np.int32)
        self._n_binned = 0

    def add(self, group: Ints | int, duration: Ints) -> None:
        """Durations of one part, each with its group, or all of one."""
        own = np.broadcast_to(np.int64(group), len(duration)) if isinstance(group, int) else group
        if len(own) >= MANY and int(own.max()) < MOST_BINNED:
            own, duration = self._count_many(own, duration)
        if len(own):
            self._keep((own, duration, np.broadcast_to(np.int64(1), len(own))))

    def _count_many(self, group: Ints, duration: Ints) -> tuple[Ints, Ints]:
        """Count what is short in cells, some rows at a time; what is left."""
        self._make_room(int(group.max()) + 1, len(duration))
        cells, one = self._bins.reshape(-1), self._bins.dtype.type(1)
        left: list[tuple[Ints, Ints]] = [(group[:0], duration[:0])]
        for first in range(0, len(duration), PIECE):
            own, length = group[first : first + PIECE], duration[first : first + PIECE]
            if int(length.min()) < 0 or int(length.max()) >= SHORT:
                short = (length >= 0) & (length < SHORT)
                left.append((own[~short], length[~short]))
                own, length = own[short], length[short]
            np.add.at(cells, own * SHORT + length, one)
        groups, lengths = (np.concatenate(columns) for columns in zip(*left, strict=True))
        return groups, lengths

    def merge(self, other: Durations, number: Ints | None = None) -> None:
        """Everything that another one has gathered; its group g is number[g]."""
        for group, duration, times in other._counted():
            self._keep((group if number is None else number[group], duration, times))

    def _keep(self, part: Counted) -> None:
        self._waiting.append(part)
        self._n_waiting += len(part[0])
        if self._n_waiting > COMPACT_ROWS + 2 * self._n_sorted:
            self._compact()

    def _compact(self) -> None:
        """Count what is short in cells, and put together what else is equal."""
        rest = _together([self._binned(*(np.concatenate(c) for c in zip(*self._waiting, strict=True)))])
        self._waiting = [rest]
        self._n_waiting = self._n_sorted = len(rest[0])

    def _binned(self, group: Ints, duration: Ints, times: Ints) -> Counted:
        """What is too long for cells, or belongs to too many groups."""
        short = (duration >= 0) & (duration < SHORT) & (group < MOST_BINNED)
        if int(short.sum()) < MANY:
            return group, duration, times
        every = bool(short.all())
        own, length, n = (group, duration, times) if every else (group[short], duration[short], times[short])
        self._make_room(int(own.max()) + 1, int(n.sum()))
        np.add.at(self._bins.reshape(-1), own * SHORT + length, n.astype(self._bins.dtype))
        return (group[:0], duration[:0], times[:0]) if every else (group[~short], duration[~short], times[~short])

    def _make_room(self, n_groups: int, n_more: int) -> None:
        """Cells for some groups, wide enough for more durations."""
        self._n_binned += n_more
        n_groups = max(len(self._bins), n_groups)
        if n_groups > len(self._bins) or self._n_binned >= 2**31 > np.iinfo(self._bins.dtype).max:
            kind = np.int64 if self._n_binned >= 2**31 else self._bins.dtype
            more = np.zeros((n_groups, SHORT), kind)
            more[: len(self._bins)] = self._bins
            self._bins = more

    def _counted(self) -> list[Counted]:
        """All that was gathered."""
        if not len(self._bins):
            return self._waiting
        used = np.flatnonzero(self._bins)
        times = self._bins.reshape(-1)[used].astype(np.int64)
        return [(used // SHORT, used % SHORT, times), *self._waiting]

    def statistics(self) -> Statistics:
        """Group by group where durations are in cells: all of them at once would take much memory."""
        if self._n_waiting > min(MANY, COMPACT_ROWS):
            self._compact()
        group, duration, times = _together(self._waiting)
        bounds = np.searchsorted(group, np.arange(len(self._bins) + 1)).tolist()
        parts = []
        for number, (first, last) in enumerate(pairwise(bounds)):
            short = np.flatnonzero(self._bins[number])
            binned = np.full(len(short), number), short, self._bins[number][short].astype(np.int64)
            parts.append(
                _statistics(*_together([binned, (group[first:last], duration[first:last], times[first:last])]))
            )
        parts.append(_statistics(group[bounds[-1] :], duration[bounds[-1] :], times[bounds[-1] :]))
        columns = ([getattr(part, name) for part in parts] for name in Statistics.__dataclass_fields__)
        return Statistics(*map(np.concatenate, columns))


def _statistics(group: Ints, duration: Ints, times: Ints) -> Statistics:
    """Of rows that are in order, none there twice."""
    first = np.flatnonzero(np.append(True, np.diff(group) != 0)[: len(group)])
    if not len(first):
        none, nothing = np.empty(0, np.int64), np.empty(0)
        return Statistics(none, none, none, nothing, nothing, none, none, nothing, none)
    last = np.append(first[1:], len(group)) - 1
    count, total = np.add.reduceat(times, first), np.add.reduceat(times * duration, first)
    mean = total / count
    away = duration - np.repeat(mean, last - first + 1)
    squares = np.add.reduceat(times * away * away, first)
    std = np.where(count > 1, np.sqrt(squares / np.maximum(count - 1, 1)), np.nan)
    lower, upper, p95 = (
        _ranked(duration, times, count, rank) for rank in ((count + 1) // 2, count // 2 + 1, -(-count * 19 // 20))
    )
    median = lower + (upper - lower) / 2
    return Statistics(group[first], count, total, mean, median, duration[first], duration[last], std, p95)


def _together(parts: list[Counted]) -> Counted:
    """Sorted by group and duration, equal ones counted once."""
    if not parts:
        return np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int64)
    return _sorted(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def _sorted(group: Ints, duration: Ints, times: Ints) -> Counted:
    order = _order(group, duration)
    group, duration, times = group[order], duration[order], times[order]
    new = np.append(True, (np.diff(group) != 0) | (np.diff(duration) != 0))[: len(group)]
    first = np.flatnonzero(new)
    return group[first], duration[first], np.add.reduceat(times, first) if len(first) else times


def _order(group: Ints, duration: Ints) -> Ints:
    """By group, and by duration in a group. One number for both sorts faster, where there is one."""
    if not len(group):
        return np.empty(0, np.int64)
    low, high = int(duration.min()), int(duration.max())
    if (int(group.max()) + 1) * (high - low + 1) < 2**62:
        return np.argsort(group * (high - low + 1) + (duration - low), kind="stable")
    return np.lexsort((duration, group))


def _ranked(duration: Ints, times: Ints, count: Ints, rank: Ints) -> Ints:
    """In each group the duration that comes `rank`th, from 1, when all are put in order."""
    before = np.append(0, np.cumsum(count)[:-1])
    return duration[np.searchsorted(np.cumsum(times), before + rank, side="left")]
