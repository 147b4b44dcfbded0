"""The format `speedscope`: costs of stacks as "sampled" profiles, what happened over time as "evented" ones.

Specification: speedscope's file-format-schema.json.

    {"$schema": ..., "name": ..., "profiles": [
      {"type": "sampled", "name": "all profiles", "unit": "seconds", "startValue": 0, "endValue": 224,
       "samples": [[0], [0, 1], ...], "weights": [4, 8, ...]},          frames from the root; a weight for each stack
      {"type": "evented", "name": "rank 0 over time", "unit": "nanoseconds", "startValue": 0, "endValue": 9,
       "events": [{"type": "O", "at": 0, "frame": 0}, {"type": "C", "at": 9, "frame": 0}]}],
     "shared": {"frames": [{"name": "main", "file": "main.c", "line": 3}, ...]}}

The first profile has the costs of all; each profile by itself follows, then what each did over time. Weights are as
exact as the input. Times begin with the experiment: numbers of JavaScript do not hold nanoseconds since the epoch.
Spans that overlap without nesting lie in further profiles, as those of queues do. Frames stand at the end, when all are
known.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np

from callgrove.arrays import Array, Bools, Ids
from callgrove.errors import UsageError
from callgrove.formats.interface import WriteOptions
from callgrove.formats.stacks.costs import (
    MOST_PROFILES,
    Scale,
    batches,
    choose_metric,
    choose_profiles,
    exclusive_costs,
    make_finite,
    name_profiles,
)
from callgrove.formats.stacks.frames import Frames, Labels, clean_name, merge_stacks, owners
from callgrove.formats.stacks.writer import StackWriter, in_pieces
from callgrove.formats.writing.writer import WrittenOnly
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Scope, time_unit, unit_factor
from callgrove.model.traces.events import LABEL, Samples, SpanChunk, SpanKind, Traces, Window
from callgrove.model.traces.sampled_stacks import SampledStacks
from callgrove.model.traces.span_order import Lanes, SpanOrder

__all__ = ["FORMAT", "SpeedscopeWriter"]


SCHEMA = "https://www.speedscope.app/file-format-schema.json"
TIMES = {1.0: "seconds", 1e-3: "milliseconds", 1e-6: "microseconds", 1e-9: "nanoseconds"}
SPAN_COLUMNS = ("profile", "kind", LABEL, "start_ns", "end_ns")
NO_END = np.iinfo(np.int64).min  # as readers say it
IN_MEMORY = 1 << 22  # bytes of events of a lane before they go to a file


class _FrameTable:
    """Frames that were used, each once."""

    def __init__(self) -> None:
        self._number: dict[tuple[str, str, int], int] = {}

    def number(self, name: str, file: str = "", line: int = 0) -> int:
        """Return the number of a frame; a line counts where its file is known."""
        return self._number.setdefault((clean_name(name), file, max(line, 0) if file else 0), len(self._number))

    def texts(self) -> Iterator[str]:
        for number, (name, file, line) in enumerate(self._number):
            frame: dict[str, Any] = {"name": name}
            frame |= {"file": clean_name(file)} if file else {}
            frame |= {"line": line} if file and line else {}
            yield f"{',' if number else ''}\n{json.dumps(frame)}"


def _choose_unit(unit: str) -> Scale:
    """Return a unit that speedscope knows, and how many of it one of the metric's is."""
    seconds = time_unit(unit)
    if seconds is not None:
        return Scale(1.0, TIMES[seconds], unit) if seconds in TIMES else Scale(seconds, "seconds", unit)
    factor, base = unit_factor(unit)
    return Scale(factor, "bytes", unit) if base.lower() in ("b", "byte", "bytes") else Scale(1.0, "none", unit)


class SpeedscopeWriter(StackWriter):
    """A file in the making."""

    def __init__(self, target: Path, options: WriteOptions) -> None:
        super().__init__(target, options)
        self._n_profiles = 0
        self._names: list[str] = []  # of the profiles of the input

    def _make(self, tables: Experiment) -> Iterator[bytes]:
        traces = tables.traces
        has_costs, has_traces = bool(tables.metrics.quantities), bool(traces.n_samples or traces.n_spans)
        if not has_costs and not has_traces:
            raise UsageError(f"{self.target}: {tables.path or tables.title} has neither costs nor traces")
        self._names = name_profiles(tables)
        frames = _FrameTable()
        labels = Labels.short(tables.contexts)
        of_labels = list(_frames_of(tables, labels, frames))
        about = json.dumps({"$schema": SCHEMA, "exporter": "callgrove", "name": clean_name(tables.title)})
        yield f'{about[:-1]}, "activeProfileIndex": 0, "profiles": ['.encode()
        if has_costs:
            yield from self._costs(tables, labels, of_labels)
        bounds = _bounds(traces) if has_traces else (0, 0)
        if traces.n_samples:
            yield from self._samples(tables, [of_labels[number] for number in labels.of.tolist()], frames, bounds)
        if traces.n_spans:
            yield from self._spans(tables, frames, bounds)
        yield b'\n],\n"shared": {"frames": ['
        yield from in_pieces(frames.texts())
        yield b"\n]}}\n"
        self._say_losses(tables, traces=False)
        if traces.counters is not None and len(traces.counters):
            self._report.add(f"counters over time: {len(traces.counters):,} values are left out")

    def _open_profile(self, type_: str, name: str, unit: str, start: float, end: float) -> str:
        """Return the beginning of a profile."""
        comma = "," if self._n_profiles else ""
        self._n_profiles += 1
        about = {"type": type_, "name": clean_name(name), "unit": unit, "startValue": start, "endValue": end}
        return f"{comma}\n{json.dumps(about)[:-1]}"

    # -- costs ---------------------------------------------------------------------------------------------------------

    def _costs(self, tables: Experiment, labels: Labels, of_labels: Sequence[int]) -> Iterator[bytes]:
        name = choose_metric(tables, self.target)
        tree, report = tables.contexts, self._report
        costs = self._without_negative(tables, name, exclusive_costs(tables, name, report))
        owner = owners(tree, ~tree.folded)
        stacks = merge_stacks(tree, owner, np.array(of_labels, np.int64)[labels.of[owner]])
        unit = _choose_unit(tables.metrics.first(name).unit)
        profiles = choose_profiles(tables, report)
        several = len(tables.profiles.measured) != 1
        first = f"{name}, all profiles" if several else self._names[int(tables.profiles.measured[0])]
        yield from self._write_sampled(first, name, stacks, costs, unit)
        for batch in batches(tables, profiles if several else profiles[:0]):
            matrix = tables.matrix(name, Scope.EXCLUSIVE, batch)[: tree.n_listed]
            for column, profile in enumerate(batch.tolist()):
                numbers = self._without_negative(tables, name, make_finite(matrix[:, column], name, report))
                yield from self._write_sampled(self._names[profile], f"{name} by profile", stacks, numbers, unit)
        report.hint(unit.say(name) if unit.unit != "none" else f"numbers are those of {name}")
        self._say_metrics(tables, name)
        if tree.folded.any():
            report.add("source lines, call sites and instructions: costs are those of their functions and loops")
        report.add("modules: frames have names, files and lines")

    def _write_sampled(self, title: str, what: str, stacks: Frames, costs: Array, unit: Scale) -> Iterator[bytes]:
        """Yield one profile: all stacks that cost anything."""
        self._give(what, costs)
        weights = stacks.add_up(costs)
        if unit.factor != 1:
            weights = weights.astype(np.float64) * unit.factor
        used = weights != 0
        total = float(weights.sum()) if weights.dtype.kind == "f" else int(weights.sum())
        yield self._open_profile("sampled", title, unit.unit, 0, total).encode()
        yield b', "samples": ['
        yield from in_pieces(_stacks(stacks, used))
        yield b'], "weights": ['
        yield from in_pieces(f"{',' if k else ''}{w!r}" for k, w in enumerate(weights[used].tolist()))
        yield b"]}"
        self._pass_on(what, weights[used], unit)

    # -- what happened over time ---------------------------------------------------------------------------------------

    def _samples(
        self, tables: Experiment, frame: Sequence[int], frames: _FrameTable, bounds: Window
    ) -> Iterator[bytes]:
        """Yield a profile for each line of samples."""
        assert self._ledgers is not None
        stacks, n_lines, origin = SampledStacks(tables.contexts), 0, bounds[0]
        given, passed = self._ledgers.given, self._ledgers.passed
        elided = frames.number("<elided>")
        for profile, metric, line in tables.traces.lines():
            kept = line.time_ns >= 0
            if not kept.all():
                self._report.add(f"samples before time 0: {int((~kept).sum()):,} are left out")
            if metric >= 0 or n_lines >= MOST_PROFILES or not kept.any():
                self._leave_out_samples(metric, int(kept.sum()))
                continue
            n_lines += 1
            given.n_samples += int(kept.sum())
            lane = _Lane()
            passed.n_samples += _put_samples(
                lane, Samples(line.time_ns[kept], line.context[kept], line.until_ns), stacks, [*frame, elided], origin
            )
            yield from self._write_evented(f"{self._names[profile]} over time", lane)

    def _leave_out_samples(self, metric: int, n: int) -> None:
        if metric >= 0:
            self._report.add("samples that follow a metric: only samples of contexts are written")
        elif n:
            self._report.add(f"samples of more than {MOST_PROFILES} profiles: choose some of them to see these")

    def _spans(self, tables: Experiment, frames: _FrameTable, bounds: Window) -> Iterator[bytes]:
        """Yield profiles for the spans of each profile: one, and more where these overlap without nesting."""
        order = SpanOrder(np.arange(len(tables.profiles), dtype=np.int64))
        origin, until = bounds
        for chunk in tables.traces.spans(SPAN_COLUMNS):
            order.add(self._usable(chunk, until))
        names = _SpanNames(tables.traces, frames)
        lanes, here, n_profiles = _SpanLanes(origin), -1, 0
        for chunk in order.chunks():
            profile = int(chunk["profile"][0])
            if profile != here:
                yield from self._close_lanes(here, lanes)
                lanes, here, n_profiles = _SpanLanes(origin), profile, n_profiles + 1
            self._put_spans(lanes, chunk, names, n_profiles)
        yield from self._close_lanes(here, lanes)

    def _put_spans(self, lanes: _SpanLanes, chunk: SpanChunk, names: _SpanNames, n_profiles: int) -> None:
        assert self._ledgers is not None
        if n_profiles > MOST_PROFILES:
            self._ledgers.given.add_spans(chunk, times=-1)
            self._report.add(f"spans of more than {MOST_PROFILES} profiles: choose some of them to see these")
            return
        lanes.add(chunk, names)
        self._ledgers.passed.add_spans(chunk)

    def _usable(self, chunk: SpanChunk, until: int) -> SpanChunk:
        """Return spans with times that can be shown: those that never ended last as long as the trace."""
        assert self._ledgers is not None
        start = chunk["start_ns"]
        end = np.where(chunk["end_ns"] == NO_END, np.maximum(start, until), chunk["end_ns"])
        kept: Bools = (start >= 0) & (end >= start)
        if n_left := int((~kept).sum()):
            self._report.add(f"spans with impossible times: {n_left:,} are left out")
        if (chunk["end_ns"] == NO_END).any():
            self._report.add("which spans never ended: they last as long as the trace")
        usable = {**chunk, "end_ns": end}
        self._ledgers.given.add_spans({name: column[kept] for name, column in usable.items()})
        return {name: column[kept] for name, column in usable.items()}

    def _close_lanes(self, profile: int, lanes: _SpanLanes) -> Iterator[bytes]:
        for number, lane in enumerate(lanes.all):
            more = f", lane {number + 1}" if number else ""
            yield from self._write_evented(f"{self._names[profile]}{more} over time", lane)

    def _write_evented(self, title: str, lane: _Lane) -> Iterator[bytes]:
        lane.finish()
        yield self._open_profile("evented", title, "nanoseconds", lane.start, lane.end).encode()
        yield b', "events": ['
        yield from lane.events()
        yield b"]}"


def _frames_of(tables: Experiment, labels: Labels, frames: _FrameTable) -> Iterator[int]:
    """Yield the frame of each label."""
    tree, regions = tables.contexts, tables.contexts.regions
    for name, context in zip(labels.names, labels.context.tolist(), strict=True):
        region = int(tree.region[context])
        file, line = (int(regions.file[region]), int(regions.line[region])) if region >= 0 else (-1, -1)
        yield frames.number(name, regions.files.paths[file] if file >= 0 else "", line)


def _stacks(stacks: Frames, used: Bools) -> Iterator[str]:
    stack: list[str] = []
    comma = ""
    for depth, key, is_used in zip(stacks.depth.tolist(), stacks.key.tolist(), used.tolist(), strict=True):
        del stack[depth:]
        stack.append(str(key))
        if is_used:
            yield f"{comma}[{','.join(stack)}]"
            comma = ","


def _bounds(traces: Traces) -> Window:
    """Return the first and the last time of all that happened."""
    first, last = int(np.iinfo(np.int64).max), 0
    for chunk in traces.spans(("start_ns", "end_ns")):
        start = chunk["start_ns"][chunk["start_ns"] >= 0]
        first = min(first, int(start.min(initial=first)))
        last = max(last, int(chunk["end_ns"].max(initial=last)), int(start.max(initial=last)))
    for _, _, line in traces.lines():
        time = line.time_ns[line.time_ns >= 0]
        first, last = min(first, int(time.min(initial=first))), max(last, int(time.max(initial=last)))
    return min(first, last), last


# -- events that nest --------------------------------------------------------------------------------------------------


@dataclass
class _Lane:
    """Events that open and close frames one inside the other, put away as text until all of them are known."""

    start: int = 0
    end: int = 0
    _open: list[tuple[int, int]] = field(default_factory=list)  # when it ends, and its frame
    _texts: list[str] = field(default_factory=list)
    _file: IO[bytes] | None = None
    _has_any: bool = False

    def open(self, start: int, end: int, frame: int, depth: int | None = None) -> None:
        """Open a frame, after closing those that end before, or that are not above it at its depth."""
        stack = self._open
        while stack and (stack[-1][0] <= start if depth is None else len(stack) > depth):
            self._put("C", *stack.pop())
        if not self._has_any:
            self.start, self._has_any = start, True
        self._put("O", start, frame)
        stack.append((end, frame))

    def _put(self, type_: str, at: int, frame: int) -> None:
        self.end = max(self.end, at)
        self._texts.append(f'{{"type":"{type_}","at":{at},"frame":{frame}}}')
        if len(self._texts) >= 1 << 14:
            self._put_away()

    def _put_away(self) -> None:
        if self._file is None:
            self._file = tempfile.SpooledTemporaryFile(IN_MEMORY)  # noqa: SIM115 - closed when everything was given
        self._file.write(b"," if self._file.tell() else b"")
        self._file.write(",".join(self._texts).encode())
        self._texts.clear()

    def finish(self) -> None:
        """Close what is open."""
        while self._open:
            self._put("C", *self._open.pop())
        if self._texts:
            self._put_away()

    def events(self) -> Iterator[bytes]:
        """Yield the text of all events, once."""
        if self._file is not None:
            self._file.seek(0)
            while data := self._file.read(1 << 20):
                yield data
            self._file.close()


def _put_samples(lane: _Lane, line: Samples, stacks: SampledStacks, frame: Sequence[int], origin: int) -> int:
    """Put the stacks of a line into a lane, and return how many samples these are of."""
    time = np.append(line.time_ns, max(int(line.time_ns[-1]), line.until_ns or 0)) - origin
    n_samples, last = 0, len(frame) - 1
    for runs in stacks.runs(line.context):
        n_samples += runs.n_samples
        numbers = np.minimum(runs.context, last).tolist()
        columns = (time[runs.begin].tolist(), time[runs.end].tolist(), numbers, stacks.depth[runs.context].tolist())
        for begin, end, context, depth in zip(*columns, strict=True):
            lane.open(begin, end, frame[context], depth - 1)
    return n_samples


class _SpanNames:
    """Frames of spans, by what they are called."""

    def __init__(self, traces: Traces, frames: _FrameTable) -> None:
        self._strings = traces.spans_backend.strings if traces.spans_backend is not None else []
        self._frames, self._known = frames, dict[tuple[int, int], int]()

    def of(self, label: Ids, kind: Ids) -> list[int]:
        """Return the frame of each span; one without a name is called by its kind."""
        known = self._known
        pairs = list(zip(label.tolist(), kind.tolist(), strict=True))
        for number, word in set(pairs) - known.keys():
            name = self._strings[number] if number >= 0 else ""
            known[number, word] = self._frames.number(name or SpanKind(word).word)
        return [known[pair] for pair in pairs]


class _SpanLanes:
    """The lanes of one profile."""

    def __init__(self, origin: int) -> None:
        self._origin, self._lanes = origin, Lanes()
        self.all: list[_Lane] = []

    def add(self, chunk: SpanChunk, names: _SpanNames) -> None:
        """Add spans in the order of time."""
        start, end = chunk["start_ns"], chunk["end_ns"]
        n = len(start)
        lane = self._lanes.of(np.zeros(n, np.int64), np.ones(n, np.bool_), start, end)
        while len(self.all) <= int(lane.max(initial=0)):
            self.all.append(_Lane())
        frame = names.of(chunk[LABEL], chunk["kind"])
        columns = (lane.tolist(), (start - self._origin).tolist(), (end - self._origin).tolist(), frame)
        for number, begin, stop, name in zip(*columns, strict=True):
            self.all[number].open(begin, stop, name)


class SpeedscopeFormat(WrittenOnly):
    """Files for speedscope.app."""

    name = "speedscope"
    title = "speedscope file: profiles and traces (JSON)"

    def open_writer(self, target: Path, options: WriteOptions) -> SpeedscopeWriter:
        return SpeedscopeWriter(target, options)


FORMAT = SpeedscopeFormat()
