"""The raw structure of a database: every table, its columns, how many rows it has, and the first of them."""

from __future__ import annotations

from collections.abc import Iterator

from callgrove.formats.gpu.sqlite_file import SqliteFile
from callgrove.formats.interface import Field

__all__ = ["fields"]

FIRST_ROWS = 3
LONGEST = 120  # characters of a text that are shown
SECRET = "environment"  # variables of the process: they may hold passwords


def fields(file: SqliteFile) -> Iterator[Field]:
    """Offsets are those of the page that a table begins with."""
    with file.reading():
        for table, offset in file.root_offsets().items():
            columns = file.tables[table]
            yield Field(file.path.name, table, -1, offset, "rows", file.count(table))
            yield Field(file.path.name, table, -1, offset, "columns", ", ".join(columns))
            for number, row in enumerate(file.first_rows(table, FIRST_ROWS)):
                for column, cell in zip(columns, row, strict=True):
                    yield Field(file.path.name, table, number, offset, column, _shown(column, cell))


def _shown(column: str, cell: object) -> int | float | str:
    if isinstance(cell, int | float):
        return cell
    if cell is None:
        return "NULL"
    if column == SECRET or isinstance(cell, bytes):
        return f"({len(cell) if isinstance(cell, bytes | str) else 0} bytes)"
    text = str(cell)
    return text if len(text) <= LONGEST else text[:LONGEST] + "..."
