"""Rows that Extra-P puts below the calls of an export, and the values it makes of them.

Specification: gpu-traces.md section 9.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import NamedTuple

import numpy as np

from callgrove.formats.gpu.sqlite_file import Cells
from callgrove.model.arrays import ABSENT, Array, Ints

__all__ = ["BYTES", "TIME", "Below", "Group", "Measured", "Tags", "overlapped", "summed", "time_of"]

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
    """What goes below calls: rows by correlation. `count` is how many rows of Extra-P's own one stands for; `other`
    numbers the activity that overlapped, or is -1 for the row of the call itself."""

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


def overlapped(own: Cells, kind: Ints, others: Cells, pairs: Iterable[tuple[Ints, Ints]], *, unnamed: bool) -> Below:
    """For how long other activities ran during intervals, by the interval's correlation and their names. With
    `unnamed`, intervals without any such activity have a row without a name (D3)."""
    met = np.zeros(len(own["start"]), np.bool_)
    found: list[Below] = []
    for one, other in pairs:
        apart = others["correlationId"][other] != own["correlationId"][one]
        one, other = one[apart], other[apart]
        met[one] = True
        first = np.maximum(own["start"][one], others["start"][other])
        last = np.minimum(own["end"][one], others["end"][other])
        keys = np.stack([own["correlationId"][one], others["name"][other], kind[one]])
        different, number, counts = np.unique(keys, axis=1, return_inverse=True, return_counts=True)
        overlap = np.zeros(len(counts), np.int64)
        np.add.at(overlap, number.reshape(-1), last - first)
        found.append(Below.of(different[0], other=different[1], kind=different[2], count=counts, overlap=overlap))
    if unnamed:
        found.append(Below.of(own["correlationId"][~met], kind=kind[~met]))
    return sum(found, Below.of(np.zeros(0, np.int64)))


def summed(keys: Ints, values: Ints) -> tuple[Ints, Ints]:
    """The different keys in order, and the sum of the values of each."""
    different, number = np.unique(keys, return_inverse=True)
    total = np.zeros(len(different), np.int64)
    np.add.at(total, number, values)
    return different, total
