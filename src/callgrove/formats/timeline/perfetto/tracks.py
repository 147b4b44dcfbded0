"""Tracks: where events happen. They become lanes of processes, threads and devices.

Specification: more-inputs.md 5. Descriptors may come after the events that name them; a track without one is a track of
its own. What a track is shows in what it and those above it are called:

    process 4711 "rank 0"
        thread "main"                       a thread
        "GPU 0"  >  "stream 1"              a stream of a device
        "bytes"                             a counter
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field

import numpy as np

from callgrove.arrays import ABSENT, Ids
from callgrove.binary.protobuf_reader import LENGTH, NotProtobuf, Words, scalar_fields
from callgrove.formats.timeline.perfetto.fields import (
    PROFILER_TRACK,
    CounterDescriptor,
    ProcessDescriptor,
    ThreadDescriptor,
    TrackDescriptor,
    Unit,
)
from callgrove.formats.timeline.perfetto.sequences import State, decode_text

__all__ = ["ProcessOfTracks", "Track", "Tracks"]

UNITS: dict[int, str] = {Unit.TIME_NS: "ns", Unit.COUNT: "", Unit.BYTES: "bytes"}


@dataclass
class ProcessOfTracks:
    """A process that tracks belong to."""

    pid: int
    name: str = ""
    command: str = ""
    labels: list[str] = field(default_factory=list)


@dataclass
class Track:
    """A track. `parent` is a number of a track, `tid` that of a thread."""

    key: Hashable
    name: str = ""
    parent: int = ABSENT
    pid: int | None = None
    tid: int | None = None
    is_process: bool = False
    is_described: bool = False
    is_counter: bool = False
    unit: str = ""
    multiplier: int = 1
    is_incremental: bool = False
    order: int = 0
    is_profiler: bool = False


class Tracks:
    """All tracks of a trace, numbered as they are first seen."""

    def __init__(self) -> None:
        self.all: list[Track] = []
        self.processes: dict[int, ProcessOfTracks] = {}
        self.n_broken = 0
        self._number: dict[Hashable, int] = {}

    def number(self, key: Hashable) -> int:
        """Return the number of a track: that of a uuid, or one that stands for a thread or an asynchronous event."""
        if key not in self._number:
            self._number[key] = len(self.all)
            self.all.append(Track(key))
        return self._number[key]

    def numbers(self, uuids: Words) -> Ids:
        """Return the numbers of tracks by their uuids."""
        different, place = np.unique(uuids, return_inverse=True)
        return np.array([self.number(uuid) for uuid in different.tolist()] or [0], np.int32)[place.reshape(-1)]

    def default_of(self, state: State) -> int:
        """Return the track of events that name none."""
        if state.track != ABSENT:
            return self.number(state.track)
        if state.thread is None:
            return self.number(0)
        pid, tid, name = state.thread
        number = self.thread(pid, tid)
        self.all[number].name = name or self.all[number].name
        return number

    def thread(self, pid: int, tid: int) -> int:
        """Return the track of a thread that is known by its numbers."""
        same = next((k for k, track in enumerate(self.all) if (track.pid, track.tid) == (pid, tid)), None)
        number = self.number(("thread", pid, tid)) if same is None else same
        self.all[number].pid, self.all[number].tid = pid, tid
        return number

    def asynchronous(self, track: int, category: str, scope: int, id_: int) -> int:
        """Return the track of events of one category and id, below that of the process where they were noted."""
        above = self.all[track].parent
        number = self.number(("async", above, category, scope, id_))
        self.all[number].name = f"async {category}".strip()
        self.all[number].parent = above if above >= 0 else track
        return number

    def describe(self, content: bytes) -> None:
        """Take in the descriptor of a track."""
        try:
            fields = [(n, v, content[s : s + v] if t == LENGTH else b"") for n, t, v, s in scalar_fields(content)]
        except NotProtobuf:
            self.n_broken += 1
            return
        uuid = next((value for number, value, _ in fields if number == TrackDescriptor.UUID), 0)
        track = self.all[self.number(uuid)]
        track.is_described = True
        for number, value, part in fields:
            if number in (TrackDescriptor.NAME, TrackDescriptor.STATIC_NAME, TrackDescriptor.ATRACE_NAME):
                track.name = decode_text(part)
            elif number == TrackDescriptor.PARENT_UUID and value != uuid:
                track.parent = self.number(value)
            elif number == TrackDescriptor.SIBLING_ORDER_RANK:
                track.order = value if value < 2**31 else 0
            elif number == TrackDescriptor.DESCRIPTION:
                track.is_profiler = decode_text(part) == PROFILER_TRACK
            elif number == TrackDescriptor.PROCESS:
                track.is_process = True
                track.pid = self.describe_process(part)
            elif number == TrackDescriptor.THREAD:
                _describe_thread(track, part)
            elif number == TrackDescriptor.COUNTER:
                _describe_counter(track, part)

    def describe_process(self, content: bytes) -> int:
        """Take in the descriptor of a process; return its number."""
        fields = list(_fields(content))
        pid = next((_signed(value) for number, value, _ in fields if number == ProcessDescriptor.PID), 0)
        process = self.processes.setdefault(pid, ProcessOfTracks(pid))
        command = [decode_text(part) for number, _, part in fields if number == ProcessDescriptor.CMDLINE]
        process.command = " ".join(command) or process.command
        for number, _, part in fields:
            if number == ProcessDescriptor.PROCESS_NAME:
                process.name = decode_text(part)
            elif number == ProcessDescriptor.PROCESS_LABELS and decode_text(part) not in process.labels:
                process.labels.append(decode_text(part))
        return pid

    def above(self, number: int) -> Iterator[int]:
        """Yield a track and those above it; a circle ends where it closes."""
        seen: set[int] = set()
        while number >= 0 and number not in seen:
            yield number
            seen.add(number)
            number = self.all[number].parent


def _fields(content: bytes) -> Iterator[tuple[int, int, bytes]]:
    try:
        for number, type_, value, start in scalar_fields(content):
            yield number, value, content[start : start + value] if type_ == LENGTH else b""
    except NotProtobuf:
        return


def _signed(value: int) -> int:
    """Return a number of 32 bits that was stored with a sign, as protocol buffers do."""
    low = value & 0xFFFFFFFF
    return low - (1 << 32) if low >> 31 else low


def _describe_thread(track: Track, content: bytes) -> None:
    track.pid = track.tid = 0
    for number, value, part in _fields(content):
        if number == ThreadDescriptor.PID:
            track.pid = _signed(value)
        elif number == ThreadDescriptor.TID:
            track.tid = value if value < 2**63 else _signed(value)
        elif number == ThreadDescriptor.THREAD_NAME:
            track.name = decode_text(part)


def _describe_counter(track: Track, content: bytes) -> None:
    track.is_counter = True
    for number, value, part in _fields(content):
        if number == CounterDescriptor.UNIT:
            track.unit = UNITS.get(value, "") or track.unit
        elif number == CounterDescriptor.UNIT_NAME:
            track.unit = decode_text(part)
        elif number == CounterDescriptor.UNIT_MULTIPLIER:
            track.multiplier = value - (1 << 64) if value >> 63 else value
        elif number == CounterDescriptor.IS_INCREMENTAL:
            track.is_incremental = bool(value)
