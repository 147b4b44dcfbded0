"""Extra-P's JSON format.

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

from callgrove.binary.sources import Source
from callgrove.errors import CorruptFile, Parameter, RefusedInput, worded
from callgrove.formats.extrap.json_tree import Node, parse_json
from callgrove.formats.extrap.json_writer import write_json
from callgrove.formats.extrap.numbers import NotANumber, as_number, as_repetitions
from callgrove.formats.extrap.study_format import StudyFormat, finished
from callgrove.formats.interface import Field, LossReport, ReadOptions, WriteOptions
from callgrove.model.study import Study
from callgrove.model.study_builder import StudyBuilder

__all__ = ["FORMAT", "json_fields", "parameter_names", "whole_file"]

LARGEST = 1 << 30  # bytes


class JsonFormat(StudyFormat):
    name = "extrap-json"
    title = "Extra-P JSON file"

    def read(self, source: Source, options: ReadOptions) -> Study:
        root = whole_file(source)
        names = parameter_names(root["parameters"])
        builder = StudyBuilder(names, self.name, title=source.path.name, path=str(source.path))
        for callpath, metrics in root["measurements"].items():
            for metric, measurements in metrics.items():
                _series(builder, callpath, metric, measurements, options.strict)
        for key, value in root.members().items():
            if key not in ("parameters", "measurements"):
                builder.attributes[key] = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        return finished(builder, source.path, options.strict)

    def write_study(self, study: Study, target: Path, options: WriteOptions) -> LossReport:
        return write_json(study, target, options)

    def dump(self, source: Source) -> Iterator[Field]:
        return json_fields(whole_file(source), source.path.name)


FORMAT = JsonFormat()


def whole_file(source: Source) -> Node:
    """The JSON text of a file."""
    file = source.bytes()
    if file.size > LARGEST:
        raise RefusedInput(
            f"{source.path}: has {file.size:,} bytes; JSON, which is read in one piece, may have {LARGEST:,}; "
            "write it as JSON Lines"
        )
    return parse_json(file.copy(0, file.size, "JSON"), source.path)


def parameter_names(node: Node) -> list[str]:
    """The names of the parameters, which must differ."""
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
            raise one["point"].bad(worded("every point once (", Parameter("strict", True), ")"))
        seen.add(point)
        values = one["values"]
        try:
            found = as_repetitions(values.value)
        except NotANumber as error:
            raise _bad_values(values, error) from None
        if all(type(value) is float for value in found):
            builder.add_repetitions(series, point, found)  # type: ignore[arg-type]
        else:
            builder.add_values(callpath, metric, point, found)


def _bad_values(values: Node, error: NotANumber) -> CorruptFile:
    if values.value == [] or error.found is values.value:
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
    """Every value of a JSON text under its path."""
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
