"""CSV must read back as what was written."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from callgrove.model.table import Column, Table
from callgrove.render.text_formats import csv_text
from tests.render.tables import chunked_tables, one_column, tables_of


def written(tables: list[Table]) -> str:
    return "".join(csv_text(tables))


def read(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text, newline=""), strict=True))


def test_golden() -> None:
    table = Table(
        (
            Column("context", np.array([0, -1]), absent=-1),
            Column("name", ['say "hi", x', None]),
            Column("value", np.array([0.1, np.inf])),
            Column("shown", [True, False]),
        )
    )
    assert written([table]) == 'context,name,value,shown\n0,"say ""hi"", x",0.1,true\n,,inf,false\n'


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (2**64 + 1, "18446744073709551617"),
        (0.1 + 0.2, "0.30000000000000004"),
        (1e22, "1e+22"),
        (math.nan, "nan"),
        (-math.inf, "-inf"),
        ("=1+1", "=1+1"),
        (" padded ", " padded "),
        ({"p": [1, math.nan]}, '"{""p"": [1, null]}"'),
    ],
)
def test_cells(value: Any, text: str) -> None:
    assert written(one_column(value, None)) == f'c\n{text}\n""\n'


@pytest.mark.parametrize("text", ["\r", "\n", "a\r\nb", '"', ","])
def test_what_would_break_a_line_is_quoted(text: str) -> None:
    assert read(written([Table.from_rows(["a", "b"], [(text, 1)])])) == [["a", "b"], [text, "1"]]


def test_an_empty_table_is_its_header() -> None:
    assert written(tables_of(["a", "b"], [[], []])) == "a,b\n"
    assert written([]) == ""


def test_long_tables_come_in_pieces() -> None:
    pieces = list(csv_text([Table((Column("i", np.arange(200_000)),))]))
    assert len(pieces) > 3
    assert "".join(pieces).split() == ["i", *map(str, range(200_000))]


def test_chunks_are_taken_one_by_one() -> None:
    taken = []

    def stream() -> Any:
        for number in range(3):
            taken.append(number)
            yield from one_column(number)

    pieces = csv_text(stream())
    assert [next(pieces), next(pieces)] == ["c\n", "0\n"]
    assert taken == [0]


def test_chunks_with_other_columns_are_refused() -> None:
    with pytest.raises(ValueError, match="differ in their columns"):
        written([*one_column(1), *one_column(2, name="d")])


def expected_text(cell: Any) -> str:
    if cell is None:
        return ""
    return str(cell).lower() if isinstance(cell, bool) else str(cell)


@given(chunked_tables())
def test_round_trip(case: tuple[list[str], list[list[Sequence[Any]]]]) -> None:
    columns, chunks = case
    header, *rows = read(written(tables_of(columns, chunks)))
    assert header == columns
    assert rows == [[expected_text(cell) for cell in row] for chunk in chunks for row in chunk]


def test_formulas_are_marked_for_spreadsheets_only() -> None:
    rows = [("=1+1", -2), ("+x", 3), ("-y", 4), ("@z", 5), ("\t=a", 6), ("a=b", 7)]
    table = Table.from_rows(["name", "=n"], rows)
    text = "".join(csv_text([table], for_spreadsheets=True))
    assert [row[0] for row in read(text)] == ["name", "'=1+1", "'+x", "'-y", "'@z", "'\t=a", "a=b"]
    assert [row[1] for row in read(text)] == ["'=n", "-2", "3", "4", "5", "6", "7"]
    assert [tuple(row) for row in read("".join(csv_text([table])))][1:] == [(name, str(n)) for name, n in rows]


def test_texts_that_repeat() -> None:
    cells = ["a,b", None, "c", 'say "d"'] * 5
    table = Table((Column("text", cells), Column("word", ["plain"] * 20)))
    assert read(written([table])) == [["text", "word"], *([cell or "", "plain"] for cell in cells)]
