"""Which host call launched an operation of a device: they carry the same correlation, in the same process."""

from __future__ import annotations

import numpy as np

from callgrove.model.arrays import ABSENT, Ints

__all__ = ["launch_calls"]


def launch_calls(
    correlation: Ints,
    process: Ints,
    call_correlation: Ints,
    call_process: Ints,
    call_start: Ints,
    start: Ints | None = None,
) -> Ints:
    """For each operation the number of the call with its correlation in its process; -1 where there is none.

    Of several calls it is the innermost: the one that started last, where `start` is given among those that started
    before the operation did. Where all started later, clocks disagree, and the first one stands.
    """
    if not len(call_correlation):
        return np.full(len(correlation), ABSENT, np.int64)
    order = np.lexsort((call_start, call_correlation, call_process))
    pairs = np.stack([np.append(call_process[order], process), np.append(call_correlation[order], correlation)])
    _, number = np.unique(pairs, axis=1, return_inverse=True)
    own, asked = np.split(number.reshape(-1), [len(order)])
    first, last = (np.searchsorted(own, asked, side=side) for side in ("left", "right"))
    place = last - 1
    if start is not None:
        _, rank = np.unique(np.append(call_start[order], start), return_inverse=True)
        width = int(rank.max(initial=0)) + 1
        begun, when = np.split(rank.reshape(-1), [len(order)])
        place = np.maximum(np.searchsorted(own * width + begun, asked * width + when, side="right") - 1, first)
    return np.where(
        (first < last) & (correlation != ABSENT), np.append(order, ABSENT)[np.minimum(place, len(order))], ABSENT
    )
