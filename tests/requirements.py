"""What a test may find missing: sample files, MPI, a browser.

The test is skipped there with the reason; where the environment variable CALLGROVE_REQUIRE names the thing, it fails.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NoReturn

import pytest

ROOT = Path(__file__).resolve().parent.parent
SHARED = ROOT.parent / "shared"


def required() -> frozenset[str]:
    """The names in CALLGROVE_REQUIRE, a comma-separated list."""
    names = os.environ.get("CALLGROVE_REQUIRE", "").split(",")
    return frozenset(name.strip() for name in names if name.strip())


def need(name: str, reason: str) -> NoReturn:
    """End the running test, which lacks `name`: skipped with the reason, or failed if `name` is required."""
    if name in required():
        pytest.fail(f"{reason}, and CALLGROVE_REQUIRE names {name!r}", pytrace=False)
    pytest.skip(reason)
