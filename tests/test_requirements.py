"""A missing thing skips a test, and fails it where it is required."""

from __future__ import annotations

import re

import pytest

from tests.requirements import ROOT, each_of_shared, need, need_module, required


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


def test_a_missing_package_is_said_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    assert need_module("json.decoder").__name__ == "json.decoder"
    monkeypatch.setenv("CALLGROVE_REQUIRE", "")
    with pytest.raises(pytest.skip.Exception, match=r"no_such_package\.part is not installed"):
        need_module("no_such_package.part")
    monkeypatch.setenv("CALLGROVE_REQUIRE", "no_such_package")
    with pytest.raises(pytest.fail.Exception, match="names 'no_such_package'"):
        need_module("no_such_package.part")


def test_no_test_is_skipped_in_another_way() -> None:
    """Otherwise continuous integration could not require what is missing."""
    here = {ROOT / "tests" / name for name in ("requirements.py", "test_requirements.py")}
    skips = re.compile(r"pytest\.skip\(|importorskip|mark\.skip")
    others = {path for path in (ROOT / "tests").rglob("*.py") if skips.search(path.read_text("utf-8"))}
    assert others <= here
