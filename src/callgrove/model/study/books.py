"""Books of studies: what a writer of series was given and what it wrote, added up at both ends by metric.

    series, measurements (series at points), repetitions, values and their sum; statistics where a target stores them;
    the points and the models of the whole study

A measurement has its raw values in repetitions, or its mean as the only value where these are not known. Repetitions
without any value hold nothing and are not counted. Values that are not finite are counted, and not added up.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from math import isfinite

import numpy as np

from callgrove.arrays import Array, Bools, Floats, Ints
from callgrove.model.books import is_equal
from callgrove.model.study.series import STATISTICS, RawValues, Study

__all__ = ["MODELS", "REPETITIONS", "Repetitions", "StudyBooks", "StudyTotals"]

REPETITIONS, MODELS = "repetitions", "models"
COLUMNS = (*STATISTICS, REPETITIONS)  # what a target may store of a measurement beside its values
AT_ONCE = 1 << 14  # measurements that wait to be added up
LARGEST_SUM = 1e308  # of magnitudes: more may overflow

Repetitions = Sequence[float | Sequence[float]]


class StudyTotals:
    """What of a study passed one place. Arrays are by metric, unless they say which series and points there were.

    Writers enter one measurement after the other in plain Python, where each costs a fraction of what writing it does.
    """

    def __init__(self, study: Study) -> None:
        n = len(study.metrics)
        self._metric, self._n_points = study.series_metric.astype(np.int64), study.n_points
        self._is_measured = bytearray(study.present.size)
        self.measured: Bools = np.frombuffer(self._is_measured, np.bool_).reshape(study.present.shape)
        self.series: Bools = np.zeros(len(study), np.bool_)
        self.points: Bools = np.zeros(study.n_points, np.bool_)
        self.n_repetitions, self.n_values = np.zeros(n, np.int64), np.zeros(n, np.int64)
        self.total, self.magnitude = np.zeros(n), np.zeros(n)
        self.n_described, self.n_known = np.zeros(n, np.int64), np.zeros((len(COLUMNS), n), np.int64)
        self.known_total, self.known_magnitude = np.zeros((len(COLUMNS), n)), np.zeros((len(COLUMNS), n))
        self.n_models = 0
        self._metric_of: list[int] = self._metric.tolist()
        # what was entered and is not added up yet
        self._n_repetitions, self._n_values, self._total = [0] * n, [0] * n, [0.0] * n
        self._cells: list[int] = []
        self._counts: list[int] = []
        self._values: list[float] = []  # one per repetition
        self._known_of, self._known = array("q"), array("d")  # series, and their COLUMNS

    def enter(self, series: int, point: int, repetitions: Repetitions) -> None:
        """Add repetitions of one measurement: a value each, or a list of values each."""
        if type(repetitions[0]) is list:
            self._enter_nested(series, point, repetitions)  # type: ignore[arg-type]
            return
        self._cells.append(series * self._n_points + point)
        self._counts.append(len(repetitions))
        self._values.extend(repetitions)  # type: ignore[arg-type]
        if len(self._cells) >= AT_ONCE:
            self.settle()

    def _enter_nested(self, series: int, point: int, repetitions: Sequence[Sequence[float]]) -> None:
        metric, values = self._metric_of[series], list(chain.from_iterable(repetitions))
        self._n_repetitions[metric] += len(repetitions)
        self._n_values[metric] += len(values)
        self._total[metric] += sum(filter(isfinite, values))
        self._is_measured[series * self._n_points + point] = 1

    def enter_series(self, series: int, values: Sequence[float]) -> None:
        """Add a series that has all points, with one value for each repetition."""
        self.enter(series, 0, values)
        first = series * self._n_points
        self._is_measured[first : first + self._n_points] = b"\1" * self._n_points

    def enter_statistics(self, series: int, columns: Sequence[float]) -> None:
        """Add what is known of one measurement beside its values: mean, median, minimum, maximum, standard deviation
        and number of repetitions."""
        self._known_of.append(series)
        self._known.extend(columns)
        if len(self._known_of) >= AT_ONCE:
            self.settle()

    def settle(self) -> None:
        """Add up what was entered so far."""
        self.n_repetitions += self._n_repetitions
        self.n_values += self._n_values
        with np.errstate(over="ignore", invalid="ignore"):
            self.total += self._total
        n = len(self._total)
        self._n_repetitions, self._n_values, self._total = [0] * n, [0] * n, [0.0] * n
        counts = np.array(self._counts, np.int64)
        self.add(np.array(self._cells, np.int64), counts, counts, np.array(self._values, np.float64))
        self._cells.clear()
        self._counts.clear()
        self._values.clear()
        columns = np.array(self._known, np.float64).reshape(-1, len(COLUMNS)).T
        self.add_statistics(np.array(self._known_of, np.int64), dict(zip(COLUMNS, columns, strict=True)))
        del self._known_of[:], self._known[:]

    def add(self, cell: Ints, n_repetitions: Ints, n_values: Ints, values: Floats) -> None:
        """Add measurements: the numbers of their cells (series x points), how many repetitions and values each has, and
        the values of all, one after the other."""
        self.measured.reshape(-1)[cell] = True
        metric, n = self._metric[cell // max(self._n_points, 1)], len(self.total)
        self.n_repetitions += np.bincount(metric, n_repetitions, n).astype(np.int64)
        self.n_values += np.bincount(metric, n_values, n).astype(np.int64)
        with np.errstate(over="ignore", invalid="ignore"):
            is_plain = len(values) > 0 and np.isfinite(np.abs(values).sum())
        if is_plain:  # every measurement has values, so that one sum for each is enough
            starts = np.cumsum(n_values) - n_values
            sums = np.add.reduceat(values, starts)
            sizes = np.add.reduceat(np.abs(values), starts) if values.min() < 0 else sums
            with np.errstate(over="ignore", invalid="ignore"):
                self.total += np.bincount(metric, sums, n)
                self.magnitude += np.bincount(metric, sizes, n)
        else:
            _add_finite(self.total, self.magnitude, np.repeat(metric, n_values), values)

    def add_values(self, series: Ints, begins: Bools, values: Floats) -> None:
        """Add a row for each value: its series, and whether a repetition begins with it."""
        metric, n = self._metric[series], len(self.total)
        self.n_repetitions += np.bincount(metric[begins], minlength=n)
        self.n_values += np.bincount(metric, minlength=n)
        _add_finite(self.total, self.magnitude, metric, values)

    def add_statistics(self, series: Ints, columns: Mapping[str, Array]) -> None:
        """Add what is known of measurements beside their values; NaN is unknown, and so are repetitions of -1."""
        metric = self._metric[series]
        self.n_described += np.bincount(metric, minlength=len(self.total))
        for row, name in enumerate(COLUMNS):
            values = np.asarray(columns[name], np.float64)
            known = ~np.isnan(values) if name != REPETITIONS else values >= 0
            of, values = (metric, values) if known.all() else (metric[known], values[known])
            self.n_known[row] += np.bincount(of, minlength=len(self.total))
            _add_finite(self.known_total[row], self.known_magnitude[row], of, values)

    def name_series(self, series: int | Ints) -> None:
        """Add series, which may have no measurement."""
        self.series[series] = True

    def name_points(self, points: int | Ints | slice) -> None:
        """Add points, at which nothing may be measured."""
        self.points[points] = True

    @property
    def n_series(self) -> Ints:
        """How many series each metric has, those without a measurement among them."""
        return self._by_metric((self.series | self.measured.any(axis=1)).astype(np.float64))

    @property
    def n_measurements(self) -> Ints:
        """How many measurements each metric has."""
        return self._by_metric(self.measured.sum(axis=1, dtype=np.float64))

    @property
    def n_points(self) -> int:
        """How many points there are, those where nothing was measured among them."""
        return int((self.points | self.measured.any(axis=0)).sum())

    def _by_metric(self, of_series: Floats) -> Ints:
        return np.bincount(self._metric, of_series, len(self.total)).astype(np.int64)


def _add_finite(total: Floats, magnitude: Floats, row: Array, values: Floats) -> None:
    """Add values to the totals of their rows."""
    finite = np.isfinite(values)
    if not finite.all():
        row, values = row[finite], values[finite]
    with np.errstate(over="ignore", invalid="ignore"):
        sums = np.bincount(row, values, len(total))
        total += sums
        has_negative = len(values) and values.min() < 0
        magnitude += np.bincount(row, np.abs(values), len(total)) if has_negative else sums


def _is_equal(before: float, after: float, magnitude: float) -> bool:
    """Tell whether two sums of finite values are equal, but for rounding. Near the largest number, and beyond it, a sum
    depends on the order of its values: there it says nothing, and values are compared by their number."""
    return magnitude > LARGEST_SUM or is_equal(float(before), float(after), float(magnitude))


class StudyBooks:
    """What a writer was given of a study, what it passed on, and which differences a message accounts for.

    `has_statistics`: the target stores what is known of measurements beside their values.
    """

    def __init__(self, study: Study, *, has_statistics: bool = False) -> None:
        self.study, self.passed, self.has_statistics = study, StudyTotals(study), has_statistics
        self._series: Bools = np.ones(len(study), np.bool_)
        self._points: Bools = np.ones(study.n_points, np.bool_)
        self._excused: set[str] = set()

    def leave_out(self, series: Bools | None = None, points: Bools | None = None) -> None:
        """Do not expect these series or points: a `lost:` line says that they are left out."""
        if series is not None:
            self._series &= ~series
        if points is not None:
            self._points &= ~points

    def excuse(self, *items: str) -> None:
        """Do not compare REPETITIONS or MODELS: a `lost:` line says what becomes of them."""
        self._excused.update(items)

    def differences(self) -> Iterator[str]:
        """Yield a sentence for each difference that nothing accounts for: for each metric the first one only."""
        given, passed = self.add_up_given(), self.passed
        passed.settle()
        if given.n_points != passed.n_points:
            yield f"points: {given.n_points:,} were given, {passed.n_points:,} were passed on"
        if MODELS not in self._excused and given.n_models != passed.n_models:
            yield f"{MODELS}: {given.n_models:,} were given, {passed.n_models:,} were passed on"
        counts = {
            "series": (given.n_series, passed.n_series),
            "measurements": (given.n_described, passed.n_described)
            if self.has_statistics
            else (given.n_measurements, passed.n_measurements),
            REPETITIONS: (given.n_repetitions, passed.n_repetitions),
            "values": (given.n_values, passed.n_values),
        }
        for row, metric in enumerate(self.study.metrics):
            yield from self._of_metric(row, metric or "the metric without a name", given, counts)

    def _of_metric(
        self, row: int, name: str, given: StudyTotals, counts: Mapping[str, tuple[Ints, Ints]]
    ) -> Iterator[str]:
        passed = self.passed
        for word, (before, after) in counts.items():
            if word not in self._excused and before[row] != after[row]:
                yield f"{name}: {before[row]:,} {word} were given, {after[row]:,} were passed on"
                return
        if not _is_equal(given.total[row], passed.total[row], given.magnitude[row]):
            yield f"{name}: {given.total[row]:g} was given, {passed.total[row]:g} was passed on"
            return
        for column, word in enumerate(COLUMNS if self.has_statistics else ()):
            pair = given.known_total[column, row], passed.known_total[column, row]
            if given.n_known[column, row] != passed.n_known[column, row]:
                n, m = given.n_known[column, row], passed.n_known[column, row]
                yield f"{name}: {n:,} numbers of the column {word} were given, {m:,} were passed on"
                return
            if not _is_equal(*pair, given.known_magnitude[column, row]):
                yield f"{name}: {pair[0]:g} was given in the column {word}, {pair[1]:g} was passed on"
                return

    def add_up_given(self) -> StudyTotals:
        """Add up what the study has of the series and points that are expected."""
        study, given = self.study, StudyTotals(self.study)
        given.name_series(np.flatnonzero(self._series))
        given.name_points(np.flatnonzero(self._points))
        given.n_models = len(study.models)
        cell = np.flatnonzero(study.present & self._series[:, None] & self._points)
        has_values: Bools = np.zeros(len(cell), np.bool_)
        if study.raw is not None:
            n_values = _n_values(study.raw)
            has_values = n_values[cell] > 0
            raw = cell if has_values.all() else cell[has_values]
            given.add(raw, _n_repetitions(study.raw)[raw], n_values[raw], _values_of(study.raw, raw))
        if not has_values.all():  # their mean stands for values that are not known
            alone = cell[~has_values]
            given.add(alone, np.ones_like(alone), np.ones_like(alone), study.mean.reshape(-1)[alone])
        if self.has_statistics:
            columns = {name: getattr(study, name).reshape(-1)[cell] for name in COLUMNS}
            given.add_statistics(cell // max(study.n_points, 1), columns)
        return given


def _n_values(raw: RawValues) -> Ints:
    """Return how many values each cell has."""
    return np.diff(raw.repetition_bounds[raw.cell_bounds])


def _n_repetitions(raw: RawValues) -> Ints:
    """Return how many repetitions of each cell have values."""
    has_values = np.diff(raw.repetition_bounds) > 0
    if has_values.all():
        return np.diff(raw.cell_bounds)
    return np.diff(np.append(0, np.cumsum(has_values))[raw.cell_bounds])


def _values_of(raw: RawValues, cells: Ints) -> Floats:
    """Return the values of some cells, one after the other."""
    chosen = np.zeros(len(raw.cell_bounds) - 1, np.bool_)
    chosen[cells] = True
    return raw.values if chosen.all() else raw.values[np.repeat(chosen, _n_values(raw))]
