"""Rows of text made of columns are what Python's own formatting makes of every row."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from callgrove.binary.text_rows import (
    Texts,
    blocks,
    decimals,
    fractions,
    hexadecimals,
    integers,
    join_fields,
    only,
    where,
)

SIGNED = st.lists(st.integers(-(2**63), 2**63 - 1) | st.sampled_from([0, 9, 9999, 10**4, 10**8, 10**16]), max_size=40)


def lines(*fields: object) -> list[str]:
    n = next(len(field) for field in fields if isinstance(field, np.ndarray))
    return join_fields(n, [*fields, b"\n"]).decode().splitlines()  # type: ignore[list-item]


@given(SIGNED)
def test_integers(values: list[int]) -> None:
    assert lines(integers(np.array(values, np.int64))) == [str(value) for value in values]


@given(st.lists(st.integers(0, 2**64 - 1), max_size=20))
def test_unsigned_integers(values: list[int]) -> None:
    assert lines(integers(np.array(values, np.uint64))) == [str(value) for value in values]


@given(st.lists(st.integers(0, 2**63 - 1), max_size=20))
def test_thousandths_are_exact(values: list[int]) -> None:
    assert lines(*decimals(np.array(values, np.int64))) == [f"{v // 1000}.{v % 1000:03d}" for v in values]


@given(SIGNED)
def test_hexadecimals(values: list[int]) -> None:
    assert lines(hexadecimals(np.array(values, np.int64))) == [f"{value & (2**64 - 1):016x}" for value in values]


@given(st.data())
def test_texts_by_number_while_the_list_grows(data: st.DataObject) -> None:
    strings: list[str] = []
    texts = Texts(strings, lambda text: f"<{text}>".encode(), b"-")
    for _ in range(4):
        strings += data.draw(st.lists(st.text("abc", max_size=70), max_size=30))
        numbers = data.draw(st.lists(st.integers(-1, len(strings) - 1), max_size=20))
        cells = texts.cells(np.array(numbers, np.int32))
        assert lines(cells) == ["-" if n < 0 else f"<{strings[n]}>" for n in numbers]
        assert all(texts.widths(np.array(numbers, np.int32)) >= [len(cell) for cell in cells])


def test_rows_of_several_fields() -> None:
    name = Texts(["a", "bc"], str.encode)
    n = 70_000  # more than fit into one piece
    number = np.arange(n)
    found = join_fields(n, [integers(number), b",", name.cells(number % 2), b"\n"])
    assert found == "".join(f"{k},{('a', 'bc')[k % 2]}\n" for k in range(n)).encode()
    assert join_fields(0, [b"x"]) == b""


def test_cells_that_do_not_apply() -> None:
    assert lines(where(np.array([True, False]), integers(np.array([5, 6])), b"none")) == ["5", "none"]


@given(st.lists(st.integers(1, 100), max_size=50))
def test_blocks_are_all_rows_and_fit(widths: list[int]) -> None:
    found = list(blocks(np.array(widths, np.int64), fixed=10, most=300))
    assert [k for part in found for k in range(part.start, part.stop)] == list(range(len(widths)))
    for part in found:
        n = part.stop - part.start
        assert n == 1 or n * (10 + max(widths[part])) <= 300


@given(st.lists(st.floats(allow_nan=False), max_size=20))
def test_fractions_lose_nothing(values: list[float]) -> None:
    found = lines(fractions(np.array(values), lambda value: repr(value).encode()))
    assert [float(text) for text in found] == values


def test_fields_of_some_rows_only() -> None:
    rows = np.array([1, 3])
    some = only(4, rows, [b"<", integers(rows * 1000), b">"])
    assert join_fields(4, [integers(np.arange(4)), some, b";"]) == b"0;1<1000>;2;3<3000>;"
