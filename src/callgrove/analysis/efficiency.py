"""How efficiently runs use their processes, threads and devices, in the figures of POP audits: `pop`.

Specification: cube.md section 13. Of every location (a thread of the host), by what its contexts are busy with:

    T       all time            COMP    computation          MPI    communication between processes
    R       runtime: the longest T of a master, the first thread of a process
    U       T - MPI of a master: what a process had for itself

    parallel efficiency              mean(COMP) / R          = load balance x communication efficiency
      load balance                   mean(COMP) / max(COMP)
      communication efficiency       max(COMP) / R
      MPI parallel efficiency        mean(U) / R             = mean(U) / max(U) x max(U) / R
      OpenMP parallel efficiency     mean(COMP) / mean(U)    MPI x OpenMP = parallel efficiency

Of devices, K kernels and B any operation (lengths of unions), R the longest process from its first to its last span:

    device parallel efficiency       mean(K) / R             = mean(K) / max(K) x max(K) / max(B) x max(B) / R

Between a reference a and a run b, computation scaling is COMP_a / COMP_b, of all processes (strong) or of one (weak).
It is instruction x IPC x frequency scaling; global efficiency is parallel efficiency x computation scaling.

A figure that cannot be computed is missing, with the reason. It is never 0 or 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath

import numpy as np

from callgrove.analysis.efficiency_figures import (
    BETWEEN_RUNS,
    OF_DEVICES,
    OF_HOST,
    OF_RUNTIME,
    Efficiencies,
    RunFigures,
)
from callgrove.analysis.summary import summarise
from callgrove.analysis.summary_sections import DeviceSums
from callgrove.analysis.time_use import (
    Counters,
    DeviceUse,
    Phase,
    TimeUse,
    choose_time,
    count_events,
    find_locations,
)
from callgrove.arrays import Floats, Ints
from callgrove.errors import UsageError
from callgrove.model.experiment import Experiment
from callgrove.model.profiles import choose_profiles
from callgrove.model.runs import Numbers, choose_runs
from callgrove.patterns.matching import Matcher

__all__ = ["SCALINGS", "Question", "pop"]


SCALINGS = ("strong", "weak")
ROUNDING = 1e-9
LEAST_UNNAMED = 0.01  # share of time in functions without a name that is worth a note


# -- of one run --------------------------------------------------------------------------------------------------------


@dataclass
class _Sheet:
    """Figures that are being filled in."""

    values: dict[str, float] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)

    def put(self, name: str, value: float, reason: str = "") -> None:
        """Enter a figure; one that is not a number is missing."""
        if np.isfinite(value):
            self.values[name] = float(value)
        else:
            self.missing[name] = reason or INFINITE

    def leave_out(self, names: Iterable[str], reason: str) -> None:
        """Say why figures are missing that nobody has entered."""
        for name in names:
            if name not in self.values:
                self.missing.setdefault(name, reason)


@dataclass(frozen=True)
class _Measured:
    """One run: its figures, and the sums that those between runs are made of."""

    name: str
    folder: str
    sheet: _Sheet
    computation: float = np.nan
    counters: Counters = field(default_factory=lambda: Counters(np.nan, np.nan))
    n_processes: int = 0
    time: str = ""  # the metric of the time of its threads


NEEDS_REPLAY = (
    "no profile tells; it takes a trace of all messages (sends matched with receives, collectives with their members), "
    "replayed on an ideal network"
)
INFINITE = "some values are infinite or no numbers, or too large to add up"
NEGATIVE = "some of the time is below zero, as in an experiment of differences, which has no efficiencies"
BETWEEN_PROCESSES = ("mpi", "shmem_time", "gaspi_time", "nccl_time")


def _divide(a: float, b: float) -> float:
    return a / b if b else np.nan


def _fill_in(sheet: _Sheet, use: TimeUse, question: Question) -> float:
    """Enter the figures of the host, and return the sum of computation, NaN where it is not known."""
    sheet.put("processes", use.n_processes)
    sheet.put("threads", int(use.n_threads.sum()))
    if not use.is_finite or use.is_signed:
        reason = NEGATIVE if use.is_finite else INFINITE
        sheet.leave_out((name for name in OF_HOST if name not in ("IPC", "frequency")), reason)
        return np.nan
    init = use.of("mpi_init_exit") if question.exclude_init else np.zeros(len(use.process))
    time, mpi, comp = use.of() - init, use.of(*BETWEEN_PROCESSES) - init, use.of("comp")
    sheet.put("computation", float(comp.sum()))
    _fill_in_waiting(sheet, use, float(mpi.sum()), float(time.sum()))
    if reason := _explain_missing_runtime(use, time, question):
        sheet.leave_out(("runtime", *OF_RUNTIME), reason)
    else:
        _fill_in_efficiencies(sheet, time, comp, (time - mpi)[use.is_master], use)
    return float(comp.sum())


def _explain_missing_runtime(use: TimeUse, time: Floats, question: Question) -> str:
    """Return why the longest time of a master is not known; empty where it is."""
    if not use.has_masters:
        return "the first thread of some process is not among those that are looked at"
    if (use.n_threads[use.is_master] > 1).any():
        return "threads of a process are added up, so that the time of its first thread is not known"
    if time[use.is_master].max() > 0:
        return ""
    if use.of()[use.is_master].max() > 0:
        return "thread 0 of no process spent any time outside of MPI_Init and MPI_Finalize"
    there = "spent any time there" if question.under is not None else "has any value of this time"
    return f"thread 0 of no process {there}, so that the runtime is not known"


def _fill_in_waiting(sheet: _Sheet, use: TimeUse, mpi: float, whole: float) -> None:
    """Enter the shares of time that hint at waiting."""
    nothing = "no time was measured"
    sheet.put("MPI share of time", _divide(mpi, whole), nothing)
    collective = float(use.of("mpi_collective", "mpi_sync_collective").sum())
    sheet.put("MPI collectives and barriers", _divide(collective, whole), nothing)
    sheet.put("OpenMP share of time", _divide(float(use.of("omp_time").sum()), whole), nothing)
    unnamed = "functions of the OpenMP runtime have no names that tell" if use.at("omp_time") else ""
    barrier = np.nan if unnamed else float(use.of("omp_barrier").sum())
    sheet.put("OpenMP barriers", _divide(barrier, whole), unnamed or nothing)
    above = _divide(use.above_average, float(use.of("comp").sum()))
    sheet.put("computation above average", above, use.no_average or "nothing was computed")


def _fill_in_efficiencies(sheet: _Sheet, time: Floats, comp: Floats, useful: Floats, use: TimeUse) -> None:
    """Enter what needs the runtime. `useful` is the time of masters outside of MPI."""
    runtime = float(time[use.is_master].max())
    mean = float(comp.sum()) / int(use.n_threads.sum())
    sheet.put("runtime", runtime)
    sheet.put("parallel efficiency", _divide(mean, runtime))
    if (use.n_threads > 1).any():
        why = "some locations are several threads added up, so that the largest computation of a thread is not known"
        sheet.leave_out(("load balance", "communication efficiency"), why)
    else:
        sheet.put("load balance", _divide(mean, float(comp.max())), "nothing was computed")
        sheet.put("communication efficiency", _divide(float(comp.max()), runtime))
    outside = "thread 0 of no process spent any time outside of MPI"
    sheet.put("MPI parallel efficiency", _divide(float(useful.mean()), runtime))
    sheet.put("MPI load balance", _divide(float(useful.mean()), float(useful.max())), outside)
    sheet.put("MPI communication efficiency", _divide(float(useful.max()), runtime))
    sheet.put("OpenMP parallel efficiency", _divide(mean, float(useful.mean())), outside)


def _fill_in_counters(sheet: _Sheet, counters: Counters, computation: float) -> None:
    no_ipc, no_frequency = "no metric counts instructions and cycles", "no metric counts cycles"
    if np.isinf([counters.instructions, counters.cycles]).any():
        no_ipc = no_frequency = INFINITE
    elif np.isfinite(counters.cycles):
        no_ipc = "no metric counts instructions" if np.isnan(counters.instructions) else "no cycle was counted"
        no_frequency = "nothing was computed" if computation == 0 else INFINITE
    sheet.put("IPC", _divide(counters.instructions, counters.cycles), no_ipc)
    sheet.put("frequency", _divide(counters.cycles, computation), no_frequency)


def _fill_in_devices(sheet: _Sheet, use: DeviceUse) -> None:
    kernels, busy = float(use.kernels.max()), float(use.busy.max())
    sheet.put("devices", use.n_devices)
    sheet.put("device runtime", use.runtime)
    sheet.put("device parallel efficiency", _divide(float(use.kernels.mean()), use.runtime))
    sheet.put("device load balance", _divide(float(use.kernels.mean()), kernels), "no kernel was traced")
    sheet.put("device communication efficiency", _divide(kernels, busy))
    sheet.put("device orchestration efficiency", _divide(busy, use.runtime))
    sheet.put("copy share of device runtime", _divide(float(use.copies.mean()), use.runtime))
    overlapped = _divide(float(use.overlapping.sum()), float(use.copies.sum()))
    sheet.put("copy time overlapped by kernels", overlapped, "no copy was traced")


# -- of several runs ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Question:
    """What is asked: which time, whose; `under` is a pattern that finds the contexts below which all lies (None: the
    whole tree); `exclude_init` takes the time in MPI_Init and MPI_Finalize off; `scaling` is one of SCALINGS. `devices`
    are what a summary of the same trace says of its devices, where there is one already."""

    metric: str | None = None
    ranks: Numbers | None = None
    threads: Numbers | None = None
    runs: Numbers | None = None
    under: str | None = None
    exclude_init: bool = False
    scaling: str = "strong"
    devices: Sequence[DeviceSums] | None = None


def pop(experiments: Sequence[Experiment], question: Question) -> Efficiencies:
    """Return the efficiencies of every run: inputs in the order given, the runs of each by their number of threads. The
    first is the reference. Raises UsageError where no run has any of them."""
    if question.scaling not in SCALINGS:
        raise UsageError(f"there is no scaling {question.scaling!r}; there are {', '.join(SCALINGS)}")
    measured: list[_Measured] = []
    notes: dict[str, None] = {}
    for experiment in experiments:
        under = Matcher(experiment).find(question.under) if question.under is not None else None
        phase = Phase.of(experiment.contexts, under)
        runs = [_measure(experiment, run, phase, question, notes) for run in _choose_runs(experiment, question)]
        measured += sorted(runs, key=lambda run: run.sheet.values.get("threads", 0))
        notes.update(dict.fromkeys(_say_what_differs(experiment, question)))
    if not measured:
        raise UsageError(f"{experiments[0].path}: no thread or device was measured")
    names = _tell_apart(measured)
    _compare(measured, names[0], question.scaling, notes)
    made = [RunFigures(name, run.sheet.values, run.sheet.missing) for name, run in zip(names, measured, strict=True)]
    efficiencies = Efficiencies(tuple(made), tuple(notes))
    if not any(run.values for run in made):
        raise UsageError(f"{experiments[0].path}: {next(iter(made[0].missing.values()))}")
    return efficiencies


def _choose_runs(experiment: Experiment, question: Question) -> list[int]:
    """Return the numbers of runs that have any profile."""
    there: list[int] = np.unique(experiment.profiles.run[experiment.profiles.measured]).tolist()
    if question.runs is None:
        return there
    chosen = choose_runs(experiment.runs, question.runs)
    return [run for run in there if run in chosen]


def _say_what_differs(experiment: Experiment, question: Question) -> Iterator[str]:
    """Yield a warning where runs differ in more than one parameter: not all of them solve the same problem."""
    points = [experiment.runs[run].parameters for run in _choose_runs(experiment, question)]
    names = dict.fromkeys(name for point in points for name in point)
    differ = [name for name in names if len({point.get(name) for point in points}) > 1]
    if len(differ) > 1:
        yield f"runs differ in {', '.join(differ)}: scaling means something between those alone that differ in one"


def _measure(experiment: Experiment, run: int, phase: Phase, question: Question, notes: dict[str, None]) -> _Measured:
    """Return the figures of one run."""
    sheet = _Sheet()
    only = [run] if experiment.profiles.n_runs > 1 else None
    profiles = choose_profiles(experiment, question.ranks, question.threads, only)
    if profiles is None:
        profiles = experiment.profiles.measured
    result = _measure_host(experiment, profiles, phase, question, sheet, notes)
    devices = question.devices
    if devices is None and experiment.traces.n_spans:
        devices = summarise(experiment, profiles=profiles, sections=("busy", "overlap")).devices
    devices = [device for device in devices or () if device.run in (-1, run)]
    if devices and question.under is None:
        _fill_in_devices(sheet, DeviceUse.of(devices))
    whole = "operations on devices are known of whole runs only"
    no_trace = "no operation of a device was traced"
    sheet.leave_out(OF_DEVICES, whole if question.under is not None and experiment.traces.n_spans else no_trace)
    sheet.leave_out(("serialisation efficiency", "transfer efficiency"), NEEDS_REPLAY)
    path = PurePath(experiment.path)
    name = experiment.runs[run].name or f"run {run}" if len(experiment.runs) > 1 else path.name or experiment.title
    return _Measured(name, path.parent.name, sheet, *result)


def _measure_host(
    experiment: Experiment, profiles: Ints, phase: Phase, question: Question, sheet: _Sheet, notes: dict[str, None]
) -> tuple[float, Counters, int, str] | tuple[()]:
    """Enter what threads of the host did, and return the sums that runs are compared by; nothing where there are
    none."""
    try:
        metric = choose_time(experiment, question.metric)
    except UsageError as error:
        if question.metric is not None or not experiment.traces.n_spans:
            raise UsageError(f"{experiment.path}: ", error) from None
        sheet.leave_out(OF_HOST, str(error))
        return ()
    locations = find_locations(experiment, profiles)
    if not len(locations):
        added = "values of single threads are not known, only those of all together"
        is_known = not len(experiment.profiles.aggregates)
        sheet.leave_out(OF_HOST, "no thread of the host was measured" if is_known else added)
        return ()
    use = TimeUse.measure(experiment, locations, metric, phase)
    computation = _fill_in(sheet, use, question)
    counters = count_events(experiment, locations, phase)
    _fill_in_counters(sheet, counters, computation)
    notes.update(dict.fromkeys(_explain(metric.name, use, question, sheet.values)))
    return computation, counters, use.n_processes, metric.name


def _explain(metric: str, use: TimeUse, question: Question, values: Mapping[str, float]) -> Iterator[str]:
    """Yield what is assumed, and what a reader of some figures should know."""
    runtime = "; the runtime is the longest that thread 0 of a process has" if "runtime" in values else ""
    yield f"time is {metric!r}{runtime}"
    if "CPUTIME" in metric.upper():
        yield f"{metric} counts time on a processor: waiting that leaves it is in no figure"
    if above := [name for name in OF_RUNTIME if values.get(name, 0.0) > 1 + ROUNDING]:
        yield f"above 1: {', '.join(above)}: other threads computed for longer than thread 0, which they relate to"
    if absent := int((use.of() == 0).sum()):
        there = "spent no time there" if question.under is not None else "have no values"
        yield f"{absent} of {len(use.process)} locations {there}, and count in averages all the same"
    if question.exclude_init:
        yield "without MPI_Init and MPI_Finalize"
    whole = use.of().sum()
    if use.unnamed > LEAST_UNNAMED * whole:
        share = f"{100 * use.unnamed / whole:.0f}%"
        yield f"{share} of the time is in functions without a name, which count as computation"
    if (use.n_threads > 1).any():
        yield "locations stand for several threads each; averages are over threads"


def _compare(measured: Sequence[_Measured], reference: str, scaling: str, notes: dict[str, None]) -> None:
    """Enter the figures between the first run and each of all."""
    if len(measured) < 2:
        measured[0].sheet.leave_out(BETWEEN_RUNS, "another run is needed to compare with")
        return
    how = "the computation of all processes" if scaling == "strong" else "the computation per process"
    if not np.isnan(measured[0].computation):
        notes[f"{scaling} scaling: {how} is compared with that of {reference}"] = None
    if len(times := dict.fromkeys(repr(run.time) for run in measured if run.time)) > 1:
        what = f"times of runs are different metrics ({', '.join(times)})"
        notes[f"{what}: scaling between these compares what they count, too"] = None
    for run in measured:
        if np.isnan(measured[0].computation) or np.isnan(run.computation):
            run.sheet.leave_out(BETWEEN_RUNS, "the time that threads of the host spent is not known in both runs")
        else:
            _fill_in_scaling(run, measured[0], scaling == "weak")


def _fill_in_scaling(run: _Measured, first: _Measured, is_weak: bool) -> None:
    """Enter the figures between the reference and a run."""
    per = (first.n_processes, run.n_processes) if is_weak else (1, 1)
    a, b = first.counters, run.counters
    put, values = run.sheet.put, run.sheet.values
    computation = _scale(first.computation, run.computation, per)
    put("computation scaling", computation, "nothing was computed")
    put("instruction scaling", _scale(a.instructions, b.instructions, per), "no metric counts instructions")
    ipc = _divide(_divide(b.instructions, b.cycles), _divide(a.instructions, a.cycles))
    put("IPC scaling", ipc, "no metric counts instructions and cycles")
    frequency = _divide(_divide(b.cycles, run.computation), _divide(a.cycles, first.computation))
    put("frequency scaling", frequency, "no metric counts cycles")
    both = "parallel efficiency" in first.sheet.values and "parallel efficiency" in values
    why = "nothing was computed" if both else "the parallel efficiency is not known in both runs"
    put("global efficiency", values["parallel efficiency"] * computation if both else np.nan, why)
    speed_up = _divide(first.sheet.values.get("runtime", np.nan), values.get("runtime", np.nan))
    put("speed-up", speed_up, "the runtime is not known in both runs")


def _scale(a: float, b: float, per: tuple[int, int]) -> float:
    """Return a / b, each divided by what it is per."""
    return _divide(_divide(a, per[0]), _divide(b, per[1]))


def _tell_apart(measured: Sequence[_Measured]) -> list[str]:
    """Return a name for each run: with the folder where files are called alike, with a number where that is not
    enough. Columns of the table have names of their own."""
    names = [run.name for run in measured]
    names = [f"{run.folder}/{run.name}" if names.count(run.name) > 1 and run.folder else run.name for run in measured]
    seen = {"name", "depth", "unit", "missing"}
    for k, name in enumerate(names):
        number = 2
        while names[k] in seen:
            names[k] = f"{name} ({number})"
            number += 1
        seen.add(names[k])
    return names
