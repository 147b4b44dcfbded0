"""The result type that all layers share."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from callgrove.model.table import UNCOUNTED, Column, Table


def small_table() -> Table:
    return Table((Column("id", np.array([4, -1, 6]), absent=-1), Column("name", ["a", None, "c"])))


def test_rows_are_plain_python_values() -> None:
    rows = list(small_table().rows())
    assert rows == [(4, "a"), (None, None), (6, "c")]
    assert type(rows[0][0]) is int


@pytest.mark.parametrize(
    ("values", "absent", "expected"),
    [
        (np.array([1.5, np.nan]), None, [1.5, pytest.approx(np.nan, nan_ok=True)]),
        (np.array([1.5, np.nan]), np.nan, [1.5, None]),
        ([1.5, float("nan")], float("nan"), [1.5, None]),
        (np.array([2**64 - 1, 5], "u8"), np.uint64(2**64 - 1), [None, 5]),
        (np.array([2**63 + 1], "u8"), -1, [2**63 + 1]),
        (np.array([2**53 + 1]), None, [2**53 + 1]),
        (np.array(["x", ""]), "", ["x", None]),
        (np.array(["x", "-1"]), -1, ["x", "-1"]),
        (np.array([True, False]), None, [True, False]),
        (["x", ""], "", ["x", None]),
        ([np.int64(3), np.float32(0.5), np.str_("s"), None], -1, [3, 0.5, "s", None]),
        (np.array([None, np.int8(-1), "text"], dtype=object), -1, [None, None, "text"]),
        ((7, -1), -1, [7, None]),
        (range(3), 0, [None, 1, 2]),
        ([], -1, []),
    ],
)
def test_cells(values: Any, absent: Any, expected: list[Any]) -> None:
    cells = Column("c", values, absent).plain()
    assert cells == expected
    assert all(type(cell).__module__ == "builtins" for cell in cells)


def test_composite_cells_stay_as_they_are() -> None:
    terms = [{"p": 1}, [2, 3]]
    assert Column("c", terms, absent=-1).plain() == terms


def test_names_and_columns() -> None:
    table = small_table()
    assert table.names == ("id", "name")
    assert table.column("name").values == ["a", None, "c"]
    with pytest.raises(KeyError, match="no column 'nam', only id, name"):
        table.column("nam")


def test_length() -> None:
    assert len(small_table()) == 3
    assert len(Table(())) == 0
    assert list(Table(()).rows()) == []


def test_columns_of_different_length_are_refused() -> None:
    with pytest.raises(ValueError, match="id 1, name 2"):
        Table((Column("id", [1]), Column("name", ["a", "b"])))


def test_equal_names_are_refused() -> None:
    with pytest.raises(ValueError, match="same name"):
        Table((Column("id", [1]), Column("id", [2])))


def test_matrices_are_refused() -> None:
    with pytest.raises(ValueError, match="one-dimensional"):
        Column("id", np.zeros((2, 2)))


def test_from_rows() -> None:
    table = Table.from_rows(["a", "b"], iter([(1, "x"), (2, None)]))
    assert list(table.rows()) == [(1, "x"), (2, None)]
    assert Table.from_rows(["a", "b"], []).names == ("a", "b")


def test_ragged_rows_are_refused() -> None:
    with pytest.raises(ValueError, match="1 cells for 2 columns"):
        Table.from_rows(["a", "b"], [(1, 2), (3,)])


def test_head_counts_what_it_cuts() -> None:
    cut = small_table().head(1)
    assert list(cut.rows()) == [(4, "a")]
    assert cut.left == 2
    assert cut.head(0).left == 3
    assert Table(cut.columns, UNCOUNTED).head(0).left == UNCOUNTED


@pytest.mark.parametrize("limit", [None, 3, 99])
def test_head_of_a_short_table_is_the_table(limit: int | None) -> None:
    table = small_table()
    assert table.head(limit) is table


def test_a_negative_limit_is_refused() -> None:
    with pytest.raises(ValueError, match="negative"):
        small_table().head(-1)


def test_slices() -> None:
    table = Table(small_table().columns, left=9)
    slices = list(table.slices(2))
    assert [row for part in slices for row in part.rows()] == list(table.rows())
    assert [(len(part), part.left) for part in slices] == [(2, 0), (1, 9)]
    assert [(len(part), part.left) for part in table.slices(3)] == [(3, 9)]
    assert [part.names for part in table.head(0).slices(2)] == [("id", "name")]


def test_a_table_costs_no_numpy_import() -> None:
    program = "import sys, callgrove.model.table; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_only_tables_of_the_same_columns_are_put_together() -> None:
    one, two = Table.from_rows(["a"], [(1,)]), Table.from_rows(["a"], [(2,)])
    assert list(Table.concatenate([one, two]).rows()) == [(1,), (2,)]
    with pytest.raises(ValueError, match="zip"):
        Table.concatenate([one, Table.from_rows(["a", "b"], [(2, 3)])])
