"""Tables beside the call tree: flat ones, and callers bottom-up. Numbers are those of `top` and `tree --bottom-up`."""

from __future__ import annotations

from typing import Any

import numpy as np

from callgrove.analysis.callers import grow_callers
from callgrove.analysis.costs import Costs
from callgrove.analysis.flat import described_groups
from callgrove.analysis.groups import Groups, group
from callgrove.model.arrays import Array, Floats, Ints
from callgrove.model.table import Table
from callgrove.viewer.panels import Detail
from callgrove.viewer.profile.costs import is_additive
from callgrove.viewer.profile.labels import Labels

__all__ = ["GROUPS", "FlatTable", "callers", "rows_of"]

GROUPS = ("function", "line", "loop", "file", "module")


class FlatTable:
    """All groups of one kind in some metrics."""

    def __init__(self, metrics: tuple[Costs, ...], by: str) -> None:
        self._by, self._metrics = by, metrics
        tree = metrics[0].tree
        self.groups: Groups = group(tree, by)
        self._exclusive: list[Array] = [self.groups.exclusive(costs) for costs in metrics]
        self._inclusive: list[Array] = [self.groups.inclusive(costs) for costs in metrics]
        size = np.full(len(self.groups), -1.0)
        for costs, exclusive, inclusive in zip(metrics, self._exclusive, self._inclusive, strict=True):
            there = costs.has(exclusive) | costs.has(inclusive)
            np.fmax(size, np.where(there, _shares(costs, exclusive, inclusive), -1.0), out=size)
        costly = np.flatnonzero(size >= 0)
        self._order: Ints = costly[np.argsort(-size[costly], kind="stable")]

    def __len__(self) -> int:
        return len(self._order)

    def exclusive(self, metric: int) -> Array:
        """The exclusive cost of every group."""
        return self._exclusive[metric]

    def labels_of(self, groups: Ints, labels: Labels) -> Ints:
        """What some groups are called."""
        return labels.of_rows(Table(described_groups(self._metrics[0], self._by, self.groups.first[groups].tolist())))

    def data(self, labels: Labels, detail: Detail, most: int) -> dict[str, Any]:
        """The groups with the largest share in any metric."""
        chosen = self._order[: detail.of(len(self), most, 10)]
        return {
            "by": self._by,
            "label": self.labels_of(chosen, labels),
            "left": len(self) - len(chosen),
            "rest": [self._rest(number, chosen) for number in range(len(self._metrics))],
            "exclusive": [exclusive[chosen] for exclusive in self._exclusive],
            "inclusive": [inclusive[chosen] for inclusive in self._inclusive],
        }

    def _rest(self, metric: int, chosen: Ints) -> float | None:
        """What the groups that are left out cost together; None where costs do not add up."""
        if not is_additive(self._metrics[metric]):
            return None
        with np.errstate(invalid="ignore", over="ignore"):
            return float(np.delete(self._exclusive[metric], chosen).astype(np.float64).sum())


def _shares(costs: Costs, exclusive: Array, inclusive: Array) -> Floats:
    """By exclusive cost; of groups without any, a little of the inclusive one, so that the largest stay."""
    if not is_additive(costs) or not costs.whole:
        return np.zeros(len(exclusive))
    with np.errstate(invalid="ignore", over="ignore"):
        shares = np.abs(exclusive / costs.whole) + 1e-3 * np.abs(inclusive / costs.whole)
    return np.nan_to_num(shares)


def callers(costs: Costs, labels: Labels, detail: Detail, most: int) -> dict[str, Any] | None:
    """Functions with their callers below them, and what those cost that are left out; None of a metric whose costs
    cannot be divided among callers."""
    if not is_additive(costs):
        return None
    found = grow_callers(costs, detail.of(most, most, 20))
    left = {"left": found.table.left, "functions_left": found.functions_left, "rest": found.rest}
    return {**rows_of(found.table, labels), **left}


def rows_of(table: Table, labels: Labels) -> dict[str, Any]:
    """Rows with their depths, such as those of a hot path."""
    return {
        "label": labels.of_rows(table),
        "depth": np.asarray(table.column("depth").values, np.int64),
        "exclusive": np.asarray(table.column("exclusive").values),
        "inclusive": np.asarray(table.column("inclusive").values),
    }
