"""Texts that a test expects, kept as files under tests/goldens.

A deliberate change of output is accepted with CALLGROVE_UPDATE_GOLDENS=1; the difference is then read in the commit.
"""

from __future__ import annotations

import os

from tests.requirements import ROOT

GOLDENS = ROOT / "tests" / "goldens"
HINT = "run the test again with CALLGROVE_UPDATE_GOLDENS=1 and read the difference"


def assert_golden(name: str, text: str) -> None:
    """`text` is what the file `name` holds."""
    path = GOLDENS / name
    if os.environ.get("CALLGROVE_UPDATE_GOLDENS", "0") not in ("", "0"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    assert path.is_file(), f"there is no {path}; {HINT}"
    assert text == path.read_text("utf-8"), f"{path} differs; if that is meant, {HINT}"
