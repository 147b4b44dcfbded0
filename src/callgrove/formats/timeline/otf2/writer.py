"""OTF2 archives, which Vampir, Scalasca and the tools of Score-P open. Needs the extra `otf2`.

Specification: trace-outputs.md 5; the library is OTF2's own (3.0 or later).

    OUT/traces.otf2     the anchor
    OUT/traces.def      definitions        machine > node > process (PROCESS) > threads (CPU_THREAD)
    OUT/traces/*.evt    events                            > GPU (ACCELERATOR) > streams and lanes (ACCELERATOR_STREAM)
                                                          > counters (METRIC)

Slices are enter and leave events, with the attributes category, corr and bytes, which take most of the time:
`--annotations none` leaves them out. Times are nanoseconds, unchanged. Counters have locations of their own, as their
values are known at other times than the events beside them. Arrows from calls to operations cannot be expressed: `corr`
is equal at both ends.
"""

from __future__ import annotations

import hashlib
import struct
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count, pairwise
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from callgrove.arrays import Array, Bools, Ints
from callgrove.errors import CallgroveError, MissingExtra, Parameter, UsageError, compose_text
from callgrove.formats.interface import LossReport, WriteOptions
from callgrove.formats.registry import paradigm_of
from callgrove.formats.timeline.content import CounterPoints, Note, ProcessTracks, Slices, Track, TrackKind
from callgrove.formats.timeline.flows import name_flow_attribute
from callgrove.formats.timeline.otf2.archive import ABSOLUTE_TIMES, OF_PROCESS, OF_PROFILER, PLACE
from callgrove.formats.timeline.source import Annotations
from callgrove.formats.timeline.writer import TimelineWriter
from callgrove.formats.writing.outputs import Data, Output
from callgrove.formats.writing.targets import FolderKind, PendingFolder, refuse_stdout
from callgrove.model.experiment import Experiment
from callgrove.model.traces.events import FlowDirection, SpanKind

__all__ = ["FOLDER", "Events", "Locations", "OpenSlices", "Otf2Writer", "Regions"]


# -- definitions: where events happen, and what is entered -------------------------------------------------------------
# Specification: trace-outputs.md 5. The library knows definitions by all of their fields, so a region of one name in
# two roles is two regions. A metric event names a class of metrics, never a member of one.


Key = tuple[int, int]  # process, track


class Locations:
    """The locations of tracks, made when they are first used."""

    def __init__(self, trace: Any) -> None:
        import otf2

        self._trace, self._otf2 = trace, otf2
        self._machine = trace.definitions.system_tree_node("machine", class_name="machine")
        self._nodes: dict[str, Any] = {}
        self._processes: dict[int, Any] = {}
        self._taken: set[str] = set()  # names of processes: the library takes equal definitions for one
        self._groups: dict[Key, Any] = {}
        self._writers: dict[Key, Any] = {}
        self._metrics: dict[Key, Any] = {}

    def describe(self, tracks: ProcessTracks) -> Any:
        """Return the group of a process."""
        process = tracks.process
        if process.index not in self._processes:
            kinds = self._otf2.LocationGroupType
            name = process.name if process.name not in self._taken else f"{process.name} ({process.index})"
            self._taken.add(name)
            self._processes[process.index] = self._trace.definitions.location_group(
                name, location_group_type=kinds.PROCESS, system_tree_parent=self._node(process.host)
            )
        return self._processes[process.index]

    def _node(self, host: str) -> Any:
        if host not in self._nodes:
            name = host or "node"
            self._nodes[host] = self._trace.definitions.system_tree_node(name, class_name="node", parent=self._machine)
        return self._nodes[host]

    def writer(self, tracks: ProcessTracks, track: int) -> Any:
        """Return the writer of a track's events."""
        key = (tracks.process.index, track)
        if key not in self._writers:
            location = self._location(tracks, tracks.tracks[track])
            self._writers[key] = self._trace.event_writer_from_location(location)
        return self._writers[key]

    def _location(self, tracks: ProcessTracks, track: Track) -> Any:
        kinds = self._otf2.LocationType
        group, kind = self.describe(tracks), kinds.CPU_THREAD
        if track.kind is TrackKind.COUNTER:
            kind = kinds.METRIC
        else:
            for above in _path(tracks, track):
                if above.kind is TrackKind.GROUP:
                    group, kind = self._device(tracks, above), kinds.ACCELERATOR_STREAM
        name = f"{track.name} #{track.lane}" if track.lane else track.name
        location = self._trace.definitions.location(name, type=kind, group=group)
        if track.kind is TrackKind.OTHER:
            value = OF_PROFILER if track.is_profiler else OF_PROCESS
            self._trace.definitions.location_property(location, PLACE, value=value)
        return location

    def _device(self, tracks: ProcessTracks, track: Track) -> Any:
        key = (tracks.process.index, track.number)
        if key not in self._groups:
            owner = self.describe(tracks)
            self._groups[key] = self._trace.definitions.location_group(
                track.name,
                location_group_type=self._otf2.LocationGroupType.ACCELERATOR,
                system_tree_parent=self._node(tracks.process.host),
                creating_location_group=owner,
            )
        return self._groups[key]

    def metric(self, tracks: ProcessTracks, track: int, is_float: bool) -> tuple[Any, Any]:
        """Return the writer of a counter, and the class of metrics that its events name."""
        key = (tracks.process.index, track)
        if key not in self._metrics:
            otf2, counter = self._otf2, tracks.tracks[track]
            member = self._trace.definitions.metric_member(
                counter.name,
                description="",
                metric_type=otf2.MetricType.OTHER,
                metric_mode=otf2.MetricMode.ABSOLUTE_POINT,
                value_type=otf2.Type.DOUBLE if is_float else otf2.Type.INT64,
                unit=counter.unit,
            )
            self._metrics[key] = self._trace.definitions.metric_class(
                (member,),
                occurrence=otf2.MetricOccurrence.ASYNCHRONOUS,
                recorder_kind=otf2.RecorderKind.UNKNOWN,
            )
        return self.writer(tracks, track), self._metrics[key]


def _path(tracks: ProcessTracks, track: Track) -> list[Track]:
    """Return the tracks that a track lies below of; the process is none of them."""
    out = []
    while track.parent > 0:
        track = tracks.tracks[track.parent]
        out.append(track)
    return out


class Regions:
    """What is entered: names with a role and a paradigm, by number."""

    def __init__(self, definitions: Any, paradigm: str) -> None:
        import otf2

        self._definitions, self._otf2, self._paradigm = definitions, otf2, paradigm
        self.all: list[Any] = []
        self._known: dict[tuple[str, str, str], int] = {}

    def of(self, slices: Slices) -> Ints:
        """Return the number of every slice's region."""
        kind = np.full(len(slices), -1) if slices.kind is None else slices.kind.astype(np.int64)
        n_names, n_categories = len(slices.name.all), len(slices.category.all)
        packed = ((kind + 1) * n_categories + slices.category.index) * n_names + slices.name.index
        different, number = np.unique(packed, return_inverse=True)
        regions = []
        for key in different.tolist():
            rest, name = divmod(key, n_names)
            above, category = divmod(rest, n_categories)
            regions.append(self._region(slices.name.all[name], above - 1, slices.category.all[category]))
        out: Ints = np.array(regions, np.int64)[number.reshape(-1)]
        return out

    def _region(self, name: str, kind: int, category: str) -> int:
        key = (name, *self._role(name, kind, category))
        if key not in self._known:
            otf2, (_, role, paradigm) = self._otf2, key
            self._known[key] = len(self.all)
            self.all.append(
                self._definitions.region(
                    name,
                    canonical_name=name,
                    region_role=getattr(otf2.RegionRole, role),
                    paradigm=getattr(otf2.Paradigm, paradigm),
                )
            )
        return self._known[key]

    def _role(self, name: str, kind: int, category: str) -> tuple[str, str]:
        """Return the role and paradigm, in the words of the library."""
        if kind < 0:  # a function that samples show
            return ("LOOP" if category == "loop" else "FUNCTION"), "SAMPLING"
        if kind == SpanKind.MARKER:
            return "CODE", "USER"
        if kind in (SpanKind.REGION, SpanKind.OVERHEAD):
            return "FUNCTION", "UNKNOWN"
        if kind == SpanKind.ALLOC:
            return _memory_role(name), self._paradigm
        if kind == SpanKind.API and category.startswith(("OMPT", "MPI")):
            return "FUNCTION", "OPENMP" if category.startswith("OMPT") else "MPI"
        roles = {SpanKind.KERNEL: "KERNEL", SpanKind.COPY: "DATA_TRANSFER", SpanKind.MEMSET: "KERNEL"}
        return roles.get(SpanKind(kind), "FUNCTION"), self._paradigm


def _memory_role(name: str) -> str:
    upper = name.upper()
    if "REALLOC" in upper:
        return "REALLOCATE"
    return "DEALLOCATE" if "FREE" in upper or "RECLAIM" in upper else "ALLOCATE"


# -- the format --------------------------------------------------------------------------------------------------------


# -- enter and leave events --------------------------------------------------------------------------------------------
# Specification: trace-outputs.md 5. On every location time must not go back, and what is entered last is left first. At
# one time come first the ends of what lasted, the innermost first; then begins, the outermost first; what lasts no time
# is left right after it was entered:
#
#     slices      A |---------|B|     Z (no time, at the end of A)
#     events      enter A ... leave A, enter B, enter Z, leave Z, ... leave B
#
# Slices come chunk after chunk. What ends later than the last one of its track begins stays open until more is known;
# there is one such list for each track, as long as the track nests deep.


NONE = np.empty(0, np.int64)


@dataclass(frozen=True)
class Events:
    """Events of one track in order. `slice` numbers those of the chunk; below 0 is what was open before, of which only
    `region` says what it is."""

    time: Ints
    enters: Bools
    slice: Ints
    region: Ints


@dataclass
class OpenSlices:
    """What is open on the tracks of a process: ends and regions, the outermost first."""

    _end: dict[int, Ints] = field(default_factory=dict)
    _region: dict[int, Ints] = field(default_factory=dict)

    def events(self, track: int, rows: Ints, start: Ints, end: Ints, region: Ints) -> Events:
        """Return events of slices of one track in the order (start, -end, number); `rows` are their numbers in the
        chunk."""
        before = self._end.get(track, NONE)
        n_before = len(before)
        ends, regions = np.append(before, end), np.append(self._region.get(track, NONE), region)
        slices = np.append(np.arange(-n_before, 0), rows)
        number = np.arange(len(ends))
        begins = number[n_before:]
        lasts = np.append(np.ones(n_before, np.bool_), end > start)
        closes = ends <= start[-1]  # what begins later begins no sooner than this
        closed, at_once = number[lasts & closes], number[~lasts]
        time = np.concatenate([ends[closed], start, ends[at_once]])
        kind = np.concatenate([np.zeros(len(closed), np.int8), np.ones(len(begins) + len(at_once), np.int8)])
        place = np.concatenate([-closed, 2 * begins, 2 * at_once + 1])
        order = np.lexsort((place, kind, time))
        which = np.concatenate([closed, begins, at_once])[order]
        enters = np.zeros(len(time), np.bool_)
        enters[len(closed) : len(closed) + len(begins)] = True
        left = lasts & ~closes
        self._end[track], self._region[track] = ends[left], regions[left]
        return Events(time[order], enters[order], slices[which], regions[which])

    def rest(self) -> Iterator[tuple[int, Events]]:
        """Yield the ends of all that is still open."""
        for track, end in self._end.items():
            if len(end):
                order: Array = np.arange(len(end))[::-1]
                absent = np.full(len(end), -1)
                yield track, Events(end[order], np.zeros(len(end), np.bool_), absent, self._region[track][order])
        self._end, self._region = {}, {}


# -- archives ----------------------------------------------------------------------------------------------------------


ARCHIVE = "traces"
NS = 1_000_000_000
MANY = 20_000_000  # events
CHUNK_BYTES = (
    1 << 18
)  # of events, and of definitions: the least that the library takes; it keeps both for each location
LARGEST_CHUNK = 1 << 24  # of definitions; a text has to fit into one
CHUNK_NUMBERS = 2  # where a chunk says which events it has
END = b"\x02\x01"  # of files
ATTRIBUTES = ("corr", "bytes")
KIND = "kind"  # a further attribute, where the category does not tell it
ID_BYTES = 8


class Archive(Output):
    """An archive in the making: a folder that the library writes into, renamed when it is complete."""

    def __init__(self, target: Path, overwrite: bool) -> None:
        try:
            import _otf2
            import otf2
        except ImportError as error:
            raise MissingExtra("otf2", f"{target}: writing OTF2") from error
        self.library: Any = otf2
        self._calls: Any = _otf2
        self._errors: tuple[type[Exception], ...] = (otf2.error.Error, _otf2.Error)
        refuse_stdout(target, "otf2")
        _refuse_other_names(target)
        super().__init__(target)
        self._folder = PendingFolder(target, overwrite, FOLDER)
        self.trace: Any = None
        self.n_events = 0
        self.list_names: Callable[[], Iterable[str]] = tuple  # of processes, hosts and tracks, which may be long

    @contextmanager
    def or_nothing(self, before: Callable[[], None] = lambda: None) -> Iterator[None]:
        with super().or_nothing(before):
            try:
                yield
            except self._errors as error:
                raise CallgroveError(f"{self.target}: cannot be written: {error}; nothing was changed") from error

    def open(self) -> None:
        longest = max(map(len, self.list_names()), default=0)  # characters, of which each takes up to 4 bytes
        of_definitions = min(max(CHUNK_BYTES, 1 << (8 * longest).bit_length()), LARGEST_CHUNK)
        chunks = {"chunk_size_events": CHUNK_BYTES, "chunk_size_definitions": of_definitions}
        options = {"timer_resolution": NS, **chunks}
        self.trace = _quiet_writer(self.library, self._errors)(str(self._folder.place), ARCHIVE, **options)
        self._calls.Archive_SetProperty(self.trace._handle, ABSOLUTE_TIMES, "true", True)

    def write(self, data: Data) -> None:
        """Do nothing: encoders of archives give no bytes."""

    @property
    def n_written(self) -> int:
        return self.n_events

    def flush(self) -> None:
        """Do nothing: the library writes when its buffers are full."""

    def complete(self) -> None:
        self.trace._realtime_timestamp = 0.0  # the time of writing: the same input should give the same bytes
        self.trace.close()
        self.trace = None
        if incomplete := _find_incomplete_file(self._folder.place, self.n_events):
            raise OSError(0, f"{incomplete} is incomplete; is the disk full?")
        self._settle_id(self._folder.place / f"{ARCHIVE}.otf2", self._folder.place / f"{ARCHIVE}.def")
        self._folder.complete()

    def _settle_id(self, anchor: Path, definitions: Path) -> None:
        """Set the archive's id. The library draws it at random, but the same input should give the same bytes: it is
        made of the definitions, which also count the events."""
        reader = self._calls.Reader_Open(str(anchor))
        drawn: int = self._calls.Reader_GetTraceId(reader)
        self._calls.Reader_Close(reader)
        content, old = anchor.read_bytes(), drawn.to_bytes(ID_BYTES, sys.byteorder)
        if content.count(old) == 1:
            with definitions.open("rb") as file:
                made = hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=ID_BYTES)).digest()
            anchor.write_bytes(content.replace(old, made))

    def _give_up(self) -> None:
        """Close what may be half written; the library would try that again when it is collected, and complain."""
        if self.trace is not None:
            trace, self.trace = self.trace, None
            with suppress(*self._errors):
                trace.close()
            trace._handle = None

    def discard(self) -> None:
        self._give_up()
        self._folder.discard()


def _quiet_writer(library: Any, errors: tuple[type[Exception], ...]) -> Any:
    """Return the library's writer without its complaints: one that could not be made is closed when it is collected,
    fails again, and Python would print that."""

    class QuietWriter(library.writer.Writer):  # type: ignore[misc]
        def __del__(self) -> None:
            with suppress(*errors, AttributeError):  # of one that has no handle yet
                self.close()

    return QuietWriter


def _find_incomplete_file(folder: Path, n_events: int) -> str:
    """Return the name of a file of the archive that breaks off, or where there are too few events: the library writes
    the rest of its buffers when it is closed, and says that this failed only on stderr.

    Files are chunks of one size, each with the numbers of its first and last event at its beginning; the last one is as
    long as it needs to be, and ends with two bytes.
    """
    n_stored = 0
    for path in sorted(folder.rglob("*.*")):
        if path.suffix in (".evt", ".def"):
            with path.open("rb") as file:
                size = file.seek(0, 2)
                file.seek(max(0, size - len(END)))
                if file.read() != END:
                    return path.name
                if path.suffix == ".evt":
                    file.seek((size - 1) // CHUNK_BYTES * CHUNK_BYTES + CHUNK_NUMBERS)
                    n_stored += struct.unpack("<QQ", file.read(16))[1]
    return "" if n_stored == n_events else "what was written of the events"


def _is_archive(folder: Path) -> bool:
    return (folder / f"{ARCHIVE}.otf2").is_file()


FOLDER = FolderKind("an OTF2 archive", _is_archive)


class Otf2Encoder:
    """Gives everything to the library."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive
        self.has_flows = False
        self.paradigm = "HIP"
        self.annotations = Annotations.DEFAULT

    def opening(self, processes: Sequence[ProcessTracks]) -> Iterator[Data]:
        definitions = self._archive.trace.definitions
        self._locations = Locations(self._archive.trace)
        self._regions = Regions(definitions, self.paradigm)
        otf2 = self._archive.library
        kinds = {**dict.fromkeys(("category", KIND), otf2.Type.STRING), **dict.fromkeys(ATTRIBUTES, otf2.Type.UINT64)}
        self._attributes = {name: definitions.attribute(name, type=kind) for name, kind in kinds.items()}
        self._open: dict[int, OpenSlices] = {}
        self._processes: dict[int, ProcessTracks] = {}
        for tracks in processes:
            self._locations.describe(tracks)
        yield from ()

    def part(self) -> Otf2Encoder:
        return self

    def slices(self, slices: Slices) -> Iterator[Data]:
        tracks = self._processes.setdefault(slices.process.process.index, slices.process)
        opened = self._open.setdefault(tracks.process.index, OpenSlices())
        self.has_flows = self.has_flows or bool((slices.flow >= 0).any())
        regions = self._regions.of(slices)
        attributes = self._attributes_of(slices)
        order = np.argsort(slices.track, kind="stable")
        edges = [0, *(np.flatnonzero(np.diff(slices.track[order])) + 1).tolist(), len(order)]
        for first, last in pairwise(edges):
            rows = order[first:last]
            track = int(slices.track[rows[0]])
            events = opened.events(track, rows, slices.start_ns[rows], slices.end_ns[rows], regions[rows])
            self._write(tracks, track, events, attributes)
        yield from ()

    def _attributes_of(self, slices: Slices) -> Sequence[dict[Any, Any] | None]:
        """Return of every slice the attributes that it has. They take more time than everything else."""
        if self.annotations is Annotations.NONE:
            return self._with_flows(slices, [None] * len(slices))
        category = self._attributes["category"]
        words = [{category: text} for text in slices.category.all]
        out = [dict(words[k]) for k in slices.category.index.tolist()]
        for note in slices.notes:
            if note.key in (*ATTRIBUTES, KIND):
                self._note(note, out)
        return self._with_flows(slices, [*out])

    def _with_flows(self, slices: Slices, out: list[dict[Any, Any] | None]) -> list[dict[Any, Any] | None]:
        """Add ends of flows: their ids are equal, and their attributes are named after direction and name of the flow.
        Of several that are called alike, the further ones are counted."""
        if slices.ends is None:
            return out
        ends = slices.ends
        columns = (ends.row, ends.id, ends.direction, ends.name)
        for row, number, direction, name in zip(*(column.tolist() for column in columns), strict=True):
            attributes = out[row] = out[row] or {}
            word = ends.names[name] if name >= 0 else ""
            attribute = next(
                one for k in count(1) if (one := self._flow_attribute(direction, k, word)) not in attributes
            )
            attributes[attribute] = number
        return out

    def _flow_attribute(self, direction: int, place: int, name: str) -> Any:
        title = name_flow_attribute(FlowDirection(direction), place, name)
        if title not in self._attributes:
            uint64 = self._archive.library.Type.UINT64
            self._attributes[title] = self._archive.trace.definitions.attribute(title, type=uint64)
        return self._attributes[title]

    def _note(self, note: Note, out: list[dict[Any, Any]]) -> None:
        attribute = self._attributes[note.key]
        for row, value in zip(note.rows.tolist(), note.values.tolist(), strict=True):
            out[row][attribute] = note.texts[value] if note.key == KIND else value

    def _write(
        self, tracks: ProcessTracks, track: int, events: Events, attributes: Sequence[dict[Any, Any] | None]
    ) -> None:
        writer = self._locations.writer(tracks, track)
        enter, leave, regions = writer.enter, writer.leave, self._regions.all
        columns = (events.time, events.enters, events.slice, events.region)
        for time, enters, number, region in zip(*(column.tolist() for column in columns), strict=True):
            if enters:
                enter(time, regions[region], attributes=attributes[number])
            else:
                leave(time, regions[region])
        self._archive.n_events += len(events.time)

    def points(self, points: CounterPoints) -> Iterator[Data]:
        writer, metric = self._locations.metric(points.process, points.track, _is_float(points.value))
        for time, value in zip(points.time_ns.tolist(), points.value.tolist(), strict=True):
            writer.metric(time, metric, [value])
        self._archive.n_events += len(points.value)
        yield from ()

    def closing(self) -> Iterator[Data]:
        for index, opened in self._open.items():
            for track, events in opened.rest():
                self._write(self._processes[index], track, events, [])
        yield from ()


def _is_float(values: Array) -> bool:
    return values.dtype.kind == "f"


def _refuse_other_names(target: Path) -> None:
    """Refuse names that are not UTF-8: the library takes names as text."""
    try:
        str(target).encode()
    except UnicodeEncodeError:
        raise UsageError(f"{target}: names of OTF2 archives must be UTF-8; choose another name") from None


class Otf2Writer(TimelineWriter):
    """An archive in the making. Events have a category, a correlation and bytes; nothing else fits."""

    left_out = ("kernel", "copy", "alloc", "counter", "argument", "stack", "message", "extra")
    kept: ClassVar[Mapping[str, Collection[str]]] = {"copy": ("bytes",), "alloc": ("bytes",)}

    def __init__(self, target: Path, options: WriteOptions) -> None:
        self._archive = Archive(target, options.overwrite)
        self._archive_encoder = Otf2Encoder(self._archive)
        self._archive_encoder.annotations = Annotations(options.annotations)
        super().__init__(target, options, self._archive_encoder, self._archive)
        self._archive.list_names = self._list_names

    def _list_names(self) -> Iterator[str]:
        for tracks in self._places.processes.values():
            yield from (tracks.process.name, tracks.process.host, *(track.name for track in tracks.tracks))

    def _begin(self, tables: Experiment) -> None:
        self._archive_encoder.paradigm = paradigm_of(tables.format, tables.version) or "HIP"
        super()._begin(tables)

    def _say_arguments(self) -> None:
        """Say nothing: arguments are among what is left out in any case."""

    def close(self) -> LossReport:
        report = super().close()
        if self._archive_encoder.has_flows:
            report.hint("arrows from calls to operations: in OTF2 the attribute corr is equal at both ends")
        if self._archive.n_events > MANY:
            report.hint(
                compose_text(
                    f"{self.target}: {self._archive.n_events:,} events; writing and reading them as OTF2 takes long, ",
                    Parameter("to_format", "perfetto"),
                    " does not",
                )
            )
        return report
