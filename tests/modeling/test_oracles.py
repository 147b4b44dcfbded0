"""The models of every real file, against those that Extra-P 4.2.5 made."""

from __future__ import annotations

import gzip
import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from callgrove.modeling.fitting import Models, model_study
from tests.modeling.series import study_of_oracle, terms_of

Oracle = dict[str, Any]


def oracles(shared: Path) -> Iterator[tuple[str, Oracle]]:
    folder = shared / "data" / "public" / "extrap" / "oracle"
    for name, entry in json.loads((folder / "index.json").read_text()).items():
        if "oracle" in entry:
            yield Path(name).name, json.loads((folder / entry["oracle"]).read_text())
    with gzip.open(shared / "acceptance" / "expected" / "extrap" / "own.scaling.runs.json.gz") as file:
        yield "runs", json.load(file)


def parsed(function: str) -> dict[str, float]:
    """Extra-P's text as terms."""
    found: dict[str, float] = {}
    for part in function.split(" + "):
        factors = part.split(" * ")
        coefficient = 1.0 if "^" in factors[0] else float(factors.pop(0))
        found["*".join(re.sub(r"\^\((.*)\)$", r"^\1", factor) for factor in factors)] = coefficient
    return {"": 0.0} | found


def trouble(series: dict[str, Any], models: Models, number: int) -> str:
    wanted, found = parsed(series["model"]["function"]), terms_of(models, number)
    if wanted.keys() != found.keys():
        return f"{found} instead of {wanted}"
    size = max(max(abs(at["max"]), abs(at["min"])) for at in series["points"])
    for term, coefficient in wanted.items():
        if not math.isclose(found[term], coefficient, rel_tol=1e-6, abs_tol=1e-9 * size if term == "" else 0):
            return f"{term} {found[term]} instead of {coefficient}"
    slacks = {"SMAPE": 1e-6, "RSS": 1e-12 * size * size * len(series["points"]), "AR2": 1e-6, "RE": 1e-6}
    for name, slack in slacks.items():
        ours, theirs = float(getattr(models.costs, name.lower())[number]), float(series["model"][name])
        if math.isfinite(theirs) and not math.isclose(ours, theirs, rel_tol=1e-6, abs_tol=slack):
            return f"{name} {ours} instead of {theirs}"
    return ""


def test_all_models_equal_extra_ps(shared: Path) -> None:
    ties = json.loads((shared / "acceptance" / "expected" / "model-ties.json").read_text())
    n_models, wrong = 0, []
    for name, oracle in oracles(shared):
        if name == "experiment_3":  # Extra-P itself gives two answers
            continue
        study = study_of_oracle(oracle)
        models = model_study(study)
        for series in oracle["series"]:
            number = study.find(series["callpath"], series["metric"])
            if "model" in series and number is not None:
                n_models += 1
                what = trouble(series, models, number)
                if what and [name, series["callpath"], series["metric"]] not in ties:
                    wrong.append(f"{name} {series['callpath']} {series['metric']}: {what}")
    assert wrong == []
    assert n_models > 380


@pytest.mark.parametrize("name", ["input__experiment_3_mp.json", "input__experiment_3_sparse.json"])
def test_files_that_extra_p_cannot_model_have_finite_models(shared: Path, name: str) -> None:
    """It divides by measured zeros there."""
    oracle = json.loads((shared / "data" / "public" / "extrap" / "oracle" / name).read_text())
    models = model_study(study_of_oracle(oracle))
    assert len(models) == len(oracle["series"])
    assert all(math.isfinite(constant) for constant in models.functions.constant.tolist())
    assert all(math.isfinite(smape) for smape in models.costs.smape.tolist())
