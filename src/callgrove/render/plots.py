"""Plots of models as SVG: the function as a curve, measurements as dots with their range. No I/O."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isfinite
from xml.sax.saxutils import escape, quoteattr

from callgrove.modeling.curves import Curve, Curves
from callgrove.render.axes import Axis, axis_for
from callgrove.render.visible import shorten, visible

__all__ = ["model_plot"]

WIDTH, HEIGHT = 720, 460
LEFT, RIGHT, TOP, BOTTOM = 80, 700, 70, 400
COLOURS = (
    "#0072b2",
    "#d55e00",
    "#009e73",
    "#cc79a7",
    "#56b4e9",
    "#e69f00",
    "#5c5c5c",
    "#8c564b",
)  # told apart by all eyes
MOST_LETTERS = 90


def model_plot(plot: Curves) -> str:
    """One SVG document."""
    curves = plot.curves
    x = axis_for([v for c in curves for v in (*c.x.tolist(), *c.measured_x.tolist())], LEFT, RIGHT)
    heights = [v for c in curves for v in (*c.y.tolist(), *c.low.tolist(), *c.high.tolist(), *c.measured_y.tolist())]
    y = axis_for(heights, BOTTOM, TOP)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'font-family="sans-serif" font-size="12">',
        f"<title>{_text(plot.title)}</title>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        _label(LEFT, 24, plot.title, "start", 'font-size="15" font-weight="bold"'),
        _label(LEFT, 44, plot.function, "start", 'fill="#444"'),
        *_frame(x, y, plot.parameter, plot.metric),
    ]
    for number, curve in enumerate(curves):
        parts += _curve(curve, x, y, COLOURS[number % len(COLOURS)])
    parts += _legend(curves)
    return "\n".join([*parts, "</svg>", ""])


def _frame(x: Axis, y: Axis, parameter: str, metric: str) -> Iterator[str]:
    for mark in x.marks():
        at = x.place(mark)
        yield f'<path d="M{at:.1f} {TOP}V{BOTTOM}" stroke="#e5e5e5"/>'
        yield _label(at, BOTTOM + 18, f"{mark:.6g}", "middle")
    for mark in y.marks():
        at = y.place(mark)
        yield f'<path d="M{LEFT} {at:.1f}H{RIGHT}" stroke="#e5e5e5"/>'
        yield _label(LEFT - 8, at + 4, f"{mark:.4g}", "end")
    yield f'<path d="M{LEFT} {TOP}V{BOTTOM}H{RIGHT}" fill="none" stroke="#444"/>'
    yield _label((LEFT + RIGHT) / 2, BOTTOM + 40, parameter, "middle")
    middle = (TOP + BOTTOM) / 2
    yield _label(18, middle, metric or "<default>", "middle", f'transform="rotate(-90 18 {middle})"')


def _curve(curve: Curve, x: Axis, y: Axis, colour: str) -> Iterator[str]:
    for run in _runs(curve, y):
        points = " ".join(f"{x.place(a):.1f},{y.place(b):.1f}" for a, b in run)
        yield f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>'
    measured = (curve.measured_x, curve.measured_y, curve.low, curve.high)
    for at, value, low, high in zip(*(column.tolist() for column in measured), strict=True):
        if y.logarithmic and value <= 0:
            continue
        place = x.place(at)
        if low < high:
            yield f'<path d="M{place:.1f} {y.place(low):.1f}V{y.place(high):.1f}" stroke="{colour}"/>'
        yield f'<circle cx="{place:.1f}" cy="{y.place(value):.1f}" r="3.5" fill="{colour}"/>'


def _runs(curve: Curve, y: Axis) -> Iterator[list[tuple[float, float]]]:
    """The stretches where the function has a value that can be drawn."""
    run: list[tuple[float, float]] = []
    for at, value in zip(curve.x.tolist(), curve.y.tolist(), strict=True):
        if isfinite(value) and not (y.logarithmic and value <= 0):
            run.append((at, value))
        elif run:
            yield run
            run = []
    if run:
        yield run


def _legend(curves: Sequence[Curve]) -> Iterator[str]:
    for number, curve in enumerate(curves):
        if curve.label:
            at = TOP + 14 + 17 * number
            yield f'<rect x="{LEFT + 12}" y="{at - 8}" width="14" height="4" fill="{COLOURS[number % len(COLOURS)]}"/>'
            yield _label(LEFT + 32, at - 2, curve.label, "start")


def _label(x: float, y: float, text: str, anchor: str, more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor={quoteattr(anchor)} {more}>{_text(text)}</text>'


def _text(text: str) -> str:
    """Names from files, without what XML cannot hold."""
    return escape(shorten(visible(text), MOST_LETTERS, "…"))
