"""Derived metrics are treated like measured ones: the same number in views, tables, queries, comparisons, pages and
series, above and below every size at which work is divided; nothing is evaluated that is not shown, and what has no
value is missing everywhere."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import callgrove
from callgrove.algebra.cutting import part
from callgrove.analysis.comparison import Question, compare
from callgrove.analysis.costs import costs
from callgrove.analysis.tables import Selection, export
from callgrove.analysis.views import top, top_down
from callgrove.arrays import Floats, Ints
from callgrove.errors import NotEvaluated, UsageError
from callgrove.examples import example
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.contexts import ContextKind
from callgrove.model.derived import Cells, When
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Aggregation, Metric, Scope
from callgrove.model.profiles import ProfileKind, choose_profiles
from callgrove.model.runs import IntSet, Run
from callgrove.model.study.call_paths import CallPaths
from callgrove.model.study.run_values import Combination
from callgrove.model.table import Table
from callgrove.query.sql import sql
from callgrove.viewer.page import Choice, Detail, Limits, Panel
from callgrove.viewer.profile import profile_maker
from tests.analysis.derivations import KINDS, RATIOS, SUMS, Formula, add_formulas, evaluations, with_every_kind
from tests.exhaustive import try_examples
from tests.formats.cube.raw_cubes import r1
from tests.requirements import need_module

E, I = Scope.EXCLUSIVE, Scope.INCLUSIVE  # noqa: E741
BOTH = {"exclusive": E, "inclusive": I}


def of_r1(folder: Path) -> Experiment:
    opened = callgrove.open(r1().write(folder / "r1.cubex"))
    assert isinstance(opened, Experiment)
    return with_every_kind(opened, "time", "visits")


MADE: dict[str, Callable[[Path], Experiment]] = {
    "database": lambda folder: with_every_kind(example(), "CPUTIME (sec)", "cycles"),
    "cube": of_r1,
}


@pytest.fixture(params=MADE)
def experiment(request: pytest.FixtureRequest, tmp_path: Path) -> Experiment:
    return MADE[request.param](tmp_path)


@pytest.fixture(params=["whole", "divided"])
def sizes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Work in one piece, and in as many as there are profiles."""
    if request.param == "divided":
        for module in ("model.derived", "analysis.value_tables", "model.study.run_values"):
            monkeypatch.setattr(f"callgrove.{module}.MOST_CELLS", 1)
        monkeypatch.setattr("callgrove.analysis.value_tables.CHUNK", 3)
    return str(request.param)


def same(one: Any, other: Any) -> None:
    """NaN is equal to NaN, and None is NaN."""
    mine, theirs = ([np.nan if cell is None else float(cell) for cell in np.asarray(x).ravel()] for x in (one, other))
    np.testing.assert_allclose(np.array(mine), np.array(theirs), rtol=1e-12, atol=1e-300)


def exported(experiment: Experiment, name: str, scope: str, profiles: Ints | None = None) -> Floats:
    """Contexts x profiles, as rows of the exported table; a cell without a row is 0 of what adds up, else missing."""
    is_sum = experiment.metrics.first(name).aggregation == Aggregation.SUM
    out = np.full((len(experiment.contexts), len(experiment.profiles)), 0.0 if is_sum else np.nan)
    for table in export(experiment, "values", Selection(profiles, name, scope)):
        for profile, context, value in zip(*(table[word] for word in ("profile", "context", "value")), strict=True):
            assert value is None or value == value, "missing is an empty cell"
            out[context, profile] = np.nan if value is None else value
    return out


# -- tables, queries and frames ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("scope", BOTH)
@pytest.mark.parametrize("name", KINDS)
def test_exported_cells_are_those_of_the_matrix(experiment: Experiment, sizes: str, name: str, scope: str) -> None:
    measured = experiment.profiles.measured
    cells = exported(experiment, name, scope)
    same(cells[:, measured], experiment.matrix(name, BOTH[scope]))
    if name in SUMS:
        same(cells[:, measured].sum(axis=1), experiment.totals(name, BOTH[scope]))


@pytest.mark.parametrize("name", ["share", "part", "each"])
def test_chosen_profiles_are_all_that_formulas_know(experiment: Experiment, sizes: str, name: str) -> None:
    chosen = choose_profiles(experiment, ranks=IntSet.parse("1"))
    assert chosen is not None
    cells = exported(experiment, name, "inclusive", chosen)
    same(cells[:, chosen], part(experiment, ranks=[1]).matrix(name, I))
    others = np.setdiff1d(np.arange(len(experiment.profiles)), chosen)
    assert not np.nan_to_num(cells[:, others]).any()


@pytest.mark.parametrize("scope", BOTH)
@pytest.mark.parametrize("engine", ["sqlite", "duckdb"])
def test_queries_have_what_is_exported(experiment: Experiment, engine: str, scope: str) -> None:
    need_module("sqlite3" if engine == "sqlite" else "duckdb")
    query = f"SELECT m.name, v.profile, v.context, v.value FROM {scope}_values v JOIN metrics m USING (metric)"
    rows = list(sql(experiment, query, engine).rows())
    for name in KINDS:
        cells = exported(experiment, name, scope)
        mine = [row for row in rows if row[0] == name]
        asked = np.array([[row[2] for row in mine], [row[1] for row in mine]])
        same([row[3] for row in mine], cells[asked[0], asked[1]])
        listed = ~np.isnan(cells) if name in RATIOS else cells != 0
        assert len(mine) == listed.sum()


def test_what_is_stored_has_none_of_them_and_says_so(experiment: Experiment) -> None:
    told: list[str] = []
    rows = [row for table in export(experiment, "values", Selection(tell=told.append)) for row in table]
    derived = {k for k, metric in enumerate(experiment.metrics) if metric.derivation is not None}
    assert rows
    assert not derived & {row["metric"] for row in rows}
    assert [text for text in told if f"{len(derived)} metrics (weighted, ratio, share" in text]
    with pytest.raises(UsageError, match="of which nothing is stored; scope='exclusive' and scope='inclusive'"):
        list(export(experiment, "values", Selection(quantity="ratio")))
    with pytest.raises(UsageError, match="none in scope 'point'"):
        list(export(experiment, "values", Selection(quantity="weighted", scope="point")))


def test_a_formula_that_fails_is_named_and_stops_nothing(experiment: Experiment) -> None:
    told: list[str] = []
    tables = list(export(experiment, "values", Selection(scope="exclusive", tell=told.append)))
    assert sum(map(len, tables)) > 0
    assert len(told) == 1
    assert "broken" in told[0]
    assert "expected a number at character 4" in told[0]
    with pytest.raises(NotEvaluated, match="expected a number at character 4"):
        list(export(experiment, "values", Selection(quantity="broken", scope="exclusive")))


def test_the_table_of_metrics_says_when_they_are_computed(experiment: Experiment) -> None:
    rows = {row["name"]: row for row in experiment.export("metrics")}
    assert rows["ratio"]["derived"] == "postderived"
    assert rows["each_inclusive"]["derived"] == "prederived, inclusive"
    assert rows[experiment.metrics[0].name]["derived"] is None
    assert all(rows[name]["formula"] for name in KINDS)


@pytest.mark.parametrize("wide", [False, True])
def test_frames_have_them_beside_measured_ones(experiment: Experiment, wide: bool) -> None:
    need_module("pandas")
    frame = experiment.to_pandas(wide=wide)
    assert frame.attrs["left_out"] == ["broken"]
    n = experiment.contexts.n_listed
    for name in KINDS:
        matrix = experiment.matrix(name, E)[:n]
        if wide:
            same(frame[name].to_numpy(), matrix)
        else:
            rows = frame[["context", "rank", "thread", name]].to_dict("records")
            ranks, threads = (experiment.profiles.identity_list(word) for word in ("rank", "thread"))
            column = {(ranks[p], threads[p]): k for k, p in enumerate(experiment.profiles.measured.tolist())}
            known = [row for row in rows if row[name] == row[name] and row[name] is not None]
            known = [row for row in known if str(row[name]) != "<NA>"]
            same(
                [row[name] for row in known],
                [matrix[row["context"], column[row["rank"], row["thread"]]] for row in known],
            )
            assert len(known) >= np.count_nonzero(np.nan_to_num(matrix))
    with pytest.raises(NotEvaluated):
        experiment.to_pandas(["broken"])


# -- views and comparisons ---------------------------------------------------------------------------------------------


def by_name(table: Table, key: str, *columns: str) -> dict[str, list[Any]]:
    return {row[key]: [row[column] for column in columns] for row in table}


@pytest.mark.parametrize("scope", BOTH)
@pytest.mark.parametrize("name", KINDS)
def test_a_comparison_with_itself_shows_what_views_show(experiment: Experiment, name: str, scope: str) -> None:
    made = compare([experiment, experiment], Question(name, BOTH[scope], flat=True))
    shown = by_name(top(costs(experiment, name)), "name", scope)
    for row in made.table():
        assert row["left"] == row["right"] == shown[row["path"]][0]
        assert row["difference"] == (None if row["left"] is None else 0)
    same(made.totals, [experiment.root_total(name)] * 2)
    paths = by_name(compare([experiment, experiment], Question(name, BOTH[scope])).table(), "path", "left", "present")
    tree = top_down(costs(experiment, name))
    for row, context in zip(tree, tree["context"], strict=True):
        if row[scope] is not None and row[scope] != 0:
            chain = [row["name"]]
            while (context := int(experiment.contexts.parent[context])) >= 0:
                if not experiment.contexts.folded[context]:
                    chain.insert(0, experiment.contexts.name(context))
            left, present = paths["->".join(chain)]
            assert (left, present) == (pytest.approx(row[scope], rel=1e-12), "both")


def test_a_comparison_computes_formulas_of_each_side(tmp_path: Path) -> None:
    """Of R1: foo has 42 s and 112 visits; of the first rank, 15 s and 36 visits."""
    whole = of_r1(tmp_path)
    one = part(whole, ranks=[0])
    rows = by_name(compare([whole, one], Question("ratio", flat=True)).table(), "path", "left", "right", "difference")
    assert rows["foo"] == pytest.approx([42 / 112, 15 / 36, 42 / 112 - 15 / 36])
    assert rows["MPI_Barrier"] == [2, 2, 0]
    sums = by_name(compare([whole, one], Question("weighted", flat=True)).table(), "path", "left", "right")
    assert sums["foo"] == [2 * 42 + 112, 2 * 15 + 36]


def test_a_value_that_one_side_lacks_has_no_difference(tmp_path: Path) -> None:
    """MPI_Barrier was never visited on the second thread of each rank, where it took 4 s: 4/0 is not a value."""
    whole = of_r1(tmp_path)
    idle = part(whole, threads=[1])
    row = by_name(compare([whole, idle], Question("ratio")).table(), "path", "left", "right", "difference", "ratio")
    assert row["main->MPI_Barrier"] == [2, None, None, None]
    made = compare([whole, idle], Question("each"))
    assert by_name(made.table(), "path", "left", "right", "difference")["main->MPI_Barrier"] == [None, None, None]
    assert np.isnan(made.totals).all()
    with pytest.raises(UsageError, match=r"ratio \(a formula over sums\) and time \(a sum\) cannot be compared"):
        compare([whole, whole], Question("ratio=time"))
    with pytest.raises(UsageError, match="none in scope 'function'"):
        compare([whole, whole], Question("ratio", Scope.FUNCTION))


def test_equal_siblings_are_one_path_and_their_operands_add_up(tmp_path: Path) -> None:
    """bar lies in foo (10 s, 8 visits) and in main (8 s, 4 visits); flat, it is one: 18 s / 12 visits."""
    whole = of_r1(tmp_path)
    flat = by_name(compare([whole, whole], Question("ratio", flat=True)).table(), "path", "left")
    assert flat["bar"] == [18 / 12]
    names = [whole.contexts.name(context) for context in range(whole.contexts.n_listed)]
    assert names[2] == names[4] == "bar"
    tree = by_name(compare([whole, whole], Question("ratio")).table(), "path", "left")
    assert (tree["main->foo->bar"], tree["main->bar"]) == ([10 / 8], [8 / 4])


# -- pages -------------------------------------------------------------------------------------------------------------


def panel_of(experiment: Experiment, kind: str, limits: Limits | None = None, choice: Choice | None = None) -> Panel:
    maker = profile_maker(experiment, choice or Choice(), limits)
    assert maker is not None
    panels = {panel.kind: panel for panel in maker.panels(Detail())}
    assert maker.differences == ()
    return panels[kind]


@pytest.mark.parametrize("ranks", [None, "1"])
def test_pages_have_the_numbers_of_views(experiment: Experiment, sizes: str, ranks: str | None) -> None:
    chosen = None if ranks is None else IntSet.parse(ranks)
    data = panel_of(experiment, "calltree", choice=Choice(ranks=chosen)).data
    names = [metric["name"] for metric in data["metrics"]]
    assert set(KINDS) <= set(names)
    assert "broken" not in names
    labels = data["labels"]["name"].values
    for name in KINDS:
        number, one = names.index(name), costs(experiment, name, chosen)
        table = by_name(top(one), "name", "exclusive", "inclusive")
        flat = data["flat"][0]
        for row, label in enumerate(flat["label"].tolist()):
            shown = [flat[word][number][row] for word in ("exclusive", "inclusive")]
            same(shown, table.get(labels[label], shown if not any(np.nan_to_num(shown)) else None))
        tree = data["tree"]["metrics"][number]
        same(tree["exclusive"], top_exclusive(one)[data["tree"]["context"]])
        assert tree["additive"] == (name in SUMS)
        assert (tree["total"] != tree["total"]) == np.isnan(experiment.root_total(name, one.profiles))
        if name in RATIOS:
            same(tree["inclusive"], one.inclusive[data["tree"]["context"]])
            assert (data["callers"][number], flat["rest"][number]) == (None, None)


def top_exclusive(one: Any) -> Floats:
    """Exclusive costs in the tree without lines, by context."""
    from callgrove.analysis.views import fold_lines

    values: Floats = fold_lines(one).exclusive
    return values


def test_folded_rows_have_the_formula_of_all_that_they_stand_for(tmp_path: Path) -> None:
    whole = of_r1(tmp_path)
    data = panel_of(whole, "calltree", Limits(contexts=2)).data
    names = [metric["name"] for metric in data["metrics"]]
    tree = data["tree"]
    kept = tree["context"].tolist()
    assert kept == [0, 1]
    row = len(kept) + [int(parent) for parent in tree["parent"][2:]].index(1)  # below foo: bar and MPI_Send
    metric = tree["metrics"][names.index("ratio")]
    assert metric["inclusive"][row] == metric["exclusive"][row] == (10 + 26) / (8 + 26)


def test_a_spread_of_a_formula_is_that_of_each_profile(tmp_path: Path, sizes: str) -> None:
    whole = of_r1(tmp_path)
    panel = panel_of(whole, "spread")
    rows = {(row["metric"], row["label"]): row for row in panel.data["rows"]}
    foo = panel.data["labels"]["name"].values.index("foo")
    barrier = panel.data["labels"]["name"].values.index("MPI_Barrier")
    same(rows["ratio", -1]["mean"], [31 / 26, 25 / 32, 39 / 48, 33 / 54])
    same(rows["ratio", foo]["mean"], [6 / 13, 9 / 23, 12 / 33, 15 / 43])
    same(rows["ratio", barrier]["mean"], [1, None, 1, None])
    assert rows["ratio", barrier]["all_none"] == 2
    assert rows["ratio", barrier]["all_max"] == 1
    same(rows["part", -1]["mean"], [31 / 128, 25 / 128, 39 / 128, 33 / 128])
    same(rows["weighted", -1]["mean"], [2 * 31 + 26, 2 * 25 + 32, 2 * 39 + 48, 2 * 33 + 54])


def test_pages_say_which_formulas_cannot_be_evaluated_and_compute_no_more_than_they_show(
    experiment: Experiment,
) -> None:
    panel = panel_of(experiment, "calltree", Limits(metrics=1, derived=0))
    assert len(panel.data["metrics"]) == 1
    assert evaluations(experiment) == {}
    few = panel_of(experiment, "calltree", Limits(metrics=1, derived=1))
    assert [metric["derived"] != "" for metric in few.data["metrics"]] == [False, True]
    assert len(evaluations(experiment)) == 1
    assert any(text.startswith("1 derived metric is not shown") for text in panel.notes)
    with pytest.raises(NotEvaluated):
        profile_maker(experiment, Choice(metric="broken"))
    hot = panel_of(experiment, "hotspots", choice=Choice(metric="ratio"))
    assert hot.data["metrics"][0]["name"] == "ratio"
    assert hot.data["paths"][0] is None


def test_a_formula_of_single_call_paths_stops_no_page(tmp_path: Path) -> None:
    def by_context(cells: Cells) -> Floats:
        if cells.contexts is None:
            raise NotEvaluated("", "postderived", "id * time", "it depends on the call path")
        return (cells.contexts * cells.of("time").T).T

    formula = Formula("id * time", When.AFTER, by_context, ("time",))
    panel = panel_of(add_formulas(of_r1(tmp_path), {"located": formula}), "calltree", Limits(contexts=3))
    names = [metric["name"] for metric in panel.data["metrics"]]
    number, tree = names.index("located"), panel.data["tree"]
    same(tree["metrics"][number]["inclusive"][:3], [c * t for c, t in zip([0, 1, 3], [128, 62, 26], strict=True)])
    assert np.isnan(tree["metrics"][number]["inclusive"][3:]).all()
    assert np.isnan(panel.data["flat"][0]["inclusive"][number]).all()
    assert any(text.startswith("located: a formula of single call paths") for text in panel.notes)


# -- series ------------------------------------------------------------------------------------------------------------


def with_runs(folder: Path) -> Experiment:
    """Each rank of R1 is a run."""
    whole = of_r1(folder)
    ranks = np.array([int(rank or 0) for rank in whole.profiles.identity_list("rank")], np.int32)
    profiles = replace(whole.profiles, run=ranks)
    runs = tuple(Run(f"r{k}", {"p": float(k + 1)}) for k in range(2))
    return replace(whole, profiles=profiles, runs=runs, values=replace(whole.values, profiles=profiles))


@pytest.mark.parametrize("scope", BOTH)
@pytest.mark.parametrize("name", KINDS)
def test_series_are_what_views_of_a_run_show(tmp_path: Path, sizes: str, name: str, scope: str) -> None:
    whole = with_runs(tmp_path)
    study = whole.study([name], BOTH[scope], Combination.SUM)
    assert study.ratios == ((name,) if name in RATIOS else ())
    texts = CallPaths.of(whole.contexts).texts
    for run in range(2):
        expected = whole.totals(name, BOTH[scope], np.flatnonzero(whole.profiles.run == run))
        for context, text in enumerate(texts):
            number = study.find(text, name)
            if number is None:
                assert not np.nan_to_num(expected[context])
            else:
                same(study.mean[number, run], expected[context])
    assert study.unexplained == ()


@pytest.mark.parametrize(
    ("combination", "expected"),
    [
        (Combination.SUM, [11 / 30, 15 / 70]),
        (Combination.EACH, [5 / 10, 6 / 20, 7 / 30, 8 / 40]),
        (Combination.MEAN, [11 / 30, 15 / 70]),
        (Combination.MAXIMUM, [11 / 30, 15 / 70]),
        (Combination.DEVICE, [11 / 30, 15 / 70]),
    ],
)
def test_profiles_of_a_run_are_combined_as_the_study_says(
    tmp_path: Path, sizes: str, combination: Combination, expected: list[float]
) -> None:
    """main -> foo has 5 6 7 8 s and 10 20 30 40 visits on the four threads, two of each run."""
    study = with_runs(tmp_path).study(["ratio"], E, combination)
    values = study.series("main->foo", "ratio").values
    same(np.concatenate(values), expected)


def test_call_paths_without_a_value_have_no_series(tmp_path: Path) -> None:
    whole = with_runs(tmp_path)
    study = whole.study(["ratio"], E, Combination.EACH)
    barrier = study.series("main->MPI_Barrier", "ratio")
    assert [one.tolist() for one in barrier.values] == [[1], [1]]
    idle = part(whole, threads=[1])
    assert idle.study(["ratio"], E, Combination.EACH).find("main->MPI_Barrier", "ratio") is None


def test_studies_evaluate_what_is_named(tmp_path: Path) -> None:
    whole = with_runs(tmp_path)
    study = whole.study()
    assert set(study.metrics) == {"visits", "time", "lo", "hi", "bytes"}
    assert evaluations(whole) == {}
    assert any("8 derived metrics that were not asked for" in warning.text for warning in study.warnings)
    with pytest.raises(NotEvaluated):
        whole.study(["broken"])


def test_what_does_not_add_up_is_not_added_to_a_caller(tmp_path: Path) -> None:
    """foo was visited 30 times in the first run, so that x has no value there."""
    whole = with_runs(tmp_path)
    series = whole.with_metric("x = time / (visits - 30)", "y = 2 * time").series("strong")
    assert {"x", "y"} <= set(series.metrics), "formulas of the user are wanted"
    assert series.ratios == ("x",)
    assert series.find("main->foo", "x") is None
    assert any("1 series lacks points and was left out: main->foo (x)" in one.text for one in series.warnings)
    same(series.mean[series.find("main", "x")], [11 / (1 - 30), 15 / (1 - 30)])
    same(series.mean[series.find("main->foo", "y")], 2 * series.mean[series.find("main->foo", "time")])
    with pytest.raises(UsageError, match="x does not add up: a subtree has no sum"):
        series.predict({"p": 8}, metric="x", subtrees=True)
    with pytest.raises(UsageError, match="x does not add up, so there is no total"):
        series.model("x", times="p")
    shares = series.predict({"p": 8}, metric="x")["share"]
    assert set(shares) == {None}


# -- nothing is evaluated that is not shown ----------------------------------------------------------------------------

UNASKED: dict[str, Callable[[Experiment], object]] = {
    "info": repr,
    "metrics": lambda e: e.export("metrics"),
    "stored": lambda e: e.export("values"),
    "another metric": lambda e: e.export("values", metric=e.metrics[0].name, scope="exclusive"),
    "query of stored values": lambda e: list(sql(e, 'SELECT count(*) FROM "values"').rows()),
    "query of metrics": lambda e: list(sql(e, "SELECT * FROM metrics").rows()),
    "view": lambda e: e.top(e.metrics[0].name),
    "comparison": lambda e: compare([e, e], Question(e.metrics[0].name)).table(),
    "frame": lambda e: e.to_arrow([e.metrics[0].name]),
}


@pytest.mark.parametrize("question", UNASKED)
def test_nothing_is_evaluated_unasked(experiment: Experiment, question: str) -> None:
    UNASKED[question](experiment)
    assert evaluations(experiment) == {}


def test_one_formula_evaluates_what_it_needs_alone(experiment: Experiment) -> None:
    experiment.export("values", metric="twice_ratio", scope="exclusive")
    assert set(evaluations(experiment)) == {"twice_ratio", "ratio"}


# -- any experiment ----------------------------------------------------------------------------------------------------


@st.composite
def counted_calls(draw: Any) -> Experiment:
    """Functions that recur along paths and beside each other, two counters of small numbers, one to three threads."""
    builder = ExperimentBuilder("random")
    regions = {name: builder.region(ContextKind.FUNCTION, name) for name in ("main", "solve", "kernel")}
    n, n_threads = draw(st.integers(1, 12)), draw(st.integers(1, 3))
    for context in range(n):
        parent = draw(st.integers(-1, context - 1)) if context else -1
        builder.add_context(parent, ContextKind.FUNCTION, regions[draw(st.sampled_from(sorted(regions)))])
    builder.add_run(Run("r", {"p": 1.0}))
    for metric, name in enumerate("ab"):
        builder.add_metric(Metric(name, E))
        for thread in range(n_threads):
            if not metric:
                builder.add_profile(ProfileKind.THREAD)
            amounts = draw(st.lists(st.integers(0, 3), min_size=n, max_size=n))
            builder.add_values(thread, np.arange(n), metric, np.array(amounts, np.float64))
    return with_every_kind(builder.build(), "a", "b")


@given(counted_calls())
@try_examples(80)
def test_a_ratio_is_that_of_sums_in_whatever_is_shown(experiment: Experiment) -> None:
    tree, matrices = experiment.contexts, [experiment.matrix(name, E) for name in "ab"]
    sums = [matrix.sum(axis=1) for matrix in matrices]
    names = np.array([tree.name(context) for context in range(len(tree))])

    def ratio(members: Any) -> float | None:
        a, b = (float(one[members].sum()) for one in sums)
        return a / b if b else None

    functions = {str(name): ratio(names == name) for name in names}
    flat = compare([experiment, experiment], Question("ratio", flat=True)).table()
    assert by_name(flat, "path", "left") == {name: [v] for name, v in functions.items() if v is not None}
    shown = by_name(top(costs(experiment, "ratio")), "name", "exclusive")
    assert {name: cells[0] for name, cells in shown.items() if cells[0] is not None} == {
        name: value for name, value in functions.items() if value is not None
    }
    paths = CallPaths.of(tree)
    by_path = {text: ratio(np.flatnonzero(paths.of_context == k)) for k, text in enumerate(paths.texts)}
    compared = by_name(compare([experiment, experiment], Question("ratio")).table(), "path", "left")
    assert compared == {text: [value] for text, value in by_path.items() if value is not None}
    known = {text: value for text, value in by_path.items() if value}
    if known:
        study = experiment.study(["ratio"])
        made = {study.callpaths[c]: float(study.mean[s, 0]) for s, c in enumerate(study.series_callpath.tolist())}
        assert {text: value for text, value in made.items() if value} == known
    cells = exported(experiment, "ratio", "exclusive")
    with np.errstate(all="ignore"):
        same(cells, np.where(matrices[1] == 0, np.nan, matrices[0] / matrices[1]))


@given(counted_calls())
@try_examples(60)
def test_sums_add_up_in_whatever_is_shown(experiment: Experiment) -> None:
    for name in SUMS:
        total, one = experiment.root_total(name), costs(experiment, name)
        if np.isnan(one.exclusive).any():
            continue
        same(exported(experiment, name, "exclusive").sum(), total)
        same(sum(cell for cell in top(one)["exclusive"]), total)
        same(compare([experiment, experiment], Question(name)).values[:, 0].sum(), total)
        if one.exclusive.any():
            study = experiment.study([name])
            same(np.nansum(study.mean), total)
            assert study.unexplained == ()
    maker = profile_maker(experiment, Choice())
    if maker is not None:
        assert list(maker.panels(Detail()))
        assert maker.differences == ()
