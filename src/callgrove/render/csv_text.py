"""CSV by RFC 4180 with "\\n" line ends: a header, then one line per row; an absent cell is empty.

Numbers survive a round trip: floats are the shortest text that reads back equal, `nan` and `inf` included. Cells are
data and are written as they are: a name that a spreadsheet would take for a formula stays what it was in the file.

Python's csv.writer is not used: with "\\n" line ends it leaves a lone "\\r" unquoted (before Python 3.13), which its
own reader then refuses, and it is slower by a third than joining columns.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from callgrove.model.table import Table
from callgrove.render.cells import CellWriters, cell_texts, chunks
from callgrove.render.json_text import json_value

__all__ = ["csv_text"]

_EMPTY = '""'
_NEEDS_QUOTES = re.compile(r'[,"\r\n]').search


def csv_text(tables: Iterable[Table]) -> Iterator[str]:
    header_written = False
    for table in chunks(tables):
        if not header_written:
            yield ",".join(map(_quoted, table.names)) + "\n"
            header_written = True
        if len(table):
            yield _lines(table)


def _lines(table: Table) -> str:
    columns = [cell_texts(column, _WRITERS) for column in table.columns]
    if len(columns) == 1:  # an empty line is no row to a reader: a lone empty cell needs its quotes
        return "".join(f"{cell or _EMPTY}\n" for cell in columns[0])
    return "\n".join(map(",".join, zip(*columns, strict=True))) + "\n"


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"' if _NEEDS_QUOTES(text) else text


def _nothing(_: None) -> str:
    return ""


def _truth(value: bool) -> str:
    return "true" if value else "false"


def _composite(value: Any) -> str:
    return _quoted(json_value(value))


def _other(value: object) -> str:
    return _quoted(str(value))


_WRITERS = CellWriters(
    {
        type(None): _nothing,
        bool: _truth,
        int: int.__repr__,
        float: float.__repr__,
        str: _quoted,
        dict: _composite,
        list: _composite,
        tuple: _composite,
        object: _other,
    }
)
