"""Flame graphs of functions rather than of call paths: functions with their callers, and one function with what it
calls, wherever it was called from.

A row is a chain: a function, one that called it (or that it called), and so on. Contexts of one chain are followed
together, a level at a time, and what is too narrow to be seen is not followed:

    contexts   at 7  at 9  at 12  at 30        the ends of chains, and what each of them costs
    rows       -- a <- b --  -- c <- b --      contexts of the same function below the same row are one row

So the work is that of the contexts, however many chains they make.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from callgrove.analysis.costs import Costs, outermost
from callgrove.analysis.views import describe_contexts, plan_callers
from callgrove.arrays import Bools, Floats, Ints
from callgrove.errors import UsageError
from callgrove.model.table import Table
from callgrove.viewer.profile_tree import Labels, describe_metric

__all__ = ["Chains"]

VALUE, WEIGHT, EXCLUSIVE = range(3)  # columns of costs: weight is what rows are as wide as
MOST_ROWS = 60_000  # a screen shows fewer
DEEPEST = 2_000


@dataclass(frozen=True)
class _Ends:
    """Contexts at which chains stand, the row that each belongs to (-1 for none yet), and what each costs."""

    at: Ints
    row: Ints
    costs: Floats


@dataclass(frozen=True)
class _Level:
    """Rows of one level: below which row each lies, its function and costs, and which of them are kept."""

    above: Ints
    group: Ints
    costs: Floats
    kept: Bools


class Chains:
    """What chains of one metric start from; made once, and asked for any part of them."""

    def __init__(self, costs: Costs) -> None:
        self._costs = costs
        self._plan = plan_callers(costs)
        self._of = self._plan.groups.of.astype(np.int64)
        self._n_groups = len(self._plan.groups)

    def describe_callers(self, key: Sequence[int], share: float) -> dict[str, Any]:
        """Return all functions, as wide as their exclusive cost, with their callers below them. A chain is there where
        it is at least as wide as a share of everything, or, below the row of the key, of that row."""
        exclusive = self._plan.exclusive.astype(np.float64)
        there = exclusive != 0
        costs = np.stack([exclusive, np.abs(exclusive), exclusive], axis=1)[there]
        return self._describe(self._plan.anchors[there], costs, False, key, share)

    def describe_function(self, function: int, calls: bool, key: Sequence[int], share: float) -> dict[str, Any]:
        """Return one function, as wide as its inclusive cost, with its callers or with what it calls below it. Of calls
        inside one another the outermost counts."""
        if not 0 <= function < self._n_groups:
            raise UsageError("there is no such function")
        anchors = self._plan.anchors
        mine = anchors[self._of[anchors] == function]
        at = mine[self._outermost[mine]]
        return self._describe(at, self._costs_of(at), calls, key, share)

    # -- where chains go on --------------------------------------------------------------------------------------------

    @cached_property
    def _outermost(self) -> Bools:
        return outermost(self._plan.groups.of, self._costs.tree)

    @cached_property
    def _exclusive(self) -> Floats:
        """The exclusive cost of every context of a function."""
        out = np.zeros(len(self._of))
        out[self._plan.anchors] = self._plan.exclusive
        return out

    @cached_property
    def _callees(self) -> tuple[Ints, Ints]:
        """Contexts of functions by their callers, and where those of each begin."""
        anchors = self._plan.anchors
        above = self._plan.caller[anchors].astype(np.int64)
        bounds = np.concatenate([[0], np.cumsum(np.bincount(above + 1, minlength=len(self._of) + 1))])
        return anchors[np.argsort(above, kind="stable")], bounds

    def _costs_of(self, at: Ints) -> Floats:
        """Return what contexts cost with all that they call."""
        inclusive: Floats = self._costs.inclusive[at].astype(np.float64)
        weights = np.maximum(self._costs.weights[at], 0.0)
        return np.stack([inclusive, weights, self._exclusive[at]], axis=1)

    def _go_up(self, ends: _Ends) -> _Ends:
        above = self._plan.caller[ends.at].astype(np.int64)
        there = above >= 0
        return _Ends(above[there], ends.row[there], ends.costs[there])

    def _go_down(self, ends: _Ends) -> _Ends:
        callees, bounds = self._callees
        starts, sizes = bounds[ends.at + 1], bounds[ends.at + 2] - bounds[ends.at + 1]
        places = np.arange(int(sizes.sum())) + np.repeat(starts - (np.cumsum(sizes) - sizes), sizes)
        at = callees[places]
        return _Ends(at, np.repeat(ends.row, sizes), self._costs_of(at))

    # -- level by level ------------------------------------------------------------------------------------------------

    @np.errstate(invalid="ignore", over="ignore")  # values need not be finite
    def _describe(self, at: Ints, costs: Floats, calls: bool, key: Sequence[int], share: float) -> dict[str, Any]:
        ends = _Ends(at, np.full(len(at), -1, np.int64), costs)
        levels: list[_Level] = []
        n, path = 0, -1  # rows so far, and the last of them that the key names
        least = np.array([share * float(costs[:, WEIGHT].sum())])  # of what is wide enough below each row; the last one
        for depth in range(DEEPEST + 1):  # stands above all
            above, group, sums, of = self._gather(ends)
            wanted = np.flatnonzero((above == path) & (group == key[depth])) if depth < len(key) else above[:0]
            room = MOST_ROWS - n if depth < DEEPEST else 0
            kept = _choose(sums[:, WEIGHT], least[above], wanted, room)
            limits = least[above[kept]]
            if len(wanted):
                path = n + int(kept[: wanted[0]].sum())
                if depth == len(key) - 1:
                    limits[path - n] = share * sums[wanted[0], WEIGHT]
            elif depth < len(key):
                raise UsageError("there is no such chain of functions")
            levels.append(_Level(above, group, sums, kept))
            numbers = n + np.cumsum(kept) - 1
            least = np.concatenate([least[:-1], limits, least[-1:]])
            n += int(kept.sum())
            stays = kept[of]
            kept_ends = _Ends(ends.at[stays], numbers[of][stays], ends.costs[stays])
            ends = self._go_down(kept_ends) if calls else self._go_up(kept_ends)
            if not len(ends.at):
                break
        return self._join(levels)

    def _gather(self, ends: _Ends) -> tuple[Ints, Ints, Floats, Ints]:
        """Return the rows that ends make: what they lie below, their functions, their costs; and the row of each
        end."""
        codes, inverse = np.unique((ends.row + 1) * self._n_groups + self._of[ends.at], return_inverse=True)
        of: Ints = inverse.reshape(-1).astype(np.int64)
        sums: Floats = np.stack([np.bincount(of, column, len(codes)) for column in ends.costs.T], axis=1)
        return codes // self._n_groups - 1, codes % self._n_groups, sums, of

    def _join(self, levels: Sequence[_Level]) -> dict[str, Any]:
        """Return rows of all levels as a page takes them: kept ones, then those that stand for others."""
        above, group, costs, kept = (
            np.concatenate([getattr(level, name) for level in levels]) for name in ("above", "group", "costs", "kept")
        )
        holders, row = np.unique(above[~kept], return_inverse=True)
        folded = np.zeros((len(holders), costs.shape[1]))
        np.add.at(folded, row.reshape(-1), costs[~kept])
        shown = np.concatenate([costs[kept], folded])
        labels = Labels(self._costs.tree)
        first = self._plan.groups.first[group[kept]].tolist()
        metric = {
            **describe_metric(self._costs),
            "exclusive": shown[:, EXCLUSIVE].copy(),
            "inclusive": shown[:, VALUE].copy(),
            "weight": shown[:, WEIGHT].copy(),
        }
        tree = {
            "context": group[kept],
            "parent": np.concatenate([above[kept], holders]),
            "label": labels.of_rows(Table(describe_contexts(self._costs.tree, first, parameters=False))),
            "more": np.bincount(row.reshape(-1), minlength=len(holders)),
            "metrics": [metric],
        }
        return {
            "labels": labels.data,
            "metrics": [describe_metric(self._costs)],
            "tree": tree,
            "n_folded": int((~kept).sum()),
            "function": group[kept],
        }


def _choose(weight: Floats, least: Floats, wanted: Ints, room: int) -> Bools:
    """Return which rows are kept: those that are wide enough, the widest of them where there is too little room, and
    the one that is wanted."""
    kept: Bools = weight >= least
    if int(kept.sum()) > room:
        kept[:] = False
        kept[np.argsort(-weight, kind="stable")[: max(room, 0)]] = True
    kept[wanted] = True
    return kept
