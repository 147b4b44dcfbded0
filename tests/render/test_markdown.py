"""A Markdown table shows names as they are."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callgrove.model.table import Table
from callgrove.render.text_formats import markdown
from tests.render.tables import HOSTILE, one_column


def test_golden() -> None:
    table = Table.from_rows(["name", "time"], [("main", 1234567.0), (None, 0.5)])
    assert "".join(markdown([table])) == (
        "| name | time |\n"
        "| :--- | ---: |\n"
        "| main | 1234567 |\n"
        "|  | 0.5 |\n"
    )  # fmt: skip


@pytest.mark.parametrize(
    ("name", "escaped"),
    [
        ("a|b", r"a\|b"),
        ("vector<int>", r"vector\<int\>"),
        ("operator*", r"operator\*"),
        ("__init__", r"\_\_init\_\_"),
        ("MPI_Allreduce", "MPI_Allreduce"),
        ("a\nb", r"a\\nb"),
        ("&lt;", r"\&lt;"),
        ("[x](y)", r"\[x](y)"),
        ("`x`", r"\`x\`"),
    ],
)
def test_names_are_escaped(name: str, escaped: str) -> None:
    assert "".join(markdown(one_column(name))).splitlines()[-1] == f"| {escaped} |"


def test_what_is_left_is_said() -> None:
    table = Table.from_rows(["a"], [(1,), (2,), (3,)]).head(1)
    assert "".join(markdown([table])).endswith("| 1 |\n\nand 2 more\n")


def test_only_the_first_chunk_has_a_header() -> None:
    assert "".join(markdown([*one_column(1), *one_column(2)])) == "| c |\n| ---: |\n| 1 |\n| 2 |\n"


@given(st.text() | st.just(HOSTILE))
def test_a_cell_never_leaves_its_place(name: str) -> None:
    lines = "".join(markdown(one_column(name))).split("\n")
    assert len(lines) == 4
    assert all(line.isprintable() for line in lines)
    without_escapes = re.sub(r"\\.", "", lines[2])
    assert without_escapes.count("|") == 2
