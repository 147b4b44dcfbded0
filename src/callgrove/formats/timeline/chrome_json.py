"""Chrome's trace events (JSON), which chrome://tracing, Perfetto and speedscope open.

Specification: trace-outputs.md 3, and "Settled afterwards" 1.

Readers keep microseconds as doubles, so times are exact only below 2^43 us, 102 days. Where the last time lies beyond
that, as times since the epoch do, one origin of whole milliseconds is subtracted from all of them, and the file says
which. Readers take the whole file into memory: above some hundred megabytes Perfetto's own format is the better choice.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from callgrove.arrays import Ints
from callgrove.binary.files import Source
from callgrove.binary.text_rows import (
    BLOCK_BYTES,
    Cells,
    Texts,
    blocks,
    decimals,
    fractions,
    integers,
    join_fields,
    only,
    where,
)
from callgrove.errors import Parameter, compose_text
from callgrove.formats.interface import Field, LossReport, Match, Problem, ReadOptions, WriteOptions
from callgrove.formats.timeline.chrome.categories import kind_of_event_category
from callgrove.formats.timeline.content import CounterPoints, Note, ProcessTracks, Slices, Track, TrackKind, Value
from callgrove.formats.timeline.writer import TimelineWriter
from callgrove.formats.writing.outputs import Data, FileOutput
from callgrove.model.experiment import Experiment
from callgrove.model.traces.events import SpanKind, Traces, Window

__all__ = [
    "FIRST_DEVICE_TID",
    "FLOW_BITS",
    "FOOTER",
    "FORMAT",
    "SEPARATOR",
    "ChromeEncoder",
    "ChromeWriter",
    "header",
    "points_text",
    "slices_text",
    "time_bounds",
    "tracks_text",
]


# -- text of events ----------------------------------------------------------------------------------------------------
#     {"displayTimeUnit":"ns","otherData":{"time_origin_ns":"..."},"traceEvents":[
#     {"ph":"M","pid":1,"name":"process_name","args":{"name":"rank 0 node0000 pid 17"}},
#     {"ph":"X","pid":1,"tid":17,"ts":0.123,"dur":4.500,"name":"hipLaunchKernel","cat":"HIP","args":{"corr":7}},
#     {"ph":"s","pid":1,"tid":17,"ts":0.123,"name":"launch","cat":"flow","id":1},
#     ...
#     ]}
#
# Every event but the first of a file begins with a comma and a new line. Times are microseconds with three digits after
# the point, made of whole nanoseconds. A flow begins right after the slice that it comes from, and ends right after the
# one that it goes to: readers tie it to the last slice that began at its time.


SEPARATOR = b",\n"
FOOTER = b"\n]}\n"
FIRST_DEVICE_TID = 1_000_000
FLOW_BITS = 32  # ids of flows: the process above them, the number of the operation below; doubles hold 53 bits
FLOW = b'"name":"launch","cat":"flow","id":'
ROOM = 320  # bytes of a row without its texts and notes
FLOW_ROOM = 160  # and of an end of a flow
PHASES = np.array([b',\n{"ph":"s"', b',\n{"ph":"t"', b',\n{"ph":"f","bp":"e"'])  # by `FlowDirection`
Fields = list[Cells | bytes]


def header(origin_ns: int) -> bytes:
    """Return the beginning of a file; `origin_ns` is what all times have been reduced by."""
    other = b'"otherData":{"time_origin_ns":"%d"},' % origin_ns if origin_ns else b""
    return b'{"displayTimeUnit":"ns",%b"traceEvents":[\n' % other


def _quote(text: str) -> bytes:
    return json.dumps(text, ensure_ascii=False).encode("utf-8", "replace")


# -- tracks ------------------------------------------------------------------------------------------------------------


def first_tid(tracks: ProcessTracks) -> int:
    """Return what all tracks but threads are counted from: beyond every thread of the process."""
    highest = max((track.tid for track in tracks.tracks if track.kind is TrackKind.THREAD), default=0)
    return max(FIRST_DEVICE_TID, -(-(highest + 1) // FIRST_DEVICE_TID) * FIRST_DEVICE_TID)


def tracks_text(tracks: ProcessTracks, new: Sequence[Track]) -> bytes:
    """Return what a process and its tracks are called. Groups have no events of their own, counters their names with
    them."""
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
            # for our reader; others pass these over
            no_thread = ',"thread":false' if track.kind is TrackKind.OTHER else ""
            no_thread += ',"profiler":true' if track.is_profiler else ""
            lines.append(_meta(pid, "thread_name", f'"name":{_text(name)}{no_thread}', tid))
            lines.append(_meta(pid, "thread_sort_index", f'"sort_index":{track.order}', tid))
    return "".join(lines).encode("utf-8", "replace")


def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _meta(pid: int, name: str, args: str, tid: int | None = None) -> str:
    thread = "" if tid is None else f'"tid":{tid},'
    return f',\n{{"ph":"M","pid":{pid},{thread}"name":"{name}","args":{{{args}}}}}'


# -- slices ------------------------------------------------------------------------------------------------------------


def slices_text(slices: Slices, origin_ns: int) -> Iterator[bytes]:
    """Yield the events of a batch, block after block."""
    names, categories = Texts(slices.name.all, _quote), Texts(slices.category.all, _quote)
    notes = [_NoteCells(note, len(slices)) for note in slices.notes if len(note.rows)]
    width = names.widths(slices.name.index) + categories.widths(slices.category.index) + sum(n.width for n in notes)
    places, ends = _Places(slices, origin_ns), _NamedFlows(slices)
    for part in blocks(width + FLOW_ROOM * ends.count, ROOM, BLOCK_BYTES):
        rows = np.arange(part.start, part.stop)
        n_flows = np.maximum(slices.n_launched[part], ends.count[part])
        if int(n_flows.max(initial=0)) > 1:  # a row for each flow; the slice itself is in the first one
            rows = np.repeat(rows, np.maximum(n_flows, 1))
        again = np.append(False, rows[1:] == rows[:-1])
        fields = _beginnings(slices, rows, places, ends.count)
        fields += [b',"name":', names.cells(slices.name.index[rows])]
        fields += [b',"cat":', categories.cells(slices.category.index[rows])]
        fields += [*_args(notes, rows), b"}", *_flow_ends(slices, rows, places)]
        if again.any():
            fields = [where(~again, field) for field in fields]
        begun = np.flatnonzero(~again)
        number = np.arange(len(rows)) - np.repeat(begun, np.diff(np.append(begun, len(rows))))  # of a row's flows
        fields += _flow_begins(slices, rows, number, places)
        fields += ends.fields(rows, number, places)
        yield join_fields(len(rows), fields)


def _beginnings(slices: Slices, rows: Ints, places: _Places, n_ends: Ints) -> Fields:
    """Return complete events; marks that last no time, launch nothing and have no flows are instants."""
    lasting = slices.end_ns[rows] - slices.start_ns[rows]
    complete: Fields = [b',\n{"ph":"X"', *places.of(rows), b',"dur":', *decimals(lasting)]
    if slices.kind is None:
        return complete
    instant = (slices.kind[rows] == SpanKind.MARKER) & (lasting == 0) & (slices.n_launched[rows] + n_ends[rows] == 0)
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
    rows_with_flow = rows[here]
    fields = [
        b',\n{"ph":"f","bp":"e"',
        *places.of(rows_with_flow),
        b",",
        FLOW,
        _flow_ids(slices, slices.flow[rows_with_flow]),
        b"}",
    ]
    return [only(len(rows), here, fields)]


def _flow_begins(slices: Slices, rows: Ints, number: Ints, places: _Places) -> Fields:
    here = np.flatnonzero(slices.n_launched[rows] > number)
    if not len(here):
        return []
    calls = rows[here]
    ids = _flow_ids(slices, slices.launched[calls] + number[here])
    return [only(len(rows), here, [b',\n{"ph":"s"', *places.of(calls), b",", FLOW, ids, b"}"])]


def _flow_ids(slices: Slices, number: Ints) -> Cells:
    """Return the ids of flows, unique in a file; no id is 0."""
    return integers(((slices.process.process.index + 1) << FLOW_BITS) + number)


class _NamedFlows:
    """Ends of flows that the input has, as cells of rows: `number` counts the flows of a slice."""

    def __init__(self, slices: Slices) -> None:
        self._ends = slices.ends
        self.count: Ints = np.zeros(len(slices), np.int64)
        if self._ends is not None:
            self._first, self.count = self._ends.by_row(len(slices))
            self._names = Texts(["", *self._ends.names], _quote)

    def fields(self, rows: Ints, number: Ints, places: _Places) -> Fields:
        here = np.flatnonzero(self.count[rows] > number)
        if self._ends is None or not len(here):
            return []
        end = self._first[rows[here]] + number[here]
        fields: Fields = [
            PHASES[self._ends.direction[end]],
            *places.of(rows[here]),
            b',"name":',
            self._names.cells(self._ends.name[end].astype(np.int64) + 1),
            b',"cat":"flow","id":',
            integers(self._ends.id[end]),
            b"}",
        ]
        return [only(len(rows), here, fields)]


class _NoteCells:
    """A note, as the cells of any rows of its batch."""

    def __init__(self, note: Note, n: int) -> None:
        self._note, self.key = note, _quote(note.key) + b":"
        self._place = np.full(n, -1, np.int64)  # of each row, where its value is
        self._place[note.rows] = np.arange(len(note.rows))
        self._texts = Texts(note.texts, _quote) if note.value is Value.TEXT else None
        longest = max((len(text) for text in note.texts), default=0)
        self.width = len(self.key) + (2 * longest if self._texts else 24)

    def cells(self, rows: Ints) -> tuple[Ints, Cells | bytes]:
        """Return which of the rows have it, and their values."""
        place = self._place[rows]
        here = np.flatnonzero(place >= 0)
        values = self._note.values[place[here]]
        if self._texts is not None:
            return here, self._texts.cells(values)
        if self._note.value is Value.TRUE:
            return here, b"true"
        return here, fractions(values, _strange) if self._note.value is Value.FLOAT else integers(values)


def _strange(value: float) -> bytes:
    """Return what stands for a number that JSON does not have."""
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


# -- counters ----------------------------------------------------------------------------------------------------------


def points_text(points: CounterPoints, origin_ns: int) -> bytes:
    """Return the values of one counter."""
    track = points.process.tracks[points.track]
    begin = b',\n{"ph":"C","pid":%d,"name":%b,"ts":' % (points.process.process.pid, _quote(track.name))
    values = points.value
    cells = fractions(values, _strange) if values.dtype.kind == "f" else integers(values)
    unit = _quote(track.unit or "value")
    return join_fields(
        len(values), [begin, *decimals(points.time_ns - origin_ns), b',"args":{%b:' % unit, cells, b"}}"]
    )


# -- the format --------------------------------------------------------------------------------------------------------


MS = 1_000_000  # nanoseconds
EXACT_NS = 2**43 * 1000  # the first time that readers round
LARGE = 500_000_000  # bytes
OPEN = 2**63 - 1


@dataclass(frozen=True)
class ChromeEncoder:
    """Events as JSON; `origin_ns` is subtracted from all times."""

    origin_ns: int = 0

    def opening(self, processes: Sequence[ProcessTracks]) -> Iterator[Data]:
        yield header(self.origin_ns)
        names = b"".join(tracks_text(tracks, tracks.take_new_tracks()) for tracks in processes)
        yield names.removeprefix(SEPARATOR)

    def part(self) -> ChromePart:
        return ChromePart(self.origin_ns)

    def closing(self) -> Iterator[Data]:
        yield FOOTER


@dataclass(frozen=True)
class ChromePart:
    """Encodes one part."""

    origin_ns: int

    def slices(self, slices: Slices) -> Iterator[Data]:
        yield tracks_text(slices.process, slices.process.take_new_tracks())
        yield from slices_text(slices, self.origin_ns)

    def points(self, points: CounterPoints) -> Iterator[Data]:
        yield tracks_text(points.process, points.process.take_new_tracks())
        yield points_text(points, self.origin_ns)


class _Closed(FileOutput):
    """What stays of a file after an interruption is closed, since readers refuse JSON that breaks off."""

    def discard(self) -> None:
        if self._keep and self._file is not None:
            with suppress(OSError):  # of a full disk
                self._file.write(FOOTER)
        super().discard()


class ChromeWriter(TimelineWriter):
    """A file in the making. When it begins, the times of all events must be known: these are read once more."""

    def __init__(self, target: Path, options: WriteOptions) -> None:
        output = _Closed(target, options.overwrite, options.keep_partial, in_place=options.in_place)
        super().__init__(target, options, ChromeEncoder(), output)
        self._lasts_too_long = False

    @property
    def kind_of(self) -> Callable[[str], int]:
        return kind_of_event_category

    def _begin(self, tables: Experiment) -> None:
        bounds = time_bounds(tables.traces)
        if bounds is not None and bounds[1] >= EXACT_NS:
            self._encoder = ChromeEncoder(bounds[0] // MS * MS)
            self._lasts_too_long = bounds[1] - bounds[0] // MS * MS >= EXACT_NS
        super()._begin(tables)

    def close(self) -> LossReport:
        report = super().close()
        if self._lasts_too_long:
            report.add("exact times: readers round those that are more than 102 days after the first one")
        if self.target.is_file() and (size := self.target.stat().st_size) > LARGE:
            report.hint(
                compose_text(
                    f"{self.target}: has {size / 1e6:,.0f} MB, which readers take into memory; ",
                    Parameter("to_format", "perfetto"),
                    " is smaller",
                )
            )
        return report


def time_bounds(traces: Traces) -> Window | None:
    """Return the first and the last time of everything that can be written; None where there is nothing."""
    bounds: list[tuple[int, int]] = []

    def see(first: Ints, last: Ints) -> None:
        good = (first >= 0) & (last >= first) & (first < OPEN)
        if good.any():
            ends = last[good]
            bounds.append((int(first[good].min()), int(np.where(ends < OPEN, ends, first[good]).max())))

    for chunk in traces.spans(("start_ns", "end_ns")):
        see(chunk["start_ns"], np.where(chunk["end_ns"] == np.iinfo(np.int64).min, chunk["start_ns"], chunk["end_ns"]))
    for _, _, samples in traces.lines():
        see(samples.time_ns, samples.time_ns)
    if traces.counters is not None:
        see(traces.counters.time_ns, traces.counters.time_ns)
    return (min(first for first, _ in bounds), max(last for _, last in bounds)) if bounds else None


class ChromeJsonFormat:
    """Events as JSON: what PyTorch and others record, and what viewers show. Reading is in `chrome/`."""

    name = "chrome-json"
    title = "Chrome trace events (JSON) of PyTorch, viztracer and others"

    def match(self, source: Source) -> Match | None:
        from callgrove.formats.timeline.chrome.reading import match_source

        return match_source(source)

    def read(self, source: Source, options: ReadOptions) -> Experiment:
        from callgrove.formats.timeline.chrome.reading import read_source

        return read_source(source, options, self.name)

    def check(self, source: Source, options: ReadOptions) -> Iterator[Problem]:
        """Read everything, and yield the warnings of decoding and the problems of events."""
        from callgrove.formats.events.checks import find_problems

        return find_problems(self.read(source, options))

    def dump(self, source: Source) -> Iterator[Field]:
        from callgrove.formats.timeline.chrome.reading import dump_events

        return dump_events(source)

    def open_writer(self, target: Path, options: WriteOptions) -> ChromeWriter:
        return ChromeWriter(target, options)


FORMAT = ChromeJsonFormat()
