"""Strong scaling: recognising it, turning it into something to model, and what speed-up models promise.

In a strong-scaling study the work stays and the time falls as processes are added. Falling times are modelled badly by
growing terms, so values are multiplied by the number of processes: the total cost, which grows with the overhead.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from callgrove.errors import UsageError
from callgrove.model.arrays import Floats, Ints, frozen
from callgrove.model.study import STATISTICS, RawValues, Study
from callgrove.modeling.lines import lines_of

__all__ = [
    "PROCESS_NAMES",
    "Efficiency",
    "along",
    "efficiency",
    "falling_parameters",
    "process_parameter",
    "total_cost",
]

PROCESS_NAMES = ("p", "procs", "processes", "ranks", "nprocs", "np", "cores", "threads", "nodes", "gpus", "tasks")


def falling_parameters(study: Study) -> list[str]:
    """Parameters along which the total time (else any metric) falls at every step: a sign of strong scaling."""
    times = [m for m, name in enumerate(study.metrics) if name.lower() == "time"] or list(range(len(study.metrics)))
    found = []
    for p, name in enumerate(study.parameters):
        if any(_falls(study, metric, p) for metric in times):
            found.append(name)
    return found


def _falls(study: Study, metric: int, parameter: int) -> bool:
    rows = study.series_metric == metric
    complete = rows & study.present.all(axis=1) & np.isfinite(study.mean).all(axis=1)
    if not complete.any():
        return False
    total = study.mean[complete].sum(axis=0)
    longest = _longest_line(study, parameter)
    values = total[longest]
    return len(values) > 1 and bool((np.diff(values) < 0).all())


def _longest_line(study: Study, parameter: int) -> Ints:
    line = lines_of(study.points, "auto")[parameter]
    numbers = np.array([group[0] for group in line.groups])
    return numbers[np.argsort(line.x, kind="stable")]


def process_parameter(study: Study, name: str | None = None) -> int | None:
    """The number of the parameter that counts processes: the one named, or one called like it."""
    if name is not None:
        return _index(study, name)
    return next((number for number, p in enumerate(study.parameters) if p.lower() in PROCESS_NAMES), None)


def total_cost(study: Study, parameter: str) -> Study:
    """The study with all values multiplied by a parameter. Stored models, which are of other values, are left out."""
    factor = study.points[:, _index(study, parameter)]
    if (factor < 0).any():
        raise UsageError(f"the parameter {parameter!r} has negative values, so it counts nothing")
    scaled: dict[str, Any] = {name: frozen(getattr(study, name) * factor) for name in STATISTICS}
    raw = study.raw
    if raw is not None:
        sizes = np.diff(raw.repetition_bounds[raw.cell_bounds])
        of_value = np.repeat(np.tile(factor, len(study)), sizes)
        raw = RawValues(frozen(raw.values * of_value), raw.repetition_bounds, raw.cell_bounds)
    return replace(study, **scaled, raw=raw, scaling="strong", models=(), modelers={})


def along(study: Study, parameter: str) -> Study:
    """The study as one of a single parameter, for points whose parameters only vary together."""
    column = study.points[:, [_index(study, parameter)]]
    if len(np.unique(column)) < len(column):
        twice = next(x for k, x in enumerate(column[:, 0].tolist()) if x in column[:k, 0])
        raise UsageError(f"several points have {parameter} = {twice:g}, so they do not lie along {parameter} alone")
    return replace(study, parameters=(parameter,), points=frozen(column.copy()), models=(), modelers={})


def _index(study: Study, parameter: str) -> int:
    if parameter not in study.parameters:
        raise UsageError(f"there is no parameter {parameter!r}; there are {', '.join(study.parameters)}")
    return study.parameters.index(parameter)


@dataclass(frozen=True)
class Efficiency:
    """What a cost at a target means against the one at a base point."""

    speedup: Floats
    efficiency: Floats


def efficiency(base: Floats, target: Floats, processes: float, scaling: str) -> Efficiency:
    """From costs at the base and with `processes` times as many processes.

    weak     the problem grows with the processes: time should stay, the work done grows with them
    strong   values are totals over all processes: the total should stay, the time is the total by the processes
    time     the problem stays and values are times: they should fall with the processes
    """
    with np.errstate(all="ignore"):
        ratio = base / target
        if scaling == "time":
            return Efficiency(ratio, ratio / processes)
        return Efficiency(ratio * processes, ratio)
