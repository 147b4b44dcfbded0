"""Traces of some profiles in a window of time, read from those of the whole experiment when asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from callgrove.errors import CallgroveError
from callgrove.model.arrays import Bools, Ids, Ints
from callgrove.model.devices import Device
from callgrove.model.renumbering import absent_stays
from callgrove.model.traces import SampleBackend, Samples, SideTable, SpanBackend, SpanChunk, SpanKind, Traces, Window

__all__ = ["ALL_SPANS", "SelectedSamples", "SelectedSpans", "SpanChoice"]


def narrowed(window: Window | None, inner: Window | None) -> Window | None:
    """The time that both windows have in common; None is all of it."""
    if window is None or inner is None:
        return inner if window is None else window
    start = max(window[0], inner[0])
    return start, max(start, min(window[1], inner[1]))


class SelectedSamples:
    """Sample lines of some profiles. Maps give the new number of an old one, or -1."""

    def __init__(
        self, backend: SampleBackend, profiles: Ids, metrics: Ids, contexts: Ids, window: Window | None
    ) -> None:
        self._backend, self._window = backend, window
        self._contexts = absent_stays(contexts)  # idle stays idle
        metric = absent_stays(metrics)[backend.metric]
        kept = (profiles[backend.profile] >= 0) & ((backend.metric < 0) | (metric >= 0))
        self._lines = np.flatnonzero(kept)
        self.profile: Ids = profiles[backend.profile[self._lines]]
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

    def line(self, line: int, window: Window | None = None) -> Samples:
        found = self._backend.line(int(self._lines[line]), narrowed(self._window, window))
        time_ns = found.time_ns if self._window is None else np.maximum(found.time_ns, self._window[0])
        return Samples(time_ns, self._contexts[found.context], found.until_ns)


@dataclass(frozen=True)
class SpanChoice:
    """Which spans: of some kinds, and of some categories; None is all. A category is named in full or by its first
    words: HIP stands for HIP_RUNTIME_API as well. Case does not matter."""

    kinds: frozenset[SpanKind] | None = None
    categories: frozenset[str] | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it looks at."""
        return (*(("kind",) if self.kinds is not None else ()), *(("category",) if self.categories is not None else ()))

    def of(self, chunk: SpanChunk, strings: Sequence[str]) -> Bools | None:
        """The chosen ones of a chunk; None: all."""
        chosen: Bools | None = None
        if self.kinds is not None:
            chosen = np.isin(chunk["kind"], sorted(self.kinds))
        if self.categories is not None:
            different, number = np.unique(chunk["category"], return_inverse=True)
            wanted = np.array([k >= 0 and self._names(strings[k]) for k in different.tolist()], np.bool_)
            named = wanted[number.reshape(-1)]
            chosen = named if chosen is None else chosen & named
        return chosen

    def _names(self, category: str) -> bool:
        words = category.lower()
        return any(words == name or words.startswith(f"{name}_") for name in map(str.lower, self.categories or ()))


ALL_SPANS = SpanChoice()


class SelectedSpans:
    """Spans of some profiles that reach into a window, of some kinds and categories, numbered anew."""

    def __init__(
        self, backend: SpanBackend, profiles: Ids, contexts: Ids, window: Window | None, choice: SpanChoice = ALL_SPANS
    ) -> None:
        self._backend, self._window, self._profiles, self._choice = backend, window, profiles, choice
        self._contexts = absent_stays(contexts)
        self._chosen = np.flatnonzero(profiles >= 0)

    @property
    def strings(self) -> Sequence[str]:
        return self._backend.strings

    def _read(self, columns: Sequence[str], window: Window | None, profiles: Ints) -> Iterator[SpanChunk]:
        """The chosen spans, with their old numbers."""
        asked = (*columns, *(name for name in self._choice.columns if name not in columns))
        for chunk in self._backend.chunks(asked, window, profiles):
            chosen = self._choice.of(chunk, self._backend.strings)
            kept = {name: chunk[name] for name in ("span", *columns)}
            if chosen is not None:
                kept = {name: column[chosen] for name, column in kept.items()}
            if len(kept["span"]):
                yield kept

    @cached_property
    def _kept(self) -> Ints:
        """The old numbers of the spans that were kept, ascending."""
        chunks = self._read(("profile",), self._window, self._chosen)
        return np.concatenate([np.empty(0, np.int64), *(chunk["span"] for chunk in chunks)])

    def count(self) -> int:
        return len(self._kept)

    def chunks(self, columns: Sequence[str], window: Window | None, profiles: Ints | None) -> Iterator[SpanChunk]:
        wanted = self._chosen if profiles is None else np.flatnonzero(np.isin(self._profiles, profiles))
        wanted = wanted[self._profiles[wanted] >= 0]
        for chunk in self._read(columns, narrowed(self._window, window), wanted):
            found = {**chunk, "span": np.searchsorted(self._kept, chunk["span"])}
            if "profile" in found:
                found["profile"] = self._profiles[chunk["profile"]]
            if "context" in found:
                found["context"] = self._contexts[chunk["context"]]
            yield found

    def parts(self) -> Sequence[Ints]:
        """Those of the whole, in the same order; some may be empty."""
        own = [self._profiles[part] for part in self._backend.parts()]
        return [part[part >= 0].astype(np.int64) for part in own]

    def side(self, name: str, part: int | None = None) -> SideTable | None:
        whole = self._backend.side(name, part)
        if whole is None:
            return None
        return self._renumber(whole)

    def has_side(self, name: str, part: int) -> bool:
        """Of the whole: to look at all its rows would take as long as to write them."""
        return Traces(spans_backend=self._backend).has_side(name, part)

    def _renumber(self, whole: SideTable) -> SideTable:
        part = whole.take(np.flatnonzero(np.isin(whole.span, self._kept)))
        return SideTable(np.searchsorted(self._kept, part.span), part.columns)

    def side_chunks(self, name: str, part: int) -> Iterator[SideTable]:
        for table in Traces(spans_backend=self._backend).side_chunks(name, part):
            yield self._renumber(table)

    def devices(self, part: int) -> Sequence[Device]:
        return Traces(spans_backend=self._backend).devices(part)
