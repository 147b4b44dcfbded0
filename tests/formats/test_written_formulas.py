"""Derived metrics in every target: as formulas where it holds them, as values where these add up, else named as lost.

The numbers are those of R1 in cube.md and analysis.md 3.2.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import callgrove
from callgrove import Scope
from callgrove.arrays import Array
from callgrove.errors import CorruptFile, NotEvaluated
from callgrove.formats.cube.formula_writer import write_cubepl
from callgrove.formats.hpctoolkit.column_formulas import derive_from_columns, formula_columns
from callgrove.formats.interface import LossReport
from callgrove.model.cubepl import Definition, compile_metrics
from callgrove.model.definitions import UserFormula, define, read_formula
from callgrove.model.derived import TotalCells, When
from callgrove.model.experiment import Experiment, replace_metrics
from callgrove.model.formulas import render
from callgrove.model.metrics import Metric, Metrics
from callgrove.model.profiles import ProfileKind
from tests.cli.commands import Capture, notes, rows
from tests.exhaustive import try_examples
from tests.formats.cube.raw_cubes import R1_TIME, R1_TIME_INCLUSIVE, R1_TREE, R1_VISITS, Cube, RawMetric
from tests.formats.hpctoolkit.databases import corpus
from tests.formats.written import read, write
from tests.requirements import need_module

FORMULA, VALUES, LOST = "formula", "values", "lost"
DEFINITIONS = {  # and what becomes of each as a Cube file, and as a database of HPCToolkit
    "sum": ("sum [s] = 2 * time - time / 4", FORMULA, FORMULA),
    "ratio": ("ratio = time / visits", FORMULA, FORMULA),
    "per": ("per = each(time / visits)", FORMULA, VALUES),
    "per_incl": ("per_incl = each_incl(time / visits)", FORMULA, VALUES),
    "fixed": ("fixed = excl(time) / incl(visits)", FORMULA, FORMULA),
    "spread": ("spread = hi - lo", FORMULA, LOST),
    "chain": ("chain = (ratio * visits + 2 * sum) ^ 2 / time", FORMULA, FORMULA),
    "odd": (
        "odd = log(visits, 2) + ln(visits) + max(visits, 3, 7) / visits + abs(-visits) * exp(1e-3) / visits",
        FORMULA,
        FORMULA,
    ),
    "share": ("share = 100 * time / total(time)", LOST, LOST),
    "share_each": ("share_each = each(time / total(time))", VALUES, VALUES),
    "worst": ("worst = profiles.max(time)", LOST, LOST),
    "of_values": ("of_values = per / time", FORMULA, FORMULA),
    "of_lost": ("of_lost = share * 2 - 1", LOST, LOST),
}
TARGETS = {"cube": 1, "callgrove": 0, "hpctoolkit-release": 2, "hpctoolkit-prerelease": 2}


def r1(path: Path) -> Experiment:
    lo = {cnode: [0.5 * number for number in row] for cnode, row in R1_TIME.items()}
    hi = {cnode: [2.0 * number for number in row] for cnode, row in R1_TIME.items()}
    metrics = [
        RawMetric("time", "EXCLUSIVE", rows=R1_TIME),
        RawMetric("visits", dtype="UINT64", rows=R1_VISITS, uom="occ"),
        RawMetric("lo", dtype="MINDOUBLE", rows=lo),
        RawMetric("hi", dtype="MAXDOUBLE", rows=hi),
    ]
    return read(Cube(R1_TREE, metrics).write(path))


@pytest.fixture
def defined(tmp_path: Path) -> Experiment:
    return r1(tmp_path / "r1.cubex").with_metric(*(text for text, *_ in DEFINITIONS.values()))


def expected(target: str, name: str) -> str:
    return FORMULA if target == "callgrove" else DEFINITIONS[name][TARGETS[target]]


def state(experiment: Experiment, name: str) -> str:
    if name not in experiment.metrics.quantities:
        return LOST
    return FORMULA if name in experiment.metrics.derived else VALUES


def same_contexts(values: Array, like: Array) -> Array:
    """Databases of HPCToolkit have one more root."""
    return values[len(values) - len(like) :]


@pytest.mark.parametrize("target", TARGETS)
def test_every_kind_gives_the_same_numbers(target: str, defined: Experiment, tmp_path: Path) -> None:
    report = write(defined, tmp_path / "out", target)
    again = read(tmp_path / "out")
    assert {name: state(again, name) for name in DEFINITIONS} == {name: expected(target, name) for name in DEFINITIONS}
    assert report.unexplained == []
    for name in (name for name in DEFINITIONS if state(again, name) != LOST):
        for scope in (Scope.EXCLUSIVE, Scope.INCLUSIVE):
            wanted = defined.totals(name, scope)
            np.testing.assert_allclose(same_contexts(again.totals(name, scope), wanted), wanted, 1e-12, err_msg=name)
            by_profile = defined.matrix(name, scope)
            found = same_contexts(again.matrix(name, scope), by_profile)
            np.testing.assert_allclose(found, by_profile, 1e-12, err_msg=name)


@pytest.mark.parametrize("target", TARGETS)
def test_what_is_lost_is_named(target: str, defined: Experiment, tmp_path: Path) -> None:
    lines = write(defined, tmp_path / "out", target).lines
    lost = [name for name in DEFINITIONS if expected(target, name) == LOST]
    (said,) = [line for line in lines if "derived metric" in line] or [""]
    assert all(name in said for name in lost)
    assert not lost or "cannot be stored" in said
    assert not [name for name in DEFINITIONS if name not in lost and re.search(rf"\b{name}\b", said)]


@pytest.mark.parametrize("target", ["cube", "callgrove"])
@pytest.mark.parametrize("verb", ["top", "tree"])
def test_views_of_a_copy_are_the_same(
    target: str, verb: str, defined: Experiment, tmp_path: Path, capsys: Capture
) -> None:
    write(defined, tmp_path / "out", target)
    kept = [name for name in DEFINITIONS if expected(target, name) == FORMULA]
    derive = [word for text, *_ in DEFINITIONS.values() for word in ("--derive", text)]
    for name in kept:
        before = rows(capsys, verb, tmp_path / "r1.cubex", *derive, "-m", name)
        after = rows(capsys, verb, tmp_path / "out", "-m", name)
        assert len(before) == len(after) > 0
        for one, other in zip(before, after, strict=True):
            assert {"name", "exclusive", "inclusive"} <= one.keys() & other.keys()
            for key in one.keys() & other.keys():
                assert one[key] == other[key] or one[key] == pytest.approx(other[key], 1e-12)


@pytest.mark.parametrize("target", TARGETS)
def test_units_and_words_stay(target: str, tmp_path: Path) -> None:
    defined = r1(tmp_path / "r1.cubex").with_metric("speed [m/s] = visits / time")
    report = write(defined, tmp_path / "out", target)
    again = read(tmp_path / "out").metrics.first("speed")
    if target in ("cube", "callgrove"):
        assert again.unit == "m/s"
        assert not [line for line in report.lines if "units" in line]
    else:
        assert any("units of speed (m/s)" in line for line in report.lines)
    if target == "callgrove":
        assert again == defined.metrics.first("speed")


def test_the_formulas_are_inside_of_the_grammar_of_cubelib(defined: Experiment, tmp_path: Path) -> None:
    """No exponents, two arguments of min and max, names that its scanner knows, one operator between two operands."""
    write(defined, tmp_path / "out.cubex", "cube")
    anchor = (tmp_path / "out.cubex").read_bytes().decode("latin-1")
    texts = [text for text in anchor.split("<metric ") if "<cubepl>" in text]
    name, formula = (re.compile(f"<{word}>(.*?)</{word}>", re.DOTALL) for word in ("uniq_name", "cubepl"))
    written = {name.findall(text)[0]: formula.findall(text)[0] for text in texts}
    assert written == {
        "sum": "2 * metric::time() - metric::time() / 4",
        "ratio": "metric::time() / metric::visits()",
        "per": "metric::time(e) / metric::visits(e)",
        "per_incl": "metric::time(i) / metric::visits(i)",
        "fixed": "metric::time(e) / metric::visits(i)",
        "spread": "metric::hi() - metric::lo()",
        "chain": "(metric::ratio() * metric::visits() + 2 * metric::sum())^2 / metric::time()",
        "odd": "log(metric::visits()) / log(2) + log(metric::visits()) + max(max(metric::visits(), 3), 7) / "
        "metric::visits() + abs(-metric::visits()) * exp(0.001) / metric::visits()",
        "of_values": "metric::per() / metric::time()",
    }
    kinds = {name.findall(text)[0]: re.findall(r'type="(\w+)"', text)[0] for text in texts}
    assert kinds.pop("per") == "PREDERIVED_EXCLUSIVE"
    assert kinds.pop("per_incl") == "PREDERIVED_INCLUSIVE"
    assert set(kinds.values()) == {"POSTDERIVED"}


def test_where_cubepl_computes_zero_is_said(tmp_path: Path) -> None:
    """0/0 has no value here, and is 0 in CubeLib; inside of each it is 0 here as well."""
    plain = r1(tmp_path / "r1.cubex").with_metric("half = time / 2", "per = each(time / visits)")
    defined = plain.with_metric("ratio = time / visits", "of_ratio = 1 - half / ratio", "root = each(sqrt(time))")
    said = "where ratio, of_ratio, root have no value: CubePL takes 0/0, roots and logarithms of negative numbers as 0"
    assert said in write(defined, tmp_path / "out.cubex", "cube").losses
    assert not [text for text in write(plain, tmp_path / "plain.cubex", "cube").losses if "no value" in text]


def test_measurement_files_hold_what_adds_up(tmp_path: Path) -> None:
    made = read(corpus("release"))
    made = made.with_metric("half = `CPUTIME (sec)` / 2", "ratio = half / (half + `CPUTIME (sec)`)")
    report = write(made, tmp_path / "out", "hpcrun")
    again = read(tmp_path / "out")
    assert again.root_total("half") == pytest.approx(made.root_total("half"), 1e-12)
    assert state(again, "ratio") == LOST
    assert any("derived metric ratio: left out" in line for line in report.lines)


def test_names_that_a_formula_cannot_name_make_values(tmp_path: Path) -> None:
    """CubeLib's scanner knows letters, digits, `_`, `:` and `=` in names of metrics."""
    made = callgrove.open(Cube(R1_TREE, [RawMetric("a.b", rows=R1_TIME)]).write(tmp_path / "in.cubex"))
    assert isinstance(made, Experiment)
    made = made.with_metric("twice = 2 * a.b", "square = a.b ^ 2")
    report = write(made, tmp_path / "out.cubex", "cube")
    again = read(tmp_path / "out.cubex")
    assert (state(again, "twice"), state(again, "square")) == (VALUES, LOST)
    np.testing.assert_array_equal(again.totals("twice", Scope.INCLUSIVE), made.totals("twice", Scope.INCLUSIVE))
    assert any("square" in line for line in report.lines)


def test_an_operand_that_is_stored_in_one_scope_only(tmp_path: Path) -> None:
    """Score-P stores inclusive times. A column of exclusive values has no sums to be made of."""
    metrics = [RawMetric("time", "INCLUSIVE", rows=R1_TIME_INCLUSIVE), RawMetric("visits", rows=R1_VISITS, uom="occ")]
    made = read(Cube(R1_TREE, metrics).write(tmp_path / "in.cubex"))
    made = made.with_metric("ratio = time / visits", "fixed = time / incl(visits)")
    report = write(made, tmp_path / "out", "hpctoolkit-release")
    again = read(tmp_path / "out")
    for scope in (Scope.EXCLUSIVE, Scope.INCLUSIVE):
        wanted = made.totals("ratio", scope)
        np.testing.assert_allclose(same_contexts(again.totals("ratio", scope), wanted), wanted, 1e-12)
    assert state(again, "fixed") == LOST
    assert any(line.startswith("columns") and "fixed" in line for line in report.lines)


@pytest.mark.parametrize("target", ["hpctoolkit-release", "hpctoolkit-prerelease"])
def test_a_database_is_written_again_with_formulas(target: str, tmp_path: Path) -> None:
    """Twice: what columns have become is one column each, and the unit follows from the names."""
    made = read(corpus("release")).with_metric("half = `CPUTIME (sec)` / 2", "ratio = half / (half + `CPUTIME (sec)`)")
    first = write(made, tmp_path / "first", target)
    second = write(read(tmp_path / "first"), tmp_path / "second", target)
    assert not [line for line in (*first.lines, *second.lines) if "half" in line or "ratio" in line]
    again = read(tmp_path / "second")
    assert again.metrics.first("half").unit == "sec"
    names = [(column.name, column.scope) for column in again.metrics.columns]
    assert len(names) == len(set(names))
    for name in ("half", "ratio"):
        found, wanted = (np.nanmax(e.totals(name, Scope.INCLUSIVE)[e.contexts.roots]) for e in (again, made))
        assert found == pytest.approx(wanted, 1e-12)


# -- what has no place for values --------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["perfetto", "rocpd"])
def test_targets_of_traces_name_them(target: str, tmp_path: Path) -> None:
    example = tmp_path / "example"
    report = _write_traced(example, target)
    assert any("derived metric" in line and "only what happened over time" in line for line in report.lines)


def _write_traced(path: Path, target: str) -> LossReport:
    from callgrove.model.builder import ExperimentBuilder
    from callgrove.model.traces.events import ArraySpans, SpanKind

    builder = ExperimentBuilder("test", title="traced")
    builder.add_profile(ProfileKind.THREAD, [(2, 0, 0, 3), (3, 0, 0, 3)])
    builder.add_metric(Metric("time", Scope.EXCLUSIVE, "sec"))
    columns = {
        "profile": np.zeros(2, np.int32),
        "kind": np.full(2, SpanKind.REGION, np.int32),
        "name": np.zeros(2, np.int32),
        "category": np.zeros(2, np.int32),
        "depth": np.zeros(2, np.int32),
        "correlation": np.array([-1, -1]),
        "context": np.array([-1, -1], np.int32),
        "start_ns": np.array([0, 10]),
        "end_ns": np.array([5, 20]),
    }
    builder.set_traces(spans=ArraySpans(columns, ("f",)))
    made = builder.build().with_metric("twice = 2 * time")
    return write(made, path, target)


# -- formulas that files bring -----------------------------------------------------------------------------------------

INIT = (
    "{ global(mine); ${i} = 0; while ( ${i} < ${cube::#callpaths} ) { "
    '${r} = ${cube::callpath::calleeid}[${i}]; if ( ${cube::region::name}[${r}] eq "foo" ) { ${mine}[${i}] = 1; }; '
    "${i} = ${i} + 1; }; return 0; }"
)
MASKED = "${mine}[${calculation::callpath::id}] * metric::time(e)"


def with_cubepl(path: Path) -> Experiment:
    def formula(name: str, kind: str, text: str, more: str = "", given: str = "") -> RawMetric:
        return RawMetric(name, kind, inside=f"<cubepl{given}>{_escape(text)}</cubepl>{more}")

    brings = formula("first", "PREDERIVED_EXCLUSIVE", MASKED, f"<cubeplinit>{_escape(INIT)}</cubeplinit>")
    rule = '<cubeplaggr cubeplaggrtype="aggr">max(arg1, arg2)</cubeplaggr>'
    metrics = [
        RawMetric("time", rows=R1_TIME),
        RawMetric("visits", dtype="UINT64", rows=R1_VISITS, uom="occ"),
        brings,
        formula("masked", "PREDERIVED_EXCLUSIVE", MASKED),
        formula("ruled", "PREDERIVED_EXCLUSIVE", "metric::time(e)", rule, ' rowwise="false"'),
        formula("after", "POSTDERIVED", "metric::masked() / metric::visits()"),
        formula("wrong", "POSTDERIVED", "metric::time( / 2"),
    ]
    return read(Cube(R1_TREE, metrics).write(path))


def _escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")


CUBEPL = ("first", "masked", "ruled", "after", "wrong")


@pytest.mark.parametrize("through", [(), ("cgrove",)])
def test_formulas_of_a_cube_file_are_written_unchanged(through: tuple[str, ...], tmp_path: Path) -> None:
    made = with_cubepl(tmp_path / "in.cubex")
    again = made
    for number, ending in enumerate((*through, "cubex")):
        assert callgrove.write(again, tmp_path / f"copy{number}.{ending}") == ()
        again = read(tmp_path / f"copy{number}.{ending}")
    for name in CUBEPL:
        before, after = made.metrics.first(name), again.metrics.first(name)
        assert (before.formula, dict(before.attributes)) == (after.formula, dict(after.attributes))
        assert before.when_derived == after.when_derived
    for name in CUBEPL[:-1]:
        for scope in (Scope.EXCLUSIVE, Scope.INCLUSIVE):
            np.testing.assert_array_equal(again.totals(name, scope), made.totals(name, scope), err_msg=name)
    np.testing.assert_array_equal(again.totals("masked", Scope.EXCLUSIVE), [0, 26, 0, 0, 0, 16, 0])
    with pytest.raises(NotEvaluated):
        again.totals("wrong", Scope.EXCLUSIVE)


def test_a_folder_of_formulas_evaluates_them(tmp_path: Path) -> None:
    made = with_cubepl(tmp_path / "in.cubex").with_metric("mine = masked / time")
    assert callgrove.write(made, tmp_path / "out.cgrove") == ()
    again = read(tmp_path / "out.cgrove")
    for name in (*CUBEPL[:-1], "mine"):
        assert again.metrics.first(name).derivation == made.metrics.first(name).derivation, name
        np.testing.assert_array_equal(again.totals(name, Scope.INCLUSIVE), made.totals(name, Scope.INCLUSIVE))
    with pytest.raises(NotEvaluated, match=r"line 1"):
        again.totals("wrong", Scope.EXCLUSIVE)


def test_a_folder_without_words_about_formulas_is_read(tmp_path: Path) -> None:
    """Folders of minor version 1 have the formulas of Cube files, and do not say what they are."""
    parquet = need_module("pyarrow.parquet")
    old = tmp_path / "old.cgrove"
    callgrove.write(with_cubepl(tmp_path / "in.cubex"), old)
    metrics = parquet.read_table(old / "metrics.parquet")
    told = [name for name in metrics.column_names if name.startswith("formula_")]
    parquet.write_table(metrics.drop_columns(told), old / "metrics.parquet")
    manifest = json.loads((old / "callgrove.json").read_text())
    (old / "callgrove.json").write_text(json.dumps(manifest | {"minor": 1}))
    again = read(old)
    assert len(told) == 3
    assert again.version.startswith("1.1")
    np.testing.assert_array_equal(again.totals("masked", Scope.EXCLUSIVE), [0, 26, 0, 0, 0, 16, 0])


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"formula": ["twice / 2", "half * 2"]}, "is not evaluated"),
        ({"formula": ["half + 1", "half"]}, "is not evaluated"),
        ({"formula": ["nothing * 2", "half"]}, "there is no metric 'nothing'"),
        ({"formula": ["(" * 9000, "half"]}, "levels of nesting"),
        ({"formula_language": ["klingon", "callgrove"]}, "its language 'klingon' is not known here"),
    ],
)
def test_formulas_of_a_folder_that_cannot_be_read(changed: dict[str, list[str]], reason: str, tmp_path: Path) -> None:
    """Circles, names that are not there, other languages: the folder opens, and says so when it is asked."""
    _change_metrics(tmp_path, changed)
    again = read(tmp_path / "out.cgrove")
    assert again.root_total("time") == 128.0
    with pytest.raises(NotEvaluated, match=re.escape(reason)):
        again.totals("half", Scope.EXCLUSIVE)
    assert callgrove.write(again, tmp_path / "again.cgrove") == ()
    with pytest.raises(NotEvaluated, match=re.escape(reason)):
        read(tmp_path / "again.cgrove").totals("half", Scope.EXCLUSIVE)


def test_a_folder_that_says_an_unknown_moment_is_damaged(tmp_path: Path) -> None:
    _change_metrics(tmp_path, {"formula_when": ["tomorrow", "postderived"]})
    with pytest.raises(CorruptFile, match="when a formula is computed"):
        read(tmp_path / "out.cgrove")


def _change_metrics(folder: Path, changed: dict[str, list[str]]) -> None:
    """Write R1 with two formulas, and change cells of their rows."""
    pyarrow, parquet = need_module("pyarrow"), need_module("pyarrow.parquet")
    made = r1(folder / "r1.cubex").with_metric("half = time / 2", "twice = half * 4")
    callgrove.write(made, folder / "out.cgrove")
    path = folder / "out.cgrove" / "metrics.parquet"
    table = parquet.read_table(path)
    for name, cells in changed.items():
        column = [*table.column(name).to_pylist()[:-2], *cells]
        index = table.column_names.index(name)
        table = table.set_column(index, table.schema.field(name), pyarrow.array(column, table.schema.field(name).type))
    parquet.write_table(table, path)


def test_a_part_keeps_what_masks_are_made_of(tmp_path: Path) -> None:
    """The init block of a metric that nobody asked for is what the others' variables come from."""
    part = with_cubepl(tmp_path / "in.cubex").select(metrics=["after"])
    assert set(part.metrics.quantities) == {"time", "visits", "first", "masked", "after"}
    assert [m.name for m in part.metrics if m.visible] == ["after"]
    callgrove.write(part, tmp_path / "part.cubex")
    again = read(tmp_path / "part.cubex")
    assert [m.name for m in again.metrics if m.visible] == ["after"]
    np.testing.assert_array_equal(again.totals("after", Scope.EXCLUSIVE), part.totals("after", Scope.EXCLUSIVE))
    assert again.totals("masked", Scope.EXCLUSIVE)[1] == 26


def test_cubepl_becomes_values_elsewhere(tmp_path: Path, capsys: Capture) -> None:
    made = with_cubepl(tmp_path / "in.cubex")
    said = notes(capsys, "convert", tmp_path / "in.cubex", tmp_path / "out.d", "--to", "hpctoolkit-release")
    again = read(tmp_path / "out.d")
    assert {name: state(again, name) for name in CUBEPL} == {
        "first": VALUES,
        "masked": VALUES,
        "ruled": LOST,  # a maximum over locations is not a sum
        "after": LOST,
        "wrong": LOST,
    }
    wanted = made.totals("masked", Scope.INCLUSIVE)
    np.testing.assert_array_equal(same_contexts(again.totals("masked", Scope.INCLUSIVE), wanted), wanted)
    assert "2 derived metrics ruled, after: left out" in said
    assert "derived metric wrong: left out, as formulas are not evaluated" in said


# -- random formulas ---------------------------------------------------------------------------------------------------

LEAVES = st.sampled_from(["time", "visits", "excl(time)", "incl(visits)", "3", "0.25", "1e-7", "-2"])


def calls(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    pairs = st.tuples(inner, st.sampled_from("+-*/^"), inner).map(lambda p: f"(({p[0]}) {p[1]} ({p[2]}))")
    single = st.tuples(st.sampled_from(["sqrt", "abs", "exp", "ln", "floor", "ceil", "-"]), inner)
    many = st.tuples(st.sampled_from(["min", "max", "sum"]), st.lists(inner, min_size=1, max_size=4))
    functions = many.map(lambda p: f"{p[0]}({', '.join(p[1])})")
    logarithms = st.tuples(inner, inner).map(lambda p: f"log({p[0]}, {p[1]})")
    return pairs | single.map(lambda p: f"{p[0]}({p[1]})") | functions | logarithms


FORMULAS = st.recursive(LEAVES, calls, max_leaves=6)
WHEN = st.sampled_from(["{}", "each({})", "each_incl({})"])


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    """R1 without units, so that everything may be added to everything."""
    made = r1(tmp_path_factory.mktemp("plain") / "r1.cubex")
    metrics = made.metrics
    return replace_metrics(made, replace(metrics, rows=tuple(replace(m, unit="") for m in metrics)))


@try_examples(60)
@given(text=FORMULAS, when=WHEN)
def test_cubepl_means_the_same(plain: Experiment, text: str, when: str) -> None:
    """Where there is a value, CubeLib's language gives it; where there is none, it may give 0."""
    mine = define(plain.metrics, f"x = {when.format(text)}")
    assert isinstance(mine.derivation, UserFormula)
    spelled = write_cubepl(mine.derivation, lambda name: name)
    assert spelled is not None
    kinds = {When.AFTER: "POSTDERIVED", When.EACH: "PREDERIVED_EXCLUSIVE", When.EACH_INCLUSIVE: "PREDERIVED_INCLUSIVE"}
    row = Metric("y", Scope.NONE, formula=spelled)
    compiled = compile_metrics([*map(Definition, plain.metrics), Definition(row, kinds[mine.derivation.when])])
    assert compiled.unavailable == {}
    both = _with_rows(plain, mine, compiled.rows[-1])
    for scope in (Scope.EXCLUSIVE, Scope.INCLUSIVE):
        wanted, found = (TotalCells(both.values, scope).of(name) for name in ("x", "y"))
        known = ~np.isnan(wanted)
        np.testing.assert_allclose(found[known], wanted[known], 1e-9, 1e-9)


def _with_rows(experiment: Experiment, *rows: Metric) -> Experiment:
    return replace_metrics(experiment, replace(experiment.metrics, rows=(*experiment.metrics.rows, *rows)))


@try_examples(60)
@given(text=FORMULAS)
def test_columns_mean_the_same(plain: Experiment, text: str) -> None:
    """A formula over ids of sums, in both scopes, is the formula that it was made of."""
    mine = define(plain.metrics, f"x = {text}")
    names = {(name, scope): k for k, (name, scope) in enumerate(_stored_scopes())}
    metrics = Metrics((*plain.metrics.rows, mine))
    columns = list(formula_columns(metrics, names))
    stored = Metrics(
        tuple(Metric(name, scope, source_id=id_) for (name, scope), id_ in names.items()),
        tuple(replace(column, formula=render(formula)) for column, formula in columns),
    )
    made = derive_from_columns(stored)
    assert made.derived == ("x",)
    again = read_formula(plain.metrics, made.first("x").formula)
    both = _with_rows(plain, mine, define(plain.metrics, f"y = {again.derivation.text}"))
    for scope in (Scope.EXCLUSIVE, Scope.INCLUSIVE):
        wanted, found = (TotalCells(both.values, scope).of(name) for name in ("x", "y"))
        np.testing.assert_allclose(found, wanted, 1e-9)


def _stored_scopes() -> list[tuple[str, Scope]]:
    return [(name, scope) for name in ("time", "visits") for scope in (Scope.INCLUSIVE, Scope.FUNCTION)]
