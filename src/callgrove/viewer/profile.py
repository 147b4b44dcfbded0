"""Everything that is measured per context and profile, as panels: the tree, tables, and cost by profile."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from callgrove.analysis.costs import Costs, RowCells, Rows, exclusive_by_profile
from callgrove.analysis.spread.imbalance import spread_statistics
from callgrove.analysis.views import hot_path
from callgrove.arrays import ABSENT, Bools, Floats, Ints, LazyColumn, distinct, in_order
from callgrove.errors import UsageError
from callgrove.model.derived import TotalCells
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Scope
from callgrove.model.profiles import Profiles, choose_profiles
from callgrove.model.runs import Run
from callgrove.model.study.series import Study
from callgrove.model.table import Table
from callgrove.viewer.page import Choice, Detail, Limits, Panel, Texts, process_numbers
from callgrove.viewer.profile_tree import (
    GROUPS,
    CallTree,
    CutTree,
    FlatTable,
    Labels,
    ShownCosts,
    callers,
    costs_to_show,
    describe_metric,
    rows_of,
)

__all__ = ["Grid", "Places", "ProfileMaker", "RunSums", "Spread", "profile_maker", "spread_of"]


# -- cost by profile, and where profiles stand -------------------------------------------------------------------------
# All values of a metric are read for it, block by block. Where reading all metrics would take long, only the first one
# is shown.


# -- heat map: a column per rank, a row per lane -----------------------------------------------------------------------
# Tuples are not unique: what has the same rank and lane as another gets a column of its own. Where there are more
# columns than a picture can show, neighbouring ones are taken together.


LANE_ORDER = ("gpu_device", "gpu_context", "gpu_stream", "thread")
STATISTICS = ("min", "mean", "max", "std", "imbalance")
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
        """Return the runs of some profiles; None where there is only one."""
        runs, run = np.unique(experiment.profiles.run[profiles], return_inverse=True)
        names = tuple(_describe_run(number, experiment.runs[number]) for number in runs.tolist())
        return cls(names, run.reshape(-1)) if len(runs) > 1 else None

    def statistics(self, values: Floats) -> dict[str, Floats]:
        """Return of each run the sum, and the mean, the largest and the imbalance of its profiles."""
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
        lanes, self._lane = _number_lanes(experiment.profiles, profiles)
        numbers, _ = process_numbers(experiment)
        self._column, first = _number_columns(experiment, profiles, numbers)
        self._columns: Sequence[str] = _ColumnNames(experiment, profiles[first], numbers)
        if len(lanes) > most_lanes or len(first) * len(lanes) > SPARSEST * len(profiles) + most_lanes:
            self._column, self._lane = np.arange(len(profiles)), np.zeros(len(profiles), np.int64)
            self._columns, self._lanes = experiment.profiles.labels(profiles), ["profiles"]
        else:
            self._lanes = [_describe_lane(experiment.profiles, profile) for profile in lanes.tolist()]

    def __len__(self) -> int:
        return len(self._column)

    @property
    def n_cells(self) -> int:
        """Of the whole grid, those without a profile too."""
        return len(self._columns) * len(self._lanes)

    def grid(self, n_cells: int) -> Grid:
        """Return a grid of at most about so many cells."""
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


class _ColumnNames(LazyColumn[str]):
    """Names of columns, each made of one of its profiles; `numbers` tell processes with equal identifiers apart."""

    def __init__(self, experiment: Experiment, chosen: Ints, numbers: Ints) -> None:
        self._experiment, self._chosen, self._numbers = experiment, chosen, numbers
        self._rank, self._has_rank = experiment.profiles.identity("rank")

    def __len__(self) -> int:
        return len(self._chosen)

    def make_item(self, row: int) -> str:
        profile, runs = int(self._chosen[row]), self._experiment.runs
        run = int(self._experiment.profiles.run[profile])
        rank = int(self._rank[profile]) if self._has_rank[profile] else None
        return _column(_describe_run(run, runs[run]) if len(runs) > 1 else "", rank, int(self._numbers[profile]))

    def take(self, rows: Ints) -> _ColumnNames:
        return _ColumnNames(self._experiment, self._chosen[rows], self._numbers)


def _number_columns(experiment: Experiment, profiles: Ints, numbers: Ints) -> tuple[Ints, Ints]:
    """Return the column of each profile, by run, rank and process, and one profile of each column."""
    rank, has_rank = (column[profiles] for column in experiment.profiles.identity("rank"))
    known = distinct(rank[has_rank])
    place = np.where(has_rank, np.searchsorted(known, rank), ABSENT)
    key = experiment.profiles.run[profiles], place, numbers[profiles]
    order = in_order(*key)
    fresh = np.zeros(len(order), np.bool_)
    fresh[:1] = True
    for column in key:
        fresh[1:] |= np.diff(column[order]) != 0
    out = np.empty(len(order), np.int64)
    out[order] = np.cumsum(fresh) - 1
    return out, order[fresh]


def _number_lanes(every: Profiles, profiles: Ints) -> tuple[Ints, Ints]:
    """Return a profile of each lane, threads first and then streams by their device, and the lane of each profile."""
    lane = every.lane[profiles]
    order = np.argsort(lane, kind="stable")
    fresh = np.append(True, np.diff(lane[order]) != 0)[: len(order)]
    first = order[fresh]
    identity = []
    for values, present in map(every.identity, LANE_ORDER):
        known = distinct(values[present])
        identity.append(np.where(present, np.searchsorted(known, values), ABSENT)[profiles[first]])
    ranked = np.lexsort((first, *identity[::-1]))
    number = np.empty(len(first), np.int64)
    number[ranked] = np.arange(len(first))
    out = np.empty(len(profiles), np.int64)
    out[order] = number[np.cumsum(fresh) - 1]
    return profiles[first[ranked]], out


def _describe_lane(profiles: Profiles, profile: int) -> str:
    """Return what tells a profile from the others of its rank."""
    words = profiles.describe(profile)
    rank, has_rank = profiles.identity("rank")
    return (words.removeprefix(f"rank {rank[profile]}").strip() if has_rank[profile] else words) or "process"


def _describe_run(number: int, run: Run) -> str:
    """Return a run by its parameters, or by its number."""
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


def _join_names(names: Sequence[str], joined: int) -> tuple[str, ...]:
    if joined == 1:
        return tuple(names)
    ends = [(at, min(at + joined, len(names)) - 1) for at in range(0, len(names), joined)]
    return tuple(f"{names[first]} to {names[last]}" if last > first else names[first] for first, last in ends)


@dataclass(frozen=True)
class _Spread:
    """One metric: the cost of everything and of some groups (functions), by profile."""

    costs: Costs
    groups: Ints
    values: Floats  # 1 + groups, profiles; NaN is not a value
    of_runs: Floats | None = None  # 1 + groups, runs: of a formula over sums, which is that of each run


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
        """Return what is drawn, and what to say about it."""
        grid = self.places.grid(detail.of(self.places.n_cells, self.limits.cells, 16))
        rows: list[dict[str, Any]] = []
        for metric in self.metrics:
            names = self.functions.labels_of(metric.groups, labels)
            for number, values in enumerate(metric.values):
                row: dict[str, Any] = {
                    "metric": metric.costs.metric.name,
                    "label": int(names[number - 1]) if number else -1,
                    **(_spread_ratio if metric.costs.is_ratio else _spread_cost)(values, grid),
                }
                if metric.costs.is_signed:
                    row["all_imbalance"] = None  # differences have no mean that any could be above
                if self.runs is not None:
                    row |= {"all_imbalance": None, **self.runs.statistics(values)}
                    row |= {"run_sum": metric.of_runs[number]} if metric.of_runs is not None else {}
                rows.append(row)
        runs = {"runs": Texts(self.runs.names)} if self.runs is not None else {}
        return {"grid": grid.data, "rows": rows, "n_profiles": len(self.places), **runs}, self._notes(grid)

    def imbalance(self) -> dict[str, float]:
        """Return by metric how much more than the mean the largest profile has, where every profile has some. Profiles
        of different runs never had to wait for each other, and differences have no mean."""
        sums = [metric for metric in self.metrics if metric.costs.is_additive and not metric.costs.is_signed]
        metrics = sums if self.runs is None else []
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
    """Return the spread; None where there is only one profile, or none."""
    chosen = choose_profiles(experiment, choice.ranks, choice.threads)
    profiles = experiment.values.known if chosen is None else chosen
    if len(profiles) < 2:
        return None
    every = [costs for costs in metrics if costs.is_additive or costs.is_ratio]
    n_values = experiment.values.n_stored()
    size = n_values if n_values is not None else len(experiment.contexts) * len(profiles)
    read = every if size * len(every) <= limits.values else every[:1]
    runs = RunSums.of(experiment, profiles)
    reader = _SpreadReader(experiment, metrics, functions, profiles, runs, limits.functions)
    spreads = tuple(one for costs in read if (one := reader.read(costs)) is not None)
    places = Places(experiment, profiles, limits.lanes)
    return Spread(functions, places, spreads, len(every) - len(read), limits, runs) if spreads else None


def _spread_cost(values: Floats, grid: Grid) -> dict[str, Any]:
    """Return what is drawn of costs by profile: the mean of each cell, and statistics of all profiles."""
    row = {"mean": grid.combine(values, np.add, 0.0) / grid.n_profiles}
    if grid.n_joined > 1:
        row |= {"low": grid.combine(values, np.minimum, np.inf), "high": grid.combine(values, np.maximum, -np.inf)}
    return {**row, **{f"all_{name}": value for name, value in spread_statistics(values).items()}}


def _spread_ratio(values: Floats, grid: Grid) -> dict[str, Any]:
    """Return the same of a formula over sums: profiles without a value have no part in it."""
    known = ~np.isnan(values)
    with np.errstate(invalid="ignore"):
        mean = grid.combine(np.where(known, values, 0.0), np.add, 0.0) / grid.combine(known.astype(float), np.add, 0.0)
    row = {"mean": mean}
    if grid.n_joined > 1:
        row |= {"low": grid.combine(values, np.fmin, np.nan), "high": grid.combine(values, np.fmax, np.nan)}
    statistics = spread_statistics(values[known]) if known.any() else dict.fromkeys(STATISTICS, np.nan)
    return {**row, **{f"all_{name}": value for name, value in statistics.items()}, "all_none": int((~known).sum())}


@dataclass(frozen=True)
class _SpreadReader:
    """Reads metrics profile by profile: the cost of everything, and of the costliest functions."""

    experiment: Experiment
    metrics: Sequence[Costs]
    functions: FlatTable
    profiles: Ints
    runs: RunSums | None
    most: int

    def read(self, costs: Costs) -> _Spread | None:
        """Return one metric; None where a formula needs single profiles, and only their sum is known."""
        groups = self._choose_groups(costs)
        of = np.full(len(self.experiment.contexts), -1)
        of[: len(self.functions.groups.of)] = self.functions.groups.of
        masks = [of >= 0, *(of == one for one in groups.tolist())]
        try:
            if costs.is_ratio:
                return _Spread(costs, groups, *self._evaluate(costs, masks))
            return _Spread(
                costs, groups, exclusive_by_profile(self.experiment, costs.metric.name, masks, self.profiles)
            )
        except UsageError:
            if costs.metric.derivation is None:
                raise
            return None

    def _choose_groups(self, costs: Costs) -> Ints:
        """Return the functions with the highest exclusive cost. Those of a formula over sums are the functions that the
        first metric which adds up has: the highest ratio may be that of a function where nearly nothing happens."""
        sums = [one for one in self.metrics if one.is_additive]
        ranked = sums[0] if costs.is_ratio and sums else costs
        number = next(k for k, one in enumerate(self.metrics) if one is ranked)
        exclusive = np.nan_to_num(np.abs(self.functions.exclusive(number).astype(np.float64)))
        largest = np.argsort(-exclusive, kind="stable")[: self.most]
        return largest[exclusive[largest] > 0]

    def _evaluate(self, costs: Costs, masks: Sequence[Bools]) -> tuple[Floats, Floats | None]:
        """Return a formula of what the groups have in each profile, and of what they have in each run."""
        pairs = [(np.flatnonzero(mask), number) for number, mask in enumerate(masks)]
        contexts = np.concatenate([members for members, _ in pairs])
        targets = np.concatenate([np.full(len(members), number) for members, number in pairs])
        rows = Rows(len(masks), (contexts, targets), (contexts, targets))
        name = costs.metric.name

        def cells_of(profiles: Ints) -> RowCells:
            return RowCells(TotalCells(self.experiment.values, Scope.EXCLUSIVE, profiles), Scope.EXCLUSIVE, rows)

        whole = cells_of(self.profiles)
        assert isinstance(whole.whole, TotalCells)
        batches = whole.whole.by_profile(Scope.EXCLUSIVE, name)
        values = np.concatenate([RowCells(one, Scope.EXCLUSIVE, rows, whole).of(name) for one in batches], axis=1)
        if self.runs is None:
            return values, None
        of_runs = [self.profiles[self.runs.run == number] for number in range(len(self.runs.names))]
        return values, np.stack([cells_of(one).of(name) for one in of_runs], axis=1)


# -- the panels --------------------------------------------------------------------------------------------------------


CLOSE = 1e-9  # of the total: sums in another order differ in the last digits


def profile_maker(opened: Experiment | Study, choice: Choice, limits: Limits | None = None) -> ProfileMaker | None:
    """Return panels of an experiment in which any context has any cost."""
    if isinstance(opened, Study):
        return None
    limits = limits or Limits()
    shown_costs = costs_to_show(opened, choice, limits)
    return ProfileMaker(opened, shown_costs, choice, limits) if shown_costs is not None else None


class ProfileMaker:
    """The hot path, the flame graph, the call tree, and the spread over profiles."""

    def __init__(self, experiment: Experiment, shown_costs: ShownCosts, choice: Choice, limits: Limits) -> None:
        self._experiment, self._shown, self._choice, self._limits = experiment, shown_costs, choice, limits
        self.differences: tuple[str, ...] = ()

    # What a panel needs is computed when one that needs it is made: a server makes them one by one.

    @cached_property
    def _tree(self) -> CallTree:
        return CallTree(self._shown.metrics)

    @cached_property
    def _functions(self) -> FlatTable:
        return FlatTable(self._shown.metrics, GROUPS[0])

    @cached_property
    def _flat(self) -> list[FlatTable]:
        return [self._functions, *(FlatTable(self._shown.metrics, by) for by in GROUPS[1:])]

    @cached_property
    def _paths(self) -> list[Table | None]:
        return [None if c.is_ratio or c.has_missing else hot_path(c) for c in self._shown.metrics]

    @cached_property
    def _n_runs(self) -> int:
        chosen = choose_profiles(self._experiment, self._choice.ranks, self._choice.threads)
        profiles = self._experiment.profiles.measured if chosen is None else chosen
        return len(np.unique(self._experiment.profiles.run[profiles]))

    @cached_property
    def _spread(self) -> Spread | None:
        return spread_of(self._experiment, self._shown.metrics, self._functions, self._choice, self._limits)

    def panels(self, detail: Detail) -> Iterator[Panel]:
        labels = Labels(self._experiment.contexts)
        metrics = self._shown.metrics
        tree = self._tree.cut(detail.of(len(self._tree), self._limits.contexts), labels)
        flat = [table.data(labels, detail, self._limits.rows) for table in self._flat]
        bottom_up = [callers(costs, labels, detail, self._limits.rows) for costs in metrics]
        overview = self._glance(labels, flat[0])
        spread = self._spread.data(labels, detail) if self._spread is not None else None
        shared, notes = self._share(labels), self._notes(tree)
        self.differences = tuple(self._compare(tree.data, flat, bottom_up))
        yield Panel("hotspots", "Overview", {**shared, **overview}, notes)
        if any(costs.is_additive and not costs.has_missing for costs in metrics):
            yield Panel("flame", "Flame graph", {**shared, "tree": tree.data}, notes)
        yield Panel("calltree", "Call tree", {**shared, "tree": tree.data, "flat": flat, "callers": bottom_up}, notes)
        if spread is not None:
            yield Panel("spread", "Spread", {**shared, **spread[0]}, spread[1])

    def overview_panel(self, detail: Detail) -> Panel:
        """Return the hot path and the costliest functions alone."""
        labels = Labels(self._experiment.contexts)
        overview = self._glance(labels, self._functions.data(labels, detail, self._limits.rows))
        return Panel("hotspots", "Overview", {**self._share(labels), **overview}, self._notes())

    def flame_data(self, context: int, share: float) -> tuple[dict[str, Any], int]:
        """Return the tree of a flame graph around a call without boxes that are narrower than a share of its width, and
        how many are folded for that."""
        labels = Labels(self._experiment.contexts)
        tree = self._tree.cut_around(context, share, labels)
        return {**self._share(labels), "tree": tree.data}, tree.n_folded

    def spread_panel(self, detail: Detail) -> Panel | None:
        """Return the spread over profiles alone; None where there is only one."""
        if self._spread is None:
            return None
        labels = Labels(self._experiment.contexts)
        data, notes = self._spread.data(labels, detail)
        return Panel("spread", "Spread", {**self._share(labels), **data}, notes)

    def _glance(self, labels: Labels, top: dict[str, Any]) -> dict[str, Any]:
        """Return what the overview shows beside the costliest functions."""
        return {
            "paths": [rows_of(path, labels) for path in self._paths],
            "top": top,
            "imbalance": self._spread.imbalance() if self._spread is not None else {},
            "n_runs": self._n_runs,
            "has_spread": self._spread is not None,
        }

    def _share(self, labels: Labels) -> dict[str, Any]:
        """Return what all panels have, once everything has its label."""
        return {"labels": labels.data, "metrics": [describe_metric(costs) for costs in self._shown.metrics]}

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

    def _notes(self, tree: CutTree | None = None) -> tuple[str, ...]:
        notes = []
        if self._n_runs > 1:
            where = "Spread shows them side by side, " if self._spread is not None else ""
            notes.append(f"{self._n_runs:,} runs are added up here; {where}--run chooses one of them.")
        if signed := [costs.metric.name for costs in self._shown.metrics if costs.is_signed]:
            these = "These costs" if len(signed) == len(self._shown.metrics) else f"Costs in {', '.join(signed)}"
            notes.append(
                f"{these} are differences: some are below zero. What is larger changed more, whichever way; shares "
                "are of all changes by their sizes, so that more and less do not cancel out."
            )
        if tree is not None and tree.n_folded:
            notes.append(
                f"To keep this page small, {tree.n_folded:,} of {tree.n_kept + tree.n_folded:,} contexts are folded "
                f"into rows that say how many they stand for: each has at most {_percent(tree.share)} of the cost in "
                "every metric. Flat tables and totals still count them."
            )
        if self._shown.left_out:
            n_shown, left = len(self._shown.metrics), self._shown.left_out
            notes.append(f"{n_shown} metrics are shown, {left} more are not; -m chooses which one comes first.")
        if names := self._functions.without_values:
            lacks = f"{', '.join(names)}: a formula of single call paths has no value where a row stands for several:"
            notes.append(f"{lacks} see the call tree.")
        if n := self._shown.unavailable:
            which = (
                "1 derived metric is not shown: its formula"
                if n == 1
                else f"{n} derived metrics are not shown: their formulas"
            )
            notes.append(f"{which} cannot be evaluated; `callgrove info --metrics` says why.")
        return tuple(notes)


def _percent(share: float) -> str:
    return f"{100 * share:.3g}%"
