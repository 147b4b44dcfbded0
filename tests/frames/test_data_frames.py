"""Frames: what they hold, how they add up, and what they refuse."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import networkx
import numpy as np
import pandas
import polars
import pytest

import callgrove
from callgrove.errors import MissingExtra, MissingPackage, UsageError
from callgrove.examples import example, gpu_example
from callgrove.frames import costs as frame_costs
from callgrove.frames import data_frames
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.contexts import ContextKind
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Aggregation, Metric, Scope
from callgrove.model.profiles import ProfileKind
from callgrove.model.runs import Run
from callgrove.model.table import Column, Table
from tests.formats.samples import CORPUS
from tests.frames.trees import T_TIME, T_TREE, tree_t, tree_with

SAMPLES = [
    CORPUS / "hpctoolkit" / "release" / "mpi4.d",
    CORPUS / "hpctoolkit" / "prerelease" / "pth4.d",
    CORPUS / "hpctoolkit" / "legacy" / "loops21.d",
]
COLUMNS = [
    "run",
    "rank",
    "thread",
    "gpu",
    "stream",
    "context",
    "name",
    "kind",
    "file",
    "line",
    "module",
    "path",
    "depth",
]


def opened(path: Path) -> Experiment:
    experiment = callgrove.open(path)
    assert isinstance(experiment, Experiment)
    return experiment


# -- the long frame ----------------------------------------------------------------------------------------------------


def test_the_long_frame_of_t() -> None:
    frame = tree_t().to_pandas()
    assert list(frame.columns) == [*COLUMNS, "time", "time (inc)", "cycles", "cycles (inc)"]
    assert frame["time"].sum() == 224
    assert frame[frame["depth"] == 0]["time (inc)"].sum() == 224
    assert frame[frame["path"] == "main->solve->kernel"]["time"].tolist() == [20, 22, 24, 34]
    assert frame[frame["path"] == "main->solve->kernel"]["time (inc)"].sum() == 120
    assert frame[frame["name"] == "write"]["rank"].tolist() == [0], "which no other rank reached"
    assert len(frame) == 12 * 4 - 6
    assert frame["context"].tolist() == sorted(frame["context"])


def test_types_of_a_long_frame() -> None:
    frame = tree_t().to_pandas()
    assert {str(frame[name].dtype) for name in ("run", "rank", "gpu", "line", "depth", "cycles")} == {"Int64"}
    assert {str(frame[name].dtype) for name in ("time", "time (inc)")} == {"Float64"}
    assert all(isinstance(frame[name].dtype, pandas.CategoricalDtype) for name in ("name", "kind", "file", "path"))
    assert frame["gpu"].isna().all()
    assert frame["file"].isna().all()


def test_integers_beyond_doubles_stay_exact() -> None:
    large = 2**53 + 1
    e = tree_with([(0, "main"), (1, "f")], {"n": ("", np.array([[0, large], [large, 0]], np.int64))})
    frame = e.to_pandas()
    assert frame["n"].tolist() == [0, large, large]
    assert frame["n (inc)"].tolist() == [large, large, large]
    assert e.to_arrow()["n"].to_pylist() == e.to_polars()["n"].to_list() == [0, large, large]
    assert e.to_pandas(wide=True)["n"].to_numpy().tolist() == [[0, large], [large, 0]]


def test_a_metric_without_a_cost_in_a_row_is_missing() -> None:
    time, waits = np.array([[1.0, 1.0], [0, 2.0]]), np.array([[0, 0], [3, 0]])
    frame = tree_with([(0, "main"), (1, "f")], {"time": ("sec", time), "waits": ("", waits)}).to_pandas()
    rows = {(row["name"], row["rank"]): row for row in frame.to_dict("records")}
    assert rows["main", 0]["waits"] == 0, "of which 3 are below"
    assert rows["main", 0]["waits (inc)"] == 3
    assert pandas.isna(rows["main", 1]["waits"])
    assert pandas.isna(rows["f", 0]["time"])


def test_costs_that_cancel_out_leave_no_hole_in_the_tree() -> None:
    changes = np.array([[0.0], [0.0], [2.0], [-2.0]])
    e = tree_with([(0, "main"), (1, "f"), (2, "g"), (2, "h")], {"time": ("sec", changes)})
    frame = e.to_pandas()
    assert frame["name"].tolist() == ["main", "f", "g", "h"]
    assert frame["time (inc)"].isna().tolist() == [True, True, False, False]


def test_minima_have_no_zeros() -> None:
    builder = ExperimentBuilder("made", title="minima")
    main, called = (builder.region(ContextKind.FUNCTION, name) for name in ("main", "f"))
    root = builder.add_context(-1, ContextKind.FUNCTION, main)
    builder.add_context(root, ContextKind.FUNCTION, called)
    builder.add_profile(ProfileKind.THREAD)
    row = builder.add_metric(Metric("least", Scope.EXCLUSIVE, aggregation=Aggregation.MINIMUM))
    builder.add_values(0, 1, row, 3.0)
    e = builder.build()
    frame, wide = e.to_pandas(), e.to_pandas(wide=True)
    assert frame["least"].isna().tolist() == [True, False]
    assert frame["least (inc)"].tolist() == [3, 3]
    assert np.isnan(wide["least"].to_numpy()).tolist() == [[True], [False]]


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_frames_add_up_to_the_total(path: Path) -> None:
    e = opened(path)
    metric = e.default_metric
    frame, wide = e.to_pandas(), e.to_pandas([metric], wide=True)
    total = pytest.approx(e.root_total(metric))
    assert frame[metric].sum() == total
    assert frame[frame["depth"] == 0][f"{metric} (inc)"].sum() == total
    assert wide[metric].to_numpy().sum() == total
    assert wide[metric].shape == (e.contexts.n_listed, len(e.profiles.measured))
    by_context = frame.groupby("context")[metric].sum()
    exclusive = e.totals(metric, Scope.EXCLUSIVE)
    assert by_context.to_numpy(float) == pytest.approx(exclusive[by_context.index.to_numpy()])


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_names_and_paths_are_those_of_tables(path: Path) -> None:
    e = opened(path)
    frame = e.to_pandas().drop_duplicates("context").set_index("context")
    table = e.export("contexts")
    for column in ("name", "kind", "file", "line", "module", "path"):
        expected = [table[column][context] for context in frame.index]
        assert [None if pandas.isna(cell) else cell for cell in frame[column].tolist()] == expected, column


def test_the_number_of_profiles_at_a_time_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    e = example()
    whole, wide = e.to_pandas(), e.to_pandas(wide=True)
    monkeypatch.setattr(frame_costs, "MOST_CELLS", 1)
    pandas.testing.assert_frame_equal(e.to_pandas(), whole)
    pandas.testing.assert_frame_equal(e.to_pandas(wide=True), wide)


def test_a_metric_with_the_name_of_a_column_gets_another_one() -> None:
    ones = np.ones((1, 1))
    e = tree_with([(0, "main")], {"rank": ("", ones), "time": ("sec", 2 * ones), "time (inc)": ("sec", 3 * ones)})
    frame = e.to_pandas()
    assert frame["rank"].tolist() == [0]
    assert frame["rank (exc)"].tolist() == [1]
    assert frame[["time", "time (inc)", "time (inc) (exc)", "time (inc) (inc)"]].to_numpy(float).tolist() == [
        [2, 2, 3, 3]
    ]
    back = callgrove.from_pandas(frame)
    assert {name: back.root_total(name) for name in back.metrics.quantities} == {"rank": 1, "time": 2, "time (inc)": 3}


def test_names_that_no_encoding_holds() -> None:
    e = tree_with([(0, "half \udcff"), (1, "<script>")], {"time": ("sec", np.ones((2, 1)))})
    for names in (e.to_pandas()["name"].tolist(), e.to_polars()["name"].to_list(), e.to_arrow()["name"].to_pylist()):
        assert names == ["half \\udcff", "<script>"]


def test_derived_metrics_and_what_is_left_out() -> None:
    e = tree_t().with_metric("ipc = cycles / time")
    frame = e.to_pandas()
    assert set(frame["ipc"].dropna()) == {2.0}
    assert frame.attrs["left_out"] == []
    assert frame.attrs["metrics"]["time"]["unit"] == "sec"
    assert e.to_pandas(["time"]).columns.tolist()[-2:] == ["time", "time (inc)"]
    with pytest.raises(UsageError, match="there is no metric 'tme'"):
        e.to_pandas(["tme"])


# -- the wide frame ----------------------------------------------------------------------------------------------------


def test_the_wide_frame_of_t() -> None:
    wide = tree_t().to_pandas(wide=True)
    assert wide.columns.names == ["metric", "rank", "thread"]
    assert wide.index.name == "context"
    assert wide["time"].to_numpy().tolist() == [list(row) for row in T_TIME]
    assert wide["time"].to_numpy().sum() == 224
    assert wide["cycles"].to_numpy().dtype == np.int64


def test_runs_are_told_apart_in_a_wide_frame() -> None:
    wide = tree_t(2).to_pandas(wide=True)
    assert wide.columns.names == ["metric", "rank", "thread", "run"]
    assert wide.columns.is_unique
    assert wide["time"].xs(1, axis=1, level="run").to_numpy().sum() == 448


def test_a_run_that_did_not_measure_something_has_no_zeros_of_it() -> None:
    e = tree_t(2)
    runs = (e.runs[0], e.runs[1].without(["cycles"]))
    builder = ExperimentBuilder("made", title="two")
    region = builder.region(ContextKind.FUNCTION, "main")
    builder.add_context(-1, ContextKind.FUNCTION, region)
    for number, run in enumerate(runs):
        builder.add_run(Run(run.name, {}, 1, "", run.attributes))
        builder.add_profile(ProfileKind.THREAD, run=number)
    rows = [builder.add_metric(Metric(name, Scope.EXCLUSIVE)) for name in ("time", "cycles")]
    builder.add_values([0, 1], 0, rows[0], [1.0, 2.0])
    builder.add_values(0, 0, rows[1], [7])
    made = builder.build()
    assert made.to_pandas()["cycles"].isna().tolist() == [False, True]
    wide = made.to_pandas(wide=True)["cycles"]
    assert wide.isna().to_numpy().tolist() == [[False, True]]
    assert int(wide.iloc[0, 0]) == 7


# -- other frames ------------------------------------------------------------------------------------------------------


def cells(column: Any) -> list[Any]:
    return [None if pandas.isna(cell) else cell for cell in column.tolist()]


@pytest.mark.parametrize("make", [tree_t, example, lambda: opened(SAMPLES[0])], ids=["T", "example", "mpi4"])
def test_polars_and_arrow_equal_pandas(make: Any) -> None:
    e = make()
    frame, in_polars, in_arrow = e.to_pandas(), e.to_polars(), e.to_arrow()
    assert in_polars.columns == in_arrow.column_names == list(frame.columns)
    for name in frame.columns:
        assert in_polars[name].to_list() == cells(frame[name]), name
        assert in_arrow[name].to_pylist() == cells(frame[name]), name
    assert in_polars["name"].dtype == polars.Categorical


@pytest.mark.parametrize("make", [tree_t, example, lambda: opened(SAMPLES[1])], ids=["T", "example", "pth4"])
def test_the_graph_equals_pandas(make: Any) -> None:
    e = make()
    graph, frame = e.to_networkx(), e.to_pandas()
    assert networkx.is_forest(graph)
    assert graph.number_of_nodes() == e.contexts.n_listed
    metric = e.default_metric
    by_context = frame.groupby("context")[[metric, f"{metric} (inc)"]].sum()
    for context, row in by_context.iterrows():
        node = graph.nodes[int(context)]
        assert node.get(metric, 0) == pytest.approx(row[metric])
        assert node.get(f"{metric} (inc)", 0) == pytest.approx(row[f"{metric} (inc)"])
        assert node["path"] == e.contexts.path(int(context))
    roots = [node for node, degree in graph.in_degree() if degree == 0]
    assert sum(graph.nodes[r].get(f"{metric} (inc)", 0) for r in roots) == pytest.approx(e.root_total(metric))


def test_a_node_has_no_attribute_for_what_is_absent() -> None:
    node = tree_t().to_networkx().nodes[6]
    assert node == {
        "name": "kernel",
        "kind": "function",
        "path": "main->solve->kernel",
        "depth": 2,
        "time": 100.0,
        "time (inc)": 120.0,
        "cycles": 200,
        "cycles (inc)": 240,
    }


def test_profiles_that_nothing_tells_apart_have_a_number() -> None:
    builder = ExperimentBuilder("made", title="two processes without MPI")
    region = builder.region(ContextKind.FUNCTION, "main")
    builder.add_context(-1, ContextKind.FUNCTION, region)
    for _ in range(2):
        builder.add_profile(ProfileKind.THREAD)
    builder.add_values([0, 1], 0, builder.add_metric(Metric("time", Scope.EXCLUSIVE)), [1.0, 2.0])
    e = builder.build()
    assert e.to_pandas()["profile"].tolist() == [0, 1]
    assert e.to_pandas(wide=True).columns.is_unique
    assert callgrove.from_pandas(e.to_pandas()).to_pandas()["time"].tolist() == [1, 2]


def test_an_experiment_without_costs_gives_an_empty_frame() -> None:
    e = gpu_example()
    frame = e.to_pandas()
    assert len(frame) == 0
    assert list(frame.columns) == COLUMNS
    assert len(e.to_arrow()) == len(e.to_polars()) == 0


# -- size and packages -------------------------------------------------------------------------------------------------


def test_frames_that_are_too_large_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frame_costs, "MOST_ROWS", 10)
    for make in ("to_pandas", "to_arrow", "to_polars"):
        with pytest.raises(UsageError, match=r"metrics=\[\.\.\.\].*select\(\.\.\.\).*sql\(\.\.\.\)"):
            getattr(example(), make)()


def test_a_wide_frame_that_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_frames, "MOST_ROWS", 12 * 4)
    assert tree_t().to_pandas(["time"], wide=True).shape == (12, 4)
    with pytest.raises(UsageError, match=r"96 cells of contexts, profiles and metrics.*metrics=\[\.\.\.\]"):
        tree_t().to_pandas(wide=True)


def test_a_sparse_frame_is_not_refused_for_its_empty_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frame_costs, "MOST_ROWS", 4)
    e = tree_with([(0, "a"), (0, "b"), (0, "c")], {"time": ("sec", np.eye(3))})
    assert len(e.to_pandas()) == 3
    monkeypatch.setattr(frame_costs, "MOST_ROWS", 2)
    with pytest.raises(UsageError, match="3 contexts and profiles"):
        e.to_pandas()


@pytest.mark.parametrize(
    ("method", "module", "line"),
    [
        ("to_pandas", "pandas", "callgrove[pandas]"),
        ("to_polars", "polars", "callgrove[polars]"),
        ("to_arrow", "pyarrow", "callgrove[arrow]"),
        ("to_networkx", "networkx", "callgrove[networkx]"),
        ("to_hatchet", "hatchet", "pip install llnl-hatchet"),
        ("to_thicket", "thicket", "pip install llnl-thicket"),
    ],
)
def test_frames_say_what_they_need(method: str, module: str, line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtra) as caught:
        getattr(tree_t(), method)()
    assert line in str(caught.value)
    assert isinstance(caught.value, MissingPackage) == module.endswith("et")


# -- tables ------------------------------------------------------------------------------------------------------------


def test_tables_go_on_to_polars() -> None:
    table = Table(
        (Column("a", [2**63, None]), Column("b", [1, -1], -1), Column("c", ["x", None]), Column("d", [1, 2.5]))
    )
    frame = table.to_polars()
    assert frame.to_dicts() == [{"a": 2**63, "b": 1, "c": "x", "d": 1.0}, {"a": None, "b": None, "c": None, "d": 2.5}]
    assert tree_t().top(limit=3).to_polars()["name"].to_list() == ["kernel", "MPI_Allreduce", "exp"]


def test_a_table_is_read_by_row_and_by_column() -> None:
    table = tree_t().top(limit=3)
    assert len(table) == 3
    assert [row["name"] for row in table] == table["name"] == ["kernel", "MPI_Allreduce", "exp"]
    assert table.to_pandas()["exclusive"].tolist() == table.to_polars()["exclusive"].to_list() == [116, 40, 20]
    assert len(T_TREE) == len(tree_t().tree())


def test_one_metric_may_be_a_text() -> None:
    """Not a list of its letters."""
    assert tree_t().to_pandas("time").equals(tree_t().to_pandas(["time"]))
