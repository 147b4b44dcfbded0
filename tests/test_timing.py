"""The comparisons of times see what grows too fast, and nothing else."""

from __future__ import annotations

from functools import partial

import pytest

from tests.timing import assert_faster, assert_linear, bounded, unit


def count(n: int) -> None:
    for _ in range(n):
        pass


def test_linear_work_passes_and_what_grows_much_faster_does_not() -> None:
    assert_linear(lambda n: partial(count, 1000 * n), 100)
    with pytest.raises(AssertionError, match="4 times as much takes"):
        assert_linear(lambda n: partial(count, n**3), 40)


def test_less_work_is_faster() -> None:
    assert_faster(partial(count, 10_000), partial(count, 100_000))
    with pytest.raises(AssertionError, match="times as long as the other way"):
        assert_faster(partial(count, 100_000), partial(count, 10_000))


def test_much_more_than_a_unit_is_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    assert unit() > 0
    with bounded("little"):
        count(1000)
    monkeypatch.setattr("tests.timing.LONGEST", 0.01)
    with pytest.raises(AssertionError, match="much: took"), bounded("much"):
        count(1_000_000)
