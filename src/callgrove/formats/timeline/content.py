"""What encoders are given (slices, points of counters), and what no trace can hold: it is left out and counted.

Texts are given as the different ones of a batch, in the order of their first use, and a number for each slice, so that
encoders may intern them and give the same bytes whatever numbers the source uses.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

from callgrove.arrays import Array, Bools, Ids, Ints
from callgrove.formats.interface import LossReport
from callgrove.formats.timeline.places import ProcessTracks
from callgrove.model.books import Ledger

__all__ = [
    "ARGUMENTS",
    "DEVICE_FACTS",
    "INSTANCES",
    "NOWHERE",
    "NO_PLACE",
    "NO_SAMPLE_TIMES",
    "OF_LOST",
    "OF_OTHERS",
    "OPEN",
    "POINTS",
    "RENAMED",
    "UNKNOWN_FREES",
    "UNNAMED",
    "CounterPoints",
    "Losses",
    "Note",
    "Slices",
    "Texts",
    "Value",
    "clean",
    "possible",
]


# -- impossible times and names ----------------------------------------------------------------------------------------
# Everything that is left out or changed is counted here.
#
# Specification: trace-outputs.md section 7 and "Settled afterwards" 4.


UNNAMED = "<unnamed>"
LONGEST = 1 << 16  # bytes of a name
OPEN = 2**63 - 1  # the end of a span that never ended, until the last moment of its process is known

ARGUMENTS = "parts with arguments of calls"  # no loss by itself: the writer knows whether it writes them
RENAMED = "kernels under the name of a range"  # no loss either
NO_PLACE = "the format has no place for them"
DEVICE_FACTS = "devices are shown by their names and numbers alone, without what else is known of them"
BACKWARDS = "spans that end before they start"
NO_TIMES = "spans with times that no clock shows: negative, or beyond 63 bits"
UNKNOWN_FREES = "memory that was freed without being allocated before: it is not in the curve of memory in use"
CUT_NAMES = "names longer than 64 KiB: their first 64 KiB are written"
NUL_NAMES = "names with NUL characters: these are written as U+2400"
NO_SAMPLE_TIMES = "samples with times that no clock shows: negative, or beyond 63 bits"
POINTS = "values of counters at times that no clock shows: negative, or beyond 63 bits"
NOWHERE = "values of counters of profiles that belong to no process"
OF_LOST = "counters of spans that are left out"
OF_OTHERS = "counters of spans that are no kernels: only those of kernels are written"
INSTANCES = "values of counters beside others of the same kernel, one for each instance of the hardware: they are added"


class Losses:
    """How often something could not be written as it is; and what was given and written. What is left out for a reason
    that is counted is taken out of what was given."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.given, self.written = Ledger(), Ledger()

    def add(self, what: str, n: int = 1) -> None:
        if n:
            self.counts[what] += n

    def merge(self, other: Losses) -> None:
        """Add what was counted elsewhere."""
        self.counts.update(other.counts)
        self.given.merge(other.given)
        self.written.merge(other.written)

    def report(self, report: LossReport) -> None:
        for what, n in sorted(self.counts.items()):
            report.add(f"{n:,} {what}")


def clean(text: str, losses: Losses, empty: str = UNNAMED) -> str:
    """Return a name that every reader takes: not empty, no NUL, UTF-8, at most 64 KiB."""
    if not text:
        return empty
    if "\0" in text:
        losses.add(NUL_NAMES)
        text = text.replace("\0", "\u2400")
    if not text.isascii():
        text = text.encode("utf-8", "replace").decode()  # half a surrogate pair is no text
    if len(text) > LONGEST // 4 and len(data := text.encode()) > LONGEST:
        losses.add(CUT_NAMES)
        text = data[: LONGEST - 3].decode("utf-8", "ignore") + "…"
    return text


def possible(start: Ints, end: Ints, losses: Losses) -> Bools | None:
    """Return which spans can be written; None: all. (Times beyond 63 bits read as negative ones.)"""
    if not len(start) or (int(start.min()) >= 0 and bool((end >= start).all())):
        return None
    timeless = (start < 0) | (end < 0)
    backwards = ~timeless & (end < start)
    losses.add(NO_TIMES, int(np.count_nonzero(timeless)))
    losses.add(BACKWARDS, int(np.count_nonzero(backwards)))
    kept: Bools = ~(timeless | backwards)
    return kept


# -- slices and points of counters -------------------------------------------------------------------------------------


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
        text_numbers = np.where(numbers >= 0, numbers, n + which.astype(np.int64))  # kinds come in eight bits
        first = np.full(n + len(instead), len(text_numbers), np.int64)
        first[text_numbers[::-1]] = np.arange(len(text_numbers) - 1, -1, -1)
        used = np.flatnonzero(first < len(text_numbers))
        used = used[np.argsort(first[used], kind="stable")]
        place = np.empty(len(first), np.int64)
        place[used] = np.arange(len(used))
        texts = [clean(strings[k], losses) if k < n else instead[k - n] for k in used.tolist()]
        return cls(place[text_numbers], texts)


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
