"""Traces of some profiles in a window of time, read from those of the whole experiment when asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np

from callgrove.errors import CallgroveError
from callgrove.model.arrays import ABSENT, Ids, Ints
from callgrove.model.traces import SampleBackend, Samples, SideTable, SpanBackend, SpanChunk, Traces, Window

__all__ = ["SelectedSamples", "SelectedSpans"]


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
        self._contexts = np.append(contexts, np.int32(ABSENT))  # -1 picks the last entry: idle stays idle
        metric = np.append(metrics, np.int32(ABSENT))[backend.metric]
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
        return Samples(time_ns, self._contexts[found.context])


class SelectedSpans:
    """Spans of some profiles that reach into a window, numbered anew."""

    def __init__(self, backend: SpanBackend, profiles: Ids, contexts: Ids, window: Window | None) -> None:
        self._backend, self._window, self._profiles = backend, window, profiles
        self._contexts = np.append(contexts, np.int32(ABSENT))
        self._chosen = np.flatnonzero(profiles >= 0)

    @property
    def strings(self) -> Sequence[str]:
        return self._backend.strings

    @cached_property
    def _kept(self) -> Ints:
        """The old numbers of the spans that were kept, ascending."""
        chunks = self._backend.chunks(("profile",), self._window, self._chosen)
        return np.concatenate([np.empty(0, np.int64), *(chunk["span"] for chunk in chunks)])

    def count(self) -> int:
        return len(self._kept)

    def chunks(self, columns: Sequence[str], window: Window | None, profiles: Ints | None) -> Iterator[SpanChunk]:
        wanted = self._chosen if profiles is None else np.flatnonzero(np.isin(self._profiles, profiles))
        wanted = wanted[self._profiles[wanted] >= 0]
        for chunk in self._backend.chunks(columns, narrowed(self._window, window), wanted):
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
        return self._renumbered(whole)

    def _renumbered(self, whole: SideTable) -> SideTable:
        part = whole.take(np.flatnonzero(np.isin(whole.span, self._kept)))
        return SideTable(np.searchsorted(self._kept, part.span), part.columns)

    def side_chunks(self, name: str, part: int) -> Iterator[SideTable]:
        for table in Traces(spans_backend=self._backend).side_chunks(name, part):
            yield self._renumbered(table)

    def devices(self, part: int) -> Sequence[str]:
        return Traces(spans_backend=self._backend).devices(part)
