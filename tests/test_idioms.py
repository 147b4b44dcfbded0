"""The idioms of the documentation, for those who come from Hatchet, hpcviewer or CubeGUI: every call works."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import callgrove
from callgrove.examples import example
from callgrove.model.experiment import Experiment
from tests.requirements import ROOT

PAGE = ROOT / "docs" / "library.md"
WORK = re.compile(r"`((?:e\.|callgrove\.|a - b)[^`]*)`")


def idioms() -> list[tuple[str, str]]:
    """The question and the first call of each row."""
    section = PAGE.read_text("utf-8").partition("### Coming from Hatchet")[2].partition("What Hatchet does")[0]
    rows = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| ")]
    return [(row[0], WORK.findall(row[4])[0]) for row in rows if len(row) == 5 and WORK.findall(row[4])]


def test_the_table_is_read() -> None:
    assert len(idioms()) == 17


@pytest.mark.parametrize(("question", "call"), idioms(), ids=[question for question, _ in idioms()])
def test_idioms_work(question: str, call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    example().write("d.cubex")
    e = callgrove.open("d.cubex")
    known: dict[str, Any] = {"callgrove": callgrove, "d": "d.cubex", "e": e, "a": e, "b": e}
    answer = eval(call, known)
    assert answer is not None
    if isinstance(answer, Experiment):
        assert len(answer.contexts) > 0
    elif question != "a figure to mail":
        assert len(answer) > 0
