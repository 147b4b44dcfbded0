"""Derived metrics of results: formulas where they hold, values where these add up, and a `lost:` note for the rest.

Numbers by hand: R1 and R2 of cube.md, appendix A. main -> foo, exclusive, over all locations: time 26 and 200 s, visits
100 and 4.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import callgrove
from callgrove import Scope
from callgrove.model.experiment import Experiment, replace_metrics
from callgrove.model.materialised import materialise
from tests.algebra.consistent import consistent
from tests.exhaustive import try_examples
from tests.formats.cube.raw_cubes import R1_TIME, R1_TREE, R1_VISITS, Cube, Node, RawMetric
from tests.formats.written import read, write

R2_TREE: list[Node] = [(0, "main", [(1, "bar", []), (2, "foo", [(3, "MPI_Send", []), (4, "new", [])])])]
R2_TIME = {0: [100.0] * 4, 1: [20.0] * 4, 2: [50.0] * 4, 3: [8.0] * 4, 4: [1.0] * 4}
BOTH = (Scope.EXCLUSIVE, Scope.INCLUSIVE)
DEFINITIONS = ("ratio = time / visits", "sum = 2 * time + time / 4", "per = each(time / visits)", "deep = ratio * sum")
Operation = Callable[[Experiment, Experiment], Experiment]
OPERATIONS: dict[str, Operation] = {
    "merge": lambda a, b: callgrove.merge(a, b, system="side-by-side"),
    "sum": lambda a, b: callgrove.merge(a, b, conflict="sum"),
    "collapse": lambda a, b: callgrove.merge(a, b, system="collapse"),
    "mean": callgrove.mean,
    "diff": callgrove.diff,
}
FORMULA, VALUES, LOST = "formula", "values", "lost"
BECOMES = {
    "merge": {"ratio": FORMULA, "sum": FORMULA, "per": FORMULA, "deep": FORMULA},
    "sum": {"ratio": FORMULA, "sum": FORMULA, "per": VALUES, "deep": FORMULA},
    "collapse": {"ratio": FORMULA, "sum": FORMULA, "per": VALUES, "deep": FORMULA},
    "mean": {"ratio": FORMULA, "sum": FORMULA, "per": VALUES, "deep": FORMULA},
    "diff": {"ratio": LOST, "sum": FORMULA, "per": VALUES, "deep": LOST},
}
FOO = "main->foo"


def r1(path: Path) -> Experiment:
    metrics = [RawMetric("time", rows=R1_TIME), RawMetric("visits", dtype="UINT64", rows=R1_VISITS, uom="occ")]
    return read(Cube(R1_TREE, metrics).write(path / "a.cubex"))


def r2(path: Path) -> Experiment:
    ones = {cnode: [1] * 4 for cnode in R2_TIME}
    metrics = [RawMetric("time", rows=R2_TIME), RawMetric("visits", dtype="UINT64", rows=ones, uom="occ")]
    return read(Cube(R2_TREE, metrics).write(path / "b.cubex"))


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Experiment, Experiment]:
    return r1(tmp_path).with_metric(*DEFINITIONS), r2(tmp_path).with_metric(*DEFINITIONS)


def at(experiment: Experiment, name: str, path: str, scope: Scope = Scope.EXCLUSIVE) -> float:
    tree = experiment.contexts
    (context,) = [c for c in range(tree.n_listed) if tree.path(c) == path]
    return float(experiment.totals(name, scope)[context])


def state(experiment: Experiment, name: str) -> str:
    if name not in experiment.metrics.quantities:
        return LOST
    return FORMULA if name in experiment.metrics.derived else VALUES


@pytest.mark.parametrize("word", OPERATIONS)
def test_what_becomes_of_each_kind(word: str, pair: tuple[Experiment, Experiment]) -> None:
    made = OPERATIONS[word](*pair)
    assert {name: state(made, name) for name in BECOMES[word]} == BECOMES[word]
    told = [w.text for w in made.warnings if w.text.startswith("lost: ")]
    for name, becomes in BECOMES[word].items():
        told_lost = [re.search(rf"lost: metrics? .*\b{name}\b.*: what", text) is not None for text in told]
        assert any(told_lost) == (becomes == LOST)
        assert any(f"formula of {name}: " in text for text in told) == (becomes == VALUES)


PER = {"a": 0.5 + 0.3 + 7 / 30 + 0.2, "b": 200.0}
WANTED = {  # at main -> foo, exclusive
    "merge": {"ratio": 226 / 104, "sum": 2.25 * 226, "per": PER["a"] + PER["b"], "deep": 226 / 104 * 2.25 * 226},
    "sum": {"ratio": 226 / 104, "sum": 2.25 * 226, "per": PER["a"] + PER["b"]},
    "collapse": {"ratio": 226 / 104, "sum": 2.25 * 226, "per": PER["a"] + PER["b"]},
    "mean": {"ratio": 113 / 52, "sum": 2.25 * 113, "per": (PER["a"] + PER["b"]) / 2},
    "diff": {"sum": 2.25 * -174, "per": PER["a"] - PER["b"]},
}


@pytest.mark.parametrize("word", OPERATIONS)
def test_numbers_by_hand(word: str, pair: tuple[Experiment, Experiment]) -> None:
    made = OPERATIONS[word](*pair)
    for name, wanted in WANTED[word].items():
        assert at(made, name, FOO) == pytest.approx(wanted, 1e-12), name


@pytest.mark.parametrize("word", OPERATIONS)
@pytest.mark.parametrize("target", ["cube", "callgrove", "hpctoolkit-release"])
def test_books_of_results_agree(word: str, target: str, pair: tuple[Experiment, Experiment], tmp_path: Path) -> None:
    made = OPERATIONS[word](*pair)
    report = write(made, tmp_path / "out", target)
    assert report.unexplained == []
    again = read(tmp_path / "out")
    shown = [name for name, becomes in BECOMES[word].items() if becomes != LOST]
    assert set(shown) <= set(again.metrics.quantities)
    for name in shown:
        for scope in BOTH:
            wanted = made.totals(name, scope)
            found = again.totals(name, scope)[-len(wanted) :]
            known = ~np.isnan(wanted) & (wanted != 0)  # CubePL: 0/0 is 0
            np.testing.assert_allclose(np.sort(found[known]), np.sort(wanted[known]), 1e-9, err_msg=name)


def test_operations_on_results(pair: tuple[Experiment, Experiment], tmp_path: Path) -> None:
    """What was computed for one operation is measured for the next, and its books still agree."""
    twice = callgrove.mean(callgrove.diff(*pair), callgrove.diff(*reversed(pair)))
    assert at(twice, "per", FOO) == pytest.approx(0.0, abs=1e-12)
    assert at(twice, "sum", FOO) == 0.0
    assert write(callgrove.cut(callgrove.mean(*pair), prunes=["foo"]), tmp_path / "out", "cube").unexplained == []


# -- inputs that do not agree ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("word", OPERATIONS)
def test_a_formula_of_one_input_only_becomes_values(word: str, tmp_path: Path) -> None:
    made = OPERATIONS[word](r1(tmp_path).with_metric("sum = 2 * time"), r2(tmp_path))
    assert state(made, "sum") == VALUES
    wanted = {"mean": 26.0}.get(word, 52.0)
    assert at(made, "sum", FOO) == wanted
    assert any("formula of sum: its formula is not the same in all inputs" in w.text for w in made.warnings)


def test_what_one_derives_and_another_measured_is_combined(tmp_path: Path) -> None:
    measured = Cube(R1_TREE, [RawMetric("time", rows=R1_TIME), RawMetric("twice", rows=R1_TIME)])
    other = read(measured.write(tmp_path / "c.cubex"))
    made = callgrove.diff(r1(tmp_path).with_metric("twice = 2 * time"), other)
    assert at(made, "twice", FOO) == 26.0
    assert any("twice: is derived in one input and measured in another" in w.text for w in made.warnings)


@pytest.mark.parametrize("word", ["sum", "mean", "diff"])
def test_ratios_that_differ_are_lost(word: str, tmp_path: Path) -> None:
    one, other = r1(tmp_path).with_metric("x = time / visits"), r2(tmp_path).with_metric("x = visits / time")
    made = OPERATIONS[word](one, other)
    assert state(made, "x") == LOST
    assert any("lost: metric x: its formula is not the same in all inputs" in w.text for w in made.warnings)


def test_a_merge_keeps_the_ratio_that_one_input_brings(tmp_path: Path) -> None:
    """Profile and counters of one run, each in a file of its own."""
    counters = read(Cube(R1_TREE, [RawMetric("cycles", rows=R1_TIME, uom="")]).write(tmp_path / "c.cubex"))
    made = callgrove.merge(r1(tmp_path).with_metric("x = time / visits"), counters)
    assert at(made, "x", FOO) == pytest.approx(0.26)


def test_extremes_are_no_terms(tmp_path: Path) -> None:
    """A difference of maxima is not a maximum of differences: `each` over one is computed before."""
    hi = RawMetric("hi", dtype="MAXDOUBLE", rows=R1_TIME)
    made = [read(Cube(R1_TREE, [hi]).write(tmp_path / f"{k}.cubex")).with_metric("x = each(hi)") for k in range(2)]
    assert state(callgrove.diff(*made), "x") == VALUES


# -- laws --------------------------------------------------------------------------------------------------------------

LINEAR = st.sampled_from(["2 * time", "time / 4 - 3 * time", "sum(time, time, -time)", "time - visits"])


def plain(experiment: Experiment, text: str) -> Experiment:
    rows = tuple(replace(metric, unit="") for metric in experiment.metrics)
    return replace_metrics(experiment, replace(experiment.metrics, rows=rows)).with_metric(f"x = {text}")


@try_examples(25)
@given(a=consistent(), b=consistent(), text=LINEAR, word=st.sampled_from(["diff", "mean", "sum"]))
def test_linear_formulas_commute_with_operations(a: Experiment, b: Experiment, text: str, word: str) -> None:
    """The formula of the result is the result of the formula: derived then combined, combined then derived."""
    one, other = plain(a, text), plain(b, text)
    kept = OPERATIONS[word](one, other)
    assert state(kept, "x") == FORMULA
    computed = OPERATIONS[word](materialise(one, {"x"}), materialise(other, {"x"}))
    for scope in BOTH:
        np.testing.assert_allclose(kept.totals("x", scope), computed.totals("x", scope), 1e-12, 1e-12)


@try_examples(25)
@given(a=consistent(), b=consistent())
def test_a_difference_of_what_is_computed_before(a: Experiment, b: Experiment) -> None:
    """`each` of a difference is the difference of `each`, at every root."""
    one, other = plain(a, "each(time * visits)"), plain(b, "each(time * visits)")
    made = callgrove.diff(one, other, by="name")
    wanted = one.root_total("x") - other.root_total("x")
    assert made.root_total("x") == pytest.approx(wanted, 1e-9, 1e-9)
