"""The table for people."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from callgrove.model.table import UNCOUNTED, Column, Table
from callgrove.render.text_formats import Amounts, Identifier, Prose, Whole, reading_float
from callgrove.render.text_table import PLAIN, Look, display_width, text_table
from tests.render.tables import HOSTILE, one_column


def shown(tables: list[Table], look: Look = PLAIN) -> str:
    return "".join(text_table(tables, look))


def example() -> Table:
    return Table(
        (
            Column("name", ["main", "solve", None]),
            Column("line", np.array([3, -1, 120]), absent=-1),
            Column("time", [0.123456789, 12345678.9, None]),
        )
    )


def test_golden() -> None:
    assert shown([example()]) == (
        "name   line      time\n"
        "-----  ----  --------\n"
        "main      3   0.12346\n"
        "solve        12345679\n"
        "        120\n"
    )  # fmt: skip


def test_colours_change_nothing_else() -> None:
    coloured = shown([example().head(2)], Look(colour=True))
    assert coloured.startswith("\x1b[1mname")
    assert re.sub(r"\x1b\[\dm", "", coloured) == shown([example().head(2)])


def test_what_is_left_is_said() -> None:
    assert shown([example().head(1)]).endswith("\n… and 2 more\n")
    assert shown([example().head(1)], Look(unicode=False)).endswith("\n... and 2 more\n")
    assert shown([Table(example().columns, UNCOUNTED)]).endswith("\n… and more\n")


def test_long_names_are_cut_in_the_middle_to_the_width() -> None:
    name = "std::begin_" + "x" * 300 + "_end"
    table = Table.from_rows(["name", "file", "value"], [(name, "a.c", 123456789)])
    text = shown([table], Look(width=40))
    assert text.splitlines()[2] == "std::begin_…xxxxxxx_end  a.c   123456789"
    assert max(map(len, text.splitlines())) == 40
    assert "..." in shown([table], Look(width=40, unicode=False))
    assert name[:50] in shown([table])


def test_numbers_are_never_cut() -> None:
    table = Table.from_rows(["name", "value"], [("n" * 50, 12345678901234567890)])
    assert "12345678901234567890" in shown([table], Look(width=10))


def test_amounts_are_never_cut_and_stand_on_the_right() -> None:
    table = Table((Column("name", ["n" * 50]), Amounts("bytes_per_second", ["39.4 GB/s"]), Amounts("total", [None])))
    assert shown([table], Look(width=41)).splitlines()[::2] == [
        "name              bytes_per_second  total",
        "nnnnnnnn…nnnnnnn         39.4 GB/s",
    ]


def wide_table(n_rows: int = 2) -> Table:
    """A name, six numbers and a judgement."""
    numbers = [Amounts(f"metric {k}", [f"{k}.25 MB/s"] * n_rows) for k in range(6)]
    names = Column("name", ["some_long_function_name"] * n_rows)
    return Table((names, *numbers, Whole("order", ["O(p^1.5)"] * n_rows)))


@pytest.mark.parametrize("width", [20, 40, 60, 80, 100, 120, None])
def test_every_number_and_judgement_is_shown_once_at_every_width(width: int | None) -> None:
    text = shown([wide_table(1)], Look(width=width))
    for k in range(6):
        assert text.count(f"{k}.25 MB/s") == 1
    assert text.count("O(p^1.5)") == 1
    if width and width >= 40:
        assert max(map(len, text.splitlines())) <= width


def test_what_does_not_fit_goes_on_below_with_the_names_again() -> None:
    assert shown([wide_table(1)], Look(width=50)).splitlines() == [
        "name                metric 0   metric 1   metric 2",
        "-----------------  ---------  ---------  ---------",
        "some_lon…ion_name  0.25 MB/s  1.25 MB/s  2.25 MB/s",
        "",
        "name                metric 3   metric 4   metric 5",
        "-----------------  ---------  ---------  ---------",
        "some_lon…ion_name  3.25 MB/s  4.25 MB/s  5.25 MB/s",
        "",
        "name                     order",
        "-----------------------  --------",
        "some_long_function_name  O(p^1.5)",
    ]


def test_ranks_are_part_of_the_names_that_are_shown_again() -> None:
    table = Table((Column("kernel", ["a", "a"]), Identifier("rank", [0, 1]), *wide_table().columns[1:]))
    blocks = shown([table], Look(width=40)).split("\n\n")
    assert len(blocks) > 1
    for block in blocks:
        assert [line.split()[:2] for line in block.splitlines()[2:]] == [["a", "0"], ["a", "1"]]


def test_blocks_of_a_stream_are_laid_out_chunk_by_chunk() -> None:
    text = shown([wide_table(), wide_table()], Look(width=60))
    assert text.count("3.25 MB/s") == 4
    assert text.count("metric 3") == 2
    one_block = shown([wide_table(), wide_table()])
    assert one_block.count("metric 3") == 1


def test_functions_are_written_out_where_no_width_is_given() -> None:
    function = " + ".join(f"{k}.5 * p^{k}" for k in range(40))
    assert function in shown([Table((Column("name", ["n" * 400]), Whole("function", [function])))])


def test_indentation_stays_and_deep_levels_are_numbers() -> None:
    names = ["  " * depth + "function_with_a_name" for depth in range(12)]
    table = Table((Column("name", names), Amounts("cost", ["1.00 s"] * 12), Column("where", ["file_name.c:123"] * 12)))
    lines = shown([table], Look(width=60)).splitlines()[2:]
    assert [len(line) - len(line.lstrip()) for line in lines] == [2 * depth for depth in range(12)]
    narrow = shown([table], Look(width=40)).splitlines()[2:]
    assert narrow[1].startswith("  function_…h_a_name")
    assert narrow[11].startswith("   (11) fun")


def test_prose_is_written_out() -> None:
    sentence = "expected a footer, found " + "nothing " * 40
    table = Table((Column("file", ["a" * 40] * 70_000), Prose("problem", [sentence] * 70_000)))  # in two chunks
    first, rule, line, *_, last = shown([table], Look(width=40)).splitlines()
    assert line == last
    assert line.endswith("found" + " nothing" * 40)
    assert (first, rule) == (f"{'file':31}  problem", f"{'-' * 31}  -------")


def test_without_a_width_even_monstrous_names_leave_a_readable_line() -> None:
    assert len(shown(one_column("n" * 5000)).splitlines()[2]) == 160


def test_wide_characters_are_aligned() -> None:
    table = Table.from_rows(["name", "v"], [("日本", 1), ("e\u0301", 2), ("abcd", 3)])
    assert [display_width(line) for line in shown([table]).splitlines()] == [7] * 5


def test_later_chunks_widen_columns() -> None:
    assert shown([*one_column("a"), *one_column("abc", "d")]).splitlines() == ["c", "-", "a", "abc", "d"]
    table = [Table.from_rows(["c", "d"], [(cell, 1)]) for cell in ("a", "abc", "b")]
    assert shown(table).splitlines()[2:] == ["a  1", "abc  1", "b    1"]


def test_an_empty_table_is_its_header() -> None:
    assert shown([Table.from_rows(["a", "b"], [])]) == "a  b\n-  -\n"
    assert shown([]) == ""


@given(st.text() | st.just(HOSTILE), st.text(min_size=1), st.none() | st.integers(1, 40))
def test_data_cannot_reach_the_terminal(cell: str, name: str, width: int | None) -> None:
    text = shown(one_column(cell, name=name), Look(width=width))
    assert text.count("\n") == 3
    assert text.replace("\n", "").isprintable()
    text.encode()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (-0.0, "0"),
        (1.0, "1"),
        (0.1 + 0.2, "0.3"),
        (123.456, "123.46"),
        (99999.7, "100000"),
        (123456.7, "123457"),
        (-1234567.8, "-1234568"),
        (1e15, "1e+15"),
        (1.23456789e-5, "1.2346e-05"),
        (float("nan"), "nan"),
        (float("-inf"), "-inf"),
    ],
)
def test_floats_for_people(value: float, text: str) -> None:
    assert reading_float(value) == text
