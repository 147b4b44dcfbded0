"""What summaries of traced runs are made of: sections, divisions, and sums that add up in any order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

import numpy as np

from callgrove.analysis.durations import Durations
from callgrove.analysis.messages import MessageSums
from callgrove.arrays import ABSENT, Array, Bools, Ids, Ints, distinct_rows
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
    "Gap",
    "MemoryPeak",
    "Places",
    "Sizes",
    "Summary",
    "WindowMode",
]


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
    _keys_of_rank: dict[int, list[int]] = field(default_factory=dict, repr=False)  # of those that may still grow

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
        n_known = len(self.keys)
        number = np.array([self.key(*key) for key in other.keys] or [0], np.int64)
        self._note_ranks(other.keys, number.tolist(), n_known)
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

    def _note_ranks(self, keys: Iterable[Key], numbers: Sequence[int], n_known: int) -> None:
        """Remember which new keys are of which rank, where ranks divide."""
        if By.RANK not in self.by:
            return
        at = self.by.index(By.RANK)
        for (_, _, values), number in zip(keys, numbers, strict=False):
            if number >= n_known:
                rank = values[at] if values else None
                self._keys_of_rank.setdefault(ABSENT if rank is None else int(rank), []).append(number)

    def complete(self, ranks: Iterable[int]) -> None:
        """Say that no part that comes has any of these ranks, -1 being those without a number: where ranks divide,
        their durations need not be kept."""
        self.durations.complete([key for rank in ranks for key in self._keys_of_rank.pop(rank, ())])


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
