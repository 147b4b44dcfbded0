"""What the rows of a view cost in each entity: rows x entities, in one pass over the values.

What a profile measured is added to the rows that its context counts in; nothing is laid out as contexts x profiles. A
value that is stored in a wider scope counts where it is stored, and once less in what is around it, as in
`costs.exclusive_by_profile`. What an inclusive row costs is carried up from row to row, along the outermost contexts of
groups only, so that recursion counts once.

    `matrix`   rows x entities, where that is small enough to hold
    `parts`    what is not absent, some entities at a time, whatever the size

Formulas are evaluated for each entity, of operands that are added up over its profiles and the contexts of a row.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from callgrove.analysis.costs import Costs, Groups, RowCells, Rows, outermost
from callgrove.analysis.spread.entities import Entities
from callgrove.arrays import ABSENT, Bools, Floats, Ids, Ints, in_order
from callgrove.errors import UsageError
from callgrove.model.computed_values import Recipe, lacks_operand, recipe
from callgrove.model.derived import ProfileCells, TotalCells, When, evaluate, require_scope
from callgrove.model.metrics import Aggregation, Scope
from callgrove.model.values import SparseBlock

__all__ = ["KEPT_CELLS", "EntityCosts", "Part", "demand_spread", "everything", "find_unmeasured", "say_difference"]

KEPT_CELLS = 1 << 25  # rows x entities that are held at once
PART_VALUES = 1 << 23  # stored values that are added up at once where more rows and entities are there
CLOSE = 1e-6  # of the total: sums in another order differ in the last digits
PART_CELLS = 1 << 22  # cells that a part is made of


@dataclass(frozen=True)
class Part:
    """What some entities that follow each other have: `row` and `entity` of each value, in the order of rows, then of
    entities. Cells without a value are not in it."""

    row: Ints
    entity: Ints
    value: Floats
    first: int
    n: int


def everything(costs: Costs) -> Groups:
    """Return all contexts as one group."""
    return Groups(np.zeros(costs.tree.n_listed, np.int32), np.zeros(1, np.int64))


@dataclass(frozen=True)
class _EntityCells(ProfileCells):
    """Contexts x entities: operands of formulas are added up over the profiles of each entity. `profiles` are the
    first one of each."""

    members: tuple[Ints, ...] = ()

    def _read(self, quantity: str, scope: Scope) -> Floats:
        metric = self.values.metrics.first(quantity)
        require_scope(metric, scope)
        if metric.derivation is not None and metric.derivation.when == When.AFTER:
            return evaluate(metric, replace(self, scope=scope), self._shape)
        columns = [TotalCells(self.values, scope, profiles).of(quantity) for profiles in self.members]
        return np.stack(columns, axis=1)


@dataclass
class EntityCosts:
    """The cost of some groups of contexts in each entity. `rows` are the groups that become rows; `totals` is what each
    entity has in all, once a matrix or all parts were read."""

    costs: Costs
    scope: Scope
    groups: Groups
    rows: Ints
    entities: Entities
    totals: Floats = field(init=False)

    def __post_init__(self) -> None:
        self.totals = np.full(len(self.entities), self.costs.neutral)

    @property
    def n_cells(self) -> int:
        """How many cells rows x entities have."""
        return len(self.rows) * len(self.entities)

    def of_rows(self, rows: Ints) -> EntityCosts:
        """Return the costs of some of the groups."""
        return replace(self, rows=self.rows[rows])

    def matrix(self) -> Floats:
        """Return rows x entities; a cell without a value is neutral, or missing of a formula."""
        if self.costs.metric.derivation is not None:
            batches = [self._evaluate(first, end) for first, end in self._batches()]
            return np.concatenate(batches, axis=1) if batches else np.empty((len(self.rows), 0))
        out = np.full(self.n_cells, self._rule.neutral)
        for row, entity, value in self._read(self.entities.profiles):
            self._rule.combine_at(out, row * len(self.entities) + entity, value)
        return out.reshape(len(self.rows), len(self.entities))

    def parts(self) -> Iterator[Part]:
        """Yield all cells that have a value, some entities at a time. Memory does not grow with rows x entities."""
        for first, end in self._batches():
            if self.costs.metric.derivation is not None:
                yield from self.split(self._evaluate(first, end), first)
            else:
                yield self._add_up(first, end)

    def split(self, matrix: Floats, first: int = 0) -> Iterator[Part]:
        """Yield a matrix of rows x entities, of which the first one is given, as parts."""
        step = max(1, PART_CELLS // max(1, len(matrix)))
        for start in range(0, matrix.shape[1], step):
            columns = matrix[:, start : start + step]
            row, entity = np.nonzero(self.costs.has(columns))
            yield Part(row, entity + first + start, columns[row, entity], first + start, columns.shape[1])

    @property
    def _rule(self) -> Aggregation:
        return self.costs.metric.aggregation

    def _batches(self) -> Iterator[tuple[int, int]]:
        """Yield the first and the end of entities that are read at once."""
        experiment, n = self.costs.experiment, len(self.entities)
        if self.costs.metric.derivation is not None:
            step = max(1, PART_CELLS // max(1, len(experiment.contexts)))
        else:
            stored = experiment.values.n_stored() or len(experiment.contexts) * len(experiment.profiles)
            step = max(1, int(PART_VALUES * n / max(1.0, stored * self._rows_of_a_value)))
        yield from ((first, min(first + step, n)) for first in range(0, n, step))

    @property
    def _rows_of_a_value(self) -> float:
        """How many rows a stored value counts in, about: as many as there are contexts around it, where it is carried
        up."""
        climbs = self.scope == Scope.INCLUSIVE and not self._way.is_stored and len(self.costs.tree)
        return 1.0 + float(self.costs.tree.depth.mean()) if climbs else 1.0

    def _add_up(self, first: int, end: int) -> Part:
        """Return what some entities have, from the values of their profiles alone."""
        pieces = list(self._read(self.entities.members(first, end)))
        n = end - first
        if not pieces:
            return Part(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0), first, n)
        row, entity, value = (np.concatenate(columns) for columns in zip(*pieces, strict=True))
        key = row * n + (entity - first)
        order = in_order(key)
        key = key[order]
        starts = np.flatnonzero(np.diff(key, prepend=-1))
        with np.errstate(invalid="ignore", over="ignore"):  # values need not be finite
            combined = self._rule.ufunc.reduceat(value[order], starts) if len(starts) else value
        kept = self.costs.has(combined)
        key, combined = key[starts][kept], combined[kept]
        return Part(key // n, key % n + first, combined, first, n)

    # Values as they are stored -> what they add to rows.

    def _read(self, profiles: Ints) -> Iterator[tuple[Ints, Ints, Floats]]:
        """Yield what stored values add to rows of entities, and add it to the totals."""
        values, way = self.costs.experiment.values, self._way
        values.demand_known(profiles)
        n_listed = self.costs.tree.n_listed
        for block in values.blocks_without_fillers(profiles, np.array([way.stored])):
            triples = block.triples()
            triples = triples.take(triples.context < n_listed)
            context, entity, value = self._count(triples)
            self._add_totals(context, entity, value)
            if self.scope == Scope.INCLUSIVE and not way.is_stored:
                yield from self._climb(context, entity, value)
            else:
                row = self._row_of[context]
                kept = row >= 0
                yield row[kept], entity[kept], value[kept]

    @cached_property
    def _way(self) -> Recipe:
        return recipe(self.costs.experiment.metrics, self.costs.metric.name, self.scope)

    def _count(self, triples: SparseBlock) -> tuple[Ints, Ints, Floats]:
        """Return contexts, entities and values: exclusive ones, or inclusive ones that are stored."""
        way, tree = self._way, self.costs.tree
        context, entity = triples.context.astype(np.int64), self.entities.of[triples.profile]
        value: Floats = triples.value.astype(np.float64)
        if way.is_stored or way.metric.scope in (Scope.EXCLUSIVE, Scope.POINT) or self._rule != Aggregation.SUM:
            return context, entity, value
        around = (tree.within if way.metric.scope == Scope.FUNCTION else tree.parent)[context].astype(np.int64)
        held = around >= 0
        joined = np.concatenate([context, around[held]]), np.concatenate([entity, entity[held]])
        return *joined, np.concatenate([value, -value[held]])

    def _add_totals(self, context: Ints, entity: Ints, value: Floats) -> None:
        if self.scope == Scope.INCLUSIVE and self._way.is_stored:
            at_root = self.costs.tree.parent[context] < 0
            entity, value = entity[at_root], value[at_root]
        self._rule.combine_at(self.totals, entity, value)

    @cached_property
    def _row_of(self) -> Ints:
        """The row that each context counts in; -1 is none. Of an inclusive cost, outermost contexts count."""
        row = np.full(len(self.groups), ABSENT, np.int64)
        row[self.rows] = np.arange(len(self.rows))
        of = row[self.groups.of]
        return np.where(self._outermost, of, ABSENT) if self.scope == Scope.INCLUSIVE else of

    @cached_property
    def _outermost(self) -> Bools:
        return outermost(self.groups.of, self.costs.tree)

    @cached_property
    def _next(self) -> Ids:
        """The nearest context above each one that counts in a row; -1 is none."""
        parent = self.costs.tree.parent[: self.costs.tree.n_listed]
        out = np.where(parent >= 0, parent, ABSENT)
        while len(climbing := np.flatnonzero((out >= 0) & (self._row_of[out] < 0))):
            out[climbing] = out[out[climbing]]
        return out

    def _climb(self, context: Ints, entity: Ints, value: Floats) -> Iterator[tuple[Ints, Ints, Floats]]:
        """Yield exclusive values once for every row around them."""
        at = np.where(self._row_of[context] >= 0, context, self._next[context])
        while (kept := at >= 0).any():
            at, entity, value = at[kept], entity[kept], value[kept]
            yield self._row_of[at], entity, value
            at = self._next[at]

    # Formulas.

    @cached_property
    def _total_cells(self) -> TotalCells:
        return TotalCells(self.costs.experiment.values, self.scope, self.entities.profiles)

    @cached_property
    def _row_sets(self) -> tuple[Rows, Rows]:
        """The rows, and one row of everything: outermost contexts of all, and all."""
        tree, whole = self.costs.tree, everything(self.costs)
        return self.groups.rows(self.rows, tree), whole.rows(np.zeros(1, np.int64), tree)

    def _evaluate(self, first: int, end: int) -> Floats:
        """Return a formula for rows x some entities; NaN is not a value."""
        name, every = self.costs.metric.name, self.entities.profiles
        bounds = range(first, end)
        members = tuple(self.entities.members(entity, entity + 1) for entity in bounds)
        firsts = np.array([profiles[0] for profiles in members], np.int64)
        shared = [self._total_cells]
        values = self.costs.experiment.values
        cells: ProfileCells = (
            ProfileCells(values, self.scope, firsts, every, across=shared)
            if all(len(profiles) == 1 for profiles in members)
            else _EntityCells(values, self.scope, firsts, every, across=shared, members=members)
        )
        of_rows, of_all = (
            RowCells(cells, self.scope, rows, RowCells(self._total_cells, self.scope, rows)).of(name)
            for rows in self._row_sets
        )
        self.totals[first:end] = of_all[0]
        return of_rows


def demand_spread(costs: Costs, entities: Entities) -> None:
    """Raise UsageError where a metric cannot be compared over entities, or where their values are not known."""
    experiment, metric = costs.experiment, costs.metric
    if metric.derivation is None and metric.aggregation not in (Aggregation.SUM, Aggregation.MAXIMUM):
        kind = "a minimum" if metric.aggregation == Aggregation.MINIMUM else "no sum"
        raise UsageError(f"{metric.name} is {kind}: sums, maxima and derived metrics are compared, no others")
    chosen = np.append(entities.profiles, entities.outside)
    if entities.over != "run" and np.isin(experiment.profiles.aggregates, chosen).any():
        raise UsageError(
            f"{experiment.path}: values of single profiles are not known, only those of all profiles together"
        )


def find_unmeasured(costs: Costs, entities: Entities) -> Bools:
    """Return which entities have a profile of a run that did not measure the metric: nobody knows their cost."""
    out = np.zeros(len(entities), np.bool_)
    profiles = entities.profiles
    out[entities.of[profiles[lacks_operand(costs.experiment.values, costs.metric.name, profiles)]]] = True
    return out


def say_difference(spread_costs: EntityCosts) -> tuple[str, ...]:
    """Return that all entities together have another cost than the whole, which a summary of the file says."""
    costs, entities = spread_costs.costs, spread_costs.entities
    if not costs.is_additive or costs.metric.derivation is not None or len(entities.outside):
        return ()
    total = float(spread_costs.totals.sum())
    if not abs(total - costs.total) > CLOSE * max(abs(total), abs(costs.total), abs(costs.whole)):
        return ()
    return (f"profiles add up to {total:,.6g}, the stored summary says {costs.total:,.6g} {costs.metric.unit}",)
