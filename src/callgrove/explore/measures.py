"""The columns of rows: costs of one experiment, or of two side by side.

    one experiment     exclusive, inclusive, percent
    two                left, right, difference (left - right), ratio (left / right), in one scope

These are the numbers of the verbs `tree`, `top` and `diff`. A value that is missing is NaN.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from callgrove.analysis.comparison.experiments import left_less_right
from callgrove.analysis.comparison.sides import find_factors
from callgrove.analysis.costs import Costs
from callgrove.arrays import Array, Floats
from callgrove.model.contexts import ContextTree
from callgrove.model.metrics import Scope

__all__ = ["NAME", "Measures", "Pairs"]

Pairs = Sequence[tuple[Array, Array]]  # exclusive and inclusive costs of some rows, in each experiment
ONE = ("exclusive", "inclusive", "percent")
TWO = ("left", "right", "difference", "ratio")
NAME = "name"  # rows can be sorted by it as well


@dataclass(frozen=True)
class Measures:
    """The costs of one or two experiments over one call tree."""

    sides: tuple[Costs, ...]

    @property
    def first(self) -> Costs:
        return self.sides[0]

    @property
    def tree(self) -> ContextTree:
        return self.first.tree

    @property
    def is_difference(self) -> bool:
        return len(self.sides) > 1

    @property
    def has_shares(self) -> bool:
        """Whether rows are parts of a whole, so that percentages and bars mean something."""
        return not self.first.neutral

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of numbers; a ratio is not a share of anything."""
        if self.is_difference:
            return TWO
        return ONE if self.has_shares else ONE[:2]

    @cached_property
    def factors(self) -> list[float]:
        """What costs of each side are multiplied with, so that all are in the unit of the first."""
        return find_factors(self.sides)

    def cells(self, pairs: Pairs, scope: Scope) -> dict[str, Floats]:
        """Return every column of some rows. `scope` is what percentages and differences are of."""
        known = [
            (self._as_floats(costs, exclusive) * factor, self._as_floats(costs, inclusive) * factor)
            for costs, factor, (exclusive, inclusive) in zip(self.sides, self.factors, pairs, strict=True)
        ]
        place = 1 if scope == Scope.INCLUSIVE else 0
        if not self.is_difference:
            share = np.asarray(self.first.percent(known[0][place]), np.float64)
            return dict(zip(ONE, (*known[0], share if self.has_shares else share * np.nan), strict=True))
        left, right = known[0][place], known[1][place]
        difference, ratio = left_less_right(left, right)
        return {"left": left, "right": right, "difference": difference, "ratio": ratio}

    @staticmethod
    def _as_floats(costs: Costs, values: Array) -> Floats:
        """Return costs as numbers; what is absent or missing is NaN."""
        numbers: Floats = values.astype(np.float64)
        return np.where(costs.has(values), numbers, np.nan) if costs.neutral else numbers

    def rank(self, column: str, cells: dict[str, Floats]) -> Floats:
        """Return the numbers by which rows are sorted, the largest first: sizes of costs and differences, how far a
        ratio is from 1. What is missing is the lowest."""
        values = cells[column]
        with np.errstate(divide="ignore", invalid="ignore"):
            if column == "ratio":
                sizes = np.abs(np.log(np.where(values > 0, values, np.nan)))
            else:
                sizes = np.abs(values) if self.has_shares or self.is_difference else values
        return np.where(np.isnan(sizes), -np.inf, sizes)
