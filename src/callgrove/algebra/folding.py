"""A tree without some of its contexts, and where their cost goes.

    main 1 -- solve 2 -- kernel 4        solve goes, main takes its cost     main 3 -- kernel 5
          `-- kernel 1                   and siblings that look the same become one

`Fold` says for each context whether it stays, and which one that stays takes its cost, if any. Whatever selects, cuts
or finds what is common is such a map; the tree and the values that follow from it are made here.

    exclusive, point   what goes to a context is combined there; minima and maxima as such
    inclusive          stays where everything below still counts; else it is computed anew
    function           computed anew, over what contexts are nested in from then on
    lexical            gone: what it becomes depends on loops that are not there any more

Of quantities in `dropped` what is removed is not taken by anybody, but gone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from callgrove.algebra.cells import Cells, combine_cells, lanes, made_one
from callgrove.algebra.operands import TILE_VALUES, TiledValues, matrix, sparse
from callgrove.arrays import (
    ABSENT,
    Array,
    Bools,
    Ids,
    Ints,
    absent_stays,
    combine_upwards,
    depths,
    distinct_rows,
    freeze,
    levels,
    nearest_above,
    preorder,
    subtree_ends,
)
from callgrove.model.books import Totals, select_counted_contexts
from callgrove.model.computed_values import Recipe, recipe
from callgrove.model.contexts import ContextTree, Relation
from callgrove.model.experiment import Experiment
from callgrove.model.materialised import is_storable, materialise
from callgrove.model.metrics import Aggregation, Metric, Scope
from callgrove.model.selection import Kept, take_part
from callgrove.model.values import SparseBlock, blocks_without_fillers
from callgrove.patterns.columns import Bodies

__all__ = ["Fold", "FoldedValues", "apply_fold", "climb"]

EXTREMES = (Aggregation.MINIMUM, Aggregation.MAXIMUM)


def climb(tree: ContextTree, stays: Bools) -> Ids:
    """Return the nearest context that stays, at or above each one; -1 where there is none. What is elided has nothing
    above it."""
    up = np.full(len(tree) + 1, ABSENT, np.int32)
    up[: len(tree)][stays] = np.flatnonzero(stays)
    for level in tree.levels[1:]:
        up[level] = np.where(stays[level], up[level], up[tree.parent[level]])
    return up[:-1]


# -- the tree that is left ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Fold:
    """Which contexts stay, and for each one the context that takes its cost: itself, one above it, or -1. Siblings that
    look the same where contexts have moved become one, unless they are kept apart."""

    tree: ContextTree
    stays: Bools
    into: Ids
    keeps_apart: bool = False

    @classmethod
    def without(cls, tree: ContextTree, removed: Ints) -> Fold:
        """Return the tree without some contexts and all below them; what calls them takes the cost."""
        steps = np.zeros(len(tree) + 1, np.int64)
        steps[removed] += 1
        np.add.at(steps, tree.subtree_end[removed], -1)
        stays: Bools = np.cumsum(steps)[:-1] == 0
        return cls(tree, stays, climb(tree, stays))

    @cached_property
    def _parent(self) -> Ids:
        """The nearest context above that stays, of each one."""
        return absent_stays(climb(self.tree, self.stays))[self.tree.parent]

    @cached_property
    def _same_as(self) -> Ids:
        """The first of the siblings that look the same, of each context that stays. Only where a context has moved are
        there any: two calls of one function that the file keeps apart stay apart."""
        n = len(self.tree)
        same, touched = np.arange(n + 1, dtype=np.int32), np.zeros(n + 1, np.bool_)  # the last entries are of no one
        same[n] = ABSENT
        touched[:n] = self.stays & (self._parent != self.tree.parent)
        if self.keeps_apart or not touched.any():
            return same[:n]
        chosen, looks = np.flatnonzero(self.stays & self.tree.listed), self._looks
        for level in levels(depths(self._compact(chosen, self._parent))):
            here, above = chosen[level], same[self._parent[chosen[level]]]
            _, group = distinct_rows(above, looks[here])
            first, near = np.full(len(here), n), np.zeros(len(here), np.bool_)
            np.minimum.at(first, group, here)
            np.logical_or.at(near, group, touched[here] | touched[above])
            merged = near[group]
            same[here[merged]] = first[group[merged]]
            touched[here] = merged & (np.bincount(group, minlength=len(here))[group] > 1)
        return same[:n]

    def _compact(self, chosen: Ints, numbers: Ids) -> Ids:
        """Return numbers of contexts, of those chosen, as places among the chosen."""
        place = np.full(len(self.tree) + 1, ABSENT, np.int32)
        place[chosen] = np.arange(len(chosen))
        return place[numbers[chosen]]

    @property
    def _looks(self) -> Ints:
        """A number for each context that is equal where two are shown alike: what is executed, with its parameters."""
        tree = self.tree
        given = np.zeros(len(tree), np.int64)
        known: dict[object, int] = {}
        for context, parameters in tree.parameters.items():
            given[context] = known.setdefault(parameters, len(known) + 1)
        alone = np.where(tree.region < 0, np.arange(len(tree)), ABSENT)  # what has no region looks like nothing else
        return distinct_rows(tree.region, tree.kind, given, alone)[1]

    @cached_property
    def merges(self) -> bool:
        """Whether siblings become one."""
        return bool((self._same_as[self.stays] != np.flatnonzero(self.stays)).any())

    @cached_property
    def _chosen(self) -> Ints:
        """The contexts of the result, in its order."""
        same = self._same_as
        chosen = np.flatnonzero(self.stays & (same == np.arange(len(same))))
        if not self.merges:
            return chosen
        above = absent_stays(same)[self._parent]
        return chosen[preorder(self._compact(chosen, above))]

    @cached_property
    def place(self) -> Ids:
        """The number in the result of each context that stays; -1 for the others."""
        number = np.full(len(self.tree) + 1, ABSENT, np.int32)
        number[self._chosen] = np.arange(len(self._chosen))
        return np.where(self.stays, number[self._same_as], np.int32(ABSENT))

    @cached_property
    def target(self) -> Ids:
        """The number in the result of what takes the cost of each context; -1 where it is gone."""
        return absent_stays(self.place)[self.into]

    @cached_property
    def result(self) -> ContextTree:
        """The tree that is left."""
        tree, chosen, place = self.tree, self._chosen, absent_stays(self.place)
        if len(chosen) == len(tree):
            return tree
        parent = place[self._parent[chosen]]
        return replace(
            tree.take(chosen),
            parent=freeze(parent),
            subtree_end=freeze(subtree_ends(parent) if self.merges else tree.ends_among(chosen)),
            relation=freeze(self._relation[chosen]),
            within=freeze(place[nearest_above(self.stays, tree.within)[chosen]]),
            call_file=freeze(self._common_place(tree.call_file)),
            call_line=freeze(self._common_place(tree.call_line)),
        )

    @property
    def _relation(self) -> Ids:
        """How contexts came to lie below their parents. What was nested in a function that went away is called from
        then on: it stands for that function."""
        bodies, n = Bodies(self.tree), self.tree.n_listed
        function = np.arange(n)
        for level in bodies.levels[1:]:
            function[level] = function[bodies.owner[level]]
        relation = self.tree.relation.copy()
        torn = bodies.nested & (self._parent[:n] != self.tree.parent[:n])
        torn &= absent_stays(function.astype(np.int32))[self._parent[:n]] != function
        relation[:n][torn] = Relation.CALL
        return relation

    def _common_place(self, numbers: Ids) -> Ids:
        """Return a column of the result; absent where contexts that became one differ."""
        out = numbers[self._chosen]
        members = np.flatnonzero(self.stays)
        differs = numbers[members] != numbers[self._same_as[members]]
        out[self.place[members[differs]]] = ABSENT
        return out

    @cached_property
    def keeps_inclusive(self) -> bool:
        """Whether nothing is gone below contexts that stay, so that inclusive costs are what they were."""
        gone = np.concatenate([[0], np.cumsum((self.into < 0) & self.tree.listed)])
        return not bool((gone[self.tree.subtree_end] - gone[:-1])[self.stays & self.tree.listed].any())

    @cached_property
    def is_selection(self) -> bool:
        """Whether values of contexts that stay are what they were, in every scope."""
        plain = np.where(self.stays, np.arange(len(self.tree)), ABSENT)
        if self.merges or not self.keeps_inclusive or not np.array_equal(self.into, plain):
            return False
        n, within = self.tree.n_listed, self.tree.within[: self.tree.n_listed]
        gone = combine_upwards(~self.stays[:n], within, levels(depths(within)), np.logical_or)
        return not bool((gone & self.stays[:n]).any())


# -- values of that tree -----------------------------------------------------------------------------------------------


def apply_fold(experiment: Experiment, fold: Fold, dropped: Collection[str] = ()) -> tuple[Experiment, list[str]]:
    """Return the experiment over the tree that a fold leaves, and what is lost with it, in words."""
    losses: list[str] = []
    if fold.is_selection:
        kept = replace(Kept.of(experiment), contexts=fold.place, samples=fold.place)
        return take_part(experiment, kept, tree=fold.result), losses
    experiment = materialise(experiment, _list_of_contexts(experiment))
    stays = np.array([_can_stay(metric, fold) for metric in experiment.metrics], np.bool_)
    kept = replace(Kept.of(experiment, metrics=stays), contexts=fold.place, samples=fold.target)
    lost = [metric for metric, here in zip(experiment.metrics, stays.tolist(), strict=True) if not here]
    if any(metric.scope == Scope.LEXICAL for metric in lost):
        losses.append("lost: values of scope lexical: what they become depends on loops that were pruned")
    if others := dict.fromkeys(m.label for m in lost if m.scope != Scope.LEXICAL and not m.statistic):
        losses.append(f"lost: values that cannot be combined: {', '.join(others)}")
    return take_part(experiment, kept, FoldedValues(experiment, fold, kept, dropped), fold.result), losses


def _list_of_contexts(experiment: Experiment) -> set[str]:
    """Return the derived metrics whose values go with the cost: what they were where it arose, they stay elsewhere."""
    metrics = experiment.metrics
    formulas = ((name, metrics.first(name).derivation) for name in metrics.derived)
    asking = (name for name, formula in formulas if formula is not None and formula.depends_on_contexts)
    return {name for name in asking if is_storable(experiment, name)}


def _can_stay(metric: Metric, fold: Fold) -> bool:
    """Return whether the values of a row can be made those of the result."""
    if metric.is_derived:
        return True
    if metric.composite is not None:
        is_computed = metric.scope == Scope.INCLUSIVE and not fold.keeps_inclusive
        return not is_computed and metric.composite.combine is not None
    return metric.scope != Scope.LEXICAL and not (fold.merges and metric.aggregation == Aggregation.NONE)


class FoldedValues(TiledValues):
    """The values of an experiment over the tree that a fold leaves."""

    def __init__(self, experiment: Experiment, fold: Fold, kept: Kept, dropped: Collection[str] = ()) -> None:
        rows = [m for m, row in zip(experiment.metrics, kept.metrics.tolist(), strict=True) if row >= 0]
        n_profiles = int((kept.profiles >= 0).sum())
        super().__init__([experiment.values.backend], rows, n_profiles, len(fold.result) * len(rows))
        self._experiment, self._fold, self._kept, self._dropped = experiment, fold, kept, frozenset(dropped)
        self._input_rows = np.flatnonzero(kept.metrics >= 0)
        self._input_profiles = np.flatnonzero(kept.profiles >= 0)
        self._moves = np.array([self._is_moved(m) for m in experiment.metrics], np.bool_)
        self._computed = np.array([self._is_computed(m) for m in experiment.metrics], np.bool_)
        self._given: Totals | None = None

    def _is_moved(self, metric: Metric) -> bool:
        """Return whether values go where the cost of their contexts goes; others stay with the context."""
        extreme = metric.aggregation in EXTREMES
        is_exclusive = metric.scope in (Scope.EXCLUSIVE, Scope.POINT) or (extreme and metric.scope != Scope.INCLUSIVE)
        return is_exclusive and metric.name not in self._dropped

    def _is_computed(self, metric: Metric) -> bool:
        if metric.composite is not None or metric.is_derived or metric.aggregation == Aggregation.NONE:
            return False
        if metric.scope == Scope.INCLUSIVE:
            return not self._fold.keeps_inclusive or metric.name in self._dropped
        return metric.scope == Scope.FUNCTION and metric.aggregation == Aggregation.SUM

    def start_books(self) -> None:
        super().start_books()
        fold = self._fold
        self._made = Totals(self._metrics, None, select_counted_contexts(fold.result))
        counts: Bools = fold.tree.listed & (fold.into >= 0)  # what is gone was asked to be, or is said to be lost
        stays: Bools = fold.stays & fold.tree.listed
        tops = stays & np.append(fold.result.parent < 0, np.False_)[fold.place]
        counted = dict.fromkeys(select_counted_contexts(fold.tree), counts)
        self._given = Totals(self._metrics, None, {**counted, Scope.NONE: stays, Scope.INCLUSIVE: tops})

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

    def tile(self, profiles: Ints, rows: Ints) -> Iterator[SparseBlock]:
        input_profiles, input_rows = self._input_profiles[profiles], self._input_rows[rows]
        computed = self._computed[input_rows]
        waiting: list[SparseBlock] = []
        if not computed.all():
            for block in blocks_without_fillers(self._sources[0], input_profiles, input_rows[~computed]):
                part = block.triples()
                if self._given is not None:
                    self._given.add_rows(self._kept.metrics[part.metric], part.context, part.value)
                moves = self._moves[part.metric]
                place = np.where(moves, self._fold.target[part.context], self._fold.place[part.context])
                meets = moves | self._fold.merges
                yield from self._outward(part, place, ~meets)
                waiting += self._outward(part, place, meets)
        for lane in lanes([(0, block) for block in waiting]):
            yield from made_one(Cells.of(lane, 1), combine_cells, self._metrics)
        for row in input_rows[computed].tolist():
            yield from self._compute(row, input_profiles)

    def _outward(self, block: SparseBlock, place: Ids, chosen: Bools) -> list[SparseBlock]:
        rows = chosen & (place >= 0)
        if not rows.any():
            return []
        profile, metric = self._kept.profiles[block.profile[rows]], self._kept.metrics[block.metric[rows]]
        return [SparseBlock(profile, place[rows].astype(np.int32), metric, block.value[rows])]

    def _compute(self, row: int, input_profiles: Ints) -> Iterator[SparseBlock]:
        """Yield a row that is computed anew from exclusive values, some profiles at a time."""
        metric, number = self._experiment.metrics[row], int(self._kept.metrics[row])
        way = recipe(self._experiment.metrics, metric.name, Scope.EXCLUSIVE)
        step = max(1, TILE_VALUES // max(1, len(self._fold.tree)))
        for start in range(0, len(input_profiles), step):
            some = input_profiles[start : start + step]
            stored = matrix(self._experiment, way.stored, some)
            if self._given is not None and metric.aggregation == Aggregation.SUM:
                self._enter(number, way, stored)
            values = self._spread(metric, way.apply(stored, self._fold.tree))
            yield sparse(values, self._kept.profiles[some], number, metric.aggregation.neutral)

    def _enter(self, number: int, way: Recipe, stored: Array) -> None:
        """Add to the books what values of the input add up to, of contexts whose cost somebody takes."""
        assert self._given is not None
        weights = way.weights(self._fold.into >= 0, self._fold.tree)
        numbers = stored.astype(np.float64)
        with np.errstate(invalid="ignore", over="ignore"):
            total, magnitude = float((weights @ numbers).sum()), float(np.abs(numbers).sum())
        self._given.enter(number, total, int(np.count_nonzero(stored)), magnitude)

    def _spread(self, metric: Metric, exclusive: Array) -> Array:
        """Return values of a wider scope over the result, from exclusive ones of the input."""
        fold, rule, n = self._fold, metric.aggregation, self._fold.result.n_listed
        where = fold.place if metric.name in self._dropped else fold.target
        listed = np.flatnonzero((where >= 0) & fold.tree.listed)
        out = np.full((len(fold.result), exclusive.shape[1]), rule.neutral, exclusive.dtype)
        rule.combine_at(out, where[listed], exclusive[listed])
        owner = fold.result.parent if metric.scope == Scope.INCLUSIVE else fold.result.within
        by_level = fold.result.levels if metric.scope == Scope.INCLUSIVE else self._nesting
        out[:n] = combine_upwards(out[:n], owner[:n], by_level, rule.ufunc)
        return out

    @cached_property
    def _nesting(self) -> list[Ints]:
        return levels(depths(self._fold.result.within[: self._fold.result.n_listed]))
