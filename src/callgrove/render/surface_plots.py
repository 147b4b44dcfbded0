"""Pictures of models of two parameters as SVG: heat maps with contours, surfaces, which function dominates where."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from math import floor, log10

import numpy as np

from callgrove.arrays import Floats
from callgrove.modeling.surfaces import Dominance, Grid, Surface, contour_levels, find_contour, is_logarithmic
from callgrove.render.plots import COLOURS, Axis, escape_text, label

__all__ = ["draw_dominance", "draw_heat_map", "draw_surface"]

WIDTH, HEIGHT = 760, 500
LEFT, RIGHT, TOP, BOTTOM = 80, 600, 70, 440
BAR = 640, 658  # the colour bar, from left to right
STOPS = ("#440154", "#3b528b", "#21918c", "#5ec962", "#fde725")  # even steps of lightness, for all eyes and for print
TILT, TURN = 0.5, 0.866  # of the surface: how flat the ground is seen, and its turn


def draw_heat_map(surface: Surface) -> str:
    """Return a function as colours with contour lines, and measurements as dots of the same colours."""
    x, y = _axes(surface.grid)
    scale = _Scale.of(surface.z)
    parts = [*_start(surface.title, surface.function, surface.grid), *_cells(surface, x, y, scale)]
    for level in contour_levels(scale.low, scale.high):
        parts += _contour(surface.z, surface.grid, level, x, y)
    parts += [*_frame(x, y, surface.grid), *_colour_bar(scale, surface.metric)]
    for at, other, value in surface.measured.tolist():
        colour = scale.colour(value) if np.isfinite(value) else "#ffffff"
        place = f'cx="{x.place(at):.1f}" cy="{y.place(other):.1f}"'
        parts.append(f'<circle {place} r="5.5" fill="#333"/><circle {place} r="4.5" fill="white"/>')
        parts.append(f'<circle {place} r="3.5" fill="{colour}"/>')
    return _finish(parts)


def draw_dominance(dominance: Dominance) -> str:
    """Return which function is the largest where, with the lines at which one overtakes another."""
    grid = dominance.grid
    x, y = _axes(grid)
    parts = list(_start(dominance.title, grid.note, grid))
    largest = dominance.largest
    for row, column, box in _boxes(grid, x, y):
        number = int(largest[row, column])
        if number >= 0:
            parts.append(f'<rect {box} fill="{_lighten(COLOURS[number % len(COLOURS)])}"/>')
    shown = sorted(set(largest[largest >= 0].tolist()))
    for k, first in enumerate(shown):
        for second in shown[k + 1 :]:
            border = np.isin(largest, (first, second))
            difference = np.where(border, dominance.values[first] - dominance.values[second], np.nan)
            parts += _contour(difference, grid, 0.0, x, y, "#222", 2.0)
    for k, number in enumerate(shown):
        at = TOP + 16 + 18 * k
        fill = _lighten(COLOURS[number % len(COLOURS)])
        box = f'x="{RIGHT + 16}" y="{at - 10}" width="12" height="12"'
        parts.append(f'<rect {box} fill="{fill}" stroke="#444"/>')
        parts.append(label(RIGHT + 34, at, dominance.labels[number][:18], "start"))
    return _finish([*parts, *_frame(x, y, grid)])


def draw_surface(surface: Surface) -> str:
    """Return a function as a surface seen from above and aside, with measurements as dots on lines to it."""
    scale = _Scale.of(surface.z)
    view = _View(surface.grid, scale)
    parts = list(_start(surface.title, surface.function, surface.grid))
    parts += view.ground()
    parts += view.mesh(surface.z)
    parts += view.measurements(surface)
    return _finish([*parts, *_colour_bar(scale, surface.metric)])


# -- colours -----------------------------------------------------------------------------------------------------------


class _Scale:
    """Numbers as colours, evenly or by their logarithm."""

    def __init__(self, low: float, high: float, logarithmic: bool) -> None:
        self.low, self.high, self.logarithmic = low, high, logarithmic

    @classmethod
    def of(cls, values: Floats) -> _Scale:
        finite = values[np.isfinite(values)]
        low, high = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 1.0)
        if low == high:
            low, high = low - 0.5, high + 0.5
        return cls(low, high, is_logarithmic(low, high))

    def part(self, value: float) -> float:
        """Return where a number lies between the least and the largest, from 0 to 1."""
        low, high = self.low, self.high
        if self.logarithmic:
            value, low, high = log10(max(value, 1e-300)), log10(low), log10(high)
        return min(max((value - low) / (high - low), 0.0), 1.0)

    def colour(self, value: float) -> str:
        place = self.part(value) * (len(STOPS) - 1)
        k = min(floor(place), len(STOPS) - 2)
        pairs = [[int(STOPS[k + n][i : i + 2], 16) for i in (1, 3, 5)] for n in (0, 1)]
        mixed = [round(a + (b - a) * (place - k)) for a, b in zip(*pairs, strict=True)]
        return "#" + "".join(f"{one:02x}" for one in mixed)


def _lighten(colour: str) -> str:
    """Return a colour on which lines and names can be read."""
    return "#" + "".join(f"{round(255 - 0.45 * (255 - int(colour[i : i + 2], 16))):02x}" for i in (1, 3, 5))


def _colour_bar(scale: _Scale, metric: str) -> Iterator[str]:
    steps = 60
    height = (BOTTOM - TOP) / steps
    for k in range(steps):
        value = _value_at(scale, (k + 0.5) / steps)
        y = BOTTOM - (k + 1) * height
        yield (
            f'<rect x="{BAR[0]}" y="{y:.2f}" width="{BAR[1] - BAR[0]}" height="{height + 0.5:.2f}" '
            f'fill="{scale.colour(value)}"/>'
        )
    for part in (0.0, 0.25, 0.5, 0.75, 1.0):
        yield label(BAR[1] + 6, BOTTOM - part * (BOTTOM - TOP) + 4, f"{_value_at(scale, part):.3g}", "start")
    yield label(BAR[1] + 40, TOP - 14, metric or "<default>", "end")


def _value_at(scale: _Scale, part: float) -> float:
    if scale.logarithmic:
        return float(scale.low * (scale.high / scale.low) ** part)
    return scale.low + (scale.high - scale.low) * part


# -- maps --------------------------------------------------------------------------------------------------------------


def _start(title: str, second: str, grid: Grid) -> Iterator[str]:
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'font-family="sans-serif" font-size="12">'
    )
    yield f"<title>{escape_text(title)}</title>"
    yield f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>'
    yield label(LEFT, 24, title, "start", 'font-size="15" font-weight="bold"')
    yield label(LEFT, 44, "; ".join(filter(None, (second, grid.note if second != grid.note else ""))), "start")


def _finish(parts: list[str]) -> str:
    return "\n".join([*parts, "</svg>", ""])


def _axes(grid: Grid) -> tuple[Axis, Axis]:
    x, y = (_axis(values, *ends) for values, ends in ((grid.x, (LEFT, RIGHT)), (grid.y, (BOTTOM, TOP))))
    return x, y


def _axis(values: Floats, start: float, end: float) -> Axis:
    first, last = float(values[0]), float(values[-1])
    even = np.isclose(values[1] - values[0], values[-1] - values[-2])
    return Axis(first, last, start, end, not bool(even))


def _boxes(grid: Grid, x: Axis, y: Axis) -> Iterator[tuple[int, int, str]]:
    """Yield the cells around the points of a grid: row, column, and their place."""
    across = _edges([x.place(value) for value in grid.x.tolist()])
    down = _edges([y.place(value) for value in grid.y.tolist()])
    for row in range(len(grid.y)):
        for column in range(len(grid.x)):
            top, bottom = sorted((down[row], down[row + 1]))
            width = across[column + 1] - across[column]
            yield (
                row,
                column,
                (f'x="{across[column]:.2f}" y="{top:.2f}" width="{width + 0.4:.2f}" height="{bottom - top + 0.4:.2f}"'),
            )


def _edges(places: list[float]) -> list[float]:
    middles = [(a + b) / 2 for a, b in pairwise(places)]
    return [places[0], *middles, places[-1]]


def _cells(surface: Surface, x: Axis, y: Axis, scale: _Scale) -> Iterator[str]:
    for row, column, box in _boxes(surface.grid, x, y):
        if np.isfinite(surface.z[row, column]):
            yield f'<rect {box} fill="{scale.colour(float(surface.z[row, column]))}"/>'


def _frame(x: Axis, y: Axis, grid: Grid) -> Iterator[str]:
    for mark in x.marks():
        yield label(x.place(mark), BOTTOM + 18, f"{mark:.6g}", "middle")
    for mark in y.marks():
        yield label(LEFT - 8, y.place(mark) + 4, f"{mark:.6g}", "end")
    yield f'<rect x="{LEFT}" y="{TOP}" width="{RIGHT - LEFT}" height="{BOTTOM - TOP}" fill="none" stroke="#444"/>'
    yield label((LEFT + RIGHT) / 2, BOTTOM + 40, grid.parameters[0], "middle")
    middle = (TOP + BOTTOM) / 2
    yield label(22, middle, grid.parameters[1], "middle", f'transform="rotate(-90 22 {middle})"')


def _contour(
    z: Floats, grid: Grid, level: float, x: Axis, y: Axis, colour: str = "white", width: float = 1.0
) -> Iterator[str]:
    """Yield the line along which a function has a value."""
    across = [x.place(value) for value in grid.x.tolist()]
    down = [y.place(value) for value in grid.y.tolist()]
    pieces = find_contour(z, level)
    if len(pieces):
        ends = [np.interp(pieces[:, k], np.arange(len(axis)), axis) for k, axis in enumerate((across, down) * 2)]
        path = "".join(f"M{x0:.1f} {y0:.1f}L{x1:.1f} {y1:.1f}" for x0, y0, x1, y1 in zip(*ends, strict=True))
        yield f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="{width}"/>'


# -- surfaces ----------------------------------------------------------------------------------------------------------


class _View:
    """Where a place on the ground (parts of both axes) and a value are seen."""

    def __init__(self, grid: Grid, scale: _Scale) -> None:
        self._grid, self._scale = grid, scale
        self._size = (RIGHT - LEFT) / 2 / TURN * 0.98
        self._origin = (LEFT + RIGHT) / 2, BOTTOM - 6

    def place(self, x: float, y: float, value: float) -> tuple[float, float]:
        across = (x - y) * TURN * self._size
        back = (x + y) * TILT * self._size / 2
        return self._origin[0] + across, self._origin[1] - back - self._scale.part(value) * 170

    def ground(self) -> Iterator[str]:
        corners = [self.place(*one, self._scale.low) for one in ((0, 0), (1, 0), (1, 1), (0, 1))]
        places = " ".join(f"{a:.1f},{b:.1f}" for a, b in corners)
        yield f'<polygon points="{places}" fill="#f4f4f4" stroke="#999"/>'
        for k, values in enumerate((self._grid.x, self._grid.y)):
            for part in (0.0, 0.5, 1.0):
                value = float(values[round(part * (len(values) - 1))])
                a, b = self.place(*((part, 0.0) if k == 0 else (0.0, part)), self._scale.low)
                yield label(a + (14 if k == 0 else -14), b + 12, f"{value:.4g}", "start" if k == 0 else "end")
            a, b = self.place(*((0.5, 0.0) if k == 0 else (0.0, 0.5)), self._scale.low)
            yield label(a + (70 if k == 0 else -70), b + 26, self._grid.parameters[k], "middle", 'font-weight="bold"')

    def mesh(self, z: Floats) -> Iterator[str]:
        """Yield the cells of a surface, from the back to the front."""
        n_rows, n_columns = z.shape
        for row in range(n_rows - 2, -1, -1):
            for column in range(n_columns - 2, -1, -1):
                corners = [(row, column), (row, column + 1), (row + 1, column + 1), (row + 1, column)]
                values = [float(z[one]) for one in corners]
                if np.isfinite(values).all():
                    parts = [(c / (n_columns - 1), r / (n_rows - 1)) for r, c in corners]
                    seen = [self.place(x, y, value) for (x, y), value in zip(parts, values, strict=True)]
                    places = " ".join(f"{a:.1f},{b:.1f}" for a, b in seen)
                    fill = self._scale.colour(float(np.mean(values)))
                    yield f'<polygon points="{places}" fill="{fill}" stroke="#ffffff" stroke-width="0.3"/>'

    def measurements(self, surface: Surface) -> Iterator[str]:
        axes = _axes(self._grid)
        for at, other, value in surface.measured.tolist():
            if not np.isfinite(value):
                continue
            x = (axes[0].place(at) - LEFT) / (RIGHT - LEFT)
            y = (BOTTOM - axes[1].place(other)) / (BOTTOM - TOP)
            a, b = self.place(x, y, value)
            yield f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3.5" fill="#d55e00" stroke="white"/>'
