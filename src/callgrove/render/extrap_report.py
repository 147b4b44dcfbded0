"""Models as Extra-P prints them: call path by call path, metric by metric, with the measurements."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from callgrove.modeling.fitting import Models
from callgrove.modeling.notation import function_text
from callgrove.render.visible import visible

__all__ = ["extrap_report"]


def extrap_report(models: Models) -> Iterator[str]:
    """Pieces of text, one per model."""
    study = models.study
    by_callpath: dict[int, list[int]] = {}
    for number, callpath in enumerate(study.series_callpath[models.series].tolist()):
        by_callpath.setdefault(callpath, []).append(number)
    for callpath, numbers in by_callpath.items():
        yield f"Callpath: {visible(study.callpaths[callpath])}\n"
        for number in numbers:
            yield _model(models, number)


def _model(models: Models, number: int) -> str:
    study, series = models.study, int(models.series[number])
    lines = [f"\tMetric: {visible(models.metric(number))}"]
    for point in np.flatnonzero(study.present[series]).tolist():
        at = ",".join(f"{x:.2E}" for x in study.points[point].tolist())
        known = f"Mean: {study.mean[series, point]:.2E} Median: {study.median[series, point]:.2E}"
        lines.append(f"\t\tMeasurement point: ({at}) {known}")
    lines.append(f"\t\tModel: {visible(function_text(models.functions, number))}")
    lines.append(f"\t\tRSS: {models.costs.rss[number]:.2E}")
    lines.append(f"\t\tAdjusted R^2: {models.costs.ar2[number]:.2E}")
    return "\n".join(lines) + "\n"
