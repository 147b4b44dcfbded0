"""What devices did as Extra-P counts it: kernels, copies and sets of memory, as rows below the calls of an export.

Specification: gpu-traces.md section 9. Every kernel counts once for each GPU of the node (D2); sets have no threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import NamedTuple

import numpy as np

from callgrove.arrays import ABSENT, Array, Ints
from callgrove.binary.sqlite.cells import MISSING, Cells, Type
from callgrove.binary.sqlite.database import SqliteFile
from callgrove.formats.gpu.nsight.extrap_paths import (
    Segments,
    Strings,
    each_first,
    join_on_keys,
    pairs_touching,
    rows_of,
    segments_of,
)

__all__ = [
    "BYTES",
    "TIME",
    "Activities",
    "Below",
    "Group",
    "Measured",
    "Tags",
    "copies_below",
    "copy_kind",
    "copy_times",
    "overlap_rows",
    "set_times",
    "sets_below",
    "sum_by_key",
    "time_of",
]


CUPTI = "CUPTI_ACTIVITY_KIND_"
COPY_KINDS = (
    *("UNKNOWN", "HOST_TO_DEVICE", "DEVICE_TO_HOST", "HOST_TO_DEVICE_ARRAY", "DEVICE_ARRAY_TO_HOST"),
    *("DEVICE_ARRAY_TO_DEVICE_ARRAY", "DEVICE_ARRAY_TO_DEVICE", "DEVICE_TO_DEVICE_ARRAY", "DEVICE_TO_DEVICE"),
    *("HOST_TO_HOST", "PEER_TO_PEER", "UMA_HOST_TO_DEVICE", "UMA_DEVICE_TO_HOST"),
)
PROPERTIES = {  # the table that tells how many threads a GPU runs at once, and its columns
    "TARGET_INFO_CUDA_GPU": (
        *("numMultiprocessors", "numThreadsPerWarp", "maxWarpsPerMultiprocessor", "computeCapabilityMajor"),
    ),
    "TARGET_INFO_GPU": ("smCount", "threadsPerWarp", "maxWarpsPerSm", "computeMajor"),
}
DIMENSIONS = tuple(f"{part}{axis}" for part in ("grid", "block") for axis in "XYZ")
KEYS = ("start", "end", "correlationId")


class Activities:
    """The activities of one export. `names` are numbered by the `name` of an activity."""

    def __init__(self, file: SqliteFile, strings: Strings) -> None:
        self._strings = strings
        self._number: dict[str, int] = {}
        self.kernels = _rows(file, "KERNEL", "shortName", *DIMENSIONS)
        self.copies = _rows(file, "MEMCPY", "bytes", "copyKind", "srcKind", "dstKind")
        self.sets = _rows(file, "MEMSET", "bytes", "value", "memKind")
        self.gpu_threads = _gpu_threads(file)
        self.kernel_names = self._name_ids(self.kernels["shortName"], strings)
        self.copy_names = self._name_ids(self.copies["copyKind"], lambda kinds: map(copy_kind, kinds.tolist()))
        self.set_names = self._name_ids(self.sets["value"], lambda values: map(_set_name, values.tolist()))

    def _name_ids(self, ids: Ints, texts: Callable[[Ints], Iterable[str | None]]) -> Ints:
        different, number = np.unique(ids, return_inverse=True)
        known = self._number
        names = [ABSENT if text is None else known.setdefault(text, len(known)) for text in texts(different)]
        return np.array(names, np.int64)[number]

    @property
    def names(self) -> list[str]:
        return list(self._number)

    @cached_property
    def all(self) -> Cells:
        """Return kernels, copies and sets, one after the other."""
        parts = (self.kernels, self.copies, self.sets)
        return {
            **{name: np.concatenate([part[name] for part in parts]) for name in KEYS},
            "name": np.concatenate([self.kernel_names, self.copy_names, self.set_names]),
        }

    @cached_property
    def but_copies(self) -> Cells:
        """Return kernels and sets."""
        is_no_copy = np.repeat(
            [True, False, True], [len(part["start"]) for part in (self.kernels, self.copies, self.sets)]
        )
        return {name: column[is_no_copy] for name, column in self.all.items()}

    @cached_property
    def busy(self) -> Segments:
        """Return the segments in which anything runs."""
        start, end, correlation = (self.all[name] for name in KEYS)
        return segments_of(start, end, correlation, np.zeros(len(start), np.int64))

    @cached_property
    def computing(self) -> Segments:
        """Return the segments in which kernels or sets run."""
        times = len(self.gpu_threads)
        start, end, correlation = (np.append(np.repeat(self.kernels[name], times), self.sets[name]) for name in KEYS)
        threads = np.append(self.kernel_threads.reshape(-1), np.zeros(len(self.sets["start"]), np.int64))
        return segments_of(start, end, correlation, threads)

    @cached_property
    def kernel_threads(self) -> Ints:
        """Return, by kernel and GPU, the threads of the kernel, at most as many as can run at once."""
        launched = np.ones(len(self.kernels["start"]), np.int64)
        for name in DIMENSIONS:
            launched *= self.kernels[name]
        return np.minimum(launched[:, None], self.gpu_threads[None, :])


def copy_kind(kind: int) -> str:
    if 0 <= kind < len(COPY_KINDS):
        return COPY_KINDS[kind]
    return "UNKNOWN" if kind == MISSING else f"UNKNOWN_COPY_KIND_{kind}"


def _set_name(value: int) -> str | None:
    return None if value == MISSING else f"MEMSET {value}"


def _rows(file: SqliteFile, kind: str, *columns: str) -> Cells:
    return rows_of(file, CUPTI + kind, "correlationId", *columns)


def _gpu_threads(file: SqliteFile) -> Ints:
    """Return how many threads each GPU can run at once, without GPUs that run none."""
    for table, columns in PROPERTIES.items():
        if file.has(table, *columns):
            rows = file.table(table, dict.fromkeys(columns, Type.INTEGER))
            cores, warp, warps, major = (rows[name] for name in columns)
            return (cores * warp * warps)[major > 0]
    return np.ones(1, np.int64)


# Rows that Extra-P puts below the calls of an export, and the values it makes of them.
#
# Specification: gpu-traces.md section 9.


TIME, BYTES = "time", "bytes_transferred"
NS_PER_S = 10**9
NO_TAGS: Mapping[str, object] = {}

Tags = Mapping[str, object]


class Measured(NamedTuple):
    """One value of a series."""

    callpath: str
    metric: str
    value: float
    tags: Tags


def time_of(callpath: str, ns: int, tags: Tags = NO_TAGS) -> Measured:
    return Measured(callpath, TIME, ns / NS_PER_S, tags)


@dataclass(frozen=True)
class Below:
    """Rows that go below calls, by correlation. `count` is how many rows of Extra-P's one stands for; `other` is the
    number of the activity that overlapped, or -1 for the row of the call itself."""

    correlation: Ints
    other: Ints
    kind: Ints
    pageable: Array
    count: Ints
    length: Ints
    bytes: Ints
    overlap: Ints

    @classmethod
    def of(cls, correlation: Ints, **columns: Array) -> Below:
        zero = np.zeros(len(correlation), np.int64)
        given = {"other": zero + ABSENT, "count": zero + 1, "pageable": zero > 0, "correlation": correlation, **columns}
        return cls(**{field.name: given.get(field.name, zero) for field in fields(cls)})

    def __add__(self, more: Below) -> Below:
        return Below(*(np.concatenate([getattr(self, f.name), getattr(more, f.name)]) for f in fields(self)))


class Group(NamedTuple):
    """All rows of one call path, kind and overlapping activity, added up; times in ns."""

    path: str
    other: str | None
    kind: int
    blocking: bool
    calls: int
    length: int
    bytes: int
    overlap: int


def overlap_rows(
    intervals: Cells, kind: Ints, others: Cells, pairs: Iterable[tuple[Ints, Ints]], *, unnamed: bool
) -> Below:
    """Return for how long other activities ran during intervals, by the interval's correlation and their names. With
    `unnamed`, intervals without any such activity have a row without a name (D3)."""
    met = np.zeros(len(intervals["start"]), np.bool_)
    parts: list[Below] = []
    for interval, other in pairs:
        apart = others["correlationId"][other] != intervals["correlationId"][interval]
        interval, other = interval[apart], other[apart]
        met[interval] = True
        first = np.maximum(intervals["start"][interval], others["start"][other])
        last = np.minimum(intervals["end"][interval], others["end"][other])
        keys = np.stack([intervals["correlationId"][interval], others["name"][other], kind[interval]])
        different, number, counts = np.unique(keys, axis=1, return_inverse=True, return_counts=True)
        overlap = np.zeros(len(counts), np.int64)
        np.add.at(overlap, number.reshape(-1), last - first)
        parts.append(Below.of(different[0], other=different[1], kind=different[2], count=counts, overlap=overlap))
    if unnamed:
        parts.append(Below.of(intervals["correlationId"][~met], kind=kind[~met]))
    return sum(parts, Below.of(np.zeros(0, np.int64)))


def sum_by_key(keys: Ints, values: Ints) -> tuple[Ints, Ints]:
    """Return the different keys in order, and the sum of the values of each."""
    different, number = np.unique(keys, return_inverse=True)
    total = np.zeros(len(different), np.int64)
    np.add.at(total, number, values)
    return different, total


# Copies and sets of memory, as Extra-P counts them.
#
# Specification: gpu-traces.md section 9, 6 and 7.
#
# Overlap of copies with each other (D1): for each pair of which one sees an end of the other, both copies have a row
# with the time they share. The halves of these times that no kernel overlaps as well should count for each copy;
# Extra-P forgets to group them, so their sum counts for one copy only, and its formula too follows one row: the first.
# Which row that is, SQLite leaves open; it is the pair that comes first in the table.


OVERLAP: Tags = {"gpu__overlap": True, "agg__disabled": True}
OVERLAPPED: Tags = {"gpu__overlap": True}


def copies_below(activities: Activities) -> Below:
    """Return a row for every copy, and rows for what overlapped it."""
    copies = activities.copies
    key, start, end = copies["correlationId"], copies["start"], copies["end"]
    pageable = (copies["srcKind"] == 0) | (copies["dstKind"] == 0)
    others, shared = _mutual(activities)
    correlation, overlap = sum_by_key(key, activities.computing.within(start, end, covering=True))
    overlap[correlation == shared[0]] += shared[1]
    rows = Below.of(
        key,
        kind=copies["copyKind"],
        pageable=pageable,
        length=end - start,
        bytes=np.maximum(copies["bytes"], 0),
        overlap=overlap[np.searchsorted(correlation, key)],
    )
    kernels = {**activities.kernels, "name": activities.kernel_names}
    pairs = pairs_touching(start, end, kernels["start"], kernels["end"])
    others += overlap_rows(copies, np.zeros(len(key), np.int64), kernels, pairs, unnamed=False)
    copy, row = join_on_keys(key, others.correlation)
    return rows + Below.of(
        others.correlation[row],
        kind=copies["copyKind"][copy],
        pageable=pageable[copy],
        **{name: getattr(others, name)[row] for name in ("other", "count", "overlap")},
    )


def _mutual(activities: Activities) -> tuple[Below, tuple[int, int]]:
    """Return copies that overlap other copies, under their own names; and the copy that gets all of the overlap, with
    its amount (D1)."""
    copies, names, segments = activities.copies, activities.copy_names, activities.computing
    start, end, key = copies["start"], copies["end"], copies["correlationId"]
    rows = Below.of(np.zeros(0, np.int64))
    pairs: list[Ints] = []
    for one, other in pairs_touching(start, end, start, end):
        overlapping = ((start[other] >= start[one]) | (end[other] <= end[one])) & (key[one] != key[other])
        one, other = one[overlapping], other[overlapping]
        first, last = np.maximum(start[one], start[other]), np.minimum(end[one], end[other])
        for copy in (one, other):
            rows += Below.of(key[copy], other=names[copy], overlap=last - first)
        pairs.append(np.stack([one, other, first, last]))
    if not pairs or not sum(part.shape[1] for part in pairs):
        return rows, (0, 0)
    one, other, first, last = np.concatenate(pairs, axis=1)
    chosen = int(np.lexsort((other, one))[0])
    covered = len(segments.touching(first[[chosen]], last[[chosen]])[0]) > 0
    row, at = segments.touching(first, last)
    if covered:
        under = np.minimum(last[row], segments.end[at]) - np.maximum(first[row], segments.start[at])
        total = int((((last - first)[row] - under) // 2).sum())
    else:
        times = np.maximum(np.bincount(row, minlength=len(one)), 1)
        total = int(((last - first) // 2 * times).sum())
    return rows, (int(key[one[chosen]]), 2 * total)


def copy_times(group: Group) -> Iterator[Measured]:
    kind = copy_kind(group.kind)
    tags = {"gpu__mem_copy": True, "agg__category": ["GPU MEM"], "gpu__blocking__mem_copy": group.blocking}
    return _times(group, f"BLOCKING {kind}" if group.blocking else kind, tags)


def sets_below(activities: Activities) -> Below:
    """Return a row for every set, and rows for what overlapped it. Of several sets of one call the first counts for
    all."""
    sets, others, segments = activities.sets, activities.but_copies, activities.computing
    start, end = sets["start"], sets["end"]
    overlap = segments.within(start, end, covering=True) - segments.touching_alone(start, end)
    correlation, first, counts = each_first(sets["correlationId"])
    rows = Below.of(
        correlation,
        pageable=sets["memKind"][first] == 0,
        length=(end - start)[first],
        bytes=np.maximum(sets["bytes"], 0)[first],
        overlap=sum_by_key(sets["correlationId"], overlap)[1] * counts,
    )
    pairs = pairs_touching(start, end, others["start"], others["end"])
    return rows + overlap_rows(sets, np.zeros(len(start), np.int64), others, pairs, unnamed=False)


def set_times(group: Group) -> Iterator[Measured]:
    tags = {"gpu__mem_set": True, "agg__category": ["GPU"], "gpu__blocking__mem_set": group.blocking}
    return _times(group, "BLOCKING GPU MEMSET" if group.blocking else "GPU MEMSET", tags)


def _times(group: Group, activity: str, tags: Tags) -> Iterator[Measured]:
    """Yield the time of the calls, and below them that of the device."""
    path = f"{group.path}->{activity}"
    waited = group.length if group.blocking else 0
    if group.calls - waited:
        yield time_of(group.path, group.calls - waited)
    if group.other is not None:
        yield time_of(f"{path}->OVERLAP->{group.other}", group.overlap, OVERLAPPED)
        return
    device = {**tags, "agg__category__comparison_cpu_gpu": None}
    yield time_of(path, group.length - group.overlap, device)
    yield Measured(path, BYTES, float(group.bytes), device)
    if group.overlap:
        yield time_of(f"{path}->OVERLAP", group.overlap, OVERLAP)
