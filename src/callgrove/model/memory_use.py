"""Memory in use over time, from allocations and frees.

A FREE often says neither its device nor its
size: both are those of the allocation at its address. Allocations count from their end on, frees too. Spans come by
start, so what ends later than the next chunk begins waits for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from callgrove.model.arrays import ABSENT, Array, Ints
from callgrove.model.grouping import distinct_rows

__all__ = ["MemoryInUse"]

ALLOC, FREE, REALLOC = 0, 1, 2
NAMES = ("time", "what", "bytes", "device", "address", "level")
NONE = np.empty(0, np.int64)
Rows = dict[str, Ints]


class MemoryInUse:
    """The memory of one process. What is kept: what is allocated, and what has not ended yet. `n_unknown` counts frees
    of what was never allocated, as far as is known: these change nothing."""

    def __init__(self) -> None:
        self.n_unknown = 0
        self._waiting: Rows = dict.fromkeys(NAMES, NONE)
        self._live: Rows = dict.fromkeys(NAMES, NONE)
        self._in_use: dict[tuple[int, int], int] = {}  # device, level -> bytes

    def add(
        self, time: Ints, index: Ints, words: Sequence[str], size: Ints, device: Ints, address: Ints, level: Ints
    ) -> None:
        """Operations; number `index` of the words says which each one is."""
        what = np.array([_operation(word) for word in words] or [ALLOC], np.int64)[index]
        new = dict(zip(NAMES, (time, what, size, device, address, level), strict=True))
        self._waiting = {name: np.append(self._waiting[name], new[name]) for name in NAMES}

    def until(self, now: int) -> Iterator[tuple[int, int, Ints, Ints]]:
        """(device, level, times, bytes in use) of all that ended until then."""
        ready = self._waiting["time"] <= now
        if not ready.any():
            return
        rows = {name: column[ready] for name, column in self._waiting.items()}
        self._waiting = {name: column[~ready] for name, column in self._waiting.items()}
        rows = _taken(rows, np.argsort(rows["time"], kind="stable"))
        changes = self._changes(_with_frees(rows))
        pairs, number = distinct_rows(changes["device"], changes["level"])
        for k, (device, level) in enumerate(pairs.T.tolist()):
            own = np.flatnonzero(number == k)
            curve = np.cumsum(changes["bytes"][own]) + self._in_use.get((device, level), 0)
            self._in_use[device, level] = int(curve[-1])
            yield device, level, changes["time"][own], curve

    def _changes(self, rows: Rows) -> Rows:
        """What each operation adds, where, and when; frees take their place and size from their allocation."""
        n_live = len(self._live["time"])
        rows = {name: np.append(self._live[name], rows[name]) for name in NAMES}
        order = np.argsort(rows["address"], kind="stable")
        by_address = _taken(rows, order)
        is_free = by_address["what"] == FREE
        same = np.append(False, by_address["address"][1:] == by_address["address"][:-1])[: len(order)]
        before = np.append(0, np.arange(len(order) - 1))[: len(order)]
        matched = is_free & same & ~is_free[before] & (by_address["address"] != ABSENT)
        for name in ("bytes", "device", "level"):
            by_address[name] = np.where(matched, by_address[name][before], by_address[name])
        last = np.append(~same[1:], True)[: len(order)]  # what is allocated twice without a free was lost once
        left = np.flatnonzero(~is_free & last & (by_address["address"] != ABSENT))
        self.n_unknown += int(np.count_nonzero(is_free & ~matched))
        size = np.maximum(by_address["bytes"], 0)
        by_address["bytes"] = np.where(matched, -size, np.where(is_free, 0, size))
        kept = np.flatnonzero((~is_free | matched) & (order >= n_live))
        kept = kept[np.argsort(order[kept], kind="stable")]
        self._live = {**_taken(by_address, left), "what": np.full(len(left), ALLOC, np.int64)}
        return _taken(by_address, kept)


def _operation(word: str) -> int:
    upper = word.upper()
    if "REALLOC" in upper:
        return REALLOC
    return FREE if "FREE" in upper or "RECLAIM" in upper else ALLOC


def _with_frees(rows: Rows) -> Rows:
    """What is allocated anew is freed first."""
    again = rows["what"] == REALLOC
    if not again.any():
        return rows
    order = np.repeat(np.arange(len(again)), 1 + again)
    out = _taken(rows, order)
    first = np.append(order[1:] == order[:-1], False)
    out["what"] = np.where(first, FREE, np.where(out["what"] == REALLOC, ALLOC, out["what"]))
    return out


def _taken(rows: Rows, order: Array) -> Rows:
    return {name: column[order] for name, column in rows.items()}
