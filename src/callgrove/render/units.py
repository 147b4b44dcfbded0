"""Numbers with units, for people: three significant digits and a prefix; costs; bars and heat strips.

si(0.0451, "s")      45.1 ms        si(12_345)          12.3 k
si(2.5e9, "bytes")   2.50 GB        percent(0.1234)     12.3%
duration_ns(1.5e9)   1.50 s         duration_ns(9e12)   2 h 30 min
printf("%6.2f %%")(12.345)   12.35 %, or None for what is not a format of a number
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from math import floor, isfinite, log10

from callgrove.model.metrics import time_unit, unit_factor

__all__ = ["amount", "bar", "draw_signed_bar", "duration_ns", "heat", "percent", "printf", "si"]


_PREFIXES = {-4: "p", -3: "n", -2: "u", -1: "m", 0: "", 1: "k", 2: "M", 3: "G", 4: "T", 5: "P", 6: "E"}
_SYMBOLS = {"sec": "s", "seconds": "s", "bytes": "B", "byte": "B"}
_WHOLE = {"", "B"}  # counts and bytes: no thousandth of them
_NO_MULTIPLES = {"s"}  # nobody says kiloseconds


def si(value: float, unit: str = "") -> str:
    """Return `value` with the prefix that leaves one to three digits before the point."""
    unit = _SYMBOLS.get(unit, unit)
    if not isfinite(value):
        return f"{value} {unit}".rstrip()
    power = _power(value, unit)
    number = f"{value:.0f}" if power == 0 and value == int(value) else _three_digits(value / 1000.0**power)
    return f"{number} {_PREFIXES[power]}{unit}".rstrip()


def _power(value: float, unit: str) -> int:
    """Return the power of 1000 to divide by."""
    if value == 0:
        return 0
    digits = floor(log10(_round(value)))
    lowest = 0 if unit in _WHOLE else min(_PREFIXES)
    highest = 0 if unit in _NO_MULTIPLES else max(_PREFIXES)
    return min(max(digits // 3, lowest), highest)


def _round(value: float) -> float:
    """Return the size to three digits: 999.6 counts as 1000, since that is how it would be written."""
    size = abs(float(f"{value:.2e}"))
    return size if isfinite(size) else abs(value)  # the largest numbers round to infinity


def _three_digits(value: float) -> str:
    size = _round(value)
    if size >= 100:
        return f"{value:.0f}"
    if size >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}" if size >= 1 else f"{value:.3g}"


def percent(share: float) -> str:
    """Return a share of 1 in percent; what is there but rounds to nothing is `<0.1%`, or `-<0.1%` below zero."""
    if 0 < abs(share) < 0.0005:
        return "<0.1%" if share > 0 else "-<0.1%"
    return f"{100 * share:.1f}%"


_PRINTF = re.compile(r"(?:[^%]|%%){0,40}%[-+ #0]{0,5}\d{0,2}(?:\.\d{1,2})?(?P<kind>[eEfFgGdi])(?:[^%]|%%){0,40}")


def printf(number_format: str) -> Callable[[float], str] | None:
    """Return how C writes one number in this format; None where the format is not one of a number."""
    match = _PRINTF.fullmatch(number_format)
    if match is None:
        return None
    return lambda value: (number_format % value).strip() if isfinite(value) else str(value)


def duration_ns(time_ns: float) -> str:
    """Return a time span given in nanoseconds: `850 ns`, `45.1 ms`, `12.3 s`, `2 min 5 s`, `3 h 20 min`."""
    if not isfinite(time_ns) or abs(time_ns) < 120e9:
        return si(time_ns / 1e9, "s")
    sign = "-" if time_ns < 0 else ""
    seconds = round(abs(time_ns) / 1e9)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{sign}{hours} h {minutes} min" if hours else f"{sign}{minutes} min {seconds} s"


# -- costs -------------------------------------------------------------------------------------------------------------


COUNTED = ("occ", "#")  # how profilers call what has no unit


def amount(unit: str) -> Callable[[float], str]:
    """Return how a cost of that unit is written: seconds with prefixes, bytes, plain counts."""
    seconds = time_unit(unit)
    if seconds is not None:
        return lambda value: si(value * seconds, "s")
    factor, base = unit_factor(unit)
    word = "" if base in COUNTED else base.lower() if base.lower() in ("byte", "bytes") else base
    return lambda value: si(value * factor, word)


# -- bars --------------------------------------------------------------------------------------------------------------
# bar(0.55, 4)                  ██▏
# bar(0.55, 4, unicode=False)   ##
# draw_signed_bar(-0.55, 4)          -██▏


_EIGHTHS = " ▏▎▍▌▋▊▉█"
_ASCII = " -#"


def bar(share: float, width: int = 10, *, unicode: bool = True) -> str:
    """Return `share` of `width` cells, padded to that width. Beyond 0 to 1 it is cut; a share above 0 always shows."""
    glyphs = _EIGHTHS if unicode else _ASCII
    steps = len(glyphs) - 1
    share = min(max(share, 0.0), 1.0) if share == share else 0.0
    filled = round(share * width * steps)
    if share > 0:
        filled = max(filled, 1)
    whole, part = divmod(filled, steps)
    return (glyphs[-1] * whole + (glyphs[part] if part else "")).ljust(width)


def draw_signed_bar(share: float, width: int = 10, *, unicode: bool = True) -> str:
    """Return the size of a share as a bar behind its sign; nothing has none."""
    sign = "+" if share > 0 else "-" if share < 0 else " "
    return sign + bar(abs(share), width, unicode=unicode)


# -- heat strips -------------------------------------------------------------------------------------------------------
# heat([24, 26, 28, 38])                  ▓▓▓█
# heat([24, 26, 28, 38], unicode=False)   ***#
# heat([0, 8, 0, 0])                      ·█··


_SHADES = "·░▒▓█"
_ASCII_SHADES = ".:+*#"


def heat(values: Sequence[float | None], width: int = 16, *, unicode: bool = True) -> str:
    """Return a character for each value, from light for nothing to dark for the largest; one that is missing is blank.
    More than `width` values become so many groups of neighbours, each as dark as its largest."""
    glyphs = _SHADES if unicode else _ASCII_SHADES
    n = min(len(values), width)
    bounds = [k * len(values) // n for k in range(n + 1)] if n else []
    cells = [_largest(values[start:end]) for start, end in pairwise(bounds)]
    top = max((cell for cell in cells if cell is not None), default=0.0)
    steps = len(glyphs) - 1
    return "".join(" " if cell is None else glyphs[_shade(cell, top, steps)] for cell in cells)


def _largest(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None and value == value]
    return max(known, default=None)


def _shade(value: float, top: float, steps: int) -> int:
    """Return how dark a value is; what is there is never as light as nothing."""
    return max(1, round(steps * min(value / top, 1.0))) if 0 < value and isfinite(top) else 0
