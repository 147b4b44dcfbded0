"""Tables, the result that all layers share: named columns of equal length.

A long result is an `Iterable[Table]` of chunks with the same columns; renderers take such iterables and stream.
This module imports no NumPy at run time, so that a small table costs no NumPy import.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from callgrove.errors import MissingExtra
from callgrove.model.methods.shared import TableMethods

if TYPE_CHECKING:
    from callgrove.arrays import Array

__all__ = [
    "CHUNK",
    "MOST_COLUMNS",
    "MOST_ROWS",
    "UNCOUNTED",
    "Column",
    "Table",
    "first_rows",
    "table_text",
    "visible",
]


CHUNK = 1 << 16  # rows of one table, where a result comes in several
UNCOUNTED = -1  # Table.left when rows were cut from a stream that was not read to its end

_PLAIN_TYPES = frozenset({int, float, str, bool, type(None)})


@dataclass(frozen=True, eq=False)
class Column:
    """One named column. Cells that are None, or equal to `absent` (NaN equals NaN here), hold nothing."""

    name: str
    values: Sequence[Any] | Array
    absent: Any = None

    def __post_init__(self) -> None:
        if getattr(self.values, "ndim", 1) != 1:
            raise ValueError(f"column {self.name!r} is not one-dimensional")

    def __len__(self) -> int:
        return len(self.values)

    def plain(self) -> list[Any]:
        """Return the cells as plain Python values, None where absent."""
        if hasattr(self.values, "dtype") and self.values.dtype.kind != "O":
            return _plain_array(self.values, self.absent)
        return _plain_sequence(self.values, self.absent)

    def slice(self, start: int, stop: int) -> Column:
        return replace(self, values=self.values[start:stop])


@dataclass(frozen=True, eq=False)
class Table(TableMethods):
    """Columns of equal length with different names.

    `left` counts rows that a limit cut (UNCOUNTED: some). `title` says what the table shows, `notes` what a reader
    should know about it. A table shows itself: `print(table)`, or as the last line of a notebook's cell. Iterating
    gives rows as dicts, `table["name"]` the cells of a column as a list.
    """

    columns: tuple[Column, ...]
    left: int = 0
    title: str = ""
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", tuple(self.columns))
        if len(set(self.names)) != len(self.columns):
            raise ValueError(f"two columns have the same name: {', '.join(self.names)}")
        if len({len(column) for column in self.columns}) > 1:
            lengths = ", ".join(f"{column.name} {len(column)}" for column in self.columns)
            raise ValueError(f"columns differ in length: {lengths}")

    @classmethod
    def from_rows(cls, names: Sequence[str], rows: Iterable[Sequence[Any]]) -> Table:
        """Return a table of rows, which all have one cell for each name."""
        rows = list(rows)
        wrong = next((row for row in rows if len(row) != len(names)), None)
        if wrong is not None:
            raise ValueError(f"a row has {len(wrong)} cells for {len(names)} columns: {wrong!r}")
        cells: Iterable[Sequence[Any]] = zip(*rows, strict=True) if rows else [()] * len(names)
        return cls(tuple(Column(name, values) for name, values in zip(names, cells, strict=True)))

    @classmethod
    def concatenate(cls, tables: Iterable[Table]) -> Table:
        """Return the rows of tables with the same columns, one after the other, as one table."""
        parts = list(tables)
        cells: list[list[Any]] = [[] for _ in parts[0].columns]
        for part in parts:
            for column, known in zip(part.columns, cells, strict=True):
                known += column.plain()
        columns = (Column(name, values) for name, values in zip(parts[0].names, cells, strict=True))
        return cls(tuple(columns), parts[-1].left)

    def __len__(self) -> int:
        return len(self.columns[0]) if self.columns else 0

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Yield the rows as dicts of plain Python values, None where absent."""
        names = self.names
        return (dict(zip(names, row, strict=True)) for row in self.rows())

    def __getitem__(self, name: str) -> list[Any]:
        """Return the cells of a column as plain Python values, None where absent."""
        return self.column(name).plain()

    @property
    def names(self) -> tuple[str, ...]:
        """Return what the columns are called, in order."""
        return tuple(column.name for column in self.columns)

    def column(self, name: str) -> Column:
        """Return the column of that name; `.plain()` gives its cells as Python values, `.values` as they are kept."""
        for column in self.columns:
            if column.name == name:
                return column
        raise KeyError(f"no column {name!r}, only {', '.join(self.names)}")

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """Yield rows of plain Python values, None where absent."""
        return zip(*(column.plain() for column in self.columns), strict=True)

    def to_arrow(self) -> Any:
        """Return the table as a pyarrow.Table; absent cells are null."""
        try:
            import pyarrow
        except ImportError as error:
            raise MissingExtra("arrow", "a table for Arrow") from error
        types = {"int64": pyarrow.int64(), "uint64": pyarrow.uint64()}
        cells = [(column.name, column.plain()) for column in self.columns]
        return pyarrow.table({name: pyarrow.array(plain, types.get(_integers(plain))) for name, plain in cells})

    def to_pandas(self) -> Any:
        """Return the table as a pandas.DataFrame; integers stay integers where some are absent."""
        try:
            import pandas
        except ImportError as error:
            raise MissingExtra("pandas", "a table for pandas") from error
        types = {"int64": "Int64", "uint64": "UInt64"}
        out = {}
        for column in self.columns:
            plain = column.plain()
            kept = types.get(_integers(plain)) if None in plain else None
            out[column.name] = pandas.Series(plain, dtype=kept)
        return pandas.DataFrame(out)

    def to_polars(self) -> Any:
        """Return the table as a polars.DataFrame; absent cells are null."""
        try:
            import polars
        except ImportError as error:
            raise MissingExtra("polars", "a table for Polars") from error
        types = {"int64": polars.Int64, "uint64": polars.UInt64}
        cells = [(column.name, column.plain()) for column in self.columns]
        return polars.DataFrame(
            [polars.Series(name, plain, types.get(_integers(plain)), strict=False) for name, plain in cells]
        )

    def head(self, limit: int | None) -> Table:
        """Return the first `limit` rows (None: all); what is cut is added to `left`."""
        if limit is not None and limit < 0:
            raise ValueError(f"a limit cannot be negative: {limit}")
        if limit is None or len(self) <= limit:
            return self
        left = UNCOUNTED if self.left == UNCOUNTED else self.left + len(self) - limit
        return replace(self, columns=tuple(column.slice(0, limit) for column in self.columns), left=left)

    def slices(self, n_rows: int) -> Iterator[Table]:
        """Yield the same rows as tables of at most `n_rows`; at least one table, and only the last has `left`."""
        for start in range(0, max(len(self), 1), n_rows):
            last = start + n_rows >= len(self)
            columns = tuple(column.slice(start, start + n_rows) for column in self.columns)
            yield replace(self, columns=columns, left=self.left if last else 0)

    def __repr__(self) -> str:
        """Return one line, whatever the size of the table."""
        return f"<Table of {len(self)} rows: {', '.join(self.names)}>"

    def __str__(self) -> str:
        """Return the first rows as text, and how many more there are."""

        return table_text(self)


def first_rows(tables: Iterable[Table], limit: int, n_rows: int | None = None) -> Iterator[Table]:
    """Yield the first `limit` rows of a table that comes in chunks. What is left is counted only where that is known
    (`n_rows`), or costs no more than one further chunk."""
    stream = iter(tables)
    room = limit
    for table in stream:
        if len(table) > room:
            cut = table.head(room)
            if n_rows is not None:
                yield replace(cut, left=n_rows - limit)
            else:
                yield cut if next(stream, None) is None else replace(cut, left=UNCOUNTED)
            return
        yield table
        room -= len(table)


def _integers(cells: list[Any]) -> str:
    """Return the type of integers that holds all cells, where all are integers or absent; else empty."""
    known = [cell for cell in cells if cell is not None]
    if not known or any(type(cell) is not int for cell in known) or min(known) < -(2**63) or max(known) >= 2**64:
        return ""
    if max(known) < 2**63:
        return "int64"
    return "uint64" if min(known) >= 0 else ""


def _plain_array(array: Any, absent: Any) -> list[Any]:
    cells: list[Any] = array.tolist()
    if absent is not None:
        missing = array != array if absent != absent else array == absent
        for index in missing.nonzero()[0].tolist():
            cells[index] = None
    return cells


def _plain_sequence(values: Iterable[Any], absent: Any) -> list[Any]:
    cells = [cell if type(cell) in _PLAIN_TYPES else _plain_cell(cell) for cell in values]
    if absent is None:
        return cells
    if absent != absent:
        return [None if cell != cell else cell for cell in cells]
    return [None if cell == absent else cell for cell in cells]


def _plain_cell(cell: Any) -> Any:
    """Return a NumPy scalar as its Python value; anything else as it is."""
    is_scalar = hasattr(cell, "dtype") and getattr(cell, "ndim", None) == 0
    return cell.item() if is_scalar else cell


# -- texts from files, made visible ------------------------------------------------------------------------------------
# A name may hold control characters, escape sequences or half characters: visible("a\x1b[2Jb") is 'a\\x1b[2Jb'.


def visible(text: str) -> str:
    r"""Return the text with what is not printable (control, direction, surrogate) written as \n, \x1b, \u202e."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else _escape(char) for char in text)


def _escape(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")


# What `print` shows of a table.


MOST_ROWS = 20  # in a notebook
MOST_LINES = 40  # rows of a text
DEEPEST = 40  # levels by which names are indented
LONGEST_CELL = 60  # characters of a cell of a text
MOST_COLUMNS = 20


def table_text(table: Table) -> str:
    """Return the title, the first rows in columns and how many more there are; names of a tree stand under their
    callers, and columns that are empty in these rows are left out."""
    shown = table.head(MOST_LINES)
    cells = {column.name: [_plain(cell) for cell in column.plain()] for column in shown.columns}
    if "name" in cells and "depth" in cells:
        depths = [min(int(depth), DEEPEST) for depth in cells.pop("depth")]
        cells["name"] = ["  " * depth + name for depth, name in zip(depths, cells["name"], strict=True)]
    used = {name: texts for name, texts in cells.items() if any(texts) or not len(shown)}
    numbers = {c.name for c in shown.columns if not any(isinstance(cell, str) for cell in c.plain())}
    widths = {name: max(len(name), *(len(text) for text in texts), 0) for name, texts in used.items()}
    rows = [list(used), *zip(*used.values(), strict=True)]
    lines = [
        "  ".join(
            text.rjust(width) if name in numbers else text.ljust(width)
            for text, (name, width) in zip(row, widths.items(), strict=True)
        ).rstrip()
        for row in rows
    ]
    left = "more rows" if shown.left < 0 else f"{shown.left:,} more rows"
    return "\n".join(
        [
            *([visible(table.title)] if table.title else []),
            *lines,
            *([f"... and {left}"] if shown.left else []),
            *map(visible, table.notes),
        ]
    )


def _plain(cell: Any) -> str:
    """Return a cell as text; the end of what is too long is cut."""
    if cell is None:
        return ""
    text = visible(f"{cell:.6g}" if isinstance(cell, float) else str(cell))
    return text if len(text) <= LONGEST_CELL else text[: LONGEST_CELL - 1] + "…"
