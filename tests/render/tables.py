"""Tables that the tests of all text formats use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from callgrove.model.table import Column, Table

HOSTILE = "a\x1b[2J\nb\r\x00\u202e\udcff\x9b|c"

cells = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
names = st.text(min_size=1)


@st.composite
def chunked_tables(draw: st.DrawFn) -> tuple[list[str], list[list[Sequence[Any]]]]:
    """Column names and rows in chunks, some of them empty."""
    columns = draw(st.lists(names, min_size=1, max_size=4, unique=True))
    row = st.tuples(*(cells for _ in columns))
    return columns, draw(st.lists(st.lists(row, max_size=5), min_size=1, max_size=3))


def tables_of(columns: Sequence[str], chunks: Sequence[Sequence[Sequence[Any]]]) -> list[Table]:
    return [Table.from_rows(columns, chunk) for chunk in chunks]


def one_column(*values: Any, name: str = "c") -> list[Table]:
    return [Table((Column(name, list(values)),))]
