"""Extra-P's text format: PARAMETER, POINTS, METRIC, REGION, DATA; read and written.

    PARAMETER p n                names, separated by blanks; repeatable
    POINTS (4 100) (8 100)       see `parse_points` below; repeatable
    METRIC time                  optional; holds until the next one
    REGION main->solve
    DATA 10.1 10.3               the repetitions of the first point
    DATA 14.2 14.0               of the second one

Specification: extrap.md section 2. METRIC and REGION each begin anew with the first point. Lines are read one by one
and their values go into flat columns, so memory is that of the numbers.

Deviations: indented keywords and comments, nested points and a byte order mark are accepted; so are, without
`strict`, more than four parameters, data without a REGION (call path `<root>`), a block that comes twice and equal
points (their values are pooled).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import IO

from callgrove.binary.files import Source
from callgrove.errors import CorruptFile, Parameter, UsageError, compose_text
from callgrove.formats.extrap.study_format import (
    KEYWORDS,
    Cells,
    StudyFormat,
    as_words,
    finish_study,
    line_blocks,
    number_lines,
    open_target,
    refuse_newlines,
)
from callgrove.formats.interface import Field, LossReport, ReadOptions, WriteOptions
from callgrove.model.experiment import Severity
from callgrove.model.study.builder import StudyBuilder
from callgrove.model.study.series import Study

__all__ = ["FORMAT", "is_number", "number_trouble", "parse_points", "write_text"]


# -- points ------------------------------------------------------------------------------------------------------------
# 10 20 30                 bare numbers, with one parameter
# (10 1) (20 1)            points of two coordinates; commas may separate coordinates too
# ((10) (1)) ((20) (1))    the same, nested as the document shows it


Point = tuple[float, ...]

_TOKEN = re.compile(r"[()]|[^\s(),]+|,")
_DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+([eE][+-]?\d+)?")


def number_trouble(path: Path, section: str, line: int, token: str) -> CorruptFile:
    """Return the error for a word that is not a number."""
    comma = bool(_DECIMAL_COMMA.fullmatch(token))
    remedy = "write a decimal point instead of the comma" if comma else ""
    return CorruptFile(path, section, line=line, expected="a number", found=repr(token), remedy=remedy)


def parse_points(text: str, parameters: Sequence[str], path: Path, line: int) -> list[Point]:
    """Return the points of one POINTS line."""
    if "(" not in text and ")" not in text:
        points = _bare(text, parameters, path, line)
    else:
        points = _read_flat(text) or [one.coordinates for one in _read_nested(text, len(parameters), path, line)]
    if wrong := [point for point in points if len(point) != len(parameters)]:
        raise _wrong_count(wrong[0], parameters, path, line)
    if not all(map(math.isfinite, chain.from_iterable(points))):
        point = next(one for one in points if not all(map(math.isfinite, one)))
        raise CorruptFile(path, "POINTS", line=line, expected="finite coordinates", found=_write_point(point))
    return points


def _bare(text: str, parameters: Sequence[str], path: Path, line: int) -> list[Point]:
    words = text.split()
    try:
        numbers = list(map(float, words))
    except ValueError:
        wrong = next(word for word in words if not is_number(word))
        raise number_trouble(path, "POINTS", line, wrong) from None
    if len(parameters) == 1:
        return [(number,) for number in numbers]
    raise _wrong_count(tuple(numbers[:1]), parameters, path, line)


def _read_flat(text: str) -> list[Point]:
    """Return points without nesting, quickly; empty where there is anything unusual."""
    *parts, rest = text.replace(",", " ").split(")")
    if rest.strip() or not all(part.lstrip().startswith("(") and part.count("(") == 1 for part in parts):
        return []
    try:
        return [tuple(map(float, part.lstrip()[1:].split())) for part in parts]
    except ValueError:
        return []


@dataclass
class _Open:
    """A point in the making."""

    column: int
    numbers: list[float]
    inner: int = -1  # how many numbers there were when an inner parenthesis opened

    @property
    def coordinates(self) -> Point:
        return tuple(self.numbers)


def _read_nested(text: str, n_parameters: int, path: Path, line: int) -> Iterator[_Open]:
    """Yield points with parentheses, token by token."""
    point: _Open | None = None
    for token in _TOKEN.finditer(text):
        word, column = token.group(), token.start() + 1
        if word == "(" and point is None:
            point = _Open(column, [])
        elif point is None:
            if word in "),":
                raise _parenthesis_error(path, line, column, repr(word))
            if n_parameters != 1:
                raise CorruptFile(path, "POINTS", line=line, expected="a point in parentheses", found=repr(word))
            yield _Open(column, [_number(word, path, line)])
        elif word == "(":
            if point.inner >= 0:
                raise _parenthesis_error(path, line, column, "a third '('")
            point.inner = len(point.numbers)
        elif word == ")" and point.inner >= 0:
            if len(point.numbers) != point.inner + 1:
                inside = f"{len(point.numbers) - point.inner} numbers in it"
                raise CorruptFile(path, f"POINTS, column {column}", line=line, expected="one number", found=inside)
            point.inner = -1
        elif word == ")":
            yield point
            point = None
        elif word != ",":
            point.numbers.append(_number(word, path, line))
    if point is not None:
        raise _parenthesis_error(path, line, point.column, "'(' that is never closed")


def _number(word: str, path: Path, line: int) -> float:
    if not is_number(word):
        raise number_trouble(path, "POINTS", line, word)
    return float(word)


def is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def _parenthesis_error(path: Path, line: int, column: int, found: str) -> CorruptFile:
    return CorruptFile(path, f"POINTS, column {column}", line=line, expected="balanced parentheses", found=found)


def _write_point(point: Point) -> str:
    return f"({' '.join(f'{c:g}' for c in point)})"


def _wrong_count(point: Point, parameters: Sequence[str], path: Path, line: int) -> CorruptFile:
    n = len(parameters)
    wanted = f"{n} coordinate{'s' * (n != 1)} for the parameter{'s' * (n != 1)} {', '.join(parameters)}"
    return CorruptFile(path, "POINTS", line=line, expected=wanted, found=f"{len(point)} in {_write_point(point)}")


# -- writer ------------------------------------------------------------------------------------------------------------
# One POINTS line, then for each metric its regions with a DATA line per point.


def write_text(study: Study, target: Path, options: WriteOptions) -> LossReport:
    """Write everything that the format holds."""
    report = LossReport()
    refuse_newlines(study, target)
    _refuse_parameters(study, target)
    for word, names in (("metric", study.metrics), ("call path", study.callpaths)):
        for name in names:
            if name != " ".join(name.split()):
                report.add(f"blanks in the {word} {name!r}: several are read as one, those at the ends as none")
    cells = Cells(study, report, nested=False)
    series = cells.complete()
    if not series:
        raise UsageError(f"{target}: no series has all points, so a text file could hold none; write extrap-json")
    with open_target(target, options) as file:
        _write(study, cells, series, file)
    return cells.close()


def _refuse_parameters(study: Study, target: Path) -> None:
    for name in study.parameters:
        if not name or name.split() != [name]:
            raise UsageError(
                f"{target}: the parameter {name!r} has blanks in its name, which separate parameters in a text file; "
                "write extrap-json"
            )


def _write(study: Study, cells: Cells, series: list[int], file: IO[str]) -> None:
    points = range(study.n_points)
    file.write(f"PARAMETER {' '.join(study.parameters)}\n")
    texts = [" ".join(cells.point(p)) for p in points]
    file.write(f"POINTS {' '.join(texts if len(study.parameters) == 1 else [f'({text})' for text in texts])}\n")
    if study.raw is None:
        file.write("# the raw values are not known: each number is a mean\n")
    metric: int | None = None
    # the metric without a name has no METRIC line, so it comes before those that have one
    for one in sorted(series, key=lambda s: (study.metrics[study.series_metric[s]] != "", study.series_metric[s])):
        if metric != study.series_metric[one]:
            metric = int(study.series_metric[one])
            file.write(f"METRIC {study.metrics[metric]}\n" if study.metrics[metric] else "")
        file.write(f"REGION {study.callpaths[study.series_callpath[one]]}\n")
        written: list[float] = []
        for point in points:
            values = _flatten(cells.values(one, point))
            file.write(f"DATA {' '.join(map(as_words, values))}\n")
            written += values
        cells.books.passed.enter_series(one, written)


def _flatten(values: list[float] | list[list[float]]) -> list[float]:
    return [value for value in values if isinstance(value, float)]


# -- reader ------------------------------------------------------------------------------------------------------------


NO_REGION = "<root>"
MOST_PARAMETERS = 4  # that Extra-P takes in this format
MOST_EVER = 1_000  # parameters
MOST_WORDS = 1_000_000  # in a line; measured studies have up to some thousand points
BLANKS = " \t"


class TextFormat(StudyFormat):
    name = "extrap-text"
    title = "Extra-P text file (PARAMETER, POINTS, REGION, DATA)"

    def read(self, source: Source, options: ReadOptions) -> Study:
        return _Reader(source.path, options.strict).read()

    def write_study(self, study: Study, target: Path, options: WriteOptions) -> LossReport:
        return write_text(study, target, options)

    def dump(self, source: Source) -> Iterator[Field]:
        """Yield every line with its keyword and what follows."""
        for number, line in number_lines(source.path):
            words = line.split(None, 1)
            if words and not words[0].startswith("#"):
                rest = words[1].strip() if len(words) > 1 else ""
                yield Field(source.path.name, words[0], number, -1, "text", rest)


FORMAT = TextFormat()


def _strictly(described: object) -> str:
    """Return what only a strict reader refuses."""
    return compose_text(described, " (", Parameter("strict", True), ")")


class _Reader:
    """One pass over the lines. `counter` is the number of DATA lines since the last METRIC or REGION."""

    def __init__(self, path: Path, strict: bool) -> None:
        self.path, self.strict = path, strict
        self.builder = StudyBuilder((), "extrap-text", title=path.name, path=str(path))
        self.points: list[int] = []  # by position, as written; equal ones have equal numbers
        self.different: set[int] = set()  # of them
        self.repeat, self.n_repeats = "", 0  # the first line with points that are there already; how many such lines
        self.metric: str | None = None
        self.region: str | None = None
        self.counter = 0
        self.series = -1
        self.begun: set[int] = set()  # series with data

    def read(self) -> Study:
        for first, lines in line_blocks(self.path):
            at = 0
            while at < len(lines):
                end = at
                while end < len(lines) and lines[end].startswith("DATA "):
                    end += 1
                if end > at:
                    self._data([self._split(line, first + at) for line in lines[at:end]], first + at)
                else:
                    self._line(first + at, self._split(lines[at], first + at))
                at = max(end, at + 1)
        self._tell_repeats()
        return finish_study(self.builder, self.path, self.strict)

    def _split(self, line: str, number: int) -> list[str]:
        """Return the words of a line. As texts they take a hundred times the room of the line: very many are refused
        before they are made."""
        if len(line) > MOST_WORDS and (n := sum(map(line.count, BLANKS))) > MOST_WORDS:
            keyword = line[:20].split(None, 1)[0]
            raise self._bad(number, keyword, f"at most {MOST_WORDS:,} numbers in a line", f"{n:,}")
        return line.split()

    def _line(self, number: int, words: list[str]) -> None:
        if words and words[0] == "DATA":
            self._data([words], number)
        elif words and not words[0].startswith("#"):
            self._section(number, words)

    def _section(self, number: int, words: list[str]) -> None:
        keyword, *rest = words
        if keyword not in KEYWORDS:
            raise self._keyword_error(number, keyword)
        if not rest:
            what = {"METRIC": "a name", "REGION": "a name", "POINTS": "points"}.get(keyword, "names")
            raise self._bad(number, keyword, f"{what} after {keyword}", "nothing")
        if keyword == "PARAMETER":
            self._parameters(number, rest)
        elif keyword == "POINTS":
            self._points(number, " ".join(rest))
        else:
            name = " ".join(rest)
            self.metric, self.region = (name, self.region) if keyword == "METRIC" else (self.metric, name)
            self.counter = 0

    def _parameters(self, number: int, names: list[str]) -> None:
        known = [*self.builder.parameters, *names]
        if len(set(known)) < len(known):
            twice = next(name for k, name in enumerate(known) if name in known[:k])
            raise self._bad(number, "PARAMETER", "different names", f"{twice!r} twice")
        if self.points:
            raise self._bad(number, "PARAMETER", "every PARAMETER before the first POINTS", "one after it")
        if self.strict and len(known) > MOST_PARAMETERS:
            raise self._bad(number, "PARAMETER", f"at most {MOST_PARAMETERS} parameters", _strictly(len(known)))
        if len(known) > MOST_EVER:
            raise self._bad(number, "PARAMETER", f"at most {MOST_EVER:,} parameters", f"{len(known):,}")
        self.builder.parameters = tuple(known)

    def _points(self, number: int, text: str) -> None:
        if not self.builder.parameters:
            raise self._too_early(number, "POINTS")
        point = self.builder.point
        points = [point(one) for one in parse_points(text, self.builder.parameters, self.path, number)]
        before, n_different = len(self.points), len(self.different)
        self.points += points
        self.different.update(points)
        if len(self.different) - n_different < len(points):
            if self.strict:
                raise self._bad(number, "POINTS", "different points", _strictly("one that is there already"))
            self.n_repeats += 1
            if self.n_repeats == 1:
                self.repeat = f"line {number}: some of the points {before + 1} to {len(self.points)} are equal"

    def _tell_repeats(self) -> None:
        if self.n_repeats:
            more = f", and so in {self.n_repeats - 1:,} more lines" if self.n_repeats > 1 else ""
            text = f"{self.path}: {self.repeat}{more}; their values count as repetitions of one point"
            self.builder.warn(Severity.NOTE, text)

    def _data(self, lines: list[list[str]], number: int) -> None:
        """Read DATA lines that follow each other, as words; `number` is that of the first one."""
        if self.counter == 0:
            self._begin(number)
        room = len(self.points) - self.counter
        points = self.points[self.counter : self.counter + len(lines)]
        if any(len(words) != 2 for words in lines):
            points = [p for p, words in zip(points, lines, strict=False) for _ in words[1:]]
        try:
            values = list(map(float, [word for words in lines[:room] for word in words[1:]]))
        except ValueError:
            raise self._no_number(lines[:room], number) from None
        if empty := [k for k, words in enumerate(lines[:room]) if len(words) == 1]:
            raise self._bad(number + empty[0], "DATA", "at least one number", "none")
        self.builder.add_rows((self.series,) * len(values), points, values)
        self.counter += len(lines)
        if len(lines) > room:
            raise self._too_many(number + room)

    def _no_number(self, lines: list[list[str]], number: int) -> CorruptFile:
        wrong = ((k, word) for k, words in enumerate(lines) for word in words[1:] if not is_number(word))
        line, word = next(wrong)
        return number_trouble(self.path, "DATA", number + line, word)

    def _too_many(self, number: int) -> CorruptFile:
        n = len(self.points)
        block = f"for the region {self.region or NO_REGION!r} and the metric {self.metric or ''!r}"
        if not n:
            return self._bad(number, "DATA", "POINTS before DATA", f"none {block}")
        return self._bad(number, "DATA", f"{n} DATA lines, one per point", f"{n + 1} {block}")

    def _begin(self, number: int) -> None:
        """Read the first DATA line of a region and metric."""
        if not self.builder.parameters:
            raise self._too_early(number, "DATA")
        if self.region is None and self.strict:
            raise self._bad(number, "DATA", "a REGION before the first DATA", _strictly("none"))
        region, metric = self.region or NO_REGION, self.metric or ""
        self.series = self.builder.series(region, metric)
        if self.series in self.begun:
            block = f"the region {region!r} with the metric {metric!r}"
            if self.strict:
                raise self._bad(number, "DATA", "every region and metric once", _strictly(f"{block} again"))
            again = f"{self.path}: line {number}: {block} is there again; its values count as further repetitions"
            self.builder.warn(Severity.NOTE, again)
        self.begun.add(self.series)

    def _bad(self, number: int, section: str, expected: str, found: str, remedy: str = "") -> CorruptFile:
        return CorruptFile(self.path, section, line=number, expected=expected, found=found, remedy=remedy)

    def _too_early(self, number: int, keyword: str) -> CorruptFile:
        remedy = "PARAMETER must come first"
        return self._bad(number, keyword, "a PARAMETER line above", "none", remedy)

    def _keyword_error(self, number: int, keyword: str) -> CorruptFile:
        upper = keyword.upper()
        remedy = f"write {upper} in upper case" if upper in KEYWORDS else ""
        found = keyword if len(keyword) < 80 else f"{keyword[:77]}..."
        return self._bad(number, "keyword", f"one of {', '.join(KEYWORDS)}", repr(found), remedy)
