"""The traces of some profiles, in a window of time: a view of those of a whole experiment, read when it is asked for.

SelectedSamples   lines of some profiles; the sample before the window is moved to its beginning
SelectedSpans     spans that reach into the window, of some kinds and categories, numbered anew, with what only some
                  of them have
KeptTables        rows of the small tables beside the spans, of the processes and agents that are left
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import accumulate
from typing import Any

import numpy as np

from callgrove.arrays import ABSENT, Array, Bools, Ids, Ints, absent_stays, new_numbers
from callgrove.errors import CallgroveError
from callgrove.model.table import Column, Table
from callgrove.model.traces.events import (
    LABEL,
    PLACES,
    Counters,
    Device,
    GathersLines,
    SampleBackend,
    Samples,
    SideTable,
    SpanBackend,
    SpanChunk,
    SpanKind,
    Traces,
    Window,
)

__all__ = ["ALL_SPANS", "KeptTables", "SelectedSpans", "SpanChoice", "TraceSelection", "chain_tables"]


@dataclass(frozen=True)
class SpanChoice:
    """Which spans: of some kinds, of some categories, of some names, and those that lie wholly inside a window of time;
    None is all. A category is named in full or by its first words: HIP stands for HIP_RUNTIME_API as well. Case does
    not matter there. `names` says which of some names are chosen, given all texts that the spans refer to; it travels
    to workers."""

    kinds: frozenset[SpanKind] | None = None
    categories: frozenset[str] | None = None
    names: Callable[[Sequence[str], Sequence[str]], Bools] | None = None
    inside: Window | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it looks at."""
        asked = {
            "kind": self.kinds,
            "category": self.categories,
            LABEL: self.names,
            "start_ns": self.inside,
            "end_ns": self.inside,
        }
        return tuple(column for column, choice in asked.items() if choice is not None)

    def of(self, chunk: SpanChunk, strings: Sequence[str]) -> Bools | None:
        """Return the chosen ones of a chunk; None: all."""
        chosen: Bools | None = None
        if self.kinds is not None:
            chosen = np.isin(chunk["kind"], sorted(self.kinds))
        if self.categories is not None:
            different, number = np.unique(chunk["category"], return_inverse=True)
            wanted = np.array([k >= 0 and self._names(strings[k]) for k in different.tolist()], np.bool_)
            named = wanted[number.reshape(-1)]
            chosen = named if chosen is None else chosen & named
        if self.names is not None:
            named = self._of_names(chunk[LABEL], strings)
            chosen = named if chosen is None else chosen & named
        if self.inside is not None:
            within = (chunk["start_ns"] >= self.inside[0]) & (chunk["end_ns"] <= self.inside[1])
            chosen = within if chosen is None else chosen & within
        return chosen

    def _of_names(self, labels: Ids, strings: Sequence[str]) -> Bools:
        assert self.names is not None
        used, number = np.unique(labels, return_inverse=True)
        wanted = np.zeros(len(used), np.bool_)  # what has no name has none of those that are asked for
        wanted[used >= 0] = self.names([strings[k] for k in used[used >= 0].tolist()], strings)
        return wanted[number.reshape(-1)]

    def _names(self, category: str) -> bool:
        words = category.lower()
        return any(words == name or words.startswith(f"{name}_") for name in map(str.lower, self.categories or ()))


ALL_SPANS = SpanChoice()


def narrow(window: Window | None, inner: Window | None) -> Window | None:
    """Return the time that both windows have in common; None is all of it."""
    if window is None or inner is None:
        return inner if window is None else window
    start = max(window[0], inner[0])
    return start, max(start, min(window[1], inner[1]))


@dataclass(frozen=True, eq=False)
class TraceSelection:
    """What of traces stays. Maps give for each profile, context and metric row the new number, or -1."""

    profiles: Ids
    contexts: Ids
    metrics: Ids
    window: Window | None = None
    spans: SpanChoice = ALL_SPANS

    @property
    def has_all_profiles(self) -> bool:
        return bool((self.profiles >= 0).all())

    def apply(self, traces: Traces) -> Traces:
        """Return the traces that stay."""
        samples, spans = traces.samples, traces.spans_backend
        return Traces(
            None if samples is None else SelectedSamples(samples, self),
            None if spans is None else SelectedSpans(spans, self),
            None if traces.counters_source is None else partial(_select_counters, traces, self),
            self._cut_range(traces.time_range),
            None if traces.split is None else partial(_select_parts, traces, self),
            self._tables(traces),
            traces.part_sizes,
        )

    def _cut_range(self, said: Window | None) -> Window | None:
        if self.window is None or said is None:
            return said
        start = max(said[0], self.window[0])
        return start, max(start, min(said[1], self.window[1]))

    def _tables(self, traces: Traces) -> Mapping[str, Callable[[], Table]]:
        if self.has_all_profiles or traces.spans_backend is None:
            return traces.tables
        return chain_tables([KeptTables(traces, self.profiles)], int((self.profiles >= 0).sum()))


def _select_parts(traces: Traces, selection: TraceSelection, first: int, end: int | None = None) -> Traces:
    """Return what stays of one part, or of several, by itself; spans of parts have no contexts."""
    assert traces.split is not None
    profiles = np.concatenate(traces.parts()[first : first + 1 if end is None else end])
    kept = new_numbers(np.flatnonzero(selection.profiles[profiles] >= 0), len(profiles))
    alone, narrowed = traces.split(first, end), replace(selection, profiles=kept, contexts=np.empty(0, np.int32))
    spans = None if alone.spans_backend is None else SelectedSpans(alone.spans_backend, narrowed)
    return Traces(None, spans, partial(_select_counters, alone, narrowed))


def _select_counters(traces: Traces, selection: TraceSelection) -> Counters | None:
    """Return the counters of the profiles that stay, in the window."""
    counters = traces.counters
    if counters is None:
        return None
    kept: Bools = selection.profiles[counters.profile] >= 0
    if (window := selection.window) is not None:
        kept &= (counters.time_ns >= window[0]) & (counters.time_ns < window[1])
    profile, time_ns = selection.profiles[counters.profile[kept]], counters.time_ns[kept]
    return replace(counters, profile=profile, name=counters.name[kept], time_ns=time_ns, value=counters.value[kept])


class SelectedSamples:
    """Sample lines of some profiles."""

    def __init__(self, backend: SampleBackend, selection: TraceSelection) -> None:
        self._backend, self._window = backend, selection.window
        self._contexts = absent_stays(selection.contexts)  # idle stays idle
        metric, profile = absent_stays(selection.metrics)[backend.metric], selection.profiles[backend.profile]
        self._lines = np.flatnonzero((profile >= 0) & ((backend.metric < 0) | (metric >= 0)))
        self.profile: Ids = profile[self._lines]
        self.metric: Ids = metric[self._lines]

    @cached_property
    def count(self) -> Ints:
        """Without a window it is known; with one, times are looked at."""
        if self._window is None:
            return self._backend.count[self._lines]
        return np.array([len(self._backend.line(line, self._window)) for line in self._lines.tolist()], np.int64)

    @property
    def problems(self) -> list[CallgroveError]:
        return self._backend.problems

    def gather(self, lines: Ints) -> Samples | None:
        """Return the samples of several lines, one line after the other; None where they are to be read one by one."""
        samples = self._backend.gather(self._lines[lines]) if isinstance(self._backend, GathersLines) else None
        if samples is None or self._window is not None:
            return None
        return replace(samples, context=self._contexts[samples.context])

    def line(self, line: int, window: Window | None = None) -> Samples:
        samples = self._backend.line(int(self._lines[line]), narrow(self._window, window))
        time_ns = samples.time_ns if self._window is None else np.maximum(samples.time_ns, self._window[0])
        return Samples(time_ns, self._contexts[samples.context], samples.until_ns)


class SelectedSpans:
    """Spans of some profiles that reach into a window, of some kinds and categories, numbered anew."""

    def __init__(self, backend: SpanBackend, selection: TraceSelection) -> None:
        self._backend, self._selection = backend, selection
        self._profiles, self._contexts = absent_stays(selection.profiles), absent_stays(selection.contexts)
        self._has_all = selection.has_all_profiles and selection.window is None and selection.spans == ALL_SPANS

    @property
    def strings(self) -> Sequence[str]:
        return self._backend.strings

    def _read(self, columns: Sequence[str], window: Window | None, profiles: Ints | None) -> Iterator[SpanChunk]:
        """Yield the chosen spans, with their old numbers."""
        choice = self._selection.spans
        asked = (*columns, *(name for name in choice.columns if name not in columns))
        for chunk in self._backend.chunks(asked, window, profiles):
            chosen = choice.of(chunk, self._backend.strings)
            kept = {name: chunk[name] for name in ("span", *columns)}
            if chosen is not None:
                kept = {name: column[chosen] for name, column in kept.items()}
            if len(kept["span"]):
                yield kept

    @cached_property
    def _kept(self) -> Ints:
        """The old numbers of the spans that stay, ascending; asked for only where some do not."""
        chunks = self._read(("profile",), self._selection.window, self._old_profiles(None))
        return np.concatenate([np.empty(0, np.int64), *(chunk["span"] for chunk in chunks)])

    def _old_profiles(self, profiles: Ints | None) -> Ints | None:
        """Return the profiles of the whole that are those of the part with these numbers; None is all."""
        new = self._selection.profiles
        if profiles is not None:
            return np.flatnonzero(np.isin(new, profiles) & (new >= 0))
        return None if self._selection.has_all_profiles else np.flatnonzero(new >= 0)

    def _new_numbers(self, spans: Array) -> Array:
        return spans if self._has_all else np.searchsorted(self._kept, spans)

    def count(self) -> int:
        return self._backend.count() if self._has_all else len(self._kept)

    def chunks(self, columns: Sequence[str], window: Window | None, profiles: Ints | None) -> Iterator[SpanChunk]:
        for chunk in self._read(columns, narrow(self._selection.window, window), self._old_profiles(profiles)):
            out = {**chunk, "span": self._new_numbers(chunk["span"])}
            if "profile" in out:
                out["profile"] = self._profiles[chunk["profile"]]
            if "context" in out:
                out["context"] = self._contexts[chunk["context"]]
            yield out

    def parts(self) -> Sequence[Ints]:
        """Return those of the whole, in the same order; some may be empty."""
        numbers = [self._selection.profiles[part] for part in self._backend.parts()]
        return [part[part >= 0].astype(np.int64) for part in numbers]

    def side(self, name: str, part: int | None = None) -> SideTable | None:
        whole = self._backend.side(name, part)
        return None if whole is None else self._renumber(whole)

    def has_side(self, name: str, part: int) -> bool:
        """Return whether the whole has such a table: to look at all its rows would take as long as to write them."""
        return Traces(spans_backend=self._backend).has_side(name, part)

    def _renumber(self, whole: SideTable) -> SideTable:
        if self._has_all:
            return whole
        part = whole.take(np.flatnonzero(np.isin(whole.span, self._kept)))
        return SideTable(np.searchsorted(self._kept, part.span), part.columns)

    def side_chunks(self, name: str, part: int) -> Iterator[SideTable]:
        for table in Traces(spans_backend=self._backend).side_chunks(name, part):
            yield self._renumber(table)

    def devices(self, part: int) -> Sequence[Device]:
        return Traces(spans_backend=self._backend).devices(part)


# Small tables that stand beside the spans of several inputs (`Traces.tables`), as those of one.
#
# Of an input whose profiles are all in the result every row stays; else those of processes that still have a profile,
# of agents in parts of the traces that still have one, and of things that belong to such a process (`guid`). Rows
# follow each other, input by input; what numbers them (`places`), or parts of the traces (`agents`), is counted anew.


PROCESSES, AGENTS = "processes", "agents"
NAMED_BY = {"process": PROCESSES, "agent": AGENTS}  # columns of `places`, and the table whose rows they number
PART, GUID = "part", "guid"


@dataclass(frozen=True, eq=False)
class KeptTables:
    """The tables of one input; `profiles` gives the number in the result of each of its profiles, or -1."""

    traces: Traces
    profiles: Ids

    @property
    def has_profiles(self) -> bool:
        return bool((self.profiles >= 0).any())

    @property
    def n_parts(self) -> int:
        return len(self.traces.parts())

    @cached_property
    def places(self) -> Table | None:
        make = self.traces.tables.get(PLACES)
        table = None if make is None else make()
        return table if table is not None and len(table) == len(self.profiles) else None

    def table(self, name: str) -> Table | None:
        """Return what stays of a table."""
        make = self.traces.tables.get(name) if self.has_profiles else None
        if make is None:
            return None
        table = make()
        rows = self._rows(name, table)
        return Table(tuple(Column(c.name, _take_cells(c.plain(), rows)) for c in table.columns))

    def _rows(self, name: str, table: Table) -> Ints:
        """Return the rows that stay."""
        every = np.arange(len(table))
        if (self.profiles >= 0).all() or self.places is None:
            return every
        if name == PROCESSES:
            here = np.flatnonzero(self.profiles >= 0)
            wanted = {row for row in _take_cells(self.places.column("process").plain(), here) if row is not None}
            return np.array([row for row in every.tolist() if row in wanted], np.int64)
        if name == AGENTS:
            parts = {k for k, profiles in enumerate(self.traces.parts()) if (self.profiles[profiles] >= 0).any()}
            return np.flatnonzero([part in parts for part in table.column(PART).plain()])
        if GUID in table.names and (processes := self.table(PROCESSES)) is not None:
            guids = {None, *processes.column(GUID).plain()}
            return np.flatnonzero([guid in guids for guid in table.column(GUID).plain()])
        return every

    def numbers(self, name: str) -> Ints:
        """Return the number that each row of a table has among those that stay, or -1."""
        make = self.traces.tables.get(name)
        table = Table(()) if make is None else make()
        rows = self._rows(name, table)
        out = np.full(len(table), ABSENT, np.int64)
        out[rows] = np.arange(len(rows))
        return out


def chain_tables(inputs: Sequence[KeptTables], n_profiles: int) -> Mapping[str, Callable[[], Table]]:
    """Return the tables of all inputs by name; each is made when it is asked for."""
    names = dict.fromkeys(name for one in inputs if one.has_profiles for name in one.traces.tables)
    make: dict[str, Callable[[], Table]] = {name: partial(_join_tables, inputs, name) for name in names}
    if PLACES in names:
        make[PLACES] = partial(_join_places, inputs, n_profiles)
    return make


def _join_tables(inputs: Sequence[KeptTables], name: str) -> Table:
    """Return the rows of all inputs; columns that only some have are empty elsewhere."""
    tables = [one.table(name) for one in inputs]
    columns = dict.fromkeys(column for table in tables if table is not None for column in table.names)
    cells: dict[str, list[object]] = {column: [] for column in columns}
    firsts = _offsets([one.n_parts for one in inputs])
    for table, first in zip(tables, firsts, strict=True):
        if table is None:
            continue
        for column in columns:
            values_here: list[Any] = table.column(column).plain() if column in table.names else [None] * len(table)
            cells[column] += (
                [_move_number(part, first) for part in values_here] if (name, column) == (AGENTS, PART) else values_here
            )
    return Table(tuple(Column(column, values) for column, values in cells.items()))


def _join_places(inputs: Sequence[KeptTables], n_profiles: int) -> Table:
    """Return a row for every profile of the result; empty for those whose input says nothing."""
    cells: dict[str, list[object]] = {column: [None] * n_profiles for column in (*NAMED_BY, "number")}
    firsts = dict.fromkeys(NAMED_BY, 0)
    for one in (one for one in inputs if one.has_profiles and one.places is not None):
        assert one.places is not None
        here = np.flatnonzero(one.profiles >= 0)
        for column in (column for column in one.places.columns if column.name in cells):
            values_here = _take_cells(column.plain(), here)
            if column.name in NAMED_BY:
                numbers = one.numbers(NAMED_BY[column.name])
                known = [int(numbers[row]) if row in range(len(numbers)) else None for row in values_here]
                values_here = [_move_number(row, firsts[column.name]) for row in known]
                firsts[column.name] += int((numbers >= 0).sum())
            for profile, cell in zip(one.profiles[here].tolist(), values_here, strict=True):
                cells[column.name][profile] = cell
    return Table(tuple(Column(name, values) for name, values in cells.items()))


def _offsets(sizes: Sequence[int]) -> list[int]:
    """Return where each begins if they follow each other."""
    return [0, *accumulate(sizes)][:-1]


def _move_number(number: int | None, first: int) -> int | None:
    return None if number is None else number + first


def _take_cells(cells: Sequence[Any], rows: Ints) -> list[Any]:
    return [cells[row] for row in rows.tolist()]
