"""Names from files, made safe to print."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callgrove.model.table import visible
from callgrove.render.text_table import display_width, shorten


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("main", "main"),
        ("größe 日本", "größe 日本"),
        ("a\x1b[31m", r"a\x1b[31m"),
        ("a\r\n\tb", r"a\r\n\tb"),
        ("\u202egpj", r"\u202egpj"),
        ("\udcff", r"\udcff"),
        ("\x9b2J", r"\x9b2J"),
        ("C:\\x", "C:\\x"),
    ],
)
def test_visible(text: str, safe: str) -> None:
    assert visible(text) == safe


@given(st.text(st.characters()))
def test_visible_text_is_printable(text: str) -> None:
    assert visible(text).isprintable()


@pytest.mark.parametrize(
    ("text", "width", "short"),
    [
        ("abcdefghij", 10, "abcdefghij"),
        ("abcdefghij", 7, "abc…hij"),
        ("abcdefghij", 6, "abc…ij"),
        ("abcdefghij", 2, "ab"),
        ("abcdefghij", 0, ""),
        ("日本日本日本", 7, "日…本"),
    ],
)
def test_shorten(text: str, width: int, short: str) -> None:
    assert shorten(text, width) == short


def test_shorten_without_unicode() -> None:
    assert shorten("abcdefghij", 7, "...") == "ab...ij"


@given(st.text(), st.integers(0, 20), st.sampled_from(["…", "..."]))
def test_shortened_text_fits(text: str, width: int, ellipsis: str) -> None:
    assert display_width(shorten(text, width, ellipsis)) <= width
