"""What a trace cannot hold: impossible times and names. Everything that is left out or changed is counted here.

Specification: trace-outputs.md section 7 and "Settled afterwards" 4.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from callgrove.formats.interface import LossReport
from callgrove.model.arrays import Bools, Ints
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
    "Losses",
    "clean",
    "possible",
]

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
    """A name that every reader takes: not empty, no NUL, UTF-8, at most 64 KiB."""
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
    """Which spans can be written; None: all. (Times beyond 63 bits read as negative ones.)"""
    if not len(start) or (int(start.min()) >= 0 and bool((end >= start).all())):
        return None
    timeless = (start < 0) | (end < 0)
    backwards = ~timeless & (end < start)
    losses.add(NO_TIMES, int(np.count_nonzero(timeless)))
    losses.add(BACKWARDS, int(np.count_nonzero(backwards)))
    kept: Bools = ~(timeless | backwards)
    return kept
