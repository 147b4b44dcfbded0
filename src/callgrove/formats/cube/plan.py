"""Where each metric, context and place of an experiment goes in a Cube file.

Of a quantity one row is written: the inclusive one where there is one, else the exclusive, else the point one; the
other scopes are computed from it by whoever reads the file. Ids are 0, 1, 2, ... without gaps, because CubeLib needs
that; the experiment's own ids are kept where they are such. Elided contexts have no place in a call tree.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from callgrove.formats.cube.metric_words import CubeMetric
from callgrove.formats.cube.traversal import wide_order
from callgrove.formats.cube.value_types import ValueType, value_type
from callgrove.formats.cube.words import DERIVED, GHOST, SCOPES, VOID, WIDE
from callgrove.model.arrays import ABSENT, Ids, Ints
from callgrove.model.contexts import ContextTree
from callgrove.model.metrics import Aggregation, Metrics, Scope

__all__ = ["CnodePlan", "MetricPlan", "PlannedMetric", "dense_ids", "unique_name"]

UNFIT = re.compile(r"[^A-Za-z0-9_.:+-]+")
CHOICE = (Scope.INCLUSIVE, Scope.EXCLUSIVE, Scope.POINT, Scope.NONE)
TYPES = {Scope.INCLUSIVE: "INCLUSIVE", Scope.EXCLUSIVE: "EXCLUSIVE", Scope.POINT: "EXCLUSIVE", Scope.NONE: "EXCLUSIVE"}
DOUBLES = {Aggregation.MINIMUM: "MINDOUBLE", Aggregation.MAXIMUM: "MAXDOUBLE"}


@dataclass
class PlannedMetric:
    """One metric of the file. `row` is the model's; `parent` counts among the planned ones. The type may become
    DOUBLE when values come that are no integers."""

    row: int
    id: int
    parent: int
    name: str
    kind: str
    type: ValueType
    said: CubeMetric
    scalar: bool  # composite values of which only the scalar reading is written

    @property
    def has_values(self) -> bool:
        return self.kind not in DERIVED and self.said.texts.get("val", "").strip() != VOID

    @property
    def stem(self) -> str:
        """The name of its members without the ending."""
        return f"ghost_{self.id}" if self.said.given.get("viztype") == GHOST else str(self.id)


@dataclass(frozen=True)
class MetricPlan:
    """The metrics of the file in the order of their rows; `left_out` are rows of the model without a place."""

    metrics: tuple[PlannedMetric, ...]
    left_out: tuple[int, ...]

    @classmethod
    def of(cls, metrics: Metrics) -> MetricPlan:
        chosen = _chosen(metrics)
        ids = dense_ids([metrics[row].source_id for row in chosen])
        place = {row: number for number, row in enumerate(chosen)}
        names: set[str] = set()
        planned = [_planned(metrics, row, ids[number], place, names) for number, row in enumerate(chosen)]
        left = [row for row, metric in enumerate(metrics) if row not in place and not metric.statistic]
        return cls(tuple(planned), tuple(left))

    @cached_property
    def of_row(self) -> dict[int, PlannedMetric]:
        return {metric.row: metric for metric in self.metrics}


def _chosen(metrics: Metrics) -> list[int]:
    found = []
    for quantity in metrics.quantities:
        if metrics.first(quantity).is_derived and CubeMetric.of_row(metrics.first(quantity)).kind not in DERIVED:
            continue  # a formula in the language of another tool
        rows = [row for scope in CHOICE if (row := metrics.find(quantity, scope)) is not None]
        found += rows[:1]
    return sorted(found)


def _planned(metrics: Metrics, row: int, id_: int, place: dict[int, int], names: set[str]) -> PlannedMetric:
    metric = metrics[row]
    above = metric.parent
    while above >= 0 and above not in place:
        above = metrics[above].parent
    said = CubeMetric.of_row(metric)
    type_ = value_type(metric.dtype)
    fits = type_ is not None and (type_.composite is None) == (metric.composite is None)
    if type_ is not None and type_.aggregation != metric.aggregation and metric.aggregation in DOUBLES:
        fits = False  # another tool's minimum or maximum
    kind = said.kind if said.kind in SCOPES else TYPES[metric.scope]
    if type_ is None or not fits:
        type_ = value_type(DOUBLES.get(metric.aggregation, "DOUBLE"))
        assert type_ is not None
    scalar = metric.composite is not None and type_.composite is None
    return PlannedMetric(row, id_, place.get(above, ABSENT), unique_name(metric.name, names), kind, type_, said, scalar)


def unique_name(name: str, taken: set[str]) -> str:
    """A name of the characters that CubeLib allows, and that no other metric has."""
    base = UNFIT.sub("_", name).strip("_") if UNFIT.search(name) else name
    found, number = base or "metric", 1
    while found in taken:
        number += 1
        found = f"{base}_{number}"
    taken.add(found)
    return found


def dense_ids(own: Sequence[int | None]) -> list[int]:
    """The ids themselves where they are 0, 1, ... in any order, else such numbers in the given order."""
    known = [number for number in own if number is not None]
    return known if sorted(known) == list(range(len(own))) else list(range(len(own)))


@dataclass(frozen=True)
class CnodePlan:
    """The listed contexts, in preorder, with their ids in the file and their places in the two traversals."""

    tree: ContextTree
    id: Ints
    keeps_ids: bool

    @classmethod
    def of(cls, tree: ContextTree) -> CnodePlan:
        own = tree.source_id[: tree.n_listed]
        keeps = np.array_equal(np.sort(own), np.arange(tree.n_listed))
        return cls(tree, own.astype(np.int64) if keeps else np.arange(tree.n_listed, dtype=np.int64), keeps)

    def __len__(self) -> int:
        return self.tree.n_listed

    @cached_property
    def _wide(self) -> Ids:
        n = len(self)
        out = np.full(len(self.tree), ABSENT, np.int32)
        out[wide_order(self.tree.parent[:n])] = np.arange(n, dtype=np.int32)
        return out

    @cached_property
    def _preorder(self) -> Ids:
        out = np.full(len(self.tree), ABSENT, np.int32)
        out[: len(self)] = np.arange(len(self), dtype=np.int32)
        return out

    def position(self, kind: str) -> Ids:
        """The row position of every context in metrics of a type; -1 where it has none."""
        return self._wide if kind in WIDE else self._preorder

    def context_at(self, kind: str) -> Ids:
        """The context at every row position of metrics of a type."""
        position = self.position(kind)[: len(self)]
        out = np.empty(len(self), np.int32)
        out[position] = np.arange(len(self), dtype=np.int32)
        return out
