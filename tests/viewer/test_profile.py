"""Panels of profiles: their numbers are those of `top`, `tree`, `hot` and `export`, whatever is folded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from callgrove.analysis.costs import Costs, costs
from callgrove.analysis.views import bottom_up, hot_path, top, top_down
from callgrove.errors import UsageError
from callgrove.examples import example
from callgrove.formats.registry import open_path
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.contexts import ContextKind, Relation
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Aggregation, Metric, Scope
from callgrove.model.profiles import ProfileKind
from callgrove.model.runs import IntSet, Run
from callgrove.model.table import Table
from callgrove.viewer.page import Choice, Detail, Limits, Panel
from callgrove.viewer.profile import Places
from callgrove.viewer.profile_tree import CallTree, CutTree, Labels, callers
from callgrove.viewer.report import Input, report
from tests.analysis.trees import costly_trees
from tests.exhaustive import try_examples
from tests.formats.samples import databases
from tests.model.strategies import experiments
from tests.viewer.pages import cells, inclusive_of, panels, tree_rows

SAMPLES = [*databases("release"), *databases("prerelease")]
every_database = pytest.mark.parametrize("path", SAMPLES, ids=lambda p: f"{p.parent.name}/{p.name}")


def opened(path: Path) -> Experiment:
    found = open_path(path)
    assert isinstance(found, Experiment)
    return found


def named(table: Table) -> list[tuple[Any, ...]]:
    columns = [table.column(name).plain() for name in ("name", "kind", "file", "line", "module")]
    return [
        (name, kind, file or "", line, module or "") for name, kind, file, line, module in zip(*columns, strict=True)
    ]


def assert_rows(panel: Panel, data: Any, table: Table) -> None:
    """The rows of a table in its own order."""
    assert cells(panel, data["label"]) == named(table)
    for column in ("exclusive", "inclusive"):
        assert np.asarray(data[column]).tolist() == list(table.column(column).values)


@every_database
def test_numbers_are_those_of_the_command_line(path: Path) -> None:
    experiment = opened(path)
    shown = panels(experiment)
    tree, found = shown["calltree"], costs(experiment)
    table = top_down(found)
    rows = zip(*(table.column(name).plain() for name in ("context", "exclusive", "inclusive")), strict=True)
    expected = {context: (exclusive, inclusive) for context, exclusive, inclusive in rows}
    got = tree_rows(tree)
    assert {context: pytest.approx(pair, rel=1e-12) for context, pair in got.items() if any(pair)} == expected
    contexts = tree.data["tree"]["context"]
    assert [name for name, *_ in cells(tree, tree.data["tree"]["label"])] == [
        experiment.contexts.label(c) for c in contexts.tolist()
    ]
    assert_rows(tree, tree.data["callers"][0], bottom_up(found, 2000))
    assert_rows(shown["hotspots"], shown["hotspots"].data["paths"][0], hot_path(found))
    assert tree.data["metrics"][0]["total"] == found.total


@every_database
@pytest.mark.parametrize("most", [1, 3, 2000])
def test_functions_without_room_in_the_table_of_callers_say_their_cost(path: Path, most: int) -> None:
    found = costs(opened(path))
    data = callers(found, Labels(found.tree), Detail(), most)
    assert data is not None
    functions = top(found, "function")
    costly = [cost for cost in functions.column("exclusive").values if cost]
    shown = np.asarray(data["exclusive"])[data["depth"] == 0]
    assert len(shown) + data["functions_left"] == len(costly)
    assert float(shown.sum()) + data["rest"] == pytest.approx(found.total, rel=1e-12)
    assert data["left"] >= data["functions_left"]
    assert len(data["label"]) == most or not data["left"]


@every_database
def test_flat_tables_are_those_of_top(path: Path) -> None:
    experiment = opened(path)
    panel = panels(experiment)["calltree"]
    for flat in panel.data["flat"]:
        table = top(costs(experiment), flat["by"])
        got = zip(
            cells(panel, flat["label"]), flat["exclusive"][0].tolist(), flat["inclusive"][0].tolist(), strict=True
        )
        pairs = zip(table.column("exclusive").values, table.column("inclusive").values, strict=True)
        expected = [(name, *pair) for name, pair in zip(named(table), pairs, strict=True)]
        assert flat["left"] == max(0, len(table) - 2000)
        if not flat["left"]:
            assert sorted(got, key=repr) == sorted(expected, key=repr)


@every_database
def test_the_spread_is_that_of_exported_values(path: Path) -> None:
    experiment = opened(path)
    metric = experiment.default_metric
    panel = panels(experiment)["spread"]
    matrix = experiment.matrix(metric, Scope.EXCLUSIVE)[: experiment.contexts.n_listed]
    everything = panel.data["rows"][0]
    assert everything["label"] == -1
    assert sorted(everything["mean"].tolist()) == pytest.approx(sorted(matrix.sum(axis=0).tolist()))
    assert everything["all_max"] == pytest.approx(matrix.sum(axis=0).max())
    total = sum((row["mean"] * panel.data["grid"]["n_profiles"]).sum() for row in [everything])
    assert total == pytest.approx(costs(experiment).total)


def test_the_spread_of_a_function_stands_where_its_profile_does() -> None:
    experiment = example()
    panel = panels(experiment)["spread"]
    grid, names = panel.data["grid"], panel.data["labels"]["name"].values
    row = next(row for row in panel.data["rows"] if row["label"] >= 0 and names[row["label"]] == "MPI_Waitall")
    table = top(costs(experiment, "CPUTIME (sec)", IntSet.parse("2"), IntSet.parse("0")))
    expected = dict(zip(table.column("name").plain(), table.column("exclusive").plain(), strict=True))
    cell = next(
        k
        for k in range(len(row["mean"]))
        if grid["columns"].values[grid["column"][k]] == "rank 2" and grid["lanes"].values[grid["lane"][k]] == "thread 0"
    )
    assert row["mean"][cell] == expected["MPI_Waitall"]


def test_a_choice_of_profiles_and_metric_counts_everywhere() -> None:
    experiment = example()
    choice = Choice("cycles", IntSet.parse("1"), None)
    shown = panels(experiment, choice=choice)
    found = costs(experiment, "cycles", IntSet.parse("1"))
    assert [metric["name"] for metric in shown["flame"].data["metrics"]] == ["cycles", "CPUTIME (sec)"]
    assert shown["calltree"].data["metrics"][0]["total"] == found.total
    assert shown["spread"].data["n_profiles"] == 2
    assert len(shown["spread"].data["rows"][0]["mean"]) == 2
    with pytest.raises(UsageError, match="no metric 'energy'"):
        panels(experiment, choice=Choice("energy"))
    with pytest.raises(UsageError, match="no profile has rank 99"):
        panels(experiment, choice=Choice(ranks=IntSet.parse("99")))


def test_lines_of_one_profile_have_no_spread() -> None:
    assert "spread" not in panels(example(ranks=1, threads=1))


# -- folding -----------------------------------------------------------------------------------------------------------


def assert_adds_up(panel: Panel, n_contexts: int) -> None:
    """Every context costs what it costs itself and what is below it, folded rows included."""
    tree = panel.data["tree"]
    parent, n_kept = tree["parent"], len(tree["context"])
    assert (parent < np.maximum(np.arange(len(parent)), n_kept)).all()
    assert (parent[:n_kept] < np.arange(n_kept)).all()
    assert n_kept + int(tree["more"].sum()) == n_contexts
    assert len(tree["more"]) == len(parent) - n_kept
    assert len(set(parent[n_kept:].tolist())) == len(tree["more"]), "one folded row for each parent"
    for number, metric in enumerate(tree["metrics"]):
        below, inclusive = np.zeros(len(parent)), inclusive_of(tree, number)
        np.add.at(below, parent[parent >= 0], inclusive[parent >= 0])
        assert inclusive.tolist() == pytest.approx((metric["exclusive"] + below).tolist())
        assert inclusive[parent < 0].sum() == pytest.approx(metric["total"])


@pytest.mark.parametrize("share", [1.0, 0.7, 0.3, 0.05, 1e-6])
@every_database
def test_folded_trees_add_up(path: Path, share: float) -> None:
    experiment = opened(path)
    n_contexts = len(panels(experiment)["calltree"].data["tree"]["context"])
    panel = panels(experiment, Detail(share))["calltree"]
    assert_adds_up(panel, n_contexts)
    n_kept = len(panel.data["tree"]["context"])
    assert n_kept == max(1, int(n_contexts * share))
    assert bool(panel.notes) == (n_kept < n_contexts)
    if panel.notes:
        assert f"{n_contexts - n_kept:,} of {n_contexts:,} contexts are folded" in panel.notes[0]


@given(experiments(traces=False, aggregations=(Aggregation.SUM,)), st.floats(0.01, 1))
@try_examples(60)
def test_panels_of_any_experiment(experiment: Experiment, share: float) -> None:
    shown = panels(experiment, Detail(share))
    whole = panels(experiment)
    assert shown.keys() == whole.keys()
    if not shown:
        return
    tree, everything = shown["calltree"].data["tree"], whole["calltree"].data["tree"]
    assert len(tree["context"]) + int(tree["more"].sum()) == len(everything["context"])
    assert set(tree["context"].tolist()) <= set(everything["context"].tolist())
    for number in range(len(tree["metrics"])):
        roots, all_roots = tree["parent"] < 0, everything["parent"] < 0
        with np.errstate(invalid="ignore", over="ignore"):
            got, expected = inclusive_of(tree, number)[roots].sum(), inclusive_of(everything, number)[all_roots].sum()
        assert float(got) == pytest.approx(float(expected), rel=1e-6, abs=2.0**20, nan_ok=True)


@given(experiments(traces=False, n_runs=2, composite=True))
@try_examples(30)
def test_minima_composites_and_runs_make_panels_too(experiment: Experiment) -> None:
    shown = panels(experiment)
    if "flame" in shown:
        assert any(metric["additive"] for metric in shown["flame"].data["metrics"])
    for panel in shown.values():
        assert all(not metric["unit"] or isinstance(metric["total"], float) for metric in panel.data["metrics"])


def wide(n_functions: int, n_profiles: int) -> Experiment:
    """One root that calls many functions, one of which takes most of the time; a rank for each profile."""
    builder = ExperimentBuilder("made-up", title="wide")
    root = builder.add_context(-1, ContextKind.FUNCTION, builder.region(ContextKind.FUNCTION, "main"), Relation.CALL)
    for number in range(n_functions):
        region = builder.region(ContextKind.FUNCTION, f"f{number}")
        builder.add_context(root, ContextKind.FUNCTION, region, Relation.CALL)
    builder.add_metric(Metric("time", Scope.EXCLUSIVE, unit="sec"))
    for rank in range(n_profiles):
        profile = builder.add_profile(ProfileKind.THREAD, [(2, rank, rank, 3), (3, 0, 0, 3)])
        values = np.ones(n_functions)
        values[0] = 1000 + rank
        builder.add_values(profile, np.arange(1, n_functions + 1), 0, values)
    return builder.build()


def test_the_smallest_are_folded_first_and_the_page_says_below_which_share() -> None:
    panel = panels(wide(99, 1), Detail(0.02))["calltree"]
    names = [name for name, *_ in cells(panel, panel.data["tree"]["label"])]
    assert names == ["main", "f0"]
    assert panel.data["tree"]["more"].tolist() == [98]
    assert inclusive_of(panel.data["tree"], 0).tolist() == [1098, 1000, 98]
    assert "98 of 100 contexts" in panel.notes[0]
    assert f"at most {100 / 1098:.3g}%" in panel.notes[0]


def test_many_profiles_are_grouped_and_the_page_says_so() -> None:
    experiment = wide(3, 5000)
    panel = panels(experiment)["spread"]
    grid, row = panel.data["grid"], panel.data["rows"][1]
    assert panel.data["n_profiles"] == grid["n_profiles"].sum() == 5000
    assert grid["n_joined"] == 2
    assert grid["columns"].values[:2] == ("rank 0 to rank 1", "rank 2 to rank 3")
    assert row["mean"][:2].tolist() == [1000.5, 1002.5]
    assert (row["low"][1], row["high"][1]) == (1002, 1003)
    assert (row["all_min"], row["all_max"], row["all_mean"]) == (1000, 5999, 3499.5)
    assert row["all_imbalance"] == pytest.approx(5999 / 3499.5 - 1)
    assert "5,000 profiles are shown as 2,500 cells" in panel.notes[0]


def test_profiles_with_equal_tuples_have_places_of_their_own() -> None:
    builder = ExperimentBuilder("made-up")
    for _ in range(3):
        builder.add_profile(ProfileKind.THREAD, [(3, 0, 0, 3)])
    builder.add_profile(ProfileKind.THREAD, [(3, 1, 1, 3)])
    experiment = builder.build()
    grid = Places(experiment, np.arange(4), 64).grid(100)
    assert len(grid.column) == 4
    assert set(grid.n_profiles.tolist()) == {1}
    assert grid.lanes == ("thread 0", "thread 1")


def spread_over(identifiers: list[list[tuple[int, int, int, int]]], values: list[float]) -> Panel:
    builder = ExperimentBuilder("made-up")
    builder.add_context(-1, ContextKind.FUNCTION, builder.region(ContextKind.FUNCTION, "main"))
    builder.add_metric(Metric("time", Scope.EXCLUSIVE, unit="sec"))
    for one, value in zip(identifiers, values, strict=True):
        profile = builder.add_profile(ProfileKind.THREAD, one)
        if value:
            builder.add_values(profile, np.array([0]), 0, np.array([value]))
    return panels(builder.build())["spread"]


def test_lanes_are_in_the_order_of_their_numbers() -> None:
    threads = [[(2, 0, 0, 3), (3, n, n, 3)] for n in (10, 1, 3, 2)]
    panel = spread_over(threads, [1.0, 0.0, 3.0, 0.0])
    assert panel.data["grid"]["lanes"].values == ("thread 1", "thread 2", "thread 3", "thread 10")
    assert panel.data["rows"][0]["mean"].tolist() == [0.0, 0.0, 3.0, 1.0]
    assert panel.data["rows"][0]["all_none"] == 2


def test_few_profiles_of_many_ranks_and_threads_share_no_cell() -> None:
    """Each on a rank and a thread of its own: the grid has more cells than there are profiles."""
    panel = spread_over([[(2, n, n, 3), (3, n, n, 3)] for n in range(3)], [1.0, 2.0, 3.0])
    assert panel.data["grid"]["n_joined"] == 1
    assert panel.data["grid"]["n_profiles"].tolist() == [1, 1, 1]
    assert panel.notes == ()


# -- above and below every limit ---------------------------------------------------------------------------------------

ABOVE = Limits(contexts=2, rows=1, cells=1, functions=1, lanes=1, metrics=1)
every_limit = pytest.mark.parametrize("limits", [Limits(), ABOVE], ids=["below", "above"])


@every_limit
@given(found=costly_trees(least=-5))
def test_totals_and_shares_are_those_of_top_and_tree(limits: Limits, found: Costs) -> None:
    """Of any costs, signed ones too: what is folded or left out is still counted."""
    shown = panels(found.experiment, limits=limits)
    if not shown:
        assert not found.exclusive.any()
        return
    data = shown["calltree"].data
    metric, flat = data["metrics"][0], data["flat"][0]
    assert (metric["total"], metric["whole"]) == (found.total, found.whole)
    assert metric["gain"] + metric["loss"] == found.total
    assert flat["exclusive"][0].sum() + flat["rest"][0] == found.total
    assert data["tree"]["metrics"][0]["exclusive"].sum() == found.total
    exact = top(found)
    names = named(exact)
    for label, cost in zip(cells(shown["calltree"], flat["label"]), flat["exclusive"][0].tolist(), strict=True):
        assert cost == exact.column("exclusive").values[names.index(label)]
        assert 100 * cost / metric["whole"] == pytest.approx(exact.column("percent").values[names.index(label)])
    assert flat["left"] == len(names) - len(flat["label"])
    assert_rows(shown["hotspots"], shown["hotspots"].data["paths"][0], hot_path(found))


@every_limit
@given(found=costly_trees(least=-5))
def test_boxes_of_differences_are_as_wide_as_all_changes_in_them(limits: Limits, found: Costs) -> None:
    shown = panels(found.experiment, limits=limits)
    if not shown or not found.is_signed:
        return
    tree = shown["flame"].data["tree"]
    weight, parent, metric = tree["metrics"][0]["weight"], tree["parent"], tree["metrics"][0]
    whole = panels(found.experiment)["flame"].data["tree"]
    own = np.abs(whole["metrics"][0]["exclusive"])
    assert weight[parent < 0].sum() == own.sum()
    below = np.zeros(len(parent))
    np.add.at(below, parent[parent >= 0], weight[parent >= 0])
    kept = np.arange(len(parent)) < len(tree["context"])
    assert (weight - below)[kept].tolist() == np.abs(metric["exclusive"])[kept].tolist()


def test_differences_are_told_from_costs_and_have_no_imbalance() -> None:
    builder = ExperimentBuilder("made")
    for name in ("main", "slower", "faster"):
        builder.add_context(
            0 if name != "main" else -1, ContextKind.FUNCTION, builder.region(ContextKind.FUNCTION, name)
        )
    builder.add_metric(Metric("time", Scope.EXCLUSIVE, unit="sec"))
    for rank in range(2):
        builder.add_values(
            builder.add_profile(ProfileKind.THREAD, [(2, rank, rank, 3)]), np.array([1, 2]), 0, np.array([1.0, -2.5])
        )
    shown = panels(builder.build())
    metric = shown["flame"].data["tree"]["metrics"][0]
    assert (metric["signed"], metric["total"], metric["whole"], metric["gain"], metric["loss"]) == (True, -3, 7, 2, -5)
    assert metric["weight"].tolist() == [7, 2, 5]
    assert shown["hotspots"].data["imbalance"] == {}
    assert shown["spread"].data["rows"][0]["all_imbalance"] is None
    assert any("differences" in note for note in shown["flame"].notes)


def several_runs() -> Experiment:
    """Two runs of two ranks each; the second takes ten times as long, both are as uneven as 1 to 3."""
    builder = ExperimentBuilder("made-up", title="runs")
    for n in (1.0, 10.0):
        builder.add_run(Run("", {"n": n}))
    builder.add_context(-1, ContextKind.FUNCTION, builder.region(ContextKind.FUNCTION, "main"))
    builder.add_metric(Metric("time", Scope.EXCLUSIVE, unit="sec"))
    for run, n in enumerate((1.0, 10.0)):
        for rank in range(2):
            profile = builder.add_profile(ProfileKind.THREAD, [(2, rank, rank, 3)], run=run)
            builder.add_values(profile, np.array([0]), 0, np.array([n * (1 + 2 * rank)]))
    return builder.build()


def test_several_runs_are_said_to_be_added_up_and_have_no_common_imbalance() -> None:
    shown = panels(several_runs())
    for kind in ("hotspots", "flame", "calltree"):
        assert any(note.startswith("2 runs are added up here") for note in shown[kind].notes)
    assert shown["hotspots"].data["imbalance"] == {}
    assert shown["hotspots"].data["n_runs"] == 2
    row = shown["spread"].data["rows"][0]
    assert row["all_imbalance"] is None
    assert shown["spread"].data["runs"].values == ("n=1", "n=10")
    assert row["run_sum"].tolist() == [4, 40]
    assert row["run_imbalance"].tolist() == [0.5, 0.5]


def test_one_run_has_an_imbalance() -> None:
    shown = panels(wide(3, 2))
    assert shown["hotspots"].data["imbalance"]["time"] == pytest.approx(1003 / 1002.5 - 1)
    assert "runs" not in shown["spread"].data


def test_views_that_do_not_add_up_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    report([Input(example(ranks=1), ["made"])], complain=told.append)
    assert told == []
    cut = CallTree.cut

    def halved(self: CallTree, *given: Any) -> CutTree:
        tree = cut(self, *given)
        tree.data["metrics"][0]["exclusive"] = tree.data["metrics"][0]["exclusive"] / 2
        return tree

    monkeypatch.setattr(CallTree, "cut", halved)
    report([Input(example(ranks=1), ["made"])], complain=told.append)
    assert len(told) == 1
    assert told[0].startswith("CPUTIME (sec): the call tree adds up to ")
