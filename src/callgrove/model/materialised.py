"""Derived metrics as measured ones: their formulas are computed, and what they come to is given like stored values.

    materialise(experiment, names) -> Experiment        the same rows; those named have values and no formula any more

Who cannot keep a formula keeps its values: targets without a place for formulas, operations on inputs whose formulas
differ. That is right only for what adds up (`is_storable`): a ratio of sums is not a sum of ratios.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

import numpy as np

from callgrove.arrays import Ints
from callgrove.errors import CallgroveError, UsageError
from callgrove.model.books import KeepsBooks
from callgrove.model.derived import TotalCells, derive_blocks
from callgrove.model.experiment import Experiment, replace_metrics
from callgrove.model.metrics import FORMULA, Aggregation, Metric, Scope
from callgrove.model.values import Block, SparseBlock, Values, blocks_without_fillers, has_fillers

__all__ = ["ComputedValues", "is_storable", "materialise"]


def is_storable(experiment: Experiment, quantity: str) -> bool:
    """Return whether a derived metric has values that add up as measured ones do."""
    metrics, metric = experiment.metrics, experiment.metrics.first(quantity)
    formula = metric.derivation
    if formula is None or quantity in metrics.unavailable or not formula.adds_plainly:
        return False
    is_sum = metric.aggregation == Aggregation.SUM and metric.scope in (Scope.EXCLUSIVE, Scope.INCLUSIVE)
    return is_sum and (not len(experiment.profiles.aggregates) or _has_values(experiment, quantity))


def _has_values(experiment: Experiment, quantity: str) -> bool:
    """Return whether a derived metric can be computed where only values of all profiles together are known."""
    scope, measured = experiment.metrics.first(quantity).scope, experiment.profiles.measured
    row = experiment.metrics.find(quantity, scope)
    try:
        next(derive_blocks(experiment.values, measured[:1], np.array([row]), measured), None)
    except UsageError:
        return False
    return True


def materialise(experiment: Experiment, quantities: Collection[str]) -> Experiment:
    """Return the experiment with values in place of some formulas, computed when they are asked for."""
    metrics = experiment.metrics
    rows = np.array([k for k, m in enumerate(metrics) if m.derivation is not None and m.name in quantities], np.int64)
    if not len(rows):
        return experiment
    chosen = set(rows.tolist())
    measured = tuple(_as_measured(m) if row in chosen else m for row, m in enumerate(metrics))
    backend = ComputedValues(experiment.values, rows)
    whole = None if experiment.whole is None else materialise(experiment.whole, quantities)
    made = replace_metrics(replace(experiment, whole=None), replace(metrics, rows=measured))
    return replace(made, values=replace(made.values, backend=backend), whole=whole)


def _as_measured(metric: Metric) -> Metric:
    said = (*(pair for pair in metric.attributes if pair[0] != FORMULA), (FORMULA, metric.formula))
    return replace(metric, formula="", derivation=None, dtype=_spell_double(metric.dtype), attributes=said)


def _spell_double(dtype: str) -> str:
    """Return the name of doubles, as the file of a metric spells types."""
    return "DOUBLE" if dtype.isupper() else "double"


class ComputedValues:
    """The values of an experiment, and those of some of its derived metrics beside them, under the same rows."""

    def __init__(self, values: Values, rows: Ints) -> None:
        self._values, self._rows, self._inner = values, rows, values.backend
        self._across: list[TotalCells] = []

    @property
    def problems(self) -> list[CallgroveError]:
        return self._inner.problems

    @property
    def has_fillers(self) -> bool:
        return has_fillers(self._inner)

    def start_books(self) -> None:
        """Begin to add up what is computed from other experiments, where the values are such."""
        if isinstance(self._inner, KeepsBooks):
            self._inner.start_books()

    def differences(self) -> Iterator[str]:
        """Yield what these other experiments have lost."""
        if isinstance(self._inner, KeepsBooks):
            yield from self._inner.differences()

    def n_stored(self) -> int | None:
        return None

    def summarises(self, metric: int) -> bool:
        return metric not in self._rows and self._inner.summarises(metric)

    def profile(self, profile: int, metrics: Ints | None = None) -> SparseBlock:
        stored = self._choose_stored(metrics)
        parts = [] if stored is not None and not len(stored) else [self._inner.profile(profile, stored)]
        parts += (block.triples() for block in self._compute(np.array([profile]), metrics))
        return SparseBlock.concatenate([part for part in parts if len(part)])

    def context(self, context: int) -> SparseBlock:
        parts = [self._inner.context(context)]
        computed = (block.triples() for block in self._compute(self._values.profiles.measured, None))
        parts += (part.take(part.context == context) for part in computed)
        return SparseBlock.concatenate([part for part in parts if len(part)])

    def blocks(self, profiles: Ints | None = None, metrics: Ints | None = None) -> Iterator[Block]:
        stored = self._choose_stored(metrics)
        if stored is None or len(stored):
            yield from self._inner.blocks(profiles, stored)
        yield from self._compute(profiles, metrics)

    def blocks_without_fillers(self, profiles: Ints | None = None, metrics: Ints | None = None) -> Iterator[Block]:
        stored = self._choose_stored(metrics)
        if stored is None or len(stored):
            yield from blocks_without_fillers(self._inner, profiles, stored)
        yield from self._compute(profiles, metrics)

    def _choose_stored(self, metrics: Ints | None) -> Ints | None:
        return None if metrics is None else np.setdiff1d(metrics, self._rows)

    def _compute(self, profiles: Ints | None, metrics: Ints | None) -> Iterator[Block]:
        """Yield what formulas come to; stored summaries are of other values, and have none."""
        known = self._values.profiles
        chosen = known.measured if profiles is None else profiles[~known.is_summary[profiles]]
        rows = self._rows if metrics is None else np.intersect1d(metrics, self._rows)
        if not len(rows) or not len(chosen):
            return iter(())
        return derive_blocks(self._values, chosen, rows, known.measured, self._across)
