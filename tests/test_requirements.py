"""A missing thing skips a test, and fails it where it is required."""

from __future__ import annotations

import pytest

from tests.requirements import each_of_shared, need, required


def test_skips_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALLGROVE_REQUIRE", "mpi")
    with pytest.raises(pytest.skip.Exception, match="no browser here"):
        need("browser", "no browser here")


def test_fails_where_required(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALLGROVE_REQUIRE", "mpi, browser")
    with pytest.raises(pytest.fail.Exception, match="no browser here"):
        need("browser", "no browser here")


def test_nothing_is_required_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CALLGROVE_REQUIRE", raising=False)
    assert required() == frozenset()
    monkeypatch.setenv("CALLGROVE_REQUIRE", "")
    assert required() == frozenset()


def test_without_samples_a_test_is_left_to_say_so() -> None:
    one, two = (each_of_shared("name", names).args for names in ([], ["a", "b"]))
    assert [[parameter.id for parameter in parameters] for _, parameters in (one, two)] == [["none"], ["a", "b"]]
