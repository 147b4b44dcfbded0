"""Numbers in texts, against Python's own parser."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callgrove.formats.text_profiles import parse_decimals

DIGITS = st.text("0123456789", max_size=26)
DECIMALS = st.one_of(
    st.tuples(DIGITS, DIGITS).map(".".join).filter(lambda text: text != "."), DIGITS.filter(lambda text: text != "")
)


@given(st.lists(DECIMALS, min_size=1, max_size=20))
def test_decimals_are_what_python_makes_of_them(texts: list[str]) -> None:
    numbers = parse_decimals("=".join(texts).encode(), b"=")
    assert numbers is not None
    assert numbers.tolist() == [float(text) for text in texts]


@pytest.mark.parametrize(
    "text", ["", "=", "1==2", "1=", "=1", "1=.=2", "1.2.3", "1..2", "-1", "1e5", "nan", " 1", "1_0"]
)
def test_what_is_no_plain_decimal_is_refused(text: str) -> None:
    assert parse_decimals(text.encode(), b"=") is None
