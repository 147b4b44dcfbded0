"""Models of a study as a caller asks for them: of some series, of one parameter, stored ones or new ones."""

from __future__ import annotations

import numpy as np

from callgrove.errors import Parameter, UsageError
from callgrove.model.arrays import Ints
from callgrove.model.study import Study
from callgrove.modeling.fitting import Models, Progress, model_study
from callgrove.modeling.options import ModelOptions
from callgrove.modeling.scaling import along as only_along
from callgrove.modeling.scaling import total_cost
from callgrove.modeling.stored import stored_models

__all__ = ["choose_series", "models_of", "prepare"]


def prepare(study: Study, along: str | None = None, times: str | None = None) -> Study:
    """Return the study as if `along` were its only parameter, with values multiplied by the parameter `times`."""
    study = only_along(study, along) if along else study
    return total_cost(study, times) if times else study


def models_of(
    study: Study,
    options: ModelOptions,
    metric: str | None = None,
    callpath: str | None = None,
    stored: str | None = None,
    refit: bool = False,
    progress: Progress | None = None,
) -> Models:
    """Return the models of some series: those that the study stores, or new ones where it has none or `refit` asks."""
    if stored is None and (refit or not study.models):
        return model_study(study, options, choose_series(study, metric, callpath), progress)
    models = stored_models(study, stored)
    rows = np.flatnonzero(np.isin(models.series, choose_series(models.study, metric, callpath)))
    return models if len(rows) == len(models) else models.take(rows)


def choose_series(study: Study, metric: str | None, callpath: str | None) -> Ints:
    """Return the numbers of the series of a metric whose call paths contain a text; one that is equal counts alone."""
    if metric is None and callpath is None:
        return np.arange(len(study))
    number = None if metric is None else _metric(study, metric)
    pairs = zip(study.series_callpath.tolist(), study.series_metric.tolist(), strict=True)
    found = [
        series
        for series, (c, m) in enumerate(pairs)
        if (number is None or m == number) and (callpath is None or callpath in study.callpaths[c])
    ]
    if not found:
        wanted = " with that metric" if metric is not None else ""
        nothing = f"no call path{wanted} contains {callpath or ''!r}; "
        raise UsageError(nothing, Parameter('export("series")'), " lists them")
    exact = [series for series in found if study.callpaths[study.series_callpath[series]] == callpath]
    return np.array(exact or found, np.int64)


def _metric(study: Study, name: str) -> int:
    """Return the metric of that name, or the only one whose name contains it."""
    if name in study.metrics:
        return study.metrics.index(name)
    found = [number for number, known in enumerate(study.metrics) if name and name.lower() in known.lower()]
    if len(found) != 1:
        known = ", ".join(map(repr, study.metrics))
        raise UsageError(f"{'several metrics contain' if found else 'there is no metric'} {name!r}; there are {known}")
    return found[0]
