"""What one run of an experiment has of a metric at each call path: measured values and derived ones.

Measured values are those of a quantity in a scope, combined over the profiles of the run. Contexts with the same call
path add up, but for files that store a row of values for each context (Cube). Of these, Extra-P takes every row as a
repetition, as stored, and what is less than nothing of an unsigned counter as 0.

A formula over sums is computed of what the run has at a call path, where profiles are added up; where they are not, of
what each profile or device has there, and what becomes of these is the same as of measured values.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

import numpy as np

from callgrove.arrays import ABSENT, Array, Bools, Floats, Ints, combine_upwards, distinct_rows, summable
from callgrove.errors import Parameter, UsageError
from callgrove.model.books import Totals
from callgrove.model.computed_values import Recipe, find_operands, lacks_operand, recipe
from callgrove.model.contexts import ContextTree
from callgrove.model.derived import ProfileCells, TotalCells
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Aggregation, Metric, Scope
from callgrove.model.profiles import ProfileKind
from callgrove.model.study.call_paths import CallPaths, PathCells
from callgrove.model.values import DenseBlock, has_fillers

__all__ = ["EXTRA_P", "Combination", "Cost", "Measure", "Part", "devices_of"]


class Combination(StrEnum):
    """What becomes of the values that the profiles of one run have."""

    SUM = "sum"
    MEAN = "mean"  # over processes (GPUs where only their streams have values) that have any value of the quantity
    MAXIMUM = "max"  # of these
    STRONG = "strong"  # their sum as Extra-P makes it: rows that a file stores of one call path are repetitions
    EACH = "each"  # all are kept: one repetition with a value per profile (Extra-P's weak scaling)
    EACH_USED = "each used"  # the same without zeros, unless there is nothing else (weak_threaded)
    DEVICE = "device"  # added up on every GPU, or on the host in every process; then as EACH


OVER_PLACES = (Combination.MEAN, Combination.MAXIMUM, Combination.DEVICE)
MOST_CELLS = 1 << 23  # of a matrix of profiles and contexts
SUMS = (Combination.SUM, Combination.STRONG)
BY_ROWS = (Combination.STRONG, Combination.EACH, Combination.EACH_USED)  # Extra-P's own
EXTRA_P = {  # what Extra-P calls it: it knows no devices, each of which is a measurement like a process
    Combination.SUM: "strong",
    Combination.STRONG: "strong",
    Combination.EACH: "weak",
    Combination.EACH_USED: "weak_threaded",
    Combination.DEVICE: "weak",
}


def devices_of(experiment: Experiment) -> Ints:
    """Return the profiles of streams on GPUs that processes of a rank used."""
    profiles = experiment.profiles
    on_device = np.isin(profiles.kind, (ProfileKind.GPU_STREAM, ProfileKind.QUEUE))
    for column in ("rank", "gpu_device"):
        on_device = on_device & profiles.identity(column)[1]
    return np.flatnonzero(on_device)


class Cost(NamedTuple):
    """What values add up to, and what their magnitudes do."""

    total: float
    magnitude: float


@dataclass(frozen=True)
class Part:
    """A quantity in one run: rows of values (x 1, or x profiles), each a repetition of its call path; which call paths
    the run reached, and those that are stored whatever their value."""

    values: Floats
    paths: Ints
    reached: Bools
    listed: Bools
    n_negative: int = 0  # values of unsigned counters that count as 0
    cost: Cost | None = None  # what all values should add up to; None where they do not add up
    n_unlisted: int = 0  # contexts with an inclusive value that no series is made of
    may_lack_values: bool = False  # NaN is not a value, as it is of formulas

    def find_used_paths(self, n_paths: int) -> Bools:
        """Return which call paths have a value, or are stored whatever their value."""
        has_value = np.zeros(n_paths, np.bool_)
        values = np.nan_to_num(self.values) if self.may_lack_values else self.values
        has_value[self.paths[(values != 0).any(axis=1)]] = True
        return (has_value & self.reached) | self.listed


@dataclass(frozen=True)
class Measure:
    """How the values of runs are read and combined."""

    experiment: Experiment
    scope: Scope
    combination: Combination
    paths: CallPaths
    counted: Totals

    def of_runs(self, metric: Metric) -> list[Part]:
        """Return what every run has of a metric."""
        runs = range(len(self.experiment.runs))
        if metric.derivation is not None:
            return [_evaluate_run(self, metric, run) for run in runs]
        way = recipe(self.experiment.metrics, metric.name, self.scope)
        return [_measure_run(self.experiment, way, run, self.combination, self.paths, self.counted) for run in runs]


def _profiles_of(experiment: Experiment, run: int, combination: Combination) -> Ints:
    """Return the profiles of a run, whose values must be known one by one unless they are added up."""
    profiles: Ints = experiment.values.known[experiment.profiles.run[experiment.values.known] == run]
    if combination not in SUMS and np.isin(profiles, experiment.profiles.aggregates).any():
        name = experiment.runs[run].name or experiment.path
        only = f"{name}: only what all profiles have together is known; take their sum ("
        raise UsageError(only, Parameter("scaling", "strong"), ")")
    return profiles


# -- measured values ---------------------------------------------------------------------------------------------------


def _measure_run(
    experiment: Experiment, way: Recipe, run: int, combination: Combination, paths: CallPaths, counted: Totals
) -> Part:
    profiles = _profiles_of(experiment, run, combination)
    stored = _Stored.of(experiment, way, profiles, counted)
    listed, n_unlisted = _mark_paths(stored.listed, paths), stored.count_unlisted(experiment.contexts, way)
    cost = None if n_unlisted else stored.cost
    reached = stored.find_reached_paths(experiment.contexts, paths)
    if stored.dense and combination in BY_ROWS:
        values, contexts, n_negative, clipped = _rows(experiment, way, profiles, stored.listed[: len(paths.of_context)])
        if combination == Combination.STRONG:
            rule = np.add if way.metric.composite is not None else way.metric.aggregation.ufunc
            values = rule.reduce(values, axis=1, keepdims=True)
        if cost is not None and clipped:
            cost = cost._replace(total=cost.total + clipped)
        return Part(values, paths.of_context[contexts], reached, listed, n_negative, cost, n_unlisted)
    values = _add_up(experiment, way, profiles, combination, paths, stored)
    if combination == Combination.MAXIMUM or has_fillers(experiment.values.backend):  # which are not added up
        cost = None
    elif combination == Combination.MEAN and cost is not None:
        n_places = len(_places_with_values(experiment, profiles, stored.carriers))
        cost = Cost(*(number / max(1, n_places) for number in cost))
    return Part(values, np.arange(len(paths.texts)), reached, listed, cost=cost, n_unlisted=n_unlisted)


def _rows(experiment: Experiment, way: Recipe, profiles: Ints, listed: Bools) -> tuple[Floats, Ints, int, float]:
    """Return the values of each context that is listed (x profiles), these contexts, how many values below zero became
    0, and by how much. Counters exceed 2^53, so differences are taken before anything becomes a double."""
    contexts, n_negative, clipped = np.flatnonzero(listed), 0, 0.0
    unsigned = way.metric.dtype.upper().startswith("U") and way.metric.composite is None
    columns = []
    for chunk in _chunks(profiles, len(experiment.contexts)):
        for column in _columns(experiment, way, chunk):
            values = experiment.values.scalar(way.stored, _in_scope(way, column, experiment.contexts))[contexts]
            if unsigned:
                below = values[values < 0]
                n_negative, clipped = n_negative + len(below), clipped - float(below.sum(dtype=np.float64))
                values = np.maximum(values, 0)
            absent = values == way.metric.aggregation.neutral
            columns.append(np.where(absent, 0.0, values.astype(np.float64)))
    rows = np.stack(columns, axis=1) if columns else np.zeros((len(contexts), 0))
    return rows, contexts, n_negative, clipped


def _in_scope(way: Recipe, stored: Array, tree: ContextTree) -> Array:
    """Return stored values in the wanted scope. As Extra-P does, children are taken off a double one after the other,
    and what rounding leaves of it stays."""
    additive = way.metric.aggregation == Aggregation.SUM and way.metric.composite is None
    if stored.dtype.kind != "f" or not additive or (way.metric.scope, way.wanted) != (Scope.INCLUSIVE, Scope.EXCLUSIVE):
        return way.apply(stored, tree)
    out = stored.copy()
    children = np.flatnonzero(tree.parent >= 0)
    np.subtract.at(out, tree.parent[children], stored[children])
    return out


def _add_up(
    experiment: Experiment, way: Recipe, profiles: Ints, combination: Combination, paths: CallPaths, stored: _Stored
) -> Floats:
    """Return one row of values for each call path: contexts that share it add up."""
    if combination in SUMS:
        return _on_paths(experiment, way, experiment.values.totals(way.stored, profiles), paths)[:, None]
    if combination in OVER_PLACES:
        places = _places(experiment, profiles, stored.carriers)
        if combination != Combination.DEVICE:
            places = _places_with_values(experiment, profiles, stored.carriers)
        columns = [
            _on_paths(experiment, way, experiment.values.totals(way.stored, profiles_of_place), paths)
            for profiles_of_place in places
        ]
    else:
        columns = [
            _on_paths(experiment, way, column, paths)
            for chunk in _chunks(profiles, len(experiment.contexts))
            for column in _columns(experiment, way, chunk)
        ]
    each = np.stack(columns, axis=1) if columns else np.zeros((len(paths.texts), 0))
    if combination == Combination.MEAN:
        each = each.sum(axis=1, keepdims=True) / max(1, len(columns))
    elif combination == Combination.MAXIMUM:
        each = each.max(axis=1, keepdims=True, initial=0.0 if not columns else -np.inf)
    return each


def _places_with_values(experiment: Experiment, profiles: Ints, carriers: Ints) -> list[Ints]:
    """Return the places of which some profile has a value of the quantity."""
    return [place for place in _places(experiment, profiles, carriers) if np.isin(place, carriers).any()]


def _places(experiment: Experiment, profiles: Ints, carriers: Ints) -> list[Ints]:
    """Return the profiles of each GPU where only streams carry values, those of each process where anything else does;
    a stream belongs to its process there."""
    streams = np.intersect1d(profiles, devices_of(experiment))
    on_devices = len(carriers) > 0 and bool(np.isin(carriers, streams).all())
    chosen = streams if on_devices else profiles
    if not on_devices and len(carriers) and not np.isin(carriers, streams).any():
        chosen = np.setdiff1d(profiles, streams)
    columns = ("node", "rank", "gpu_device") if on_devices else ("node", "rank")
    keys = [
        np.where(present, values, np.uint64(2**64 - 1))[chosen]
        for values, present in map(experiment.profiles.identity, columns)
    ]
    _, number = distinct_rows(*(key.astype(np.int64) for key in keys))
    return [chosen[number == k] for k in range(int(number.max(initial=-1)) + 1)]


def _chunks(profiles: Ints, n_contexts: int) -> Iterator[Ints]:
    """Yield so many profiles at once that a matrix of them stays small."""
    step = max(1, MOST_CELLS // max(1, n_contexts))
    for first in range(0, len(profiles), step):
        yield profiles[first : first + step]


def _columns(experiment: Experiment, way: Recipe, profiles: Ints) -> Iterator[Array]:
    """Yield the stored values of each profile, over all contexts. One pass over the input serves all of them."""
    if way.metric.composite is not None:
        yield from (experiment.values.totals(way.stored, np.array([p])) for p in profiles.tolist())
        return
    aggregation = way.metric.aggregation
    shape = len(profiles), len(experiment.contexts)
    matrix: Array | None = None
    place = np.full(len(experiment.profiles), ABSENT, np.int64)
    place[profiles] = np.arange(len(profiles))
    for block in experiment.values.blocks(profiles, np.array([way.stored])):
        triples = block.triples()
        values = triples.value.astype(np.float64) if aggregation.neutral else summable(triples.value)
        if matrix is None:
            matrix = np.full(shape, aggregation.neutral, values.dtype)
        elif matrix.dtype != values.dtype:
            matrix = matrix.astype(np.promote_types(matrix.dtype, values.dtype))
        aggregation.combine_at(matrix.reshape(-1), place[triples.profile] * shape[1] + triples.context, values)
    yield from np.full(shape, aggregation.neutral) if matrix is None else matrix


@dataclass(frozen=True)
class _Stored:
    """What a run stores of a metric: contexts with a value, contexts that are listed whatever their value, the profiles
    that have any, and their cost where values add up. `dense`: it lists contexts, a row for each."""

    contexts: Bools
    dense: bool
    listed: Bools
    carriers: Ints
    cost: Cost | None

    @classmethod
    def of(cls, experiment: Experiment, way: Recipe, profiles: Ints, counted: Totals) -> _Stored:
        has_value = np.zeros(len(experiment.contexts), np.bool_)
        listed = np.zeros(len(experiment.contexts), np.bool_)
        carriers: set[int] = set()
        dense = False
        counted.total[way.stored] = counted.magnitude[way.stored] = 0.0
        for block in experiment.values.blocks(profiles, np.array([way.stored])):
            triples = block.triples()
            counted.add_rows(triples.metric, triples.context, triples.value)
            has_value[triples.context] = True
            carriers.update(np.unique(triples.profile).tolist())
            if isinstance(block, DenseBlock):
                dense = True
                listed[block.contexts] = True
        cost = Cost(float(counted.total[way.stored]), float(counted.magnitude[way.stored]))
        known = cost if counted.adds_up[way.stored] else None
        return cls(has_value, dense, listed, np.array(sorted(carriers), np.int64), known)

    def find_reached_paths(self, tree: ContextTree, paths: CallPaths) -> Bools:
        """Return which call paths have a stored value, at them or below; those that are listed, where any are."""
        return _mark_paths(self.listed if self.dense else _with_ancestors(self.contexts, tree), paths)

    def count_unlisted(self, tree: ContextTree, way: Recipe) -> int:
        """Return how many contexts above those that a file lists have an inclusive value that is computed: Extra-P
        makes series of what is listed alone, and so do we."""
        computed = self.dense and way.wanted == Scope.INCLUSIVE and way.metric.scope != Scope.INCLUSIVE
        return int((_with_ancestors(self.listed, tree) & ~self.listed).sum()) if computed else 0


def _with_ancestors(contexts: Bools, tree: ContextTree) -> Bools:
    return combine_upwards(contexts.astype(np.int8), tree.parent, tree.levels, np.maximum).astype(np.bool_)


def _mark_paths(contexts: Bools, paths: CallPaths) -> Bools:
    out = np.zeros(len(paths.texts), np.bool_)
    out[paths.of_context[contexts[: len(paths.of_context)]]] = True
    return out


def _on_paths(experiment: Experiment, way: Recipe, stored: Array, paths: CallPaths) -> Floats:
    """Return stored values in the wanted scope, added up over the contexts of each call path; absent is 0."""
    values = experiment.values.scalar(way.stored, way.apply(stored, experiment.contexts))
    listed = np.asarray(values[: len(paths.of_context)], np.float64)
    aggregation = Aggregation.SUM if way.metric.composite is not None else way.metric.aggregation
    out = np.full(len(paths.texts), aggregation.neutral)
    aggregation.combine_at(out, paths.of_context, listed)
    return np.where(out == aggregation.neutral, 0.0, out)


# -- derived metrics ---------------------------------------------------------------------------------------------------


def _evaluate_run(how: Measure, metric: Metric, run: int) -> Part:
    """Return a derived metric in one run. It reaches the call paths that its operands reach, as far as it has a value
    there."""
    experiment, n_paths = how.experiment, len(how.paths.texts)
    profiles = _profiles_of(experiment, run, how.combination)
    nowhere = np.zeros(n_paths, np.bool_)
    if lacks_operand(experiment.values, metric.name, profiles).any():
        return Part(np.full((n_paths, 1), np.nan), np.arange(n_paths), nowhere, nowhere, may_lack_values=True)
    cost = _add_up_formula(TotalCells(experiment.values, how.scope, profiles), metric)
    ways = [recipe(experiment.metrics, name, how.scope) for name in find_operands(experiment.metrics, metric.name)]
    stored = [_Stored.of(experiment, way, profiles, how.counted) for way in ways]
    carriers = np.unique(np.concatenate([one.carriers for one in stored])) if stored else profiles
    cells = list(_cells_of(how, profiles, carriers))
    columns = [one.of(metric.name).reshape(n_paths, -1) for one in cells]
    values = np.concatenate(columns, axis=1) if columns else np.zeros((n_paths, 0))
    if how.combination in (Combination.MEAN, Combination.MAXIMUM):
        values, n = _combine_profiles(values, metric, how.combination)
        cost = Cost(*(number / n for number in cost)) if cost is not None and n else None
    reached: Bools = np.array(~np.isnan(values).all(axis=1))
    if stored:
        reached &= np.logical_or.reduce([one.find_reached_paths(experiment.contexts, how.paths) for one in stored])
    return Part(values, np.arange(n_paths), reached, nowhere, cost=cost, may_lack_values=True)


def _cells_of(how: Measure, profiles: Ints, carriers: Ints) -> Iterator[PathCells]:
    """Yield what a formula is computed of: the whole run, each process or GPU, or each profile, some at a time."""
    experiment, scope = how.experiment, how.scope
    if how.combination in (*SUMS, *OVER_PLACES):
        places = [profiles] if how.combination in SUMS else _places(experiment, profiles, carriers)
        yield from (PathCells(TotalCells(experiment.values, scope, one), scope, how.paths) for one in places)
        return
    for chunk in _chunks(profiles, len(experiment.contexts)):
        yield PathCells(ProfileCells(experiment.values, scope, chunk, profiles), scope, how.paths)


def _add_up_formula(whole: TotalCells, metric: Metric) -> Cost | None:
    """Return what all values of a run should add up to; None where they do not."""
    if metric.aggregation == Aggregation.NONE:
        return None
    exclusive = whole.of(metric.name, Scope.EXCLUSIVE)[: whole.tree.n_listed]
    cost = Cost(float(whole.total(metric.name)), float(np.abs(exclusive).sum()))
    return cost if np.isfinite(cost).all() else None


def _combine_profiles(values: Floats, metric: Metric, combination: Combination) -> tuple[Floats, int]:
    """Return the mean or the maximum over processes, and how many of these make a mean: those that have any value. That
    of a formula over sums is over those with a value at the call path, and its number is 0."""
    if combination == Combination.MAXIMUM:
        largest = np.fmax.reduce(values, axis=1, keepdims=True, initial=-np.inf)
        return np.where(np.isneginf(largest), np.nan, largest), 0
    if metric.aggregation == Aggregation.NONE:
        known = ~np.isnan(values)
        with np.errstate(invalid="ignore"):
            return np.where(known, values, 0.0).sum(axis=1, keepdims=True) / known.sum(axis=1, keepdims=True), 0
    n = max(1, int((values != 0).any(axis=0).sum()))
    return values.sum(axis=1, keepdims=True) / n, n
