"""Documents that fit a budget of tokens, and say what was left out.

A token is counted as three bytes of the JSON that is sent: English text has about four characters in one, numbers and
paths fewer, so that an answer never takes more than it may. What does not fit is cut from lists, the longest first:
rows, then metrics, points, notes; `left_out` says how much of which, and how to ask for it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from callgrove.assistant.commands import Command
from callgrove.errors import UsageError
from callgrove.model.table import Table, visible

__all__ = ["BUDGET", "Answer", "Document", "compose", "encode", "estimate_tokens"]

BUDGET = 2_000  # tokens, unless a caller says otherwise
BYTES_PER_TOKEN = 3
LONGEST_TEXT = 400  # characters of a name; longer ones are cut in the middle
SHARE_KEPT = 0.9  # of the rows that should fit: names differ in length

Document = dict[str, Any]


@dataclass
class Answer:
    """What a tool has to say.

    facts    plain data: a title, totals, sentences
    table    rows, where there are any; `rows(n)` asks for at most n of them, where that is not the first n
    command  how the command line gives the same; `query` the SQL that adds up the same numbers
    """

    facts: Document
    command: Command
    table: Table | None = None
    rows: Callable[[int], Table] | None = None
    query: str = ""
    notes: list[str] = field(default_factory=list)
    limit_said: bool = True  # whether the command takes a limit
    limit: int | None = None  # rows of each part of the table that the command is asked for, instead of those shown


def compose(answer: Answer, budget: int = BUDGET) -> Document:
    """Return the document of an answer that has at most so many tokens."""
    table = answer.table
    n_rows = len(table) if table is not None else 0
    lists = {name: value for name, value in answer.facts.items() if isinstance(value, list)}
    kept = {name: len(value) for name, value in lists.items()} | {"notes": _count_notes(answer.notes, budget)}
    has_query = 0 < len(answer.query) <= budget * BYTES_PER_TOKEN // 4
    while True:
        shown = table if table is None or n_rows == len(table) else _take(answer, table, n_rows)
        document = _write(answer, shown, kept, lists, has_query)
        size = len(encode(document))
        if size <= budget * BYTES_PER_TOKEN:
            return document
        if n_rows > 1:
            room = max(0, budget * BYTES_PER_TOKEN - (size - _size_of_rows(document)))
            n_rows = max(1, min(n_rows - 1, math.floor(SHARE_KEPT * n_rows * room / max(1, _size_of_rows(document)))))
        elif longest := _longest(document, kept):
            kept[longest] //= 2
        elif has_query:
            has_query = False
        elif n_rows:
            n_rows = 0
        else:
            raise UsageError(f"the answer does not fit into {budget:,} tokens; ask with a larger budget")


def _count_notes(notes: Sequence[str], budget: int) -> int:
    """Return how many notes take no more than a quarter of the budget."""
    room, n = budget * BYTES_PER_TOKEN // 4, 0
    for note in notes:
        room -= len(encode(plain(note)))
        if room < 0:
            break
        n += 1
    return n


def _take(answer: Answer, table: Table, n_rows: int) -> Table:
    return answer.rows(n_rows) if answer.rows is not None and n_rows else table.head(n_rows)


def _longest(document: Document, kept: Mapping[str, int]) -> str:
    """Return the list that takes most room, of those that can be cut."""
    sizes = {name: len(encode(document[name])) for name, n in kept.items() if n and name in document}
    return max(sizes, key=lambda name: sizes[name], default="")


def _size_of_rows(document: Document) -> int:
    return len(encode(document.get("rows", [])))


def _write(answer: Answer, table: Table | None, kept: Mapping[str, int], lists: Document, has_query: bool) -> Document:
    left: list[str] = []
    document: Document = {}
    for name, value in answer.facts.items():
        document[name] = plain(value[: kept[name]] if name in lists else value)
        if name in lists and kept[name] < len(value):
            left.append(f"{len(value) - kept[name]:,} of {len(value):,} {name}: ask with a larger budget")
    if table is not None:
        document |= _write_rows(table)
        left += _say_left(answer, table)
    if notes := [plain(note) for note in answer.notes[: kept["notes"]]]:
        document["notes"] = notes
    if kept["notes"] < len(answer.notes):
        left.append(f"{len(answer.notes) - kept['notes']:,} notes: ask with a larger budget")
    rows = None if table is None or not answer.limit_said else answer.limit or len(table)
    document["command"] = answer.command.text(rows)
    if has_query:
        document["sql"] = answer.query
    elif answer.query:
        left.append("the SQL query that gives the same: ask with a larger budget")
    if left:
        document["left_out"] = left
    return document


def _write_rows(table: Table) -> Document:
    """Return columns and rows; columns that are empty are left out, and a text that all rows share is said once."""
    cells = {column.name: [plain(cell) for cell in column.plain()] for column in table.columns}
    used = {name: column for name, column in cells.items() if any(cell is not None for cell in column)}
    same = {
        name: column[0]
        for name, column in used.items()
        if len(table) > 1 and isinstance(column[0], str) and all(cell == column[0] for cell in column)
    }
    columns = {name: column for name, column in (used or cells).items() if name not in same}
    rows = [list(row) for row in zip(*columns.values(), strict=True)] if columns else [[] for _ in range(len(table))]
    return {"columns": list(columns), "rows": rows, **({"in_every_row": same} if same else {})}


def _say_left(answer: Answer, table: Table) -> list[str]:
    """Say how many rows are missing, and how to have them."""
    asked = answer.table
    assert asked is not None
    if not table.left and len(table) == len(asked):
        return []
    if table.left < 0:
        return ["more rows, which were not counted: ask with a larger limit"]
    more = max(table.left, asked.left + len(asked) - len(table))
    by = "budget" if len(table) < len(asked) else "limit"
    return [f"{more:,} of {len(table) + more:,} rows: ask with a larger {by}, or for a part"]


# -- plain data --------------------------------------------------------------------------------------------------------


def plain(value: Any) -> Any:
    """Return data as JSON has it: numbers that are not finite are null, and what a name would make a screen do is
    written out. A very long text lacks its middle."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, str):
        return _shorten(visible(value))
    if isinstance(value, Mapping):
        return {_shorten(visible(str(key))): plain(one) for key, one in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, bytes):
        return [plain(one) for one in value]
    return value if value is None or isinstance(value, int) else _shorten(visible(str(value)))


def _shorten(text: str) -> str:
    if len(text) <= LONGEST_TEXT:
        return text
    half = LONGEST_TEXT // 2
    return f"{text[:half]}...({len(text) - 2 * half:,} characters are left out)...{text[-half:]}"


def encode(document: Any) -> bytes:
    """Return a document as it is sent."""
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "backslashreplace")


def estimate_tokens(document: Document) -> int:
    """Return how many tokens a document has at most."""
    return math.ceil(len(encode(document)) / BYTES_PER_TOKEN)
