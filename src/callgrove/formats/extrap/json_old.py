"""The older JSON format of Extra-P: lists whose entries refer to each other by ids.

    parameters, callpaths, metrics   [{"id": 1, "name": ...}]
    coordinates                      [{"id": 1, "parameter_value_pairs": [{"parameter_id": 1, "parameter_value": 4}]}]
    measurements                     [{"id": 1, "callpath_id": 1, "metric_id": 1, "coordinate_id": 1, "value": 10.1}]

Specification: extrap.md section 5. Entries are ordered by their ids, as in Extra-P, which uses an id minus one as a
position; here ids are looked up, so any that differ will do.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

from callgrove.binary.sources import Source
from callgrove.errors import CorruptFile
from callgrove.formats.extrap.json_new import json_fields, whole_file
from callgrove.formats.extrap.json_old_writer import write_json_old
from callgrove.formats.extrap.json_tree import Node
from callgrove.formats.extrap.study_format import StudyFormat, finished
from callgrove.formats.interface import Field, LossReport, ReadOptions, WriteOptions
from callgrove.model.study import Study
from callgrove.model.study_builder import StudyBuilder

__all__ = ["FORMAT"]

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
            point = _known(one, "coordinate_id", points, "coordinates")
            callpath = _known(one, "callpath_id", callpaths, "callpaths")
            metric = _known(one, "metric_id", metrics, "metrics")
            builder.add_repetitions(builder.series(callpath, metric), point, (one["value"].number(),))
        return finished(builder, source.path, options.strict)

    def write_study(self, study: Study, target: Path, options: WriteOptions) -> LossReport:
        return write_json_old(study, target, options)

    def dump(self, source: Source) -> Iterator[Field]:
        return json_fields(whole_file(source), source.path.name)


FORMAT = OldJsonFormat()


def _by_id(list_: Node) -> list[tuple[int, Node]]:
    """The entries of a list, by their ids."""
    found: dict[int, Node] = {}
    for one in list_.elements():
        id_ = one["id"].whole()
        if id_ in found:
            raise CorruptFile(list_.path, one.place, expected="an id of its own", found=f"{id_}, as {found[id_].place}")
        found[id_] = one
    return sorted(found.items())


def _names(list_: Node) -> dict[int, str]:
    return {id_: one["name"].text() for id_, one in _by_id(list_)}


def _points(list_: Node, parameters: dict[int, str], builder: StudyBuilder) -> dict[int, int]:
    order = {id_: position for position, id_ in enumerate(parameters)}
    points: dict[int, int] = {}
    for id_, one in _by_id(list_):
        coordinates = [math.nan] * len(order)
        for pair in one["parameter_value_pairs"].elements():
            position = _known(pair, "parameter_id", order, "parameters")
            coordinates[position] = pair["parameter_value"].number()
        if not all(map(math.isfinite, coordinates)):
            raise one.bad(f"a finite value for each of {', '.join(parameters.values())}")
        points[id_] = builder.point(coordinates)
    return points


def _known(node: Node, key: str, entries: dict[int, T], list_name: str) -> T:
    """What an id refers to."""
    id_ = node[key].whole()
    if id_ not in entries:
        there = f"ids from {min(entries)} to {max(entries)}" if entries else "no entries"
        place = f"{node.place}.{key}"
        raise CorruptFile(node.path, place, expected=f"an id of {list_name}", found=f"{id_}; there are {there}")
    return entries[id_]
