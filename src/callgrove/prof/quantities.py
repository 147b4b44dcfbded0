"""Metric tables of all files as quantities: a quantity is known by its name and description.

A metric with a formula has no values: it is derived from others, which the formula names by their number in the table
(`#n`, in 02.00 also `$n` and `@n`). Here formulas name quantities: `$n`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from callgrove.formats.hpcrun.primitives import MetricDescription
from callgrove.formats.hpcrun.regions import readable
from callgrove.model.arrays import ABSENT, Ids
from callgrove.model.formulas import FormulaError, parse

__all__ = ["VARIABLE", "Quantities", "Quantity", "quantities_of"]

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
        """The quantity of each metric of a table."""
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
        """A formula over quantities, written as $number."""
        text, name = readable(metric.formula), self.all[number].name
        parts = [int(one) for one in REFERENCE.findall(text)]
        formula, problem = text, ""
        if any(part >= len(numbers) for part in parts):
            problem = f"there is no metric {max(parts)} in the table"
        else:
            formula = REFERENCE.sub(lambda found: f"${numbers[int(found[1])]}", text)
            try:
                parse(formula)
            except FormulaError as error:
                problem = str(error)
        if problem:
            self.notes.append(f"{where}: the formula of {name} is left out: {problem}")
        self.all[number] = Quantity(name, metric, True, "" if problem else formula)

    def expand(self, formula: str) -> str | None:
        """A formula over measured quantities alone: formulas in it are written out; None where that has no end."""
        for _ in range(DEEPEST):
            parts = {int(one) for one in VARIABLE.findall(formula)}
            nested = [self.all[part] for part in parts if self.all[part].is_derived]
            if not nested:
                return formula
            if not all(part.formula for part in nested) or len(formula) > LONGEST:
                return None
            formula = VARIABLE.sub(self._write_out, formula)
        return None  # they refer to each other

    def _write_out(self, found: re.Match[str]) -> str:
        quantity = self.all[int(found[1])]
        return f"({quantity.formula})" if quantity.is_derived else found[0]

    @property
    def measured(self) -> list[int]:
        return [number for number, quantity in enumerate(self.all) if not quantity.is_derived]

    def named(self, name: str) -> int:
        """The quantity of that name, or -1."""
        return next((number for number, quantity in enumerate(self.all) if quantity.name == name), ABSENT)


def quantities_of(tables: Iterable[tuple[str, tuple[tuple[MetricDescription, ...], ...]]]) -> Quantities:
    """Of the metric tables of all epochs of files, given with their paths, in the order of profiles."""
    found = Quantities()
    for path, epochs in tables:
        for table in epochs:
            found.add(table, path)
    return found
