"""Models of two parameters on a grid, to be drawn: one function as a surface, or which of several is the largest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from callgrove.arrays import Floats, Ints
from callgrove.errors import Parameter, UsageError
from callgrove.modeling.fitting import Models
from callgrove.modeling.model_tables import function_text
from callgrove.modeling.ranking import tell_apart

__all__ = [
    "MOST_FUNCTIONS",
    "N_CONTOURS",
    "SIDE",
    "SPAN",
    "WIDE",
    "Dominance",
    "Surface",
    "contour_levels",
    "dominance_of",
    "find_contour",
    "is_logarithmic",
    "surface_of",
]

# The page that draws them in a browser (static/scaling_grid.js) gets these numbers, and is tested against this module.
SIDE = 48  # points of a grid along each parameter
MOST_FUNCTIONS = 8
N_CONTOURS = 7
SPAN = 30.0  # values that span more are coloured by their logarithm
WIDE = 8.0  # parameters that span more lie by ratios


@dataclass(frozen=True, eq=False)
class Grid:
    """Values of two parameters; coordinates lie evenly, or by ratios where they span more than a factor of `WIDE`."""

    parameters: tuple[str, str]
    x: Floats
    y: Floats
    note: str  # what the other parameters are


@dataclass(frozen=True, eq=False)
class Surface:
    """One function over two parameters, z [y, x], and what was measured of it there (rows of x, y, z)."""

    title: str
    function: str
    metric: str
    grid: Grid
    z: Floats
    measured: Floats


@dataclass(frozen=True, eq=False)
class Dominance:
    """Which of some functions is the largest, largest [y, x], as numbers in `labels`."""

    title: str
    labels: tuple[str, ...]
    grid: Grid
    values: Floats  # [functions, y, x]

    @property
    def largest(self) -> Ints:
        """The number of the largest function in each cell; -1 where none has a value."""
        values = np.where(np.isfinite(self.values), self.values, -np.inf)
        best: Ints = np.argmax(values, axis=0)
        return np.where(np.isneginf(values.max(axis=0)), -1, best)


def surface_of(models: Models, number: int, at: Floats | None = None) -> Surface:
    """Return a model over the first two parameters, from the smallest values measured to the largest, or to `at`. Other
    parameters are as in `at`, or at the first point."""
    study, series = models.study, int(models.series[number])
    grid, points = _make_grid(models, at)
    z = models.functions.take(np.array([number])).evaluate(points)[0].reshape(len(grid.y), len(grid.x))
    rest = points[0, 2:]
    here = study.present[series] & (study.points[:, 2:] == rest).all(axis=1)
    values = study.measure(models.options.statistic)[series, here]
    measured = np.column_stack([study.points[here, :2], values])
    unit = study.units.get(models.metric(number), "")
    metric = f"{models.metric(number)} ({unit})" if unit and unit != "unknown" else models.metric(number)
    return Surface(models.callpath(number), function_text(models.functions, number, "short"), metric, grid, z, measured)


def dominance_of(models: Models, numbers: Sequence[int], at: Floats | None = None) -> Dominance:
    """Return which of some models is the largest over the first two parameters; their borders are where one function
    overtakes another."""
    chosen = list(numbers)[:MOST_FUNCTIONS]
    grid, points = _make_grid(models, at)
    values = models.functions.take(np.array(chosen)).evaluate(points).reshape(len(chosen), len(grid.y), len(grid.x))
    labels = tuple(tell_apart([models.callpath(number) for number in chosen]))
    return Dominance("Which costs most, and where one overtakes another", labels, grid, values)


def _make_grid(models: Models, at: Floats | None) -> tuple[Grid, Floats]:
    """Return a grid, and its points with all their coordinates, y by y."""
    study = models.study
    if len(study.parameters) < 2:
        only = f"a surface needs two parameters, and there is only {study.parameters[0]}; "
        raise UsageError(only, Parameter("chart", "curves"), " draws it")
    axes = [_spread(study.points[:, k], None if at is None else float(at[k])) for k in (0, 1)]
    rest = study.points[0, 2:] if at is None else at[2:]
    names = zip(study.parameters[2:], rest.tolist(), strict=True)
    x, y = np.meshgrid(axes[0], axes[1])
    points = np.column_stack([x.ravel(), y.ravel(), np.tile(rest, (x.size, 1))])
    note = ", ".join(f"{name} = {value:g}" for name, value in names)
    return Grid((study.parameters[0], study.parameters[1]), axes[0], axes[1], note), points


def _spread(measured: Floats, target: float | None) -> Floats:
    low, high = float(measured.min()), float(measured.max())
    if target is not None:
        low, high = min(low, target), max(high, target)
    if not low < high:
        low, high = low * 0.9 - 0.5, high * 1.1 + 0.5
    if low > 0 and high / low > WIDE:
        return np.geomspace(low, high, SIDE)
    return np.linspace(low, high, SIDE)


# -- levels and lines --------------------------------------------------------------------------------------------------


def is_logarithmic(low: float, high: float) -> bool:
    """Return whether values of such a range are told apart by their logarithms."""
    return low > 0 and high / low > SPAN


def contour_levels(low: float, high: float) -> list[float]:
    """Return the values of contour lines, between the least and the largest."""
    parts = [(k + 1) / (N_CONTOURS + 1) for k in range(N_CONTOURS)]
    if is_logarithmic(low, high):
        return [low * (high / low) ** part for part in parts]
    return [low + (high - low) * part for part in parts]


def find_contour(z: Floats, level: float) -> Floats:
    """Return the line along which values on a grid, z [y, x], reach a level: rows of x, y, x, y in steps of the grid, a
    piece in every cell whose corners lie on both sides."""
    pieces: list[tuple[float, ...]] = []
    above = z - level
    for row in range(len(z) - 1):
        for column in range(z.shape[1] - 1):
            corners = ((row, column), (row, column + 1), (row + 1, column + 1), (row + 1, column))
            values = [float(above[corner]) for corner in corners]
            if not np.isfinite(values).all():
                continue
            crossings: list[tuple[float, float]] = []
            for k in range(4):
                a, b = values[k], values[(k + 1) % 4]
                if (a < 0) != (b < 0):
                    part = a / (a - b)
                    (r0, c0), (r1, c1) = corners[k], corners[(k + 1) % 4]
                    crossings.append((c0 + part * (c1 - c0), r0 + part * (r1 - r0)))
            pieces += [(*start, *end) for start, end in zip(crossings[::2], crossings[1::2], strict=True)]
    return np.array(pieces, np.float64).reshape(-1, 4)
