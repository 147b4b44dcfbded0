"""Derived metrics of a part, and of several runs as one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import callgrove
from callgrove import Scope
from callgrove.errors import NotEvaluated
from callgrove.model.derived import derive_blocks, mark_orphans
from callgrove.model.experiment import Experiment
from callgrove.model.materialised import is_storable, materialise
from tests.formats.cube.raw_cubes import R1_TIME, R1_TREE, R1_VISITS, Cube, RawMetric
from tests.formats.written import read

DEFINITIONS = ("ratio = time / visits", "twice = 2 * time", "deep = 3 * twice / ratio", "per = each(time / visits)")
BOTH = (Scope.EXCLUSIVE, Scope.INCLUSIVE)


def made(path: Path, *more: RawMetric) -> Experiment:
    metrics = [
        RawMetric("time", rows=R1_TIME),
        RawMetric("visits", dtype="UINT64", rows=R1_VISITS, uom="occ"),
        RawMetric("bytes", rows={3: (100, 200, 300, 400)}, uom="bytes"),
        *more,
    ]
    return read(Cube(R1_TREE, metrics).write(path))


@pytest.fixture
def whole(tmp_path: Path) -> Experiment:
    return made(tmp_path / "r1.cubex").with_metric(*DEFINITIONS)


# -- a part ------------------------------------------------------------------------------------------------------------


def test_what_a_formula_needs_stays_and_is_hidden(whole: Experiment) -> None:
    part = whole.select(metrics=["deep"])
    assert part.metrics.quantities == ("time", "visits", "ratio", "twice", "deep")
    assert [m.name for m in part.metrics if m.visible] == ["deep"]
    assert any("kept for formulas, and hidden: time, visits, ratio, twice" in w.text for w in part.warnings)
    for scope in BOTH:
        np.testing.assert_array_equal(part.totals("deep", scope), whole.totals("deep", scope))


def test_what_was_asked_for_stays_visible(whole: Experiment) -> None:
    part = whole.select(metrics=["time", "ratio"])
    assert [m.name for m in part.metrics if m.visible] == ["time", "ratio"]
    assert [m.name for m in part.metrics if not m.visible] == ["visits"]


def test_measured_metrics_bring_nothing_along(whole: Experiment) -> None:
    part = whole.select(metrics=["visits"])
    assert part.metrics.quantities == ("visits",)
    assert part.warnings == whole.warnings


def test_a_part_computes_its_formulas_anew(whole: Experiment) -> None:
    """main -> foo, exclusive, rank 1: 15 s, 70 visits."""
    part = whole.select(ranks={1})
    foo = 1
    assert part.totals("ratio", Scope.EXCLUSIVE)[foo] == pytest.approx(15 / 70)
    assert part.totals("per", Scope.EXCLUSIVE)[foo] == pytest.approx(7 / 30 + 8 / 40)
    assert part.totals("deep", Scope.EXCLUSIVE)[foo] == pytest.approx(3 * 30 / (15 / 70))


def test_contexts_without_any_operand_are_unused(whole: Experiment) -> None:
    part = whole.with_metric("density = bytes / (bytes + 1)").select(metrics=["density"], drop_unused=True)
    assert [part.contexts.label(context) for context in range(len(part.contexts))] == ["main", "foo", "MPI_Send"]


def test_a_formula_over_what_is_gone_says_so(whole: Experiment) -> None:
    kept = [m for m in whole.metrics if m.name != "visits"]
    marked = {m.name: m for m in mark_orphans(kept, whole.metrics.quantities)}
    reason = marked["ratio"].derivation
    assert reason is not None
    assert "visits" in reason.reason
    assert marked["twice"] == whole.metrics.first("twice")


def test_cutting_computes_formulas_over_the_tree_that_is_left(whole: Experiment) -> None:
    """cube.md 12.1, cut -p foo: time of main 24 16 28 20, visits 18 28 40 50."""
    pruned = callgrove.cut(whole, prunes=["foo"])
    assert pruned.totals("ratio", Scope.EXCLUSIVE)[0] == pytest.approx(88 / 136)
    assert pruned.totals("per", Scope.EXCLUSIVE)[0] == pytest.approx(24 / 18 + 16 / 28 + 28 / 40 + 20 / 50)
    rooted = callgrove.cut(whole, roots=["foo"])
    assert rooted.totals("ratio", Scope.INCLUSIVE)[0] == pytest.approx(62 / 134)


# -- values in place of formulas ---------------------------------------------------------------------------------------


def test_materialised_metrics_have_the_same_values(whole: Experiment) -> None:
    assert [name for name in whole.metrics.derived if is_storable(whole, name)] == ["twice", "per"]
    stored = materialise(whole, {"twice", "per"})
    assert stored.metrics.derived == ("ratio", "deep")
    for name in ("twice", "per"):
        for scope in BOTH:
            np.testing.assert_array_equal(stored.totals(name, scope), whole.totals(name, scope))
            np.testing.assert_array_equal(stored.matrix(name, scope), whole.matrix(name, scope))
    assert dict(stored.metrics.first("per").attributes)["formula"] == "each(time / visits)"
    assert stored.totals("deep", Scope.EXCLUSIVE)[1] == whole.totals("deep", Scope.EXCLUSIVE)[1]


def test_materialised_values_can_be_asked_for_in_every_way(whole: Experiment) -> None:
    stored = materialise(whole, {"twice"})
    row = stored.metrics.quantities.index("twice")
    block = stored.values.profile(2)
    by_context = dict(zip(block.context[block.metric == row].tolist(), block.value[block.metric == row], strict=True))
    assert by_context == {context: 2.0 * R1_TIME[context][2] for context in R1_TIME}
    of_foo = stored.values.context(1)
    assert of_foo.value[of_foo.metric == row].tolist() == [2.0 * number for number in R1_TIME[1]]
    everything = stored.values.columns()
    assert (everything.metric == row).sum() == 28
    assert stored.values.dense(0, row).tolist() == [2.0 * R1_TIME[context][0] for context in range(7)]


def test_values_of_one_profile_know_of_all_profiles(tmp_path: Path) -> None:
    """`profiles.max` inside of `each` is over all profiles, however many are computed at once."""
    whole = made(tmp_path / "r1.cubex").with_metric("most = each(time / profiles.max(time))")
    row = whole.metrics.quantities.index("most")
    every = whole.profiles.measured
    alone = [next(derive_blocks(whole.values, np.array([p]), np.array([row]), every)).matrix for p in every.tolist()]
    np.testing.assert_array_equal(np.concatenate(alone, axis=1), whole.matrix("most", Scope.EXCLUSIVE))
    stored = materialise(whole, {"most"})
    np.testing.assert_array_equal(stored.values.profile(1).value, stored.values.profile(1).value)
    np.testing.assert_array_equal(stored.values.dense(1, row), whole.matrix("most", Scope.EXCLUSIVE)[:, 1])


# -- several runs ------------------------------------------------------------------------------------------------------


def formula(text: str, kind: str = "POSTDERIVED") -> RawMetric:
    return RawMetric("ratio", kind, inside=f"<cubepl>{text}</cubepl>")


def join(folder: Path, *metrics: RawMetric) -> Experiment:
    for number, metric in enumerate(metrics):
        place = folder / f"app.p{2**number}.r1"
        place.mkdir(parents=True)
        made(place / "profile.cubex", metric)
    opened = callgrove.open(folder)
    assert isinstance(opened, Experiment)
    return opened


def test_runs_with_the_same_formula_keep_it(tmp_path: Path) -> None:
    """Equal texts of different files are equal formulas."""
    runs = join(tmp_path / "runs", *(formula("metric::time() / metric::visits()") for _ in range(2)))
    assert runs.metrics.derived == ("ratio",)
    assert runs.totals("ratio", Scope.EXCLUSIVE)[1] == pytest.approx(26 / 100)
    first = runs.profiles.where(runs={0})
    assert runs.totals("ratio", Scope.EXCLUSIVE, first)[1] == pytest.approx(26 / 100)
    assert not [w for w in runs.warnings if "ratio" in w.text]


@pytest.mark.parametrize(
    ("other", "why"),
    [
        (formula("metric::time() / 2"), "its formula is not the same in all runs"),
        (formula("metric::time(e) / metric::visits(e)", "PREDERIVED_EXCLUSIVE"), "its formula is not the same"),
        (RawMetric("ratio", rows=R1_TIME), "some runs derive it, others measured it"),
    ],
)
@pytest.mark.parametrize("first", [True, False])
def test_runs_that_differ_say_so(other: RawMetric, why: str, first: bool, tmp_path: Path) -> None:
    same = formula("metric::time() / metric::visits()")
    runs = join(tmp_path / "runs", *((same, other) if first else (other, same)))
    assert any(w.text.startswith("metric ratio: ") and why in w.text for w in runs.warnings)
    for scope in BOTH:
        with pytest.raises(NotEvaluated, match=why.partition(",")[0]):
            runs.totals("ratio", scope)
    losses = callgrove.write(runs, tmp_path / "out.cubex")
    assert any(f"derived metric ratio: left out, as {why}" in line for line in losses)
    assert "ratio" not in read(tmp_path / "out.cubex").metrics.quantities


def test_runs_that_lack_an_operand_do_not_count_as_the_same(tmp_path: Path) -> None:
    """CubePL takes a metric that a file does not have as 0; in the other run it is not."""
    for number, more in enumerate(([], [RawMetric("extra", rows=R1_TIME)])):
        place = tmp_path / "runs" / f"app.p{number + 1}.r1"
        place.mkdir(parents=True)
        made(place / "profile.cubex", formula("metric::time() + metric::extra()"), *more)
    runs = callgrove.open(tmp_path / "runs")
    assert isinstance(runs, Experiment)
    with pytest.raises(NotEvaluated, match="not the same in all runs"):
        runs.totals("ratio", Scope.EXCLUSIVE)


def test_formulas_of_the_user_are_over_all_runs(tmp_path: Path) -> None:
    runs = join(tmp_path / "runs", RawMetric("x", rows=R1_TIME), RawMetric("x", rows=R1_TIME)).with_metric(*DEFINITIONS)
    assert runs.totals("per", Scope.EXCLUSIVE)[1] == pytest.approx(2 * (0.5 + 0.3 + 7 / 30 + 0.2))
    assert runs.select(runs={1}).totals("per", Scope.EXCLUSIVE)[1] == pytest.approx(0.5 + 0.3 + 7 / 30 + 0.2)
