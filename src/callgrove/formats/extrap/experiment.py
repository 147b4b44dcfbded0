"""Extra-P's experiment files: a ZIP archive with `experiment.json`, raw values and models.

    Extra-P         version                 scaling     weak, weak_threaded, strong or null
    parameters      [name]                  callpaths, metrics   {name: {"tags": {...}}}, those with tags
    measurements    {call path: {metric: [{coordinate, mean, median, minimum, maximum, std, repetitions, values}]}}
    modelers        see stored_models.py    values               [chunk, number], see raw_values.py

Specification: extrap.md section 10. Series need not be complete. Statistics stay as they are stored; raw values that
contradict them (Extra-P stores masked values without their mask) are left out.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from callgrove.binary.sources import Source
from callgrove.errors import CorruptFile
from callgrove.formats.extrap.archive import MEMBER, open_archive, read_member
from callgrove.formats.extrap.experiment_writer import write_experiment
from callgrove.formats.extrap.json_new import json_fields, parameter_names
from callgrove.formats.extrap.json_tree import Node, parse_json
from callgrove.formats.extrap.raw_values import ValueReader
from callgrove.formats.extrap.stored_models import number_of, read_model_sets
from callgrove.formats.extrap.study_format import StudyFormat, finished
from callgrove.formats.interface import Field, LossReport, ReadOptions, WriteOptions
from callgrove.model.arrays import Array
from callgrove.model.experiment import Severity
from callgrove.model.study import SCALINGS, Statistics, Study
from callgrove.model.study_builder import StudyBuilder

__all__ = ["FORMAT"]

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
        return finished(reader.builder, source.path, options.strict, complete=False)

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
        own = self.root.get("callgrove")
        if own is not None and (units := own.get("units")) is not None:
            self.builder.units.update({name: unit.text() for name, unit in units.items()})

    def _say_if_newer(self) -> None:
        found = re.match(r"(\d+)\.(\d+)", self.builder.version)
        if found and (int(found[1]), int(found[2])) > KNOWN_VERSION:
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
    found = {key: node.get(key) for key in ("mean", "median", "minimum", "maximum", "std")}
    if found["mean"] is None:
        raise CorruptFile(node.path, node.place, expected="the key 'mean'", found=", ".join(node.members()) or "none")
    numbers = {key: number_of(one) if one is not None else math.nan for key, one in found.items()}
    if numbers["std"] < 0:
        raise node["std"].bad("a standard deviation, which is not negative")
    repetitions = node.get("repetitions")
    return Statistics(**numbers, repetitions=repetitions.whole() if repetitions is not None else -1)


def _agree(values: Array, mean: float) -> bool:
    with np.errstate(over="ignore", invalid="ignore"):  # values need not be finite
        return bool(np.isclose(values.mean(), mean, rtol=1e-6, atol=0.0, equal_nan=True))
