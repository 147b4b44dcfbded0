"""An OTF2 archive as a data set: locations become lanes, regions spans, messages flows.

Specification: more-inputs.md 4. Locations are independent of each other and are read by workers, some at a time; what
joins them is done here: sends and receives are matched in the order in which they were posted, for each communicator,
sender, receiver and tag, as MPI does it. Times are nanoseconds since the global offset of the clock; archives that
callgrove wrote say that theirs are absolute.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import numpy as np

from callgrove.arrays import ABSENT, Array, Ids, Ints, Names, bundles, distinct_rows
from callgrove.formats.events.arguments import ARGUMENT_TYPES, ValueType, render_values
from callgrove.formats.events.columns import ColumnData, Columns, ColumnStore, RegionFacts
from callgrove.formats.events.dataset import OF_NO_STREAM, Lane, Process, Stacks
from callgrove.formats.events.kinds import kinds_of_categories
from callgrove.formats.interface import ReadOptions
from callgrove.formats.timeline.flows import read_flow_attribute
from callgrove.formats.timeline.otf2.archive import (
    ABSOLUTE_TIMES,
    COLLECTIVES,
    NONE,
    OF_PROFILER,
    Communicator,
    Definitions,
    Location,
    RegionDefinition,
    read_definitions,
)
from callgrove.formats.timeline.otf2.decoder import CONTEXTS, Frame
from callgrove.formats.timeline.otf2.events import LocationEvents, Task, read_locations
from callgrove.model.experiment import Severity
from callgrove.model.profiles import ProfileKind
from callgrove.model.traces.events import MESSAGE, Device, FlowDirection, MessageDirection, SideTable, SpanKind

__all__ = ["read_archive"]

NS = 1_000_000_000
EVENTS_AT_ONCE = 1 << 20  # of locations that one worker reads
THREAD, STREAM, METRIC = 1, 2, 3  # types of locations
SENT, RECEIVED, POSTED = 0, 1, 2  # kinds of messages
OUTSIDE = "MPI message"  # what is called a message that was recorded outside of every region
GPU_PARADIGMS = ("CUDA", "HIP", "OPENCL", "OPENACC", "OPENMP_TARGET", "KOKKOS", "HARDWARE")
KIND_OF_ROLE = {
    "KERNEL": SpanKind.KERNEL,
    "DATA_TRANSFER": SpanKind.COPY,
    "ALLOCATE": SpanKind.ALLOC,
    "DEALLOCATE": SpanKind.ALLOC,
    "REALLOCATE": SpanKind.ALLOC,
}
KIND_OF_WORD = {kind.word: kind for kind in SpanKind}
BITS = {1: 8, 2: 16, 3: 32, 5: 8, 6: 16, 7: 32, 9: 32}  # of values, by OTF2's type; others have 64
SIGNED, FLOAT, DOUBLE, STRING = (5, 6, 7, 8), 9, 10, 11
REFERENCES = range(12, 26)  # types of values that are definitions
ARGUMENT: Mapping[str, type[np.generic]] = {"span": np.int64, "key": np.int32, "type": np.int8, "bits": np.uint64}
SAMPLE: Mapping[str, type[np.generic]] = {"lane": np.int32, "time_ns": np.int64, "context": np.int64}


class ArchiveData(ColumnData):
    """The data set of an archive, with its samples of call stacks."""

    def __init__(self, path: Path, version: str, store: ColumnStore) -> None:
        super().__init__(path, version, store)
        self.samples = Columns(store, SAMPLE)
        self.frames: list[tuple[int, int, int, int]] = []  # by calling context: parent, function, file, line
        self.frame_of: dict[int, int] = {}

    def stacks(self) -> Stacks | None:
        if not len(self.samples):
            return None
        rows = self.samples.whole(list(SAMPLE))
        paths = {context: self._path(context) for context in np.unique(rows["context"]).tolist()}
        stacks = [paths[context] for context in rows["context"].tolist()]
        frames = np.array([frame for stack in stacks for frame in stack], np.int64).reshape(-1, 3)
        bounds = np.cumsum([0, *map(len, stacks)])
        function, file, line = frames.T
        return Stacks(rows["lane"], rows["time_ns"], bounds, function.astype(np.int32), file.astype(np.int32), line)

    def _path(self, context: int) -> list[tuple[int, int, int]]:
        """Return the frames that lead to a calling context, the outermost first."""
        out: list[tuple[int, int, int]] = []
        seen: set[int] = set()
        number = self.frame_of.get(context, ABSENT)
        while number >= 0 and number not in seen:
            seen.add(number)
            parent, *frame = self.frames[number]
            out.append((frame[0], frame[1], frame[2]))
            number = self.frame_of.get(parent, ABSENT)
        return out[::-1]


def read_archive(anchor: Path, options: ReadOptions, store: ColumnStore) -> ArchiveData:
    """Return the events of an archive as a data set."""
    return _Reading(anchor, store).read(options)


class _Reading:
    """A data set in the making."""

    def __init__(self, anchor: Path, store: ColumnStore) -> None:
        self._definitions = read_definitions(anchor)
        self._data = ArchiveData(anchor, self._definitions.about["version"], store)
        self._arguments = Columns(store, ARGUMENT)
        self._messages: list[_Messages] = []
        self._counts: Counter[str] = Counter()
        self._lanes = _Lanes(self._definitions, self._data)
        self._regions = _Regions(self._definitions, self._data)
        self._losses: Counter[str] = Counter()
        self._ranks = {
            location.id: self._definitions.groups[location.group].rank
            for location in self._definitions.locations
            if location.group in self._definitions.groups
        }

    def read(self, options: ReadOptions) -> ArchiveData:
        definitions, data = self._definitions, self._data
        for problem in definitions.problems:
            data.warn(Severity.DAMAGE, problem)
        counts = [location.n_events for location in definitions.locations]
        tasks = [
            Task(
                data.path,
                [(location.id, location.n_events) for location in definitions.locations[first:last]],
                definitions.about["chunk_size"],
            )
            for first, last in bundles(counts, EVENTS_AT_ONCE)
        ]
        read = options.workers.map(read_locations, tasks, label="reading locations", progress=options.progress)
        for location in (location for some in read for location in some):
            self._append(location)
        self._append_flows()
        if len(self._arguments):
            data.add_lazy_side("argument", partial(_arguments, self._arguments, data.names.all))
        if definitions.about["properties"].get(ABSOLUTE_TIMES) == "true":
            data.base_ns = definitions.offset
        self._warn()
        return data

    def _nanoseconds(self, ticks: Array) -> Ints:
        """Return times since the global offset in nanoseconds, in integers throughout."""
        resolution = self._definitions.resolution
        since: Ints = ticks.astype(np.uint64).view(np.int64) - np.int64(self._definitions.offset & (2**63 - 1))
        if resolution == NS:
            return since
        if resolution > 2**33:
            return np.array([int(tick) * NS // resolution for tick in since.tolist()], np.int64)
        seconds, rest = np.divmod(since, resolution)
        out: Ints = seconds * NS + rest * NS // resolution
        return out

    # -- one location

    def _append(self, events: LocationEvents) -> None:
        """Append the events of a location."""
        data, lane = self._data, self._lanes.lane[events.location]
        if events.problem:
            name = data.lanes[lane].name or f"location {events.location}"
            data.warn(Severity.DAMAGE, f"location {events.location} ({name}): {events.problem}")
        self._counts.update(events.counts)
        self._losses.update({"open": events.n_open, "stray": events.n_stray, "crossed": events.n_crossed})
        if events.program:
            self._lanes.set_command(lane, " ".join(self._definitions.text(word) for word in events.program))
        columns = self._regions.columns(events.reference, data.lanes[lane].kind)
        attributes = _Attributes(events, self._definitions, data.names)
        attributes.apply(columns)
        n = len(events.start)
        first = data.append(
            **columns,
            start_ns=self._nanoseconds(events.start),
            end_ns=self._nanoseconds(events.end),
            lane=np.full(n, lane, np.int32),
        )
        self._append_sizes(first, columns["kind"], attributes.sizes)
        for spans, flow, direction, title in attributes.flows():
            data.append_flows(first + spans, flow, np.full(len(spans), direction), np.full(len(spans), title, np.int32))
        for span, key, type_, bits in attributes.others():
            self._arguments.append(len(span), {"span": span + first, "key": key, "type": type_, "bits": bits})
        self._append_counters(events, lane)
        self._append_samples(events, lane)
        self._append_messages(events, lane, first)
        self._append_collectives(events, lane, first)

    def _append_sizes(self, first: int, kind: Array, sizes: Array | None) -> None:
        if sizes is None:
            return
        copies = np.flatnonzero((sizes >= 0) & np.isin(kind, (SpanKind.COPY, SpanKind.MEMSET)))
        absent = np.full(len(copies), ABSENT, np.int64)
        self._data.append_side("copy", first + copies, bytes=sizes[copies], source=absent, destination=absent)

    def _append_counters(self, events: LocationEvents, lane: int) -> None:
        table = events.tables.get(Frame.METRICS)
        if table is None:
            return
        names, metrics = self._data.names, self._definitions.metrics
        pairs, number = distinct_rows(table[:, 1].astype(np.int64), table[:, 2].astype(np.int64))
        titles = [metrics.get(metric, ()) for metric in pairs[0].tolist()]
        texts = [
            title[member][0] if member < len(title) else f"metric {metric}"
            for title, metric, member in zip(titles, *pairs.tolist(), strict=True)
        ]
        values = _as_floats(table[:, 3].astype(np.int64), table[:, 4])
        lanes = np.full(len(table), lane, np.int32)
        self._data.append_counters(lanes, names.numbers(texts)[number], self._nanoseconds(table[:, 0]), values)

    def _append_samples(self, events: LocationEvents, lane: int) -> None:
        table = events.tables.get(Frame.SAMPLES)
        if table is None:
            return
        self._regions.add_frames(self._data)
        columns: dict[str, Array] = {
            "lane": np.full(len(table), lane, np.int32),
            "time_ns": self._nanoseconds(table[:, 0]),
            "context": table[:, 1].astype(np.int64),
        }
        self._data.samples.append(len(table), columns)

    # -- messages

    def _owner(self, span: Ints, time: Array, lane: int, first: int) -> Ints:
        """Return the spans that rows belong to; what was recorded outside of all gets one that takes no time."""
        outside = np.flatnonzero(span < 0)
        out = span + first
        if len(outside):
            at = self._nanoseconds(time[outside])
            names = self._data.names
            out[outside] = np.arange(len(outside)) + self._data.append(
                kind=np.full(len(outside), SpanKind.REGION, np.int32),
                category=np.full(len(outside), names("MPI"), np.int32),
                name=np.full(len(outside), names(OUTSIDE), np.int32),
                start_ns=at,
                end_ns=at,
                lane=np.full(len(outside), lane, np.int32),
            )
        return out

    def _append_messages(self, events: LocationEvents, lane: int, first: int) -> None:
        table = events.tables.get(Frame.MESSAGES)
        if table is None:
            return
        rank = self._ranks.get(events.location, ABSENT)
        posted = {int(row[7]): int(row[2]) for row in table[table[:, 1] == POSTED]}
        keep = np.flatnonzero(table[:, 1] != POSTED)
        rows = table[keep]
        span = self._owner(events.span[Frame.MESSAGES][keep], rows[:, 2], lane, first)
        comm = rows[:, 4].astype(np.int64)
        peer = self._world_ranks(comm, rows[:, 3].astype(np.int64), rank)
        order = np.array([posted.get(int(row[7]), int(row[2])) if row[1] else int(row[2]) for row in rows], np.int64)
        tag, size = rows[:, 5].astype(np.int64), np.minimum(rows[:, 6], np.uint64(2**63 - 1)).astype(np.int64)
        sent = rows[:, 1] == SENT
        self._messages.append(_Messages(sent, comm, np.full(len(rows), rank), peer, tag, order, span))
        direction = np.where(sent, MessageDirection.SENT, MessageDirection.RECEIVED)
        self._append_message_rows(span, direction, peer, comm, tag, size, np.full(len(rows), ABSENT, np.int32))

    def _append_message_rows(
        self, span: Ints, direction: Array, peer: Ints, comm: Ints, tag: Ints, size: Ints, operation: Ids
    ) -> None:
        known = self._definitions.communicators
        different, number = np.unique(comm, return_inverse=True)
        texts = [known[one].name if one in known else f"communicator {one}" for one in different.tolist()]
        self._data.append_side(
            MESSAGE,
            span,
            ("communicator", "operation"),
            direction=direction.astype(np.int8),
            peer=peer,
            communicator=self._data.names.numbers(texts)[number.reshape(-1)],
            tag=tag,
            bytes=size,
            operation=operation,
        )

    def _world_ranks(self, comm: Ints, peer: Ints, rank: int) -> Ints:
        """Return ranks in MPI_COMM_WORLD of ranks in communicators; -1 where these do not say."""
        out = np.full(len(peer), ABSENT, np.int64)
        for one in np.unique(comm).tolist():
            rows = np.flatnonzero(comm == one)
            members = _partners(self._definitions.communicators.get(one), rank)
            known = rows[(peer[rows] >= 0) & (peer[rows] < len(members))]
            out[known] = np.array(members, np.int64)[peer[known]] if len(known) else out[known]
        return out

    def _append_collectives(self, events: LocationEvents, lane: int, first: int) -> None:
        table = events.tables.get(Frame.COLLECTIVES)
        if table is None:
            return
        rank = self._ranks.get(events.location, ABSENT)
        span = self._owner(events.span[Frame.COLLECTIVES], table[:, 1], lane, first)
        comm, root = table[:, 3].astype(np.int64), table[:, 4].astype(np.int64)
        words = [COLLECTIVES[k] if k < len(COLLECTIVES) else f"operation {k}" for k in table[:, 2].tolist()]
        size = np.minimum(table[:, 5], np.uint64(2**63 - 1)).astype(np.int64)
        peer = self._world_ranks(comm, np.where(root >= NONE - 1, ABSENT, root), rank)
        direction = np.full(len(table), MessageDirection.COLLECTIVE)
        tag = np.full(len(table), ABSENT, np.int64)
        self._append_message_rows(span, direction, peer, comm, tag, size, self._data.names.numbers(words))

    def _append_flows(self) -> None:
        """Join sends and receives."""
        if not self._messages:
            return
        every = _Messages.join(self._messages)
        sends, receives = every.match()
        flow = np.arange(len(sends))
        both = np.append(every.span[sends], every.span[receives])
        direction = np.repeat([FlowDirection.OUT, FlowDirection.IN], len(sends))
        self._data.append_flows(
            both, np.append(flow, flow), direction, np.full(len(both), self._data.names("message"), np.int32)
        )
        self._losses["unmatched"] = len(every.span) - len(both)

    # -- what is said of it

    def _warn(self) -> None:
        data, losses = self._data, self._losses
        for word, text, more in (
            ("open", "regions that are never left", "they last until the last event of their location"),
            ("stray", "leave events of what was never entered", "left out"),
            (
                "crossed",
                "leave events of another region than the one that was entered last",
                "they leave that one",
            ),
            ("unmatched", "messages of which only one end is recorded", "no flow joins them"),
        ):
            if losses[word]:
                data.warn(Severity.NOTE, f"{text}: {losses[word]:,} ({more})")
        if self._counts:
            others = ", ".join(f"{n:,} {name}" for name, n in sorted(self._counts.items()))
            data.warn(Severity.NOTE, f"events that are only counted: {others}")


@dataclass
class _Messages:
    """Ends of messages."""

    sent: Array
    comm: Ints
    rank: Ints
    peer: Ints
    tag: Ints
    order: Ints
    span: Ints

    @classmethod
    def join(cls, parts: Sequence[_Messages]) -> _Messages:
        names = ("sent", "comm", "rank", "peer", "tag", "order", "span")
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))

    def match(self) -> tuple[Ints, Ints]:
        """Return the rows of sends and of the receives that belong to them: the k-th of one communicator, sender,
        receiver and tag is received by the k-th receive."""
        sender, receiver = np.where(self.sent, self.rank, self.peer), np.where(self.sent, self.peer, self.rank)
        _, key = distinct_rows(self.comm, sender, receiver, self.tag)
        usable = (sender >= 0) & (receiver >= 0)
        sends, receives = (self._in_order(key, np.flatnonzero(usable & is_end)) for is_end in (self.sent, ~self.sent))
        place_of_send, place_of_receive = _places(key[sends]), _places(key[receives])
        width = max(len(sends), len(receives), 1)
        wanted, there = key[sends] * width + place_of_send, key[receives] * width + place_of_receive
        _, left, right = np.intersect1d(wanted, there, assume_unique=True, return_indices=True)
        return sends[left], receives[right]

    def _in_order(self, key: Ints, rows: Ints) -> Ints:
        return rows[np.lexsort((rows, self.order[rows], key[rows]))]


def _places(key: Ints) -> Ints:
    """Return the place of each row among those with its key, which follow each other."""
    if not len(key):
        return np.empty(0, np.int64)
    first = np.flatnonzero(np.diff(key, prepend=key[0] - 1))
    return np.arange(len(key)) - np.repeat(first, np.diff(first, append=len(key)))


def _partners(communicator: Communicator | None, rank: int) -> Sequence[int]:
    """Return the processes that a rank's partners are, by their rank in a communicator."""
    if communicator is None:
        return ()
    if communicator.is_self:
        return (rank,)
    if communicator.others:
        return communicator.others if rank in communicator.members else communicator.members
    return communicator.members


# -- regions and attributes --------------------------------------------------------------------------------------------


class _Regions:
    """Names, categories and kinds of what is entered."""

    def __init__(self, definitions: Definitions, data: ArchiveData) -> None:
        self._definitions, self._data = definitions, data
        unclear: set[str] = set()
        for region in definitions.regions.values():
            facts = RegionFacts(
                region.file, region.line or ABSENT, region.end_line or ABSENT, region.role, region.paradigm
            )
            if data.regions.setdefault(region.name, facts) != facts:
                unclear.add(region.name)
        for name in unclear:  # two functions of one name: nobody knows which one a context is
            del data.regions[name]

    def columns(self, reference: Array, lane: ProfileKind) -> dict[str, Array]:
        """Return name, category and kind of spans."""
        is_small = reference.max(initial=0) < 1 << 16  # NumPy sorts such numbers by counting
        different, number = np.unique(reference.astype(np.uint16) if is_small else reference, return_inverse=True)
        names = self._data.names
        rows = []
        for one in different.tolist():
            region = self._region(one)
            category = ABSENT if region.paradigm == "UNKNOWN" else names(region.paradigm)
            rows.append((names(region.name), category, _kind(region, lane)))
        table = np.array(rows, np.int32).reshape(-1, 3)[number.reshape(-1)]
        absent = np.full(len(reference), ABSENT, np.int64)
        return {"name": table[:, 0], "category": table[:, 1], "kind": table[:, 2], "correlation": absent}

    def _region(self, reference: int) -> RegionDefinition:
        if reference >= CONTEXTS:
            reference = self._definitions.contexts.get(reference - CONTEXTS, (NONE, NONE, NONE))[0]
        region = self._definitions.regions.get(reference)
        return region or RegionDefinition(f"region {reference}", "UNKNOWN", "UNKNOWN", "", 0, 0)

    def add_frames(self, data: ArchiveData) -> None:
        """Give the data set the tree of calling contexts, once."""
        if data.frames:
            return
        for number, (region, place, parent) in self._definitions.contexts.items():
            about = self._region(region)
            file, line = self._definitions.places.get(place, (about.file, about.line))
            data.frame_of[number] = len(data.frames)
            function = data.names(about.name)
            data.frames.append((parent, function, data.names(file) if file else ABSENT, line or ABSENT))


def _kind(region: RegionDefinition, lane: ProfileKind) -> SpanKind:
    """Return what kind of span a region is: work of a device on its streams, a region elsewhere."""
    if lane != ProfileKind.GPU_STREAM:
        return SpanKind.REGION
    if region.role in KIND_OF_ROLE:
        return KIND_OF_ROLE[region.role]
    return SpanKind.KERNEL if region.paradigm in GPU_PARADIGMS else SpanKind.REGION


class _Attributes:
    """What attributes and parameters say of the spans of a location."""

    def __init__(self, events: LocationEvents, definitions: Definitions, names: Names) -> None:
        self._definitions, self._names = definitions, names
        self.sizes: Array | None = None
        self._n = len(events.start)
        parts = []
        for code, words in ((Frame.ATTRIBUTES, definitions.attributes), (Frame.PARAMETERS, definitions.parameters)):
            if code in events.tables:
                table, span = events.tables[code], events.span[code]
                different, number = np.unique(table[:, 1], return_inverse=True)
                texts = [words.get(one) or f"{one}" for one in different.tolist()]
                parts.append((span, names.numbers(texts)[number.reshape(-1)], table[:, 2], table[:, 3]))
        columns = zip(*parts, strict=True) if parts else [[np.empty(0, np.int64)]] * 4
        span, key, type_, bits = (np.concatenate(list(column)) for column in columns)
        kept = np.flatnonzero(span >= 0)
        self._span, self._key, self._type = span[kept], key[kept], type_[kept].astype(np.int64)
        self._bits = _cut(self._type, bits[kept].astype(np.uint64))
        self._used = np.zeros(len(kept), np.bool_)

    def apply(self, columns: dict[str, Array]) -> None:
        """Set category, kind, correlation and sizes where attributes tell them, as our own writer's do."""
        if not len(self._span):
            return
        span, text = self._texts("category")
        if len(span):
            columns["category"][span] = text
            told = kinds_of_categories(text, self._names.all)
            role = columns["kind"][span]
            columns["kind"][span] = np.where((told == SpanKind.REGION) & (role != SpanKind.REGION), role, told)
        span, text = self._texts("kind")
        for word in np.unique(text).tolist():
            if self._names.all[word] in KIND_OF_WORD:
                columns["kind"][span[text == word]] = KIND_OF_WORD[self._names.all[word]]
        span, number = self._numbers("corr")
        columns["correlation"][span] = number
        span, number = self._numbers("bytes")
        if len(span):
            self.sizes = np.full(self._n, ABSENT, np.int64)
            self.sizes[span] = number

    def flows(self) -> Iterator[tuple[Ints, Ints, FlowDirection, int]]:
        """Yield ends of flows, as our own writer tells them: spans, ids, a direction and a name."""
        for key in np.unique(self._key).tolist():
            if (told := read_flow_attribute(self._names.all[key])) is not None:
                span, flow = self._numbers(self._names.all[key])
                if len(span):
                    yield span, flow, told[0], self._names(told[1]) if told[1] else ABSENT

    def _rows(self, word: str, *types: int) -> Ints:
        rows = np.flatnonzero((self._key == self._names(word)) & np.isin(self._type, types))
        self._used[rows] = True
        return rows

    def _texts(self, word: str) -> tuple[Ints, Ids]:
        rows = self._rows(word, STRING)
        return self._span[rows], self._string_numbers(self._bits[rows])

    def _numbers(self, word: str) -> tuple[Ints, Ints]:
        rows = self._rows(word, *range(1, 9))
        return self._span[rows], self._bits[rows].view(np.int64)

    def _string_numbers(self, references: Array) -> Ids:
        different, number = np.unique(references, return_inverse=True)
        texts = [self._definitions.text(one) for one in different.tolist()]
        return self._names.numbers(texts)[number.reshape(-1)]

    def others(self) -> Iterator[tuple[Ints, Ids, Array, Array]]:
        """Yield the other ones as arguments: spans, names, types and values."""
        left = ~self._used
        for types, kind in (
            ((1, 2, 3, 4), ValueType.UINT),
            (SIGNED, ValueType.INT),
            ((FLOAT, DOUBLE), ValueType.DOUBLE),
            ((STRING,), ValueType.TEXT),
            (tuple(REFERENCES), ValueType.UINT),
        ):
            rows = np.flatnonzero(left & np.isin(self._type, types))
            if len(rows):
                bits = self._bits[rows]
                if kind == ValueType.TEXT:
                    bits = self._string_numbers(bits).astype(np.uint64)
                elif kind == ValueType.DOUBLE:
                    bits = _as_floats(self._type[rows], bits).view(np.uint64)
                yield self._span[rows], self._key[rows], np.full(len(rows), kind, np.int8), bits


def _cut(type_: Ints, bits: Array) -> Array:
    """Return values with the bits of their types alone: the library leaves the others as they were."""
    out = bits.copy()
    for kind, width in BITS.items():
        rows = np.flatnonzero(type_ == kind)
        value = out[rows] & np.uint64((1 << width) - 1)
        if kind in SIGNED:
            shift = np.int64(64 - width)
            value = ((value.view(np.int64) << shift) >> shift).view(np.uint64)
        out[rows] = value
    texts = np.flatnonzero((type_ == STRING) | ((type_ > STRING) & (type_ != 13)))  # 13: locations have 64 bits
    out[texts] &= np.uint64(0xFFFFFFFF)
    return out


def _as_floats(type_: Ints, bits: Array) -> Array:
    """Return values of metrics, or of attributes, as doubles."""
    out = bits.astype(np.float64)
    out[type_ == DOUBLE] = bits.view(np.float64)[type_ == DOUBLE]
    out[type_ == FLOAT] = (bits & np.uint64(0xFFFFFFFF)).astype(np.uint32).view(np.float32)[type_ == FLOAT]
    signed = np.isin(type_, SIGNED)
    out[signed] = bits.view(np.int64)[signed]
    return out


def _arguments(arguments: Columns, strings: Sequence[str]) -> Iterator[SideTable]:
    """Yield arguments as texts."""
    texts = np.array(strings, np.object_)
    for block in arguments.blocks(list(ARGUMENT)):
        order = np.argsort(block["span"], kind="stable")
        span = block["span"][order]
        first = np.flatnonzero(np.diff(span, prepend=ABSENT))
        columns = {
            "position": np.arange(len(span)) - np.repeat(first, np.diff(first, append=len(span))),
            "type": np.array(ARGUMENT_TYPES, np.object_)[block["type"][order]],
            "name": texts[block["key"][order]],
            "value": render_values(block["type"][order], block["bits"][order], texts),
        }
        yield SideTable(span, columns)


# -- lanes -------------------------------------------------------------------------------------------------------------


LANE = re.compile(r"^(.*?)(?: #\d+| memory)$")  # further locations of one track, as our own writer names them
STREAM_NAMES = (re.compile(r"\b(?:stream|queue)\b ?\[?(\d{1,18})\]?", re.IGNORECASE), re.compile(r"\[\d+:(\d{1,18})\]"))
DEVICE_NAMES = (re.compile(r"\b(?:GPU|device)\b ?\[?(\d{1,9})", re.IGNORECASE), re.compile(r"\[(\d{1,9}):\d+\]"))
PID = re.compile(r"\bpid (\d{1,18})\b")


@dataclass
class _Lanes:
    """Processes, devices and lanes of location groups and locations."""

    definitions: Definitions
    data: ArchiveData
    lane: dict[int, int] = field(default_factory=dict)  # by location
    _processes: dict[int, int] = field(default_factory=dict)  # by group
    _devices: dict[tuple[int, int], int] = field(default_factory=dict)
    _n_threads: Counter[int] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        names = {(location.group, location.name): location for location in self.definitions.locations}
        for location in self.definitions.locations:
            base = LANE.match(location.name)
            owner = names.get((location.group, base[1])) if base is not None else None
            if owner is not None and owner.kind == location.kind and owner.id in self.lane:
                self.lane[location.id] = self.lane[owner.id]
            else:
                self.lane[location.id] = self.data.lane_list.append(self._make_lane(location))

    def _make_lane(self, location: Location) -> Lane:
        process = self._process(location.group)
        if location.kind == METRIC:
            return Lane(process, ProfileKind.METRIC, location.id & 0xFFFFFFFF, location.name)
        if location.place:
            is_profiler = location.place == OF_PROFILER
            return Lane(process, ProfileKind.OTHER, len(self.lane), location.name, of_profiler=is_profiler)
        if location.kind != STREAM:
            self._n_threads[process] += 1
            return Lane(process, ProfileKind.THREAD, self._n_threads[process] - 1, location.name)
        group = self.definitions.groups.get(location.group)
        words = (location.name, group.name if group is not None else "")
        device = next((int(m[1]) for word in words for rule in DEVICE_NAMES if (m := rule.search(word))), 0)
        if (process, device) not in self._devices:
            self._devices[process, device] = self.data.add_device(Device(process, "GPU", device))
        if OF_NO_STREAM.fullmatch(location.name):
            return Lane(process, ProfileKind.GPU, device, location.name, self._devices[process, device])
        stream = next((int(m[1]) for rule in STREAM_NAMES if (m := rule.search(location.name))), len(self.lane))
        return Lane(process, ProfileKind.GPU_STREAM, stream, location.name, self._devices[process, device])

    def _process(self, number: int) -> int:
        """Return the process that a group is, or belongs to."""
        groups = self.definitions.groups
        group = groups.get(number)
        if group is not None and group.owner in groups:
            return self._process(group.owner) if groups[group.owner].owner == ABSENT else self._add(number)
        return self._add(number)

    def _add(self, number: int) -> int:
        if number not in self._processes:
            group = self.definitions.groups.get(number)
            name, host, rank = (group.name, group.host, group.rank) if group is not None else ("", "", ABSENT)
            pid = PID.search(name)
            process = Process(f"{self.data.path}:{number}", int(pid[1]) if pid else number, host, host, "", rank)
            self._processes[number] = self.data.add_process(process)
        return self._processes[number]

    def set_command(self, lane: int, command: str) -> None:
        """Set the command line of the process that a lane belongs to."""
        number = self.data.lanes[lane].process
        self.data.processes[number] = replace(self.data.processes[number], command=command)
