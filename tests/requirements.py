"""What a test may find missing: sample files, MPI, a browser, a package, a device of the system.

The test is skipped there with the reason; where the environment variable CALLGROVE_REQUIRE names the thing, it fails.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NoReturn

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
    pytest.skip(reason, allow_module_level=True)


def need_module(name: str) -> Any:
    """Import an optional package; the test that lacks it ends as with `need`, by the name of the package."""
    try:
        return importlib.import_module(name)
    except ImportError:
        need(name.partition(".")[0], f"{name} is not installed")


def need_peer(name: str) -> Path:
    """Return the interpreter of a tool that has an environment of its own; without it, the test ends as with `need`."""
    python = ROOT / ".peers" / name / "bin" / "python"
    if not python.is_file():
        need("peers", f"{name} is not installed; `make peers` does it")
    return python


def each_of_shared(argument: str, samples: Iterable[Any], ids: Callable[[Any], str] = str) -> pytest.MarkDecorator:
    """One test for each of some samples of `../shared`. Without any there still is one, so that the fixture `shared`,
    which the test takes as well, can say what is missing."""
    found = [pytest.param(sample, id=ids(sample)) for sample in samples]
    return pytest.mark.parametrize(argument, found or [pytest.param(None, id="none")])
