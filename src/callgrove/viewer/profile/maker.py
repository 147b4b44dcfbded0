"""Everything that is measured per context and profile, as panels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from callgrove.analysis.views import hot_path
from callgrove.model.experiment import Experiment
from callgrove.model.profiles import choose_profiles
from callgrove.model.study.series import Study
from callgrove.viewer.panels import Choice, Detail, Limits, Panel
from callgrove.viewer.profile.labels import Labels, ShownCosts, costs_to_show
from callgrove.viewer.profile.spread import spread_of
from callgrove.viewer.profile.tree import GROUPS, CallTree, CutTree, FlatTable, callers, describe_metric, rows_of

__all__ = ["ProfileMaker", "profile_maker"]

CLOSE = 1e-9  # of the total: sums in another order differ in the last digits


def profile_maker(opened: Experiment | Study, choice: Choice, limits: Limits | None = None) -> ProfileMaker | None:
    """Panels of an experiment in which any context has any cost."""
    if isinstance(opened, Study):
        return None
    limits = limits or Limits()
    shown_costs = costs_to_show(opened, choice, limits)
    return ProfileMaker(opened, shown_costs, choice, limits) if shown_costs is not None else None


class ProfileMaker:
    """The hot path, the flame graph, the call tree, and the spread over profiles."""

    def __init__(self, experiment: Experiment, shown_costs: ShownCosts, choice: Choice, limits: Limits) -> None:
        self._experiment, self._shown, self._limits = experiment, shown_costs, limits
        self._tree = CallTree(shown_costs.metrics)
        self._flat = {by: FlatTable(shown_costs.metrics, by) for by in GROUPS}
        self._paths = [hot_path(costs) for costs in shown_costs.metrics]
        chosen = choose_profiles(experiment, choice.ranks, choice.threads)
        profiles = experiment.profiles.measured if chosen is None else chosen
        self._n_runs = len(np.unique(experiment.profiles.run[profiles]))
        self._spread = spread_of(experiment, shown_costs.metrics, self._flat["function"], choice, limits)
        self.differences: tuple[str, ...] = ()

    def panels(self, detail: Detail) -> Iterator[Panel]:
        labels = Labels(self._experiment.contexts)
        metrics = self._shown.metrics
        tree = self._tree.cut(detail.of(len(self._tree), self._limits.contexts), labels)
        flat = [self._flat[by].data(labels, detail, self._limits.rows) for by in GROUPS]
        paths = [rows_of(path, labels) for path in self._paths]
        bottom_up = [callers(costs, labels, detail, self._limits.rows) for costs in metrics]
        spread = self._spread.data(labels, detail) if self._spread is not None else None
        shared: dict[str, Any] = {"labels": labels.data, "metrics": [describe_metric(costs) for costs in metrics]}
        notes = self._notes(tree)
        self.differences = tuple(self._compare(tree.data, flat, bottom_up))
        imbalance = self._spread.imbalance() if self._spread is not None else {}
        glance = {"imbalance": imbalance, "n_runs": self._n_runs, "has_spread": spread is not None}
        yield Panel("hotspots", "Overview", {**shared, "paths": paths, "top": flat[0], **glance}, notes)
        if any(costs.is_additive for costs in metrics):
            yield Panel("flame", "Flame graph", {**shared, "tree": tree.data}, notes)
        yield Panel("calltree", "Call tree", {**shared, "tree": tree.data, "flat": flat, "callers": bottom_up}, notes)
        if spread is not None:
            yield Panel("spread", "Spread", {**shared, **spread[0]}, spread[1])

    def _compare(
        self, tree: dict[str, Any], flat: list[dict[str, Any]], callers_of: list[dict[str, Any] | None]
    ) -> Iterator[str]:
        """Yield views that do not add up to the total of a metric: the call tree, and tables with their rest."""
        for number, costs in enumerate(self._shown.metrics):
            if not costs.is_additive or not np.isfinite(costs.total):
                continue
            views = {"call tree": tree["metrics"][number]["exclusive"]}
            views |= {f"table by {table['by']}": [*table["exclusive"][number], table["rest"][number]] for table in flat}
            if (table := callers_of[number]) is not None:
                views["table of callers"] = [*table["exclusive"][table["depth"] == 0], table["rest"]]
            for name, shown in views.items():
                total = float(np.sum(shown, dtype=np.float64))
                if abs(total - costs.total) > CLOSE * max(abs(costs.whole), abs(costs.total)):
                    yield f"{costs.metric.name}: the {name} adds up to {total:g}, the total is {costs.total:g}"

    def _notes(self, tree: CutTree) -> tuple[str, ...]:
        notes = []
        if self._n_runs > 1:
            where = "Spread shows them side by side, " if self._spread is not None else ""
            notes.append(f"{self._n_runs:,} runs are added up here; {where}--run chooses one of them.")
        if any(costs.is_signed for costs in self._shown.metrics):
            notes.append(
                "These costs are differences: some are below zero. What is larger changed more, whichever way; shares "
                "are of all changes by their sizes, so that more and less do not cancel out."
            )
        if tree.n_folded:
            notes.append(
                f"To keep this page small, {tree.n_folded:,} of {tree.n_kept + tree.n_folded:,} contexts are folded "
                f"into rows that say how many they stand for: each has at most {_percent(tree.share)} of the cost in "
                "every metric. Flat tables and totals still count them."
            )
        if self._shown.left_out:
            n_shown, left = len(self._shown.metrics), self._shown.left_out
            notes.append(f"{n_shown} metrics are shown, {left} more are not; -m chooses which one comes first.")
        if n := self._shown.derived:
            notes.append(f"{n} derived metrics are not shown: their formulas are not evaluated.")
        return tuple(notes)


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"
