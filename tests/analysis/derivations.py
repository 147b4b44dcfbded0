"""Formulas in Python, and experiments that have derived metrics of every kind: nothing here reads a language."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from callgrove.arrays import Floats
from callgrove.model.derived import Cells, Derivation, Unavailable, When, derive_metric
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Metric, Scope

__all__ = ["KINDS", "RATIOS", "SUMS", "Formula", "add_formulas", "evaluations", "with_every_kind"]

SUMS = ("weighted", "each", "each_inclusive")
RATIOS = ("ratio", "share", "part", "twice_ratio")
KINDS = (*SUMS, *RATIOS)  # all that `with_every_kind` adds and that has values


@dataclass(frozen=True)
class Formula(Derivation):
    """A formula that is a Python function of cells. `asked` counts how often it was evaluated."""

    language: ClassVar[str] = "python"
    text: str
    when: When
    function: Callable[[Cells], Floats]
    operands: tuple[str, ...] = ()
    is_linear: bool = False
    asked: list[int] = field(default_factory=list)

    def evaluate(self, cells: Cells) -> Floats:
        self.asked.append(1)
        return self.function(cells)


def add_formulas(experiment: Experiment, formulas: dict[str, Derivation], unit: str = "") -> Experiment:
    """The experiment with derived metrics behind its own ones."""
    row = Metric("", Scope.NONE, unit=unit)
    more = tuple(derive_metric(name, formula, row, adds_up=True) for name, formula in formulas.items())
    metrics = replace(experiment.metrics, rows=(*experiment.metrics.rows, *more))
    return replace(experiment, metrics=metrics, values=replace(experiment.values, metrics=metrics))


def with_every_kind(experiment: Experiment, a: str, b: str) -> Experiment:
    """The experiment with a sum of two metrics, their ratio after and before adding up, and formulas that fail."""

    def ratio(cells: Cells) -> Floats:
        return np.where(cells.of(b) == 0, np.nan, cells.of(a) / cells.of(b))

    def each(cells: Cells) -> Floats:  # 0/0 counts as 0, x/0 is missing
        top, bottom = cells.of(a), cells.of(b)
        return np.where((top == 0) & (bottom == 0), 0.0, np.where(bottom == 0, np.nan, top / bottom))

    both = (a, b)
    return add_formulas(
        experiment,
        {
            "weighted": Formula(f"2 {a} + {b}", When.AFTER, lambda c: 2 * c.of(a) + c.of(b), both, is_linear=True),
            "ratio": Formula(f"{a} / {b}", When.AFTER, ratio, both),
            "share": Formula(f"{a} / total", When.AFTER, lambda c: c.of(a) / c.total(a), (a,)),
            "part": Formula(f"{a} / all profiles", When.AFTER, lambda c: c.of(a) / c.of_all_profiles(a), (a,)),
            "each": Formula(f"each({a} / {b})", When.EACH, each, both),
            "each_inclusive": Formula(f"each_incl({a} / {b})", When.EACH_INCLUSIVE, each, both),
            "twice_ratio": Formula("2 ratio", When.AFTER, lambda c: 2 * c.of("ratio"), ("ratio",)),
            "broken": Unavailable("a +* b", When.AFTER, "expected a number at character 4"),
        },
    )


def evaluations(experiment: Experiment) -> dict[str, int]:
    """How often each formula was evaluated that was evaluated at all."""
    formulas = {m.name: m.derivation for m in experiment.metrics if isinstance(m.derivation, Formula)}
    return {name: len(formula.asked) for name, formula in formulas.items() if formula.asked}
