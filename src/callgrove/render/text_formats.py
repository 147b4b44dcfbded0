"""Tables as CSV, JSON, JSON Lines, Markdown, LaTeX and HTML.

A format is a table from Python type to a function that writes one cell. Most columns hold one type, so the function is
looked up once per column and mapped over it: that is what makes a long export fast. Rows of CSV and JSON are written by
workers, where there are some: a chunk of rows is the same text whoever writes it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from itertools import chain
from math import isfinite
from typing import Any

from callgrove.execute import IN_PROCESS, Workers
from callgrove.model.table import UNCOUNTED, Column, Table, visible

__all__ = [
    "Amounts",
    "CellWriters",
    "Formula",
    "Graded",
    "Identifier",
    "Prose",
    "Signed",
    "Whole",
    "align_right",
    "cell_texts",
    "chunks",
    "csv_text",
    "html",
    "is_numeric",
    "json_text",
    "json_value",
    "jsonl_text",
    "latex",
    "markdown",
    "more_rows",
    "reading_float",
    "reading_writers",
]


CHUNK_ROWS = 65_536  # rows per piece of text: some megabytes, whatever the table's length

_NUMBERS = frozenset({int, float})
_TEXTS = {str, type(None)}


class Amounts(Column):
    """Numbers that have become text, with their units: aligned to the right and never cut."""


class Whole(Column):
    """Texts that are never cut: functions, judgements, bars."""


class Formula(Whole):
    """Functions in LaTeX's notation: a table in LaTeX sets them as such, others show their source."""


class Signed(Whole):
    """Changes that have become text, aligned: those with a minus and those without are shown in two colours."""


class Graded(Whole):
    """Judgements that have become text, aligned: what ends with ! is doubtful, with !! bad, which colours show too."""


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
    if str in kinds and kinds <= _TEXTS and 2 * len(different := set(cells)) <= len(cells):
        written = {cell: writers[type(cell)](cell) for cell in different}  # names repeat
        return map(written.__getitem__, cells)
    if len(kinds) == 1:
        return map(writers[kinds.pop()], cells)
    return [writers[type(cell)](cell) for cell in cells]


def chunks(tables: Iterable[Table]) -> Iterator[Table]:
    """Yield the tables cut into chunks of bounded length, after a check that all have the same columns."""
    names: tuple[str, ...] | None = None
    for table in tables:
        if names is not None and table.names != names:
            raise ValueError(f"chunks of one table differ in their columns: {names} and {table.names}")
        names = table.names
        yield from table.slices(CHUNK_ROWS)


def align_right(cells: list[str]) -> list[str]:
    """Return the cells padded on the left to the width of the longest."""
    width = max(map(len, cells), default=0)
    return [cell.rjust(width) for cell in cells]


def is_numeric(column: Column) -> bool:
    """Return whether a column holds numbers and nothing else, so that it is aligned to the right."""
    if isinstance(column, Amounts):
        return True
    dtype = getattr(column.values, "dtype", None)
    if dtype is not None and dtype.kind != "O":
        return bool(dtype.kind in "iuf")
    kinds = set(map(type, column.plain())) - {type(None)}
    return bool(kinds) and kinds <= _NUMBERS


def more_rows(left: int) -> str:
    """Return `and 12 more`, for rows that a limit cut."""
    return "and more" if left == UNCOUNTED else f"and {left:,} more"


def reading_float(value: float) -> str:
    """Return a float for people: five significant digits, all digits before the point, an exponent only when it
    helps."""
    if value == 0:
        return "0"
    if 99999.5 <= abs(value) < 1e15:  # .5g would write 1e+05
        return f"{value:.0f}"
    return f"{value:.5g}"


def reading_writers(escape: Callable[[str], str]) -> CellWriters:
    """Return cells for people; `escape` makes a name harmless where it is printed."""
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


# -- JSON: an array of objects, or one object per line (`jsonl`) -------------------------------------------------------
# Absent cells and non-finite numbers are null, since JSON has no NaN. Integers keep all their digits. Everything beyond
# ASCII is escaped, so the text is the same under every locale and safe on every terminal.


def json_text(tables: Iterable[Table], workers: Workers = IN_PROCESS) -> Iterator[str]:
    separator = "[\n"
    for objects in workers.stream(_json_rows, filter(len, chunks(tables))):
        yield separator + objects
        separator = ",\n"
    yield "[]\n" if separator == "[\n" else "\n]\n"


def jsonl_text(tables: Iterable[Table], workers: Workers = IN_PROCESS) -> Iterator[str]:
    return workers.stream(_jsonl_rows, filter(len, chunks(tables)))


def _json_rows(table: Table) -> str:
    return ",\n".join(_objects(table))


def _jsonl_rows(table: Table) -> str:
    return "\n".join(_objects(table)) + "\n"


def _objects(table: Table) -> Iterator[str]:
    """Return the rows of a table as JSON objects."""
    template = _make_template(table.names)
    columns = [cell_texts(column, _json_writers()) for column in table.columns]
    return map(template.__mod__, zip(*columns, strict=True))


def json_value(value: Any) -> str:
    """Return any plain value, nested or not, as JSON text."""
    import json  # no table on a terminal needs it

    try:
        return json.dumps(value, allow_nan=False, default=_simpler)
    except ValueError:
        return json.dumps(_finite(value), allow_nan=False)


def _make_template(names: Iterable[str]) -> str:
    """Return `{"name": %s, "value": %s}`: one object, its cells to be filled in."""
    keys = (json_value(name).replace("%", "%%") for name in names)
    return "{" + ", ".join(f"{key}: %s" for key in keys) + "}"


def _simpler(value: Any) -> Any:
    """Return what `json` does not know: a NumPy array or number becomes Python's, all else its text."""
    return _finite(value.tolist()) if hasattr(value, "tolist") else str(value)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _finite(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(entry) for entry in value]
    if isinstance(value, float):
        return value if isfinite(value) else None
    return value if isinstance(value, str | int | None) else _finite(_simpler(value))


def _float(value: float) -> str:
    return float.__repr__(value) if isfinite(value) else "null"


def _null(_: None) -> str:
    return "null"


def _json_truth(value: bool) -> str:
    return "true" if value else "false"


@cache
def _json_writers() -> CellWriters:
    from json.encoder import encode_basestring_ascii

    return CellWriters(
        {
            type(None): _null,
            bool: _json_truth,
            int: int.__repr__,
            float: _float,
            str: encode_basestring_ascii,
            object: json_value,
        }
    )


# -- CSV ---------------------------------------------------------------------------------------------------------------
# By RFC 4180 with "\n" line ends: a header, then one line per row; an absent cell is empty.
#
# Numbers survive a round trip: floats are the shortest text that reads back equal, `nan` and `inf` included. Cells are
# data and are written as they are: a name that a spreadsheet would take for a formula stays what it was in the file,
# unless the table is written for spreadsheets. Then a text that begins like a formula gets an apostrophe before it,
# which spreadsheets take for "what follows is text". Numbers stay as they are.
#
# Python's csv.writer is not used: with "\n" line ends it leaves a lone "\r" unquoted (before Python 3.13), which its
# own reader then refuses, and it is slower by a third than joining columns.


_EMPTY = '""'
_NEEDS_QUOTES = re.compile(r'[,"\r\n]').search
_FORMULA_BEGINS = ("=", "+", "-", "@", "\t", "\r")


def csv_text(
    tables: Iterable[Table], workers: Workers = IN_PROCESS, *, for_spreadsheets: bool = False
) -> Iterator[str]:
    quote, write = (_disarm, _spreadsheet_rows) if for_spreadsheets else (_quote, _csv_rows)
    stream = chunks(tables)
    for first in stream:
        yield ",".join(map(quote, first.names)) + "\n"
        yield from workers.stream(write, filter(len, chain([first], stream)))


def _csv_rows(table: Table) -> str:
    return _lines(table, _CSV_WRITERS)


def _spreadsheet_rows(table: Table) -> str:
    return _lines(table, _SPREADSHEET_WRITERS)


def _lines(table: Table, writers: CellWriters) -> str:
    columns = [cell_texts(column, writers) for column in table.columns]
    if len(columns) == 1:  # an empty line is not a row to a reader: a lone empty cell needs its quotes
        return "".join(f"{cell or _EMPTY}\n" for cell in columns[0])
    return "\n".join(map(",".join, zip(*columns, strict=True))) + "\n"


def _quote(text: str) -> str:
    return '"' + text.replace('"', '""') + '"' if _NEEDS_QUOTES(text) else text


def _disarm(text: str) -> str:
    return _quote(f"'{text}" if text.startswith(_FORMULA_BEGINS) else text)


def _nothing(_: None) -> str:
    return ""


def _csv_truth(value: bool) -> str:
    return "true" if value else "false"


def _composite(value: Any) -> str:
    return _quote(json_value(value))


def _other(value: object) -> str:
    return _quote(str(value))


_CSV_WRITERS = CellWriters(
    {
        type(None): _nothing,
        bool: _csv_truth,
        int: int.__repr__,
        float: float.__repr__,
        str: _quote,
        dict: _composite,
        list: _composite,
        tuple: _composite,
        object: _other,
    }
)
_SPREADSHEET_WRITERS = CellWriters(
    {
        type(None): _nothing,
        bool: _csv_truth,
        int: int.__repr__,
        float: float.__repr__,
        str: _disarm,
        dict: _composite,
        list: _composite,
        tuple: _composite,
        object: lambda value: _disarm(str(value)),
    }
)


def _count_levels(text: str, plain: str) -> int:
    """Return by how much a name is indented; numbers are not, but aligned."""
    return (len(text) - len(text.lstrip(" "))) // 2 if plain[:1].isalpha() else 0


# -- Markdown ----------------------------------------------------------------------------------------------------------
# Names are escaped so that they show as they are: `operator*`, `vector<int>` and `a|b` would otherwise turn into
# emphasis, a vanished HTML tag and an extra column. An underscore inside a word needs no escape and gets none. What a
# name is indented by becomes &emsp;, as spaces at the edges of a cell do not show.


_SPECIAL = re.compile(r"[\\`*\[<>&|~$]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")


def markdown(tables: Iterable[Table], caption: str = "") -> Iterator[str]:
    """Yield a table, below its caption."""
    header_written = False
    left = 0
    if caption:
        yield f"{_escape_cell(caption)}\n\n"
    for table in chunks(tables):
        if not header_written:
            yield _header(table)
            header_written = True
        if len(table):
            columns = [cell_texts(column, _MARKDOWN_WRITERS) for column in table.columns]
            yield "".join(map(_line, zip(*columns, strict=True)))
        left = table.left or left
    if left:
        yield f"\n{more_rows(left)}\n"


def _header(table: Table) -> str:
    rule = ["---:" if is_numeric(column) or isinstance(column, Whole) else ":---" for column in table.columns]
    return _line(map(_escape_cell, table.names)) + _line(rule)


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |\n"


def _escape_cell(text: str) -> str:
    plain = text.strip(" ")
    n_levels, escaped = _count_levels(text, plain), _SPECIAL.sub(r"\\\g<0>", visible(plain))
    return "&emsp;" * n_levels + escaped


_MARKDOWN_WRITERS = reading_writers(_escape_cell)


# -- LaTeX -------------------------------------------------------------------------------------------------------------
# A tabular that needs no package and no encoding of fonts. What a name is indented by becomes \\quad, numbers stand to
# the right. A [ or * that begins a row would belong to the end of the row before; two dashes would become a longer one.


_LATEX = {character: f"\\{character}" for character in "#$%&_{}"} | {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\symbol{34}",
    "`": r"\symbol{96}",
    "'": r"\symbol{39}",
}


def latex(tables: Iterable[Table], caption: str = "") -> Iterator[str]:
    """Yield a tabular, below its caption."""
    begun, left = False, 0
    if caption:  # not \caption, which only floats have
        yield f"\\noindent {_latex_cell(visible(caption))}\\par\\smallskip\n"
    for table in chunks(tables):
        if not begun:
            begun = True
            places = "".join(
                "r" if is_numeric(column) or isinstance(column, Whole) else "l" for column in table.columns
            )
            yield f"\\begin{{tabular}}{{{places}}}\n\\hline\n{_latex_line(table.names)}\\hline\n"
        columns = [_latex_cells(column) for column in table.columns]
        yield "".join(map(_latex_row, zip(*columns, strict=True)))
        left = table.left or left
    yield "\\hline\n\\end{tabular}\n"
    if left:
        yield f"% {more_rows(left)}\n"


def _latex_line(cells: Iterable[str]) -> str:
    return _latex_row(map(_latex_cell, cells))


def _latex_row(cells: Iterable[str]) -> str:
    return " & ".join(cells) + " \\\\\n"


def _latex_cells(column: Column) -> list[str]:
    texts = cell_texts(column, _LATEX_WRITERS)
    if isinstance(column, Formula):
        return [f"${text}$" if text else "" for text in texts]
    return [_latex_cell(text) for text in texts]


def _latex_cell(text: str) -> str:
    plain = text.strip(" ")
    escaped = re.sub("-(?=-)", "-{}", "".join(_LATEX.get(character, character) for character in plain))
    begin = "{}" if plain.startswith(("[", "*")) else ""
    return "\\quad " * _count_levels(text, plain) + begin + escaped


_LATEX_WRITERS = reading_writers(visible)


# -- HTML --------------------------------------------------------------------------------------------------------------
# One <table>, to be read by itself or put into a page. All but ASCII is written as references, so that it looks the
# same whatever a page says of its encoding; `align` is an old word, but sites that show foreign HTML leave it in.


_HTML = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;"}


def html(tables: Iterable[Table], caption: str = "") -> Iterator[str]:
    """Yield a table for browsers."""
    begun, left, align = False, 0, [""]
    for table in chunks(tables):
        if not begun:
            begun = True
            numbers = [is_numeric(column) or isinstance(column, Whole) for column in table.columns]
            align = [' align="right"' if number else ' align="left"' for number in numbers]
            above = f"<caption>{_html_cell(caption)}</caption>\n" if caption else ""
            yield f"<table>\n{above}<thead>\n{_html_row('th', map(_html_cell, table.names), align)}</thead>\n<tbody>\n"
        columns = [cell_texts(column, _HTML_WRITERS) for column in table.columns]
        yield "".join(_html_row("td", cells, align) for cells in zip(*columns, strict=True))
        left = table.left or left
    yield "</tbody>\n</table>\n" if begun else "<table></table>\n"
    if left:
        yield f"<p>{more_rows(left)}</p>\n"


def _html_row(tag: str, cells: Iterable[str], align: Iterable[str]) -> str:
    inner = "".join(f"<{tag}{where}>{cell}</{tag}>" for cell, where in zip(cells, align, strict=True))
    return f"<tr>{inner}</tr>\n"


def _html_cell(text: str) -> str:
    plain = text.strip(" ")
    escaped = "".join(_HTML.get(character, character) for character in visible(plain))
    return "&emsp;" * _count_levels(text, plain) + escaped.encode("ascii", "xmlcharrefreplace").decode()


_HTML_WRITERS = reading_writers(_html_cell)
