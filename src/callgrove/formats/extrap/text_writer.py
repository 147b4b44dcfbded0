"""Writes Extra-P's text format: one POINTS line, then for each metric its regions with a DATA line per point."""

from __future__ import annotations

from pathlib import Path
from typing import IO

from callgrove.errors import UsageError
from callgrove.formats.extrap.numbers import as_words
from callgrove.formats.extrap.writing import Cells, opened_target, refuse_newlines
from callgrove.formats.interface import LossReport, WriteOptions
from callgrove.model.study import Study

__all__ = ["write_text"]


def write_text(study: Study, target: Path, options: WriteOptions) -> LossReport:
    """Everything that the format holds."""
    report = LossReport()
    refuse_newlines(study, target)
    _refuse_parameters(study, target)
    for word, names in (("metric", study.metrics), ("call path", study.callpaths)):
        for name in names:
            if name != " ".join(name.split()):
                report.add(f"blanks in the {word} {name!r}: several are read as one, those at the ends as none")
    cells = Cells(study, report, nested=False)
    series = cells.complete()
    if not series:
        raise UsageError(f"{target}: no series has all points, so a text file could hold none; write extrap-json")
    with opened_target(target, options) as file:
        _write(study, cells, series, file)
    return cells.close()


def _refuse_parameters(study: Study, target: Path) -> None:
    for name in study.parameters:
        if not name or name.split() != [name]:
            raise UsageError(
                f"{target}: the parameter {name!r} has blanks in its name, which separate parameters in a text file; "
                "write extrap-json"
            )


def _write(study: Study, cells: Cells, series: list[int], file: IO[str]) -> None:
    points = range(study.n_points)
    file.write(f"PARAMETER {' '.join(study.parameters)}\n")
    texts = [" ".join(cells.point(p)) for p in points]
    file.write(f"POINTS {' '.join(texts if len(study.parameters) == 1 else [f'({text})' for text in texts])}\n")
    if study.raw is None:
        file.write("# the raw values are not known: each number is a mean\n")
    metric: int | None = None
    # the metric without a name has no METRIC line, so it comes before those that have one
    for one in sorted(series, key=lambda s: (study.metrics[study.series_metric[s]] != "", study.series_metric[s])):
        if metric != study.series_metric[one]:
            metric = int(study.series_metric[one])
            file.write(f"METRIC {study.metrics[metric]}\n" if study.metrics[metric] else "")
        file.write(f"REGION {study.callpaths[study.series_callpath[one]]}\n")
        written: list[float] = []
        for point in points:
            values = _flat(cells.values(one, point))
            file.write(f"DATA {' '.join(map(as_words, values))}\n")
            written += values
        cells.books.passed.enter_series(one, written)


def _flat(values: list[float] | list[list[float]]) -> list[float]:
    return [value for value in values if isinstance(value, float)]
