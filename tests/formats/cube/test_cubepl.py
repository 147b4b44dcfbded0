"""Derived metrics of Cube files: the worked results of the specification, and what CubeLib says of real files."""

from __future__ import annotations

import csv
import gzip
import json
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree
from xml.sax.saxutils import escape

import numpy as np
import pytest

import callgrove
from callgrove import Scope
from callgrove.errors import NotEvaluated
from callgrove.formats.cube.anchor import repair_cubepl
from callgrove.model.cubepl import KINDS, Definition, compile_metrics
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Aggregation, Metric
from tests.cli.commands import Capture, run
from tests.formats.cube.raw_cubes import R1_TREE, Cube, RawMetric, r1
from tests.requirements import SHARED

EACH, EACH_INCLUSIVE, AFTER = "PREDERIVED_EXCLUSIVE", "PREDERIVED_INCLUSIVE", "POSTDERIVED"
FOO = 1
MPI = "${mpi}[${calculation::callpath::id}]"
INIT = """{ global(mpi); ${i} = 0;
  while ( ${i} < ${cube::#callpaths} ) {
    if ( ${cube::region::paradigm}[${cube::callpath::calleeid}[${i}]] eq "mpi" ) { ${mpi}[${i}] = 1; };
    ${i} = ${i} + 1; };
  return 0; }"""


def derived(name: str, kind: str, formula: str, init: str = "", rules: Sequence[tuple[str, str]] = ()) -> RawMetric:
    inside = f"<cubepl>{escape(formula)}</cubepl>"
    inside += f"<cubeplinit>{escape(init)}</cubeplinit>" if init else ""
    inside += "".join(f'<cubeplaggr cubeplaggrtype="{kind}">{escape(text)}</cubeplaggr>' for kind, text in rules)
    return RawMetric(name, kind, inside=inside)


def opened(path: Path) -> Experiment:
    experiment = callgrove.open(path)
    assert isinstance(experiment, Experiment)
    return experiment


def with_metrics(path: Path, *metrics: RawMetric) -> Experiment:
    """R1 with further metrics."""
    return opened(Cube(R1_TREE, [*r1().metrics, *metrics]).write(path))


def worth(path: Path, kind: str, formula: str, init: str = "", rules: Sequence[tuple[str, str]] = ()) -> Worth:
    return Worth(with_metrics(path / "x.cubex", derived("d", kind, formula, init, rules)))


class Worth:
    """The values of metric `d`."""

    def __init__(self, experiment: Experiment) -> None:
        self.experiment = experiment

    def at(self, context: int, scope: Scope) -> list[float]:
        """The value of each location, then that of the whole system."""
        matrix, totals = self.experiment.matrix("d", scope), self.experiment.totals("d", scope)
        return [*matrix[context].tolist(), float(totals[context])]


E_TIME_PER_VISIT = "metric::time(e)/metric::visits(e)"
I_TIME_PER_VISIT = "metric::time(i)/metric::visits(i)"
WORKED: list[tuple[str, str, str, list[float], list[float]]] = [  # formula, kind, init, exclusive, inclusive
    (E_TIME_PER_VISIT, EACH, "", [0.5, 0.3, 0.233333, 0.2, 1.23333], [2.6, 2.46667, 2.59048, 2.825, 10.4821]),
    (
        I_TIME_PER_VISIT,
        EACH_INCLUSIVE,
        "",
        [-1.27647, -1.63095, -1.94689, -2.285, -7.13931],
        [0.823529, 0.535714, 0.410256, 0.34, 2.1095],
    ),
    (
        "metric::time()/metric::visits()",
        AFTER,
        "",
        [0.5, 0.3, 0.233333, 0.2, 0.26],
        [0.823529, 0.535714, 0.410256, 0.34, 0.462687],
    ),
    ("metric::time(i)", EACH, "", [14, 15, 16, 17, 62], [23, 24, 25, 26, 98]),
    ("metric::time(e)", EACH_INCLUSIVE, "", [-4, -3, -2, -1, -10], [5, 6, 7, 8, 26]),
    ("max(metric::time(e),6)", EACH, "", [6, 6, 7, 8, 27], [20, 19, 19, 20, 78]),
    ("max(metric::time(e),6)", AFTER, "", [6, 6, 7, 8, 26], [6, 6, 7, 8, 26]),
    (f"{MPI}*metric::time(e)", EACH, INIT, [0, 0, 0, 0, 0], [8, 7, 6, 5, 26]),
    (
        "${calculation::callpath::id}*100+${calculation::sysres::id}",
        EACH,
        "",
        [100, 101, 102, 103, 406],
        [600, 603, 606, 609, 2418],
    ),
]


@pytest.mark.parametrize(("formula", "kind", "init", "exclusive", "inclusive"), WORKED)
def test_worked_results(
    formula: str, kind: str, init: str, exclusive: list[float], inclusive: list[float], tmp_path: Path
) -> None:
    found = worth(tmp_path, kind, formula, init)
    assert found.at(FOO, Scope.EXCLUSIVE) == pytest.approx(exclusive, rel=5e-6)
    assert found.at(FOO, Scope.INCLUSIVE) == pytest.approx(inclusive, rel=5e-6)


def test_a_mask_over_the_whole_tree(tmp_path: Path) -> None:
    found = worth(tmp_path, EACH, f"{MPI}*metric::time(e)", INIT)
    assert found.at(0, Scope.INCLUSIVE) == [12, 11, 10, 9, 42]


def test_types_of_integers_do_not_round(tmp_path: Path) -> None:
    halves = RawMetric("d", EACH, "UINT64", inside="<cubepl>metric::time(e) / 2</cubepl>")
    found = Worth(with_metrics(tmp_path / "x.cubex", halves))
    assert found.at(0, Scope.EXCLUSIVE) == [5, 0.5, 6, 1.5, 13]


def test_types_of_minima_do_not_change_how_results_add_up(tmp_path: Path) -> None:
    least = RawMetric("d", EACH, "MINDOUBLE", inside="<cubepl>metric::time(e)</cubepl>")
    found = Worth(with_metrics(tmp_path / "x.cubex", least))
    assert found.at(0, Scope.INCLUSIVE) == [31, 25, 39, 33, 128]


def test_each_cell_chooses_its_branch(tmp_path: Path) -> None:
    """The tools choose once for all locations of a POSTDERIVED metric: all four would be selected."""
    formula = "{ ${r} = 0; if ( metric::visits(e) > 25 ) { ${r} = 1; }; return ${r}; }"
    assert worth(tmp_path, AFTER, formula).at(FOO, Scope.EXCLUSIVE) == [0, 0, 1, 1, 1]
    assert worth(tmp_path, EACH, formula).at(FOO, Scope.EXCLUSIVE) == [0, 0, 1, 1, 2]


def test_negative_exclusive_values_stay_negative(tmp_path: Path) -> None:
    twice = RawMetric("u", "INCLUSIVE", "UINT64", {0: (10, 9, 9, 9), 1: (12, 4, 4, 4), 4: (1, 1, 1, 1)})
    found = Worth(with_metrics(tmp_path / "x.cubex", twice, derived("d", AFTER, "metric::u()")))
    assert found.at(0, Scope.EXCLUSIVE) == [-3, 4, 4, 4, 9]


RULES: list[tuple[list[tuple[str, str]], list[float]]] = [  # main, inclusive, over the whole system
    ([("aggr", "max(arg1, arg2)")], [31, 25, 39, 33, 45]),
    ([("plus", "max(arg1, arg2)")], [10, 7, 12, 8, 26]),
    ([("aggr", "max(${arg1}, ${arg2} * 1)")], [31, 25, 39, 33, 45]),
    ([("plus", "{ ${r} = arg1; if ( arg2 > arg1 ) { ${r} = arg2; }; return ${r}; }")], [10, 7, 12, 8, 26]),
    ([("plus", "arg1 + 2 * arg2")], [72, 73, 94, 95, 334]),
    ([("minus", "0")], [31, 25, 39, 33, 128]),
]


@pytest.mark.parametrize(("rules", "total"), RULES)
def test_rules_of_adding_up(rules: list[tuple[str, str]], total: list[float], tmp_path: Path) -> None:
    assert worth(tmp_path, EACH, "metric::time(e)", "", rules).at(0, Scope.INCLUSIVE) == total


def test_a_rule_of_taking_children_off(tmp_path: Path) -> None:
    found = worth(tmp_path, EACH_INCLUSIVE, "metric::time(i)", "", [("minus", "arg1 - arg2 / 2")])
    assert found.at(0, Scope.EXCLUSIVE) == [31 - 10.5, 25 - 12, 39 - 13.5, 33 - 15, 128 - 51]
    assert worth(tmp_path, AFTER, "metric::time()", "", [("plus", "1")]).at(0, Scope.INCLUSIVE)[-1] == 128


# -- references --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("formula", "kind", "exclusive", "inclusive"),
    [
        ("metric::time(*)", AFTER, [5, 6, 7, 8, 26], [14, 15, 16, 17, 62]),
        ("metric::context::time(i)", AFTER, [14, 15, 16, 17, 62], [14, 15, 16, 17, 62]),
        ("metric::time(e,i)", AFTER, [5, 6, 7, 8, 26], [5, 6, 7, 8, 26]),
        ("metric::fixed::time(e)", AFTER, [26] * 5, [26] * 5),
        ("metric::fixed::time(e,i)", AFTER, [5, 6, 7, 8, 26], [5, 6, 7, 8, 26]),
        ("metric::call::time(3,i)", AFTER, [26] * 5, [26] * 5),
        ("metric::call::time(1,e)", EACH, [26] * 4 + [104], [78] * 4 + [312]),
        ("metric::call::time(${calculation::callpath::id},i,0,i)", AFTER, [62] * 5, [62] * 5),
        ("metric::time(e) / metric::fixed::time(e)", AFTER, [5 / 26, 6 / 26, 7 / 26, 8 / 26, 1], None),
        ("metric::nothing(e) + 1", AFTER, [1] * 5, [1] * 5),
        ("metric::lo(e)", AFTER, [2.5, 3, 3.5, 4, 2.5], None),
        ("${calculation::region::id}", AFTER, [1] * 5, None),
        ("${calculation::metric::id}", AFTER, [5] * 5, None),
        ("${calculation::sysres::kind}", EACH, [7, 7, 7, 7, 28], None),
        ("${calculation::sysres::kind} + ${calculation::sysres::id}", AFTER, [0] * 5, None),
    ],
)
def test_references(
    formula: str, kind: str, exclusive: list[float], inclusive: list[float] | None, tmp_path: Path
) -> None:
    found = worth(tmp_path, kind, formula)
    assert found.at(FOO, Scope.EXCLUSIVE) == pytest.approx(exclusive)
    assert inclusive is None or found.at(FOO, Scope.INCLUSIVE) == pytest.approx(inclusive)


@pytest.mark.parametrize("formula", ["metric::call::time(77,i)", "metric::call::time(1,i,3,i)", "${a}[0 - 2]"])
def test_references_that_mean_nothing(formula: str, tmp_path: Path) -> None:
    found = worth(tmp_path, AFTER, formula)
    with pytest.raises(NotEvaluated, match=r"d is a derived metric .*line 1, column"):
        found.at(FOO, Scope.EXCLUSIVE)


def test_operands_are_combined_before_a_ratio_of_a_function(tmp_path: Path) -> None:
    """foo lies at two places: (26 + 16) s of (100 + 12) visits."""
    experiment = with_metrics(tmp_path / "x.cubex", derived("d", AFTER, "metric::time() / metric::visits()"))
    shown = {row["name"]: row["exclusive"] for row in experiment.top("d")}
    assert shown["foo"] == 42 / 112


def test_a_formula_of_the_call_path_is_shown_where_rows_are_call_paths(tmp_path: Path) -> None:
    experiment = with_metrics(
        tmp_path / "x.cubex", derived("d", AFTER, "${calculation::callpath::id} + 0 * metric::time()")
    )
    shown = experiment.tree("d", limit=100)
    assert sorted(shown["exclusive"]) == list(range(7))
    with pytest.raises(NotEvaluated, match="a row of this view may stand for many"):
        experiment.top("d")


# -- init blocks, VOID -------------------------------------------------------------------------------------------------


def test_init_blocks_run_once_and_share_what_is_global(tmp_path: Path) -> None:
    """All blocks run before anything is evaluated, in the order of the metrics; locals do not survive."""
    first = derived(
        "first", AFTER, "${shared} * 10 + ${local}", "{ global(shared); ${shared} = 1; ${local} = 5; return 7; }"
    )
    second = derived("d", AFTER, "${shared}", "{ ${shared} = ${shared} + 1 + ${local}; return 0; }")
    found = Worth(with_metrics(tmp_path / "x.cubex", first, second))
    assert found.at(0, Scope.EXCLUSIVE) == [2] * 5
    assert found.experiment.totals("first", Scope.EXCLUSIVE)[0] == 20


def test_a_formula_changes_globals_for_itself_only(tmp_path: Path) -> None:
    counting = derived("d", AFTER, "{ ${n} = ${n} + 1; return ${n}; }", "{ global(n); ${n} = 1; return 0; }")
    found = Worth(with_metrics(tmp_path / "x.cubex", counting, derived("other", AFTER, "${n}")))
    assert found.at(0, Scope.EXCLUSIVE) == [2] * 5
    assert found.at(0, Scope.EXCLUSIVE) == [2] * 5
    assert found.experiment.totals("other", Scope.EXCLUSIVE)[0] == 1


def test_init_blocks_see_metrics_by_call_path_only(tmp_path: Path) -> None:
    init = "{ global(a); ${a} = metric::time(i) + metric::call::time(1,i); return 0; }"
    assert worth(tmp_path, AFTER, "${a}", init).at(0, Scope.EXCLUSIVE) == [62] * 5


@pytest.mark.usefixtures("impatient")
def test_an_init_block_that_fails_takes_formulas_with_it_that_read_variables(tmp_path: Path) -> None:
    broken = derived("d", AFTER, "metric::time()", "{ while ( true ) { ${i} = 1; }; return 0; }")
    found = with_metrics(tmp_path / "x.cubex", broken, derived("mask", EACH, f"{MPI} * metric::time(e)"))
    assert found.totals("d", Scope.INCLUSIVE)[0] == 128
    with pytest.raises(NotEvaluated, match=r"mask is .*init block of metric d: line 1, column 3: the loop"):
        found.totals("mask", Scope.INCLUSIVE)


R_MINI_INIT = """{ global(run); global(mpi); global(p2p); global(coll); ${sawMPI} = 0; ${sawIO} = 0; ${i} = 0;
  while ( ${i} < ${cube::#callpaths} ) {
    ${run}[${i}] = 1;  ${r} = ${cube::callpath::calleeid}[${i}];
    if ( ${cube::region::paradigm}[${r}] seq "MPI" ) { ${sawMPI} = 1; ${mpi}[${i}] = 1;
      if ( ${cube::region::name}[${r}] =~ /^MPI_(S|R)e(nd|cv)$/ ) { ${p2p}[${i}] = 1; }
      elseif ( not ( ${cube::region::role}[${r}] eq "function" ) ) { ${coll}[${i}] = 1; }; }
    elseif ( ${cube::region::paradigm}[${r}] eq "io" ) { ${sawIO} = 1; };
    ${i} = ${i} + 1; };
  if ( ${sawIO} == 0 ) { cube::metric::set::io("value", "VOID"); };
  return 0; }"""


def masked(name: str) -> str:
    return f"${{{name}}}[${{calculation::callpath::id}}] * metric::time(e)"


def r_mini(path: Path) -> Experiment:
    p2p, io = derived("p2p", EACH, masked("p2p")), derived("io", EACH, "metric::time(e)")
    mpi, comp = derived("mpi", EACH, masked("mpi")), derived("comp", AFTER, "metric::execution() - metric::mpi()")
    mpi.below = [p2p]
    execution = derived("execution", EACH, masked("run"), R_MINI_INIT)
    execution.below = [comp, mpi, io]
    per_visit = derived("pervisit", AFTER, "metric::time() / metric::visits()")
    cube = r1()
    cube.metrics[1].below = [execution]
    for metric in cube.metrics:
        metric.id = -1
    return opened(Cube(R1_TREE, [*cube.metrics, per_visit]).write(path))


def test_r_mini(tmp_path: Path) -> None:
    found = r_mini(tmp_path / "x.cubex")

    def at(name: str, context: int, scope: Scope = Scope.INCLUSIVE) -> list[float]:
        return [*found.matrix(name, scope)[context].tolist(), float(found.totals(name, scope)[context])]

    assert at("comp", 0) == [19, 14, 29, 24, 86]
    assert at("mpi", 0) == [12, 11, 10, 9, 42]
    assert at("p2p", 0) == [8, 7, 6, 5, 26]
    assert at("execution", 0) == [31, 25, 39, 33, 128]
    assert at("comp", FOO) == [6, 8, 10, 12, 36]
    assert at("mpi", FOO) == [8, 7, 6, 5, 26]
    assert at("pervisit", 0) == pytest.approx([1.19231, 0.78125, 0.8125, 0.611111, 0.8], rel=1e-5)
    excl = at("pervisit", 0, Scope.EXCLUSIVE)
    assert [excl[0], excl[2], excl[4]] == [10, 12, 13]
    assert all(math.isnan(excl[k]) for k in (1, 3))
    assert found.metrics.first("comp").aggregation == Aggregation.SUM
    assert found.metrics.first("pervisit").aggregation == Aggregation.NONE


def test_metrics_that_statements_mark_void_have_no_values(tmp_path: Path) -> None:
    found = r_mini(tmp_path / "x.cubex")
    assert not found.metrics.first("io").has_values
    with pytest.raises(NotEvaluated, match=r"io is a derived metric .*marks it VOID"):
        found.totals("io", Scope.EXCLUSIVE)


def test_metrics_with_values_that_statements_mark_void_are_hidden(tmp_path: Path) -> None:
    init = '{ cube::metric::set::visits("value", "VOID"); return 0; }'
    found = with_metrics(tmp_path / "x.cubex", derived("d", AFTER, "metric::time()", init))
    assert {name: found.metrics.first(name).visible for name in ("visits", "time")} == {"visits": False, "time": True}
    assert found.totals("visits", Scope.INCLUSIVE)[0] == 160  # as the file has them


def test_void_metrics_are_0_in_formulas(tmp_path: Path) -> None:
    void = RawMetric("gone", EACH, inside="<val>VOID</val><cubepl>metric::time(e)</cubepl>")
    found = with_metrics(tmp_path / "x.cubex", void, derived("d", AFTER, "metric::time() - metric::gone()"))
    assert found.totals("d", Scope.INCLUSIVE)[0] == 128
    assert [w.text for w in found.warnings if "marks VOID as 0" in w.text and w.text.endswith(": gone")]
    with pytest.raises(NotEvaluated, match="marks it VOID"):
        found.totals("gone", Scope.INCLUSIVE)


# -- what cannot be evaluated ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("formula", "why"),
    [
        ("metric::time() +\n  ", "line 2, column 3: expected a value, found the end"),
        ("round(metric::time())", "line 1, column 1: there is no function or value 'round'"),
        ("1 + metric::d()", "line 1, column 5: formulas need one another in a circle: d -> d"),
        ("1 +\n metric::broken()", "line 2, column 2: metric broken cannot be evaluated: line 1, column 1: expected a"),
        ("metric::needs()", "metric needs cannot be evaluated, because of metric broken: line 1, column 1: expected a"),
        ("${cube::metric::children}[0]", "line 1, column 1: cube::metric::children is not supported"),
    ],
)
def test_a_formula_that_cannot_be_read(formula: str, why: str, tmp_path: Path) -> None:
    others = derived("broken", AFTER, ")"), derived("needs", AFTER, "metric::broken()")
    found = with_metrics(tmp_path / "x.cubex", derived("d", AFTER, formula), *others)
    with pytest.raises(NotEvaluated) as error:
        found.totals("d", Scope.EXCLUSIVE)
    assert why in str(error.value)
    (note,) = (w.text for w in found.warnings if "cannot be evaluated; the first is d: " in w.text)
    assert note.count("3 derived metrics") == 1
    assert why in note
    assert found.totals("time", Scope.INCLUSIVE)[0] == 128


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("callgrove.model.cubepl.interpreter.MOST_STEPS", 1000)


@pytest.mark.usefixtures("impatient")
def test_an_endless_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = worth(tmp_path, AFTER, "{\n while ( metric::time() >= 0 ) { ${i} = ${i} + 1; };\n return ${i}; }")
    with pytest.raises(NotEvaluated, match="line 2, column 2: the loop does not end within 1,000 steps"):
        found.at(0, Scope.EXCLUSIVE)
    monkeypatch.setattr("callgrove.model.cubepl.derivation.Interpreter", None)  # nobody waits for it twice
    with pytest.raises(NotEvaluated, match="the loop does not end"):
        found.at(0, Scope.INCLUSIVE)


def test_circles_of_metrics(tmp_path: Path) -> None:
    ring = [derived(name, AFTER, f"metric::{following}()") for name, following in ("ab", "bc", "ca")]
    found = with_metrics(tmp_path / "x.cubex", *ring, derived("d", EACH, "metric::a(e) + 1"))
    for name in "abcd":
        with pytest.raises(NotEvaluated, match=f"{name} is a derived metric .*circle: a -> b -> c -> a"):
            found.totals(name, Scope.EXCLUSIVE)


def test_very_many_metrics_in_circles(tmp_path: Path) -> None:
    """What is wrong with each is said, and no longer for being far from the cause."""
    n = 3000
    ring = [derived(f"m{k}", AFTER, f"metric::m{(k + 1) % n}() + metric::m0()") for k in range(n)]
    found = with_metrics(tmp_path / "x.cubex", *ring)
    reasons = [m.derivation.reason for m in found.metrics if m.derivation is not None]
    assert len(reasons) == n
    assert all("circle" in reason and len(reason) < 300 for reason in reasons)


def test_very_long_chains_of_metrics(tmp_path: Path) -> None:
    chain = [derived("m0", AFTER, "metric::time() + 0")]
    chain += [derived(f"m{k}", AFTER, f"metric::m{k - 1}() + 0") for k in range(1, 500)]
    found = with_metrics(tmp_path / "x.cubex", *chain)
    assert found.totals("m50", Scope.INCLUSIVE)[0] == 128
    with pytest.raises(NotEvaluated, match="formulas need one another"):
        found.totals("m499", Scope.INCLUSIVE)


def test_what_is_taken_as_0_is_said_once(tmp_path: Path) -> None:
    found = with_metrics(
        tmp_path / "x.cubex",
        derived("a", AFTER, "metric::x() + metric::y()"),
        derived("b", AFTER, "metric::x() + metric::time()"),
        derived("c", AFTER, "{ ${p} = env(HOME); if ( ${p} =~ /(/ ) { ${q} = 1; }; return ${q}; }"),
    )
    texts = [w.text.split("x.cubex: ")[1] for w in found.warnings]
    assert texts == [
        "formulas take metrics that the file does not have as 0, as Cube's tools do: x, y",
        "formulas ask for the environment, which they never see; these are empty: HOME",
        "formulas hold broken regular expressions, which match nothing, as in Cube's tools: (",
    ]


# -- parts of an experiment, and copies of it --------------------------------------------------------------------------


TAKERS = ("main", "foo")  # they call bar, and take its cost where it is pruned


def test_formulas_mean_the_same_in_a_part(tmp_path: Path) -> None:
    """Ids of call paths stay those of the file, whichever are left. Contexts that become one add up what they have."""
    found = worth(tmp_path, EACH, f"{MPI} * metric::time(e) + ${{calculation::callpath::id}}", INIT).experiment
    whole = found.matrix("d", Scope.EXCLUSIVE)
    parts = (found.select(ranks="1"), ()), (found.cut(roots=["main -> foo"]), ()), (found.cut(prunes=["bar"]), TAKERS)
    for part, takers in parts:
        where = [found.contexts.source_id.tolist().index(id_) for id_ in part.contexts.source_id.tolist()]
        assert len(where) > 1
        columns = [found.profiles.source_id.tolist().index(id_) for id_ in part.profiles.source_id.tolist()]
        values = part.matrix("d", Scope.EXCLUSIVE)
        changed = [k for k, c in enumerate(where) if found.contexts.name(c) in takers]
        keep = np.setdiff1d(np.arange(len(where)), changed)
        np.testing.assert_array_equal(values[keep], whole[np.ix_(where, columns)][keep])
    both = [context for context in range(len(found.contexts)) if found.contexts.label(context) == "foo"]
    assert len(both) > 1
    merged = found.select(under="foo", rest="drop").matrix("d", Scope.EXCLUSIVE)
    np.testing.assert_array_equal(merged[0], whole[both].sum(axis=0))


def test_what_cube_files_say_survives_a_copy(tmp_path: Path, capsys: Capture) -> None:
    found = r_mini(tmp_path / "x.cubex")
    rule = derived("most", EACH, "metric::time(e)", "", [("plus", "max(arg1,arg2)"), ("aggr", "arg1 + arg2")])
    both = Cube(R1_TREE, [*r1().metrics, rule]).write(tmp_path / "rules.cubex")
    for path, name in ((tmp_path / "x.cubex", "comp"), (both, "most")):
        first = opened(path)
        run(capsys, "convert", path, tmp_path / f"copy-{name}.cubex")
        again = opened(tmp_path / f"copy-{name}.cubex")
        for scope in (Scope.EXCLUSIVE, Scope.INCLUSIVE):
            np.testing.assert_array_equal(again.totals(name, scope), first.totals(name, scope))
        said = [{k: v for k, v in m.attributes if k.startswith("cube: ")} for m in first.metrics]
        assert [{k: v for k, v in m.attributes if k.startswith("cube: ")} for m in again.metrics] == said
        assert [m.formula for m in again.metrics] == [m.formula for m in first.metrics]
    assert any("cubeplinit" in key for m in found.metrics for key, _ in m.attributes)


# -- real files --------------------------------------------------------------------------------------------------------

EXPECTED = SHARED / "acceptance" / "expected" / "cube"
DERIVED_FILE = SHARED / "acceptance" / "inputs" / "cube" / "mpi4-derived.cubex"


def read_expected(name: str) -> tuple[dict[str, Any], list[dict[str, str]]]:
    with gzip.open(EXPECTED / f"{name}.json.gz", "rt") as file:
        about = json.load(file)
    with gzip.open(EXPECTED / f"{name}.values.csv.gz", "rt") as file:
        return about, list(csv.DictReader(file))


@pytest.mark.parametrize("scope", [Scope.EXCLUSIVE, Scope.INCLUSIVE])
def test_a_real_file_equals_cubelib(scope: Scope, shared: Path) -> None:
    """Every value that the reference tools make of the file, at 1e-12 of the largest of its metric."""
    found = opened(DERIVED_FILE)
    about, rows = read_expected("cube.mpi4-derived.cubex")
    context = {id_: k for k, id_ in enumerate(found.contexts.source_id.tolist())}
    column = {id_: k for k, id_ in enumerate(found.profiles.source_id.tolist())}
    wanted: dict[str, dict[tuple[int, int], float]] = {}
    for row in rows:
        name, _, dtype, _ = about["metrics"][row["metric"]]
        if row[scope.word] and dtype != "MINDOUBLE":
            cell = context[int(row["cnode"])], column[int(row["location"])]
            wanted.setdefault(name, {})[cell] = float(row[scope.word])
    names = [m.name for m in found.metrics if m.derivation is not None]
    assert len(set(names) & set(wanted)) > 10
    for name in {*names, *wanted} & set(found.metrics.quantities):
        if found.metrics.first(name).dtype == "MINDOUBLE":
            continue
        matrix = found.matrix(name, scope)
        theirs = np.zeros(matrix.shape)
        for cell, value in wanted.get(name, {}).items():
            theirs[cell] = value
        there = np.where(np.isfinite(matrix), matrix, 0.0)
        if name in wanted or about["metrics"].get(str(found.metrics.first(name).source_id), ["", ""])[1] == EACH:
            np.testing.assert_allclose(there, theirs, rtol=1e-12, atol=1e-12 * np.abs(theirs).max(), err_msg=name)


def spec_definitions(spec: bytes) -> list[Definition]:
    """The metrics of a specification. It has two roots, and raw `<` in its formulas."""
    root = ElementTree.fromstring(b"<all>" + repair_cubepl(re.sub(rb"<\?xml.*?\?>", b"", spec)) + b"</all>")
    out = []
    for metric in root.iter("metric"):
        texts = {child.tag: child.text or "" for child in metric}
        kind = metric.get("type", "")
        row = Metric(texts["uniq_name"], Scope.NONE, formula=texts.get("cubepl", "") if kind in KINDS else "")
        rules = tuple((rule.get("cubeplaggrtype", ""), rule.text or "") for rule in metric.iter("cubeplaggr"))
        out.append(Definition(row, kind, texts.get("cubeplinit", ""), rules))
    return out


@pytest.mark.parametrize(
    ("name", "n_formulas"),
    [
        ("own/cube/mpi4/profile.cubex", 105),
        ("public/pycubexr/call_tree_test/call_tree_test.cubex", 105),
        ("public/pycubexr/bt-mz_sum.p2.r1/cube4.8_with_checksum_bug.cubex", 109),
    ],
)
def test_specifications_of_score_p(name: str, n_formulas: int, shared: Path) -> None:
    """Every formula of every specification in real files is read, and its init block runs."""
    found = opened(SHARED / "data" / name)
    compiled = compile_metrics(spec_definitions(found.attachments["remapping.spec"].read()))
    assert sum(row.derivation is not None for row in compiled.rows) == n_formulas
    assert not compiled.unavailable
    assert not compiled.program.state(found.contexts).failure
    void = compiled.program.voids(found.contexts)
    assert "hip_time" in void
    assert ("mpi" in void) == ("mpi" not in found.contexts.regions.text("paradigm"))
