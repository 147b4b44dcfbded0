"""Plots of models as SVG, PNG or PDF: functions as curves, measurements and their repetitions as dots."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil, floor, isfinite, log10
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

import numpy as np

from callgrove.errors import CallgroveError, MissingExtra, UsageError
from callgrove.model.table import visible
from callgrove.modeling.prediction import Curve, Curves
from callgrove.render.text_table import shorten

__all__ = ["COLOURS", "Axis", "axis_for", "draw_svg", "escape_text", "label", "model_plot", "picture_format"]


# -- axes --------------------------------------------------------------------------------------------------------------


WIDE = 30.0  # a larger ratio between largest and smallest is drawn on a logarithmic axis


@dataclass(frozen=True)
class Axis:
    """From `low` to `high`, drawn from `start` to `end` (in pixels)."""

    low: float
    high: float
    start: float
    end: float
    logarithmic: bool

    def place(self, value: float) -> float:
        low, high = self.low, self.high
        if self.logarithmic:
            value, low, high = (log10(max(v, 1e-300)) for v in (value, low, high))
        part = (value - low) / (high - low)
        return self.start + min(max(part, -0.5), 1.5) * (self.end - self.start)

    def marks(self) -> list[float]:
        return _choose_powers(self.low, self.high) if self.logarithmic else _choose_steps(self.low, self.high)


def axis_for(values: list[float], start: float, end: float) -> Axis:
    """Return an axis that shows all values that are finite."""
    finite = [v for v in values if isfinite(v)] or [0.0, 1.0]
    low, high = min(finite), max(finite)
    if low > 0 and high / low > WIDE:
        return Axis(low / 1.1, high * 1.1, start, end, True)
    if low > 0 and low < high / 2:
        low = 0.0
    room = (high - low) * 0.05 or abs(high) * 0.05 or 1.0
    return Axis(low - room * (low != 0), high + room, start, end, False)


def _choose_powers(low: float, high: float) -> list[float]:
    """Return powers of ten; of two where the range is narrow."""
    if high / low > 1000:
        step = max(1, (floor(log10(high)) - ceil(log10(low))) // 8 + 1)
        return [10.0**k for k in range(ceil(log10(low)), floor(log10(high)) + 1, step)]
    marks = [2.0**k for k in range(-1074, 1024) if low <= 2.0**k <= high]
    return marks or [low, high]


def _choose_steps(low: float, high: float) -> list[float]:
    """Return about six steps of 1, 2 or 5 times a power of ten."""
    rough = (high - low) / 6
    size = 10.0 ** floor(log10(rough))
    step = next(size * k for k in (1, 2, 5, 10) if size * k >= rough)
    return [k * step for k in range(ceil(low / step), floor(high / step) + 1)]


# -- plots of models ---------------------------------------------------------------------------------------------------


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
MOST_REPETITIONS = 2_000  # single values that are drawn


def model_plot(plot: Curves) -> str:
    """Return one SVG document."""
    curves = plot.curves
    x = axis_for([v for c in curves for v in (*c.x.tolist(), *c.measured_x.tolist())], LEFT, RIGHT)
    heights = [v for c in curves for v in (*c.y.tolist(), *c.low.tolist(), *c.high.tolist(), *c.measured_y.tolist())]
    y = axis_for(heights + _band_heights(curves), BOTTOM, TOP)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'font-family="sans-serif" font-size="12">',
        f"<title>{escape_text(plot.title)}</title>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        label(LEFT, 24, plot.title, "start", 'font-size="15" font-weight="bold"'),
        label(LEFT, 44, plot.function, "start", 'fill="#444"'),
        *_frame(x, y, plot.parameter, plot.metric),
    ]
    for number, curve in enumerate(curves):
        parts += _band(curve, x, y, COLOURS[number % len(COLOURS)])
    for number, curve in enumerate(curves):
        parts += _curve(curve, x, y, COLOURS[number % len(COLOURS)])
    parts += _legend(curves)
    if any(np.isfinite(curve.band_low).any() for curve in curves):
        parts.append(label(RIGHT, TOP - 8, "shaded: where the curve lies, about 90%", "end", 'fill="#777"'))
    return "\n".join([*parts, "</svg>", ""])


def _frame(x: Axis, y: Axis, parameter: str, metric: str) -> Iterator[str]:
    for mark in x.marks():
        at = x.place(mark)
        yield f'<path d="M{at:.1f} {TOP}V{BOTTOM}" stroke="#e5e5e5"/>'
        yield label(at, BOTTOM + 18, f"{mark:.6g}", "middle")
    for mark in y.marks():
        at = y.place(mark)
        yield f'<path d="M{LEFT} {at:.1f}H{RIGHT}" stroke="#e5e5e5"/>'
        yield label(LEFT - 8, at + 4, f"{mark:.4g}", "end")
    yield f'<path d="M{LEFT} {TOP}V{BOTTOM}H{RIGHT}" fill="none" stroke="#444"/>'
    yield label((LEFT + RIGHT) / 2, BOTTOM + 40, parameter, "middle")
    middle = (TOP + BOTTOM) / 2
    yield label(18, middle, metric or "<default>", "middle", f'transform="rotate(-90 18 {middle})"')


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
    if len(curve.measured_x) < len(curve.repeated_x) <= MOST_REPETITIONS:
        for at, value in zip(curve.repeated_x.tolist(), curve.repeated_y.tolist(), strict=True):
            if isfinite(value) and not (y.logarithmic and value <= 0):
                where = f'cx="{x.place(at):.1f}" cy="{y.place(value):.1f}"'
                yield f'<circle {where} r="2" fill="none" stroke="{colour}" stroke-opacity="0.6"/>'


MOST_OF_A_BAND = 100.0  # times the curve and the values, up to which the axis makes room for a band


def _band_heights(curves: Sequence[Curve]) -> list[float]:
    """Return the bounds of bands that an axis should show: those that are not far from everything else."""
    heights = []
    for curve in curves:
        with np.errstate(all="ignore"):
            near = (curve.band_high < MOST_OF_A_BAND * curve.y) & (curve.band_low * MOST_OF_A_BAND > curve.y)
        heights += [*curve.band_low[near].tolist(), *curve.band_high[near].tolist()]
    return heights


def _band(curve: Curve, x: Axis, y: Axis, colour: str) -> Iterator[str]:
    known = np.isfinite(curve.band_low) & np.isfinite(curve.band_high)
    if known.sum() < 2:
        return
    at = [x.place(a) for a in curve.x[known].tolist()]
    upper = [y.place(v) for v in curve.band_high[known].tolist()]
    lower = [y.place(v) for v in curve.band_low[known].tolist()]
    outline = [*zip(at, upper, strict=True), *reversed(list(zip(at, lower, strict=True)))]
    points = " ".join(f"{a:.1f},{min(max(b, TOP), BOTTOM):.1f}" for a, b in outline)
    yield f'<polygon points="{points}" fill="{colour}" fill-opacity="0.15"/>'


def _runs(curve: Curve, y: Axis) -> Iterator[list[tuple[float, float]]]:
    """Yield the stretches where the function has a value that can be drawn."""
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
            yield label(LEFT + 32, at - 2, curve.label, "start")


def label(x: float, y: float, text: str, anchor: str, more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor={quoteattr(anchor)} {more}>{escape_text(text)}</text>'


def escape_text(text: str) -> str:
    """Return names from files, without what XML cannot hold."""
    return escape(shorten(visible(text), MOST_LETTERS, "…"))


# -- pictures: SVG, or PNG and PDF with the extra `plots` --------------------------------------------------------------


FORMATS = ("svg", "png", "pdf")
SCALE = 2  # pixels of a PNG for each of the SVG's: sharp on today's screens


def picture_format(name: str) -> str:
    """Return the kind of picture that a file name asks for by its ending; without one it is SVG."""
    ending = Path(name).suffix.lower().removeprefix(".")
    if not ending:
        return FORMATS[0]
    if ending not in FORMATS:
        raise UsageError(f"{name}: plots are written as svg, png or pdf; name it like plot.svg")
    return ending


def draw_svg(svg: str, kind: str) -> bytes:
    """Return an SVG document as the bytes of an SVG, PNG or PDF file."""
    if kind == "svg":
        return svg.encode()
    try:
        import cairosvg
    except ImportError as error:
        raise MissingExtra("plots", f"a plot as {kind.upper()} (SVG needs none: name it like plot.svg)") from error
    except OSError as error:  # the package is there, and the library of the system that it calls is not
        text = f"a plot as {kind.upper()} needs the library cairo: {error}; name it like plot.svg"
        raise CallgroveError(text) from error
    content: bytes
    if kind == "png":
        content = cairosvg.svg2png(bytestring=svg.encode(), scale=SCALE)
    else:
        content = cairosvg.svg2pdf(bytestring=svg.encode())
    return content
