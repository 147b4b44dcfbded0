"""Perfetto traces, read: packets made field by field, what Perfetto's own classes write, and what damage leaves."""

from __future__ import annotations

import gzip
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from callgrove.binary.files import Source
from callgrove.binary.protobuf import fixed64_tag, message, number, packed, text, varint
from callgrove.binary.protobuf_reader import MANY, NotProtobuf, read_fields, scalar_fields
from callgrove.errors import CallgroveError, InputError
from callgrove.formats.events.begin_end import find_partners, open_at
from callgrove.formats.registry import detect, open_path
from callgrove.formats.timeline.perfetto import packets as packets_module
from callgrove.formats.timeline.perfetto.fields import (
    Clock,
    ClockSnapshot,
    DebugAnnotation,
    EventType,
    Interned,
    InternedData,
    LegacyEvent,
    Packet,
    PacketDefaults,
    ProcessDescriptor,
    ThreadDescriptor,
    TrackDescriptor,
    TrackEvent,
    TrackEventDefaults,
)
from callgrove.formats.timeline.perfetto.format import is_trace
from callgrove.model.experiment import Experiment, Severity
from callgrove.model.traces.events import SpanKind
from tests.exhaustive import try_examples
from tests.outside.trace_processor import processed
from tests.requirements import SHARED

# -- fields of many messages at once -----------------------------------------------------------------------------------

fields = st.one_of(
    st.tuples(st.integers(1, 2000), st.just(0), st.integers(0, 2**64 - 1)),
    st.tuples(st.integers(1, 2000), st.just(1), st.integers(0, 2**64 - 1)),
    st.tuples(st.integers(1, 2000), st.just(5), st.integers(0, 2**32 - 1)),
    st.tuples(st.integers(1, 2000), st.just(2), st.integers(0, 40)),
)


def encoded(rows: list[tuple[int, int, int]]) -> bytes:
    out = b""
    for one, type_, value in rows:
        out += varint(one << 3 | type_)
        if type_ == 0:
            out += varint(value)
        elif type_ == 2:
            out += varint(value) + bytes(value)
        else:
            out += value.to_bytes(8 if type_ == 1 else 4, "little")
    return out


@try_examples(50)
@given(st.lists(st.lists(fields, max_size=5), max_size=3 * MANY))
def test_fields_of_many_messages_are_those_of_each(messages: list[list[tuple[int, int, int]]]) -> None:
    contents = [encoded(rows) for rows in messages]
    data = np.frombuffer(b"".join(contents) + bytes(16), np.uint8)
    end = np.cumsum([len(content) for content in contents], dtype=np.int64)
    start = end - np.array([len(content) for content in contents], np.int64)
    read = read_fields(data, start, end)
    assert not read.broken.any()
    for k, rows in enumerate(messages):
        mine = np.flatnonzero(read.message == k)
        assert list(zip(read.number[mine], read.type[mine], read.value[mine], strict=True)) == rows
        assert [row[:3] for row in scalar_fields(contents[k])] == rows


@try_examples(50)
@given(st.lists(st.binary(max_size=30), min_size=1, max_size=2 * MANY))
def test_bytes_of_any_kind_are_read_alike_alone_and_together(contents: list[bytes]) -> None:
    data = np.frombuffer(b"".join(contents) + bytes(16), np.uint8)
    end = np.cumsum([len(content) for content in contents], dtype=np.int64)
    read = read_fields(data, end - np.array([len(content) for content in contents], np.int64), end)
    for k, content in enumerate(contents):
        try:
            alone = [row[:3] for row in scalar_fields(content)]
        except NotProtobuf:
            assert read.broken[k]
            continue
        mine = np.flatnonzero(read.message == k)
        assert not read.broken[k]
        assert list(zip(read.number[mine], read.type[mine], read.value[mine], strict=True)) == alone


@try_examples(100)
@given(st.lists(st.tuples(st.integers(0, 2), st.booleans()), max_size=40))
def test_begins_and_ends_are_paired_as_a_stack_does_it(events: list[tuple[int, bool]]) -> None:
    events = sorted(events, key=lambda event: event[0])
    expected, stacks = [-1] * len(events), dict[int, list[int]]()
    for k, (track, begins) in enumerate(events):
        stack = stacks.setdefault(track, [])
        if begins:
            stack.append(k)
        elif stack:
            expected[k] = stack.pop()
            expected[expected[k]] = k
    tracks = np.array([track for track, _ in events], np.int64)
    flags = np.array([begins for _, begins in events], np.bool_)
    assert find_partners(tracks, flags).tolist() == expected


@try_examples(50)
@given(st.lists(st.booleans(), min_size=1, max_size=30))
def test_what_is_open_between_events(events: list[bool]) -> None:
    stack: list[int] = []
    expected = [-1]
    for k, begins in enumerate(events):
        if begins:
            stack.append(k)
        elif stack:
            stack.pop()
        expected.append(stack[-1] if stack else -1)
    flags = np.array(events, np.bool_)
    assert open_at(np.zeros(len(events), np.int64), flags, np.arange(len(events) + 1)).tolist() == expected


# -- traces made of packets --------------------------------------------------------------------------------------------


def packet(*parts: bytes, sequence: int = 1, flags: int = 0, time: int | None = None) -> bytes:
    head = number(Packet.TRUSTED_PACKET_SEQUENCE_ID, sequence)
    head += number(Packet.SEQUENCE_FLAGS, flags) if flags else b""
    head += number(Packet.TIMESTAMP, time) if time is not None else b""
    return message(1, head, *parts)


def event(kind: int, *parts: bytes, track: int | None = 10) -> bytes:
    where = number(TrackEvent.TRACK_UUID, track) if track is not None else b""
    return message(Packet.TRACK_EVENT, number(TrackEvent.TYPE, kind), where, *parts)


def begin(time: int, name: str, *parts: bytes, track: int | None = 10, **how: int) -> bytes:
    return packet(event(EventType.SLICE_BEGIN, text(TrackEvent.NAME, name), *parts, track=track), time=time, **how)


def end(time: int, *parts: bytes, track: int | None = 10, **how: int) -> bytes:
    return packet(event(EventType.SLICE_END, *parts, track=track), time=time, **how)


def thread(uuid: int = 10, tid: int = 5, name: str = "main") -> bytes:
    about = (
        number(ThreadDescriptor.PID, 7) + number(ThreadDescriptor.TID, tid) + text(ThreadDescriptor.THREAD_NAME, name)
    )
    return packet(
        message(Packet.TRACK_DESCRIPTOR, number(TrackDescriptor.UUID, uuid), message(TrackDescriptor.THREAD, about))
    )


def interned(kind: InternedData, **texts: int) -> bytes:
    rows = [message(kind, number(Interned.IID, iid), text(Interned.TEXT, word)) for word, iid in texts.items()]
    return message(Packet.INTERNED_DATA, *rows)


def opened(tmp_path: Path, *parts: bytes) -> Experiment:
    path = tmp_path / "trace"
    path.write_bytes(b"".join(parts))
    found = open_path(path)
    assert isinstance(found, Experiment)
    assert found.format == "perfetto"
    return found


def spans(found: Experiment) -> list[tuple[str, int, int]]:
    backend = found.traces.spans_backend
    assert backend is not None
    rows = [
        (backend.strings[name], start, stop)
        for chunk in found.traces.spans(("name", "start_ns", "end_ns"))
        for name, start, stop in zip(
            *(chunk[column].tolist() for column in ("name", "start_ns", "end_ns")), strict=True
        )
    ]
    return sorted(rows, key=lambda row: (row[1], -row[2]))


def kinds(found: Experiment) -> list[str]:
    return [SpanKind(kind).word for chunk in found.traces.spans(("kind",)) for kind in chunk["kind"].tolist()]


def notes(found: Experiment, severity: Severity = Severity.NOTE) -> str:
    return "\n".join(warning.text for warning in found.warnings if warning.severity == severity)


def test_slices_in_any_order_of_the_file(tmp_path: Path) -> None:
    """As our own writer has them, each end after its begin; descriptors come last."""
    found = opened(tmp_path, begin(10, "a"), end(50), begin(20, "b"), end(30), begin(30, "c"), end(30), thread())
    assert spans(found) == [("a", 10, 50), ("b", 20, 30), ("c", 30, 30)]
    assert found.profiles.name == ("main",)
    assert not found.damage


def test_an_end_without_begin_and_a_begin_without_end(tmp_path: Path) -> None:
    found = opened(
        tmp_path, end(5), begin(10, "a"), begin(20, "b"), end(30), end(40, track=11), begin(41, "c", track=11)
    )
    assert spans(found) == [("a", 10, 30), ("b", 20, 30), ("c", 41, 41)]
    assert "slices that never end: 2" in notes(found)
    assert "ends of slices that nothing began: 2" in notes(found)


def test_interned_names_hold_from_their_packet_until_they_are_cleared(tmp_path: Path) -> None:
    def named(time: int, iid: int, *parts: bytes, **how: int) -> bytes:
        return packet(event(EventType.INSTANT, number(TrackEvent.NAME_IID, iid)), *parts, time=time, **how)

    found = opened(
        tmp_path,
        named(1, 1, sequence=2, flags=2),  # what it needs came before the recording
        named(2, 1, interned(InternedData.EVENT_NAMES, first=1), flags=3),
        named(3, 2, flags=2),  # interned only in the next packet
        named(4, 2, interned(InternedData.EVENT_NAMES, second=2), flags=2),
        named(5, 1, interned(InternedData.EVENT_NAMES, other=1), flags=3),
        named(6, 2, flags=2),
        named(7, 1, interned(InternedData.EVENT_NAMES, changed=1), flags=2),
        named(8, 1 << 40, interned(InternedData.EVENT_NAMES, far=1 << 40), flags=2),
    )
    assert [name for name, _, _ in spans(found)] == ["first", "", "second", "other", "", "changed", "far"]
    assert "events whose names came before the recording: 1" in notes(found)
    assert "never interned: 2" in notes(found, Severity.DAMAGE)


@pytest.mark.parametrize("piece", [1, 40, 1 << 22])
def test_blocks_of_any_size_give_the_same(piece: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packets_module, "PIECE", piece)
    data = (SHARED / "data/own/perfetto/sdk_like.pftrace").read_bytes() if SHARED.is_dir() else b""
    parts = [data] if data else [thread(), begin(1, "a"), end(2)]
    found = opened(tmp_path, *parts)
    assert len(spans(found)) == (16 if data else 1)
    assert not data or sum(stop - start for _, start, stop in spans(found)) == 4725


def clock(number_: int, time: int, multiplier: int = 0, incremental: bool = False) -> bytes:
    parts = [number(Clock.CLOCK_ID, number_), number(Clock.TIMESTAMP, time)]
    parts += [number(Clock.UNIT_MULTIPLIER_NS, multiplier)] * bool(multiplier)
    parts += [number(Clock.IS_INCREMENTAL, 1)] * incremental
    return message(ClockSnapshot.CLOCKS, *parts)


def test_clocks_are_brought_together_by_snapshots(tmp_path: Path) -> None:
    def on(clock_id: int, time: int, name: str) -> bytes:
        return packet(
            event(EventType.INSTANT, text(TrackEvent.NAME, name)),
            number(Packet.TIMESTAMP_CLOCK_ID, clock_id),
            time=time,
        )

    snapshot = message(Packet.CLOCK_SNAPSHOT, clock(6, 1000), clock(3, 100), clock(64, 0, 10, True))
    later = message(Packet.CLOCK_SNAPSHOT, clock(6, 2000), clock(3, 1101), clock(5, 7))
    found = opened(
        tmp_path,
        packet(snapshot),
        on(6, 1500, "itself"),
        on(3, 150, "by the first snapshot"),
        on(64, 3, "counted"),
        on(64, 4, "counted on"),
        packet(later),
        on(3, 1200, "by the second snapshot"),
        on(5, 8, "of one snapshot"),
        on(9, 8, "unknown"),
    )
    assert {name: start for name, start, _ in spans(found)} == {
        "itself": 1500,
        "by the first snapshot": 1050,
        "counted": 1030,
        "counted on": 1070,
        "by the second snapshot": 2099,
        "of one snapshot": 2001,
    }
    assert "no clock of the trace shows: 1" in notes(found, Severity.DAMAGE)


def test_defaults_tracks_counters_and_extra_counters(tmp_path: Path) -> None:
    tracks = [
        number(TrackEventDefaults.TRACK_UUID, 10),
        number(TrackEventDefaults.EXTRA_COUNTER_TRACK_UUIDS, 30),
    ]
    defaults = message(
        Packet.TRACE_PACKET_DEFAULTS, message(PacketDefaults.TRACK_EVENT_DEFAULTS, *tracks), number(58, 6)
    )
    counter = message(TrackDescriptor.COUNTER, number(4, 1000), number(5, 1))
    found = opened(
        tmp_path,
        packet(defaults, flags=1),
        thread(),
        packet(message(Packet.TRACK_DESCRIPTOR, number(1, 30), text(2, "cycles"), counter)),
        begin(10, "a", number(TrackEvent.EXTRA_COUNTER_VALUES, 5), track=None),
        end(20, packed(TrackEvent.EXTRA_COUNTER_VALUES, [6]), track=None),
        packet(event(EventType.COUNTER, number(TrackEvent.COUNTER_VALUE, -3), track=31), time=15),
        packet(
            event(EventType.COUNTER, fixed64_tag(TrackEvent.DOUBLE_COUNTER_VALUE) + struct.pack("<d", 2.5), track=31),
            time=16,
        ),
    )
    counters = found.traces.counters
    assert counters is not None
    rows = {(counters.names[n], t): v for n, t, v in zip(counters.name, counters.time_ns, counters.value, strict=True)}
    assert rows == {("cycles", 10): 5000, ("cycles", 20): 11000, ("counter 31", 15): -3, ("counter 31", 16): 2.5}
    assert spans(found) == [("a", 10, 20)]


def test_arguments_of_every_type(tmp_path: Path) -> None:
    def note(name: str, *value: bytes) -> bytes:
        return message(TrackEvent.DEBUG_ANNOTATIONS, text(DebugAnnotation.NAME, name), *value)

    inner = message(
        DebugAnnotation.DICT_ENTRIES, text(DebugAnnotation.NAME, "k"), number(DebugAnnotation.INT_VALUE, -2)
    )
    values = [message(DebugAnnotation.ARRAY_VALUES, number(DebugAnnotation.UINT_VALUE, k)) for k in (1, 2)]
    found = opened(
        tmp_path,
        begin(
            1,
            "f",
            note("flag", number(DebugAnnotation.BOOL_VALUE, 1)),
            note("big", number(DebugAnnotation.UINT_VALUE, 2**64 - 1)),
            note("half", fixed64_tag(DebugAnnotation.DOUBLE_VALUE) + struct.pack("<d", 0.5)),
            note("where", number(DebugAnnotation.POINTER_VALUE, 255)),
            note("word", text(DebugAnnotation.STRING_VALUE, "text")),
            note("parts", inner),
            note("list", *values),
        ),
        end(2, note("result", number(DebugAnnotation.INT_VALUE, 0))),
    )
    table = found.traces.side("argument")
    assert table is not None
    assert dict(zip(table.columns["name"], table.columns["value"], strict=True)) == {
        "flag": "true",
        "big": str(2**64 - 1),
        "half": "0.5",
        "where": "0xff",
        "word": "text",
        "parts": '{"k": -2}',
        "list": "[1, 2]",
        "result": "0",
    }
    assert set(table.span.tolist()) == {0}


def test_flows_become_launches_or_stay_flows(tmp_path: Path) -> None:
    def flow(kind: TrackEvent, id_: int) -> bytes:
        return fixed64_tag(kind) + struct.pack("<Q", id_)

    api, kernel = (text(TrackEvent.CATEGORIES, word) for word in ("hip_runtime_api", "kernel_dispatch"))
    found = opened(
        tmp_path,
        thread(),
        begin(1, "launch", api, flow(TrackEvent.FLOW_IDS, 7), flow(TrackEvent.FLOW_IDS, 8)),
        end(2),
        begin(3, "k1", kernel, flow(TrackEvent.TERMINATING_FLOW_IDS, 7), track=20),
        end(4, track=20),
        begin(5, "k2", kernel, flow(TrackEvent.TERMINATING_FLOW_IDS, 8), track=20),
        end(6, track=20),
        begin(7, "send", number(TrackEvent.FLOW_IDS_OLD, 9)),
        end(8),
        begin(9, "receive", number(TrackEvent.TERMINATING_FLOW_IDS_OLD, 9), track=11),
        end(10, track=11),
    )
    assert kinds(found) == ["api", "kernel", "kernel", "region", "region"]
    correlation = np.concatenate([chunk["correlation"] for chunk in found.traces.spans(("correlation",))])
    assert len(set(correlation[:3].tolist())) == 1
    assert correlation[3:].tolist() == [-1, -1]
    flows = found.traces.side("flow")
    assert flows is not None
    assert (flows.span.tolist(), np.asarray(flows.columns["id"]).tolist()) == ([3, 4], [9, 9])


def test_older_events_of_chrome(tmp_path: Path) -> None:
    def old(time: int, phase: str, name: str, *parts: bytes) -> bytes:
        legacy = message(TrackEvent.LEGACY_EVENT, number(LegacyEvent.PHASE, ord(phase)), *parts)
        return packet(message(Packet.TRACK_EVENT, text(TrackEvent.NAME, name), legacy), time=time)

    id_ = number(LegacyEvent.UNSCOPED_ID, 5)
    found = opened(
        tmp_path,
        old(10, "X", "whole", number(LegacyEvent.DURATION_US, 2)),
        old(20, "B", "nested"),
        old(30, "b", "async", id_),
        old(40, "E", ""),
        old(50, "e", "", id_),
        old(60, "i", "moment"),
        old(70, "s", "flow", id_),
    )
    assert spans(found) == [("whole", 10, 2010), ("nested", 20, 40), ("async", 30, 50), ("moment", 60, 60)]
    assert "older phases are not read: 1 s" in notes(found)


def test_processes_ranks_and_devices(tmp_path: Path) -> None:
    def process(uuid: int, pid: int, name: str) -> bytes:
        about = number(ProcessDescriptor.PID, pid) + text(ProcessDescriptor.PROCESS_NAME, name)
        return packet(message(Packet.TRACK_DESCRIPTOR, number(1, uuid), message(TrackDescriptor.PROCESS, about)))

    def track(uuid: int, parent: int, name: str) -> bytes:
        return packet(message(Packet.TRACK_DESCRIPTOR, number(1, uuid), number(5, parent), text(2, name)))

    found = opened(
        tmp_path,
        *(process(1, 10, "app rank 1"), process(2, 11, "app rank 0")),
        *(track(5, 1, "GPU [2]"), track(6, 5, "Stream [3]"), track(7, 2, "GPU Kernel Dispatch [1] Queue 4")),
        *(begin(1, "a", track=6), end(2, track=6), begin(3, "b", track=7), end(4, track=7)),
    )
    identity = {name: found.profiles.identity_list(name) for name in ("rank", "gpu_device", "gpu_stream")}
    assert identity == {"rank": [1, 0], "gpu_device": [2, 1], "gpu_stream": [3, 4]}


# -- what else lies in files, and damage -------------------------------------------------------------------------------


def test_compressed_packets_and_gzip(tmp_path: Path) -> None:
    inside = zlib.compress(begin(10, "a") + end(20))
    parts = [thread(), packet(message(Packet.COMPRESSED_PACKETS, inside)), begin(30, "b"), end(40)]
    whole = opened(tmp_path, *parts)
    assert spans(whole) == [("a", 10, 20), ("b", 30, 40)]
    assert spans(opened(tmp_path, gzip.compress(b"".join(parts)))) == spans(whole)
    cut = opened(tmp_path, gzip.compress(b"".join(parts))[:-12])
    assert "gzip" in notes(cut, Severity.DAMAGE)
    broken = opened(
        tmp_path, thread(), packet(message(Packet.COMPRESSED_PACKETS, inside[:-9])), begin(30, "b"), end(40)
    )
    assert "a compressed packet" in notes(broken, Severity.DAMAGE)
    nested = zlib.compress(packet(message(Packet.COMPRESSED_PACKETS, inside)))
    twice = opened(tmp_path, begin(1, "b"), end(2), packet(message(Packet.COMPRESSED_PACKETS, nested)))
    assert "inside of others: 1" in notes(twice, Severity.DAMAGE)


def test_a_packet_that_inflates_to_too_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packets_module, "MOST_INFLATED", 1000)
    many = zlib.compress((begin(1, "a") + end(2)) * 500)
    found = opened(tmp_path, thread(), begin(5, "b"), end(6), packet(message(Packet.COMPRESSED_PACKETS, many)))
    assert "holds more than 1000 bytes" in notes(found, Severity.DAMAGE)


def test_other_packets_are_counted(tmp_path: Path) -> None:
    found = opened(
        tmp_path, begin(1, "a"), end(2), packet(message(37, b"")), packet(message(1, b"")), packet(message(119, b""))
    )
    assert "1 ftrace events, 1 heap profile, 1 field 119" in notes(found)
    assert not found.damage


def test_a_trace_without_events_is_refused_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"without events of tracks.*ftrace events"):
        opened(tmp_path, packet(message(1, b"")), packet(message(1, b"")))


@pytest.mark.parametrize(
    "head",
    [
        b"",
        b"\n",
        b"\n\nhello",
        b'\n{"a": 1}\n',
        b"\nThis is text\n" * 9,
        b"\n\x04\x08\x01\x10\x02\n\x04\x08\x01\x10\x02",
        bytes(64),
    ],
)
def test_what_is_no_trace(head: bytes) -> None:
    """Texts that begin with an empty line, and pprof's messages among them."""
    assert not is_trace(head, len(head))


def test_a_trace_whose_first_packet_is_large(tmp_path: Path) -> None:
    rows = [message(InternedData.EVENT_NAMES, number(1, k + 1), text(2, f"name {k}" * 20)) for k in range(2000)]
    first = packet(message(Packet.INTERNED_DATA, *rows), flags=1)
    found = opened(
        tmp_path, first, packet(event(EventType.INSTANT, number(TrackEvent.NAME_IID, 2000)), time=1, flags=2)
    )
    assert spans(found)[0][0].startswith("name 1999")


def test_a_folder_of_ranks_is_one_run(tmp_path: Path) -> None:
    for rank in (1, 0, 10):
        (tmp_path / f"perfetto-trace-{rank}.proto").write_bytes(thread() + begin(1, f"f{rank}") + end(2))
    found = open_path(tmp_path)
    assert isinstance(found, Experiment)
    assert set(found.profiles.identity_list("rank")) == {0, 1, 10}
    assert detect(Source.of(tmp_path))[0].name == "perfetto"


@pytest.mark.parametrize("step", [7, 61])
def test_cuts_and_flips_never_escape(step: int, tmp_path: Path) -> None:
    data = bytearray(b"".join([thread(), begin(1, "a"), begin(2, "b", number(52, 9)), end(3), end(4)]) * 3)
    for at in range(0, len(data), step):
        for damaged in (
            data[:at],
            data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :],
            data[:at] + b"\x7f" + data[at:],
        ):
            (tmp_path / "trace").write_bytes(bytes(damaged))
            try:
                found = open_path(tmp_path / "trace", from_format="perfetto")
            except CallgroveError:
                continue
            assert isinstance(found, Experiment)
            spans(found)


def test_names_of_interned_data_as_perfetto_reads_them(tmp_path: Path, shared: Path) -> None:
    """The trace processor names, places and nests what we read."""
    path = shared / "data/own/perfetto/sdk_like.pftrace"
    rows: list[Any] = processed(path.read_bytes(), "select s.name as n, s.ts as t, s.dur as d from slice s")[0]
    theirs = sorted(tuple(row) for row in rows if row[2] >= 0)
    found = open_path(path)
    assert isinstance(found, Experiment)
    ours = sorted((name, start, stop - start) for name, start, stop in spans(found) if name != "never ended")
    assert ours == theirs
