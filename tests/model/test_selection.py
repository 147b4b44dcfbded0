"""A part of an experiment: what is in it is computed here from the whole, one value and one sample after the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from callgrove.algebra import cutting
from callgrove.arrays import ABSENT, Array
from callgrove.errors import UsageError
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.contexts import ContextKind
from callgrove.model.experiment import Experiment, problems_of_experiment
from callgrove.model.metrics import Column, Metric, Scope
from callgrove.model.profiles import ProfileKind
from callgrove.model.runs import Run
from callgrove.model.selection import time_span
from callgrove.model.system import System, Topology, system_of
from callgrove.model.traces.events import LABEL, ArraySamples, Samples, Traces
from callgrove.model.traces.selected import SpanChoice
from tests.model.strategies import experiments

Values = dict[tuple[int, int, str, str], Any]
NAMED = {"n_profiles": 4, "composite": True}


def named_values(experiment: Experiment, profiles: list[int], contexts: list[int]) -> Values:
    """Values of measured profiles by the numbers that the whole has for profile and context."""
    out: Values = {}
    for block in experiment.values.blocks():
        part = block.triples()
        for p, c, m, value in zip(part.profile, part.context, part.metric, part.value.tolist(), strict=True):
            metric = experiment.metrics[int(m)]
            out[profiles[p], contexts[c], metric.name + metric.statistic, metric.scope.word] = value
    return out


def kept_of(experiment: Experiment, data: st.DataObject) -> list[int]:
    measured = experiment.profiles.measured.tolist()
    return sorted(data.draw(st.sets(st.sampled_from(measured), min_size=1))) if measured else []


@given(experiments(**NAMED), st.data())
def test_values_and_samples_are_those_of_the_whole(whole: Experiment, data: st.DataObject) -> None:
    kept = kept_of(whole, data)
    if not kept or not whole.metrics.quantities:
        return
    names = data.draw(st.sets(st.sampled_from(whole.metrics.quantities), min_size=1))
    window = data.draw(st.none() | st.tuples(st.integers(0, 60), st.integers(0, 70)).map(lambda t: (min(t), max(t))))
    part = whole.select(profiles=np.array(kept), metrics=sorted(names), window=window)
    assert problems_of_experiment(part, [b.triples() for b in part.values.blocks()]) == []
    every = list(range(len(whole.contexts)))
    everything = named_values(whole, list(range(len(whole.profiles))), every)
    have = named_values(part, kept, every)
    assert have == {k: v for k, v in everything.items() if k[0] in kept and k[2] in names}
    assert set(part.metrics.quantities) == names
    assert not len(part.profiles.summaries)
    assert samples(part, kept) == cut_samples(whole, kept, window, {m.name for m in part.metrics})
    assert part.traces.n_samples == sum(len(line) for line in samples(part, kept).values())


def samples(experiment: Experiment, profiles: list[int]) -> dict[tuple[int, int], list[tuple[int, int]]]:
    found = {}
    for number, (profile, _, line) in enumerate(experiment.traces.lines()):
        found[number, profiles[profile]] = list(zip(line.time_ns.tolist(), line.context.tolist(), strict=True))
    return found


def cut_samples(
    whole: Experiment, kept: list[int], window: tuple[int, int] | None, names: set[str]
) -> dict[tuple[int, int], list[tuple[int, int]]]:
    """By the rule: what begins in the window, and what was going on when it began, moved to its beginning."""
    found: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for profile, metric, line in whole.traces.lines():
        if profile not in kept or (metric >= 0 and whole.metrics[metric].name not in names):
            continue
        all_of_it = list(zip(line.time_ns.tolist(), line.context.tolist(), strict=True))
        if window is not None:
            before = [sample for sample in all_of_it if sample[0] < window[0]]
            all_of_it = [sample for sample in all_of_it if window[0] <= sample[0] < window[1]]
            if before and window[0] not in line.time_ns:
                all_of_it.insert(0, (window[0], before[-1][1]))
        found[len(found), profile] = all_of_it
    return found


@given(experiments(**NAMED), st.data())
def test_unused_contexts_are_those_without_value_or_sample_below(whole: Experiment, data: st.DataObject) -> None:
    kept = kept_of(whole, data)
    if not kept:
        return
    part = whole.select(profiles=np.array(kept), drop_unused=True)
    tree = whole.contexts
    used = {int(c) for b in whole.values.blocks(np.array(kept)) for c in b.triples().context}
    used |= {int(c) for p, _, line in whole.traces.lines() if p in kept for c in line.context.tolist() if c >= 0}
    for chunk in whole.traces.spans(("profile", "context")):
        used |= {int(c) for p, c in zip(chunk["profile"], chunk["context"], strict=True) if p in kept and c >= 0}
    waiting = list(used)
    while waiting:
        context = waiting.pop()
        for above in (int(tree.parent[context]), int(tree.within[context])):
            if above >= 0 and above not in used:
                used.add(above)
                waiting.append(above)
    contexts = sorted(used)
    assert part.contexts.source_id.tolist() == tree.source_id[contexts].tolist()
    assert [part.contexts.label(c) for c in range(len(contexts))] == [tree.label(c) for c in contexts]
    assert problems_of_experiment(part, []) == []
    full = whole.select(profiles=np.array(kept))
    every = list(range(len(tree)))
    assert named_values(part, kept, contexts) == named_values(full, kept, every)
    for quantity in part.metrics.quantities:
        _same_totals(part, full, quantity, contexts)


def _same_totals(part: Experiment, full: Experiment, quantity: str, contexts: list[int]) -> None:
    for scope in (Scope.EXCLUSIVE, Scope.INCLUSIVE):
        try:
            want: Array = full.totals(quantity, scope)
        except UsageError:
            continue
        have = part.totals(quantity, scope)
        np.testing.assert_array_equal(have, want[contexts])


@given(experiments(**NAMED), st.data())
def test_spans_and_what_belongs_to_them(whole: Experiment, data: st.DataObject) -> None:
    kept = kept_of(whole, data)
    if not kept or whole.traces.spans_backend is None:
        return
    part = whole.select(profiles=np.array(kept), window=(10, 40))
    old = [row for chunk in whole.traces.spans() for row in zip(*chunk.values(), strict=True)]
    names = list(next(iter(whole.traces.spans()), {}))
    rows = [dict(zip(names, row, strict=True)) for row in old]
    chosen = [
        r for r in rows if r["profile"] in kept and r["start_ns"] < 40 and (r["end_ns"] > 10 or r["start_ns"] >= 10)
    ]
    have = [row for chunk in part.traces.spans(("profile", "start_ns", "end_ns", "name")) for row in _rows(chunk)]
    assert have == [(k, kept.index(r["profile"]), r["start_ns"], r["end_ns"], r["name"]) for k, r in enumerate(chosen)]
    assert part.traces.n_spans == len(chosen)
    numbers = {int(r["span"]): k for k, r in enumerate(chosen)}
    assert part.traces.spans_backend is not None
    for name in ("kernel", "copy", "counter", "argument", "flow"):
        side, before = part.traces.spans_backend.side(name), whole.traces.spans_backend.side(name)
        if before is not None:
            assert side is not None
            assert side.span.tolist() == [numbers[s] for s in before.span.tolist() if s in numbers]


def _rows(chunk: Any) -> list[tuple[Any, ...]]:
    return list(zip(*(chunk[k].tolist() for k in ("span", "profile", "start_ns", "end_ns", "name")), strict=True))


@given(experiments(**NAMED))
def test_everything_is_the_experiment_itself(whole: Experiment) -> None:
    part = whole.select()
    assert part.contexts is whole.contexts
    assert part.metrics is whole.metrics
    assert part.profiles.kind.tolist() == whole.profiles.kind.tolist()
    assert part.values.n_stored() == whole.values.n_stored()
    assert whole.select(traces=False).traces == Traces()


def two_threads() -> ExperimentBuilder:
    """A summary and two threads with one context; columns over both metrics."""
    builder = ExperimentBuilder("test")
    context = builder.add_context(-1, ContextKind.FUNCTION, builder.region(ContextKind.FUNCTION, "main"))
    rows = [builder.add_metric(Metric(name, Scope.INCLUSIVE, source_id=k)) for k, name in enumerate(("a", "b"))]
    count = builder.add_metric(Metric("a", Scope.INCLUSIVE, statistic="count", source_id=9, summary_id=9))
    for k, formula in enumerate(("$0", "$1", "$0/$1", "$0/$9", "$0 $1")):
        builder.add_column(Column(f"column {k}", Scope.INCLUSIVE, formula))
    for number, kind in enumerate((ProfileKind.SUMMARY, ProfileKind.THREAD, ProfileKind.THREAD)):
        profile = builder.add_profile(kind, [(2, number, number, 3)], source_id=number)
        for row in rows:
            builder.add_values([profile], [context], [row], [10.0 if kind == ProfileKind.SUMMARY else 5.0])
        if kind == ProfileKind.SUMMARY:
            builder.add_values([profile], [context], [count], [2.0])
    return builder


def test_a_stored_summary_is_not_one_of_the_chosen_profiles() -> None:
    whole = two_threads().build()
    part = whole.select(profiles=np.array([0, 2]))
    assert part.profiles.source_id.tolist() == [2]
    assert part.profiles.identity_list("rank") == [2]
    assert part.root_total("a") == 5.0
    assert [m.statistic for m in part.metrics] == ["", ""]
    assert [c.name for c in part.metrics.columns] == ["column 0", "column 1", "column 2"]
    with pytest.raises(UsageError, match="there is no profile 99; ids are 0 to"):
        whole.select(profiles=[1, 99])
    with pytest.raises(UsageError, match="no profile has one of these ids"):
        whole.select(profiles=np.array([0]))


def test_statistics_that_a_part_cannot_have_are_said_to_be_lost() -> None:
    whole = two_threads().build()
    for chosen in (
        whole.select(ranks=[1]),
        cutting.part(whole, ranks=[1]),
        cutting.part(whole, ranks=[2], invert=True),
    ):
        assert [warning.text for warning in chosen.warnings] == ["lost: statistics of stored summaries"]
        assert [column.name for column in chosen.metrics.columns] == ["column 0", "column 1", "column 2"]
    for chosen in (whole.select(metrics=["a"]), whole.select(metrics=["b"]), whole.select(ranks=1, metrics=["b"])):
        assert chosen.warnings == ()


def test_a_part_of_profiles_in_any_order_has_the_places_of_its_identifiers() -> None:
    """Threads of two ranks by turns: the tree of a part begins with the rank of its first profile."""
    builder = ExperimentBuilder("test")
    for rank, thread in ((0, 0), (1, 0), (0, 1)):
        builder.add_profile(ProfileKind.THREAD, [(2, rank, rank, 3), (3, thread, thread, 3)])
    whole = builder.build()
    chosen = whole.select(profiles=[1, 2])
    assert chosen.system.name == system_of(chosen.profiles)[0].name
    assert [chosen.system.path(leaf)[1:] for leaf in chosen.profiles.system.tolist()] == [[0], [2]]


def placed() -> ExperimentBuilder:
    """Two threads in a system that says more than their identifiers, and a run that nothing was measured in."""
    builder = ExperimentBuilder("test")
    for name in ("first", "second", "nothing"):
        builder.add_run(Run(name))
    parent, kinds = np.array([-1, 0, 0], np.int32), ("machine", "thread", "thread")
    topologies = tuple(
        Topology(name, (2,), (False,), ("x",), np.array([node], np.int32), np.array([[0]]))
        for name, node in (("left", 1), ("right", 2))
    )
    names, ranks = ("m", "one", "two"), np.array([-1, 0, 1])
    system = System(parent, kinds, names, ranks, {}, topologies, np.array([7, 8, 9]))
    builder.set_system(system, np.array([1, 2], np.int32))
    for run in (0, 1):
        builder.add_profile(ProfileKind.THREAD, [(2, run, run, 3)], run=run)
    return builder


def test_runs_places_and_topologies_of_nobody_are_left_out() -> None:
    whole = placed().build()
    for chosen in (whole.select(ranks=[1]), cutting.part(whole, ranks=[1])):
        assert [run.name for run in chosen.runs] == ["second"]
        assert chosen.profiles.run.tolist() == [0]
        assert (chosen.system.name, chosen.system.source_id.tolist()) == (("m", "two"), [7, 9])
        assert [topology.name for topology in chosen.system.topologies] == ["right"]
    assert [run.name for run in whole.select().runs] == ["first", "second", "nothing"]


def test_copies_of_source_files_go_with_the_contexts_that_lie_in_them() -> None:
    builder = two_threads()
    for name in ("used.c", "unused.c"):
        region = builder.region(ContextKind.FUNCTION, name, file=builder.file(f"/{name}", f"src/{name}"))
        context = builder.add_context(-1, ContextKind.FUNCTION, region)
        if name == "used.c":
            builder.add_values([1], [context], [0], [1.0])
    whole = builder.build()
    assert sorted(whole.select(ranks=[1]).sources.copies.values()) == ["src/unused.c", "src/used.c"]
    assert list(whole.select(ranks=[1], drop_unused=True).sources.copies.values()) == ["src/used.c"]
    assert list(cutting.cut(whole, roots=["used.c"]).sources.copies.values()) == ["src/used.c"]


@given(experiments(**NAMED), st.data())
def test_a_part_by_the_algebra_is_a_selection(whole: Experiment, data: st.DataObject) -> None:
    """The one is marked as an operation; all else is equal."""
    kept = kept_of(whole, data)
    if not kept:
        return
    chosen = whole.select(profiles=kept)
    others = [p for p in whole.profiles.measured.tolist() if p not in kept]
    for made in (cutting.part(whole, profiles=kept), cutting.part(whole, profiles=others, invert=True)):
        assert made.attributes["operation"] == "part"
        assert made.profiles.source_id.tolist() == chosen.profiles.source_id.tolist()
        assert (made.runs, made.metrics, made.warnings) == (chosen.runs, chosen.metrics, chosen.warnings)
        every = list(range(len(whole.contexts)))
        assert named_values(made, kept, every) == named_values(chosen, kept, every)
        assert samples(made, kept) == samples(chosen, kept)
        assert made.traces.n_spans == chosen.traces.n_spans


def test_metrics_take_their_columns_and_statistics_along() -> None:
    whole = two_threads().build()
    part = whole.select(metrics=["a"])
    assert [(m.name, m.statistic) for m in part.metrics] == [("a", ""), ("a", "count")]
    assert [c.name for c in part.metrics.columns] == ["column 0", "column 3"]
    assert part.root_total("a") == 10.0
    with pytest.raises(UsageError, match="there is no metric"):
        whole.select(metrics=["nothing"])


@given(experiments(n_profiles=3))
def test_the_time_span_without_a_word_of_the_file(whole: Experiment) -> None:
    unsaid = Traces(whole.traces.samples, whole.traces.spans_backend, whole.traces.counters)
    times = [t for _, _, line in unsaid.lines() for t in line.time_ns.tolist()]
    for chunk in unsaid.spans(("start_ns", "end_ns")):
        times += [*chunk["start_ns"].tolist(), *chunk["end_ns"].tolist()]
    times += unsaid.counters.time_ns.tolist() if unsaid.counters is not None else []
    assert time_span(unsaid) == ((min(times), max(times)) if times else None)


def one_thread() -> ExperimentBuilder:
    builder = ExperimentBuilder("test")
    for name in ("time", "left out"):
        builder.add_metric(Metric(name, Scope.EXCLUSIVE))
    builder.add_profile(ProfileKind.THREAD, [(2, 0, 0, 3)])
    return builder


def test_contexts_of_samples_are_used_whatever_metrics_are_kept() -> None:
    builder = one_thread()
    costly, sampled, other = (
        builder.add_context(-1, ContextKind.FUNCTION, builder.region(ContextKind.FUNCTION, name))
        for name in ("costly", "sampled", "other")
    )
    builder.add_values([0, 0], [costly, other], [0, 1], [1.0, 1.0])
    samples = Samples(np.array([3, 5], np.int64), np.array([sampled, ABSENT], np.int32))
    builder.set_traces(ArraySamples(np.array([0], np.int32), np.array([ABSENT], np.int32), (samples,)))
    whole = builder.build()
    part = whole.select(metrics=["time"], drop_unused=True)
    assert [part.contexts.label(context) for context in range(len(part.contexts))] == ["costly", "sampled"]


def test_spans_without_a_name_have_none_of_those_that_are_asked_for() -> None:
    texts = ["copy", "solve", "pack", "unused"]

    def are_short(names: Sequence[str], known: Sequence[str]) -> Array:
        assert (names, known) == (texts[:3], texts)
        return np.array([len(name) == 4 for name in names])

    chosen = SpanChoice(names=are_short).of({LABEL: np.array([2, ABSENT, 1, 0, ABSENT, 2])}, texts)
    assert chosen is not None
    assert chosen.tolist() == [True, False, False, True, False, True]


def test_what_contains_a_cost_stays_also_where_it_is_the_first_context() -> None:
    builder = one_thread()
    line = builder.add_context(-1, ContextKind.LINE)
    call = builder.add_context(-1, ContextKind.CALL, within=line)
    builder.add_context(-1, ContextKind.LINE)
    builder.add_values([0], [call], [0], [1.0])
    part = builder.build().select(drop_unused=True)
    assert part.contexts.within.tolist() == [-1, 0]
