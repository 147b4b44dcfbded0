"""Time divided by what contexts do, where no specification says how: by paradigm and role, or by names."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given

import callgrove
from callgrove import Scope
from callgrove.algebra.remapping import remap
from callgrove.algebra.selecting import ContextKeywords
from callgrove.arrays import Floats
from callgrove.errors import UsageError
from callgrove.examples import example
from callgrove.model.activities import ACTIVITIES
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Aggregation, Metric
from tests.algebra.reference import cube, cube_a
from tests.algebra.test_idle_threads import IDLE, TIME, by_region, hybrid
from tests.cli.commands import Capture, notes, rows, run
from tests.formats.cube.raw_cubes import r1
from tests.model.strategies import experiments
from tests.patterns.tree_t import tree_t
from tests.requirements import need_module

NAMES = {activity.name for activity in ACTIVITIES}


def opened(path: Path) -> Experiment:
    experiment = callgrove.open(path)
    assert isinstance(experiment, Experiment)
    return experiment


def divided(experiment: Experiment) -> dict[str, str]:
    """The metrics that time is divided into, and those above them."""
    metrics = experiment.metrics
    return {m.name: metrics[m.parent].name for m in metrics if m.is_derived and m.name in NAMES}


def parts(experiment: Experiment) -> Floats:
    """What every metric of the tree has besides those below it, in every cell: (metrics x contexts x profiles)."""
    parents = divided(experiment)
    values = {name: experiment.matrix(name, Scope.EXCLUSIVE) for name in parents}
    return np.stack([values[n] - sum(values[c] for c, above in parents.items() if above == n) for n in parents])


def test_paradigms_and_roles_of_r1(tmp_path: Path) -> None:
    made = opened(r1().write(tmp_path / "r1.cubex")).remap()
    assert divided(made) == {
        "execution": "time",
        "comp": "execution",
        "mpi": "execution",
        "mpi_synchronization": "mpi",
        "mpi_sync_collective": "mpi_synchronization",
        "mpi_communication": "mpi",
        "mpi_point2point": "mpi_communication",
    }
    totals = {name: made.root_total(name) for name in divided(made)}
    assert (totals["execution"], totals["comp"], totals["mpi"]) == (128, 86, 42)
    assert (totals["mpi_point2point"], totals["mpi_sync_collective"]) == (26, 16)
    assert made.matrix("comp", Scope.INCLUSIVE)[0].tolist() == [19, 14, 29, 24]
    assert made.matrix("mpi", Scope.INCLUSIVE)[1].tolist() == [8, 7, 6, 5]
    assert made.totals("mpi", Scope.INCLUSIVE, np.array([1, 3]))[0] == 20
    assert made.default_metric == "time"
    assert made.metrics.quantities[-4:] == ("visits", "lo", "hi", "bytes")


def test_names_do_where_nothing_else_is_known() -> None:
    """These contexts have no paradigm."""
    made = remap(cube_a(), None)
    assert {name: made.root_total(name) for name in ("comp", "mpi_point2point", "mpi_sync_collective")} == {
        "comp": 86,
        "mpi_point2point": 26,
        "mpi_sync_collective": 16,
    }
    assert made.top("mpi", limit=1)["name"] == ["MPI_Send"]


@pytest.mark.parametrize("name", ["mpi4", "pth4", "gxx_s"])
@pytest.mark.parametrize("generation", ["release", "prerelease"])
def test_the_leaves_of_hpctoolkit_add_up_exactly(name: str, generation: str, shared: Path) -> None:
    database = opened(shared / "data" / "own" / f"hpctoolkit-{generation}" / f"{name}.d")
    made = database.remap()
    time = database.default_metric
    assert set(divided(made).values()) >= {time, "execution"}
    exclusive = database.matrix(time, Scope.EXCLUSIVE).astype(np.float64)
    exclusive[database.contexts.n_listed :] = 0
    assert np.array_equal(parts(made).sum(axis=0), exclusive)
    assert (np.count_nonzero(parts(made), axis=0) <= 1).all(), "a context does one thing"
    for quantity in database.metrics.quantities:
        assert made.root_total(quantity) == database.root_total(quantity)


@pytest.mark.parametrize("name", ["own/cube/mpi4", "own/cube/mpi8", "own/cube/wide4x2", "own/cube/fmt_KEY_THREADS"])
def test_it_agrees_with_the_specification_of_score_p(name: str, shared: Path) -> None:
    """Two ways to the same numbers: the formulas in the file, and the rules of our own."""
    profile = opened(shared / "data" / name / "profile.cubex")
    by_formulas, by_rules = profile.remap(), remap(profile, None)
    assert len(divided(by_rules)) >= 10
    for metric in divided(by_rules):
        expected, got = (made.matrix(metric, Scope.EXCLUSIVE) for made in (by_formulas, by_rules))
        assert np.allclose(expected, got, rtol=1e-9, atol=1e-12), metric
        assert by_rules.root_total(metric) == pytest.approx(by_formulas.root_total(metric), rel=1e-9, abs=1e-12)
    parents = {m.name: by_formulas.metrics[m.parent].name for m in by_formulas.metrics if m.parent >= 0}
    assert divided(by_rules).items() <= parents.items()


@given(experiments(traces=False, aggregations=(Aggregation.SUM,)))
def test_any_time_is_divided_without_a_rest(drawn: Experiment) -> None:
    assume(drawn.contexts.n_listed and drawn.metrics.quantities)
    metrics = replace(drawn.metrics, rows=tuple(replace(m, unit="sec") for m in drawn.metrics))
    experiment = replace(drawn, metrics=metrics, values=replace(drawn.values, metrics=metrics))
    made = experiment.remap()
    time = next(iter(set(divided(made).values()) - NAMES))
    exclusive = experiment.matrix(time, Scope.EXCLUSIVE).astype(np.float64)
    exclusive[experiment.contexts.n_listed :] = 0
    assert np.array_equal(parts(made).sum(axis=0), exclusive, equal_nan=True)
    for name in experiment.metrics.quantities:
        assert made.metrics.scopes(name) == experiment.metrics.scopes(name)


def test_older_score_p_has_no_specification(shared: Path) -> None:
    profile = opened(shared / "data" / "public" / "pycubexr" / "blast.p64.r1" / "profile.cubex")
    assert "remapping.spec" not in profile.attachments
    made = profile.remap()
    assert np.array_equal(parts(made).sum(axis=0), profile.matrix("time", Scope.EXCLUSIVE))
    assert made.root_total("mpi_point2point") > 0


def test_totals_need_no_single_profiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """What contexts do is the same in all profiles, so sums over these are enough."""
    from callgrove.model.derived import ProfileCells

    def refuse(*asked: object) -> None:
        raise AssertionError("a profile was looked at by itself")

    made = example().remap()
    monkeypatch.setattr(ProfileCells, "of", refuse)
    assert made.root_total("comp") > 0
    assert len(made.top("execution", limit=3)) == 3


def test_parts_are_classified_as_they_are() -> None:
    made = example().remap()
    first = made.profiles.where(ranks=0)
    expected = made.totals("mpi", Scope.INCLUSIVE, first)[made.contexts.roots].sum()
    assert made.select(ranks=0).root_total("mpi") == pytest.approx(float(expected), rel=1e-12)
    assert expected > 0


def test_what_a_context_did_is_kept_by_who_takes_its_cost() -> None:
    """MPI functions that are folded into their callers do not turn into computation."""
    whole = tree_t().remap()
    assert whole.root_total("mpi") == pytest.approx(48)
    selections: list[ContextKeywords] = [{"fold": "MPI_*"}, {"prune": "solve"}, {"leaf": "solve"}]
    for selection in (*selections, ContextKeywords(query="main", rest="fold")):
        made = whole.select(**selection)
        assert made.root_total("time") == pytest.approx(224)
        assert (made.root_total("mpi"), made.root_total("comp")) == pytest.approx((48, whole.root_total("comp")))
    assert whole.select(exclude="solve").root_total("mpi") == pytest.approx(8)


def test_formulas_over_call_paths_go_with_the_cost(shared: Path) -> None:
    """As in the file that Score-P's tools have remapped, whose metrics are measured."""
    folder = shared / "data" / "own" / "cube" / "mpi4"
    by_formulas, stored = opened(folder / "profile.cubex").remap(), opened(folder / "remapped.cubex")
    for name in ("time", "execution", "comp", "mpi", "mpi_init_exit", "omp_time"):
        expected, got = (e.select(fold="MPI_*").root_total(name) for e in (stored, by_formulas))
        assert got == pytest.approx(expected, rel=1e-12), name


def test_metrics_that_are_there_already_stay(tmp_path: Path) -> None:
    divided_once = opened(r1().write(tmp_path / "r1.cubex")).remap()
    again = divided_once.remap()
    assert again.metrics is divided_once.metrics
    assert "the metric execution is there already" in again.warnings[-1].text


def test_there_must_be_a_time() -> None:
    from callgrove.model.builder import ExperimentBuilder
    from callgrove.model.contexts import ContextKind
    from callgrove.model.profiles import ProfileKind

    builder = ExperimentBuilder("made-up", path="x")
    builder.add_context(-1, ContextKind.FUNCTION, builder.region(ContextKind.FUNCTION, "main"))
    builder.add_metric(Metric("cycles", Scope.EXCLUSIVE))
    builder.add_metric(Metric("least", Scope.EXCLUSIVE, "sec", aggregation=Aggregation.MINIMUM))
    builder.add_values(builder.add_profile(ProfileKind.THREAD), np.array([0]), 0, np.array([1.0]))
    with pytest.raises(UsageError, match="no metric is a time that adds up"):
        builder.build().remap()


def test_idle_threads_are_no_time_of_contexts(tmp_path: Path) -> None:
    profile = hybrid(tmp_path / "hybrid.cubex")
    kept = [name for name in profile.metrics.quantities if name in ("time", "visits")]
    made = profile.select(metrics=kept).remap(idle_threads=True)
    assert by_region(made, "omp_idle_threads") == IDLE
    assert by_region(made, "execution") == {name: tuple(map(float, row)) for name, row in TIME.items()}
    table = {row["name"]: row for row in made.metric_tree()}
    assert table["time"]["without_children"] == 0
    assert table["time"]["value"] == table["execution"]["value"] + table["omp_idle_threads"]["value"]
    assert table["imbalance"]["depth"] == 0
    assert [table[name]["depth"] for name in ("imbalance_below_bypass", "imbalance_below_singularity")] == [2, 3]


# -- what the command line makes of it ---------------------------------------------------------------------------------


@pytest.fixture
def stencil(tmp_path: Path) -> Path:
    path = tmp_path / "stencil.d"
    example().write(path)
    return path


def test_a_cube_file_has_the_tree(stencil: Path, capsys: Capture) -> None:
    out = stencil.with_name("stencil.cubex")
    run(capsys, "remap", stencil, out)
    before, after = opened(stencil).remap(), opened(out)
    parents = {m.name: after.metrics[m.parent].name for m in after.metrics if m.parent >= 0}
    assert {name: above.replace(" (sec)", "_sec") for name, above in divided(before).items()} == parents
    for name in divided(before):
        assert after.root_total(name) == pytest.approx(before.root_total(name), rel=1e-12)


@pytest.mark.parametrize("words", [("cube",), ("callgrove",), ("callgrove", "--evaluate"), ("hpctoolkit-release",)])
def test_every_target_has_values_of_the_tree(words: tuple[str, ...], stencil: Path, capsys: Capture) -> None:
    """What contexts do is not a formula that a file could hold: it is stored, and called so where files can say it."""
    if words[0] == "callgrove":
        need_module("pyarrow")
    out = stencil.with_name("out")
    run(capsys, "remap", stencil, out, "--to", *words)
    given, made = callgrove.open(stencil), callgrove.open(out)
    assert isinstance(given, Experiment)
    assert isinstance(made, Experiment)
    before = {row["name"]: row for row in given.remap().metric_tree()}
    after = {row["name"]: row for row in made.metric_tree()}
    activities = [name for name in before if name in {activity.name for activity in ACTIVITIES}]
    assert {"execution", "comp", "mpi"} <= {*activities}
    for name in activities:
        assert after[name]["value"] == pytest.approx(before[name]["value"], rel=1e-12)
        assert after[name]["kind"] == ("measured" if words[0].startswith("hpctoolkit") else "computed")


def test_shares_are_printed(stencil: Path, capsys: Capture) -> None:
    table = rows(capsys, "tree", stencil, "--metrics", "--remap")
    assert [row["name"] for row in table[:2]] == ["CPUTIME (sec)", "execution"]
    assert sum(row["without_children"] for row in table if row["depth"]) == pytest.approx(table[0]["value"], rel=1e-12)
    assert "--remap makes one of time" in notes(capsys, "tree", stencil, "--metrics")


def test_several_runs_are_added_up_and_say_how(tmp_path: Path, capsys: Capture) -> None:
    for number in (1, 2):
        folder = tmp_path / "runs" / f"app.p{number}.r1"
        folder.mkdir(parents=True)
        cube(f"A{number}", (("main", -1), ("MPI_Send", 0)), [[1] * 4] * 2, [[number] * 4] * 2).write(
            folder / "profile.cubex"
        )
    text = notes(capsys, "tree", tmp_path / "runs", "--metrics", "--remap")
    assert "several runs are classified by paradigms, roles and names; a specification can be given with --spec" in text
    table = {row["name"]: row["value"] for row in rows(capsys, "tree", tmp_path / "runs", "--metrics", "--remap")}
    assert (table["time"], table["comp"], table["mpi_point2point"]) == (24, 12, 12)
