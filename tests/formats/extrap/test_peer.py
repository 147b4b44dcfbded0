"""What we write is loaded by Extra-P itself, which then has the same measurements and models; and folders of Cube
profiles are read by both, with the same series."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from callgrove import Scope
from callgrove.formats.registry import open_path
from callgrove.model.experiment import Experiment
from callgrove.model.study.from_runs import of_scaling
from callgrove.model.study.series import Study
from tests.formats.cube.raw_cubes import Cube, Node, RawMetric
from tests.formats.extrap.extrap_files import (
    AWKWARD,
    plain_study,
    segmented_study,
    study_in_pieces,
    study_with_models,
    written,
)
from tests.requirements import ROOT, SHARED, need
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
    folder = tmp_path_factory.mktemp("written")
    words: list[str] = []
    names: list[str] = []
    for format_name, kind in KINDS.items():
        names.append(format_name)
        written(plain_study(AWKWARD), format_name, folder / format_name)
        words += [kind, str(folder / format_name)]
    for name, study in (
        ("models", study_with_models()),
        ("segmented", segmented_study()),
        ("pieces", study_in_pieces()),
    ):
        names.append(name)
        written(study, "extrap-experiment", folder / name)
        words += ["experiment", str(folder / name)]
    return dict(zip(names, extra_p(folder / "out.json", words), strict=True))


def extra_p(out: Path, words: list[str]) -> list[dict[str, Any]]:
    """What Extra-P reads; it takes seconds to start."""
    if not PYTHON.is_file():
        need("extrap-peer", "Extra-P is not installed; `make peers` does that")
    command = [str(PYTHON), str(SCRIPT), str(out), *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANG_SEC, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    found: list[dict[str, Any]] = json.loads(out.read_text("utf-8"))
    return found


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
    assert theirs["models"] == [["Default Model", "main->solve", "time", model.function, 1.5]]


def test_segmented_models(loaded: dict[str, dict[str, Any]]) -> None:
    theirs = loaded["segmented"]
    assert_same_series(segmented_study(), theirs)
    assert theirs["models"] == [["Segmented", "main", "time", "p^(1) for p<=5.0\n30.0 + p^(2) for p>=6.0", 0.0]]


def test_models_in_pieces_of_several_parameters(loaded: dict[str, dict[str, Any]]) -> None:
    theirs = loaded["pieces"]
    assert_same_series(study_in_pieces(), theirs)
    (model,) = study_in_pieces().models
    assert theirs["models"] == [["Pieces", "main", "time", model.function, 0.0]]


# -- folders of Cube profiles ------------------------------------------------------------------------------------------

SCALINGS = ("weak", "weak_threaded", "strong", "inclusive")
SAMPLES = {  # a folder of runs of each: the same profile at two points, or two profiles twice
    "mpi4": {4: ["own/cube/mpi4"], 8: ["own/cube/mpi4"]},
    "mpi": {4: ["own/cube/mpi4"] * 2, 8: ["own/cube/mpi8"] * 2},
    "key threads": {4: ["own/cube/fmt_KEY_THREADS"], 8: ["own/cube/fmt_KEY_THREADS"]},
    "clustered": {4: ["own/cube-clustered"], 8: ["own/cube-clustered"]},
    "blast": {4: ["public/pycubexr/blast.p64.r1"], 8: ["public/pycubexr/blast.p64.r1"]},
}


def made_run(path: Path, p: int) -> None:
    """Siblings of one call path, with and without parameters; counters that are less than what is below them, and above
    2^53; rows that are not stored; zeros."""
    callsite = '<parameter partype="numeric" parkey="callsite id" parvalue="9"/>\n'
    tree: list[Node] = [
        (0, "main", [(1, "f", [(5, "g", [])]), (2, "f", [(6, "g", [])]), (3, "bar", [(4, "deep", [])])])
    ]
    time = {k: [p * (k + 1) + 0.1 * j for j in range(4)] for k in range(6)}
    count = {0: [100 * p] * 4, 1: [p, 0, 0, 3], 2: [0] * 4, 3: [50 * p] * 4, 4: [60 * p, 1, 2, 3]}
    large = {0: [2**60 + 1] * 4, 1: [2**59 + p] * 4, 2: [2**58 + 1] * 4}
    lowest = {k: [1.0 + k, 9.0 / (k + 1), 3.0, 4.0 - k / 2] for k in range(7)}
    metrics = [
        RawMetric("time", rows=time),
        RawMetric("sums", "INCLUSIVE", rows={k: [0.1 * (10 - k) * v for v in row] for k, row in time.items()}),
        RawMetric("count", "INCLUSIVE", "UINT64", count, uom="occ"),
        RawMetric("large", "INCLUSIVE", "UINT64", large, uom="occ"),
        RawMetric("lowest", "EXCLUSIVE", "MINDOUBLE", lowest),
    ]
    path.mkdir(parents=True)
    Cube(tree, metrics, cnode_more={2: callsite, 5: callsite}).write(path / "profile.cubex")


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("runs")
    for p in (4, 8, 16):
        made_run(root / "made" / f"app.p{p}.r1", p)
    out = {"made": root / "made"}
    for name, points in SAMPLES.items():
        for p, samples in points.items():
            for number, sample in enumerate(samples, 1):
                run = root / name / f"app.p{p}.r{number}"
                run.mkdir(parents=True)
                (run / "profile.cubex").symlink_to(SHARED / "data" / sample / "profile.cubex")
        out[name] = root / name
    return out


@pytest.fixture(scope="module")
def read_by_extra_p(folders: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    asked = [(name, scaling) for name in folders for scaling in SCALINGS]
    words = [word for name, scaling in asked for word in (f"cube:{scaling}", str(folders[name]))]
    found = extra_p(tmp_path_factory.mktemp("out") / "out.json", words)
    return {f"{name} {scaling}": one for (name, scaling), one in zip(asked, found, strict=True)}


@pytest.mark.parametrize("scaling", SCALINGS)
@pytest.mark.parametrize("name", ["made", *SAMPLES])
def test_series_of_cube_profiles(
    name: str, scaling: str, folders: dict[str, Path], read_by_extra_p: dict[str, dict[str, Any]], shared: Path
) -> None:
    """Every series that was measured at all points, to the last digit but for the order in which numbers are added."""
    theirs = read_by_extra_p[f"{name} {scaling}"]
    assert "error" not in theirs, theirs
    opened = open_path(folders[name])
    assert isinstance(opened, Experiment)
    scope = Scope.INCLUSIVE if scaling == "inclusive" else Scope.EXCLUSIVE
    study = opened.study(scope=scope, combination=of_scaling("weak" if scaling == "inclusive" else scaling))
    whole = [one for one in study.all_series() if len(one) == study.n_points]
    assert {(one.callpath, one.metric) for one in whole} == {(c, m) for c, m, _ in theirs["series"]}
    points = {(c, m): {tuple(p[0]): p[1:] for p in found} for c, m, found in theirs["series"]}
    for one in whole:
        for k, point in enumerate(one.points.tolist()):
            *wanted, repetitions = points[one.callpath, one.metric][tuple(point)]
            ours = [getattr(one, word)[k] for word in ("mean", "median", "minimum", "maximum", "std")]
            slack = 1e-14 * max(abs(wanted[2]), abs(wanted[3]))
            np.testing.assert_allclose(ours, wanted, rtol=1e-14, atol=slack, err_msg=f"{one.callpath} {one.metric}")
            assert one.repetitions[k] == repetitions
