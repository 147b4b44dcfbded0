"""The values of a tree without some of its subtrees: what they cost, their callers cost from then on.

    exclusive, point   values of a removed subtree are combined into the caller
    inclusive          stays: the caller's already has it; what is removed goes
    function           a caller's, and of what it is nested in, grows by the inclusive cost of the subtree, less what
                       it had of it before, where the subtree was nested in the source text

Of quantities in `dropped` the removed part is not folded, but gone: inclusive ones are computed anew.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from callgrove.algebra.cells import NEAR, Cells, combined, lanes, made_one
from callgrove.algebra.operands import matrix
from callgrove.algebra.selecting import Kept
from callgrove.algebra.tiles import TILE_VALUES, TiledValues, sparse
from callgrove.model.arrays import Array, Bools, Ids, Ints
from callgrove.model.books import Totals, counted_contexts
from callgrove.model.contexts import ContextTree
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Aggregation, Metric, Scope
from callgrove.model.orders import combine_upwards, depths, levels
from callgrove.model.renumbering import absent_stays
from callgrove.model.scopes import Recipe, recipe
from callgrove.model.values import SparseBlock, measured_blocks

__all__ = ["Folded", "FoldedValues"]


@dataclass(frozen=True)
class Folded:
    """A tree without the subtrees below `removed` contexts (each with none of them above). `into` is the context that
    takes the cost of each context: itself where it stays, -1 where a whole root went."""

    tree: ContextTree
    removed: Ints

    @cached_property
    def gone(self) -> Bools:
        """Removed contexts with all below them."""
        steps = np.zeros(len(self.tree) + 1, np.int64)
        steps[self.removed] += 1
        np.add.at(steps, self.tree.subtree_end[self.removed], -1)
        gone: Bools = np.cumsum(steps)[:-1] > 0
        return gone

    @cached_property
    def into(self) -> Ids:
        out = np.arange(len(self.tree), dtype=np.int32)
        lengths = self.tree.subtree_end[self.removed] - self.removed
        out[self.gone] = np.repeat(self.tree.parent[self.removed], lengths)
        return out

    @cached_property
    def nesting(self) -> list[Ints]:
        """Contexts of the tree by how deep they are nested in the source text."""
        return levels(depths(self.tree.within[: self.tree.n_listed]))

    def move_values(self, function: Array, inclusive: Array) -> Array:
        """Function-scope values after the fold."""
        tree, n = self.tree, self.tree.n_listed
        change = np.zeros_like(function)
        called = self.removed[tree.parent[self.removed] >= 0]
        np.add.at(change, tree.parent[called], inclusive[called])
        edge = np.flatnonzero(self.gone & (tree.within >= 0))
        edge = edge[~self.gone[tree.within[edge]]]
        np.subtract.at(change, tree.within[edge], function[edge])
        change[:n] = combine_upwards(change[:n], tree.within[:n], self.nesting)
        with np.errstate(invalid="ignore", over="ignore"):
            out = function + change
            if out.dtype.kind == "f":
                out[np.isfinite(out) & (np.abs(out) <= NEAR * np.maximum(np.abs(function), np.abs(change)))] = 0
        return out


class FoldedValues(TiledValues):
    """The values of an experiment over its folded tree."""

    def __init__(self, experiment: Experiment, fold: Folded, kept: Kept, dropped: Collection[str] = ()) -> None:
        rows = [m for m, row in zip(experiment.metrics, kept.metrics.tolist(), strict=True) if row >= 0]
        n_profiles = int((kept.profiles >= 0).sum())
        super().__init__([experiment.values.backend], rows, n_profiles, int((kept.contexts >= 0).sum()) * len(rows))
        self._experiment, self._fold, self._kept, self._dropped = experiment, fold, kept, frozenset(dropped)
        self._own_rows = np.flatnonzero(kept.metrics >= 0)
        self._own_profiles = np.flatnonzero(kept.profiles >= 0)
        self._into = absent_stays(kept.contexts)[fold.into]
        self._folds = np.array([self._is_folded(m) for m in experiment.metrics], np.bool_)
        self._computed = np.array([self._is_computed(m) for m in experiment.metrics], np.bool_)
        self._given: Totals | None = None

    def start_books(self) -> None:
        super().start_books()
        tree = self._fold.tree
        self._made = Totals(self._metrics, None, counted_contexts(tree.take(np.flatnonzero(~self._fold.gone))))
        stays = self._fold.into >= 0  # what went with a whole root is said to be lost
        counted = {scope: here & stays for scope, here in counted_contexts(tree).items()}
        self._given = Totals(self._metrics, None, counted)

    def differences(self) -> Iterator[str]:
        """Yield quantities whose cost has changed, but for those that are dropped."""
        yield from super().differences()
        if self._made is None or self._given is None:
            return
        for row in np.flatnonzero(self._made.adds_up).tolist():
            metric = self._metrics[row]
            if metric.name not in self._dropped and not self._given.agrees(row, self._made):
                before, after = self._given.total[row], self._made.total[row]
                yield f"{metric.label}: the input has {before:g}, what is left of it {after:g}"

    def _is_folded(self, metric: Metric) -> bool:
        extreme = metric.aggregation in (Aggregation.MINIMUM, Aggregation.MAXIMUM)
        own = metric.scope in (Scope.EXCLUSIVE, Scope.POINT) or (extreme and metric.scope != Scope.INCLUSIVE)
        return own and metric.name not in self._dropped

    def _is_computed(self, metric: Metric) -> bool:
        if metric.aggregation != Aggregation.SUM or metric.composite is not None:
            return False
        return metric.scope == Scope.FUNCTION or (metric.scope == Scope.INCLUSIVE and metric.name in self._dropped)

    def tile(self, profiles: Ints, rows: Ints) -> Iterator[SparseBlock]:
        own, own_rows = self._own_profiles[profiles], self._own_rows[rows]
        computed = self._computed[own_rows]
        waiting: list[SparseBlock] = []
        if not computed.all():
            for block in measured_blocks(self._sources[0], own, own_rows[~computed]):
                part = block.triples()
                if self._given is not None:
                    self._given.add_rows(self._kept.metrics[part.metric], part.context, part.value)
                folds = self._folds[part.metric]
                place = np.where(folds, self._into[part.context], self._kept.contexts[part.context])
                yield from self._outward(part, place, ~folds)
                waiting += self._outward(part, place, folds)
        for lane in lanes([(0, block) for block in waiting]):
            yield from made_one(Cells.of(lane, 1), combined, self._metrics)
        for row in own_rows[computed].tolist():
            yield from self._compute(row, own)

    def _outward(self, block: SparseBlock, place: Ids, chosen: Bools) -> list[SparseBlock]:
        rows = chosen & (place >= 0)
        if not rows.any():
            return []
        profile, metric = self._kept.profiles[block.profile[rows]], self._kept.metrics[block.metric[rows]]
        return [SparseBlock(profile, place[rows].astype(np.int32), metric, block.value[rows])]

    def _compute(self, row: int, own: Ints) -> Iterator[SparseBlock]:
        """A row that is not merely folded, some profiles at a time."""
        step = max(1, TILE_VALUES // max(1, len(self._fold.tree)))
        chosen = np.flatnonzero(self._kept.contexts >= 0)
        for start in range(0, len(own), step):
            some = own[start : start + step]
            values = self._values(self._experiment.metrics[row], row, some)[chosen]
            yield sparse(values, self._kept.profiles[some], int(self._kept.metrics[row]))

    def _values(self, metric: Metric, row: int, own: Ints) -> Array:
        tree, n = self._fold.tree, self._fold.tree.n_listed
        if metric.name not in self._dropped:
            function = matrix(self._experiment, row, own)
            if self._given is not None:
                self._given.add_matrix(int(self._kept.metrics[row]), np.arange(len(function)), function)
            # Not the stored inclusive row: it may be rounded (the XML of HPCToolkit 2.x), and function must add up.
            inclusive = Recipe(row, metric, Scope.INCLUSIVE).apply(function, tree)
            wide = np.result_type(_signed(function), _signed(inclusive))
            return self._fold.move_values(function.astype(wide), inclusive.astype(wide))
        alone = recipe(self._experiment.metrics, metric.name, Scope.EXCLUSIVE)
        values = alone.apply(matrix(self._experiment, alone.stored, own), tree)
        values = np.where(self._fold.gone[:, None], np.zeros(1, values.dtype), values)
        above = tree.parent if metric.scope == Scope.INCLUSIVE else tree.within
        by_level = tree.levels if metric.scope == Scope.INCLUSIVE else self._fold.nesting
        values[:n] = combine_upwards(values[:n], above[:n], by_level)
        return values


def _signed(values: Array) -> np.dtype[np.generic]:
    """A type in which differences of these fit."""
    if values.dtype.kind == "u" and values.size and int(values.max()) >= 2**63:
        return np.dtype(np.float64)
    return np.dtype(np.int64 if values.dtype.kind in "biu" else np.float64)
