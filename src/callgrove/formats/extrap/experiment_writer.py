"""Writes `.extra-p` files that Extra-P 4.2.5 loads, models included.

`experiment.json` is written piece by piece; raw values go into chunks beside it. What Extra-P has no place for (units
of metrics) stands under the key `callgrove`, which it skips.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

import numpy as np

from callgrove.formats.extrap.archive import MEMBER
from callgrove.formats.extrap.measurement_json import measurement
from callgrove.formats.extrap.models_writer import model_sets
from callgrove.formats.extrap.raw_values import ValueWriter
from callgrove.formats.interface import LossReport, WriteOptions
from callgrove.formats.targets import PendingFile
from callgrove.model.study import Study

__all__ = ["write_experiment"]

VERSION = "4.2.5"


def write_experiment(study: Study, target: Path, options: WriteOptions) -> LossReport:
    """Everything that a study holds but its attributes."""
    report = LossReport()
    if study.attributes:
        report.add("attributes of the study")
    pending = PendingFile(target, options.overwrite)
    with pending.or_nothing():
        with ZipFile(pending.place, "w", ZIP_DEFLATED, compresslevel=1) as archive:
            addresses = _write_values(study, ValueWriter(archive), report)
            info = ZipInfo(MEMBER)
            info.compress_type = ZIP_DEFLATED
            with archive.open(info, "w", force_zip64=True) as file:
                for piece in _json(study, addresses):
                    file.write(piece.encode())
        pending.complete()
    return report


def _write_values(study: Study, writer: ValueWriter, report: LossReport) -> dict[int, tuple[int, int]]:
    """The chunk and number of the raw values of each cell that has some."""
    if study.raw is None:
        return {}
    addresses: dict[int, tuple[int, int]] = {}
    for cell in np.flatnonzero(np.diff(study.raw.cell_bounds)).tolist():
        repetitions = study.raw.repetitions(cell)
        sizes = {len(one) for one in repetitions}
        if len(sizes) == 1:
            array = np.array(repetitions)
            addresses[cell] = writer.add(array[:, 0] if sizes == {1} else array)
        else:
            report.add("which values belong to one repetition, where repetitions have different numbers of them")
            addresses[cell] = writer.add(np.concatenate(repetitions))
    writer.flush()
    return addresses


def _json(study: Study, addresses: Mapping[int, tuple[int, int]]) -> Iterator[str]:
    yield f'{{"Extra-P": "{VERSION}"'
    if study.scaling:
        yield f', "scaling": {_text(study.scaling)}'
    yield f', "parameters": {_text(list(study.parameters))}'
    for key, tags in (("callpaths", study.callpath_tags), ("metrics", study.metric_tags)):
        if tagged := {name: {"tags": dict(own)} for name, own in tags.items() if own}:
            yield f', "{key}": {_text(tagged)}'
    yield ', "measurements": {'
    yield from _measurements(study, addresses)
    yield "}"
    if study.models or study.modelers:
        yield ', "modelers": ['
        yield from model_sets(study)
        yield "]"
    if study.units:
        yield f', "callgrove": {_text({"units": dict(study.units)})}'
    yield "}"


def _measurements(study: Study, addresses: Mapping[int, tuple[int, int]]) -> Iterator[str]:
    by_callpath: dict[int, list[int]] = {}
    for series, callpath in enumerate(study.series_callpath.tolist()):
        by_callpath.setdefault(callpath, []).append(series)
    for number, (callpath, group) in enumerate(by_callpath.items()):
        yield f"{', ' * (number > 0)}{_text(study.callpaths[callpath])}: {{"
        for position, series in enumerate(group):
            metric = _text(study.metrics[study.series_metric[series]])
            points = np.flatnonzero(study.present[series]).tolist()
            cells = (measurement(study, series, point, addresses) for point in points)
            yield f"{', ' * (position > 0)}{metric}: [{', '.join(map(_text, cells))}]"
        yield "}"


def _text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
