"""`info --format json`: data for programs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from callgrove.cli.main import main
from callgrove.examples import example, gpu_example, study_example
from tests.cli.commands import Capture, run
from tests.formats.samples import CORPUS


def info(capsys: Capture, *paths: Path) -> Any:
    return json.loads(run(capsys, "info", *paths, "--format", "json"))


def test_an_experiment(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "stencil.d"
    example().write(path)
    data = info(capsys, path)
    assert (data["kind"], data["format"], data["path"]) == ("experiment", "hpctoolkit-release", str(path))
    assert (data["nodes"], data["ranks"], data["threads"], data["devices"]) == (2, 4, 8, 0)
    assert data["profiles"] == {"thread": 8, "summary": 1}
    assert data["contexts"]["count"] == sum(data["contexts"]["kinds"].values()) == len(example().contexts)
    assert [metric["name"] for metric in data["metrics"]] == ["CPUTIME (sec)", "cycles"]
    assert data["metrics"][0]["unit"] == "sec"
    assert data["metrics"][0]["kind"] == "sum"
    assert "inclusive" in data["metrics"][0]["scopes"]
    assert data["default_metric"] == "CPUTIME (sec)"
    assert data["hottest"]["name"] == "kernel"
    assert data["hottest"]["total"] == 6.15625
    assert data["traces"]["samples"] == example().traces.n_samples
    assert data["traces"]["end_ns"] > data["traces"]["start_ns"]
    assert (data["damage"], data["warnings"]) == ([], [])
    files = [file for file in path.rglob("*") if file.is_file()]
    assert (data["files"], data["bytes"]) == (len(files), sum(file.stat().st_size for file in files))


def test_a_derived_metric_has_its_formula(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "x.callgrove"
    example().with_metric("rate = cycles / `CPUTIME (sec)`").write(path)
    rate = {metric["name"]: metric for metric in info(capsys, path)["metrics"]}["rate"]
    assert rate["formula"]
    assert (rate["kind"], rate["scopes"], rate["available"]) == ("none", [], True)


def test_a_gpu_run(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "train.db"
    gpu_example().write(path)
    data = info(capsys, path)
    assert data["devices"] == 2
    assert data["traces"]["spans"] > 0


def test_a_study_and_several_inputs(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "scaling.txt"
    study_example().write(path)
    data = info(capsys, path)
    assert (data["kind"], data["parameters"], len(data["points"])) == ("study", ["p", "n"], 25)
    assert data["repetitions"] == {"min": 3, "max": 3}
    assert info(capsys, path, path) == [data, data]


def test_damage_is_listed(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "cut.d"
    example().write(path)
    (path / "profile.db").write_bytes((path / "profile.db").read_bytes()[:-200])
    main(["info", str(path), "--format", "json"])
    data = json.loads(capsys.readouterr().out)
    assert len(data["damage"]) + len(data["warnings"]) > 0


def test_every_sample_is_described(capsys: Capture) -> None:
    for path in sorted((CORPUS / "hpctoolkit").glob("*/*.d")):
        if main(["info", str(path), "--format", "json"]) == 0:
            assert json.loads(capsys.readouterr().out)["kind"] == "experiment"
        capsys.readouterr()
