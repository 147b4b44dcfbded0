"""What the writer of released databases makes of things that they do not hold as they are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import yaml
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from callgrove.arrays import ABSENT
from callgrove.formats.hpctoolkit.metric_plan import MetricPlan
from callgrove.formats.hpctoolkit.release.format import FORMAT
from callgrove.formats.hpctoolkit.release.shown_columns import read_columns
from callgrove.formats.hpctoolkit.release.writer import RELEASED_SLOTS, columns_text
from callgrove.formats.interface import SampleChunk, WriteOptions
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.contexts import ContextKind, Relation
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Aggregation, Column, Metric, Metrics, Scope
from callgrove.model.profiles import ProfileKind
from callgrove.model.traces.events import ArraySamples, Samples
from callgrove.model.values import DenseBlock
from tests.exhaustive import EXAMPLES_IN_CI, try_examples
from tests.formats.hpctoolkit.release_layout import check_layout
from tests.formats.written import damage, read, write

THREAD = [(1, 77, 0, 0), (3, 0, 0, 3)]


def builder(*kinds: ContextKind, relation: Relation = Relation.CALL) -> ExperimentBuilder:
    """One profile and a chain of contexts of these kinds, without ids; metrics and values are to be added."""
    out = ExperimentBuilder("made up", title="made up")
    for number, kind in enumerate(kinds):
        region = out.region(kind, f"c{number}" if kind != ContextKind.LINE else "", file=out.file("a.c"), line=number)
        out.add_context(number - 1, kind, region, relation)
    out.add_profile(ProfileKind.THREAD, THREAD)
    return out


def value(experiment: Experiment, name: str, metric: str, scope: Scope) -> float:
    """Of the context with that label."""
    tree, row = experiment.contexts, experiment.metrics.find(metric, scope)
    assert row is not None
    [context] = [c for c in range(len(tree)) if tree.label(c) == name]
    return float(experiment.values.totals(row, experiment.profiles.measured)[context])


def test_what_is_no_entry_goes_below_an_unknown_one(tmp_path: Path) -> None:
    made = builder(ContextKind.FUNCTION, ContextKind.FUNCTION)
    made.add_context(ABSENT, ContextKind.PLACEHOLDER, made.region(ContextKind.PLACEHOLDER, "<gpu>"), Relation.LEXICAL)
    made.add_context(ABSENT, ContextKind.ENTRY, made.region(ContextKind.ENTRY, "main thread"))
    made.add_metric(Metric("time", Scope.INCLUSIVE))
    made.add_values(0, [0, 1, 2, 3], 0, [5.0, 2.0, 3.0, 4.0])
    write(made.build(), tmp_path / "new.d")
    assert check_layout(tmp_path / "new.d").entries == [(4, 1, "main thread"), (5, 0, "unknown entry")]
    new = read(tmp_path / "new.d")
    assert value(new, "unknown entry", "time", Scope.INCLUSIVE) == 8
    assert new.root_total("time") == 12
    assert new.values.backend.root(1)[1].tolist() == [12.0]  # type: ignore[attr-defined]
    assert damage(tmp_path / "new.d") == []


def test_exclusive_values_become_function_and_execution(tmp_path: Path) -> None:
    made = builder(ContextKind.ENTRY, ContextKind.FUNCTION)
    loop = made.add_context(1, ContextKind.LOOP, made.region(ContextKind.LOOP, file=0, line=9), Relation.LEXICAL)
    called = made.add_context(loop, ContextKind.FUNCTION, made.region(ContextKind.FUNCTION, "called"), Relation.CALL)
    made.add_metric(Metric("time", Scope.EXCLUSIVE, source_id=17))
    made.add_values(0, [1, loop, called], 0, [1.0, 2.0, 4.0])
    report = write(made.build(), tmp_path / "new.d")
    new = read(tmp_path / "new.d")
    assert [(m.name, m.scope, m.source_id) for m in new.metrics] == [
        ("time", Scope.FUNCTION, 0),
        ("time", Scope.INCLUSIVE, 1),
    ]
    assert value(new, "c1", "time", Scope.FUNCTION) == 3
    assert value(new, "c1", "time", Scope.INCLUSIVE) == 7
    assert value(new, "loop at a.c:9", "time", Scope.FUNCTION) == 2
    assert value(new, "loop at a.c:9", "time", Scope.INCLUSIVE) == 6
    assert new.root_total("time") == 7
    assert new.totals("time", Scope.EXCLUSIVE).tolist() == [0, 1, 2, 4]
    assert "exclusive values of time: stored as function and execution, their sums" in report.losses
    assert "ids of metrics: they are numbered anew" in report.losses
    assert damage(tmp_path / "new.d") == []


def test_dense_blocks_are_taken(tmp_path: Path) -> None:
    made = builder(ContextKind.ENTRY, ContextKind.FUNCTION, ContextKind.FUNCTION)
    made.add_profile(ProfileKind.THREAD, THREAD)
    made.add_metric(Metric("a", Scope.INCLUSIVE))
    made.add_metric(Metric("b", Scope.POINT))
    writer = FORMAT.open_writer(tmp_path / "new.d", WriteOptions())
    writer.define(made.build())
    both = np.array([1, 0], np.int32)
    writer.write(DenseBlock(1, np.array([2, 0], np.int32), both, np.array([[1, 0], [0, 2]])))
    writer.flush()
    writer.write(DenseBlock(0, np.array([0, 1, 2], np.int32), both, np.array([[3, 4], [3, 0], [1, 0]])))
    writer.close()
    new = read(tmp_path / "new.d")
    found = [
        list(zip(*(c.tolist() for c in (b.context, b.metric, b.value)), strict=True))
        for b in map(new.values.profile, (1, 2))
    ]
    assert found == [[(0, 0, 4.0), (0, 1, 2.0)], [(0, 0, 3.0), (1, 0, 3.0), (2, 0, 1.0), (2, 1, 1.0)]]
    check_layout(tmp_path / "new.d")


def test_numbers_are_stored_as_they_are_but_zero_is_not_stored(tmp_path: Path) -> None:
    made = builder(*[ContextKind.ENTRY] * 1, *[ContextKind.FUNCTION] * 6)
    made.add_metric(Metric("x", Scope.POINT))
    numbers = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 5e-324, 1.7976931348623157e308])
    made.add_values(0, np.arange(7), 0, numbers)
    write(made.build(), tmp_path / "new.d")
    check_layout(tmp_path / "new.d")
    found = read(tmp_path / "new.d").values.profile(1)
    assert found.context.tolist() == [0, 1, 2, 5, 6]
    assert found.value.tobytes() == numbers[[0, 1, 2, 5, 6]].tobytes()
    assert damage(tmp_path / "new.d") == []


def test_large_integers_are_rounded_and_reported(tmp_path: Path) -> None:
    made = builder(ContextKind.ENTRY)
    made.add_metric(Metric("x", Scope.INCLUSIVE, dtype="uint64"))
    made.add_values(0, 0, 0, np.array([2**53 + 1], np.uint64))
    assert "integers above 2^53: they are rounded" in write(made.build(), tmp_path / "new.d").losses
    assert read(tmp_path / "new.d").values.profile(1).value.tolist() == [2.0**53]


def test_what_does_not_fit_is_reported(tmp_path: Path) -> None:
    made = builder(ContextKind.ENTRY, ContextKind.KERNEL, ContextKind.LINE, ContextKind.CALL)
    made.describe_context(1, [("level", 3.0)])
    made.add_metric(Metric("low", Scope.INCLUSIVE, aggregation=Aggregation.MINIMUM))
    made.add_metric(Metric("time", Scope.INCLUSIVE, unit="sec", description="how long"))
    made.add_metric(Metric("time", Scope.INCLUSIVE, statistic="median"))
    made.add_metric(Metric("ratio", Scope.NONE))
    made.attributes["machine"] = "big"
    losses = write(made.build(), tmp_path / "new.d").losses
    assert losses == [
        "kinds of 2 contexts: call is stored as instruction, kernel is stored as function",
        "parameters of 1 context",
        "statistics of the stored summary: median",
        "metrics low (inclusive): left out, minima and maxima cannot be added up over threads",
        "metrics ratio (no scope): left out",
        "units of time (sec)",
        "attributes: machine",
        "places of entry points: file, line, module and offset",
        "names of loops, lines and instructions: they are known by their place",
    ]
    check_layout(tmp_path / "new.d")


def test_too_many_metrics_are_refused(tmp_path: Path) -> None:
    metrics = Metrics(tuple(Metric(f"m{k}", Scope.POINT) for k in range(65_537)))
    with pytest.raises(Exception, match="65537 metrics and scopes are more than a database holds"):
        MetricPlan.of(metrics, RELEASED_SLOTS)


def test_samples_in_parts_make_one_line(tmp_path: Path) -> None:
    made = builder(ContextKind.ENTRY, ContextKind.FUNCTION)
    made.add_profile(ProfileKind.THREAD, THREAD)
    made.add_profile(ProfileKind.THREAD, THREAD)
    writer = FORMAT.open_writer(tmp_path / "new.d", WriteOptions())
    writer.define(made.build())
    for profile, times in ((0, [1, 5]), (1, [2]), (0, [7]), (0, [7, 9]), (1, [0, 1])):
        contexts = np.array([t % 3 - 1 for t in times], np.int32)
        writer.write(SampleChunk(profile, ABSENT, Samples(np.array(times, np.int64), contexts)))
    assert "samples that were not in the order of time: they are sorted" in writer.close().losses
    assert check_layout(tmp_path / "new.d").time_range == (0, 9)
    new = read(tmp_path / "new.d")
    found = {p: (s.time_ns.tolist(), s.context.tolist()) for p, _, s in new.traces.lines()}
    assert found == {1: ([1, 5, 7, 7, 9], [0, 1, 0, 0, -1]), 2: ([0, 1, 2], [-1, 0, 1]), 3: ([], [])}


def test_no_traces_no_file(tmp_path: Path) -> None:
    made = builder(ContextKind.ENTRY)
    write(made.build(), tmp_path / "none.d")
    assert not (tmp_path / "none.d" / "trace.db").exists()
    nothing = Samples(np.empty(0, np.int64), np.empty(0, np.int32))
    made.set_traces(ArraySamples(np.zeros(1, np.int32), np.full(1, ABSENT, np.int32), (nothing,)))
    write(made.build(), tmp_path / "empty.d")
    assert not (tmp_path / "empty.d" / "trace.db").exists()
    assert read(tmp_path / "empty.d").traces.n_samples == 0


def test_an_empty_experiment(tmp_path: Path) -> None:
    write(ExperimentBuilder("nothing").build(), tmp_path / "new.d")
    layout = check_layout(tmp_path / "new.d")
    assert (layout.entries, layout.contexts, layout.scope_ids, layout.tuples) == ([], [], {}, [])
    assert damage(tmp_path / "new.d") == []


# -- metrics/default.yaml ------------------------------------------------------------------------------------------

NAMES = st.text(st.characters(codec="utf-8"), min_size=1, max_size=12) | st.sampled_from(
    ["yes", "null", "~", "12", "a: b", "a #b", "- x", "&a", "*a", "", 'q"q', "it's", "{x}", "a\nb", "PAPI_TOT:CYC (B)"]
).filter(bool)


@try_examples(EXAMPLES_IN_CI, HealthCheck.function_scoped_fixture)
@given(names=st.lists(NAMES, unique=True, max_size=4), description=st.text(max_size=10))
def test_columns_are_read_by_others_as_by_us(names: list[str], description: str) -> None:
    rows = [
        Metric(name, scope, description=description) for name in names for scope in (Scope.INCLUSIVE, Scope.FUNCTION)
    ]
    plan = MetricPlan.of(Metrics(tuple(rows)), RELEASED_SLOTS)
    text, lost = columns_text(plan, Metrics(tuple(rows)))
    assert lost == []
    assert not text.endswith("\n")
    ours, theirs = read_columns(text), yaml.safe_load(text)
    stored = [metric.name for metric in plan.metrics]
    assert [root.name for root in ours.roots] == stored
    assert [str(root["name"]) for root in theirs["roots"]] == stored
    assert [str(entry["metric"]) for entry in theirs["inputs"]] == [entry.metric for entry in ours.inputs]


def test_columns_keep_formulas_and_order(tmp_path: Path) -> None:
    made = builder(ContextKind.ENTRY)
    for number, name in enumerate(("bytes (B)", "hidden", "time (sec)")):
        made.add_metric(Metric(name, Scope.INCLUSIVE, source_id=number, visible=name != "hidden"))
    made.add_column(Column("rate", Scope.INCLUSIVE, "$0/($2*1000)", "per msec", "Sum", True, False, "%.2f"))
    made.add_column(Column("time (sec)", Scope.INCLUSIVE, "$2", "", "Sum", True, True))
    made.add_column(Column("sum", Scope.INCLUSIVE, "+".join(["$0"] * 400), "", "Sum"))
    made.add_column(Column("odd", Scope.INCLUSIVE, "sqrt(-$0^2-3)", "", ""))
    made.add_column(Column("gone", Scope.INCLUSIVE, "$0/$99", "", "Mean"))
    report = write(made.build(), tmp_path / "new.d")
    assert [loss for loss in report.losses if loss.startswith("columns")] == [
        "columns over what the database does not hold: 1, the first is gone Mean inclusive"
    ]
    new = read(tmp_path / "new.d").metrics
    formulas = {(c.name, c.statistic): (c.formula, c.number_format, c.show_percent) for c in new.columns}
    assert list(formulas) == [
        ("rate", "Sum"),
        ("time (sec)", "Sum"),
        ("sum", "Sum"),
        ("odd", ""),
        ("bytes (B)", "Sum"),
        ("hidden", "Sum"),
    ]
    assert formulas["rate", "Sum"] == ("$0/($2*1000)", "%.2f", False)
    assert formulas["sum", "Sum"][0] == "+".join(["$0"] * 400)
    assert formulas["odd", ""][0] == "sqrt(-$0^2-3)"
    assert [metric.visible for metric in new if not metric.is_derived] == [True, False, True]
    assert new.derived == ("rate", "sum", "odd")
