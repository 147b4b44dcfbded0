"""Samples and spans as events on the rows of a timeline, in the order of time, and which names take how much of it.

A sample lasts until the next one of its line; the last one of a line says only when the trace ended. Where nothing ran
(context -1) there is no event. Spans that end before they start, or at times that no clock shows, are left out and
counted. Times are ns since the beginning of the timeline.

    thread    |---- step ---------------|        events: three, `step` on level 0, the others on level 1
                |-launch-|  |-- sync --|
    own       |s|-launch-|s |-- sync --|s        own time: to whom each moment belongs, the innermost call

Operations of devices call nothing: what overlaps them ran at once, and each has its whole time. So has what the
profiler did, which is on rows of its own and no time of the application.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from callgrove.analysis.costs import nearest
from callgrove.arrays import ABSENT, Array, Bools, Encoded, Ids, Ints, distinct, in_order
from callgrove.model.contexts import ContextKind, ContextTree
from callgrove.model.experiment import Experiment
from callgrove.model.profiles import Profiles
from callgrove.model.traces.events import LABEL, SpanChunk, SpanKind, Window
from callgrove.model.traces.intervals import innermost, nesting, usable
from callgrove.model.traces.span_order import SpanOrder
from callgrove.viewer.page import Texts, process_numbers

__all__ = [
    "MOST_LEVELS",
    "N_KINDS",
    "Events",
    "FrameNames",
    "Legend",
    "NameTimes",
    "Names",
    "Part",
    "Rows",
    "Stacks",
    "Survey",
    "legend_of",
    "rows_of",
    "sample_events",
    "span_events",
    "survey",
]


# -- events ------------------------------------------------------------------------------------------------------------


# -- rows of a timeline ------------------------------------------------------------------------------------------------
# One for each profile with a trace, in the order of the machine. Of very many, neighbours are shown together, as one:
# a page has no room for the names of a million ranks, and a screen none for a line of each.


FEWER = 8  # times, than rows that could be shown one by one: lines of which each stands for several
WHAT = ("samples", "spans", "profiler")
ORDER = ("node", "rank", "gpu_device", "gpu_context", "gpu_stream", "thread")


@dataclass(frozen=True)
class Rows:
    """Row r is profile `profile[r]`, of which it shows `what[r]`: samples, spans, or what the profiler did there. A
    profile has a row for each of them that it has. Row r is part of the line `line[r]` of the picture, where it stands
    together with its neighbours if there are many; `group` and `name` are those of lines."""

    profile: Ints
    what: Encoded[str]
    group: tuple[str, ...]  # what lines have in common that stand together: node and rank
    name: tuple[str, ...]
    of_samples: Ids  # the row of each profile, -1 where it has none
    of_spans: Ids
    of_overhead: Ids
    line: Ids

    def __len__(self) -> int:
        return len(self.profile)

    @cached_property
    def n_joined(self) -> Ints:
        """How many rows each line stands for."""
        return np.bincount(self.line, minlength=len(self.name))

    @property
    def are_joined(self) -> bool:
        return len(self.name) < len(self)

    @cached_property
    def first(self) -> Ints:
        """The first row of each line."""
        return np.searchsorted(self.line, np.arange(len(self.name)))


def rows_of(
    experiment: Experiment,
    with_samples: Ints,
    with_spans: Ints,
    with_overhead: Ints,
    most: int | None = None,
) -> Rows:
    """Return the rows of the profiles that have samples, of those that have spans, and of those in which the profiler
    worked; in fewer lines where there are more than `most`."""
    profiles = experiment.profiles
    profile = np.concatenate([with_samples, with_spans, with_overhead]).astype(np.int64)
    what = np.repeat(np.arange(len(WHAT)), [len(with_samples), len(with_spans), len(with_overhead)])
    most = len(profile) if most is None else most
    are_many = len(profile) > most
    order = in_order(*([what] if are_many else []), *_places(profiles, profile), profile, what)
    profile, what = profile[order], what[order]
    of_samples, of_spans, of_overhead = (_invert(profile, what == number, len(profiles)) for number in range(len(WHAT)))
    labels = _Labels(experiment)
    words = Encoded(what.astype(np.uint8), WHAT)
    if not are_many:
        group, name = labels.of_rows(profile, words)
        line = np.arange(len(profile), dtype=np.int32)
        return Rows(profile, words, group, name, of_samples, of_spans, of_overhead, line)
    line = _join_rows(what, -(-len(profile) // max(1, most // FEWER)))
    last = np.append(np.flatnonzero(np.diff(line)), len(line) - 1)
    first = np.append(0, last[:-1] + 1)
    name = tuple(
        labels.of_line(int(profile[a]), int(profile[b]), words[int(a)]) for a, b in zip(first, last, strict=True)
    )
    return Rows(profile, words, ("",) * len(name), name, of_samples, of_spans, of_overhead, line)


def _invert(profile: Ints, here: Bools, n_profiles: int) -> Ids:
    """Return the row of each profile among some rows; -1 where it has none."""
    out = np.full(n_profiles, ABSENT, np.int32)
    out[profile[here]] = np.flatnonzero(here)
    return out


def _places(profiles: Profiles, chosen: Ints) -> Iterator[Array]:
    """Yield columns that give the order of the machine: runs, and identities, of which none comes first."""
    yield profiles.run[chosen]
    for name in ORDER:
        values, present = profiles.identity(name)
        known = distinct(values[present])
        yield np.where(present, np.searchsorted(known, values), ABSENT)[chosen]


def _join_rows(what: Array, n_joined: int) -> Ids:
    """Return the line of each row: so many neighbours that show the same have one."""
    counts = np.bincount(what, minlength=len(WHAT))
    within = np.arange(len(what)) - np.repeat(np.cumsum(counts) - counts, counts)
    n_lines = -(-counts // n_joined)
    return (np.repeat(np.cumsum(n_lines) - n_lines, counts) + within // n_joined).astype(np.int32)


class _Labels:
    """What rows are called."""

    def __init__(self, experiment: Experiment) -> None:
        self._runs, self._profiles = experiment.runs, experiment.profiles
        self._numbers, n_alike = process_numbers(experiment)
        self._again = n_alike > 1
        self._identity = {name: self._profiles.identity(name) for name in ORDER}
        nodes, has_node = self._identity["node"]
        self._nodes = distinct(nodes[has_node])

    def of_rows(self, profiles: Ints, what: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the group and the name of each row."""
        numbers = profiles.tolist()
        group = [self.group(profile) for profile in numbers]
        name = [self.name(profile) for profile in numbers]
        twice = Counter(zip(group, name, what, strict=True))
        for row, (profile, word) in enumerate(zip(numbers, what, strict=True)):
            if twice[group[row], name[row], word] > 1:
                name[row] += f" #{profile}"  # several processes may say the same of themselves
        n_rows = Counter(numbers)
        for row, (profile, word) in enumerate(zip(numbers, what, strict=True)):
            if n_rows[profile] > 1 or word == "profiler":
                name[row] += f" ({word})"
        return tuple(group), tuple(name)

    def of_line(self, first: int, last: int, what: str) -> str:
        """Return the name of rows that stand together."""
        ends = [f"{self.group(profile)} {self.name(profile)}".strip() for profile in (first, last)]
        return " to ".join(dict.fromkeys(ends)) + ("" if what == "samples" else f" ({what})")

    def _number(self, name: str, profile: int) -> int | None:
        values, present = self._identity[name]
        return int(values[profile]) if present[profile] else None

    def group(self, profile: int) -> str:
        """Return the run, where there are several, and the rank; the node of what has none; the process where several
        say the same of themselves."""
        node, rank = self._number("node", profile), self._number("rank", profile)
        words = [f"run {int(self._profiles.run[profile])}"] if len(self._runs) > 1 else []
        if rank is not None:
            words.append(f"rank {rank}")
        elif len(self._nodes) > 1 and node is not None:
            words.append(f"node {int(np.searchsorted(self._nodes, np.uint64(node)))}")
        process = int(self._numbers[profile])
        if self._again[profile] and (process or rank is None):
            words.append(f"process {process}")
        return " ".join(words)

    def name(self, profile: int) -> str:
        """Return what tells a profile from the others of its rank."""
        rank, device = self._number("rank", profile), self._number("gpu_device", profile)
        text = self._profiles.name[profile]
        if text and device is not None:
            return f"gpu {device} {text}"
        return text or self._profiles.describe(profile).removeprefix(f"rank {rank}").strip() or "process"


# -- events ------------------------------------------------------------------------------------------------------------


N_KINDS = len(SpanKind)
# what calls nothing, and is called by nothing here
ALONE = (SpanKind.KERNEL, SpanKind.COPY, SpanKind.MEMSET, SpanKind.OVERHEAD)
MOST_LEVELS = 64
COLUMNS = ("profile", "kind", LABEL, "start_ns", "end_ns")
END = 2**62  # after everything
SAMPLES_AT_ONCE = 1 << 17


@dataclass(frozen=True)
class Events:
    """Columns of events. `name` is a number that `Names` gave, or the context of a sample. Types are as small as their
    source has them."""

    row: Array
    level: Array
    name: Array
    start: Ints
    end: Ints

    def __len__(self) -> int:
        return len(self.row)

    def take(self, chosen: Array) -> Events:
        return Events(*(getattr(self, name)[chosen] for name in self.__dataclass_fields__))

    @classmethod
    def concatenate(cls, parts: list[Events]) -> Events:
        empty = np.empty(0, np.int64)
        fields = cls.__dataclass_fields__
        return cls(*(np.concatenate([getattr(part, name) for part in parts] or [empty]) for name in fields))


@dataclass(frozen=True)
class Part:
    """Some events, and a part of the time by what was innermost then. Over all parts, both are complete."""

    events: Events
    innermost: Events


class Names:
    """Numbers for what events are called, in the order of first use. Keys below 0 are those of frames (`Stacks`); that
    of a span is the number of its text + 1, times `N_KINDS`, and its kind."""

    def __init__(self) -> None:
        self._numbers: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._numbers)

    def of(self, keys: Ints) -> Ints:
        """Return the number of each key; keys that are new get the next ones."""
        different, back = np.unique(keys, return_inverse=True)
        numbers = [self._numbers.setdefault(key, len(self._numbers)) for key in different.tolist()]
        out: Ints = np.array(numbers, np.int64)[back.reshape(-1)]
        return out

    @property
    def keys(self) -> list[int]:
        """Keys by number."""
        return list(self._numbers)


@dataclass(frozen=True)
class Survey:
    """What there is: rows, the time from the first to the last moment of the application, and what cannot be shown."""

    rows: Rows
    window: Window
    n_samples: int
    n_spans: int
    n_flagged: int  # spans with times that cannot be
    overhead_ns: int  # that the profiler worked, also before and after the application


def survey(experiment: Experiment, profiles: Ints, most: int) -> Survey | None:
    """Look at all times of some profiles, in one pass; None where there is nothing over time."""
    chosen = np.zeros(len(experiment.profiles), np.bool_)
    chosen[profiles] = True
    first: list[int] = []
    last: list[int] = []
    n_samples = n_spans = n_flagged = overhead_ns = 0
    sampled, spanned, watched = (np.zeros(len(experiment.profiles), np.bool_) for _ in range(3))
    for batch in experiment.traces.line_batches():
        lines = np.flatnonzero((batch.metric < 0) & chosen[batch.profile] & (batch.count > 0))
        if len(lines):
            sampled[batch.profile[lines]] = True
            n_samples += int(batch.count[lines].sum())
            first.append(int(batch.samples.time_ns[batch.bounds[lines]].min()))
            last.append(int(batch.samples.time_ns[batch.bounds[lines + 1] - 1].max()))
    alone: list[int] = []  # times of the profiler, where there are no others
    for chunk in experiment.traces.spans(("profile", "kind", "start_ns", "end_ns")):
        is_chosen = chosen[chunk["profile"]]
        kept = is_chosen & usable(chunk["start_ns"], chunk["end_ns"])
        n_flagged += int(is_chosen.sum() - kept.sum())
        if kept.any():
            n_spans += int(kept.sum())
            overhead = kept & (chunk["kind"] == SpanKind.OVERHEAD)
            kept &= ~overhead
            for has_spans, of in ((spanned, kept), (watched, overhead)):
                has_spans[chunk["profile"][of]] = True
            overhead_ns += int((chunk["end_ns"][overhead] - chunk["start_ns"][overhead]).sum())
            if kept.any():
                first.append(int(chunk["start_ns"][kept].min()))
                last.append(int(chunk["end_ns"][kept].max()))
            if overhead.any():
                alone += [int(chunk["start_ns"][overhead].min()), int(chunk["end_ns"][overhead].max())]
    first, last = first or alone, last or alone
    if not first:
        return None
    rows = rows_of(experiment, np.flatnonzero(sampled), np.flatnonzero(spanned), np.flatnonzero(watched), most)
    window = min(first), max(max(last), min(first) + 1)
    return Survey(rows, window, n_samples, n_spans, n_flagged, overhead_ns)


def sample_events(
    experiment: Experiment, rows: Rows, origin: int, windows: Sequence[Window], meet: Callable[[Ids], None]
) -> Iterator[tuple[int, Events]]:
    """Yield samples that last into each window, as the number of the window and events whose name is the context.

    Short lines come together, long ones are divided. `meet` hears the contexts of a line before they come.
    """
    met = np.zeros(len(experiment.contexts), np.bool_)
    for samples in _busy_samples(experiment, rows):
        lasting = [samples.into(window) for window in windows]
        for contexts in samples.find_unknown(met, lasting):
            meet(contexts)
            met[contexts] = True
        for number, chosen in enumerate(lasting):
            for at in range(0, len(chosen), SAMPLES_AT_ONCE):
                yield number, samples.events(chosen[at : at + SAMPLES_AT_ONCE], origin)


@dataclass(frozen=True)
class _BusySamples:
    """Samples of some lines, one line after the other; `end` is when the next one of its line comes."""

    row: Ids
    time: Ints
    end: Ints
    is_last: Bools  # of its line
    context: Ids
    busy: Bools

    def into(self, window: Window) -> Ints:
        """Return the samples of which something ran that last into a window."""
        lasts = (self.time >= window[0]) | (~self.is_last & (self.end >= window[0]))
        return np.flatnonzero(lasts & (self.time < window[1]) & self.busy)

    def find_unknown(self, met: Bools, lasting: Sequence[Ints]) -> Iterator[Ids]:
        """Yield the contexts of one line after the other, as long as any of them was not met before."""
        new = [chosen[~met[self.context[chosen]]] for chosen in lasting]
        while any(map(len, new)):
            row = min(int(self.row[chosen[0]]) for chosen in new if len(chosen))
            for chosen in new:
                if len(here := chosen[self.row[chosen] == row]):
                    yield self.context[here]
            new = [chosen[~met[self.context[chosen]]] for chosen in new]

    def events(self, chosen: Ints, origin: int) -> Events:
        start, end = self.time[chosen] - origin, self.end[chosen] - origin
        return Events(self.row[chosen], np.zeros(len(chosen), np.int8), self.context[chosen], start, end)


def _busy_samples(experiment: Experiment, rows: Rows) -> Iterator[_BusySamples]:
    """Yield lines, many short ones at once, with times that never decrease, and where something ran."""
    n_contexts = len(experiment.contexts)
    busy = np.append(~experiment.contexts.idle, False)  # the last entry is for what is not a context
    for batch in experiment.traces.line_batches():
        row = np.where((batch.metric < 0) & (batch.count > 0), rows.of_samples[batch.profile], ABSENT)
        if not (row >= 0).any():
            continue
        row = np.repeat(row.astype(np.int32), batch.count)
        ends = batch.bounds[1:][batch.count > 0] - 1
        time = _straighten(batch.samples.time_ns.astype(np.int64, copy=False), batch.bounds)
        is_last = np.zeros(len(time), np.bool_)
        is_last[ends] = True
        end = np.append(time[1:], 0)
        end[ends] = time[ends]
        context = batch.samples.context
        if context.min() < ABSENT or context.max() >= n_contexts:
            context = np.where((context >= 0) & (context < n_contexts), context, ABSENT)
        yield _BusySamples(row, time, end, is_last, context, busy[context] & (row >= 0))


def _straighten(time: Ints, bounds: Ints) -> Ints:
    """Return times that do not decrease within a line."""
    backwards = np.flatnonzero(time[1:] < time[:-1]) + 1
    inside = backwards[~np.isin(backwards, bounds)]
    if not len(inside):
        return time
    out = time.copy()
    for line in distinct(np.searchsorted(bounds, inside, side="right") - 1).tolist():
        part = slice(int(bounds[line]), int(bounds[line + 1]))
        out[part] = np.maximum.accumulate(time[part])
    return out


def span_events(experiment: Experiment, overview: Survey, window: Window, names: Names) -> Iterator[Part]:
    """Yield the spans that touch the window, on the levels of their nesting, in the order of time on each row. What the
    profiler did before and after the application is cut off.

    Nothing nests across parts of a trace, such as databases: a few of them are sorted at a time, so that neither memory
    nor the temporary file grows with their number."""
    parts = _number_parts(experiment)
    order, reached = _new_order(overview.rows), ABSENT
    for chunk in experiment.traces.spans(COLUMNS, window):
        part = parts[chunk["profile"]]
        if order.is_filled and int(part.min()) > reached:
            yield from _divide_chunks(order)
            order = _new_order(overview.rows)
        reached = max(reached, int(part.max()))
        if (prepared := _prepare(chunk, overview, names)) is not None:
            order.add(prepared)
    yield from _divide_chunks(order)


def _number_parts(experiment: Experiment) -> Ids:
    """Return the part of the trace that each profile is in, the last one where there are several."""
    out = np.full(len(experiment.profiles), ABSENT, np.int32)
    for number, profiles in enumerate(experiment.traces.parts()):
        out[profiles] = number
    return out


def _new_order(rows: Rows) -> SpanOrder:
    return SpanOrder(np.zeros(len(rows), np.int64))


def _prepare(chunk: SpanChunk, overview: Survey, names: Names) -> SpanChunk | None:
    """Return the spans of a chunk that have a row and usable times, with times since the beginning; None without
    any."""
    rows, (origin, end) = overview.rows, overview.window
    overhead = chunk["kind"] == SpanKind.OVERHEAD
    row = np.where(overhead, rows.of_overhead[chunk["profile"]], rows.of_spans[chunk["profile"]])
    inside = (chunk["start_ns"] <= end) & (chunk["end_ns"] >= origin)
    kept = np.flatnonzero((row >= 0) & inside & usable(chunk["start_ns"], chunk["end_ns"]))
    if not len(kept):
        return None
    kind = chunk["kind"][kept].astype(np.int64)
    text = np.maximum(chunk[LABEL][kept].astype(np.int64), ABSENT) + 1
    return {
        "span": chunk["span"][kept].astype(np.int64),
        "profile": row[kept].astype(np.int64),
        "start_ns": np.maximum(chunk["start_ns"][kept].astype(np.int64), origin) - origin,
        "end_ns": np.minimum(chunk["end_ns"][kept].astype(np.int64), end) - origin,
        "name": names.of(text * N_KINDS + kind),
        "calls": ~np.isin(kind, ALONE),
    }


def _divide_chunks(order: SpanOrder) -> Iterator[Part]:
    """Yield chunks with their levels and own times. Calls that are still open when a chunk ends are looked at again
    with the next one: own time is given up to the first start of the next chunk, after which nobody can take any of
    it."""
    chunks = order.chunks()
    opened, low = Events.concatenate([]), -END
    ahead = next(chunks, None)
    while ahead is not None:
        chunk, ahead = ahead, next(chunks, None)
        high = END if ahead is None else int(ahead["start_ns"][0])
        zero = np.zeros(len(chunk["span"]), np.int64)
        events = Events(chunk["profile"], zero, chunk["name"], chunk["start_ns"], chunk["end_ns"])
        calls = np.flatnonzero(chunk["calls"])
        now = Events.concatenate([opened, events.take(calls)])
        depth = nesting(now.start, now.end, now.row).depth
        now = replace(now, level=np.minimum(depth, MOST_LEVELS - 1).astype(np.int64))
        events.level[calls] = now.level[len(opened) :]
        innermost_calls = _clip(now, low, high)
        yield Part(events, Events.concatenate([innermost_calls, events.take(~chunk["calls"])]))
        opened, low = now.take(now.end > high), high


def _clip(calls: Events, low: int, high: int) -> Events:
    """Return to which of some calls the time from `low` to `high` belongs: of those open at a time, the one that
    started last."""
    pieces = innermost(calls.start, calls.end, calls.row)
    start, end = np.maximum(pieces.start, low), np.minimum(pieces.end, high)
    kept = end > start
    clipped = calls.take(pieces.index[kept])
    return replace(clipped, start=start[kept], end=end[kept])


# -- call stacks of samples --------------------------------------------------------------------------------------------
# Functions and what else is called are frames; loops, lines and instructions inside them are not. Measurements without
# program structure have no functions: there an instruction is called by another, and is a frame.


class Stacks:
    """The frames above contexts. A frame is a context; frames of one region have one name."""

    def __init__(self, tree: ContextTree) -> None:
        self.tree = tree

    @cached_property
    def _frames(self) -> tuple[Ids, Ids, Ids]:
        """The frame of every context; of every frame the one above it, and how many there are above."""
        tree = self.tree
        frame = nearest(tree, ~(tree.folded | (tree.kind == ContextKind.LOOP)))
        above = np.where(tree.parent >= 0, np.append(frame, ABSENT)[tree.parent], ABSENT).astype(np.int32)
        depth: list[int] = []
        for context, (frame_of, up) in enumerate(zip(frame.tolist(), above.tolist(), strict=True)):
            depth.append(depth[frame_of] if frame_of != context else depth[up] + 1 if up >= 0 else 0)
        return frame, above, np.array(depth, np.int32)

    def depth(self, contexts: Ints) -> Ids:
        """Return how many frames lie above the innermost one of each context."""
        out: Ids = self._frames[2][contexts]
        return out

    def frames(self, contexts: Ids | Ints) -> Ints:
        """Return the innermost frame of each context's stack."""
        out: Ints = self._frames[0][contexts].astype(np.int64)
        return out

    def cut(self, contexts: Ints, depth: int) -> Ints:
        """Return the innermost frame of each context's stack that is no deeper."""
        frame, above, depths = self._frames
        frames = frame[contexts]
        while (deeper := depths[frames] > depth).any():
            frames = np.where(deeper, above[frames], frames)
        return frames.astype(np.int64)

    def at(self, contexts: Ints, depth: int) -> Ids:
        """Return the frame at a depth of each context's stack, -1 where it ends before."""
        frames = self.cut(contexts, depth)
        out: Ids = np.where(self.depth(frames) == depth, frames, ABSENT).astype(np.int32)
        return out

    def n_levels(self, contexts: Ints) -> int:
        """Return how deep the stacks are, as far as they are shown."""
        return min(int(self.depth(contexts).max(initial=-1)) + 1, MOST_LEVELS)

    def names(self, frames: Ids | Ints) -> Ints:
        """Return keys of names below 0: -1 - region; frames without a region share the name of their kind."""
        region, kind = self.tree.region[frames].astype(np.int64), self.tree.kind[frames].astype(np.int64)
        return -1 - np.where(region >= 0, region, len(self.tree.regions) + kind)

    def text(self, name: int) -> tuple[str, str]:
        """Return what a name is, and the kind of thing that it names."""
        number = -1 - name
        regions = self.tree.regions
        if number >= len(regions):
            word = ContextKind(number - len(regions)).word
            return f"<{word}>", word
        return regions.label(number), ContextKind(int(regions.kind[number])).word


class FrameNames:
    """The numbers of names of innermost frames, by context: one lookup for a sample, whatever its stack."""

    def __init__(self, stacks: Stacks, names: Names) -> None:
        self.stacks, self.names = stacks, names
        self._number = np.full(len(stacks.tree), ABSENT, np.int32)

    def meet(self, contexts: Ids) -> None:
        """Give numbers to the names of contexts that are new."""
        new = contexts[self._number[contexts] < 0]
        if len(new):
            new = np.unique(new)
            self._number[new] = self.names.of(self.stacks.names(self.stacks.frames(new)))

    def of(self, contexts: Ids) -> Ids:
        """Return the number of each context, which must have been met."""
        numbers: Ids = self._number[contexts]
        return numbers


# -- the legend: exact sums over all events ----------------------------------------------------------------------------
# A name has the time in which it was innermost. Where stacks are cut at some depth, what is deeper belongs to the call
# at that depth. What the profiler did is added up apart: it is not time of the application.


class NameTimes:
    """Time by name: of samples by context, of spans by level and name."""

    def __init__(self, stacks: Stacks, names: Names) -> None:
        self._stacks, self._names = stacks, names
        self._contexts = np.zeros(len(stacks.tree), np.int64)
        self._innermost = np.zeros((0, 0), np.int64)  # levels x names
        self._whole = np.zeros((0, 0), np.int64)

    def add_samples(self, events: Events) -> None:
        """Add samples under their contexts."""
        np.add.at(self._contexts, events.name, events.end - events.start)

    def add_spans(self, part: Part) -> None:
        """Add spans: own time, and the whole one, which counts where deeper calls are not looked at."""
        self._innermost = _add_events(self._innermost, part.innermost)
        self._whole = _add_events(self._whole, part.events)

    @property
    def n_levels(self) -> int:
        """How deep calls are nested, as far as it is shown."""
        return max(self._stacks.n_levels(np.flatnonzero(self._contexts)), len(self._whole))

    def at(self, depth: int | None = None) -> Ints:
        """Return the time by number of a name; calls deeper than `depth` belong to what is there."""
        used = np.flatnonzero(self._contexts)
        frames = self._stacks.frames(used) if depth is None else self._stacks.cut(used, depth)
        numbers = self._names.of(self._stacks.names(frames))
        out = np.zeros(len(self._names), np.int64)
        np.add.at(out, numbers, self._contexts[used])
        spans = self._innermost[:depth].sum(axis=0)
        if depth is not None and depth < len(self._whole):
            spans = _add_columns(spans, self._whole[depth])
        return _add_columns(out, spans)[: len(out)]


def _add_columns(one: Ints, other: Ints) -> Ints:
    """Return two columns of any lengths, added up."""
    out = np.zeros(max(len(one), len(other)), np.int64)
    out[: len(one)] += one
    out[: len(other)] += other
    return out


def _add_events(sums: Ints, events: Events) -> Ints:
    """Return sums by level and name with room for all that occur, and the time of some events added."""
    if not len(events):
        return sums
    n_levels, n_names = int(events.level.max()) + 1, int(events.name.max()) + 1
    if n_levels > sums.shape[0] or n_names > sums.shape[1]:
        larger = np.zeros((max(n_levels, sums.shape[0]), max(2 * n_names, sums.shape[1])), np.int64)
        larger[: sums.shape[0], : sums.shape[1]] = sums
        sums = larger
    np.add.at(sums, (events.level, events.name), events.end - events.start)
    return sums


@dataclass(frozen=True)
class Legend:
    """Names with the largest shares of all time, `n` with any, and the share of those that are not listed."""

    text: Sequence[str]
    share: Array
    n: int
    rest: float

    @property
    def data(self) -> dict[str, Any]:
        return {"text": Texts(self.text), "share": self.share, "n": self.n, "rest": self.rest}


def legend_of(times: Ints, texts: Sequence[str], most: int) -> Legend:
    """Return the shares of names; those of one text are one."""
    sums: dict[str, int] = {}
    for number in np.flatnonzero(times).tolist():
        sums[texts[number]] = sums.get(texts[number], 0) + int(times[number])
    order = sorted(sums, key=lambda text: (-sums[text], text))
    total = sum(sums.values()) or 1
    share = np.array([sums[text] / total for text in order[:most]], np.float64)
    return Legend(order[:most], share, len(order), sum(sums[text] for text in order[most:]) / total)
