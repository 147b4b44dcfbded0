"""What the threads of a run spent their time on, by activity, and how its devices were used: what efficiencies are
made of.

A location is a thread of the host; streams of devices, and what only carries a metric, are none. Where a profiler has
added up threads, a location stands for several of them (`n_threads`): then neither its own runtime nor its largest
computation is known. Values are added up as they are stored, in one pass.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from callgrove.analysis.summary_sections import DeviceSums
from callgrove.arrays import Array, Bools, Floats, Ids, Ints, distinct
from callgrove.errors import NotEvaluated, UsageError
from callgrove.model.activities import ACTIVITIES, ACTIVITY_IDS, activities_below, find_activities
from callgrove.model.computed_values import recipe
from callgrove.model.contexts import ContextKind, ContextTree
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Aggregation, Metric, Scope, time_unit
from callgrove.model.profiles import ProfileKind
from callgrove.model.traces.profile_from_spans import METRICS as METRICS_OF_SPANS
from callgrove.model.values import Block, DenseBlock

__all__ = ["Counters", "DeviceUse", "Phase", "TimeUse", "choose_time", "count_events", "find_locations"]

MOST_CELLS = 1 << 21  # contexts x profiles that are looked at in one go
LOCATIONS_AT_ONCE = 1 << 16  # whose times are added up together
MOST_COMPARED = 1 << 26  # of which averages of contexts are compared with the values of profiles
ROUNDING = 1e-12
SIGNED = 1e-3  # of all time; what lies below zero and is less is not a difference of two runs
NS = 1e-9
UNNAMED = len(ACTIVITIES)  # the group of contexts that compute in functions without a name
OF_DEVICES = re.compile(r"G[A-Z]{2,}\b")  # times of HPCToolkit that are of operations on devices: GKER, GPUOP, ...
N_THREADS = ("number_of_threads", "num_threads")
IDLE = "omp_idle_threads"
PARALLEL, UNKNOWN = "!$omp parallel", "<unknown procedure>"


# -- which time, whose, and of what ------------------------------------------------------------------------------------


def choose_time(experiment: Experiment, asked: str | None) -> Metric:
    """Return the metric of the time of threads: the one asked for, else the first that has a cost and is neither of
    devices nor made of spans. Raises UsageError where there is none, or where it cannot be added up."""
    metrics = experiment.metrics
    if asked is not None:
        metric = metrics.first(metrics.resolve(asked))
    else:
        of_spans, there = {row.name for row in METRICS_OF_SPANS}, set(metrics.quantities)
        names = [name for name in metrics.shown if metrics.first(name).is_time and name not in of_spans]
        hosts = [name for name in names if not OF_DEVICES.match(name)]
        if not hosts:
            traced = (
                "; those of traced calls say nothing of what lies between them" if names or of_spans & there else ""
            )
            raise UsageError(f"there is no metric of the time that threads of the host spent{traced}")
        metric = metrics.first(next((name for name in hosts if _has_cost(experiment, name)), hosts[0]))
    if metric.composite is not None:
        raise UsageError(
            f"{metric.name} holds tuples over the threads of a process, of which no thread's time is known"
        )
    if not metric.is_time:
        raise UsageError(
            f"{metric.name} is not time (its unit is {metric.unit or 'none'}); efficiencies are shares of time"
        )
    if metric.aggregation != Aggregation.SUM:
        raise UsageError(f"{metric.name} does not add up, so no part of it is a share of the whole")
    return metric


def _has_cost(experiment: Experiment, name: str) -> bool:
    metric = experiment.metrics.first(name)
    return metric.composite is not None or bool(np.any(experiment.totals(name, Scope.INCLUSIVE)))


@dataclass(frozen=True)
class Phase:
    """The contexts that are looked at, and what each is busy with (-1 for all others)."""

    tree: ContextTree
    activities: Ids

    @classmethod
    def of(cls, tree: ContextTree, under: Bools | None = None) -> Phase:
        """Return the whole tree, or what lies at and below some of its contexts."""
        activities = find_activities(tree)
        if under is None:
            return cls(tree, activities)
        inside = _mark_subtrees(tree, np.flatnonzero(under))
        return cls(tree, np.where(inside, activities, np.int32(-1)).astype(np.int32))

    def busy_with(self, *names: str) -> Bools:
        """Return the contexts whose activity is one of these, or lies below one of them."""
        out: Bools = np.isin(self.activities, activities_below(*names))
        return out


def _mark_subtrees(tree: ContextTree, tops: Ints) -> Bools:
    """Return the contexts at and below some."""
    steps = np.zeros(len(tree) + 1, np.int64)
    np.add.at(steps, tops, 1)
    np.add.at(steps, tree.subtree_end[tops], -1)
    inside: Bools = np.cumsum(steps)[:-1] > 0
    return inside


# -- the time of threads -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TimeUse:
    """Seconds that the locations of a run spent, as activities x locations, and where they live. `above_average` is
    the computation beyond the average of each context, NaN where that is not known, and `no_average` says why;
    `unnamed` is the time of functions that nothing is known of but where they lie."""

    spent: Floats
    process: Ids
    is_master: Bools
    n_threads: Ints
    above_average: float
    no_average: str
    unnamed: float

    def of(self, *activities: str) -> Floats:
        """Return the seconds of each location in these activities and all below them; in all of them unless named."""
        rows = activities_below(*activities) if activities else slice(None)
        out: Floats = self.spent[rows].sum(axis=0)
        return out

    def at(self, activity: str) -> float:
        """Return the seconds of all locations in this very activity."""
        return float(self.spent[ACTIVITY_IDS[activity]].sum())

    @property
    def is_finite(self) -> bool:
        """Whether all of the time adds up to a number."""
        with np.errstate(invalid="ignore", over="ignore"):
            return bool(np.isfinite(self.spent.sum()))

    @property
    def is_signed(self) -> bool:
        """Whether time below zero matters, as it does in an experiment of differences; rounding alone does not."""
        below, sizes = float(self.spent[self.spent < 0].sum()), float(np.abs(self.spent).sum())
        return -below > SIGNED * sizes

    @property
    def n_processes(self) -> int:
        return int(self.process.max(initial=-1)) + 1

    @property
    def has_masters(self) -> bool:
        """Whether every process has its first thread among the locations."""
        return len(np.unique(self.process[self.is_master])) == self.n_processes

    @classmethod
    @np.errstate(invalid="ignore", over="ignore")  # values need not be finite
    def measure(cls, experiment: Experiment, locations: Ints, metric: Metric, phase: Phase) -> TimeUse:
        """Read the time of every context in these profiles."""
        seconds = time_unit(metric.unit) or 1.0
        process, is_master = _find_processes(experiment, locations)
        n_threads = _count_threads(experiment, locations)
        is_unnamed = _find_unnamed(phase.tree) & (phase.activities == ACTIVITY_IDS["comp"])
        groups = np.where(is_unnamed, UNNAMED, phase.activities)
        spent = _add_up(experiment, locations, metric, groups) * seconds
        if idle := _find_idle_metric(experiment, metric):
            idle_time = _add_up(experiment, locations, idle, groups) * seconds
            spent -= idle_time
            spent[ACTIVITY_IDS[IDLE]] += idle_time.sum(axis=0)
        unnamed = float(spent[UNNAMED].sum())
        spent[ACTIVITY_IDS["comp"]] += spent[UNNAMED]
        no_average = _explain_no_average(phase.tree, n_threads, is_master, idle)
        above = np.nan
        if not no_average:
            above = _add_above_average(experiment, locations, metric, phase, process, is_master) * seconds
        return cls(spent[:UNNAMED], process, is_master, n_threads, above, no_average, unnamed)


def _find_idle_metric(experiment: Experiment, time: Metric) -> Metric | None:
    """Return the metric of time in which threads had nothing to do, where a tool has added it to this time; None where
    nothing was added."""
    if IDLE not in experiment.metrics.quantities or IDLE in experiment.metrics.missing:
        return None
    idle = experiment.metrics.first(IDLE)
    is_part = idle.parent >= 0 and experiment.metrics[idle.parent].name == time.name
    return idle if is_part and _has_cost(experiment, IDLE) else None


def _add_up(experiment: Experiment, locations: Ints, metric: Metric, group: Ids) -> Floats:
    """Return the exclusive time of groups of contexts (-1: none) x locations, in one pass over what is stored. Where a
    wider scope is stored, a value that another one contains counts in its own group and is taken off that one's. What
    remains of a difference of equal sums is rounding, unless they are infinite."""
    experiment.values.demand_known(locations)
    way, tree = recipe(experiment.metrics, metric.name, Scope.EXCLUSIVE), experiment.contexts
    outer = {Scope.FUNCTION: tree.within, Scope.INCLUSIVE: tree.parent}.get(way.metric.scope)
    around = np.full(len(tree), -1) if outer is None else np.where((outer >= 0) & tree.listed, group[outer], -1)
    column = np.zeros(len(experiment.profiles), np.int64)
    out = np.zeros((UNNAMED + 1, len(locations)))
    for start in range(0, len(locations), LOCATIONS_AT_ONCE):
        some = locations[start : start + LOCATIONS_AT_ONCE]
        column[some] = np.arange(len(some))
        added, taken = np.zeros((2, UNNAMED + 1, len(some)))
        for block in experiment.values.blocks_without_fillers(some, np.array([way.stored])):
            for numbers, sums in ((group, added), (around, taken)):
                _add_block(block, numbers, column, sums)
        left: Floats = added - taken
        largest = np.maximum(np.abs(added), np.abs(taken))
        left[np.isfinite(largest) & (np.abs(left) <= ROUNDING * largest)] = 0.0
        out[:, start : start + len(some)] = left
    return out


def _add_block(block: Block, group: Array, column: Ints, sums: Floats) -> None:
    """Add values to the sums of the groups that their contexts are in."""
    if isinstance(block, DenseBlock):
        groups, columns = group[block.contexts], column[block.profiles]
        for number in distinct(groups[groups >= 0]).tolist():
            sums[number, columns] += block.matrix[groups == number].sum(axis=0)
        return
    groups = group[block.context]
    chosen = groups >= 0
    cells = groups[chosen].astype(np.int64) * sums.shape[1] + column[block.profile[chosen]]
    np.add.at(sums.reshape(-1), cells, block.value[chosen])  # one index is several times as fast as two


def find_locations(experiment: Experiment, profiles: Ints) -> Ints:
    """Return those of some profiles that are threads of the host."""
    kinds = experiment.profiles.kind[profiles]
    out: Ints = profiles[np.isin(kinds, (ProfileKind.THREAD, ProfileKind.OTHER))]
    return out


def _read(experiment: Experiment, quantity: str, profiles: Ints) -> Iterator[tuple[slice, Array]]:
    """Yield exclusive values, contexts x profiles, and which of the profiles they are of."""
    step = max(1, MOST_CELLS // max(1, len(experiment.contexts)))
    for start in range(0, len(profiles), step):
        some = profiles[start : start + step]
        values = experiment.matrix(quantity, Scope.EXCLUSIVE, some).astype(np.float64, copy=False)
        yield slice(start, start + len(some)), values


def _find_processes(experiment: Experiment, locations: Ints) -> tuple[Ids, Bools]:
    """Return the number of each location's process, and whether it is its first thread. Without ranks, a process begins
    with every thread 0, and threads belong to the one before them; if there is just one, all are of it."""
    ranks, has_rank = (column[locations] for column in experiment.profiles.identity("rank"))
    threads, has_thread = (column[locations] for column in experiment.profiles.identity("thread"))
    is_master = ~has_thread | (threads == 0)
    if has_rank.all():
        return np.unique(ranks, return_inverse=True)[1].astype(np.int32), is_master
    begun = np.maximum(np.cumsum(is_master) - 1, 0)
    return (begun if is_master.sum() > 1 else np.zeros(len(locations))).astype(np.int32), is_master


def _count_threads(experiment: Experiment, locations: Ints) -> Ints:
    """Return how many threads each location stands for: the largest number that any of its contexts says."""
    out = np.ones(len(locations), np.int64)
    for name in N_THREADS:
        if name in experiment.metrics.quantities and experiment.metrics.first(name).composite is None:
            for columns, values in _read(experiment, name, locations):
                out[columns] = np.maximum(out[columns], values.max(axis=0, initial=0).astype(np.int64))
    return out


def _explain_no_average(tree: ContextTree, n_threads: Ints, is_master: Bools, idle: Metric | None) -> str:
    """Return why threads cannot be compared with the average of a context; empty where they can."""
    if (n_threads > 1).any():
        return "locations are several threads added up"
    if idle is not None:
        return f"{idle.name} is part of the time, and no computation"
    if len(tree) * len(n_threads) > MOST_COMPARED:
        return f"{len(tree):,} contexts of {len(n_threads):,} locations are too many to compare"
    if not is_master.all() and not len(_find_parallel_regions(tree)):
        return "parallel regions of OpenMP, in which threads are compared, are not seen"
    return ""


def _add_above_average(
    experiment: Experiment, locations: Ints, metric: Metric, phase: Phase, process: Ids, is_master: Bools
) -> float:
    """Return how much computation lies above the average of its context: of all locations inside of parallel regions of
    OpenMP, of masters outside."""
    comp = phase.busy_with("comp")
    inside = _mark_subtrees(phase.tree, _find_parallel_regions(phase.tree))[comp]
    computed = experiment.totals(metric.name, Scope.EXCLUSIVE, locations)[comp]
    average = computed / np.where(inside, len(process), max(1, int(process.max(initial=0)) + 1))
    above = 0.0
    for columns, values in _read(experiment, metric.name, locations):
        beyond = np.maximum(values[comp] - average[:, None], 0.0)
        above += float(beyond[inside].sum() + beyond[~inside][:, is_master[columns]].sum())
    return above


def _find_unnamed(tree: ContextTree) -> Bools:
    """Return the contexts whose function has no name: lines, loops and instructions are those of a function."""
    unnamed = np.append(_lacks_name(tree), False)[tree.region]
    for level in tree.levels[1:]:
        unnamed[level] = np.where(tree.folded[level], unnamed[tree.parent[level]], unnamed[level])
    return unnamed


def _lacks_name(tree: ContextTree) -> Bools:
    """Return the regions of functions, and of instructions that stand for them, without a name."""
    regions = tree.regions
    names = [name < 0 or regions.strings[name].startswith(UNKNOWN) for name in regions.name.tolist()]
    return np.array(names, np.bool_) & np.isin(regions.kind, (ContextKind.FUNCTION, ContextKind.INSTRUCTION))


def _find_parallel_regions(tree: ContextTree) -> Ints:
    """Return the contexts that are parallel regions of OpenMP, by role or by name."""
    regions = tree.regions
    roles, paradigms = regions.text("role"), regions.text("paradigm")
    is_parallel = [
        (role == "parallel" and paradigm == "openmp") or (name >= 0 and regions.strings[name].startswith(PARALLEL))
        for role, paradigm, name in zip(roles, paradigms, regions.name.tolist(), strict=True)
    ]
    return np.flatnonzero(np.array([*is_parallel, False], np.bool_)[tree.region])


# -- counters ----------------------------------------------------------------------------------------------------------


INSTRUCTIONS = re.compile(
    r"(papi_tot_ins|(perf_count_hw_)?instructions|inst_retired([.:]any(_p)?)?)(:\w+)*$", re.IGNORECASE
)
CYCLES = re.compile(
    r"(papi_tot_cyc|(perf_count_hw_)?(cpu[-_])?cycles|cpu_clk_unhalted([.:]\w+)?)(:\w+)*$", re.IGNORECASE
)
PREFIX = re.compile(r"^(perf::|cpu/|papi_native:)", re.IGNORECASE)


@dataclass(frozen=True)
class Counters:
    """What the processor counted while computing, over all locations; NaN where no metric says it."""

    instructions: float
    cycles: float


@np.errstate(invalid="ignore", over="ignore")  # values need not be finite
def count_events(experiment: Experiment, locations: Ints, phase: Phase) -> Counters:
    """Return instructions and cycles of contexts that compute."""
    comp = phase.busy_with("comp")
    return Counters(*(_count(experiment, locations, comp, pattern) for pattern in (INSTRUCTIONS, CYCLES)))


def _count(experiment: Experiment, locations: Ints, comp: Bools, pattern: re.Pattern[str]) -> float:
    for name in experiment.metrics.quantities:
        plain = PREFIX.sub("", name.split(" (")[0])
        metric = experiment.metrics.first(name)
        if pattern.match(plain) and metric.composite is None and metric.aggregation == Aggregation.SUM:
            try:
                return float(experiment.totals(name, Scope.EXCLUSIVE, locations)[comp].sum())
            except NotEvaluated:
                continue
    return np.nan


# -- devices -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class DeviceUse:
    """Seconds of each device: kernels, copies, both at once, any operation; and the longest process, from its first to
    its last span."""

    kernels: Floats
    copies: Floats
    overlapping: Floats
    busy: Floats
    runtime: float

    @property
    def n_devices(self) -> int:
        return len(self.kernels)

    @classmethod
    def of(cls, devices: Sequence[DeviceSums]) -> DeviceUse:
        """Return how devices were used, as a summary of their trace has it. Kernels that communicate (NCCL, RCCL) are
        none of the computation."""

        def add(*words: str) -> Floats:
            """Return for how long all of these went on at once."""
            sums = [sum(ns for name, ns in d.going_on_ns.items() if all(w in name for w in words)) for d in devices]
            return np.array(sums, np.float64) * NS

        busy = np.array([device.busy_ns for device in devices], np.float64) * NS
        runtime = max(device.process_ns for device in devices) * NS
        return cls(add("compute"), add("copy"), add("compute", "copy"), busy, runtime)
