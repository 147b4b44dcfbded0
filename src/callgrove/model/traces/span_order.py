"""Spans in the order in which they are drawn, however many there are.

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

import itertools
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, Any

import numpy as np

from callgrove.arrays import Array, Bools, Ints
from callgrove.errors import CallgroveError
from callgrove.model.traces.events import SpanChunk

__all__ = ["SpanOrder"]

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
        """Chunks have the same columns each time, of types that may be narrower or wider."""
        self._waiting.append(chunk)
        self._n_waiting += len(chunk["span"])
        if self._n_waiting >= self._rows:
            self._spool()

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
        """Bytes of the temporary file."""
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
        """By group, start, decreasing end and number."""
        order = _order(self._group[rows["profile"]], rows["start_ns"], rows["end_ns"], rows["span"])
        return rows if order is None else {name: column[order] for name, column in rows.items()}

    def _divide(self, rows: SpanChunk) -> Iterator[SpanChunk]:
        """Pieces of one group each."""
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
        """Rows up to the bound; they are no longer here."""
        n = len(self._rows["span"]) if self.last <= bound else self._order.up_to(self._rows, bound)
        out = {name: column[:n] for name, column in self._rows.items()}
        self._rows = {name: column[n:] for name, column in self._rows.items()}
        return out

    def refill(self) -> bool:
        """Are there rows left? Then some are in memory."""
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
    """Does each row but the last come before the next one?"""
    out: Bools = span[:-1] < span[1:]
    for column, comes_first in ((end, np.greater), (start, np.less), (group, np.less)):
        out = comes_first(column[:-1], column[1:]) | ((column[:-1] == column[1:]) & out)
    return out


def _concatenate(chunks: Sequence[SpanChunk]) -> Mapping[str, Array]:
    if len(chunks) == 1:
        return chunks[0]
    return {name: np.concatenate([chunk[name] for chunk in chunks]) for name in chunks[0]}
