"""Fixtures and settings that all tests share."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.requirements import SHARED, need

# No deadline: the first example pays for imports. In CI the examples are the same in every run.
settings.register_profile("callgrove", deadline=None)
settings.register_profile("callgrove-ci", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("callgrove-ci" if os.environ.get("CI") else "callgrove")

# Modules of checks explain a failed `assert` as tests do.
pytest.register_assert_rewrite("tests.formats.contract", "tests.formats.damage")

# A shell starts what runs in its background deaf to Ctrl-C; tests of interruptions, and what they start, must hear it.
signal.signal(signal.SIGINT, signal.default_int_handler)


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
