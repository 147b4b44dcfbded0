"""From values in the model's ids to the rows that a database stores.

Beside what an experiment stores, a database wants

    context 0           the inclusive values of all that stands at the top together
    added contexts      unknown entries (released) and call sites (pre-release): the values of what was put below them
    lines               released: with the inclusive values of call sites that were moved below them;
                        pre-release: inclusive is function, as what a line calls hangs beside it
    function, execution sums of exclusive values, where only these are stored
    function            the same, where the source nests its function scopes otherwise than the file (databases of 2.x)

All of this is linear in the values: it may be computed for any part of a profile, and equal rows of several parts are
added up when the parts come together. So the order and the size of what a writer is given do not matter.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Protocol

import numpy as np

from callgrove.arrays import ABSENT, Array, Bools, Floats, Ids, Ints, in_order
from callgrove.formats.hpctoolkit.metric_plan import MetricPlan
from callgrove.formats.hpctoolkit.release.files import SUM
from callgrove.model.books import SPANS, Books, Ledger, Totals, select_counted_contexts
from callgrove.model.contexts import ContextTree
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Aggregation, Metric, Metrics, Scope
from callgrove.model.values import Block, SparseBlock

__all__ = ["NOWHERE", "PlacedTree", "RowMaker", "books_of", "combine_rows", "container_of"]

NOWHERE = -2  # in arrays of rows, where -1 is the file's root
EXACT_INTEGERS = 1 << 53
KEY_BITS = 63


class PlacedTree(Protocol):
    """The tree as a file holds it: a row for each context of the model, for added ones, and last for the file's root.
    Arrays of rows say ABSENT for the root and NOWHERE for none."""

    @property
    def id(self) -> Ints:
        """The file's ids."""

    @property
    def depth(self) -> Ids:
        """Levels below the top."""

    @property
    def above(self) -> Ids:
        """The row whose inclusive cost contains that of a row; none for contexts that the tree does not list."""

    @property
    def around(self) -> Ids:
        """The row whose function-scope cost contains that of a row."""

    @property
    def contained_in(self) -> Ids | None:
        """The row whose function-scope cost contained that of a row in the source; None where that is `around`."""

    @property
    def inclusive_to(self) -> Ids:
        """The row that stored inclusive values are also added to."""

    @property
    def function_to(self) -> Ids:
        """The row that stored function-scope values are also added to."""

    @property
    def emptied(self) -> Bools:
        """Rows that have no place in the file: their values are contained in others."""

    @property
    def flattened(self) -> Bools:
        """Rows whose inclusive values are replaced by those of their function scope."""


def container_of(contexts: ContextTree, listed: Bools, around: Ids) -> Ids | None:
    """Return `PlacedTree.contained_in` of the contexts that a tree was made of."""
    n = len(contexts)
    within = np.where(contexts.within < 0, NOWHERE, contexts.within).astype(np.int32)
    if not (listed[:n] & (within != around[:n])).any():
        return None
    return np.append(within, np.full(len(around) - n, NOWHERE, np.int32))


def combine_rows(rows: SparseBlock) -> SparseBlock:
    """Return rows sorted by profile, context and metric; rows that agree in all three are added up."""
    key = _key(rows, rows)
    if key is None:
        order = np.lexsort((rows.metric, rows.context, rows.profile))
        return _add_up(rows.take(order), _number_rows(rows.take(order)))
    if (key[1:] > key[:-1]).all():
        return rows
    order = in_order(key)
    return _add_up(rows.take(order), key.take(order))


def _merge_rows(rows: SparseBlock, few: SparseBlock) -> SparseBlock:
    """Combine many rows, which usually are in order, and a few more, which are not."""
    key, few = _key(rows, few), combine_rows(few)
    few_key = _key(few, rows)
    if key is None or few_key is None or not (key[1:] > key[:-1]).all():
        return combine_rows(SparseBlock.concatenate([rows, few]))
    at = np.searchsorted(key, few_key)
    same = np.append(key, -1).take(at) == few_key
    value = rows.value.astype(np.float64)  # a copy
    with np.errstate(invalid="ignore", over="ignore"):  # values need not be finite
        value[at[same]] += few.value[same]
    return _insert_rows(replace(rows, value=value), few.take(~same), at[~same])


def _insert_rows(rows: SparseBlock, new: SparseBlock, before: Ints) -> SparseBlock:
    """Return rows with new ones inserted, each before one of the rows."""
    place = before + np.arange(len(new))
    is_old = np.ones(len(rows) + len(new), np.bool_)
    is_old[place] = False
    columns = []
    for old_cells, new_cells in zip((*_ids(rows), rows.value), (*_ids(new), new.value), strict=True):
        cells = np.empty(len(is_old), old_cells.dtype)
        cells[is_old], cells[place] = old_cells, new_cells
        columns.append(cells)
    return SparseBlock(*columns)


def _key(rows: SparseBlock, others: SparseBlock) -> Ints | None:
    """Return one number that sorts as the three do, where it fits; the same for both kinds of rows."""
    largest = [max(int(r.max(initial=0)), int(o.max(initial=0))) for r, o in zip(_ids(rows), _ids(others), strict=True)]
    _, *sizes = (number.bit_length() for number in largest)
    if largest[0].bit_length() + sum(sizes) > KEY_BITS:
        return None
    key = (rows.profile.astype(np.int64) << sizes[0]) | rows.context
    key <<= sizes[1]
    key |= rows.metric
    return key


def _ids(rows: SparseBlock) -> tuple[Ids, Ids, Ids]:
    return rows.profile, rows.context, rows.metric


def _number_rows(rows: SparseBlock) -> Ints:
    """Return the numbers that change where sorted rows do."""
    changes = np.zeros(len(rows), np.bool_)
    for column in _ids(rows):
        changes[1:] |= column[1:] != column[:-1]
    return np.cumsum(changes)


def _add_up(rows: SparseBlock, key: Array) -> SparseBlock:
    first = np.flatnonzero(np.append(True, key[1:] != key[:-1]))
    if len(first) == len(rows):
        return rows
    with np.errstate(invalid="ignore", over="ignore"):  # values need not be finite
        totals = np.add.reduceat(rows.value, first)
    return SparseBlock(rows.profile[first], rows.context[first], rows.metric[first], totals)


class RowMaker:
    """Maps blocks of one experiment. `rounded` says whether an integer was met that a double cannot hold."""

    def __init__(self, metrics: Metrics, profile_numbers: Ids, tree: PlacedTree, plan: MetricPlan) -> None:
        self._metrics, self._tree, self._plan = metrics, tree, plan
        self._profile_numbers = profile_numbers  # of the model's profiles; ABSENT for stored summaries
        self._ids = tree.id.astype(np.int32)
        self._to_root = np.where(tree.above == ABSENT, ABSENT, NOWHERE).astype(np.int32)
        self._inclusive, self._function = (
            np.array([metric.scope == scope for metric in metrics], np.bool_) & (plan.stored >= 0)
            for scope in (Scope.INCLUSIVE, Scope.FUNCTION)
        )
        self._is_special = (tree.inclusive_to != NOWHERE) | (tree.function_to != NOWHERE) | (self._to_root != NOWHERE)
        self._is_special |= tree.emptied | tree.flattened
        self._twin = _twins(metrics, plan)
        self._copied = np.isin(plan.stored, self._twin[self._twin >= 0]) & self._inclusive
        self.rounded = False

    def take(self, block: Block) -> SparseBlock:
        """Return the rows of a block that will be written: numbers of profiles are the file's, the rest is the
        model's."""
        part = block.triples()
        profile = self._profile_numbers.take(part.profile)
        value = self._numbers(part)
        kept = (profile >= 0) & self._plan.written.take(part.metric) & (value != 0)
        rows = SparseBlock(profile, part.context, part.metric, value)
        return rows if kept.all() else rows.take(kept)

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
        return part.value.astype(np.float64, copy=False)

    def finish(self, rows: SparseBlock) -> SparseBlock:
        """Return all rows in the ids of the file, sorted, with what has to be computed from them."""
        plan, tree = self._plan, self._tree
        special = np.flatnonzero(self._is_special.take(rows.context))
        of_special = rows.take(special)
        parts = [part for part in self._carry(of_special) if len(part)]
        for owner, names in ((tree.around, plan.function), (tree.above, plan.execution)):
            if (names >= 0).any() and len(chosen := _choose_rows(rows, names.take(rows.metric) >= 0)):
                parts.append(_rename_rows(_gather(chosen, owner, tree.depth), names))
        kept = plan.stored.take(rows.metric) >= 0
        if tree.contained_in is not None:
            function = self._function.take(rows.metric)
            kept &= ~function
            parts.append(_rename_rows(self._nest_anew(rows.take(function), tree.contained_in), plan.stored))
        kept[special[self._is_replaced(of_special)]] = False
        stored = self._in_file(_rename_rows(_choose_rows(rows, kept), plan.stored))
        out = _merge_rows(stored, self._in_file(SparseBlock.concatenate(parts))) if parts else combine_rows(stored)
        return _choose_rows(out, out.value != 0)

    def _nest_anew(self, rows: SparseBlock, contained_in: Ids) -> SparseBlock:
        """Return the function-scope values as the file nests them: what each context has for itself, added up anew."""
        if not len(rows):
            return rows
        taken = _climb(rows, contained_in)
        changes = SparseBlock.concatenate([rows, SparseBlock(taken.profile, taken.context, taken.metric, -taken.value)])
        changes = combine_rows(changes)
        return _gather(changes.take(changes.value != 0), self._tree.around, self._tree.depth)

    def _in_file(self, rows: SparseBlock) -> SparseBlock:
        return SparseBlock(rows.profile, self._ids.take(rows.context), rows.metric, rows.value)

    def _is_replaced(self, rows: SparseBlock) -> Bools:
        """Return the rows that are not written as they are."""
        tree = self._tree
        copied: Bools = tree.flattened.take(rows.context) & self._copied.take(rows.metric)
        return copied | tree.emptied.take(rows.context)

    def _carry(self, rows: SparseBlock) -> Iterator[SparseBlock]:
        """Yield what is also added to other contexts and to the file's root, and what stands for something else."""
        tree, ids = self._tree, self._plan.stored
        inclusive, function = rows.take(self._inclusive.take(rows.metric)), rows.take(self._function.take(rows.metric))
        carried = _climb(inclusive, tree.inclusive_to)
        yield _rename_rows(carried, ids)
        yield _rename_rows(_climb(function, tree.function_to), ids)
        yield _rename_rows(_climb(inclusive, self._to_root), ids)
        yield _rename_rows(_climb(carried, self._to_root), ids)
        yield _rename_rows(
            function.take(tree.flattened.take(function.context) & (self._twin.take(function.metric) >= 0)), self._twin
        )


def books_of(tables: Experiment, tree: PlacedTree, plan: MetricPlan, n_ids: int) -> Books:
    """Return books that compare the costs of an experiment with those of a file's summary, scope by scope."""
    listed: Bools = tree.above != NOWHERE
    ids = tree.id[: len(listed)]
    point, function, inclusive = (np.zeros(n_ids, np.bool_) for _ in range(3))
    point[ids[listed]] = True
    function[ids[listed & (tree.around == NOWHERE)]] = True
    inclusive[tree.id[-1]] = True  # the file's root has the cost of all that stands at the top
    counted = {Scope.POINT: point, Scope.FUNCTION: function, Scope.INCLUSIVE: inclusive}
    metrics = tables.metrics
    n_metrics = 1 + max((id_ for _, scope in plan.scopes for _, id_ in scope.statistics), default=-1)
    rows = np.full(n_metrics, ABSENT, np.int32)
    stored = [Metric("", Scope.NONE, aggregation=Aggregation.NONE)] * n_metrics
    for _, scope in plan.scopes:
        id_ = dict(scope.statistics)[SUM]  # which every scope has in the summary
        rows[id_], stored[id_] = scope.row, replace(metrics[scope.row], scope=scope.scope)
    given = Ledger(Totals(tuple(metrics), None, select_counted_contexts(tables.contexts)))
    passed = Ledger(Totals(stored, rows, counted, counts_values=False))
    books = Books(metrics, given, passed, n_taken=np.zeros(len(metrics), np.int64))
    books.excuse_rows(np.flatnonzero(~plan.written).tolist())
    books.excuse(SPANS)
    return books


def _twins(metrics: Metrics, plan: MetricPlan) -> Ids:
    """Return, of rows in function scope, the id of the same quantity's inclusive scope."""
    out = np.full(len(metrics), ABSENT, np.int32)
    for stored in plan.metrics:
        rows = {scope.scope: scope.row for scope in stored.scopes if plan.stored[scope.row] == scope.id}
        if Scope.FUNCTION in rows and Scope.INCLUSIVE in rows:
            out[rows[Scope.FUNCTION]] = plan.stored[rows[Scope.INCLUSIVE]]
    return out


def _choose_rows(rows: SparseBlock, kept: Bools) -> SparseBlock:
    return rows if kept.all() else rows.take(kept)


def _rename_rows(rows: SparseBlock, ids: Ids) -> SparseBlock:
    return SparseBlock(rows.profile, rows.context, ids.take(rows.metric), rows.value)


def _climb(rows: SparseBlock, to: Ids) -> SparseBlock:
    """Return the rows that have to be added to another context, there."""
    target = to.take(rows.context)
    climbing = np.flatnonzero(target != NOWHERE)
    up = rows.take(climbing)
    return SparseBlock(up.profile, target.take(climbing), up.metric, up.value)


def _gather(rows: SparseBlock, owner: Ids, depth: Ids) -> SparseBlock:
    """Return every row, and at each owner the sum of what it owns, directly or not. From the deepest level to the root;
    contexts that nothing was measured below are never touched."""
    level = depth.take(rows.context)
    order = np.argsort(level, kind="stable")
    bounds = np.searchsorted(level[order], np.arange(int(level.max()) + 2)).tolist()
    out: list[SparseBlock] = []
    rising = SparseBlock.empty()
    for here in range(int(level.max()), -1, -1):
        rows_of_depth = rows.take(order[bounds[here] : bounds[here + 1]])
        combined = combine_rows(SparseBlock.concatenate([rows_of_depth, rising]))
        out.append(combined)
        rising = _climb(combined, owner)
    while len(rising):  # an owner may stand beside what it owns: the way to the root has more steps than levels
        out.append(rising)
        rising = _climb(rising.take(rising.context >= 0), owner)
    return SparseBlock.concatenate(out)
