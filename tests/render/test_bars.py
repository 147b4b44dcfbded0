"""Bars in text."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callgrove.render.units import bar


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
