"""`--derive` and `-m NAME=FORMULA`: what views print of R1 (cube.md, appendix A) and of a database of HPCToolkit."""

from __future__ import annotations

import csv
import io
import math
from pathlib import Path

import numpy as np
import pytest

import callgrove
from callgrove.cli.main import main
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.contexts import ContextKind
from callgrove.model.metrics import Metric, Scope
from callgrove.model.profiles import ProfileKind
from tests.cli.commands import Capture, notes, rows, run, said
from tests.formats.hpctoolkit.databases import corpus
from tests.formats.written import read
from tests.model.references import r1

TPV = "tpv = time / visits"
EACH = "x = each(time / visits)"


@pytest.fixture(scope="module")
def cube(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("r1") / "r1.cubex"
    callgrove.write(r1(), path)
    return path


# -- the metric that is shown ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [("--derive", TPV, "-m", "tpv"), ("-m", TPV), ("-m", "tpv=time/visits")])
def test_a_ratio_is_computed_for_each_row(options: tuple[str, ...], cube: Path, capsys: Capture) -> None:
    """Of the sums of a function, and of its outermost calls; the largest comes first."""
    table = rows(capsys, "top", cube, *options)
    assert [row["name"] for row in table] == ["main", "MPI_Barrier", "bar", "MPI_Send", "foo"]
    foo = table[-1]
    assert (foo["exclusive"], foo["inclusive"]) == (42 / 112, 78 / 146)
    assert {row["percent"] for row in table} == {None}


def test_a_ratio_of_some_profiles(cube: Path, capsys: Capture) -> None:
    (foo,) = [row for row in rows(capsys, "top", cube, "-m", TPV, "--rank", "0") if row["name"] == "foo"]
    assert (foo["exclusive"], foo["inclusive"]) == (15 / 36, 33 / 51)
    imbalance = "i = profiles.max(time) / profiles.mean(time)"
    (foo,) = [row for row in rows(capsys, "top", cube, "-m", imbalance, "--rank", "0") if row["name"] == "foo"]
    assert foo["exclusive"] == 9 / 7.5


def test_what_is_linear_has_shares(cube: Path, capsys: Capture) -> None:
    plain, twice = (rows(capsys, "top", cube, "-m", metric) for metric in ("time", "t = 3 * time - time"))
    for one, two in zip(plain, twice, strict=True):
        assert two == {**one, "exclusive": 2 * one["exclusive"], "inclusive": 2 * one["inclusive"]}


def test_a_tree_shows_what_is_above_a_ratio(cube: Path, capsys: Capture) -> None:
    """Only bar, which main calls 4 times, has a value; main has 2 visits, and all others more than 7."""
    table = rows(capsys, "tree", cube, "-m", "x = sqrt(7 - excl(visits)) / (excl(visits) - 2)")
    cells = [(row["depth"], row["name"], row["exclusive"], row["inclusive"]) for row in table]
    assert cells == [(0, "main", None, None), (1, "bar", math.sqrt(3) / 2, math.sqrt(3) / 2)]


def test_missing_values_are_a_dash_an_empty_cell_and_null(cube: Path, capsys: Capture, tmp_path: Path) -> None:
    command = ("tree", cube, "-m", EACH)
    table = rows(capsys, *command)
    assert {row["name"] for row in table if row["exclusive"] is None} == {"main", "MPI_Barrier"}
    assert {row["percent"] for row in table} == {None}
    lines = list(csv.DictReader(io.StringIO(run(capsys, *command, "--format", "csv"))))
    assert (lines[0]["name"], lines[0]["exclusive"], lines[0]["inclusive"], lines[0]["percent"]) == ("main", "", "", "")
    run(capsys, *command, "-o", tmp_path / "tree.txt")
    first = (tmp_path / "tree.txt").read_text("utf-8").splitlines()[2]
    assert first.split() == ["main", "–", "–"]  # noqa: RUF001 - a dash
    assert "x: no total, as values are missing" in notes(capsys, *command)


def test_missing_values_come_last(cube: Path, capsys: Capture) -> None:
    assert [row["name"] for row in rows(capsys, "top", cube, "-m", EACH)][-2:] == ["main", "MPI_Barrier"]
    callers = rows(capsys, "tree", cube, "--bottom-up", "-m", EACH)
    assert [row["name"] for row in callers if row["depth"] == 0][-2:] == ["main", "MPI_Barrier"]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            ("hot", "-m", TPV),
            "tpv is computed from sums and does not add up itself: no call has a share of it to follow",
        ),
        (("hot", "-m", EACH), "x has no value in some contexts: nobody knows where most of it is"),
        (
            ("tree", "--bottom-up", "-m", TPV),
            "tpv is computed from sums and does not add up itself: it cannot be divided among callers",
        ),
        (
            ("tree", "--bottom-up", "--derive", TPV),
            "--derive adds columns of contexts, which the rows of --bottom-up are not; choose the metric with -m",
        ),
        (
            ("top", "-m", "x = time +"),
            "-m: expected a number, a metric, a function or '(' at character 11 of 'x = time +'",
        ),
        (
            ("top", "--derive", "x = time / vists"),
            "--derive: there is no metric 'vists' at character 12 of 'x = time / vists'; did you mean 'visits'?",
        ),
        (
            ("top", "--derive", "x = y", "--derive", "y = x"),
            "--derive: 'y' at character 5 of 'x = y' is defined only later; a formula can use metrics that come before "
            "it",
        ),
    ],
)
def test_what_cannot_be_shown_is_refused(words: tuple[str, ...], sentence: str, cube: Path, capsys: Capture) -> None:
    assert said(capsys, words[0], cube, *words[1:], code=2) == sentence


@pytest.mark.parametrize("formula", ["r = visits / time", "r = lo / hi"])
@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5])
def test_a_limited_tree_of_a_ratio_grows_from_the_root(limit: int, formula: str, cube: Path, capsys: Capture) -> None:
    """Rows are those with most of what it is computed from, or of the default metric; a reader is told."""
    table = rows(capsys, "tree", cube, "-m", formula, "--limit", limit)
    assert (len(table), table[0]["name"]) == (limit, "main")
    guide = "visits" if "visits" in formula else "time"
    told = f"rows are those with the most {guide}, as r does not add up"
    assert told in notes(capsys, "tree", cube, "-m", formula, "--limit", limit)
    assert told not in notes(capsys, "tree", cube, "-m", formula, "--limit", "all")


@pytest.mark.parametrize("limit", [1, 2])
def test_a_limited_tree_of_a_minimum_grows_from_the_root(limit: int, cube: Path, capsys: Capture) -> None:
    """The largest minimum lies deep: what is above it is shown as far as the limit reaches."""
    table = rows(capsys, "tree", cube, "-m", "lo", "--limit", limit)
    assert [row["depth"] for row in table] == list(range(limit))


@pytest.mark.parametrize(
    "formula", ["x = exp(1000 * visits)", "x = 1e308 * time * 1e308", "x = each(exp(800 + 0*time))"]
)
def test_results_beyond_the_range_of_a_double_are_missing(formula: str, cube: Path, capsys: Capture) -> None:
    """In every format: an infinite number is none."""
    for words in (("top",), ("tree",), ("top", "--derive", "y = 2 * time", "-m", "y")):
        option = "--derive" if len(words) > 1 else "-m"
        for form in ("table", "csv", "json"):
            printed = run(capsys, words[0], cube, option, formula, *words[1:], "--format", form).lower()
            assert "inf" not in printed.replace("inclusive", "")
    opened = read(cube).with_metric(formula)
    for scope in (Scope.EXCLUSIVE, Scope.INCLUSIVE):
        assert not np.isinf(opened.totals("x", scope)).any()
        assert not np.isinf(opened.matrix("x", scope)).any()


def test_a_sum_beyond_the_range_of_a_double_is_missing(cube: Path, capsys: Capture) -> None:
    """Each part is a number, 26 of them are none."""
    formula = "x = 2e307 * time"
    assert "x: no total, as values are missing" in notes(capsys, "top", cube, "-m", formula)
    values = [row[column] for row in rows(capsys, "top", cube, "-m", formula) for column in ("exclusive", "inclusive")]
    assert None in values
    assert all(value is None or math.isfinite(value) for value in values)
    assert np.isnan(read(cube).with_metric(formula).root_total("x"))


@pytest.mark.parametrize("verb", ["top", "tree"])
@pytest.mark.parametrize("form", ["table", "csv"])
def test_a_view_without_any_value_says_so(verb: str, form: str, cube: Path, capsys: Capture) -> None:
    assert "no row has a value of x\n" in notes(capsys, verb, cube, "-m", "x = visits / 0", "--format", form)


# -- further columns ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("verb", "foo"), [("top", 42 / 112), ("tree", 62 / 134), ("hot", None)], ids=["exclusive", "inclusive", "no foo"]
)
def test_further_metrics_are_columns_in_the_scope_of_percent(
    verb: str, foo: float | None, cube: Path, capsys: Capture
) -> None:
    table = rows(capsys, verb, cube, "--derive", TPV, "--derive", "t = 2 * time", "-m", "time")
    named = {row["name"]: row for row in reversed(table)}
    assert list(table[0])[-2:] == ["tpv", "t"]
    if foo is not None:
        assert named["foo"]["tpv"] == foo
    assert all(row["t"] == 2 * row["exclusive" if verb == "top" else "inclusive"] for row in table)


def test_headings_have_units_and_cells_of_people_a_dash(cube: Path, capsys: Capture) -> None:
    text = run(capsys, "tree", cube, "--derive", EACH, "--derive", "`a b` [%] = 100 * time / total(time)")
    head, _, main_row, *_ = text.splitlines()
    assert "x [sec/occ]  a b [%]" in head
    assert main_row.split()[-2:] in (["–", "100"], ["-", "100"])  # noqa: RUF001 - a dash


def test_a_metric_may_be_called_as_another_column(cube: Path, capsys: Capture) -> None:
    derived = [word for name in ("share", "name", "exclusive") for word in ("--derive", f"{name} = time / visits")]
    assert list(rows(capsys, "top", cube, *derived)[0])[-3:] == [
        "share (metric)",
        "name (metric)",
        "exclusive (metric)",
    ]
    assert "share (metric) [sec/occ]" in run(capsys, "top", cube, *derived)


def test_all_metrics_have_both_scopes_of_derived_ones(cube: Path, capsys: Capture) -> None:
    table = rows(capsys, "top", cube, "--all-metrics", "--derive", TPV)
    foo = table[0]
    assert (foo["tpv (I)"], foo["tpv (E)"]) == (78 / 146, 42 / 112)
    assert "tpv" not in foo


def test_columns_of_a_profiler_stay_beside_derived_ones(capsys: Capture) -> None:
    """A stored column, a formula over the same metric, and what the tree says of it are one number."""
    path = corpus("release")
    table = rows(capsys, "tree", path, "--all-metrics", "--derive", "t = CPUTIME", "--limit", "all")
    (name,) = [name for name in table[0] if name.endswith(":Sum (I)") and name.startswith("CPUTIME")]
    assert len(table) > 5
    assert all(row["t"] == pytest.approx(row["inclusive"]) for row in table)
    assert all((row[name] or 0) == pytest.approx(row["t"]) for row in table)


@pytest.mark.parametrize("generation", ["release", "prerelease"])
@pytest.mark.parametrize("verb", ["top", "tree"])
def test_one_times_a_metric_is_the_metric(generation: str, verb: str, capsys: Capture) -> None:
    """Exclusive costs come from another scope, and sums over all threads from a stored summary."""
    for options in ((), ("--rank", "0-1")):
        command = (verb, corpus(generation, "mpi4.d"), "--limit", "all", *options)
        plain, once, each = (
            rows(capsys, *command, *more) for more in ((), ("-m", "x = 1 * CPUTIME"), ("-m", "x = each(CPUTIME)"))
        )
        assert len(plain) > 5
        assert once == plain
        for one, other in zip(plain, each, strict=True):
            assert other == {
                **one,
                **{name: pytest.approx(one[name]) for name in ("exclusive", "inclusive", "percent")},
            }


# -- every verb --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "verb", ["top", "tree", "hot", "diff", "export", "report", "convert", "model", "predict", "sql"]
)
def test_verbs_that_take_a_metric_take_formulas(verb: str, cube: Path, capsys: Capture, tmp_path: Path) -> None:
    """A wrong formula is found before anything is computed."""
    more: dict[str, list[object]] = {
        "diff": [cube],
        "export": ["--table", "values"],
        "report": ["-o", tmp_path / "r.html"],
        "convert": [tmp_path / "out.cubex"],
        "predict": ["--at", "p=4"],
        "sql": ["SELECT 1"],
    }
    words = [verb, cube, *more.get(verb, [])]
    assert said(capsys, *words, "--derive", "x = 1 +", code=2).startswith("--derive: expected a number")
    if verb != "sql":
        assert said(capsys, *words, "-m", "x = 1 +", code=2).startswith("-m: expected a number")
    assert not (tmp_path / "out.cubex").exists()


def test_differences_of_what_is_computed_in_each_profile(cube: Path, capsys: Capture) -> None:
    table = rows(capsys, "diff", cube, cube, "-m", "x = each(max(time, 6))")
    assert {row["difference"] for row in table} == {0.0}
    assert sum(row["left"] for row in table) == 185.0


@pytest.mark.parametrize("text", ["time=time", "tim = time", "time = tim"])
def test_two_names_are_no_formula(text: str, cube: Path, capsys: Capture) -> None:
    """LEFT=RIGHT names a metric of each side of a comparison."""
    assert {row["ratio"] for row in rows(capsys, "diff", cube, cube, "-m", text)} == {1.0}


def test_a_right_side_that_computes_is_a_formula(cube: Path, capsys: Capture) -> None:
    """Also where the left side is a metric, which cannot be defined anew; unless it names what is not here."""
    sentence = "-m: 'time' at character 1 of 'time=visits*1' is measured already"
    assert said(capsys, "diff", cube, cube, "-m", "time=visits*1", code=2) == sentence
    assert "there is no metric 'ld/st'" in said(capsys, "diff", cube, cube, "-m", "time=ld/st", code=2)


def test_differences_show_what_was_derived(cube: Path, capsys: Capture) -> None:
    """A table compares one metric; another one that nothing in it needs would be dropped in silence."""
    sentence = "--derive: r is not in this table, which compares time; choose it with -m"
    assert said(capsys, "diff", cube, cube, "-m", "time", "--derive", "r = time / visits", code=2) == sentence
    shown = rows(capsys, "diff", cube, cube, "--derive", "r = time / visits", "-m", "y = 2 * r")
    assert shown == rows(capsys, "diff", cube, cube, "-m", "y = 2 * time / visits")


def test_a_metric_that_is_called_so_is_meant(capsys: Capture, tmp_path: Path) -> None:
    builder = ExperimentBuilder("equal")
    builder.add_context(-1, ContextKind.FUNCTION, builder.region(ContextKind.FUNCTION, "main"))
    builder.add_metric(Metric("a = b", Scope.EXCLUSIVE))
    builder.add_metric(Metric("b", Scope.EXCLUSIVE))
    builder.add_profile(ProfileKind.THREAD)
    builder.add_values(0, 0, np.array([0, 1]), np.array([1.0, 2.0]))
    path = tmp_path / "equal"
    callgrove.write(builder.build(), path, "callgrove")
    assert rows(capsys, "top", path, "-m", "a = b")[0]["exclusive"] == 1.0
    assert rows(capsys, "top", path, "-m", "c = b")[0]["exclusive"] == 2.0
    assert rows(capsys, "top", path, "-m", "c = `a = b` + b")[0]["exclusive"] == 3.0


def test_series_have_no_metrics_of_runs(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "series.txt"
    path.write_text("PARAMETER p\nPOINTS 1 2 3 4 5\nREGION main\nMETRIC time\n" + "DATA 1\n" * 5)
    assert "formulas need the metrics of runs" in said(capsys, "model", path, "--derive", "x = time", code=2)
    assert "-m: is a study of series; formulas need" in said(capsys, "model", path, "-m", "x = time / 2", code=2)
    assert main(["model", str(path), "-m", "time"]) == 0
