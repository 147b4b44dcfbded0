"""How an index is built: names and times in a first pass, then line by line, in bounded memory.

    1   spans in file order   -> names get numbers, spans go to the spool          samples: only times and contexts
    2   samples               -> a line for each profile
        tracks of spans       -> small ones in bundles; a large one in parts, with what is open carried on
        each                  -> items (items.py), stretches for cells and histograms (levels.py)

A track is the calls of a profile, its operations on a device, or what the profiler did there. Lines get their numbers
in the order of tracks. After each bundle, what is complete can be read.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from callgrove.analysis.timeline.items import Frames
from callgrove.analysis.timeline.stretches import Plan
from callgrove.analysis.timeline_index.answers import IndexOptions, LineKind
from callgrove.analysis.timeline_index.items import Items, ItemWriter, OpenLine
from callgrove.analysis.timeline_index.layout import IndexState, IndexWriter
from callgrove.analysis.timeline_index.levels import Levels, Stretches, base_level
from callgrove.analysis.timeline_index.nested import FOREVER, Nested, nest
from callgrove.analysis.timeline_index.spool import Spool, TrackSpans
from callgrove.arrays import ABSENT, Array, Bools, Ints, distinct
from callgrove.errors import CallgroveError
from callgrove.model.contexts import ContextKind
from callgrove.model.experiment import Experiment
from callgrove.model.traces.events import LABEL, Samples, SpanBackend, SpanKind
from callgrove.model.traces.intervals import LATEST, usable
from callgrove.model.traces.span_order import Lanes

__all__ = ["Stopped", "build"]

BATCH = 1 << 16  # spans or samples that are looked at together: arrays of these stay in the cache of a core
CELLS_AT_ONCE = 1 << 20  # of a large track
COMMIT_SEC = 0.25
N_CLASSES = 3  # of tracks of one profile: calls, device, profiler
CLASS_OF = np.full(len(SpanKind), 0)
CLASS_OF[[SpanKind.KERNEL, SpanKind.COPY, SpanKind.MEMSET]] = 1
CLASS_OF[SpanKind.OVERHEAD] = 2
KINDS = (LineKind.CALLS, LineKind.DEVICE, LineKind.PROFILER)
COLUMNS = ("profile", "kind", LABEL, "start_ns", "end_ns")
LARGEST_NARROW = 65_534  # names that 16 bits hold, beside the one that stands for none

Report = Callable[[IndexState], None]


class Stopped(CallgroveError):
    """Building was given up, since nobody waits for it."""


def build(
    experiment: Experiment, options: IndexOptions, folder: Path, key: str, report: Report | None = None
) -> IndexState:
    """Write the index of an experiment's traces into a folder, which is there and empty. `report` hears of each step
    and may raise Stopped."""
    with Spool(folder) as spool:
        return _Build(experiment, options, folder, key, spool, report or (lambda state: None)).run()


# -- names -------------------------------------------------------------------------------------------------------------


class _Names:
    """Numbers for pairs of a text and a kind, in the order of first use."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[str, str], int] = {}
        self._of_span = np.empty(0, np.int64)  # by (number of the text + 1) * number of kinds + kind

    def __len__(self) -> int:
        return len(self._numbers)

    def number(self, text: str, kind: str) -> int:
        return self._numbers.setdefault((text, kind), len(self._numbers))

    def of_spans(self, kind: Array, label: Array, backend: SpanBackend) -> Ints:
        """Return the names of spans: by the text of each or, where there is none, its kind."""
        keys = (np.maximum(label.astype(np.int64), ABSENT) + 1) * len(SpanKind) + kind
        most = int(keys.max(initial=-1)) + 1
        if most > len(self._of_span):
            self._of_span = np.append(self._of_span, np.full(2 * most - len(self._of_span), ABSENT))
        out = self._of_span[keys]
        if (out < 0).any():
            texts = backend.strings
            for key in distinct(keys[out < 0]).tolist():
                text, number = divmod(key, len(SpanKind))
                word = SpanKind(number).word
                self._of_span[key] = self.number(texts[text - 1] if text else word, word)
            out = self._of_span[keys]
        numbers: Ints = out
        return numbers

    @property
    def tables(self) -> tuple[list[str], list[str]]:
        """Return texts and kinds by number."""
        return [text for text, _ in self._numbers], [kind for _, kind in self._numbers]


class _SampleNames:
    """The names of samples by context: the function that each lies in."""

    def __init__(self, experiment: Experiment, depth: int | None, names: _Names) -> None:
        self._tree, self._depth, self._names = experiment.contexts, depth, names
        self._frames = Frames(self._tree)
        self._number = np.full(len(self._tree) + 1, ABSENT - 1, np.int64)
        self._number[-1] = ABSENT
        self._number[:-1][self._tree.idle] = ABSENT

    def of(self, contexts: Array) -> Ints:
        """Return the name of each sample, -1 where nothing ran."""
        n = len(self._tree)
        if len(contexts) and (int(contexts.min()) < ABSENT or int(contexts.max()) >= n):
            contexts = np.where((contexts >= 0) & (contexts < n), contexts, ABSENT)
        out = self._number[contexts]
        if (out < ABSENT).any():
            new = distinct(contexts[out < ABSENT])
            frames = self._frames.cut(new, self._depth)
            for context, frame in zip(new.tolist(), frames.tolist(), strict=True):
                word = ContextKind(int(self._tree.kind[frame])).word
                self._number[context] = self._names.number(self._tree.name(frame), word)
            out = self._number[contexts]
        return out


# -- what levels make --------------------------------------------------------------------------------------------------


class _Sink:
    """Writes pages and histograms as they come, and their keys in order when lines are complete."""

    def __init__(self, writer: IndexWriter) -> None:
        self._writer = writer
        self._pages: list[tuple[Array, Ints]] = []
        self._histograms: list[tuple[Array, Ints, Ints]] = []

    def add_pages(self, key: Array, cells: Array) -> None:
        first = self._writer.sizes["pages"]
        self._writer.append("pages", cells)
        self._pages.append((key, np.arange(first, first + len(key))))

    def add_histograms(self, key: Array, first: Ints, name: Array, ns: Array, *, is_wide: bool) -> None:
        names, times = ("wide_name", "wide_ns") if is_wide else ("entry_name", "entry_ns")
        place = self._writer.sizes[names]
        self._writer.append(names, name)
        self._writer.append(times, ns)
        self._histograms.append((key, first + place, np.diff(np.append(first, len(name)))))

    def finish(self) -> None:
        """Write the keys of lines that are complete."""
        self._finish(("page_key", "page_at"), self._pages)
        self._finish(("hist_key", "hist_first", "hist_n"), self._histograms)
        self._pages, self._histograms = [], []

    def _finish(self, names: tuple[str, ...], parts: Sequence[tuple[Array, ...]]) -> None:
        if parts:
            columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
            order = np.argsort(columns[0], kind="stable")
            for name, column in zip(names, columns, strict=True):
                self._writer.append(name, column[order])


# -- building ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _SampledProfile:
    profile: int
    samples: Samples


class _Build:
    def __init__(
        self, experiment: Experiment, options: IndexOptions, folder: Path, key: str, spool: Spool, report: Report
    ) -> None:
        self._experiment, self._options, self._folder, self._spool = experiment, options, folder, spool
        self._report = report
        self._names = _Names()
        self._state = IndexState(key)
        self._n_lines = 0
        self._reported = 0.0

    def run(self) -> IndexState:
        n_samples = self._experiment.traces.n_samples
        n_spans = self._experiment.traces.n_spans
        self._state = replace(self._state, n_total=2 * (n_samples + n_spans))
        sampled = self._look_at_samples()
        self._put_spans_away()
        tracks, counts = self._spool.tracks()
        self._settle_clock(sampled, tracks)
        with IndexWriter(self._folder, self._state) as self._writer:
            self._state = replace(self._state, names_check=self._writer.write_names(*self._names.tables))
            self._items, self._sink = ItemWriter(self._writer), _Sink(self._writer)
            name_bits = max(1, (len(self._names) - 1).bit_length())
            self._levels = Levels(self._sink, self._state.top, name_bits, 8 * self._state.name_bytes)
            self._writer.append("tracks", self._track_profiles(sampled, tracks))
            self._writer.commit(self._state)
            self._build_samples()
            self._build_spans(tracks, counts)
            n_total = self._state.n_total
            self._state = replace(self._state, is_complete=True, n_done=n_total)
            self._writer.commit(self._state)
            self._state = self._writer.state
        self._report(self._state)
        return self._state

    def _advance(self, n: int, n_tracks: int = 0, *, commit: bool = False) -> None:
        """Say that some steps are done; now and then others are told, with what is complete."""
        state = self._state
        n_done = min(state.n_done + n, state.n_total)
        self._state = replace(state, n_done=n_done, n_tracks_done=state.n_tracks_done + n_tracks)
        if time.monotonic() - self._reported > COMMIT_SEC:
            self._reported = time.monotonic()
            if commit:
                self._writer.commit(self._state)
            self._report(self._state)

    # -- the first pass

    def _sample_lines(self) -> Iterator[_SampledProfile]:
        for profile, samples in Plan(self._experiment).lines():
            time_ns = samples.time_ns.astype(np.int64, copy=False)
            kept = (time_ns >= 0) & (time_ns <= LATEST)
            if not kept.all():
                samples = Samples(time_ns[kept], samples.context[kept], samples.until_ns)
            if len(samples):
                yield _SampledProfile(profile, samples)

    def _look_at_samples(self) -> Ints:
        """Return the profiles with samples, give numbers to their names, and see from when to when they are."""
        profiles, n_kept = [], 0
        self._first, self._last = 2**62, 0
        self._sample_names = _SampleNames(self._experiment, self._options.depth, self._names)
        for line in self._sample_lines():
            profiles.append(line.profile)
            n_kept += len(line.samples)
            self._sample_names.of(distinct(line.samples.context))
            self._first = min(self._first, int(line.samples.time_ns[0]))
            self._last = max(self._last, int(_ends(line.samples)[-1]))
            self._advance(len(line.samples))
        return np.array(profiles, np.int64)

    def _put_spans_away(self) -> None:
        traces = self._experiment.traces
        for chunk in traces.spans(COLUMNS):
            backend = traces.spans_backend
            assert backend is not None
            kept = usable(chunk["start_ns"], chunk["end_ns"])
            n_wrong = int(len(kept) - np.count_nonzero(kept))
            rows: Bools | slice = kept if n_wrong else slice(None)
            kind, profile = chunk["kind"][rows].astype(np.int64), chunk["profile"][rows].astype(np.int64)
            name = self._names.of_spans(kind, chunk[LABEL][rows], backend)
            start, end, span = (chunk[column][rows].astype(np.int64) for column in ("start_ns", "end_ns", "span"))
            self._spool.add(TrackSpans(profile * N_CLASSES + CLASS_OF[kind], start, end, name, span))
            self._state = replace(self._state, n_left_out=self._state.n_left_out + n_wrong)
            self._advance(len(kept))

    def _settle_clock(self, sampled: Ints, tracks: Ints) -> None:
        first, last = min(self._first, self._spool.first_ns), max(self._last, self._spool.last_ns)
        if not len(sampled) and not len(tracks):
            first = last = 0
        length = max(1, last - first)
        self._state = replace(
            self._state,
            origin=first,
            length=length,
            top=(length - 1).bit_length(),
            name_bytes=2 if len(self._names) <= LARGEST_NARROW else 4,
            row_bytes=4 if self._experiment.traces.n_spans < 2**32 else 8,
            n_tracks=len(sampled) + len(tracks),
        )

    def _track_profiles(self, sampled: Ints, tracks: Ints) -> Ints:
        return np.append(sampled, tracks // N_CLASSES)

    # -- samples

    def _build_samples(self) -> None:
        waiting: list[_SampledProfile] = []
        n_waiting = 0
        for line in self._sample_lines():
            if waiting and n_waiting + len(line.samples) > BATCH:
                self._add_sampled(waiting)
                waiting, n_waiting = [], 0
            if len(line.samples) > 2 * BATCH:
                self._add_long_samples(line)
            else:
                waiting.append(line)
                n_waiting += len(line.samples)
        if waiting:
            self._add_sampled(waiting)

    def _add_sampled(self, sampled: list[_SampledProfile]) -> None:
        """Add lines of samples that are in memory."""
        first = self._n_lines
        length = np.array([len(one.samples) for one in sampled])
        line = np.repeat(np.arange(len(sampled)) + first, length)
        start = np.concatenate([one.samples.time_ns for one in sampled]).astype(np.int64) - self._state.origin
        end = np.concatenate([_ends(one.samples) for one in sampled]) - self._state.origin
        name = self._sample_names.of(np.concatenate([one.samples.context for one in sampled]))
        stretches = _join_equal(Stretches(line, start, end, name))
        base = self._bases(stretches, first, len(sampled))
        lines = {first + k: OpenLine(one.profile, LineKind.SAMPLES, 0, int(base[k])) for k, one in enumerate(sampled)}
        self._items.add(Items(line, start, end, end, name, np.empty(0, np.int64)), lines)
        self._add_stretches(stretches, lines, first, base)
        self._finish(lines, int(length.sum()), len(sampled))

    def _add_long_samples(self, sampled: _SampledProfile) -> None:
        """Add a line of samples part by part."""
        number, samples, origin = self._n_lines, sampled.samples, self._state.origin
        start, end = samples.time_ns, _ends(samples)
        base = np.array([base_level((int(end[-1]) - int(start[0])) / len(start), self._state.top)])
        lines = {number: OpenLine(sampled.profile, LineKind.SAMPLES, 0, int(base[0]))}
        for low, high, until in _time_parts(start, end, CELLS_AT_ONCE << int(base[0])):
            some = slice(low, high)
            name = self._sample_names.of(samples.context[some])
            line = np.full(high - low, number)
            starts, ends = start[some].astype(np.int64) - origin, end[some] - origin
            self._items.add(Items(line, starts, ends, ends, name, np.empty(0, np.int64)), lines)
            stretches = _join_equal(Stretches(line, starts, ends, name))
            self._add_stretches(stretches, lines, number, base, number, until - origin)
            self._advance(high - low, commit=False)
        self._add_stretches(_NOTHING, lines, number, base)
        self._finish(lines, 0, 1)

    # -- spans

    def _build_spans(self, tracks: Ints, counts: Ints) -> None:
        """Build tracks: small ones together, a large one by itself."""
        most = max(1, 2**62 // self._state.length)
        first = 0
        while first < len(tracks):
            if counts[first] > 2 * BATCH:
                track = int(tracks[first])
                add = self._add_long_calls if track % N_CLASSES == 0 else self._add_long_lanes
                add(track, int(counts[first]))
                last = first + 1
            else:
                last = first + max(1, int(np.searchsorted(np.cumsum(counts[first : first + most]), BATCH)))
                self._add_tracks(tracks[first:last])
            first = last

    def _add_tracks(self, tracks: Ints) -> None:
        """Add the lines of some tracks, all spans of which are in memory."""
        spans = self._spool.read(int(tracks[0]), int(tracks[-1]))
        n_read = len(spans)
        track = np.searchsorted(tracks, spans.track)
        is_call = tracks % N_CLASSES == 0
        nests = is_call[track]
        calls, shift = _side_by_side(spans.take(np.flatnonzero(nests)), track[nests], len(tracks))
        nested, kept = self._nest(calls.start, calls.end, FOREVER, 0)
        calls, called = calls.take(kept), track[nests][kept]
        others, other = spans.take(np.flatnonzero(~nests)), track[~nests]
        lane = Lanes().of(other, np.zeros(len(other), np.bool_), others.start, others.end)
        n_lanes = np.ones(len(tracks), np.int64)
        np.maximum.at(n_lanes, other, lane + 1)
        first_line = self._n_lines + np.cumsum(n_lanes) - n_lanes
        line_of_other = first_line[other] + lane
        order = np.argsort(line_of_other, kind="stable")
        others, line_of_other = others.take(order), line_of_other[order]

        origin = self._state.origin
        pieces = Stretches(
            first_line[called[nested.piece_of]],
            nested.piece_start - shift[called[nested.piece_of]] - origin,
            nested.piece_end - shift[called[nested.piece_of]] - origin,
            calls.name[nested.piece_of],
        )
        flat = Stretches(line_of_other, others.start - origin, others.end - origin, others.name)
        stretches = _join_lines(pieces, flat)
        n_lines = int(n_lanes.sum())
        base = self._bases(stretches, self._n_lines, n_lines)
        of_line = np.repeat(np.arange(len(tracks)), n_lanes)
        lanes = np.arange(n_lines) - (first_line - self._n_lines)[of_line]
        lines = {
            self._n_lines + k: OpenLine(int(t) // N_CLASSES, KINDS[int(t) % N_CLASSES], int(lanes[k]), int(base[k]))
            for k, t in enumerate(tracks[of_line].tolist())
        }
        start, end = nested.start - shift[called] - origin, nested.end - shift[called] - origin
        whole = calls.end - shift[called] - origin
        parents = calls.name[nested.parent] if len(calls) else nested.parent
        self._items.add(
            Items(
                first_line[called],
                *(start, end, whole, calls.name),
                self._rows(calls),
                nested.parent,
                np.where(nested.parent >= 0, parents, ABSENT),
                nested.depth,
            ),
            lines,
        )
        start, end = others.start - origin, others.end - origin
        self._items.add(Items(line_of_other, start, end, end, others.name, self._rows(others)), lines)
        self._add_stretches(stretches, lines, self._n_lines, base)
        self._finish(lines, n_read, len(tracks))

    def _nest(self, start: Ints, end: Ints, until: int, n_open: int) -> tuple[Nested, Ints]:
        """Return spans nested, and which of them; those that are too deep are left out."""
        nested = nest(start, end, until)
        kept = np.arange(len(start))
        if self._options.depth is not None:
            kept = np.flatnonzero(nested.depth < self._options.depth)
            if len(kept) < len(start):
                nested = nest(start[kept], end[kept], until)
        return nested, kept

    def _rows(self, spans: TrackSpans) -> Ints:
        return spans.row if self._options.with_rows else np.empty(0, np.int64)

    def _add_long_calls(self, track: int, count: int) -> None:
        """Add the line of a track of calls that is too long for memory."""
        number, origin = self._n_lines, self._state.origin
        base = np.array([base_level(self._state.length / (2 * count), self._state.top)])
        lines = {number: OpenLine(track // N_CLASSES, LineKind.CALLS, 0, int(base[0]))}
        opened, low = _Opened.nothing(), 0
        for spans, high in _with_next(self._spool.merge(track)):
            ends = np.append(spans.end, opened.end + origin)
            last = int(ends.max()) if high == FOREVER else high
            for first, after, until in _time_parts(spans.start, spans.start, CELLS_AT_ONCE << int(base[0]), low, last):
                some = spans.take(slice(first, after))
                bound = FOREVER if until == last and high == FOREVER else until - origin
                opened = self._add_calls(some, lines, number, base, opened, max(0, low - origin), bound)
                low = until
            self._advance(len(spans))
        self._add_stretches(_NOTHING, lines, number, base)
        self._finish(lines, 0, 1)

    def _add_calls(
        self, spans: TrackSpans, lines: Lined, number: int, base: Ints, opened: _Opened, low: int, until: int
    ) -> _Opened:
        """Add a part of a track, with what was open before; return what is open after it."""
        n, origin = len(opened), self._state.origin
        start = np.append(np.full(n, low), spans.start - origin)
        nested, kept = self._nest(start, np.append(opened.end, spans.end - origin), until, n)
        for place in np.flatnonzero(nested.end[:n] < opened.end).tolist():
            begin = int(opened.start[place])
            self._items.cut(
                int(opened.item[place]), begin, int(nested.end[place]) - begin, int(opened.whole[place]) - begin
            )
        new = spans.take(kept[n:] - n)
        name = np.append(opened.name, new.name)
        parent = nested.parent[n:]
        items = Items(
            np.full(len(new), number),
            *(new.start - origin, nested.end[n:], new.end - origin, new.name),
            self._rows(new),
            np.where(parent >= n, parent - n, np.where(parent >= 0, -2 - parent, ABSENT)),
            np.where(parent >= 0, name[parent], ABSENT) if len(name) else parent,
            nested.depth[n:],
            opened.item,
        )
        item = self._items.add(items, lines)
        line = np.full(len(nested.piece_of), number)
        pieces = Stretches(line, nested.piece_start, nested.piece_end, name[nested.piece_of])
        self._add_stretches(pieces, lines, number, base, number, until)
        every = _Opened(
            np.append(opened.start, items.start),
            nested.end,
            np.append(opened.whole, items.whole_end),
            name,
            np.append(opened.item, item),
        )
        return every.take(np.flatnonzero(nested.end > until))

    def _add_long_lanes(self, track: int, count: int) -> None:
        """Add the lines of a device that is too long for memory: one for each lane."""
        first, origin = self._n_lines, self._state.origin
        level = base_level(self._state.length / count, self._state.top)
        kind = KINDS[track % N_CLASSES]
        lines: Lined = {}
        lanes = Lanes()
        for spans, high in _with_next(self._spool.merge(track)):
            zero = np.zeros(len(spans), np.int64)
            lane = lanes.of(zero, zero.astype(np.bool_), spans.start, spans.end).astype(np.int64)
            order = np.argsort(lane, kind="stable")
            some, line = spans.take(order), first + lane[order]
            for number in range(first + len(lines), int(line[-1]) + 1):
                lines[number] = OpenLine(track // N_CLASSES, kind, number - first, level)
            start, end = some.start - origin, some.end - origin
            self._items.add(Items(line, start, end, end, some.name, self._rows(some)), lines)
            base = np.full(len(lines), level)
            until = FOREVER if high == FOREVER else high - origin
            self._add_stretches(Stretches(line, start, end, some.name), lines, first, base, first, until)
            self._advance(len(spans))
        self._add_stretches(_NOTHING, lines, first, np.full(len(lines), level))
        self._finish(lines, 0, 1)

    # -- both

    def _bases(self, stretches: Stretches, first: int, n: int) -> Ints:
        """Return the base level of lines by the mean length of their stretches."""
        base = np.full(n, base_level(1, self._state.top))
        if len(stretches):
            at = np.flatnonzero(np.append(True, stretches.line[1:] != stretches.line[:-1]))
            busy = stretches.end - stretches.start
            busy[stretches.name < 0] = 0
            total, count = np.add.reduceat(busy, at), np.add.reduceat(busy > 0, at)
            means = (total / np.maximum(count, 1)).tolist()
            base[stretches.line[at] - first] = [base_level(mean, self._state.top) for mean in means]
        return base

    def _add_stretches(
        self, stretches: Stretches, lines: Lined, first: int, base: Ints, open_from: int = FOREVER, until: int = FOREVER
    ) -> None:
        kept = np.flatnonzero((stretches.end > stretches.start) & (stretches.name >= 0))
        if len(kept) < len(stretches):
            stretches = stretches.take(kept)
        if len(stretches):
            at = np.flatnonzero(np.append(True, stretches.line[1:] != stretches.line[:-1]))
            busy = np.add.reduceat(stretches.end - stretches.start, at)
            for line, ns in zip(stretches.line[at].tolist(), busy.tolist(), strict=True):
                lines[line].busy_ns += ns
        self._levels.add(stretches, first, base, open_from, until)

    def _finish(self, lines: Lined, n_steps: int, n_tracks: int) -> None:
        """Say that lines are complete."""
        self._items.finish(list(lines.values()))
        self._sink.finish()
        self._n_lines += len(lines)
        self._advance(n_steps, n_tracks, commit=True)


# -- helpers of building ----------------------------------------------------------------------------------------------


Lined = dict[int, OpenLine]  # by number, in their order
_NOTHING = Stretches(*(np.empty(0, np.int64) for _ in range(4)))


@dataclass(frozen=True)
class _Opened:
    """Calls that go on after a part, from the outside in. Times are ns since the origin."""

    start: Ints
    end: Ints
    whole: Ints
    name: Ints
    item: Ints

    def __len__(self) -> int:
        return len(self.start)

    def take(self, rows: Ints) -> _Opened:
        return _Opened(self.start[rows], self.end[rows], self.whole[rows], self.name[rows], self.item[rows])

    @classmethod
    def nothing(cls) -> _Opened:
        return cls(*(np.empty(0, np.int64) for _ in range(5)))


def _ends(samples: Samples) -> Ints:
    """Return until when samples hold: the last one not at all, or as long as is known."""
    last = int(samples.time_ns[-1])
    until = last if samples.until_ns is None else min(max(last, samples.until_ns), LATEST)
    return np.append(samples.time_ns[1:].astype(np.int64, copy=False), until)


def _join_equal(stretches: Stretches) -> Stretches:
    """Return stretches, with neighbours of one name as one."""
    line, name = stretches.line, stretches.name
    fresh = np.append(True, (line[1:] != line[:-1]) | (name[1:] != name[:-1]))
    fresh[1:] |= stretches.start[1:] != stretches.end[:-1]
    at = np.flatnonzero(fresh)
    last = np.append(at[1:], len(line)) - 1
    return Stretches(line[at], stretches.start[at], stretches.end[last], name[at])


def _join_lines(one: Stretches, other: Stretches) -> Stretches:
    """Return both, by line."""
    if not len(one) or not len(other):
        return one if len(one) else other
    columns = ("line", "start", "end", "name")
    both = Stretches(*(np.concatenate([getattr(one, name), getattr(other, name)]) for name in columns))
    return both.take(np.argsort(both.line, kind="stable"))


def _side_by_side(spans: TrackSpans, track: Ints, n_tracks: int) -> tuple[TrackSpans, Ints]:
    """Return spans of several tracks with times that are one after the other, and how far each track was moved."""
    low, high = np.full(n_tracks, 2**62), np.zeros(n_tracks, np.int64)
    np.minimum.at(low, track, spans.start)
    np.maximum.at(high, track, spans.end)
    length = np.where(high >= low, high - low + 1, 0)
    shift = np.cumsum(length) - length - np.where(length > 0, low, 0)
    moved = shift[track]
    return TrackSpans(spans.track, spans.start + moved, spans.end + moved, spans.name, spans.row), shift


def _with_next(parts: Iterator[TrackSpans]) -> Iterator[tuple[TrackSpans, int]]:
    """Yield each part with the first start of the next one, FOREVER after the last."""
    here = next(parts, None)
    while here is not None:
        ahead = next(parts, None)
        yield here, FOREVER if ahead is None else int(ahead.start[0])
        here = ahead


def _time_parts(
    start: Ints, end: Ints, longest: int, low: int | None = None, high: int | None = None
) -> Iterator[tuple[int, int, int]]:
    """Yield the first and last row of parts of limited length and number of rows, and until when they go."""
    n = len(start)
    now = int(start[0]) if low is None and n else low or 0
    last = max(int(end[-1]), now) if high is None else high
    row = 0
    while True:
        until = min(last, max(now, int(start[row]) if row < n else now) + longest)
        after = n if until == last else int(np.searchsorted(start, until))
        if after - row > BATCH:
            until = int(start[row + BATCH])
            after = int(np.searchsorted(start, until))
            if after <= row:  # all of them start together
                after = int(np.searchsorted(start, until, side="right"))
                until = last if after >= n else int(start[after])
        yield row, after, until
        row, now = after, until
        if row >= n and until >= last:
            return
