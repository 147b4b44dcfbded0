"""Exact sums of stretches of time, by place, group of items and bin.

    add(profiles, items, starts, ends)     some time of them
    begin(profiles, items, times)          something that began then
    complete()                             nothing more comes of the profiles that were added so far

Profiles are counted, not only added up: so sums are made by profile until it is complete, and by place then. Memory
holds a sum for each place, group and bin, and those of the profiles that are not complete. Times are integers: sums
over many profiles may exceed 64 bits, so they are kept as two numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from callgrove.analysis.timeline.items import Item, Items
from callgrove.arrays import Array, Ints, distinct_rows

__all__ = ["Groups", "Row", "Sums", "exact_sum", "split_at"]

MOST_WAITING = 1 << 20  # stretches
LOW_BITS = 32
LOW = (1 << LOW_BITS) - 1


@dataclass(frozen=True)
class Row:
    """The sums of a place, a group and a bin."""

    place: int
    group: int
    bin: int
    time_ns: int
    count: int
    n_profiles: int


class Groups:
    """What of items makes a difference: those with the same description are one group."""

    def __init__(self, items: Items, describe: Callable[[Item], tuple[Any, ...]]) -> None:
        self._items, self._describe = items, describe
        self._numbers: dict[tuple[Any, ...], int] = {}
        self._of_item = np.empty(0, np.int64)

    @property
    def all(self) -> list[tuple[Any, ...]]:
        """Descriptions by number."""
        return list(self._numbers)

    def of(self, items: Ints) -> Ints:
        """Return the group of each item."""
        if len(self._of_item) < len(self._items):
            new = self._items.all[len(self._of_item) :]
            numbers = [self._numbers.setdefault(self._describe(item), len(self._numbers)) for item in new]
            self._of_item = np.append(self._of_item, np.array(numbers, np.int64))
        return self._of_item[items]


def exact_sum(ns: Ints) -> int:
    """Return the sum of times, of any size."""
    return (int((ns >> LOW_BITS).sum()) << LOW_BITS) + int((ns & LOW).sum())


def split_at(edges: Ints, start: Ints, end: Ints) -> tuple[Ints, Ints, Ints]:
    """Divide stretches inside of [edges[0], edges[-1]) where they cross an edge; return the row that each piece is of,
    its bin and its length."""
    if len(edges) == 2:
        return np.arange(len(start)), np.zeros(len(start), np.int64), end - start
    first = np.searchsorted(edges, start, side="right") - 1
    last = np.maximum(np.searchsorted(edges, end, side="left") - 1, first)
    n_pieces = last - first + 1
    row = np.repeat(np.arange(len(start)), n_pieces)
    bins = np.arange(len(row)) - np.repeat(np.cumsum(n_pieces) - n_pieces, n_pieces) + first[row]
    bins = np.minimum(bins, len(edges) - 2)  # what begins and ends with the last edge
    return row, bins, np.minimum(edges[bins + 1], end[row]) - np.maximum(edges[bins], start[row])


class Sums:
    """Sums of time and counts. `place` is that of each profile; `edges` are those of bins, the window at least."""

    def __init__(self, place: Ints, groups: Groups, edges: Ints) -> None:
        self._place, self._groups, self._edges = place, groups, edges
        self._waiting: list[Ints] = []  # profile, group, bin, ns, count: by columns
        self._n_waiting = 0
        # place, group, bin, high and low part of ns, count, profiles: added up, and what is still to be added
        self._done, self._ready = np.empty((7, 0), np.int64), list[Ints]()

    def add(self, profile: Array, item: Ints, start: Ints, end: Ints) -> None:
        """Add time of items."""
        row, bins, ns = split_at(self._edges, start, end)
        self._wait(profile[row], item[row], bins, ns, np.zeros(len(row), np.int64))

    def begin(self, profile: Array, item: Ints, time: Ints) -> None:
        """Add items that begin at a time in the window, its last moment included."""
        bins = np.clip(np.searchsorted(self._edges, time, side="right") - 1, 0, len(self._edges) - 2)
        self._wait(profile, item, bins, np.zeros(len(time), np.int64), np.ones(len(time), np.int64))

    def _wait(self, profile: Array, item: Ints, bins: Ints, ns: Ints, count: Ints) -> None:
        self._waiting.append(np.stack([profile, self._groups.of(item), bins, ns, count]).astype(np.int64, copy=False))
        self._n_waiting += len(ns)
        if self._n_waiting >= MOST_WAITING:
            self._waiting = [self._gather()]
            self._n_waiting = self._waiting[0].shape[1]

    def _gather(self) -> Ints:
        return _add_up(np.concatenate(self._waiting, axis=1), 3) if self._waiting else np.empty((5, 0), np.int64)

    def complete(self) -> None:
        """Add up what is there by place."""
        profile, group, bins, ns, count = self._gather()
        self._waiting, self._n_waiting = [], 0
        columns = (self._place[profile], group, bins, ns >> LOW_BITS, ns & LOW, count, np.ones(len(ns), np.int64))
        self._ready.append(_add_up(np.stack(columns), 3))
        if sum(part.shape[1] for part in self._ready) > max(self._done.shape[1], MOST_WAITING):
            self._settle()

    def _settle(self) -> None:
        self._done, self._ready = _add_up(np.concatenate([self._done, *self._ready], axis=1), 3), []

    def rows(self) -> list[Row]:
        """Return all sums, in the order of places, groups and bins."""
        self._settle()
        return [
            Row(place, group, number, (high << LOW_BITS) + low, count, n_profiles)
            for place, group, number, high, low, count, n_profiles in self._done.T.tolist()
        ]


def _add_up(table: Ints, n_keys: int) -> Ints:
    """Return a table, given by columns, with one row for each key, in order; its other columns are added up."""
    if not table.shape[1]:
        return table
    keys, number = distinct_rows(*table[:n_keys])
    sums = np.zeros((len(table) - n_keys, keys.shape[1]), np.int64)
    for total, column in zip(sums, table[n_keys:], strict=True):
        np.add.at(total, number, column)
    return np.concatenate([keys, sums])
