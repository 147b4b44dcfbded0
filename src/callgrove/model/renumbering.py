"""Maps from the ids of a whole to those of a part of it: -1 where the part does not have one."""

from __future__ import annotations

import numpy as np

from callgrove.model.arrays import ABSENT, Ids, Ints

__all__ = ["absent_stays", "new_numbers"]


def new_numbers(kept: Ints, n: int) -> Ids:
    """For each of `n` ids the place that it has in `kept`."""
    out = np.full(n, ABSENT, np.int32)
    out[kept] = np.arange(len(kept), dtype=np.int32)
    return out


def absent_stays(numbers: Ids) -> Ids:
    """The same map with an entry more, which -1 picks: who is absent before is absent after."""
    return np.append(numbers, np.int32(ABSENT))
