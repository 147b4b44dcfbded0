r"""A Markdown table, to paste into an issue or a report.

Names are escaped so that they show as they are: `operator*`, `vector<int>` and `a|b` would otherwise turn into
emphasis, a vanished HTML tag and an extra column. An underscore inside a word needs no escape and gets none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from callgrove.model.table import Table
from callgrove.render.cells import cell_texts, chunks, is_numeric, left_out, reading_writers
from callgrove.render.visible import visible

__all__ = ["markdown"]

_SPECIAL = re.compile(r"[\\`*\[<>&|~$]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")


def markdown(tables: Iterable[Table]) -> Iterator[str]:
    header_written = False
    left = 0
    for table in chunks(tables):
        if not header_written:
            yield _header(table)
            header_written = True
        if len(table):
            columns = [cell_texts(column, _WRITERS) for column in table.columns]
            yield "".join(map(_line, zip(*columns, strict=True)))
        left = table.left or left
    if left:
        yield f"\n{left_out(left)}\n"


def _header(table: Table) -> str:
    rule = ["---:" if is_numeric(column) else ":---" for column in table.columns]
    return _line(map(_escaped, table.names)) + _line(rule)


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |\n"


def _escaped(text: str) -> str:
    return _SPECIAL.sub(r"\\\g<0>", visible(text))


_WRITERS = reading_writers(_escaped)
