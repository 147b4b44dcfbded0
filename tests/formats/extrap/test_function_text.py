"""Functions in Extra-P's notation."""

from __future__ import annotations

import pytest

from callgrove.formats.extrap.models import exponent_text, function_text, segments_text
from callgrove.model.study.series import Segment, Term


@pytest.mark.parametrize(
    ("value", "text"),
    [(2.0, "2"), (1.5, "3/2"), (-0.25, "-1/4"), (1 / 3, "1/3"), ("6/4", "3/2"), ("2.0", "2"), (0.1234567, "0.1234567")],
)
def test_exponents(value: float | str, text: str) -> None:
    assert exponent_text(value) == text


@pytest.mark.parametrize(
    "value",
    ["x", "1/0", float("nan"), float("inf"), "nan", "Infinity", "1e999", "1e999999999", "-1e-999999999", "9" * 400],
)
def test_what_is_no_exponent(value: float | str) -> None:
    with pytest.raises(ValueError, match="is not an exponent"):
        exponent_text(value)


def test_functions() -> None:
    """As Extra-P prints them: no constant where it is 0, no coefficient where it is 1, minus signs stay with it."""
    one, two = Term(1.0, {"p": ("1", "0")}), Term(-2.5, {"p": ("3/2", "1"), "n": ("0", "2")})
    assert function_text(0.0, ()) == "0.0"
    assert function_text(0.0, (one,)) == "p^(1)"
    assert function_text(5, (two, one)) == "5.0 + -2.5 * p^(3/2) * log2(p)^(1) * log2(n)^(2) + p^(1)"


def test_segments() -> None:
    pieces = (Segment(float("-inf"), 5.0, "p^(1)", 0.0), Segment(6.0, float("inf"), "3.0", 3.0))
    assert segments_text(pieces, "p") == "p^(1) for p<=5.0; 3.0 for p>=6.0"
