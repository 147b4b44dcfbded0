"""Laws that hold for all experiments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from callgrove.algebra.cutting import common, cut, part
from callgrove.algebra.folding import Fold, apply_fold
from callgrove.algebra.operations import diff, mean, merge
from callgrove.errors import UsageError
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.computed_values import recipe
from callgrove.model.contexts import ContextKind, Relation
from callgrove.model.experiment import Experiment
from callgrove.model.joining import unify
from callgrove.model.metrics import Aggregation, Metric, Scope
from callgrove.model.profiles import ProfileKind
from callgrove.patterns.matching import Matcher
from tests.algebra.consistent import SCOPES, consistent, dense, in_scope
from tests.algebra.reference import is_sound, stored
from tests.exhaustive import try_examples
from tests.model.strategies import experiments

ANY = experiments(composite=True)
few = try_examples(25)  # of experiments, each of which takes a while to draw
SUMS = experiments(aggregations=(Aggregation.SUM,), traces=False, elided=False)


def listed(experiment: Experiment, values: dict[Any, Any]) -> dict[Any, Any]:
    return {key: value for key, value in values.items() if key[1] < experiment.contexts.n_listed}


def own(experiment: Experiment) -> dict[Any, Any]:
    """What an experiment stores of its measured profiles, which are numbered from 0 on."""
    first = len(experiment.profiles) - len(experiment.profiles.measured)
    return {(p - first, *rest): value for (p, *rest), value in stored(experiment).items()}


@few
@given(ANY)
def test_merged_with_itself_it_is_itself(e: Experiment) -> None:
    found = merge(e, e)
    assert is_sound(found)
    assert stored(found) == own(e)


@few
@given(ANY)
def test_the_mean_with_itself_is_itself(e: Experiment) -> None:
    e = part(e)
    found = mean(e, e, e)
    assert is_sound(found)
    composite = {m.name for m in e.metrics if m.composite is not None}
    expected = {k: v for k, v in listed(e, stored(e)).items() if k[2] not in composite}
    got = {k: v for k, v in stored(found).items() if k[2] not in composite}
    assert got == pytest.approx(expected, rel=1e-15)


@few
@given(ANY)
def test_the_difference_to_itself_is_zero(e: Experiment) -> None:
    assert set(stored(diff(e, e)).values()) <= {0}


@few
@given(ANY, st.integers(0, 15))
def test_parts_are_the_whole(e: Experiment, mask: int) -> None:
    chosen = {p for p in e.profiles.measured.tolist() if mask >> p & 1}
    assume(chosen and len(chosen) < len(e.profiles.measured))
    parts = part(e, profiles=chosen), part(e, profiles=chosen, invert=True)
    assert all(is_sound(p) for p in parts)
    assert sum(len(stored(p)) for p in parts) == len(stored(e))
    whole = merge(*parts, system="side-by-side")
    assert is_sound(whole)
    n = e.contexts.n_listed
    for metric in e.metrics:
        if metric.composite is None:
            pair = (
                x.values.totals(x.metrics.find(metric.name, metric.scope) or 0, x.profiles.measured)[:n]
                for x in (whole, e)
            )
            left, right = pair
            assert left == pytest.approx(
                right, rel=1e-12, abs=1e-6 * float(np.abs(right[np.isfinite(right)]).max(initial=0))
            )
    if not len(e.profiles.summaries):  # which the strategy gives traces as well
        assert whole.traces.n_samples == e.traces.n_samples
        assert whole.traces.n_spans == e.traces.n_spans


def expected_cell(e: Experiment, name: str, scope: Scope, profile: int, context: int) -> float:
    if name not in e.metrics.quantities or profile < 0 or context < 0:
        return 0.0
    way = recipe(e.metrics, name, scope)
    return float(way.apply(e.values.dense(profile, way.stored), e.contexts)[context])


def inverse(mapping: Any, wanted: int) -> int:
    found = np.flatnonzero(mapping == wanted)
    return int(found[0]) if len(found) else -1


@few
@given(SUMS, SUMS, st.booleans())
def test_cells_one_by_one(a: Experiment, b: Experiment, is_mean: bool) -> None:
    """Every value of a mean or a difference, from the two experiments themselves."""
    a, b = part(a), part(b)
    operation = mean if is_mean else diff
    found = operation(a, b, ignore=["unit"])
    assert is_sound(found)
    tree = unify([a.contexts, b.contexts], keep_elided=False)
    from callgrove.algebra.profiles import Systems, match_profiles

    profiles = match_profiles([a, b], Systems.UNION).maps
    got = stored(found)
    weights = (0.5, 0.5) if is_mean else (1.0, -1.0)
    for metric in found.metrics:
        for profile in range(len(found.profiles)):
            for context in range(len(found.contexts)):
                parts = [
                    w * expected_cell(e, metric.name, metric.scope, inverse(p, profile), inverse(c, context))
                    for w, e, p, c in zip(weights, (a, b), profiles, tree.maps, strict=True)
                ]
                value = got.get((profile, context, metric.name, metric.scope.word), 0)
                assert value == pytest.approx(sum(parts), rel=1e-9, abs=1e-9 * max(map(abs, parts)))


@few
@given(consistent(), consistent(), consistent())
def test_merging_is_associative_side_by_side(a: Experiment, b: Experiment, c: Experiment) -> None:
    one, two = (
        merge(a, b, c, system="side-by-side"),
        merge(merge(a, b, system="side-by-side"), c, system="side-by-side"),
    )
    assert stored(one) == stored(two)
    assert one.profiles.identifiers.rows(0) == two.profiles.identifiers.rows(0)


@few
@given(consistent(), consistent(), consistent())
def test_sums_are_associative(a: Experiment, b: Experiment, c: Experiment) -> None:
    assert stored(merge(a, b, c, conflict="sum")) == stored(merge(merge(a, b, conflict="sum"), c, conflict="sum"))


def fits_together(e: Experiment) -> None:
    """All stored scopes follow from the exclusive one."""
    exclusive = dense(e, "time", Scope.EXCLUSIVE)
    for scope in e.metrics.scopes("time"):
        assert dense(e, "time", scope) == pytest.approx(in_scope(e.contexts, exclusive, scope), abs=1e-9)


@few
@given(consistent(), consistent())
def test_scopes_are_kept(a: Experiment, b: Experiment) -> None:
    assert mean(a, b).metrics.scopes("time") == SCOPES


@few
@given(consistent(beside=True), consistent(beside=True))
def test_scopes_stay_consistent(a: Experiment, b: Experiment) -> None:
    for e in (a, mean(a, b), diff(a, b), mean(a, b, missing="skip"), common(a, a)):
        fits_together(e)
    for conflict in ("first", "last", "sum"):
        fits_together(merge(a, b, conflict=conflict))


@few
@given(consistent(), consistent())
def test_the_last_one_wins(a: Experiment, b: Experiment) -> None:
    """Cell by cell, on exclusive values."""
    found = merge(a, b, conflict="last")
    tree = unify([a.contexts, b.contexts])
    expected = np.zeros((len(found.contexts), len(found.profiles)))
    for e, places in zip((a, b), tree.maps, strict=True):
        values = dense(e, "time", Scope.EXCLUSIVE)
        context, profile = np.nonzero(values)
        expected[places[context], profile] = values[context, profile]
    assert dense(found, "time", Scope.EXCLUSIVE) == pytest.approx(expected)


def nested_in_siblings() -> Experiment:
    """main with three lines: the second is nested in the first, the third in the second."""
    builder = ExperimentBuilder("test")
    within = main = builder.add_context(-1, ContextKind.FUNCTION, builder.region(ContextKind.FUNCTION, "main"))
    for line in (1, 2, 3):
        region = builder.region(ContextKind.LINE, "", file=builder.file("x.c"), line=line)
        within = builder.add_context(main, ContextKind.LINE, region, Relation.LEXICAL, within=within)
    builder.add_profile(ProfileKind.THREAD, [(2, 0, 0, 3), (3, 0, 0, 3)])
    tree, cost = builder.build().contexts, np.array([[1], [2], [4], [8]])
    for row, scope in enumerate(SCOPES):
        builder.add_metric(Metric("time", scope, "sec"))
        builder.add_values([0] * 4, np.arange(4), [row] * 4, in_scope(tree, cost, scope)[:, 0].astype(float))
    builder.add_metric(Metric("visits", Scope.EXCLUSIVE, dtype="UINT64"))
    builder.add_values([0] * 4, np.arange(4), [len(SCOPES)] * 4, np.ones(4, np.int64))
    return builder.build()


@pytest.mark.parametrize("chosen", [{1}, {2}, {3}, {1, 3}, {1, 2}, {1, 2, 3}])
def test_what_is_nested_in_a_pruned_sibling_stays(chosen: set[int]) -> None:
    check_pruned(nested_in_siblings(), chosen)


@few
@given(consistent(beside=True), st.data())
def test_pruned_costs_go_to_the_caller(e: Experiment, data: Any) -> None:
    check_pruned(e, data.draw(st.sets(st.integers(1, len(e.contexts)), max_size=3)) & set(range(1, len(e.contexts))))


def check_pruned(e: Experiment, chosen: set[int]) -> None:
    """Against moving every exclusive cost by hand and adding all scopes up anew."""
    removed = sorted(c for c in chosen if not (set(e.contexts.ancestors(c)[1:]) & chosen))
    found, _ = apply_fold(e, Fold.without(e.contexts, np.array(removed, np.int64)))
    assert is_sound(found)
    gone = {c for r in removed for c in range(r, int(e.contexts.subtree_end[r]))}
    kept = [c for c in range(len(e.contexts)) if c not in gone]
    exclusive = dense(e, "time", Scope.EXCLUSIVE).copy()
    for head in removed:
        for context in range(head, int(e.contexts.subtree_end[head])):
            exclusive[e.contexts.parent[head]] += exclusive[context]
    for scope in SCOPES:
        assert dense(found, "time", scope) == pytest.approx(in_scope(found.contexts, exclusive[kept], scope), abs=1e-9)
    visits = dense(e, "visits", Scope.EXCLUSIVE).sum(axis=0)
    assert dense(found, "visits", Scope.EXCLUSIVE).sum(axis=0).tolist() == visits.tolist()


@few
@given(consistent(), st.sampled_from(["f", "g", "h", "/./", "f->g"]))
def test_cut_keeps_the_cost_of_subtrees(e: Experiment, text: str) -> None:
    try:
        found = cut(e, roots=[text])
    except UsageError:
        assume(False)
    assert is_sound(found)
    total = sum(dense(found, "time", Scope.INCLUSIVE)[root] for root in found.contexts.roots.tolist())
    assert total == pytest.approx(dense(found, "time", Scope.EXCLUSIVE).sum(axis=0))
    finds = find(e, text)
    tops = [c for c in sorted(finds) if not finds & set(e.contexts.ancestors(c)[1:])]
    assert total == pytest.approx(dense(e, "time", Scope.INCLUSIVE)[tops].sum(axis=0))


def find(e: Experiment, text: str) -> set[int]:
    return set(np.flatnonzero(Matcher(e).find(text)).tolist())


@few
@given(consistent(), consistent())
def test_common_is_in_both_and_loses_nothing(a: Experiment, b: Experiment) -> None:
    try:
        found = common(a, b)
    except UsageError:
        assume(False)
    assert is_sound(found)
    fits_together(found)
    for e, run in ((a, 0), (b, 1)):
        united = unify([e.contexts, found.contexts])
        assert len(united.tree) == len(e.contexts)  # nothing that e does not have
        members = np.flatnonzero(found.profiles.run == run)
        ours, own = dense(found, "time", Scope.EXCLUSIVE)[:, members], dense(e, "time", Scope.EXCLUSIVE)
        assert ours.sum(axis=0) == pytest.approx(own.sum(axis=0))


@few
@given(ANY, st.integers(0, 20))
def test_a_tile_at_a_time_gives_the_same(e: Experiment, seed: int) -> None:
    """Profiles, contexts and metrics asked for one by one are what the stream gives."""
    found = merge(e, e, conflict="sum")
    whole = stored(found)
    for metric in range(len(found.metrics)):
        row = found.metrics[metric]
        blocks = found.values.blocks(metrics=np.array([metric]))
        part_of = sum(len(b) for b in blocks)
        assert part_of == sum(1 for key in whole if key[2:] == (row.name, row.scope.word))
    numeric = np.array([k for k, m in enumerate(found.metrics) if m.composite is None], np.int64)
    for profile in range(len(found.profiles)):
        one = found.values.backend.profile(profile, numeric)
        assert len(one) == sum(1 for key in whole if key[0] == profile and key[2] != "atomic")
