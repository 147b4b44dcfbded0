"""Values that no file stores: exclusive and inclusive ones, quantities in a scope as matrices, and those of several
runs as one, of which some did not measure all that others did.

    exclusive   stored, else function(c) - sum of function over the contexts lexically within c,
                else v(c) - sum of v(children) of an inclusive metric, else point (which lacks elided contexts)
    inclusive   stored, else exclusive combined over the subtree
    lexical     function(c), at loops less function of the loops nested in c: threads of HPCToolkit store plain function
                there, while its summaries subtract

A function-scope metric is never summed over a subtree: it contains what is nested in it already. Computed scopes
concern the tree only; elided contexts have none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from callgrove.arrays import Array, Bools, Floats, Ids, Ints, combine_upwards, distinct, subtract_children, summable
from callgrove.errors import CallgroveError, NotMeasuredInRun, UsageError
from callgrove.model.contexts import ContextTree
from callgrove.model.metrics import Aggregation, Metric, Metrics, Scope
from callgrove.model.profiles import Profiles
from callgrove.model.values import (
    ArrayValues,
    Block,
    DenseBlock,
    NoValues,
    SparseBlock,
    ValueBackend,
    Values,
    blocks_without_fillers,
    has_fillers,
)

if TYPE_CHECKING:
    from callgrove.model.books import Totals

__all__ = [
    "ChainedValues",
    "Link",
    "Recipe",
    "demand_operands",
    "find_operands",
    "in_memory",
    "lacks_operand",
    "matrices",
    "recipe",
]


# -- scopes ------------------------------------------------------------------------------------------------------------


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
        """Return inclusive values: children are combined into their parents, the deepest first, and of several children
        one after the other."""
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


def _adds_up(metric: Metric) -> bool:
    """Return whether values of one scope make those of another: a mean of means is nothing that was measured."""
    return metric.aggregation != Aggregation.NONE or metric.composite is not None


def recipe(metrics: Metrics, quantity: str, scope: Scope) -> Recipe:
    """Return the best way to a quantity in a scope. Raises NotEvaluated where it is a formula that nothing
    evaluates."""
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
        if index is not None and (candidate == scope or _adds_up(metrics[index])):
            return Recipe(index, metrics[index], scope)
    if metrics.first(quantity).derivation is not None:
        raise UsageError(f"{quantity} is computed from sums and does not add up itself: it has no stored values")
    stored = ", ".join(s.word or "unknown scope" for s in metrics.scopes(quantity)) or "nothing"
    raise UsageError(f"{quantity} has no {scope.word} values, nor any to compute them from (stored: {stored})")


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


# -- what runs did not measure -----------------------------------------------------------------------------------------
# A folder of runs has the metrics that any of them has. A run without one has no zeros of it: nobody knows its values.
# So what a formula over it has in one profile of such a run is missing, and what it has over several is refused.


def find_operands(metrics: Metrics, quantity: str) -> list[str]:
    """Return the metrics with stored values that a derived one is computed from, through others too, each once."""
    return list(dict.fromkeys(_visit_operands(metrics, quantity, set())))


def _visit_operands(metrics: Metrics, quantity: str, seen: set[str]) -> Iterator[str]:
    seen.add(quantity)
    derivation = metrics.first(quantity).derivation
    if derivation is None:
        yield quantity
        return
    for name in derivation.operands:
        if name not in seen and metrics.scopes(name):  # what is not there is said when it is evaluated
            yield from _visit_operands(metrics, name, seen)


def lacks_operand(values: Values, quantity: str, profiles: Ints) -> Bools:
    """Return which profiles are of a run that did not measure a metric, or what a formula is computed from."""
    unmeasured = values.profiles.unmeasured
    if unmeasured is None:
        return np.zeros(len(profiles), np.bool_)
    needed = set(find_operands(values.metrics, quantity))
    lacks = np.array([not needed.isdisjoint(one.metrics) for one in unmeasured.table], np.bool_)
    return lacks[unmeasured.codes[profiles]]


def demand_operands(values: Values, quantity: str, profiles: Ints | None) -> None:
    """Raise NotMeasuredInRun where a formula is computed over profiles (None: all) of runs that did not all measure
    what it needs."""
    chosen = values.profiles.measured if profiles is None else profiles
    lacking = chosen[lacks_operand(values, quantity, chosen)]
    if len(lacking) and values.profiles.unmeasured is not None:
        first = int(lacking[0])
        gap = values.profiles.unmeasured[first]
        operand = next(name for name in find_operands(values.metrics, quantity) if name in gap.metrics)
        raise NotMeasuredInRun(quantity, f"{values.profiles.run[first]} {gap.run}".rstrip(), operand)


# -- values of several runs, or of several value types, as one ---------------------------------------------------------
# Each link has a backend with ids of its own and says which profiles of the whole it answers for and how its contexts
# and metrics are called there. A link's context may be absent from the whole (-1): its values are then left out.


@dataclass(frozen=True)
class Link:
    """One backend in a chain. Each map gives, for an id of the backend, the id in the whole, or -1."""

    backend: ValueBackend
    profiles: Ids
    contexts: Ids
    metrics: Ids

    def outward(self, block: SparseBlock) -> SparseBlock:
        """Return a block of the backend in the ids of the whole."""
        mapped = SparseBlock(
            self.profiles[block.profile],
            self.contexts[block.context],
            self.metrics[block.metric],
            block.value,
            block.fillers,
        )
        kept = (mapped.profile >= 0) & (mapped.context >= 0) & (mapped.metric >= 0)
        return mapped if kept.all() else mapped.take(kept)

    def choose_metrics(self, metrics: Ints | None) -> Ints | None:
        """Return the backend's own rows for some metrics of the whole. All that the whole has may be less than the
        backend has: the rest is not even read."""
        if metrics is None and (self.metrics >= 0).all():
            return None
        return np.flatnonzero(self.metrics >= 0) if metrics is None else self.inward(self.metrics, metrics)

    def outward_dense(self, block: DenseBlock) -> DenseBlock:
        """Return a matrix in the ids of the whole; what the whole does not have is left out."""
        contexts, profiles = self.contexts[block.contexts], self.profiles[block.profiles]
        matrix, fillers = block.matrix, block.fillers
        if (contexts < 0).any() or (profiles < 0).any():
            kept = np.ix_(contexts >= 0, profiles >= 0)
            matrix, fillers = matrix[kept], None if fillers is None else fillers[kept]
            contexts, profiles = contexts[contexts >= 0], profiles[profiles >= 0]
        return DenseBlock(int(self.metrics[block.metric]), contexts, profiles, matrix, block.neutral, fillers)

    def inward(self, mapping: Ids, wanted: Ints) -> Ints:
        """Return which of the backend's ids mean one of the wanted ids of the whole."""
        return np.flatnonzero(np.isin(mapping, wanted) & (mapping >= 0))


ReadLink = Callable[[Link, Ints, Ints | None], Iterator[Block]]


class ChainedValues:
    """Values of several backends. Several contexts of one link may be one context of the whole."""

    def __init__(self, links: Sequence[Link]) -> None:
        self._links = tuple(links)

    @property
    def problems(self) -> list[CallgroveError]:
        """What every link met."""
        return [problem for link in self._links for problem in link.backend.problems]

    def n_stored(self) -> int | None:
        whole = all((ids >= 0).all() for link in self._links for ids in (link.profiles, link.contexts, link.metrics))
        counts = [link.backend.n_stored() for link in self._links] if whole else [None]
        known = [c for c in counts if c is not None]
        return sum(known) if len(known) == len(counts) else None

    def summarises(self, metric: int) -> bool:
        rows_of_links = [(link.backend, link.inward(link.metrics, np.array([metric])).tolist()) for link in self._links]
        answers = [backend.summarises(row) for backend, rows in rows_of_links for row in rows]
        return bool(answers) and all(answers)

    def profile(self, profile: int, metrics: Ints | None = None) -> SparseBlock:
        blocks = [
            link.outward(link.backend.profile(number, link.choose_metrics(metrics)))
            for link in self._links
            for number in link.inward(link.profiles, np.array([profile])).tolist()
        ]
        return SparseBlock.concatenate([b for b in blocks if len(b)])

    def context(self, context: int) -> SparseBlock:
        blocks = [
            link.outward(link.backend.context(number))
            for link in self._links
            for number in link.inward(link.contexts, np.array([context])).tolist()
        ]
        return SparseBlock.concatenate([b for b in blocks if len(b)])

    def blocks(self, profiles: Ints | None = None, metrics: Ints | None = None) -> Iterator[Block]:
        return self._blocks(profiles, metrics, lambda link, numbers, wanted: link.backend.blocks(numbers, wanted))

    def blocks_without_fillers(self, profiles: Ints | None = None, metrics: Ints | None = None) -> Iterator[Block]:
        """Yield blocks without the fillers of links that have any."""
        return self._blocks(
            profiles, metrics, lambda link, numbers, wanted: blocks_without_fillers(link.backend, numbers, wanted)
        )

    @property
    def has_fillers(self) -> bool:
        return any(has_fillers(link.backend) for link in self._links)

    def _blocks(self, profiles: Ints | None, metrics: Ints | None, read: ReadLink) -> Iterator[Block]:
        for link in self._links:
            numbers = np.flatnonzero(link.profiles >= 0) if profiles is None else link.inward(link.profiles, profiles)
            wanted = link.choose_metrics(metrics)
            if len(numbers) and (wanted is None or len(wanted)):
                for block in read(link, numbers, wanted):
                    mapped: Block
                    if isinstance(block, DenseBlock):
                        mapped = link.outward_dense(block)
                    else:
                        mapped = link.outward(block)
                    if len(mapped):
                        yield mapped


def in_memory(blocks: Sequence[SparseBlock], profiles: Profiles, n_contexts: int, n_metrics: int) -> ValueBackend:
    """Return values held in memory: one backend, or a chain of one for each value type, so that integers stay exact."""
    backends = [ArrayValues(SparseBlock.concatenate(part), profiles) for part in _by_type(blocks)]
    if len(backends) <= 1:
        return backends[0] if backends else NoValues()
    ids = (np.arange(n, dtype=np.int32) for n in (len(profiles), n_contexts, n_metrics))
    maps = tuple(ids)
    return ChainedValues([Link(backend, *maps) for backend in backends])


def _divide_by_metric(block: SparseBlock) -> Iterator[tuple[int, SparseBlock]]:
    """Yield the metrics of a block, each with its rows."""
    metrics = distinct(block.metric).tolist()
    for metric in metrics:
        yield metric, block.take(block.metric == metric) if len(metrics) > 1 else block


def _by_type(blocks: Sequence[SparseBlock]) -> list[list[SparseBlock]]:
    """Divide rows by value type; a metric has one type, the smallest that holds all that was given for it."""
    if len({b.value.dtype for b in blocks}) <= 1:
        return [list(blocks)] if blocks else []
    types: dict[int, np.dtype[Any]] = {}
    parts = [part for block in blocks for part in _divide_by_metric(block)]
    for metric, part in parts:
        types[metric] = np.promote_types(types.get(metric, part.value.dtype), part.value.dtype)
    out: dict[np.dtype[Any], list[SparseBlock]] = {}
    for metric, part in parts:
        kind = types[metric]
        out.setdefault(kind, []).append(replace(part, value=part.value.astype(kind, copy=False)))
    return list(out.values())
