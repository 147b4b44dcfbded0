"""Units: what products and ratios of them are called, and which can be added."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callgrove.model.unit_algebra import Unit, factor_between

NAMES = ("sec", "ms", "occ", "Bytes", "#", "10^-6 s", "%")
units = st.lists(st.tuples(st.sampled_from(NAMES), st.integers(-3, 3)), max_size=4)


def unit_of(powers: list[tuple[str, int]]) -> Unit:
    out = Unit()
    for name, exponent in powers:
        out = out * Unit.parse(name).to_power(exponent)
    return out


@pytest.mark.parametrize(
    ("text", "again"),
    [
        ("", ""),
        ("1", ""),
        ("sec", "sec"),
        ("MB/s", "MB/s"),
        ("1/sec", "1/sec"),
        ("a/b*c", "a*c/b"),
        ("a / b / c", "a/b/c"),
        ("sec^2", "sec^2"),
        ("sec^0.5*sec^0.5", "sec"),
        ("2^10 Bytes", "2^10 Bytes"),
        ("10^-6 s/occ", "10^-6 s/occ"),
        ("s/sec", ""),
        ("ms/sec", "ms/sec"),
        ("/", ""),
    ],
)
def test_texts_of_units(text: str, again: str) -> None:
    assert str(Unit.parse(text)) == again
    assert str(Unit.parse(again)) == again


@given(units, units)
def test_what_is_multiplied_and_divided_is_as_before(one: list[tuple[str, int]], other: list[tuple[str, int]]) -> None:
    left, right = unit_of(one), unit_of(other)
    assert factor_between((left * right) / right, left) == 1
    assert str(left / left) == ""
    assert str(Unit.parse(str(left))) == str(left)


@pytest.mark.parametrize(
    ("unit", "other", "factor"),
    [
        ("sec", "ms", 0.001),
        ("us", "ns", 0.001),
        ("ns", "sec", 1e9),
        ("sec", "s", 1.0),
        ("sec", "10^-6 s", 1e-6),
        ("sec/occ", "ms/occ", 0.001),
        ("occ/sec", "occ/ms", 1000.0),
        ("sec", "occ", None),
        ("sec", "", None),
        ("sec", "sec/occ", None),
        ("Bytes", "2^10 Bytes", None),
        ("time", "sec", None),  # a unit of that name is not time
        ("ms/sec", "", 1000.0),
    ],
)
def test_times_are_converted_and_nothing_else(unit: str, other: str, factor: float | None) -> None:
    assert factor_between(Unit.parse(unit), Unit.parse(other)) == factor
