"""What happened over time, as tables: samples, spans and counters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from callgrove.model.arrays import ABSENT, Array, Ints
from callgrove.model.table import CHUNK, Column, Table
from callgrove.model.traces import Samples, SpanKind, Traces

__all__ = ["counter_tables", "sample_tables", "span_tables"]

SPAN_NAMES = ("profile", "kind", "category", "name", "start_ns", "end_ns", "depth", "correlation")


def sample_tables(traces: Traces, profiles: Ints | None = None) -> Iterator[Table]:
    """Samples, line after line."""
    empty = True
    for profile, metric, line in traces.lines(profiles):
        for first in range(0, len(line), CHUNK):
            part = Samples(line.time_ns[first : first + CHUNK], line.context[first : first + CHUNK])
            yield _sample_table(profile, metric, part)
            empty = False
    if empty:
        yield _sample_table(0, ABSENT, Samples(np.empty(0, np.int64), np.empty(0, np.int32)))


def _sample_table(profile: int, metric: int, samples: Samples) -> Table:
    n = len(samples)
    return Table(
        (
            Column("profile", np.full(n, profile)),
            Column("time_ns", samples.time_ns),
            Column("context", samples.context, ABSENT),
            Column("metric", np.full(n, metric), ABSENT),
        )
    )


def span_tables(traces: Traces, profiles: Ints | None = None) -> Iterator[Table]:
    """Spans in the order of the file."""
    backend = traces.spans_backend
    empty = True
    for chunk in traces.spans(SPAN_NAMES, profiles=profiles):
        assert backend is not None
        yield Table(tuple(_span_column(name, chunk[name], backend.strings) for name in SPAN_NAMES))
        empty = False
    if empty:
        yield Table(tuple(Column(name, []) for name in SPAN_NAMES))


def _span_column(name: str, values: Array, strings: Sequence[str]) -> Column:
    if name == "kind":
        return Column(name, [SpanKind(k).word for k in values.tolist()])
    if name in ("category", "name"):
        return Column(name, [strings[k] if k >= 0 else None for k in values.tolist()])
    return Column(name, values, None if name.endswith("_ns") else ABSENT)


def counter_tables(traces: Traces, profiles: Ints | None = None) -> Iterator[Table]:
    """Values of quantities over time, all at once."""
    counters = traces.counters
    if counters is None:
        yield Table(tuple(Column(name, []) for name in ("profile", "name", "time_ns", "value")))
        return
    kept = np.ones(len(counters), np.bool_)
    if profiles is not None:
        kept = np.isin(counters.profile, profiles)
    yield Table(
        (
            Column("profile", counters.profile[kept]),
            Column("name", [counters.names[k] for k in counters.name[kept].tolist()]),
            Column("time_ns", counters.time_ns[kept]),
            Column("value", counters.value[kept]),
        )
    )
