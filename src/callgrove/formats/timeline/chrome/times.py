"""Times of Chrome traces: decimal microseconds in text -> whole nanoseconds, exactly.

Specification: more-inputs.md 1.2. Times since the epoch have 16 digits before the point and 3 after it; a double keeps
steps of a quarter of a microsecond there. So numbers stay text until here, and digits become integers. Nearly all have
three digits after the point, or are whole; others, with exponents or fractions of a nanosecond, go through `Decimal`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import ROUND_HALF_EVEN, Decimal, InvalidOperation
from typing import Any

import numpy as np

from callgrove.arrays import MISSING, Bools, Ints

__all__ = ["read_numbers", "read_spans", "read_times"]

LIMIT = 1 << 62  # nanoseconds: a base may be added to them
MOST_DIGITS = 17  # before the point, of microseconds
POINT = frozenset(".")
DIGITS = re.compile(r"-?(?:\d{1,18}|[1-4]\d{18})(?: -?(?:\d{1,18}|[1-4]\d{18}))*")


def read_times(cells: Sequence[object]) -> tuple[Ints, Bools]:
    """Return times in ns, and which of the cells are times."""
    times = _read_usual(cells)
    if times is None:
        times = np.array([_whole(_exact(cell)) for cell in cells], np.int64)
    return times, _are_times(times)


def read_spans(starts: Sequence[object], durations: Sequence[object]) -> tuple[Ints, Ints, Bools, Bools]:
    """Return starts and ends in ns, which rows have usable times, and which have no duration: these end at once. The
    end is that of the exact sum."""
    start, lasts = _read_usual(starts), _read_usual(durations)
    if start is None or lasts is None:
        return _read_spans_exactly(starts, durations)
    good = _are_times(start) & _are_times(lasts)
    return start, start + np.where(good, lasts, 0), good, np.zeros(len(start), np.bool_)


def _read_spans_exactly(starts: Sequence[object], durations: Sequence[object]) -> tuple[Ints, Ints, Bools, Bools]:
    begins = [_exact(cell) for cell in starts]
    lasts = [Decimal(0) if cell is None else _exact(cell) for cell in durations]
    sums = [None if a is None or b is None else a + b for a, b in zip(begins, lasts, strict=True)]
    start = np.array([_whole(number) for number in begins], np.int64)
    end = np.array([_whole(number) for number in sums], np.int64)
    good = _are_times(start) & _are_times(end)
    return start, end, good, np.array([cell is None for cell in durations], np.bool_)


def _are_times(times: Ints) -> Bools:
    good: Bools = (times < LIMIT) & (times > -LIMIT)
    return good


def _read_usual(cells: Sequence[Any]) -> Ints | None:
    """Return ns of whole numbers and of texts with three digits after the point; None where any cell is another one."""
    try:
        if {cell[-4:-3] for cell in cells} == POINT:  # the digits of all at once
            text = " ".join(cells).replace(".", "")
            if DIGITS.fullmatch(text):
                return np.fromstring(text, np.int64, sep=" ")
    except TypeError:  # whole numbers have no last digits
        pass
    try:
        return np.array([_fast(cell) for cell in cells], np.int64)
    except (ValueError, TypeError, OverflowError):
        return None


def _fast(cell: Any) -> int:
    """Return ns of a whole number or of a text with three digits after the point; any other cell is an error."""
    if cell.__class__ is str:
        if cell[-4:-3] != ".":
            raise ValueError
        return int(cell[:-4] + cell[-3:])
    if cell.__class__ is int:
        ns: int = cell * 1000
        return ns
    raise TypeError


def _exact(cell: object) -> Decimal | None:
    """Return a cell as a number of microseconds; None where it is none, or far beyond what 64 bits hold."""
    if isinstance(cell, bool) or not isinstance(cell, int | str | float):
        return None
    try:
        number = Decimal(cell if isinstance(cell, int) else str(cell).strip())
    except InvalidOperation:
        return None
    return number if number.is_finite() and (not number or number.adjusted() < MOST_DIGITS) else None


def _whole(number: Decimal | None) -> int:
    if number is None:
        return MISSING
    ns = int((number * 1000).to_integral_value(ROUND_HALF_EVEN))
    return ns if -LIMIT < ns < LIMIT else MISSING


def read_numbers(cells: Sequence[object]) -> Ints:
    """Return whole numbers, such as ids; -1 for cells that are none, or beyond 64 bits."""
    try:
        numbers = np.array(cells, np.int64)
        if numbers.ndim == 1:  # lists of one length would be a table
            return numbers
    except (ValueError, TypeError, OverflowError):
        pass
    return np.array([_number(cell) for cell in cells], np.int64)


def _number(cell: object) -> int:
    if isinstance(cell, bool) or not isinstance(cell, int | str):
        return -1
    try:
        number = int(cell)
    except ValueError:
        return -1
    return number if 0 <= number < 1 << 63 else -1
