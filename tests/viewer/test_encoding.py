"""The document of a page: read back here as static/data.js reads it."""

from __future__ import annotations

import base64
import json
import zlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from callgrove.arrays import Array
from callgrove.model.table import visible
from callgrove.viewer.page import Texts, encode, encode_answer
from tests.viewer.serving import unpacked


def decoded(text: str) -> Any:
    """What a page makes of the text: a second reading of the layout that the module's docstring draws."""
    document = json.loads(text)
    blob = zlib.decompress(base64.b64decode(document.pop("blob")))
    at, size = document.pop("strings")
    strings = json.loads(blob[at : at + size])

    def column(kind: str, offset: int, length: int) -> Array:
        width = int(kind[1])
        planes = np.frombuffer(blob, np.uint8, length * width, offset).reshape(width, length)
        return np.ascontiguousarray(planes.T).view(f"<{kind}").reshape(-1)

    def filled(value: Any) -> Any:
        if isinstance(value, list):
            return [filled(part) for part in value]
        if not isinstance(value, dict):
            return value
        if "$a" in value:
            return column(*value["$a"])
        if "$t" in value:
            return [strings[number] for number in column(*value["$t"])]
        return {name: filled(part) for name, part in value.items()}

    return filled(document)


@given(st.lists(st.integers(-(2**31), 2**32 - 1)), st.lists(st.floats(width=64)), st.lists(st.text()))
def test_columns_come_back(integers: list[int], floats: list[float], texts: list[str]) -> None:
    document = {"i": np.array(integers, np.int64), "f": np.array(floats), "t": Texts(texts), "n": [1, None, "x"]}
    found = decoded(encode(document))
    assert found["i"].tolist() == integers
    assert np.array_equal(found["f"], np.array(floats), equal_nan=True)
    assert found["t"] == [visible(text) for text in texts]
    assert found["n"] == [1, None, "x"]


@pytest.mark.parametrize(
    ("values", "kind"),
    [([0, 255], "u1"), ([-1, 100], "i1"), ([0, 65_535], "u2"), ([-1, 40_000], "i4"), ([0, 2**32 - 1], "u4")],
)
def test_integers_take_the_smallest_type(values: list[int], kind: str) -> None:
    assert json.loads(encode({"x": np.array(values)}))["x"]["$a"][0] == kind


def test_integers_beyond_32_bits_become_doubles() -> None:
    found = decoded(encode({"x": np.array([2**53, -5, 7])}))["x"]
    assert found.dtype == np.float64
    assert found.tolist() == [2**53, -5, 7]


def test_an_array_that_occurs_twice_is_stored_once() -> None:
    column, names = np.arange(50_000) * 7919 % 50_021, Texts([f"name {k}" for k in range(1000)])
    once, twice = encode({"a": column, "t": names}), encode({"a": column, "t": names, "b": column, "u": names})
    assert len(twice) < len(once) + 100
    assert decoded(twice)["b"].tolist() == column.tolist()


HOSTILE = [
    "</script><script>alert(1)</script>",
    "<!-- <script>",
    "<img src=x onerror=alert(1)>",
    "a\u2028b\u2029c",
    "&lt;",
]


def test_no_text_can_end_its_element() -> None:
    text = encode({"plain": HOSTILE, "texts": Texts(HOSTILE), "<key>": 1})
    assert text.isascii()
    assert not set("<>&") & set(text)
    assert decoded(text)["plain"][:3] == HOSTILE[:3]


def test_texts_are_made_visible() -> None:
    found = decoded(encode({"t": Texts(["a\x00b", "right\u202eleft", "\ud800"]), "p": "\x1b[2J"}))
    assert found["t"] == ["a\\x00b", "right\\u202eleft", "\\ud800"]
    assert found["p"] == "\\x1b[2J"


def test_numbers_that_json_lacks_are_null() -> None:
    assert decoded(encode({"x": [float("nan"), float("inf"), np.float64(1.5), np.int32(3)]}))["x"] == [
        None,
        None,
        1.5,
        3,
    ]


# -- answers of a server -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [0, 5, 1 << 19, (1 << 19) + 3])
def test_answers_hold_what_pages_do(n: int) -> None:
    rng = np.random.default_rng(n)
    noise, small = rng.integers(0, 256, n), rng.integers(0, 60_000, n // 3)
    runs, shares = np.repeat(np.arange(n // 100 + 1), 100), rng.random(n // 4)
    document = {"a": noise, "b": small, "c": [runs, {"d": shares}], "t": Texts(["x", "\n", "x"]), "e": None}
    found = unpacked(encode_answer(document))
    assert found["a"] == noise.tolist()
    assert found["b"] == small.tolist()
    assert found["c"] == [runs.tolist(), {"d": shares.tolist()}]
    assert found["t"] == ["x", "\\n", "x"]
    assert found["e"] is None


def test_large_columns_without_runs_stay_as_they_are() -> None:
    noise = np.random.default_rng(0).integers(0, 256, 1 << 20).astype(np.uint8)
    runs = np.repeat(np.arange(1 << 13), 1 << 7)
    assert noise.tobytes() in encode_answer({"a": noise})
    assert len(encode_answer({"a": runs})) < runs.nbytes / 100
    assert len(encode_answer({"a": noise[: 1 << 18] // 16})) < 1 << 18, "of what is small, less is sent"
