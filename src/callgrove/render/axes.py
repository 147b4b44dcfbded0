"""Axes of plots: from numbers to places, and where to put marks."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor, isfinite, log10

__all__ = ["Axis", "axis_for"]

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
        return _powers(self.low, self.high) if self.logarithmic else _round_steps(self.low, self.high)


def axis_for(values: list[float], start: float, end: float) -> Axis:
    """An axis that shows all values that are finite."""
    finite = [v for v in values if isfinite(v)] or [0.0, 1.0]
    low, high = min(finite), max(finite)
    if low > 0 and high / low > WIDE:
        return Axis(low / 1.1, high * 1.1, start, end, True)
    if low > 0 and low < high / 2:
        low = 0.0
    room = (high - low) * 0.05 or abs(high) * 0.05 or 1.0
    return Axis(low - room * (low != 0), high + room, start, end, False)


def _powers(low: float, high: float) -> list[float]:
    """Powers of ten; of two where the range is narrow."""
    if high / low > 1000:
        step = max(1, (floor(log10(high)) - ceil(log10(low))) // 8 + 1)
        return [10.0**k for k in range(ceil(log10(low)), floor(log10(high)) + 1, step)]
    marks = [2.0**k for k in range(-1074, 1024) if low <= 2.0**k <= high]
    return marks or [low, high]


def _round_steps(low: float, high: float) -> list[float]:
    """About six steps of 1, 2 or 5 times a power of ten."""
    rough = (high - low) / 6
    size = 10.0 ** floor(log10(rough))
    step = next(size * k for k in (1, 2, 5, 10) if size * k >= rough)
    return [k * step for k in range(ceil(low / step), floor(high / step) + 1)]
