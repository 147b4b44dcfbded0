"""Spans and samples become slices on tracks and lanes, with names, categories, notes and flows; allocations and
counters become points of counters.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from callgrove.arrays import ABSENT, Array, Bools, Ids, Ints, distinct_rows
from callgrove.formats.events.kinds import kind_of_category
from callgrove.formats.timeline.content import (
    ARGUMENTS,
    DEVICE_FACTS,
    FLOWS_OF_LOST,
    NO_PLACE,
    NO_SAMPLE_TIMES,
    NOWHERE,
    OPEN,
    POINTS,
    RENAMED,
    UNKNOWN_FREES,
    CounterPoints,
    Losses,
    Naming,
    Note,
    Places,
    ProcessTracks,
    Slices,
    Texts,
    TrackKind,
    Value,
    clean,
    possible,
)
from callgrove.formats.timeline.flows import PartFlows
from callgrove.formats.timeline.notes import NoteMaker
from callgrove.formats.timeline.source import (
    FLOW,
    LAUNCHED,
    N_LAUNCHED,
    PLURALS,
    Annotations,
    OrderedSpans,
    side_columns,
    side_of,
    sizes_of,
)
from callgrove.formats.writing.writer import left_out_of, n_devices_with_facts
from callgrove.model.books import MEASURED
from callgrove.model.contexts import ContextKind, ContextTree
from callgrove.model.traces.events import LABEL, Samples, SpanChunk, SpanKind, Traces
from callgrove.model.traces.pairing import MemoryInUse
from callgrove.model.traces.sampled_stacks import PIECE, SampledStacks, StackRuns
from callgrove.model.traces.span_order import Lanes

__all__ = ["SliceMaker", "SliceOptions", "StackSlices", "counter_points"]


OPERATIONS = (SpanKind.KERNEL, SpanKind.COPY, SpanKind.MEMSET)


@dataclass(frozen=True)
class SliceOptions:
    """What slices should say, and where operations of devices should lie. `left_out` are side tables that the format
    has no place for, but for the columns that are `kept`. `kind_of` is how readers of the format understand categories:
    where one says another kind, the slice says its own."""

    annotations: Annotations = Annotations.DEFAULT
    by_queue: bool = False
    kernel_rename: bool = False
    left_out: tuple[str, ...] = ()
    kept: Mapping[str, Collection[str]] = field(default_factory=dict)
    kind_of: Callable[[str], int] = kind_of_category


class SliceMaker:
    """Makes the slices and counters of one part of a trace, chunk after chunk."""

    def __init__(
        self,
        traces: Traces,
        part: int,
        profiles: Ints | None,
        places: Places,
        options: SliceOptions,
        losses: Losses,
        number: int = 0,
    ) -> None:
        self._traces, self._places, self._options, self._losses = traces, places, options, losses
        self.part, self._number = part, number
        self._flows = PartFlows(traces, part, number)
        self.wanted = side_columns(options.annotations, options.by_queue)
        how = options.annotations, options.kernel_rename
        self.source = OrderedSpans(traces, part, profiles, places.process, self.wanted, *how, losses.given)
        self._lanes: dict[int, Lanes] = {}
        self._memory: dict[int, MemoryInUse] = {}
        if traces.has_side("argument", part):
            losses.add(ARGUMENTS)
        about = options.annotations, self.wanted, losses, self.source.levels
        says_counters = "counter" not in options.left_out
        self._notes = NoteMaker(traces, part, places, *about, says_counters=says_counters, kind_of=options.kind_of)
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

    def make(self) -> Iterator[Slices | CounterPoints]:
        """Yield everything that was read or added to the source."""
        for chunk in self.source.chunks():
            yield from self.of(chunk)
        yield from self.rest()

    def make_so_far(self) -> Iterator[Slices | CounterPoints]:
        """Yield what was added until now, and begin anew; lanes and memory in use go on."""
        for chunk in self.source.chunks():
            yield from self.of(chunk)
        self.source.begin_anew()
        self._flows = PartFlows(self._traces, self.part, self._number)

    def of(self, chunk: SpanChunk) -> Iterator[Slices | CounterPoints]:
        """Yield the slices of a chunk as the source gives it."""
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
        ends = self._flows.of(rows["span"])
        self._losses.add(FLOWS_OF_LOST, 0 if ends is None else len(ends))

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
            self._flows.of(rows["span"]),
        )

    # -- tracks --------------------------------------------------------------------------------------------------------

    def _tracks(self, tracks: ProcessTracks, rows: SpanChunk) -> Ints:
        """Return the track of every span, lanes included."""
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
        return _replace_pairs(base, lane, tracks.lane) if lane.any() else base

    @staticmethod
    def _memory_tracks(tracks: ProcessTracks, base: Ints) -> Ints:
        """Return tracks for allocations, which do not nest with the calls of their thread, so they lie beside them."""

        def memory(track: int, _: int) -> int:
            above = tracks.tracks[track]
            name, inside = f"{above.name} memory", track if above.kind is TrackKind.THREAD else above.parent
            return tracks.child(("memory", track), TrackKind.CHILD, name, inside, order=above.order, nests=True)

        return _replace_pairs(base, np.zeros(len(base), np.int32), memory)

    def _queue_tracks(self, tracks: ProcessTracks, rows: SpanChunk, base: Ints) -> Ints:
        out = base.copy()
        for kind in OPERATIONS:
            column = side_of(kind, "queue", self.wanted)
            has_queue: Bools = (rows["kind"] == kind) & (rows[column] >= 0) if column else np.zeros(len(base), np.bool_)
            if column and has_queue.any():
                device = self._places.device[rows["profile"][has_queue]]
                queue = self._copy_queue if kind is SpanKind.COPY else self._queue
                out[has_queue] = _replace_pairs(device, rows[column][has_queue], partial(queue, tracks))
        return out

    def _queue(self, tracks: ProcessTracks, device: int, queue: int) -> int:
        agent = tracks.agent(device)
        in_rocpd = self._places.naming is Naming.ROCPD
        name = f"COMPUTE {agent} QUEUE [{queue}]" if in_rocpd else f"{agent} queue {queue}"
        group = tracks.child(("device", device), TrackKind.GROUP, agent)
        return tracks.child(("queue", device, queue), TrackKind.STREAM, name, group)

    def _copy_queue(self, tracks: ProcessTracks, device: int, queue: int) -> int:
        """Return the track of copies on a queue; as rocprofv3's converter names tracks, copies have tracks of their
        own."""
        if self._places.naming is Naming.PLAIN:
            return self._queue(tracks, device, queue)
        agent = tracks.agent(device)
        group = tracks.child(("device", device), TrackKind.GROUP, agent)
        name = f"COPY to {agent} THREAD [{queue}]"
        return tracks.child(("copies", device, queue), TrackKind.STREAM, name, group)

    # -- counters ------------------------------------------------------------------------------------------------------

    def _memory_points(self, tracks: ProcessTracks, rows: SpanChunk) -> Iterator[CounterPoints]:
        columns = [side_of(SpanKind.ALLOC, name, self.wanted) or "" for name in ("bytes", "device", "address", "level")]
        size, _, address, _ = (rows[name] for name in columns)
        is_known = (size >= 0) | (address != ABSENT)  # of nothing that is known, there is no curve
        allocations = np.flatnonzero((rows["kind"] == SpanKind.ALLOC) & is_known)
        memory = self._memory.get(tracks.process.index)
        if not len(allocations) and memory is None:
            return
        if memory is None:
            memory = self._memory[tracks.process.index] = MemoryInUse()
        nameless = np.zeros(len(allocations), np.int32)
        operation = Texts.of(rows[LABEL][allocations], self.source.labels, ["alloc"], nameless, self._losses)
        memory.add(
            rows["end_ns"][allocations], operation.index, operation.all, *(rows[name][allocations] for name in columns)
        )
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
        """Yield what is known only after the last span: the end of the curves of memory, and counters over time."""
        for index, memory in self._memory.items():
            yield from self._points(self._places.processes[index], memory, OPEN)
            self._losses.add(UNKNOWN_FREES, memory.n_unknown)
        yield from counter_points(self._traces, self._places, self._losses)
        self._count_left_out()
        if self.source.region_names is not None:
            self._losses.add(RENAMED, self.source.region_names.n_renamed)


def counter_points(traces: Traces, places: Places, losses: Losses) -> Iterator[CounterPoints]:
    """Yield the counters over time, one track for each profile and name. Where several profiles of a process have one
    of the same name, and for devices, its title begins with whose it is."""
    counters = traces.counters
    if counters is None or not len(counters):
        return
    chosen: Bools = np.ones(len(counters), np.bool_)
    if places.profiles is not None:
        chosen = np.isin(counters.profile, places.profiles)
    losses.given.add_amount(MEASURED, counters.value[chosen])
    known, has_place = counters.time_ns >= 0, places.process[counters.profile] >= 0
    for why, lost in ((POINTS, chosen & ~known), (NOWHERE, chosen & known & ~has_place)):
        losses.add(why, int(np.count_nonzero(lost)))
        losses.given.add_amount(MEASURED, counters.value[lost], times=-1)
    rows = np.flatnonzero(chosen & known & has_place)
    rows = rows[np.lexsort((counters.time_ns[rows], counters.name[rows], counters.profile[rows]))]
    different, number = distinct_rows(counters.profile[rows], counters.name[rows])
    owners = Counter(zip(places.process[different[0]].tolist(), different[1].tolist(), strict=True))
    for each in np.split(rows, np.flatnonzero(np.diff(number)) + 1) if len(rows) else []:
        profile, name = int(counters.profile[each[0]]), counters.names[int(counters.name[each[0]])]
        tracks = places.processes[int(places.process[profile])]
        above, agent = tracks.tracks[int(places.track[profile])], places.agent(profile)
        text = clean(name, losses)
        is_shared = owners[int(places.process[profile]), int(counters.name[each[0]])] > 1
        owner = agent or (above.name if is_shared else "")
        title = f"{agent} PMC {text}" if places.naming is Naming.ROCPD else f"{owner} {text}"
        parent = above.parent if agent else 0
        track = tracks.child(("counter", profile, name), TrackKind.COUNTER, title.strip(), parent)
        yield CounterPoints(tracks, track, counters.time_ns[each], counters.value[each], is_given=True)


def _replace_pairs(left: Ints, right: Array, by: Callable[[int, int], int]) -> Ints:
    """Return for pairs of numbers what a function makes of each different pair, in the order of their first use."""
    pairs, number = distinct_rows(left, right)
    first = np.full(pairs.shape[1], len(left), np.int64)
    first[number[::-1]] = np.arange(len(left) - 1, -1, -1)
    out = np.full(pairs.shape[1], ABSENT, np.int64)
    for k in np.argsort(first, kind="stable").tolist():
        out[k] = by(int(pairs[0, k]), int(pairs[1, k]))
    return out[number]


# -- call stacks of samples as nested slices ---------------------------------------------------------------------------


SAMPLED = "nanoseconds of samples"  # an amount of books: how long samples show something
MOST_LABELS = 1 << 16  # names that are kept


class StackSlices:
    """Makes slices of lines of samples, over one tree of contexts."""

    def __init__(self, tree: ContextTree, annotations: Annotations, losses: Losses) -> None:
        self._tree, self._annotations, self._losses = tree, annotations, losses
        self._labels: dict[int, str] = {}
        self._stacks = SampledStacks(tree)

    def of(self, tracks: ProcessTracks, track: int, samples: Samples, piece: int = PIECE) -> Iterator[Slices]:
        """Yield the slices of one line, by start and from the outside in."""
        time, context = samples.time_ns, samples.context
        if len(time) and int(time.min()) < 0:
            n_impossible = int(np.count_nonzero(time < 0))
            self._losses.add(NO_SAMPLE_TIMES, n_impossible)
            self._losses.given.n_samples -= n_impossible
            time, context = time[time >= 0], context[time >= 0]
        if len(time):  # one more: when the last sample ends
            time = np.append(time, max(int(time[-1]), samples.until_ns or 0))
            busy = int(np.diff(time)[self._stacks.shown[context] >= 0].sum())
            self._losses.given.amount(SAMPLED).enter(0, busy, busy)
        for runs in self._stacks.runs(context, piece):
            self._count(time, runs)
            if len(runs):
                yield self._slices(tracks, track, time[runs.begin], time[runs.end], runs.context)

    def _count(self, time: Ints, runs: StackRuns) -> None:
        """Add a piece to the books: its samples, and the time of the outermost slices that begin in it."""
        outermost = self._stacks.above[runs.context] < 0
        busy = int((time[runs.end[outermost]] - time[runs.begin[outermost]]).sum())
        self._losses.written.n_samples += runs.n_samples
        self._losses.written.amount(SAMPLED).enter(0, busy, busy)

    def _slices(self, tracks: ProcessTracks, track: int, start_ns: Ints, end_ns: Ints, context: Ids) -> Slices:
        different, first, index = np.unique(context, return_index=True, return_inverse=True)
        used = np.argsort(first, kind="stable")
        place = np.empty(len(used), np.int64)
        place[used] = np.arange(len(used))
        contexts = different[used].tolist()
        number = place[index.reshape(-1)]
        codes, first, kind = np.unique(self._tree.kind[contexts], return_index=True, return_inverse=True)
        by_use = np.argsort(first, kind="stable")
        n, absent = len(context), np.full(len(context), ABSENT, np.int64)
        return Slices(
            tracks,
            np.full(n, track, np.int64),
            start_ns,
            end_ns,
            Texts(number, self._texts(contexts)),
            Texts(np.argsort(by_use)[kind.reshape(-1)][number], [ContextKind(k).word for k in codes[by_use].tolist()]),
            absent,
            absent,
            np.zeros(n, np.int64),
            self._notes(contexts, number) if self._annotations is Annotations.ALL else [],
        )

    def _texts(self, contexts: list[int]) -> list[str]:
        """Return what contexts are called: thousands of lines show the same ones."""
        known = self._labels
        if len(known) > MOST_LABELS:
            known.clear()
        for context in contexts:
            if context not in known:
                known[context] = clean(self._tree.short_label(context), self._losses)
        return [known[context] for context in contexts]

    def _notes(self, contexts: list[int], number: Ints) -> list[Note]:
        """Return where the source says it: file and line, and the module."""
        regions = self._tree.regions
        region = self._tree.region[contexts]
        file, line, module = (
            np.where(region >= 0, column[region], ABSENT) for column in (regions.file, regions.line, regions.module)
        )
        lines = np.flatnonzero(line[number] >= 0)
        notes = [
            self._texts_of("file", file, number, regions.files.paths),
            Note("line", lines, line[number][lines]),
            self._texts_of("module", module, number, regions.modules),
        ]
        return [note for note in notes if len(note.rows)]

    @staticmethod
    def _texts_of(key: str, text: Ids, number: Ints, texts: Sequence[str]) -> Note:
        """Return a note of the texts that contexts have; `number` is the context of each slice."""
        rows = np.flatnonzero(text[number] >= 0)
        return Note(key, rows, number[rows], Value.TEXT, [texts[k] if k >= 0 else "" for k in text.tolist()])
