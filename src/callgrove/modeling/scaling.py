"""Strong scaling, speed-up and efficiency, and which points the model of a single parameter sees.

In a strong-scaling study the work stays and the time falls as processes are added. Falling times are modelled badly by
growing terms, so values are multiplied by the number of processes: the total cost, which grows with the overhead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from callgrove.arrays import Floats, Ints, freeze
from callgrove.errors import UsageError
from callgrove.model.study.series import STATISTICS, RawValues, Study

__all__ = [
    "PROCESS_NAMES",
    "Efficiency",
    "Line",
    "along",
    "efficiency",
    "falling_parameters",
    "lines_of",
    "process_parameter",
    "total_cost",
]


# -- lines along one parameter -----------------------------------------------------------------------------------------
# With several parameters, these are the points that the model of a single one is fitted to.
#
# Specification: modeling.md A6, step 1.


@dataclass(frozen=True, eq=False)
class Line:
    """Coordinates along one parameter, and for each the points whose values are averaged there."""

    x: Floats
    groups: tuple[Ints, ...]
    longest: int  # points on the longest line; 1: the points do not vary this parameter alone

    def values(self, y: Floats) -> Floats:
        """Return (series x coordinates) from (series x points)."""
        sizes = {len(group) for group in self.groups}
        if len(sizes) == 1:
            means: Floats = np.ascontiguousarray(y[:, np.stack(self.groups)]).mean(axis=2)
            return means
        return np.stack([np.ascontiguousarray(y[:, group]).mean(axis=1) for group in self.groups], axis=1)


def lines_of(points: Floats, selection: str) -> list[Line]:
    """Return one line per parameter."""
    rows = [tuple(row) for row in points.tolist()]
    longest = [_longest(rows, p) for p in range(points.shape[1])]
    if selection == "smallest":
        return [_smallest(rows, p, len(longest[p][0])) for p in range(points.shape[1])]
    return [_average_lines(rows, p, longest[p]) for p in range(points.shape[1])]


def _others(row: Sequence[float], p: int) -> tuple[float, ...]:
    return (*row[:p], *row[p + 1 :])


def _longest(rows: list[tuple[float, ...]], p: int) -> list[list[int]]:
    """Return the groups of points that differ in parameter p alone, as far as they are of maximal size."""
    groups: dict[tuple[float, ...], list[int]] = {}
    for number, row in enumerate(rows):
        groups.setdefault(_others(row, p), []).append(number)
    most = max(map(len, groups.values()))
    return [group for group in groups.values() if len(group) == most]


def _average_lines(rows: list[tuple[float, ...]], p: int, longest: list[list[int]]) -> Line:
    """Return all longest lines as one, as far as they begin at the same coordinate."""
    at: dict[float, list[int]] = {}
    for group in longest:
        for number in group:
            at.setdefault(rows[number][p], []).append(number)
    first = {_others(rows[number], p) for number in next(iter(at.values()))}
    kept = {x: [number for number in group if _others(rows[number], p) in first] for x, group in at.items()}
    kept = {x: group for x, group in kept.items() if group}
    return Line(np.array(list(kept)), tuple(np.array(group) for group in kept.values()), len(longest[0]))


def _smallest(rows: list[tuple[float, ...]], p: int, longest: int) -> Line:
    """Return the line with the smallest other coordinates, as the points come."""
    least = (np.inf,) * (len(rows[0]) - 1)
    chosen: list[int] = []
    for number, row in enumerate(rows):
        others = _others(row, p)
        if others == least:
            chosen.append(number)
        elif all(one <= other for one, other in zip(others, least, strict=True)):
            chosen, least = [number], others
    return Line(np.array([rows[number][p] for number in chosen]), tuple(np.array([n]) for n in chosen), longest)


# -- strong scaling ----------------------------------------------------------------------------------------------------


PROCESS_NAMES = ("p", "procs", "processes", "ranks", "nprocs", "np", "cores", "threads", "nodes", "gpus", "tasks")


def falling_parameters(study: Study) -> list[str]:
    """Return the parameters along which the total time (else any metric) falls at every step: a sign of strong
    scaling."""
    sums = [m for m, name in enumerate(study.metrics) if name not in study.ratios]
    times = [m for m in sums if study.metrics[m].lower() == "time"] or sums
    names = []
    for p, name in enumerate(study.parameters):
        if any(_falls(study, metric, p) for metric in times):
            names.append(name)
    return names


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
    """Return the number of the parameter that counts processes: the one named, or one called like it."""
    if name is not None:
        return _index(study, name)
    return next((number for number, p in enumerate(study.parameters) if p.lower() in PROCESS_NAMES), None)


def total_cost(study: Study, parameter: str) -> Study:
    """Return the study with all values multiplied by a parameter. Stored models, which are of other values, are left
    out."""
    factor = study.points[:, _index(study, parameter)]
    if study.ratios:
        raise UsageError(f"{study.ratios[0]} does not add up, so there is no total of all processes; leave it out")
    if (factor < 0).any():
        raise UsageError(f"the parameter {parameter!r} has negative values, so it counts nothing")
    scaled: dict[str, Any] = {name: freeze(getattr(study, name) * factor) for name in STATISTICS}
    raw = study.raw
    if raw is not None:
        sizes = np.diff(raw.repetition_bounds[raw.cell_bounds])
        of_value = np.repeat(np.tile(factor, len(study)), sizes)
        raw = RawValues(freeze(raw.values * of_value), raw.repetition_bounds, raw.cell_bounds)
    return replace(study, **scaled, raw=raw, scaling="strong", models=(), modelers={})


def along(study: Study, parameter: str) -> Study:
    """Return the study as one of a single parameter, for points whose parameters only vary together."""
    column = study.points[:, [_index(study, parameter)]]
    if len(np.unique(column)) < len(column):
        twice = next(x for k, x in enumerate(column[:, 0].tolist()) if x in column[:k, 0])
        raise UsageError(f"several points have {parameter} = {twice:g}, so they do not lie along {parameter} alone")
    return replace(study, parameters=(parameter,), points=freeze(column.copy()), models=(), modelers={})


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
    """Return the efficiency, from costs at the base and with `processes` times as many processes.

    weak     the problem grows with the processes: time should stay, the work done grows with them
    strong   values are totals over all processes: the total should stay, the time is the total by the processes
    time     the problem stays and values are times: they should fall with the processes
    """
    with np.errstate(all="ignore"):
        ratio = base / target
        if scaling == "time":
            return Efficiency(ratio, ratio / processes)
        return Efficiency(ratio * processes, ratio)
