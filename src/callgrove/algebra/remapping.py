"""Another tree of metrics for an experiment: that of a specification, or one of time by what contexts do.

    remap(experiment, specification)     its metrics, and those of the experiment that it does not name
    remap(experiment, None)              time > execution > comp, mpi > mpi_communication > ..., with Scalasca's names

A specification names metrics that stay (by name) and formulas over them. What the experiment does not have keeps its
place and has no values (`Metric.is_missing`), which is said; formulas take it as 0, as Cube's tools do. Metrics that a
formula declares void are left out. Without a specification every context is classified by the
paradigm and role of its region, or by the names of its function and library (`model/activities.py`), and the metrics
are sums of its time over contexts: the branches that occur.

Formulas stay formulas: nothing is computed that nobody asks for.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np

from callgrove.algebra.idle_threads import (
    IDLE_THREADS,
    IMBALANCE,
    LIMITED_PARALLELISM,
    count_lone_workers,
    list_computable,
    with_idle_threads,
)
from callgrove.algebra.metric_rows import NewRow, with_metric_rows
from callgrove.arrays import ABSENT, Bools, Floats, Ids
from callgrove.errors import Parameter, UsageError, compose_text
from callgrove.model.activities import ACTIVITIES, activities_below, find_activities
from callgrove.model.contexts import ContextTree
from callgrove.model.cubepl import Definition, Specification, Surroundings, compile_metrics
from callgrove.model.derived import Cells, Derivation, When, derive_metric
from callgrove.model.experiment import Experiment, InputWarning, Severity
from callgrove.model.metrics import NOT_MEASURED, Aggregation, Metric, Metrics, Scope

__all__ = ["ActivityTime", "remap"]

TIME = "time"  # the metric of specifications that others divide
COMPUTED = (IDLE_THREADS, LIMITED_PARALLELISM, *IMBALANCE)
OF_RUNS = "several runs are classified by paradigms, roles and names; a specification can be given with "


def remap(experiment: Experiment, specification: Specification | None, idle_threads: bool = False) -> Experiment:
    """Return the experiment with the metrics of a specification, or without one with time divided by what contexts do.
    `idle_threads`: compute what formulas cannot, idle threads and imbalance."""
    whole = None if experiment.whole is None else remap(experiment.whole, specification, idle_threads)
    return replace(_remap(experiment, specification, idle_threads), whole=whole)


def _remap(experiment: Experiment, specification: Specification | None, idle_threads: bool) -> Experiment:
    if specification is None:
        made = _classify(experiment, idle_threads)
        return _note(made, compose_text(OF_RUNS, Parameter("specification"))) if len(made.runs) > 1 else made
    made, missing = _follow(experiment, specification, idle_threads)
    return _note_missing(_add_idle_threads(made, TIME, missing) if idle_threads else made)


def _note(experiment: Experiment, text: str) -> Experiment:
    return replace(experiment, warnings=(*experiment.warnings, InputWarning(Severity.NOTE, text)))


def _note_missing(experiment: Experiment) -> Experiment:
    """Return the experiment with a note about metrics that nobody measured."""
    missing = experiment.metrics.missing
    if not missing:
        return experiment
    some = ", ".join(missing[:3]) + (", ..." if len(missing) > 3 else "")
    said = f"{len(missing)} metrics of the specification are not measured here, so they have no values: {some}"
    computable = any(dict(experiment.metrics.first(name).attributes)[NOT_MEASURED] for name in missing)
    return _note(
        experiment, compose_text(said, "; computed with ", Parameter("idle_threads", True)) if computable else said
    )


def _add_idle_threads(experiment: Experiment, time: str, empty: Sequence[str]) -> Experiment:
    """Return the experiment with values of idle threads and imbalance, where nothing has any yet."""
    if time not in experiment.metrics.quantities or time in empty:
        raise UsageError(f"{experiment.path}: has no metric {time!r}, which idle threads are computed of")
    made = with_idle_threads(experiment, time, [name for name in empty if name in COMPUTED])
    n_workers = count_lone_workers(experiment)
    alone = (
        f"imbalance is that of the first threads of processes: no parallel region of OpenMP has the other {n_workers}"
    )
    return _note(made, alone) if n_workers and not {*IMBALANCE}.isdisjoint(empty) else made


# -- by a specification ------------------------------------------------------------------------------------------------


def _follow(experiment: Experiment, specification: Specification, idle: bool) -> tuple[Experiment, list[str]]:
    """Return the experiment with the metrics of a specification, and the names of those that nobody measured. `idle`:
    idle threads and imbalance are to be computed of it."""
    metrics, said = experiment.metrics, specification.definitions
    named = {definition.row.name for definition in said}
    measured = {*metrics.quantities} - {*metrics.missing}
    missing = [d.row.name for d in said if not d.is_derived and d.row.name not in measured]
    computable = list_computable(missing, named.union(measured).difference(missing))
    hints = {
        name: "idle_threads" if name in computable else "" for name in missing if not idle or name not in computable
    }
    taken = [_take_over(definition, metrics, hints) for definition in said]
    others = [Definition(metrics.first(name)) for name in metrics.quantities if name not in named]
    compiled = compile_metrics([*taken, *others], _look_around(experiment, specification))
    void = compiled.program.voids(experiment.contexts)
    made = with_metric_rows(experiment, _place_rows(metrics, compiled.rows[: len(said)], void))
    notes = (InputWarning(Severity.NOTE, f"{specification.name}: {text}") for text in compiled.notes)
    attributes = {**made.attributes, **specification.attributes}
    made = replace(made, attributes=attributes, warnings=(*made.warnings, *notes))
    return made, [name for name in missing if name not in void]


def _take_over(definition: Definition, metrics: Metrics, hints: Mapping[str, str]) -> Definition:
    """Return what a specification says of a metric; of one that is measured, with how it was measured. `hints` are
    those that have no values, with what computes them."""
    said = definition.row
    if said.name in hints:
        return replace(definition, row=said.as_missing(hints[said.name]))
    if definition.is_derived or said.name not in metrics.quantities or said.name in metrics.missing:
        return definition
    return Definition(_describe_again(metrics.first(said.name), said, said.parent))


def _describe_again(row: Metric, said: Metric, parent: int) -> Metric:
    """Return a measured row with the words and the place of a specification."""
    return replace(
        row,
        description=said.description or row.description,
        url=said.url or row.url,
        visible=said.visible,
        parent=parent,
        attributes=tuple({**dict(row.attributes), **dict(said.attributes)}.items()),
    )


def _look_around(experiment: Experiment, specification: Specification) -> Surroundings:
    places = experiment.profiles.system[experiment.profiles.measured]
    n_mirrors = sum(text.count("\n") + 1 for text in specification.attributes.values())
    return Surroundings(experiment.path, n_mirrors, experiment.system, tuple(places[places >= 0].tolist()))


def _place_rows(metrics: Metrics, said: Sequence[Metric], void: Collection[str]) -> list[NewRow]:
    """Return the rows of a specification that are not void, each with the stored values of its name, then all rows
    that it does not name."""
    rows: list[NewRow] = []
    number_of: dict[str, int] = {}  # of the first row of each quantity
    rows_of: dict[str, list[int]] = {}
    for row, old in enumerate(metrics):
        rows_of.setdefault(old.name, []).append(row)
    for metric in said:
        if metric.name in void:
            continue
        above = metric.parent
        while above >= 0 and said[above].name in void:
            above = said[above].parent
        parent = number_of[said[above].name] if above >= 0 else ABSENT
        number_of[metric.name] = len(rows)
        stored = [] if metric.formula or metric.name in metrics.missing else rows_of.get(metric.name, [])
        rows += [NewRow(_describe_again(metrics[row], metric, parent), row) for row in stored]
        rows += [] if stored else [NewRow(replace(metric, parent=parent))]
    named = {metric.name for metric in said}
    others = [row for row, old in enumerate(metrics) if old.name not in named and old.name not in void]
    for number, row in enumerate(others, len(rows)):
        number_of.setdefault(metrics[row].name, number)
    for row in others:
        above = metrics[row].parent
        parent = number_of.get(metrics[above].name, ABSENT) if above >= 0 else ABSENT
        rows.append(NewRow(replace(metrics[row], parent=parent), row))
    return rows


# -- by what contexts do -----------------------------------------------------------------------------------------------


class _Activities:
    """The activity of every context, of the tree that was asked for last: all metrics of an experiment share it."""

    def __init__(self) -> None:
        self._tree: ContextTree | None = None
        self._activity: Ids = np.empty(0, np.int32)

    def of(self, tree: ContextTree) -> Ids:
        if tree is not self._tree:
            self._tree, self._activity = tree, find_activities(tree)
        return self._activity


class ActivityTime(Derivation):
    """The time of contexts that are busy with an activity, or with one below it. `idle` is a metric that is not time of
    theirs, empty where there is none."""

    language: ClassVar[str] = "activities"

    def __init__(self, activity: str, time: str, idle: str, known: _Activities) -> None:
        self.time, self.idle, self.when = time, idle, When.EACH
        self.text = f"{time}{f' - {idle}' if idle else ''} of contexts that do {activity}"
        self._known, self._chosen = known, activities_below(activity)

    @property
    def operands(self) -> tuple[str, ...]:
        return (self.time, self.idle) if self.idle else (self.time,)

    @property
    def adds_over_profiles(self) -> bool:
        return True

    @property
    def depends_on_contexts(self) -> bool:
        return True

    def evaluate(self, cells: Cells) -> Floats:
        """Return the time of each cell whose context does it, 0 of others."""
        time = cells.of(self.time)
        if self.idle:
            time = time - cells.of(self.idle)
        does: Bools = np.isin(self._known.of(cells.tree)[cells.contexts], self._chosen)
        return np.where(does[:, None] if time.ndim > 1 else does, time, 0.0)


def _classify(experiment: Experiment, idle_threads: bool) -> Experiment:
    """Return the experiment with its time divided by what contexts do."""
    time, known = _find_time(experiment), _Activities()
    names = _find_branches(known.of(experiment.contexts))
    there = {*experiment.metrics.quantities} - {*experiment.metrics.missing}
    computable = list_computable(COMPUTED, {*there, *names}) if idle_threads else set()
    idle = [name for name in COMPUTED if name in computable]
    if taken := [name for name in (*names, *idle) if name in experiment.metrics.quantities]:
        text = f"the metric {taken[0]} is there already: metrics are left as they are, as no specification was given"
        return _note(experiment, text)
    made = with_metric_rows(experiment, _list_rows(experiment.metrics, time, names, idle, known))
    if not idle:
        return made
    left_out = [name for name in COMPUTED if name not in idle]
    made = _add_idle_threads(made, time, idle)
    return _note(made, f"left out, as nothing counts visits: {', '.join(left_out)}") if left_out else made


def _find_time(experiment: Experiment) -> str:
    """Return the metric to divide: the one that views show, if it is a time, else the first time that adds up."""
    metrics = experiment.metrics
    for name in (experiment.default_metric, *metrics.shown):
        metric = metrics.first(name)
        if metric.is_time and metric.aggregation == Aggregation.SUM and metric.composite is None:
            return name
    raise UsageError(f"{experiment.path}: no metric is a time that adds up, so there is nothing to divide")


def _find_branches(activities: Ids) -> list[str]:
    """Return the activities that occur, and those above them, parents first; not the root, which is time itself."""
    occurs = {ACTIVITIES[number].name for number in np.unique(activities).tolist() if number >= 0}
    for activity in reversed(ACTIVITIES):
        if activity.name in occurs:
            occurs.add(activity.parent)
    return [activity.name for activity in ACTIVITIES if activity.name in occurs and activity.parent]


def _list_rows(
    metrics: Metrics, time: str, names: Sequence[str], idle: Sequence[str], known: _Activities
) -> list[NewRow]:
    """Return the rows of time, the activities below it, what is computed of idle threads, and all other metrics."""
    first = [row for row, metric in enumerate(metrics) if metric.name == time]
    others = [row for row in range(len(metrics)) if row not in first]
    unit, dtype = metrics[first[0]].unit, "DOUBLE" if metrics[first[0]].dtype.isupper() else "double"
    numbers = {TIME: 0, **{name: len(first) + k for k, name in enumerate(names)}}
    parents = {activity.name: activity.parent for activity in ACTIVITIES}
    divided, not_theirs = [], IDLE_THREADS if idle else ""
    for name in names:
        row = Metric(name, Scope.EXCLUSIVE, unit, dtype, parent=numbers[parents[name]])
        divided.append(NewRow(derive_metric(name, ActivityTime(name, time, not_theirs, known), row, adds_up=True)))
    places = {"": 0, **{name: len(first) + len(names) + k for k, name in enumerate(idle)}}
    below = [
        NewRow(
            Metric(
                name,
                Scope.EXCLUSIVE,
                unit,
                dtype,
                parent=places[IDLE_PARENTS[name]] if name in IDLE_PARENTS else ABSENT,
            )
        )
        for name in idle
    ]
    kept = [*first, *others]
    new = {row: k if k < len(first) else k + len(divided) + len(below) for k, row in enumerate(kept)}
    stored = [NewRow(replace(metrics[row], parent=new.get(metrics[row].parent, ABSENT)), row) for row in kept]
    return [*stored[: len(first)], *divided, *below, *stored[len(first) :]]


IDLE_PARENTS = {  # time is ""; imbalance has none
    IDLE_THREADS: "",
    LIMITED_PARALLELISM: IDLE_THREADS,
    "imbalance_above": "imbalance",
    "imbalance_above_single": "imbalance_above",
    "imbalance_below": "imbalance",
    "imbalance_below_bypass": "imbalance_below",
    "imbalance_below_singularity": "imbalance_below_bypass",
}
