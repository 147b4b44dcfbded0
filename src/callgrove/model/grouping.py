"""Rows with equal keys, for columns of millions of rows: by counting where keys are dense, by sorting where not."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from callgrove.model.arrays import ABSENT, Array, Ints

__all__ = ["Directory", "bundles", "distinct_rows", "in_order", "packed"]

DENSE = 4  # cells of a table per row that are still cheaper than sorting the rows
SMALL = 1 << 16  # cells that are cheap in any case
LIMIT = 1 << 62
FAR = 1 << 40


def bundles(sizes: Sequence[int], most: int) -> list[tuple[int, int]]:
    """Items that follow each other, put together up to a size: the first one and the end of every bundle."""
    firsts, held = [0], 0
    for number, size in enumerate(sizes):
        if number and held + size > most:
            firsts.append(number)
            held = 0
        held += size
    return list(pairwise([*firsts, len(sizes)])) if sizes else []


def packed(*columns: Array, far: int = FAR) -> Ints | None:
    """One number for each row, equal and in order as its cells are; None where these need more than 62 bits. Cells of a
    column that lie further apart than `far` are numbered first, which takes long."""
    out: Ints | None = None
    size = 1
    for column in columns:
        low, high = (int(column.min()), int(column.max())) if len(column) else (0, 0)
        if high - low > far:  # some cells are far away, such as those that stand for nothing
            column = np.unique(column, return_inverse=True)[1].reshape(-1)
            low, high = 0, int(column.max())
        if low == high:
            continue
        size *= high - low + 1
        if size > LIMIT:
            return None
        own = column if low == 0 and column.dtype == np.int64 else column.astype(np.int64) - low
        out = own if out is None else out * (high - low + 1) + own
    return np.zeros(len(columns[0]), np.int64) if out is None else out


def distinct_rows(*columns: Array) -> tuple[Ints, Ints]:
    """The distinct rows, in order, as a matrix with a row for each column; and the number of every row among them."""
    keys = packed(*columns)
    if keys is None:
        found, number = np.unique(np.stack([c.astype(np.int64) for c in columns]), axis=1, return_inverse=True)
        return found, number.reshape(-1)
    size = int(keys.max(initial=-1)) + 1
    if size <= DENSE * len(keys) + SMALL:
        latest = np.full(size, ABSENT, np.int64)
        latest[keys] = np.arange(len(keys))
        used = latest >= 0
        number, rows = (np.cumsum(used) - 1)[keys], latest[used]
    else:
        _, rows, number = np.unique(keys, return_index=True, return_inverse=True)
    return np.stack([column[rows].astype(np.int64) for column in columns]), number.reshape(-1)


def in_order(*columns: Array) -> Ints:
    """The rows in the order of their cells, equal ones as they stand. A number that ends with that of the row sorts
    several times faster than rows do, where there is one."""
    keys = packed(*columns, far=LIMIT)
    if keys is None or not len(keys) or (int(keys.max()) + 1) * len(keys) > LIMIT:
        return np.lexsort(columns[::-1])
    if (keys[1:] >= keys[:-1]).all():
        return np.arange(len(keys))
    bits = len(keys).bit_length()
    keys = (keys << bits) | np.arange(len(keys))
    keys.sort()
    keys &= (1 << bits) - 1
    return keys


class Directory:
    """From keys to the numbers that stand with them; -1 for keys that are not there. Of equal keys the first counts."""

    def __init__(self, keys: Ints, numbers: Array) -> None:
        self._low = int(keys.min()) if len(keys) else 0
        size = int(keys.max()) - self._low + 1 if len(keys) else 0
        self._table: Ints | None = None
        self._n = len(keys)
        if size <= DENSE * len(keys) + SMALL:
            self._table = np.full(size + 1, ABSENT, np.int64)  # the last cell is for all other keys
            self._table[keys[::-1] - self._low] = numbers[::-1]
        else:
            order = np.argsort(keys, kind="stable")
            self._keys, self._numbers = keys[order], numbers[order].astype(np.int64)

    @property
    def is_unique(self) -> bool:
        """Has every key one number? (Numbers are not negative.)"""
        if self._table is not None:
            return int((self._table >= 0).sum()) == self._n
        return not bool((self._keys[1:] == self._keys[:-1]).any())

    def __getitem__(self, keys: Ints) -> Ints:
        if self._table is not None:
            n = len(self._table) - 1
            with np.errstate(over="ignore"):
                place = (keys - self._low).view(np.uint64)  # what lies below wraps around to far above
            return self._table[np.minimum(place, np.uint64(n)).view(np.int64)]
        place = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        return np.where(self._keys[place] == keys, self._numbers[place], ABSENT)
