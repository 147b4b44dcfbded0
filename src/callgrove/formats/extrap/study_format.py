"""What Extra-P's formats have in common: recognising them, checking them, and what their writers share."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import IO

import numpy as np

from callgrove.arrays import Bools, Ints
from callgrove.binary.sources import Source
from callgrove.errors import InputError, InvalidExperiment, Parameter, RefusedInput, UsageError
from callgrove.formats.extrap.text_input import BOM, as_words
from callgrove.formats.interface import Grade, LossReport, Match, Problem, ReadOptions, WriteOptions
from callgrove.formats.writing.targets import PendingFile
from callgrove.model.experiment import InputWarning, Severity
from callgrove.model.study.books import MODELS, REPETITIONS, StudyBooks
from callgrove.model.study.builder import StudyBuilder, TooManyCells, statistics_of
from callgrove.model.study.series import STATISTICS, RawValues, Study

__all__ = [
    "Cells",
    "StudyFormat",
    "finish_study",
    "lost_with_series",
    "lost_with_the_unmeasured",
    "open_target",
    "refuse_newlines",
    "sniff",
    "top_level",
]


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


def sniff(source: Source) -> tuple[str, Match] | None:
    """The format of a file and why; None where it is none of them."""
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
    if first.startswith("{"):
        return _json(top_level(text[text.index(first) :] if "#" in text else text))
    word = first.split(None, 1)[0] if first else ""
    if word.upper() in KEYWORDS:
        return "extrap-text", Match(Grade.STRONG, f"it begins with {word}")
    return None


def _json(keys: Mapping[str, str]) -> tuple[str, Match]:
    """What the keys of the first object say; `keys` gives the first character of each value."""
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
    """The keys of the first object, as far as the text goes, and the first character of each value."""
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
        """The study in a file."""

    def check(self, source: Source, options: ReadOptions) -> Iterator[Problem]:
        """Everything that reading has to say; nothing here is known only to a closer look."""
        for warning in self.read(source, options).warnings:
            yield Problem(warning.severity, source.path.name, self.name, warning.text)


def finish_study(builder: StudyBuilder, path: Path, strict: bool, complete: bool = True) -> Study:
    """The study of a builder. Where `complete` is asked for, series that lack points are said, or refused."""
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
        f"{path}: {len(lacking)} of {len(study)} series lack some of the {study.n_points} points: "
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
    """A text file that takes its place when everything was written."""
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
        """The series that have every point; the others are left out, and that is said."""
        whole = np.asarray(self.study.present.all(axis=1))
        if n := int((~whole).sum()):
            self.report.add(f"{n} series that lack points: this format holds complete ones only")
            self.books.leave_out(series=~whole)
        return [int(s) for s in np.flatnonzero(whole)]

    def values(self, series: int, point: int) -> list[float] | list[list[float]]:
        """The raw values of a cell, or its mean. Repetitions with several values are lists where that can be."""
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
        """The coordinates of a point in words."""
        return [as_words(c) for c in self.study.points[point].tolist()]

    def close(self) -> LossReport:
        """Compare what was written with what the study has, and give the report."""
        self.report.unexplained.extend(self.books.differences())
        return self.report


def lost_with_series(study: Study, report: LossReport) -> None:
    """What none of the formats of plain series can hold."""
    if study.models:
        report.add(f"{len(study.models)} models")
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
    """What files hold only where something was measured: series, points, or both."""
    present: Bools = books.study.present
    measured, used = np.asarray(present.any(axis=1)), np.asarray(present.any(axis=0))
    if series and (n := int((~measured).sum())):
        report.add(f"{n} series that were measured nowhere")
        books.leave_out(series=~measured)
    if points and (n := int((~used).sum())):
        report.add(f"{n} points at which nothing was measured")
        books.leave_out(points=~used)


def _lost_statistics(study: Study, report: LossReport) -> None:
    """What is stored of measurements, but is not what their values make: only values are written."""
    n_values = np.zeros(study.present.size, np.int64)
    if study.raw is not None:
        n_values = np.diff(study.raw.repetition_bounds[study.raw.cell_bounds])
        if n := 0 if study.raw.makes_statistics else _n_contradicted(study, study.raw, n_values):
            report.add(f"stored statistics of {n} measurements, which are not those of their raw values")
    if n := int((np.isnan(study.mean) & study.present & (n_values == 0).reshape(study.present.shape)).sum()):
        report.add(f"{n} measurements without values and a mean: they are written as NaN")


def _n_contradicted(study: Study, raw: RawValues, n_values: Ints) -> int:
    """How many measurements have statistics, or a number of repetitions, that their raw values do not have."""
    stored = np.stack([getattr(study, name).ravel() for name in STATISTICS], axis=1)
    same = np.isclose(statistics_of(raw, n_values), stored, rtol=SAME, atol=0.0, equal_nan=True).all(axis=1)
    same &= np.diff(raw.cell_bounds) == study.repetitions.ravel()
    return int((~same & (n_values > 0)).sum())


def refuse_newlines(study: Study, target: Path) -> None:
    """Names that would break a line."""
    for word, names in (("parameter", study.parameters), ("metric", study.metrics), ("call path", study.callpaths)):
        for name in names:
            if "\n" in name or "\r" in name:
                raise UsageError(
                    f"{target}: the {word} {name!r} has a line break, which a text file cannot hold; "
                    "write extrap-json or extrap-experiment"
                )
