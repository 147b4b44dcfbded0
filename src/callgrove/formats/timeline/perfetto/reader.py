"""A Perfetto trace as a data set: tracks become lanes, begins and ends become spans.

Specification: more-inputs.md 5. Events are decoded block by block and kept as columns until the end of the file: the
begin and the end of a slice may lie anywhere, in any order, and only times put them together. Some tracks at a time are
put in order then. Spans are numbered as they begin in the file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from callgrove.arrays import ABSENT, MISSING, Array, Bools, Ids, Ints, bundles
from callgrove.formats.events.arguments import ARGUMENT_TYPES, ValueType, render_values
from callgrove.formats.events.begin_end import find_partners
from callgrove.formats.events.columns import ColumnData, Columns, ColumnStore
from callgrove.formats.events.dataset import OF_NO_STREAM, Lane, Process
from callgrove.formats.events.kinds import kinds_of_categories
from callgrove.formats.timeline.perfetto.events import COMPLETE, Losses, event_chunks
from callgrove.formats.timeline.perfetto.fields import OTHER_PACKETS, EventType
from callgrove.formats.timeline.perfetto.packets import PacketFile
from callgrove.formats.timeline.perfetto.tracks import ProcessOfTracks, Track, Tracks
from callgrove.model.experiment import Severity
from callgrove.model.profiles import ProfileKind
from callgrove.model.traces.events import Device, FlowDirection, SideTable, SpanKind

__all__ = ["read_trace"]

ROWS_AT_ONCE = 1 << 21  # events of whole tracks that are put in order at a time
EVENT: Mapping[str, type[np.generic]] = {
    **dict.fromkeys(("time_ns", "end_ns", "correlation"), np.int64),
    **dict.fromkeys(("track", "name", "category"), np.int32),
    "type": np.int8,
}
ARGUMENT: Mapping[str, type[np.generic]] = {"event": np.int64, "key": np.int32, "type": np.int8, "bits": np.uint64}
FLOW_ROW: Mapping[str, type[np.generic]] = {"event": np.int64, "id": np.uint64, "ends": np.bool_}
POINT: Mapping[str, type[np.generic]] = {"track": np.int32, "time_ns": np.int64, "value": np.float64}
KIND_OF_WORD = {kind.word: kind for kind in SpanKind}
CONSUMED: Mapping[str, Sequence[SpanKind]] = {  # arguments that are stored elsewhere, for spans of these kinds
    "corr": tuple(SpanKind),
    "kind": tuple(SpanKind),
    "stream": (SpanKind.KERNEL, SpanKind.COPY, SpanKind.MEMSET),
    "grid": (SpanKind.KERNEL,),
    "block": (SpanKind.KERNEL,),
    "bytes": (SpanKind.COPY, SpanKind.MEMSET),
}
OUR_ARGUMENTS = "arg."  # how our writers begin the names of arguments
TRIPLE = re.compile(r"\d{1,18},\d{1,18},\d{1,18}")


def read_trace(path: Path, store: ColumnStore) -> ColumnData:
    """Return the events of a trace file as a data set."""
    return _Reading(path, store).read()


@dataclass
class _Spans:
    """What became of events: the span of each, and where spans end."""

    span_of: Ids  # by event; -1 for an end that closes nothing
    end_ns: Ints  # by span
    n_open: int = 0
    n_stray: int = 0


@dataclass(frozen=True)
class _FlowEnds:
    """Where flows leave spans and arrive at spans."""

    span: Ints
    id: Ints
    ends: Bools

    def directions(self, start_ns: Ints) -> Array:
        """Return the direction of each: a flow begins where it leaves a span for the first time, and goes on through
        others that it leaves later."""
        out = np.where(self.ends, FlowDirection.IN, FlowDirection.STEP).astype(np.int8)
        leaves = np.flatnonzero(~self.ends)
        leaves = leaves[np.lexsort((self.span[leaves], start_ns[self.span[leaves]], self.id[leaves]))]
        out[leaves[np.diff(self.id[leaves], prepend=-1) != 0]] = FlowDirection.OUT
        return out

    def sources(self) -> tuple[Ints, Ints]:
        """Return where flows arrive, as rows, and the span that each of them left; -1 where none did."""
        leaves = np.flatnonzero(~self.ends)
        leaves = leaves[np.argsort(self.id[leaves], kind="stable")]
        arrives = np.flatnonzero(self.ends)
        place = np.searchsorted(self.id[leaves], self.id[arrives])
        place = np.minimum(place, max(len(leaves) - 1, 0))
        if not len(leaves):
            return arrives, np.full(len(arrives), ABSENT, np.int64)
        matches = self.id[leaves][place] == self.id[arrives]
        return arrives, np.where(matches, self.span[leaves][place], ABSENT)


def _correlate(flows: _FlowEnds, kinds: Array, correlation: Ints) -> None:
    """Give operations of devices, and the calls that flows lead to them from, the number of the call as correlation."""
    arrives, source = flows.sources()
    span = flows.span[arrives]
    launched = np.flatnonzero((source >= 0) & np.isin(kinds[span], ON_DEVICE))
    correlation[span[launched]] = source[launched]
    correlation[source[launched]] = source[launched]


def _is_launch(flows: _FlowEnds, kinds: Array, correlation: Ints) -> Bools:
    """Return which ends of flows only say what correlations say: that a call launched an operation."""
    out = np.zeros(len(flows.span), np.bool_)
    arrives, source = flows.sources()
    span = flows.span[arrives]
    same = (source >= 0) & (correlation[span] >= 0) & (correlation[source] == correlation[span])
    launched = np.flatnonzero(same & np.isin(kinds[span], ON_DEVICE))
    out[arrives[launched]] = True
    others = np.delete(flows.id[arrives], launched)
    out |= ~flows.ends & np.isin(flows.id, flows.id[arrives[launched]]) & ~np.isin(flows.id, others)
    return out


class _Reading:
    """A trace in the making."""

    def __init__(self, path: Path, store: ColumnStore) -> None:
        self._file = PacketFile(path)
        self._data = ColumnData(path, "", store)
        self._tracks, self._losses = Tracks(), Losses()
        self._events = Columns(store, EVENT)
        self._arguments = Columns(store, ARGUMENT)
        self._flows = Columns(store, FLOW_ROW)
        self._points = Columns(store, POINT)

    def read(self) -> ColumnData:
        for chunk in event_chunks(self._file, self._data.names, self._tracks, self._losses):
            first = self._events.append(len(chunk), {name: getattr(chunk, name) for name in EVENT})
            rows, flows, points = chunk.arguments, chunk.flows, chunk.points
            self._arguments.append(
                len(rows.event), {"event": rows.event + first, "key": rows.key, "type": rows.type, "bits": rows.bits}
            )
            self._flows.append(len(flows.event), {"event": flows.event + first, "id": flows.id, "ends": flows.ends})
            self._points.append(len(points.track), {name: getattr(points, name) for name in POINT})
        spans = self._pair()
        lanes = _Lanes(self._tracks, self._data, self._used_tracks())
        self._append_spans(spans, lanes.lane)
        self._append_points(lanes)
        self._warn(spans)
        return self._data

    # -- spans

    def _used_tracks(self) -> dict[int, int]:
        """Return the tracks that have events, and a kind that occurs on each: what they show tells what they are."""
        out: dict[int, int] = {}
        for block in self._events.blocks(("track", "category")):
            kind = kinds_of_categories(block["category"], self._data.names.all)
            for track, first in zip(*np.unique(block["track"], return_index=True), strict=True):
                out.setdefault(int(track), int(kind[first]))
        return out

    def _pair(self) -> _Spans:
        """Find the end of every span, some tracks at a time."""
        n = len(self._events)
        types = np.concatenate([b["type"] for b in self._events.blocks(("type",))] or [np.empty(0, np.int8)])
        begins = types != EventType.SLICE_END
        span_of = np.where(begins, np.cumsum(begins) - 1, ABSENT).astype(np.int32)
        out = _Spans(span_of, np.full(int(begins.sum()), MISSING, np.int64))
        counts = np.zeros(len(self._tracks.all), np.int64)
        for block in self._events.blocks(("track",)):
            counts += np.bincount(block["track"], minlength=len(counts))
        for first, last in bundles(counts.tolist(), ROWS_AT_ONCE) if n else []:
            if counts[first:last].any():
                self._pair_tracks(first, last, out)
        return out

    def _pair_tracks(self, first: int, last: int, out: _Spans) -> None:
        """Find the ends of the spans of some tracks; what stays open ends with the last event of its track."""
        parts = [
            {"event": block["row"][chosen], **{name: block[name][chosen] for name in EVENT}}
            for block in self._events.blocks(list(EVENT))
            if len(chosen := np.flatnonzero((block["track"] >= first) & (block["track"] < last)))
        ]
        rows = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        is_instant = (rows["type"] == EventType.INSTANT) | (rows["type"] == COMPLETE)
        alone = np.flatnonzero(is_instant)
        end = np.where(rows["end_ns"] == MISSING, rows["time_ns"], rows["end_ns"])
        out.end_ns[out.span_of[rows["event"][alone]]] = end[alone]
        nested = np.flatnonzero(~is_instant)
        order = nested[np.lexsort((rows["time_ns"][nested], rows["track"][nested]))]
        track, begins = rows["track"][order].astype(np.int64), rows["type"][order] == EventType.SLICE_BEGIN
        partner = find_partners(track, begins)
        event, time = rows["event"][order], rows["time_ns"][order]
        closed = np.flatnonzero(begins & (partner >= 0))
        out.end_ns[out.span_of[event[closed]]] = time[partner[closed]]
        out.span_of[event[partner[closed]]] = out.span_of[event[closed]]
        still_open = np.flatnonzero(begins & (partner < 0))
        if len(still_open):
            latest = np.zeros(last - first, np.int64)
            np.maximum.at(latest, rows["track"] - first, np.maximum(rows["time_ns"], end))
            out.end_ns[out.span_of[event[still_open]]] = latest[track[still_open] - first]
        out.n_open += len(still_open)
        out.n_stray += int((~begins & (partner < 0)).sum())

    def _append_spans(self, spans: _Spans, lane: Ids) -> None:
        """Append all spans, and the flows that say more than correlations do."""
        names = self._data.names
        kinds, correlation = self._kinds(spans), self._cells_of_spans("correlation")
        flows = self._flow_ends(spans)
        if not (correlation >= 0).any():
            _correlate(flows, kinds, correlation)
        for block in self._events.blocks(list(EVENT)):
            rows = np.flatnonzero(block["type"] != EventType.SLICE_END)
            name, span = block["name"][rows], spans.span_of[block["row"][rows]]
            self._data.append(
                kind=kinds[span],
                category=block["category"][rows],
                name=np.where(name < 0, names(""), name),
                start_ns=block["time_ns"][rows],
                end_ns=spans.end_ns[span],
                lane=lane[block["track"][rows]],
                correlation=correlation[span],
            )
        self._append_about(spans, kinds)
        kept = np.flatnonzero(~_is_launch(flows, kinds, correlation))
        self._data.append_flows(
            flows.span[kept], flows.id[kept], flows.directions(self._cells_of_spans("time_ns"))[kept]
        )

    def _kinds(self, spans: _Spans) -> Array:
        """Return the kind of every span. What takes no time and is of no kind is a marker."""
        parts = [np.empty(0, np.int8)]
        for block in self._events.blocks(("type", "category")):
            rows = np.flatnonzero(block["type"] != EventType.SLICE_END)
            kind = kinds_of_categories(block["category"][rows], self._data.names.all)
            is_marker = (block["type"][rows] == EventType.INSTANT) & (kind == SpanKind.REGION)
            parts.append(np.where(is_marker, SpanKind.MARKER, kind).astype(np.int8))
        kinds = np.concatenate(parts)
        for span, word in self._texts_of("kind", spans):
            if word in KIND_OF_WORD:
                kinds[span] = KIND_OF_WORD[word]
        return kinds

    def _texts_of(self, key: str, spans: _Spans) -> Iterator[tuple[Ints, str]]:
        """Yield the different texts of an argument, with the spans that have it."""
        word = self._data.names(key)
        for block in self._arguments.blocks(list(ARGUMENT)):
            rows = np.flatnonzero((block["key"] == word) & (block["type"] == ValueType.TEXT))
            span, text = spans.span_of[block["event"][rows]].astype(np.int64), block["bits"][rows]
            for number in np.unique(text).tolist():
                yield span[(text == number) & (span >= 0)], self._data.names.all[number]

    def _cells_of_spans(self, column: str) -> Ints:
        """Return a column of the events that are spans."""
        parts = [block[column][block["type"] != EventType.SLICE_END] for block in self._events.blocks(("type", column))]
        return np.concatenate([*parts, np.empty(0, np.int64)])

    def _flow_ends(self, spans: _Spans) -> _FlowEnds:
        rows = self._flows.whole(list(FLOW_ROW))
        span = spans.span_of[rows["event"]].astype(np.int64)
        kept = np.flatnonzero(span >= 0)
        flow = (rows["id"][kept] & np.uint64(2**63 - 1)).astype(np.int64)
        return _FlowEnds(span[kept], flow, rows["ends"][kept])

    # -- what spans have beside

    def _append_about(self, spans: _Spans, kinds: Array) -> None:
        """Append what arguments tell of operations in the words that our own writers use; the others stay arguments."""
        self._append_grids(spans, kinds)
        address = {
            int(one): int(text, 16) for span, text in self._texts_of("address", spans) for one in span if _is_hex(text)
        }
        word = self._data.names("bytes")
        for block in self._arguments.blocks(list(ARGUMENT)):
            is_number = (block["type"] == ValueType.INT) | (block["type"] == ValueType.UINT)
            rows = np.flatnonzero((block["key"] == word) & is_number & (block["bits"] < 2**63))
            span = spans.span_of[block["event"][rows]].astype(np.int64)
            sizes = block["bits"][rows].astype(np.int64)
            copies = np.flatnonzero((span >= 0) & np.isin(kinds[span], (SpanKind.COPY, SpanKind.MEMSET)))
            absent = np.full(len(copies), ABSENT, np.int64)
            self._data.append_side("copy", span[copies], bytes=sizes[copies], source=absent, destination=absent)
            where = np.array([address.get(one, ABSENT) for one in span.tolist()], np.int64)
            known = np.flatnonzero((where != ABSENT) & (span >= 0) & (kinds[span] == SpanKind.ALLOC))
            absent = np.full(len(known), ABSENT, np.int64)
            self._data.append_side("alloc", span[known], bytes=sizes[known], address=where[known], device=absent)
        if len(self._arguments):
            consumed = {self._data.names(key): CONSUMED[key] for key in CONSUMED}
            arguments = partial(_arguments, self._arguments, spans.span_of, self._data.names.all, kinds, consumed)
            self._data.add_lazy_side("argument", arguments)

    def _append_grids(self, spans: _Spans, kinds: Array) -> None:
        columns: dict[str, Array] = {}
        n = len(kinds) if SpanKind.KERNEL in kinds else 0
        for key, word in (("grid", "grid"), ("block", "workgroup")) if n else ():
            for span, text in self._texts_of(key, spans):
                if TRIPLE.fullmatch(text):
                    for axis, number in zip("xyz", text.split(","), strict=True):
                        column = columns.setdefault(f"{word}_{axis}", np.full(n, ABSENT, np.int64))
                        column[span] = int(number)
        if columns:
            told = np.logical_or.reduce([column >= 0 for column in columns.values()]) & (kinds == SpanKind.KERNEL)
            rows = np.flatnonzero(told)
            absent = np.full(len(rows), ABSENT, np.int64)
            every = {f"{word}_{axis}": absent for word in ("grid", "workgroup") for axis in "xyz"}
            self._data.append_side(
                "kernel", rows, (), **every | {name: column[rows] for name, column in columns.items()}
            )

    def _append_points(self, lanes: _Lanes) -> None:
        tracks, names = self._tracks.all, self._data.names
        rows = self._points.whole(list(POINT))
        numbers = np.unique(rows["track"]).tolist()
        name_of, lane_of = np.zeros(len(tracks), np.int32), np.zeros(len(tracks), np.int32)
        for number in numbers:
            name_of[number] = names(tracks[number].name or f"counter {tracks[number].key}")
            lane_of[number] = lanes.of_counter(number)
            mine = np.flatnonzero(rows["track"] == number)
            if tracks[number].multiplier != 1:
                rows["value"][mine] *= tracks[number].multiplier
            if tracks[number].is_incremental:
                rows["value"][mine] = np.cumsum(rows["value"][mine])
        order = np.lexsort((rows["time_ns"], rows["track"]))
        track = rows["track"][order]
        self._data.append_counters(lane_of[track], name_of[track], rows["time_ns"][order], rows["value"][order])

    # -- what is said of it

    def _warn(self, spans: _Spans) -> None:
        data, losses, file = self._data, self._losses, self._file
        for problem in dict.fromkeys(file.problems):
            data.warn(Severity.DAMAGE, problem)
        for n, text, more in (
            (losses.broken, "packets or events that are not messages", "left out"),
            (self._tracks.n_broken, "descriptors of tracks that are not messages", "left out"),
            (file.n_nested, "compressed packets inside of others", "left out"),
            (losses.uninterned, "names of events or arguments that were never interned", "empty"),
            (losses.without_time, "events without a time, or with one that no clock of the trace shows", "left out"),
        ):
            if n:
                data.warn(Severity.DAMAGE, f"{text}: {n:,} ({more})")
        for n, text, more in (
            (losses.needs_state, "events whose names came before the recording", "left out"),
            (spans.n_open, "slices that never end", "they last until the last event of their track"),
            (spans.n_stray, "ends of slices that nothing began", "left out"),
            (losses.without_type, "events of a type, or counters with a value, that is not known", "left out"),
            (losses.dropped, "gaps in which the recorder lost packets", "as it says"),
        ):
            if n:
                data.warn(Severity.NOTE, f"{text}: {n:,} ({more})")
        others = [f"{n} {OTHER_PACKETS.get(number, f'field {number}')}" for number, n in sorted(losses.packets.items())]
        if others:
            data.warn(Severity.NOTE, f"packets that hold no events of tracks are not read: {', '.join(others)}")
        if losses.phases:
            letters = ", ".join(f"{n} {letter}" for letter, n in sorted(losses.phases.items()))
            data.warn(Severity.NOTE, f"events of Chrome's older phases are not read: {letters}")


def _arguments(
    arguments: Columns, span_of: Ids, strings: Sequence[str], kinds: Array, consumed: Mapping[int, Sequence[SpanKind]]
) -> Iterator[SideTable]:
    """Yield the arguments of events as texts; those that are stored elsewhere are left out."""
    names = np.array([text.removeprefix(OUR_ARGUMENTS) for text in strings], np.object_)
    texts = np.array(strings, np.object_)
    for block in arguments.blocks(list(ARGUMENT)):
        span = span_of[block["event"]].astype(np.int64)
        kept = span >= 0
        for key, of_kinds in consumed.items():
            kept &= (block["key"] != key) | ~np.isin(kinds[span], of_kinds)
        rows = np.flatnonzero(kept)
        rows = rows[np.argsort(span[rows], kind="stable")]
        if not len(rows):
            continue
        first = np.flatnonzero(np.diff(span[rows], prepend=ABSENT))
        position = np.arange(len(rows)) - np.repeat(first, np.diff(first, append=len(rows)))
        yield SideTable(
            span[rows],
            {
                "position": position,
                "type": np.array(ARGUMENT_TYPES, np.object_)[block["type"][rows]],
                "name": names[block["key"][rows]],
                "value": render_values(block["type"][rows], block["bits"][rows], texts),
            },
        )


# -- lanes -------------------------------------------------------------------------------------------------------------
# A thread is a lane, and so is every other track with events. Our own writers, and others, give one lane several tracks
# of the same name where its slices overlap; these are one lane again.


RANK = re.compile(r"\brank[ _:-]?(\d{1,9})\b", re.IGNORECASE)
HOST, PID = re.compile(r"^host (.+)$"), re.compile(r"^pid (\d{1,18})$")
DEVICE = re.compile(r"\b(?:GPU|Agent|Device)\b[^\[\d]{0,40}\[?(\d{1,9})\]?", re.IGNORECASE)
QUEUE = re.compile(r"\b(queue|stream)\b ?\[?(\d{1,18})\]?", re.IGNORECASE)
ON_DEVICE = (SpanKind.KERNEL, SpanKind.COPY, SpanKind.MEMSET)
BESIDE = ("", " memory")  # what follows the name of a thread or stream in that of a track of the same lane


class _Lanes:
    """Lanes of tracks. `lane` has one for every track, 0 for those without events."""

    def __init__(self, tracks: Tracks, data: ColumnData, used: dict[int, int]) -> None:
        self._tracks, self._data = tracks, data
        self._processes: dict[int | None, int] = {}
        self._devices: dict[tuple[int, int], int] = {}
        self._known: dict[tuple[object, ...], int] = {}
        self.lane = np.zeros(len(tracks.all), np.int32)
        for number in sorted(used, key=self._order):
            self.lane[number] = self._lane(number, used[number])

    def _order(self, number: int) -> tuple[int, int, int]:
        return (self._pid(number) or 0, self._tracks.all[number].order, number)

    def _pid(self, number: int) -> int | None:
        return next((pid for k in self._tracks.above(number) if (pid := self._tracks.all[k].pid) is not None), None)

    def _lane(self, number: int, kind: int) -> int:
        track = self._tracks.all[number]
        process = self._process(self._pid(number))
        above = self._tracks.all[track.parent] if track.parent >= 0 else None
        if above is not None and above.tid is not None and track.tid is None and track.name in _names(above):
            return self._lane(track.parent, kind)
        name = track.name.removesuffix(BESIDE[1]) if track.tid is None else track.name
        key = (process, track.tid, track.parent, name) if name else (process, number)
        if key not in self._known:
            lane = self._make_lane(number, name, process, kind)
            self._known[key] = self._data.lane_list.append(lane)
        return self._known[key]

    def _make_lane(self, number: int, name: str, process: int, kind: int) -> Lane:
        track = self._tracks.all[number]
        if track.tid is not None:
            return Lane(process, ProfileKind.THREAD, track.tid, name)
        names = [self._tracks.all[k].name for k in self._tracks.above(number) if not self._tracks.all[k].is_process]
        device = next((int(found[1]) for text in names if (found := DEVICE.search(text))), ABSENT)
        queue = QUEUE.search(track.name)
        if device < 0 and kind not in ON_DEVICE:
            if track.is_process:
                name = name or "process"
            label = name or f"track {track.key}"
            return Lane(process, ProfileKind.OTHER, len(self._known), label, of_profiler=track.is_profiler)
        where = self._device(process, device) if device >= 0 else ABSENT
        if OF_NO_STREAM.fullmatch(name):
            return Lane(process, ProfileKind.GPU, device, name, where)
        is_queue = queue is not None and queue[1].lower() == "queue"
        number_of_lane = int(queue[2]) if queue is not None else len(self._known)
        return Lane(process, ProfileKind.QUEUE if is_queue else ProfileKind.GPU_STREAM, number_of_lane, name, where)

    def of_counter(self, number: int) -> int:
        """Return the lane that a counter belongs to: that of the thread or stream it is said to be of, or its
        process."""
        for above in self._tracks.above(self._tracks.all[number].parent):
            if self._tracks.all[above].tid is not None:
                return self._lane(above, SpanKind.REGION)
        process = self._process(self._pid(number))
        key = (process, "counters")
        if key not in self._known:
            self._known[key] = self._data.lane_list.append(Lane(process, ProfileKind.METRIC, 0, "counters"))
        return self._known[key]

    def _device(self, process: int, index: int) -> int:
        if (process, index) not in self._devices:
            self._devices[process, index] = self._data.add_device(Device(process, "GPU", index))
        return self._devices[process, index]

    def _process(self, pid: int | None) -> int:
        if pid not in self._processes:
            about = self._tracks.processes.get(pid or 0) if pid is not None else None
            self._processes[pid] = self._data.add_process(_process(about or ProcessOfTracks(pid or 0), self._data.path))
        return self._processes[pid]


def _is_hex(text: str) -> bool:
    return re.fullmatch(r"0x[0-9a-fA-F]{1,15}", text) is not None


def _names(track: Track) -> list[str]:
    return [track.name + ending for ending in BESIDE]


def _process(about: ProcessOfTracks, path: Path) -> Process:
    """Return a process; our own writers tell its rank, its host and its number in labels."""
    words = [about.name, *about.labels]
    rank = next((int(match[1]) for word in words if (match := RANK.search(word))), ABSENT)
    host = next((match[1] for word in about.labels if (match := HOST.match(word))), "")
    pid = next((int(match[1]) for word in about.labels if (match := PID.match(word))), about.pid)
    return Process(f"{path}:{about.pid}", pid, host, host, about.command or about.name, rank)
