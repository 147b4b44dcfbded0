"""The writer of all formats of this package.

    writer = PERFETTO.open_writer(Path("run.pftrace"), WriteOptions())
    writer.define(experiment)                                  processes and tracks
    for chunk in experiment.traces.spans(writer.columns):      in file order, part after part
        writer.write(chunk)
    writer.close()                                             or `transfer(experiment, writer)` instead of all this

`write_traces` reads the traces itself, and encodes the parts that can be read by themselves on any number of workers:
each writes a file beside the target, and these are joined in the order of the parts. The bytes do not depend on who did
the work. Within a process, the order is: spans by time, then what is known only after them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Protocol

import numpy as np

from callgrove.arrays import Ints
from callgrove.errors import Parameter, UsageError, compose_text
from callgrove.execute import Progress, silent
from callgrove.formats.events.kinds import kind_of_category
from callgrove.formats.interface import Chunk, SampleChunk, WriteOptions
from callgrove.formats.registry import find_entry
from callgrove.formats.timeline.content import (
    ARGUMENTS,
    RENAMED,
    CounterPoints,
    Losses,
    Naming,
    Places,
    ProcessTracks,
    Slices,
    Value,
)
from callgrove.formats.timeline.notes import BYTES
from callgrove.formats.timeline.slices import SliceMaker, SliceOptions, StackSlices, counter_points
from callgrove.formats.timeline.source import COLUMNS, Annotations
from callgrove.formats.writing.outputs import Data, FileOutput, Output
from callgrove.formats.writing.writer import NOTHING_RENAMED, TargetWriter
from callgrove.model.books import ALLOCATED, COPIED, COUNTED, MEASURED, Books, Ledger
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Metrics
from callgrove.model.traces.events import PARENT, AgentIndex, PartsOfTraces, SpanChunk, SpanKind, Traces
from callgrove.model.values import DenseBlock, SparseBlock

__all__ = ["Encoder", "PartEncoder", "TimelineWriter"]


# -- the writer --------------------------------------------------------------------------------------------------------


BUNDLE_BYTES = 8 << 20  # of small parts that are read at once
LAUNCHES_OF_PARTS = "arrows lead from calls to operations that were written between the same two flushes"


class PartEncoder(Protocol):
    """Encodes one part. It begins anew: nothing that other parts have said is known to the reader at its place. Tracks
    that were made meanwhile (`ProcessTracks.undescribed`) are described before they are used."""

    def slices(self, slices: Slices) -> Iterator[Data]: ...
    def points(self, points: CounterPoints) -> Iterator[Data]: ...


class Encoder(Protocol):
    """Turns a timeline into the bytes of a format; it is sent to other processes, so it can be pickled."""

    def opening(self, processes: Sequence[ProcessTracks]) -> Iterator[Data]:
        """Yield the beginning of the file: all processes, and the tracks that they have so far."""

    def part(self) -> PartEncoder: ...

    def closing(self) -> Iterator[Data]: ...


@dataclass(frozen=True)
class _Task:
    """Parts to encode one after the other: by themselves, so that they can be sent to another process."""

    encoder: Encoder
    parts: PartsOfTraces
    places: Sequence[Places]
    options: SliceOptions
    columns: Sequence[str]
    number: int = 0  # that of the first part among all of the trace
    target: Path | None = None

    def makers(self, losses: Losses) -> Iterator[SliceMaker]:
        """Yield what makes the slices of each part, before it has read them."""
        for k, (traces, places) in enumerate(zip(self.parts.read(self.columns), self.places, strict=True)):
            yield SliceMaker(traces, 0, None, places, self.options, losses, self.number + k)


def _encode_parts(task: _Task) -> tuple[Path, Losses]:
    """Encode parts into a file beside the target."""
    losses = Losses()
    assert task.target is not None
    with task.target.open("wb") as file:
        for maker in task.makers(losses):
            maker.read()
            for data in _bytes_of(maker, task.encoder.part(), losses):
                file.write(data)
    return task.target, losses


def _bytes_of(maker: SliceMaker, encoder: PartEncoder, losses: Losses) -> Iterator[Data]:
    yield from _encode(maker.make(), encoder, losses)


def _encode(items: Iterator[Slices | CounterPoints], encoder: PartEncoder, losses: Losses) -> Iterator[Data]:
    for item in items:
        if isinstance(item, Slices):
            yield from encoder.slices(item)
            _count_slices(item, losses.written)
        else:
            yield from encoder.points(item)
            _count_points(item, losses.written)


def _count_slices(slices: Slices, written: Ledger) -> None:
    """Add up spans that became slices, and what these say of bytes and counters. What never ended has no time."""
    kind, end = slices.kind, slices.end_ns
    if kind is None:
        return
    for note in slices.notes:
        if note.key == BYTES and note.value is Value.INTEGER:
            allocates = kind[note.rows] == SpanKind.ALLOC
            for what, chosen in ((COPIED, ~allocates), (ALLOCATED, allocates)):
                if chosen.any():
                    written.add_amount(what, note.values[chosen])
        elif note.value is Value.FLOAT:
            written.add_amount(COUNTED, note.values)
        elif note.value is Value.TRUE:
            end = end.copy()
            end[note.rows] = slices.start_ns[note.rows]
    written.add_spans({"kind": kind, "start_ns": slices.start_ns, "end_ns": end})


def _count_points(points: CounterPoints, written: Ledger) -> None:
    """Add up values that the input has."""
    if points.is_given:
        written.add_amount(MEASURED, points.value)


class TimelineWriter(TargetWriter[Output, Experiment]):
    """A trace in the making."""

    takes_spans = True
    holds_only_traces = True
    left_out: ClassVar[tuple[str, ...]] = ("stack", "message")  # side tables that slices say nothing of
    kept: ClassVar[Mapping[str, Collection[str]]] = {}  # columns of these that they say

    def __init__(self, target: Path, options: WriteOptions, encoder: Encoder, output: Output | None = None) -> None:
        in_place = options.in_place
        super().__init__(output or FileOutput(target, options.overwrite, options.keep_partial, in_place=in_place))
        self._encoder, self._options = encoder, options
        annotations = Annotations(options.annotations)
        self._slice_options = SliceOptions(
            annotations, options.by_queue, options.kernel_rename, self.left_out, self.kept, self.kind_of
        )
        self.columns = (*COLUMNS, PARENT) if annotations is Annotations.ALL else COLUMNS
        self._losses = Losses()
        self._n_opening = self._n_flushed = 0
        self._places = Places.none()
        self._parts: Sequence[Ints] = []
        self._part_of: Ints = np.empty(0, np.int64)
        self._pushed: tuple[int, SliceMaker] | None = None  # the part that is written chunk by chunk, and its slices
        self._sampled: tuple[int, PartEncoder] | None = None  # the process whose samples were written last

    @property
    def kind_of(self) -> Callable[[str], int]:
        """How readers of the format understand categories."""
        return kind_of_category

    def _begin(self, tables: Experiment) -> None:
        traces = tables.traces
        many = len(traces.parts()) > 1  # to count the spans of a thousand databases would take as long as they take
        if not many and not traces.n_spans and not traces.n_samples and traces.counters is None:
            reason = f"this format holds what happened over time, and {tables.path} has no traces"
            raise UsageError(f"{self.target}: {reason}{_hint(tables)}")
        self._open = tables
        naming, said = Naming(self._options.track_names), self._options.agent_index
        agents = AgentIndex(said) if said else None
        self._places = Places.of(tables, naming, agents, real_pids=self._options.real_pids)
        self._stacks = StackSlices(tables.contexts, self._slice_options.annotations, self._losses)
        self._place_parts(traces)
        if traces.spans_backend is None and len(tables.metrics):  # of spans, values are made again
            self._report.add("values of metrics: only what happened over time is written")
        self._pending.open()
        self._put(self._encoder.opening(list(self._places.processes.values())))
        self._n_opening = self._pending.n_written

    def _put(self, encoded: Iterator[Data]) -> None:
        for data in encoded:
            self._pending.write(data)

    def _place_parts(self, traces: Traces) -> None:
        """Find out which part each profile's spans are in; samples of such profiles get a track of their own."""
        self._part_of = np.full(len(self._places.process), -1, np.int64)
        self._parts = traces.parts()
        for number, profiles in enumerate(self._parts):
            self._part_of[profiles] = number
        self._sample_track = self._places.track.copy()
        if traces.samples is not None:
            for profile in np.unique(traces.samples.profile).tolist():
                if self._part_of[profile] >= 0 and self._places.process[profile] >= 0:
                    self._sample_track[profile] = self._places.samples_beside(profile)

    # -- chunk by chunk ------------------------------------------------------------------------------------------------

    def _take(self, tables: Experiment, chunk: Chunk) -> None:
        """Take spans (`columns` of them) part after part and in file order, or samples of one line; no values."""
        if isinstance(chunk, SampleChunk):
            self._losses.given.n_samples += len(chunk.samples)
            self._write_samples(chunk)
        elif not isinstance(chunk, SparseBlock | DenseBlock) and len(chunk["span"]):
            self._push(chunk)

    def _push(self, chunk: SpanChunk) -> None:
        part = int(self._part_of[chunk["profile"][0]])
        if self._pushed is None or self._pushed[0] != part:
            self._finish_pushed()
            self._pushed = part, self._maker_of_whole(part)
        self._pushed[1].add(chunk)

    def _finish_pushed(self) -> None:
        if self._pushed is not None:
            _, maker = self._pushed
            self._pushed = self._sampled = None
            self._put(_bytes_of(maker, self._encoder.part(), self._losses))

    def _write_samples(self, chunk: SampleChunk) -> None:
        if chunk.metric >= 0:
            self._report.add("samples that follow a metric: only samples of contexts are written")
            self._losses.given.n_samples -= len(chunk.samples)
            return
        process = int(self._places.process[chunk.profile])
        if process < 0:
            self._losses.add("samples of profiles that belong to no process", len(chunk.samples))
            self._losses.given.n_samples -= len(chunk.samples)
            return
        if self._sampled is None or self._sampled[0] != process:
            self._sampled = process, self._encoder.part()
        encoder = self._sampled[1]
        track = int(self._sample_track[chunk.profile])
        for slices in self._stacks.of(self._places.processes[process], track, chunk.samples):
            self._put(encoder.slices(slices))

    # -- everything ----------------------------------------------------------------------------------------------------

    def write_traces(self, progress: Progress = silent) -> None:
        """Write spans of all parts, then samples."""
        with self._or_nothing():
            tables = self._require_open()
            n_parts, output = len(self._parts), self._pending
            can_send = n_parts > 1 and tables.traces.split is not None and self._options.workers.are_elsewhere
            if can_send and isinstance(output, FileOutput) and output.is_file:
                self._write_parts_elsewhere(output, progress)
            else:
                self._write_parts_here(n_parts, progress)
            done, total = 0, tables.traces.n_samples
            self._losses.given.n_samples += total
            for profile, metric, samples in tables.traces.lines():
                self._write_samples(SampleChunk(profile, metric, samples))
                done += len(samples)
                progress("writing samples", done, total)

    def _write_parts_here(self, n_parts: int, progress: Progress) -> None:
        done, total = 0, self._require_open().traces.n_spans if n_parts == 1 else 0

        def count(n: int) -> None:
            nonlocal done
            done += n
            if total:
                progress("reading spans", done, total)

        for number, maker in enumerate(self._makers(n_parts)):
            maker.read(count)
            self._put(_bytes_of(maker, self._encoder.part(), self._losses))
            progress("writing parts", number + 1, n_parts)

    def _makers(self, n_parts: int) -> Iterator[SliceMaker]:
        """Yield what makes the slices of each part: by itself where it can be, as others are not looked at then."""
        if self._require_open().traces.split is None:
            yield from map(self._maker_of_whole, range(n_parts))
            return
        for task in self._tasks():
            yield from task.makers(self._losses)

    def _write_parts_elsewhere(self, output: FileOutput, progress: Progress) -> None:
        tasks = [replace(task, target=output.place_of_part(task.number)) for task in self._tasks()]
        written_parts = self._options.workers.map(_encode_parts, tasks, label="writing parts", progress=progress)
        for path, losses in written_parts:
            output.append(path)
            self._losses.merge(losses)

    def _tasks(self) -> Iterator[_Task]:
        """Yield parts by themselves, small ones put together."""
        traces = self._require_open().traces
        for first, end in traces.bundles(BUNDLE_BYTES):
            parts, places = PartsOfTraces.of(traces, first, end), map(self._places.take, self._parts[first:end])
            yield _Task(self._encoder, parts, list(places), self._slice_options, self.columns, first)

    def _maker_of_whole(self, number: int) -> SliceMaker:
        """Return what makes the slices of a part of all traces, whose numbers of spans and profiles are kept."""
        profiles, several = self._parts[number], len(self._parts) > 1
        places, chosen = self._places.only(profiles), profiles if several else None
        traces = self._require_open().traces
        return SliceMaker(traces, number, chosen, places, self._slice_options, self._losses, number)

    # -- the end -------------------------------------------------------------------------------------------------------

    def _store(self, tables: Experiment) -> None:
        """Give what was encoded so far to the system; of a file that others read meanwhile, all that was pushed."""
        if self._options.in_place and self._pushed is not None:
            _, maker = self._pushed
            self._put(_encode(maker.make_so_far(), self._encoder.part(), self._losses))
            if self._n_flushed == 1:
                self._report.hint(LAUNCHES_OF_PARTS)
            self._n_flushed += 1
        self._pending.flush()

    def _finish(self, tables: Experiment) -> None:
        self._finish_pushed()
        self._write_counters_elsewhere(tables.traces)
        if self._pending.n_written == self._n_opening:
            self._report.hint(f"{self.target}: shows no events: {tables.path} has none")
        self._put(self._encoder.closing())
        self._say_losses()

    def _say_losses(self) -> None:
        books = Books(Metrics(()), self._losses.given, self._losses.written)
        self._report.unexplained.extend(books.differences())
        if self._losses.counts.pop(ARGUMENTS, 0):
            self._say_arguments()
        if not self._losses.counts.pop(RENAMED, 0) and self._options.kernel_rename:
            self._report.hint(NOTHING_RENAMED)
        self._losses.report(self._report)

    def _say_arguments(self) -> None:
        """Say that there are arguments of calls: slices show them where everything is wanted."""
        if self._slice_options.annotations is Annotations.DEFAULT:
            everything = Parameter("annotations", "all")
            self._report.hint(compose_text("arguments of calls are left out; ", everything, " writes them"))

    def _write_counters_elsewhere(self, traces: Traces) -> None:
        """Write counters of profiles that have no spans."""
        elsewhere = np.flatnonzero(self._part_of < 0)
        if not len(elsewhere):
            return
        encoder = self._encoder.part()
        for points in counter_points(traces, self._places.only(elsewhere), self._losses):
            self._put(encoder.points(points))
            _count_points(points, self._losses.written)

    def _give_up(self, tables: Experiment) -> None:
        if self._pushed is not None:
            self._pushed[1].source.close()
        self._pushed = None


def _hint(tables: Experiment) -> str:
    """Return what can be done about it: runs lose their traces when they are put together to be compared."""
    alone = next((run.source for run in tables.runs if run.source and run.source != tables.path), "")
    if alone:
        return f"; those of a single run may be there: {alone}"
    entry = find_entry(tables.format)
    how = entry.how_to_trace if entry is not None else ""
    return f"{f' ({how})' if how else ''}; `callgrove report` shows its profile"
