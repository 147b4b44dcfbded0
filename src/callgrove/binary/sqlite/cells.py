"""Cells of a table as numbers, times, texts or JSON, whatever a file has put there; and rows by id.

SQLite stores any type in any column. Specification: gpu-traces.md 1.2. What real files show:

    columns that are missing               absent
    '' or text in a column of numbers      absent, and counted
    text that is not UTF-8                 decoded with replacement characters
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path

import numpy as np

from callgrove.arrays import MISSING, Array, Directory, Floats, Ids, Ints
from callgrove.binary.sqlite.tables import PageRows
from callgrove.errors import CorruptFile

__all__ = [
    "MISSING",
    "CellReader",
    "Cells",
    "Lookup",
    "Type",
    "absent",
    "is_json",
    "json_object",
    "json_scalars",
    "json_strings",
    "text_column",
]


Cells = Mapping[str, Array]
TEXTUAL = {str, type(None)}


class Type(Enum):
    """How the cells of a column are wanted: int64 with `MISSING`, float64 with NaN, or objects that are str or None.

    A TIME is an integer, or text like `2024-09-27 10:00:00` (UTC), which becomes nanoseconds since the epoch; a column
    with both is damaged, because nobody knows what its integers count from.
    """

    INTEGER = "integer"
    REAL = "real"
    TEXT = "text"
    TIME = "time"


@dataclass
class CellReader:
    """Makes columns of cells, and counts cells that have unexpected types."""

    path: Path
    strange: Counter[str] = field(default_factory=Counter)  # "table.column" -> cells that were not numbers
    _textual: set[bool] = field(default_factory=set)  # whether times were seen that are text, or numbers

    def forget(self, table: str, columns: Mapping[str, Type]) -> None:
        """Reset the counts of a table that is read again."""
        if self.strange:
            for name in columns:
                self.strange.pop(f"{table}.{name}", None)

    def of_rows(
        self, table: str, columns: Mapping[str, Type], known: set[str], rows: Sequence[tuple[object, ...]]
    ) -> Cells:
        """Return cells from rows that have the known columns, in their order."""
        given = iter(zip(*rows, strict=True))
        return {
            name: self._as_type(f"{table}.{name}", next(given), type_) if name in known else absent(len(rows), type_)
            for name, type_ in columns.items()
        }

    def of_pages(self, table: str, columns: Mapping[str, Type], known: set[str], rows: PageRows) -> Cells:
        """Return cells from rows that stand in pages."""
        return {
            name: self._of_pages(table, name, type_, rows) if name in known else absent(len(rows), type_)
            for name, type_ in columns.items()
        }

    def _of_pages(self, table: str, name: str, type_: Type, rows: PageRows) -> Array:
        place = f"{table}.{name}"
        if type_ is Type.TEXT or (type_ is Type.TIME and rows.kinds(name)[0]):
            return self._as_type(place, rows.objects(name), type_)
        if type_ is Type.REAL:
            reals, other = rows.reals(name)
            if len(other):
                reals[other] = self._reals(place, rows.objects(name, other))
            return reals
        if type_ is Type.TIME and rows.kinds(name)[1]:
            self._note_times(table, {False})
        integers, other = rows.integers(name, MISSING)
        if len(other):
            integers = integers.copy()
            integers[other] = self._integers(place, rows.objects(name, other))
        return integers

    def _as_type(self, place: str, cells: Sequence[object], type_: Type) -> Array:
        if type_ is Type.TEXT:
            return text_column(cells)
        if type_ is Type.REAL:
            return self._reals(place, cells)
        if type_ is Type.TIME:
            return self._times(place, cells)
        return self._integers(place, cells)

    def _integers(self, place: str, cells: Sequence[object]) -> Ints:
        if set(map(type, cells)) <= {int}:  # NumPy would also make numbers of other things
            return np.fromiter(cells, np.int64, len(cells))
        return np.array([self._integer(place, cell) for cell in cells], np.int64)

    def _times(self, place: str, cells: Sequence[object]) -> Ints:
        known = {isinstance(cell, str) for cell in cells if cell is not None}
        self._note_times(place.partition(".")[0], known)
        if True not in known:
            return self._integers(place, cells)
        return np.array([self._date(place, cell) for cell in cells], np.int64)

    def _note_times(self, table: str, known: set[bool]) -> None:
        """Remember whether times are text or numbers; raise an error if a file has both."""
        if len(known | self._textual) > 1:
            raise CorruptFile(
                self.path, table, expected="times that are all numbers, or all dates", found="both in one file"
            )
        self._textual |= known

    def _date(self, place: str, cell: object) -> int:
        if cell is None:
            return MISSING
        try:
            when = datetime.fromisoformat(str(cell))
        except ValueError:
            self.strange[place] += 1
            return MISSING
        when = when if when.tzinfo else when.replace(tzinfo=UTC)
        since = when - datetime(1970, 1, 1, tzinfo=UTC)
        return (since.days * 86_400 + since.seconds) * 1_000_000_000 + since.microseconds * 1000

    def _integer(self, place: str, cell: object) -> int:
        if cell is None or cell == "":
            return MISSING
        if isinstance(cell, int):
            return cell
        number = _number(cell)
        if number is None or not -(2.0**63) < number < 2.0**63:
            self.strange[place] += 1
            return MISSING
        return int(number)

    def _reals(self, place: str, cells: Sequence[object]) -> Floats:
        if set(map(type, cells)) <= {float}:
            return np.fromiter(cells, np.float64, len(cells))
        out = np.full(len(cells), np.nan)
        for k, cell in enumerate(cells):
            number = _number(cell)
            if number is not None:
                out[k] = number
            elif cell is not None and cell != "":
                self.strange[place] += 1
        return out


def absent(n: int, type_: Type) -> Array:
    """Return the cells of a column that a table does not have."""
    if type_ is Type.TEXT:
        return np.full(n, None, object)
    return np.full(n, np.nan) if type_ is Type.REAL else np.full(n, MISSING)


def text_column(cells: Sequence[object]) -> Array:
    """Return cells as objects that are str or None."""
    out = np.empty(len(cells), object)
    out[:] = cells if set(map(type, cells)) <= TEXTUAL else [_text(cell) for cell in cells]
    return out


def _text(cell: object) -> str | None:
    if cell is None or isinstance(cell, str):
        return cell
    return cell.decode("utf-8", "replace") if isinstance(cell, bytes) else str(cell)


def _number(cell: object) -> float | None:
    try:
        return float(cell) if isinstance(cell, int | float | str) else None
    except ValueError:
        return None


# JSON in cells: text as a rule, but a column of that type turns what looks like a number into one.


def json_object(text: str | None) -> dict[str, object]:
    """Parse a JSON object; anything else, also what is not JSON, gives an empty one."""
    try:
        parsed = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return {}
    return {str(key): value for key, value in parsed.items()} if isinstance(parsed, dict) else {}


def is_json(text: str | None) -> bool:
    """Return whether a cell holds JSON, or nothing at all."""
    try:
        json.loads(text or "{}")
    except (ValueError, RecursionError):
        return False
    return True


def json_strings(text: str | None) -> dict[str, str]:
    """Parse a JSON object of strings."""
    return {key: str(value) for key, value in json_object(text).items()}


def json_scalars(text: str | None) -> dict[str, str]:
    """Return the numbers and texts of an object, and those of objects in it (`size_x`), without deeper ones."""
    out: dict[str, str] = {}
    for key, value in json_object(text).items():
        inner = {f"{key}_{name}": cell for name, cell in value.items()} if isinstance(value, dict) else {key: value}
        out |= {name: str(cell) for name, cell in inner.items() if isinstance(cell, int | float | str)}
    return out


# From the ids of a table to numbers.


class Lookup:
    """A mapping from a table's ids to numbers; -1 for unknown ids. The first of equal ids counts."""

    def __init__(self, ids: Ints, numbers: Array) -> None:
        self._numbers = Directory(ids, numbers)

    def __getitem__(self, ids: Ints) -> Ids:
        return self._numbers[ids].astype(np.int32)
