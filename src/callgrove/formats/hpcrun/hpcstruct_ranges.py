"""Address ranges that must not overlap: the first one in the order of the file wins, a later one goes whole."""

from __future__ import annotations

from bisect import bisect_left

import numpy as np

from callgrove.model.arrays import Bools, Ints, Offsets

__all__ = ["without_overlaps"]

BATCH = 4096


def without_overlaps(lo: Offsets, hi: Offsets) -> Ints:
    """Which of the ranges [lo, hi) to keep, ascending by `lo`."""
    order = np.argsort(lo, kind="stable")
    disputed = np.sort(order[_overlapping(lo[order], hi[order])])
    kept = np.empty(0, np.int64)
    for first in range(0, len(disputed), BATCH):  # in batches, so that inserting costs little however many are kept
        batch = disputed[first : first + BATCH]
        batch = batch[~_meet(lo[batch], hi[batch], lo[kept], hi[kept])]
        kept = np.concatenate([kept, batch[_greedy(lo[batch].tolist(), hi[batch].tolist())]])
        kept = kept[np.argsort(lo[kept], kind="stable")]
    if not len(disputed):
        return order
    chosen = np.ones(len(lo), np.bool_)
    chosen[disputed] = False
    chosen[kept] = True
    return order[chosen[order]]


def _overlapping(lo: Offsets, hi: Offsets) -> Bools:
    """Which of the ranges, sorted by `lo`, overlap another one."""
    reach = np.maximum.accumulate(hi)
    with_earlier: Bools = np.concatenate([np.zeros(min(1, len(lo)), np.bool_), lo[1:] < reach[:-1]])
    with_later: Bools = np.concatenate([hi[:-1] > lo[1:], np.zeros(min(1, len(lo)), np.bool_)])
    return with_earlier | with_later


def _meet(lo: Offsets, hi: Offsets, kept_lo: Offsets, kept_hi: Offsets) -> Bools:
    """Which ranges overlap one of those kept, which are sorted and disjoint."""
    if not len(kept_lo):
        return np.zeros(len(lo), np.bool_)
    after = np.searchsorted(kept_lo, lo, side="right")
    before = np.maximum(after - 1, 0)
    inside_before: Bools = (after > 0) & (kept_hi[before] > lo)
    next_ = np.minimum(after, len(kept_lo) - 1)
    reaches_next: Bools = (after < len(kept_lo)) & (kept_lo[next_] < hi)
    return inside_before | reaches_next


def _greedy(lo: list[int], hi: list[int]) -> Ints:
    kept_lo: list[int] = []
    kept_hi: list[int] = []
    kept: list[int] = []
    for number, (first, last) in enumerate(zip(lo, hi, strict=True)):
        at = bisect_left(kept_lo, first)
        if (at and kept_hi[at - 1] > first) or (at < len(kept_lo) and kept_lo[at] < last):
            continue
        kept_lo.insert(at, first)
        kept_hi.insert(at, last)
        kept.append(number)
    return np.array(kept, np.int64)
