"""What encoders are given: slices and points of counters, of one process at a time.

Texts are given as the different ones of a batch, in the order of their first use, and a number for each slice, so that
encoders may intern them and give the same bytes whatever numbers the source uses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

from callgrove.formats.timeline.content import Losses, clean
from callgrove.formats.timeline.places import ProcessTracks
from callgrove.model.arrays import Array, Ids, Ints

__all__ = ["CounterPoints", "Note", "Slices", "Texts", "Value"]


class Value(StrEnum):
    """What a note's values are."""

    INTEGER = "integer"  # int64
    FLOAT = "float"
    TEXT = "text"  # numbers of the note's texts
    TRUE = "true"  # nothing but that it is so


@dataclass(frozen=True)
class Note:
    """Something that slices say about themselves: slice `rows[k]` has `values[k]`. Rows rise."""

    key: str
    rows: Ints
    values: Array
    value: Value = Value.INTEGER
    texts: Sequence[str] = ()


@dataclass(frozen=True)
class Texts:
    """A text for every slice: number `index[k]` of those that occur, in the order of their first use."""

    index: Ints
    all: Sequence[str]

    @classmethod
    def of(cls, numbers: Ids, strings: Sequence[str], instead: Sequence[str], which: Ids, losses: Losses) -> Texts:
        """Texts by number; where that is -1, number `which` of `instead`."""
        n = len(strings)
        own = np.where(numbers >= 0, numbers, n + which.astype(np.int64))  # kinds come in eight bits
        first = np.full(n + len(instead), len(own), np.int64)
        first[own[::-1]] = np.arange(len(own) - 1, -1, -1)
        used = np.flatnonzero(first < len(own))
        used = used[np.argsort(first[used], kind="stable")]
        place = np.empty(len(first), np.int64)
        place[used] = np.arange(len(used))
        texts = [clean(strings[k], losses) if k < n else instead[k - n] for k in used.tolist()]
        return cls(place[own], texts)


@dataclass(frozen=True)
class Slices:
    """Slices of one process in the order (start, -end, number) on every track; none ends before it starts.

    `flow`: the number of an operation among those of the process that a call launched, or -1. `launched`: the first
    number of those that a call launched; `n_launched` follow each other.
    """

    process: ProcessTracks
    track: Ints
    start_ns: Ints
    end_ns: Ints
    name: Texts
    category: Texts
    flow: Ints
    launched: Ints
    n_launched: Ints
    notes: Sequence[Note] = field(default_factory=list)
    kind: Ids | None = None  # `SpanKind` of each, where slices are made of spans

    def __len__(self) -> int:
        return len(self.track)


@dataclass(frozen=True)
class CounterPoints:
    """Values of one counter, each valid until the next; int64 or float64. `is_given`: the input has them, they are not
    computed here."""

    process: ProcessTracks
    track: int
    time_ns: Ints
    value: Array
    is_given: bool = False
