"""The statistics that a summary profile holds, computed from the values of the threads.

    count             threads with a value
    sum, sum of squares
    min, max          over the threads with a value

Genuine writers store the sum where the sum of squares belongs, count threads that touch a context in any scope, and
get some minima wrong; here each statistic is what its name says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from callgrove.model.arrays import Array, Floats, Ids, Ints
from callgrove.model.values import SparseBlock

__all__ = ["COUNT", "MAXIMUM", "MINIMUM", "SQUARES", "STATISTICS", "SUM", "Summarised", "summarised"]

COUNT, SUM, SQUARES, MINIMUM, MAXIMUM = "count", "sum", "sum of squares", "min", "max"
MOST_IDS = 1 << 16

Compute = Callable[[Floats, Ints], Floats]  # values of all groups, first of each group

STATISTICS: dict[str, Compute] = {
    COUNT: lambda value, first: np.diff(first, append=len(value)).astype(np.float64),
    SUM: np.add.reduceat,
    SQUARES: lambda value, first: np.add.reduceat(value * value, first),
    MINIMUM: np.minimum.reduceat,
    MAXIMUM: np.maximum.reduceat,
}
Summarised = tuple[Ids, Ids, Floats]  # context ids, ids in the summary, statistics; ascending, none of them 0


def summarised(rows: SparseBlock, statistics: Mapping[str, Mapping[int, int]]) -> Summarised:
    """The summary of some contexts, from all their values, sorted by context, metric and profile. `statistics` gives
    for each of them the id in the summary by the id in threads."""
    changes = np.ones(len(rows), np.bool_)
    changes[1:] = (rows.context[1:] != rows.context[:-1]) | (rows.metric[1:] != rows.metric[:-1])
    first = np.flatnonzero(changes)
    context, metric = rows.context[first].astype(np.int32), rows.metric[first].astype(np.int32)
    parts: list[tuple[Array, Array, Array]] = [(context[:0], metric[:0], np.empty(0))]
    for statistic, ids in statistics.items():
        table = np.full(MOST_IDS, -1, np.int32)
        table[list(ids)] = list(ids.values())
        with np.errstate(invalid="ignore", over="ignore"):  # values need not be finite
            value = STATISTICS[statistic](rows.value, first) if len(first) else np.empty(0)
        kept = (value != 0) & (table[metric] >= 0)
        parts.append((context[kept], table[metric[kept]], value[kept]))
    if len(parts) == 2:
        return parts[1]
    contexts, summary_ids, values = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.lexsort((summary_ids, contexts))
    return contexts[order], summary_ids[order], values[order]
