"""Scopes that a file does not store, computed from those that it does, and quantities in a scope as matrices.

    exclusive   stored, else function(c) - sum of function over the contexts lexically within c,
                else v(c) - sum of v(children) of an inclusive metric, else point (which lacks elided contexts)
    inclusive   stored, else exclusive combined over the subtree
    lexical     function(c), at loops less function of the loops nested in c: threads of HPCToolkit store plain function
                there, while its summaries subtract

A function-scope metric is never summed over a subtree: it contains what is nested in it already. Computed scopes
concern the tree only; elided contexts have none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from callgrove.arrays import Array, Bools, Floats, Ints, combine_upwards, subtract_children, summable
from callgrove.errors import UsageError
from callgrove.model.contexts import ContextTree
from callgrove.model.metrics import Aggregation, Metric, Metrics, Scope
from callgrove.model.values import Block, DenseBlock, Values

if TYPE_CHECKING:
    from callgrove.model.books import Totals

__all__ = ["Recipe", "matrices", "recipe"]


SOURCES = {
    Scope.EXCLUSIVE: (Scope.EXCLUSIVE, Scope.FUNCTION, Scope.INCLUSIVE, Scope.POINT),
    Scope.INCLUSIVE: (Scope.INCLUSIVE, Scope.EXCLUSIVE, Scope.FUNCTION, Scope.POINT),
}


@dataclass(frozen=True)
class Recipe:
    """How to get a quantity in a scope: which stored row to take, and what to make of it."""

    stored: int
    metric: Metric
    wanted: Scope

    @property
    def is_stored(self) -> bool:
        """True where the row is the answer as it stands."""
        return self.metric.scope == self.wanted

    @property
    def row(self) -> Metric:
        """The metric row of the result; a computed one has no id in the file."""
        return self.metric if self.is_stored else replace(self.metric, scope=self.wanted, source_id=None)

    @property
    def is_possible(self) -> bool:
        """Composite values combine upwards by their own rule; differences of them mean nothing."""
        composite = self.metric.composite
        upwards = self.wanted == Scope.INCLUSIVE and self.metric.scope in (Scope.EXCLUSIVE, Scope.POINT)
        return composite is None or self.is_stored or (upwards and composite.combine is not None)

    def apply(self, values: Array, tree: ContextTree, in_place: bool = False) -> Array:
        """Return the wanted scope from stored values: of all contexts, or of contexts x profiles. Elided contexts
        become neutral in what is computed. `in_place`: the values may be overwritten."""
        if self.is_stored:
            return values
        if not self.is_possible:
            raise UsageError(f"{self.metric.name}: composite values are stored {self.metric.scope.word} only")
        if self.metric.composite is not None:
            return self._composite_inclusive(values, tree)
        if self.wanted == Scope.LEXICAL:
            return subtract_children(_as_signed(values), tree.loop_around)
        neutral = self.metric.aggregation.neutral
        # Not np.where(..., neutral): a neutral 0.0 makes doubles of counters, which exceed 2^53.
        numbers = values.astype(np.float64, copy=False) if np.isinf(neutral) else summable(values)
        if numbers is values and not in_place:
            numbers = numbers.copy()
        if tree.n_listed < len(tree):
            numbers[tree.n_listed :] = neutral
        numbers = self._exclusive(numbers, tree)
        if self.wanted == Scope.EXCLUSIVE:
            return numbers
        return combine_upwards(numbers, tree.parent, tree.levels, self.metric.aggregation.ufunc, out=numbers)

    def weights(self, chosen: Bools, tree: ContextTree) -> Floats:
        """Return how often each stored value counts in the sum of exclusive cost over the chosen contexts. Where a
        wider scope is stored, a value that another one contains is taken off where that one is chosen. For sums
        only."""
        counts: Floats = (chosen & tree.listed).astype(np.float64)
        if self.is_stored or self.metric.scope == Scope.POINT:
            return counts
        outer = tree.within if self.metric.scope == Scope.FUNCTION else tree.parent
        held = (outer >= 0) & tree.listed
        counts[held] -= chosen[outer[held]]
        return counts

    def _composite_inclusive(self, values: Array, tree: ContextTree) -> Array:
        """Children into their parents, the deepest first; of several children one after the other."""
        assert self.metric.composite is not None
        combine = self.metric.composite.combine
        assert combine is not None
        out = values.copy()
        out[tree.n_listed :] = np.zeros((), out.dtype)
        for level in reversed(tree.levels[1:]):
            left = level
            while len(left):
                above, first = np.unique(tree.parent[left], return_index=True)
                out[above] = combine(out[above], out[left[first]])
                left = np.delete(left, first)
        return out

    def _exclusive(self, values: Array, tree: ContextTree) -> Array:
        scope, aggregation = self.metric.scope, self.metric.aggregation
        if scope in (Scope.EXCLUSIVE, Scope.POINT) or aggregation in (Aggregation.MINIMUM, Aggregation.MAXIMUM):
            return values
        return subtract_children(_as_signed(values), tree.within if scope == Scope.FUNCTION else tree.parent)


def _as_signed(values: Array) -> Array:
    """Return numbers in a type that holds their differences: those of counters may be negative."""
    if values.dtype.kind not in "iu":
        return values
    fits = not len(values) or int(values.max()) < 2**63
    return values.astype(np.int64 if fits else np.float64)


def recipe(metrics: Metrics, quantity: str, scope: Scope) -> Recipe:
    """Return the best way to a quantity in a scope. Raises NotEvaluated where the quantity is derived."""
    if not metrics.scopes(quantity):
        metrics.resolve(quantity)  # says which there are
    metrics.require_values(quantity)
    if scope not in SOURCES:
        row = metrics.find(quantity, scope)
        if row is None:
            stored = ", ".join(s.word for s in metrics.scopes(quantity)) or "nothing"
            raise UsageError(f"{quantity} is not stored in scope {scope.word!r}; there is {stored}")
        if scope == Scope.LEXICAL and (function := metrics.find(quantity, Scope.FUNCTION)) is not None:
            row = function
        return Recipe(row, metrics[row], scope)
    for candidate in SOURCES[scope]:
        index = metrics.find(quantity, candidate)
        if index is not None:
            return Recipe(index, metrics[index], scope)
    stored = ", ".join(s.word or "a value without scope" for s in metrics.scopes(quantity)) or "nothing"
    raise UsageError(f"{quantity} has no {scope.word} values and none they could be computed from; there is {stored}")


# -- quantities in a scope as matrices, contexts x profiles ------------------------------------------------------------
# Blocks come by profile or by metric, sparse or dense; all of some profiles is read in one pass over them.


def matrices(
    values: Values, tree: ContextTree, ways: Sequence[Recipe], profiles: Ints, given: Totals | None = None
) -> dict[int, Array]:
    """Return the wanted scope of each way, by its stored row; rows without any value are left out. What is read is
    added to `given`.

    Like every view, and like `Values.totals`, they are made of what was measured: numbers that an input holds in places
    where nothing was measured are not in them. Composite values that do not fit one another raise UsageError.
    """
    filled: dict[int, Array] = {}
    column = np.zeros(len(values.profiles), np.int64)
    column[profiles] = np.arange(len(profiles))
    chosen = {way.stored: way for way in ways}
    for block in values.blocks_without_fillers(profiles, np.array(list(chosen), np.int64)):
        if given is not None:
            given.add(block)
        for metric, part in _by_metric(block):
            _fill(filled, metric, chosen[metric], part, column, (len(tree), len(profiles)))
    return {way.stored: way.apply(filled[way.stored], tree, in_place=True) for way in ways if way.stored in filled}


def _by_metric(block: Block) -> Iterator[tuple[int, Block]]:
    if isinstance(block, DenseBlock):
        yield block.metric, block
        return
    for metric in np.unique(block.metric).tolist():
        yield metric, block.take(block.metric == metric)


def _fill(
    filled: dict[int, Array], metric: int, way: Recipe, block: Block, column: Ints, shape: tuple[int, int]
) -> None:
    """Put the values of one metric into its matrix, which is made when the first of them come."""
    values = block.matrix if isinstance(block, DenseBlock) else block.value
    neutral = way.metric.aggregation.neutral
    kind = values.dtype if not neutral else np.dtype(np.float64)
    out = filled.get(metric)
    if out is None:
        filled[metric] = out = np.zeros(shape, kind)
        if neutral:
            out[:] = neutral
    elif out.dtype != kind:  # the runs of one experiment may store a metric in different types
        filled[metric] = out = out.astype(np.promote_types(out.dtype, kind))
    if isinstance(block, DenseBlock):
        if block.neutral != neutral:
            values = np.where(values == block.neutral, neutral, values)
        columns = column[block.profiles]
        if len(columns) == shape[1] and (np.diff(columns) == 1).all():
            out[block.contexts] = values
        else:
            out[np.ix_(block.contexts, columns)] = values
    else:
        out[block.context, column[block.profile]] = values
