"""From values in the model's ids to the rows that a released database stores.

Beside what an experiment stores, a released database wants

    context 0           the inclusive values of all entry points together
    unknown entry       the inclusive values of what was put below it, where such an entry was added
    lines               the inclusive values of call sites that were moved below them
    function, execution sums of exclusive values, where only these are stored

All of this is linear in the values: it may be computed for any part of a profile, and equal rows of several parts are
added up when the parts come together. So the order and the size of what a writer is given do not matter.
"""

from __future__ import annotations

import numpy as np

from callgrove.formats.hpctoolkit.release_plan import NOWHERE, FileTree, MetricPlan
from callgrove.model.arrays import ABSENT, Floats, Ids
from callgrove.model.metrics import Metrics, Scope
from callgrove.model.values import Block, SparseBlock

__all__ = ["RowMaker", "combined"]

EXACT_INTEGERS = 1 << 53


def combined(rows: SparseBlock) -> SparseBlock:
    """Sorted by profile, context and metric; rows that agree in all three are added up."""
    ordered = rows.take(np.lexsort((rows.metric, rows.context, rows.profile)))
    changes = np.zeros(len(ordered), np.bool_)
    changes[:1] = True
    for column in (ordered.profile, ordered.context, ordered.metric):
        changes[1:] |= column[1:] != column[:-1]
    first = np.flatnonzero(changes)
    if len(first) == len(ordered):
        return ordered
    with np.errstate(invalid="ignore", over="ignore"):  # values need not be finite
        totals = np.add.reduceat(ordered.value, first)
    return SparseBlock(ordered.profile[first], ordered.context[first], ordered.metric[first], totals)


class RowMaker:
    """Maps blocks of one experiment. `rounded` says whether an integer was met that a double cannot hold."""

    def __init__(self, metrics: Metrics, profile_numbers: Ids, tree: FileTree, plan: MetricPlan) -> None:
        self._metrics, self._tree, self._plan = metrics, tree, plan
        self._profile_numbers = profile_numbers  # of the model's profiles; ABSENT for stored summaries
        self._is_inclusive = np.array([metric.scope == Scope.INCLUSIVE for metric in metrics], np.bool_)
        self._to_root = np.where(tree.above == ABSENT, ABSENT, NOWHERE).astype(np.int32)
        self.rounded = False

    def take(self, block: Block) -> SparseBlock:
        """The rows of a block that will be written: numbers of profiles are the file's, the rest is the model's."""
        part = block.triples()
        profile = self._profile_numbers[part.profile]
        value = self._numbers(part)
        kept = (profile >= 0) & self._plan.written[part.metric] & (value != 0)
        return SparseBlock(profile, part.context, part.metric, value).take(kept)

    def _numbers(self, part: SparseBlock) -> Floats:
        if part.value.dtype.names is not None:
            out = np.zeros(len(part))
            for row in np.unique(part.metric).tolist():
                composite, here = self._metrics[row].composite, part.metric == row
                if composite is not None:
                    out[here] = composite.scalar(part.value[here])
            return out
        if part.value.dtype.kind in "iu" and len(part):
            largest = max(int(part.value.max()), -int(part.value.min()))
            self.rounded |= largest > EXACT_INTEGERS
        return part.value.astype(np.float64)

    def finish(self, rows: SparseBlock) -> SparseBlock:
        """All rows in the ids of the file, sorted, with what has to be computed from them."""
        plan, tree = self._plan, self._tree
        stored = rows.take(plan.stored[rows.metric] >= 0)
        inclusive = stored.take(self._is_inclusive[stored.metric])
        carried = _climbed(inclusive, tree.carried_to)
        at_root = _climbed(SparseBlock.joined([inclusive, carried]), self._to_root)
        parts = [_renamed(part, plan.stored) for part in (stored, carried, at_root)]
        for owner, names in ((tree.around, plan.function), (tree.above, plan.execution)):
            own = rows.take(names[rows.metric] >= 0)
            if len(own):
                parts.append(_renamed(_gathered(own, owner, tree.depth), names))
        out = SparseBlock.joined(parts)
        ids = tree.id[out.context].astype(np.int32)
        out = combined(SparseBlock(out.profile, ids, out.metric, out.value))
        return out.take(out.value != 0)


def _renamed(rows: SparseBlock, ids: Ids) -> SparseBlock:
    return SparseBlock(rows.profile, rows.context, ids[rows.metric], rows.value)


def _climbed(rows: SparseBlock, to: Ids) -> SparseBlock:
    """The rows that have to be added to another context, there."""
    up = rows.take(to[rows.context] != NOWHERE)
    return SparseBlock(up.profile, to[up.context], up.metric, up.value)


def _gathered(rows: SparseBlock, owner: Ids, depth: Ids) -> SparseBlock:
    """Every row, and at each owner the sum of what it owns, directly or not. From the deepest level to the root;
    contexts that nothing was measured below are never touched."""
    level = depth[rows.context]
    order = np.argsort(level, kind="stable")
    bounds = np.searchsorted(level[order], np.arange(int(level.max()) + 2)).tolist()
    out: list[SparseBlock] = []
    rising = SparseBlock.empty()
    for here in range(int(level.max()), -1, -1):
        own = rows.take(order[bounds[here] : bounds[here + 1]])
        found = combined(SparseBlock.joined([own, rising]))
        out.append(found)
        rising = _climbed(found, owner)
    return SparseBlock.joined([*out, rising])
