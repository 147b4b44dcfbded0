"""Call stacks of samples as nested runs: from when to when a function was at its place of the stack.

A function lasts as long as samples show it at the same place of the stack:

    samples     main>a    main>a>b   main>c    (idle)
    slices     |main --------------------------|
               |a -----------------|c ---------|
                         |b -------|

A sample holds until the next one; idle time is not a slice; the last sample of a line lasts no time, unless a window
has cut off what comes next. Lines, call sites and instructions belong to the function or loop that they are in, as in
call trees; where no function is known, as in measurements, what was called is shown by its address.

A line of samples is gone through in pieces, twice: from behind, to learn how long what is open at the end of each
piece goes on; then from the front, where every slice that begins in a piece is given, complete and in order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from callgrove.arrays import ABSENT, Ids, Ints
from callgrove.model.contexts import ContextTree

__all__ = ["PIECE", "SampledStacks", "StackRuns"]

PIECE = 1 << 15  # samples


@dataclass(frozen=True)
class StackRuns:
    """Runs that begin in a piece of a line, by their begin and from the outside in: the samples that they begin with,
    those that they end before, and their contexts. `n_samples` is how long the piece is."""

    n_samples: int
    begin: Ints
    end: Ints
    context: Ids

    def __len__(self) -> int:
        return len(self.begin)


class SampledStacks:
    """Makes runs of lines of samples, over one tree of contexts. `shown` is the context that stands for each one, -1
    where it is idle; `above` the one that is shown above; `depth` how many are shown down to it."""

    def __init__(self, tree: ContextTree) -> None:
        is_shown = ~tree.folded
        # the nearest context that is shown, for each one and for its parent; parents come first
        self.shown = np.full(len(tree) + 1, ABSENT, np.int32)  # the last entry is for idle
        self.above = np.full(len(tree) + 1, ABSENT, np.int32)
        self.depth = np.zeros(len(tree) + 1, np.int32)
        for level in tree.levels:
            above = self.shown[tree.parent[level]]
            self.shown[level] = np.where(is_shown[level], level, above)
            self.above[level] = above
            self.depth[level] = np.where(above >= 0, self.depth[above], 0) + is_shown[level]
        rest = np.arange(tree.n_listed, len(tree))  # elided contexts have no place in the tree
        self.shown[rest], self.depth[rest] = rest, 1
        self.shown[:-1][tree.idle] = ABSENT

    def runs(self, context: Ids, piece: int = PIECE) -> Iterator[StackRuns]:
        """Yield the runs of one line of samples, piece by piece."""
        firsts = list(range(0, len(context), piece))
        after = self._find_reached(context, firsts, piece)
        before = np.empty(0, np.int32)
        for number, first in enumerate(firsts):
            paths = self._paths(context[first : first + piece])
            yield StackRuns(len(paths), *self._runs(paths, first, before, after[number]))
            before = paths[-1]

    def _paths(self, context: Ids) -> Ids:
        """Return a row for each sample: the contexts that are shown, from the outside in, then -1."""
        different, number = np.unique(context, return_inverse=True)
        here = self.shown[different]
        width = int(self.depth[here].max(initial=0))
        out = np.full((len(different), max(width, 1)), ABSENT, np.int32)
        while (rows := np.flatnonzero(here >= 0)).size:
            out[rows, self.depth[here[rows]] - 1] = here[rows]
            here = np.where(here >= 0, self.above[here], ABSENT)
        return out[number.reshape(-1)]

    def _find_reached(self, context: Ids, firsts: list[int], piece: int) -> list[dict[int, int]]:
        """Return for the beginning of every piece but the first, and the end: context -> the sample at which it is no
        longer on the stack, of those that are on it in the piece's first sample."""
        out: list[dict[int, int]] = [{}]
        for first in reversed(firsts[1:]):
            paths = self._paths(context[first : first + piece])
            n, ends = len(paths), {}
            for level in range(paths.shape[1]):
                first_context = int(paths[0, level])
                if first_context < 0:
                    break
                changes = np.flatnonzero(paths[:, level] != first_context)
                ends[first_context] = first + int(changes[0]) if len(changes) else out[-1].get(first_context, first + n)
            out.append(ends)
        return out[::-1]

    @staticmethod
    def _runs(paths: Ids, first: int, before: Ids, after: dict[int, int]) -> tuple[Ints, Ints, Ids]:
        """Begin, end (numbers of samples) and context of what begins in a piece; `before` is the path just before."""
        begins, ends, contexts, levels = [], [], [], []
        n = len(paths)
        for level in range(paths.shape[1]):
            column = paths[:, level]
            was = int(before[level]) if level < len(before) else ABSENT
            starts = np.flatnonzero(column != np.append(np.int32(was), column[:-1]))
            stops = np.append(starts[1:], n) if len(starts) else starts
            stop = first + stops
            if len(starts) and int(stops[-1]) == n:
                stop[-1] = after.get(int(column[-1]), first + n)
            kept = column[starts] >= 0
            begins.append(first + starts[kept])
            ends.append(stop[kept])
            contexts.append(column[starts[kept]])
            levels.append(np.full(int(kept.sum()), level))
        begin, end, context = np.concatenate(begins), np.concatenate(ends), np.concatenate(contexts)
        order = np.lexsort((np.concatenate(levels), begin))
        return begin[order], end[order], context[order]
