"""Costs with their units."""

from __future__ import annotations

from collections.abc import Callable

from callgrove.model.metrics import time_unit, unit_factor
from callgrove.render.units import si

__all__ = ["amount"]

COUNTED = ("occ", "#")  # how profilers call what has no unit


def amount(unit: str) -> Callable[[float], str]:
    """How a cost of that unit is written: seconds with prefixes, bytes, plain counts."""
    seconds = time_unit(unit)
    if seconds is not None:
        return lambda value: si(value * seconds, "s")
    factor, base = unit_factor(unit)
    word = "" if base in COUNTED else base.lower() if base.lower() in ("byte", "bytes") else base
    return lambda value: si(value * factor, word)
