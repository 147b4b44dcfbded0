"""Derived metrics of Cube files that cannot be evaluated: kept and listed as formulas, and refused by name where their
values are wanted. Those that can are in `test_cubepl.py`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import callgrove
from callgrove import Scope
from callgrove.algebra.operations import mean
from callgrove.analysis.costs import without_children
from callgrove.cli.main import main
from callgrove.errors import NotEvaluated
from callgrove.model.experiment import Experiment
from callgrove.viewer.page import Choice, Detail
from callgrove.viewer.profile import profile_maker
from tests.cli.commands import Capture, notes, rows, run
from tests.formats.cube.raw_cubes import R1_TIME, R1_TIME_INCLUSIVE, R1_TREE, R1_VISITS, Cube, RawMetric

DERIVED = {  # name: type, a formula that cannot be evaluated
    "half": ("PREDERIVED_EXCLUSIVE", "metric::time(e) / round(2)"),
    "twice": ("PREDERIVED_INCLUSIVE", "2 * metric::time(i) +"),
    "ratio": ("POSTDERIVED", "metric::time() % metric::visits()"),
}


def derived(name: str) -> RawMetric:
    kind, formula = DERIVED[name]
    return RawMetric(name, kind, inside=f"<cubepl>{formula}</cubepl>")


def with_derived(path: Path) -> Path:
    """The derived metrics come first, and one lies below a stored one: none of them may be taken for a default."""
    time = RawMetric("time", "INCLUSIVE", rows=R1_TIME_INCLUSIVE, below=[derived("half"), derived("ratio")])
    visits = RawMetric("visits", dtype="UINT64", rows=R1_VISITS, uom="occ")
    return Cube(R1_TREE, [derived("twice"), time, visits]).write(path)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return with_derived(tmp_path / "derived.cubex")


@pytest.fixture
def copy(path: Path, capsys: Capture, request: pytest.FixtureRequest) -> Path:
    """What a format makes of it that keeps formulas."""
    out = path.with_name(f"copy.{request.param}")
    assert "lost" not in notes(capsys, "convert", path, out)
    return out


def refusal(capsys: Capture, *words: object) -> str:
    """The last sentence of a command that fails; notes on the input stand before it."""
    capsys.readouterr()
    assert main([str(word) for word in words]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    return err.splitlines()[-1].removeprefix("callgrove: ")


ASKED: dict[str, Callable[[Experiment, str, int], object]] = {
    "root_total": lambda e, name, row: e.root_total(name),
    "totals": lambda e, name, row: e.totals(name, Scope.EXCLUSIVE),
    "inclusive totals": lambda e, name, row: e.totals(name, Scope.INCLUSIVE),
    "matrix": lambda e, name, row: e.matrix(name, Scope.INCLUSIVE),
    "values.metric": lambda e, name, row: e.values.metric(row),
    "values.totals": lambda e, name, row: e.values.totals(row),
    "values.dense": lambda e, name, row: e.values.dense(0, row),
}


@pytest.mark.parametrize("name", DERIVED)
@pytest.mark.parametrize("question", ASKED)
def test_the_library_refuses_their_values(question: str, name: str, path: Path) -> None:
    experiment = callgrove.open(path)
    assert isinstance(experiment, Experiment)
    kind = {"half": "prederived, exclusive", "twice": "prederived, inclusive", "ratio": "postderived"}[name]
    row = experiment.metrics.quantities.index(name)
    with pytest.raises(NotEvaluated) as error:
        ASKED[question](experiment, name, row)
    assert (error.value.metric, error.value.kind, error.value.formula) == (name, kind, DERIVED[name][1])
    assert all(word in str(error.value) for word in (name, kind, DERIVED[name][1]))


def test_the_beginning_of_a_long_formula_is_shown(tmp_path: Path) -> None:
    long = RawMetric("long", "POSTDERIVED", inside=f"<cubepl>\n  {' + '.join(['metric::time()'] * 50)} +\n</cubepl>")
    experiment = callgrove.open(Cube(R1_TREE, [long]).write(tmp_path / "long.cubex"))
    assert isinstance(experiment, Experiment)
    with pytest.raises(NotEvaluated, match=r"metric::time\(\) \+ metric::time.* \.\.\.$") as error:
        experiment.root_total("long")
    assert len(str(error.value)) < 250
    with pytest.raises(NotEvaluated):
        _ = experiment.default_metric


def test_no_view_shows_one_unasked(path: Path) -> None:
    experiment = callgrove.open(path)
    assert isinstance(experiment, Experiment)
    assert experiment.metrics.derived == ("twice", "half", "ratio")
    assert experiment.metrics.shown == ("time", "visits")
    assert experiment.default_metric == "time"


@pytest.mark.parametrize("name", DERIVED)
@pytest.mark.parametrize("verb", ["top", "tree", "hot", "diff", "export", "report"])
def test_verbs_refuse_them_by_name(verb: str, name: str, path: Path, capsys: Capture, tmp_path: Path) -> None:
    more: dict[str, list[object]] = {
        "diff": [path],
        "export": ["--table", "values"],
        "report": ["-o", tmp_path / "out.html"],
    }
    assert refusal(capsys, verb, path, *more.get(verb, []), "-m", name).startswith(f"{name} is a derived metric (")
    assert not (tmp_path / "out.html").exists()


@pytest.mark.parametrize("scope", ["stored", "exclusive", "inclusive"])
def test_tables_of_values_say_that_they_lack_them(scope: str, path: Path, capsys: Capture) -> None:
    listed = {m["metric"]: (m["name"], m["formula"]) for m in rows(capsys, "export", path, "--table", "metrics")}
    assert {name: formula for name, formula in listed.values() if formula} == {n: f for n, (_, f) in DERIVED.items()}
    export = ("export", path, "--table", "values", "--scope", scope)
    asked = ("sql", path, f"SELECT DISTINCT metric FROM {scope}_values")
    for words in (export, asked):
        assert {listed[row["metric"]][0] for row in rows(capsys, *words)} == {"time", "visits"}
        assert "3 metrics (twice, half, ratio): they are derived" in notes(capsys, *words)


def test_all_metrics_marks_them(path: Path, capsys: Capture) -> None:
    words = ("top", path, "--all-metrics", "--limit", "1")
    (found,) = rows(capsys, *words)
    assert {"time (E)", "visits (E)"} <= set(found)
    assert not [name for name in found if name.split()[0] in DERIVED]
    said_so = "not computed: 3 metrics have a formula that is not evaluated: twice, half, ratio"
    assert said_so in notes(capsys, *words)


def test_a_page_says_that_they_are_not_shown(path: Path) -> None:
    maker = profile_maker(callgrove.open(path), Choice())
    assert maker is not None
    assert "3 derived metrics are not shown" in " ".join(next(iter(maker.panels(Detail()))).notes)


@pytest.mark.parametrize("copy", ["cubex", "cgrove"], indirect=True)
def test_formats_that_hold_formulas_keep_them(copy: Path, capsys: Capture) -> None:
    again = callgrove.open(copy)
    assert isinstance(again, Experiment)
    assert {m.name: m.formula for m in again.metrics if m.formula} == {n: f for n, (_, f) in DERIVED.items()}
    assert refusal(capsys, "top", copy, "-m", "half").startswith("half is a derived metric")
    assert again.root_total("time") == sum(map(sum, R1_TIME.values()))


@pytest.mark.parametrize("target", ["hpctoolkit-release", "hpctoolkit-prerelease"])
def test_other_formats_leave_them_out_and_say_so(target: str, path: Path, capsys: Capture, tmp_path: Path) -> None:
    err = notes(capsys, "convert", path, tmp_path / "out.d", "--to", target)
    assert "lost: 3 derived metrics twice, half, ratio: left out" in err
    again = callgrove.open(tmp_path / "out.d")
    assert isinstance(again, Experiment)
    assert not set(again.metrics.quantities) & set(DERIVED)


def test_the_algebra_copies_formulas_that_agree(path: Path, tmp_path: Path) -> None:
    one = callgrove.open(path)
    measured = Cube(R1_TREE, [RawMetric("time", rows=R1_TIME), RawMetric("half", rows=R1_TIME)])
    other = callgrove.open(measured.write(tmp_path / "other.cubex"))
    assert isinstance(one, Experiment)
    assert isinstance(other, Experiment)
    same = mean(one, one)
    assert same.metrics.derived == ("twice", "half", "ratio")
    with pytest.raises(NotEvaluated):
        same.root_total("half")
    mixed = mean(other, one)
    assert "half" not in mixed.metrics.quantities
    assert any("half: is derived in one input and measured in another" in w.text for w in mixed.warnings)


def test_a_run_that_derives_what_another_measured(path: Path, tmp_path: Path) -> None:
    """Series of such a metric would have holes that look like measured zeros."""
    for number, make in ((4, None), (8, with_derived)):
        folder = tmp_path / "runs" / f"app.p{number}.r1"
        folder.mkdir(parents=True)
        if make is None:
            time = RawMetric("time", "INCLUSIVE", rows=R1_TIME_INCLUSIVE)
            Cube(R1_TREE, [time, RawMetric("half", rows=R1_TIME)]).write(folder / "profile.cubex")
        else:
            make(folder / "profile.cubex")
    runs = callgrove.open(tmp_path / "runs")
    assert isinstance(runs, Experiment)
    with pytest.raises(NotEvaluated):
        runs.totals("half", Scope.EXCLUSIVE)
    study = runs.study()
    assert set(study.metrics) == {"time", "visits"}
    assert any("3 derived metrics" in w.text for w in study.warnings)
    with pytest.raises(NotEvaluated):
        runs.study(["half"])


def test_metrics_around_derived_ones(path: Path) -> None:
    """A metric contains its children: less those whose values nobody knows, it is unknown."""
    experiment = callgrove.open(path)
    assert isinstance(experiment, Experiment)
    np.testing.assert_array_equal(experiment.totals("time", Scope.EXCLUSIVE), [sum(row) for row in R1_TIME.values()])
    with pytest.raises(NotEvaluated, match="half"):
        without_children(experiment, "time", Scope.EXCLUSIVE)
    np.testing.assert_array_equal(
        without_children(experiment, "visits", Scope.EXCLUSIVE), [sum(row) for row in R1_VISITS.values()]
    )


def test_a_stored_metric_with_a_formula_beside_it_has_values(tmp_path: Path, capsys: Capture) -> None:
    both = RawMetric("time", rows=R1_TIME, inside="<cubepl>1 + 2</cubepl>")
    path = Cube(R1_TREE, [both]).write(tmp_path / "both.cubex")
    run(capsys, "convert", path, tmp_path / "again.cubex")
    for one in (path, tmp_path / "again.cubex"):
        experiment = callgrove.open(one)
        assert isinstance(experiment, Experiment)
        assert experiment.root_total("time") == sum(map(sum, R1_TIME.values()))
    assert b"<cubepl>1 + 2</cubepl>" in (tmp_path / "again.cubex").read_bytes()


def test_a_derived_metric_without_a_formula_is_damage(tmp_path: Path, capsys: Capture) -> None:
    metrics = [RawMetric("time", rows=R1_TIME), RawMetric("nothing", "PREDERIVED_EXCLUSIVE")]
    path = Cube(R1_TREE, metrics).write(tmp_path / "nothing.cubex")
    experiment = callgrove.open(path)
    assert isinstance(experiment, Experiment)
    assert any("nothing is PREDERIVED_EXCLUSIVE and has no formula" in w.text for w in experiment.damage)
    run(capsys, "top", path, "-m", "nothing", code=2)


# -- composite metrics in a scope that they are not stored in ----------------------------------------------------------

ATOMIC = {0: [(1, 5.0, 5.0, 5.0, 25.0)] * 4, 1: [(2, 1.0, 2.0, 3.0, 5.0)] * 4}  # n, min, max, sum, sum of squares
RANGES = {0: [(0.0, 9.0, 1.0, 2.0, 3.0)] * 4, 1: [(0.0, 8.0, 1.0, 1.0, 1.0)] * 4}  # these cannot be added up


def with_composites(path: Path, kind: str) -> Path:
    metrics = [
        RawMetric("time", kind, rows={0: (9,) * 4, 1: (1,) * 4}),
        RawMetric("atomic", kind, "TAU_ATOMIC", ATOMIC),
        RawMetric("ranges", kind, "HISTOGRAM(3)", RANGES),
    ]
    return Cube([(0, "main", [(1, "f", [])])], metrics).write(path)


@pytest.mark.parametrize(
    ("kind", "scope", "there", "message"),
    [
        ("EXCLUSIVE", "exclusive", {"time", "atomic", "ranges"}, ""),
        ("EXCLUSIVE", "inclusive", {"time", "atomic"}, "left out: ranges (HISTOGRAM(3)): "),
        ("INCLUSIVE", "inclusive", {"time", "atomic", "ranges"}, ""),
        ("INCLUSIVE", "exclusive", {"time"}, "left out: 2 metrics (atomic, ranges): they are composite"),
    ],
)
def test_composite_metrics_are_given_or_said_to_be_left_out(
    kind: str, scope: str, there: set[str], message: str, tmp_path: Path, capsys: Capture
) -> None:
    path = with_composites(tmp_path / "composite.cubex", kind)
    names = [m["name"] for m in rows(capsys, "export", path, "--table", "metrics")]
    export = ("export", path, "--table", "values", "--scope", scope)
    asked = ("sql", path, f"SELECT DISTINCT metric FROM {scope}_values")
    for words in (export, asked):
        assert {names[row["metric"]] for row in rows(capsys, *words)} == there
        err = notes(capsys, *words)
        assert message in err
        assert message or "left out" not in err
    if "atomic" in there and kind != scope.upper():
        at_root = [r for r in rows(capsys, *export, "-m", "atomic") if r["context"] == 0]
        assert [r["value"] for r in at_root] == [5.0 + 3.0] * 4


def test_a_composite_metric_that_is_asked_for_is_refused(tmp_path: Path, capsys: Capture) -> None:
    path = with_composites(tmp_path / "composite.cubex", "EXCLUSIVE")
    run(capsys, "export", path, "--table", "values", "--scope", "inclusive", "-m", "ranges", code=2)
