"""JSON must be valid and read back as what was written."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from callgrove.model.table import Column, Table
from callgrove.render.text_formats import json_text, json_value, jsonl_text
from tests.render.tables import HOSTILE, chunked_tables, one_column, tables_of


def refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is not JSON")


def read(text: str) -> Any:
    return json.loads(text, parse_constant=refuse)


def test_golden() -> None:
    table = Table((Column("context", np.array([0, -1]), absent=-1), Column("value", np.array([0.5, np.nan]))))
    assert "".join(json_text([table])) == '[\n{"context": 0, "value": 0.5},\n{"context": null, "value": null}\n]\n'
    assert "".join(jsonl_text([table])) == '{"context": 0, "value": 0.5}\n{"context": null, "value": null}\n'


@pytest.mark.parametrize("tables", [[], tables_of(["a"], [[]]), tables_of(["a", "b"], [[], []])])
def test_no_rows_are_an_empty_array(tables: list[Table]) -> None:
    assert "".join(json_text(tables)) == "[]\n"
    assert "".join(jsonl_text(tables)) == ""


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (2**64 + 1, 2**64 + 1),
        (math.inf, None),
        ({"terms": [math.nan, {"p": (1, 2)}]}, {"terms": [None, {"p": [1, 2]}]}),
        ({"n": np.int64(3), "x": np.array([1.0, np.nan])}, {"n": 3, "x": [1.0, None]}),
        (np.array([1, 2]), [1, 2]),
        (3 + 4j, "(3+4j)"),
        ("é%s", "é%s"),
    ],
)
def test_cells(value: Any, expected: Any) -> None:
    assert read("".join(json_text(one_column(value)))) == [{"c": expected}]
    assert read(json_value(value)) == expected


def test_text_is_ascii_whatever_the_names() -> None:
    text = "".join(json_text(one_column(HOSTILE, name="名")))
    assert text.isascii()
    assert read(text) == [{"名": HOSTILE}]


def expected_cell(cell: Any) -> Any:
    return None if isinstance(cell, float) and not math.isfinite(cell) else cell


@given(chunked_tables())
def test_round_trip(case: tuple[list[str], list[list[Sequence[Any]]]]) -> None:
    columns, chunks = case
    tables = tables_of(columns, chunks)
    expected = [
        {name: expected_cell(cell) for name, cell in zip(columns, row, strict=True)}
        for chunk in chunks
        for row in chunk
    ]
    objects = read("".join(json_text(tables)))
    assert objects == expected
    assert [list(map(type, entry.values())) for entry in objects] == [
        list(map(type, entry.values())) for entry in expected
    ]
    assert [read(line) for line in "".join(jsonl_text(tables)).splitlines()] == expected
