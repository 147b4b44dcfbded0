"""The public names as a program uses them: open, look, write."""

from __future__ import annotations

import pydoc
from pathlib import Path

import pytest

import callgrove
from callgrove.analysis.costs import costs
from callgrove.analysis.flat import top
from callgrove.errors import UsageError
from callgrove.examples import example
from tests.formats.samples import CORPUS

STUDY = CORPUS / "extrap" / "text.txt"


def test_write_and_open_again(tmp_path: Path) -> None:
    run = example()
    lost = callgrove.write(run, tmp_path / "run.cubex")
    again = callgrove.open(tmp_path / "run.cubex")
    assert isinstance(again, callgrove.Experiment)
    assert again.format == "cube"
    assert again.root_total("cycles") == run.root_total("cycles")
    assert any("lexical nesting" in sentence for sentence in lost)
    with pytest.raises(UsageError, match="exists already"):
        callgrove.write(run, tmp_path / "run.cubex")
    callgrove.write(run, tmp_path / "run.cubex", dialect="compressed", overwrite=True)
    with pytest.raises(UsageError, match="is the input"):
        callgrove.write(again, tmp_path / "run.cubex", overwrite=True)
    with pytest.raises(UsageError, match="names no format"):
        callgrove.write(run, tmp_path / "run.xyz")


def test_write_a_study(tmp_path: Path) -> None:
    study = callgrove.open(STUDY)
    assert isinstance(study, callgrove.Study)
    callgrove.write(study, tmp_path / "study.json")
    again = callgrove.open(tmp_path / "study.json")
    assert isinstance(again, callgrove.Study)
    assert again.format == "extrap-json"
    assert again.points.tolist() == study.points.tolist()


def test_several_paths_are_one_input() -> None:
    folder = CORPUS / "hpcrun" / "04.00" / "pth4.m"
    assert isinstance(callgrove.open([folder]), callgrove.Experiment)
    with pytest.raises(UsageError, match="opens one path at a time, and 2 were given"):
        callgrove.open([folder, folder])


def test_what_a_prompt_shows_is_one_line() -> None:
    run, study = example(), callgrove.open(STUDY)
    assert isinstance(study, callgrove.Study)
    assert repr(run) == f"<Experiment 'stencil', example: {len(run.profiles)} profiles, " + (
        f"{len(run.contexts)} contexts, 2 metrics>"
    )
    assert repr(study).startswith("<Study 'text.txt', extrap-text: ")
    assert repr(top(costs(run), limit=3)).startswith("<Table of 3 rows: name, kind, file, line")
    assert repr(callgrove.model_study(study)).startswith("<Models: ")


def test_help_and_completion_know_every_public_name() -> None:
    assert set(callgrove.__all__) <= set(dir(callgrove))
    text = pydoc.plain(pydoc.render_doc(callgrove))
    for name in ("merge(", "part(", "open = open_path(", "write("):
        assert name in text


def test_a_metric_that_is_not_there() -> None:
    with pytest.raises(UsageError, match=r"there is no metric 'foo'; there are CPUTIME \(sec\), cycles"):
        example().root_total("foo")
