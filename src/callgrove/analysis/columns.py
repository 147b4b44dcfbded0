"""The columns that a profiler wants shown, as formulas over statistics of threads.

A column is a formula whose variables are ids of the file (`Metric.summary_id`), or of other columns. Here they become
(quantity, scope, statistic); `statistics` computes these for the rows of a view. What a view shows:

    visible columns only; where there are several exclusive scopes, one of them (function before lexical)
    where a file has no columns, the inclusive and the exclusive cost of every visible quantity
    metrics that a user wants to see beside the one that is shown
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from callgrove.analysis.costs import NESTED, RowCells, Rows
from callgrove.arrays import Array, Floats, Ints
from callgrove.errors import UsageError
from callgrove.model.computed_values import Recipe, lacks_operand, recipe
from callgrove.model.derived import TotalCells
from callgrove.model.experiment import Experiment
from callgrove.model.formulas import Call, Expression, FormulaError, Variable, evaluate, fold, parse, postorder
from callgrove.model.metrics import Aggregation, Column, Metrics, Scope
from callgrove.model.table import Column as TableColumn

__all__ = ["CostColumn", "Quantity", "ShownColumns", "Statistics", "columns_to_show"]


# -- statistics over threads, for the rows of a view -------------------------------------------------------------------
# A row may stand for many contexts (all calls of a function). What a thread spends there is added up first, then
# threads are combined: the mean of a function is that of its cost per thread, not of the costs of its contexts.
#
# Statistics are computed from threads, also where a summary stores them: genuine ones are known to be wrong. A sum over
# all threads is taken from the summary, which is right; so is everything where nothing is known of single threads.


COMPUTED = ("count", "sum of squares", "min", "max")


@dataclass(frozen=True)
class Quantity:
    """A quantity in a scope; `statistic` over threads, empty is the sum."""

    name: str
    scope: Scope
    statistic: str = ""

    @property
    def inclusive(self) -> Quantity:
        """Return this quantity in inclusive scope: what percentages are of."""
        return replace(self, scope=Scope.INCLUSIVE)


@dataclass(frozen=True)
class Statistics:
    """Quantities of an experiment, over all profiles or those given."""

    experiment: Experiment
    profiles: Ints | None
    cells: TotalCells | None = None  # what has been computed of formulas already

    def of(self, quantities: Iterable[Quantity], rows: Rows) -> dict[Quantity, Floats]:
        """Return one number per row, and one more: that of all roots together, in inclusive scope."""
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
            for base, statistics in self._over_threads(list(by_threads), rows).items():
                out.update({quantity: statistics[quantity.statistic] for quantity in by_threads[base]})
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

    @cached_property
    def _cells(self) -> TotalCells:
        return self.cells or TotalCells(self.experiment.values, Scope.EXCLUSIVE, self.profiles)

    def _compute_derived(self, quantity: Quantity, rows: Rows) -> Floats:
        """Return a derived metric of the rows; what does not add up has no value of all roots."""
        cells = RowCells(self._cells, quantity.scope, rows)
        adds_up = self.experiment.metrics.first(quantity.name).aggregation != Aggregation.NONE
        return np.append(cells.of(quantity.name), cells.total(quantity.name) if adds_up else np.nan)

    def _sum(self, quantity: Quantity, rows: Rows) -> Floats:
        if self.experiment.is_computed(quantity.name):
            return self._compute_derived(quantity, rows)
        way = self._recipe(quantity, rows)
        if way is None:
            return np.full(rows.n + 1, np.nan)
        values = way.apply(self.experiment.values.totals(way.stored, self.profiles), self.experiment.contexts)
        total = self._reduce(values, quantity.scope, rows, way.metric.aggregation)
        return (
            np.where(total == way.metric.aggregation.neutral, np.nan, total)
            if way.metric.aggregation.neutral
            else total
        )

    def _read_stored(self, quantity: Quantity, rows: Rows) -> Floats:
        """Return a statistic that only a stored summary has; it says nothing about a choice of profiles."""
        metrics, profiles = self.experiment.metrics, self.experiment.profiles
        summaries = np.union1d(profiles.summaries, profiles.aggregates)
        key = (quantity.name, quantity.scope, quantity.statistic)
        row = next((k for k, m in enumerate(metrics) if (m.name, m.scope, m.statistic) == key), None)
        if row is None or len(summaries) != 1 or self.profiles is not None:
            return np.full(rows.n + 1, np.nan)
        aggregation = metrics[row].aggregation
        if aggregation == Aggregation.NONE:
            aggregation = Aggregation.SUM
        numbers = self._reduce(self.experiment.values.dense(int(summaries[0]), row), quantity.scope, rows, aggregation)
        return np.where(np.isinf(numbers), 0.0, numbers)

    def _reduce(self, values: Array, scope: Scope, rows: Rows, aggregation: Aggregation) -> Floats:
        """Return values of contexts as values of rows, and of all roots."""
        roots = values[self.experiment.contexts.roots].astype(np.float64)
        whole = np.full(1, aggregation.neutral)
        aggregation.combine_at(whole, np.zeros(len(roots), np.int64), roots)
        return np.append(rows.combine(values.astype(np.float64), scope, aggregation), whole)

    def _over_threads(self, bases: list[Quantity], rows: Rows) -> dict[Quantity, dict[str, Floats]]:
        """Return statistics over the threads, in one pass: each is read once, and reduced to the rows of the view."""
        e = self.experiment
        ways = {base: way for base in bases if (way := self._recipe(base, rows)) is not None}
        stored = np.unique([way.stored for way in ways.values()]).astype(np.int64)
        sums = {base: _Accumulated(rows.n + 1) for base in ways}
        for profile in (e.profiles.measured if self.profiles is None else self.profiles).tolist():
            parts = [block.triples() for block in e.values.blocks_without_fillers(np.array([profile]), stored)]
            for base, way in ways.items():
                values = np.zeros(len(e.contexts))
                for part in parts:
                    mine = part.take(part.metric == way.stored)
                    np.add.at(values, mine.context, mine.value)
                whole = way.apply(values, e.contexts)
                sums[base].add(self._reduce(whole, base.scope, rows, Aggregation.SUM))
        none = dict.fromkeys(COMPUTED, np.full(rows.n + 1, np.nan))
        return {base: sums[base].statistics() if base in sums else none for base in bases}


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


# -- columns to show ---------------------------------------------------------------------------------------------------


MARKS = {Scope.INCLUSIVE: " (I)", Scope.NONE: ""}  # all others are exclusive in one way or another
EXCLUSIVE_FIRST = (Scope.EXCLUSIVE, Scope.FUNCTION, Scope.LEXICAL, Scope.POINT)
SAME_UNIT = ("", "Sum", "Mean", "StdDev", "Min", "Max")
SPREADS = ("StdDev", "CfVar")
TAKEN = ("context", "depth", "name", "kind", "file", "line", "module", "exclusive", "inclusive", "percent", "source")
TAKEN_IN_TABLES = ("share", "where")  # for people, who get no other names than programs do
NEAR = 1e-6  # relative; more than a total by so much is rounding
LARGEST = 10_000  # terms of a formula, with those of the columns that it refers to


@dataclass(frozen=True, eq=False)
class CostColumn(TableColumn):
    """A column of a table with what is needed to print it: `total` is what percentages are of, None without.
    `is_derived`: a cell without a value is one that a formula has none for."""

    number_format: str = ""
    unit: str = ""
    total: float | None = None
    is_derived: bool = False


@dataclass(frozen=True)
class Shown:
    """One column: its name, and its formula over numbered quantities."""

    name: str
    column: Column
    formula: Expression
    unit: str = ""


@dataclass(frozen=True)
class ShownColumns:
    """All columns of a view, over some profiles. `quantities` are what the formulas' variables mean."""

    experiment: Experiment
    profiles: Ints | None
    columns: tuple[Shown, ...] = field(default=())
    quantities: tuple[Quantity, ...] = field(default=())
    left_out: tuple[str, ...] = field(default=())  # columns that cannot be computed
    unavailable: tuple[str, ...] = field(default=())  # metrics whose formulas are not evaluated
    cells: TotalCells | None = None  # what has been computed of formulas already

    def with_metrics(self, names: Iterable[str], scope: Scope) -> ShownColumns:
        """Return these columns and one for each of some metrics, which is called as the metric is."""
        metrics, quantities = self.experiment.metrics, list(self.quantities)
        columns = list(self.columns)
        for name in names:
            first = metrics.first(name)
            column = Column(name, Scope.NONE, "", number_format=first.number_format)
            taken = (*TAKEN, *TAKEN_IN_TABLES, *(one.name for one in columns))
            shown = f"{name} (metric)" if name in taken else name
            columns.append(Shown(shown, column, Variable(len(quantities)), first.unit))
            quantities.append(Quantity(name, scope))
        return replace(self, columns=_drop_repeated(columns), quantities=tuple(quantities))

    def of_rows(self, rows: Rows) -> tuple[CostColumn, ...]:
        """Return the columns for the rows of a view; no value is an empty cell."""
        shared = {k for shown in self.columns if shown.column.show_percent for k in shown.formula.variables()}
        inclusive = {k: self.quantities[k].inclusive for k in sorted(shared)}  # what shares are of
        wanted = [*self.quantities, *inclusive.values()]
        statistics = Statistics(self.experiment, self.profiles, self.cells).of(wanted, rows)
        values = {k: statistics[q][:-1] for k, q in enumerate(self.quantities)}
        totals = {k: statistics[q][-1:] for k, q in inclusive.items()}
        return tuple(self._column(shown, values, totals, rows.n) for shown in self.columns)

    def _column(self, shown: Shown, values: Mapping[int, Floats], totals: Mapping[int, Floats], n: int) -> CostColumn:
        column = shown.column
        cells = self._evaluate(shown, values, n)
        total = float(self._evaluate(shown, totals, 1)[0]) if column.show_percent and self._adds_up(column) else None
        if total is not None and not _are_shares(cells, total):
            total = None
        is_derived = column.name in self.experiment.metrics.derived
        return CostColumn(shown.name, cells, np.nan, column.number_format, shown.unit, total, is_derived)

    def _adds_up(self, column: Column) -> bool:
        """Return whether values are shares of a whole: a minimum or maximum is not part of another."""
        metrics = self.experiment.metrics
        return column.name not in metrics.quantities or metrics.first(column.name).aggregation == Aggregation.SUM

    def _evaluate(self, shown: Shown, values: Mapping[int, Floats], n: int) -> Floats:
        cells = np.broadcast_to(evaluate(shown.formula, values), n).copy()
        cells[~np.isfinite(cells)] = np.nan
        if shown.column.statistic in SPREADS:  # equal values may seem to spread by less than nothing: rounding
            used = shown.formula.variables()
            touched: Array = np.logical_or.reduce([values[k] != 0 for k in used]) if used else np.zeros(n, np.bool_)
            cells[np.isnan(cells) & touched] = 0.0
        return cells


def _are_shares(cells: Floats, total: float) -> bool:
    """Return whether all cells are parts of the total; differences are not, as some of them lie below zero."""
    known = cells[~np.isnan(cells)]
    return bool(np.all(known >= -NEAR * abs(total)) and np.all(known <= (1 + NEAR) * total))


def columns_to_show(experiment: Experiment, profiles: Ints | None = None) -> ShownColumns:
    """Return the columns to show of an experiment, over all profiles or those given."""
    reader = _Reader(experiment.metrics)
    shown, left_out = [], []
    for column in _choose_columns(experiment.metrics.columns):
        formula = reader.formula(column)
        if formula is None:
            left_out.append(_name(column))
        else:
            shown.append(Shown(_name(column), column, formula, _unit(experiment.metrics, column)))
    unavailable = (*experiment.metrics.unavailable, *_list_unmeasured(experiment, profiles))
    if not shown:
        shown = list(_list_plain_columns(experiment.metrics, reader, unavailable))
    quantities = tuple(reader.quantities)
    return ShownColumns(experiment, profiles, _drop_repeated(shown), quantities, tuple(left_out), unavailable)


def _list_unmeasured(experiment: Experiment, profiles: Ints | None) -> list[str]:
    """Return the formulas over what one of several runs did not measure."""
    chosen, metrics = experiment.profiles.measured if profiles is None else profiles, experiment.metrics
    formulas = [name for name in metrics.derived if name not in metrics.unavailable]
    return [name for name in formulas if lacks_operand(experiment.values, name, chosen).any()]


def _drop_repeated(columns: Sequence[Shown]) -> tuple[Shown, ...]:
    """Return columns of different names; of two with the same one, the first counts."""
    names = {one.name: one for one in reversed(columns)}
    return tuple(one for one in columns if names[one.name] is one)


def _name(column: Column) -> str:
    statistic = f":{column.statistic}" if column.statistic else ""
    mark = MARKS.get(column.scope, " (E)") or (" (metric)" if column.name in TAKEN and not statistic else "")
    return f"{column.name}{statistic}{mark}"


def _unit(metrics: Metrics, column: Column) -> str:
    known = column.name in metrics.quantities and column.statistic in SAME_UNIT
    return metrics.first(column.name).unit if known else ""


def _choose_columns(columns: Iterable[Column]) -> list[Column]:
    """Return the visible columns; of several exclusive ones with the same name the first by scope."""
    visible = [column for column in columns if column.visible]
    best: dict[str, int] = {}
    for column in visible:
        if column.scope in EXCLUSIVE_FIRST:
            rank = EXCLUSIVE_FIRST.index(column.scope)
            best[_name(column)] = min(rank, best.get(_name(column), rank))
    return [c for c in visible if c.scope not in EXCLUSIVE_FIRST or EXCLUSIVE_FIRST.index(c.scope) == best[_name(c)]]


def _list_plain_columns(metrics: Metrics, reader: _Reader, unavailable: Sequence[str]) -> Iterable[Shown]:
    """Yield both costs of every visible quantity that has values."""
    for name in (name for name in metrics.shown if name not in unavailable):
        first = metrics.first(name)
        for scope in (Scope.INCLUSIVE, Scope.EXCLUSIVE):
            try:
                possible = first.composite is None and (first.is_derived or recipe(metrics, name, scope) is not None)
            except UsageError:
                possible = False
            if possible:
                shares = first.show_percent and first.aggregation == Aggregation.SUM  # no minimum is part of another
                column = Column(name, scope, "", show_percent=shares, number_format=first.number_format)
                yield Shown(_name(column), column, reader.variable(Quantity(name, scope)), first.unit)


class _Reader:
    """Formulas of columns, with numbered quantities instead of ids of the file."""

    def __init__(self, metrics: Metrics) -> None:
        self._rows = {
            id_: Quantity(row.name, row.scope, row.statistic)
            for row in reversed(metrics.rows)
            if (id_ := row.source_id if row.summary_id is None else row.summary_id) is not None
        }
        self._columns = {c.source_id: c for c in reversed(metrics.columns) if c.source_id is not None}
        self.quantities: dict[Quantity, int] = {}

    def variable(self, quantity: Quantity) -> Expression:
        return Variable(self.quantities.setdefault(quantity, len(self.quantities)))

    def formula(self, column: Column) -> Expression | None:
        """Return a formula; None where it cannot be read, or refers to what is not there."""
        try:
            return self._expand(column, ())
        except (FormulaError, KeyError):
            return None

    def _expand(self, column: Column, above: tuple[Column, ...]) -> Expression:
        """Return the formula of a column with those of the columns that it refers to in their places."""
        if column in above:
            raise KeyError(column.name)

        def combine(node: Expression, args: Sequence[Expression]) -> Expression:
            if isinstance(node, Call):
                return Call(node.name, tuple(args))
            if not isinstance(node, Variable) or node.id is None:
                return node
            if node.id in self._rows:
                return self.variable(self._rows[node.id])
            return self._expand(self._columns[node.id], (*above, column))

        expression = fold(parse(column.formula), combine)
        if len(above) > 0 and len(postorder(expression)) > LARGEST:
            raise KeyError(column.name)
        return expression
