"""Writes TaLPas (a line per raw value) and JSON Lines (a line per series and point)."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from callgrove.formats.extrap.numbers import as_words
from callgrove.formats.extrap.writing import Cells, lost_with_the_unmeasured, opened_target
from callgrove.formats.interface import LossReport, WriteOptions
from callgrove.model.study import Study

__all__ = ["write_json_lines", "write_talpas"]

Values = list[float] | list[list[float]]
Row = tuple[str, str, list[str], Values]  # call path, metric, coordinates, values


def write_talpas(study: Study, target: Path, options: WriteOptions) -> LossReport:
    """Semicolons separate members, unless a name has one: Extra-P would take it for a comma."""
    names = (*study.parameters, *study.metrics, *study.callpaths)
    strange = next((name for name in names if ";" in name), None)
    separator = ";" if strange is None else ","

    def lines(row: Row) -> Iterator[str]:
        callpath, metric, point, values = row
        given = _members(zip(map(_quoted, study.parameters), point, strict=True), separator)
        for value in values:
            members = (
                ('"parameters"', given),
                ('"metric"', _quoted(metric)),
                ('"callpath"', _quoted(callpath)),
                ('"value"', _value(value if isinstance(value, float) else [value])),
            )
            yield _members(iter(members), separator)

    report = _write(study, target, options, lines)
    if strange is not None:
        report.add(f"nothing here, but Extra-P itself reads the name {strange!r} with a comma for the semicolon")
    return report


def write_json_lines(study: Study, target: Path, options: WriteOptions) -> LossReport:
    """The value is a list where there are several repetitions."""

    def lines(row: Row) -> Iterator[str]:
        callpath, metric, point, values = row
        given = _members(zip(map(_quoted, study.parameters), point, strict=True), ",")
        single = len(values) == 1 and isinstance(values[0], float)
        members = (
            ('"params"', given),
            ('"callpath"', _quoted(callpath)),
            ('"metric"', _quoted(metric)),
            ('"value"', _value(values[0] if single else values)),
        )
        yield _members(iter(members), ",")

    return _write(study, target, options, lines)


def _write(study: Study, target: Path, options: WriteOptions, lines: Callable[[Row], Iterator[str]]) -> LossReport:
    report = LossReport()
    cells = Cells(study, report, nested=True)
    lost_with_the_unmeasured(cells.books, report)
    with opened_target(target, options) as file:
        for series, point, row in _rows(study, cells):
            file.writelines(f"{line}\n" for line in lines(row))
            cells.wrote(series, point, row[-1])
    if study.raw is not None and not np.isfinite(study.raw.values).all():
        report.add("nothing here, but not every program reads the NaN and Infinity in it as JSON")
    return cells.close()


def _rows(study: Study, cells: Cells) -> Iterator[tuple[int, int, Row]]:
    points = [cells.point(p) for p in range(study.n_points)]
    for series, point in zip(*(ids.tolist() for ids in np.nonzero(study.present)), strict=True):
        callpath = study.callpaths[study.series_callpath[series]]
        metric = study.metrics[study.series_metric[series]]
        yield series, point, (callpath, metric, points[point], cells.values(series, point))


def _members(pairs: Iterator[tuple[str, str]], separator: str) -> str:
    return f"{{{separator.join(f'{key}:{value}' for key, value in pairs)}}}"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _value(value: object) -> str:
    if isinstance(value, list):
        return f"[{','.join(map(_value, value))}]"
    assert isinstance(value, float)
    if math.isfinite(value):
        return as_words(value)
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
