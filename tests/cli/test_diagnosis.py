"""`callgrove info --diagnose`: counts, sizes and kinds are those of the input, and no text of it is printed."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import callgrove
from callgrove._version import __version__
from callgrove.cli.main import main
from callgrove.cli.verbs.demo import make_inputs
from callgrove.model.experiment import Experiment

OWN_WORDS = {
    "bytes",
    "CPython",
    "other",
    "line",
    "loop",
    "thread",
    "time",
    "sum",
}  # a program may have functions of these names


def diagnose(capsys: pytest.CaptureFixture[str], *paths: Path) -> dict[str, str]:
    assert main(["info", "--diagnose", "--format", "json", *map(str, paths)]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return {row["fact"]: row["value"] for row in json.loads(out)}


def list_texts(experiment: Experiment) -> set[str]:
    """Names and other texts of an input that a stranger must not see."""
    texts = {str(text) for text in experiment.contexts.regions.strings}
    texts |= {experiment.title, experiment.path, *experiment.metrics.quantities, *experiment.attributes.values()}
    texts |= {str(name) for name in experiment.system.name}
    texts |= {experiment.metrics.first(name).description for name in experiment.metrics.quantities} | {
        run.name for run in experiment.runs
    }
    return {text for text in texts if len(text) > 2 and not text.isdigit()} - OWN_WORDS


@pytest.mark.parametrize("name", ["stencil.d", "train.db"])
def test_no_text_of_the_input_is_told(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_inputs(tmp_path)
    secret = tmp_path / f"secret-project-{name}"
    (tmp_path / name).rename(secret)
    experiment = callgrove.open(secret)
    assert isinstance(experiment, Experiment)
    told = " ".join(f"{fact} {value}" for fact, value in diagnose(capsys, secret).items())
    texts = list_texts(experiment)
    assert len(texts) > 10
    assert [text for text in texts if text in told] == []
    assert "secret" not in told
    assert str(tmp_path) not in told


def test_counts_are_those_of_the_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_inputs(tmp_path)
    told = diagnose(capsys, tmp_path / "stencil.d")
    sizes = [file.stat().st_size for file in (tmp_path / "stencil.d").rglob("*") if file.is_file()]
    assert told["callgrove"] == __version__
    assert told["numpy"] == np.__version__
    assert told["input"].startswith(f"folder, files {len(sizes)}, bytes {sum(sizes)}, largest {max(sizes)}, names: ")
    assert told["format"] == "hpctoolkit-release 4.0"
    assert told["profiles"] == "thread 8, summary 1; nodes 2, ranks 4"
    assert told["warnings"] == "none"


def test_a_study(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_inputs(tmp_path)
    told = diagnose(capsys, tmp_path / "scaling.txt")
    assert (told["parameters"], told["points"], told["repetitions"]) == ("2", "25", "3 to 3")


def test_what_cannot_be_opened_is_described_as_far_as_it_goes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_inputs(tmp_path)
    cut = tmp_path / "secret.db"
    cut.write_bytes((tmp_path / "stencil.d" / "meta.db").read_bytes()[:100])
    told = diagnose(capsys, cut)
    assert told["input"] == "file, files 1, bytes 100, largest 100, names: .db 1"
    assert told["error"] == "CorruptFile at byte 16"
    assert "format" not in told
    assert diagnose(capsys, tmp_path / "nowhere")["input"] == "nothing is there"


def test_without_an_input_versions_remain(capsys: pytest.CaptureFixture[str]) -> None:
    assert list(diagnose(capsys)) == ["callgrove", "python", "system", "numpy", "extras", "not installed"]
