"""Statistics of costs over ranks, threads, GPUs, nodes or runs: who is slowest, and what that costs the others.

With x_1 .. x_n over all entities; one without a value counts 0, unless only those that have one are asked for:

    sum, mean, min, max    p25, median, p75: linear between order statistics
    std                    sqrt(sum of (x - mean)^2 / n); cv is std / mean
    imbalance              max / mean - 1
    percent_imbalance      100 (max - mean) / max * n / (n - 1); missing for n = 1
    load_balance           mean / max; 1 less it is the idle share before a barrier
    excess                 max - mean: what the slowest costs the others
    slowest                who has the maximum, the first of equals
    percent                100 excess / mean of the cost of the whole program

Ratios are missing where the mean is not above 0, and of differences. A formula over sums has no value where nothing
happened: such an entity does not count, and neither a sum nor a percent of it means anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from callgrove.analysis.costs import Costs, group
from callgrove.analysis.spread.entities import Entities, choose_entities, count
from callgrove.analysis.spread.values import (
    KEPT_CELLS,
    EntityCosts,
    Part,
    demand_spread,
    find_unmeasured,
    say_difference,
)
from callgrove.analysis.views import describe_groups
from callgrove.arrays import Array, Bools, Floats, Ints
from callgrove.errors import Parameter, UsageError
from callgrove.model.activities import ActivityClass, find_activities, find_classes
from callgrove.model.metrics import Scope
from callgrove.model.table import Column, Table
from callgrove.patterns.tables import take_rows

__all__ = ["MOST_CELLS", "Imbalance", "Question", "choose_compared", "imbalance", "spread_statistics"]

MOST_CELLS = 100_000_000  # rows x entities whose percentiles are computed
WAITING = -0.9  # correlation with all else below which a communication row is waiting for others
FEWEST = 3  # entities for a correlation to say something: two points always lie on a line
SOME = 3  # names in a note
QUARTILES = {"p25": 0.25, "median": 0.5, "p75": 0.75}
COMMUNICATES = [list(ActivityClass).index(ActivityClass(word)) for word in ("communication", "synchronisation")]


class Spread:
    """Statistics of rows over the entities seen so far. `present`: only cells with a value count."""

    def __init__(self, n_rows: int, present: bool = False) -> None:
        self._present = present
        self.n, self.sum, self._squares = np.zeros(n_rows), np.zeros(n_rows), np.zeros(n_rows)
        self.min, self.max = np.full(n_rows, np.inf), np.full(n_rows, -np.inf)
        self.slowest = np.full(n_rows, -1, np.int64)

    @property
    def mean(self) -> Floats:
        """The mean of each row; NaN where nothing counts."""
        with np.errstate(invalid="ignore", divide="ignore"):
            mean: Floats = self.sum / self.n
        return mean

    @property
    def std(self) -> Floats:
        """The population deviation of each row."""
        with np.errstate(invalid="ignore", divide="ignore"):
            std: Floats = np.sqrt(self._squares / self.n)
        return std

    @np.errstate(invalid="ignore", over="ignore", divide="ignore")  # values need not be finite
    def add(self, part: Part) -> None:
        """Take in some more entities. Distances from the mean are added up: a difference of sums of squares would be
        rounding only."""
        here = _measure(part, len(self.n), self._present)
        n = self.n + here.n
        apart = here.sum / here.n - self.sum / self.n
        between = np.where((here.n > 0) & (self.n > 0), apart**2 * self.n * here.n / n, 0.0)
        self._squares += here.squares + between
        self.slowest = np.where(here.max > self.max, here.slowest, self.slowest)
        self.min, self.max = np.minimum(self.min, here.min), np.maximum(self.max, here.max)
        self.sum, self.n = self.sum + here.sum, n


@dataclass(frozen=True)
class _Measured:
    """Statistics of rows over the entities of one part; `squares` are of distances from its mean."""

    n: Floats
    sum: Floats
    squares: Floats
    min: Floats
    max: Floats
    slowest: Ints


def _measure(part: Part, n_rows: int, present: bool) -> _Measured:
    """Return the statistics of a part. Cells that are not in it are 0, or do not count."""
    out = _Measured(
        np.full(n_rows, 0.0 if present else part.n),
        np.zeros(n_rows),
        np.zeros(n_rows),
        np.full(n_rows, np.inf if present else 0.0),
        np.full(n_rows, -np.inf if present else 0.0),
        np.full(n_rows, -1 if present else part.first, np.int64),
    )
    starts = np.flatnonzero(np.diff(part.row, prepend=-1))
    if not len(starts):
        return out
    rows, counts = part.row[starts], np.diff(np.append(starts, len(part.row)))
    n = counts if present else np.full(len(rows), part.n)
    total, low, high = (ufunc.reduceat(part.value, starts) for ufunc in (np.add, np.minimum, np.maximum))
    mean = total / n
    squares = np.add.reduceat((part.value - np.repeat(mean, counts)) ** 2, starts) + (n - counts) * mean**2
    slowest = part.entity[_first(part.value == np.repeat(high, counts), starts)]
    absent = n > counts
    below = absent & (high < 0)  # the first one without a value has the most
    if below.any():
        place = np.arange(len(part.row)) - np.repeat(starts, counts)
        gaps = np.minimum.reduceat(np.where(part.entity - part.first != place, place, part.n), starts)
        slowest = np.where(below, np.minimum(gaps, counts) + part.first, slowest)
    out.n[rows], out.sum[rows], out.squares[rows], out.slowest[rows] = n, total, squares, slowest
    out.min[rows] = np.where(absent, np.minimum(low, 0.0), low)
    out.max[rows] = np.where(absent, np.maximum(high, 0.0), high)
    return out


def _first(flags: Bools, starts: Ints) -> Ints:
    """Return the first place of each segment that is marked; its start where none is."""
    places = np.where(flags, np.arange(len(flags)), len(flags))
    found = np.minimum.reduceat(places, starts)
    return np.where(found < len(flags), found, starts)


def spread_statistics(values: Array) -> dict[str, float]:
    """Return the least, mean and most of what profiles have, their deviation, how much more the most is than the mean
    (NaN where that is 0), and how many profiles have no cost."""
    n = len(values)
    spread = Spread(1)
    spread.add(Part(np.zeros(n, np.int64), np.arange(n), values.astype(np.float64), 0, n))
    mean, most = float(spread.mean[0]), float(spread.max[0])
    return {
        "min": float(spread.min[0]),
        "mean": mean,
        "max": most,
        "std": float(spread.std[0]),
        "imbalance": most / mean - 1 if mean else np.nan,
        "none": int(np.count_nonzero(values == 0)),
    }


# -- the table ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Question:
    """What is compared: the entities (None: the first kind of which there are several), what a row stands for, the
    scope, how many rows, whether entities without a value are left out, and whether percentiles are wanted."""

    over: str | None = None
    by: str = "function"
    scope: Scope = Scope.EXCLUSIVE
    limit: int | None = None
    present: bool = False
    percentiles: bool = True


@dataclass(frozen=True)
class Imbalance:
    """A table of imbalances, the entities that it compares, and what the rows have in each of them (rows x entities;
    None where that is too much to hold)."""

    table: Table
    entities: Entities
    matrix: Floats | None

    def take(self, chosen: Bools, limit: int | None = None) -> Imbalance:
        """Return some rows, at most `limit` of them."""
        table = take_rows(self.table, chosen).head(limit)
        matrix = None if self.matrix is None else self.matrix[chosen][: len(table)]
        return replace(self, table=table, matrix=matrix)


def imbalance(costs: Costs, asked: Question) -> Imbalance:
    """Return how the costs of groups are spread over entities, the largest excess first."""
    if asked.scope not in (Scope.EXCLUSIVE, Scope.INCLUSIVE):
        raise UsageError(f"imbalance is of exclusive or inclusive cost, not of {asked.scope.word!r}")
    every = choose_compared(costs, asked.over)
    demand_spread(costs, every)
    unmeasured = find_unmeasured(costs, every)
    entities = every.keep(~unmeasured) if unmeasured.any() else every
    groups = group(costs.tree, asked.by)
    exclusive, inclusive = groups.costs(costs)
    shown = exclusive if asked.scope == Scope.EXCLUSIVE else inclusive
    spread_costs = EntityCosts(costs, asked.scope, groups, np.flatnonzero(costs.has(shown)), entities)
    _demand_few_cells(spread_costs, asked)
    return _Maker(costs, asked, spread_costs, tuple(_say_left_out(costs, every, unmeasured))).make()


def choose_compared(costs: Costs, over: str | None) -> Entities:
    """Return the entities to compare: those named, or the first kind of which there are several that have any of the
    cost."""

    def has_cost(profiles: Ints) -> bool:
        return costs.metric.derivation is not None or bool(_add_roots(costs, profiles))

    return choose_entities(costs.experiment, over, costs.profiles, has_cost)


def _add_roots(costs: Costs, profiles: Ints) -> float:
    inclusive = costs.experiment.totals(costs.metric.name, Scope.INCLUSIVE, profiles)
    return costs.metric.aggregation.combine_all(inclusive[costs.tree.roots])


def _demand_few_cells(costs: EntityCosts, asked: Question) -> None:
    n_rows = len(costs.rows) if asked.limit is None else min(asked.limit, len(costs.rows))
    if asked.percentiles and n_rows * len(costs.entities) > MOST_CELLS:
        over = count(len(costs.entities), costs.entities.over)
        raise UsageError(
            f"percentiles of {n_rows:,} rows over {over} need more than {MOST_CELLS:,} values at once; "
            "leave them out with ",
            Parameter("percentiles", False),
            ", or show fewer rows",
        )


def _say_left_out(costs: Costs, entities: Entities, unmeasured: Bools) -> Iterator[str]:
    names = [entities.names[k] for k in np.flatnonzero(unmeasured).tolist()]
    if names:
        some = ", ".join(names[:SOME]) + (", ..." if len(names) > SOME else "")
        yield f"left out, as {costs.metric.name} was not measured there: {some}"
    is_known = costs.is_additive and costs.metric.derivation is None
    if len(entities.outside) and is_known and (cost := _add_roots(costs, entities.outside)):
        share = f" ({100 * cost / costs.total:.3g}% of all)" if costs.total else ""
        where = f"{count(len(entities.outside), 'profile')} without a {entities.over}"
        yield f"left out: {cost:,.6g} {costs.metric.unit} in {where}{share}"


@dataclass(frozen=True)
class _Maker:
    """Makes the table of what was asked."""

    costs: Costs
    asked: Question
    spread_costs: EntityCosts
    notes: tuple[str, ...]

    @property
    def _present(self) -> bool:
        return self.asked.present or self.costs.is_ratio

    @np.errstate(invalid="ignore", over="ignore")  # values need not be finite
    def make(self) -> Imbalance:
        matrix = self.spread_costs.matrix() if self.spread_costs.n_cells <= KEPT_CELLS else None
        spread = self._add_up(self.spread_costs.parts() if matrix is None else self.spread_costs.split(matrix))
        excess = np.maximum(spread.max - spread.mean, 0.0)
        has_cost = np.flatnonzero((spread.n > 0) & (self.costs.is_ratio | (spread.min != 0) | (spread.max != 0)))
        keys = -np.nan_to_num(spread.sum), -np.nan_to_num(excess, nan=-1.0)
        ranks = has_cost[np.lexsort([key[has_cost] for key in keys])]
        order = ranks[: self.asked.limit]
        values = matrix[order] if matrix is not None else self._read_again(order)
        table = Table(
            tuple(self._columns(spread, excess, order, values)),
            left=len(ranks) - len(order),
            notes=(
                *self.notes,
                *say_difference(self.spread_costs),
                *self._say_waiting(order, values),
                *self._say_none(len(ranks)),
            ),
        )
        return Imbalance(table, self.spread_costs.entities, values)

    def _add_up(self, parts: Iterable[Part]) -> Spread:
        spread = Spread(len(self.spread_costs.rows), self._present)
        for part in parts:
            spread.add(part)
        return spread

    def _read_again(self, order: Ints) -> Floats | None:
        """Return the cells of the rows that are shown, where all cells were too many to keep."""
        most = MOST_CELLS if self.asked.percentiles else KEPT_CELLS
        some = self.spread_costs.of_rows(order)
        return some.matrix() if some.n_cells <= most else None

    def _columns(self, spread: Spread, excess: Floats, order: Ints, values: Floats | None) -> Iterator[Column]:
        first, by = self.spread_costs.groups.first[self.spread_costs.rows[order]], self.asked.by
        described = {column.name: column for column in describe_groups(self.costs, by, first.tolist())}
        n, mean, high = spread.n[order], spread.mean[order], spread.max[order]
        quartiles = self._find_quartiles(values) if self.asked.percentiles and values is not None else {}
        yield described.pop("name")
        yield Column("n", n.astype(np.int64))
        total = np.full(len(order), np.nan) if self.costs.is_ratio else spread.sum[order]
        for name, numbers in (("sum", total), ("mean", mean), ("min", spread.min[order])):
            yield Column(name, numbers, np.nan)
        yield from (Column(name, numbers, np.nan) for name, numbers in quartiles.items())
        yield Column("max", high, np.nan)
        yield Column("std", spread.std[order], np.nan)
        yield from self._ratios(n, mean, high, spread.std[order], excess[order])
        yield Column("excess", excess[order], np.nan)
        names, slowest = self.spread_costs.entities.names, spread.slowest[order]
        known = ~np.isnan(high) & (slowest >= 0)
        yield Column("slowest", [names[k] if knows else None for k, knows in zip(slowest, known, strict=True)])
        yield Column("percent", self._percent(excess[order]), np.nan)
        yield from described.values()
        if by == "context":
            yield Column("path", [self.costs.tree.path(context) for context in first.tolist()])
            yield Column("context", first)

    def _ratios(self, n: Floats, mean: Floats, high: Floats, std: Floats, excess: Floats) -> Iterator[Column]:
        has_ratio = (mean > 0) & (not self.costs.is_signed)
        with np.errstate(invalid="ignore", divide="ignore"):
            ratios = {
                "cv": std / mean,
                "imbalance": excess / mean,
                "percent_imbalance": np.where(n > 1, 100 * excess / high * n / (n - 1), np.nan),
                "load_balance": np.minimum(mean / high, 1.0),
            }
        yield from (Column(name, np.where(has_ratio, numbers, np.nan), np.nan) for name, numbers in ratios.items())

    def _percent(self, excess: Floats) -> Floats:
        """Return how much of the mean cost of the program each excess is."""
        totals = self.spread_costs.totals
        counted = totals[self.costs.has(totals)] if self.asked.present else np.where(self.costs.has(totals), totals, 0)
        mean = float(counted.mean()) if len(counted) else 0.0
        if self.costs.experiment.whole is not None:  # contexts were selected
            mean = self.costs.whole / max(1, len(counted))
        if self.costs.is_ratio or self.costs.is_signed or not mean > 0:
            return np.full(len(excess), np.nan)
        return 100 * excess / mean

    def _find_quartiles(self, matrix: Floats) -> dict[str, Floats]:
        present = self.costs.has(matrix)
        cells = np.where(present, matrix, np.nan if self._present else 0.0)
        missing = np.isnan(np.where(present, matrix, 0.0)).any(axis=1)
        ordered, n = np.sort(cells, axis=1), np.count_nonzero(~np.isnan(cells), axis=1)  # NaN comes last
        return {name: np.where(missing, np.nan, _interpolate(ordered, n, q)) for name, q in QUARTILES.items()}

    def _say_waiting(self, order: Ints, matrix: Floats | None) -> Iterator[str]:
        """Say which rows of communication are low where all else is high: there, ranks wait for the slowest."""
        if matrix is None or self.asked.by not in ("function", "context") or not self.costs.is_additive:
            return
        n = matrix.shape[1]
        first = self.spread_costs.groups.first[self.spread_costs.rows[order]]
        classes = find_classes(find_activities(self.costs.tree))[first]
        rows = np.flatnonzero(np.isin(classes, COMMUNICATES)) if n >= FEWEST else np.empty(0, np.int64)
        waiting = [row for row in rows.tolist() if _correlate(matrix[row], self.spread_costs.totals) < WAITING]
        if waiting:
            names = [self.costs.tree.name(int(first[row])) for row in waiting]
            some = ", ".join(dict.fromkeys(names[:SOME])) + (", ..." if len(names) > SOME else "")
            over = self.spread_costs.entities.over
            yield f"{some}: high on each {over} where all else is low, so this is waiting for the slowest {over}"

    def _say_none(self, n_rows: int) -> Iterator[str]:
        if not n_rows:
            yield f"no row has a value of {self.costs.metric.name}"


def _interpolate(ordered: Floats, n: Ints, quantile: float) -> Floats:
    """Return a quantile of the first `n` numbers of each row, linear between the two nearest."""
    if not ordered.shape[1]:
        return np.full(len(ordered), np.nan)
    place = quantile * np.maximum(n - 1, 0)
    below = np.floor(place).astype(np.int64)
    rows = np.arange(len(ordered))
    low, high = ordered[rows, below], ordered[rows, np.minimum(below + 1, np.maximum(n - 1, 0))]
    return low + (high - low) * (place - below)


def _correlate(row: Floats, totals: Floats) -> float:
    """Return the correlation of a row with the sum of all others; 0 where one of them is the same everywhere."""
    others = totals - row
    a, b = row - row.mean(), others - others.mean()
    scale = float(np.sqrt((a**2).sum() * (b**2).sum()))
    return float((a * b).sum()) / scale if scale > 0 else 0.0
