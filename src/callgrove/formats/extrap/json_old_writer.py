"""Writes the older JSON format of Extra-P: ids from 1, one measurement per raw value."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import numpy as np

from callgrove.formats.extrap.json_writer import json_numbers
from callgrove.formats.extrap.writing import Cells, lost_with_the_unmeasured, opened_target
from callgrove.formats.interface import LossReport, WriteOptions
from callgrove.model.study import Study

__all__ = ["write_json_old"]


def write_json_old(study: Study, target: Path, options: WriteOptions) -> LossReport:
    """Everything that the format holds."""
    report = LossReport()
    if not study.present.all():
        report.add("nothing here, but Extra-P itself refuses series that lack points")
    cells = Cells(study, report, nested=False)
    lost_with_the_unmeasured(cells.books, report, points=False)
    with opened_target(target, options) as file:
        file.write("{")
        for key, names in (
            ("parameters", study.parameters),
            ("callpaths", study.callpaths),
            ("metrics", study.metrics),
        ):
            _list(file, key, (f'"name": {json.dumps(name, ensure_ascii=False)}' for name in names))
        _list(file, "coordinates", (_coordinate(cells, p) for p in range(study.n_points)))
        _list(file, "measurements", _measurements(study, cells), last=True)
        file.write("}\n")
    return cells.close()


def _list(file: IO[str], key: str, entries: Iterator[str], last: bool = False) -> None:
    """A list of objects, each with its id."""
    file.write(f'\n "{key}": [')
    for number, entry in enumerate(entries, 1):
        file.write(f'{"," * (number > 1)}\n  {{"id": {number}, {entry}}}')
    file.write("\n ]" + ("\n" if last else ","))


def _coordinate(cells: Cells, point: int) -> str:
    pairs = (f'{{"parameter_id": {k}, "parameter_value": {c}}}' for k, c in enumerate(cells.point(point), 1))
    cells.books.passed.name_points(point)
    return f'"parameter_value_pairs": [{", ".join(pairs)}]'


def _measurements(study: Study, cells: Cells) -> Iterator[str]:
    for series, point in zip(*(ids.tolist() for ids in np.nonzero(study.present)), strict=True):
        ids = (
            f'"callpath_id": {study.series_callpath[series] + 1}, "metric_id": {study.series_metric[series] + 1}, '
            f'"coordinate_id": {point + 1}'
        )
        values = cells.values(series, point)
        for value in values:
            yield f'{ids}, "value": {json_numbers(value)}'
        cells.wrote(series, point, values)
