"""What profiles did over time: samples, spans and counters, the attributes that only some spans have, and devices.

Samples: a line per profile, each sample (time, context) valid until the next one; context -1 is idle.
Spans: one table of (start, end) over all profiles, streamed in chunks of the columns asked for; side tables hold what
only some spans have (grid, bytes, counters, arguments, flows).

Times are nanoseconds, int64, since the epoch or since the clock of the file began.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum, StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np

from callgrove.arrays import ABSENT, Array, Bools, Directory, Ids, Ints, bundles
from callgrove.errors import CallgroveError, UsageError
from callgrove.model.table import Table

if TYPE_CHECKING:
    from callgrove.model.experiment import InputWarning

__all__ = [
    "FLOW",
    "LABEL",
    "MESSAGE",
    "PARENT",
    "PLACES",
    "SIDE_TABLES",
    "SPAN_COLUMNS",
    "AgentIndex",
    "ArraySamples",
    "ArraySpans",
    "Counters",
    "Device",
    "FindsLater",
    "FlowDirection",
    "GathersLines",
    "KnowsSides",
    "LineBatch",
    "ListsDevices",
    "MessageDirection",
    "PartsOfTraces",
    "SampleBackend",
    "Samples",
    "Seen",
    "SideChunks",
    "SideRows",
    "SideTable",
    "SpanBackend",
    "SpanKind",
    "Split",
    "StreamsSides",
    "Traces",
    "Window",
    "find_rows",
    "labels_by_title",
    "separate_flows",
    "touch_window",
]

SAMPLES_AT_ONCE = 1 << 17  # of lines that are read together


# -- devices -----------------------------------------------------------------------------------------------------------


class AgentIndex(StrEnum):
    """Which of the numbers of a device its label shows, in the words of rocprofv3."""

    ABSOLUTE = "absolute"  # among all of the machine
    RELATIVE = "relative"  # among those that the process may use
    TYPE_RELATIVE = "type-relative"  # among those of its kind


NUMBERS = {AgentIndex.ABSOLUTE: "absolute_index", AgentIndex.RELATIVE: "logical_index"}  # attributes


@dataclass(frozen=True)
class Device:
    """A device of a process; `index` counts those of one kind (GPU, CPU, NIC). Attributes are the profiler's words."""

    process: int
    kind: str
    index: int
    name: str = ""
    attributes: Mapping[str, str] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """What people call it: `GPU 0`."""
        return f"{self.kind} {self.index}"

    @property
    def label(self) -> str:
        """As rocprofv3 says it, where it told the number that it counts agents by."""
        return self.label_by(AgentIndex.RELATIVE)

    def label_by(self, by: AgentIndex) -> str:
        """Return `Agent N` by a number that rocprofv3 told; what people call it where it told none."""
        agent = self.attributes.get(NUMBERS[by]) if by in NUMBERS else None
        return self.title if agent is None else f"Agent {agent}"


@runtime_checkable
class ListsDevices(Protocol):
    """Spans whose devices are known."""

    def devices(self, part: int) -> Sequence[Device]:
        """Return the devices of a part; its side tables name them by their place in this list."""


def labels_by_title(devices: Sequence[Device], by: AgentIndex) -> dict[str, str]:
    """Return the labels of devices by what people call them; of several the first one counts."""
    return {device.title: device.label_by(by) for device in reversed(devices)}


# -- samples, spans and counters ---------------------------------------------------------------------------------------


Window = tuple[int, int]  # [start_ns, end_ns)


def touch_window(start: Ints, end: Ints, window: Window) -> Bools:
    """Return which spans have any time in a window; one of no length counts where it starts."""
    low, high = window
    touching: Bools = (start < high) & ((end > low) | (start >= low))
    return touching


def find_rows(span: Ints, wanted: Ints) -> Ints:
    """Return the row of each wanted span, given the span of every row; -1 for those that are not there. As a rule spans
    rise."""
    if not len(span) or (span[1:] <= span[:-1]).any():
        return Directory(span, np.arange(len(span)))[wanted]
    row = np.minimum(np.searchsorted(span, wanted), len(span) - 1)
    return np.where(span[row] == wanted, row, ABSENT)


SPAN_COLUMNS = ("profile", "kind", "category", "name", "start_ns", "end_ns", "depth", "correlation", "context")
LABEL = "label"  # a further column that may be asked for: a marker's text where its name is only that of a call
PARENT = "parent_correlation"  # another one: the correlation of the call that a call was made by
FLOW = "flow"  # the side table of ends of flows: id, direction (`FlowDirection`), name
MESSAGE = (
    "message"  # that of messages: direction (`MessageDirection`), peer (a rank), communicator, tag, bytes, operation
)
PLACES = "places"  # of `Traces.tables`: the one with a row per profile
SIDE_TABLES = (  # what spans may have beside
    *("kernel", "copy", "alloc", "argument", "counter", FLOW, MESSAGE, "stack", "extra"),
    *("event", "event_text", "region"),
)
SpanChunk = Mapping[str, Array]


class SpanKind(IntEnum):
    """What a span is."""

    KERNEL = 0
    COPY = 1
    ALLOC = 2
    MEMSET = 3
    API = 4
    MARKER = 5
    REGION = 6
    SYNC = 7
    OVERHEAD = 8  # what the profiler itself did on a thread

    @property
    def word(self) -> str:
        return self.name.lower()


class FlowDirection(IntEnum):
    """What a span is to a flow, which joins spans that are not a call and its operation: spans with one id, in order of
    time, such as a message that is sent and received."""

    OUT = 0
    STEP = 1
    IN = 2


class MessageDirection(IntEnum):
    """What a span has to do with a message."""

    SENT = 0
    RECEIVED = 1
    COLLECTIVE = 2  # it took part in an operation of all processes of a communicator


@dataclass(frozen=True)
class Samples:
    """Samples of one line, in time order. A sample holds until the next one; `until_ns` is how long the last one does
    where a window has cut off what comes next."""

    time_ns: Ints
    context: Ids
    until_ns: int | None = None

    def __len__(self) -> int:
        return len(self.time_ns)

    def within(self, window: Window | None) -> Samples:
        """Return the samples in the window; where none lies on its left edge, also the one before: it says what was
        going on."""
        if window is None:
            return self
        first, after = (int(np.searchsorted(self.time_ns, window[0], side=s)) for s in ("left", "right"))
        first = max(0, first - 1) if first == after else first
        last = int(np.searchsorted(self.time_ns, window[1], side="left"))
        until = window[1] if last < len(self) else self.until_ns
        return Samples(self.time_ns[first:last], self.context[first:last], until and min(until, window[1]))


class SampleBackend(Protocol):
    """Sample lines; line k belongs to profile `profile[k]` and has `count[k]` samples.

    `metric[k]` is -1 for lines of contexts and a metric row for lines that follow one metric.
    """

    @property
    def profile(self) -> Ids: ...
    @property
    def metric(self) -> Ids: ...
    @property
    def count(self) -> Ints: ...

    @property
    def problems(self) -> list[CallgroveError]:
        """Damage that was met and stepped over."""

    def line(self, line: int, window: Window | None = None) -> Samples:
        """Return the samples of one line."""


@runtime_checkable
class GathersLines(Protocol):
    """A backend that reads many short lines at once."""

    def gather(self, lines: Ints) -> Samples | None:
        """Return the samples of several lines, one line after the other; None where they are to be read one by one."""


@dataclass(frozen=True)
class LineBatch:
    """Several lines, one after the other: samples [bounds[k], bounds[k + 1]) are those of the k-th."""

    profile: Ids
    metric: Ids
    bounds: Ints
    samples: Samples

    @property
    def count(self) -> Ints:
        return np.diff(self.bounds)


@dataclass(frozen=True)
class ArraySamples:
    """Sample lines in memory."""

    profile: Ids
    metric: Ids
    lines: tuple[Samples, ...]
    count: Ints = field(init=False)
    problems: list[CallgroveError] = field(default_factory=list)

    def __post_init__(self) -> None:
        object.__setattr__(self, "count", np.array([len(line) for line in self.lines], np.int64))

    def line(self, line: int, window: Window | None = None) -> Samples:
        return self.lines[line].within(window)


@dataclass(frozen=True)
class SideTable:
    """What only some spans have: row k belongs to span `span[k]`."""

    span: Ints
    columns: Mapping[str, Array | tuple[object, ...]]

    def take(self, rows: Ints) -> SideTable:
        """Return some of the rows, in the order given."""
        columns = {
            name: cells[rows] if isinstance(cells, np.ndarray) else tuple(cells[k] for k in rows.tolist())
            for name, cells in self.columns.items()
        }
        return SideTable(self.span[rows], columns)

    @property
    def is_whole(self) -> Bools:
        """Rows of counters that say something of the whole span: not those sampled while it ran, which name their
        sample."""
        sample = self.columns.get("sample_id")
        return np.ones(len(self.span), np.bool_) if sample is None else np.asarray(np.asarray(sample) < 0)


def separate_flows(name: str, tables: Sequence[SideTable]) -> Sequence[SideTable]:
    """Return the side tables of several parts; where they tell of flows, with new ids, as equal ids of two parts are
    two flows."""
    if name != FLOW or len(tables) < 2:
        return tables
    out: list[SideTable] = []
    n_flows = 0
    for table in tables:
        told, number = np.unique(np.asarray(table.columns["id"]), return_inverse=True)
        out.append(SideTable(table.span, {**table.columns, "id": number.reshape(-1) + n_flows}))
        n_flows += len(told)
    return out


class SpanBackend(Protocol):
    """Spans and what belongs to them. `strings` holds the names and categories that spans refer to."""

    @property
    def strings(self) -> Sequence[str]: ...

    def count(self) -> int:
        """Return how many spans there are."""

    def chunks(self, columns: Sequence[str], window: Window | None, profiles: Ints | None) -> Iterator[SpanChunk]:
        """Yield the projected chunks in file order; each chunk also has `span`, the number of the row."""

    def side(self, name: str, part: int | None = None) -> SideTable | None:
        """Return a side table by name (kernel, copy, alloc, counter, argument, flow), of one part or of all."""

    def parts(self) -> Sequence[Ints]:
        """Return the profiles of every part that can be read by itself, such as one file of many; chunks never mix
        parts, and come in their order."""


@runtime_checkable
class StreamsSides(Protocol):
    """Spans whose side tables need not be read at once."""

    def side_chunks(self, name: str, part: int) -> Iterator[SideTable]:
        """Yield a side table of one part in pieces, by rising numbers of spans."""


@runtime_checkable
class KnowsSides(Protocol):
    """Spans that can tell without reading it whether there is a side table."""

    def has_side(self, name: str, part: int) -> bool: ...


@dataclass(frozen=True)
class ArraySpans:
    """Spans in memory."""

    columns: Mapping[str, Array]
    strings: tuple[str, ...] = ()
    sides: Mapping[str, SideTable] = field(default_factory=dict)
    chunk_rows: int = 1 << 16

    def count(self) -> int:
        return len(self.columns["start_ns"])

    def chunks(self, columns: Sequence[str], window: Window | None, profiles: Ints | None) -> Iterator[SpanChunk]:
        unknown = [c for c in columns if c not in self.columns and c not in (LABEL, PARENT)]
        if unknown:
            raise UsageError(f"spans have no column {unknown[0]!r}; there are {', '.join(self.columns)}")
        for first in range(0, self.count(), self.chunk_rows):
            part = slice(first, min(first + self.chunk_rows, self.count()))
            kept = np.ones(part.stop - part.start, np.bool_)
            if window is not None:
                start, end = self.columns["start_ns"][part], self.columns["end_ns"][part]
                kept &= touch_window(start, end, window)
            if profiles is not None:
                kept &= np.isin(self.columns["profile"][part], profiles)
            if kept.any():
                rows = np.flatnonzero(kept) + first
                yield {"span": rows, **{name: self._column(name)[rows] for name in columns}}

    def _column(self, name: str) -> Array:
        if name == PARENT and PARENT not in self.columns:
            return np.full(self.count(), ABSENT, np.int64)
        return self.columns["name" if name == LABEL and LABEL not in self.columns else name]

    def side(self, name: str, part: int | None = None) -> SideTable | None:
        return self.sides.get(name)

    def parts(self) -> Sequence[Ints]:
        return [np.unique(self.columns["profile"])]


@dataclass(frozen=True)
class Counters:
    """Measured quantities over time, per profile; `name` indexes `names`."""

    profile: Ids
    name: Ids
    time_ns: Ints
    value: Array
    names: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.time_ns)


@runtime_checkable
class Releases(Protocol):
    """Spans that are kept in memory once they were read."""

    def release(self) -> None: ...


@runtime_checkable
class FindsLater(Protocol):
    """Spans of which some damage shows only when they are read."""

    @property
    def warnings(self) -> Sequence[InputWarning]: ...


@runtime_checkable
class DividesSpans(Protocol):
    """Spans of several parts that can be read at once."""

    def divide(self, columns: Sequence[str]) -> Sequence[SpanBackend] | None:
        """Read these columns of all parts, and return the spans of each part by itself, with these at hand; None where
        every part has to be read by itself."""


class Split(Protocol):
    """Parts of traces by themselves."""

    def __call__(self, first: int, end: int | None = None) -> Traces:
        """Return one part, or all from the first to the one before the end."""


@dataclass(frozen=True)
class Traces:
    """All that an experiment knows over time. `time_range` is what the file says, or what a profile made
    of the spans has seen; None where nobody knows.

    Counters may be given as a function that reads them when they are asked for. `split` gives the traces of one part by
    themselves, or of several that follow each other, with their profiles numbered from 0 in that order: these can be
    sent to another process. `part_sizes` tells for each part how many bytes there are to read.

    `tables` are small ones that stand beside the spans, read when asked for:

        places      a row per profile: process and agent (rows of these tables), number (thread or stream id)
        processes   guid, pid, hostname, machine_id, command, init, fini
        agents      part, type, type_index, name, absolute_index, logical_index: the devices, part by part
        queues, code_objects, kernel_symbols, pmc_info      what the profiler says of these, with the guid
    """

    samples: SampleBackend | None = None
    spans_backend: SpanBackend | None = None
    counters_source: Counters | Callable[[], Counters | None] | None = None
    time_range: Window | None = None
    split: Split | None = None
    tables: Mapping[str, Callable[[], Table]] = field(default_factory=dict)
    part_sizes: Sequence[int] = ()

    @cached_property
    def counters(self) -> Counters | None:
        source = self.counters_source
        return source if source is None or isinstance(source, Counters) else source()

    @property
    def n_lines(self) -> int:
        return 0 if self.samples is None else len(self.samples.profile)

    @property
    def n_samples(self) -> int:
        return 0 if self.samples is None else int(self.samples.count.sum())

    @property
    def n_spans(self) -> int:
        return 0 if self.spans_backend is None else self.spans_backend.count()

    def parts(self) -> Sequence[Ints]:
        """Return the profiles whose spans can be read by themselves, group by group: nothing links one group to
        another."""
        return [] if self.spans_backend is None else self.spans_backend.parts()

    def bundles(self, n_bytes: int) -> list[tuple[int, int]]:
        """Return the parts that follow each other, small ones put together: the first part and the end of each
        bundle."""
        sizes = self.part_sizes or [n_bytes] * len(self.parts())
        return bundles(sizes, n_bytes)

    def release(self) -> None:
        """Give back the memory of what was read, where somebody keeps it; it can be read again."""
        if isinstance(self.spans_backend, Releases):
            self.spans_backend.release()

    def side(self, name: str, part: int | None = None) -> SideTable | None:
        """Return a side table of spans, of one part or of all. Ids of flows are those of one part, or, where several
        parts have flows, numbers that keep these apart."""
        return None if self.spans_backend is None else self.spans_backend.side(name, part)

    def has_side(self, name: str, part: int) -> bool:
        """Return whether there is such a side table in a part."""
        backend: object = self.spans_backend
        return backend.has_side(name, part) if isinstance(backend, KnowsSides) else self.side(name, part) is not None

    def side_chunks(self, name: str, part: int) -> Iterator[SideTable]:
        """Yield a side table of one part in pieces, by rising numbers of spans; in one piece where it cannot be
        divided."""
        backend: object = self.spans_backend
        if isinstance(backend, StreamsSides):
            yield from backend.side_chunks(name, part)
        elif (whole := self.side(name, part)) is not None:
            yield whole.take(np.argsort(whole.span, kind="stable"))

    def devices(self, part: int) -> Sequence[Device]:
        """Return the devices that the side tables of a part name by number; none where nobody lists them."""
        backend: object = self.spans_backend
        return backend.devices(part) if isinstance(backend, ListsDevices) else ()

    def lines(self, profiles: Ints | None = None, window: Window | None = None) -> Iterator[tuple[int, int, Samples]]:
        """Yield (profile, metric, samples) of every line, or of those of some profiles."""
        if self.samples is None:
            return
        for line, (profile, metric) in enumerate(
            zip(self.samples.profile.tolist(), self.samples.metric.tolist(), strict=True)
        ):
            if profiles is None or profile in profiles:
                yield profile, metric, self.samples.line(line, window)

    def line_batches(self) -> Iterator[LineBatch]:
        """Yield all lines, as many at once as have a bounded number of samples."""
        samples = self.samples
        if samples is None:
            return
        after = np.cumsum(samples.count)
        first = 0
        while first < len(after):
            before = int(after[first - 1]) if first else 0
            last = max(first + 1, int(np.searchsorted(after, before + SAMPLES_AT_ONCE, side="right")))
            lines = np.arange(first, last)
            bounds, joined = _gather_lines(samples, lines)
            yield LineBatch(samples.profile[lines], samples.metric[lines], bounds, joined)
            first = last

    def spans(
        self, columns: Sequence[str] = SPAN_COLUMNS, window: Window | None = None, profiles: Ints | None = None
    ) -> Iterator[SpanChunk]:
        """Yield the chunks of spans with the columns asked for, in file order."""
        if self.spans_backend is not None:
            yield from self.spans_backend.chunks(columns, window, profiles)


@dataclass(frozen=True)
class PartsOfTraces:
    """Some parts of traces, each by itself, of which `together` has the spans; it can be sent to another process."""

    alone: Sequence[Traces]
    together: Traces | None = None

    @classmethod
    def of(cls, traces: Traces, first: int, end: int) -> PartsOfTraces:
        """Return the parts from the first to the one before the end, of traces that can be split."""
        assert traces.split is not None
        together = traces.split(first, end) if end - first > 1 else None
        return cls([traces.split(number) for number in range(first, end)], together)

    def read(self, columns: Sequence[str]) -> Iterator[Traces]:
        """Yield part after part. Where they can be read at once, these columns of their spans were read before."""
        backend: object = None if self.together is None else self.together.spans_backend
        divided = backend.divide(columns) if isinstance(backend, DividesSpans) else None
        if self.together is None or divided is None:
            yield from self.alone
            return
        try:
            for part, spans in zip(self.alone, divided, strict=True):
                yield replace(part, spans_backend=spans)
        finally:
            self.together.release()


def _gather_lines(samples: SampleBackend, lines: Ints) -> tuple[Ints, Samples]:
    """Return where each line begins and ends, and the samples of all."""
    backend: object = samples
    joined = backend.gather(lines) if len(lines) > 1 and isinstance(backend, GathersLines) else None
    if joined is not None:
        return np.append(0, np.cumsum(samples.count[lines])), joined
    parts = [samples.line(line) for line in lines.tolist()]
    if len(parts) == 1:  # it may be long
        return np.array([0, len(parts[0])]), parts[0]
    time, context = (np.concatenate([getattr(part, name) for part in parts]) for name in ("time_ns", "context"))
    return np.append(0, np.cumsum([len(part) for part in parts])), Samples(time, context)


# -- rows of side tables by span ---------------------------------------------------------------------------------------
# `SideRows` knows the first row of any span; `SideChunks` streams the table as well, where spans come in file order.


Seen = Callable[[str, SideTable], None]  # is told of everything that is read of a side table, with its name


def _ignore(name: str, table: SideTable) -> None:
    """Do nothing: nobody adds it up."""


class SideRows:
    """A side table chunk by chunk, for callers that stream spans: memory holds the table of one part."""

    def __init__(self, traces: Traces, name: str, seen: Seen = _ignore) -> None:
        self._traces, self._name, self._seen = traces, name, seen
        self._part_of = {int(p): number for number, part in enumerate(traces.parts()) for p in part.tolist()}
        self._part = -1
        self._table: SideTable | None = None
        self._order = self._span = np.empty(0, np.int64)

    def of(self, chunk: SpanChunk) -> tuple[SideTable | None, Ints]:
        """Return the table, and its first row for every span of the chunk (which has the column `profile`); -1 without
        one."""
        span = chunk["span"]
        part = self._part_of[int(chunk["profile"][0])] if len(span) else self._part
        if part != self._part:
            self._part, self._table = part, self._traces.side(self._name, part)
            if self._table is not None:
                self._seen(self._name, self._table)
            every = np.empty(0, np.int64) if self._table is None else self._table.span
            self._order = np.argsort(every, kind="stable")
            self._span = every[self._order]
        place = np.searchsorted(self._span, span)
        inside = place < len(self._span)
        has_row = inside & (np.append(self._span, -1)[np.where(inside, place, len(self._span))] == span)
        return self._table, np.where(
            has_row, np.append(self._order, -1)[np.where(has_row, place, len(self._order))], -1
        )

    def cells(self, chunk: SpanChunk, column: str, *, signed: bool = False) -> list[object]:
        """Return a column for every span of the chunk; None where there is nothing, and of numbers, where they are
        absent or, unless `signed`, below 0."""
        table, row = self.of(chunk)
        out: list[object] = [None] * len(row)
        if table is None or column not in table.columns:
            return out
        places = np.flatnonzero(row >= 0)
        cells = table.columns[column]
        if not isinstance(cells, np.ndarray) or cells.dtype == np.object_:
            values = [cells[number] for number in row[places].tolist()]
        else:
            known = cells[row[places]] != ABSENT if signed else cells[row[places]] >= 0
            places = places[known]
            values = cells[row[places]].tolist()
        for place, value in zip(places.tolist(), values, strict=True):
            out[place] = value
        return out


class SideChunks:
    """A side table beside spans that come in file order: memory holds the rows of a few chunks."""

    def __init__(self, traces: Traces, name: str, part: int, seen: Seen = _ignore) -> None:
        self._tables, self._name, self._seen = traces.side_chunks(name, part), name, seen
        self._here: list[SideTable] = []
        self._reached = -1  # the last span whose rows were read

    def of(self, spans: Ints) -> Iterator[tuple[SideTable, Ints, Ints]]:
        """Yield, for rising numbers of spans, pieces of the table, and which of their rows belong to which of the
        spans. Spans may only rise from call to call."""
        if not len(spans):
            return
        first, last = int(spans[0]), int(spans[-1])
        self._here = [table for table in self._here if int(table.span[-1]) >= first]
        while self._reached < last:
            table = next(self._tables, None)
            if table is None:
                self._reached = 2**63 - 1
            elif len(table.span):
                self._seen(self._name, table)
                self._reached = int(table.span[-1])
                self._here.append(table)
        for table in self._here:
            rows = np.arange(*np.searchsorted(table.span, [first, last + 1]))
            place = np.searchsorted(spans, table.span[rows])
            has_span = spans[place] == table.span[rows]
            if has_span.any():
                yield table, rows[has_span], place[has_span]
