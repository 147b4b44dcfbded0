"""Books: what writers and the algebra are given equals what they pass on, or a message says why not."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

import callgrove
from callgrove.algebra.cutting import common, cut
from callgrove.algebra.operations import diff, mean, merge
from callgrove.analysis.tables import Selection, export
from callgrove.cli.main import main
from callgrove.errors import UsageError
from callgrove.examples import example, gpu_example
from callgrove.formats.columnar.group_writer import GroupWriter
from callgrove.formats.cube.spool import Rows
from callgrove.formats.gpu.draft_rows import SpanRows
from callgrove.formats.hpcrun.write_metrics import MetricPlan
from callgrove.formats.hpctoolkit.rows import RowMaker
from callgrove.formats.hpctoolkit.trace_writer import TraceWriter
from callgrove.formats.interface import LossReport, WriteOptions, Writes
from callgrove.formats.registry import writer_of
from callgrove.formats.timeline.slices import SliceMaker
from callgrove.formats.transfer import transfer
from callgrove.model.books import Books, Totals, counted_contexts
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.chains import Link
from callgrove.model.contexts import ContextKind
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Aggregation, Metric, Scope
from callgrove.model.profiles import ProfileKind
from callgrove.model.scopes import Recipe
from callgrove.model.traces import SpanKind, Traces
from callgrove.model.values import DenseBlock, SparseBlock
from callgrove.prof import conversion
from callgrove.prof.costs import block_of
from tests.algebra.consistent import consistent
from tests.exhaustive import try_examples
from tests.model.strategies import experiments

WRITERS = ("hpctoolkit-release", "hpctoolkit-prerelease", "cube", "hpcrun", "callgrove")


def write(experiment: Experiment, to: str) -> LossReport:
    """Write to a place that is gone afterwards."""
    format_ = writer_of(to)
    assert isinstance(format_, Writes)
    with tempfile.TemporaryDirectory() as folder:
        return transfer(experiment, format_.open_writer(Path(folder) / "out", WriteOptions()))


# -- totals ------------------------------------------------------------------------------------------------------------


def small() -> Experiment:
    """Return main -> f -> g with 1, 2 and 4 units of work in one thread, in four scopes."""
    made = ExperimentBuilder("made up", title="small")
    for parent, name in enumerate(("main", "f", "g"), start=-1):
        made.add_context(parent, ContextKind.FUNCTION, made.region(ContextKind.FUNCTION, name))
    for scope in (Scope.EXCLUSIVE, Scope.INCLUSIVE, Scope.FUNCTION, Scope.POINT):
        made.add_metric(Metric("work", scope))
    made.add_metric(Metric("least", Scope.EXCLUSIVE, aggregation=Aggregation.MINIMUM))
    profile = made.add_profile(ProfileKind.THREAD, [(2, 0, 0, 3)])
    rows = [(1, 2, 4), (7, 6, 4), (1, 2, 4), (1, 2, 4), (5, 6, 7)]
    for metric, values in enumerate(rows):
        made.add_values(profile, np.arange(3), np.full(3, metric), np.array(values, float))
    return made.build()


def test_costs_are_the_same_in_every_scope() -> None:
    experiment = small()
    totals = Totals(tuple(experiment.metrics), None, counted_contexts(experiment.contexts))
    for block in experiment.values.blocks():
        totals.add(block)
    assert totals.total[:4].tolist() == [7, 7, 7, 7]
    assert totals.n_values.tolist() == [3] * 5
    assert totals.adds_up.tolist() == [True] * 4 + [False]


def test_matrices_count_like_rows() -> None:
    experiment = small()
    matrix = np.array([[7.0, 0.0], [6.0, -3.0], [4.0, 0.0]])
    dense = DenseBlock(1, np.arange(3, dtype=np.int32), np.arange(2, dtype=np.int32), matrix)
    totals = [Totals(tuple(experiment.metrics), None, counted_contexts(experiment.contexts)) for _ in range(2)]
    totals[0].add(dense)
    totals[1].add(dense.triples())
    assert totals[0].total.tolist() == totals[1].total.tolist() == [0, 7, 0, 0, 0]
    assert totals[0].n_values.tolist() == totals[1].n_values.tolist() == [0, 4, 0, 0, 0]
    assert totals[0].magnitude.tolist() == totals[1].magnitude.tolist()


def test_rounding_is_no_difference_and_a_lost_value_is_one() -> None:
    books = Books.of(small().metrics)
    rows = np.zeros(3, np.int32), np.arange(3, dtype=np.int32)
    books.given.totals.add_rows(*rows, np.array([0.1, 0.2, 0.3]))
    books.passed.totals.add_rows(*rows, np.array([0.3, 0.2, 0.1]))
    assert list(books.differences()) == []
    books.given.totals.add_rows(rows[0][:1], rows[1][:1], np.array([1e-6]))
    assert list(books.differences()) == ["work (exclusive): 0.600001 was given, 0.6 was passed on"]
    books.excuse_rows([0])
    assert list(books.differences()) == []


# -- writers -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("to", WRITERS)
def test_examples_are_written_whole(to: str) -> None:
    assert write(example(ranks=2), to).unexplained == []


@pytest.mark.parametrize("to", ["callgrove", "perfetto", "chrome-json", "otf2", "rocpd-draft"])
def test_spans_are_written_whole(to: str) -> None:
    assert write(gpu_example(), to).unexplained == []


@pytest.mark.parametrize("to", WRITERS)
@try_examples(25)
@given(data=st.data())
def test_nothing_is_unexplained(to: str, data: st.DataObject) -> None:
    shapes = st.one_of(consistent(), experiments(scopes=(Scope.EXCLUSIVE,), aggregations=(Aggregation.SUM,)))
    experiment = data.draw(shapes)
    try:
        report = write(experiment, to)
    except UsageError as error:
        if to == "hpcrun" and "no context has one" in str(error):  # files hold addresses in modules
            reject()
        raise
    assert report.unexplained == []


def drop_row(rows: SparseBlock) -> SparseBlock:
    """Lose the largest value."""
    return rows.take(np.arange(len(rows)) != int(np.argmax(rows.value))) if len(rows) else rows


def lose_values(monkeypatch: pytest.MonkeyPatch, to: str) -> None:
    """Make a writer lose values where it is given them, or later."""
    if to.startswith("hpctoolkit"):
        whole = RowMaker.take
        monkeypatch.setattr(RowMaker, "take", lambda self, block: drop_row(whole(self, block)))
    elif to == "cube":
        add = Rows.add

        def one_less(self: Rows, metric: int, positions: Any, values: Any, type_: Any) -> None:
            values[:] = values // 2
            add(self, metric, positions, values, type_)

        monkeypatch.setattr(Rows, "add", one_less)
    elif to == "hpcrun":
        column = MetricPlan.column

        def halved(self: MetricPlan, row: int, context: Any, value: Any, *rest: Any) -> Any:
            return column(self, row, context, value // 2, *rest)

        monkeypatch.setattr(MetricPlan, "column", halved)
    else:
        collect = GroupWriter.add

        def shortened(self: GroupWriter, rows: Any) -> None:
            short = self.name.startswith("values")
            collect(self, {name: cells[1:] if short else cells for name, cells in rows.items()})

        monkeypatch.setattr(GroupWriter, "add", shortened)


@pytest.mark.parametrize("to", WRITERS)
def test_lost_values_are_said(to: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lose_values(monkeypatch, to)
    found = write(example(ranks=2), to).unexplained
    assert any(" given, " in text for text in found), found


def test_lost_samples_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    store = TraceWriter.store
    monkeypatch.setattr(TraceWriter, "store", lambda self, profile, samples: store(self, profile, samples[:-1]))
    experiment = example(ranks=1)
    n = experiment.traces.n_samples
    found = write(experiment, "hpctoolkit-release").unexplained
    assert found == [f"samples: {n:,} were given, {n - experiment.traces.n_lines:,} were passed on"]


def test_lost_spans_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    collect = GroupWriter.add

    def shortened(self: GroupWriter, rows: Any) -> None:
        collect(self, {name: cells[1:] if self.name == "spans" else cells for name, cells in rows.items()})

    monkeypatch.setattr(GroupWriter, "add", shortened)
    found = write(gpu_example(ranks=1), "callgrove").unexplained
    assert len(found) == 1
    assert found[0].startswith("spans of kind ")


@pytest.mark.parametrize("to", ["perfetto", "chrome-json", "rocpd-draft"])
def test_spans_that_a_trace_lacks_are_said(to: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made, insert = SliceMaker.of, SpanRows._insert

    def shortened(chunk: Any) -> Any:
        return {name: column[chunk["kind"] != SpanKind.COPY] for name, column in chunk.items()}

    def insert_others(self: SpanRows, statement: str, chunk: Any, *rest: Any, **words: Any) -> None:
        if (chunk["kind"] != SpanKind.COPY).all():
            insert(self, statement, chunk, *rest, **words)

    monkeypatch.setattr(SliceMaker, "of", lambda self, chunk: made(self, shortened(chunk)))
    monkeypatch.setattr(SpanRows, "_insert", insert_others)
    found = write(gpu_example(ranks=1), to).unexplained
    assert any(text.startswith("spans of kind copy: ") and text.endswith(" 0 were passed on") for text in found), found


def test_a_summary_that_says_more_than_the_profiles_is_said() -> None:
    made = ExperimentBuilder("made up", title="summary")
    context = made.add_context(-1, ContextKind.FUNCTION, made.region(ContextKind.FUNCTION, "main"))
    for scope in (Scope.FUNCTION, Scope.INCLUSIVE):
        made.add_metric(Metric("work", scope))
    summary = made.add_profile(ProfileKind.SUMMARY)
    thread = made.add_profile(ProfileKind.THREAD, [(2, 0, 0, 3)])
    for profile, value in ((summary, 8.0), (thread, 5.0)):
        made.add_values(profile, np.full(2, context), np.arange(2), np.full(2, value))
    experiment = made.build()
    losses = write(experiment, "hpctoolkit-release").losses
    text = "the stored summary of work (inclusive): it says 8, and the profiles, which are what is written, add up to 5"
    assert text in losses
    assert not any("stored summary of" in loss for loss in write(experiment, "callgrove").losses)  # which keeps it


# -- the algebra -------------------------------------------------------------------------------------------------------


@try_examples(20)
@given(left=consistent(), right=consistent())
def test_the_algebra_keeps_its_books(left: Experiment, right: Experiment) -> None:
    made = [merge(left, right, conflict="sum"), mean(left, right), diff(left, right)]
    made += [merge(left, right, system="collapse"), mean(left, left, missing="skip")]
    inner = [c for c in range(left.contexts.n_listed) if left.contexts.parent[c] >= 0]
    if inner:
        made.append(cut(left, prunes=[left.contexts.label(inner[0])]))
    for result in made:
        assert write(result, "callgrove").unexplained == []


def test_what_the_algebra_loses_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    outward = Link.outward
    monkeypatch.setattr(Link, "outward", lambda self, block: drop_row(outward(self, block)))
    left, right = small(), replace(small(), path="other")
    found = write(merge(left, right, conflict="sum"), "callgrove").unexplained
    assert any("the inputs make 14" in text for text in found), found
    assert write(cut(left, prunes=["g"]), "callgrove").unexplained == []


def test_roots_that_are_not_common_are_said_to_be_lost() -> None:
    def of(*names: str) -> Experiment:
        made = ExperimentBuilder("made up", title=names[-1])
        made.add_metric(Metric("work", Scope.EXCLUSIVE))
        profile = made.add_profile(ProfileKind.THREAD, [(2, 0, 0, 3)])
        for name in names:
            context = made.add_context(-1, ContextKind.FUNCTION, made.region(ContextKind.FUNCTION, name))
            made.add_values(profile, context, 0, 3.0)
        return made.build()

    result = common(of("main", "helper"), of("main"))
    said = [warning.text for warning in result.warnings]
    assert "lost: the cost of 1 roots that not all inputs have (helper): nothing above takes it" in said
    assert write(result, "callgrove").unexplained == []
    assert result.root_total("work") == 6.0


# -- export and prof ---------------------------------------------------------------------------------------------------


def test_computed_values_add_up_to_what_is_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    def told_by(experiment: Experiment) -> list[str]:
        told: list[str] = []
        for scope in ("exclusive", "inclusive"):
            for _ in export(experiment, "values", Selection(scope=scope, complain=told.append)):
                pass
        return told

    made = ExperimentBuilder("made up", title="inclusive")
    for parent, name in enumerate(("main", "f", "g"), start=-1):
        made.add_context(parent, ContextKind.FUNCTION, made.region(ContextKind.FUNCTION, name))
    made.add_metric(Metric("work", Scope.INCLUSIVE))
    made.add_values(made.add_profile(ProfileKind.THREAD), np.arange(3), 0, [7.0, 6.0, 4.0])
    experiment = made.build()
    assert told_by(experiment) == []
    apply = Recipe.apply
    monkeypatch.setattr(Recipe, "apply", lambda self, values, *rest, **words: apply(self, values, *rest, **words) / 2)
    assert told_by(experiment) == [
        "work (exclusive): what is stored makes 7, what was printed 3.5",
        "work (inclusive): what is stored makes 7, what was printed 3.5",
    ]


def test_export_says_rows_that_are_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    callgrove.write(example(ranks=1), tmp_path / "in.d", "hpctoolkit-release")
    words = ["export", str(tmp_path / "in.d"), "--table", "samples", "--strict", "-o", str(tmp_path / "samples.csv")]
    assert main(words) == 0
    whole = Traces.lines
    monkeypatch.setattr(Traces, "lines", lambda self, *rest: islice(whole(self, *rest), 1))
    assert main(words) == 4
    assert "unexplained: samples: there are " in capsys.readouterr().err


def test_prof_says_costs_that_no_call_path_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    callgrove.write(example(ranks=1), tmp_path / "in.m", "hpcrun")
    words = ["prof", "--foreign", "--strict", "-j", "1", str(tmp_path / "in.m")]
    assert main([*words, str(tmp_path / "sound.d")]) == 0

    def halved(*given: Any) -> SparseBlock:
        block = block_of(*given)
        return replace(block, value=block.value / 2)

    monkeypatch.setattr(conversion, "block_of", halved)
    assert main([*words, str(tmp_path / "short.d")]) == 4
    assert "unexplained: cycles (inclusive): the files hold " in capsys.readouterr().err


# -- the command line --------------------------------------------------------------------------------------------------


def test_the_command_line_says_it_and_strict_ends_with_4(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "in.d"
    saved = callgrove.write(example(ranks=1), source, "hpctoolkit-release")
    assert not any(loss.startswith("unexplained") for loss in saved)
    lose_values(monkeypatch, "cube")
    assert main(["convert", str(source), str(tmp_path / "out.cubex")]) == 0
    assert "unexplained: CPUTIME (sec) (inclusive): " in capsys.readouterr().err
    assert main(["convert", str(source), str(tmp_path / "again.cubex"), "--strict"]) == 4
    assert "was written, but does not hold all that it was given" in capsys.readouterr().err
