"""How spans are drawn: their order, however many there are, and lanes for those that would hide each other.

    order = SpanOrder(group)                        group[p]: what comes first in the order, such as the process
    for chunk in traces.spans(columns):
        order.add(chunk)                            in file order, which may be any
    for chunk in order.chunks():                    by (group, start, -end, span)
        ...

The order holds on every track as well, since tracks are parts of groups. Memory holds `rows` spans and a block of each
of the runs that overlap in time; the rest lies in an unnamed temporary file, as sorted runs:

    run 0   |=====|=====|=====|             what is read in file order is mostly in time order,
    run 1            |=====|=====|=====|    so that few runs are open at a time
    run 2                         |=====|=====|

Blocks are stored column after column. Runs that do not overlap any other are copied as they are.
"""

from __future__ import annotations

import heapq
import itertools
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, Any

import numpy as np

from callgrove.arrays import Array, Bools, Ids, Ints
from callgrove.errors import CallgroveError
from callgrove.model.traces.events import SpanChunk

__all__ = ["Lanes", "SpanOrder"]


# -- order -------------------------------------------------------------------------------------------------------------


ROWS = 1 << 17  # spans that are sorted in memory
BLOCK = 1 << 13  # spans that are read of a run at a time
GIVEN = 1 << 15  # spans of a chunk that is given, at least, where there are so many

Key = tuple[int, int, int, int]  # group, start, -end, span
Types = Mapping[str, np.dtype[Any]]


class SpanOrder:
    """Chunks with the columns `span`, `profile`, `start_ns`, `end_ns` and any others, of types without objects."""

    def __init__(self, group: Ints, rows: int = ROWS, block: int = BLOCK) -> None:
        self._group, self._rows, self._block = group, rows, block
        self._waiting: list[SpanChunk] = []
        self._n_waiting = 0
        self._file: IO[bytes] | None = None
        self._runs: list[_Run] = []

    def add(self, chunk: SpanChunk) -> None:
        """Add chunks, which have the same columns each time, of types that may be narrower or wider."""
        self._waiting.append(chunk)
        self._n_waiting += len(chunk["span"])
        if self._n_waiting >= self._rows:
            self._spool()

    @property
    def is_filled(self) -> bool:
        """Whether there is so much that to sort more with it saves nothing, where the rest need not be in one order
        with it."""
        return bool(self._runs) or self._n_waiting >= self._rows // 2

    def chunks(self) -> Iterator[SpanChunk]:
        """Yield everything that was added, once; each chunk is of one group."""
        if not self._runs:
            whole = self._sort(_concatenate(self._waiting)) if self._waiting else {}
            self._waiting = []
            yield from self._divide(whole)
            return
        if self._waiting:
            self._spool()
        pieces: list[SpanChunk] = []
        n = 0
        for piece in self._merge():
            pieces.append(piece)
            n += len(piece["span"])
            if n >= GIVEN:
                yield from self._divide(_concatenate(pieces))
                pieces, n = [], 0
        if pieces:
            yield from self._divide(_concatenate(pieces))
        self.close()

    def close(self) -> None:
        """Give back the temporary file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _spool(self) -> None:
        """Sort what waits and put it away."""
        rows = self._sort(_concatenate(self._waiting))
        self._waiting, self._n_waiting = [], 0
        if self._file is None:
            self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed when everything was given
        n, place = len(rows["span"]), self._file.seek(0, 2)
        try:
            for first in range(0, n, self._block):
                for column in rows.values():
                    self._file.write(np.ascontiguousarray(column[first : first + self._block]).data)
            self._file.flush()
        except OSError as error:
            place_of = tempfile.gettempdir()
            raise CallgroveError(
                f"{place_of}: no room to sort spans in: {error.strerror}; name another folder with TMPDIR"
            ) from error
        types = {name: column.dtype for name, column in rows.items()}
        self._runs.append(_Run(self, types, place, n, self.key(rows, 0)))

    def _merge(self) -> Iterator[SpanChunk]:
        waiting = sorted(self._runs, key=lambda run: run.first)
        active: list[_Run] = []
        while waiting or active:
            if not active:
                active.append(waiting.pop(0).open())
            bound = min(run.last for run in active)
            while waiting and waiting[0].first <= bound:
                active.append(waiting.pop(0).open())
                bound = min(bound, active[-1].last)
            pieces = [piece for run in active if len((piece := run.take(bound))["span"])]
            yield pieces[0] if len(pieces) == 1 else self._sort(_concatenate(pieces))
            active = [run for run in active if run.refill()]

    def read(self, place: int, n: int) -> bytes:
        """Return bytes of the temporary file."""
        assert self._file is not None
        self._file.seek(place)
        return self._file.read(n)

    @property
    def block(self) -> int:
        return self._block

    def key(self, rows: SpanChunk, row: int) -> Key:
        group = int(self._group[rows["profile"][row]])
        return group, int(rows["start_ns"][row]), -int(rows["end_ns"][row]), int(rows["span"][row])

    def up_to(self, rows: SpanChunk, bound: Key) -> int:
        """Return how many of the rows, which are sorted, come no later than the bound."""
        group, start, minus_end, span = bound
        group_of_row = self._group[rows["profile"]]
        before: Bools = rows["span"] <= span
        for column, limit, comes_first in (
            (rows["end_ns"], -minus_end, np.greater),
            (rows["start_ns"], start, np.less),
            (group_of_row, group, np.less),
        ):
            before = comes_first(column, limit) | ((column == limit) & before)
        return int(np.count_nonzero(before))

    def _sort(self, rows: SpanChunk) -> SpanChunk:
        """Return rows sorted by group, start, decreasing end and number."""
        order = _order(self._group[rows["profile"]], rows["start_ns"], rows["end_ns"], rows["span"])
        return rows if order is None else {name: column[order] for name, column in rows.items()}

    def _divide(self, rows: SpanChunk) -> Iterator[SpanChunk]:
        """Yield pieces of one group each."""
        if not rows:
            return
        group = self._group[rows["profile"]]
        edges = [0, *(np.flatnonzero(np.diff(group)) + 1).tolist(), len(group)]
        for first, last in itertools.pairwise(edges):
            for begin in range(first, last, 2 * GIVEN):
                part = slice(begin, min(begin + 2 * GIVEN, last))
                yield {name: column[part] for name, column in rows.items()}


class _Run:
    """A sorted run of the temporary file, of which one block is in memory while it is read."""

    def __init__(self, order: SpanOrder, types: Types, place: int, n: int, first: Key) -> None:
        self._order, self._types, self._place, self._left, self.first = order, types, place, n, first
        self._rows: SpanChunk = {}
        self.last = first

    def open(self) -> _Run:
        self._read()
        return self

    def _read(self) -> None:
        n = min(self._left, self._order.block)
        data = self._order.read(self._place, n * sum(type_.itemsize for type_ in self._types.values()))
        rows: dict[str, Array] = {}
        at = 0
        for name, type_ in self._types.items():
            rows[name] = np.frombuffer(data, type_, n, at)
            at += n * type_.itemsize
        self._rows = rows
        self._place += len(data)
        self._left -= n
        self.last = self._order.key(self._rows, n - 1)

    def take(self, bound: Key) -> SpanChunk:
        """Take rows up to the bound; they are no longer here."""
        n = len(self._rows["span"]) if self.last <= bound else self._order.up_to(self._rows, bound)
        out = {name: column[:n] for name, column in self._rows.items()}
        self._rows = {name: column[n:] for name, column in self._rows.items()}
        return out

    def refill(self) -> bool:
        """Return whether there are rows left. Then some are in memory."""
        if not len(self._rows["span"]) and self._left:
            self._read()
        return bool(len(self._rows["span"]))


def _order(group: Ints, start: Ints, end: Ints, span: Ints) -> Ints | None:
    """Return the order of rows; None where they are in it already."""
    later = _comes_first(group, start, end, span)
    if later.all():
        return None
    order = np.argsort(span, kind="stable") if bool((np.diff(span) < 0).any()) else np.arange(len(span))
    order = order[np.argsort(start[order], kind="stable")]
    tied = start[order][1:] == start[order][:-1]
    if bool((tied & (end[order][1:] > end[order][:-1])).any()):
        order = order[np.lexsort((~end[order], start[order]))]
    if bool((group != group[0]).any()):
        order = order[np.argsort(group[order], kind="stable")]
    return order


def _comes_first(group: Ints, start: Ints, end: Ints, span: Ints) -> Bools:
    """Return for each row but the last whether it comes before the next one."""
    out: Bools = span[:-1] < span[1:]
    for column, comes_first in ((end, np.greater), (start, np.less), (group, np.less)):
        out = comes_first(column[:-1], column[1:]) | ((column[:-1] == column[1:]) & out)
    return out


def _concatenate(chunks: Sequence[SpanChunk]) -> Mapping[str, Array]:
    if len(chunks) == 1:
        return chunks[0]
    return {name: np.concatenate([chunk[name] for chunk in chunks]) for name in chunks[0]}


# -- lanes -------------------------------------------------------------------------------------------------------------
#     stream          |==A==|  |=C=|         lane 0 is the track itself
#                        |==B==|             lane 1
#     thread          |---- f ------|        a thread keeps its nesting: what lies inside stays in the lane
#                       |-g-| |-- h --|      h crosses f, so it goes to lane 1
#
# Spans come chunk after chunk, in the order (start, -end, number) on every track. On devices an interval takes the
# lowest lane that is free; touching ones share a lane. On threads it takes the first lane in which nothing is open
# that ends before it does. Most tracks need no second lane, which is found out with a few passes over arrays; only
# intervals that hang together with one that does are looked at one by one.


ALL, NOTHING = 2**63 - 1, -1  # what fits into an empty lane, and into one that is taken
MANY = 16  # lanes that are looked through one by one
Stack = list[int]  # ends of what is open in a lane, the outermost first


class Lanes:
    """The lanes of any number of tracks. `nests[t]`: spans of track t nest, as those of threads do."""

    def __init__(self) -> None:
        self._open: dict[int, list[Stack]] = {}

    def of(self, track: Ints, nests: Bools, start: Ints, end: Ints) -> Ids:
        """Return the lane of every span of a chunk, which are in order on each track; none ends before it starts."""
        out = np.zeros(len(track), np.int32)
        if not len(track):
            return out
        order = np.argsort(track.astype(np.uint16) if int(track.max()) < 1 << 16 else track, kind="stable")
        sorted_track = track[order]
        edges = [0, *(np.flatnonzero(np.diff(sorted_track)) + 1).tolist(), len(sorted_track)]
        for first, last in itertools.pairwise(edges):
            rows = order[first:last]
            out[rows] = self._of_track(int(sorted_track[first]), bool(nests[rows[0]]), start[rows], end[rows])
        return out

    def _of_track(self, track: int, nests: bool, start: Ints, end: Ints) -> Ids:
        begin = int(start[0])
        state = [[stop for stop in stack if stop > begin] for stack in self._open.get(track, [])]
        latest = max((stop for stack in state for stop in stack), default=begin)
        before = np.maximum.accumulate(np.append(latest, end))[:-1]
        fresh: Bools = start >= before  # nothing is open
        out = np.zeros(len(start), np.int32)
        if fresh.all():
            self._open[track] = [[int(end[-1])]]
            return out
        cluster = np.cumsum(fresh, dtype=np.int64)  # 0: what hangs together with what was open before
        apart = self._needs_other_lanes(state, nests, start, end, cluster)
        if not nests:  # in clusters of two, the second one takes the second lane
            pairs = np.flatnonzero(np.bincount(cluster, minlength=1)[cluster] == 2)
            pairs = pairs[(cluster[pairs] > 0) & apart[pairs]]
            out[pairs[1::2]] = 1
            apart[pairs[cluster[pairs] < cluster[-1]]] = False  # the last cluster may still be open: it leaves a state
        rows = np.flatnonzero(apart)
        if len(rows) and cluster[rows[0]] > 0:
            state = []
        out[rows] = _fill_lanes(state, start[rows].tolist(), end[rows].tolist(), nests)
        if not apart[-1]:  # the last cluster is all in lane 0
            ends_of_last = end[cluster == cluster[-1]]
            carried = state[0] if state and cluster[-1] == 0 else []
            now = int(start[-1])
            state = [[*(stop for stop in carried if stop > now), *ends_of_last[ends_of_last > now].tolist()]]
        self._open[track] = state
        return out

    @staticmethod
    def _needs_other_lanes(state: Sequence[Stack], nests: bool, start: Ints, end: Ints, cluster: Ints) -> Bools:
        """Return the rows of clusters in which some interval needs another lane than the first."""
        n_carried = len(state[0]) if state else 0
        needs_more = np.zeros(int(cluster[-1]) + 1, np.bool_)
        if nests:
            whole_start = np.append(np.full(n_carried, start[0]), start)
            whole_end = np.append(np.array(state[0] if state else [], np.int64), end)
            needs_more[cluster[np.maximum(np.flatnonzero(_crosses(whole_start, whole_end)) - n_carried, 0)]] = True
        else:
            needs_more[np.bincount(cluster, minlength=1) > 1] = True
            needs_more[0] = True
        if any(state[1:]):  # lanes beside the first are still open: the first cluster goes on with them
            needs_more[0] = True
        return needs_more[cluster]


def _crosses(start: Ints, end: Ints) -> Bools:
    """Return which intervals, of some in order, end while a later one is open that ends after them; at least one of
    those that hang together, if any does. When an interval ends, as many should be open as when it began."""
    out = np.zeros(len(start), np.bool_)
    rows = np.flatnonzero(end > start)  # the others never reach beyond anything
    begins, ends = start[rows], end[rows]
    n = len(rows)
    by_end = n - 1 - np.argsort(ends[::-1], kind="stable")  # of equal ends the innermost one, which began last, first
    rank = np.empty(n, np.int64)
    rank[by_end] = np.arange(n)
    depth = np.arange(n) - np.searchsorted(ends[by_end], begins, side="right")
    open_after = np.searchsorted(begins, ends, side="left") - rank - 1
    out[rows] = open_after != depth
    return out


def _fill_lanes(lanes: list[Stack], starts: list[int], ends: list[int], nests: bool) -> list[int]:
    """Return the lane of every interval, one after the other; `lanes` is changed."""
    out: list[int] = []
    for start, end in zip(starts, ends, strict=True):
        for lane, stack in enumerate(lanes):
            while stack and stack[-1] <= start:
                stack.pop()
            if not stack or (nests and stack[-1] >= end):
                stack.append(end)
                out.append(lane)
                break
        else:
            if len(lanes) >= MANY:
                break
            out.append(len(lanes))
            lanes.append([end])
    room = _Room(lanes, nests) if len(out) < len(starts) else None
    for start, end in zip(starts[len(out) :], ends[len(out) :], strict=True):
        assert room is not None
        room.pass_to(start)
        out.append(room.first_for(end))
        room.put(out[-1], end)
    return out


class _Room:
    """What fits into which lane: `_most[k]`, over a binary tree of lanes, is the latest end that fits into one of them.
    So the first lane is found in log2(lanes) steps, also where thousands of intervals cross."""

    def __init__(self, lanes: list[Stack], nests: bool) -> None:
        self._lanes, self._nests = lanes, nests
        self._ends = [(stack[-1], lane) for lane, stack in enumerate(lanes) if stack]  # when a lane changes
        heapq.heapify(self._ends)
        self._grow()

    def _grow(self) -> None:
        self._size = 1 << (len(self._lanes) + 1).bit_length()
        self._most = [ALL] * (2 * self._size)
        for lane in range(len(self._lanes)):
            self._most[self._size + lane] = self._fits(lane)
        for place in range(self._size - 1, 0, -1):
            self._most[place] = max(self._most[2 * place], self._most[2 * place + 1])

    def _fits(self, lane: int) -> int:
        stack = self._lanes[lane]
        return ALL if not stack else stack[-1] if self._nests else NOTHING

    def _note_change(self, lane: int) -> None:
        place = self._size + lane
        self._most[place] = self._fits(lane)
        while place > 1:
            place //= 2
            self._most[place] = max(self._most[2 * place], self._most[2 * place + 1])

    def pass_to(self, now: int) -> None:
        """Close what has ended."""
        while self._ends and self._ends[0][0] <= now:
            _, lane = heapq.heappop(self._ends)
            stack = self._lanes[lane]
            while stack and stack[-1] <= now:
                stack.pop()
            if stack:
                heapq.heappush(self._ends, (stack[-1], lane))
            self._note_change(lane)

    def first_for(self, end: int) -> int:
        place = 1
        while place < self._size:
            place = 2 * place if self._most[2 * place] >= end else 2 * place + 1
        return place - self._size

    def put(self, lane: int, end: int) -> None:
        if lane == len(self._lanes):
            self._lanes.append([])
            if len(self._lanes) >= self._size:
                self._grow()
        self._lanes[lane].append(end)
        heapq.heappush(self._ends, (end, lane))
        self._note_change(lane)
