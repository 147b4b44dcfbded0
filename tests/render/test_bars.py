"""Bars in text."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callgrove.render.units import bar, heat


@pytest.mark.parametrize(
    ("share", "blocks", "ascii_only"),
    [
        (0, "    ", "    "),
        (1e-9, "▏   ", "-   "),
        (0.5, "██  ", "##  "),
        (0.55, "██▎ ", "##  "),
        (0.6, "██▍ ", "##- "),
        (1, "████", "####"),
        (7, "████", "####"),
        (-1, "    ", "    "),
        (math.nan, "    ", "    "),
    ],
)
def test_bar(share: float, blocks: str, ascii_only: str) -> None:
    assert bar(share, 4) == blocks
    assert bar(share, 4, unicode=False) == ascii_only


@given(st.floats(), st.integers(1, 50), st.booleans())
def test_a_bar_has_its_width(share: float, width: int, unicode: bool) -> None:
    assert len(bar(share, width, unicode=unicode)) == width


# -- heat strips -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "width", "text", "plain"),
    [
        ([24, 26, 28, 38], 16, "▓▓▓█", "***#"),
        ([8, 0, 0, 0], 16, "█···", "#..."),
        ([1e-9, 1], 16, "░█", ":#"),  # what is there is darker than nothing
        ([1, None, 2, float("nan")], 16, "▒ █ ", "+ # "),
        ([0, 0], 16, "··", ".."),
        ([-3, 2], 16, "·█", ".#"),
        ([1, 1, 1, 9, 1, 1], 3, "░█░", ":#:"),  # neighbours show the largest of them
        ([1, 2, 3, 4, 5], 2, "▒█", "+#"),
        ([], 16, "", ""),
    ],
)
def test_heat(values: list[float | None], width: int, text: str, plain: str) -> None:
    assert heat(values, width) == text
    assert heat(values, width, unicode=False) == plain
