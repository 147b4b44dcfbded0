"""The call paths that Extra-P gives to the correlations of an Nsight export, and what ran at the same time.

Specification: gpu-traces.md section 9 a-c, extrap.md section 9.

    NVTX ranges of Extra-Prof     main->solve + cudaLaunchKernel_v7000  ->  main->solve->cudaLaunchKernel_v7000
    else call chains              frames of CUDA_CALLCHAINS, the outermost first, and the call itself
    else                          the call alone

A range's text is its path, or pointers separated by 0x1F to names among the strings. Durations become exclusive by
Extra-P's own rule (D5): a row loses what begins like it one level below, where begins-like is SQL's LIKE, so that `a_b`
also begins `axbc`, and `memset1` begins `memset1+0`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from callgrove.arrays import Bools, Ids, Ints
from callgrove.binary.sqlite.cells import MISSING, Cells, Type
from callgrove.binary.sqlite.database import SqliteFile
from callgrove.formats.gpu.nsight.tables import ARROW, decode_path, extra_prof_domain, symbols
from callgrove.model.traces.intervals import enclosing

__all__ = [
    "CallPaths",
    "Segments",
    "Strings",
    "call_paths",
    "each_first",
    "join_on_keys",
    "pairs_ending_inside",
    "pairs_touching",
    "ranges_of",
    "rows_of",
    "segments_of",
]


# What ran at the same time on devices, counted as Extra-P counts it.
#
# Specification: gpu-traces.md section 9 with its defects D2 and D4. All is int64 nanoseconds, and divisions truncate.
#
#     activities   |-- a --------|        |-- c --|
#                         |-- b -----|
#     segments     [  1  )[  2   )[ 1)    [   1   )      between instants at which something starts or ends


MOST_PAIRS = 1 << 20  # that are held at once; hostile files have as many as the square of their rows


@dataclass(frozen=True)
class Segments:
    """Stretches of time in which something ran, in order; `threads` is the sum over all that ran."""

    start: Ints
    end: Ints
    running: Ints
    threads: Ints

    def within(self, start: Ints, end: Ints, *, covering: bool) -> Ints:
        """Return for how long something ran inside intervals. Unless `covering`, a segment counts only if it starts or
        ends inside: one that reaches beyond both ends is overlooked (D4)."""
        first = np.searchsorted(self.end, start, side="left")
        last = np.searchsorted(self.start, end, side="right")
        some = last > first
        until = np.append(0, np.cumsum(self.end - self.start))
        at_first, at_last = np.where(some, first, 0), np.where(some, last - 1, 0)
        before = np.maximum(start - _at(self.start, at_first), 0)
        after = np.maximum(_at(self.end, at_last) - end, 0)
        length = until[last] - until[np.minimum(first, last)] - before - after
        if not covering:
            some &= (before == 0) | (after == 0) | (at_first != at_last)
        return np.where(some, length, 0)

    def touching(self, start: Ints, end: Ints) -> tuple[Ints, Ints]:
        """Return the pairs (interval, segment) that have an instant in common."""
        ranges = list(ranges_of(np.searchsorted(self.end, start, "left"), np.searchsorted(self.start, end, "right")))
        return _columns(ranges)

    def touching_alone(self, start: Ints, end: Ints) -> Ints:
        """Return the part of `within` during which one thing ran alone in a segment that starts or ends with the
        interval."""
        out = np.zeros(len(start), np.int64)
        for edge, at in ((self.start, start), (self.end, end)):
            place = np.minimum(np.searchsorted(edge, at), max(len(edge) - 1, 0))
            hit = (_at(edge, place) == at) & (_at(self.running, place) <= 1) if len(edge) else np.zeros(len(at), bool)
            length = np.minimum(_at(self.end, place), end) - np.maximum(_at(self.start, place), start)
            if edge is self.end:  # a segment that is the interval itself was counted with its start
                hit &= _at(self.start, place) != start
            out += np.where(hit, length, 0)
        return out


def _at(values: Ints, place: Ints) -> Ints:
    return values[place] if len(values) else np.zeros(len(place), np.int64)


def segments_of(start: Ints, end: Ints, correlation: Ints, threads: Ints) -> Segments:
    """Return the segments of activities; an activity may be given several times (D2), once for every GPU.

    How many run after an instant is found as Extra-P finds it: all that include the instant, times the number of its
    events of one correlation, less its ends.
    """
    time, owner = np.concatenate([start, end]), np.tile(correlation, 2)
    ends, weight = np.repeat([0, 1], len(start)), np.tile(threads, 2)
    order = np.lexsort((ends, owner, time))
    time, owner, ends, weight = time[order], owner[order], ends[order], weight[order]
    new = np.append(len(time) > 0, (np.diff(time) != 0) | (np.diff(owner) != 0))[: len(time)]
    first = np.flatnonzero(new)  # the first event of every instant and correlation speaks for all of them
    events = np.diff(first, append=len(time))
    instant, begin = np.unique(time[first], return_index=True)
    ending = _sums(ends[first], begin)
    running = events[begin] * _including(start, end, np.ones(len(start), np.int64), instant)
    total = events[begin] * _including(start, end, threads, instant)
    total = np.where(ending > 0, total - _sums(weight[first], begin), total)
    active = np.flatnonzero((running - ending)[:-1] > 0)
    return Segments(instant[active], instant[active + 1], (running - ending)[active], total[active])


def _sums(values: Ints, begin: Ints) -> Ints:
    return np.add.reduceat(values, begin) if len(begin) else np.zeros(0, np.int64)


def _including(start: Ints, end: Ints, weight: Ints, instant: Ints) -> Ints:
    """Return the weight of all intervals that include each instant; both ends are included."""
    out = np.zeros(len(instant), np.int64)
    for edge, side, sign in ((start, "right", 1), (end, "left", -1)):
        order = np.argsort(edge, kind="stable")
        until = np.append(0, np.cumsum(weight[order]))
        place = np.searchsorted(edge[order], instant, side="right" if side == "right" else "left")
        out += sign * until[place]
    return out


def pairs_ending_inside(start: Ints, end: Ints, other_end: Ints) -> Iterator[tuple[Ints, Ints]]:
    """Yield pairs (interval, other) of which the other ends inside the interval, some at a time."""
    order = np.argsort(other_end, kind="stable")
    ends = other_end[order]
    for left, right in ranges_of(np.searchsorted(ends, start, "left"), np.searchsorted(ends, end, "right")):
        yield left, order[right]


def pairs_touching(start: Ints, end: Ints, other_start: Ints, other_end: Ints) -> Iterator[tuple[Ints, Ints]]:
    """Yield pairs (interval, other) that have an instant in common, some at a time."""
    order = np.argsort(other_start, kind="stable")
    starts = other_start[order]
    for left, right in ranges_of(np.searchsorted(starts, start, "left"), np.searchsorted(starts, end, "right")):
        yield left, order[right]
    order = np.argsort(start, kind="stable")
    starts = start[order]
    for left, right in ranges_of(
        np.searchsorted(starts, other_start, "right"), np.searchsorted(starts, other_end, "right")
    ):
        yield order[right], left


def ranges_of(first: Ints, last: Ints) -> Iterator[tuple[Ints, Ints]]:
    """Yield every (k, m) with first[k] <= m < last[k], in order, some at a time."""
    counts = np.maximum(last - first, 0)
    until = np.cumsum(counts)
    total = int(until[-1]) if len(until) else 0
    for begin in range(0, total, MOST_PAIRS):
        number = np.arange(begin, min(begin + MOST_PAIRS, total))
        left = np.searchsorted(until, number, side="right")
        yield left, first[left] + number - (until - counts)[left]


def join_on_keys(left: Ints, right: Ints) -> tuple[Ints, Ints]:
    """Return the rows of two tables with equal keys, in every combination."""
    order = np.argsort(right, kind="stable")
    keys = right[order]
    left_row, right_row = _columns(
        list(ranges_of(np.searchsorted(keys, left, "left"), np.searchsorted(keys, left, "right")))
    )
    return left_row, order[right_row]


def _columns(pairs: Sequence[tuple[Ints, Ints]]) -> tuple[Ints, Ints]:
    if not pairs:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    return np.concatenate([left for left, _ in pairs]), np.concatenate([right for _, right in pairs])


def each_first(keys: Ints) -> tuple[Ints, Ints, Ints]:
    """Return the different keys in order, the first row of each, and how many rows it has. Where Extra-P's grouping
    leaves open which row of a group is meant, SQLite takes the first."""
    different, first, counts = np.unique(keys, return_index=True, return_counts=True)
    return different, first, counts


INTEGER, TEXT = Type.INTEGER, Type.TEXT
RUNTIME = "CUPTI_ACTIVITY_KIND_RUNTIME"
PUSH_POP = 59


class Strings:
    """The texts of the table StringIds, by id."""

    def __init__(self, file: SqliteFile) -> None:
        rows = file.table("StringIds", {"id": INTEGER, "value": TEXT})
        self.all: Mapping[int, str] = {
            id_: text for id_, text in zip(rows["id"].tolist(), rows["value"].tolist(), strict=True) if text is not None
        }

    def __call__(self, ids: Ints) -> list[str | None]:
        return [self.all.get(id_) for id_ in ids.tolist()]


def rows_of(file: SqliteFile, table: str, *columns: str) -> Cells:
    """Read rows with a start and an end not before it: Extra-P's comparisons see no others."""
    rows = file.table(table, dict.fromkeys(("start", "end", *columns), INTEGER))
    is_timed = (rows["start"] != MISSING) & (rows["end"] >= rows["start"])  # an absent end is less than any time
    return {name: column[is_timed] for name, column in rows.items()}


@dataclass
class CallPaths:
    """Rows of (correlation, path, depth, duration); ranges themselves have no correlation. `texts` are different."""

    texts: list[str]
    correlation: Ints
    path: Ids
    depth: Ints
    duration: Ints
    ranges: Ranges | None = None
    notes: tuple[str, ...] = ()

    @cached_property
    def is_async(self) -> Bools:
        """Return, by path, whether it goes through a call that does not wait."""
        return np.array(["Async_" in text for text in self.texts], np.bool_)

    @property
    def is_range(self) -> Bools:
        return np.asarray(self.correlation == MISSING)

    def make_exclusive(self) -> None:
        """Make durations exclusive from the outermost level inwards, subtracting durations that are still inclusive."""
        for depth in range(int(self.depth.max(initial=-1)) + 1):
            level, below = np.flatnonzero(self.depth == depth), np.flatnonzero(self.depth == depth + 1)
            if not self.is_range[below].any():
                continue
            different, number = np.unique(self.path[below], return_inverse=True)
            total, ranges = np.zeros(len(different), np.int64), np.zeros(len(different), np.bool_)
            np.add.at(total, number, np.where(self.duration[below] == MISSING, 0, self.duration[below]))
            np.logical_or.at(ranges, number, self.is_range[below])
            texts = [self.texts[path] for path in different.tolist()]
            for path in np.unique(self.path[level]).tolist():
                alike = beginning_like(self.texts[path], texts)
                if ranges[alike].any():
                    rows = level[(self.path[level] == path) & (self.duration[level] != MISSING)]
                    self.duration[rows] -= total[alike].sum()


@dataclass(frozen=True)
class Ranges:
    """The ranges of Extra-Prof; `path` numbers the texts of the call paths."""

    start: Ints
    end: Ints
    path: Ids
    depth: Ints
    thread: Ints

    def around(self, start: Ints, end: Ints, thread: Ints | None = None) -> tuple[Ints, Ints]:
        """Return pairs (interval, range): of the ranges around an interval, on its thread if one is given, the one that
        started last. Ranges that start at the same time are all returned."""
        closed = np.flatnonzero(self.end != MISSING)
        range_thread = self.thread if thread is not None else np.zeros(len(self.start), np.int64)
        innermost = enclosing((self.start[closed], self.end[closed]), (start, end), range_thread[closed], thread)
        inner = np.flatnonzero(innermost >= 0)
        _, key = np.unique(np.stack([range_thread, self.start]), axis=1, return_inverse=True)
        key = key.reshape(-1)
        which, at = join_on_keys(key[closed[innermost[inner]]], key)
        return inner[which], at


def beginning_like(prefix: str, texts: Iterable[str]) -> Ints:
    """Return the numbers of the texts that SQL's LIKE finds with `prefix%`: `_` is any character, `%` any number of
    them, and the case of ASCII letters is ignored."""
    pieces = [re.compile(re.escape(piece).replace("_", "."), re.I | re.A | re.S) for piece in prefix.split("%")]
    return np.array([number for number, text in enumerate(texts) if _begins(pieces, text)], np.int64)


def _begins(pieces: list[re.Pattern[str]], text: str) -> bool:
    """Return whether a text begins with these pieces, with anything between them. Each piece is matched at the first
    place where it fits, which is enough, as anything may follow."""
    match = pieces[0].match(text)
    for piece in pieces[1:]:
        match = match and piece.search(text, match.end())
    return match is not None


def call_paths(file: SqliteFile, strings: Strings) -> CallPaths:
    """Return the call paths of an export, with exclusive durations."""
    calls = rows_of(file, RUNTIME, "correlationId", "nameId", "globalTid", "callchainId")
    domain = extra_prof_domain(file)
    if domain is not None:
        paths = _from_ranges(file, strings, calls, domain)
    elif file.has("CUDA_CALLCHAINS", "id") and (calls["callchainId"] != MISSING).any():
        paths = _from_call_chains(file, strings, calls)
    else:
        paths = _from_calls(strings, calls)
    paths.make_exclusive()
    if domain is not None:
        names = symbols(strings.all)
        paths.texts = [decode_path(text, names) for text in paths.texts]
    return paths


def _from_ranges(file: SqliteFile, strings: Strings, calls: Cells, domain: int) -> CallPaths:
    columns = dict.fromkeys(("start", "end", "eventType", "domainId", "uint32Value", "globalTid"), INTEGER)
    rows = file.table("NVTX_EVENTS", columns | {"text": TEXT})
    told = np.array([text is not None for text in rows["text"].tolist()], np.bool_)
    is_range = (rows["eventType"] == PUSH_POP) & (rows["domainId"] == domain) & told & (rows["start"] != MISSING)
    rows = {name: column[is_range] for name, column in rows.items()}
    encoded, path = np.unique(rows["text"].astype(str), return_inverse=True)
    ranges = Ranges(rows["start"], rows["end"], path.astype(np.int32), rows["uint32Value"], rows["globalTid"])

    call, at = ranges.around(calls["start"] - 1, calls["end"] + 1, calls["globalTid"])  # strictly
    name, other = np.unique(calls["nameId"][call], return_inverse=True)
    keys, number = np.unique(np.stack([ranges.path[at], other]), axis=1, return_inverse=True)
    apis = strings(name)
    texts = [encoded[p] + ARROW + (apis[n] or "") for p, n in keys.T.tolist()]
    named = np.array([apis[n] is not None for n in keys[1].tolist()], np.bool_)[number.reshape(-1)]

    closed = ranges.end != MISSING
    total = np.zeros(len(encoded), np.int64)
    np.add.at(total, ranges.path[closed], (ranges.end - ranges.start)[closed])
    known = np.bincount(ranges.path[closed], minlength=len(encoded)) > 0
    _, first, _ = each_first(ranges.path.astype(np.int64))
    return CallPaths(
        [*encoded.tolist(), *texts, "[Uncorrelated]"],
        np.concatenate([calls["correlationId"][call][named], np.full(len(encoded), MISSING), [0]]),
        np.concatenate(
            [number.reshape(-1)[named] + len(encoded), np.arange(len(encoded)), [len(encoded) + len(texts)]]
        ).astype(np.int32),
        np.concatenate([_below(ranges.depth[at][named]), ranges.depth[first], [0]]),
        np.concatenate([(calls["end"] - calls["start"])[call][named], np.where(known, total, MISSING), [MISSING]]),
        ranges,
    )


def _below(depth: Ints) -> Ints:
    return np.where(depth == MISSING, MISSING, depth + 1)


def _from_call_chains(file: SqliteFile, strings: Strings, calls: Cells) -> CallPaths:
    """Make call paths of the resolved frames of the chain whose number follows the call's; of several calls with one
    correlation the first counts."""
    frames = file.table("CUDA_CALLCHAINS", dict.fromkeys(("id", "symbol", "unresolved", "stackDepth"), INTEGER))
    resolved = np.flatnonzero(frames["unresolved"] == MISSING)
    order = resolved[np.lexsort((-frames["stackDepth"][resolved], frames["id"][resolved]))]
    chain, begin = np.unique(frames["id"][order], return_index=True)
    texts = [
        ARROW.join(name.replace(ARROW, "- >") for name in strings(frames["symbol"][part]) if name is not None)
        for part in np.split(order, begin[1:])
    ]
    deepest = frames["stackDepth"][order[begin]] if len(begin) else np.zeros(0, np.int64)
    call, at = join_on_keys(calls["callchainId"], chain - 1)
    _, first, _ = each_first(calls["correlationId"][call])
    call, at = call[first], at[first]
    return _paths_of(strings, calls, call, [texts[k] + ARROW if texts[k] else "" for k in at.tolist()], deepest[at] + 1)


def _from_calls(strings: Strings, calls: Cells) -> CallPaths:
    """Make call paths of the calls alone, where nothing is known of the callers."""
    call = np.flatnonzero(calls["correlationId"] != MISSING)
    paths = _paths_of(strings, calls, call, [""] * len(call), np.zeros(len(call), np.int64))
    paths.notes = ("has neither ranges of Extra-Prof nor call chains: call paths are the calls alone",)
    return paths


def _paths_of(strings: Strings, calls: Cells, call: Ints, callers: list[str], depth: Ints) -> CallPaths:
    names = strings(calls["nameId"][call])
    named = np.array([name is not None for name in names], np.bool_)
    full = [
        before + name.replace(ARROW, "- >") for before, name in zip(callers, names, strict=True) if name is not None
    ]
    texts, path = np.unique(np.array(full, str), return_inverse=True)
    return CallPaths(
        texts.tolist(),
        calls["correlationId"][call][named],
        path.astype(np.int32),
        depth[named],
        (calls["end"] - calls["start"])[call][named],
    )
