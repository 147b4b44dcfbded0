"""Which rows of side tables belong to which spans, for who streams spans.

`SideRows` knows the first row of any span; `SideChunks` streams the table as well, where spans come in file order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from callgrove.model.arrays import Ints
from callgrove.model.traces import SideTable, SpanChunk, Traces

__all__ = ["Seen", "SideChunks", "SideRows"]

Seen = Callable[[str, SideTable], None]  # is told of everything that is read of a side table, with its name


def _ignore(name: str, table: SideTable) -> None:
    """Nobody adds it up."""


class SideRows:
    """A side table chunk by chunk, for who streams spans: memory holds the table of one part."""

    def __init__(self, traces: Traces, name: str, seen: Seen = _ignore) -> None:
        self._traces, self._name, self._seen = traces, name, seen
        self._part_of = {int(p): number for number, part in enumerate(traces.parts()) for p in part.tolist()}
        self._part = -1
        self._table: SideTable | None = None
        self._order = self._span = np.empty(0, np.int64)

    def of(self, chunk: SpanChunk) -> tuple[SideTable | None, Ints]:
        """The table, and its first row for every span of the chunk (which has the column `profile`); -1 without one."""
        span = chunk["span"]
        part = self._part_of[int(chunk["profile"][0])] if len(span) else self._part
        if part != self._part:
            self._part, self._table = part, self._traces.side(self._name, part)
            if self._table is not None:
                self._seen(self._name, self._table)
            every = np.empty(0, np.int64) if self._table is None else self._table.span
            self._order = np.argsort(every, kind="stable")
            self._span = every[self._order]
        place = np.searchsorted(self._span, span)
        inside = place < len(self._span)
        found = inside & (np.append(self._span, -1)[np.where(inside, place, len(self._span))] == span)
        return self._table, np.where(found, np.append(self._order, -1)[np.where(found, place, len(self._order))], -1)


class SideChunks:
    """A side table beside spans that come in file order: memory holds the rows of a few chunks."""

    def __init__(self, traces: Traces, name: str, part: int, seen: Seen = _ignore) -> None:
        self._tables, self._name, self._seen = traces.side_chunks(name, part), name, seen
        self._here: list[SideTable] = []
        self._reached = -1  # the last span whose rows were read

    def of(self, spans: Ints) -> Iterator[tuple[SideTable, Ints, Ints]]:
        """For rising numbers of spans: pieces of the table, and which of their rows belong to which of the spans.
        Spans may only rise from call to call."""
        if not len(spans):
            return
        first, last = int(spans[0]), int(spans[-1])
        self._here = [table for table in self._here if int(table.span[-1]) >= first]
        while self._reached < last:
            table = next(self._tables, None)
            if table is None:
                self._reached = 2**63 - 1
            elif len(table.span):
                self._seen(self._name, table)
                self._reached = int(table.span[-1])
                self._here.append(table)
        for table in self._here:
            rows = np.arange(*np.searchsorted(table.span, [first, last + 1]))
            place = np.searchsorted(spans, table.span[rows])
            found = spans[place] == table.span[rows]
            if found.any():
                yield table, rows[found], place[found]
