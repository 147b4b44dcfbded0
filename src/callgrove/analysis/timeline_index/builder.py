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
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from callgrove.analysis.timeline_index.answers import IndexOptions, LineKind
from callgrove.analysis.timeline_index.items import Items, ItemWriter, OpenLine
from callgrove.analysis.timeline_index.layout import IndexState, IndexWriter
from callgrove.analysis.timeline_index.levels import Levels, Stretches, base_level
from callgrove.analysis.timeline_index.nested import FOREVER, Nested, nest
from callgrove.analysis.timeline_index.preview import Preview
from callgrove.analysis.timeline_index.sources import (
    KIND_OF_TRACK,
    N_CLASSES,
    NameNumbers,
    SampledProfile,
    SampleNames,
    list_sampled_profiles,
    sample_ends,
    spans_by_track,
)
from callgrove.analysis.timeline_index.spool import Spool, TrackSpans
from callgrove.analysis.timeline_index.tracks import (
    BATCH,
    NOTHING,
    OpenCalls,
    TrackCalls,
    divide_time,
    join_equal,
    join_lines,
    side_by_side,
    with_next,
)
from callgrove.arrays import ABSENT, Array, Ints, distinct
from callgrove.errors import CallgroveError
from callgrove.model.experiment import Experiment
from callgrove.model.traces.span_order import Lanes

__all__ = ["Stopped", "build"]

CELLS_AT_ONCE = 1 << 20  # of a large track
COMMIT_SEC = 0.25
LARGEST_NARROW = 65_534  # names that 16 bits hold, beside the one that stands for none

Report = Callable[[IndexState], None]
Lined = dict[int, OpenLine]  # by number, in their order


class Stopped(CallgroveError):
    """Building was given up, since nobody waits for it."""


def build(
    experiment: Experiment,
    options: IndexOptions,
    folder: Path,
    key: str,
    report: Report | None = None,
    names: NameNumbers | None = None,
    preview: Preview | None = None,
) -> IndexState:
    """Write the index of an experiment's traces into a folder, which is there and empty. `report` hears of each step
    and may raise Stopped; `names` and `preview` get what is read, as it is read."""
    with Spool(folder) as spool:
        tell = report or (lambda state: None)
        numbers = NameNumbers() if names is None else names
        return _Build(experiment, options, folder, key, spool, tell, numbers).run(preview)


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


def _names_of_samples(names: SampleNames, contexts: Array, rows: Ints) -> Ints:
    return names.of(contexts[rows])


class _Build:
    def __init__(
        self,
        experiment: Experiment,
        options: IndexOptions,
        folder: Path,
        key: str,
        spool: Spool,
        report: Report,
        names: NameNumbers,
    ) -> None:
        self._experiment, self._options, self._folder, self._spool = experiment, options, folder, spool
        self._report, self._names = report, names
        self._state = IndexState(key)
        self._n_lines = 0
        self._reported = 0.0

    def run(self, preview: Preview | None) -> IndexState:
        n_samples = self._experiment.traces.n_samples
        n_spans = self._experiment.traces.n_spans
        self._state = replace(self._state, n_total=2 * (n_samples + n_spans))
        sampled = self._look_at_samples(preview)
        self._put_spans_away(preview)
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

    def _look_at_samples(self, preview: Preview | None) -> Ints:
        """Return the profiles with samples, give numbers to their names, and see from when to when they are."""
        profiles = []
        self._first, self._last = 2**62, 0
        self._sample_names = SampleNames(self._experiment, self._options.depth, self._names)
        for line in list_sampled_profiles(self._experiment):
            self._leave_out(line.n_left_out)
            if not len(line.samples):
                continue
            profiles.append(line.profile)
            self._sample_names.of(distinct(line.samples.context))
            self._first = min(self._first, int(line.samples.time_ns[0]))
            ends, contexts = sample_ends(line.samples), line.samples.context
            self._last = max(self._last, int(ends[-1]))
            if preview is not None:
                name_of = partial(_names_of_samples, self._sample_names, contexts)
                preview.add_samples(line.profile, line.samples.time_ns, ends, name_of)
            self._advance(len(line.samples))
        return np.array(profiles, np.int64)

    def _put_spans_away(self, preview: Preview | None) -> None:
        for spans, n_wrong in spans_by_track(self._experiment, self._names):
            self._spool.add(spans)
            if preview is not None:
                preview.add_spans(spans)
            self._leave_out(n_wrong)
            self._advance(len(spans) + n_wrong)

    def _leave_out(self, n: int) -> None:
        self._state = replace(self._state, n_left_out=self._state.n_left_out + n)

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
        waiting: list[SampledProfile] = []
        n_waiting = 0
        for line in list_sampled_profiles(self._experiment):
            if not len(line.samples):
                continue
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

    def _add_sampled(self, sampled: list[SampledProfile]) -> None:
        """Add lines of samples that are in memory."""
        first = self._n_lines
        length = np.array([len(one.samples) for one in sampled])
        line = np.repeat(np.arange(len(sampled)) + first, length)
        start = np.concatenate([one.samples.time_ns for one in sampled]).astype(np.int64) - self._state.origin
        end = np.concatenate([sample_ends(one.samples) for one in sampled]) - self._state.origin
        name = self._sample_names.of(np.concatenate([one.samples.context for one in sampled]))
        stretches = join_equal(Stretches(line, start, end, name))
        base = self._bases(stretches, first, len(sampled))
        lines = {first + k: OpenLine(one.profile, LineKind.SAMPLES, 0, int(base[k])) for k, one in enumerate(sampled)}
        self._items.add(Items(line, start, end, end, name, np.empty(0, np.int64)), lines)
        self._add_stretches(stretches, lines, first, base)
        self._finish(lines, int(length.sum()), len(sampled))

    def _add_long_samples(self, sampled: SampledProfile) -> None:
        """Add a line of samples part by part."""
        number, samples, origin = self._n_lines, sampled.samples, self._state.origin
        start, end = samples.time_ns, sample_ends(samples)
        base = np.array([base_level((int(end[-1]) - int(start[0])) / len(start), self._state.top)])
        lines = {number: OpenLine(sampled.profile, LineKind.SAMPLES, 0, int(base[0]))}
        for low, high, until in divide_time(start, end, CELLS_AT_ONCE << int(base[0])):
            some = slice(low, high)
            name = self._sample_names.of(samples.context[some])
            line = np.full(high - low, number)
            starts, ends = start[some].astype(np.int64) - origin, end[some] - origin
            self._items.add(Items(line, starts, ends, ends, name, np.empty(0, np.int64)), lines)
            stretches = join_equal(Stretches(line, starts, ends, name))
            self._add_stretches(stretches, lines, number, base, number, until - origin)
            self._advance(high - low, commit=False)
        self._add_stretches(NOTHING, lines, number, base)
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
        track = np.searchsorted(tracks, spans.track)
        nests = (tracks % N_CLASSES == 0)[track]
        calls = self._nest_tracks(spans.take(np.flatnonzero(nests)), track[nests], len(tracks))
        others, other = spans.take(np.flatnonzero(~nests)), track[~nests]
        lane = Lanes().of(other, np.zeros(len(other), np.bool_), others.start, others.end)
        n_lanes = np.ones(len(tracks), np.int64)
        np.maximum.at(n_lanes, other, lane + 1)
        first_line = self._n_lines + np.cumsum(n_lanes) - n_lanes
        line = first_line[other] + lane
        order = np.argsort(line, kind="stable")
        others, line = others.take(order), line[order]
        start, end = others.start - self._state.origin, others.end - self._state.origin

        stretches = join_lines(calls.pieces(first_line), Stretches(line, start, end, others.name))
        base = self._bases(stretches, self._n_lines, int(n_lanes.sum()))
        lines = self._open_lines(tracks, n_lanes, base)
        self._items.add(calls.items(first_line, self._rows(calls.spans)), lines)
        self._items.add(Items(line, start, end, end, others.name, self._rows(others)), lines)
        self._add_stretches(stretches, lines, self._n_lines, base)
        self._finish(lines, len(spans), len(tracks))

    def _nest_tracks(self, calls: TrackSpans, track: Ints, n_tracks: int) -> TrackCalls:
        """Nest the calls of several tracks at once."""
        moved, shift = side_by_side(calls, track, n_tracks)
        nested, kept = self._nest(moved.start, moved.end, FOREVER)
        return TrackCalls(calls.take(kept), track[kept], nested, shift + self._state.origin, self._state.origin)

    def _open_lines(self, tracks: Ints, n_lanes: Ints, base: Ints) -> Lined:
        """Return the lines of tracks, by number."""
        track = np.repeat(tracks, n_lanes).tolist()
        lane = (np.arange(len(base)) - np.repeat(np.cumsum(n_lanes) - n_lanes, n_lanes)).tolist()
        return {
            self._n_lines + k: OpenLine(track[k] // N_CLASSES, KIND_OF_TRACK[track[k] % N_CLASSES], lane[k], level)
            for k, level in enumerate(base.tolist())
        }

    def _nest(self, start: Ints, end: Ints, until: int) -> tuple[Nested, Ints]:
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
        opened, low = OpenCalls.nothing(), 0
        for spans, high in with_next(self._spool.merge(track)):
            ends = np.append(spans.end, opened.end + origin)
            last = int(ends.max()) if high == FOREVER else high
            for first, after, until in divide_time(spans.start, spans.start, CELLS_AT_ONCE << int(base[0]), low, last):
                some = spans.take(slice(first, after))
                bound = FOREVER if until == last and high == FOREVER else until - origin
                opened = self._add_calls(some, lines, number, base, opened, max(0, low - origin), bound)
                low = until
            self._advance(len(spans))
        self._add_stretches(NOTHING, lines, number, base)
        self._finish(lines, 0, 1)

    def _add_calls(
        self, spans: TrackSpans, lines: Lined, number: int, base: Ints, opened: OpenCalls, low: int, until: int
    ) -> OpenCalls:
        """Add a part of a track, with what was open before; return what is open after it."""
        n, origin = len(opened), self._state.origin
        start = np.append(np.full(n, low), spans.start - origin)
        nested, kept = self._nest(start, np.append(opened.end, spans.end - origin), until)
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
        every = OpenCalls(
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
        kind = KIND_OF_TRACK[track % N_CLASSES]
        lines: Lined = {}
        lanes = Lanes()
        for spans, high in with_next(self._spool.merge(track)):
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
        self._add_stretches(NOTHING, lines, first, np.full(len(lines), level))
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
