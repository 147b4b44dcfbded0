"""A reader of Perfetto traces that trusts nothing: it checks what a trace must be, and gives slices and counters.

Specification: trace-outputs.md 2.2 to 2.5 and 6.1. Written for tests, from the list of fields alone.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import cast

from tests.outside.protobuf import decoded

Fields = dict[int, list[int | bytes]]
BEGIN, END, COUNTER = 1, 2, 4


@dataclass
class Track:
    uuid: int
    parent: int
    name: str
    kind: str  # process, thread, counter, track
    pid: int = 0
    tid: int = 0
    labels: tuple[str, ...] = ()
    unit: int = 0


@dataclass
class Slice:
    track: int
    name: str
    category: str
    start: int
    end: int = -1
    depth: int = 0
    parent: Slice | None = None
    args: dict[str, object] = field(default_factory=dict)
    flows: tuple[int, ...] = ()
    ends_flows: tuple[int, ...] = ()


@dataclass
class Trace:
    tracks: dict[int, Track] = field(default_factory=dict)
    slices: list[Slice] = field(default_factory=list)
    counters: dict[int, list[tuple[int, float]]] = field(default_factory=dict)
    sequences: set[int] = field(default_factory=set)

    def process(self, uuid: int) -> Track:
        """The process that a track belongs to."""
        while self.tracks[uuid].kind != "process":
            uuid = self.tracks[uuid].parent
        return self.tracks[uuid]

    def path(self, uuid: int) -> tuple[str, ...]:
        """Names of tracks from the process on."""
        out = [self.tracks[uuid].name]
        while self.tracks[uuid].parent:
            uuid = self.tracks[uuid].parent
            out.append(self.tracks[uuid].name)
        return tuple(reversed(out))


def read(data: bytes) -> Trace:
    """The trace, after all checks."""
    reader = _Reader()
    for packet in decoded(data).get(1, []):
        assert isinstance(packet, bytes)
        reader.packet(decoded(packet))
    return reader.finish()


class _Reader:
    def __init__(self) -> None:
        self.trace = Trace()
        self.interned: dict[tuple[int, int, int], str] = {}  # sequence, table, iid
        self.events: list[tuple[int, int, Fields]] = []  # time, number, event
        self.said: list[tuple[list[str], list[str], dict[str, object]]] = []  # names, categories, annotations

    def packet(self, packet: Fields) -> None:
        sequence, flags = _int(packet, 10), _int(packet, 13)
        assert sequence > 0
        if sequence not in self.trace.sequences:
            assert flags & 1, f"sequence {sequence} does not begin anew"
            self.trace.sequences.add(sequence)
        assert flags & 2
        if flags & 1:
            self.interned = {key: text for key, text in self.interned.items() if key[0] != sequence}
        for data in packet.get(12, []):
            for table, entries in decoded(_bytes(data)).items():
                for entry in entries:
                    one = decoded(_bytes(entry))
                    assert _int(one, 1) > 0
                    self.interned[sequence, table, _int(one, 1)] = _text(one, 2)
        for data in packet.get(60, []):
            self.track(decoded(_bytes(data)))
        for data in packet.get(11, []):
            self.event(_int(packet, 8), decoded(_bytes(data)), sequence)

    def track(self, one: Fields) -> None:
        uuid = _int(one, 1)
        assert uuid, "a track without a uuid"
        assert uuid not in self.trace.tracks, f"track {uuid} is described twice"
        track = Track(uuid, _int(one, 5), _text(one, 2), "track")
        if 3 in one:
            process = decoded(_bytes(one[3][0]))
            track.kind, track.pid, track.name = "process", _int(process, 1), _text(process, 6)
            track.labels = tuple(_bytes(label).decode() for label in process.get(8, []))
        elif 4 in one:
            thread = decoded(_bytes(one[4][0]))
            track.kind, track.pid, track.tid, track.name = "thread", _int(thread, 1), _int(thread, 2), _text(thread, 5)
            assert 0 < track.tid < 2**31
        elif 8 in one:
            track.kind, track.unit = "counter", _int(decoded(_bytes(one[8][0])), 3)
        if track.kind == "process":
            assert 0 < track.pid < 2**31
        else:
            assert track.parent in self.trace.tracks
        self.trace.tracks[uuid] = track

    def event(self, time: int, event: Fields, sequence: int) -> None:
        """Names are looked up at once: tables change."""
        assert time < 2**63
        uuid = _int(event, 11)
        assert uuid in self.trace.tracks, f"an event on track {uuid}, which is not described"
        if _int(event, 9) == END:
            assert not {3, 10, 22, 23} & set(event), "an END with a name or a category"
        names = [self._interned(sequence, 2, iid) for iid in event.get(10, [])]
        categories = [self._interned(sequence, 1, iid) for iid in event.get(3, [])]
        args = dict(self._annotation(decoded(_bytes(data)), sequence) for data in event.get(4, []))
        self.events.append((time, len(self.events), event))
        self.said.append((names, categories, args))

    def _interned(self, sequence: int, table: int, iid: int | bytes) -> str:
        key = (sequence, table, cast(int, iid))
        assert key in self.interned, f"number {iid!r} of table {table} was never said in sequence {sequence}"
        return self.interned[key]

    def _annotation(self, one: Fields, sequence: int) -> tuple[str, object]:
        key = self._interned(sequence, 3, one[1][0])
        if 17 in one:
            return key, self._interned(sequence, 29, one[17][0])
        if 5 in one:
            return key, struct.unpack("<d", _bytes(one[5][0]))[0]
        if 2 in one:
            return key, bool(one[2][0])
        return key, _signed(_int(one, 4))

    def finish(self) -> Trace:
        stacks: dict[int, list[Slice]] = {}
        for time, number, event in sorted(self.events, key=lambda entry: entry[:2]):
            uuid, type_ = _int(event, 11), _int(event, 9)
            stack = stacks.setdefault(uuid, [])
            names, categories, args = self.said[number]
            if type_ == BEGIN:
                (name,), (category,) = names, categories
                one = Slice(
                    uuid, name, category, time, depth=len(stack), parent=stack[-1] if stack else None, args=args
                )
                one.flows = tuple(int.from_bytes(_bytes(i), "little") for i in event.get(47, []))
                one.ends_flows = tuple(int.from_bytes(_bytes(i), "little") for i in event.get(48, []))
                stack.append(one)
                self.trace.slices.append(one)
            elif type_ == END:
                assert stack, f"an END on track {uuid} at {time} without a BEGIN"
                stack.pop().end = time
            else:
                assert type_ == COUNTER
                value = struct.unpack("<d", _bytes(event[44][0]))[0] if 44 in event else _signed(_int(event, 30))
                self.trace.counters.setdefault(uuid, []).append((time, value))
        assert not any(stacks.values()), "some slices never end"
        self._check_flows()
        return self.trace

    def _check_flows(self) -> None:
        sources = [flow for one in self.trace.slices for flow in one.flows]
        ends = [flow for one in self.trace.slices for flow in one.ends_flows]
        assert 0 not in sources + ends
        assert len(set(sources)) == len(sources)
        assert sorted(sources) == sorted(ends)


def _int(one: Fields, number: int) -> int:
    value = one.get(number, [0])[0]
    assert isinstance(value, int)
    return value


def _text(one: Fields, number: int) -> str:
    return _bytes(one.get(number, [b""])[0]).decode()


def _bytes(value: int | bytes) -> bytes:
    assert isinstance(value, bytes)
    return value


def _signed(value: int) -> int:
    return value - 2**64 if value >= 2**63 else value
