"""The traces of several inputs as one, with the tables beside them; nothing is copied.

A sample on a context that the result does not have is idle (-1). Lines, spans and counters of profiles that are left
out are left out. A profile that several inputs have keeps the samples, the spans and the counters of the first of them
that has any. Tables beside spans stay with the spans.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from callgrove.arrays import ABSENT, Array, Bools, Ids, Ints, Names, Translation, absent_stays
from callgrove.errors import CallgroveError
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.experiment import Experiment
from callgrove.model.traces.events import (
    LABEL,
    Counters,
    Device,
    SampleBackend,
    Samples,
    SideTable,
    SpanBackend,
    SpanChunk,
    Traces,
    Window,
    separate_flows,
)
from callgrove.model.traces.selected import KeptTables, chain_tables

__all__ = ["Renumbered", "chain_traces", "losses_of_traces", "set_traces"]


# -- traces of several inputs as one -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Renumbered:
    """The traces of one input. Each map gives the id in the result, -1 where there is none."""

    traces: Traces
    profiles: Ids
    contexts: Ids
    metrics: Ids


def chain_traces(parts: Sequence[Renumbered], n_profiles: int) -> Traces:
    """Return traces one after the other; the result has so many profiles."""
    samples = _first_come([p for p in parts if p.traces.samples is not None], _profiles_with_samples)
    spans = _first_come([p for p in parts if p.traces.n_spans], lambda part: part.profiles)
    counters = _first_come([p for p in parts if p.traces.counters is not None], _profiles_with_counters)
    ranges = [p.traces.time_range for p in parts if p.traces.time_range is not None]
    return Traces(
        ChainedSamples(samples) if samples else None,
        ChainedSpans(spans) if spans else None,
        _counters(counters),
        (min(r[0] for r in ranges), max(r[1] for r in ranges)) if ranges else None,
        tables=chain_tables([KeptTables(p.traces, p.profiles) for p in spans], n_profiles),
    )


def losses_of_traces(parts: Sequence[Renumbered]) -> Iterator[str]:
    """Yield what is left out of the traces of several inputs, because an earlier input has some of the same profile."""
    sampled = [part for part in parts if part.traces.samples is not None]
    for one, kept in zip(sampled, _first_come(sampled, _profiles_with_samples), strict=True):
        assert one.traces.samples is not None
        lines = one.traces.samples
        lost = (one.profiles[lines.profile] >= 0) & (kept.profiles[lines.profile] < 0)
        if n := int(lines.count[lost].sum()):
            n_profiles = len(np.unique(lines.profile[lost & (lines.count > 0)]))
            yield f"samples: {n} of {n_profiles} profiles of which an earlier input has samples"
    spanned = [part for part in parts if part.traces.n_spans]
    for one, kept in zip(spanned, _first_come(spanned, lambda part: part.profiles), strict=True):
        if n := int(((one.profiles >= 0) & (kept.profiles < 0)).sum()):
            yield f"spans of {n} profiles that an earlier input with spans has as well"


def _first_come(parts: Sequence[Renumbered], having: Callable[[Renumbered], Ids]) -> list[Renumbered]:
    """Return the parts without profiles that an earlier one has; `having` gives the profiles that a part has."""
    seen = np.empty(0, np.int32)
    out = []
    for part in parts:
        fresh = replace(part, profiles=np.where(np.isin(part.profiles, seen), np.int32(ABSENT), part.profiles))
        out.append(fresh)
        profiles = having(part)
        seen = np.union1d(seen, profiles[profiles >= 0])
    return out


def _profiles_with_samples(part: Renumbered) -> Ids:
    assert part.traces.samples is not None
    return part.profiles[part.traces.samples.profile]


def _profiles_with_counters(part: Renumbered) -> Ids:
    assert part.traces.counters is not None
    return part.profiles[part.traces.counters.profile]


def set_traces(builder: ExperimentBuilder, traces: Traces) -> None:
    """Give traces that were chained to a builder."""
    builder.set_traces(traces.samples, traces.spans_backend, traces.counters, traces.time_range, tables=traces.tables)


def has_traces(experiment: Experiment) -> bool:
    traces = experiment.traces
    counters = 0 if traces.counters is None else len(traces.counters)
    return bool(traces.n_lines or traces.n_spans or counters)


class ChainedSamples:
    """Sample lines of several inputs."""

    def __init__(self, parts: Sequence[Renumbered]) -> None:
        self._backends: list[SampleBackend] = []
        rows: list[tuple[Ids, Ids, Ints, Ints, Ints]] = []
        self._contexts = [absent_stays(part.contexts) for part in parts]
        for number, part in enumerate(parts):
            assert part.traces.samples is not None
            samples = part.traces.samples
            self._backends.append(samples)
            profile, metric = part.profiles[samples.profile], absent_stays(part.metrics)[samples.metric]
            kept = np.flatnonzero((profile >= 0) & ((samples.metric < 0) | (metric >= 0)))
            rows.append((profile[kept], metric[kept], samples.count[kept], np.full(len(kept), number), kept))
        self.profile, self.metric, self.count, self._part, self._line = (
            np.concatenate(column) for column in zip(*rows, strict=True)
        )

    @property
    def problems(self) -> list[CallgroveError]:
        return [problem for backend in self._backends for problem in backend.problems]

    def line(self, line: int, window: Window | None = None) -> Samples:
        part = int(self._part[line])
        samples = self._backends[part].line(int(self._line[line]), window)
        return Samples(samples.time_ns, self._contexts[part][samples.context], samples.until_ns)


class ChainedSpans:
    """Spans of several inputs. Those of an input follow those of the one before, and are numbered on from there."""

    def __init__(self, parts: Sequence[Renumbered]) -> None:
        self._parts = tuple(parts)
        self._backends: list[SpanBackend] = [
            p.traces.spans_backend for p in parts if p.traces.spans_backend is not None
        ]
        counts = [backend.count() for backend in self._backends]
        self._offsets = np.cumsum([0, *counts]).tolist()
        self._names = Names()
        self._translations = [Translation(self._names) for _ in self._backends]

    @property
    def strings(self) -> Sequence[str]:
        """It grows while chunks are read, as that of an input may."""
        return self._names.all

    def count(self) -> int:
        return sum(
            self._offsets[k + 1] - self._offsets[k] if self._is_whole(k) else len(self._find_kept_spans(k))
            for k in range(len(self._parts))
        )

    def _is_whole(self, part: int) -> bool:
        return bool((self._parts[part].profiles >= 0).all())

    def _find_kept_spans(self, part: int) -> Ints:
        """Return the spans of an input whose profiles are in the result, in the numbers of the input."""
        backend, profiles = self._backends[part], self._parts[part].profiles
        spans = [c["span"][_stay(c["profile"], profiles)] for c in backend.chunks(("profile",), None, None)]
        return np.concatenate(spans) if spans else np.empty(0, np.int64)

    def chunks(self, columns: Sequence[str], window: Window | None, profiles: Ints | None) -> Iterator[SpanChunk]:
        asked = tuple(dict.fromkeys((*columns, "profile")))
        for number, (part, backend) in enumerate(zip(self._parts, self._backends, strict=True)):
            input_profiles = (
                None if profiles is None else np.flatnonzero(np.isin(part.profiles, profiles) & (part.profiles >= 0))
            )
            for chunk in backend.chunks(asked, window, input_profiles):
                rows = np.flatnonzero(_stay(chunk["profile"], part.profiles))
                if len(rows):
                    yield {
                        name: self._outward(name, chunk[name][rows], number)
                        for name in ("span", *(c for c in asked if c in columns))
                    }

    def _outward(self, name: str, values: Array, number: int) -> Array:
        part = self._parts[number]
        if name == "profile":
            return absent_stays(part.profiles)[values]
        if name == "context":
            return absent_stays(part.contexts)[values]
        if name in ("name", "category", LABEL):
            return self._translations[number].numbers(values, self._backends[number].strings)
        return values + self._offsets[number] if name == "span" else values

    def parts(self) -> Sequence[Ints]:
        """Return the parts of every input, one after the other; some may be empty."""
        numbered = [
            input_.profiles[part]
            for input_, backend in zip(self._parts, self._backends, strict=True)
            for part in backend.parts()
        ]
        return [part[part >= 0].astype(np.int64) for part in numbered]

    def devices(self, part: int) -> Sequence[Device]:
        first = 0
        for backend in self._backends:
            n_parts = len(backend.parts())
            if first <= part < first + n_parts:
                return Traces(spans_backend=backend).devices(part - first)
            first += n_parts
        return ()

    def _sides(self, name: str, part: int | None) -> Iterator[tuple[int, SideTable | None]]:
        first = 0
        for number, backend in enumerate(self._backends):
            if part is None:
                yield number, backend.side(name)
                continue
            n_parts = len(backend.parts())
            if first <= part < first + n_parts:
                yield number, backend.side(name, part - first)
            first += n_parts

    def side(self, name: str, part: int | None = None) -> SideTable | None:
        found = [(number, side) for number, side in self._sides(name, part) if side is not None]
        if not found:
            return None
        tables = separate_flows(name, [side for _, side in found])
        sides = [(number, side) for (number, _), side in zip(found, tables, strict=True)]
        spans: list[Ints] = []
        columns: dict[str, list[Array | tuple[object, ...]]] = {}
        shared = set.intersection(*(set(side.columns) for _, side in sides))
        for number, side in sides:
            rows = np.arange(len(side.span))
            if not self._is_whole(number):
                rows = np.flatnonzero(np.isin(side.span, self._find_kept_spans(number)))
            spans.append(side.span[rows] + self._offsets[number])
            for column in (c for c in side.columns if c in shared):
                columns.setdefault(column, []).append(_take_rows(side.columns[column], rows))
        return SideTable(np.concatenate(spans), {c: _join_columns(parts) for c, parts in columns.items()})


def _stay(profile: Array, new_profiles: Ids) -> Bools:
    stay: Bools = (profile < 0) | (absent_stays(new_profiles)[profile] >= 0)
    return stay


def _take_rows(column: Array | tuple[object, ...], rows: Ints) -> Array | tuple[object, ...]:
    return column[rows] if isinstance(column, np.ndarray) else tuple(column[k] for k in rows.tolist())


def _join_columns(parts: Sequence[Array | tuple[object, ...]]) -> Array | tuple[object, ...]:
    arrays = [part for part in parts if isinstance(part, np.ndarray)]
    if len(arrays) == len(parts):
        return np.concatenate(arrays)
    return tuple(cell for part in parts for cell in (part.tolist() if isinstance(part, np.ndarray) else part))


def _counters(parts: Sequence[Renumbered]) -> Counters | None:
    columns: list[Mapping[str, Array]] = []
    names: list[str] = []
    for part in parts:
        counters = part.traces.counters
        assert counters is not None
        profile = part.profiles[counters.profile]
        kept = profile >= 0
        columns.append(
            {
                "profile": profile[kept],
                "name": counters.name[kept] + np.int32(len(names)),
                "time_ns": counters.time_ns[kept],
                "value": counters.value[kept],
            }
        )
        names += counters.names
    if not columns:
        return None
    joined = {name: np.concatenate([c[name] for c in columns]) for name in columns[0]}
    return Counters(**joined, names=tuple(names))
