"""From the ids of a table to numbers."""

from __future__ import annotations

import numpy as np

from callgrove.model.arrays import ABSENT, Array, Ids, Ints

__all__ = ["Lookup"]


class Lookup:
    """From a table's ids to numbers; -1 for ids that it does not have. The first of equal ids counts."""

    def __init__(self, ids: Ints, numbers: Array) -> None:
        order = np.argsort(ids, kind="stable")
        self._ids, self._numbers = ids[order], numbers[order].astype(np.int64)

    def __getitem__(self, ids: Ints) -> Ids:
        place = np.minimum(np.searchsorted(self._ids, ids), max(len(self._ids) - 1, 0))
        if not len(self._ids):
            return np.full(len(ids), ABSENT, np.int32)
        return np.where(self._ids[place] == ids, self._numbers[place], ABSENT).astype(np.int32)
