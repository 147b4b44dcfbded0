"""What the writers of Extra-P's formats share: names that survive, cells as lists of values, and what is lost."""

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
from callgrove.model.study import Study

__all__ = ["Cells", "lost_with_series", "opened_target", "refuse_newlines"]


@contextmanager
def opened_target(target: Path, options: WriteOptions) -> Iterator[IO[str]]:
    """A text file that takes its place when everything was written."""
    pending = PendingFile(target, options.overwrite)
    with pending.or_nothing():
        with pending.place.open("w", encoding="utf-8", newline="\n") as file:
            yield file
        pending.complete()


class Cells:
    """The values of every measured cell, as a file can hold them. What it cannot is said once in `report`."""

    def __init__(self, study: Study, report: LossReport, nested: bool) -> None:
        self.study, self.report, self.nested = study, report, nested

    def complete(self) -> list[int]:
        """The series that have every point; the others are left out, and that is said."""
        whole = self.study.present.all(axis=1)
        if n := int((~whole).sum()):
            self.report.add(f"{n} series that lack points: this format holds complete ones only")
        return [int(s) for s in np.flatnonzero(whole)]

    def values(self, series: int, point: int) -> list[float] | list[list[float]]:
        """The raw values of a cell, or its mean. Repetitions with several values are lists where that can be."""
        study = self.study
        cell = series * study.n_points + point
        raw = study.raw.repetitions(cell) if study.raw is not None else []
        if not raw:
            self.report.add("statistics other than the mean, where raw values are not known")
            return [float(study.mean[series, point])]
        if all(len(repetition) == 1 for repetition in raw):
            return [float(repetition[0]) for repetition in raw]
        if self.nested:
            return [repetition.tolist() for repetition in raw]
        self.report.add("which values belong to one repetition: each counts as one")
        return [value for repetition in raw for value in repetition.tolist()]

    def point(self, point: int) -> list[str]:
        """The coordinates of a point in words."""
        return [as_words(c) for c in self.study.points[point].tolist()]


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


def refuse_newlines(study: Study, target: Path) -> None:
    """Names that would break a line."""
    for word, names in (("parameter", study.parameters), ("metric", study.metrics), ("call path", study.callpaths)):
        for name in names:
            if "\n" in name or "\r" in name:
                raise UsageError(
                    f"{target}: the {word} {name!r} has a line break, which a text file cannot hold; "
                    "write extrap-json or extrap-experiment"
                )
