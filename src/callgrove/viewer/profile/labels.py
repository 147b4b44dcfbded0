"""Which metrics a page shows, what each context costs in them, and what rows are called."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from callgrove.analysis.costs import Costs, costs
from callgrove.analysis.views import describe_contexts
from callgrove.arrays import ABSENT, Ints
from callgrove.errors import UsageError
from callgrove.model.contexts import ContextKind, ContextTree
from callgrove.model.experiment import Experiment
from callgrove.model.table import Table
from callgrove.viewer.page import Texts
from callgrove.viewer.panels import Choice, Limits

__all__ = ["Labels", "ShownCosts", "costs_to_show"]


Label = tuple[str, str, str, int, str]
COLUMNS = ("name", "kind", "file", "line", "module")


class Labels:
    """Labels by number, in the order of first use."""

    def __init__(self, tree: ContextTree) -> None:
        self._tree = tree
        self._numbers: dict[Label, int] = {}

    def of_contexts(self, contexts: Ints) -> Ints:
        """The number of each context's label. Contexts of one region and kind have one label, unless they have
        parameters or no region."""
        tree = self._tree
        region, kind = tree.region[contexts].astype(np.int64), tree.kind[contexts].astype(np.int64)
        key = region * len(ContextKind) + kind
        with_parameters: Ints = np.array(list(tree.parameters), np.int64)
        alone = (region < 0) | np.isin(contexts, with_parameters)
        key = np.where(alone, -1 - contexts, key)
        _, first, row = np.unique(key, return_index=True, return_inverse=True)
        columns = describe_contexts(tree, contexts[first].tolist())
        numbers: Ints = self._numbers_of(Table(columns))[row.ravel()]
        return numbers

    def of_rows(self, table: Table) -> Ints:
        """The number of the label of each row of a view."""
        return self._numbers_of(table)

    def _numbers_of(self, table: Table) -> Ints:
        cells = (table.column(name).plain() for name in COLUMNS)
        rows = zip(*cells, strict=True)
        numbers = [
            self._numbers.setdefault(
                (name or "", kind or "", file or "", ABSENT if line is None else line, module or ""),
                len(self._numbers),
            )
            for name, kind, file, line, module in rows
        ]
        return np.array(numbers, np.int64)

    @property
    def data(self) -> dict[str, Any]:
        """All labels as columns."""
        name, kind, file, line, module = zip(*self._numbers, strict=True) if self._numbers else ((),) * 5
        return {
            "name": Texts(name),
            "kind": Texts(kind),
            "file": Texts(file),
            "line": np.array(line, np.int64),
            "module": Texts(module),
        }


# -- metrics of a page -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ShownCosts:
    """The metric that is shown first, and the others; `left_out` counts those beyond the most that a page shows,
    `derived` those whose formulas are not evaluated."""

    metrics: tuple[Costs, ...]
    left_out: int = 0
    derived: int = 0


def costs_to_show(experiment: Experiment, choice: Choice, limits: Limits) -> ShownCosts | None:
    """The metric chosen, or the default one, then those that the file wants shown; None where nothing has a cost."""
    try:
        first = experiment.metrics.resolve(choice.metric) if choice.metric else experiment.default_metric
    except UsageError:
        if choice.metric:
            raise
        return None
    names = dict.fromkeys((first, *experiment.metrics.shown))
    shown: list[Costs] = []
    left_out = 0
    for name in names:
        if len(shown) >= limits.metrics:
            left_out += 1
        elif (one := _costs(experiment, name, choice, must=bool(choice.metric) and name == first)) is not None:
            shown.append(one)
    return ShownCosts(tuple(shown), left_out, len(experiment.metrics.derived)) if shown else None


def _costs(experiment: Experiment, name: str, choice: Choice, must: bool) -> Costs | None:
    """The costs in one metric, if there are any that numbers can say."""
    try:
        cost = costs(experiment, name, choice.ranks, choice.threads)
    except UsageError:  # composite values, or a metric that only formulas have
        if must or not _has_profiles(experiment, choice):
            raise
        return None
    return cost if cost.has(cost.inclusive).any() or cost.has(cost.exclusive).any() else None


def _has_profiles(experiment: Experiment, choice: Choice) -> bool:
    """Does the choice leave any profile? Where not, that is the error to tell."""
    return len(experiment.profiles.where(choice.ranks, choice.threads)) > 0 or (
        choice.ranks is None and choice.threads is None
    )
