"""Perfetto traces, read by a decoder of our own, by Perfetto's protobuf classes and by its trace processor."""

from __future__ import annotations

import gzip
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from callgrove.formats.interface import LossReport, WriteOptions
from callgrove.formats.registry import writer_of
from callgrove.formats.timeline.content import LONGEST
from callgrove.formats.timeline.perfetto.format import FORMAT
from callgrove.formats.writing.transfer import transfer, write_experiment
from callgrove.model.experiment import Experiment
from callgrove.model.traces.events import SpanKind
from tests.exhaustive import try_examples
from tests.formats.timeline.timelines import (
    BASE,
    COUNTERS,
    LAST,
    N_FLOWS,
    NEVER,
    PLACES,
    SPANS,
    Place,
    Span,
    cross_format,
    ends,
    made,
    totals,
)
from tests.outside import perfetto_trace
from tests.outside.perfetto_trace import Slice, Trace
from tests.outside.trace_processor import processed
from tests.requirements import need_module

GOLDEN = """
0a1550016803e2030e08101a0a0801320672616e6b2030
0a1750016802e2031008112810220a080110012a046d61696e
0a1b50016802e2031408122810120e47505520302073747265616d2030
0a1650016802e2030f081328101205627974657342021803
0a425001680240e807621f120a080112066c61756e63680a07080112036170691a0808011204636f72725a184801581150011801220408012007f9020100000000000000
0a0d5001680240940a5a0448025811
0a335001680240d00f62161208080212046b65726e0a0a080212066b65726e656c5a12480158125002180281030100000000000000
0a0d5001680240c4135a0448025812
0a115001680240d00f5a0848045813f0018020
0a105001680240c4135a0748045813f00100
"""


def converted(experiment: Experiment, target: Path, **options: object) -> tuple[bytes, LossReport]:
    report = write_experiment(experiment, writer_of("perfetto"), target, WriteOptions(**options))  # type: ignore[arg-type]
    return target.read_bytes(), report


def summed(slices: Sequence[Slice]) -> dict[str, tuple[int, int]]:
    out: dict[str, tuple[int, int]] = {}
    for one in slices:
        count, total = out.get(one.name, (0, 0))
        out[one.name] = count + 1, total + one.end - one.start
    return out


def test_the_decoder_reads_the_example_of_the_specification() -> None:
    trace = perfetto_trace.read(bytes.fromhex(GOLDEN))
    launch, kernel = trace.slices
    assert (launch.name, launch.category, launch.start, launch.end, launch.args) == (
        "launch",
        "api",
        1000,
        1300,
        {"corr": 7},
    )
    assert (kernel.name, kernel.category, kernel.start, kernel.end) == ("kern", "kernel", 2000, 2500)
    assert launch.flows == kernel.ends_flows == (1,)
    assert trace.path(kernel.track) == ("rank 0", "GPU 0 stream 0")
    assert trace.counters == {19: [(2000, 4096), (2500, 0)]}


def test_all_slices_tracks_flows_and_counters_are_there(tmp_path: Path) -> None:
    data, report = converted(cross_format(), tmp_path / "t.pftrace")
    trace = perfetto_trace.read(data)
    assert report.losses == []
    assert summed(trace.slices) == totals(SPANS)
    by_place = Counter((trace.path(one.track)[:2], one.name, one.start, one.end) for one in trace.slices)
    assert by_place == Counter((expected_path(span), span.shown, span.start, end) for span, end in ends(SPANS, LAST))
    assert sum(len(one.flows) for one in trace.slices) == N_FLOWS
    check_flows(trace)
    curves = {trace.tracks[uuid].name: points for uuid, points in trace.counters.items()}
    assert curves["GPU 0 sclk"] == [(time, value) for _, _, time, value in COUNTERS]
    # 1000 and 500 bytes at the ends of their allocations; the free says nothing but the address
    assert curves["device 0 memory REAL"] == [(BASE + 40, 1000), (BASE + 50, 1500), (BASE + 610, 500)]


def expected_path(span: Span) -> tuple[str, str]:
    place = PLACES[span.place]
    process = f"rank {place.rank} {place.host} pid {place.pid}"
    return process, f"GPU {place.device}" if place.device >= 0 else place.name or "thread 1"


def check_flows(trace: Trace) -> None:
    """Every operation's flow begins at the call with its correlation, in its process."""
    sources = {flow: one for one in trace.slices for flow in one.flows}
    for one in trace.slices:
        for flow in one.ends_flows:
            call = sources[flow]
            assert call.args["corr"] == one.args["corr"]
            assert trace.process(call.track) is trace.process(one.track)


def test_crossing_slices_lie_in_lanes_and_nested_ones_do_not(tmp_path: Path) -> None:
    trace = perfetto_trace.read(converted(cross_format(), tmp_path / "t.pftrace")[0])
    at = {(one.name, one.start): one for one in trace.slices}
    gemm, first, second = (
        at["void gemm<float>(float const*)", BASE + 100],
        at["reduce", BASE + 200],
        at["reduce", BASE + 250],
    )
    assert gemm.track == first.track != second.track
    assert trace.tracks[second.track].name == trace.tracks[first.track].name  # shown as one group
    assert trace.tracks[second.track].parent == trace.tracks[first.track].parent
    main, marker, crosses = at["main", BASE], at["Schritt größer", BASE + 10], at["crosses", BASE + 350]
    assert main.track == marker.track == trace.tracks[crosses.track].parent
    assert [
        at[name, start].depth
        for name, start in (("main", BASE), ("Schritt größer", BASE + 10), ("nothing", BASE + 130))
    ] == [0, 1, 2]


def test_equal_pids_get_numbers_of_our_own(tmp_path: Path) -> None:
    trace = perfetto_trace.read(converted(cross_format(), tmp_path / "t.pftrace")[0])
    processes = [track for track in trace.tracks.values() if track.kind == "process"]
    assert [(track.pid, track.name) for track in processes] == [(1, "rank 0 alpha pid 15"), (2, "rank 1 beta pid 15")]
    assert processes[0].labels == ("rank 0", "host alpha", "pid 15")
    real = perfetto_trace.read(converted(cross_format(), tmp_path / "r.pftrace", real_pids=True)[0])
    assert {track.pid for track in real.tracks.values() if track.kind == "process"} == {15}


@pytest.mark.parametrize(
    ("pid", "tid", "expected"), [(7, 9, (7, 9)), (2**31 + 5, 9, (1, 1)), (7, 2**40, (7, 1)), (0, 0, (1, 1))]
)
def test_ids_beyond_31_bits_are_replaced(tmp_path: Path, pid: int, tid: int, expected: tuple[int, int]) -> None:
    experiment = made([Span(0, SpanKind.API, "f", 1, 2)], [Place(pid=pid, tid=tid)])
    trace = perfetto_trace.read(converted(experiment, tmp_path / "t.pftrace")[0])
    thread = next(track for track in trace.tracks.values() if track.kind == "thread")
    assert (thread.pid, thread.tid) == expected
    assert f"pid {pid}" in next(track for track in trace.tracks.values() if track.kind == "process").labels


def test_notes_say_what_was_asked_for(tmp_path: Path) -> None:
    found = {}
    for level in ("none", "default", "all"):
        trace = perfetto_trace.read(converted(cross_format(), tmp_path / f"{level}.pftrace", annotations=level)[0])
        found[level] = {(one.name, one.start): one.args for one in trace.slices}
    gemm, endless = ("void gemm<float>(float const*)", BASE + 100), ("無限", BASE + 5)
    assert found["none"][gemm] == {}
    assert found["none"][endless] == {"unfinished": True}
    default = {
        "corr": 1,
        "stream": 0,
        "grid": "256,2,1",
        "block": "64,64,64",
        "queue": 0,
        "SQ_WAVES": 128.0,
        "TCC_HIT": 0.5,
    }
    assert found["default"][gemm] == default
    assert found["all"][gemm] == default | {
        "kind": "kernel",
        "category": "KERNEL_DISPATCH",
        "rank": 0,
        "host": "alpha",
        "agent": "GPU 0",
    }
    assert found["default"]["MEMORY_COPY_HOST_TO_DEVICE", BASE + 150] == {"corr": 1, "stream": 3, "bytes": 4096}
    assert found["all"]["ALLOC", BASE + 30]["address"] == "0x0000000000000100"


def test_operations_lie_on_queues_where_that_is_wanted(tmp_path: Path) -> None:
    data, _ = converted(cross_format(), tmp_path / "t.pftrace", by_queue=True, track_names="rocpd")
    trace = perfetto_trace.read(data)
    names = {trace.tracks[one.track].name for one in trace.slices if one.category == "KERNEL_DISPATCH"}
    assert names == {f"COMPUTE GPU 0 QUEUE [{queue}]" for queue in (0, 1, 2, 3)}
    assert {"THREAD 0", "THREAD 1"} <= {track.name for track in trace.tracks.values()}


def test_the_same_input_gives_the_same_bytes_compressed_or_not(tmp_path: Path) -> None:
    first, _ = converted(cross_format(), tmp_path / "a.pftrace")
    again, _ = converted(cross_format(), tmp_path / "b.pftrace")
    packed, _ = converted(cross_format(), tmp_path / "c.pftrace.gz")
    twice, _ = converted(cross_format(), tmp_path / "d.perfetto-trace.gz")
    assert first == again == gzip.decompress(packed)
    assert packed == twice


def test_chunk_by_chunk_gives_the_same_bytes(tmp_path: Path) -> None:
    experiment = made(SPANS, PLACES, COUNTERS, chunk_rows=2)
    whole, _ = converted(experiment, tmp_path / "a.pftrace")
    writer = FORMAT.open_writer(tmp_path / "b.pftrace", WriteOptions())
    writer.define(experiment)
    for chunk in experiment.traces.spans(writer.columns):
        writer.write(chunk)
        writer.flush()
    assert writer.close().losses == []
    assert (tmp_path / "b.pftrace").read_bytes() == whole


# -- what others make of it --------------------------------------------------------------------------------------------


def test_perfettos_own_classes_know_every_field(tmp_path: Path) -> None:
    need_module("perfetto")
    unknown_fields = need_module("google.protobuf.unknown_fields")
    from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace as Messages

    data, _ = converted(cross_format(), tmp_path / "t.pftrace", annotations="all")
    messages = Messages.FromString(data)
    waiting = list(messages.packet)
    while waiting:
        one = waiting.pop()
        assert not len(unknown_fields.UnknownFieldSet(one)), one
        for field, value in one.ListFields():
            if field.message_type is not None:
                waiting += list(value) if field.is_repeated else [value]
    begins = [p.track_event for p in messages.packet if p.HasField("track_event") and p.track_event.type == 1]
    assert len(begins) == len(SPANS)
    mine = perfetto_trace.read(data)
    assert Counter(p.timestamp for p in messages.packet if p.track_event.type == 1) == Counter(
        one.start for one in mine.slices
    )


SLICES = """
select coalesce(p.name, '') as process, s.name as name, s.ts as ts, s.dur as dur, s.depth as depth, t.id as track
from slice s join track t on t.id = s.track_id
left join thread_track tt on tt.id = t.id left join thread th using (utid)
left join process_track pt on pt.id = t.id left join process p on p.upid = coalesce(th.upid, pt.upid)
"""
FLOWS = """
select a.name as call, a.ts as call_ts, b.name as operation, b.ts as operation_ts
from flow f join slice a on a.id = f.slice_out join slice b on b.id = f.slice_in
"""
POINTS = "select t.name as name, c.ts as ts, c.value as value from counter c join counter_track t on t.id = c.track_id"
ARGS = """
select s.name as name, s.ts as ts, a.flat_key as k, a.display_value as v from args a join slice s using (arg_set_id)
"""

MAIN_THREADS = """
    select process.name as process, thread.name as thread from thread join process using (upid)
    where is_main_thread and upid != 0 order by upid
"""


def test_the_trace_processor_sees_what_was_written(tmp_path: Path) -> None:
    data, _ = converted(cross_format(), tmp_path / "t.pftrace")
    trace = perfetto_trace.read(data)
    slices, flows, points, args, mains = processed(data, SLICES, FLOWS, POINTS, ARGS, MAIN_THREADS)
    # of two processes with equal ids, which are numbered anew, the first thread is the main one, and no other
    assert mains == [("rank 0 alpha pid 15", "main"), ("rank 1 beta pid 15", "main")]
    found = Counter((row[0], row[1], row[2], row[3], row[4]) for row in slices)
    assert found == Counter(
        (trace.process(one.track).name, one.name, one.start, one.end - one.start, one.depth) for one in trace.slices
    )
    assert sorted(Counter(row[5] for row in slices).values()) == sorted(
        Counter(one.track for one in trace.slices).values()
    )
    sources = {flow: one for one in trace.slices for flow in one.flows}
    expected = [
        (sources[f].name, sources[f].start, one.name, one.start) for one in trace.slices for f in one.ends_flows
    ]
    assert Counter(flows) == Counter(expected)
    assert len(flows) == N_FLOWS
    mine = [(trace.tracks[uuid].name, t, float(v)) for uuid, values in trace.counters.items() for t, v in values]
    assert Counter(points) == Counter(mine)
    said = {
        (name, ts, str(key).removeprefix("debug.")): value
        for name, ts, key, value in args
        if str(key).startswith("debug.")
    }
    assert said["MEMORY_COPY_HOST_TO_DEVICE", BASE + 150, "bytes"] == "4096"
    assert said["void gemm<float>(float const*)", BASE + 100, "grid"] == "256,2,1"
    assert said["無限", BASE + 5, "unfinished"] in ("1", "true")


def random_spans(seed: int, n: int) -> list[Span]:
    """Spans on threads and streams that nest, touch, cross and are empty, at few different times."""
    random = np.random.default_rng(seed)
    place, start, length = random.integers(0, len(PLACES), n), random.integers(0, 400, n), random.integers(0, 60, n)
    rows = zip(place.tolist(), start.tolist(), length.tolist(), strict=True)
    return [
        Span(p, SpanKind.KERNEL if PLACES[p].device >= 0 else SpanKind.API, f"n{k % 7}", s, s + d, k % 50)
        for k, (p, s, d) in enumerate(rows)
    ]


def test_the_trace_processor_agrees_on_crossing_and_touching_slices(tmp_path: Path) -> None:
    spans = random_spans(5, 3000)
    data, _ = converted(made(spans, PLACES, chunk_rows=100), tmp_path / "t.pftrace")
    trace = perfetto_trace.read(data)
    (slices,) = processed(data, SLICES)
    assert Counter((row[1], row[2], row[3]) for row in slices) == Counter(
        (s.name, s.start, s.end - s.start) for s in spans
    )
    assert Counter((row[1], row[2], row[3], row[4]) for row in slices) == Counter(
        (one.name, one.start, one.end - one.start, one.depth) for one in trace.slices
    )


@try_examples(25)
@given(st.integers(0, 10**6), st.integers(0, 120))
def test_no_time_is_altered_and_nothing_is_lost(tmp_path_factory: pytest.TempPathFactory, seed: int, n: int) -> None:
    spans = [*random_spans(seed, n), Span(0, SpanKind.API, "last", 500, 500)]
    data, report = converted(made(spans, PLACES, chunk_rows=7), tmp_path_factory.mktemp("t") / "t.pftrace")
    trace = perfetto_trace.read(data)
    assert report.losses == []
    assert Counter((one.name, one.start, one.end) for one in trace.slices) == Counter(
        (s.name, s.start, s.end) for s in spans
    )
    for one in trace.slices:
        assert one.parent is None or (one.parent.start <= one.start <= one.end <= one.parent.end)
        assert one.depth == 0 or "GPU" not in trace.tracks[one.track].name  # only threads nest


# -- what cannot be written --------------------------------------------------------------------------------------------


def test_impossible_spans_are_counted_and_strange_names_written(tmp_path: Path) -> None:
    names = [
        'quo"te',
        "line\nbreak\ttab",
        "\x01control",
        "half \ud800 pair",
        "nul\0byte",
        "x" * 70_000,
        "日" * 30_000,
        "",
    ]
    spans = [Span(0, SpanKind.API, name, 10 * k, 10 * k + 5) for k, name in enumerate(names, 1)]
    spans += [
        Span(0, SpanKind.API, "backwards", 50, 49),
        Span(0, SpanKind.API, "before", -5, 3),
        Span(0, SpanKind.API, "beyond", -(2**63) + 7, -(2**62)),  # 2^63 + 7 and more, as a C tool stores them
        Span(0, SpanKind.API, "latest", 2**63 - 3, 2**63 - 2),
    ]
    data, report = converted(made(spans), tmp_path / "t.pftrace")
    trace = perfetto_trace.read(data)
    assert [one.name for one in trace.slices[:5]] == [*names[:3], "half ? pair", "nul\u2400byte"]
    long, wide, unnamed, latest = trace.slices[5:]
    assert len(long.name.encode()) <= LONGEST
    assert long.name.endswith("x…")
    assert len(wide.name.encode()) <= LONGEST
    assert wide.name.endswith("日…")
    assert unnamed.name == "<unnamed>"
    assert (latest.start, latest.end) == (2**63 - 3, 2**63 - 2)
    assert any(text.startswith("1 span that ends before") for text in report.losses)
    assert any(text.startswith("2 spans with times") for text in report.losses)
    assert any(text.startswith("2 names longer") for text in report.losses)
    assert any(text.startswith("1 name with NUL") for text in report.losses)


def test_more_names_than_a_table_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("callgrove.formats.timeline.perfetto.writer.MOST_INTERNED", 20)
    monkeypatch.setattr("callgrove.model.traces.span_order.GIVEN", 8)
    spans = [Span(0, SpanKind.API, f"name {k % 270}", 10 * k, 10 * k + 5) for k in range(600)]
    data, _ = converted(made(spans, chunk_rows=16), tmp_path / "t.pftrace")
    trace = perfetto_trace.read(data)
    assert [one.name for one in trace.slices] == [span.name for span in spans]
    assert [row[0] for row in processed(data, "select name as n from slice order by ts")[0]] == [s.name for s in spans]


def test_an_experiment_without_traces_is_refused(tmp_path: Path) -> None:
    from callgrove.errors import UsageError

    with pytest.raises(UsageError, match="no traces"):
        transfer(made([]), FORMAT.open_writer(tmp_path / "t.pftrace", WriteOptions()))
    assert list(tmp_path.iterdir()) == []


def test_open_ranges_end_with_their_process(tmp_path: Path) -> None:
    spans = [
        Span(0, SpanKind.MARKER, "open", 5, NEVER),
        Span(0, SpanKind.API, "f", 10, 90),
        Span(4, SpanKind.API, "g", 1, 999),
    ]
    trace = perfetto_trace.read(converted(made(spans, PLACES), tmp_path / "t.pftrace")[0])
    assert [(one.name, one.end, one.args.get("unfinished")) for one in trace.slices if one.name == "open"] == [
        ("open", 90, True)
    ]
