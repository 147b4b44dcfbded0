"""Books: what writers and the algebra are given equals what they pass on, or a message says why not."""

from __future__ import annotations

import re
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
from callgrove.analysis import tables
from callgrove.analysis.tables import Selection, export
from callgrove.arrays import Array, Ints
from callgrove.binary.sqlite.database import SqliteFile
from callgrove.cli.main import main
from callgrove.errors import UsageError
from callgrove.examples import example, gpu_example
from callgrove.formats.columnar import writer as columnar
from callgrove.formats.columnar.row_groups import GroupWriter
from callgrove.formats.columnar.traces_writer import counter_columns
from callgrove.formats.cube.writer import Rows
from callgrove.formats.gpu.draft import writer as draft_writer
from callgrove.formats.gpu.draft.rows import SpanRows
from callgrove.formats.hpcrun.write_plan import MetricPlan
from callgrove.formats.hpctoolkit.stored_rows import RowMaker
from callgrove.formats.hpctoolkit.trace_writer import TraceWriter
from callgrove.formats.interface import LossReport, WriteOptions, Writes
from callgrove.formats.registry import open_path, writer_of
from callgrove.formats.rocprof_csv.rows import SpanRecords
from callgrove.formats.timeline import slices as timeline
from callgrove.formats.timeline.notes import NoteMaker
from callgrove.formats.timeline.slices import SliceMaker
from callgrove.formats.writing.transfer import transfer
from callgrove.model.books import FEW_ROWS, PIECE, Amount, Books, Ledger, Totals, select_counted_contexts
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.computed_values import Link, Recipe
from callgrove.model.contexts import ContextKind
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Aggregation, Metric, Scope
from callgrove.model.profiles import ProfileKind
from callgrove.model.traces.events import Counters, SpanKind, Traces
from callgrove.model.traces.span_order import SpanOrder
from callgrove.model.values import DenseBlock, SparseBlock
from callgrove.prof import conversion
from callgrove.prof.second_pass import block_of
from tests.algebra.consistent import consistent
from tests.exhaustive import try_examples
from tests.formats.gpu.gpu_databases import Run, execute, suffix_of, write_rocpd
from tests.model.strategies import experiments

WRITERS = ("hpctoolkit-release", "hpctoolkit-prerelease", "cube", "hpcrun", "callgrove")


SPAN_WRITERS = ("callgrove", "rocpd", "rocpd-draft", "rocprof-csv", "perfetto", "chrome-json", "otf2")


def write(experiment: Experiment, to: str, **options: Any) -> LossReport:
    """Write to a place that is gone afterwards."""
    format_ = writer_of(to)
    assert isinstance(format_, Writes)
    with tempfile.TemporaryDirectory() as folder:
        return transfer(experiment, format_.open_writer(Path(folder) / "out", WriteOptions(**options)))


def recorded(folder: Path, *statements: str) -> Experiment:
    """Return what rocprofv3 recorded: kernels with counters, one of them with two instances, a counter of a call,
    copies, allocations, one of them of scratch memory, and the power over time."""
    events = Run.random(5).without("memset").events
    kernels, call = [k for k, event in enumerate(events) if event.kind == "kernel"], 1
    counters = ((kernels[0], "", 1.5), (kernels[0], "", 2.5), (kernels[1], "", 7.0), (call, "", 100.0))
    run = Run(events, counters=counters)
    assert events[call].kind == "api"
    path = write_rocpd(folder / "recorded.db", [run])
    more = (
        "INSERT INTO rocpd_track%s (id, nid, pid, tid, name_id) VALUES (1, 7, 4242, NULL, 1)",
        "INSERT INTO rocpd_info_pmc%s (id, name) VALUES (6, 'power')",
        "INSERT INTO rocpd_event%s (id, category_id, stack_id) VALUES (1000, 1, 0), (1001, 1, 0)",
        "INSERT INTO rocpd_sample%s (id, track_id, timestamp, event_id) VALUES (1, 1, 15, 1000), (2, 1, 25, 1001)",
        "INSERT INTO rocpd_pmc_event%s (id, event_id, pmc_id, value) VALUES (100, 1000, 6, 300.5), (101, 1001, 6, 310)",
        "UPDATE rocpd_memory_allocate%s SET level = 'SCRATCH' WHERE id = (SELECT min(id) FROM rocpd_memory_allocate%s)",
        *statements,
    )
    execute(path, *(statement.replace("%s", suffix_of(run)) for statement in more))
    found = open_path(path)
    assert isinstance(found, Experiment)
    return found


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
    totals = Totals(tuple(experiment.metrics), None, select_counted_contexts(experiment.contexts))
    for block in experiment.values.blocks():
        totals.add(block)
    assert totals.total[:4].tolist() == [7, 7, 7, 7]
    assert totals.n_values.tolist() == [3] * 5
    assert totals.adds_up.tolist() == [True] * 4 + [False]


def test_matrices_count_like_rows() -> None:
    experiment = small()
    matrix = np.array([[7.0, 0.0], [6.0, -3.0], [4.0, 0.0]])
    dense = DenseBlock(1, np.arange(3, dtype=np.int32), np.arange(2, dtype=np.int32), matrix)
    totals = [Totals(tuple(experiment.metrics), None, select_counted_contexts(experiment.contexts)) for _ in range(2)]
    totals[0].add(dense)
    totals[1].add(dense.triples())
    assert totals[0].total.tolist() == totals[1].total.tolist() == [0, 7, 0, 0, 0]
    assert totals[0].n_values.tolist() == totals[1].n_values.tolist() == [0, 4, 0, 0, 0]
    assert totals[0].magnitude.tolist() == totals[1].magnitude.tolist()


@pytest.mark.parametrize("n_metrics", [1, 3, FEW_ROWS, FEW_ROWS + 1])
@pytest.mark.parametrize("least", [1, 0, -4])
def test_costs_are_those_of_contexts_that_count(n_metrics: int, least: int) -> None:
    """In every scope, and in lexical scope, which adds up to nothing."""
    scopes = [(Scope.INCLUSIVE, Scope.POINT, Scope.LEXICAL, Scope.FUNCTION)[row % 4] for row in range(n_metrics)]
    experiment, random = example(ranks=1), np.random.default_rng(n_metrics)
    counted = select_counted_contexts(experiment.contexts)
    n = len(experiment.contexts)
    metric, context = (random.integers(0, end, 999).astype(np.int32) for end in (n_metrics, n))
    value = random.integers(least, 9, 999).astype(np.float64)
    totals = Totals([Metric("m", scope=scope) for scope in scopes], None, counted)
    totals.add_rows(metric, context, value)
    totals.add_rows(metric[:0], context[:0], value[:0])
    for row, scope in enumerate(scopes):
        counts = counted.get(scope, np.zeros(n, np.bool_))
        chosen = value[(metric == row) & counts[context]]
        assert (totals.total[row], totals.magnitude[row]) == (chosen.sum(), np.abs(chosen).sum())
        assert totals.n_values[row] == np.count_nonzero(value[metric == row])


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64, np.int8, np.uint64, np.uint8])
@pytest.mark.parametrize("n_metrics", [1, 2, FEW_ROWS, FEW_ROWS + 1])
@pytest.mark.parametrize("n_values", [0, 1, 7, PIECE // 4 - 1, PIECE // 4, PIECE + 1])
@pytest.mark.parametrize(
    "numbers", [(1, 9), (0, 3), (-4, 5), (0, 1)], ids=["positive", "zeros", "negative", "all-zero"]
)
def test_totals_are_those_of_plain_sums(dtype: Any, n_metrics: int, n_values: int, numbers: tuple[int, int]) -> None:
    if numbers[0] < 0 and np.dtype(dtype).kind == "u":
        return
    random = np.random.default_rng(n_values)
    metric = random.integers(0, n_metrics, n_values).astype(np.int32)
    value = random.integers(*numbers, n_values).astype(dtype)
    totals = Totals([Metric("m", scope=Scope.EXCLUSIVE)] * n_metrics)
    for _ in range(6):
        totals.add_rows(metric, metric, value)
    for row in range(n_metrics):
        plain = value[metric == row].astype(np.int64)
        seen = totals.n_values[row], totals.total[row], totals.magnitude[row]
        assert seen == (6 * np.count_nonzero(plain), 6 * plain.sum(), 6 * np.abs(plain).sum())


@pytest.mark.parametrize("dtype", [np.uint64, np.int64])
def test_integers_that_overflow_are_added_up_as_numbers(dtype: Any) -> None:
    largest = np.iinfo(dtype).max
    totals = Totals([Metric("m", scope=Scope.EXCLUSIVE)])
    totals.add_matrix(0, np.zeros(1, np.int64), np.full((1, 4), largest, dtype))
    assert (totals.n_values[0], totals.total[0], totals.magnitude[0]) == (4, 4 * float(largest), 4 * float(largest))


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


def test_amounts_are_exact_where_they_are_whole_numbers() -> None:
    sizes, books = np.array([2**62, 2**62 + 1, 2**62, 5]), Books.of(small().metrics)
    books.given.add_amount("bytes", sizes)
    books.passed.add_amount("bytes", sizes[::-1])
    assert books.given.amounts["bytes"] == Amount(4, 3 * 2**62 + 6, 3 * 2**62 + 6)
    assert list(books.differences()) == []
    books.passed.add_amount("bytes", np.array([1]))
    books.passed.add_amount("bytes", np.array([0]), times=-1)
    (said,) = books.differences()
    assert said == f"bytes: {3 * 2**62 + 6:,} were given, {3 * 2**62 + 7:,} were passed on"


def test_amounts_are_rounded_where_they_are_not() -> None:
    books = Books.of(small().metrics)
    books.given.add_amount("watts", np.array([0.1, 0.2, 0.3, np.nan]))
    books.passed.add_amount("watts", np.array([np.nan, 0.3, 0.2, 0.1]))
    assert list(books.differences()) == []
    books.given.add_amount("watts", np.array([np.inf]))
    assert list(books.differences()) == ["watts: 5 values were given, 4 values were passed on"]
    books.excuse("watts")
    assert list(books.differences()) == []


def test_times_that_no_clock_shows_are_none() -> None:
    ledger, lowest = Ledger(), np.iinfo(np.int64).min
    start, end = np.array([10, 20, lowest, 30]), np.array([15, 12, 7, lowest])
    ledger.add_spans({"kind": np.zeros(4, np.int32), "start_ns": start, "end_ns": end})
    assert (ledger.n_spans[SpanKind.KERNEL], ledger.span_ns[SpanKind.KERNEL]) == (4, 5)


# -- writers -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("to", WRITERS)
def test_examples_are_written_whole(to: str) -> None:
    assert write(example(ranks=2), to).unexplained == []


@pytest.mark.parametrize("to", [to for to in SPAN_WRITERS if to != "rocpd"])  # which copies rows of its own
def test_spans_are_written_whole(to: str) -> None:
    assert write(gpu_example(), to).unexplained == []


ODD = {  # rows that no profiler should write
    "sound": (),
    "ends before it starts": ("UPDATE rocpd_memory_copy%s SET end = start - 5",),
    "never ends": ("UPDATE rocpd_kernel_dispatch%s SET end = NULL", "UPDATE rocpd_memory_copy%s SET end = NULL"),
    "starts before the epoch": ("UPDATE rocpd_kernel_dispatch%s SET start = -5",),
    "no size": ("UPDATE rocpd_memory_copy%s SET size = NULL",),
    "no column for sizes": ("ALTER TABLE rocpd_memory_copy%s DROP COLUMN size",),
    "largest size": ("UPDATE rocpd_memory_allocate%s SET size = 9223372036854775807",),
    "no value": ("UPDATE rocpd_pmc_event%s SET value = NULL WHERE value IN (1.5, 310)",),
    "infinite value": ("UPDATE rocpd_pmc_event%s SET value = 9e999 WHERE value IN (7, 310)",),
    "no number": ("UPDATE rocpd_kernel_dispatch%s SET start = 'soon' WHERE id % 2",),
    "sampled before the epoch": ("UPDATE rocpd_sample%s SET timestamp = -9",),
    "averages": ("UPDATE rocpd_info_pmc%s SET value_type = 'RELATIVE'",),
    "no category": ("UPDATE rocpd_event%s SET category_id = NULL",),
}


@pytest.mark.parametrize("odd", ODD)
def test_what_belongs_to_spans_is_written_whole_or_said(odd: str, tmp_path: Path) -> None:
    experiment = recorded(tmp_path, *ODD[odd])
    found = {to: write(experiment, to).unexplained for to in SPAN_WRITERS}
    found["extended"] = write(experiment, "rocprof-csv", dialect="extended").unexplained
    found |= {level: write(experiment, "perfetto", annotations=level).unexplained for level in ("all", "none")}
    assert {to: differences for to, differences in found.items() if differences} == {}


def test_counters_that_have_no_place_are_said_to_be_lost(tmp_path: Path) -> None:
    experiment = recorded(tmp_path)
    losses = {to: " | ".join(write(experiment, to).losses) for to in SPAN_WRITERS}
    for to in ("rocpd-draft", "rocprof-csv", "perfetto", "chrome-json"):
        assert re.search("counters of spans that are not kernels|counter of a span that is not a kernel", losses[to]), (
            to
        )
    for to in ("rocprof-csv", "perfetto", "chrome-json"):
        assert "instance" in losses[to], to
    assert "4 counters of kernels: the format has no place for them" in losses["otf2"]
    assert "bytes of copies: 8 are left out" in losses["rocprof-csv"]
    for to in ("rocpd", "callgrove"):
        assert "counters" not in losses[to], to


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

    def shortened(self: TraceWriter, profiles: Ints, bounds: Ints, samples: Array) -> None:
        kept = np.delete(samples, bounds[1:] - 1)  # without the last of each line
        store(self, profiles, bounds - np.arange(len(bounds)), kept)

    monkeypatch.setattr(TraceWriter, "store", shortened)
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


def halve(cells: Any) -> Any:
    """Lose half of every number."""
    return [cell if cell is None else cell // 2 for cell in cells] if isinstance(cells, list) else cells // 2


def lose_rows(monkeypatch: pytest.MonkeyPatch, table: str) -> None:
    """Make writers of databases and folders lose the last row of a table."""
    rows, collect = SqliteFile.rows, GroupWriter.add

    def fewer(self: SqliteFile, name: str, columns: Any) -> Any:
        yield from (found[:-1] if table in name else found for found in rows(self, name, columns))

    def shortened(self: GroupWriter, cells: Any) -> None:
        collect(self, {name: column[:-1] if table in self.name else column for name, column in cells.items()})

    monkeypatch.setattr(SqliteFile, "rows", fewer)
    monkeypatch.setattr(GroupWriter, "add", shortened)


def lose_spans(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make writers lose a span of each kind after they were put in order."""
    whole = SpanOrder.chunks

    def shortened(self: SpanOrder) -> Any:
        for chunk in whole(self):
            yield {name: column[1:] for name, column in chunk.items()}

    monkeypatch.setattr(SpanOrder, "chunks", shortened)
    lose_rows(monkeypatch, "memory_copy")


@pytest.mark.parametrize("to", ["rocpd", "rocprof-csv", "perfetto", "chrome-json"])
def test_spans_that_get_lost_on_the_way_are_said(to: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    experiment = recorded(tmp_path)
    lose_spans(monkeypatch)
    found = write(experiment, to).unexplained
    assert any(text.startswith("spans of kind ") and " were given, " in text for text in found), found
    if to == "rocpd":
        assert "rows of rocpd_memory_copy: 8 values were given, 7 values were passed on" in found


def test_databases_that_are_given_twice_are_said_to_be_written_once(tmp_path: Path) -> None:
    recorded(tmp_path)
    (tmp_path / "copy.db").write_bytes((tmp_path / "recorded.db").read_bytes())
    both = open_path([tmp_path / "recorded.db", tmp_path / "copy.db"])
    assert isinstance(both, Experiment)
    report = write(both, "rocpd")
    assert report.unexplained == []
    assert report.losses == [
        f"{tmp_path / 'copy.db'}: has the same rows as {tmp_path / 'recorded.db'}, which are written once"
    ]


def test_rows_that_a_database_lacks_are_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    experiment = recorded(tmp_path)
    lose_rows(monkeypatch, "rocpd_string")
    (said,) = write(experiment, "rocpd").unexplained
    assert said.startswith("rows of rocpd_string: ")


def lose_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every writer lose half of the bytes of copies and allocations."""
    column, sizes, side, rows, collect = (
        *(SpanRecords._column, NoteMaker._sizes, SpanRows._side, SqliteFile.rows, GroupWriter.add),
    )

    def of_records(self: Any, pieces: Any, name: str, n: int) -> Any:
        return halve(column(self, pieces, name, n)) if name == "bytes" else column(self, pieces, name, n)

    def of_notes(self: Any, chunk: Any) -> Any:
        for note in sizes(self, chunk):
            yield replace(note, values=halve(note.values)) if note.key == "bytes" else note

    def of_draft(self: Any, chunk: Any, name: str, word: str, **more: Any) -> Any:
        return (
            halve(side(self, chunk, name, word, **more)) if word == "bytes" else side(self, chunk, name, word, **more)
        )

    def of_database(self: Any, name: str, columns: Any) -> Any:
        for found in rows(self, name, columns):
            place = columns.index("size") if "size" in columns else len(columns)
            yield [tuple(halve([cell])[0] if k == place else cell for k, cell in enumerate(row)) for row in found]

    def of_folder(self: Any, cells: Any) -> None:
        collect(self, {name: halve(cell) if name == "bytes" else cell for name, cell in cells.items()})

    monkeypatch.setattr(SpanRecords, "_column", of_records)
    monkeypatch.setattr(NoteMaker, "_sizes", of_notes)
    monkeypatch.setattr(SpanRows, "_side", of_draft)
    monkeypatch.setattr(SqliteFile, "rows", of_database)
    monkeypatch.setattr(GroupWriter, "add", of_folder)


@pytest.mark.parametrize("to", SPAN_WRITERS)
def test_lost_bytes_are_said(to: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    experiment = recorded(tmp_path)
    lose_bytes(monkeypatch)
    found = write(experiment, to, **({"dialect": "extended"} if to == "rocprof-csv" else {})).unexplained
    assert [text.partition(":")[0] for text in found] == ["bytes of allocations", "bytes of copies"]


@pytest.mark.parametrize("to", [to for to in SPAN_WRITERS if to != "otf2"])  # which has no place for them
def test_lost_counters_are_said(to: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    experiment = recorded(tmp_path)
    values, notes, beside = SpanRecords._combine_instances, NoteMaker._counters, SpanRows._counters_beside

    def of_draft(self: SpanRows, chunk: Any) -> Any:
        table, here, row = beside(self, chunk)
        return table, here[1:], row[1:]

    monkeypatch.setattr(
        SpanRecords, "_combine_instances", lambda *given: tuple(column[1:] for column in values(*given))
    )
    monkeypatch.setattr(NoteMaker, "_counters", lambda *given: list(notes(*given))[1:])
    monkeypatch.setattr(SpanRows, "_counters_beside", of_draft)
    lose_rows(monkeypatch, "pmc_event" if to == "rocpd" else "counter")
    found = write(experiment, to).unexplained
    assert any(text.startswith("counters of spans: ") for text in found), found


@pytest.mark.parametrize("to", ["callgrove", "rocpd-draft", "perfetto", "chrome-json", "otf2"])
def test_lost_values_over_time_are_said(to: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    experiment = recorded(tmp_path)
    points = timeline.counter_points

    def fewer(*given: Any) -> Any:
        yield from (replace(own, value=own.value[1:], time_ns=own.time_ns[1:]) for own in points(*given))

    monkeypatch.setattr(timeline, "counter_points", fewer)
    monkeypatch.setattr(columnar, "counter_columns", lambda found: counter_columns(first_of(found)))
    monkeypatch.setattr(draft_writer, "zip", lambda *rows, strict: islice(zip(*rows, strict=strict), 1), raising=False)
    (said,) = write(experiment, to).unexplained
    assert said == "values over time: 2 values were given, 1 values were passed on"


def first_of(counters: Counters) -> Counters:
    """Return the first value alone."""
    return replace(counters, **{name: getattr(counters, name)[:1] for name in ("profile", "name", "time_ns", "value")})


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


def test_a_limit_is_no_difference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    callgrove.write(example(ranks=1), tmp_path / "in.d", "hpctoolkit-release")
    monkeypatch.setattr(tables, "CHUNK", 2)
    words = ["export", str(tmp_path / "in.d"), "--table", "contexts", "--strict", "-o", str(tmp_path / "contexts.csv")]
    assert main([*words, "--limit", "3"]) == 0
    assert "unexplained" not in capsys.readouterr().err


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
