"""Spread plots as SVG: for each function, what it costs on every rank, thread, GPU, node or run.

    kernel         |   o  o[ o |  ]-------o  rank 3     box: from the first to the third quartile, a line at the median;
    MPI_Allreduce  | o---[  |o ]o  rank 0               whiskers: the least and the most; dots: single ranks

Rows and numbers are those of the table of imbalances, what costs the others most first. All rows have one axis.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import isfinite

import numpy as np

from callgrove.analysis.costs import Costs
from callgrove.analysis.spread.imbalance import Imbalance, Question, imbalance
from callgrove.arrays import Floats
from callgrove.errors import UsageError
from callgrove.render.cost_texts import shorten_place
from callgrove.render.plots import Axis, axis_for
from callgrove.render.svg import INK, LINE, MUTED, Picture, add_title, draw_text, fit_name, mix
from callgrove.render.units import amount

__all__ = ["SpreadOptions", "draw_spread"]


ROW, HEAD, FOOT, EDGE = 30, 58, 40, 10
NAMES, SLOWEST = 0.26, 110  # room for names, as a share of the width, and for who is slowest, in pixels
BOX, DOT = 12, 2.2
FONT = 12
FILL, STROKE, WORST = "#a9d3ee", "#0072b2", "#d55e00"
MOST_DOTS = 256  # of a row; of more entities, quartiles say more than dots
NARROWEST, WIDEST = 400, 20_000
STATISTICS = ("min", "p25", "median", "p75", "max")


@dataclass(frozen=True)
class SpreadOptions:
    """How a spread plot is drawn."""

    width: int = 900
    title: str = ""

    def __post_init__(self) -> None:
        if not NARROWEST <= self.width <= WIDEST:
            raise UsageError(f"a width of {self.width} pixels cannot be drawn; choose {NARROWEST} to {WIDEST}")


def draw_spread(costs: Costs, asked: Question, options: SpreadOptions) -> Picture:
    """Return the plot of what is asked: see `imbalance`."""
    spread = imbalance(costs, asked)
    table, n = spread.table, len(spread.table)
    height = HEAD + n * ROW + FOOT
    over = f"{len(spread.entities):,} {spread.entities.over}s"
    scope = "" if asked.scope.word == "exclusive" else f"{asked.scope.word} "
    title = options.title or f"{costs.experiment.title}: {scope}{costs.metric.name} over {over}"
    room = options.width - 2 * EDGE
    bold = 'font-size="14" font-weight="bold"'
    parts = [draw_text(EDGE, 22, fit_name(title, room, 14), more=bold)]
    if n:
        plot = _Plot(costs, spread, options)
        parts += [*plot.frame(height), *(part for row in range(n) for part in plot.row(row))]
    left = f"; {table.left:,} more rows are left out" if table.left > 0 else ""
    says = f"box: quartiles and median, whiskers: least and most, orange: the slowest{left}"
    parts.append(draw_text(EDGE, 40, fit_name(says, room, 11), more=f'fill="{MUTED}" font-size="11"'))
    return Picture.of(options.width, height, title, parts, (*table.notes, *([says] if n else [])))


class _Plot:
    """Rows over one axis."""

    def __init__(self, costs: Costs, spread: Imbalance, options: SpreadOptions) -> None:
        self._spread, self._width = spread, options.width
        self._unit, self._write = costs.metric.unit, amount(costs.metric.unit)
        self._rows = list(spread.table)
        self._names = options.width * NAMES
        values = [row[name] for row in self._rows for name in STATISTICS if row.get(name) is not None]
        axis = axis_for([0.0, *values], self._names, options.width - SLOWEST)
        self._axis = Axis(min(axis.low, 0.0), axis.high, axis.start, axis.end, logarithmic=False)

    def frame(self, height: int) -> Iterator[str]:
        bottom = height - FOOT
        for mark in self._axis.marks():
            at = self._axis.place(mark)
            yield f'<path d="M{at:.1f} {HEAD - 4}V{bottom}" stroke="{LINE}"/>'
            yield draw_text(at, bottom + 16, self._write(mark), "middle", f'fill="{MUTED}" font-size="11"')

    def row(self, number: int) -> Iterator[str]:
        row, middle = self._rows[number], HEAD + number * ROW + ROW / 2
        look = f'font-size="{FONT}"'
        name = fit_name(shorten_place(row["name"], row["kind"]), self._names - 2 * EDGE, FONT)
        elements = [draw_text(EDGE, middle + 4, name or "…", more=look), *self._strip(number, row, middle)]
        if row["max"] is not None:
            at = self._axis.place(row["max"]) + 8
            slowest = "all equal" if row["min"] == row["max"] and row["n"] > 1 else row["slowest"] or ""
            told = fit_name(slowest, self._width - at - 2, 11)
            elements.append(draw_text(at, middle + 4, told, more=f'fill="{WORST}" font-size="11"'))
        yield add_title(self._tell(row), *elements)

    def _strip(self, number: int, row: dict[str, object], middle: float) -> Iterator[str]:
        places = {name: self._axis.place(float(row[name])) for name in STATISTICS if _is_number(row.get(name))}  # type: ignore[arg-type]
        if "min" not in places or "max" not in places:
            return
        yield f'<path d="M{places["min"]:.1f} {middle:.1f}H{places["max"]:.1f}" stroke="{INK}"/>'
        if {"p25", "median", "p75"} <= places.keys():
            left, width = places["p25"], max(places["p75"] - places["p25"], 1.0)
            top = middle - BOX / 2
            box = f'x="{left:.1f}" y="{top:.1f}" width="{width:.1f}" height="{BOX}"'
            yield f'<rect {box} fill="{FILL}" stroke="{STROKE}"/>'
            yield f'<path d="M{places["median"]:.1f} {top:.1f}v{BOX}" stroke="{STROKE}" stroke-width="2"/>'
        for name in ("min", "max"):
            yield f'<path d="M{places[name]:.1f} {middle - 4:.1f}v8" stroke="{INK}"/>'
        yield from self._dots(number, middle)
        yield f'<circle cx="{places["max"]:.1f}" cy="{middle:.1f}" r="{DOT + 1}" fill="{WORST}"/>'

    def _dots(self, number: int, middle: float) -> Iterator[str]:
        matrix = self._spread.matrix
        if matrix is None or matrix.shape[1] > MOST_DOTS:
            return
        colour = mix(STROKE, "#ffffff", 0.25)
        values: Floats = matrix[number][np.isfinite(matrix[number])]
        for value in values.tolist():
            yield f'<circle cx="{self._axis.place(value):.1f}" cy="{middle:.1f}" r="{DOT}" fill="{colour}"/>'

    def _tell(self, row: dict[str, object]) -> str:
        """Return what is shown where the mouse is: exact values."""
        numbers = (f"{name} {row[name]!r} {self._unit}".rstrip() for name in STATISTICS if row.get(name) is not None)
        return "\n".join([str(row["name"]), *numbers, f"slowest: {row['slowest']}"])


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and isfinite(value)
