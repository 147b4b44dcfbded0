"""Numbers with units, for people."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callgrove.render.units import amount, duration_ns, percent, printf, si


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (1.234, "s", "1.23 s"),
        (0.0451, "s", "45.1 ms"),
        (3.2e-6, "s", "3.20 us"),
        (8.5e-7, "s", "850 ns"),
        (12345, "", "12.3 k"),
        (7, "", "7"),
        (999, "", "999"),
        (999.6, "", "1.00 k"),
        (999_999, "", "1.00 M"),
        (0.25, "", "0.25"),
        (0, "s", "0 s"),
        (0.5, "bytes", "0.5 B"),
        (2.5e9, "bytes", "2.50 GB"),
        (86_400, "sec", "86400 s"),
        (-0.0451, "s", "-45.1 ms"),
        (1.5e9, "Hz", "1.50 GHz"),
        (math.nan, "s", "nan s"),
        (math.inf, "", "inf"),
    ],
)
def test_si(value: float, unit: str, text: str) -> None:
    assert si(value, unit) == text


@given(st.floats(1e-12, 1e18), st.sampled_from(["", "s", "B", "Hz"]))
def test_si_is_right_to_three_digits(value: float, unit: str) -> None:
    number, _, symbol = si(value, unit).partition(" ")
    prefix = symbol.removesuffix(unit)
    scale = {"p": 1e-12, "n": 1e-9, "u": 1e-6, "m": 1e-3, "": 1, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
    assert float(number) * {**scale, "E": 1e18}[prefix] == pytest.approx(value, rel=0.006)


@pytest.mark.parametrize(
    ("share", "text"),
    [(0.1234, "12.3%"), (1, "100.0%"), (0, "0.0%"), (1e-9, "<0.1%"), (0.0005, "0.1%"), (-0.5, "-50.0%"), (2, "200.0%")],
)
def test_percent(share: float, text: str) -> None:
    assert percent(share) == text


@pytest.mark.parametrize(
    ("time_ns", "text"),
    [
        (0, "0 s"),
        (850, "850 ns"),
        (1.5e9, "1.50 s"),
        (90e9, "90 s"),
        (125e9, "2 min 5 s"),
        (3599.7e9, "1 h 0 min"),
        (9e12, "2 h 30 min"),
        (-9e12, "-2 h 30 min"),
    ],
)
def test_duration(time_ns: float, text: str) -> None:
    assert duration_ns(time_ns) == text


@pytest.mark.parametrize(
    ("number_format", "value", "text"),
    [
        ("%6.2f %%", 12.345, "12.35 %"),
        ("%6.0f", 7.0, "7"),
        ("%8.2e", 0.001, "1.00e-03"),
        ("%d", 3.7, "3"),
        ("n=%g", 2, "n=2"),
    ],
)
def test_formats_of_c(number_format: str, value: float, text: str) -> None:
    write = printf(number_format)
    assert write is not None
    assert write(value) == text


@pytest.mark.parametrize("wrong", ["", "%", "%s", "%n", "%d%d", "%999f", "%.999f", "%*d", "%(x)d", "text", "%c"])
def test_what_is_no_format_of_a_number(wrong: str) -> None:
    assert printf(wrong) is None


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (28_100, "10^-6 s", "28.1 ms"),
        (14_800, "2^10 Bytes", "15.2 MB"),
        (18_400, "occ", "18.4 k"),
        (62, "#", "62"),
        (2500, "usec", "2.50 ms"),
        (2500, "bytes", "2.50 kB"),
        (3, "10^x s", "3 10^x s"),
    ],
)
def test_costs_in_the_units_that_profilers_write(value: float, unit: str, text: str) -> None:
    assert amount(unit)(value) == text
