"""Small crowds and short soaks; `python -m tests.load` has long ones."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.exhaustive import exhaustive
from tests.load import crowd
from tests.load.soak import Level, find_growth, judge_growth
from tests.requirements import ROOT, need

if not sys.platform.startswith("linux"):
    need("proc", "levels are read from /proc")


@exhaustive
@pytest.mark.parametrize("words", ["crowd --processes 30", "soak --seconds 5"])
def test_load_changes_no_answer_and_leaves_nothing(words: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.load", *words.split()], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_what_a_crowd_leaves_is_seen(tmp_path: Path) -> None:
    for name in (".out.d.0-1-2.partial", "96.partial-x", "96.gone-1", ".out.old", "out.part"):
        assert crowd._is_half(tmp_path / name)
    assert not crowd._is_half(tmp_path / "out.d")
    assert crowd._differences({"a": "1", "b": "2"}, {"a": "1", "b": "3", "c": "4"}) == ["b", "c"]


def test_growth_is_that_after_the_first_quarter() -> None:
    levels = [
        Level(k, k, resident, 6, 1, 0, 0, 0.0) for k, resident in enumerate((10, 90, 100, 100, 100, 100, 110, 130))
    ]
    assert judge_growth(levels, lambda level: level.resident_mb) == (100, 120)
    assert judge_growth(levels[:1], lambda level: level.resident_mb) == (10, 10)


def test_what_grows_is_named() -> None:
    level = Level(50, 1.0, 100.0, 6, 1, 0, 0, 0.0)
    assert find_growth([level] * 4) == []
    assert find_growth([level] * 7 + [replace(level, descriptors=7)]) == ["descriptors: 6 to 7"]
    assert find_growth([level] * 7 + [replace(level, temporary_files=2)]) == ["temporary files: 2 at the end"]
