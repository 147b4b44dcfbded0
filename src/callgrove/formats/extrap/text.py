"""Extra-P's text format.

    PARAMETER p n                names, separated by blanks; repeatable
    POINTS (4 100) (8 100)       see points.py; repeatable
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

from collections.abc import Iterator
from pathlib import Path

from callgrove.binary.sources import Source
from callgrove.errors import CorruptFile, Parameter, worded
from callgrove.formats.extrap.lines import line_blocks, numbered_lines
from callgrove.formats.extrap.points import is_number, number_trouble, parse_points
from callgrove.formats.extrap.sniffing import KEYWORDS
from callgrove.formats.extrap.study_format import StudyFormat, finished
from callgrove.formats.extrap.text_writer import write_text
from callgrove.formats.interface import Field, LossReport, ReadOptions, WriteOptions
from callgrove.model.experiment import Severity
from callgrove.model.study import Study
from callgrove.model.study_builder import StudyBuilder

__all__ = ["FORMAT"]

NO_REGION = "<root>"
MOST_PARAMETERS = 4  # that Extra-P takes in this format


class TextFormat(StudyFormat):
    name = "extrap-text"
    title = "Extra-P text file (PARAMETER, POINTS, REGION, DATA)"

    def read(self, source: Source, options: ReadOptions) -> Study:
        return _Reader(source.path, options.strict).read()

    def write_study(self, study: Study, target: Path, options: WriteOptions) -> LossReport:
        return write_text(study, target, options)

    def dump(self, source: Source) -> Iterator[Field]:
        """Every line with its keyword and what follows."""
        for number, line in numbered_lines(source.path):
            words = line.split(None, 1)
            if words and not words[0].startswith("#"):
                rest = words[1].strip() if len(words) > 1 else ""
                yield Field(source.path.name, words[0], number, -1, "text", rest)


FORMAT = TextFormat()


def _strictly(found: object) -> str:
    """Return what only a strict reader refuses."""
    return worded(found, " (", Parameter("strict", True), ")")


class _Reader:
    """One pass over the lines. `counter` is the number of DATA lines since the last METRIC or REGION."""

    def __init__(self, path: Path, strict: bool) -> None:
        self.path, self.strict = path, strict
        self.builder = StudyBuilder((), "extrap-text", title=path.name, path=str(path))
        self.points: list[int] = []  # by position, as written; equal ones have equal numbers
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
                    self._data([line.split() for line in lines[at:end]], first + at)
                else:
                    self._line(first + at, lines[at].split())
                at = max(end, at + 1)
        return finished(self.builder, self.path, self.strict)

    def _line(self, number: int, words: list[str]) -> None:
        if words and words[0] == "DATA":
            self._data([words], number)
        elif words and not words[0].startswith("#"):
            self._section(number, words)

    def _section(self, number: int, words: list[str]) -> None:
        keyword, *rest = words
        if keyword not in KEYWORDS:
            raise self._unknown_keyword(number, keyword)
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
        self.builder.parameters = tuple(known)

    def _points(self, number: int, text: str) -> None:
        if not self.builder.parameters:
            raise self._too_early(number, "POINTS")
        point = self.builder.point
        found = [point(one) for one in parse_points(text, self.builder.parameters, self.path, number)]
        before = len(self.points)
        self.points += found
        if len(set(self.points)) < len(self.points):
            if self.strict:
                raise self._bad(number, "POINTS", "different points", _strictly("one that is there already"))
            text = f"{self.path}: line {number}: some of the points {before + 1} to {len(self.points)} are equal"
            self.builder.warn(Severity.NOTE, f"{text}; their values count as repetitions of one point")

    def _data(self, lines: list[list[str]], number: int) -> None:
        """DATA lines that follow each other, as words; `number` is that of the first one."""
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
        """The first DATA line of a region and metric."""
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

    def _unknown_keyword(self, number: int, keyword: str) -> CorruptFile:
        upper = keyword.upper()
        remedy = f"write {upper} in upper case" if upper in KEYWORDS else ""
        found = keyword if len(keyword) < 80 else f"{keyword[:77]}..."
        return self._bad(number, "keyword", f"one of {', '.join(KEYWORDS)}", repr(found), remedy)
