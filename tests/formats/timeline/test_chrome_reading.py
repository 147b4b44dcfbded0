"""Chrome traces, read: exact times, every phase, Kineto's vocabulary, our own files, and what is malformed."""

from __future__ import annotations

import gzip
import json
import tracemalloc
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from callgrove.binary import compressed
from callgrove.errors import CallgroveError, InputError, RefusedInput
from callgrove.formats.events.columns import ColumnStore
from callgrove.formats.interface import ReadOptions, WriteOptions
from callgrove.formats.registry import check_path, open_path
from callgrove.formats.timeline.chrome import stream
from callgrove.formats.timeline.chrome.pairing import match_pairs
from callgrove.formats.timeline.chrome.reading import read_file
from callgrove.formats.timeline.chrome_json import FORMAT
from callgrove.formats.writing.transfer import transfer
from callgrove.model.experiment import Experiment, Severity
from callgrove.model.profiles import ProfileKind
from callgrove.model.traces.events import FLOW, SpanKind
from tests.formats.contract import differences, happened, load_writer
from tests.formats.gpu.drawn_runs import EPOCH, OPEN_UNTIL, drawn_runs
from tests.formats.gpu.gpu_truth import opened

Json = dict[str, Any]
COLUMNS = ("profile", "kind", "category", "name", "start_ns", "end_ns", "correlation")


def written(path: Path, events: list[Json] | str, **header: object) -> Path:
    text = events if isinstance(events, str) else json.dumps({**header, "traceEvents": events})
    path.write_text(text)
    return path


def event(ph: str, ts: object, name: str = "a", **more: object) -> Json:
    return {"ph": ph, "ts": ts, "name": name, "pid": 1, "tid": 1, "cat": "c", **more}


def read(path: Path | list[Path], **options: Any) -> Experiment:
    experiment = open_path(path, "", ReadOptions(**options))
    assert isinstance(experiment, Experiment)
    return experiment


def spans(experiment: Experiment) -> list[Json]:
    backend = experiment.traces.spans_backend
    assert backend is not None
    out = []
    for chunk in experiment.traces.spans(COLUMNS):
        columns = {name: chunk[name].tolist() for name in ("span", *COLUMNS)}
        for name in ("name", "category"):
            columns[name] = [backend.strings[k] if k >= 0 else "" for k in columns[name]]
        out += [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return out


def ranks(experiment: Experiment) -> set[int]:
    return set(experiment.profiles.identifiers.pick("RANK", "logical")[0].tolist())


def times(experiment: Experiment) -> list[tuple[str, int, int]]:
    return [(span["name"], span["start_ns"], span["end_ns"]) for span in spans(experiment)]


# -- times -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ts", "dur", "start", "end"),
    [
        ("1712195495519689.047", "0.001", 1712195495519689047, 1712195495519689048),
        ("4458676983543.183", "41.407", 4458676983543183, 4458677024950183 - 40925593),
        ("10", "3", 10_000, 13_000),
        ("0.5", "0.25", 500, 750),
        ("1e3", "2E-1", 1_000_000, 1_000_200),
        ('"900.5"', '"1.5"', 900_500, 902_000),
        ("3938170650.325", "0.26048576171396576", 3938170650325, 3938170650585),
    ],
)
def test_times_are_exact(ts: str, dur: str, start: int, end: int, tmp_path: Path) -> None:
    path = written(tmp_path / "t.json", f'[{{"ph":"X","ts":{ts},"dur":{dur},"name":"a","pid":1,"tid":1}}]')
    (name, first, last) = times(read(path))[0]
    assert (name, first) == ("a", start)
    assert last == (end if ts[0] != "4" else start + 41_407)


def test_a_base_is_added_wherever_it_stands(tmp_path: Path) -> None:
    base, one = 1_700_000_000_000_000_000, json.dumps([event("X", 1.5, dur=2)])
    for text in (
        f'{{"baseTimeNanoseconds": {base}, "traceEvents": {one}}}',
        f'{{"traceEvents": {one}, "baseTimeNanoseconds": {base}}}',
    ):
        assert times(read(written(tmp_path / "b.json", text))) == [("a", base + 1500, base + 3500)]


def test_times_beyond_64_bits_are_left_out_and_counted(tmp_path: Path) -> None:
    path = written(tmp_path / "t.json", [event("X", 1e300, dur=1), event("X", 2**70, dur=1), event("X", 5, dur=1)])
    experiment = read(path)
    assert times(experiment) == [("a", 5000, 6000)]
    assert any("2 events without usable times" in warning.text for warning in experiment.warnings)
    with pytest.raises(InputError, match="spans or counters"):
        read(written(path, [event("X", 1e300, dur=1)]))


# -- phases ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("phase", ["", "BE", "st"])
def test_phases_are_known_by_their_whole_letter(phase: str, tmp_path: Path) -> None:
    events = [event("X", 1, dur=2), event(phase, 3, "odd", id=1)]
    assert times(read(written(tmp_path / "t.json", events))) == [("a", 1_000, 3_000)]


def test_begins_and_ends_are_a_stack_by_time(tmp_path: Path) -> None:
    events = [
        event("E", 1),
        event("B", 10, "outer"),
        event("E", 30),
        event("B", 12, "inner"),
        event("E", 20, "other name"),
        event("B", 40, "open"),
        event("X", 41, "last", dur=5),
    ]
    experiment = read(written(tmp_path / "p.json", events))
    assert sorted(times(experiment)) == [
        ("inner", 12_000, 20_000),
        ("last", 41_000, 46_000),
        ("open", 40_000, 46_000),
        ("outer", 10_000, 30_000),
    ]
    texts = " ".join(warning.text for warning in experiment.warnings)
    assert "1 span has no end" in texts
    assert "1 end has no begin" in texts
    assert not [problem for problem in check_path(tmp_path / "p.json")[1] if problem.severity is Severity.DAMAGE]


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 6), st.booleans()), max_size=40))
def test_pairs_are_those_of_stacks(marks: list[tuple[int, int, bool]]) -> None:
    expected, alone, stacks = {}, set(), dict[int, list[int]]()
    for k in sorted(range(len(marks)), key=lambda k: (marks[k][1], k)):
        stack = stacks.setdefault(marks[k][0], [])
        if marks[k][2]:
            stack.append(k)
            expected[k] = -1
        elif stack:
            expected[stack.pop()] = k
        else:
            alone.add(k)
    begins = np.array([begin for _, _, begin in marks], np.bool_)
    number, time = (np.array([mark[column] for mark in marks], np.int64) for column in (0, 1))
    begin, end, lone = match_pairs(number, time, begins, ~begins)
    assert dict(zip(begin.tolist(), end.tolist(), strict=True)) == expected
    assert set(lone.tolist()) == alone
    assert begin.tolist() == sorted(begin.tolist())


def test_asynchronous_events_have_a_profile_of_their_own(tmp_path: Path) -> None:
    events = [
        event("b", 1, "request", id="0xa", cat="net"),
        event("b", 2, "request", id="0xb", cat="net"),
        event("n", 3, "retry", id="0xa", cat="net"),
        event("e", 4, "request", id="0xb", cat="net"),
        event("e", 9, "request", id="0xa", cat="net"),
        event("X", 1, "work", dur=1),
    ]
    experiment = read(written(tmp_path / "a.json", events))
    assert sorted(times(experiment))[:2] == [("request", 1000, 9000), ("request", 2000, 4000)]
    assert "async net" in experiment.profiles.name


@pytest.mark.parametrize("to_format", ["chrome-json", "perfetto"])
def test_what_runs_on_no_thread_is_written_as_such(to_format: str, tmp_path: Path) -> None:
    requests = [event("b", 1, "request", id=7), event("e", 9, "request", id=7)]
    once = read(written(tmp_path / "a.json", [*requests, event("X", 2, "step", dur=3)]))
    target = tmp_path / "written"
    transfer(once, load_writer(to_format).open_writer(target, WriteOptions()))
    again = read(target)
    kinds = {ProfileKind.THREAD: 1, ProfileKind.OTHER: 1}
    assert Counter(map(ProfileKind, again.profiles.kind[again.profiles.measured].tolist())) == kinds
    assert differences(happened(once), happened(again)) == []


def test_kinds_and_frees_that_our_files_tell_come_back(tmp_path: Path) -> None:
    freed = event("X", 1, "[memory] free", dur=0, args={"kind": "alloc", "bytes": 64})
    other = event("X", 2, "a", dur=1, args={"kind": "unheard of"})
    experiment = read(written(tmp_path / "a.json", [freed, other]))
    assert [(s["kind"], s["name"]) for s in spans(experiment)] == [(SpanKind.ALLOC, "[memory]"), (SpanKind.REGION, "a")]
    table = experiment.traces.side("alloc")
    assert table is not None
    assert list(table.columns["bytes"]) == [64]


def test_kinds_that_a_category_of_chrome_does_not_tell_are_written(tmp_path: Path) -> None:
    """Here `overhead` is Kineto's, which is no kind of its own, and `sync`, `alloc`, `api` and `ompt` say nothing."""
    told = [
        (SpanKind.OVERHEAD, "overhead"),
        (SpanKind.SYNC, "sync"),
        (SpanKind.ALLOC, "alloc"),
        (SpanKind.API, "ompt"),
        (SpanKind.API, "api"),
        (SpanKind.REGION, "nvtx"),
    ]
    events = [event("X", k, "a", dur=1, cat=cat, args={"kind": kind.word}) for k, (kind, cat) in enumerate(told)]
    once = read(written(tmp_path / "once.json", events))
    transfer(once, load_writer("chrome-json").open_writer(tmp_path / "again.json", WriteOptions()))
    for experiment in (once, read(tmp_path / "again.json")):
        assert [(SpanKind(s["kind"]), s["category"]) for s in spans(experiment)] == told


def test_counters_have_a_series_per_key(tmp_path: Path) -> None:
    events = [event("C", 1, "memory", args={"used": 3, "free": "5"}), event("C", 2, "memory", args={"used": None})]
    counters = read(written(tmp_path / "c.json", events)).traces.counters
    assert counters is not None
    names = [counters.names[k] for k in counters.name.tolist()]
    assert list(zip(names, counters.value.tolist(), strict=True)) == [("memory used", 3.0), ("memory free", 5.0)]


def test_flows_join_spans(tmp_path: Path) -> None:
    events = [
        event("X", 10, "sender", dur=5),
        event("X", 20, "receiver", dur=5, tid=2),
        event("X", 30, "next", dur=5, tid=2),
        event("s", 11, "flow", id=7),
        event("t", 21, "flow", id=7, tid=2),
        event("f", 26, "flow", id=7, tid=2),
    ]
    experiment = read(written(tmp_path / "f.json", events))
    table = experiment.traces.side(FLOW)
    assert table is not None
    names = {span["span"]: span["name"] for span in spans(experiment)}
    assert [names[span] for span in table.span.tolist()] == ["sender", "receiver", "next"]
    assert np.asarray(table.columns["direction"]).tolist() == [0, 1, 2]
    assert len(set(np.asarray(table.columns["id"]).tolist())) == 1


def test_arguments_are_read_when_asked_for(tmp_path: Path) -> None:
    events = [
        event("B", 1, "begin", args={"x": 1}),
        event("X", 2, "whole", dur=1, args={"y": [1, 2], "z": "text"}),
        event("E", 9, args={"w": 0.5}),
    ]
    experiment = read(written(tmp_path / "a.json", events))
    table = experiment.traces.side("argument")
    assert table is not None
    names = {span["span"]: span["name"] for span in spans(experiment)}
    rows = [
        (names[s], n, v)
        for s, n, v in zip(table.span.tolist(), table.columns["name"], table.columns["value"], strict=True)
    ]
    assert rows == [("whole", "y", "[1, 2]"), ("whole", "z", "text"), ("begin", "x", "1"), ("begin", "w", "0.5")]


# -- Kineto ------------------------------------------------------------------------------------------------------------


def kineto(rank: int) -> list[Json]:
    gpu = {"pid": 0, "tid": 7}
    on = {"device": 0, "stream": 7}
    sizes = {"grid": [4, 1, 1], "block": [128, 1, 1], "registers per thread": 40}
    return [
        {"ph": "M", "name": "process_name", "pid": 100 + rank, "tid": 0, "args": {"name": "python"}},
        event("X", 10, "aten::mm", dur=20, cat="cpu_op", pid=100 + rank, args={"External id": 5}),
        event("X", 12, "cudaLaunchKernel", dur=3, cat="cuda_runtime", pid=100 + rank, args={"correlation": 9}),
        event("X", 20, "gemm", dur=8, cat="kernel", **gpu, args={**on, **sizes, "correlation": 9}),
        event("X", 30, "ncclDevKernel_AllReduce", dur=4, cat="kernel", **gpu, args={**on, "correlation": 77}),
        event("X", 40, "Memcpy HtoD", dur=1, cat="gpu_memcpy", **gpu, args={**on, "bytes": 64, "correlation": -1}),
        event("i", 41, "[memory]", cat="cpu_instant_event", s="t", pid=100 + rank, args={"Bytes": 64, "Addr": 1}),
        event("i", 42, "[memory]", cat="cpu_instant_event", s="t", pid=100 + rank, args={"Bytes": -64, "Addr": 1}),
    ]


def test_kineto_kinds_links_and_ranks(tmp_path: Path) -> None:
    for rank in (0, 1):
        about = {
            "schemaVersion": 1,
            "distributedInfo": {"rank": 3 - rank},
            "deviceProperties": [{"id": 0, "name": "A"}],
        }
        text = json.dumps({**about, "traceEvents": kineto(rank)}).encode()
        (tmp_path / f"trace{rank}.json.gz").write_bytes(gzip.compress(text))
    experiment = read(tmp_path)
    assert ranks(experiment) == {2, 3}
    kinds = Counter(SpanKind(span["kind"]).word for span in spans(experiment))
    assert kinds == {"region": 2, "api": 2, "kernel": 4, "copy": 2, "alloc": 4}
    tree = experiment.contexts
    paths = {tree.path(context) for context in range(len(tree))}
    assert "aten::mm->cudaLaunchKernel->gemm" in paths
    table = experiment.traces.side("kernel")
    assert table is not None
    assert np.asarray(table.columns["grid_x"]).tolist()[0] == 512
    copies = experiment.traces.side("copy")
    assert copies is not None
    assert np.asarray(copies.columns["bytes"]).tolist() == [64, 64]
    assert {"GPU 0"} <= {device.title for device in experiment.traces.devices(0)}


# -- our own files -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("first_ns", [0, EPOCH])
def test_what_we_write_comes_back(first_ns: int, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    folder, _ = drawn_runs(tmp_path / "in", first_ns)
    source = opened(folder)
    transfer(source, FORMAT.open_writer(tmp_path / "o.json", WriteOptions()))
    again = read(tmp_path / "o.json")
    names = ("kind", "start_ns", "end_ns", "correlation")
    told = [
        {**span, "end_ns": first_ns + OPEN_UNTIL if span["end_ns"] < 0 else span["end_ns"]} for span in spans(source)
    ]
    expected = Counter(tuple(span[name] for name in names) for span in told)
    found = Counter(tuple(span[name] for name in names) for span in spans(again))
    assert found == expected
    assert ranks(again) == ranks(source)


# -- malformed ---------------------------------------------------------------------------------------------------------

WHOLE = [event("X", k, f"span {k}", dur=1, args={"k": [k, {"deep": "}"}]}) for k in range(30)]


@pytest.mark.parametrize("packed", [False, True])
def test_a_cut_file_gives_the_events_before(packed: bool, tmp_path: Path) -> None:
    whole = json.dumps({"schemaVersion": 1, "traceEvents": WHOLE, "after": 1}).encode()
    data = gzip.compress(whole) if packed else whole
    reached = []
    for size in range(len(data) - 2, 0, -max(1, len(data) // 60)):
        path = tmp_path / "cut.json"
        path.write_bytes(data[:size])
        try:
            experiment = read(path)
        except CallgroveError:
            continue
        assert any(warning.severity is Severity.DAMAGE for warning in experiment.warnings)
        found = times(experiment)
        assert found == [(f"span {k}", k * 1000, k * 1000 + 1000) for k in range(len(found))]
        reached.append(len(found))
    assert max(reached) > 25


def test_an_array_without_its_end_is_no_damage(tmp_path: Path) -> None:
    text = "[\n" + ",\n".join(json.dumps(e) for e in WHOLE) + ",\n"
    experiment = read(written(tmp_path / "open.json", text))
    assert len(times(experiment)) == 30
    assert {warning.severity for warning in experiment.warnings} == {Severity.NOTE}


def test_what_is_no_json_costs_its_event_only(tmp_path: Path) -> None:
    texts = [json.dumps(e) for e in WHOLE]
    texts[7] = texts[7].replace(":", ";", 1)
    experiment = read(written(tmp_path / "bad.json", "[" + ", ".join(texts) + "]"))
    assert [name for name, _, _ in times(experiment)] == [f"span {k}" for k in range(30) if k != 7]
    assert any("1 piece of text is not JSON" in warning.text for warning in experiment.warnings)


def test_wrong_types_cost_their_event_only(tmp_path: Path) -> None:
    text = (
        '[{"ph":"X","ts":"x","dur":1,"pid":1,"tid":1,"name":"a"},7,null,"text",[1],'
        '{"ph":"X","ts":1,"dur":2,"pid":{},"tid":null,"name":7,"cat":[1],"args":3},{"ph":["X"]}]'
    )
    assert times(read(written(tmp_path / "t.json", text))) == [("7", 1000, 3000)]


def test_deep_values_and_other_json_are_refused_or_left_out(tmp_path: Path) -> None:
    deep = '{"a":' * 100_000 + "1" + "}" * 100_000
    one = json.dumps(event("X", 1, dur=1))
    experiment = read(written(tmp_path / "deep.json", f'{{"traceEvents":[{one[:-1]},"args":{deep}}},{one}]}}'))
    assert len(times(experiment)) >= 1
    for rest in ("[" * 100_000, '"a":' + "[" * 100_000):  # instead of a key, and as a member
        assert times(read(written(tmp_path / "cut.json", f'{{"traceEvents":[{one},{one}],{rest}'))) == times(
            read(written(tmp_path / "whole.json", f'{{"traceEvents":[{one},{one}]}}'))
        )
    for text in ('{"a": [1, 2, 3]}', "[1, 2, 3]"):
        with pytest.raises(InputError):
            read(written(tmp_path / "no.json", text))


BEYOND = 2**70
HOSTILE = {
    "ids beyond 64 bits": event(
        "X", 1, dur=1, pid=BEYOND, tid=-BEYOND, args={"correlation": BEYOND, "External id": BEYOND}
    ),
    "a flow beyond 64 bits": event("s", 1, id=BEYOND),
    "a flow of many digits": event("s", 1, id="0x" + "f" * 100),
    "a flow that is not a number": event("f", 1, id="0xzz", bp="e"),
    "a flow that is a list": event("t", 1, id=[1], cat={}, tid=[2]),
    "lists everywhere": event(
        "X", 1, dur=1, pid=[1], tid={}, cat=["kernel"], args={"External id": [1], "correlation": [2]}
    ),
    "numbers that are lists": event(
        "X", 1, dur=1, cat="kernel", args={"grid": [[1], 2, {}], "device": [0], "stream": {}}
    ),
    "a counter of lists": event("C", 1, args={"a": [1], "b": {}, "c": "x"}),
    "a base of lists": event("M", None, name="process_labels", args={"labels": [1]}),
}


@pytest.mark.parametrize("what", HOSTILE)
@pytest.mark.parametrize("alone", [False, True])
def test_hostile_values_cost_no_other_event(what: str, alone: bool, tmp_path: Path) -> None:
    path = written(tmp_path / "h.json", [HOSTILE[what]] if alone else [HOSTILE[what], event("X", 5, "good", dur=2)])
    try:
        experiment = read(path)
    except InputError:  # where nothing but that is there
        assert alone
        return
    assert alone or ("good", 5000, 7000) in times(experiment)
    experiment.traces.side(FLOW)


def test_negative_durations_are_kept_and_in_no_sum(tmp_path: Path) -> None:
    experiment = read(written(tmp_path / "n.json", [event("X", 10, "back", dur=-4), event("X", 1, "on", dur=2)]))
    assert times(experiment) == [("back", 10_000, 6_000), ("on", 1_000, 3_000)]
    rows = {row[1]: row for row in experiment.summary("regions").rows()}
    assert list(rows) == ["on"]


def test_events_out_of_order_nest_by_time(tmp_path: Path) -> None:
    events = [event("X", k, f"level {k}", dur=20 - 2 * k) for k in range(6)]
    in_order, mixed = (
        read(written(tmp_path / f"{name}.json", some)) for name, some in (("a", events), ("b", events[::-1]))
    )
    for experiment in (in_order, mixed):
        paths = [experiment.contexts.path(k) for k in range(len(experiment.contexts))]
        assert max(paths, key=len).count("level") == 6


def test_a_gzip_bomb_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compressed, "FREE_BYTES", 1 << 20)
    path = tmp_path / "bomb.json.gz"
    path.write_bytes(gzip.compress(b"[" + json.dumps(event("X", 1, dur=1)).encode() + b"," + b" " * (4 << 20)))
    with pytest.raises(CallgroveError, match="times its size"):
        read(path)


@pytest.mark.parametrize(
    ("begin", "filling"),
    [('{"ph":"X","ts":1,"name":"', "aaaa"), ('{"ph":"X","ts":1,"args":[1', ",[],{}"), ('"', "aaaa")],
    ids=["text of an event", "list of an event", "text that is not an event"],
)
def test_a_value_without_end_is_refused_early(
    begin: str, filling: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The memory that it takes is bounded, not only the bytes that the file inflates to."""
    monkeypatch.setattr(stream, "BLOCK", 1 << 14)
    monkeypatch.setattr(stream, "MOST_OF_EVENT", 1 << 16)
    path = tmp_path / "long.json.gz"
    before = f"[{json.dumps(event('X', 1, dur=1))},"
    text = before + begin + filling * ((4 << 20) // len(filling))
    path.write_bytes(gzip.compress(text.encode(), 1))
    tracemalloc.start()
    try:
        with pytest.raises(RefusedInput, match=f"byte {len(before)} of the text.* takes .* split it"):
            list(stream.EventStream(path).batches())
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()
    with pytest.raises(RefusedInput, match="more than any record"):
        read(path)


def test_a_long_value_beside_the_events_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Samples of stacks and texts of sources are longer than any event."""
    monkeypatch.setattr(stream, "BLOCK", 1 << 10)
    monkeypatch.setattr(stream, "MOST_OF_EVENT", 1 << 12)
    path = written(tmp_path / "long.json", WHOLE, about={"text": "a" * (1 << 15)})
    reading = stream.EventStream(path)
    assert len([event for batch in reading.batches() for event in batch]) == len(WHOLE)
    assert len(reading.header["about"]["text"]) == 1 << 15


def test_a_value_beside_the_events_may_be_most_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a large file holds is not a bomb; what a small one inflates to may be."""
    monkeypatch.setattr(stream, "BLOCK", 1 << 10)
    monkeypatch.setattr(stream, "MOST_OF_MEMBER", 1 << 12)
    frames = {str(k): {"name": f"f{k}", "parent": str(k - 1)} for k in range(1000)}
    path = written(tmp_path / "frames.json", WHOLE, stackFrames=frames)
    reading = stream.EventStream(path)
    assert len([event for batch in reading.batches() for event in batch]) == len(WHOLE)
    assert reading.header["stackFrames"] == frames
    packed = tmp_path / "frames.json.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    with pytest.raises(RefusedInput, match="more than any record"):
        list(stream.EventStream(packed).batches())


def test_numbers_beside_the_events_are_whole_where_blocks_end_in_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path / "w.json", WHOLE, baseTimeNanoseconds=1234567890123456789, version=1.25, on=True)
    for size in (1, 2, 3, 5, 7):
        monkeypatch.setattr(stream, "BLOCK", size)
        reading = stream.EventStream(path)
        assert len([event for batch in reading.batches() for event in batch]) == len(WHOLE)
        header = reading.header
        assert (header["baseTimeNanoseconds"], header["version"], header["on"]) == (1234567890123456789, "1.25", True)
        assert not reading.cut


def test_blocks_of_any_size_give_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path / "w.json", WHOLE, schemaVersion=1)
    expected = times(read(path))
    for size in (1, 7, 100, 1000):
        monkeypatch.setattr(stream, "BLOCK", size)
        assert times(read(path)) == expected


def test_columns_in_a_file_give_the_same(tmp_path: Path) -> None:
    path = written(tmp_path / "w.json", WHOLE, schemaVersion=1)
    results = []
    for limit in (0, 1 << 20):
        data, _ = read_file(path, ColumnStore(limit))
        results.append(
            [{name: column.tolist() for name, column in chunk.items()} for chunk in data.events(("start_ns", "lane"))]
        )
    assert results[0] == results[1]


def test_samples_beside_the_events_are_told(tmp_path: Path) -> None:
    """As Hermes and V8 write them: stacks of `stackFrames`, in a list of their own."""
    beside = {"samples": [{"ts": "5", "pid": 1, "tid": "1", "sf": 1}] * 3, "stackFrames": {"1": {"name": "f"}}}
    experiment = read(written(tmp_path / "both.json", [event("X", 1, dur=2)], **beside))
    assert any("3 samples of call stacks" in warning.text for warning in experiment.warnings)
    names = [{"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "hermes"}}]
    with pytest.raises(InputError, match="samples of call stacks and no events"):
        read(written(tmp_path / "samples.json", names, **beside))
