"""From the ids of a table to numbers."""

from __future__ import annotations

import numpy as np

from callgrove.model.arrays import Array, Ids, Ints
from callgrove.model.grouping import Directory

__all__ = ["Lookup"]


class Lookup:
    """From a table's ids to numbers; -1 for ids that it does not have. The first of equal ids counts."""

    def __init__(self, ids: Ints, numbers: Array) -> None:
        self._numbers = Directory(ids, numbers)

    def __getitem__(self, ids: Ints) -> Ids:
        return self._numbers[ids].astype(np.int32)
