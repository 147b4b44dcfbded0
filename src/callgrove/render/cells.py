"""From columns to cell texts: what the text formats have in common.

A format is a table from Python type to a function that writes one cell. Most columns hold one type, so the function is
looked up once per column and mapped over it: that is what makes a long export fast.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from callgrove.model.table import UNCOUNTED, Column, Table

__all__ = [
    "Amounts",
    "CellWriters",
    "Identifier",
    "Prose",
    "Signed",
    "Whole",
    "align_right",
    "cell_texts",
    "chunks",
    "is_numeric",
    "left_out",
    "reading_float",
    "reading_writers",
]

CHUNK_ROWS = 65_536  # rows per piece of text: some megabytes, whatever the table's length

_NUMBERS = frozenset({int, float})


class Amounts(Column):
    """Numbers that have become text, with their units: aligned to the right and never cut."""


class Whole(Column):
    """Texts that are never cut: functions, judgements, bars."""


class Signed(Whole):
    """Changes that have become text, aligned: those with a minus and those without are shown in two colours."""


class Identifier(Column):
    """Numbers that tell rows apart, such as ranks: part of a row's name."""


class Prose(Column):
    """Sentences, the last column of a table: written out, however narrow the terminal."""


class CellWriters(dict[type, Callable[[Any], str]]):
    """Type -> function that writes a cell. A type that is not listed is written as its nearest base class."""

    def __missing__(self, kind: type) -> Callable[[Any], str]:
        self[kind] = next(self[base] for base in kind.__mro__ if base in self)
        return self[kind]


def cell_texts(column: Column, writers: CellWriters) -> Iterable[str]:
    cells = column.plain()
    kinds = set(map(type, cells))
    if len(kinds) == 1:
        return map(writers[kinds.pop()], cells)
    return [writers[type(cell)](cell) for cell in cells]


def chunks(tables: Iterable[Table]) -> Iterator[Table]:
    """The tables cut into chunks of bounded length, after a check that all have the same columns."""
    names: tuple[str, ...] | None = None
    for table in tables:
        if names is not None and table.names != names:
            raise ValueError(f"chunks of one table differ in their columns: {names} and {table.names}")
        names = table.names
        yield from table.slices(CHUNK_ROWS)


def align_right(cells: list[str]) -> list[str]:
    """The cells padded on the left to the width of the longest."""
    width = max(map(len, cells), default=0)
    return [cell.rjust(width) for cell in cells]


def is_numeric(column: Column) -> bool:
    """Whether a column holds numbers and nothing else, so that it is aligned to the right."""
    if isinstance(column, Amounts):
        return True
    dtype = getattr(column.values, "dtype", None)
    if dtype is not None and dtype.kind != "O":
        return bool(dtype.kind in "iuf")
    kinds = set(map(type, column.plain())) - {type(None)}
    return bool(kinds) and kinds <= _NUMBERS


def left_out(left: int) -> str:
    """`and 12 more`, for rows that a limit cut."""
    return "and more" if left == UNCOUNTED else f"and {left:,} more"


def reading_float(value: float) -> str:
    """A float for people: five significant digits, all digits before the point, an exponent only when it helps."""
    if value == 0:
        return "0"
    if 99999.5 <= abs(value) < 1e15:  # .5g would write 1e+05
        return f"{value:.0f}"
    return f"{value:.5g}"


def reading_writers(escape: Callable[[str], str]) -> CellWriters:
    """Cells for people; `escape` makes a name harmless where it is printed."""
    return CellWriters(
        {
            type(None): lambda _: "",
            bool: lambda value: "yes" if value else "no",
            int: int.__repr__,
            float: reading_float,
            str: escape,
            object: lambda value: escape(str(value)),
        }
    )
