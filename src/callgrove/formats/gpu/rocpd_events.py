"""Rows of the table that calls, kernels and copies refer to for their category and correlation."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

import numpy as np

from callgrove.formats.gpu.cells import MISSING, Cells
from callgrove.formats.gpu.lookup import Lookup
from callgrove.model.arrays import Array, Ints

__all__ = ["EventRows"]


class EventRows:
    """Rows of the event table by their id, which as a rule counts them."""

    def __init__(self, parts: Iterable[Cells], columns: Sequence[str]) -> None:
        found = [{name: _narrow(part[name]) for name in columns} for part in parts]
        nothing = [np.empty(0, np.int64)]
        # one column after the other, each part of it given back
        self._cells = {name: np.concatenate([part.pop(name) for part in found] or nothing) for name in columns}
        ids = self._cells.pop("id")
        self._first, self._n = (int(ids[0]) if len(ids) else 0), len(ids)
        counted = np.array_equal(ids, np.arange(self._first, self._first + self._n))
        self._lookup = None if counted else Lookup(ids.astype(np.int64), np.arange(self._n))

    def has(self, columns: Collection[str]) -> bool:
        return set(columns) <= {"id", *self._cells}

    def of(self, ids: Ints, columns: Collection[str], nowhere: Callable[[int], None]) -> Cells:
        """Columns for these ids; absent where there is no such row, and `nowhere` is told of how many that is so."""
        place = ids - self._first if self._lookup is None else self._lookup[ids]
        outside = (place < 0) | (place >= self._n)
        if outside.any():
            nowhere(int((ids[outside] != MISSING).sum()))
        if not self._n:
            return {name: np.full(len(ids), MISSING) for name in columns}
        if outside.any():
            place = np.where(outside, 0, place)
        cells = {name: self._cells[name].take(place).astype(np.int64) for name in columns}
        return {name: np.where(outside, MISSING, cell) for name, cell in cells.items()} if outside.any() else cells


def _narrow(column: Ints) -> Array:
    """The same numbers in 4 bytes each, where these suffice."""
    fits = not len(column) or (int(column.min()) >= -(2**31) and int(column.max()) < 2**31)
    return column.astype(np.int32) if fits else column
