"""Conditions over columns: of a table, and of contexts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from callgrove.arrays import Bools
from callgrove.patterns.columns import ContextColumns
from callgrove.patterns.conditions import Column, Condition, NumberColumn, TextColumn
from callgrove.patterns.syntax import PatternError
from tests.patterns.tree_t import names_of, small_tree, tree_t


class Rows:
    """Three rows of a table."""

    n_rows = 3
    names: Sequence[str] = ("name", "time", "n", "size", "size (MB)", "made")

    def find(self, name: str) -> Sequence[str]:
        return [one for one in self.names if one == name or one.startswith(f"{name} (")]

    def read(self, name: str, scope: str) -> Column:
        columns: dict[str, Column] = {
            "name": TextColumn.of(["main", None, "solve"]),
            "time": NumberColumn(np.array([4.0, np.nan, 2.0]), unit="sec", whole=8.0),
            "n": NumberColumn(np.array([2**60 + 1, 5, 0]), np.array([False, False, True])),
            "made": TextColumn.of(["main", "a", "b"]),
        }
        return columns[name]

    def mark(self, word: str) -> Bools | None:
        return None


def rows(text: str) -> list[int]:
    return np.flatnonzero(Condition.parse(text).choose(Rows())).tolist()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("time > 3", [0]),
        ("3 < time", [0]),
        ("time <= 50%", [0, 2]),
        ("time = 2000ms", [2]),
        ("time != 4", [2]),
        ("not time = 4", [1, 2]),
        ("time is missing", [1]),
        ("time is not missing and n is missing", [2]),
        ("n = 1152921504606846977", [0]),
        ("n < 9 or name = 'solve'", [1, 2]),
        ("name != 'main'", [2]),
        ("name ~ /^M/i", [0]),
        ("name !~ /a/", [2]),
        ("name = made", [0]),
        ("made != name", [2]),
        ("name = name", [0, 2]),
        ("time > n", []),
        ("made ~ /a/", [0, 1]),
    ],
)
def test_rows_that_fulfil_a_condition(text: str, expected: list[int]) -> None:
    if text == "time > n":
        with pytest.raises(PatternError, match="cannot compare sec with a number without unit at character 8"):
            rows(text)
    else:
        assert rows(text) == expected


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("tme > 5", "there is no metric or column 'tme' at character 1 of 'tme > 5'; did you mean 'time'?"),
        ("name = main", "'main' at character 8 of 'name = main'; a text stands in single quotes: 'main'"),
        ("nam = name", "'nam' at character 1 of 'nam = name'; a text stands in single quotes: 'nam'"),
        ("time = tme", "'tme' at character 8 of 'time = tme'; did you mean 'time'?"),
        ("size > 5", "'size' fits 'size' and 'size .MB.' at character 1 of 'size > 5'; name one of them"),
        ("n > 5%", "there is no whole that a percentage could be of at character 5"),
        ("time > 5kB", "cannot compare sec with kB at character 8"),
        ("name > 'a'", "texts have no order"),
        ("name = 5", "expected a text, not a number, at character 8"),
        ("time = 'a'", "expected a number, not a text, at character 8"),
        ("time ~ /a/", "expected a text, not a number, at character 1"),
        ("5 > 3", "expected a column or a metric on one side at character 1"),
        ("5 is missing", "expected a column or a metric at character 1"),
        ("excl(name) > 3", "'name' is a text, no metric, at character 6"),
        ("leaf", "rows are not contexts, so none is a leaf at character 1"),
        ("time > 5)", "expected 'and', 'or' or the end at character 9"),
        ("name ~ /(/", "'/./' at character 8 is not a regular expression"),
    ],
)
def test_conditions_that_are_refused(text: str, words: str) -> None:
    with pytest.raises(PatternError, match=words):
        rows(text)


def test_names_can_be_checked_before_anything_is_computed() -> None:
    assert Condition.parse("time > 5", ("time",)).text == "time > 5"
    with pytest.raises(PatternError, match="there is no metric or column 'n' at character 14"):
        Condition.parse("time > 5 and n = 3", ("time",))


def test_columns_of_contexts() -> None:
    e = tree_t()
    columns = ContextColumns(e)

    def chosen(text: str) -> str:
        return names_of(e, Condition.parse(text).choose(columns))

    assert chosen("children = 3") == "main solve"
    assert chosen("depth = 1") == "init solve write"
    assert chosen("file = 'io.c'") == "write"
    assert chosen("module is not missing and incl(cycles) > 60") == "MPI_Allreduce"
    assert chosen("kind = 'function' and root") == "main"
    assert chosen("path ~ /solve->solve/ and leaf") == "kernel MPI_Allreduce"
    assert chosen("cycles = 448 and line is missing") == "main"


def test_the_exclusive_cost_of_a_function_contains_what_is_nested_in_it() -> None:
    e = small_tree("""
        main 0
          [main.c:1] 3
            solve 0
              [loop at s.c:1] 1
                [s.c:2] 4
          [main.c:5] 2
        """)
    columns = ContextColumns(e.with_metric("half = time / 2", "share = time / time"))
    values = {name: columns.read(name, "excl").values.tolist() for name in ("time", "half")}  # type: ignore[union-attr]
    assert values == {"time": [5, 3, 5, 5, 4, 2], "half": [2.5, 1.5, 2.5, 2.5, 2, 1]}
    assert columns.mark("leaf").tolist() == [False, False, True, True, True, True]
    assert columns.read("children", "").values.tolist() == [1, 1, 0, 0, 0, 0]  # type: ignore[union-attr]
    assert columns.read("share", "excl").values.tolist() == [1] * 6  # type: ignore[union-attr]
