"""Writes `.extra-p` files that Extra-P 4.2.5 loads, models included.

`experiment.json` is written piece by piece; raw values go into chunks beside it. What Extra-P has no place for (units
of metrics) stands under the key `callgrove`, which it skips.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

import numpy as np

from callgrove.formats.extrap.archive import MEMBER
from callgrove.formats.extrap.measurement_json import measurement
from callgrove.formats.extrap.models_writer import model_sets
from callgrove.formats.extrap.raw_values import ValueWriter
from callgrove.formats.extrap.writing import lost_with_the_unmeasured
from callgrove.formats.interface import LossReport, WriteOptions
from callgrove.formats.targets import PendingFile
from callgrove.model.study import STATISTICS, Study
from callgrove.model.study_books import MODELS, REPETITIONS, StudyBooks

__all__ = ["write_experiment"]

VERSION = "4.2.5"


def write_experiment(study: Study, target: Path, options: WriteOptions) -> LossReport:
    """Everything that a study holds but its attributes."""
    report = LossReport()
    if study.attributes:
        report.add("attributes of the study")
    books = StudyBooks(study, has_statistics=True)
    lost_with_the_unmeasured(books, report, series=False)
    if n := len(study.models) - len({(model.name, model.callpath, model.metric) for model in study.models}):
        report.add(f"{n} models of series that have another one in the same set")
        books.excuse(MODELS)
    pending = PendingFile(target, options.overwrite)
    with pending.or_nothing():
        with ZipFile(pending.place, "w", ZIP_DEFLATED, compresslevel=1) as archive:
            addresses = _write_values(study, ValueWriter(archive), report, books)
            info = ZipInfo(MEMBER)
            info.compress_type = ZIP_DEFLATED
            with archive.open(info, "w", force_zip64=True) as file:
                for piece in _json(study, addresses, books):
                    file.write(piece.encode())
        pending.complete()
    report.unexplained.extend(books.differences())
    return report


def _write_values(
    study: Study, writer: ValueWriter, report: LossReport, books: StudyBooks
) -> dict[int, tuple[int, int]]:
    """The chunk and number of the raw values of each cell that has some."""
    if study.raw is None:
        return {}
    addresses: dict[int, tuple[int, int]] = {}
    for cell in np.flatnonzero(np.diff(study.raw.cell_bounds)).tolist():
        repetitions = study.raw.repetitions(cell)
        sizes = {len(one) for one in repetitions}
        if len(sizes) == 1:
            array = np.array(repetitions)
            array = array[:, 0] if sizes == {1} else array
        else:
            report.add("which values belong to one repetition, where repetitions have different numbers of them")
            books.excuse(REPETITIONS)
            array = np.concatenate(repetitions)
        addresses[cell] = writer.add(array)
        if array.size:
            books.passed.enter(*divmod(cell, study.n_points), array.tolist())
    writer.flush()
    return addresses


def _json(study: Study, addresses: Mapping[int, tuple[int, int]], books: StudyBooks) -> Iterator[str]:
    yield f'{{"Extra-P": "{VERSION}"'
    if study.scaling:
        yield f', "scaling": {_text(study.scaling)}'
    yield f', "parameters": {_text(list(study.parameters))}'
    for key, tags in (("callpaths", study.callpath_tags), ("metrics", study.metric_tags)):
        if tagged := {name: {"tags": dict(own)} for name, own in tags.items() if own}:
            yield f', "{key}": {_text(tagged)}'
    yield ', "measurements": {'
    yield from _measurements(study, addresses, books)
    yield "}"
    if study.models or study.modelers:
        yield ', "modelers": ['
        yield from model_sets(study, books)
        yield "]"
    if study.units:
        yield f', "callgrove": {_text({"units": dict(study.units)})}'
    yield "}"


def _measurements(study: Study, addresses: Mapping[int, tuple[int, int]], books: StudyBooks) -> Iterator[str]:
    by_callpath: dict[int, list[int]] = {}
    for series, callpath in enumerate(study.series_callpath.tolist()):
        by_callpath.setdefault(callpath, []).append(series)
    for number, (callpath, group) in enumerate(by_callpath.items()):
        yield f"{', ' * (number > 0)}{_text(study.callpaths[callpath])}: {{"
        for position, series in enumerate(group):
            metric = _text(study.metrics[study.series_metric[series]])
            points = np.flatnonzero(study.present[series]).tolist()
            cells = [measurement(study, series, point, addresses) for point in points]
            yield f"{', ' * (position > 0)}{metric}: [{', '.join(map(_text, cells))}]"
            books.passed.name_series(series)
            for point, cell in zip(points, cells, strict=True):
                _enter(books, series, point, cell)
        yield "}"


def _enter(books: StudyBooks, series: int, point: int, cell: Mapping[str, Any]) -> None:
    """Enter what is written of a measurement beside its raw values; where it has none, the mean stands for them."""
    known = [float(cell.get(name, math.nan)) for name in STATISTICS]
    repetitions = cell[REPETITIONS]
    books.passed.enter_statistics(series, (*known, -1 if repetitions is None else repetitions))
    if cell["values"] is None:
        books.passed.enter(series, point, known[:1])


def _text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
