"""What Extra-P's formats have in common: recognising them, text that knows its place in the file, checking, and
writing.
"""

from __future__ import annotations

import json
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import IO

import numpy as np

from callgrove.arrays import Bools, Ints
from callgrove.binary.files import Source, open_regular
from callgrove.errors import CorruptFile, InputError, InvalidExperiment, Parameter, RefusedInput, UsageError, count_of
from callgrove.formats.interface import Grade, LossReport, Match, Problem, ReadOptions, WriteOptions
from callgrove.formats.writing.targets import PendingFile
from callgrove.model.experiment import InputWarning, Severity
from callgrove.model.study.books import MODELS, REPETITIONS, StudyBooks
from callgrove.model.study.builder import StudyBuilder, TooManyCells, statistics_of
from callgrove.model.study.series import STATISTICS, RawValues, Study

__all__ = [
    "Cells",
    "Node",
    "NotANumber",
    "StudyFormat",
    "as_number",
    "as_repetitions",
    "as_text",
    "as_words",
    "finish_study",
    "line_blocks",
    "lost_with_series",
    "lost_with_the_unmeasured",
    "number_lines",
    "open_target",
    "parse_json",
    "quote_value",
    "refuse_newlines",
    "sniff",
    "top_level",
    "wrong",
]


# -- text by lines, JSON by paths, numbers -----------------------------------------------------------------------------


# -- text by lines -----------------------------------------------------------------------------------------------------
# UTF-8; a byte order mark is dropped; lines end with LF, CRLF or CR. They come in blocks, so that a million of them
# cost little; a block is what is in memory.


BOM = b"\xef\xbb\xbf"
BLOCK = 1 << 20  # bytes
LONGEST_LINE = 256 << 20  # bytes
NO_TEXT = "the file is damaged, or no text"


def as_text(data: bytes, path: Path, section: str, offset: int = 0, line: int | None = None) -> str:
    """Return bytes as text; what is not UTF-8 is an error that says where. `line` is the number of the first line."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise CorruptFile(
            path,
            section,
            offset=offset + error.start,
            line=None if line is None else line + len(_lines(data[: error.start])) - 1,
            expected="UTF-8",
            found=f"the byte 0x{data[error.start]:02x}",
            remedy="convert the file to UTF-8",
        ) from None


def _lines(data: bytes) -> list[bytes]:
    return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")


def line_blocks(path: Path, size: int = BLOCK) -> Iterator[tuple[int, list[str]]]:
    """Yield (number of the first line, from 1; lines without their ends) of block after block."""
    number, offset, rest = 1, 0, bytearray()
    try:
        with open_regular(path) as file:
            while data := file.read(size):
                cut = data.rfind(b"\n") + 1
                if cut == 0:  # a line that is longer than a block
                    rest += data
                    _refuse_endless(rest, path, number)
                    continue
                lines = _split(bytes(rest) + data[:cut], path, number, offset)
                del lines[-1]  # after the last end there is nothing yet
                yield number, lines
                number, offset, rest = number + len(lines), offset + len(rest) + cut, bytearray(data[cut:])
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error
    if rest:
        yield number, _split(bytes(rest), path, number, offset)


def _refuse_endless(line: bytearray, path: Path, number: int) -> None:
    if len(line) > LONGEST_LINE:
        wanted = f"at most {LONGEST_LINE:,} bytes"
        raise CorruptFile(path, "text", line=number, expected=wanted, found="a line that is longer", remedy=NO_TEXT)


def _split(data: bytes, path: Path, number: int, offset: int) -> list[str]:
    skipped = len(BOM) if number == 1 and data.startswith(BOM) else 0
    text = as_text(data[skipped:] if skipped else data, path, "text", offset + skipped, number)
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text.split("\n")


def number_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield (number from 1, text without its end) of every line."""
    for first, lines in line_blocks(path):
        yield from enumerate(lines, first)


# -- numbers -----------------------------------------------------------------------------------------------------------
# JSON numbers, numeric strings and lists of them. The caller says where they stand.


LONGEST = 80  # characters of a value in a message


class NotANumber(Exception):
    """What was found instead; the reader makes an error of it that names the place."""

    def __init__(self, value: object) -> None:
        self.value = value
        super().__init__(quote_value(value))


def quote_value(value: object) -> str:
    """Return a value in a message, not longer than a line can bear."""
    text = (
        {True: "true", False: "false"}[value] if isinstance(value, bool) else "null" if value is None else repr(value)
    )
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."


def as_number(value: object) -> float:
    """Return a number, or a string that is one."""
    if isinstance(value, float):
        return value
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise NotANumber(value)
    try:
        return float(value)
    except (ValueError, OverflowError):
        raise NotANumber(value) from None


def as_repetitions(value: object) -> Sequence[object]:
    """Return the repetitions that a value holds: itself, or those of a list. A list in the list is one repetition with
    several values."""
    if not isinstance(value, list):
        return [as_number(value)]
    repetitions: list[object] = [one if type(one) is float else _flatten_numbers(one) for one in value]
    if not repetitions or [] in repetitions:
        raise NotANumber(value)
    return repetitions


def _flatten_numbers(value: object) -> object:
    """Return the numbers of a repetition, however deep they lie."""
    if not isinstance(value, list):
        return as_number(value)
    flat: list[float] = []
    pending = [value]
    while pending:
        one = pending.pop()
        if isinstance(one, list):
            pending.extend(reversed(one))
        else:
            flat.append(as_number(one))
    return flat


def as_words(value: float) -> str:
    """Return the shortest text that is read back as the same number; whole numbers without a point."""
    if math.isfinite(value) and value == int(value) and abs(value) < 1e16:
        return str(int(value)) if value or math.copysign(1, value) > 0 else "-0.0"
    return repr(float(value))


# -- JSON by paths -----------------------------------------------------------------------------------------------------


_PLAIN = re.compile(r"[A-Za-z_][\w-]*")


def parse_json(data: bytes, path: Path, what: str = "JSON") -> Node:
    """Return the root of a JSON text; its errors name line and column."""
    skipped = len(BOM) if data.startswith(BOM) else 0
    text = as_text(data[skipped:], path, what, skipped)
    try:
        return Node(json.loads(text), path, "")
    except json.JSONDecodeError as error:
        near = text[error.pos : error.pos + 40].split("\n")[0]
        found = f"{error.msg} at column {error.colno}" + (f" ({near!r})" if near else " (the text ends here)")
        line = error.lineno
    except RecursionError:
        found, line = "brackets nested too deeply", None
    except ValueError as error:  # a number with thousands of digits
        found, line = str(error), None
    raise CorruptFile(path, what, line=line, expected="valid JSON", found=found)


def wrong(path: Path, place: str, expected: str, found: object, remedy: str = "") -> CorruptFile:
    """Return the error for a part of a JSON file."""
    return CorruptFile(path, place or "top level", expected=expected, found=quote_value(found), remedy=remedy)


class Node:
    """A value and its place; what is asked of it is checked."""

    __slots__ = ("path", "place", "value")

    def __init__(self, value: object, path: Path, place: str) -> None:
        self.value, self.path, self.place = value, path, place

    def __getitem__(self, key: str) -> Node:
        """Return a member of an object, which must be there."""
        members = self.members()
        if key not in members:
            there = ", ".join(map(repr, list(members)[:8])) or "no keys"
            where = self.place or "top level"
            raise CorruptFile(self.path, where, expected=f"the key {key!r}", found=f"only {there}")
        return Node(members[key], self.path, _member(self.place, key))

    def get(self, key: str) -> Node | None:
        """Return a member of an object, if it is there and not null."""
        value = self.members().get(key)
        return None if value is None else Node(value, self.path, _member(self.place, key))

    def items(self) -> Iterator[tuple[str, Node]]:
        for key, value in self.members().items():
            yield key, Node(value, self.path, _member(self.place, key, quoted=True))

    def elements(self) -> Iterator[Node]:
        for number, value in enumerate(self.entries()):
            yield Node(value, self.path, f"{self.place}[{number}]")

    def members(self) -> dict[str, object]:
        if not isinstance(self.value, dict):
            raise self.bad("an object")
        return self.value

    def entries(self) -> list[object]:
        if not isinstance(self.value, list):
            raise self.bad("a list")
        return self.value

    def text(self) -> str:
        if not isinstance(self.value, str):
            raise self.bad("a text")
        return self.value

    def number(self) -> float:
        try:
            return as_number(self.value)
        except NotANumber:
            raise self.bad("a number") from None

    def whole(self) -> int:
        """Return a whole number, also one that is written as text or as 3.0."""
        number = self.number()
        if number != number // 1 or abs(number) > 2**53:
            raise self.bad("a whole number")
        return int(number)

    def bad(self, expected: str, remedy: str = "") -> CorruptFile:
        return wrong(self.path, self.place, expected, self.value, remedy)


def _member(place: str, key: str, quoted: bool = False) -> str:
    if quoted or not _PLAIN.fullmatch(key):
        return f"{place}[{json.dumps(key, ensure_ascii=False)}]"
    return f"{place}.{key}" if place else key


# -- formats of studies ------------------------------------------------------------------------------------------------


# -- detection by the first bytes --------------------------------------------------------------------------------------
# JSON is not parsed for it: a scanner of strings and nesting gives the keys of the first object and how their values
# begin, with `;` where `,` may stand. So it does not matter where the text is cut off.


SNIFFED = 48 * 1024
FIRST = 64  # bytes that show whether more are worth reading
TAIL = 8 * 1024
ZIP = b"PK\x03\x04"
MEMBER = b"experiment.json"
BINARY3 = (b"\x01\x00\x11\x00\x00\x00EXTRAP_EXPERIMENT", b"\x00\x01\x00\x00\x00\x11EXTRAP_EXPERIMENT")
KEYWORDS = ("PARAMETER", "POINTS", "METRIC", "REGION", "DATA")

_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"?', re.DOTALL)
_INTEREST = re.compile(r'["{}\[\]:]')
_OBJECT = re.compile(r'\{\s*(?:["}]|$)')  # a name in braces is the frame of a call stack


def sniff(source: Source) -> tuple[str, Match] | None:
    """Return the format of a file and why; None where it is none of them."""
    if source.is_folder:
        return None
    first = source.head(FIRST)
    if first.startswith(ZIP):
        return _zip(source)
    if first.startswith(BINARY3):
        return "extrap-binary3", Match(Grade.EXACT, "it begins with EXTRAP_EXPERIMENT")
    text = first.removeprefix(BOM).lstrip()
    word = text.split(None, 1)[0] if text else b""
    if text[:1] in (b"{", b"#", b"") or word.upper().decode("ascii", "replace") in KEYWORDS:
        return source.keep((_text, source.path), lambda: _text(source.head(SNIFFED)))
    return None


def _zip(source: Source) -> tuple[str, Match] | None:
    head = source.head(SNIFFED)
    tail = source.bytes().tail(TAIL) if MEMBER not in head else b""
    if MEMBER in head or MEMBER in tail:
        return "extrap-experiment", Match(Grade.EXACT, "a ZIP archive with experiment.json")
    return None


def _text(head: bytes) -> tuple[str, Match] | None:
    text = head.removeprefix(BOM).decode("utf-8", "replace")
    lines = (line.strip() for line in re.split(r"[\r\n]+", text))
    first = next((line for line in lines if line and not line.startswith("#")), "")
    if _OBJECT.match(first):
        return _json(top_level(text[text.index(first) :] if "#" in text else text))
    word = first.split(None, 1)[0] if first else ""
    if word.upper() in KEYWORDS:
        return "extrap-text", Match(Grade.STRONG, f"it begins with {word}")
    return None


def _json(keys: Mapping[str, str]) -> tuple[str, Match]:
    """Return what the keys of the first object say; `keys` gives the first character of each value."""
    measurements, parameters = keys.get("measurements", ""), keys.get("parameters", "")
    strong = [
        ("extrap-json-old", "callpaths" in keys or measurements == "[", "an object with lists that refer to ids"),
        ("extrap-jsonl", "params" in keys, "objects with params, one per line"),
        ("extrap-json", bool(measurements) or parameters == "[", "an object with parameters and measurements"),
        ("extrap-talpas", parameters == "{", "objects with parameters, one per line"),
    ]
    for name, is_it, reason in strong:
        if is_it:
            return name, Match(Grade.STRONG, reason)
    return "extrap-json", Match(Grade.WEAK, "it begins with {, as JSON does")


def top_level(text: str) -> dict[str, str]:
    """Return the keys of the first object, as far as the text goes, and the first character of each value."""
    keys: dict[str, str] = {}
    at, depth, last = text.find("{"), 0, ""
    while (match := _INTEREST.search(text, at)) is not None:
        at, what = match.end(), match.group()
        if what == '"':
            string = _STRING.match(text, match.start())
            at = string.end() if string else len(text)
            last = string.group(1) if string and depth == 1 else ""
        elif what == ":":
            if depth == 1 and last:
                keys.setdefault(
                    last, text[at:].lstrip()[:1] if len(text) - at < 64 else text[at : at + 64].lstrip()[:1]
                )
            last = ""
        elif what in "{[":
            depth += 1
        else:
            depth -= 1
            if depth <= 0:
                break
    return keys


# -- formats of studies ------------------------------------------------------------------------------------------------


NAMED = 3  # incomplete series that a warning names


class StudyFormat(ABC):
    """One of Extra-P's formats."""

    name: str
    title: str

    def match(self, source: Source) -> Match | None:
        claim = sniff(source)
        return claim[1] if claim is not None and claim[0] == self.name else None

    @abstractmethod
    def read(self, source: Source, options: ReadOptions) -> Study:
        """Return the study in a file."""

    def check(self, source: Source, options: ReadOptions) -> Iterator[Problem]:
        """Yield everything that reading has to say; nothing here is known only to a closer look."""
        for warning in self.read(source, options).warnings:
            yield Problem(warning.severity, source.path.name, self.name, warning.text)


def finish_study(builder: StudyBuilder, path: Path, strict: bool, complete: bool = True) -> Study:
    """Return the study of a builder. Where `complete` is asked for, series that lack points are said, or refused."""
    if not builder.has_values:
        raise InputError(f"{path}: there is no data: no measurement was found in it")
    try:
        study = builder.build()
    except TooManyCells as error:
        raise RefusedInput(f"{path}: {error}") from None
    except InvalidExperiment as error:
        raise InputError(f"{path}: the file contradicts itself: {'; '.join(error.problems[:NAMED])}") from error
    return _check(study, path, strict) if complete else study


def _check(study: Study, path: Path, strict: bool) -> Study:
    lacking = study.incomplete().tolist()
    if not lacking:
        return study
    has = study.present.sum(axis=1)
    named = [
        f"{study.callpaths[study.series_callpath[s]]!r}, {study.metrics[study.series_metric[s]]!r} has {has[s]}"
        for s in lacking[:NAMED]
    ]
    more = ", ..." if len(lacking) > NAMED else ""
    text = (
        f"{path}: {len(lacking)} of {len(study)} series {'lacks' if len(lacking) == 1 else 'lack'} some of the "
        f"{study.n_points} points: "
        f"{', '.join(named)}{more}"
    )
    if strict:
        raise InputError(
            f"{text}; ", Parameter("strict", True), " refuses that; measure the missing points or leave the series out"
        )
    return replace(study, warnings=(*study.warnings, InputWarning(Severity.MISSING, text)))


# -- what writers share ------------------------------------------------------------------------------------------------
# Names that survive, cells as lists of values, losses and books.


SAME = 1e-9  # relative: statistics that another program computed differ in the last digits


@contextmanager
def open_target(target: Path, options: WriteOptions) -> Iterator[IO[str]]:
    """Yield a text file that takes its place when everything was written."""
    pending = PendingFile(target, options.overwrite)
    with pending.or_nothing():
        with pending.place.open("w", encoding="utf-8", newline="\n") as file:
            yield file
        pending.complete()


class Cells:
    """The values of every measured cell, as a file can hold them. What it cannot is said once in `report`. Writers
    enter what they wrote (`wrote`), so that `close` can tell what is missing."""

    def __init__(self, study: Study, report: LossReport, nested: bool) -> None:
        self.study, self.report, self.nested = study, report, nested
        self.books = StudyBooks(study)
        self.books.excuse(MODELS)  # `lost_with_series` counts them
        self.wrote = self.books.passed.enter
        lost_with_series(study, report)
        _lost_statistics(study, report)

    def complete(self) -> list[int]:
        """Return the series that have every point; the others are left out, and that is said."""
        whole = np.asarray(self.study.present.all(axis=1))
        if n := int((~whole).sum()):
            self.report.add(f"{count_of(n, 'series', 'series')} without some points: the format needs all")
            self.books.leave_out(series=~whole)
        return [int(s) for s in np.flatnonzero(whole)]

    def values(self, series: int, point: int) -> list[float] | list[list[float]]:
        """Return the raw values of a cell, or its mean. Repetitions with several values are lists where that can be."""
        study = self.study
        cell = series * study.n_points + point
        given = study.raw.repetitions(cell) if study.raw is not None else []
        raw = [repetition for repetition in given if len(repetition)]
        if len(raw) < len(given):
            self.report.add("repetitions without any value")
        if not raw:
            self.report.add("statistics other than the mean, where raw values are not known")
            return [float(study.mean[series, point])]
        if all(len(repetition) == 1 for repetition in raw):
            return [float(repetition[0]) for repetition in raw]
        if self.nested:
            return [repetition.tolist() for repetition in raw]
        self.report.add("which values belong to one repetition: each counts as one")
        self.books.excuse(REPETITIONS)
        return [value for repetition in raw for value in repetition.tolist()]

    def point(self, point: int) -> list[str]:
        """Return the coordinates of a point in words."""
        return [as_words(c) for c in self.study.points[point].tolist()]

    def close(self) -> LossReport:
        """Compare what was written with what the study has, and give the report."""
        self.report.unexplained.extend(self.books.differences())
        return self.report


def lost_with_series(study: Study, report: LossReport) -> None:
    """Report what none of the formats of plain series can hold."""
    if study.models:
        report.add(count_of(len(study.models), "model"))
    if study.scaling:
        report.add(f"the scaling ({study.scaling})")
    if any(study.callpath_tags.values()) or any(study.metric_tags.values()):
        report.add("tags of call paths and metrics")
    if study.units:
        report.add("units of metrics")
    if study.attributes:
        report.add("attributes of the study")


def lost_with_the_unmeasured(
    books: StudyBooks, report: LossReport, *, series: bool = True, points: bool = True
) -> None:
    """Report what files hold only where something was measured: series, points, or both."""
    present: Bools = books.study.present
    measured, used = np.asarray(present.any(axis=1)), np.asarray(present.any(axis=0))
    if series and (n := int((~measured).sum())):
        report.add(f"{count_of(n, 'series that was', 'series that were')} measured nowhere")
        books.leave_out(series=~measured)
    if points and (n := int((~used).sum())):
        report.add(f"{count_of(n, 'point')} at which nothing was measured")
        books.leave_out(points=~used)


def _lost_statistics(study: Study, report: LossReport) -> None:
    """Report what is stored of measurements, but is not what their values make: only values are written."""
    n_values = np.zeros(study.present.size, np.int64)
    if study.raw is not None:
        n_values = np.diff(study.raw.repetition_bounds[study.raw.cell_bounds])
        if n := 0 if study.raw.makes_statistics else _n_contradicted(study, study.raw, n_values):
            report.add(f"stored statistics of {count_of(n, 'measurement')}, which are not those of the raw values")
    if n := int((np.isnan(study.mean) & study.present & (n_values == 0).reshape(study.present.shape)).sum()):
        report.add(f"{count_of(n, 'measurement')} without values and a mean, written as NaN")


def _n_contradicted(study: Study, raw: RawValues, n_values: Ints) -> int:
    """Return how many measurements have statistics, or a number of repetitions, that their raw values do not have."""
    stored = np.stack([getattr(study, name).ravel() for name in STATISTICS], axis=1)
    same = np.isclose(statistics_of(raw, n_values), stored, rtol=SAME, atol=0.0, equal_nan=True).all(axis=1)
    same &= np.diff(raw.cell_bounds) == study.repetitions.ravel()
    return int((~same & (n_values > 0)).sum())


def refuse_newlines(study: Study, target: Path) -> None:
    """Refuse names that would break a line."""
    for word, names in (("parameter", study.parameters), ("metric", study.metrics), ("call path", study.callpaths)):
        for name in names:
            if "\n" in name or "\r" in name:
                raise UsageError(
                    f"{target}: the {word} {name!r} has a line break, which a text file cannot hold; "
                    "write extrap-json or extrap-experiment"
                )
