"""Copies and sets of memory, as Extra-P counts them.

Specification: gpu-traces.md section 9, 6 and 7.

Overlap of copies with each other (D1): for each pair of which one sees an end of the other, both copies have a row with
the time they share. The halves of these times that no kernel overlaps as well should count for each copy; Extra-P
forgets to group them, so their sum counts for one copy only, and its formula too follows one row: the first. Which row
that is, SQLite leaves open; it is the pair that comes first in the table.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from callgrove.formats.gpu.nsight_extrap_activities import Activities, copy_kind
from callgrove.formats.gpu.nsight_extrap_overlaps import each_first, joined, pairs_touching
from callgrove.formats.gpu.nsight_extrap_rows import BYTES, Below, Group, Measured, Tags, overlapped, summed, time_of
from callgrove.model.arrays import Ints

__all__ = ["copies_below", "copy_times", "set_times", "sets_below"]

OVERLAP: Tags = {"gpu__overlap": True, "agg__disabled": True}
OVERLAPPED: Tags = {"gpu__overlap": True}


def copies_below(activities: Activities) -> Below:
    """Every copy, and what overlapped it."""
    copies = activities.copies
    key, start, end = copies["correlationId"], copies["start"], copies["end"]
    pageable = (copies["srcKind"] == 0) | (copies["dstKind"] == 0)
    others, shared = _mutual(activities)
    correlation, overlap = summed(key, activities.computing.within(start, end, covering=True))
    overlap[correlation == shared[0]] += shared[1]
    own = Below.of(
        key,
        kind=copies["copyKind"],
        pageable=pageable,
        length=end - start,
        bytes=np.maximum(copies["bytes"], 0),
        overlap=overlap[np.searchsorted(correlation, key)],
    )
    kernels = {**activities.kernels, "name": activities.kernel_names}
    pairs = pairs_touching(start, end, kernels["start"], kernels["end"])
    others += overlapped(copies, np.zeros(len(key), np.int64), kernels, pairs, unnamed=False)
    copy, row = joined(key, others.correlation)
    return own + Below.of(
        others.correlation[row],
        kind=copies["copyKind"][copy],
        pageable=pageable[copy],
        **{name: getattr(others, name)[row] for name in ("other", "count", "overlap")},
    )


def _mutual(activities: Activities) -> tuple[Below, tuple[int, int]]:
    """Copies that overlap other copies, under their own names; and the copy that gets all of the overlap, and how much
    that is (D1)."""
    copies, names, segments = activities.copies, activities.copy_names, activities.computing
    start, end, key = copies["start"], copies["end"], copies["correlationId"]
    found = Below.of(np.zeros(0, np.int64))
    pairs: list[Ints] = []
    for one, other in pairs_touching(start, end, start, end):
        kept = ((start[other] >= start[one]) | (end[other] <= end[one])) & (key[one] != key[other])
        one, other = one[kept], other[kept]
        first, last = np.maximum(start[one], start[other]), np.minimum(end[one], end[other])
        for copy in (one, other):
            found += Below.of(key[copy], other=names[copy], overlap=last - first)
        pairs.append(np.stack([one, other, first, last]))
    if not pairs or not sum(part.shape[1] for part in pairs):
        return found, (0, 0)
    one, other, first, last = np.concatenate(pairs, axis=1)
    chosen = int(np.lexsort((other, one))[0])
    covered = len(segments.touching(first[[chosen]], last[[chosen]])[0]) > 0
    row, at = segments.touching(first, last)
    if covered:
        under = np.minimum(last[row], segments.end[at]) - np.maximum(first[row], segments.start[at])
        total = int((((last - first)[row] - under) // 2).sum())
    else:
        times = np.maximum(np.bincount(row, minlength=len(one)), 1)
        total = int(((last - first) // 2 * times).sum())
    return found, (int(key[one[chosen]]), 2 * total)


def copy_times(group: Group) -> Iterator[Measured]:
    kind = copy_kind(group.kind)
    tags = {"gpu__mem_copy": True, "agg__category": ["GPU MEM"], "gpu__blocking__mem_copy": group.blocking}
    return _times(group, f"BLOCKING {kind}" if group.blocking else kind, tags)


def sets_below(activities: Activities) -> Below:
    """Every set, and what overlapped it. Of several sets of one call the first speaks for all."""
    sets, others, segments = activities.sets, activities.but_copies, activities.computing
    start, end = sets["start"], sets["end"]
    overlap = segments.within(start, end, covering=True) - segments.touching_alone(start, end)
    correlation, first, counts = each_first(sets["correlationId"])
    own = Below.of(
        correlation,
        pageable=sets["memKind"][first] == 0,
        length=(end - start)[first],
        bytes=np.maximum(sets["bytes"], 0)[first],
        overlap=summed(sets["correlationId"], overlap)[1] * counts,
    )
    pairs = pairs_touching(start, end, others["start"], others["end"])
    return own + overlapped(sets, np.zeros(len(start), np.int64), others, pairs, unnamed=False)


def set_times(group: Group) -> Iterator[Measured]:
    tags = {"gpu__mem_set": True, "agg__category": ["GPU"], "gpu__blocking__mem_set": group.blocking}
    return _times(group, "BLOCKING GPU MEMSET" if group.blocking else "GPU MEMSET", tags)


def _times(group: Group, what: str, tags: Tags) -> Iterator[Measured]:
    """The calls, and below them what the device did."""
    path = f"{group.path}->{what}"
    waited = group.length if group.blocking else 0
    if group.calls - waited:
        yield time_of(group.path, group.calls - waited)
    if group.other is not None:
        yield time_of(f"{path}->OVERLAP->{group.other}", group.overlap, OVERLAPPED)
        return
    device = {**tags, "agg__category__comparison_cpu_gpu": None}
    yield time_of(path, group.length - group.overlap, device)
    yield Measured(path, BYTES, float(group.bytes), device)
    if group.overlap:
        yield time_of(f"{path}->OVERLAP", group.overlap, OVERLAP)
