"""What is in an experiment, for `info`: read off its tables; the hottest function off a stored summary."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from callgrove.analysis.costs import costs
from callgrove.analysis.views import top
from callgrove.arrays import Ids, distinct
from callgrove.errors import UsageError
from callgrove.model.contexts import ContextKind
from callgrove.model.experiment import Experiment, InputWarning
from callgrove.model.metrics import Aggregation
from callgrove.model.profiles import ProfileKind
from callgrove.model.system import Topology

__all__ = ["Hottest", "Overview", "overview"]


@dataclass(frozen=True)
class Hottest:
    """The function with the highest exclusive cost. A minimum or a maximum is not a share of anything: no percent.
    Where costs are signed, `gain` and `loss` are what those above and below zero add up to, and percent is of both
    sizes."""

    metric: str
    unit: str
    name: str
    exclusive: float
    percent: float | None
    total: float
    gain: float = 0.0
    loss: float = 0.0


@dataclass(frozen=True)
class Overview:
    """The facts that `info` shows."""

    title: str
    path: str
    format: str
    version: str
    n_runs: int
    profiles: dict[str, int]
    n_nodes: int
    n_ranks: int
    contexts: dict[str, int]
    depth: int
    metrics: tuple[str, ...]
    n_hidden_metrics: int
    n_values: int | None
    n_samples: int
    n_spans: int
    time_range: tuple[int, int] | None
    n_sources: int
    n_missing_sources: int
    hottest: Hottest | None
    warnings: tuple[InputWarning, ...]
    parameters: tuple[str, ...] = ()
    another_metric: str = ""
    n_derived: int = 0
    n_unavailable: int = 0
    is_measurement: bool = False
    topologies: tuple[Topology, ...] = ()
    n_counters: int = 0  # values of counters over time, looked at where there is nothing else


def overview(experiment: Experiment) -> Overview:
    """Return the facts about one experiment."""
    e = experiment
    tree = e.contexts
    hottest = _hottest(e)
    first = hottest.metric if hottest is not None else ""
    shown = sorted(e.metrics.shown, key=lambda name: (name != first, name in e.metrics.derived))
    return Overview(
        title=e.title,
        path=e.path,
        format=e.format,
        version=e.version,
        n_runs=len(e.runs),
        profiles=_count_kinds(e.profiles.kind, [kind.word for kind in ProfileKind]),
        n_nodes=_distinct(e, "node"),
        n_ranks=_distinct(e, "rank"),
        contexts=_count_kinds(tree.kind, [kind.word for kind in ContextKind]),
        depth=int(tree.depth[: tree.n_listed].max()) + 1 if tree.n_listed else 0,
        metrics=tuple(shown),
        n_hidden_metrics=len(e.metrics.quantities) - len(shown),
        n_derived=len(e.metrics.derived),
        n_unavailable=len(e.metrics.unavailable),
        n_values=e.values.n_stored(),
        n_samples=e.traces.n_samples,
        n_spans=e.traces.n_spans,
        time_range=e.traces.time_range,
        n_sources=e.sources.n_present,
        n_missing_sources=len(e.sources) - e.sources.n_present,
        hottest=hottest,
        warnings=e.warnings,
        parameters=tuple(e.runs[0].parameters),
        another_metric=next((name for name in shown[1:] if e.metrics.first(name).aggregation == Aggregation.SUM), ""),
        is_measurement=e.is_measurement,
        topologies=e.system.topologies,
        n_counters=0 if e.metrics.quantities or e.traces.n_spans or e.traces.n_samples else _count_counters(e),
    )


def _count_counters(experiment: Experiment) -> int:
    counters = experiment.traces.counters
    return 0 if counters is None else len(counters.value)


def _count_kinds(kinds: Ids, words: Sequence[str]) -> dict[str, int]:
    """Return how often each kind occurs, the most frequent first, of equals the one that comes first."""
    counts = np.bincount(kinds, minlength=len(words))
    there = np.flatnonzero(counts).tolist()
    first = {kind: int(np.argmax(kinds == kind)) for kind in there}
    return {words[kind]: int(counts[kind]) for kind in sorted(there, key=lambda kind: (-counts[kind], first[kind]))}


def _distinct(experiment: Experiment, column: str) -> int:
    values, present = experiment.profiles.identity(column)
    return len(distinct(values[present]))


def _hottest(experiment: Experiment) -> Hottest | None:
    try:
        all_costs = costs(experiment)
        table = top(all_costs, limit=1)
    except UsageError:  # no metric, none that can be added up, or a formula that no function has a value of
        return None
    for name, exclusive, percent in zip(
        table.column("name").plain(), table.column("exclusive").plain(), table.column("percent").plain(), strict=True
    ):
        if exclusive is not None:
            signs = all_costs.gain_and_loss if all_costs.is_signed else (0.0, 0.0)
            return Hottest(
                all_costs.metric.name, all_costs.metric.unit, name, exclusive, percent, all_costs.total, *signs
            )
    return None
