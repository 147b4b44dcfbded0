"""Extra-P's formats with a JSON object per line, TaLPas and JSON Lines; read and written.

    {"parameters":{"p":4;"n":100};"metric":"time";"callpath":"main->solve";"value":10.1}       TaLPas
    {"params": {"p": 4, "n": 100}, "callpath": "main->solve", "metric": "time", "value": [10.1, 10.3]}

Specification: extrap.md sections 3 and 6. Lines with the same call path, metric and point are repetitions. Lines are
decoded many at a time; a line that is not JSON is looked for only when that fails.

Deviations: TaLPas's `;` is a comma outside of strings only (Extra-P replaces it in names too); `#` lines are comments;
numbers may be strings; a JSON Lines file may have a single line.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from callgrove.binary.files import Source
from callgrove.errors import CorruptFile, Parameter, compose_text
from callgrove.formats.extrap.study_format import (
    Cells,
    NotANumber,
    StudyFormat,
    as_number,
    as_repetitions,
    as_words,
    finish_study,
    line_blocks,
    lost_with_the_unmeasured,
    open_target,
    quote_value,
)
from callgrove.formats.interface import Field, LossReport, ReadOptions, WriteOptions
from callgrove.model.experiment import Severity
from callgrove.model.study.builder import StudyBuilder
from callgrove.model.study.series import Study

__all__ = ["JSON_LINES", "TALPAS", "write_json_lines", "write_talpas"]


# -- writers -----------------------------------------------------------------------------------------------------------
# TaLPas has a line per raw value, JSON Lines a line per series and point.


Values = list[float] | list[list[float]]
Row = tuple[str, str, list[str], Values]  # call path, metric, coordinates, values


def write_talpas(study: Study, target: Path, options: WriteOptions) -> LossReport:
    """Write records in the form of TaLPas. Semicolons separate members, unless a name has one: Extra-P would take it
    for a comma."""
    names = (*study.parameters, *study.metrics, *study.callpaths)
    strange = next((name for name in names if ";" in name), None)
    separator = ";" if strange is None else ","

    def lines(row: Row) -> Iterator[str]:
        callpath, metric, point, values = row
        given = _members(zip(map(_quote, study.parameters), point, strict=True), separator)
        for value in values:
            members = (
                ('"parameters"', given),
                ('"metric"', _quote(metric)),
                ('"callpath"', _quote(callpath)),
                ('"value"', _value(value if isinstance(value, float) else [value])),
            )
            yield _members(iter(members), separator)

    report = _write(study, target, options, lines)
    if strange is not None:
        report.add(f"nothing here, but Extra-P itself reads the name {strange!r} with a comma for the semicolon")
    return report


def write_json_lines(study: Study, target: Path, options: WriteOptions) -> LossReport:
    """Write records as lines of JSON. The value is a list where there are several repetitions."""

    def lines(row: Row) -> Iterator[str]:
        callpath, metric, point, values = row
        given = _members(zip(map(_quote, study.parameters), point, strict=True), ",")
        single = len(values) == 1 and isinstance(values[0], float)
        members = (
            ('"params"', given),
            ('"callpath"', _quote(callpath)),
            ('"metric"', _quote(metric)),
            ('"value"', _value(values[0] if single else values)),
        )
        yield _members(iter(members), ",")

    return _write(study, target, options, lines)


def _write(study: Study, target: Path, options: WriteOptions, lines: Callable[[Row], Iterator[str]]) -> LossReport:
    report = LossReport()
    cells = Cells(study, report, nested=True)
    lost_with_the_unmeasured(cells.books, report)
    with open_target(target, options) as file:
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


def _quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _value(value: object) -> str:
    if isinstance(value, list):
        return f"[{','.join(map(_value, value))}]"
    assert isinstance(value, float)
    if math.isfinite(value):
        return as_words(value)
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


# -- readers -----------------------------------------------------------------------------------------------------------


AT_ONCE = 2048  # lines
_OUTSIDE = re.compile(r'"(?:[^"\\]|\\.)*"|;')

Record = dict[str, Any]


@dataclass(frozen=True)
class Keys:
    """What a record must and may have. `defaults` are for call path and metric."""

    parameters: str
    defaults: tuple[str, str] | None


class RecordsFormat(StudyFormat):
    """One of the two; they differ in names of keys and in the separator."""

    def __init__(
        self,
        name: str,
        title: str,
        keys: Keys,
        clean: Callable[[str], str],
        write: Callable[[Study, Path, WriteOptions], LossReport],
    ) -> None:
        self.name, self.title, self.keys, self.clean, self._write = name, title, keys, clean, write

    def read(self, source: Source, options: ReadOptions) -> Study:
        builder = StudyBuilder((), self.name, title=source.path.name, path=str(source.path))
        reader = _Reader(builder, source.path, self.keys, options.strict)
        for numbers, records in self._blocks(source.path):
            reader.add_all(numbers, records)
        reader.say_what_was_ignored()
        return finish_study(builder, source.path, options.strict)

    def write_study(self, study: Study, target: Path, options: WriteOptions) -> LossReport:
        return self._write(study, target, options)

    def dump(self, source: Source) -> Iterator[Field]:
        """Yield the members of every record."""
        for numbers, records in self._blocks(source.path):
            for number, record in zip(numbers, records, strict=True):
                for key, value in record.items():
                    yield Field(source.path.name, "record", number, -1, key, json.dumps(value, ensure_ascii=False))

    def _blocks(self, path: Path) -> Iterator[tuple[list[int], list[Record]]]:
        """Yield records and the numbers of their lines."""
        for first, lines in line_blocks(path):
            numbers = [k for k, line in enumerate(lines, first) if (start := line.lstrip()[:1]) and start != "#"]
            texts = [self.clean(lines[number - first]) for number in numbers]
            for at in range(0, len(texts), AT_ONCE):
                part = slice(at, at + AT_ONCE)
                yield numbers[part], _decode_records(numbers[part], texts[part], path)


def _decode_records(numbers: list[int], texts: list[str], path: Path) -> list[Record]:
    """Return the records of some lines. They are decoded together; where that fails, one by one, to find the line."""
    records: list[Record]
    try:
        records = json.loads(f"[{','.join(texts)}]")
    except (ValueError, RecursionError):
        records = []
    if len(records) != len(texts):  # broken, or a line with two records in it
        records = [_decode(number, text, path) for number, text in zip(numbers, texts, strict=True)]  # type: ignore[misc]
    if set(map(type, records)) - {dict}:
        wrong = next(k for k, record in enumerate(records) if type(record) is not dict)
        raise _bad(path, numbers[wrong], "a JSON object", quote_value(texts[wrong]))
    return records


def _decode(number: int, text: str, path: Path) -> object:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        found = f"{error.msg} at column {error.colno} of {quote_value(text)}"
    except RecursionError:
        found = "brackets nested too deeply"
    except ValueError as error:
        found = str(error)
    raise _bad(path, number, "a JSON object on each line", found)


def _bad(path: Path, number: int, expected: str, found: str, remedy: str = "") -> CorruptFile:
    return CorruptFile(path, "record", line=number, expected=expected, found=found, remedy=remedy)


class _Reader:
    """Adds records to a builder. The parameters are those of the first record."""

    def __init__(self, builder: StudyBuilder, path: Path, keys: Keys, strict: bool) -> None:
        self.builder, self.path, self.keys, self.strict = builder, path, keys, strict
        self.names: tuple[str, ...] = ()
        self.ignored: dict[str, int] = {}  # parameter that the first record lacks -> first line with it

    def add_all(self, numbers: list[int], records: list[Record]) -> None:
        """Add many records. Where all are as they usually are, columns are made of them; else they are added one by
        one, which also finds the one that is wrong."""
        if not self._add_usual(records):
            for number, record in zip(numbers, records, strict=True):
                self.add(number, record)

    def _add_usual(self, records: list[Record]) -> bool:
        """Add records with the known parameters and plain numbers; return False, and add nothing, where any is
        different."""
        callpath: Any
        metric: Any
        callpath, metric = self.keys.defaults or (None, None)
        try:
            given = [record[self.keys.parameters] for record in records]
            values = [record["value"] for record in records]
            points = [tuple([coordinates[name] for name in self.names]) for coordinates in given]
            names = [(record.get("callpath", callpath), record.get("metric", metric)) for record in records]
        except (KeyError, TypeError):
            return False
        plain = {int, float}
        usual = (
            self.names != ()
            and set(map(type, values)) <= plain
            and set(map(type, chain.from_iterable(points))) <= plain
            and set(map(type, chain.from_iterable(names))) <= {str}
            and set(map(len, given)) == {len(self.names)}
        )
        try:
            if not usual or not all(map(math.isfinite, chain.from_iterable(points))):
                return False
            numbers = list(map(float, values))
        except OverflowError:
            return False
        series_of = {pair: self.builder.series(*pair) for pair in dict.fromkeys(names)}
        point_of = {point: self.builder.point(point) for point in dict.fromkeys(points)}
        self.builder.add_rows([series_of[pair] for pair in names], [point_of[point] for point in points], numbers)
        return True

    def add(self, number: int, record: Record) -> None:
        point = self._point(number, record)
        callpath, metric = self._name(number, record, "callpath", 0), self._name(number, record, "metric", 1)
        if "value" not in record:
            raise self._missing(number, "value", record)
        value = record["value"]
        if type(value) is float:
            self.builder.add_repetitions(self.builder.series(callpath, metric), point, (value,))
            return
        try:
            self.builder.add_values(callpath, metric, point, as_repetitions(value))
        except NotANumber as error:
            raise _bad(self.path, number, "a number or a list of numbers as value", str(error)) from None

    def _point(self, number: int, record: Record) -> int:
        given = record.get(self.keys.parameters)
        if not isinstance(given, dict):
            if self.keys.parameters not in record:
                raise self._missing(number, self.keys.parameters, record)
            raise _bad(self.path, number, f"an object as {self.keys.parameters}", quote_value(given))
        if not self.names:
            if not given:
                raise _bad(self.path, number, f"at least one parameter in {self.keys.parameters}", "none")
            self.names = tuple(given)
            self.builder.parameters = self.names
        coordinates = [self._coordinate(number, given, name) for name in self.names]
        if len(given) > len(self.names):
            self._ignore(number, given)
        return self.builder.point(coordinates)

    def _coordinate(self, number: int, given: Record, name: str) -> float:
        if name not in given:
            there = ", ".join(given) or "none"
            raise _bad(self.path, number, f"the parameter {name!r}, as in the first record", f"{there} only")
        try:
            value = as_number(given[name])
        except NotANumber as error:
            raise _bad(self.path, number, f"a number as the parameter {name!r}", str(error)) from None
        if not math.isfinite(value):
            raise _bad(self.path, number, f"a finite number as the parameter {name!r}", str(value))
        return value

    def _ignore(self, number: int, given: Iterable[str]) -> None:
        for name in given:
            if name not in self.names:
                if self.strict:
                    more = compose_text(f"{name!r} too (", Parameter("strict", True), ")")
                    raise _bad(self.path, number, "the parameters of the first record", more)
                self.ignored.setdefault(name, number)

    def say_what_was_ignored(self) -> None:
        for name, number in self.ignored.items():
            text = f"{self.path}: line {number}: the parameter {name!r}, which the first record lacks, is ignored"
            self.builder.warn(Severity.NOTE, text)

    def _name(self, number: int, record: Record, key: str, which: int) -> str:
        if key not in record:
            if self.keys.defaults is None:
                raise self._missing(number, key, record)
            return self.keys.defaults[which]
        text = record[key]
        if not isinstance(text, str):
            raise _bad(self.path, number, f"a text as {key}", quote_value(text))
        return text

    def _missing(self, number: int, key: str, record: Record) -> CorruptFile:
        return _bad(self.path, number, f"the key {key!r}", f"only {', '.join(map(repr, record)) or 'an empty object'}")


def _replace_semicolons(line: str) -> str:
    """Return TaLPas's semicolons as commas, outside of strings."""
    if ";" not in line:
        return line
    if "\\" not in line:
        parts = line.split('"')
        parts[::2] = [part.replace(";", ",") for part in parts[::2]]
        return '"'.join(parts)
    return _OUTSIDE.sub(lambda match: "," if match.group() == ";" else match.group(), line)


def _as_it_is(line: str) -> str:
    return line


TALPAS = RecordsFormat(
    "extrap-talpas",
    "Extra-P TaLPas file (a line per value)",
    Keys("parameters", None),
    _replace_semicolons,
    write_talpas,
)
JSON_LINES = RecordsFormat(
    "extrap-jsonl", "Extra-P JSON Lines file", Keys("params", ("<root>", "<default>")), _as_it_is, write_json_lines
)
