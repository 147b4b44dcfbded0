"""Which host call launched an operation of a device: they carry the same correlation, in the same process."""

from __future__ import annotations

import numpy as np

from callgrove.model.arrays import ABSENT, Ints

__all__ = ["launch_calls"]


def launch_calls(
    correlation: Ints, process: Ints, call_correlation: Ints, call_process: Ints, call_start: Ints
) -> Ints:
    """For each operation the number of the call with its correlation in its process; of several, the one that started
    last: the innermost. -1 where there is none."""
    if not len(call_correlation):
        return np.full(len(correlation), ABSENT, np.int64)
    order = np.lexsort((call_start, call_correlation, call_process))
    keys = np.stack([call_process[order], call_correlation[order]])
    wanted = np.stack([process, correlation])
    place = _last_equal(keys, wanted)
    return np.where((place >= 0) & (correlation != ABSENT), np.append(order, ABSENT)[place], ABSENT)


def _last_equal(keys: Ints, wanted: Ints) -> Ints:
    """For pairs in rising order, the place of the last one that equals each wanted pair; -1 where none does."""
    both = np.concatenate([keys, wanted], axis=1)
    _, number = np.unique(both, axis=1, return_inverse=True)
    own, asked = number.reshape(-1)[: keys.shape[1]], number.reshape(-1)[keys.shape[1] :]
    place = np.searchsorted(own, asked, side="right") - 1
    return np.where((place >= 0) & (own[place] == asked), place, ABSENT)
