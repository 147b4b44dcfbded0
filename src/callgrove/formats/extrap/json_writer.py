"""Writes Extra-P's JSON format: one measurement per line, numbers in the shortest form that reads back the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import IO

import numpy as np

from callgrove.formats.extrap.numbers import as_words
from callgrove.formats.extrap.writing import Cells, lost_with_the_unmeasured, opened_target
from callgrove.formats.interface import LossReport, WriteOptions
from callgrove.model.study import Study

__all__ = ["json_numbers", "write_json"]


def write_json(study: Study, target: Path, options: WriteOptions) -> LossReport:
    """Everything that the format holds; incomplete series too, which Extra-P itself refuses."""
    report = LossReport()
    cells = Cells(study, report, nested=True)
    lost_with_the_unmeasured(cells.books, report, series=False)
    if not study.present.all():
        report.add("nothing here, but Extra-P itself refuses series that lack points")
    if study.raw is not None and not np.isfinite(study.raw.values).all():
        report.add("nothing here, but infinite and undefined values are written as text, which Extra-P does not read")
    with opened_target(target, options) as file:
        _write(study, cells, file)
    return cells.close()


def _write(study: Study, cells: Cells, file: IO[str]) -> None:
    file.write(f'{{\n "parameters": {_text(list(study.parameters))},\n "measurements": {{')
    by_callpath: dict[int, list[int]] = {}
    for series, callpath in enumerate(study.series_callpath.tolist()):
        by_callpath.setdefault(callpath, []).append(series)
    for number, (callpath, group) in enumerate(by_callpath.items()):
        file.write(f"{',' * (number > 0)}\n  {_text(study.callpaths[callpath])}: {{")
        for position, series in enumerate(group):
            name = _text(study.metrics[study.series_metric[series]])
            file.write(f"{',' * (position > 0)}\n   {name}: [\n")
            file.write(
                ",\n".join(_measurement(cells, series, p) for p in np.flatnonzero(study.present[series]).tolist())
            )
            file.write("\n   ]")
            cells.books.passed.name_series(series)
        file.write("\n  }")
    file.write("\n }\n}\n")


def _measurement(cells: Cells, series: int, point: int) -> str:
    coordinates = ", ".join(cells.point(point))
    values = cells.values(series, point)
    cells.wrote(series, point, values)
    return f'    {{"point": [{coordinates}], "values": {json_numbers(values)}}}'


def json_numbers(value: object) -> str:
    """Numbers, in lists or not; what JSON has no number for is a text."""
    if isinstance(value, list):
        return f"[{', '.join(map(json_numbers, value))}]"
    assert isinstance(value, float)
    return as_words(value) if np.isfinite(value) else f'"{value}"'


def _text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
