"""Makes studies: interns names and points, pools repetitions, computes statistics.

Values are kept in flat columns, a row per repetition, and sorted into cells once, so that a study of a million cells
needs no object for each of them.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from callgrove.arrays import Array, Floats, Ints, freeze
from callgrove.errors import CallgroveError, InvalidExperiment, UsageError
from callgrove.model.experiment import InputWarning, Severity
from callgrove.model.study.series import STATISTICS, SUGGESTED_TARGET, RawValues, Statistics, StoredModel, Study

__all__ = ["StudyBuilder", "TooManyCells"]

MOST_EMPTY = 1 << 24  # cells (series x points) that may be there whatever was measured
PER_ROW = 8  # beyond that, cells for each repetition that was measured


class TooManyCells(CallgroveError):
    """So few of all series and points were measured together that a table of them would not fit into memory."""


class StudyBuilder:
    """Collects the parts of one study."""

    def __init__(
        self, parameters: Sequence[str], format: str = "", version: str = "", title: str = "", path: str = ""
    ) -> None:
        self.parameters = tuple(parameters)
        self.format, self.version, self.title, self.path = format, version, title, path
        self.scaling = ""
        self.suggested_target = SUGGESTED_TARGET
        self.callpath_tags: dict[str, dict[str, object]] = {}
        self.metric_tags: dict[str, dict[str, object]] = {}
        self.units: dict[str, str] = {}
        self.ratios: list[str] = []
        self.models: list[StoredModel] = []
        self.modelers: dict[str, dict[str, object]] = {}
        self.attributes: dict[str, str] = {}
        self.warnings: list[InputWarning] = []
        self._points: dict[tuple[float, ...], int] = {}
        self._callpaths: dict[str, int] = {}
        self._metrics: dict[str, int] = {}
        self._series: dict[tuple[int, int], int] = {}
        self._row_series, self._row_point, self._row_size = array("q"), array("q"), array("q")
        self._values = array("d")
        self._given: dict[tuple[int, int], Statistics] = {}

    def point(self, coordinates: Sequence[float]) -> int:
        """Return the number of a point; equal ones are the same."""
        key = tuple(float(c) for c in coordinates)
        if len(key) != len(self.parameters):
            names = ", ".join(self.parameters)
            raise UsageError(
                f"the point {key} has {len(key)} coordinates for {len(self.parameters)} parameters ({names})"
            )
        return self._points.setdefault(key, len(self._points))

    def series(self, callpath: str, metric: str) -> int:
        """Return the number of a series, which may stay without any value."""
        key = (
            self._callpaths.setdefault(callpath, len(self._callpaths)),
            self._metrics.setdefault(metric, len(self._metrics)),
        )
        return self._series.setdefault(key, len(self._series))

    def add_values(self, callpath: str, metric: str, point: int, values: Sequence[object]) -> None:
        """Add further repetitions of a cell. One that is itself a sequence, nested as it may be, counts once and takes
        part in the statistics with all its values."""
        series = self.series(callpath, metric)
        for repetition in values:
            before = len(self._values)
            self._values.extend(_numbers(repetition))
            self._row_series.append(series)
            self._row_point.append(point)
            self._row_size.append(len(self._values) - before)

    def add_repetitions(self, series: int, point: int, values: Sequence[float]) -> None:
        """Add further repetitions of a cell with one value each."""
        self.add_rows((series,) * len(values), (point,) * len(values), values)

    def add_rows(self, series: Sequence[int], points: Sequence[int], values: Sequence[float]) -> None:
        """Add repetitions of many cells, with one value each; numbers are those of `series` and `point`."""
        self._values.extend(values)
        self._row_series.extend(series)
        self._row_point.extend(points)
        self._row_size.extend((1,) * len(values))

    def add_statistics(self, callpath: str, metric: str, point: int, statistics: Statistics) -> bool:
        """Add what a file says of a cell; it goes before what raw values say. Return False where there was something
        already, which stays."""
        key = (self.series(callpath, metric), point)
        return self._given.setdefault(key, statistics) is statistics

    def knows(self, callpath: str, metric: str) -> bool:
        """Return whether there is such a series."""
        return (self._callpaths.get(callpath, -1), self._metrics.get(metric, -1)) in self._series

    @property
    def has_values(self) -> bool:
        """True once anything was measured."""
        return bool(self._values or self._given)

    def warn(self, severity: Severity, text: str) -> None:
        self.warnings.append(InputWarning(severity, text))

    def build(self) -> Study:
        """Return the study; raise InvalidExperiment with every broken invariant."""
        n_series, n_points = len(self._series), len(self._points)
        self._refuse_emptiness(n_series, n_points)
        raw = self._raw(n_series * n_points, n_points)
        counts = np.diff(raw.cell_bounds)
        sizes = np.diff(raw.repetition_bounds[raw.cell_bounds])
        columns = statistics_of(raw, sizes)
        repetitions, present = np.where(sizes > 0, counts, 0), sizes > 0
        for (series, point), given in self._given.items():
            cell = series * n_points + point
            known = [not np.isnan(number) for number in given[:5]]
            columns[cell, known] = np.array(given[:5])[known]
            repetitions[cell] = given.repetitions if given.repetitions > 0 else repetitions[cell] or -1
            present[cell] = True
        shape = (n_series, n_points)
        keys = np.array(list(self._series), np.int32).reshape(-1, 2)
        study = Study(
            parameters=self.parameters,
            points=freeze(np.array(list(self._points), np.float64).reshape(n_points, len(self.parameters))),
            callpaths=tuple(self._callpaths),
            metrics=tuple(self._metrics),
            series_callpath=freeze(keys[:, 0].copy()),
            series_metric=freeze(keys[:, 1].copy()),
            **{name: freeze(columns[:, k].reshape(shape).copy()) for k, name in enumerate(STATISTICS)},
            repetitions=freeze(repetitions.reshape(shape)),
            present=freeze(present.reshape(shape)),
            raw=raw if len(raw.values) else None,
            scaling=self.scaling,
            callpath_tags=dict(self.callpath_tags),
            metric_tags=dict(self.metric_tags),
            units=dict(self.units),
            ratios=tuple(self.ratios),
            models=tuple(self.models),
            modelers=dict(self.modelers),
            title=self.title,
            format=self.format,
            version=self.version,
            attributes=dict(self.attributes),
            warnings=tuple(self.warnings),
            path=self.path,
            unexplained=(),
            suggested_target=self.suggested_target,
        )
        if problems := study.validate():
            raise InvalidExperiment(problems)
        return study

    def _refuse_emptiness(self, n_series: int, n_points: int) -> None:
        if n_series * n_points > max(MOST_EMPTY, PER_ROW * (len(self._row_size) + len(self._given))):
            raise TooManyCells(
                f"{n_series:,} series at {n_points:,} points were measured {len(self._row_size) + len(self._given):,} "
                "times: nearly no series has more than one point; split the input, or leave parameters out"
            )

    def _raw(self, n_cells: int, n_points: int) -> RawValues:
        """Return the rows sorted into cells; inside a cell they keep their order."""
        series, point, sizes = (
            np.array(column, np.int64) for column in (self._row_series, self._row_point, self._row_size)
        )
        cell = series * n_points + point
        order = np.argsort(cell, kind="stable")
        first = np.cumsum(sizes) - sizes
        bounds = np.append(0, np.cumsum(sizes[order]))
        source = np.arange(len(self._values)) + np.repeat(first[order] - bounds[:-1], sizes[order])
        values = np.array(self._values, np.float64)[source]
        cells = np.searchsorted(cell[order], np.arange(n_cells + 1))
        return RawValues(freeze(values), freeze(bounds), freeze(cells), makes_statistics=not self._given)


def statistics_of(raw: RawValues, sizes: Ints) -> Floats:
    """Return mean, median, minimum, maximum and population std of each cell; NaN for empty ones."""
    functions: tuple[Callable[..., Array], ...] = (np.mean, np.median, np.min, np.max, np.std)
    out = np.full((len(sizes), len(STATISTICS)), np.nan)
    first = raw.repetition_bounds[raw.cell_bounds[:-1]]
    with np.errstate(invalid="ignore", over="ignore"):  # infinite values have no spread
        for size in np.unique(sizes[sizes > 0]).tolist():
            cells = np.flatnonzero(sizes == size)
            block = raw.values[first[cells, None] + np.arange(size)]
            for column, function in enumerate(functions):
                out[cells, column] = function(block, axis=1)
    return out


def _numbers(value: object) -> Iterator[float]:
    """Yield the numbers of a nested sequence, in order."""
    pending = [value]
    while pending:
        one = pending.pop()
        if isinstance(one, list | tuple | np.ndarray):
            pending.extend(reversed(one))
        else:
            yield float(one)  # type: ignore[arg-type]
