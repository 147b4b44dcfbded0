"""Samples and spans of profiles as stretches of time that cover a window: nothing is left out, nothing counts twice.

Samples of a profile, in the order of time; the last one stands for nothing:

    samples          a     b  b     -        c
    stretches     ...|--a--|--b-----|--idle--|...          ... (no trace)

Spans of a profile. A moment belongs to the innermost span: of those that are open, the one that started last.

    spans            |--a-----------|      |--c--|
                          |--b--|
    innermost     ...|-a--|--b--|-a-|......|--c--|...      ... idle on a device
    whole            |--a-----------|      |--c--|         and b, which lies in a

On a thread, what lies between the first and the last span is `(between spans)`: its own code is not traced. Spans that
end before they start, or at times that no clock shows, are left out and counted.

Memory holds some lines of samples, or one chunk of spans and those that are open when it ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from callgrove.analysis.timeline.items import (
    ClassRules,
    Items,
    SampleItems,
    SpanItems,
    State,
    kinds_of_contexts,
)
from callgrove.arrays import ABSENT, Array, Bools, Ints, Translation, distinct_rows, in_order
from callgrove.model.experiment import Experiment
from callgrove.model.profiles import ProfileKind
from callgrove.model.traces.events import LABEL, Samples, SpanChunk, SpanKind, Window
from callgrove.model.traces.intervals import innermost, nesting, usable
from callgrove.model.traces.span_order import SpanOrder

__all__ = ["Batch", "Plan", "Stretches", "Survey", "batches", "look_over"]

SAMPLES_AT_ONCE = 1 << 18
LINES_AT_ONCE = 1 << 12
SPANS_IN_MEMORY = 1 << 20
END = 2**62  # after everything
ON_DEVICE = (ProfileKind.GPU_STREAM, ProfileKind.GPU, ProfileKind.QUEUE, ProfileKind.ACCELERATOR)


@dataclass(frozen=True)
class Plan:
    """Whose traces are looked at, and how. `kinds` are words for kinds of contexts and spans, None is all; `followed`
    are rows of metrics that lines of samples follow; -1 stands for lines that follow none."""

    experiment: Experiment
    profiles: Ints | None = None
    kinds: tuple[str, ...] | None = None
    depth: int | None = None
    followed: tuple[int, ...] = (ABSENT,)
    rules: ClassRules = field(default_factory=ClassRules)

    @cached_property
    def chosen(self) -> Bools:
        """Which profiles are looked at."""
        out = np.zeros(len(self.experiment.profiles), np.bool_)
        out[slice(None) if self.profiles is None else self.profiles] = True
        return out

    @cached_property
    def span_kinds(self) -> Bools:
        """Which kinds of spans are looked at."""
        return np.array([self.kinds is None or kind.word in self.kinds for kind in SpanKind], np.bool_)

    def keep_spans(self, chunk: SpanChunk) -> tuple[Bools, int]:
        """Return which spans of a chunk count, and how many of those that were asked for have times that cannot be."""
        asked = self.chosen[chunk["profile"]] & self.span_kinds[chunk["kind"]]
        kept = asked & usable(chunk["start_ns"], chunk["end_ns"])
        return kept, int(asked.sum() - kept.sum())

    def lines(self) -> Iterator[tuple[int, Samples]]:
        """Yield the samples of each profile that has any, in the order of time."""
        backend = self.experiment.traces.samples
        if backend is None:
            return
        lines = np.flatnonzero(self.chosen[backend.profile] & np.isin(backend.metric, self.followed))
        lines = lines[np.argsort(backend.profile[lines], kind="stable")]
        first = np.flatnonzero(np.diff(backend.profile[lines], prepend=-1))
        for some in np.split(lines, first[1:]) if len(lines) else []:
            samples = _join([backend.line(int(line)) for line in some.tolist()])
            if len(samples):
                yield int(backend.profile[some[0]]), samples


def _join(lines: list[Samples]) -> Samples:
    """Return the samples of one profile in the order of time; those of equal times stay as they are."""
    line = lines[0]
    if len(lines) > 1:
        untils = [one.until_ns for one in lines if one.until_ns is not None]
        time, context = (
            np.concatenate(columns) for columns in zip(*((one.time_ns, one.context) for one in lines), strict=True)
        )
        line = Samples(time, context, max(untils, default=None))
    if len(line) and (line.time_ns[1:] < line.time_ns[:-1]).any():
        order = np.argsort(line.time_ns, kind="stable")
        line = Samples(line.time_ns[order], line.context[order], line.until_ns)
    return line


# -- what there is -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Survey:
    """Which profiles have samples, which have spans and from when to when, the time from the first to the last event of
    all of them, and how many spans have times that cannot be."""

    has_samples: Bools
    has_spans: Bools
    first_ns: Ints
    last_ns: Ints
    whole: Window | None
    n_flagged: int

    @cached_property
    def n_tracks(self) -> int:
        """Profiles with a trace; one with samples and spans counts twice."""
        return int(self.has_samples.sum() + self.has_spans.sum())

    @property
    def has_trace(self) -> Bools:
        out: Bools = self.has_samples | self.has_spans
        return out


def look_over(plan: Plan) -> Survey:
    """Look at all times."""
    n = len(plan.experiment.profiles)
    has_samples = np.zeros(n, np.bool_)
    first_ns, last_ns = np.full(n, END), np.full(n, -END)
    edges: list[int] = []
    for profile, line in plan.lines():
        has_samples[profile] = True
        last = int(line.time_ns[-1])
        edges += [int(line.time_ns[0]), last if line.until_ns is None else max(last, line.until_ns)]
    n_flagged = 0
    for chunk in plan.experiment.traces.spans(("profile", "kind", "start_ns", "end_ns")):
        kept, n_wrong = plan.keep_spans(chunk)
        n_flagged += n_wrong
        np.minimum.at(first_ns, chunk["profile"][kept], chunk["start_ns"][kept])
        np.maximum.at(last_ns, chunk["profile"][kept], chunk["end_ns"][kept])
    has_spans = first_ns < END
    if has_spans.any():
        edges += [int(first_ns[has_spans].min()), int(last_ns[has_spans].max())]
    whole = (min(edges), max(edges)) if edges else None
    return Survey(has_samples, has_spans, first_ns, last_ns, whole, n_flagged)


# -- stretches ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Stretches:
    """Columns of stretches of time, each of one item of one profile."""

    profile: Array
    item: Ints
    start: Ints
    end: Ints

    def __len__(self) -> int:
        return len(self.start)

    def take(self, rows: Array) -> Stretches:
        return Stretches(*(getattr(self, name)[rows] for name in self.__dataclass_fields__))

    def clip(self, low: int, high: int) -> Stretches:
        """Return what lies from `low` to `high`, as far as it lasts any time."""
        start, end = np.maximum(self.start, low), np.minimum(self.end, high)
        kept = end > start
        return Stretches(self.profile[kept], self.item[kept], start[kept], end[kept])

    @classmethod
    def concatenate(cls, parts: list[Stretches]) -> Stretches:
        empty = np.empty(0, np.int64)
        fields = cls.__dataclass_fields__
        return cls(*(np.concatenate([empty, *(getattr(part, name) for part in parts)]) for name in fields))


@dataclass(frozen=True)
class Batch:
    """Some stretches: by what is innermost, by what is open at all (None: the same), and those in which nothing is.
    `begins` has events by the time at which they begin, which is both start and end. `is_last`: nothing more comes of
    these profiles."""

    innermost: Stretches
    whole: Stretches | None
    gaps: Stretches
    begins: Stretches
    is_last: bool


def batches(plan: Plan, survey: Survey, window: Window, items: Items, with_whole: bool) -> Iterator[Batch]:
    """Yield what went on in a window. Over all batches, what is innermost and the gaps of a profile cover it exactly
    once. Events at the last moment of all traces belong to a window that ends with it."""
    is_closed = survey.whole is not None and window[1] == survey.whole[1]
    until = window[1] + 1 if is_closed else window[1]
    if survey.has_samples.any():
        tree = plan.experiment.contexts
        kinds = kinds_of_contexts(plan.kinds)
        sampled = SampleItems(items, tree, plan.depth, plan.rules, kinds)
        yield from _sample_batches(plan, window, until, items, sampled)
    if survey.has_spans.any():
        yield from _SpanBatches(plan, survey, window, until, items, with_whole).all()


def _begin(profile: Array, item: Ints, time: Ints, window: Window, until: int) -> Stretches:
    """Return what begins in a window."""
    inside = (time >= window[0]) & (time < until)
    moments = time[inside]
    return Stretches(profile[inside], item[inside], moments, moments)


def _sample_batches(plan: Plan, window: Window, until: int, items: Items, sampled: SampleItems) -> Iterator[Batch]:
    waiting: list[tuple[int, Samples]] = []
    n_waiting = 0
    for profile, line in plan.lines():
        waiting.append((profile, line))
        n_waiting += len(line)
        if n_waiting >= SAMPLES_AT_ONCE or len(waiting) >= LINES_AT_ONCE:
            yield _stretch_samples(waiting, window, until, items, sampled)
            waiting, n_waiting = [], 0
    if waiting:
        yield _stretch_samples(waiting, window, until, items, sampled)


def _stretch_samples(
    lines: list[tuple[int, Samples]], window: Window, until: int, items: Items, sampled: SampleItems
) -> Batch:
    """Return the samples of whole lines as stretches."""
    length = np.array([len(line) for _, line in lines])
    profiles = np.array([profile for profile, _ in lines], np.int64)
    time = np.concatenate([line.time_ns for _, line in lines]).astype(np.int64, copy=False)
    context = np.concatenate([line.context for _, line in lines])
    last = np.cumsum(length) - 1
    end = np.append(time[1:], 0)
    untils = [line.until_ns for _, line in lines]
    end[last] = [at if lasts is None else max(at, lasts) for at, lasts in zip(time[last].tolist(), untils, strict=True)]
    profile, item = np.repeat(profiles, length), sampled.of(context)
    missing = np.full(len(lines), items.special(State.NO_TRACE))
    outside = [
        Stretches(profiles, missing, np.full(len(lines), window[0]), time[last - length + 1]),
        Stretches(profiles, missing, end[last], np.full(len(lines), window[1])),
    ]
    return Batch(
        Stretches(profile, item, time, end).clip(*window),
        None,
        Stretches.concatenate([one.clip(*window) for one in outside]),
        _begin(profile, item, time, window, until),
        True,
    )


# -- spans -------------------------------------------------------------------------------------------------------------


COLUMNS = ("profile", "kind", LABEL, "start_ns", "end_ns")
KEPT = ("span", "profile", "kind", "name", "context", "start_ns", "end_ns")


class _SpanBatches:
    """Spans part by part, in the order of time within each."""

    def __init__(self, plan: Plan, survey: Survey, window: Window, until: int, items: Items, with_whole: bool) -> None:
        self._plan, self._survey, self._window, self._until = plan, survey, window, until
        self._items, self._with_whole = items, with_whole
        self._spans = SpanItems(items, plan.rules)
        self._translation = Translation(items.texts)
        self._is_device = np.isin(plan.experiment.profiles.kind, ON_DEVICE)
        self._reached = np.full(len(self._is_device), window[0])  # by profile: until when stretches were given
        self._is_open = survey.has_spans.copy()  # profiles of which something is to come

    def all(self) -> Iterator[Batch]:
        """Yield all batches."""
        traces = self._plan.experiment.traces
        part_of = np.full(len(self._is_device), ABSENT)
        for number, profiles in enumerate(traces.parts()):
            part_of[profiles] = number
        part, order = ABSENT, self._new_order()
        columns = (*COLUMNS, *(("context",) if self._items.wants("context") else ()))
        for chunk in traces.spans(columns, (self._window[0], self._until), self._plan.profiles):
            kept = np.flatnonzero(self._plan.keep_spans(chunk)[0])
            if not len(kept):
                continue
            number = int(part_of[chunk["profile"][kept[0]]])
            if number != part:
                yield from self._drain(order, part_of == part)
                part, order = number, self._new_order()
            order.add(self._prepare(chunk, kept))
        yield from self._drain(order, part_of == part)
        yield self._last_gaps(self._is_open)

    def _new_order(self) -> SpanOrder:
        return SpanOrder(np.zeros(len(self._is_device), np.int64), SPANS_IN_MEMORY)

    def _prepare(self, chunk: SpanChunk, kept: Ints) -> SpanChunk:
        """Return some spans of a chunk, with numbers of texts for names."""
        backend = self._plan.experiment.traces.spans_backend
        assert backend is not None
        label = self._translation.numbers(np.maximum(chunk[LABEL][kept], ABSENT), backend.strings)
        kind = chunk["kind"][kept]
        columns = {
            **{name: chunk[name][kept] for name in ("span", "profile", "start_ns", "end_ns")},
            "kind": kind,
            "name": self._spans.name(kind, label),
            "context": chunk["context"][kept] if "context" in chunk else np.full(len(kept), ABSENT),
        }
        return {name: column.astype(np.int64) for name, column in columns.items()}

    def _drain(self, order: SpanOrder, profiles: Bools) -> Iterator[Batch]:
        """Yield the spans of one part. Those that are still open when a chunk ends are looked at again with the next
        one: time is given up to the first start of the next chunk, after which nobody can take any of it."""
        chunks = order.chunks()
        opened: SpanChunk | None = None
        ahead, low = next(chunks, None), -END
        if ahead is None:
            return
        while ahead is not None:
            chunk, ahead = ahead, next(chunks, None)
            high = END if ahead is None else int(ahead["start_ns"][0])
            now = chunk if opened is None else {name: np.concatenate([opened[name], chunk[name]]) for name in KEPT}
            n_old = 0 if opened is None else len(opened["span"])
            yield self._stretch(now, n_old, max(low, self._window[0]), min(high, self._window[1]))
            still = now["end_ns"] > high
            opened, low = {name: now[name][still] for name in KEPT}, high
        yield self._last_gaps(profiles & self._is_open)

    def _stretch(self, spans: SpanChunk, n_old: int, low: int, high: int) -> Batch:
        """Return what spans took of the time from `low` to `high`; of the first `n_old`, earlier time was given."""
        start, end, profile = spans["start_ns"], spans["end_ns"], spans["profile"]
        item, depth = self._number(spans)
        kept = np.ones(len(start), np.bool_) if self._plan.depth is None else depth < self._plan.depth
        every = Stretches(profile, item, start, end)
        begun = every.take(np.flatnonzero(kept[n_old:]) + n_old)
        shown = every if kept.all() else every.take(kept)
        inner = _divide(shown, shown.profile, low, high)
        whole = None
        if self._with_whole:
            whole = _divide(shown, distinct_rows(shown.profile, shown.item)[1], low, high)
        begins = _begin(begun.profile, begun.item, begun.start, self._window, self._until)
        return Batch(inner, whole, self._gaps(inner), begins, False)

    def _number(self, spans: SpanChunk) -> tuple[Ints, Array]:
        """Return the items of spans, and how many spans each lies in; that is looked for only if somebody asks."""
        kind, name = spans["kind"], spans["name"]
        depth: Array = np.zeros(len(kind), np.int64)
        klass = depth
        if self._items.wants("class") or self._items.wants("depth") or self._plan.depth is not None:
            nest = nesting(spans["start_ns"], spans["end_ns"], spans["profile"])
            depth = nest.depth
            if self._items.wants("class"):
                klass = self._spans.classes(kind, name, nest.parent, nest.depth)
        return self._spans.of(kind, name, klass, spans["context"], depth + 1), depth

    def _gaps(self, pieces: Stretches) -> Stretches:
        """Return the time before each of some stretches, which are in order, that nothing was open on its profile."""
        if not len(pieces):
            return pieces
        profile = pieces.profile
        is_first = np.append(True, profile[1:] != profile[:-1])
        before = np.append(0, pieces.end[:-1])
        before[is_first] = self._reached[profile[is_first]]
        is_final = np.append(is_first[1:], True)
        self._reached[profile[is_final]] = pieces.end[is_final]
        return self._name_gaps(profile, before, pieces.start)

    def _last_gaps(self, profiles: Bools) -> Batch:
        """Return the time of some profiles that is left."""
        chosen = np.flatnonzero(profiles)
        self._is_open[chosen] = False
        gaps = self._name_gaps(chosen, self._reached[chosen], np.full(len(chosen), self._window[1]))
        nothing = Stretches.concatenate([])
        return Batch(nothing, None, gaps, nothing, True)

    def _name_gaps(self, profile: Array, start: Ints, end: Ints) -> Stretches:
        """Return gaps: of devices they are idle; of threads it depends on when their first and last span was."""
        first = np.where(self._is_device[profile], -END, self._survey.first_ns[profile])
        last = np.where(self._is_device[profile], END, self._survey.last_ns[profile])
        within = np.where(self._is_device[profile], self._items.special(State.IDLE), self._items.special(State.BETWEEN))
        outside = np.full(len(profile), self._items.special(State.NO_TRACE))
        parts = [
            Stretches(profile, outside, start, np.minimum(end, first)),
            Stretches(profile, within, np.maximum(start, first), np.minimum(end, last)),
            Stretches(profile, outside, np.maximum(start, last), end),
        ]
        return Stretches.concatenate([part.take(part.end > part.start) for part in parts])


def _divide(spans: Stretches, track: Array, low: int, high: int) -> Stretches:
    """Return for each track when which of its spans was innermost, from `low` to `high`, by track and start."""
    order = in_order(track, spans.start)
    tracks, start, end = track[order], spans.start[order], spans.end[order]
    overlaps = (tracks[1:] == tracks[:-1]) & (start[1:] < end[:-1])
    if not overlaps.any():
        return spans.take(order).clip(low, high)
    is_crowded = np.zeros(int(tracks[-1]) + 1, np.bool_)
    is_crowded[tracks[1:][overlaps]] = True
    alone, rows = order[~is_crowded[tracks]], order[is_crowded[tracks]]
    pieces = innermost(spans.start[rows], spans.end[rows], track[rows])
    index = np.concatenate([rows[pieces.index], alone])
    starts, ends = np.append(pieces.start, spans.start[alone]), np.append(pieces.end, spans.end[alone])
    if len(alone):
        place = in_order(track[index], starts)
        index, starts, ends = index[place], starts[place], ends[place]
    return Stretches(spans.profile[index], spans.item[index], starts, ends).clip(low, high)
