"""What the writers of Extra-P's formats share: names that survive, cells as lists of values, losses and books."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import numpy as np

from callgrove.errors import UsageError
from callgrove.formats.extrap.numbers import as_words
from callgrove.formats.interface import LossReport, WriteOptions
from callgrove.formats.targets import PendingFile
from callgrove.model.arrays import Bools, Ints
from callgrove.model.study import STATISTICS, RawValues, Study
from callgrove.model.study_books import MODELS, REPETITIONS, StudyBooks
from callgrove.model.study_builder import statistics_of

__all__ = ["Cells", "lost_with_series", "lost_with_the_unmeasured", "opened_target", "refuse_newlines"]

SAME = 1e-9  # relative: statistics that another program computed differ in the last digits


@contextmanager
def opened_target(target: Path, options: WriteOptions) -> Iterator[IO[str]]:
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
