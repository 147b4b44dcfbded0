"""One entry to all text formats."""

from __future__ import annotations

from typing import get_args

import pytest

from callgrove.render import Look, TableFormat, render
from tests.render.tables import one_column


@pytest.mark.parametrize(
    ("format", "text"),
    [
        ("table", "c\n-\n1\n"),
        ("csv", "c\n1\n"),
        ("json", '[\n{"c": 1}\n]\n'),
        ("jsonl", '{"c": 1}\n'),
        ("markdown", "| c |\n| ---: |\n| 1 |\n"),
    ],
)
def test_formats(format: TableFormat, text: str) -> None:
    assert "".join(render(one_column(1), format)) == text


@pytest.mark.parametrize("format", get_args(TableFormat))
def test_only_a_table_has_a_look(format: TableFormat) -> None:
    plain = "".join(render(one_column("n" * 30), format))
    narrow = "".join(render(one_column("n" * 30), format, Look(20, colour=True)))
    assert (plain != narrow) == (format == "table")
