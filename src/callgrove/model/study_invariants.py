"""What every study must satisfy. Each function lists all that is broken, in words."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from callgrove.model.study import SCALINGS, STATISTICS, RawValues, Study

__all__ = ["problems_of_study"]


def problems_of_study(study: Study) -> list[str]:
    """Everything that is broken in a study."""
    return [*_names(study), *_points(study), *_series(study), *_cells(study), *_raw(study), *_models(study)]


def _names(study: Study) -> Iterator[str]:
    for word, names in (("parameter", study.parameters), ("call path", study.callpaths), ("metric", study.metrics)):
        if not names:
            yield f"there is no {word}"
        if len(set(names)) < len(names):
            twice = next(name for k, name in enumerate(names) if name in names[:k])
            yield f"the {word} {twice!r} occurs twice"
    if study.scaling not in SCALINGS:
        yield f"the scaling {study.scaling!r} is not one of {', '.join(filter(None, SCALINGS))}"


def _points(study: Study) -> Iterator[str]:
    points = study.points
    if not len(points):
        yield "there is no point"
    if points.ndim != 2 or points.shape[1] != len(study.parameters):
        yield f"points are {points.shape}, expected {len(study.parameters)} coordinates each"
        return
    if not np.isfinite(points).all():
        yield f"the coordinates of point {int(np.flatnonzero(~np.isfinite(points).all(axis=1))[0])} are not finite"
    if study.parameters and len(np.unique(points, axis=0)) < len(points):
        yield "a point occurs twice"


def _series(study: Study) -> Iterator[str]:
    n = len(study)
    if len(study.series_metric) != n:
        yield f"{n} series have a call path, but {len(study.series_metric)} a metric"
        return
    for word, ids, names in (
        ("call path", study.series_callpath, study.callpaths),
        ("metric", study.series_metric, study.metrics),
    ):
        if len(wrong := np.flatnonzero((ids < 0) | (ids >= len(names)))):
            yield f"series {wrong[0]} has the {word} {ids[wrong[0]]}, which is not one of {len(names)}"
    pairs = list(zip(study.series_callpath.tolist(), study.series_metric.tolist(), strict=True))
    if len(set(pairs)) < n:
        yield "a call path and metric have two series"


def _cells(study: Study) -> Iterator[str]:
    shape = (len(study), len(study.points))
    names = (*STATISTICS, "repetitions", "present")
    wrong = [name for name in names if getattr(study, name).shape != shape]
    for name in wrong:
        yield f"{name} is {getattr(study, name).shape}, expected {shape}"
    if wrong:
        return
    known = ~np.isnan(np.stack([getattr(study, name) for name in STATISTICS]))
    yield from _first("an absent cell has a statistic", known.any(axis=0) & ~study.present)
    yield from _first("an absent cell has repetitions", (study.repetitions != 0) & ~study.present)
    yield from _first("a measured cell has no repetitions", (study.repetitions == 0) & study.present)
    yield from _first("repetitions are below -1", study.repetitions < -1)
    yield from _first("a standard deviation is negative", study.std < 0)


def _first(text: str, wrong: np.typing.NDArray[np.bool_]) -> Iterator[str]:
    series, point = np.nonzero(wrong)
    if len(series):
        yield f"{text}: series {series[0]} at point {point[0]}"


def _raw(study: Study) -> Iterator[str]:
    if study.raw is None:
        return
    n_cells = len(study) * len(study.points)
    cells, repetitions = study.raw.cell_bounds, study.raw.repetition_bounds
    sound = True
    for word, bounds, n, end in (
        ("cells", cells, n_cells, len(repetitions) - 1),
        ("repetitions", repetitions, len(repetitions) - 1, len(study.raw.values)),
    ):
        if len(bounds) != n + 1 or bounds[0] != 0 or bounds[-1] != end or (np.diff(bounds) < 0).any():
            yield f"raw values: the bounds of {word} do not divide {end} rows into {n}"
            sound = False
    if sound and study.present.shape == study.repetitions.shape == (len(study), len(study.points)):
        yield from _raw_cells(study, study.raw)


def _raw_cells(study: Study, raw: RawValues) -> Iterator[str]:
    has_values = np.diff(raw.repetition_bounds[raw.cell_bounds]).reshape(study.present.shape) > 0
    yield from _first("an absent cell has raw values", has_values & ~study.present)


def _models(study: Study) -> Iterator[str]:
    try:
        known = {
            (study.callpaths[c], study.metrics[m])
            for c, m in zip(study.series_callpath, study.series_metric, strict=True)
        }
    except (IndexError, ValueError):  # named above
        return
    for model in study.models:
        if (model.callpath, model.metric) not in known:
            yield f"a model is for {model.callpath!r}, {model.metric!r}, which was not measured"
