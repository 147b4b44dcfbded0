"""How costs, names and places are written for people: the same in tables of the command line and in the interactive
terminal.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable

from callgrove.render.text_formats import reading_float
from callgrove.render.text_table import INDENT
from callgrove.render.units import amount

__all__ = ["amount_of", "format_place", "indent_name", "shorten_place", "write_unit"]

PLACES = ("line", "loop", "instruction", "call", "file", "module")  # kinds that are named after a path
LOOP_AT = "loop at "
WRITTEN = re.compile(r"[^\W\d]+|#|\d+\^-?\d+ \w+")  # a unit that can have prefixes, as far as anybody knows
DEEPEST_INDENT = 40  # levels; deeper rows say their depth instead


def amount_of(unit: str, is_derived: bool) -> Callable[[float], str]:
    """Return how a cost is written: units that a formula made are not given prefixes."""
    if not is_derived:
        return amount(unit)
    return write_unit(unit) or (lambda value: f"{reading_float(value)} {unit}")


def write_unit(unit: str) -> Callable[[float], str] | None:
    """Return how a derived value of that unit is written; None where prefixes of the unit mean nothing."""
    if not unit:
        return reading_float
    return amount(unit) if WRITTEN.fullmatch(unit) else None


def indent_name(name: str, kind: str, depth: int) -> str:
    """Return the name indented under its callers; a place is shown without the folders it lies in."""
    short = shorten_place(name, kind)
    if depth > DEEPEST_INDENT:
        return f"{' ' * INDENT * DEEPEST_INDENT}({depth}) {short}"
    return " " * INDENT * depth + short


def shorten_place(name: str, kind: str | None) -> str:
    """Return a name without the folders, where it is a place: the end tells it from others."""
    if kind not in PLACES:
        return name
    what = LOOP_AT if name.startswith(LOOP_AT) else ""
    return what + name.removeprefix(what).rpartition("/")[2]


def format_place(file: str | None, line: int | None, module: str | None) -> str:
    """Return where something is: `file.c:12`, or its module in brackets."""
    if file:
        return f"{os.path.basename(file)}:{line}" if line else os.path.basename(file)  # noqa: PTH119 - a foreign path
    return f"[{os.path.basename(module)}]" if module else ""  # noqa: PTH119
