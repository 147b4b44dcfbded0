"""The POINTS of Extra-P's text format.

10 20 30                 bare numbers, with one parameter
(10 1) (20 1)            points of two coordinates; commas may separate coordinates too
((10) (1)) ((20) (1))    the same, nested as the document shows it
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from callgrove.errors import CorruptFile

__all__ = ["is_number", "number_trouble", "parse_points"]

Point = tuple[float, ...]

_TOKEN = re.compile(r"[()]|[^\s(),]+|,")
_DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+([eE][+-]?\d+)?")


def number_trouble(path: Path, section: str, line: int, token: str) -> CorruptFile:
    """The error for a word that is no number."""
    comma = bool(_DECIMAL_COMMA.fullmatch(token))
    remedy = "write a decimal point instead of the comma" if comma else ""
    return CorruptFile(path, section, line=line, expected="a number", found=repr(token), remedy=remedy)


def parse_points(text: str, parameters: Sequence[str], path: Path, line: int) -> list[Point]:
    """The points of one POINTS line."""
    if "(" not in text and ")" not in text:
        found = _bare(text, parameters, path, line)
    else:
        found = _flat(text) or [one.coordinates for one in _nested(text, len(parameters), path, line)]
    if wrong := [point for point in found if len(point) != len(parameters)]:
        raise _wrong_count(wrong[0], parameters, path, line)
    if not all(map(math.isfinite, chain.from_iterable(found))):
        point = next(one for one in found if not all(map(math.isfinite, one)))
        raise CorruptFile(path, "POINTS", line=line, expected="finite coordinates", found=_written(point))
    return found


def _bare(text: str, parameters: Sequence[str], path: Path, line: int) -> list[Point]:
    words = text.split()
    try:
        numbers = list(map(float, words))
    except ValueError:
        wrong = next(word for word in words if not is_number(word))
        raise number_trouble(path, "POINTS", line, wrong) from None
    if len(parameters) == 1:
        return [(number,) for number in numbers]
    raise _wrong_count(tuple(numbers[:1]), parameters, path, line)


def _flat(text: str) -> list[Point]:
    """Points without nesting, quickly; empty where there is anything unusual."""
    *parts, rest = text.replace(",", " ").split(")")
    if rest.strip() or not all(part.lstrip().startswith("(") and part.count("(") == 1 for part in parts):
        return []
    try:
        return [tuple(map(float, part.lstrip()[1:].split())) for part in parts]
    except ValueError:
        return []


@dataclass
class _Open:
    """A point in the making."""

    column: int
    numbers: list[float]
    inner: int = -1  # how many numbers there were when an inner parenthesis opened

    @property
    def coordinates(self) -> Point:
        return tuple(self.numbers)


def _nested(text: str, n_parameters: int, path: Path, line: int) -> Iterator[_Open]:
    """Points with parentheses, token by token."""
    point: _Open | None = None
    for token in _TOKEN.finditer(text):
        word, column = token.group(), token.start() + 1
        if word == "(" and point is None:
            point = _Open(column, [])
        elif point is None:
            if word in "),":
                raise _unbalanced(path, line, column, repr(word))
            if n_parameters != 1:
                raise CorruptFile(path, "POINTS", line=line, expected="a point in parentheses", found=repr(word))
            yield _Open(column, [_number(word, path, line)])
        elif word == "(":
            if point.inner >= 0:
                raise _unbalanced(path, line, column, "a third '('")
            point.inner = len(point.numbers)
        elif word == ")" and point.inner >= 0:
            if len(point.numbers) != point.inner + 1:
                inside = f"{len(point.numbers) - point.inner} numbers in it"
                raise CorruptFile(path, f"POINTS, column {column}", line=line, expected="one number", found=inside)
            point.inner = -1
        elif word == ")":
            yield point
            point = None
        elif word != ",":
            point.numbers.append(_number(word, path, line))
    if point is not None:
        raise _unbalanced(path, line, point.column, "'(' that is never closed")


def _number(word: str, path: Path, line: int) -> float:
    if not is_number(word):
        raise number_trouble(path, "POINTS", line, word)
    return float(word)


def is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def _unbalanced(path: Path, line: int, column: int, found: str) -> CorruptFile:
    return CorruptFile(path, f"POINTS, column {column}", line=line, expected="balanced parentheses", found=found)


def _written(point: Point) -> str:
    return f"({' '.join(f'{c:g}' for c in point)})"


def _wrong_count(point: Point, parameters: Sequence[str], path: Path, line: int) -> CorruptFile:
    n = len(parameters)
    wanted = f"{n} coordinate{'s' * (n != 1)} for the parameter{'s' * (n != 1)} {', '.join(parameters)}"
    return CorruptFile(path, "POINTS", line=line, expected=wanted, found=f"{len(point)} in {_written(point)}")
