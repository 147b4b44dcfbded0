"""`remap`: the specification in a file, one given, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import callgrove
from callgrove import Scope
from callgrove.algebra.idle_threads import IDLE_THREADS, IMBALANCE, LIMITED_PARALLELISM
from callgrove.analysis.costs import without_children
from callgrove.arrays import Floats
from callgrove.errors import CorruptFile, InputError, NotEvaluated, NotMeasured, RefusedInput, UsageError
from callgrove.formats.cube.specification import EMBEDDED, parse_specification
from callgrove.model.cubepl import CubePl
from callgrove.model.derived import Cells
from callgrove.model.experiment import Experiment
from callgrove.model.joining import join_runs
from callgrove.model.metrics import Aggregation
from callgrove.model.runs import Run
from tests.cli.commands import Capture, facts, notes, rows, run, said
from tests.formats.cube.raw_cubes import R1_VISITS, Cube, RawMetric, r1
from tests.requirements import need_module

OF = "[${calculation::callpath::id}]"
INIT = """
{ global(run); global(mpi); global(p2p); global(coll); ${sawMPI} = 0; ${sawIO} = 0; ${i} = 0;
  while ( ${i} < ${cube::#callpaths} ) {
    ${run}[${i}] = 1;  ${r} = ${cube::callpath::calleeid}[${i}];
    if ( ${cube::region::paradigm}[${r}] seq "MPI" ) { ${sawMPI} = 1; ${mpi}[${i}] = 1;
      if ( ${cube::region::name}[${r}] =~ /^MPI_(S|R)e(nd|cv)$/ ) { ${p2p}[${i}] = 1; }
      elseif ( not ( ${cube::region::role}[${r}] eq "function" ) ) { ${coll}[${i}] = 1; }; }
    elseif ( ${cube::region::paradigm}[${r}] eq "io" ) { ${sawIO} = 1; };
    ${i} = ${i} + 1; };
  if ( ${sawIO} == 0 ) { cube::metric::set::io("value", "VOID"); };
  return 0; }
"""


def metric(name: str, kind: str = "", formula: str = "", below: str = "", more: str = "", unit: str = "sec") -> str:
    said = f' type="{kind}"' if kind else ""
    formula = f"<cubepl>{formula}</cubepl>" if formula else ""
    return (
        f"<metric{said}><disp_name>{name.upper()}</disp_name><uniq_name>{name}</uniq_name><dtype>FLOAT</dtype>"
        f"<uom>{unit}</uom><url>@mirror@{name}</url><descr>about {name}</descr>{formula}{more}{below}</metric>\n"
    )


def mini() -> str:
    """R-mini of the specification: time > execution > { comp, mpi > p2p, io }, and pervisit."""
    each = "PREDERIVED_EXCLUSIVE"
    p2p = metric("p2p", each, f"${{p2p}}{OF} * metric::time(e)")
    below = metric("comp", "POSTDERIVED", "metric::execution() - metric::mpi()")
    below += metric("mpi", each, f"${{mpi}}{OF} * metric::time(e)", p2p) + metric("io", each, "metric::time(e)")
    init = f"<cubeplinit>{INIT}</cubeplinit>"  # with a raw `<`, as Score-P's has
    execution = metric("execution", each, f"${{run}}{OF} * metric::time(e)", below, init)
    ratio = metric("pervisit", "POSTDERIVED", "metric::time() / metric::visits()", unit="sec/occ")
    mirrors = "<doc><mirrors><murl>https://example.org/</murl></mirrors></doc>"
    return f"{mirrors}\n<metrics>{metric('time', below=execution)}{ratio}</metrics>"


def mini_cube(path: Path, spec: str | None = None) -> Path:
    cube = r1()
    cube.attachments = [(EMBEDDED, (spec or mini()).encode())]
    return cube.write(path)


def opened(path: Path) -> Experiment:
    experiment = callgrove.open(path)
    assert isinstance(experiment, Experiment)
    return experiment


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return mini_cube(tmp_path / "mini.cubex")


MAIN, FOO = 0, 1


@pytest.fixture(params=["lazy", "written", "evaluated"])
def remapped(request: pytest.FixtureRequest, path: Path, capsys: Capture) -> Experiment:
    """The experiment itself, and what is read again of files that hold formulas, or values."""
    if request.param == "lazy":
        return opened(path).remap()
    out = path.with_name("out.cubex")
    run(capsys, "remap", path, out, *(["--evaluate"] if request.param == "evaluated" else []))
    return opened(out)


# -- R-mini ------------------------------------------------------------------------------------------------------------


def test_the_tree_of_metrics(remapped: Experiment) -> None:
    metrics = remapped.metrics
    assert metrics.quantities == ("time", "execution", "comp", "mpi", "p2p", "pervisit", "visits", "lo", "hi", "bytes")
    parents = {m.name: metrics[m.parent].name for m in metrics if m.parent >= 0}
    assert parents == {"execution": "time", "comp": "execution", "mpi": "execution", "p2p": "mpi"}
    assert (metrics.first("mpi").description, metrics.first("mpi").url) == ("about mpi", "@mirror@mpi")
    assert metrics.first("time").description == "about time"
    assert {m.name: m.aggregation for m in metrics if m.name in ("lo", "hi")} == {
        "lo": Aggregation.MINIMUM,
        "hi": Aggregation.MAXIMUM,
    }
    assert remapped.attributes["cube: mirrors"] == "https://example.org/"


def test_values_of_main_and_foo(remapped: Experiment) -> None:
    inclusive = {name: remapped.matrix(name, Scope.INCLUSIVE) for name in ("execution", "comp", "mpi", "p2p")}
    assert inclusive["comp"][MAIN].tolist() == [19, 14, 29, 24]
    assert inclusive["mpi"][MAIN].tolist() == [12, 11, 10, 9]
    assert inclusive["p2p"][MAIN].tolist() == [8, 7, 6, 5]
    assert inclusive["comp"][FOO].tolist() == [6, 8, 10, 12]
    assert inclusive["mpi"][FOO].tolist() == [8, 7, 6, 5]
    assert {name: remapped.root_total(name) for name in inclusive} == {
        "execution": 128,
        "comp": 86,
        "mpi": 42,
        "p2p": 26,
    }
    assert [remapped.totals(name, Scope.INCLUSIVE)[FOO] for name in ("comp", "mpi")] == [36, 26]
    for profile, (of_mpi, of_all) in enumerate([(4, 31), (4, 25), (4, 39), (4, 33)]):
        chosen = np.array([profile])
        assert without_children(remapped, "mpi", Scope.INCLUSIVE, chosen)[MAIN] == of_mpi
        assert without_children(remapped, "execution", Scope.INCLUSIVE, chosen)[MAIN] == 0
        assert remapped.totals("execution", Scope.INCLUSIVE, chosen)[MAIN] == of_all
    assert without_children(remapped, "mpi", Scope.INCLUSIVE)[MAIN] == 16


def test_ratios_stay_ratios(remapped: Experiment) -> None:
    """The tools add ratios up when they store them: 3.39717 in place of 0.8."""
    exclusive, inclusive = (remapped.matrix("pervisit", scope)[MAIN] for scope in (Scope.EXCLUSIVE, Scope.INCLUSIVE))
    assert np.array_equal(exclusive, [10, np.nan, 12, np.nan], equal_nan=True)
    assert inclusive.round(6).tolist() == [1.192308, 0.78125, 0.8125, 0.611111]
    assert remapped.totals("pervisit", Scope.EXCLUSIVE)[MAIN] == 13
    assert remapped.totals("pervisit", Scope.INCLUSIVE)[MAIN] == 0.8
    table = {row["name"]: row for row in remapped.metric_tree()}
    assert table["pervisit"]["value"] == 0.8
    assert table["pervisit"]["percent"] is None


def test_copied_metrics_keep_their_values(remapped: Experiment, path: Path) -> None:
    before = opened(path)
    for name in before.metrics.quantities:
        for scope in (Scope.EXCLUSIVE, Scope.INCLUSIVE):
            assert np.array_equal(remapped.matrix(name, scope), before.matrix(name, scope)), name


def test_remapping_again_changes_nothing(remapped: Experiment) -> None:
    again = remapped.remap()
    assert again.metrics.quantities == remapped.metrics.quantities
    assert [again.root_total(name) for name in ("comp", "mpi", "p2p")] == [86, 42, 26]


def test_evaluated_files_hold_values_and_ratios(path: Path, capsys: Capture) -> None:
    out = path.with_name("out.cubex")
    text = notes(capsys, "remap", path, out, "--evaluate")
    assert "1 metrics stay formulas, as their values do not add up: pervisit" in text
    assert opened(out).metrics.derived == ("pervisit",)
    assert EMBEDDED in opened(out).attachments
    notes(capsys, "remap", path, out, "--force")
    assert opened(out).metrics.derived == ("execution", "comp", "mpi", "p2p", "pervisit")
    assert opened(out).attributes["operation"] == "remap"


@pytest.mark.parametrize("ending", ["d", "callgrove"])
def test_other_targets_get_values_or_say_what_is_lost(path: Path, ending: str, capsys: Capture) -> None:
    if ending == "callgrove":
        need_module("pyarrow")
    out = path.with_name(f"out.{ending}")
    text = notes(capsys, "remap", path, out)
    written = opened(out)
    for name, total in (("comp", 86), ("mpi", 42), ("p2p", 26)):
        assert written.root_total(name) == pytest.approx(total, rel=1e-12)
    assert ("pervisit" in written.metrics.quantities) or ("lost:" in text and "pervisit" in text)


def test_nothing_is_evaluated_that_is_not_shown(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    evaluated: list[str] = []
    evaluate = CubePl.evaluate

    def record(formula: CubePl, cells: Cells) -> Floats | float:
        evaluated.append(formula.name)
        return evaluate(formula, cells)

    monkeypatch.setattr(CubePl, "evaluate", record)
    experiment = opened(path).remap()
    assert evaluated == []
    experiment.top("p2p")
    assert set(evaluated) == {"p2p"}
    experiment.metric_tree("p2p")
    assert set(evaluated) == {"p2p"}
    experiment.top("comp")
    assert set(evaluated) == {"p2p", "comp", "execution", "mpi"}


# -- a specification that is given -------------------------------------------------------------------------------------


def test_a_given_specification_comes_first(path: Path, tmp_path: Path, capsys: Capture) -> None:
    spec = tmp_path / "own.spec"
    twice = metric("twice", "POSTDERIVED", "2 * metric::time()")
    spec.write_text(f'\ufeff<?xml version="1.0"?>\n<metrics>{metric("time", below=twice)}{metric("nothing")}</metrics>')
    made = opened(path).remap(spec)
    assert made.metrics.quantities == ("time", "twice", "nothing", "visits", "lo", "hi", "bytes")
    assert made.root_total("twice") == 256
    with pytest.raises(NotMeasured, match=r"nothing is not measured here, so it has no values$"):
        made.root_total("nothing")
    assert "1 metrics of the specification are not measured here, so they have no values: nothing" in notes(
        capsys, "info", path, "--spec", spec, "--metrics"
    )
    assert rows(capsys, "top", path, "--spec", spec, "-m", "twice", "--limit", "1")[0]["exclusive"] == 84
    out = tmp_path / "twice.cubex"
    run(capsys, "remap", path, out, "--spec", spec)
    assert opened(out).root_total("twice") == 256


@pytest.mark.parametrize("verb", ["top", "tree", "hot", "info", "export", "diff", "report", "sql"])
def test_reading_verbs_remap(verb: str, path: Path, capsys: Capture, tmp_path: Path) -> None:
    words: dict[str, list[object]] = {
        "top": ["-m", "mpi"],
        "tree": ["-m", "mpi"],
        "hot": ["-m", "mpi"],
        "info": ["--metrics"],
        "export": ["--table", "values", "-m", "mpi", "--scope", "exclusive"],
        "diff": [path, "-m", "mpi"],
        "report": ["-m", "mpi", "-o", tmp_path / "page.html"],
        "sql": ["SELECT name FROM metrics WHERE name = 'mpi'"],
    }
    printed = run(capsys, verb, path, *words[verb], "--remap")
    assert verb == "report" or "MPI_Send" in printed or "mpi" in printed or verb == "export"
    if verb == "export":
        assert len(rows(capsys, verb, path, *words[verb], "--remap")) == 8
    assert "there is no metric 'mpi'" in said(capsys, "top", path, "-m", "mpi", code=2)


def test_metrics_can_be_derived_of_remapped_ones(path: Path, capsys: Capture) -> None:
    """--derive comes after --remap."""
    table = rows(capsys, "tree", path, "--remap", "--derive", "share = mpi / time", "--metrics", "--limit", "all")
    assert {row["name"]: row["value"] for row in table}["share"] == 42 / 128


def test_series_have_nothing_to_remap(tmp_path: Path, capsys: Capture) -> None:
    text = tmp_path / "series.txt"
    text.write_text("PARAMETER p\nPOINTS (1) (2) (4)\nREGION main\nMETRIC time\nDATA 1\nDATA 2\nDATA 4\n")
    assert "holds series over parameters" in said(capsys, "info", text, "--remap", code=2)


# -- hostile specifications --------------------------------------------------------------------------------------------


def parse(text: str | bytes) -> object:
    return parse_specification(Path("x.spec"), "specification", text if isinstance(text, bytes) else text.encode())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "an element <metric>"),
        ("<metrics></metrics>", "an element <metric>"),
        ("no XML at all", "an element <metric>"),
        ("<metrics><metric></metrics>", "well-formed XML"),
        ("<metrics><metric></metric></metrics>", "a unique name"),
        (f"<metrics>{metric('a')}{metric('a')}</metrics>", "every unique name once"),
        (f"<metrics>{metric('a', 'POSTDERIVED')}</metrics>", "a formula of a, which is POSTDERIVED"),
        (
            "<metrics><metric type='POSTDERIVED'><uniq_name>a</uniq_name><cubepl> \n </cubepl></metric></metrics>",
            "a formula of a, which is POSTDERIVED",
        ),
        (f"<metrics>{metric('a')}</metrics><program><region id='1'/></program>", "metrics"),
        (f"<system><systemtreenode Id='0'/></system>{metric('a')}", "metrics"),
        (f"</cube>{metric('a')}<cube>", "well-formed XML"),
        (f"<metrics>&undeclared;{metric('a')}</metrics>", "well-formed XML"),
        (b"\xff\xfe<\x00m\x00", "well-formed XML"),
        ("<metrics>" + "<metric>" * 50_000, "well-formed XML"),
    ],
)
def test_what_is_no_specification_is_refused(text: str | bytes, words: str) -> None:
    with pytest.raises(CorruptFile, match=words) as error:
        parse(text)
    assert "x.spec: " in str(error.value)


def test_entities_are_never_expanded() -> None:
    bomb = '<!DOCTYPE metrics [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;">]>' + f"<metrics>&b;{metric('a')}</metrics>"
    with pytest.raises((CorruptFile, RefusedInput)):
        parse(bomb)


def test_a_huge_file_is_no_specification(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("callgrove.formats.cube.specification.LARGEST", 1000)
    big = tmp_path / "big.spec"
    big.write_text(f"<metrics>{metric('a')}</metrics>" + " " * 2000)
    with pytest.raises(InputError, match="not a specification of metrics"):
        opened(mini_cube(tmp_path / "mini.cubex")).remap(big)
    with pytest.raises(InputError, match="cannot be read"):
        opened(tmp_path / "mini.cubex").remap(tmp_path / "nowhere.spec")


def test_broken_formulas_cost_their_metric(tmp_path: Path, capsys: Capture) -> None:
    each = "PREDERIVED_EXCLUSIVE"
    broken = metric("broken", each, "metric::time(e) +") + metric("circle", each, "metric::circle(e) + 1")
    good = metric("good", "POSTDERIVED", "metric::time() * 2")
    path = mini_cube(tmp_path / "broken.cubex", f"<metrics>{metric('time', below=good + broken)}</metrics>")
    made = opened(path).remap()
    assert made.root_total("good") == 256
    for name in ("broken", "circle"):
        with pytest.raises(NotEvaluated, match="line 1"):
            made.root_total(name)
    assert made.metric_tree()["value"][:4] == [128, 256, None, None]
    assert "2 derived metrics cannot be evaluated" in notes(capsys, "info", path, "--remap", "--metrics")


def test_a_broken_init_block_costs_what_needs_it(tmp_path: Path) -> None:
    init = "<cubeplinit>{ global(m); ${m}[-1] = 1; return 0; }</cubeplinit>"
    masked = metric("masked", "PREDERIVED_EXCLUSIVE", f"${{m}}{OF} * metric::time(e)", more=init)
    spec = f"<metrics>{metric('time', below=masked + metric('plain', 'POSTDERIVED', 'metric::time()'))}</metrics>"
    made = opened(mini_cube(tmp_path / "endless.cubex", spec)).remap()
    with pytest.raises(NotEvaluated, match="init block"):
        made.root_total("masked")
    assert made.root_total("plain") == 128


def test_children_of_void_metrics_move_up(tmp_path: Path) -> None:
    init = '<cubeplinit>{ cube::metric::set::middle("value", "VOID"); return 0; }</cubeplinit>'
    inner = metric("inner", "PREDERIVED_EXCLUSIVE", "metric::time(e)")
    middle = metric("middle", "PREDERIVED_EXCLUSIVE", "metric::time(e)", inner, init)
    made = opened(mini_cube(tmp_path / "void.cubex", f"<metrics>{metric('time', below=middle)}</metrics>")).remap()
    assert made.metrics.quantities[:2] == ("time", "inner")
    assert made.metrics[made.metrics.first("inner").parent].name == "time"


def test_idle_threads_need_time(tmp_path: Path) -> None:
    path = mini_cube(tmp_path / "no-time.cubex", f"<metrics>{metric('wall', 'POSTDERIVED', '1')}</metrics>")
    assert opened(path).remap(idle_threads=True).metrics.quantities[0] == "wall"
    cube = Cube(r1().tree, [RawMetric("visits", rows=R1_VISITS)], attachments=[(EMBEDDED, mini().encode())])
    with pytest.raises(UsageError, match="has no metric 'time'"):
        opened(cube.write(tmp_path / "none.cubex")).remap(idle_threads=True)


# -- real files --------------------------------------------------------------------------------------------------------


def test_score_ps_specification_gives_what_the_tools_give(shared: Path) -> None:
    """Every stored value of `cube_remap2 -d`, of every metric, cnode and location."""
    folder = shared / "data" / "own" / "cube" / "mpi4"
    made, oracle = opened(folder / "profile.cubex").remap(), opened(folder / "remapped.cubex")
    assert set(oracle.metrics.quantities) == set(made.metrics.quantities)
    assert {m.name: made.metrics[m.parent].name if m.parent >= 0 else "" for m in made.metrics} == {
        m.name: oracle.metrics[m.parent].name if m.parent >= 0 else "" for m in oracle.metrics
    }
    n_values = 0
    assert not any(oracle.matrix(name, Scope.EXCLUSIVE).any() for name in made.metrics.missing)
    for name in (name for name in oracle.metrics.quantities if name not in made.metrics.missing):
        for scope in (Scope.EXCLUSIVE, Scope.INCLUSIVE):
            expected, got = oracle.matrix(name, scope), made.matrix(name, scope)
            scale = np.abs(expected[np.isfinite(expected)]).max(initial=0.0)
            assert np.allclose(got, expected, rtol=1e-12, atol=1e-12 * scale, equal_nan=True), name
            n_values += int(np.count_nonzero(expected))
    assert n_values > 2000


@pytest.mark.parametrize("name", ["mpi4", "wide4x2", "fmt_CUBE_TUPLE", "fmt_KEY_THREADS", "fmt_THREAD_SUM", "mpi8"])
def test_real_trees_divide_their_roots(name: str, shared: Path) -> None:
    made = opened(shared / "data" / "own" / "cube" / name / "profile.cubex").remap()
    table = {row["name"]: row for row in made.metric_tree()}
    tuples = name == "fmt_CUBE_TUPLE"  # bytes are not plain sums there
    for name in ("time", "execution", "mpi_management", "mpi_communication", *(() if tuples else ("bytes",))):
        assert table[name]["without_children"] == pytest.approx(0, abs=1e-9 * table[name]["value"] + 1e-300)
    leaves = sum(table[name]["value"] for name in ("comp", "mpi", "omp_time") if name in table)
    assert leaves == pytest.approx(table["time"]["value"], rel=1e-9)


@pytest.mark.parametrize("name", ["mpi4", "mpi8", "wide4x2"])
def test_idle_threads_of_real_hybrid_runs(name: str, shared: Path) -> None:
    """Workers are allocated as long as their masters run, and what they do is what it was before."""
    profile = opened(shared / "data" / "own" / "cube" / name / "profile.cubex")
    plain, made = profile.remap(), profile.remap(idle_threads=True)
    assert [m.name for m in plain.metrics] == [m.name for m in made.metrics]
    for metric_name in ("execution", "comp", "mpi", "omp_time"):
        if metric_name in made.metrics.quantities:
            assert np.allclose(
                plain.matrix(metric_name, Scope.EXCLUSIVE), made.matrix(metric_name, Scope.EXCLUSIVE), atol=1e-12
            )
    time_, idle = (made.matrix(name, Scope.EXCLUSIVE) for name in ("time", "omp_idle_threads"))
    assert np.allclose(time_ - idle, plain.matrix("time", Scope.EXCLUSIVE), atol=1e-12)
    assert (idle >= 0).all()
    both, above, below = (made.root_total(f"imbalance{part}") for part in ("", "_above", "_below"))
    assert both == pytest.approx(above + below, rel=1e-9)
    assert above == pytest.approx(below, rel=1e-6), "distances from a mean cancel out"


COMPUTED = (IDLE_THREADS, LIMITED_PARALLELISM, *IMBALANCE)


@pytest.mark.parametrize("words", ["", "out.cubex", "out.cubex --evaluate", "out.callgrove"])
def test_what_nobody_measured_has_no_values(words: str, shared: Path, tmp_path: Path, capsys: Capture) -> None:
    """The tree of metrics is whole, formulas are what they are in Cube's tools, and no zero is shown as measured."""
    source = shared / "data" / "own" / "cube" / "mpi4" / "profile.cubex"
    if "callgrove" in words:
        need_module("pyarrow")
    name, *more = words.split() or [""]
    if name:
        run(capsys, "remap", source, tmp_path / name, *more)
    made = opened(tmp_path / name) if name else opened(source).remap()
    assert set(made.metrics.missing) == set(COMPUTED)
    table = {row["name"]: row for row in made.metric_tree()}
    assert {table[one]["kind"] for one in COMPUTED} == {"not measured"}
    assert {table[one][column] for one in COMPUTED for column in ("value", "without_children", "percent")} == {None}
    assert table["time"]["without_children"] == pytest.approx(0, abs=1e-12), "its children are known but for these"
    assert table["execution"]["value"] == pytest.approx(opened(source).root_total("time")), "time - omp_idle_threads"
    assert not {row["name"] for row in made.metric_tree(limit=100)} & set(COMPUTED)
    assert not set(made.metrics.shown) & set(COMPUTED)
    with pytest.raises(NotMeasured, match=r"imbalance is not measured here.*; idle_threads=True computes it"):
        made.top("imbalance")


def test_what_nobody_measured_is_refused_on_the_command_line(shared: Path, tmp_path: Path, capsys: Capture) -> None:
    source, out = shared / "data" / "own" / "cube" / "mpi4" / "profile.cubex", tmp_path / "out.cubex"
    words = "imbalance is not measured here, so it has no values; --idle-threads computes it"
    run(capsys, "remap", source, out)
    assert words in said(capsys, "top", out, "-m", "imbalance", code=2)
    assert words in said(capsys, "top", out, "-m", "x = imbalance / time", code=2)
    assert words in said(capsys, "diff", out, out, "-m", "imbalance", code=2)
    listed = {row["name"]: row["unavailable"] for row in rows(capsys, "info", out, "--metrics")}
    assert {listed[name] for name in COMPUTED} == {"it is not measured"}
    assert "left out: 8 metrics" in notes(capsys, "export", out, "--table", "values", "--scope", "exclusive")
    computed = opened(out).remap(idle_threads=True)
    assert computed.metrics.missing == ()
    assert computed.root_total("imbalance") == opened(source).remap(idle_threads=True).root_total("imbalance") > 0


@pytest.mark.parametrize("target", ["", "cube", "callgrove"])
def test_what_is_computed_from_threads_is_not_called_measured(target: str, shared: Path, tmp_path: Path) -> None:
    made = opened(shared / "data" / "own" / "cube" / "mpi4" / "profile.cubex").remap(idle_threads=True)
    if target == "callgrove":
        need_module("pyarrow")
    if target:
        callgrove.write(made, tmp_path / "out", to_format=target)
        made = opened(tmp_path / "out")
    kinds = {row["name"]: row["kind"] for row in made.metric_tree()}
    assert {kinds[metric] for metric in COMPUTED} == {"computed"}
    assert (kinds["time"], kinds["visits"], kinds["comp"]) == ("computed in part", "measured", "postderived")


@pytest.mark.parametrize("target", ["hpctoolkit-release", "hpcrun"])
def test_targets_that_cannot_mark_metrics_get_none(target: str, shared: Path, tmp_path: Path, capsys: Capture) -> None:
    source, spec, out = shared / "data" / "own" / "hpcrun-04.00" / "mpi4.m", tmp_path / "own.spec", tmp_path / "out"
    spec.write_text(f"<metrics>{metric('nothing')}</metrics>")
    losses = notes(capsys, "remap", source, out, "--spec", spec, "--to", target)
    assert "lost: metric nothing: left out, as nobody measured it" in losses
    assert losses.count("nothing") == 2, "the other says so of the specification"
    assert opened(out).metrics.quantities == opened(source).metrics.quantities


def test_algebra_keeps_what_somebody_measured(shared: Path) -> None:
    """One input has no values of idle threads: the other's count alone. Where none has any, the result has none."""
    source = opened(shared / "data" / "own" / "cube" / "mpi4" / "profile.cubex")
    without, computed = source.remap(), source.remap(idle_threads=True)
    assert set(callgrove.mean(without, without).metrics.missing) == set(COMPUTED)
    for pair in ([without, computed], [computed, without]):
        made = callgrove.mean(*pair)
        assert made.metrics.missing == ()
        assert made.root_total("imbalance") == pytest.approx(computed.root_total("imbalance") / 2)
        joined = join_runs([(Run(str(k), {"p": k + 1.0}), one) for k, one in enumerate(pair)], "runs", "two", "two")
        assert joined.root_total("imbalance") == pytest.approx(computed.root_total("imbalance"))
        said_of_runs = [w.text for w in joined.warnings if "is not measured in some runs, where it is 0" in w.text]
        assert len(said_of_runs) == len(COMPUTED)


def test_topologies_are_listed_and_written_back(shared: Path, tmp_path: Path, capsys: Capture) -> None:
    source, out = shared / "data" / "own" / "cube" / "mpi4" / "profile.cubex", tmp_path / "out.cubex"
    run(capsys, "remap", source, out)
    for path in (source, out):
        assert dict(facts(capsys, path))["topology"] == "Process x Thread: Process 4 x Thread 2, 8 places"
    before, after = (opened(path).system for path in (source, out))
    assert [t.name for t in before.topologies] == [t.name for t in after.topologies] == ["Process x Thread"]
    one, other = before.topologies[0], after.topologies[0]
    assert (one.sizes, one.periodic, one.dimension_names) == (other.sizes, other.periodic, other.dimension_names)
    assert [before.name[place] for place in one.system.tolist()] == [
        after.name[place] for place in other.system.tolist()
    ]
    assert np.array_equal(one.coordinates, other.coordinates)


def test_many_topologies_are_counted(tmp_path: Path, capsys: Capture) -> None:
    cube = r1()
    cart = '<cart ndims="1"><dim size="4" periodic="true"/><coord locId="1">2</coord></cart>'
    members = {
        "anchor.xml": cube.anchor().replace("</system>", f"<topologies>{cart * 6}</topologies></system>").encode()
    }
    written = cube.write(tmp_path / "x.cubex", members)
    listed = [text for word, text in facts(capsys, written) if word == "topology"]
    assert listed == [*["unnamed: 4 periodic, 1 place"] * 4, "2 more"]


@pytest.mark.parametrize("words", ["out.cubex", "out.cubex --evaluate", "out.d", "out.callgrove"])
def test_idle_threads_are_written(words: str, shared: Path, tmp_path: Path, capsys: Capture) -> None:
    """Time is stored inclusive there: what is written must be so as well."""
    if "callgrove" in words:
        need_module("pyarrow")
    source = shared / "data" / "own" / "cube" / "mpi4" / "profile.cubex"
    name, *more = words.split()
    made = opened(source).remap(idle_threads=True)
    assert made.metrics.first("time").scope == opened(source).metrics.first("time").scope == Scope.INCLUSIVE
    assert "unexplained" not in notes(capsys, "remap", source, tmp_path / name, "--idle-threads", *more)
    written = opened(tmp_path / name)
    assert written.root_total("time") > 1.5 * opened(source).root_total("time")
    for metric_name in ("time", "execution", "comp", "omp_idle_threads", "omp_limited_parallelism", "imbalance"):
        assert written.root_total(metric_name) == pytest.approx(made.root_total(metric_name), rel=1e-12)
        if name != "out.d":  # where contexts are numbered anew
            pairs = (
                (written.totals(metric_name, s), made.totals(metric_name, s))
                for s in (Scope.EXCLUSIVE, Scope.INCLUSIVE)
            )
            assert all(np.allclose(got, expected, rtol=1e-12, atol=1e-14) for got, expected in pairs)


def test_remapped_files_say_nothing_of_void_metrics(shared: Path, tmp_path: Path, capsys: Capture) -> None:
    """Formulas name metrics that their own init block declares VOID, and that are left out for it."""
    out = tmp_path / "out.cubex"
    run(capsys, "remap", shared / "data" / "own" / "cube" / "mpi4" / "profile.cubex", out)
    assert "metric::cuda_time()" in opened(out).metrics.first("comp").formula
    assert notes(capsys, "top", out, "-m", "comp", "--format", "csv") == ""
