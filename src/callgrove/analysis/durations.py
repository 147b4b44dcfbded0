"""Exact statistics of durations, group by group, gathered in parts that add up in any order.

Durations repeat: nanoseconds of one kernel take few different values, however often it runs. So a group keeps how often
each duration occurred, which gives every statistic exactly, the median included, and adds up in any order.

    group      0     0     1     ...     rising
    duration   120   125   40            rising inside a group
    times      310   17    9

Short durations of the first groups are counted in a table with a cell for each; all others are sorted, from time to
time, and equal ones put together. Where a group is known to be complete, its statistics take the place of its
durations, so that memory grows with the number of groups, not with that of durations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from callgrove.arrays import Bools, Floats, Ints

__all__ = ["Durations", "Statistics"]

SHORT = 1 << 15  # nanoseconds that are counted in cells instead of sorted
MOST_BINNED = 64  # groups, whose cells take 128 KiB each
MANY = 1 << 18  # rows for which such a table is made
PIECE = 1 << 15  # rows that are counted at once
COMPACT_ROWS = 1 << 18  # rows that wait before equal ones are put together
Rows = tuple[Ints | int, Ints, Ints | None]  # group, or that of all; duration; how often, or once each
Counted = tuple[Ints, Ints, Ints]  # group, duration, how often


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

    def take(self, rows: Ints) -> Statistics:
        return Statistics(*(getattr(self, name)[rows] for name in self.__dataclass_fields__))


class Durations:
    """How often each duration occurred in each group."""

    def __init__(self) -> None:
        self._waiting: list[Rows] = []
        self._n_waiting = 0
        self._n_sorted = 0  # of the first one that waits, in which equal ones are put together
        self._bins = np.zeros((0, SHORT), np.int32)
        self._n_binned = 0
        self._complete: list[Ints] = []  # groups whose durations are still there
        self._finished: list[Statistics] = []

    def __getstate__(self) -> dict[str, object]:
        """Return what waits in fewer bytes, for those who send it to another process."""
        waiting = [(_narrow(group), _narrow(duration), _narrow(times)) for group, duration, times in self._waiting]
        return {**self.__dict__, "_waiting": waiting}

    def add(self, group: Ints | int, duration: Ints) -> None:
        """Add durations of one part, each with its group, or all of one."""
        self._keep((group, duration, None))

    def merge(self, other: Durations, number: Ints | None = None) -> None:
        """Add everything that another one has gathered; its group g is number[g]."""
        for group, duration, times in other._list_rows():
            if number is not None:
                group = int(number[group]) if isinstance(group, int) else number.take(group)
            self._keep((group, duration, times))
        for done in other._finished:
            self._finished.append(done if number is None else replace(done, group=number.take(done.group)))

    def complete(self, groups: Sequence[int]) -> None:
        """Say that nothing is added to some groups any more."""
        self._complete.append(np.array(groups, np.int64))

    def _keep(self, rows: Rows) -> None:
        """Count what is short in cells, once there are some. Parts of a trace are not worth a table of their own."""
        if len(self._bins) or len(rows[1]) >= MANY:
            rows = self._count(*rows)
        if not len(rows[1]):
            return
        self._waiting.append(rows)
        self._n_waiting += len(rows[1])
        if self._n_waiting > COMPACT_ROWS + 2 * self._n_sorted:
            self._compact()

    def _compact(self) -> None:
        """Count what is short in cells, and put together what else is equal."""
        if len(self._bins) or self._n_waiting >= MANY:
            self._waiting = [self._count(*rows) for rows in self._waiting]
        rest = self._finish(_count_equal(self._waiting))
        self._waiting = [rest]
        self._n_waiting = self._n_sorted = len(rest[0])

    def _finish(self, rows: Counted) -> Counted:
        """Compute the statistics of complete groups, and return the rows of others; those of groups that may be counted
        in cells are among these, as there are few."""
        group, duration, times = rows
        is_done = (group >= MOST_BINNED) & np.isin(group, np.concatenate([*self._complete, group[:0]]))
        self._complete = []
        if not is_done.any():
            return rows
        self._finished.append(_statistics(group[is_done], duration[is_done], times[is_done]))
        left = ~is_done
        return group[left], duration[left], times[left]

    def _count(self, group: Ints | int, duration: Ints, times: Ints | None) -> Rows:
        """Add to the cells, some rows at a time; what is too long for these, or of too many groups, is left."""
        left: list[Counted] = []
        for first in range(0, len(duration), PIECE):
            groups_here = group if isinstance(group, int) else group[first : first + PIECE]
            length = duration[first : first + PIECE]
            often = None if times is None else times[first : first + PIECE]
            is_short = _find_short(groups_here, length)
            if is_short is not None:
                others = np.flatnonzero(~is_short)
                left.append(_take_rows(groups_here, length, often, others))
                length, often = length[is_short], None if often is None else often[is_short]
                groups_here = groups_here if isinstance(groups_here, int) else groups_here[is_short]
            if len(length):
                self._make_room(
                    (groups_here if isinstance(groups_here, int) else int(groups_here.max())) + 1, often, len(length)
                )
                self._add(groups_here, length, often)
        if not left:
            return 0, np.empty(0, np.int64), None
        groups, lengths, counts = (np.concatenate(columns) for columns in zip(*left, strict=True))
        return groups, lengths, counts

    def _add(self, group: Ints | int, duration: Ints, times: Ints | None) -> None:
        one = self._bins.dtype.type(1)
        if isinstance(group, int):
            cells, place = self._bins[group], duration
        else:
            cells, place = self._bins.reshape(-1), group * np.int64(SHORT) + duration
        np.add.at(cells, place, one if times is None else times.astype(self._bins.dtype))

    def _make_room(self, n_groups: int, times: Ints | None, n_rows: int) -> None:
        """Make room for some groups, and for more durations in each."""
        self._n_binned += n_rows if times is None else int(times.sum())
        n_groups = max(len(self._bins), n_groups)
        if n_groups > len(self._bins) or self._n_binned >= 2**31 > np.iinfo(self._bins.dtype).max:
            kind = np.int64 if self._n_binned >= 2**31 else self._bins.dtype
            more = np.zeros((n_groups, SHORT), kind)
            more[: len(self._bins)] = self._bins
            self._bins = more

    def _list_rows(self) -> list[Rows]:
        """Return all that was gathered: what the cells count, and what waits."""
        if not len(self._bins):
            return self._waiting
        used = np.flatnonzero(self._bins)
        times = self._bins.reshape(-1)[used].astype(np.int64)
        return [(used // SHORT, used % SHORT, times), *self._waiting]

    def statistics(self) -> Statistics:
        """Group by group where durations are in cells: all of them at once would take much memory."""
        if len(self._bins) or self._n_waiting >= MANY:
            self._compact()
        group, duration, times = _count_equal(self._waiting)
        bounds = np.searchsorted(group, np.arange(len(self._bins) + 1)).tolist()
        parts = list(self._finished)
        for number, (first, last) in enumerate(pairwise(bounds)):
            short = np.flatnonzero(self._bins[number])
            binned = np.full(len(short), number), short, self._bins[number][short].astype(np.int64)
            parts.append(
                _statistics(*_count_equal([binned, (group[first:last], duration[first:last], times[first:last])]))
            )
        parts.append(_statistics(group[bounds[-1] :], duration[bounds[-1] :], times[bounds[-1] :]))
        columns = ([getattr(part, name) for part in parts] for name in Statistics.__dataclass_fields__)
        every = Statistics(*map(np.concatenate, columns))
        return every.take(np.argsort(every.group, kind="stable")) if self._finished else every


def _statistics(group: Ints, duration: Ints, times: Ints) -> Statistics:
    """Return statistics of rows that are in order, none there twice."""
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
        _duration_at_rank(duration, times, count, rank)
        for rank in ((count + 1) // 2, count // 2 + 1, -(-count * 19 // 20))
    )
    median = lower + (upper - lower) / 2
    return Statistics(group[first], count, total, mean, median, duration[first], duration[last], std, p95)


def _find_short(group: Ints | int, duration: Ints) -> Bools | None:
    """Return a mask of the rows that have a cell; None: all."""
    of_few = group < MOST_BINNED if isinstance(group, int) else int(group.max()) < MOST_BINNED
    if of_few and int(duration.min()) >= 0 and int(duration.max()) < SHORT:
        return None
    short: Bools = (duration >= 0) & (duration < SHORT) & (group < MOST_BINNED)
    return short


def _take_rows(group: Ints | int, duration: Ints, times: Ints | None, rows: Ints | slice = slice(None)) -> Counted:
    """Return all three columns of some rows."""
    length = duration[rows].astype(np.int64)
    groups = np.full(len(length), group, np.int64) if isinstance(group, int) else group[rows].astype(np.int64)
    return groups, length, np.ones(len(length), np.int64) if times is None else times[rows].astype(np.int64)


def _narrow(column: Any) -> Any:
    """Return integers in 4 bytes each, where these suffice."""
    if (
        not isinstance(column, np.ndarray)
        or not len(column)
        or int(column.min()) < -(2**31)
        or int(column.max()) >= 2**31
    ):
        return column
    return column.astype(np.int32)


def _count_equal(parts: Sequence[Rows]) -> Counted:
    """Return rows sorted by group and duration, equal ones counted once."""
    if not parts:
        return np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int64)
    group, duration, times = (np.concatenate(columns) for columns in zip(*(_take_rows(*p) for p in parts), strict=True))
    order = _order(group, duration)
    group, duration, times = group[order], duration[order], times[order]
    new = np.append(True, (np.diff(group) != 0) | (np.diff(duration) != 0))[: len(group)]
    first = np.flatnonzero(new)
    return group[first], duration[first], np.add.reduceat(times, first) if len(first) else times


def _order(group: Ints, duration: Ints) -> Ints:
    """Return the order by group, and by duration in a group. One number for both sorts faster, where there is one."""
    if not len(group):
        return np.empty(0, np.int64)
    low, high = int(duration.min()), int(duration.max())
    if (int(group.max()) + 1) * (high - low + 1) < 2**62:
        return np.argsort(group * (high - low + 1) + (duration - low))
    return np.lexsort((duration, group))


def _duration_at_rank(duration: Ints, times: Ints, count: Ints, rank: Ints) -> Ints:
    """Return in each group the duration that comes `rank`th, from 1, when all are put in order."""
    before = np.append(0, np.cumsum(count)[:-1])
    return duration[np.searchsorted(np.cumsum(times), before + rank, side="left")]
