"""The statistics that a summary profile holds, computed from the values of the threads.

    count             threads with a value
    sum, sum of squares
    min, max          over the threads with a value

Genuine writers store the sum where the sum of squares belongs, count threads that touch a context in any scope, and
get some minima wrong; here each statistic is what its name says.

In lexical scope a loop of the summary has its function scope less that of the loops nested in it, while threads hold
plain function scope there (hpctoolkit-databases.md B.6).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from callgrove.arrays import ABSENT, Array, Bools, Floats, Ids, Ints
from callgrove.formats.hpctoolkit.release.files import COUNT, MAXIMUM, MINIMUM, SQUARES, SUM
from callgrove.model.values import SparseBlock

__all__ = ["STATISTICS", "LexicalLoops", "Summarised", "summarise"]

MOST_IDS = 1 << 16
WAITING_ROWS = 1 << 20  # of loops inside loops, before equal ones are added up
ROUNDING = 1e-12  # relative; what remains of a difference of equal sums is no cost

Compute = Callable[[Floats, Ints], Floats]  # values of all groups, first of each group

STATISTICS: dict[str, Compute] = {
    COUNT: lambda value, first: np.diff(first, append=len(value)).astype(np.float64),
    SUM: np.add.reduceat,
    SQUARES: lambda value, first: np.add.reduceat(value * value, first),
    MINIMUM: np.minimum.reduceat,
    MAXIMUM: np.maximum.reduceat,
}
Summarised = tuple[Ids, Ids, Floats]  # context ids, ids in the summary, statistics; ascending, none of them 0


def summarise(
    rows: SparseBlock, statistics: Mapping[str, Mapping[int, int]], loops: LexicalLoops | None = None
) -> Summarised:
    """Return the summary of some contexts, from all their values, sorted by context, metric and profile. `statistics`
    gives for each of them the id in the summary by the id in threads."""
    if loops is None:
        return _put_in_order([_statistics(rows, statistics)], len(statistics) > 1)
    others, at_loops = loops.split(rows)
    parts = [_statistics(others, statistics), _statistics(at_loops, statistics)]
    return _put_in_order(parts, len(statistics) > 1 or len(at_loops) > 0)


def _put_in_order(parts: list[Summarised], mixed: bool) -> Summarised:
    """Return all parts as one, ascending by context and id."""
    contexts, ids, values = (np.concatenate(column) for column in zip(*parts, strict=True))
    if not mixed:
        return contexts, ids, values
    order = np.lexsort((ids, contexts))
    return contexts[order], ids[order], values[order]


def _statistics(rows: SparseBlock, statistics: Mapping[str, Mapping[int, int]]) -> Summarised:
    """Return every statistic of all groups of rows with one context and metric, one statistic after the other."""
    changes = np.ones(len(rows), np.bool_)
    changes[1:] = (rows.context[1:] != rows.context[:-1]) | (rows.metric[1:] != rows.metric[:-1])
    first = np.flatnonzero(changes)
    context, metric = rows.context[first].astype(np.int32), rows.metric[first].astype(np.int32)
    parts: list[tuple[Array, Array, Array]] = [(context[:0], metric[:0], np.empty(0))]
    for statistic, ids in statistics.items():
        table = id_table(ids)
        with np.errstate(invalid="ignore", over="ignore"):  # values need not be finite
            value = STATISTICS[statistic](rows.value, first) if len(first) else np.empty(0)
        kept = (value != 0) & (table[metric] >= 0)
        parts.append((context[kept], table[metric[kept]], value[kept]))
    contexts, summary_ids, values = (np.concatenate(column) for column in zip(*parts, strict=True))
    return contexts, summary_ids, values


def id_table(ids: Mapping[int, int]) -> Ids:
    """Return a mapping of metric ids as an array; -1 where there is none."""
    table = np.full(MOST_IDS, ABSENT, np.int32)
    table[list(ids)] = list(ids.values())
    return table


class LexicalLoops:
    """What the summary holds in lexical scope at loops.

    `loop_around` is the innermost loop around each context id that is a loop, -1 where there is none; `lexical` the id
    of each metric's lexical scope by that of its function scope. Function-scope rows of loops in other loops are taken
    off those loops. Where only sums are wanted, those of all threads are one row; with `by_thread` memory grows with
    the threads that have such loops.
    """

    def __init__(self, is_loop: Bools, loop_around: Ids, lexical: Mapping[int, int], by_thread: bool) -> None:
        self._is_loop, self._loop_around, self._by_thread = is_loop, loop_around, by_thread
        self._twin = id_table(lexical)
        self._is_lexical = np.isin(np.arange(MOST_IDS), list(lexical.values()))
        self.forget()

    def forget(self) -> None:
        """Begin anew."""
        self._inner: list[SparseBlock] = []
        self._n_waiting = 0

    def add(self, rows: SparseBlock) -> None:
        """Take rows of threads, in the file's ids; each must come once."""
        around = self._loop_around[rows.context]
        inner = self._as_lexical(rows, (around >= 0) & (self._twin[rows.metric] >= 0))
        if len(inner):
            self._inner.append(SparseBlock(inner.profile, self._loop_around[inner.context], inner.metric, -inner.value))
            self._n_waiting += len(inner)
        if self._n_waiting > WAITING_ROWS:
            self._inner, self._n_waiting = [_add_up(SparseBlock.concatenate(self._inner))], 0

    def split(self, rows: SparseBlock) -> tuple[SparseBlock, SparseBlock]:
        """Return the rows of some contexts without those of lexical scope at loops, and what stands in the summary
        instead."""
        at_loop = self._is_loop[rows.context]
        if not at_loop.any():
            return rows, rows.take(slice(0))
        of_loops = self._as_lexical(rows, at_loop & (self._twin[rows.metric] >= 0))
        sums = _add_up(SparseBlock.concatenate([of_loops, self._inside(int(rows.context[0]), int(rows.context[-1]))]))
        return rows.take(~(at_loop & self._is_lexical[rows.metric])), sums.take(sums.value != 0)

    def _as_lexical(self, rows: SparseBlock, chosen: Bools) -> SparseBlock:
        """Return rows of function scope under the ids of lexical scope."""
        part = rows.take(chosen)
        profile = part.profile if self._by_thread else np.zeros_like(part.profile)
        return SparseBlock(profile, part.context, self._twin[part.metric], part.value)

    def _inside(self, first: int, last: int) -> SparseBlock:
        """Return what is taken off loops with these ids."""
        if len(self._inner) > 1 or self._n_waiting:
            self._inner, self._n_waiting = [_add_up(SparseBlock.concatenate(self._inner))], 0
        if not self._inner:
            return SparseBlock.empty()
        inner = self._inner[0]
        return inner.take(slice(*np.searchsorted(inner.context, (first, last + 1)).tolist()))


def _add_up(rows: SparseBlock) -> SparseBlock:
    """Return the rows sorted by context, metric and profile; equal rows are added up, and what is only rounding becomes
    zero."""
    rows = rows.take(np.lexsort((rows.profile, rows.metric, rows.context)))
    changes = np.ones(len(rows), np.bool_)
    changes[1:] = np.any([np.diff(column) != 0 for column in (rows.context, rows.metric, rows.profile)], axis=0)
    first = np.flatnonzero(changes)
    if len(first) == len(rows):
        return rows
    with np.errstate(invalid="ignore", over="ignore"):  # values need not be finite
        value = np.add.reduceat(rows.value, first)
        largest = np.maximum.reduceat(np.abs(rows.value), first)
    value[np.abs(value) <= ROUNDING * largest] = 0
    return SparseBlock(rows.profile[first], rows.context[first], rows.metric[first], value)
