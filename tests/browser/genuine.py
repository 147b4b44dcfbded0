"""Pages of genuine data, each made once for all tests of a process."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import callgrove
from callgrove.viewer.report import Input, report

__all__ = ["genuine_page"]


def genuine_page(path: Path, folder: Path) -> Path:
    """The page of some data, as a file in a folder."""
    target = folder / "genuine.html"
    target.write_text(_text(path), encoding="utf-8")
    return target


@cache
def _text(path: Path) -> str:
    return report([Input(callgrove.open(str(path)), [str(path)])])
