"""Chrome's trace events as text: tracks, slices and points of counters become events, many at once.

Specification: trace-outputs.md 3, and "Settled afterwards" 1.

    {"displayTimeUnit":"ns","otherData":{"time_origin_ns":"..."},"traceEvents":[
    {"ph":"M","pid":1,"name":"process_name","args":{"name":"rank 0 node0000 pid 17"}},
    {"ph":"X","pid":1,"tid":17,"ts":0.123,"dur":4.500,"name":"hipLaunchKernel","cat":"HIP","args":{"corr":7}},
    {"ph":"s","pid":1,"tid":17,"ts":0.123,"name":"launch","cat":"flow","id":1},
    ...
    ]}

Every event but the first of a file begins with a comma and a new line. Times are microseconds with three digits after
the point, made of whole nanoseconds. A flow begins right after the slice that it comes from, and ends right after the
one that it goes to: readers tie it to the last slice that began at its time.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

import numpy as np

from callgrove.binary.text_rows import (
    BLOCK_BYTES,
    Cells,
    Texts,
    blocks,
    decimals,
    fractions,
    integers,
    joined,
    only,
    where,
)
from callgrove.formats.timeline.items import CounterPoints, Note, Slices, Value
from callgrove.formats.timeline.places import ProcessTracks, Track, TrackKind
from callgrove.model.arrays import Array, Ints
from callgrove.model.traces import SpanKind

__all__ = [
    "FIRST_DEVICE_TID",
    "FLOW_BITS",
    "FOOTER",
    "SEPARATOR",
    "header",
    "points_text",
    "slices_text",
    "tracks_text",
]

SEPARATOR = b",\n"
FOOTER = b"\n]}\n"
FIRST_DEVICE_TID = 1_000_000
FLOW_BITS = 32  # ids of flows: the process above them, the number of the operation below; doubles hold 53 bits
FLOW = b'"name":"launch","cat":"flow","id":'
ROOM = 320  # bytes of a row without its texts and notes
Fields = list[Cells | bytes]


def header(origin_ns: int) -> bytes:
    """The beginning of a file; `origin_ns` is what all times have been reduced by."""
    other = b'"otherData":{"time_origin_ns":"%d"},' % origin_ns if origin_ns else b""
    return b'{"displayTimeUnit":"ns",%b"traceEvents":[\n' % other


def _quoted(text: str) -> bytes:
    return json.dumps(text, ensure_ascii=False).encode("utf-8", "replace")


# -- tracks ----------------------------------------------------------------------------------------------------------


def first_tid(tracks: ProcessTracks) -> int:
    """What all tracks but threads are counted from: beyond every thread of the process."""
    highest = max((track.tid for track in tracks.tracks if track.kind is TrackKind.THREAD), default=0)
    return max(FIRST_DEVICE_TID, -(-(highest + 1) // FIRST_DEVICE_TID) * FIRST_DEVICE_TID)


def tracks_text(tracks: ProcessTracks, new: Sequence[Track]) -> bytes:
    """What a process and its tracks are called. Groups have no events of their own, counters their names with them."""
    pid, first, lines = tracks.process.pid, first_tid(tracks), []
    for track in new:
        if track.kind is TrackKind.PROCESS:
            lines.append(_meta(pid, "process_name", f'"name":{_text(tracks.process.name)}'))
            lines.append(_meta(pid, "process_sort_index", f'"sort_index":{tracks.process.index}'))
            if tracks.process.labels:
                lines.append(_meta(pid, "process_labels", f'"labels":{_text(", ".join(tracks.process.labels))}'))
        elif track.kind not in (TrackKind.GROUP, TrackKind.COUNTER):
            tid = track.tid if track.kind is TrackKind.THREAD else first + track.number
            name = f"{track.name} #{track.lane}" if track.lane else track.name
            lines.append(_meta(pid, "thread_name", f'"name":{_text(name)}', tid))
            lines.append(_meta(pid, "thread_sort_index", f'"sort_index":{track.order}', tid))
    return "".join(lines).encode("utf-8", "replace")


def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _meta(pid: int, name: str, args: str, tid: int | None = None) -> str:
    thread = "" if tid is None else f'"tid":{tid},'
    return f',\n{{"ph":"M","pid":{pid},{thread}"name":"{name}","args":{{{args}}}}}'


# -- slices ----------------------------------------------------------------------------------------------------------


def slices_text(slices: Slices, origin_ns: int) -> Iterator[bytes]:
    """The events of a batch, block after block."""
    names, categories = Texts(slices.name.all, _quoted), Texts(slices.category.all, _quoted)
    notes = [_NoteCells(note, len(slices)) for note in slices.notes if len(note.rows)]
    width = names.widths(slices.name.index) + categories.widths(slices.category.index) + sum(n.width for n in notes)
    places = _Places(slices, origin_ns)
    for part in blocks(width, ROOM, BLOCK_BYTES):
        rows = np.arange(part.start, part.stop)
        n_launched = slices.n_launched[part]
        if int(n_launched.max(initial=0)) > 1:  # a row for each flow; the slice itself is in the first one
            rows = np.repeat(rows, np.maximum(n_launched, 1))
        again = np.append(False, rows[1:] == rows[:-1])
        fields = _beginnings(slices, rows, places)
        fields += [b',"name":', names.cells(slices.name.index[rows])]
        fields += [b',"cat":', categories.cells(slices.category.index[rows])]
        fields += [*_args(notes, rows), b"}", *_flow_ends(slices, rows, places)]
        if again.any():
            fields = [where(~again, field) for field in fields]
        fields += _flow_begins(slices, rows, again, places)
        yield joined(len(rows), fields)


def _beginnings(slices: Slices, rows: Ints, places: _Places) -> Fields:
    """Complete events; marks that last no time and launch nothing are instants."""
    lasting = slices.end_ns[rows] - slices.start_ns[rows]
    complete: Fields = [b',\n{"ph":"X"', *places.of(rows), b',"dur":', *decimals(lasting)]
    if slices.kind is None:
        return complete
    instant = (slices.kind[rows] == SpanKind.MARKER) & (lasting == 0) & (slices.n_launched[rows] == 0)
    if not instant.any():
        return complete
    lasts = np.flatnonzero(~instant)
    phase = np.where(instant, np.bytes_(b',\n{"ph":"i","s":"t"'), np.bytes_(b',\n{"ph":"X"'))
    return [phase, *places.of(rows), only(len(rows), lasts, [b',"dur":', *decimals(lasting[lasts])])]


class _Places:
    """Where and when slices begin."""

    def __init__(self, slices: Slices, origin_ns: int) -> None:
        first = first_tid(slices.process)
        tracks = slices.process.tracks
        tids = np.array([t.tid if t.kind is TrackKind.THREAD else first + t.number for t in tracks], np.int64)
        self._tid, self._time = tids[slices.track], slices.start_ns - origin_ns
        self._process = b',"pid":%d,"tid":' % slices.process.process.pid

    def of(self, rows: Ints) -> Fields:
        return [self._process, integers(self._tid[rows]), b',"ts":', *decimals(self._time[rows])]


def _flow_ends(slices: Slices, rows: Ints, places: _Places) -> Fields:
    here = np.flatnonzero(slices.flow[rows] >= 0)
    if not len(here):
        return []
    own = rows[here]
    fields = [b',\n{"ph":"f","bp":"e"', *places.of(own), b",", FLOW, _flow_ids(slices, slices.flow[own]), b"}"]
    return [only(len(rows), here, fields)]


def _flow_begins(slices: Slices, rows: Ints, again: Array, places: _Places) -> Fields:
    here = np.flatnonzero(slices.n_launched[rows] > 0)
    if not len(here):
        return []
    begun = np.flatnonzero(~again)
    number = np.arange(len(rows)) - np.repeat(begun, np.diff(np.append(begun, len(rows))))
    own = rows[here]
    ids = _flow_ids(slices, slices.launched[own] + number[here])
    return [only(len(rows), here, [b',\n{"ph":"s"', *places.of(own), b",", FLOW, ids, b"}"])]


def _flow_ids(slices: Slices, number: Ints) -> Cells:
    """Unique in a file; no id is 0."""
    return integers(((slices.process.process.index + 1) << FLOW_BITS) + number)


class _NoteCells:
    """A note, as the cells of any rows of its batch."""

    def __init__(self, note: Note, n: int) -> None:
        self._note, self.key = note, _quoted(note.key) + b":"
        self._place = np.full(n, -1, np.int64)  # of each row, where its value is
        self._place[note.rows] = np.arange(len(note.rows))
        self._texts = Texts(note.texts, _quoted) if note.value is Value.TEXT else None
        longest = max((len(text) for text in note.texts), default=0)
        self.width = len(self.key) + (2 * longest if self._texts else 24)

    def cells(self, rows: Ints) -> tuple[Ints, Cells | bytes]:
        """Which of the rows have it, and their values."""
        place = self._place[rows]
        here = np.flatnonzero(place >= 0)
        values = self._note.values[place[here]]
        if self._texts is not None:
            return here, self._texts.cells(values)
        if self._note.value is Value.TRUE:
            return here, b"true"
        return here, fractions(values, _strange) if self._note.value is Value.FLOAT else integers(values)


def _strange(value: float) -> bytes:
    """JSON has no such numbers."""
    return b'"%b"' % repr(value).encode()


def _args(notes: Sequence[_NoteCells], rows: Ints) -> Fields:
    fields: Fields = []
    any_before = np.zeros(len(rows), np.bool_)
    for note in notes:
        here, values = note.cells(rows)
        if len(here):
            before = any_before[here]
            begin: Cells | bytes = b","
            if not before.all():
                begin = np.where(before, np.bytes_(b","), np.bytes_(b',"args":{')) if before.any() else b',"args":{'
            made: Fields = [begin, note.key, values]
            fields += made if len(here) == len(rows) else [only(len(rows), here, made)]
            any_before[here] = True
    if not fields:
        return []
    return [*fields, b"}" if any_before.all() else where(any_before, b"}")]


# -- counters --------------------------------------------------------------------------------------------------------


def points_text(points: CounterPoints, origin_ns: int) -> bytes:
    """The values of one counter."""
    track = points.process.tracks[points.track]
    begin = b',\n{"ph":"C","pid":%d,"name":%b,"ts":' % (points.process.process.pid, _quoted(track.name))
    values = points.value
    cells = fractions(values, _strange) if values.dtype.kind == "f" else integers(values)
    unit = _quoted(track.unit or "value")
    return joined(len(values), [begin, *decimals(points.time_ns - origin_ns), b',"args":{%b:' % unit, cells, b"}}"])
