"""Extra-P's experiment files: a ZIP archive with `experiment.json`, raw values and models; read and written.

    Extra-P         version                 scaling     weak, weak_threaded, strong or null
    parameters      [name]                  callpaths, metrics   {name: {"tags": {...}}}, those with tags
    measurements    {call path: {metric: [{coordinate, mean, median, minimum, maximum, std, repetitions, values}]}}
    modelers        see models.py           values               [chunk, number], see archive.py

Specification: extrap.md section 10. Series need not be complete. Statistics stay as they are stored; raw values that
contradict them (Extra-P stores masked values without their mask) are left out.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

import numpy as np

from callgrove.arrays import Array
from callgrove.binary.sources import Source
from callgrove.errors import CorruptFile
from callgrove.formats.extrap.archive import MEMBER, ValueReader, ValueWriter, open_archive, read_member
from callgrove.formats.extrap.json import json_fields, parameter_names
from callgrove.formats.extrap.models import measurement, model_sets, number_of, read_model_sets
from callgrove.formats.extrap.study_format import StudyFormat, finish_study, lost_with_the_unmeasured
from callgrove.formats.extrap.text_input import Node, parse_json
from callgrove.formats.interface import Field, LossReport, ReadOptions, WriteOptions
from callgrove.formats.writing.targets import PendingFile
from callgrove.model.experiment import Severity
from callgrove.model.study.books import MODELS, REPETITIONS, StudyBooks
from callgrove.model.study.builder import StudyBuilder
from callgrove.model.study.series import SCALINGS, STATISTICS, Statistics, Study

__all__ = ["FORMAT", "write_experiment"]


# -- writer ------------------------------------------------------------------------------------------------------------
# Extra-P 4.2.5 loads these files, models included.
#
# `experiment.json` is written piece by piece; raw values go into chunks beside it. What Extra-P has no place for (units
# of metrics) stands under the key `callgrove`, which it skips.


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
        if tagged := {name: {"tags": dict(tags_of_name)} for name, tags_of_name in tags.items() if tags_of_name}:
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


# -- reader ------------------------------------------------------------------------------------------------------------


KNOWN_VERSION = (4, 2)
TAGGED = "\x03"  # before 4.0, tags followed a name as JSON text


class ExperimentFormat(StudyFormat):
    name = "extrap-experiment"
    title = "Extra-P experiment with its models (.extra-p)"

    def read(self, source: Source, options: ReadOptions) -> Study:
        with open_archive(source.path) as archive:
            root = parse_json(read_member(archive, MEMBER, source.path), source.path, MEMBER)
            reader = _Reader(root, ValueReader(archive, source.path), source.path)
            reader.read()
        return finish_study(reader.builder, source.path, options.strict, complete=False)

    def write_study(self, study: Study, target: Path, options: WriteOptions) -> LossReport:
        return write_experiment(study, target, options)

    def dump(self, source: Source) -> Iterator[Field]:
        """The members of the archive, and every value of experiment.json under its path."""
        with open_archive(source.path) as archive:
            for number, info in enumerate(archive.infolist()):
                yield Field(source.path.name, "archive", number, info.header_offset, info.filename, info.file_size)
            root = parse_json(read_member(archive, MEMBER, source.path), source.path, MEMBER)
        yield from json_fields(root, MEMBER)


FORMAT = ExperimentFormat()


class _Reader:
    def __init__(self, root: Node, values: ValueReader, path: Path) -> None:
        self.root, self.values, self.path = root, values, path
        version = root.get("Extra-P")
        names = parameter_names(root["parameters"])
        self.builder = StudyBuilder(names, FORMAT.name, version.text() if version else "", path.name, str(path))
        self.builder.suggested_target = "study.json"
        self.contradicting = 0

    def read(self) -> None:
        self._say_if_newer()
        scaling = self.root.get("scaling")
        if scaling is not None:
            if scaling.value not in SCALINGS:
                raise scaling.bad(f"one of {', '.join(filter(None, SCALINGS))} or null")
            self.builder.scaling = scaling.text()
        self._tags("callpaths", self.builder.callpath_tags)
        self._tags("metrics", self.builder.metric_tags)
        measurements = self.root.get("measurements")
        for callpath, metrics in measurements.items() if measurements else ():
            for metric, series in metrics.items():
                self._series(callpath, metric, series)
        self._say_what_became_of_values()
        self._models()
        ours = self.root.get("callgrove")
        if ours is not None and (units := ours.get("units")) is not None:
            self.builder.units.update({name: unit.text() for name, unit in units.items()})

    def _say_if_newer(self) -> None:
        match = re.match(r"(\d+)\.(\d+)", self.builder.version)
        if match and (int(match[1]), int(match[2])) > KNOWN_VERSION:
            known = ".".join(map(str, KNOWN_VERSION))
            text = (
                f"{self.path}: was written by Extra-P {self.builder.version}, newer than {known}, which is known here"
            )
            self.builder.warn(Severity.NOTE, text)

    def _tags(self, key: str, into: dict[str, dict[str, object]]) -> None:
        named = self.root.get(key)
        for name, entry in named.items() if named is not None else ():
            if (tags := entry.get("tags")) is not None and tags.members():
                into[name.partition(TAGGED)[0]] = dict(tags.members())

    def _name_with_tags(self, name: str, tags: dict[str, dict[str, object]], node: Node) -> str:
        """A name; what follows a byte 3 in it are its tags."""
        plain, mark, text = name.partition(TAGGED)
        if mark and text:
            tags.setdefault(plain, dict(parse_json(text.encode(), self.path, node.place).members()))
        return plain

    def _series(self, callpath: str, metric: str, series: Node) -> None:
        path = self._name_with_tags(callpath, self.builder.callpath_tags, series)
        quantity = self._name_with_tags(metric, self.builder.metric_tags, series)
        self.builder.series(path, quantity)
        for one in series.elements():
            coordinates = [number_of(c) for c in one["coordinate"].elements()]
            if len(coordinates) != len(self.builder.parameters) or not all(map(math.isfinite, coordinates)):
                raise one["coordinate"].bad(f"finite values of {', '.join(self.builder.parameters)}")
            point = self.builder.point(coordinates)
            statistics = _statistics(one)
            if self.builder.add_statistics(path, quantity, point, statistics):
                self._values(path, quantity, point, one, statistics)
            else:
                text = f"{one.place} repeats a point of its series; the first one counts"
                self.builder.warn(Severity.NOTE, f"{self.path}: {text}")

    def _values(self, callpath: str, metric: str, point: int, node: Node, statistics: Statistics) -> None:
        address = node.get("values")
        if address is None:
            return
        numbers = [one.whole() for one in address.elements()]
        if len(numbers) != 2 or min(numbers) < 0:
            raise address.bad("[chunk, number]")
        array = self.values.read(*numbers)
        if array is None or array.size == 0:
            return
        if not _agree(array, statistics.mean):
            self.contradicting += 1
            return
        self.builder.add_values(callpath, metric, point, list(array) if array.ndim else [float(array)])

    def _say_what_became_of_values(self) -> None:
        for text, n in self.values.problems.items():
            often = f" ({n} times)" if n > 1 else ""
            harmless = "next chunk" in text
            severity = Severity.NOTE if harmless else Severity.DAMAGE
            self.builder.warn(severity, f"{self.path}: raw values: {text}{often}" + ("" if harmless else "; left out"))
        if self.contradicting:
            text = f"raw values of {self.contradicting} measurements contradict their mean; left out"
            self.builder.warn(Severity.NOTE, f"{self.path}: {text}")

    def _models(self) -> None:
        for one in read_model_sets(self.root, self.builder.parameters):
            self.builder.modelers[one.name] = one.modeler
            known = [model for model in one.models if self.builder.knows(model.callpath, model.metric)]
            self.builder.models += known
            if len(known) < len(one.models):
                n = len(one.models) - len(known)
                self.builder.warn(Severity.MISSING, f"{self.path}: {one.name}: {n} models of series that are not there")
            for text in dict.fromkeys(one.left_out):
                self.builder.warn(Severity.NOTE, f"{self.path}: {one.name}: left out: {text}")


def _statistics(node: Node) -> Statistics:
    """What is stored of a measurement; what is not there is unknown."""
    nodes = {key: node.get(key) for key in ("mean", "median", "minimum", "maximum", "std")}
    if nodes["mean"] is None:
        raise CorruptFile(node.path, node.place, expected="the key 'mean'", found=", ".join(node.members()) or "none")
    numbers = {key: number_of(one) if one is not None else math.nan for key, one in nodes.items()}
    if numbers["std"] < 0:
        raise node["std"].bad("a standard deviation, which is not negative")
    repetitions = node.get("repetitions")
    return Statistics(**numbers, repetitions=repetitions.whole() if repetitions is not None else -1)


def _agree(values: Array, mean: float) -> bool:
    with np.errstate(over="ignore", invalid="ignore"):  # values need not be finite
        return bool(np.isclose(values.mean(), mean, rtol=1e-6, atol=0.0, equal_nan=True))
