"""Spans become slices on tracks and lanes, with names, categories, notes and flows; allocations and counters become
points of counters."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from callgrove.formats.losses import left_out_of, n_devices_with_facts
from callgrove.formats.timeline.content import (
    ARGUMENTS,
    DEVICE_FACTS,
    NO_PLACE,
    NOWHERE,
    OPEN,
    POINTS,
    RENAMED,
    UNKNOWN_FREES,
    Losses,
    clean,
    possible,
)
from callgrove.formats.timeline.items import CounterPoints, Slices, Texts
from callgrove.formats.timeline.launches import FLOW, LAUNCHED, N_LAUNCHED
from callgrove.formats.timeline.notes import NoteMaker
from callgrove.formats.timeline.places import Naming, Places, ProcessTracks, TrackKind
from callgrove.formats.timeline.source import PLURALS, Annotations, OrderedSpans, side_columns, side_of, sizes_of
from callgrove.model.arrays import ABSENT, Array, Bools, Ints
from callgrove.model.books import MEASURED
from callgrove.model.grouping import distinct_rows
from callgrove.model.lanes import Lanes
from callgrove.model.memory_use import MemoryInUse
from callgrove.model.traces import LABEL, SpanChunk, SpanKind, Traces

__all__ = ["SliceMaker", "SliceOptions", "counter_points"]

OPERATIONS = (SpanKind.KERNEL, SpanKind.COPY, SpanKind.MEMSET)


@dataclass(frozen=True)
class SliceOptions:
    """What slices should say, and where operations of devices should lie. `left_out` are side tables that the format
    has no place for, but for the columns that are `kept`."""

    annotations: Annotations = Annotations.DEFAULT
    by_queue: bool = False
    kernel_rename: bool = False
    left_out: tuple[str, ...] = ()
    kept: Mapping[str, Collection[str]] = field(default_factory=dict)


class SliceMaker:
    """Makes the slices and counters of one part of a trace, chunk after chunk."""

    def __init__(
        self, traces: Traces, part: int, profiles: Ints | None, places: Places, options: SliceOptions, losses: Losses
    ) -> None:
        self._traces, self._places, self._options, self._losses = traces, places, options, losses
        self.part = part
        self.wanted = side_columns(options.annotations, options.by_queue)
        how = options.annotations, options.kernel_rename
        self.source = OrderedSpans(traces, part, profiles, places.process, self.wanted, *how, losses.given)
        self._lanes: dict[int, Lanes] = {}
        self._memory: dict[int, MemoryInUse] = {}
        if traces.has_side("argument", part):
            losses.add(ARGUMENTS)
        about = options.annotations, self.wanted, losses, self.source.levels
        self._notes = NoteMaker(traces, part, places, *about, says_counters="counter" not in options.left_out)
        self._devices = [device.label_by(places.agents) for device in traces.devices(part)]

    def _count_left_out(self) -> None:
        """Count what spans of the part have beside them and slices cannot say."""
        options, losses = self._options, self._losses
        for what, n in left_out_of(self._traces, self.part, options.left_out, options.kept).items():
            losses.add(f"{what}: {NO_PLACE}", n)
        for what, n in self.source.unshown.items():
            if not any(what.endswith(PLURALS[side]) for side in options.left_out if side in PLURALS):
                losses.add(f"{what}: {NO_PLACE}", n)
        losses.add(DEVICE_FACTS, n_devices_with_facts(self._traces, self.part))

    def read(self, progress: Callable[[int], None] = lambda n: None) -> None:
        """Read all spans of the part."""
        for chunk in self.source.read():
            self.add(chunk)
            progress(len(chunk["span"]))

    def add(self, chunk: SpanChunk) -> None:
        """Take spans of the part, in file order."""
        self.source.add(chunk)

    def made(self) -> Iterator[Slices | CounterPoints]:
        """Everything that was read or added to the source."""
        for chunk in self.source.chunks():
            yield from self.of(chunk)
        yield from self.rest()

    def of(self, chunk: SpanChunk) -> Iterator[Slices | CounterPoints]:
        """A chunk as the source gives it."""
        if not len(chunk["span"]):
            return
        tracks = self._places.processes[int(self._places.process[chunk["profile"][0]])]
        end, unfinished = chunk["end_ns"], chunk["end_ns"] == OPEN
        if unfinished.any():
            latest = np.maximum(self.source.latest(tracks.process.index), chunk["start_ns"])
            end = np.where(unfinished, latest, end)
        kept = possible(chunk["start_ns"], end, self._losses)
        rows = {**chunk, "end_ns": end, "unfinished": unfinished}
        if kept is not None:
            self._take_out({name: column[~kept] for name, column in rows.items()})
            rows = {name: column[kept] for name, column in rows.items()}
        if len(rows["span"]):
            yield self._slices(tracks, rows)
            yield from self._memory_points(tracks, rows)

    def _take_out(self, rows: SpanChunk) -> None:
        """Take spans that cannot be written out of what was given, with what belongs to them."""
        given = self._losses.given
        given.add_spans(rows, times=-1)
        if self._options.annotations is not Annotations.NONE:
            for what, (_, sizes) in sizes_of(rows, self.wanted).items():
                given.add_amount(what, sizes, times=-1)
            self._notes.take_out_counters(rows)

    def _slices(self, tracks: ProcessTracks, rows: SpanChunk) -> Slices:
        track = self._tracks(tracks, rows)
        strings = [] if self._traces.spans_backend is None else self._traces.spans_backend.strings
        kinds, words = rows["kind"], [kind.word for kind in SpanKind]
        return Slices(
            tracks,
            track,
            rows["start_ns"],
            rows["end_ns"],
            Texts.of(rows[LABEL], self.source.labels, words, kinds, self._losses),
            Texts.of(rows["category"], strings, words, kinds, self._losses),
            rows[FLOW],
            rows[LAUNCHED],
            rows[N_LAUNCHED],
            self._notes.of(rows),
            kinds,
        )

    # -- tracks --------------------------------------------------------------------------------------------------------

    def _tracks(self, tracks: ProcessTracks, rows: SpanChunk) -> Ints:
        """The track of every span, lanes included."""
        base = self._places.track[rows["profile"]]
        allocations = rows["kind"] == SpanKind.ALLOC
        if allocations.any():
            base = base.copy()
            base[allocations] = self._memory_tracks(tracks, base[allocations])
        if self._options.by_queue:
            base = self._queue_tracks(tracks, rows, base)
        nests = np.array([track.nests for track in tracks.tracks], np.bool_)[base]
        lanes = self._lanes.setdefault(tracks.process.index, Lanes())
        lane = lanes.of(base, nests, rows["start_ns"], rows["end_ns"])
        return _replaced(base, lane, tracks.lane) if lane.any() else base

    @staticmethod
    def _memory_tracks(tracks: ProcessTracks, base: Ints) -> Ints:
        """Allocations do not nest with the calls of their thread, so they lie beside them."""

        def memory(track: int, _: int) -> int:
            above = tracks.tracks[track]
            name, inside = f"{above.name} memory", track if above.kind is TrackKind.THREAD else above.parent
            return tracks.child(("memory", track), TrackKind.CHILD, name, inside, order=above.order, nests=True)

        return _replaced(base, np.zeros(len(base), np.int32), memory)

    def _queue_tracks(self, tracks: ProcessTracks, rows: SpanChunk, base: Ints) -> Ints:
        out = base.copy()
        for kind in OPERATIONS:
            column = side_of(kind, "queue", self.wanted)
            own: Bools = (rows["kind"] == kind) & (rows[column] >= 0) if column else np.zeros(len(base), np.bool_)
            if column and own.any():
                device = self._places.device[rows["profile"][own]]
                queue = self._copy_queue if kind is SpanKind.COPY else self._queue
                out[own] = _replaced(device, rows[column][own], partial(queue, tracks))
        return out

    def _queue(self, tracks: ProcessTracks, device: int, queue: int) -> int:
        agent = tracks.agent(device)
        in_rocpd = self._places.naming is Naming.ROCPD
        name = f"COMPUTE {agent} QUEUE [{queue}]" if in_rocpd else f"{agent} queue {queue}"
        group = tracks.child(("device", device), TrackKind.GROUP, agent)
        return tracks.child(("queue", device, queue), TrackKind.STREAM, name, group)

    def _copy_queue(self, tracks: ProcessTracks, device: int, queue: int) -> int:
        """rocprofv3's converter has tracks of their own for copies."""
        if self._places.naming is Naming.PLAIN:
            return self._queue(tracks, device, queue)
        agent = tracks.agent(device)
        group = tracks.child(("device", device), TrackKind.GROUP, agent)
        name = f"COPY to {agent} THREAD [{queue}]"
        return tracks.child(("copies", device, queue), TrackKind.STREAM, name, group)

    # -- counters ------------------------------------------------------------------------------------------------------

    def _memory_points(self, tracks: ProcessTracks, rows: SpanChunk) -> Iterator[CounterPoints]:
        own = np.flatnonzero(rows["kind"] == SpanKind.ALLOC)
        memory = self._memory.get(tracks.process.index)
        if not len(own) and memory is None:
            return
        if memory is None:
            memory = self._memory[tracks.process.index] = MemoryInUse()
        columns = [side_of(SpanKind.ALLOC, name, self.wanted) or "" for name in ("bytes", "device", "address", "level")]
        nameless = np.zeros(len(own), np.int32)
        operation = Texts.of(rows[LABEL][own], self.source.labels, ["alloc"], nameless, self._losses)
        memory.add(rows["end_ns"][own], operation.index, operation.all, *(rows[name][own] for name in columns))
        yield from self._points(tracks, memory, int(rows["start_ns"][-1]))

    def _points(self, tracks: ProcessTracks, memory: MemoryInUse, until: int) -> Iterator[CounterPoints]:
        for device, level, time_ns, value in memory.until(until):
            known = 0 <= device < len(self._devices)
            agent = self._devices[device] if known else f"device {device}" if device >= 0 else "unknown device"
            word = clean(self.source.levels.all[level], self._losses) if level >= 0 else ""
            name = f"{agent} memory {word}".strip()
            if self._places.naming is Naming.ROCPD:
                name = f"ALLOCATE BYTES on {agent}" + (f" ({word})" if word else "")
            key = ("memory in use", device, level)
            track = tracks.child(key, TrackKind.COUNTER, name, unit="bytes")
            yield CounterPoints(tracks, track, time_ns, value)

    def rest(self) -> Iterator[CounterPoints]:
        """What is known only after the last span: the end of the curves of memory, and counters over time."""
        for index, memory in self._memory.items():
            yield from self._points(self._places.processes[index], memory, OPEN)
            self._losses.add(UNKNOWN_FREES, memory.n_unknown)
        yield from counter_points(self._traces, self._places, self._losses)
        self._count_left_out()
        if self.source.region_names is not None:
            self._losses.add(RENAMED, self.source.region_names.n_renamed)


def counter_points(traces: Traces, places: Places, losses: Losses) -> Iterator[CounterPoints]:
    """Counters over time, one track for each profile and name."""
    counters = traces.counters
    if counters is None or not len(counters):
        return
    own: Bools = np.ones(len(counters), np.bool_)
    if places.profiles is not None:
        own = np.isin(counters.profile, places.profiles)
    losses.given.add_amount(MEASURED, counters.value[own])
    known, has_place = counters.time_ns >= 0, places.process[counters.profile] >= 0
    for why, lost in ((POINTS, own & ~known), (NOWHERE, own & known & ~has_place)):
        losses.add(why, int(np.count_nonzero(lost)))
        losses.given.add_amount(MEASURED, counters.value[lost], times=-1)
    rows = np.flatnonzero(own & known & has_place)
    rows = rows[np.lexsort((counters.time_ns[rows], counters.name[rows], counters.profile[rows]))]
    _, number = distinct_rows(counters.profile[rows], counters.name[rows])
    for each in np.split(rows, np.flatnonzero(np.diff(number)) + 1) if len(rows) else []:
        profile, name = int(counters.profile[each[0]]), counters.names[int(counters.name[each[0]])]
        tracks = places.processes[int(places.process[profile])]
        above, agent = tracks.tracks[int(places.track[profile])], places.agent(profile)
        text = clean(name, losses)
        title = f"{agent} PMC {text}" if places.naming is Naming.ROCPD else f"{agent or above.name} {text}"
        parent = above.parent if agent else 0
        track = tracks.child(("counter", profile, name), TrackKind.COUNTER, title.strip(), parent)
        yield CounterPoints(tracks, track, counters.time_ns[each], counters.value[each], is_given=True)


def _replaced(left: Ints, right: Array, by: Callable[[int, int], int]) -> Ints:
    """For pairs of numbers, what a function makes of each different pair, in the order of their first use."""
    pairs, number = distinct_rows(left, right)
    first = np.full(pairs.shape[1], len(left), np.int64)
    first[number[::-1]] = np.arange(len(left) - 1, -1, -1)
    out = np.full(pairs.shape[1], ABSENT, np.int64)
    for k in np.argsort(first, kind="stable").tolist():
        out[k] = by(int(pairs[0, k]), int(pairs[1, k]))
    return out[number]
