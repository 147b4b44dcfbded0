"""Costs over ranks, threads, GPUs, nodes and runs: numbers known on paper, and agreement of all views at every size."""

from __future__ import annotations

import json
import math
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from callgrove.analysis.costs import Costs, costs, group
from callgrove.analysis.spread import imbalance as imbalances
from callgrove.analysis.spread import values as spread_values
from callgrove.analysis.spread.entities import ENTITIES, EntityNames, entities_of
from callgrove.analysis.spread.imbalance import Question, imbalance, spread_statistics
from callgrove.analysis.spread.values import EntityCosts
from callgrove.arrays import ABSENT, Encoded, Floats, Ints
from callgrove.errors import UsageError
from callgrove.examples import example
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.contexts import ContextKind
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Aggregation, Metric, Scope
from callgrove.model.profiles import DEFAULT_ID_NAMES, Interpretation, ProfileKind
from callgrove.model.system import System
from callgrove.model.table import Table
from tests.analysis.spread_trees import RANK, T_TIME, T_TREE, make, metric, tree_r1, tree_t
from tests.model.strategies import experiments
from tests.requirements import ROOT, need
from tests.timing import HANG_SEC

KERNEL = {
    "n": 4,
    "sum": 116,
    "mean": 29,
    "min": 24,
    "p25": 25.5,
    "median": 27,
    "p75": 30.5,
    "max": 38,
    "std": math.sqrt(29),
    "cv": math.sqrt(29) / 29,
    "imbalance": 38 / 29 - 1,
    "load_balance": 29 / 38,
    "percent_imbalance": 100 * 9 / 38 * 4 / 3,
    "excess": 9,
    "slowest": "rank 3",
    "percent": 100 * 9 / 56,
}
COLUMNS = [
    *("name", "n", "sum", "mean", "min", "p25", "median", "p75", "max", "std", "cv", "imbalance", "percent_imbalance"),
    *("load_balance", "excess", "slowest", "percent", "kind", "file", "line", "module"),
]


def row_of(table: Table, **wanted: object) -> dict[str, object]:
    """Return the one row that has these cells."""
    (row,) = [row for row in table if all(row[name] == cell for name, cell in wanted.items())]
    return row


def check(row: dict[str, object], expected: dict[str, object]) -> None:
    for name, cell in expected.items():
        assert row[name] == (pytest.approx(cell, rel=1e-12) if isinstance(cell, float) else cell), name


# -- numbers known on paper --------------------------------------------------------------------------------------------


def test_functions_over_ranks() -> None:
    table = tree_t().imbalance()
    assert list(table.names) == COLUMNS
    check(row_of(table, name="kernel"), KERNEL)
    check(row_of(table, name="write"), {"mean": 2.0, "imbalance": 3.0, "percent_imbalance": 100.0, "slowest": "rank 0"})
    check(row_of(table, name="exp"), {"std": 0.0, "excess": 0.0, "load_balance": 1.0, "percent_imbalance": 0.0})
    assert table["name"][:4] == ["kernel", "write", "MPI_Allreduce", "fwrite"]
    assert table.left == 0


def test_contexts_have_a_path() -> None:
    table = tree_t().imbalance(by="context")
    assert list(table.names) == [*COLUMNS, "path", "context"]
    outer = row_of(table, path="main->solve->kernel")
    check(outer, {"context": 4, "imbalance": 0.36, "p25": 21.5, "median": 23.0, "p75": 26.5, "std": math.sqrt(29)})


def test_inclusive_cost_over_threads() -> None:
    table = tree_r1().imbalance("time", over="thread", scope="inclusive")
    check(row_of(table, name="main"), {"mean": 32.0, "std": 5.0, "min": 25.0, "median": 32.0, "max": 39.0})
    check(row_of(table, name="main"), {"slowest": "rank 1 thread 0", "sum": 128.0, "percent": 100 * 7 / 32})
    assert row_of(table, name="foo")["sum"] == 78, "the foo that bar calls counts in the outermost one only"


@pytest.mark.parametrize(("over", "n", "mean"), [("rank", 2, 13.0), ("thread", 4, 6.5), ("run", 1, 26.0)])
def test_what_is_compared(over: str, n: int, mean: float) -> None:
    check(row_of(tree_r1().imbalance("time", over), name="main"), {"n": n, "mean": mean, "sum": 26.0})


def test_a_single_one_has_no_percent_imbalance() -> None:
    row = row_of(tree_t().imbalance(ranks=2), name="kernel")
    check(row, {"n": 1, "imbalance": 0.0, "percent_imbalance": None, "load_balance": 1.0, "std": 0.0})


def test_only_where_there_is_a_value() -> None:
    row = row_of(tree_t().imbalance(present=True), name="write")
    check(row, {"n": 1, "mean": 8.0, "min": 8.0, "p25": 8.0, "median": 8.0, "excess": 0.0, "percent_imbalance": None})


def test_without_percentiles() -> None:
    with_all, without = tree_t().imbalance(), tree_t().imbalance(percentiles=False)
    assert list(without.names) == [name for name in COLUMNS if name not in ("p25", "median", "p75")]
    assert [without[name] for name in without.names] == [with_all[name] for name in without.names]


def test_a_limit_says_what_is_left() -> None:
    table = tree_t().imbalance(limit=2)
    assert (table["name"], table.left) == (["kernel", "write"], 7)


# -- derived metrics and maxima ----------------------------------------------------------------------------------------


def test_a_formula_is_computed_for_each_entity() -> None:
    experiment = tree_r1().with_metric("each_visit = time / visits")
    row = row_of(experiment.imbalance("each_visit", over="rank"), name="foo")
    first, second = 15 / 36, 27 / 76  # what `top` says of foo on each rank
    assert [row_of(experiment.top("each_visit", ranks=r), name="foo")["exclusive"] for r in (0, 1)] == [first, second]
    check(row, {"n": 2, "min": second, "max": first, "slowest": "rank 0", "percent": None, "sum": None})
    lonely = row_of(experiment.imbalance("each_visit", over="thread"), name="MPI_Barrier")
    check(lonely, {"n": 2, "min": 1.0, "max": 1.0})  # 4 / 0 has no value, and is no 0


def test_a_formula_asks_for_all_chosen_profiles() -> None:
    table = tree_t().with_metric("part = time / profiles.max(time)").imbalance("part", over="rank")
    check(row_of(table, name="kernel"), {"max": 1.0, "min": 24 / 38, "slowest": "rank 3"})


def test_a_linear_formula_adds_up() -> None:
    experiment = tree_t().with_metric("half = time / 2")
    check(row_of(experiment.imbalance("half"), name="kernel"), {"sum": 58.0, "max": 19.0, "percent": 100 * 9 / 56})


def with_rule(rule: Aggregation) -> Experiment:
    """Return T with one more metric that is combined in another way."""
    return make(T_TREE, {replace(metric("longest"), aggregation=rule): T_TIME}, [(rank, 0) for rank in range(4)])


def test_the_maximum_of_an_entity() -> None:
    table = with_rule(Aggregation.MAXIMUM).imbalance("longest")
    check(row_of(table, name="kernel"), {"max": 34.0, "min": 20.0, "mean": 25.0, "slowest": "rank 3"})
    check(row_of(table, name="write"), {"max": 8.0, "min": 0.0, "n": 4})


def test_a_minimum_is_refused() -> None:
    with pytest.raises(UsageError, match="longest is a minimum: sums, maxima and derived metrics are compared"):
        with_rule(Aggregation.MINIMUM).imbalance("longest")


# -- waiting -----------------------------------------------------------------------------------------------------------


def waiting(computation: tuple[float, ...]) -> tuple[str, ...]:
    tree = ((0, "main"), (1, "kernel"), (1, "MPI_Allreduce"))
    waits = tuple(20 - value for value in computation)
    rows = ((1,) * len(computation), computation, waits)
    return make(tree, {metric("time"): rows}, [(rank, 0) for rank in range(len(computation))]).imbalance().notes


def test_waiting_inverts_computation() -> None:
    said = "MPI_Allreduce: high on each rank where all else is low, so this is waiting for the slowest rank"
    assert said in waiting((8, 10, 12, 18))
    assert not waiting((8, 18)), "two points always lie on a line"
    assert not tree_t().imbalance().notes, "write on rank 0 outweighs it"


# -- who is compared ---------------------------------------------------------------------------------------------------


def places(kinds: list[ProfileKind], identifiers: list[list[tuple[int, int, int, int]]]) -> Experiment:
    """Return profiles that each spend as many seconds as their number, from 1 on."""
    builder = ExperimentBuilder("made-up", path="made-up")
    builder.add_context(-1, ContextKind.FUNCTION, builder.region(ContextKind.FUNCTION, "main"))
    row = builder.add_metric(metric("time"))
    for number, (kind, rows) in enumerate(zip(kinds, identifiers, strict=True)):
        builder.add_values(builder.add_profile(kind, rows), [0], row, [number + 1.0])
    return builder.build()


def test_processes_without_ranks_stay_apart() -> None:
    """Several processes share one identifier."""
    experiment = places([ProfileKind.THREAD] * 3, [[(3, 0, 0, 0)]] * 3)
    assert entities_of(experiment, "thread").names == ("process 0 thread 0", "process 1 thread 0", "process 2 thread 0")
    check(row_of(experiment.imbalance(), name="main"), {"n": 3, "slowest": "process 2 thread 0"})


STREAMS = places(
    [ProfileKind.THREAD, ProfileKind.GPU_STREAM, ProfileKind.GPU_STREAM],
    [[(RANK, 0, 0, 0), (3, 0, 0, 0)], *([(RANK, 0, 0, 0), (4, 0, 0, 0), (6, k, k, 0)] for k in (0, 1))],
)


def test_nodes_are_told_by_the_tree_or_by_their_numbers() -> None:
    """Places of one name are one node; without a name on the tree, the number of the identifier tells."""
    builder = ExperimentBuilder("test")
    for node in (7, None, 1, 5, 5, None, 3):
        number = () if node is None else ((DEFAULT_ID_NAMES.index("NODE"), node, node, Interpretation.SINGLE),)
        builder.add_profile(ProfileKind.THREAD, number)
    kinds = ("node", "process", "node", "process", "node", "process", "rack")
    names = ("b", "", "", "", "b", "x", "r")
    parents = np.array([ABSENT, 0, 6, 2, 6, 4, ABSENT], np.int32)
    absent = np.full(len(kinds), ABSENT, np.int64)
    shuffled = np.array([3, 1, 6, 5, 0, ABSENT, 2], np.int32)
    for encoded in (kinds, Encoded(np.array([0, 1, 0, 1, 0, 1, 2], np.uint8), ("node", "process", "rack"))):
        order = [6, *range(6)]  # parents come before children
        place = np.argsort(order)
        builder.set_system(
            System(
                np.append(place, ABSENT)[parents[order]].astype(np.int32),
                encoded.take(np.array(order)) if isinstance(encoded, Encoded) else [encoded[k] for k in order],
                [names[k] for k in order],
                absent,
            ),
            np.append(place, ABSENT)[shuffled].astype(np.int32),
        )
        found = entities_of(builder.build(), "node")
        assert list(found.names) == ["node 7", "b", "node 1", "node 3"]
        assert found.of.tolist() == [0, 1, 2, 1, 1, ABSENT, 3]
        assert found.outside.tolist() == [5]
        some = entities_of(builder.build(), "node", np.array([3, 6], np.int64))
        assert list(some.names) == ["b", "node 3"]


def test_names_are_made_when_they_are_shown() -> None:
    """There may be a million ranks, of which a page names a few."""
    experiment = places([ProfileKind.THREAD] * 4, [[(RANK, k, k, 0), (3, 0, 0, 0)] for k in range(4)])
    for over, words in (("rank", ""), ("thread", " thread 0")):
        entities = entities_of(experiment, over)
        kept = entities.keep(np.array([False, True, False, True]))
        assert isinstance(entities.names, EntityNames)
        assert isinstance(kept.names, EntityNames)
        assert list(kept.names) == [f"rank 1{words}", f"rank 3{words}"]
        assert kept.of.tolist() == [-1, 0, -1, 1]


def test_gpu_streams_are_no_threads() -> None:
    names = {over: entities_of(STREAMS, over).names for over in ("rank", "thread", "gpu")}
    assert names == {"rank": ("rank 0",), "thread": ("rank 0 thread 0",), "gpu": ("rank 0 gpu 0",)}
    table = STREAMS.imbalance(over="gpu")
    check(row_of(table, name="main"), {"sum": 5.0, "n": 1})
    assert "left out: 1 sec in 1 profile without a gpu (16.7% of all)" in table.notes
    assert STREAMS.imbalance(over="device")["sum"] == [5.0], "the other word for it"


def test_the_default_is_the_first_of_which_there_are_several() -> None:
    assert tree_r1().imbalance("time")["slowest"][0].startswith("rank")
    assert tree_r1().imbalance("time", ranks=1)["slowest"][0].startswith("rank 1 thread")
    assert STREAMS.imbalance()["slowest"] == ["rank 0"]


def test_a_kind_that_nothing_has_is_refused() -> None:
    with pytest.raises(UsageError, match="no profile has a gpu; there is 1 rank, "):
        places([ProfileKind.THREAD], [[(RANK, 0, 0, 0)]]).imbalance(over="gpu")
    with pytest.raises(UsageError, match="no profile has a gpu; there are 4 ranks, 4 threads, 1 run"):
        tree_t().imbalance(over="gpu")
    with pytest.raises(UsageError, match="there is no 'core' to compare; there are rank, thread, gpu, node, run"):
        tree_t().imbalance(over="core")
    with pytest.raises(UsageError, match="there is no scope 'point' to compare"):
        tree_t().imbalance(scope="point")


def test_runs_are_compared_with_each_other() -> None:
    """Where runs are not compared, they are added up, which is said."""
    experiment = make(T_TREE, {metric("time"): T_TIME}, [(0, 0, 0), (1, 0, 0), (0, 0, 1), (1, 0, 1)], n_runs=2)
    check(row_of(experiment.imbalance(over="run"), name="kernel"), {"n": 2, "max": 66.0, "slowest": "run 1"})
    assert not experiment.imbalance(over="run").notes
    over_ranks = experiment.imbalance()
    check(row_of(over_ranks, name="kernel"), {"n": 2, "min": 52.0, "max": 64.0, "slowest": "rank 1"})
    assert over_ranks.notes[0].startswith("2 runs are added up")


def test_single_profiles_of_an_aggregate_are_not_known() -> None:
    experiment = places([ProfileKind.AGGREGATE, ProfileKind.THREAD], [[], [(RANK, 0, 0, 0)]])
    for over in ("rank", "thread"):
        with pytest.raises(UsageError, match="only those of all profiles together"):
            experiment.imbalance(over=over)
    with pytest.raises(UsageError, match="only those of all profiles together"):
        experiment.top(by="rank")


# -- all views agree, at every size ------------------------------------------------------------------------------------


def every_cost(experiment: Experiment) -> Iterator[Costs]:
    for quantity in experiment.metrics.quantities:
        if experiment.metrics.first(quantity).aggregation in (Aggregation.SUM, Aggregation.MAXIMUM):
            try:
                yield costs(experiment, quantity)
            except UsageError:  # nothing to compute it from
                continue


def naive(of: Costs, scope: Scope, by: str, entity: Ints, n: int) -> Floats:
    """Return groups x entities, by way of contexts x profiles."""
    groups, rule = group(of.tree, by), of.metric.aggregation
    matrix = of.experiment.matrix(of.metric.name, scope)[: of.tree.n_listed].astype(np.float64)
    rows = groups.rows(np.arange(len(groups)), of.tree).combine(matrix, scope, rule)
    out = np.full((len(groups), n), rule.neutral)
    for column, number in enumerate(entity.tolist()):
        out[:, number] = rule.ufunc(out[:, number], rows[:, column])
    return out


@given(
    experiments(traces=False, aggregations=(Aggregation.SUM, Aggregation.MAXIMUM)),
    st.sampled_from(["function", "context", "line", "module"]),
    st.sampled_from([Scope.EXCLUSIVE, Scope.INCLUSIVE]),
    st.sampled_from(ENTITIES),
)
def test_cells_are_those_of_the_matrix(experiment: Experiment, by: str, scope: Scope, over: str) -> None:
    if not len(experiment.profiles.measured) or len(experiment.profiles.aggregates):
        return
    entities = entities_of(experiment, over).with_outside()
    for of in every_cost(experiment):
        expected = naive(of, scope, by, entities.of[experiment.profiles.measured], len(entities))
        groups = group(of.tree, by)
        spread = EntityCosts(of, scope, groups, np.arange(len(groups)), entities)
        exclusive = of.experiment.matrix(of.metric.name, Scope.EXCLUSIVE).astype(np.float64)
        # of what is added up: large costs may cancel each other
        close = 1e-9 * (np.abs(np.where(np.isfinite(exclusive), exclusive, 0)).sum() + 1)
        np.testing.assert_allclose(spread.matrix(), expected, rtol=1e-9, atol=close)
        in_parts = EntityCosts(of, scope, groups, np.arange(len(groups)), entities)
        filled = np.full(expected.shape, of.neutral)
        for part in in_parts.parts():
            filled[part.row, part.entity] = part.value
        np.testing.assert_allclose(filled, expected, rtol=1e-9, atol=close)
        np.testing.assert_allclose(in_parts.totals, spread.totals, rtol=1e-9, atol=close)


@given(experiments(traces=False, aggregations=(Aggregation.SUM,)), st.sampled_from(ENTITIES))
def test_totals_are_those_of_top(experiment: Experiment, over: str) -> None:
    profiles = experiment.profiles
    if not len(profiles.measured) or len(profiles.aggregates) or len(profiles.summaries):  # these may say anything
        return
    for of in every_cost(experiment):
        name = of.metric.name
        if not len(entities_of(experiment, over)):
            continue
        flat, by_entity = experiment.top(name), experiment.top(name, by=over)
        beside = experiment.top(name, columns=over)
        close = pytest.approx(sum(flat["exclusive"]), rel=1e-9, abs=1e-9 * (np.abs(of.exclusive).sum() + 1))
        assert sum(by_entity["exclusive"]) == close
        cells = [sum(beside[entity]) for entity in entities_of(experiment, over).with_outside().names]
        assert sum(cells) == close
        assert [beside[column] for column in flat.names] == [flat[column] for column in flat.names]


def compare_tables(one: Table, other: Table) -> None:
    assert one.names == other.names
    for name in one.names:
        for left, right in zip(one[name], other[name], strict=True):
            assert left == (pytest.approx(right, rel=1e-9, abs=1e-9) if isinstance(right, float) else right)


@pytest.mark.parametrize("asked", [{}, {"present": True}, {"over": "thread", "by": "context"}, {"scope": "inclusive"}])
def test_one_and_many_parts_agree(asked: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    experiment = example()
    whole = experiment.imbalance(**asked)
    monkeypatch.setattr(imbalances, "KEPT_CELLS", 0)
    monkeypatch.setattr(spread_values, "PART_VALUES", 1)
    monkeypatch.setattr(spread_values, "PART_CELLS", 1)
    compare_tables(experiment.imbalance(**asked), whole)
    compare_tables(experiment.imbalance(**asked, percentiles=False, limit=3), whole_without(whole, 3))


def whole_without(table: Table, limit: int) -> Table:
    kept = tuple(column for column in table.columns if column.name not in ("p25", "median", "p75"))
    return Table(kept).head(limit)


@given(st.lists(st.lists(st.sampled_from([-2.0, 0.0, 0.0, 0.5, 3.0]), min_size=3, max_size=3), min_size=1, max_size=5))
def test_statistics_are_those_of_numpy(rows: list[list[float]]) -> None:
    """Also of rows whose largest cell is one without a value."""
    tree = [(0, f"f{number}") for number in range(len(rows))]
    experiment = make(tree, {metric("time"): rows}, [(rank, 0) for rank in range(3)])
    made = imbalance(costs(experiment, "time"), Question("rank", "context"))
    for row in made.table:
        cells = np.array(rows[row["context"]])
        expected = [
            cells.sum(),
            cells.mean(),
            cells.min(),
            cells.max(),
            cells.std(),
            *np.percentile(cells, [25, 50, 75]),
        ]
        names = ("sum", "mean", "min", "max", "std", "p25", "median", "p75")
        assert [row[name] for name in names] == pytest.approx(expected, rel=1e-12, abs=1e-12)
        assert row["slowest"] == f"rank {int(cells.argmax())}"
    assert len(made.table) == sum(any(row) and sum(row) != 0 for row in rows)


def test_ratios_of_what_is_not_above_zero_are_missing() -> None:
    experiment = make([(0, "f"), (0, "g")], {metric("time"): ((-1.0, 2.0), (-3.0, 1.0))}, [(0, 0), (1, 0)])
    for row in experiment.imbalance():
        check(row, {"cv": None, "imbalance": None, "load_balance": None, "percent_imbalance": None, "percent": None})


def test_statistics_of_the_report_are_the_same() -> None:
    found = spread_statistics(np.array([24.0, 26.0, 28.0, 38.0]))
    assert found == pytest.approx(
        {**{name: KERNEL[name] for name in ("min", "mean", "max", "std", "imbalance")}, "none": 0}
    )
    assert math.isnan(spread_statistics(np.zeros(3))["imbalance"])


def test_too_many_cells_for_percentiles_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(imbalances, "MOST_CELLS", 20)
    with pytest.raises(UsageError, match=r"percentiles of 9 rows over 4 ranks need more .* percentiles=False"):
        tree_t().imbalance()
    assert len(tree_t().imbalance(percentiles=False)) == 9
    assert tree_t().imbalance(limit=5)["median"][0] == 27, "only rows that are shown need their values"


# -- flat profiles by entity -------------------------------------------------------------------------------------------


def test_ranks_as_rows_and_as_columns() -> None:
    by_rank = tree_t().top(by="rank")
    assert list(by_rank.names) == ["name", "kind", "file", "line", "module", "exclusive", "inclusive", "percent"]
    assert dict(zip(by_rank["name"], by_rank["exclusive"], strict=True)) == {
        f"rank {k}": x for k, x in enumerate((63, 52, 52, 57))
    }
    assert by_rank["name"] == ["rank 0", "rank 3", "rank 1", "rank 2"]
    assert sum(by_rank["percent"]) == pytest.approx(100)
    kernel = row_of(tree_t().top(columns="rank"), name="kernel")
    assert [kernel[f"rank {rank}"] for rank in range(4)] == [24, 26, 28, 38]


def counts(*numbers: int) -> Experiment:
    """Return one rank for each number, with so many calls."""
    builder = ExperimentBuilder("made-up", path="made-up")
    builder.add_context(-1, ContextKind.FUNCTION, builder.region(ContextKind.FUNCTION, "f"))
    row = builder.add_metric(Metric("calls", Scope.EXCLUSIVE))
    for rank, number in enumerate(numbers):
        profile = builder.add_profile(ProfileKind.THREAD, [(RANK, rank, rank, 0)])
        builder.add_values(profile, [0], row, np.array([number], np.uint64))
    return builder.build()


def test_counts_stay_integers() -> None:
    assert counts(7, 5).top(by="rank")["exclusive"] == [7, 5]
    assert type(counts(7, 5).top(columns="rank")["rank 0"][0]) is int
    assert counts(2**60, 5).top(by="rank")["exclusive"] == [2.0**60, 5.0], "what doubles do not hold exactly stays one"


def test_a_summary_that_profiles_do_not_add_up_to_is_said() -> None:
    kinds = [ProfileKind.SUMMARY, ProfileKind.THREAD]
    experiment = places(kinds, [[], [(RANK, 0, 0, 0)]])  # 1 s in all, of which a rank has 2
    said = "profiles add up to 2, the stored summary says 1"
    assert any(said in note for note in experiment.top(by="rank").notes)
    assert any(said in note for note in experiment.top(columns="rank").notes)
    assert any(said in note for note in experiment.imbalance(over="rank").notes)


def test_profiles_of_no_entity_have_a_row_and_a_column() -> None:
    assert STREAMS.top(by="thread")["name"] == ["(no thread)", "rank 0 thread 0"]
    assert STREAMS.top(columns="thread")["(no thread)"] == [5.0]


def test_what_belongs_to_no_gpu_is_not_called_one_without_a_cost() -> None:
    builder = ExperimentBuilder("made-up")
    builder.add_context(-1, ContextKind.FUNCTION, builder.region(ContextKind.FUNCTION, "main"))
    row = builder.add_metric(metric("time"))
    builder.add_profile(ProfileKind.THREAD, [(RANK, 0, 0, 0), (3, 0, 0, 0)])
    for device in (0, 1):
        stream = builder.add_profile(ProfileKind.GPU_STREAM, [(RANK, 0, 0, 0), (4, device, device, 0)])
        builder.add_values(stream, [0], row, [1.0 - device])
    table = builder.build().top(by="gpu")
    assert table["name"] == ["rank 0 gpu 0"]
    assert table.notes == ("1 gpu without any cost",), "gpu 1; the thread is none"


def test_rows_and_columns_that_cannot_be() -> None:
    cases: tuple[tuple[dict[str, Any], str], ...] = (
        ({"by": "rank", "columns": "thread"}, "rows are a rank each already"),
        ({"by": "rank", "all_metrics": True}, "further metrics are columns of contexts"),
        ({"columns": "core"}, "there is no 'core' to compare"),
        ({"by": "nothing", "columns": "rank"}, "cannot group by 'nothing'"),
    )
    for asked, why in cases:
        with pytest.raises(UsageError, match=why):
            tree_t().top(**asked)


def test_a_run_that_did_not_measure_it_has_no_zero() -> None:
    experiment = make(T_TREE, {metric("time"): T_TIME}, [(0, 0, 0), (1, 0, 0), (0, 0, 1), (1, 0, 1)], n_runs=2)
    from callgrove.model.runs import Unmeasured

    runs = (Unmeasured("run0", frozenset()), Unmeasured("run1", frozenset({"time"})))
    lacking = Encoded(experiment.profiles.run, runs)
    profiles = replace(experiment.profiles, unmeasured=lacking)
    without = replace(experiment, profiles=profiles, values=replace(experiment.values, profiles=profiles))
    table = without.imbalance(over="run")
    check(row_of(table, name="kernel"), {"n": 1, "sum": 50.0})
    assert "left out, as time was not measured there: run 1" in table.notes
    assert set(without.top(columns="run")["run 1"]) == {None}


# -- another tool ------------------------------------------------------------------------------------------------------

HATCHET = """
import json, sys
import hatchet, pandas
tree, rows = json.loads(sys.argv[1])
nodes, above = [], []
for depth, name in tree:
    literal = {"frame": {"name": name}, "metrics": {"time": 0.0}, "children": []}
    above[depth:] = [literal]
    (above[depth - 1]["children"] if depth else nodes).append(literal)
gf = hatchet.GraphFrame.from_literal(nodes)
order = []
def walk(node):
    order.append(node)
    for child in node.children:
        walk(child)
for root in gf.graph.roots:
    walk(root)
key = lambda path: "->".join(path)
def path_of(node):
    return [n.frame["name"] for n in node.paths()[0]] if hasattr(node, "paths") else []
values, stack = {}, []
for (depth, name), row in zip(tree, rows):
    stack[depth:] = [name]
    values[key(stack[:depth + 1])] = row
frame = pandas.DataFrame([{"node": node, "rank": rank, "time": float(value), "name": node.frame["name"]}
    for node in order for rank, value in enumerate(values[key(path_of(node))])]).set_index(["node", "rank"])
made = hatchet.GraphFrame(gf.graph, frame, ["time"], [])
found = made.load_imbalance(metric_column="time", verbose=True)
print(json.dumps({key(path_of(node)): [row["time.imbalance"], *map(float, row["time.percentiles"])]
    for node, row in found.dataframe.iterrows()}))
"""


def test_imbalance_is_that_of_hatchet() -> None:
    """Hatchet divides the largest by the mean, and leaves 1 on; it has no value where the mean is 0."""
    python = ROOT / ".peers" / "hatchet-classic" / "bin" / "python"
    if not python.exists():
        need("peers", "Hatchet is not installed; `make peers` does it")
    asked = json.dumps([T_TREE, T_TIME])
    done = subprocess.run([python, "-c", HATCHET, asked], capture_output=True, text=True, timeout=HANG_SEC, check=False)
    assert done.returncode == 0, done.stderr
    theirs = json.loads(done.stdout.splitlines()[-1])
    ours = {row["path"]: row for row in tree_t().imbalance(by="context")}
    assert theirs.keys() == ours.keys()
    for path, (ratio, *percentiles) in theirs.items():
        assert ours[path]["imbalance"] + 1 == pytest.approx(ratio)
        names = ("min", "p25", "median", "p75", "max")
        assert [ours[path][name] for name in names] == pytest.approx(percentiles)
