"""What we write is loaded by Extra-P itself, which then has the same measurements and models."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import numpy as np
import pytest

from callgrove.model.study import Study
from tests.formats.extrap_files import AWKWARD, plain_study, segmented_study, study_with_models, written
from tests.requirements import ROOT, need
from tests.timing import HANG_SEC

PYTHON = ROOT / ".peers" / "extrap" / "bin" / "python"
SCRIPT = ROOT / "bench" / "peers" / "load_with_extrap.py"
KINDS = {
    "extrap-text": "text",
    "extrap-talpas": "talpas",
    "extrap-json": "json",
    "extrap-json-old": "json",
    "extrap-jsonl": "json",
    "extrap-experiment": "experiment",
}
TALPAS_SEMICOLON = ("semi;colon", "semi,colon")  # what Extra-P makes of it


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Every study that the tests write, as Extra-P sees it; it takes seconds to start, so it starts once."""
    if not PYTHON.is_file():
        need("extrap-peer", "Extra-P is not installed; `make peers` does that")
    folder = tmp_path_factory.mktemp("written")
    words: list[str] = []
    names: list[str] = []
    for format_name, kind in KINDS.items():
        names.append(format_name)
        written(plain_study(AWKWARD), format_name, folder / format_name)
        words += [kind, str(folder / format_name)]
    for name, study in (("models", study_with_models()), ("segmented", segmented_study())):
        names.append(name)
        written(study, "extrap-experiment", folder / name)
        words += ["experiment", str(folder / name)]
    out = folder / "out.json"
    done = subprocess.run(
        [str(PYTHON), str(SCRIPT), str(out), *words], capture_output=True, text=True, timeout=HANG_SEC, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return dict(zip(names, json.loads(out.read_text("utf-8")), strict=True))


def assert_same_series(study: Study, theirs: dict[str, Any], renamed: tuple[str, str] = ("", "")) -> None:
    assert "error" not in theirs, theirs
    assert theirs["parameters"] == list(study.parameters)
    found = {(c, m): points for c, m, points in theirs["series"]}
    assert len(found) == len(study)
    for series in study.all_series():
        callpath = renamed[1] if series.callpath == renamed[0] else series.callpath
        points = {tuple(p[0]): p[1:] for p in found[callpath, series.metric]}
        assert len(points) == len(series)
        for k, point in enumerate(series.points.tolist()):
            ours = [getattr(series, name)[k] for name in ("mean", "median", "minimum", "maximum", "std")]
            np.testing.assert_allclose(points[tuple(point)][:5], ours, rtol=1e-13)
            assert points[tuple(point)][5] == series.repetitions[k]


@pytest.mark.parametrize("format_name", KINDS)
def test_measurements(format_name: str, loaded: dict[str, dict[str, Any]]) -> None:
    renamed = TALPAS_SEMICOLON if format_name == "extrap-talpas" else ("", "")
    assert_same_series(plain_study(AWKWARD), loaded[format_name], renamed)


def test_models_tags_and_raw_values(loaded: dict[str, dict[str, Any]]) -> None:
    study, theirs = study_with_models(), loaded["models"]
    assert_same_series(study, theirs)
    (model,) = study.models
    assert theirs["scaling"] == "weak_threaded"
    assert theirs["tags"] == {"main->solve": {"agg__category": "GPU", "gpu__overlap": True}}
    assert theirs["values"] == [[study.values(0, p).tolist() for p in range(study.n_points)]]
    # Extra-P reads whole exponents as floats
    function = model.function.replace("p^(1)", "p^(1.0)").replace("log2(p)^(1)", "log2(p)^(1.0)")
    function = function.replace("log2(n)^(2)", "log2(n)^(2.0)")
    assert theirs["models"] == [["Default Model", "main->solve", "time", function, 1.5]]


def test_segmented_models(loaded: dict[str, dict[str, Any]]) -> None:
    theirs = loaded["segmented"]
    assert_same_series(segmented_study(), theirs)
    assert theirs["models"] == [["Segmented", "main", "time", "p^(1.0) for p<=5.0\n30.0 + p^(2.0) for p>=6.0", 0.0]]
