"""Quantities over threads, for the rows of a view: sum, count, sum of squares, minimum, maximum.

A row may stand for many contexts (all calls of a function). What a thread spends there is added up first, then threads
are combined: the mean of a function is that of its cost per thread, not of the costs of its contexts.

Statistics are computed from threads, also where a summary stores them: genuine ones are known to be wrong. A sum over
all threads is taken from the summary, which is right; so is everything where nothing is known of single threads.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from callgrove.model.arrays import Array, Floats, Ints
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Aggregation, Scope
from callgrove.model.scopes import Recipe, recipe

__all__ = ["Quantity", "Rows", "Statistics"]

COMPUTED = ("count", "sum of squares", "min", "max")
NESTED = (Scope.FUNCTION, Scope.LEXICAL)
Pairs = tuple[Ints, Ints]  # contexts, and the row of each


@dataclass(frozen=True)
class Quantity:
    """A quantity in a scope; `statistic` over threads, empty is the sum."""

    name: str
    scope: Scope
    statistic: str = ""

    @property
    def inclusive(self) -> Quantity:
        """The same in inclusive scope: what percentages are of."""
        return replace(self, scope=Scope.INCLUSIVE)


@dataclass(frozen=True)
class Rows:
    """Of which contexts the rows of a view are made, by what is measured there.

    `inclusive`: contexts whose inclusive cost is a row's, `own`: those whose exclusive cost is. `nested`: those whose
    cost in function scope is; None where rows are groups, of which the parts may lie in one another.
    """

    n: int
    inclusive: Pairs
    own: Pairs
    nested: Pairs | None = None

    @classmethod
    def of_contexts(cls, chosen: Ints, owner: Array) -> Rows:
        """A row for each context chosen; `owner` is the context that shows the exclusive cost of each one."""
        row = np.full(len(owner), -1, np.int64)
        row[chosen] = np.arange(len(chosen))
        own = np.flatnonzero(row[owner] >= 0)
        same = (chosen, np.arange(len(chosen)))
        return cls(len(chosen), same, (own, row[owner[own]]), same)

    @classmethod
    def of_groups(cls, chosen: Ints, group: Array, outermost: Array, n_groups: int) -> Rows:
        """A row for each group chosen; `group` is that of every context."""
        row = np.full(n_groups, -1, np.int64)
        row[chosen] = np.arange(len(chosen))
        own = np.flatnonzero(row[group] >= 0)
        top = own[outermost[own]]
        return cls(len(chosen), (top, row[group[top]]), (own, row[group[own]]))


@dataclass(frozen=True)
class Statistics:
    """Quantities of an experiment, over all profiles or those given."""

    experiment: Experiment
    profiles: Ints | None

    def of(self, quantities: Iterable[Quantity], rows: Rows) -> dict[Quantity, Floats]:
        """One number per row, and one more: that of all roots together, in inclusive scope."""
        out: dict[Quantity, Floats] = {}
        by_threads: dict[Quantity, list[Quantity]] = {}
        for quantity in dict.fromkeys(quantities):
            if not quantity.statistic:
                out[quantity] = self._sum(quantity, rows)
            elif quantity.statistic in COMPUTED and self._knows_threads:
                by_threads.setdefault(replace(quantity, statistic=""), []).append(quantity)
            else:
                out[quantity] = self._read_stored(quantity, rows)
        if by_threads:
            for base, found in self._over_threads(list(by_threads), rows).items():
                out.update({quantity: found[quantity.statistic] for quantity in by_threads[base]})
        return out

    @property
    def _knows_threads(self) -> bool:
        profiles = self.experiment.profiles
        return len(profiles.measured) > 0 and not len(profiles.aggregates)

    def _recipe(self, quantity: Quantity, rows: Rows) -> Recipe | None:
        metrics = self.experiment.metrics
        if quantity.scope in NESTED and rows.nested is None:
            return recipe(metrics, quantity.name, Scope.EXCLUSIVE)
        row = metrics.find(quantity.name, quantity.scope)
        if row is not None:
            return Recipe(row, metrics[row], quantity.scope)
        computable = quantity.scope in (Scope.INCLUSIVE, Scope.EXCLUSIVE) and quantity.name in metrics.quantities
        return recipe(metrics, quantity.name, quantity.scope) if computable else None

    def _sum(self, quantity: Quantity, rows: Rows) -> Floats:
        way = self._recipe(quantity, rows)
        if way is None:
            return np.full(rows.n + 1, np.nan)
        values = way.apply(self.experiment.values.totals(way.stored, self.profiles), self.experiment.contexts)
        found = self._reduce(values, quantity.scope, rows, way.metric.aggregation)
        return (
            np.where(found == way.metric.aggregation.neutral, np.nan, found)
            if way.metric.aggregation.neutral
            else found
        )

    def _read_stored(self, quantity: Quantity, rows: Rows) -> Floats:
        """A statistic that only a stored summary has; it says nothing about a choice of profiles."""
        metrics, profiles = self.experiment.metrics, self.experiment.profiles
        summaries = np.union1d(profiles.summaries, profiles.aggregates)
        key = (quantity.name, quantity.scope, quantity.statistic)
        row = next((k for k, m in enumerate(metrics) if (m.name, m.scope, m.statistic) == key), None)
        if row is None or len(summaries) != 1 or self.profiles is not None:
            return np.full(rows.n + 1, np.nan)
        aggregation = metrics[row].aggregation
        if aggregation == Aggregation.NONE:
            aggregation = Aggregation.SUM
        found = self._reduce(self.experiment.values.dense(int(summaries[0]), row), quantity.scope, rows, aggregation)
        return np.where(np.isinf(found), 0.0, found)

    def _reduce(self, values: Array, scope: Scope, rows: Rows, aggregation: Aggregation) -> Floats:
        """Values of contexts as values of rows, and of all roots."""
        nested = rows.own if rows.nested is None else rows.nested
        contexts, targets = rows.inclusive if scope == Scope.INCLUSIVE else nested if scope in NESTED else rows.own
        roots = self.experiment.contexts.roots
        out = np.full(rows.n + 1, aggregation.neutral)
        aggregation.combine_at(out, targets, values[contexts].astype(np.float64))
        aggregation.combine_at(out, np.full(len(roots), rows.n), values[roots].astype(np.float64))
        return out

    def _over_threads(self, bases: list[Quantity], rows: Rows) -> dict[Quantity, dict[str, Floats]]:
        """One pass over the threads: each is read once, and reduced to the rows of the view."""
        e = self.experiment
        ways = {base: way for base in bases if (way := self._recipe(base, rows)) is not None}
        stored = np.unique([way.stored for way in ways.values()]).astype(np.int64)
        found = {base: _Accumulated(rows.n + 1) for base in ways}
        for profile in (e.profiles.measured if self.profiles is None else self.profiles).tolist():
            parts = [block.triples() for block in e.values.measured_blocks(np.array([profile]), stored)]
            for base, way in ways.items():
                values = np.zeros(len(e.contexts))
                for part in parts:
                    mine = part.take(part.metric == way.stored)
                    np.add.at(values, mine.context, mine.value)
                whole = way.apply(values, e.contexts)
                found[base].add(self._reduce(whole, base.scope, rows, Aggregation.SUM))
        none = dict.fromkeys(COMPUTED, np.full(rows.n + 1, np.nan))
        return {base: found[base].statistics() if base in found else none for base in bases}


class _Accumulated:
    """Statistics of the threads seen so far. A thread with nothing in a row does not count there."""

    def __init__(self, n: int) -> None:
        self._squares, self._count = np.zeros(n), np.zeros(n)
        self._low, self._high = np.full(n, np.inf), np.full(n, -np.inf)

    def add(self, values: Floats) -> None:
        used = values != 0
        with np.errstate(invalid="ignore", over="ignore"):  # values need not be finite
            self._squares += values**2
        self._count += used
        self._low[used] = np.minimum(self._low[used], values[used])
        self._high[used] = np.maximum(self._high[used], values[used])

    def statistics(self) -> dict[str, Floats]:
        some = self._count > 0
        low, high = np.where(some, self._low, 0.0), np.where(some, self._high, 0.0)
        return {"count": self._count, "sum of squares": self._squares, "min": low, "max": high}
