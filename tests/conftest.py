"""Fixtures and settings that all tests share."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.exhaustive import EXAMPLES_IN_CI, adds_cases, exhaustive
from tests.requirements import SHARED, need

# No deadline, and no look at how long examples take to make: the machine may be busy. In CI there are more examples,
# the same ones in every run.
settings.register_profile("callgrove", deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=25)
settings.register_profile(
    "callgrove-ci", settings.get_profile("callgrove"), derandomize=True, max_examples=EXAMPLES_IN_CI
)
settings.load_profile("callgrove-ci" if os.environ.get("CI") else "callgrove")

# Modules of checks explain a failed `assert` as tests do.
pytest.register_assert_rewrite("tests.formats.contract", "tests.formats.damage")

# A shell starts what runs in its background deaf to Ctrl-C; tests of interruptions, and what they start, must hear it.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests that only add cases by where they are; those of single grids are marked in place."""
    for item in items:
        if adds_cases(item):
            item.add_marker(exhaustive)


# What a shell or a terminal may say, and what changes the look of outputs or the words of the system.
SURROUNDINGS = ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "PYTHONIOENCODING", "PYTHONWARNINGS", "XDG_CACHE_HOME")


@pytest.fixture(scope="session", autouse=True)
def surroundings() -> Iterator[None]:
    """Tests, and the processes that they start, find nothing of the shell that started them."""
    with pytest.MonkeyPatch.context() as patch:
        for name in SURROUNDINGS:
            patch.delenv(name, raising=False)
        yield


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Names of binaries are kept here, not in the home of who runs the tests."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("cache")
        patch.setenv("CALLGROVE_CACHE", str(folder))
        yield folder


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of sample files beside the checkout."""
    if not SHARED.is_dir():
        need("shared", "../shared is absent")
    return SHARED
