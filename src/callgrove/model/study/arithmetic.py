"""Arithmetic on studies: sums and maxima along the call tree, energy in all, and arithmetic intensity.

    main  1   main->f  2   main->f->g  4        sum: main 7, main->f 6, main->f->g 4        maximum: 4 4 4

Values of repetitions are combined one by one where all series of a cell have the same number of them; else only means
are known. What was not measured of some series at a point counts as nothing, as where a function was not called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from callgrove.arrays import Floats
from callgrove.errors import UsageError
from callgrove.model.study.builder import StudyBuilder
from callgrove.model.study.series import STATISTICS, Statistics, Study

__all__ = ["AGGREGATIONS", "INTENSITY", "TOTAL_ENERGY", "add_intensity", "add_total_energy", "aggregate"]

ARROW = "->"
Rule = Callable[[Floats], Floats]  # of rows of values, over the first axis
AGGREGATIONS: Mapping[str, Rule] = {"sum": lambda rows: rows.sum(axis=0), "maximum": lambda rows: rows.max(axis=0)}
TOTAL_ENERGY, ENERGIES = "energy", "energy_"
INTENSITY = "arithmetic intensity"
FLOPS = ("PAPI_DP_OPS", "PAPI_FP_OPS", "PAPI_SP_OPS", "flops")
TRANSFERS = {"UNC_M_CAS_COUNT:ALL": 8.0, "memory_bytes": 1.0, "bytes": 1.0}  # metric: bytes of each that is counted


def aggregate(study: Study, rule: str) -> Study:
    """Return a study whose series are sums, or maxima, over each call path and all below it. Metrics that do not add up
    are left as they are."""
    if rule not in AGGREGATIONS:
        raise UsageError(f"there is no aggregation {rule!r}; there are {', '.join(AGGREGATIONS)}")
    members: dict[tuple[str, str], list[int]] = {}
    for number in range(len(study)):
        callpath, metric = _name(study, number)
        parts = [""] if metric in study.ratios and rule == "sum" else callpath.split(ARROW)
        for n in range(1, len(parts) + 1):
            owner = callpath if parts == [""] else ARROW.join(parts[:n])
            members.setdefault((owner, metric), []).append(number)
    builder = _start(study)
    for (callpath, metric), numbers in members.items():
        _combine(builder, study, callpath, metric, numbers, AGGREGATIONS[rule])
    return _finish(builder, study)


def add_total_energy(study: Study) -> Study:
    """Return the study with the sum of all metrics called `energy_...` as the metric `energy`."""
    names = [name for name in study.metrics if name.startswith(ENERGIES)]
    if not names or TOTAL_ENERGY in study.metrics:
        raise UsageError(f"there are no metrics energy_... to add up; there are {', '.join(study.metrics)}")
    if len({study.units.get(name, "") for name in names}) > 1:
        raise UsageError(f"{', '.join(names)} have different units, and do not add up")
    builder = _copy(study)
    for callpath, numbers in _by_callpath(study, names).items():
        _combine(builder, study, callpath, TOTAL_ENERGY, numbers, AGGREGATIONS["sum"])
    builder.units[TOTAL_ENERGY] = study.units.get(names[0], "")
    return _finish(builder, study)


def add_intensity(study: Study) -> Study:
    """Return the study with floating-point operations by bytes of memory traffic as a metric that does not add up."""
    flops = next((name for name in FLOPS if name in study.metrics), "")
    traffic = next((name for name in TRANSFERS if name in study.metrics), "")
    if not (flops and traffic):
        wanted = f"one of {', '.join(FLOPS)} and one of {', '.join(TRANSFERS)}"
        raise UsageError(f"arithmetic intensity needs {wanted}; there are {', '.join(study.metrics)}")
    builder = _copy(study)
    for callpath in study.callpaths:
        pair = study.find(callpath, flops), study.find(callpath, traffic)
        if pair[0] is not None and pair[1] is not None:
            _divide(builder, study, callpath, (pair[0], pair[1]), TRANSFERS[traffic])
    builder.units[INTENSITY] = "1/B"
    builder.ratios = [*study.ratios, INTENSITY]
    return _finish(builder, study)


def _divide(builder: StudyBuilder, study: Study, callpath: str, pair: tuple[int, int], factor: float) -> None:
    """Add the ratio of two series where the second is not 0, at the points that both have."""
    for point in np.flatnonzero(study.present[list(pair)].all(axis=0)).tolist():
        above, below = (_repetitions(study, number, point) for number in pair)
        if not _are_alike([above, below]):
            above, below = ([study.mean[[number], point]] for number in pair)
        if all((one != 0).all() for one in below):
            ratios = [a / (b * factor) for a, b in zip(above, below, strict=True)]
            builder.add_values(callpath, INTENSITY, point, ratios)


# -- studies made of others --------------------------------------------------------------------------------------------


def _name(study: Study, number: int) -> tuple[str, str]:
    return study.callpaths[study.series_callpath[number]], study.metrics[study.series_metric[number]]


def _by_callpath(study: Study, metrics: Sequence[str]) -> dict[str, list[int]]:
    out: dict[str, list[int]] = {}
    for number in range(len(study)):
        callpath, metric = _name(study, number)
        if metric in metrics:
            out.setdefault(callpath, []).append(number)
    return out


def _start(study: Study) -> StudyBuilder:
    """Return a builder with the points of a study, and no series."""
    builder = StudyBuilder(study.parameters, study.format, study.version, study.title)
    builder.path, builder.scaling = study.path, study.scaling
    builder.units, builder.ratios = dict(study.units), list(study.ratios)
    for point in study.points.tolist():
        builder.point(point)
    return builder


def _copy(study: Study) -> StudyBuilder:
    """Return a builder with all series of a study."""
    builder = _start(study)
    for number in range(len(study)):
        _combine(builder, study, *_name(study, number), [number], AGGREGATIONS["sum"])
    return builder


def _finish(builder: StudyBuilder, study: Study) -> Study:
    return replace(builder.build(), attributes=study.attributes, warnings=study.warnings)


def _combine(
    builder: StudyBuilder, study: Study, callpath: str, metric: str, numbers: Iterable[int], rule: Rule
) -> None:
    """Add a series that combines others, at each point that one of them has."""
    rows = np.array(list(numbers), np.int64)
    for point in np.flatnonzero(study.present[rows].any(axis=0)).tolist():
        there = rows[study.present[rows, point]].tolist()
        values = [_repetitions(study, number, point) for number in there]
        if _are_alike(values):
            together = [rule(np.stack(each)) for each in zip(*values, strict=True)]
            builder.add_values(callpath, metric, point, together)
        elif len(there) == 1:
            builder.add_statistics(callpath, metric, point, _statistics(study, there[0], point))
        else:
            mean = float(rule(study.mean[there, point][:, None])[0])
            builder.add_statistics(callpath, metric, point, Statistics(mean=mean, median=mean))


def _repetitions(study: Study, number: int, point: int) -> list[Floats]:
    """Return the values of each repetition of a cell; none where they are unknown."""
    return study.raw.repetitions(number * study.n_points + point) if study.raw is not None else []


def _are_alike(cells: Sequence[Sequence[Floats]]) -> bool:
    """Return whether cells have values, the same number in each repetition."""
    sizes = [[len(one) for one in cell] for cell in cells]
    return sum(sizes[0]) > 0 and all(one == sizes[0] for one in sizes)


def _statistics(study: Study, number: int, point: int) -> Statistics:
    known = {name: float(getattr(study, name)[number, point]) for name in STATISTICS}
    return Statistics(**known, repetitions=int(study.repetitions[number, point]))
