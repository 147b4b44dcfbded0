"""Runs of a small program with given costs, and the gate's procedure once more, in plain Python and one order at a
time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from math import sqrt
from statistics import fmean

from callgrove.model.builder import ExperimentBuilder
from callgrove.model.contexts import ContextKind
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Metric, Scope
from callgrove.model.profiles import DEFAULT_ID_NAMES, Interpretation, ProfileKind
from callgrove.model.runs import Run

__all__ = ["all_orders", "critical_t", "make_run", "make_runs", "make_sums", "p_of", "t_of"]

RANK = DEFAULT_ID_NAMES.index("RANK")


def make_run(
    costs: Mapping[str, float], n_ranks: int = 1, unit: str = "sec", runs: Sequence[Run] = (), metric: str = "time"
) -> Experiment:
    """One run: `main` calls each of the functions, on every rank alike. Further runs are the same again."""
    builder = ExperimentBuilder("run")
    for run in runs:
        builder.add_run(run)
    main = builder.add_context(-1, ContextKind.FUNCTION, builder.region(ContextKind.FUNCTION, "main"))
    contexts = [
        builder.add_context(main, ContextKind.FUNCTION, builder.region(ContextKind.FUNCTION, name)) for name in costs
    ]
    number = builder.add_metric(Metric(metric, Scope.EXCLUSIVE, unit))
    for run_number in range(max(1, len(runs))):
        for rank in range(n_ranks):
            place = (RANK, rank, rank, Interpretation.SINGLE)
            profile = builder.add_profile(ProfileKind.THREAD, [place], run=run_number)
            builder.add_values(profile, contexts, number, [float(cost) for cost in costs.values()])
    return builder.build()


def make_sums(costs: Mapping[str, float], n_processes: int, path: str = "run") -> Experiment:
    """One run of which only the sums over its processes are known, as Caliper's reports have it."""
    builder = ExperimentBuilder("run", title=path, path=path)
    builder.add_run(Run(path, {"p": n_processes}))
    number = builder.add_metric(Metric("time", Scope.EXCLUSIVE, "sec"))
    profile = builder.add_profile(ProfileKind.AGGREGATE)
    for name, cost in costs.items():
        place = builder.add_context(-1, ContextKind.FUNCTION, builder.region(ContextKind.FUNCTION, name))
        builder.add_values(profile, [place], number, [float(cost)])
    return builder.build()


def make_runs(costs: Mapping[str, Sequence[float]], n_ranks: int = 1) -> list[Experiment]:
    """A run for each column of costs."""
    return [make_run(dict(zip(costs, column, strict=True)), n_ranks) for column in zip(*costs.values(), strict=True)]


def _side(values: Sequence[float]) -> tuple[float, float]:
    """The mean without the largest fifth, and Yuen's variance of it."""
    n_cut = len(values) // 5
    kept = sorted(values)[: len(values) - n_cut]
    winsorised = [*kept, *[kept[-1]] * n_cut]
    mean = fmean(winsorised)
    return fmean(kept), sum((v - mean) ** 2 for v in winsorised) / (len(kept) * (len(kept) - 1))


def _pooled(left: Sequence[float], right: Sequence[float]) -> float:
    squares = sum((v - fmean(side)) ** 2 for side in (left, right) for v in side)
    return sqrt(squares / (len(left) + len(right) - 2))


def _lower_quartile(values: Sequence[float]) -> float:
    """Between two values in proportion, as NumPy does it."""
    ordered = sorted(values)
    place = 0.25 * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])


def t_of(y: Sequence[Sequence[float]], right: Sequence[int]) -> list[float]:
    """The t of every function, where these runs are the right side."""
    sides = [([v for k, v in enumerate(row) if k not in right], [row[k] for k in right]) for row in y]
    n_left, n_right = len(sides[0][0]), len(sides[0][1])
    s0 = 0.25 * _lower_quartile([_pooled(*side) for side in sides]) * sqrt(1 / n_left + 1 / n_right)
    out = []
    for left_runs, right_runs in sides:
        (left, of_left), (right_mean, of_right) = _side(left_runs), _side(right_runs)
        out.append((right_mean - left) / (sqrt(of_left + of_right) + s0))
    return out


def all_orders(n_runs: int, n_right: int) -> Iterator[tuple[int, ...]]:
    """Every choice of the right side."""
    return combinations(range(n_runs), n_right)


def p_of(y: Sequence[Sequence[float]], n_left: int) -> list[float]:
    """The p of every function, in the direction of its t."""
    n_runs = len(y[0])
    measured = t_of(y, range(n_left, n_runs))
    every = [t_of(y, order) for order in all_orders(n_runs, n_runs - n_left)]
    near = 1 - 1e-9
    return [
        sum((max(ts) >= t * near) if t >= 0 else (min(ts) <= t * near) for ts in every) / len(every) for t in measured
    ]


def critical_t(y: Sequence[Sequence[float]], n_left: int, n_rarer: int) -> float:
    """The largest t that so many of the other orders reach."""
    n_runs = len(y[0])
    measured = tuple(range(n_left, n_runs))
    others = [max(t_of(y, order)) for order in all_orders(n_runs, n_runs - n_left) if order != measured]
    return sorted(others)[-n_rarer]
