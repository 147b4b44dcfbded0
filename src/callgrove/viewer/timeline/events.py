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
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from callgrove.analysis.costs import nearest
from callgrove.arrays import ABSENT, Array, Bools, Ids, Ints
from callgrove.model.contexts import ContextKind, ContextTree
from callgrove.model.experiment import Experiment
from callgrove.model.traces.events import LABEL, SpanKind, Window
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
# One for each profile with a trace, in the order of the machine.


Identity = Mapping[str, Sequence[int | None]]
WHAT = ("samples", "spans", "profiler")
ORDER = ("node", "rank", "gpu_device", "gpu_context", "gpu_stream", "thread")


@dataclass(frozen=True)
class Rows:
    """Row r is profile `profile[r]`, of which it shows `what[r]`: samples, spans, or what the profiler did there. A
    profile has a row for each of them that it has."""

    profile: Ints
    what: tuple[str, ...]
    group: tuple[str, ...]  # what rows have in common that stand together: node and rank
    name: tuple[str, ...]
    of_samples: Ids  # the row of each profile, -1 where it has none
    of_spans: Ids
    of_overhead: Ids

    def __len__(self) -> int:
        return len(self.profile)


def rows_of(experiment: Experiment, with_samples: Ints, with_spans: Ints, with_overhead: Ints) -> Rows:
    """Return the rows of the profiles that have samples, of those that have spans, and of those in which the profiler
    worked."""
    profiles = experiment.profiles
    groups = zip(WHAT, (with_samples, with_spans, with_overhead), strict=True)
    keys = [(profile, what) for what, group in groups for profile in group.tolist()]
    identity = {name: profiles.identity_list(name) for name in ORDER}
    nodes = sorted({node for node in identity["node"] if node is not None})
    numbers = process_numbers(experiment)

    def place(key: tuple[int, str]) -> tuple[int, ...]:
        profile, what = key
        numbers = [ABSENT if (n := identity[name][profile]) is None else n for name in ORDER]
        return int(profiles.run[profile]), *numbers, profile, WHAT.index(what)

    keys.sort(key=place)
    again = {_tuple(experiment, profile) for profile, number in enumerate(numbers) if number}
    group = [
        _group(experiment, profile, nodes, identity, numbers[profile] if _tuple(experiment, profile) in again else None)
        for profile, _ in keys
    ]
    name = [_name(experiment, profile, identity) for profile, _ in keys]
    twice = Counter(zip(group, name, [what for _, what in keys], strict=True))
    for row, (profile, what) in enumerate(keys):
        if twice[group[row], name[row], what] > 1:
            name[row] += f" #{profile}"  # several processes may say the same of themselves
    n_rows = Counter(profile for profile, _ in keys)
    name = [
        f"{text} ({what})" if n_rows[profile] > 1 or what == "profiler" else text
        for text, (profile, what) in zip(name, keys, strict=True)
    ]
    of = {what: np.full(len(profiles), ABSENT, np.int32) for what in WHAT}
    for row, (profile, what) in enumerate(keys):
        of[what][profile] = row
    profile_numbers = np.array([profile for profile, _ in keys], np.int64)
    return Rows(profile_numbers, tuple(what for _, what in keys), tuple(group), tuple(name), *of.values())


def _tuple(experiment: Experiment, profile: int) -> tuple[int, str]:
    return int(experiment.profiles.run[profile]), experiment.profiles.describe(profile)


def _group(experiment: Experiment, profile: int, nodes: list[int], identity: Identity, process: int | None) -> str:
    """Return the run, where there are several, and the rank; the node of what has none; the process where several say
    the same of themselves."""
    node, rank = identity["node"][profile], identity["rank"][profile]
    words = [f"run {int(experiment.profiles.run[profile])}"] if len(experiment.runs) > 1 else []
    if rank is not None:
        words.append(f"rank {rank}")
    elif len(nodes) > 1 and node is not None:
        words.append(f"node {nodes.index(node)}")
    if process is not None and (process or rank is None):
        words.append(f"process {process}")
    return " ".join(words)


def _name(experiment: Experiment, profile: int, identity: Identity) -> str:
    """Return what tells a profile from the others of its rank."""
    rank, device = identity["rank"][profile], identity["gpu_device"][profile]
    text = experiment.profiles.name[profile]
    if text and device is not None:
        return f"gpu {device} {text}"
    return text or experiment.profiles.describe(profile).removeprefix(f"rank {rank}").strip() or "process"


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


def survey(experiment: Experiment, profiles: Ints) -> Survey | None:
    """Look at all times of some profiles, in one pass; None where there is nothing over time."""
    chosen = np.zeros(len(experiment.profiles), np.bool_)
    chosen[profiles] = True
    first: list[int] = []
    last: list[int] = []
    sampled: list[int] = []
    n_samples = n_spans = n_flagged = overhead_ns = 0
    for profile, metric, line in experiment.traces.lines():
        if metric < 0 and chosen[profile] and len(line):
            sampled.append(profile)
            n_samples += len(line)
            first.append(int(line.time_ns[0]))
            last.append(int(line.time_ns[-1]))
    spanned, watched = (np.zeros(len(experiment.profiles), np.bool_) for _ in range(2))
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
    rows = rows_of(experiment, np.unique(np.array(sampled, np.int64)), np.flatnonzero(spanned), np.flatnonzero(watched))
    window = min(first), max(max(last), min(first) + 1)
    return Survey(rows, window, n_samples, n_spans, n_flagged, overhead_ns)


def sample_events(
    experiment: Experiment, rows: Rows, origin: int, windows: Sequence[Window], meet: Callable[[Ids], None]
) -> Iterator[tuple[int, Events]]:
    """Yield samples that last into each window, as the number of the window and events whose name is the context.

    Short lines are put into one chunk, long ones are divided. `meet` hears the contexts of a line before they come.
    """
    waiting: list[list[Events]] = [[] for _ in windows]
    n_waiting = [0] * len(windows)
    for row, time, context, busy in _busy_lines(experiment, rows):
        for number, window in enumerate(windows):
            first, last = _lasting(time, window)
            meet(context[first:last][busy[first:last]])
            for at in range(first, last, SAMPLES_AT_ONCE):
                part = slice(at, min(at + SAMPLES_AT_ONCE, last))
                waiting[number].append(_stretches(row, time, context, busy, part, origin))
                n_waiting[number] += part.stop - part.start
                if n_waiting[number] >= SAMPLES_AT_ONCE:
                    yield number, Events.concatenate(waiting[number])
                    waiting[number], n_waiting[number] = [], 0
    for number, left in enumerate(waiting):
        if left:
            yield number, Events.concatenate(left)


def _busy_lines(experiment: Experiment, rows: Rows) -> Iterator[tuple[int, Ints, Ids, Bools]]:
    """Yield the row of each line with its times, which never decrease, its contexts, and where something ran."""
    n_contexts = len(experiment.contexts)
    busy = np.append(~experiment.contexts.idle, False)  # the last entry is for what is no context
    for profile, metric, line in experiment.traces.lines():
        row = int(rows.of_samples[profile])
        if metric >= 0 or row < 0 or not len(line):
            continue
        time, context = line.time_ns.astype(np.int64, copy=False), line.context
        if (time[1:] < time[:-1]).any():
            time = np.maximum.accumulate(time)
        if context.min() < ABSENT or context.max() >= n_contexts:
            context = np.where((context >= 0) & (context < n_contexts), context, ABSENT)
        yield row, time, context, busy[context]


def _lasting(time: Ints, window: Window) -> tuple[int, int]:
    """Return the first of the samples that end in a window or later, and the first that starts after it."""
    first, last = int(np.searchsorted(time, window[0])), len(time)
    if window[1] <= int(time[-1]):  # else it may lie beyond the last time that there is
        last = int(np.searchsorted(time, window[1]))
    return max(first - 1, 0) if first < len(time) else first, last


def _stretches(row: int, time: Ints, context: Ids, busy: Bools, part: slice, origin: int) -> Events:
    """Return a part of the samples of a line as events, without those of which nothing ran."""
    start = time[part] - origin
    end = np.append(start[1:], time[min(part.stop, len(time) - 1)] - origin)
    kept, names = busy[part], context[part]
    if not kept.all():
        start, end, names = start[kept], end[kept], names[kept]
    return Events(np.full(len(start), row, np.int32), np.zeros(len(start), np.int8), names, start, end)


def span_events(experiment: Experiment, overview: Survey, window: Window, names: Names) -> Iterator[Part]:
    """Yield the spans that touch the window, in the order of time, on the levels of their nesting. What the profiler
    did before and after the application is cut off."""
    rows, (origin, end) = overview.rows, overview.window
    order = SpanOrder(np.zeros(len(rows), np.int64))
    for chunk in experiment.traces.spans(COLUMNS, window):
        overhead = chunk["kind"] == SpanKind.OVERHEAD
        row = np.where(overhead, rows.of_overhead[chunk["profile"]], rows.of_spans[chunk["profile"]])
        inside = (chunk["start_ns"] <= end) & (chunk["end_ns"] >= origin)
        kept = np.flatnonzero((row >= 0) & inside & usable(chunk["start_ns"], chunk["end_ns"]))
        if not len(kept):
            continue
        kind = chunk["kind"][kept].astype(np.int64)
        text = np.maximum(chunk[LABEL][kept].astype(np.int64), ABSENT) + 1
        order.add(
            {
                "span": chunk["span"][kept].astype(np.int64),
                "profile": row[kept].astype(np.int64),
                "start_ns": np.maximum(chunk["start_ns"][kept].astype(np.int64), origin) - origin,
                "end_ns": np.minimum(chunk["end_ns"][kept].astype(np.int64), end) - origin,
                "name": names.of(text * N_KINDS + kind),
                "calls": ~np.isin(kind, ALONE),
            }
        )
    yield from _divide_chunks(order)


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
# at that depth. What the profiler did is added up apart: it is no time of the application.


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
