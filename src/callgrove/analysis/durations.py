"""Exact statistics of durations, group by group, gathered in parts.

Durations repeat: nanoseconds of one kernel take few different values, however often it runs. So a group keeps how often
each duration occurred, which gives every statistic exactly, the median included, and adds up in any order.

    group      0     0     1     ...     rising
    duration   120   125   40            rising inside a group
    times      310   17    9
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from callgrove.model.arrays import Floats, Ints

__all__ = ["Durations", "Statistics"]

SHORT = 1 << 16  # nanoseconds that are counted in bins instead of sorted
Counted = tuple[Ints, Ints, Ints]  # group, duration, how often
COMPACT_ROWS = 1 << 17  # rows that wait before equal ones are put together


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
        self._parts: list[Counted] = []
        self._n_waiting = 0

    def add(self, group: Ints, duration: Ints) -> None:
        """Durations of one part, each with its group."""
        self._keep(_counted(group, duration))

    def merge(self, other: Durations) -> None:
        """Everything that another one has gathered."""
        for part in other._parts:
            self._keep(part)

    def renumbered(self, number: Ints) -> Durations:
        """The same with group g called number[g]."""
        out = Durations()
        for group, duration, times in self._parts:
            out._keep((number[group], duration, times))
        return out

    def _keep(self, part: Counted) -> None:
        self._parts.append(part)
        self._n_waiting += len(self._parts[-1][0])
        if self._n_waiting > COMPACT_ROWS:
            self._parts = [_together(self._parts)]
            self._n_waiting = -len(self._parts[0][0])  # what is left has been put together already

    def statistics(self) -> Statistics:
        group, duration, times = _together(self._parts)
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


def _counted(group: Ints, duration: Ints) -> Counted:
    """How often each duration occurs in each group: short ones are counted in bins, long ones are sorted."""
    n_groups = int(group.max(initial=-1)) + 1
    short = (duration >= 0) & (duration < SHORT)
    if n_groups * SHORT > 8 * len(group) + SHORT or not short.any():
        return _sorted(group, duration, np.ones(len(group), np.int64))
    every = bool(short.all())
    bins = group * SHORT + duration if every else group[short] * SHORT + duration[short]
    counts = np.bincount(bins)
    used = np.flatnonzero(counts)
    counted = used // SHORT, used % SHORT, counts[used]
    if every:
        return counted
    rest = group[~short], duration[~short], np.ones(len(group) - int(short.sum()), np.int64)
    return _together([counted, rest])


def _together(parts: list[Counted]) -> Counted:
    """Sorted by group and duration, equal ones counted once."""
    if not parts:
        return np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int64)
    return _sorted(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def _sorted(group: Ints, duration: Ints, times: Ints) -> Counted:
    order = np.lexsort((duration, group))
    group, duration, times = group[order], duration[order], times[order]
    new = np.append(True, (np.diff(group) != 0) | (np.diff(duration) != 0))[: len(group)]
    first = np.flatnonzero(new)
    return group[first], duration[first], np.add.reduceat(times, first) if len(first) else times


def _ranked(duration: Ints, times: Ints, count: Ints, rank: Ints) -> Ints:
    """In each group the duration that comes `rank`th, from 1, when all are put in order."""
    before = np.append(0, np.cumsum(count)[:-1])
    return duration[np.searchsorted(np.cumsum(times), before + rank, side="left")]
