"""Which metrics of an experiment go into measurement files, and how their values become those of nodes.

Files hold what was measured at a node itself: the scope `point`, or `exclusive`, computed where it is not stored.
Values in `point` are taken as they are unless some belong to contexts without a place.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from callgrove.errors import UsageError
from callgrove.formats.hpcrun.metrics import description_of, is_int, renumbered
from callgrove.formats.hpcrun.primitives import REAL, MetricDescription
from callgrove.formats.losses import losses_of_formulas, some
from callgrove.model.arrays import Array, Bools, Floats, Ids, Ints, Offsets
from callgrove.model.contexts import ContextTree
from callgrove.model.metrics import Aggregation, Metric, Metrics, Scope
from callgrove.model.scopes import Recipe, recipe

__all__ = ["Column", "MetricPlan"]

MOST_METRICS = 1 << 16
INTEGER = 1
OWN_FORMULA = re.compile(r"[\w\s.,()+*/^#$@-]*")  # numbers, names of functions and of metrics, operators


@dataclass(frozen=True)
class Column:
    """One metric of one file: nodes with a value, and the eight bytes of each."""

    description: MetricDescription
    node: Ids
    raw: Offsets


@dataclass
class MetricPlan:
    """The metrics that are written, in order; `row_of` gives the number of an experiment's row in the files."""

    rows: list[Metric]
    recipes: list[Recipe | None]
    row_of: dict[int, int]
    left_out: list[str]
    formulas: dict[int, str] = field(default_factory=dict)
    unknown_formulas: list[Metric] = field(default_factory=list)  # derived metrics in the language of another tool
    is_real: Bools = field(default_factory=lambda: np.zeros(0, np.bool_))
    written: Floats = field(default_factory=lambda: np.zeros(0))  # the sum of all that went into columns
    n_written: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    has_values: Bools = field(default_factory=lambda: np.zeros(0, np.bool_))

    @classmethod
    def of(cls, metrics: Metrics, tree: ContextTree, is_old: bool) -> MetricPlan:
        plan = cls([], [], {}, [])
        formulas: list[int] = []
        for quantity in metrics.quantities:
            way = _way(metrics, quantity, tree.n_listed < len(tree))
            row = metrics.find(quantity, Scope.NONE)
            if way is not None and len(plan.rows) < MOST_METRICS - 1:
                plan.row_of[way.stored] = len(plan.rows)
                plan.rows.append(way.metric)
                plan.recipes.append(None if way.metric.scope in (Scope.POINT, Scope.EXCLUSIVE) else way)
            elif row is not None and metrics[row].is_derived and OWN_FORMULA.fullmatch(metrics[row].formula):
                plan.row_of[row] = len(plan.rows)
                formulas.append(len(plan.rows))
                plan.rows.append(metrics[row])
                plan.recipes.append(None)
            elif metrics.first(quantity).is_derived:
                plan.unknown_formulas.append(metrics.first(quantity))
            else:
                plan.left_out.append(quantity)
        sign = "$" if is_old else "#"
        plan.formulas = {k: renumbered(plan.rows[k].formula, plan.row_of, sign) for k in formulas}
        plan.is_real = np.zeros(len(plan.rows), np.bool_)
        plan.has_values, plan.written = np.zeros(len(plan.rows), np.bool_), np.zeros(len(plan.rows))
        plan.n_written = np.zeros(len(plan.rows), np.int64)
        return plan

    def note(self, row: int, values: Array) -> None:
        """Values of a row are coming: reals, or integers that only reals can hold, make the metric real."""
        self.has_values[row] = True
        if values.dtype.kind == "f" or (values.dtype.kind == "i" and len(values) and int(values.min()) < 0):
            self.is_real[row] = True

    def losses(self) -> Iterator[str]:
        yield from losses_of_formulas(self.unknown_formulas)
        if self.left_out:
            yield f"metrics {some(self.left_out)}: files hold sums over nodes only"
        computed = [m.name for m, way in zip(self.rows, self.recipes, strict=True) if way is not None]
        if computed:
            yield f"scopes of {some(computed)}: exclusive values are stored"

    def column(self, row: int, context: Ids, value: Array, position: Ids, tree: ContextTree) -> Column:
        """One metric of one profile. `position` is the node of each context; equal nodes add up."""
        way = self.recipes[row]
        if not (listed := tree.listed[context]).all():  # the tree has the cost of contexts that it does not list
            context, value = context[listed], value[listed]
        if way is not None:
            dense = np.zeros(len(tree), np.int64 if value.dtype.kind in "iu" else np.float64)
            np.add.at(dense, context, value.astype(dense.dtype))
            dense = way.apply(dense, tree)
            context = np.flatnonzero(dense).astype(np.int32)
            value = dense[context]
        is_real = self._writes_real(row, value)
        kind = np.float64 if is_real else np.uint64
        node, inverse = np.unique(position[context], return_inverse=True)
        total = np.zeros(len(node), kind)
        with np.errstate(over="ignore", invalid="ignore"):
            np.add.at(total, inverse, value.astype(kind))
        described = description_of(self.rows[row], REAL if is_real else INTEGER, self.formulas.get(row, ""))
        stored, period = _without_period(total, described.period)
        described = replace(described, period=period)
        kept = stored != 0
        with np.errstate(over="ignore", invalid="ignore"):
            self.written[row] += float(stored[kept].sum(dtype=np.float64)) * max(1, period)
        self.n_written[row] += int(kept.sum())
        return Column(described, node[kept].astype(np.int32), stored[kept].view(np.uint64))

    def _writes_real(self, row: int, value: Array) -> bool:
        if not self.has_values[row]:
            return not is_int(self.rows[row])
        negative = value.dtype.kind in "if" and len(value) and value.min() < 0
        return bool(self.is_real[row] or negative)


def _without_period(values: Array, period: int) -> tuple[Array, int]:
    """What to store so that stored times period is the value; where nothing is, the period becomes 1."""
    if period <= 1 or not len(values):
        return values, period
    stored = values // np.uint64(period) if values.dtype.kind == "u" else values / np.float64(period)
    again = stored * values.dtype.type(period)
    return (stored, period) if np.array_equal(again, values) and stored.all() else (values, 1)


def _way(metrics: Metrics, quantity: str, has_elided: bool) -> Recipe | None:
    """How to get what was measured at each context itself."""
    point = metrics.find(quantity, Scope.POINT)
    try:
        way = (
            Recipe(point, metrics[point], Scope.POINT)
            if point is not None and not has_elided
            else recipe(metrics, quantity, Scope.EXCLUSIVE)
        )
    except UsageError:
        return None
    fits = way.metric.aggregation == Aggregation.SUM and way.metric.composite is None and way.metric.scope != Scope.NONE
    return way if fits else None
