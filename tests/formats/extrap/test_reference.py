"""Every public file of Extra-P against what Extra-P 4.2.5 itself reads from it, or says about it."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from callgrove.errors import CallgroveError
from callgrove.formats.interface import ReadOptions
from callgrove.formats.registry import open_path
from callgrove.model.experiment import Severity
from callgrove.model.study.fill_missing_points import fill_missing_points
from callgrove.model.study.from_runs import of_scaling
from callgrove.model.study.series import Study
from tests.requirements import SHARED, each_of_shared

FOLDER = SHARED / "data" / "public" / "extrap"
STATISTICS = {"mean": "mean", "median": "median", "minimum": "min", "maximum": "max", "std": "std"}
ACCEPTED = {  # what Extra-P refuses and we take with a word, unless told to be strict
    "input/experiments_MP/experiment_MP_neg1.txt": "lacks some of the 25 points",
    "talpas/talpas_10_neg.txt": "lacks some of the 5 points",
    "json/input_11.JSON": "lacks some of the 5 points",
    "cubeset/negative_example2": "in different orders",
}


@cache
def index() -> dict[str, dict[str, Any]]:
    path = FOLDER / "oracle" / "index.json"
    found: dict[str, dict[str, Any]] = json.loads(path.read_text("utf-8")) if path.is_file() else {}
    return found


def study_of(path: Path, strict: bool = False) -> Study:
    opened = open_path(path, options=ReadOptions(strict=strict))
    return opened if isinstance(opened, Study) else fill_missing_points(opened.study(combination=of_scaling("weak")))


def assert_series(study: Study, oracle: dict[str, Any]) -> None:
    assert sorted(study.parameters) == sorted(oracle["parameters"])
    order = [study.parameters.index(name) for name in oracle["parameters"]]
    assert len(study) == len(oracle["series"])
    for theirs in oracle["series"]:
        ours = study.series(theirs["callpath"], theirs["metric"])
        place = {tuple(point): k for k, point in enumerate(ours.points[:, order].tolist())}
        assert len(place) == len(theirs["points"])
        for point in theirs["points"]:
            k = place[tuple(point["x"])]
            slack = 1e-12 * max(abs(point["max"]), abs(point["min"]))
            for name, short in STATISTICS.items():
                np.testing.assert_allclose(getattr(ours, name)[k], point[short], rtol=1e-12, atol=slack)
            assert point["reps"] is None or ours.repetitions[k] == point["reps"]


def test_the_samples_are_there(shared: Path) -> None:
    assert len(index()) > 110


@each_of_shared("name", [name for name, entry in index().items() if "oracle" in entry])
def test_series(name: str, shared: Path) -> None:
    oracle = json.loads((FOLDER / "oracle" / index()[name]["oracle"]).read_text("utf-8"))
    before = _bytes(FOLDER / name)
    study = study_of(FOLDER / name)
    assert study.validate() == []
    assert_series(study, oracle)
    assert not [w for w in study.warnings if w.severity == Severity.DAMAGE]
    assert _bytes(FOLDER / name) == before


@each_of_shared("name", [name for name, entry in index().items() if "error" in entry])
def test_what_extra_p_refuses(name: str, shared: Path) -> None:
    with pytest.raises(CallgroveError) as refused:
        study_of(FOLDER / name, strict=True)
    assert refused.value.exit_code == 3
    assert name in str(refused.value)
    if name in ACCEPTED:
        assert any(ACCEPTED[name] in warning.text for warning in study_of(FOLDER / name).warnings)
    else:
        with pytest.raises(CallgroveError):
            study_of(FOLDER / name)


def test_models_of_a_stored_experiment(shared: Path) -> None:
    """The stored function is the one that Extra-P prints, but for whole exponents, which it prints as floats."""
    name = "experiments/two_parameter3.txt.extra-p"
    oracle = json.loads((FOLDER / "oracle" / index()[name]["oracle"]).read_text("utf-8"))
    study = study_of(FOLDER / name)
    assert len(study.models) == len(oracle["series"])
    for theirs in oracle["series"]:
        (model,) = [m for m in study.models if (m.callpath, m.metric) == (theirs["callpath"], theirs["metric"])]
        assert _shape(model.function) == _shape(theirs["model"]["function"])
        np.testing.assert_allclose(model.statistics["smape"], theirs["model"]["SMAPE"], rtol=1e-6)
        np.testing.assert_allclose(model.statistics["rss"], theirs["model"]["RSS"], rtol=1e-6)
        np.testing.assert_allclose(model.statistics["ar2"], theirs["model"]["AR2"], rtol=1e-6)


def test_the_study_of_our_own_runs(shared: Path) -> None:
    """25 Score-P profiles: 104 series at 25 points, as Extra-P's own list of call paths and metrics says."""
    study = study_of(shared / "data" / "own" / "scaling" / "runs")
    printed = (shared / "data" / "own" / "scaling" / "extrap.print-all.txt").read_text("utf-8")
    assert (len(study), study.n_points, study.parameters) == (104, 25, ("p", "n"))
    callpaths = [line.partition("Callpath:")[2].strip() for line in printed.splitlines() if "Callpath:" in line]
    assert set(callpaths) == set(study.callpaths)


def _shape(function: str) -> list[str]:
    """A function without its coefficients."""
    return [factor for term in function.split(" + ") for factor in term.split(" * ") if "^" in factor]


def _bytes(path: Path) -> list[bytes]:
    return [file.read_bytes() for file in sorted([path, *path.rglob("*")]) if file.is_file()]
