"""What variables of CubePL hold, and what its operators and functions make of it.

A value is a number or a text, the same in all cells that a formula is evaluated for, or one for each cell:

    float, str       one for all cells
    Floats           a number for each cell
    Texts            a text or a number for each cell

Every value can be read as a number and as a text. An undefined variable is the empty text, whose number is 0.

What is special about arithmetic: 0/x is 0 for every x, x/0 is NaN; the root and the logarithm of a negative number are
0, the logarithm of 0 is NaN.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from callgrove.arrays import Bools, Floats, Ints

__all__ = [
    "FUNCTIONS",
    "UNDEFINED",
    "Column",
    "Elements",
    "Mask",
    "Numbers",
    "TextTable",
    "Texts",
    "Value",
    "both",
    "divide",
    "either",
    "has_any",
    "negate",
    "number_of_text",
    "power",
    "to_numbers",
]

UNDEFINED = ""
NUMBER = re.compile(r"\s*+([+-]?(?:[0-9]++\.?[0-9]*+|\.[0-9]++)(?:[eE][+-]?[0-9]++)?)")
MOST_SCATTERED = 1000  # writes to elements that differ from cell to cell


# -- masks -------------------------------------------------------------------------------------------------------------
# Which cells a statement is executed for: all, none, or those that are true.


Mask = bool | Bools


def both(one: Mask, other: Mask) -> Mask:
    """Return the cells of both masks."""
    if isinstance(one, bool):
        return other if one else False
    if isinstance(other, bool):
        return one if other else False
    return one & other


def either(one: Mask, other: Mask) -> Mask:
    """Return the cells of at least one mask."""
    if isinstance(one, bool):
        return True if one else other
    if isinstance(other, bool):
        return True if other else one
    return one | other


def negate(mask: Mask) -> Mask:
    """Return the other cells."""
    return not mask if isinstance(mask, bool) else ~mask


def has_any(mask: Mask) -> bool:
    """Return whether a mask has any cells."""
    return mask if isinstance(mask, bool) else bool(mask.any())


# -- values ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Texts:
    """A value for each cell: the number of a text in the table, or -1 where it is a number. `numbers` are the numbers
    of all of them."""

    codes: Ints
    numbers: Floats


Value = float | str | Floats | Texts
Numbers = float | Floats


def number_of_text(text: str) -> float:
    """Return the number at the beginning of a text; 0 where there is none."""
    found = NUMBER.match(text)
    return float(found[1]) if found is not None else 0.0


def text_of_number(number: float) -> str:
    """Return the shortest text of a number."""
    return repr(number).removesuffix(".0")


def to_numbers(value: Value) -> Numbers:
    """Return a value as a number, or as numbers."""
    if isinstance(value, float):
        return value
    if isinstance(value, str):
        return number_of_text(value)
    return value.numbers if isinstance(value, Texts) else value


class TextTable:
    """All texts that occur, each with a number; that of the empty text is 0."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._codes: dict[str, int] = {}
        self.code(UNDEFINED)

    def code(self, text: str) -> int:
        """Return the number of a text."""
        code = self._codes.setdefault(text, len(self.texts))
        if code == len(self.texts):
            self.texts.append(text)
        return code

    def codes(self, texts: Sequence[str]) -> Ints:
        """Return the numbers of many texts."""
        return np.fromiter(map(self.code, texts), np.int64, len(texts))

    def numbers(self, codes: Ints) -> Floats:
        """Return texts as numbers."""
        numbers: Floats = self.look_up(codes, number_of_text, np.float64)
        return numbers

    def look_up(self, codes: Ints, function: Callable[[str], Any], dtype: Any) -> Any:
        """Return a function of each text; it is called once for each that differs."""
        occurs = np.zeros(len(self.texts), np.bool_)
        occurs[codes] = True
        answers = np.zeros(len(self.texts), dtype)
        for code in np.flatnonzero(occurs).tolist():
            answers[code] = function(self.texts[code])
        return answers[codes]

    def spread(self, value: Value) -> Texts:
        """Return a value as one of cells."""
        if isinstance(value, Texts):
            return value
        if isinstance(value, str):
            return Texts(np.array([self.code(value)]), np.array([number_of_text(value)]))
        numbers = np.atleast_1d(np.asarray(value, np.float64))
        return Texts(np.full(numbers.shape, -1, np.int64), numbers)

    def read(self, value: Value) -> str | Ints:
        """Return a value as a text, or as numbers of texts."""
        if isinstance(value, str):
            return value
        if isinstance(value, float):
            return text_of_number(value)
        texts = self.spread(value)
        is_number = texts.codes < 0
        if not is_number.any():
            return texts.codes
        different, number = np.unique(texts.numbers[is_number], return_inverse=True)
        codes = texts.codes.copy()
        codes[is_number] = self.codes([text_of_number(n) for n in different.tolist()])[number.reshape(-1)]
        return codes

    def select(self, mask: Mask, new: Value, old: Value) -> Value:
        """Return the new value where the mask is true, the old one elsewhere."""
        if isinstance(mask, bool):
            return new if mask else old
        if isinstance(new, str | Texts) or isinstance(old, str | Texts):
            if isinstance(new, str) and isinstance(old, str) and new == old:
                return new
            one, other = self.spread(new), self.spread(old)
            return Texts(np.where(mask, one.codes, other.codes), np.where(mask, one.numbers, other.numbers))
        return np.where(mask, new, old)


# -- elements of variables ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Column:
    """Elements with an index from 0 that are the same in all cells. `codes` are as those of Texts; None is numbers
    only."""

    numbers: Floats
    codes: Ints | None = None

    def __len__(self) -> int:
        return len(self.numbers)

    def get(self, index: int, table: TextTable) -> Value:
        """Return one element; what is not there is undefined."""
        if index >= len(self):
            return UNDEFINED
        code = -1 if self.codes is None else int(self.codes[index])
        return table.texts[code] if code >= 0 else float(self.numbers[index])

    def gather(self, index: Ints) -> Value:
        """Return the elements that cells ask for."""
        inside = index < len(self)
        if self.codes is None and inside.all():
            return self.numbers[index]
        if not len(self):
            return Texts(np.zeros(index.shape, np.int64), np.zeros(index.shape))
        at = np.where(inside, index, 0)
        codes = np.full(len(self), -1, np.int64) if self.codes is None else self.codes
        return Texts(np.where(inside, codes[at], 0), np.where(inside, self.numbers[at], 0.0))


EMPTY = Column(np.empty(0))
Slot = tuple[Value, Mask]  # a value, and the cells that have it


class Elements:
    """The elements of one variable: a column that all cells share, then single ones over it, then those whose index
    differs from cell to cell, in the order of writing."""

    def __init__(self, table: TextTable, column: Column = EMPTY) -> None:
        self.table, self.column = table, column
        self.slots: dict[int, Slot] = {}
        self.scattered: list[tuple[Ints | int, Value, Mask]] = []

    def copy(self) -> Elements:
        """Return elements that can be changed without changing these."""
        out = Elements(self.table, self.column)
        out.slots, out.scattered = dict(self.slots), list(self.scattered)
        return out

    def __len__(self) -> int:
        tops = [int(np.max(index)) + 1 for index, _, _ in self.scattered]
        return max(len(self.column), max(self.slots, default=-1) + 1, *tops, 0)

    def is_defined(self) -> Mask:
        """Return the cells in which anything was assigned."""
        masks = [where for _, where in self.slots.values()] + [where for _, _, where in self.scattered]
        out: Mask = len(self.column) > 0
        for mask in masks:
            out = either(out, mask)
        return out

    def read(self, index: int | Ints) -> Value:
        """Return an element, or one for each cell."""
        table = self.table
        if isinstance(index, int):
            out = self._single(index)
        else:
            self._fold()
            out = self.column.gather(index)
            for at, (value, where) in self.slots.items():
                out = table.select(both(index == at, where), value, out)
        for place, value, where in self.scattered:
            here: Mask = place == index
            out = table.select(both(here, where), value, out)
        return out

    def _single(self, index: int) -> Value:
        value, where = self.slots.get(index, (UNDEFINED, False))
        return value if where is True else self.table.select(where, value, self.column.get(index, self.table))

    def write(self, index: int | Ints, value: Value, mask: Mask) -> None:
        """Assign to an element in the cells of a mask."""
        if self.scattered or not isinstance(index, int):
            if len(self.scattered) >= MOST_SCATTERED:
                raise ValueError(f"more than {MOST_SCATTERED} assignments to elements that differ from cell to cell")
            self.scattered.append((index, value, mask))
            return
        old, where = self.slots.get(index, (UNDEFINED, False))
        if mask is True or where is False:
            self.slots[index] = value, mask
        else:
            self.slots[index] = self.table.select(mask, value, old), either(where, mask)

    def write_range(self, start: int, n: int, value: Value, mask: Mask) -> None:
        """Assign to elements that follow each other; the cells of values and of the mask are the elements."""
        self._fold()
        size = max(len(self.column), start + n)
        numbers, codes = np.zeros(size), np.zeros(size, np.int64)
        numbers[: len(self.column)] = self.column.numbers
        codes[: len(self.column)] = -1 if self.column.codes is None else self.column.codes
        texts, part = self.table.spread(value), slice(start, start + n)
        numbers[part] = np.where(mask, texts.numbers, numbers[part])
        codes[part] = np.where(mask, texts.codes, codes[part])
        self.column = Column(numbers, None if (codes < 0).all() else codes)

    def _fold(self) -> None:
        """Move single elements that are the same in all cells into the column."""
        single = {at: v for at, (v, where) in self.slots.items() if where is True and isinstance(v, float | str)}
        if not single:
            return
        size = max(len(self.column), max(single) + 1)
        numbers, codes = np.zeros(size), np.zeros(size, np.int64)
        numbers[: len(self.column)] = self.column.numbers
        codes[: len(self.column)] = -1 if self.column.codes is None else self.column.codes
        for at, value in single.items():
            codes[at] = self.table.code(value) if isinstance(value, str) else -1
            numbers[at] = number_of_text(value) if isinstance(value, str) else value
            del self.slots[at]
        self.column = Column(numbers, None if (codes < 0).all() else codes)

    def freeze(self) -> Elements:
        """Return these elements in the form that is read fastest."""
        self._fold()
        return self


# -- arithmetic --------------------------------------------------------------------------------------------------------


def divide(x: Numbers, y: Numbers) -> Numbers:
    """Return a quotient: 0 of 0, whatever the other is; else NaN where that is 0."""
    if isinstance(x, float) and isinstance(y, float):
        return 0.0 if x == 0 else float("nan") if y == 0 else x / y
    return np.where(np.equal(x, 0), 0.0, np.where(np.equal(y, 0), np.nan, np.divide(x, y)))


def power(x: Numbers, y: Numbers) -> Numbers:
    """Return a power; NaN of a negative number and a fraction."""
    return _plain(np.power(x, y))


def _plain(result: Any) -> Numbers:
    """Return what NumPy gives: a number of all cells is not an array."""
    return float(result) if np.ndim(result) == 0 else result


def _root(x: Numbers) -> Any:
    return np.where(np.less(x, 0), 0.0, np.sqrt(x))


def _logarithm(x: Numbers) -> Any:
    return np.where(np.less(x, 0), 0.0, np.where(np.equal(x, 0), np.nan, np.log(x)))


def _of_numbers(function: Callable[..., Any]) -> Callable[..., Numbers]:
    return lambda *args: _plain(function(*args))


PLAIN: dict[str, Callable[..., Any]] = {
    "sqrt": _root,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "exp": np.exp,
    "log": _logarithm,
    "abs": np.abs,
    "sgn": np.sign,
    "pos": lambda x: np.maximum(x, 0.0),
    "neg": lambda x: np.minimum(x, 0.0),
    "floor": np.floor,
    "ceil": np.ceil,
    "min": np.minimum,
    "max": np.maximum,
}
FUNCTIONS = {name: _of_numbers(function) for name, function in PLAIN.items()}
