"""Extra-P's JSON format, and the older one whose lists refer to each other by ids; read and written.

    {"parameters": ["p", "n"],
     "measurements": {"main->solve": {"time": [{"point": [4, 100], "values": [10.1, 10.3]}, ...]}}}

Specification: extrap.md section 4. Deviations: values may be a single number, nested or numeric strings; a point may be
a single number where there is one parameter; a point that comes twice is pooled (refused under `strict`). Other keys of
the top level are kept as attributes.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TypeVar

import numpy as np

from callgrove.binary.files import Source
from callgrove.errors import CorruptFile, NotRecognised, Parameter, RefusedInput, compose_text
from callgrove.formats.extrap.study_format import (
    Cells,
    Node,
    NotANumber,
    StudyFormat,
    as_number,
    as_repetitions,
    as_words,
    finish_study,
    lost_with_the_unmeasured,
    open_target,
    parse_json,
)
from callgrove.formats.interface import Field, LossReport, ReadOptions, WriteOptions
from callgrove.model.study.builder import StudyBuilder
from callgrove.model.study.series import Study

__all__ = [
    "FORMAT",
    "OLD_FORMAT",
    "json_fields",
    "json_numbers",
    "parameter_names",
    "whole_file",
    "write_json",
    "write_json_old",
]


# -- writer ------------------------------------------------------------------------------------------------------------
# One measurement per line, numbers in the shortest form that reads back the same.


def write_json(study: Study, target: Path, options: WriteOptions) -> LossReport:
    """Write everything that the format holds; incomplete series too, which Extra-P itself refuses."""
    report = LossReport()
    cells = Cells(study, report, nested=True)
    lost_with_the_unmeasured(cells.books, report, series=False)
    if not study.present.all():
        report.add("nothing here, but Extra-P itself refuses series that lack points")
    if study.raw is not None and not np.isfinite(study.raw.values).all():
        report.add("nothing here, but infinite and undefined values are written as text, which Extra-P does not read")
    with open_target(target, options) as file:
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
    """Return numbers, in lists or not; what JSON has no number for is a text."""
    if isinstance(value, list):
        return f"[{', '.join(map(json_numbers, value))}]"
    assert isinstance(value, float)
    return as_words(value) if np.isfinite(value) else f'"{value}"'


def _text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


# -- reader ------------------------------------------------------------------------------------------------------------


LARGEST = 1 << 30  # bytes
MOST_KEYS = 5  # that a message names


class JsonFormat(StudyFormat):
    name = "extrap-json"
    title = "Extra-P JSON file"

    def read(self, source: Source, options: ReadOptions) -> Study:
        root = whole_file(source)
        if not root.members().keys() & {"parameters", "measurements"}:
            raise NotRecognised(
                f"{source.path}: not recognised as performance data: an object of JSON with {_some_keys(root)}; "
                "one of Extra-P has 'parameters' and 'measurements'"
            )
        names = parameter_names(root["parameters"])
        builder = StudyBuilder(names, self.name, title=source.path.name, path=str(source.path))
        for callpath, metrics in root["measurements"].items():
            for metric, measurements in metrics.items():
                _series(builder, callpath, metric, measurements, options.strict)
        for key, value in root.members().items():
            if key not in ("parameters", "measurements"):
                builder.attributes[key] = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        return finish_study(builder, source.path, options.strict)

    def write_study(self, study: Study, target: Path, options: WriteOptions) -> LossReport:
        return write_json(study, target, options)

    def dump(self, source: Source) -> Iterator[Field]:
        return json_fields(whole_file(source), source.path.name)


FORMAT = JsonFormat()


def _some_keys(root: Node) -> str:
    """Return the first keys of an object, for a message."""
    keys = list(root.members())
    more = ", ..." if len(keys) > MOST_KEYS else ""
    return f"the keys {', '.join(f'{key!r:.40}' for key in keys[:MOST_KEYS])}{more}" if keys else "no keys"


def whole_file(source: Source) -> Node:
    """Return the JSON text of a file."""
    file = source.bytes()
    if file.size > LARGEST:
        raise RefusedInput(
            f"{source.path}: has {file.size:,} bytes; JSON, which is read in one piece, may have {LARGEST:,}; "
            "write it as JSON Lines"
        )
    return parse_json(file.copy(0, file.size, "JSON"), source.path)


def parameter_names(node: Node) -> list[str]:
    """Return the names of the parameters, which must differ."""
    names: list[str] = []
    for one in node.elements():
        if one.text() in names:
            raise one.bad("a name that is not there yet")
        names.append(one.text())
    if not names:
        raise node.bad("at least one parameter")
    return names


def _series(builder: StudyBuilder, callpath: str, metric: str, measurements: Node, strict: bool) -> None:
    series = builder.series(callpath, metric)
    seen: set[int] = set()
    for one in measurements.elements():
        point = _point(builder, one["point"])
        if point in seen and strict:
            raise one["point"].bad(compose_text("every point once (", Parameter("strict", True), ")"))
        seen.add(point)
        values = one["values"]
        try:
            repetitions = as_repetitions(values.value)
        except NotANumber as error:
            raise _bad_values(values, error) from None
        if all(type(value) is float for value in repetitions):
            builder.add_repetitions(series, point, repetitions)  # type: ignore[arg-type]
        else:
            builder.add_values(callpath, metric, point, repetitions)


def _bad_values(values: Node, error: NotANumber) -> CorruptFile:
    if values.value == [] or error.value is values.value:
        return values.bad("at least one number")
    return CorruptFile(values.path, values.place, expected="numbers", found=str(error))


def _point(builder: StudyBuilder, node: Node) -> int:
    given = node.value if isinstance(node.value, list) else [node.value]
    try:
        coordinates = [as_number(c) for c in given]
    except NotANumber:
        raise node.bad("numbers as coordinates") from None
    if len(coordinates) != len(builder.parameters):
        raise node.bad(f"{len(builder.parameters)} coordinates ({', '.join(builder.parameters)})")
    if not all(map(math.isfinite, coordinates)):
        raise node.bad("finite coordinates")
    return builder.point(coordinates)


def json_fields(root: Node, file: str) -> Iterator[Field]:
    """Yield every value of a JSON text under its path."""
    pending = [root]
    number = 0
    while pending:
        node = pending.pop()
        if isinstance(node.value, dict) and node.value:
            pending.extend(reversed([one for _, one in node.items()]))
        elif isinstance(node.value, list) and any(isinstance(v, dict | list) for v in node.value):
            pending.extend(reversed(list(node.elements())))
        else:
            section = node.place.partition("[")[0].partition(".")[0]
            yield Field(file, section, number, -1, node.place, json.dumps(node.value, ensure_ascii=False))
            number += 1


# -- writer of the older format ----------------------------------------------------------------------------------------
# Ids begin at 1; there is one measurement per raw value.


def write_json_old(study: Study, target: Path, options: WriteOptions) -> LossReport:
    """Write everything that the format holds."""
    report = LossReport()
    if not study.present.all():
        report.add("nothing here, but Extra-P itself refuses series that lack points")
    cells = Cells(study, report, nested=False)
    lost_with_the_unmeasured(cells.books, report, points=False)
    with open_target(target, options) as file:
        file.write("{")
        for key, names in (
            ("parameters", study.parameters),
            ("callpaths", study.callpaths),
            ("metrics", study.metrics),
        ):
            _write_list(file, key, (f'"name": {json.dumps(name, ensure_ascii=False)}' for name in names))
        _write_list(file, "coordinates", (_coordinate(cells, p) for p in range(study.n_points)))
        _write_list(file, "measurements", _measurements(study, cells), last=True)
        file.write("}\n")
    return cells.close()


def _write_list(file: IO[str], key: str, entries: Iterator[str], last: bool = False) -> None:
    """Write a list of objects, each with its id."""
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


# -- reader of the older format ----------------------------------------------------------------------------------------
# Lists whose entries refer to each other by ids:
#
#     parameters, callpaths, metrics   [{"id": 1, "name": ...}]
#     coordinates                      [{"id": 1, "parameter_value_pairs": [{"parameter_id": 1, "parameter_value": 4}]}]
#     measurements                     [{"id": 1, "callpath_id": 1, "metric_id": 1, "coordinate_id": 1, "value": 10.1}]
#
# Specification: extrap.md section 5. Entries are ordered by their ids, as in Extra-P, which uses an id minus one as a
# position; here ids are looked up, so any that differ will do.


T = TypeVar("T")


class OldJsonFormat(StudyFormat):
    name = "extrap-json-old"
    title = "Extra-P JSON file of the older form (ids)"

    def read(self, source: Source, options: ReadOptions) -> Study:
        root = whole_file(source)
        parameters, callpaths, metrics = (_names(root[key]) for key in ("parameters", "callpaths", "metrics"))
        if not parameters:
            raise root["parameters"].bad("at least one parameter")
        if len(set(parameters.values())) < len(parameters):
            raise root["parameters"].bad("names that differ")
        builder = StudyBuilder(list(parameters.values()), self.name, title=source.path.name, path=str(source.path))
        points = _points(root["coordinates"], parameters, builder)
        for one in root["measurements"].elements():
            point = _look_up(one, "coordinate_id", points, "coordinates")
            callpath = _look_up(one, "callpath_id", callpaths, "callpaths")
            metric = _look_up(one, "metric_id", metrics, "metrics")
            builder.add_repetitions(builder.series(callpath, metric), point, (one["value"].number(),))
        return finish_study(builder, source.path, options.strict)

    def write_study(self, study: Study, target: Path, options: WriteOptions) -> LossReport:
        return write_json_old(study, target, options)

    def dump(self, source: Source) -> Iterator[Field]:
        return json_fields(whole_file(source), source.path.name)


OLD_FORMAT = OldJsonFormat()


def _by_id(list_: Node) -> list[tuple[int, Node]]:
    """Return the entries of a list, by their ids."""
    entries: dict[int, Node] = {}
    for one in list_.elements():
        id_ = one["id"].whole()
        if id_ in entries:
            raise CorruptFile(
                list_.path, one.place, expected="an id of its own", found=f"{id_}, as {entries[id_].place}"
            )
        entries[id_] = one
    return sorted(entries.items())


def _names(list_: Node) -> dict[int, str]:
    return {id_: one["name"].text() for id_, one in _by_id(list_)}


def _points(list_: Node, parameters: dict[int, str], builder: StudyBuilder) -> dict[int, int]:
    order = {id_: position for position, id_ in enumerate(parameters)}
    points: dict[int, int] = {}
    for id_, one in _by_id(list_):
        coordinates = [math.nan] * len(order)
        for pair in one["parameter_value_pairs"].elements():
            position = _look_up(pair, "parameter_id", order, "parameters")
            coordinates[position] = pair["parameter_value"].number()
        if not all(map(math.isfinite, coordinates)):
            raise one.bad(f"a finite value for each of {', '.join(parameters.values())}")
        points[id_] = builder.point(coordinates)
    return points


def _look_up(node: Node, key: str, entries: dict[int, T], list_name: str) -> T:
    """Return what an id refers to."""
    id_ = node[key].whole()
    if id_ not in entries:
        there = f"ids from {min(entries)} to {max(entries)}" if entries else "no entries"
        place = f"{node.place}.{key}"
        raise CorruptFile(node.path, place, expected=f"an id of {list_name}", found=f"{id_}; there are {there}")
    return entries[id_]
