"""What packets of one sequence say for those that follow: interned texts, defaults and clocks.

Specification: more-inputs.md 5. A packet with the flag CLEARED makes a sequence forget all of it; the same iid may mean
another text afterwards. So the packets of a block are divided into epochs: from one that changes what holds to the
next, sequence by sequence. What is interned holds from its packet on.

    packets of a sequence    C . . i . . d . . C . .        C cleared, i interned texts, d defaults
    epochs                   0 0 0 0 0 0 1 1 1 2 2 2

Times are brought to one clock (BOOTTIME, unless the trace names another one as its own) by snapshots, which say what
several clocks showed at one moment: of the snapshots of a clock the last one before the time counts, or else the first.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from callgrove.arrays import ABSENT, MISSING, Array, Ids, Ints, Names
from callgrove.binary.protobuf_reader import LENGTH, NotProtobuf, Words, scalar_fields
from callgrove.formats.timeline.perfetto.fields import (
    BOOTTIME,
    CLEARED,
    SEQUENCE_CLOCKS,
    Clock,
    ClockSnapshot,
    Interned,
    InternedData,
    Packet,
    PacketDefaults,
    SourceLocation,
    ThreadDescriptor,
    TrackEventDefaults,
)
from callgrove.formats.timeline.perfetto.packets import Block

__all__ = ["Epochs", "InternedTexts", "Sequences", "State", "decode_text"]

NEAR = 1 << 20  # numbers of interned texts up to which they are looked up in an array
LOCATION = "\0"  # between file and line of an interned place in the source
KINDS = (
    InternedData.EVENT_CATEGORIES,
    InternedData.EVENT_NAMES,
    InternedData.DEBUG_ANNOTATION_NAMES,
    InternedData.SOURCE_LOCATIONS,
    InternedData.DEBUG_ANNOTATION_STRING_VALUES,
)


RawField = tuple[int, int, int, bytes]  # number, type, value, bytes


def fields_with_bytes(content: bytes) -> Iterator[RawField]:
    """Yield the fields of a message with the bytes of those that have some."""
    for number, type_, value, start in scalar_fields(content):
        yield number, type_, value, content[start : start + value] if type_ == LENGTH else b""


def decode_text(content: bytes) -> str:
    """Return a text; bytes that are not UTF-8 become a mark."""
    return content.decode("utf-8", "replace")


class InternedTexts:
    """Texts of one kind by iid, as numbers of a list of names."""

    def __init__(self) -> None:
        self.number = np.full(64, ABSENT, np.int32)
        self.since = np.full(64, ABSENT, np.int64)  # the packet of this block that says it
        self.far: dict[int, tuple[int, int]] = {}
        self._fresh: list[int] = []

    def copy(self) -> InternedTexts:
        out = InternedTexts()
        out.number, out.since, out.far = self.number.copy(), self.since.copy(), dict(self.far)
        out._fresh = list(self._fresh)
        return out

    def get(self, iid: int) -> int:
        if iid < len(self.number):
            return int(self.number[iid])
        return self.far.get(iid, (ABSENT, ABSENT))[0]

    def add(self, iid: int, number: int, packet: int) -> None:
        if iid >= NEAR:
            self.far[iid] = number, packet
            return
        while iid >= len(self.number):
            self.number = np.append(self.number, np.full(len(self.number), ABSENT, np.int32))
            self.since = np.append(self.since, np.full(len(self.since), ABSENT, np.int64))
        self.number[iid], self.since[iid] = number, packet
        self._fresh.append(iid)

    def end_block(self) -> None:
        """Forget in which packets texts were interned: all of these come before those of the next block."""
        self.since[self._fresh] = ABSENT
        self._fresh = []
        self.far = {iid: (number, ABSENT) for iid, (number, _) in self.far.items()}


@dataclass(frozen=True)
class SequenceClock:
    """A clock that a sequence defines; `last` is what it showed, in nanoseconds, and `snapshot` the number of the
    snapshot that says so: a later one may set it back."""

    multiplier: int
    is_incremental: bool
    last: int
    snapshot: int


@dataclass
class State:
    """What holds for the packets of a sequence in one epoch."""

    sequence: int
    is_cleared: bool = False  # whether all that was interned is known
    texts: dict[int, InternedTexts] = field(default_factory=lambda: {kind: InternedTexts() for kind in KINDS})
    clocks: dict[int, SequenceClock] = field(default_factory=dict)
    clock: int = ABSENT
    track: int = ABSENT
    counter_tracks: tuple[int, ...] = ()
    double_tracks: tuple[int, ...] = ()
    thread: tuple[int, int, str] | None = None  # of the descriptor that old recorders give the sequence


@dataclass(frozen=True)
class Epochs:
    """The states of a block, and which of them holds for each packet."""

    states: list[State]
    epoch: Ints  # by packet

    def resolve(self, kind: InternedData, packet: Ints, iid: Words) -> Ids:
        """Return the numbers of interned texts that packets name; -1 for one that was not interned before."""
        tables = [state.texts[kind] for state in self.states]
        distinct = {id(table): table for table in tables}
        firsts = dict(zip(distinct, np.cumsum([0, *(len(table.number) for table in distinct.values())]), strict=False))
        epoch = self.epoch[packet]
        size = np.array([len(table.number) for table in tables], np.int64)[epoch]
        is_near = iid < size.astype(np.uint64)
        first = np.array([firsts[id(table)] for table in tables], np.int64)[epoch]
        place = np.where(is_near, first + iid.astype(np.int64), 0)
        number = np.concatenate([table.number for table in distinct.values()])[place]
        since = np.concatenate([table.since for table in distinct.values()])[place]
        out = np.where(is_near & (since <= packet), number, ABSENT).astype(np.int32)
        if any(table.far for table in distinct.values()):
            for k in np.flatnonzero(~is_near).tolist():
                number_of, packet_of = tables[int(epoch[k])].far.get(int(iid[k]), (ABSENT, ABSENT))
                out[k] = number_of if packet_of <= int(packet[k]) else ABSENT
        return out

    def by_state(self, values: Sequence[int], packet: Ints) -> Ints:
        """Return, by packet, what its state says."""
        return np.array(values, np.int64)[self.epoch[packet]]


class Sequences:
    """The states of all sequences, as far as the trace was read."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._now: dict[int, State] = {}
        self._clocks = _Clocks()
        self.n_without_clock = 0

    def read(self, block: Block) -> Epochs:
        """Return the epochs of the packets of a block, which follow those of the blocks before."""
        fields = block.fields
        sequence = fields.numbers(Packet.TRUSTED_PACKET_SEQUENCE_ID).astype(np.int64)
        cleared = (fields.numbers(Packet.SEQUENCE_FLAGS) & np.uint64(CLEARED)) != 0
        cleared |= fields.numbers(Packet.INCREMENTAL_STATE_CLEARED) != 0
        states: list[State] = []
        starts: dict[
            int, tuple[list[int], list[int]]
        ] = {}  # by sequence: packets from which epochs hold, their numbers

        def begin(state: State, packet: int) -> State:
            firsts, numbers = starts.setdefault(state.sequence, ([], []))
            firsts.append(packet)
            numbers.append(len(states))
            states.append(state)
            self._now[state.sequence] = state
            return state

        order = np.argsort(sequence, kind="stable")
        edges = np.flatnonzero(np.diff(sequence[order], prepend=MISSING))
        for number in sequence[order[edges]].tolist():
            begin(self._now.get(number) or State(number), ABSENT)
        for packet, content in _changes(block, cleared):
            state = self._now[int(sequence[packet])]
            for new in self._apply(state, packet, bool(cleared[packet]), content):
                begin(new, packet)
        epoch = np.zeros(len(block), np.int64)
        for first, rows in zip(sequence[order[edges]].tolist(), np.split(order, edges[1:]), strict=True):
            firsts, numbers = starts[first]
            if len(firsts) == 1:
                epoch[rows] = numbers[0]
            else:
                epoch[rows] = np.array(numbers)[np.searchsorted(firsts, rows, side="right") - 1]
        return Epochs(states, epoch)

    def _apply(self, state: State, packet: int, cleared: bool, contents: list[tuple[int, bytes]]) -> Iterator[State]:
        """Yield the state that a packet begins, if it begins one, and take in what it interns."""
        if cleared:
            state = State(state.sequence, True, thread=state.thread)
            yield state
        for number, content in contents:
            try:
                fields = [
                    (n, t, v, content[s : s + v] if t == LENGTH else b"") for n, t, v, s in scalar_fields(content)
                ]
            except NotProtobuf:
                continue
            if number == Packet.INTERNED_DATA:
                changed = self._intern(state, fields, packet)
            elif number == Packet.TRACE_PACKET_DEFAULTS:
                changed = _with_defaults(state, fields)
            elif number == Packet.THREAD_DESCRIPTOR:
                changed = replace(state, thread=_thread(fields))
            else:
                changed = self._clocks.add(state, fields)
            if changed is not state:
                state = changed
                yield state

    def _intern(self, state: State, fields: list[RawField], packet: int) -> State:
        """Add texts. One that changes its meaning begins an epoch, with tables of its own."""
        for kind, _, _, content in fields:
            if kind not in state.texts:
                continue
            iid, text = _entry(kind, content)
            if iid is None:
                continue
            number = self._names(text)
            known = state.texts[kind].get(iid)
            if known not in (ABSENT, number):
                state = replace(state, texts={**state.texts, kind: state.texts[kind].copy()})
            if known != number:
                state.texts[kind].add(iid, number, packet)
        return state

    def end_block(self, epochs: Epochs) -> None:
        """Forget the epochs that are over."""
        for state in epochs.states:
            for table in state.texts.values():
                table.end_block()

    def times(self, block: Block, epochs: Epochs, packet: Ints) -> Ints:
        """Return the times of some packets on the clock of the trace; `MISSING` where they have none."""
        stamp = block.fields.numbers(Packet.TIMESTAMP, absent=2**64 - 1)
        clock = block.fields.numbers(Packet.TIMESTAMP_CLOCK_ID).astype(np.int64)
        default = np.array([state.clock for state in epochs.states], np.int64)[epochs.epoch]
        clock = np.where(clock > 0, clock, np.where(default > 0, default, BOOTTIME))
        # clocks that count differences need all packets of their sequence, not only those with events
        time = np.where(stamp < np.uint64(2**63), stamp.astype(np.int64), MISSING)
        others = np.flatnonzero((clock != self._clocks.target) & (time != MISSING))
        if len(others):
            time[others] = self._clocks.convert(time[others], clock[others], epochs.epoch[others], epochs.states)
            self.n_without_clock += int((time[others] == MISSING).sum())
        return time[packet]


def _changes(block: Block, cleared: Array) -> Iterator[tuple[int, list[tuple[int, bytes]]]]:
    """Yield the packets that change what holds, with those of their parts that do."""
    parts: dict[int, list[tuple[int, bytes]]] = {packet: [] for packet in np.flatnonzero(cleared).tolist()}
    kinds = (
        Packet.CLOCK_SNAPSHOT,
        Packet.THREAD_DESCRIPTOR,
        Packet.TRACE_PACKET_DEFAULTS,
        Packet.INTERNED_DATA,
    )
    for kind in kinds:
        packets, start, end = block.fields.contents(kind)
        for packet, first, last in zip(packets.tolist(), start.tolist(), end.tolist(), strict=True):
            parts.setdefault(packet, []).append((kind, block.content(first, last)))
    yield from sorted(parts.items())


def _entry(kind: int, content: bytes) -> tuple[int | None, str]:
    """Return the iid and the text of an interned entry; of a place in the source, file and line."""
    iid, text, line = None, b"", 0
    try:
        for number, type_, value, start in scalar_fields(content):
            if number == Interned.IID and type_ != LENGTH:
                iid = value
            elif number == Interned.TEXT and type_ == LENGTH:
                text = content[start : start + value]
            elif number == SourceLocation.LINE_NUMBER and type_ != LENGTH:
                line = value
    except NotProtobuf:
        return None, ""
    place = f"{LOCATION}{line}" if kind == InternedData.SOURCE_LOCATIONS else ""
    return iid, decode_text(text) + place


def _with_defaults(state: State, fields: list[RawField]) -> State:
    """Return the state with the defaults of a packet, which replace those before."""
    clock = ABSENT
    tracks: dict[TrackEventDefaults, list[int]] = {number: [] for number in TrackEventDefaults}
    for number, type_, value, content in fields:
        if number == PacketDefaults.TIMESTAMP_CLOCK_ID and type_ != LENGTH:
            clock = value
        elif number == PacketDefaults.TRACK_EVENT_DEFAULTS and type_ == LENGTH:
            for inner, inner_type, uuid, _ in scalar_fields(content):
                if inner in set(TrackEventDefaults) and inner_type != LENGTH:
                    tracks[TrackEventDefaults(inner)].append(uuid)
    return replace(
        state,
        clock=clock,
        track=(tracks[TrackEventDefaults.TRACK_UUID] or [ABSENT])[-1],
        counter_tracks=tuple(tracks[TrackEventDefaults.EXTRA_COUNTER_TRACK_UUIDS]),
        double_tracks=tuple(tracks[TrackEventDefaults.EXTRA_DOUBLE_COUNTER_TRACK_UUIDS]),
    )


def _thread(fields: list[RawField]) -> tuple[int, int, str]:
    numbers = {number: value for number, type_, value, _ in fields if type_ != LENGTH}
    names = [content for number, type_, _, content in fields if number == ThreadDescriptor.THREAD_NAME and content]
    pid, tid = numbers.get(ThreadDescriptor.PID, 0), numbers.get(ThreadDescriptor.TID, 0)
    return pid, tid, decode_text(names[-1]) if names else ""


# -- clocks ------------------------------------------------------------------------------------------------------------


Key = tuple[int, int]  # sequence, or 0 for a clock of the machine; clock


@dataclass
class _Clocks:
    """Snapshots of clocks, and times by them."""

    target: int = BOOTTIME
    _values: dict[Key, list[tuple[int, int]]] = field(default_factory=dict)  # of the machine: what it showed, snapshot
    _snapshots: list[dict[Key, int]] = field(default_factory=list)

    def add(self, state: State, fields: list[RawField]) -> State:
        """Take in a snapshot; return the state with the clocks of the sequence that it sets."""
        shown: dict[Key, int] = {}
        clocks = dict(state.clocks)
        for number, type_, value, content in fields:
            if number == ClockSnapshot.PRIMARY_TRACE_CLOCK and type_ != LENGTH:
                self.target = value or self.target
            if number != ClockSnapshot.CLOCKS or type_ != LENGTH:
                continue
            about = {n: v for n, t, v, _ in scalar_fields(content) if t != LENGTH}
            clock, multiplier = about.get(Clock.CLOCK_ID, 0), about.get(Clock.UNIT_MULTIPLIER_NS, 0) or 1
            time = about.get(Clock.TIMESTAMP, 0) * multiplier
            if time >= 2**63 or not clock:
                continue
            key = (state.sequence if clock in SEQUENCE_CLOCKS else 0, clock)
            shown[key] = time
            if clock in SEQUENCE_CLOCKS:
                clocks[clock] = SequenceClock(
                    multiplier, bool(about.get(Clock.IS_INCREMENTAL, 0)), time, len(self._snapshots)
                )
        for key, time in shown.items():
            if key[1] not in SEQUENCE_CLOCKS:
                insort(self._values.setdefault(key, []), (time, len(self._snapshots)))
        self._snapshots.append(shown)
        return replace(state, clocks=clocks)

    def convert(self, time: Ints, clock: Ints, epoch: Ints, states: Sequence[State]) -> Ints:
        """Return times of other clocks on that of the trace."""
        out = np.full(len(time), MISSING, np.int64)
        keys = epoch * 2**20 + np.minimum(clock, 2**20 - 1)
        order = np.argsort(keys, kind="stable")
        edges = np.flatnonzero(np.diff(keys[order])) + 1
        for rows in np.split(order, edges):
            state, number = states[int(epoch[rows[0]])], int(clock[rows[0]])
            out[rows] = self._of_one_clock(time[rows], number, state)
        return out

    def _of_one_clock(self, time: Ints, clock: int, state: State) -> Ints:
        """Return times of one clock on that of the trace; `MISSING` where no snapshot has both."""
        if clock in SEQUENCE_CLOCKS:
            return self._of_sequence_clock(time, clock, state)
        key = (0, clock)
        usable = [
            (value, offset) for value, number in self._values.get(key, ()) for offset in self._offset(key, number)
        ]
        if not usable:
            return np.full(len(time), MISSING, np.int64)
        values, offsets = (np.array(column, np.int64) for column in zip(*usable, strict=True))
        return time + offsets[np.maximum(np.searchsorted(values, time, side="right") - 1, 0)]

    def _of_sequence_clock(self, time: Ints, clock: int, state: State) -> Ints:
        about = state.clocks.get(clock)
        offset = next(self._offset((state.sequence, clock), about.snapshot), None) if about is not None else None
        if about is None or offset is None:
            return np.full(len(time), MISSING, np.int64)
        time = time * about.multiplier
        if about.is_incremental:
            time = np.cumsum(time) + about.last
            state.clocks[clock] = replace(about, last=int(time[-1]))
        return time + offset

    def _offset(self, key: Key, snapshot: int) -> Iterator[int]:
        """Yield what a time at a snapshot has to be moved by, if the snapshot shows the clock of the trace, or another
        one that a further snapshot shows with it."""
        shown = self._snapshots[snapshot]
        target = (0, self.target)
        if target in shown:
            yield shown[target] - shown[key]
            return
        for other, value in shown.items():
            known = self._values.get(other, []) if other != key else []
            with_target = [(at, n) for at, n in known if target in self._snapshots[n]]
            if with_target:
                at, n = with_target[max(bisect_right(with_target, (value, len(self._snapshots))) - 1, 0)]
                yield value - shown[key] + self._snapshots[n][target] - at
                return
