"""Metric tables of all files as quantities, their metric rows in each scope, and the columns to show.

    show 1, and 0 and 4, which are hidden    point, function, lexical, inclusive
    show 2                                   point, inclusive
    show 3                                   point, function, lexical

Ids rise from scope to scope, then from statistic to statistic, as in released databases; threads have those of the
first statistic. Views are what is shown of a quantity, each a formula over its statistics:

    none                          nothing
    sum                           Sum
    normal                        Sum, Mean, StdDev, CfVar
    extrema                       Sum, Min, Max
    stats                         all of them
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from callgrove.arrays import ABSENT, Ids
from callgrove.formats.hpcrun.primitives import MetricDescription
from callgrove.formats.hpcrun.regions import readable
from callgrove.formats.hpcrun.values import unit_of
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.formulas import FormulaError, parse
from callgrove.model.metrics import Aggregation, Column, Metric, Scope

__all__ = ["SCOPES", "VARIABLE", "VIEWS", "Quantities", "Quantity", "add_rows", "quantities_of"]


# -- quantities --------------------------------------------------------------------------------------------------------
# A quantity is known by its name and description.
#
# A metric with a formula has no values: it is derived from others, which the formula names by their number in the table
# (`#n`, in 02.00 also `$n` and `@n`). Here formulas name quantities: `$n`.


REFERENCE = re.compile(r"[#$@](\d+)")
VARIABLE = re.compile(r"\$(\d+)")
DEEPEST, LONGEST = 16, 100_000  # formulas over formulas
Table = Sequence[MetricDescription]


@dataclass(frozen=True)
class Quantity:
    """One measured metric, or one that is derived from others: a formula over $number, empty where it is none."""

    name: str
    metric: MetricDescription
    is_derived: bool = False
    formula: str = ""


class Quantities:
    """All quantities; `of_table` gives those of a table."""

    def __init__(self) -> None:
        self.all: list[Quantity] = []
        self.notes: list[str] = []
        self._known: dict[tuple[str, str], int] = {}
        self.of_table: dict[tuple[MetricDescription, ...], Ids] = {}

    def add(self, table: tuple[MetricDescription, ...], where: str) -> Ids:
        """Return the quantity of each metric of a table."""
        if table not in self.of_table:
            numbers = [self._number(metric) for metric in table]
            for number, metric in zip(numbers, table, strict=True):
                if metric.formula and not self.all[number].is_derived:
                    self._set_formula(number, metric, numbers, where)
            self.of_table[table] = np.array(numbers, np.int32)
        return self.of_table[table]

    def _number(self, metric: MetricDescription) -> int:
        key = (readable(metric.name), readable(metric.description))
        if key not in self._known:
            names = {quantity.name for quantity in self.all}
            name, again = key[0], 2
            while name in names:
                name, again = f"{key[0]} [{again}]", again + 1
            self._known[key] = len(self.all)
            self.all.append(Quantity(name, metric))
        return self._known[key]

    def _set_formula(self, number: int, metric: MetricDescription, numbers: Sequence[int], where: str) -> None:
        """Set a formula over quantities, written as $number."""
        text, name = readable(metric.formula), self.all[number].name
        parts = [int(one) for one in REFERENCE.findall(text)]
        formula, problem = text, ""
        if any(part >= len(numbers) for part in parts):
            problem = f"there is no metric {max(parts)} in the table"
        else:
            formula = REFERENCE.sub(lambda match: f"${numbers[int(match[1])]}", text)
            try:
                parse(formula)
            except FormulaError as error:
                problem = str(error)
        if problem:
            self.notes.append(f"{where}: the formula of {name} is left out: {problem}")
        self.all[number] = Quantity(name, metric, True, "" if problem else formula)

    def expand(self, formula: str) -> str | None:
        """Return a formula over measured quantities alone: formulas in it are written out; None where that has no
        end."""
        for _ in range(DEEPEST):
            parts = {int(one) for one in VARIABLE.findall(formula)}
            nested = [self.all[part] for part in parts if self.all[part].is_derived]
            if not nested:
                return formula
            if not all(part.formula for part in nested) or len(formula) > LONGEST:
                return None
            formula = VARIABLE.sub(self._write_out, formula)
        return None  # they refer to each other

    def _write_out(self, match: re.Match[str]) -> str:
        quantity = self.all[int(match[1])]
        return f"({quantity.formula})" if quantity.is_derived else match[0]

    @property
    def measured(self) -> list[int]:
        return [number for number, quantity in enumerate(self.all) if not quantity.is_derived]

    def find(self, name: str) -> int:
        """Return the number of the quantity of that name, or -1."""
        return next((number for number, quantity in enumerate(self.all) if quantity.name == name), ABSENT)


def quantities_of(tables: Iterable[tuple[str, tuple[tuple[MetricDescription, ...], ...]]]) -> Quantities:
    """Return the quantities of the metric tables of all epochs of files, given with their paths, in the order of
    profiles."""
    quantities = Quantities()
    for path, epochs in tables:
        for table in epochs:
            quantities.add(table, path)
    return quantities


# -- metric rows and columns -------------------------------------------------------------------------------------------


SCOPES = (Scope.POINT, Scope.FUNCTION, Scope.LEXICAL, Scope.INCLUSIVE)
STORED = {2: (Scope.POINT, Scope.INCLUSIVE), 3: (Scope.POINT, Scope.FUNCTION, Scope.LEXICAL)}
SHOWN = (1, 2, 3)
COLUMN_SCOPES = (Scope.INCLUSIVE, Scope.FUNCTION, Scope.LEXICAL)
COUNT, SUM, SQUARES, MINIMUM, MAXIMUM = "count", "sum", "sum of squares", "min", "max"
STATISTICS = {  # in the order of their ids
    COUNT: Aggregation.SUM,
    SUM: Aggregation.SUM,
    SQUARES: Aggregation.SUM,
    MINIMUM: Aggregation.MINIMUM,
    MAXIMUM: Aggregation.MAXIMUM,
}
DEVIATION = "sqrt({sum of squares}/{count}-({sum}/{count})^2)"
COLUMNS = {
    "Sum": ("{sum}", (SUM,)),
    "Mean": ("{sum}/{count}", (SUM, COUNT)),
    "StdDev": (DEVIATION, (SUM, COUNT, SQUARES)),
    "CfVar": (f"{DEVIATION}/({{sum}}/{{count}})", (SUM, COUNT, SQUARES)),
    "Min": ("{min}", (MINIMUM,)),
    "Max": ("{max}", (MAXIMUM,)),
}
VIEWS = {
    "none": (),
    "sum": ("Sum",),
    "normal": ("Sum", "Mean", "StdDev", "CfVar"),
    "extrema": ("Sum", "Min", "Max"),
    "stats": tuple(COLUMNS),
}


@dataclass(frozen=True)
class _Ids:
    """The ids of one quantity: that of scope k and statistic s is base + s * scopes + k."""

    base: int
    scopes: tuple[Scope, ...]
    statistics: tuple[str, ...]

    def id(self, scope: Scope, statistic: str | None = None) -> int:
        """Return the id of a statistic in the summary; without one, that in threads."""
        step = 0 if statistic is None else self.statistics.index(statistic)
        return self.base + step * len(self.scopes) + self.scopes.index(scope)

    def words(self, scope: Scope) -> dict[str, str]:
        """Return how formulas name each statistic."""
        return {statistic: f"${self.id(scope, statistic)}" for statistic in self.statistics}


def add_rows(builder: ExperimentBuilder, quantities: Quantities, views: Iterable[str]) -> dict[Scope, Ids]:
    """Add metric rows and columns; return the row of each quantity in each scope, -1 where that is not stored."""
    return _Rows(builder, quantities, [c for c in COLUMNS if any(c in VIEWS[view] for view in views)]).add()


class _Rows:
    def __init__(self, builder: ExperimentBuilder, quantities: Quantities, columns: list[str]) -> None:
        self.builder, self.quantities, self.columns = builder, quantities, columns
        needed = {SUM, *(statistic for column in columns for statistic in COLUMNS[column][1])}
        statistics = tuple(statistic for statistic in STATISTICS if statistic in needed)
        self.ids: dict[int, _Ids] = {}
        base = 0
        for number in quantities.measured:
            scopes = _scopes(quantities.all[number])
            self.ids[number] = _Ids(base, scopes, statistics)
            base += len(scopes) * len(statistics)

    def add(self) -> dict[Scope, Ids]:
        rows = {scope: np.full(len(self.quantities.all), ABSENT, np.int32) for scope in SCOPES}
        for number, ids in self.ids.items():
            for scope in ids.scopes:
                rows[scope][number] = self.builder.add_metric(self._row(number, scope))
        for number, ids in self.ids.items():
            for row in self._statistics(number, ids):
                self.builder.add_metric(row)
        for number, quantity in enumerate(self.quantities.all):
            for column in self._columns(number, quantity):
                self.builder.add_column(column)
        return rows

    def _row(self, number: int, scope: Scope) -> Metric:
        quantity, ids = self.quantities.all[number], self.ids[number]
        metric = quantity.metric
        return Metric(
            quantity.name,
            scope,
            unit=unit_of(quantity.name),
            description=readable(metric.description),
            visible=self._is_shown(quantity),
            show_percent=bool(metric.show_percent),
            number_format=readable(metric.format),
            source_id=ids.id(scope),
            summary_id=ids.id(scope, SUM),
        )

    def _is_shown(self, quantity: Quantity) -> bool:
        return quantity.metric.show in SHOWN and bool(self.columns)

    def _statistics(self, number: int, ids: _Ids) -> Iterator[Metric]:
        """Yield rows that only summaries have."""
        name = self.quantities.all[number].name
        for statistic in (one for one in ids.statistics if one != SUM):
            for scope in ids.scopes:
                yield Metric(
                    name,
                    scope,
                    unit=unit_of(name) if statistic in (MINIMUM, MAXIMUM) else "",
                    statistic=statistic,
                    aggregation=STATISTICS[statistic],
                    visible=False,
                    source_id=ids.id(scope, statistic),
                )

    def _columns(self, number: int, quantity: Quantity) -> Iterator[Column]:
        metric = quantity.metric
        for word in self.columns:
            for scope in (s for s in COLUMN_SCOPES if s in _scopes(quantity)):
                formula = self._formula(number, quantity, word, scope)
                if formula:
                    yield Column(
                        quantity.name,
                        scope,
                        formula,
                        description=readable(metric.description),
                        statistic=word,
                        visible=self._is_shown(quantity),
                        show_percent=bool(metric.show_percent),
                        number_format=readable(metric.format),
                    )

    def _formula(self, number: int, quantity: Quantity, word: str, scope: Scope) -> str | None:
        """Return the formula of a view over ids of the summary. What is derived is derived from sums."""
        if not quantity.is_derived:
            return COLUMNS[word][0].format(**self.ids[number].words(scope))
        text = self.quantities.expand(quantity.formula) if word == "Sum" and quantity.formula else None
        parts = {int(one) for one in VARIABLE.findall(text or "")}
        if text is None or any(scope not in self.ids[part].scopes for part in parts):
            return None
        return VARIABLE.sub(lambda match: f"${self.ids[int(match[1])].id(scope, SUM)}", text)


def _scopes(quantity: Quantity) -> tuple[Scope, ...]:
    return STORED.get(quantity.metric.show, SCOPES)
