"""Costs with their units."""

from __future__ import annotations

from collections.abc import Callable

from callgrove.model.metrics import time_unit
from callgrove.render.units import si

__all__ = ["amount"]


def amount(unit: str) -> Callable[[float], str]:
    """How a cost of that unit is written: seconds with prefixes, bytes, plain counts."""
    seconds = time_unit(unit)
    if seconds is not None:
        return lambda value: si(value * seconds, "s")
    return lambda value: si(value, unit)
