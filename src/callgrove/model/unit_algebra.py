"""Units of computed values: what a product, a ratio or a power of units is called, and which units can be added.

    Unit.parse("sec") / Unit.parse("occ")        sec/occ
    Unit.parse("sec/occ") * Unit.parse("occ")    sec
    factor_between(Unit.parse("sec"), Unit.parse("ms"))     0.001: so many sec are one ms

A unit is a product of powers of names. Names of times are known by their length, so that `s` and `sec` cancel out; all
others are what they are called. Nothing is converted but times.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction

from callgrove.model.metrics import time_unit

__all__ = ["Unit", "factor_between"]

TIME = "time\0"  # no unit is called so
FINEST = 1000  # denominator of an exponent
POWER = re.compile(r"(.*[^\d\s].*)\^(-?\d{1,6}(?:\.\d{1,6})?)")  # not the 2^10 of `2^10 Bytes`

Name = tuple[str, float]  # what is measured, and how much of it one is: (TIME, 0.001) is a millisecond


@dataclass(frozen=True)
class Unit:
    """Powers of named units; of two spellings of one name, the first counts."""

    powers: tuple[tuple[str, Fraction], ...] = ()

    @classmethod
    def parse(cls, text: str) -> Unit:
        """Return a unit such as `sec`, `MB/s` or `1/sec^2`; what has no such form is one name."""
        unit = cls()
        for sign, part in re.findall(r"(^|[*/])([^*/]*)", text.strip()):
            name = part.strip()
            power = POWER.fullmatch(name)
            exponent = Fraction(power[2]) if power else Fraction(1)
            if name and name != "1":
                factor = cls(((power[1].strip() if power else name, exponent),))
                unit = unit / factor if sign == "/" else unit * factor
        return unit

    def __mul__(self, other: Unit) -> Unit:
        out: dict[Name, tuple[str, Fraction]] = {}
        for text, exponent in (*self.powers, *other.powers):
            spelled, so_far = out.get(_name(text), (text, Fraction(0)))
            out[_name(text)] = spelled, so_far + exponent
        return Unit(tuple(power for power in out.values() if power[1]))

    def __truediv__(self, other: Unit) -> Unit:
        return self * other.to_power(-1.0)

    def to_power(self, exponent: float) -> Unit:
        """Return a power; `exponent` is finite."""
        power = Fraction(exponent).limit_denominator(FINEST)
        return Unit(tuple((text, own * power) for text, own in self.powers if own * power))

    def __str__(self) -> str:
        above = "*".join(_spell(text, exponent) for text, exponent in self.powers if exponent > 0)
        below = "".join(f"/{_spell(text, -exponent)}" for text, exponent in self.powers if exponent < 0)
        return f"{above or '1'}{below}" if below else above

    @property
    def dimension(self) -> tuple[dict[str, Fraction], float]:
        """What is measured, and how much of it one is."""
        exponents: dict[str, Fraction] = {}
        size = 1.0
        for text, exponent in self.powers:
            name, factor = _name(text)
            exponents[name] = exponents.get(name, Fraction(0)) + exponent
            size *= factor ** float(exponent)
        return {name: exponent for name, exponent in exponents.items() if exponent}, size


def factor_between(unit: Unit, other: Unit) -> float | None:
    """Return how many of a unit one of the other is; None where both measure different things."""
    (what, size), (other_what, other_size) = unit.dimension, other.dimension
    if what != other_what:
        return None
    return float(f"{other_size / size:.15g}")  # 1e-9 / 1e-6 is 0.001


def _name(text: str) -> Name:
    seconds = time_unit(text)
    return (text, 1.0) if seconds is None else (TIME, seconds)


def _spell(text: str, exponent: Fraction) -> str:
    if exponent == 1:
        return text
    return f"{text}^{exponent}" if exponent.denominator == 1 else f"{text}^{float(exponent):.6g}"
