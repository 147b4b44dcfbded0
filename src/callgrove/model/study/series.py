"""A study: measured series over parameter points, the models fitted to them, and what every study must satisfy.

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
from dataclasses import dataclass, field, replace
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from math import inf
from typing import NamedTuple

import numpy as np

from callgrove.arrays import Bools, Floats, Ids, Ints
from callgrove.errors import UsageError
from callgrove.model.experiment import InputWarning
from callgrove.model.methods.studies import StudyMethods
from callgrove.model.table import Column, Table

__all__ = [
    "MEASURES",
    "SCALINGS",
    "STATISTICS",
    "SUGGESTED_TARGET",
    "RawValues",
    "Segment",
    "Series",
    "Statistics",
    "StoredModel",
    "Study",
    "Term",
    "bounds_text",
    "factor_texts",
    "lookup_tag",
    "problems_of_study",
    "read_exponent",
]


MEASURES = ("mean", "median", "minimum", "maximum")  # what may be modelled
STATISTICS = (*MEASURES, "std")
SCALINGS = ("", "weak", "weak_threaded", "strong")
SUGGESTED_TARGET = "study.extra-p"
SMALLEST_POWER, LARGEST_POWER = -324, 308  # of ten, in a float
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
    """coefficient times p^power * log2(p)^logarithm for each parameter; exponents are written as fractions. A parameter
    may contribute a function in pieces instead."""

    coefficient: float
    exponents: Mapping[str, tuple[str, str]]  # parameter -> ("3/2", "1")
    pieces: Mapping[str, tuple[Segment, ...]] = field(default_factory=dict)


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
        """Return all values of a cell."""
        first, last = self.repetition_bounds[self.cell_bounds[cell : cell + 2]]
        return self.values[first:last]

    def take(self, cells: Ints) -> RawValues:
        """Return some of the cells."""
        repetition, cell_bounds = _pick_runs(self.cell_bounds, cells)
        value, repetition_bounds = _pick_runs(self.repetition_bounds, repetition)
        return RawValues(self.values[value], repetition_bounds, cell_bounds, self.makes_statistics)

    def repetitions(self, cell: int) -> list[Floats]:
        """Return the values of each repetition of a cell."""
        bounds = self.repetition_bounds[self.cell_bounds[cell] : self.cell_bounds[cell + 1] + 1].tolist()
        return [self.values[a:b] for a, b in pairwise(bounds)]


def _pick_runs(bounds: Ints, chosen: Ints) -> tuple[Ints, Ints]:
    """Return the positions that some runs of a column own, run after run, and the bounds of these runs there."""
    sizes = bounds[chosen + 1] - bounds[chosen]
    ends = np.append(0, np.cumsum(sizes))
    return np.arange(ends[-1]) + np.repeat(bounds[chosen] - ends[:-1], sizes), ends


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

    `suggested_target` is what a user may want to convert it to. `ratios` are metrics that do not add up: formulas over
    sums, of which a subtree or a program has no sum of the parts.
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
    suggested_target: str = SUGGESTED_TARGET
    ratios: tuple[str, ...] = ()

    @classmethod
    def from_values(
        cls, parameters: Sequence[str], points: Iterable[Sequence[float]], entries: Iterable[Entry]
    ) -> Study:
        """Make a study of (call path, metric, point number, values by repetition); equal points, cells are pooled."""
        from callgrove.model.study.builder import StudyBuilder

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
        from callgrove.model.study.builder import StudyBuilder

        builder = StudyBuilder(parameters)
        numbers = [builder.point(point) for point in points]
        for callpath, metric, point, statistics in entries:
            builder.add_statistics(callpath, metric, numbers[point], statistics)
        return builder.build()

    def __len__(self) -> int:
        return len(self.series_callpath)

    @property
    def n_points(self) -> int:
        """How many points there are."""
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

    def take(self, series: Ints) -> Study:
        """Return some of the series at all points, with every name, and without stored models."""
        cells = (series[:, None] * self.n_points + np.arange(self.n_points)).reshape(-1)
        columns = {name: getattr(self, name)[series] for name in (*STATISTICS, "repetitions", "present")}
        return replace(
            self,
            series_callpath=self.series_callpath[series],
            series_metric=self.series_metric[series],
            raw=None if self.raw is None else self.raw.take(cells),
            models=(),
            **columns,
        )

    def all_series(self) -> Iterator[Series]:
        """Yield one series after the other."""
        return map(self.at, range(len(self)))

    def values(self, number: int, point: int) -> Floats:
        """Return the raw values of a cell; empty where they are unknown."""
        return self.raw.cell(number * self.n_points + point) if self.raw is not None else np.empty(0)

    def measure(self, name: str) -> Floats:
        """Return one of MEASURES for all series and points."""
        if name not in MEASURES:
            raise UsageError(f"there is no measure {name!r}; there are {', '.join(MEASURES)}")
        values: Floats = getattr(self, name)
        return values

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

        return problems_of_study(self)

    def __repr__(self) -> str:
        """Return one line, whatever the size of the study."""
        over = f"{len(self)} series at {self.n_points} points over {', '.join(self.parameters) or 'nothing'}"
        return f"<Study {self.title!r}, {f'{self.format} {self.version}'.rstrip()}: {over}>"


def read_exponent(text: str) -> Fraction:
    """Return the exact value of an exponent such as `3/2`, `-1` or `2.5e1`.

    Raise ValueError for what is not a number, or not one that a float holds. `1e999999999` is short, but a fraction of
    it has a billion digits: a decimal tells its magnitude without them.
    """
    try:
        if "/" not in text:
            decimal = Decimal(text)
            if decimal and not SMALLEST_POWER <= decimal.adjusted() <= LARGEST_POWER:
                raise OverflowError(f"{text} has no value as a float")
        value = Fraction(text)
        float(value)
    except (ValueError, ZeroDivisionError, OverflowError, InvalidOperation) as error:
        raise ValueError(f"{text!r} is not an exponent") from error
    return value


def lookup_tag(tags: Tags, key: str) -> object:
    """Return the value of a tag, or of its nearest prefix of two parts or more: `a__b__c`, then `a__b`, never `a`."""
    if key in tags:
        return tags[key]
    parts = key.split("__")
    for n in range(len(parts) - 1, 1, -1):
        if (shorter := "__".join(parts[:n])) in tags:
            return tags[shorter]
    return None


# -- what every study must satisfy -------------------------------------------------------------------------------------
# Each function lists all that is broken, in words.


def problems_of_study(study: Study) -> list[str]:
    """Return everything that is broken in a study."""
    return [*_names(study), *_points(study), *_series(study), *_cells(study), *_raw(study), *_models(study)]


def _names(study: Study) -> Iterator[str]:
    for word, names in (("parameter", study.parameters), ("call path", study.callpaths), ("metric", study.metrics)):
        if not names:
            yield f"there is no {word}"
        if len(set(names)) < len(names):
            twice = next(name for k, name in enumerate(names) if name in names[:k])
            yield f"the {word} {twice!r} occurs twice"
    if study.scaling not in SCALINGS:
        yield f"the scaling {study.scaling!r} is not one of {', '.join(filter(None, SCALINGS))}"


def _points(study: Study) -> Iterator[str]:
    points = study.points
    if not len(points):
        yield "there is no point"
    if points.ndim != 2 or points.shape[1] != len(study.parameters):
        yield f"points are {points.shape}, expected {len(study.parameters)} coordinates each"
        return
    if not np.isfinite(points).all():
        yield f"the coordinates of point {int(np.flatnonzero(~np.isfinite(points).all(axis=1))[0])} are not finite"
    if study.parameters and len(np.unique(points, axis=0)) < len(points):
        yield "a point occurs twice"


def _series(study: Study) -> Iterator[str]:
    n = len(study)
    if len(study.series_metric) != n:
        yield f"{n} series have a call path, but {len(study.series_metric)} a metric"
        return
    for word, ids, names in (
        ("call path", study.series_callpath, study.callpaths),
        ("metric", study.series_metric, study.metrics),
    ):
        if len(wrong := np.flatnonzero((ids < 0) | (ids >= len(names)))):
            yield f"series {wrong[0]} has the {word} {ids[wrong[0]]}, which is not one of {len(names)}"
    pairs = list(zip(study.series_callpath.tolist(), study.series_metric.tolist(), strict=True))
    if len(set(pairs)) < n:
        yield "a call path and metric have two series"


def _cells(study: Study) -> Iterator[str]:
    shape = (len(study), len(study.points))
    names = (*STATISTICS, "repetitions", "present")
    wrong = [name for name in names if getattr(study, name).shape != shape]
    for name in wrong:
        yield f"{name} is {getattr(study, name).shape}, expected {shape}"
    if wrong:
        return
    known = ~np.isnan(np.stack([getattr(study, name) for name in STATISTICS]))
    yield from _first("an absent cell has a statistic", known.any(axis=0) & ~study.present)
    yield from _first("an absent cell has repetitions", (study.repetitions != 0) & ~study.present)
    yield from _first("a measured cell has no repetitions", (study.repetitions == 0) & study.present)
    yield from _first("repetitions are below -1", study.repetitions < -1)
    yield from _first("a standard deviation is negative", study.std < 0)


def _first(text: str, wrong: np.typing.NDArray[np.bool_]) -> Iterator[str]:
    series, point = np.nonzero(wrong)
    if len(series):
        yield f"{text}: series {series[0]} at point {point[0]}"


def _raw(study: Study) -> Iterator[str]:
    if study.raw is None:
        return
    n_cells = len(study) * len(study.points)
    cells, repetitions = study.raw.cell_bounds, study.raw.repetition_bounds
    sound = True
    for word, bounds, n, end in (
        ("cells", cells, n_cells, len(repetitions) - 1),
        ("repetitions", repetitions, len(repetitions) - 1, len(study.raw.values)),
    ):
        if len(bounds) != n + 1 or bounds[0] != 0 or bounds[-1] != end or (np.diff(bounds) < 0).any():
            yield f"raw values: the bounds of {word} do not divide {end} rows into {n}"
            sound = False
    if sound and study.present.shape == study.repetitions.shape == (len(study), len(study.points)):
        yield from _raw_cells(study, study.raw)


def _raw_cells(study: Study, raw: RawValues) -> Iterator[str]:
    has_values = np.diff(raw.repetition_bounds[raw.cell_bounds]).reshape(study.present.shape) > 0
    yield from _first("an absent cell has raw values", has_values & ~study.present)


def _models(study: Study) -> Iterator[str]:
    try:
        known = {
            (study.callpaths[c], study.metrics[m])
            for c, m in zip(study.series_callpath, study.series_metric, strict=True)
        }
    except (IndexError, ValueError):  # named above
        return
    for model in study.models:
        if (model.callpath, model.metric) not in known:
            yield f"a model is for {model.callpath!r}, {model.metric!r}, which was not measured"


# -- parts of the text of a function, which is that of a stored model --------------------------------------------------
# `2.5 * p^(3/2) * log2(p)^(1) for p<=5.0`.


def factor_texts(parameter: str, power: str, logarithm: str) -> list[str]:
    """Return what a parameter contributes to a term; nothing for exponents of 0."""
    powers = [f"{parameter}^({power})"] if power != "0" else []
    return powers + ([f"log2({parameter})^({logarithm})"] if logarithm != "0" else [])


def bounds_text(parameter: str, start: float, end: float) -> str:
    """Return where a piece of a function holds."""
    above = [f"{parameter}>={start!r}"] if start != -inf else []
    below = [f"{parameter}<={end!r}"] if end != inf else []
    return " and ".join(above + below) or f"all {parameter}"
