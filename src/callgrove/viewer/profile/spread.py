"""Cost by profile: of everything, and of the costliest functions.

All values of a metric are read for it, block by block. Where reading all metrics would take long, only the first one
is shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from callgrove.analysis.by_profile import exclusive_by_profile
from callgrove.analysis.costs import Costs
from callgrove.model.arrays import Floats, Ints
from callgrove.model.experiment import Experiment
from callgrove.model.selection import choose_profiles
from callgrove.viewer.encoding import Texts
from callgrove.viewer.panels import Choice, Detail, Limits
from callgrove.viewer.profile.costs import is_additive
from callgrove.viewer.profile.labels import Labels
from callgrove.viewer.profile.places import Grid, Places, RunSums, spread_statistics
from callgrove.viewer.profile.tables import FlatTable

__all__ = ["Spread", "spread_of"]


@dataclass(frozen=True)
class _Spread:
    """One metric: the cost of everything and of some groups (functions), by profile."""

    costs: Costs
    groups: Ints
    values: Floats  # 1 + groups, profiles


@dataclass(frozen=True)
class Spread:
    """The spread of some metrics over the chosen profiles."""

    functions: FlatTable
    places: Places
    metrics: tuple[_Spread, ...]
    left_out: int
    limits: Limits
    runs: RunSums | None

    def data(self, labels: Labels, detail: Detail) -> tuple[dict[str, Any], tuple[str, ...]]:
        """What is drawn, and what to say about it."""
        grid = self.places.grid(detail.of(self.places.n_cells, self.limits.cells, 16))
        rows: list[dict[str, Any]] = []
        for metric in self.metrics:
            names = self.functions.labels_of(metric.groups, labels)
            for number, values in enumerate(metric.values):
                mean = grid.combined(values, np.add, 0.0) / grid.n_profiles
                row: dict[str, Any] = {
                    "metric": metric.costs.metric.name,
                    "label": int(names[number - 1]) if number else -1,
                    "mean": mean,
                    **{f"all_{name}": value for name, value in spread_statistics(values).items()},
                }
                if grid.n_joined > 1:
                    row |= {
                        "low": grid.combined(values, np.minimum, np.inf),
                        "high": grid.combined(values, np.maximum, -np.inf),
                    }
                if metric.costs.is_signed:
                    row["all_imbalance"] = None  # differences have no mean that any could be above
                if self.runs is not None:
                    row |= {"all_imbalance": None, **self.runs.statistics(values)}
                rows.append(row)
        runs = {"runs": Texts(self.runs.names)} if self.runs is not None else {}
        return {"grid": grid.data, "rows": rows, "n_profiles": len(self.places), **runs}, self._notes(grid)

    def imbalance(self) -> dict[str, float]:
        """By metric, how much more than the mean the largest profile has, where every profile has some. Profiles of
        different runs never had to wait for each other, and differences have no mean."""
        metrics = [] if self.runs is not None else [metric for metric in self.metrics if not metric.costs.is_signed]
        found = {metric.costs.metric.name: spread_statistics(metric.values[0]) for metric in metrics}
        return {name: one["imbalance"] for name, one in found.items() if not one["none"]}

    def _notes(self, grid: Grid) -> tuple[str, ...]:
        notes = []
        if self.runs is not None:
            notes.append(
                f"Profiles of {len(self.runs.names):,} runs stand side by side; imbalance is that within a run."
            )
        if grid.n_joined > 1:
            notes.append(
                f"{len(self.places):,} profiles are shown as {len(grid.column):,} cells: each stands for up to "
                f"{grid.n_joined} neighbours and shows their mean; the smallest and the largest are in its details."
            )
        if self.left_out:
            notes.append(f"{self.left_out} more metrics were not read profile by profile; -m chooses the one that is.")
        return tuple(notes)


def spread_of(
    experiment: Experiment, metrics: Sequence[Costs], functions: FlatTable, choice: Choice, limits: Limits
) -> Spread | None:
    """The spread; None where there is only one profile, or none."""
    chosen = choose_profiles(experiment, choice.ranks, choice.threads)
    profiles = experiment.values.known if chosen is None else chosen
    if len(profiles) < 2:
        return None
    additive = [costs for costs in metrics if is_additive(costs)]
    n_values = experiment.values.n_stored()
    size = n_values if n_values is not None else len(experiment.contexts) * len(profiles)
    read = additive if size * len(additive) <= limits.values else additive[:1]
    numbers = {costs.metric.name: number for number, costs in enumerate(metrics)}
    found = tuple(
        _read(experiment, costs, functions, numbers[costs.metric.name], profiles, limits.functions) for costs in read
    )
    places = Places(experiment, profiles, limits.lanes)
    runs = RunSums.of(experiment, profiles)
    return Spread(functions, places, found, len(additive) - len(read), limits, runs) if found else None


def _read(
    experiment: Experiment, costs: Costs, functions: FlatTable, number: int, profiles: Ints, most: int
) -> _Spread:
    exclusive = np.abs(functions.exclusive(number).astype(np.float64))
    largest = np.argsort(-exclusive, kind="stable")[:most]
    largest = largest[exclusive[largest] > 0]
    of = np.full(len(experiment.contexts), -1)
    of[: len(functions.groups.of)] = functions.groups.of
    masks = [of >= 0, *(of == one for one in largest.tolist())]
    return _Spread(costs, largest, exclusive_by_profile(experiment, costs.metric.name, masks, profiles))
