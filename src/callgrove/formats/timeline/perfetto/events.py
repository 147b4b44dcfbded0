"""Packets -> columns of events: what happened when, on which track, with which name, arguments, flows and counters.

Specification: more-inputs.md 5. Most events are read with all others of their block; those in Chrome's older form
(`legacy_event`), texts that are not interned and arguments that nest are read one by one.
"""

from __future__ import annotations

import json
import struct
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from callgrove.arrays import ABSENT, MISSING, Array, Bools, Floats, Ids, Ints, Names
from callgrove.binary.protobuf_reader import FIXED64, LENGTH, Fields, NotProtobuf, Words, read_fields, scalar_fields
from callgrove.formats.events.arguments import ValueType
from callgrove.formats.timeline.perfetto.fields import (
    NEEDS_STATE,
    DebugAnnotation,
    EventType,
    InternedData,
    LegacyEvent,
    NestedValue,
    Packet,
    SourceLocation,
    TrackEvent,
)
from callgrove.formats.timeline.perfetto.packets import Block, PacketFile
from callgrove.formats.timeline.perfetto.sequences import LOCATION, Epochs, Sequences, decode_text
from callgrove.formats.timeline.perfetto.tracks import Tracks

__all__ = ["COMPLETE", "Arguments", "EventChunk", "Flows", "Points", "event_chunks"]

COMPLETE = 5  # beside the types of events that the format has: one that knows its end
DEEPEST = 32  # levels of arguments that nest
HANDLED = frozenset(Packet)


@dataclass(frozen=True)
class Arguments:
    """Arguments of events: `bits` is a number, the bits of a double, or the number of a text."""

    event: Ints
    key: Ids
    type: Ids
    bits: Words


@dataclass(frozen=True)
class Flows:
    """Ids that join events; `ends` says which of them end there."""

    event: Ints
    id: Words
    ends: Bools


@dataclass(frozen=True)
class Points:
    """Values of counters."""

    track: Ids
    time_ns: Ints
    value: Floats


@dataclass(frozen=True)
class EventChunk:
    """Events in the order of the file. `type` is that of `EventType`, or COMPLETE; `name` and `category` number the
    names, `track` the tracks; `end_ns` is set where the event itself tells it."""

    time_ns: Ints
    end_ns: Ints
    type: Ids
    track: Ids
    name: Ids
    category: Ids
    correlation: Ints
    arguments: Arguments
    flows: Flows
    points: Points

    def __len__(self) -> int:
        return len(self.time_ns)


@dataclass
class Losses:
    """What was left out of a trace, and how often."""

    needs_state: int = 0  # events whose sequence begins before the recording
    broken: int = 0  # events that are not messages
    without_time: int = 0
    without_type: int = 0
    uninterned: int = 0  # names that nobody interned
    phases: Counter[str] = field(default_factory=Counter)  # letters of old events that mean nothing here
    packets: Counter[int] = field(default_factory=Counter)  # fields of packets that hold something else
    dropped: int = 0  # gaps that the recorder itself noted


def event_chunks(file: PacketFile, names: Names, tracks: Tracks, losses: Losses) -> Iterator[EventChunk]:
    """Yield the events of a trace, block by block; tracks are known when all was read."""
    sequences = Sequences(names)
    for block in file.blocks():
        epochs = sequences.read(block)
        _count_others(block, losses)
        for start, end in _contents(block, Packet.TRACK_DESCRIPTOR):
            tracks.describe(block.content(start, end))
        for start, end in _contents(block, Packet.PROCESS_DESCRIPTOR):
            tracks.describe_process(block.content(start, end))
        reader = _BlockReader(block, epochs, sequences, names, tracks, losses)
        yield reader.read()
        sequences.end_block(epochs)
    losses.broken += file.n_broken


def _contents(block: Block, number: int) -> Iterator[tuple[int, int]]:
    _, start, end = block.fields.contents(number)
    return zip(start.tolist(), end.tolist(), strict=True)


def _count_others(block: Block, losses: Losses) -> None:
    """Count what packets hold that are not events of tracks."""
    numbers, counts = np.unique(block.fields.number, return_counts=True)
    for number, count in zip(numbers.tolist(), counts.tolist(), strict=True):
        if number not in HANDLED:
            losses.packets[number] += count
    losses.dropped += int((block.fields.numbers(Packet.PREVIOUS_PACKET_DROPPED) != 0).sum())


class _BlockReader:
    """The events of one block."""

    def __init__(
        self, block: Block, epochs: Epochs, sequences: Sequences, names: Names, tracks: Tracks, losses: Losses
    ) -> None:
        packet, start, end = block.fields.contents(Packet.TRACK_EVENT)
        flags = block.fields.numbers(Packet.SEQUENCE_FLAGS)[packet]
        is_known = np.array([state.is_cleared for state in epochs.states] or [False])[epochs.epoch[packet]]
        kept = is_known | ((flags & np.uint64(NEEDS_STATE)) == 0)
        losses.needs_state += int((~kept).sum())
        self._block, self._epochs, self._names, self._tracks, self._losses = block, epochs, names, tracks, losses
        self._packet = packet[kept]
        self._fields = read_fields(block.data, start[kept], end[kept])
        self._time = sequences.times(block, epochs, self._packet)

    def read(self) -> EventChunk:
        """Return the events of the block that can be used, and count the others."""
        fields, losses = self._fields, self._losses
        type_ = np.minimum(fields.numbers(TrackEvent.TYPE), np.uint64(15)).astype(np.int32)
        end = np.full(len(type_), MISSING, np.int64)
        columns: dict[str, Array] = {
            "name": self._name(),
            "category": self._category(),
            "track": self._track(),
            "type": type_,
            "end_ns": end,
        }
        arguments = self._arguments()
        legacy = self._legacy(columns)
        has_time = self._time >= 0
        is_point = type_ == EventType.COUNTER
        is_event = np.isin(type_, (EventType.SLICE_BEGIN, EventType.SLICE_END, EventType.INSTANT, COMPLETE))
        losses.broken += int(fields.broken.sum())
        losses.without_time += int((~has_time & ~fields.broken).sum())
        losses.without_type += int((has_time & ~fields.broken & ~is_point & ~is_event & ~legacy).sum())
        rows = np.flatnonzero(is_event & has_time)
        place = np.full(len(type_), ABSENT, np.int64)
        place[rows] = np.arange(len(rows))
        points = self._points(columns["track"], is_point & has_time, has_time)
        return EventChunk(
            self._time[rows],
            end[rows],
            type_[rows],
            columns["track"][rows],
            columns["name"][rows],
            columns["category"][rows],
            self._correlation(arguments)[rows],
            _move_arguments(arguments, place),
            self._flows(place),
            points,
        )

    # -- names, categories, tracks

    def _texts(self, number: int) -> tuple[Ints, Ids]:
        """Return the events that have a text in them, and its number."""
        event, start, end = self._fields.contents(number)
        texts = [decode_text(self._block.content(*bounds)) for bounds in zip(start.tolist(), end.tolist(), strict=True)]
        return event, self._names.numbers(texts)

    def _name(self) -> Ids:
        out = np.full(len(self._packet), ABSENT, np.int32)
        rows = self._fields.rows(TrackEvent.NAME_IID, 0)
        event = self._fields.message[rows]
        out[event] = self._epochs.resolve(InternedData.EVENT_NAMES, self._packet[event], self._fields.value[rows])
        self._losses.uninterned += int((out[event] == ABSENT).sum())
        event, text = self._texts(TrackEvent.NAME)
        out[event] = text
        return out

    def _category(self) -> Ids:
        """Return the category of every event; several are joined by commas."""
        event, iid = self._fields.repeated(TrackEvent.CATEGORY_IIDS, self._block.data)
        number = self._epochs.resolve(InternedData.EVENT_CATEGORIES, self._packet[event], iid)
        inline, texts = self._texts(TrackEvent.CATEGORIES)
        event, number = np.append(event, inline), np.append(number, texts)
        out = np.full(len(self._packet), ABSENT, np.int32)
        out[event] = number
        several = (
            np.flatnonzero(np.bincount(event, minlength=len(out)) > 1) if len(event) > len(np.unique(event)) else ()
        )
        for one in several:
            words = [self._names.all[k] for k in number[event == one].tolist() if k >= 0]
            out[one] = self._names(",".join(words))
        return out

    def _track(self) -> Ids:
        rows = self._fields.rows(TrackEvent.TRACK_UUID, 0)
        defaults = [self._tracks.default_of(state) for state in self._epochs.states]
        out: Ids = np.array(defaults or [0], np.int32)[self._epochs.epoch[self._packet]]
        out[self._fields.message[rows]] = self._tracks.numbers(self._fields.value[rows])
        return out

    # -- arguments

    def _arguments(self) -> Arguments:
        event, start, end = self._fields.contents(TrackEvent.DEBUG_ANNOTATIONS)
        fields = read_fields(self._block.data, start, end)
        key = self._keys(fields, event)
        type_ = np.full(len(event), ABSENT, np.int32)
        bits = np.zeros(len(event), np.uint64)
        for number, kind, wire in (
            (DebugAnnotation.BOOL_VALUE, ValueType.BOOL, 0),
            (DebugAnnotation.UINT_VALUE, ValueType.UINT, 0),
            (DebugAnnotation.INT_VALUE, ValueType.INT, 0),
            (DebugAnnotation.DOUBLE_VALUE, ValueType.DOUBLE, FIXED64),
            (DebugAnnotation.POINTER_VALUE, ValueType.POINTER, 0),
        ):
            rows = fields.rows(number, wire)
            type_[fields.message[rows]], bits[fields.message[rows]] = kind, fields.value[rows]
        rows = fields.rows(DebugAnnotation.STRING_VALUE_IID, 0)
        owner = fields.message[rows]
        text = self._epochs.resolve(
            InternedData.DEBUG_ANNOTATION_STRING_VALUES, self._packet[event[owner]], fields.value[rows]
        )
        self._losses.uninterned += int((text == ABSENT).sum())
        self._put_texts(owner[text >= 0], text[text >= 0], type_, bits)
        for number in (DebugAnnotation.STRING_VALUE, DebugAnnotation.LEGACY_JSON_VALUE):
            owner, first, last = fields.contents(number)
            texts = [decode_text(self._block.content(*b)) for b in zip(first.tolist(), last.tolist(), strict=True)]
            self._put_texts(owner, self._names.numbers(texts), type_, bits)
        for one in np.flatnonzero((type_ == ABSENT) & ~fields.broken).tolist():
            value = self._nested(self._block.content(int(start[one]), int(end[one])), int(event[one]))
            self._put_texts(np.array([one]), np.array([self._names(value)]), type_, bits)
        kept = np.flatnonzero(type_ != ABSENT)
        places = self._places()
        return _join_arguments([Arguments(event[kept], key[kept], type_[kept], bits[kept]), *places])

    @staticmethod
    def _put_texts(owner: Ints, number: Array, type_: Ids, bits: Words) -> None:
        type_[owner], bits[owner] = ValueType.TEXT, number.astype(np.uint64)

    def _keys(self, fields: Fields, event: Ints) -> Ids:
        """Return the names of arguments."""
        out = np.full(fields.n_messages, ABSENT, np.int32)
        rows = fields.rows(DebugAnnotation.NAME_IID, 0)
        owner = fields.message[rows]
        packet = self._packet[event[owner]]
        out[owner] = self._epochs.resolve(InternedData.DEBUG_ANNOTATION_NAMES, packet, fields.value[rows])
        self._losses.uninterned += int((out[owner] == ABSENT).sum())
        owner, start, end = fields.contents(DebugAnnotation.NAME)
        texts = [decode_text(self._block.content(*b)) for b in zip(start.tolist(), end.tolist(), strict=True)]
        out[owner] = self._names.numbers(texts)
        return np.where(out == ABSENT, self._names(""), out).astype(np.int32)

    def _places(self) -> list[Arguments]:
        """Return file and line of events as arguments."""
        rows = self._fields.rows(TrackEvent.SOURCE_LOCATION_IID, 0)
        event = self._fields.message[rows]
        place = self._epochs.resolve(InternedData.SOURCE_LOCATIONS, self._packet[event], self._fields.value[rows])
        known = zip(event.tolist(), place.tolist(), strict=True)
        out = [self._place(one, *_split_place(self._names.all[text])) for one, text in known if text >= 0]
        event, start, end = self._fields.contents(TrackEvent.SOURCE_LOCATION)
        for one, first, last in zip(event.tolist(), start.tolist(), end.tolist(), strict=True):
            content = self._block.content(first, last)
            file, line = "", 0
            for number, type_, value, at in _tolerant_fields(content):
                if number == SourceLocation.FILE_NAME and type_ == LENGTH:
                    file = decode_text(content[at : at + value])
                elif number == SourceLocation.LINE_NUMBER and type_ != LENGTH:
                    line = value
            out.append(self._place(one, file, line))
        return out

    def _place(self, event: int, file: str, line: int) -> Arguments:
        return Arguments(
            np.array([event, event]),
            self._names.numbers(["file", "line"]),
            np.array([ValueType.TEXT, ValueType.INT], np.int32),
            np.array([self._names(file), line], np.uint64),
        )

    def _nested(self, content: bytes, event: int) -> str:
        """Return an argument that has parts as JSON."""
        value = self._value(content, event, 0)
        return json.dumps(value, ensure_ascii=False)

    def _value(self, content: bytes, event: int, depth: int) -> object:
        if depth > DEEPEST:
            return "..."
        entries: dict[str, object] = {}
        items: list[object] = []
        value: object = None
        for number, type_, bits, start in _tolerant_fields(content):
            part = content[start : start + bits] if type_ == LENGTH else b""
            if number == DebugAnnotation.DICT_ENTRIES:
                entries[self._key(part, event)] = self._value(part, event, depth + 1)
            elif number == DebugAnnotation.ARRAY_VALUES:
                items.append(self._value(part, event, depth + 1))
            elif number == DebugAnnotation.NESTED_VALUE:
                value = _old_nested(part, 0)
            elif number not in (DebugAnnotation.NAME, DebugAnnotation.NAME_IID):
                value = self._plain(number, bits, part, event, value)
        return entries or items or value

    def _plain(self, number: int, bits: int, part: bytes, event: int, default: object) -> object:
        if number == DebugAnnotation.STRING_VALUE_IID:
            return self._interned(InternedData.DEBUG_ANNOTATION_STRING_VALUES, bits, event)
        if number in (DebugAnnotation.STRING_VALUE, DebugAnnotation.LEGACY_JSON_VALUE):
            return decode_text(part)
        if number == DebugAnnotation.BOOL_VALUE:
            return bool(bits)
        if number == DebugAnnotation.DOUBLE_VALUE:
            return struct.unpack("<d", struct.pack("<Q", bits))[0]
        if number == DebugAnnotation.INT_VALUE:
            return bits - (1 << 64) if bits >> 63 else bits
        return bits if number in (DebugAnnotation.UINT_VALUE, DebugAnnotation.POINTER_VALUE) else default

    def _key(self, content: bytes, event: int) -> str:
        for number, type_, value, start in _tolerant_fields(content):
            if number == DebugAnnotation.NAME and type_ == LENGTH:
                return decode_text(content[start : start + value])
            if number == DebugAnnotation.NAME_IID:
                return self._interned(InternedData.DEBUG_ANNOTATION_NAMES, value, event)
        return ""

    def _interned(self, kind: InternedData, iid: int, event: int) -> str:
        number = int(self._epochs.resolve(kind, self._packet[[event]], np.array([iid], np.uint64))[0])
        return self._names.all[number] if number >= 0 else ""

    def _correlation(self, arguments: Arguments) -> Ints:
        """Return what joins calls and the operations that they launch, where events say it."""
        out = np.full(len(self._packet), ABSENT, np.int64)
        is_number = (arguments.type == ValueType.INT) | (arguments.type == ValueType.UINT)
        for word in reversed(CORRELATIONS):
            rows = np.flatnonzero((arguments.key == self._names(word)) & is_number & (arguments.bits < 2**63))
            out[arguments.event[rows]] = arguments.bits[rows].astype(np.int64)
        rows = self._fields.rows(TrackEvent.CORRELATION_ID, 0)
        rows = rows[self._fields.value[rows] < 2**63]
        out[self._fields.message[rows]] = self._fields.value[rows].astype(np.int64)
        return out

    # -- flows and counters

    def _flows(self, place: Ints) -> Flows:
        parts = [
            (*self._fields.repeated(number, self._block.data, type_), ends)
            for number, type_, ends in (
                (TrackEvent.FLOW_IDS, FIXED64, False),
                (TrackEvent.FLOW_IDS_OLD, 0, False),
                (TrackEvent.TERMINATING_FLOW_IDS, FIXED64, True),
                (TrackEvent.TERMINATING_FLOW_IDS_OLD, 0, True),
            )
        ]
        event = place[np.concatenate([owner for owner, _, _ in parts])]
        flow = np.concatenate([value for _, value, _ in parts])
        ends = np.repeat([ends for _, _, ends in parts], [len(owner) for owner, _, _ in parts])
        kept = event >= 0
        return Flows(event[kept], flow[kept], ends[kept])

    def _points(self, track: Ids, is_point: Bools, has_time: Bools) -> Points:
        fields = self._fields
        value = np.full(len(track), np.nan)
        for number, type_ in ((TrackEvent.COUNTER_VALUE, 0), (TrackEvent.DOUBLE_COUNTER_VALUE, FIXED64)):
            rows = fields.rows(number, type_)
            value[fields.message[rows]] = _as_numbers(fields.value[rows], type_)
        rows = np.flatnonzero(is_point & ~np.isnan(value))
        self._losses.without_type += int((is_point & np.isnan(value)).sum())
        parts = [Points(track[rows], self._time[rows], value[rows])]
        for values, uuids, type_ in (
            (TrackEvent.EXTRA_COUNTER_VALUES, TrackEvent.EXTRA_COUNTER_TRACK_UUIDS, 0),
            (TrackEvent.EXTRA_DOUBLE_COUNTER_VALUES, TrackEvent.EXTRA_DOUBLE_COUNTER_TRACK_UUIDS, FIXED64),
        ):
            parts.append(self._extra_points(values, uuids, type_, has_time))
        return Points(
            np.concatenate([part.track for part in parts]),
            np.concatenate([part.time_ns for part in parts]),
            np.concatenate([part.value for part in parts]),
        )

    def _extra_points(self, number: int, uuids: int, type_: int, has_time: Bools) -> Points:
        """Return the counters that events of other types carry: the k-th value is of the k-th track that the event or
        the defaults of its sequence name."""
        event, value = self._fields.repeated(number, self._block.data, type_)
        named, uuid = self._fields.repeated(uuids, self._block.data)
        widest = int(np.bincount(event).max(initial=0)) if len(event) else 0
        tracks = np.full((len(self._packet) if len(named) else 0, widest), ABSENT, np.int32)
        defaults = np.full((len(self._epochs.states) or 1, widest), ABSENT, np.int32)
        for k, state in enumerate(self._epochs.states if widest else ()):
            said = state.counter_tracks if type_ == 0 else state.double_tracks
            defaults[k, : len(said)] = [self._tracks.number(one) for one in said[:widest]]
        rank = _rank(event)
        track = defaults[self._epochs.epoch[self._packet[event]], rank] if len(event) else np.empty(0, np.int32)
        if len(named):
            place = _rank(named)
            inside = place < widest
            tracks[named[inside], place[inside]] = self._tracks.numbers(uuid[inside])
            own = tracks[event, rank]
            track = np.where(own >= 0, own, track)
        usable = np.flatnonzero((track >= 0) & has_time[event])
        self._losses.without_type += len(event) - len(usable)
        return Points(track[usable], self._time[event[usable]], _as_numbers(value[usable], type_))

    # -- Chrome's older events

    def _legacy(self, columns: dict[str, Array]) -> Bools:
        """Set the columns of events in the older form; return which events these are."""
        out = np.zeros(len(self._packet), np.bool_)
        event, start, end = self._fields.contents(TrackEvent.LEGACY_EVENT)
        for one, first, last in zip(event.tolist(), start.tolist(), end.tolist(), strict=True):
            about = {n: v for n, t, v, _ in _tolerant_fields(self._block.content(first, last)) if t != LENGTH}
            if LegacyEvent.PHASE in about:
                out[one] = True
                self._set_phase(one, about, columns)
        return out

    def _set_phase(self, event: int, about: dict[int, int], columns: dict[str, Array]) -> None:
        phase = chr(about[LegacyEvent.PHASE] & 0x7F)
        if LegacyEvent.NAME_IID in about and columns["name"][event] < 0:
            iid = np.array([about[LegacyEvent.NAME_IID]], np.uint64)
            columns["name"][event] = self._epochs.resolve(InternedData.EVENT_NAMES, self._packet[[event]], iid)[0]
        if phase not in PHASES:
            self._losses.phases[phase] += 1
            return
        columns["type"][event] = PHASES[phase]
        if phase == "X":
            columns["end_ns"][event] = self._time[event] + about.get(LegacyEvent.DURATION_US, 0) * 1000
        ids = [
            (k, about[k]) for k in (LegacyEvent.UNSCOPED_ID, LegacyEvent.LOCAL_ID, LegacyEvent.GLOBAL_ID) if k in about
        ]
        if phase in "benSTpF" and ids:
            category = self._names.all[columns["category"][event]] if columns["category"][event] >= 0 else ""
            columns["track"][event] = self._tracks.asynchronous(int(columns["track"][event]), category, *ids[0])
        elif LegacyEvent.TID_OVERRIDE in about or LegacyEvent.PID_OVERRIDE in about:
            pid, tid = about.get(LegacyEvent.PID_OVERRIDE, 0), about.get(LegacyEvent.TID_OVERRIDE, 0)
            columns["track"][event] = self._tracks.thread(pid, tid)


CORRELATIONS = ("corr", "stack_id", "corr_id", "correlation_id", "correlation")  # names of arguments, the best first
PHASES = {
    **dict.fromkeys("BbS", EventType.SLICE_BEGIN),
    **dict.fromkeys("EeF", EventType.SLICE_END),
    **dict.fromkeys("iIRnTp", EventType.INSTANT),
    "X": COMPLETE,
}


def _tolerant_fields(content: bytes) -> Iterator[tuple[int, int, int, int]]:
    """Yield the fields of a message as far as it can be read."""
    try:
        yield from scalar_fields(content)
    except NotProtobuf:
        return


def _split_place(text: str) -> tuple[str, int]:
    file, _, line = text.rpartition(LOCATION)
    return file, int(line or 0)


def _old_nested(content: bytes, depth: int) -> object:
    """Return what an old argument holds that has parts."""
    keys, values, items = list[str](), list[object](), list[object]()
    value: object = None
    for number, type_, bits, start in _tolerant_fields(content):
        part = content[start : start + bits] if type_ == LENGTH else b""
        if number == NestedValue.DICT_KEYS:
            keys.append(decode_text(part))
        elif number in (NestedValue.DICT_VALUES, NestedValue.ARRAY_VALUES):
            inner = _old_nested(part, depth + 1) if depth < DEEPEST else "..."
            (values if number == NestedValue.DICT_VALUES else items).append(inner)
        elif number == NestedValue.INT_VALUE:
            value = bits - (1 << 64) if bits >> 63 else bits
        elif number == NestedValue.DOUBLE_VALUE:
            value = struct.unpack("<d", struct.pack("<Q", bits))[0]
        elif number == NestedValue.BOOL_VALUE:
            value = bool(bits)
        elif number == NestedValue.STRING_VALUE:
            value = decode_text(part)
    return dict(zip(keys, values, strict=False)) or items or value


def _as_numbers(bits: Words, type_: int) -> Floats:
    """Return signed integers, or doubles, as doubles."""
    return bits.view(np.float64) if type_ == FIXED64 else bits.view(np.int64).astype(np.float64)


def _rank(owner: Ints) -> Ints:
    """Return the place of each row among those of its owner; rows of one owner follow each other."""
    if not len(owner):
        return np.empty(0, np.int64)
    first = np.flatnonzero(np.diff(owner, prepend=owner[0] - 1))
    return np.arange(len(owner)) - np.repeat(first, np.diff(first, append=len(owner)))


def _move_arguments(arguments: Arguments, place: Ints) -> Arguments:
    """Return the arguments of events that stay, by their new numbers."""
    event = place[arguments.event]
    kept = np.flatnonzero(event >= 0)
    return Arguments(event[kept], arguments.key[kept], arguments.type[kept], arguments.bits[kept])


def _join_arguments(parts: Sequence[Arguments]) -> Arguments:
    if len(parts) == 1:
        return parts[0]
    event = np.concatenate([part.event for part in parts])
    order = np.argsort(event, kind="stable")
    columns = [np.concatenate([getattr(part, name) for part in parts])[order] for name in ("key", "type", "bits")]
    return Arguments(event[order], *columns)
