"""Which host call launched an operation of a device: they carry the same correlation, in the same process."""

from __future__ import annotations

import numpy as np

from callgrove.model.arrays import ABSENT, Ints
from callgrove.model.grouping import Directory, distinct_rows, packed

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
    own, asked = call_correlation, correlation
    if not (_is(call_process, int(call_process[0])) and _is(process, int(call_process[0]))):
        both = np.append(call_process, process), np.append(call_correlation, correlation)
        keys = packed(*both)
        own, asked = np.split(distinct_rows(*both)[1] if keys is None else keys, [len(call_process)])
    number = Directory(own, np.arange(len(own)))
    if not number.is_unique:
        number_of = _innermost(own, asked, call_start, start)
    else:
        number_of = number[asked]
    return np.where(correlation != ABSENT, number_of, ABSENT)


def _is(column: Ints, value: int) -> bool:
    """Is every cell this one?"""
    return bool((column == value).all())


def _innermost(own: Ints, asked: Ints, call_start: Ints, start: Ints | None) -> Ints:
    """Of calls with equal keys the one that started last, before the operation where its start is given."""
    order = np.lexsort((call_start, own))
    own, call_start = own[order], call_start[order]
    first, last = (np.searchsorted(own, asked, side=side) for side in ("left", "right"))
    place = last - 1
    if start is not None:
        _, rank = np.unique(np.append(call_start, start), return_inverse=True)
        _, key = np.unique(np.append(own, asked), return_inverse=True)
        width = int(rank.max(initial=0)) + 1
        begun, when = np.split(key.reshape(-1) * width + rank.reshape(-1), [len(own)])
        place = np.maximum(np.searchsorted(begun, when, side="right") - 1, first)
    return np.where(first < last, np.append(order, ABSENT)[np.minimum(place, len(order))], ABSENT)
