"""What the command line says of the same data."""

from __future__ import annotations

import json
from typing import Any

import pytest

from callgrove.cli.main import main

__all__ = ["printed"]


def printed(capsys: pytest.CaptureFixture[str], *words: object) -> list[dict[str, Any]]:
    """What a command prints, as JSON."""
    capsys.readouterr()
    assert main([*map(str, words), "--format", "json"]) == 0
    found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    return found
