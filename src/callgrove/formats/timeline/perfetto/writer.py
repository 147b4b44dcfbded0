"""Perfetto traces, written: tracks, slices and points of counters as packets of protocol buffers."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import numpy as np

from callgrove.arrays import ABSENT, Array, Ints
from callgrove.binary.protobuf import (
    WIDEST,
    Bytes,
    Shape,
    fixed64_tag,
    interleave,
    message,
    number,
    tag,
    text,
    varint,
    width_of,
)
from callgrove.formats.interface import WriteOptions
from callgrove.formats.timeline.content import (
    CounterPoints,
    Note,
    ProcessTracks,
    Slices,
    Texts,
    Track,
    TrackKind,
    Value,
)
from callgrove.formats.timeline.perfetto.fields import (
    CLEARED,
    EXPLICIT,
    NEEDS_STATE,
    PACKET,
    PROFILER_TRACK,
    CounterDescriptor,
    DebugAnnotation,
    EventType,
    Interned,
    InternedData,
    Packet,
    ProcessDescriptor,
    ThreadDescriptor,
    TrackDescriptor,
    TrackEvent,
    Unit,
)
from callgrove.formats.timeline.writer import TimelineWriter
from callgrove.model.traces.events import FLOW, FlowDirection

__all__ = ["PerfettoEncoder", "PerfettoPart", "open_writer"]


# -- packets -----------------------------------------------------------------------------------------------------------


MOST_INTERNED = 1 << 16  # entries of a table of a sequence
TRACK_BITS, FLOW_BITS = 20, 40
DEBUG_ANNOTATION = varint(TrackEvent.DEBUG_ANNOTATIONS << 3 | 2)
TRACK_EVENT = varint(Packet.TRACK_EVENT << 3 | 2)
ONE_PACKET = varint(PACKET << 3 | 2)


class PerfettoEncoder:
    """The encoder of the whole file."""

    def __init__(self) -> None:
        self._interned: dict[str, bytes] = {}

    def __reduce__(self) -> tuple[type[PerfettoEncoder], tuple[()]]:
        """Pickle without texts: a worker encodes these itself."""
        return PerfettoEncoder, ()

    def opening(self, processes: Sequence[ProcessTracks]) -> Iterator[bytes]:
        for tracks in processes:
            new = tracks.take_new_tracks()
            first = _descriptor(tracks, new[0], CLEARED | NEEDS_STATE)
            yield b"".join([first, *(_descriptor(tracks, track) for track in new[1:])])

    def part(self) -> PerfettoPart:
        return PerfettoPart(self._interned)

    def closing(self) -> Iterator[bytes]:
        """Yield nothing: a trace just ends."""
        return iter(())


def _uuid(tracks: ProcessTracks, track: int) -> int:
    return (tracks.process.index + 1 << TRACK_BITS) + track


def _sequence(tracks: ProcessTracks) -> bytes:
    return number(Packet.TRUSTED_PACKET_SEQUENCE_ID, tracks.process.index + 1)


def _descriptor(tracks: ProcessTracks, track: Track, flags: int = NEEDS_STATE) -> bytes:
    process = tracks.process
    parts = [number(TrackDescriptor.UUID, _uuid(tracks, track.number))]
    if track.kind is TrackKind.PROCESS:
        about = [number(ProcessDescriptor.PID, process.pid)]
        about += [text(ProcessDescriptor.CMDLINE, process.command)] if process.command else []
        about += [text(ProcessDescriptor.PROCESS_NAME, process.name)]
        about += [text(ProcessDescriptor.PROCESS_LABELS, label) for label in process.labels]
        parts += [message(TrackDescriptor.PROCESS, *about), number(TrackDescriptor.CHILD_ORDERING, EXPLICIT)]
    else:
        parts.append(number(TrackDescriptor.PARENT_UUID, _uuid(tracks, track.parent)))
        parts.append(number(TrackDescriptor.SIBLING_ORDER_RANK, track.order))
    if track.kind is TrackKind.THREAD:
        ids = number(ThreadDescriptor.PID, process.pid) + number(ThreadDescriptor.TID, track.tid)
        parts.append(message(TrackDescriptor.THREAD, ids, text(ThreadDescriptor.THREAD_NAME, track.name)))
    elif track.kind is not TrackKind.PROCESS:
        parts.append(text(TrackDescriptor.NAME, track.name))
    if track.is_profiler:
        parts.append(text(TrackDescriptor.DESCRIPTION, PROFILER_TRACK))
    if track.kind is TrackKind.GROUP:
        parts.append(number(TrackDescriptor.CHILD_ORDERING, EXPLICIT))
    if track.kind is TrackKind.COUNTER:
        unit = number(CounterDescriptor.UNIT, Unit.BYTES) if track.unit == "bytes" else b""
        unit = text(CounterDescriptor.UNIT_NAME, track.unit) if track.unit and not unit else unit
        parts.append(message(TrackDescriptor.COUNTER, unit))
    head = _sequence(tracks) + number(Packet.SEQUENCE_FLAGS, flags)
    return message(PACKET, head, message(Packet.TRACK_DESCRIPTOR, *parts))


@dataclass
class _Tables:
    """What a sequence has interned: text -> number from 1 on. `encoded` has texts as messages: thousands of processes
    intern the same names."""

    encoded: dict[str, bytes]
    names: dict[str, int] = field(default_factory=dict)
    categories: dict[str, int] = field(default_factory=dict)
    keys: dict[str, int] = field(default_factory=dict)
    texts: dict[str, int] = field(default_factory=dict)
    started: bool = False
    _new: list[bytes] = field(default_factory=list)

    def clear(self) -> None:
        for table in (self.names, self.categories, self.keys, self.texts):
            table.clear()
        self.started = False

    def has_room(self, slices: Slices) -> bool:
        n_texts = sum(len(note.texts) for note in slices.notes)
        sizes = ((self.names, len(slices.name.all)), (self.categories, len(slices.category.all)), (self.texts, n_texts))
        return all(len(table) + more <= MOST_INTERNED for table, more in sizes)

    def intern(self, table: dict[str, int], kind: InternedData, texts: Sequence[str]) -> Ints:
        """Return the numbers of some texts; new ones go into the next `packet_of_new`."""
        out = np.empty(len(texts), np.int64)
        for k, one in enumerate(texts):
            iid = table.get(one)
            if iid is None:
                iid = table[one] = len(table) + 1
                self._new.append(message(kind, number(Interned.IID, iid), self._encode(one)))
            out[k] = iid
        return out

    def _encode(self, one: str) -> bytes:
        data = self.encoded.get(one)
        if data is None:
            if len(self.encoded) >= MOST_INTERNED:
                self.encoded.clear()
            data = self.encoded[one] = text(Interned.TEXT, one)
        return data

    def packet_of_new(self, sequence: bytes) -> bytes:
        """Return a packet with the new texts; the first one of a part also makes readers forget what they know."""
        flags = NEEDS_STATE if self.started else NEEDS_STATE | CLEARED
        if self.started and not self._new:
            return b""
        new = [message(Packet.INTERNED_DATA, *self._new)] if self._new else []
        self._new, self.started = [], True
        return message(PACKET, sequence, number(Packet.SEQUENCE_FLAGS, flags), *new)


class PerfettoPart:
    """The encoder of one part; its sequences begin anew. `encoded`: texts that other parts have encoded."""

    def __init__(self, encoded: dict[str, bytes]) -> None:
        self._encoded = encoded
        self._tables: dict[int, _Tables] = {}

    def slices(self, slices: Slices) -> Iterator[bytes | memoryview]:
        tracks = slices.process
        yield from self._new_tracks(tracks)
        tables = self._tables.setdefault(tracks.process.index, _Tables(self._encoded))
        if not tables.has_room(slices):
            tables.clear()
        batch = _Batch(slices, tables, _sequence(tracks))
        yield tables.packet_of_new(_sequence(tracks))
        yield batch.rows().data

    def points(self, points: CounterPoints) -> Iterator[bytes | memoryview]:
        tracks = points.process
        yield from self._new_tracks(tracks)
        tables = self._tables.setdefault(tracks.process.index, _Tables(self._encoded))
        yield tables.packet_of_new(_sequence(tracks))
        event = Shape().same(number(TrackEvent.TYPE, EventType.COUNTER))
        event.same(number(TrackEvent.TRACK_UUID, _uuid(tracks, points.track)))
        if points.value.dtype.kind in "iu":
            low, high = int(points.value.min()), int(points.value.max())
            width = WIDEST if low < 0 else width_of(high)
            event.same(tag(TrackEvent.COUNTER_VALUE)).number(points.value, width)
        else:
            value = points.value.astype(np.float64, copy=False)
            event.same(fixed64_tag(TrackEvent.DOUBLE_COUNTER_VALUE)).eight(value)
        packet = _packet(points.time_ns, width_of(int(points.time_ns.max())), _sequence(tracks), event)
        yield packet.rows(len(points.time_ns)).reshape(-1).data

    @staticmethod
    def _new_tracks(tracks: ProcessTracks) -> Iterator[bytes]:
        for track in tracks.take_new_tracks():
            yield _descriptor(tracks, track)


def _packet(time_ns: Ints, width: int, sequence: bytes, event: Shape) -> Shape:
    """Return an event's packet, with its tag and length."""
    inner = Shape().same(tag(Packet.TIMESTAMP)).number(time_ns, width).same(sequence)
    inner.same(number(Packet.SEQUENCE_FLAGS, NEEDS_STATE)).inside(TRACK_EVENT, event)
    return Shape().inside(ONE_PACKET, inner)


class _Batch:
    """The packets of some slices: those with the same notes and as many flows have the same shape."""

    def __init__(self, slices: Slices, tables: _Tables, sequence: bytes) -> None:
        self._slices, self._sequence = slices, sequence
        self._base = slices.process.process.index + 1 << FLOW_BITS
        self._uuid = slices.track + (slices.process.process.index + 1 << TRACK_BITS)
        self._flows = [_FlowColumns(slices, *kind) for kind in FLOW_FIELDS] if slices.ends is not None else []
        self._name = _iids(tables, tables.names, InternedData.EVENT_NAMES, slices.name)
        self._category = _iids(tables, tables.categories, InternedData.EVENT_CATEGORIES, slices.category)
        keys = tables.intern(tables.keys, InternedData.DEBUG_ANNOTATION_NAMES, [note.key for note in slices.notes])
        n = len(slices)
        self._notes = [_NoteColumn(note, int(key), tables, n) for note, key in zip(slices.notes, keys, strict=True)]
        self._widths = {
            "time": width_of(int(slices.end_ns.max())),
            "uuid": width_of(int(self._uuid.max())),
            "name": width_of(int(self._name.max())),
            "category": width_of(int(self._category.max())),
        }

    def rows(self) -> Bytes:
        n = len(self._slices)
        shape = self._shape_numbers()
        order = np.argsort(shape, kind="stable")
        edges = np.flatnonzero(np.diff(shape[order])) + 1
        groups = [(rows, self._shape(rows).rows(len(rows))) for rows in np.split(order, edges)]
        return interleave(groups, n)

    def _shape_numbers(self) -> Ints:
        """Return numbers that are equal for slices of one shape."""
        n = len(self._slices)
        out: Ints = (self._slices.flow >= 0).astype(np.int64)
        size = 2
        counts = self._slices.n_launched
        more = [
            (column, int(column.max(initial=0)) + 1) for column in (counts, *(flows.count for flows in self._flows))
        ]
        for note in self._notes:
            has = np.zeros(n, np.int64)
            has[note.rows] = 1
            more.append((has, 2))
        for column, values in more:
            if values == 1 or (values == 2 and bool(column.all())):
                continue
            if size * values >= 1 << 62:
                shapes, out = np.unique(out, return_inverse=True)
                out, size = out.reshape(-1), len(shapes)
            out = out * values + column
            size *= values
        return out.astype(np.uint16) if size < 1 << 16 else out

    def _shape(self, rows: Ints) -> Shape:
        """Return the begin and the end of a slice, for rows that are alike."""
        slices, first = self._slices, int(rows[0])
        whole = len(rows) == len(slices)
        chosen: slice | Ints = slice(None) if whole else rows
        uuid = self._uuid[chosen]
        event = Shape().same(number(TrackEvent.TYPE, EventType.SLICE_BEGIN))
        event.same(tag(TrackEvent.TRACK_UUID)).number(uuid, self._widths["uuid"])
        event.same(tag(TrackEvent.NAME_IID)).number(self._name[chosen], self._widths["name"])
        event.same(tag(TrackEvent.CATEGORY_IIDS)).number(self._category[chosen], self._widths["category"])
        for note in self._notes:
            note.put(event, rows)
        for k in range(int(slices.n_launched[first])):
            flow = slices.launched[chosen] + (self._base + k)
            event.same(fixed64_tag(TrackEvent.FLOW_IDS)).eight(flow)
        if slices.flow[first] >= 0:
            event.same(fixed64_tag(TrackEvent.TERMINATING_FLOW_IDS)).eight(slices.flow[chosen] + self._base)
        for flows in self._flows:
            flows.put(event, rows)
        end = Shape().same(number(TrackEvent.TYPE, EventType.SLICE_END))
        end.same(tag(TrackEvent.TRACK_UUID)).number(uuid, self._widths["uuid"])
        both = _packet(slices.start_ns[chosen], self._widths["time"], self._sequence, event)
        after = _packet(slices.end_ns[chosen], self._widths["time"], self._sequence, end)
        shift = len(both.constant)
        both.constant += after.constant
        both.columns += [(offset + shift, width, values) for offset, width, values in after.columns]
        return both


FLOW_FIELDS = (  # a flow that goes through a slice leaves it, too
    (TrackEvent.FLOW_IDS, (FlowDirection.OUT, FlowDirection.STEP)),
    (TrackEvent.TERMINATING_FLOW_IDS, (FlowDirection.IN,)),
)
NAMED_FLOWS = 1 << 62  # ids of flows that the input has, beside those of launches


class _FlowColumns:
    """The ends of flows in one field of events."""

    def __init__(self, slices: Slices, field: TrackEvent, directions: Sequence[FlowDirection]) -> None:
        assert slices.ends is not None
        ends = slices.ends.take(np.isin(slices.ends.direction, directions))
        self._tag, self._id = fixed64_tag(field), ends.id + NAMED_FLOWS
        self._first, self.count = ends.by_row(len(slices))

    def put(self, event: Shape, rows: Ints) -> None:
        """Add them to the event of some slices, which have equally many."""
        for k in range(int(self.count[rows[0]])):
            event.same(self._tag).eight(self._id[self._first[rows] + k])


class _NoteColumn:
    """A note as an annotation of events."""

    def __init__(self, note: Note, key: int, tables: _Tables, n: int) -> None:
        self.rows = note.rows
        self._place: Ints | None = None  # of every slice among those that have it
        if len(note.rows) < n:
            self._place = np.full(n, ABSENT, np.int64)
            self._place[note.rows] = np.arange(len(note.rows))
        self._kind, self._key, self._values = note.value, number(DebugAnnotation.NAME_IID, key), note.values
        if note.value is Value.TEXT:
            iids = tables.intern(tables.texts, InternedData.DEBUG_ANNOTATION_STRING_VALUES, note.texts)
            self._values = iids[note.values]
        if note.value in (Value.TEXT, Value.INTEGER):
            least, most = int(self._values.min()), int(self._values.max())
            self._width = WIDEST if least < 0 else width_of(most)

    def put(self, event: Shape, rows: Ints) -> None:
        """Add it to the event of some slices, if they have it: all of them do, or none."""
        if self._place is not None and self._place[rows[0]] < 0:
            return
        place = rows if self._place is None else self._place[rows]
        values = self._values if len(rows) == len(self.rows) else self._values[place]
        inner = Shape().same(self._key)
        if self._kind is Value.TRUE:
            inner.same(number(DebugAnnotation.BOOL_VALUE, 1))
        elif self._kind is Value.FLOAT:
            inner.same(fixed64_tag(DebugAnnotation.DOUBLE_VALUE)).eight(values.astype(np.float64, copy=False))
        else:
            field_ = DebugAnnotation.STRING_VALUE_IID if self._kind is Value.TEXT else DebugAnnotation.INT_VALUE
            inner.same(tag(field_)).number(values, self._width)
        event.inside(DEBUG_ANNOTATION, inner)


def _iids(tables: _Tables, table: dict[str, int], kind: InternedData, texts: Texts) -> Array:
    return tables.intern(table, kind, texts.all)[texts.index]


# -- the writer --------------------------------------------------------------------------------------------------------


class PerfettoWriter(TimelineWriter):
    """A trace in the making. Flows have ids, and no names."""

    left_out = (*TimelineWriter.left_out, FLOW)
    kept: ClassVar[Mapping[str, Collection[str]]] = {FLOW: ("id", "direction")}


def open_writer(target: Path, options: WriteOptions) -> TimelineWriter:
    """Return a writer of traces for ui.perfetto.dev and its trace processor."""
    return PerfettoWriter(target, options, PerfettoEncoder())
