"""What threads do not do: idle threads, limited parallelism, and how uneven computation is.

Scalasca's tree of metrics has these beside what formulas give, because they compare threads with one another:

    omp_idle_threads           time in which the workers of a process have nothing to do
    omp_limited_parallelism    the part of it in which a parallel region runs on fewer threads than there are
    imbalance                  how far computation is from the mean over all that could take part
        imbalance_above            by those that have more to do; ..._single: of which only one takes part
        imbalance_below            by those that have less; ..._bypass: of which some take no part at all;
                                   ..._singularity: because one does it all

A parallel region is an outermost one of OpenMP; a context is inside where one lies above it. For a worker w of a
process with the master m:

    outside                idle(c, w) = exclusive time(c, m)
    a parallel region      idle(c, w) = limited(c, w) = inclusive time(c, m) - inclusive time(c, w), where that is more
    inside                 idle(c, w) = 0

and time(c, w) grows by idle(c, w). Computation is compared over all threads at and inside of parallel regions, over the
masters elsewhere. All of it follows the call tree, whatever the ids of its contexts.

Where processes have workers, this needs to see parallel regions, or to know that there is no OpenMP: regions of Score-P
say their paradigm. Where neither is so (samples of HPCToolkit), it is refused: masters alone would say that nobody is
idle, and nothing uneven.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from callgrove.algebra.metric_rows import NewRow, with_metric_rows
from callgrove.arrays import ABSENT, Bools, Floats, Ints, absent_stays, combine_upwards, new_numbers
from callgrove.errors import Parameter, UsageError
from callgrove.model.contexts import ContextTree
from callgrove.model.derived import MOST_CELLS, TotalCells
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Aggregation, Metrics, Scope
from callgrove.model.profiles import ProfileKind, Profiles
from callgrove.model.system import System
from callgrove.model.values import Block, DenseBlock

__all__ = [
    "IDLE_THREADS",
    "IMBALANCE",
    "LIMITED_PARALLELISM",
    "IdleThreads",
    "Imbalance",
    "count_lone_workers",
    "find_masters",
    "find_parallel_regions",
    "list_computable",
    "with_idle_threads",
]

COMPUTATION, VISITS = "comp", "visits"
IDLE_THREADS, LIMITED_PARALLELISM = "omp_idle_threads", "omp_limited_parallelism"
IMBALANCE = {
    "imbalance": "both",
    "imbalance_above": "above",
    "imbalance_above_single": "single",
    "imbalance_below": "below",
    "imbalance_below_bypass": "bypass",
    "imbalance_below_singularity": "singularity",
}
NEEDS_VISITS = ("imbalance_above_single", "imbalance_below_bypass", "imbalance_below_singularity")
THREAD_COUNTS = ("num_threads", "number_of_threads")  # where Score-P adds up threads of a process
OPENMP = "openmp"  # the paradigm of regions
ROUNDING_SEC = 1e-10  # less is not time in which a thread was idle


# -- who works where ---------------------------------------------------------------------------------------------------


def find_masters(profiles: Profiles, system: System) -> Ints:
    """Return for every profile the master of its process: the thread with the lowest number; -1 for what is not a
    thread of a process, and for processes whose name says that they are void. Without ranks all are of one process,
    unless all are its first thread: then each is a process."""
    out = np.full(len(profiles), ABSENT, np.int64)
    threads, known = profiles.identity("thread")
    ranks, has_rank = profiles.identity("rank")
    members: dict[tuple[int, int], list[int]] = {}
    for profile in np.flatnonzero(profiles.kind == ProfileKind.THREAD).tolist():
        if not _is_void(system, int(profiles.system[profile])):
            key = int(profiles.run[profile]), int(ranks[profile]) if has_rank[profile] else -1
            members.setdefault(key, []).append(profile)
    for (_, rank), team in members.items():
        if rank < 0 and known[team].all() and not threads[team].any():
            out[team] = team
            continue
        out[team] = min(team, key=lambda profile: (int(threads[profile]) if known[profile] else 0, profile))
    return out


def _is_void(system: System, place: int) -> bool:
    return place >= 0 and any("VOID" in system.name[k] for k in system.path(place))


def find_parallel_regions(tree: ContextTree) -> tuple[Bools, Bools]:
    """Return masks of the outermost parallel regions of OpenMP, and of the contexts below them."""
    regions = tree.regions
    words = zip(regions.text("paradigm"), regions.text("role"), map(regions.label, range(len(regions))), strict=True)
    is_parallel = np.array(
        [
            (paradigm == OPENMP and role == "parallel") or name.startswith("!$omp parallel")
            for paradigm, role, name in words
        ]
        + [False],  # of contexts without a region
        np.bool_,
    )
    outermost, change = np.zeros(len(tree), np.bool_), np.zeros(len(tree) + 1, np.int64)
    end = 0
    for context in np.flatnonzero(is_parallel[tree.region[: tree.n_listed]]).tolist():
        if context >= end:
            end = int(tree.subtree_end[context])
            outermost[context] = True
            change[context + 1] += 1
            change[end] -= 1
    inside: Bools = np.cumsum(change[:-1]) > 0
    return outermost, inside


# -- idle threads ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class IdleThreads:
    """Time in which workers have nothing to do; `time` is the metric."""

    experiment: Experiment
    time: str

    @cached_property
    def masters(self) -> Ints:
        return find_masters(self.experiment.profiles, self.experiment.system)

    def of(self, profiles: Ints) -> tuple[Floats, Floats]:
        """Return idle time and limited parallelism as exclusive values, contexts x these profiles."""
        tree = self.experiment.contexts
        outermost, inside = find_parallel_regions(tree)
        idle, limited = np.zeros((len(tree), len(profiles))), np.zeros((len(tree), len(profiles)))
        masters = self.masters[profiles]
        workers = np.flatnonzero((masters >= 0) & (masters != profiles))
        if not outermost.any() or not len(workers):
            return idle, limited
        needed, column = np.unique(masters[workers], return_inverse=True)
        outside = np.flatnonzero(~outermost & ~inside & tree.listed)
        of_masters = self.experiment.matrix(self.time, Scope.EXCLUSIVE, needed)
        idle[np.ix_(outside, workers)] = of_masters[np.ix_(outside, column)]
        parallel = np.flatnonzero(outermost)
        above = self.experiment.matrix(self.time, Scope.INCLUSIVE, needed)[np.ix_(parallel, column)]
        missing = above - self.experiment.matrix(self.time, Scope.INCLUSIVE, profiles[workers])[parallel]
        limited[np.ix_(parallel, workers)] = np.where(missing >= ROUNDING_SEC, missing, 0.0)
        idle[parallel] = limited[parallel]
        return idle, limited


# -- imbalance ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Imbalance:
    """How uneven computation is; `computation` and `visits` are metrics, the second empty where there is none."""

    experiment: Experiment
    computation: str
    visits: str

    @cached_property
    def masters(self) -> Ints:
        return find_masters(self.experiment.profiles, self.experiment.system)

    @cached_property
    def _is_shared(self) -> Bools:
        """Contexts that all threads could take part in; elsewhere there are the masters alone."""
        outermost, inside = find_parallel_regions(self.experiment.contexts)
        return outermost | inside

    @cached_property
    def _is_team(self) -> Bools:
        """Contexts in which it matters who takes part: the parallel ones, or all where there are none."""
        tree = self.experiment.contexts
        return self._is_shared if self._is_shared.any() else tree.listed

    @cached_property
    def _threads(self) -> Ints:
        return np.flatnonzero(self.masters >= 0)

    @cached_property
    def _masters_only(self) -> Ints:
        return np.unique(self.masters[self._threads])

    @cached_property
    def _n_active(self) -> Ints:
        return np.where(self._is_shared, len(self._threads), len(self._masters_only))

    @cached_property
    def mean(self) -> Floats:
        """The mean of exclusive computation over those that could take part, for each context."""
        every, masters = (
            self.experiment.totals(self.computation, Scope.EXCLUSIVE, profiles)
            for profiles in (self._threads, self._masters_only)
        )
        out: Floats = np.where(self._is_shared, every, masters) / np.maximum(self._n_active, 1)
        return out

    @cached_property
    def _n_visitors(self) -> Floats:
        every, masters = (
            TotalCells(self.experiment.values, Scope.EXCLUSIVE, profiles).over_profiles("count", self.visits)
            for profiles in (self._threads, self._masters_only)
        )
        out: Floats = np.where(self._is_shared, every, masters)
        return out

    def of(self, profiles: Ints) -> dict[str, Floats]:
        """Return each part as exclusive values, contexts x these profiles."""
        masters = self.masters[profiles]
        active = np.where(self._is_shared[:, None], masters >= 0, (masters == profiles) & (masters >= 0))
        difference = self.experiment.matrix(self.computation, Scope.EXCLUSIVE, profiles) - self.mean[:, None]
        difference = np.where(active & self.experiment.contexts.listed[:, None], difference, 0.0)
        out = {"both": np.abs(difference), "above": np.maximum(difference, 0), "below": np.maximum(-difference, 0)}
        if self.visits:
            out |= self._of_visitors(profiles, active)
        return out

    def _of_visitors(self, profiles: Ints, active: Bools) -> dict[str, Floats]:
        visits = self.experiment.matrix(self.visits, Scope.EXCLUSIVE, profiles) != 0
        partly = self._is_team & (self.mean != 0) & (self._n_visitors < self._n_active)
        alone = partly & (self._n_visitors == 1)
        absent = active & ~visits
        mean = self.mean[:, None]
        return {
            "bypass": np.where(absent & partly[:, None], mean, 0.0),
            "singularity": np.where(absent & alone[:, None], mean, 0.0),
            "single": np.where(active & visits & alone[:, None], mean * (self._n_active - 1)[:, None], 0.0),
        }


# -- an experiment that has them ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Computed:
    """The values of rows of a new table of metrics, by number: `rows` are their names."""

    idle: IdleThreads
    imbalance: Imbalance
    rows: dict[int, str]

    def blocks(self, profiles: Ints | None, rows: Ints | None) -> Iterator[Block]:
        """Yield the rows, some profiles at a time."""
        experiment = self.idle.experiment
        chosen = experiment.profiles.measured if profiles is None else profiles
        names = {row: self.rows[row] for row in (list(self.rows) if rows is None else rows.tolist())}
        contexts = np.arange(len(experiment.contexts), dtype=np.int32)
        step = max(1, MOST_CELLS // max(1, len(contexts)))
        for start in range(0, len(chosen), step):
            part = chosen[start : start + step]
            values = self._compute(part, set(names.values()))
            for row, name in names.items():
                yield DenseBlock(row, contexts, part.astype(np.int32), values[name])

    def _compute(self, profiles: Ints, names: set[str]) -> dict[str, Floats]:
        out: dict[str, Floats] = {}
        if names & {self.idle.time, IDLE_THREADS, LIMITED_PARALLELISM}:
            idle, limited = self.idle.of(profiles)
            out |= {IDLE_THREADS: idle, LIMITED_PARALLELISM: limited}
        if self.idle.time in names:
            out[self.idle.time] = self._extend(idle, profiles)
        if names & set(IMBALANCE):
            parts = self.imbalance.of(profiles)
            out |= {name: parts[word] for name, word in IMBALANCE.items() if word in parts}
        return out

    def _extend(self, idle: Floats, profiles: Ints) -> Floats:
        """Return the time of profiles with that in which they are idle, in the scope that time is stored in."""
        experiment, time = self.idle.experiment, self.idle.time
        if experiment.metrics.first(time).scope != Scope.INCLUSIVE:
            return experiment.matrix(time, Scope.EXCLUSIVE, profiles) + idle
        tree = experiment.contexts
        inclusive: Floats = combine_upwards(idle, tree.parent, tree.levels)
        return experiment.matrix(time, Scope.INCLUSIVE, profiles) + inclusive


def list_computable(names: Iterable[str], known: Collection[str]) -> set[str]:
    """Return those of some metrics that can be computed here, where the metrics `known` have values."""
    out = set(names) & {IDLE_THREADS, LIMITED_PARALLELISM, *IMBALANCE}
    out -= set() if COMPUTATION in known else set(IMBALANCE)
    out -= set() if VISITS in known else set(NEEDS_VISITS)
    return out


def with_idle_threads(experiment: Experiment, time: str, empty: Collection[str]) -> Experiment:
    """Return a remapped experiment in which idle threads and imbalance have values: those of them that `empty` names.
    What cannot be computed of these is not measured. The time of workers grows by that in which they are idle."""
    metrics = experiment.metrics
    _demand_threads(experiment, time)
    known = set(metrics.quantities) - set(metrics.missing)
    visits = VISITS if VISITS in known else ""
    computable = list_computable(empty, known)
    names = {*computable, time} if IDLE_THREADS in computable else computable
    rows = _list_rows(metrics, time if IDLE_THREADS in names else "")
    rows = [_mark(row, computable, empty) if row.metric.name in {*empty, *names} else row for row in rows]
    numbers = {k: row.metric.name for k, row in enumerate(rows) if row.metric.name in names}
    computed = _Computed(IdleThreads(experiment, time), Imbalance(experiment, COMPUTATION, visits), numbers)
    return with_metric_rows(experiment, rows, [(np.array(sorted(numbers), np.int64), computed.blocks)])


def _mark(row: NewRow, computed: Collection[str], empty: Collection[str]) -> NewRow:
    """Return a row without stored values as one that is computed, or that nobody measured; time, which has some, as
    one that is computed in part."""
    metric = row.metric
    if metric.name not in empty:
        return replace(row, metric=metric.as_computed("in part"))
    return replace(row, metric=metric.as_computed() if metric.name in computed else metric.as_missing())


def _demand_threads(experiment: Experiment, time: str) -> None:
    """Raise a UsageError where single threads of one run are not known, or time does not add up."""
    metrics = experiment.metrics
    if metrics.first(time).composite is not None or metrics.first(time).aggregation != Aggregation.SUM:
        raise UsageError(f"{time} is not a plain sum: idle threads and imbalance cannot be computed of it")
    if counts := [name for name in THREAD_COUNTS if name in metrics.quantities]:
        raise UsageError(
            f"{experiment.path}: has profiles that stand for several threads ({counts[0]}): nobody knows which are idle"
        )
    if experiment.profiles.n_runs > 1:
        several = f"{experiment.path}: holds {experiment.profiles.n_runs} runs, and threads of one run are compared; "
        raise UsageError(several, "choose it with ", Parameter("runs"))
    _demand_parallel_regions(experiment)


def count_lone_workers(experiment: Experiment) -> int:
    """Return how many threads are not the first of their process, where no parallel region is seen: computation is
    compared without them."""
    masters = find_masters(experiment.profiles, experiment.system)
    threads = np.flatnonzero(masters >= 0)
    is_seen = find_parallel_regions(experiment.contexts)[0].any()
    return 0 if is_seen else int((masters[threads] != threads).sum())


def _demand_parallel_regions(experiment: Experiment) -> None:
    """Raise a UsageError where nothing tells when the workers of a process have work."""
    masters = find_masters(experiment.profiles, experiment.system)
    threads = np.flatnonzero(masters >= 0)
    if not len(threads):
        raise UsageError(f"{experiment.path}: no profile is that of a thread: nobody knows which threads are idle")
    n_workers = count_lone_workers(experiment)
    if not n_workers:
        return
    paradigms = {*experiment.contexts.regions.text("paradigm")} - {""}
    if not paradigms or OPENMP in paradigms:
        raise UsageError(
            f"{experiment.path}: parallel regions of OpenMP are not seen: nobody knows when the {n_workers} threads "
            f"that are not the first of their process are idle, or what they share work with"
        )


def _list_rows(metrics: Metrics, time: str) -> list[NewRow]:
    """Return the rows of all metrics; the one named is computed from now on: it has one row, without stored values."""
    first = metrics.find(time, metrics.first(time).scope) if time else None
    kept = [row for row, metric in enumerate(metrics) if metric.name != time or row == first]
    new = absent_stays(new_numbers(np.array(kept, np.int64), len(metrics)))
    if first is not None:  # what lies below another scope of it
        new[[row for row, metric in enumerate(metrics) if metric.name == time]] = new[first]
    out = []
    for row in kept:
        metric = replace(metrics[row], parent=int(new[metrics[row].parent]))
        scope = Scope.INCLUSIVE if metric.scope == Scope.INCLUSIVE else Scope.EXCLUSIVE
        out.append(NewRow(replace(metric, scope=scope)) if row == first else NewRow(metric, row))
    return out
