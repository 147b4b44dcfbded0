"""Formulas over several runs of which one did not measure an operand: missing in its profiles, refused over them."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

import callgrove
from callgrove import Scope
from callgrove.cli.main import main
from callgrove.errors import NotMeasuredInRun
from callgrove.model.runs import NOT_MEASURED, Run
from tests.cli.commands import Capture, notes, rows
from tests.formats.cube.raw_cubes import R1_TIME, R1_TREE, R1_VISITS, Cube, RawMetric
from tests.formats.written import read

TIME = RawMetric("time", rows=R1_TIME)
VISITS = RawMetric("visits", dtype="UINT64", rows=R1_VISITS, uom="occ")
FORMULAS = {
    "after": "r = time / visits",
    "each": "r = each(time / visits)",
    "linear": "r = 2 * visits",
    "statistic": "r = time / profiles.max(visits)",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two runs of four profiles each, of which the second has no visits."""
    made = tmp_path / "runs"
    made.mkdir()
    Cube(R1_TREE, [TIME, VISITS]).write(made / "app.p4.r1.cubex")
    Cube(R1_TREE, [TIME]).write(made / "app.p8.r1.cubex")
    return made


@pytest.mark.parametrize("kind", ["after", "each", "linear", "statistic"])
def test_totals_over_a_run_without_an_operand_are_refused(kind: str, folder: Path) -> None:
    opened = read(folder).with_metric(FORMULAS[kind])
    text = r"r cannot be computed over these runs: run 1 app.p8.r1\S* did not measure visits; choose others with runs="
    with pytest.raises(NotMeasuredInRun, match=text):
        opened.totals("r", Scope.EXCLUSIVE)
    with pytest.raises(NotMeasuredInRun, match=text):
        opened.top("r")


@pytest.mark.parametrize("kind", ["after", "each", "linear"])
def test_what_is_chosen_counts(kind: str, folder: Path) -> None:
    """The first run alone has what its file has, as a choice of profiles and as a part."""
    alone = read(folder / "app.p4.r1.cubex").with_metric(FORMULAS[kind])
    opened = read(folder).with_metric(FORMULAS[kind])
    expected = alone.totals("r", Scope.EXCLUSIVE)
    np.testing.assert_array_equal(opened.totals("r", Scope.EXCLUSIVE, np.arange(4)), expected)
    np.testing.assert_array_equal(opened.select(runs=0).totals("r", Scope.EXCLUSIVE), expected)
    with pytest.raises(NotMeasuredInRun, match=r"run 0 app\.p8"):
        opened.select(runs=1).totals("r", Scope.EXCLUSIVE)


@pytest.mark.parametrize("kind", ["after", "each", "linear"])
def test_profiles_of_a_run_without_an_operand_have_no_value(kind: str, folder: Path) -> None:
    alone = read(folder / "app.p4.r1.cubex").with_metric(FORMULAS[kind])
    matrix = read(folder).with_metric(FORMULAS[kind]).matrix("r", Scope.EXCLUSIVE)
    np.testing.assert_array_equal(matrix[:, :4], alone.matrix("r", Scope.EXCLUSIVE))
    assert np.isnan(matrix[:, 4:]).all()


def test_a_folder_of_our_own_still_knows(folder: Path, tmp_path: Path) -> None:
    copied = tmp_path / "copied"
    callgrove.write(read(folder), copied, to_format="callgrove")
    with pytest.raises(NotMeasuredInRun, match=r"run 1 app\.p8"):
        read(copied).with_metric(FORMULAS["after"]).totals("r", Scope.EXCLUSIVE)


def test_targets_of_one_run_say_what_they_lose(folder: Path, tmp_path: Path) -> None:
    lost = "which runs did not measure visits: absent reads as 0"
    assert lost in callgrove.write(read(folder), tmp_path / "all.cubex")
    assert lost not in callgrove.write(read(folder).select(metrics=["time"]), tmp_path / "time.cubex")


def test_what_all_runs_measured_is_computed(folder: Path) -> None:
    opened = read(folder).with_metric("t = 2 * time")
    np.testing.assert_array_equal(opened.totals("t", Scope.EXCLUSIVE), 2 * opened.totals("time", Scope.EXCLUSIVE))
    assert opened.runs[0].unmeasured == frozenset()
    assert opened.runs[1].unmeasured == {"visits"}


def test_formulas_of_one_run_are_no_gaps_of_others(tmp_path: Path) -> None:
    """What a run derives of metrics that all of them measured is computed for all."""
    half = RawMetric("half", "POSTDERIVED", inside="<cubepl>metric::time() / 2</cubepl>")
    Cube(R1_TREE, [TIME, half]).write(tmp_path / "app.p4.r1.cubex")
    Cube(R1_TREE, [TIME]).write(tmp_path / "app.p8.r1.cubex")
    opened = read(tmp_path)
    np.testing.assert_array_equal(opened.totals("half", Scope.EXCLUSIVE), opened.totals("time", Scope.EXCLUSIVE) / 2)


@pytest.mark.parametrize("text", ["", "[", "3", "null", '{"a": 1}', "[" * 100_000, "[[1], 2]"])
def test_an_attribute_that_is_no_list_of_names_names_none(text: str) -> None:
    assert Run("damaged", attributes={NOT_MEASURED: text}).unmeasured == frozenset()
    assert Run("whole").without({"b\n", "a"}).unmeasured == {"a", "b\n"}


def test_the_error_travels_between_processes() -> None:
    error = NotMeasuredInRun("r", "1 app", "visits")
    assert str(pickle.loads(pickle.dumps(error))) == str(error) == str(error.of_metric("other"))


def test_series_have_no_point_of_such_a_run(folder: Path) -> None:
    study = read(folder).with_metric(FORMULAS["after"]).study(metrics=["r", "time"])
    is_ratio = np.array([study.metrics[metric] == "r" for metric in study.series_metric.tolist()])
    assert study.present[is_ratio].any(axis=0).tolist() == [True, False]
    assert study.present[~is_ratio].all()


# -- on the command line -----------------------------------------------------------------------------------------------


def test_views_say_which_run(folder: Path, capsys: Capture) -> None:
    assert main(["top", str(folder), "-m", FORMULAS["after"]]) == 2
    assert capsys.readouterr().err.endswith("did not measure visits; choose others with --run\n")
    assert rows(capsys, "top", folder, "-m", FORMULAS["after"], "--run", "0") == rows(
        capsys, "top", folder / "app.p4.r1.cubex", "-m", FORMULAS["after"]
    )


def test_columns_leave_out_what_a_run_lacks(tmp_path: Path, capsys: Capture) -> None:
    ratio = RawMetric("tpv", "POSTDERIVED", inside="<cubepl>metric::time() / metric::visits()</cubepl>")
    Cube(R1_TREE, [TIME, VISITS, ratio]).write(tmp_path / "app.p4.r1.cubex")
    Cube(R1_TREE, [TIME]).write(tmp_path / "app.p8.r1.cubex")
    assert "1 metrics have a formula that is not evaluated: tpv" in notes(capsys, "top", tmp_path, "--all-metrics")
    assert not any(name.startswith("tpv") for row in rows(capsys, "top", tmp_path, "--all-metrics") for name in row)


def test_the_tree_of_metrics_says_which_run(folder: Path, capsys: Capture) -> None:
    told = notes(capsys, "tree", folder, "--metrics", "--derive", FORMULAS["after"])
    assert "did not measure visits; choose others with --run" in told


def test_exports_have_values_of_the_runs_that_measured_all(folder: Path, capsys: Capture) -> None:
    table = rows(capsys, "export", folder, "--table", "values", "--scope", "exclusive", "-m", "x = visits / time")
    assert {row["profile"] for row in table} == {0, 1, 2, 3}
