"""Experiments made for pages."""

from __future__ import annotations

import numpy as np

from callgrove.model.builder import ExperimentBuilder
from callgrove.model.contexts import ContextKind, Relation
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Metric, Scope
from callgrove.model.profiles import ProfileKind
from callgrove.model.traces.events import ArraySpans, SpanKind

__all__ = ["EVIL", "large", "spans_of"]

EVIL = "<img src=x onerror=alert(1)>"


def spans_of(
    n_rows: int, n_spans: int, names: tuple[str, ...] = ("a", "b"), kind: SpanKind = SpanKind.KERNEL
) -> Experiment:
    """Rows of spans of 80 ns, one every 100 ns."""
    builder = ExperimentBuilder("made", title="made")
    for rank in range(n_rows):
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
