"""What summaries of traced runs are made of: sections, divisions, sums that add up in any order, and exact statistics
of durations.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import pairwise
from typing import Any

import numpy as np

from callgrove.analysis.messages import MessageSums
from callgrove.arrays import ABSENT, Array, Bools, Floats, Ids, Ints, distinct_rows
from callgrove.model.experiment import Experiment
from callgrove.model.traces.events import SpanKind

__all__ = [
    "DEVICE_SECTIONS",
    "DIVIDES",
    "OF_MESSAGES",
    "ON_DEVICE",
    "SECTIONS",
    "SECTION_OF",
    "By",
    "DeviceSums",
    "Division",
    "Durations",
    "Gap",
    "MemoryPeak",
    "Places",
    "Sizes",
    "Statistics",
    "Summary",
    "WindowMode",
]


# -- statistics of durations, group by group, gathered in parts --------------------------------------------------------
# Durations repeat: nanoseconds of one kernel take few different values, however often it runs. So a group keeps how
# often each duration occurred, which gives every statistic exactly, the median included, and adds up in any order.
#
#     group      0     0     1     ...     rising
#     duration   120   125   40            rising inside a group
#     times      310   17    9
#
# Short durations of the first groups are counted in a table with a cell for each; all others are sorted, from time to
# time, and equal ones put together.


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


class Durations:
    """How often each duration occurred in each group."""

    def __init__(self) -> None:
        self._waiting: list[Rows] = []
        self._n_waiting = 0
        self._n_sorted = 0  # of the first one that waits, in which equal ones are put together
        self._bins = np.zeros((0, SHORT), np.int32)
        self._n_binned = 0

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
        rest = _count_equal(self._waiting)
        self._waiting = [rest]
        self._n_waiting = self._n_sorted = len(rest[0])

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
        parts = []
        for number, (first, last) in enumerate(pairwise(bounds)):
            short = np.flatnonzero(self._bins[number])
            binned = np.full(len(short), number), short, self._bins[number][short].astype(np.int64)
            parts.append(
                _statistics(*_count_equal([binned, (group[first:last], duration[first:last], times[first:last])]))
            )
        parts.append(_statistics(group[bounds[-1] :], duration[bounds[-1] :], times[bounds[-1] :]))
        columns = ([getattr(part, name) for part in parts] for name in Statistics.__dataclass_fields__)
        return Statistics(*map(np.concatenate, columns))


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


# -- sections, divisions and sums --------------------------------------------------------------------------------------


SECTION_OF = {
    SpanKind.KERNEL: "kernels",
    SpanKind.API: "api",
    SpanKind.SYNC: "sync",
    SpanKind.COPY: "copies",
    SpanKind.MEMSET: "copies",
    SpanKind.ALLOC: "allocations",
    SpanKind.MARKER: "markers",
    SpanKind.REGION: "regions",
    SpanKind.OVERHEAD: "overhead",
}
SPAN_SECTIONS = ("kernels", "copies", "api", "sync", "allocations", "markers", "regions", "overhead")
OF_MESSAGES = ("messages", "collectives")
SECTIONS = (*SPAN_SECTIONS, "counters", "busy", "overlap", "gaps", "longest-gaps", "latency", "memory", *OF_MESSAGES)
DEVICE_SECTIONS = frozenset(("busy", "overlap", "gaps", "longest-gaps", "latency"))
N_LONGEST = 10  # gaps that are listed one by one
ON_DEVICE = (SpanKind.KERNEL, SpanKind.COPY, SpanKind.MEMSET)


class By(StrEnum):
    """What rows are divided by, beyond section and name."""

    RANK = "rank"
    AGENT = "agent"
    STREAM = "stream"
    DOMAIN = "domain"  # HIP, HSA, ...: the first word of a span's category
    MARKER = "marker"  # the innermost marker around the call that launched an operation


class WindowMode(StrEnum):
    """Which spans belong to a window of time, and how much of them."""

    INSIDE = "inside"
    TOUCH = "touch"
    CLIP = "clip"


Division = tuple[int | str | None, ...]  # one value per `By`
Key = tuple[str, str, Division]  # section, name, division
OF_DEVICES = frozenset((By.RANK, By.AGENT))  # what divides whole devices
DIVIDES = {  # sections that not everything divides; a stream alone is never idle and overlaps nothing
    **dict.fromkeys(("busy", "overlap", "gaps", "longest-gaps"), OF_DEVICES),
    "counters": frozenset((By.RANK, By.AGENT, By.STREAM)),
    "memory": frozenset((By.RANK,)),
    **dict.fromkeys(OF_MESSAGES, frozenset[By]()),  # they have ranks of both ends in any case
}


@dataclass(frozen=True)
class DeviceSums:
    """For how long a device did what. `span_ns` is from its first operation to the end of its last, `process_ns` the
    same of all spans of its process."""

    rank: int
    agent: int
    n_operations: int
    busy_ns: int
    span_ns: int
    process_ns: int
    most_at_once: int
    going_on_ns: dict[str, int]  # by what went on at once, idle included
    run: int = -1  # its number, where there are several


@dataclass(frozen=True)
class Gap:
    """A time in which a device did nothing, between two of its operations."""

    rank: int
    agent: int
    start_ns: int
    length_ns: int
    cause_ns: dict[str, int]  # what of it is due to what
    run: int = -1

    @property
    def place(self) -> tuple[int, int, int, int, int]:
        """The longest come first; of equal ones, those of lower ranks."""
        return -self.length_ns, self.run, self.rank, self.agent, self.start_ns


@dataclass(frozen=True)
class MemoryPeak:
    """The memory of one process on one device, of one level (such as REAL or SCRATCH)."""

    rank: int
    device: str
    level: str
    n_changes: int
    peak_bytes: int
    peak_ns: int
    left_bytes: int  # in use when all was over
    n_unknown: int  # frees, of any device of the process, of what was not allocated before
    run: int = -1


@dataclass(frozen=True)
class Sizes:
    """What spans whose size is known add up to. Rates are made of these alone: a span whose size was lost, or that a
    window cuts, has a duration but no bytes."""

    n_bytes: int
    count: int
    time_ns: int

    def __add__(self, other: Sizes) -> Sizes:
        return Sizes(self.n_bytes + other.n_bytes, self.count + other.count, self.time_ns + other.time_ns)

    @property
    def bytes_per_second(self) -> float | None:
        return self.n_bytes * 1e9 / self.time_ns if self.n_bytes and self.time_ns else None


@dataclass
class Summary:
    """What one or several parts of a trace add up to."""

    by: tuple[By, ...] = ()
    keys: dict[Key, int] = field(default_factory=dict)
    durations: Durations = field(default_factory=Durations)
    sizes: dict[int, Sizes] = field(default_factory=dict)  # by key
    devices: list[DeviceSums] = field(default_factory=list)
    longest_gaps: list[Gap] = field(default_factory=list)  # of all devices, the longest first
    memory: list[MemoryPeak] = field(default_factory=list)  # where somebody looked (summary.py: memory_peaks)
    messages: list[MessageSums] = field(default_factory=list)  # likewise (messages.py: sum_up_messages)
    counters: dict[tuple[str, Division], list[float]] = field(default_factory=dict)  # count, sum, minimum, maximum
    n_read: int = 0
    n_shown: int = 0
    n_flagged: int = 0  # they end before they start, or no clock shows such times
    n_unlinked: int = 0  # operations shown whose launching call is not known
    damage: list[str] = field(default_factory=list)  # met on the way

    def key(self, section: str, name: str, values: Division = ()) -> int:
        return self.keys.setdefault((section, name, values), len(self.keys))

    def add_sizes(self, key: int, sizes: Sizes) -> None:
        """Add to what is known of a key."""
        self.sizes[key] = self.sizes[key] + sizes if key in self.sizes else sizes

    def find_undivided(self, sections: Iterable[str]) -> dict[By, list[str]]:
        """Return by division those of some sections that it does not apply to."""
        chosen = list(sections)
        sections_of = {by: [name for name in chosen if name in DIVIDES and by not in DIVIDES[name]] for by in self.by}
        return {by: names for by, names in sections_of.items() if names}

    def add_gaps(self, gaps: Iterable[Gap]) -> None:
        """Keep those that are among the longest."""
        self.longest_gaps = sorted((*self.longest_gaps, *gaps), key=lambda gap: gap.place)[:N_LONGEST]

    def merge(self, other: Summary) -> Summary:
        """Add what another part found."""
        number = np.array([self.key(*key) for key in other.keys] or [0], np.int64)
        self.durations.merge(other.durations, number)
        for key, sizes in other.sizes.items():
            self.add_sizes(int(number[key]), sizes)
        self.devices += other.devices
        self.add_gaps(other.longest_gaps)
        for name, (count, total, low, high) in other.counters.items():
            have = self.counters.setdefault(name, [0, 0.0, np.inf, -np.inf])
            self.counters[name] = [have[0] + count, have[1] + total, min(have[2], low), max(have[3], high)]
        self.n_read += other.n_read
        self.n_shown += other.n_shown
        self.n_flagged += other.n_flagged
        self.n_unlinked += other.n_unlinked
        self.damage += other.damage
        return self


@dataclass(frozen=True)
class Places:
    """Where each profile is, as columns by profile; -1 where it is not. Every run has ranks of its own; one that is
    alone has no number."""

    process: Ids
    rank: Ints
    agent: Ints
    stream: Ints
    run: Ints

    @classmethod
    def of(cls, experiment: Experiment) -> Places:
        profiles = experiment.profiles
        columns = {name: _numbers(*profiles.identity(name)) for name in ("node", "rank", "gpu_device", "gpu_stream")}
        _, process = distinct_rows(profiles.run, columns["node"], columns["rank"])
        run = profiles.run.astype(np.int64) if len(experiment.runs) > 1 else np.full(len(profiles), ABSENT)
        return cls(process.astype(np.int32), columns["rank"], columns["gpu_device"], columns["gpu_stream"], run)

    def take(self, profiles: Ints) -> Places:
        """Return the places of some profiles, which are numbered from 0 then."""
        return Places(*(getattr(self, name)[profiles] for name in self.__dataclass_fields__))

    def keep_parts_apart(self, part: Ints) -> Places:
        """Return these places with processes that are different ones in different parts, whatever ranks these claim."""
        _, process = distinct_rows(part, self.process)
        return replace(self, process=process.astype(np.int32))


def _numbers(values: Array, present: Bools) -> Ints:
    return np.where(present & (values < 2**62), values, 0).astype(np.int64) - (~present).astype(np.int64)
