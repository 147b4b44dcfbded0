"""Cost by profile, of everything and of the costliest functions, and where profiles stand in a heat map.

All values of a metric are read for it, block by block. Where reading all metrics would take long, only the first one
is shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from callgrove.analysis.costs import Costs, spread_statistics
from callgrove.analysis.groups import exclusive_by_profile
from callgrove.arrays import Floats, Ints
from callgrove.model.experiment import Experiment
from callgrove.model.profiles import choose_profiles
from callgrove.model.runs import Run
from callgrove.viewer.page import Texts
from callgrove.viewer.panels import Choice, Detail, Limits, process_numbers
from callgrove.viewer.profile.labels import Labels
from callgrove.viewer.profile.tree import FlatTable

__all__ = ["Grid", "Places", "RunSums", "Spread", "spread_of"]


# -- heat map: a column per rank, a row per lane -----------------------------------------------------------------------
# Tuples are not unique: what has the same rank and lane as another gets a column of its own. Where there are more
# columns than a picture can show, neighbouring ones are taken together.


LANE_ORDER = ("gpu_device", "gpu_context", "gpu_stream", "thread")
SPARSEST = 4  # cells of the grid per profile; emptier grids become one row


@dataclass(frozen=True)
class Grid:
    """Cells with at least one profile each. `cell` is that of every profile, `n_joined` how many columns are one."""

    cell: Ints
    column: Ints
    lane: Ints
    n_profiles: Ints
    columns: tuple[str, ...]
    lanes: tuple[str, ...]
    n_joined: int

    @property
    def data(self) -> dict[str, Any]:
        return {
            "column": self.column,
            "lane": self.lane,
            "n_profiles": self.n_profiles,
            "columns": Texts(self.columns),
            "lanes": Texts(self.lanes),
            "n_joined": self.n_joined,
        }

    def combine(self, values: Floats, ufunc: np.ufunc, start: float) -> Floats:
        """Return one number for each cell: `ufunc` over its profiles."""
        out = np.full(len(self.column), start)
        ufunc.at(out, self.cell, values)
        return out


@dataclass(frozen=True)
class RunSums:
    """Runs that are shown together: what each is called, and which of them every profile belongs to."""

    names: tuple[str, ...]
    run: Ints

    @classmethod
    def of(cls, experiment: Experiment, profiles: Ints) -> RunSums | None:
        """The runs of some profiles; None where there is only one."""
        runs, run = np.unique(experiment.profiles.run[profiles], return_inverse=True)
        names = tuple(_run(number, experiment.runs[number]) for number in runs.tolist())
        return cls(names, run.reshape(-1)) if len(runs) > 1 else None

    def statistics(self, values: Floats) -> dict[str, Floats]:
        """Of each run the sum, and the mean, the largest and the imbalance of its profiles."""
        n = np.bincount(self.run, minlength=len(self.names))
        total = np.bincount(self.run, values, minlength=len(self.names))
        most = np.full(len(self.names), -np.inf)
        np.maximum.at(most, self.run, values)
        with np.errstate(divide="ignore", invalid="ignore"):
            mean = total / n
            return {"run_sum": total, "run_mean": mean, "run_max": most, "run_imbalance": most / mean - 1}


class Places:
    """The column and the lane of some profiles."""

    def __init__(self, experiment: Experiment, profiles: Ints, most_lanes: int) -> None:
        ranks = experiment.profiles.identity_list("rank")
        numbers = process_numbers(experiment)
        several_runs = len(experiment.runs) > 1
        runs = [_run(number, run) for number, run in enumerate(experiment.runs)]
        lanes = _lanes(experiment, profiles)
        columns: dict[tuple[int, int, int], str] = {}
        lane, keys = [], []
        for profile in profiles.tolist():
            run, rank = int(experiment.profiles.run[profile]), ranks[profile]
            lane.append(lanes[_lane(experiment, profile, rank)])
            key = (run, -1 if rank is None else rank, numbers[profile])
            keys.append(key)
            columns[key] = _column(runs[run] if several_runs else "", rank, key[2])
        order = sorted(columns)
        number = {key: position for position, key in enumerate(order)}
        self._column = np.array([number[key] for key in keys], np.int64)
        self._lane = np.array(lane, np.int64)
        self._columns, self._lanes = [columns[key] for key in order], list(lanes)
        if len(lanes) > most_lanes or len(order) * len(lanes) > SPARSEST * len(profiles) + most_lanes:
            self._column, self._lane = np.arange(len(profiles)), np.zeros(len(profiles), np.int64)
            self._columns = [experiment.profiles.label(p) for p in profiles.tolist()]
            self._lanes = ["profiles"]

    def __len__(self) -> int:
        return len(self._column)

    @property
    def n_cells(self) -> int:
        """Of the whole grid, those without a profile too."""
        return len(self._columns) * len(self._lanes)

    def grid(self, n_cells: int) -> Grid:
        """At most about so many cells."""
        joined = max(1, -(-self.n_cells // max(n_cells, 1)))
        column = self._column // joined
        key = column * len(self._lanes) + self._lane
        keys, cell = np.unique(key, return_inverse=True)
        n_lanes = len(self._lanes)
        return Grid(
            cell.ravel(),
            keys // n_lanes,
            keys % n_lanes,
            np.bincount(cell.ravel(), minlength=len(keys)),
            _join_names(self._columns, joined),
            tuple(self._lanes),
            joined,
        )


def _lanes(experiment: Experiment, profiles: Ints) -> dict[str, int]:
    """Numbers of lanes: threads, then streams by their device."""
    identity = [experiment.profiles.identity_list(name) for name in LANE_ORDER]
    ranks = experiment.profiles.identity_list("rank")
    place: dict[str, tuple[int, ...]] = {}
    for profile in profiles.tolist():
        numbers = tuple(-1 if (n := values[profile]) is None else n for values in identity)
        place.setdefault(_lane(experiment, profile, ranks[profile]), numbers)
    order = sorted(place, key=lambda words: place[words])
    return {words: number for number, words in enumerate(order)}


def _lane(experiment: Experiment, profile: int, rank: int | None) -> str:
    """What tells a profile from the others of its rank."""
    words = experiment.profiles.describe(profile)
    return (words.removeprefix(f"rank {rank}").strip() if rank is not None else words) or "process"


def _run(number: int, run: Run) -> str:
    """A run by its parameters, or by its number."""
    point = " ".join(f"{name}={value:g}" for name, value in run.parameters.items())
    again = f" #{run.repetition}" if run.repetition > 1 else ""
    return point + again if point else run.name or f"run {number}"


def _column(run: str, rank: int | None, number: int) -> str:
    parts = [run] if run else []
    if rank is not None:
        parts.append(f"rank {rank}")
    if number or not parts:
        parts.append(f"process {number}")
    return " ".join(parts)


def _join_names(names: list[str], joined: int) -> tuple[str, ...]:
    if joined == 1:
        return tuple(names)
    parts = [names[at : at + joined] for at in range(0, len(names), joined)]
    return tuple(f"{part[0]} to {part[-1]}" if len(part) > 1 else part[0] for part in parts)


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
                mean = grid.combine(values, np.add, 0.0) / grid.n_profiles
                row: dict[str, Any] = {
                    "metric": metric.costs.metric.name,
                    "label": int(names[number - 1]) if number else -1,
                    "mean": mean,
                    **{f"all_{name}": value for name, value in spread_statistics(values).items()},
                }
                if grid.n_joined > 1:
                    row |= {
                        "low": grid.combine(values, np.minimum, np.inf),
                        "high": grid.combine(values, np.maximum, -np.inf),
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
        statistics = {metric.costs.metric.name: spread_statistics(metric.values[0]) for metric in metrics}
        return {name: one["imbalance"] for name, one in statistics.items() if not one["none"]}

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
    additive = [costs for costs in metrics if costs.is_additive]
    n_values = experiment.values.n_stored()
    size = n_values if n_values is not None else len(experiment.contexts) * len(profiles)
    read = additive if size * len(additive) <= limits.values else additive[:1]
    numbers = {costs.metric.name: number for number, costs in enumerate(metrics)}
    spreads = tuple(
        _read(experiment, costs, functions, numbers[costs.metric.name], profiles, limits.functions) for costs in read
    )
    places = Places(experiment, profiles, limits.lanes)
    runs = RunSums.of(experiment, profiles)
    return Spread(functions, places, spreads, len(additive) - len(read), limits, runs) if spreads else None


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
