"""Experiments made for pages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from threading import Event, current_thread
from typing import Any

import numpy as np

from callgrove.model.builder import ExperimentBuilder
from callgrove.model.contexts import ContextKind, Relation
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Metric, Scope
from callgrove.model.profiles import ProfileKind
from callgrove.model.traces.events import ArraySpans, Counters, SpanChunk, SpanKind, Traces
from tests.timing import HANG_SEC

__all__ = ["EVIL", "SlowSpans", "counted", "large", "slow_spans", "spans_of"]

EVIL = "<img src=x onerror=alert(1)>"


def spans_of(
    n_rows: int,
    n_spans: int,
    names: tuple[str, ...] = ("a", "b"),
    kind: SpanKind = SpanKind.KERNEL,
    *,
    n_idle: int = 0,
) -> Experiment:
    """Rows of spans of 80 ns, one every 100 ns; and ranks that have none."""
    builder = ExperimentBuilder("made", title="made")
    for rank in range(n_rows + n_idle):
        builder.add_profile(ProfileKind.THREAD, [(2, rank, rank, 3)])
    n = n_rows * n_spans
    number = np.tile(np.arange(n_spans), n_rows)
    columns = {name: np.full(n, -1) for name in ("category", "correlation", "context")}
    columns |= {
        "profile": np.repeat(np.arange(n_rows), n_spans),
        "kind": np.full(n, int(kind)),
        "depth": np.zeros(n, int),
    }
    columns |= {"name": number % len(names), "start_ns": number * 100, "end_ns": number * 100 + 80}
    builder.set_traces(None, ArraySpans(columns, names))
    return builder.build()


@dataclass
class SlowSpans:
    """Spans that come in two parts to whoever builds an index: the second when it may, the first when it may begin."""

    inner: ArraySpans
    may_begin: Event = field(default_factory=Event)
    has_begun: Event = field(default_factory=Event)
    may_go_on: Event = field(default_factory=Event)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def chunks(self, columns: Sequence[str], window: Any, profiles: Any) -> Iterator[SpanChunk]:
        (whole,) = self.inner.chunks(columns, window, profiles)
        if current_thread().name != "timeline-index":
            yield whole
            return
        half = len(whole["span"]) // 2
        assert self.may_begin.wait(HANG_SEC)
        yield {name: column[:half] for name, column in whole.items()}
        self.has_begun.set()
        assert self.may_go_on.wait(HANG_SEC)
        yield {name: column[half:] for name, column in whole.items()}


def slow_spans(n_rows: int, n_spans: int, *, begins: bool = True) -> tuple[Experiment, SlowSpans]:
    """Rows of `a` and `b` by turns; the first half of the rows comes first, at once unless it waits."""
    made = spans_of(n_rows, n_spans, kind=SpanKind.REGION)
    assert isinstance(made.traces.spans_backend, ArraySpans)
    slow = SlowSpans(made.traces.spans_backend)
    if begins:
        slow.may_begin.set()
    return replace(made, traces=Traces(spans_backend=slow)), slow


def counted() -> Experiment:
    """Two ranks with spans until 9,980 ns: the power of the first is 2 until 5,000 ns, then 8. Another rank has four
    counters alone, whose values are 1 to 4."""
    made = spans_of(2, 100, n_idle=1)
    names = ("power", "a", "b", "c", "d")
    profile, name = np.array([0, 0, 2, 2, 2, 2], np.int32), np.array([0, 0, 1, 2, 3, 4], np.int32)
    time, value = np.array([0, 5_000, 0, 0, 0, 0], np.int64), np.array([2.0, 8, 1, 2, 3, 4])
    counters = Counters(profile, name, time, value, names)
    return replace(made, traces=replace(made.traces, counters_source=counters))


def large(n_contexts: int = 100_000, n_profiles: int = 1_024) -> Experiment:
    """A random tree of functions; each profile has some hundred values."""
    chance = np.random.default_rng(7)
    builder = ExperimentBuilder("made-up", title="large")
    regions = [
        builder.region(ContextKind.FUNCTION, f"function_{k}", file=builder.file(f"f{k % 99}.c")) for k in range(3000)
    ]
    parent = np.maximum(np.arange(n_contexts) - 1 - (chance.pareto(0.6, n_contexts)).astype(np.int64), -1)
    parent = np.where(np.arange(n_contexts) == 0, -1, np.maximum(parent, 0))
    region = np.array(regions)[chance.integers(0, len(regions), n_contexts)]
    builder.add_contexts(
        parent=parent, kind=np.full(n_contexts, int(ContextKind.FUNCTION)), region=region,
        relation=np.full(n_contexts, int(Relation.CALL)),
    )  # fmt: skip
    for name in ("time", "cycles", "instructions"):
        builder.add_metric(Metric(name, Scope.EXCLUSIVE, unit="sec" if name == "time" else ""))
    for rank in range(n_profiles):
        profile = builder.add_profile(ProfileKind.THREAD, [(2, rank, rank, 3), (3, 0, 0, 3)])
        chosen = np.unique(chance.integers(0, n_contexts, 300))
        for metric in range(3):
            builder.add_values(profile, chosen, metric, chance.pareto(1.2, len(chosen)))
    return builder.build()
