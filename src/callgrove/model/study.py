"""A study: measured series over parameter points, and the models that were fitted to them.

    parameters   p, n                        points [N, P]   (4, 100) (8, 100) (16, 100)
    series       (call path, metric)         mean   [S, N]    10.1     14.2     22.4
                 main->solve, time           std    [S, N]     0.2      0.1      NaN      unknown, not a number
                                             repetitions        3        3        -1      -1 unknown, 0 absent

Orders are those of first appearance. A cell (series, point) that was not measured is absent: not `present`, no
repetitions, NaN everywhere. Where raw values are known, statistics are over all of them (std with ddof 0). A repetition
usually has one value; where it has several (one per location of a run), it still counts once.

Specification: extrap.md sections 1 and 1.1.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from callgrove.errors import UsageError
from callgrove.model.arrays import Bools, Floats, Ids, Ints
from callgrove.model.experiment import InputWarning
from callgrove.model.methods import StudyMethods
from callgrove.model.table import Column, Table

__all__ = [
    "MEASURES",
    "SCALINGS",
    "STATISTICS",
    "RawValues",
    "Segment",
    "Series",
    "Statistics",
    "StoredModel",
    "Study",
    "Term",
    "lookup_tag",
]

MEASURES = ("mean", "median", "minimum", "maximum")  # what may be modelled
STATISTICS = (*MEASURES, "std")
SCALINGS = ("", "weak", "weak_threaded", "strong")
INCOMPLETE_IS_FINE = "validation__ignore__num_measurements"

Tags = Mapping[str, object]
Entry = tuple[str, str, int, Sequence[object]]  # call path, metric, point, values by repetition


class Statistics(NamedTuple):
    """What is known of one cell where raw values are not: NaN and -1 are unknown."""

    mean: float = np.nan
    median: float = np.nan
    minimum: float = np.nan
    maximum: float = np.nan
    std: float = np.nan
    repetitions: int = -1


@dataclass(frozen=True)
class Term:
    """coefficient times p^power * log2(p)^logarithm for each parameter; exponents are written as fractions."""

    coefficient: float
    exponents: Mapping[str, tuple[str, str]]  # parameter -> ("3/2", "1")


@dataclass(frozen=True)
class Segment:
    """One piece of a segmented model, for parameter values from `start` to `end`."""

    start: float
    end: float
    function: str
    constant: float
    terms: tuple[Term, ...] = ()
    statistics: Mapping[str, float] = field(default_factory=dict)  # as those of a model


@dataclass(frozen=True)
class StoredModel:
    """A fitted function as a file stores it; `name` is that of the set of models it belongs to."""

    callpath: str
    metric: str
    function: str
    constant: float
    terms: tuple[Term, ...] = ()
    statistics: Mapping[str, float] = field(default_factory=dict)  # smape, rss, ar2, re, ...
    name: str = ""
    segments: tuple[Segment, ...] = ()


@dataclass(frozen=True, eq=False)
class RawValues:
    """Measured values, cell after cell: cell k owns repetitions [cell_bounds[k], cell_bounds[k + 1]), repetition r owns
    values [repetition_bounds[r], repetition_bounds[r + 1]). Cells without repetitions have no known values."""

    values: Floats
    repetition_bounds: Ints
    cell_bounds: Ints
    makes_statistics: bool = False  # known: the statistics of all cells that have values are theirs

    def cell(self, cell: int) -> Floats:
        """All values of a cell."""
        first, last = self.repetition_bounds[self.cell_bounds[cell : cell + 2]]
        return self.values[first:last]

    def repetitions(self, cell: int) -> list[Floats]:
        """The values of each repetition of a cell."""
        bounds = self.repetition_bounds[self.cell_bounds[cell] : self.cell_bounds[cell + 1] + 1].tolist()
        return [self.values[a:b] for a, b in pairwise(bounds)]


@dataclass(frozen=True, eq=False)
class Series:
    """One call path and metric at the points where it was measured."""

    callpath: str
    metric: str
    point: Ints  # numbers of the points
    points: Floats
    mean: Floats
    median: Floats
    minimum: Floats
    maximum: Floats
    std: Floats
    repetitions: Ints
    values: tuple[Floats, ...]  # empty where unknown

    def __len__(self) -> int:
        return len(self.point)


@dataclass(frozen=True, eq=False)
class Study(StudyMethods):
    """Measured series over parameter points, and the models that were stored with them.

    parameters, points      names, and a row of values for each point
    callpaths, metrics      what series are of; `series(callpath, metric)` gives one of them
    mean, median, minimum, maximum, std, repetitions    a row for each series, a column for each point
    present                 which of these were measured
    models                  stored models

    `callgrove.open` returns a study where the input holds series; `Experiment.series` makes one of runs over
    parameters.

        study = callgrove.open("scaling.json")
        study.model("time").table()
        study.predict({"p": 4096}, limit=5)

    `unexplained` are differences between the runs that a study was made of and the study that nothing accounts for.
    """

    parameters: tuple[str, ...]
    points: Floats
    callpaths: tuple[str, ...]
    metrics: tuple[str, ...]
    series_callpath: Ids
    series_metric: Ids
    mean: Floats
    median: Floats
    minimum: Floats
    maximum: Floats
    std: Floats
    repetitions: Ints
    present: Bools
    raw: RawValues | None = None
    scaling: str = ""
    callpath_tags: Mapping[str, Tags] = field(default_factory=dict)
    metric_tags: Mapping[str, Tags] = field(default_factory=dict)
    units: Mapping[str, str] = field(default_factory=dict)
    models: tuple[StoredModel, ...] = ()
    modelers: Mapping[str, Mapping[str, object]] = field(default_factory=dict)  # name of a set of models -> options
    title: str = ""
    format: str = ""
    version: str = ""
    attributes: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[InputWarning, ...] = ()
    path: str = ""
    unexplained: tuple[str, ...] = ()

    @classmethod
    def from_values(
        cls, parameters: Sequence[str], points: Iterable[Sequence[float]], entries: Iterable[Entry]
    ) -> Study:
        """Make a study of (call path, metric, point number, values by repetition); equal points, cells are pooled."""
        from callgrove.model.study_builder import StudyBuilder

        builder = StudyBuilder(parameters)
        numbers = [builder.point(point) for point in points]
        for callpath, metric, point, values in entries:
            builder.add_values(callpath, metric, numbers[point], values)
        return builder.build()

    @classmethod
    def from_statistics(
        cls,
        parameters: Sequence[str],
        points: Iterable[Sequence[float]],
        entries: Iterable[tuple[str, str, int, Statistics]],
    ) -> Study:
        """Make a study of (call path, metric, point number, statistics) where raw values are unknown."""
        from callgrove.model.study_builder import StudyBuilder

        builder = StudyBuilder(parameters)
        numbers = [builder.point(point) for point in points]
        for callpath, metric, point, statistics in entries:
            builder.add_statistics(callpath, metric, numbers[point], statistics)
        return builder.build()

    def __len__(self) -> int:
        return len(self.series_callpath)

    @property
    def n_points(self) -> int:
        return len(self.points)

    @cached_property
    def _series_of(self) -> dict[tuple[str, str], int]:
        pairs = zip(self.series_callpath.tolist(), self.series_metric.tolist(), strict=True)
        return {(self.callpaths[c], self.metrics[m]): s for s, (c, m) in enumerate(pairs)}

    def find(self, callpath: str, metric: str) -> int | None:
        """Return the number of a series."""
        return self._series_of.get((callpath, metric))

    def series(self, callpath: str, metric: str) -> Series:
        """Return one series at the points where it was measured."""
        number = self.find(callpath, metric)
        if number is None:
            for word, name, known in (("call path", callpath, self.callpaths), ("metric", metric, self.metrics)):
                if name not in known:
                    shown = ", ".join(map(repr, known[:12])) + (", ..." if len(known) > 12 else "")
                    raise UsageError(f"there is no {word} {name!r}; there are {shown or 'none'}")
            raise UsageError(f"{metric!r} was not measured for {callpath!r}")
        return self.at(number)

    def at(self, number: int) -> Series:
        """Return a series by its number."""
        point = np.flatnonzero(self.present[number])
        return Series(
            self.callpaths[self.series_callpath[number]],
            self.metrics[self.series_metric[number]],
            point,
            self.points[point],
            self.mean[number, point],
            self.median[number, point],
            self.minimum[number, point],
            self.maximum[number, point],
            self.std[number, point],
            self.repetitions[number, point],
            tuple(self.values(number, p) for p in point.tolist()),
        )

    def all_series(self) -> Iterator[Series]:
        """Give one series after the other."""
        return map(self.at, range(len(self)))

    def values(self, number: int, point: int) -> Floats:
        """Return the raw values of a cell; empty where they are unknown."""
        return self.raw.cell(number * self.n_points + point) if self.raw is not None else np.empty(0)

    def measure(self, name: str) -> Floats:
        """Return one of MEASURES for all series and points."""
        if name not in MEASURES:
            raise UsageError(f"there is no measure {name!r}; there are {', '.join(MEASURES)}")
        found: Floats = getattr(self, name)
        return found

    def incomplete(self) -> Ints:
        """Return the series that lack a point, but for those tagged as complete by nature."""
        lacking = np.flatnonzero(~self.present.all(axis=1))
        return np.array([s for s in lacking.tolist() if not self._may_be_incomplete(s)], np.int64)

    def _may_be_incomplete(self, number: int) -> bool:
        callpath = self.callpaths[self.series_callpath[number]]
        metric = self.metrics[self.series_metric[number]]
        tags = self.callpath_tags.get(callpath, {}), self.metric_tags.get(metric, {})
        return any(lookup_tag(t, INCOMPLETE_IS_FINE) for t in tags)

    def table(self) -> Table:
        """Return the `series` table: one row per measured cell, series by series. A parameter that is called like
        another column becomes `param.NAME`."""
        series, point = np.nonzero(self.present)
        columns = [
            Column("callpath", [self.callpaths[k] for k in self.series_callpath[series].tolist()]),
            Column("metric", [self.metrics[k] for k in self.series_metric[series].tolist()]),
        ]
        last = [Column("repetitions", self.repetitions[series, point], -1)]
        last += [Column(name, getattr(self, name)[series, point], np.nan) for name in STATISTICS]
        taken = {column.name for column in (*columns, *last)}
        for number, parameter in enumerate(self.parameters):
            name = parameter
            while name in taken or (name != parameter and name in self.parameters):
                name = f"param.{name}"
            columns.append(Column(name, self.points[point, number]))
        return Table((*columns, *last))

    def validate(self) -> list[str]:
        """Return every broken invariant, in words; empty when the study is sound."""
        from callgrove.model.study_invariants import problems_of_study

        return problems_of_study(self)

    def __repr__(self) -> str:
        """One line, whatever its size."""
        over = f"{len(self)} series at {self.n_points} points over {', '.join(self.parameters) or 'nothing'}"
        return f"<Study {self.title!r}, {f'{self.format} {self.version}'.rstrip()}: {over}>"

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        from callgrove.model.notebook import study_html

        return study_html(self)


def lookup_tag(tags: Tags, key: str) -> object:
    """The value of a tag, or of its nearest prefix of two parts or more: `a__b__c`, then `a__b`, never `a`."""
    if key in tags:
        return tags[key]
    parts = key.split("__")
    for n in range(len(parts) - 1, 1, -1):
        if (shorter := "__".join(parts[:n])) in tags:
            return tags[shorter]
    return None
