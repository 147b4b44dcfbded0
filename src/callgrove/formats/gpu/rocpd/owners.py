"""From ids that mean something in one of several sets of tables only, to rows.

Rows stand set after set, and beside them is `n`: how many each set, their owner, has.
"""

from __future__ import annotations

import numpy as np

from callgrove.arrays import ABSENT, Bools, Directory, Ints, find_first_of_equal

__all__ = ["ByOwner", "any_of_each", "count_within", "extremes", "have_repeated"]

LARGEST = 1 << 22  # cells of a look-up of several data sets


class ByOwner:
    """A mapping from an id of one of several data sets to its row; -1 for unknown ids. The first of equal ids
    counts."""

    def __init__(self, n: Ints, ids: Ints) -> None:
        self._n_rows, rows = len(ids), np.arange(len(ids))
        self._each = [Directory(ids, rows)] if len(n) == 1 else []
        if self._each:
            return
        self._low, high = extremes(n, ids)
        ranges = zip(self._low.tolist(), high.tolist(), strict=True)
        self._width = int(max(last - first for first, last in ranges)) + 2  # the last cell is for all other ids
        if self._width * len(n) > LARGEST:
            self._each = [Directory(ids[part], part) for part in np.split(rows, np.cumsum(n)[:-1])]
            return
        self._table = np.full(self._width * len(n), ABSENT, np.int64)
        place = ids + np.repeat(np.arange(len(n)) * self._width - self._low, n)
        self._table[place[::-1]] = rows[::-1]

    @property
    def is_unique(self) -> bool:
        if self._each:
            return all(directory.is_unique for directory in self._each)
        return int((self._table >= 0).sum()) == self._n_rows

    def __call__(self, n: Ints, ids: Ints) -> Ints:
        """Return the rows of ids, of which n[k] belong to data set k, one data set after the other."""
        if len(self._each) == 1:
            return self._each[0][ids]
        if self._each:
            parts = np.split(ids, np.cumsum(n)[:-1])
            return np.concatenate([directory[part] for directory, part in zip(self._each, parts, strict=True)])
        return self._table.take(self._places(n, ids))

    def _places(self, n: Ints, ids: Ints) -> Ints:
        firsts = np.arange(len(n)) * self._width
        least, largest = extremes(n, ids)
        if ((n == 0) | ((least >= self._low) & (largest < self._low + self._width))).all():
            return ids + np.repeat(firsts - self._low, n)
        with np.errstate(over="ignore"):
            place = (ids - np.repeat(self._low, n)).view(np.uint64)  # what lies below wraps around to far above
        return np.minimum(place, np.uint64(self._width - 1)).view(np.int64) + np.repeat(firsts, n)


def extremes(n: Ints, ids: Ints) -> tuple[Ints, Ints]:
    """Return the least and the largest id of every owner; 0 for owners without ids."""
    least, largest, some = np.zeros(len(n), np.int64), np.zeros(len(n), np.int64), n > 0
    if some.any():
        firsts = (np.cumsum(n) - n)[some]
        least[some], largest[some] = np.minimum.reduceat(ids, firsts), np.maximum.reduceat(ids, firsts)
    return least, largest


def count_within(owner: Ints, counted: Bools) -> Ints:
    """Return for every row how many rows of the same owner that count precede it. Owners rise."""
    before: Ints = np.cumsum(counted) - counted
    return before - before[np.searchsorted(owner, owner)]


def any_of_each(n: Ints, marks: Bools) -> Bools:
    """Return for every owner whether any of its rows is marked."""
    totals, ends = np.append(0, np.cumsum(marks)), np.cumsum(n)
    return np.asarray(totals[ends] > totals[ends - n])


def have_repeated(n: Ints, ids: Ints) -> Bools:
    """Return which owners have an id twice."""
    owner = np.repeat(np.arange(len(n)), n)
    return any_of_each(n, find_first_of_equal(owner, ids) != np.arange(len(ids)))
